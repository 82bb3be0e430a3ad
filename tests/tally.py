"""How often each backend ran and refused in the contract tests; printed at the end of the run."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field


@dataclass
class Tally:
    """Counts by backend and by "ran" or "refused"."""

    counts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def count(self, backend: str, what: str) -> None:
        self.counts[backend][what] += 1

    def lines(self) -> list[str]:
        """Returns the table, a line a backend."""
        rows = [("backend", "ran", "refused")]
        rows += [(name, str(seen["ran"]), str(seen["refused"])) for name, seen in sorted(self.counts.items())]
        return [f"{name:<12}{ran:>8}{refused:>9}" for name, ran, refused in rows]
