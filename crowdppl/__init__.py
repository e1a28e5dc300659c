"""crowdppl: generative models of crowdsourced annotation, fitted by EM, SVI, Gibbs or NUTS, with honest uncertainty."""

from importlib.metadata import version

from crowdppl.annotations import Annotations
from crowdppl.errors import CrowdpplError, CrowdpplWarning, DataError, FileError, ModelError, OptionError
from crowdppl.inference import fit
from crowdppl.model import AnnotationModel
from crowdppl.plates import Plates
from crowdppl.posterior import Posterior, load
from crowdppl.prediction import predict, predict_correct, predict_workers
from crowdppl.reading import read
from crowdppl.streaming import stream

__version__ = version("crowdppl")

__all__ = [
    "AnnotationModel",
    "Annotations",
    "CrowdpplError",
    "CrowdpplWarning",
    "DataError",
    "FileError",
    "ModelError",
    "OptionError",
    "Plates",
    "Posterior",
    "fit",
    "load",
    "predict",
    "predict_correct",
    "predict_workers",
    "read",
    "stream",
]
