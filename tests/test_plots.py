"""Plots: each is drawn without a warning, is legible, and shows the numbers of the tables."""

import importlib
import inspect
import itertools

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from crowds import crowd_with_characters, fitted

from crowdppl import OptionError, Posterior, acquisition, criticism, plots
from crowdppl import judges as judging
from crowdppl.posterior import workers

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
        plt.figure(number).canvas.draw()  # errors in texts appear only when they are drawn
    plt.close("all")


def test_forest_shows_the_table(crowd):
    posterior, _ = crowd
    ax = plots.forest(posterior, level=0.8, most=5)
    table = posterior.workers(level=0.8, sort="accuracy").head(5).iloc[::-1]
    np.testing.assert_allclose(ax.collections[1].get_offsets()[:, 0], table["accuracy"])
    ends = np.array([segment[:, 0] for segment in ax.collections[0].get_segments()])
    np.testing.assert_allclose(ends, table[["accuracy_low", "accuracy_high"]])
    assert "80% intervals" in ax.get_xlabel()
    plots.forest(posterior, by="share_correct")
    plots.forest(posterior, by="informativeness")


def test_experience_and_ranks(crowd):
    posterior, _ = crowd
    ax = plots.experience(posterior)
    assert len(ax.collections[1].get_offsets()) == 20
    ax = plots.ranks(posterior, most=20)
    table = workers.summarise_ranks(workers.rank(posterior.measure("accuracy")))
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
        "j,jkl->kl",
        posterior.annotations_per_worker() / posterior.annotations_per_worker().sum(),
        posterior.draws("confusion").mean(0),
    )
    np.testing.assert_allclose(one.images[0].get_array(), crowd_mean)
    with pytest.raises(OptionError, match="use 'best'"):
        plots.confusion(posterior, "middle")


def test_items(crowd):
    posterior, _ = crowd
    task = posterior.items()[3]
    ax = plots.item(posterior, task)
    widths = [bar.get_width() for bar in ax.patches[:3]]
    np.testing.assert_allclose(widths, posterior.probability()[3])
    with pytest.raises(OptionError, match=r"no item 'item 1000' in this result \(did you mean"):
        plots.item(posterior, "item 1000")
    points = plots.simplex(posterior).collections[0].get_offsets()
    np.testing.assert_allclose(points[:, 1], posterior.probability()[:, 2] * np.sqrt(0.75))
    ax = plots.entropy(posterior)
    assert sum(bar.get_height() for bar in ax.patches) == len(posterior.items())
    left, right = plots.load(posterior)
    assert sum(bar.get_height() for bar in left.patches) == len(posterior.items())
    assert right.lines[0].get_ydata()[[0, -1]] == pytest.approx([0, 1])


def test_a_triangle_needs_three_classes():
    frame, _ = crowd_with_characters(items=60, each=20, classes=2)
    with pytest.raises(OptionError, match="three corners"):
        plots.simplex(fitted(frame, num_samples=5))


def test_calibration_and_curves(crowd):
    posterior, truth = crowd
    calibration = criticism.calibration(posterior, truth)
    ax = plots.reliability(calibration)
    np.testing.assert_allclose(ax.collections[0].get_offsets(), calibration.bins[["confidence", "accuracy"]])
    ax = plots.redundancy(posterior, 8)
    np.testing.assert_allclose(ax.lines[1].get_ydata(), acquisition.redundancy(posterior, 8)["independent"])
    curve = acquisition.curve(posterior, 100, steps=2, replicates=5)
    np.testing.assert_allclose(plots.curve(curve).lines[0].get_ydata(), curve.table["accuracy"])
    assert len(plots.predictive(criticism.check(posterior, draws=20)).axes) == 12


@pytest.mark.parametrize("method", ["em", pytest.param("svi", marks=pytest.mark.slow), "gibbs"])
def test_traces(method):
    frame, _ = crowd_with_characters(items=60, each=20)
    options = {"max_iter": 60} if method == "svi" else {}
    posterior = fitted(frame, method=method, num_samples=50, **options)
    ax = plots.trace(posterior)
    assert ax.get_xlabel() == ("draw" if method == "gibbs" else "iteration")
    assert len(ax.lines) >= 1
    if method != "gibbs":
        with pytest.raises(OptionError, match="one chain, and ranks compare chains; fit with method='gibbs'"):
            plots.chains(posterior)
        return
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [f"chain {n}" for n in (1, 2, 3, 4)]
    figure = plots.chains(posterior)
    shares = posterior.variable("prevalence", published=True).mean(("chain", "draw")).to_series()
    frequent = shares.sort_values(ascending=False, kind="stable").index[:2]
    expected = ["log posterior", *(f"prevalence of {k}" for k in frequent)]
    assert [ax.get_title() for ax in figure.axes][:3] == expected
    assert len(plots.chains(posterior, most=2).axes) == 2
    # The line of a chain at rank u is the share of its draws below u, minus u. The lines average to zero.
    lines = np.array([line.get_ydata() for line in figure.axes[0].lines])
    lp = posterior.tree["sample_stats"]["lp"].values
    half = lines.shape[1] // 2
    share = (lp[0] < np.median(lp)).mean() - 0.5
    assert lines[0, half] == pytest.approx(share, abs=0.02)
    np.testing.assert_allclose(lines.mean(0), 0, atol=0.01)


def test_chains_that_disagree_leave_the_band():
    frame, _ = crowd_with_characters(items=60, each=20)
    posterior = fitted(frame, method="gibbs", num_samples=100)
    apart = posterior.tree.copy(deep=True)
    apart["sample_stats"]["lp"].values[0] += 1000
    inside, outside = (
        np.abs(plots.chains(Posterior(tree)).axes[0].lines[0].get_ydata()).max() for tree in (posterior.tree, apart)
    )
    assert outside == pytest.approx(0.75, abs=0.01)  # the first of four chains is above all others
    assert inside < 0.3


# Modules whose functions a package exports.
REEXPORTED = {"posterior.workers": ["crowdppl.posterior.measures"]}
PUBLIC = (
    "acquisition",
    "criticism",
    "criticism.sbc",
    "data.datasets",
    "data.synthetic",
    "export",
    "plots",
    "posterior.workers",
    "posterior.workers.groups",
    "report",
)


@pytest.mark.parametrize("name", PUBLIC)
def test_modules_export_only_their_own_names(name):
    """dir() and the completion of editors list the public names of a module: neither imports nor helpers."""
    module = importlib.import_module(f"crowdppl.{name}")
    assert dir(module) == sorted(module.__all__)
    public = {key: getattr(module, key) for key in module.__all__}  # some are imported when they are first used
    own = {
        key
        for key, value in vars(module).items()
        if key[0] != "_"
        and str(getattr(value, "__module__", "")).startswith((module.__name__, *REEXPORTED.get(name, ())))
        and not inspect.ismodule(value)
    }
    assert own - {"Array", "By"} == {key for key, value in public.items() if callable(value)}


@pytest.mark.parametrize("name", plots.__all__)
def test_objects_of_another_kind_are_refused(name, crowd):
    posterior, _ = crowd
    draw = getattr(plots, name)
    more = ("item 3",) if name == "item" else ()
    others = [None, pd.DataFrame(), "posterior.nc", posterior.tree]
    if name in ("predictive", "reliability", "curve"):
        others.append(posterior)
    for other in others:
        with pytest.raises(OptionError, match=rf"^plots\.{name} draws a .*, not a .*: plots\.{name}\(.*\)$"):
            draw(other, *more)


@pytest.fixture(scope="module")
def judged():
    """A panel, and one of many judges with long names on systems of which one has no human label."""
    verdicts, truth = judging.simulate(items=40, seed=1)
    human = truth[~truth["item"].str.endswith("s3")].sample(30, random_state=1)
    rng = np.random.default_rng(0)
    right = {f"i{i}": int(rng.random() < 0.6) for i in range(60)}
    rows = [
        (
            i,
            f"maker {j % 12}/a model with a long name and ${j}$",
            int(rng.random() < 0.8) ^ 1 ^ k,
            f"system {int(i[1:]) % 9}",
        )
        for i, k in right.items()
        for j in range(45)
    ]
    many = pd.DataFrame(rows, columns=["item", "judge", "verdict", "system"])
    return judging.fit(verdicts, human, num_samples=100), judging.fit(
        many, dict(list(right.items())[:8]), num_samples=50
    )


def test_judges_systems_and_panel(judged):
    result, _ = judged
    ax = plots.systems(result)
    table = result.systems().iloc[::-1]
    np.testing.assert_allclose(ax.collections[1].get_offsets()[:, 0], table["corrected"])
    np.testing.assert_allclose(ax.collections[2].get_offsets()[:, 0], table["uncorrected"])
    ends = np.array([segment[:, 0] for segment in ax.collections[0].get_segments()])
    np.testing.assert_allclose(ends, table[["corrected_low", "corrected_high"]])
    assert "grey: no human labels" in ax.get_xlabel()
    ax = plots.judges(result, most=4)
    table = result.judges().head(4).iloc[::-1]
    for n, name in enumerate(("accuracy", "sensitivity", "specificity")):
        np.testing.assert_allclose(ax.collections[2 * n + 1].get_offsets()[:, 0], table[name])
    assert "judge, 4 of 6" in ax.get_ylabel()
    ax = plots.panel(result)
    names = [label.get_text() for label in ax.get_yticklabels()]
    cells = result.panel().correlation.loc[names, names].to_numpy(copy=True)
    np.fill_diagonal(cells, np.nan)
    np.testing.assert_allclose(ax.images[0].get_array().filled(np.nan), cells)
    np.testing.assert_array_equal(plots.panel(result.panel()).images[0].get_array().mask, np.isnan(cells))


def test_texts_of_panels_are_legible(judged):
    wrong = [
        f"{draw.__name__}: {words}"
        for result in judged
        for draw in (plots.systems, plots.judges, plots.panel)
        for words in illegible(draw(result).figure)
    ]
    assert not wrong, "\n".join(wrong)


# Names that would overlap without care, and various numbers of workers and classes.
LONG = [
    "a very long class name that goes on and on",
    "Complaint about $billing$ and payments",
    "Übergrößenträger <b>",
    "neither of the two\nnamed",
    "spam",
    "other, please specify",
    "technical question about devices",
    "x",
]
DESIGNS = {
    "two classes": (60, 8, ["no", "yes"], "w{}"),
    "eight classes, long names": (160, 40, LONG, "annotator-{:03d}@some.long.company-domain.example.org"),
    "thirty classes": (300, 6, [f"class number {k}" for k in range(30)], "{}"),
    "three hundred workers": (400, 300, [0, 1, 2], "worker {}"),
    "equal numbers of annotations": (50, 4, ["level 0.5", "level 1.5", "level 10.25"], "{}"),
}


@pytest.fixture(scope="module")
def designs():
    results = {}

    def get(name):
        if name not in results:
            items, workers, labels, called = DESIGNS[name]
            rng = np.random.default_rng(1)
            truth, skill = rng.integers(0, len(labels), items), rng.beta(5, 2, workers)
            busy = np.ones(workers) if name.startswith("equal") else rng.uniform(0.02, 1, workers) ** 3
            rows = [
                (
                    f"item {i}",
                    called.format(j),
                    labels[truth[i] if rng.random() < skill[j] else rng.integers(len(labels))],
                )
                for i in range(items)
                for j in rng.choice(workers, 4, replace=False, p=busy / busy.sum())
            ]
            frame = pd.DataFrame(rows, columns=["task", "worker", "label"])
            known = pd.Series([labels[k] for k in truth], index=[f"item {i}" for i in range(items)])
            method = "gibbs" if len(labels) < 4 else "em"
            results[name] = fitted(frame.astype({"label": str}), method=method, num_samples=40), known.astype(str)
        return results[name]

    return get


def illegible(figure):
    """Return texts outside the figure, and neighbouring tick labels that overlap."""
    figure.canvas.draw()
    wrong = []
    for ax in figure.axes:
        texts = [ax.title, ax._left_title, ax.xaxis.label, ax.yaxis.label, *ax.texts]
        # Bounding boxes of rotated labels overlap although the labels do not.
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = [
                tick.label1
                for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks())
                if tick.label1.get_text() and low - 1e-9 <= tick.get_loc() <= high + 1e-9
            ]
            ticks = [tick for tick in ticks if tick.get_visible()] if ax.axison else []
            texts += ticks
            boxes = [tick.get_window_extent() for tick in ticks if tick.get_rotation() == 0]
            wrong += [
                f"tick labels {a.get_text()!r} and {b.get_text()!r} touch"
                for (a, one), (b, other) in itertools.combinations(zip(ticks, boxes, strict=False), 2)
                if one.overlaps(other)
            ]
        for text in texts:
            box = text.get_window_extent()
            if text.get_text() and not (
                box.x0 >= -1 and box.y0 >= -1 and box.x1 <= figure.bbox.x1 + 1 and box.y1 <= figure.bbox.y1 + 1
            ):
                wrong.append(f"{text.get_text()!r} is cut off")
    for text in (figure._supxlabel, figure._supylabel):
        box = None if text is None else text.get_window_extent()
        if box is not None and (box.height > figure.bbox.height or box.width > figure.bbox.width):
            wrong.append(f"{text.get_text()!r} is cut off")
        if text is not None and "\n" in text.get_text():
            wrong.append("a footnote of several lines")
    return wrong


@pytest.mark.slow
@pytest.mark.parametrize("name", DESIGNS)
def test_texts_are_legible(name, designs):
    """Tick labels do not overlap and no text is cut off, whatever the numbers and names are."""
    posterior, truth = designs(name)
    drawn = {
        "confusion": plots.confusion(posterior)[0],
        "confusion of the crowd": plots.confusion(posterior, "average")[0],
        "item": plots.item(posterior, "item 3"),
        "load": plots.load(posterior)[0],
        "reliability": plots.reliability(criticism.calibration(posterior, truth)),
        "curve": plots.curve(acquisition.curve(posterior, 50, steps=2, replicates=4)),
        "predictive": plots.predictive(criticism.check(posterior, draws=20)).axes[0],
    }
    for draw in ("entropy", "experience", "forest", "ranks", "redundancy", "trace", "workers_map"):
        drawn[draw] = getattr(plots, draw)(posterior)
    if len(posterior.labels) == 3:
        drawn["simplex"] = plots.simplex(posterior)
    if posterior.info["method"] == "gibbs":
        drawn["chains"] = plots.chains(posterior).axes[0]
    wrong = [f"{plot}: {words}" for plot, ax in drawn.items() for words in illegible(ax.figure)]
    assert not wrong, "\n".join(wrong)


def test_plots_of_embeddings_groups_and_noise(crowd):
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
