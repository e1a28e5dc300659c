"""Classifiers of item features, trained on crowd labels: one training loop, and a loss for each method.

A method here has a loss but no generative story: it gives labels and probabilities of new items and, where its loss has them,
matrices or weights of workers, all without intervals. The models with a classifier inside a likelihood are in
:mod:`crowdppl.models`.
"""

from crowdppl.learning.classifier import Classifier
from crowdppl.learning.crowd_layer import crowd_layer
from crowdppl.learning.doctor_net import doctor_net
from crowdppl.learning.max_mig import max_mig
from crowdppl.learning.trace_regularization import trace_regularization
from crowdppl.learning.training import Training
from crowdppl.learning.two_stage import on_truth, two_stage

__all__ = [
    "Classifier",
    "Training",
    "crowd_layer",
    "doctor_net",
    "max_mig",
    "on_truth",
    "trace_regularization",
    "two_stage",
]
