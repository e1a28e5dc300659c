"""What a fitted model says of items and workers it has not seen, from their features."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from crowdppl import arguments
from crowdppl.arguments import Level, Seed, checked
from crowdppl.data.annotations import Annotations
from crowdppl.data.covariates import Named, order_of
from crowdppl.data.numeric import NumericAnnotations
from crowdppl.errors import DataError, ModelError, OptionError
from crowdppl.inference.backends import choose
from crowdppl.inference.engines.early_stopping import class_probabilities
from crowdppl.inference.numeric.predict import predict_numbers
from crowdppl.inference.numeric.predict_workers import predict_workers_of_numbers
from crowdppl.inference.stored import named_covariates, reads_covariates, rebuilt
from crowdppl.isolation import isolated
from crowdppl.model.base import AnnotationModel, Parameters
from crowdppl.model.bound import BoundModel, bind
from crowdppl.model.class_scores import Classifier
from crowdppl.model.program import unknowns
from crowdppl.posterior import workers
from crowdppl.posterior.numbers import NumericPosterior
from crowdppl.posterior.posterior import Posterior, truth_table

# Draws averaged in a prediction: its error is then a tenth of the spread of one draw's.
DRAWS = 100


@checked
def predict(
    posterior: Posterior | NumericPosterior,
    items: Annotations | NumericAnnotations | Any,
    *,
    model: AnnotationModel | None = None,
    level: Level | None = None,
    seed: Seed = 0,
) -> pd.DataFrame:
    """Predict the class of new items from their features; or their number, from features, labels or both.

    Labels of new items, where they are numbers, are pooled by what the fit knows of their workers; workers that it does not know
    are taken as others of its crowd. Nothing is fitted: that takes :func:`crowdppl.update`.

    Args:
        posterior: of a model with networks of item features; or of numbers.
        items: features ``(n, D)``, or a frame whose index names the items, or what ``data.unseen(...)`` returns. Columns of a
            frame are taken by name if the features of the fit had names. For numbers also annotations of new items, with
            features if the fit had any.
        model: the fitted model; needed only where it has a network of your own making (any other is rebuilt by its name).
        level: probability of the intervals of numbers. Defaults to ArviZ's default, .89.
        seed: of what is drawn where a model has unknowns of single items or workers.

    Returns:
        A row for each item, as :meth:`Posterior.truth`, or as :meth:`crowdppl.posterior.numbers.NumericPosterior.truth`.

    Raises:
        ModelError: where the model does not read features of items, or cannot be rebuilt by its name, or the weights are of
            another; for labels at the ends of a bounded scale.
        DataError: where the features are not of the kind the model was fitted to.
        OptionError: for a model beside a result of numbers, a level beside one of classes, and known true numbers.
    """
    if isinstance(posterior, NumericPosterior):
        if model is not None:
            raise OptionError("a result whose labels are numbers predicts by its own model; leave model= out")
        return predict_numbers(posterior, items, level=level, seed=seed)
    if level is not None:
        raise OptionError("level= is that of intervals of numbers; leave it out")
    design = _design(posterior, items, "items")
    _require_read(posterior, model)
    total = torch.zeros(design.N, design.K, dtype=design.dtype)
    with isolated(seed, threads=choose.threads(design)), torch.no_grad():
        count = 0
        for bound, values in parameter_draws(posterior, design, model):
            total += class_probabilities(bound, values, design)
            count += 1
    return truth_table(design.items, posterior.labels, (total / count).numpy(), posterior.item_column)


@checked
def predict_correct(
    posterior: Posterior, design: Annotations | Any, *, model: AnnotationModel | None = None, seed: Seed = 0
) -> pd.DataFrame:
    """Predict how likely each worker is right on each item, seen or not: the number that decides whom to ask.

    ``sum_k p(truth_i = k) p(label = k | truth = k, worker j, item i)``, where the truth is what the item's features say.

    Args:
        posterior: of any model.
        design: items and workers to pair: features of new items (the workers are then those of the fit), or what
            ``data.unseen(features, workers=worker_features)`` returns.
        model: as in :func:`predict`.
        seed: likewise.

    Returns:
        A row for each pair: ``task``, ``worker``, ``probability``.
    """
    asked = _design(posterior, design, "design")
    pairs = asked.paired()
    total = torch.zeros(pairs.A, dtype=asked.dtype)
    with isolated(seed, threads=choose.threads(pairs)), torch.no_grad():
        count = 0
        for bound, values in parameter_draws(posterior, pairs, model):
            parameters, _ = bound.conditioned(values, pairs)
            state = bound.log_truth(parameters, pairs).softmax(-1).expand(pairs.N, -1)  # (N, S)
            labels = torch.arange(pairs.K).view(-1, 1, 1)
            given = bound.emission(parameters, pairs).log_prob(labels).exp()  # (K, A, S)
            total += (
                state[pairs.item] * (given * bound.truths.classes_of_states(parameters, pairs).mT.unsqueeze(1)).sum(0)
            ).sum(-1)
            count += 1
    return pd.DataFrame(
        {
            posterior.item_column: pairs.items[pairs.item.numpy()],
            "worker": pairs.workers[pairs.worker.numpy()],
            "probability": (total / count).numpy(),
        }
    )


@checked
def predict_workers(
    posterior: Posterior | NumericPosterior,
    data: Annotated[Annotations | NumericAnnotations, arguments.anything],
    *,
    level: Level | None = None,
    model: AnnotationModel | None = None,
    seed: Seed = 0,
) -> pd.DataFrame:
    """Say how good other workers are, from what they did or from their features, without fitting again.

    Args:
        posterior: of a model whose workers are known by more than parameters of their own: by their annotations (a mixture of
            groups), or by their features.
        data: annotations of these workers on items with features, of the classes of the fit; or what
            ``data.unseen(features, workers=worker_features)`` returns. Of a result of numbers, numbers that new workers gave to
            items of the fit, or to any items with features if the fit had them.
        level: probability of the intervals.
        model: as in :func:`predict`.
        seed: likewise.

    Returns:
        A row for each worker with the columns of :meth:`Posterior.workers` without intervals where the fit has none; of numbers
        with those of :meth:`crowdppl.posterior.numbers.NumericPosterior.workers`, less rank and verdict. Numbers of new workers
        do not change what the fit knows of items.

    Raises:
        DataError: for numbers of workers or items that say nothing new: see the message.
    """
    if isinstance(posterior, NumericPosterior):
        if model is not None:
            raise OptionError("model= is for results of models of classes; leave it out")
        return predict_workers_of_numbers(posterior, data, level=level, seed=seed)
    design = _design(posterior, data, "data")
    confusion, prevalence = [], []
    with isolated(seed, threads=choose.threads(design)), torch.no_grad():
        for bound, values in parameter_draws(posterior, design, model):
            parameters, _ = bound.conditioned(values, design)
            asked = design if design.A else design.paired()
            confusion.append(bound.truths.confusion(parameters, asked).numpy())
            prevalence.append(bound.truths.prevalence(parameters, design).numpy())
    draws = workers.qualities(np.stack(confusion), np.stack(prevalence), posterior.labels)
    table: dict[str, Any] = {"worker": design.workers, "annotations": design.annotations_per_worker.numpy()}
    for name, quality in draws.items():
        for suffix, value in zip(("", "_low", "_high"), workers.interval(quality, level), strict=True):
            table[name + suffix] = value
    return pd.DataFrame(table)


def _require_read(posterior: Posterior, model: AnnotationModel | None) -> None:
    """Refuse to predict by a model that reads no features: every item would get the prevalence.

    Raises:
        ModelError: for a result of such a model.
    """
    if model is None and not posterior.info.get("reads", {}).get(
        "features", posterior.info["counts"].get("features", 0)
    ):
        raise ModelError(
            f"{posterior.info['model']} was fitted without reading features of items, so that it predicts the same for every new "
            f"item; fit a model with a classifier of features, such as 'raykar'"
        )


def _of_fit(design: Annotations, posterior: Posterior) -> Annotations:
    """Return a design whose covariates are on the scale of the fit, if it reads any; the means where the design has none.

    Raises:
        DataError: where they are others.
    """
    if not reads_covariates(posterior):
        return design
    named = named_covariates(posterior.info["covariates"])
    names = named["covariate_names"]
    if not design.P:
        return dataclasses.replace(
            design, standard_covariates=torch.zeros(design.A, len(names), dtype=design.dtype), **named
        )
    earlier = Named(names, named["covariate_baselines"], named["covariate_recipe"])
    assert design.covariates is not None
    place = order_of(design.named_covariates, earlier)
    mean, scale = torch.tensor(named["covariate_scales"], dtype=torch.float64).T
    values = ((design.covariates[:, place] - mean) / scale).to(design.dtype)
    return dataclasses.replace(design, standard_covariates=values, **named)


def _design(posterior: Posterior, items: Annotations | Any, name: str) -> Annotations:
    stored = posterior.info.get("feature_names", {})
    names = {field: tuple(stored[field]) if stored.get(field) else None for field in ("features", "worker_features")}
    if isinstance(items, Annotations):
        if items.labels.tolist() != posterior.labels.tolist():
            raise DataError(
                "the items' classes are not those of the fit; make them by unseen(...) of the data that were fitted"
            )
        return _of_fit(items.with_features_ordered(names["features"], names["worker_features"]).to("cpu"), posterior)
    nothing = torch.zeros(0, dtype=torch.int64)
    width = posterior.info["counts"].get("features")
    template = Annotations(
        item=nothing,
        worker=nothing,
        label=nothing,
        truth=nothing,
        items=np.zeros(0, dtype=np.int64),
        workers=np.asarray(posterior.tree["posterior"]["worker"].values),
        labels=posterior.labels,
        features=torch.zeros(0, width, dtype=torch.float64) if width else None,
        feature_names=names["features"],
        worker_feature_names=names["worker_features"],
    )
    if len(items) == 0 if hasattr(items, "__len__") else items is None:
        raise DataError(f"{name} holds nothing to predict for; pass features (n, D), or what data.unseen(...) returns")
    return _of_fit(template.unseen(items), posterior)


def parameter_draws(
    posterior: Posterior, design: Annotations, model: AnnotationModel | None = None, most: int = DRAWS
) -> Iterator[tuple[BoundModel, Parameters]]:
    """Rebuild the model and go through draws of its parameters; those of new items and workers are left to the prior.

    The parameters are those of the model as published, also where the reported results allow for correlated errors.
    """
    bound = bind(rebuilt(posterior) if model is None else model, design)
    state = posterior.networks
    values: Parameters = {}
    if bound.networks is not None:
        if not state:
            raise ModelError("this result has no networks; pass the model that was fitted")
        bound.networks.load(state)
        values |= bound.networks.start()
    elif state:
        bound.classifier = Classifier.of_state(state)
    sites = unknowns(bound, design)
    # The mode of an engine that maximises; else draws, of a result from a small file fewer.
    place = next(name for name in ("point", "thinned", "posterior") if name in posterior.tree.children)
    group = posterior.tree[place].to_dataset()
    same = {
        axis: axis in group.coords and group[axis].values.tolist() == names.tolist()
        for axis, names in (("item", design.items), ("worker", design.workers))
    }
    known = [
        str(name)
        for name in group.data_vars
        if name in sites and all(same[str(axis)] for axis in group[name].dims if axis in same)
    ]
    for name in known:
        wanted = tuple(sites[name].shape)
        shape = group[name].shape[group[name].ndim - len(wanted) :]
        if shape != wanted:
            raise DataError(
                f"the result has {name} of shape {shape}, these items and workers call for {wanted}; pass what "
                f"data.unseen(...) returns, with features like those of the fit"
            )
    if place == "point":
        values |= {name: torch.as_tensor(group[name].values).to(design.dtype) for name in known}
        drawn: dict[str, Tensor] = {}
        count = 1
    else:
        drawn = {name: torch.as_tensor(group[name].values).to(design.dtype).flatten(0, 1) for name in known}
        size = group.sizes["chain"] * group.sizes["draw"]
        chosen = torch.linspace(0, size - 1, min(size, most)).long()
        drawn = {name: value[chosen] for name, value in drawn.items()}
        count = len(chosen)
    if set(sites) - set(known) - set(values):
        count = max(count, most)  # something is left to the prior: averaged over its draws
    for s in range(count):
        yield bound, values | {name: value[s % len(value)] for name, value in drawn.items()}
