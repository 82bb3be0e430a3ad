"""Comparison of backends: instances × treewidths × backends × seeds, each run in its own process.

`grid` expands a request into specifications; `running` turns each specification into a row, on this machine
or on a cluster; `folder` keeps the plan and the rows on disk; `reporting` judges the rows and writes the
report.
"""
