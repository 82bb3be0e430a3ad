"""Clutter cuts as clauses over families.

A clutter L is a collection of sets, none within another; F is the up-set of the sets that contain one of
them. If F has a set that is complete in every tree, a single vertex or a required edge, but not ∅, then some
family of every tree enters it:

    Σ { x(v,P) : P ∉ F, P∪v ∈ F } ≥ 1                                  (Studený and Cussens, IJAR 2017)

since the complete sets of a perfect order grow from ∅ one vertex at a time. A linear relaxation finds the
cuts by separation (`backends.clutter`); here they become clauses of the family formulation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.core.varset import VarSet
    from jtsolve.families.families import Families


def clutter_clauses(families: Families, clutters: Sequence[Sequence[VarSet]]) -> list[tuple[int, ...]]:
    """Returns for each clutter the families that enter its up-set, as positions in the listing.

    Args:
        families: the families that a tree may use.
        clutters: the minimal sets of each up-set; sets unknown to the families are never complete and do not
            change the up-set.

    Raises:
        ValueError: a clutter has ∅, or no set that is complete in every tree: its cut may be invalid.
    """
    if not clutters:
        return []
    listed = families.listing()
    position = {mask: at for at, mask in enumerate(families.masks())}
    by_size = [np.flatnonzero(families.sizes == size) for size in range(1, families.width + 1)]
    required = families.constraints.required_edges
    clauses = []
    for clutter in clutters:
        if 0 in clutter or not any(mask.bit_count() == 1 or mask in required for mask in clutter):
            raise ValueError("a clutter holds a single vertex or a required edge, and not the empty set")
        above = np.zeros(families.sizes.size, dtype=np.bool_)
        above[[position[mask] for mask in clutter if mask in position]] = True
        for size, at in enumerate(by_size, start=1):
            above[at] |= above[families.facets[at, :size]].any(axis=1)
        entering = np.flatnonzero(above[listed.union] & ~above[listed.parents])
        clauses.append(tuple(entering.tolist()))
    return clauses
