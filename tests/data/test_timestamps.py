"""Timestamps: one reading for a whole column, or a refusal that names the rows; exports are never refused."""

import datetime

import numpy as np
import pandas as pd
import pytest

from crowdppl import Annotations, DataError
from crowdppl.data.table.durations import durations
from crowdppl.data.table.months import month_by_name
from crowdppl.data.table.timestamps import read_times, since_1970, times


def days(*texts, **options):
    seconds, notes = times(pd.Series(list(texts), dtype=object), "x", **options)
    # Years beyond those of nanoseconds, too.
    return [f"{np.datetime64(int(one), 's').item():%m-%d %H:%M}" for one in seconds], notes


def test_european_dates_of_a_frame():
    frame = pd.DataFrame({"task": [1, 2, 3, 4], "worker": "u", "label": list("abab")})
    frame["when"] = ["03.04.2024 10:00", "13.04.2024 10:00", "04.04.2024 10:00", "14.04.2024 10:00"]
    data = Annotations.from_frame(frame, timestamp="when")
    got = [pd.Timestamp(float(t), unit="s").strftime("%m-%d") for t in data.timestamp]
    assert got == ["04-03", "04-13", "04-04", "04-14"]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["31/12/2024", "01/02/2024"], ["12-31", "02-01"]),
        (["12/31/2024", "01/02/2024"], ["12-31", "01-02"]),
        (["13-04-24", "03-04-24"], ["04-13", "04-03"]),
        (["3. 4. 2024", "13. 4. 2024"], ["04-03", "04-13"]),
        (["3 April 2024", "Apr 13, 2024", "05-Apr-24", "2024 Apr 6"], ["04-03", "04-13", "04-05", "04-06"]),
        (["2024-W14-3", "2024-W15"], ["04-03", "04-08"]),
        (
            ["2024/04/03", "2024.04.13", "20240414T101500", "2024-04-15T10:15:00.25"],
            ["04-03", "04-13", "04-14", "04-15"],
        ),
    ],
)
def test_one_order_for_all_values(texts, expected):
    assert [day[:5] for day in days(*texts)[0]] == expected


def test_times_of_day_and_zones():
    got, notes = days("Tue Apr 03 10:00:00 PDT 2018", "Tue, 03 Apr 2018 12:30:00 +0200", "2018-04-03 11:30 PM Z")
    assert got == ["04-03 17:00", "04-03 10:30", "04-03 23:30"]
    assert not notes
    got, notes = days("Wed Apr 03 2024 12:05:00 GMT+0200 (CEST)", "2024-04-03T12:05:00.5+01:30")
    assert got == ["04-03 10:05", "04-03 10:35"]
    got, notes = days("2024-04-03T10:00:00Z", "2024-04-04")
    assert got == ["04-03 10:00", "04-04 00:00"]
    assert "'2024-04-04', are taken as UTC" in notes[0]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (
            ["12/31/2024", "1/1/2024", "31/12/2024"],
            "rows 3, 1: '31/12/2024' has the day first and '12/31/2024' the month",
        ),
        (["01/03/2024", "02/02/2024"], "row 1: dates such as '01/03/2024' may have .* state dates='day-first'"),
        (["10:00", "11:00"], "row 1: '10:00' is a time without a date"),
        (["2024-01-01", "today"], "row 2: 'today' is not a number or a date"),
        (["2024-01-01", "2024-02-30"], "row 2: '2024-02-30' is not"),
        (["2024-01-01 24:30"], "row 1: '2024-01-01 24:30' is not"),
        (["2024-01-01 10:00", "2024-01-01 10:00+02:00"], "rows 1, 2: '2024-01-01 10:00' has no time zone and"),
        (["2024-01-01 10:00 IST"], "IST"),
        (
            ["1700000000", "1700000000000"],
            "rows 1, 2: '1700000000' is in seconds since 1970 and '1700000000000' is in milli",
        ),
        (["17", "2024-01-01"], "rows 1, 2: '17' is a number and '2024-01-01' a date"),
        ([datetime.time(10)], "a time without a date"),
    ],
)
def test_contradictions_are_refused_with_their_rows(texts, message):
    with pytest.raises(DataError, match=message):
        days(*texts)


def test_the_order_can_be_stated_and_conventions_are_noted():
    assert days("01/03/2024", "02/02/2024", dates="day-first")[0] == ["03-01 00:00", "02-02 00:00"]
    assert days("01/03/2024", "02/02/2024", dates="month-first")[0] == ["01-03 00:00", "02-02 00:00"]
    with pytest.raises(DataError, match="row 2: '13/01/2024' is not"):
        days("01/03/2024", "13/01/2024", dates="month-first")
    got, notes = days("01.03.2024", "02.02.2024")
    assert got == ["03-01 00:00", "02-02 00:00"]
    assert "day first; if that is wrong, state dates='month-first'" in notes[0]
    got, notes = days("1/3/2024 10:00 PM", "2/2/2024 9:05 AM")
    assert got == ["01-03 22:00", "02-02 09:05"]
    assert "month first" in notes[0]


def test_numbers_and_dates_of_other_types():
    assert times(pd.Series([1700000000000, 1700000000500]), "x")[0].tolist() == [1700000000, 1700000000.5]
    assert times(pd.Series([3, 1, None]), "x")[0][:2].tolist() == [3, 1]
    assert times(pd.Series([datetime.date(1970, 1, 2), None]), "x")[0][0] == 86400
    zoned = pd.Series(pd.to_datetime(["2024-01-01T00:00+02:00"]))
    assert times(zoned, "x")[0][0] == pd.Timestamp("2023-12-31T22:00").timestamp()
    assert times(pd.Series(["9999-12-31"]), "x")[0][0] == 253402214400
    assert durations(pd.Series(pd.to_timedelta([90, 30], unit="s")), "x")[0].tolist() == [90, 30]


def test_exports_are_not_refused():
    seconds, notes = since_1970(pd.Series(["soon", "13.04.2024", "03.04.2024", None, {"a": 1}]))
    assert np.isnan(seconds[[0, 3, 4]]).all()
    assert seconds[1] - seconds[2] == 10 * 86400
    assert notes == ["2 timestamps are left out: 'soon' is not a number or a date; correct it or leave it blank"]
    seconds, notes = since_1970(pd.Series(["13.04.2024", "04.13.2024"]))
    assert seconds.isna().all()
    assert "2 timestamps are left out: '13.04.2024' has the day first" in notes[0]


@pytest.mark.parametrize(
    ("values", "read", "note"),
    [
        ([20240403, 20240501], ["04-03 00:00", "05-01 00:00"], "numbers such as 20240403 are read as dates"),
        (["20240403103000", "20240501000000"], ["04-03 10:30", "05-01 00:00"], "are read as dates"),
        ([45385.4375, 45386.5], ["04-03 10:30", "04-04 12:00"], "are read as dates of a spreadsheet"),
    ],
)
def test_dates_written_as_numbers(values, read, note):
    got, notes = days(*values)
    assert got == read
    assert note in notes[0]


def test_numbers_that_are_no_dates_stay_seconds():
    for values in ([20241399, 20240403], [1, 2], [0.5, 45385.5], [100.5, 90_000.5]):
        assert times(pd.Series(values), "x")[0].tolist() == values
    seconds, notes = times(pd.Series([45385, 45386]), "x")
    assert seconds.tolist() == [45385, 45386]
    assert "dates of a spreadsheet are to be written as" in notes[0]
    for values in ([45385.5, 45386.25], [40100.5, 42000.123]):  # days and quarters of a day, or a stopwatch
        seconds, notes = times(pd.Series(values), "x")
        assert seconds.tolist() == values
        assert [note for note in notes if "are read as seconds; dates of a spreadsheet" in note] == list(notes)


def test_periods_are_read_as_their_start():
    months = pd.period_range("2024-04", periods=2, freq="M")
    for column in (pd.Series(months), pd.Series([*months], dtype=object)):
        seconds, _ = times(column, "x")
        assert pd.to_datetime(pd.Series(seconds), unit="s").dt.strftime("%Y-%m-%d").tolist() == [
            "2024-04-01",
            "2024-05-01",
        ]


@pytest.mark.parametrize("first", ["1970-01-01 00:00:00", "1899-12-30", "1900-01-01", "0001-01-01", "9999-12-31"])
def test_dates_that_programs_write_for_none_are_noted(first):
    assert "decades from all others" in " ".join(days(first, "2024-04-13", "2024-04-14")[1])
    assert not days("1970-01-01", "1970-01-02", "1971-05-05")[1]
    assert not days("2001-01-01", "2001-03-02")[1]


def test_dots_and_slashes_in_one_column():
    """3 April with dots; 13 April with the month first: one order for both would be a guess."""
    with pytest.raises(DataError, match=r"'04/13/2024' has the month first, and '03\.04\.2024' usually the day"):
        days("03.04.2024", "04/13/2024")
    assert days("03.04.2024", "04/13/2024", dates="month-first")[0] == ["03-04 00:00", "04-13 00:00"]
    assert days("03.04.2024", "13/04/2024")[0] == ["04-03 00:00", "04-13 00:00"]


def test_spaces_and_digits_of_unicode():
    assert days("4/3/2024 1:00\u202fPM", "4/13/2024 1:00\u00a0AM")[0] == ["04-03 13:00", "04-13 01:00"]
    assert days("\uff12\uff10\uff12\uff14-04-03")[0] == ["04-03 00:00"]


def test_names_of_months_are_whole_words():
    assert days("3 mars 2024", "13 Sept 2024", "14 Okt 2024")[0] == ["03-03 00:00", "09-13 00:00", "10-14 00:00"]
    for word in ("marraskuu", "Market", "Junk"):  # Finnish for November, and two other words
        with pytest.raises(DataError, match="is not a number or a date"):
            days(f"3 {word} 2024", "4 April 2024")


@pytest.mark.parametrize(
    ("name", "month"),
    [
        *(
            ("janeiro", 1),
            ("mar\u00e7o", 3),
            ("junho", 6),
            ("julho", 7),
            ("novembro", 11),
            ("janv.", 1),
            ("f\u00e9vr.", 2),
        ),
        *(("avr.", 4), ("juil.", 7), ("Maret", 3), ("Agustus", 8), ("martie", 3), ("noiembrie", 11), ("Septmber", 9)),
        *(
            ("M\u00e4rz", 3),
            ("mei", 5),
            ("mrt", 3),
            ("AO\u00dbT", 8),
            ("septiembre", 9),
            ("marraskuu", 0),
            ("marble", 0),
        ),
    ],
)
def test_months_of_other_languages(name, month):
    assert month_by_name(name.rstrip(".")) == month
    text = pd.Series([f"15 {name} 2020"])
    if month:
        assert times(text, "t")[0].tolist() == [pd.Timestamp(2020, month, 15).timestamp()]
    else:
        with pytest.raises(DataError, match="not a number or a date"):
            times(text, "t")


def test_dates_of_six_digits_are_not_read_as_seconds_in_silence():
    for dates in (["030424", "130424", "040424", "140524"], [240403, 240430, 240404]):
        read = read_times(pd.Series(dates), None)
        assert not read.faults
        assert f"numbers such as {dates[0]} are read as seconds; they may be dates" in read.notes[0]
    for numbers in ([30424, 130499, 40424], [30424, 40424], [310224, 320224, 10324]):
        read = read_times(pd.Series(numbers), None)
        assert not read.faults
        assert not read.notes
