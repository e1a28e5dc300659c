"""Whether judges favour long answers, from draws of the true labels.

Within items of one true label, and of one system, the verdicts of a judge are regressed on the log length of the answers. The
slope times the distance between the quartiles of all log lengths is the bias: by how much more often the judge passes an answer
as long as the upper quartile than one as long as the lower quartile, with the same true label. A system that the judge favours
for other reasons is not taken for a preference of length, since systems are compared with themselves only. Each draw of the true
labels has its slope, with questions weighted by a draw of the Bayesian bootstrap (Rubin 1981), so that intervals contain both the
uncertainty of the true labels and that of further verdicts.

Y. Dubois, B. Galambosi, P. Liang and T. Hashimoto (2024), Length-controlled AlpacaEval: a simple way to debias automatic
evaluators, COLM.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from crowdppl.errors import listed
from crowdppl.judges.coding.lengths import contrast
from crowdppl.judges.model.draws import TruthDraws
from crowdppl.judges.tables.system_table import question_weights

Array = npt.NDArray[Any]
# Draws from which the bias is computed.
DRAWS = 400


def length_bias(draws: TruthDraws) -> Array | None:
    """Return the bias of each judge for long answers, ``(D', J)``; NaN where it cannot be known, ``None`` without lengths.

    Of judges who give scores only, it is the difference in the share of answers with lower scores. Of pairs, the length is the
    ratio of the first answer's to the second's, and verdicts for the first answer take the place of those that pass; pairs of one
    true label are compared, of whichever systems.
    """
    v = draws.verdicts
    long = contrast(v.length, v.opponent_length, draws.paired)
    low, high = np.nanquantile(long, [0.25, 0.75]) if np.isfinite(long).any() else (0.0, 0.0)
    if high <= low:
        return None
    said = _said(draws)
    used = np.isfinite(said) & np.isfinite(long)[v.item]
    item, judge, y, x = v.item[used], v.judge[used], said[used], (long[v.item[used]] - np.nanmean(long)) / (high - low)
    J, K, S = len(v.judges), len(v.labels), 1 if draws.paired else len(v.systems) + 1
    stratum = (judge * S + (0 if draws.paired else v.system[item] + 1)) * K
    every = max(len(draws.truth) // DRAWS, 1)
    truth, weights = draws.truth[::every], question_weights(draws, "population")[::every]
    out = np.full((len(truth), J), np.nan)
    for d, z in enumerate(truth):
        at, w = stratum + z[item], weights[d][item]
        total = np.maximum(np.bincount(at, w, J * S * K), 1e-300)
        around_x = x - (np.bincount(at, w * x, J * S * K) / total)[at]
        around_y = y - (np.bincount(at, w * y, J * S * K) / total)[at]
        sxx = np.bincount(judge, w * around_x**2, J)
        np.divide(np.bincount(judge, w * around_x * around_y, J), sxx, out=out[d], where=sxx > 1e-9)
    return out


def _said(draws: TruthDraws) -> Array:
    """Return how high each verdict is, from 0 to 1: its value, or the rank of its score for judges without labels, ``(n,)``."""
    from scipy.stats import rankdata  # here: slow to import

    v = draws.verdicts
    value = (draws.value - draws.value.min()) / max(np.ptp(draws.value), 1e-12)
    said = np.append(value, np.nan)[v.label]
    alone = np.bincount(v.judge, v.label >= 0, len(v.judges)) == 0
    for j in np.flatnonzero(alone):
        own = np.flatnonzero((v.judge == j) & np.isfinite(v.score))
        if len(own) > 1:
            said[own] = (rankdata(v.score[own]) - 1) / (len(own) - 1)
    return np.asarray(said)


def sentences(draws: TruthDraws) -> list[str]:
    """Return which judges favour long or short answers, in sentences.

    A judge is named if its bias divided by its posterior standard deviation is beyond the quantile of a normal variable with
    Bonferroni's correction for the number of judges.
    """
    bias = length_bias(draws) if draws.labelled.any() else None
    if bias is None or not (known := np.isfinite(bias).all(0)).any():
        return []
    limit = ndtri(1 - (1 - draws.level) / (2 * known.sum()))
    clear = np.flatnonzero(known & (np.abs(bias.mean(0)) > limit * bias.std(0)))
    named, out = draws.columns("bias", bias), []
    for j in clear:
        mean, low, high = (named[name][j] for name in ("bias", "bias_low", "bias_high"))
        size = "longer" if mean > 0 else "shorter"
        answers = f"the {size} one of two answers" if draws.paired else f"{size} answers"
        out.append(
            f"{listed([draws.verdicts.judges[j]])} favours {answers}: at equal true labels, the mean of its verdicts changes by "
            f"{mean:+.2f} ({low:+.2f} to {high:+.2f}) from the lower to the upper quartile of the lengths. Corrected rates take "
            f"it into account, uncorrected ones do not."
        )
    if out:
        out.append(
            f"If no judge favoured any length, at most {1 - draws.level:.0%} of such panels would have one named."
        )
    return out
