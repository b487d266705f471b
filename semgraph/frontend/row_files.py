"""Files of rows. Those of a format without types are read as text; for the fluent API, where no plan
declares types, the types of a delimited file are read from its cells. A row that cannot be read is
an `Unreadable` in its place.
"""

from __future__ import annotations

import io
import json
import re
import sys
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from semgraph.errors import Fault, InputError, Problem
from semgraph.expr.types import TIMESTAMP
from semgraph.formats import plural
from semgraph.frontend.encodings import not_utf8
from semgraph.frontend.rows import LINE, Unreadable, names_of, shown

R = TypeVar("R")
BATCH = 20_000
"""Rows that are read at one time."""
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_LINES = (".jsonl", ".ndjson")


def rows_of_path(path: Path, texts: Collection[str] = ()) -> Any:
    """The rows of a file, by its ending. Columns of `texts` are not typed. Raises InputError."""
    if path.suffix.lower() in _DELIMITERS:
        return delimited_rows(path, None, texts)
    return rows_of(_existing(path))


def delimited_rows(path: Path, delimiter: str | None, texts: Collection[str] = ()) -> Any:
    """The rows of a file with a delimiter, each column of the type that all its cells are written in.
    Columns of `texts` stay text. Raises InputError.
    """
    between = delimiter or _DELIMITERS.get(path.suffix.lower(), ",")
    if len(between) != 1:
        raise InputError(Problem(f"delimiter {between!r}: it is one character"))
    rows, bad = reading(_existing(path), lambda file: _delimited(file, between))
    columns = [
        values if name in texts else typed(values)
        for name, values in zip(rows.column_names, rows.columns, strict=True)
    ]
    return _with_unreadable(pa.table(columns, names=rows.column_names), bad)


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


_INTEGER = r"-?(0|[1-9]\d{0,18})"
_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?"
_WRITTEN: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    (rf"^{_INTEGER}$", lambda cells: cells.cast(pa.int64())),
    (rf"^{_INTEGER}(\.\d+)?([eE][+-]?\d+)?$", lambda cells: cells.cast(pa.float64())),
    (r"^(?i:true|false)$", lambda cells: pc.match_substring_regex(cells, "^(?i:true)$")),
    (r"^\d{4}-\d\d-\d\d$", lambda cells: cells.cast(pa.date32())),
    (rf"^{_TIME}(Z|[+-]\d\d:?\d\d)$", lambda cells: cells.cast(TIMESTAMP)),
    (rf"^{_TIME}$", lambda cells: pc.assume_timezone(cells.cast(pa.timestamp("us")), "UTC")),
)  # fmt: skip
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


def read_csv(path: Path, delimiter: str = ",") -> Any:
    """All columns as text; the plan has their types. An empty cell is NULL, `""` an empty text. A
    table, or a list of rows if some cannot be read.

    Raises InputError.
    """
    return _with_unreadable(*_delimited(path, delimiter))


def _with_unreadable(table: pa.Table, bad: Mapping[int, Unreadable]) -> Any:
    rows: Any = table.to_pylist() if bad else table
    for place in sorted(bad):
        rows.insert(place, bad[place])
    return rows


def _delimited(path: Path, delimiter: str) -> tuple[pa.Table, dict[int, Unreadable]]:
    """The rows of a file as a table, and by place those that cannot be read. Where all rows are plain,
    Arrow reads the same ones, faster.
    """
    raw, between = path.read_bytes().removeprefix(BOM_UTF8), delimiter.encode()
    if not raw.strip(b"\r\n"):
        hint = "its first line names the columns; no rows at all: -i NAME=[]"
        raise InputError(Problem(f"{path}: the file is empty", hint=hint))
    records = _records(raw, between)
    _, line, _, header = next(records)
    if header is None:
        raise InputError(Problem(f"{path}:{line}: {_OPEN[0]}", hint=_OPEN[1]))
    names = [(cell or b"").decode() for cell in header]
    _refuse_other_separator(path, names, delimiter)
    if raw.count(b'"') % 2 == 0 and not _pattern(_STRAY, between).search(raw):
        with suppress(pa.ArrowInvalid):
            return _table(raw, names, delimiter), {}
    columns: list[list[str | None]] = [[] for _ in names]
    bad: dict[int, Unreadable] = {}
    for place, (start, line, row, cells) in enumerate(records):
        wrong = not_utf8(row, str(path), start)
        if cells is None:
            what, hint = _OPEN
        elif len(cells) != len(names):
            what = f"this row has {plural(len(cells), 'cell')}, and the first line {len(names)}"
            hint = "each row needs as many cells as the first line; a cell with a comma needs double quotes"
        elif wrong is not None:
            what, hint = wrong.what, wrong.hint
        else:
            for column, cell in zip(columns, cells, strict=True):
                column.append(None if cell is None else cell.decode())
            continue
        text = row.decode(errors="surrogateescape")
        bad[place] = Unreadable(Problem(f"{path}:{line}: {what}", hint=hint), text)
    return pa.table([pa.array(column, pa.string()) for column in columns], names=names), bad


_OPEN = (
    "a double quote is opened in this row and never closed",
    "close it; a quote inside a quoted cell is written twice",
)
_BREAK = re.compile(rb"\r\n?|\n")
_CELL = rb'(?:"([^"]*+(?:""[^"]*+)*+)"|)([^D\r\n]*+)(D|\r\n?|\n|\Z)'
_STRAY = rb'(?:\A|[D\r\n])"[^"\r\n]*+(?:""[^"\r\n]*+)*+[\r\n][^"]*+(?:""[^"]*+)*+"[^D"\r\n]'
"""A cell that is closed in a later line and goes on, or what may be one. `D` is the delimiter."""


def _pattern(pattern: bytes, delimiter: bytes) -> re.Pattern[bytes]:
    return re.compile(pattern.replace(b"D", re.escape(delimiter)))


def _records(
    raw: bytes, delimiter: bytes
) -> Iterator[tuple[int, int, bytes, list[bytes | None] | None]]:
    """The rows of a delimited file: the first byte, the number of the line, the text, and the cells.

    Text after a closing quote belongs to the cell, as in Arrow. A quote that is never closed, or is
    closed inside a cell of a later line, costs its line alone, which has no cells then.
    """
    pattern = _pattern(_CELL, delimiter)
    at, line = 0, 1
    while at < len(raw):
        start, between = at, delimiter
        cells: list[bytes | None] | None = []
        while cells is not None and between == delimiter:
            cell = pattern.match(raw, at)
            assert cell is not None
            quoted, rest, between = cell.groups()
            if rest[:1] == b'"' if quoted is None else rest and _BREAK.search(quoted):
                end = _BREAK.search(raw, at)
                cells, at = None, end.end() if end else len(raw)
            else:
                cells.append(
                    (rest or None) if quoted is None else quoted.replace(b'""', b'"') + rest
                )
                at = cell.end()
        row = raw[start:at]
        if row.strip(b"\r\n"):
            yield start, line, row, cells
        line += max(row.count(b"\n"), row.count(b"\r"))


def _table(raw: bytes, names: Sequence[str], delimiter: str) -> pa.Table:
    from pyarrow import csv

    read = csv.ReadOptions(block_size=min(len(raw) + 1, 2**31 - 1))  # a row is within a block
    parse = csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    convert = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    return csv.read_csv(io.BytesIO(raw), read, parse, convert)


def _refuse_other_separator(path: Path, names: Sequence[str], delimiter: str) -> None:
    """A file with one column, with a name that is several names."""
    known = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
    for other in known if len(names) == 1 else ():
        if len(parts := names[0].split(other)) > 1 and all(
            re.fullmatch(r"\s*[A-Za-z_]\w*\s*", part) for part in parts
        ):
            hint = "save it with commas as .csv, or with tabs as .tsv"
            what = f"its cells stand between {known[other]}, and those of a {path.suffix} between {known[delimiter]}"
            raise InputError(Problem(f"{path}: {what}", hint=hint))


_OWN = ("_step", "_error")  # what a run adds to the rows that it sets aside
STDIN, STDIN_ROWS = "-", "-.jsonl"
SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".ods", ".numbers")
PACKED = (".gz", ".zip", ".bz2", ".xz", ".zst", ".tar", ".tgz")


def standard_input() -> str:
    """All of standard input as text, without its last line breaks. Raises InputError."""
    raw = sys.stdin.buffer.read()
    wrong = not_utf8(raw, "FILE")
    if wrong is not None:
        raise InputError(Problem(f"standard input:{wrong.line}: {wrong.what}", hint=wrong.hint))
    text = raw.decode("utf-8-sig")
    if not text.strip():
        raise InputError(Problem("standard input: there is no text"))
    return text.rstrip("\n")


def rows_of(path: Path) -> Any:
    """The rows of a file, untyped: text where the format knows no types. `-.jsonl` is standard
    input, an object a line.
    """
    if str(path) == STDIN_ROWS:
        return list(_objects("standard input", iter(standard_input().split("\n"))))
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise InputError(_unreadable(path))
    return reading(path, reader)


def row_batches(path: Path, size: int = BATCH) -> Iterator[Any]:
    """The rows of `rows_of`, at most so many at a time: those of a file with an object on each line, or
    in Parquet, are read as they are asked for.
    """
    suffix = path.suffix.lower()
    if str(path) != STDIN_ROWS and suffix in _IN_BATCHES:
        with _read_errors(path):
            yield from _IN_BATCHES[suffix](path, size)
        return
    rows = rows_of(path)
    for start in range(0, max(1, len(rows)), size):
        yield rows[start : start + size]


def reading(path: Path, reader: Callable[[Path], R]) -> R:
    """The rows that a reader reads of a file. Raises InputError."""
    with _read_errors(path):
        return reader(path)


@contextmanager
def _read_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(Problem(f"{path}: {error.strerror or error}")) from None
    except UnicodeError:
        wrong = not_utf8(path.read_bytes(), str(path))
        assert wrong is not None
        raise InputError(Problem(f"{path}:{wrong.line}: {wrong.what}", hint=wrong.hint)) from None
    except Fault as fault:
        raise InputError(Problem(f"{path}: {fault.what}", hint=fault.hint)) from None
    except pa.ArrowInvalid as error:
        what = str(error).splitlines()[0] or type(error).__name__
        raise InputError(Problem(f"{path}: this is no Parquet file: {what}")) from None


def _unreadable(path: Path) -> Problem:
    """The problem of a file that no reader is for."""
    suffix = path.suffix.lower()
    if suffix in SPREADSHEETS:
        hint = "save the sheet as CSV (UTF-8), and name that file"
        return Problem(f"{path}: spreadsheets are not supported", hint=hint)
    if suffix in PACKED:
        return Problem(
            f"{path}: packed files are not supported", hint="unpack it, and name that file"
        )
    there = "endings: " + ", ".join(READERS)
    hint = f"a whole file as one text: -i NAME=- < {path}"
    return Problem(f'{path}: what "{path.suffix}" holds is not known', there=there, hint=hint)


def json_lines(path: Path) -> list[dict[str, Any]]:
    """The rows of a file with an object on each line. Raises InputError or OSError."""
    with path.open(encoding="utf-8-sig", errors="surrogateescape") as lines:
        return list(_objects(path, lines))


def _objects(path: Path | str, lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = _object(f"{path}:{number}", line, path)
        except InputError as error:
            if number == 1 and (line.strip() in "[{" or "\0" in line):  # another kind of file
                raise
            yield Unreadable(error.problems[0], line)
            continue
        if LINE in row and row.keys() <= {*_OWN, LINE}:  # the text of a row that was set aside
            yield Unreadable(Problem(str(row.get("_error") or "no columns")), str(row[LINE]))
        else:
            yield {name: value for name, value in row.items() if name not in _OWN}


def _object(place: str, line: str, path: Path | str) -> dict[str, Any]:
    """The object on a line. Raises InputError."""
    wrong = not_utf8(line.encode(errors="surrogateescape"), str(path))
    if wrong is not None:
        raise InputError(Problem(f"{place}: {wrong.what}", hint=wrong.hint))
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        hint = _OTHER_JSON if line.strip() in "[{" else _fix(error)
        what = f"{place}: this line is no JSON: {_json_fault(error)}"
        raise InputError(Problem(what, hint=hint or _OTHER_JSON)) from None
    if not isinstance(row, dict):
        hint = _OTHER_JSON if isinstance(row, list) else 'write {"column": "value"}'
        what = f"{place}: this line is no JSON object, but {_json_kind(row)}"
        raise InputError(Problem(what, hint=hint))
    return row


def json_list(path: Path) -> list[Mapping[str, Any]]:
    """The rows of a file with one list of objects. Raises InputError or OSError."""
    raw = path.read_bytes()
    try:
        rows = json.loads(raw.decode("utf-8-sig", "surrogateescape"))
    except (ValueError, RecursionError) as error:
        raw.decode("utf-8-sig")
        where = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        hint = _fix(error) or "a file with an object on each line ends in .jsonl"
        what = f"{path}{where}: this is no JSON: {_json_fault(error)}"
        raise InputError(Problem(what, hint=hint)) from None
    if not isinstance(rows, list):
        hint = 'write [{"column": "value"}, ...]; a file with an object on each line ends in .jsonl'
        what = f"{path}: this is no list of JSON objects, but {_json_kind(rows)}"
        raise InputError(Problem(what, hint=hint))
    for i, row in enumerate(rows):
        if not isinstance(row, dict):
            what = f"{path}: item {i + 1} of the list is no JSON object, but {_json_kind(row)}"
            problem = Problem(what, hint='write [{"column": "value"}, ...]')
            rows[i] = Unreadable(problem, json.dumps(row))
    return rows


_OTHER_JSON = "one object on each line; a file with a list of objects ends in .json"


def _json_kind(value: Any) -> str:
    """What a JSON value is, in words."""
    if isinstance(value, dict):
        return f"an object with {', '.join(value) or 'nothing'}"
    return f"a list of {len(value)}" if isinstance(value, list) else shown(value)


def _json_fault(error: Exception) -> str:
    """What is wrong with a JSON text, with the column."""
    if not isinstance(error, json.JSONDecodeError):
        return "nested too deeply" if isinstance(error, RecursionError) else str(error)
    what = error.msg[:1].lower() + error.msg[1:]
    return f"{what} at column {error.colno}"


def _fix(error: Exception) -> str | None:
    """What to do about the usual slips in JSON; None for others."""
    if not isinstance(error, json.JSONDecodeError):
        return None
    before, rest = error.doc[: error.pos].rstrip(), error.doc[error.pos :].lstrip()
    if rest.startswith("'"):
        return "texts and names in JSON have double quotes"
    comma = (before.endswith(",") and rest[:1] in {"}", "]", ""}) or re.match(
        r",\s*([}\]]|$)", rest
    )
    return "delete the comma behind the last value" if comma else None


def _json_line_batches(path: Path, size: int) -> Iterator[list[dict[str, Any]]]:
    with path.open(encoding="utf-8-sig", errors="surrogateescape") as lines:
        rows = _objects(path, lines)
        while batch := list(islice(rows, size)):
            yield batch


def parquet(path: Path) -> pa.Table:
    """The rows of a Parquet file. Raises InputError or OSError."""
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    names_of(table)
    return table


def _parquet_batches(path: Path, size: int) -> Iterator[pa.Table]:
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
    except UnicodeDecodeError:  # the name of a column
        parquet(path)
        raise
    with file:
        if not file.metadata.num_rows:
            yield file.schema_arrow.empty_table()
        for batch in file.iter_batches(size):
            yield pa.Table.from_batches([batch])


_IN_BATCHES: dict[str, Callable[[Path, int], Iterator[Any]]] = {
    ".jsonl": _json_line_batches,
    ".ndjson": _json_line_batches,
    ".parquet": _parquet_batches,
}
READERS: dict[str, Callable[[Path], Any]] = {
    ".jsonl": json_lines,
    ".ndjson": json_lines,
    ".json": json_list,
    ".csv": read_csv,
    ".tsv": lambda path: read_csv(path, "\t"),
    ".parquet": parquet,
}
