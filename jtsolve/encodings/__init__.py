"""Problem -> formula as plain data, and the way back. Pure: no solver is imported here.

`families` is what the formulations have in common: the sets and the (vertex, parents) families that a tree
may use, their weights, and which constraints are a matter of which families exist and which are rows.
"""
