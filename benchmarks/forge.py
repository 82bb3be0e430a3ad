"""Forged certificates: structure-aware mutations, judged by two verifiers.

    python benchmarks/forge.py --problems 10000 --forgeries 10 --journal forge.jsonl --findings findings

Problems are random, of one to six variables, under up to three constraints, with scores of 10^-9 to 10^9
nats. `clutter` solves each and writes a certificate, which `jtsolve.verify.certificate` and
`tools/verify_certificate.py` must accept; some certificates are of the k best trees. Then certificate and
result are forged by one to three mutations each, mostly with a claim that is made false too. Enumerating all
chordal graphs gives the truth. Both verifiers must agree on every certificate, and neither may accept a false
claim: a bound below a permitted tree's score, "infeasible" where there is a permitted tree, constraints that
do not match the instance.

The journal has a line per problem, so that a run can be stopped and continued. Faults are written to the
folder of findings: instance, result and certificate. The exit code is 1 if there is a finding.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from math import fsum, inf, nextafter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

HERE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE / "tests"))

from journals import read_lines  # noqa: E402
from problems import random_problem, repeatable  # noqa: E402 - found by the line above

from jtsolve.backends.brute import chordal_trees  # noqa: E402
from jtsolve.backends.clutter.backend import ClutterCuts  # noqa: E402
from jtsolve.core.problem import ALL_FEATURES, Constraints, Problem, ProblemFeature  # noqa: E402
from jtsolve.core.run import Limits, Run  # noqa: E402
from jtsolve.core.scores import DenseScores, SparseScores  # noqa: E402
from jtsolve.errors import InputError, LimitError  # noqa: E402
from jtsolve.io.certificate import CertificateDocument  # noqa: E402
from jtsolve.io.constraints import constraints_from_document  # noqa: E402
from jtsolve.io.instance import read_problem, write_problem  # noqa: E402
from jtsolve.io.ranking import FORMAT as RANKING  # noqa: E402
from jtsolve.io.ranking import RankingDocument, ranking_to_json  # noqa: E402
from jtsolve.io.result import ResultDocument, plain_result  # noqa: E402
from jtsolve.kbest import k_best  # noqa: E402
from jtsolve.proving import prove_ranking  # noqa: E402
from jtsolve.solving import solve  # noqa: E402
from jtsolve.verify.certificate import verify  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from numpy.typing import NDArray

    from jtsolve.core.tree import JunctionTree

MAGNITUDES = (1e-9, 1e-4, 1.0, 1.0, 1.0, 1e3, 1e6, 1e8, 1e9)
HUGE = (0, 1, -1, 2**31, 2**53, 2**60, 2**61, 2**61 + 1, -(2**61), 10**30)
SHIFTS = (-2001, -2000, -300, -30, -1, 0, 1, 25, 30, 62, 300, 2000, 2001)
SECONDS = 10.0
"""Limit of a solve; a certificate of a bound above the score is honest too."""


def load_second() -> Any:
    """Returns the program of the second verifier as a module."""
    spec = spec_from_file_location("verify_certificate", HERE / "tools" / "verify_certificate.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SECOND = load_second()


# The truth.


class Graphs(NamedTuple):
    """All chordal graphs on n vertices: their trees, and which sets are cliques and how often separators."""

    trees: tuple[JunctionTree, ...]
    cliques: NDArray[np.float64]
    separators: NDArray[np.float64]
    edges: list[frozenset[int]]


@cache
def graphs_of(n: int) -> Graphs:
    """Returns the chordal graphs on n vertices, with matrices of shape (graphs, sets)."""
    trees = chordal_trees(n)
    cliques = np.zeros((len(trees), 1 << n))
    separators = np.zeros((len(trees), 1 << n))
    for i, tree in enumerate(trees):
        cliques[i, list(tree.cliques)] = 1
        for mask in tree.separators:
            separators[i, mask] += 1
    return Graphs(trees, cliques, separators, [tree.edge_sets for tree in trees])


def permitted(problem: Problem, limits: Constraints) -> NDArray[np.bool_]:
    """Returns which chordal graphs meet the constraints, set by set."""
    n = problem.n
    graphs = graphs_of(n)

    def bad_clique(mask: int) -> bool:
        large = limits.max_treewidth is not None and mask.bit_count() > limits.max_treewidth + 1
        broken = any(edge & mask == edge for edge in limits.forbidden_edges)
        most = limits.max_clique_cells
        large = large or (most is not None and problem.cells(mask) > most)
        return large or broken or mask in limits.forbidden_cliques or problem.scores.score(mask) == -inf

    def bad_separator(mask: int) -> bool:
        large = limits.max_separator_size is not None and mask.bit_count() > limits.max_separator_size
        unlisted = limits.allowed_separators is not None and mask not in limits.allowed_separators
        odd = large or unlisted or mask.bit_count() < limits.min_separator_size
        return odd or mask in limits.forbidden_separators or problem.scores.score(mask) == -inf

    sets = range(1 << n)
    broken = graphs.cliques @ [float(bad_clique(mask)) for mask in sets]
    broken += graphs.separators @ [float(bad_separator(mask)) for mask in sets]
    found: NDArray[np.bool_] = broken == 0
    if limits.required_edges:
        found &= [edges >= limits.required_edges for edges in graphs.edges]
    if limits.forbidden_graphs:
        found &= [edges not in limits.forbidden_graphs for edges in graphs.edges]
    if limits.max_cliques is not None:
        found &= graphs.cliques.sum(axis=1) <= limits.max_cliques
    return found


def best_score(problem: Problem, limits: Constraints) -> float:
    """Returns the largest score of a permitted graph, as the nearest double; -inf for none."""
    graphs = graphs_of(problem.n)
    at = np.flatnonzero(permitted(problem, limits))
    if not at.size:
        return -inf
    scores = np.array([max(problem.scores.score(mask), -1e300) for mask in range(1 << problem.n)])
    scores[scores == -1e300] = 0.0
    rough = (graphs.cliques[at] - graphs.separators[at]) @ scores
    close = at[rough >= rough.max() - 1e-9 * float(np.abs(scores).max())]
    return max(_score(problem, graphs.trees[i]) for i in close.tolist())


def _score(problem: Problem, tree: JunctionTree) -> float:
    cliques = [problem.scores.score(mask) for mask in tree.cliques]
    return fsum([*cliques, *(-problem.scores.score(mask) for mask in tree.separators)])


def typed(result: dict[str, Any]) -> ResultDocument | RankingDocument:
    """Returns a result or a ranking, by its declared kind, as a document; see `read_ranking`."""
    if result["format"] == RANKING:
        if any(one["score"] is None for one in result["results"]):
            raise msgspec.ValidationError("a ranking lists trees")
        return msgspec.convert(result, RankingDocument)
    return msgspec.convert(result, ResultDocument)


def edges_of(problem: Problem, result: dict[str, Any]) -> frozenset[int]:
    """Returns the pairs within the cliques of a result; raises KeyError for an unknown name."""
    at = {name: v for v, name in enumerate(problem.names)}
    cliques = [[at[name] for name in names] for names in result["cliques"]]
    return frozenset(1 << u | 1 << v for clique in cliques for u in clique for v in clique if u != v)


def is_true(problem: Problem, result: dict[str, Any]) -> bool:
    """Returns whether a result's claim is true, and its constraints match the instance's."""
    try:
        document = typed(result)
        own = constraints_from_document(document.instance.constraints, problem.names, "", "")
        graphs = {edges_of(problem, one) for one in result.get("results", ())}
    except (InputError, KeyError, msgspec.ValidationError):
        return False
    several = isinstance(document, RankingDocument)
    found = bool(graphs) if several else result["status"] in ("optimal", "feasible")
    required = problem.constraints
    mine, theirs = permitted(problem, own), permitted(problem, required)
    if (mine & ~theirs).any():
        return False
    if not found:
        bounded = problem.with_treewidth(own.max_treewidth).constraints
        if (mine != permitted(problem, bounded)).any():
            return False
    best = best_score(problem, replace(own, forbidden_graphs=own.forbidden_graphs | graphs))
    if document.bound is None:
        return (several or result["status"] == "infeasible") and best == -inf
    return best <= document.bound


# Honest certificates.


@dataclass(frozen=True, slots=True)
class Case:
    """A problem, as a file too, with an honest result and certificate."""

    problem: Problem
    plain: dict[str, Any]
    result: dict[str, Any]
    certificate: dict[str, Any]


def case_of(seed: int, number: int, folder: Path, n: int | None = None) -> Case:
    """Returns a problem with a certificate; the same for the same numbers everywhere."""
    random = repeatable(seed * 1_000_003 + number)
    n = n or random.choice((1, 2, 2, 3, 3, 3, 4, 4, 5, 6))
    features = frozenset(
        random.sample([f for f in ProblemFeature if f in ALL_FEATURES], random.choice((0, 0, 1, 1, 1, 2, 3)))
    )
    problem = random_problem(random.randrange(2**31), n, features)
    factor = random.choice(MAGNITUDES)
    scores = problem.scores
    if isinstance(scores, SparseScores):
        table = {mask: value * factor for mask, value in scores.table.items()}
        problem = replace(problem, scores=SparseScores(n, table))
    elif isinstance(scores, DenseScores):
        problem = replace(problem, scores=DenseScores(n, scores.max_size, scores.values * factor))
    write_problem(problem, folder / "instance.json")
    problem = read_problem(folder / "instance.json")
    treewidth = random.randrange(n) if random.random() < 0.2 else None
    chosen, limits = problem.with_treewidth(treewidth), Limits(time=SECONDS, threads=1)
    k = random.choice((1, 2, 4, None, None, None, None, None, None, None))
    try:
        result, certificate = (
            single(chosen, limits, folder / "proof.json") if k is None else several(chosen, k)
        )
    except LimitError:  # `clutter` left a gap, and a ranking must not have one
        result, certificate = single(chosen, limits, folder / "proof.json")
    if result["bound"] is not None and random.random() < 0.3:  # completions only help
        certificate["completions"] = random.choice((1, 2, 4))
    plain = json.loads((folder / "instance.json").read_text(encoding="utf-8"))
    return Case(problem, plain, result, certificate)


def single(problem: Problem, limits: Limits, path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns a result of `clutter`, which may have a gap, and its certificate."""
    result = solve(problem, ClutterCuts(certificate=str(path)), Run(limits))
    return plain_result(result), json.loads(path.read_text(encoding="utf-8"))


def several(problem: Problem, k: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the k best trees and their certificate; raises LimitError if there is a gap."""
    ranking = k_best(problem, ClutterCuts(), Run(Limits(time=SECONDS, threads=1)), k=k)
    ranking, certificate = prove_ranking(problem, ranking, Run(Limits(time=SECONDS, threads=1)))
    return json.loads(ranking_to_json(ranking)), json.loads(msgspec.json.encode(certificate))


def verdicts(case: Case, result: dict[str, Any], certificate: dict[str, Any]) -> tuple[str, str]:
    """Returns the reason of each verifier for refusing, "" if it accepts."""
    try:
        document = msgspec.convert(certificate, CertificateDocument)
        faults = verify(case.problem, typed(result), document)
        first = " ".join(faults)
    except msgspec.ValidationError as error:
        first = f"form: {error}"
    try:
        SECOND.verify(SECOND.Instance(case.plain), result, certificate)
        second = ""
    except (LookupError, TypeError, ValueError) as error:
        second = f"{type(error).__name__}: {error}"
    return first, second


# Forgeries: each changes a result and a certificate in place.


class Forger:
    """The mutations of one result and certificate, by one generator of random numbers."""

    def __init__(self, random: Random, case: Case, other: Case | None) -> None:
        self.random, self.case, self.other = random, case, other
        self.result, self.certificate = deepcopy(case.result), deepcopy(case.certificate)

    def lists(self) -> list[dict[str, Any]]:
        """Returns all multipliers."""
        nodes = self.certificate["nodes"]
        return [part for node in nodes for part in (*node.get("stages", ()), node.get("last")) if part]

    def weights(self) -> None:
        """Changes a weight."""
        listed = [entry for part in self.lists() for entries in part.values() for entry in entries]
        if listed:
            entry = self.random.choice(listed)
            factor = self.random.choice((0, 2, 3, -1, 1.01, 0.99, 1000))
            entry[1] = self.random.choice((int(entry[1] * factor), entry[1] + 1, self.random.choice(HUGE)))

    def rows_in_use(self) -> None:
        """Makes multipliers refer to another row, or to one twice."""
        parts = [part for part in self.lists() if part.get("cuts")]
        if parts:
            listed = self.random.choice(parts)["cuts"]
            entry = self.random.choice(listed)
            entry[0] = self.random.randrange(-1, len(self.certificate["cuts"]) + 1)
            listed += [list(entry)] * self.random.randrange(2)

    def sets(self) -> None:
        """Changes a set, or adds one."""
        sets = self.certificate["sets"]
        n = self.case.problem.n
        drawn = sorted(self.random.sample(range(n), self.random.randint(0, n)))
        if sets and self.random.random() < 0.8:
            sets[self.random.randrange(len(sets))] = drawn
        else:
            sets.append(drawn)

    def cuts(self) -> None:
        """Drops sets of a cut, adds some, or empties it."""
        cuts, count = self.certificate["cuts"], len(self.certificate["sets"])
        if cuts and count:
            cut = self.random.choice(cuts)
            if cut and self.random.random() < 0.6:
                cut.pop(self.random.randrange(len(cut)))
            else:
                cut.append(self.random.randrange(count + 1))

    def balances(self) -> None:
        """Changes a coefficient or limit, or adds a row that is used."""
        balances, sets = self.certificate["balances"], self.certificate["sets"]
        parts = self.lists()
        if balances and self.random.random() < 0.6:
            row = self.random.choice(balances)
            row["limit"] = self.random.choice((row["limit"], row["limit"] + 1, 1, self.random.choice(HUGE)))
            for pair in row["sets"][: self.random.randrange(3)]:
                pair[1] = self.random.choice((-pair[1], pair[1] * 2, 0, self.random.choice(HUGE)))
        elif parts and sets:
            chosen = self.random.sample(range(len(sets)), self.random.randint(1, min(3, len(sets))))
            sign = self.random.choice((-1, 1))
            balances.append(
                {"limit": self.random.choice((0, -1, 1, -3)), "sets": [[k, sign] for k in chosen]}
            )
            weight = 1 << self.random.randrange(40)
            self.random.choice(parts).setdefault("balances", []).append([len(balances) - 1, weight])

    def graphs(self) -> None:
        """Changes the edges of a graph, or adds a row of one that is used."""
        graphs, parts = self.certificate["graphs"], self.lists()
        n = self.case.problem.n
        pairs = [[u, v] for u in range(n) for v in range(u + 1, n)]
        drawn = self.random.sample(pairs, self.random.randint(0, min(3, len(pairs))))
        if graphs and self.random.random() < 0.5:
            graphs[self.random.randrange(len(graphs))] = drawn
        elif parts:
            graphs.append(drawn)
            weight = 1 << self.random.randrange(40)
            self.random.choice(parts).setdefault("graphs", []).append([len(graphs) - 1, weight])

    def branches(self) -> None:
        """Swaps or redirects branches, or decides another edge."""
        nodes = self.certificate["nodes"]
        inner = [node for node in nodes if node.get("edge") is not None]
        if inner:
            node = self.random.choice(inner)
            way = self.random.randrange(4)
            if way == 0:
                node["absent"], node["present"] = node["present"], node["absent"]
            elif way == 1:
                node[self.random.choice(("absent", "present"))] = self.random.randrange(-1, len(nodes) + 1)
            elif way == 2:
                n = self.case.problem.n
                node["edge"] = [self.random.randrange(n), self.random.randrange(n)]
            else:
                node["edge"] = node["absent"] = node["present"] = None

    def ends(self) -> None:
        """Replaces the end of a node: by no multipliers, by its graph, or by two graphs behind a branch."""
        nodes = self.certificate["nodes"]
        node = self.random.choice(nodes)
        n = self.case.problem.n
        stages = node.get("stages", [])
        node.clear()
        way = self.random.randrange(3)
        node |= {"stages": stages} if self.random.random() < 0.5 else {}
        if way == 0:
            node["last"] = {}
        elif way == 1 or n == 1:
            node["graph"] = True
        else:
            u, v = sorted(self.random.sample(range(n), 2))
            nodes += [{"graph": True}, {"graph": True}]
            node |= {"edge": [u, v], "absent": len(nodes) - 2, "present": len(nodes) - 1}

    def enumeration(self) -> None:
        """Replaces the proof by branches on all pairs, with the graphs at the ends."""
        n = self.case.problem.n
        pairs = [[u, v] for u in range(n) for v in range(u + 1, n)][:6]
        nodes: list[dict[str, Any]] = [{}]
        level = [0]
        for edge in pairs:
            deeper = []
            for at in level:
                nodes[at] = {"edge": edge, "absent": len(nodes), "present": len(nodes) + 1}
                deeper += [len(nodes), len(nodes) + 1]
                nodes += [{}, {}]
            level = deeper
        for at in level:
            nodes[at] = {"graph": True}
        self.certificate["nodes"] = nodes

    def stages(self) -> None:
        """Drops, repeats or moves multipliers."""
        nodes, parts = self.certificate["nodes"], self.lists()
        if parts:
            node = self.random.choice(nodes)
            part = deepcopy(self.random.choice(parts))
            if node.get("stages") and self.random.random() < 0.3:
                node["stages"].pop()
            elif self.random.random() < 0.5 or node.get("last") is None:
                node.setdefault("stages", []).append(part)
            else:
                node["last"] = part

    def shift(self) -> None:
        """Changes the shift, and perhaps the weights with it."""
        old = self.certificate["shift"]
        new = self.random.choice((old + 1, old - 1, old + 5, old - 20, self.random.choice(SHIFTS)))
        self.certificate["shift"] = new
        if self.random.random() < 0.5 and abs(new - old) < 100:
            for part in self.lists():
                for entries in part.values():
                    for entry in entries:
                        entry[1] = int(entry[1] * 2.0 ** (new - old))

    def root(self) -> None:
        """Changes the root."""
        self.certificate["root"] = self.random.randrange(-1, self.case.problem.n + 1)

    def completions(self) -> None:
        """Changes the number of rounds of completions."""
        self.certificate["completions"] = self.random.choice((0, 1, 2, 3, -1, self.random.choice(HUGE)))

    def digest(self) -> None:
        """Changes a digest or the variables."""
        way = self.random.randrange(3)
        if way == 0:
            self.certificate["digest"] = "sha256:" + "0" * 64
        elif way == 1:
            self.result["instance"]["digest"] = self.certificate["digest"][:-1]
        else:
            self.certificate["variables"] = self.certificate["variables"][::-1]

    def transplant(self) -> None:
        """Uses the proof of another problem, with the digest and variables of this one."""
        if self.other is not None:
            mine = self.certificate
            kept = {key: mine[key] for key in ("digest", "variables")}
            self.certificate = deepcopy(self.other.certificate) | kept

    def form(self) -> None:
        """Breaks the form: a type, a key, or a number of a wrong kind."""
        key = self.random.choice(
            ("root", "shift", "sets", "cuts", "nodes", "version", "extra", "node", "float")
        )
        if key == "node":
            self.random.choice(self.certificate["nodes"])[self.random.choice(("extra", "graph"))] = 1
        elif key == "float":
            self.certificate["shift"] = float(self.certificate["shift"])
        elif self.random.random() < 0.5:
            self.certificate[key] = self.random.choice((None, True, "1", [], 1, {}))
        else:
            self.certificate.pop(key, None)

    def constraints(self) -> None:
        """Adds, drops, tightens or loosens a constraint of the result."""
        limits = self.result["instance"]["constraints"]
        names = list(self.case.problem.names)
        key = self.random.choice([feature.value for feature in ProblemFeature if feature in ALL_FEATURES])
        if key in limits and self.random.random() < 0.5:
            if isinstance(limits[key], int):
                limits[key] = max(1, limits[key] + self.random.choice((-1, 1)))
            else:
                limits[key] = limits[key][1:]
        elif key in ("max_treewidth", "max_separator_size", "min_separator_size", "max_cliques"):
            limits[key] = self.random.randint(1, len(names))
        elif len(names) > 1:
            drawn = self.random.sample(names, 2)
            single = drawn if "edges" in key else self.random.choice((drawn, drawn[:1]))
            limits[key] = [*limits.get(key, []), [drawn] if key == "forbidden_graphs" else single]

    def bound(self) -> None:
        """Lowers the bound, by an ulp or more."""
        old = self.result["bound"]
        if old is None:
            self.result["bound"] = self.random.choice((0.0, -1.0, 1e9, -1e300))
        else:
            less = abs(old) * self.random.choice((1e-12, 1e-6, 0.01, 1.0, 3.0)) + self.random.choice(
                (0.0, 1e-7)
            )
            self.result["bound"] = self.random.choice((nextafter(old, -inf), old - less, old - less, -1e300))

    def infeasible(self) -> None:
        """Claims infeasibility."""
        self.result["bound"] = None
        if "status" in self.result:
            self.result["status"] = self.random.choice(("infeasible",) * 5 + ("unknown",))

    def ranked(self) -> None:
        """Makes a ranking of a result; of a ranking, drops a tree, repeats one, or names another graph."""
        results = self.result.get("results")
        way = self.random.randrange(3)
        if results is None:
            old = self.result
            kept = {key: old[key] for key in ("instance", "backend", "stop", "bound", "seconds")}
            kept |= {"k": 1, "within": None, "proved": 1, "complete": True, "results": [old] if way else []}
            self.result = {"format": RANKING, "version": 1, **kept}
        elif results and way == 0:
            results.pop(self.random.randrange(len(results)))
        elif results and way == 1:
            results.append(results[0])
        elif results:
            names = list(self.case.problem.names)
            drawn = self.random.sample(names, self.random.randint(0, len(names)))
            self.random.choice(results)["cliques"] = [drawn, names[:1]]

    def status(self) -> None:
        """Changes the status alone."""
        if "status" in self.result:
            self.result["status"] = self.random.choice(("optimal", "feasible", "infeasible", "unknown"))


MUTATIONS: dict[str, Callable[[Forger], None]] = {
    name: method for name, method in vars(Forger).items() if not name.startswith("_") and name != "lists"
}
CLAIMS = ("bound", "infeasible")


def forge(random: Random, case: Case, other: Case | None) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Returns a forgery: the kind of its first mutation, the result, and the certificate."""
    forger = Forger(random, case, other)
    kinds = random.choices(list(MUTATIONS), k=random.choice((1, 1, 2, 3)))
    kinds += [random.choice(CLAIMS)] if random.random() < 0.6 else []
    for kind in kinds:
        try:
            MUTATIONS[kind](forger)
        except (AttributeError, LookupError, TypeError, ValueError, OverflowError):
            break  # an earlier mutation of the form removed the target of this one
    return kinds[0], forger.result, forger.certificate


# A run.


class Row(NamedTuple):
    """One certificate: its kind, the verdict, and whether its claim is true."""

    kind: str
    first: bool
    second: bool
    true: bool


def judge(case: Case, kind: str, result: dict[str, Any], certificate: dict[str, Any]) -> tuple[Row, str]:
    """Returns the verdicts, and a sentence on what is wrong with them."""
    first, second = verdicts(case, result, certificate)
    true = is_true(case.problem, result)
    row = Row(kind, not first, not second, true)
    if row.first != row.second:
        return row, f"They disagree: '{first}' and '{second}'."
    if row.first and not true:
        return row, "Both accept a false claim."
    if kind == "honest" and not row.first:
        return row, f"An honest certificate is refused: '{first}' and '{second}'."
    return row, ""


def run(seed: int, number: int, forgeries: int, folder: Path, findings: Path | None) -> list[Row]:
    """Returns the verdicts on one honest certificate and its forgeries; records the wrong ones."""
    random = repeatable(seed * 7_919 + number)
    case = case_of(seed, number, folder)
    other = None
    if random.random() < 0.1:
        other = case_of(seed + 1, random.randrange(10**6), folder, case.problem.n)
    trials = [("honest", case.result, case.certificate)]
    trials += [forge(random, case, other) for _ in range(forgeries)]
    rows = []
    for at, (kind, result, certificate) in enumerate(trials):
        row, wrong = judge(case, kind, result, certificate)
        rows.append(row)
        if wrong:
            print(f"problem {number}, certificate {at} ({kind}): {wrong}", file=sys.stderr)
            if findings is not None:
                findings.mkdir(parents=True, exist_ok=True)
                document = {
                    "instance": case.plain,
                    "result": result,
                    "certificate": certificate,
                    "wrong": wrong,
                }
                (findings / f"{seed}-{number}-{at}.json").write_text(json.dumps(document), encoding="utf-8")
    return rows


def is_finding(row: Row) -> bool:
    """Returns whether the verdicts on a certificate are wrong."""
    false = (row.first or row.second) and not row.true
    return row.first != row.second or false or (row.kind == "honest" and not row.first)


def table(rows: Sequence[Row]) -> list[str]:
    """Returns the table by kind, in Markdown."""
    columns = ("kind", "certificates", "false claims", "accepted", "accepted and true", "wrong verdicts")
    lines = ["| " + " | ".join(columns) + " |", "|---" + "|--:" * (len(columns) - 1) + "|"]
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        own = counts.setdefault(row.kind, Counter())
        own["all"] += 1
        own["false"] += not row.true
        own["accepted"] += row.first
        own["right"] += row.first and row.true
        own["wrong"] += is_finding(row)
    everything: Counter[str] = sum(counts.values(), Counter())
    for kind, own in (*sorted(counts.items()), ("all", everything)):
        figures = (own["all"], own["false"], own["accepted"], own["right"], own["wrong"])
        lines.append(f"| {kind} | {' | '.join(map(str, figures))} |")
    return lines


def read_journal(path: Path | None) -> dict[tuple[int, int], list[Row]]:
    """Returns the verdicts in a journal by seed and problem; see `journals.read_lines`."""
    return {(line["seed"], line["number"]): [Row(*row) for row in line["rows"]] for line in read_lines(path)}


def main(words: Sequence[str] | None = None) -> int:
    """Runs the remaining problems, prints the table, and returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--problems", type=int, default=10_000)
    parser.add_argument("--forgeries", type=int, default=10, help="of each certificate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--journal", type=Path, default=None, help="continue from this file, and add to it")
    parser.add_argument("--findings", type=Path, default=None, help="a folder for faults")
    arguments = parser.parse_args(words)
    done = read_journal(arguments.journal)
    rows = [row for (seed, _), listed in done.items() if seed == arguments.seed for row in listed]
    with TemporaryDirectory() as folder:
        for number in range(arguments.problems):
            if (arguments.seed, number) in done:
                continue
            fresh = run(arguments.seed, number, arguments.forgeries, Path(folder), arguments.findings)
            rows += fresh
            if arguments.journal is not None:
                line = {"seed": arguments.seed, "number": number, "rows": fresh}
                with arguments.journal.open("a", encoding="utf-8") as journal:
                    journal.write(json.dumps(line) + "\n")
    print("\n".join(table(rows)))
    return int(any(map(is_finding, rows)))


if __name__ == "__main__":
    sys.exit(main())
