"""Workers who give the same answers are named, honest ones are not."""

import numpy as np
import pytest
import torch
from catalog import quiet_fit

import crowdppl
from crowdppl import Annotations, report
from crowdppl.data.alerts import SAME_ANSWERS
from crowdppl.data.beyond_accuracy import as_others_say
from crowdppl.data.copies import Copies, copied_answers, one_of_each
from crowdppl.errors import silent
from crowdppl.inference.stored import data_of


def crowd(seed, *, items=300, honest=4, copies=3, share=1.0, classes=3, experts=0, easy=False):
    """Labels by honest workers, and by workers who copy one of accuracy .7 with the given probability.

    ``experts`` of the honest ones have accuracy .97. Where ``easy``, the first two workers see easy items only.
    """
    rng = np.random.default_rng(seed)
    truth = rng.integers(classes, size=items)
    hard = rng.random(items) < 0.5

    def person(accuracy):
        return np.where(rng.random(items) < accuracy, truth, rng.integers(classes, size=items))

    said = [person(0.97 if j < experts else 0.7) for j in range(honest)]
    if easy:
        said = [np.where(hard, labels, truth) for labels in said]
    source = person(0.55)
    said += [np.where(rng.random(items) < (share if n else 1.0), source, person(0.55)) for n in range(copies)]
    item, worker = np.tile(np.arange(items), len(said)), np.repeat(np.arange(len(said)), items)
    keep = ~(easy & (worker < 2) & hard[item])
    return Annotations.from_arrays(item[keep], worker[keep], np.concatenate(said)[keep], labels=range(classes))


def groups(data):
    return [group.workers for group in copied_answers(data)]


@pytest.mark.parametrize(
    ("share", "copies", "honest"), [(1.0, 3, 4), (1.0, 2, 5), (1.0, 4, 26), (0.85, 3, 4), (0.85, 4, 26)]
)
def test_copies_are_named(share, copies, honest):
    """In 19 of 20 crowds at least: a power of .95 fails so with probability .26, of .99 with .02 (binomial)."""
    expected = [tuple(range(honest, honest + copies))]
    named = [groups(crowd(seed, share=share, copies=copies, honest=honest)) == expected for seed in range(20)]
    assert sum(named) >= 19


@pytest.mark.parametrize("options", [{}, {"experts": 3}, {"easy": True}, {"classes": 2}, {"classes": 2, "experts": 2}])
def test_honest_workers_are_not_named(options):
    """In none of 30 crowds; one is named in a crowd with probability .01 at most, and here far less often."""
    assert not any(groups(crowd(seed, copies=0, honest=8, **options)) for seed in range(30))


def test_a_third_account_joins_by_the_answers_of_the_group():
    """Four accounts of thirty, 85% of the answers copied, 200 items: no pair of some of them is clear enough by itself."""
    expected = [(26, 27, 28, 29)]
    named = [groups(crowd(seed, items=200, share=0.85, copies=4, honest=26)) == expected for seed in range(20)]
    assert sum(named) >= 16  # a power of .95 fails with probability .003


def test_workers_with_a_strict_criterion_are_not_named():
    """Two of eight raters whose threshold is higher than everybody else's, as on items of which the others say the same."""
    for seed in range(15):
        rng = np.random.default_rng(seed)
        place = rng.normal(size=300)
        said = [place + 0.6 * rng.normal(size=300) > (1.0 if j < 2 else -0.5) for j in range(8)]
        item, worker = np.tile(np.arange(300), 8), np.repeat(np.arange(8), 300)
        assert not groups(Annotations.from_arrays(item, worker, np.concatenate(said).astype(int), labels=range(2)))


def fine_grained(seed, *, copies=0, classes=8):
    """Five workers who know eight classes, three who merge them in pairs; and copies of the first, all of them of accuracy .9."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(classes, size=600)
    correct = rng.random((8, 600)) < 0.9
    label = np.where(correct, truth, (truth + rng.integers(1, classes, (8, 600))) % classes)
    label[5:] -= label[5:] % 2
    label = np.concatenate([label, np.tile(label[0], (copies, 1))])
    worker, item = np.divmod(np.arange(label.size), 600)
    return Annotations.from_arrays(item, worker, label.ravel(), labels=range(classes)), truth


def test_workers_who_tell_apart_what_others_merge_are_not_named():
    """They agree on labels that the others never give; a copy among them is named all the same."""
    for seed in range(5):
        data, truth = fine_grained(seed)
        assert groups(data) == []
    assert (quiet_fit(data, num_samples=2).probability().argmax(1) == truth).mean() > 0.95
    assert groups(fine_grained(0, copies=1)[0]) == [(0, 8)]


def copied_guesses(seed, *, accuracy=0.85, copies=2, share=1.0, workers=8, items=120, shares=(0.5, 0.2, *[0.0375] * 8)):
    """Honest workers, and copies of one who guesses, the first of all; one class is frequent."""
    rng = np.random.default_rng(seed)
    classes = len(shares)
    truth = rng.choice(classes, items, p=shares)
    label = np.where(rng.random((workers, items)) < accuracy, truth, rng.integers(classes, size=(workers, items)))
    label[:copies] = rng.integers(classes, size=(copies, items))
    label[1:copies] = np.where(rng.random((copies - 1, items)) < share, label[0], label[1:copies])
    worker, item = np.divmod(np.arange(label.size), items)
    return Annotations.from_arrays(item, worker, label.ravel(), labels=range(classes))


@pytest.mark.parametrize("share", [1.0, 0.85])
@pytest.mark.parametrize("accuracy", [0.85, 0.95])
def test_copies_of_a_guess_are_named_and_nobody_beside_them(share, accuracy):
    """The others call most of their labels by the frequent class; and agree with each other, and not at all with the copies."""
    for seed in range(10):
        assert groups(copied_guesses(seed, share=share, accuracy=accuracy)) == [(0, 1)]
    named = [groups(copied_guesses(seed, share=share, accuracy=accuracy, copies=3)) for seed in range(10)]
    assert all(one in ([(0, 1, 2)], [(0, 1)], [(0, 2)]) for one in named)
    assert named.count([(0, 1, 2)]) >= 8  # of .97 or more: fails with probability .003


def test_the_smaller_group_has_copied_or_neither():
    """Of seven: three whose labels are equal throughout, beside four; four beside three are named, or are not told apart."""
    shares = [1 / 3] * 3
    for seed in range(5):
        assert groups(copied_guesses(seed, copies=3, workers=7, accuracy=0.92, shares=shares)) == [(0, 1, 2)]
        assert groups(copied_guesses(seed, copies=4, workers=7, accuracy=0.8, shares=shares)) in ([], [(0, 1, 2, 3)])
        assert groups(copied_guesses(seed, copies=4, workers=7, accuracy=0.92, share=0.85, shares=shares)) == []


@pytest.mark.parametrize(("copies", "classes"), [(3, 2), (4, 2), (3, 10), (4, 10)])
def test_half_of_a_crowd_is_not_named_where_the_other_half_agrees_as_often(copies, classes):
    """Of seven, three or four who copy 85% of a guess, beside others of .95: these are not taken for the copies."""
    shares = [1 / classes] * classes
    named = [
        groups(copied_guesses(s, copies=copies, workers=7, accuracy=0.95, share=0.85, shares=shares)) for s in range(10)
    ]
    assert sum(any(max(group) >= copies for group in one) for one in named) <= 1


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_workers_who_agree_beside_two_who_are_misled_are_not_named(classes):
    """Six of .95 agree far more often than with the two, who agree on errors: all that is left to compare six with."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        truth, hard = rng.integers(classes, size=120), rng.random(120) < 0.5
        label = np.where(rng.random((8, 120)) < 0.95, truth, rng.integers(classes, size=(8, 120)))
        label[:2] = np.where(hard & (rng.random((2, 120)) < 0.8), (truth + 1) % classes, label[:2])
        worker, item = np.divmod(np.arange(label.size), 120)
        named = groups(Annotations.from_arrays(item, worker, label.ravel(), labels=range(classes)))
        assert named in ([], [(0, 1)])


def test_what_the_others_call_a_label():
    """By hand: another label only where the others surely give it more often, and something is left to compare."""
    others = np.zeros((60, 4))
    first = np.repeat([0, 1, 2], 20)
    others[:20, 0], others[20:40, 0], others[40:, 2] = 3, 3, 3
    np.testing.assert_array_equal(as_others_say(first, first, others), [0, 0, 2, 3])
    others[20:40, 1] = 2.5  # 100 and 120 of both workers: less than two standard errors apart
    assert as_others_say(first, first, others) is None
    others[20:40, 1] = 0
    assert as_others_say(first[:40], first[:40], others[:40]) is None  # all are called by one
    others[20:40], others[20:40, 0], others[20:30, 3] = (
        0,
        3,
        4,
    )  # .71 of what is said of half of the items: no sure majority
    assert as_others_say(first, first, others) is None
    others[:], others[:, 0] = 0, 3  # as often elsewhere
    assert as_others_say(first, first, others) is None


def test_experts_among_workers_who_guess_are_not_named():
    """The others do not agree: nothing tells accuracy from copying."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        truth = rng.integers(2, size=300)
        knows = np.where(np.arange(12) < 2, 0.97, 0.05)[:, None]
        label = np.where(rng.random((12, 300)) < knows, truth, rng.integers(2, size=(12, 300)))
        worker, item = np.divmod(np.arange(label.size), 300)
        assert groups(Annotations.from_arrays(item, worker, label.ravel(), labels=range(2))) == []


def test_a_popular_wrong_answer_is_no_copy():
    for seed in range(30):
        rng = np.random.default_rng(seed)
        truth, hard = rng.integers(3, size=300), rng.random(300) < 0.3
        label = np.where(rng.random((12, 300)) < 0.85, truth, rng.integers(3, size=(12, 300)))
        label = np.where(hard & (rng.random((12, 300)) < 0.8), (truth + 1) % 3, label)
        worker, item = np.divmod(np.arange(label.size), 300)
        assert groups(Annotations.from_arrays(item, worker, label.ravel(), labels=range(3))) == []


def test_constant_labels_are_no_copies():
    """Workers who always give one label agree by chance."""
    data = crowd(0, copies=0, honest=6)
    label = np.where(data.worker.numpy() >= 4, 0, data.label.numpy())
    assert groups(Annotations.from_arrays(data.item.numpy(), data.worker.numpy(), label, labels=range(3))) == []


def test_too_little_to_tell():
    """Few common items, three workers, and items that nobody else annotated."""
    assert groups(crowd(0, items=15)) == []
    assert groups(crowd(0, honest=1, copies=2)) == []
    item, worker = np.tile(np.arange(100), 2), np.repeat([0, 1], 100)
    alone = np.concatenate([item, np.tile(np.arange(100, 200), 2)]), np.concatenate([worker, worker + 2])
    assert groups(Annotations.from_arrays(*alone, np.tile(np.arange(100) % 3, 4), labels=range(3))) == []


def test_a_fit_warns_of_copies():
    posterior = quiet_fit(crowd(1), "dawid-skene", seed=0)
    (sentence,) = [text for text in posterior.warnings if text.startswith(SAME_ANSWERS)]
    assert "4, 5, 6" in sentence
    assert "900 of 900" in sentence
    assert "counts one of them" in sentence
    assert sentence in posterior.alerts
    assert not any(
        text.startswith(SAME_ANSWERS) for text in quiet_fit(crowd(1, copies=0), "dawid-skene", seed=0).warnings
    )


def test_one_of_each_group_is_kept():
    """Each item keeps the labels of one member, all members keep a share, and nothing else is touched."""
    data = crowd(1)
    again = data.keep(torch.arange(data.A) < data.A - 60)
    kept, aside = one_of_each(again, [Copies((4, 5, 6), 0, 0)])
    assert kept.A + aside.A == again.A
    inside = np.isin(kept.worker.numpy(), (4, 5, 6))
    assert np.bincount(kept.item.numpy()[inside], minlength=300).max() == 1
    assert set(kept.item.numpy()[inside]) == set(again.item.numpy()[np.isin(again.worker.numpy(), (4, 5, 6))])
    assert np.isin(aside.worker.numpy(), (4, 5, 6)).all()
    # Each member keeps a third: 100 of 300, within four standard deviations.
    assert np.abs(np.bincount(kept.worker.numpy())[4:] - 100).max() < 4 * (300 * 2 / 9) ** 0.5 + 20


def test_who_is_kept_does_not_depend_on_the_order_of_rows():
    data = crowd(1)
    order = np.random.default_rng(0).permutation(data.A)
    parts = [part.numpy()[order] for part in (data.item, data.worker, data.label)]
    other = Annotations.from_arrays(*parts, labels=range(3))
    cells = []
    for one in (data, other):
        kept, _ = one_of_each(one, [Copies((4, 5, 6), 0, 0)])
        cells.append(sorted(zip(kept.item.tolist(), kept.worker.tolist(), strict=True)))
    assert cells[0] == cells[1]


def test_repeated_annotations_of_a_member_stay_together():
    item, worker, label = np.repeat(np.arange(50), 4), np.tile([0, 0, 1, 1], 50), np.tile([0, 1, 1, 0], 50)
    data = Annotations.from_arrays(item, worker, label, labels=range(2))
    kept, aside = one_of_each(data, [Copies((0, 1), 0, 0)])
    assert (np.bincount(kept.item.numpy(), minlength=50) == 2).all()
    assert aside.A == 100


def test_copies_do_not_outvote_others():
    """Within a point of the labels without the group in the mean of six crowds; counting all loses more than ten points."""
    correct = {"one": [], "all": [], "none": []}
    for seed in range(6):
        data, truth = crowd(seed, items=150), np.random.default_rng(seed).integers(3, size=150)
        fits = {
            "one": quiet_fit(data, seed=0),
            "all": quiet_fit(data, seed=0, copies="all"),
            "none": quiet_fit(data.keep(data.worker < 4), seed=0),
        }
        for name, posterior in fits.items():
            correct[name].append((posterior.probability().argmax(1) == truth).mean())
    assert np.mean(correct["one"]) >= np.mean(correct["none"]) - 0.01
    assert np.mean(correct["all"]) < np.mean(correct["one"]) - 0.1


def test_a_group_that_others_disagree_with_may_know_better():
    """Copies of one who knows the answers, beside workers who share their errors: all of them count unless one is asked for."""
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=400)
    shared = np.where(rng.random(400) < 0.6, truth, 1 - truth)
    label = np.where(rng.random((12, 400)) < 0.78, shared, 1 - shared)
    label[:3] = np.where(rng.random((3, 400)) < 0.98, np.where(rng.random(400) < 0.95, truth, 1 - truth), label[:3])
    worker, item = np.divmod(np.arange(label.size), 400)
    (group,) = copied_answers(Annotations.from_arrays(item, worker, label.ravel(), labels=range(2)))
    assert group.workers == (0, 1, 2)
    assert not group.counts_once(None)
    assert group.counts_once("one")


@pytest.mark.parametrize("method", ["em", "gibbs"])
def test_nothing_is_lost(method, tmp_path):
    """Tables count what was set aside; it survives a file, a check of the fit, and an update, which equals a fit of all."""
    data = crowd(1)
    options = {"num_samples": 50} | ({"warmup": 50, "chains": 1} if method == "gibbs" else {})
    posterior = quiet_fit(data, "dawid-skene", method=method, seed=0, **options)
    assert posterior.info["counts"]["set_aside"] == 600
    loaded = crowdppl.load(posterior.save(tmp_path / "posterior.nc"))
    assert loaded.annotations_per_worker().tolist() == [300] * 7
    assert loaded.workers()["annotations"].tolist() == [300] * 7
    assert "7 workers gave 2,100 annotations to 300 items in 3 classes, of which 600 of workers" in report.page(loaded)
    whole = data_of(loaded, aside=True)
    names = ("item", "worker", "label")
    rows = [set(zip(*(getattr(one, name).tolist() for name in names), strict=True)) for one in (data, whole)]
    assert rows[0] == rows[1]
    assert data_of(loaded).A == data.A - 600
    assert crowdppl.criticism.replicates(posterior, 2, data=data)[0][0].shape == (data.A - 600,)
    if method == "em":
        first = quiet_fit(data.batch(torch.arange(200)), "dawid-skene", method="em", seed=0)
        with silent():
            updated = crowdppl.update(first, data.batch(torch.arange(200, 300)))
        assert updated.info["counts"]["set_aside"] == 600
        np.testing.assert_allclose(updated.probability(), posterior.probability(), atol=1e-3)


def test_all_are_counted_on_request():
    posterior = quiet_fit(crowd(1), "dawid-skene", seed=0, copies="all")
    assert "set_aside" not in posterior.info["counts"]
    assert "copies='one'" in posterior.alerts[-1]


def test_a_group_among_workers_who_hardly_agree_is_counted_in_full():
    """Labels do not tell whether such a group copies or knows better; the caller decides."""
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=600)
    knows = np.where(np.arange(12) < 3, 0.95, 0.4)[:, None]
    label = np.where(rng.random((12, 600)) < knows, truth, rng.integers(2, size=(12, 600)))
    label[1:3] = label[0]
    worker, item = np.divmod(np.arange(label.size), 600)
    data = Annotations.from_arrays(item, worker, label.ravel(), labels=range(2))
    (group,) = copied_answers(data)
    assert group.workers == (0, 1, 2)
    assert abs(group.others.value - 0.16) < 4 * group.others.error  # nine workers who know with probability .4
    posterior = quiet_fit(data, "dawid-skene", seed=0)
    assert "set_aside" not in posterior.info["counts"]
    assert "agrees too little" in posterior.alerts[-1]
    assert quiet_fit(data, "dawid-skene", seed=0, copies="one").info["counts"]["set_aside"] == 1_200
