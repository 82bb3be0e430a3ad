"""`jtsolve impute`: rows with their missing values filled in by a model."""

from pathlib import Path
from typing import Annotated

from jtsolve.cli.options import (
    Data,
    Model,
    RowOptions,
    TableMemory,
    expand_option_groups,
    file_option,
    limit_tables,
)
from jtsolve.cli.output import emit, print_note
from jtsolve.core.formats import TABLE
from jtsolve.core.outputs import claim_outputs
from jtsolve.errors import ChoiceError


@expand_option_groups
def impute(
    *,
    model: Model,
    data: Data,
    output: Annotated[
        Path | None, file_option("Write them here (.csv, .tsv, .parquet, .arrow); default: print.")
    ] = None,
    rows: RowOptions,
    memory_limit: TableMemory = None,
) -> None:
    """Fill in the missing values of rows: the most probable completion of each, given its other values.

    Writes the columns of the model, as its states, or prints them as CSV. A row that is impossible under the
    model keeps its gaps. A missing value that is a state remains one, unless --missing sum fills it in, too.
    """
    if rows.missing not in (None, "sum", "state"):
        raise ChoiceError(f"--missing {rows.missing}: every row is completed; give sum or state")
    claim_outputs(output, kind=TABLE)

    import numpy as np

    from jtsolve.cli.models import put_rows
    from jtsolve.models.files.opening import open_model
    from jtsolve.models.rows import read_rows

    limit_tables(memory_limit)
    found = open_model(model)
    given = read_rows(data, found.columns, habits=rows.habits(found), sums=rows.sums)
    completed = found.complete(given)
    put_rows(found, completed, output)
    before, left = (np.isnan(one) if found.is_continuous else one < 0 for one in (given, completed))
    filled = f"{int(before.sum() - left.sum())} values filled in"
    if output is None:
        print_note(filled)
    else:
        emit(f"{output}: {filled}")
