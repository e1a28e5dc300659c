"""Sites in non-centred form: densities, values and starts, and where the form is taken."""

from functools import partial
from typing import ClassVar

import arviz_stats
import numpy as np
import pandas as pd
import pyro
import pytest
import torch
from catalog import in_turn, quiet_fit
from pyro.distributions import Categorical, Normal
from user_models import USER_MODELS, Experience

import crowdppl
from crowdppl.inference.backends.gradients import plain_density, points, space_of_chains
from crowdppl.inference.engines.non_centred import NonCentred
from crowdppl.inference.engines.unconstrained import Space
from crowdppl.isolation import isolated
from crowdppl.model.bound import bind
from crowdppl.model.contract import check

USER = next(user for user in USER_MODELS if isinstance(user.model, Experience))


def spaces(data, model, wanted=True):
    bound = bind(model, data)
    space = Space(check(bound, data))
    return bound, space, space_of_chains(bound, data, space, wanted)


def test_density_and_values():
    """The density is that of the model at the same values, times the scale of each effect; slopes are those by differences."""
    data = USER.crowd()
    with isolated(0, dtype=data.dtype):
        bound, space, other = spaces(data, USER.model)
        assert isinstance(other, NonCentred)
        assert other.names == {"effect"}
        for values in points(bound, data, 3):
            place = other.vector(values).detach()
            there = other.values(place)
            z = Space.values(other, place)["effect"]
            torch.testing.assert_close(there["effect"], values["sigma"] * z)
            assert torch.equal(there["sigma"], Space.values(other, place)["sigma"])
            moved = plain_density(bound, data, other, place, {})
            plain = plain_density(bound, data, space, space.vector(there, inside=False), {})
            expected = plain[0] + len(z) * there["sigma"].log()
            torch.testing.assert_close(moved[0], expected)
            for n in range(other.size):
                step = torch.zeros(other.size, dtype=data.dtype)
                step[n] = 1e-5
                up, down = (plain_density(bound, data, other, place + s * step, {})[0] for s in (1, -1))
                torch.testing.assert_close(moved[1][n], (up - down) / 2e-5, rtol=1e-4, atol=1e-4)
        both = torch.stack([other.vector(values).detach() for values in points(bound, data, 4)]).view(2, 2, -1)
        several = other.several(both)
        for a, b in np.ndindex(2, 2):
            for name, value in other.values(both[a, b]).items():
                torch.testing.assert_close(several[name][a, b], value)


def test_the_form_is_taken_where_data_say_little():
    """Eight annotations of each worker, and six hundred."""
    taken = []
    for items in (12, 900):
        data = USER.crowd(items=items)
        with isolated(0, dtype=data.dtype):
            taken.append(
                [isinstance(spaces(data, USER.model, wanted)[2], NonCentred) for wanted in (None, True, False)]
            )
    assert taken == [[True, True, False], [False, True, False]]


def test_models_without_a_hierarchy_stay_as_they_are():
    for user in USER_MODELS[2:4]:
        data = user.crowd()
        with isolated(0, dtype=data.dtype):
            bound = bind(user.model, data)
            expanded = bound.expand(data)
            space = Space(check(bound, expanded))
            assert space_of_chains(bound, expanded, space, None) is space


class LooksAtValues(Experience):
    """A prior that takes one set of parameters at a time."""

    def prior(self, data, plates):
        out = super().prior(data, plates)
        return out | {"unused": torch.tensor(float(out["sigma"]) * 0.0)}


def test_a_prior_that_looks_at_values():
    data = USER.crowd()
    with isolated(0, dtype=data.dtype), pyro.validation_enabled(False):
        bound, _, space = spaces(data, LooksAtValues())
        places = torch.stack([space.vector(values).detach() for values in points(bound, data, 3)])
        together = space.several(places)
        torch.testing.assert_close(together["effect"], torch.stack([space.values(one)["effect"] for one in places]))


@pytest.mark.slow
@pytest.mark.parametrize("chains", [2, pytest.param(4, marks=pytest.mark.longest)])
def test_both_forms_have_one_posterior(chains):
    """By NUTS and Gibbs sampling: means within five standard errors; the centred form has many annotations of each worker."""
    data = USER.crowd(items=200)
    options = {"seed": 1, "chains": chains, "warmup": 75 * chains, "num_samples": 100 * chains}
    fit = partial(quiet_fit, data, USER.model, independent=True, **options)
    results = [fit(method="nuts", non_centred=form) for form in (True, False)] + [fit(method="gibbs")]
    assert [one.info["facts"].get("non_centred") for one in results[:2]] == [["effect"], []]
    for name in ("intercept", "slope", "sigma", "effect"):
        draws = [one.tree["posterior"][name] for one in results]
        means = [one.mean(("chain", "draw")) for one in draws]
        errors = [arviz_stats.mcse(one.to_dataset(name=name), method="mean")[name] for one in draws]
        for n in (1, 2):
            assert (abs(means[0] - means[n]) < 5 * np.hypot(errors[0], errors[n])).all(), (name, n)


class ThreeLevels(crowdppl.AnnotationModel):
    """Abilities around a mean of their own, which is drawn around another one: labels say nothing of the means themselves."""

    dims: ClassVar = {"ability": ("worker",), "group": (), "top": ()}

    def prior(self, data, plates):
        zero = torch.zeros((), dtype=data.dtype)
        top = pyro.sample("top", Normal(zero, zero + 1))
        group = pyro.sample("group", Normal(top, zero + 1))
        with plates.worker:
            ability = pyro.sample("ability", Normal(group, zero + 1))
        return {"top": top, "group": group, "ability": ability}

    def truth(self, parameters, data):
        return Categorical(torch.full((data.K,), 1 / data.K, dtype=data.dtype))

    def emission(self, parameters, data):
        return Categorical(
            logits=parameters["ability"][data.worker][:, None, None] * torch.eye(data.K, dtype=data.dtype)
        )


LEVELS = [(ThreeLevels(), "nuts"), (ThreeLevels(), "gibbs"), ("graded-facets", "nuts"), ("graded-facets", "gibbs")]


@pytest.mark.parametrize(
    ("model", "method"),
    in_turn(
        LEVELS,
        3,
        name=lambda one: "-".join(part if isinstance(part, str) else type(part).__name__ for part in one),
        night=False,
    ),
)
def test_sites_that_labels_do_not_read(model, method):
    """The middle of three levels, and the prior of experts whose grades are not at hand."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"task": np.arange(40) // 5, "worker": np.arange(40) % 5, "label": rng.integers(3, size=40)})
    data = crowdppl.Annotations.from_frame(frame, kind="ordinal" if model == "graded-facets" else "nominal")
    posterior = quiet_fit(data, model, method=method, chains=2, warmup=6, num_samples=6, seed=0)
    assert all(np.isfinite(value).all() for value in posterior.tree["posterior"].data_vars.values())
