from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jtsolve.core.varset import (
    bounded_subsets,
    colex_rank,
    count_bounded_subsets,
    is_subset,
    members,
    set_table,
    subsets,
    varset,
)

variables = st.frozensets(st.integers(0, 200), max_size=8)


@given(variables)
def test_varset_and_members_are_inverse(given_set: frozenset[int]) -> None:
    assert list(members(varset(given_set))) == sorted(given_set)
    assert varset(given_set).bit_count() == len(given_set)


def test_a_repeated_member_counts_once() -> None:
    assert varset([3, 3]) == 0b1000


@given(variables, variables)
def test_is_subset_is_set_inclusion(a: frozenset[int], b: frozenset[int]) -> None:
    assert is_subset(varset(a), varset(b)) == (a <= b)


@given(variables)
def test_subsets_are_all_subsets_once_in_increasing_order(given_set: frozenset[int]) -> None:
    mask = varset(given_set)
    found = list(subsets(mask))
    assert found == sorted(set(found))
    assert len(found) == 2 ** len(given_set)
    assert all(is_subset(subset, mask) for subset in found)


@pytest.mark.parametrize("n", range(7))
@pytest.mark.parametrize("max_size", range(8))
def test_bounded_subsets_are_those_of_the_size_in_colex_order(n: int, max_size: int) -> None:
    expected = sorted(varset(c) for size in range(max_size + 1) for c in combinations(range(n), size))
    assert list(bounded_subsets(n, max_size)) == expected
    assert count_bounded_subsets(n, max_size) == len(expected)
    for rank, mask in enumerate(expected):
        assert colex_rank(mask, max_size) == rank


def test_there_is_no_set_of_negative_size() -> None:
    assert count_bounded_subsets(5, -1) == 0


@pytest.mark.parametrize("n", [61, 62, 200])
def test_a_table_of_sets_is_a_mapping_in_the_order_given(n: int) -> None:
    masks = [varset(pair) for pair in combinations(range(0, n, 7), 2)]
    table = set_table(n, [(mask, float(k)) for k, mask in enumerate(masks)])
    assert list(table) == masks
    assert [table[mask] for mask in masks] == list(range(len(masks)))
    assert len(table) == len(masks)
    assert table.get(1 << (n - 1) | 1 << (n - 2)) is None
    assert masks[0] in table
