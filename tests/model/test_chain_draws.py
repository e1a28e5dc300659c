"""What is read off several draws of a Markov chain together, against one draw at a time; items with the same annotations."""

import dataclasses
from typing import ClassVar

import pyro
import pytest
import torch
from catalog import quiet_fit
from pyro.distributions import Categorical, Dirichlet
from token_crowds import BIO, in_sequences, random_chain

import crowdppl
from crowdppl.inference.backends.alike import alike
from crowdppl.model.bound import bind
from crowdppl.model.chains import BLOCK, Chain, draw_states, marginals, read_draws, smooth
from crowdppl.model.program import prior_draws
from crowdppl.models import SequentialWorkers


def several(draws, data, seed=0):
    """Return chains, and log-likelihoods of the items, at some draws."""
    chains = [random_chain(5, seed + d, forbidden=True) for d in range(draws)]
    both = Chain(torch.stack([one.start for one in chains]), torch.stack([one.moves for one in chains]))
    return both, torch.randn(draws, data.N, 5, generator=torch.Generator().manual_seed(seed)).double() * 3


@pytest.mark.parametrize("draws", [1, 5, 8])
@pytest.mark.parametrize("block", [1, BLOCK], ids=["chain by chain", "together"])
def test_likelihoods_of_several_draws_are_those_of_single_ones(draws, block, monkeypatch):
    monkeypatch.setattr("crowdppl.model.chains.BLOCK", block)
    data = in_sequences([4, 1, 7, 2])
    both, logs = several(draws, data)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        given, _ = read_draws(logs, logs / 2, both, data)
    torch.testing.assert_close(given, smooth(logs, both, data).log_likelihood, rtol=1e-12, atol=1e-12)


def test_drawn_paths_follow_the_tempered_likelihoods():
    # 8 draws, 500 times: the largest of 8 * 13 * 5 deviations exceeds 5 standard errors with probability 3e-4.
    data = in_sequences([6, 1, 4, 2])
    both, logs = several(8, data)
    tempered, count = logs / 2, 500
    with torch.random.fork_rng():
        torch.manual_seed(1)
        states = torch.stack([read_draws(logs, tempered, both, data)[1] for _ in range(count)])  # (count, D, N)
    wanted = smooth(tempered, both, data).probability
    share = torch.nn.functional.one_hot(states.long(), 5).double().mean(0)
    error = (wanted * (1 - wanted) / count).sqrt()
    # A state with hardly any probability is drawn never or once.
    assert bool(((share - wanted).abs() < 5 * error + 2.0 / count).all())
    allowed = both.moves > -torch.inf
    pairs = zip(states[..., :-1].unbind(-1), states[..., 1:].unbind(-1), data.following[1:], strict=True)
    for before, after, follows in pairs:
        assert not follows or all(bool(allowed[d][before[:, d].long(), after[:, d].long()].all()) for d in range(8))


def test_sequences_that_underflow_are_read_in_logarithms():
    data = in_sequences([4, 3], labels=BIO)
    both, logs = several(3, data)
    logs[1, 2] -= 2000.0
    with torch.random.fork_rng():
        torch.manual_seed(2)
        given, states = read_draws(logs, logs, both, data)
    torch.testing.assert_close(given, smooth(logs, both, data).log_likelihood, rtol=1e-12, atol=1e-10)
    probability = smooth(logs, both, data).probability.gather(-1, states.long().unsqueeze(-1))
    assert bool((probability > 0).all())


def test_draws_from_one_set_of_parameters_share_a_forward_pass_and_are_the_same_numbers():
    data, chain = in_sequences([5, 2]), random_chain(5)
    logs = torch.randn(data.N, 5, generator=torch.Generator().manual_seed(7)).double()
    with torch.random.fork_rng():
        torch.manual_seed(3)
        together = draw_states(logs.expand(4, -1, -1), chain, data)
        torch.manual_seed(3)
        apart = draw_states(logs.repeat(4, 1, 1), chain, data)
    assert together.equal(apart)


def test_items_with_the_same_annotations_have_the_same_likelihoods():
    data = in_sequences([30] * 20, labels=["a", "O"], workers=2, share=1.0)
    distinct = alike(data)
    assert distinct is not None
    assert distinct.items.N < data.N / 2
    known = dataclasses.replace(data, truth=torch.arange(data.N) % 3 - 1)
    for given in (data, known):
        distinct = alike(given)
        model = bind(SequentialWorkers(), given)
        with torch.random.fork_rng():
            torch.manual_seed(4)
            parameters = {name: value[0] for name, value in prior_draws(model, given, 1).items()}
        ours, all_of_them = (model.log_likelihoods(parameters, some) for some in (distinct.items, given))
        torch.testing.assert_close(ours[distinct.row], all_of_them, rtol=1e-12, atol=1e-12)
        assert distinct.items.truth[distinct.row].equal(given.truth)


def test_items_that_mostly_differ_are_left_as_they_are():
    assert alike(in_sequences([30], workers=9)) is None


def test_items_of_which_more_is_known_than_annotations_are_not_taken_for_each_other():
    data = in_sequences([30] * 20, labels=["a", "O"], workers=2, share=1.0)
    ones = torch.ones(data.A, dtype=torch.float64)
    for field in ("timestamp", "seconds", "others"):
        assert alike(dataclasses.replace(data, **{field: ones})) is None, field


class HiddenMarkov(crowdppl.AnnotationModel):
    """A chain as users write one: no table by worker, no step of its own."""

    dims: ClassVar = {
        "start": ("true_label",),
        "transition": ("true_label", "next_label"),
        "table": ("worker", "true_label", "label"),
    }

    def prior(self, data, plates):
        one = torch.ones(data.K, dtype=data.dtype)
        start = pyro.sample("start", Dirichlet(one))
        transition = pyro.sample("transition", Dirichlet(one.expand(data.K, -1)).to_event(1))
        with plates.worker:
            table = pyro.sample("table", Dirichlet(one + 3 * torch.eye(data.K, dtype=data.dtype)).to_event(1))
        return {"start": start, "transition": transition, "table": table}

    def coupling(self, parameters, data):
        return Chain(parameters["start"].log(), parameters["transition"].log())

    def truth(self, parameters, data):
        return Categorical(marginals(self.coupling(parameters, data), data))

    def emission(self, parameters, data):
        return Categorical(parameters["table"][data.worker])


@pytest.mark.slow
def test_a_chain_without_tables_is_read_one_draw_at_a_time():
    posterior = quiet_fit(in_sequences([6] * 8, labels=["a", "O"]), HiddenMarkov(), method="em", num_samples=20)
    likelihood = posterior.tree["log_likelihood"]["labels"].values
    assert likelihood.shape[-1] == 48
    assert (likelihood < 0).all()
