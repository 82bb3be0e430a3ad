"""Problem -> formula as plain data, and the way back. Pure: no solver is imported here.

`formula` is the common form; the formulations are `family` and `balancing`.
`rounding` makes weights whole, `cnf` makes clauses. `formats` writes files for
outside solvers, `answers` reads their answers.
"""
