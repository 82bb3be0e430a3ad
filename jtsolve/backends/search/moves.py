"""The moves of local search on junction trees: each keeps running intersection, so the graph stays chordal.

f is the local score, w the size of the largest clique that is allowed. A set that lies within a neighbour
counts once as a clique and once as a separator, so that the gains hold whatever is merged afterwards.

- `join`: the edge uv, for a tree edge of separator S, u and v in the cliques at its ends. S is N(u) ∩ N(v)
  and separates u from v: S∪{u,v} comes between. Gain f(S∪{u,v}) + f(S) − f(S∪u) − f(S∪v).
- `split`: the edge uv goes, where only the clique C holds both: C−u and C−v with the separator C−u−v take its
  place, and each neighbour goes to the one that holds its separator.
- `relocate`: a variable v is taken out of every clique that holds it, and joined to a set S' within some
  clique. Deleting a vertex keeps a graph chordal, and v is simplicial afterwards. If one clique held it, this
  is the simplicial move.
- `regraft`: the variables R that only the leaf clique C holds leave their separator S for a set S' within
  some clique: f(R∪S') − f(S') − f(C) + f(S); for R of several variables or one, and any clique, not only a
  leaf.
- `replace`: for a tree edge ab and x in its separator, T' is the part of the cliques that hold x on b's side.
  In T', y takes the place of x, where y is in a clique next to T' and in none of T'. The cliques with x are
  still connected without T', those with y now with T'. Or x only leaves T'; or y only enters b.

`relocate` and `replace` pass where more than a few cliques would change.

References:
    `join`, `split`: Giudici and Green, Decomposable graphical Gaussian model determination, Biometrika, 1999.
    `replace`, `regraft`: Chechetka and Guestrin, Efficient principled learning of thin junction trees, NIPS
    2007, section 6, note 4 (the moves of their hill climbing).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jtsolve.backends.support.mutable_tree import Change

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from jtsolve.backends.support.mutable_tree import MutableTree
    from jtsolve.core.varset import VarSet

_MOST = 12
"""Cliques that a move changes; more change too much at once to be worth their scores."""


_PARTNER, _ANYWHERE = 0.6, 0.1
"""How often the place for a variable is where a partner is, and anywhere; else it is near."""
_ALL, _ON, _SMALLER = 0.5, 0.5, 0.2
"""How often all own variables of a clique move; how often a walk to a place near by ends; how often a place
loses another variable."""
_ENTERS, _LEAVES, _ASIDE = 0.2, 0.2, 0.3
"""How often `replace` only lets a variable enter, or only leave; how often y is looked for on another
side."""


class Drawing(NamedTuple):
    """What moves are drawn by.

    Attributes:
        random: the random numbers.
        width: w, the most variables of a clique.
        partners: for each variable others that it goes well with, the best first; empty for none known.
    """

    random: Random
    width: int
    partners: list[list[int]]


class Move(NamedTuple):
    """A move and what it is worth.

    Attributes:
        plus: the sets whose scores it gains.
        minus: the sets whose scores it loses.
        change: what it does to the tree.
    """

    plus: list[VarSet]
    minus: list[VarSet]
    change: Change


def draw(mask: VarSet, random: Random) -> int:
    """Returns a random member of a set that is not empty."""
    place = int(random.random() * mask.bit_count())
    for _ in range(place):
        mask &= mask - 1
    return (mask & -mask).bit_length() - 1


def join(tree: MutableTree, by: Drawing) -> Move | None:
    """Returns the addition of a random edge."""
    random = by.random
    a = tree.random_node(random)
    if not tree.adjacent[a]:
        return None
    b, separator = random.choice(list(tree.adjacent[a].items()))
    if separator.bit_count() + 2 > by.width:
        return None
    one = separator | 1 << draw(tree.cliques[a] & ~separator, random)
    other = separator | 1 << draw(tree.cliques[b] & ~separator, random)
    change = Change(fresh=one | other, cut=((a, b),), links=(a, b))
    return Move([one | other, separator], [one, other], change)


def split(tree: MutableTree, by: Drawing) -> Move | None:
    """Returns the removal of a random edge that may go."""
    random = by.random
    node = tree.random_node(random)
    clique = tree.cliques[node]
    if clique & (clique - 1) == 0:
        return None
    u = 1 << draw(clique, random)
    v = 1 << draw(clique ^ u, random)
    moved = []
    for other, separator in tree.adjacent[node].items():
        if separator & u:
            if separator & v:
                return None
            moved.append(other)
    change = Change({node: clique ^ u}, clique ^ v, tuple((node, other) for other in moved), (node, *moved))
    return Move([clique ^ u, clique ^ v], [clique ^ u ^ v, clique], change)


def relocate(tree: MutableTree, by: Drawing) -> Move | None:
    """Returns the move of a random variable to a random place."""
    random = by.random
    start = tree.random_node(random)
    v = draw(tree.cliques[start], random)
    nodes = tree.nodes_with(start, v, _MOST)
    if len(nodes) > _MOST:
        return None
    return _moved(tree, by, nodes, 1 << v)


def regraft(tree: MutableTree, by: Drawing) -> Move | None:
    """Returns the move of all variables that only one clique holds, or of one of them."""
    random = by.random
    node = tree.random_node(random)
    own = tree.cliques[node]
    for separator in tree.adjacent[node].values():
        own &= ~separator
    if not own:
        return None
    return _moved(tree, by, [node], own if random.random() < _ALL else 1 << draw(own, random))


def _moved(tree: MutableTree, by: Drawing, nodes: list[int], rest: VarSet) -> Move | None:
    """Returns the move of the set R, which all of the nodes and no others hold, to a random set S'."""
    random = by.random
    host = _host(tree, nodes[0], rest, by)
    masks = {node: tree.cliques[node] & ~rest for node in nodes}
    base = _some(tree.cliques[host] & ~rest, by.width - rest.bit_count(), random)
    if len(nodes) == 1 and rest | base == tree.cliques[nodes[0]]:
        return None  # it would stay where it is
    plus, minus = [*masks.values(), rest | base], [*(tree.cliques[node] for node in nodes), base]
    for place, node in enumerate(nodes):
        for other in nodes[:place]:
            separator = tree.adjacent[node].get(other)
            if separator is not None:
                plus.append(separator)
                minus.append(separator & ~rest)
    return Move(plus, minus, Change(masks, rest | base, (), (host,)))


def _host(tree: MutableTree, start: int, rest: VarSet, by: Drawing) -> int:
    """Returns a node that holds a partner of some variable, or one by a random walk, or any."""
    random = by.random
    turn = random.random()
    if turn < _PARTNER and by.partners:
        partners = by.partners[draw(rest, random)]
        partner = partners[int(len(partners) * random.random() ** 2)]
        return random.choice(tree.nodes_with(tree.holder(partner), partner, _MOST))
    if turn > 1 - _ANYWHERE:
        return tree.random_node(random)
    node = start
    while tree.adjacent[node]:
        node = random.choice(list(tree.adjacent[node]))
        if random.random() < _ON:
            break
    return node


def _some(mask: VarSet, most: int, random: Random) -> VarSet:
    """Returns a random subset of at most so many members; large ones are more likely."""
    while mask.bit_count() > most:
        mask ^= 1 << draw(mask, random)
    while mask and random.random() < _SMALLER:
        mask ^= 1 << draw(mask, random)
    return mask


def replace(tree: MutableTree, by: Drawing) -> Move | None:
    """Returns the replacement of a variable by another in a connected part; or one only leaves or enters."""
    random = by.random
    b = tree.random_node(random)
    if not tree.adjacent[b]:
        return None
    a, separator = random.choice(list(tree.adjacent[b].items()))
    turn = random.random()
    leaving = entering = 0
    part = [b]
    if turn < 1 - _ENTERS:
        if not separator:
            return None
        x = draw(separator, random)
        leaving = 1 << x
        part = tree.nodes_with(b, x, _MOST, barred=a)
        if len(part) > _MOST:
            return None
    if turn > _LEAVES:
        entering = _entering(tree, random, part, a)
        if not entering:
            return None
        if not leaving and tree.cliques[b].bit_count() >= by.width:
            return None
    return _changed(tree, part, leaving, entering)


def _entering(tree: MutableTree, random: Random, part: list[int], a: int) -> VarSet:
    """Returns a random y of a clique next to the part, as a set, that the part does not hold; ∅ for none."""
    inside = 0
    for node in part:
        inside |= tree.cliques[node]
    if random.random() < _ASIDE:
        node = random.choice(part)
        a = random.choice([other for other in tree.adjacent[node] if other not in part] or [a])
    outside = tree.cliques[a] & ~inside
    return 1 << draw(outside, random) if outside else 0


def _changed(tree: MutableTree, part: list[int], leaving: VarSet, entering: VarSet) -> Move:
    """Returns the move in which one set of a part of the tree becomes another."""
    masks = {node: tree.cliques[node] & ~leaving | entering for node in part}
    plus, minus = list(masks.values()), [tree.cliques[node] for node in part]
    for node in part:
        for other, separator in tree.adjacent[node].items():
            if other in masks:
                if other > node:
                    continue
                after = separator & ~leaving | entering
            else:
                after = masks[node] & tree.cliques[other]
            if after != separator:
                plus.append(separator)
                minus.append(after)
    return Move(plus, minus, Change(masks))


MOVES: tuple[Callable[[MutableTree, Drawing], Move | None], ...] = (
    join, split, relocate, regraft, replace, replace
)  # fmt: skip
"""What is drawn from, all equally likely; `replace` twice, since it alone keeps full cliques full."""
