"""Allocation and copies of arrays within kernels.

numba compiles a function for each kind of `np.empty(…)`, three for `np.zeros(…)` or `np.full(…)`: 0.1 s
together; and `target[:] = source` with the general rules of broadcasting and their messages: 1.5 s.
"""

from __future__ import annotations

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj

from jtsolve.core.compiling import kernel


def _allocation(shape, dtype, *value, zero=False):
    """Returns the signature and the code of an allocation, and of writing zeros or a value."""
    array = types.Array(dtype.dtype, shape.count if isinstance(shape, types.BaseTuple) else 1, "C")

    def generate(context, builder, signature, arguments):
        # There is no public way.
        parsed = arrayobj._parse_empty_args(context, builder, signature, arguments)  # noqa: SLF001
        made = arrayobj._empty_nd_impl(context, builder, *parsed)  # noqa: SLF001
        if zero:
            cgutils.memset(builder, made.data, builder.mul(made.itemsize, made.nitems), 0)
        if value:
            constant = context.cast(builder, arguments[2], value[0], array.dtype)
            with cgutils.for_range(builder, made.nitems) as loop:
                place = cgutils.gep_inbounds(builder, made.data, loop.index)
                context.pack_value(builder, array.dtype, constant, place)
        return made._getvalue()  # noqa: SLF001

    return array(shape, dtype, *value), generate


@intrinsic
def empty(typing, shape, dtype):  # noqa: ARG001 - numba's signature
    """As `np.empty`."""
    return _allocation(shape, dtype)


@intrinsic
def zeros(typing, shape, dtype):  # noqa: ARG001 - numba's signature
    """As `np.zeros`."""
    return _allocation(shape, dtype, zero=True)


@intrinsic
def filled(typing, shape, dtype, value):  # noqa: ARG001 - numba's signature
    """As `np.full`."""
    return _allocation(shape, dtype, value)


@kernel(allocates=False)
def copy_onto(target, source):
    """Copies a vector to the beginning of another one."""
    for i in range(source.size):
        target[i] = source[i]
