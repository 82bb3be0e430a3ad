"""jtsolve learns junction trees: chordal (decomposable) Markov networks of bounded treewidth.

A `Problem` says what is wanted (local scores and constraints), a backend how to look for it, and
`solve(problem, backend, limits)` returns a checked `Result`.
"""

__version__ = "0.1.0"
