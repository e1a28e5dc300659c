"""Simulation: labels for a design, drawn from a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import torch
from pyro import poutine
from torch import Tensor

from crowdppl import arguments
from crowdppl.arguments import PositiveInt, Seed, TwoOrMore, checked
from crowdppl.data.annotations import Annotations
from crowdppl.data.sequences import previous_labels
from crowdppl.errors import OptionError
from crowdppl.isolation import isolated
from crowdppl.model.base import AnnotationModel, Parameters
from crowdppl.model.bound import BoundModel, bind
from crowdppl.model.contract import require_labels_unread
from crowdppl.model.stated import is_unknown

Array = npt.NDArray[Any]


@checked
def simulate(
    model: AnnotationModel,
    task: Annotated[Any, arguments.a_list] = None,
    worker: Annotated[Any, arguments.a_list] = None,
    *,
    classes: TwoOrMore | None = None,
    seed: Seed,
    parameters: Annotated[Mapping[str, Any], arguments.mapping] | None = None,
    features: Any = None,
    worker_features: Any = None,
    sequences: Any = None,
    sets: PositiveInt = 1,
    design: Annotations | None = None,
) -> tuple[Annotations, Array, dict[str, Array]]:
    """Draw labels for a design from a model.

    Args:
        model: an instance.
        task: item of each annotation, ``(A,)``: identifiers of any kind.
        worker: worker of each annotation, ``(A,)``.
        classes: ``K``.
        seed: of the draw; the same seed gives the same data.
        parameters: values of some sites to fix; the others are drawn from the prior.
        features: of the items, see :meth:`Annotations.with_features`.
        worker_features: of the workers.
        sequences: where items are tokens, a frame of their places, see :meth:`Annotations.with_sequences`. Truths are then those
            of a chain, for a model that has them, and labels follow the labels that a worker gave before.
        sets: number of labels of which sets are made; 1 for items that are none. So many items one after the other are then the
            labels of a task.
        design: annotations, in place of all of these: new labels are drawn for the same items, workers, times, covariates,
            features, sequences and sets. Known true labels are not used.

    Raises:
        OptionError: unless there is either a design or ``task``, ``worker`` and ``classes``.

    Returns:
        The labelled data (classes ``0..K-1``, or those of the design), the truth of its items ``(N,)`` and the parameters. Where
        the model gives each annotation a truth of its own (see :meth:`AnnotationModel.expand`), the truths are those of the
        annotations ``(A,)``, sorted by item as the data are.
    """
    if design is not None:
        parts = {"task": task, "worker": worker, "classes": classes, "features": features}
        parts |= {"worker_features": worker_features, "sequences": sequences}
        given = [name for name, value in parts.items() if value is not None] + ["sets"] * (sets > 1)
        if given:
            raise OptionError(f"design= and {given[0]}= both say what labels are drawn for; leave one out")
        design = replace(design.to("cpu"), truth=torch.full((design.N,), -1), start=None, anchor=None, others=None)
    elif task is None or worker is None or classes is None:
        raise OptionError("simulate needs task, worker and classes=, or design=")
    else:
        design = Annotations.from_arrays(
            task,
            worker,
            np.zeros(len(task), dtype=np.int64),
            labels=range(classes),
            features=features,
            worker_features=worker_features,
        )
        design = design if sequences is None else design.with_sequences(sequences)
        design = _as_sets(design, sets) if sets > 1 else design
    data, truth, values, _ = simulated(model, design, seed, parameters)
    return data, truth, values


def simulated(
    model: AnnotationModel, design: Annotations, seed: int, parameters: Mapping[str, Any] | None = None
) -> tuple[Annotations, Array, dict[str, Array], Array]:
    """Draw labels for a design, as :func:`simulate` does, and return also the probabilities of the true classes, ``(N, K)``.

    They are those given the state that was drawn: 1 for one class, or what the model reads off the state. ``(A, K)`` where each
    annotation has a truth of its own.
    """
    with isolated(seed), torch.no_grad():
        fixed = {
            name: torch.as_tensor(np.asarray(value), dtype=design.dtype) for name, value in (parameters or {}).items()
        }
        bound = bind(model.generative(), design)
        layout = design if bound.expand(design).parent_item is None else design.per_annotation()
        traced = poutine.trace(poutine.condition(bound.prior, data=fixed)).get_trace(layout, bound.plates(layout))
        drawn = traced.nodes["_RETURN"]["value"]
        require_labels_unread(bound, drawn, layout)
        state = bound.truths.draw_prior(drawn, layout)  # (N,)
        if layout.sequence is None or layout.set_labels is not None:
            label = sample_labels(bound, drawn, state, layout)
        else:
            layout = _labelled_in_order(bound, drawn, state, layout)
            design, label = layout, layout.label
        truth, known = bound.truths.draw_classes(state, drawn, layout)
        values = {
            name: node["value"].numpy() for name, node in traced.nodes.items() if is_unknown(node) or name in fixed
        }
    data = replace(design, label=label.long(), notes=())
    return data, truth.numpy(), values, known.numpy()


def _as_sets(design: Annotations, labels: int) -> Annotations:
    """Return a design whose items are, so many at a time, the labels of one task.

    Raises:
        OptionError: where the number of items is not a multiple of the number of labels, or items are tokens.
    """
    if design.N % labels or design.sequence is not None:
        raise OptionError(
            f"sets={labels} needs a multiple of so many items, which are no tokens; there are {design.N:,}"
        )
    number = np.arange(design.N)
    return design._in_sets(
        number // labels, number % labels, np.array([f"label {n}" for n in range(labels)], dtype=object)
    )


def _labelled_in_order(model: BoundModel, parameters: Parameters, state: Tensor, data: Annotations) -> Annotations:
    """Return tokens with labels that are drawn one place of the sequences after the other, each given the worker's last one."""
    first = data.chain_starts
    place = torch.arange(data.N) - first[:-1].repeat_interleave(first.diff())  # (N,)
    following = (place > 0).numpy()
    for step in range(int(place.max()) + 1):
        now = place[data.item] == step
        before = previous_labels(data.item.numpy(), data.worker.numpy(), data.label.numpy(), following, data.K)
        data = replace(data, previous=torch.from_numpy(before))
        label = data.label.clone()
        label[now] = sample_labels(model, parameters, state, data.keep(now)).long()
        data = replace(data, label=label)
    before = previous_labels(data.item.numpy(), data.worker.numpy(), data.label.numpy(), following, data.K)
    return replace(data, previous=torch.from_numpy(before))


def sample_labels(model: BoundModel, parameters: Parameters, state: Tensor, data: Annotations) -> Tensor:
    """Draw the labels of all annotations from the emission, ``(A,)``, given the states of the items ``(N,)``."""
    under_each = model.emission(parameters, data).sample()  # (A, S): a label under each state
    return under_each.gather(-1, state[data.item].unsqueeze(-1)).squeeze(-1)
