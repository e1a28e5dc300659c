"""Battles of two models: votes of people in an arena, and Arena-Hard's verdicts against a baseline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crowdppl.judges.coding.states import State
from crowdppl.judges.readers.content import Content, first, mapping, parsed
from crowdppl.judges.readers.rows import Collector
from crowdppl.judges.readers.tables import standard_names

# Names of verdicts on pairs.
FIRST, SECOND, TIE = "first", "second", "tie"
# Winner of a pair by how it is written, for the models as they stand in the record.
_WINNERS = {"model_1": FIRST, "model_a": FIRST, "model_2": SECOND, "model_b": SECOND}
_TIES = ("tie", "tie (bothbad)", "both_bad", "bothbad")
# Keys of the winner, and in tables with a column for each outcome.
_WINNER = ("winner", "win")
_OUTCOMES = {"winner_model_a": FIRST, "winner_model_b": SECOND, "winner_tie": TIE}
_USER = "arena_user"
# The judge who stands for people in a file of their votes alone, and what they measure.
PEOPLE, VOTES = "people", "votes"
_LABELS = {
    FIRST: ("A>>B", "A>B", "B<A", "B<<A"),
    SECOND: ("B>>A", "B>A", "A<B", "A<<B"),
    TIE: ("A=B", "B=A"),
}


def winner(name: Any) -> str | None:
    """Return which of two models won by the name of the winner, ``None`` for another text."""
    text = str(name).strip().lower()
    return TIE if text in _TIES else _WINNERS.get(text)


def _is_false(value: Any) -> bool:
    """Return whether a value, or a text for it, is false; a missing one is not."""
    return str(value).strip().lower() in ("false", "0", "0.0")


def is_arena(content: Content) -> bool:
    """Recognise ``model_a``, ``model_b`` and a winner, with judges who are users of an arena, or none."""
    columns = set(content.columns)
    if not {"model_a", "model_b"} <= columns or not columns & {*_WINNER, *_OUTCOMES}:
        return False
    if "judge" in columns:
        return any(str(judge).startswith(_USER) for judge in content.table["judge"].tolist())
    return "judge" not in standard_names(list(columns)).values()


def arena(content: Content, rows: Collector) -> None:
    """Read the votes of an arena (JSON, JSON Lines, CSV, Parquet), such as those of the Chatbot Arena.

    The item is ``question_id``, ``id`` or the number of the row, the two systems are ``model_a`` and ``model_b``, and the verdict
    is ``winner`` (``model_a``, ``model_b``, ``tie``, ``tie (bothbad)``), ``win``, or one of ``winner_model_a``,
    ``winner_model_b`` and ``winner_tie`` that is 1. Votes of users are human labels; records whose ``judge`` is no
    ``arena_user`` are verdicts of this judge. If there are none, people are the only judge, too: its verdicts are their votes.

    Left out are votes whose voters saw the names of the models (``anony`` is false), and those that the arena marks as repeated
    (``sampled`` in ``dedup_tag`` is false).

    Sources: https://huggingface.co/datasets/lmsys/chatbot_arena_conversations, ``clean_battle_data.py`` and ``elo_analysis.py``
    of https://github.com/lm-sys/FastChat, and https://www.kaggle.com/competitions/lmsys-chatbot-arena/data.
    Uncertain: whether a judge of another name than ``arena_user`` is a person.
    """
    records: list[Mapping[str, Any]] = content.table.astype(object).to_dict("records")  # type: ignore[assignment]
    votes = []
    for n, record in enumerate(records, 1):
        if _is_false(record.get("anony")):
            rows.drop("votes of people who saw the names of the models")
            continue
        if _is_false(parsed(record.get("dedup_tag")).get("sampled")):
            rows.drop("votes on repeated prompts")
            continue
        name = first(record, *_WINNER)
        verdict = next((v for k, v in _OUTCOMES.items() if str(record.get(k)) in ("1", "1.0", "True")), winner(name))
        if verdict is None:
            rows.drop("votes without a winner")
            continue
        item = first(record, "question_id", "id")
        pair = {"system": record.get("model_a"), "opponent": record.get("model_b"), "when": record.get("tstamp")}
        judge = record.get("judge")
        one = (item if item is not None and item == item else f"battle {n}", verdict, pair)
        if isinstance(judge, str) and not judge.startswith(_USER):
            rows.add(one[0], VOTES, verdict, model=judge, **pair)
        else:
            votes.append(one)
    alone = not rows.rows
    for item, verdict, pair in votes:
        rows.person(item, verdict, VOTES, **pair)
        if alone:  # without times, at which people cannot have changed against themselves
            rows.add(item, VOTES, verdict, model=PEOPLE, **pair | {"when": None})
    if alone:
        rows.notes.append(
            f"{content.name}: votes of people alone, who are their own judge; their strengths need no correction"
        )


def is_arena_hard(content: Content) -> bool:
    """Recognise ``model``, ``judge`` and ``games`` with scores such as ``A>B``."""
    return any(
        {"model", "judge", "games"} <= set(record) and isinstance(record["games"], list)
        for record in content.records[:100]
    )


def arena_hard(content: Content, rows: Collector) -> None:
    """Read Arena-Hard's verdicts, JSON Lines.

    The item is the ``question_id`` or ``uid``, the judge ``judge``, the system ``model``, and its opponent ``baseline``, or the
    name ``baseline`` where the file does not state it. The first game shows the baseline's answer as A, the second the model's.
    ``A>>B`` and ``A>B`` are one verdict. A game without a score is ``UNPARSEABLE``, one that is ``null`` ``MISSING``.

    Sources: ``gen_judgment.py`` and ``show_result.py`` of https://github.com/lmarena/arena-hard-auto.
    Uncertain: the baseline of files that do not state it.
    """
    by_label = {label: verdict for verdict, labels in _LABELS.items() for label in labels}
    for record in content.records:
        games = record.get("games")
        for n, game in enumerate(games if isinstance(games, list) else []):
            result = mapping(game)
            score = result.get("score")
            shown = str(score).strip().strip("[]")
            verdict = by_label.get(shown)
            if verdict not in (None, TIE) and n % 2 == 0:  # A is the baseline
                verdict = SECOND if verdict == FIRST else FIRST
            state = State.MISSING if game is None else State.UNPARSEABLE if verdict is None else None
            rows.add(
                first(record, "question_id", "uid") or "(blank)",
                "winner",
                verdict,
                model=str(record.get("judge")),
                state=state,
                system=record.get("model"),
                opponent=first(record, "baseline", "baseline_model") or "baseline",
                swapped=int(n % 2 == 0),
                when=record.get("tstamp"),
            )
