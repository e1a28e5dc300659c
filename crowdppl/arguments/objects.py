"""Checks of objects: results, annotations, tables, tensors and devices. Their classes are imported on use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from crowdppl.arguments.checks import Check, array, as_array, flag, refuse, several, shown, text
from crowdppl.errors import CrowdpplError, DataError, OptionError

if TYPE_CHECKING:
    import torch


def instance(module: str, kind: str, how: str) -> Check:
    """Accept an instance of a class, which is imported on use since all modules import this one.

    Args:
        module: module of the class.
        kind: name of the class.
        how: how to obtain an instance, for the message.
    """

    def check(name: str, value: Any) -> Any:
        from importlib import import_module

        if not isinstance(value, getattr(import_module(module), kind)):
            raise DataError(f"{name} is {_a(value)}; pass {how}")
        return value

    return check


def not_numeric(check: Check, sentence: str) -> Check:
    """Refuse annotations and results whose labels are numbers with a sentence of their own, before another check."""

    def both(name: str, value: Any) -> Any:
        if type(value).__name__ in ("NumericAnnotations", "NumericPosterior"):
            raise DataError(f"{name} {sentence}")
        return check(name, value)

    return both


def one_of(*checks: Check) -> Check:
    """Accept what one of several checks accepts; the message is that of the first."""

    def check(name: str, value: Any) -> Any:
        for other in checks[1:]:
            try:
                return other(name, value)
            except CrowdpplError:
                continue
        return checks[0](name, value)

    return check


def _a(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


confusions = array("draw", "worker", "class", "class")
prevalences = array("draw", "class")
posterior = not_numeric(
    instance("crowdppl.posterior.posterior", "Posterior", "a result of crowdppl.fit or crowdppl.load"),
    "is a result whose labels are numbers, for which this is not available",
)
numeric_posterior = instance(
    "crowdppl.posterior.numbers", "NumericPosterior", "a result of crowdppl.fit whose labels are numbers"
)
numeric_data = instance("crowdppl.data.numeric", "NumericAnnotations", "annotations that were read with kind='numeric'")
annotation_data = not_numeric(
    instance("crowdppl.data.annotations", "Annotations", "crowdppl.Annotations"),
    "has labels that are numbers, for which this is not available; kind='nominal' or kind='ordinal' reads classes or grades",
)
any_data = one_of(annotation_data, numeric_data)
any_posterior = one_of(posterior, numeric_posterior)
groups_of_copies = several(instance("crowdppl.data.copies", "Copies", "groups, as copied_answers returns them"), 0)


def worker_table(name: str, value: Any) -> Any:
    """Accept a table of workers as ``Posterior.workers`` returns it."""
    if not {"worker", "verdict"} <= set(getattr(value, "columns", ())):
        raise refuse(name, value, "a table of workers, as posterior.workers() returns it")
    return value


def table_of(how: str, *columns: str) -> Check:
    """Accept a table with some columns, as a function returns it.

    Args:
        how: how to obtain such a table, for the message.
        *columns: its columns.
    """

    def check(name: str, value: Any) -> Any:
        if not set(columns) <= set(getattr(value, "columns", ())):
            raise refuse(name, value, f"a table, as {how} returns it")
        return value

    return check


def some_draws(name: str, value: Any) -> Any:
    """Accept an array of numbers with draws along its first axis; values may be NaN."""
    values = as_array(value)
    if values is None or values.dtype.kind not in "iubf" or not values.ndim or not len(values):
        raise refuse(name, value, "an array of numbers, draws along its first axis")
    return values


def mapping(name: str, value: Any) -> Mapping[Any, Any]:
    """Accept a mapping."""
    if not isinstance(value, Mapping):
        raise refuse(name, value, "a mapping")
    return value


WHOLE_NUMBERS = "a tensor of whole numbers of at least 0, one axis, int64"


def tensor(name: str, value: Any) -> torch.Tensor:
    """Accept a tensor with at least one axis."""
    import torch

    if not isinstance(value, torch.Tensor) or not value.dim():
        raise refuse(name, value, "a tensor")
    return value


def indices(name: str, value: Any) -> torch.Tensor:
    """Accept a tensor of indices, whose numbers are not read: on a GPU that would wait for all earlier work."""
    return _of_one_axis(name, value, "int64", WHOLE_NUMBERS)


def positions(name: str, value: Any) -> torch.Tensor:
    """Accept a tensor of indices, integers of at least 0."""
    if bool((indices(name, value) < 0).any()):
        raise refuse(name, value, WHOLE_NUMBERS)
    return value


def mask(name: str, value: Any) -> torch.Tensor:
    """Accept a boolean mask as a tensor."""
    return _of_one_axis(name, value, "bool", "a tensor of True and False with one axis")


def _of_one_axis(name: str, value: Any, dtype: str, wanted: str) -> torch.Tensor:
    import torch

    if not isinstance(value, torch.Tensor) or value.dtype != getattr(torch, dtype) or value.dim() != 1:
        raise refuse(name, value, wanted)
    return value


def floating(name: str, value: Any) -> torch.dtype:
    """Accept a floating type supported by the library."""
    import torch

    if not isinstance(value, torch.dtype) or value not in (torch.float32, torch.float64):
        given = value if isinstance(value, torch.dtype) else shown(value)
        raise OptionError(f"{name}={given}; it must be a floating type, torch.float64 or torch.float32")
    return value


def by_item(name: str, value: Any) -> Any:
    """Accept a mapping, or a Series indexed by item."""
    if not isinstance(value, Mapping) and not (
        hasattr(value, "index") and hasattr(value, "items") and getattr(value, "ndim", 0) == 1
    ):
        raise refuse(name, value, "a mapping or a Series by item")
    return value


def place(name: str, value: Any) -> torch.device:
    """Accept the name of a device known to torch."""
    import torch

    try:
        return torch.device(value)
    except (RuntimeError, TypeError):
        raise OptionError(f"{name}={shown(value)}: no such device; use 'cpu', 'cuda' or 'cuda:0'") from None


def device(name: str, value: Any) -> torch.device:
    """Accept the name of a device available on this machine."""
    import torch

    torch_device = place(name, value)
    if torch_device.type not in ("cpu", "cuda"):
        raise OptionError(f"{name}={str(torch_device)!r}; fits run on 'cpu' or 'cuda'")
    if torch_device.type == "cuda":
        if not torch.cuda.is_available():
            raise OptionError(f"{name}={str(torch_device)!r}, but torch finds no CUDA device here; use {name}='cpu'")
        if torch_device.index is not None and torch_device.index >= torch.cuda.device_count():
            raise OptionError(
                f"{name}={str(torch_device)!r}; torch finds {torch.cuda.device_count()} CUDA devices here"
            )
    return torch_device


# Checks of classes, by name: the classes are of later modules, or slow to import.
INSTANCES = {
    "AnnotationModel": instance("crowdppl.model.base", "AnnotationModel", "an instance of a crowdppl.AnnotationModel"),
    "Annotations": annotation_data,
    "NumericAnnotations": numeric_data,
    "Posterior": posterior,
    "PosteriorVariables": posterior,
    "NumericPosterior": numeric_posterior,
    "JudgesResult": instance("crowdppl.judges.result", "JudgesResult", "a result of crowdppl.judges.fit"),
    "CriteriaResult": instance("crowdppl.judges.criteria_result", "CriteriaResult", "a result of crowdppl.judges.fit"),
    "Verdicts": instance("crowdppl.judges.verdicts", "Verdicts", "crowdppl.judges.Verdicts"),
    "Training": instance("crowdppl.learning", "Training", "crowdppl.learning.Training(...)"),
    "Actions": instance("crowdppl.report.plan", "Actions", "the result of report.actions"),
    "Axes": instance("matplotlib.axes", "Axes", "axes of matplotlib, such as plt.gca()"),
    "DataFrame": instance("pandas", "DataFrame", "a pandas DataFrame"),
}
# With those of Python that state a check.
CLASSES: dict[str, Check] = {"bool": flag, "str": text, **INSTANCES}
