"""Runs in child processes with hard limits, on this machine or on a Dask cluster."""
