"""Junction trees over named variables: of a solution, of a result file, or of the user's own graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from jtsolve.errors import ChoiceError, InputError, at, public
from jtsolve.io.documents import names_of
from jtsolve.options import GRAPH, TREE, Door
from jtsolve.tables.frames import is_listing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import networkx as nx

    from jtsolve.core.tree import JunctionTree
    from jtsolve.core.varset import VarSet


@public
class ByNames(Protocol):
    """The views of a junction tree by names; implementations hold the tree."""

    __slots__ = ()

    @property
    def named(self) -> NamedTree:
        """The tree by names."""

    @property
    def cliques(self) -> list[tuple[Any, ...]]:
        """The maximal cliques."""
        return self.named.labelled(self.named.tree.cliques)

    @property
    def separators(self) -> list[tuple[Any, ...]]:
        """The separators, one for each edge of the tree."""
        return self.named.labelled(self.named.tree.separators)

    @property
    def treewidth(self) -> int:
        """The size of the largest clique minus one."""
        return self.named.tree.treewidth

    @property
    def generating_class(self) -> str:
        """The cliques as the generators of a log-linear model: "[A B][B C]"."""
        from jtsolve.draw.text import generating_class

        return generating_class(self.named.tree, self.named.names)

    @property
    def r_formula(self) -> str:
        """The same as a formula of R, for MASS::loglm, gRim::dmod or, after the counts, glm."""
        from jtsolve.draw.text import r_formula

        return r_formula(self.named.tree, self.named.names)

    def graph(self) -> nx.Graph:
        """Returns the chordal graph, a networkx graph whose nodes are the names."""
        import networkx as nx

        one = self.named
        return nx.relabel_nodes(nx.relabel_nodes(one.tree.to_graph(), dict(enumerate(one.names))), one.labels)

    def text(self, *, graph: bool = False) -> str:
        """Returns the tree, or the graph of the variables, as text."""
        from jtsolve.draw.text import graph_text, tree_text

        return (graph_text if graph else tree_text)(self.named.tree, self.named.names)

    def show(self, path: str | Path | None = None, *, graph: bool = False) -> None:
        """Draws the tree, or the graph of the variables, into a file, or prints it as text.

        A file is .svg, .png or .dot, for Graphviz. A page (.html) shows the graph at any size: it zooms, and
        finds variables by name.

        Raises:
            ChoiceError: the suffix is another, or it is too large for a picture.
        """
        if path is None:
            print(self.text(graph=graph))  # noqa: T201 - requested
            return
        from jtsolve.draw.picture import draw_graph, draw_tree

        (draw_graph if graph else draw_tree)(self.named.tree, self.named.names, path)


@public
@dataclass(frozen=True, slots=True, repr=False)
class NamedTree(ByNames):
    """A junction tree over named variables.

    Args:
        tree: over the variables, in their order; its sets are bit masks.
        names: of the variables.
        source: of the tree in messages: a file, or a phrase.
        facts: remarks for the provenance of a model on it.
        gaussian: whether its graph was learned from real numbers.
        labels: of the columns that the user names otherwise, such as by numbers or tuples, by name.

    >>> import jtsolve as jt
    >>> jt.triangulate([("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")]).cliques
    [('a', 'b', 'd'), ('b', 'c', 'd')]
    """

    tree: JunctionTree
    names: tuple[str, ...]
    source: str = "the tree"
    facts: Mapping[str, Any] = field(default_factory=dict)
    gaussian: bool = False
    labels: Mapping[str, Any] = field(default_factory=dict)

    @property
    def named(self) -> NamedTree:
        """The tree itself."""
        return self

    def labelled(self, sets: Sequence[VarSet]) -> list[tuple[Any, ...]]:
        """Returns sets by the user's names."""
        shown = [self.labels.get(name, name) for name in self.names]
        return [tuple(names_of(one, shown)) for one in sets]

    def over(self, names: Sequence[str]) -> JunctionTree:
        """Returns the tree over variables in another order.

        Raises:
            InputError: these are other variables.
        """
        if missing := [name for name in self.names if name not in names]:
            remedy = "keep the columns of the tree, or solve again"
            raise InputError(self.source, "", f"the columns lack '{missing[0]}'", remedy)
        assert len(names) == len(self.names), "columns are those of the tree"
        return self.tree.relabelled([list(names).index(name) for name in self.names])

    def __repr__(self) -> str:
        size = f"{len(self.tree.cliques)} cliques of {self.tree.n} variables, treewidth {self.treewidth}"
        return f"NamedTree({size})"

    def _repr_html_(self) -> str:
        from jtsolve.draw.html import as_html

        return as_html([repr(self)], self.tree, self.names)


def structure_of(tree: NamedTree | str | Path | None, graph: Any) -> NamedTree | None:
    """Returns the tree to fit or to begin with: as given, of a result file, or of a graph; None for none.

    Args:
        tree: a tree, or the path of a result.
        graph: see `triangulate`.

    Raises:
        ChoiceError: both are given.
        InputError: a file is malformed, or has no tree.
    """
    if tree is not None and graph is not None:
        raise ChoiceError(f"{TREE} and {GRAPH} both give a tree; give one of the two")
    if graph is not None:
        return triangulate(graph)
    if not isinstance(tree, str | Path):
        return tree
    from jtsolve.io.result import read_result, tree_of

    return NamedTree(*tree_of(read_result(tree), str(tree)), str(tree), {"tree": Path(tree).name})


@at(Door.PYTHON)
def triangulate(graph: Any) -> NamedTree:
    """Returns the junction tree of the min-fill triangulation of a graph.

    Args:
        graph: a graph of networkx or of `jt.select`, pairs of names, or the path of a file: a graph, a
            result, or a posterior, whose likely edges count.

    Raises:
        InputError: the file cannot be read, or it is not a graph.

    >>> import jtsolve as jt
    >>> jt.triangulate([("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")]).separators
    [('b', 'd')]
    """
    from jtsolve.core.triangulation import triangulation
    from jtsolve.study.graphs import graph_in, labels_of_graph

    if is_listing(graph) and not hasattr(graph, "nodes"):
        graph = list(graph)
    found, gaussian, source = graph_in(graph)
    tree = triangulation(found)
    facts = {
        "graph": Path(source).name,
        "triangulation": "min-fill",
        "edges": found.size,
        "fill": len(tree.graph_edges) - found.size,
    }
    return NamedTree(tree, found.names, source, facts, gaussian, labels_of_graph(graph))
