"""Agreement on grades: the coefficients that are reported of graded data, each with its form, in one table."""

from __future__ import annotations

import pandas as pd

from crowdppl.arguments import Level, checked
from crowdppl.data.annotations import Annotations
from crowdppl.data.table.identifier_checks import numbers
from crowdppl.errors import DataError
from crowdppl.metrics.coefficients import agreement
from crowdppl.metrics.intraclass import intraclass_correlation

# Names with the form: by which weights; of one grade or of a mean; of raters who vary over items, or of all on the same items.
NAMES = {
    "krippendorff_alpha": "Krippendorff's alpha (ordinal)",
    "fleiss_kappa": "Fleiss' kappa (quadratic)",
    "gwet_ac": "Gwet's AC2 (quadratic)",
    "icc_1": "ICC(1): one grade, raters vary",
    "icc_a_1": "ICC(A,1): one grade, all raters",
    "icc_a_k": "ICC(A,k): mean of all raters",
    "intra_rater": "own repeats (quadratic)",
}


@checked
def graded_agreement(data: Annotations, *, level: Level | None = None) -> pd.DataFrame:
    """Return agreement of raters on grades, with intervals.

    Rows: Krippendorff's ordinal alpha; Fleiss' kappa and Gwet's AC2 with quadratic weights; where grades are numbers, intraclass
    correlations, see :func:`intraclass_correlation`; and the agreement of raters with their own repeats, with quadratic weights,
    if there are any. Columns: ``measure``; ``name``, with its form; ``value``, ``low``, ``high`` and ``items`` as
    :func:`agreement` has them. Kappa of pairs of raters: :func:`pairwise_agreement` with ``weights="quadratic"``.

    Args:
        data: annotations that were read with ``kind="ordinal"``.
        level: probability of the intervals. Defaults to ArviZ's default, .89.

    Raises:
        DataError: if labels are not grades, they are all of one class, or fewer than two items have two raters.
    """
    if data.kind != "ordinal":
        raise DataError("the labels are classes without an order; read them with kind='ordinal'")
    ordinal = agreement(data, weights="ordinal", level=level)
    quadratic = agreement(data, weights="quadratic", level=level)
    parts = [
        ordinal[ordinal["measure"] == "krippendorff_alpha"],
        quadratic[quadratic["measure"].isin(["fleiss_kappa", "gwet_ac"])],
    ]
    if numbers(data.labels) is not None and len(parts[0]):
        parts.append(intraclass_correlation(data, level=level))
    parts.append(quadratic[quadratic["measure"] == "intra_rater"])
    table = pd.concat(parts, ignore_index=True)
    table.insert(1, "name", table["measure"].map(NAMES))
    return table
