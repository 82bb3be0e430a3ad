"""The version, where all layers may import it from."""

__version__ = "0.1.0"
