"""The rows of a run: the caller's, the plan's example, or a sample of them."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from semgraph.display import option
from semgraph.errors import (
    BudgetReached,
    Fault,
    InputError,
    PlanError,
    Problem,
    RowError,
    did_you_mean,
)
from semgraph.execution.result import Result
from semgraph.execution.windows import without_nul
from semgraph.formats import dollars, plural
from semgraph.frontend.frame import Frame
from semgraph.frontend.row_files import LoadedInput
from semgraph.frontend.rows import few, read_rows, set_aside, shown
from semgraph.logical.node import Node, walk
from semgraph.logical.plan import ALL, InputSpec, LogicalPlan, Windowing, without_absent
from semgraph.logical.relational import (
    Add,
    Computing,
    Filter,
    GroupJoin,
    Input,
    Join,
    Require,
    Union,
)  # fmt: skip
from semgraph.logical.schema import PATH
from semgraph.logical.semantic import SemMap
from semgraph.logical.sinks import Delete, Merge
from semgraph.meter import StepMetrics
from semgraph.options import ARGUMENTS, RunOptions
from semgraph.semantic.answers import SCHEMA_HINT, parse_answer_schema
from semgraph.session.resources import Resources
from semgraph.session.run import RunRequest, run_plan
from semgraph.stores.base import open_for_reading
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
        raise PlanError(
            Problem(
                f"plan {plan.name} has no example: give its inputs ({names})",
                hint=f"-i NAME=FILE{every}",
            )
        )
    return Example(example.get("inputs") or {}, tuple(example.get("after") or ()))


def no_plan(value: object) -> PlanError:
    """The error for a value that is not a plan."""
    kind = type(value).__name__
    if hasattr(value, "columns") or isinstance(value, (list, tuple)):
        return PlanError(
            Problem(
                f"{kind} holds rows, and run needs what to do with them",
                hint='make a relation: sg.table(rows).sem_filter("... {column} ...");'
                ' or name a plan: run("PLAN", NAME=rows)',
            )
        )
    hint = "give a path, a name, a plan that load_plan gave, or a frame"
    return PlanError(Problem(f"{kind} is no plan", hint=hint))


def refuse_unknown_words(
    call: str, plan: LogicalPlan, names: Iterable[str], method: Callable[..., Any]
) -> None:
    """Refuse a keyword that is neither an input of the plan nor an option of the call, if it
    resembles an option of this or another call. Raises PlanError.
    """
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
            raise PlanError(Problem(what, there=there, hint=hint))


_MOST_PROBLEMS = 10  # listed by one error
_OF_SESSIONS = {name: f"it belongs to the session: Session({name}=...)" for name in ARGUMENTS}


def refuse_taken(plan: LogicalPlan, inputs: Mapping[str, Any], options: RunOptions) -> None:
    """Refuse an input with the name of an option of the call that is set. Raises PlanError."""
    for name, value in options.changed.items():
        if name in plan.inputs and name not in inputs and not callable(value):
            line = next(
                (node.origin for node in walk(*plan.steps.values()) if _is_input(node, name)), None
            )
            what = f'input "{name}": {name}= is an option of this call, so its rows were not read'
            raise PlanError(Problem(what, position=line, hint=f'write inputs={{"{name}": rows}}'))


def _is_input(node: Node, name: str) -> bool:
    return isinstance(node, Input) and node.name == name


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


def refuse_other_groups(plan: LogicalPlan, tables: Mapping[str, pa.Table], group: str) -> None:
    """Refuse rows of a group other than the session's. Raises InputError."""
    problems = [
        Problem(
            f"input {name}, column {column}: {shown(other)} is not the group of this session, {shown(group)}",
            hint=f'write "{group}", or leave rows of other groups out',
        )
        for name, table in tables.items()
        for column in group_columns(plan, plan.inputs[name])
        for other in table.column(column).unique().to_pylist()
        if other is not None and other != group
    ]
    if problems:
        raise InputError(*problems)


def is_all(value: object) -> bool:
    """Whether the value is the word for all partitions of the store, which replaces rows."""
    return isinstance(value, str) and value == ALL


def typed_inputs(
    plan: LogicalPlan, inputs: Mapping[str, Any], rows: int | None
) -> dict[str, pa.Table]:
    """Every input as a typed table; without rows, the example's. An input that means all partitions
    of the store has no table. Raises PlanError or InputError.
    """
    for name in inputs:
        if name not in plan.inputs:
            what = f'plan {plan.name} has no input "{name}"'
            there = "inputs: " + (", ".join(plan.inputs) or "none")
            raise PlanError(Problem(what, there=there, hint=did_you_mean(name, plan.inputs)))
    source = inputs or (dict(example_rows(plan).inputs) if plan.inputs else {})
    tables: dict[str, pa.Table] = {}
    for name, spec in plan.inputs.items():
        table = _typed(plan, spec, source.get(name))
        if table is not None:
            beside = plan.windows is not None and _windowing(plan, spec) is None
            tables[name] = table if rows is None or beside else table.slice(0, rows)
    _refuse_schemas(plan, tables)
    _refuse_groups(plan, tables)
    return tables


def _typed(plan: LogicalPlan, spec: InputSpec, value: Any) -> pa.Table | None:
    """An input as a typed table; None if it means all partitions of the store."""
    own = isinstance(value, (Frame, LoadedInput))
    if isinstance(value, LoadedInput):
        value = value.rows
    if spec.or_all and (value is None or is_all(value)):
        return None
    if isinstance(value, Frame):
        value = _rows_of(spec.name, value)
    if value is None and not spec.optional:
        what = f"plan {plan.name} needs the input {spec.name}"
        raise PlanError(Problem(what, hint=f"-i {spec.name}=FILE"))
    rows = [] if value is None else value
    cut, aside = _windowing(plan, spec), set_aside(rows) if own else ()
    partition, key = (cut.partition, cut.key) if cut else ("", "")
    return read_rows(spec, rows, aside, partition=partition, key=key)


def _refuse_groups(plan: LogicalPlan, tables: Mapping[str, pa.Table]) -> None:
    """Refuse inputs without any row of a group that the plan takes. Raises InputError."""
    for rule in (node for node in walk(*plan.roots) if isinstance(node, Require)):
        if rule.where.columns != rule.says.columns or len(rule.where.columns) != 1:
            continue
        own = rule.where.columns[0]
        for name, column in _origins(rule.input, own, (Filter,)):
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
        for text in tables[name].column(column).unique().to_pylist() if exists else ():
            try:
                _ = text is None or parse_answer_schema(text)
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
    if isinstance(node, Input) and not rest:
        yield node.name, name
    elif isinstance(node, Computing) and (scalar := dict(node.columns).get(name)) is not None:
        if PATH.match(scalar.text):
            yield from _origins(node.input, f"{scalar.text}.{rest}" if rest else scalar.text, also)
    elif isinstance(node, Join) and node.alias and name == node.alias:
        yield from _origins(node.other, rest, also)
    elif isinstance(node, Union):
        for relation in node.relations:
            yield from _origins(relation, path, also)
    elif isinstance(node, (Add, GroupJoin, Require, *also)):
        yield from _origins(node.inputs[0], path, also)


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


def _rows_of(name: str, frame: Frame) -> pa.Table:
    """The rows of a relation that is an input. Raises InputError for a computed relation."""
    if frame.made.table is None:
        what = f"input {name} is a relation that is not computed yet ({frame.node.keyword})"
        raise InputError(Problem(what, hint=f"{name}=session.run(frame).to_arrow()"))
    return frame.made.table


async def run_before(
    request: RunRequest, prepare: Callable[[str | Path], LogicalPlan], resources: Resources
) -> list[Result]:
    """Run the plans that the example of a plan depends on, each on its example, in order.

    Args:
        request: The request of the plan; `progress`, `write`, `runs` and `begun` hold for all.
        prepare: Loads a plan by path or name.
        resources: The resources of all runs, with a shared budget if there is one.

    Returns:
        The results, in the order of the runs.

    Raises:
        PlanError: A plan deletes rows, and the store holds other rows.
        BudgetReached: A run stopped at a limit; later ones were not started.
    """
    asked = request.options
    if asked.writes:
        await _refuse_deletes(request.plan, resources)
    done: list[Result] = []
    for name in example_rows(request.plan).after:
        beside = Path(request.plan.file).parent / f"{name}.yaml"
        plan = prepare(beside if beside.is_file() else name)
        options = RunOptions(write=asked.write, progress=asked.progress, begun=asked.begun)
        one = RunRequest(plan, {}, options, request.runs)
        if plan.inputs:
            done += await run_before(one, prepare, resources)
        tables = typed_inputs(plan, {}, None)
        last = await run_plan(
            replace(one, plan=without_absent(plan, tables), inputs=tables), resources
        )
        done.append(last)
        if last.stopped:
            later = request.plan.name
            raise BudgetReached(
                f"{plan.name}, on which the example of {later} depends, {last.stopped}; {later} was not begun"
            )
    return done


async def _refuse_deletes(plan: LogicalPlan, resources: Resources) -> None:
    """Refuse the example of a plan that deletes rows without rewriting them if the store holds
    rows: they may be the user's.

    Raises:
        PlanError: The store holds rows.
        StoreUnavailable: The store does not answer.
    """
    written = {sink.label.name for sink in plan.writes if isinstance(sink, Merge)}
    deleted = [
        sink.label.name
        for sink in plan.writes
        if isinstance(sink, Delete) and sink.label.name not in written
    ]
    if not deleted or not resources.may_hold_rows:
        return
    async with resources.opened_store(plan.graph) as store:
        await open_for_reading(store, plan.graph)
        counts = {label: rows for label, rows in (await store.statistics()).counts.items() if rows}
        name = store.name
    if counts:
        first = next(iter(plan.inputs))
        what = f"no input, and the example of {plan.name} would delete {', '.join(deleted)} in a store that holds rows"
        there = f"{name} holds {', '.join(f'{rows} {label}' for label, rows in counts.items())}"
        every = f"; without rows: -i {first}=[]" if plan.inputs[first].optional else ""
        hint = f"give the input: -i {first}=FILE{every}; for the example alone: --store memory"
        raise PlanError(Problem(what, there=there, hint=hint))


def _whole(amount: float) -> str:
    return f"{amount:,.0f}"


_SPREAD = 1.96  # standard errors of a count on each side: 95 %


@dataclass(frozen=True)
class Sample:
    """The cost of `rows` out of `of` rows. It gives the estimated cost of all rows, with the 95 %
    range of a count of calls.

    `cost` includes answers from the journal at their price; `replayed` is their number.
    """

    rows: int
    of: int
    input: str
    cost: StepMetrics
    failed: int = 0
    replayed: int = 0

    @property
    def calls(self) -> int:
        """The calls of the sample, including those answered from the journal."""
        return self.cost.calls_issued

    def all(self, amount: float) -> tuple[float, float, float]:
        """An amount of the sample scaled to all rows: likely, lower bound, upper bound."""
        times = self.of / self.rows
        spread = _SPREAD / math.sqrt(self.calls) if self.calls and self.rows < self.of else 0.0
        return amount * times, amount * times * max(0.0, 1 - spread), amount * times * (1 + spread)

    def _amounts(self) -> dict[str, tuple[float, Callable[[float], str]]]:
        """Amounts by name, with their formatters."""
        amounts: dict[str, tuple[float, Callable[[float], str]]] = {"calls": (self.calls, _whole)}
        if self.calls:
            amounts["tokens in"] = (self.cost.tokens_in, _whole)
            amounts["tokens out"] = (self.cost.tokens_out, _whole)
            if self.cost.dollars is not None:
                amounts["dollars"] = (self.cost.dollars, partial(dollars, exact=True))
        return amounts

    def lines(self) -> list[str]:
        """Lines of text below a tree."""
        lost = f", {plural(self.failed, 'row')} failed" if self.failed else ""
        known = f" ({self.replayed} of them from the journal)" if self.replayed else ""
        lines = [
            f"sample: {self.rows:,} of {self.of:,} rows of {self.input}, {self.calls:,} calls{known}{lost}, nothing written"
        ]
        for name, (amount, text) in self._amounts().items():
            likely, least, most = map(text, self.all(amount))
            between = f" ({least} to {most})" if least != most else ""
            lines.append(f"  {name} for all rows ≈ {likely}{between}")
        lines.append("  ranges are 95 %, if the other rows are like these")
        return lines

    def as_data(self) -> dict[str, Any]:
        """The sample in EXPLAIN's JSON."""
        all_rows = {
            name: dict(zip(("likely", "least", "most"), self.all(amount), strict=True))
            for name, (amount, _) in self._amounts().items()
        }
        return {
            "rows": self.rows,
            "of": self.of,
            "input": self.input,
            "calls": self.calls,
            "all": all_rows,
        }


async def sampled(
    plan: LogicalPlan, inputs: Mapping[str, pa.Table], rows: int, resources: Resources
) -> Sample:
    """Run the first rows with real calls, in a copy of the rows that the plan reads. Raises PlanError
    if there are no rows.
    """
    name = (
        plan.windows.input
        if plan.windows is not None
        else max(inputs, key=lambda n: inputs[n].num_rows, default="")
    )
    if rows < 1 or not name or not inputs[name].num_rows:
        raise PlanError(
            Problem(
                "there is nothing to sample",
                hint=f"give the plan's inputs, with rows, and {option('sample', 20)}",
            )
        )
    some = {
        n: table.slice(0, min(rows, table.num_rows)) if n == name else table
        for n, table in inputs.items()
    }
    from semgraph.compare.trial import partitions_read, snapshot

    async with resources.opened_store(plan.graph) as store:
        read = await snapshot(plan, store, partitions_read(plan, some))
    async with read.copy(None) as copy:
        result = await run_plan(
            RunRequest(plan, some, RunOptions(again=True), sample=True), resources.over(copy)
        )
    cost = StepMetrics()
    for step in result.meter.steps.values():
        if step.operator:
            cost.add(step)
    replayed = result.meter.replayed
    cost.add(replayed)
    size = inputs[name].num_rows
    return Sample(min(rows, size), size, name, cost, len(result.failed), replayed.calls_issued)
