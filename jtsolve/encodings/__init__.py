"""Problem -> formula as plain data, and the way back. Pure: no solver is imported here.

`formula` is the common form, `family` (with `builder`) the formulation. `clutter_clauses` adds cuts,
`rounding` makes weights whole, `cnf` and `wcnf` make clauses. `export` and `formats` write files for outside
solvers, `answers` reads their answers.
"""
