"""CUDA C++ of the recurrence of `kernels.recurrence` on one table, and the generator of its unrolled part.

    g(C,U) = max of   s(C∪v) − s(C) + g(C∪v, U∖v)   v ∈ U, |C| < w      `finish`
                      g(C∖c, U)                     c ∈ C               `finish`
                      g(C,R) + g(C, U∖R)            R ⊊ U, |C| > 1      `splits`, or `finish` where C is large

*Tables.* As in `core.cuda`; a C of c of the m variables without the root has a table for each ρ, and
k = m − c.

*Splits.* U = (high, middle, low). A thread holds the sums of all low parts of one size j in registers, so |U|
is exact and the order within a tile is irrelevant. A warp has one middle part and some of its splits; the
warps of a block process the splits of the high part in step, so that the rows that they share are in the
cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jtsolve.backends.dp.device.plan import CHUNK, MOST
from jtsolve.core.cuda import TABLES, TEAMS

if TYPE_CHECKING:
    from jtsolve.backends.dp.device.plan import Tile
    from jtsolve.backends.dp.plan import Precision

_NUMBERS: dict[Precision, tuple[str, str, str]] = {
    "int32": ("int", "(-(1 << 30))", "(-(1 << 29))"),
    "int64": ("i64", "(-(1ll << 62))", "(-(1ll << 61))"),
    "int48": ("i64", "(-(1ll << 46))", "(-(1ll << 45))"),
    "float64": ("double", "__longlong_as_double((i64)0xfff0000000000000ull)", "-1.7e308"),
}
"""The type of numbers, the one for -inf, and the least above it."""

_ONE_ARRAY = """
typedef T *Cells;
__device__ __forceinline__ Cells open_cells(void *memory, i64 cells) { return (Cells)memory; }
__device__ __forceinline__ void put(Cells cells, i64 at, T value) { cells[at] = value; }
"""

_TWO_ARRAYS = """  // int48: the upper 32 bits of all numbers, then the lower 16
struct Cells {
    int *upper;
    unsigned short *lower;
    __device__ __forceinline__ T operator[](i64 at) const { return (T)upper[at] * 65536 + lower[at]; }
    __device__ __forceinline__ Cells operator+(i64 by) const { return {upper + by, lower + by}; }
};
__device__ __forceinline__ Cells open_cells(void *memory, i64 cells) {
    return {(int *)memory, (unsigned short *)((int *)memory + cells)};
}
__device__ __forceinline__ void put(Cells cells, i64 at, T value) {
    cells.upper[at] = (int)(value >> 16);
    cells.lower[at] = (unsigned short)(value & 65535);
}
"""

_KERNELS = r"""
struct Shape {  // whole numbers, filled by `run`
    i64 m, width, known, cells;
    i64 start[34];     // where the sets of a size begin in `sets`
    i64 base[2][32];   // where the tables of the C with rho and c begin
};
__device__ __forceinline__ u32 without_bit(u32 set, int v) { return set >> (v + 1) << v | below(set, v); }

__device__ __forceinline__ T raised(T best, T one, T other) {
    const T sum = one + other;
    return sum > best ? sum : best;
}

// The best sum of two parts of U, the largest member of U in one of them.
__device__ __forceinline__ T best_split(Cells table, u32 U, T best) {
    const u32 top = 1u << (31 - __clz(U)), rest = U ^ top;
    for (u32 part = rest; part;) {
        part = (part - 1) & rest;
        best = raised(best, table[(i64)(top | part) << 5], table[(i64)(rest ^ part) << 5]);
    }
    return best;
}

// A block has one group of C and a chunk of the U of one size; a warp processes one U at a time.
extern "C" __global__ void __launch_bounds__(32 * TEAMS)
finish(void *memory, const u32 *sets, const int *position, const T *score, const Shape *shape,
       const Row *rows, int count, int skipped) {
    __shared__ i64 grown[MOST][32], shrunk[MOST][32];
    __shared__ T gain[2][MOST][32];
    __shared__ unsigned char place[MOST][32];
    int block = blockIdx.x + skipped;
    const Row row = row_of(rows, count, block);
    const int c = row.c, m = shape->m, k = m - c;
    const int spare = (int)shape->width - c;  // members that C may gain
    const int lane_bits = c ? 5 : 0, less_bits = c > 1 ? 5 : 0;
    const int lane = threadIdx.x & ((1 << lane_bits) - 1);
    const int team = threadIdx.x >> lane_bits, teams = 32 * TEAMS >> lane_bits;
    const int group = block % row.groups, chunk = block / row.groups;
    const i64 *const start = shape->start, known = shape->known;
    // Lanes behind the last set compute it again.
    const i64 rank = min(((i64)group << lane_bits) + lane, start[c + 1] - start[c] - 1);
    const i64 own = start[c] + rank;
    const u32 C = sets[own];
    for (int e = team; e < m; e += teams) {
        const int inside = __popc(below(C, e)), outside = e - inside;
        const int other = position[C ^ 1u << e];
        if (C >> e & 1) {
            place[inside][lane] = outside;
            shrunk[inside][lane] = table_at(other - start[c - 1], c - 1, k + 1);
        } else if (spare > 0) {
            grown[outside][lane] = table_at(other - start[c + 1], c + 1, k - 1);
            for (int rho = 0; rho < min(spare, 2); rho++) {
                const T s = score[rho * known + other];
                gain[rho][outside][lane] = s < THRESHOLD ? LOWEST : s - score[rho * known + own];
            }
        }
    }
    __syncthreads();
    const Cells g = open_cells(memory, shape->cells);
    const i64 table = ((i64)group << (k + lane_bits)) + lane;
    const int end = min((chunk + 1) * CHUNK, row.parts);
    for (int i = chunk * CHUNK + team; i < end; i += teams) {
        const u32 U = sets[start[row.u] + i];
        T best = U ? LOWEST : (T)0;
        for (int rho = 0; rho < 1 + (spare > 0); rho++) {  // g(C,U) is a candidate for C with the root
            const Cells here = g + (shape->base[rho][c] + table);
            if (c + rho > 1 && U) {
                if (k < LOW + MIDDLE || U >> LOW == 0)
                    best = best_split(here, U, best);
                else
                    best = max(best, here[(i64)U << lane_bits]);
            }
            if (spare > rho) {
                const Cells more = g + shape->base[rho][c + 1];
                for (u32 rest = U; rest; rest &= rest - 1) {
                    const int v = 31 - __clz(rest & (0u - rest));
                    const i64 at = grown[v][lane] + ((i64)without_bit(U, v) << 5);
                    best = raised(best, more[at], gain[rho][v][lane]);
                }
            }
            for (int j = 0; j < c; j++) {
                const Cells less = g + shape->base[rho][c - 1];
                const i64 at = shrunk[j][lane] + ((i64)with_zero(U, place[j][lane]) << less_bits);
                best = max(best, less[at]);
            }
            best = best < THRESHOLD ? LOWEST : best;
            put(here, (i64)U << lane_bits, best);
        }
    }
}

constexpr __device__ int members(int x) { return x ? 1 + members(x & (x - 1)) : 0; }
// Low parts x of J members: the maximum over r of left(r) + right(x without r).
template <int J>
__device__ __forceinline__ void slice(Cells table, u32 high, u32 middle, u32 begin, int count, int own) {
    T best[1 << LOW], other[1 << LOW];
#pragma unroll
    for (int x = 0; x < 1 << LOW; x++) best[x] = LOWEST;
    const u32 rest = high ? high ^ 1u << (31 - __clz(high)) : 0;
    u32 part = rest;
    do {
        u32 right = begin;
        for (int i = 0; i < count; i++, right = (right - middle) & middle) {
            const Cells one = table + ((i64)((high ^ part) << MIDDLE | (middle ^ right)) << (LOW + 5));
            const Cells two = table + ((i64)(part << MIDDLE | right) << (LOW + 5));
#pragma unroll
            for (int x = 0; x < 1 << LOW; x++)
                if (members(x) <= J) other[x] = two[x * 32];
#pragma unroll
            for (int r = 0; r < 1 << LOW; r++) {
                if (members(r) > J) continue;
                const T left = one[r * 32];
#pragma unroll
                for (int x = 0; x < 1 << LOW; x++)
                    if (members(x) == J && !(r & ~x)) best[x] = raised(best[x], left, other[x ^ r]);
            }
        }
        __syncthreads();
        part = (part - 1) & rest;
    } while (part != rest);
    const Cells goal = table + ((i64)(high << MIDDLE | middle) << (LOW + 5));
    for (int turn = 0; turn < TURNS; turn++) {
        if (turn) __syncthreads();
        if (turn != own) continue;
#pragma unroll
        for (int x = 0; x < 1 << LOW; x++) {
            if (members(x) != J) continue;
            if (turn) best[x] = max(best[x], goal[x * 32]);
            put(goal, x * 32, best[x]);
        }
    }
}

template <int J>
__device__ __forceinline__ void slices(int j, Cells table, u32 high, u32 middle, u32 begin, int count,
                                       int own) {
    if (j == J)
        slice<J>(table, high, middle, begin, count, own);
    else if constexpr (J < LOW)
        slices<J + 1>(j, table, high, middle, begin, count, own);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, BLOCKS)
splits(void *memory, const u32 *sets, const int *position, const T *score, const Shape *shape,
       const Row *rows, int count, int skipped) {
    int block = blockIdx.x + skipped;
    const Row row = row_of(rows, count, block);
    const int c = row.c, k = (int)shape->m - c;
    const u32 high = block % row.parts;
    block /= row.parts;
    const int group = block % row.groups, rho = block / row.groups + (c == 1);
    const i64 begin = shape->base[rho][c] + ((i64)group << (k + 5)) + (threadIdx.x & 31);
    const Cells table = open_cells(memory, shape->cells) + begin;
    // The middle part of the warp, its turn among the warps of this part, and the first of its SERIAL splits.
    int turn = threadIdx.x >> 5;
    u32 middle = (1 << MIDDLE) - 1, first = 0;
    for (int turns; turn >= (turns = max(1, (1 << __popc(middle)) / SERIAL)); middle--) turn -= turns;
    for (int i = turn * SERIAL; i; i--) first = (first - middle) & middle;
    const int j = row.u - __popc(high) - __popc(middle);
    if ((high | middle) == 0 || j < 0 || j > LOW) {  // nothing to do, but in step
        for (int i = high ? 1 << (__popc(high) - 1) : 1; i; i--) __syncthreads();
        for (int i = 1; i < TURNS; i++) __syncthreads();
        return;
    }
    slices<0>(j, table, high, middle, first, min(SERIAL, 1 << __popc(middle)), turn);
}
"""


def source(precision: Precision, tile: Tile) -> str:
    """Returns the text of all kernels for a tile; see `Tile`."""
    number, lowest, threshold = _NUMBERS[precision]
    sizes = {
        "LOWEST": lowest,
        "THRESHOLD": threshold,
        "MOST": MOST,
        "TEAMS": TEAMS,
        "CHUNK": CHUNK,
        "LOW": tile.low,
        "MIDDLE": tile.middle,
        "SERIAL": tile.serial,
        "TURNS": max(1, (1 << tile.middle) // tile.serial),
        "WARPS": tile.warps,
        "BLOCKS": tile.blocks,
    }
    head = "".join(f"#define {name} {value}\n" for name, value in sizes.items()) + TABLES
    return f"{head}typedef {number} T;" + (_TWO_ARRAYS if precision == "int48" else _ONE_ARRAY) + _KERNELS
