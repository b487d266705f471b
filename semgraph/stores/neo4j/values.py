"""Conversions between Arrow tables and Neo4j: parameters of rows, and columns of properties."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from math import isfinite, isnan
from typing import Any

import pyarrow as pa

from semgraph.expr.functions import TEXT_FUNCTIONS, canonical_json
from semgraph.expr.types import Type
from semgraph.logical.schema import Graph, Label
from semgraph.stores.batch_io import column, further_labels, json_form
from semgraph.stores.conditions import Value, evaluate
from semgraph.stores.left_out import LeftOut, struct_array
from semgraph.stores.neo4j.cypher import NESTED, sent

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def fields(
    rows: pa.Table, values: Mapping[str, Value], more: Mapping[str, Sequence[Any]]
) -> list[dict[str, Any]]:
    """The rows as parameters: ordinals, values of conjuncts, and further fields of a statement."""
    computed = zip(values, evaluate(list(values.values()), rows), strict=True)
    columns: dict[str, Sequence[Any]] = {"_q": rows.column("_q").to_pylist(), **more}
    columns |= {name: [sent(value) for value in array.to_pylist()] for name, array in computed}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def sent_column(rows: pa.Table, path: str) -> list[Any]:
    """A column of the rows as Bolt carries it."""
    return [sent(value) for value in column(rows, path).to_pylist()]


def columns_of(
    left_out: LeftOut,
    graph: Graph,
    label: Label,
    rows: Sequence[Sequence[Any]],
    kinds: Iterable[pa.Field[Any]],
) -> list[pa.Array[Any]]:
    """Rows of a label, each a list of properties, as columns; see `LeftOut.columns`."""
    types = {kind.name: kind.type for kind in kinds}

    def convert(name: str, values: Sequence[Any]) -> pa.Array[Any]:
        return _column(values, graph, label, name, types[name])

    return left_out.columns(graph, label.name, list(types), rows, convert)


def struct_of(
    left_out: LeftOut,
    graph: Graph,
    label: Label,
    rows: Sequence[Sequence[Any]],
    kind: pa.StructType,
) -> pa.StructArray:
    """The same as one column; NULL where a row is left out."""
    return struct_array(columns_of(left_out, graph, label, rows, kind), kind)


def _column(
    values: Iterable[Any], graph: Graph, label: Label, name: str, wanted: pa.DataType
) -> pa.Array[Any]:
    """Properties as a column. Raises one of `UNFIT` for a value of another type."""
    kind, derived = label.columns.get(name), label.derived.get(name)
    if kind is None:
        return pa.array([_vector(value, wanted) for value in values], wanted)
    if derived is not None:  # a row that lacks it has a list with the text it derives from
        by = TEXT_FUNCTIONS[derived.by].python
        values = [_derived(value, by) if isinstance(value, list) else value for value in values]
    if name == "attributes" and "attributes" in label.open:
        return pa.array([v and _attributes(v) for v in values], pa.string())
    if name == "labels" and "labels" in label.open:
        return pa.array([v and further_labels(graph, v) for v in values], wanted)
    return pa.array([_back(value, kind) for value in values], wanted)


def _derived(value: list[Any], function: Callable[[str], Any]) -> Any:
    return None if value[0] is None else function(value[0])


def _vector(value: Any, wanted: Any) -> Any:
    return value if value is None or len(value) == wanted.list_size else None


def _back(value: Any, kind: Type) -> Any:
    if value is None:
        return None
    if kind.name in ("list", "struct") and isinstance(value, str):
        value = json.loads(value)
    if kind.item is not None:
        return [_back(item, kind.item) for item in value]
    if kind.name == "struct":
        return {name: _back(value[name], inner) for name, inner in kind.fields}
    back: Callable[[Any], Any] = _BACK.get(kind.name, _only(str))
    return back(value)


def _date(value: Any) -> date:
    day = value.to_native() if hasattr(value, "to_native") else date.fromisoformat(value)
    if type(day) is not date:
        raise TypeError(value)
    return day


def _json(value: Any) -> str:
    return json_form(value if isinstance(value, str) else canonical_json(_plain(value)), "it")


def _only(*types: type) -> Callable[[Any], Any]:
    """Values of some types; a number that is one, and whole for `int`."""

    def checked(value: Any) -> Any:
        if type(value) not in types or (float in types and isnan(value)):
            raise TypeError(value)
        if types[0] is int and value != int(value):
            raise ValueError(value)
        return value

    return checked


def time_of(value: Any) -> datetime:
    """A time in UTC. One without a zone is taken for UTC, a date for its beginning. See
    `terms.returned_as`.
    """
    if isinstance(value, dict):
        return _EPOCH + timedelta(microseconds=value["us"])
    time = value.to_native() if hasattr(value, "to_native") else datetime.fromisoformat(value)
    if not isinstance(time, datetime):
        time = datetime(time.year, time.month, time.day, tzinfo=UTC)
    instant: datetime = sent(time)
    return instant


def _attributes(value: Mapping[str, Any]) -> str:
    """The properties that are not declared, as JSON."""
    plain = {n: _plain(held) for n, held in value.items() if held is not None and n != NESTED}
    for name in value.get(NESTED) or ():
        # another program may have stored something else
        with suppress(LookupError, TypeError, ValueError):
            plain[name] = json.loads(plain[name])
    return canonical_json(plain)


def _plain(value: Any) -> Any:
    """A property as JSON has it: times and dates as ISO 8601, all that JSON lacks as text."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if (
        value is None
        or isinstance(value, str | int)
        or (isinstance(value, float) and isfinite(value))
    ):
        return value
    return value.iso_format() if hasattr(value, "iso_format") else str(value)


_BACK: Mapping[str, Callable[[Any], Any]] = {
    "timestamp": time_of,
    "date": _date,
    "json": _json,
    "int64": _only(int, float),
    "double": _only(float, int),
    "boolean": _only(bool),
}
