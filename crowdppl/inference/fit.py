"""``crowdppl.fit``: data and model in, posterior out, by any engine."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, overload

import numpy as np
import pandas as pd
import safetensors.torch
import torch
import xarray as xr
from torch import Tensor

from crowdppl import arguments
from crowdppl.arguments import checked
from crowdppl.data.annotations import Annotations
from crowdppl.data.columns import Truth
from crowdppl.data.diagnostics import review, unused_classes
from crowdppl.data.frames import to_pandas
from crowdppl.errors import DataError, ModelError, OptionError, listed, suggestion, warn
from crowdppl.inference import distributed
from crowdppl.inference.checkpoint import EVERY, Checkpoint, digest
from crowdppl.inference.convergence import convergence
from crowdppl.inference.coverage import cited
from crowdppl.inference.design_effect import PUBLISHED, WEIGHTED, DesignEffect
from crowdppl.inference.draws import Draws, Readings, Report, read
from crowdppl.inference.em import em
from crowdppl.inference.fingerprint import of_model
from crowdppl.inference.gibbs import gibbs
from crowdppl.inference.nuts import nuts
from crowdppl.inference.options import (
    EMOptions,
    GibbsOptions,
    NUTSOptions,
    SVIOptions,
    filled,
    require_method,
    with_options,
)
from crowdppl.inference.svi import svi
from crowdppl.isolation import isolated
from crowdppl.kernels.ops import DENSE_CELLS
from crowdppl.model.base import AnnotationModel, bind, provides
from crowdppl.model.networks import is_weight
from crowdppl.posterior.io import FORMAT
from crowdppl.posterior.posterior import Posterior

ENGINES: dict[str, Callable[..., Draws]] = {"em": em, "svi": svi, "gibbs": gibbs, "nuts": nuts}
# Annotations up to which a fit looks them over; the check costs a few passes.
REVIEWED = 2_000_000
# With fewer draws the ends of an 89% interval are the smallest and the largest draw.
FEW_DRAWS = 19
PACKAGES = ("crowdppl", "torch", "pyro-ppl", "numpy", "pandas", "xarray", "arviz-base", "arviz-stats")


class FitArguments(TypedDict, total=False):
    """What :func:`fit` takes whatever the engine."""

    seed: int
    device: str | torch.device | None
    progress: bool | Report
    independent: bool
    rho: float | tuple[float, float] | None
    checkpoint: str | Path | None
    every: float
    task: str | None
    worker: str | None
    label: str | None
    truth: Truth


class _EM(FitArguments, EMOptions):
    pass


class _SVI(FitArguments, SVIOptions):
    pass


class _Gibbs(FitArguments, GibbsOptions):
    pass


class _NUTS(FitArguments, NUTSOptions):
    pass


_Data: TypeAlias = Annotations | pd.DataFrame | Any
_Model: TypeAlias = str | AnnotationModel


@overload
def fit(data: _Data, model: _Model = ..., *, method: Literal["em"], **options: Unpack[_EM]) -> Posterior: ...
@overload
def fit(data: _Data, model: _Model = ..., *, method: Literal["svi"], **options: Unpack[_SVI]) -> Posterior: ...
@overload
def fit(data: _Data, model: _Model = ..., *, method: Literal["nuts"], **options: Unpack[_NUTS]) -> Posterior: ...
@overload
def fit(
    data: _Data, model: _Model = ..., *, method: Literal["gibbs"] | None = None, **options: Unpack[_Gibbs]
) -> Posterior: ...
@overload
def fit(data: _Data, model: _Model = ..., *, method: None = None, **options: Unpack[_EM]) -> Posterior: ...
@with_options
@checked(
    method=require_method,
    seed=arguments.seed,
    device=arguments.device,
    progress=arguments.progress,
    independent=arguments.flag,
    checkpoint=arguments.folder,
    every=arguments.at_least_zero,
)
def fit(
    data: Annotations | pd.DataFrame | Any,
    model: str | AnnotationModel = "dawid-skene",
    *,
    method: str | None = None,
    seed: int = 0,
    device: str | torch.device | None = None,
    progress: bool | Report = False,
    independent: bool = False,
    rho: float | tuple[float, float] | None = None,
    checkpoint: str | Path | None = None,
    every: float = EVERY,
    task: str | None = None,
    worker: str | None = None,
    label: str | None = None,
    truth: Truth = None,
    **options: Any,
) -> Posterior:
    """Fit a model of annotation.

    Args:
        data: annotations; a frame, of pandas or another library, is taken by :meth:`Annotations.from_frame`.
        model: a name of the zoo (``crowdppl.models.CATALOGUE``) or an instance, also of a class of your own.
        method: ``"em"`` (posterior mode), ``"svi"`` (variational), ``"gibbs"`` (posterior draws, conjugate models) or
            ``"nuts"`` (posterior draws, any model, small data). Where not given: Gibbs if the model allows it, else EM.
        seed: of everything random; same seed, same machine, same result.
        device: ``"cpu"`` or ``"cuda"``; where the data are, if not given.
        progress: show a bar in the terminal, or call a function ``(step, steps, what)``.
        independent: take what is said of truths and workers from the model as published, which counts annotations of one item as
            independent. By default it allows for annotations that err together, see :mod:`crowdppl.inference.design_effect`; parameters are
            learned as published either way.
        rho: how strongly they err together: a correlation from 0 to 1, or mean and standard deviation of its logit; its spread
            over public data sets where not given.
        checkpoint: a folder for the state of the fit. A fit that was stopped, by Ctrl-C or by force, goes on from there when it
            is asked for again with the same data, model, options and seed, and ends with the same result. NUTS keeps
            its state between chains, SVI without ``validation``.
        every: seconds between two writes of it.
        task: column of the item, where ``data`` is a frame; as in :meth:`Annotations.from_frame`.
        worker: likewise of the worker.
        label: likewise of the label.
        truth: likewise known truths.
        **options: of the engine, see :mod:`crowdppl.inference.options`.

    Raises:
        OptionError: for an unknown model, method, device or option, or a value outside its range.
        ModelError: where the model does not fit the data or the method.
        DataError: where ``data`` is not what it should be.
    """
    if distributed.helps():
        raise OptionError(
            "of several processes only the one that leads may fit: with crowdppl.inference.distributed.joined() as leads: if leads: ..."
        )
    columns = {"task": task, "worker": worker, "label": label, "truth": truth}
    if not isinstance(data, Annotations):
        data = Annotations.from_frame(to_pandas(data, "data", ", or crowdppl.Annotations"), **columns)  # type: ignore[arg-type]
    elif named := [name for name, value in columns.items() if value is not None]:
        raise OptionError(f"{named[0]}= names a column of a frame; give it where the Annotations are made")
    chosen = named_model(model)
    if method is None:
        method = "gibbs" if provides(chosen, "gibbs_step") else "em"
    options = filled(method, options, chosen.defaults.get(method))
    reason = chosen.unsuited(method)
    if reason is not None:
        raise ModelError(f"{type(chosen).__name__} by method={method!r}: {reason}")
    if independent and rho is not None:
        raise OptionError(f"independent=True and rho={rho!r} contradict each other; give one of them")
    effect = None if independent else DesignEffect.of(rho)
    _affordable(chosen, data)
    data = data.to(device)
    began = time.perf_counter()
    # On small data threads wait for each other longer than they work, many times longer where cores are shared.
    threads = 1 if data.N * data.J * data.K <= DENSE_CELLS else None
    isolation = isolated(int(seed), device=data.device, dtype=data.dtype, threads=threads)
    with isolation, progress_bar(progress, method) as report:
        bound = bind(chosen, data)
        told = bound.arrange(data)
        identity = "" if checkpoint is None else digest(data, of_model(bound), method, options, int(seed))
        keep = Checkpoint(checkpoint, identity, every)
        torch.manual_seed(int(seed))  # networks have drawn from the stream
        with keep.stoppable():
            draws = ENGINES[method](bound, told, report, keep, **options)
        readings = read(bound, data, draws, effect)
        weights = {} if bound._bound is None else bound._bound.state(draws.fixed)
    seconds = time.perf_counter() - began
    count = readings.lp.numel()
    if draws.kind == "approximation" and count < FEW_DRAWS:
        draws.warnings.append(
            f"the ends of intervals come from {count} draws and are rough; raise num_samples to at least 100"
        )
    if draws.kind == "posterior":
        facts, sentences = convergence(data, readings)
        draws.facts |= facts
        draws.warnings += sentences
    draws.warnings += unused_classes(data, readings.probability)
    run = {
        "model": next((name for name, kind in catalogue().items() if type(chosen) is kind), type(chosen).__name__),
        "hyperparameters": _hyperparameters(chosen),
        "method": method,
        "options": {name: value if name != "validation" else value is not None for name, value in options.items()},
        "seed": int(seed),
        "rho": None if effect is None or readings.rho is None else dataclasses.asdict(effect),
        "device": str(data.device),
        "dtype": str(data.dtype).removeprefix("torch."),
        "counts": {"items": data.N, "workers": data.J, "annotations": data.A, "classes": data.K, "features": data.D},
        "facts": draws.facts,
        "seconds": seconds,
        "versions": {"python": platform.python_version()} | {name: version(name) for name in PACKAGES},
    }
    odd = (review(data) if data.A <= REVIEWED else []) + keep.troubles
    posterior = Posterior(_tree(data, bound, draws, readings, weights, effect, run, odd))
    keep.clear()
    for sentence in draws.warnings:
        warn(sentence)
    return posterior


def catalogue() -> dict[str, type[AnnotationModel]]:
    """Return the zoo by name. Imported when asked for: the library does not need its zoo, only this facade does."""
    from crowdppl.models import CATALOGUE

    return dict(CATALOGUE)


def named_model(model: str | AnnotationModel) -> AnnotationModel:
    """Return the model of a name with its default priors, or the instance itself."""
    if isinstance(model, str):
        zoo = catalogue()
        if model not in zoo:
            raise OptionError(f"no model {model!r}{suggestion(model, zoo)}; the zoo has {listed(zoo, 20)}")
        return zoo[model]()
    if isinstance(model, type) and issubclass(model, AnnotationModel):
        raise OptionError(f"model is the class {model.__name__}; pass an instance, {model.__name__}()")
    if not isinstance(model, AnnotationModel):
        raise ModelError(f"model is a {type(model).__name__}; pass a name of the zoo or a crowdppl.AnnotationModel")
    return model


def _hyperparameters(model: AnnotationModel) -> dict[str, Any]:
    """Return a model's fields as they can be written down: a network of the caller's by its text."""
    if not dataclasses.is_dataclass(model):
        return {}
    values = {field.name: getattr(model, field.name) for field in dataclasses.fields(model)}
    plain = (str, int, float, bool, tuple, type(None))
    return {name: value if isinstance(value, plain) else repr(value) for name, value in values.items()}


def _affordable(model: AnnotationModel, data: Annotations) -> None:
    """Refuse tables that this machine cannot hold, before it tries: its system would end the process without a word."""
    states = data.K * model.states_per_class
    # The confusions, their expected counts and logs, and the responsibilities; an extrapolation holds a few more.
    needed = 8 * 4 * (data.J * states * data.K + data.N * states)
    try:
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not every system tells
        return
    if data.device.type == "cpu" and needed > there:
        raise DataError(
            f"{data.J:,} workers, {data.N:,} items and {data.K:,} classes need some {needed / 2**30:,.0f} GiB for confusions "
            f"and probabilities, and this machine has {there / 2**30:,.0f}; merge rare classes, or fit a part of the workers"
        )


@contextmanager
def progress_bar(progress: bool | Report, method: str) -> Iterator[Report]:
    """Yield a function to call with (step, steps, what): the caller's, one that moves a bar in the terminal, or a silent one."""
    if callable(progress):
        yield progress
        return
    if not progress:
        yield lambda step, steps, what: None
        return
    stream = random.getstate()
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    random.setstate(stream)  # Python's own stream, which the first import of rich draws from
    columns = (TextColumn(method), BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda step, steps, what: bar.update(task, completed=step, total=steps, description=what)
        bar.update(task, completed=1, total=1, description="done")


def _tree(
    data: Annotations,
    model: AnnotationModel,
    draws: Draws,
    readings: Readings,
    weights: Mapping[str, Tensor],
    effect: DesignEffect | None,
    run: Mapping[str, Any],
    odd: list[str],
) -> xr.DataTree:
    """Lay everything out in the ArviZ schema."""
    # Indexes, made once: xarray would go through a million names for every group, and a range takes no memory.
    items, workers, labels = (pd.Index(part, dtype=part.dtype) for part in (data.items, data.workers, data.labels))
    names: dict[str, Any] = {
        "item": items,
        "worker": workers,
        "true_label": labels,
        "given_label": labels,
        "annotation": pd.RangeIndex(data.A),
        "chain": pd.RangeIndex(readings.lp.shape[0]),
        "draw": pd.RangeIndex(readings.lp.shape[1]),
    }

    def dataset(variables: Mapping[str, tuple[tuple[str, ...], Tensor]]) -> xr.Dataset:
        used = {dim for dims, _ in variables.values() for dim in dims}
        return xr.Dataset(
            {name: (dims, value.cpu().numpy()) for name, (dims, value) in variables.items()},
            coords={dim: names[dim] for dim in names if dim in used},
        )

    draw = ("chain", "draw")
    sites = draws.sites
    dims = {name: model.dims.get(name) or _dims(name, node) for name, node in sites.items()}
    posterior = {name: (draw + dims[name], value) for name, value in draws.samples.items()}
    own: dict[str, tuple[tuple[str, ...], Tensor]] = {}
    if readings.rho is not None:
        posterior["rho"] = (draw, readings.rho)
        own = {name: posterior[name] for name in ("prevalence", "confusion") if name in posterior}
    posterior["prevalence"] = ((*draw, "true_label"), readings.prevalence)
    posterior["confusion"] = ((*draw, "worker", "true_label", "given_label"), readings.confusion)
    for name, value in readings.derived.items():
        posterior[name] = (draw + (model.dims.get(name) or _unnamed(name, value.dim() - 2)), value)
    stats: dict[str, tuple[tuple[str, ...], Tensor]] = {"lp": (draw, readings.lp)}
    stats.update({name: (("iteration",), value) for name, value in draws.trace.items()})
    groups = {
        "posterior": dataset(posterior),
        "sample_stats": dataset(stats),
        "log_likelihood": dataset({"labels": ((*draw, "item"), readings.log_likelihood)}),
        "truth": dataset(
            {
                "probability": (("item", "true_label"), readings.probability),
                "draw_of": ((*draw, "item"), readings.truth),
            }
        ),
        "observed_data": dataset({"labels": (("annotation",), data.label)}),
        "constant_data": dataset(
            {
                "item_index": (("annotation",), data.item),
                "worker_index": (("annotation",), data.worker),
                "known_truth": (("item",), data.truth),
            }
        ),
    }
    if readings.published is not None:
        groups["truth"]["as_published"] = (("item", "true_label"), readings.published.cpu().numpy())
    for name, value in (("timestamp", data.timestamp), ("seconds", data.seconds)):
        if value is not None:
            groups["constant_data"][name] = (("annotation",), value.cpu().numpy())
    if data.weight is not None:
        groups["constant_data"]["weight"] = (("item",), data.weight.cpu().numpy())
    if own:
        groups["as_published"] = dataset(own)
    if readings.averaged:
        groups["annotation"] = dataset({name: (model.dims[name], value) for name, value in readings.averaged.items()})
    if draws.point is not None:
        point = {name: (dims[name], value) for name, value in draws.point.items() if not is_weight(sites[name])}
        groups["point"] = dataset(point)
    if weights:
        # The safetensors format inside the file: one file holds all, and nothing in it is ever executed.
        packed = np.frombuffer(safetensors.torch.save(dict(weights)), dtype=np.uint8)
        groups["networks"] = xr.Dataset({"safetensors": (("byte",), packed)})
    coverage = ""
    if draws.kind != "point":
        standard = run["model"] in catalogue() and run["hyperparameters"] == _hyperparameters(named_model(run["model"]))
        coverage = cited(run["model"], run["method"], None if readings.rho is None else effect, default_priors=standard)
    tree = xr.DataTree.from_dict({f"/{name}": group for name, group in groups.items()})
    tree.attrs = {
        "crowdppl_format": FORMAT,
        "item_column": data.item_column,
        "repeats": data.repeats,
        "kind": draws.kind,
        "interval_method": draws.interval_method,
        "correlation": PUBLISHED if effect is None or readings.rho is None else WEIGHTED.format(rho=effect.say()),
        "coverage": coverage,
        "warnings": json.dumps(draws.warnings),
        "notes": json.dumps([*data.notes, *odd]),
        "run": json.dumps(run),
    }
    for name in ("posterior", "sample_stats", "log_likelihood", "observed_data", "constant_data"):
        tree[name].attrs = {"inference_library": "crowdppl", "inference_library_version": version("crowdppl")}
    return tree


def _dims(name: str, node: Mapping[str, Any]) -> tuple[str, ...]:
    """Name the axes of a site: its plate, then ArviZ's default names for what the event has."""
    plates = tuple(frame.name for frame in node["cond_indep_stack"] if frame.vectorized)
    return plates + _unnamed(name, node["value"].dim() - len(plates))


def _unnamed(name: str, count: int) -> tuple[str, ...]:
    return tuple(f"{name}_dim_{n}" for n in range(count))
