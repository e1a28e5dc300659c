"""A model of the catalogue, or one's own, as a Pyro program: for Pyro's own inference, handlers and predictive tools.

A model and its data become a function without arguments, with a guide of the same form, and samples of its sites become a
:class:`crowdppl.Posterior` again. The program is the specification that the engines of this library are tested against.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
import pyro
import pyro.distributions as dist
import torch
from pyro.poutine.messenger import Messenger
from torch import Tensor

from crowdppl import arguments
from crowdppl.arguments import Seed, checked
from crowdppl.data.annotations import Annotations
from crowdppl.data.numeric import NumericAnnotations
from crowdppl.errors import ModelError, OptionError, listed
from crowdppl.inference.catalogue import named_model
from crowdppl.inference.draws import Draws
from crowdppl.inference.engines.anchoring import learned
from crowdppl.inference.engines.guides import guide_of
from crowdppl.inference.engines.m_step import MStep
from crowdppl.inference.engines.unconstrained import Space
from crowdppl.inference.fit import effect_of, without_copies
from crowdppl.inference.numeric.program import NumericProgram
from crowdppl.inference.run import fitted
from crowdppl.inference.work import Work
from crowdppl.isolation import floating, isolated
from crowdppl.model.base import AnnotationModel
from crowdppl.model.bound import BoundModel, bind
from crowdppl.model.contract import check
from crowdppl.model.networks import is_weight
from crowdppl.posterior.posterior import Posterior

Truth = Literal["enumerated", "marginal"]
Labels = Literal["factor", "site"]
INTERVAL_METHOD = "draws of the parameters that the caller brought"


@checked
def pyro_program(
    model: str | AnnotationModel,
    data: Annotated[Annotations, arguments.any_data],
    *,
    truth: Truth = "enumerated",
    labels: Labels = "factor",
    seed: Seed = 0,
) -> PyroProgram:
    """Return a model and its data as a Pyro program.

    Args:
        model: a name in the catalogue or an instance.
        data: the annotations. For those that are numbers the program is a
            :class:`crowdppl.inference.numeric.program.NumericProgram`, with the truths integrated out.
        truth: ``"enumerated"``: a discrete site ``truth`` in the plate ``item``, marked for parallel enumeration, over which
            ``TraceEnum_ELBO(max_plate_nesting=1)`` and ``NUTS`` sum, and which ``infer_discrete`` draws. ``"marginal"``: no such
            site; its classes are summed out in closed form, which is faster.
        labels: ``"factor"``: the likelihood of all labels of an item is one factor, the fastest form. ``"site"``: the labels are
            an observed site, an event of each item, so that ``Predictive(poutine.uncondition(program))`` draws them; needs
            ``truth="enumerated"``.
        seed: of the initial weights of networks.

    Raises:
        OptionError: if the labels are to be a site and the truth is summed out.
        ModelError: if the model does not fit the data, or the data have item weights and the labels are to be a site.
    """
    if isinstance(data, NumericAnnotations):
        if labels == "site" or truth != "enumerated":
            raise OptionError("a program of numbers has its truths integrated out: leave truth= and labels= out")
        return NumericProgram.of(model, data, seed)
    chosen = named_model(model)
    if labels == "site" and truth == "marginal":
        raise OptionError("labels='site' needs truth='enumerated': a label depends on the true label")
    if labels == "site" and (data.weight is not None or data.multiplicity is not None):
        raise ModelError("items have weights, which an observed site cannot have; use labels='factor'")
    with isolated(seed, device=data.device, dtype=data.dtype):
        bound = bind(chosen, data)
        layout = bound.expand(bound.with_learned_scores(data))
        if bound.truths.coupled and truth == "enumerated":
            raise ModelError(
                f"{bound.name}: the true labels of a {'sequence' if data.set_labels is None else 'set'} are summed out together; "
                f"use truth='marginal'"
            )
        if labels == "site" and layout.parent_item is not None:
            layout = data.per_annotation()  # equal annotations are not counted together: each has a site
        layout = learned(bound, bound.anchored(layout))
        sites = check(bound, layout)
    return PyroProgram(bound, data, layout, sites, truth, labels)


@dataclass(frozen=True, eq=False)
class PyroProgram:
    """A model and its data as a Pyro program, see :func:`pyro_program`.

    ``program()`` runs it. It takes the index of a mini-batch of items, ``(B,)``, whose terms are scaled up.

    Attributes:
        bound: the model with its networks.
        annotations: the data as they were given.
        layout: the data as the program reads them: ``N`` units with a true label each.
        sites: of the parameters, by name: nodes of a trace.
        truth: ``"enumerated"`` or ``"marginal"``.
        labels: ``"factor"`` or ``"site"``.
    """

    bound: BoundModel
    annotations: Annotations
    layout: Annotations
    sites: Mapping[str, Any]
    truth: Truth
    labels: Labels

    def __call__(self, index: Tensor | None = None) -> None:
        """Run the program with Pyro's handlers around it."""
        with floating(self.layout.dtype), _AsDeclared(self.sites):
            if self.truth == "marginal":
                if index is not None:
                    raise OptionError("a program with truth='marginal' takes no mini-batches; use truth='enumerated'")
                self.bound.marginal_program(self.layout)
            elif self.labels == "site":
                self._with_labels(index)
            else:
                self.bound.program(self.layout, index)

    def parameters(self, index: Tensor | None = None) -> None:
        """Run the part of the program that draws the parameters: what a guide is about."""
        with floating(self.layout.dtype), _AsDeclared(self.sites):
            batch = self.layout if index is None else self.layout.mini_batch(index)
            self.bound.prior(batch, self.bound.plates(self.layout, index))

    @cached_property
    def guide(self) -> Callable[..., Any]:
        """The guide by which ``method="svi"`` fits: the model's own, else independent normals; networks have a point.

        Raises:
            ModelError: for a model with discrete parameters, which has none.
        """
        with isolated(0, device=self.layout.device, dtype=self.layout.dtype):
            space = Space(self.sites)
            with torch.no_grad():
                first = MStep(self.bound, self.layout, space).start(self.bound.initial(self.layout))
            family, _ = guide_of(self.bound, self.layout, space, first, "auto")

        def guide(index: Tensor | None = None) -> Any:
            with floating(self.layout.dtype):
                return family(self.layout) if index is None else family(self.layout, index)

        return guide

    @cached_property
    def slots(self) -> Tensor:
        """Places of the annotations of each item among all, ``(N, M)`` with ``M`` the most of any item; -1 where there is none.

        The site ``labels`` has the labels of the annotations in these places, as codes.
        """
        return _slots(self.layout)

    def labels_of(self, values: Tensor) -> Tensor:
        """Return draws of the site ``labels``, ``(..., N, M)``, by annotation, ``(..., A)``."""
        there = self.slots >= 0
        out = values.new_zeros(*values.shape[:-2], self.layout.A)
        out[..., self.slots[there]] = values[..., there]
        return out

    def posterior(
        self,
        samples: Mapping[str, Any],
        *,
        kind: Literal["posterior", "approximation"] = "posterior",
        independent: bool = False,
        rho: float | tuple[float, float] | None = None,
        seed: int = 0,
    ) -> Posterior:
        """Return a result made of one's own samples: views, the report, files and ArviZ work on it as on that of a fit.

        Args:
            samples: values of every parameter by site, ``(draw, ...)`` or ``(chain, draw, ...)``, as ``MCMC.get_samples()`` or
                ``Predictive(...)`` return them; other sites are left out.
            kind: ``"posterior"`` for draws from the posterior itself, ``"approximation"`` for those of a guide.
            independent: as in :func:`crowdppl.fit`.
            rho: as in :func:`crowdppl.fit`.
            seed: of the true labels that are drawn given the samples.

        Raises:
            OptionError: if a site is missing or has another shape.
        """
        drawn = self._checked(samples)
        chains, count = next(iter(drawn.values())).shape[:2]

        def draw(model: BoundModel, data: Annotations) -> Draws:
            if model.networks is not None:
                model.networks.take(self.bound.networks.buffers() if self.bound.networks is not None else {})
            sites = check(model, data)
            return Draws(
                dict(drawn),
                kind,
                INTERVAL_METHOD,
                sites=sites,
                facts={"chains": chains, "warmup": 0, "num_samples": count},
            )

        effect = effect_of(self.bound.model, self.annotations, independent, rho)
        _, _, sentences = without_copies(self.annotations, "all")
        work = Work(self.annotations, self.bound.model, effect, seed, warnings=tuple(sentences))
        return fitted(work, "samples", {"num_samples": count}, draw=draw)

    def _checked(self, samples: Mapping[str, Any]) -> dict[str, Tensor]:
        missing = [name for name in self.sites if name not in samples]
        if missing:
            raise OptionError(
                f"samples have no site {listed(missing)}; the parameters of {self.bound.name} are {listed(self.sites, 12)}"
            )
        out: dict[str, Tensor] = {}
        for name, node in self.sites.items():
            shape, given = tuple(node["value"].shape), samples[name]
            value = (given if isinstance(given, Tensor) else torch.as_tensor(np.asarray(given))).detach()
            value = value.to(self.layout.device, node["value"].dtype)
            value = _chains_and_draws(value, shape)
            if value.dim() != len(shape) + 2 or tuple(value.shape[2:]) != shape:
                raise OptionError(
                    f"samples of {name!r} have shape {tuple(np.shape(given))}; it must be (draw, ...) or (chain, draw, ...), "
                    f"with draws of shape {shape}"
                )
            out[name] = value
        counts = {name: tuple(value.shape[:2]) for name, value in out.items()}
        if len(set(counts.values())) > 1:
            raise OptionError(f"samples have different numbers of chains and draws: {counts}")
        if all(is_weight(self.sites[name]) for name in out) and next(iter(out.values())).shape[:2] != (1, 1):
            raise OptionError("only the weights of networks were sampled; give one draw of them")
        return out

    def _with_labels(self, index: Tensor | None) -> None:
        """Run the program with the labels as an observed site; the sum over the classes is that of :meth:`BoundModel.program`."""
        model = self.bound
        plates = model.plates(self.layout, index)
        batch = self.layout if index is None else self.layout.mini_batch(index)
        parameters = model.prior(batch, plates)
        each = torch.arange(batch.K, device=batch.label.device).view(-1, 1, 1)
        logits = model.emission(parameters, batch).log_prob(each).permute(1, 2, 0)  # (A, S, K)
        place = _slots(batch)  # (N, M)
        there, place = place >= 0, place.clamp(min=0)
        clamp = model.truths.clamp(parameters, batch)
        with plates.item:
            truth = pyro.sample("truth", model.truth(parameters, batch), infer={"enumerate": "parallel"})
            # The truth is (N,), or enumerated (S, 1): indexing gives (N, M, K), or (S, N, M, K).
            labels = dist.Categorical(logits=logits[place, truth.unsqueeze(-1)]).mask(there).to_event(1)
            pyro.sample("labels", labels, obs=batch.label[place])
            if clamp is not None:
                pyro.factor("known", clamp[torch.arange(batch.N, device=clamp.device), truth])
            if batch.anchor is not None:
                model.factor_anchor(
                    parameters, batch, model.log_likelihoods(parameters, batch) + (0 if clamp is None else clamp)
                )


class _AsDeclared(Messenger):  # type: ignore[misc]
    """Take axes of length 1 off values of parameters, which ``Predictive`` puts before those of sites outside of plates.

    Several draws at once are refused: a model says what one draw is, and its distributions would broadcast draws against
    workers or items, or count a density once for each draw, without an error.
    """

    def __init__(self, sites: Mapping[str, Any]):
        super().__init__()
        self.sites = sites

    def _pyro_post_sample(self, message: Any) -> None:
        if message["name"] in self.sites:
            value, shape = message["value"], message["fn"].shape()
            own = self.sites[message["name"]]["value"].shape
            draws = value.shape[: value.dim() - len(own)]
            if draws.numel() > 1 and not message["fn"].support.is_discrete:
                raise ModelError(
                    f"values of {message['name']!r} have shape {tuple(value.shape)}, of {draws.numel()} draws at once; "
                    f"the program takes one, {tuple(own)}: use Predictive(..., parallel=False) and an ELBO with "
                    f"vectorize_particles=False"
                )
            if value.shape != shape and value.numel() == shape.numel():
                message["value"] = value.reshape(shape)


def _chains_and_draws(value: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return samples of one site as ``(chain, draw, ...)``: those of one chain, and of ``Predictive``, lack the first axis.

    ``Predictive`` puts an axis of length 1 between the draws and the value of a site outside of plates.
    """
    while value.dim() > len(shape) + 1 and value.shape[0] > 1 and value.shape[1] == 1:
        value = value.squeeze(1)
    return value.unsqueeze(0) if value.dim() == len(shape) + 1 else value


def _slots(data: Annotations) -> Tensor:
    """Return the places of the annotations of each item, ``(N, M)``, -1 where there is none."""
    order = torch.argsort(data.item, stable=True)
    item = data.item[order]
    first = torch.searchsorted(item, torch.arange(data.N, device=item.device))
    rank = torch.arange(data.A, device=item.device) - first[item]
    out = torch.full((data.N, int(rank.max()) + 1), -1, device=item.device)
    out[item, rank] = order
    return out
