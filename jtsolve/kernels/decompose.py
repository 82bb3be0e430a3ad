"""FindConsistentTreeDPGreedy while the threshold rises: which components (S, Q) are decomposable.

For every separator S, the variables outside S fall into components Q. (S, Q) is *decomposable* if, for some
x ∈ Q, decomposable components (S_i, Q_i) with S_i ⊂ S∪x, Q_i ⊂ Q∖x are disjoint and cover Q∖x. A clique C
is a *root* if decomposable components with S_i ⊂ C are disjoint and cover all variables outside C.

Here S_i is the clique S∪x less one y ∈ S. When a component appears, ceases to be decomposable, becomes it or
vanishes, only the pairs (S', x') with S ⊂ S'∪x' can change: at most (n − k)·k of them. They are *dirty*, and
looked at again, the small components first. The greedy cover takes the largest component that fits.

Sets of variables are rows of 64-bit words; ranks of sets are colex, the rank of {a < b < c} is
C(a,1) + C(b,2) + C(c,3).

References:
    Chechetka and Guestrin, Efficient principled learning of thin junction trees, NIPS 2007 (Definition 8,
    Algorithm 4, section 5). Arnborg, Corneil and Proskurowski, Complexity of finding embeddings in a k-tree,
    SIAM J. Alg. Disc. Meth. 8, 1987.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np
from numba import njit, uint64

State = namedtuple(
    "State",
    [
        "separators",  # (count, k) int64: increasing rows in colex order
        "binomial",  # (n + 1, k + 3) int64: C(v, j)
        "permitted",  # (count,) bool: may the set be a separator; one that may not has no components
        "cliques",  # (C(n, k + 1),) bool: may the set be a clique
        "forest",  # (count, m - 1, 2) int64: edges of the components, the weakest first
        "weights",  # (count, m - 1) float64: their strengths
        "first",  # (count,) int64: edges from here on are above the threshold
        "parts",  # (count,) int64: how many components there are
        "masks",  # (count, m, words) uint64: the components, the largest first
        "sizes",  # (count, m) int64
        "labels",  # (count, n) int16: the component of each variable; -1 in S
        "good",  # (count, m) bool: is it decomposable
        "choice",  # (count, m) int16: x of its decomposition
        "dirty",  # (count, m, words) uint64: the x to look at again
        "yes",  # (count or 0, m, words) uint64: the x for which an exact cover is known to exist
        "no",  # the same: known not to exist; both are empty if covers are greedy
        "touched",  # (count,) bool: has dirty components, and is in `agenda`
        "agenda",  # (count,) int64
        "queue",  # (m + 1,) int64: first dirty component of each size, as S·m + place; -1 at the end
        "next",  # (count·m,) int64: links of the queue
        "queued",  # (count·m,) bool
        "roots",  # (C(n, k + 1),) uint8: 1 for a root
        "root_dirty",  # (C(n, k + 1),) bool: in `root_agenda`
        "root_agenda",  # (C(n, k + 1),) int64
        "root_ruling",  # (C(n, k + 1) or 0,) uint8: exact covers: 0 unknown, 1 exists, 2 does not
        "heap",  # (count,) int64: separators, the one with the weakest edge first
        "figures",  # (8,) int64: see below
        "threshold",  # (1,) float64: edges must be stronger
    ],
)

TOUCHED, ROOT_DIRTY, ROOTS, HEAP, ASK, ASK_X, CHECKS, RAISED = range(8)
"""Places in `figures`: lengths of agenda and root_agenda, number of roots, length of the heap, what is asked
about (a component S·m + place and x, or a clique and -1), checks of a cover and rises of the threshold."""

MORE, FOUND, NONE, EXHAUSTED, QUESTION = range(5)
"""What `advance` answers: call again; there is a root; there is none; none, and no edge is left; an exact
cover has to be looked for."""


@njit(nogil=True, cache=True)
def rank_of(members, without, binomial):
    """Returns the colex rank of an increasing row of members less the one at position `without` (-1: none)."""
    rank, size = 0, 0
    for i in range(members.size):
        if i != without:
            size += 1
            rank += binomial[members[i], size]
    return rank


@njit(nogil=True, cache=True)
def unrank(rank, binomial, out):
    """Writes the set of out.size members of that colex rank, increasing."""
    top = binomial.shape[0] - 1
    for size in range(out.size, 0, -1):
        while binomial[top, size] > rank:
            top -= 1
        out[size - 1] = top
        rank -= binomial[top, size]


@njit(nogil=True, cache=True)
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


@njit(nogil=True, cache=True)
def has(mask, v):
    """Tells whether v is in the mask."""
    return (mask[v >> 6] >> uint64(v & 63)) & uint64(1) != uint64(0)


@njit(nogil=True, cache=True)
def put(mask, v):
    """Puts v into the mask."""
    mask[v >> 6] |= uint64(1) << uint64(v & 63)


@njit(nogil=True, cache=True)
def within(inner, outer):
    """Tells whether a mask is a subset of another."""
    for w in range(inner.size):
        if inner[w] & ~outer[w] != uint64(0):
            return False
    return True


@njit(nogil=True, cache=True)
def disjoint(one, other):
    """Tells whether two masks have nothing in common."""
    for w in range(one.size):
        if one[w] & other[w] != uint64(0):
            return False
    return True


@njit(nogil=True, cache=True)
def find(leader, v):
    """Returns the leader of v, and shortens the path to it."""
    while leader[v] != v:
        leader[v] = leader[leader[v]]
        v = leader[v]
    return v


@njit(nogil=True, cache=True)
def refresh(state, index):
    """Recomputes the components of a separator from its edges; tells the neighbours what vanished."""
    n, k = state.labels.shape[1], state.separators.shape[1]
    m, words = n - k, state.masks.shape[2]
    leader = np.arange(n)
    for edge in range(state.first[index], m - 1):
        u, v = state.forest[index, edge, 0], state.forest[index, edge, 1]
        leader[find(leader, u)] = find(leader, v)
    slot = np.full(n, -1, np.int64)
    masks = np.zeros((m, words), np.uint64)
    sizes = np.zeros(m, np.int64)
    count, at = 0, 0
    for v in range(n):
        if at < k and state.separators[index, at] == v:
            at += 1
            continue
        root = find(leader, v)
        if slot[root] < 0:
            slot[root] = count
            count += 1
        put(masks[slot[root]], v)
        sizes[slot[root]] += 1
    order = np.argsort(-sizes[:count], kind="mergesort")
    old_count = state.parts[index]
    old_masks = state.masks[index, :old_count].copy()
    old_good = state.good[index, :old_count].copy()
    old_choice = state.choice[index, :old_count].copy()
    old_dirty = state.dirty[index, :old_count].copy()
    exact = state.yes.shape[0] > 0
    old_yes = state.yes[index, :old_count].copy() if exact else old_dirty
    old_no = state.no[index, :old_count].copy() if exact else old_dirty
    kept = np.zeros(old_count, np.bool_)
    place_of = np.empty(count, np.int64)
    place_of[order] = np.arange(count)
    former = np.empty(count, np.int64)  # the old component of some member of each new one
    for v in range(n):
        group = slot[find(leader, v)]
        if group >= 0:
            former[group] = state.labels[index, v]
            state.labels[index, v] = place_of[group]
        else:
            state.labels[index, v] = -1
    any_dirty = False
    for place in range(count):
        old = former[order[place]]
        mask = masks[order[place]]
        same = old >= 0
        if same:
            for w in range(words):
                if mask[w] != old_masks[old, w]:
                    same = False
        state.masks[index, place] = mask
        state.sizes[index, place] = sizes[order[place]]
        if same:
            kept[old] = True
            state.good[index, place] = old_good[old]
            state.choice[index, place] = old_choice[old]
            state.dirty[index, place] = old_dirty[old]
            if exact:
                state.yes[index, place] = old_yes[old]
                state.no[index, place] = old_no[old]
        else:
            state.good[index, place] = False
            state.dirty[index, place] = mask
            if exact:
                state.yes[index, place] = uint64(0)
                state.no[index, place] = uint64(0)
        for w in range(words):
            if state.dirty[index, place, w] != uint64(0):
                any_dirty = True
    state.parts[index] = count
    if any_dirty:
        touch(state, index)
    for old in range(old_count):
        if old_good[old] and not kept[old]:
            tell(state, index, old_masks[old], False)


@njit(nogil=True, cache=True)
def touch(state, index):
    """Puts a separator on the agenda."""
    if not state.touched[index]:
        state.touched[index] = True
        state.agenda[state.figures[TOUCHED]] = index
        state.figures[TOUCHED] += 1


@njit(nogil=True, cache=True)
def enqueue(state, index, place):
    """Puts a component on the queue of its size."""
    item = index * state.sizes.shape[1] + place
    if not state.queued[item]:
        state.queued[item] = True
        size = state.sizes[index, place]
        state.next[item] = state.queue[size]
        state.queue[size] = item


@njit(nogil=True, cache=True)
def tell(state, index, mask, settling):
    """Makes dirty what a change of (S, Q) can change: the cliques that hold S and one variable outside Q."""
    n, k = state.labels.shape[1], state.separators.shape[1]
    exact = state.yes.shape[0] > 0
    separator = state.separators[index]
    clique = np.empty(k + 1, np.int64)
    for v in range(n):
        if has(mask, v) or state.labels[index, v] < 0:
            continue
        place = insert(separator, v, clique)
        root = rank_of(clique, -1, state.binomial)
        if not state.cliques[root]:
            continue
        if not state.root_dirty[root]:
            state.root_dirty[root] = True
            state.root_agenda[state.figures[ROOT_DIRTY]] = root
            state.figures[ROOT_DIRTY] += 1
            if exact:
                state.root_ruling[root] = 0
        for i in range(k + 1):
            if i == place:
                continue
            x = clique[i]
            other = rank_of(clique, i, state.binomial)
            if not state.permitted[other]:
                continue
            part = state.labels[other, x]
            if part < 0 or not within(mask, state.masks[other, part]):
                continue  # its components are not made yet, or the pair cannot be a part
            put(state.dirty[other, part], x)
            if exact:
                state.yes[other, part, x >> 6] &= ~(uint64(1) << uint64(x & 63))
                state.no[other, part, x >> 6] &= ~(uint64(1) << uint64(x & 63))
            if settling:
                enqueue(state, other, part)
            else:
                touch(state, other)


@njit(nogil=True, cache=True)
def candidates(state, clique, skip, needed, found):
    """Writes the decomposable components that hang on a clique within `needed`; returns how many.

    Args:
        state: see `State`.
        clique: shape (k + 1,), increasing.
        skip: position of x, for S∪x less x is S itself; -1 for a root.
        needed: what is to be covered.
        found: shape (at least all of them, 2): separator and place.
    """
    count = 0
    for i in range(clique.size):
        if i == skip:
            continue
        index = rank_of(clique, i, state.binomial)
        if not state.permitted[index]:
            continue
        for place in range(state.parts[index]):
            if state.good[index, place] and within(state.masks[index, place], needed):
                found[count, 0], found[count, 1] = index, place
                count += 1
    return count


@njit(nogil=True, cache=True)
def cover(state, clique, skip, needed, pieces):
    """Covers `needed` greedily, the largest component that fits first; returns the number of pieces.

    -1 if that fails, -2 if no cover exists, since all candidates together do not cover it. The arguments are
    those of `candidates`.
    """
    words = needed.size
    state.figures[CHECKS] += 1
    covered = np.zeros(words, np.uint64)
    position = np.zeros(clique.size, np.int64)
    indices = np.empty(clique.size, np.int64)
    for i in range(clique.size):
        indices[i] = rank_of(clique, i, state.binomial)
        if i == skip or not state.permitted[indices[i]]:
            position[i] = state.parts[indices[i]]
    count = 0
    while True:
        best, largest = -1, 0
        for i in range(clique.size):
            index = indices[i]
            while position[i] < state.parts[index]:
                place = position[i]
                mask = state.masks[index, place]
                if state.good[index, place] and within(mask, needed) and disjoint(mask, covered):
                    if state.sizes[index, place] > largest:
                        best, largest = i, state.sizes[index, place]
                    break
                position[i] += 1
        if best < 0:
            break
        index, place = indices[best], position[best]
        pieces[count, 0], pieces[count, 1] = index, place
        count += 1
        position[best] += 1
        for w in range(words):
            covered[w] |= state.masks[index, place, w]
    if within(needed, covered):
        return count
    if state.yes.shape[0] == 0:
        return -1
    every = np.empty((clique.size * state.sizes.shape[1], 2), np.int64)
    for piece in every[: candidates(state, clique, skip, needed, every)]:
        for w in range(words):
            covered[w] |= state.masks[piece[0], piece[1], w]
    return -1 if within(needed, covered) else -2


@njit(nogil=True, cache=True)
def decomposes(state, index, place, x, clique, needed, pieces):
    """Tells whether (S, Q) decomposes by x: 1, or 0, or -1 if an exact cover has to be looked for."""
    skip = insert(state.separators[index], x, clique)
    if not state.cliques[rank_of(clique, -1, state.binomial)]:
        return 0
    needed[:] = state.masks[index, place]
    needed[x >> 6] &= ~(uint64(1) << uint64(x & 63))
    count = cover(state, clique, skip, needed, pieces)
    if count >= 0:
        return 1
    if count == -2 or state.yes.shape[0] == 0 or has(state.no[index, place], x):
        return 0
    return 1 if has(state.yes[index, place], x) else -1


@njit(nogil=True, cache=True)
def process(state, index, place, clique, needed, pieces):
    """Brings one component up to date; returns False if an exact cover has to be looked for first."""
    n = state.labels.shape[1]
    was, old = state.good[index, place], state.choice[index, place]
    answer = 0
    if was:
        answer = 1
        if has(state.dirty[index, place], old):
            answer = decomposes(state, index, place, old, clique, needed, pieces)
    if not was or answer == 0:
        for x in range(n):
            look = state.masks if was else state.dirty
            if not has(look[index, place], x) or (was and x == old):
                continue
            answer = decomposes(state, index, place, x, clique, needed, pieces)
            if answer != 0:
                old = x
                break
    if answer < 0:
        state.figures[ASK] = index * state.sizes.shape[1] + place
        state.figures[ASK_X] = old
        return False
    state.good[index, place] = answer == 1
    state.choice[index, place] = old
    state.dirty[index, place] = uint64(0)
    if was != (answer == 1):
        tell(state, index, state.masks[index, place], True)
    return True


@njit(nogil=True, cache=True)
def process_root(state, root, clique, needed, pieces):
    """Brings one clique up to date; returns False if an exact cover has to be looked for first."""
    n = state.labels.shape[1]
    unrank(root, state.binomial, clique)
    needed[:] = uint64(0)
    at = 0
    for v in range(n):
        if at < clique.size and clique[at] == v:
            at += 1
        else:
            put(needed, v)
    count = cover(state, clique, -1, needed, pieces)
    answer = count >= 0
    if count == -1 and state.yes.shape[0] > 0:
        if state.root_ruling[root] == 0:
            state.figures[ASK], state.figures[ASK_X] = root, -1
            return False
        answer = state.root_ruling[root] == 1
    state.figures[ROOTS] += np.int64(answer) - np.int64(state.roots[root])
    state.roots[root] = answer
    return True


@njit(nogil=True, cache=True)
def settle(state, budget):
    """Brings all that is dirty up to date; returns MORE, NONE when it is done, or QUESTION."""
    n, k = state.labels.shape[1], state.separators.shape[1]
    m = n - k
    clique = np.empty(k + 1, np.int64)
    needed = np.empty(state.masks.shape[2], np.uint64)
    pieces = np.empty(((k + 1) * m, 2), np.int64)
    until = state.figures[CHECKS] + budget
    while state.figures[TOUCHED] > 0:
        state.figures[TOUCHED] -= 1
        index = state.agenda[state.figures[TOUCHED]]
        state.touched[index] = False
        for place in range(state.parts[index]):
            for w in range(needed.size):
                if state.dirty[index, place, w] != uint64(0):
                    enqueue(state, index, place)
                    break
    for size in range(1, m + 1):
        while state.queue[size] >= 0:
            if state.figures[CHECKS] > until:
                return MORE
            item = state.queue[size]
            if not process(state, item // m, item % m, clique, needed, pieces):
                return QUESTION
            state.queue[size] = state.next[item]
            state.queued[item] = False
    while state.figures[ROOT_DIRTY] > 0:
        if state.figures[CHECKS] > until:
            return MORE
        root = state.root_agenda[state.figures[ROOT_DIRTY] - 1]
        if not process_root(state, root, clique, needed, pieces):
            return QUESTION
        state.root_dirty[root] = False
        state.figures[ROOT_DIRTY] -= 1
    return NONE


@njit(nogil=True, cache=True)
def weakest(state, index):
    """Returns the strength of a separator's weakest edge that is left; inf if there is none."""
    if state.first[index] >= state.weights.shape[1]:
        return np.inf
    return state.weights[index, state.first[index]]


@njit(nogil=True, cache=True)
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


@njit(nogil=True, cache=True)
def begin(state, first, last):
    """Makes the components of the separators first to last - 1 at the threshold."""
    for index in range(first, last):
        if state.permitted[index]:
            while weakest(state, index) <= state.threshold[0]:
                state.first[index] += 1
            refresh(state, index)


@njit(nogil=True, cache=True)
def order_heap(state):
    """Puts all permitted separators on the heap."""
    count = 0
    for index in range(state.permitted.size):
        if state.permitted[index]:
            state.heap[count] = index
            count += 1
    state.figures[HEAP] = count
    for place in range(count // 2 - 1, -1, -1):
        sift(state, place)


@njit(nogil=True, cache=True)
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
        strength = np.inf if state.figures[HEAP] == 0 else weakest(state, state.heap[0])
        if strength == np.inf:
            return EXHAUSTED
        state.threshold[0] = strength
        state.figures[RAISED] += 1
        while weakest(state, state.heap[0]) <= strength:
            index = state.heap[0]
            while weakest(state, index) <= strength:
                state.first[index] += 1
            sift(state, 0)
            refresh(state, index)
            state.figures[CHECKS] += 1
        if state.figures[CHECKS] > until:
            return MORE
