"""Rows of mappings, Arrow tables and data frames as tables with the types that a plan declares. An
unreadable row is set aside: its error and its values are in the table's metadata.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, date, datetime, time, timedelta
from difflib import get_close_matches
from enum import Enum
from importlib import import_module
from inspect import cleandoc
from pathlib import PurePath
from typing import Any, NamedTuple
from uuid import UUID

import pyarrow as pa

from semgraph.errors import Fault, InputError, Problem, nearest
from semgraph.expr.functions import canonical_json
from semgraph.expr.types import Type, python_values, type_of_arrow
from semgraph.frontend.classes import schema_of_class
from semgraph.frontend.kinds import one_of
from semgraph.logical.plan import InputSpec
from semgraph.logical.prompt import plain

_SLASHED = re.compile(r"\s*\d{1,4}[/.]\d{1,2}[/.]\d{1,4}")
_LEAST, _MOST = -(2**63), 2**63 - 1


def convert(value: Any, kind: Type) -> Any:
    """A value converted to the Python value of its type, None for NULL. Raises Fault.

    >>> convert("2025-01-15T10:00:00+02:00", Type("timestamp")).isoformat()
    '2025-01-15T08:00:00+00:00'
    """
    if is_empty(value) and kind.name != "string":
        return None
    if is_null(value) and not (isinstance(value, float) and kind.name == "double"):
        return None
    if kind.item is not None:
        return _items(_list(value, kind), kind.item)
    if kind.name == "struct":
        return _struct(value, kind)
    if kind.name == "vector":
        return _vector(value, kind)
    return one_of(*kind.values).read(value, None) if kind.values else _ATOMS[kind.name](value)


def _items(values: list[Any], kind: Type) -> list[Any]:
    items = [convert(v, kind) for v in values]
    if not kind.nullable and any(v is None for v in items):
        raise Fault(f"{shown(values)} holds a NULL", hint=f"declare it list<{kind} null> if it may")
    return items


def is_empty(value: object) -> bool:
    """Whether a value is the empty text, which means NULL in columns of other types."""
    return isinstance(value, str) and not value


def is_null(value: object) -> bool:
    """Whether a value is None, or a missing value of data frames: NaN, NaT and NA."""
    if isinstance(value, float):
        return math.isnan(value)
    return type(value).__name__ in {"NoneType", "NaTType", "NAType"}


def shown(value: object) -> str:
    """A value in a message: shortened, text in quotes."""
    text = f'"{value}"' if isinstance(value, str) else _written(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _written(value: object) -> str:
    try:
        return repr(value).lower() if isinstance(value, bool) else repr(value)
    except (RecursionError, ValueError):  # nested too deeply, or a number of too many digits
        return f"<{type(value).__name__}>"


def is_flat(value: Any, levels: int = 100) -> bool:
    """Whether lists and mappings are nested at most `levels` deep; deeper ones crash Arrow."""
    if not isinstance(value, (list, tuple, Mapping)):
        return True
    items = value.values() if isinstance(value, Mapping) else value
    nested = (item for item in items if isinstance(item, (list, tuple, Mapping)))
    return levels > 0 and all(is_flat(item, levels - 1) for item in nested)


def check_text(text: str) -> str:
    """A valid text. Raises Fault for others. (A run sets rows with a NUL aside.)"""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            what = f"the text holds half a character (U+{ord(text[error.start]):04X}), at {error.start}"
            hint = "it was cut or decoded wrongly before: read it as UTF-8"
            if "\udc80" <= text[error.start] <= "\udcff":
                what = f"{shown(text.encode(errors='surrogateescape'))} is not UTF-8"
                hint = "write the text in UTF-8"
            raise Fault(what, hint=hint) from None
    return text


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise Fault(f"{shown(value)} is not text")
    return check_text(str(value))


def _whole(value: Any) -> int:
    number: Any = value
    if isinstance(value, str):
        number = int(value) if re.fullmatch(r"\s*[+-]?\d+\s*", value) else None
    elif isinstance(value, float) and value.is_integer():
        number = int(value)
    if isinstance(number, bool) or not isinstance(number, int):
        raise Fault(f"{shown(value)} is not a whole number", hint=_plain_number(value))
    if not _LEAST <= number <= _MOST:
        raise Fault(f"{shown(value)} has no place in 64 bits", hint="declare it as string")
    return number


def _number(value: Any) -> float:
    try:
        number = None if isinstance(value, (bool, list, Mapping)) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or not math.isfinite(number):
        nan = number is not None and math.isnan(number)
        hint = "put NULL in its place: fill_nan(None) of polars" if nan else _plain_number(value)
        raise Fault(f"{shown(value)} is not a number", hint=hint)
    return number


def _plain_number(value: object) -> str | None:
    """A hint for a number in local notation: 1.234,5 or 1,234.5."""
    written = isinstance(value, str) and re.fullmatch(r"\s*[+-]?\d[\d., '\u00a0]*\s*", value)
    return "write it with digits and at most one point: 1234.5" if written else None


def _truth(value: Any) -> bool:
    words = {"true": True, "false": False}
    truth = words.get(value.strip().lower()) if isinstance(value, str) else value
    if not isinstance(truth, bool):
        raise Fault(f"{shown(value)} is not true or false", hint="write true or false")
    return truth


def _time(value: Any) -> datetime:
    time = value
    if isinstance(value, str):
        time = _iso(value, datetime.fromisoformat)
    elif isinstance(value, date) and not isinstance(value, datetime):
        time = datetime(value.year, value.month, value.day, tzinfo=UTC)
    if not isinstance(time, datetime):
        raise Fault(f"{shown(value)} is not a time", hint=_unix(value))
    try:
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except OverflowError:
        raise Fault(f"{shown(value)} is out of range") from None


def _date(value: Any) -> date:
    day = _iso(value, date.fromisoformat) if isinstance(value, str) else value
    if not isinstance(day, date) or isinstance(day, datetime):
        hint = 'write it in ISO 8601, such as "2025-01-15"'
        raise Fault(f"{shown(value)} is not a date", hint=hint)
    return day


def _iso(text: str, read: Callable[[str], Any]) -> Any:
    try:
        return read(text.strip())
    except ValueError:
        if _SLASHED.match(text):
            what = f"{shown(text)} is not ISO 8601: day or month first?"
            raise Fault(what, hint="write year-month-day: 2025-01-15") from None
        raise Fault(f"{shown(text)} is not ISO 8601", hint=_unix(text)) from None


def _unix(value: object) -> str:
    """A hint with the notation of times; for seconds or milliseconds since 1970, with that time."""
    number = re.fullmatch(r"\s*(\d{9,10}|\d{13})(\.\d+)?\s*", str(value))
    if number is None:
        return 'write it in ISO 8601, such as "2025-01-15T10:30:00Z"'
    seconds = int(number[1]) / (1000 if len(number[1]) == 13 else 1)
    time = datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
    return f'a Unix time: write "{time}", as datetime.fromtimestamp(seconds, UTC).isoformat() does'


def _json(value: Any) -> str | None:
    if isinstance(value, type):
        return schema_of_class(value)
    if not isinstance(value, str):
        try:
            return check_text(canonical_json(plain(value)))
        except (TypeError, ValueError, RecursionError):
            raise Fault(f"{shown(value)} has no form in JSON") from None
    _parsed(value, "JSON")
    return check_text(value)


def _parsed(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise Fault(f"{shown(text)} is not {what}") from None


def _list(value: Any, kind: Type) -> list[Any]:
    items = _parsed(value, f"{kind} (a list in JSON)") if isinstance(value, str) else value
    if hasattr(items, "tolist"):
        items = items.tolist()
    if not isinstance(items, (list, tuple)):
        raise Fault(f"{shown(value)} is not a list")
    return list(items)


def _struct(value: Any, kind: Type) -> dict[str, Any]:
    fields = _parsed(value, f"{kind} (an object in JSON)") if isinstance(value, str) else value
    if not isinstance(fields, Mapping):
        raise Fault(f"{shown(value)} is not {kind}")
    known = dict(kind.fields)
    for name in fields:
        if name not in known:
            raise Fault(f'{shown(value)} has a field "{name}"', there="fields: " + ", ".join(known))
    result = {}
    for name, inner in kind.fields:
        result[name] = convert(fields.get(name), inner)
        if result[name] is None and not inner.nullable:
            hint = f"declare it {inner} null if it may be missing"
            raise Fault(f'{shown(value)} has no "{name}"', hint=hint)
    return result


def _vector(value: Any, kind: Type) -> list[float]:
    vector = [_number(v) for v in _list(value, kind)]
    if kind.size and len(vector) != kind.size:
        raise Fault(f"{len(vector)} numbers, expected {kind.size}")
    return vector


_ATOMS: dict[str, Callable[[Any], Any]] = {
    "string": _text,
    "int64": _whole,
    "double": _number,
    "boolean": _truth,
    "timestamp": _time,
    "date": _date,
    "json": _json,
}
_SHOWN = 3  # the faults per column that are reported; further faults are counted


class RowFault(NamedTuple):
    """A fault in rows: the row (from 0; None: all), the column, the message and the hint."""

    row: int | None
    column: str
    what: str
    hint: str | None = None
    refuses: bool = False  # whether all rows are refused, not only this one


class Unreadable(dict[str, Any]):
    """An unreadable row of a file, at its index. It has no columns, but the error and the text of
    the row, in which bytes that are not UTF-8 are surrogates.
    """

    def __init__(self, problem: Problem, text: str) -> None:
        super().__init__()
        self.problem = problem
        raw = text.rstrip("\r\n").encode(errors="surrogateescape")
        self.text = raw.decode(errors="backslashreplace")


@dataclass(frozen=True)
class RowColumns:
    """The columns of rows, as Arrow arrays or lists, their number, and rows without columns."""

    values: dict[str, Any]
    count: int
    unreadable: Mapping[int, Unreadable] = field(default_factory=dict)

    def row(self, place: int) -> dict[str, Any]:
        """The unconverted row at an index, to be stored as JSON."""
        if place in self.unreadable:
            return {LINE: self.unreadable[place].text}
        return {
            name: _kept(python_values(values[place : place + 1])[0])
            for name, values in self.values.items()
        }


def _kept(value: Any) -> Any:
    """A value that JSON can hold, otherwise its text."""
    try:
        kept = plain(value) if is_flat(value) else _written(value)
        json.dumps(kept, default=str, skipkeys=True)
    except (ArithmeticError, ValueError):
        written = str(value) if isinstance(value, date) else _written(value)
        return None if is_null(value) else written
    return kept


_SET_ASIDE = b"semgraph.set_aside"
LINE = "_line"  # the column in `failed.jsonl` of a row without columns


def set_aside(rows: Any) -> list[tuple[str, dict[str, Any]]]:
    """The set-aside rows of a table of `with_set_aside`, each with its error."""
    metadata = (rows.schema.metadata if isinstance(rows, pa.Table) else None) or {}
    return [tuple(each) for each in json.loads(metadata.get(_SET_ASIDE, b"[]"))]


def with_set_aside(table: pa.Table, bad: Sequence[tuple[str, Mapping[str, Any]]]) -> pa.Table:
    """A table with its unreadable rows in the metadata. Raises InputError if all are."""
    if bad and not table.num_rows:
        raise InputError(*few([error for error, _ in bad]))
    return table.replace_schema_metadata(
        {_SET_ASIDE: json.dumps(bad, default=str, skipkeys=True)} if bad else None
    )


def few(texts: Sequence[str], most: int = _SHOWN) -> list[str]:
    """The first texts; the last of them has the number of further texts."""
    more = f" (and {len(texts) - most} more rows)" if len(texts) > most else ""
    return [*texts[: most - 1], *(text + more for text in texts[most - 1 : most])]


def read_rows(
    spec: InputSpec,
    rows: Any,
    bad: Sequence[tuple[str, dict[str, Any]]] = (),
    *,
    partition: str = "",
    key: str = "",
) -> pa.Table:
    """The rows that `check_rows` accepts; other rows and `bad` are set aside. Raises InputError."""
    aside = list(bad)
    table = check_rows(spec, rows, partition=partition, key=key, bad=aside)
    return with_set_aside(table, aside)


def check_rows(
    spec: InputSpec,
    rows: Any,
    *,
    partition: str = "",
    key: str = "",
    source: str = "",
    first: int = 0,
    bad: list[tuple[str, dict[str, Any]]] | None = None,
) -> pa.Table:
    """Rows as a table with the declared columns and types.

    Nullable columns may be missing. Undeclared columns are left out. Text is converted to numbers,
    times (ISO 8601; without a zone: UTC), lists and structs (JSON), as in files without types.

    Args:
        spec: The declared input.
        rows: Mappings, an Arrow table, or a data frame of pandas or Polars.
        partition: The column in which NULL becomes "", if it is nullable.
        key: The column whose values must be distinct.
        source: The name of the rows in messages, such as a file's name.
        first: The number of rows of the source before these.
        bad: Receives unreadable rows, each with its error; None: they are refused.

    Raises:
        InputError: Rows have faults; they are reported by row (from 1) and column.
    """
    columns, faults, raw = _typed_columns(spec, rows, partition, key, source, first)
    if bad is None or any(fault.row is None or fault.refuses for fault in faults):
        _refuse(_shortened(faults), spec, source, first)
        bad = []
    wrong: dict[int, list[str]] = {}
    for fault in faults:
        wrong.setdefault(fault.row or 0, []).append(str(_problem(fault, spec, source, first)))
    bad += [("\n".join(errors), raw.row(place)) for place, errors in sorted(wrong.items())]
    if not columns:
        return spec.schema.empty_table()
    arrays = [
        pa.array(values, kind.arrow) if isinstance(values, list) else values
        for (_, kind), values in zip(spec.columns, columns, strict=True)
    ]
    table = pa.table(arrays, schema=spec.schema)
    return table.filter(pa.array([p not in wrong for p in range(raw.count)])) if wrong else table


def _refuse(faults: Iterable[RowFault], spec: InputSpec, source: str, first: int = 0) -> None:
    problems = [_problem(fault, spec, source, first) for fault in faults]
    if problems:
        raise InputError(*problems)


def refuse_doubles(spec: InputSpec, table: pa.Table, key: str, source: str) -> None:
    """Refuse rows with the key of an earlier row. Raises InputError."""
    _refuse(_doubles(key, table.column(key)), spec, source)


def _shortened(faults: Iterable[RowFault]) -> Iterator[RowFault]:
    """The first faults of each kind in a column; the last of them has the number of further faults."""
    alike: dict[Any, list[RowFault]] = {}
    for fault in faults:
        once = fault.what if fault.row is not None and fault.what[:3] == "is " else ""
        alike.setdefault((fault.column, fault.row is None, once), []).append(fault)
    for (_, _, once), same in alike.items():
        texts = few([fault.what for fault in same], 1 if once else _SHOWN)
        yield from (fault._replace(what=what) for fault, what in zip(same, texts, strict=False))


def _problem(fault: RowFault, spec: InputSpec, source: str, first: int) -> Problem:
    place = f"{source}: input {spec.name}" if source else f"input {spec.name}"
    if fault.row is None:
        place += f", from row {first + 1}: " if first else " "
    elif fault.column:
        place += f", row {first + fault.row + 1}, column {fault.column}: "
    else:  # a line of a file; the message names it
        place = ""
    return Problem(place + fault.what, hint=fault.hint)


def row_faults(spec: InputSpec, rows: Any, *, partition: str = "", key: str = "") -> list[RowFault]:
    """The faults in rows that `check_rows` reports."""
    return list(_shortened(_typed_columns(spec, rows, partition, key, "")[1]))


def _typed_columns(
    spec: InputSpec, rows: Any, partition: str, key: str, source: str, first: int = 0
) -> tuple[list[Any], list[RowFault], RowColumns]:
    """The declared columns, the faults by row, and the unconverted rows. A column is an Arrow array
    or a list of values of its type; there are none if the rows have no columns.
    """
    rows = list(rows) if isinstance(rows, Iterator) else rows
    try:
        rows = _of_mapping(rows, [name for name, _ in spec.columns])
        raw = columns_of(rows)
    except Fault as fault:
        hint = fault.hint or ""
        if isinstance(rows, (str, bytes, Mapping)):
            needed = (f'"{n}": …' for n, kind in spec.columns if not kind.nullable and n != key)
            hint += f", such as {spec.name}=[{{{', '.join(needed)}}}]"
        return [], [RowFault(None, "", fault.what, hint or None)], RowColumns({}, 0)
    columns, count = raw.values, raw.count
    faults = [RowFault(p, "", e.problem.what, e.problem.hint) for p, e in raw.unreadable.items()]
    if not columns and count == len(faults):  # an empty list or file has no column names
        return [], faults, raw
    faults += _slips(spec, columns, rows)
    bad = {fault.row for fault in faults}
    faults += _missing(spec, columns, source)
    converted: dict[str, Any] = {}
    for name, kind in spec.columns:
        values, wrong = _column(name, kind, columns.get(name, [None] * count))
        if name == partition and kind.nullable:
            listed = isinstance(values, list)
            values = [v or "" for v in values] if listed else values.fill_null("")
        if name in columns and not kind.nullable:
            wrong += _nulls(name, values, bad | {fault.row for fault in wrong})
        faults += wrong
        converted[name] = values
    if key and key in columns:
        faults += _doubles(key, converted[key], first, {fault.row for fault in faults})
    return list(converted.values()), faults, raw


def _of_mapping(rows: Any, columns: list[str]) -> Any:
    """The rows that a mapping means: `{name: class}` for the columns name, description and fields,
    `{(a, b): [c, ...]}` for three columns. Others are unchanged. Raises Fault.
    """
    if not isinstance(rows, Mapping):
        return rows
    if sorted(columns) == ["description", "fields", "name"]:
        for name, cls in rows.items():
            if not isinstance(cls, type):
                hint = f'"{name}": a Pydantic model, or a list of mappings'
                raise Fault(f'"{name}" is {type(cls).__name__}, not a class', hint=hint)
        return [
            {"name": name, "description": cleandoc(cls.__doc__ or ""), "fields": cls}
            for name, cls in rows.items()
        ]
    pairs = all(isinstance(k, tuple) and isinstance(v, (list, tuple)) for k, v in rows.items())
    if pairs and all(len(key) == len(columns) - 1 for key in rows):
        listed = [(*key, each) for key, values in rows.items() for each in values]
        return [dict(zip(columns, row, strict=True)) for row in listed]
    return rows


def _mapping_of(row: Any) -> Any:
    """A row that is an object of a model or dataclass as a mapping; others are unchanged."""
    of_class = not isinstance(row, type) and (hasattr(row, "model_dump") or is_dataclass(row))
    return _plain_cell(row) if of_class else row


def _plain_cell(value: Any) -> Any:
    """A value of an object for a column: UUIDs, URLs and the like as texts, enums as their values."""
    if hasattr(value, "model_dump"):
        return _plain_cell(value.model_dump())
    if is_dataclass(value):
        return {part.name: _plain_cell(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, Mapping):
        return {name: _plain_cell(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain_cell(inner) for inner in value]
    if isinstance(value, (Enum, UUID, PurePath, time, timedelta)) or hasattr(value, "unicode_host"):
        return import_module("pydantic_core").to_jsonable_python(value, fallback=str)
    return value


def columns_of(rows: Any) -> RowColumns:
    """The columns of rows. Raises Fault."""
    if isinstance(rows, RowColumns):
        return rows
    _refuse_other_frames(rows)
    if is_pandas(rows):
        _unique([str(name) for name in rows.columns])
        return RowColumns({str(name): _from_pandas(rows[name]) for name in rows.columns}, len(rows))
    if hasattr(rows, "__arrow_c_stream__") or isinstance(rows, pa.RecordBatch):
        rows = rows if isinstance(rows, pa.Table) else pa.table(rows)
        columns = names_of(rows)
        _unique(columns)
        return RowColumns({name: rows.column(i) for i, name in enumerate(columns)}, rows.num_rows)
    if isinstance(_mapping_of(rows), (str, bytes, Mapping)) or not isinstance(rows, Iterable):
        hint = "give a list of mappings, an Arrow table or a data frame"
        raise Fault(f"cannot be read from {type(rows).__name__}", hint=hint)
    listed = list(map(_mapping_of, rows))
    unreadable = {i: row for i, row in enumerate(listed) if isinstance(row, Unreadable)}
    for i, row in enumerate(listed):
        if not isinstance(row, Mapping):
            name = f"the class {row.__name__}" if isinstance(row, type) else type(row).__name__
            raise Fault(f"row {i + 1} is {name}, not a mapping of columns")
    names = {str(name): name for row in listed for name in row}
    values = {text: [row.get(name) for row in listed] for text, name in names.items()}
    return RowColumns(values, len(listed), unreadable)


def is_pandas(rows: object) -> bool:
    """Whether an object is a data frame of pandas."""
    return _library(rows) == "pandas" and hasattr(rows, "columns")


def _library(value: object) -> str:
    return type(value).__module__.partition(".")[0]


def _refuse_other_frames(rows: Any) -> None:
    kind, library = type(rows).__name__, _library(rows)
    if library == "polars" and kind == "LazyFrame":
        raise Fault("is a LazyFrame, which has no rows yet", hint="compute it: frame.collect()")
    if library in {"pandas", "polars"} and not hasattr(rows, "columns"):
        hint = 'give a frame: series.to_frame("text")'
        raise Fault(f"is a {kind} of {library}, one column without a table", hint=hint)


def names_of(rows: pa.Table) -> list[str]:
    """The names of the columns of an Arrow table. Raises Fault."""
    names = []
    for i in range(rows.num_columns):
        try:
            names.append(rows.schema.field(i).name)
        except UnicodeDecodeError as error:
            what = f"column {i + 1} has a name that is not UTF-8: {error.object!r}"
            raise Fault(what, hint="rename it: columns are names by their names") from None
    return names


def _unique(names: Sequence[str]) -> None:
    double = next((name for name in names if name and list(names).count(name) > 1), None)
    if double is not None:
        raise Fault(f'has the column "{double}" twice', hint="rename one of them")


def _from_pandas(series: Any) -> Any:
    try:
        if series.dtype != object or all(map(is_flat, series)):
            return pa.Array.from_pandas(series)
    except (pa.ArrowException, UnicodeEncodeError, OverflowError):
        pass
    return [None if isinstance(v, float) and v != v else v for v in series.tolist()]  # noqa: PLR0124 - NaN


def _missing(spec: InputSpec, columns: Mapping[str, Any], source: str) -> Iterator[RowFault]:
    declared = dict(spec.columns)
    extra = [name for name in columns if name not in declared]
    absent = [name for name in declared if name not in columns]
    needed = [name for name in absent if not declared[name].nullable]
    columns_here = ", ".join(columns) or "none"
    renames = ",".join(f"{name}={nearest(name, extra) or 'COLUMN'}" for name in needed)
    hint = f"rename in one go: -i {spec.name}={source or 'FILE'}:{renames}"
    for name in needed:
        what = f'needs column "{name}" ({declared[name]}); found: {columns_here}'
        yield RowFault(None, name, what, hint)
    others = [name for name in absent if name not in needed]
    for name in extra:
        if near := get_close_matches(name, others, 1, 0.8):
            what = f'has no column "{name}"; it has: {", ".join(declared)}'
            yield RowFault(None, name, what, f'did you mean "{near[0]}"?')


def _slips(spec: InputSpec, columns: Mapping[str, Any], rows: Any) -> Iterator[RowFault]:
    """The faults of rows that have a misspelt name instead of a column that most rows have."""
    declared = dict(spec.columns)
    present = [name for name in declared if name in columns]
    for name in columns if isinstance(rows, (list, tuple)) else ():
        near = get_close_matches(name, present, 1, 0.8) if name not in declared else []
        what = f"is no column of {spec.name}; it has: {', '.join(declared)}"
        for place, row in enumerate(rows if near else ()):
            if isinstance(row, Mapping) and name in row and near[0] not in row:
                yield RowFault(place, name, what, f'did you mean "{near[0]}"?')


def _column(name: str, kind: Type, values: Any) -> tuple[Any, list[RowFault]]:
    """A column as an Arrow array or a list of values of its type, and its faults."""
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        quick = _cast(kind, values)
        if quick is not None:
            return quick, []
    converted: list[Any] = []
    faults: list[RowFault] = []
    for i, value in enumerate(python_values(values)):
        try:
            converted.append(convert(value, kind))
        except Fault as fault:
            converted.append(None)
            hint, is_class = fault.hint or fault.there, isinstance(value, type)
            faults.append(RowFault(i, name, fault.what, hint, refuses=is_class))
        except (ArithmeticError, ValueError, RecursionError):  # limits of Python
            converted.append(None)
            faults.append(RowFault(i, name, f"{shown(value)} is not {kind}"))
    return converted, faults


def _cast(kind: Type, values: Any) -> Any:
    """A column cast to a type that it has but for widths and units; None: value by value."""
    array: Any = values
    if pa.types.is_null(array.type):
        return pa.array([None] * len(array), kind.arrow)
    import pyarrow.compute as pc

    plain = kind.name == "vector" or not pa.types.is_nested(kind.arrow)
    try:
        if (
            not plain
            or kind.name in {"json", "enum"}
            or type_of_arrow(array.type).arrow != kind.arrow
        ):
            return None
        if pa.types.is_dictionary(array.type):
            array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
            array = array.dictionary.cast(kind.arrow).take(array.indices)
        converted: Any = array.cast(options=pc.CastOptions(kind.arrow, allow_time_truncate=True))
        if kind.name == "string":
            converted.validate(full=True)  # checks that each text is UTF-8
    except (Fault, pa.ArrowException):
        return None
    return converted if _clean(converted) else None


def _clean(array: Any) -> bool:
    """Whether all numbers of a column are finite, and all times within the years of Python."""
    import pyarrow.compute as pc

    if pa.types.is_temporal(array.type):
        ends = python_values(pa.array([pc.min_max(array)]))[0]
        return not any(isinstance(end, str) for end in ends.values())
    return not pa.types.is_floating(array.type) or pc.all(pc.is_finite(array)).as_py() is not False


def _nulls(name: str, column: Any, bad: Collection[int | None]) -> list[RowFault]:
    """The faults of rows without a value, except rows that are already bad."""
    if not isinstance(column, list) and not column.null_count:
        return []
    hint = f"fill it, or declare {name} with null after its type"
    return [
        RowFault(row, name, "is NULL", hint)
        for row, value in enumerate(python_values(column))
        if value is None and row not in bad
    ]


def _doubles(
    key: str, column: Any, before: int = 0, bad: Collection[int | None] = ()
) -> Iterator[RowFault]:
    """The fault of the first row with the key of an earlier row; `before` rows precede these."""
    if not isinstance(column, list):
        import pyarrow.compute as pc

        if pc.count_distinct(column).as_py() == len(column) - column.null_count:
            return
    seen: dict[Any, int] = {}
    for row, value in enumerate(python_values(column)):
        if value is None or row in bad:
            continue
        first = seen.setdefault(value, row)
        if first != row:
            what = f'"{value}" names row {before + first + 1} already'
            yield RowFault(row, key, what, "a key names one row", refuses=True)
            return
