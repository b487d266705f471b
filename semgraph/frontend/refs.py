"""`refs` of a sem_map: answers that name rows of another relation.

`refs` is defined by operators that exist, and is lowered to them when a plan is loaded: a group_join
that collects the records of each row, an add that numbers them, the sem_map that shows the numbered
records and reads numbers, and a project that puts the rows in place of the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from semgraph.errors import Fault, Faults, Position, did_you_mean, each
from semgraph.expr.duckdb import expect_type
from semgraph.expr.scalar import Scalar, parse_scalar, read_from, replace_roots
from semgraph.expr.types import Type
from semgraph.frontend.arguments import REF, Scope, under
from semgraph.frontend.document import mapping
from semgraph.frontend.kinds import each_value, read_keys, read_name
from semgraph.logical.node import Node
from semgraph.logical.prompt import Prompt, PromptSet
from semgraph.logical.relational import Add, GroupJoin, Project
from semgraph.logical.semantic import Answers, Check, SemMap
from semgraph.logical.typecheck import (
    Columns,
    Sort,
    Using,
    check_sort,
    check_using,
    column_scalar,
    fresh,
    typed,
)

NUMBER = "number"
Build = Callable[..., Any]


@dataclass(frozen=True)
class Ref:
    """The records that one answer may name.

    Args:
        name: What the prompt and the answer types call them.
        of: The relation that they are rows of.
        shows: What the model sees of a record, besides its number.
        using: Columns that the row and its records share.
        where: Which rows are records of a row; the record is the struct `name`.
        order: The order of the records, over their columns.
        limit: The most records of a row.
        number: The column that numbers the records; "" numbers them 1, 2, ...
        unknown: Whether an unknown number is asked for again, or its entry of a list is dropped.
    """

    name: str
    of: Node
    shows: Columns
    using: Using = ()
    where: Scalar | None = None
    order: tuple[Sort, ...] = ()
    limit: int | None = None
    number: str = ""
    unknown: str = "ask"


REFS: Any = field(
    default=(),
    metadata={
        "kind": "refs",
        "doc": "Relations whose rows answers of type ref<NAME> name: {NAME: {of, using, shows}}.",
    },
)
"""The argument of a sem_map, which its node does not have: it is lowered."""
REFS.name = "refs"


Refs = Mapping[str, Ref]


def read_refs(value: Any, scope: Scope) -> Refs:
    """The records by the names that answers have for them. Raises Faults."""
    named = mapping(value, "records by name: {NAME: {of, using, shows}}")
    return each_value(named, lambda name, arguments: _read_ref(name, arguments, scope))


def _read_ref(name: str, value: Any, scope: Scope) -> Ref:
    values, faults = read_keys(value, "refs", REF, scope)
    if NUMBER in dict(values.get("shows", ())):
        hint = "write number: COLUMN for numbers that the rows have"
        faults.append(Fault('shows has "number", which the engine adds', "shows", hint=hint))
    if not faults and "using" not in values and "where" not in values:
        faults.append(
            Fault('refs needs "using" or "where"', hint="which rows are records of a row")
        )
    if faults:
        raise Faults(faults)
    return Ref(read_name(name), **values)


def refs_of(answers: Answers) -> frozenset[str]:
    """The names that the types of answers refer to."""
    return frozenset[str]().union(*(kind.refs for _, kind in answers))


def refuse_unnamed(cls: type[Node], prompt: Prompt, refs: Refs) -> None:
    """Refuse answers that name records which the operator does not have. Raises Fault."""
    for name in sorted(refs_of(prompt.returns) - set(refs)):
        what = f'prompt "{prompt.name}" answers by ref<{name}>'
        if cls is not SemMap:
            raise Fault(what, "prompt", hint=f"use sem_map: {cls.keyword} has no refs")
        say = f"say refs: {{{name}: {{of: RELATION, using: KEY, shows: [COLUMN]}}}}"
        raise Fault(what, "prompt", hint=did_you_mean(name, refs) or say)


def with_refs(
    build: Build, refs: Refs, values: Mapping[str, Any], step: str, origin: Position | None
) -> Node:
    """The operators that a sem_map with `refs` is made of.

    Args:
        build: Makes a checked node: `build(cls, step, origin, **values)`.
        refs: The records.
        values: The arguments of the sem_map.
        step: Name of the step.
        origin: Where it stands.

    Raises:
        Fault: With its path below the sem_map.
    """
    source: Node = values["input"]
    prompt: PromptSet = values["prompt"]
    answers = prompt.first.returns
    rows: Node = source
    collected: dict[str, str] = {}  # the column with the records of each ref
    for ref in refs.values():
        collected[ref.name] = _free(f"_{ref.name}", rows.schema, prompt)
        with _naming_no_other(collected.values()):
            try:
                _check_ref(ref, prompt, answers, source.schema)
                rows = _with_records(build, ref, rows, collected[ref.name], step, origin)
            except Fault as fault:
                raise fault.under("refs", ref.name) from None
    numbers_of = tuple((name, ref.unknown) for name, ref in refs.items())
    rows_of = {name: (collected[name], ref.number) for name, ref in refs.items()}
    own = {"input": rows, "numbers_of": numbers_of}
    if values.get("check") is not None:
        own["check"] = _over_named_rows(values["check"], answers, rows_of)
    with _naming_no_other(collected.values()):
        asked = build(SemMap, step, origin, **{**values, **own})
    columns = [(name, f'"{name}"') for name in source.schema.names if name not in dict(answers)]
    columns += [(name, _named_rows(f'"{name}"', kind, rows_of)) for name, kind in answers]
    project = tuple((name, parse_scalar(text)) for name, text in columns)
    result: Node = build(Project, step, origin, input=asked, columns=project)
    return result


@contextmanager
def _naming_no_other(hidden: Collection[str]) -> Iterator[None]:
    """Let errors list no hidden columns among those of the row."""

    def visible(fault: Fault) -> Fault:
        head, colon, names = (fault.there or "").partition(": ")
        shown = ", ".join(name for name in names.split(", ") if name not in hidden)
        return Fault(fault.what, *fault.path, there=head + colon + shown or None, hint=fault.hint)

    try:
        yield
    except Fault as fault:
        raise Faults(map(visible, each(fault))) from None


def _check_ref(ref: Ref, prompt: PromptSet, answers: Answers, schema: pa.Schema) -> None:
    for one in prompt.all:
        if ref.name not in {path.split(".")[0] for path in one.fields}:
            where = f"prompts/{one.name}.md" if one.file else "the question"
            what = f'refs "{ref.name}": no {{{ref.name}}} in {where}, so its numbers mean nothing'
            raise Fault(what, hint=f"show the records: {{{ref.name}}}")
    if ref.name not in refs_of(answers):
        raise Fault(f'refs "{ref.name}" is named by no answer', hint="use group_join")
    fresh(schema, ref.name, "refs")


def _free(name: str, schema: pa.Schema, prompt: PromptSet) -> str:
    taken = {*schema.names, *(answer for answer, _ in prompt.first.returns)}
    while name.lower() in {other.lower() for other in taken}:
        name += "_"
    return name


def _with_records(
    build: Build, ref: Ref, rows: Node, column: str, step: str, origin: Position | None
) -> Node:
    """The rows with their records in `column`, and what is shown of them in the column `ref.name`."""
    _check_records(ref, rows.schema)
    record = f'"{ref.name}"'
    order = tuple(
        Sort(parse_scalar(read_from(term.by, record)), term.descending) for term in ref.order
    )
    listed = parse_scalar(f"coalesce(list({record}) FILTER ({record} IS NOT NULL), [])")
    joined = build(
        GroupJoin, step, origin, input=rows, other=ref.of, alias=ref.name, using=ref.using,
        where=ref.where, order=order, limit=ref.limit, add=((column, listed),),
    )  # fmt: skip
    item = f'"{column}"[_i]'
    number = f'{item}."{ref.number}"' if ref.number else "_i"
    shown = [(NUMBER, number), *((name, read_from(scalar, item)) for name, scalar in ref.shows)]
    fields = ", ".join(f"'{name}': {text}" for name, text in shown)
    records = parse_scalar(f'[{{{fields}}} for _i in range(1, len("{column}") + 1)]')
    shown_rows: Node = build(Add, step, origin, input=joined, columns=((ref.name, records),))
    return shown_rows


def _check_records(ref: Ref, left: pa.Schema) -> None:
    """Refuse what is wrong over the relation of the records. Raises Faults."""
    schema = ref.of.schema
    checks: list[Callable[[], object]] = [
        lambda: check_using(ref.using, left, schema),
        lambda: check_sort(ref.order, schema),
        lambda: typed(ref.shows, schema, "shows"),
    ]
    if ref.number:
        column = column_scalar(ref.number)
        checks.append(lambda: under("number", expect_type, column, schema, pa.int64()))
    faults: list[Fault] = []
    for check in checks:
        try:
            check()
        except Fault as fault:
            faults.append(fault)
    if faults:
        raise Faults(faults)


def _over_named_rows(
    check: Check, answers: Answers, rows_of: Mapping[str, tuple[str, str]]
) -> Check:
    """A check of rows, over the numbers that the model answers."""
    rows = {
        name: parse_scalar(_named_rows(f'"{name}"', kind, rows_of))
        for name, kind in answers
        if kind.refs
    }
    where, message = (replace_roots(scalar, rows) for scalar in check.scalars)
    return replace(check, where=where, message=message)


def _named_rows(text: str, kind: Type, rows_of: Mapping[str, tuple[str, str]]) -> str:
    """An expression for an answer with rows in place of their numbers."""
    if not kind.refs:
        return text
    if kind.ref:
        column, number = rows_of[kind.ref]
        if not number:
            return f'"{column}"[{text}]'
        row = "_r" if '"_r"' not in text else "_row"
        return f'[{row} for {row} in "{column}" if {row}."{number}" = {text}][1]'
    if kind.item is not None:
        bound = f"_n{text.count('_n')}"
        return f"[{_named_rows(bound, kind.item, rows_of)} for {bound} in {text}]"
    fields = ", ".join(
        f"'{name}': " + _named_rows(f'{text}."{name}"', part, rows_of) for name, part in kind.fields
    )
    return f"CASE WHEN {text} IS NULL THEN NULL ELSE {{{fields}}} END"
