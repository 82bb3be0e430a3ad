"""Runs in processes of their own with hard limits: on this machine or on a Dask cluster."""
