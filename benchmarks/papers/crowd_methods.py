"""The methods of Table 1 of CoNAL that have a loss and no generative story, for the pages of LabelMe and Music."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from common import fit

from crowdppl import Annotations, Posterior, aggregate, learning
from crowdppl.learning import Classifier, Training
from crowdppl.model.networks import Factory
from crowdppl.models import WorkerGroups

# The slowest method, doctor net, has its best epoch after some hundred.
EPOCHS = 200
# Worker clustering (Imamura et al. 2018): workers of a group share a confusion matrix.
SAMPLING = {"chains": 2, "warmup": 300, "num_samples": 300}
AGGREGATIONS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "Dawid–Skene, then a classifier (DL-DS)": ("dawid-skene", "em", {}),
    "GLAD, then a classifier (DL-GLAD)": ("glad", "em", {}),
    "worker groups, then a classifier (DL-WC)": (WorkerGroups(), "gibbs", SAMPLING),
}
# Table 1 of CoNAL, test accuracy on LabelMe and Music.
TABLE1 = {
    "hard majority (DL-MV)": (79.83, 72.53),
    "GLAD, then a classifier (DL-GLAD)": (83.12, 77.82),
    "worker groups, then a classifier (DL-WC)": (82.74, 75.76),
    "crowd layer, MW (DL-CL)": (83.27, 81.46),
    "doctor net, learned weights (Doctor Net)": (82.12, 76.58),
    "trace regularization (Anno-Reg)": (82.77, 79.12),
    "Max-MIG": (85.33, 81.37),
    "learning from crowds (AggNet, DL-EM)": (84.75, 81.92),
    "CoNAL, end to end": (87.12, 84.06),
}


def learners(
    data: Annotations, truth: Any, network: Factory | None, seed: int
) -> dict[str, Callable[[learning.training.Validation], Classifier]]:
    """Return each method as a function of the validation items.

    Args:
        data: annotations with features.
        truth: true labels by item, for the upper bound.
        network: of all methods.
        seed: of everything random.
    """
    same: dict[str, Any] = {"network": network, "seed": seed, "training": Training(epochs=EPOCHS)}
    fits = {name: fit(data, model, method=how, seed=seed, **o)[0] for name, (model, how, o) in AGGREGATIONS.items()}

    def two_stage(aggregation: Posterior | aggregate.Aggregate, labels: str = "soft") -> Callable[..., Classifier]:
        return lambda validation: learning.two_stage(data, aggregation, labels=labels, validation=validation, **same)

    def trained(method: Callable[..., Classifier], **options: Any) -> Callable[..., Classifier]:
        return lambda validation: method(data, validation=validation, **same, **options)

    return {
        "hard majority (DL-MV)": two_stage(aggregate.majority(data), "hard"),
        "soft majority": two_stage(aggregate.vote_shares(data)),
        **{name: two_stage(posterior) for name, posterior in fits.items()},
        "crowd layer, MW (DL-CL)": trained(learning.crowd_layer),
        "crowd layer, VW": trained(learning.crowd_layer, kind="VW"),
        "crowd layer, VW+B": trained(learning.crowd_layer, kind="VW+B"),
        "doctor net, equal weights": trained(learning.doctor_net, averaging="equal"),
        "doctor net, learned weights (Doctor Net)": trained(learning.doctor_net),
        "trace regularization (Anno-Reg)": trained(learning.trace_regularization),
        "Max-MIG": trained(learning.max_mig),
        "truth": trained(partial(learning.on_truth, truth=truth)),
    }
