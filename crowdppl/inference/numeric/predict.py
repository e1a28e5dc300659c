"""Numbers of new items from a result: from their features, from labels by workers whom the fit knows or does not know."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from scipy.special import ndtri
from torch import Tensor

from crowdppl.data.features import in_order, matrix
from crowdppl.data.frames import indexed
from crowdppl.data.numeric import NumericAnnotations
from crowdppl.data.table.columns import ITEM_COLUMNS
from crowdppl.data.table.identifiers import clean, kind_of
from crowdppl.errors import DataError, ModelError, OptionError
from crowdppl.inference.numeric.network import Network
from crowdppl.inference.numeric.readings import Parameters, conditional
from crowdppl.isolation import isolated
from crowdppl.kernels.linear_gaussian import log_marginal
from crowdppl.model.numeric import StandardLabels
from crowdppl.models.linear_gaussian import RANDOM_SD
from crowdppl.posterior.measures import default_level
from crowdppl.posterior.numbers import NumericPosterior

Array = npt.NDArray[Any]
# Draws that a prediction averages, and numbers of items times draws that are held at a time.
DRAWS, BLOCK = 2000, 2**22


def predict_numbers(
    posterior: NumericPosterior, items: NumericAnnotations | Any, *, level: float | None = None, seed: int = 0
) -> pd.DataFrame:
    """Predict numbers of new items; arguments and errors as of :func:`crowdppl.predict`.

    The draws of the result are weighted by the density of an item's labels under each: what the labels of one item say of it
    is exact, what they say of workers and of other items takes :func:`crowdppl.update`. Workers whom the fit does not know
    are drawn from its crowd.
    """
    data = asked(posterior, items)
    with isolated(seed), torch.no_grad():
        draws = drawn(posterior)
        workers = _workers(posterior, data, draws)
        parts = [_moments(posterior, part, draws, workers) for part in _parts(data)]
    value, sd = np.concatenate(parts, axis=1)
    half = float(ndtri((1 + default_level(level)) / 2)) * sd
    low, high = value - half, value + half
    if posterior.scale is not None:
        value, low, high = (np.clip(one, *posterior.scale) for one in (value, low, high))
    mean, count = data.means()
    columns = {"value": value, "low": low, "high": high, "sd": sd, "annotations": count, "mean_label": mean}
    return pd.DataFrame({posterior.item_column: data.items} | columns)


def asked(posterior: NumericPosterior, items: Any) -> NumericAnnotations:
    """Return the annotations of new items, with features where the fit had any.

    Raises:
        DataError: for features that are not those of the fit, or nothing to predict for.
        ModelError: for features where the fit had none, and for labels at the ends of a bounded scale.
        OptionError: for known true numbers.
    """
    tree = posterior.tree
    width = tree["posterior"].sizes.get("feature", 0) - ("network" in tree.children)
    names = _feature_names(posterior) if width else None
    if isinstance(items, NumericAnnotations):
        if bool(items.known.any()):
            raise OptionError(
                "the annotations have known true numbers, which a prediction does not use; read them without"
            )
        ends = posterior.scale
        if ends is not None and bool(((items.value <= ends[0]) | (items.value >= ends[1])).any()):
            raise ModelError(
                "some labels are at an end of the scale and stand for everything beyond, which a prediction does not allow for; "
                "use crowdppl.update"
            )
        if kind_of(items.workers) != kind_of(posterior.worker_names()):
            raise DataError(
                f"workers are {kind_of(items.workers)}, those of the result {kind_of(posterior.worker_names())}; write both alike"
            )
        data, given = items.to("cpu"), items.D
        if data.features is not None and data.feature_names is not None:
            table = pd.DataFrame(data.features.numpy(), columns=list(data.feature_names))
            data = replace(data, features=torch.from_numpy(in_order(table, names, "items").to_numpy(copy=True)))
    else:
        if not width:
            raise ModelError(
                "the result was fitted without features of items, so that it predicts the same for every new item; pass the "
                "annotations of new items that have labels, or fit with features=..."
            )
        features = in_order(indexed(items, ITEM_COLUMNS, "items"), names, "items")
        if not hasattr(features, "__len__") or len(features) == 0:
            raise DataError("items holds nothing to predict for; pass features (n, D), or annotations of new items")
        index = features.index if isinstance(features, pd.DataFrame) else range(len(features))
        own = clean(pd.Series(list(index)), "task", "items")[0]
        none = torch.zeros(0, dtype=torch.int64)
        data = NumericAnnotations(
            none, none, torch.zeros(0, dtype=torch.float64), torch.full((len(own),), torch.nan), own, np.array(["-"])
        )
        data = replace(data, features=torch.from_numpy(matrix(features, own, "task", "items")))
        given = data.D
    if given != width:
        raise DataError(f"{given:,} features of items; the result was fitted with {width:,}, pass the same ones")
    return data


def _feature_names(posterior: NumericPosterior) -> tuple[str, ...] | None:
    """Return the names of the features, or ``None`` if they had none of their own."""
    names = posterior.tree["posterior"]["feature"].to_numpy().tolist()
    names = names[:-1] if "network" in posterior.tree.children else names
    return tuple(map(str, names)) if posterior.info["named_features"] else None


def _parts(data: NumericAnnotations) -> Iterator[NumericAnnotations]:
    """Yield the annotations of some items at a time."""
    step = max(1, BLOCK // DRAWS)
    for begin in range(0, data.N, step):
        inside = (data.item >= begin) & (data.item < begin + step)
        yield replace(
            data,
            item=data.item[inside] - begin,
            worker=data.worker[inside],
            value=data.value[inside],
            truth=data.truth[begin : begin + step],
            items=data.items[begin : begin + step],
            features=None if data.features is None else data.features[begin : begin + step],
        )


def drawn(posterior: NumericPosterior, count: int = DRAWS) -> dict[str, Tensor]:
    """Return draws of the parameters by name, ``(S, ...)``: with few, each several times, as new workers differ in each."""
    group = posterior.tree["posterior"]
    size = group.sizes["chain"] * group.sizes["draw"]
    few = size < count
    chosen = torch.arange(-(-count // size) * size) % size if few else torch.linspace(0, size - 1, count).long()
    return {str(name): torch.from_numpy(posterior.draws(str(name)))[chosen] for name in group.data_vars}


def _moments(
    posterior: NumericPosterior, data: NumericAnnotations, draws: dict[str, Tensor], workers: dict[str, Tensor]
) -> Array:
    """Return mean and standard deviation of the numbers of items, ``(2, N)``.

    Args:
        posterior: a result.
        data: labels of the items, and their features.
        draws: see :func:`drawn`.
        workers: see :func:`_workers`.
    """
    # Near zero and one, so that sums of squares keep their digits.
    centre, unit = float(draws["mean"].mean()), float(draws["truth_sd"].mean())
    features: dict[str, Any] = {}
    if data.features is not None:
        features = {"features": standard_features(posterior, data.features)}
    labels = StandardLabels(
        data.item, data.worker, (data.value - centre) / unit, data.N, data.J, False, centre, unit, 0.0, **features
    )
    parameters = Parameters(
        intercept=((draws["mean"].unsqueeze(-1) + workers["bias"] - centre) / unit).T,
        slope=workers["slope"].T,
        variance=(workers["sd"].T / unit) ** 2,
        mean=(draws["mean"] - centre) / unit,
        truth_sd=draws["truth_sd"] / unit,
        weight=draws["weight"].T / unit if features else None,
    )
    mean, variance = conditional(parameters, labels)  # (N, S)
    density = log_marginal(
        labels.tables,
        labels.per_item,
        parameters.intercept,
        parameters.slope,
        parameters.variance,
        parameters.truth_sd,
        parameters.centre(labels),
    )
    share = density.softmax(-1)
    alpha, beta, noise = draws["mean"], torch.ones_like(draws["mean"]), torch.zeros_like(draws["mean"])
    if posterior.reading == "true_number":
        alpha, beta, noise = alpha + draws["reference_bias"], draws["reference_slope"], draws["reference_sd"] ** 2
    value = alpha + beta * unit * mean
    expected = (share * value).sum(-1)
    spread = (share * ((value - expected.unsqueeze(-1)) ** 2 + beta**2 * unit**2 * variance + noise)).sum(-1)
    return torch.stack([expected, spread.sqrt()]).numpy()


def standard_features(posterior: NumericPosterior, features: Tensor) -> Tensor:
    """Return features ``(N, D)`` with the means and standard deviations of the fit, and with the score of its networks."""
    constant = posterior.tree["constant_data"]
    mean, sd = (torch.from_numpy(constant[f"feature_{part}"].to_numpy()) for part in ("mean", "sd"))
    width = features.shape[-1]
    out = (features - mean[:width]) / sd[:width]
    if "network" not in posterior.tree.children:
        return out
    score = Network.of(posterior.tree["network"].to_dataset()).score(out)
    return torch.cat([out, ((score - mean[width]) / sd[width]).unsqueeze(-1)], -1)


def _workers(posterior: NumericPosterior, data: NumericAnnotations, draws: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return bias, slope and noise of the workers of the annotations, ``(S, J)`` each; new ones are drawn from the crowd."""
    place = pd.Index(posterior.worker_names()).get_indexer(pd.Index(data.workers))
    known = torch.from_numpy(place >= 0)
    at = torch.from_numpy(np.maximum(place, 0))
    shape = (len(draws["mean"]), data.J)
    bias, slope = draws["bias_sd"].unsqueeze(-1) * torch.randn(shape), torch.ones(shape)
    if "slope_sd" in draws:
        at_random = torch.rand(shape) < draws["random_share"].unsqueeze(-1)
        spread = torch.where(at_random, RANDOM_SD, draws["slope_sd"].unsqueeze(-1))
        slope = torch.where(at_random, 0.0, 1.0) + spread * torch.randn(shape)
    half = (draws["noise_df"] / 2).unsqueeze(-1).expand(shape)
    variance = half * draws["noise_sd"].unsqueeze(-1) ** 2 / torch._standard_gamma(half.contiguous())
    floor = posterior.data().spacing ** 2 / 12
    crowd = {"bias": bias, "slope": slope, "sd": variance.clamp(min=floor).sqrt()}
    return {name: torch.where(known, draws[name][:, at], new) for name, new in crowd.items()}
