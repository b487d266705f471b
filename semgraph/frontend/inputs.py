"""The inputs of a plan as a command names them: files, standard input, a text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from semgraph.errors import InputError, PlanError, Problem, did_you_mean
from semgraph.frontend.document import is_file
from semgraph.frontend.mapped import joined
from semgraph.frontend.row_files import (
    PACKED,
    READERS,
    SPREADSHEETS,
    STDIN,
    STDIN_ROWS,
    row_batches,
    rows_of,
    standard_input,
)
from semgraph.frontend.rows import Unreadable, check_rows, names_of, refuse_doubles, with_set_aside
from semgraph.logical.plan import ALL, InputSpec, LogicalPlan, Windowing

_RENAMES = re.compile(r"[A-Za-z_]\w*=[^=,]+(,[A-Za-z_]\w*=[^=,]+)*")
_NO_ROWS = "[]"


@dataclass(frozen=True)
class LoadedInput:
    """The rows of an input, with the declared columns, or `all` for all partitions of the store, and
    the name of their source.
    """

    name: str
    rows: pa.Table | str
    source: str


def read_inputs(options: Sequence[str], plan: LogicalPlan) -> dict[str, LoadedInput]:
    """Every `NAME=FILE`, `NAME=-`, `NAME=-.jsonl`, `NAME=[]`, `NAME=all` or `NAME=text`, by input.

    Raises:
        PlanError: An option names no input of the plan, or none at all, or one twice.
        InputError: A file cannot be read, or its rows do not fit; with file, row and column.
    """
    inputs_read: dict[str, LoadedInput] = {}
    for option in options:
        name, value = _split(option, plan)
        if name in inputs_read:
            raise PlanError(
                Problem(f"-i {name}= is given twice", hint="put the rows into one file")
            )
        inputs_read[name] = _read(plan, plan.inputs[name], value)
    return inputs_read


def _split(option: str, plan: LogicalPlan) -> tuple[str, str]:
    name, equals, value = option.partition("=")
    known = ", ".join(plan.inputs) or "none"
    if not equals or not name.isidentifier():
        write = f"Write -i {next(iter(plan.inputs), 'NAME')}=FILE"
        raise PlanError(
            Problem(
                f'-i "{option}" names no input', there=f"inputs of {plan.name}: {known}", hint=write
            )
        )
    if name not in plan.inputs:
        near = did_you_mean(name, plan.inputs)
        raise PlanError(
            Problem(f'{plan.name} has no input "{name}"', there=f"inputs: {known}", hint=near)
        )
    return name, value


def _read(plan: LogicalPlan, spec: InputSpec, value: str) -> LoadedInput:
    if spec.or_all and value == ALL:
        return LoadedInput(spec.name, ALL, "the store")
    cut = plan.windows if plan.windows and plan.windows.input == spec.name else None
    partition, key = (cut.partition, cut.key) if cut else ("", "")
    files = _matching(value)
    sources = [_source(spec, file, cut) for file in files or (value,)]
    name = f"{value} ({len(files)} files)" if files else sources[0].name
    bad: list[tuple[str, dict[str, Any]]] = []
    tables = (table for source in sources for table in source.tables(spec, partition, key, bad))
    table = with_set_aside(joined(spec.schema, tables), bad)
    if key:
        refuse_doubles(spec, table, key, name)
    return LoadedInput(spec.name, table, name)


@dataclass(frozen=True)
class _RowSource:
    """Where rows are read from.

    Args:
        name: What messages call it.
        batches: Gives the rows, untyped, some at a time, as often as it is called.
        renames: The columns that have another name there, with that name.
        written: As the command names it.
    """

    name: str
    batches: Callable[[], Iterable[Any]]
    renames: Mapping[str, str] = field(default_factory=dict)
    written: str = ""

    def tables(
        self, spec: InputSpec, partition: str, key: str, bad: list[tuple[str, dict[str, Any]]]
    ) -> Iterator[pa.Table]:
        """The rows, some at a time, with the declared columns and types; those that cannot be read go
        to `bad`. Raises InputError.
        """
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
    return _RowSource(str(path), partial(row_batches, path), renames, value)


def _text_source(spec: InputSpec, value: str, cut: Windowing | None) -> _RowSource:
    """A text, or standard input as one text: a row."""
    column = _text_column(spec, (cut.key, cut.partition) if cut else ())
    now = _times_of_reading(spec, cut.order if cut else ())
    text, name = (standard_input(), "standard input") if value == STDIN else (value, "the text")
    if value == STDIN:
        _refuse_rows(text, spec, column)
    name += "".join(f", {time} {at:%Y-%m-%d %H:%M} UTC" for time, at in now.items())
    return _RowSource(name, lambda: [[{column: text, **now}]])


def _matching(value: str) -> list[str]:
    """The files of a pattern (`chats/*.parquet`) in the order of their names, each with the renames;
    none if it is no pattern. Raises InputError if there are none.
    """
    pattern, colon, rest = value.partition(":")
    path = Path(pattern)
    if path.suffix.lower() not in READERS or not re.search(r"[*?\[]", pattern):
        return []
    if re.search(r"\s", value) or _is_file(path):  # a text, or a file of that name
        return []
    files = sorted(file for file in Path(path.anchor).glob(str(path.relative_to(path.anchor))))
    if not files:
        raise InputError(Problem(f"{pattern}: no file has such a name"))
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
        raise InputError(Problem(f'{base}: cannot read the renames "{rest}"', hint=write))
    if value and Path(base).is_dir():
        write = f"name files in it: -i {spec.name}='{base.rstrip('/')}/*.jsonl'"
        raise InputError(Problem(f"{base}: is a folder", hint=write))
    if not re.search(r"\s", value) and (
        Path(base).suffix.lower() in (*READERS, *SPREADSHEETS, *PACKED) or "/" in base or not value
    ):
        what = "there is no such file"
        hint = (
            "a text without blanks can be piped in: -i NAME=-"
            if not colon and Path(base).suffix == ""
            else None
        )
        raise InputError(Problem(f"{base or '-i ' + spec.name + '='}: {what}", hint=hint))
    return None, {}


def _is_file(path: Path) -> bool:
    return str(path) == STDIN_ROWS or is_file(path)


def _text_column(spec: InputSpec, naming: Sequence[str]) -> str:
    """The one column that a bare text can be: of type string, and it has to be there; where none
    has, the first one.

    `naming` are those that name the row and its partition: a text does neither.
    """
    texts = [(n, kind) for n, kind in spec.columns if kind.name == "string" and n not in naming]
    needed = [n for n, kind in texts if not kind.nullable] or (
        [texts[0][0]] if texts and naming else []
    )
    if len(needed) == 1:
        return needed[0]
    there = f"columns that must be there: {', '.join(n for n, k in spec.columns if not k.nullable) or 'none'}"
    hint = f"give a file: -i {spec.name}=FILE.jsonl"
    what = "has no text column that has to be there" if not needed else "has several text columns"
    raise InputError(
        Problem(f"input {spec.name} {what}, so a bare text may be any", there=there, hint=hint)
    )


def _times_of_reading(spec: InputSpec, by: Sequence[str]) -> dict[str, datetime]:
    """A bare text has no time of its own: where one has to be there, or rows are ordered by it, it
    is that of reading it.
    """
    now = datetime.now(UTC)
    times = [(name, kind.nullable) for name, kind in spec.columns if kind.name == "timestamp"]
    return {name: now for name, nullable in times if not nullable or name in by}


def _refuse_rows(text: str, spec: InputSpec, column: str) -> None:
    """Refuse rows that would be taken for one text: a JSON object on each of several lines, or one
    that names its column.
    """
    lines = [line for line in text.split("\n") if line.strip()]
    try:
        rows = [json.loads(line) for line in lines]
    except (ValueError, RecursionError):
        return
    if all(isinstance(row, dict) for row in rows) and (len(rows) > 1 or column in rows[0]):
        what = "standard input holds JSON objects, one a line, which would be read as one text"
        there = f"the text of {spec.name} is its column {column}"
        raise InputError(Problem(what, there=there, hint=f"as rows: -i {spec.name}={STDIN_ROWS}"))


def _names(rows: Any) -> list[str]:
    if isinstance(rows, pa.Table):
        return names_of(rows)
    return list(dict.fromkeys(name for row in rows for name in row))


def _refuse_renames(
    renames: Mapping[str, str], names: Sequence[str], spec: InputSpec, value: str
) -> None:
    """Refuse renames of columns that a file has not, or to those that are not declared. Raises
    InputError.
    """
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
    if problems and names:
        raise InputError(*problems)


def _renamed(rows: Any, renames: Mapping[str, str]) -> Any:
    """Rows with renamed columns, as in `column=source`; a column that had the name already is
    dropped.
    """
    if not renames:
        return rows
    gone = {*renames, *renames.values()}
    if isinstance(rows, pa.Table):
        names = names_of(rows)
        if len(set(names)) < len(names):  # refused as it is checked
            return rows
        kept = {name: rows[name] for name in names if name not in gone}
        return pa.table({**kept, **{name: rows[source] for name, source in renames.items()}})
    return [
        row
        if isinstance(row, Unreadable)
        else {
            **{name: value for name, value in row.items() if name not in gone},
            **{name: row.get(source) for name, source in renames.items()},
        }
        for row in rows
    ]
