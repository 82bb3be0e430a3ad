"""Hand-written files of constraints: TOML or JSON, with the keys of an instance's constraints.

max_separator_size = 2
forbidden_edges = [["Age", "Smoker"]]
"""

from __future__ import annotations

import tomllib
from math import isfinite
from typing import TYPE_CHECKING

import msgspec

from jtsolve.core.files import read_file
from jtsolve.errors import InputError
from jtsolve.io.constraints import ConstraintsDocument
from jtsolve.io.documents import require_unique_keys, require_utf8

if TYPE_CHECKING:
    from pathlib import Path


def read_constraints(path: Path) -> ConstraintsDocument:
    """Returns the constraints in a .toml file, or in a JSON file of any other name.

    Raises:
        InputError: the file cannot be read or is invalid; names the place.
    """
    data, source = read_file(path), str(path)
    require_utf8(data, source)
    try:
        if path.suffix == ".toml":
            values = tomllib.loads(data.decode(), parse_float=_finite)
        else:
            values = msgspec.json.decode(data)
            require_unique_keys(data, source)
        return msgspec.convert(values, ConstraintsDocument)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at ")
        place, remedy = place.strip("`") or "$", "see 'Constraints' in docs/formats.md"
        raise InputError(source, place, reason.replace("`", "'"), remedy) from None
    except RecursionError:
        raise InputError(source, "", "its lists or tables are nested too deeply", "nest them less") from None
    except ValueError as error:  # of syntax, or a number of thousands of digits
        remedy = "write TOML in a .toml file, JSON in any other"
        raise InputError(source, "", f"it cannot be read ({error})", remedy) from None


def _finite(text: str) -> float:
    """Returns a number of TOML; refuses infinity and NaN, which JSON lacks."""
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number
