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

`NUMBERS` has the number types of the tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jtsolve.core.cuda import TABLES

if TYPE_CHECKING:
    from jtsolve.backends.dp.device.plan import Tile
    from jtsolve.backends.dp.plan import Precision

_ONE_ARRAY = """
typedef T *Cells;
__device__ __forceinline__ Cells open_cells(void *memory, i64 cells) { return (Cells)memory; }
__device__ __forceinline__ void put(Cells cells, i64 at, T value) { cells[at] = value; }
"""

NUMBERS: dict[Precision, str] = {
    "int32": """
typedef int T;
#define LOWEST (-(1 << 30))
#define THRESHOLD (-(1 << 29))
__device__ __forceinline__ T raised(T best, T one, T other) { return __viaddmax_s32(one, other, best); }
"""
    + _ONE_ARRAY,
    "int64": """
typedef i64 T;
#define LOWEST (-(1ll << 62))
#define THRESHOLD (-(1ll << 61))
__device__ __forceinline__ T raised(T best, T one, T other) { return max(best, one + other); }
"""
    + _ONE_ARRAY,
    "float64": """
typedef double T;
#define LOWEST __longlong_as_double((i64)0xfff0000000000000ull)
#define THRESHOLD -1.7e308
__device__ __forceinline__ T raised(T best, T one, T other) {
    const T sum = one + other;
    return sum > best ? sum : best;
}
"""
    + _ONE_ARRAY,
    # Six bytes a number: first the upper 32 bits of all, then the lower 16.
    "int48": """
typedef i64 T;
#define LOWEST (-(1ll << 46))
#define THRESHOLD (-(1ll << 45))
__device__ __forceinline__ T raised(T best, T one, T other) { return max(best, one + other); }
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
""",
}

_COMMON = r"""
struct Shape {  // whole numbers, filled by `run`
    i64 m, width, known, cells, tiled;
    i64 start[34];     // where the sets of a size begin in `sets`
    i64 base[2][32];   // where the tables of the C with rho and c begin
};
__device__ __forceinline__ u32 without_bit(u32 set, int v) { return set >> (v + 1) << v | below(set, v); }

// The best sum of two parts of U, the largest member of U in one of them.
__device__ __forceinline__ T best_split(Cells table, u32 U, T best) {
    const u32 top = 1u << (31 - __clz(U)), rest = U ^ top;
    for (u32 part = rest; part;) {
        part = (part - 1) & rest;
        best = raised(best, table[(i64)(top | part) << 5], table[(i64)(rest ^ part) << 5]);
    }
    return best;
}

extern "C" __global__ void clear_tables(void *memory, i64 all, i64 first, i64 cells, int lane_bits, int k) {
    const Cells table = open_cells(memory, all) + first;
    for (i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x; at < cells; at += (i64)gridDim.x * blockDim.x)
        put(table, at, (at >> lane_bits & ((1ll << k) - 1)) ? LOWEST : (T)0);
}

extern "C" __global__ void gather_cells(void *memory, i64 all, const i64 *cells, T *values, i64 count) {
    const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) values[i] = open_cells(memory, all)[cells[i]];
}
"""

_FINISH = r"""
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
        T best = LOWEST;
        for (int rho = 0; rho < 1 + (spare > 0); rho++) {  // g(C,U) is a candidate for C with the root
            const Cells here = g + (shape->base[rho][c] + table);
            if (c + rho > 1) {
                if (k < shape->tiled || U >> LOW == 0)
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
"""

_SPLITS = r"""
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
    const Share &share = SHARES[threadIdx.x >> 5];
    const int j = row.u - __popc(high) - __popc(share.middle);
    if ((high | share.middle) == 0 || j < 0 || j > LOW) {  // nothing to do, but in step
        for (int i = high ? 1 << (__popc(high) - 1) : 1; i; i--) __syncthreads();
        for (int turn = 1; turn < TURNS; turn++) __syncthreads();
        return;
    }
    switch (j) {
@CASES@
    }
}
"""


def warp_shares(tile: Tile) -> list[tuple[int, int, list[int]]]:
    """Returns the share of each warp: a middle part, its turn among the warps of this part, right parts."""
    found = []
    for middle in reversed(range(1 << tile.middle)):
        rights = [part for part in range(1 << tile.middle) if part & ~middle == 0]
        turns = range(-(-len(rights) // tile.serial))
        found += [(middle, turn, rights[turn * tile.serial :][: tile.serial]) for turn in turns]
    return found


def _slice(tile: Tile, size: int) -> str:
    """Returns the function for low parts x of a size: max over r ⊆ x of left(r) + right(x∖r), unrolled."""
    parts = [part for part in range(1 << tile.low) if part.bit_count() <= size]
    goals = [part for part in parts if part.bit_count() == size]
    sums = "\n".join(
        f"            {{ const T left = one[{r} * 32]; "
        + " ".join(f"best{x} = raised(best{x}, left, other{x ^ r});" for x in goals if r & ~x == 0)
        + " }"
        for r in parts
    )
    return f"""
__device__ __forceinline__ void slice{size}(Cells table, u32 high, const Share &share) {{
    T {", ".join(f"best{x} = LOWEST" for x in goals)};
    const u32 rest = high ? high ^ 1u << (31 - __clz(high)) : 0;
    u32 part = rest;
    do {{
        for (int i = 0; i < share.count; i++) {{
            const u32 right = share.rights[i];
            const Cells one = table + ((i64)((high ^ part) << MIDDLE | (share.middle ^ right)) << (LOW + 5));
            const Cells two = table + ((i64)(part << MIDDLE | right) << (LOW + 5));
            const T {", ".join(f"other{x} = two[{x} * 32]" for x in parts)};
{sums}
        }}
        __syncthreads();
        part = (part - 1) & rest;
    }} while (part != rest);
    const Cells goal = table + ((i64)(high << MIDDLE | share.middle) << (LOW + 5));
    for (int turn = 0; turn < TURNS; turn++) {{
        if (turn) __syncthreads();
        if (turn != share.turn) continue;
        if (turn) {{ {" ".join(f"best{x} = max(best{x}, goal[{x} * 32]);" for x in goals)} }}
        {" ".join(f"put(goal, {x} * 32, best{x});" for x in goals)}
    }}
}}
"""


def source(precision: Precision, tile: Tile, most: int, teams: int, chunk: int) -> str:
    """Returns the text of all kernels.

    Args:
        precision: of the numbers.
        tile: see `Tile`.
        most: variables for which there is room.
        teams: warps of a block of `finish`.
        chunk: sets U of a block of `finish`.
    """
    warps = warp_shares(tile)
    listed = ",\n    ".join(
        f"{{{middle}, {turn}, {len(rights)}, {{{str(rights)[1:-1]}}}}}" for middle, turn, rights in warps
    )
    sizes = {
        "MOST": most,
        "TEAMS": teams,
        "CHUNK": chunk,
        "LOW": tile.low,
        "MIDDLE": tile.middle,
        "WARPS": len(warps),
        "BLOCKS": tile.blocks,
        "TURNS": 1 + max(turn for _, turn, _ in warps),
    }
    head = "".join(f"#define {name} {value}\n" for name, value in sizes.items()) + TABLES
    table = f"struct Share {{ unsigned char middle, turn, count, rights[{tile.serial}]; }};\n"
    table += f"__constant__ Share SHARES[] = {{\n    {listed}}};\n"
    cases = "\n".join(
        f"        case {size}: slice{size}(table, high, share); break;" for size in range(tile.low + 1)
    )
    slices = "".join(_slice(tile, size) for size in range(tile.low + 1))
    splits = _SPLITS.replace("@CASES@", cases)
    return head + NUMBERS[precision] + _COMMON + table + slices + splits + _FINISH
