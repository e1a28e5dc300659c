"""A function of one set of parameters, computed for several at once: what models that take one set at a time need for chains.

The program of a user's model takes one set. It is mapped over sets by ``torch.vmap``; where many calls follow, Pyro's handlers,
the mapping and the gradients run once, and what is called from then on is the list of their operations on tensors
(``torch.fx``, then TorchScript). Whatever form is taken, it has been compared with the function itself, set by set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyro
import torch
from torch import Tensor
from torch.fx import GraphModule, Interpreter, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.jit._trace import TracerWarning

from crowdppl.errors import CrowdpplError
from crowdppl.isolation import without_warnings
from crowdppl.model.program import FAULTS

Function = Callable[..., tuple[Tensor, ...]]
# Agreement of a form with the function itself, relative to the largest number.
AGREEMENT = {torch.float64: 1e-9, torch.float32: 1e-3}


def batched(one: Function, first: Sequence[Tensor], other: Sequence[Tensor], *, compiled: bool) -> Function:
    """Return a function of stacked arguments ``(C, ...)`` with stacked results, in its fastest form that is right.

    Args:
        one: of arguments without the leading axis; it draws no random numbers.
        first: stacked arguments, at which operations are recorded.
        other: further ones, at which results are compared.
        compiled: whether to record operations, which takes a second: for hundreds of calls.
    """

    def in_turn(*stacked: Tensor) -> tuple[Tensor, ...]:
        parts = [one(*arguments) for arguments in zip(*stacked, strict=True)]
        return tuple(torch.stack(values) for values in zip(*parts, strict=True))

    mapped = torch.vmap(one)
    with pyro.validation_enabled(False):
        try:
            expected = [in_turn(*first), in_turn(*other)]
        except FAULTS:  # at a draw from the prior, where nothing can be compared
            return _quietly(in_turn)
        for make in [partial(_recorded, mapped, first)] * compiled + [lambda: mapped]:
            form = _attempt(make, (first, other), expected)
            if form is not None:
                return _quietly(form)
    return _quietly(in_turn)


def recorded(one: Function, first: Sequence[Tensor], other: Sequence[Tensor]) -> Function | None:
    """Return the operations of a function as one that runs without Python; ``None`` where they cannot be recorded.

    Args:
        one: as :func:`batched` takes it, for one set of arguments.
        first: arguments at which operations are recorded.
        other: further ones, at which results are compared.
    """
    with pyro.validation_enabled(False):
        try:
            expected = [one(*first), one(*other)]
        except FAULTS:  # at a draw from the prior, where nothing can be compared
            return None
        return _attempt(partial(_recorded, one, first), (first, other), expected)


def _attempt(
    make: Callable[[], Function], places: Sequence[Sequence[Tensor]], expected: Sequence[tuple[Tensor, ...]]
) -> Function | None:
    """Return a form of the function, if it can be had and gives the expected results."""
    try:
        form = make()
        results = [form(*place) for place in places]
    except (CrowdpplError, *FAULTS):
        return None
    return form if all(map(_agree, results, expected)) else None


def _agree(results: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> bool:
    def close(one: Tensor, other: Tensor) -> bool:
        if one.shape != other.shape:
            return False
        finite = torch.isfinite(other)
        size = float(other[finite].abs().max()) if bool(finite.any()) else 0.0
        return torch.allclose(one, other, rtol=0.0, atol=AGREEMENT[other.dtype] * (1 + size), equal_nan=True)

    return all(map(close, results, expected))


def _quietly(form: Function) -> Function:
    """Return the function without checks of distributions' arguments, which look at values."""

    def call(*stacked: Tensor) -> tuple[Tensor, ...]:
        with pyro.validation_enabled(False):
            return form(*stacked)

    return call


# ---------------------------------------------------------------------- operations on tensors, recorded


def _recorded(function: Function, example: Sequence[Tensor]) -> Function:
    """Return the operations that a function takes, which is then neither Python nor Pyro."""
    # Without operations in place, what does not depend on the arguments can be computed once, and what is the same once.
    graph = make_fx(torch.func.functionalize(function))(*example)
    _simplify(graph, example)
    with (
        torch.no_grad(),
        without_warnings(message=".*torch.jit.*", category=DeprecationWarning),
        without_warnings(category=TracerWarning),
    ):
        traced: Function = torch.jit.trace(graph, tuple(example), check_trace=False)
    return traced


class _Constants(Interpreter):
    """Values of the nodes that do not depend on the arguments."""

    def __init__(self, graph: GraphModule):
        super().__init__(graph)
        self.values: dict[Node, Any] = {}

    def run_node(self, n: Node) -> Any:
        """Run a node and keep its value, if that is a constant."""
        value = super().run_node(n)
        if n.op == "get_attr" or (n.op == "call_function" and all(part in self.values for part in n.all_input_nodes)):
            self.values[n] = value
        return value


def _simplify(module: GraphModule, example: Sequence[Tensor]) -> None:
    """Compute constants once, leave copies for gradients out, and take equal operations on the same tensors once."""
    constants = _Constants(module)
    constants.run(*example)
    graph, seen = module.graph, dict[Any, Node]()
    for n, node in enumerate(list(graph.nodes)):
        if node.op != "call_function":
            continue
        value = constants.values.get(node)
        if isinstance(value, Tensor):
            module.register_buffer(f"constant_{n}", value)
            with graph.inserting_before(node):
                node.replace_all_uses_with(graph.get_attr(f"constant_{n}"))
        elif node.target in (torch.ops.aten.detach.default, torch.ops.aten.alias.default):
            node.replace_all_uses_with(node.args[0])
        elif (same := seen.setdefault(_described(node), node)) is not node:
            node.replace_all_uses_with(same)
    graph.eliminate_dead_code()
    module.recompile()


def _described(node: Node) -> Any:
    """Return what an operation computes, such that equal ones are equal: its name and arguments."""
    return node.target, _argument(node.args), _argument(tuple(sorted(node.kwargs.items())))


def _argument(value: Any) -> Any:
    if isinstance(value, Node):
        return value
    if isinstance(value, (list, tuple)):
        return tuple(map(_argument, value))
    return type(value), repr(value)
