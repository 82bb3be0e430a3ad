"""Certificate files: roots, rows with weights and branches as they are written, not yet verified.

The format is described in docs/formats.md, and what it has to prove in `jtsolve.verify.certificate`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from jtsolve.core.files import read_file
from jtsolve.io.documents import decode

if TYPE_CHECKING:
    from pathlib import Path

FORMAT: Literal["jtsolve-certificate"] = "jtsolve-certificate"


class Cut(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A cut with its weight; the sets are lists of positions of variables."""

    weight: int
    sets: list[list[int]]


class Balance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row with coefficients of sets, with its weight and limit."""

    weight: int
    limit: int
    sets: list[tuple[list[int], int]]


class ForbiddenGraph(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The row of a forbidden graph, with its weight; edges are pairs of positions of variables."""

    weight: int
    edges: list[tuple[int, int]]


class Multipliers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rows with weights in units."""

    cuts: list[Cut]
    balances: list[Balance]
    graphs: list[ForbiddenGraph] = []


class NodeDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node: its stages, and how it ends; `absent` and `present` are positions of nodes."""

    stages: list[Multipliers]
    last: Multipliers | None = None
    edge: tuple[int, int] | None = None
    absent: int | None = None
    present: int | None = None
    graph: bool = False


class CertificateDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A jtsolve certificate file, version 1; the first node is the whole problem."""

    format: Literal["jtsolve-certificate"]
    version: Literal[1]
    digest: str
    variables: list[str]
    root: int
    shift: int
    nodes: list[NodeDocument]


def read_certificate(path: str | Path) -> CertificateDocument:
    """Returns the certificate in a file, not yet verified.

    Raises:
        InputError: the file cannot be read, or is not what the format asks for.
    """
    return decode(read_file(path), CertificateDocument, str(path))
