"""Names, properties, conjuncts and values in Cypher: from Arrow to parameters, and back to columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from math import isfinite, isnan
from typing import Any

import pyarrow as pa

from semgraph.errors import EngineError
from semgraph.expr import Scalar, Type
from semgraph.expr.functions import TEXT_FUNCTIONS, canonical_json
from semgraph.logical.schema import Graph, Label
from semgraph.stores.base import Alias
from semgraph.stores.conditions import (
    Prop,
    Term,
    Test,
    Value,
    constant,
    evaluate,
    read_all,
    values_of,
)
from semgraph.stores.prepare import (
    RESERVED,
    LeftOut,
    column,
    further_labels,
    json_form,
)

# The parameter with all lists, as one map: the server replans a statement for each order of
# magnitude of a list that is a separate parameter.
LISTS = "lists"
# The prefix of statements with a plan that does not depend on row counts, because hints name the
# indexes. Otherwise the server replans after counts have changed, which takes up to a second.
KEEP_PLAN = "CYPHER replan=skip"
ROW = "q"
DERIVED = "derived"
MARK, HEAD, SHARD = f"{RESERVED}Mark", f"{RESERVED}Head", f"{RESERVED}Shard"
# A commit marker is OF the window of its row, a window OF what it was made by, and that OF the head
# of the partition. They are found by these edges alone, and need no index.
WINDOW, PARTS, OF = f"{RESERVED}Window", f"{RESERVED}Parts", f"{RESERVED}Of"
# The label of nodes that record, for each graph label, the partition and the key of its rows.
LAYOUT = f"{RESERVED}Layout"

# The property with the names of the JSON attributes: Neo4j has no objects in properties.
NESTED = f"{RESERVED}Json"


def quoted(name: str) -> str:
    """A label, property or column as an identifier."""
    return "`" + name.replace("`", "``") + "`"


def string(text: str) -> str:
    """A text as a literal; only for names from the graph."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def pattern_of(label: Label, var: str = "n", inner: str = "") -> str:
    """The pattern of one node or one directed edge of a label; `inner` is its property map."""
    bound = f"{var}:{quoted(label.name)}{inner}"
    return f"({bound})" if label.kind == "node" else f"()-[{bound}]->()"


def hidden(label: Label) -> tuple[str, ...]:
    """The properties of a stored row that are no attributes."""
    return tuple(dict.fromkeys((*label.columns, *label.vectors.values(), *label.ignore)))


def stored(graph: Graph, label: Label, var: str, name: str) -> str:
    """A property of a hit in Cypher."""
    if name in label.ends:
        return f"{'start' if name == 'source' else 'end'}Node({var}).{quoted(graph.key)}"
    if name == "labels" and "labels" in label.open:
        return f"[l IN labels({var}) WHERE l <> {string(label.name)}]"
    if name == "attributes" and "attributes" in label.open:
        own = f"{{.*, {', '.join(f'{quoted(known)}: null' for known in hidden(label))}}}"
        return f"{var} {own}" if var.isidentifier() else f"[n IN [{var}] | n {own}][0]"
    return f"{var}.{quoted(name)}"


def returned_as(graph: Graph, label: Label, var: str, name: str) -> str:
    """The expression that returns a property. For a row that lacks a derived text, it returns a
    list with the source text.

    Times come as maps with microseconds since 1970, which are read much faster than the driver's
    type (`epochSeconds` is rounded towards 1970). A value of another type, stored by another
    program, is returned unchanged, never as a map.
    """
    value = stored(graph, label, var, name)
    derived, kind = label.derived.get(name), label.columns.get(name)
    if kind is not None and kind.name == "timestamp":
        micros = f"{{us: {value}.epochMillis * 1000 + {value}.microsecond % 1000}}"
        return f"CASE WHEN {value} IS :: ZONED DATETIME NOT NULL THEN {micros} ELSE {value} END"
    if derived is None or derived.by == "embed":
        return value
    return f"coalesce({value}, [{var}.{quoted(derived.of)}])"


def held(
    graph: Graph, label: Label, var: str, name: str, incomplete: frozenset[tuple[str, str]]
) -> str:
    """The value that a property is compared by: the stored one, or the computed one without it."""
    value = stored(graph, label, var, name)
    if (label.name, name) not in incomplete:
        return value
    key = f"toStringOrNull({var}.{quoted(graph.key)})"
    return f"coalesce({value}, ${DERIVED}[{string(f'{label.name}.{name}')}][{key}])"


def type_of(label: Label, name: str) -> Type | None:
    """The type of a property; None for a vector."""
    if name in label.columns:
        return label.columns[name]
    if name in label.vectors.values():
        return None
    raise EngineError(
        f'label "{label.name}" has no property "{name}": the graph declares {", ".join(label.columns)}'
    )


def comparable(text: str, kind: Type | None) -> str:
    """A property in comparable form; NULL if a value of another type would be an error. Times are
    normalized: Cypher sorts and compares equal instants also by their time zones.
    """
    if kind is not None and kind.name == "timestamp":
        return (
            f"CASE WHEN {text} IS :: ZONED DATETIME NOT NULL | LOCAL DATETIME NOT NULL "
            f"THEN datetime({{datetime: {text}, timezone: 'Z'}}) "
            f"WHEN {text} IS :: DATE NOT NULL THEN datetime({{date: {text}, timezone: 'Z'}}) END"
        )
    wanted = {"boolean": "BOOLEAN", "list": "LIST<ANY>"}.get(kind.name if kind is not None else "")
    return text if wanted is None else f"CASE WHEN {text} IS :: {wanted} THEN {text} END"


_OPERATORS: dict[str, Callable[[list[str]], str]] = {
    "not": lambda a: f"(NOT {a[0]})",
    "is null": lambda a: f"({a[0]} IS NULL)",
    "in": lambda a: f"({a[0]} IN [{', '.join(a[1:])}])",
    "coalesce": lambda a: f"coalesce({', '.join(a)})",
    "same": lambda a: f"coalesce({a[0]} = {a[1]}, {a[0]} IS NULL AND {a[1]} IS NULL)",
    "pair": lambda a: (
        f"coalesce(({a[0]} = {a[2]} AND {a[1]} = {a[3]}) OR ({a[0]} = {a[3]} AND {a[1]} = {a[2]}), false)"
    ),
}


def sent(value: Any) -> Any:
    """A value as Bolt carries it: times in UTC, lists without NULLs, no -0.0 (it is below 0)."""
    if isinstance(value, float):
        return value + 0.0
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    if isinstance(value, list):
        return [sent(item) for item in value if item is not None]
    return value


@dataclass(frozen=True)
class Bound:
    """The parameters of a statement: values of the rows, by field, and constants."""

    values: Mapping[str, Value] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Conditions:
    """Conjuncts over the variables of a statement, and the names of their bound values."""

    graph: Graph
    labels: Mapping[str, Label]
    names: dict[Value, str] = field(default_factory=dict)
    incomplete: frozenset[tuple[str, str]] = frozenset()

    def read(self, where: Sequence[Scalar], alias: Alias) -> tuple[Term, ...]:
        """The conjuncts as terms, their values named. Raises EngineError."""
        terms = read_all(where, alias, lambda p: type_of(self._label(p.var), p.name))
        for value in values_of(terms):
            self.names.setdefault(value, f"v{len(self.names)}")
        return terms

    def _label(self, var: str) -> Label:
        if var not in self.labels:
            known = ", ".join(self.labels)
            raise EngineError(f'a conjunct names "{var}", which the pattern does not: {known}')
        return self.labels[var]

    @property
    def bound(self) -> Bound:
        """The values of all conjuncts read so far; constants are computed here."""
        of_rows = {name: value for value, name in self.names.items() if value.columns}
        own = {name: constant(v)[0].as_py() for v, name in self.names.items() if not v.columns}
        return Bound(of_rows, {name: sent(value) for name, value in own.items()})

    def text(self, terms: Iterable[Term], variables: Mapping[str, str]) -> str:
        """All of the terms in Cypher; `variables` maps their variables to those of the statement."""
        return " AND ".join(self._text(term, variables, plain=True) for term in terms)

    def value(self, value: Value) -> str:
        """The parameter or field with a value."""
        return f"{ROW}.{self.names[value]}" if value.columns else f"${self.names[value]}"

    def _text(self, term: Term, variables: Mapping[str, str], *, plain: bool) -> str:
        """`plain`: NULL may become false, because no outer term distinguishes them."""
        if isinstance(term, Value):
            return self.value(term)
        if isinstance(term, Prop):
            label = self._label(term.var)
            value = held(self.graph, label, variables[term.var], term.name, self.incomplete)
            return comparable(value, type_of(label, term.name))
        inner = plain and term.op in ("and", "or")
        args = [self._text(arg, variables, plain=inner) for arg in term.args]
        if term.op in ("contains", "overlaps"):
            return self._of_lists(term, args, plain=plain)
        if term.op in _OPERATORS:
            return _OPERATORS[term.op](args)
        return f"({args[0]} {term.op.upper()} {args[1]})"

    def _of_lists(self, term: Test, args: list[str], *, plain: bool) -> str:
        first, second = args
        holds = term.op == "contains"
        test = f"{second} IN {first}" if holds else f"any(x IN {first} WHERE x IN {second})"
        if plain:
            return f"({test})"
        empty = f"size({first}) = 0 THEN false WHEN " if holds else ""  # no item, not even NULL
        return f"CASE WHEN {first} IS NULL THEN null WHEN {empty}{second} IS NULL THEN null ELSE {test} END"


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
    kinds: Iterable[pa.Field[Any]],
    rows: Sequence[Sequence[Any]],
) -> list[pa.Array[Any]]:
    """Rows of a label, each a list of properties, as columns; see `LeftOut.columns`."""
    types = {kind.name: kind.type for kind in kinds}

    def convert(name: str, values: Sequence[Any]) -> pa.Array[Any]:
        of = _from_stored(graph, label, name, types[name])
        back = [value if value is None else of(value) for value in values]
        array: pa.Array[Any] = pa.array(back, types[name])
        return array

    return left_out.columns(graph, label.name, list(types), rows, convert)


def _from_stored(graph: Graph, label: Label, name: str, wanted: Any) -> Callable[[Any], Any]:
    """The conversion of a stored property, which raises one of `UNFIT` for a value of another type."""
    kind, derived = label.columns.get(name), label.derived.get(name)
    if kind is None:
        return lambda value: value if len(value) == wanted.list_size else None
    if name == "attributes" and name in label.open:
        return _attributes
    if name == "labels" and name in label.open:
        return lambda value: further_labels(graph, value)
    if derived is None:
        return lambda value: _back(value, kind)
    by = TEXT_FUNCTIONS[derived.by].python

    def stored_or_made(value: Any) -> Any:
        if isinstance(value, list):  # a row that lacks it has a list with the source text
            value = None if value[0] is None else by(value[0])
        return _back(value, kind)

    return stored_or_made


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
    """A check that a value has one of some types; for `int`, a whole number."""

    def checked(value: Any) -> Any:
        if type(value) not in types or (float in types and isnan(value)):
            raise TypeError(value)
        if types[0] is int and value != int(value):
            raise ValueError(value)
        return value

    return checked


def time_of(value: Any) -> datetime:
    """A time in UTC, from `returned_as` or a date. Without a zone it counts as UTC."""
    if isinstance(value, dict):
        return _EPOCH + timedelta(microseconds=value["us"])
    time = value.to_native() if hasattr(value, "to_native") else datetime.fromisoformat(value)
    if not isinstance(time, datetime):
        time = datetime(time.year, time.month, time.day, tzinfo=UTC)
    instant: datetime = sent(time)
    return instant


def _attributes(value: Mapping[str, Any]) -> str:
    plain = {n: _plain(held) for n, held in value.items() if held is not None and n != NESTED}
    for name in value.get(NESTED) or ():
        # another program may have stored another value
        with suppress(LookupError, TypeError, ValueError):
            plain[name] = json.loads(plain[name])
    return canonical_json(plain)


def _plain(value: Any) -> Any:
    """A property as a JSON value: times and dates as ISO 8601, other types as text."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, str | int) or (type(value) is float and isfinite(value)):
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
