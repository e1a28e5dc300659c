"""Versions of the packages that a result depends on."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import version

PACKAGES = ("crowdppl", "torch", "pyro-ppl", "numpy", "pandas", "xarray", "arviz-base", "arviz-stats")


@cache
def versions() -> dict[str, str]:
    """Return the versions recorded with a result; reading them takes longer than a small fit by EM."""
    return {"python": platform.python_version()} | {name: version(name) for name in PACKAGES}
