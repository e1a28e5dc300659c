"""What new workers are like, from their numbers for items that a result knows, or for new items with features.

Given the parameters of the crowd and the labels of the fit, the truth of an item is normal with mean ``mu`` and variance ``V``. A
label of a new worker is then normal around ``b + g mu`` with variance ``v + g^2 V``, which is summed over a grid of slopes ``g``
and noises ``v``, with the intercept ``b`` integrated out. What the labels of new workers say of the items, and with these of each
other, is left out: that takes a fit.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from crowdppl.data.numeric import NumericAnnotations
from crowdppl.errors import DataError, OptionError, listed
from crowdppl.inference.numeric.predict import asked, drawn, standard_features
from crowdppl.inference.numeric.readings import given_labels
from crowdppl.isolation import isolated
from crowdppl.kernels.ops import sum_by
from crowdppl.model.numeric import StandardLabels
from crowdppl.models.linear_gaussian import RANDOM_SD
from crowdppl.posterior.measures import ENDS, interval
from crowdppl.posterior.numbers import NumericPosterior

# Draws of the crowd's parameters; values of slope and of noise; how far they reach, in spreads of the crowd and as a factor.
DRAWS, SLOPES, NOISES, FAR, WIDE = 100, 40, 40, 4.0, 10.0
# Labels times points of the grid that are held at a time.
BLOCK = 2**21


def predict_workers_of_numbers(
    posterior: NumericPosterior, data: Any, *, level: float | None = None, seed: int = 0
) -> pd.DataFrame:
    """Say what other workers are like; arguments and errors as of :func:`crowdppl.predict_workers`.

    Raises:
        DataError: for workers whom the fit knows, and for items that it does not know, without features.
        OptionError: for annotations with known true numbers.
    """
    if not isinstance(data, NumericAnnotations):
        raise OptionError(
            "the labels of the result are numbers; pass annotations of new workers read with kind='numeric'"
        )
    known = pd.Index(data.workers).intersection(pd.Index(posterior.worker_names()))
    if len(known):
        raise DataError(
            f"the fit knows {listed(known.tolist(), 3)}, whose labels it has learned from; posterior.workers() says what "
            f"they are like"
        )
    data = asked(posterior, data)
    with isolated(seed), torch.no_grad():
        draws = drawn(posterior, DRAWS)
        mean, variance = _truths(posterior, data, draws)
        each = _workers(posterior, data, draws, mean, variance)
    bias, slope, sd = (each[name].numpy() for name in ("bias", "slope", "sd"))
    truth_sd = draws["truth_sd"].unsqueeze(-1).numpy()
    correlation = slope * truth_sd / np.sqrt(slope**2 * truth_sd**2 + sd**2)
    if posterior.reading == "true_number":
        steep = draws["reference_slope"].unsqueeze(-1).numpy()
        bias, slope = bias - draws["reference_bias"].unsqueeze(-1).numpy(), slope / steep
    count = np.bincount(data.worker.numpy(), minlength=data.J)
    total = np.bincount(data.worker.numpy(), weights=data.value.numpy(), minlength=data.J)
    mean_label = np.divide(total, count, out=np.full(data.J, np.nan), where=count > 0)
    table: dict[str, Any] = {"worker": data.workers, "annotations": count, "mean_label": mean_label}
    for name, values in (("bias", bias), ("slope", slope), ("sd", sd), ("correlation", correlation)):
        table |= {name + end: part for end, part in zip(ENDS, interval(values, level), strict=True)}
    return pd.DataFrame(table)


def _truths(posterior: NumericPosterior, data: NumericAnnotations, draws: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Return mean and variance of the truths of the items of ``data``, less the crowd's mean, at each draw: ``(N, S)`` each."""
    place = pd.Index(posterior.items()).get_indexer(pd.Index(data.items))
    there, at = torch.from_numpy(place >= 0).unsqueeze(-1), torch.from_numpy(np.maximum(place, 0))
    if data.features is None and not bool(there.all()):
        new = data.items[place < 0].tolist()
        raise DataError(
            f"{len(new):,} of {data.N:,} items are not among those of the fit, such as {listed(new, 3)}; what workers are like "
            f"follows from labels of items that it knows, or that have features"
        )
    labels = StandardLabels.of(posterior.data())
    workers = {"bias": draws["bias"].T, "slope": draws["slope"].T, "sd": draws["sd"].T}
    if labels.has_reference:
        workers = {name: torch.cat([part, draws[f"reference_{name}"].unsqueeze(0)]) for name, part in workers.items()}
    # In units of the labels, not on the standard scale.
    labels = replace(labels, value=labels.value * labels.unit + labels.centre)
    precision, linear = labels.tables.by_item(draws["mean"] + workers["bias"], workers["slope"], workers["sd"] ** -2)
    precision, linear = (torch.where(there, part[at], 0.0) for part in (precision, linear))
    expected = None if data.features is None else standard_features(posterior, data.features) @ draws["weight"].T
    return given_labels(precision, linear, draws["truth_sd"], expected)


def _workers(
    posterior: NumericPosterior, data: NumericAnnotations, draws: dict[str, Tensor], mean: Tensor, variance: Tensor
) -> dict[str, Tensor]:
    """Draw bias, slope and noise of each worker at each draw of the crowd, ``(S, J)`` each."""
    out = {name: torch.empty(len(draws["mean"]), data.J, dtype=torch.float64) for name in ("bias", "slope", "sd")}
    floor = posterior.data().spacing ** 2 / 12
    for s in range(len(draws["mean"])):
        crowd = {name: float(value[s]) for name, value in draws.items() if value.dim() == 1}
        slope, noise, prior, cell = _grid(crowd, floor)
        size, linear, square = _sums(data, crowd["mean"], mean[:, s], variance[:, s], slope, noise)
        precision = size + crowd["bias_sd"] ** -2
        density = prior - square / 2 + linear**2 / precision / 2 - precision.log() / 2
        place = torch.multinomial(density.softmax(-1), 1)
        centre, scale = (part.gather(1, place).squeeze(-1) for part in (linear / precision, precision**-0.5))
        out["bias"][s] = centre + scale * torch.randn(data.J, dtype=torch.float64)
        chosen = place.squeeze(-1)
        # Anywhere in the cell around a point, evenly.
        off = torch.rand(2, data.J, dtype=torch.float64) - 0.5
        out["slope"][s] = slope[chosen] + cell[0] * off[0]
        out["sd"][s] = (noise[chosen] * (cell[1] * off[1]).exp()).clamp(min=floor).sqrt()
    return out


def _sums(
    data: NumericAnnotations, level: float, mean: Tensor, variance: Tensor, slope: Tensor, noise: Tensor
) -> tuple[Tensor, ...]:
    """Return the sums of ``w``, ``w r`` and ``w r^2 - log w`` over each worker's labels at each point, ``(J, P)`` each.

    Here ``r = y - m - g mu`` and ``w = 1 / (v + g^2 V)``.

    Args:
        data: the labels.
        level: mean of the crowd.
        mean: of the truths, less it, ``(N,)``.
        variance: likewise.
        slope: of each point, ``(P,)``.
        noise: variance at each point, ``(P,)``.
    """
    sums = [torch.zeros(data.J, len(slope), dtype=torch.float64) for _ in range(3)]
    for rows in torch.arange(data.A).split(max(1, BLOCK // len(slope))):
        item, worker = data.item[rows], data.worker[rows]
        weight = 1 / (noise + slope**2 * variance[item].unsqueeze(-1))
        residual = (data.value[rows].unsqueeze(-1) - level) - slope * mean[item].unsqueeze(-1)
        terms = (weight, weight * residual, weight * residual**2 - weight.log())
        for total, term in zip(sums, terms, strict=True):
            total += sum_by(worker, term, data.J)
    return tuple(sums)


def _grid(crowd: dict[str, float], floor: float) -> tuple[Tensor, Tensor, Tensor, tuple[float, float]]:
    """Return slopes, noise variances and the log prior of their pairs, ``(P,)`` each, and steps of slope and log variance."""
    slope = torch.ones(1, dtype=torch.float64)
    log_slope = torch.zeros(1, dtype=torch.float64)
    if "slope_sd" in crowd:
        spread, share = crowd["slope_sd"], crowd["random_share"]
        low, high = min(1 - FAR * spread, -FAR * RANDOM_SD), 1 + FAR * spread
        slope = torch.linspace(low, high, SLOPES, dtype=torch.float64)
        parts = [(1 - share, 1.0, spread), (share, 0.0, RANDOM_SD)]
        logs = [math.log(max(p, 1e-300)) - ((slope - at) / sd) ** 2 / 2 - math.log(sd) for p, at, sd in parts]
        log_slope = torch.stack(logs).logsumexp(0)
    common, half = crowd["noise_sd"] ** 2, crowd["noise_df"] / 2
    least = max(common / WIDE**2, floor, 1e-300)
    noise = torch.logspace(math.log10(least), math.log10(max(common * WIDE**2, 2 * least)), NOISES, dtype=torch.float64)
    log_noise = -half * noise.log() - half * common / noise  # of its logarithm, on which the grid is even
    pairs = log_slope.unsqueeze(-1) + log_noise
    both = torch.cartesian_prod(slope, noise)
    steps = tuple(float(part[1] - part[0]) if len(part) > 1 else 0.0 for part in (slope, noise.log()))
    return both[:, 0], both[:, 1], pairs.flatten(), (steps[0], steps[1])
