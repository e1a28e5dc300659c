"""Several solutions of EM: a second start that opposes the first, and the warning where both explain the annotations."""

import numpy as np
import pytest
import torch
from catalog import quiet_fit

import crowdppl.inference.engines.em
from crowdppl import Annotations
from crowdppl.inference.backends.passes import once
from crowdppl.inference.engines.solutions import Solution, different, share, warning
from crowdppl.model.bound import bind
from crowdppl.model.truths.classes import one_hot
from crowdppl.model.weighted_votes import (
    LEAST,
    _learned,
    adversarial_excess,
    competence_weights,
    mostly_adversarial,
    opposing_votes,
    rival_votes,
    weighted_votes,
)
from crowdppl.models import LIA, DawidSkene, ItemEffects

SEVERAL = "two solutions explain the annotations "


def crowd(camps, *, classes=3, seed=0, items=200, workers=20, known=0):
    """Six annotations of each item by workers who are correct with probability .8; of two camps, one says the next class."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, classes, items)
    item = np.repeat(np.arange(items), 6)
    worker = np.concatenate([rng.choice(workers, 6, replace=False) for _ in range(items)])
    meant = (truth[item] + (worker >= workers // 2) * (camps - 1)) % classes
    label = np.where(rng.random(len(item)) < 0.8, meant, rng.integers(0, classes, len(item)))
    given = {i: int(truth[i]) for i in range(known)}
    return Annotations.from_arrays(item, worker, label, labels=range(classes), truth=given), truth


def several(posterior):
    return [sentence for sentence in posterior.warnings if SEVERAL in sentence]


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(("model", "restarts"), [(DawidSkene(), 1), (ItemEffects(), 0), (ItemEffects(), 1)])
def test_two_camps_are_two_solutions(model, restarts, classes):
    options = {"method": "em", "restarts": restarts, "num_samples": 2}
    (sentence,) = several(quiet_fit(crowd(2, classes=classes)[0], model, **options))
    changed, size = (int(word) for word in sentence.split("different labels to ")[1].split(" items")[0].split(" of "))
    assert changed > 180
    assert size == 200
    assert not several(quiet_fit(crowd(1, classes=classes)[0], model, **options))


def test_known_truths_decide_between_two_camps():
    data, truth = crowd(2, known=40)
    posterior = quiet_fit(data, DawidSkene(), method="em", restarts=1, num_samples=2)
    assert posterior.info["facts"]["different_labels"] == [0.0, 0.0]
    assert not several(posterior)
    estimated = posterior.truth()["label"].to_numpy().astype(int)
    assert (estimated == truth).mean() > 0.9
    assert not several(quiet_fit(data, ItemEffects(), method="em", num_samples=2))


def test_few_experts_among_spammers(public):
    """Dawid-Skene has several solutions; item effects have one, far from the votes."""
    data = public("mace-example")[0]
    options = {"method": "em", "num_samples": 2, "seed": 1}
    one, other = (quiet_fit(data, "dawid-skene", restarts=1, **options) for _ in range(2))
    assert len(several(one)) == 1
    assert one.info["facts"] == other.info["facts"]
    assert max(one.info["facts"]["different_labels"]) > 0.2
    assert not any("several modes" in sentence for sentence in one.warnings)  # one sentence for one fact
    effects = quiet_fit(data, "item-effects", restarts=2, **options)
    assert max(effects.info["facts"]["different_labels"]) < 0.05
    assert not several(effects)
    assert any("is not that of the majority" in sentence for sentence in effects.warnings)


@pytest.mark.parametrize("name", ["bluebirds", "rte", "wsd", "labelme", "ducks"])
def test_public_crowds_have_one_solution(name, public):
    data = public(name)[0]
    assert not several(quiet_fit(data, "dawid-skene", method="em", restarts=1, num_samples=2))
    assert rival_votes(data, weighted_votes(data)) is None


def test_starts_share_what_the_first_learned_by_empirical_bayes():
    data = crowd(1)[0]
    posterior = quiet_fit(data, ItemEffects(), method="em", restarts=2, num_samples=2)
    ends = posterior.info["facts"]["restarts"]
    assert ends == pytest.approx([ends[0]] * 3, abs=0.05)
    alone = quiet_fit(data, ItemEffects(), method="em", num_samples=2)
    for name in ("crowd_mean", "crowd_precision"):
        np.testing.assert_allclose(posterior.tree["point"][name], alone.tree["point"][name], rtol=1e-9)


def test_opposing_votes_by_hand():
    """Two classes; workers a and b agree with the solution always and half of the time: weights .02 and 1.02."""
    data = Annotations.from_arrays([0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 1, 0], labels=[0, 1])
    votes = opposing_votes(data, torch.eye(2, dtype=torch.float64))
    torch.testing.assert_close(votes[0], torch.tensor([1.0, 0.0], dtype=torch.float64))
    torch.testing.assert_close(votes[1], torch.tensor([1.02, 0.02], dtype=torch.float64) / 1.04)
    known = Annotations.from_arrays([0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 1, 0], labels=[0, 1], truth={1: 1})
    votes = opposing_votes(known, torch.eye(2, dtype=torch.float64))
    torch.testing.assert_close(votes[1], torch.tensor([0.0, 1.0], dtype=torch.float64))


def test_rival_votes_are_those_of_the_other_camp():
    data, truth = crowd(2)
    votes = weighted_votes(data)
    rival = rival_votes(data, votes)
    accuracies = sorted(float((v.argmax(-1).numpy() == truth).mean()) for v in (votes, rival))
    assert accuracies[0] < 0.1
    assert accuracies[1] > 0.9
    assert rival_votes(*(lambda one: (one, weighted_votes(one)))(crowd(1)[0])) is None


def adversaries(share, classes, *, spread, seed=1):
    """A share of workers is always incorrect: by any class, or by that after the true one; the others are of .8 in the mean."""
    g = np.random.default_rng(seed)
    truth = g.integers(0, classes, 300)
    correct = g.random((300, 20)) < (g.uniform(0.5, 0.9, 20) if spread else 0.8)
    label = (truth[:, None] + np.where(correct, 0, g.integers(1, classes, (300, 20)))) % classes
    bad = round(20 * share)
    label[:, :bad] = (truth[:, None] + (g.integers(1, classes, (300, bad)) if spread else 1)) % classes
    item, worker = np.nonzero(g.permuted(np.tile(np.arange(20) < 6, (300, 1)), axis=1))
    return Annotations.from_arrays(item, worker, label[item, worker], labels=range(classes)), truth


@pytest.mark.parametrize("share", [0.4, 0.45])
@pytest.mark.parametrize("classes", [3, 4])
def test_adversarial_workers_who_agree_perfectly_do_not_win(share, classes):
    """A large minority always names the class after the true one; the others are right on four items in five."""
    data, truth = adversaries(share, classes, spread=False)
    assert (weighted_votes(data).argmax(-1).numpy() == truth).mean() > 0.85
    posterior = quiet_fit(data, independent=False, num_samples=2)
    assert (posterior.probability().argmax(1) == truth).mean() > 0.95
    one, other = (one_hot(torch.from_numpy((truth + shift) % classes), data) for shift in (0, 1))
    assert mostly_adversarial(data, other)
    assert not mostly_adversarial(data, one)
    (sentence,) = warning(Solution(-1000.0, one), [Solution(-980.0, other)], data)
    assert "nearly as well, with log posteriors 20 apart (log posterior -1000.0, reported" in sentence
    why = "since by it most workers are competent, and adversarial by the other; "
    assert f"that with the lower log posterior is reported, {why}" in sentence


@pytest.mark.parametrize(("share", "classes"), [(0.5, 3), (0.55, 5), (0.6, 5), (0.7, 10)])
def test_adversarial_workers_who_name_any_class_leave_the_first_solution(share, classes):
    """They may be most of the workers: votes are correct, and so are labels."""
    for seed in range(3):
        data, truth = adversaries(share, classes, spread=True, seed=seed)
        first = list(_learned(data, data.majority()))[-1].clamp(min=LEAST)
        torch.testing.assert_close(competence_weights(data), first, rtol=0, atol=0)
        assert not mostly_adversarial(data, one_hot(torch.from_numpy(truth), data))
        assert classes == 3 or (weighted_votes(data).argmax(-1).numpy() == truth).mean() > 0.65


def test_labels_beside_many_who_name_any_incorrect_class():
    data, truth = adversaries(0.55, 5, spread=True)
    posterior = quiet_fit(data, independent=False, num_samples=2)
    assert (posterior.probability().argmax(1) == truth).mean() > 0.8
    assert not any("adversarial by the other" in sentence for sentence in posterior.warnings)


def test_which_solution_has_more_adversarial_workers():
    """Annotations count: two by an adversarial worker, three by a competent one, and any number by one who guesses."""
    item, worker = [0, 1, 0, 1, 2, 0, 1, 2], [0, 0, 1, 1, 1, 2, 2, 2]
    data = Annotations.from_arrays(item, worker, [0] * 8, labels=range(3))
    competence = torch.tensor([-0.3, 0.5, 0.1], dtype=torch.float64)  # the margin is .125
    assert adversarial_excess(competence, data) == -1
    assert adversarial_excess(-competence, data) == 1


def test_ties_known_truths_and_items_without_annotations_do_not_differ():
    item = np.repeat(np.arange(60), 2)
    data = Annotations.from_arrays(
        item, np.tile([0, 1], 60), np.zeros(120, int), labels=[0, 1], items=range(62), truth={0: 0}
    )
    first = torch.tensor([1.0, 0.0], dtype=torch.float64).repeat(62, 1)
    other = first.clone()
    other[:10] = torch.tensor([0.0, 1.0], dtype=torch.float64)
    other[10:20] = 0.5
    one, two = Solution(-100.0, first), Solution(-101.0, other)
    assert different(one, two, data) == (9, 59)
    assert share(one, two, data) == pytest.approx(9 / 59)
    (sentence,) = warning(one, [two], data)
    assert sentence.startswith(f"{SEVERAL}about equally well (log posterior -100.0, reported, and -101.0)")
    assert "to 9 of 59 items: the annotations alone" in sentence
    (behind,) = warning(one, [Solution(-104.5, other)], data)
    assert "nearly as well, with log posteriors 4 apart (log posterior -100.0, reported, and -104.5)" in behind
    assert "is reported, since" not in behind
    (ahead,) = warning(one, [Solution(-95.5, other)], data)
    assert (
        "lower log posterior is reported, since it agrees with the votes weighted by competence; the annotations"
        in ahead
    )
    assert warning(one, [Solution(-200.0, other)], data) == []  # explains the annotations less well
    other[4:] = first[4:]
    assert warning(one, [two], data) == []  # labels of few items differ


@pytest.mark.slow
def test_solutions_of_a_model_in_which_an_item_has_several_truths(monkeypatch):
    """What is compared is what is reported: the mean over the cells of an item."""
    data, compared = crowd(1, items=30)[0], []
    compare = crowdppl.inference.engines.em.solution
    monkeypatch.setattr(
        crowdppl.inference.engines.em, "solution", lambda *given: compared.append(compare(*given)) or compared[-1]
    )
    options = {"max_iter": 4, "steps": 5, "num_samples": 2}
    posterior = quiet_fit(data, LIA(hidden=(3,)), method="em", restarts=1, **options)
    facts = posterior.info["facts"]
    assert len(facts["different_labels"]) == len(compared) - 1 == 2
    torch.testing.assert_close(compared[0].probability, torch.as_tensor(posterior.probability()), atol=1e-6, rtol=0)


def test_compiled_passes_leave_anchored_data_alone():
    """They know no anchor, however large the data."""
    data = crowd(1)[0]
    assert once(data)
    assert not once(bind(ItemEffects(), data).anchored(data))
