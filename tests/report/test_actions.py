"""Texts and links of items in the report, and recommended actions in unusual cases."""

import numpy as np
import pandas as pd
import pytest
from catalog import quiet_fit
from crowds import FOUR_ITEMS as FRAME

import crowdppl
from crowdppl import CrowdpplError, report
from crowdppl.posterior.descriptions import descriptions


@pytest.fixture(scope="module")
def result():
    return quiet_fit(FRAME, method="em", num_samples=30)


def test_texts_that_no_file_holds_are_cleaned(result, tmp_path):
    described = report.describe(result, text={"a": "hello\0world", "b": "half \ud800 a letter"})
    texts, _ = descriptions(crowdppl.load(described.save(tmp_path / "p.nc")))
    assert texts[:2] == ["helloworld", "half \ufffd a letter"]
    report.write(described, tmp_path / "report.html")


def test_the_column_of_items_may_be_that_of_texts(result):
    columns = report.columns(FRAME, "task", text="task")
    assert columns["text"].to_dict() == {name: name for name in "abcd"}
    twice = pd.concat([FRAME, FRAME["label"]], axis=1)
    with pytest.raises(CrowdpplError, match="several columns are called 'label'"):
        report.columns(twice, "task", text="label")


def test_nothing_is_said_where_nothing_is_known():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"task": range(60), "worker": rng.integers(0, 5, 60), "label": rng.integers(0, 3, 60)})
    posterior = quiet_fit(frame, method="em", num_samples=100, independent=False)
    assert set(posterior.workers()["verdict"]) == {"unknown"}
    actions = report.actions(posterior)
    assert not actions.questions
    assert report.lines(actions, posterior)[0].startswith("Nothing can be said about the workers")
