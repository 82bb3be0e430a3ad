"""Instances and results as files; the score files of other programs."""
