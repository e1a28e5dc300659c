"""crowdppl: generative models of crowdsourced annotation, fitted by EM, SVI, Gibbs or NUTS, with calibrated uncertainty."""

from importlib.metadata import version

from crowdppl.criticism import compare
from crowdppl.data.annotations import Annotations
from crowdppl.data.read import read
from crowdppl.errors import CrowdpplError, CrowdpplWarning, DataError, FileError, ModelError, OptionError
from crowdppl.inference.fit import fit
from crowdppl.inference.predict import predict, predict_correct, predict_workers
from crowdppl.inference.streaming import stream
from crowdppl.inference.update import update
from crowdppl.model.base import AnnotationModel
from crowdppl.model.plates import Plates
from crowdppl.model.program import check_contract
from crowdppl.model.sampling import simulate
from crowdppl.posterior.posterior import Posterior, load

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
    "check_contract",
    "compare",
    "fit",
    "load",
    "predict",
    "predict_correct",
    "predict_workers",
    "read",
    "simulate",
    "stream",
    "update",
]
