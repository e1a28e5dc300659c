"""Who does not look: workers whose labels say nothing of the truth, told apart from those who are wrong in earnest.

Given the truths of a draw a worker's labels are a table of counts, ``counts[k, l]``. Two stories compete for it:

- *looks*: each class has its own distribution of labels, around the crowd's;
- *does not look*: one distribution of labels whatever the class, any.

Both have a Dirichlet prior, so that their marginal likelihoods are closed; with the share of spammers to be expected they
give the probability that the worker is one. Few judgements leave it near that share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from crowdppl.errors import OptionError
from crowdppl.workers.measures import kappa

if TYPE_CHECKING:
    from crowdppl.posterior import Posterior

Array = npt.NDArray[Any]

# Share of spammers expected before anything is known of a crowd.
EXPECTED = 0.1
# Imaginary labels, for each class, that a worker who looks starts with: given as the crowd gives them.
LOOKS = 4.0
# Draws of the truth that the probability is averaged over, fewer where there is much to count, but some.
DRAWS, FEW = 200, 20
WORK = 2e8
# From here on a worker is called a spammer, and from here on informed or contrary. The truths drawn are those of a posterior
# that allows for judgements that err together; in some of its draws hardly anything is known, and few guessers reach .95.
SPAMMER = 0.8
SURE = 0.95
# A spammer who gives one label at least this often is said to give that one always.
ALWAYS = 0.9
VERDICTS = ("informed", "contrary", "guesses", "always", "unknown")


def spammer_probability(posterior: Posterior, *, expected: float = EXPECTED) -> Array:
    """Return the probability that each worker's labels do not depend on the truth: ``(J,)``.

    Args:
        posterior: a result.
        expected: share of spammers in a crowd like this, before its labels are seen.

    Raises:
        OptionError: for a share outside (0, 1).
    """
    if not 0 < expected < 1:
        raise OptionError(
            f"expected={expected!r}; the share of spammers expected lies between 0 and 1, such as {EXPECTED}"
        )
    total = np.zeros(len(posterior.worker_names()))
    draws = 0
    cells = (
        len(posterior.judged()[0]) + 10 * total.size * len(posterior.labels) ** 2
    )  # a gamma function is ten additions
    for counts in posterior.counts(int(np.clip(WORK / cells, FEW, DRAWS))):  # (J, K, K)
        total += _probability(counts, expected)
        draws += 1
    return total / draws


def _probability(counts: Array, expected: float) -> Array:
    K = counts.shape[-1]
    crowd = counts.sum(0) + np.eye(K) + 1 / K  # (K, K); no row is empty
    crowd = crowd / crowd.sum(-1, keepdims=True)
    looks = _log_marginal(counts, LOOKS * crowd).sum(-1)  # (J,)
    does_not = _log_marginal(counts.sum(1), np.ones(K))  # (J,)
    gain = np.clip(looks - does_not + np.log(1 - expected) - np.log(expected), -700, 700)
    return 1 / (1 + np.exp(gain))


def _log_marginal(counts: Array, prior: Array) -> Array:
    """Log-probability of a sequence of labels with these counts ``(..., K)`` under Dirichlet rows: ``(...)``."""
    from scipy.special import gammaln  # here, since it takes a while to load

    rows = gammaln(prior.sum(-1)) - gammaln(prior.sum(-1) + counts.sum(-1))
    return rows + (gammaln(prior + counts) - gammaln(prior)).sum(-1)


def verdicts(posterior: Posterior, spammer: Array) -> Array:
    """Say in a word what each worker is: ``(J,)``, one of ``VERDICTS``.

    - ``guesses``, ``always``: a spammer with probability .8, who spreads the labels, or gives one of them nine times in ten;
    - ``contrary``: right less often than by chance, and hardly a spammer, each with probability .95: swaps labels. What such a
      worker says is turned round by the model and helps;
    - ``informed``: right more often than by chance, and hardly a spammer, each with probability .95;
    - ``unknown``: nothing of that is sure.

    Args:
        posterior: a result.
        spammer: of :func:`spammer_probability`, ``(J,)``.
    """
    given = posterior.given()  # (J, K)
    share = given.max(1) / np.maximum(given.sum(1), 1)
    against = np.concatenate([(kappa(c, p) < 0).mean(0) for _, c, p in posterior.by_workers()])
    words = np.where((against <= 1 - SURE) & (spammer <= 1 - SURE), "informed", "unknown").astype(object)
    words[(against >= SURE) & (spammer <= 1 - SURE)] = "contrary"
    words[(spammer >= SPAMMER) & (share < ALWAYS)] = "guesses"
    words[(spammer >= SPAMMER) & (share >= ALWAYS)] = "always"
    words[given.sum(1) == 0] = "unknown"
    return words
