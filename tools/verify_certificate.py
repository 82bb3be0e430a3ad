"""Verifies a certificate of a bound: the second of two independent programs, from docs/certificates.md alone.

    python tools/verify_certificate.py INSTANCE RESULT CERTIFICATE

It uses the standard library only (for files packed with Zstandard, before Python 3.14, the package
backports.zstd, if it is installed), and nothing of the package jtsolve. Numbers are Python's integers and
fractions; a set is an integer with bit v for variable v. Exit code 0: the bound is proved; 1: it is not, with
the reason.
"""

from __future__ import annotations

import bz2
import hashlib
import io
import json
import lzma
import struct
import sys
import zipfile
import zlib
from array import array
from collections import Counter
from fractions import Fraction
from importlib import import_module
from importlib.util import find_spec
from itertools import accumulate, combinations, pairwise
from math import comb, floor, inf, prod
from operator import getitem, mul, or_
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Form = Callable[[Any], bool]

NONE = -(2**61)  # stands for −∞: no sum of units is as small
ROOM, MOST_ENTRIES, MOST_WORK, DEEPEST = 2**61, 2**24, 2**32, 2**26
LARGEST_SHIFT, LARGEST, LARGEST_SCORE = 2000, sys.float_info.max, 1e100
MAXIMA = ("max_treewidth", "max_separator_size", "max_cliques", "max_clique_cells")
EDGES = ("forbidden_edges", "required_edges")
LISTS = ("forbidden_cliques", "forbidden_separators", "allowed_separators", *EDGES)
ROWS = ("cuts", "balances", "graphs")
Family = tuple[int, int]  # (P∪v, v)
State = tuple[set[int], set[Family], set[int], set[int]]  # alive, allowed, decided, edges of every graph


def need(holds: bool, reason: str) -> None:  # noqa: FBT001 - reads like an assertion
    """Raises ValueError with the reason unless the condition holds."""
    if not holds:
        raise ValueError(reason)


def distinct(entries: Any) -> frozenset[Any]:
    """Returns the entries as a set; raises ValueError if one occurs twice."""
    listed = list(entries)
    need(len(set(listed)) == len(listed), "something is listed twice")
    return frozenset(listed)


def unzipped(data: bytes) -> bytes:
    """Returns the only file of an archive."""
    archive = zipfile.ZipFile(io.BytesIO(data))
    inside = [name for name in archive.namelist() if not name.endswith("/") and "__MACOSX/" not in name]
    need(len(inside) == 1, "an archive has more than one file, or none")
    need(data[-22 - len(archive.comment) :].startswith(b"PK\x05\x06"), "something follows the archive")
    return archive.read(inside[0])


def streams(begin: Callable[[], Any]) -> Callable[[bytes], bytes]:
    """Returns a function that unpacks whole streams one after another, with only zeros between them."""

    def unpack(data: bytes) -> bytes:
        parts = []
        while data := data.lstrip(b"\0"):
            stream = begin()
            parts.append(stream.decompress(data))
            need(stream.eof, "packed data are truncated")
            data = stream.unused_data
        return b"".join(parts)

    return unpack


def unpack_zstandard(data: bytes) -> bytes:
    """Returns unpacked data, if Python has the module (from 3.14 on), or the package for it is installed."""
    found = [name for name in ("compression", "backports") if find_spec(name) and find_spec(f"{name}.zstd")]
    need(bool(found), "it is packed with Zstandard; unpack it first")
    module = import_module(f"{found[0]}.zstd")
    try:
        return streams(module.ZstdDecompressor)(data)
    except module.ZstdError as error:
        raise ValueError(str(error)) from None


PACKINGS: dict[str, tuple[tuple[bytes, ...], Callable[[bytes], bytes]]] = {
    ".gz": ((b"\x1f\x8b",), streams(lambda: zlib.decompressobj(31))),
    ".bz2": ((b"BZh",), streams(bz2.BZ2Decompressor)),
    ".xz": ((b"\xfd7zXZ\0",), streams(lzma.LZMADecompressor)),
    ".zst": ((b"\x28\xb5\x2f\xfd",), unpack_zstandard),
    ".zip": ((b"PK\x03\x04", b"PK\x05\x06"), unzipped),
}
DAMAGES = (OSError, EOFError, RuntimeError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)


def read(path: str) -> Any:
    """Returns the JSON value in a file, which may be compressed."""
    data = Path(path).read_bytes()
    unpack = next((unpack for magics, unpack in PACKINGS.values() if data.startswith(magics)), None)
    suffix = Path(path).suffix.lower()
    need(unpack is not None or suffix not in PACKINGS, f"its name ends in {suffix}, but it is not compressed")

    def real(text: str) -> float:
        need(abs(value := float(text)) <= LARGEST, "a number is not finite")
        return value

    data = data if unpack is None else unpack(data)
    wide, marked = (data[:4] in (b"\xff\xfe\0\0", b"\0\0\xfe\xff"), data[:2] in (b"\xff\xfe", b"\xfe\xff"))
    text = data.decode("utf-32" if wide else "utf-16" if marked else "utf-8-sig")
    pairs = lambda listed: dict(listed) if distinct(key for key, _ in listed) else {}  # noqa: E731
    value = json.loads(text, object_pairs_hook=pairs, parse_float=real, parse_constant=real)
    if "\\u" in text:  # a lone surrogate raises UnicodeEncodeError
        json.dumps(value, ensure_ascii=False).encode()
    return value


# Forms: predicates of JSON values.


def whole(least: float = -inf, most: float = inf) -> Form:
    """Returns the form of integers within bounds."""
    return lambda value: type(value) is int and least <= value <= most


def text(value: Any) -> bool:
    """Returns whether a value is a text."""
    return type(value) is str


def real(value: Any) -> bool:
    """Returns whether a value is a number within the range of doubles."""
    return type(value) in (int, float) and abs(value) <= LARGEST


def one_of(*words: str | None) -> Form:
    """Returns the form of some words, or null."""
    return lambda value: (value is None or type(value) is str) and value in words


def either(*forms: Form) -> Form:
    """Returns the form of values with one of several forms."""
    return lambda value: any(form(value) for form in forms)


def listed(form: Form, least: int = 0) -> Form:
    """Returns the form of lists with entries of one form."""
    return lambda value: isinstance(value, list | tuple) and len(value) >= least and all(map(form, value))


def row(*forms: Form) -> Form:
    """Returns the form of lists with an entry of each form."""
    return lambda value: (
        isinstance(value, list | tuple)
        and len(value) == len(forms)
        and all(form(entry) for form, entry in zip(forms, value, strict=True))
    )


def keyed(optional: dict[str, Form], **required: Form) -> Form:
    """Returns the form of objects with all required keys, and no others but the optional ones."""
    forms = optional | required
    return lambda value: (
        isinstance(value, dict)
        and required.keys() <= value.keys() <= forms.keys()
        and all(forms[key](entry) for key, entry in value.items())
    )


def anything(value: Any) -> bool:
    """Returns whether a value is an object, with any keys, and at most 100 levels below it."""
    return isinstance(value, dict) and shallow(value, 100)


def shallow(value: Any, levels: int) -> bool:
    """Returns whether a value has lists or objects on at most some levels below it."""
    entries = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return entries is None or (levels >= 0 and all(shallow(one, levels - 1) for one in entries))


def seconds(value: Any) -> bool:
    """Returns whether a value is an object of numbers with the key "total"."""
    return isinstance(value, dict) and "total" in value and all(map(real, value.values()))


def header(name: str, version: int) -> dict[str, Form]:
    """Returns the keys that identify a format."""
    return {"format": one_of(name), "version": whole(version, version)}


null, count, name = one_of(None), whole(0), lambda value: text(value) and value != ""
sets, pairs = listed(listed(text)), listed(row(text, text))
CONSTRAINTS = keyed(
    {key: either(null, count) for key in ("max_treewidth", "max_separator_size")}
    | {"min_separator_size": count, "max_cliques": either(null, whole(1))}
    | {"max_clique_cells": either(null, whole(1, 2**53))}
    | {"forbidden_edges": pairs, "required_edges": pairs, "forbidden_graphs": listed(pairs)}
    | {"forbidden_cliques": sets, "forbidden_separators": sets, "allowed_separators": either(null, sets)}
    | {"real_variables": listed(text)}
)
STATES = either(whole(1), lambda labels: listed(text, 1)(labels) and len(set(labels)) == len(labels))
score = lambda value: real(value) and abs(value) <= LARGEST_SCORE  # noqa: E731
INSTANCE = keyed(
    {"name": text, "constraints": CONSTRAINTS, "provenance": anything},
    **header("jtsolve-instance", 1),
    variables=listed(either(name, keyed({}, name=name, states=STATES)), 1),
    scores=either(
        keyed({}, layout=one_of("colex"), max_size=whole(1), values=listed(score)),
        keyed({}, layout=one_of("sparse"), sets=listed(row(listed(text), score))),
    ),
)
ANSWER: dict[str, Form] = {
    "instance": keyed({}, name=text, digest=text, constraints=CONSTRAINTS),
    "backend": keyed({}, name=text, options=anything),
    "stop": one_of("finished", "time", "memory", "steps", "interrupted", "lost"),
    "bound": either(null, real),
    "seconds": seconds,
}
TREE = header("jtsolve-result", 1) | ANSWER
TREE |= {"status": one_of("optimal", "feasible", "infeasible", "unknown"), "treewidth": either(null, whole())}
TREE |= {"cliques": sets, "separators": sets, "tree_edges": listed(row(whole(), whole())), "seed": whole()}
TREE |= {"trace": listed(row(real, either(null, real), either(null, real))), "gap": either(null, real)}
TREE |= {"environment": anything, "stats": anything}
RESULT = keyed({}, **TREE, score=either(null, real))
RANKING = keyed(
    {},
    **header("jtsolve-results", 1),
    **ANSWER,
    k=either(null, whole(1)),
    within=either(null, lambda value: real(value) and value >= 0),
    proved=count,
    complete=lambda value: type(value) is bool,
    results=listed(keyed({}, **TREE, score=real)),
)


def bits(variables: Any) -> int:
    """Returns a set."""
    return sum(1 << v for v in set(variables))


def members(mask: int) -> list[int]:
    """Returns the members of a set."""
    return [v for v in range(mask.bit_length()) if mask >> v & 1]


class Rules:
    """The constraints of an instance or a result, with sets in place of names."""

    def __init__(self, plain: dict[str, Any], index: dict[str, int]) -> None:
        def sets(lists: Any) -> frozenset[int]:
            return distinct(bits(distinct(index[name] for name in names)) for names in lists or ())

        self.most: dict[str, int | None] = {key: plain.get(key) for key in MAXIMA}
        self.least: int = plain.get("min_separator_size") or 0
        self.sets = {key: sets(plain.get(key)) for key in LISTS}
        need(not self.sets[EDGES[0]] & self.sets[EDGES[1]], "an edge is both forbidden and required")
        self.any_separator = plain.get("allowed_separators") is None
        self.graphs = distinct(map(sets, plain.get("forbidden_graphs") or ()))
        self.real = bits(distinct(index[name] for name in plain.get("real_variables") or ()))

    def match(self, required: Rules, *, found: bool) -> bool:
        """Returns whether these constraints of a result match those of the instance."""
        bounds = [(key, most, required.most[key]) for key, most in self.most.items()]
        if any(limit is not None and (most is None or most > limit) for _, most, limit in bounds):
            return False
        equal = all(most == limit or key == "max_treewidth" for key, most, limit in bounds)
        equal = equal and (self.least, self.graphs) == (required.least, required.graphs)
        same = (self.sets, self.any_separator) == (required.sets, required.any_separator) and (equal or found)
        same = same and self.real == required.real
        return same and self.least >= required.least and self.graphs >= required.graphs


class Instance:
    """Names, exact scores and the digest."""

    def __init__(self, plain: dict[str, Any]) -> None:
        need(INSTANCE(plain), "the instance is not in its format")
        self.names = [entry if isinstance(entry, str) else entry["name"] for entry in plain["variables"]]
        distinct(self.names)
        self.n = len(self.names)
        states: list[Any] = [e.get("states") if isinstance(e, dict) else None for e in plain["variables"]]
        self.arities = [len(own) if isinstance(own, list) else own for own in states]
        self.index = {name: v for v, name in enumerate(self.names)}
        sha = hashlib.sha256(b"".join(name.encode() + b"\0" for name in self.names))
        scores, colex = plain["scores"], plain["scores"]["layout"] == "colex"
        if colex:
            need((size := scores["max_size"]) <= self.n, "the largest sets have too many variables")
            masks = sorted(bits(chosen) for k in range(size + 1) for chosen in combinations(range(self.n), k))
            table = dict(zip(masks, scores["values"], strict=True))
        else:
            pairs = [(bits(distinct(self.index[name] for name in names)), s) for names, s in scores["sets"]]
            distinct(mask for mask, _ in pairs)
            table = {0: 0.0} | dict(sorted(pairs))
        need(table[0] == 0, "the empty set has a score")
        self.scores = {mask: float(score) for mask, score in table.items()}
        if not colex:
            self.scores[0] = 0.0  # not -0.0
        if colex:
            sha.update(f"colex {size}\0".encode() + struct.pack(f"<{len(table)}d", *self.scores.values()))
        else:
            sha.update("".join(f"{mask:x} {value!r}\0" for mask, value in self.scores.items()).encode())
        self.digest = f"sha256:{sha.hexdigest()}"
        self.rules = Rules(plain.get("constraints", {}), self.index)


def add_star(instance: Instance, rules: Rules) -> None:
    """Represents the real variables by one more vertex, adjacent to all other variables."""
    most, sets, star = rules.most, rules.sets, 1 << instance.n
    simple = most["max_separator_size"] is most["max_cliques"] is None and rules.any_separator
    simple = (
        simple and rules.least <= 1 and not sets["forbidden_cliques"] and sets["forbidden_separators"] <= {0}
    )
    need(simple, "constraints on cliques and separators are not supported with real variables")
    edges = frozenset(1 << v | star for v in range(instance.n) if not rules.real >> v & 1)
    if rules.least or sets["forbidden_separators"]:
        rules.least, sets["forbidden_separators"] = 0, frozenset({0, star})
    sets["required_edges"] |= edges
    rules.graphs = frozenset(graph | edges for graph in rules.graphs)
    largest = instance.n if most["max_treewidth"] is None else most["max_treewidth"] + 1
    most["max_treewidth"] = None
    scores = {mask: s for mask, s in instance.scores.items() if mask.bit_count() <= largest}
    instance.scores = scores | {mask | star: s for mask, s in scores.items() if not mask & rules.real}
    instance.arities.append(1)
    instance.n += 1


def check_form(plain: Any, n: int) -> None:
    """Refuses a certificate that is not in the format."""
    need(isinstance(plain, dict), "the certificate is not an object")
    size = {key: len(plain.get(key) or ()) for key in (*ROWS, "sets", "nodes")}

    def place(kind: str) -> Form:
        return whole(0, size[kind] - 1)

    def increasing(form: Form) -> Form:
        return lambda value: form(value) and all(u < v for u, v in pairwise(value))

    v = whole(0, n - 1)
    edge = increasing(row(v, v))
    weights = {kind: listed(row(place(kind), whole(0, ROOM))) for kind in ROWS}
    part, to = keyed(weights), place("nodes")
    stages = {"stages": listed(part)}
    no = {"graph": lambda value: value is False, "edge": null, "last": null, "absent": null, "present": null}
    node = either(
        keyed(stages | no, last=part),
        keyed(stages | no, graph=lambda value: value is True),
        keyed(stages | no, edge=edge, absent=to, present=to),
    )
    limit = whole(-ROOM, ROOM)
    form = keyed(
        {"completions": whole(0)},
        **header("jtsolve-certificate", 2),
        digest=text,
        variables=listed(text),
        root=v,
        shift=whole(-LARGEST_SHIFT, LARGEST_SHIFT),
        sets=listed(increasing(listed(v))),
        cuts=listed(listed(place("sets"))),
        balances=listed(keyed({}, limit=limit, sets=listed(row(place("sets"), limit)))),
        graphs=listed(listed(edge)),
        nodes=listed(node, 1),
    )
    need(form(plain), "the certificate is not in its format")


class Verifier:
    """The table, the units, the target, and the nodes."""

    def __init__(self, instance: Instance, rules: Rules, bound: float | None, plain: dict[str, Any]) -> None:
        self.rules, self.bound, self.plain, self.scores, n = rules, bound, plain, instance.scores, instance.n
        self.n, self.arities, self.sets = n, instance.arities, [bits(listed) for listed in plain["sets"]]
        largest = n if (k := rules.most["max_treewidth"]) is None else k + 1
        self.scored = {mask for mask in self.scores if 0 < mask.bit_count() <= largest}
        width, self.work = max(map(int.bit_count, self.scored), default=0), 0
        unit = Fraction(2) ** plain["shift"]
        if rounds := plain.get("completions", 0):
            need(bound is not None, "completions need a bound")
            self.work = rounds * n * n * 2**n // 4
            need(self.work <= MOST_WORK, "its verification would take too much work")
            waiting = self.completed(rounds, unit)
            width = max(map(int.bit_count, waiting), default=0)
        else:
            need(len(self.scored) * width <= MOST_ENTRIES, "there are too many sets")
            waiting = list(filter(self.permits_clique, self.scored))
        covered: set[int] = set()
        while waiting:
            if (mask := waiting.pop()) and mask not in covered:
                covered.add(mask)
                need(len(covered) * width <= MOST_ENTRIES, "there are too many sets")
                waiting += [mask ^ 1 << v for v in members(mask)]
        everything = covered | {0} | {1 << v for v in range(n)}
        self.table = sorted(everything, key=int.bit_count)
        self.width = self.table[-1].bit_count()
        self.entries = self.width * len(self.table)
        self.facets = {mask: [mask ^ 1 << v for v in members(mask)] for mask in self.table}
        r = {mask: round(Fraction(self.scores.get(mask, 0.0)) * unit) for mask in self.table}
        need(4 * n * (self.width + 1) * max(map(abs, r.values())) < ROOM, "the shift is too large")
        self.units = {m: r[m] - sum(r[1 << v] for v in members(m)) if m in self.scores else 0 for m in r}
        root, empty = plain["root"], self.permits_separator(0)
        begins = {1 << v for v in range(n) if 1 << v in covered and (v == root or empty)}
        pairs = ((mask, v) for mask in self.table for v in members(mask))
        allowed = {(mask, v) for mask, v in pairs if mask in begins or (mask != 1 << v and v != root)}
        beside = {edge ^ 1 << root for edge in rules.sets["required_edges"] if edge >> root & 1}
        allowed -= {(mask, v) for mask, v in allowed if 1 << v in beside and not mask >> root & 1}
        self.start: State = (everything, allowed, set(), set(rules.sets["required_edges"]))
        if bound is not None:
            self.target = target(bound, unit, [r[1 << v] for v in range(n)])
        else:  # for equal keys, a dictionary keeps the last value, here the least
            gains = ((v, self.units[mask] - self.units[mask ^ 1 << v]) for mask, v in allowed)
            self.target = sum(dict(sorted(gains, reverse=True)).values()) - 1

    def completed(self, rounds: int, unit: Fraction) -> list[int]:
        """Returns the possible cliques after some rounds of completions."""
        assert self.bound is not None
        n, size = self.n, 1 << self.n
        r = {mask: round(Fraction(self.scores[mask]) * unit) for mask in self.scored}
        alone = [r.get(1 << v, 0) for v in range(n)]
        u = array("q", bytes(8 * size))
        need((n + 1) * max(map(abs, r.values()), default=0) < ROOM, "the shift is too large")
        for mask, value in r.items():
            u[mask] = value - sum(alone[v] for v in members(mask))
        need((2 * n + 1) * max(map(abs, u)) < ROOM, "the shift is too large")
        least = target(self.bound, unit, alone)
        possible = [mask for mask in self.scored if self.permits_clique(mask)]
        for _ in range(rounds):
            within = bytearray(size)
            for mask in possible:
                within[mask] = 1
            for v in range(n):
                for low, high in halves(n, v):
                    within[low] = bytes(map(or_, within[low], within[high]))
            gains = []
            for v in range(n):
                gain = array("q", [NONE]) * size
                for mask in range(1 << v, size):
                    if within[mask] and mask >> v & 1:
                        gain[mask ^ 1 << v] = u[mask] - u[mask ^ 1 << v]
                for w in set(range(n)) - {v}:
                    for low, high in halves(n, w):
                        gain[high] = array("q", map(max, gain[low], gain[high]))
                gains.append(gain)
            best = array("q", [NONE]) * size
            best[-1] = 0
            for mask in range(size - 2, -1, -1):
                for v in range(n):
                    own, after = gains[v][mask], best[mask | 1 << v]
                    if own != NONE != after:
                        best[mask] = max(best[mask], own + after)
            left = [mask for mask in possible if best[mask] != NONE and u[mask] + best[mask] > least]
            if len(left) == len(possible):
                break
            possible = left
        return possible

    def permits_clique(self, mask: int) -> bool:
        """Returns whether a set may be a clique."""
        allowed = mask in self.scored and mask not in self.rules.sets["forbidden_cliques"]
        most = self.rules.most["max_clique_cells"]
        fits = most is None or prod([self.arities[v] for v in members(mask)]) <= most
        return allowed and fits and all(edge & mask != edge for edge in self.rules.sets["forbidden_edges"])

    def permits_separator(self, mask: int) -> bool:
        """Returns whether a set may be a separator."""
        most, rules = self.rules.most["max_separator_size"], self.rules
        listed = rules.any_separator or mask in rules.sets["allowed_separators"]
        fits = rules.least <= mask.bit_count() <= (self.n if most is None else most)
        fits = fits and rules.most["max_cliques"] != 1  # one clique has no separator
        return fits and listed and mask in self.scores and mask not in rules.sets["forbidden_separators"]

    def run(self) -> None:
        """Visits the nodes from the first."""
        visited: set[int] = set()
        waiting = [(0, self.start)]
        while waiting:
            at, state = waiting.pop()
            need(at not in visited, f"node {at} is reached twice")
            visited.add(at)
            node = self.plain["nodes"][at]
            self.work += self.entries + (self.n**3 if node.get("graph") else 0)
            need(self.work <= MOST_WORK, "its verification would take too much work")
            need(len(state[2]) * self.entries <= DEEPEST, f"node {at} is below too many branches")
            for stage in node.get("stages", []):
                if not self.nothing_left(state):
                    value, gains, best = self.evaluate(state, stage)
                    low = {f for f in gains if value - best[f[1]] + gains[f] <= self.target}
                    state = (*self.closed(state[0], state[1] - low), *state[2:])
            if self.nothing_left(state):
                continue
            alive, allowed, decided, complete = state
            if node.get("last") is not None:
                need(self.evaluate(state, node["last"])[0] <= self.target, f"node {at} has too high a bound")
            elif node.get("edge") is None:
                self.check_decided_graph(alive, complete)
            else:
                pair = bits(node["edge"])
                need(pair not in decided, f"node {at} branches on a decided pair")
                without = self.closed({mask for mask in alive if mask & pair != pair}, allowed)
                waiting.append((node["absent"], (*without, decided | {pair}, complete)))
                waiting.append((node["present"], (alive, allowed, decided | {pair}, complete | {pair})))

    def nothing_left(self, state: State) -> bool:
        """Returns whether a variable has no family, or an edge of every graph is not alive."""
        return len({v for _, v in state[1]}) < self.n or not state[3] <= state[0]

    def evaluate(self, state: State, part: dict[str, Any]) -> tuple[int, dict[Family, int], dict[int, int]]:
        """Returns D, the gains of the families, and the maxima of the variables; raises for invalid rows."""
        cuts, balances, graphs = ([(self.plain[key][at], w) for at, w in part.get(key, ())] for key in ROWS)
        passes = 1 - -len(cuts) // 64 + len(balances) + sum(len(graph) for graph, _ in graphs)
        sizes = sum(len(cut) for cut, _ in cuts) + sum(len(row["sets"]) for row, _ in balances)
        self.work += passes * self.entries + sizes
        need(self.work <= MOST_WORK, "its verification would take too much work")
        cuts = [([self.sets[k] for k in cut], w) for cut, w in cuts]
        for cut, _ in cuts:
            need(0 not in cut, "a cut has an empty set")
            need(any(m.bit_count() == 1 or m in state[3] for m in cut), "a cut has no set that is complete")
        weights = sum(w for _, w in cuts) + sum(w for _, w in graphs) * comb(self.width, 2)
        weights += sum(w * max((abs(c) for _, c in row["sets"]), default=0) for row, w in balances)
        need(2 * self.n * weights < ROOM, "the weights are too large")
        t = {mask: self.units[mask] for mask in self.table if mask in state[0]}  # others are in no family
        for start in range(0, len(cuts), 4096):  # blocks, which bound the memory
            block = cuts[start : start + 4096]
            holds = dict.fromkeys(t, 0)  # bit i: whether the set includes one of the i-th cut
            for i, (cut, _) in enumerate(block):
                for mask in holds.keys() & cut:
                    holds[mask] |= 1 << i
            sums: list[list[int]] = []  # for each eight weights, the sums of all their subsets
            for first in range(0, len(block), 8):
                sums.append([0])
                for _, weight in block[first : first + 8]:
                    sums[-1] += [total + weight for total in sums[-1]]
            for mask in t:
                for facet in self.facets[mask]:
                    holds[mask] |= holds[facet]
                t[mask] += sum(map(getitem, sums, holds[mask].to_bytes(len(sums), "little")))
        value = -sum(w for _, w in cuts)
        for row, w in balances:
            for mask, c in self.balance(row):
                t[mask] = t.get(mask, 0) + w * c
            value -= w * row["limit"]
        for graph, w in graphs:
            edges = distinct(map(bits, graph))
            need(edges in self.rules.graphs, "a graph is not forbidden")
            for mask in t:
                t[mask] += w * (comb(mask.bit_count(), 2) - 2 * sum(edge & mask == edge for edge in edges))
            value -= w * (1 - len(edges))
        gains = {(mask, v): t[mask] - t[mask ^ 1 << v] for mask, v in state[1]}
        best = dict(sorted((v, gain) for (_, v), gain in gains.items()))  # the last value is the largest
        return value + sum(best.values()), gains, best

    def balance(self, row: dict[str, Any]) -> list[tuple[int, int]]:
        """Returns the sets and coefficients of a valid balance."""
        most = self.rules.most["max_cliques"]
        found = [(self.sets[at], c) for at, c in row["sets"]]
        distinct(mask for mask, _ in found)
        counts = most is not None and row["limit"] <= -most and all(c == -1 for _, c in found)
        need(counts or row["limit"] <= 0, "the limit of a balance does not follow from the constraints")
        need(all(mask for mask, _ in found), "a balance has the empty set")
        found = [(mask, c) for mask, c in found if mask in self.units]
        for mask, c in found:
            permitted = self.permits_separator if c > 0 else self.permits_clique
            need(counts or not permitted(mask), "a balance has a permitted clique or separator")
        return found

    def closed(self, alive: set[int], allowed: set[Family]) -> tuple[set[int], set[Family]]:
        """Returns the problem without sets that are complete in no graph, and without their families."""
        while True:
            self.work += self.entries
            need(self.work <= MOST_WORK, "its verification would take too much work")
            allowed = {family for family in allowed if family[0] in alive}
            last = {mask: 0 for mask in self.table if mask in alive}
            for mask, v in allowed:  # becomes, for each A, the v with an allowed family (v,Q), Q ⊇ A∖v
                last[mask] |= 1 << v
            for mask in reversed(last):
                for facet in self.facets[mask]:
                    last[facet] |= last[mask] & facet
            kept: set[int] = set()
            for mask, ends in last.items():  # smaller ones first: a set is dropped with any of its facets
                if mask.bit_count() <= 1 or (ends and kept.issuperset(self.facets[mask])):
                    kept.add(mask)
            if kept == alive:
                return alive, allowed
            alive = kept

    def check_decided_graph(self, alive: set[int], complete: set[int]) -> None:
        """Raises ValueError if the only graph left breaks the claim."""
        edges = {mask for mask in alive if len(self.facets[mask]) == len(EDGES)}
        need(edges <= complete, "a graph has open pairs")
        parts = clique_tree(edges, self.n)
        most = self.rules.most["max_cliques"]
        if parts is None or (most is not None and len(parts[0]) > most) or edges in self.rules.graphs:
            return
        possible = all(map(self.permits_clique, parts[0])) and all(map(self.permits_separator, parts[1]))
        if possible and edges >= self.rules.sets["required_edges"]:
            exact = [sum((Fraction(self.scores[mask]) for mask in part), Fraction(0)) for part in parts]
            below = self.bound is not None and float(exact[0] - exact[1]) <= self.bound
            need(below, "a permitted graph is above the bound")


def target(bound: float, unit: Fraction, own: list[int]) -> int:
    """Returns the target τ, which the U(G) of every graph above the bound exceeds."""
    return floor(Fraction(bound) * unit) - sum(own) - len(own)


def halves(n: int, v: int) -> Iterator[tuple[slice, slice]]:
    """Yields pairs of slices: sets without v, and the same with v; together they are all sets."""
    half, size = 1 << v, 1 << n
    if v < n // 2:
        for low in range(half):
            yield slice(low, size, 2 * half), slice(low + half, size, 2 * half)
    else:
        for low in range(0, size, 2 * half):
            yield slice(low, low + half), slice(low + half, low + 2 * half)


def clique_tree(edges: set[int], n: int) -> tuple[list[int], list[int]] | None:
    """Returns the cliques and separators of a chordal graph, by removing simplicial vertices; else None."""
    left = (1 << n) - 1
    count: Counter[int] = Counter({0: 1})  # by (2); offsets the separator ∅ of the first component
    while left:
        for v in members(left):
            around = [w for w in members(left) if v != w and 1 << v | 1 << w in edges]
            if edges.issuperset(map(bits, combinations(around, 2))):
                count.update({bits([v, *around]): 1, bits(around): -1})
                left ^= 1 << v
                break
        else:
            return None
    return [*+count], [*(-count).elements()]


def verify(instance: Instance, result: Any, certificate: Any) -> None:
    """Raises ValueError or LookupError unless the certificate proves the result's bound."""
    need(RESULT(result) or RANKING(result), "the result is not in its format")
    rules = Rules(result["instance"]["constraints"], instance.index)
    several = result["results"] if result["format"] == "jtsolve-results" else None
    found = result["status"] in ("optimal", "feasible") if several is None else bool(several)
    need(rules.match(instance.rules, found=found), "the result has other constraints than the instance")
    bound = None if result["bound"] is None else float(result["bound"])
    need(bound is not None or several is not None or result["status"] == "infeasible", "there is no claim")
    for cliques in (one["cliques"] for one in several or ()):
        sets = [distinct(instance.index[name] for name in names) for names in cliques]
        rules.graphs |= {frozenset(bits(edge) for clique in sets for edge in combinations(clique, 2))}
    instance.arities = [own or rules.real >> v & 1 for v, own in enumerate(instance.arities)]
    if (cells := rules.most["max_clique_cells"]) is not None:
        need(all(instance.arities), "a number of states is missing")
        fitting = sum(product <= cells for product in accumulate(sorted(instance.arities), mul))
        most = rules.most["max_treewidth"]
        rules.most["max_treewidth"] = fitting - 1 if most is None else min(most, fitting - 1)
    if rules.real and rules.real + 1 < 1 << instance.n:
        add_star(instance, rules)
    check_form(certificate, instance.n)
    same = result["instance"]["digest"] == certificate["digest"] == instance.digest
    need(same and certificate["variables"] == instance.names, "the files are for different instances")
    Verifier(instance, rules, bound, certificate).run()


def main(words: list[str]) -> int:
    """Verifies the files named and prints the verdict."""
    verdict = "the bound is proved"
    try:
        plain, result, certificate = map(read, words)
        verify(Instance(plain), result, certificate)
    except (*DAMAGES, LookupError, TypeError, ValueError) as error:
        verdict = f"refused: {error}"
    sys.stdout.write(f"{verdict}\n")
    return int(verdict.startswith("refused"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
