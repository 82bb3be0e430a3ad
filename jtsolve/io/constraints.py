"""Files of constraints alone, for use beside data: TOML or JSON with the keys of an instance's constraints.

max_separator_size = 2
forbidden_edges = [["Age", "Smoker"]]
"""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

import msgspec

from jtsolve.core.files import read_file
from jtsolve.errors import InputError
from jtsolve.io.documents import ConstraintsDocument

if TYPE_CHECKING:
    from pathlib import Path


def read_constraints(path: Path) -> ConstraintsDocument:
    """Returns the constraints in a file.

    Raises:
        InputError: the file cannot be read or is invalid; names the place.
    """
    data = read_file(path)
    try:
        values: Any = tomllib.loads(data.decode()) if path.suffix == ".toml" else msgspec.json.decode(data)
        return msgspec.convert(values, ConstraintsDocument)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at ")
        raise InputError(
            str(path),
            place.strip("`") or "$",
            reason.replace("`", "'"),
            "see 'Constraints' in docs/formats.md",
        ) from None
    except (tomllib.TOMLDecodeError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(
            str(path), "", f"it cannot be read ({error})", "write TOML in a .toml file, JSON in any other"
        ) from None
