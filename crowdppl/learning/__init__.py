"""Classifiers of item features, trained on crowd labels: one training loop, and a loss for each method.

A method here has a loss but no generative story: it gives labels and probabilities of new items and, where its loss has them,
matrices or weights of workers, all without intervals. The models with a classifier inside a likelihood are in
:mod:`crowdppl.models`.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from crowdppl.learning.classifier import Classifier
from crowdppl.learning.crowd_layers import crowd_layer
from crowdppl.learning.doctor_nets import doctor_net
from crowdppl.learning.mutual_information import max_mig
from crowdppl.learning.trace_penalty import trace_regularization
from crowdppl.learning.training import Training
from crowdppl.learning.two_stages import on_truth, two_stage

if TYPE_CHECKING:
    from crowdppl.learning.crowd_classifier import CrowdClassifier

# In the order of the documentation.
METHODS = (two_stage, on_truth, crowd_layer, trace_regularization, doctor_net, max_mig)

__all__ = [
    "Classifier",
    "CrowdClassifier",
    "Training",
    "crowd_layer",
    "doctor_net",
    "max_mig",
    "on_truth",
    "trace_regularization",
    "two_stage",
]


def __getattr__(name: str) -> Any:
    """Import what needs scikit-learn when it is first asked for.

    Raises:
        ImportError: where scikit-learn is missing, or too old.
    """
    if name != "CrowdClassifier":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    stream = random.getstate()
    try:
        from crowdppl.learning.crowd_classifier import CrowdClassifier
    except ImportError as error:
        if "sklearn" not in str(error):
            raise
        raise ImportError("CrowdClassifier needs scikit-learn 1.6 or later: pip install 'crowdppl[learn]'") from None
    finally:
        random.setstate(stream)  # the first import of scikit-learn draws from Python's random stream
    return CrowdClassifier
