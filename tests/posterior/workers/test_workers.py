"""Worker quality against numbers worked out by hand, and characters of a simulated crowd told apart."""

import numpy as np
import pandas as pd
import pytest
import scipy.optimize
from crowds import crowd_with_characters, fitted
from scipy.special import gammaln

import crowdppl
from crowdppl import DataError, OptionError
from crowdppl.posterior import workers
from crowdppl.posterior.workers import spammers
from crowdppl.posterior.workers.others import POWER

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
    frame, truth = crowd_with_characters(timestamps=True)
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
    for j, distance in enumerate(workers.distance_from_spammer(confusion)[0]):
        nearest = scipy.optimize.minimize(lambda v, theta=confusion[0, j]: ((theta - v) ** 2).sum(), np.ones(3) / 3)
        assert distance == pytest.approx(nearest.fun, abs=1e-9)
    for theta, score in ((PERFECT, 1.0), (SPAMMER, 0.0), (LIAR, 1.0), ([[1.0, 0], [1, 0]], 0.0)):
        assert workers.spammer_score(one(theta))[0, 0] == pytest.approx(score)
    two = one([[0.9, 0.1], [0.3, 0.7]])
    assert workers.distance_from_spammer(two)[0, 0] == pytest.approx((0.9 + 0.7 - 1) ** 2)


def test_costs_of_characters():
    """A liar's errors can be undone and cost nothing; a spammer's cost everything."""
    for theta, quality in ((PERFECT, 1.0), (SPAMMER, 0.0), (LIAR, 1.0)):
        assert workers.cost_quality(one(theta), PREVALENCE)[0, 0] == pytest.approx(quality)
    for wrong in ([[0, 1]], [[0, -1], [1, 0]], [[0, np.nan], [1, 0]]):
        with pytest.raises(OptionError, match="it must be 2 x 2"):
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
    places = workers.summarise_ranks(sure, 0.9)
    assert places["place"].tolist() == ["1", "2", "4 (3–4)", "4 (3–4)"] or places["rank_low"].tolist() == [1, 2, 3, 3]
    anything = np.random.default_rng(0).permuted(np.tile(np.arange(1.0, 7), (200, 1)), axis=1)
    assert (workers.summarise_ranks(anything)["place"] == "unknown").all()  # any rank is possible
    wide = np.tile([1.0, 2, 3, 4, 5], (90, 1))
    wide[:30, :3], wide[30:60, :3] = [2, 3, 1], [3, 1, 2]
    assert workers.summarise_ranks(wide)["place"].tolist() == ["1–3 of 5"] * 3 + ["4", "5"]
    assert (
        workers.summarise_ranks(sure[:1])["place"] == "unknown"
    ).all()  # one draw knows nothing of how sure the order is


def test_comparisons_from_draws(crowd):
    posterior, _, _ = crowd
    accuracy = posterior.measure("accuracy")
    names = posterior.worker_names().tolist()
    a, b = names.index("honest 11"), names.index("honest 0")
    by_hand = (accuracy[:, a] > accuracy[:, b]).mean()
    assert workers.probability_better(posterior, "honest 11", "honest 0") == pytest.approx(by_hand)
    assert workers.probability_better(posterior, "honest 0", "honest 11") == pytest.approx(1 - by_hand)
    assert by_hand > 0.9
    cheaper = workers.probability_better(posterior, "honest 11", "guesser", by="expected_cost")
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
        with pytest.raises(OptionError, match=f"m={m}; (it must be from 1 to|it must be a whole number of at least 1)"):
            workers.best(posterior, m)
    with pytest.raises(DataError, match="did you mean 'honest 1"):
        workers.probability_better(posterior, "honest 11", "honest 1l")


@pytest.mark.parametrize("method", ["em", "gibbs", pytest.param("svi", marks=pytest.mark.slow)])
def test_characters_are_told_apart(method):
    """The guesser, the one who always says class 1, the adversary and the newcomer, by any engine."""
    frame, _ = crowd_with_characters(seed=1)
    table = fitted(frame, method=method, num_samples=200).workers(sort="accuracy").set_index("worker")
    assert set(table["verdict"].filter(like="honest")) <= {"reliable", "fair", "weak"}
    assert table["verdict"][["honest 15", "honest 14", "honest 13"]].tolist() == ["reliable"] * 3
    assert table["verdict"][["guesser", "always", "adversary"]].tolist() == ["random", "constant", "adversarial"]
    assert table["spammer"][["guesser", "always"]].min() > 0.8
    assert table["spammer"].filter(like="honest").max() < 0.05
    assert table["spammer"]["adversary"] < 0.05
    assert table["informativeness_low"]["adversary"] > table["informativeness_high"]["always"]
    # Two correct annotations do not put a worker at the top.
    newcomer = table.loc["newcomer"]
    # They leave a chance of .04 to .06 of a spammer, and the word changes at .05.
    if newcomer["spammer"] > 0.05:
        assert newcomer["verdict"] == "unknown"
    assert newcomer["place"].endswith("of 20") or newcomer["place"] == "unknown"
    assert newcomer["accuracy_high"] - newcomer["accuracy_low"] > 0.4
    assert table.index.get_loc("newcomer") > 6
    assert 0.02 < newcomer["spammer"] < 0.3


def crowd_of(characters, classes, *, seed=0, items=150, each=44, honest_workers=8, per_item=5):
    """Honest workers, correct in four of five annotations, and others: by name, a function of the truth."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, classes, items)

    def wrong(k):
        return int((k + rng.integers(1, classes)) % classes)

    rows = [
        (i, f"honest {j}", truth[i] if rng.random() < 0.8 else wrong(truth[i]))
        for i in range(items)
        for j in rng.choice(honest_workers, per_item, replace=False)
    ]
    for name, answer in characters.items():
        rows += [(i, name, answer(truth[i], rng)) for i in rng.choice(items, each, replace=False)]
    return pd.DataFrame(rows, columns=["task", "worker", "label"]), truth


def swaps(classes):
    return lambda k, rng: int((k + 1) % classes)


def picks(classes):
    return lambda k, rng: int((k + rng.integers(1, classes)) % classes)


@pytest.mark.parametrize("classes", [2, 3, 4, 8])
@pytest.mark.parametrize("method", ["em", "gibbs"])
def test_a_worker_wrong_in_all_annotations_is_adversarial(classes, method):
    """Wrong in all of 44 annotations, whether labels are swapped or any wrong one is given."""
    frame, _ = crowd_of({"swaps": swaps(classes), "picks": picks(classes)}, classes)
    table = fitted(frame, method=method, num_samples=200).workers().set_index("worker")
    assert table["verdict"][["swaps", "picks"]].tolist() == ["adversarial"] * 2
    assert not set(table["verdict"].filter(like="honest")) & set(workers.UNRELIABLE)


@pytest.mark.slow
def test_rate_of_false_alarms():
    """In 48 crowds nobody honest is called adversarial, random or constant, and one random worker in 16 at most adversarial."""
    alarms, taken = 0, 0
    for classes in (2, 3, 5, 8):
        for seed in range(12):
            characters = {"random": lambda k, rng, K=classes: int(rng.integers(K)), "swaps": swaps(classes)}
            frame, _ = crowd_of(characters, classes, seed=100 + seed, honest_workers=10)
            table = fitted(frame, num_samples=100).workers().set_index("worker")
            alarms += table["verdict"].filter(like="honest").isin(workers.UNRELIABLE).sum()
            taken += table["verdict"]["random"] == "adversarial"
    assert alarms == 0  # of 480 honest workers
    assert taken <= 3  # of 48 random ones


def test_quality_and_speed_are_weighed_together():
    """Fast and inaccurate is hasty, never reliable; fast and accurate is as good as anybody."""
    half = {"fast and poor": lambda k, rng: k if rng.random() < 0.35 else int(rng.integers(3))}
    good = {"fast and good": lambda k, rng: k if rng.random() < 0.93 else int(rng.integers(3))}
    frame, _ = crowd_of(half | good, 3, each=90)
    rng = np.random.default_rng(0)
    fast = frame["worker"].str.startswith("fast")
    frame["seconds"] = np.where(fast, 1.7, 10) * rng.lognormal(0, 0.3, len(frame))
    posterior = fitted(frame)
    table = posterior.workers().set_index("worker")
    assert table["verdict"]["fast and poor"] == "hasty"
    assert table["verdict"]["fast and good"] == "reliable"
    speed = dict(zip(posterior.worker_names().tolist(), workers.relative_speed(posterior), strict=True))
    medians = frame.groupby("worker")["seconds"].median()
    for name in ("fast and poor", "honest 3"):
        assert speed[name] == pytest.approx(medians[name] / medians.drop(name).median())
    without = fitted(frame.drop(columns="seconds")).workers().set_index("worker")
    assert without["verdict"]["fast and poor"] in ("weak", "confuses")
    assert np.isnan(workers.relative_speed(fitted(frame.drop(columns="seconds")))).all()


def test_systematic_confusions_are_told():
    """Who calls most of one class another, by counts that anybody can repeat in the tables."""
    frame, _ = crowd_of({"Bob": lambda k, rng: 1 if k == 0 and rng.random() < 0.75 else int(k)}, 4, each=80)
    posterior = fitted(frame)
    table = workers.systematic_confusions(posterior)
    assert table[["worker", "truth", "label"]].to_numpy().tolist() == [["Bob", 0, 1]]
    reported = posterior.truth().set_index("task")["label"]
    mine = frame[(frame["worker"] == "Bob") & (reported[frame["task"]].to_numpy() == 0)]
    assert table["of"][0] == len(mine)
    assert table["annotations"][0] == (mine["label"] == 1).sum()
    others = frame[(frame["worker"] != "Bob") & (reported[frame["task"]].to_numpy() == 0)]
    assert table["others"][0] == pytest.approx((others["label"] == 1).mean())
    assert posterior.workers().set_index("worker")["verdict"]["Bob"] == "confuses"
    assert workers.crowd_confusions(posterior).empty


def test_what_the_whole_crowd_confuses_is_no_fault_of_single_workers():
    rng = np.random.default_rng(5)
    truth = rng.integers(0, 4, 240)
    rows = [
        (i, f"w{j}", 3 if truth[i] == 2 and rng.random() < 0.3 else truth[i])
        for i in range(240)
        for j in rng.choice(8, 5, replace=False)
    ]
    posterior = fitted(pd.DataFrame(rows, columns=["task", "worker", "label"]))
    table = workers.crowd_confusions(posterior)
    assert table[["truth", "label"]].to_numpy().tolist() == [[2, 3]]
    counts = workers.label_counts(posterior)
    assert table["annotations"][0] == counts[2, 3]
    assert table["of"][0] == counts[2].sum()
    assert table["asked"][0] == 8
    assert workers.systematic_confusions(posterior).empty
    alone = workers.crowd_confusions(posterior, without=np.arange(8) > 0)
    assert alone.empty  # one worker is no crowd


@pytest.mark.parametrize("classes", [1, 2])
def test_nothing_is_said_where_nothing_can_be_compared(classes):
    """One class, or workers without an item in common: no verdict, of any engine."""
    rows = [(f"{j}-{i}", f"w{j}", i % classes) for j in range(2) for i in range(30)]
    table = fitted(pd.DataFrame(rows, columns=["task", "worker", "label"])).workers()
    assert table["verdict"].tolist() == ["unknown"] * 2


def test_the_adversary_helps():
    """What a worker who swaps labels says is turned round: without it the truth is known less well."""
    gained = []
    for seed in range(4):
        frame, truth = crowd_with_characters(seed=seed, items=150, each=75, honest_workers=5)
        accuracies = []
        for part in (frame, frame[frame["worker"] != "adversary"]):
            table = fitted(part, num_samples=20).truth().set_index("task")
            accuracies.append((table["label"] == truth[table.index]).reindex(truth.index, fill_value=False).mean())
        gained.append(accuracies[0] - accuracies[1])
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

    grid = (np.arange(200_000) + 0.5) / 200_000 * 0.25  # share of correct labels of an adversary, up to half of chance
    one_draw = np.moveaxis(counts.astype(int), 0, -1)[None]  # workers last
    (by_hypothesis,) = spammers._probability(one_draw, 0.2)
    for one_worker, probability in zip(counts, by_hypothesis.T, strict=True):
        looks = sum(sequence(one_worker[k], spammers.INFORMED_COUNTS * crowd[k]) for k in range(2))
        does_not = sequence(one_worker.sum(0), np.ones(2))
        correct, total = np.trace(one_worker), one_worker.sum()
        avoids = np.mean(grid**correct * (1 - grid) ** (total - correct))
        wrong = np.array([one_worker[1, 0], one_worker[0, 1]])  # by the label given
        share = (wrong + 1) / (wrong.sum() + 2)
        picks = np.exp(sequence(wrong, np.ones(2))) / np.prod((1 - share) ** one_worker[[0, 1], [1, 0]])
        weight = np.array([0.7 * np.exp(looks), 0.2 * np.exp(does_not), 0.1 * avoids * (1 + picks) / 2])
        np.testing.assert_allclose(probability, weight / weight.sum(), rtol=1e-4)
    assert gammaln(1) == 0
    frame, _ = crowd_with_characters(items=60, each=20)
    posterior = fitted(frame, num_samples=20)
    low, high = (workers.spammer_probability(posterior, expected=share) for share in (0.01, 0.5))
    assert (low < high).all()
    for share in (0, 0.6, 1, -1):
        with pytest.raises(OptionError, match=r"between 0 and 0\.6"):
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
    """Windows are cut by time, whatever the order of rows; and by hand from the labels of the others."""
    posterior, frame, _ = crowd
    windows = workers.accuracy_over_time(posterior, "honest 3", windows=4)
    assert windows["annotations"].tolist() == [25] * 4
    assert (windows["begins"].to_numpy()[1:] > windows["ends"].to_numpy()[:-1]).all()
    mine = frame[frame["worker"] == "honest 3"]
    assert windows["begins"][0] == mine["timestamp"].min()
    first = mine.sort_values("timestamp").head(25)
    # By the other workers' labels, one annotation after the other.
    confusion, prevalence = posterior.draws("confusion").mean(0), posterior.draws("prevalence").mean(0)
    labels, names = posterior.labels.tolist(), posterior.worker_names().tolist()
    accuracy = np.linspace(0.0005, 0.9995, 1000)
    log = -0.5 * np.log(accuracy * (1 - accuracy))
    for row in first.itertuples():
        share = prevalence.copy()
        for other in frame[(frame["task"] == row.task) & (frame["worker"] != "honest 3")].itertuples():
            share *= confusion[names.index(other.worker), :, labels.index(other.label)]
        correct = share[labels.index(row.label)] / share.sum()
        log += POWER * np.log(correct * accuracy + (1 - correct) * (1 - accuracy) / (len(labels) - 1))
    density = np.exp(log - log.max())
    assert windows["accuracy"][0] == pytest.approx((accuracy * density).sum() / density.sum(), abs=0.005)
    everyone = workers.accuracy_over_time(posterior)
    assert "newcomer" not in set(everyone["worker"])
    assert len(everyone) == 19 * 5
    with pytest.raises(OptionError, match="2 annotations with a time"):
        workers.accuracy_over_time(posterior, "newcomer")
    with pytest.raises(OptionError, match="at least 2"):
        workers.accuracy_over_time(posterior, windows=1)
    medians = frame.groupby("worker")["seconds"].median()
    seconds = posterior.workers().set_index("worker")["seconds"]
    pd.testing.assert_series_equal(seconds, medians[seconds.index], check_names=False)


def test_who_tires_is_found():
    """One worker guesses from the middle on, the others stay as they are."""
    frame, truth = crowd_with_characters(seed=3, items=200, each=120, timestamps=True)
    rng = np.random.default_rng(0)
    frame["timestamp"] = pd.Timestamp("2026-01-01") + pd.to_timedelta(frame["timestamp"], unit="min")
    late = (frame["worker"] == "honest 11") & (
        frame["timestamp"] > frame["timestamp"][frame["worker"] == "honest 11"].median()
    )
    frame.loc[late, "label"] = rng.integers(0, 3, int(late.sum()))
    posterior = fitted(frame)
    table = workers.accuracy_change(posterior).set_index("worker")
    assert table["worse"]["honest 11"] > 0.99
    assert table["change_high"]["honest 11"] < 0
    assert (table["worse"].drop("honest 11") < 0.99).all()
    assert "newcomer" not in table.index
    del truth


def test_without_times_one_is_told():
    frame, _ = crowd_with_characters(items=60, each=20)
    posterior = fitted(frame, num_samples=5)
    for ask in (workers.accuracy_change, workers.accuracy_over_time, workers.median_seconds):
        with pytest.raises(OptionError, match=r"from_frame\(\.\.\., (timestamp|seconds)=\.\.\.\)"):
            ask(posterior)
    assert "seconds" not in posterior.workers()


def test_gold_accuracy():
    frame, truth = crowd_with_characters(items=60, each=20)
    posterior = fitted(frame, num_samples=100)
    with pytest.raises(OptionError, match="knew no true labels"):
        workers.gold_accuracy(posterior)
    known = truth.head(30)
    table = workers.gold_accuracy(posterior, known).set_index("worker")
    mine = frame[(frame["worker"] == "honest 5") & frame["task"].isin(known.index)]
    assert table["annotations"]["honest 5"] == len(mine)
    assert table["score"]["honest 5"] == pytest.approx((mine["label"] == known[mine["task"]].to_numpy()).mean())
    assert (table["low"] <= table["high"]).all()
    data = crowdppl.Annotations.from_frame(frame, truth=known)
    again = workers.gold_accuracy(crowdppl.fit(data, "dawid-skene", method="em", num_samples=100)).set_index("worker")
    pd.testing.assert_frame_equal(again, table)


def test_gold_accuracy_by_class():
    """Sums over classes are the numbers of all items; a class without known items has no row."""
    frame, truth = crowd_with_characters(items=60, each=20)
    posterior = fitted(frame, num_samples=5)
    known = truth[truth == truth.iloc[0]].head(8)
    known = pd.concat([known, truth[truth != truth.iloc[0]].head(2)])
    table = workers.gold_accuracy(posterior, known, by_class=True)
    whole = workers.gold_accuracy(posterior, known).set_index("worker")
    assert set(table["class"]) == set(known)
    sums = table.groupby("worker")[["annotations", "correct"]].sum().loc[whole.index]
    pd.testing.assert_frame_equal(sums, whole[["annotations", "correct"]])
    one = known.iloc[-1]
    mine = frame[(frame["worker"] == "honest 5") & frame["task"].isin(known.index[known == one])]
    row = table[(table["worker"] == "honest 5") & (table["class"] == one)].iloc[0]
    assert row["annotations"] == len(mine)
    assert row["correct"] == (mine["label"] == one).sum()
    assert (table["low"] < table["high"]).all()


def test_the_table_does_not_depend_on_blocks_and_threads(monkeypatch):
    """Bit for bit in threads, and but for rounding with one worker in each block."""
    from crowdppl.isolation import pool
    from crowdppl.posterior import variables

    posterior = fitted(crowd_with_characters()[0])
    whole = posterior.workers()
    monkeypatch.setattr(variables, "BLOCK_CELLS", 1)
    tables = []
    for threads in (1, 3):
        monkeypatch.setattr(pool, "threads_outside", lambda threads=threads: threads)
        tables.append(posterior.workers())
    pd.testing.assert_frame_equal(*tables, check_exact=True)
    pd.testing.assert_frame_equal(tables[0], whole, rtol=1e-12)
