"""Data by name: public data sets (listed by `registry`, downloaded by `fetch`) and installed `examples`."""

from jtsolve.data.examples import example

__all__ = ["example"]
