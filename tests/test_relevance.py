"""Queries of Bayesian networks: as brute force, on no more than the d-connected part, within the memory."""

from __future__ import annotations

import re
from contextlib import contextmanager
from math import inf, log
from typing import TYPE_CHECKING

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import repeatable
from random_models import brute_network, random_network
from runs import ReportingRun, noting

import jtsolve as jt
from jtsolve.cli import run
from jtsolve.core import machine
from jtsolve.core.machine import allow_memory, memory_of_call, resident_memory
from jtsolve.core.varset import members, varset
from jtsolve.errors import ChoiceError, InputError, LimitError
from jtsolve.models.layout import BYTES_PER_CELL
from jtsolve.models.network import NetworkModel, from_network
from jtsolve.models.relevance import Entered, network_variables
from jtsolve.networks.write import to_bif

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from jtsolve.models.answers import Evidence
    from jtsolve.networks.network import Network


@contextmanager
def allowing(size: int) -> Iterator[None]:
    """Allows so many bytes besides those held."""
    most = resident_memory() + 10**8
    with memory_of_call(), pytest.MonkeyPatch.context() as patched:
        allow_memory(most)
        patched.setattr(machine, "base_memory", lambda: most - size)
        yield


def some_network(seed: int, zeros: float = 0.0) -> Network:
    """Up to eight nodes of one to three states, in any order, with up to three parents."""
    random = repeatable(seed)
    n = random.randint(1, 8)
    order = random.sample(range(n), n)
    parents: list[list[int]] = [[] for _ in range(n)]
    for rank, v in enumerate(order):
        parents[v] = random.sample(order[:rank], random.randint(0, min(3, rank)))
    return random_network([random.choice((1, 2, 2, 3)) for _ in range(n)], parents, seed, zeros=zeros)


def some_evidence(network: Network, seed: int) -> tuple[Evidence, NDArray[np.float64]]:
    """Hard and soft evidence on some nodes, and its likelihood for every configuration."""
    generator = np.random.default_rng(seed)
    weights = np.ones(network.arities)
    evidence: dict[str, str | list[float]] = {}
    for v, node in enumerate(network.nodes):
        kind = generator.integers(4)
        if kind > 1:
            continue
        code = int(generator.integers(len(node.states)))
        likelihood = np.eye(len(node.states))[code] if kind else generator.random(len(node.states))
        evidence[node.name] = node.states[code] if kind else likelihood.tolist()
        weights = weights * likelihood.reshape([-1 if u == v else 1 for u in range(weights.ndim)])
    return evidence, weights


def check_against_brute_force(network: Network, seed: int) -> None:
    evidence, weights = some_evidence(network, seed)
    random = repeatable(seed)
    groups = [
        random.sample(range(len(network.nodes)), min(len(network.nodes), size)) for size in (1, 1, 2, 3)
    ]
    joint = brute_network(network) * weights
    total = joint.sum()
    names = [[network.names[v] for v in group] for group in groups]
    if total == 0:
        with pytest.raises(InputError, match="probability 0"):
            NetworkModel(network).posterior(names, evidence)
        with pytest.raises(InputError, match="probability 0"):
            NetworkModel(network).explain(evidence)
        return
    found = NetworkModel(network).posterior(names, evidence)
    assert found.log_probability == pytest.approx(log(total), abs=1e-11)
    for group, table in zip(groups, found.tables, strict=True):
        rest = tuple(set(range(joint.ndim)) - set(group))
        expected = np.transpose(joint.sum(axis=rest), [sorted(group).index(v) for v in group]) / total
        np.testing.assert_allclose(table, expected, atol=1e-12)

    best, of_evidence = NetworkModel(network).explain(evidence, 5)
    ranked = np.sort(joint.ravel())[::-1]
    np.testing.assert_allclose(
        np.exp([one.log_probability + of_evidence for one in best]), ranked[ranked > 0][:5], rtol=1e-10
    )
    for one in best:
        at = tuple(node.states.index(state) for node, state in zip(network.nodes, one.values, strict=True))
        assert log(joint[at]) == pytest.approx(one.log_probability + of_evidence, abs=1e-10)


@pytest.mark.parametrize("seed", range(60))
def test_answers_agree_with_brute_force(seed: int) -> None:
    check_against_brute_force(some_network(seed), seed)


@given(st.integers(0, 10**6), st.sampled_from([0.2, 0.5]))
@settings(deadline=None, max_examples=40)
def test_answers_agree_with_brute_force_where_there_are_zeros(seed: int, zeros: float) -> None:
    check_against_brute_force(some_network(seed, zeros), seed)


@pytest.mark.parametrize("seed", range(60))
def test_the_visited_part_is_d_connected_among_the_ancestors(seed: int) -> None:
    network = some_network(seed)
    evidence, _ = some_evidence(network, seed)
    target = repeatable(seed).randrange(len(network.nodes))
    entered = Entered.of(network, evidence)
    part = entered.part(entered.observed | 1 << target, 1 << target)

    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(network.nodes)))
    graph.add_edges_from((p, v) for v, node in enumerate(network.nodes) for p in node.parents)
    known = set(entered.codes)
    # Soft evidence is the observation of a further child.
    for v in set(members(entered.observed)) - known:
        graph.add_edge(v, ("seen", v))
    given_nodes = known | {node for node in graph if isinstance(node, tuple)}
    above = set().union(*(nx.ancestors(graph, v) | {v} for v in {target, *given_nodes}))
    expected = {target} | {
        v
        for v in above - given_nodes - {target}
        if target not in known and not nx.is_d_separator(graph, {target}, {v}, given_nodes)
    }
    assert part.variables == varset(expected)


def layered(width: int, states: int) -> Network:
    """Four layers in the shape of munin1: each node of a layer has three parents above, in a ring."""
    parents: list[list[int]] = [[] for _ in range(width)]
    for layer in range(3):
        parents += [[layer * width + (k + step) % width for step in range(3)] for k in range(width)]
    return random_network([states] * len(parents), parents, 1)


WIDE = layered(24, 4)
LEAVES = dict.fromkeys(WIDE.names[72:], "s0")


def test_a_root_of_a_network_whose_tree_fits_no_memory_is_answered() -> None:
    for name in ("V0", "V23"):
        with allowing(BYTES_PER_CELL * 4 + 10**6):
            (table,) = NetworkModel(WIDE).posterior([[name]], {}).tables
        np.testing.assert_allclose(table, WIDE.nodes[WIDE.names.index(name)].table[0])
    with pytest.raises(LimitError, match=r"the tables of the cliques: .* cells need"):
        from_network(WIDE)


def test_roots_and_leaves_are_queried_together_if_that_is_cheaper() -> None:
    asked: list[str] = []
    small = layered(6, 2)
    groups = [[name] for name in small.names]
    together = NetworkModel(small).posterior(groups, {}, run=noting(asked))
    assert asked.count("passing messages") == 1
    for group, table in zip(groups, together.tables, strict=True):
        np.testing.assert_allclose(NetworkModel(small).posterior([group], {}).tables[0], table, atol=1e-12)


def test_evidence_cuts_off_separated_parts() -> None:
    chain = random_network([3] * 50, [[], *([v] for v in range(49))], 0)
    entered = Entered.of(chain, {"V10": "s0", "V20": "s1"})
    part = entered.part(entered.observed | 1 << 15, 1 << 15)
    assert list(members(part.variables)) == list(range(11, 20))
    # P(evidence) needs the others too.
    found = NetworkModel(chain).posterior([["V15"]], {"V10": "s0", "V20": "s1"})
    whole = from_network(chain).posterior([["V15"]], {"V10": "s0", "V20": "s1"})
    np.testing.assert_allclose(found.tables[0], whole.tables[0], atol=1e-12)
    assert found.log_probability == pytest.approx(whole.log_probability)


def test_evidence_far_away_that_does_not_fit_is_said_and_the_answer_given() -> None:
    evidence: Evidence = {**LEAVES, "V0": "s1"}
    found = NetworkModel(WIDE).posterior([["V0"]], evidence)
    assert found.log_probability is None
    assert "cells need" in found.refusal
    assert found.tables[0].tolist() == [0, 1, 0, 0]
    with pytest.raises(LimitError, match=r"variables on which the answer depends: .* but the limit is"):
        NetworkModel(WIDE).posterior([["V1"]], evidence)


def test_names_and_sizes_are_checked_before_any_work() -> None:
    for groups, evidence in (
        ([["V0"], ["W"]], {}),
        ([["V0"]], {"W": "s0"}),
        ([["V0", "V0"]], {}),
        ([[]], {}),
    ):
        with pytest.raises(InputError):
            NetworkModel(WIDE).posterior(groups, evidence)
    with pytest.raises(LimitError, match="joint marginal of 20 variables"):
        NetworkModel(WIDE).posterior([list(WIDE.names[:20])], {})
    with allowing(100), pytest.raises(LimitError, match=r"cells need .* GB of memory, .* but the limit is"):
        NetworkModel(WIDE).posterior([["V0", "V1"]], {})
    model = from_network(layered(3, 2))
    with pytest.raises(InputError, match="there is no 'W'"):
        model.posterior([["W"]], {})
    with allowing(10), pytest.raises(LimitError, match="cells need"):
        model.posterior([["V0"]], {"V1": "s0"})


def test_a_network_answers_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "wide.bif"
    path.write_text(to_bif(WIDE), encoding="utf-8")
    assert run(["query", str(path), "--target", "V3", "--json"], 0.0) == 0
    text = capsys.readouterr().out
    assert f"{WIDE.nodes[3].table[0, 0]:.6f}"[:6] in text
    last = WIDE.names[-1]
    leaves = ",".join(f"{name}={state}" for name, state in {**LEAVES, "V3": "s1"}.items())
    assert run(["query", str(path), "--target", "V3", "--given", leaves], 0.0) == 0
    assert "ln P(evidence) is left out, and the evidence assumed possible: the" in capsys.readouterr().out
    assert run(["query", str(path), "--target", "W"], 0.0) == 2
    assert run(["query", str(path), "--target", last, "--memory-limit", "0.001"], 0.0) == 4
    assert "the limit is 0.001 GB" in capsys.readouterr().err
    assert run(["query", str(path), "--memory-limit", "nan"], 0.0) == 2
    assert run(["mpe", str(path), "--memory-limit", "0.5"], 0.0) == 4
    for words in (["export", str(path), "--to", "json"], ["sample", str(path)], ["show", str(path)]):
        assert run([*words, "--memory-limit", "nan"], 0.0) == 2
    assert run(["export", str(path), "--to", "json", "--memory-limit", "0.5"], 0.0) == 4
    every = ",".join(f"{name}=s0" for name in WIDE.names[:-1])
    capsys.readouterr()
    assert run(["mpe", str(path), "--given", every], 0.0) == 0
    assert last in capsys.readouterr().out


def test_a_network_answers_in_python(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "wide.bif"
    path.write_text(to_bif(WIDE), encoding="utf-8")
    model = jt.Model.read(path)
    assert repr(model).startswith("Model(Network('random-1': 96 variables")
    assert "96 variables" in model._repr_html_()
    np.testing.assert_allclose(model.query("V7")["probability"].to_numpy(), WIDE.nodes[7].table[0])
    model.query("V3", given={**LEAVES, "V3": "s1"})
    assert "whether the evidence is possible was not checked" in caplog.text
    with pytest.raises(LimitError):
        model.query(WIDE.names[-1], memory=0.001)
    with pytest.raises(LimitError):
        model.mpe(memory=0.001)
    with pytest.raises(InputError, match="there is no 'W'"):
        model.query("V0", given={"W": 1})

    small = some_network(3)
    path.write_text(to_bif(small), encoding="utf-8")
    model = jt.Model.read(path)
    joint = brute_network(small)
    best = model.mpe()["log_probability"].to_list()[0]
    assert best == pytest.approx(log(joint.max()))
    assert model.sample(10).shape == (10, len(small.nodes))
    assert (model.loglik(model.sample(20)).to_numpy() > -inf).all()
    assert len(model.predict(model.sample(5), small.names[0])) == 5
    model.write(tmp_path / "whole.json")
    assert jt.Model.read(tmp_path / "whole.json").names == small.names


# Rows and explanations


@pytest.mark.parametrize("seed", range(12))
def test_rows_of_a_network_are_judged_as_by_its_junction_tree(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = some_network(seed)
    rng = np.random.default_rng(seed)
    rows = np.array([rng.integers(-1, arity, 40) for arity in network.arities], dtype=np.int32)
    rows[:, :10] = np.maximum(rows[:, :10], 0)
    expected = from_network(network).log_likelihood(rows)
    np.testing.assert_allclose(NetworkModel(network).log_likelihood(rows), expected, atol=1e-12)
    monkeypatch.setattr("jtsolve.models.relevance.RelevantPart.fits", lambda _part: False)
    np.testing.assert_allclose(NetworkModel(network).log_likelihood(rows), expected, atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_rows_of_a_network_are_drawn_from_its_posterior(seed: int) -> None:
    network = some_network(seed)
    last = len(network.nodes) - 1
    states = network.nodes[last].states
    for evidence in (
        {},
        {network.names[last]: states[0]},
        {network.names[last]: [1.0] * (len(states) - 1) + [0.2]},
    ):
        rows = NetworkModel(network).sample(20_000, seed, evidence)
        known = from_network(network).condition(evidence).model
        for row, table in zip(rows, known.marginals(), strict=True):
            counts = np.bincount(row, minlength=table.size)
            np.testing.assert_allclose(counts / row.size, table, atol=5 * 0.5 / np.sqrt(row.size))
        drawn = NetworkModel(network)
        assert (drawn.sample(20, seed, evidence) == drawn.sample(20, seed, evidence)).all()
    with pytest.raises(ChoiceError):
        NetworkModel(network).sample(-1)


@pytest.mark.parametrize("seed", range(20))
def test_the_best_configuration_is_found_one_table_at_a_time(seed: int) -> None:
    network = some_network(seed)
    columns = network_variables(network)
    evidence: Evidence = {} if seed % 2 else {network.names[-1]: columns[-1].states[0]}
    (best,), of_evidence = NetworkModel(network).explain(evidence)
    (other,), whole = from_network(network).explain(evidence)
    assert best.log_probability == pytest.approx(other.log_probability)
    assert of_evidence == pytest.approx(whole)
    codes = np.array([[column.code(state)] for column, state in zip(columns, best.values, strict=True)])
    assert NetworkModel(network).log_likelihood(codes)[0] == pytest.approx(best.log_probability + of_evidence)
    several, _ = NetworkModel(network).explain(evidence, 3)
    assert several[0].log_probability == pytest.approx(best.log_probability)


def test_the_memory_of_an_explanation_is_known_before() -> None:
    reported: list[tuple[str | None, float | None]] = []
    run = ReportingRun(lambda *, note, done, **_: reported.append((note, done)))
    NetworkModel(layered(3, 2)).explain({}, run=run)
    fractions = [done for note, done in reported if note == "maximising" and done is not None]
    assert fractions == sorted(fractions)
    assert fractions[-1] < 1
    for k, message in ((1, "the largest table of the tree"), (2, "the 2 best configurations")):
        with allowing(10**9), pytest.raises(LimitError, match=f"{message}: .* cells need .* Ways out: "):
            NetworkModel(WIDE).explain({}, k)
    with pytest.raises(ChoiceError, match="0 configurations"):
        NetworkModel(layered(3, 2)).explain({}, 0)


def test_rows_of_a_network_whose_tree_fits_no_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, rows = tmp_path / "wide.bif", tmp_path / "rows.csv"
    path.write_text(to_bif(WIDE), encoding="utf-8")
    assert run(["sample", str(path), "--rows", "5", "--given", "V3=s1", "--output", str(rows)], 0.0) == 0
    assert run(["loglik", str(path), str(rows), "--drop", ",".join(LEAVES), "--json"], 0.0) == 0
    assert '"impossible_rows": 0' in capsys.readouterr().out
    # A gap above the observed nodes, one row at a time; not so many that nothing fits.
    every = np.zeros((96, 1), dtype=np.int32)
    every[0] = -1
    expected = np.repeat(every, 4, axis=1)
    expected[0] = range(4)
    wide = NetworkModel(WIDE)
    assert wide.log_likelihood(every)[0] == pytest.approx(np.logaddexp.reduce(wide.log_likelihood(expected)))
    assert run(["show", str(path)], 0.0) == 0
    text = capsys.readouterr().out
    assert "no entropies" in text
    assert re.search(r"arcs +216\n", text)
    assert run(["show", str(path), "--output", str(tmp_path / "wide.dot")], 0.0) == 0
    assert run(["show", str(path), "--json"], 0.0) == 0
