"""True labels that form Markov chains along sequences of items: forward-backward, and paths drawn from the posterior.

For a model whose ``coupling`` is a chain, the states of the items of a chain have the probability

    p(z_1 .. z_T) = start[z_1] prod_t moves[z_{t-1}, z_t]

Rows of ``moves`` may sum to less than one where some pairs of labels are impossible, such as ``O`` before ``I-PER``: that the
truth has none of these is then part of what is observed, and the posterior follows by the same sums.

Compiled on the CPU in float64,
by torch otherwise, and where gradients are wanted.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.kernels.ops import is_mapped

# Draws whose states are read or drawn together.
TOGETHER = 8
# Likelihoods of so many numbers are gone through at a time: 4 MB.
BLOCK = 2**19


class Chain(NamedTuple):
    """Logs of the distribution of a chain.

    Attributes:
        start: of the first state, ``(..., S)``.
        moves: of the next state given the one before, ``(..., S, S)`` = (before, after); minus infinity where it cannot follow.
        observed: log-likelihoods of what is known of each item besides its labels, such as its features, ``(..., N, S)``.
    """

    start: Tensor
    moves: Tensor
    observed: Tensor | None = None

    def joined(self, log_likelihoods: Tensor) -> Tensor:
        """Return log-likelihoods of labels ``(..., N, S)`` with those of what is observed besides."""
        return log_likelihoods if self.observed is None else log_likelihoods + self.observed

    def smooth(self, log_likelihoods: Tensor, data: Annotations) -> SmoothedChains:
        """Return the posterior, see :func:`smooth`."""
        return smooth(log_likelihoods, self, data)

    def draw_states(self, log_likelihoods: Tensor, data: Annotations) -> Tensor:
        """Draw the states, see :func:`draw_states`."""
        return draw_states(log_likelihoods, self, data)

    def prevalence(self, data: Annotations) -> Tensor:
        """Return the mean of :func:`marginals` over all items, ``(..., S)``."""
        return prevalence(self, data)


class SmoothedChains(NamedTuple):
    """The posterior of the states of all chains.

    Attributes:
        log_likelihood: log-probability of the labels of an item given those of the items before it in its chain, ``(..., N)``.
        probability: of its states given all labels of the chain, ``(..., N, S)``.
        pairs: expected number of neighbours in these states, ``(..., S, S)``.
        starts: likewise of first items, ``(..., S)``.
    """

    log_likelihood: Tensor
    probability: Tensor
    pairs: Tensor
    starts: Tensor


def smooth(log_likelihoods: Tensor, chain: Chain, data: Annotations) -> SmoothedChains:
    """Take a forward-backward pass over all chains.

    Args:
        log_likelihoods: ``log p(labels of item i | state)``, ``(..., N, S)``.
        chain: with the same leading axes, or none.
        data: whose ``chain_starts`` say where chains begin.
    """
    log_likelihoods = chain.joined(log_likelihoods)
    start, moves, lead = _leading(log_likelihoods, chain)
    if _compiled(log_likelihoods, start, moves):
        logs = log_likelihoods.contiguous()
        first, (N, S) = data.chain_starts.numpy(), logs.shape[-2:]
        from crowdppl.kernels import markov  # here: slow to import

        out = SmoothedChains(
            logs.new_empty(*lead, N), torch.empty_like(logs), logs.new_zeros(*lead, S, S), logs.new_zeros(*lead, S)
        )
        parts = [value.reshape(-1, *value.shape[len(lead) :]) for value in (logs, start, moves, *out)]
        for one in zip(*parts, strict=True):
            markov.smoothing()(first, *(value.contiguous().numpy() for value in one))
        return out
    log_likelihood, filtered, steps = _filter(log_likelihoods, start, moves, data)
    with torch.no_grad():
        return _backward(log_likelihoods, log_likelihood, filtered, steps, moves, data)


def draw_states(log_likelihoods: Tensor, chain: Chain, data: Annotations) -> Tensor:
    """Draw the states of all chains from their posterior, ``(..., N)`` int64; arguments as of :func:`smooth`.

    Draws with the same parameters, whose leading axis is expanded from one, share a forward pass where it is compiled.
    """
    if chain.observed is not None and chain.observed.dim() == 2 and _repeated(log_likelihoods):
        log_likelihoods = chain.joined(log_likelihoods[0]).expand(log_likelihoods.shape)
    else:
        log_likelihoods = chain.joined(log_likelihoods)
    start, moves, lead = _leading(log_likelihoods, chain)
    N, S = log_likelihoods.shape[-2:]
    uniform = torch.rand(*lead, N, dtype=log_likelihoods.dtype, device=log_likelihoods.device)
    path = torch.zeros(*lead, N, dtype=torch.int64, device=uniform.device)
    if _compiled(log_likelihoods, start, moves):
        from crowdppl.kernels import markov  # here: slow to import

        given = (log_likelihoods, start, moves)
        if len(lead) == 1 and all(map(_repeated, given)):
            parts = [[value[0]] for value in given] + [[uniform], [path]]
        else:
            parts = [list(value.reshape(-1, *value.shape[len(lead) :])) for value in given]
            parts += [list(value.view(-1, 1, N)) for value in (uniform, path)]
        first = data.chain_starts.numpy()
        for one in zip(*parts, strict=True):
            markov.drawing()(first, *(value.contiguous().numpy() for value in one))
        return path
    _, filtered, steps = _filter(log_likelihoods, start, moves, data)
    for t in range(len(steps) - 1, -1, -1):
        weight = filtered[..., steps[t], :]
        ahead = len(steps[t + 1]) if t + 1 < len(steps) else 0
        if ahead:
            after = path[..., steps[t + 1]]  # (..., B)
            into = moves.mT.unsqueeze(-3).expand(*lead, ahead, S, S)
            chosen = into.gather(-2, after[..., None, None].expand(*after.shape, 1, S)).squeeze(-2)
            weight = torch.cat([weight[..., :ahead, :] + chosen, weight[..., ahead:, :]], -2)
        below = weight.softmax(-1).cumsum(-1)
        drawn = (below < uniform[..., steps[t]].unsqueeze(-1) * below[..., -1:]).sum(-1)
        path[..., steps[t]] = drawn.clamp(max=S - 1)
    return path


def read_draws(
    log_likelihoods: Tensor, tempered: Tensor, chain: Chain, data: Annotations, row: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return log-probabilities of labels ``(D, N)``, see :class:`SmoothedChains`, and drawn states ``(D, N)`` int16.

    Compiled, for up to ``TOGETHER`` draws of the parameters of data on the CPU in float64.

    Args:
        log_likelihoods: ``log p(labels of item i | state)`` with what is known of the state, ``(D, U, S)``, of distinct items.
        tempered: likewise, where states are drawn.
        chain: one for each draw.
        data: whose ``chain_starts`` say where chains begin.
        row: the distinct item that stands for each, ``(N,)``; where there is none all items are distinct.
    """
    from crowdppl.kernels import markov_draws  # here: slow to import

    D, _, S = log_likelihoods.shape
    N, first, lanes = data.N, data.chain_starts, markov_draws.LANES
    # Lanes without a draw have one state.
    start, moves = log_likelihoods.new_zeros(lanes, S), log_likelihoods.new_zeros(lanes, S, S)
    start[:, 0], moves[:, :, 0] = 1.0, 1.0
    start[:D], moves[:D] = chain.start.exp(), chain.moves.exp()
    likelihood, path = torch.empty(D, N, dtype=torch.float64), torch.empty(D, N, dtype=torch.int16)
    uniform, begin = torch.rand(lanes, N, dtype=torch.float64), 0
    room, drawn = torch.empty(lanes, N, dtype=torch.float64), torch.empty(lanes, N, dtype=torch.int16)
    while begin < len(first) - 1:
        # Some chains at a time, whose likelihoods stay in the caches; where items share them, all.
        end = len(first) - 1
        if row is None:
            end = int(torch.searchsorted(first, first[begin] + BLOCK // (lanes * S), right=True)) - 1
            end = max(end, begin + 1)
        some = slice(int(first[begin]), int(first[end])) if row is None else slice(None)
        both = []
        for logs in (log_likelihoods[:, some], tempered[:, some]):
            both.append(logs.new_ones(*logs.shape[1:], lanes))
            both[-1][..., :D] = logs.transpose(0, 1).exp().mT
        of = torch.arange(N) - (some.start or 0) if row is None else row
        values = (first[begin : end + 1], of, *both, start, moves, uniform, room, drawn)
        markov_draws.reading()(*(value.contiguous().numpy() for value in values))
        begin = end
    torch.log(room[:D], out=likelihood)
    path.copy_(drawn[:D])
    for d in likelihood.isnan().any(-1).nonzero().flatten().tolist():  # in logarithms
        plain, own = (logs[d] if row is None else logs[d][row] for logs in (log_likelihoods, tempered))
        one = Chain(chain.start[d], chain.moves[d])
        likelihood[d], path[d] = smooth(plain, one, data).log_likelihood, draw_states(own, one, data)
    return likelihood, path


def span_probabilities(
    log_likelihoods: Tensor, chain: Chain, data: Annotations, spans: Tensor, first: Tensor, within: Tensor
) -> Tensor:
    """Return the posterior probability that each span is there: neither shorter nor longer, and of its type, ``(M,)``.

    Args:
        log_likelihoods: as of :func:`smooth`, ``(N, S)``.
        chain: likewise, without leading axes.
        data: likewise.
        spans: first item, item after the last, and type of each, ``(M, 3)`` int64.
        first: whether a state begins a span of a type whatever is before it, ``(types, S)``.
        within: whether a state continues one, ``(types, S)``; where a state is not after one of its type it begins a span, too.
    """
    if len(spans) == 0:
        return log_likelihoods.new_zeros(0)
    log_likelihoods, chain = chain.joined(log_likelihoods), chain._replace(observed=None)
    if _compiled(log_likelihoods, chain.start, chain.moves):
        from crowdppl.kernels import markov  # here: slow to import

        order = spans[:, 0].argsort(stable=True)
        parts = (
            log_likelihoods,
            chain.start,
            chain.moves,
            spans[order],
            first,
            within,
            log_likelihoods.new_empty(len(spans)),
        )
        arrays = [part.contiguous().numpy() for part in parts]
        markov.spanning()(data.chain_starts.numpy(), *arrays)
        out = torch.from_numpy(arrays[-1])
        if not bool(out.isnan().any()):
            return out[order.argsort()]
    log_likelihood, filtered, _ = _filter(log_likelihoods, chain.start, chain.moves, data)
    like = log_likelihoods - log_likelihood.unsqueeze(-1)  # on the scale of the filter
    # log p(labels that follow | state), on the same scale.
    ahead = smooth(log_likelihoods, chain, data).probability.log() - filtered
    ahead = torch.where(filtered > -torch.inf, ahead, -torch.inf)
    begins = torch.zeros(data.N + 1, dtype=torch.bool, device=spans.device).index_fill(0, data.chain_starts, True)
    start, end, kind = spans.unbind(-1)
    first, within = first[kind], within[kind]  # (M, S)
    inside = first | within
    # The first token: any state of the type that does not continue the token before.
    before = filtered[(start - 1).clamp(min=0)].masked_fill(inside, -torch.inf)
    fresh = torch.logsumexp(before.unsqueeze(-1) + chain.moves, -2)
    fresh = torch.where(begins[start].unsqueeze(-1), chain.start, fresh) + like[start]
    now = torch.where(within, fresh, -torch.inf)
    now = torch.where(first, filtered[start], now)
    for step in range(1, int((end - start).max())):
        item = start + step
        on = (item < end).unsqueeze(-1)
        item = item.clamp(max=data.N - 1)
        moved = torch.logsumexp(now.unsqueeze(-1) + chain.moves, -2) + like[item]
        now = torch.where(on, moved.masked_fill(~within, -torch.inf), now)
    # The token after it does not continue it.
    after = end.clamp(max=data.N - 1)
    left = (like[after] + ahead[after]).masked_fill(within, -torch.inf)  # (M, S)
    left = torch.logsumexp(chain.moves + left.unsqueeze(-2), -1)
    left = torch.where(begins[end].unsqueeze(-1), 0.0, left)
    return torch.logsumexp(now + left, -1).exp()


def marginals(chain: Chain, data: Annotations) -> Tensor:
    """Return the probability of the states of each item before any label is seen, ``(..., N, S)``."""
    if chain.observed is not None:
        return smooth(torch.zeros_like(chain.observed), chain, data).probability
    each, place = _by_place(chain, data)
    return each[..., place, :]


def prevalence(chain: Chain, data: Annotations) -> Tensor:
    """Return the mean of :func:`marginals` over all items, ``(..., S)``."""
    if chain.observed is not None:
        return marginals(chain, data).mean(-2)
    each, place = _by_place(chain, data)
    share = torch.bincount(place, minlength=each.shape[-2]).to(each.dtype) / max(1, data.N)
    return (each * share.unsqueeze(-1)).sum(-2)


def _by_place(chain: Chain, data: Annotations) -> tuple[Tensor, Tensor]:
    """Return the probability of the states at each place of a chain, ``(..., T, S)``, and the place of each item."""
    first = data.chain_starts
    length = first.diff()
    moves = chain.moves.softmax(-1)  # given that no impossible pair occurs next
    now, each = chain.start.softmax(-1), []
    for _ in range(max(1, int(length.max()) if len(length) else 0)):
        each.append(now)
        now = (now.unsqueeze(-2) @ moves).squeeze(-2)
    place = torch.arange(data.N, device=first.device) - first[:-1].repeat_interleave(length)
    return torch.stack(each, -2), place


def _repeated(values: Tensor) -> bool:
    """Tell whether the leading axis is expanded from one."""
    return values.stride(0) == 0


def _leading(log_likelihoods: Tensor, chain: Chain) -> tuple[Tensor, Tensor, torch.Size]:
    """Return start and moves with the leading axes of the likelihoods, and these."""
    lead = log_likelihoods.shape[:-2]
    return chain.start.expand(*lead, -1), chain.moves.expand(*lead, -1, -1), lead


def _compiled(*values: Tensor) -> bool:
    """Tell whether the compiled pass serves these values."""
    here = all(value.device.type == "cpu" and value.dtype == torch.float64 for value in values)
    here = here and not any(map(is_mapped, values))
    return here and not (torch.is_grad_enabled() and any(value.requires_grad for value in values))


def _steps(data: Annotations) -> list[Tensor]:
    """Return the items at each place of the chains, the longest chains first, so that those that end are the last."""
    first = data.chain_starts
    length = first.diff()
    order = length.argsort(descending=True, stable=True)
    begin, length = first[:-1][order], length[order]
    longer = length.bincount().flip(0).cumsum(0).flip(0)[1:].tolist()  # how many chains have each place
    return [begin[:count] + t for t, count in enumerate(longer)]


def _filter(logs: Tensor, start: Tensor, moves: Tensor, data: Annotations) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Return log_likelihood ``(..., N)`` and log-probabilities of states given labels up to their own item, ``(..., N, S)``."""
    steps = _steps(data)
    parts, alphas, alpha = [], [], logs[..., :0, :]
    for t, items in enumerate(steps):
        if t == 0:
            predicted = start.unsqueeze(-2)
        else:
            before = alpha[..., : len(items), :].unsqueeze(-1)
            predicted = torch.logsumexp(before + moves.unsqueeze(-3), -2)
        joint = predicted + logs[..., items, :]
        log_likelihood = torch.logsumexp(joint, -1)
        alpha = joint - log_likelihood.unsqueeze(-1)
        parts.append(log_likelihood)
        alphas.append(alpha)
    if not steps:
        return logs.sum(-1), logs, steps
    back = torch.cat(steps).argsort()
    return torch.cat(parts, -1)[..., back], torch.cat(alphas, -2)[..., back, :], steps


def _backward(
    logs: Tensor, log_likelihood: Tensor, filtered: Tensor, steps: list[Tensor], moves: Tensor, data: Annotations
) -> SmoothedChains:
    """Return the posterior of the states, given what :func:`_filter` returns."""
    probability = filtered.detach().exp()
    pairs = torch.zeros_like(moves)
    ahead = filtered.new_zeros(())
    for t in range(len(steps) - 2, -1, -1):
        items, after = steps[t][: len(steps[t + 1])], steps[t + 1]
        # log p(labels from the next item on | state there), relative to what is expected of them.
        beta = torch.zeros_like(filtered[..., after, :])
        if t + 2 < len(steps):
            beta[..., : len(steps[t + 2]), :] = ahead
        beta = beta + logs[..., after, :] - log_likelihood[..., after].unsqueeze(-1)
        joint = (filtered[..., items, :].unsqueeze(-1) + moves.unsqueeze(-3) + beta.unsqueeze(-2)).exp()
        pairs += joint.sum(-3)
        probability[..., items, :] = joint.sum(-1)
        ahead = torch.logsumexp(moves.unsqueeze(-3) + beta.unsqueeze(-2), -1)
    starts = probability[..., data.chain_starts[:-1], :].sum(-2)
    return SmoothedChains(log_likelihood, probability, pairs, starts)
