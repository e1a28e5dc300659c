"""Graded facets: grades from raters who differ in severity, in how they tell items apart, and in where one grade ends.

The graded response model (F. Samejima 1969, Estimation of latent ability using a response pattern of graded scores, Psychometrika
Monograph 17), with raters in place of test questions, as in many-facet Rasch measurement (J. M. Linacre 1989, Many-facet Rasch
measurement). A continuous item is graded by raters with thresholds of their own around those of the crowd.

Model, for grades ``0..K-1``::

    items      log p(x = s)         = -s^2 / 2 + sum_b a_b h_b(s) + constant,  a_b ~ Normal(0, shape_scale)
    item       x_i                  ~ p, on S nodes
    crowd      log c, m             ~ Normal(log slope, slope_scale), Normal(0, middle_scale)
               log g_l              ~ Normal(log (2 reach / (K - 1)), gap_scale)            l = 1..K-2
    spread     1 / sigma^2          ~ Gamma(2, 2 spread^2), for slopes, middles and gaps
    rater      log c_j, m_j, log g_jl ~ Normal(those of the crowd, sigma)
    threshold  t_jl                 with mean m_j and distances g_jl
    grade      p(y_n >= l | x) = sigmoid(c_j x - t_jl),  l = 1..K-1

Where raters grade by several criteria, grades by criterion ``c`` have the thresholds ``t_jl + d_c``::

    criterion  b_c ~ Normal(0, criterion_scale),  d_c = b_c - mean(b)

The functions ``h_b`` are smooth and orthogonal to those that shift or stretch the items (:mod:`crowdppl.model.place_shapes`).
Items need not be normal, and most of them may be at one end.

A rater with a high middle is severe. The *true grade* of an item is what a reference rater gives it, who is one more rater, with
wide priors around the crowd, and known true grades are grades of this rater. Where none are known, it is what a rater drawn from
this crowd gives it (the fair average of many-facet Rasch measurement), in the mean over criteria.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import pyro
import torch
from pyro.distributions import Categorical, Gamma, Normal
from torch import Tensor

from crowdppl.arguments import shown
from crowdppl.data.annotations import Annotations
from crowdppl.errors import ModelError
from crowdppl.model import graded_criteria, place_shapes
from crowdppl.model.base import AnnotationModel, Parameters
from crowdppl.model.fixed_points import Extrapolation
from crowdppl.model.graded_rows import RaterForm, RaterPrior, drawn, raised, table
from crowdppl.model.hyperparameters import refuse_one_class, require_positive, require_whole
from crowdppl.model.plates import Plates

# Places of the outermost nodes, in standard deviations of the items.
OUTERMOST = 4.0
# Number of pseudo-raters, halved, with the prior spread.
PSEUDO = 2.0
# Newton steps of a round of the first M step, each with new truths, and of later M steps.
STEPS = 2
# Rounds of the first M step before extrapolations and at most, and the distance of the extrapolated end from the start of a
# round, in any number of the model, below which they end: six public sets need 25 to 125.
PLAIN, MOST, NEAR = 4, 200, 1e-5
# Steps of an extrapolation that may end the rounds, and by how much the log joint may fall at one: spreads are not learned at its
# maximum.
SURE, FALL = 3, 0.1
# Standard deviation of an item around the mean of its grades, from which the first M step starts.
START = 0.4
# Severest middle of a rater with the slope of the crowd, and how often the range of middles is halved.
MOST_SEVERE, HALVINGS = 30.0, 40


@final
@dataclass(frozen=True)
class GradedFacets(AnnotationModel):
    """Grades of a continuous item; severity, slope and thresholds of each rater around those of the crowd.

    Attributes:
        nodes: number of places of an item, evenly spaced.
        slope: prior median of the crowd's slope, by which logits of grades rise over a standard deviation of the items.
        slope_scale: prior standard deviation of its logarithm.
        middle_scale: prior standard deviation of the mean of the crowd's thresholds, on the logit scale.
        reach: prior median of half the distance between the crowd's first and last threshold.
        gap_scale: prior standard deviation of the logarithms of distances between the crowd's thresholds.
        spreads: prior spread of raters around the crowd: of log slopes, of middles (severity), and of log distances.
        reference: prior standard deviation of the same three numbers of the reference rater around the crowd.
        criterion_scale: prior standard deviation of the difficulty of a criterion, on the logit scale.
        shapes: number of components by which the distribution of the items differs from a normal one; 0 for a normal one.
        shape_scale: prior standard deviation of this difference, of log densities; components follow from it.
    """

    nodes: int = 25
    slope: float = 2.0
    slope_scale: float = 0.7
    middle_scale: float = 2.0
    reach: float = 3.0
    gap_scale: float = 0.7
    spreads: tuple[float, float, float] = (0.4, 0.7, 0.3)
    reference: tuple[float, float, float] = (0.7, 1.0, 0.5)
    criterion_scale: float = 1.0
    shapes: int = 6
    shape_scale: float = 2.0

    default_method: ClassVar[str] = "em"
    dims: ClassVar = {
        "crowd_log_gaps": ("gap",),
        "spread_precision": ("rater_quantity",),
        "log_slope": ("worker",),
        "middle": ("worker",),
        "log_gaps": ("worker", "gap"),
        "reference_log_gaps": ("gap",),
        "severity": ("worker",),
        "criterion_number": ("criterion",),
        "difficulty": ("criterion",),
        "criterion_grades": ("criterion", "given_label"),
        "shape": ("shape_component",),
    }
    viewed: ClassVar = ("criterion_grades",)

    def __post_init__(self) -> None:
        require_whole(self, "nodes", least=3)
        require_whole(self, "shapes", least=0)
        require_positive(
            self, "slope", "slope_scale", "middle_scale", "reach", "gap_scale", "criterion_scale", "shape_scale"
        )
        for name in ("spreads", "reference"):
            given = getattr(self, name)
            numbers = (
                isinstance(given, tuple) and len(given) == 3 and all(type(value) in (int, float) for value in given)
            )
            if not numbers or not all(0 < value < math.inf for value in given):
                raise ModelError(
                    f"GradedFacets: {name} is {shown(given)}; it must be a tuple of three positive numbers: of log slopes, of "
                    f"middles and of log distances"
                )

    # ------------------------------------------------------------------ the model

    def places(self, data: Annotations) -> Tensor:
        """Return the nodes, ``(S,)``."""
        return torch.linspace(-OUTERMOST, OUTERMOST, self.nodes, dtype=data.dtype, device=data.device)

    def states(self, data: Annotations) -> int:
        """Return the number of nodes."""
        return self.nodes

    def _basis(self, data: Annotations) -> Tensor:
        """Return the components of the distribution of items, at the nodes, ``(S, B)``."""
        return place_shapes.basis(self.nodes, self.shapes, OUTERMOST).to(data.device, data.dtype)

    def _crowd_prior(self, data: Annotations) -> RaterPrior:
        """Return the prior of the crowd's numbers, ``(K,)``."""
        gaps = max(0, data.K - 2)
        mean = [math.log(self.slope), 0.0] + [math.log(2 * self.reach / (data.K - 1))] * gaps
        scale = [self.slope_scale, self.middle_scale] + [self.gap_scale] * gaps
        like: dict[str, Any] = {"dtype": data.dtype, "device": data.device}
        return RaterPrior(torch.tensor(mean, **like), torch.tensor(scale, **like) ** -2)

    def _by_number(self, values: Tensor, data: Annotations) -> Tensor:
        """Return ``(..., K)`` of values for slopes, middles and gaps ``(..., 3)``."""
        return torch.cat([values[..., :2], values[..., 2:].expand(*values.shape[:-1], data.K - 2)], -1)

    def _reference_precision(self, data: Annotations) -> Tensor:
        return self._by_number(torch.tensor(self.reference, dtype=data.dtype, device=data.device) ** -2, data)

    def _rates(self, data: Annotations) -> Tensor:
        """Return the rate of the prior of precisions, ``(3,)``."""
        return PSEUDO * torch.tensor(self.spreads, dtype=data.dtype, device=data.device) ** 2

    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample the crowd, its spreads, raters, the reference rater and criteria; shapes are in ``dims``."""
        crowd = self._sample("crowd_", self._crowd_prior(data))
        rates = self._rates(data)
        precision = pyro.sample("spread_precision", Gamma(torch.full_like(rates, PSEUDO), rates).to_event(1))
        centre = _rater(crowd, "crowd_")
        with plates.worker:
            raters = self._sample("", RaterPrior(centre, self._by_number(precision, data)))
        reference = self._sample("reference_", RaterPrior(centre, self._reference_precision(data)))
        out = crowd | {"spread_precision": precision} | raters | reference
        if data.criteria is not None:
            zeros = torch.zeros(data.number_of_criteria, dtype=data.dtype, device=data.device)
            out["criterion_number"] = pyro.sample("criterion_number", Normal(zeros, self.criterion_scale).to_event(1))
        zeros = self._basis(data).new_zeros(self._basis(data).shape[-1])
        if len(zeros):
            out["shape"] = pyro.sample("shape", Normal(zeros, self.shape_scale).to_event(1))
        return out

    def _sample(self, prefix: str, prior: RaterPrior) -> Parameters:
        """Sample the numbers of a rater, or of all raters within their plate."""
        mean, scale = prior.mean, prior.precision**-0.5
        out = {
            f"{prefix}log_slope": pyro.sample(f"{prefix}log_slope", Normal(mean[0], scale[0])),
            f"{prefix}middle": pyro.sample(f"{prefix}middle", Normal(mean[1], scale[1])),
        }
        if len(mean) > 2:
            out[f"{prefix}log_gaps"] = pyro.sample(f"{prefix}log_gaps", Normal(mean[2:], scale[2:]).to_event(1))
        return out

    def truth(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return the distribution of the items over the nodes."""
        return Categorical(logits=self.log_truth(parameters, data))

    def emission(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return the probabilities of the grades of each annotation's rater: batch ``(A, S)``."""
        if data.criterion is None:
            return Categorical(self.confusion(parameters, data)[data.worker])
        return Categorical(self.tables_by_criterion(parameters, data)[data.rater_row])

    def reading(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the probability of each true grade, ``(..., S, K)``: see the module's docstring."""
        if data.clamp is None:
            return (self._share(data)[:, None, None] * self.confusion(parameters, data)).sum(-3)
        return table(_rater(parameters, "reference_"), self.places(data))

    def _share(self, data: Annotations) -> Tensor:
        """Return the share of each rater in the crowd, ``(J,)``: equal ones, 0 for raters without annotations, if others have."""
        active = data.annotations_per_worker > 0
        active = active if bool(active.any()) else ~active
        return active.to(data.dtype) / active.sum()

    def initial(self, data: Annotations) -> Tensor:
        """Return places around the mean grade of each item, ``(N, S)``, standardised over the items."""
        share = data.majority() if data.start is None else data.start
        mean = share @ torch.arange(data.K, dtype=data.dtype, device=data.device)
        graded = mean[data.annotations_per_item > 0]  # the others would move the start of all
        middle, spread = (
            (graded.mean(), graded.std(correction=0).clamp(min=1e-3)) if len(graded) else (mean.mean(), 1.0)
        )
        off = ((mean - middle) / spread).unsqueeze(-1) - self.places(data)
        return (-(off / START).square() / 2).softmax(-1)

    def check_method(self, method: str, data: Annotations | None = None) -> str | None:
        """Refuse a single grade."""
        return refuse_one_class(data)

    def derived(self, parameters: Parameters, data: Annotations) -> Parameters:
        """Return each rater's severity: the middle of the thresholds above the mean rater's, in logits.

        Of criteria the difficulties, likewise in logits, and the share of each grade over all raters and items, ``(..., L, K)``.
        """
        middle = parameters["middle"]
        out = {"severity": middle - (self._share(data) * middle).sum(-1, keepdim=True)}
        if data.criteria is None:
            return out
        weight = self.log_truth(parameters, data).exp().unsqueeze(-2).unsqueeze(-1)  # (..., 1, S, 1)
        by_row = (self.tables_by_criterion(parameters, data) * weight).sum(-2)  # (..., J*L, K)
        shares = (by_row.unflatten(-2, (data.J, -1)) * self._share(data)[:, None, None]).sum(-3)
        return out | {
            "difficulty": graded_criteria.difficulties(parameters["criterion_number"]),
            "criterion_grades": shares,
        }

    @property
    def engine_defaults(self) -> Mapping[str, Mapping[str, Any]]:
        """Fewer draws for intervals by EM: each is a step for every rater at every node, and 400 show the ends of an interval."""
        return {"em": {"num_samples": 400}}

    # ------------------------------------------------------------------ closed forms

    def log_truth(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the log-probabilities of the nodes, ``(..., S)``; of a normal distribution without a shape."""
        return place_shapes.log_shares(self.places(data), self._basis(data), parameters.get("shape"))

    def confusion(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the probabilities of the grades at the nodes, ``(..., J, S, K)``, in the mean over criteria."""
        if data.criteria is None:
            return table(_rater(parameters), self.places(data))
        return self.tables_by_criterion(parameters, data).unflatten(-3, (data.J, -1)).mean(-3)

    def tables_by_criterion(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the same for each rater and criterion, ``(..., J*L, S, K)``; without criteria ``(..., J, S, K)``."""
        return self._by_row(table(_rater(parameters), self._points(data), self._offset(parameters)), data)

    def _by_row(self, tables: Tensor, data: Annotations) -> Tensor:
        """Return tables ``(..., J, L*S, K)`` with a row for each rater and criterion, ``(..., J*L, S, K)``."""
        if data.criteria is None:
            return tables
        return tables.unflatten(-2, (data.number_of_criteria, self.nodes)).flatten(-4, -3)

    def _points(self, data: Annotations) -> Tensor:
        """Return the nodes once for each criterion, ``(L*S,)``."""
        return self.places(data).repeat(data.number_of_criteria)

    def _offset(self, parameters: Parameters) -> Tensor | None:
        """Return the difficulty of the criterion of each of these nodes, ``(..., 1, L*S)``, for all raters."""
        free = parameters.get("criterion_number")
        return None if free is None else graded_criteria.offsets(free, self.nodes)

    def log_likelihoods(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the log-likelihood of each item's grades at the nodes, ``(..., N, S)``."""
        return data.counts_by_criterion.log_likelihoods(self.tables_by_criterion(parameters, data).log())

    def equal_raters(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the probabilities of grades if raters differed in severity alone, ``(J*L, S, K)``, as Rasch models have it.

        Raters have the slope and the distances of the crowd, and the mean grades over items that they have with their own. There
        is a table for each rater and criterion.
        """
        points, offset = self._points(data), self._offset(parameters)
        weight = self.log_truth(parameters, data).exp()
        grades = torch.arange(data.K, dtype=data.dtype, device=data.device)
        wanted = (self.confusion(parameters, data) @ grades) @ weight  # (J,)
        crowd = _rater(parameters, "crowd_").expand(len(wanted), -1).clone()
        low, high = (torch.full_like(wanted, end) for end in (-MOST_SEVERE, MOST_SEVERE))
        for _ in range(HALVINGS):
            crowd[:, 1] = (low + high) / 2
            given = (table(crowd, points, offset) @ grades).unflatten(-1, (-1, self.nodes)).mean(-2)
            above = given @ weight > wanted
            low, high = torch.where(above, crowd[:, 1], low), torch.where(above, high, crowd[:, 1])
        return self._by_row(table(crowd, points, offset), data)

    def log_prior(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the log density of all priors, ``(...)``."""
        crowd, precision = _rater(parameters, "crowd_"), parameters["spread_precision"]
        rates = self._rates(data)
        raters = RaterPrior(crowd.unsqueeze(-2), self._by_number(precision, data).unsqueeze(-2))
        out = (
            self._crowd_prior(data).log_density(crowd)
            + Gamma(torch.full_like(rates, PSEUDO), rates).log_prob(precision).sum(-1)
            + raters.log_density(_rater(parameters)).sum(-1)
            + RaterPrior(crowd, self._reference_precision(data)).log_density(_rater(parameters, "reference_"))
        )
        if "shape" in parameters:
            out = out + Normal(0.0, self.shape_scale).log_prob(parameters["shape"]).sum(-1)
        if data.criteria is None:
            return out
        return out + Normal(0.0, self.criterion_scale).log_prob(parameters["criterion_number"]).sum(-1)

    def m_step(self, responsibility: Tensor, data: Annotations, parameters: Parameters | None) -> Parameters:
        """Return all parameters after Newton steps, which raise the expected log joint.

        The first M step goes on to learn the spreads by empirical Bayes: at the joint mode of a spread and the raters there would
        be none. It learns the shape of the items, too. Later ones keep both: a shape and the crowd's slope and thresholds
        describe nearly the same, and EM of all of them would take hundreds of steps. Rounds of the first M step are extrapolated
        (:mod:`crowdppl.model.fixed_points`), and go on until all numbers settle, at a mode that may depend on the start.
        """
        if parameters is not None:
            return self._stepped(responsibility, data, parameters)[0]
        before = self._start(data)
        path, rounds = Extrapolation(), 0
        near = max(NEAR, 3e2 * torch.finfo(responsibility.dtype).eps)  # what single precision can tell
        value = responsibility.new_tensor(-math.inf)  # log-likelihood before a round
        while True:
            image, rounds = self._round(responsibility, data, before), rounds + 1
            point, to = _coordinates(before), _coordinates(image)
            end = to if rounds < PLAIN else path(point, to)
            if rounds >= MOST or (path.steps >= SURE and float((end - point).abs().max()) < near):
                return image
            after = image if end is to else _parameters(end, image)
            log_likelihood, expected = self._expected(after, data)
            if after is not image:  # compared with spreads that are the same
                same = before | {"spread_precision": after["spread_precision"]}
                fall = value + self.log_prior(same, data) - log_likelihood - self.log_prior(after, data)
                if not float(fall) <= FALL:
                    path.restart()
                    after, rounds = image, rounds + 1
                    log_likelihood, expected = self._expected(after, data)
            before, value, responsibility = after, log_likelihood, expected

    def _round(self, responsibility: Tensor, data: Annotations, parameters: Parameters) -> Parameters:
        """Return all parameters after steps, with spreads by empirical Bayes and a step of the shape."""
        out, variance = self._stepped(responsibility, data, parameters)
        off = (_rater(out) - _rater(out, "crowd_")).square() + variance  # (J, K)
        number, sums = self._squares(off[data.annotations_per_worker > 0])
        out["spread_precision"] = (2 * PSEUDO + number) / (2 * self._rates(data) + sums)
        if "shape" in out:
            at_nodes, basis = responsibility.sum(-2), self._basis(data)
            out["shape"] = place_shapes.raised(out["shape"], at_nodes, self.places(data), basis, self.shape_scale)
        return out

    def _expected(self, parameters: Parameters, data: Annotations) -> tuple[Tensor, Tensor]:
        """Return the log-likelihood and the responsibilities ``(N, S)``, counted as often as an item is, of the first M step."""
        joint = self.log_likelihoods(parameters, data) + self.log_truth(parameters, data)
        if data.clamp is not None:
            logs = self.reading(parameters, data).log().mT[data.truth.clamp(min=0)]  # (N, S)
            joint += torch.where((data.truth >= 0).unsqueeze(-1), logs, 0.0)
        often = 1.0 if data.multiplicity is None else data.multiplicity.unsqueeze(-1)
        total = joint.logsumexp(-1, keepdim=True)
        return (total * often).sum(), (joint - total).exp() * often

    def _stepped(self, responsibility: Tensor, data: Annotations, parameters: Parameters) -> tuple[Parameters, Tensor]:
        """Return parameters after Newton steps, and approximate posterior variances of the raters ``(J, K)``."""
        counts = self._counts(responsibility, data)
        crowd, precision = _rater(parameters, "crowd_"), self._precisions(parameters, data)
        raters = torch.cat([_rater(parameters), _rater(parameters, "reference_").unsqueeze(0)])
        own = self._crowd_prior(data)
        variance = torch.zeros_like(raters)
        points, free = self._points(data), parameters.get("criterion_number")
        for _ in range(STEPS):
            offset = None
            if free is not None:
                free = graded_criteria.raised(free, raters[:-1], counts[:-1], points, self.criterion_scale)
                offset = graded_criteria.with_reference(graded_criteria.offsets(free, self.nodes), data.J)
            raters, variance = raised(raters, counts, points, RaterPrior(crowd, precision), offset)
            # Those without grades say nothing of the crowd; counted, they would only slow it down.
            held = precision * (counts.sum((-2, -1)) > 0).unsqueeze(-1)
            crowd = (own.precision * own.mean + (held * raters).sum(0)) / (own.precision + held.sum(0))
        criteria = {} if free is None else {"criterion_number": free}
        return parameters | self._named(raters, crowd) | criteria, variance[:-1]

    @staticmethod
    def _squares(off: Tensor) -> tuple[Tensor, Tensor]:
        """Return how many numbers of slopes, middles and gaps there are ``(3,)``, and sums of their squares ``(..., J, K)``."""
        raters, K = off.shape[-2:]
        sums = torch.stack([off[..., 0].sum(-1), off[..., 1].sum(-1), off[..., 2:].sum((-2, -1))], -1)
        return sums.new_tensor([raters, raters, raters * (K - 2)]), sums

    def _precisions(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the precisions of raters and the reference rater around the crowd, ``(..., J+1, K)``."""
        precision = self._by_number(parameters["spread_precision"], data).unsqueeze(-2)  # (..., 1, K)
        of_raters = precision.expand(*precision.shape[:-2], data.J, data.K)
        of_reference = self._reference_precision(data).expand(precision.shape)
        return torch.cat([of_raters, of_reference], -2)

    def _counts(self, responsibility: Tensor, data: Annotations) -> Tensor:
        """Return expected grades by rater and node, ``(..., J+1, L*S, K)``; the last are known ones, of the reference rater.

        The known ones stand at the nodes of the first criterion.
        """
        known = torch.zeros(data.N, data.K, dtype=data.dtype, device=data.device)
        known[data.truth >= 0, data.truth[data.truth >= 0]] = 1.0
        given, L = data.counts_by_criterion.expected(responsibility), data.number_of_criteria
        of_reference = (responsibility.mT @ known).unsqueeze(-3)
        if L > 1:
            given = given.unflatten(-3, (data.J, L)).flatten(-3, -2)
            of_reference = torch.nn.functional.pad(of_reference, (0, 0, 0, (L - 1) * self.nodes))
        return torch.cat([given, of_reference], -3)

    def _counted(self, truth: Tensor, data: Annotations) -> Tensor:
        """Return the same given nodes ``(C, N)``, ``(C, J+1, L*S, K)``."""
        C, S, K, L = len(truth), self.nodes, data.K, data.number_of_criteria
        known = (data.truth >= 0).nonzero().squeeze(-1)
        rater = torch.cat([data.rater_row, torch.full_like(known, data.J * L)])
        node = torch.cat([truth[:, data.item], truth[:, known]], -1)  # (C, A + known)
        grade = torch.cat([data.label, data.truth[known]])
        chain = torch.arange(C, device=data.device).unsqueeze(-1)
        cell = ((chain * (data.J + 1) * L + rater) * S + node) * K + grade
        weights = None
        if data.weight is not None:
            weights = torch.cat([data.weight[data.item], torch.ones_like(known, dtype=data.weight.dtype)])
            weights = weights.expand(C, -1).flatten()
        size = (C, data.J + 1, L * S, K)
        return torch.bincount(cell.flatten(), weights, math.prod(size)).to(data.dtype).view(size)

    def _named(self, raters: Tensor, crowd: Tensor) -> Parameters:
        """Return the sites of raters ``(..., J+1, K)`` and crowd ``(..., K)``."""
        out: Parameters = {}
        for prefix, value in (("", raters[..., :-1, :]), ("reference_", raters[..., -1, :]), ("crowd_", crowd)):
            out |= {f"{prefix}log_slope": value[..., 0], f"{prefix}middle": value[..., 1]}
            if value.shape[-1] > 2:
                out[f"{prefix}log_gaps"] = value[..., 2:]
        return out

    def _start(self, data: Annotations) -> Parameters:
        crowd = self._crowd_prior(data).mean
        precision = PSEUDO / self._rates(data)
        out = self._named(crowd.expand(data.J + 1, data.K), crowd) | {"spread_precision": precision}
        basis = self._basis(data)
        if basis.shape[-1]:
            out["shape"] = basis.new_zeros(basis.shape[-1])
        return out if data.criteria is None else out | {"criterion_number": precision.new_zeros(len(data.criteria))}

    def gibbs_step(self, truth: Tensor, parameters: Parameters, data: Annotations) -> Parameters:
        """Draw the parameters given nodes ``(C, N)``: raters by Metropolis-Hastings steps, the rest exactly."""
        counts = self._counted(truth, data)
        raters = self._all_raters(parameters)
        prior = RaterPrior(_rater(parameters, "crowd_").unsqueeze(-2), self._precisions(parameters, data))
        points, free, offset = self._points(data), parameters.get("criterion_number"), None
        if free is not None:
            free = graded_criteria.drawn(
                free, raters[..., :-1, :], counts[..., :-1, :, :], points, self.criterion_scale
            )
            offset = graded_criteria.with_reference(graded_criteria.offsets(free, self.nodes), data.J)
        raters = drawn(raters, counts, points, prior, offset)
        criteria = {} if free is None else {"criterion_number": free}
        weight = None if data.weight is None else data.weight.expand(truth.shape)
        at_nodes = place_shapes.counted(truth, self.nodes, weight).to(data.dtype)
        return self._completed(raters, at_nodes, parameters, data) | criteria

    def _completed(self, raters: Tensor, at_nodes: Tensor, parameters: Parameters, data: Annotations) -> Parameters:
        """Return raters ``(C, J+1, K)`` with the rest drawn given them, items by node ``(C, S)`` and the ``parameters`` before.

        Crowds and spreads are drawn exactly, shapes by Metropolis-Hastings steps.
        """
        own, precision = self._crowd_prior(data), self._precisions(parameters, data)
        total = own.precision + precision.sum(-2)
        mean = (own.precision * own.mean + (precision * raters).sum(-2)) / total
        crowd = mean + torch.randn_like(mean) * total**-0.5
        off = (raters[..., :-1, :] - crowd.unsqueeze(-2)).square()
        number, sums = self._squares(off)
        spread = Gamma(PSEUDO + number.expand_as(sums) / 2, self._rates(data) + sums / 2).sample()
        out = self._named(raters, crowd) | {"spread_precision": spread}
        if "shape" in parameters:
            start = parameters["shape"].expand(len(raters), -1)
            out["shape"] = place_shapes.drawn(start, at_nodes, self.places(data), self._basis(data), self.shape_scale)
        return out

    def compiled_raters(self, data: Annotations) -> RaterForm:
        """Return what compiled draws and readings of raters need."""
        return RaterForm(
            nodes=self.places(data),
            log_truth=lambda parameters: self.log_truth(dict(parameters), data),
            share=self._share(data),
            raters=self._all_raters,
            offsets=lambda parameters: graded_criteria.difficulties(
                parameters.get("criterion_number", parameters["middle"][..., :1])
            ),
            prior=lambda parameters: RaterPrior(_rater(parameters, "crowd_"), self._precisions(dict(parameters), data)),
            completed=lambda raters, at_nodes, parameters: self._completed(raters, at_nodes, dict(parameters), data),
        )

    @staticmethod
    def _all_raters(parameters: Mapping[str, Tensor]) -> Tensor:
        """Return the numbers of raters and, last, of the reference rater, ``(..., J+1, K)``."""
        return torch.cat([_rater(parameters), _rater(parameters, "reference_").unsqueeze(-2)], -2)


def _rater(parameters: Mapping[str, Tensor], prefix: str = "") -> Tensor:
    """Return the numbers of raters, ``(..., J, K)``, or of the crowd or the reference rater, ``(..., K)``."""
    parts = [parameters[f"{prefix}log_slope"].unsqueeze(-1), parameters[f"{prefix}middle"].unsqueeze(-1)]
    if f"{prefix}log_gaps" in parameters:
        parts.append(parameters[f"{prefix}log_gaps"])
    return torch.cat(parts, -1)


def _coordinates(parameters: Mapping[str, Tensor]) -> Tensor:
    """Return all numbers of the model in one vector, ``(P,)``; of precisions the logarithms."""
    return torch.cat([(x.log() if name == "spread_precision" else x).reshape(-1) for name, x in parameters.items()])


def _parameters(coordinates: Tensor, like: Mapping[str, Tensor]) -> Parameters:
    """Return the parameters at coordinates ``(P,)``, in the order and of the shapes of others."""
    parts = coordinates.split([value.numel() for value in like.values()])
    out = {name: part.view(value.shape) for (name, value), part in zip(like.items(), parts, strict=True)}
    return out | {"spread_precision": out["spread_precision"].exp()}
