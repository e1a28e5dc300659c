"""Worker quality against numbers worked out by hand, and characters of a simulated crowd told apart."""

import numpy as np
import pandas as pd
import pytest
import scipy.optimize
from crowds import crowd_with_characters, fitted
from scipy.special import gammaln

import crowdppl
from crowdppl import DataError, OptionError, workers
from crowdppl.workers import spammers

PREVALENCE = np.array([[0.5, 0.5]])
PERFECT, SPAMMER, LIAR = np.eye(2), np.full((2, 2), 0.5), np.eye(2)[::-1]


def one(confusion):
    return np.asarray(confusion)[None, None]  # one draw, one worker


@pytest.mark.parametrize(
    ("confusion", "expected"), [(PERFECT, 1.0), (SPAMMER, 0.5), (LIAR, 0.0), ([[0.9, 0.1], [0.3, 0.7]], 0.8)]
)
def test_accuracy(confusion, expected):
    assert workers.accuracy(one(confusion), PREVALENCE)[0, 0] == pytest.approx(expected)


def test_accuracy_weighs_by_prevalence():
    confusion = one([[0.9, 0.1], [0.3, 0.7]])
    assert workers.accuracy(confusion, np.array([[0.9, 0.1]]))[0, 0] == pytest.approx(0.88)
    np.testing.assert_allclose(workers.sensitivity(confusion)[0, 0], [0.9, 0.7])


def test_informativeness():
    """Perfect: the entropy of the prevalence; spammer: nothing; a liar tells as much as an honest worker."""
    for confusion, bits in ((PERFECT, 1.0), (SPAMMER, 0.0), (LIAR, 1.0)):
        assert workers.informativeness(one(confusion), PREVALENCE)[0, 0] == pytest.approx(bits, abs=1e-12)
    skewed = np.array([[0.9, 0.1]])
    entropy = -(0.9 * np.log2(0.9) + 0.1 * np.log2(0.1))
    assert workers.informativeness(one(PERFECT), skewed)[0, 0] == pytest.approx(entropy)
    # By the definition, sum p(k, l) log p(k, l) / (p(k) p(l)), for one matrix:
    confusion, pi = np.array([[0.8, 0.2], [0.4, 0.6]]), np.array([0.3, 0.7])
    joint = pi[:, None] * confusion
    by_hand = (joint * np.log2(joint / np.outer(pi, joint.sum(0)))).sum()
    assert workers.informativeness(one(confusion), pi[None])[0, 0] == pytest.approx(by_hand)


def test_interval():
    draws = np.arange(1001.0)[:, None]
    mean, low, high = workers.interval(draws, 0.9)
    assert (mean[0], low[0], high[0]) == pytest.approx((500.0, 50.0, 950.0))
    mean, low, high = workers.interval(draws[:1], 0.9)
    assert mean[0] == 0
    assert np.isnan(low[0])
    assert np.isnan(high[0])
    assert workers.default_level(None) == 0.89
    for level in (0, 1, 1.5, -0.1):
        with pytest.raises(OptionError, match="between 0 and 1"):
            workers.interval(draws, level)


@pytest.fixture(scope="module")
def crowd():
    frame, truth = crowd_with_characters(when=True)
    return fitted(frame), frame, truth


def some_confusions(S=3, J=4, K=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(K), size=(S, J, K)), rng.dirichlet(np.ones(K), size=S)


def test_measures_by_hand():
    """Each by its definition, cell by cell."""
    confusion, prevalence = some_confusions()
    S, J, K = confusion.shape[:3]
    cost = np.array([[0, 1, 4], [2, 0, 1], [3, 5, 0]])
    for s in range(S):
        for j in range(J):
            theta, pi = confusion[s, j], prevalence[s]
            joint = pi[:, None] * theta
            given = joint.sum(0)
            for k in range(K):
                others = [m for m in range(K) if m != k]
                expected = 1 - sum(joint[m, k] for m in others) / sum(pi[m] for m in others)
                assert workers.specificity(confusion, prevalence)[s, j, k] == pytest.approx(expected)
            assert workers.mean_diagonal(confusion)[s, j] == pytest.approx(np.trace(theta) / K)
            odds = np.log(np.diag(theta) / (1 - np.diag(theta))).mean()
            assert workers.diagonal_log_odds(confusion)[s, j] == pytest.approx(odds)
            chance = (pi * given).sum()
            kappa = (np.trace(joint) - chance) / (1 - chance)
            assert workers.kappa(confusion, prevalence)[s, j] == pytest.approx(kappa)
            soft = joint / given
            by_hand = sum(
                given[label] * soft[k, label] * soft[m, label] * cost[k, m]
                for label in range(K)
                for k in range(K)
                for m in range(K)
            )
            assert workers.expected_cost(confusion, prevalence, cost)[s, j] == pytest.approx(by_hand)
            nobody = sum(pi[k] * pi[m] * cost[k, m] for k in range(K) for m in range(K))
            assert workers.cost_quality(confusion, prevalence, cost)[s, j] == pytest.approx(1 - by_hand / nobody)


def test_distance_from_spammer_is_the_nearest_matrix_of_equal_rows():
    confusion, _ = some_confusions(S=1, J=3)
    for j, found in enumerate(workers.distance_from_spammer(confusion)[0]):
        nearest = scipy.optimize.minimize(lambda v, theta=confusion[0, j]: ((theta - v) ** 2).sum(), np.ones(3) / 3)
        assert found == pytest.approx(nearest.fun, abs=1e-9)
    for theta, score in ((PERFECT, 1.0), (SPAMMER, 0.0), (LIAR, 1.0), ([[1.0, 0], [1, 0]], 0.0)):
        assert workers.spammer_score(one(theta))[0, 0] == pytest.approx(score)
    two = one([[0.9, 0.1], [0.3, 0.7]])
    assert workers.distance_from_spammer(two)[0, 0] == pytest.approx((0.9 + 0.7 - 1) ** 2)


def test_costs_of_characters():
    """A liar's errors can be undone and cost nothing; a spammer's cost everything."""
    for theta, quality in ((PERFECT, 1.0), (SPAMMER, 0.0), (LIAR, 1.0)):
        assert workers.cost_quality(one(theta), PREVALENCE)[0, 0] == pytest.approx(quality)
    for wrong in ([[0, 1]], [[0, -1], [1, 0]], [[0, np.nan], [1, 0]]):
        with pytest.raises(OptionError, match="cost must be 2 x 2"):
            workers.expected_cost(one(PERFECT), PREVALENCE, wrong)


def test_unknown_measures_are_refused(crowd):
    posterior, _, _ = crowd
    with pytest.raises(OptionError, match="did you mean 'accuracy'"):
        posterior.workers(measures=["accuracy", "acuracy"])
    with pytest.raises(OptionError, match="did you mean 'kappa'"):
        posterior.measure("kapa")
    with pytest.raises(OptionError, match="no column 'accurracy'"):
        posterior.workers(sort="accurracy")


def test_ranks_by_hand():
    values = np.array([[0.9, 0.5, 0.7], [0.2, 0.2, 0.8]])
    np.testing.assert_array_equal(workers.rank(values), [[1, 3, 2], [2.5, 2.5, 1]])
    np.testing.assert_array_equal(workers.rank(values, lower_is_better=True), [[3, 1, 2], [1.5, 1.5, 3]])
    sure = np.tile([1.0, 2, 3, 4], (100, 1))
    sure[::2, 2:] = sure[::2, :1:-1]  # the last two change places
    places = workers.place(sure, 0.9)
    assert places["place"].tolist() == ["1", "2", "4 (3–4)", "4 (3–4)"] or places["rank_low"].tolist() == [1, 2, 3, 3]
    anything = np.random.default_rng(0).permuted(np.tile(np.arange(1.0, 7), (200, 1)), axis=1)
    assert (workers.place(anything)["place"] == "unknown").all()
    assert (workers.place(sure[:1])["place"] == "unknown").all()  # one draw knows nothing of how sure the order is


def test_comparisons_from_draws(crowd):
    posterior, _, _ = crowd
    accuracy = posterior.measure("accuracy")
    names = posterior.worker_names().tolist()
    a, b = names.index("honest 11"), names.index("honest 0")
    by_hand = (accuracy[:, a] > accuracy[:, b]).mean()
    assert workers.better(posterior, "honest 11", "honest 0") == pytest.approx(by_hand)
    assert workers.better(posterior, "honest 0", "honest 11") == pytest.approx(1 - by_hand)
    assert by_hand > 0.9
    cheaper = workers.better(posterior, "honest 11", "guesser", by="expected_cost")
    assert cheaper > 0.9  # less cost is better
    best = workers.best(posterior, 3)
    assert best["probability"].sum() == pytest.approx(3, abs=0.05)
    ranks = (-accuracy).argsort(1).argsort(1)
    chance = (ranks[:, a] < 3).mean()
    assert best.set_index("worker")["probability"]["honest 11"] == pytest.approx(chance)
    worst = workers.worst(posterior, 1)
    assert worst["worker"][0] == "adversary"
    assert "newcomer" not in set(workers.best(posterior, 3, minimum=10)["worker"])
    for m in (0, 21, True):
        with pytest.raises(OptionError, match="choose from 1 to"):
            workers.best(posterior, m)
    with pytest.raises(DataError, match="did you mean 'honest 1"):
        workers.better(posterior, "honest 11", "honest 1l")


@pytest.mark.parametrize("method", ["em", "gibbs", "svi"])
def test_characters_are_told_apart(method):
    """The guesser, the one who always says class 1, the adversary and the newcomer, by any engine."""
    frame, _ = crowd_with_characters(seed=1)
    table = fitted(frame, method=method, num_samples=200).workers(sort="accuracy").set_index("worker")
    assert (table["verdict"].filter(like="honest") == "informed").all()
    assert table["verdict"][["guesser", "always", "adversary"]].tolist() == ["guesses", "always", "contrary"]
    assert table["spammer"][["guesser", "always"]].min() > 0.8
    assert table["spammer"].filter(like="honest").max() < 0.05
    assert table["spammer"]["adversary"] < 0.05
    assert table["informativeness_low"]["adversary"] > table["informativeness_high"]["always"]
    # Two right judgements are no place at the top, however right.
    newcomer = table.loc["newcomer"]
    # They leave a chance of .04 to .06 of a spammer, and the word changes at .05.
    assert newcomer["verdict"] == ("unknown" if newcomer["spammer"] > 0.05 else "informed")
    assert newcomer["place"] == "unknown"
    assert newcomer["accuracy_high"] - newcomer["accuracy_low"] > 0.4
    assert table.index.get_loc("newcomer") > 6
    assert 0.02 < newcomer["spammer"] < 0.3


def test_the_adversary_helps():
    """What a worker who swaps labels says is turned round: without it the truth is known less well."""
    gained = []
    for seed in range(4):
        frame, truth = crowd_with_characters(seed=seed, items=150, each=75, honest_workers=5)
        found = []
        for part in (frame, frame[frame["worker"] != "adversary"]):
            table = fitted(part, num_samples=20).truth().set_index("task")
            found.append((table["label"] == truth[table.index]).reindex(truth.index, fill_value=False).mean())
        gained.append(found[0] - found[1])
    assert np.mean(gained) > 0.01  # 4 seeds, seen: .01 to .05 each


def test_spammer_probability_by_hand():
    """The two marginal likelihoods by the chain rule, label after label, for one table of counts."""
    counts = np.array([[[5.0, 1], [2, 4]], [[3, 3], [4, 4]], [[30, 1], [2, 40]]])
    crowd = counts.sum(0) + np.eye(2) + 0.5
    crowd /= crowd.sum(1, keepdims=True)

    def sequence(n, prior):
        seen, total = np.zeros(2), 0.0
        for label, often in enumerate(n.astype(int)):
            for _ in range(often):
                total += np.log((prior[label] + seen[label]) / (prior.sum() + seen.sum()))
                seen[label] += 1
        return total

    for one_worker, found in zip(counts, spammers._probability(counts, 0.2), strict=True):
        looks = sum(sequence(one_worker[k], spammers.LOOKS * crowd[k]) for k in range(2))
        does_not = sequence(one_worker.sum(0), np.ones(2))
        odds = 0.2 * np.exp(does_not) / (0.8 * np.exp(looks))
        assert found == pytest.approx(odds / (1 + odds))
    assert gammaln(1) == 0
    frame, _ = crowd_with_characters(items=60, each=20)
    posterior = fitted(frame, num_samples=20)
    low, high = (workers.spammer_probability(posterior, expected=share) for share in (0.01, 0.5))
    assert (low < high).all()
    for share in (0, 1, -1):
        with pytest.raises(OptionError, match="between 0 and 1"):
            workers.spammer_probability(posterior, expected=share)


def test_intervals_of_every_measure_are_quantiles_of_its_draws(crowd):
    posterior, _, _ = crowd
    table = posterior.workers(measures=[*workers.MEASURES, *workers.BY_CLASS], level=0.8)
    for name in workers.MEASURES:
        draws = posterior.measure(name)
        np.testing.assert_allclose(table[name], draws.mean(0))
        np.testing.assert_allclose(table[f"{name}_low"], np.quantile(draws, 0.1, axis=0))
        np.testing.assert_allclose(table[f"{name}_high"], np.quantile(draws, 0.9, axis=0))
    assert {"specificity_0", "specificity_1_low", "sensitivity_2_high"} <= set(table.columns)


def test_sorting_is_by_the_worse_end(crowd):
    posterior, _, _ = crowd
    table = posterior.workers(sort="informativeness")
    assert table["informativeness_low"].is_monotonic_decreasing
    assert posterior.workers(sort="spammer")["spammer"].is_monotonic_increasing
    costly = posterior.workers(sort="expected_cost", measures=["expected_cost"])
    assert costly["expected_cost_high"].is_monotonic_increasing
    few = posterior.workers(minimum=10)
    assert "newcomer" not in set(few["worker"])
    assert few["rank_high"].max() <= len(few)
    assert posterior.workers(minimum=10**6).empty


def test_times(crowd):
    """Windows are cut by time, whatever the order of rows; counted by hand with the truths drawn."""
    posterior, frame, _ = crowd
    windows = workers.over_time(posterior, "honest 3", windows=4)
    assert windows["judgements"].tolist() == [25] * 4
    assert (windows["begins"].to_numpy()[1:] > windows["ends"].to_numpy()[:-1]).all()
    mine = frame[frame["worker"] == "honest 3"]
    assert windows["begins"][0] == mine["when"].min()
    first = mine.sort_values("when").head(25)
    draws = posterior.truth_draws()
    place = {name: n for n, name in enumerate(posterior.items().tolist())}
    right = np.mean([(draws[:, place[row.task]] == row.label).mean() for row in first.itertuples()])
    assert windows["accuracy"][0] == pytest.approx((25 * right + 0.5) / 26, abs=0.02)
    everyone = workers.over_time(posterior)
    assert "newcomer" not in set(everyone["worker"])
    assert len(everyone) == 19 * 5
    with pytest.raises(OptionError, match="2 judgements with a time"):
        workers.over_time(posterior, "newcomer")
    with pytest.raises(OptionError, match="at least 2"):
        workers.over_time(posterior, windows=1)
    medians = frame.groupby("worker")["seconds"].median()
    found = posterior.workers().set_index("worker")["seconds"]
    pd.testing.assert_series_equal(found, medians[found.index], check_names=False)


def test_who_tires_is_found():
    """One worker guesses from the middle on, the others stay as they are."""
    frame, truth = crowd_with_characters(seed=3, items=200, each=120, when=True)
    rng = np.random.default_rng(0)
    frame["when"] = pd.Timestamp("2026-01-01") + pd.to_timedelta(frame["when"], unit="min")
    late = (frame["worker"] == "honest 11") & (frame["when"] > frame["when"][frame["worker"] == "honest 11"].median())
    frame.loc[late, "label"] = rng.integers(0, 3, int(late.sum()))
    posterior = fitted(frame)
    table = workers.change(posterior).set_index("worker")
    assert table["worse"]["honest 11"] > 0.99
    assert table["change_high"]["honest 11"] < 0
    assert (table["worse"].drop("honest 11") < 0.99).all()
    assert "newcomer" not in table.index
    del truth


def test_without_times_one_is_told():
    frame, _ = crowd_with_characters(items=60, each=20)
    posterior = fitted(frame, num_samples=5)
    for ask in (workers.change, workers.over_time, workers.seconds):
        with pytest.raises(OptionError, match=r"from_frame\(\.\.\., (when|seconds)=\.\.\.\)"):
            ask(posterior)
    assert "seconds" not in posterior.workers()


def test_trapping_set():
    frame, truth = crowd_with_characters(items=60, each=20)
    posterior = fitted(frame, num_samples=5)
    with pytest.raises(OptionError, match="knew no truths"):
        workers.trap_score(posterior)
    known = truth.head(30)
    table = workers.trap_score(posterior, known).set_index("worker")
    mine = frame[(frame["worker"] == "honest 5") & frame["task"].isin(known.index)]
    assert table["judgements"]["honest 5"] == len(mine)
    assert table["score"]["honest 5"] == pytest.approx((mine["label"] == known[mine["task"]].to_numpy()).mean())
    assert (table["low"] <= table["high"]).all()
    data = crowdppl.Annotations.from_frame(frame, truth=known)
    again = workers.trap_score(crowdppl.fit(data, method="em", num_samples=5)).set_index("worker")
    pd.testing.assert_frame_equal(again, table)
