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


class Form:
    """A function in one of its forms, called without checks of distributions' arguments, which look at values.

    Args:
        function: of stacked arguments.
        recorded: whether it is a list of operations.
    """

    def __init__(self, function: Function, recorded: bool = False):
        self.function, self.recorded = function, recorded

    def __call__(self, *stacked: Tensor) -> tuple[Tensor, ...]:
        """Return stacked results."""
        with pyro.validation_enabled(False):
            return self.function(*stacked)


def batched(one: Function, first: Sequence[Tensor], other: Sequence[Tensor], *, compiled: bool) -> Form:
    """Return a function of stacked arguments ``(C, ...)`` with stacked results, in its fastest form that is right.

    Args:
        one: of arguments without the leading axis; it draws no random numbers.
        first: stacked arguments, at which operations are recorded.
        other: further ones, at which results are compared.
        compiled: whether to record operations, which takes a second: for hundreds of calls.
    """
    each, mapped = in_turn(one), torch.vmap(one)
    with pyro.validation_enabled(False):
        try:
            expected = [each(*first), each(*other)]
        except FAULTS:  # at a draw from the prior, where nothing can be compared
            return Form(each)
        recording: Callable[[], Function] = partial(_recorded, mapped, first)
        for make, recorded in [(recording, True)] * compiled + [(lambda: mapped, False)]:
            form = _attempt(make, (first, other), expected)
            if form is not None:
                return Form(form, recorded)
    return Form(each)


def in_turn(one: Function) -> Function:
    """Return a function of stacked arguments that computes one set after the other."""

    def each(*stacked: Tensor) -> tuple[Tensor, ...]:
        parts = [one(*arguments) for arguments in zip(*stacked, strict=True)]
        return tuple(torch.stack(values) for values in zip(*parts, strict=True))

    return each


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


# Operations of whose first argument nothing but the shape matters, and those that may leave a tensor as it is.
FILLED = {torch.ops.aten.new_zeros.default, torch.ops.aten.new_ones.default, torch.ops.aten.new_full.default} | {
    torch.ops.aten.zeros_like.default,
    torch.ops.aten.ones_like.default,
    torch.ops.aten.full_like.default,
}
SHAPED = {torch.ops.aten.view.default, torch.ops.aten.expand.default, torch.ops.aten.slice.Tensor}


class _Constants(Interpreter):
    """Values of the nodes that do not depend on the arguments, and nodes that return their argument as it is."""

    def __init__(self, graph: GraphModule):
        super().__init__(graph)
        self.values: dict[Node, Any] = {}
        self.unchanged: set[Node] = set()

    def run_node(self, n: Node) -> Any:
        """Run a node and keep its value, if that is a constant."""
        value = super().run_node(n)
        if n.op == "get_attr" or (
            n.op == "call_function" and (n.target in FILLED or all(part in self.values for part in n.all_input_nodes))
        ):
            self.values[n] = value
        elif n.target in SHAPED and n.args and value.shape == n.args[0].meta["shape"]:  # type: ignore[union-attr]
            self.unchanged.add(n)
        if isinstance(value, Tensor):
            n.meta["shape"] = value.shape
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
        elif node in constants.unchanged or node.target in (
            torch.ops.aten.detach.default,
            torch.ops.aten.alias.default,
        ):
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
