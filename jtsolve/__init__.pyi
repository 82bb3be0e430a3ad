from typing import Any, Literal, overload

from jtsolve.api import population as population
from jtsolve.api import read as read
from jtsolve.api import select as select
from jtsolve.averaging.posterior import GraphPosterior as GraphPosterior
from jtsolve.core.problem import Problem as Problem
from jtsolve.data.examples import example as example
from jtsolve.errors import ChoiceError as ChoiceError
from jtsolve.errors import InputError as InputError
from jtsolve.errors import JtsolveError as JtsolveError
from jtsolve.errors import LimitError as LimitError
from jtsolve.models.framed import Model as Model
from jtsolve.study.solution import Solution as Solution
from jtsolve.study.solution import Solutions as Solutions
from jtsolve.study.solution import fit as fit
from jtsolve.study.trees import NamedTree as NamedTree
from jtsolve.study.trees import triangulate as triangulate

__version__: str
__all__: list[str]  # noqa: PYI035 - the names above and below

def backends() -> dict[str, str]: ...

# With k_best or within, a list of solutions; with trees, a list of drawn ones; `jtsolve.api` has the options.
@overload
def average(
    data: Any = None, treewidth: int | None = None, *, trees: Literal[0] = 0, **options: Any
) -> GraphPosterior: ...
@overload
def average(data: Any = None, treewidth: int | None = None, **options: Any) -> list[NamedTree]: ...
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
