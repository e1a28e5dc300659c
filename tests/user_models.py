"""Twelve models as users write them: the three methods, by the public interface alone, and a crowd of each kind to fit."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyro
import torch
from pyro.distributions import (
    Beta,
    Categorical,
    Dirichlet,
    HalfNormal,
    LogNormal,
    MixtureSameFamily,
    Normal,
    TransformedDistribution,
)
from pyro.distributions.transforms import OrderedTransform

import crowdppl
from crowdppl import AnnotationModel
from crowdppl.model.networks import perceptron


def correct_or_not(correct, data):
    """A label is correct with these probabilities ``(A,)``, and otherwise any other one."""
    eye = torch.eye(data.K)
    correct = correct[:, None, None]
    return Categorical(correct * eye + (1 - correct) / (data.K - 1) * (1 - eye))


class WithPrevalence(AnnotationModel):
    """What all but the network's model have in common."""

    def truth(self, parameters, data):
        return Categorical(parameters["prevalence"])


def prevalence(data):
    return {"prevalence": pyro.sample("prevalence", Dirichlet(2 * torch.ones(data.K)))}


class TwoParameters(WithPrevalence):
    """Item response: a worker's ability against an item's difficulty, times the item's discrimination (2PL)."""

    def prior(self, data, plates):
        out = prevalence(data)
        with plates.worker:
            out["ability"] = pyro.sample("ability", Normal(1.0, 1.0))
        with plates.item:
            out["difficulty"] = pyro.sample("difficulty", Normal(0.0, 1.0))
            out["discrimination"] = pyro.sample("discrimination", LogNormal(0.0, 0.3))
        return out

    def emission(self, parameters, data):
        apart = parameters["ability"][data.worker] - parameters["difficulty"][data.item]
        return correct_or_not(torch.sigmoid(parameters["discrimination"][data.item] * apart), data)


class Experience(WithPrevalence):
    """Regression: the log odds of a correct label are linear in a worker's experience, with an effect of each worker."""

    def prior(self, data, plates):
        out = prevalence(data)
        out["intercept"] = pyro.sample("intercept", Normal(1.0, 1.0))
        out["slope"] = pyro.sample("slope", Normal(0.0, 1.0))
        out["sigma"] = pyro.sample("sigma", HalfNormal(0.5))
        with plates.worker:
            out["effect"] = pyro.sample("effect", Normal(0.0, out["sigma"]))
        return out

    def emission(self, parameters, data):
        of_worker = parameters["intercept"] + parameters["slope"] * data.worker_features[:, 0] + parameters["effect"]
        return correct_or_not(torch.sigmoid(of_worker)[data.worker], data)


class CoarseAndFine(WithPrevalence):
    """Four classes in two groups: a worker knows the group with one probability and, if so, the class with another."""

    group = (0, 0, 1, 1)

    def prior(self, data, plates):
        out = prevalence(data)
        with plates.worker:
            out["coarse"] = pyro.sample("coarse", Beta(6.0, 2.0))
            out["fine"] = pyro.sample("fine", Beta(4.0, 2.0))
        return out

    def emission(self, parameters, data):
        coarse, fine = (parameters[name][data.worker, None, None] for name in ("coarse", "fine"))
        group = torch.tensor(self.group)
        same = (group[:, None] == group).to(fine.dtype)
        eye = torch.eye(data.K)
        return Categorical(coarse * (fine * eye + (1 - fine) * (same - eye)) + (1 - coarse) / 2 * (1 - same))


class CopyingPair(WithPrevalence):
    """The second worker copies the first: what the first would say of an item is a state, within its class.

    Labels are then independent given the states. The first worker makes slips in writing it down.
    """

    slip = 0.02

    def states_per_class(self, data):
        return data.K

    def prior(self, data, plates):
        out = prevalence(data)
        out["copies"] = pyro.sample("copies", Beta(2.0, 2.0))
        with plates.worker:
            out["skill"] = pyro.sample("skill", Beta(6.0, 2.0))
        return out

    def rows(self, parameters, data):
        correct, eye = parameters["skill"][:, None, None], torch.eye(data.K)
        return correct * eye + (1 - correct) / (data.K - 1) * (1 - eye)  # (J, K, K)

    def truth(self, parameters, data):
        said = self.rows(parameters, data)[0]  # what the first worker thinks of items of each class
        return Categorical((parameters["prevalence"][:, None] * said).flatten())

    def emission(self, parameters, data):
        rows = self.rows(parameters, data).unsqueeze(-2).expand(-1, -1, data.K, -1)  # (J, K, M, K)
        said = ((1 - self.slip) * torch.eye(data.K) + self.slip / data.K).expand(data.K, -1, -1)
        copied = parameters["copies"] * said + (1 - parameters["copies"]) * rows[1]
        tables = torch.cat([said[None], copied[None], rows[2:]])
        return Categorical(tables.flatten(1, 2)[data.worker])


class Sessions(WithPrevalence):
    """The skill of a worker takes a random walk over sessions; a feature of the items says in which they were annotated."""

    sessions = 3
    dims: ClassVar = {"step": ("worker", "change")}

    def prior(self, data, plates):
        out = prevalence(data)
        out["pace"] = pyro.sample("pace", LogNormal(-1.0, 0.5))
        with plates.worker:
            out["skill"] = pyro.sample("skill", Normal(1.5, 1.0))
            out["step"] = pyro.sample("step", Normal(torch.zeros(self.sessions - 1), 1.0).to_event(1))
        return out

    def emission(self, parameters, data):
        change = torch.nn.functional.pad(parameters["step"].cumsum(-1), (1, 0))  # (J, sessions)
        session = data.features[:, 0].long()[data.item]
        logit = parameters["skill"][data.worker] + parameters["pace"] * change[data.worker, session]
        return correct_or_not(torch.sigmoid(logit), data)


class Spammers(WithPrevalence):
    """A worker gives the true label, or one from a distribution that all spammers have."""

    def prior(self, data, plates):
        out = prevalence(data)
        out["guess"] = pyro.sample("guess", Dirichlet(2 * torch.ones(data.K)))
        with plates.worker:
            out["spam"] = pyro.sample("spam", Beta(1.5, 3.0))
        return out

    def confusion(self, parameters, data):
        spam = parameters["spam"][..., None, None]
        return (1 - spam) * torch.eye(data.K) + spam * parameters["guess"][..., None, None, :]

    def emission(self, parameters, data):
        return Categorical(self.confusion(parameters, data)[data.worker])


class SkillAndDifficulty(WithPrevalence):
    """The log odds of the true label against each other one are a worker's skill divided by an item's difficulty."""

    def prior(self, data, plates):
        out = prevalence(data)
        with plates.worker:
            out["skill"] = pyro.sample("skill", Normal(2.0, 1.0))
        with plates.item:
            out["difficulty"] = pyro.sample("difficulty", LogNormal(0.0, 0.5))
        return out

    def emission(self, parameters, data):
        logit = parameters["skill"][data.worker] / parameters["difficulty"][data.item]
        return Categorical(logits=logit[:, None, None] * torch.eye(data.K))


class SharedPopulations(WithPrevalence):
    """Experts and novices, who are known: all workers of a population have one confusion matrix."""

    dims: ClassVar = {"shared": ("population", "true_label", "given_label")}

    def prior(self, data, plates):
        rows = (1 + 3 * torch.eye(data.K)).expand(2, data.K, data.K)
        return prevalence(data) | {"shared": pyro.sample("shared", Dirichlet(rows).to_event(2))}

    def population(self, data):
        return data.worker_features[:, 0].long()

    def confusion(self, parameters, data):
        return parameters["shared"][..., self.population(data), :, :]

    def emission(self, parameters, data):
        return Categorical(self.confusion(parameters, data)[data.worker])

    def conjugate_counts(self, statistics, data):
        counts = statistics.label_counts
        sums = counts.new_zeros(*counts.shape[:-3], 2, *counts.shape[-2:])
        return {
            "prevalence": statistics.item_counts,
            "shared": sums.index_add(-3, self.population(data), counts),
        }


class OrderedThresholds(WithPrevalence):
    """Grades: what a worker sees is the grade, shifted by the worker's severity, and cut at thresholds that all share."""

    def prior(self, data, plates):
        out = prevalence(data)
        raw = Normal(torch.linspace(0.0, 0.5, data.K - 1), 1.0).to_event(1)
        out["thresholds"] = pyro.sample("thresholds", TransformedDistribution(raw, [OrderedTransform()]))
        with plates.worker:
            out["severity"] = pyro.sample("severity", Normal(0.0, 0.5))
        return out

    def emission(self, parameters, data):
        seen = 2.0 * torch.arange(data.K) - parameters["severity"][data.worker, None]  # (A, K)
        above = torch.sigmoid(seen[..., None] - parameters["thresholds"])  # (A, K, K - 1)
        reached = torch.cat([torch.ones_like(above[..., :1]), above], -1)
        return Categorical(reached - torch.nn.functional.pad(above, (0, 1)))


class ClassDependentGuesser(WithPrevalence):
    """A worker knows items of a class with a probability for that class, and guesses the others."""

    def prior(self, data, plates):
        out = prevalence(data)
        with plates.worker:
            out["knows"] = pyro.sample("knows", Beta(3.0 * torch.ones(data.K), 2.0).to_event(1))
            out["guess"] = pyro.sample("guess", Dirichlet(2 * torch.ones(data.K)))
        return out

    def confusion(self, parameters, data):
        knows = parameters["knows"].unsqueeze(-1)
        return knows * torch.eye(data.K) + (1 - knows) * parameters["guess"].unsqueeze(-2)

    def emission(self, parameters, data):
        return Categorical(self.confusion(parameters, data)[data.worker])


class NetworkForTheTruth(AnnotationModel):
    """A network says what the truth of an item is by its features; a worker has one accuracy."""

    def networks(self, data):
        return {"classifier": perceptron(data.D, data.K, hidden=(4,))}

    def prior(self, data, plates):
        out = {"classifier": plates.network("classifier", scale=1.0)}
        with plates.worker:
            out["accuracy"] = pyro.sample("accuracy", Beta(6.0, 2.0))
        return out

    def truth(self, parameters, data):
        return Categorical(logits=parameters["classifier"](data.features))

    def emission(self, parameters, data):
        return correct_or_not(parameters["accuracy"][data.worker], data)


class TwoKindsOfWorkers(WithPrevalence):
    """Workers are careful or careless; which of both a worker is has been summed out."""

    def prior(self, data, plates):
        out = prevalence(data)
        out["careful"] = pyro.sample("careful", Beta(2.0, 2.0))
        kinds = Categorical(torch.stack([out["careful"], 1 - out["careful"]]))
        with plates.worker:
            of_kind = Normal(torch.tensor([2.0, 0.0]), torch.tensor([0.5, 0.7]))
            out["skill"] = pyro.sample("skill", MixtureSameFamily(kinds, of_kind))
        return out

    def emission(self, parameters, data):
        return correct_or_not(torch.sigmoid(parameters["skill"])[data.worker], data)


@dataclass(frozen=True)
class UserModel:
    """A model, the engines that suit it, and the crowd that it is about."""

    model: AnnotationModel
    methods: tuple[str, ...] = ("em", "svi", "gibbs", "nuts")
    classes: int = 3
    features: Any = None
    worker_features: Any = None

    @property
    def name(self):
        return type(self.model).__name__

    def crowd(self, items=12, workers=6, per_item=4, seed=1):
        """Labels drawn from the model, with the features that it reads."""
        rng = np.random.default_rng(seed)
        task = np.repeat(np.arange(items), per_item)
        worker = np.concatenate([rng.permutation(workers)[:per_item] for _ in range(items)])
        given = {
            name: make and make(n)
            for name, make, n in (
                ("features", self.features, items),
                ("worker_features", self.worker_features, workers),
            )
        }
        return crowdppl.simulate(self.model, task, worker, classes=self.classes, seed=seed, **given)[0]


def standard(n):
    return np.random.default_rng(3).normal(size=(n, 2))


USER_MODELS = [
    UserModel(TwoParameters()),
    UserModel(Experience(), worker_features=lambda n: np.linspace(-1, 1, n)[:, None]),
    UserModel(CoarseAndFine(), classes=4),
    UserModel(CopyingPair()),
    UserModel(Sessions(), features=lambda n: (np.arange(n) * 3 // n)[:, None].astype(float)),
    UserModel(Spammers()),
    UserModel(SkillAndDifficulty()),
    UserModel(SharedPopulations(), worker_features=lambda n: np.arange(n)[:, None] % 2.0),
    UserModel(OrderedThresholds()),
    UserModel(ClassDependentGuesser()),
    UserModel(NetworkForTheTruth(), features=standard),
    UserModel(TwoKindsOfWorkers()),
]
