"""The log density of each model of ``user_models`` once more: by numpy and scipy, without the library, Pyro or torch.

A density takes values of the sites and a design, and returns the log prior, the log probabilities of the states, ``(S,)`` or
``(N, S)``, and the probability of each label under each state, ``(A, S, K)``. ``log_joint`` sums over all states, item by item.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import expit, logsumexp


@dataclass(frozen=True)
class Design:
    """What a density reads of annotations."""

    item: Any
    worker: Any
    label: Any
    N: int
    J: int
    K: int
    features: Any
    worker_features: Any

    @classmethod
    def of(cls, data):
        read = {name: getattr(data, name) for name in ("item", "worker", "label", "features", "worker_features")}
        arrays = {name: None if value is None else value.numpy() for name, value in read.items()}
        return cls(**arrays, N=data.N, J=data.J, K=data.K)


def dirichlet(value, concentration):
    rows = np.reshape(value, (-1, np.shape(value)[-1]))
    concentrations = np.broadcast_to(concentration, np.shape(value)).reshape(rows.shape)
    return sum(stats.dirichlet.logpdf(row / row.sum(), c) for row, c in zip(rows, concentrations, strict=True))


def coin(correct, d):
    """Probabilities of labels that are correct with probabilities ``(A,)``, ``(A, K, K)``."""
    out = np.empty((len(correct), d.K, d.K))
    for n, p in enumerate(correct):
        out[n] = (1 - p) / (d.K - 1)
        np.fill_diagonal(out[n], p)
    return out


def shared(v, d):
    return dirichlet(v["prevalence"], np.full(d.K, 2.0)), np.log(v["prevalence"])


def two_parameters(v, d):
    prior, states = shared(v, d)
    prior += stats.norm.logpdf(v["ability"], 1, 1).sum() + stats.norm.logpdf(v["difficulty"]).sum()
    prior += stats.lognorm.logpdf(v["discrimination"], 0.3).sum()
    logit = v["discrimination"][d.item] * (v["ability"][d.worker] - v["difficulty"][d.item])
    return prior, states, coin(expit(logit), d)


def experience(v, d):
    prior, states = shared(v, d)
    prior += stats.norm.logpdf(v["intercept"], 1, 1) + stats.norm.logpdf(v["slope"], 0, 1)
    prior += stats.halfnorm.logpdf(v["sigma"], scale=0.5) + stats.norm.logpdf(v["effect"], 0, v["sigma"]).sum()
    logit = v["intercept"] + v["slope"] * d.worker_features[:, 0] + v["effect"]
    return prior, states, coin(expit(logit)[d.worker], d)


def coarse_and_fine(v, d):
    prior, states = shared(v, d)
    prior += stats.beta.logpdf(v["coarse"], 6, 2).sum() + stats.beta.logpdf(v["fine"], 4, 2).sum()
    table = np.empty((len(d.item), 4, 4))
    for n, j in enumerate(d.worker):
        c, f = v["coarse"][j], v["fine"][j]
        for k in range(4):
            for label in range(4):
                same = k // 2 == label // 2
                table[n, k, label] = (c * (f if k == label else 1 - f)) if same else (1 - c) / 2
    return prior, states, table


def copying_pair(v, d):
    prior, _ = shared(v, d)
    prior += stats.beta.logpdf(v["copies"], 2, 2) + stats.beta.logpdf(v["skill"], 6, 2).sum()
    K = d.K
    rows = np.empty((d.J, K, K))
    for j in range(d.J):
        rows[j] = (1 - v["skill"][j]) / (K - 1)
        np.fill_diagonal(rows[j], v["skill"][j])
    states = np.log([v["prevalence"][k] * rows[0, k, said] for k in range(K) for said in range(K)])
    table = np.empty((len(d.item), K * K, K))
    for n, j in enumerate(d.worker):
        for k in range(K):
            for said in range(K):
                written = np.array([0.98 * (label == said) + 0.02 / K for label in range(K)])
                copied = v["copies"] * written + (1 - v["copies"]) * rows[1, k]
                table[n, k * K + said] = written if j == 0 else copied if j == 1 else rows[j, k]
    return prior, states, table


def sessions(v, d):
    prior, states = shared(v, d)
    prior += stats.lognorm.logpdf(v["pace"], 0.5, scale=np.exp(-1)) + stats.norm.logpdf(v["skill"], 1.5, 1).sum()
    prior += stats.norm.logpdf(v["step"]).sum()
    logit = np.empty(len(d.item))
    for n, (i, j) in enumerate(zip(d.item, d.worker, strict=True)):
        logit[n] = v["skill"][j] + v["pace"] * v["step"][j, : int(d.features[i, 0])].sum()
    return prior, states, coin(expit(logit), d)


def spammers(v, d):
    prior, states = shared(v, d)
    prior += dirichlet(v["guess"], np.full(d.K, 2.0)) + stats.beta.logpdf(v["spam"], 1.5, 3).sum()
    table = np.array([(1 - v["spam"][j]) * np.eye(d.K) + v["spam"][j] * v["guess"] for j in d.worker])
    return prior, states, table


def skill_and_difficulty(v, d):
    prior, states = shared(v, d)
    prior += stats.norm.logpdf(v["skill"], 2, 1).sum() + stats.lognorm.logpdf(v["difficulty"], 0.5).sum()
    odds = np.exp(v["skill"][d.worker] / v["difficulty"][d.item])
    return prior, states, coin(odds / (odds + d.K - 1), d)


def shared_populations(v, d):
    prior, states = shared(v, d)
    prior += dirichlet(v["shared"], 1 + 3 * np.eye(d.K))
    return prior, states, np.array([v["shared"][int(d.worker_features[j, 0])] for j in d.worker])


def ordered_thresholds(v, d):
    prior, states = shared(v, d)
    cuts = v["thresholds"]
    raw = np.concatenate([cuts[:1], np.log(np.diff(cuts))])
    prior += stats.norm.logpdf(raw, np.linspace(0, 0.5, d.K - 1), 1).sum() - raw[1:].sum()
    prior += stats.norm.logpdf(v["severity"], 0, 0.5).sum()
    table = np.empty((len(d.item), d.K, d.K))
    for n, j in enumerate(d.worker):
        for k in range(d.K):
            below = np.concatenate([[0], 1 - expit(2.0 * k - v["severity"][j] - cuts), [1]])
            table[n, k] = np.diff(below)
    return prior, states, table


def class_dependent_guesser(v, d):
    prior, states = shared(v, d)
    prior += stats.beta.logpdf(v["knows"], 3, 2).sum() + dirichlet(v["guess"], np.full(d.K, 2.0))
    table = np.empty((len(d.item), d.K, d.K))
    for n, j in enumerate(d.worker):
        for k in range(d.K):
            table[n, k] = (1 - v["knows"][j, k]) * v["guess"][j]
            table[n, k, k] += v["knows"][j, k]
    return prior, states, table


def network_for_the_truth(v, d):
    """With the weights of both layers, in the order of torch's parameters."""
    w = v["classifier.weights"]
    prior = stats.norm.logpdf(w).sum() + stats.beta.logpdf(v["accuracy"], 6, 2).sum()
    D, H = d.features.shape[1], 4
    sizes = np.cumsum([H * D, H, d.K * H, d.K])
    first, bias, second, last = np.split(w, sizes[:-1])
    hidden = np.maximum(d.features @ first.reshape(H, D).T + bias, 0)
    logits = hidden @ second.reshape(d.K, H).T + last
    return prior, logits - logsumexp(logits, axis=1, keepdims=True), coin(v["accuracy"][d.worker], d)


def two_kinds_of_workers(v, d):
    """The sum over both kinds of each worker."""
    prior, states = shared(v, d)
    prior += stats.beta.logpdf(v["careful"], 2, 2)
    for skill in v["skill"]:
        careful = v["careful"] * stats.norm.pdf(skill, 2, 0.5)
        prior += np.log(careful + (1 - v["careful"]) * stats.norm.pdf(skill, 0, 0.7))
    return prior, states, coin(expit(v["skill"])[d.worker], d)


DENSITIES = {
    "TwoParameters": two_parameters,
    "Experience": experience,
    "CoarseAndFine": coarse_and_fine,
    "CopyingPair": copying_pair,
    "Sessions": sessions,
    "Spammers": spammers,
    "SkillAndDifficulty": skill_and_difficulty,
    "SharedPopulations": shared_populations,
    "OrderedThresholds": ordered_thresholds,
    "ClassDependentGuesser": class_dependent_guesser,
    "NetworkForTheTruth": network_for_the_truth,
    "TwoKindsOfWorkers": two_kinds_of_workers,
}


def log_joint(name, values, d):
    """Return the log prior, and the log joint ``(N, S)`` of the states and labels of each item."""
    prior, states, table = DENSITIES[name](values, d)
    S = table.shape[1]
    joint = np.array(np.broadcast_to(states, (d.N, S)))
    with np.errstate(divide="ignore"):  # a mode may give a label no probability
        for n, (i, label) in enumerate(zip(d.item, d.label, strict=True)):
            joint[i] += np.log(table[n, :, label])
    return float(prior), joint


def log_density(name, values, d):
    """Return the log density of parameters and labels, the states summed out."""
    prior, joint = log_joint(name, values, d)
    return prior + logsumexp(joint, axis=1).sum()
