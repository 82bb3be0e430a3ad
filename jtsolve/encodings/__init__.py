"""Problem -> formula as plain data, and the way back. Pure: no solver is imported here.

`families` is what the formulations have in common: the sets and the (vertex, parents) families that a tree
may use, their weights, and which constraints are a matter of which families exist and which are rows.
`formula` is what they make: variables, clauses, rows, an objective. The formulations are `family` and
`imset`, from the common `draft`, and `balancing`; `cuts` adds clauses to families. `rounding` makes weights
whole, `clausal` and `maxsat` make clauses of everything. `exporting` and `writing` make files, `decoding`
reads the answers.
"""
