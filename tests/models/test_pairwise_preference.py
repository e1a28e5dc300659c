"""Pairwise preference: tables against plain Python, Davidson's and Bradley and Terry's models, and recovery from simulation."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from catalog import quiet_fit, tiny
from scipy.optimize import minimize

import crowdppl
from crowdppl.isolation import isolated
from crowdppl.model.bound import bind
from crowdppl.model.contract import check
from crowdppl.models import PairwisePreference

SYSTEMS, JUDGES = 4, 6


def contrasts(pairs, systems=SYSTEMS):
    """Features of pairs (first, second): a half for the first system, minus a half for the second."""
    x = np.zeros((len(pairs), systems))
    for i, (a, b) in enumerate(pairs):
        x[i, a] += 0.5
        x[i, b] -= 0.5
    return x


def orders(judges=JUDGES):
    """Features of workers: the order, and the judge one-hot. Worker 2 c + 1 is judge c in the reversed order."""
    judge = np.arange(2 * judges) // 2
    return np.column_stack([np.tile([1.0, -1.0], judges), np.eye(judges)[judge]])


def panel(seed, items, classes=2, parameters=None, features=True, worker_features="both"):
    """Verdicts of all judges on all pairs, in both orders."""
    rng = np.random.default_rng(seed)
    pairs = np.array([rng.choice(SYSTEMS, 2, replace=False) for _ in range(items)])
    workers = 2 * JUDGES
    known = {"both": orders(), "order": orders()[:, :1], "unknown": orders() * ([0] + [1] * JUDGES), "none": None}
    return crowdppl.simulate(
        PairwisePreference(),
        np.repeat(np.arange(items), workers),
        np.tile(np.arange(workers), items),
        classes=classes,
        seed=seed,
        parameters=parameters,
        features=contrasts(pairs) if features else None,
        worker_features=known[worker_features],
    )


# ---------------------------------------------------------------------- the story


def by_hand(p, data, judge_of, order_of):
    """Log prior of the truths and log-likelihood of the labels, ``(N, K)`` each, with plain numbers one by one."""
    N, K = data.N, data.K
    truth, labels = np.zeros((N, K)), np.zeros((N, K))
    for i in range(N):
        d = 0.0
        if data.features is not None:
            d = sum(float(x) * float(s) for x, s in zip(data.features[i], p["strength"], strict=True))
        shares = [math.exp(d), math.exp(-d)] + ([math.exp(float(p["log_ties"]))] if K == 3 else [])
        truth[i] = np.log(shares) - math.log(sum(shares))
    for i, j, label in zip(data.item.tolist(), data.worker.tolist(), data.label.tolist(), strict=True):
        c, o = judge_of[j], order_of[j]
        for k in range(K):
            score = [0.0] * K
            score[k] += float(p["skill"][c])
            if K == 3:
                score[2] += float(p["tie_tendency"][c])
            if "position" in p:
                score[0] += float(p["position"][c]) * o / 2
                score[1] -= float(p["position"][c]) * o / 2
            labels[i, k] += score[label] - math.log(sum(math.exp(v) for v in score))
    return truth, labels


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("features", [True, False])
@pytest.mark.parametrize("worker_features", ["both", "order", "unknown", "none"])
def test_likelihood_is_that_of_the_story(classes, features, worker_features):
    data, _, _ = panel(1, 5, classes, features=features, worker_features=worker_features)
    with isolated(0, dtype=torch.float64), torch.no_grad():
        model = bind(PairwisePreference(), data)
        sites = {name: node["value"] for name, node in check(model, data).items()}
        parameters, log_prior = model.conditioned(sites, data)
        actual = model.log_likelihoods(parameters, data).numpy()
        joint = model.item_log_joint(parameters, data).numpy()
        each = model.emission(parameters, data).log_prob(data.label.unsqueeze(-1)).numpy()
    own = worker_features in ("order", "none")
    judge_of = range(data.J) if own else [j // 2 for j in range(data.J)]
    order_of = {"none": [0] * data.J, "unknown": [0] * data.J}.get(worker_features, orders()[:, 0])
    truth, labels = by_hand(sites, data, judge_of, order_of)
    np.testing.assert_allclose(actual, labels, rtol=1e-11)
    np.testing.assert_allclose(joint, truth + labels, rtol=1e-11)
    of_rows = np.zeros((data.N, classes))
    np.add.at(of_rows, data.item.numpy(), each)
    np.testing.assert_allclose(of_rows, labels, rtol=1e-11)
    wanted = (
        {"skill"} | ({"strength"} if features else set()) | ({"log_ties", "tie_tendency"} if classes == 3 else set())
    )
    assert set(sites) == wanted | (set() if worker_features == "none" else {"position"})
    assert sites["skill"].shape == (data.J if own else JUDGES,)
    prior = {"strength": (0, 1), "log_ties": (math.log(0.37), 1), "skill": (1.5, 0.7)}
    density = 0.0
    for name, value in sites.items():
        mean, scale = prior.get(name, (0, 0.7))
        density += float((-(((value - mean) / scale) ** 2) / 2 - math.log(scale * math.sqrt(2 * math.pi))).sum())
    assert float(log_prior) == pytest.approx(density, rel=1e-11)


def test_other_numbers_of_classes_are_refused():
    for run in (
        lambda: crowdppl.simulate(PairwisePreference(), [0, 0, 1], [0, 1, 0], classes=4, seed=0),
        lambda: crowdppl.fit(tiny(classes=4), PairwisePreference(), method="em"),
    ):
        with pytest.raises(crowdppl.DataError, match=r"^PairwisePreference: the data have 4 classes; [^\n]*$"):
            run()


def test_ties_are_those_of_davidson():
    """In worths: p(first) = w_a / (w_a + w_b + v sqrt(w_a w_b)), p(tie) = v sqrt(w_a w_b) / (the same)."""
    strength, v = np.array([1.1, -0.4, 0.3, 0.0]), 0.6
    pairs = [(a, b) for a in range(SYSTEMS) for b in range(SYSTEMS) if a != b]
    for classes in (2, 3):
        data, _, drawn = crowdppl.simulate(
            PairwisePreference(),
            np.arange(len(pairs)),
            np.zeros(len(pairs), dtype=int),
            classes=classes,
            seed=0,
            features=contrasts(pairs),
            parameters={"strength": strength} | ({"log_ties": math.log(v)} if classes == 3 else {}),
        )
        values = {name: torch.as_tensor(value) for name, value in drawn.items()}
        p = PairwisePreference().truth(values, data).probs.numpy()
        reported = PairwisePreference().derived(values, data)
        w = np.exp(strength)
        for (a, b), row in zip(pairs, p, strict=True):
            geometric = v * math.sqrt(w[a] * w[b]) if classes == 3 else 0.0
            total = w[a] + w[b] + geometric
            np.testing.assert_allclose(row, np.array([w[a], w[b], geometric][:classes]) / total, rtol=1e-12)
            better = (w[a] + geometric / 2) / total
            assert float(reported["probability_better"][a, b]) == pytest.approx(better, rel=1e-12)
        np.testing.assert_allclose(reported["probability_better"].diagonal(), 0.5)
        assert float(reported["centred_strength"].sum()) == pytest.approx(0, abs=1e-12)
        assert ("tie_probability" in reported) == (classes == 3)
    assert float(reported["tie_probability"]) == pytest.approx(v / (2 + v))


@pytest.mark.parametrize("classes", [2, 3])
def test_known_truths_give_the_penalised_estimate_of_davidson(classes):
    """With all truths known the mode of the strengths is that of a separate program in worths, with the same normal prior."""
    data, truth, _ = panel(3, 150, classes, parameters={"strength": [1.0, 0.3, -0.3, -1.0]}, worker_features="none")
    known = dict(zip(data.items.tolist(), data.labels[truth].tolist(), strict=True))
    columns = (data.items[data.item], data.workers[data.worker], data.labels[data.label])
    data = crowdppl.Annotations.from_arrays(
        *columns, labels=range(classes), truth=known, features=data.features.numpy()
    )
    first, second = data.features.numpy().argmax(1), data.features.numpy().argmin(1)

    def minus_log_posterior(theta):
        w, v = np.exp(theta[:SYSTEMS]), math.exp(theta[-1]) if classes == 3 else 0.0
        geometric = v * np.sqrt(w[first] * w[second])
        parts = np.stack([w[first], w[second], geometric])
        chosen = np.log(parts[truth, np.arange(len(truth))]) - np.log(parts.sum(0))
        prior = (theta[:SYSTEMS] ** 2).sum() / 2
        return prior + ((theta[-1] - math.log(0.37)) ** 2 / 2 if classes == 3 else 0.0) - chosen.sum()

    wanted = minimize(minus_log_posterior, np.zeros(SYSTEMS + (classes == 3)), method="BFGS", options={"gtol": 1e-7}).x
    point = quiet_fit(data, PairwisePreference(), method="em", tol=1e-12, num_samples=2).tree["point"]
    np.testing.assert_allclose(point["strength"].values, wanted[:SYSTEMS], atol=1e-3)
    if classes == 3:
        assert float(point["log_ties"]) == pytest.approx(wanted[-1], abs=1e-3)


def test_position_effect_is_the_change_of_a_preference():
    """Reported on the scale of probabilities: p(first | shown first) - p(first | shown second), over both true labels."""
    data, _, drawn = panel(2, 4)
    a, b = drawn["skill"], drawn["position"]
    actual = PairwisePreference().derived({name: torch.as_tensor(v) for name, v in drawn.items()}, data)
    sigmoid = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
    wanted = (sigmoid(a + b) - sigmoid(a - b) + sigmoid(-a + b) - sigmoid(-a - b)) / 2
    np.testing.assert_allclose(actual["position_effect"], wanted, rtol=1e-10)


def test_pairs_named_the_other_way_round_are_the_same():
    """Answers exchanged, with labels and orders: the same likelihood, with first and second exchanged."""
    data, _, _ = panel(4, 6, classes=3)
    other = np.array([1, 0, 2])
    flipped = crowdppl.Annotations.from_arrays(
        data.items[data.item],
        data.workers[data.worker],
        other[data.label],
        labels=range(3),
        features=-data.features.numpy(),
        worker_features=orders() * ([-1] + [1] * JUDGES),
    )
    with isolated(0, dtype=torch.float64), torch.no_grad():
        one, two = (bind(PairwisePreference(), d) for d in (data, flipped))
        sites = {name: node["value"] for name, node in check(one, data).items()}
        a = one.item_log_joint(one.conditioned(sites, data)[0], data)
        b = two.item_log_joint(two.conditioned(sites, flipped)[0], flipped)
    torch.testing.assert_close(a[:, [1, 0, 2]], b, rtol=1e-12, atol=1e-12)


# ---------------------------------------------------------------------- recovery

STRENGTH = np.array([1.2, 0.4, -0.4, -1.2])
POSITION = np.array([-1.0, 0.0, 0.5, 1.0, 1.5, 2.0])
SKILL = np.array([2.0, 1.2, 1.6, 1.0, 1.8, 1.4])


@pytest.mark.slow
@pytest.mark.parametrize(("method", "classes"), [("em", 2), ("em", 3), ("svi", 3)])
def test_recovery(method, classes):
    """Strengths, skills and position effects of judges in both orders; bounds are about twice the largest errors seen."""
    values = {"strength": STRENGTH, "position": POSITION, "skill": SKILL}
    data, truth, drawn = panel(5, 1500, classes, parameters=values)
    posterior = quiet_fit(data, PairwisePreference(), method=method, seed=0, num_samples=50)
    mean = posterior.tree["posterior"].to_dataset().mean(("chain", "draw"))
    assert mean["position"].dims == ("judge",)
    assert list(np.argsort(-mean["centred_strength"].values)) == [0, 1, 2, 3]
    assert np.abs(mean["centred_strength"].values - STRENGTH).max() < 0.2
    assert np.abs(mean["position"].values - POSITION).max() < 0.25
    assert np.abs(mean["skill"].values - SKILL).max() < 0.2
    if classes == 3:
        assert np.abs(mean["tie_tendency"].values - drawn["tie_tendency"]).max() < 0.3
    assert (posterior.truth()["label"].to_numpy() == truth).mean() > 0.9


def test_both_orders_tell_the_position_effect():
    """Of orders that are known. Where they are not, the effect is what its prior says, and skills are lower."""
    values = {"position": POSITION, "skill": SKILL}
    data, _, _ = panel(6, 800, parameters=values, features=False)
    columns = (data.items[data.item], data.workers[data.worker], data.labels[data.label])
    unknown = crowdppl.Annotations.from_arrays(
        *columns, labels=range(2), worker_features=orders() * ([0] + [1] * JUDGES)
    )
    in_known_order, in_unknown_order = (
        quiet_fit(d, PairwisePreference(), method="em", seed=0, num_samples=500).tree["posterior"].to_dataset()
        for d in (data, unknown)
    )
    error = np.abs(in_known_order["position"].mean(("chain", "draw")).values - POSITION)
    assert error.max() < 0.3
    assert in_known_order["position"].std(("chain", "draw")).values.max() < 0.15
    np.testing.assert_allclose(in_unknown_order["position"].mean(("chain", "draw")), 0, atol=0.15)
    np.testing.assert_allclose(in_unknown_order["position"].std(("chain", "draw")), 0.7, atol=0.1)
    lower = in_unknown_order["skill"].mean(("chain", "draw")) - in_known_order["skill"].mean(("chain", "draw"))
    assert (lower.values[POSITION >= 1] < -0.05).all()


@pytest.mark.slow
def test_nuts_agrees_with_em():
    """Means of the same posterior, within .6 of its spread: twice the largest difference seen."""
    data, _, _ = panel(7, 150, parameters={"strength": STRENGTH, "position": POSITION, "skill": SKILL})
    by = {
        method: quiet_fit(data, PairwisePreference(), method=method, seed=0, **options).tree["posterior"].to_dataset()
        for method, options in (
            ("em", {"num_samples": 500}),
            ("nuts", {"chains": 2, "warmup": 150, "num_samples": 100}),
        )
    }
    for name in ("strength", "position", "skill"):
        em, nuts = (by[m][name].mean(("chain", "draw")).values for m in ("em", "nuts"))
        spread = by["nuts"][name].std(("chain", "draw")).values
        assert (np.abs(em - nuts) < 0.6 * spread).all(), name


def test_new_pairs_are_predicted_by_strength():
    data, _, _ = panel(8, 600, parameters={"strength": STRENGTH, "skill": SKILL})
    posterior = quiet_fit(data, PairwisePreference(), method="em", seed=0, num_samples=50)
    new = pd.DataFrame(contrasts([(0, 3), (3, 0), (1, 1)]), index=["strong first", "weak first", "equal"])
    predicted = crowdppl.predict(posterior, data.unseen(new)).set_index("task")
    assert predicted.loc["strong first", "p_0"] > 0.8
    assert predicted.loc["weak first", "p_1"] > 0.8
    assert predicted.loc["equal", "p_0"] == pytest.approx(0.5)
    with pytest.raises(crowdppl.DataError, match=r"^the result has skill of shape \(6,\)[^\n]*unseen[^\n]*$"):
        crowdppl.predict(posterior, new)  # of workers who are not said to be six judges in two orders
