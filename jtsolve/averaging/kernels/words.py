"""Numbers of unlimited range in 64 bits, and sums of them over subsets, LANES problems at a time.

Weights of graphs span thousands of powers of ten, and their sums must keep small relative errors. A *word* is

    bits 63 … s: code, the binary exponent minus `base`;    bits s - 1 … 0: the fraction after the leading 1

where s ≤ 52 is chosen for each problem so that its exponents fit. The word 0 is the number 0: `base` is so
low that a product with it lies below every product of two others. Words compare as their numbers, and the
sum of two words is the word of their product, but for a carry from the fractions. One addition and one
maximum per term find the exponent of a sum, unless a bound is known; a second pass builds the scaled float64
of each factor from its bits. No logarithm is needed.

The loops are written in LLVM's intermediate language, as in `backends.dp.kernels.lanes`: numba does not
vectorise loops over so few numbers. Indices count groups of LANES words; nothing is checked.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from jtsolve.core.compiling import kernel

LANES = 8
"""Words in a register of AVX-512, or in two of AVX2."""

SHIFT = 3
"""LANES = 2^SHIFT."""

_WORD = ir.IntType(64)
_WORDS = ir.VectorType(_WORD, LANES)
_FLOATS = ir.VectorType(ir.DoubleType(), LANES)
_FRACTION = (1 << 52) - 1
_BIAS = 1023
_FRACTION_BITS = 52


def _splat(builder, value):
    first = builder.insert_element(ir.Constant(_WORDS, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(first, ir.Constant(_WORDS, ir.Undefined), zeros)


def _all(value):
    return ir.Constant(_WORDS, [value] * LANES)


def _place(builder, data, index, kind):
    at = builder.gep(data, [builder.shl(index, _WORD(SHIFT))])
    return builder.bitcast(at, kind.as_pointer())


def _load(builder, data, index):
    loaded = builder.load(_place(builder, data, index, _WORDS))
    loaded.align = 8
    return loaded


def _loop(builder, rest, start, body, name, first=None):
    """Runs body(part, carried) over the subsets of `rest`, from itself, or from `first`, down to ∅."""
    before = builder.block
    loop, after = builder.append_basic_block(name), builder.append_basic_block(name + ".after")
    builder.branch(loop)
    builder.position_at_end(loop)
    # part ← (part − 1) & rest runs through the subsets in decreasing order.
    part, carried = builder.phi(_WORD), builder.phi(start.type)
    following = body(part, carried)
    part.add_incoming(rest if first is None else first, before)
    part.add_incoming(builder.and_(builder.sub(part, _WORD(1)), rest), loop)
    carried.add_incoming(start, before)
    carried.add_incoming(following, loop)
    builder.cbranch(builder.icmp_unsigned("==", part, _WORD(0)), after, loop)
    builder.position_at_end(after)
    return following


def _larger(builder, one, other):
    return builder.select(builder.icmp_signed(">", one, other), one, other)


def _scaled(builder, word, code, fraction_shift):
    """Returns the float64 with the fraction of a word and the biased exponent `code`, which is at least 1."""
    fraction = builder.and_(builder.shl(word, fraction_shift), _all(_FRACTION))
    return builder.bitcast(builder.or_(builder.shl(code, _all(_FRACTION_BITS)), fraction), _FLOATS)


def _add(builder, total, product):
    return builder.fadd(total, product, flags=("contract",))


def _finish(builder, total, reference, data):
    """Stores LANES sums, and the codes to which they are scaled."""
    sums, codes = data
    builder.store(total, builder.bitcast(sums, _FLOATS.as_pointer())).align = 8
    builder.store(reference, builder.bitcast(codes, _WORDS.as_pointer())).align = 8


def _data(context, builder, kind, array):
    return context.make_array(kind)(context, builder, array).data


def _products(context, builder, signature, arguments, reference=None):
    """Generates Σ over part ⊆ rest of one(left + part) · other(right + (rest ∖ part)), scaled to 2^reference.

    Without a reference, it is the highest code of a product. Returns the sums and the reference.
    """
    kinds = signature.args
    first, second = (_data(context, builder, kinds[i], arguments[i]) for i in (0, 1))
    left, right, rest, bits = arguments[2:6]
    shift = _splat(builder, bits)
    up = _splat(builder, builder.sub(_WORD(_FRACTION_BITS), bits))

    def pair(part):
        remainder = builder.xor(rest, part)
        return (
            _load(builder, first, builder.add(left, part)),
            _load(builder, second, builder.add(right, remainder)),
        )

    # First pass: words compare as numbers, and the sum of two is the word of the product but for a carry.
    def highest(part, best):
        x, y = pair(part)
        return _larger(builder, builder.add(x, y), best)

    if reference is None:
        reference = builder.lshr(_loop(builder, rest, _all(0), highest, "highest"), shift)
    scale = builder.sub(reference, _all(_BIAS))

    def step(part, total):
        x, y = pair(part)
        code = builder.add(builder.lshr(x, shift), builder.lshr(y, shift))
        # One factor carries the exponent of the product; far below the reference, it is the smallest.
        code = _larger(builder, builder.sub(code, scale), _all(1))
        product = builder.fmul(
            _scaled(builder, x, code, up), _scaled(builder, y, _all(_BIAS), up), flags=("contract",)
        )
        return _add(builder, total, product)

    return _loop(builder, rest, ir.Constant(_FLOATS, [0.0] * LANES), step, "products"), reference


@intrinsic
def sum_products(typing, one, other, left, right, rest, bits, sums, codes):  # noqa: ARG001 - numba's signature
    """Sums · 2^codes = Σ over part ⊆ rest of one(left + part) · other(right + (rest ∖ part)), in each lane.

    `bits` is s; the codes of products are sums of two codes.
    """

    def generate(context, builder, signature, arguments):
        total, reference = _products(context, builder, signature, arguments)
        data = tuple(_data(context, builder, signature.args[i], arguments[i]) for i in (6, 7))
        _finish(builder, total, reference, data)
        return context.get_dummy_value()

    number = types.uint64
    return types.void(one, other, number, number, number, number, sums, codes), generate


@intrinsic
def sum_products_below(typing, one, other, left, right, rest, bits, sums, codes):  # noqa: ARG001
    """`sum_products` in one pass: `codes` are given, and no sum far exceeds 2^codes."""

    def generate(context, builder, signature, arguments):
        sums, codes = (_data(context, builder, signature.args[i], arguments[i]) for i in (6, 7))
        reference = _load(builder, codes, _WORD(0))
        total, _ = _products(context, builder, signature, arguments, reference)
        _finish(builder, total, reference, (sums, codes))
        return context.get_dummy_value()

    number = types.uint64
    return types.void(one, other, number, number, number, number, sums, codes), generate


@intrinsic
def sum_listed(typing, table, start, positions, count, bits, sums, codes):  # noqa: ARG001
    """Sums · 2^codes = Σ over i < count of table(start + positions[i]), in each lane; words with signs.

    The last position is the first term.
    """

    def generate(context, builder, signature, arguments):
        kinds = signature.args
        data, listed = (_data(context, builder, kinds[i], arguments[i]) for i in (0, 2))
        start, count, bits = arguments[1], arguments[3], arguments[4]
        shift = _splat(builder, bits)
        up = _splat(builder, builder.sub(_WORD(_FRACTION_BITS), bits))

        last = builder.sub(count, _WORD(1))

        def word_at(i):
            position = builder.sext(builder.load(builder.gep(listed, [i])), _WORD)
            return _load(builder, data, builder.add(start, position))

        def highest(i, best):
            return _larger(builder, word_at(i), best)

        reference = builder.lshr(_loop(builder, _WORD(-1), _all(0), highest, "highest", last), shift)
        scale = builder.sub(reference, _all(_BIAS))

        def step(i, total):
            word = word_at(i)
            code = _larger(builder, builder.sub(builder.lshr(word, shift), scale), _all(1))
            # The last bit of a word with a sign becomes the sign bit of the float64.
            plain = builder.bitcast(_scaled(builder, builder.and_(word, _all(-2)), code, up), _WORDS)
            signed = builder.xor(plain, builder.shl(word, _all(63)))
            return _add(builder, total, builder.bitcast(signed, _FLOATS))

        total = _loop(builder, _WORD(-1), ir.Constant(_FLOATS, [0.0] * LANES), step, "terms", last)
        out = tuple(_data(context, builder, kinds[i], arguments[i]) for i in (5, 6))
        _finish(builder, total, reference, out)
        return context.get_dummy_value()

    number = types.uint64
    return types.void(table, number, positions, number, number, sums, codes), generate


@kernel
def power(exponent):
    """Returns 2^exponent for an exponent of at most 1023; 0 below -1022."""
    return np.int64((exponent + 1023) << 52).view(np.float64) if exponent >= -1022 else 0.0


@kernel
def to_word(number, exponent, bits, base, lowest):
    """Returns the word of number · 2^exponent, which is not negative; 0 if it is below 2^lowest.

    Only products with 0 are smaller.
    """
    if not number > 0.0:
        return 0
    # The exponent of a float64 is its high bits, and is added to the code; the fraction is rounded to s bits.
    float_bits = np.float64(number).view(np.int64)
    exponent += (float_bits >> 52) - 1023
    if exponent < lowest:
        return 0
    code = exponent - base
    dropped = 52 - bits
    fraction = float_bits & 4503599627370495
    if dropped > 0:
        # A carry increases the code, as it should.
        fraction = (fraction + (1 << (dropped - 1))) >> dropped
    return (code << bits) + fraction


@kernel
def mantissa(word, bits):
    """Returns the number of a word divided by 2^exponent: from 1 to 2, or 0."""
    if word == 0:
        return 0.0
    return np.int64((1023 << 52) | ((word << (52 - bits)) & 4503599627370495)).view(np.float64)


@kernel
def exponent_of(word, bits, base):
    """Returns the exponent of a word."""
    return (word >> bits) + base


@kernel
def add(one, first, other, second):
    """Returns one · 2^first + other · 2^second as a number, which is not normalised, and an exponent."""
    if one == 0.0:
        return other, second
    if other == 0.0:
        return one, first
    # Scaled to the larger exponent: the smaller number may vanish, but nothing overflows.
    if first >= second:
        return one + other * power(second - first), first
    return one * power(first - second) + other, second
