"""Compiled queries of circuits."""
