"""Accuracy regression: what the accuracy of annotations depends on, with workers and items that differ.

A mixed-effects logistic regression (D. Bates, M. Mächler, B. Bolker and S. Walker 2015, Journal of Statistical Software 67(1)) of
whether a label is correct, where the correct label is not known: Dawid and Skene's model (1979, Applied Statistics 28, 20-28),
whose log odds of the correct label depend on covariates of the annotation and are partially pooled over workers and items.

Model, with covariates ``z_n`` of annotation ``n`` by worker ``j`` on the standard scale (mean 0, variance 1)::

    prevalence   p             ~ Dirichlet(1 + prior_items)
    typical      t_k           ~ Normal(mean_log_odds, typical_scale)      log odds of the correct label, by class; (K,)
    effects      b             ~ Normal(0, effect_scale)                   of the covariates; (P,)
    spreads      s_w, s_c, s_i ~ HalfNormal(worker_scale, class_scale, item_scale)
    ability      a_j           ~ Normal(0, s_w)                            (J,)
    by class     c_jk          ~ Normal(0, s_c)                            (J, K)
    easiness     e_i           ~ Normal(0, s_i)                            (N,)
    walk         w_j1 = 0, w_jt - w_j,t-1 ~ Normal(0, s_d)                 where ability changes over T times; (J, T - 1)
    wrong        q_k           ~ Dirichlet(1 + prior_errors)               of the K - 1 other labels, with K > 2
    truth        z_i           ~ Categorical(p)
    label        y_n | z_i = k = k with probability sigmoid(t_k + a_j + c_jk + e_i + b z_n + w_jt), else one of the others by q_k
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import pyro
import torch
from pyro.distributions import Categorical, Dirichlet, HalfNormal, Normal
from torch import Tensor
from torch.nn.functional import one_hot, softplus

from crowdppl.arguments import shown
from crowdppl.data.annotations import Annotations
from crowdppl.errors import ModelError, listed
from crowdppl.model import mixed_logit
from crowdppl.model.base import AnnotationModel, Parameters
from crowdppl.model.hyperparameters import require_positive, require_pseudo_counts
from crowdppl.model.mixed_logit import Regression
from crowdppl.model.plates import Plates
from crowdppl.model.priors import CommonPrevalence, class_prior


@final
@dataclass(frozen=True)
class AccuracyRegression(CommonPrevalence, AnnotationModel):
    """Effects of covariates on accuracy, beside those of workers and items.

    The covariates are those of the data, ``from_frame(..., covariates="tenure + C(session)")``.

    Attributes:
        mean_log_odds: prior mean of the log odds of the correct label.
        typical_scale: prior standard deviation of these.
        effect_scale: prior standard deviation of the effect of one standard deviation of a covariate.
        worker_scale: prior scale of the standard deviation of workers' abilities.
        class_scale: of their deviations by class.
        item_scale: of the easiness of items; ``None`` for items that are alike.
        walk: a covariate whose values are times, such as the number of the session. The ability of each worker is then a random
            walk over them (learning, fatigue, drift); ``None`` for abilities that stay.
        walk_scale: prior scale of the standard deviation of its steps.
        prior_items: pseudo-items of every class.
        prior_errors: pseudo-annotations of every incorrect label.
    """

    mean_log_odds: float = 1.5
    typical_scale: float = 1.0
    effect_scale: float = 1.0
    worker_scale: float = 1.0
    class_scale: float = 0.5
    item_scale: float | None = 0.5
    walk: str | None = None
    walk_scale: float = 0.5
    prior_items: float = 1.0
    prior_errors: float = 1.0

    default_method: ClassVar[str] = "gibbs"
    viewed: ClassVar[tuple[str, ...]] = ("accuracy_at",)
    dims: ClassVar = {
        "prevalence": ("true_label",),
        "typical": ("true_label",),
        "effects": ("covariate",),
        "ability": ("worker",),
        "ability_by_class": ("worker", "true_label"),
        "easiness": ("item",),
        "steps": ("worker", "step"),
        "wrong_labels": ("true_label", "wrong_label"),
        "confusion": ("worker", "true_label", "given_label"),
        "effect_per_unit": ("covariate",),
        "accuracy_per_unit": ("covariate",),
        "accuracy_at": ("worker", "time"),
    }

    def __post_init__(self) -> None:
        require_positive(
            self, "mean_log_odds", "typical_scale", "effect_scale", "worker_scale", "class_scale", "walk_scale"
        )
        if self.item_scale is not None:
            require_positive(self, "item_scale")
        if self.walk is not None and not isinstance(self.walk, str):
            raise ModelError(f"AccuracyRegression: walk is {shown(self.walk)}; it must be the name of a covariate")
        require_pseudo_counts(self, "prior_items", "prior_errors")

    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample prevalence ``(K,)``, typical log odds ``(K,)``, effects ``(P,)``, spreads, and effects of workers and items."""
        one = torch.ones((), dtype=data.dtype, device=data.device)
        out = {"prevalence": pyro.sample("prevalence", Dirichlet(class_prior(data, self.prior_items)))}
        typical = Normal(self.mean_log_odds * one, self.typical_scale).expand([data.K]).to_event(1)
        out["typical"] = pyro.sample("typical", typical)
        if data.P:
            effects = Normal(0 * one, self.effect_scale).expand([data.P]).to_event(1)
            out["effects"] = pyro.sample("effects", effects)
        out["worker_spread"] = pyro.sample("worker_spread", HalfNormal(self.worker_scale * one))
        out["class_spread"] = pyro.sample("class_spread", HalfNormal(self.class_scale * one))
        with plates.worker:
            out["ability"] = pyro.sample("ability", Normal(0 * one, out["worker_spread"]))
            of_class = Normal(0 * one, out["class_spread"]).expand([data.K]).to_event(1)
            out["ability_by_class"] = pyro.sample("ability_by_class", of_class)
        if self.item_scale is not None:
            out["item_spread"] = pyro.sample("item_spread", HalfNormal(self.item_scale * one))
            with plates.item:
                out["easiness"] = pyro.sample("easiness", Normal(0 * one, out["item_spread"]))
        if self.walk is not None:
            steps = len(self._times(data)[1]) - 1
            out["walk_spread"] = pyro.sample("walk_spread", HalfNormal(self.walk_scale * one))
            with plates.worker:
                out["steps"] = pyro.sample("steps", Normal(0 * one, out["walk_spread"]).expand([steps]).to_event(1))
        if data.K > 2:
            out["wrong_labels"] = pyro.sample("wrong_labels", Dirichlet(self._wrong_prior(data)).to_event(1))
        return out

    def _times(self, data: Annotations) -> tuple[Tensor, tuple[float, ...]]:
        """Return the time of each annotation, ``(A,)``, and all times.

        Raises:
            ModelError: if the data have no such covariate, or too many values of it.
        """
        if self.walk not in data.covariate_names:
            has = listed(data.covariate_names, 5) if data.P else "none"
            raise ModelError(
                f"AccuracyRegression: walk={shown(self.walk)} names no covariate of the data, which have {has}"
            )
        time, times = data.times_of(str(self.walk))
        if not times:
            raise ModelError(
                f"AccuracyRegression: walk={self.walk!r} has more than 50 values; bring times together, to weeks for example"
            )
        return time, times

    def _wrong_prior(self, data: Annotations) -> Tensor:
        """Return the concentrations of the labels in place of the correct one, ``(K, K - 1)``."""
        return torch.full((data.K, data.K - 1), 1 + self.prior_errors, dtype=data.dtype, device=data.device)

    def emission(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return the distribution of each label: batch ``(A, K)``."""
        x = self.log_odds(parameters, data)
        return Categorical(logits=torch.diag_embed(x) + _log_wrong(parameters, data))

    def log_odds(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the log odds that each label is correct under each true label, ``(..., A, K)``."""
        x = _levels(parameters)[..., data.worker, :]  # (..., A, K)
        if "easiness" in parameters:
            x = x + parameters["easiness"][..., data.item].unsqueeze(-1)
        if self.walk is not None:
            x = x + self._walked(parameters, data).unsqueeze(-1)
        if "effects" in parameters:
            x = x + (parameters["effects"] @ self._columns(data).mT).unsqueeze(-1)
        return x

    def _walked(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return how far each worker's ability has gone by the time of each annotation, ``(..., A)``."""
        return _places(parameters["steps"])[..., data.worker, self._times(data)[0]]

    @staticmethod
    def _columns(data: Annotations) -> Tensor:
        """Return the covariates, ``(A, P)``."""
        assert data.standard_covariates is not None
        return data.standard_covariates

    def check_method(self, method: str, data: Annotations | None = None) -> str | None:
        """Refuse EM."""
        if method == "em":
            return "the joint mode of a spread and its effects is 0; use method='gibbs', 'nuts' or 'svi'"
        return None

    def derived(self, parameters: Parameters, data: Annotations) -> Parameters:
        """Return each worker's confusion matrix as it was over their annotations, and effects in the units of the covariates."""
        p = self.log_odds(parameters, data).sigmoid()  # (..., A, K)
        out = {"confusion": self._confusion(p, parameters, data)}
        if "effects" in parameters:
            # How fast the probability of a correct label rises with the log odds, on average.
            rise = ((p * (1 - p)).mean(-2) * parameters["prevalence"]).sum(-1, keepdim=True)
            scale = parameters["effects"].new_tensor([scale for _, scale in data.covariate_scales])
            out["effect_per_unit"] = parameters["effects"] / scale
            out["accuracy_per_unit"] = rise * out["effect_per_unit"]
        if self.walk is not None:
            out["accuracy_at"] = self._at_times(parameters, data)
        return out

    def _at_times(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the accuracy of each worker at each time, ``(..., J, T)``: of the mean item, other covariates at their means."""
        level = _levels(parameters)  # (..., J, K)
        p = data.covariate_names.index(str(self.walk))
        mean, scale = data.covariate_scales[p]
        trend = (
            parameters["effects"][..., p : p + 1] * (level.new_tensor(self._times(data)[1]) - mean) / scale
        )  # (..., T)
        change = _places(parameters["steps"]) + trend.unsqueeze(-2)  # (..., J, T)
        correct = (level.unsqueeze(-2) + change.unsqueeze(-1)).sigmoid()  # (..., J, T, K)
        return (correct * parameters["prevalence"][..., None, None, :]).sum(-1)

    def _confusion(self, correct: Tensor, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``(..., J, K, K)``: averages over a worker's annotations; where there is none, of the mean covariates.

        ``correct`` ``(..., A, K)`` are the probabilities that each annotation is correct.
        """
        own = data.mean_by_worker(correct.movedim(-2, 0)).movedim(0, -2)
        mean = torch.where(
            (data.annotations_per_worker > 0).unsqueeze(-1), own, _levels(parameters).sigmoid()
        )  # (..., J, K)
        wrong = _log_wrong(parameters, data).exp()
        eye = torch.eye(data.K, dtype=mean.dtype, device=mean.device)
        return mean.unsqueeze(-1) * eye + (1 - mean).unsqueeze(-1) * (wrong * (1 - eye)).unsqueeze(-3)

    # ------------------------------------------------------------------ closed forms

    def log_likelihoods(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the log-likelihood of each item's labels, ``(..., N, K)``."""
        x = self.log_odds(parameters, data)  # (..., A, K)
        wrong = _log_wrong(parameters, data)[..., data.label].mT  # (..., A, K)
        logs = torch.where(one_hot(data.label, data.K).bool(), x, wrong) - softplus(x)
        if data.weight is not None:
            logs = logs * data.weight[data.item].unsqueeze(-1)
        zeros = logs.new_zeros(*logs.shape[:-2], data.N, data.K)
        return zeros.index_add(-2, data.item, logs)

    def gibbs_step(self, truth: Tensor, parameters: Parameters, data: Annotations) -> Parameters:
        """Draw the parameters given truths ``(C, N)``: a logistic regression of whether each label is correct."""
        now, K = dict(parameters), data.K
        true = truth[:, data.item]  # (C, A)
        correct = (true == data.label).to(data.dtype)
        x = self.log_odds(now, data).gather(-1, true.unsqueeze(-1)).squeeze(-1)
        weight = None if data.weight is None else data.weight[data.item]
        regression = Regression(correct, weight, x)
        cell = data.worker * K + true  # (C, A)
        own = self.typical_scale**-2

        def precision(name: str) -> Tensor:
            return now[name].unsqueeze(-1) ** -2  # (C, 1)

        now["typical"] = regression.of_units(
            now["typical"], true, self.mean_log_odds, torch.full_like(now["typical"], own)
        )
        if "effects" in now:
            now["effects"] = regression.of_columns(now["effects"], self._columns(data), self.effect_scale**-2)
        spreads = {
            "worker_spread": ("ability", data.worker, self.worker_scale),
            "class_spread": ("ability_by_class", cell, self.class_scale),
        }
        if self.item_scale is not None:
            spreads["item_spread"] = ("easiness", data.item, self.item_scale)
        for spread, (name, unit, scale) in spreads.items():
            shape = now[name].shape
            effect = now[name].flatten(1)
            effect = regression.of_units(effect, unit, 0.0, precision(spread).expand_as(effect))
            now[spread] = mixed_logit.spread_given(effect, now[spread], scale)
            added = effect.gather(-1, unit.expand_as(correct))
            now[spread], effect = regression.rescaled(now[spread], effect, added, scale)
            now[name] = effect.view(shape)
        if self.walk is not None:
            self._walk_on(now, regression, data)
        self._shifted(now, data)
        items = one_hot(truth, K).sum(-2)
        now["prevalence"] = Dirichlet(class_prior(data, self.prior_items) + items).sample()
        if K > 2:
            now["wrong_labels"] = Dirichlet(self._wrong_prior(data) + _wrong_counts(true, weight, data)).sample()
        return now

    def _walk_on(self, now: Parameters, regression: Regression, data: Annotations) -> None:
        """Draw the steps of the walks, each given the others, and their spread."""
        time, times = self._times(data)
        steps = now["steps"].clone()  # (C, J, T - 1)
        for t in range(1, len(times)):
            own = steps[..., t - 1]
            precision = (now["walk_spread"].unsqueeze(-1) ** -2).expand_as(own)
            steps[..., t - 1] = regression.of_units(own, data.worker, 0.0, precision, (time >= t).to(data.dtype))
        now["walk_spread"] = mixed_logit.spread_given(steps, now["walk_spread"], self.walk_scale)
        walked = _places(steps)[..., data.worker, time]  # (C, A)
        now["walk_spread"], now["steps"] = regression.rescaled(now["walk_spread"], steps, walked, self.walk_scale)

    def _shifted(self, now: Parameters, data: Annotations) -> None:
        """Move levels between the terms that share them, at the present spreads."""
        own = torch.as_tensor(self.typical_scale**-2, dtype=data.dtype, device=data.device)
        slope = torch.as_tensor(self.effect_scale**-2, dtype=data.dtype, device=data.device)
        of_worker, of_class = (now[name].unsqueeze(-1) ** -2 for name in ("worker_spread", "class_spread"))  # (C, 1)
        terms = {"ability": (of_worker, data.covariates_of_workers)}
        if "easiness" in now:
            terms["easiness"] = (now["item_spread"].unsqueeze(-1) ** -2, data.covariates_of_items)
        for name, (precision, known) in terms.items():
            amount = mixed_logit.shift((now["typical"] - self.mean_log_odds, own), (now[name], precision)).unsqueeze(-1)
            now["typical"], now[name] = now["typical"] + amount, now[name] - amount
            for p in range(data.P):
                if bool(known[:, p].isfinite().all()):
                    along = known[:, p]
                    effect = now["effects"][:, p : p + 1]
                    amount = mixed_logit.shift((effect, slope), (now[name], precision), (1.0, along)).unsqueeze(-1)
                    rise = torch.zeros_like(now["effects"])
                    rise[:, p : p + 1] = amount
                    now["effects"], now[name] = now["effects"] + rise, now[name] - amount * along
        by_class = now["ability_by_class"]
        amount = mixed_logit.shift(  # (C, K)
            ((now["typical"] - self.mean_log_odds).unsqueeze(-1), own), (by_class.mT, of_class.unsqueeze(-1))
        )
        now["typical"], by_class = now["typical"] + amount, by_class - amount.unsqueeze(-2)
        amount = mixed_logit.shift(  # (C, J)
            (now["ability"].unsqueeze(-1), of_worker.unsqueeze(-1)), (by_class, of_class.unsqueeze(-1))
        )
        now["ability"], now["ability_by_class"] = now["ability"] + amount, by_class - amount.unsqueeze(-1)


def _levels(parameters: Parameters) -> Tensor:
    """Return the log odds of a correct label of each worker by true label, ``(..., J, K)``: of the mean item and covariates."""
    of_worker = parameters["ability"].unsqueeze(-1) + parameters["ability_by_class"]
    return parameters["typical"].unsqueeze(-2) + of_worker


def _places(steps: Tensor) -> Tensor:
    """Return where walks are at each time, ``(..., J, T)``, from their steps ``(..., J, T - 1)``: 0 at the first."""
    return torch.nn.functional.pad(steps.cumsum(-1), (1, 0))


def _log_wrong(parameters: Parameters, data: Annotations) -> Tensor:
    """Return the log-probabilities of labels in place of the correct one, ``(..., K, K)``; 0 for the correct one."""
    K = data.K
    if "wrong_labels" not in parameters:
        return torch.zeros(K, K, dtype=data.dtype, device=data.device)
    logs = parameters["wrong_labels"].log()  # (..., K, K - 1)
    place = torch.arange(K, device=data.device)
    # Label l stands at place l, or l - 1 after the correct one.
    place = (place - (place > place.unsqueeze(-1)).long()).clamp(max=K - 2)  # (K, K)
    table = logs.gather(-1, place.expand(*logs.shape[:-1], K))
    return table * (1 - torch.eye(K, dtype=table.dtype, device=table.device))


def _wrong_counts(true: Tensor, weight: Tensor | None, data: Annotations) -> Tensor:
    """Return how often each incorrect label was given, ``(C, K, K - 1)``, given true labels ``(C, A)``."""
    K, C = data.K, len(true)
    chain = torch.arange(C, device=true.device).unsqueeze(-1)
    place = ((chain * K + true) * K + data.label).flatten()
    weights = None if weight is None else weight.expand(C, -1).flatten()
    counts = torch.bincount(place, weights, C * K * K).to(data.dtype).view(C, K, K)
    off = ~torch.eye(K, dtype=torch.bool, device=true.device)
    return counts[:, off].view(C, K, K - 1)
