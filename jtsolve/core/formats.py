"""File formats: one table of the suffixes that are read and written, for every kind of file.

The suffix of a name, before that of a packing, determines how a file is read and written. A name with the
suffix of another format is refused, so that every file holds the format of its name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile, is_zipfile

from jtsolve.errors import ChoiceError, InputError, no_such

if TYPE_CHECKING:
    from collections.abc import Mapping

PACKED = ("gz", "bz2", "xz", "zst", "zip")
"""Suffixes of packed files, which are read; only the first is written."""


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of file.

    Args:
        what: its name, with an article.
        read: formats by suffix.
        written: the same; the first is the format of devices and pipes.
    """

    what: str
    read: Mapping[str, str]
    written: Mapping[str, str]

    @property
    def formats(self) -> tuple[str, ...]:
        """The formats that are written."""
        return tuple(dict.fromkeys(self.written.values()))

    def format_to_read(self, path: str | Path) -> str | None:
        """Returns the format of a file by its suffix; None if the suffix is none of this kind."""
        return self.read.get(suffix_of(path) or _suffix_inside(path))

    def require(self, to: str) -> None:
        """Checks that a format is one of those that are written.

        Raises:
            ChoiceError: it is not.
        """
        if to not in self.formats:
            raise ChoiceError(no_such("format", to, self.formats))

    def format_to_write(self, path: str | Path, to: str | None = None) -> str:
        """Returns the format to write into a file.

        Args:
            path: of the file.
            to: the format, if it is chosen separately; the name may then have an unknown suffix.

        Raises:
            ChoiceError: there is no such format; or the suffix is that of another, or of none.
        """
        require_name(path)
        if to is not None:
            self.require(to)
        suffix = suffix_of(path, PACKED[:1])
        found = self.written.get(suffix)
        if _is_device(path):
            return to or self.formats[0]
        if found is not None and to in (None, found):
            return found
        if to is not None and found is None and suffix not in FOREIGN and suffix not in SUFFIXES:
            return to
        fitting = [f".{name}" for name, one in self.written.items() if to in (None, one)]
        named = f"{self.what} in the format {to}" if to else self.what
        raise ChoiceError(
            f"{path}: {named} is written as {one_of(fitting)}, also with .{PACKED[0]}; give such a name"
        )

    def refusal(self, path: str | Path) -> InputError:
        """Returns the error for a file that is none of this kind by its name and content."""
        other = kind_of_suffix(path)
        remedy = f"give {self.what}: {one_of([f'.{name}' for name in self.read])}"
        if other is None:
            if self is INSTANCE:
                remedy += "; 'jtsolve solve --score NAME' reads any text file as data"
            return InputError(str(path), "", f"its format is unknown, so it is not {self.what}", remedy)
        if other is TABLE and self is MODEL:
            remedy = f"fit a model to it first, with 'jtsolve fit' or jtsolve.fit; or {remedy}"
        elif other is TABLE and self is INSTANCE:
            remedy = f"learn from it with 'jtsolve solve' or jtsolve.learn; or {remedy}"
        elif other is MODEL and self is INSTANCE:
            way = "read it with jtsolve.Model.read; or draw rows with 'jtsolve sample', and solve these"
            remedy = f"{way}; or {remedy}"
        return InputError(
            str(path), "", f".{suffix_of(path)} files hold {other.what}, not {self.what}", remedy
        )


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


_ARROW = {"arrow": "arrow", "feather": "arrow", "ipc": "arrow"}
_TEXT = {"csv": "csv", "tsv": "tsv", "tab": "tsv"}
_JSON = _same("json")

TABLE = FileKind(
    "a table",
    {**_TEXT, "txt": "csv", "data": "csv", "dat": "dat", "arff": "arff", "parquet": "parquet", **_ARROW},
    {**_TEXT, "parquet": "parquet", **_ARROW},
)
MODEL = FileKind(
    "a model",
    {**_same("json", "bif", "bifxml", "uai"), "xml": "bifxml", "xmlbif": "bifxml"},
    {**_same("json", "bif", "bifxml", "uai", "td", "dot"), "xml": "bifxml"},
)
NETWORK = FileKind("a Bayesian network", {k: v for k, v in MODEL.read.items() if v in ("bif", "bifxml")}, {})
GRAPH = FileKind("a graph", _same("json", "graphml", "csv"), _same("json", "graphml", "csv"))
INSTANCE = FileKind(
    "an instance", _same("json", "score", "dmst", "jkl", "scores", "pss"), _same("json", "score")
)
SCORED = FileKind("an instance with scores of data", _JSON, _JSON)
FITTED = FileKind("a fitted model", _JSON, _JSON)
RESULT = FileKind("a result", _JSON, _JSON)
POSTERIOR = FileKind("a posterior", _JSON, _JSON)
CERTIFICATE = FileKind("a certificate", _JSON, _JSON)
DRAWS = FileKind("a list of drawn trees", {}, _same("jsonl"))
FORMULA = FileKind("a formula", {}, {**_same("wcnf", "lp", "mps"), "pbtxt": "cpsat-proto"})
CONVERTED = FileKind("an instance or a formula", INSTANCE.read, {**INSTANCE.written, **FORMULA.written})
PICTURE = FileKind("a picture", {}, _same("svg", "png", "html", "dot"))
RASTER = FileKind("a picture of anything but a graph", {}, _same("svg", "png"))
ESTIMATE = FileKind("an estimate, or a picture of it,", {}, {**_JSON, **RASTER.written})
EVIDENCE = FileKind("evidence", _same("evid"), {})
KINDS = (TABLE, MODEL, GRAPH, INSTANCE, DRAWS, FORMULA, PICTURE, EVIDENCE)
SUFFIXES = frozenset(suffix for kind in KINDS for suffix in (*kind.read, *kind.written))
"""All suffixes that are read or written."""


_BY_PYAGRUM = "convert it with pyAgrum: pyagrum.saveBN(pyagrum.loadBN('{name}'), '{stem}.bif')"
_UNPACKED = "unpack it, and give the file inside"


def _frame_of(reader: str, arguments: str = "'{name}'") -> str:
    return f"pass the frame of {reader}({arguments}), or save that as .csv or .parquet"


_OF_SHEETS = f"save it as .csv there; or {_frame_of('pandas.read_excel')}"
_OF_R = "load them in R, and save the table: write.csv(x, 'x.csv', row.names = FALSE)"
_OF_NETICA = ("a network of Netica", "save it there as .net, and convert this with pyAgrum to .bif")
_PICKLE = ("a pickle, which can run any code", "load it in Python if you trust it, and pass the object")
_LINES = ("lines of JSON", _frame_of("pandas.read_json", "'{name}', lines=True"))
FOREIGN: Mapping[str, tuple[str, str]] = {
    "net": ("a network of Hugin", _BY_PYAGRUM),
    "xdsl": ("a network of GeNIe", _BY_PYAGRUM),
    "dsl": ("a network of GeNIe", _BY_PYAGRUM),
    "o3prm": ("a network of pyAgrum", _BY_PYAGRUM),
    "dne": _OF_NETICA,
    "neta": _OF_NETICA,
    "gml": ("a graph in GML", "networkx.write_graphml(networkx.read_gml('{name}'), '{stem}.graphml')"),
    "gexf": ("a graph of Gephi", "networkx.write_graphml(networkx.read_gexf('{name}'), '{stem}.graphml')"),
    **dict.fromkeys(
        ("dot", "gv"), ("a picture in Graphviz's language", "give the graph as .graphml or .csv")
    ),
    "edgelist": ("a list of edges", "save it as .csv, with the header source,target"),
    "edges": ("a list of edges", "save it as .csv, with the header source,target"),
    "xlsx": ("a spreadsheet", _OF_SHEETS),
    "xls": ("a spreadsheet", _OF_SHEETS),
    "xlsm": ("a spreadsheet", _OF_SHEETS),
    "ods": ("a spreadsheet", _OF_SHEETS),
    "numbers": ("a spreadsheet", "save it as .csv there"),
    "dbf": ("a table of dBase", "save it as .csv, for example with a spreadsheet"),
    "dta": ("a table of Stata", _frame_of("pandas.read_stata")),
    "sav": ("a table of SPSS", _frame_of("pandas.read_spss")),
    "zsav": ("a table of SPSS", _frame_of("pandas.read_spss")),
    "por": ("a table of SPSS", "save it as .sav or .csv there"),
    "sas7bdat": ("a table of SAS", _frame_of("pandas.read_sas")),
    "xpt": ("a table of SAS", _frame_of("pandas.read_sas")),
    "rds": ("an object of R", "save it in R: write.csv(readRDS('{name}'), '{stem}.csv', row.names = FALSE)"),
    "rda": ("objects of R", _OF_R),
    "rdata": ("objects of R", _OF_R),
    "pkl": _PICKLE,
    "pickle": _PICKLE,
    "joblib": _PICKLE,
    "npy": ("an array of numpy", "pass the array of numpy.load('{name}'), or save it as .csv"),
    "npz": ("arrays of numpy", "pass an array of numpy.load('{name}'), or save it as .csv"),
    "mat": ("arrays of Matlab", "save them there with writematrix or writetable as .csv"),
    "h5": ("a table in HDF5", _frame_of("pandas.read_hdf")),
    "hdf": ("a table in HDF5", _frame_of("pandas.read_hdf")),
    "hdf5": ("a table in HDF5", _frame_of("pandas.read_hdf")),
    "orc": ("a table in ORC", _frame_of("pandas.read_orc")),
    "avro": ("a table in Avro", _frame_of("polars.read_avro")),
    **dict.fromkeys(
        ("sqlite", "sqlite3", "db", "duckdb"),
        ("a database", _frame_of("pandas.read_sql", "query, connection")),
    ),
    "ndjson": _LINES,
    "jsonl": _LINES,
    "html": ("a page of tables", _frame_of("pandas.read_html")),
    "xrff": ("a table of Weka in XML", "save it there as .arff"),
    "docx": ("a document", "save its table as .csv"),
    "pdf": ("a document", "save its table as .csv"),
    **dict.fromkeys(("lz4", "br", "lzma", "z"), ("packed data", _UNPACKED)),
    "tar": ("an archive", _UNPACKED),
    "tgz": ("an archive", _UNPACKED),
    "7z": ("an archive", _UNPACKED),
    "rar": ("an archive", _UNPACKED),
}
"""Foreign formats that are not read, and how to convert them."""

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/+", re.IGNORECASE)


def suffix_of(path: str | Path, packed: tuple[str, ...] = PACKED) -> str:
    """Returns the suffix of a name, in lower case, without that of a packing.

    >>> suffix_of("data/Zoo.CSV.gz"), suffix_of("zoo"), suffix_of("zoo.zip")
    ('csv', '', '')
    """
    parts = Path(path).name.lower().split(".")[1:]
    if parts and parts[-1] in packed:
        parts.pop()
    return parts[-1] if parts else ""


def files_in(archive: ZipFile) -> list[str]:
    """Returns the names of the files of an archive."""
    return [name for name in archive.namelist() if not name.endswith("/") and "__MACOSX/" not in name]


def _suffix_inside(path: str | Path) -> str:
    """Returns the suffix of the only file in a zip archive; empty for others, which cannot be read."""
    if not str(path).lower().endswith(".zip") or not is_zipfile(path):
        return ""
    with ZipFile(path) as archive:
        inside = files_in(archive)
    return suffix_of(inside[0]) if len(inside) == 1 else ""


def stem_of(path: str | Path) -> str:
    """Returns a name without its suffix and that of a packing.

    >>> stem_of("data/zoo.csv.gz"), stem_of("zoo.2.csv")
    ('zoo', 'zoo.2')
    """
    name = Path(path).name
    for suffixes in (PACKED, None):
        stem, point, suffix = name.rpartition(".")
        if point and stem and (suffixes is None or suffix.lower() in suffixes):
            name = stem
    return name


def kind_of_suffix(path: str | Path) -> FileKind | None:
    """Returns the kind of file that a suffix is for, the first of several; or None."""
    return next((kind for kind in KINDS if suffix_of(path) in kind.read), None)


def require_same_format(path: str | Path, source: str | Path) -> None:
    """Checks that the name of a copy has the suffix of its source.

    Raises:
        ChoiceError: it has another one.
    """
    own, found = suffix_of(source), suffix_of(path, PACKED[:1])
    same = found == own or TABLE.read.get(found, "") == TABLE.read.get(own)
    if not same and not _is_device(path):
        raise ChoiceError(f"{path}: the file is a .{own}, and copied as it is; give such a name")


def require_name(path: str | Path) -> None:
    """Refuses an empty path, which the system takes for the current folder.

    Raises:
        InputError: it is empty.
    """
    if not str(path):
        raise InputError("''", "", "it names no file", "give a name; the current folder is '.'")


def require_readable(path: str | Path) -> None:
    """Refuses addresses of pages and files of other programs, by their names.

    Raises:
        InputError: it is one, with the way to convert it; or it is empty.
    """
    require_name(path)
    if (match := _ADDRESS.match(str(path))) and not Path(path).exists():
        address = f"{match[1]}://{str(path)[match.end() :]}"  # a Path loses a slash
        raise InputError(address, "", "it is an address, not a file", "download it first, and give the file")
    if (found := FOREIGN.get(suffix_of(path))) is not None:
        what, way = found
        remedy = way.format(name=Path(path).name, stem=stem_of(path))
        raise InputError(str(path), "", f"{what}: such files are not read", remedy)


def one_of(names: list[str]) -> str:
    """Returns alternatives in words.

    >>> one_of([".svg", ".png"]), one_of([".json"])
    ('.svg or .png', '.json')
    """
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def _is_device(path: str | Path) -> bool:
    """Returns whether a path is that of a device or a pipe (or a folder, which no writer accepts)."""
    return descriptor_of(path) is not None or (Path(path).exists() and not Path(path).is_file())


def descriptor_of(path: str | Path) -> int | None:
    """Returns the open file that a name such as /dev/stdout stands for, by its number; None for other names.

    >>> descriptor_of("/dev/stdout"), descriptor_of("/dev/fd/3"), descriptor_of("/dev/null")
    (1, 3, None)
    """
    if (named := {"/dev/stdout": 1, "/dev/stderr": 2}.get(str(path))) is not None:
        return named
    match = re.fullmatch(r"/(?:dev|proc/self)/fd/(\d{1,9})", str(path))
    return int(match[1]) if match else None
