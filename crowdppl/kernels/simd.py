"""Rows of a table as SIMD vectors: a type for numba, and its operations, for compiled passes.

Numba executes a loop over four or ten states number by number, and keeps intermediate results in memory. A :class:`Row` is a
vector of float64 values, several of which the processor takes with each instruction. Where the number of states is not known in
advance the same functions take an array of float64 and change it, so that a pass is written once for both; callers continue with
the returned row: ``row = multiplied(row, table, where)``. Numbers are consecutive in one-dimensional arrays of either precision,
from ``where`` on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model

DOUBLE = ir.DoubleType()


class Row(types.Type):  # type: ignore[misc]
    """A vector of ``lanes`` float64 values.

    For LLVM its length is the next power of two, with zeros at the end (as long as it is scaled by finite numbers): vectors of
    other lengths it splits into single numbers between parts of a loop.
    """

    def __init__(self, lanes: int):
        self.lanes, self.held = lanes, 1 << (lanes - 1).bit_length()
        super().__init__(name=f"Row({lanes})")

    @property
    def vector(self) -> ir.VectorType:
        """The type for LLVM."""
        return ir.VectorType(DOUBLE, self.held)

    def filled(self, builder: Any, numbers: Any) -> Any:
        """Append zeros to the numbers of an array."""
        # The first number of the second vector, a zero, for each position at the end.
        return _resized(builder, numbers, [min(place, self.lanes) for place in range(self.held)])

    def cut(self, builder: Any, numbers: Any) -> Any:
        """Return the numbers without the zeros at the end."""
        return _resized(builder, numbers, list(range(self.lanes)))


@register_model(Row)
class _RowModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Row):
        super().__init__(manager, kind, kind.vector)


def _resized(builder: Any, numbers: Any, places: list[int]) -> Any:
    """Return a vector of the numbers at these positions of another one, which zeros follow."""
    if len(places) == numbers.type.count:
        return numbers
    kind = ir.VectorType(ir.IntType(32), len(places))
    return builder.shuffle_vector(numbers, ir.Constant(numbers.type, None), ir.Constant(kind, places))


def _there(context: Any, builder: Any, lanes: int, kind: Any, array: Any, where: Any) -> tuple[Any, int]:
    """Return the address of ``lanes`` numbers of an array and its alignment: a row may begin at any number."""
    data = context.make_array(kind)(context, builder, array).data
    numbers = ir.VectorType(context.get_value_type(kind.dtype), lanes)
    return builder.bitcast(builder.gep(data, [where]), numbers.as_pointer()), kind.dtype.bitwidth // 8


def _with_those_there(change: Callable[[Any, Any, Any], Any]) -> Any:
    """Return the intrinsic ``(row, array, where) -> row`` that applies ``change(builder, row, numbers of the array)``."""

    @intrinsic  # type: ignore[untyped-decorator]
    def changed(typing: Any, row: Any, array: Any, where: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            address, multiple = _there(context, builder, row.lanes, array, *arguments[1:])
            those = builder.load(address, align=multiple)
            if array.dtype != types.float64:
                those = builder.fpext(those, ir.VectorType(DOUBLE, row.lanes))
            return change(builder, arguments[0], row.filled(builder, those))

        return row(row, array, types.uintp), generate

    return changed


_set = _with_those_there(lambda builder, row, those: those)
_multiplied = _with_those_there(lambda builder, row, those: builder.fmul(row, those))
_added = _with_those_there(lambda builder, row, those: builder.fadd(row, those))


@intrinsic  # type: ignore[untyped-decorator]
def _write(typing: Any, row: Any, array: Any, where: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address, multiple = _there(context, builder, row.lanes, array, *arguments[1:])
        numbers = row.cut(builder, arguments[0])
        if array.dtype != types.float64:
            numbers = builder.fptrunc(numbers, address.type.pointee)
        builder.store(numbers, address, align=multiple)
        return context.get_dummy_value()

    return types.void(row, array, types.uintp), generate


@intrinsic  # type: ignore[untyped-decorator]
def _scaled(typing: Any, row: Any, by: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        factors = ir.Constant(row.vector, ir.Undefined)
        for lane in range(row.held):
            factors = builder.insert_element(factors, arguments[1], ir.IntType(32)(lane))
        return builder.fmul(arguments[0], factors)

    return row(row, types.float64), generate


@intrinsic  # type: ignore[untyped-decorator]
def _total(typing: Any, row: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(DOUBLE, [DOUBLE, row.vector])
        sums = cgutils.get_or_insert_function(builder.module, kind, f"llvm.vector.reduce.fadd.v{row.held}f64")
        # In the order with the fewest steps.
        return builder.call(sums, [DOUBLE(-0.0), arguments[0]], fastmath=("reassoc",))

    return types.float64(row), generate


@intrinsic  # type: ignore[untyped-decorator]
def summed(typing: Any, row: Any, other: Any) -> Any:
    """Return the sum of two rows with the same number of lanes."""
    return row(row, other), lambda context, builder, signature, arguments: builder.fadd(*arguments)


@intrinsic(prefer_literal=True)  # type: ignore[untyped-decorator]
def _zeros(typing: Any, lanes: Any) -> Any:
    if not isinstance(lanes, types.IntegerLiteral):
        return None
    row = Row(lanes.literal_value)
    return row(lanes), lambda context, builder, signature, arguments: ir.Constant(row.vector, None)


def _set_in_memory(row: Any, array: Any, where: Any) -> Any:
    for s in range(row.shape[0]):
        row[s] = array[where + np.uint64(s)]
    return row


def _multiplied_in_memory(row: Any, array: Any, where: Any) -> Any:
    for s in range(row.shape[0]):
        row[s] *= array[where + np.uint64(s)]
    return row


def _added_in_memory(row: Any, array: Any, where: Any) -> Any:
    for s in range(row.shape[0]):
        row[s] += array[where + np.uint64(s)]
    return row


def _write_from_memory(row: Any, array: Any, where: Any) -> Any:
    for s in range(row.shape[0]):
        array[where + np.uint64(s)] = row[s]


def _add_from_memory(row: Any, array: Any, where: Any) -> Any:
    for s in range(row.shape[0]):
        array[where + np.uint64(s)] += row[s]


def _scaled_in_memory(row: Any, by: Any) -> Any:
    for s in range(row.shape[0]):
        row[s] *= by
    return row


def _total_in_memory(row: Any) -> Any:
    total = 0.0
    for s in range(row.shape[0]):
        total += row[s]
    return total


def _either(in_vector: Callable[..., Any], in_memory: Callable[..., Any], inline: str = "always") -> Any:
    """Return a function for compiled passes with one implementation for a :class:`Row` and another for an array.

    Functions that change arrays are inlined before optimisation, which then sees that the arrays do not overlap.
    """

    def called(*arguments: Any) -> Any:
        raise NotImplementedError("this is for compiled passes")

    @overload(called, strict=False, inline=inline)  # type: ignore[untyped-decorator]
    def _(row: Any, *rest: Any) -> Any:
        return in_vector if isinstance(row, Row) else in_memory

    return called


# (row, array, where) -> row: the numbers there, or the row times or plus these.
set_to = _either(lambda row, array, where: _set(row, array, where), _set_in_memory)
multiplied = _either(lambda row, array, where: _multiplied(row, array, where), _multiplied_in_memory)
added = _either(lambda row, array, where: _added(row, array, where), _added_in_memory)
# (row, array, where): the row is written there, or added to the numbers there.
write = _either(lambda row, array, where: _write(row, array, where), _write_from_memory)
add_to = _either(lambda row, array, where: _write(_added(row, array, where), array, where), _add_from_memory)
# (row, number) -> row; row -> number.
scaled = _either(lambda row, by: _scaled(row, by), _scaled_in_memory)
total = _either(lambda row: _total(row), _total_in_memory, inline="never")


def zeros(lanes: Any, states: Any) -> Any:
    """Return a row of zeros with ``lanes`` lanes, a constant, or if that is 0 an array of zeros for ``states``."""
    raise NotImplementedError("this is for compiled passes")


@overload(zeros, prefer_literal=True, strict=False)  # type: ignore[untyped-decorator]
def _(lanes: Any, states: Any) -> Any:
    if not isinstance(lanes, types.IntegerLiteral):
        return None
    known = lanes.literal_value
    return (lambda lanes, states: _zeros(known)) if known else (lambda lanes, states: np.zeros(states))
