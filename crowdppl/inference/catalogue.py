"""Models by name, and the model of a fit that names none.

For grades that model is graded facets. For classes it is item effects, which find the most true labels on public data
(``docs/benchmarks/default-model.md``), together with a classifier where items have features that say something of their classes
(``docs/benchmarks/classifier-prior.md``). An item then has a state for each pair of class and effect, ``K (2 K + 1)`` of them for
more than two classes, so that their cost grows with the third to fifth power of the number of classes. Where that is too much, it
is Dawid and Skene's model, or one number for each worker where these have few annotations for each row of a matrix
(``docs/benchmarks/plausible-crowds.md``). It is Dawid and Skene's model, too, where the caller says that annotations of an item
are independent, and no features say anything. Where labels cannot tell workers apart (:mod:`crowdppl.data.worker_evidence`), it
is majority vote, the model in which all workers are alike. In each case a note says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from crowdppl.errors import ModelError, OptionError, listed, suggestion

if TYPE_CHECKING:
    from crowdppl.data.annotations import Annotations
    from crowdppl.model.base import AnnotationModel
    from crowdppl.model.class_scores import ClassScores
    from crowdppl.models.linear_gaussian import LinearGaussian

DEFAULT, LARGE, ALIKE, GRADES = "item-effects", "dawid-skene", "majority-vote", "graded-facets"
# In place of the large one where workers have fewer annotations for each class than this, those of the mean annotation: the prior
# then decides what a matrix of their own says. Workers with few annotations among others with many do not decide it.
MANY_CLASSES, EACH_CLASS = "one-coin", 5.0
# Annotations for each free number of the workers' matrices below which the same model is fitted if errors are spread evenly.
EACH_NUMBER = 5.0
TOKENS, SETS, COVARIATES = "sequential-workers", "label-sets", "accuracy-regression"
FEATURES = "features-and-effects"
# The models compared by default: votes, a confusion matrix for each worker, one number for each worker, and workers who err on
# the same items.
MODELS = ("majority-vote", "dawid-skene", "one-coin", "item-effects")
# Operations in one step of the default model, about, above which the other one is fitted: a fit takes a thousand steps.
MOST_OPERATIONS = 3e7
# Items times states of the model with a classifier of features above which features are left unread: a fit takes half a minute.
MOST_STATES = 1e6
# What features must add to the other labels of an item, as a share of what both say of a label, to be read by default
# (docs/benchmarks/features-coverage.md).
LEAST_ADDED = 0.04


def catalogue() -> dict[str, type[AnnotationModel]]:
    """Return the model classes by name; imported here, so that the names above are there without them."""
    from crowdppl.models import CATALOGUE

    return dict(CATALOGUE)


def is_numeric(model: object) -> bool:
    """Return whether something is a model of numbers, or its name."""
    from crowdppl.models import NUMERIC, LinearGaussian

    return isinstance(model, LinearGaussian) or (isinstance(model, str) and model in NUMERIC)


def refuse_numeric(model: object, function: str) -> None:
    """Refuse models of numbers in a function for data that exceed memory.

    Raises:
        ModelError: for such a model, or its name.
    """
    from crowdppl.models import NUMERIC

    if is_numeric(model):
        raise ModelError(
            f"{listed(NUMERIC)} is a model of numbers, which {function} does not fit; crowdppl.fit does, in memory: by "
            f"method='em' millions of labels take seconds"
        )


def named_model(model: str | AnnotationModel | LinearGaussian) -> AnnotationModel:
    """Return the model of this name with its default priors, or the instance itself.

    Raises:
        OptionError: for an unknown name, or a class in place of an instance.
        ModelError: for anything else that is not a model.
    """
    from crowdppl.model.base import AnnotationModel
    from crowdppl.models import NUMERIC

    if is_numeric(model):
        raise ModelError(
            f"{listed(NUMERIC)} is a model of numbers, and labels are classes; read them with kind='numeric'"
        )
    if isinstance(model, str):
        zoo = catalogue()
        if model not in zoo:
            raise OptionError(f"no model {model!r}{suggestion(model, zoo)}; the zoo has {listed(zoo, 20)}")
        return zoo[model]()
    if isinstance(model, type) and issubclass(model, AnnotationModel):
        raise OptionError(f"model is the class {model.__name__}; pass an instance, {model.__name__}()")
    if not isinstance(model, AnnotationModel):
        raise ModelError(f"model is a {type(model).__name__}; pass a name of the zoo or a crowdppl.AnnotationModel")
    return model


def model_name(model: AnnotationModel) -> str:
    """Return a model's name in the catalogue, or that of its class."""
    return next((name for name, kind in catalogue().items() if type(model) is kind), type(model).__name__)


def compared_models(data: Annotations) -> tuple[str, ...]:
    """Return the models compared by default; of grades and of sets theirs, too."""
    if data.set_labels is not None:
        return (*MODELS, SETS)
    return tuple(GRADES if name == "one-coin" else name for name in MODELS) if data.kind == "ordinal" else MODELS


def reads_by_default(data: Annotations) -> bool:
    """Return whether the features of items are weighed for the model of a fit that names none: not where that takes too long."""
    from crowdppl.model.class_scores import MOST, cost

    if not data.D or data.multiplicity is not None or cost(data) > MOST:
        return False
    model = named_model(FEATURES)
    return data.N * model.states(data) <= MOST_STATES and operations(model, data) <= MOST_OPERATIONS


def operations(model: AnnotationModel, data: Annotations) -> float:
    """Return about how many operations a step of a model with item effects takes.

    Each annotation adds to the states of its item; each row of a worker's table has a matrix of second derivatives, to which
    every effect adds.
    """
    return float(model.states(data)) * (data.A + data.J * data.K**2)


def labels_of_each_class(data: Annotations) -> float:
    """Return how many labels for each class that occurs the worker of the mean annotation gave."""
    by_worker = data.worker.bincount(minlength=data.J).double()
    return float((by_worker**2).sum() / data.A / data.label.unique().numel())


def _why_unread(scores: ClassScores) -> str | None:
    """Return why features of items are left unread by default, in words, given class scores; ``None`` where they are read."""
    from crowdppl.model.class_scores import LEAST

    if scores.errors < LEAST:
        return "the features of items tell votes apart no better than chance would"
    if scores.added < LEAST_ADDED:
        return (
            f"features add {scores.added:.1%} to what the other labels of an item say of a label, so that a classifier adds "
            f"little but the errors of the crowd"
        )
    return None


class Choice(NamedTuple):
    """The model of a fit.

    Attributes:
        model: the model.
        note: why it was chosen where it is not the usual one, that labels look like grades, or what features of tokens say;
            ``None`` for nothing.
        scores: what features of items say of their classes, where the choice depends on it.
        drops_features: whether the model is fitted without them.
        leaves_features: whether it leaves features of items unread, and the note says why.
    """

    model: AnnotationModel
    note: str | None = None
    scores: ClassScores | None = None
    drops_features: bool = False
    leaves_features: bool = False


def _with_features(data: Annotations, usual: str, note: str | None) -> Choice:
    """Choose the model that reads features in place of the usual one, or the usual one where they add nothing.

    It is the same where errors are independent: on public sets it had a lower log loss than Raykar's model and Dawid and Skene's.
    """
    from crowdppl.model.class_scores import learned

    scores = learned(data)
    reason = _why_unread(scores)
    if reason is not None:
        name, why = usual, f"{reason}; model={FEATURES!r} reads them all the same"
    else:
        name = FEATURES
        why = (
            f"the features of items predict the votes on items left out, {scores.errors:.0f} standard errors better than "
            f"the class shares do; model={usual!r} leaves them unread"
        )
    sentence = f"{name} was fitted: {why}"
    whole = sentence if note is None else f"{note}. {sentence}"
    return Choice(named_model(name), whole, scores, leaves_features=reason is not None)


def _with_token_features(data: Annotations, model: AnnotationModel) -> Choice:
    """Choose a model of sequences, with a note on what the features of tokens say, where there are any."""
    from crowdppl.model.class_scores import LEAST, MOST, cost, learned

    if data.features is None or not data.A:
        return Choice(model)
    if cost(data) > MOST:
        note = "the features of tokens are left out, since a classifier of so many would take long; reduce them, for instance to "
        return Choice(model, note + "principal components", drops_features=True)
    scores = learned(data)
    if scores.errors < LEAST:
        note = (
            "the features of tokens tell votes on other sequences apart no better than chance would, and are left out"
        )
        return Choice(model, note, drops_features=True)
    note = (
        f"the features of tokens predict the votes on sequences left out, {scores.errors:.0f} standard errors better than the "
        f"class shares do, and are one more observation of the true label"
    )
    return Choice(model, note, scores)


def _sparse_and_even(data: Annotations) -> str | None:
    """Return why one number describes each worker; ``None`` if data determine matrices, or if errors coincide."""
    from crowdppl.inference.dependence import coinciding_errors, independence

    sparse = data.A < EACH_NUMBER * data.J * data.K * (data.K - 1) and independence.comparable(data)
    if not sparse or not coinciding_errors.are_even(data):
        return None
    each = labels_of_each_class(data)
    few = f"workers gave {each:.1f} labels for each class, few for a confusion matrix of their own"
    return f"{few}, and errors seem to be spread evenly"


def choice_of(model: str | AnnotationModel | LinearGaussian, data: Annotations) -> Choice:
    """Return the model that a caller names, with what features of tokens say where it reads them.

    Raises:
        OptionError: for an unknown name, or a class in place of an instance.
        ModelError: for anything else that is not a model.
    """
    from crowdppl.model.base import provides

    chosen = named_model(model)
    of_tokens = data.sequence is not None and provides(chosen, "coupling") and provides(chosen, "learn_class_scores")
    return _with_token_features(data, chosen) if of_tokens else Choice(chosen)


def default_model(data: Annotations, *, independent: bool = False) -> Choice:
    """Choose the model of a fit that names none, with a note where it is not the usual one, or where labels look like grades.

    The data are too large for the usual one, or cannot tell workers apart.

    Args:
        data: the annotations.
        independent: whether the caller says that annotations of one item are independent: then no item has an effect.
    """
    from crowdppl.data.table.kinds import question
    from crowdppl.data.worker_evidence import why_not_apart

    if data.kind == "ordinal":
        return Choice(named_model(GRADES))
    if data.sequence is not None:
        return choice_of(TOKENS if data.set_labels is None else SETS, data)
    if data.P:
        return Choice(named_model(COVARIATES))
    note = question(data.labels, data.kind, in_sequences=False)
    reason = why_not_apart(data)
    if reason is not None:
        return Choice(
            named_model(ALIKE),
            f"{ALIKE} was fitted, in which all workers are alike: {reason}; model={DEFAULT!r} rates workers all the same",
        )
    if independent:
        if reads_by_default(data):
            return _with_features(data, LARGE, note)
        if (sparse := _sparse_and_even(data)) is not None:
            sentence = f"{MANY_CLASSES} was fitted: {sparse}; model={LARGE!r} fits matrices all the same"
            return Choice(named_model(MANY_CLASSES), sentence if note is None else f"{note}. {sentence}")
        independence = (
            f"{LARGE} was fitted: where annotations of one item are independent, no item leads workers astray, which {DEFAULT} "
            f"is about; model={DEFAULT!r} fits it all the same"
        )
        return Choice(named_model(LARGE), note or independence)
    usual = named_model(DEFAULT)
    if operations(usual, data) <= MOST_OPERATIONS:
        return _with_features(data, DEFAULT, note) if reads_by_default(data) else Choice(usual, note)
    cost = f"with {data.K:,} classes, {data.J:,} workers and {data.A:,} annotations {DEFAULT} would take long"
    other = f"model={DEFAULT!r} fits it all the same"
    each = labels_of_each_class(data)
    few: str | None = f"workers gave {each:.1f} labels for each class, too few for a confusion matrix of their own"
    if each >= EACH_CLASS:
        few = _sparse_and_even(data)
    if few is None:
        return Choice(named_model(LARGE), f"{LARGE} was fitted: {cost}; {other}")
    return Choice(named_model(MANY_CLASSES), f"{MANY_CLASSES} was fitted: {cost}, and {few}; {other}")
