"""Verification of certificates: false claims that were accepted once, true ones that were refused, limits."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import json
import lzma
import subprocess
import sys
import zipfile
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from importlib import import_module
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest
from forge import SECOND
from problems import dense, gaussian, named, random_problem
from verifiers import second, verify

from jtsolve.backends.brute import Brute
from jtsolve.backends.clutter.backend import ClutterCuts
from jtsolve.backends.clutter.bound import FixedPoint
from jtsolve.cli import run
from jtsolve.core.problem import Constraints, Problem, ProblemFeature, Variable
from jtsolve.core.result import Result, Status, Stop
from jtsolve.core.run import Limits, Run
from jtsolve.core.scores import DenseScores, SparseScores
from jtsolve.io.certificate import CertificateDocument, read_certificate
from jtsolve.io.instance import read_problem, write_problem
from jtsolve.io.ranking import ranking_to_json
from jtsolve.io.result import ResultDocument, result_to_document, result_to_json
from jtsolve.kbest import k_best
from jtsolve.proving import prove
from jtsolve.solving import solve
from jtsolve.verify.certificate import _Verifier
from jtsolve.verify.form import DEEPEST, MOST_WORK, Wrong
from jtsolve.verify.result import check

if TYPE_CHECKING:
    from collections.abc import Callable

PAIR = named(dense(2, 2, np.array([0.0, -10.0, -10.0, -15.0])))
"""Two variables, joined by their edge in the best tree."""
BRANCHES: list[dict[str, Any]] = [
    {"edge": [0, 1], "absent": 1, "present": 2},
    {"graph": True},
    {"graph": True},
]
LAST: list[dict[str, Any]] = [{"last": {}}]


def claim(problem: Problem, status: Status, bound: float, **changes: Any) -> ResultDocument:
    """Returns a result without a tree."""
    values: dict[str, Any] = {
        "instance": problem.name,
        "digest": problem.digest(),
        "names": problem.names,
        "constraints": problem.constraints,
        "backend": "test",
        "options": {},
        "status": status,
        "stop": Stop.FINISHED,
        "tree": None,
        "score": None,
        "bound": bound,
        "seconds": {"total": 1.0},
    }
    return result_to_document(Result(**(values | changes)))


def certificate(
    problem: Problem, nodes: list[dict[str, Any]], shift: int = 30, **rows: Any
) -> CertificateDocument:
    """Returns a certificate of the given nodes."""
    plain = {
        "format": "jtsolve-certificate",
        "version": 2,
        "digest": problem.digest(),
        "variables": list(problem.names),
        "root": 0,
        "shift": shift,
        "sets": [],
        "cuts": [],
        "balances": [],
        "graphs": [],
        "nodes": nodes,
    }
    return msgspec.convert(plain | rows, CertificateDocument)


@pytest.mark.parametrize("shift", [-2000, 25, 30])
def test_a_permitted_graph_is_no_proof_that_there_is_no_tree(shift: int) -> None:
    result = claim(PAIR, Status.INFEASIBLE, -inf)
    faults = verify(PAIR, result, certificate(PAIR, BRANCHES, shift))
    assert len(faults) == 1
    assert "there is a tree" in faults[0]


def test_graphs_that_are_not_permitted_are_a_proof_that_there_is_no_tree() -> None:
    impossible = replace(PAIR, constraints=Constraints(max_treewidth=0, min_separator_size=1))
    result = claim(impossible, Status.INFEASIBLE, -inf)
    assert check(impossible, result) == ()
    assert verify(impossible, result, certificate(impossible, BRANCHES)) == ()


TIGHTER = [
    Constraints(max_separator_size=0),
    Constraints(min_separator_size=1),
    Constraints(max_cliques=1),
    Constraints(forbidden_graphs=frozenset({frozenset({0b11})})),
    Constraints(forbidden_edges=frozenset({0b11})),
    Constraints(required_edges=frozenset({0b11})),
    Constraints(forbidden_cliques=frozenset({0b11})),
    Constraints(forbidden_separators=frozenset({0})),
    Constraints(allowed_separators=frozenset({0})),
]


@pytest.mark.parametrize("constraints", TIGHTER)
@pytest.mark.parametrize(("status", "bound"), [(Status.INFEASIBLE, -inf), (Status.UNKNOWN, -20.0)])
def test_without_a_tree_no_constraints_may_be_added(
    constraints: Constraints, status: Status, bound: float
) -> None:
    result = claim(PAIR, status, bound, constraints=constraints)
    (name,) = (feature.value for feature in constraints.features)
    (fault,) = check(PAIR, result)
    assert name in fault
    assert name in verify(PAIR, result, certificate(PAIR, BRANCHES))[0]


def test_without_a_tree_unreadable_constraints_are_a_fault() -> None:
    result = claim(PAIR, Status.UNKNOWN, 0.0)
    odd = msgspec.structs.replace(result.instance.constraints, forbidden_edges=[(PAIR.names[0], "X")])
    wrong = msgspec.structs.replace(
        result, instance=msgspec.structs.replace(result.instance, constraints=odd)
    )
    assert "no variable 'X'" in check(PAIR, wrong)[0]
    assert "no variable 'X'" in verify(PAIR, wrong, certificate(PAIR, BRANCHES))[0]


def test_a_treewidth_of_the_command_line_is_named_in_the_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = replace(PAIR, constraints=Constraints(min_separator_size=1))
    instance, path, proof = (str(tmp_path / name) for name in ("i.json", "r.json", "c.json"))
    write_problem(problem, instance)
    result = solve(problem.with_treewidth(0), ClutterCuts(certificate=proof))
    (tmp_path / "r.json").write_bytes(result_to_json(result))
    assert run(["check", instance, path, "--certificate", proof], 0.0) == 0
    assert "(infeasible under a tighter max_treewidth than the instance's;" in capsys.readouterr().out
    assert run(["check", instance, path, "--json"], 0.0) == 0
    assert json.loads(capsys.readouterr().out)["tighter"] == ["max_treewidth"]


def test_constraints_of_a_ranking_that_are_tighter_are_named_in_the_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    best = k_best(PAIR, Brute(), k=1).results[0]
    assert best.tree is not None
    forbidding = replace(PAIR, constraints=Constraints(forbidden_graphs=frozenset({best.tree.edge_sets})))
    instance, path = str(tmp_path / "i.json"), tmp_path / "r.json"
    write_problem(PAIR, instance)
    path.write_bytes(ranking_to_json(k_best(forbidding, Brute(), k=1)))
    assert run(["check", instance, str(path)], 0.0) == 0
    assert "complete under a tighter forbidden_graphs than the instance's;" in capsys.readouterr().out


def nested(result: bytes, levels: int) -> bytes:
    """Returns a result with lists on some levels in an object that may have any keys."""
    return result.replace(b'"stats": {', b'"stats": {"a": ' + b"[" * levels + b"]" * levels + b", ")


DAMAGE: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("instance", lambda text: text.replace(b"colex", b"dense")),
    ("instance", lambda text: text.replace(b'"version": 1', b'"version": 1.0')),
    ("instance", lambda text: text.replace(b'"max_size": 2', b'"max_size": 3')),
    ("instance", lambda text: text.replace(b'"values": [0', b'"values": [1')),
    ("instance", lambda text: text.replace(b'"B"', b'"A"')),
    ("result", lambda text: text.replace(b'"constraints": {}', b'"constraints": {"max_treewidth": -1}')),
    ("result", lambda text: text.replace(b'"constraints": {}', b'"constraints": {"max_treewidth": 1.0}')),
    ("result", lambda text: text.replace(b'"constraints": {}', b'"constraints": {"max_cliques": 0}')),
    ("result", lambda text: text.replace(b'"constraints": {}', b'"constraints": {"forbidden_edges": null}')),
    ("result", lambda text: text.replace(b'"constraints": {}', b'"constraints": null')),
    ("result", lambda text: text.replace(b'"seed": 0', b'"seed": true')),
    ("result", lambda text: text.replace(b'"total"', b'"whole"')),
    ("result", lambda text: text.replace(b'"gap"', b'"gape"')),
    ("result", lambda text: text.replace(b'"stats": {', b'"stats": {"a": NaN, ')),
    ("result", lambda text: text.replace(b'"stats": {', b'"stats": {"a": 1e999, ')),
    ("result", lambda text: text.replace(b'"stats": {', b'"stats": {"a": "\\ud800", ')),
    ("result", lambda text: text.replace(b'"stats": {', b'"stats": {"a": 1, "a": 1, ')),
    *(("result", partial(nested, levels=levels)) for levels in (101, 985, 990, 995, 100_000)),
    ("certificate", lambda text: text.replace(b'"version":2', b'"version":2.0')),
    ("certificate", lambda text: text.replace(b'"cuts":[', b'"cuts":null, "x":[')),
    ("certificate", lambda text: text.replace(b'"graphs":[]', b'"graphs":null')),
    ("certificate", lambda text: text.replace(b'"last":', b'"graph":1.0, "last":')),
    ("certificate", lambda text: text.replace(b'"last":', b'"graph":null, "last":')),
    ("certificate", lambda text: text + b"}"),
    ("certificate", lambda text: gzip.compress(text)[:20] + b"\0" + gzip.compress(text)[21:]),
    ("certificate", lambda _text: b""),
]


def zipped(*contents: bytes) -> bytes:
    """Returns an archive of files with these contents."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for at, content in enumerate(contents):
            archive.writestr(f"{at}.json", content)
    return stream.getvalue()


ZSTANDARD = import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": ZSTANDARD.compress,
    "zip": zipped,
}


def test_the_verifiers_accept_the_same_files(tmp_path: Path) -> None:
    paths = {kind: tmp_path / f"{kind}.json" for kind in ("instance", "result", "certificate")}
    write_problem(PAIR, paths["instance"])
    result = solve(PAIR, ClutterCuts(certificate=str(paths["certificate"])))
    paths["result"].write_bytes(result_to_json(result))
    words = [str(path) for path in paths.values()]
    both = ["check", *words[:2], "--certificate", words[2]]
    assert (run(both, 0.0), SECOND.main(words)) == (0, 0)
    for kind, damage in DAMAGE:
        whole = paths[kind].read_bytes()
        damaged = damage(whole)
        assert damaged != whole, (kind, whole)
        paths[kind].write_bytes(damaged)
        assert (run(both, 0.0), SECOND.main(words)) == (2, 1), damaged
        paths[kind].write_bytes(whole)
    whole = paths["result"].read_bytes()
    paths["result"].write_bytes(nested(whole, 100))
    assert (run(both, 0.0), SECOND.main(words)) == (0, 0)
    paths["result"].write_bytes(whole)
    for path in paths.values():
        whole = path.read_bytes()
        for marked in (codecs.BOM_UTF8 + whole, *map(whole.decode().encode, ("utf-16", "utf-32"))):
            path.write_bytes(marked)
            assert (run(both, 0.0), SECOND.main(words)) == (0, 0), marked
        for suffix, pack in PACKERS.items():
            packed = pack(whole)
            streams = [pack(whole[:50]) + pack(whole[50:]), packed + b"\0\0\0\0", pack(b"") + packed]
            for right in (packed, *(streams if suffix != "zip" else ())):
                path.write_bytes(right)
                assert (run(both, 0.0), SECOND.main(words)) == (0, 0), (suffix, right)
            wrong = [packed[:-9], packed + b"trailing", packed + packed[:6], pack(packed), pack(b"")]
            for damaged in (
                *wrong,
                *(() if suffix != "zip" else (zipped(), zipped(whole, whole), *streams[:2])),
            ):
                path.write_bytes(damaged)
                assert (run(both, 0.0), SECOND.main(words)) == (2, 1), (suffix, damaged)
        path.write_bytes(whole)


def test_a_set_of_forty_variables_is_too_large_to_verify() -> None:
    n = 40
    table = {1 << v: -1.0 for v in range(n)} | {(1 << n) - 1: -1.0}
    problem = named(SparseScores(n, table))
    faults = verify(problem, claim(problem, Status.UNKNOWN, 0.0), certificate(problem, LAST))
    assert faults == ("There are too many sets that may be complete to verify it.",)
    many = replace(gaussian(0, 3), n=60, max_size=1, values=np.zeros(61))
    whole = named(DenseScores(60, 1, many.values))
    assert verify(whole, claim(whole, Status.UNKNOWN, 1.0), certificate(whole, LAST)) == ()


def test_a_certificate_that_would_take_hours_is_refused_at_once() -> None:
    repeated: list[dict[str, Any]] = [{"last": {"cuts": [[0, 1]] * 50_000}}]
    hostile = certificate(PAIR, repeated, sets=[[0]], cuts=[[0] * 100_000])
    faults = verify(PAIR, claim(PAIR, Status.UNKNOWN, 0.0), hostile)
    assert faults == ("Its verification would take too much work.",)


@pytest.mark.parametrize("most", [0, 50, 100])
def test_nodes_multipliers_and_closing_count_as_work(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = named(gaussian(1, 3))
    result, proof = prove(problem, solve(problem, Brute()), Run(Limits(threads=1)))
    assert verify(problem, result_to_document(result), proof) == ()
    verifier = _Verifier(problem, proof, result.bound)
    verifier.work = MOST_WORK - most
    with pytest.raises(Wrong, match="too much work"):
        verifier.run()
    monkeypatch.setattr(SECOND, "MOST_WORK", most)
    assert "too much work" in second(problem, result_to_document(result), proof)


def test_branches_may_not_be_too_deep_for_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    result = claim(PAIR, Status.UNKNOWN, -15.0)
    assert verify(PAIR, result, certificate(PAIR, BRANCHES)) == ()
    for entries in (DEEPEST, DEEPEST + 1):
        verifier = _Verifier(PAIR, certificate(PAIR, BRANCHES), -15.0)
        verifier.entries = entries
        deep = pytest.raises(Wrong, match="below too many branches")
        with deep if entries > DEEPEST else nullcontext():
            verifier.run()
    monkeypatch.setattr(SECOND, "DEEPEST", 7)  # the table has 4 sets of 2 at most
    assert "below too many branches" in second(PAIR, result, certificate(PAIR, BRANCHES))


def test_a_branch_on_a_pair_in_no_permitted_clique_decides_nothing() -> None:
    apart = replace(PAIR, constraints=Constraints(forbidden_edges=frozenset({0b11})))
    assert verify(apart, claim(apart, Status.UNKNOWN, -20.0), certificate(apart, BRANCHES)) == ()
    assert verify(apart, claim(apart, Status.UNKNOWN, -20.5), certificate(apart, BRANCHES))


@pytest.mark.parametrize("rounds", [1, 2, 2**29, 2**40])
def test_completions_prove_true_claims_only(rounds: int) -> None:
    """Beyond the work that is allowed they are refused; here the first round leaves nothing."""
    best = -15.0
    below, above = (claim(PAIR, Status.UNKNOWN, best + step) for step in (-1e-6, 1e-6))
    proof = certificate(PAIR, LAST, completions=rounds)
    assert verify(PAIR, below, proof)
    assert bool(verify(PAIR, above, proof)) == (rounds > 2**30)
    assert verify(PAIR, claim(PAIR, Status.INFEASIBLE, -inf), proof)


@pytest.mark.parametrize("real", [0, 0b100])
def test_sets_larger_than_the_cells_allow_do_not_count_in_the_limits(real: int) -> None:
    scores = SparseScores(3, {0: 0.0} | dict.fromkeys(range(1, 7), -1.0) | {0b111: -1e15})
    variables = tuple(Variable(name, 2) for name in "ABC")
    problem = Problem(variables, scores, Constraints(max_clique_cells=4, real_variables=real))
    result = claim(problem, Status.UNKNOWN, 1.0)
    assert verify(problem, result, certificate(problem, LAST, shift=20, completions=1)) == ()


HUGE = 10**30


@pytest.mark.parametrize(
    ("multipliers", "rows"),
    [
        ({"cuts": [[0, HUGE]]}, {"cuts": [[0]]}),
        ({"cuts": [[HUGE, 1]]}, {"cuts": [[0]]}),
        ({"cuts": [[0, 1]]}, {"cuts": [[HUGE]]}),
        ({"cuts": [[0, 1]]}, {"cuts": [[0]], "sets": [[HUGE]]}),
        ({"balances": [[0, HUGE]]}, {"balances": [{"limit": 0, "sets": []}]}),
        ({"balances": [[0, 0]]}, {"balances": [{"limit": 0, "sets": [[0, HUGE]]}]}),
        ({"balances": [[0, 1]]}, {"balances": [{"limit": -HUGE, "sets": []}]}),
        ({"balances": [[0, 1]]}, {"balances": [{"limit": -HUGE, "sets": [[0, -HUGE]]}]}),
        ({"graphs": [[0, HUGE]]}, {"graphs": [[[0, 1]]]}),
        ({"graphs": [[0, 1]]}, {"graphs": [[[0, HUGE]]]}),
        ({}, {"root": HUGE}),
        ({}, {"shift": HUGE}),
    ],
)
@pytest.mark.parametrize("part", ["stages", "last"])
def test_numbers_of_any_size_are_refused_in_a_sentence(
    multipliers: dict[str, Any], rows: dict[str, Any], part: str
) -> None:
    graphs = frozenset({frozenset({0b11})})
    problem = replace(
        PAIR, constraints=Constraints(forbidden_graphs=graphs, forbidden_cliques=frozenset({1}))
    )
    node = {"last": multipliers} if part == "last" else {"stages": [multipliers], "last": {}}
    document = certificate(problem, [node], **({"sets": [[0]]} | rows))
    (fault,) = verify(problem, claim(problem, Status.UNKNOWN, 0.0), document)
    assert "out of range" in fault


@pytest.mark.parametrize("branches", [{"absent": HUGE}, {"present": -HUGE}, {"edge": [0, HUGE]}])
def test_branches_of_any_size_are_refused_in_a_sentence(branches: dict[str, Any]) -> None:
    document = certificate(PAIR, [BRANCHES[0] | branches, *BRANCHES[1:]])
    (fault,) = verify(PAIR, claim(PAIR, Status.UNKNOWN, 0.0), document)
    assert "out of range" in fault


def test_limits_that_exceed_64_bits_together_are_summed_exactly() -> None:
    far = 1 << 61
    rows = [{"limit": -far, "sets": []}]
    node = {"stages": [{"balances": [[0, far]]}], "last": {"balances": [[0, far]]}}
    result = claim(PAIR, Status.UNKNOWN, 0.0)
    assert "above" in verify(PAIR, result, certificate(PAIR, [node], balances=rows))[0]


@pytest.mark.parametrize("bound", [inf, float("nan")])
def test_a_bound_that_is_no_number_is_refused(bound: float) -> None:
    result = msgspec.structs.replace(claim(PAIR, Status.UNKNOWN, 0.0), bound=bound)
    assert verify(PAIR, result, certificate(PAIR, BRANCHES)) == ("The result claims no bound.",)


@pytest.mark.parametrize(
    ("seed", "n", "magnitude", "features"),
    [
        (180, 2, 1e10, ()),
        (24, 6, 1e7, (ProblemFeature.FORBIDDEN_GRAPHS,)),
        (
            219,
            6,
            1e8,
            (ProblemFeature.MAX_TREEWIDTH, ProblemFeature.MAX_CLIQUES, ProblemFeature.FORBIDDEN_CLIQUES),
        ),
        (98, 3, 10**8.3, (ProblemFeature.MAX_TREEWIDTH, ProblemFeature.FORBIDDEN_CLIQUES)),
    ],
)
def test_honest_certificates_of_large_scores_hold(
    seed: int, n: int, magnitude: float, features: tuple[ProblemFeature, ...], tmp_path: Path
) -> None:
    """The exact score of the best tree lies above the double nearest to it, which is the bound."""
    problem = random_problem(seed, n, frozenset(features))
    scores = problem.scores
    if isinstance(scores, DenseScores):
        problem = replace(problem, scores=DenseScores(n, scores.max_size, scores.values * magnitude))
    else:
        assert isinstance(scores, SparseScores)
        table = {mask: value * magnitude for mask, value in scores.table.items()}
        problem = replace(problem, scores=SparseScores(n, table))
    path = tmp_path / "proof.json"
    result = solve(problem, ClutterCuts(certificate=str(path)))
    assert verify(problem, result_to_document(result), read_certificate(path)) == ()
    assert result.score is not None
    lower = msgspec.structs.replace(result_to_document(result), bound=float(np.nextafter(result.score, -inf)))
    assert verify(problem, lower, read_certificate(path))


def test_a_graph_that_is_not_chordal_is_no_tree() -> None:
    problem = named(gaussian(0, 4, 2))
    pairs = [((0, 1), True), ((0, 2), False), ((0, 3), True), ((1, 2), True), ((1, 3), False), ((2, 3), True)]
    nodes: list[dict[str, Any]] = []
    for (u, v), present in pairs:  # a cycle of four: the branch that leaves it ends at once
        leaf, on = len(nodes) + 1, len(nodes) + 2
        branches = {"absent": leaf, "present": on} if present else {"absent": on, "present": leaf}
        nodes += [{"edge": [u, v], **branches}, {"last": {}}]
    result = claim(problem, Status.UNKNOWN, 1e9)
    assert verify(problem, result, certificate(problem, [*nodes, {"graph": True}])) == ()
    nodes[-2:] = [{"edge": [2, 3], "absent": 11, "present": 12}, {"graph": True}]
    assert verify(problem, result, certificate(problem, [*nodes, {"graph": True}])) == ()


def test_a_node_without_trees_needs_no_more_proof() -> None:
    problem = replace(PAIR, constraints=Constraints(max_treewidth=0, required_edges=frozenset({0b11})))
    result = claim(problem, Status.INFEASIBLE, -inf)
    node = {"stages": [{"cuts": [[0, 1]]}], "last": {}}
    assert verify(problem, result, certificate(problem, [node], sets=[[]], cuts=[[0]])) == ()


FOUND = sorted((Path(__file__).parent / "regressions" / "certificates").glob("*.json"))


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_certificates_that_were_judged_wrongly_once(path: Path, tmp_path: Path) -> None:
    plain = json.loads(path.read_text(encoding="utf-8"))
    files = [tmp_path / f"{key}.json" for key in ("instance", "result", "certificate")]
    for file in files:
        file.write_text(json.dumps(plain[file.stem]), encoding="utf-8")
    instance, result, proof = map(str, files)
    expected = 0 if plain["proved"] else 1
    assert run(["check", instance, result, "--certificate", proof], 0.0) == expected
    assert SECOND.main([instance, result, proof]) == expected


def test_the_second_verifier_reads_packed_files_and_reports_its_verdict(tmp_path: Path) -> None:
    proof, other = (str(tmp_path / name) for name in ("c.json.gz", "other.json"))
    problem = read_problem("instances/uci/lymph.json.gz").with_treewidth(1)
    result = solve(problem, ClutterCuts(certificate=proof))
    answer = tmp_path / "r.json"
    answer.write_bytes(result_to_json(result))
    words = [sys.executable, "tools/verify_certificate.py", "instances/uci/lymph.json.gz", str(answer)]
    for path, said, code in ((proof, "the bound is proved\n", 0), (other, "refused: ", 1)):
        Path(other).write_text('{"a": 1, "a": 2}', encoding="utf-8")
        done = subprocess.run([*words, path], capture_output=True, text=True, check=False)  # noqa: S603 - ours
        assert done.stdout.startswith(said)
        assert done.returncode == code
        assert done.stderr == ""


def test_the_second_verifier_is_one_short_file_of_the_standard_library() -> None:
    text = Path(SECOND.__file__).read_text(encoding="utf-8")
    assert text.count("\n") < 690
    imported = {
        line.split()[1].partition(".")[0]
        for line in text.splitlines()
        if line.startswith(("import ", "from "))
    }
    assert imported <= sys.stdlib_module_names


def test_weights_that_are_scaled_down_do_not_depend_on_rows_without_a_weight() -> None:
    """A certificate of an infeasible problem was refused: it was 8 units above the bound."""
    scale = FixedPoint(shift=26, offset=0, slack=5, room=1 << 56)
    for seed in range(20):
        weights = np.random.default_rng(seed).exponential(1e9, 300)
        spread = np.zeros(1000)
        spread[np.sort(np.random.default_rng(seed).choice(1000, 300, replace=False))] = weights
        units = scale.units_of(spread)
        assert int(units.sum()) <= scale.room
        assert units[units > 0].tolist() == scale.units_of(weights).tolist()
