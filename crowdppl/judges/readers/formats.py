"""All formats of verdicts by name, and the detection of a file's format."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from crowdppl import arguments
from crowdppl.arguments import InputPath, PositiveInt, checked
from crowdppl.data.readers.opening import LIMIT
from crowdppl.data.readers.repeated_headers import HEADER_ROWS
from crowdppl.data.readers.source import read_table
from crowdppl.data.readers.streams import local, source_name
from crowdppl.data.table import questions
from crowdppl.errors import DataError, FileError, OptionError, listed, suggestion
from crowdppl.judges.coding import criteria
from crowdppl.judges.coding.verdict_columns import ROLES, table_of
from crowdppl.judges.readers import (
    arenas,
    benchmarks,
    braintrust,
    deepeval,
    helm,
    inspect_logs,
    lm_eval,
    mlflow,
    observability,
    promptfoo,
    ragas,
    tables,
)
from crowdppl.judges.readers.archives import ENDING, opened
from crowdppl.judges.readers.content import Content
from crowdppl.judges.readers.rows import Collector, VerdictRows
from crowdppl.judges.verdicts import Verdicts


@dataclass(frozen=True)
class Format:
    """A format of verdicts.

    Attributes:
        description: a short description.
        matches: recognises the format by its content.
        read: the reader, which adds verdicts to a collector.
    """

    description: str
    matches: Callable[[Content], bool]
    read: Callable[[Content, Collector], None]


# In the order of detection. Standard tables come last: tools write columns of the same names.
FORMATS = {
    "inspect": Format("Inspect AI's log (JSON, .eval)", inspect_logs.is_inspect, inspect_logs.inspect),
    "promptfoo": Format("promptfoo's output (JSON, JSON Lines)", promptfoo.is_promptfoo, promptfoo.promptfoo),
    "deepeval": Format("DeepEval's test run (JSON)", deepeval.is_deepeval, deepeval.deepeval),
    "lm-eval": Format("lm-evaluation-harness's samples (JSON Lines)", lm_eval.is_lm_eval, lm_eval.lm_eval),
    "langfuse": Format("Langfuse's scores (CSV, JSON, JSON Lines)", observability.is_langfuse, observability.langfuse),
    "langsmith": Format(
        "LangSmith's feedback (CSV, JSON, JSON Lines)", observability.is_langsmith, observability.langsmith
    ),
    "phoenix": Format(
        "Phoenix's annotations (CSV, Parquet, JSON, JSON Lines)", observability.is_phoenix, observability.phoenix
    ),
    "arena": Format("an arena's votes (JSON, JSON Lines, CSV, Parquet)", arenas.is_arena, arenas.arena),
    "arena-hard": Format("Arena-Hard's verdicts (JSON Lines)", arenas.is_arena_hard, arenas.arena_hard),
    "helm": Format("HELM's scenario state (JSON)", helm.is_helm, helm.helm),
    "mt-bench": Format("MT-bench's or an arena's verdicts (JSON Lines)", benchmarks.is_mt_bench, benchmarks.mt_bench),
    "alpaca-eval": Format("AlpacaEval's annotations (JSON)", benchmarks.is_alpaca_eval, benchmarks.alpaca_eval),
    "openai-evals": Format("OpenAI's evals (JSON, JSON Lines)", benchmarks.is_openai_evals, benchmarks.openai_evals),
    "braintrust": Format("Braintrust's experiment (JSON, JSON Lines)", braintrust.is_braintrust, braintrust.braintrust),
    "mlflow": Format("MLflow's evaluation (JSON, JSON Lines, CSV)", mlflow.is_mlflow, mlflow.mlflow),
    "ragas": Format("RAGAS's results (CSV, JSON, JSON Lines)", ragas.is_ragas, ragas.ragas),
}
# A table with the standard columns, which needs no collector.
TABLE = "table"
NAMES = (*FORMATS, TABLE)
# Files of a folder that may hold verdicts; others are not opened.
_ENDINGS = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet", ".pq", ENDING)
_COMPRESSED = (".gz", ".bz2", ".xz")


@checked
def read_frame(
    path: InputPath,
    format: str | None = None,
    *,
    metric: str | Sequence[str] | None = None,
    limit: PositiveInt = LIMIT,
) -> VerdictRows:
    """Read the verdicts of a file, or of a folder of files of one format, as a table.

    Arguments and errors as in :func:`read`.

    Returns:
        The table with the columns of :meth:`Verdicts.from_frame`, verdicts of people apart, the format, and notes.
    """
    if format is not None and format not in NAMES:
        raise OptionError(f"no format {format!r}{suggestion(format, NAMES)}; use one of {listed(NAMES, 20)}")
    wanted = _wanted(metric)
    path = Path(path)
    if path.is_dir():
        return _folder(path, format, wanted, limit)
    with local(path) as file:
        return _one(opened(file, limit), format, wanted)


@checked
def read(
    path: InputPath,
    format: str | None = None,
    *,
    metric: str | Sequence[str] | None = None,
    limit: PositiveInt = LIMIT,
    **options: Any,
) -> Verdicts:
    """Read the verdicts of judges from what an evaluation tool has written, or from a table.

    Formats: ``inspect``, ``promptfoo``, ``deepeval``, ``lm-eval``, ``langfuse``, ``langsmith``, ``phoenix``, ``braintrust``,
    ``mlflow``, ``ragas``, ``mt-bench``, ``alpaca-eval``, ``openai-evals``, ``helm``, ``arena`` (votes of people), ``arena-hard``,
    and ``table``, a table with a row for each verdict.
    What each reader takes for item, judge, system and state is described with the readers.

    Args:
        path: the file, or a folder of files of one format, such as a log for each system; ``"-"`` is standard input.
        format: the format. Defaults to the one that the content shows.
        metric: name or names of what is measured, if the tool measures several things. Defaults to all; each is then a judge. Of
            a table with verdicts on several criteria, the criterion.
        limit: maximum size of a file in bytes, decompressed.
        **options: options of :meth:`Verdicts.from_frame`. Names of columns, such as ``judge="grader"``, are for tables.

    Returns:
        The verdicts. ``human`` has the verdicts of people that the file contains, for :meth:`HumanLabels.from_frame`.

    Raises:
        FileError: if the file is missing, damaged or of an unknown format.
        DataError: if its content cannot be used.
        OptionError: for an unknown format or option.
    """
    return _verdicts(path, *_rows_and_table(path, format, limit, options, metric=metric), options)


@checked
def read_criteria(
    path: InputPath,
    format: str | None = None,
    *,
    criterion: str | None = None,
    limit: PositiveInt = LIMIT,
    **options: Any,
) -> dict[Any, Verdicts]:
    """Read the verdicts on each criterion of a file, for :func:`crowdppl.judges.fit_criteria`.

    Of a table, a column states the criterion. Of a file of an evaluation tool, each metric is one.

    Args:
        path: the file, or a folder of files of one format.
        format: the format. Defaults to the one that the content shows.
        criterion: column of criteria in a table. Defaults to the one that :meth:`Verdicts.from_frame` recognises.
        limit: maximum size of a file in bytes, decompressed.
        **options: of :meth:`Verdicts.by_criterion`.

    Raises:
        FileError: as :func:`read`.
        DataError: if its content cannot be used, or there are not several criteria.
        OptionError: for an unknown format or option.
    """
    rows, frame = _rows_and_table(path, format, limit, options, criterion=criterion)
    return _by_criterion(path, format, limit, rows, frame, criterion, options)


def people_of(path: Path) -> pd.DataFrame:
    """Return a table of human labels, or the votes of people that a file of an arena contains.

    Raises:
        FileError: if the file cannot be read.
    """
    content = Content(path)
    if arenas.is_arena(content):
        votes = _one(content, "arena", None).human
        if votes is not None:
            return votes
    return read_table(path)


def read_each(
    path: str | Path,
    format: str | None = None,
    *,
    metric: str | Sequence[str] | None = None,
    criterion: str | None = None,
    each_metric: bool = False,
    labelled: Collection[Any] = (),
    limit: int = LIMIT,
    **options: Any,
) -> dict[Any, Verdicts]:
    """Read verdicts by criterion if a file has several, and otherwise as the only value, of ``None``.

    Of an evaluation tool's file each metric is a criterion if people labelled several of them.

    Args:
        path: as of :func:`read`.
        format: as of :func:`read`.
        metric: as of :func:`read`.
        criterion: as of :func:`read_criteria`.
        each_metric: whether each metric of an evaluation tool's file is a criterion in any case.
        labelled: names of what people labelled, where another file has their labels.
        limit: as of :func:`read`.
        **options: of :meth:`Verdicts.from_frame`.
    """
    rows, frame = _rows_and_table(path, format, limit, options, metric=metric, criterion=criterion)
    several = criterion is not None
    if rows.format == TABLE and not several:
        table = table_of(frame, options, rows.format)
        several = criteria.column_of_criteria(table.frame, None, table.columns, rows.format) is not None
    if several or each_metric or (metric is None and _labelled_apart(rows, labelled)):
        return _by_criterion(path, format, limit, rows, frame, criterion, options)
    return {None: _verdicts(path, rows, frame, options)}


def _labelled_apart(rows: VerdictRows, labelled: Collection[Any]) -> bool:
    """Return whether people labelled several of the metrics that judges state."""
    if rows.format == TABLE:
        return False
    people = [] if rows.human is None or "metric" not in rows.human else rows.human["metric"].dropna().tolist()
    return len({str(one) for one in rows.frame["metric"]} & {str(one) for one in (*people, *labelled)}) > 1


def is_log(path: Path, limit: int = LIMIT) -> bool:
    """Return whether a file, or the first one in a folder that may hold verdicts, is of an evaluation tool."""
    if path.is_dir():
        path = next((file for file in sorted(path.rglob("*")) if file.is_file() and _may_hold_verdicts(file)), path)
    return not path.is_dir() and _detected(opened(path, limit)) in FORMATS


def _rows_and_table(
    path: str | Path,
    format: str | None,
    limit: int,
    options: Mapping[str, Any],
    *,
    metric: Any = None,
    criterion: str | None = None,
) -> tuple[VerdictRows, pd.DataFrame]:
    """Return the rows of a file, and their table with the names of columns that the caller knows."""
    named = [str(options[role]) for role in ROLES if options.get(role) is not None]
    # A user who names columns has a table.
    rows = read_frame(path, TABLE if format is None and (named or criterion) else format, metric=metric, limit=limit)
    return rows, rows.frame.rename(columns=tables.own_names(rows.frame, named))


def _verdicts(path: str | Path, rows: VerdictRows, frame: pd.DataFrame, options: Mapping[str, Any]) -> Verdicts:
    # What the metrics of a tool are is said in the notes of the rows.
    own = frame if rows.format == TABLE else frame.drop(columns="metric", errors="ignore")
    verdicts = Verdicts.from_frame(own, **{"source": source_name(path), **options})
    notes = (*rows.notes, *verdicts.notes)
    return dataclasses.replace(verdicts, human=rows.human, passing=rows.passing, outputs=rows.outputs, notes=notes)


def _by_criterion(
    path: str | Path,
    format: str | None,
    limit: int,
    rows: VerdictRows,
    frame: pd.DataFrame,
    criterion: str | None,
    options: Mapping[str, Any],
) -> dict[Any, Verdicts]:
    """Return the verdicts on each criterion of a table, or on each metric of a tool's file."""
    if rows.format == TABLE:
        return Verdicts.by_criterion(frame, criterion, **{"source": source_name(path), **options})
    metrics = list(dict.fromkeys(rows.frame["metric"].tolist()))
    if len(metrics) < 2:
        raise DataError(
            f"{source_name(path)}: there is one metric, {listed(metrics)}; read it with crowdppl.judges.read"
        )
    return {metric: read(path, format, metric=metric, limit=limit, **options) for metric in metrics}


def _wanted(metric: Any) -> list[str] | None:
    if metric is None:
        return None
    names = [metric] if isinstance(metric, str) else metric
    return [arguments.text("metric", name) for name in arguments.identifiers("metric", names)]


def _detected(content: Content) -> str | None:
    name = next((name for name, form in FORMATS.items() if form.matches(content)), None)
    return TABLE if name is None and tables.is_table(content) else name


def _one(content: Content, format: str | None, metric: list[str] | None) -> VerdictRows:
    name = _detected(content) if format is None else format
    if name is None and content.document == []:
        raise FileError(f"{content.name} contains no record; export it again")
    if name is None and (why := _without_verdicts(content)):
        raise FileError(f"{content.name}: {why}")
    if name is None:
        shown = (
            f" ({'columns' if content.document is None else 'keys'} {listed(content.keys, 6)})" if content.keys else ""
        )
        raise FileError(
            f"{content.name}: verdicts in an unknown format{shown}; known are {listed(NAMES, 20)}; name it with format=..., or "
            f"write a table with the columns item, judge and verdict"
        )
    if name == TABLE:
        return _table(content, metric)
    collector = Collector(content.name)
    _require(content, name)
    FORMATS[name].read(content, collector)
    return collector.finish(name, FORMATS[name].description, metric)


def _without_verdicts(content: Content) -> str:
    """Return what a file of a known tool lacks, and what to read in its place; empty for other files."""
    keys = set(content.keys)
    if {"results", "configs", "versions"} <= keys:
        return "means of lm-evaluation-harness without samples; run it with --log_samples and read samples_<task>_<date>.jsonl"
    if "test_cases_lookup_map" in keys:
        return "the cache of DeepEval; read a test run, which the folder DEEPEVAL_RESULTS_FOLDER receives"
    if {"sample_id", "eval_id"} <= keys and any(name.startswith("score_") for name in keys):
        return "a table of Inspect's samples, without the models that judged; read the logs themselves"
    if any(name.startswith("[") and "] " in name for name in keys):
        return "columns such as those of promptfoo's CSV, which has no verdicts of single graders; write JSON with -o output.json"
    return ""


def _require(content: Content, name: str) -> None:
    if not FORMATS[name].matches(content):
        shown = f"; it has {listed(content.keys, 8)}" if content.keys else ""
        raise FileError(f"{content.name} is not {FORMATS[name].description}{shown}; name another format")


def _table(content: Content, metric: list[str] | None) -> VerdictRows:
    frame = tables.table(content)
    above = (content.table.attrs[HEADER_ROWS],) if HEADER_ROWS in content.table.attrs else ()
    if metric is None:
        return VerdictRows(frame, None, TABLE, above)
    columns = questions.named(frame, ROLES, questions.CRITERIA)
    if not columns:
        raise OptionError(
            f"{content.name} is a table without metrics; metric= is for files of evaluation tools, "
            f"and for tables with verdicts on several criteria"
        )
    rows = questions.only(frame, columns[0], metric, content.name)
    return VerdictRows(rows, None, TABLE, (*above, f"{content.name}: the rows of {listed(metric)}"))


def _folder(path: Path, format: str | None, metric: list[str] | None, limit: int) -> VerdictRows:
    files = [file for file in sorted(path.rglob("*")) if file.is_file() and _may_hold_verdicts(file)]
    if not files:
        raise FileError(f"{path} has no file with verdicts ({', '.join(_ENDINGS)}); name the file or another folder")
    formats: dict[str, list[Content]] = {}
    unknown = []
    for file in files:
        content = opened(file, limit)
        name = _detected(content) if format is None else format if _fits(content, format) else None
        if name is None:
            unknown.append(file.name)
        else:
            formats.setdefault(name, []).append(content)
    if not formats:
        raise FileError(
            f"{path}: none of {len(files):,} files has verdicts in a known format ({listed(unknown)}); known are "
            f"{listed(NAMES, 20)}; name the file"
        )
    if len(formats) > 1:
        counts = ", ".join(f"{len(contents)} {name}" for name, contents in formats.items())
        raise FileError(f"{path} has files of several formats: {counts}; choose one with format=...")
    (name, contents), *_ = formats.items()
    if name == TABLE:
        if len(contents) > 1:
            raise FileError(f"{path} has {len(contents)} tables of verdicts; name one, or join them first")
        return _table(contents[0], metric)
    every = Collector(path.name)
    # Another output of a system in another file is another answer.
    parts = [Collector(content.name, every.outputs) for content in contents]
    for content, part in zip(contents, parts, strict=True):
        FORMATS[name].read(content, part)
    for part in parts:
        every.extend(part, tasks=len({part.task for part in parts}) > 1)
    if unknown:
        every.notes.append(f"{path.name}: {len(unknown):,} files without verdicts left out: {listed(unknown)}")
    every.notes.append(f"{path.name}: {len(contents):,} files: {listed([content.name for content in contents])}")
    return every.finish(name, FORMATS[name].description, metric)


def _fits(content: Content, format: str) -> bool:
    return tables.is_table(content) if format == TABLE else FORMATS[format].matches(content)


def _may_hold_verdicts(file: Path) -> bool:
    endings = [ending.lower() for ending in file.suffixes[-2:]]
    plain = list(itertools.dropwhile(lambda ending: ending in _COMPRESSED, reversed(endings)))
    return bool(plain) and plain[0] in _ENDINGS and not file.name.startswith(".")
