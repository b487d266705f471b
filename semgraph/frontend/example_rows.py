"""Rows with right answers, which a prompt shows: `examples` of a prompt file or of a step. They are
read from a file or a list, and checked against the prompt and the columns of its step.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from semgraph.errors import Fault, Faults, InputError, among
from semgraph.expr.duckdb import type_of_path
from semgraph.expr.functions import canonical_json
from semgraph.expr.types import Type, python_rows, type_of_arrow
from semgraph.frontend import kinds
from semgraph.frontend.document import notice, require_inside
from semgraph.frontend.kinds import Key, Keys, at_key
from semgraph.frontend.row_files import rows_of
from semgraph.frontend.rows import check_rows, columns_of
from semgraph.logical import limits
from semgraph.logical.node import Node
from semgraph.logical.plan import InputSpec
from semgraph.logical.prompt import Examples, Prompt, PromptSet, plain
from semgraph.logical.semantic import VERDICTS

_SCORE = Type("double", limits='{"maximum":100,"minimum":0}')
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
    """Examples of Python in the notation of plans: texts, and rows as mappings. Raises Fault."""
    if isinstance(value, Mapping):
        return {k: plain_examples(v) if k in ("file", "rows") else v for k, v in value.items()}
    if isinstance(value, (str, Path)):
        return str(value)
    columns = columns_of(value)
    return [columns.row(place) for place in range(columns.count)]


def read_examples(value: Any, folder: Path, home: Path | None) -> Examples:
    """Examples as a plan has them: a file of a folder, rows, or a mapping of `EXAMPLES`. The file must
    be in `home`, if any. `checked_examples` reads it. Raises Fault.
    """
    if not isinstance(value, Mapping):
        value = {"file" if isinstance(value, str) else "rows": value}
    values = kinds.all_keys(value, "examples", EXAMPLES)
    if ("file" in values) == ("rows" in values):
        raise Fault("examples are a file or rows", hint="write examples: gold.csv")
    if ("nearest" in values) != ("by" in values):
        hint = "write {file: gold.csv, nearest: 4, by: COLUMN}"
        raise Fault("nearest and by belong together", hint=hint)
    path = folder / values["file"] if "file" in values else None
    if path and home:
        require_inside(path, (home,), f'the examples "{path.name}"')
    if path:
        notice(path)
    rows = tuple(map(canonical_json, values.get("rows", ())))
    return Examples(rows, values.get("nearest", 0), values.get("by", ""), str(path or ""))


def checked_examples(cls: type[Node], values: Mapping[str, Any]) -> PromptSet:
    """The prompts of an operator with these arguments, with examples that fit it: placeholders have
    the types of its columns, answers those of the prompt. Raises Fault.
    """
    prompts: PromptSet = values["prompt"]
    return prompts.each(lambda p: at_key("examples", _checked, cls, values, p) if p.shown else p)


def _checked(cls: type[Node], values: Mapping[str, Any], prompt: Prompt) -> Prompt:
    asked, examples = replace(prompt, alias=values.get("alias", "")), prompt.shown
    assert examples is not None
    if cls.keyword == "sem_agg":
        hint = "write them in words, in a section # examples"
        raise Fault("sem_agg answers about groups, and a row is no group", hint=hint)
    types = {path: _type(path, values["input"]) for path in asked.fields}
    texts = [path for path, kind in types.items() if kind.name == "string"]
    if examples.by and examples.by not in texts:
        what = f'no placeholder "{examples.by}" has a text'
        raise Fault(what, **among(examples.by, texts, "placeholders with a text"))
    types |= {f"{asked.alias}.{path}": _type(path, values["other"]) for path in asked.other_fields}
    answers = dict(prompt.returns)
    if cls.keyword == "sem_join":  # a pair that does not match has no answers
        answers = {name: replace(kind, nullable=True) for name, kind in prompt.returns}
    types |= answers
    if verdict := VERDICTS.get(cls.keyword):
        types[verdict] = _SCORE if verdict == "score" else Type("boolean")
    try:
        file = Path(examples.file) if examples.file else None
        rows = columns_of(rows_of(file) if file else [json.loads(row) for row in examples.rows])
        if not rows.count:
            raise Fault("the examples have no rows", hint="write a row with the right answer")
        for name in types:
            if name not in rows.values:
                known = among(name, rows.values, "columns")
                raise Fault(f'the examples lack "{name}" of the prompt', **known)
        spec, source = InputSpec("examples", tuple(types.items())), file.name if file else ""
        typed = python_rows(check_rows(spec, rows, source=source))
    except InputError as error:
        faults = (Fault(p.what, there=p.there, hint=p.hint) for p in error.problems)
        raise Faults(faults) from None
    for n, row in enumerate(typed, 1):
        for name, kind in types.items():
            if row[name] is not None and not limits.meets(kind, row[name]):
                words = limits.in_words(limits.keywords(kind.limits))
                raise Fault(f'row {n}, "{name}": {row[name]!r} is not {words}')
    shown = tuple(json.dumps(row, ensure_ascii=False, default=plain) for row in typed)
    return replace(prompt, shown=replace(examples, rows=shown))


def _type(path: str, relation: Node) -> Type:
    kind = type_of_path(path, relation.schema)
    return replace(type_of_arrow(kind or pa.string()), nullable=True)
