"""Rows with right answers, which a prompt shows: `examples` of a prompt file or of a step. They are
read from a file or a list, and checked against the prompt and the columns of its step.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from semgraph.errors import (  # fmt: skip
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
from semgraph.frontend.document import notice, require_inside, shown
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
    if isinstance(value, (str, Path)):
        return str(value)
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
    """Examples as a plan has them, unchecked: a file of a folder, rows, or a mapping of `EXAMPLES`.
    The file must be in `home`, if any. Raises Fault, or PlanError for unreadable rows.
    """
    if isinstance(value, (str, list, tuple)):
        value = {"file" if isinstance(value, str) else "rows": value}
    values = kinds.all_keys(value, "examples", EXAMPLES)
    if ("file" in values) == ("rows" in values):
        raise Fault("examples are a file or rows", hint="write examples: gold.csv")
    if ("nearest" in values) != ("by" in values):
        hint = "write {file: gold.csv, nearest: 4, by: COLUMN}"
        raise Fault("nearest and by belong together", hint=hint)
    path = folder / values["file"] if "file" in values else None
    if path is not None:
        if home is not None:
            require_inside(path, (home,), f'the examples "{path.name}"')
        notice(path)
    try:
        columns = columns_of(values["rows"] if path is None else rows_of_path(path))
    except InputError as error:
        first = error.problems[0]
        raise Fault(first.what, there=first.there, hint=first.hint) from None
    if bad := [row.problem for row in columns.unreadable.values()]:
        raise PlanError(*bad[:_MOST])
    if not columns.count:
        raise Fault("the examples have no rows", hint="write a row with the right answer")
    rows = tuple(canonical_json(columns.row(place)) for place in range(columns.count))
    return Examples(rows, values.get("nearest", 0), values.get("by", ""), str(path or ""))


def checked_examples(cls: type[Node], values: Mapping[str, Any], step: str) -> PromptSet:
    """The prompts of an operator with these arguments, with examples that fit it: placeholders have
    the types of its columns, answers those of the prompt. Raises Fault, or PlanError with the lines
    of a file.
    """
    prompts: PromptSet = values["prompt"]
    return prompts.each(lambda prompt: _checked(cls, values, step, prompt))


def _checked(cls: type[Node], values: Mapping[str, Any], step: str, prompt: Prompt) -> Prompt:
    examples = prompt.shown
    if examples is None:
        return prompt
    if cls.keyword == "sem_agg":
        hint = "write them in words, in a section # examples"
        raise Fault("sem_agg answers about groups, and a row is no group", hint=hint)
    asked = replace(prompt, alias=values.get("alias", ""))
    inputs = {path: _type(path, values["input"].schema) for path in asked.fields}
    texts = [path for path, kind in inputs.items() if kind.name == "string"]
    if examples.by and examples.by not in texts:
        there = "placeholders with a text: " + (", ".join(texts) or "none")
        what = f'no placeholder "{examples.by}" has a text'
        raise Fault(what, "examples", there=there, hint=did_you_mean(examples.by, texts))
    for path in asked.other_fields:
        inputs[f"{asked.alias}.{path}"] = _type(path, values["other"].schema)
    answers = {**dict(prompt.returns), **_VERDICTS.get(cls.keyword, {})}
    rows: list[dict[str, Any]] = [json.loads(row) for row in examples.rows]
    faults = list(_column_faults(rows, inputs, answers))
    typed = (
        [] if faults else [_typed(n, row, inputs, answers, faults) for n, row in enumerate(rows)]
    )
    if faults:
        raise _error(examples, faults[:_MOST], step)
    ordered = tuple(json.dumps(row, ensure_ascii=False) for row in typed)  # in the order of types
    return replace(prompt, shown=replace(examples, rows=ordered))


def _type(path: str, schema: Any) -> Type:
    """The type of a column; text if it is missing, which is reported later."""
    try:
        kind = type_of_path(path, schema)
    except Fault:
        kind = None
    return Type("string") if kind is None else type_of_arrow(kind)


Types = Mapping[str, Type]


def _column_faults(rows: list[dict[str, Any]], inputs: Types, answers: Types) -> Iterator[Fault]:
    """The faults of columns that are missing, or that the prompt does not name."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    there, extra = "columns: " + ", ".join(columns), [*columns]
    for name in (*inputs, *answers):
        if name in columns:
            extra.remove(name)
            continue
        near = nearest(name, extra) or next((x for x in extra if name.endswith(f".{x}")), None)
        extra = [each for each in extra if each != near]
        what = f'the examples lack "{name}", {"an answer" if name in answers else "a placeholder"}'
        hint = f'rename "{near}" to "{name}"' if near else f'add the column "{name}"'
        yield Fault(f"{what} of the prompt", there=there, hint=hint)
    named = "the prompt has: " + ", ".join((*inputs, *answers))
    for name in extra:
        what = f'"{name}" is no placeholder and no answer of the prompt'
        yield Fault(what, there=named, hint="remove the column")


def _typed(
    place: int, row: dict[str, Any], inputs: Types, answers: Types, faults: list[Fault]
) -> dict[str, Any]:
    """A row with values of these types, as JSON; its faults are added to `faults`."""
    typed: dict[str, Any] = {}
    matches = "match" not in answers or str(row.get("match")).lower() != "false"
    for name, kind in {**inputs, **answers}.items():
        try:
            value = convert(row.get(name), kind)
            typed[name] = _answer(kind, value) if name in answers else plain(value)
            if value is None and name in answers and not kind.nullable and matches:
                faults.append(Fault(f'no "{name}"', place, hint="write the right answer"))
        except Fault as fault:
            what = f'column "{name}": {fault.what}'
            faults.append(Fault(what, place, there=fault.there, hint=fault.hint))
    return typed


def _answer(kind: Type, value: Any) -> Any:
    """A value of an answer as JSON of the model's reply. Raises Fault if it is beyond a limit."""
    if value is None:
        return None
    if not limits.meets(kind, value):
        raise Fault(f"{value!r} is not {limits.in_words(limits.keywords(kind.limits))}")
    if kind.item is not None:
        return [_answer(kind.item, entry) for entry in value]
    if kind.fields:
        return {name: _answer(part, value[name]) for name, part in kind.fields}
    return json.loads(value) if kind.name == "json" else plain(value)


def _error(examples: Examples, faults: list[Fault], step: str) -> Exception:
    """The faults at the lines of the file, or of the rows of a plan."""
    path, problems = Path(examples.file), []
    lines = lines_of(path) if examples.file else []
    for fault in faults:
        row = int(fault.path[0]) if fault.path else None
        what = fault.what if lines or row is None else f"row {row + 1}, {fault.what}"
        place = Position(shown(path), 1 if row is None or not lines else lines[row], 1)
        problems.append(Problem(what, step or None, place, fault.there, fault.hint))
    if examples.file:
        return PlanError(*problems)
    return Faults(Fault(p.what, "examples", there=p.there, hint=p.hint) for p in problems)
