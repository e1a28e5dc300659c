"""What a user's model may get wrong in silence: each is refused in one line by check_contract, a fit or a simulation."""

from typing import ClassVar

import pandas as pd
import pyro
import pytest
import torch
from catalog import CASES, SHORT, OwnCoin, SkillAndDifficulty, in_turn, quiet_fit, tiny
from pyro.distributions import (
    Bernoulli,
    Beta,
    Categorical,
    Delta,
    Dirichlet,
    MixtureSameFamily,
    Normal,
    Poisson,
    TorchDistribution,
)

import crowdppl
from crowdppl import Annotations, ModelError, check_contract
from crowdppl.models import GLAD, OrdinalThresholds


class Copies(OwnCoin):
    """The second worker copies the label of the annotation before."""

    def emission(self, parameters, data):
        table = self.confusion(parameters, data)[data.worker]
        copied = torch.nn.functional.one_hot(data.label.roll(1), data.K).to(table.dtype)[:, None, :]
        return Categorical(torch.where((data.worker == 1)[:, None, None], 0.9 * copied + 0.1 * table, table))

    confusion_of = OwnCoin.confusion

    def confusion(self, parameters, data):
        return self.confusion_of(parameters, data)


class Detached(SkillAndDifficulty):
    """The skill is taken out of the graph."""

    def emission(self, parameters, data):
        logit = parameters["skill"].detach()[data.worker] / parameters["difficulty"][data.item]
        return Categorical(logits=logit[:, None, None] * torch.eye(data.K))


class ByNumpy(SkillAndDifficulty):
    """The difficulty goes through numpy."""

    def emission(self, parameters, data):
        difficulty = torch.as_tensor(parameters["difficulty"].detach().numpy()[data.item.numpy()])
        return Categorical(logits=(parameters["skill"][data.worker] / difficulty)[:, None, None] * torch.eye(data.K))


def with_site(name, distribution):
    """A model with a further site of the crowd."""

    class Named(OwnCoin):
        def prior(self, data, plates):
            return super().prior(data, plates) | {name: pyro.sample(name, distribution)}

    return Named()


@pytest.mark.parametrize("model", [Detached(), ByNumpy()], ids=lambda m: type(m).__name__)
def test_gradients_are_compared_with_differences(model):
    site = "skill" if isinstance(model, Detached) else "difficulty"
    with pytest.raises(
        ModelError, match=rf"the gradient of the log joint by the site '{site}' is 0 where differences give"
    ):
        check_contract(model, tiny())


def test_labels_are_not_read():
    for refused in (
        lambda: check_contract(Copies(), tiny()),
        lambda: crowdppl.simulate(Copies(), [0, 0, 1, 1], [0, 1, 0, 1], classes=2, seed=0),
    ):
        with pytest.raises(ModelError, match=r"Copies.emission depends on data.label"):
            refused()


@pytest.mark.parametrize("name", ["truth", "labels", "rho", "item", "worker", "lp"])
def test_names_of_programs_and_results_are_reserved(name):
    model = with_site(name, Beta(2.0, 2.0))
    for refused in (lambda: check_contract(model, tiny()), lambda: quiet_fit(tiny(), model, method="svi", max_iter=2)):
        with pytest.raises(ModelError) as caught:
            refused()
        assert f"'{name}'" in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "prior"), [("confusion", Normal(0.0, 1.0)), ("prevalence", Dirichlet(torch.ones(5)))])
def test_shapes_of_reported_names(name, prior):
    class Other(SkillAndDifficulty):
        def prior(self, data, plates):
            with plates.worker:
                skill = pyro.sample("skill", Normal(2.0, 1.0))
            with plates.item:
                difficulty = pyro.sample("difficulty", Beta(2.0, 2.0))
            site = pyro.sample(name, prior)
            return {"skill": skill, "difficulty": difficulty, name: site}

        def truth(self, parameters, data):
            return Categorical(torch.ones(data.K))

    with pytest.raises(ModelError, match=f"a site '{name}' of shape"):
        check_contract(Other(), tiny())


@pytest.mark.parametrize("wrong", ["skill", ("skill", 1), None, {"skill": 1}], ids=repr)
def test_what_views_show_is_a_tuple_of_names(wrong):
    """The one text would be taken for names of one letter."""
    model = type("Wrong", (SkillAndDifficulty,), {"viewed": wrong})()
    for refused in (lambda: check_contract(model, tiny()), lambda: quiet_fit(tiny(), model, method="svi", max_iter=2)):
        with pytest.raises(ModelError, match=r"^Wrong\.viewed is .*; it must be a tuple of names of sites and derived"):
            refused()


def test_what_views_show_is_there():
    check_contract(type("Right", (SkillAndDifficulty,), {"viewed": ("skill", "difficulty")})(), tiny())
    wrong = type("Wrong", (SkillAndDifficulty,), {"viewed": ("skil",)})()
    sentence = r"^Wrong\.viewed has 'skil', which is neither a site nor a derived quantity \(did you mean 'skill'\?\)$"
    with pytest.raises(ModelError, match=sentence):
        check_contract(wrong, tiny())


class Unstated(TorchDistribution):
    """A distribution that states no support."""

    arg_constraints: ClassVar = {}

    def sample(self, sample_shape=()):
        return torch.zeros(sample_shape)

    rsample = sample

    def log_prob(self, value):
        return -value.square()


def other(**methods):
    """The model of skills and difficulties with another method."""
    return type("Other", (SkillAndDifficulty,), methods)()


def with_part(add):
    """The same with something further in its prior."""

    def prior(self, data, plates):
        out = SkillAndDifficulty.prior(self, data, plates)
        add(out, data, plates)
        return out

    return other(prior=prior)


def in_worker_plate(distribution):
    def add(out, data, plates):
        with plates.worker:
            out["more"] = pyro.sample("more", distribution)

    return with_part(add)


def in_item_plate(distribution):
    def add(out, data, plates):
        with plates.item:
            out["more"] = pyro.sample("more", distribution)

    return with_part(add)


def alone(distribution):
    return with_part(lambda out, data, plates: out.update(more=pyro.sample("more", distribution)))


def in_two_plates(out, data, plates):
    with pyro.plate("sessions", 5, dim=-2), plates.worker:
        out["more"] = pyro.sample("more", Normal(0.0, 1.0))


def logits(parameters, data):
    return (parameters["skill"][data.worker] / parameters["difficulty"][data.item])[:, None, None] * torch.eye(data.K)


def emission(change):
    return other(emission=lambda self, parameters, data: change(logits(parameters, data), data))


WRONG = {
    "spammers": (in_worker_plate(Bernoulli(0.3)), "discrete site 'more'.*sum it out .*mixture.*gibbs_step"),
    "communities": (in_worker_plate(Categorical(torch.ones(2))), "discrete site 'more'.*MixtureSameFamily"),
    "hard items": (in_item_plate(Bernoulli(0.3)), "discrete site 'more'.*states_per_class"),
    "a count": (alone(Poisson(3.0)), "discrete site 'more'"),
    "a constant": (alone(Delta(torch.tensor(1.0))), "'more' is a Delta"),
    "no support": (alone(Unstated()), "'more' have no unbounded coordinates: Unstated"),
    "a vector": (
        alone(Normal(torch.zeros(5), 1.0)),
        r"batch shape \(5,\), of which no plate covers any.*to_event",
    ),
    "a column": (in_worker_plate(Normal(torch.zeros(3, 1), 1.0)), r"of which a plate covers \(3,\).*to_event"),
    "plates in plates": (with_part(in_two_plates), "'more' is in a plate at dimension -2"),
    "twice": (with_part(lambda out, *_: pyro.sample("skill", Normal(0.0, 1.0))), "Other.prior failed .*named 'skill'$"),
    "a negative scale": (
        with_part(lambda out, *_: out.update(more=pyro.sample("more", Normal(0.0, torch.tensor(-1.0))))),
        "Other.prior failed .*scale",
    ),
    "a parameter": (with_part(lambda out, *_: pyro.param("more", torch.tensor(1.0))), r"pyro.param\('more'\)"),
    "nothing": (emission(lambda x, data: None), "emission returned a NoneType"),
    "a tensor": (emission(lambda x, data: x.softmax(-1)), "emission returned a Tensor"),
    "a coin": (emission(lambda x, data: Bernoulli(logits=x[..., 0])), "emission returned a Bernoulli"),
    "not a number": (
        emission(lambda x, data: Categorical(logits=x * float("nan"))),
        "Other.emission failed .*ValueError",
    ),
    "a density": (emission(lambda x, data: Normal(x[..., 0], 1.0)), "probabilities that sum to"),
    "too many labels": (
        emission(lambda x, data: Categorical(logits=torch.zeros(*x.shape[:2], 4))),
        "has 4 labels.* 3 classes",
    ),
    "too few labels": (emission(lambda x, data: Categorical(logits=x[..., :2])), "has 2 labels.* 3 classes"),
    "transposed": (
        emission(lambda x, data: Categorical(logits=x.transpose(0, 1))),
        r"batch shape \(A, S\) = \(12, 3\)",
    ),
    "truth a tensor": (
        other(truth=lambda self, p, data: p["prevalence"]),
        "truth must return a Categorical.* a Tensor",
    ),
}


@pytest.mark.parametrize("how", WRONG)
def test_every_engine_refuses_in_one_line(how):
    model, said = WRONG[how]
    data = tiny()
    refused = [lambda: check_contract(model, data), lambda: crowdppl.pyro_program(model, data)]
    refused += [lambda m=m: quiet_fit(data, model, method=m, **SHORT[m]) for m in ("em", "svi", "gibbs", "nuts")]
    for call in refused:
        with pytest.raises(ModelError, match=said) as caught:
            call()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("dims", [("true_label",), ("worker", "true_label"), ("item",)], ids=str)
def test_axes_are_named_as_they_are(dims):
    with pytest.raises(
        ModelError, match=r"Named\.dims names the axes of the site 'skill' .* 1, of which the first is 'worker'$"
    ):
        quiet_fit(tiny(), type("Named", (SkillAndDifficulty,), {"dims": {"skill": dims}})(), method="svi", max_iter=2)


def test_prior_and_truth_do_not_read_labels():
    def add(out, data, plates):
        out["more"] = pyro.sample("more", Normal(data.label.double().mean(), 1.0))

    def truth(self, parameters, data):
        return Categorical(torch.bincount(data.label, minlength=data.K) + parameters["prevalence"])

    for model, method in ((with_part(add), "prior"), (other(truth=truth), "truth")):
        for refused in (
            lambda: check_contract(model, tiny()),  # noqa: B023 - called at once
            lambda: crowdppl.simulate(model, [0, 0, 1, 1], [0, 1, 0, 1], classes=2, seed=0),  # noqa: B023
        ):
            with pytest.raises(ModelError, match=rf"Other.{method} depends on data.label"):
                refused()


@pytest.mark.parametrize("method", ["em", "svi", "nuts"])
def test_mixtures_of_workers_are_fitted(method):
    """torch has no coordinates for values of mixtures; those of their components serve."""
    kinds = MixtureSameFamily(Categorical(torch.ones(2)), Beta(torch.tensor([8.0, 2.0]), torch.tensor([2.0, 2.0])))
    posterior = quiet_fit(tiny(), in_worker_plate(kinds), method=method, **SHORT[method])
    values = posterior.tree["posterior"]["more"]
    assert values.dims == ("chain", "draw", "worker")
    assert ((values > 0) & (values < 1)).all()


@pytest.mark.parametrize(
    ("case", "known"),
    in_turn([(c, known) for n, c in enumerate(CASES) for known in (n % 2 == 0, n % 2 == 1)], 2, night=False),
)
def test_the_catalogue_has_none_of_these(case, known):
    check_contract(
        case.model, tiny(1, classes=case.classes, features=case.features, criteria=case.criteria, known=known)
    )


@pytest.mark.parametrize("model", [GLAD(easiness_scale=5000.0), OrdinalThresholds(precision_scale=5000.0)])
def test_numbers_out_of_the_ordinary_are_checked_in_full(model):
    """A model of the library is checked briefly only where its numbers are of ordinary size."""
    kind = "ordinal" if isinstance(model, OrdinalThresholds) else "nominal"
    rows = [(i, w, (i + w) % 3) for i in range(20) for w in range(4)]
    data = Annotations.from_frame(pd.DataFrame(rows, columns=["item", "worker", "label"]), kind=kind, labels=range(3))
    with pytest.raises(ModelError, match=rf"{type(model).__name__}(\.\w+)? failed on"):
        crowdppl.fit(data, model, method="em", seed=0)
