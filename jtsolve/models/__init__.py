"""Models: a junction tree with the tables of its cliques, fitted to data, asked, written and read."""

from __future__ import annotations
