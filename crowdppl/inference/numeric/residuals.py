"""Workers whose errors are correlated beyond what the model of numbers allows for."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse
from scipy.special import ndtri
from torch import Tensor

from crowdppl.data.numeric import NumericAnnotations
from crowdppl.inference.numeric.draws import NumericDraws
from crowdppl.inference.numeric.readings import Parameters, conditional
from crowdppl.model.numeric import StandardLabels
from crowdppl.posterior.numbers import SHARED_ERRORS

# Pairs of workers with fewer common items, and correlations below this, are not named.
LEAST_ITEMS, LEAST_CORRELATION = 20, 0.25
# Probability that a pair is named where no errors are shared, over all pairs.
FALSE_ALARM = 0.01
# Most workers whose pairs are looked at, and annotations, about.
MOST_WORKERS, LOOKED_AT = 3000, 300_000


def correlated_errors(data: NumericAnnotations, standard: StandardLabels, draws: NumericDraws) -> list[str]:
    """Return a sentence on pairs of workers whose errors are correlated, if there are any.

    With ``D`` the diagonal of the variances and ``P`` the precision of an item's truth, residuals ``y - b - g E[z]`` of its
    labels have the covariance ``D - g g' / P`` under the model. The sum over common items of ``r_a r_b + g_a g_b / P``,
    divided by the root of the sum of the products of the two variances, is standard normal for many items.
    """
    if not 1 < data.J <= MOST_WORKERS:
        return []
    middle = {
        name: value.mean((0, 1)).unsqueeze(-1)
        for name, value in draws.samples.items()
        if name in ("intercept", "slope", "variance")
    }
    one = middle["intercept"].new_ones(data.J, 1)
    workers = (middle["intercept"], middle.get("slope", one), middle["variance"])
    crowd = standard.without_reference()
    truth_sd = draws.samples["truth_sd"].mean().reshape(1)
    weight = draws.samples["weight"].mean((0, 1)).unsqueeze(-1) if "weight" in draws.samples else None
    mean, spread = conditional(Parameters(*workers, mean=0 * truth_sd, truth_sd=truth_sd, weight=weight), crowd)
    intercept, slope, variance = (_numpy(part) for part in workers)
    item, worker, value = (_numpy(part) for part in (crowd.item, crowd.worker, crowd.value))
    # Of large data every so many items are looked at, which is enough to see correlations of this size.
    seen = item % -(-len(item) // LOOKED_AT) == 0
    at, by, value = item[seen].astype(int), worker[seen].astype(int), value[seen]
    mu, v = _numpy(mean), _numpy(spread)
    shared = slope[by] * np.sqrt(v[at])
    variance = np.maximum(variance[by] - shared**2, 1e-12)
    # One product for both sums: the real part of z_a times the conjugate of z_b is r_a r_b + s_a s_b.
    both = (value - intercept[by] - slope[by] * mu[at]) + 1j * shared
    tables = {
        name: scipy.sparse.coo_array((part, (by, at)), shape=(data.J, data.N)).tocsr()
        for name, part in (("both", both), ("variance", variance), ("count", np.ones(len(at))))
    }
    products = {name: (table @ table.conj().T).toarray().real for name, table in tables.items()}
    first, second = np.triu_indices(data.J, 1)
    pick = {name: product[first, second] for name, product in products.items()}
    many = pick["count"] >= LEAST_ITEMS
    if not many.any():
        return []
    score = pick["both"][many] / np.sqrt(pick["variance"][many])
    correlation = score / np.sqrt(pick["count"][many])
    limit = float(ndtri(1 - FALSE_ALARM / many.sum()))
    named = np.flatnonzero((score > limit) & (correlation > LEAST_CORRELATION))
    if not len(named):
        return []
    order = named[np.argsort(-correlation[named], kind="stable")]
    names = data.workers.tolist()
    pairs = [
        f"{names[first[many][n]]} and {names[second[many][n]]} ({min(correlation[n], 1.0):.2f} over "
        f"{int(pick['count'][many][n]):,} items)"
        for n in order
    ]
    count = f"{len(pairs):,} of {int(many.sum()):,} pairs" if len(pairs) > 1 else "one pair"
    return [
        f"{SHARED_ERRORS}: the errors of {count} of workers are correlated, such as {'; '.join(pairs[:3])}. Without known true "
        f"numbers intervals of truths are too narrow then: give those of some items with truth=... (--truth-file)"
    ]


def _numpy(part: Tensor) -> npt.NDArray[np.float64]:
    return np.asarray(part.squeeze(-1).cpu().numpy(), dtype=float)
