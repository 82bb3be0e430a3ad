"""FindConsistentTreeDPGreedy while the threshold rises: which components (S, Q) are decomposable.

For every separator S, the variables outside S fall into components Q. (S, Q) is *decomposable* if, for some
x ∈ Q, decomposable components (S_i, Q_i) with S_i ⊂ S∪x, Q_i ⊂ Q∖x are disjoint and cover Q∖x. A clique C
is a *root* if decomposable components with S_i ⊂ C are disjoint and cover all variables outside C.

Here S_i is the clique S∪x less one y ∈ S. When a component appears, ceases to be decomposable, becomes it or
vanishes, only the pairs (S', x') with S ⊂ S'∪x' can change: at most (n − k)·k of them. They are *dirty*, and
looked at again, the small components first. The greedy cover takes the largest component that fits.

Sets of variables are rows of 64-bit words; ranks of sets are colex, the rank of {a < b < c} is
C(a,1) + C(b,2) + C(c,3). All is kept in a few arrays of whole numbers, with columns that have names: the time
that the compiler takes grows with the number of arrays.

References:
    Chechetka and Guestrin, Efficient principled learning of thin junction trees, NIPS 2007 (Definition 8,
    Algorithm 4, section 5). Arnborg, Corneil and Proskurowski, Complexity of finding embeddings in a k-tree,
    SIAM J. Alg. Disc. Meth. 8, 1987.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from jtsolve.core.compiling import kernel

State = namedtuple(
    "State",
    [
        "nodes",  # (count, MEMBERS + k + n) int64: the separators in colex order; see below
        "cells",  # (count, m, MASK + 2·words or 4·words) int64: components, the largest first; see below
        "cliques",  # (C(n, k + 1), 4) int64: the sets of k + 1 variables in colex order; see below
        "forest",  # (count, m - 1, 2) int64: edges of the components, the weakest first
        "weights",  # (count, m - 1) float64: their strengths
        "heap",  # (count,) int64: separators, the one with the weakest edge first
        "heads",  # (m + 3,) int64: first members of the lists: by size, AGENDA, ROOT_AGENDA; END if empty
        "figures",  # (8,) int64; see below
        "threshold",  # (1,) float64: edges must be stronger
        "binomial",  # (n + 1, k + 3) int64: C(v, j)
    ],
)
"""The state of a search; m = n − k, and sets of variables take n // 64 + 1 words.

Columns of a separator: FIRST, the position of its first edge above the threshold; PARTS, the number of its
components; LINK; PERMITTED; from MEMBERS on its members, increasing; then, for every variable, the place of
its component, -1 in S. One that is not permitted has no components.

Columns of a component: SIZE; GOOD, whether it is decomposable; CELL_LINK; CHOICE, the x of its decomposition;
from MASK on its members, and the x that are dirty; if covers are exact, the x for which an exact cover is
known to exist, and those for which it is known not to.

Columns of a clique: ALLOWED; ROOT; CLIQUE_LINK; RULING on exact covers: 0 unknown, 1 there is one, 2 none.

A link is the next member of a list, END at its end, OUT in no list.
"""

FIRST, PARTS, LINK, PERMITTED, MEMBERS = range(5)
SIZE, GOOD, CELL_LINK, CHOICE, MASK = range(5)
ALLOWED, ROOT, CLIQUE_LINK, RULING = range(4)
END, OUT = -1, -2
AGENDA, ROOT_AGENDA = -2, -1
"""Places in `heads`, from its end: separators with dirty components; dirty cliques."""
ROOTS, HEAP, ASK, ASK_X, CHECKS, RAISED, SETTLING, EXACT = range(8)
"""Places in `figures`: number of roots, length of the heap, what is asked about (a component S·m + place and
x, or a clique and -1), checks of a cover, rises of the threshold, whether lists by size are worked on,
whether covers are exact."""

MORE, FOUND, NONE, EXHAUSTED, QUESTION = range(5)
"""What `advance` answers: call again; there is a root; there is none; none, and no edge is left; an exact
cover has to be looked for."""


@kernel
def rank_of(members, without, binomial):
    """Returns the colex rank of an increasing row of members less the one at position `without` (if any)."""
    rank, size = 0, 0
    for i in range(members.size):
        if i != without:
            size += 1
            rank += binomial[members[i], size]
    return rank


@kernel
def unrank(rank, binomial, out):
    """Writes the set of out.size members of that colex rank, increasing."""
    top = binomial.shape[0] - 1
    for size in range(out.size, 0, -1):
        while binomial[top, size] > rank:
            top -= 1
        out[size - 1] = top
        rank -= binomial[top, size]


@kernel
def insert(row, x, out):
    """Writes an increasing row with x added; returns the position of x."""
    place = 0
    while place < row.size and row[place] < x:
        out[place] = row[place]
        place += 1
    out[place] = x
    for i in range(place, row.size):
        out[i + 1] = row[i]
    return place


@kernel
def has(mask, v):
    """Tells whether v is in the mask."""
    return (mask[v >> 6] >> (v & 63)) & 1 != 0


@kernel
def put(mask, v):
    """Puts v into the mask."""
    mask[v >> 6] |= 1 << (v & 63)


@kernel
def take(mask, v):
    """Takes v out of the mask."""
    mask[v >> 6] &= ~(1 << (v & 63))


@kernel
def within(inner, outer):
    """Tells whether a mask is a subset of another."""
    outside = 0
    for w in range(inner.size):
        outside |= inner[w] & ~outer[w]
    return outside == 0


@kernel
def find(leader, v):
    """Returns the leader of v, and shortens the path to it."""
    while leader[v] != v:
        leader[v] = leader[leader[v]]
        v = leader[v]
    return v


@kernel
def split(state, index, cells):
    """Writes the components of a separator by its edges as cells, the largest first; returns how many."""
    n, m = state.binomial.shape[0] - 1, cells.shape[0]
    k = n - m
    leader = np.arange(n)
    for edge in range(state.nodes[index, FIRST], m - 1):
        u, v = state.forest[index, edge, 0], state.forest[index, edge, 1]
        leader[find(leader, u)] = find(leader, v)
    size = np.zeros(n, np.int64)
    for v in range(n):
        size[find(leader, v)] += 1
    for i in range(k):
        size[state.nodes[index, MEMBERS + i]] = 0
    start = np.zeros(m + 2, np.int64)  # where the components of a size begin
    for v in range(n):
        start[size[v]] += 1
    start[m + 1], start[0] = 0, 0
    for a in range(m, 0, -1):
        start[a] += start[a + 1]
    count = start[1]
    place = np.full(n, -1, np.int64)
    for v in range(n):
        root = find(leader, v)
        if size[root] > 0:
            if place[root] < 0:
                place[root] = start[size[root] + 1]
                start[size[root] + 1] += 1
                cells[place[root], SIZE] = size[root]
            put(cells[place[root], MASK:], v)
        state.nodes[index, MEMBERS + k + v] = place[root] if size[root] > 0 else -1
    return count


@kernel
def refresh(state, index):
    """Recomputes the components of a separator from its edges; tells the neighbours what vanished."""
    n, m = state.binomial.shape[0] - 1, state.cells.shape[1]
    words, base = n // 64 + 1, MEMBERS + n - m
    old_count = state.nodes[index, PARTS]
    old = state.cells[index].copy()
    was = state.nodes[index, base:].copy()
    cells = state.cells[index]
    cells[:, :] = 0
    cells[:, CELL_LINK] = OUT
    state.nodes[index, PARTS] = split(state, index, cells)
    any_dirty = False
    for v in range(n):
        place = state.nodes[index, base + v]
        if place < 0 or cells[place, CELL_LINK] != OUT:
            continue
        cells[place, CELL_LINK] = END  # a mark: this component is done
        former = was[v]
        same = former >= 0 and old[former, SIZE] == cells[place, SIZE]
        for w in range(MASK, MASK + words):
            if same and cells[place, w] != old[former, w]:
                same = False
        if same:
            cells[place] = old[former]
            cells[place, CELL_LINK] = END
            old[former, GOOD] = 0  # it did not vanish
        else:
            cells[place, MASK + words : MASK + 2 * words] = cells[place, MASK : MASK + words]
        for w in range(MASK + words, MASK + 2 * words):
            any_dirty = any_dirty or cells[place, w] != 0
    cells[:, CELL_LINK] = OUT
    if any_dirty:
        touch(state, index)
    for former in range(old_count):
        if old[former, GOOD]:
            tell(state, index, old[former, MASK : MASK + words])


@kernel
def touch(state, index):
    """Puts a separator on the agenda."""
    if state.nodes[index, LINK] == OUT:
        state.nodes[index, LINK] = state.heads[AGENDA]
        state.heads[AGENDA] = index


@kernel
def enqueue(state, index, place):
    """Puts a component on the list of its size."""
    cell = state.cells[index, place]
    if cell[CELL_LINK] == OUT:
        cell[CELL_LINK] = state.heads[cell[SIZE]]
        state.heads[cell[SIZE]] = index * state.cells.shape[1] + place


@kernel
def tell(state, index, mask):
    """Makes dirty what a change of (S, Q) can change: the cliques that hold S and one variable outside Q."""
    n = state.binomial.shape[0] - 1
    k, words = n - state.cells.shape[1], mask.size
    labels = MEMBERS + k
    clique = np.empty(k + 1, np.int64)
    for v in range(n):
        if state.nodes[index, labels + v] < 0 or has(mask, v):
            continue
        own = insert(state.nodes[index, MEMBERS:labels], v, clique)
        root = state.cliques[rank_of(clique, k + 1, state.binomial)]
        if not root[ALLOWED]:
            continue
        root[RULING] = 0
        if root[CLIQUE_LINK] == OUT:
            root[CLIQUE_LINK] = state.heads[ROOT_AGENDA]
            state.heads[ROOT_AGENDA] = rank_of(clique, k + 1, state.binomial)
        for i in range(k + 1):
            other = rank_of(clique, i, state.binomial)
            if i == own or not state.nodes[other, PERMITTED]:
                continue
            x = clique[i]
            part = state.nodes[other, labels + x]
            if part < 0 or not within(mask, state.cells[other, part, MASK : MASK + words]):
                continue  # its components are not made yet, or the pair cannot be a part
            put(state.cells[other, part, MASK + words : MASK + 2 * words], x)
            if state.figures[EXACT]:
                take(state.cells[other, part, MASK + 2 * words : MASK + 3 * words], x)
                take(state.cells[other, part, MASK + 3 * words : MASK + 4 * words], x)
            if state.figures[SETTLING]:
                enqueue(state, other, part)
            else:
                touch(state, other)


@kernel
def candidates(state, clique, skip, needed, found):
    """Writes the decomposable components that hang on a clique within `needed`; returns how many.

    Args:
        state: see `State`.
        clique: shape (k + 1,), increasing.
        skip: position of x, for S∪x less x is S itself; k + 1 for a root.
        needed: what is to be covered.
        found: shape (at least all of them, 2): separator and place.
    """
    count = 0
    for i in range(clique.size):
        index = rank_of(clique, i, state.binomial)
        if i == skip or not state.nodes[index, PERMITTED]:
            continue
        for place in range(state.nodes[index, PARTS]):
            cell = state.cells[index, place]
            if cell[GOOD] and within(cell[MASK : MASK + needed.size], needed):
                found[count, 0], found[count, 1] = index, place
                count += 1
    return count


@kernel
def cover(state, clique, skip, needed, pieces):
    """Covers `needed` greedily, the largest component that fits first; returns the number of pieces.

    -1 if that fails. The arguments are those of `candidates`.
    """
    words, size = needed.size, clique.size
    state.figures[CHECKS] += 1
    left = needed.copy()
    position = np.zeros(size, np.int64)
    indices = np.empty(size, np.int64)
    for i in range(size):
        indices[i] = rank_of(clique, i, state.binomial)
        if i == skip or not state.nodes[indices[i], PERMITTED]:
            position[i] = state.nodes[indices[i], PARTS]
    count = 0
    while True:
        best, largest = -1, 0
        for i in range(size):
            while position[i] < state.nodes[indices[i], PARTS]:
                cell = state.cells[indices[i], position[i]]
                if cell[GOOD] and within(cell[MASK : MASK + words], left):
                    if cell[SIZE] > largest:
                        best, largest = i, cell[SIZE]
                    break
                position[i] += 1
        if best < 0:
            break
        pieces[count, 0], pieces[count, 1] = indices[best], position[best]
        cell = state.cells[indices[best], position[best]]
        for w in range(words):
            left[w] &= ~cell[MASK + w]
        position[best] += 1
        count += 1
    for w in range(words):
        if left[w] != 0:
            return -1
    return count


@kernel
def hopeless(state, clique, skip, needed, pieces):
    """Tells whether all candidates together do not cover what is needed, so that there is no exact cover."""
    union = np.zeros(needed.size, np.int64)
    for piece in pieces[: candidates(state, clique, skip, needed, pieces)]:
        for w in range(needed.size):
            union[w] |= state.cells[piece[0], piece[1], MASK + w]
    return not within(needed, union)


@kernel
def decomposes(state, index, place, x, clique, needed, pieces):
    """Tells whether (S, Q) decomposes by x: 1, or 0, or -1 if an exact cover has to be looked for."""
    words = needed.size
    cell = state.cells[index, place]
    skip = insert(state.nodes[index, MEMBERS : MEMBERS + clique.size - 1], x, clique)
    if not state.cliques[rank_of(clique, clique.size, state.binomial), ALLOWED]:
        return 0
    needed[:] = cell[MASK : MASK + words]
    take(needed, x)
    if cover(state, clique, skip, needed, pieces) >= 0:
        return 1
    if not state.figures[EXACT] or has(cell[MASK + 3 * words :], x):
        return 0
    if has(cell[MASK + 2 * words :], x):
        return 1
    return 0 if hopeless(state, clique, skip, needed, pieces) else -1


@kernel
def process(state, index, place, clique, needed, pieces):
    """Brings one component up to date; returns False if an exact cover has to be looked for first."""
    n, words = state.binomial.shape[0] - 1, needed.size
    cell = state.cells[index, place]
    was, chosen = cell[GOOD], cell[CHOICE]
    dirty = cell[MASK + words : MASK + 2 * words]
    answer, look = 0, dirty
    if was:
        answer, look = 1, cell[MASK : MASK + words]
        if has(dirty, chosen):
            answer = decomposes(state, index, place, chosen, clique, needed, pieces)
    x = 0
    while answer == 0 and x < n:
        if has(look, x) and not (was and x == cell[CHOICE]):
            answer = decomposes(state, index, place, x, clique, needed, pieces)
            chosen = x
        x += 1
    if answer < 0:
        state.figures[ASK], state.figures[ASK_X] = index * state.cells.shape[1] + place, chosen
        return False
    cell[GOOD], cell[CHOICE] = answer, chosen
    dirty[:] = 0
    if was != answer:
        tell(state, index, cell[MASK : MASK + words])
    return True


@kernel
def process_root(state, root, clique, needed, pieces):
    """Brings one clique up to date; returns False if an exact cover has to be looked for first."""
    cell = state.cliques[root]
    unrank(root, state.binomial, clique)
    needed[:] = 0
    for v in range(state.binomial.shape[0] - 1):
        put(needed, v)
    for v in clique:
        take(needed, v)
    answer = cover(state, clique, clique.size, needed, pieces) >= 0
    if state.figures[EXACT] and not answer:
        if cell[RULING] == 0 and hopeless(state, clique, clique.size, needed, pieces):
            cell[RULING] = 2
        if cell[RULING] == 0:
            state.figures[ASK], state.figures[ASK_X] = root, -1
            return False
        answer = cell[RULING] == 1
    now = 1 if answer else 0
    state.figures[ROOTS] += now - cell[ROOT]
    cell[ROOT] = now
    return True


@kernel
def settle(state, budget):
    """Brings all that is dirty up to date; returns MORE, NONE when it is done, or QUESTION."""
    n, m = state.binomial.shape[0] - 1, state.cells.shape[1]
    words = n // 64 + 1
    clique = np.empty(n - m + 1, np.int64)
    needed = np.empty(words, np.int64)
    pieces = np.empty(((n - m + 1) * m, 2), np.int64)
    until = state.figures[CHECKS] + budget
    while state.heads[AGENDA] != END:
        index = state.heads[AGENDA]
        for place in range(state.nodes[index, PARTS]):
            for w in range(MASK + words, MASK + 2 * words):
                if state.cells[index, place, w] != 0:
                    enqueue(state, index, place)
        state.heads[AGENDA] = state.nodes[index, LINK]
        state.nodes[index, LINK] = OUT
    state.figures[SETTLING] = 1
    for size in range(1, m + 1):
        while state.heads[size] != END:
            if state.figures[CHECKS] > until:
                return MORE
            item = state.heads[size]
            if not process(state, item // m, item % m, clique, needed, pieces):
                return QUESTION
            cell = state.cells[item // m, item % m]
            state.heads[size] = cell[CELL_LINK]
            cell[CELL_LINK] = OUT
    while state.heads[ROOT_AGENDA] != END:
        if state.figures[CHECKS] > until:
            return MORE
        root = state.heads[ROOT_AGENDA]
        if not process_root(state, root, clique, needed, pieces):
            return QUESTION
        state.heads[ROOT_AGENDA] = state.cliques[root, CLIQUE_LINK]
        state.cliques[root, CLIQUE_LINK] = OUT
    state.figures[SETTLING] = 0
    return NONE


@kernel
def weakest(state, index):
    """Returns the strength of a separator's weakest edge that is left; inf if there is none."""
    first = state.nodes[index, FIRST]
    return state.weights[index, first] if first < state.weights.shape[1] else np.inf


@kernel
def sift(state, place):
    """Moves the separator at a place of the heap down to where it belongs."""
    size = state.figures[HEAP]
    while True:
        child = 2 * place + 1
        if child >= size:
            return
        if child + 1 < size and weakest(state, state.heap[child + 1]) < weakest(state, state.heap[child]):
            child += 1
        if weakest(state, state.heap[place]) <= weakest(state, state.heap[child]):
            return
        state.heap[place], state.heap[child] = state.heap[child], state.heap[place]
        place = child


@kernel
def raise_threshold(state):
    """Raises the threshold to the weakest edge, and takes away all that are no stronger; False: none left."""
    strength = np.inf if state.figures[HEAP] == 0 else weakest(state, state.heap[0])
    if strength == np.inf:
        return False
    state.threshold[0] = strength
    state.figures[RAISED] += 1
    while weakest(state, state.heap[0]) <= strength:
        index = state.heap[0]
        while weakest(state, index) <= strength:
            state.nodes[index, FIRST] += 1
        sift(state, 0)
        refresh(state, index)
        state.figures[CHECKS] += 1
    return True


@kernel
def begin(state, first, last):
    """Makes the components of the separators first to last - 1 at the threshold."""
    for index in range(first, last):
        if state.nodes[index, PERMITTED]:
            # An infinite strength is that of required edges: no threshold takes them away.
            while weakest(state, index) <= state.threshold[0] and weakest(state, index) < np.inf:
                state.nodes[index, FIRST] += 1
            refresh(state, index)


@kernel
def order_heap(state):
    """Puts all permitted separators on the heap."""
    count = 0
    for index in range(state.nodes.shape[0]):
        if state.nodes[index, PERMITTED]:
            state.heap[count] = index
            count += 1
    state.figures[HEAP] = count
    for place in range(count // 2 - 1, -1, -1):
        sift(state, place)


@kernel
def advance(state, budget, rising):
    """Settles; while there is no root and `rising`, raises the threshold to the weakest edge, and settles.

    Args:
        state: see `State`.
        budget: about how many covers to try before it returns MORE.
        rising: whether to raise the threshold at all.

    Returns:
        MORE, FOUND, NONE, EXHAUSTED or QUESTION.
    """
    until = state.figures[CHECKS] + budget
    while True:
        answer = settle(state, max(1, until - state.figures[CHECKS]))
        if answer != NONE:
            return answer
        if state.figures[ROOTS] > 0:
            return FOUND
        if not rising:
            return NONE
        if not raise_threshold(state):
            return EXHAUSTED
        if state.figures[CHECKS] > until:
            return MORE


@kernel
def best_decompositions(state, items, separator_scores, clique_scores, values, best):
    """Writes, for decomposable components, the x of the greedy decomposition with the highest score.

    value(S, Q) = max over x ∈ Q of s(S∪x) − s(S) + Σ value(S_i, Q_i).

    Args:
        state: see `State`; settled, and covers are greedy.
        items: the components as S·m + place, by size; those of smaller size are done.
        separator_scores: s(S), in nats.
        clique_scores: s(C), in nats.
        values: shape (count·m,), takes the values in nats.
        best: shape (count·m,), takes the x.
    """
    n, m = state.binomial.shape[0] - 1, state.cells.shape[1]
    words = n // 64 + 1
    clique = np.empty(n - m + 1, np.int64)
    needed = np.empty(words, np.int64)
    pieces = np.empty(((n - m + 1) * m, 2), np.int64)
    for item in items:
        index, cell = item // m, state.cells[item // m, item % m]
        separator = state.nodes[index, MEMBERS : MEMBERS + n - m]
        values[item] = -np.inf
        for x in range(n):
            if not has(cell[MASK:], x):
                continue
            skip = insert(separator, x, clique)
            rank = rank_of(clique, clique.size, state.binomial)
            if not state.cliques[rank, ALLOWED]:
                continue
            needed[:] = cell[MASK : MASK + words]
            take(needed, x)
            count = cover(state, clique, skip, needed, pieces)
            value = clique_scores[rank] - separator_scores[index] if count >= 0 else -np.inf
            for i in range(count):
                value += values[pieces[i, 0] * m + pieces[i, 1]]
            if value > values[item]:
                values[item], best[item] = value, x
