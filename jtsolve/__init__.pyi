from typing import Any, overload

from jtsolve.api import ChoiceError as ChoiceError
from jtsolve.api import InputError as InputError
from jtsolve.api import JtsolveError as JtsolveError
from jtsolve.api import LimitError as LimitError
from jtsolve.api import Model as Model
from jtsolve.api import NamedTree as NamedTree
from jtsolve.api import Problem as Problem
from jtsolve.api import Solution as Solution
from jtsolve.api import Solutions as Solutions
from jtsolve.api import average as average
from jtsolve.api import example as example
from jtsolve.api import fit as fit
from jtsolve.api import population as population
from jtsolve.api import read as read
from jtsolve.api import select as select
from jtsolve.api import triangulate as triangulate

__version__: str
__all__ = [
    "ChoiceError",
    "InputError",
    "JtsolveError",
    "LimitError",
    "Model",
    "NamedTree",
    "Problem",
    "Solution",
    "Solutions",
    "average",
    "backends",
    "example",
    "fit",
    "learn",
    "population",
    "read",
    "select",
    "solve",
    "triangulate",
]

def backends() -> dict[str, str]: ...

# With k_best or within, a list of solutions; `jtsolve.api` has the options.
@overload
def learn(
    data: Any = None, treewidth: int | None = 2, *, k_best: None = None, within: None = None, **options: Any
) -> Solution: ...
@overload
def learn(data: Any = None, treewidth: int | None = 2, **options: Any) -> Solutions: ...
@overload
def solve(
    problem: Any, treewidth: int | None = None, *, k_best: None = None, within: None = None, **options: Any
) -> Solution: ...
@overload
def solve(problem: Any, treewidth: int | None = None, **options: Any) -> Solutions: ...
