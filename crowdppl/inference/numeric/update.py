"""Further numbers after a fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from crowdppl.data.features import in_order
from crowdppl.data.frames import to_pandas
from crowdppl.data.numeric import NumericAnnotations
from crowdppl.data.numeric_reading import numeric_annotations
from crowdppl.data.table.encoding import Repeats
from crowdppl.data.table.identifiers import kind_of
from crowdppl.errors import DataError, ModelError, OptionError
from crowdppl.inference.numeric.fit import fit_numbers
from crowdppl.inference.options import OPTIONS, taken_apart
from crowdppl.models.linear_gaussian import LinearGaussian
from crowdppl.posterior.numbers import NumericPosterior


def joined(before: NumericAnnotations, more: NumericAnnotations, repeats: Repeats | None = None) -> NumericAnnotations:
    """Return the annotations of both.

    Raises:
        DataError: for names of another kind, two true numbers of one item, or repeated annotations that are refused.
    """
    tables = [_frame(one) for one in (before, more)]
    for what, one, other in (("task", before.items, more.items), ("worker", before.workers, more.workers)):
        if kind_of(one) != kind_of(other):
            raise DataError(
                f"{what}s of the further annotations are {kind_of(other)}, those of the result {kind_of(one)}; write both alike"
            )
    known: dict[Any, float] = {}
    for data in (before, more):
        for item, value in zip(data.items[data.known.numpy()].tolist(), data.truth[data.known].tolist(), strict=True):
            if known.setdefault(item, value) != value:
                raise DataError(
                    f"two different true numbers for item {item!r}: {known[item]:g} and {value:g}; keep one of them"
                )
    if before.D != more.D:
        raise DataError(
            f"{before.D:,} features of items in the earlier annotations, {more.D:,} in the further ones; give both the same"
        )
    features = None
    if before.D:
        first, second = (_features(one) for one in (before, more))
        features = pd.concat(
            [first, in_order(second, before.feature_names, "features").set_axis(first.columns, axis=1)]
        )
        features = features[~features.index.duplicated(keep="last")]
    return numeric_annotations(
        pd.concat(tables, ignore_index=True),
        truth=known or None,
        items=list(dict.fromkeys([*before.items.tolist(), *more.items.tolist()])),
        workers=list(dict.fromkeys([*before.workers.tolist(), *more.workers.tolist()])),
        repeats=before.repeats if repeats is None else repeats,
        scale=before.scale,
        features=features,
        source="the annotations",
    )


def _features(data: NumericAnnotations) -> pd.DataFrame:
    """Return the features of items, with the items as the index."""
    assert data.features is not None
    columns = None if data.feature_names is None else list(data.feature_names)
    return pd.DataFrame(data.features.cpu().numpy(), index=pd.Index(data.items), columns=columns)


def _frame(data: NumericAnnotations) -> pd.DataFrame:
    names = {"task": data.items[data.item.numpy()], "worker": data.workers[data.worker.numpy()]}
    return pd.DataFrame(names | {"label": np.asarray(data.value)})


def update_numbers(
    posterior: NumericPosterior,
    more: Any,
    *,
    data: NumericAnnotations | None = None,
    seed: int | None = None,
    repeats: Repeats | None = None,
    **options: Any,
) -> NumericPosterior:
    """Fit again with more annotations; arguments as of :func:`crowdppl.update`.

    Raises:
        DataError: if the annotations cannot be joined.
        ModelError: if ``data`` is required, where the annotations had features.
    """
    if data is None and posterior.info["counts"].get("features"):
        raise ModelError("the annotations had features, which a result does not keep; pass data=")
    before = posterior.data() if data is None else data.to("cpu")
    if not isinstance(more, NumericAnnotations):
        more = numeric_annotations(to_pandas(more, "more", ", or crowdppl.Annotations"), source="more")
    together = joined(before, more, repeats)
    together = replace(together, item_column=posterior.item_column)
    info = posterior.info
    method, options = taken_apart(options.pop("method", None), options)
    device = options.pop("device", None)
    of_run: dict[str, Any] = {name: options.pop(name) for name in ("progress", "checkpoint") if name in options}
    if method is None and info["method"] not in OPTIONS:
        raise OptionError("the result was made of samples that the caller brought; name the engine with method=...")
    if method is None or method == info["method"]:
        method = info["method"]
        unused = {"validation"} if method == "svi" else set()
        options = {name: value for name, value in info["options"].items() if name not in unused} | options
    return fit_numbers(
        together.to("cpu"),
        None if info["default_model"] else LinearGaussian(**info["hyperparameters"]),
        method,
        options,
        seed=info["seed"] if seed is None else seed,
        device=None if device is None else torch.device(device),
        progress=of_run.pop("progress", False),
        **of_run,
    )
