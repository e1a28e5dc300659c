"""Pictures: each is drawn without a warning, and shows the numbers of the tables."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from crowds import crowd_with_characters, fitted

from crowdppl import OptionError, acquisition, criticism, plots, workers

mpl.use("Agg")


@pytest.fixture(scope="module")
def crowd():
    frame, truth = crowd_with_characters(items=120, each=60)
    frame["worker"] = frame["worker"].replace(
        {"honest 3": "costs $5 and $6", "honest 4": "a name that goes on and on and on"}
    )
    return fitted(frame), truth


@pytest.fixture(autouse=True)
def closed():
    import matplotlib.pyplot as plt

    yield
    for number in plt.get_fignums():
        plt.figure(number).canvas.draw()  # what is wrong with a text shows when it is drawn
    plt.close("all")


def test_forest_shows_the_table(crowd):
    posterior, _ = crowd
    ax = plots.forest(posterior, level=0.8, most=5)
    table = posterior.workers(level=0.8, sort="accuracy").head(5).iloc[::-1]
    np.testing.assert_allclose(ax.collections[1].get_offsets()[:, 0], table["accuracy"])
    ends = np.array([segment[:, 0] for segment in ax.collections[0].get_segments()])
    np.testing.assert_allclose(ends, table[["accuracy_low", "accuracy_high"]])
    assert "80% intervals" in ax.get_xlabel()
    plots.forest(posterior, by="share_right")
    plots.forest(posterior, by="informativeness")


def test_experience_and_ranks(crowd):
    posterior, _ = crowd
    ax = plots.experience(posterior)
    assert len(ax.collections[1].get_offsets()) == 20
    ax = plots.ranks(posterior, most=20)
    table = workers.place(workers.rank(posterior.measure("accuracy")))
    assert sorted(ax.collections[1].get_offsets()[:, 0]) == sorted(table["rank"])


def test_confusions(crowd):
    posterior, _ = crowd
    axes = plots.confusion(posterior, ["adversary", "always"])
    mean = posterior.draws("confusion", worker=posterior.worker_index("adversary")).mean(0)
    np.testing.assert_allclose(axes[0].images[0].get_array(), mean)
    assert [ax.get_title() for ax in plots.confusion(posterior, "worst", most=1)] == ["adversary"]
    assert len(plots.confusion(posterior, "best")) == 4
    assert len(plots.confusion(posterior)) == 4
    (one,) = plots.confusion(posterior, "average")
    crowd_mean = np.einsum(
        "j,jkl->kl", posterior.judgements() / posterior.judgements().sum(), posterior.draws("confusion").mean(0)
    )
    np.testing.assert_allclose(one.images[0].get_array(), crowd_mean)
    with pytest.raises(OptionError, match="use 'best'"):
        plots.confusion(posterior, "middle")


def test_items(crowd):
    posterior, _ = crowd
    task = posterior.items()[3]
    ax = plots.item(posterior, task)
    heights = [bar.get_height() for bar in ax.patches[:3]]
    np.testing.assert_allclose(heights, posterior.probability()[3])
    with pytest.raises(OptionError, match="no item"):
        plots.item(posterior, "nothing")
    points = plots.simplex(posterior).collections[0].get_offsets()
    np.testing.assert_allclose(points[:, 1], posterior.probability()[:, 2] * np.sqrt(0.75))
    ax = plots.entropy(posterior)
    assert sum(bar.get_height() for bar in ax.patches) == len(posterior.items())
    left, right = plots.load(posterior)
    assert sum(bar.get_height() for bar in left.patches) == len(posterior.items())
    assert right.lines[0].get_ydata()[-1] == pytest.approx(1)


def test_a_triangle_needs_three_classes():
    frame, _ = crowd_with_characters(items=60, each=20, classes=2)
    with pytest.raises(OptionError, match="three corners"):
        plots.simplex(fitted(frame, num_samples=5))


def test_calibration_and_curves(crowd):
    posterior, truth = crowd
    found = criticism.calibration(posterior, truth)
    ax = plots.reliability(found)
    np.testing.assert_allclose(ax.collections[0].get_offsets(), found.bins[["confidence", "accuracy"]])
    ax = plots.redundancy(posterior, 8)
    np.testing.assert_allclose(ax.lines[1].get_ydata(), acquisition.redundancy(posterior, 8)["independent"])
    told = acquisition.curve(posterior, 100, steps=2, replicates=5)
    np.testing.assert_allclose(plots.curve(told).lines[0].get_ydata(), told.table["accuracy"])
    assert len(plots.predictive(criticism.check(posterior, draws=20)).axes) == 12


@pytest.mark.parametrize("method", ["em", "svi", "gibbs"])
def test_traces(method):
    frame, _ = crowd_with_characters(items=60, each=20)
    posterior = fitted(frame, method=method, num_samples=50)
    ax = plots.trace(posterior)
    assert ax.get_xlabel() == ("draw" if method == "gibbs" else "iteration")
    assert len(ax.lines) >= 1
    if method == "gibbs":
        plots.chains(posterior)


def test_what_models_know_of_workers(crowd):
    posterior, _ = crowd
    assert len(plots.workers_map(posterior).collections[0].get_offsets()) == 20
    frame, _ = crowd_with_characters(items=60, each=20)
    grouped = fitted(frame, model="worker-groups", method="gibbs", num_samples=30)
    assert len(plots.groups(grouped, most=10).get_yticks()) == 10
    rng = np.random.default_rng(0)
    features = pd.DataFrame(rng.normal(size=(60, 2)), index=[f"item {i}" for i in range(60)])
    conal = fitted(frame, features=features, model="conal", method="svi", max_iter=20)
    assert plots.noise(conal).get_xlim() == (0, 1)
    lia = fitted(frame, features=features, model="lia", method="svi", max_iter=20)
    assert "embedding" in plots.workers_map(lia).get_xlabel()
    for draw in (plots.groups, plots.noise):
        with pytest.raises(OptionError, match="fit model="):
            draw(posterior)
