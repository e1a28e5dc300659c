"""What to have labelled next: which items, by whom, and how many annotations are needed.

The value of one more annotation of an item is what it is expected to add to the knowledge of its true label. This is less than
for an independent annotation: with correlation ``rho`` between the annotations of an item, ``n`` of them are worth
``n / (1 + (n - 1) rho)`` independent ones (see :mod:`crowdppl.inference.dependence.design_effect`), so that the next one adds

    w(n) = (n + 1) / (1 + n rho) - n / (1 + (n - 1) rho)

This is taken as the probability that the next annotation is new, drawn from the worker's confusion matrix ``theta``, rather
than a copy of current belief ``p``. Which of the two it is remains unobserved, so its label has the mixture distribution
``w theta[k, l] + (1 - w) sum_k p_k theta[k, l]``. Probabilities stay coherent: the expected belief after the annotation equals
the belief before it.

``rho`` is not known. Intervals of truths and workers average over a wide distribution of it (``POPULATION``), which also covers
other misfits of a model. The value of another annotation depends on the correlation alone, so a narrower distribution is used
here (``GROWTH``), which matches the growth of accuracy with the number of annotations on public data sets. :func:`gains` and
:func:`redundancy` average over its quantiles; :func:`curve` selects posterior draws with importance weights, the ratio of the two
densities. A fit with a ``rho`` of its own keeps it in all of them. Where known true labels say what ``rho`` is on average of the
crowd, :func:`redundancy` reports that.
"""

from crowdppl.acquisition.accuracy_curve import Curve, curve
from crowdppl.acquisition.batches import finished, next_items, next_known, next_pairs
from crowdppl.acquisition.correlation import effective, redundancy, redundancy_source
from crowdppl.acquisition.value import gains

__all__ = [
    "Curve",
    "curve",
    "effective",
    "finished",
    "gains",
    "next_items",
    "next_known",
    "next_pairs",
    "redundancy",
    "redundancy_source",
]


def __dir__() -> list[str]:
    return __all__
