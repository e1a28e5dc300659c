"""All numbers and texts of the report, from the posterior alone. The page displays them and computes nothing further."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl import acquisition, arguments, criticism
from crowdppl.arguments import Level, checked
from crowdppl.posterior import workers
from crowdppl.posterior.descriptions import descriptions
from crowdppl.posterior.posterior import Posterior
from crowdppl.posterior.sets import has_sets
from crowdppl.posterior.workers import default_level, other_rates
from crowdppl.report import grades, items, plan
from crowdppl.report.further import effects, sets
from crowdppl.report.rendering import sentence
from crowdppl.report.still import VERDICTS
from crowdppl.report.texts import texts

Array = npt.NDArray[Any]

# Classes of pairs of a task and a label, in tables.
PLACES = ("not in the set", "in the set")
# Items to send out again that are listed with all their annotations.
AGAIN = 50
# Cells of confusion matrices in the page; workers with most annotations come first.
CONFUSION_CELLS = 100_000
# Draws x cells of confusion matrices in memory at a time.
CELLS_AT_ONCE = 2**22
# Replicates of the predictive check; it is left out above so many annotations, or so many labels to draw.
REPLICATES = 200
CHECKED, CHECK_WORK = 500_000, 5e9
SURE = (0.8, 0.9, 0.95, 0.99)
# Classes up to which the crowd's confusions are shown as a matrix, and rows of the lists of confusions.
MATRIX, CONFUSIONS = 12, 50
# Characters of an item's text, fewer for results with many items.
LETTERS, FEW_LETTERS, MANY_ITEMS = 400, 120, 5_000


@checked
def content(
    posterior: Posterior,
    run: Annotated[Mapping[str, Any], arguments.mapping] | None = None,
    *,
    level: Level | None = None,
    title: str | None = None,
    text: Annotated[items.Descriptions, arguments.by_item] | None = None,
    url: Annotated[items.Descriptions, arguments.by_item] | None = None,
    cost: Annotated[float, arguments.anything] | None = None,
    folder: Annotated[Path, arguments.anything] | None = None,
    worker_table: Annotated[pd.DataFrame, arguments.worker_table] | None = None,
    actions: plan.Actions | None = None,
) -> dict[str, Any]:
    """Return the content of the report, as plain lists and numbers.

    Args:
        posterior: a result.
        run: how it was computed (``run.json``): input, command, timings.
        level: probability of the intervals.
        title: heading of the report. Defaults to the name of the input.
        text: text of each item, see :func:`crowdppl.report.describe`. Defaults to what is stored in the result.
        url: link of each item, likewise.
        cost: price of one annotation, in any currency.
        folder: of the result, to be named in commands.
        worker_table: ``posterior.workers(level=level)``, if already computed.
        actions: ``actions(posterior, cost=cost)``, if already computed.

    Raises:
        OptionError: for a level outside (0, 1) or an invalid price.
        DataError: for texts or links of other items.
    """
    level = default_level(level)
    if text is not None or url is not None:
        posterior = items.describe(posterior, text=text, url=url)
    info = posterior.info
    run = {} if run is None else run
    truth = posterior.truth()
    table = posterior.workers(level=level) if worker_table is None else worker_table
    todo = plan.actions(posterior, cost=cost, worker_table=table) if actions is None else actions
    source = run.get("input", {})
    while source.get("added to"):  # the report covers all annotations, not only those added last
        source = source["added to"]
    return {
        "title": title or str(run.get("title") or source.get("file") or source.get("dataset") or "Annotation report"),
        "source": str(source.get("file") or source.get("dataset") or ""),
        "model": info["model"],
        "method": info["method"],
        "level": level,
        # Of a label and a task it is said whether the set has it, not 1 or 0.
        "labels": list(PLACES) if has_sets(posterior) else [str(k) for k in posterior.labels.tolist()],
        "names": todo.names,
        "numbered": todo.names[:1] != [] and todo.names[0].startswith(tuple(plan.NUMBERED.values())),
        "verdicts": VERDICTS,
        "counts": info["counts"],
        "confidence": short(truth["probability"].mean()),
        "sure": [[at, int((truth["probability"] >= at).sum())] for at in SURE],
        "known": int((posterior.known_truth() >= 0).sum()),
        "todo": _todo(todo, folder),
        "prevalence": _rows(posterior.prevalence(level=level), ["label", "share", "low", "high"]),
        "items": _items(posterior, truth, level),
        "workers": _workers(posterior, table, level),
        "again": _again(posterior, todo),
        "crowd": _crowd(posterior, table),
        "texts": texts(posterior),
        "sets": sets(posterior),
        "effects": effects(posterior, level),
        "grades": (graded := grades.grades(posterior, level)) and graded | grades.severities(posterior, table, level),
        "redundancy": _rows(acquisition.redundancy(posterior, 15, level=level)),
        "redundancy_source": acquisition.redundancy_source(posterior),
        "check": _check(posterior, level),
        "advice": criticism.advice(posterior),
        "interval_method": sentence(posterior.interval_method),
        "correlation": posterior.correlation,
        "coverage": posterior.coverage,
        "warnings": posterior.warnings,
        "notes": [*posterior.notes, *other_rates.sentences(posterior), *_links(posterior)],
        "reproduce": {
            "input": source,
            "command": run.get("command", []),
            "seed": info["seed"],
            "seconds": short(info["seconds"]),
            "options": {str(k): v for k, v in info["options"].items() if v is not None},
            "hyperparameters": {str(k): v for k, v in info["hyperparameters"].items() if v is not None},
            "versions": info["versions"],
        },
    }


def _todo(actions: plan.Actions, folder: Path | None) -> dict[str, Any]:
    return {
        "stop": [dataclasses.asdict(person) for person in actions.unusable],
        "retrain": [dataclasses.asdict(person) for person in actions.retrain],
        "questions": [dataclasses.asdict(question) for question in actions.questions],
        "open": len(actions.open),
        "command": plan.next_command(len(actions.open), folder),
        "graded": actions.graded,
        "probable": actions.probable,
        "finished": actions.finished,
        "total": actions.total,
        "unit": actions.unit,
        # Nothing is said of items and workers before the labels are clean.
        "unclear": actions.unclear,
        "correct": None if actions.unclear else short(actions.correct),
        "rounds": [
            dataclasses.asdict(one) | {"corrected": None if one.corrected is None else short(one.corrected)}
            for one in actions.rounds
        ],
        "shown": plan.SHOWN,
        "at": [plan.OPEN, plan.FINISHED],
    }


def _items(posterior: Posterior, truth: pd.DataFrame, level: float) -> dict[str, list[Any]]:
    votes = posterior.votes()
    # Of spans the labels are those of the table, which are not always the most probable one of a token by itself.
    names = {label: k for k, label in enumerate(posterior.labels.tolist())}
    true_label = truth["label"].map(names)
    out = {
        "task": [str(task) for task in posterior.items().tolist()],
        "label": true_label.tolist(),
        "probability": shorts(truth["probability"]),
        "annotations": votes.sum(1).tolist(),
        # Only labels that were given: with many classes most counts are 0.
        "votes": [[[int(k), int(row[k])] for k in np.flatnonzero(row)] for row in votes],
        "known": np.flatnonzero(posterior.known_truth() >= 0).tolist(),
    }
    if posterior.graded:
        table = posterior.grades(level=level)
        out |= {name: shorts(table[name]) for name in ("grade", "mean_grade")}
        out["interval"] = [
            grades.ends(low, high) for low, high in zip(table["grade_low"], table["grade_high"], strict=True)
        ]
        out["near"] = shorts(
            np.where(posterior.known_truth() >= 0, 1.0, plan.near_probability(posterior.probability()))
        )
    texts, urls = descriptions(posterior)
    if texts is not None:
        letters = LETTERS if len(texts) <= MANY_ITEMS else FEW_LETTERS
        out["text"] = [_cut(text, letters) for text in texts]
    if urls is not None:
        out["url"] = [items.safe_url(url) if url else None for url in urls]
    return out


def _links(posterior: Posterior) -> list[str]:
    """Return a note on links that are no web addresses, if there are any."""
    _, urls = descriptions(posterior)
    invalid = [url for url in urls or [] if url and items.safe_url(url) is None]
    if not invalid:
        return []
    return [
        f"{len(invalid):,} links of items are not http or https addresses and are left out, "
        f"such as {_cut(invalid[0], 80)!r}"
    ]


def _cut(text: str, letters: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= letters else text[: letters - 1].rstrip() + "…"


def _workers(posterior: Posterior, table: pd.DataFrame, level: float) -> dict[str, Any]:
    order = np.argsort(-table["annotations"].to_numpy(), kind="stable")
    K = len(posterior.labels)
    shown = order[: max(1, CONFUSION_CELLS // K**2)] if K**2 <= CONFUSION_CELLS else order[:0]
    columns = ["accuracy", "share_correct", "informativeness"]
    out: dict[str, Any] = {
        "worker": [str(name) for name in table["worker"].tolist()],
        "annotations": table["annotations"].tolist(),
        "place": table["place"].tolist(),
        "rank": shorts(table["rank"]),
        "spammer": shorts(table["spammer"]),
        "verdict": table["verdict"].tolist(),
        "given": posterior.label_counts_by_worker().tolist() if len(table) * K <= CONFUSION_CELLS else [],
        "confusion": _confusion_cells(posterior, shown, level),
    }
    for name in columns:
        for end in ("", "_low", "_high"):
            out[name + end] = shorts(table[name + end])
    if "severity" in table:
        out |= {
            name: shorts(table[name]) for name in ("severity", "severity_low", "severity_high", "grade_correlation")
        }
    if "seconds" in table:
        out["seconds"] = shorts(table["seconds"])
        out["speed"] = shorts(workers.relative_speed(posterior))
    return out


def _confusion_cells(posterior: Posterior, shown: Array, level: float) -> dict[str, list[list[float | None]]]:
    """Return mean, lower and upper end of each cell of the confusion matrices of some workers, by the code of the worker."""
    K, draws = len(posterior.labels), len(posterior.draws("prevalence"))
    step = max(1, CELLS_AT_ONCE // (draws * K**2))
    out: dict[str, list[list[float | None]]] = {}
    for begin in range(0, len(shown), step):
        some = shown[begin : begin + step]
        parts = [
            part.reshape(len(some), -1) for part in workers.interval(posterior.draws("confusion", worker=some), level)
        ]
        out |= {str(int(j)): [shorts(part[n]) for part in parts] for n, j in enumerate(some)}
    return out


def _again(posterior: Posterior, actions: plan.Actions) -> list[dict[str, Any]]:
    """Return items to send out again with all their annotations, least certain first."""
    item, worker, label = posterior.annotation_index()
    probability = posterior.probability()
    starts = np.searchsorted(item, np.arange(len(probability) + 1))
    out = []
    for i in actions.open[:AGAIN].tolist():
        part = slice(starts[i], starts[i + 1])
        likely = np.argsort(-probability[i], kind="stable")[:5]
        out.append(
            {
                "item": i,
                "probabilities": [[int(k), short(probability[i, k])] for k in likely if probability[i, k] >= 0.0005],
                "said": [[int(j), int(k)] for j, k in zip(worker[part], label[part], strict=True)],
            }
        )
    return out


def _crowd(posterior: Posterior, table: pd.DataFrame) -> dict[str, Any]:
    """Return who confuses what: the crowd without unusable workers, and systematic errors of single workers."""
    doubtful = table["verdict"].isin(workers.UNRELIABLE).to_numpy()
    counts = workers.label_counts(posterior, without=doubtful)
    K = len(counts)
    wrong = counts * (1 - np.eye(K, dtype=int))
    largest = np.argsort(-wrong, axis=None, kind="stable")[:CONFUSIONS]
    largest = largest[wrong.ravel()[largest] > 0]
    places = {name: n for n, name in enumerate(posterior.worker_names().tolist())}
    codes = {name: n for n, name in enumerate(posterior.labels.tolist())}
    single = workers.systematic_confusions(posterior).head(CONFUSIONS)
    return {
        "without": int(doubtful.sum()),
        "matrix": counts.tolist() if K <= MATRIX else [],
        "pairs": [[int(c // K), int(c % K), int(counts.flat[c]), int(counts[c // K].sum())] for c in largest],
        "single": [
            [
                places[row["worker"]],
                codes[row["truth"]],
                codes[row["label"]],
                int(row["annotations"]),
                int(row["of"]),
                short(row["others"]),
            ]
            for row in single.to_dict("records")
        ],
    }


def _check(posterior: Posterior, level: float) -> dict[str, Any]:
    A, K = len(posterior.annotation_index()[0]), len(posterior.labels)
    if A > CHECKED or REPLICATES * A * K**2 > CHECK_WORK:
        return {"rows": [], "summary": [], "sentences": [], "story": "", "notable": criticism.NOTABLE, "left_out": True}
    check = criticism.check(posterior, draws=REPLICATES, level=level)
    table = check.table.dropna(subset=["observed", "p_value"])
    return {
        "rows": _rows(table, ["meaning", "observed", "low", "high", "p_value"]),
        "summary": check.summary,
        "sentences": check.sentences,
        "story": check.source,
        "notable": criticism.NOTABLE,
        "left_out": False,
    }


def _rows(table: pd.DataFrame, columns: list[str] | None = None) -> list[list[Any]]:
    part = table if columns is None else table[columns]
    return [
        [short(value) if isinstance(value, float) else value if isinstance(value, int) else str(value) for value in row]
        for row in part.astype(object).to_numpy().tolist()
    ]


def shorts(values: Any) -> list[float | None]:
    """Return numbers as :func:`short` does."""
    return [short(value) for value in np.asarray(values, dtype=float).tolist()]


def short(value: Any) -> float | None:
    """Round to four decimal places, more than is shown; ``None`` for what is not finite."""
    number = float(value)
    return round(number, 4) if math.isfinite(number) else None
