"""Result of a reader: verdicts as a table with the columns of :meth:`crowdppl.judges.Verdicts.from_frame`."""

from __future__ import annotations

import json
import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from crowdppl.errors import DataError, listed, suggestion
from crowdppl.judges.coding.criteria import SEVERAL_METRICS
from crowdppl.judges.coding.states import State

# Between the model of a judge and what it measures, in the name of a judge.
SEPARATOR = ": "


@dataclass(frozen=True, repr=False)
class VerdictRows:
    """Verdicts of a file, a row each.

    Attributes:
        frame: columns ``item``, ``judge``, ``verdict``, ``status`` and what else is known, named as the arguments of
            :meth:`crowdppl.judges.Verdicts.from_frame`. Columns that these do not name (``run``, ``metric``) are not used.
        human: verdicts of people in the file, a table for :meth:`crowdppl.judges.HumanLabels.from_frame`; ``None`` without any.
        format: format of the file.
        notes: what was read and what was left out, in sentences.
        passing: the verdict that passes, where the format states it.
        outputs: number of each answer by its text, by item and system, where a system gave several answers to an item.
    """

    frame: pd.DataFrame
    human: pd.DataFrame | None
    format: str
    notes: tuple[str, ...]
    passing: Any = None
    outputs: Mapping[tuple[Any, Any], Mapping[str, int]] = field(default_factory=dict)

    def __repr__(self) -> str:
        people = "" if self.human is None else f", {len(self.human):,} of people"
        return f"VerdictRows({self.format}: {len(self.frame):,} verdicts{people})"


class Collector:
    """Collects verdicts one by one, and counts what is left out.

    A tool may measure several things, its *metrics*. A judge is then a metric, or a model and a metric.

    Args:
        source: name of the file in messages.
        outputs: numbers of the answers of systems to items, shared by the files of a folder.

    Attributes:
        task: the set of items, if the file states it; items of different sets in one folder are not the same.
        passing: the verdict that passes, if the format states it.
    """

    def __init__(self, source: str, outputs: dict[tuple[Any, Any], dict[Any, int]] | None = None):
        self.source = source
        self.task: str | None = None
        self.rows: list[dict[str, Any]] = []
        self.people: list[dict[str, Any]] = []
        self.left_out: dict[str, int] = {}
        self.notes: list[str] = []
        self.passing: Any = None
        self.outputs: dict[tuple[Any, Any], dict[Any, int]] = {} if outputs is None else outputs
        self._inputs: dict[str, set[str]] = {}

    def shown(self, item: Any, given: Any) -> None:
        """Remember what an item of this file was: an identifier that was used twice has several."""
        if given is not None:
            name = str(int(item)) if isinstance(item, float) and item.is_integer() else str(item)
            self._inputs.setdefault(name, set()).add(json.dumps(_shown(given), default=str, sort_keys=True))

    def answer(self, item: Any, system: Any, output: Any) -> int:
        """Return the number of an answer of a system to an item, from 1: the same for the same output.

        Without an output each call is another answer.
        """
        known = self.outputs.setdefault((_hashable(item), _hashable(system)), {})
        return known.setdefault(object() if output is None else _hashable(output), len(known) + 1)

    def add(
        self,
        item: Any,
        metric: str,
        verdict: Any = None,
        *,
        model: str | None = None,
        state: State | None = None,
        score: Any = None,
        **others: Any,
    ) -> None:
        """Add a verdict.

        Args:
            item: name of the item.
            metric: what is measured.
            verdict: the verdict; a number is a verdict or a score, see :meth:`finish`.
            model: the model that judged.
            state: the state, if it does not follow from the verdict.
            score: a number beside the verdict.
            **others: further columns, such as ``system``, ``cost``, ``when``.
        """
        number = _number(score)
        plain = _number(verdict)
        if plain is not None:
            number, verdict = plain, None
        elif isinstance(verdict, float):  # not a number, or infinite
            verdict = None
        # Texts of which no reader says that they are verdicts may stand for a state, such as "ERROR".
        unsure = state is None and isinstance(verdict, str)
        if state is None:
            state = State.MISSING if verdict is None and plain is None else State.GIVEN
        if state != State.GIVEN:
            number = verdict = plain = None
        self.rows.append(
            {
                "item": item,
                "metric": metric,
                "model": model,
                "verdict": verdict,
                "number": plain,
                "status": None if unsure else state.name.lower(),
                "score": number,
                **others,
            }
        )

    def person(self, item: Any, verdict: Any, metric: str | None = None, **others: Any) -> None:
        """Add a verdict of a person; arguments as in :meth:`add`."""
        self.people.append(
            {"item": item, "metric": metric, "verdict": verdict, "number": _number(verdict), **others},
        )

    def drop(self, reason: str) -> None:
        """Count what is left out."""
        self.left_out[reason] = self.left_out.get(reason, 0) + 1

    def extend(self, other: Collector, *, tasks: bool = False) -> None:
        """Add what was collected from another file.

        Args:
            other: what was collected.
            tasks: whether the names of items begin with that of their task.
        """
        if tasks and other.task is not None:
            for row in [*other.rows, *other.people]:
                row["item"] = f"{other.task}/{row['item']}"
        self.rows += other.rows
        self.people += other.people
        self.notes += [*other.notes, *other.reused()]
        self.passing = other.passing
        for reason, count in other.left_out.items():
            self.left_out[f"{reason} of {other.source}"] = count

    def reused(self) -> list[str]:
        """Return a note on identifiers that stand for several inputs in this file."""
        several = [item for item, given in self._inputs.items() if len(given) > 1]
        if not several:
            return []
        have = "1 item has" if len(several) == 1 else f"{len(several):,} items have"
        return [
            f"{self.source}: {have} different inputs ({listed(several, 3)}), which are read as one item; if an identifier was "
            f"used for several samples, make it unique"
        ]

    def finish(self, kind: str, description: str, metric: str | Sequence[str] | None = None) -> VerdictRows:
        """Return the verdicts.

        Numbers of a metric are verdicts ``True`` and ``False`` if all are 1 or 0, verdicts and scores if all are whole numbers,
        and otherwise scores only.

        Args:
            kind: name of the format.
            description: description of the format.
            metric: metrics to keep. Defaults to all.

        Raises:
            DataError: if there are no verdicts, or verdicts of different types, or ``metric`` is unknown.
        """
        if not self.rows:
            left_out = ", ".join(f"{count:,} {reason}" for reason, count in self.left_out.items())
            if self.people:
                raise DataError(
                    f"{self.source}: its {len(self.people):,} verdicts are of people, none of a judge, in this file of "
                    f"{description}; export the scores of judges, too"
                )
            raise DataError(
                f"{self.source}: no verdict in this file of {description}{f' (left out: {left_out})' if left_out else ''}; "
                f"export the scores, too"
            )
        if again := _again(self.rows):
            why = "if a log continues another one, leave the earlier one out, since they count twice"
            self.notes.append(f"{self.source}: {again:,} verdicts equal another one on the same sample; {why}")
        self.notes += _of_identifiers(self.rows, self.source)
        _tell_samples_apart([*self.rows, *self.people])
        rows, people = self._chosen(metric)
        metrics = list(dict.fromkeys(row["metric"] for row in rows))
        _name_models(rows)
        for one in metrics:
            self._settle_numbers(
                [row for row in rows if row["metric"] == one], [p for p in people if p["metric"] in (one, None)]
            )
        self._settle_numbers([], [person for person in people if person["number"] is not None])
        _require_one_type(rows, self.source)
        named = [
            {
                **{name: value for name, value in row.items() if name not in ("model", "number")},
                "judge": _judge(row["model"], row["metric"], several=len(metrics) > 1),
            }
            for row in rows
        ]
        notes = [f"{self.source}: read as {description}, {len(rows):,} verdicts", *self.notes, *self.reused()]
        notes += [f"{self.source}: {count:,} {reason} left out" for reason, count in self.left_out.items()]
        if len(metrics) > 1:
            notes.append(
                f"{self.source}: {len(metrics):,} metrics, {listed(metrics)}, {SEVERAL_METRICS}, choose with metric=..."
            )
        human = [{name: value for name, value in row.items() if name != "number"} for row in people if _is_label(row)]
        if len(human) < len(people):
            notes.append(
                f"{self.source}: {len(people) - len(human):,} verdicts of people left out, which are blank or fractions"
            )
        if human:
            notes.append(f"{self.source}: {len(human):,} verdicts of people")
        people_frame = _frame(human) if human else None
        return VerdictRows(_frame(named, "run"), people_frame, kind, tuple(notes), self.passing, self._texts())

    def _texts(self) -> dict[tuple[Any, Any], dict[str, int]]:
        """Return the numbers of answers by their text, where a system gave several to an item."""
        several = {key: known for key, known in self.outputs.items() if len(known) > 1}
        return {key: {text: n for text, n in known.items() if isinstance(text, str)} for key, known in several.items()}

    def _chosen(self, metric: str | Sequence[str] | None) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the rows of judges and people with the metrics to keep."""
        if metric is None:
            return self.rows, self.people
        wanted = [metric] if isinstance(metric, str) else list(metric)
        known = list(dict.fromkeys(row["metric"] for row in [*self.rows, *self.people] if row["metric"] is not None))
        for one in wanted:
            if one not in known:
                raise DataError(
                    f"{self.source}: no metric {one!r}{suggestion(one, known)}; its metrics are {listed(known, 12)}"
                )
        rows = [row for row in self.rows if row["metric"] in wanted]
        if not rows:
            raise DataError(f"{self.source}: no judge has the metric {listed(wanted)}; name one of a judge, too")
        return rows, [row for row in self.people if row["metric"] in (*wanted, None)]

    @staticmethod
    def _settle_numbers(rows: list[dict[str, Any]], people: list[dict[str, Any]]) -> None:
        """Decide whether the numbers of one metric are verdicts."""
        given = [row["number"] for row in rows if row["number"] is not None]
        every = given + [person["number"] for person in people if person["number"] is not None]
        whole = all(float(number).is_integer() for number in given)
        for row in rows:
            if row["number"] is not None and whole:
                row["verdict"] = bool(row["number"]) if set(every) <= {0, 1} else int(row["number"])
        binary = set(every if whole else [p["number"] for p in people if p["number"] is not None]) <= {0, 1}
        for person in people:
            number = person.pop("number", None)
            person["number"] = None
            if number is not None and float(number).is_integer():
                person["verdict"] = bool(number) if binary else int(number)


def _name_models(rows: list[dict[str, Any]]) -> None:
    """Give verdicts that state no model, such as those of calls that failed, the one that gave all others on the metric."""
    models: dict[Any, dict[Any, Any]] = {}
    for row in rows:
        if row["model"] is not None:
            models.setdefault(_hashable(row["metric"]), {})[_hashable(row["model"])] = row["model"]
    for row in rows:
        known = models.get(_hashable(row["metric"]), {})
        if row["model"] is None and len(known) == 1:
            (row["model"],) = known.values()


def _shown(given: Any) -> Any:
    """Return what an input shows: of messages their roles and contents, since tools give them identifiers at random."""
    if isinstance(given, list):
        return [_shown(one) for one in given]
    if isinstance(given, dict) and "role" in given and "content" in given:
        return [given["role"], _shown(given["content"])]
    if isinstance(given, dict) and "type" in given:
        return {key: value for key, value in given.items() if key not in ("id", "internal")}
    return given


def _hashable(value: Any) -> Any:
    return value if isinstance(value, (str, int, type(None))) else json.dumps(value, sort_keys=True, default=str)


def _of_identifiers(rows: Sequence[Mapping[str, Any]], source: str) -> list[str]:
    """Return a note where identifiers are written as a number and as text, which are one item."""
    numbers_of = {str(row["item"]) for row in rows if isinstance(row["item"], numbers.Real)}
    both = sorted(numbers_of & {row["item"] for row in rows if isinstance(row["item"], str)})
    if not both:
        return []
    what = "1 identifier is" if len(both) == 1 else f"{len(both):,} identifiers are"
    return [f"{source}: {what} written as a number and as text ({listed(both, 3)}); each is one item"]


def _again(rows: list[dict[str, Any]]) -> int:
    """Return the number of verdicts that equal an earlier one on the same sample, as in the log of a run that was continued."""
    sampled = [row for row in rows if row.get("sample") is not None]
    return len(sampled) - len({tuple(_hashable(row[name]) for name in row if name != "when") for row in sampled})


def _tell_samples_apart(rows: list[dict[str, Any]]) -> None:
    """Give answers of one number, such as those of the first epoch of two logs, the names of their samples.

    A log that was scored again has the samples of the first one, so that its verdicts are on the same answers.
    """

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(_hashable(row.get(name)) for name in ("item", "system", "answer"))

    samples: dict[tuple[Any, ...], set[Any]] = {}
    for row in rows:
        if row.get("sample") is not None:
            samples.setdefault(key(row), set()).add(_hashable(row["sample"]))
    several = {one for one, names in samples.items() if len(names) > 1}
    for row in rows if several else ():
        twice = row.get("sample") is not None and key(row) in several
        answer = row["sample"] if twice else row.get("answer")
        row["answer"] = None if answer is None else str(answer)  # beside texts, numbers are texts, too
    for row in rows:
        row.pop("sample", None)


def _number(value: Any) -> float | None:
    """Return a finite number, ``None`` for other values and for booleans."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def _is_label(row: dict[str, Any]) -> bool:
    verdict = row["verdict"]
    return verdict is not None and not isinstance(verdict, float) and str(verdict).strip() != ""


def _judge(model: str | None, metric: str, several: bool) -> str:
    if model is None:
        return metric
    return f"{model}{SEPARATOR}{metric}" if several else model


def _require_one_type(rows: list[dict[str, Any]], source: str) -> None:
    kinds: dict[str, str] = {}
    for row in rows:
        if row["verdict"] is not None:
            kinds.setdefault(
                row["metric"], {bool: "true or false", int: "whole numbers"}.get(type(row["verdict"]), "texts")
            )
    if len(set(kinds.values())) > 1:
        metrics = ", ".join(f"{metric!r} {kind}" for metric, kind in list(kinds.items())[:5])
        raise DataError(
            f"{source}: metrics with verdicts of different types: {metrics}; choose those that measure the same with metric=..."
        )


def _frame(rows: list[dict[str, Any]], number: str | None = None) -> pd.DataFrame:
    """Return rows as a table without empty columns; ``number`` is a column of row numbers, which keeps equal rows apart."""
    names = dict.fromkeys(name for row in rows for name in row)
    frame = pd.DataFrame({name: pd.Series([row.get(name) for row in rows], dtype=object) for name in names})
    for name in ("item", "system", "judge", "annotator"):
        if name in frame:
            frame[name] = pd.Series(_uniform(frame[name].tolist()), dtype=object)
    for name in ("score", "cost", "seconds"):
        if name in frame:
            frame[name] = pd.to_numeric(frame[name], errors="coerce")
    empty = [name for name in frame if frame[name].isna().all() and name != "verdict"]
    if number is not None:
        frame[number] = range(len(frame))
    return frame.drop(columns=empty)


def _uniform(names: list[Any]) -> list[Any]:
    """Return names of one type: integers if all are, otherwise texts; whole floats are integers."""
    plain = [int(name) if isinstance(name, float) and name.is_integer() else name for name in names]
    integers = all(name is None or (isinstance(name, int) and not isinstance(name, bool)) for name in plain)
    return plain if integers else [None if name is None else str(name) for name in plain]
