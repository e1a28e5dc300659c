"""The options of the commands. Options that belong together form a group: a dataclass that is declared once.

A command takes a group as one parameter. :func:`with_option_groups` shows typer the fields of the group as single options, and
builds the group from their values. A parameter ``**engine`` stands for the options of all engines.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdppl.arguments import at_least_zero
from crowdppl.errors import OptionError
from crowdppl.inference import option_help

if TYPE_CHECKING:
    from crowdppl.data.readers.records import Choices

# ---------------------------------------------------------------------- single options

OutputFolder = Annotated[Path, typer.Option(help="Folder for the results.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace results already in the folder.")]
OverwriteFile = Annotated[
    bool, typer.Option("--overwrite", help="Replace the file, if there is one. (default: only one that crowdppl wrote)")
]
TableFile = Annotated[
    Path | None, typer.Option(help="File for the table, ending in .csv, .parquet or .jsonl. (default: none)")
]
AnnotationsFile = Annotated[Path, typer.Argument(help="Annotations, a file as `fit` takes it.")]
Level = Annotated[float | None, typer.Option(help="Probability of the intervals. (default: 0.89)")]
Seed = Annotated[int, typer.Option(help="Seed of all random numbers: same seed, same result.")]
Raw = Annotated[
    bool, typer.Option("--raw", help="Leave text in CSV as it is, even where a spreadsheet would run it as a formula.")
]
Keep = Annotated[
    str,
    typer.Option(
        help="small: posterior.nc holds what reports, next, check and update need; full: all draws as they are, a large file."
    ),
]
Verbose = Annotated[
    bool, typer.Option("--verbose", help="Also print how intervals were computed and their coverage on public data.")
]
Threads = Annotated[
    int | None,
    typer.Option(help="Threads to compute with, at most. (default: as many as cores that the process may use)"),
]
Format = Annotated[
    str | None, typer.Option(help="Format of the file, see `crowdppl formats`. (default: detected from the file)")
]
WorkerColumns = Annotated[
    str | None,
    typer.Option(help="Columns of the workers in a wide table, separated by commas. (default: by names and values)"),
]
AllLabels = Annotated[
    str | None, typer.Option(help="All classes in order, separated by commas. (default: those that occur)")
]
TruthColumn = Annotated[
    str | None, typer.Option("--truth", help="Column of known true labels in the annotations, blank where unknown.")
]
Status = Annotated[
    Path | None,
    typer.Option(
        help="File for the exit status. torchrun is given 0 after an error, since it takes any other for a crash."
    ),
]
Results = Annotated[Path, typer.Argument(help="Folder written by `crowdppl fit`.")]

# ---------------------------------------------------------------------- groups


@dataclass(frozen=True)
class Output:
    """Where results go, and the probability of the intervals in them."""

    out: OutputFolder = Path("results")
    overwrite: Overwrite = False
    level: Level = None


@dataclass(frozen=True)
class DemoOutput(Output):
    """As :class:`Output`, with the folder of the demonstration."""

    out: OutputFolder = Path("demo-results")


@dataclass(frozen=True)
class Columns:
    """Columns of the annotations."""

    task: Annotated[
        str | None, typer.Option("--task", "--item", help="Column of the item. (default: task, else item)")
    ] = None
    worker: Annotated[str | None, typer.Option(help="Column of the worker. (default: worker)")] = None
    label: Annotated[str | None, typer.Option(help="Column of the label. (default: label)")] = None


@dataclass(frozen=True)
class JudgeReading:
    """How a file of verdicts of judges is read."""

    format: Annotated[
        str | None,
        typer.Option(
            help="inspect, promptfoo, deepeval, lm-eval, langfuse, langsmith, phoenix, braintrust, mlflow, ragas, helm, arena, "
            "arena-hard, mt-bench, alpaca-eval, openai-evals or table. "
            "(default: detected from the file)"
        ),
    ] = None
    metric: Annotated[
        list[str] | None,
        typer.Option(help="What is measured, where the file has several; may be given several times. (default: all)"),
    ] = None
    criterion: Annotated[
        str | None,
        typer.Option(
            help="Column of criteria, each with true labels of its own. (default: criterion, metric, aspect, ...)"
        ),
    ] = None
    criteria: Annotated[
        bool,
        typer.Option("--criteria", help="Metrics of a tool's file are criteria, each with true labels of its own."),
    ] = False

    item: Annotated[str | None, typer.Option(help="Column of the item. (default: item)")] = None
    judge: Annotated[str | None, typer.Option(help="Column of the judge. (default: judge)")] = None
    verdict: Annotated[str | None, typer.Option(help="Column of the verdict. (default: verdict)")] = None
    system: Annotated[
        str | None, typer.Option(help="Column of the system whose answer is judged. (default: system, if there is one)")
    ] = None
    cluster: Annotated[
        str | None,
        typer.Option(
            help="Column of what several questions have in common, such as a document. (default: cluster, if there is one)"
        ),
    ] = None
    length: Annotated[
        str | None,
        typer.Option(help="Column of the length of the judged answer. (default: length, answer_tokens, tokens, ...)"),
    ] = None
    workers: WorkerColumns = None
    labels: AllLabels = None
    unparseable: Annotated[
        list[str] | None,
        typer.Option(help="Verdict that stands for a reply that could not be read; may be given several times."),
    ] = None
    abstained: Annotated[
        list[str] | None, typer.Option(help="Verdict that stands for an abstention; may be given several times.")
    ] = None

    def given(self) -> dict[str, Any]:
        """Return what is stated, as arguments of :func:`crowdppl.judges.read`; classes as one text."""
        stated: dict[str, Any] = {name: value for name, value in vars(self).items() if value}
        if {"item", "judge", "verdict"} & set(stated):  # a table whose names do not show that it is one
            stated.setdefault("format", "table")
        return stated


SequenceColumn = Annotated[
    str | None,
    typer.Option(help="Where rows are labels of tokens: column of their sequence, such as a sentence."),
]
PositionColumn = Annotated[
    str | None, typer.Option(help="Column of the token's position in its sequence, a whole number.")
]


@dataclass(frozen=True)
class Reading:
    """How a file of annotations is read."""

    format: Format = None
    question: Annotated[str | None, typer.Option(help="Which question, where the file holds several.")] = None
    skip: Annotated[str, typer.Option(help="Skipped or ignored work: missing, or label for a label of its own.")] = (
        "missing"
    )
    several: Annotated[
        str,
        typer.Option(
            help="Several labels in an annotation: refuse, read as sets, join to a class for each set, or keep the text."
        ),
    ] = "refuse"
    keep_rejected: Annotated[bool, typer.Option("--keep-rejected", help="Keep work that a reviewer rejected.")] = False
    workers: WorkerColumns = None
    labels: AllLabels = None
    repeats: Annotated[
        str, typer.Option(help="Repeated annotations of an item by one worker: keep all, keep the last, or refuse.")
    ] = "keep"
    map: Annotated[
        Path | None,
        typer.Option(help="Table with the columns from and to: names of classes by label; blank for no label."),
    ] = None
    names: Annotated[str | None, typer.Option(help="Names of classes by label, such as 0=none,1=spam.")] = None
    missing: Annotated[
        list[str] | None, typer.Option(help="Label that stands for no label; may be given several times.")
    ] = None
    keep_missing: Annotated[
        bool, typer.Option("--keep-missing", help="Take null, #N/A and other words for nothing for classes.")
    ] = False
    other_label: Annotated[
        list[str] | None,
        typer.Option(help="Label that is never a true label, such as 'cannot tell'; may be given several times."),
    ] = None
    kind: Annotated[
        str | None,
        typer.Option(
            help="ordinal: labels are grades; numeric: they are numbers; nominal: they have no order. (default: numeric for "
            "numbers that are not all whole, else nominal)"
        ),
    ] = None
    order: Annotated[str | None, typer.Option(help="All grades, lowest first, separated by commas.")] = None
    scale: Annotated[
        str | None,
        typer.Option(
            help="Numbers: lowest and highest of a scale whose ends stand for everything beyond, such as 0,100."
        ),
    ] = None
    sequence: SequenceColumn = None
    position: PositionColumn = None
    criterion: Annotated[
        str | None,
        typer.Option(help="Grades: column of the criterion that each is by, where raters grade items by several."),
    ] = None
    no_fold: Annotated[
        bool,
        typer.Option("--no-fold", help="Keep labels apart that differ in capitals, white space or look-alikes only."),
    ] = False

    def choices(self, columns: Columns) -> Choices:
        """Return what the readers of exports have to know.

        Args:
            columns: that the user named.

        Raises:
            OptionError: for an unknown value.
        """
        from crowdppl.data.readers.records import Choices

        return Choices(
            self.question,
            self.skip,  # type: ignore[arg-type]  # checked there
            self.several,  # type: ignore[arg-type]  # checked there
            self.keep_rejected,
            workers=None if self.workers is None else tuple(self.workers.split(",")),
            labels=None if self.labels is None else tuple(self.labels.split(",")),
            columns=tuple(name for name in (columns.task, columns.worker, columns.label) if name is not None),
            task=columns.task,
            worker=columns.worker,
        )


@dataclass(frozen=True)
class ModelChoice:
    """A model with its hyperparameters, an engine and a seed."""

    model: Annotated[
        str | None,
        typer.Option(
            help="Name from `crowdppl models`. (default: item-effects; features-and-effects with features; dawid-skene if slow)"
        ),
    ] = None
    method: Annotated[
        str | None,
        typer.Option(
            help="em, svi, gibbs or nuts. (default: em without --model and for item-effects; for other models gibbs where "
            "they allow it, else em)"
        ),
    ] = None
    prior: Annotated[
        list[str] | None, typer.Option(help="Hyperparameter of the model, NAME=VALUE; may be given several times.")
    ] = None
    seed: Seed = 0


@dataclass(frozen=True)
class KnownTruth:
    """Where known true labels are: in a column of the annotations, or in a table of their own.

    Raises:
        OptionError: for both, or for columns of a table that is not given.
    """

    truth: TruthColumn = None
    truth_file: Annotated[
        Path | None, typer.Option(help="Table of known true labels, with a column of items and one of classes.")
    ] = None
    truth_item: Annotated[
        str | None,
        typer.Option(help="Column of the item in --truth-file. (default: as in the annotations, task or item)"),
    ] = None
    truth_label: Annotated[
        str | None,
        typer.Option(help="Column of the class in --truth-file. (default: as in the annotations, or label)"),
    ] = None

    def __post_init__(self) -> None:
        if self.truth is not None and self.truth_file is not None:
            raise OptionError("--truth and --truth-file both given; known truths come from one of them")
        if self.truth_file is None and (self.truth_item, self.truth_label) != (None, None):
            raise OptionError("--truth-item and --truth-label name columns of a --truth-file, and none is given")

    @property
    def given(self) -> bool:
        """Whether there are any."""
        return self.truth is not None or self.truth_file is not None


@dataclass(frozen=True)
class Covariates:
    """What else is known of items, workers and annotations."""

    features: Annotated[
        Path | None, typer.Option(help="Table of item features: the column of the item, and numbers.")
    ] = None
    worker_features: Annotated[
        Path | None, typer.Option(help="Table of worker features: the column of the worker, and numbers.")
    ] = None
    timestamp: Annotated[str | None, typer.Option(help="Column of the timestamps, numbers or dates.")] = None
    seconds: Annotated[str | None, typer.Option(help="Column of the seconds that each annotation took.")] = None
    covariates: Annotated[
        str | None,
        typer.Option(
            help='What accuracy may depend on: columns, or a formula such as "tenure + C(session)". The default model is then '
            "accuracy-regression, and effects.csv has the effects."
        ),
    ] = None
    dates: Annotated[
        str | None,
        typer.Option(help="day-first or month-first, for dates such as 03.04.2024. (default: as all of them allow)"),
    ] = None


@dataclass(frozen=True)
class Correlation:
    """The correlation between errors on one item, and between workers who copy each other."""

    independent: Annotated[
        bool,
        typer.Option("--independent", help="The model as published: annotations of one item count as independent."),
    ] = False
    rho: Annotated[
        str | None,
        typer.Option(
            help="Correlation of annotations of one item: MEAN,SD of its logit, as `crowdppl calibrate` gives them, which known "
            "true labels update. Or one value from 0 to 1, for experts: intervals that take it for exact are too narrow. "
            "(default: average of public crowds, updated likewise)"
        ),
    ] = None
    copies: Annotated[
        str | None,
        typer.Option(
            help="Of workers who give the same answers, count one for each item, or all of them: one or all. "
            "(default: one where everybody else agrees well enough)"
        ),
    ] = None

    def options(self) -> dict[str, Any]:
        """Return them as arguments of a fit.

        Raises:
            OptionError: for a ``rho`` that is neither a number nor two.
        """
        if self.rho is None:
            return {"independent": self.independent, "rho": None, "copies": self.copies}
        try:
            values = tuple(float(part) for part in self.rho.split(","))
        except ValueError:
            values = ()
        if len(values) not in (1, 2):
            raise OptionError(
                f"--rho {self.rho}; it must be mean and sd of the logit, such as --rho=-1,3, or a correlation from 0 to 1"
            )
        rho = values if values[1:] else values[0]
        return {"independent": self.independent, "rho": rho, "copies": self.copies}


@dataclass(frozen=True)
class Checkpoints:
    """The saved state of a long fit."""

    checkpoint: Annotated[
        Path | None, typer.Option(help="Folder for the state of a long fit, from which the same command continues.")
    ] = None
    every: Annotated[float, typer.Option(help="Seconds between two checkpoints.")] = 60.0

    def options(self) -> dict[str, Any]:
        """Return them as ``crowdppl.fit`` takes them."""
        seconds = at_least_zero("every", self.every)
        return {"checkpoint": None if self.checkpoint is None else (self.checkpoint, seconds)}


@dataclass(frozen=True)
class ReportOptions:
    """What the report shows besides the result."""

    title: Annotated[str | None, typer.Option(help="Heading of the report. (default: name of the file)")] = None
    text_column: Annotated[str | None, typer.Option(help="Column with the text of each item, for the report.")] = None
    url_column: Annotated[
        str | None, typer.Option(help="Column with a link to each item (http, https), for the report.")
    ] = None
    cost: Annotated[
        float | None, typer.Option(help="Price of one annotation, to show what further annotations cost.")
    ] = None


# ---------------------------------------------------------------------- groups as single options


def with_option_groups(function: Callable[..., None]) -> Callable[..., None]:
    """Replace each group in the signature of a command by its options, and ``**engine`` by the options of the engines.

    Options of the engines that are not given do not reach the command.
    """
    signature = inspect.signature(function, eval_str=True)
    parts = {parameter: _options(parameter) for parameter in signature.parameters.values()}

    @functools.wraps(function)
    def call(**values: Any) -> None:
        arguments: dict[str, Any] = {}
        for parameter, options in parts.items():
            group: Any = parameter.annotation
            given = {option.name: values[option.name] for option in options}
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                arguments |= {name: value for name, value in given.items() if value is not None}
            elif _is_group(group):
                arguments[parameter.name] = group(**given)
            else:
                arguments |= given
        function(**arguments)

    single = [option for options in parts.values() for option in options]
    call.__signature__ = signature.replace(parameters=single)  # type: ignore[attr-defined]
    call.__annotations__ = {option.name: option.annotation for option in single} | {"return": None}
    return call


def _is_group(annotation: Any) -> bool:
    return dataclasses.is_dataclass(annotation)


def _options(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    """Return the options that a parameter of a command stands for."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    if parameter.kind is inspect.Parameter.VAR_KEYWORD:
        types = {name: _typed(name) for name in option_help.names()}
        return [
            inspect.Parameter(name, keyword, default=None, annotation=Annotated[kind, _engine_option(name)])
            for name, kind in types.items()
            if kind is not None
        ]
    if _is_group(parameter.annotation):
        types = typing.get_type_hints(parameter.annotation, include_extras=True)
        return [
            inspect.Parameter(field.name, keyword, default=field.default, annotation=types[field.name])
            for field in dataclasses.fields(parameter.annotation)
        ]
    return [parameter.replace(kind=keyword)]


def _engine_option(name: str) -> Any:
    return typer.Option(help=option_help.described(name), rich_help_panel="Engine options")


def _typed(name: str) -> Any:
    """Return the type of an engine's option on the command line, ``None`` for one that has no written form."""
    kinds = {kind for kind in typing.get_args(option_help.annotation(name) | None) if kind is not type(None)}
    kinds = {str if typing.get_origin(kind) is typing.Literal else kind for kind in kinds}
    return typing.Optional[kinds.pop()] if len(kinds) == 1 and kinds <= {int, float, bool, str} else None  # noqa: UP045
