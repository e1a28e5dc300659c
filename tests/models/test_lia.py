"""Difficulty times competence: its likelihood by the numbered equations of the paper in plain Python, and what it recovers."""

import math

import numpy as np
import pytest
import torch
from catalog import fit, quiet_fit, tiny
from plain import layers, normalised, perceptron, standard

import crowdppl
from crowdppl import Annotations, OptionError
from crowdppl.data.synthetic import EASY_AND_HARD, easy_and_hard
from crowdppl.inference.predict import parameter_draws
from crowdppl.isolation import isolated
from crowdppl.model.bound import bind
from crowdppl.model.program import unknowns
from crowdppl.models import LIA
from crowdppl.posterior.workers import groups

# ---------------------------------------------------------------------- the paper's equations, one number at a time


class Paper:
    """The model at given parameters: h, D, C, and the qualities and likelihoods that follow from them."""

    def __init__(self, model, data):
        self.model, self.data, self.bound = model, data, bind(model, data)
        self.values = unknowns(self.bound, data)
        self.h, self.d, self.c = (
            layers(self.bound, self.values, name) for name in ("truth", "difficulty", "competence")
        )
        self.r = self.values["worker_embedding"].tolist()
        self.inputs = [(self.x(i), self.e(i)) for i in range(data.N)]

    def e(self, i):
        """The embedding of the item's relation (section 3.4): nothing where there are no relations."""
        return (
            self.values["relation_embedding"][int(self.data.features[i, -1])].tolist() if self.model.relations else []
        )

    def x(self, i):
        if self.data.features is None:
            return self.values["item_embedding"][i].tolist()
        features = self.data.features.tolist()
        return standard([row[:-1] if self.model.relations else row for row in features])[i]

    def prior(self, i):
        """h(x_i), a softmax over classes."""
        x, e = self.inputs[i]
        return normalised([math.exp(v) for v in perceptron(self.h, x + e)])

    def quality(self, i, j):
        """Equation (1): an inner product over the latent axis; equation (4): every row is divided by its sum."""
        K, L, (x, e) = self.data.K, self.model.latent, self.inputs[i]
        out = perceptron(self.d, x + e)
        D = [math.exp(out[n % L] + self.model.cell_scale * v) for n, v in enumerate(out[L:])]
        C = [math.exp(v) for v in perceptron(self.c, self.r[j] + e)]
        level = [2 * m / (L - 1) for m in range(L)] if L > 1 else [1.0]
        rows = []
        for k in range(K):
            row = []
            for label in range(K):
                at = (k * K + label) * L
                bias = [math.exp(self.model.diagonal_bias * v) if k == label else 1.0 for v in level]
                row.append(sum(D[at + m] * C[at + m] * bias[m] for m in range(L)))
            rows.append(normalised(row))
        return rows

    def labels(self, i):
        return [(int(self.data.worker[n]), int(self.data.label[n])) for n in (self.data.item == i).nonzero().flatten()]

    def marginal(self):
        """Sum over items of log sum over classes of the prior times the product over the item's labels."""
        total = 0.0
        for i in range(self.data.N):
            terms = self.prior(i)
            for j, y in self.labels(i):
                Q = self.quality(i, j)
                terms = [t * Q[k][y] for k, t in enumerate(terms)]
            total += math.log(sum(terms))
        return total

    def printed(self):
        """Equation (9) as printed: the sum over the labels stands outside the logarithm."""
        total = 0.0
        for i in range(self.data.N):
            h = self.prior(i)
            for j, y in self.labels(i):
                Q = self.quality(i, j)
                total += math.log(sum(h[k] * Q[k][y] for k in range(self.data.K)))
        return total


def related():
    """Four sentences and three relations, a yes or no of each pair by some workers; two features beside the relation's number."""
    rng = np.random.default_rng(3)
    x = np.column_stack([rng.normal(size=(4, 2))[np.arange(12) // 3], np.arange(12) % 3])
    item = np.concatenate([np.arange(12), rng.integers(0, 12, 12)])
    return Annotations.from_arrays(item, rng.integers(0, 4, 24), rng.integers(0, 2, 24), items=range(12), features=x)


SMALL = {"hidden": (3, 4), "embedding": 2, "embedded_scale": 1.0}  # classifiers that are not certain
PAPERS = {
    "LIA": lambda: (LIA(latent=3, **SMALL), tiny(1)),
    "LIA-E": lambda: (LIA(latent=3, **SMALL), tiny(1, features=False)),
    "LIA-ML": lambda: (LIA(latent=3, relations=3, **SMALL), related()),
    "minimax": lambda: (LIA(latent=1, **SMALL), tiny(1)),
}


@pytest.mark.parametrize("name", PAPERS)
def test_the_likelihood_is_that_of_the_paper(name):
    with isolated(7), torch.no_grad():
        model, data = PAPERS[name]()
        paper = Paper(model, data)
        parameters, _ = paper.bound.conditioned(paper.values, data)
        joint = paper.bound.item_log_joint(parameters, data)
        assert joint.dtype == torch.float64
        assert float(torch.logsumexp(joint, -1).sum()) == pytest.approx(paper.marginal(), abs=1e-8)
        separate = paper.bound.separate_log_likelihoods(parameters, data)
        assert float(separate.sum()) == pytest.approx(paper.printed(), abs=1e-8)
        assert paper.printed() != pytest.approx(paper.marginal(), abs=1e-3)
        Q = paper.bound.emission(parameters, data).probs
        for n in range(data.A):
            expected = torch.tensor(paper.quality(int(data.item[n]), int(data.worker[n])), dtype=Q.dtype)
            torch.testing.assert_close(Q[n], expected, atol=1e-10, rtol=0)


def test_one_latent_dimension_is_minimax_conditional_entropy():
    """Zhou et al. (2015): log Q is a table of the item plus a table of the worker, up to the sum of each row."""
    with isolated(0), torch.no_grad():
        data = tiny(1)
        model = bind(LIA(latent=1, **SMALL), data)
        parameters, _ = model.conditioned(unknowns(model, data), data)
        tau = 0.1 * parameters["difficulty"](data.features)[:, 1:].view(-1, 3, 3)
        sigma = parameters["competence"](parameters["worker_embedding"]).view(-1, 3, 3) + torch.eye(3)
        Q = (tau[data.item] + sigma[data.worker]).softmax(-1)
        torch.testing.assert_close(model.emission(parameters, data).probs, Q)


def test_difficulty_and_competence_share_a_freedom():
    """A factor that moves from D to C leaves the quality, whose rows sum to one."""
    with isolated(0), torch.no_grad():
        data = tiny(1)
        model = bind(LIA(latent=2, **SMALL), data)
        parameters, _ = model.conditioned(unknowns(model, data), data)
        Q = model.emission(parameters, data).probs
        torch.testing.assert_close(Q.sum(-1), torch.ones(data.A, 3))
        D, C = parameters["difficulty"], parameters["competence"]
        factor = torch.tensor([1.7, -0.4])  # on the log scale, of each latent dimension
        moved = parameters | {
            "difficulty": lambda x: torch.cat([D(x)[:, :2] + factor, D(x)[:, 2:]], -1),
            "competence": lambda r: (C(r).unflatten(-1, (3, 3, 2)) - factor).flatten(-3),
        }
        torch.testing.assert_close(model.emission(moved, data).probs, Q)


@pytest.mark.slow
def test_best_and_worst_workers_come_first_and_last():
    """Among ten workers who are right 7 times of 10, one who is always right and one who guesses."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 300)
    skill = np.array([0.7] * 10 + [1.0, 0.5])
    label = np.where(rng.random((300, 12)) < skill, truth[:, None], 1 - truth[:, None])
    data = Annotations.from_arrays(np.repeat(np.arange(300), 12), np.tile(np.arange(12), 300), label.reshape(-1))
    model = LIA(hidden=(8,), latent=2, embedding=4)
    posterior = quiet_fit(data, model, method="em", max_iter=6, steps=100, fine_tune=0, learning_rate=5e-3)
    order = posterior.workers(sort="accuracy")["worker"].tolist()
    assert (order[0], order[-1]) == (10, 11)
    assert set(groups.worker_map(posterior)) == {"worker", "x", "y"}
    assert posterior.tree["posterior"]["worker_embedding"].dims == ("chain", "draw", "worker", "embedding")


def test_easy_and_hard():
    drawn = easy_and_hard(seed=0, items=4000)
    data, hard, strong = drawn.data, drawn.parameters["hard"], drawn.parameters["strong"]
    assert (data.N, data.J, data.A) == (4000, 20, 24000)
    assert ((data.features[:, 0].numpy() > 0) == drawn.truth).all()
    assert ((data.features[:, 1].numpy() > 0) == hard).all()
    correct = data.label.numpy() == drawn.truth[data.item.numpy()]
    kind = 2 * hard[data.item.numpy()] + strong[data.worker.numpy()]
    share = np.bincount(kind, correct) / np.bincount(kind)
    assert np.abs(share - EASY_AND_HARD.ravel()).max() < 0.03  # four standard errors of about 6,000 labels: .025


def recovered(seed, **options):
    """Return the largest error of the four mean qualities, and the accuracy of the posterior and of the classifier alone."""
    drawn = easy_and_hard(seed=seed)
    data = drawn.data.to(dtype=torch.float32)
    posterior = quiet_fit(data, LIA(), method="em", seed=seed, independent=True, num_samples=2, **options)
    table = crowdppl.predict_correct(posterior, data)
    hard, strong = drawn.parameters["hard"], drawn.parameters["strong"]
    kind = 2 * hard[table["task"].to_numpy()] + strong[table["worker"].to_numpy()]
    error = np.abs(table.groupby(kind)["probability"].mean().to_numpy() - EASY_AND_HARD.ravel()).max()
    tables = (posterior.truth(), posterior.classifier())
    return error, *(float((t["label"].to_numpy() == drawn.truth).mean()) for t in tables)


@pytest.mark.slow
def test_difficulty_acts_and_is_recovered():
    error, truth, classifier = recovered(1, steps=150, fine_tune=100, learning_rate=3e-3, max_iter=6)
    assert error < 0.06
    assert truth > 0.965
    assert classifier > 0.965


@pytest.mark.slow
@pytest.mark.parametrize("crowds", [3, pytest.param(5, marks=pytest.mark.longest)])
def test_difficulty_is_recovered_by_the_default_schedule(crowds):
    results = np.array([recovered(seed) for seed in range(crowds)])
    assert results[:, 0].max() < 0.06
    assert results[:, 1].mean() >= 0.965


@pytest.mark.slow
def test_the_printed_objective_is_raised_by_name():
    """Fine-tuning on equation (9) as printed ends higher on it than fine-tuning on the marginal likelihood, and lower on that."""
    small = easy_and_hard(seed=0).data.to(dtype=torch.float32).batch(torch.arange(120))
    options = {"method": "em", "max_iter": 2, "steps": 60, "fine_tune": 300, "learning_rate": 5e-3, "num_samples": 2}
    ends = {}
    for truths in ("item", "annotation"):
        posterior = quiet_fit(small, LIA(), fine_tune_truths=truths, independent=True, **options)
        with isolated(0), torch.no_grad():
            bound, values = next(parameter_draws(posterior, small))
            parameters, _ = bound.conditioned(values, small)
            separate = float(bound.separate_log_likelihoods(parameters, small).sum())
            marginal = float(torch.logsumexp(bound.item_log_joint(parameters, small), -1).sum())
        assert posterior.info["facts"]["log_likelihood"] == pytest.approx(marginal, rel=1e-4)
        ends[truths] = (marginal, separate)
    assert ends["annotation"][1] > ends["item"][1]
    assert ends["annotation"][0] < ends["item"][0]
    with pytest.raises(OptionError, match="item"):
        fit(small, LIA(), method="em", fine_tune_truths="none")


@pytest.mark.slow
def test_a_worker_is_good_at_one_relation_and_bad_at_another():
    """LIA-ML: 200 sentences and three relations, 20 workers of .95 on one relation, .55 on another and .75 on the third."""
    rng = np.random.default_rng(0)
    pair, workers = np.arange(600), np.arange(20)
    x, direction, relation = rng.normal(size=(200, 4))[pair // 3], rng.normal(size=(3, 4)), pair % 3
    truth = ((x * direction[relation]).sum(1) > 0).astype(int)
    good = rng.integers(0, 3, 20)
    bad = (good + rng.integers(1, 3, 20)) % 3
    accuracy = np.full((20, 3), 0.75)
    accuracy[workers, good], accuracy[workers, bad] = 0.95, 0.55
    chosen = np.stack([rng.choice(20, 5, replace=False) for _ in range(200)])
    item, worker = np.repeat(pair, 5), chosen[pair // 3].reshape(-1)
    right = rng.random(3000) < accuracy[worker, relation[item]]
    label = np.where(right, truth[item], 1 - truth[item])
    features = np.column_stack([x, relation])
    data = Annotations.from_arrays(item, worker, label, items=pair, workers=workers, features=features)
    data = data.to(dtype=torch.float32)
    schedule = {"max_iter": 8, "steps": 100, "fine_tune": 100, "learning_rate": 3e-3}
    posterior = quiet_fit(data, LIA(relations=3), method="em", independent=True, num_samples=2, **schedule)
    table = crowdppl.predict_correct(posterior, data)
    estimated = table.groupby(["worker", relation[table["task"].to_numpy()]])["probability"].mean().unstack().to_numpy()
    assert (estimated[workers, good] > estimated[workers, bad]).mean() >= 0.9
