"""Smaller panels of judges: what each costs, and how wide the intervals are."""

import numpy as np
import pytest

from crowdppl import DataError, judges
from crowdppl.judges import Verdicts


@pytest.fixture(scope="module")
def panel():
    frame, truth = judges.simulate(items=80, seed=2)
    frame["cost"] = frame["judge"].map({"a-1": 4.0, "a-2": 1.0, "a-3": 1.0, "b-1": 1.0, "b-2": 1.0, "c-1": 1.0})
    return frame, truth.sample(60, random_state=0)


def test_panels_are_fits_of_their_judges(panel):
    """Each row has the widths of a fit of these judges alone, up to Monte Carlo error, and their cost."""
    frame, human = panel
    result = judges.fit(frame, human, seed=0)
    table = judges.smaller_panels(result, 0.01)
    assert table["judges"].tolist() == [6, 5, 4, 3, 2, 1]
    assert not table["enough"].any()
    assert not table["cheapest"].any()
    for _, row in table.iloc[[0, 3]].iterrows():
        own = frame[frame["judge"].isin(row["panel"])]
        alone = judges.fit(own, human, seed=1).systems()
        width = alone["corrected_high"] - alone["corrected_low"]
        assert row["mean_width"] == pytest.approx(width.mean(), abs=0.025)
        assert row["cost"] == pytest.approx(own["cost"].sum())
    for before, after in zip(table["panel"], table["panel"][1:], strict=False):
        assert set(after) < set(before)


def test_the_cheapest_panel_that_suffices(panel):
    frame, human = panel
    result = judges.fit(frame, human, seed=0)
    first = judges.smaller_panels(result, 0.01)
    table = judges.smaller_panels(result, float(first["width"].max()))
    assert table["enough"].all()
    assert table.loc[table["cheapest"], "cost"].item() == table["cost"].min()
    assert first["left_out"][1] == "a-1"  # four times as expensive, and no better


def test_without_costs_a_verdict_costs_one(panel):
    frame, human = panel
    result = judges.fit(frame.drop(columns="cost"), human, seed=0)
    assert judges.smaller_panels(result, 1.0)["cost"].iloc[0] == len(frame)
    gaps = frame.assign(cost=np.where(frame["judge"] == "b-1", np.nan, frame["cost"]))
    partial = judges.smaller_panels(judges.fit(gaps, human, seed=0), 1.0)
    mean = frame.loc[frame["judge"] != "b-1", "cost"].mean()
    missing = (frame["judge"] == "b-1").sum()
    assert partial["cost"].iloc[0] == pytest.approx(gaps["cost"].sum() + mean * missing)


def test_verdicts_of_some_judges():
    frame, _ = judges.simulate(items=5, seed=0)
    whole = Verdicts.from_frame(frame)
    part = whole.only(["b-1", "c-1"])
    with pytest.raises(DataError, match="judges: 'c-2' not among the 6 judges"):
        whole.only(["c-2"])
    assert part.judges.tolist() == ["b-1", "c-1"]
    assert part.families[part.family].tolist() == ["b", "c"]
    assert part.items.tolist() == whole.items.tolist()
    again = Verdicts.from_frame(frame[frame["judge"].isin(["b-1", "c-1"])])
    assert sorted(zip(part.item, part.judge, part.label, strict=True)) == sorted(
        zip(again.item, again.judge, again.label, strict=True)
    )
