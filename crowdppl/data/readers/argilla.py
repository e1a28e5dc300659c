"""Argilla's records: rows of a Hugging Face data set (version 1 or 2), JSON of Argilla 2, and records of its server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from crowdppl.data.readers.json_tables import long_names
from crowdppl.data.readers.records import Choices, Records, choose
from crowdppl.data.readers.rows import Rows, flat, items_of
from crowdppl.data.readers.source import SourceFile
from crowdppl.data.table.cells import is_structured
from crowdppl.errors import DataError

_FLAT = ".responses"


class _Response(NamedTuple):
    user: Any
    value: Any
    status: Any


def is_argilla(record: dict[str, Any]) -> bool:
    """Recognise keys such as ``<question>.responses``, or ``responses`` beside ``fields``."""
    if any(key.endswith(_FLAT) for key in record):
        return True
    if not long_names(record) and any(_is_first_version(record, key) for key in record):
        return True
    return isinstance(record.get("fields"), dict) and isinstance(record.get("responses"), (dict, list))


def argilla(file: SourceFile, choices: Choices) -> Records:
    """Read Argilla's records. Discarded responses are skips; drafts, rankings and spans are left out."""
    questions = list(dict.fromkeys(name for record in file.records for name in _questions(record)))
    question = choose(sorted(questions), choices, file.name)
    tasks = items_of(file.records, ("id", "external_id", "_server_id"), file.name, within=file.within)
    rows = Rows(file.name, choices, question)
    for n, (record, task) in enumerate(zip(file.records, tasks, strict=True)):
        where = f"record {n + 1}"
        for user, value, status in _responses(record, question, f"{file.name}, {where}"):
            parts = value if isinstance(value, list) else [value]
            if status == "discarded":
                rows.skip(task, user, "that were discarded (skipped)", where=where, record=n)
            elif status in ("draft", "pending"):
                rows.drop("that are drafts")
            elif any(isinstance(part, Mapping) and "rank" in part for part in parts):
                rows.drop("that are rankings")
            elif any(isinstance(part, Mapping) and "start" in part for part in parts):
                rows.drop("that are spans of text")
            else:
                rows.add(task, user, value, where=where, record=n)
    table = flat(file.records, ("fields", "metadata"))
    inputs = [name for name in table.columns if name.startswith("fields.")]
    return rows.finish("Argilla", table, inputs, "id")


def _questions(record: dict[str, Any]) -> Iterator[str]:
    yield from (key.removesuffix(_FLAT) for key in record if key.endswith(_FLAT))
    yield from (key for key in record if _is_first_version(record, key))
    responses = record.get("responses")
    if isinstance(responses, Mapping):
        yield from map(str, responses)
    for response in responses if isinstance(responses, list) else ():
        yield from map(str, _values(response))


def _is_first_version(record: Mapping[str, Any], key: str) -> bool:
    """Recognise a question of version 1: responses with user, value and status, or a list of each, beside a suggestion."""
    responses = record[key]
    if isinstance(responses, Mapping):
        return {"user_id", "value", "status"} <= set(responses)
    if not isinstance(responses, list) or not all(isinstance(one, Mapping) for one in responses):
        return False
    given = bool(responses) and all({"user_id", "value", "status"} <= set(one) for one in responses)
    return given or (not responses and f"{key}-suggestion" in record)


def _values(response: Any) -> Mapping[str, Any]:
    """Return the answers of one user by question."""
    values = response.get("values") if isinstance(response, Mapping) else None
    return values if isinstance(values, Mapping) else {}


def _responses(record: dict[str, Any], question: str, where: str) -> list[_Response]:
    """Return the responses to a question in any of the forms of Argilla."""
    responses = record.get("responses")
    if isinstance(responses, list):
        return [
            _Response(response.get("user_id"), _value(_values(response)[question]), response.get("status"))
            for response in responses
            if question in _values(response)
        ]
    if isinstance(responses, Mapping):
        return [
            _Response(response.get("user_id"), response.get("value"), response.get("status"))
            for response in responses.get(question) or []
            if isinstance(response, Mapping)
        ]
    first = record.get(question)
    if isinstance(first, Mapping):
        names = ("user_id", "value", "status")
        columns = [_listed(first.get(name)) or [] for name in names]
        if len({len(column) for column in columns}) > 1:
            raise DataError(f"{where}: {question!r} has unlike numbers of {', '.join(names)}; export it again")
        return [_Response(*row) for row in zip(*columns, strict=True)]
    if isinstance(first, list):
        return [_Response(one.get("user_id"), one.get("value"), one.get("status")) for one in first]
    answers, users, states = (_listed(record.get(f"{question}{_FLAT}{part}")) for part in ("", ".users", ".status"))
    answers = answers or []
    users, states = ([None] * len(answers) if values is None else values for values in (users, states))
    if not len(answers) == len(users) == len(states):
        raise DataError(
            f"{where}: {len(answers)} responses, {len(users)} users, {len(states)} statuses; export it again"
        )
    return [_Response(u, _value(a), s) for u, a, s in zip(users, answers, states, strict=True)]


def _listed(values: Any) -> list[Any] | None:
    if values is None:
        return None
    return list(values) if is_structured(values) and not isinstance(values, Mapping) else [values]


def _value(answer: Any) -> Any:
    return answer.get("value") if isinstance(answer, Mapping) and "value" in answer else answer
