"""The recurrence on a device: its CUDA text run by the C++ compiler, cell by cell as the processor's."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from emulator import COMPILER, Emulator, Ledger
from problems import Recording, gaussian, named
from reference_dp import optimum

from jtsolve.backends.dp.backend import DynamicProgramming
from jtsolve.backends.dp.device.plan import DevicePlan, Tile
from jtsolve.backends.dp.device.run import DeviceTables
from jtsolve.backends.dp.plan import BYTES
from jtsolve.backends.dp.ranks import rank_tables
from jtsolve.backends.dp.scores import local_scores
from jtsolve.core import cuda
from jtsolve.core.cuda import open_device
from jtsolve.core.problem import Constraints, Problem
from jtsolve.core.result import Status, Stop
from jtsolve.core.run import Limits
from jtsolve.core.scores import SparseScores
from jtsolve.errors import ChoiceError, LimitError, RefusedError
from jtsolve.solving import solve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.backends.dp.plan import Precision
    from jtsolve.core.cuda import Device

emulated = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler g++ on the PATH")
SMALL = Tile(1, 1, 1, 1)
CUDA = DynamicProgramming(device="cuda")


def reference(problem: Problem, scores: Any, ranks: Any) -> dict[tuple[int, int], NDArray[Any]]:
    """Returns g(C,·) by ρ and C, U renamed within V∖C: the recurrence on one table as docs/dp.md has it."""
    m, width = problem.n - 1, ranks.width
    lowest, threshold = scores.lowest, scores.threshold
    found: dict[tuple[int, int, int], Any] = {}
    for u in sorted(range(1 << m), key=int.bit_count):
        for c in sorted((c for c in ranks.masks.tolist() if c & u == 0), key=int.bit_count):
            for root in range(min(2, width - c.bit_count() + 1)):
                own = ranks.position[c]
                best = [lowest] if u else [scores.lowest * 0 if scores.lowest > -np.inf else 0.0]
                for v in (1 << i for i in range(m)):
                    if u & v and c.bit_count() + root < width:
                        more = scores.clique[root, ranks.position[c | v]]
                        value = max(lowest, more + found[root, c | v, u ^ v])
                        best.append(value - scores.separator[root, own])
                    if c & v:
                        best.append(found[root, c ^ v, u])
                if root:
                    best.append(found[0, c, u])
                part = (u - 1) & u
                while part:
                    best.append(found[root, c, part] + found[root, c, u ^ part])
                    part = (part - 1) & u
                found[root, c, u] = max(best) if max(best) >= threshold else lowest
    tables: dict[tuple[int, int], list[Any]] = {}
    for root, c, u in sorted(found):
        tables.setdefault((root, c), []).append(found[root, c, u])
    return {key: np.array(values) for key, values in tables.items()}


def differing(problem: Problem, precision: Precision, tile: Tile | None, device: Device) -> int:
    """Returns how many cells of all tables differ from the reference."""
    n, width = problem.n, problem.max_clique_size
    ranks = rank_tables(n - 1, width, min(3, n - 1))
    scores, _ = local_scores(problem, ranks, precision)
    tables = DeviceTables(DevicePlan(n, width, precision, tile), ranks, scores, device)
    tables.fill(Recording())
    wrong = 0
    for (root, c), values in reference(problem, scores, ranks).items():
        at = ranks.position[c]
        cells = tables.offset[root, at] + tables.step[at] * np.arange(values.size)
        wrong += int((tables.gather(cells) != values).sum())
    return wrong


@emulated
@pytest.mark.parametrize(
    ("n", "width", "precision", "tile"),
    [(n, n, "int32", SMALL) for n in range(1, 7)]
    + [
        (7, 7, "float64", Tile(2, 1, 2, 1)),
        (7, 7, "int64", SMALL),
        (7, 7, "int48", Tile(2, 2, 2, 1)),
        (7, 3, "int32", Tile(2, 2, 1, 1)),
        (7, 7, "int32", None),
    ],
)
def test_all_cells_are_those_of_the_recurrence(
    n: int, width: int, precision: Precision, tile: Tile | None
) -> None:
    assert differing(named(gaussian(n, n)).with_treewidth(width - 1), precision, tile, Emulator()) == 0


@emulated
def test_launches_in_ranges_of_blocks_fill_the_same_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Emulator, "speed", 1e-12)
    device = Emulator()
    assert differing(named(gaussian(3, 6)), "int32", SMALL, device) == 0
    assert len(device.launched) > 2 * len(list(DevicePlan(6, 6, "int32", SMALL).launches()))


@emulated
@pytest.mark.parametrize(
    "damage",
    [
        ("c + rho > 1 &&", "c + rho > 2 &&"),
        ("spare > rho)", "spare > rho + 1)"),
        ("j < c; j++", "j < c - 1; j++"),
        ("s - score[rho * known + own]", "s - score[own]"),
        ("with_zero(U, place[j][lane])", "with_zero(U, 0)"),
        ("for (u32 part = rest; part;)", "for (u32 part = rest & (rest - 1); part;)"),
        ("if (turn) best[x]", "if (0) best[x]"),
        ("(middle ^ right)", "middle"),
        ("turn * SERIAL; i", "turn; i"),
        ("i++, right = (right - middle) & middle", "i++"),
        ("U ? LOWEST : (T)0", "LOWEST"),
        ("j > LOW)", "j >= LOW)"),
    ],
)
def test_a_planted_error_is_seen_in_the_cells(damage: tuple[str, str]) -> None:
    damaged = Emulator(damage=damage)
    assert any(
        differing(named(gaussian(0, 7)).with_treewidth(treewidth), "int32", tile, damaged)
        for treewidth in (2, 3)
        for tile in (Tile(0, 3, 2, 1), Tile(1, 2, 2, 1))
    )


def room(problem: Problem, precision: Precision) -> int:
    """Returns the free memory in which a run has this precision."""
    return DevicePlan(problem.n, problem.max_clique_size, precision).memory + 100_000_000


@pytest.fixture
def emulator(monkeypatch: pytest.MonkeyPatch) -> Emulator:
    device = Emulator()
    monkeypatch.setattr(cuda, "may_have_device", lambda: True)
    monkeypatch.setattr(cuda, "open_device", lambda: device)
    return device


@emulated
@pytest.mark.parametrize("precision", ["float64", "int48", "int32"])
@pytest.mark.parametrize("n", [1, 2, 6, 8])
def test_trees_are_optimal(emulator: Emulator, precision: Precision, n: int) -> None:
    constraints = Constraints(
        max_treewidth=3, required_edges=frozenset({0b110}), forbidden_edges=frozenset({0b11, 0b1001})
    )
    problem = named(gaussian(n, n), constraints if n > 3 else Constraints())
    emulator.room = room(problem, precision)
    result = solve(problem, CUDA)
    assert (result.stats["precision"], emulator.launched[-1]) == (precision, "finish")
    assert result.gap < (1e-4 if precision == "int32" else 1e-6)
    assert result.score == pytest.approx(optimum(problem), abs=1e-6)
    assert result.stats["device"] == "cuda"


@emulated
@pytest.mark.usefixtures("emulator")
def test_coarse_scores_give_an_honest_gap_and_more_bits_close_it() -> None:
    wide = named(gaussian(0, 6, scale=1e7))
    coarse = solve(wide, replace(CUDA, precision="int32"))
    assert (coarse.status, coarse.stats["device"]) == (Status.FEASIBLE, "cuda")
    assert 1e-6 < coarse.gap < 10
    assert solve(named(gaussian(0, 6, scale=1e9)), CUDA).stats["precision"] == "int64"


@emulated
def test_required_edges_that_no_tree_has_are_proved(emulator: Emulator) -> None:
    square = frozenset({0b11, 0b110, 0b1100, 0b1001})
    problem = named(gaussian(1, 4), Constraints(max_treewidth=1, required_edges=square))
    assert solve(problem, CUDA).status is Status.INFEASIBLE
    assert emulator.launched


@emulated
def test_a_run_is_refused_where_no_bits_fit(emulator: Emulator) -> None:
    problem = named(gaussian(0, 7))
    with pytest.raises(LimitError, match=r"backend 'dp' needs .* but the memory limit is 0\.001 GB"):
        CUDA.solve(problem, Limits(memory=10**6), Recording())
    emulator.room = room(problem, "int32") - 1
    with pytest.raises(LimitError, match=r"the device needs .* are free: others .* device=cpu"):
        solve(problem, CUDA)


@emulated
def test_auto_selects_a_device_where_it_saves_seconds(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = named(gaussian(0, 6))
    assert solve(problem, DynamicProgramming()).stats["device"] == "cpu"
    eager = partial(cuda.choose_device, worth=-10.0)
    monkeypatch.setattr("jtsolve.backends.dp.backend.choose_device", eager)
    assert solve(problem, DynamicProgramming()).stats["device"] == "cuda"
    assert DynamicProgramming().estimate(problem, Limits()).seconds > 1
    ruled = named(gaussian(0, 6), Constraints(max_separator_size=1))
    assert solve(ruled, DynamicProgramming()).stats["device"] == "cpu"
    assert solve(problem, DynamicProgramming(device="cpu")).stats["device"] == "cpu"
    emulator.room = 0
    assert solve(problem, DynamicProgramming()).stats["device"] == "cpu"


@emulated
def test_a_run_on_a_device_stops(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Emulator, "speed", 1e-9)  # predicted to be slow: the report is asked between ranges
    outcome = CUDA.solve(named(gaussian(0, 6)), Limits(), Recording(patience=3, reason=Stop.INTERRUPTED))
    assert (outcome.stop, outcome.tree) == (Stop.INTERRUPTED, None)
    assert len(emulator.launched) < 20


def test_a_device_refuses_unsupported_problems_in_a_sentence(emulator: Emulator) -> None:
    def reasons(problem: Problem) -> str:
        return " ".join(CUDA.capabilities.objections(problem))

    assert "does not support max_separator_size; device=cpu does" in reasons(
        named(gaussian(0, 5), Constraints(max_separator_size=1))
    )
    assert "at most 25 variables, not 26" in reasons(named(gaussian(0, 26, 2)))
    holes = named(SparseScores(3, {0: 0.0, 1: 1.0, 2: 1.0, 4: 1.0, 7: 9.0}))
    assert "every subset of a clique needs a score" in reasons(holes)
    with pytest.raises(RefusedError, match="every subset of a clique needs a score; device=cpu"):
        solve(holes, CUDA)
    assert not emulator.launched


@pytest.mark.parametrize(
    ("driver", "message"),
    [
        (None, "CuPy is missing.*pip install 'jtsolve.gpu.'; device=cpu"),
        (0, "no NVIDIA driver"),
        (12040, "driver is for CUDA 12, CuPy for CUDA 13.*cupy-cuda12x"),
        (13000, "finds no usable one"),
    ],
)
def test_a_missing_device_is_explained(
    monkeypatch: pytest.MonkeyPatch, driver: int | None, message: str
) -> None:
    def fail() -> int:
        raise OSError

    runtime = SimpleNamespace(
        driverGetVersion=lambda: driver,
        runtimeGetVersion=lambda: 13020,
        getDevice=fail,
        getDeviceProperties=dict,
        CUDARuntimeError=OSError,
    )
    cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime), __spec__=driver)
    if driver is not None:
        monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(cuda, "may_have_device", lambda: driver is not None)
    problem = named(gaussian(0, 5))
    with pytest.raises(ChoiceError, match=message):
        CUDA.solve(problem, Limits(), Recording())
    assert any(re.search(message, reason) for reason in CUDA.capabilities.objections(problem))


@pytest.mark.parametrize(
    ("n", "width", "gigabytes"),
    [
        (18, 18, (1.1, 1.6, 2.1)),
        (20, 20, (9.4, 14.1, 18.8)),
        (22, 22, (83.9, 125.9, 167.9)),
        (22, 4, (7.2, 10.8, 14.4)),
    ],
)
def test_predicted_memory_is_that_used_on_an_h100(n: int, width: int, gigabytes: tuple[float, ...]) -> None:
    plans = [DevicePlan(n, width, name) for name in ("int32", "int48", "float64")]
    assert [round(plan.memory / 1e9, 1) for plan in plans] == pytest.approx(gigabytes, abs=0.06)


@pytest.mark.parametrize("precision", BYTES)
def test_the_memory_used_is_the_predicted_one(precision: Precision) -> None:
    problem, plan, device = named(gaussian(0, 15)), DevicePlan(15, 15, precision), Ledger()
    ranks = rank_tables(14, 15, 3)
    DeviceTables(plan, ranks, local_scores(problem, ranks, precision)[0], device).fill(Recording())
    assert device.taken == pytest.approx(plan.memory, rel=0.02)


def test_predicted_seconds_are_those_of_an_h100() -> None:
    measured = {(20, 20, "int32"): 0.12, (21, 21, "float64"): 0.92, (22, 22, "int32"): 1.42}
    for (n, width, name), seconds in measured.items():
        assert DevicePlan(n, width, name).kernel_seconds == pytest.approx(seconds, rel=0.1)  # type: ignore[arg-type]


@pytest.mark.gpu
@pytest.mark.parametrize("precision", BYTES)
def test_all_cells_on_a_device(precision: Precision) -> None:
    for n in range(1, 8):
        assert differing(named(gaussian(n, n)), precision, SMALL, open_device()) == 0
    assert differing(named(gaussian(0, 10)), precision, Tile(2, 2, 2, 1), open_device()) == 0
