"""What notebooks and consoles show of objects: short, escaped, and with numbers that can be read."""

import re

import numpy as np
import pandas as pd
import pytest
from crowds import crowd_with_characters, fitted

import crowdppl
from crowdppl import acquisition, criticism, report
from crowdppl.errors import silent

HOSTILE = "</td><script>alert(1)</script><img src=x onerror=alert(2)>"


@pytest.fixture(scope="module")
def objects():
    """One object of each kind, of a crowd whose names are markup; and probabilities of nearly 0."""
    frame, _ = crowd_with_characters(items=60, each=30)
    frame["worker"] = HOSTILE + frame["worker"]
    frame["task"] = HOSTILE + frame["task"]
    frame["label"] = HOSTILE + frame["label"].astype(str)
    posterior = fitted(frame, num_samples=60)
    with silent():
        data = crowdppl.Annotations.from_frame(frame)
        comparison = criticism.compare(data, ["majority-vote", "one-coin"], num_samples=60)
    return {
        "Posterior": posterior,
        "Annotations": data,
        "Comparison": comparison,
        "PredictiveCheck": criticism.check(posterior, draws=20),
        "Curve": acquisition.curve(posterior, 20, steps=3, replicates=5),
        "Actions": report.actions(posterior),
        "Changes": criticism.changes(posterior, posterior),
    }


@pytest.mark.parametrize(
    "kind", ["Posterior", "Annotations", "Comparison", "PredictiveCheck", "Curve", "Actions", "Changes"]
)
def test_views_are_escaped_short_and_readable(kind, objects):
    markup = objects[kind]._repr_html_()
    assert markup.startswith("<div><p><b>")
    assert "<script" not in markup
    assert "<img" not in markup
    assert len(markup) < 40_000
    assert not re.search(r"\de[-+]\d", markup)


@pytest.mark.parametrize("kind", ["Posterior", "Annotations", "Comparison", "PredictiveCheck", "Curve", "Actions"])
def test_representations_are_short(kind, objects):
    text = repr(objects[kind])
    assert text.startswith(kind)
    assert len(text) < 8_000
    assert not re.search(r"\de[-+]\d", text)


def test_many_classes_and_items_stay_short():
    rng = np.random.default_rng(0)
    rows = [(i, j, int(rng.integers(300))) for i in range(900) for j in range(3)]
    with silent():
        data = crowdppl.Annotations.from_frame(pd.DataFrame(rows, columns=["task", "worker", "label"]), kind="nominal")
        posterior = crowdppl.fit(data, "majority-vote", method="em", num_samples=4, max_iter=3, seed=0)
    for one in (data, posterior):
        assert len(one._repr_html_()) < 20_000
        assert "more rows" in one._repr_html_()


def test_an_alert_comes_first():
    frame = pd.DataFrame({"task": [1, 1, 2, 2], "worker": ["u", "v"] * 2, "label": ["a", "b", "a", "b"]})
    posterior = fitted(frame, num_samples=20)
    posterior._known.attrs["warnings"] = '["not converged: do not use the intervals <b>"]'
    markup = posterior._repr_html_()
    assert markup.index("not converged: do not use the intervals &lt;b&gt;") < markup.index("<table")
