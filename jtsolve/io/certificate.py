"""Certificate files: the rows, weights and branches of a proof, unverified.

docs/certificates.md describes the format, and the claims of a certificate, which `jtsolve.verify.certificate`
checks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from jtsolve.core.files import read_file, write_atomically
from jtsolve.io.documents import decode_json

if TYPE_CHECKING:
    from pathlib import Path

FORMAT: Literal["jtsolve-certificate"] = "jtsolve-certificate"
VERSION: Literal[2] = 2


class Balance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row with coefficients: pairs of a position in `sets` and the set's coefficient."""

    limit: int
    sets: list[tuple[int, int]]


class Multipliers(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Rows by position, each with its weight in units."""

    cuts: list[tuple[int, int]] = []
    balances: list[tuple[int, int]] = []
    graphs: list[tuple[int, int]] = []


class NodeDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A node: its stages, and `last`, a branch on an edge, or `graph`.

    `absent` and `present` are the positions of the two children of a branch.
    """

    stages: list[Multipliers] = []
    last: Multipliers | None = None
    edge: tuple[int, int] | None = None
    absent: int | None = None
    present: int | None = None
    graph: bool = False


class CertificateDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A jtsolve certificate file, version 2; the first node is the whole problem.

    `sets` are lists of positions in `variables`, `cuts` lists of positions in `sets`, `graphs` lists of
    edges; `completions` is a number of rounds.
    """

    format: Literal["jtsolve-certificate"]
    version: Literal[2]
    digest: str
    variables: list[str]
    root: int
    shift: int
    sets: list[list[int]]
    cuts: list[list[int]]
    balances: list[Balance]
    graphs: list[list[tuple[int, int]]]
    nodes: list[NodeDocument]
    completions: int = 0


def read_certificate(path: str | Path) -> CertificateDocument:
    """Returns the certificate in a file, unverified.

    Raises:
        InputError: the file cannot be read, or is not in the format.
    """
    return decode_json(read_file(path), CertificateDocument, str(path))


def write_certificate(path: str | Path, certificate: CertificateDocument) -> None:
    """Writes a certificate to a file, packed if its name ends in .gz.

    Raises:
        InputError: the file cannot be written.
    """
    write_atomically(path, msgspec.json.encode(certificate) + b"\n")
