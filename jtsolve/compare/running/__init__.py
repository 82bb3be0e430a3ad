"""Runs in child processes with hard limits."""
