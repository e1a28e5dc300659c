"""Further numbers after a fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from crowdppl.data.frames import to_pandas
from crowdppl.data.numeric import NumericAnnotations
from crowdppl.data.numeric_joining import joined_numbers
from crowdppl.data.numeric_reading import numeric_annotations
from crowdppl.data.table.repeats import Repeats
from crowdppl.errors import ModelError
from crowdppl.inference.numeric.fit import fit_numbers
from crowdppl.inference.stored import engine_as_before
from crowdppl.models.linear_gaussian import LinearGaussian
from crowdppl.posterior.numbers import NumericPosterior


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
    together = joined_numbers(before, more, repeats)
    together = replace(together, item_column=posterior.item_column)
    info = posterior.info
    device = options.pop("device", None)
    of_run: dict[str, Any] = {name: options.pop(name) for name in ("progress", "checkpoint") if name in options}
    method, settings = engine_as_before(info, options)
    return fit_numbers(
        together.to("cpu"),
        None if info["default_model"] else LinearGaussian(**info["hyperparameters"]),
        method,
        settings,
        seed=info["seed"] if seed is None else seed,
        device=None if device is None else torch.device(device),
        progress=of_run.pop("progress", False),
        **of_run,
    )
