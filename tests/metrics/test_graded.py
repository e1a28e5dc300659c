"""Agreement on grades: the coefficients with their forms, those of other functions, and repeats by the same rater."""

import numpy as np
import pandas as pd
import pytest

from crowdppl import Annotations, DataError, metrics

# P. E. Shrout and J. L. Fleiss (1979), table 2: six items, four raters.
SHROUT = np.array([[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]])


def sheet(grades, extra=()):
    item, rater = np.indices(grades.shape)
    rows = [*zip(item.ravel(), rater.ravel(), grades.ravel(), strict=True), *extra]
    return Annotations.from_frame(pd.DataFrame(rows, columns=["task", "worker", "label"]), kind="ordinal")


def test_all_coefficients_stand_in_one_table_with_their_forms():
    data = sheet(SHROUT)
    table = metrics.graded_agreement(data).set_index("measure")
    # Published: .17, .29 and .62.
    assert table.loc[["icc_1", "icc_a_1", "icc_a_k"], "value"].round(2).tolist() == [0.17, 0.29, 0.62]
    ordinal = metrics.agreement(data, weights="ordinal").set_index("measure")
    quadratic = metrics.agreement(data, weights="quadratic").set_index("measure")
    columns = ["value", "low", "high", "items"]
    assert table.loc["krippendorff_alpha", columns].tolist() == ordinal.loc["krippendorff_alpha", columns].tolist()
    for measure in ("fleiss_kappa", "gwet_ac"):
        assert table.loc[measure, columns].tolist() == quadratic.loc[measure, columns].tolist()
    assert "intra_rater" not in table.index
    assert table.loc["krippendorff_alpha", "name"] == "Krippendorff's alpha (ordinal)"


def test_repeats_of_a_rater_are_agreement_with_himself():
    again = [(0, 0, 9), (1, 0, 6), (2, 0, 9)]
    row = metrics.graded_agreement(sheet(SHROUT, again)).set_index("measure").loc["intra_rater"]
    # Two of three repeats agree; the third is one step of nine away.
    assert row["value"] == pytest.approx((1 + 1 + 1 - 1 / 81) / 3)
    assert row["items"] == 3


def test_classes_without_an_order_have_no_such_table():
    frame = pd.DataFrame({"task": [0, 0, 1, 1], "worker": list("abab"), "label": [0, 1, 1, 1]})
    with pytest.raises(DataError, match="kind='ordinal'"):
        metrics.graded_agreement(Annotations.from_frame(frame))
