"""Rows with right answers, which a prompt shows: `examples` of a prompt file, or of a step. They are
read from a file or a list, and checked against the prompt and the rows of its step.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from semgraph.errors import (
    Fault,
    Faults,
    InputError,
    PlanError,
    Position,
    Problem,
    did_you_mean,
    nearest,
)
from semgraph.expr.duckdb import type_of_path
from semgraph.expr.functions import canonical_json
from semgraph.expr.types import Type, type_of_arrow
from semgraph.frontend import kinds
from semgraph.frontend.document import notice, require_inside, shown, wrong
from semgraph.frontend.kinds import Key, Keys
from semgraph.frontend.row_files import lines_of, rows_of_path
from semgraph.frontend.rows import columns_of, convert
from semgraph.logical import limits
from semgraph.logical.node import Node
from semgraph.logical.prompt import Examples, Prompt, PromptSet, plain

# The verdict of an operator, in a column beside the answers.
_VERDICTS = {
    "sem_filter": {"keep": Type("boolean")},
    "sem_join": {"match": Type("boolean")},
    "sem_topk": {"score": Type("double", limits='{"maximum":100,"minimum":0}')},
}
_MOST = 10  # problems that are reported
_ROWS: kinds.Schema = {"type": "array", "items": {"type": "object"}}
# The keys of examples that are a mapping.
EXAMPLES: Keys = {
    "file": Key(kinds.TEXT, "the file with the rows, beside the file that names it"),
    "rows": Key(kinds.kept(_ROWS), "the rows, in place of a file"),
    "nearest": Key(kinds.POSITIVE, "how many of them a row is shown: the nearest; without it, all"),
    "by": Key(kinds.TEXT, "the placeholder with the text by which they are near"),
}
SCHEMA = kinds.either(kinds.TEXT_SCHEMA, _ROWS, kinds.keys_schema(EXAMPLES))


def plain_examples(value: Any) -> Any:
    """Examples of Python in the notation of plans: paths as texts, rows of any kind as mappings.
    Raises Fault.
    """
    if isinstance(value, (str, Path)) or value is None:
        return value if value is None else str(value)
    if isinstance(value, Mapping) and value.keys() <= EXAMPLES.keys():
        parts = {key: plain_examples(value[key]) for key in ("file", "rows") if key in value}
        return {**value, **parts}
    columns = columns_of(value)
    return [columns.row(place) for place in range(columns.count)]


def file_of(value: Any) -> str:
    """The file that examples name, or ""."""
    file = value.get("file") if isinstance(value, Mapping) else value
    return file if isinstance(file, str) else ""


def read_examples(value: Any, folder: Path, home: Path | None) -> Examples:
    """Examples as a plan has them, unchecked.

    Args:
        value: A file, rows, or a mapping of `EXAMPLES`.
        folder: The folder in which the file is looked up.
        home: The folder that must hold the file; None: any.

    Raises:
        Fault: The value is wrong, or the file cannot be read.
        PlanError: A row of the file cannot be read.
    """
    one = {"rows": value} if isinstance(value, (list, tuple)) else value
    one = {"file": value} if isinstance(value, str) else one
    if not isinstance(one, Mapping):
        raise wrong("a file of rows such as gold.csv, or rows", value)
    values = kinds.all_keys(one, "examples", EXAMPLES)
    if ("file" in values) == ("rows" in values):
        raise Fault("examples are a file or rows", hint="write examples: gold.csv")
    if ("nearest" in values) != ("by" in values):
        hint = "write {file: gold.csv, nearest: 4, by: COLUMN}"
        raise Fault("nearest and by belong together", hint=hint)
    path = folder / values["file"] if "file" in values else None
    try:
        columns = columns_of(values["rows"] if path is None else _rows_of(path, home))
    except InputError as error:
        first = error.problems[0]
        raise Fault(first.what, there=first.there, hint=first.hint) from None
    if bad := [row.problem for row in columns.unreadable.values()]:
        raise PlanError(*bad[:_MOST])
    if not columns.count:
        raise Fault("the examples have no rows", hint="write a row with the right answer")
    rows = tuple(canonical_json(columns.row(place)) for place in range(columns.count))
    file = "" if path is None else str(path)
    return Examples(rows, values.get("nearest", 0), values.get("by", ""), file)


def _rows_of(path: Path, home: Path | None) -> Any:
    if home is not None:
        require_inside(path, (home,), f'the examples "{path.name}"')
    notice(path)
    return rows_of_path(path)


def checked_examples(cls: type[Node], values: Mapping[str, Any], step: str) -> PromptSet:
    """The prompts of an operator, with examples that fit it: placeholders have the types of the
    operator's columns, answers those of the prompt.

    Args:
        cls: The operator.
        values: Its arguments, with its relations.
        step: Its step, for the errors of a file.

    Raises:
        Fault: They do not fit.
        PlanError: The rows of a file do not fit; with its lines.
    """
    prompts: PromptSet = values["prompt"]

    def checked(prompt: Prompt) -> Prompt:
        if prompt.shown is None:
            return prompt
        if cls.keyword == "sem_agg":
            hint = "write them in words, in a section # examples"
            raise Fault("sem_agg answers about groups, and a row is no group", hint=hint)
        return replace(prompt, shown=_Check(cls, values, prompt, prompt.shown).examples(step))

    return prompts.each(checked)


class _Check:
    """The check of the examples of one prompt."""

    def __init__(
        self, cls: type[Node], values: Mapping[str, Any], prompt: Prompt, examples: Examples
    ) -> None:
        alias = values.get("alias", "")
        asked = replace(prompt, alias=alias)
        left = values["input"].schema
        self.examples_read = examples
        self.inputs = {path: _type(path, left) for path in asked.fields}
        self.texts = [path for path, kind in self.inputs.items() if kind.name == "string"]
        for path in asked.other_fields:
            self.inputs[f"{alias}.{path}"] = _type(path, values["other"].schema)
        self.answers = {**dict(prompt.returns), **_VERDICTS.get(cls.keyword, {})}
        self.rows: list[dict[str, Any]] = [json.loads(row) for row in examples.rows]

    def examples(self, step: str) -> Examples:
        """The examples, with values of these types. Raises Fault or PlanError."""
        by = self.examples_read.by
        if by and by not in self.texts:
            there = "placeholders with a text: " + (", ".join(self.texts) or "none")
            hint = did_you_mean(by, self.texts)
            raise Fault(f'no placeholder "{by}" has a text', "examples", there=there, hint=hint)
        faults = list(self._columns())
        rows = [] if faults else [self._row(place, faults) for place in range(len(self.rows))]
        if faults:
            raise self._error(faults[:_MOST], step)
        texts = tuple(json.dumps(row, ensure_ascii=False) for row in rows)  # in the order of types
        return replace(self.examples_read, rows=texts)

    def _columns(self) -> Iterator[Fault]:
        """The faults of columns that are missing, or that the prompt does not name."""
        wanted = {**self.inputs, **self.answers}
        columns = dict.fromkeys(name for row in self.rows for name in row)
        there = "columns: " + ", ".join(columns)
        extra = [name for name in columns if name not in wanted]
        for name in wanted:
            if name in columns:
                continue
            end = name.rpartition(".")[2]
            near = end if end in extra else nearest(name, extra)
            if near is not None:
                extra.remove(near)
            what = f'the examples lack "{name}", {"an answer" if name in self.answers else "a placeholder"} of the prompt'
            hint = f'add the column "{name}"' if near is None else f'rename "{near}" to "{name}"'
            yield Fault(what, there=there, hint=hint)
        named = "the prompt has: " + ", ".join(wanted)
        for name in extra:
            what = f'"{name}" is no placeholder and no answer of the prompt'
            yield Fault(what, there=named, hint="remove the column")

    def _row(self, place: int, faults: list[Fault]) -> dict[str, Any]:
        row, typed = self.rows[place], dict[str, Any]()
        for name, kind in {**self.inputs, **self.answers}.items():
            try:
                value = convert(row.get(name), kind)
                typed[name] = _answer(kind, value) if name in self.answers else plain(value)
                needed = name in self.answers and not kind.nullable and self._matches(row)
                if value is None and needed:
                    faults.append(Fault(f'no "{name}"', place, hint="write the right answer"))
            except Fault as fault:
                what = f'column "{name}": {fault.what}'
                faults.append(Fault(what, place, there=fault.there, hint=fault.hint))
        return typed

    def _matches(self, row: Mapping[str, Any]) -> bool:
        """Whether a row has answers: a pair that does not match has none."""
        return "match" not in self.answers or str(row.get("match")).lower() != "false"

    def _error(self, faults: list[Fault], step: str) -> Exception:
        """The faults, at the lines of the file, or at the rows of the plan."""
        path = Path(self.examples_read.file)
        lines = lines_of(path) if self.examples_read.file else []
        problems = []
        for fault in faults:
            row = int(fault.path[0]) if fault.path else None
            what = fault.what if lines or row is None else f"row {row + 1}, {fault.what}"
            place = Position(shown(path), 1 if row is None or not lines else lines[row], 1)
            problems.append(Problem(what, step or None, place, fault.there, fault.hint))
        if self.examples_read.file:
            return PlanError(*problems)
        return Faults(Fault(p.what, "examples", there=p.there, hint=p.hint) for p in problems)


def _type(path: str, schema: Any) -> Type:
    """The type of a column, text if it is not known: a column that is missing is reported later."""
    try:
        kind = type_of_path(path, schema)
    except Fault:
        return Type("string")
    return Type("string") if kind is None else type_of_arrow(kind)


def _answer(kind: Type, value: Any) -> Any:
    """A value of an answer as JSON of the model's reply. Raises Fault if it is beyond a limit."""
    if value is None:
        return None
    if not limits.meets(kind, value):
        raise Fault(f"{value!r} is not {limits.in_words(limits.keywords(kind.limits))}")
    if kind.name == "json":
        return json.loads(value)
    if kind.item is not None:
        return [_answer(kind.item, entry) for entry in value]
    if kind.fields:
        return {name: _answer(part, value[name]) for name, part in kind.fields}
    return plain(value)
