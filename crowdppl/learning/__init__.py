"""Classifiers of item features, trained on crowd labels: one training loop, and a loss for each method.

A method here has a loss but no generative story: it gives labels and probabilities of new items and, where its loss has them,
matrices or weights of workers, all without intervals. The models with a classifier inside a likelihood are in
:mod:`crowdppl.models`.
"""

from crowdppl.learning.classifier import Classifier
from crowdppl.learning.crowd_layers import crowd_layer
from crowdppl.learning.doctor_nets import doctor_net
from crowdppl.learning.mutual_information import max_mig
from crowdppl.learning.trace_penalty import trace_regularization
from crowdppl.learning.training import Training
from crowdppl.learning.two_stages import on_truth, two_stage

# In the order of the documentation.
METHODS = (two_stage, on_truth, crowd_layer, trace_regularization, doctor_net, max_mig)

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
