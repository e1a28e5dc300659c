"""Verdicts of benchmarks: MT-bench, AlpacaEval and OpenAI's evals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from crowdppl.errors import DataError
from crowdppl.judges.coding.states import State
from crowdppl.judges.coding.units import turn_of
from crowdppl.judges.readers.arenas import FIRST, SECOND, TIE, winner
from crowdppl.judges.readers.content import Content, characters, first, mapping, objects
from crowdppl.judges.readers.rows import Collector

# MT-bench's rating of a reply without one, AlpacaEval's name of an answer that was not read, and that of OpenAI's evals.
_NO_RATING, _ERROR, _INVALID = -1, "error", "__invalid__"
# The type of an output of a run of OpenAI's interface.
_ITEM = "eval.run.output_item"
_RATED = {"question_id", "model", "judge", "score"}
_COMPARED = {"question_id", "model_1", "model_2", "judge", "g1_winner"}
_VOTED = {"question_id", "model_a", "model_b", "winner", "judge"}
_ALPACA = {"instruction", "generator_1", "generator_2", "annotator", "preference"}


def _some(content: Content) -> list[dict[str, Any]]:
    return content.records[:100]


def is_mt_bench(content: Content) -> bool:
    """Recognise verdicts with ``question_id`` and ``judge``, and a ``score`` of a model or a winner of two."""
    return any(
        (set(record) >= _RATED and isinstance(record["judge"], list))
        or set(record) >= _COMPARED
        or set(record) >= _VOTED
        for record in _some(content)
    )


def mt_bench(content: Content, rows: Collector) -> None:
    """Read MT-bench's verdicts, JSON Lines: ratings of single answers, pairs in both orders, and votes of an arena.

    The item is the ``question_id`` with the ``turn``, the system ``model``, or ``model_1`` and ``model_2``, the judge the name of
    its model, and the metric that of its prompt. A rating of -1 is a reply in which no rating was found: ``UNPARSEABLE``, as is
    the winner ``error``. ``g1_winner`` is the verdict with the first model's answer in front, ``g2_winner`` that with the second
    one's, by the same names of models.

    Sources: ``gen_judgment.py`` and ``common.py`` of https://github.com/lm-sys/FastChat. Uncertain: other programs that write
    these records may count the turns otherwise.
    """
    for record in content.records:
        turn = record.get("turn")
        item = record.get("question_id") if turn is None else turn_of(record.get("question_id"), turn)
        judge = record.get("judge")
        model, prompt = (judge[0], judge[-1]) if isinstance(judge, list) and judge else (judge, "winner")
        when = record.get("tstamp")
        if "score" in record and "g1_winner" not in record:
            score = record.get("score")
            rows.add(
                item,
                str(prompt),
                None if score == _NO_RATING else score,
                model=str(model),
                state=State.UNPARSEABLE if score == _NO_RATING else None,
                system=record.get("model"),
                when=when,
            )
            continue
        one, other = first(record, "model_1", "model_a"), first(record, "model_2", "model_b")
        games = [("g1_winner", 0), ("g2_winner", 1)] if "g1_winner" in record else [("winner", None)]
        for name, swapped in games:
            if name not in record:
                continue
            unread = str(record[name]).strip().lower() == _ERROR
            verdict, state = winner(record[name]), State.UNPARSEABLE if unread else None
            others = {} if swapped is None else {"swapped": swapped}
            rows.add(
                item,
                str(prompt),
                verdict,
                model=str(model),
                state=state,
                system=one,
                opponent=other,
                when=when,
                **others,
            )


def is_alpaca_eval(content: Content) -> bool:
    """Recognise annotations with ``instruction``, ``generator_1``, ``generator_2``, ``annotator`` and ``preference``."""
    return any(set(record) >= _ALPACA for record in _some(content))


def alpaca_eval(content: Content, rows: Collector) -> None:
    """Read AlpacaEval's ``annotations.json``.

    The item is the ``instruction``, the two systems ``generator_1`` and ``generator_2``, the judge ``annotator``. A
    ``preference`` below 1.5 is for the first, above 1.5 for the second, and 1.5 or 0 a tie; what weighted annotators give
    between 1 and 2 is kept as the score. A blank one is ``UNPARSEABLE``, as is any other number, such as -1. Lengths are those of
    ``output_1`` and ``output_2`` in characters.

    Sources: ``annotators/pairwise_evaluator.py`` of https://github.com/tatsu-lab/alpaca_eval. Uncertain: whether the answers of
    a record were shown in its order.
    """
    stated = [record.get("preference") for record in content.records]
    numbers = [one for one in stated if isinstance(one, (int, float)) and not isinstance(one, bool)]
    if 0 in numbers and not any(one > 1 for one in numbers):
        rows.notes.append(
            f"{rows.source}: no preference is above 1, and 0 is read as a tie, as AlpacaEval writes it; if 0 and 1 are the first "
            f"and the second system, write 1 and 2"
        )
    for record in content.records:
        value = record.get("preference")
        given = isinstance(value, (int, float)) and not isinstance(value, bool) and (value == 0 or 1 <= value <= 2)
        number = float(value) if given else math.nan  # type: ignore[arg-type]
        verdict = TIE if number in (0, 1.5) else FIRST if number < 1.5 else SECOND
        rows.add(
            first(record, "instruction") or "(blank)",
            "preference",
            verdict if given else None,
            model=str(record.get("annotator")),
            state=None if given else State.UNPARSEABLE,
            score=number if given and 1 <= number <= 2 else None,
            system=record.get("generator_1"),
            opponent=record.get("generator_2"),
            length=characters(record.get("output_1")),
            opponent_length=characters(record.get("output_2")),
            cost=record.get("price_per_example"),
            seconds=record.get("time_per_example"),
        )


def is_openai_evals(content: Content) -> bool:
    """Recognise a log whose first lines have ``spec`` or events with ``run_id``, ``sample_id`` and ``type``."""
    records = _some(content)
    if any(record.get("object") == _ITEM for record in records):
        return True
    return any("spec" in record and isinstance(record["spec"], Mapping) for record in records) and any(
        {"run_id", "sample_id", "type"} <= set(record) for record in records
    )


def openai_evals(content: Content, rows: Collector) -> None:
    """Read a log of OpenAI's evals, JSON Lines, or the output items of a run of its interface, JSON or JSON Lines.

    The system is the first of ``spec.completion_fns``; the judge is the last one of a model-graded eval, otherwise the eval
    itself. Events of the type ``match`` are verdicts ``correct``, those of the type ``metrics`` their ``choice``; ``__invalid__``
    is ``UNPARSEABLE``. The item is the ``sample_id``; another ``run_id`` is another answer.

    *Output items*: the item is ``datasource_item_id``, the system the ``model`` of the ``sample``, and each of the ``results`` a
    verdict, ``passed``, with a ``score``, of the judge of its name; its ``sample`` names the model that judged.

    Sources: https://developers.openai.com/api/reference/resources/evals, ``evals/record.py`` and
    ``evals/elsuite/modelgraded/classify.py`` of https://github.com/openai/evals. Uncertain: the model that judged where an eval
    names a single one.
    """
    for record in content.records:
        if record.get("object") == _ITEM:
            _output_item(record, rows)
    spec: Mapping[str, Any] = next(
        (mapping(r["spec"]) for r in content.records if isinstance(r.get("spec"), Mapping)), {}
    )
    models = [str(one) for one in spec.get("completion_fns") or []]
    name = str(first(spec, "eval_name", "base_eval") or "eval")
    system = models[0] if models else None
    for event in objects(content.records):
        data, kind = mapping(event.get("data")), event.get("type")
        item, when = event.get("sample_id"), event.get("created_at")
        if kind == "match" and isinstance(data.get("correct"), bool):
            rows.add(item, name, data["correct"], system=system, when=when, answer=_answer(rows, event, system))
        elif kind == "metrics" and data.get("choice") is not None:
            invalid = data["choice"] == _INVALID
            rows.add(
                item,
                name,
                None if invalid else str(data["choice"]),
                model=models[-1] if len(models) > 1 else None,
                state=State.UNPARSEABLE if invalid else None,
                score=data.get("score"),
                system=system,
                when=when,
                answer=_answer(rows, event, system),
            )
    if not rows.rows:
        raise DataError(f"{content.name}: no event of the type match, and none of the type metrics with a choice")


def _output_item(record: Mapping[str, Any], rows: Collector) -> None:
    """Add the verdicts of the graders on an output."""
    sample = mapping(record.get("sample"))
    item, system = record.get("datasource_item_id"), sample.get("model")
    outputs = objects(sample.get("output"))
    rows.passing = True
    for result in objects(record.get("results")):
        rows.add(
            item,
            str(result.get("name") or "grader"),
            result.get("passed"),
            model=mapping(result.get("sample")).get("model"),
            score=result.get("score"),
            system=system,
            when=record.get("created_at"),
            answer=None if record.get("run_id") is None else rows.answer(item, system, record["run_id"]),
            length=characters(outputs[-1].get("content")) if outputs else None,
        )


def _answer(rows: Collector, event: Mapping[str, Any], system: str | None) -> int | None:
    """Return the number of the answer that was judged, as each run has one to a sample; ``None`` without a run."""
    run = event.get("run_id")
    return None if run is None else rows.answer(event.get("sample_id"), system, run)
