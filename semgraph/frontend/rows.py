"""Rows that a user gives, as a table of the types that the plan declares. One way in for examples, files and data frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from semgraph.errors import Fault, InputError, Problem, did_you_mean
from semgraph.expr.types import Type, type_of_arrow
from semgraph.frontend.values import convert
from semgraph.logical.plan import InputSpec

_SHOWN = 3  # faults told of one column; the rest are counted


class RowFault(NamedTuple):
    """Something wrong with given rows: in which row (from 0; None: all), in which column, what, and what to do."""

    row: int | None
    column: str
    what: str
    hint: str | None = None


def check_rows(spec: InputSpec, rows: Any, *, partition: str = "", key: str = "", source: str = "") -> pa.Table:
    """Given rows as a table with the declared columns and types.

    A column that may be NULL may be missing. Columns that are not declared are left out. Text is taken for numbers,
    times (ISO 8601; without a zone: UTC), lists and structs (JSON), as files without types have it.

    Args:
        spec: The declared input.
        rows: Mappings, an Arrow table, or a pandas data frame.
        partition: The column in which NULL becomes "", if it may be NULL.
        key: The column whose values must differ.
        source: What messages call the rows, such as a file's name.

    Raises:
        InputError: With what is wrong, by row (from 1) and column.
    """
    table, faults = read_rows(spec, rows, partition=partition, key=key, source=source)
    if faults:
        raise InputError(*(Problem(_told(fault, spec, source), hint=fault.hint) for fault in faults))
    return table


def _told(fault: RowFault, spec: InputSpec, source: str) -> str:
    start = f"{source}: " if source else ""
    if fault.row is None:
        return f"{start}input {spec.name} {fault.what}"
    return f"{start}input {spec.name}, row {fault.row + 1}, column {fault.column}: {fault.what}"


def read_rows(
    spec: InputSpec, rows: Any, *, partition: str = "", key: str = "", source: str = ""
) -> tuple[pa.Table, list[RowFault]]:
    """As `check_rows`, with the faults in place of an error; the table is of use only if there are none."""
    rows = list(rows) if isinstance(rows, Iterator) else rows
    try:
        given, count = columns_of(rows)
    except Fault as fault:
        needed = [f'"{name}": …' for name, kind in spec.columns if not kind.nullable and name != key]
        shown = f", such as {spec.name}=[{{{', '.join(needed)}}}]" if isinstance(rows, (str, bytes, Mapping)) else ""
        return spec.schema.empty_table(), [RowFault(None, "", fault.what, f"{fault.hint or ''}{shown}" or None)]
    if not given and not count:  # an empty list or file says nothing of its columns
        return spec.schema.empty_table(), []
    slips = dict(_slips(spec, given, rows))
    faults = [*_missing(spec, given, source), *slips.values()]
    arrays: dict[str, Any] = {}
    for name, kind in spec.columns:
        values = given.get(name, [None] * count)
        array: Any
        array, wrong = _column(name, kind, values)
        if name == partition and kind.nullable and not wrong:
            array = pc.fill_null(array, "")
        faults += wrong
        if not wrong and name in given and name not in slips and not kind.nullable and array.null_count:
            faults += list(_nulls(name, array))
        arrays[name] = array
    if key in given and not faults:
        faults += list(_doubles(key, arrays[key]))
    if faults:
        return spec.schema.empty_table(), faults
    return pa.table(list(arrays.values()), schema=spec.schema), []


def columns_of(rows: Any) -> tuple[dict[str, Any], int]:
    """The columns of given rows, as Arrow arrays or lists, and how many rows there are. Raises Fault."""
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    if isinstance(rows, pa.Table):
        columns = names_of(rows)
        _unique(columns)
        return {name: rows.column(i) for i, name in enumerate(columns)}, rows.num_rows
    if type(rows).__module__.partition(".")[0] == "pandas" and hasattr(rows, "columns"):
        _unique([str(name) for name in rows.columns])
        return {str(name): _from_pandas(rows[name]) for name in rows.columns}, len(rows)
    if isinstance(rows, (str, bytes, Mapping)) or not isinstance(rows, Iterable):
        raise Fault(
            f"cannot be read from {type(rows).__name__}", hint="give a list of mappings, an Arrow table or a data frame"
        )
    listed = list(rows)
    for i, row in enumerate(listed):
        if not isinstance(row, Mapping):
            raise Fault(f"row {i + 1} is {type(row).__name__}, not a mapping of columns")
    names = dict.fromkeys(str(name) for row in listed for name in row)
    return {name: [row.get(name) for row in listed] for name in names}, len(listed)


def names_of(rows: pa.Table) -> list[str]:
    """The names of the columns of an Arrow table. Raises Fault."""
    found = []
    for i in range(rows.num_columns):
        try:
            found.append(rows.schema.field(i).name)
        except UnicodeDecodeError as error:
            what = f"column {i + 1} has a name that is not UTF-8: {error.object!r}"
            raise Fault(what, hint="rename it: columns are found by their names") from None
    return found


def _unique(names: Sequence[str]) -> None:
    double = next((name for name in names if list(names).count(name) > 1), None)
    if double is not None:
        raise Fault(f'has the column "{double}" twice', hint="rename one of them")


def _from_pandas(series: Any) -> Any:
    try:
        return pa.Array.from_pandas(series)
    except (pa.ArrowException, UnicodeEncodeError, OverflowError):
        return [None if isinstance(v, float) and v != v else v for v in series.tolist()]  # noqa: PLR0124 - NaN


def _missing(spec: InputSpec, given: Mapping[str, Any], source: str) -> Iterator[RowFault]:
    declared = dict(spec.columns)
    extra = [name for name in given if name not in declared]
    absent = [name for name in declared if name not in given]
    needed = [name for name in absent if not declared[name].nullable]
    found = ", ".join(given) or "none"
    renames = ",".join(f"{name}={_guess(name, extra)}" for name in needed)
    hint = f"rename in one go: -i {spec.name}={source or 'FILE'}:{renames}"
    for name in needed:
        yield RowFault(None, name, f'needs column "{name}" ({declared[name]}); found: {found}', hint)
    for name in extra:
        near = get_close_matches(name, [a for a in absent if a not in needed], 1, 0.8)
        if near:
            yield RowFault(
                None, name, f'has no column "{name}"; it has: {", ".join(declared)}', f'did you mean "{near[0]}"?'
            )


def _slips(spec: InputSpec, given: Mapping[str, Any], rows: Any) -> Iterator[tuple[str, RowFault]]:
    """Columns that most rows have, and a row has under a name that looks like it; by column, the first such row."""
    declared = dict(spec.columns)
    present = [name for name in declared if name in given]
    for name in given if isinstance(rows, (list, tuple)) else ():
        near = get_close_matches(name, present, 1, 0.8) if name not in declared else []
        row = next((i for i, row in enumerate(rows) if name in row and near[0] not in row), None) if near else None
        if row is not None:
            what = f"is no column of {spec.name}; it has: {', '.join(declared)}"
            yield near[0], RowFault(row, name, what, f'did you mean "{near[0]}"?')


def _guess(name: str, extra: Sequence[str]) -> str:
    hint = did_you_mean(name, extra)
    return hint.split('"')[1] if hint else "COLUMN"


def _column(name: str, kind: Type, values: Any) -> tuple[pa.Array[Any], list[RowFault]]:
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        quick = _cast(kind, values)
        if quick is not None:
            return quick, []
        values = values.to_pylist()
    converted: list[Any] = []
    faults: list[RowFault] = []
    count = 0
    for i, value in enumerate(values):
        try:
            converted.append(convert(value, kind))
        except Fault as fault:
            count += 1
            if count <= _SHOWN:
                faults.append(RowFault(i, name, fault.what, fault.hint or fault.there))
    if count > _SHOWN:
        last = faults[-1]
        faults[-1] = last._replace(what=f"{last.what} (and {count - _SHOWN} more rows)")
    return (pa.array([], kind.arrow), faults) if faults else (pa.array(converted, kind.arrow), [])


def _cast(kind: Type, values: Any) -> pa.Array[Any] | None:
    """A column that is of the type already, but for widths and units; None where values must be looked at."""
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if pa.types.is_null(array.type):
        return pa.array([None] * len(array), kind.arrow)
    plain = kind.name == "vector" or not pa.types.is_nested(kind.arrow)
    try:
        if not plain or kind.name == "json" or type_of_arrow(array.type).arrow != kind.arrow:
            return None
        found: Any = array.cast(kind.arrow, safe=not pa.types.is_timestamp(array.type))
    except (Fault, pa.ArrowException):
        return None
    return found if _clean(found) else None


def _clean(array: Any) -> bool:
    """Whether no number of a column is NaN or infinite."""
    return not pa.types.is_floating(array.type) or pc.all(pc.is_finite(array)).as_py() is not False


def _nulls(name: str, array: pa.Array[Any]) -> Iterator[RowFault]:
    rows = pc.indices_nonzero(pc.is_null(array)).to_pylist()
    for row in rows[:1]:
        more = f" (and {len(rows) - 1} more rows)" if len(rows) > 1 else ""
        yield RowFault(row, name, f"is NULL{more}", f"fill it, or declare {name} with null after its type")


def _doubles(key: str, array: pa.Array[Any]) -> Iterator[RowFault]:
    seen: dict[Any, int] = {}
    for row, value in enumerate(array.to_pylist()):
        if value is None:
            continue
        first = seen.setdefault(value, row)
        if first != row:
            yield RowFault(row, key, f'"{value}" names row {first + 1} already', "a key names one row")
            return
