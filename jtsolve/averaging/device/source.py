"""CUDA C++ of the recurrence of `averaging.sums` where c = s for all sets that may be separators.

*Layers.* For each size of R: B (`count_full`), F (`connect`), L (`attach`, a launch a variable), P and X
(`divide`). Then L° replaces L (`leave_proper`), and `divide` forms P° from it in the place of X.

*Tables.* F, L and P are laid out as in `core.cuda`. X and B lie by W = S ∪ R, since B sums within one W; of
the sets S ⊆ W of at most w members, renamed within W, in increasing order:

    cell(S,R) = rows[|W|] + rank(W) · (number of such S) + rank(S).

*Numbers* are the words of `kernels.words`. A sum is scaled to the largest exponent met so far, in one pass.
"""

from __future__ import annotations

from jtsolve.core.cuda import TABLES, TEAMS

_KERNEL = 'extern "C" __global__ void __launch_bounds__(32 * TEAMS)'
_GIVEN = """u64 *F, u64 *L, u64 *P, u64 *X, u64 *whole, const u32 *sets, const int *position,
        const int *order, const Weights *weights, const Shape *t, const Row *rows, int count, int skipped"""

_TEXT = r"""
typedef unsigned long long u64;
struct Shape {  // whole numbers, filled by `run`
    i64 n, width, bits, base, lowest;
    i64 start[34];              // where the sets of a size begin in `sets`
    i64 tables[32];             // where the tables of the S of a size begin in F, L and P
    i64 rows[32], row[32];      // where the rows of the W of a size begin in X, and their length
    i64 required[32];           // the required neighbours of each variable
};
struct Weights {  // by set: c = clique · 2^clique_exponent, 1/s likewise; 1/s = 0 of no separator
    double clique, inverse;
    i64 clique_exponent, inverse_exponent;
};

#define FRACTION 0xfffffffffffffll

__device__ __forceinline__ double power(i64 exponent) {
    return exponent < -1022 ? 0.0 : __longlong_as_double(exponent + 1023 << 52);
}

// The fraction of a word, times 2^exponent.
__device__ __forceinline__ double scaled(u64 word, i64 bits, i64 exponent) {
    if (exponent < -1022) return 0.0;
    return __longlong_as_double(exponent + 1023 << 52 | (i64)(word << (52 - bits)) & FRACTION);
}

struct Number { double value; i64 exponent; };

__device__ __forceinline__ Number number_of(u64 word, const Shape *t) {
    if (!word) return {0.0, 0};
    return {scaled(word, t->bits, 0), (i64)(word >> t->bits) + t->base};
}

__device__ __forceinline__ Number product(Number one, double factor, i64 exponent) {
    return {one.value * factor, one.exponent + exponent};
}

__device__ __forceinline__ Number sum(Number one, Number other) {
    if (one.value == 0.0) return other;
    if (other.value == 0.0) return one;
    const i64 top = max(one.exponent, other.exponent);
    return {one.value * power(one.exponent - top) + other.value * power(other.exponent - top), top};
}

// The word of a number that is not negative; 0 below 2^lowest, where only products with 0 are.
__device__ __forceinline__ u64 pack(Number number, const Shape *t) {
    if (!(number.value > 0.0)) return 0;
    const i64 all = __double_as_longlong(number.value), exponent = number.exponent + (all >> 52) - 1023;
    if (exponent < t->lowest) return 0;
    const i64 dropped = 52 - t->bits, half = dropped ? 1ll << (dropped - 1) : 0;
    return ((u64)(exponent - t->base) << t->bits) + (((all & FRACTION) + half) >> dropped);
}

// A sum of terms, scaled to the largest code of one.
struct Sum {
    double value;
    i64 code;
    __device__ __forceinline__ void add(u64 word, i64 term_code, double factor, i64 bits) {
        if (term_code > code) {
            value *= power(code - term_code);
            code = term_code;
        }
        value += scaled(word, bits, term_code - code) * factor;
    }
};

__device__ __forceinline__ i64 place(const int *order, const Shape *t, u32 own) {
    return t->width < t->n ? order[own] : own;
}

// Where X(S,R) and B(S,R) are, R renamed within V∖S; `missing`: required neighbours of R outside S ∪ R.
__device__ __forceinline__ i64 across(const int *position, const int *order, const Shape *t, u32 S, u32 R,
                                      u32 &missing) {
    u32 whole = S, own = 0;
    int members = 0, outside = 0;
    for (int v = 0; v < t->n; v++) {
        const u32 in_s = S >> v & 1, in_r = (in_s ^ 1) & R >> outside;
        own |= in_s << members;
        whole |= in_r << v;
        missing |= in_r ? t->required[v] : 0;
        members += in_s | in_r;
        outside += in_s ^ 1;
    }
    missing &= ~whole;
    return t->rows[members] + (position[whole] - t->start[members]) * t->row[members] + place(order, t, own);
}

// B(S,R) = Σ_{∅≠D⊆R} X(S∪D, R∖D); a thread has one W = S ∪ R, a class those of a size and an |R|.
@KERNEL@
count_full(@GIVEN@) {
    int block = blockIdx.x + skipped;
    const Row row = row_of(rows, count, block);
    const i64 i = (i64)block * (32 * TEAMS) + threadIdx.x, bits = t->bits;
    if (i >= (i64)row.groups * row.parts) return;
    u64 *const here = X + t->rows[row.c] + i / row.parts * t->row[row.c];
    const u32 R = sets[t->start[row.u] + i % row.parts], S = R ^ ((1u << row.c) - 1);
    Sum total = {0.0, 0};
    for (u32 part = R; part; part = (part - 1) & R) {
        if (__popc(S | part) > t->width) continue;
        const u64 x = here[place(order, t, S | part)];
        total.add(x & ~1ull, x >> bits, x & 1 ? -1.0 : 1.0, bits);  // the last bit is the sign
    }
    const u64 word = pack({total.value, total.code + t->base}, t) & ~1ull;
    here[place(order, t, S)] = word;
    if (row.c == t->n) whole[S] = word;
}

// The S and R of a thread, and where the table of S begins; a block has a group of S and some R of a size.
struct Cell { u32 S, R; int shift; i64 table; bool exists; };

__device__ __forceinline__ Cell cell_of(const u32 *sets, const Shape *t, const Row &row, int block) {
    const int shift = row.c ? 5 : 0, lane = threadIdx.x & ((1 << shift) - 1), k = (int)t->n - row.c;
    const i64 i = (i64)(block / row.groups) * (32 * TEAMS >> shift) + (threadIdx.x >> shift);
    const i64 rank = ((i64)(block % row.groups) << shift) + lane;
    if (i >= row.parts || rank >= t->start[row.c + 1] - t->start[row.c]) return {0, 0, 0, 0, false};
    return {sets[t->start[row.c] + rank], sets[t->start[row.u] + i], shift,
            t->tables[row.c] + table_at(rank, row.c, k), true};
}

#define LAYER int block = blockIdx.x + skipped; \
    const Row row = row_of(rows, count, block); \
    const Cell cell = cell_of(sets, t, row, block); \
    if (!cell.exists) return; \
    const u32 S = cell.S, R = cell.R; \
    const i64 at = cell.table + ((i64)R << cell.shift);

// F(S,R) = B(S,R) − Σ_{∅≠K⊊R} F(S,K) P(S,R∖K), 0 as B if a required neighbour is missing; L begins as F/s.
@KERNEL@
connect(@GIVEN@) {
    LAYER
    u64 word = 0;
    if (R && row.c < t->width) {
        u32 missing = 0;
        const i64 here = across(position, order, t, S, R, missing);
        if (missing) X[here] = 0;
        const u64 B = X[here];
        const u64 *const f = F + cell.table, *const p = P + cell.table;
        const i64 bits = t->bits, top = B >> bits;
        double taken = 0.0;
        for (u32 part = (R - 1) & R; part; part = (part - 1) & R) {
            const u64 x = f[(i64)part << cell.shift], y = p[(i64)(R ^ part) << cell.shift];
            const i64 code = (i64)(x >> bits) + (i64)(y >> bits) + t->base;
            taken += scaled(x, bits, code - top) * scaled(y, bits, 0);
        }
        const double all = scaled(B, bits, 0);
        if (B && all - taken > all * 1e-15)  // smaller values are rounding errors
            word = pack({all - taken, top + t->base}, t);
    }
    if (row.c < t->width) F[at] = word;
    const Weights own = weights[S];
    L[at] = pack(product(number_of(word, t), own.inverse, own.inverse_exponent), t);
}

// L(S,R) += L(S∖v,R) for S ∋ v: after all v, L sums F(Q,R)/s(Q) over the Q ⊆ S.
@KERNEL@
attach(@GIVEN@, int v) {
    LAYER
    if (!(S >> v & 1)) return;
    const int less = row.c - 1;
    const i64 rank = position[S ^ 1u << v] - t->start[less];
    const i64 table = t->tables[less] + table_at(rank, less, (int)t->n - less);
    const i64 other = table + ((i64)with_zero(R, v - __popc(below(S, v))) << (less ? 5 : 0));
    L[at] = pack(sum(number_of(L[at], t), number_of(L[other], t)), t);
}

// P(S,R) = Σ_{K⊆R, K∋min R} L(S,K) P(S,R∖K), and X(S,R) = c(S) P(S,R) − B(S,R) if `nets`.
@KERNEL@
divide(@GIVEN@, int nets) {
    LAYER
    u64 word = pack({1.0, 0}, t);
    if (R) {
        const u64 *const l = L + cell.table, *const p = P + cell.table;
        const u32 low = R & (0u - R), rest = R ^ low;
        const i64 bits = t->bits;
        Sum total = {0.0, 0};
        u32 part = rest;
        do {
            const u64 x = l[(i64)(part | low) << cell.shift], y = p[(i64)(rest ^ part) << cell.shift];
            total.add(x, (i64)(x >> bits) + (i64)(y >> bits), scaled(y, bits, 0), bits);
            part = (part - 1) & rest;
        } while (part != rest);
        word = pack({total.value, total.code + 2 * t->base}, t);
    }
    P[at] = word;
    if (!nets) return;
    u32 missing = 0;
    const i64 here = across(position, order, t, S, R, missing);
    const Weights own = weights[S];
    Number net = product(number_of(word, t), own.clique, own.clique_exponent);
    if (own.inverse != 0.0 && row.c < t->width) {  // else no component is full: B = 0
        const Number full = number_of(X[here], t);
        net = sum(net, {-full.value, full.exponent});
    }
    X[here] = net.value < 0.0 ? pack({-net.value, net.exponent}, t) | 1 : pack(net, t) & ~1ull;
}

// L°(S,R) = L(S,R) − F(S,R)/s(S); the rest of equal numbers is rounding.
@KERNEL@
leave_proper(@GIVEN@) {
    LAYER
    if (row.c == t->width) return;
    const Weights own = weights[S];
    const Number all = number_of(L[at], t), full = number_of(F[at], t);
    const Number left = sum(all, product({-full.value, full.exponent}, own.inverse, own.inverse_exponent));
    L[at] = all.value > 0.0 && left.value * power(left.exponent - all.exponent) > 1e-13 ? pack(left, t) : 0;
}
"""


SOURCE = f"#define TEAMS {TEAMS}\n{TABLES}" + _TEXT.replace("@KERNEL@", _KERNEL).replace("@GIVEN@", _GIVEN)
"""All kernels."""
