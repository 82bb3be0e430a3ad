"""Counts of runs and refusals of each backend in the contract tests; reported at the end of the run."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Tally:
    """Counts by backend and by "ran" or "refused".

    Args:
        counts: by backend, then by what happened.
        required: the backends that have to run something by the end.
    """

    counts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    required: set[str] = field(default_factory=set)

    def count(self, backend: str, what: str) -> None:
        self.counts[backend][what] += 1

    def to_plain(self) -> dict[str, Any]:
        """Returns the counts that a test process sends to its parent."""
        return {
            "counts": {name: dict(seen) for name, seen in self.counts.items()},
            "required": sorted(self.required),
        }

    def add(self, plain: dict[str, Any]) -> None:
        """Adds the counts of a test process."""
        for name, seen in plain["counts"].items():
            self.counts[name].update(seen)
        self.required.update(plain["required"])

    def idle(self) -> list[str]:
        """Returns the required backends that did not run."""
        return sorted(name for name in self.required if not self.counts[name]["ran"])

    def lines(self) -> list[str]:
        """Returns the table, a line per backend, and its faults."""
        rows = [("backend", "ran", "refused")]
        rows += [(name, str(seen["ran"]), str(seen["refused"])) for name, seen in sorted(self.counts.items())]
        faults = [f"FAILED: registered, and ran nothing: {name}" for name in self.idle()]
        return [f"{name:<12}{ran:>8}{refused:>9}" for name, ran, refused in rows] + faults
