"""Every figure of the report, from the posterior alone: what the page shows is a view of this and nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl import acquisition, criticism
from crowdppl.posterior import Posterior
from crowdppl.workers import default_level

Array = npt.NDArray[Any]

# Items shown with who said what, and in the list of what to label next.
DISPUTED = 50
NEXT = 50
# Cells of confusion matrices that the page carries; workers with most judgements come first.
CONFUSION_CELLS = 100_000
# Replicates of the predictive check, and judgements above which it is left out: it is quick, but not free.
REPLICATES = 200
CHECKED = 2_000_000
SURE = (0.8, 0.9, 0.95, 0.99)


def content(
    posterior: Posterior, run: Mapping[str, Any] | None = None, *, level: float | None = None
) -> dict[str, Any]:
    """Return what the report says, as plain lists and numbers.

    Args:
        posterior: a result.
        run: what is known of its making besides (``run.json``): input, command, timings.
        level: probability of the intervals.
    """
    level = default_level(level)
    info = posterior.info
    run = {} if run is None else run
    labels = [str(k) for k in posterior.labels.tolist()]
    truth = posterior.truth()
    return {
        "model": info["model"],
        "method": info["method"],
        "level": level,
        "labels": labels,
        "counts": info["counts"],
        "confidence": _short(truth["probability"].mean()),
        "sure": [[at, int((truth["probability"] >= at).sum())] for at in SURE],
        "known": int((posterior.known_truth() >= 0).sum()),
        "prevalence": _rows(posterior.prevalence(level=level), ["label", "share", "low", "high"]),
        "items": _items(posterior, truth),
        "workers": _workers(posterior, level),
        "disputed": _disputed(posterior, truth),
        "next": _next(posterior),
        "redundancy": _rows(acquisition.redundancy(posterior, 15, level=level)),
        "check": _check(posterior, level),
        "advice": criticism.advice(posterior),
        "how": posterior.how[:1].upper() + posterior.how[1:],
        "correlation": posterior.correlation,
        "coverage": posterior.coverage,
        "warnings": posterior.warnings,
        "notes": posterior.notes,
        "reproduce": {
            "input": run.get("input", {}),
            "command": run.get("command", []),
            "seed": info["seed"],
            "seconds": _short(info["seconds"]),
            "options": {str(k): v for k, v in info["options"].items() if v is not None},
            "hyperparameters": {str(k): v for k, v in info["hyperparameters"].items() if v is not None},
            "versions": info["versions"],
        },
    }


def _items(posterior: Posterior, truth: pd.DataFrame) -> dict[str, list[Any]]:
    votes = posterior.votes()
    klass = posterior.probability().argmax(1)
    return {
        "task": [str(task) for task in truth[posterior.item_column].tolist()],
        "label": klass.tolist(),
        "probability": _shorts(truth["probability"]),
        "entropy": _shorts(truth["entropy"]),
        "judgements": votes.sum(1).tolist(),
        # Only what was said: with many classes most counts are 0.
        "votes": [[[int(k), int(row[k])] for k in np.flatnonzero(row)] for row in votes],
        "known": np.flatnonzero(posterior.known_truth() >= 0).tolist(),
    }


def _workers(posterior: Posterior, level: float) -> dict[str, Any]:
    table = posterior.workers(level=level)
    order = np.argsort(-table["judgements"].to_numpy(), kind="stable")
    K = len(posterior.labels)
    shown = order[: max(1, CONFUSION_CELLS // K**2)] if K**2 <= CONFUSION_CELLS else order[:0]
    cells = [posterior.confusion(name, level=level) for name in table["worker"].iloc[shown].tolist()]
    columns = ["accuracy", "share_right", "informativeness"]
    out: dict[str, Any] = {
        "worker": [str(name) for name in table["worker"].tolist()],
        "judgements": table["judgements"].tolist(),
        "place": table["place"].tolist(),
        "rank": _shorts(table["rank"]),
        "spammer": _shorts(table["spammer"]),
        "verdict": table["verdict"].tolist(),
        "given": posterior.given().tolist() if len(table) * K <= CONFUSION_CELLS else [],
        "confusion": {
            str(int(j)): [_shorts(cell[column]) for column in ("probability", "low", "high")]
            for j, cell in zip(shown, cells, strict=True)
        },
    }
    for name in columns:
        for end in ("", "_low", "_high"):
            out[name + end] = _shorts(table[name + end])
    if "seconds" in table:
        out["seconds"] = _shorts(table["seconds"])
    return out


def _disputed(posterior: Posterior, truth: pd.DataFrame) -> list[dict[str, Any]]:
    item, worker, label = posterior.judged()
    probability = posterior.probability()
    many = posterior.judgements_per_item() > 0
    order = np.argsort(-np.where(many, truth["entropy"].to_numpy(), -1.0), kind="stable")[:DISPUTED]
    starts = np.searchsorted(item, np.arange(len(probability) + 1))
    out = []
    for i in order[many[order]].tolist():
        part = slice(starts[i], starts[i + 1])
        likely = np.argsort(-probability[i], kind="stable")[:5]
        out.append(
            {
                "item": i,
                "probabilities": [[int(k), _short(probability[i, k])] for k in likely if probability[i, k] >= 0.0005],
                "said": [[int(j), int(k)] for j, k in zip(worker[part], label[part], strict=True)],
            }
        )
    return out


def _next(posterior: Posterior) -> list[list[Any]]:
    table = acquisition.next_items(posterior, NEXT)
    place = {task: n for n, task in enumerate(posterior.items().tolist())}
    return [
        [place[task], _short(gain)]
        for task, gain in zip(table[posterior.item_column].tolist(), table["gain"], strict=True)
    ]


def _check(posterior: Posterior, level: float) -> dict[str, Any]:
    if len(posterior.judged()[0]) > CHECKED:
        return {"rows": [], "sentences": [], "story": "", "left_out": True}
    found = criticism.check(posterior, draws=REPLICATES, level=level)
    table = found.table.dropna(subset=["observed", "p_value"])
    return {
        "rows": _rows(table, ["meaning", "observed", "low", "high", "p_value"]),
        "sentences": found.sentences,
        "story": found.story,
        "left_out": False,
    }


def _rows(table: pd.DataFrame, columns: list[str] | None = None) -> list[list[Any]]:
    part = table if columns is None else table[columns]
    return [
        [
            _short(value) if isinstance(value, float) else value if isinstance(value, int) else str(value)
            for value in row
        ]
        for row in part.astype(object).to_numpy().tolist()
    ]


def _shorts(values: Any) -> list[float | None]:
    return [_short(value) for value in np.asarray(values, dtype=float).tolist()]


def _short(value: Any) -> float | None:
    """Round to four digits after the point: more is not known, and not shown."""
    number = float(value)
    return round(number, 4) if math.isfinite(number) else None
