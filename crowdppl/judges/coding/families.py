"""The family of a judge: models that share a maker or a base model, whose errors are correlated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.data.table.identifiers import Coded
from crowdppl.errors import DataError, OptionError, listed
from crowdppl.judges.coding.model_names import family_of, makers_of
from crowdppl.judges.coding.table import Table

Array = npt.NDArray[Any]


def families_of(
    table: Table, judges: Coded, families: Mapping[Any, str] | None, notes: list[str]
) -> tuple[npt.NDArray[np.int64], Array]:
    """Return the family of each judge: from ``families``, otherwise from the table, otherwise from the judge's name.

    Args:
        table: the verdicts, with the role ``family``.
        judges: judge of each row, ``J`` names.
        families: families by judge.
        notes: receives what was derived.

    Returns:
        Codes ``(J,)`` and the names of the families in order of appearance.

    Raises:
        OptionError: if ``families`` is not a mapping.
        DataError: if a family is not a text, or the table states two for a judge.
    """
    if families is not None and not isinstance(families, Mapping):
        raise OptionError(f"families is a {type(families).__name__}; pass a mapping from judge to family")
    known = dict(families or {})
    for judge, family in known.items():
        if not isinstance(family, str) or not family.strip():
            raise DataError(f"families: the family of judge {judge!r} is {family!r}; it must be a text")
    column = table.names("family")
    stated = table.one_per(column, "family", judges, "judge").tolist()
    chosen: list[str] = []
    derived: list[str] = []
    makers = makers_of(judges.names.tolist())
    for judge, code in zip(judges.names.tolist(), stated, strict=True):
        if judge not in known and code < 0:
            derived.append(family_of(judge, makers))
        chosen.append(known[judge] if judge in known else str(column.names[code]) if code >= 0 else derived[-1])
    codes, distinct = pd.factorize(np.array(chosen, dtype=object))
    if derived:
        notes.append(
            f"{table.source}: families of {len(derived):,} of {len(chosen):,} judges are read from their names: "
            f"{listed(dict.fromkeys(derived), 8)}; state them in a column 'family' if they are others"
        )
    absent = [judge for judge in known if judge not in set(judges.names.tolist())]
    if absent:
        notes.append(f"families names {listed(absent)}, which gave no verdict")
    return codes.astype(np.int64), np.asarray(distinct, dtype=object)
