"""Conjugate updates: what follows from a prior and counts, and what is refused. Their values are in tests/test_oracle.py."""

import re
from pathlib import Path

import numpy as np
import pyro
import pytest
import torch
from catalog import CASES, SHORT, OwnCoin, Populations, Spammers, fit, quiet_fit, simulated, tiny
from pyro.distributions import Dirichlet, Normal

import crowdppl
import crowdppl.models
from crowdppl import ModelError
from crowdppl.isolation import isolated
from crowdppl.model.bound import bind
from crowdppl.models import DawidSkene, ItemSubtypes, OneCoin


class WrongShape(OwnCoin):
    def confusion(self, parameters, data):
        return super().confusion(parameters, data)[..., 0]


class WrongName(OwnCoin):
    def conjugate_counts(self, statistics, data):
        return {"prevalance": statistics.item_counts}


class WrongCounts(OwnCoin):
    def conjugate_counts(self, statistics, data):
        return {"prevalence": statistics.label_counts}


class NotConjugate(OwnCoin):
    def conjugate_counts(self, statistics, data):
        return {"skill": statistics.label_counts.sum((-2, -1))}


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (WrongName(), "'prevalance', which is no site of the prior"),
        (
            WrongCounts(),
            r"conjugate_counts\['prevalence'\] has shape \(3, 3, 3\); the site's concentrations have shape \(3,\)",
        ),
        (NotConjugate(), "'skill', which is a Normal; it must be a Dirichlet or a Beta site"),
        (WrongShape(), "WrongShape"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_faults_are_told_in_one_line(model, words):
    with pytest.raises(ModelError, match=words) as refused:
        crowdppl.check_contract(model, tiny())
    assert "\n" not in str(refused.value)


class Half(OwnCoin):
    """One of two sites is conjugate: EM raises the other by gradients, and Gibbs sampling moves it by them."""

    def prior(self, data, plates):
        prevalence = pyro.sample("prevalence", Dirichlet(2 * torch.ones(data.K)))
        with plates.worker:
            return {"prevalence": prevalence, "skill": pyro.sample("skill", Normal(1.0, 1.0))}

    def conjugate_counts(self, statistics, data):
        return {"prevalence": statistics.item_counts}


def test_a_model_that_is_conjugate_in_part():
    data = simulated(items=60)[0]
    whole, half = (quiet_fit(data, model, method="em", num_samples=2, tol=1e-12) for model in (OwnCoin(), Half()))
    np.testing.assert_allclose(half.tree["point"]["skill"], whole.tree["point"]["skill"], atol=2e-3)
    assert quiet_fit(data, Half(), method="gibbs", **SHORT["gibbs"]).info["backend"] == "gradients"
    assert quiet_fit(data, Half(), num_samples=2).info["method"] == "em"


@pytest.mark.parametrize("model", [DawidSkene(), OneCoin(), Populations(), Spammers()], ids=lambda m: type(m).__name__)
def test_em_and_gibbs_agree_on_models_of_ones_own(model):
    """Posterior modes and means of the truth from some 600 annotations: within .1 of each other on average."""
    data = simulated(items=120, workers=10)[0]
    em = quiet_fit(data, model, method="em", num_samples=2)
    gibbs = quiet_fit(data, model, method="gibbs", num_samples=300, warmup=100, chains=2, seed=0)
    apart = np.abs(em.probability_as_published() - gibbs.probability_as_published()).mean()
    assert apart < 0.1


class Counted(Populations):
    """The same model; it counts how often its prior is run."""

    def __init__(self):
        self.runs = 0

    def prior(self, data, plates):
        self.runs += 1
        return super().prior(data, plates)


def test_the_default_method_runs_the_prior_no_more_often():
    data, models = tiny(), (Counted(), Counted())
    for model, choice in zip(models, ({}, {"method": "gibbs"}), strict=True):
        assert quiet_fit(data, model, num_samples=5, warmup=2, chains=1, **choice).info["method"] == "gibbs"
    assert models[0].runs == models[1].runs


class Turned(Populations):
    """The same model; its counts lie in memory as those of workers do, with the given labels before the true ones."""

    def conjugate_counts(self, statistics, data):
        counts = super().conjugate_counts(statistics, data)
        return counts | {"shared": counts["shared"].mT.contiguous().mT}


def test_memory_of_other_sites_is_left_alone():
    """Counts of workers go into the memory of an earlier site only if it has their shape: two shared matrices have not.

    Some 500 items and 12 workers, beyond what a dense matrix of counts holds.
    """
    data = simulated(items=500)[0]
    assert not data.counts.dense
    plain, turned = (quiet_fit(data, model, method="em", num_samples=2) for model in (Populations(), Turned()))
    for name in ("prevalence", "shared"):
        np.testing.assert_allclose(turned.tree["point"][name], plain.tree["point"][name], atol=1e-9)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_prior_means_of_workers_with_one_prior_are_one_mean(case):
    """The sites' means are those of their priors; a table for each worker is not held where the concentrations are not."""
    data = tiny(classes=case.classes, features=case.features, criteria=case.criteria)
    with isolated(0), torch.no_grad():
        sites, _ = bind(case.model, data)._at_means
        for node in sites.values():
            prior = node["fn"]
            while hasattr(prior, "base_dist"):
                prior = prior.base_dist
            if not isinstance(prior, Dirichlet):
                continue
            torch.testing.assert_close(node["value"], node["fn"].mean, rtol=0, atol=0)
            assert node["value"].stride()[:-1] == prior.concentration.stride()[:-1]


def test_a_mean_field_step_needs_one_component():
    data = tiny()
    with isolated(0), torch.no_grad():
        bound = bind(Spammers(), data)
        with pytest.raises(ModelError, match="several components"):
            bound.conjugacy.expect(bound.statistics(data.majority(), data))


def test_em_needs_a_mode():
    with pytest.raises(ModelError, match="'confusion' has concentrations below 1"):
        fit(tiny(), DawidSkene(concentration=((0.5, 0.5, 0.5),) * 3), method="em")
    with pytest.raises(ModelError, match="no interior mode"):
        fit(tiny(), ItemSubtypes(), method="em")


def test_models_stay_as_they_were():
    """A fit keeps what it needs in an object of its own: nothing is written to a frozen model."""
    model = DawidSkene()
    before = dict(vars(model))
    quiet_fit(tiny(), model, method="em", num_samples=2)
    assert vars(model) == before


def test_most_of_a_conjugate_model_is_its_story():
    """Dawid and Skene's file has at most 125 lines; no file of the conjugate zoo repeats what follows from its priors."""
    folder = Path(crowdppl.models.__file__).parent
    assert len((folder / "dawid_skene.py").read_text(encoding="utf-8").splitlines()) <= 125
    for name in ("dawid_skene", "one_coin", "class_conditional", "pooled", "item_subtypes"):
        source = (folder / f"{name}.py").read_text(encoding="utf-8")
        assert not re.search(r"def (m_step|gibbs_step|guide|log_prior)\(", source), name


def members():
    """Return the names of the contract."""
    return [name for name in vars(crowdppl.AnnotationModel) if not name.startswith("_")]


def test_the_contract_is_small():
    # Truths that are not classes brought two: their number, and how classes are read off them; what views show is a third.
    # Features that a classifier reads beside the model, compiled draws of raters, and log priors by site are the last.
    assert len(members()) <= 34


def test_the_guide_has_the_whole_contract():
    """A row for each member, and their number in words."""
    page = (Path(crowdppl.__file__).parents[1] / "docs" / "guide" / "custom-models.md").read_text(encoding="utf-8")
    _, _, part = page.partition("## The whole contract")
    table = re.search(r"(?:^\|.*\n)+", part, re.MULTILINE).group()
    assert set(members()) <= set(re.findall(r"`(\w+)(?:\(|`)", table))
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    structure = table.partition("| **structure** | | |\n")[2].partition("| **")[0].splitlines()
    assert {34: "thirty-four"}[len(members())] in part
    assert {12: "twelve"}[len(structure)] + " describe its structure" in part
    assert len(rows) == len(members()) - 1  # m_step_of_coupled is in the row of coupling
