"""Durations in the forms that programs write, numbers with a decimal comma, and the last of repeated annotations by time."""

import numpy as np
import pandas as pd
import pytest

from crowdppl import Annotations, DataError
from crowdppl.data.table.durations import durations
from crowdppl.data.table.timestamps import times


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (["2,5", "30", ""], [2.5, 30, np.nan]),
        (["0,125", "1,250"], [0.125, 1.25]),
        (["1234,567", "1,250"], [1234.567, 1.25]),  # no thousands
        (["0 days 00:01:30", "1 days 00:00:00.5"], [90, 86_400.5]),
        (["0:01:30", "12:00:05"], [90, 43_205]),
        (["PT1M30S", "PT5S", "P1DT0.5S"], [90, 5, 86_400.5]),
    ],
)
def test_written_durations(written, seconds):
    read, notes = durations(pd.Series(written, dtype=object), "column 'd'")
    np.testing.assert_array_equal(read, seconds)
    assert len(notes) == 1
    assert written[0] in notes[0]


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (["01:30", "00:45"], "may be hours or minutes"),  # minutes and seconds, or hours and minutes
        (["1,250", "2,000"], "the comma of '1,250' may separate decimals or thousands; write 1.250 or 1250"),
        (["0:01:30", "90"], "is not a number"),
        (["2,5", "3.5"], "is not a number"),
        (["PT", "P"], "is not a number"),
    ],
)
def test_durations_of_two_readings_are_refused(written, reason):
    with pytest.raises(DataError, match=reason):
        durations(pd.Series(written, dtype=object), "x")


def test_numbers_of_seconds_are_read_as_before():
    read, notes = durations(pd.Series(["90", " 1.5", None]), "x")
    np.testing.assert_array_equal(read, [90, 1.5, np.nan])
    assert notes == []


def test_days_of_a_spreadsheet_with_a_decimal_comma():
    read, notes = times(pd.Series(["45385,4166666667", "45386,0416666667"]), "x")
    assert [pd.Timestamp(t, unit="s").round("s") for t in read] == [
        pd.Timestamp("2024-04-03 10:00"),
        pd.Timestamp("2024-04-04 01:00"),
    ]
    assert "decimal comma" in notes[0]


def test_times_with_commas_of_two_readings_are_refused():
    with pytest.raises(DataError, match="the comma of '1,250' may separate decimals or thousands"):
        times(pd.Series(["1,250", "2,000"]), "x")
    assert times(pd.Series(["1700000001,250", "1700000002,000"]), "x")[0].tolist() == [1700000001.25, 1700000002]


def last(**options):
    table = pd.DataFrame(
        {
            "task": [1, 1, 2, 2, 2],
            "worker": ["u", "u", "u", "u", "v"],
            "label": list("abcda"),
            "when": ["2024-01-02", "2024-01-01", "2024-01-03", "", "2024-01-01"],
        }
    )
    data = Annotations.from_frame(table, repeats="last", **options)
    rows = zip(
        data.items[data.item].tolist(),
        data.workers[data.worker].tolist(),
        data.labels[data.label].tolist(),
        strict=False,
    )
    return list(rows), data.notes


def test_the_last_annotation_is_the_latest_where_times_are_known():
    rows, notes = last(timestamp="when")
    assert rows == [(1, "u", "a"), (2, "u", "d"), (2, "v", "a")]  # of a pair with an unknown time, the last row
    assert "by their times" in notes[0]


def test_the_last_annotation_is_the_last_row_without_times():
    rows, notes = last()
    assert rows == [(1, "u", "b"), (2, "u", "d"), (2, "v", "a")]
    assert "by the order of the rows)" in notes[0]
