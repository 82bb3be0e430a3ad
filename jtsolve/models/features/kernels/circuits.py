"""Passes over the nodes of a circuit, in logarithms.

Kids have larger numbers than their parents, so that increasing numbers are an order from the root down and
decreasing ones an order from the leaves up.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from jtsolve.core.compiling import kernel

Arrays = namedtuple(
    "Arrays",
    [
        "branch",  # (nodes + 1,), int64: first branch of each node, and the end
        "literal",  # (branches + 1,), int64: start of each branch in `literals`
        "literals",  # int64: variables' states fixed by the branches, numbered through all variables
        "kid",  # (branches + 1,), int64: start of each branch in `kids`
        "kids",  # int64: the nodes at which the branches continue
        "selector",  # (nodes, 3), int64: first and last row in `look`, and literals of the feature or 0
        "look",  # (m, 2), int64: a variable, and the start of its states in `step`
        "step",  # int64: the amount that each state adds to the number of the branch
    ],
)
"""The structure of a circuit. A row takes the branch whose number is the sum of steps over the rows of
`look`; at a split, the second if all literals hold, that is if the sum is their number."""


@kernel
def visits(arrays):
    """Returns the largest number of nodes that one row visits."""
    count = arrays.branch.size - 1
    most = np.ones(count, np.int64)
    for i in range(count - 1, -1, -1):
        below = 0
        for b in range(arrays.branch[i], arrays.branch[i + 1]):
            total = 0
            for k in range(arrays.kid[b], arrays.kid[b + 1]):
                total += most[arrays.kids[k]]
            below = max(below, total)
        most[i] += below
    return most[0]


@kernel
def complete_rows(codes, log_weight, arrays, visits, out):
    """Writes ln P(row) to `out` for complete rows: follows the one branch at each node.

    Args:
        codes: (rows, n): a row lies in one or two lines of the cache.
        log_weight: (branches,).
        arrays: see `Arrays`.
        visits: the largest number of nodes that one row visits.
        out: (rows,).
    """
    stack = np.empty(visits + 1, np.int64)
    for r in range(out.size):
        stack[0] = 0
        depth = 1
        total = 0.0
        while depth > 0:
            depth -= 1
            i = stack[depth]
            b = np.int64(0)
            for j in range(arrays.selector[i, 0], arrays.selector[i, 1]):
                b += arrays.step[arrays.look[j, 1] + np.int64(codes[r, arrays.look[j, 0]])]
            if arrays.selector[i, 2] > 0:
                b = np.int64(b == arrays.selector[i, 2])
            b += arrays.branch[i]
            total += log_weight[b]
            for k in range(arrays.kid[b], arrays.kid[b + 1]):
                stack[depth] = arrays.kids[k]
                depth += 1
        out[r] = total


@kernel
def partial_rows(codes, first, log_weight, arrays, out):
    """Writes ln P(observed values) to `out` for rows with missing values, which are negative codes.

    Runs upwards over the nodes that the observed values leave reachable.

    Args:
        codes: (n, rows).
        first: (n + 1,), start of each variable among all variables' states.
        log_weight: (branches,).
        arrays: see `Arrays`.
        out: (rows,).
    """
    count = arrays.branch.size - 1
    value = np.empty(count)
    is_reached = np.empty(count, np.bool_)
    open_ = np.empty(first[-1], np.bool_)
    for r in range(out.size):
        for v in range(first.size - 1):
            code = np.int64(codes[v, r])
            for state in range(first[v], first[v + 1]):
                open_[state] = code < 0 or state - first[v] == code
        is_reached[:] = False
        is_reached[0] = True
        for i in range(count):
            if is_reached[i]:
                for b in range(arrays.branch[i], arrays.branch[i + 1]):
                    if _is_open(b, open_, log_weight, arrays):
                        for k in range(arrays.kid[b], arrays.kid[b + 1]):
                            is_reached[arrays.kids[k]] = True
        for i in range(count - 1, -1, -1):
            if not is_reached[i]:
                continue
            high, total = -np.inf, 0.0
            for b in range(arrays.branch[i], arrays.branch[i + 1]):
                if not _is_open(b, open_, log_weight, arrays):
                    continue
                term = log_weight[b]
                for k in range(arrays.kid[b], arrays.kid[b + 1]):
                    term += value[arrays.kids[k]]
                if term > high:
                    total = total * np.exp(high - term) + 1.0
                    high = term
                elif term > -np.inf:
                    total += np.exp(term - high)
            value[i] = high + np.log(total) if high > -np.inf else -np.inf
        out[r] = value[0]


@kernel
def _is_open(b, open_, log_weight, arrays):
    """Returns whether a branch is possible and agrees with the states that are open."""
    if log_weight[b] == -np.inf:
        return False
    for j in range(arrays.literal[b], arrays.literal[b + 1]):  # noqa: SIM110 - a generator compiles to worse
        if not open_[arrays.literals[j]]:
            return False
    return True


@kernel
def upward(log_weight, log_likelihood, arrays):
    """Returns ln Σ_x P(x | node) Π L(x) for each node, and the logarithm of each branch's term of that sum.

    Args:
        log_weight: (branches,).
        log_likelihood: ln L of each state, numbered through all variables: evidence; 0 for none.
        arrays: see `Arrays`.
    """
    count = arrays.branch.size - 1
    value = np.empty(count)
    term = np.empty(log_weight.size)
    for i in range(count - 1, -1, -1):
        first, last = arrays.branch[i], arrays.branch[i + 1]
        high = -np.inf
        for b in range(first, last):
            total = log_weight[b]
            for j in range(arrays.literal[b], arrays.literal[b + 1]):
                total += log_likelihood[arrays.literals[j]]
            for k in range(arrays.kid[b], arrays.kid[b + 1]):
                total += value[arrays.kids[k]]
            term[b] = total
            high = max(high, total)
        value[i] = high
        if high > -np.inf:
            total = 0.0
            for b in range(first, last):
                total += np.exp(term[b] - high)
            value[i] += np.log(total)
    return value, term


@kernel
def downward(value, term, arrays, first, last, flow, marginals):
    """Writes to `flow` the probability that a row takes each branch, and adds that of each state.

    Args:
        value: (nodes,), see `upward`.
        term: (branches,), see `upward`.
        arrays: see `Arrays`.
        first: the node at which rows begin.
        last: the end of the nodes that they visit.
        flow: (branches,), zeros.
        marginals: of the states, numbered through all variables.
    """
    reach = np.zeros(last - first)
    reach[0] = 1.0
    for i in range(first, last):
        if reach[i - first] == 0.0:
            continue
        for b in range(arrays.branch[i], arrays.branch[i + 1]):
            if term[b] == -np.inf:
                continue
            flow[b] = reach[i - first] * np.exp(term[b] - value[i])
            for j in range(arrays.literal[b], arrays.literal[b + 1]):
                marginals[arrays.literals[j]] += flow[b]
            for k in range(arrays.kid[b], arrays.kid[b + 1]):
                reach[arrays.kids[k] - first] += flow[b]


@kernel
def best(log_weight, arrays, most, joined, own, sizes, values):
    """Lists the most probable continuations of every node, best first.

    A branch's list is the sums of one entry of each kid's list and its weight; that of a node holds the
    largest entries of its branches' lists.

    Args:
        log_weight: (branches,).
        arrays: see `Arrays`.
        most: the number of entries kept.
        joined: (kid slots, most, 2), receives for each kid of a branch and entry of the list after it the
        entry of the list before it, and that of the kid.
        own: (nodes, most, 2), receives the branch of each entry, and the entry of the branch's list.
        sizes: (nodes,), receives the lengths of the lists.
        values: (nodes, most), receives the logarithms.
    """
    count = arrays.branch.size - 1
    here = np.empty(most)
    room = 0
    for x in range(most):
        room += most // (x + 1)
    pairs = np.empty(room)
    left = np.empty(pairs.size, np.int64)
    right = np.empty(pairs.size, np.int64)
    for i in range(count - 1, -1, -1):
        found = 0
        for b in range(arrays.branch[i], arrays.branch[i + 1]):
            if log_weight[b] == -np.inf:
                continue
            here[0] = log_weight[b]
            length = 1
            for k in range(arrays.kid[b], arrays.kid[b + 1]):
                kid = arrays.kids[k]
                # In two decreasing lists, entry (x, y) is behind (x + 1)(y + 1) - 1 others.
                n = 0
                for x in range(length):
                    for y in range(min(sizes[kid], most // (x + 1))):
                        pairs[n] = -here[x] - values[kid, y]
                        left[n], right[n] = x, y
                        n += 1
                order = np.argsort(pairs[:n], kind="mergesort")
                length = min(n, most)
                for x in range(length):
                    joined[k, x, 0], joined[k, x, 1] = left[order[x]], right[order[x]]
                for x in range(length):
                    here[x] = -pairs[order[x]]
            for x in range(length):
                _keep(i, min(most, found + x), here[x], b, x, own, values)
            found = min(most, found + length)
        sizes[i] = found


@kernel
def _keep(i, j, value, b, x, own, values):
    """Inserts an entry into the decreasing list of a node, of j entries; a full list loses its last."""
    if j == values.shape[1]:
        j -= 1
        if values[i, j] >= value:
            return
    while j > 0 and values[i, j - 1] < value:
        values[i, j] = values[i, j - 1]
        own[i, j] = own[i, j - 1]
        j -= 1
    values[i, j] = value
    own[i, j, 0], own[i, j, 1] = b, x


@kernel
def trace_entry(rank, arrays, joined, own, first, codes):
    """Writes to `codes` the states of an entry of the root's list."""
    count = arrays.branch.size - 1
    stack = np.empty((count, 2), np.int64)
    stack[0, 0], stack[0, 1] = 0, rank
    depth = 1
    while depth > 0:
        depth -= 1
        i, entry = stack[depth]
        b, x = own[i, entry]
        for j in range(arrays.literal[b], arrays.literal[b + 1]):
            state = arrays.literals[j]
            v = np.searchsorted(first, state, side="right") - 1
            codes[v] = state - first[v]
        for k in range(arrays.kid[b + 1] - 1, arrays.kid[b] - 1, -1):
            stack[depth, 0], stack[depth, 1] = arrays.kids[k], joined[k, x, 1]
            depth += 1
            x = joined[k, x, 0]


@kernel
def draw(uniform, cumulative, arrays, variable, state, out):
    """Draws rows from the root down.

    Args:
        uniform: (visits, rows), in [0, 1).
        cumulative: (branches,), sums of the probabilities of a node's branches up to each one; the last is 1.
        arrays: see `Arrays`.
        variable: of each entry of `arrays.literals`.
        state: its state.
        out: (n, rows), the drawn codes.
    """
    stack = np.empty(uniform.shape[0] + 1, np.int64)
    for r in range(uniform.shape[1]):
        stack[0] = 0
        depth = 1
        used = 0
        while depth > 0:
            depth -= 1
            i = stack[depth]
            low, high = arrays.branch[i], arrays.branch[i + 1] - 1
            while low < high:
                middle = (low + high) // 2
                if cumulative[middle] > uniform[used, r]:
                    high = middle
                else:
                    low = middle + 1
            used += 1
            for j in range(arrays.literal[low], arrays.literal[low + 1]):
                out[variable[j], r] = state[j]
            for k in range(arrays.kid[low], arrays.kid[low + 1]):
                stack[depth] = arrays.kids[k]
                depth += 1
