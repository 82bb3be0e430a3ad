"""The sums on a device: their CUDA text run by the C++ compiler, cell by cell as the processor's."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from emulator import COMPILER, Emulator, Ledger
from problems import gaussian, named
from reference_averaging import enumerated
from runs import ImpatientRun

from jtsolve.averaging.average import average, draw_trees
from jtsolve.averaging.device.plan import SumsPlan
from jtsolve.averaging.device.run import DeviceSums, on_host
from jtsolve.averaging.exact import Exact
from jtsolve.averaging.sums import compute, number_of
from jtsolve.averaging.weights import set_weights
from jtsolve.core import cuda
from jtsolve.core.cuda import open_device
from jtsolve.core.problem import Constraints, Problem
from jtsolve.core.result import Stop
from jtsolve.core.run import Limits, Run
from jtsolve.core.scores import StoppedError
from jtsolve.core.varset import subsets
from jtsolve.errors import ChoiceError, LimitError, RefusedError

if TYPE_CHECKING:
    from jtsolve.averaging.sums import Sums
    from jtsolve.core.cuda import Device

emulated = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler g++ on the PATH")
FREE = Constraints()
RULED = Constraints(
    max_treewidth=3,
    forbidden_edges=frozenset({0b11}),
    required_edges=frozenset({0b1010}),
    forbidden_separators=frozenset({0b100}),
)
TIED = Constraints(min_separator_size=1)
CUDA = Exact(device="cuda")


def on_device(problem: Problem, device: Device, run: Run | None = None) -> DeviceSums:
    weights = set_weights(problem)
    return DeviceSums(weights, SumsPlan(weights.n, weights.width), device, run or Run(Limits(threads=1)))


def differing(problem: Problem, device: Device) -> int:
    """Returns how many cells of all tables differ by more than rounding from those of the processor."""
    found, sums = on_device(problem, device), compute(set_weights(problem), Run(Limits(threads=1)))
    wrong = wrong_in_x(found, sums)
    for mine, exact in zip(on_host(found).tables[:3], sums.tables[:3], strict=True):
        assert mine.size == exact.size
        # The difference of two words of nearly the same number is its relative error.
        wrong += int((np.abs(mine.view(np.int64) - exact.view(np.int64)) * found.precision > 1e-11).sum())
    return wrong


def wrong_in_x(found: DeviceSums, sums: Sums) -> int:
    """Counts the wrong cells X(S,R) = c P − B, B = Σ_K F(S,K) P(S,R∖K) from the tables of the processor."""
    words = {name: found.device.download(found.arrays[name]) for name in ("X", "position", "order")}
    n, width = found.plan.n, found.plan.width
    start = np.cumsum([0, *np.bincount(np.bitwise_count(np.arange(1 << n)))])
    clique, inverse = (np.exp2(part) for part in (sums.weights.clique, -sums.weights.separator))

    def value(word: Any) -> float:
        number, exponent = number_of(int(word) & ~1, *found.format)
        return (-1.0 if int(word) & 1 else 1.0) * number * 2.0 ** min(exponent, 900)

    def name(mask: int, among: int) -> int:
        members = [v for v in range(n) if among >> v & 1]
        return sum(1 << i for i, v in enumerate(members) if mask >> v & 1)

    wrong = 0
    for s in sums.layout.masks.tolist()[1:]:  # X(∅,R) is in no sum
        outside = (1 << n) - 1 ^ s
        size, begin = s.bit_count(), int(sums.layout.offset[s])
        for r in subsets(outside):
            cells = {k: begin + 8 * name(k, outside) for k in subsets(r)}
            p = {k: value(sums.tables.parts[cell] & ~np.uint64(1)) for k, cell in cells.items()}
            full = 0.0
            if inverse[s] and size < width:
                full = sum(value(sums.tables.f[cells[k]] & ~np.uint64(1)) * p[r ^ k] for k in subsets(r) if k)
            m = size + r.bit_count()
            begins, row = found.plan.rows[m]
            rank = int(words["position"][s | r]) - int(start[m])
            here = begins + rank * row + int(words["order"][name(s, s | r)])
            wrong += abs(value(words["X"][here]) - (clique[s] * p[r] - full)) > 1e-9 * (1 + clique[s] * p[r])
    return wrong


@emulated
@pytest.mark.parametrize(
    ("n", "constraints"), [*((n, FREE) for n in range(1, 7)), (6, RULED), (6, TIED), (7, FREE)]
)
def test_all_cells_are_those_of_the_processor(n: int, constraints: Constraints) -> None:
    assert differing(named(gaussian(n, n), constraints), Emulator()) == 0


@emulated
def test_launches_in_ranges_of_blocks_fill_the_same_cells() -> None:
    device = Emulator(speed=1e-12)
    assert differing(named(gaussian(3, 6)), device) == 0
    assert len(device.launched) > 200


@emulated
@pytest.mark.parametrize(
    "damage",
    [
        ("total.add(x & ~1ull, x >> bits, x & 1 ? -1.0 : 1.0, bits)", "total.add(x, x >> bits, 1.0, bits)"),
        ("__popc(S | part) > t->width", "__popc(part) > t->width"),
        ("y = p[(i64)(R ^ part) << cell.shift]", "y = p[(i64)part << cell.shift]"),
        ("code - top)", "code - top + 1)"),
        ("value *= power(code - term_code);", ""),
        ("row.c < t->width) {\n        u32 missing", "row.c + 1 < t->width) {\n        u32 missing"),
        ("if (missing) X[here] = 0;", ""),
        ("with_zero(R, v - __popc(below(S, v)))", "with_zero(R, v)"),
        ("u32 part = rest;\n", "u32 part = rest & (rest - 1);\n"),
        ("own.inverse != 0.0 && row.c < t->width", "row.c < t->width"),
        (") | 1 : pack(net", ") : pack(net"),
        ("t->row[members] +", "t->row[members] + 0 *"),
    ],
)
def test_a_planted_error_is_seen_in_the_cells(damage: tuple[str, str]) -> None:
    assert differing(named(gaussian(0, 6), RULED), Emulator(damage=damage))


@emulated
@pytest.mark.parametrize("constraints", [FREE, RULED, TIED])
@pytest.mark.parametrize("n", [1, 2, 4, 5])
def test_features_are_those_of_all_graphs(n: int, constraints: Constraints) -> None:
    problem = named(gaussian(n, n), constraints if n > 3 else FREE)
    expected, found = enumerated(problem), on_device(problem, Emulator())
    assert expected is not None
    assert found.log_total == pytest.approx(expected.log_evidence, abs=1e-11)
    features = found.features()
    assert features.connected == pytest.approx(expected.connected, abs=1e-12)
    for i, mask in enumerate(features.masks.tolist()):
        for name in ("complete", "clique", "separator"):
            assert getattr(features, name)[i] == pytest.approx(getattr(expected, name)[mask], abs=1e-12)


@emulated
@pytest.mark.parametrize("damage", [("row.c == t->n", "row.c + 1 == t->n"), ("> 1e-13 ?", "> 2 ?")])
def test_a_planted_error_is_seen_in_the_features(damage: tuple[str, str]) -> None:
    with pytest.raises(AssertionError):
        compare(named(gaussian(4, 4)), damage)


def compare(problem: Problem, damage: tuple[str, str]) -> None:
    """Compares separators and cliques with enumeration."""
    expected, features = enumerated(problem), on_device(problem, Emulator(damage=damage)).features()
    assert expected is not None
    for i, mask in enumerate(features.masks.tolist()):
        assert features.clique[i] == pytest.approx(expected.clique[mask], abs=1e-12)
        assert features.separator[i] == pytest.approx(expected.separator[mask], abs=1e-12)


@pytest.fixture
def emulator(monkeypatch: pytest.MonkeyPatch) -> Emulator:
    device = Emulator()
    monkeypatch.setattr(cuda, "may_have_device", lambda: True)
    monkeypatch.setattr(cuda, "open_device", lambda: device)
    return device


@emulated
def test_posterior_treewidths_and_draws_are_those_of_the_processor(emulator: Emulator) -> None:
    problem = named(gaussian(1, 6))
    one, other = (
        average(problem, method=f"exact:device={name},draws=50,treewidths=true") for name in ("cuda", "cpu")
    )
    assert emulator.launched
    assert one is not None
    assert other is not None
    assert np.abs(one.edges - other.edges).max() < 1e-12
    assert one.diagnostics["treewidth"] == pytest.approx(other.diagnostics["treewidth"], abs=1e-12)
    assert [posterior.diagnostics["device"] for posterior in (one, other)] == ["cuda", "cpu"]
    assert one.diagnostics["edges_in_graph"] == other.diagnostics["edges_in_graph"]
    drawn = [draw_trees(problem, 30, method=f"exact:device={name}") for name in ("cuda", "cpu")]
    assert drawn[0] == drawn[1]


@emulated
def test_auto_selects_a_device_where_it_saves_seconds(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = named(gaussian(0, 6))
    average(problem)
    assert not emulator.launched
    eager = partial(cuda.choose_device, worth=-10.0)
    monkeypatch.setattr("jtsolve.averaging.device.run.choose_device", eager)
    average(problem, method="exact:device=cpu")
    average(named(gaussian(0, 6), Constraints(real_variables=0b11)))
    assert "connect" not in emulator.launched
    average(problem)
    assert "connect" in emulator.launched
    # Where the memory has no room, a device may have.
    small = Limits(memory=1)
    assert Exact().fits(6, 6, small)
    assert not Exact().fits(6, 6, small, drawn=True)
    assert not Exact(device="cpu").fits(6, 6, small)
    emulator.room = 0
    assert not Exact().fits(6, 6, small)


@emulated
def test_a_device_refuses_unsupported_problems_in_a_sentence(emulator: Emulator) -> None:
    problem = named(gaussian(0, 6))
    with pytest.raises(RefusedError, match="A device does not support real variables; use device=cpu"):
        average(named(gaussian(0, 6), Constraints(real_variables=0b11)), method=CUDA)
    with pytest.raises(LimitError, match=r"the exact sums need .* but the memory limit is 0\.001 GB"):
        average(problem, method=CUDA, run=Run(Limits(memory=10**6)))
    emulator.room = 1000
    with pytest.raises(
        LimitError, match=r"the device needs .* are free: .* a smaller \S*treewidth\S*; device=cpu"
    ):
        average(problem, method=CUDA)
    assert not emulator.launched


def test_a_missing_device_is_explained() -> None:
    if not cuda.may_have_device():
        with pytest.raises(ChoiceError, match="CuPy is missing"):
            average(named(gaussian(0, 4)), method=CUDA)


@emulated
def test_sums_on_a_device_stop() -> None:
    with pytest.raises(StoppedError):
        on_device(
            named(gaussian(0, 6)), Emulator(speed=1e-12), ImpatientRun(3, Stop.INTERRUPTED, Limits(threads=1))
        )


def test_predicted_memory_and_seconds_are_those_of_an_h100() -> None:
    for n, gigabytes, seconds in ((18, 12.7, 0.92), (20, 112.6, 8.6)):
        plan = SumsPlan(n, n)
        assert plan.memory / 1e9 == pytest.approx(gigabytes, rel=0.02)
        assert sum(launch.seconds for launch in plan.sums()) == pytest.approx(seconds, rel=0.1)


@pytest.mark.parametrize("width", [4, 14])
def test_the_memory_used_is_the_predicted_one(width: int) -> None:
    device = Ledger()
    on_device(named(gaussian(0, 14)).with_treewidth(width - 1), device)
    assert device.taken == pytest.approx(SumsPlan(14, width).memory, rel=0.02)


@pytest.mark.gpu
def test_all_cells_on_a_device() -> None:
    for n in range(1, 9):
        assert differing(named(gaussian(n, n)), open_device()) == 0
    assert differing(named(gaussian(0, 8), RULED), open_device()) == 0
