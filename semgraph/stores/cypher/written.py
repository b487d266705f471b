"""The rows of a write as parameters of its statement, each a map:

`k` its key, `p` its partition (NULL: any), `c` properties for creation, `s` properties to set, `u` lists to unite, `l` labels,
`a` attributes, `v` vectors, `z` names of vectors of zeros, which have no direction and are not kept; `source` and `target` of
edges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from semgraph.errors import DataError
from semgraph.expr.functions import canonical_json
from semgraph.logical.schema import Graph, Label
from semgraph.stores.base import Delete, EdgeWrite, NodeWrite, Write
from semgraph.stores.cypher.terms import SYSTEM, sent
from semgraph.stores.refusals import meant_otherwise
from semgraph.stores.rows import attributes_form, json_form, labels_form

LONGEST = 8000
"""Bytes of a text in a range index; the server's own limit is a little more."""
_INT64 = 1 << 63


def rows_of(graph: Graph, write: Write) -> list[dict[str, Any]]:
    """The rows as the statement reads them. Raises DataError for what cannot be written."""
    label = graph.label(write.label)
    if isinstance(write, Delete):
        keys = write.rows.column(graph.key).to_pylist()
        confined = graph.partition in write.rows.column_names
        parts = write.rows.column(graph.partition).to_pylist() if confined else [None] * len(keys)
        return [{"k": key, "p": part} for key, part in zip(keys, parts, strict=True)]
    columns = {name: _values(write.rows, label, name) for name in write.rows.column_names}
    found = _Written(graph, label, write)
    return [found.row(dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)]


def _values(rows: pa.Table, label: Label, name: str) -> list[Any]:
    """A column as Python values of its declared type."""
    array: Any = rows.column(name).combine_chunks()
    if name in label.vectors.values():
        return _vectors(array, f"{name} of {label.name}")
    kind = label.columns[name]
    try:
        array = array if array.type == kind.arrow else array.cast(kind.arrow)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(f"{name} of {label.name} cannot be stored as {kind}: {str(error).splitlines()[0]}") from None
    listed: list[Any] = array.to_pylist()
    return listed


def _vectors(array: Any, what: str) -> list[Any]:
    """Vectors as lists; by numpy, which is many times faster."""
    import numpy as np

    given = array.drop_null()
    sizes = {len(vector) for vector in given} if not pa.types.is_fixed_size_list(array.type) else {array.type.list_size}
    if len(sizes) > 1:
        raise DataError(f"{what} has vectors of different lengths: {', '.join(map(str, sorted(sizes)))}")
    if not len(given):
        return [None] * len(array)
    flat = given.flatten()
    numbers = flat.cast(pa.float32()).to_numpy(zero_copy_only=False).reshape(len(given), -1)
    if flat.null_count or not np.isfinite(numbers).all():
        raise DataError(f"{what} has a vector with NULL, NaN or infinity in it")
    listed = iter(numbers.tolist())
    return [next(listed) if ok else None for ok in array.is_valid().to_pylist()]


class _Written:
    """One write, row by row."""

    def __init__(self, graph: Graph, label: Label, write: NodeWrite | EdgeWrite) -> None:
        self.graph, self.label, self.write = graph, label, write
        self.vectors = frozenset(label.vectors.values())
        self.indexed = {graph.key, graph.partition, *label.index}

    def row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """A row as a map; NULL is nothing to write."""
        key = row[self.graph.key]
        refuse_long(key, f"{self.graph.key} of {self.label.name}")
        part = row.get(self.graph.partition)
        found: dict[str, Any] = {"k": key, "p": part, "c": {}, "s": {}, "u": {}, "v": {}, "z": [], "l": [], "a": None}
        for name, value in row.items():
            if value is not None:
                self._place(found, name, value, "c" if name in self.write.create else "s")
        return found

    def _place(self, found: dict[str, Any], name: str, value: Any, where: str) -> None:
        if name in ("source", "target") and self.label.kind == "edge":
            found[name] = value
        elif name in self.vectors:
            if any(value):
                found["v"][name] = value
            elif where == "s":
                found["z"].append(name)
        elif name == "labels" and "labels" in self.label.open:
            found["l"] = self._labels(value, found["k"])
        elif name == "attributes" and "attributes" in self.label.open:
            flat = {n: v if _storable(v) else canonical_json(v) for n, v in self._attributes(value, found["k"])}
            found |= {"a": flat} if where == "s" else {"c": {**flat, **found["c"]}}
        elif name in self.write.unite and where == "s":
            found["u"][name] = list(dict.fromkeys(self._stored(name, value, found["k"])))
        else:
            found[where][name] = self._stored(name, value, found["k"])

    def _attributes(self, value: str, key: str) -> Sequence[tuple[str, Any]]:
        return tuple(attributes_form(value, self.label, key).items())

    def _labels(self, names: Sequence[str], key: str) -> list[str]:
        found = labels_form(names, self.label, key)
        for name in found:
            if name in self.graph.labels or name.startswith(SYSTEM):
                raise meant_otherwise(name, f"{self.label.name} {key}")
        return found

    def _stored(self, name: str, value: Any, key: str) -> Any:
        """A property as Neo4j keeps it: JSON in canonical form, what it has no form for as JSON."""
        kind, what = self.label.columns[name], f"{name} of {self.label.name} {key}"
        if kind.name == "json":
            value = json_form(value, what)
        elif kind.name == "struct" or (kind.item is not None and kind.item.name in ("struct", "list")):
            value = canonical_json(value)
        elif isinstance(value, list) and None in value:
            hint = "leave NULL out of it: list_filter(..., x -> x IS NOT NULL)"
            raise DataError(f"{what} is a list with NULL in it, which Neo4j cannot store", hint=hint)
        if name in self.indexed:
            refuse_long(value, what)
        return sent(value)


def refuse_long(value: Any, what: str) -> None:
    """Refuse a text that Neo4j cannot index. Raises DataError."""
    if isinstance(value, str) and len(value.encode()) > LONGEST:
        what = f"{what[:200]} has {len(value.encode()):,} bytes, and Neo4j indexes texts of {LONGEST:,} at most"
        raise DataError(
            what, hint="keys, groups and properties under `index` are such texts: cut(...) makes them shorter"
        )


def _storable(value: Any) -> bool:
    """Whether Neo4j has properties of this kind: no objects, no lists of several kinds, no larger integers."""
    if isinstance(value, list):
        plain = all(_storable(item) and not isinstance(item, list) for item in value)
        return plain and len({type(item) for item in value}) <= 1
    return not isinstance(value, dict) and not (isinstance(value, int) and abs(value) >= _INT64)
