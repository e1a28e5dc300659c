"""Sets of labels that depend on each other by clusters: posterior, likelihood, draws and gradients against enumeration."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch

import crowdppl
from crowdppl import Annotations
from crowdppl.errors import DataError, ModelError, silent
from crowdppl.model.bound import bind
from crowdppl.model.choice_rates import ChoicePrior, Decisions, drawn, raised
from crowdppl.model.coupling import item_log_joint
from crowdppl.model.label_mixture import LabelMixture
from crowdppl.models import LabelSets

L, S, C, G = 3, 2, 2, 4


def sets(tasks=G, workers=3, labels=L, seed=0):
    """Return annotations of sets of labels, at random."""
    rng = np.random.default_rng(seed)
    names = [f"l{n}" for n in range(labels)]
    rows = [(g, f"w{j}", [name for name in names if rng.random() < 0.4]) for g in range(tasks) for j in range(workers)]
    frame = pd.DataFrame(rows, columns=["task", "worker", "label"])
    with silent():
        return Annotations.from_frame(frame, several="sets", labels=names)


def mixture(seed=0, clusters=C):
    generator = torch.Generator().manual_seed(seed)
    share, rate = torch.rand(clusters, generator=generator), torch.rand(clusters, L, S, generator=generator)
    return LabelMixture(share.double().log_softmax(-1), rate.double().log_softmax(-1))


def likelihoods(seed=1):
    return 2 * torch.randn(G * L, S, generator=torch.Generator().manual_seed(seed)).double()


def enumerated(logs, coupling):
    """Return log joint ``(G, C, 2^L)`` and the states of each set ``(2^L, L)``."""
    every = torch.tensor(list(product(range(S), repeat=L)))
    tasks = logs.view(G, L, S)
    joint = torch.stack(
        [
            torch.stack(
                [
                    coupling.share[c] + sum(coupling.rate[c, n, z] + tasks[:, n, z] for n, z in enumerate(states))
                    for states in every.tolist()
                ],
                -1,
            )
            for c in range(len(coupling.share))
        ],
        -2,
    )
    return joint, every


@pytest.mark.parametrize("block", [1, 2**22])
def test_smoothing_equals_all_sets(monkeypatch, block):
    monkeypatch.setattr("crowdppl.model.label_mixture.BLOCK", block)
    data, coupling, logs = sets(), mixture(), likelihoods()
    joint, every = enumerated(logs, coupling)
    out = coupling.smooth(logs, data)
    likelihood = joint.flatten(1).logsumexp(-1)
    torch.testing.assert_close(out.log_likelihood.view(G, L).sum(-1), likelihood, rtol=0, atol=1e-12)
    weight = (joint - likelihood[:, None, None]).exp()  # (G, C, 2^L)
    torch.testing.assert_close(out.clusters, weight.sum((0, 2)), rtol=0, atol=1e-12)
    for n in range(L):
        on = weight[..., every[:, n] == 1].sum(-1)  # (G, C)
        torch.testing.assert_close(out.probability.view(G, L, S)[:, n, 1], on.sum(-1), rtol=0, atol=1e-12)
        torch.testing.assert_close(out.states[:, n, 1], on.sum(0), rtol=0, atol=1e-12)
    torch.testing.assert_close(out.states.sum(-1), out.clusters[:, None].expand(C, L), rtol=0, atol=1e-12)
    states = torch.tensor([1, 0, 1]).repeat(G)
    wanted = weight[..., (every == torch.tensor([1, 0, 1])).all(-1)].sum((1, 2))
    torch.testing.assert_close(coupling.probability_of(states, logs), wanted, rtol=0, atol=1e-12)
    # Log-likelihoods of the first labels are those of sets that have no others.
    first = torch.cat([logs.view(G, L, S)[:, :1], torch.zeros(G, L - 1, S).double()], 1).view(-1, S)
    alone = enumerated(first, coupling)[0].flatten(1).logsumexp(-1)
    torch.testing.assert_close(out.log_likelihood.view(G, L)[:, 0], alone, rtol=0, atol=1e-12)


def test_leading_axes_are_separate():
    data, logs = sets(), torch.stack([likelihoods(1), likelihoods(2)])
    one, other = mixture(0), mixture(1)
    both = LabelMixture(torch.stack([one.share, other.share]), torch.stack([one.rate, other.rate]))
    out = both.smooth(logs, data)
    for n, each in enumerate((one, other)):
        for value, wanted in zip(out, each.smooth(logs[n], data), strict=True):
            torch.testing.assert_close(value[n], wanted, rtol=0, atol=1e-13)
        torch.testing.assert_close(both.marginals(data)[n], each.marginals(data), rtol=0, atol=1e-13)
        torch.testing.assert_close(both.prevalence(data)[n], each.prevalence(data), rtol=0, atol=1e-13)


def test_gradients_are_those_of_the_enumeration():
    data, logs = sets(), likelihoods().requires_grad_()
    share, rate = (value.clone().requires_grad_() for value in mixture())
    coupling = LabelMixture(share, rate)
    inputs = (logs, share, rate)
    total = item_log_joint(coupling.smooth(logs, data)).logsumexp(-1).sum()
    wanted = enumerated(logs, coupling)[0].flatten(1).logsumexp(-1).sum()
    for got, own in zip(torch.autograd.grad(total, inputs), torch.autograd.grad(wanted, inputs), strict=True):
        torch.testing.assert_close(got, own, rtol=1e-11, atol=1e-11)


def test_draws_have_the_posterior():
    """Shares of all sets in 20,000 draws, within 5 standard errors: one of 32 is outside in 1 of 50,000 seeds."""
    data, coupling, logs = sets(), mixture(), likelihoods()
    joint, every = enumerated(logs, coupling)
    wanted = joint.logsumexp(1).softmax(-1)  # (G, 2^L)
    count = 20_000
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        both = LabelMixture(coupling.share.expand(count, -1), coupling.rate.expand(count, -1, -1, -1))
        states = both.draw_states(logs.expand(count, -1, -1), data).view(count, G, L)
    code = (states * torch.tensor([4, 2, 1])).sum(-1)
    assert (every * torch.tensor([4, 2, 1])).sum(-1).tolist() == list(range(8))
    for g in range(G):
        share = torch.bincount(code[:, g], minlength=8).double() / count
        off = (share - wanted[g]).abs() / (wanted[g] * (1 - wanted[g]) / count).sqrt()
        assert off.max() < 5


def test_a_known_set_is_certain():
    data, coupling = sets(), mixture()
    logs = likelihoods().view(G, L, S).clone()
    logs[0, :, 0] = -torch.inf
    out = coupling.smooth(logs.view(-1, S), data)
    assert out.probability.view(G, L, S)[0, :, 1].tolist() == pytest.approx([1.0] * L, abs=1e-12)
    assert bool(torch.isfinite(out.log_likelihood).all())
    with torch.random.fork_rng(devices=[]):
        assert coupling.draw_states(logs.view(-1, S), data)[:L].tolist() == [1] * L


# ---------------------------------------------------------------------- the model


@pytest.mark.parametrize("clusters", [1, 3])
def test_em_rises_to_the_mode(clusters):
    """No step falls, and at the end the gradient of the log posterior by every free number is 0."""
    data = sets(tasks=25, workers=4)
    model = LabelSets(clusters=clusters)
    with silent():
        posterior = crowdppl.fit(data, model, method="em", tol=1e-13, max_iter=20_000, num_samples=2, independent=True)
    bound = bind(model, data)
    point = {
        name: torch.from_numpy(posterior.tree["point"][name].to_numpy())
        for name in ("share", "rate", "crowd", "choice")
    }
    free = {
        "share": point["share"].log(),
        "rate": point["rate"].logit(),
        "crowd": point["crowd"],
        "choice": point["choice"],
    }
    free = {name: value.clone().requires_grad_() for name, value in free.items()}
    values = {**free, "share": free["share"].softmax(-1), "rate": free["rate"].sigmoid()}
    total = bound.item_log_joint(values, data).logsumexp(-1).sum() + bound.log_prior(values, data)
    # Densities of shares and rates are by the probabilities themselves.
    for gradient in torch.autograd.grad(total, list(free.values())):
        assert gradient.abs().max() < 1e-3


def test_one_cluster_is_a_model_of_each_label():
    data = sets(tasks=40, workers=4)
    options = {"method": "em", "tol": 1e-13, "max_iter": 20_000, "num_samples": 2, "independent": True}
    with silent():
        together = crowdppl.fit(data, LabelSets(clusters=1), **options).probability()[:, 1].reshape(-1, L)
        for n in range(L):
            at = data.set_label[data.item] == n
            one = Annotations.from_arrays(
                data.sequence[data.item[at]].tolist(),
                data.workers[data.worker[at].numpy()].tolist(),
                data.label[at].tolist(),
            )
            own = crowdppl.fit(one, LabelSets(clusters=1), **options).probability()[:, 1]
            np.testing.assert_allclose(together[:, n], own, atol=2e-5)


def test_clusters_learn_which_labels_go_together():
    """Labels a and b come together, c alone: one of them missed by most is found by the other."""
    rng = np.random.default_rng(0)
    truth = [{"a", "b"} if rng.random() < 0.5 else {"c"} for _ in range(200)]
    rows = [
        (g, f"w{w}", [n for n in "abc" if rng.random() < ({"a": 0.9, "b": 0.45, "c": 0.9}[n] if n in own else 0.08)])
        for g, own in enumerate(truth)
        for w in range(3)
    ]
    with silent():
        data = Annotations.from_frame(pd.DataFrame(rows, columns=["task", "worker", "label"]), several="sets")
        accuracy = {}
        for clusters in (1, 3):
            table = crowdppl.fit(data, LabelSets(clusters=clusters), method="em", num_samples=2).sets()
            accuracy[clusters] = np.mean(
                [set(own.split(";")) == one for own, one in zip(table["labels"], truth, strict=True)]
            )
    assert accuracy[3] > 0.9 > accuracy[1]


def test_the_mode_of_choices_is_found_from_far_away():
    generator = torch.Generator().manual_seed(0)
    number = torch.randint(0, 30, (5, 2, 2), generator=generator).double()
    decisions = Decisions(number, (number * torch.rand(5, 2, 2, generator=generator).double()).round())
    prior = ChoicePrior(torch.tensor([-3.0, 1.0]).double(), 1.5, 0.8)
    ends = [
        raised(torch.full((2, 2), at).double(), torch.full((5, 2, 2), -at).double(), decisions, prior, 400)
        for at in (-20.0, 20.0)
    ]
    for one, other in zip(*ends, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-9)
    crowd, logits = (value.clone().requires_grad_() for value in ends[0])
    density = (
        decisions.fit(logits).sum()
        - ((logits - crowd) / prior.spread).square().sum() / 2
        - ((crowd - prior.mean) / prior.crowd_scale).square().sum() / 2
    )
    for gradient in torch.autograd.grad(density, (crowd, logits)):
        assert gradient.abs().max() < 1e-8


def test_drawn_choices_have_their_posterior():
    """Means of 4,000 chains after 60 steps against numerical integration, within 5 standard errors of 4: 1 in 400,000 seeds."""
    decisions = Decisions(
        torch.tensor([[[20.0, 3.0]], [[2.0, 12.0]]]).double(), torch.tensor([[[1.0, 3.0]], [[1.0, 9.0]]]).double()
    )
    prior = ChoicePrior(torch.tensor([-2.0, 1.0]).double(), 1.0, 0.7)
    count = 4000
    crowd, logits = torch.zeros(count, 1, 2).double(), torch.zeros(count, 2, 1, 2).double()
    many = Decisions(*(part.expand(count, -1, -1, -1) for part in decisions))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        for _ in range(60):
            crowd, logits = drawn(crowd, logits, many, prior)
    grid = torch.linspace(-9, 9, 361).double()
    for z in range(2):
        # Given the crowd's logit workers are independent: integrate each, then the crowd's.
        off = grid[:, None] - grid[None, :]  # (x, m)
        density = -(off / prior.spread).square() / 2
        weight = torch.stack(
            [
                (decisions.chosen[j, 0, z] * grid - decisions.number[j, 0, z] * torch.nn.functional.softplus(grid))[
                    :, None
                ]
                + density
                for j in range(2)
            ]
        )  # (J, x, m)
        of_crowd = weight.logsumexp(1).sum(0) - ((grid - prior.mean[z]) / prior.crowd_scale).square() / 2
        share = of_crowd.softmax(0)
        draws = crowd[:, 0, z]
        assert abs(draws.mean() - (share * grid).sum()) < 5 * draws.std() / count**0.5
        first = (weight[0].softmax(0) * grid[:, None]).sum(0) @ share
        draws = logits[:, 0, 0, z]
        assert abs(draws.mean() - first) < 5 * draws.std() / count**0.5


def test_other_classes_are_refused():
    with silent():
        data = Annotations.from_arrays([0, 0, 1, 1, 2, 2], list("uvuvuv"), list("abcabc"))
    with pytest.raises(ModelError, match=r"3 classes; read sets of labels with several='sets'"):
        crowdppl.fit(data, "label-sets")
    for bad in (
        {"crowd_mean": (1.0,)},
        {"crowd_mean": (1.0, "x")},
        {"clusters": 0},
        {"spread": 0.0},
        {"prior_absent": -1.0},
    ):
        with pytest.raises(ModelError, match=next(iter(bad))):
            LabelSets(**bad)


def test_simulated_sets_follow_the_model():
    """Shares of labels and of choices at given parameters, within 4 standard errors."""
    tasks = 3000
    values = {
        "share": np.array([0.3, 0.7]),
        "rate": np.array([[0.9, 0.8], [0.1, 0.2]]),
        "crowd": np.zeros((2, 2)),
        "choice": np.array([[[-2.0, 1.0], [-1.0, 2.0]], [[-3.0, 0.0], [-2.0, 1.5]]]),
    }
    N = 2 * tasks
    data, truth, _ = crowdppl.simulate(
        LabelSets(clusters=2),
        np.repeat(np.arange(N), 2),
        np.tile([0, 1], N),
        classes=2,
        seed=0,
        parameters=values,
        sets=2,
    )
    pairs = truth.reshape(tasks, 2)
    both = 0.3 * 0.9 * 0.8 + 0.7 * 0.1 * 0.2
    assert abs((pairs.sum(-1) == 2).mean() - both) < 4 * (both * (1 - both) / tasks) ** 0.5
    item, worker, label = (part.numpy() for part in (data.item, data.worker, data.label))
    for j, n, z in product(range(2), range(2), range(2)):
        own = (worker == j) & (item % 2 == n) & (truth[item] == z)
        p = 1 / (1 + np.exp(-values["choice"][j, n, z]))
        assert abs(label[own].mean() - p) < 4 * (p * (1 - p) / own.sum()) ** 0.5
    with pytest.raises(DataError, match="no sets"), silent():
        crowdppl.fit(Annotations.from_arrays([0, 0, 1, 1], list("uvuv"), list("abab")), "dawid-skene").sets()
