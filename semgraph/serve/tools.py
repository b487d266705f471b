"""A plan as a tool: its name, the JSON Schemas of its arguments and results, and the rows and
parameters of a call.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Any

from semgraph.errors import Fault, InputError, PlanError, Problem, among
from semgraph.execution.result import Result
from semgraph.expr.types import Type, python_rows, type_of_arrow
from semgraph.formats import escaped, plural, stopped
from semgraph.frontend.document import parse, read_text
from semgraph.frontend.kinds import Schema, closed, whole_parameter
from semgraph.frontend.plan_files import Notes, PlanFile, listed, plan_file
from semgraph.llm.settings import Settings
from semgraph.logical.node import Node
from semgraph.logical.plan import ALL, InputSpec, LogicalPlan
from semgraph.logical.prompt import plain
from semgraph.logical.schema import Graph
from semgraph.logical.sinks import Delete
from semgraph.privacy import redacted, redacted_values, without_folders
from semgraph.render.outcome import cost, written
from semgraph.render.plans import grouped
from semgraph.session.inputs import group_columns

_LONGEST = 64  # characters of a name; most agents accept no more
_FAILURES = 5  # failed rows in the text of an error


@dataclass(frozen=True)
class Call:
    """The arguments of `Session.arun` for one call of a tool."""

    inputs: Mapping[str, Any]
    params: Mapping[str, Any]
    preset: str | None


@dataclass(frozen=True)
class PlanTool:
    """A plan as a tool."""

    file: PlanFile
    group: str | None = None  # the group that all rows get; None: callers name it

    @property
    def plan(self) -> LogicalPlan:
        """The plan, with its defaults. Raises PlanError."""
        return self.file.plan

    @property
    def name(self) -> str:
        """The name of the plan, with `_` for each character that a tool name cannot have.

        A plan outside of any folder of plans uses its own name.
        """
        in_folder = self.file.name != str(self.file.path)
        name = self.file.name if in_folder else self.plan.name
        return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:_LONGEST]

    @property
    def description(self) -> str:
        """The plan's own description."""
        return public(self.plan.doc.strip()) or f"Runs the plan {self.plan.name}."

    @cached_property
    def arguments(self) -> Schema:
        """The JSON Schema of the arguments."""
        text = read_text(self.file.path)
        notes = Notes(text, parse(text, self.file.path.name))
        return arguments_schema(self.plan, self._filled, notes.at)

    @property
    def writes(self) -> bool:
        """Whether it may write to the store."""
        plan = self.plan
        return bool(plan.writes or plan.schema_write or plan.document.get("writes"))

    @property
    def deletes(self) -> bool:
        """Whether it deletes stored rows."""
        return any(isinstance(sink, Delete) for sink in self.plan.writes)

    @cached_property
    def _filled(self) -> dict[str, frozenset[str]]:
        """The columns that the server fills, by input: those with a group, or lists of groups."""
        inputs = self.plan.inputs.items()
        return {name: frozenset(self._group_values(spec)) for name, spec in inputs}

    def _group_values(self, spec: InputSpec) -> dict[str, Any]:
        """The values of these columns."""
        if self.group is None:
            return {}
        own = dict.fromkeys(group_columns(self.plan, spec), self.group)
        several = {f"{name}s" for name in (*own, self.plan.graph.partition)}
        lists = {name for name, kind in spec.columns if name in several and kind.item is not None}
        return {**own, **{name: [self.group] for name in lists}}

    # -- calls

    def call(self, arguments: Mapping[str, Any]) -> Call:
        """A call with these arguments. They are data: none of them names a file. Raises PlanError, or
        InputError for a row with a column that the input lacks.
        """
        remaining = dict(arguments)
        params, preset = remaining.pop(PARAMS, None), remaining.pop(PRESET, None)
        if params is not None and not isinstance(params, Mapping):
            raise PlanError(f"{PARAMS} must be an object of parameters")
        is_file = isinstance(preset, str) and preset.endswith((".yaml", ".yml"))
        if preset is not None and (is_file or not isinstance(preset, str)):
            raise PlanError(f"{PRESET} must be the name of a preset")
        known = [n for n, spec in self.plan.inputs.items() if visible(spec, self._filled[n])]
        for name in remaining:
            if name not in known:
                every = among(name, self.arguments["properties"], "arguments")
                raise PlanError(f'{self.name} has no argument "{name}"', **every)
        specs = self.plan.inputs.items()
        inputs = {name: self._rows(spec, remaining.get(name)) for name, spec in specs}
        return Call(inputs, params or {}, preset)

    def _rows(self, spec: InputSpec, rows: Any) -> Any:
        """The rows of an input. A missing input never means the plan's example."""
        fill = self._group_values(spec)
        columns = visible(spec, self._filled[spec.name])
        if not columns:
            return [fill]
        if rows is None:
            if not spec.optional:
                raise InputError(f"{self.name} needs the argument {spec.name}: a list of rows")
            return ALL if spec.or_all else []
        if spec.or_all and rows == ALL:
            return ALL
        needed = [name for name, kind in spec.columns if name in columns and not kind.nullable]
        shape = ", ".join(f'"{name}": ...' for name in needed or columns[:1])
        hint = f"write a list of objects: [{{{shape}}}]"
        if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
            raise InputError(f"{self.name}: {spec.name} is no list of rows", hint=hint)
        _require_columns(spec, columns, rows)
        for number, row in enumerate(rows, 1):
            for name in (each for each in needed if each not in row):
                what = f'{self.name}: row {number} of {spec.name} has no "{name}"'
                raise InputError(what, hint=hint)
        return [{**row, **fill} for row in rows]

    def groups(self, call: Call) -> list[str]:
        """The groups that the rows of a call name."""
        named = {
            row.get(column)
            for name, rows in call.inputs.items()
            for column in group_columns(self.plan, self.plan.inputs[name])
            for row in (rows if isinstance(rows, list) else ())
            if isinstance(row, Mapping)
        }
        return sorted(group for group in named if isinstance(group, str))


def _require_columns(spec: InputSpec, columns: Iterable[str], rows: Iterable[Any]) -> None:
    """Refuse columns that the input lacks; a run would drop them. Raises InputError."""
    known, problems = list(columns), dict[str, Problem]()
    for number, row in enumerate(rows, 1):
        for name in (each for each in row if each not in known):
            what = f'input {spec.name}, row {number}: no column "{name}"'
            problems[name] = Problem(what, **among(name, known, "columns"))
    if problems:
        raise InputError(*problems.values())


def tools_of(names: Iterable[str], settings: Settings, group: str | None = None) -> list[PlanTool]:
    """The tools for plans by name or path. `all` means every plan that is no part of another; with
    a group, also without plans that change the indexes of all groups. Raises PlanError, also if two
    have the same name, or one changes the schema of the store while the server has one group.
    """
    tools = [PlanTool(file, group) for file in _files(names, settings, group)]
    problems = [problem for tool in tools for problem in _problems(tool)]
    by_name: dict[str, PlanTool] = {}
    for tool in tools:
        other = by_name.setdefault(tool.name, tool)
        if other is not tool:
            what = f"{other.file.path} and {tool.file.path} are both the tool {tool.name}"
            problems.append(Problem(what, hint="serve one of them, or give one another name"))
    if problems:
        raise PlanError(*problems)
    return tools


def _files(names: Iterable[str], settings: Settings, group: str | None) -> Iterator[PlanFile]:
    seen = set()
    for name in names:
        if name == ALL:
            every = grouped(listed(settings.functions))[0]
            files = [file for file in every if group is None or file.plan.schema_write is None]
        else:
            files = [plan_file(name, settings.functions)]
        for file in files:
            if (path := file.path.resolve()) not in seen:
                seen.add(path)
                yield file


def _problems(tool: PlanTool) -> Iterator[Problem]:
    for name in (PARAMS, PRESET):
        if name in tool.plan.inputs:
            what = f"{tool.file.path}: the input {name} has the name of another argument of a tool"
            yield Problem(what, hint="give the input another name")
    if tool.group is not None and tool.plan.schema_write is not None:
        what = f'{tool.name} changes the indexes of all groups, and this server has the group "{tool.group}" alone'
        yield Problem(what, hint="leave the plan out, or --group")


# -- results


def public(text: str) -> str:
    """A text for clients: without secrets, terminal escapes and folders of the server."""
    return escaped(without_folders(redacted(text)))


def structured(result: Result, limit: int) -> dict[str, Any]:
    """The result of a call as JSON: at most `limit` rows of each table."""
    total = result.meter.total()
    cost = {name: getattr(total, name) for name in ("tokens_in", "tokens_out", "dollars")}
    left_out = {name: result.count(name) - limit for name in result.tables}
    outcome = {
        "run": result.run,
        "left_out": {name: count for name, count in left_out.items() if count > 0},
        "written": {label: count for label, count in result.written.items() if count},
        "skipped": result.skipped,
        "failed": [
            {"step": f.step, "error": public(f.error), "row": plain(_without_vectors(f.row))}
            for f in result.failed
        ],
        "notes": list(map(public, result.notes)),
        "cost": {"calls": total.calls_issued, **cost},
    }
    heads = {name: python_rows(result.head(name, limit)) for name in result.tables}
    tables = {name: list(map(plain, rows)) for name, rows in heads.items()}
    text = json.dumps(_finite({**redacted_values(outcome), "tables": tables}), default=str)
    value: dict[str, Any] = json.loads(text)
    return value


def _without_vectors(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of a step, without the numeric columns that only searches read."""
    vectors = {n for n, v in row.items() if isinstance(v, list) and v and isinstance(v[0], float)}
    return {name: value for name, value in row.items() if name not in vectors}


def _finite(value: Any) -> Any:
    """A value without infinity and NaN, which JSON lacks."""
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def summary(
    result: Result, outcome: Mapping[str, Any], graph: Graph, seconds: float
) -> Iterator[str]:
    """The text lines of a call: failures, number of rows, the edges with their times, writes, cost."""
    if result.stopped:
        yield stopped(result.stopped)
    failed = outcome["failed"]
    if failed:
        yield f"{plural(len(failed), 'row')} failed:"
        yield from (f"  {each['step']}: {each['error']}" for each in failed[:_FAILURES])
        if len(failed) > _FAILURES:
            yield f"  … and {len(failed) - _FAILURES} more"
    tables = ", ".join(f"{plural(result.count(name), 'row')} of {name}" for name in result.tables)
    yield f"{result.plan}, run {result.run}: {tables or 'no results'}"
    yield from edge_lines(outcome["tables"], graph)
    for name, count in outcome["left_out"].items():
        rows = len(outcome["tables"][name])
        yield f"{name}: the first {rows} of {rows + count} rows; {count} are left out (--max-rows {rows})"
    if result.written:
        yield written(outcome["written"])
    if result.skipped:
        yield f"in the graph already: {result.skipped} of {plural(result.members, 'row')}"
    yield from (f"! {note}" for note in outcome["notes"])
    yield cost(result.meter.total(), seconds)


Note = Callable[..., str]  # the comment of a key of a plan file, by its path; "" if it has none
PARAMS, PRESET = "params", "preset"  # the arguments in addition to the inputs
_ATOMS: Mapping[str, Schema] = {
    "string": {"type": "string"},
    "int64": {"type": "integer"},
    "double": {"type": "number"},
    "boolean": {"type": "boolean"},
    "timestamp": {"type": "string", "format": "date-time"},
    "date": {"type": "string", "format": "date"},
}
_COUNT: Schema = {"type": "integer", "minimum": 0}


def arguments_schema(plan: LogicalPlan, hidden: Mapping[str, frozenset[str]], note: Note) -> Schema:
    """The schema of a tool's arguments: the inputs of the plan, `params` and `preset`. The server
    fills the `hidden` columns; an input without others is not an argument.
    """
    inputs = {
        name: _described(_rows(spec, hidden[name], note), note("inputs", name))
        for name, spec in plan.inputs.items()
        if visible(spec, hidden[name])
    }
    needed = [name for name in inputs if not plan.inputs[name].optional]
    presets = plan.document.get("presets") or {}
    arguments = dict(inputs)
    if plan.params:
        arguments[PARAMS] = _parameters(plan, note)
    if presets:
        arguments[PRESET] = _preset(presets, note)
    schema = closed(arguments, needed)
    example = _example(plan, hidden, inputs)
    return schema | {"examples": [example]} if example else schema


def _example(
    plan: LogicalPlan, hidden: Mapping[str, frozenset[str]], inputs: Iterable[str]
) -> dict[str, Any]:
    """The first row of each input in the plan's example."""
    rows = (plan.document.get("example") or {}).get("inputs") or {}
    first = {name: rows[name][0].items() for name in inputs if rows.get(name)}
    return {n: [plain({k: v for k, v in own if k not in hidden[n]})] for n, own in first.items()}


def visible(spec: InputSpec, hidden: frozenset[str]) -> list[str]:
    """The columns of an input that a caller fills."""
    return [name for name, _ in spec.columns if name not in hidden]


def _rows(spec: InputSpec, hidden: frozenset[str], note: Note) -> Schema:
    columns = {
        name: _described(_value(kind), note("inputs", spec.name, name))
        for name, kind in spec.columns
        if name not in hidden
    }
    needed = [name for name, kind in spec.columns if name in columns and not kind.nullable]
    rows: Schema = {"type": "array", "items": closed(columns, needed)}
    return {"anyOf": [rows, {"const": ALL}]} if spec.or_all else rows


def _value(kind: Type, *, of_result: bool = False) -> Schema:
    """The schema of a value; in a result NULL is allowed everywhere, and structs are complete."""
    null = of_result or kind.nullable
    inside = partial(_value, of_result=of_result)
    if kind.item is not None:
        body: Schema = {"type": "array", "items": inside(kind.item)}
    elif kind.name == "struct":
        needed = [name for name, inner in kind.fields if of_result or not inner.nullable]
        body = closed({name: inside(inner) for name, inner in kind.fields}, needed)
    elif kind.name == "vector":
        size = {"minItems": kind.size, "maxItems": kind.size} if kind.size else {}
        body = {"type": "array", "items": {"type": "number"}, **size}
    elif kind.name == "enum":
        return {"enum": [*kind.values, *([None] if null else [])]}
    elif kind.name not in _ATOMS:
        return {}  # any JSON value
    else:
        body = dict(_ATOMS[kind.name])
    return body | {"type": [body["type"], "null"]} if null else body


def _described(schema: Schema, text: str) -> Schema:
    return {**schema, "description": text} if text else schema


# -- parameters


def _parameters(plan: LogicalPlan, note: Note) -> Schema:
    declared = plan.document.get("params") or {}
    presets = (plan.document.get("presets") or {}).values()
    forms = _forms(plan)
    each: dict[str, Schema] = {}
    for name, default in declared.items():
        set_to = [body["params"][name] for body in presets if name in (body.get("params") or {})]
        kind = {"enum": forms[name]} if name in forms else _parameter(default, set_to)
        each[name] = _described({**kind, "default": default}, note("params", name))
    return closed(each) | {"description": "Parameters of the plan; the defaults serve most calls."}


def _parameter(default: Any, set_to: Iterable[Any]) -> Schema:
    """The values of a parameter: of the type of its default, and those that presets set."""
    if isinstance(default, bool):
        kind: Schema = {"type": ["boolean", "null"]}
    elif isinstance(default, (int, float)):
        kind = {"type": ["number", "null"]}
    elif isinstance(default, str):
        return {"type": ["string", "number", "boolean", "null"]}
    else:
        return {"type": ["array", "null"]} if isinstance(default, list) else {}
    others = [value for value in set_to if isinstance(value, str)]
    return {"anyOf": [kind, {"enum": list(dict.fromkeys(others))}]} if others else kind


def _forms(plan: LogicalPlan) -> dict[str, list[str]]:
    """The values of parameters that select the form of a step, if no other value is valid."""
    forms: dict[str, list[str]] = {}
    for step in (plan.document.get("steps") or {}).values():
        first = step[0] if isinstance(step, list) and step else {}
        switch = first.get("switch") if isinstance(first, Mapping) else None
        name = whole_parameter(switch.get("on")) if isinstance(switch, Mapping) else ""
        if name and isinstance(switch, Mapping):
            values = [value for value in switch if value != "on"]
            if all(isinstance(value, str) for value in values):
                forms[name] = values
    return forms


def _preset(presets: Mapping[str, Any], note: Note) -> Schema:
    pairs = ((n, note("presets", n) or (body or {}).get("doc")) for n, body in presets.items())
    described = "; ".join(f"{name}: {text}" for name, text in pairs if text)
    about = described or "A named set of parameters and implementations."
    return {"enum": list(presets), "description": about}


# -- results


def result_schema(plan: LogicalPlan) -> Schema:
    """The schema of a tool's result. A column has a type if no parameter can change it."""
    fixed = not plan.params and not plan.document.get("presets")
    tables = {
        name: {
            "type": "array",
            "items": _row(node) if fixed else {"type": "object"},
            "description": f"Columns: {_columns(node)}",
        }
        for name, node in plan.returns.items()
    }
    text, other = {"type": "string"}, {"type": "object"}
    failed = {"step": text, "error": text, "row": other}
    counts: Schema = {"type": "object", "additionalProperties": _COUNT}
    money: Schema = {"type": ["number", "null"]}
    cost = {"calls": _COUNT, "tokens_in": _COUNT, "tokens_out": _COUNT, "dollars": money}
    more = {"type": "array", "items": other}
    members = {
        "run": _described(text, "The id of the run, for `semgraph why`."),
        "tables": {"type": "object", "properties": tables, "additionalProperties": more},
        "left_out": _described(counts, "Rows beyond the limit of the server, by table."),
        "written": _described(counts, "Nodes and edges written or deleted, by label."),
        "skipped": _described(_COUNT, "Rows that are in the graph already."),
        "failed": {"type": "array", "items": closed(failed, failed)},
        "notes": {"type": "array", "items": text},
        "cost": closed(cost, cost),
    }
    return closed(members, members)


def _row(node: Node) -> Schema:
    kinds = _kinds(node).items()
    columns = {name: {} if kind is None else _value(kind, of_result=True) for name, kind in kinds}
    return closed(columns, columns)


def _columns(node: Node) -> str:
    return ", ".join(f"{name} {kind or ''}".rstrip() for name, kind in _kinds(node).items())


def _kinds(node: Node) -> dict[str, Type | None]:
    """The types of the columns of a result; None if plans have no such type."""
    kinds: dict[str, Type | None] = dict.fromkeys(node.schema.names)
    for field in node.schema:
        with suppress(Fault):
            kinds[field.name] = type_of_arrow(field.type)
    return kinds


def edge_lines(tables: Mapping[str, Sequence[Mapping[str, Any]]], graph: Graph) -> Iterator[str]:
    """The texts of returned edges with their times: those that hold before those that have ended."""
    draws = dict.fromkeys(graph.draws.get(label.name, graph.draw) for label in graph.edges)
    now = datetime.now(UTC).isoformat()
    for draw in (draw for draw in draws if draw.text):
        edges = [row for rows in tables.values() for row in rows if row.get(draw.text)]
        for row in sorted(edges, key=lambda row: str(row.get(draw.end) or "~") <= now):
            times = {"from": row.get(draw.start), "until": row.get(draw.end)}
            told = ((word, str(time)[:16]) for word, time in times.items() if time)
            said = [f"{word} {time.replace('T', ' ')}" for word, time in told]
            yield f"- {row[draw.text]}" + (f" ({', '.join(said)})" if said else "")
