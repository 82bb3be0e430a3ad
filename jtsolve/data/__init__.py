"""Public data sets by name, and Bayesian networks to draw data from.

`registry` lists the sets with source and hash, and `fetch` gets them; `bif` reads a network, and `sample`
draws from it. No data set is part of the package.
"""
