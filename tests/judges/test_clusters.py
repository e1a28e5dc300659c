"""Clusters of questions: weights against the closed form, coverage by simulation, reading and files."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from crowdppl import DataError, judges
from crowdppl.judges.tables.system_table import question_weights

SHIFT, SCALE = {"s0": 0.3, "s1": 1.0}, 1.5


def documents(seed, clusters=30, questions=5, accuracy=(0.85, 0.9, 0.85)):
    """Verdicts on answers of two systems to questions on documents that are easy or hard for both, and all human labels."""
    rng = np.random.default_rng(seed)
    easy, verdicts, labels = rng.normal(0, SCALE, clusters), [], []
    for system, shift in SHIFT.items():
        for c in range(clusters):
            for q in range(questions):
                key, passes = (f"d{c}-{q}", system), rng.random() < expit(shift + easy[c])
                labels.append((*key, "pass" if passes else "fail"))
                for j, right in enumerate(accuracy):
                    said = passes ^ (rng.random() > right)
                    verdicts.append((*key, f"d{c}", f"m{j}/x", "pass" if said else "fail"))
    names = ["item", "system", "cluster", "judge", "verdict"]
    return pd.DataFrame(verdicts, columns=names), pd.DataFrame(labels, columns=["item", "system", "verdict"])


def true_rates():
    """Return the rates of the systems on further documents, by quadrature."""
    x, weight = np.polynomial.hermite_e.hermegauss(60)
    return {name: float(weight @ expit(shift + SCALE * x) / weight.sum()) for name, shift in SHIFT.items()}


@pytest.fixture(scope="module")
def result():
    verdicts, labels = documents(0)
    return judges.fit(verdicts, labels, num_samples=4000, seed=0)


def test_with_all_truths_known_the_variance_is_that_of_the_clusters(result):
    """Clusters of equal size: the standard error is that of a mean of their rates, s / sqrt(C)."""
    _, labels = documents(0)
    passes = (labels["verdict"] == "pass").groupby([labels["system"], labels["item"].str.split("-").str[0]]).mean()
    table = result.systems("population").set_index("system")
    from crowdppl.judges.tables.system_table import rates

    drawn = rates(result, "population")
    for s, name in enumerate(result.rated[0]):
        own = passes[name]
        assert drawn[:, s].mean() == pytest.approx(own.mean(), abs=0.005)
        assert drawn[:, s].std() == pytest.approx(own.std(ddof=1) / np.sqrt(len(own)), rel=0.06)
        assert table.loc[name, "corrected"] == pytest.approx(own.mean(), abs=0.005)
    difference = (passes["s1"] - passes["s0"]).std(ddof=1) / np.sqrt(30)
    assert (drawn[:, 1] - drawn[:, 0]).std() == pytest.approx(difference, rel=0.06)


def test_a_cluster_has_one_weight(result):
    weight = question_weights(result, "population")
    cluster = result.verdicts.clusters[result.verdicts.cluster]
    for name in ("d0", "d7"):
        own = weight[:, cluster == name]
        assert own.shape[1] == 10
        assert (own == own[:, :1]).all()
    assert question_weights(result, "items").tolist() == [[1.0] * 300]


@pytest.mark.slow
def test_intervals_contain_rates_on_further_documents():
    """Of 60 rates and 30 differences 80 at least are within their 95% intervals, which are wider as documents are stated.

    With a coverage of .95 of independent intervals, fewer are in 1% of such tests. Both systems share documents, so that
    it is more often; in 60 simulations of the guide's page the coverage is what it states.
    """
    true, covered, ignored = true_rates(), 0, 0
    widths = {"covered": [], "ignored": []}
    for seed in range(30):
        verdicts, labels = documents(100 + seed)
        human = labels.sample(100, random_state=seed)
        for table, count in ((verdicts, "covered"), (verdicts.drop(columns="cluster"), "ignored")):
            fitted = judges.fit(table, human, num_samples=400, seed=seed)
            inside = 0
            for row in fitted.systems("population").to_dict("records"):
                inside += row["corrected_low"] <= true[row["system"]] <= row["corrected_high"]
                widths[count].append(row["corrected_high"] - row["corrected_low"])
            row = fitted.comparisons("population").iloc[0]
            inside += row["difference_low"] <= true[row["system_a"]] - true[row["system_b"]] <= row["difference_high"]
            covered, ignored = (covered + inside, ignored) if count == "covered" else (covered, ignored + inside)
    assert covered >= 80
    assert ignored < covered
    assert np.mean(widths["covered"]) > 1.05 * np.mean(widths["ignored"])


def test_clusters_are_read_and_kept(result, tmp_path):
    again = judges.load(result.save(tmp_path / "r.nc"))
    pd.testing.assert_frame_equal(again.systems("population"), result.systems("population"))
    verdicts, _ = documents(0)
    verdicts.rename(columns={"cluster": "document"}).to_csv(tmp_path / "v.csv", index=False)
    read = judges.read(tmp_path / "v.csv", cluster="document")
    assert read.clusters[read.cluster].tolist() == result.verdicts.clusters[result.verdicts.cluster].tolist()
    back = judges.Verdicts.from_frame(read.to_frame())
    assert back.clusters[back.cluster].tolist() == read.clusters[read.cluster].tolist()
    assert judges.read(tmp_path / "v.csv").clusters.tolist() == []


def test_clusters_that_cannot_be_used():
    verdicts, labels = documents(0, clusters=4)
    few = judges.fit(verdicts, labels, num_samples=50)
    assert any("4 clusters of questions are too few" in sentence for sentence in few.statements)
    without = judges.fit(verdicts.drop(columns="cluster"), labels, num_samples=50)
    pd.testing.assert_frame_equal(few.systems("population"), without.systems("population"))
    two = verdicts.assign(cluster=np.where(np.arange(len(verdicts)) == 0, "other", verdicts["cluster"]))
    with pytest.raises(DataError, match=r"question 'd0-0' has the cluster 'd0', but 'other' in a row before"):
        judges.fit(two, labels)
