"""Comparison of backends: instances × treewidths × backends × seeds, each run in its own process.

`grid` expands a request into specifications; `running` performs each and returns a row; `folder` stores the
plan and the rows; `reporting` verifies the rows and writes the report.
"""
