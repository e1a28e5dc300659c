"""Bayesian sequence combination: true labels of tokens depend on each other, and a worker's labels on their own last one.

Edwin Simpson and Iryna Gurevych (2019). A Bayesian approach for sequence tagging with crowds. EMNLP-IJCNLP 2019, 1093-1104:
their model *seq* of workers. With one confusion matrix in place of a table for each previous label it is HMM-crowd: An T. Nguyen,
Byron C. Wallace, Junyi Jessy Li, Ani Nenkova and Matthew Lease (2017). Aggregating and predicting sequence labels from crowd
annotations. ACL 2017.

Model, for the tokens ``t`` of a sequence::

    start        pi       (K,)          ~ Dirichlet(a)                  [paper: in A, as the transition from token 0]
    transition   T_k      (K, K)        ~ Dirichlet(a) for each class of the token before            [paper: A]
    emission     E_jck    (J, K+1, K, K)~ Dirichlet(B_k) for each label c that worker j gave the token before, or none
    truth        z_1 ~ Categorical(pi),   z_t | z_{t-1} = k ~ Categorical(T_k)                       [paper: t]
    label        y_n | z = k, the worker's label before = c  ~  Categorical(E_jck)                   [paper: c, pi]

Tokens may have features ``x_t``, such as the form of the word. A classifier of them, learned from the votes on other sequences
(:mod:`crowdppl.model.class_scores`), says of each token which class gains most over the mean votes, and by how much. This code is
one more observation of the truth, as the label of a worker is::

    codes        F_k      (K, B)        ~ Dirichlet(1 + prior_codes * share of each code)
    code         c_t | z_t = k          ~ Categorical(F_k)                              [paper: a classifier within the model]

Codes are functions of the labels of other sequences and count as given; data are simulated without them. Where features predict
the votes on other sequences no better than chance would, there are none.

In BIO form a label ``I-X`` may follow ``B-X`` and ``I-X`` alone: the truth is known to have no other pair. A sequence of one
token is an item of Dawid and Skene's model. The paper is variational; here EM takes the posterior mode, and Gibbs sampling draws
all tokens of a sequence together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
import pyro
import torch
from pyro.distributions import Categorical, Dirichlet
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.data.sequences import Tags
from crowdppl.kernels.ops import sample_dirichlet
from crowdppl.model.base import AnnotationModel, Parameters
from crowdppl.model.chains import Chain, SmoothedChains, marginals, smooth
from crowdppl.model.class_scores import LEAST, ClassScores, codes, learned, number_of_codes
from crowdppl.model.conjugacy import dirichlet_log_density, dirichlet_mode, positive
from crowdppl.model.hyperparameters import require_pseudo_counts
from crowdppl.model.plates import Plates
from crowdppl.model.priors import class_prior, confusion_prior
from crowdppl.model.truths.classes import one_hot

# Site of the codes of features, given the class of the token.
CODES = "feature_emission"


@final
@dataclass(frozen=True)
class SequentialWorkers(AnnotationModel):
    """Simpson & Gurevych (2019) with the prior of :class:`crowdppl.models.DawidSkene` for each previous label.

    Attributes:
        prior_correct: correct pseudo-annotations of every worker in every class after each label, on top of a flat prior.
            Defaults to 4, or half the number of classes if that is more.
        prior_incorrect: incorrect pseudo-annotations, shared evenly by the incorrect labels.
        prior_items: pseudo-tokens of every class, at the start and after each class.
        prior_codes: pseudo-tokens of every class whose codes of features are as those of all tokens.
    """

    prior_correct: float | None = None
    prior_incorrect: float = 1.0
    prior_items: float = 0.0
    prior_codes: float = 4.0

    dims: ClassVar = {
        "start": ("true_label",),
        "transition": ("true_label", "next_label"),
        "emission": ("worker", "previous_label", "true_label", "given_label"),
        CODES: ("true_label", "feature_code"),
        "confusion": ("worker", "true_label", "given_label"),
    }

    def __post_init__(self) -> None:
        names = ["prior_incorrect", "prior_items", "prior_codes"] + ["prior_correct"] * (self.prior_correct is not None)
        require_pseudo_counts(self, *names)

    @property
    def engine_defaults(self) -> Mapping[str, Mapping[str, Any]]:
        """A hundred draws around the mode: each is a pass over all sequences."""
        return {"em": {"num_samples": 100}}

    def check_method(self, method: str, data: Annotations | None = None) -> str | None:
        """Refuse known true labels that cannot follow each other."""
        tags = None if data is None or data.sequence is None else Tags.of(data.labels)
        if data is None or tags is None:
            return None
        truth, begins = data.truth.cpu().numpy(), ~data.following.cpu().numpy()
        before = np.roll(truth, 1)
        wrong = np.where(begins, ~tags.first[truth], (before >= 0) & ~tags.allowed[before, truth]) & (truth >= 0)
        if not wrong.any():
            return None
        item = int(wrong.argmax())
        place = "begin a sequence" if begins[item] else f"follow {data.labels[before[item]]}"
        return (
            f"{data.labels[truth[item]]}, the known true label of {data.items[item]}, cannot {place} in BIO form; correct the "
            f"known true labels"
        )

    def concentrations(self, data: Annotations) -> tuple[Tensor, Tensor]:
        """Return the Dirichlet concentrations of start and transitions ``(K,)`` and of emission rows ``(K, K)``."""
        correct = max(4.0, data.K / 2) if self.prior_correct is None else self.prior_correct
        return class_prior(data, self.prior_items), confusion_prior(data, correct, self.prior_incorrect)

    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample start ``(K,)``, transition ``(K, K)`` and emission ``(J, K+1, K, K)``."""
        a, B = self.concentrations(data)
        start = pyro.sample("start", Dirichlet(a))
        transition = pyro.sample("transition", Dirichlet(a.expand(data.K, data.K)).to_event(1))
        with plates.worker:
            emission = pyro.sample("emission", Dirichlet(B.expand(data.K + 1, data.K, data.K)).to_event(2))
        out = {"start": start, "transition": transition, "emission": emission}
        if _has_codes(data):
            out[CODES] = pyro.sample(CODES, Dirichlet(self._code_counts(data).expand(data.K, -1)).to_event(1))
        return out

    def learn_class_scores(self, data: Annotations) -> ClassScores | None:
        """Return class scores of tokens with features; ``None`` where these tell votes apart no better than chance would."""
        if data.sequence is None or data.features is None or not data.A:
            return None
        scores = learned(data)
        return scores if scores.errors >= LEAST else None

    def _code_counts(self, data: Annotations) -> Tensor:
        """Return the Dirichlet concentration of codes, ``(B,)``."""
        share = torch.zeros(number_of_codes(data.K), dtype=data.dtype, device=data.device)
        if data.class_scores is not None:
            share += codes(data.class_scores).bincount(minlength=len(share)) / max(1, data.N)
        return 1 + self.prior_codes * share

    def coupling(self, parameters: Parameters, data: Annotations) -> Chain:
        """Return the chain: minus infinity where a label cannot follow another one."""
        tags = Tags.of(data.labels)
        start, moves = parameters["start"].log(), parameters["transition"].log()
        observed = None
        if data.class_scores is not None and CODES in parameters:
            observed = parameters[CODES].log()[..., codes(data.class_scores)].mT  # (..., N, K)
        if tags is None or data.sequence is None:
            return Chain(start, moves, observed)
        first, allowed = (torch.from_numpy(mask).to(data.device) for mask in (tags.first, tags.allowed))
        return Chain(torch.where(first, start, -torch.inf), torch.where(allowed, moves, -torch.inf), observed)

    def truth(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return the distribution of each token's class before any label is seen, batch ``(N,)``."""
        return Categorical(marginals(self.coupling(parameters, data), data))

    def emission(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return, for each annotation, the rows of its worker after their label before: batch ``(A, K)``."""
        return Categorical(parameters["emission"][data.worker, data.label_before])

    # ------------------------------------------------------------------ closed forms

    def log_likelihoods(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the log-likelihood of each token's labels, ``(..., N, K)``."""
        return data.counts_after.log_likelihoods(parameters["emission"].log().flatten(-4, -3))

    def log_prior(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the log density of all priors, ``(...)``."""
        a, B = self.concentrations(data)
        density = (
            dirichlet_log_density(a, parameters["start"])
            + dirichlet_log_density(a, parameters["transition"]).sum(-1)
            + dirichlet_log_density(B, parameters["emission"]).sum((-3, -2, -1))
        )
        if CODES in parameters:
            density = density + dirichlet_log_density(self._code_counts(data), parameters[CODES]).sum(-1)
        return density

    def m_step(self, responsibility: Tensor, data: Annotations, parameters: Parameters | None) -> Parameters:
        """Return the mode given expected counts; the first transitions are those in the workers' own labels."""
        if parameters is None:
            starts = responsibility[data.chain_starts[:-1]].sum(0)
            return self.m_step_of_coupled(
                SmoothedChains(starts.sum(-1), responsibility, _said(data), starts), data, None
            )
        logs = self.log_likelihoods(parameters, data)
        logs = logs if data.clamp is None else logs + data.clamp
        return self.m_step_of_coupled(smooth(logs, self.coupling(parameters, data), data), data, parameters)

    def m_step_of_coupled(
        self, expected: SmoothedChains, data: Annotations, parameters: Parameters | None
    ) -> Parameters:
        """Return the mode given the expected classes of tokens and of neighbours."""
        a, B = self.concentrations(data)
        out = {
            "start": dirichlet_mode(a - 1 + expected.starts),
            "transition": dirichlet_mode(a - 1 + expected.pairs),
            "emission": dirichlet_mode(B - 1 + _emitted(expected.probability, data)),
        }
        if _has_codes(data):
            out[CODES] = dirichlet_mode(self._code_counts(data) - 1 + _coded(expected.probability, data))
        return out

    def gibbs_step(self, truth: Tensor, parameters: Parameters, data: Annotations) -> Parameters:
        """Draw the parameters given the tokens' classes ``(C, N)``."""
        a, B = self.concentrations(data)
        first, K = data.chain_starts[:-1], data.K
        lead = torch.arange(len(truth), device=data.device).unsqueeze(-1)
        pairs = (truth[:, :-1] * K + truth[:, 1:])[:, data.following[1:]] + lead * K**2
        starts = truth[:, first] + lead * K
        counted = [
            torch.bincount(codes.flatten(), minlength=len(truth) * size).view(len(truth), -1, K).to(data.dtype)
            for codes, size in ((starts, K), (pairs, K**2))
        ]
        out = {
            "start": positive(sample_dirichlet(a + counted[0].squeeze(-2))),
            "transition": positive(sample_dirichlet(a + counted[1])),
            "emission": positive(sample_dirichlet(B + _counted(truth, data))),
        }
        if _has_codes(data):
            out[CODES] = positive(sample_dirichlet(self._code_counts(data) + _coded(one_hot(truth, data), data)))
        return out

    def derived(self, parameters: Parameters, data: Annotations) -> Parameters:
        """Return each worker's confusion matrix: the mean over the labels that the worker gave before tokens of a class.

        These are counted with the votes in place of the class, so that they do not change with the parameters.
        """
        share = data.majority_before + 1e-6  # (J, K+1, K) = (worker, label before, class)
        share = share / share.sum(-2, keepdim=True)
        return {"confusion": (share.unsqueeze(-1) * parameters["emission"]).sum(-3)}


def _emitted(responsibility: Tensor, data: Annotations) -> Tensor:
    """Return the expected number of each worker's labels, by the one before and the class: ``(..., J, K+1, K, K)``."""
    return data.counts_after.expected(responsibility).unflatten(-3, (data.J, data.K + 1))


def _counted(truth: Tensor, data: Annotations) -> Tensor:
    """Return the same of classes ``(C, N)`` that are drawn."""
    if data.weight is not None or data.device.type != "cpu" or data.counts_after.dense:
        return _emitted(one_hot(truth, data), data)
    K, rows = data.K, data.J * (data.K + 1)
    own = (data.worker * (K + 1) + data.label_before) * K**2 + data.label
    counts = [torch.bincount(own + row[data.item] * K, minlength=rows * K**2) for row in truth]
    return torch.stack(counts).view(len(truth), data.J, K + 1, K, K).to(data.dtype)


def _has_codes(data: Annotations) -> bool:
    """Tell whether tokens have scores that follow from their features."""
    return data.class_scores is not None


def _coded(responsibility: Tensor, data: Annotations) -> Tensor:
    """Return the expected number of tokens by class and code, ``(..., K, B)``."""
    size = number_of_codes(data.K)
    out = responsibility.new_zeros(*responsibility.shape[:-2], size, data.K)
    if data.class_scores is not None:
        out.index_add_(-2, codes(data.class_scores), responsibility)
    return out.mT


def _said(data: Annotations) -> Tensor:
    """Return how often workers gave one label after another, in as many tokens as there are, ``(K, K)``."""
    before, K = data.label_before, data.K
    pairs = torch.bincount((before * K + data.label)[before < K], minlength=K**2).view(K, K).to(data.dtype)
    return pairs * (data.N / max(1, data.A))
