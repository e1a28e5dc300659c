"""Places of groups of raters: sums against enumeration, groups that differ and groups that do not, and what is refused."""

from itertools import product

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from commands import run

from crowdppl import Annotations, criticism, plots
from crowdppl.criticism.perspectives import _beliefs, _quantiles
from crowdppl.errors import DataError, OptionError, silent

GROUPS = {f"r{j}": "ab"[j % 2] for j in range(10)}


def crowd(correlation, seed=0, items=150, each=6):
    """Return three grades of items by two groups of five raters whose places correlate, one more severe than the other."""
    rng = np.random.default_rng(seed)
    places = correlation**0.5 * rng.normal(size=(items, 1)) + (1 - correlation) ** 0.5 * rng.normal(size=(items, 2))
    rows = []
    for i in range(items):
        for j in rng.choice(10, each, replace=False).tolist():
            logit = 3 * places[i, j % 2] - np.array([-1.5, 1.5]) - j % 2
            rows.append((i, f"r{j}", int((rng.random() < 1 / (1 + np.exp(-logit))).sum())))
    return pd.DataFrame(rows, columns=["task", "worker", "label"])


def graded(frame):
    return Annotations.from_frame(frame, kind="ordinal", labels=[0, 1, 2])


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_sums_over_places_equal_enumeration(groups):
    rng = np.random.default_rng(groups)
    logs, nodes, r = rng.normal(size=(4, groups, 5)), np.linspace(-2, 2, 5), 0.0 if groups == 1 else 0.4
    belief, total = _beliefs(torch.from_numpy(logs), torch.from_numpy(nodes), r)
    common = np.exp(-(nodes**2) / 2)
    common /= common.sum()
    given = np.exp(-((nodes - r**0.5 * nodes[:, None]) ** 2) / (2 * (1 - r)))
    given /= given.sum(1, keepdims=True)
    expected = np.zeros((4, groups, 5))
    for i, f, own in product(range(4), range(5), product(range(5), repeat=groups)):
        p = common[f] * np.prod([given[f, s] * np.exp(logs[i, g, s]) for g, s in enumerate(own)])
        for g, s in enumerate(own):
            expected[i, g, s] += p
    likelihood = expected.sum(-1)
    assert np.allclose(total, np.log(likelihood[:, 0]), atol=1e-12)
    assert np.allclose(belief, expected / likelihood[..., None], atol=1e-12)


def test_groups_that_see_items_differently_and_groups_that_do_not():
    with silent():
        apart, alike = (criticism.perspectives(graded(crowd(r)), GROUPS, splits=2) for r in (0.2, 1.0))
    assert apart.differ
    assert not alike.differ
    assert abs(apart.correlation - 0.2) < 0.2
    assert alike.correlation > 0.85
    assert "see items differently: places of their own gain +" in str(apart)
    assert "No sign" in str(alike)
    scores = apart.scores.set_index("account")
    assert scores.index.tolist() == ["one truth", "one place", "places of groups"]
    assert np.allclose(scores["log_score"].diff()[1:], scores["gain"][1:])
    grades = apart.grades
    assert len(grades) == 2 * 150
    assert grades["annotations"].sum() == apart.groups["annotations"].sum() == 900
    assert np.allclose(grades[["p_0", "p_1", "p_2"]].sum(axis=1), 1)
    assert np.allclose(grades[["p_0", "p_1", "p_2"]] @ np.arange(3), grades["grade"])
    assert ((grades["low"] <= grades["grade"]) & (grades["grade"] <= grades["high"])).mean() > 0.95
    # The second group is more severe.
    mean = grades.groupby("group")["grade"].mean()
    assert mean["b"] < mean["a"] - 0.1


def test_the_same_annotations_and_seed_give_the_same_table():
    frame = crowd(0.5, items=40)
    with silent():
        both = [
            criticism.perspectives(graded(frame), group, splits=1, seed=3)
            for group in (GROUPS, pd.DataFrame({"worker": list(GROUPS), "team": list(GROUPS.values())}))
        ]
    pd.testing.assert_frame_equal(both[0].scores, both[1].scores)
    pd.testing.assert_frame_equal(both[0].grades, both[1].grades)


def test_whole_numbers_name_workers_however_they_are_stored():
    """A table with a missing value elsewhere has the names 1.0 and 2.0; rows of one worker may repeat the group."""
    frame = crowd(0.5, items=30).assign(worker=lambda f: f["worker"].str[1:].astype(int))
    group = pd.DataFrame({"worker": [*range(10), 3], "team": [*("ab" * 5), "b"]}).astype({"worker": float})
    with silent():
        result = criticism.perspectives(graded(frame), group, splits=1)
    assert set(zip(result.members["worker"] % 2, result.members["group"], strict=True)) == {(0, "a"), (1, "b")}


def test_groups_are_looked_for():
    """One group gives one of two labels for most items of the other: confusion matrices tell them apart."""
    frame = crowd(0.2, items=60)
    frame = frame.assign(label=np.where(frame["worker"].map(GROUPS) == "b", 2 - frame["label"], frame["label"]))
    with silent():
        result = criticism.perspectives(graded(frame), 2, splits=1)
    own = result.members["worker"].map(GROUPS)
    assert len(set(zip(own, result.members["group"], strict=True))) == 2


def test_one_group_where_raters_are_alike():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"task": np.repeat(np.arange(30), 8), "worker": np.tile([f"r{j}" for j in range(8)], 30)})
    frame["label"] = np.where(rng.random(240) < 0.1, 1, 0) ^ (frame["task"] % 2)
    with silent():
        result = criticism.perspectives(Annotations.from_frame(frame), 3, splits=1)
    assert not result.grades.isna().to_numpy().any()
    assert (result.groups["raters"] > 0).all()
    assert len(result.groups) > 1 or str(result).startswith("One group of raters")


def test_sums_do_not_underflow():
    """One group is surely at an end of the line, the other anywhere, and places are nearly the same."""
    nodes = torch.linspace(-4, 4, 25, dtype=torch.float64)
    logs = torch.stack([-250 * (4 - nodes), torch.zeros_like(nodes)]).unsqueeze(0)
    belief, total = _beliefs(logs, nodes, 0.97)
    assert torch.isfinite(belief).all()
    assert torch.isfinite(total).all()
    assert torch.allclose(belief.sum(-1), torch.ones(1, 2, dtype=torch.float64))


def test_quantiles_by_linear_interpolation():
    value = torch.arange(5.0, dtype=torch.float64)
    belief = torch.full((1, 5), 0.2, dtype=torch.float64)
    assert [round(float(_quantiles(belief, value, share)), 9) for share in (0.5, 0.3, 0.01, 0.99)] == [
        2.0,
        1.0,
        0.0,
        4.0,
    ]


@pytest.mark.parametrize(
    ("group", "error", "words"),
    [
        ({"r0": "a"}, DataError, r"none for worker 'r\d', 'r\d', 'r\d' and 6 more"),
        (dict.fromkeys(GROUPS, "a"), DataError, "1 groups, the smallest of 10 raters"),
        (GROUPS | {"r0": "c"}, DataError, "3 groups, the smallest of 1 raters"),
        (pd.Series(["a", "b"] * 6, index=[*GROUPS, "r0", "r0"]), DataError, "worker 'r0' has several groups"),
        (1, OptionError, "it must be from 2 to 5"),
        (6, OptionError, "it must be from 2 to 5"),
        (True, DataError, "a mapping from worker to group"),
        ("team", DataError, "a mapping from worker to group"),
        (pd.DataFrame({"worker": ["r0"], "a": [1], "b": [2]}), DataError, "the columns 'a', 'b'; give one"),
    ],
)
def test_groups_that_cannot_be_used(group, error, words):
    with silent(), pytest.raises(error, match=words) as caught:
        criticism.perspectives(graded(crowd(0.5, items=20)), group)
    assert "\n" not in str(caught.value)


def test_classes_without_an_order_are_refused():
    data = Annotations.from_frame(crowd(0.5, items=20).assign(label=lambda f: f["label"].map({0: "x", 1: "y", 2: "z"})))
    with pytest.raises(DataError, match="perspectives are of grades, or of two classes"):
        criticism.perspectives(data, GROUPS)


def written(tmp_path, correlation, items=60):
    """Write annotations with the group of each rater to a file."""
    frame = crowd(correlation, items=items)
    path = tmp_path / "grades.csv"
    frame.assign(team=frame["worker"].map(GROUPS)).to_csv(path, index=False)
    return path


def test_the_command_shows_gains_and_items_and_writes_a_table(tmp_path):
    path, out = written(tmp_path, 0.1), tmp_path / "views.csv"
    options = ("--kind", "ordinal", "--group", "team", "--splits", "2", "--out", out)
    said = run("perspectives", path, *options).output
    for words in ("one truth", "one place", "places of groups", "standard error", "see items differently"):
        assert words in said
    with silent():
        wanted = criticism.perspectives(graded(pd.read_csv(path)), GROUPS, splits=2)
    gain, se = wanted.scores[["gain", "se"]].iloc[2]
    assert f"{gain:+.4f}" in said
    assert f"{se:.4f}" in said
    table = pd.read_csv(out)
    assert table.columns.tolist() == wanted.grades.columns.tolist()
    assert np.allclose(table["grade"], wanted.grades["grade"], atol=1e-6)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--group", "city"), "no column 'city'"),
        (("--group", "1"), "it must be from 2"),
        (("--group", "team", "--out", "views.txt"), ".csv"),
        (("--group", "label"), "has several groups"),
    ],
)
def test_the_command_refuses_in_one_line(options, said, tmp_path):
    output = run("perspectives", written(tmp_path, 0.5, items=20), "--kind", "ordinal", *options, code=2).output
    assert said in output
    assert output.count("error: ") == 1


def test_the_plot_shows_items_that_groups_see_most_differently():
    with silent():
        result = criticism.perspectives(graded(crowd(0.2, items=60)), GROUPS, splits=1)
    ax = plots.perspectives(result, most=12)
    assert len(ax.get_yticks()) == 12
    shown = [text.get_text() for text in ax.get_yticklabels()]
    grades = result.grades.set_index("task").groupby("group")["grade"]
    places = pd.DataFrame({name: part for name, part in grades})
    apart = (places - places.mean()).diff(axis=1)["b"].abs().sort_values()
    assert set(shown) == {str(item) for item in apart.index[-12:]}
    assert f"{result.scores['gain'].iloc[2]:+.4f}" in ax.get_title()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b"]
    plt.close(ax.figure)
    with pytest.raises(OptionError, match=r"criticism\.perspectives"):
        plots.perspectives(result.grades)
