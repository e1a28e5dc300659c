"""What the first screen of the report and the tops of its tables say, for the template of the page.

It is read where scripts do not run, as in mail. The script leaves the first screen as it is, and draws the tables anew, with all
rows, search and order.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import Any

from crowdppl.report import texts
from crowdppl.report.plan import NOBODY, WHAT, money
from crowdppl.report.rendering import Table, counted, percent, plural

Data = Mapping[str, Any]

# Rows of each table.
ROWS = 25
# For each verdict: words, appearance, mark, and what to do. The most severe verdict comes first.
VERDICTS = {
    "adversarial": ("adversarial", "bad", "✕", "ask why"),
    "random": ("random labels", "bad", "✕", "exclude"),
    "constant": ("one label for all", "bad", "✕", "exclude"),
    "hasty": ("hasty", "bad", "✕", "check speed"),
    "confuses": ("confuses classes", "warn", "!", "retrain"),
    "weak": ("weak", "warn", "!", "retrain"),
    "severe": ("severe", "warn", "!", "compare grades"),
    "lenient": ("lenient", "warn", "!", "compare grades"),
    "unknown": ("not known yet", "dim", "?", "wait"),
    "fair": ("fair", "plain", "•", "keep"),
    "reliable": ("reliable", "good", "✓", "keep"),
}


def context(data: Data) -> dict[str, Any]:
    """Return the variables of ``posterior.html``.

    Args:
        data: of :func:`crowdppl.report.figures.content`.
    """
    todo = data["todo"]
    open_at, finished_at = todo["at"]
    return {
        "lead": _lead(data),
        "warnings": data["warnings"],
        "todo": todo,
        "cards": _cards(todo),
        "people": _people(todo),
        "nobody_known": all(verdict == "unknown" for verdict in data["workers"]["verdict"]),
        "nobody": NOBODY[todo["graded"]],
        "questions": todo["questions"],
        "what": WHAT[todo["graded"]],
        "confused": "Grades given" if todo["graded"] else "Who confuses what",
        "all_items": "All grades" if todo["graded"] else "All labels",
        "open_at": open_at,
        "again": [
            {"probable": _probable(data, one, 2, " or "), "item": _item(data, one["item"])}
            for one in data["again"][: todo["shown"]]
        ],
        "costs": _costs(todo["rounds"]) if todo["rounds"] else None,
        "priced": bool(todo["rounds"]) and todo["rounds"][0]["cost"] is not None,
        "known": data["known"],
        "bars": [
            (f"finished ({percent(finished_at)} or more)", todo["finished"]),
            (f"probable ({percent(open_at)}–{percent(finished_at)})", todo["probable"]),
            (f"open (under {percent(open_at)})", todo["open"]),
        ],
        "workers": _workers(data),
        "confusions": _confusions(data),
        "again_table": _again(data),
        "texts": texts.shown_texts(data["texts"]),
        "sets": None if data["sets"] is None else _sets(data["sets"]),
        "effects": None if data["effects"] is None else _effects(data["effects"]),
        "grades": None if data["grades"] is None else _grades(data["grades"], data["labels"]),
        "items": _items(data),
        "notes": data["notes"],
        "advice": [f"Model {data['model']}, fitted by {data['method']}. {data['interval_method']}", *data["advice"]],
        "correlation": data["correlation"],
        "footnote": f"Intervals are {percent(data['level'])} intervals. {data['coverage']}",
    }


# ---------------------------------------------------------------------- the first screen


def _lead(data: Data) -> str:
    counts, correct = data["counts"], data["todo"]["correct"]
    classes = counted(counts["classes"], "grade") if data["todo"]["graded"] else f"{counts['classes']:,} classes"
    classes = "one class" if classes == "1 classes" else classes
    what = "true grades are expected to be the most probable grade or next to it" if data["todo"]["graded"] else ""
    expected = (
        ""
        if correct is None
        else f" About {percent(correct)} of the {what or 'resulting labels are expected to be correct'}."
    )
    aside = counts.get("set_aside", 0)  # of workers with the same answers
    uncounted = f", of which {aside:,} of workers with the same answers do not count" if aside else ""
    return (
        f"{counted(counts['workers'], 'worker')} gave {counted(counts['annotations'] + aside, 'annotation')} to "
        f"{counted(counts['items'], 'item')} in {classes}{uncounted}.{expected}"
    )


def _cards(todo: Data) -> list[tuple[str, str, str, str]]:
    """Return key figures, each with its words, the place of what it counts, and its appearance."""
    stop, retrain, again, finished = len(todo["stop"]), len(todo["retrain"]), todo["open"], todo["finished"]
    return [
        (f"{stop:,}", f"{plural(stop, 'worker')} to stop and check", "#do-stop", "bad" if stop else ""),
        (f"{retrain:,}", f"{plural(retrain, 'worker')} to talk to", "#do-retrain", "warn" if retrain else ""),
        (f"{again:,}", f"{plural(again, todo['unit'])} to send out again", "#do-items", "warn" if again else ""),
        (
            f"{finished:,}",
            f"of {counted(todo['total'], todo['unit'])} finished",
            "#do-finished",
            "good" if finished else "",
        ),
    ]


def _people(todo: Data) -> list[dict[str, Any]]:
    """Return the lists of workers to do something about: place, title, appearance, advice, and the workers."""
    lists = [
        (
            *("do-stop", "Stop and check these workers", "bad"),
            "Assign them no further work until somebody has checked. The final labels already account for this.",
            todo["stop"],
        ),
        (
            *("do-retrain", "Talk to these workers", "warn"),
            "Their labels can be used. Workers with most wrong labels first.",
            todo["retrain"],
        ),
    ]
    return [
        {
            **{"place": place, "title": title, "kind": kind, "advice": advice},
            "people": [one | {"verdict": VERDICTS[one["verdict"]]} for one in people],
        }
        for place, title, kind, advice, people in lists
        if people
    ]


def _costs(rounds: Sequence[Data]) -> Table:
    priced, simulated = rounds[0]["cost"] is not None, rounds[0]["corrected"] is not None
    names = ["annotations"] + ["cost"] * priced + ["labels corrected"] * simulated
    rows = []
    for one in rounds:
        cells = [f"{one['annotations']:,}"]
        cells += [money(one["cost"])] if priced else []
        if simulated:
            cells.append("under 1" if one["corrected"] < 0.5 else f"about {one['corrected']:,.0f}")
        rows.append([f"+{one['each']}", *cells])
    return Table(["rounds", *names], rows, range(1, len(names) + 1))


# ---------------------------------------------------------------------- the tops of the tables


def _workers(data: Data) -> Table:
    crew = data["workers"]
    graded = "severity" in crew
    wrong = [n * (1 - (p or 0.0)) for n, p in zip(crew["annotations"], crew["accuracy"], strict=True)]
    severity = list(VERDICTS)
    order = sorted(range(len(wrong)), key=lambda j: (severity.index(crew["verdict"][j]), -wrong[j]))
    rows = [
        [
            crew["worker"][j],
            {"verdict": VERDICTS[crew["verdict"][j]]},
            _severity(crew, j)
            if graded
            else f"{percent(crew['accuracy'][j])} {_ends(crew['accuracy_low'][j], crew['accuracy_high'][j])}",
            f"{crew['annotations'][j]:,}",
            "–" if crew["place"][j] == "unknown" else crew["place"][j],
        ]
        for j in order[:ROWS]
    ]
    quality = "severity" if graded else "accuracy"
    names = ["worker", "verdict", quality, "annotations", "rank"]
    return Table(names, rows, (2, 3, 4), len(order) - len(rows))


def _severity(crew: Data, j: int) -> str:
    """Return the severity of a rater with its interval: by how many grades lower than the mean rater."""
    low, high = crew["severity_low"][j], crew["severity_high"][j]
    return f"{crew['severity'][j]:+.2f}" + ("" if low is None else f" ({low:+.2f} to {high:+.2f})")


def _ends(low: float | None, high: float | None) -> str:
    """Return the ends of an interval of shares in parentheses, nothing where there is none."""
    return "" if low is None or high is None else f"({100 * low:.0f}–{100 * high:.0f}%)"


def _confusions(data: Data) -> Table:
    pairs = data["crowd"]["pairs"]
    names = ["most probable grade", "grade given"] if data["todo"]["graded"] else ["final label", "label given"]
    rows = [
        [_class_name(data, k), _class_name(data, m), percent(often / of), f"{often:,} of {of:,}"]
        for k, m, often, of in pairs[:ROWS]
    ]
    return Table([*names, "share", "annotations"], rows, (2, 3), len(pairs) - len(rows))


def _again(data: Data) -> Table:
    rows = [
        [_item(data, one["item"]), _probable(data, one, 3, ", "), _votes(data, one["item"])]
        for one in data["again"][:ROWS]
    ]
    names = ["probable grades", "grades given"] if data["todo"]["graded"] else ["probable labels", "labels given"]
    return Table(["item", *names], rows, (), data["todo"]["open"] - len(rows))


def _effects(rows: list[list[str]]) -> Table:
    columns = ["covariate", "accuracy, points", "interval", "log odds", "interval", "positive"]
    return Table(columns, rows, (1, 2, 3, 4, 5), 0)


def _grades(grades: Data, labels: Sequence[str]) -> Data:
    fit = ["rater", "grades", "infit", "usual", "p", "outfit", "usual", "p"]
    return {
        **grades,
        "use": Table(["rater", "grades", *labels], grades["use"], range(1, 2 + len(labels)), 0),
        "criteria": Table(
            ["criterion", "grades", "mean", "difficulty", "interval"], grades["criteria"], (1, 2, 3, 4), 0
        ),
        "agreement": Table(["measure", "value", "interval", "items"], grades["agreement"], (1, 2, 3), 0),
        "fit": grades["fit"] and Table(fit, grades["fit"], (1, 2, 3, 4, 5, 6, 7), 0),
    }


def _sets(sets: Data) -> Data:
    labels = Table(
        ["label", "in true sets", "chosen", "chosen if there", "chosen if not"], sets["labels"], (1, 2, 3, 4), 0
    )
    return {
        "tasks": sets["tasks"],
        "labels": labels,
        "uncertain": Table(["task", "labels", "probability", "annotations"], sets["uncertain"], (2, 3), 0),
    }


def _items(data: Data) -> Table:
    items = data["items"]
    known = set(items["known"])
    total = len(items["task"])
    if data["todo"]["graded"]:
        return _graded_items(data, known)
    least = heapq.nsmallest(ROWS, range(total), key=lambda i: items["probability"][i])
    rows = [
        [
            _item(data, i),
            _class_name(data, items["label"][i]) + (" (known)" if i in known else ""),
            percent(items["probability"][i], 1),
            f"{items['annotations'][i]:,}",
            _votes(data, i),
        ]
        for i in least
    ]
    return Table(["item", "label", "probability", "annotations", "labels given"], rows, (2, 3), total - len(rows))


def _graded_items(data: Data, known: set[int]) -> Table:
    """Return the least certain items of grades, with their true grades."""
    items = data["items"]
    total = len(items["task"])
    least = heapq.nsmallest(ROWS, range(total), key=lambda i: items["near"][i])
    rows = [
        [
            _item(data, i),
            f"{items['grade'][i]:.2f}" + (" (known)" if i in known else f" ({items['interval'][i]})"),
            "–" if items["mean_grade"][i] is None else f"{items['mean_grade'][i]:.2f}",
            percent(items["near"][i], 1),
            _votes(data, i),
        ]
        for i in least
    ]
    return Table(
        ["item", "true grade", "mean grade", "within one grade", "grades given"], rows, (1, 2, 3), total - len(rows)
    )


# ---------------------------------------------------------------------- words


def _class_name(data: Data, code: int) -> str:
    """Return the name of a class in tables: "class 0" or "grade 0" for numbers, other names as they are."""
    return str(data["names" if data["numbered"] else "labels"][code])


def _probable(data: Data, one: Data, most: int, between: str) -> str:
    return between.join(f"{_class_name(data, k)} {percent(p)}" for k, p in one["probabilities"][:most])


def _votes(data: Data, i: int) -> str:
    return ", ".join(f"{_class_name(data, k)} × {often:,}" for k, often in data["items"]["votes"][i]) or "none"


def _item(data: Data, i: int) -> dict[str, str | None]:
    """Return an item's identifier, its link and the beginning of its text. Links were checked before."""
    items = data["items"]
    return {"task": items["task"][i]} | {key: items[key][i] if key in items else None for key in ("url", "text")}
