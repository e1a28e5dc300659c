"""Every model and configuration under test, and small data for them. A new model is under the contract by a row here."""

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import pyro
import pytest
import torch
from pyro.distributions import Beta, Categorical, Dirichlet, LogNormal, Normal

import crowdppl
from crowdppl import AnnotationModel, Annotations
from crowdppl.errors import silent
from crowdppl.inference.checkpoint import Checkpoint
from crowdppl.inference.engines.anchoring import learned
from crowdppl.model.bound import bind
from crowdppl.model.hyperparameters import refuse_weights
from crowdppl.model.priors import CommonPrevalence
from crowdppl.model.program import prior_draws
from crowdppl.models import (
    GLAD,
    LIA,
    MACE,
    AccuracyRegression,
    ClassConditional,
    CommunityDawidSkene,
    CoNAL,
    CrowdMixture,
    DawidSkene,
    FeaturesAndEffects,
    GradedFacets,
    HierarchicalDawidSkene,
    ItemDifficulty,
    ItemEffects,
    ItemResponse,
    ItemSubtypes,
    JudgedSystems,
    LabelSets,
    LogisticRandomEffects,
    MajorityVote,
    MinimaxEntropy,
    OneCoin,
    OrdinalThresholds,
    PairwisePreference,
    Pooled,
    PrototypeMixture,
    Raykar,
    SequentialWorkers,
    TwoCoinDifficulty,
    WorkerGroups,
)


class SkillAndDifficulty(AnnotationModel):
    """A user's own model: three methods, no closed form; labels depend on worker and item."""

    def prior(self, data, plates):
        prevalence = pyro.sample("prevalence", Dirichlet(2 * torch.ones(data.K)))
        with plates.worker:
            skill = pyro.sample("skill", Normal(2.0, 1.0))
        with plates.item:
            difficulty = pyro.sample("difficulty", LogNormal(0.0, 0.5))
        return {"prevalence": prevalence, "skill": skill, "difficulty": difficulty}

    def truth(self, parameters, data):
        return Categorical(parameters["prevalence"])

    def emission(self, parameters, data):
        logit = parameters["skill"][data.worker] / parameters["difficulty"][data.item]
        return Categorical(logits=logit[:, None, None] * torch.eye(data.K))


class OwnCoin(AnnotationModel):
    """Another: a label depends on truth and worker only, which it says by their confusion matrices."""

    def prior(self, data, plates):
        prevalence = pyro.sample("prevalence", Dirichlet(2 * torch.ones(data.K)))
        with plates.worker:
            skill = pyro.sample("skill", Normal(1.0, 1.0))
        return {"prevalence": prevalence, "skill": skill}

    def truth(self, parameters, data):
        return Categorical(parameters["prevalence"])

    def emission(self, parameters, data):
        return Categorical(self.confusion(parameters, data)[data.worker])

    def confusion(self, parameters, data):
        eye = torch.eye(data.K)
        return (parameters["skill"][..., None, None] * eye).softmax(-1)


class Populations(CommonPrevalence, AnnotationModel):
    """Workers of two known populations, each of which shares a confusion matrix: conjugate, and nothing is a worker's own."""

    dims: ClassVar = {"prevalence": ("true_label",), "shared": ("population", "true_label", "given_label")}

    def population(self, data):
        return torch.arange(data.J) % 2

    def prior(self, data, plates):
        prevalence = pyro.sample("prevalence", Dirichlet(torch.ones(data.K)))
        rows = 1 + 3 * torch.eye(data.K).expand(2, data.K, data.K)
        return {"prevalence": prevalence, "shared": pyro.sample("shared", Dirichlet(rows).to_event(2))}

    def emission(self, parameters, data):
        return Categorical(self.confusion(parameters, data)[data.worker])

    def confusion(self, parameters, data):
        return parameters["shared"][..., self.population(data), :, :]

    def conjugate_counts(self, statistics, data):
        counts = statistics.label_counts
        zeros = counts.new_zeros(*counts.shape[:-3], 2, *counts.shape[-2:])
        return {
            "prevalence": statistics.item_counts,
            "shared": zeros.index_add(-3, self.population(data), counts),
        }


class Spammers(CommonPrevalence, AnnotationModel):
    """A worker knows the class or, with a probability of their own, guesses by a distribution of their own (MACE)."""

    dims: ClassVar = {"prevalence": ("true_label",), "spam": ("worker",), "guess": ("worker", "given_label")}

    def prior(self, data, plates):
        prevalence = pyro.sample("prevalence", Dirichlet(2 * torch.ones(data.K)))
        with plates.worker:
            spam = pyro.sample("spam", Beta(1.0, 2.0))
            guess = pyro.sample("guess", Dirichlet(2 * torch.ones(data.K)))
        return {"prevalence": prevalence, "spam": spam, "guess": guess}

    def emission(self, parameters, data):
        return Categorical(self.confusion(parameters, data)[data.worker])

    def confusion(self, parameters, data):
        spam = parameters["spam"][..., None, None]
        return (1 - spam) * torch.eye(data.K, dtype=data.dtype) + spam * parameters["guess"].unsqueeze(-2)

    def conjugate_counts(self, statistics, data):
        now, counts = statistics.parameters, statistics.label_counts
        guessed = now["spam"][..., None, None] * now["guess"].unsqueeze(-2)  # (..., J, 1, K)
        spam = statistics.split(counts, (guessed / self.confusion(now, data)).nan_to_num())
        return {
            "prevalence": statistics.item_counts,
            "spam": torch.stack([spam.sum((-2, -1)), (counts - spam).sum((-2, -1))], -1),
            "guess": spam.sum(-2),
        }

    def check_method(self, method, data=None):
        return refuse_weights(method, data)


@dataclass(frozen=True)
class Case:
    """A model with its hyperparameters, the engines that suit it, and the number of classes of the data it is tried on."""

    name: str
    model: AnnotationModel
    methods: tuple[str, ...]
    classes: int = 3
    features: bool = True
    exchangeable: bool = True  # whether workers may change places
    rises: bool = True  # whether every step of EM rises: not where networks follow mini-batches
    criteria: int = 0  # criteria that labels are grades by


RATER = tuple(tuple(4.8 if k == l else 3.2 / 3 for l in range(4)) for k in range(4))  # noqa: E741

ALL = ("em", "svi", "gibbs", "nuts")
MIXTURE = CrowdMixture(groups=2, hidden=(3,), prior_correct=2.0, prior_incorrect=1.0, prior_members=1.0)
CASES = [
    Case("dawid-skene", DawidSkene(), ALL),
    Case("dawid-skene-flat", DawidSkene.maximum_likelihood(), ALL),
    Case("dawid-skene-strong", DawidSkene(prior_correct=8.0, prior_incorrect=3.0, prior_items=2.0), ALL),
    Case("majority-vote", MajorityVote(), ALL),
    Case("majority-vote-flat", MajorityVote(prior_known=0.0, prior_guesses=0.0), ALL),
    Case("item-subtypes", ItemSubtypes(subtypes=2, subtype_concentration=0.5), ("svi", "gibbs", "nuts")),
    Case("item-subtypes-flat", ItemSubtypes(subtypes=2, subtype_concentration=1.0), ALL),
    Case("item-effects", ItemEffects(strengths=(1.5,), anchoring=0.0), ALL),
    Case("item-effects-anchored", ItemEffects(strengths=(1.5,)), ("em", "svi", "gibbs")),
    Case("features-and-effects", FeaturesAndEffects(strengths=(1.5,), anchoring=0.0), ALL),
    Case("features-and-effects-anchored", FeaturesAndEffects(strengths=(1.5,)), ("em", "svi", "gibbs")),
    Case("hierarchical", HierarchicalDawidSkene(), ("svi", "gibbs", "nuts")),
    Case("community", CommunityDawidSkene(communities=2), ("svi", "gibbs", "nuts")),
    Case("class-conditional", ClassConditional(), ALL),
    Case("class-conditional-flat", ClassConditional.maximum_likelihood(), ALL),
    Case("one-coin", OneCoin(), ALL),
    Case("one-coin-flat", OneCoin.maximum_likelihood(), ALL),
    Case("pooled", Pooled(), ALL),
    Case("pooled-flat", Pooled.maximum_likelihood(), ALL),
    Case("crowd-mixture", MIXTURE, ("em", "svi", "nuts"), rises=False),
    Case("sequential-workers", SequentialWorkers(), ALL),
    Case("sequential-workers-flat", SequentialWorkers(prior_correct=0.0, prior_incorrect=0.0), ALL),
    Case("label-sets", LabelSets(), ALL, classes=2),
    Case("raykar", Raykar(), ("em", "svi", "nuts")),
    Case("raykar-network", Raykar(hidden=(3,), dropout=0.2), ("em", "svi"), rises=False),
    Case("conal", CoNAL(hidden=(3,), embedding=2), ("em", "svi", "nuts"), rises=False),
    Case("conal-scale", CoNAL(hidden=(3,), embedding=2, learned_scale=True), ("em", "svi"), rises=False),
    Case(
        "conal-annotation", CoNAL("annotation", hidden=(3,), embedding=2, separation=0.01), ("em", "svi"), rises=False
    ),
    Case("two-coin-difficulty", TwoCoinDifficulty(), ("em", "svi", "nuts"), classes=2),
    Case("two-coin-fixed", TwoCoinDifficulty("fixed", positive=False), ("em", "svi"), classes=2),
    Case("two-coin-fixed-votes", TwoCoinDifficulty("fixed", "votes", positive=False), ("em",), classes=2),
    Case("lia", LIA(latent=2, hidden=(3,), embedding=2), ("em", "svi", "nuts"), rises=False),
    Case("lia-embedded", LIA(latent=2, hidden=(3,), embedding=2), ("em", "svi", "nuts"), features=False, rises=False),
    Case("mace", MACE(), ALL),
    Case("mace-equal", MACE(prior_items=None), ALL),
    Case("prototype-mixture", PrototypeMixture(prior_weights=0.5), ALL),
    Case("glad", GLAD(), ("em", "svi", "nuts")),
    Case("glad-prevalence", GLAD(prior_items=1.0), ("em", "svi", "nuts")),
    Case("item-response", ItemResponse(), ("em", "svi", "nuts")),
    Case("item-response-two", ItemResponse(2), ("em", "svi", "nuts"), classes=2),
    Case("item-difficulty", ItemDifficulty(), ("em", "svi", "nuts")),
    Case("minimax-entropy", MinimaxEntropy(), ("em", "svi", "nuts")),
    Case("logistic-random-effects", LogisticRandomEffects(), ("em", "svi", "nuts")),
    Case("accuracy-regression", AccuracyRegression(), ("svi", "gibbs", "nuts")),
    Case("accuracy-regression-alike", AccuracyRegression(item_scale=None), ("svi", "gibbs", "nuts"), features=False),
    Case("ordinal-thresholds", OrdinalThresholds(), ("em", "svi", "nuts")),
    Case("graded-facets", GradedFacets(nodes=7), ALL),
    Case("graded-facets-criteria", GradedFacets(nodes=7), ALL, criteria=2),
    Case("worker-groups", WorkerGroups(groups=2), ("em", "gibbs")),
    Case("judged-systems", JudgedSystems(), ("em", "svi", "nuts")),
    Case("judged-systems-one", JudgedSystems(), ("em", "svi", "nuts"), features=False),
    Case("pairwise-preference", PairwisePreference(), ("em", "svi", "nuts")),
    Case("pairwise-preference-two", PairwisePreference(), ("em", "svi", "nuts"), classes=2),
    Case("pairwise-preference-alike", PairwisePreference(), ("em", "svi", "nuts"), features=False),
    Case("skill-and-difficulty", SkillAndDifficulty(), ("em", "svi", "nuts")),
    Case("own-coin", OwnCoin(), ("em", "svi", "nuts")),
    Case("populations", Populations(), ALL, exchangeable=False),
    Case("spammers", Spammers(), ALL),
]
PAIRS = [(case, method) for case in CASES for method in case.methods]

# Short runs: what is tested is that everything holds together, not that a sampler has converged.
SHORT = {
    "em": {"num_samples": 6, "max_iter": 6, "steps": 3, "fine_tune": 2, "restarts": 0},
    "svi": {"max_iter": 8, "num_samples": 6},
    "gibbs": {"chains": 2, "warmup": 5, "num_samples": 8},
    "nuts": {"chains": 1, "warmup": 4, "num_samples": 6, "max_tree_depth": 2},
}
# Short runs that have enough draws to look at; of each kind of labels SVI and NUTS need others.
BRIEF = {"em": {"num_samples": 20}, "gibbs": {"chains": 2, "warmup": 20, "num_samples": 40}}


def tiny(
    seed: int = 0,
    *,
    items: int = 4,
    workers: int = 3,
    classes: int = 3,
    known: bool = False,
    features: bool = True,
    covariates: bool = False,
    weighted: bool = False,
    criteria: int = 0,
) -> Annotations:
    """Ragged annotations of a handful of items, with a repeat, an unused class, maybe a known truth and item weights."""
    rng = np.random.default_rng(seed)
    task = np.concatenate([np.arange(items), rng.integers(0, items, 2 * items)])
    worker = rng.integers(0, workers, len(task))
    label = rng.integers(0, max(2, classes - 1), len(task))
    data = Annotations.from_arrays(
        [f"item {i}" for i in task],
        [f"worker {j}" for j in worker],
        label,
        labels=range(classes),
        truth={"item 1": classes - 1} if known else None,
        features=pd.DataFrame(rng.normal(size=(items, 2)), index=[f"item {i}" for i in range(items)])
        if features
        else None,
        kind="ordinal" if criteria else None,
        criterion=np.random.default_rng(seed + 2).integers(0, criteria, len(task)) if criteria else None,
    )
    if covariates:
        data = data.with_covariates(np.random.default_rng(seed + 1).normal(size=(data.A, 2)))
    return data.with_weights(rng.uniform(0.2, 1.4, items)) if weighted else data


def simulated(items=300, workers=12, per_item=5, classes=3, seed=0, model=None, parameters=None, features=True):
    """Labels drawn from a model for a random design, by default with two features, and the truth."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(items), per_item)
    worker = np.concatenate([rng.choice(workers, per_item, replace=False) for _ in range(items)])
    return crowdppl.simulate(
        model or DawidSkene(),
        task,
        worker,
        classes=classes,
        seed=seed,
        parameters=parameters,
        features=rng.normal(size=(items, 2)) if features else None,
    )


def crowd_table(items, annotations):
    """A table of annotations, at random, by 40 workers: of three classes, correct with probability .6 or else a guess."""
    rng = np.random.default_rng(0)
    truth, item = rng.integers(0, 3, items), rng.integers(0, items, annotations)
    label = np.where(rng.random(annotations) < 0.6, truth[item], rng.integers(0, 3, annotations))
    return pd.DataFrame({"task": item, "worker": rng.integers(0, 40, annotations), "label": label})


def fit(*args, independent=True, **options):
    """Fit a model as published: what most tests are about. Correlated annotations have tests of their own."""
    return crowdppl.fit(*args, independent=independent, **options)


def quiet_fit(*args, **options):
    """Fit as published, with the library's warnings kept back: they stand in the result."""
    with silent():
        return fit(*args, **options)


def rotated(kinds, each=1, every=1, *, nightly=False):
    """Return a parameter for every model, engine and kind; fast are ``each`` kinds of each pair, in turn, and the others slow.

    With ``every`` of one of so many pairs only. With ``nightly`` slow is every kind with every model, by one of its engines in
    turn, and the others run at night.
    """
    parameters, place = [], {case.name: c for c, case in enumerate(CASES)}
    for n, (case, method) in enumerate(PAIRS):
        for k, kind in enumerate(kinds):
            fast = (k - each * (n // every)) % len(kinds) < each and n % every == 0
            turn = case.methods[(k + place[case.name]) % len(case.methods)]
            marks = [] if fast else [pytest.mark.slow]
            marks += [pytest.mark.longest] * (nightly and not fast and method != turn)
            parameters.append(pytest.param(case, method, kind, id=f"{case.name}-{method}-{kind}", marks=marks))
    return parameters


def turn(n, every, night=True):
    """Return the marks of the n-th: one of so many is fast, another one slow, and the others run at night, or are slow."""
    if n % every == 0:
        return []
    return [pytest.mark.slow] + [pytest.mark.longest] * (night and n % every != every // 2)


def in_turn(values, every, name=None, *, night=True):
    """Return parameters in turn, of what differs by model or engine only: see :func:`turn`.

    Args:
        values: one value each, or a tuple of several.
        every: one of so many is fast, and one slow.
        night: whether the others run at night; else they are slow, too.
        name: returns the id of a value. Defaults to the names of models, and words as they are.
    """
    named = name or (lambda value: "-".join(str(getattr(part, "name", part)) for part in value))
    each = [value if isinstance(value, tuple) else (value,) for value in values]
    return [pytest.param(*value, id=named(value), marks=turn(n, every, night)) for n, value in enumerate(each)]


def slow_as_well(parameters, *ids):
    """Return parameters with further ones slow, by id: they take seconds alone, and others show the same in the fast suite."""
    missing = set(ids) - {one.id for one in parameters}
    assert not missing, f"no parameters {missing}"
    return [one._replace(marks=[*one.marks, pytest.mark.slow]) if one.id in ids else one for one in parameters]


def each_by_one(kinds, methods):
    """Return a parameter for every kind and method; fast is each kind by one of the methods in turn, and the others are slow."""
    return [
        pytest.param(kind, method, id=f"{kind}-{method}", marks=turn(n - m, len(methods), night=False))
        for n, kind in enumerate(kinds)
        for m, method in enumerate(methods)
    ]


class Stop(Exception):
    """Raised in the middle of a fit by :func:`stopping`."""


@contextmanager
def stopping(after):
    """Raise :class:`Stop` in the fit of a block once it has come to this number of checkpoints, which is 1 or more."""
    step, left = Checkpoint.step, after

    def counted(self, state):
        nonlocal left
        step(self, state)
        left -= 1
        if left == 0:
            raise Stop

    Checkpoint.step = counted
    try:
        yield
    finally:
        Checkpoint.step = step


def annotation_counts(data):
    """Return the number of annotations by item, worker and label, in the caller's identifiers."""
    names = (data.items[data.item.numpy()], data.workers[data.worker.numpy()], data.labels[data.label.numpy()])
    return Counter(zip(*(n.tolist() for n in names), strict=True))


def draws_whole_counts(model):
    """Whether a model's Gibbs sampler refuses items with weights."""
    return "item weights" in (model.check_method("gibbs", tiny(weighted=True)) or "")


def prepared(model, data):
    """The model bound to the data, and these as its engines take them, with their anchor."""
    model = bind(model, data)
    data = learned(model, model.anchored(model.expand(data)))
    assert model.why_not_gibbs(data) is None  # and the cached counts of the data are there
    return model, data


def many_from_prior(model, data, count):
    """Draw from the prior of a bound model many times: every value ``(count, ...)``.

    At once, the prior run once within a further plate: thousands of runs one by one take seconds. Priors that are written for
    values without leading axes are drawn one by one.
    """
    few = prior_draws(model, data, 1)
    if isinstance(model.model, AccuracyRegression | GradedFacets):
        return prior_draws(model, data, count)
    with pyro.plate("draws", count, dim=-3):
        nodes = pyro.poutine.trace(model.prior).get_trace(data, model.plates(data)).nodes
    return {name: nodes[name]["value"].reshape(count, *one.shape[1:]) for name, one in few.items()}


def crowded(classes):
    """An item with thousands of annotations, whose probabilities underflow, among others, and one known class."""
    rng = np.random.default_rng(0)
    item = np.concatenate([np.zeros(3000, dtype=int), rng.integers(1, 8, 60)])
    return Annotations.from_arrays(
        item, rng.integers(0, 5, len(item)), rng.integers(0, classes, len(item)), labels=range(classes), truth={3: 1}
    )
