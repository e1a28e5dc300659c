"""Simulation-based calibration of Gibbs sampling by gradients, and of numbers with features: long, run at night."""

import pytest
import torch
from catalog import SkillAndDifficulty
from pyro import poutine
from scipy.stats import kstest

from crowdppl.criticism import sbc
from crowdppl.inference.numeric.gibbs import gibbs
from crowdppl.inference.options import completed
from crowdppl.isolation import isolated
from crowdppl.model.numeric import StandardLabels
from crowdppl.models import LinearGaussian


@pytest.mark.slow
@pytest.mark.longest
def test_gradients_are_calibrated():
    """60 data sets; ten quantities, each below 2e-4 by chance once in 5,000 times: a false alarm in 500 runs."""
    options = {"chains": 1, "warmup": 150, "num_samples": 198}
    table = sbc.table(sbc.ranks(SkillAndDifficulty(), "gibbs", simulations=60, seed=300, **options))
    assert {"skill", "difficulty"} <= set(table["quantity"])
    assert table["p"].min() > 2e-4


@pytest.mark.slow
@pytest.mark.longest
def test_simulation_based_calibration_of_gibbs():
    """Ranks of parameters drawn from the prior are uniform: false alarm .001 for each site."""
    N, J, D, replications = 25, 5, 3, 100
    item, worker = torch.arange(N).repeat_interleave(J), torch.arange(J).repeat(N)
    model, features = (
        LinearGaussian(truth_scale=1.5, bias_scale=0.7, slope_scale=0.4),
        torch.randn(N, D, generator=torch.Generator().manual_seed(0), dtype=torch.float64),
    )
    ranks = {}
    for seed in range(replications):
        with isolated(seed=seed):
            parts = (N, J, False, 0.0, 1.0, 1e-8, None, features)
            blank = StandardLabels(item, worker, torch.zeros(len(item)), *parts)
            trace = poutine.trace(poutine.uncondition(model.program)).get_trace(blank)
            data = StandardLabels(item, worker, trace.nodes["labels"]["value"], *parts)
            draws = gibbs(model, data, completed("gibbs", {"chains": 1, "warmup": 500, "num_samples": 1000}))
        for name in ("weight", "weight_sd", "truth_sd", "slope", "slope_sd", "mean"):
            value = trace.nodes[name]["value"]
            drawn_too = draws.samples[name][0, ::10]
            ranks.setdefault(name, []).append(float((drawn_too < value).double().mean(0).flatten()[0]))
    for site, values in ranks.items():
        assert kstest(values, "uniform").pvalue > 0.001, site
