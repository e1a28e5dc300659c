"""crowdppl: generative models of crowdsourced annotation, fitted by EM, SVI, Gibbs or NUTS, with calibrated uncertainty.

A name or a module of the library is imported when it is first used: torch, Pyro, pandas and xarray take seconds to import, which
nobody should wait for who asks for help or catches an error.
"""

import importlib
import importlib.util
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from crowdppl import isolation  # noqa: F401 - tells the system what a child process does after a fork
from crowdppl.errors import (
    CrowdpplError,
    CrowdpplWarning,
    DataError,
    FileError,
    ModelError,
    OptionError,
    require_docstrings,
)

if TYPE_CHECKING:
    from crowdppl import acquisition as acquisition
    from crowdppl import criticism as criticism
    from crowdppl import crowdkit as crowdkit
    from crowdppl import data as data
    from crowdppl import errors as errors
    from crowdppl import export as export
    from crowdppl import inference as inference
    from crowdppl import judges as judges
    from crowdppl import kernels as kernels
    from crowdppl import learning as learning
    from crowdppl import model as model
    from crowdppl import models as models
    from crowdppl import plots as plots
    from crowdppl import posterior as posterior
    from crowdppl import report as report
    from crowdppl.criticism import compare
    from crowdppl.data import datasets as datasets
    from crowdppl.data import synthetic as synthetic
    from crowdppl.data.annotations import Annotations
    from crowdppl.data.read import read
    from crowdppl.inference.fit import fit
    from crowdppl.inference.options import EM, NUTS, SVI, Gibbs
    from crowdppl.inference.predict import predict, predict_correct, predict_workers
    from crowdppl.inference.pyro_program import pyro_program
    from crowdppl.inference.scale.sharded.distribute import distribute
    from crowdppl.inference.scale.streaming.stream import stream
    from crowdppl.inference.threads import set_threads
    from crowdppl.inference.update import update
    from crowdppl.model.author_checks import check_contract
    from crowdppl.model.base import AnnotationModel
    from crowdppl.model.plates import Plates
    from crowdppl.model.sampling import simulate
    from crowdppl.posterior.posterior import Posterior, load

    __version__: str

__all__ = [
    "EM",
    "NUTS",
    "SVI",
    "AnnotationModel",
    "Annotations",
    "CrowdpplError",
    "CrowdpplWarning",
    "DataError",
    "FileError",
    "Gibbs",
    "ModelError",
    "OptionError",
    "Plates",
    "Posterior",
    "check_contract",
    "compare",
    "distribute",
    "fit",
    "load",
    "predict",
    "predict_correct",
    "predict_workers",
    "pyro_program",
    "read",
    "set_threads",
    "simulate",
    "stream",
    "update",
]

# Where the names are that are imported on use; the same as for type checkers above.
_MODULES = {
    "compare": "criticism",
    "Annotations": "data.annotations",
    "read": "data.read",
    "fit": "inference.fit",
    "EM": "inference.options",
    "SVI": "inference.options",
    "Gibbs": "inference.options",
    "NUTS": "inference.options",
    "predict": "inference.predict",
    "predict_correct": "inference.predict",
    "predict_workers": "inference.predict",
    "pyro_program": "inference.pyro_program",
    "distribute": "inference.scale.sharded.distribute",
    "stream": "inference.scale.streaming.stream",
    "set_threads": "inference.threads",
    "update": "inference.update",
    "AnnotationModel": "model.base",
    "Plates": "model.plates",
    "check_contract": "model.author_checks",
    "simulate": "model.sampling",
    "Posterior": "posterior.posterior",
    "load": "posterior.posterior",
}
# Modules of crowdppl.data with a name here, too.
_OF_DATA = ("datasets", "synthetic")
# Modules that people use by themselves; the others can be imported, too.
_SHOWN = (
    *("acquisition", "aggregate", "criticism", "crowdkit", "data", "errors", "export", "judges", "learning", "metrics"),
    *("models", "plots", "report", *_OF_DATA),
)


def _module(package: str, name: str) -> ModuleType:
    """Import a module of a package, so that it is an attribute of the package without an import by the caller.

    Raises:
        AttributeError: if the package has no such module.
    """
    path = f"{package}.{name}"
    if name.startswith("_") or importlib.util.find_spec(path) is None:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return importlib.import_module(path)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("crowdppl")
    elif name in _MODULES:
        require_docstrings()
        value = getattr(importlib.import_module(f"crowdppl.{_MODULES[name]}"), name)
    elif name in _OF_DATA:
        value = _module("crowdppl.data", name)
    else:
        value = _module("crowdppl", name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_SHOWN, "__version__"])


# These packages have no names of their own, only modules.
for _name in ("data", "data.readers", "inference", "inference.scale", "kernels", "model", "posterior"):
    _package = importlib.import_module(f"crowdppl.{_name}")
    vars(_package)["__getattr__"] = partial(_module, _package.__name__)
