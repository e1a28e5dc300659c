"""Google Forms, Microsoft Forms, Qualtrics, SurveyMonkey, LimeSurvey: a row for each respondent, a column for each item."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from crowdppl.data.readers.platforms import rows_of
from crowdppl.data.readers.records import Choices, Records
from crowdppl.data.readers.rows import Rows
from crowdppl.data.readers.source import SourceFile
from crowdppl.data.table.cells import absent
from crowdppl.data.table.columns import LABEL_COLUMNS, WORKER_COLUMNS
from crowdppl.errors import DataError, listed

# First column of Google's tables, in some of its languages, and of Microsoft's.
TIMES = frozenset(
    (
        *(
            "timestamp",
            "zeitstempel",
            "horodateur",
            "marca temporal",
            "informazioni cronologiche",
            "carimbo de data/hora",
        ),
        *(
            "tijdstempel",
            "sygnatura czasowa",
            "отметка времени",
            "タイムスタンプ",
            "时间戳记",
            "start time",
            "startzeit",
        ),
    )
)
# Columns that name the respondent, the most readable first.
PEOPLE = (
    *("email address", "username", "e-mail-adresse", "email", "e-mail", "adresse e-mail", "name", "your name"),
    *("recipientemail", "prolific_pid", "prolific id", "workerid", "responseid", "respondent id", "response id", "id"),
)
# What Qualtrics and SurveyMonkey write of a respondent, beside the answers; and the columns that show which of them it is.
SURVEYS = frozenset(
    (
        *(
            "startdate",
            "enddate",
            "status",
            "ipaddress",
            "progress",
            "duration (in seconds)",
            "finished",
            "recordeddate",
        ),
        *("recipientlastname", "recipientfirstname", "externalreference", "externaldatareference", "locationlatitude"),
        *("locationlongitude", "distributionchannel", "userlanguage", "q_recaptchascore", "collector id", "start date"),
        *("end date", "date created", "date modified", "ip address", "first name", "last name", "custom data 1"),
        # LimeSurvey, by codes and by texts.
        *("submitdate", "lastpage", "startlanguage", "seed", "datestamp", "ipaddr", "refurl", "token", "interviewtime"),
        *(
            "date submitted",
            "last page",
            "start language",
            "date started",
            "date last action",
            "referrer url",
            "total time",
        ),
    )
)
_SURVEY = (
    *(("responseid", "startdate"), ("respondent id", "collector id")),
    *(("id", "startlanguage", other) for other in ("submitdate", "lastpage", "seed")),
    *(("response id", "start language", other) for other in ("date submitted", "last page", "seed")),
)
# In the second line of SurveyMonkey: what kind of answer a column has.
_KINDS = frozenset(("response", "open-ended response"))
# Other columns that are no items.
OTHERS = frozenset(
    (
        *TIMES,
        *PEOPLE,
        "score",
        "completion time",
        "last modified time",
        "fertigstellungszeit",
        "points",
        "feedback",
    )
)


def is_forms(file: SourceFile) -> bool:
    """Recognise a first column of times, or the columns of a survey, no columns of workers and labels, and several others."""
    names = [name.lower() for name in file.columns]
    known = {*WORKER_COLUMNS, *LABEL_COLUMNS}
    timed = bool(names) and (names[0] in TIMES or (names[0] == "id" and "start time" in names[:3]))
    others = OTHERS
    if of_survey(names):
        respondent = file.table[
            file.columns[names.index(next(shown[0] for shown in _SURVEY if set(shown) <= set(names)))]
        ]
        if respondent.dropna().duplicated().any():
            return False  # a row for each answer, not for each respondent
        timed, others = True, OTHERS | SURVEYS
    return timed and known.isdisjoint(names) and len([name for name in names if name not in others]) > 1


def of_survey(names: Collection[str]) -> bool:
    """Tell whether columns, in lower case, are those of Qualtrics, SurveyMonkey or LimeSurvey."""
    return any(set(shown) <= set(names) for shown in _SURVEY)


def forms(file: SourceFile, choices: Choices) -> Records:
    """Read the answers to a form with a question for each item.

    The worker is the address or the name of the respondent, or else the number of the row. Questions whose answers have nothing
    in common with those to other questions, such as the age of the respondent, are not items.
    """
    # Questions about pictures often have one title.
    table, records = rows_of(file, numbered(list(map(str, file.table.columns))))
    rows = Rows(file.name, choices)
    kept = _answered(records, rows)
    table, records = table.iloc[kept].reset_index(drop=True), [records[n] for n in kept]
    columns = {name: [row[name] for row in records] for name in table.columns}
    others = OTHERS | SURVEYS if of_survey({name.lower() for name in columns}) else OTHERS
    asked = [name for name in columns if name.lower() not in others]
    items, unlike = _items({name: columns[name] for name in asked})
    if len(items) < 2:
        raise DataError(
            f"{file.name}: no two of its questions ({listed(asked, 4)}) have answers in common; a form is read where a column "
            f"stands for an item; name another format with format=..."
        )
    who = [name for wanted in PEOPLE for name in columns if name.lower() == wanted]
    worker = next((name for name in who if not any(map(absent, columns[name]))), None)
    time = next(
        (
            name
            for name in columns
            if name.lower() in (*TIMES, "startdate", "start date", "submitdate", "date submitted")
        ),
        None,
    )
    if worker is None:
        rows.note("no address or name of the respondents: each row is a worker")
    for item in items:
        for n, row in enumerate(records):
            name = f"respondent {kept[n] + 1}" if worker is None else row[worker]
            if absent(row[item]):
                rows.drop("without a label")
            else:
                rows.add(
                    item, name, row[item], None if time is None else row[time], where=f"row {kept[n] + 1}", record=n
                )
    rows.note(f"{len(items):,} columns are items, such as {listed(items, 2)}")
    if unlike:
        rows.note(f"columns that are not items: {listed(unlike, 6)}")
    return rows.finish("a form", table[[name for name in table.columns if name not in items]])


def _answered(records: list[dict[str, Any]], rows: Rows) -> list[int]:
    """Return the rows with answers: below the further lines of a header, and no previews of the survey's author."""
    lines = next((n + 1 for n, row in reversed(list(enumerate(records[:2]))) if _is_header(row)), 0)
    rows.note("{} lines below the header that describe the questions are left out", lines)
    kept = [n for n in range(lines, len(records)) if str(records[n].get("Status")) != "Survey Preview"]
    rows.note("{} previews of the survey are left out", len(records) - lines - len(kept))
    return kept


def _is_header(row: dict[str, Any]) -> bool:
    """Recognise the lines of questions and of identifiers of Qualtrics, and that of the kinds of answers of SurveyMonkey."""
    cells = [str(cell).strip() for cell in row.values() if not absent(cell)]
    described = str(row.get("ResponseId")).strip() == "Response ID" or str(row.get("StartDate")).strip() == "Start Date"
    return (described or any(cell.startswith('{"ImportId"') for cell in cells)) or (
        bool(cells)
        and "Respondent ID" in row
        and absent(row["Respondent ID"])
        and any(cell.lower() in _KINDS for cell in cells)
    )


def numbered(names: list[str]) -> list[str]:
    """Return names of which equal ones are told apart by a number: ``picture``, ``picture (2)``."""
    seen: dict[str, int] = {}
    out = []
    for name in map(str.strip, names):
        seen[name] = seen.get(name, 0) + 1
        out.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return out


def _items(asked: dict[str, list[Any]]) -> tuple[list[str], list[str]]:
    """Return the columns whose answers are also given to other questions, and the others."""
    answers = {name: {str(value) for value in values if not absent(value)} for name, values in asked.items()}
    items, others = _in_common(answers)
    if len(items) < 2:  # several boxes that were ticked stand in one cell
        apart = {
            name: {part.strip() for answer in given for part in re.split("[,;]", answer)}
            for name, given in answers.items()
        }
        return _in_common(apart)
    return items, others


def _in_common(answers: dict[str, set[str]]) -> tuple[list[str], list[str]]:
    counts: dict[str, int] = {}
    for given in answers.values():
        for answer in given:
            counts[answer] = counts.get(answer, 0) + 1
    items = [
        name
        for name, given in answers.items()
        # Half of the answers to a question about an item, or more, are also answers to a question about another.
        if given and 2 * sum(counts[answer] > 1 for answer in given) >= len(given)
    ]
    return items, [name for name in answers if name not in items]
