"""Grids: instances × treewidths × backends × seeds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from jtsolve.backends.registry import REGISTRY
from jtsolve.compare.running.run import AUTO, file_digest
from jtsolve.compare.spec import InstanceFile, Spec
from jtsolve.core.formats import INSTANCE, stem_of
from jtsolve.errors import ChoiceError, InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NO_TREEWIDTH = "none"
_MOST_NUMBERS = 10**6
"""Maximum size of a range; each number is a run for every instance and backend."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A comparison before expansion, without its instances.

    Args:
        backends: names with options, as in "lns:exact=dp,region=12"; "auto" is allowed.
        treewidths: bounds; None for the instances' own constraints only.
        seeds: of the runs.
        time_limit: seconds per run.
        memory_limit: GB per run.
        threads: per run; None for one.
        grace: seconds past the time limit before a run is killed.
    """

    backends: Sequence[str]
    treewidths: Sequence[int | None] = (None,)
    seeds: Sequence[int] = (0,)
    time_limit: float | None = None
    memory_limit: float | None = None
    threads: int | None = None
    grace: float = 10.0


def split_backends(text: str) -> list[str]:
    """Splits a list of backends; a `key=value` belongs to the backend before it.

    >>> split_backends("dp,lns:exact=dp,seed=3,forward")
    ['dp', 'lns:exact=dp,seed=3', 'forward']
    """
    backends: list[str] = []
    for part in text.split(","):
        if backends and re.match(r"[^:=]+=", part):
            backends[-1] += f",{part}"
        else:
            backends.append(part.strip())
    return backends


def parse_treewidths(text: str) -> list[int | None]:
    """Parses a list of treewidths.

    >>> parse_treewidths("2,3-5,none")
    [2, 3, 4, 5, None]
    """
    parts: list[int | None] = []
    for part in text.split(","):
        parts.extend([None] if part.strip() == NO_TREEWIDTH else parse_numbers(part, "treewidth"))
    return parts


def parse_numbers(text: str, what: str) -> list[int]:
    """Parses a list of numbers and ranges such as "0-2,7".

    Raises:
        ChoiceError: the text is malformed.

    >>> parse_numbers("0-2,7", "seed")
    [0, 1, 2, 7]
    """
    numbers: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})(?:\s*-\s*(\d{1,9}))?\s*", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if last < first:
            raise ChoiceError(f"'{part}' is neither a {what} nor a range; write for example 0-4 or 0,2,5")
        if last - first >= _MOST_NUMBERS:
            raise ChoiceError(f"'{part}' has more than {_MOST_NUMBERS} numbers; write a shorter range")
        numbers.extend(range(first, last + 1))
    return numbers


def find_files(places: Iterable[str]) -> list[Path]:
    """Returns the given files and the instances in the given folders, without duplicates.

    Files with other suffixes, hidden files and JSON files that are not instances are skipped in folders.

    Raises:
        InputError: a path does not exist, or a folder holds no instance.
    """
    files: list[Path] = []
    for place in map(Path, places):
        if not place.is_dir():
            if not place.exists():
                raise InputError(str(place), "", "there is no such file or folder", "check the spelling")
            files.append(place)
            continue
        inside = [path for path in sorted(place.iterdir()) if INSTANCE.format_to_read(path) is not None]
        inside = [path for path in inside if not path.name.startswith(".") and _may_be_instance(path)]
        if not inside:
            raise InputError(str(place), "", "there is no instance in this folder", "give another folder")
        files.extend(inside)
    unique = {path.resolve(): path for path in files}
    return list(unique.values())


def _may_be_instance(path: Path) -> bool:
    """Returns whether to include a file of a folder; JSON files have to declare the format."""
    if not path.is_file() or not path.name.endswith(".json"):
        return path.is_file()
    with path.open("rb") as stream:
        return b'"jtsolve-instance"' in stream.read(4096)


def labels(paths: Sequence[Path]) -> list[str]:
    """Returns a label per file: its name without suffixes, preceded by as many folders as make it unique.

    >>> labels([Path("a/zoo.json.gz"), Path("b/zoo.json"), Path("b/iris.json")])
    ['a/zoo', 'b/zoo', 'iris']
    """
    stems = [
        path.with_name(stem_of(path) if INSTANCE.format_to_read(path) else path.name).absolute()
        for path in paths
    ]

    def name(at: int, depth: int) -> str:
        return "/".join(stems[at].parts[-depth:])

    found = []
    for at, path in enumerate(paths):
        depths = range(1, len(stems[at].parts))
        others = [other for other in range(len(paths)) if other != at]
        apart = (d for d in depths if all(name(at, d) != name(other, d) for other in others))
        # Labels of files that differ only in their suffixes include them.
        found.append(next((name(at, depth) for depth in apart), path.name))
    return found


def expand(grid: Grid, instances: Sequence[Path]) -> list[Spec]:
    """Returns the runs of a grid, ordered by instance, treewidth, backend and seed.

    Raises:
        ChoiceError: a backend, option or limit is invalid, or a run occurs twice.
        InputError: an instance cannot be read.
    """
    for backend in grid.backends:
        if backend != AUTO:
            REGISTRY.parse(backend)
    limits = (grid.time_limit, grid.memory_limit, grid.threads or 1, grid.grace)
    specs = [
        Spec("jtsolve-run", 1, instance, backend, seed, treewidth, *limits)
        for instance in _instance_files(instances)
        for treewidth in grid.treewidths
        for backend in grid.backends
        for seed in grid.seeds
    ]
    try:  # constructors do not check types and bounds
        msgspec.convert(msgspec.to_builtins(specs[0]), Spec)
    except msgspec.ValidationError as error:
        raise ChoiceError(f"{str(error).replace('`', chr(39))}; see 'jtsolve compare --help'") from None
    seen: set[str] = set()
    for spec in specs:
        if spec.id in seen:
            raise ChoiceError(
                f"the run of '{spec.backend}' on '{spec.instance.label}' with treewidth {spec.treewidth} and "
                f"seed {spec.seed} occurs twice; give every backend, treewidth and seed once"
            )
        seen.add(spec.id)
    return specs


def _instance_files(paths: Sequence[Path]) -> list[InstanceFile]:
    return [
        InstanceFile(_in_utf8(path.resolve()), label, file_digest(path))
        for path, label in zip(paths, labels(paths), strict=True)
    ]


def _in_utf8(path: Path) -> str:
    """Returns a path as UTF-8 text, as specifications are.

    Raises:
        InputError: it has a byte that is not UTF-8.
    """
    try:
        str(path).encode()
    except UnicodeEncodeError:
        reason = "its path has a byte that is not UTF-8, as specifications are"
        raise InputError(str(path), "", reason, "rename it") from None
    return str(path)
