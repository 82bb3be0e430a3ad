"""`jtsolve query`, `mpe`, `sample`, `export`: answers of a model, given evidence, and its files."""

from collections.abc import Sequence
from math import exp
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jtsolve.cli.options import JSON, Model, Options, file_option, with_options
from jtsolve.cli.output import emit, json_text, put
from jtsolve.cli.rows import put_rows, read_model
from jtsolve.core.formats import EVIDENCE, MODEL, TABLE
from jtsolve.core.outputs import claim_outputs
from jtsolve.errors import ChoiceError, InputError, use_one_of
from jtsolve.options import MEMORY, Option
from jtsolve.tables.options import names_in

if TYPE_CHECKING:
    from jtsolve.models.protocol import Distribution

_GIVEN = (
    Option("given", tuple, "Evidence, NAME=STATE,NAME=STATE, or a UAI file (.evid).", metavar="A=x,B=y"),
    Option("likelihood", tuple, "Soft evidence, NAME=P:P:…, a likelihood for each state.", metavar="A=P:P"),
)


@with_options(*_GIVEN, MEMORY, JSON)
def query(
    model: Model,
    target: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B,…", help="The joint distribution of these; may be repeated; default: each."
        ),
    ] = None,
    *,
    options: Options,
) -> None:
    """Compute the probabilities of the states of variables, singly or jointly, given evidence.

    Of a Bayesian network (.bif), only the part that the answer depends on is read. A joint distribution
    or tables that are too large are refused with their size, before any work.
    """
    from jtsolve.listing import table

    found = read_model(model, options.memory)
    known = evidence(found.model, options)
    groups = [_names(text, found.names) for text in target] if target else found.singly(known)
    answer = found.posterior(groups, known)
    if options.json:
        emit(json_text(answer.facts()))
        return
    texts = [table(*one) for one in answer.printed()]
    if answer.log_probability is None:
        texts.append(f"ln P(evidence) is left out, and the evidence assumed possible: {answer.refusal}")
    elif known:
        what = "density" if found.model.is_continuous else "P"
        texts.append(f"ln {what}(evidence) = {answer.log_probability:.6f} nats")
    emit("\n\n".join(texts))


def _names(text: str, names: tuple[str, ...]) -> list[str]:
    """Returns the variables named; one alone may contain commas."""
    return [text] if text in names else list(names_in(text))


@with_options(*_GIVEN, MEMORY, JSON)
def mpe(
    model: Model,
    best: Annotated[int, typer.Option(metavar="N", min=1, help="The number of explanations.")] = 1,
    *,
    options: Options,
) -> None:
    """Find the most probable explanation of the evidence, a state for every variable; or the N best.

    Real numbers have one, the conditional mean. Observed variables of a network (.bif) need no memory.
    """
    from jtsolve.listing import table

    found = read_model(model, options.memory)
    answers, of_evidence = found.explain(evidence(found.model, options), best)
    measure, kind = ("density", "values") if found.model.is_continuous else ("probability", "states")
    if options.json:
        listed = [
            {
                kind: dict(zip(found.names, answer.values, strict=True)),
                f"log_{measure}": answer.log_probability + of_evidence,
                f"log_{measure}_given_evidence": answer.log_probability,
            }
            for answer in answers
        ]
        emit(json_text({f"log_{measure}_of_evidence": of_evidence, "best": listed}))
        return
    rows: list[list[object]] = [
        [name, *(answer.values[v] for answer in answers)] for v, name in enumerate(found.names)
    ]
    logs = [answer.log_probability for answer in answers]
    if found.model.is_continuous:
        rows.append(["ln density(all | evidence)", *logs])
    else:
        rows.append(["P(all | evidence)", *map(exp, logs)])
    name = "ln density(all, evidence)" if found.model.is_continuous else "ln P(all, evidence)"
    rows.append([name, *(log + of_evidence for log in logs)])
    emit(table(["variable", *(f"best {k + 1}" for k in range(len(answers)))], rows))


@with_options(*_GIVEN, MEMORY)
def sample(
    model: Model,
    rows: Annotated[int, typer.Option(metavar="N", min=1, help="The number of rows to draw.")] = 10,
    seed: Annotated[int, typer.Option(metavar="S", min=0, help="The same seed draws the same rows.")] = 0,
    output: Annotated[
        Path | None, file_option("Write them here (.csv, .tsv, .parquet, .arrow) instead of printing.")
    ] = None,
    *,
    options: Options,
) -> None:
    """Draw rows from a model; with evidence, from the distribution given it. They are printed as CSV."""
    claim_outputs(output, kind=TABLE)
    found = read_model(model, options.memory).model

    from jtsolve.models.tables import require_rows

    require_rows(found, rows)
    put_rows(found, found.sample(rows, seed, evidence(found, options)), output)


@with_options(MEMORY)
def export(
    model: Model,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="FORMAT",
            help=f"{', '.join(MODEL.formats)}; default: that of the name of --output.",
        ),
    ] = None,
    output: Annotated[Path | None, file_option("Write it here; default: print it.")] = None,
    *,
    options: Options,
) -> None:
    """Write a model as a Bayesian network (bif, bifxml), a Markov network (uai), a tree (td, dot), or json.

    bif has only words as names: others are replaced, with a warning, and kept as properties, from which
    jtsolve restores them; bifxml keeps all names; uai and td have none. pyAgrum reads the numbers of bif and
    uai in single precision: use bifxml for it. As bif, bifxml, uai or td, a feature tree becomes one junction
    tree, which is refused with its size if that is too large.
    """
    if to is not None:
        MODEL.require(to)
    if output is not None:
        to = MODEL.format_to_write(output, to)
        claim_outputs(output)
    if to is None:
        raise ChoiceError(
            f"name the format to print: --to {'|'.join(MODEL.formats)}; or give an --output with its suffix"
        )

    put(read_model(model, options.memory).export(to).encode(), output)


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
            remedy = f"write NAME=VALUE; {use_one_of(part.split('=')[0].strip(), names)}"
            raise InputError(option, f"'{part.strip()}'", reason, remedy)
        if name in found:
            raise InputError(option, f"'{name}'", "it is given twice", "give it once")
        found[name] = part.strip()[len(name) + 1 :].strip()
    return found


def evidence(model: "Distribution", options: Options) -> dict[str, Any]:
    """Returns the hard and soft evidence among the options: NAME=STATE, and files; NAME=LIKELIHOODS.

    Raises:
        ChoiceError: there is soft evidence on real numbers.
        InputError: a name is unknown or repeated, a number is malformed, or a variable is in both.
    """
    from jtsolve.models.columns import number

    given, likelihood = options.given or (), options.likelihood
    if likelihood and model.is_continuous:
        raise ChoiceError(
            "soft evidence is for models of states, and this one is of real numbers; drop --likelihood"
        )
    columns = {column.name: column for column in model.columns}
    files = [text for text in given if "=" not in text and EVIDENCE.format_to_read(text)]
    texts = parse_assignments([text for text in given if text not in files], model.names, "--given")
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
