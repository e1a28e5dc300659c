"""Markov chains of true labels: forward-backward, drawn paths and spans against enumeration of all paths and Pyro's own HMM."""

from itertools import pairwise, product

import numpy as np
import pandas as pd
import pytest
import torch
from pyro.distributions import Categorical, DiscreteHMM
from token_crowds import BIO, in_sequences, random_chain

import crowdppl
from crowdppl import Annotations
from crowdppl.data.sequences import Tags
from crowdppl.model.bound import bind
from crowdppl.model.chains import Chain, draw_states, marginals, prevalence, smooth, span_probabilities
from crowdppl.model.coupling import item_log_joint
from crowdppl.models import DawidSkene, SequentialWorkers


def paths(logs, chain, first, last):
    """Return all paths of one chain and their log joint."""
    every = torch.tensor(list(product(range(logs.shape[-1]), repeat=last - first)))  # (paths, steps)
    joint = chain.start[every[:, 0]] + logs[first, every[:, 0]]
    for t in range(1, last - first):
        joint = joint + chain.moves[every[:, t - 1], every[:, t]] + logs[first + t, every[:, t]]
    return every, joint


@pytest.fixture(params=["compiled", "torch"])
def backend(request, monkeypatch):
    """Take the passes by compiled functions, or by torch."""
    if request.param == "torch":
        monkeypatch.setattr("crowdppl.model.chains._compiled", lambda *values: False)
    return request.param


@pytest.mark.parametrize("forbidden", [False, True])
def test_forward_backward_equals_all_paths(backend, forbidden):
    data = in_sequences([6, 1, 3, 5])
    chain = random_chain(5, forbidden=forbidden)
    logs = torch.randn(data.N, 5, generator=torch.Generator().manual_seed(1)).double() * 3
    out = smooth(logs, chain, data)
    pairs, starts = torch.zeros(5, 5).double(), torch.zeros(5).double()
    bounds = data.chain_starts.tolist()
    for first, last in pairwise(bounds):
        every, joint = paths(logs, chain, first, last)
        torch.testing.assert_close(out.log_likelihood[first:last].sum(), joint.logsumexp(0), rtol=0, atol=1e-11)
        weight = joint.softmax(0)
        for t in range(last - first):
            wanted = torch.stack([weight[every[:, t] == s].sum() for s in range(5)])
            torch.testing.assert_close(out.probability[first + t], wanted, rtol=0, atol=1e-12)
        for t in range(1, last - first):
            pairs.index_put_((every[:, t - 1], every[:, t]), weight, accumulate=True)
        starts += out.probability[first]
    torch.testing.assert_close(out.pairs, pairs, rtol=0, atol=1e-11)
    torch.testing.assert_close(out.starts, starts, rtol=0, atol=1e-12)


def test_log_likelihood_equals_pyros_hidden_markov_model(backend):
    data, steps = in_sequences([5]), 5
    chain = random_chain(5)
    table = torch.rand(5, 7, generator=torch.Generator().manual_seed(2)).double()
    said = torch.tensor([3, 0, 6, 6, 1])
    # Pyro's chain moves before its first observation.
    before = Chain(chain.start, chain.moves)
    hidden = DiscreteHMM(before.start, before.moves, Categorical(table), duration=steps)
    moved = Chain((chain.start.exp() @ chain.moves.exp()).log(), chain.moves)
    logs = (table / table.sum(-1, keepdim=True)).log()[:, said].T
    torch.testing.assert_close(
        smooth(logs, moved, data).log_likelihood.sum(), hidden.log_prob(said), rtol=1e-12, atol=1e-12
    )


def test_far_tails_do_not_underflow(backend):
    data = in_sequences([4, 3], labels=["a", "b"])
    chain = Chain(torch.tensor([0.0, -900.0]).double(), torch.tensor([[0.0, -800.0], [-700.0, 0.0]]).double())
    logs = torch.tensor([[0.0, -2000.0], [-3000.0, 0.0]]).double()[[0, 1, 0, 0, 1, 1, 0]]
    out = smooth(logs, chain, data)
    bounds = data.chain_starts.tolist()
    for first, last in pairwise(bounds):
        every, joint = paths(logs, chain, first, last)
        torch.testing.assert_close(out.log_likelihood[first:last].sum(), joint.logsumexp(0))
        best = every[joint.argmax()]
        assert out.probability[first:last].argmax(-1).tolist() == best.tolist()


def test_both_computations_agree_with_leading_axes(monkeypatch):
    data = in_sequences([4, 2, 7])
    logs = torch.randn(2, data.N, 5, generator=torch.Generator().manual_seed(3)).double()
    chains = [random_chain(5, seed) for seed in (1, 2)]
    both = Chain(torch.stack([one.start for one in chains]), torch.stack([one.moves for one in chains]))
    compiled = smooth(logs, both, data)
    monkeypatch.setattr("crowdppl.model.chains._compiled", lambda *values: False)
    for part, other in zip(compiled, smooth(logs, both, data), strict=True):
        torch.testing.assert_close(part, other, rtol=1e-10, atol=1e-12)


def test_drawn_paths_have_the_posterior_probabilities(backend):
    # 4,000 paths of four tokens: the largest of 20 deviations exceeds 4.5 standard errors with probability 1.4e-4.
    data, chain = in_sequences([3, 1]), random_chain(5, forbidden=True)
    logs = torch.randn(data.N, 5, generator=torch.Generator().manual_seed(4)).double()
    with torch.random.fork_rng():
        torch.manual_seed(5)
        drawn = draw_states(logs.expand(4000, -1, -1), chain, data)
    every, joint = paths(logs, chain, 0, 3)
    every, weight = every.numpy(), joint.softmax(0).numpy()
    codes = drawn[:, :3].numpy() @ [25, 5, 1]
    for probability in (0.02, 0.1):
        chosen = weight > probability
        wanted = weight[chosen]
        given = np.array([(codes == path @ [25, 5, 1]).mean() for path in every[chosen]])
        assert (abs(given - wanted) < 4.5 * np.sqrt(wanted * (1 - wanted) / 4000)).all()
    assert not np.isin(codes, (every[weight == 0] @ [25, 5, 1])).any()


@pytest.mark.parametrize("labels", [BIO, ["I-LOC", "I-PER", "O"]], ids=["BIO", "IO"])
def test_span_probabilities_equal_all_paths(backend, labels):
    data, tags = in_sequences([5, 3], labels=labels), Tags.of(labels)
    K = len(labels)
    chain = random_chain(K, forbidden=K == 5)
    logs = torch.randn(data.N, K, generator=torch.Generator().manual_seed(6)).double()
    spans = [(0, 2, 0), (1, 4, 1), (4, 5, 0), (5, 8, 1), (6, 7, 0), (7, 8, 1)]
    kinds = np.arange(len(tags.types))[:, None]
    first, within = (torch.from_numpy(part[None, :] == kinds) for part in (tags.begins, tags.continues))
    given = span_probabilities(logs, chain, data, torch.tensor(spans), first, within)
    bounds = data.chain_starts.tolist()
    for one, (begin, end, kind) in zip(given, spans, strict=True):
        here = max(n for n in range(2) if bounds[n] <= begin)
        every, joint = paths(logs, chain, bounds[here], bounds[here + 1])
        following = np.arange(bounds[here + 1] - bounds[here]) > 0
        wanted = [begin - bounds[here], end - bounds[here], kind]
        there = [any((row == wanted).all() for row in tags.spans(path, following)) for path in every]
        torch.testing.assert_close(one, joint.softmax(0)[torch.tensor(there)].sum(), rtol=1e-9, atol=1e-12)


def test_marginals_before_any_label():
    data, chain = in_sequences([4, 2]), random_chain(5)
    nothing = torch.zeros(data.N, 5).double()
    each = marginals(chain, data)
    torch.testing.assert_close(each, smooth(nothing, chain, data).probability)
    torch.testing.assert_close(prevalence(chain, data), each.mean(0))


def test_gradients_equal_expected_counts():
    data = in_sequences([4, 2, 1])
    chain = random_chain(5)
    logs = torch.randn(data.N, 5, generator=torch.Generator().manual_seed(7)).double().requires_grad_()
    moves = chain.moves.clone().requires_grad_()
    out = smooth(logs, Chain(chain.start, moves), data)
    total = item_log_joint(out).logsumexp(-1).sum()
    by_label, by_move = torch.autograd.grad(total, [logs, moves])
    torch.testing.assert_close(by_label, out.probability.detach())
    torch.testing.assert_close(by_move, out.pairs)


# ---------------------------------------------------------------------- the model


def test_sequences_of_one_token_are_items_of_dawid_and_skene():
    rng = np.random.default_rng(0)
    task, worker = np.repeat(np.arange(60), 4), np.tile(np.arange(4), 60)
    truth = rng.integers(0, 3, 60)
    label = np.where(rng.random(240) < 0.7, truth[task], rng.integers(0, 3, 240))
    frame = pd.DataFrame({"task": task, "worker": worker, "label": label, "text": task, "at": 0})
    options = {"method": "em", "independent": True, "restarts": 0, "tol": 1e-10}
    single = crowdppl.fit(Annotations.from_frame(frame, sequence="text", position="at"), **options)
    items = crowdppl.fit(Annotations.from_frame(frame), "dawid-skene", **options)
    assert single.info["model"] == "sequential-workers"
    columns = [f"p_{k}" for k in range(3)]
    np.testing.assert_allclose(single.truth()[columns], items.truth()[columns], atol=1e-6)
    last = single.tree["point"]["emission"].to_numpy()[:, 3]  # after no label
    np.testing.assert_allclose(last, items.tree["point"]["confusion"], atol=1e-6)
    np.testing.assert_allclose(single.tree["point"]["start"], items.tree["point"]["prevalence"], atol=1e-6)


def test_likelihood_of_the_model_equals_all_paths():
    data = in_sequences([5, 2], seed=3)
    bound = bind(SequentialWorkers(), data)
    rng = np.random.default_rng(1)
    draw = {
        "start": torch.from_numpy(rng.dirichlet(np.ones(5))),
        "transition": torch.from_numpy(rng.dirichlet(np.ones(5), 5)),
        "emission": torch.from_numpy(rng.dirichlet(np.ones(5), (3, 6, 5))),
    }
    tags = Tags.of(data.labels)
    before = {}
    logs = np.zeros((data.N, 5))
    for i, j, y in zip(data.item.tolist(), data.worker.tolist(), data.label.tolist(), strict=True):
        same = data.sequence[i] == data.sequence[i - 1] if i else False
        c = before.get((i - 1, j), 5) if same else 5
        before[i, j] = y
        logs[i] += np.log(draw["emission"].numpy()[j, c, :, y])
    total = 0.0
    for first, last in ((0, 5), (5, 7)):
        joint = []
        for path in product(range(5), repeat=last - first):
            legal = tags.first[path[0]] and all(tags.allowed[a, b] for a, b in pairwise(path))
            if legal:
                p = np.log(draw["start"][path[0]].item()) + logs[first, path[0]]
                for t in range(1, last - first):
                    p += np.log(draw["transition"][path[t - 1], path[t]].item()) + logs[first + t, path[t]]
                joint.append(p)
        total += np.logaddexp.reduce(joint)
    assert float(bound.item_log_joint(draw, data).logsumexp(-1).sum()) == pytest.approx(total, abs=1e-10)


def test_default_of_tokens_beats_a_confusion_matrix_where_labels_depend_on_the_last():
    # Workers who drop out of a span and stay out: 300 sequences of 12 tokens, fixed seed.
    rng = np.random.default_rng(2)
    rows, truth = [], {}
    labels = ["O", "B-X", "I-X"]
    for s in range(300):
        z, known = "O", []
        for _ in range(12):
            z = rng.choice(labels, p=[0.8, 0.2, 0.0] if z == "O" else [0.3, 0.05, 0.65])
            known.append(z)
        for j in range(4):
            y = "O"
            for t, z in enumerate(known):
                truth[f"{s}:{t}"] = z
                missed = z == "I-X" and y == "O"
                y = "O" if missed and rng.random() < 0.9 else z if rng.random() < 0.8 else rng.choice(labels)
                rows.append((s, t, f"w{j}", y))
    frame = pd.DataFrame(rows, columns=["text", "at", "worker", "label"])
    data = Annotations.from_frame(frame, sequence="text", position="at")
    right = {}
    for model in (SequentialWorkers(), DawidSkene()):
        table = crowdppl.fit(data, model, method="em", independent=True).truth()
        right[type(model).__name__] = (table["label"] == table["task"].map(truth)).mean()
    assert right["SequentialWorkers"] > right["DawidSkene"] + 0.01
