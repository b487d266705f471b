"""The rows of a run: the caller's, or the plan's example."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import pyarrow as pa

from semgraph.display import option
from semgraph.errors import Fault, InputError, PlanError, Problem, RowError, among
from semgraph.execution.result import Result
from semgraph.execution.windows import without_nul
from semgraph.expr.duckdb import rows_of
from semgraph.frontend.classes import refuse_other_fields
from semgraph.frontend.frame import Frame, input_frames
from semgraph.frontend.row_files import LoadedInput, rows_given
from semgraph.frontend.rows import few, read_rows, set_aside, shown
from semgraph.logical import relational as rel
from semgraph.logical.node import Node, walk
from semgraph.logical.plan import ALL, InputSpec, LogicalPlan, Windowing
from semgraph.logical.schema import PATH
from semgraph.logical.semantic import SemMap
from semgraph.options import ARGUMENTS, RunOptions
from semgraph.semantic.answers import SCHEMA_HINT, parse_answer_schema
from semgraph.stores.conditions import Value, evaluate


@dataclass(frozen=True)
class Example:
    """A plan's example: its rows by input, and the plans that run before it."""

    inputs: Mapping[str, Any]
    after: tuple[str, ...] = ()


def example_rows(plan: LogicalPlan) -> Example:
    """The plan's example. Raises PlanError if it has none."""
    example = plan.document.get("example")
    if not example:
        names = ", ".join(plan.inputs)
        every = "".join(f"; -i {name}=all" for name, spec in plan.inputs.items() if spec.or_all)
        what = f"plan {plan.name} has no example: give its inputs ({names})"
        raise PlanError(what, hint=f"-i NAME=FILE{every}")
    return Example(example.get("inputs") or {}, tuple(example.get("after") or ()))


def no_plan(value: object) -> PlanError:
    """The error for a value that is not a plan."""
    kind = type(value).__name__
    if hasattr(value, "columns") or isinstance(value, (list, tuple)):
        hint = 'make a relation: sg.table(rows).sem_filter("... {column} ..."); or name a plan: run("PLAN", NAME=rows)'
        return PlanError(f"{kind} holds rows, and run needs what to do with them", hint=hint)
    hint = "give a path, a name, a plan that load_plan gave, or a frame"
    return PlanError(f"{kind} is no plan", hint=hint)


def refuse_unknown_words(
    plan: LogicalPlan, names: Iterable[str], method: Callable[..., Any]
) -> None:
    """Refuse a keyword that is neither an input of the plan nor an option of the call, if it
    resembles an option of this or another call. Raises PlanError.
    """
    call = method.__name__.removeprefix("a")
    options = [
        p.name for p in inspect.signature(method).parameters.values() if p.kind is p.KEYWORD_ONLY
    ]
    for name in names:
        if name in plan.inputs:
            continue
        near = get_close_matches(name, [*plan.inputs, *options], 1, 0.6)
        hint = _OF_SESSIONS.get(name) or (f'did you mean "{near[0]}"?' if near else None)
        if name in _OF_SESSIONS or (near and near[0] in options):
            there = "inputs: " + (", ".join(plan.inputs) or "none")
            what = f'{call} has no option "{name}", and plan {plan.name} no such input'
            raise PlanError(what, there=there, hint=hint)


_MOST_PROBLEMS = 10  # listed by one error
_OF_SESSIONS = {name: f"it belongs to the session: Session({name}=...)" for name in ARGUMENTS}


def refuse_taken(plan: LogicalPlan, inputs: Mapping[str, Any], options: RunOptions) -> None:
    """Refuse rows that were given as an option of the call, because an input has its name. Raises
    PlanError.
    """
    for name, value in options.changed.items():
        is_of_option = callable(value) or isinstance(value, str | Path | int)
        if name in plan.inputs and name not in inputs and not is_of_option:
            nodes = (node for node in walk(*plan.steps.values()) if isinstance(node, rel.Input))
            line = next((node.origin for node in nodes if node.name == name), None)
            what = f'input "{name}": {name}= is an option of this call, so its rows were not read'
            raise PlanError(what, position=line, hint=f'write inputs={{"{name}": rows}}')


def group_columns(plan: LogicalPlan, spec: InputSpec) -> list[str]:
    """The columns of an input that name the group of its rows: the graph's partition and the
    partition of the plan's windows.
    """
    cut = _windowing(plan, spec)
    names = {plan.graph.partition, *([cut.partition] if cut else [])}
    return [name for name, kind in spec.columns if name in names and kind.name == "string"]


def _windowing(plan: LogicalPlan, spec: InputSpec) -> Windowing | None:
    """How an input is cut into windows; None if it is not cut."""
    return plan.windows if plan.windows is not None and plan.windows.input == spec.name else None


def refuse_other_groups(
    plan: LogicalPlan, tables: Mapping[str, pa.Table], group: str | None
) -> None:
    """Refuse rows of a group other than the session's, if it has one. Raises InputError."""
    problems = [
        Problem(
            f"input {name}, column {column}: {shown(other)} is not the group of this session, {shown(group)}",
            hint=f'write "{group}", or leave rows of other groups out',
        )
        for name, table in (tables.items() if group is not None else ())
        for column in group_columns(plan, plan.inputs[name])
        for other in table.column(column).unique().to_pylist()
        if other is not None and other != group
    ]
    if problems:
        raise InputError(*problems)


def given_rows(plan: object, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The rows of a caller by input: those of a frame, and those that are not None."""
    own: dict[str, Any] = dict(input_frames(plan)) if isinstance(plan, Frame) else {}
    return own | {name: value for name, value in inputs.items() if value is not None}


def sampled_input(plan: LogicalPlan, tables: Mapping[str, pa.Table]) -> str:
    """The input that a sample is drawn of; "" without rows."""
    if plan.windows is not None:
        return plan.windows.input
    return max(tables, key=lambda name: tables[name].num_rows, default="")


_ALL = RunOptions()


def check_numbers(options: RunOptions) -> None:
    """Refuse wrong numbers of rows. Raises PlanError."""
    for name, least in (("rows", 0), ("sample", 1), ("seed", 0)):
        value = getattr(options, name)
        if value is not None and value < least:
            raise PlanError(f"{option(name, value)}: use a number from {least}")
    if options.seed and options.sample is None:
        raise PlanError("a seed is for a sample", hint=f"add {option('sample', 'N')}")
    if options.rows is not None and options.sample is not None:
        hint = f"give {option('rows', 'N')} or {option('sample', 'N')}"
        raise PlanError("the first rows, or a sample of all", hint=hint)


def typed_inputs(
    plan: LogicalPlan, inputs: Mapping[str, Any], options: RunOptions = _ALL
) -> dict[str, pa.Table]:
    """Every input as a typed table; without rows, the example's. An input that means all partitions
    of the store has no table. Raises PlanError or InputError.

    Of `options`, `rows` takes the first rows of the windowed input, without windows of each; `sample`
    and `seed` see `sampled_rows`.
    """
    check_numbers(options)
    rows = options.rows
    for name in inputs:
        if name not in plan.inputs:
            what = f'plan {plan.name} has no input "{name}"'
            raise PlanError(what, **among(name, plan.inputs, "inputs"))
    source = inputs or (dict(example_rows(plan).inputs) if plan.inputs else {})
    tables: dict[str, pa.Table] = {}
    for name, spec in plan.inputs.items():
        table = _typed(plan, spec, source.get(name))
        if table is not None:
            beside = plan.windows is not None and _windowing(plan, spec) is None
            whole = rows is None or rows >= table.num_rows or beside
            tables[name] = table if whole else table.slice(0, rows)
    _refuse_schemas(plan, tables)
    _refuse_groups(plan, tables)
    return sampled_rows(plan, tables, options.sample, options.seed)


def sampled_rows(
    plan: LogicalPlan, tables: dict[str, pa.Table], number: int | None, seed: int = 0
) -> dict[str, pa.Table]:
    """The tables with so many rows of one of them by their hash: of the windowed one in whole
    partitions, at least so many, else of the longest.
    """
    name, windows = sampled_input(plan, tables), plan.windows
    if number is None or not name or number >= tables[name].num_rows:
        return tables
    by = [windows.partition] if windows else [column for column, _ in plan.inputs[name].columns]
    order = rel.hashed(by, seed).sql + (", _place" if windows is None else "")
    ranked = f"SELECT _place, rank() OVER (ORDER BY {order}) AS rank FROM t"
    sql = f"SELECT _place FROM ({ranked}) WHERE rank <= {number} ORDER BY _place"
    places = pa.array(range(tables[name].num_rows))
    kept = rows_of(sql, {"t": tables[name].append_column("_place", places)})
    return tables | {name: tables[name].take(kept.column("_place"))}


def _typed(plan: LogicalPlan, spec: InputSpec, value: Any) -> pa.Table | None:
    """An input as a typed table; None if it means all partitions of the store."""
    word = getattr(value, "rows", value)
    if spec.or_all and (value is None or (isinstance(word, str) and word == ALL)):
        return None
    cut = _windowing(plan, spec)
    value = rows_given(spec, value, cut)
    own = isinstance(value, (Frame, LoadedInput))
    if isinstance(value, LoadedInput):
        value = value.rows
    if isinstance(value, Frame):
        if value.made.table is None:
            what = f"input {spec.name} is a relation that is not computed yet"
            raise InputError(
                f"{what} ({value.node.keyword})", hint=f"{spec.name}=session.run(frame).to_arrow()"
            )
        value = value.made.table
    if value is None and not spec.optional:
        what = f"plan {plan.name} needs the input {spec.name}"
        raise PlanError(what, hint=f"-i {spec.name}=FILE")
    rows = [] if value is None else value
    aside = set_aside(rows) if own else ()
    partition, key = (cut.partition, cut.key) if cut else ("", "")
    return read_rows(spec, rows, aside, partition=partition, key=key)


def _refuse_groups(plan: LogicalPlan, tables: Mapping[str, pa.Table]) -> None:
    """Refuse inputs without any row of a group that the plan takes. Raises InputError."""
    for rule in (n for n in walk(*plan.roots) if isinstance(n, rel.Require) and n.fails):
        if rule.where.columns != rule.says.columns or len(rule.where.columns) != 1:
            continue
        own = rule.where.columns[0]
        for name, column in _origins(rule.input, own, (rel.Filter,)):
            spec = plan.inputs[name]
            if not tables.get(name) or column not in group_columns(plan, spec):
                continue
            groups = pa.table({own: tables[name].column(column).unique().drop_null()})
            values = [Value(scalar.sql, scalar.columns) for scalar in (rule.where, rule.says)]
            admitted, says = (array.to_pylist() for array in evaluate(values, groups))
            if admitted and not any(admitted):
                hint = f". Write other names into the column {column}"
                raise InputError(*few([f"input {name}: {text}{hint}" for text in says]))


def _refuse_schemas(plan: LogicalPlan, tables: Mapping[str, pa.Table]) -> None:
    """Refuse rows with invalid answer schemas for a sem_map. Raises InputError."""
    maps = (node for node in walk(*plan.roots) if isinstance(node, SemMap) and node.answer_schema)
    places = {place: None for node in maps for place in _origins(node.input, node.answer_schema)}
    problems = []
    for name, column in places:
        exists = name in tables and column in tables[name].column_names
        texts = tables[name].column(column).unique().drop_null() if exists else ()
        for text in map(str, texts):
            try:
                for _, cls in parse_answer_schema(text).validators:
                    refuse_other_fields(cls, text)
            except Fault as fault:
                what = f"input {name}: {column} is no schema: {fault.what}: {shown(text)}"
                problems.append(Problem(what, hint=fault.hint or SCHEMA_HINT))
    if problems:
        raise InputError(*problems[:_MOST_PROBLEMS])


def _origins(node: Node, path: str, also: tuple[type[Node], ...] = ()) -> Iterator[tuple[str, str]]:
    """The input columns from which a column comes unchanged and unfiltered. `also` lists further
    operators that leave it unchanged.
    """
    name, _, rest = path.partition(".")
    if isinstance(node, rel.Input) and not rest:
        yield node.name, name
    elif isinstance(node, rel.Computing) and (scalar := dict(node.columns).get(name)) is not None:
        if PATH.match(scalar.text):
            yield from _origins(node.input, f"{scalar.text}.{rest}" if rest else scalar.text, also)
    elif isinstance(node, rel.Join) and node.alias and name == node.alias:
        yield from _origins(node.other, rest, also)
    elif isinstance(node, rel.Union):
        for relation in node.relations:
            yield from _origins(relation, path, also)
    elif isinstance(node, (rel.Add, rel.GroupJoin, rel.Require, *also)):
        yield from _origins(node.inputs[0], path, also)


def refuse_unreadable(inputs: Mapping[str, pa.Table]) -> None:
    """Refuse inputs with rows that cannot be read. Raises InputError."""
    if problems := [error for table in inputs.values() for error, _ in set_aside(table)]:
        raise InputError(*few(problems))


def refuse_lost(result: Result, inputs: Mapping[str, pa.Table]) -> None:
    """Refuse a result in which every row failed. With windows: every row that was cut into windows.
    Without windows: every row that a step asked about, so that no row is left. Raises RowError with
    the result.
    """
    if result.stopped or not result.failed:
        return
    if result.members:
        of_windows = {failure.input_row for failure in result.failed} - {None}
        lost = len(of_windows) >= result.members
    else:
        out = any((*map(result.count, result.tables), *result.written.values()))
        lost = not out and _none_passed(result, inputs)
    if lost:
        place = f"; the rows are in {result.record / 'failed.jsonl'}" if result.record else ""
        what = f"every row failed ({len(result.failed)}), the first: {result.failed[0].error}"
        hint = f"`result.failed` of this error has each row with its own{place}"
        error = RowError("set aside", str(Problem(what, hint=hint)))
        error.result = result
        raise error


def _none_passed(result: Result, inputs: Mapping[str, pa.Table]) -> bool:
    """Whether no row passed the steps in which rows can fail. If these steps asked about no row:
    whether no input row was readable.
    """
    asked = [step for step in result.meter.steps.values() if step.operator or step.rows_failed]
    counts = [step.rows_in for step in asked if step.rows_in]
    if not counts and not any(step.rows_failed for step in asked):
        return not any(without_nul(name, table)[0].num_rows for name, table in inputs.items())
    passed = any((step.rows_in or 0) > step.rows_failed for step in asked)
    return not passed and len(result.failed) >= max(counts, default=0)
