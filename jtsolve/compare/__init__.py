"""Comparison of backends: instances × treewidths × backends × seeds, each run a process of its own.

The unit of work is one specification in, one row out (`spec`); everything else arranges such units:

    grid        what the user asks for, as text or a file  -> specifications
    run         one specification in this process          -> what it gave
    supervise   one specification in a process of its own, with hard limits -> a row, whatever happens
    local, cluster   many of them: on this machine, on a Dask cluster
    folder      what is kept on disk: the plan, and one JSON line per finished run
    judge       every tree checked again, and every run against every other
    tables, ranks, charts, trees, page   the report
"""
