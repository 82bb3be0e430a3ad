"""Least variances of columns given sets of others, times prices of the sets, by successive conditioning."""

from __future__ import annotations

import numpy as np

from jtsolve.core.compiling import kernel
from jtsolve.core.kernels.arrays import empty, filled


@kernel
def search_all(correlation, prices, of_clusters, of_links, first, least, chosen):
    """Runs `search` for all columns v with all sets of which `first` is the least member.

    Args:
        correlation: shape (n, n), float64, with unit diagonal.
        prices: as in `search`.
        of_clusters: as in `search`.
        of_links: as in `search`.
        first: a column.
        least: shape (n,), float64: receives smaller minima.
        chosen: shape (n, size), int64: receives the sets that attain them.
    """
    n = correlation.shape[0]
    names = np.arange(n)
    row = correlation[first]
    given = correlation - row.reshape(n, 1) * row
    for v in range(n):
        if v != first:
            least[v] = search(
                given, v, first, names, names, prices, of_clusters, of_links, least[v], chosen[v]
            )


@kernel
def search_near(correlation, columns, prices, of_clusters, of_links, least, chosen):
    """Runs `search` for the first of some columns, with sets of the others.

    Args:
        correlation: shape (n, n), float64, with unit diagonal.
        columns: shape (m,), int64: v, then increasing.
        prices: as in `search`.
        of_clusters: as in `search`.
        of_links: as in `search`.
        least: shape (m,), float64: receives smaller minima, by the first members of the sets.
        chosen: shape (m, size), int64: receives the sets that attain them.
    """
    m = columns.size
    place = filled(correlation.shape[0], np.int64, -1)
    place[columns] = np.arange(m)
    inner = empty((m, m), np.float64)
    for a in range(m):
        for b in range(m):
            inner[a, b] = correlation[columns[a], columns[b]]
    for first in range(1, m):
        row = inner[first]
        given = inner - row.reshape(m, 1) * row
        least[first] = search(
            given, 0, first, columns, place, prices, of_clusters, of_links, least[first], chosen[first]
        )


@kernel
def search(given, v, first, names, place, prices, of_clusters, of_links, least, chosen):
    """Finds the set P with the least σ²(v | P) times its prices, with `first` as the least member.

    The prices are the product of `prices` over the members; of the reciprocals of the factors of each cluster
    of v with more than one member in P, once for each further one; and of the factors of links of v in P.

    Args:
        given: shape (m, m), float64: correlations given `first`.
        v: not `first`.
        first: the least member of the sets.
        names: shape (m,), int64: the columns that are searched.
        place: shape (n,), int64: the inverse, -1 for none.
        prices: shape (n, n), float64, symmetric, above 0.
        of_clusters: the members of each cluster, padded with -1, shape (clusters, …); the factors; and the
            clusters of columns v and u as ends in a list, by v n + u.
        of_links: columns b with a link (v, a, b), and factors, as ends and lists, by v n + a.
        least: sets with larger values are not searched for.
        chosen: shape (size,), int64: receives the set, if there is one.

    Returns:
        The least value, less a bound of the rounding error; or `least`.
    """
    m, n, size = given.shape[0], place.size, chosen.size
    clusters, factors, cluster_ends, cluster_list = of_clusters
    link_ends, link_list, link_factors = of_links
    # At level l, given the first l + 1 members: covariances, also with v alone, variances, prices of others.
    inner = empty((max(1, size - 2), m, m) if size > 3 else (1, 1, 1), np.float64)
    rows, variances = empty((size, m), np.float64), empty((size, m), np.float64)
    priced, bases = empty((size, m), np.float64), empty(size, np.float64)
    shares, products = filled(size, np.float64, 1), filled(size, np.float64, 1)
    members = filled(size, np.int64, -1)
    members[0], level = first, 0
    own = names[v] * n
    while level >= 0:
        b = members[level]
        if b > m - size + level:
            level -= 1
            if level < 1:
                break
            members[level] += 1
            continue
        if level == 0:
            rows[0], bases[0] = given[v], given[v, v]
            for c in range(m):
                variances[0, c] = given[c, c]
                priced[0, c] = prices[names[v], names[c]]
            products[0] = priced[0, b]
        else:
            matrix = given if level == 1 else inner[level - 1]
            pivot = variances[level - 1, b]
            shares[level] = shares[level - 1] * pivot
            if b == v or shares[level] <= 1e-10:
                members[level] += 1
                continue
            x, inverse = rows[level - 1, b] / pivot, 1.0 / pivot
            bases[level] = bases[level - 1] - rows[level - 1, b] * x
            later, before = slice(b + 1, m), level - 1
            cross, row, variance = matrix[b, later], rows[level, later], variances[level, later]
            row_before, variance_before = rows[before, later], variances[before, later]
            price, price_before = priced[level, later], priced[before, later]
            for c in range(row.size):
                row[c] = row_before[c] - x * cross[c]
                variance[c] = variance_before[c] - cross[c] * cross[c] * inverse
                price[c] = price_before[c]
            products[level] = products[level - 1] * priced[level - 1, b]
            if level < size - 2:
                for i in range(b + 1, m):
                    y = matrix[b, i] * inverse
                    for j in range(b + 1, m):
                        inner[level, i, j] = matrix[i, j] - y * matrix[b, j]
        key = own + names[b]
        for at in range(cluster_ends[key], cluster_ends[key + 1]):
            s = cluster_list[at]
            met = False
            for u in clusters[s]:
                for earlier in range(level):
                    met |= u == names[members[earlier]]
            if not met:
                for u in clusters[s]:
                    if u >= 0 and place[u] >= 0:
                        priced[level, place[u]] *= factors[s]
        for at in range(link_ends[key], link_ends[key + 1]):
            if place[link_list[at]] >= 0:
                priced[level, place[link_list[at]]] *= link_factors[at]
        error, base, product = 1e-13 / shares[level], bases[level], products[level]
        if size == 1:
            r = (base - error) * product
            if r < least:
                least, chosen[0] = r, names[first]
            break
        if level < size - 2:
            level += 1
            members[level] = b + 1
            continue
        for half in range(2):  # without v
            begin, end = (b + 1, v) if half == 0 else (max(b, v) + 1, m)
            if begin >= end:
                continue
            part = slice(begin, end)
            row, variance, price = rows[level, part], variances[level, part], priced[level, part]
            better, limit = 0, least / product
            for c in range(row.size):
                rest = variance[c]
                better += (base * rest - row[c] * row[c] - error) * price[c] < limit * rest
            if better:
                for c in range(row.size):
                    if shares[level] * variance[c] > 1e-10:
                        r = (base - (row[c] * row[c] + error) / variance[c]) * price[c] * product
                        if r < least:
                            least = r
                            for at in range(size - 1):
                                chosen[at] = names[members[at]]
                            chosen[size - 1] = names[begin + c]
        if level == 0:
            break
        members[level] += 1
    return least
