"""Quantities that only some models have, as views ask for them: a name with axes, and the models that have it.

A model states in ``viewed`` which of its quantities views show. A view is defined by the names and axes that it reads, and knows
no model: a further one with such quantities, also of a user, has the view.
"""

from __future__ import annotations

import xarray as xr

from crowdppl.posterior.schema import DRAW


def has(tree: xr.DataTree, name: str, *axes: str) -> bool:
    """Tell whether a result has draws of a quantity whose first axes, after those of draws, are these."""
    group = tree["posterior"].data_vars
    return name in group and group[name].dims[: 2 + len(axes)] == (*DRAW, *axes)


def models_with(*names: str) -> str:
    """Return which models of the catalogue state all of these names in ``viewed``, as text: ``'a', 'b' or 'c'``."""
    from crowdppl.models import CATALOGUE  # here: slow to import

    models = [repr(name) for name, kind in CATALOGUE.items() if set(names) <= set(kind.viewed)]
    return " or ".join([", ".join(models[:-1]), *models[-1:]] if models[1:] else models)
