"""The moves of local search on junction trees: each keeps running intersection, so the graph stays chordal.

f is the local score, w the largest clique size allowed. A set within a neighbour counts once as a clique and
once as a separator, so the gains are right no matter which nodes are merged afterwards.

- `join`: adds the edge uv, for a tree edge with separator S, u and v in the cliques at its ends. S is
  N(u) ∩ N(v) and separates u from v: S∪{u,v} is inserted. Gain f(S∪{u,v}) + f(S) − f(S∪u) − f(S∪v).
- `split`: removes the edge uv, where only the clique C contains both: C−u and C−v with the separator C−u−v
  replace it, and each neighbour is linked to the one that contains its separator.
- `relocate`: removes a variable v from every clique that contains it, and joins it to a set S' within some
  clique. Deleting a vertex keeps a graph chordal, and v is simplicial afterwards. If only one clique
  contained it, this is the simplicial move.
- `regraft`: the variables R that only the leaf clique C contains leave their separator S for a set S' within
  some clique: f(R∪S') − f(S') − f(C) + f(S); also for a part of R, and for a C that is not a leaf.
- `replace`: for a tree edge ab and x in its separator, T' is the part of the cliques that contain x on b's
  side. In T', y replaces x, where y is in a clique next to T' and in none of T'. The cliques with x are still
  connected without T', those with y now with T'. Or x only leaves T'; or y only enters b.

`relocate` and `replace` make no move where more than `MoveProposals.most` cliques would change.

References:
    `join`, `split`: Giudici and Green, Decomposable graphical Gaussian model determination, Biometrika, 1999.
    `replace`, `regraft`: Chechetka and Guestrin, Efficient principled learning of thin junction trees, NIPS
    2007, section 6, note 4 (the moves of their hill climbing).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from jtsolve.backends.support.mutable_tree import Change

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from jtsolve.backends.support.mutable_tree import MutableTree
    from jtsolve.core.varset import VarSet


@dataclass(frozen=True, slots=True)
class MoveProposals:
    """The distribution of moves: random numbers, the problem, and the probabilities.

    Attributes:
        random: the random numbers.
        width: w, the largest clique size.
        partners: for each variable, those of the largest gains, in decreasing order; empty if unknown.
        most: the largest number of cliques that a move changes; more are hardly worth their scores.
        partner: probability that a variable moves to a clique of a partner.
        anywhere: probability that it moves to any clique; else it moves to one near by.
        all_own: probability that all variables that only one clique contains move, not one of them.
        ends: probability that a walk to a clique near by ends after a step.
        smaller: probability that the set S' loses another variable.
        enters: probability that `replace` only adds a variable.
        leaves: probability that it only removes one.
        aside: probability that y comes from another side than x.
    """

    random: Random
    width: int
    partners: list[list[int]]
    most: int = 12
    partner: float = 0.6
    anywhere: float = 0.1
    all_own: float = 0.5
    ends: float = 0.5
    smaller: float = 0.2
    enters: float = 0.2
    leaves: float = 0.2
    aside: float = 0.3


class Move(NamedTuple):
    """A move.

    Attributes:
        plus: the sets whose scores it gains.
        minus: the sets whose scores it loses.
        change: its effect on the tree.
    """

    plus: list[VarSet]
    minus: list[VarSet]
    change: Change


def random_member(mask: VarSet, random: Random) -> int:
    """Returns a random member of a nonempty set."""
    index = int(random.random() * mask.bit_count())
    for _ in range(index):
        mask &= mask - 1
    return (mask & -mask).bit_length() - 1


def join(tree: MutableTree, by: MoveProposals) -> Move | None:
    """Returns the addition of a random edge."""
    random = by.random
    a = tree.random_node(random)
    if not tree.adjacent[a]:
        return None
    b, separator = random.choice(list(tree.adjacent[a].items()))
    if separator.bit_count() + 2 > by.width:
        return None
    one = separator | 1 << random_member(tree.cliques[a] & ~separator, random)
    other = separator | 1 << random_member(tree.cliques[b] & ~separator, random)
    change = Change(fresh=one | other, cut=((a, b),), links=(a, b))
    return Move([one | other, separator], [one, other], change)


def split(tree: MutableTree, by: MoveProposals) -> Move | None:
    """Returns the removal of a random edge, if the graph stays chordal."""
    random = by.random
    node = tree.random_node(random)
    clique = tree.cliques[node]
    if clique & (clique - 1) == 0:
        return None
    u = 1 << random_member(clique, random)
    v = 1 << random_member(clique ^ u, random)
    moved = []
    for other, separator in tree.adjacent[node].items():
        if separator & u:
            # Another clique holds both ends: without the edge, the graph would not be chordal.
            if separator & v:
                return None
            moved.append(other)
    # Neighbours whose separator holds u go to the part that keeps u.
    change = Change({node: clique ^ u}, clique ^ v, tuple((node, other) for other in moved), (node, *moved))
    return Move([clique ^ u, clique ^ v], [clique ^ u ^ v, clique], change)


def relocate(tree: MutableTree, by: MoveProposals) -> Move | None:
    """Returns the move of a random variable to a random set."""
    random = by.random
    start = tree.random_node(random)
    v = random_member(tree.cliques[start], random)
    nodes = tree.nodes_with(start, v, by.most)
    if len(nodes) > by.most:
        return None
    return _moved(tree, by, nodes, 1 << v)


def regraft(tree: MutableTree, by: MoveProposals) -> Move | None:
    """Returns the move of all variables that only one clique contains, or of one of them."""
    random = by.random
    node = tree.random_node(random)
    own = tree.cliques[node]
    for separator in tree.adjacent[node].values():
        own &= ~separator
    if not own:
        return None
    return _moved(tree, by, [node], own if random.random() < by.all_own else 1 << random_member(own, random))


def _moved(tree: MutableTree, by: MoveProposals, nodes: list[int], rest: VarSet) -> Move | None:
    """Returns the move of the set R, which exactly these nodes contain, to a random set S'."""
    host = _host(tree, nodes[0], rest, by)
    masks = {node: tree.cliques[node] & ~rest for node in nodes}
    base = _some(tree.cliques[host] & ~rest, by.width - rest.bit_count(), by)
    if len(nodes) == 1 and rest | base == tree.cliques[nodes[0]]:
        return None  # nothing would move
    plus, minus = [*masks.values(), rest | base], [*(tree.cliques[node] for node in nodes), base]
    for index, node in enumerate(nodes):
        for other in nodes[:index]:
            separator = tree.adjacent[node].get(other)
            # The old separator loses v.
            if separator is not None:
                plus.append(separator)
                minus.append(separator & ~rest)
    return Move(plus, minus, Change(masks, rest | base, (), (host,)))


def _host(tree: MutableTree, start: int, rest: VarSet, by: MoveProposals) -> int:
    """Returns a node that contains a partner of some variable, or one reached by a random walk, or any."""
    random = by.random
    turn = random.random()
    if turn < by.partner and by.partners:
        partners = by.partners[random_member(rest, random)]
        # The square favours the first partners, which gain most.
        partner = partners[int(len(partners) * random.random() ** 2)]
        return random.choice(tree.nodes_with(tree.holder(partner), partner, by.most))
    if turn > 1 - by.anywhere:
        return tree.random_node(random)
    node = start
    while tree.adjacent[node]:
        node = random.choice(list(tree.adjacent[node]))
        if random.random() < by.ends:
            break
    return node


def _some(mask: VarSet, most: int, by: MoveProposals) -> VarSet:
    """Returns a random subset of at most `most` members; large ones are more likely."""
    random = by.random
    while mask.bit_count() > most:
        mask ^= 1 << random_member(mask, random)
    while mask and random.random() < by.smaller:
        mask ^= 1 << random_member(mask, random)
    return mask


def replace(tree: MutableTree, by: MoveProposals) -> Move | None:
    """Returns the replacement of a variable by another in a connected part, or only a removal or addition."""
    random = by.random
    b = tree.random_node(random)
    if not tree.adjacent[b]:
        return None
    a, separator = random.choice(list(tree.adjacent[b].items()))
    turn = random.random()
    leaving = entering = 0
    part = [b]
    if turn < 1 - by.enters:
        if not separator:
            return None
        x = random_member(separator, random)
        leaving = 1 << x
        part = tree.nodes_with(b, x, by.most, barred=a)
        if len(part) > by.most:
            return None
    if turn > by.leaves:
        entering = _entering(tree, by, part, a)
        if not entering:
            return None
        if not leaving and tree.cliques[b].bit_count() >= by.width:
            return None
    return _changed(tree, part, leaving, entering)


def _entering(tree: MutableTree, by: MoveProposals, part: list[int], a: int) -> VarSet:
    """Returns {y} for a random y of a clique next to the part that the part does not contain; ∅ for none."""
    random = by.random
    inside = 0
    for node in part:
        inside |= tree.cliques[node]
    if random.random() < by.aside:
        node = random.choice(part)
        a = random.choice([other for other in tree.adjacent[node] if other not in part] or [a])
    outside = tree.cliques[a] & ~inside
    return 1 << random_member(outside, random) if outside else 0


def _changed(tree: MutableTree, part: list[int], leaving: VarSet, entering: VarSet) -> Move:
    """Returns the move in which one set replaces another in a part of the tree."""
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


MOVES: tuple[Callable[[MutableTree, MoveProposals], Move | None], ...] = (
    join, split, relocate, regraft, replace, replace
)  # fmt: skip
"""All equally likely; `replace` twice, since it alone keeps full cliques full."""
