"""What a window wrote, as its commit marker records it: fingerprints of keys and values, no content;
and markers as stores keep them: a row for each input row, one for each window, and the parts that
many windows share.

A later refresh compares the stored rows with it: a value with another fingerprint was changed by
another plan or by hand, and stays.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import zip_longest
from typing import Any

from semgraph.errors import DataError
from semgraph.expr.functions import canonical_json
from semgraph.logical.schema import Graph
from semgraph.stores import base
from semgraph.stores.prepare import keys_of, prepare_merge

_KEY, _VALUE = 8, 4  # bytes of a fingerprint


def fingerprint(value: Any, size: int = _VALUE) -> str:
    """The fingerprint of a value in its declared type.

    >>> fingerprint("Ann")
    '0c3bcc70'
    """
    return hashlib.blake2b(canonical_json(value).encode(), digest_size=size).hexdigest()


def row_fingerprint(key: str) -> str:
    """The fingerprint of a key."""
    return fingerprint(key, _KEY)


@dataclass
class WrittenRow:
    """What windows wrote to one node or edge, as fingerprints by property: values that replaced the
    stored ones (the last counts), values that only a new row takes (from all windows), and list
    elements that were added.

    It `creates` if a window could make the row; `born` names the values in `created` that it took
    then. `deleted` tells of the last window that wrote it.
    """

    values: dict[str, str] = field(default_factory=dict)
    created: dict[str, list[str]] = field(default_factory=dict)
    united: dict[str, list[str]] = field(default_factory=dict)
    creates: bool = False
    born: frozenset[str] = frozenset()
    deleted: bool = False
    windows: list[int] = field(default_factory=list)

    @property
    def names(self) -> set[str]:
        """The properties that were written."""
        return {*self.values, *self.created, *self.united}

    def says_as(self, other: WrittenRow | None) -> bool:
        """Whether the same was written."""
        return other is not None and replace(self, windows=other.windows) == other

    def add(self, number: int, later: Mapping[str, Any]) -> None:
        """Add a later write, of the window with this number."""
        if later.get("d"):
            self.values, self.created, self.united = {}, {}, {}
            self.creates, self.deleted = False, True
            return
        if self.deleted and later.get("o"):
            return
        self.deleted = False
        if number not in self.windows[-1:]:
            self.windows.append(number)
        self.values |= later.get("v", {})
        if not self.creates and not later.get("o"):
            self.creates, self.born = True, frozenset(later.get("c", ()))
        for own, new in ((self.created, later.get("c", {})), (self.united, later.get("u", {}))):
            for name, prints in new.items():
                own.setdefault(name, []).extend(prints)


# The label of a write, and what it wrote to each row, by the fingerprint of its key: `v`, `c` and `u`
# as the first three fields of `WrittenRow`; `o` if it creates no row, `d` if it deletes it.
Recorded = tuple[str, dict[str, dict[str, Any]]]


def recorded(graph: Graph, writes: Iterable[base.Write]) -> str:
    """The writes of one transaction, in their order, as text for a commit marker."""
    found: list[Recorded] = []
    for write in writes:
        if not write.rows.num_rows:
            continue
        if isinstance(write, base.Deletion):
            keys = keys_of(graph, write)[0]
            rows = {row_fingerprint(key): {"d": fingerprint(key)} for key in keys}
            found.append((write.label, rows))
            continue
        try:
            prepared = prepare_merge(graph, write)
        except DataError:  # the store refuses the batch and names the rows
            return ""
        columns = {name: array.to_pylist() for name, array in prepared.columns.items()}
        columns |= {n: own for n in ("labels", "attributes") if (own := getattr(prepared, n))}
        for name in (graph.key, graph.partition, *prepared.label.derived):
            columns.pop(name, None)
        rows = {
            row_fingerprint(key): _row(write, {name: own[i] for name, own in columns.items()})
            for i, key in enumerate(prepared.keys)
        }
        found.append((write.label, rows))
    return json.dumps(found, separators=(",", ":")) if found else ""


def _row(write: base.NodeWrite | base.EdgeWrite, row: Mapping[str, Any]) -> dict[str, Any]:
    parts: dict[str, dict[str, Any]] = {"v": {}, "c": {}, "u": {}}
    for name, value in row.items():
        if value is None or (name in {"labels", "attributes"} and not value):
            continue
        if name in write.create:
            parts["c"][name] = [fingerprint(value)]
        elif name in {*write.unite, "labels"}:
            parts["u"][name] = [fingerprint(each) for each in value]
        else:
            parts["v"][name] = fingerprint(value)
    only: dict[str, Any] = {"o": 1} if write.only_existing else {}
    return {name: own for name, own in parts.items() if own} | only


def written(graph: Graph, texts: Iterable[str]) -> dict[tuple[str, str], WrittenRow]:
    """What windows wrote, numbered in their order from 0, by label and fingerprint of the key. The
    edges of a deleted node went with it.
    """
    ends = {(edge.name, end, getattr(edge, end)) for edge in graph.edges for end in edge.ends}
    rows: dict[tuple[str, str], WrittenRow] = {}
    for number, text in enumerate(texts):
        for label, own in json.loads(text or "[]"):
            gone = {row["d"] for row in own.values() if "d" in row}
            touching = [(edge, end) for edge, end, node in ends if node == label and gone]
            for (edge, _), row in rows.items() if touching else ():
                if any(edge == e and row.values.get(end) in gone for e, end in touching):
                    row.add(number, {"d": 1})
            for key, row in own.items():
                rows.setdefault((label, key), WrittenRow()).add(number, row)
    return rows


def kept_values(
    texts: Iterable[str], kept: Mapping[tuple[str, str], Mapping[str, str]]
) -> Iterator[str]:
    """The texts of windows, with further fingerprints of values that a new row took."""
    for text in texts:
        found: list[Recorded] = json.loads(text or "[]") if kept else []
        for at, row in (((label, key), row) for label, own in found for key, row in own.items()):
            for name, value in kept.get(at, {}).items():
                if name in row.get("c", {}):
                    row["c"][name].append(value)
                elif name in row.get("v", {}):
                    row["v"][name] = value
        yield json.dumps(found, separators=(",", ":")) if found else text


# Markers in stores.


def pack(text: str) -> bytes:
    """A text, compressed."""
    return zlib.compress(text.encode())


def window_of(
    now: datetime, begun: datetime | None, parts: str | None, writes: bytes
) -> base.CommittedWindow:
    """A stored window without its rows."""
    text = zlib.decompress(writes).decode()
    return base.CommittedWindow((), now, begun, json.loads(parts or "{}"), text)


def shared_parts(marker: base.CommitMarker) -> tuple[str, str]:
    """The parts of a commit marker as text, after its hash."""
    text = canonical_json(dict(marker.parts))
    return fingerprint(text, 16), text


def marked_rows(marker: base.CommitMarker) -> Iterator[tuple[int, str, str]]:
    """Place, id and content of each row of a window."""
    contents = dict(zip_longest(marker.rows, marker.contents, fillvalue=""))
    return ((place, row, content) for place, (row, content) in enumerate(contents.items()))


def history_of(
    head: str | None,
    rows: Iterable[tuple[int | None, int | None, base.CommittedRow]],
    windows: Mapping[int, base.CommittedWindow],
) -> base.History:
    """What a plan committed in a partition. Rows come in any order, each with the number of its
    window, from 1, and its place there; an earlier version recorded neither.
    """
    by: dict[int, list[base.CommittedRow]] = {}
    for number, _, row in sorted(rows, key=lambda marked: (marked[0] or 0, marked[1] or 0)):
        by.setdefault(number or 0, []).append(row)
    old = sorted(by.pop(0, ()), key=lambda row: (row.now, row.row))
    first = (base.CommittedWindow((row,), row.now, None, {}, None) for row in old)
    later = (replace(windows[number], rows=tuple(own)) for number, own in by.items())
    return base.History(head, (*first, *later))
