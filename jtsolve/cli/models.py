"""Shared by the commands on models: evidence, and rows as a table of labels."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtsolve.cli.output import emit
from jtsolve.core.files import write_atomically
from jtsolve.core.formats import EVIDENCE, TABLE
from jtsolve.errors import ChoiceError, InputError

if TYPE_CHECKING:
    import polars as pl

    from jtsolve.models.protocol import Distribution


def parse_assignments(texts: Sequence[str] | None, names: Sequence[str], option: str) -> dict[str, str]:
    """Returns the pairs in "A=x,B=y"; a comma that is not followed by "variable=" belongs to the state.

    Args:
        texts: of the option.
        names: of the variables.
        option: its name, for errors.

    Raises:
        InputError: a part is not NAME=VALUE, or a name is unknown or repeated.
    """
    parts: list[str] = []
    for text in texts or []:
        first = len(parts)
        for piece in text.split(","):
            if len(parts) > first and not any(piece.strip().startswith(f"{name}=") for name in names):
                parts[-1] += f",{piece}"
            else:
                parts.append(piece)
    found: dict[str, str] = {}
    for part in parts:
        name = next(
            (n for n in sorted(names, key=len, reverse=True) if part.strip().startswith(f"{n}=")), None
        )
        if name is None:
            reason = "it does not begin with a variable of the model and '='"
            remedy = "write NAME=VALUE; 'jtsolve show MODEL' lists the variables"
            raise InputError(option, f"'{part.strip()}'", reason, remedy)
        if name in found:
            raise InputError(option, f"'{name}'", "it is given twice", "give it once")
        found[name] = part.strip()[len(name) + 1 :].strip()
    return found


def evidence(
    model: "Distribution", given: Sequence[str] | None, likelihood: Sequence[str] | None
) -> dict[str, Any]:
    """Returns hard and soft evidence.

    Args:
        model: whose variables are named.
        given: pairs NAME=STATE, and files of evidence.
        likelihood: pairs NAME=LIKELIHOODS, soft evidence.

    Raises:
        ChoiceError: there is soft evidence on real numbers.
        InputError: a name is unknown or repeated, a number is malformed, or a variable is in both.
    """
    from jtsolve.models.columns import number

    if likelihood and model.is_continuous:
        raise ChoiceError(
            "soft evidence is for models of states, and this one is of real numbers; drop --likelihood"
        )
    columns = {column.name: column for column in model.columns}
    files = [text for text in given or () if "=" not in text and EVIDENCE.format_to_read(text)]
    texts = parse_assignments([text for text in given or () if text not in files], model.names, "--given")
    for file in files:
        from jtsolve.models.files.uai import read_evidence

        states = read_evidence(file, model)
        if twice := texts.keys() & states.keys():
            raise InputError("--given", f"'{min(twice)}'", "it is given twice", "give it once")
        texts |= states
    found: dict[str, Any] = {name: columns[name].parsed(text, "--given") for name, text in texts.items()}
    for name, text in parse_assignments(likelihood, model.names, "--likelihood").items():
        if name in found:
            raise InputError("--likelihood", f"'{name}'", "its state is given", "leave out one of the two")
        found[name] = [number(word, "--likelihood", name) for word in text.split(":")]
    return found


def labelled(model: "Distribution", rows: Iterable[Any], *, typed: bool = False) -> "pl.DataFrame":
    """Returns rows as a frame of labels of states, or of numbers.

    Args:
        model: the distribution.
        rows: in its coding.
        typed: whether states become values, and missing ones null, where their column has other ones than
            texts.
    """
    import numpy as np
    import polars as pl

    from jtsolve.tables.frames import FrameStyle

    made = []
    for column, row in zip(model.columns, rows, strict=True):
        if column.states is None:
            made.append(pl.Series(column.name, row))
        elif typed:
            one = column.series(FrameStyle(), row)
            made.append(one.cast(pl.String) if isinstance(one.dtype, pl.Enum) else one)
        else:
            labels = pl.Series(column.name, [*column.states, None], dtype=pl.String)
            made.append(labels.gather(np.where(row < 0, len(column.states), row)))
    return pl.DataFrame(made)


def rows_in_format(model: "Distribution", rows: Iterable[Any], kind: str) -> bytes:
    """Returns rows of a model as the contents of a table, a format of `formats.TABLE`.

    Text is written as the data of the model were.

    Args:
        model: whose columns the rows have.
        rows: codes or numbers.
        kind: the format.
    """
    import polars as pl

    from jtsolve.tables.options import Habits
    from jtsolve.tables.writing import rows_as

    if kind not in ("csv", "tsv"):
        return rows_as(labelled(model, rows, typed=True), kind)
    frame, habits = labelled(model, rows), Habits.of(model)
    cut = {column.name for column in model.columns if column.cuts is not None}  # into ranges, which are words
    numbers = [pl.col(name).cast(pl.String) for name in habits.commas or () if name not in cut]
    frame = frame.with_columns(one.str.replace(".", ",", literal=True) for one in numbers)
    dialect = habits.dialect
    mark = dialect.separator or ","
    # A blank line is no row, and several blanks are one separator.
    null = "?" if frame.width == 1 or mark == " " else ""
    text = rows_as(frame, kind, null=null, header=dialect.header, separator=mark)
    return text.decode().encode(dialect.encoding)


def put_rows(model: "Distribution", rows: Iterable[Any], output: str | Path | None) -> None:
    """Writes rows of a model to a file in the format of its suffix, or prints them as CSV.

    Args:
        model: whose columns the rows have.
        rows: codes or numbers.
        output: the file; None to print.
    """
    if output is None:
        emit(rows_in_format(model, rows, "csv"))
    else:
        write_atomically(output, rows_in_format(model, rows, TABLE.format_to_write(output)))
