"""The types of the plan language, and their equivalents in Arrow, DuckDB and JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import lru_cache
from typing import Any, ClassVar, cast

import pyarrow as pa

from semgraph.errors import Fault, did_you_mean

TIMESTAMP = pa.timestamp("us", tz="UTC")


_ATOMS: dict[str, tuple[pa.DataType, str, dict[str, Any]]] = {
    "string": (pa.string(), "VARCHAR", {"type": "string"}),
    "int64": (pa.int64(), "BIGINT", {"type": "integer"}),
    "double": (pa.float64(), "DOUBLE", {"type": "number"}),
    "boolean": (pa.bool_(), "BOOLEAN", {"type": "boolean"}),
    "timestamp": (TIMESTAMP, "TIMESTAMPTZ", {"type": "string", "format": "date-time"}),
    "date": (pa.date32(), "DATE", {"type": "string", "format": "date"}),
    "json": (pa.string(), "VARCHAR", {}),
}
# Python types with an equivalent in the plan language.
PYTHON_TYPES: dict[Any, str] = {
    str: "string",
    int: "int64",
    float: "double",
    bool: "boolean",
    datetime: "timestamp",
    date: "date",
    dict: "json",
    Any: "json",
}
_CANONICAL = frozenset(arrow for arrow, *_ in _ATOMS.values())
_ELSEWHERE = {
    "datetime": "timestamp", "timestamptz": "timestamp", "time": "timestamp", "text": "string", "str": "string",
    "varchar": "string", "int": "int64", "integer": "int64", "bigint": "int64", "float": "double", "number": "double",
    "float64": "double", "bool": "boolean", "object": "struct", "array": "list",
}  # fmt: skip
MAX_LEVELS = 100  # the maximum nesting of lists and structs in a type
_TOKEN = re.compile(r"""\s*([^\W\d]\w*|\d+|[<>\[\],:]|"(?:[^"]|"")*")""")
_WORD = re.compile(r"[^\W\d]\w*|\d+")


def python_values(values: Any) -> list[Any]:
    """The values of a column in Python. A time outside the years 1 to 9999, which Python does not
    support, is a text; bytes of a text that are not UTF-8 are surrogates.
    """
    try:
        return cast("list[Any]", values if isinstance(values, list) else values.to_pylist())
    except (OverflowError, ValueError):
        return [_python_value(value) for value in values]


def python_rows(table: pa.Table) -> list[dict[str, Any]]:
    """The rows of a table, with the values of `python_values`."""
    columns = [python_values(column) for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def _python_value(value: Any) -> Any:
    try:
        return value.as_py()
    except (OverflowError, ValueError) as error:
        if isinstance(value, pa.StructScalar):
            return {name: _python_value(value[name]) for name in value}
        if isinstance(value, pa.ListScalar):
            return python_values(value.values)
        if isinstance(error, UnicodeDecodeError):
            return error.object.decode(errors="surrogateescape")
        return _far(value)


def _far(value: Any) -> str:
    """The text of a time outside the years of Python. The calendar repeats every 400 years."""
    kind: Any = value.type
    day = 86_400_000 if pa.types.is_date64(kind) else 1
    if pa.types.is_timestamp(kind):
        day = 86_400 * 1000 ** ("s", "ms", "us", "ns").index(kind.unit)
        kind = pa.timestamp(kind.unit, kind.tz and "UTC")
    elif not pa.types.is_date(kind):
        return str(value.cast(pa.string()).as_py())
    times, rest = divmod(value.value, 146_097 * day)
    near = pa.scalar(rest, kind).as_py()
    return f"{near.year + 400 * times}{str(near)[4:]}"


@dataclass(frozen=True)
class Type:
    """A type of the plan language.

    >>> str(parse_type("list<struct<name: string, at: timestamp null>>"))
    'list<struct<name: string, at: timestamp null>>'
    """

    tag: ClassVar[str] = "Type"
    name: str  # string, int64, double, boolean, timestamp, date, json, list, struct, vector or enum
    nullable: bool = False  # written `T null`; in answers, whether the model may answer null
    item: Type | None = None  # the type of a list's elements
    fields: tuple[tuple[str, Type], ...] = ()  # of a struct, in order
    size: int = 0  # the length of a vector; 0: any length
    values: tuple[str, ...] = ()  # of an enum (a string in tables, a closed choice for the model)
    # the records to which a number refers: `ref<NAME>`, an int64 for the model and in answers
    ref: str = field(default="", metadata={"added": True})
    # limits of an answer, and its `default`, as JSON: `{"maximum":150}`; written beside the type
    limits: str = field(default="", metadata={"added": True})

    def __str__(self) -> str:
        body = f"ref<{self.ref}>" if self.ref else self.name
        if self.item is not None:
            body = f"list<{self.item}>"
        elif self.name == "struct":
            body = f"struct<{', '.join(f'{n}: {t}' for n, t in self.fields)}>"
        elif self.name == "vector":
            body = f"vector[{self.size}]" if self.size else "vector"
        elif self.name == "enum":
            body = f"enum<{', '.join(map(_enum_word, self.values))}>"
        return f"{body} null" if self.nullable else body

    @property
    def refs(self) -> frozenset[str]:
        """The records to which this type, or a type inside it, refers."""
        parts = (*((self.item,) if self.item else ()), *(kind for _, kind in self.fields))
        own = {self.ref} if self.ref else set[str]()
        return frozenset(own).union(*(kind.refs for kind in parts))

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type of a column of this type."""
        if self.item is not None:
            return pa.list_(self.item.arrow)
        if self.name == "struct":
            return pa.struct([pa.field(n, t.arrow) for n, t in self.fields])
        if self.name == "vector":
            return pa.list_(pa.float32(), self.size) if self.size else pa.list_(pa.float32())
        return pa.string() if self.name == "enum" else _ATOMS[self.name][0]

    @property
    def sql(self) -> str:
        """The DuckDB type of a column of this type."""
        return sql_type(self.arrow)

    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of an answer of this type, in the strict subset: closed objects, all keys
        required.
        """
        if self.item is not None:
            body: dict[str, Any] = {"type": "array", "items": self.item.json_schema()}
        elif self.name == "struct":
            body = object_schema({n: t.json_schema() for n, t in self.fields})
        elif self.name == "enum":
            body = {"type": "string", "enum": list(self.values)}
        else:
            body = dict(_ATOMS[self.name][2])
        if not self.nullable:
            return body
        return {"anyOf": [body, {"type": "null"}]}


def object_schema(properties: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A closed JSON Schema object with all keys required."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


@lru_cache(maxsize=4096)
def sql_type(arrow: pa.DataType) -> str:
    """The DuckDB type of an Arrow type of the plan language."""
    if pa.types.is_fixed_size_list(arrow):
        return f"{sql_type(arrow.value_type)}[{arrow.list_size}]"
    if pa.types.is_list(arrow):
        return f"{sql_type(arrow.value_type)}[]"
    if pa.types.is_struct(arrow):
        inner = ", ".join(f'"{f.name}" {sql_type(f.type)}' for f in arrow)
        return f"STRUCT({inner})"
    if pa.types.is_float32(arrow):
        return "FLOAT"
    return _ATOMS[type_of_arrow(arrow).name][1]


def canonical_type(arrow: pa.DataType) -> pa.DataType:
    """The canonical Arrow type in the plan language for an Arrow type. Raises Fault."""
    return arrow if arrow in _CANONICAL else type_of_arrow(arrow).arrow


@lru_cache(maxsize=4096)
def type_of_arrow(arrow: pa.DataType) -> Type:
    """The type of the plan language for an Arrow type; numbers and strings are widened to the
    canonical type.
    """
    if pa.types.is_fixed_size_list(arrow):
        return Type("vector", size=arrow.list_size)
    if pa.types.is_list(arrow) and pa.types.is_float32(arrow.value_type):
        return Type("vector")
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        return Type("list", item=type_of_arrow(arrow.value_type))
    if pa.types.is_struct(arrow):
        return Type("struct", fields=tuple((f.name, type_of_arrow(f.type)) for f in arrow))
    if pa.types.is_dictionary(arrow):
        return type_of_arrow(arrow.value_type)
    for name, test in _KINDS:
        if test(arrow):
            return Type(name)
    msg = f"type {arrow} has no place in the plan language"
    raise Fault(msg, hint="cast it to string, int64, double, boolean, timestamp or date")


_KINDS: tuple[tuple[str, Callable[[Any], bool]], ...] = (
    ("boolean", pa.types.is_boolean),
    ("int64", pa.types.is_integer),
    ("int64", lambda arrow: pa.types.is_decimal(arrow) and arrow.scale == 0),
    ("double", pa.types.is_decimal),
    ("double", pa.types.is_floating),
    ("timestamp", pa.types.is_timestamp),
    ("date", pa.types.is_date),
    ("string", pa.types.is_string),
    ("string", pa.types.is_large_string),
    ("string", pa.types.is_string_view),
    ("string", pa.types.is_null),
)


def _enum_word(value: str) -> str:
    """A value of an enum in the notation of types: quoted, unless it is one word."""
    return value if _WORD.fullmatch(value) else '"' + value.replace('"', '""') + '"'


def parse_type(text: str) -> Type:
    """Read a type in the notation of plans, graphs and prompts. Raises Fault."""
    kind = parse_answer_type(text)
    if kind.refs:
        raise Fault(f'type "{text}": only answers of a sem_map name rows', hint="int64")
    return kind


@lru_cache(maxsize=1024)
def parse_answer_type(text: str) -> Type:
    """Read the type of an answer, which may be `ref<NAME>`. Raises Fault."""
    tokens, level = list(_tokens(text)), 0
    for sign in tokens:
        level += (sign == "<") - (sign == ">")
        if level > MAX_LEVELS:
            raise Fault(f'type "{text[:40]}...": at most {MAX_LEVELS} levels')
    tokens.append("")
    kind = _parse(tokens, text)
    if tokens != [""]:
        raise Fault(f'type "{text}": unexpected "{tokens[0]}"')
    return kind


def _tokens(text: str) -> Iterator[str]:
    position = 0
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None:
            what = f'type "{text}": unexpected "{text[position:].strip()[0]}"'
            hint = "a type looks like list<struct<name: string, at: timestamp null>>"
            raise Fault(what, hint=hint)
        yield match.group(1)
        position = match.end()


def _expect(tokens: list[str], token: str, text: str) -> None:
    if tokens[0] != token:
        raise Fault(f'type "{text}": expected "{token}", found "{tokens[0] or "the end"}"')
    tokens.pop(0)


def _parse(tokens: list[str], text: str) -> Type:
    name = tokens.pop(0)
    if name == "list":
        _expect(tokens, "<", text)
        kind = Type("list", item=_parse(tokens, text))
        _expect(tokens, ">", text)
    elif name == "struct":
        kind = Type("struct", fields=tuple(_members(tokens, text, typed=True)))
    elif name == "enum":
        kind = Type("enum", values=tuple(n for n, _ in _members(tokens, text, typed=False)))
    elif name == "ref":
        _expect(tokens, "<", text)
        kind = Type("int64", ref=tokens.pop(0))
        _expect(tokens, ">", text)
    elif name == "vector":
        kind = Type("vector", size=_size(tokens, text))
    elif name in _ATOMS:
        kind = Type(name)
    else:
        known = [*_ATOMS, "list", "struct", "vector", "enum"]
        msg = f'"{name}" is no type'
        elsewhere = _ELSEWHERE.get(name.lower())
        hint = f'did you mean "{elsewhere}"?' if elsewhere else did_you_mean(name, known)
        raise Fault(msg, there="types: " + ", ".join(known), hint=hint)
    if tokens[0] == "null":
        tokens.pop(0)
        kind = replace(kind, nullable=True)
    return kind


def _size(tokens: list[str], text: str) -> int:
    """The length of a vector; 0 if the type has none."""
    if tokens[0] != "[":
        return 0
    tokens.pop(0)
    size = tokens.pop(0)
    if not size.isdigit() or not int(size):
        what = f'type "{text}": a vector has a number of elements, not "{size}"'
        raise Fault(what, hint="vector[384], or vector")
    _expect(tokens, "]", text)
    return int(size)


def _members(tokens: list[str], text: str, *, typed: bool) -> Iterator[tuple[str, Type]]:
    _expect(tokens, "<", text)
    while True:
        name = tokens.pop(0)
        if name[:1] == '"' and not typed:
            name = name[1:-1].replace('""', '"')
        if typed:
            _expect(tokens, ":", text)
            yield name, _parse(tokens, text)
        else:
            yield name, Type("string")
        if tokens[0] != ",":
            break
        tokens.pop(0)
    _expect(tokens, ">", text)
