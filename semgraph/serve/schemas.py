"""The JSON Schemas of a plan's arguments and of its results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from semgraph.errors import Fault
from semgraph.expr.types import Type, type_of_arrow
from semgraph.frontend.kinds import Schema, closed, whole_parameter
from semgraph.logical.node import Node
from semgraph.logical.plan import ALL, InputSpec, LogicalPlan
from semgraph.logical.prompt import plain

Note = Callable[..., str]
"""The comment of a key of a plan file, by its path; "" if it has none."""
PARAMS, PRESET = "params", "preset"
"""The arguments beside the inputs."""
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
    """The schema of a tool's arguments: the inputs of the plan, `params` and `preset`.

    Args:
        plan: The plan, with its defaults.
        hidden: The columns that the server fills, by input. An input without other columns is no
            argument.
        note: The comments of the plan's file.
    """
    inputs = {
        name: _described(_rows(spec, hidden[name], note), note("inputs", name))
        for name, spec in plan.inputs.items()
        if visible(spec, hidden[name])
    }
    needed = [name for name in inputs if not plan.inputs[name].optional]
    presets = plan.document.get("presets") or {}
    schema = closed(
        {
            **inputs,
            **({PARAMS: _parameters(plan, note)} if plan.params else {}),
            **({PRESET: _preset(presets, note)} if presets else {}),
        },
        needed,
    )
    example = _example(plan, hidden, inputs)
    return schema | {"examples": [example]} if example else schema


def _example(
    plan: LogicalPlan, hidden: Mapping[str, frozenset[str]], inputs: Iterable[str]
) -> dict[str, Any]:
    """The first row of each input in the plan's example."""
    rows = (plan.document.get("example") or {}).get("inputs") or {}
    return {
        name: [plain({k: v for k, v in rows[name][0].items() if k not in hidden[name]})]
        for name in inputs
        if rows.get(name)
    }


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
    """The schema of a value: of an input, with NULL where the type says so; of a result, with NULL at
    every depth and all fields of structs.
    """
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
        return {}  # JSON of any kind
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
    """The values that a parameter takes: of the kind of its default, and those that presets set it
    to, as loading the plan accepts them.
    """
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
    """The values of parameters that pick the form of a step, where no other value can be."""
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
    notes = {
        name: note("presets", name) or str((body or {}).get("doc") or "")
        for name, body in presets.items()
    }
    described = "; ".join(f"{name}: {text}" for name, text in notes.items() if text)
    return {
        "enum": list(presets),
        "description": described or "A named set of parameters and implementations.",
    }


# -- results


def result_schema(plan: LogicalPlan) -> Schema:
    """The schema of a tool's result. Columns have types where no parameter can change them."""
    fixed = not plan.params and not plan.document.get("presets")
    tables = {
        name: {
            "type": "array",
            "items": _row(node) if fixed else {"type": "object"},
            "description": f"Columns: {_columns(node)}",
        }
        for name, node in plan.returns.items()
    }
    failed = closed(
        {"step": {"type": "string"}, "error": {"type": "string"}, "row": {"type": "object"}},
        ["step", "error", "row"],
    )
    counts: Schema = {"type": "object", "additionalProperties": _COUNT}
    money: Schema = {"type": ["number", "null"]}
    cost = {"calls": _COUNT, "tokens_in": _COUNT, "tokens_out": _COUNT, "dollars": money}
    return closed(
        {
            "run": {"type": "string", "description": "The id of the run, for `semgraph why`."},
            "tables": {
                "type": "object",
                "properties": tables,
                "additionalProperties": {"type": "array", "items": {"type": "object"}},
            },
            "left_out": {**counts, "description": "Rows beyond the limit of the server, by table."},
            "written": {**counts, "description": "Nodes and edges written or deleted, by label."},
            "skipped": {**_COUNT, "description": "Rows that are in the graph already."},
            "failed": {"type": "array", "items": failed},
            "notes": {"type": "array", "items": {"type": "string"}},
            "cost": closed(cost, cost),
        },
        ["run", "tables", "left_out", "written", "skipped", "failed", "notes", "cost"],
    )


def _row(node: Node) -> Schema:
    """The schema of a row of a result: every column, each of which may be NULL."""
    columns = {field.name: _result_value(field.type) for field in node.schema}
    return closed(columns, columns)


def _result_value(arrow: Any) -> Schema:
    try:
        kind = type_of_arrow(arrow)
    except Fault:
        return {}
    return _value(kind, of_result=True)


def _columns(node: Node) -> str:
    """The columns of a result with their types."""
    texts = []
    for field in node.schema:
        try:
            texts.append(f"{field.name} {type_of_arrow(field.type)}")
        except Fault:
            texts.append(field.name)
    return ", ".join(texts)
