"""The log prior site by site, where all draws are taken at once and where they cannot be."""

import numpy as np
import pyro
import pytest
from catalog import SHORT, SkillAndDifficulty, quiet_fit, tiny
from pyro.distributions import Normal
from scipy import stats


class Branches(SkillAndDifficulty):
    """A prior that looks at a value, which a run for several draws at once does not know; and a factor of its own."""

    def prior(self, data, plates):
        out = super().prior(data, plates)
        out["side"] = pyro.sample("side", Normal(0.0, 1.0))
        out["more"] = pyro.sample("more", Normal(0.0, 1.0 if out["side"] > 0 else 3.0))
        pyro.factor("penalty", -(out["more"] ** 2))
        return out


@pytest.mark.parametrize("method", ["svi", "nuts"])
def test_a_prior_that_looks_at_values(method):
    data = tiny()
    tree = quiet_fit(data, Branches(), method=method, seed=1, **SHORT[method]).tree
    draws, priors = tree["posterior"], tree["log_prior"]
    side, more = draws["side"].values, draws["more"].values
    assert priors["skill"].dims == ("chain", "draw", "worker")
    assert priors["difficulty"].dims == ("chain", "draw", "item")
    np.testing.assert_allclose(priors["side"], stats.norm.logpdf(side))
    np.testing.assert_allclose(priors["more"], stats.norm.logpdf(more, 0, np.where(side > 0, 1, 3)))
    np.testing.assert_allclose(priors["penalty"], -(more**2))
    np.testing.assert_allclose(priors["skill"], stats.norm.logpdf(draws["skill"], 2, 1))
    total = sum(value.sum([axis for axis in value.dims if axis not in ("chain", "draw")]) for value in priors.values())
    np.testing.assert_allclose(total + tree["log_likelihood"]["labels"].sum("item"), tree["sample_stats"]["lp"])
