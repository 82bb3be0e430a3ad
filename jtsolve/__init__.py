"""Junction trees: chordal (decomposable) Markov networks of bounded treewidth, learned from data.

From a data frame, or a file, to a tree with proof, its picture, and answers:

>>> import jtsolve as jt
>>> survey = {
...     "Age": ["18–39", "40–60", "18–39", "40–60", "61+"] * 40,
...     "Smoker": [True, False, True, False, False] * 40,
...     "Cough": [True, False, True, True, False] * 40,
... }
>>> result = jt.learn(survey, treewidth=1, time=60)
>>> result.status, result.cliques
('optimal', [('Age', 'Smoker'), ('Age', 'Cough')])
>>> result.graph().number_of_edges()
2
>>> model = result.fit()
>>> model.predict({"Age": ["61+"], "Cough": [False]}, "Smoker").to_list()
[False]

From an instance, that is a file of scores, by a backend of your choice; `jt.backends()` lists them, and
`jt.example` names files to try:

>>> problem = jt.read(jt.example("zoo"))
>>> jt.solve(problem, backend="dp", treewidth=1).status
'optimal'
>>> jt.backends()["dp"]
'The dynamic programming over recursive partition trees. Exact, for problems that fit the memory.'

`jt.learn` and `jt.solve` return a `jt.Solution`, or with `k_best` the best ones, `jt.Solutions`; `jt.fit`
returns a `jt.Model` of any kind, and `jt.read` a `jt.Problem`. `jt.triangulate` makes a `jt.NamedTree` of
your own graph. `jt.select` finds an undirected graph that need not be chordal, a `SelectedGraph`.
`jt.average` returns a `jt.GraphPosterior` over all junction trees, and `jt.population` that of the size
of a population.
Errors are a `jt.JtsolveError`: `jt.InputError` for data, `jt.ChoiceError` for options, `jt.LimitError` for
too little time or memory. They name the fault and the remedy:

>>> try:
...     jt.solve(problem, backend="db")
... except jt.ChoiceError as error:
...     print(str(error).partition(";")[0])
there is no backend 'db'
"""

from copyreg import pickle as _pickle
from types import MappingProxyType as _MappingProxyType

from jtsolve.core.notebook import show_with as _show_with
from jtsolve.core.version import __version__ as __version__

_PLACES = {
    **dict.fromkeys(("ChoiceError", "InputError", "JtsolveError", "LimitError"), "errors"),
    "GraphPosterior": "averaging.posterior",
    "Model": "models.framed",
    "NamedTree": "study.trees",
    "Problem": "core.problem",
    "Solution": "study.solution",
    "Solutions": "study.solution",
    "average": "api",
    "backends": "backends",  # the package itself, which can be called
    "example": "data.examples",
    "fit": "study.solution",
    "learn": "api",
    "population": "api",
    "read": "api",
    "select": "api",
    "solve": "api",
    "triangulate": "study.trees",
}
"""The module of each public name, imported on first use: `import jtsolve` is instant. Types: the stub."""

__all__ = list(_PLACES)


def _drawn(*what) -> str:  # type: ignore[no-untyped-def]  # noqa: ANN002 - as `draw.as_html`
    """Draws a value in a notebook; drawing is loaded when the first one is shown."""
    from jtsolve.draw.html import as_html

    return as_html(*what)


_show_with(_drawn)


def _read_only(values):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - as `MappingProxyType`
    return _MappingProxyType(values)


# Values hold read-only mappings, which Python itself neither pickles nor copies.
_pickle(_MappingProxyType, lambda proxy: (_read_only, (dict(proxy),)))  # type: ignore[arg-type]


def __getattr__(name: str) -> object:
    """Returns a public name from its module."""
    if name not in _PLACES:
        raise AttributeError(f"module 'jtsolve' has no attribute '{name}'")
    from importlib import import_module

    module = import_module(f"jtsolve.{_PLACES[name]}")
    return getattr(module, name, module)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
