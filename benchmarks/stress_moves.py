"""Makes random moves of local search, and checks each against networkx and a recomputed score.

    python benchmarks/stress_moves.py --moves 100000

After every move that is made: the graph is chordal and its maximal cliques are those of the tree (networkx),
no clique is too large, the separators at the tree edges are intersections, and the recomputed score differs
from the previous one by the gain that the move claimed. Every fifth move is undone, which must restore the
tree. Scores are independent normal numbers. It prints a table of the moves; a fault ends it.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from random import Random
from time import process_time

import networkx as nx
import numpy as np

from jtsolve.backends.search.moves import MOVES, MoveProposals
from jtsolve.backends.search.scores import CachedScores
from jtsolve.backends.support.mutable_tree import MutableTree
from jtsolve.core.machine import describe_machine
from jtsolve.core.scores import DenseScores
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import count_bounded_subsets, varset

CASES = ((6, 6), (10, 3), (12, 4), (16, 3), (20, 2))
"""Variables and the size of the largest clique."""


def stress(n: int, width: int, moves: int, seed: int) -> Counter[str]:
    """Makes random moves, and returns the number of each kind; raises AssertionError at a fault."""
    values = np.random.default_rng(seed).standard_normal(count_bounded_subsets(n, width))
    values[0] = 0.0
    scores = DenseScores(n, width, values)
    random = Random(seed)  # noqa: S311 - nothing here is secret
    known = CachedScores(scores, random)
    by = MoveProposals(random, width, known.partners(4))
    tree = MutableTree(
        JunctionTree(n, tuple(1 << v for v in range(n)), tuple((v, v + 1) for v in range(n - 1)))
    )
    before, made = tree.frozen(), Counter[str]()
    while made.total() < moves:
        kind = random.choice(MOVES)
        tree.move_tree_edge(random)
        assert tree.frozen() == before, "moving a tree edge changed the graph"
        move = kind(tree, by)
        if move is None:
            continue
        known.fetch([*move.plus, *move.minus])
        gain = known.gain(move.plus, move.minus)
        tree.apply(move.change)
        after = tree.frozen()  # validates running intersection, and that no clique is within another
        graph = after.to_graph()
        assert nx.is_chordal(graph), kind.__name__
        assert {varset(clique) for clique in nx.chordal_graph_cliques(graph)} == set(after.cliques)
        assert after.treewidth < width, kind.__name__
        for node, adjacent in tree.adjacent.items():
            for other, separator in adjacent.items():
                assert separator == tree.cliques[node] & tree.cliques[other], kind.__name__
        assert abs(after.score(scores) - before.score(scores) - gain) < 1e-9, kind.__name__
        made[kind.__name__] += 1
        if random.randrange(5) == 0:
            tree.undo()
            assert tree.frozen() == before, "a move was not taken back"
        else:
            before = after
    return made


def main() -> None:
    """Runs all cases and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--moves", type=int, default=100_000, help="in all")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    machine = describe_machine(1)
    print(f"{machine['processor']}, one thread; networkx {nx.__version__}, jtsolve {machine['jtsolve']}.\n")
    print(f"Command: `{' '.join(['python', 'benchmarks/stress_moves.py', *sys.argv[1:]])}`\n")
    names = sorted({kind.__name__ for kind in MOVES})
    print(f"| n | largest clique | moves | {' | '.join(names)} | faults | CPU seconds |")
    print("|" + "---|" * (len(names) + 5))
    for n, width in CASES:
        began = process_time()
        made = stress(n, width, -(-arguments.moves // len(CASES)), arguments.seed + n)
        counts = " | ".join(str(made[name]) for name in names)
        print(f"| {n} | {width} | {made.total()} | {counts} | 0 | {process_time() - began:.0f} |", flush=True)


if __name__ == "__main__":
    main()
