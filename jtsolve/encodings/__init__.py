"""Problem -> formula as plain data, and the way back. Pure: no solver is imported here.

`formula` is the common form; the formulations are `family` (with `builder`) and `balancing`.
`clutter_clauses` adds cuts, `rounding` makes weights whole, `cnf` and `wcnf` make clauses. `export` and
`formats` write files for outside solvers, `answers` reads their answers.
"""
