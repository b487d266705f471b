"""Files of rows, and the inputs that a command names: files, standard input, a text.

Formats without types are read as text. For the fluent API, where no plan declares types, the types
of a delimited file are inferred from its cells. An unreadable row becomes an `Unreadable` at its
index.
"""

from __future__ import annotations

import io
import json
import mmap
import re
import sys
import tempfile
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from semgraph.errors import Fault, InputError, PlanError, Problem, among, did_you_mean
from semgraph.expr.types import TIMESTAMP
from semgraph.formats import plural
from semgraph.frontend.document import is_file, not_utf8
from semgraph.frontend.rows import (
    LINE,
    Unreadable,
    check_rows,
    names_of,
    refuse_doubles,
    shown,
    with_set_aside,
)
from semgraph.logical.plan import ALL, InputSpec, LogicalPlan, Windowing

R = TypeVar("R")
BATCH = 20_000  # rows per batch
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_LINES = (".jsonl", ".ndjson")


def rows_of_path(path: Path, texts: Collection[str] = ()) -> Any:
    """The rows of a file, by its extension. Columns of `texts` stay text. Raises InputError."""
    if path.suffix.lower() in _DELIMITERS:
        return delimited_rows(path, None, texts)
    return rows_of(_existing(path))


def delimited_rows(path: Path, delimiter: str | None, texts: Collection[str] = ()) -> Any:
    """The rows of a file with a delimiter, typed except columns of `texts`. Raises InputError."""
    between = delimiter or _DELIMITERS.get(path.suffix.lower(), ",")
    if len(between) != 1:
        raise InputError(f"delimiter {between!r}: it is one character")
    rows, bad = reading(_existing(path), lambda file: _delimited(file, between))
    columns = [
        values if name in texts else typed(values)
        for name, values in zip(rows.column_names, rows.columns, strict=True)
    ]
    return _with_unreadable(pa.table(columns, names=rows.column_names), bad)


def json_rows(path: Path) -> Any:
    """The rows of a JSON file: an object on each line, or a list. Raises InputError."""
    return reading(_existing(path), json_lines if path.suffix.lower() in _LINES else json_list)


def parquet_rows(path: Path) -> pa.Table:
    """The rows of a Parquet file with any name. Raises InputError."""
    return reading(_existing(path), parquet)


def _existing(path: Path) -> Path:
    if path.is_dir():
        raise InputError(f"{path}: is a folder", hint="name a file")
    if not path.exists():
        there = f"the working directory is {Path.cwd()}"
        raise InputError(f"{path}: there is no such file", there=there)
    return path


_INTEGER = r"-?(0|[1-9]\d{0,18})"
_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?"
# The notations of cells, each with its type; the first notation that fits all cells of a column
# counts. `007` is text.
_WRITTEN: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    (rf"^{_INTEGER}$", lambda cells: cells.cast(pa.int64())),
    (rf"^{_INTEGER}(\.\d+)?([eE][+-]?\d+)?$", lambda cells: cells.cast(pa.float64())),
    (r"^(?i:true|false)$", lambda cells: pc.match_substring_regex(cells, "^(?i:true)$")),
    (r"^\d{4}-\d\d-\d\d$", lambda cells: cells.cast(pa.date32())),
    (rf"^{_TIME}(Z|[+-]\d\d:?\d\d)$", lambda cells: cells.cast(TIMESTAMP)),
    (rf"^{_TIME}$", lambda cells: pc.assume_timezone(cells.cast(pa.timestamp("us")), "UTC")),
)  # fmt: skip


def typed(cells: Any) -> Any:
    """A column of texts, converted to the first type that fits all its cells: integer, number,
    boolean (true and false), date, time (ISO 8601; without a zone: UTC). Any other column stays
    text.

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
    """The rows with all columns as text, because the plan declares types. An empty cell is NULL,
    `""` an empty text. A table, or a list of rows if some are unreadable. Raises InputError.
    """
    return _with_unreadable(*_delimited(path, delimiter))


def _with_unreadable(table: pa.Table, bad: Mapping[int, Unreadable]) -> Any:
    rows: Any = table.to_pylist() if bad else table
    for place in sorted(bad):
        rows.insert(place, bad[place])
    return rows


def _delimited(path: Path, delimiter: str) -> tuple[pa.Table, dict[int, Unreadable]]:
    """The rows of a file as a table, and the unreadable ones; Arrow reads simple ones, faster."""
    raw, between = path.read_bytes().removeprefix(BOM_UTF8), delimiter.encode()
    if not raw.strip(b"\r\n"):
        hint = "its first line names the columns; no rows at all: -i NAME=[]"
        raise InputError(f"{path}: the file is empty", hint=hint)
    records = _records(raw, between)
    _, line, _, header = next(records)
    if header is None:
        raise InputError(f"{path}:{line}: {_OPEN[0]}", hint=_OPEN[1])
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
# A possible cell that is closed in a later line and then continues. `D` is the delimiter.
_STRAY = rb'(?:\A|[D\r\n])"[^"\r\n]*+(?:""[^"\r\n]*+)*+[\r\n][^"]*+(?:""[^"]*+)*+"[^D"\r\n]'


def _pattern(pattern: bytes, delimiter: bytes) -> re.Pattern[bytes]:
    return re.compile(pattern.replace(b"D", re.escape(delimiter)))


def _records(
    raw: bytes, delimiter: bytes
) -> Iterator[tuple[int, int, bytes, list[bytes | None] | None]]:
    """The rows of a delimited file: the first byte, the number of the line, the text, and the cells.

    Text after a closing quote belongs to the cell, as in Arrow. If a quote is never closed, or is
    closed inside a cell of a later line, only its line is unreadable and has no cells.
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
                text = (rest or None) if quoted is None else quoted.replace(b'""', b'"') + rest
                cells.append(text)
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
    """Refuse a file with a single column whose name contains several names."""
    known = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
    for other in known if len(names) == 1 else ():
        if len(parts := names[0].split(other)) > 1 and all(
            re.fullmatch(r"\s*[A-Za-z_]\w*\s*", part) for part in parts
        ):
            hint = "save it with commas as .csv, or with tabs as .tsv"
            what = f"its cells stand between {known[other]}, and those of a {path.suffix} between {known[delimiter]}"
            raise InputError(f"{path}: {what}", hint=hint)


_OWN = ("_step", "_error")  # the columns that a run adds to rows that it sets aside
STDIN, STDIN_ROWS = "-", "-.jsonl"
SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".ods", ".numbers")
PACKED = (".gz", ".zip", ".bz2", ".xz", ".zst", ".tar", ".tgz")


def standard_input() -> str:
    """Standard input as text, without trailing line breaks. Raises InputError."""
    raw = sys.stdin.buffer.read()
    wrong = not_utf8(raw, "FILE")
    if wrong is not None:
        raise InputError(f"standard input:{wrong.line}: {wrong.what}", hint=wrong.hint)
    text = raw.decode("utf-8-sig")
    if not text.strip():
        raise InputError("standard input: there is no text")
    return text.rstrip("\n")


def rows_of(path: Path, name: str = "") -> Any:
    """The untyped rows of a file: text if the format has no types. `-.jsonl` is standard input, one
    object per line. Of a JSON file with several inputs, the rows of the input `name`.
    """
    if str(path) == STDIN_ROWS:
        return list(_objects("standard input", iter(standard_input().split("\n"))))
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise InputError(_unreadable(path))
    if reader is json_list:
        return reading(path, partial(json_list, name=name))
    return reading(path, reader)


def row_batches(path: Path, size: int = BATCH, name: str = "") -> Iterator[Any]:
    """The rows of `rows_of`, at most `size` at a time; lines and Parquet are read lazily."""
    suffix = path.suffix.lower()
    if str(path) != STDIN_ROWS and suffix in _IN_BATCHES:
        with _read_errors(path):
            yield from _IN_BATCHES[suffix](path, size)
        return
    rows = rows_of(path, name)
    for start in range(0, max(1, len(rows)), size):
        yield rows[start : start + size]


def reading(path: Path, reader: Callable[[Path], R]) -> R:
    """The rows that `reader` reads from a file. Raises InputError."""
    with _read_errors(path):
        return reader(path)


@contextmanager
def _read_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except UnicodeError:
        wrong = not_utf8(path.read_bytes(), str(path))
        assert wrong is not None
        raise InputError(f"{path}:{wrong.line}: {wrong.what}", hint=wrong.hint) from None
    except Fault as fault:
        raise InputError(f"{path}: {fault.what}", hint=fault.hint) from None
    except pa.ArrowInvalid as error:
        what = str(error).splitlines()[0] or type(error).__name__
        raise InputError(f"{path}: this is no Parquet file: {what}") from None


def _unreadable(path: Path) -> Problem:
    suffix = path.suffix.lower()
    if suffix in SPREADSHEETS:
        hint = "save the sheet as CSV (UTF-8), and name that file"
        return Problem(f"{path}: spreadsheets are not supported", hint=hint)
    if suffix in PACKED:
        hint = "unpack it, and name that file"
        return Problem(f"{path}: packed files are not supported", hint=hint)
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
        if LINE in row and row.keys() <= {*_OWN, LINE}:  # the text of an earlier set-aside row
            yield Unreadable(Problem(str(row.get("_error") or "no columns")), str(row[LINE]))
        else:
            yield {name: value for name, value in row.items() if name not in _OWN}


def _object(place: str, line: str, path: Path | str) -> dict[str, Any]:
    wrong = not_utf8(line.encode(errors="surrogateescape"), str(path))
    if wrong is not None:
        raise InputError(f"{place}: {wrong.what}", hint=wrong.hint)
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        hint = _OTHER_JSON if line.strip() in "[{" else _fix(error)
        what = f"{place}: this line is no JSON: {_json_fault(error)}"
        raise InputError(what, hint=hint or _OTHER_JSON) from None
    if not isinstance(row, dict):
        hint = _OTHER_JSON if isinstance(row, list) else 'write {"column": "value"}'
        what = f"{place}: this line is no JSON object, but {_json_kind(row)}"
        raise InputError(what, hint=hint)
    return row


def _json(path: Path) -> Any:
    raw = path.read_bytes()
    try:
        return json.loads(raw.decode("utf-8-sig", "surrogateescape"))
    except (ValueError, RecursionError) as error:
        raw.decode("utf-8-sig")
        where = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        hint = _fix(error) or "a file with an object on each line ends in .jsonl"
        what = f"{path}{where}: this is no JSON: {_json_fault(error)}"
        raise InputError(what, hint=hint) from None


def json_list(path: Path, name: str = "") -> list[Mapping[str, Any]]:
    """The rows of a list of objects, or of such a list as `name`. Raises InputError or OSError."""
    rows = _json(path)
    if isinstance(rows, dict) and isinstance(rows.get(name), list):
        rows = rows[name]
    if not isinstance(rows, list):
        hint = 'write [{"column": "value"}, ...]; a file with an object on each line ends in .jsonl'
        what = f"{path}: this is no list of JSON objects, but {_json_kind(rows)}"
        raise InputError(what, hint=hint)
    for i, row in enumerate(rows):
        if not isinstance(row, dict):
            what = f"{path}: item {i + 1} of the list is no JSON object, but {_json_kind(row)}"
            problem = Problem(what, hint='write [{"column": "value"}, ...]')
            rows[i] = Unreadable(problem, json.dumps(row))
    return rows


_OTHER_JSON = "one object on each line; a file with a list of objects ends in .json"


def _json_kind(value: Any) -> str:
    if isinstance(value, dict):
        return f"an object with {', '.join(value) or 'nothing'}"
    return f"a list of {len(value)}" if isinstance(value, list) else shown(value)


def _json_fault(error: Exception) -> str:
    if not isinstance(error, json.JSONDecodeError):
        return "nested too deeply" if isinstance(error, RecursionError) else str(error)
    what = error.msg[:1].lower() + error.msg[1:]
    return f"{what} at column {error.colno}"


def _fix(error: Exception) -> str | None:
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


_RENAMES = re.compile(r"[A-Za-z_]\w*=[^=,]+(,[A-Za-z_]\w*=[^=,]+)*")
_NO_ROWS = "[]"


@dataclass(frozen=True)
class LoadedInput:
    """The rows of an input, or `all` for all partitions of the store, and their source's name."""

    name: str
    rows: pa.Table | str
    source: str


def read_inputs(options: Sequence[str], plan: LogicalPlan) -> dict[str, LoadedInput]:
    """The inputs of options `NAME=FILE`, `NAME=-`, `NAME=-.jsonl`, `NAME=[]`, `NAME=all`,
    `NAME=text` or `FILE.json` with an object of several inputs, by name. Raises PlanError for an
    option that names no input, or one twice; InputError with file, row and column.
    """
    inputs_read: dict[str, LoadedInput] = {}
    for name, value in (_split(each, plan) for option in options for each in _each(option)):
        if name in inputs_read:
            raise PlanError(f"-i {name}= is given twice", hint="put the rows into one file")
        inputs_read[name] = _read(plan, plan.inputs[name], value)
    return inputs_read


def _each(option: str) -> list[str]:
    """An option, or that of each input in a JSON file with several."""
    path = Path(option)
    if path.suffix.lower() != ".json" or not is_file(path):
        return [option]
    document = reading(path, _json)
    return [f"{name}={option}" for name in document] if isinstance(document, dict) else [option]


def _split(option: str, plan: LogicalPlan) -> tuple[str, str]:
    name, equals, value = option.partition("=")
    known = ", ".join(plan.inputs) or "none"
    if not equals or not name.isidentifier():
        write = f"Write -i {next(iter(plan.inputs), 'NAME')}=FILE"
        there = f"inputs of {plan.name}: {known}"
        raise PlanError(f'-i "{option}" names no input', there=there, hint=write)
    if name not in plan.inputs:
        near = did_you_mean(name, plan.inputs)
        raise PlanError(f'{plan.name} has no input "{name}"', there=f"inputs: {known}", hint=near)
    return name, value


def _read(plan: LogicalPlan, spec: InputSpec, value: str) -> LoadedInput:
    if spec.or_all and value == ALL:
        return LoadedInput(spec.name, ALL, "the store")
    cut = plan.windows if plan.windows and plan.windows.input == spec.name else None
    files = _matching(value)
    sources = [_source(spec, file, cut) for file in files or (value,)]
    name = f"{value} ({len(files)} files)" if files else sources[0].name
    return _loaded(spec, sources, name, cut)


def rows_given(spec: InputSpec, value: Any, cut: Windowing | None) -> Any:
    """The rows that a value of Python stands for: a path is read as a file, a text or a list of texts
    are rows of the input's text column. Other values are unchanged. Raises InputError.
    """
    if isinstance(value, Path):
        return _loaded(spec, [_source(spec, str(_existing(value)), cut)], str(value), cut)
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, (list, tuple)) or {*map(type, texts)} != {str}:
        return value
    hint = f"a file: {spec.name}=Path({texts[0][:60]!r}); rows: {spec.name}=[{{...}}]"
    return _loaded(spec, [_texts(spec, texts, "the text", cut, hint)], "the text", cut)


def _loaded(
    spec: InputSpec, sources: Sequence[_RowSource], name: str, cut: Windowing | None
) -> LoadedInput:
    partition, key = (cut.partition, cut.key) if cut else ("", "")
    bad: list[tuple[str, dict[str, Any]]] = []
    tables = (table for source in sources for table in source.tables(spec, partition, key, bad))
    table = with_set_aside(joined(spec.schema, tables), bad)
    if key:
        refuse_doubles(spec, table, key, name)
    return LoadedInput(spec.name, table, name)


@dataclass(frozen=True)
class _RowSource:
    """A source of rows."""

    name: str  # in messages
    batches: Callable[[], Iterable[Any]]  # untyped rows; each call starts from the beginning
    renames: Mapping[str, str] = field(default_factory=dict)  # columns, with those of the source
    written: str = ""  # in the command

    def tables(
        self, spec: InputSpec, partition: str, key: str, bad: list[tuple[str, dict[str, Any]]]
    ) -> Iterator[pa.Table]:
        """The rows in batches, with the declared columns; `bad` gets others. Raises InputError."""
        if self.renames:
            names = list(dict.fromkeys(name for rows in self.batches() for name in _names(rows)))
            _refuse_renames(self.renames, names, spec, self.written)
        first = 0
        for rows in self.batches():
            table = check_rows(
                spec, _renamed(rows, self.renames), partition=partition, key=key,
                source=self.name, first=first, bad=bad,
            )  # fmt: skip
            first += len(rows)
            yield table


def _source(spec: InputSpec, value: str, cut: Windowing | None) -> _RowSource:
    path, renames = _file(spec, value)
    if value == _NO_ROWS:
        return _RowSource("no rows", lambda: [[]])
    if path is None:
        return _text_source(spec, value, cut)
    if str(path) == STDIN_ROWS:
        rows = rows_of(path)
        return _RowSource("standard input", lambda: [rows], renames, value)
    return _RowSource(str(path), partial(row_batches, path, name=spec.name), renames, value)


def _text_source(spec: InputSpec, value: str, cut: Windowing | None) -> _RowSource:
    """The source of one row: a text, or standard input as one text."""
    hint = f"give a file: -i {spec.name}=FILE.jsonl"
    text, name = (standard_input(), "standard input") if value == STDIN else (value, "the text")
    if value == STDIN:
        _refuse_rows(text, spec, _text_column(spec, cut, hint))
    return _texts(spec, [text], name, cut, hint)


def _texts(
    spec: InputSpec, texts: Sequence[str], name: str, cut: Windowing | None, hint: str
) -> _RowSource:
    """The source of a row for each text. Raises InputError with a hint if no column takes them."""
    column = _text_column(spec, cut, hint)
    by, at = cut.order if cut else (), datetime.now(UTC)
    times = ((name, kind.nullable) for name, kind in spec.columns if kind.name == "timestamp")
    now = {name: at for name, nullable in times if not nullable or name in by}
    name += "".join(f", {time} {at:%Y-%m-%d %H:%M} UTC" for time, at in now.items())
    return _RowSource(name, lambda: [[{column: text, **now} for text in texts]])


def _matching(value: str) -> list[str]:
    """The files of a pattern, each with the renames; [] if it is none. Raises InputError."""
    pattern, colon, rest = value.partition(":")
    path = Path(pattern)
    if path.suffix.lower() not in READERS or not re.search(r"[*?\[]", pattern):
        return []
    if re.search(r"\s", value) or _is_file(path):  # a text, or a file of that name
        return []
    files = sorted(file for file in Path(path.anchor).glob(str(path.relative_to(path.anchor))))
    if not files:
        raise InputError(f"{pattern}: no file has such a name")
    return [f"{file}{colon}{rest}" for file in files]


def _file(spec: InputSpec, value: str) -> tuple[Path | None, dict[str, str]]:
    """The file that a value names, with its renames; None for standard input and for text."""
    if value == STDIN:
        return None, {}
    for at in (len(value), *(m.start() for m in reversed(list(re.finditer(":", value))))):
        path, rest = Path(value[:at]), value[at + 1 :]
        if _is_file(path) and (not rest or _RENAMES.fullmatch(rest)):
            return path, dict(pair.split("=", 1) for pair in rest.split(",")) if rest else {}
    base, colon, rest = value.partition(":")
    if colon and _is_file(Path(base)):
        write = f"Write -i {spec.name}={base}:COLUMN=SOURCE,COLUMN=SOURCE"
        raise InputError(f'{base}: cannot read the renames "{rest}"', hint=write)
    if value and Path(base).is_dir():
        write = f"name files in it: -i {spec.name}='{base.rstrip('/')}/*.jsonl'"
        raise InputError(f"{base}: is a folder", hint=write)
    suffix = Path(base).suffix
    names_file = suffix.lower() in (*READERS, *SPREADSHEETS, *PACKED) or "/" in base or not value
    if names_file and not re.search(r"\s", value):
        text = not colon and not suffix
        hint = "a text without blanks can be piped in: -i NAME=-" if text else None
        raise InputError(f"{base or f'-i {spec.name}='}: there is no such file", hint=hint)
    return None, {}


def _is_file(path: Path) -> bool:
    return str(path) == STDIN_ROWS or is_file(path)


def _text_column(spec: InputSpec, cut: Windowing | None, hint: str) -> str:
    """The column for a bare text: the only required column of type string. If a windowed input has
    no required one, it is the first string column.

    A text cannot fill the columns with the row's key and partition.
    """
    naming = (cut.key, cut.partition) if cut else ()
    texts = [(n, kind) for n, kind in spec.columns if kind.name == "string" and n not in naming]
    needed = [n for n, kind in texts if not kind.nullable]
    if not needed and naming:
        needed = [n for n, _ in texts[:1]]
    if len(needed) == 1:
        return needed[0]
    required = ", ".join(n for n, kind in spec.columns if not kind.nullable)
    there = f"columns that must be there: {required or 'none'}"
    what = "has no text column that has to be there" if not needed else "has several text columns"
    raise InputError(f"input {spec.name} {what}, so a bare text may be any", there=there, hint=hint)


def _refuse_rows(text: str, spec: InputSpec, column: str) -> None:
    """Refuse rows that would be read as one text: JSON objects, or one with the text's column."""
    lines = [line for line in text.split("\n") if line.strip()]
    try:
        rows = [json.loads(line) for line in lines]
    except (ValueError, RecursionError):
        return
    if all(isinstance(row, dict) for row in rows) and (len(rows) > 1 or column in rows[0]):
        what = "standard input holds JSON objects, one a line, which would be read as one text"
        there = f"the text of {spec.name} is its column {column}"
        raise InputError(what, there=there, hint=f"as rows: -i {spec.name}={STDIN_ROWS}")


def _names(rows: Any) -> list[str]:
    if isinstance(rows, pa.Table):
        return names_of(rows)
    return list(dict.fromkeys(name for row in rows for name in row))


def _refuse_renames(
    renames: Mapping[str, str], names: Sequence[str], spec: InputSpec, value: str
) -> None:
    """Refuse renames of columns that a file lacks, or to undeclared columns. Raises InputError."""
    declared = [name for name, _ in spec.columns]
    problems = [
        Problem(f'{value}: input {spec.name} has no column "{column}"', **among(column, declared, "it has"))
        for column in renames if column not in declared
    ] + [
        Problem(f'{value}: the file has no column "{source}"', **among(source, names, "it has"))
        for source in renames.values() if source not in names
    ]  # fmt: skip
    if problems and names:
        raise InputError(*problems)


def _renamed(rows: Any, renames: Mapping[str, str]) -> Any:
    """Rows with renamed columns; a column that already had the new name is dropped."""
    if not renames:
        return rows
    gone = {*renames, *renames.values()}
    if isinstance(rows, pa.Table):
        names = names_of(rows)
        if len(set(names)) < len(names):  # the later check refuses it
            return rows
        kept = {name: rows[name] for name in names if name not in gone}
        return pa.table({**kept, **{name: rows[source] for name, source in renames.items()}})

    def renamed(row: Mapping[str, Any]) -> Mapping[str, Any]:
        kept = {name: value for name, value in row.items() if name not in gone}
        return kept | {name: row.get(source) for name, source in renames.items()}

    return [row if isinstance(row, Unreadable) else renamed(row) for row in rows]


IN_MEMORY = 64 * 2**20  # the maximum bytes of a table in memory; a larger table is in a file


def joined(schema: pa.Schema, batches: Iterable[pa.Table], most: int = IN_MEMORY) -> pa.Table:
    """Batches of rows as one table.

    Above `most` bytes they are written to a temporary file, from which the table reads: the system
    caches the file as long as memory is free. The file has no name, so that it disappears with the
    table, and with the process, even after a crash. Raises InputError if it cannot be written.
    """
    kept, size = list[pa.Table](), 0
    remaining = iter(batches)
    for batch in remaining:
        kept.append(batch)
        size += batch.nbytes
        if size > most:
            return _mapped(schema, kept, remaining)
    return pa.concat_tables(kept) if kept else schema.empty_table()


def _mapped(schema: pa.Schema, first: list[pa.Table], others: Iterable[pa.Table]) -> pa.Table:
    try:
        with tempfile.TemporaryFile(prefix="semgraph-") as file:
            sink = pa.PythonFile(file, mode="w")  # its stubs lack IO
            with pa.ipc.new_file(sink, schema) as writer:
                while first:
                    writer.write_table(first.pop(0))
                for batch in others:
                    writer.write_table(batch)
            file.flush()
            read = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        folder = tempfile.gettempdir()
        what = f"{folder}: rows that memory should not hold cannot be written there: {error.strerror or error}"
        raise InputError(what, hint="name another folder in TMPDIR") from None
    return pa.ipc.open_file(pa.py_buffer(read)).read_all()
