"""Which Dirichlet components a conjugate model's probabilities are products of, as its own counts tell.

The counts that a label adds to concentrations name the components of its probability: their derivatives by the label's count are
1 at these components and 0 elsewhere. That the probability is a constant times their product is then checked, at random values
of the sites. Models whose counts depend on the parameters, as where a label may come from several sources, have no such form.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.kernels.statistics import Statistics
from crowdppl.kernels.steps import CompiledStep
from crowdppl.model.base import Parameters
from crowdppl.model.conjugacy import Conjugacy

# Cells (worker, state, label) of the largest table.
CELLS = 2**23


def components(conjugacy: Conjugacy, data: Annotations) -> CompiledStep | None:
    """Return the compiled step of a model all of whose sites are conjugate; ``None`` where its probabilities are no products."""
    model, sites = conjugacy.model, conjugacy.sites
    J, S, K = model.confusion(conjugacy.means, data).shape
    if data.J * S * K > CELLS:
        return None
    # Gradients, also where the caller has turned them off.
    with torch.inference_mode(False), torch.enable_grad():
        labels = torch.zeros(J, S, K, dtype=torch.float64, requires_grad=True)
        items = torch.zeros(S, dtype=torch.float64, requires_grad=True)
        nothing = torch.tensor(math.nan)
        try:
            counts = model.conjugate_counts(Statistics(nothing, items, labels, conjugacy.means), data)
        except RuntimeError:  # parameters of inference mode, on which gradients would depend
            return None
        of_labels: list[Tensor] = []
        of_items: list[Tensor] = []
        begin = 0
        for name, site in sites.items():
            numbers = torch.arange(begin, begin + site.shape.numel(), dtype=torch.float64).view(site.shape)
            begin += site.shape.numel()
            for source, places in ((labels, of_labels), (items, of_items)):
                own = _places(counts[name], source, numbers)
                if own is None:
                    return None
                if bool((own >= 0).any()):
                    places.append(own)
    generator = torch.Generator().manual_seed(0)
    constants = []
    for _ in range(2):
        drawn = {
            name: torch.empty(site.shape, dtype=torch.float64).exponential_(generator=generator)
            for name, site in sites.items()
        }
        drawn = {name: value / value.sum(-1, keepdim=True) for name, value in drawn.items()}
        vector = torch.cat([value.flatten() for value in drawn.values()])
        values: Parameters = {name: value[..., 0] if sites[name].beta else value for name, value in drawn.items()}
        table = model.confusion(values, data).double() / _product(vector, of_labels, (J, S, K))
        constants.append((table, model.log_truth(values, data).double().exp() / _product(vector, of_items, (S,))))
    (table, prior), again = constants
    ones = torch.ones_like(prior)
    # Constants of single precision.
    same = [torch.allclose(*pair, rtol=1e-5, atol=0.0) for pair in ((table, again[0]), (prior, ones), (again[1], ones))]
    if not all(same):
        return None

    def by_column(values: Tensor) -> np.ndarray:
        return values.expand(data.J, S, K).transpose(1, 2).reshape(-1).numpy()

    lengths = [site.shape[-1] for site in sites.values() for _ in range(site.shape[:-1].numel())]
    fixed = [data.J, K, S, len(lengths), len(of_labels), len(of_items)]
    components_of = [by_column(place) for place in of_labels] + [place.numpy() for place in of_items]
    concentration = [site.concentration.expand(site.shape).double().flatten().numpy() for site in sites.values()]
    return CompiledStep(
        "dirichlet rows",
        {name: tuple(site.shape[:-1]) if site.beta else tuple(site.shape) for name, site in sites.items()},
        sizes=np.concatenate([fixed, lengths, *components_of]).astype(np.int64),
        numbers=np.concatenate([*concentration, by_column(table)]),
        states=S,
        work=begin,
        betas=frozenset(name for name, site in sites.items() if site.beta),
        simplexes=frozenset(name for name, site in sites.items() if not site.beta),
    )


def _places(counts: Tensor, source: Tensor, numbers: Tensor) -> Tensor | None:
    """Return the component, by its number, that each place of the source is counted for, -1 for none; ``None`` for others."""
    if not counts.requires_grad:
        return torch.full(source.shape, -1)
    weight = numbers + 1
    first, second = (
        torch.autograd.grad((counts * w).sum(), source, retain_graph=True, materialize_grads=True)[0]
        for w in (weight, weight.square())
    )
    # One component with derivative 1, or none: sums of several, or of parts, differ in one of the two.
    return (
        (first - 1).round().long()
        if torch.equal(first.square(), second) and torch.equal(first, first.round())
        else None
    )


def _product(vector: Tensor, places: list[Tensor], shape: tuple[int, ...]) -> Tensor:
    out = torch.ones(shape, dtype=torch.float64)
    for place in places:
        out = out * torch.where(place >= 0, vector[place.clamp(min=0)], 1.0)
    return out
