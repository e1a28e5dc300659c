"""Models as Pyro programs: every model with Pyro's own inference and tools, which run, or refuse in one line."""

import numpy as np
import pyro
import pytest
import torch
from catalog import CASES, in_turn, tiny
from pyro import poutine
from pyro.infer import MCMC, NUTS, SVI, JitTraceEnum_ELBO, Predictive, TraceEnum_ELBO, infer_discrete
from pyro.infer.autoguide import AutoDelta, AutoNormal, init_to_value
from pyro.optim import Adam

import crowdppl
from crowdppl import CrowdpplError, ModelError, OptionError, acquisition, criticism, report
from crowdppl.errors import silent
from crowdppl.isolation import isolated

FORMS = [("enumerated", "factor"), ("enumerated", "site"), ("marginal", "factor")]


def program_of(case, truth="enumerated", labels="factor", known=True):
    data = tiny(3, known=known, classes=case.classes, features=case.features, criteria=case.criteria)
    with silent():
        return crowdppl.pyro_program(case.model, data, truth=truth, labels=labels)


def discrete(program):
    return any(node["fn"].support.is_discrete for node in program.sites.values())


@pytest.mark.parametrize("case", in_turn(CASES, 2, lambda one: one[0].name, night=False))
def test_all_forms_have_one_log_density(case):
    """At the same parameters: the truth enumerated by Pyro, or summed out here; the labels a factor, or a site."""
    with isolated(0):
        reference = program_of(case, "marginal")
        values = {name: node["value"] for name, node in reference.sites.items()}
        wanted = float(poutine.trace(poutine.condition(reference, values)).get_trace().log_prob_sum())
        for truth, labels in FORMS:
            conditioned = poutine.condition(program_of(case, truth, labels), values)
            if truth == "marginal":
                actual = float(poutine.trace(conditioned).get_trace().log_prob_sum())
            else:
                actual = -TraceEnum_ELBO(max_plate_nesting=1).loss(conditioned, lambda: None)
            assert actual == pytest.approx(wanted, rel=1e-10), (truth, labels)


@pytest.mark.parametrize("case", in_turn(CASES, 3, night=False))
def test_a_fresh_program_can_be_traced_first(case):
    """Nothing of the model's own runs of its prior is seen by the handlers of the user."""
    with isolated(0):
        program = program_of(case)
        first = poutine.trace(program).get_trace()
        second = poutine.trace(program.parameters).get_trace()
    assert set(program.sites) <= set(first.nodes)
    assert set(program.sites) <= set(second.nodes)
    assert {"truth", "labels"} <= set(first.nodes)
    first.compute_log_prob()


GUIDES = ["own guide", "AutoNormal"]


@pytest.mark.parametrize(("case", "guide"), in_turn([(case, guide) for case in CASES for guide in GUIDES], 5))
def test_svi(case, guide):
    with isolated(0):
        program = program_of(case)
        if discrete(program):
            with pytest.raises(CrowdpplError, match="discrete"):
                getattr(program, "guide")  # noqa: B009 - it is made at this moment
            return
        guide = program.guide if guide == "own guide" else AutoNormal(program.parameters)
        svi = SVI(program, guide, Adam({"lr": 0.02}), TraceEnum_ELBO(max_plate_nesting=1))
        losses = [svi.step() for _ in range(4)]
        assert np.isfinite(losses).all()
        with torch.no_grad():
            drawn = Predictive(program, guide=guide, num_samples=3)()
    if program.bound.networks is None:
        with silent():
            posterior = program.posterior(drawn, kind="approximation", independent=True)
        assert posterior.tree["posterior"].sizes["draw"] == 3
        assert posterior.kind == "approximation"
        assert len(posterior.workers()) == 3


@pytest.mark.parametrize("case", in_turn(CASES[1:] + CASES[:1], 3, night=False))
def test_predictive_draws_labels(case):
    """From the prior, and back from draws of the parameters; draws are in the columns of the annotations."""
    with isolated(0), torch.no_grad():
        program = program_of(case, labels="site", known=False)
        prior = Predictive(poutine.uncondition(program), num_samples=4)()
        labels = program.labels_of(prior["labels"])
        assert labels.shape == (4, program.layout.A)
        assert int(labels.min()) >= 0
        assert int(labels.max()) < case.classes
        assert prior["truth"].shape[0] == 4
        parameters = {name: prior[name] for name in program.sites}
        after = Predictive(poutine.uncondition(program), parameters)()
        assert after["labels"].shape == prior["labels"].shape


@pytest.mark.parametrize("case", in_turn(CASES[2:] + CASES[:2], 3, night=False))
def test_infer_discrete_draws_the_truth(case):
    """Of known truths, what is known."""
    with isolated(0):
        program = program_of(case)
        values = {name: node["value"] for name, node in program.sites.items()}
        conditioned = poutine.condition(program, values)
        traced = poutine.trace(infer_discrete(conditioned, first_available_dim=-2)).get_trace()
        state = traced.nodes["truth"]["value"]
        known = program.layout.truth >= 0
    assert state.shape == (program.layout.N,)
    if program.bound.truths.read_off:  # a state belongs to no one class
        return
    kind = torch.div(state, program.bound.states_per_class, rounding_mode="floor")
    assert torch.equal(kind[known], program.layout.truth[known])


@pytest.mark.parametrize("case", in_turn([c for c in CASES if "nuts" in c.methods], 3))
def test_nuts_and_back_to_a_posterior(case):
    """Pyro's sampler on the program, and a result with all views from its samples."""
    with isolated(0):
        program = program_of(case, "marginal")
        if discrete(program):
            return
        kernel = NUTS(program, max_tree_depth=2)
        chains = MCMC(kernel, num_samples=4, warmup_steps=2, disable_progbar=True)
        chains.run()
        samples = chains.get_samples(group_by_chain=True)
    with silent():
        posterior = program.posterior(samples)
    for name in program.sites:
        if name in posterior.tree["posterior"]:
            kept = posterior.tree["posterior"][name].values[0]
            np.testing.assert_allclose(kept, samples[name][0].numpy(), rtol=1e-12)
    assert len(posterior.truth()) == 4
    assert len(posterior.workers()) == 3
    assert posterior.info["method"] == "samples"


def test_samples_of_a_fit_give_the_result_of_the_fit():
    data = tiny(2)
    with silent():
        fit = crowdppl.fit(data, "dawid-skene", method="gibbs", chains=2, warmup=20, num_samples=50, independent=True)
        program = crowdppl.pyro_program("dawid-skene", data)
        draws = fit.tree["posterior"]
        back = program.posterior({name: draws[name].values for name in program.sites}, independent=True)
    np.testing.assert_allclose(back.tree["sample_stats"]["lp"], fit.tree["sample_stats"]["lp"], rtol=1e-10)
    np.testing.assert_allclose(back.tree["truth"]["probability"], fit.tree["truth"]["probability"], atol=1e-10)
    assert back.kind == "posterior"
    assert back.tree["posterior"].sizes["chain"] == 2


def test_views_of_a_result_of_samples(tmp_path):
    """Report, file, criticism and acquisition work on it; it is updated by an engine that the caller names."""
    data = tiny(2)
    program = crowdppl.pyro_program("one-coin", data)
    with isolated(0):
        samples = {
            "prevalence": torch.distributions.Dirichlet(torch.ones(3)).sample((2, 60)),
            "accuracy": torch.distributions.Beta(8.0, 2.0).sample((2, 60, 3)),
        }
    with silent():
        posterior = program.posterior(samples)
        report.write(posterior, tmp_path / "report.html")
        back = crowdppl.load(posterior.save(tmp_path / "posterior.nc"))
        assert back.workers().equals(posterior.workers())
        assert criticism.advice(posterior)
        criticism.loo(posterior)
        assert len(acquisition.next_items(posterior, 2)) == 2
        with pytest.raises(OptionError, match="name the engine with method="):
            crowdppl.update(posterior, tiny(5))
        assert crowdppl.update(posterior, tiny(5), method="em", num_samples=3).info["method"] == "em"


@pytest.mark.parametrize(
    ("samples", "said"),
    [
        ({}, "no site 'confusion', 'prevalence'|no site 'prevalence', 'confusion'"),
        ({"prevalence": np.ones((5, 3)) / 3, "confusion": np.ones((5, 3, 3))}, "draws of shape"),
        (
            {"prevalence": np.ones((4, 3)) / 3, "confusion": np.ones((5, 3, 3, 3)) / 3},
            "different numbers of chains and draws",
        ),
    ],
)
def test_wrong_samples_are_refused_in_one_line(samples, said):
    program = crowdppl.pyro_program("dawid-skene", tiny())
    with pytest.raises(OptionError, match=said):
        program.posterior(samples)


def test_a_replaced_prior_and_mini_batches():
    """Handlers of the user act on the sites, and a mini-batch of items is scaled up."""
    with isolated(0):
        program = crowdppl.pyro_program("one-coin", tiny(1, items=12))
        fixed = poutine.trace(poutine.condition(program, {"accuracy": torch.full((3,), 0.7)})).get_trace()
        assert fixed.nodes["accuracy"]["value"].tolist() == [0.7, 0.7, 0.7]
        batch = poutine.trace(program).get_trace(torch.tensor([1, 3, 5]))
        assert batch.nodes["truth"]["value"].shape == (3,)
        assert batch.nodes["truth"]["scale"] == pytest.approx(4)
    with pytest.raises(OptionError, match="labels='site' needs truth='enumerated'"):
        crowdppl.pyro_program("one-coin", tiny(), truth="marginal", labels="site")
    with pytest.raises(CrowdpplError, match="items have weights"):
        crowdppl.pyro_program("one-coin", tiny(weighted=True), labels="site")
    assert set(pyro.get_param_store().keys()) == set()


@pytest.mark.parametrize("form", FORMS, ids="-".join)
@pytest.mark.parametrize("model", ["dawid-skene", "item-effects"])
def test_several_draws_at_once_are_refused(model, form):
    """Rather than broadcast: a vectorized loss of item effects was three hundred times that of one draw after the other."""
    with isolated(0), silent():
        program = crowdppl.pyro_program(model, tiny(3, classes=2), truth=form[0], labels=form[1])
        guide = AutoNormal(program.parameters)
        loss = TraceEnum_ELBO(max_plate_nesting=1, num_particles=2, vectorize_particles=True)
        with pytest.raises(ModelError, match=r"of 2 draws at once; .* vectorize_particles=False") as caught:
            loss.loss(program, guide)
        assert "\n" not in str(caught.value).split("Trace Shapes")[0].strip()
        with pytest.raises(ModelError, match=r"of 3 draws at once; .* use Predictive\(..., parallel=False\)"):
            Predictive(program, guide=guide, num_samples=3, parallel=True)()
        one = TraceEnum_ELBO(max_plate_nesting=1, num_particles=1, vectorize_particles=True)
        assert np.isfinite(one.loss(program, guide))


@pytest.mark.filterwarnings("ignore")
def test_a_compiled_loss():
    """As without compilation, at the same points; networks, which it does not take, say so."""
    data = tiny(3, classes=2, features=2)
    losses = []
    for kind in (JitTraceEnum_ELBO, TraceEnum_ELBO):
        with isolated(0):
            program = crowdppl.pyro_program("one-coin", data)
            values = {name: node["value"] for name, node in program.sites.items()}
            guide = AutoDelta(program.parameters, init_loc_fn=init_to_value(values=values))  # nothing is random
            svi = SVI(program, guide, Adam({"lr": 0.01}), kind(max_plate_nesting=1))
            losses.append([svi.step() for _ in range(3)])
    assert len(set(losses[0])) == 3
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-9)
    with isolated(0), silent():
        program = crowdppl.pyro_program("raykar", data)
        svi = SVI(program, AutoNormal(program.parameters), Adam({"lr": 0.01}), JitTraceEnum_ELBO(max_plate_nesting=1))
        with pytest.raises(
            ModelError, match=r"the network 'classifier' cannot be compiled by torch\.jit: use TraceEnum_ELBO"
        ):
            svi.step()
