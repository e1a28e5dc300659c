"""Simulation-based calibration: the quick runs, and the tool itself. `make sbc` runs it for all models and engines."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import torch
from pyro.distributions import Categorical, Dirichlet

import crowdppl
from crowdppl.criticism import sbc
from crowdppl.model.bound import bind
from crowdppl.models import (
    AccuracyRegression,
    ClassConditional,
    DawidSkene,
    GradedFacets,
    HierarchicalDawidSkene,
    ItemSubtypes,
    LabelSets,
    MajorityVote,
    OneCoin,
    SequentialWorkers,
)

LONGEST = [pytest.mark.slow, pytest.mark.longest]
SHORT = {"chains": 1, "warmup": 150, "num_samples": 495}


def assert_calibrated(table, quantities):
    assert quantities <= set(table.index)
    assert table["p"].min() > 2e-4
    assert 0.82 < table.loc["accuracy", "coverage"] < 0.95


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        DawidSkene(),
        ItemSubtypes(subtypes=2),
        *(
            pytest.param(m, marks=LONGEST)
            for m in (MajorityVote(), OneCoin(), ClassConditional(), HierarchicalDawidSkene())
        ),
    ],
    ids=lambda m: type(m).__name__,
)
def test_gibbs_is_calibrated(model):
    """100 data sets from the prior: no quantity's ranks outside simultaneous bands at 1 in 5,000 (its own level, times some 9
    quantities and 6 models: one false alarm in a hundred choices of seeds; these are fixed), and 89% intervals cover 82% to 95%.
    """
    table = sbc.table(sbc.ranks(model, "gibbs", simulations=100, seed=1000, **SHORT)).set_index("quantity")
    assert_calibrated(table, {"prevalence", "confusion", "log-likelihood", "accuracy", "truth", "correct annotations"})


@pytest.mark.slow
@pytest.mark.longest
def test_gibbs_is_calibrated_in_sequences():
    """100 data sets of four sequences of six tokens, as above: nine quantities, one false alarm in 500 choices of seeds."""
    options = {"items": 24, "per_item": 4, "features": 0, "length": 6}
    result = sbc.ranks(SequentialWorkers(), "gibbs", simulations=100, seed=1000, **options, **SHORT)
    table = sbc.table(result).set_index("quantity")
    assert_calibrated(table, {"start", "transition", "emission", "truth", "correct annotations"})


@pytest.mark.slow
@pytest.mark.longest
def test_gibbs_is_calibrated_in_sets():
    """100 data sets of eight sets of three labels, as above; clusters may change places, so that nothing is said of them."""
    options = {"items": 24, "per_item": 4, "features": 0, "sets": 3}
    result = sbc.ranks(LabelSets(clusters=2), "gibbs", simulations=100, seed=1000, **options, **SHORT)
    table = sbc.table(result).set_index("quantity").drop(index=["share", "rate"])
    assert_calibrated(table, {"crowd", "choice", "truth", "correct annotations"})


def with_covariates(classes, **more):
    """Return a design of 24 items and 6 workers, with covariates of annotations, of workers and of items."""
    rng = np.random.default_rng(5)
    task, worker = np.repeat(np.arange(24), 4), np.concatenate([rng.choice(6, 4, replace=False) for _ in range(24)])
    data = crowdppl.Annotations.from_arrays(task, worker, np.arange(96) % classes, labels=range(classes))
    item, worker = data.item.numpy(), data.worker.numpy()
    columns = {"own": rng.normal(size=96), "tenure": rng.normal(size=6)[worker], "length": rng.normal(size=24)[item]}
    return data.with_covariates(pd.DataFrame(columns | {"session": rng.choice(["am", "pm"], 96)} | more))


@pytest.mark.slow
@pytest.mark.longest
def test_gibbs_is_calibrated_with_covariates():
    """80 data sets, as above: effects of covariates, spreads and abilities, in the design of given annotations."""
    result = sbc.ranks(AccuracyRegression(), "gibbs", simulations=80, seed=100, design=with_covariates(3), **SHORT)
    table = sbc.table(result).set_index("quantity")
    assert {"effects", "worker_spread", "class_spread", "item_spread", "ability", "easiness"} <= set(table.index)
    assert table["p"].min() > 2e-4
    assert 0.82 < table.loc["accuracy", "coverage"] < 0.95


@pytest.mark.slow
@pytest.mark.longest
def test_gibbs_is_calibrated_for_grades_by_criteria():
    """60 data sets, as above: raters, crowd, spreads and difficulties of three criteria, 12 items by 4 raters."""
    place = np.indices((12, 4, 3)).reshape(3, -1)
    design = crowdppl.Annotations.from_arrays(
        *place[:2], place.sum(0) % 4, labels=range(4), kind="ordinal", criterion=place[2]
    )
    result = sbc.ranks(GradedFacets(nodes=9), "gibbs", simulations=60, seed=100, design=design, **SHORT)
    table = sbc.table(result).set_index("quantity")
    assert {"criterion_number", "middle", "log_slope", "spread_precision", "correct annotations"} <= set(table.index)
    assert table["p"].min() > 2e-4
    assert 0.82 < table.loc["accuracy", "coverage"] < 0.95


@pytest.mark.slow
@pytest.mark.longest
def test_gibbs_is_calibrated_where_abilities_walk():
    """60 data sets, as above, with random walks over three weeks; priors under which two classes do not change places."""
    model = AccuracyRegression(
        mean_log_odds=2.0, typical_scale=0.3, worker_scale=0.5, class_scale=0.3, item_scale=None, walk="week"
    )
    design = with_covariates(2, week=np.arange(96) % 3)
    result = sbc.ranks(model, "gibbs", simulations=60, seed=100, design=design, **SHORT)
    table = sbc.table(result).set_index("quantity")
    assert {"walk_spread", "steps", "effects", "ability"} <= set(table.index)
    assert table["p"].min() > 2e-4
    assert 0.82 < table.loc["accuracy", "coverage"] < 0.95


@pytest.mark.slow
@pytest.mark.longest
@pytest.mark.parametrize("name", ["dawid-skene", "one-coin", "majority-vote"])
def test_nuts_is_calibrated(name):
    """40 data sets, as above."""
    options = {"chains": 1, "warmup": 100, "num_samples": 99}
    table = sbc.table(sbc.ranks(name, "nuts", simulations=40, seed=500, **options))
    assert table["p"].min() > 2e-4


@dataclass(frozen=True)
class Broken(crowdppl.AnnotationModel):
    """Dawid and Skene's story with a step of the sampler that is wrong in one of several ways."""

    fault: str = "none"

    def prior(self, data, plates):
        return DawidSkene().prior(data, plates)

    def truth(self, parameters, data):
        return Categorical(parameters["prevalence"])

    def emission(self, parameters, data):
        return Categorical(parameters["confusion"][data.worker])

    def log_truth(self, parameters, data):
        flat = torch.full_like(parameters["prevalence"], 1 / data.K)
        return (flat if self.fault == "no prevalence" else parameters["prevalence"]).log()

    def confusion(self, parameters, data):
        return parameters["confusion"]

    def log_prior(self, parameters, data):
        a, B = DawidSkene().concentrations(data)
        rows = Dirichlet(B).log_prob(parameters["confusion"])
        return Dirichlet(a).log_prob(parameters["prevalence"]) + rows.sum((-1, -2))

    def gibbs_step(self, truth, parameters, data):
        right = bind(DawidSkene(), data).gibbs_step(truth, parameters, data)
        if self.fault == "ignores data":
            a, B = DawidSkene().concentrations(data)
            C = len(truth)
            return {
                "prevalence": Dirichlet(a.expand(C, -1)).sample(),
                "confusion": Dirichlet(B.expand(C, data.J, -1, -1)).sample(),
            }
        if self.fault == "counts five times":
            counts = data.counts.expected(torch.nn.functional.one_hot(truth, data.K).to(data.dtype))
            right["confusion"] = Dirichlet(DawidSkene().concentrations(data)[1] + 5 * counts).sample()
        return right


@pytest.mark.slow
@pytest.mark.parametrize("simulations", [40, pytest.param(80, marks=LONGEST)])
@pytest.mark.parametrize("fault", ["none", pytest.param("ignores data", marks=LONGEST), "counts five times"])
def test_a_broken_sampler_is_found(fault, simulations):
    """Ranks of parameters are blind to a sampler that ignores the data; the rank of the log-likelihood is not."""
    options = SHORT if simulations > 40 else {"chains": 1, "warmup": 30, "num_samples": 198}
    table = sbc.table(sbc.ranks(Broken(fault), "gibbs", simulations=simulations, **options)).set_index("quantity")
    if fault == "none":
        assert table["p"].min() > 1e-3
    elif fault == "ignores data":
        assert table.loc["accuracy", "p"] > 1e-3
        assert table.loc["log-likelihood", "p"] < 1e-3
    else:
        assert table["p"].min() < 1e-3
        assert table.loc["accuracy", "coverage"] < 0.85


@pytest.mark.slow
def test_uniformity_has_its_level_and_its_power():
    """Of 400 uniform sets 5% are below .05 (bounds: 3 standard errors); sets from a bent distribution are found."""
    rng = np.random.default_rng(0)
    p = np.array([sbc.uniformity(rng.integers(0, 100, 80), 99, replications=500) for _ in range(400)])
    assert abs((p < 0.05).mean() - 0.05) < 0.033
    assert abs(p.mean() - 0.5) < 0.06
    bent = [sbc.uniformity((100 * rng.beta(1.7, 1.7, 200)).astype(int), 99) for _ in range(10)]
    assert max(bent) < 0.05
    shifted = [sbc.uniformity((100 * rng.beta(1.4, 1.0, 200)).astype(int), 99) for _ in range(10)]
    assert np.median(shifted) < 0.01


def test_coverage_counts_the_middle():
    assert sbc.coverage(np.arange(100), 99, 0.5) == 0.5
    assert sbc.coverage(np.array([0, 99]), 99) == 0
    assert sbc.coverage(np.array([50]), 99) == 1


def test_a_point_has_no_ranks():
    from crowdppl.models import CoNAL

    with pytest.raises(sbc.NoDraws, match="returns a point estimate"):
        sbc.ranks(CoNAL(hidden=(), embedding=2), "svi", simulations=1, max_iter=5)
