"""Maxima of LANES numbers at a time: the same step of LANES problems, side by side in vector registers.

The compiler does not vectorise loops over so few numbers, since it cannot prove that the arrays are disjoint.
These functions are therefore written in LLVM's intermediate representation, on vectors of LANES. Indices
count numbers, not groups of LANES; there are no bounds checks.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

LANES = 8
"""Float64 in a register of AVX-512, or in two of AVX2."""

SHIFT = 3
"""LANES = 2^SHIFT."""

_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_WORD = ir.IntType(64)


def _pointer(context, builder, kind, array):
    return context.make_array(kind)(context, builder, array).data


def _place(builder, data, index):
    return builder.bitcast(builder.gep(data, [index]), _VECTOR.as_pointer())


def _load(builder, place):
    loaded = builder.load(place)
    loaded.align = 8
    return loaded


def _store(builder, vector, place):
    builder.store(vector, place).align = 8


def _maximum(builder, one, other):
    return builder.select(builder.fcmp_ordered(">", one, other), one, other)


@intrinsic
def raise_to(typing, table, goal, source):  # noqa: ARG001 - numba's signature, here and below
    """table(goal) = max(table(goal), table(source))."""

    def generate(context, builder, signature, arguments):
        data = _pointer(context, builder, signature.args[0], arguments[0])
        first, second = (_place(builder, data, at) for at in arguments[1:])
        _store(builder, _maximum(builder, _load(builder, second), _load(builder, first)), first)
        return context.get_dummy_value()

    return types.void(table, types.uint64, types.uint64), generate


@intrinsic
def raise_to_splits(typing, table, goal, base, largest, rest):  # noqa: ARG001
    """table(goal) = max over the part ⊊ rest of table(base + (largest ∪ part)) + table(base + (rest ∖ part)).

    `base`, `largest` and `rest` count groups of LANES, `goal` counts numbers. The maximum includes the old
    table(goal); `rest` is not empty.
    """

    def generate(context, builder, signature, arguments):
        data = _pointer(context, builder, signature.args[0], arguments[0])
        goal, base, largest, rest = arguments[1:]
        shift = _WORD(SHIFT)
        left = builder.add(base, largest)
        start = _load(builder, _place(builder, data, goal))
        before = builder.block
        loop, after = builder.append_basic_block("splits"), builder.append_basic_block("splits.after")
        builder.branch(loop)
        builder.position_at_end(loop)
        last, best = builder.phi(_WORD), builder.phi(_VECTOR)
        part = builder.and_(builder.sub(last, _WORD(1)), rest)
        one = _place(builder, data, builder.shl(builder.add(left, part), shift))
        two = _place(builder, data, builder.shl(builder.add(base, builder.xor(rest, part)), shift))
        higher = _maximum(builder, builder.fadd(_load(builder, one), _load(builder, two)), best)
        last.add_incoming(rest, before)
        last.add_incoming(part, loop)
        best.add_incoming(start, before)
        best.add_incoming(higher, loop)
        builder.cbranch(builder.icmp_unsigned("==", part, _WORD(0)), after, loop)
        builder.position_at_end(after)
        _store(builder, higher, _place(builder, data, goal))
        return context.get_dummy_value()

    return types.void(table, types.uint64, types.uint64, types.uint64, types.uint64), generate
