"""What follows `-i`: a file of rows, standard input, or a text; read as rows that `frontend.rows` then types."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from semgraph.errors import Fault, InputError, PlanError, Problem, did_you_mean
from semgraph.frontend.csv_rows import plainly, read_csv
from semgraph.frontend.rows import check_rows, names_of
from semgraph.logical.plan import InputSpec, LogicalPlan

_RENAMES = re.compile(r"[A-Za-z_]\w*=[^=,]+(,[A-Za-z_]\w*=[^=,]+)*")
_OWN = ("_step", "_error")  # what a run adds to the rows that it sets aside
STDIN, STDIN_ROWS = "-", "-.jsonl"
_NO_ROWS = "[]"


@dataclass(frozen=True)
class Given:
    """An input as given: its rows as the plan declares them, and what to call where they came from."""

    name: str
    rows: pa.Table
    source: str


def read_inputs(options: Sequence[str], plan: LogicalPlan) -> dict[str, Given]:
    """Every `NAME=FILE`, `NAME=-`, `NAME=-.jsonl`, `NAME=[]` or `NAME=text`, by input.

    Raises:
        PlanError: An option names no input of the plan, or none at all, or one twice.
        InputError: A file cannot be read, or its rows do not fit; with file, row and column.
    """
    found: dict[str, Given] = {}
    for option in options:
        name, value = _split(option, plan)
        if name in found:
            raise PlanError(Problem(f"-i {name}= is given twice", hint="put the rows into one file"))
        found[name] = _read(plan, plan.inputs[name], value)
    return found


def _split(option: str, plan: LogicalPlan) -> tuple[str, str]:
    name, equals, value = option.partition("=")
    known = ", ".join(plan.inputs) or "none"
    if not equals or not name.isidentifier():
        write = f"Write -i {next(iter(plan.inputs), 'NAME')}=FILE"
        raise PlanError(Problem(f'-i "{option}" names no input', there=f"inputs of {plan.name}: {known}", hint=write))
    if name not in plan.inputs:
        near = did_you_mean(name, plan.inputs)
        raise PlanError(Problem(f'{plan.name} has no input "{name}"', there=f"inputs: {known}", hint=near))
    return name, value


def _read(plan: LogicalPlan, spec: InputSpec, value: str) -> Given:
    cut = plan.order if plan.order and plan.order.input == spec.name else None
    path, renames = _file(spec, value)
    if value == _NO_ROWS:
        rows, source = [], "no rows"
    elif path is not None:
        source = "standard input" if str(path) == STDIN_ROWS else str(path)
        rows = _renamed(rows_of(path), renames, spec, value)
    else:
        column, now = (
            _text_column(spec, (cut.key, cut.partition) if cut else ()),
            _times_of_reading(spec, cut.by if cut else ()),
        )
        text, source = (_stdin(), "standard input") if value == STDIN else (value, "the text")
        if value == STDIN:
            _refuse_rows(text, spec, column)
        rows = [{column: text, **now}]
        source += "".join(f", {name} {at:%Y-%m-%d %H:%M} UTC" for name, at in now.items())
    partition, key = (cut.partition, cut.key) if cut else ("", "")
    return Given(spec.name, check_rows(spec, rows, partition=partition, key=key, source=source), source)


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
        raise InputError(Problem(f'{base}: cannot read the renames "{rest}"', hint=write))
    if not re.search(r"\s", value) and (Path(base).suffix.lower() in _READERS or "/" in base or not value):
        what = "is a folder" if value and Path(base).is_dir() else "there is no such file"
        hint = "a text without blanks can be piped in: -i NAME=-" if not colon and Path(base).suffix == "" else None
        raise InputError(Problem(f"{base or '-i ' + spec.name + '='}: {what}", hint=hint))
    return None, {}


def _is_file(path: Path) -> bool:
    try:
        return str(path) == STDIN_ROWS or path.is_file()
    except (OSError, ValueError):  # longer than a name can be, or with a NUL: a text
        return False


def _text_column(spec: InputSpec, naming: Sequence[str]) -> str:
    """The one column that a bare text can be: of type string, and it has to be there; where none has, the first one.

    `naming` are those that say which row it is, and whose: a text is neither.
    """
    texts = [(n, kind) for n, kind in spec.columns if kind.name == "string" and n not in naming]
    needed = [n for n, kind in texts if not kind.nullable] or ([texts[0][0]] if texts and naming else [])
    if len(needed) == 1:
        return needed[0]
    there = f"columns that must be there: {', '.join(n for n, k in spec.columns if not k.nullable) or 'none'}"
    hint = f"give a file: -i {spec.name}=FILE.jsonl"
    what = "has no text column that has to be there" if not needed else "has several text columns"
    raise InputError(Problem(f"input {spec.name} {what}, so a bare text may be any", there=there, hint=hint))


def _times_of_reading(spec: InputSpec, by: Sequence[str]) -> dict[str, datetime]:
    """A bare text has no time of its own: where one has to be there, or rows are ordered by it, it is that of reading it."""
    now = datetime.now(UTC)
    times = [(name, kind.nullable) for name, kind in spec.columns if kind.name == "timestamp"]
    return {name: now for name, nullable in times if not nullable or name in by}


def _stdin() -> str:
    try:
        text = sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(Problem(f"standard input: byte {error.start} is not UTF-8", hint="convert it first")) from None
    if not text.strip():
        raise InputError(Problem("standard input: there is no text"))
    return text.rstrip("\n")


def _refuse_rows(text: str, spec: InputSpec, column: str) -> None:
    """Refuse rows that would be taken for one text: a JSON object on each of several lines, or one that names its column."""
    lines = [line for line in text.split("\n") if line.strip()]
    try:
        rows = [json.loads(line) for line in lines]
    except (ValueError, RecursionError):
        return
    if all(isinstance(row, dict) for row in rows) and (len(rows) > 1 or column in rows[0]):
        what = "standard input holds JSON objects, one a line, which would be read as one text"
        there = f"the text of {spec.name} is its column {column}"
        raise InputError(Problem(what, there=there, hint=f"as rows: -i {spec.name}={STDIN_ROWS}"))


def rows_of(path: Path) -> Any:
    """The rows of a file, untyped: text where the format knows no types. `-.jsonl` is standard input, an object a line."""
    if str(path) == STDIN_ROWS:
        return list(_objects("standard input", iter(_stdin().split("\n"))))
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        there = "endings: " + ", ".join(_READERS)
        hint = f"a whole file as one text: -i NAME=- < {path}"
        raise InputError(Problem(f'{path}: what "{path.suffix}" holds is not known', there=there, hint=hint))
    try:
        return reader(path)
    except OSError as error:
        raise InputError(Problem(f"{path}: {error.strerror or error}")) from None
    except UnicodeDecodeError as error:
        raise InputError(Problem(f"{path}: byte {error.start} is not UTF-8", hint="convert the file first")) from None


def _json_lines(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8-sig") as lines:
        return list(_objects(path, lines))


def _objects(path: Path | str, lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            what = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply"
            hint = "one object on each line; a file with a list of objects ends in .json"
            raise InputError(Problem(f"{path}:{number}: this line is no JSON: {what}", hint=hint)) from None
        if not isinstance(row, dict):
            raise InputError(Problem(f"{path}:{number}: this line is no JSON object", hint='{"column": "value"}'))
        yield {name: value for name, value in row.items() if name not in _OWN}


def _json_list(path: Path) -> list[Mapping[str, Any]]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        if isinstance(error, UnicodeDecodeError):
            raise
        where = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        what = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply"
        hint = "a file with an object on each line ends in .jsonl"
        raise InputError(Problem(f"{path}{where}: this is no JSON: {what}", hint=hint)) from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(Problem(f"{path}: this is no list of JSON objects", hint='[{"column": "value"}]'))
    return rows


def _parquet(path: Path) -> pa.Table:
    import pyarrow.parquet as pq

    try:
        found = pq.read_table(path)
        names_of(found)
    except Fault as fault:
        raise InputError(Problem(f"{path}: {fault.what}", hint=fault.hint)) from None
    except pa.ArrowInvalid as error:
        raise InputError(Problem(f"{path}: this is no Parquet file: {plainly(error)}")) from None
    return found


_READERS: dict[str, Callable[[Path], Any]] = {
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".json": _json_list,
    ".csv": read_csv,
    ".tsv": lambda path: read_csv(path, "\t"),
    ".parquet": _parquet,
}


def _renamed(rows: Any, renames: Mapping[str, str], spec: InputSpec, value: str) -> Any:
    """Rows whose columns are called as `column=source` says; a column that had the name already gives way."""
    if not renames or (isinstance(rows, list) and not rows):
        return rows
    names = rows.column_names if isinstance(rows, pa.Table) else list(dict.fromkeys(n for row in rows for n in row))
    if len(set(names)) < len(names):
        return rows
    declared = [name for name, _ in spec.columns]
    problems = [
        Problem(f'{value}: input {spec.name} has no column "{column}"', there="it has: " + ", ".join(declared),
                hint=did_you_mean(column, declared))
        for column in renames if column not in declared
    ] + [
        Problem(f'{value}: the file has no column "{source}"', there="it has: " + ", ".join(names),
                hint=did_you_mean(source, names))
        for source in renames.values() if source not in names
    ]  # fmt: skip
    if problems:
        raise InputError(*problems)
    if isinstance(rows, pa.Table):
        kept = [name for name in names if name not in renames and name not in renames.values()]
        return pa.table({**{n: rows[n] for n in kept}, **{c: rows[s] for c, s in renames.items()}})
    gone = {*renames, *renames.values()}
    return [
        {**{n: v for n, v in row.items() if n not in gone}, **{c: row.get(s) for c, s in renames.items()}}
        for row in rows
    ]
