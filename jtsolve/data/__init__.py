"""Data by name: public sets, which `registry` lists and `fetch` downloads, and the installed `examples`."""

from jtsolve.data.examples import example

__all__ = ["example"]
