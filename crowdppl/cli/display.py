"""Tables and sentences on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich import box
from rich.markup import escape
from rich.table import Table

from crowdppl.cli.application import console, in_command
from crowdppl.data.columns import ITEM_COLUMNS
from crowdppl.inference.coverage import NARROW
from crowdppl.posterior.effects import has_effects
from crowdppl.posterior.posterior import Posterior, probability_columns
from crowdppl.posterior.sets import has_sets, shares
from crowdppl.posterior.spans import MEASURES as SPAN_MEASURES
from crowdppl.posterior.spans import has_spans
from crowdppl.posterior.workers import NOTABLE, UNRELIABLE, VERDICTS, other_rates
from crowdppl.posterior.workers.grading import has_criteria

if TYPE_CHECKING:
    from crowdppl import criticism, report
    from crowdppl.posterior.numbers import NumericPosterior

    Comparison = tuple[criticism.Calibration, criticism.Coverage]

SHOWN_ITEMS = 12
SHOWN_WORKERS = 20
# An item whose label is less probable is listed among the least certain.
CERTAIN = 0.95
BAR = 10  # characters
# Marks before verdicts, so that they are also visible without colour.
MARKS = dict.fromkeys(NOTABLE, "!") | dict.fromkeys(UNRELIABLE, "x")
COLOURS = {"!": "yellow", "x": "red"}


def grid(title: str) -> Table:
    """Return an empty table with a title."""
    return Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)


def show_alert(posterior: Posterior | NumericPosterior) -> None:
    """Print first of all that the chains have not converged, or that classes were lost, if so."""
    if posterior.alert:
        console.print(f"[bold red]{escape(in_command(posterior.alert))}[/bold red]")


def show_notes(sentences: Sequence[str]) -> None:
    """Print sentences as notes."""
    for sentence in sentences:
        console.print(f"[yellow]Note:[/yellow] {escape(in_command(sentence))}")


def show_actions(actions: report.Actions, posterior: Posterior) -> None:
    """Print what to do, in a few lines: the same as the report's first screen."""
    from crowdppl import report  # here: slow to import

    console.print("\n[bold]What to do[/bold]")
    for line in report.lines(actions, posterior)[bool(posterior.alert) :]:  # an alert is shown above
        head, colon, rest = line.partition(": ")
        console.print(f"- [bold]{escape(head)}[/bold]{colon}{escape(rest)}" if colon else f"  {escape(line)}")


def show_truth(posterior: Posterior, level: float) -> None:
    """Print the share of each class and the least certain items; of grades the items whose mean misleads most."""
    if posterior.graded:
        show_grades(posterior, level)
        return
    if has_spans(posterior):
        show_spans(posterior)
        return
    if has_sets(posterior):
        show_sets(posterior)
        return
    truth = posterior.truth()
    shares = posterior.prevalence()
    listed = ", ".join(f"{escape(str(row.label))} {row.share:.0%}" for row in shares.head(8).itertuples())
    console.print(f"\nShare of each class: {listed}{' ...' if len(shares) > 8 else ''}")
    for sentence in other_rates.sentences(posterior):
        console.print(escape(sentence))
    uncertain = truth[truth["probability"] < CERTAIN].sort_values("probability", kind="stable")
    certain = len(truth) - len(uncertain)
    console.print(f"{certain:,} of {len(truth):,} items have a label that is at least {CERTAIN:.0%} probable.")
    classes = list(zip(posterior.labels.tolist(), probability_columns(posterior.labels), strict=True))

    def written(row: dict[Any, Any]) -> list[str]:
        rest = sorted(((row[p], str(k)) for k, p in classes if k != row["label"]), reverse=True)
        others = ", ".join(f"{k} {p:.0%}" for p, k in rest[:3] if p >= 0.005)
        return [str(row[posterior.item_column]), str(row["label"]), f"{row['probability']:.2f}", others]

    title, columns = "True labels: the least certain items", ("item", "label", "probability", "otherwise")
    _show_first(uncertain, title, columns, {"probability"}, written, "truth.csv")


def _show_first(
    rows: pd.DataFrame,
    title: str,
    columns: Sequence[str],
    numbers: Collection[str],
    written: Callable[[dict[Any, Any]], list[str]],
    file: str,
) -> None:
    """Print the first rows, the least certain ones, if there are any.

    Args:
        rows: in this order.
        title: of the table.
        columns: its columns.
        numbers: those of them that are numbers.
        written: the parts of a row.
        file: that has all rows.
    """
    shown = rows.head(SHOWN_ITEMS)
    if len(shown) == 0:
        return
    table = grid(title)
    for column in columns:
        table.add_column(column, justify="right" if column in numbers else "left")
    for row in shown.to_dict("records"):
        table.add_row(*map(escape, written(row)))
    console.print(table)
    if len(rows) > len(shown):
        console.print(f"... and {len(rows) - len(shown):,} more in {file}")


def show_grades(posterior: Posterior, level: float) -> None:
    """Print the share of each grade, and the items whose mean grade is farthest from the expected true one."""
    shares = posterior.prevalence()
    listed = ", ".join(f"{escape(str(row.label))} {row.share:.0%}" for row in shares.head(8).itertuples())
    console.print(f"\nShare of each true grade: {listed}{' ...' if len(shares) > 8 else ''}")
    grades = posterior.grades(level=level)
    apart = (grades["mean_grade"] - grades["grade"]).abs()
    shown = grades.loc[apart.sort_values(ascending=False, kind="stable").index[:SHOWN_ITEMS]]
    table = grid(f"Items whose mean grade is farthest from the expected true grade (intervals of at least {level:.0%})")
    for column in ("item", "annotations", "mean", "true grade", "interval"):
        table.add_column(column, justify="left" if column in ("item", "interval") else "right")
    for row in shown.to_dict("records"):
        table.add_row(
            escape(str(row[posterior.item_column])),
            f"{row['annotations']:,}",
            "none" if pd.isna(row["mean_grade"]) else f"{row['mean_grade']:.2f}",
            f"{row['grade']:.2f}",
            escape(" to ".join(dict.fromkeys(str(row[f"grade_{end}"]) for end in ("low", "high")))),
        )
    console.print(table)
    if len(grades) > len(shown):
        console.print(f"... and {len(grades) - len(shown):,} more in truth.csv")


def _show_raters(shown: pd.DataFrame, title: str) -> None:
    """Print raters of grades: severity, interval, correlation and verdict."""
    table = grid(title)
    table.add_column("worker", overflow="ellipsis", no_wrap=True)
    for column in ("grades", "mean", "severity"):
        table.add_column(column, justify="right", no_wrap=True, min_width=len(column))
    table.add_column("interval", no_wrap=True, min_width=14)
    table.add_column("corr.", justify="right", no_wrap=True, min_width=5)
    table.add_column("verdict", no_wrap=True, min_width=2 + max(map(len, VERDICTS)))
    for row in shown.to_dict("records"):
        mark = MARKS.get(row["verdict"], " ")
        low, high = row["severity_low"], row["severity_high"]
        table.add_row(
            escape(str(row["worker"])),
            f"{row['annotations']:,}",
            "none" if pd.isna(row["mean_grade"]) else f"{row['mean_grade']:.2f}",
            f"{row['severity']:+.2f}",
            f"{low:+.2f} to {high:+.2f}" if pd.notna(low) else "none",
            f"{row['grade_correlation']:.2f}",
            f"{mark} {row['verdict']}",
            style=COLOURS.get(mark, ""),
        )
    console.print(table)
    console.print(
        "severity: by how many grades lower than the mean rater, on the same items; corr.: correlation of the grades with the "
        "true ones; x: do not use unchecked; !: talk to them",
        style="dim",
    )


def show_criteria(posterior: Posterior, level: float) -> None:
    """Print how difficult each criterion is, if grades are by several."""
    if not has_criteria(posterior):
        return
    table = grid(f"Criteria, the most difficult ones first (intervals of {level:.0%})")
    table.add_column("criterion", overflow="ellipsis", no_wrap=True)
    for column in ("grades", "mean", "difficulty", "interval"):
        table.add_column(column, justify="right", no_wrap=True)
    rows = posterior.criteria(level=level).sort_values("difficulty", ascending=False, kind="stable")
    for row in rows.head(SHOWN_WORKERS).to_dict("records"):
        low, high = row["difficulty_low"], row["difficulty_high"]
        cells = [f"{row['annotations']:,}", "none" if pd.isna(row["mean_grade"]) else f"{row['mean_grade']:.2f}"]
        cells += [f"{row['difficulty']:+.2f}", f"{low:+.2f} to {high:+.2f}" if pd.notna(low) else "none"]
        table.add_row(escape(str(row["criterion"])), *cells)
    console.print(table)
    console.print(
        "difficulty: by how many grades lower than by the mean criterion, of the same items by the same raters; all in "
        "criteria.csv",
        style="dim",
    )


def show_rater_fit(posterior: Posterior, level: float) -> None:
    """Print agreement on grades, and infit and outfit of raters, those first that are farthest from what is usual."""
    from crowdppl.report import grades  # here: slow to import

    content = grades.grades(posterior, level)
    if content is None:
        return
    if content["agreement"]:
        table = grid(f"Agreement of the raters (intervals of {level:.0%})")
        for column in ("measure", "value", "interval", "items"):
            table.add_column(column, justify="left" if column in ("measure", "interval") else "right")
        for row in content["agreement"]:
            table.add_row(*map(escape, row))
        console.print(table)
    if content["fit"] is None:
        return
    table = grid(f"Fit of raters, beside what is usual ({level:.0%}) if they differed in severity alone")
    table.add_column("worker", overflow="ellipsis", no_wrap=True)
    for column in ("grades", "infit", "usual", "p", "outfit", "usual", "p"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in content["fit"][:SHOWN_WORKERS]:
        table.add_row(*map(escape, row))
    console.print(table)
    console.print(escape(content["sentence"]))
    console.print(
        "infit, outfit: mean squared residuals of a rater's grades given the others; above the usual range: grades follow the "
        "items more loosely than the crowd's",
        style="dim",
    )


def show_spans(posterior: Posterior) -> None:
    """Print how many spans of each type there are, and the least certain ones."""
    spans = posterior.spans(every=True)
    chosen = spans[spans["chosen"]]
    expected = spans.groupby("type", sort=False)["probability"].sum()
    counts = [(str(kind), int(count)) for kind, count in chosen["type"].value_counts().items()]
    kinds = ", ".join(f"{escape(kind)} {count:,} (about {expected[kind]:,.0f} expected)" for kind, count in counts)
    console.print(f"\nSpans in the most probable labels: {kinds or 'none'}.")
    certain = int((chosen["probability"] >= CERTAIN).sum())
    console.print(f"{certain:,} of {len(chosen):,} spans are at least {CERTAIN:.0%} probable.")
    uncertain = chosen[chosen["probability"] < CERTAIN].sort_values("probability", kind="stable")

    def written(row: dict[Any, Any]) -> list[str]:
        place = [str(row[name]) for name in ("sequence", "first", "last", "type")]
        return [*place, f"{row['probability']:.2f}", f"{row['workers']} of {row['of_workers']}"]

    title, columns = "Spans: the least certain ones", ("sequence", "from", "to", "type", "probability", "workers")
    _show_first(uncertain, title, columns, {"from", "to", "probability", "workers"}, written, "spans.csv")


def show_sets(posterior: Posterior) -> None:
    """Print how often each label is in a set, and the least certain sets."""
    table = grid("Labels")
    for column in ("label", "in true sets", "chosen"):
        table.add_column(column, justify="left" if column == "label" else "right")
    each = shares(posterior).sort_values("share", ascending=False, kind="stable")
    for row in each.head(SHOWN_WORKERS).to_dict("records"):
        table.add_row(escape(str(row["label"])), f"{row['share']:.0%}", f"{row['chosen']:.0%}")
    console.print(table)
    if len(each) > SHOWN_WORKERS:
        console.print(f"... and {len(each) - SHOWN_WORKERS:,} more labels")
    sets = posterior.sets()
    sure = int((sets["probability"] >= CERTAIN).sum())
    console.print(f"{sure:,} of {len(sets):,} tasks have a set that is at least {CERTAIN:.0%} probable.")
    uncertain = sets[sets["probability"] < CERTAIN].sort_values("probability", kind="stable")

    def written(row: dict[Any, Any]) -> list[str]:
        names = [str(row[name]) for name in (posterior.item_column, "labels")]
        return [*names, f"{row['probability']:.2f}", f"{row['annotations']:,}"]

    title, columns = "Sets: the least certain tasks", (posterior.item_column, "labels", "probability", "annotations")
    _show_first(uncertain, title, columns, {"probability", "annotations"}, written, "sets.csv")


def show_effects(posterior: Posterior, level: float) -> None:
    """Print what accuracy depends on, if the model has effects of covariates."""
    if not has_effects(posterior):
        return
    table = grid("What accuracy depends on")
    table.add_column("covariate", overflow="ellipsis", no_wrap=True)
    for column in ("accuracy, points", "interval", "log odds", "positive"):
        table.add_column(column, justify="right", no_wrap=True)
    rows = posterior.effects(level=level)
    for row in rows.head(SHOWN_WORKERS).to_dict("records"):
        change, low, high = (100 * float(row[f"accuracy_change{end}"]) for end in ("", "_low", "_high"))
        cells = [f"{change:+.1f}", f"{low:+.1f} to {high:+.1f}", f"{row['effect']:+.3g}"]
        table.add_row(escape(str(row["covariate"])), *cells, f"{row['probability_positive']:.0%}")
    console.print(table)
    console.print("points of accuracy for one unit more, or for a level in place of the baseline; all in effects.csv")


def _show_markers(workers: pd.DataFrame, title: str) -> None:
    """Print workers who mark spans: how many, and which share of theirs, and of those that are there, is right."""
    table = grid(title)
    table.add_column("worker", overflow="ellipsis", no_wrap=True)
    for column in ("spans", "precision", "interval", "recall", "interval", "ends", "type"):
        table.add_column(column, justify="right", no_wrap=True, min_width=min(8, len(column)))
    for row in workers.to_dict("records"):
        cells = [f"{row['spans']:,}"]
        for name in SPAN_MEASURES:
            mean, low, high = (float(row[f"{name}{end}"]) for end in ("", "_low", "_high"))
            cells += ["", ""] if pd.isna(mean) else [f"{mean:.0%}", f"{100 * low:.0f}–{high:.0%}"]
        errors = [row["boundary_errors"], row["type_errors"]]
        table.add_row(escape(str(row["worker"])), *cells, *("" if pd.isna(part) else f"{part:.0%}" for part in errors))
    console.print(table)
    console.print(
        "precision: share of the worker's spans that are right; recall: share of the spans there that the worker marked; ends, "
        "type: share of the worker's spans with wrong ends, or with a wrong type",
        style="dim",
    )


def show_workers(workers: pd.DataFrame, level: float) -> None:
    """Print the workers with most annotations: accuracy, interval and verdict; of grades severity in place of accuracy."""
    ordered = workers.sort_values("annotations", ascending=False, kind="stable")
    shown = ordered.head(SHOWN_WORKERS)
    most = f", the {len(shown)} with most annotations" if len(shown) < len(ordered) else ""
    title = f"Workers{most} (intervals of {level:.0%})"
    if "severity" in workers:
        _show_raters(shown, title)
        return
    if SPAN_MEASURES[0] in workers:
        _show_markers(shown, title)
        return
    table = grid(title)
    table.add_column("worker", overflow="ellipsis", no_wrap=True)
    table.add_column("annotations", justify="right", no_wrap=True, min_width=10)
    table.add_column("accuracy", justify="right", no_wrap=True, min_width=8)
    table.add_column("interval", no_wrap=True, min_width=8)
    table.add_column("0" + " " * (BAR - 2) + "1", no_wrap=True, min_width=BAR)
    table.add_column("verdict", no_wrap=True, min_width=2 + max(map(len, VERDICTS)))
    for row in shown.to_dict("records"):
        mean, low, high = (float(row[f"accuracy{end}"]) for end in ("", "_low", "_high"))
        mark = MARKS.get(row["verdict"], " ")
        table.add_row(
            escape(str(row["worker"])),
            f"{row['annotations']:,}",
            f"{mean:.0%}",
            f"{100 * low:.0f}–{high:.0%}" if pd.notna(low) else "none",
            interval_bar(mean, low, high),
            f"{mark} {row['verdict']}",
            style=COLOURS.get(mark, ""),
        )
    console.print(table)
    console.print(
        "accuracy: probability that a further annotation is correct; x: do not use unchecked; !: retrain",
        style="dim",
    )


def interval_bar(mean: float, low: float, high: float, width: int = BAR) -> str:
    """Draw an interval on the scale from 0 to 1, as text."""
    if pd.isna(low):
        low = high = mean
    cell = [min(width - 1, int(x * width)) for x in (low, mean, high)]
    line = ["·"] * width
    line[cell[0] : cell[2] + 1] = ["─"] * (cell[2] - cell[0] + 1)
    line[cell[1]] = "●"
    return "".join(line)


def show_computation(posterior: Posterior, *, verbose: bool = False) -> None:
    """Print all notes and warnings, then how the result was computed and what its intervals allow for.

    Args:
        posterior: a result.
        verbose: whether to print all that is known of the computation, in place of a short paragraph.
    """
    # An alert stands above everything else.
    show_notes(posterior.notes + [sentence for sentence in posterior.warnings if sentence not in posterior.alerts])
    info = posterior.info
    ran = f"{info['model']} by {info['method']} in {info['seconds']:.1f} s"
    if not verbose:
        console.print(
            f"{ran}. {_intervals(posterior)} How they were computed and their coverage on public data: --verbose, run.json "
            "or the appendix of the report.",
            style="dim",
        )
        return
    method = in_command(posterior.interval_method[0].upper() + posterior.interval_method[1:])
    console.print(f"{ran}. {escape(method)}")
    show_chains(info["facts"], _stored(posterior))
    console.print(escape(in_command(posterior.correlation)))
    console.print(escape(posterior.coverage), style="dim")


def show_chains(facts: Mapping[str, Any], stored: str = "") -> None:
    """Print how the chains of a fit stand, if it had any; ``stored`` says how many draws are kept."""
    if facts.get("r_hat") and facts.get("ess"):
        rhat, ess = max(facts["r_hat"].values()), min(facts["ess"].values())
        console.print(
            f"Chains: R-hat at most {rhat:.3f} (1.01 or less is good), effective sample size at least {ess:,.0f} of "
            f"{facts['chains'] * facts['num_samples']:,} draws{stored}."
        )


def _intervals(posterior: Posterior) -> str:
    """Return what intervals allow for, in one sentence."""
    if posterior.kind == "point":
        return "There are point estimates only, without intervals."
    errors = "allow for errors that workers share" if posterior.calibrated else "take errors of workers as independent"
    narrow = ", and are too narrow on public data" if posterior.coverage.endswith(NARROW) else ""
    return f"Intervals {errors}{narrow}."


def _stored(posterior: Posterior) -> str:
    """Say how many draws are stored where that is fewer than the run had, and what they are worth."""
    facts, sizes = posterior.info["facts"], posterior.tree["posterior"].sizes
    stored, worth = sizes["chain"] * sizes["draw"], facts.get("ess_stored")
    if not worth or stored >= facts["chains"] * facts["num_samples"]:
        return ""
    return f"; {stored:,} of them are kept, with an effective sample size of at least {min(worth.values()):,.0f}"


def show_calibration(title: str, fits: Mapping[str, Comparison], level: float) -> None:
    """Print how well probabilities and intervals of several fits agree with known true labels.

    Args:
        title: of the table.
        fits: calibration and coverage by the name of the fit.
        level: probability of the intervals.
    """
    table = grid(title)
    for column in ("", *fits):
        table.add_column(column, justify="right" if column else "left")
    rows = {
        "accuracy of the labels": [f"{truth.accuracy:.3f}" for truth, _ in fits.values()],
        "confidence, the mean probability of the chosen label": [
            f"{truth.confidence:.3f}" for truth, _ in fits.values()
        ],
        "log loss": [f"{truth.log_loss:.3f}" for truth, _ in fits.values()],
        "calibration error": [f"{truth.ece:.3f}" for truth, _ in fits.values()],
    }
    if all(len(workers.workers) for _, workers in fits.values()):
        rows |= {
            f"workers with their share of correct annotations in its {level:.0%} interval": [
                f"{workers.share_correct:.0%}" for _, workers in fits.values()
            ],
            f"workers with it in the {level:.0%} interval of their accuracy": [
                f"{workers.accuracy:.0%}" for _, workers in fits.values()
            ],
        }
    for name, cells in rows.items():
        table.add_row(name, *cells)
    console.print(table)


def show_form(fits: Mapping[str, Comparison]) -> None:
    """Print how the intervals and log losses of two forms of a model compare, with the uncertainty of the figures."""
    from crowdppl import criticism  # here: slow to import

    for name, (_, covered) in fits.items():
        console.print(f"{name.capitalize()}: {covered.summary}")
    difference, error = criticism.loss_difference(*(truth for truth, _ in fits.values()))
    first, second = fits
    clear = abs(difference) > criticism.CLEAR * error
    console.print(
        f"Log loss, {first} less {second}: {difference:+.3f} with a standard error of {error:.3f}; "
        + (
            f"{first if difference < 0 else second} is better for the labels."
            if clear
            else "these items do not tell which is better."
        )
    )


def show_comparison(comparison: criticism.Comparison, items: int) -> None:
    """Print a comparison of models: disagreements, shares of classes, predictive scores and known truths.

    Args:
        comparison: of the models.
        items: number of items.
    """
    rows = comparison.models.to_dict("records")
    names = [row["model"] for row in rows]
    _show_disagreements(names, comparison, items)
    _show_shares(names, comparison.shares)
    table = grid(f"\nPredictive score of {len(names)} models by {rows[0]['method']}")
    for column in ("model", "seconds", "elpd", "difference", "unreliable"):
        table.add_column(column, justify="left" if column == "model" else "right", no_wrap=True)
    for row in rows:
        gap = "best" if row["difference"] == 0 else f"{row['difference']:,.1f} ± {row['se_difference']:,.1f}"
        score = ("none", "") if pd.isna(row["elpd"]) else (f"{row['elpd']:,.1f}", gap)
        table.add_row(row["model"], f"{row['seconds']:.1f}", *score, f"{row['unreliable']:,}")
    console.print(table)
    console.print(
        "elpd: expected log predictive density of all labels of an item left out, summed over items, in nats; "
        "unreliable: items for which importance sampling fails (Pareto k above .7)",
        style="dim",
    )
    if comparison.known:
        _show_scores(rows, comparison)
    console.print("\n[bold]Which model?[/bold]")
    for sentence in comparison.summary:
        console.print(f"- {escape(in_command(sentence))}")
    show_notes(comparison.notes)


def _show_scores(rows: Sequence[dict[Any, Any]], comparison: criticism.Comparison) -> None:
    table = grid(f"\nOn {comparison.known:,} items of known truth, which no fit knew")
    for column in ("model", "accuracy", f"interval ({comparison.level:.0%})", "log loss", "most accurate"):
        table.add_column(column, justify="left" if column == "model" else "right", no_wrap=True)
    for row in rows:
        interval = f"{row['low']:.3f}–{row['high']:.3f}"
        table.add_row(row["model"], f"{row['accuracy']:.3f}", interval, f"{row['log_loss']:.3f}", f"{row['best']:.0%}")
    console.print(table)
    console.print("most accurate: probability, given these items, that no other model is more accurate", style="dim")


def _show_disagreements(names: Sequence[str], comparison: criticism.Comparison, items: int) -> None:
    count = {(row["first"], row["second"]): int(row["items"]) for row in comparison.pairs.to_dict("records")}
    table = grid(f"Items with different labels, of {items:,}")
    for column in ("", *names[1:]):
        table.add_column(column, justify="right" if column else "left", no_wrap=True)
    for name in names[:-1]:
        table.add_row(name, *(f"{count[name, other]:,}" if (name, other) in count else "" for other in names[1:]))
    console.print(table)
    if not len(comparison.items):
        return
    shown = comparison.items.head(SHOWN_ITEMS)
    table = grid("\nThe greatest disagreements: label and probability by each model")
    table.add_column(str(shown.columns[0]), no_wrap=True, max_width=24)
    for name in names:
        table.add_column(name, no_wrap=True, max_width=20)
    for row in shown.to_dict("records"):
        cells = [f"{_short(row[f'label_{name}'])} {float(row[f'probability_{name}']):.2f}" for name in names]
        table.add_row(escape(str(row[shown.columns[0]])), *map(escape, cells))
    console.print(table)
    if len(comparison.items) > len(shown):
        console.print(f"... and {len(comparison.items) - len(shown):,} more items", style="dim")


def _short(label: Any, width: int = 14) -> str:
    """Return a class in few characters, so that its probability stays visible."""
    text = str(label)
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _show_shares(names: Sequence[str], shares: pd.DataFrame) -> None:
    table = grid("\nExpected share of items of each class")
    table.add_column("class", no_wrap=True, max_width=24)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    # The classes about which the models differ most, in their own order.
    spread = shares[list(names)].max(axis=1) - shares[list(names)].min(axis=1)
    kept = spread.sort_values(ascending=False, kind="stable").index[:SHOWN_ITEMS]
    for row in shares.loc[sorted(kept)].to_dict("records"):
        table.add_row(escape(str(row["label"])), *(f"{row[name]:.1%}" for name in names))
    console.print(table)
    if len(shares) > len(kept):
        console.print(f"... and {len(shares) - len(kept):,} more classes, on which they differ less", style="dim")


def show_check(check: criticism.PredictiveCheck, level: float) -> None:
    """Print a posterior predictive check: statistics of the labels given beside those of replicated data."""
    from crowdppl import criticism  # here: slow to import

    table = grid("\nLabels given and labels of the model")
    for column in ("", "statistic", "given", f"the model's ({level:.0%})", "p-value"):
        table.add_column(column, justify="left" if column in ("", "statistic") else "right")
    for row in check.table.dropna(subset=["observed"]).to_dict("records"):
        differs = row["p_value"] < criticism.NOTABLE
        table.add_row(
            "! differs" if differs else "",
            escape(row["meaning"]),
            f"{row['observed']:.3f}",
            f"{row['low']:.3f}–{row['high']:.3f}",
            f"{row['p_value']:.3f}",
            style="yellow" if differs else None,
        )
    console.print(table)


def show_report(path: Path) -> None:
    """Print where the report is."""
    console.print(f"Wrote {escape(str(path))} ({path.stat().st_size / 1e6:.1f} MB): open it in a browser.")


def show_labels(table: pd.DataFrame, title: str) -> None:
    """Print the first labels of a table of true labels."""
    shown = grid(f"{title.capitalize()}: {len(table):,} items")
    for column in table.columns[:3]:
        shown.add_column(column, justify="right" if column == "probability" else "left")
    for row in table.iloc[:SHOWN_ITEMS, :3].itertuples(index=False):
        shown.add_row(*(f"{value:.3f}" if isinstance(value, float) else escape(str(value)) for value in row))
    console.print(shown)


def show_batch(batch: pd.DataFrame, what: str = "annotations") -> None:
    """Print the first rows of what to label next, or of the true labels to find out."""
    if not len(batch):
        console.print("No annotation to request: every item is known, certain enough, or annotated by everyone.")
    table = grid(f"Next: {len(batch):,} {what}")
    names = (*ITEM_COLUMNS, "worker", "label", "labels", "sequence")
    for column in batch.columns:
        table.add_column(column, justify="left" if column in names else "right")
    for row in batch.head(SHOWN_ITEMS).to_dict("records"):
        cells: list[Any] = list(row.values())
        table.add_row(*(f"{value:.3f}" if isinstance(value, float) else escape(str(value)) for value in cells))
    console.print(table)
