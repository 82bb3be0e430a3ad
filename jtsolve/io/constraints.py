"""Files of constraints alone, for use beside data: TOML or JSON with the keys of an instance's constraints.

max_separator_size = 2
forbidden_edges = [["Age", "Smoker"]]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jtsolve.core.files import read_file
from jtsolve.io.documents import ConstraintsDocument
from jtsolve.io.settings import decode_settings

if TYPE_CHECKING:
    from pathlib import Path


def read_constraints(path: Path) -> ConstraintsDocument:
    """Returns the constraints in a file.

    Raises:
        InputError: the file cannot be read or is invalid; names the place.
    """
    return decode_settings(read_file(path), ConstraintsDocument, path, "'Constraints' in docs/formats.md")
