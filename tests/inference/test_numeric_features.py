"""Numbers that depend on features of items, and numbers of new items: against dense matrices, simulation and real data."""

import numpy as np
import pandas as pd
import pytest
import torch
from number_crowds import crowd, numbers
from pyro import poutine
from scipy.stats import multivariate_normal

import crowdppl
from crowdppl import Annotations, CrowdpplError, DataError, ModelError, OptionError
from crowdppl.errors import silent
from crowdppl.inference.numeric.mean_field import Loop
from crowdppl.inference.numeric.regression import Truths, drawn, weights
from crowdppl.isolation import isolated
from crowdppl.kernels.linear_gaussian import log_marginal
from crowdppl.model.numeric import LinearGaussianLabels, StandardLabels
from crowdppl.models import LinearGaussian


def quiet(data, *args, **options):
    """A fit whose warnings do not matter."""
    with silent():
        return crowdppl.fit(data, *args, **options)


def explained(seed=0, items=150, noise=0.3, width=4, **options):
    """Annotations whose true numbers follow the first of some features up to ``noise``; true numbers and features."""
    frame, x, _ = crowd(seed, items=items, **options)
    features = np.random.default_rng(seed + 1).normal(size=(items, width))
    features[:, 0] = x + noise * features[:, 0]
    names = [f"f{d}" for d in range(width)]
    return frame, x, pd.DataFrame(features, columns=names)


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# ---------------------------------------------------------------------- the density


def test_weights_and_truths_are_those_of_a_dense_normal():
    """All labels, truths and weights are jointly normal: conditional moments by matrices, in float64."""
    frame, _, features = explained(items=12, workers=4, each=2, width=3)
    data = StandardLabels.of(Annotations.from_frame(frame, kind="numeric", features=features, items=range(13)[:12]))
    b, g, v = random(4, seed=1), 1 + 0.3 * random(4, seed=2), random(4, seed=3).exp()
    s, tau = 0.7, 0.4
    precision, linear = data.tables.by_item(*(part.unsqueeze(-1) for part in (b, g, 1 / v)))
    own = Truths.of(data.features, precision, linear, s, tau)
    F, A = data.features.numpy(), np.zeros((len(data.item), 12))
    A[np.arange(len(A)), data.item] = g[data.worker]
    prior = np.block([[s**2 * np.eye(12) + tau**2 * F @ F.T, tau**2 * F], [tau**2 * F.T, tau**2 * np.eye(3)]])
    A = np.hstack([A, np.zeros((len(A), 3))])
    whole = A @ prior @ A.T + np.diag(v[data.worker])
    gain = prior @ A.T @ np.linalg.inv(whole)
    mean, covariance = gain @ (data.value - b[data.worker]).numpy(), prior - gain @ A @ prior
    np.testing.assert_allclose(own.mean, mean[:12], atol=1e-10)
    np.testing.assert_allclose(own.variance, covariance.diagonal()[:12], atol=1e-10)
    np.testing.assert_allclose(own.weight, mean[12:], atol=1e-10)
    np.testing.assert_allclose(torch.cholesky_inverse(own.root), covariance[12:, 12:], atol=1e-10)
    less = np.hstack([np.eye(12), -F])  # truths less what is expected of them
    np.testing.assert_allclose(own.apart, less @ mean, atol=1e-10)
    np.testing.assert_allclose(own.apart_variance, (less @ covariance @ less.T).diagonal(), atol=1e-10)
    centred = np.eye(12) - 1 / 12
    relative = (centred @ covariance[:12, :12] @ centred.T).diagonal()
    np.testing.assert_allclose(own.relative_variance(data.features, s), relative, atol=1e-10)
    assert float(own.weight_square()) == pytest.approx(mean[12:] @ mean[12:] + covariance[12:, 12:].trace())
    # Draws have these moments.
    at, root = weights(data.features, precision, linear, torch.tensor([s]), torch.tensor([tau]))
    many = drawn(at, root.expand(20_000, -1, -1), random(3, 20_000))
    np.testing.assert_allclose(torch.cov(many), covariance[12:, 12:], atol=0.05 * covariance[12:, 12:].max())


def test_density_of_labels():
    frame, _, features = explained(items=8, workers=4, each=2)
    data = StandardLabels.of(Annotations.from_frame(frame, kind="numeric", features=features))
    b, g, v = random(4, 1, seed=1), 1 + 0.3 * random(4, 1, seed=2), random(4, 1, seed=3).exp()
    s, weight = torch.tensor([0.7], dtype=torch.float64), random(4, 1, seed=4)
    centre = data.features @ weight
    density = log_marginal(data.tables, data.per_item, b, g, v, s, centre)
    for i in range(8):
        at = data.item == i
        j = data.worker[at]
        mean = (b[j] + g[j] * centre[i]).squeeze(-1)
        covariance = np.diag(v[j, 0]) + float(s) ** 2 * np.outer(g[j, 0], g[j, 0])
        assert float(density[i]) == pytest.approx(multivariate_normal(mean, covariance).logpdf(data.value[at]))
    labels = LinearGaussianLabels(b[:, 0], g[:, 0], v[:, 0], s[0], data, centre[:, 0])
    torch.testing.assert_close(labels.log_prob(data.value), density.sum(), atol=1e-10, rtol=0)
    with isolated(seed=0):
        nodes = poutine.trace(LinearGaussian().program).get_trace(data).nodes
    assert nodes["weight"]["value"].shape == (4,)


# ---------------------------------------------------------------------- engines


def test_the_lower_bound_rises():
    frame, _, features = explained(items=60, workers=6, each=3)
    data = StandardLabels.of(Annotations.from_frame(frame, kind="numeric", features=features))
    with isolated(seed=0):
        loop = Loop(LinearGaussian(), data)
        bounds = [loop.step() and loop.bound() for _ in range(40)]
    assert min(np.diff(bounds)) > -1e-3  # by the grid of the degrees of freedom
    assert bounds[-1] > bounds[0]


def test_engines_agree_and_features_help():
    frame, x, features = explained(items=150, workers=8, each=2, noise=0.2)
    data = Annotations.from_frame(frame, kind="numeric", features=features)
    fits = {
        "em": quiet(data, method="em"),
        "gibbs": quiet(data, method="gibbs", chains=2, warmup=100, num_samples=200),
        "without": quiet(data.with_features(None), method="em"),
    }
    truths = {name: one.truth(relative=True) for name, one in fits.items()}
    error = {name: float((table["value"] - x).std()) for name, table in truths.items()}
    assert max(error["em"], error["gibbs"]) < 0.8 * error["without"]
    np.testing.assert_allclose(truths["em"]["value"], truths["gibbs"]["value"], atol=0.15)
    tables = [fits[name].features().set_index("feature") for name in ("em", "gibbs")]
    np.testing.assert_allclose(tables[0]["effect"], tables[1]["effect"], atol=0.12)
    assert tables[1].loc["f0", "low"] > 0.5
    assert tables[1].loc["f0", "probability"] > 0.99
    assert (tables[1].loc[["f1", "f2", "f3"], "effect"].abs() < 0.15).all()
    np.testing.assert_allclose(tables[1]["sd"], features.std(ddof=0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "draws"), [("svi", None), ("nuts", 60), pytest.param("nuts", 150, marks=pytest.mark.longest)]
)
def test_gradients_agree(method, draws):
    """Of NUTS to four errors of the means of 150 draws, or of 60."""
    frame, _, features = explained(items=60, workers=6, each=3, width=2)
    data = Annotations.from_frame(frame, kind="numeric", features=features)
    options = {"svi": {"max_iter": 2500}, "nuts": {"chains": 1, "warmup": 100, "num_samples": draws}}[method]
    one, other = quiet(data, method="gibbs", chains=2, num_samples=600), quiet(data, method=method, **options)
    tolerance = {150: 0.12, 60: 0.19, None: 0.2}[draws]
    np.testing.assert_allclose(one.truth(relative=True)["value"], other.truth(relative=True)["value"], atol=tolerance)
    np.testing.assert_allclose(one.features()["effect"], other.features()["effect"], atol=tolerance)


def test_units_of_features_do_not_matter():
    frame, _, features = explained(items=40, workers=5, each=3)
    one, other = (
        quiet(Annotations.from_frame(frame, kind="numeric", features=table), method="em", num_samples=50)
        for table in (features, (1000 + 1e-3 * features).assign(constant=7.0))
    )
    np.testing.assert_allclose(one.truth()["value"], other.truth()["value"], atol=0.02)
    assert abs(other.features()["effect"].iloc[-1]) < 0.1
    # Columns in another order, rows too.
    shuffled = features[features.columns[::-1]].sample(frac=1, random_state=0)
    third = quiet(Annotations.from_frame(frame, kind="numeric", features=shuffled), method="em", num_samples=50)
    np.testing.assert_allclose(one.truth()["value"], third.truth()["value"], atol=1e-4)


# ---------------------------------------------------------------------- new items


@pytest.mark.parametrize("width", [0, 2])
def test_predictions_are_those_of_dense_matrices(width):
    """Draw by draw: the density of an item's labels, and its truth given them, by matrices; then the weighted mixture."""
    frame, _, features = explained(items=40, workers=5, each=3, width=2)
    first = frame["item"] < 30
    given = {"features": features[:30]} if width else {}
    posterior = quiet(Annotations.from_frame(frame[first], kind="numeric", **given), method="em", num_samples=80)
    given = {"features": features} if width else {}
    new = Annotations.from_frame(frame[~first], kind="numeric", **given)
    table = crowdppl.predict(posterior, new, level=0.5)
    draw = {str(name): posterior.draws(str(name)) for name in posterior.tree["posterior"].data_vars}
    place = pd.Index(posterior.worker_names()).get_indexer(new.workers)
    scaled = ((features - features[:30].mean()) / features[:30].std(ddof=0)).to_numpy()
    for i, item in enumerate(new.items):
        at = new.item.numpy() == i
        j, y = place[new.worker.numpy()[at]], new.value.numpy()[at]
        density, mean, square = [], [], []
        for s in range(80):
            centre = scaled[item] @ draw["weight"][s] if width else 0.0
            g, v = draw["slope"][s, j], draw["sd"][s, j] ** 2
            expected = draw["mean"][s] + draw["bias"][s, j] + g * centre
            prior = draw["truth_sd"][s] ** 2
            whole = np.diag(v) + prior * np.outer(g, g)
            gain = prior * g @ np.linalg.inv(whole)
            density.append(multivariate_normal(expected, whole).logpdf(y))
            mean.append(draw["mean"][s] + centre + gain @ (y - expected))
            square.append(mean[-1] ** 2 + prior - gain @ g * prior)
        share = np.exp(np.array(density) - max(density))
        share /= share.sum()
        value = share @ mean
        assert table["value"][i] == pytest.approx(value, abs=1e-8)
        assert table["sd"][i] == pytest.approx(np.sqrt(share @ square - value**2), abs=1e-6)
    np.testing.assert_allclose(table["high"] - table["low"], 2 * 0.6744898 * table["sd"])


def test_predictions_from_features_alone():
    frame, x, features = explained(items=250, workers=8, each=3)
    data = Annotations.from_frame(frame[frame["item"] < 150], kind="numeric", features=features)
    posterior = quiet(data, method="gibbs", chains=2, warmup=100, num_samples=300)
    table = crowdppl.predict(posterior, features[150:][features.columns[::-1]])
    assert table["item"].tolist() == list(range(150, 250))
    rest = x[150:].to_numpy()
    assert np.sqrt(((table["value"] - rest) ** 2).mean()) < 0.5 * rest.std()
    assert 0.78 <= ((table["low"] <= rest) & (rest <= table["high"])).mean() <= 0.97
    assert table["annotations"].tolist() == [0] * 100
    np.testing.assert_allclose(crowdppl.predict(posterior, features[150:].to_numpy())["value"], table["value"])
    # Of annotations, too, features are taken by name.
    parts = [
        Annotations.from_frame(frame[frame["item"] >= 150], kind="numeric", features=features[names])
        for names in (features.columns, features.columns[::-1])
    ]
    pd.testing.assert_frame_equal(crowdppl.predict(posterior, parts[0]), crowdppl.predict(posterior, parts[1]))
    strange = parts[0].with_features(features.rename(columns={features.columns[0]: "other"}))
    with pytest.raises(DataError, match=f"no column '{features.columns[0]}'"):
        crowdppl.predict(posterior, strange)


@pytest.mark.slow
@pytest.mark.parametrize("known", [False, True])
def test_labels_of_new_items_say_what_a_fit_to_all_says(known):
    frame, x, _ = crowd(items=200, workers=6, each=4)
    first = frame["item"] < 150
    truth = {n: x[n] + 1 for n in range(50)} if known else None
    posterior, whole = (
        quiet(Annotations.from_frame(part, kind="numeric", truth=truth), method="gibbs", chains=2, num_samples=400)
        for part in (frame[first], frame)
    )
    table = crowdppl.predict(posterior, Annotations.from_frame(frame[~first], kind="numeric"))
    np.testing.assert_allclose(table["value"], whole.truth()["value"][150:], atol=0.1)
    assert abs(np.log(table["sd"] / whole.truth()["sd"][150:].to_numpy())).max() < 0.2
    # Of strangers labels say less, and what they say is the mean, shrunk.
    strange = frame[~first].assign(worker="new " + frame["worker"])
    other = crowdppl.predict(posterior, Annotations.from_frame(strange, kind="numeric"))
    assert (other["sd"] > table["sd"]).mean() > 0.75
    assert np.corrcoef(other["value"], other["mean_label"])[0, 1] > 0.95


def test_updates_and_files_with_features(tmp_path):
    frame, _, features = explained(items=40, workers=5, each=3, width=2)
    first = frame["item"] < 30
    data, more = (Annotations.from_frame(frame[at], kind="numeric", features=features) for at in (first, ~first))
    posterior = quiet(data, method="em", num_samples=50)
    again = crowdppl.load(posterior.save(tmp_path / "x.nc"))
    pd.testing.assert_frame_equal(again.features(), posterior.features())
    pd.testing.assert_frame_equal(crowdppl.predict(again, features[30:]), crowdppl.predict(posterior, features[30:]))
    with silent():
        later = crowdppl.update(again, more, data=data)
    whole = quiet(Annotations.from_frame(frame, kind="numeric", features=features), method="em", num_samples=50)
    np.testing.assert_allclose(later.truth()["value"], whole.truth()["value"], atol=1e-3)
    with pytest.raises(ModelError, match="pass data="):
        crowdppl.update(again, more)
    with pytest.raises(DataError, match="2 features of items in the earlier annotations, 0 in the further ones"):
        crowdppl.update(again, more.with_features(None), data=data)


@pytest.mark.slow
def test_models_are_compared_without_features_too():
    frame, _, features = explained(items=100, workers=6, each=2)
    data = Annotations.from_frame(frame, kind="numeric", features=features)
    error = crowdppl.compare(data).models.set_index("model")["error"]
    assert error["linear-gaussian"] < error["without features"]


def test_what_is_refused():
    frame, _, features = explained(items=20, workers=4, each=3, width=2)
    data = Annotations.from_frame(frame, kind="numeric", features=features)
    with_features = quiet(data, method="em", num_samples=10)
    without = quiet(data.with_features(None), method="em", num_samples=10)
    scaled = Annotations.from_frame(frame.assign(label=frame["label"].clip(2, 4)), kind="numeric", scale=(2, 4))
    bounded = quiet(scaled, chains=1, warmup=5, num_samples=10)
    known = Annotations.from_frame(frame, kind="numeric", truth={0: 1.0})
    classes = quiet(pd.DataFrame({"task": [0, 0], "worker": [0, 1], "label": ["a", "b"]}), "majority-vote")
    named = Annotations.from_frame(frame.assign(worker=1), kind="numeric")
    cases = (
        (lambda: crowdppl.predict(without, features), ModelError, "fitted without features of items"),
        (lambda: crowdppl.predict(with_features, features[["f0"]]), DataError, "no column 'f1'"),
        (lambda: crowdppl.predict(with_features, np.zeros((2, 3))), DataError, "3 features of items; the result was"),
        (lambda: crowdppl.predict(with_features, features[:0]), DataError, "nothing to predict for"),
        (lambda: crowdppl.predict(with_features, None), DataError, "nothing to predict for"),
        (lambda: crowdppl.predict(with_features, data.with_features(None)), DataError, "0 features of items"),
        (lambda: crowdppl.predict(without, known), OptionError, "known true numbers"),
        (lambda: crowdppl.predict(without, named), DataError, "workers are integers"),
        (lambda: crowdppl.predict(bounded, scaled), ModelError, "at an end of the scale"),
        (lambda: crowdppl.predict(without, data, model=crowdppl.models.DawidSkene()), OptionError, "leave model= out"),
        (lambda: crowdppl.predict(classes, data, level=0.5), OptionError, "level= is that of intervals of numbers"),
        (lambda: crowdppl.predict(classes, data.with_features(None)), CrowdpplError, "numbers|Numeric"),
        (lambda: without.features(), DataError, "fitted without features"),
        (lambda: data.with_features(features[:5]), DataError, "no row for 15 tasks"),
        (lambda: crowdppl.update(classes, frame, data=data), DataError, "those of the result are classes"),
        (lambda: crowdppl.stream("x.parquet", "linear-gaussian"), ModelError, "which crowdppl.stream does not fit"),
        (lambda: crowdppl.distribute("x.parquet", LinearGaussian()), ModelError, "which crowdppl.distribute does not"),
        (lambda: crowdppl.fit(numbers(items=20).with_features(np.ones((20, 501)))), ModelError, "principal components"),
    )
    for call, error, words in cases:
        with pytest.raises(error, match=words) as caught:
            call()
        assert "\n" not in str(caught.value)
