"""Verdicts where there is little to judge by: few annotations, crowds without agreement, many workers, a few busy ones."""

import numpy as np
import pandas as pd
from crowds import fitted

import crowdppl
from crowdppl.posterior import workers
from crowdppl.posterior.workers.verdicts import FEW, MIN_ANNOTATIONS


def crowd(rng, items, per_item, number, correct, shares):
    """Workers of equal accuracy who label random items."""
    K = len(shares)
    truth = rng.choice(K, items, p=shares)
    item = np.repeat(np.arange(items), per_item)
    worker = np.concatenate([rng.choice(number, per_item, replace=False) for _ in range(items)])
    wrong = (truth[item] + rng.integers(1, K, len(item))) % K
    label = np.where(rng.random(len(item)) < correct, truth[item], wrong)
    return pd.DataFrame({"task": item, "worker": worker, "label": label})


def known(frame, truth):
    """Fit with all true labels known."""
    data = crowdppl.Annotations.from_frame(frame.assign(gold=truth[frame["task"]]), truth="gold")
    return crowdppl.fit(data, "dawid-skene", method="em", seed=0, num_samples=100)


def test_honest_workers_of_three_to_five_annotations_are_not_excluded():
    """Of about 1,500 honest workers with four annotations on average, at most five are to be excluded or retrained."""
    alarms = 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        table = fitted(crowd(rng, 300, 4, 300, 0.8, [0.4, 0.3, 0.3]), num_samples=100, seed=seed).workers()
        few = table[table["annotations"] < MIN_ANNOTATIONS]
        assert not few["verdict"].isin(["hasty", "weak", "confuses"]).any()
        excluded = few["verdict"].isin(["random", "constant", "adversarial"])
        assert (few[["spammer", "adversarial"]].sum(axis=1)[excluded] >= FEW - 1e-9).all()
        alarms += excluded.sum()
    assert alarms <= 5


def test_nobody_is_reliable_in_a_crowd_of_random_workers():
    """The labels of 10 crowds are drawn without a look at the item: nothing can be said for anybody."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        K = 2 + seed % 3
        frame = crowd(rng, 150, 4, 12, 1 / K, np.full(K, 1 / K))
        verdicts = fitted(frame, num_samples=100, seed=seed).workers()["verdict"]
        assert not verdicts.isin(["reliable", "fair"]).any(), (seed, verdicts.tolist())


def test_workers_who_always_differ_do_not_hide_the_agreement_of_others():
    """Ten honest workers and four who give the wrong one of two classes: on average pairs agree little more than by chance."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 150)
    rows = []
    for i in range(150):
        for j in rng.choice(14, 4, replace=False):
            right = rng.random() < (0.8 if j < 10 else 0.97)
            rows.append(
                (i, f"{'honest' if j < 10 else 'adversary'} {j}", truth[i] if right == (j < 10) else 1 - truth[i])
            )
    table = (
        fitted(pd.DataFrame(rows, columns=["task", "worker", "label"]), num_samples=100).workers().set_index("worker")
    )
    assert (table["verdict"].filter(like="adversary") == "adversarial").all()
    assert table["verdict"].filter(like="honest").isin(["reliable", "fair"]).sum() >= 8


def test_honest_workers_of_rare_classes_are_not_said_to_confuse():
    """Classes of .95 and .05, workers of .9: of 400 workers at most 2% are said to confuse classes."""
    confuses = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        frame = crowd(rng, 600, 5, 40, 0.9, [0.95, 0.05])
        confuses += (fitted(frame, num_samples=100, seed=seed).workers()["verdict"] == "confuses").sum()
    assert confuses <= 8


def test_a_guideline_that_busy_workers_misread():
    """Three of 15 workers give most annotations, and a class another label: most annotations go astray, few workers err."""
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 3, 300)
    rows = []
    for j in range(15):
        busy = j < 3
        for i in rng.choice(300, 200 if busy else 20, replace=False):
            astray = busy and truth[i] == 2 and rng.random() < 0.45
            rows.append((i, f"w{j}", 1 if astray or rng.random() < 0.03 else truth[i]))
    frame = pd.DataFrame(rows, columns=["task", "worker", "label"])
    posterior = known(frame, truth)
    table = workers.crowd_confusions(posterior)
    assert table[["truth", "label"]].to_numpy().tolist() == [[2, 1]]
    assert table["workers"][0] < table["asked"][0] / 2
    # One worker alone is no guideline.
    alone = frame[(frame["worker"] != "w1") & (frame["worker"] != "w2")]
    assert workers.crowd_confusions(known(alone, truth)).empty
