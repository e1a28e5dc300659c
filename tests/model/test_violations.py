"""What a user's model may get wrong in silence: each is refused in one line by check_contract, a fit or a simulation."""

import pyro
import pytest
import torch
from catalog import CASES, OwnCoin, SkillAndDifficulty, quiet_fit, tiny
from pyro.distributions import Beta, Categorical, Dirichlet, Normal

import crowdppl
from crowdppl import ModelError, check_contract


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


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_the_catalogue_has_none_of_these(case):
    check_contract(case.model, tiny(1, classes=case.classes, features=case.features, known=True))
