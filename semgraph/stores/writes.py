"""What a window wrote, as its commit marker records it: fingerprints of keys and values, no content.

A later refresh compares the stored rows with it: a value with another fingerprint was changed by
another plan or by hand, and stays.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from semgraph.errors import DataError
from semgraph.expr.functions import canonical_json
from semgraph.logical.schema import Graph
from semgraph.stores.base import Deletion, Write
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
    """What windows wrote to one node or edge, by property.

    Args:
        values: The fingerprints of values that replaced the stored ones; the last counts.
        created: Those of values that only a new row takes, from all windows.
        born: The names of those that the row took when it was made.
        united: The fingerprints of list elements that were added.
        creates: Whether a window could make the row.
        deleted: Whether the last window that wrote it deleted it.
        windows: The numbers of the windows that wrote it.
    """

    values: dict[str, str] = field(default_factory=dict)
    created: dict[str, list[str]] = field(default_factory=dict)
    born: frozenset[str] = frozenset()
    united: dict[str, list[str]] = field(default_factory=dict)
    creates: bool = False
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
        """Add what a later window wrote."""
        if "d" in later:
            self.values, self.created, self.united = {}, {}, {}
            self.creates, self.deleted = False, True
            if len(later) == 1:
                return
        self.deleted = False
        self.windows.append(number)
        self.values |= later.get("v", {})
        if not self.creates and not later.get("o"):
            self.creates, self.born = True, frozenset(later.get("c", ()))
        for own, new in ((self.created, later.get("c", {})), (self.united, later.get("u", {}))):
            for name, prints in new.items():
                own.setdefault(name, []).extend(prints)


Recorded = dict[str, dict[str, dict[str, Any]]]  # by label and fingerprint of the key


def recorded(graph: Graph, writes: Iterable[Write]) -> str:
    """The writes of one transaction, in their order, as text for a commit marker."""
    found: Recorded = {}
    for write in writes:
        if not write.rows.num_rows:
            continue
        rows = found.setdefault(write.label, {})
        if isinstance(write, Deletion):
            keys = keys_of(graph, write)[0]
            rows |= {row_fingerprint(key): {"d": fingerprint(key)} for key in keys}
            continue
        try:
            prepared = prepare_merge(graph, write)
        except DataError:  # the store refuses the batch and names the rows
            return ""
        columns = {name: array.to_pylist() for name, array in prepared.columns.items()}
        columns |= {n: own for n in ("labels", "attributes") if (own := getattr(prepared, n))}
        for name in (graph.key, graph.partition, *prepared.label.derived):
            columns.pop(name, None)
        for i, key in enumerate(prepared.keys):
            row = {name: own[i] for name, own in columns.items() if own[i] is not None}
            _merge(rows.setdefault(row_fingerprint(key), {}), _row(write, row))
    return json.dumps(found, separators=(",", ":")) if found else ""


def _row(write: Any, row: Mapping[str, Any]) -> dict[str, Any]:
    """What a merge writes to one row."""
    lists = {*write.unite, "labels"}
    parts: dict[str, dict[str, Any]] = {"v": {}, "c": {}, "u": {}}
    for name, value in row.items():
        if name in {"labels", "attributes"} and not value:
            continue
        if name in write.create:
            parts["c"][name] = [fingerprint(value)]
        elif name in lists:
            parts["u"][name] = [fingerprint(each) for each in value]
        else:
            parts["v"][name] = fingerprint(value)
    return {**{k: v for k, v in parts.items() if v}, **({"o": 1} if write.only_existing else {})}


def _merge(row: dict[str, Any], later: Mapping[str, Any]) -> None:
    """Several writes of one transaction to one row; a delete comes before merges."""
    is_new = "v" not in row
    exists = not is_new and not row.get("o")
    only = (is_new or row.pop("o", 0)) and later.get("o", 0)
    row.setdefault("v", {}).update(later.get("v", {}))
    for part in ("u",) if exists else ("c", "u"):
        for name, prints in later.get(part, {}).items():
            own = row.setdefault(part, {}).setdefault(name, [])
            own += [each for each in prints if each not in own]
    if only:
        row["o"] = 1


def written(graph: Graph, texts: Iterable[str]) -> dict[tuple[str, str], WrittenRow]:
    """What windows wrote, numbered in their order from 0, by label and fingerprint of the key. The
    edges of a node went with it.
    """
    rows: dict[tuple[str, str], WrittenRow] = {}
    for number, text in enumerate(texts):
        found: Recorded = json.loads(text or "{}")
        gone = {
            (n.name, row["d"])
            for n in graph.nodes
            for row in found.get(n.name, {}).values()
            if "d" in row
        }
        for (name, _), row in rows.items() if gone else ():
            edge = graph.labels.get(name)
            ends = edge.ends if edge is not None else ()
            if any((getattr(edge, end), row.values.get(end)) in gone for end in ends):
                row.add(number, {"d": ""})
        for label, own in found.items():
            for key, each in own.items():
                rows.setdefault((label, key), WrittenRow()).add(number, each)
    return rows


def kept_values(
    texts: Iterable[str], kept: Mapping[tuple[str, str], Mapping[str, str]]
) -> Iterator[str]:
    """The texts of windows, with further fingerprints of values that a row has in place of theirs.

    Args:
        texts: What windows wrote.
        kept: The fingerprints by property, by label and fingerprint of the key.
    """
    for text in texts:
        found: Recorded = json.loads(text or "{}")
        for label, own in found.items():
            for key, row in own.items():
                for name, value in kept.get((label, key), {}).items():
                    if name in row.get("c", {}):
                        row["c"][name].append(value)
                    elif name in row.get("v", {}):
                        row["v"][name] = value
        yield json.dumps(found, separators=(",", ":")) if kept else text
