"""Journals of resumable runs: a line of JSON for each finished case."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def read_lines(path: Path | None) -> list[dict[str, Any]]:
    """Returns the lines of a journal; none without a file. Removes an incomplete last line from the file."""
    if path is None or not path.exists():
        return []
    text = path.read_bytes()
    whole = text[: text.rfind(b"\n") + 1]
    if len(whole) < len(text):
        os.truncate(path, len(whole))
    return [json.loads(line) for line in whole.splitlines()]
