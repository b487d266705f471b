"""Files of rows for the fluent API, where no plan declares the types: those of a delimited file are
read from its cells.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from semgraph.errors import InputError, Problem
from semgraph.expr.types import TIMESTAMP
from semgraph.frontend.inputs import json_lines, json_list, parquet, read_csv, reading, rows_of

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_LINES = (".jsonl", ".ndjson")


def rows_of_path(path: Path, texts: Collection[str] = ()) -> Any:
    """The rows of a file, by its ending. Columns of `texts` are not typed. Raises InputError."""
    if path.suffix.lower() in _DELIMITERS:
        return delimited_rows(path, None, texts)
    return rows_of(_existing(path))


def delimited_rows(path: Path, delimiter: str | None, texts: Collection[str] = ()) -> pa.Table:
    """The rows of a file with a delimiter, each column of the type that all its cells are written in.
    Columns of `texts` stay text. Raises InputError.
    """
    between = delimiter or _DELIMITERS.get(path.suffix.lower(), ",")
    if len(between) != 1:
        raise InputError(Problem(f"delimiter {between!r}: it is one character"))
    rows = reading(_existing(path), lambda file: read_csv(file, between))
    columns = [
        values if name in texts else typed(values)
        for name, values in zip(rows.column_names, rows.columns, strict=True)
    ]
    return pa.table(columns, names=rows.column_names)


def json_rows(path: Path) -> Any:
    """The rows of a JSON file: an object on each line if it ends in .jsonl or .ndjson, else a list of
    objects. Raises InputError.
    """
    return reading(_existing(path), json_lines if path.suffix.lower() in _LINES else json_list)


def parquet_rows(path: Path) -> pa.Table:
    """The rows of a Parquet file, whatever it is called. Raises InputError."""
    return reading(_existing(path), parquet)


def _existing(path: Path) -> Path:
    if path.is_dir():
        raise InputError(Problem(f"{path}: is a folder", hint="name a file"))
    if not path.exists():
        raise InputError(
            Problem(
                f"{path}: there is no such file", there=f"the working directory is {Path.cwd()}"
            )
        )
    return path


def _whole(cells: Any) -> Any:
    return cells.cast(pa.int64())


def _fraction(cells: Any) -> Any:
    return cells.cast(pa.float64())


def _truth(cells: Any) -> Any:
    return pc.match_substring_regex(cells, "^(?i:true)$")


def _day(cells: Any) -> Any:
    return cells.cast(pa.date32())


def _zoned(cells: Any) -> Any:
    return cells.cast(TIMESTAMP)


def _unzoned(cells: Any) -> Any:
    return pc.assume_timezone(cells.cast(pa.timestamp("us")), "UTC")


_INTEGER = r"-?(0|[1-9]\d{0,18})"
_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?"
_WRITTEN: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    (rf"^{_INTEGER}$", _whole),
    (rf"^{_INTEGER}(\.\d+)?([eE][+-]?\d+)?$", _fraction),
    (r"^(?i:true|false)$", _truth),
    (r"^\d{4}-\d\d-\d\d$", _day),
    (rf"^{_TIME}(Z|[+-]\d\d:?\d\d)$", _zoned),
    (rf"^{_TIME}$", _unzoned),
)
"""How the cells of a column are written, and as which type they are read; the first that fits all
of them. `007` is text.
"""


def typed(cells: Any) -> Any:
    """A column of texts as the type that all its cells are written in: whole number, number, true and
    false, date, time (ISO 8601; without a zone: UTC). Any other column stays text.

    >>> typed(pa.chunked_array([["1", None, "-20"]])).type, typed(pa.chunked_array([["007"]])).type
    (DataType(int64), DataType(string))
    """
    if cells.null_count == len(cells):
        return cells
    for pattern, read in _WRITTEN:
        if pc.all(pc.match_substring_regex(cells, pattern)).as_py():
            try:
                return read(cells)
            except pa.ArrowInvalid:  # 31 February, or a number beyond 64 bits: text
                return cells
    return cells
