"""JSON Schemas of the files that users write, generated from what their readers accept: plans from
the arguments that node classes declare, graphs and the front matter of prompts from their keys.
Editors use them for completion and checks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from inspect import getdoc
from typing import Any

from semgraph.frontend import kinds
from semgraph.frontend.build import OPERATORS, SINKS, SOURCES, plan_keys
from semgraph.frontend.calls import CALL
from semgraph.frontend.example_rows import SCHEMA as EXAMPLES
from semgraph.frontend.graph_files import GRAPH
from semgraph.frontend.head import PLAN
from semgraph.frontend.kinds import CONDITION, KINDS, PIPELINE, REF, RELATION, Keys, Schema
from semgraph.frontend.load import SCHEMA_WRITE, STEP
from semgraph.frontend.prompt_files import FRONT, TYPES
from semgraph.logical.node import Node

_PROMPT = {
    "type": "object",
    "properties": {"on": kinds.NAMED},
    "required": ["on"],
    "additionalProperties": kinds.TEXT_SCHEMA,
}


def plan_schema() -> Schema:
    """The schema of a plan file, draft 2020-12. `semgraph plans schema` prints it."""
    return {**_of_file("semgraph plan", PLAN), "$defs": _definitions()}


def _of_file(title: str, keys: Keys) -> Schema:
    draft = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": draft, "title": title, **kinds.keys_schema(keys)}


# The schema of each kind of file, as `semgraph plans schema --of KIND` prints it.
SCHEMAS: dict[str, Callable[[], Schema]] = {
    "plan": plan_schema,
    "graph": partial(_of_file, "semgraph graph", GRAPH),
    "prompt": partial(_of_file, "front matter of a semgraph prompt", FRONT),
}


def _definitions() -> Schema:
    operators = {cls.keyword: _arguments(cls) for cls in OPERATORS}
    return {
        "relation": kinds.either(kinds.TEXT_SCHEMA, PIPELINE),
        "pipeline": {
            "type": "array",
            "minItems": 1,
            "prefixItems": [_single(_sources())],
            "items": _single(operators),
        },
        "step": kinds.either(PIPELINE, kinds.keys_schema(STEP)),
        "write": _write(),
        "answers": TYPES,
    }


def _write() -> Schema:
    writes: Schema = {}
    for cls in SINKS:
        described = {"description": getdoc(cls) or ""}
        writes[cls.keyword] = described | _object(cls, {"from": RELATION})
    doc = "Make what the graph needs of the store and the store lacks."
    writes["schema"] = {"description": doc, **kinds.keys_schema(SCHEMA_WRITE)}
    return {
        **kinds.closed({"if": CONDITION, **writes}),
        "oneOf": [{"required": [keyword]} for keyword in writes],
    }


def _sources() -> Schema:
    by_name = {cls.keyword: cls for cls in SOURCES}
    switch = {
        "type": "object",
        "properties": {"on": {}},
        "required": ["on"],
        "additionalProperties": RELATION,
    }
    return {
        "from": {
            "description": "A step, an input, a result `step.table`, or a label.",
            "anyOf": [kinds.TEXT_SCHEMA, _object(by_name["scan"])],
        },
        **{word: _arguments(by_name[word]) for word in ("union", "intersect", "except")},
        "call": {"description": "Another plan as a step.", **kinds.keys_schema(CALL)},
        "switch": {"description": "One of several forms, by a parameter.", **switch},
    }


def _arguments(cls: type[Node]) -> Schema:
    keys = plan_keys(cls)
    described = {"description": getdoc(cls) or ""}
    if cls.sole and len(keys) == 1:
        return described | _argument(keys[cls.sole])
    whole = _object(cls)
    return described | (kinds.either(_argument(keys[cls.sole]), whole) if cls.sole else whole)


def _object(cls: type[Node], extra: Mapping[str, Schema] | None = None) -> Schema:
    keys = plan_keys(cls)
    own = {key for key, f in keys.items() if key in {f.name, "over", f.metadata.get("key")}}
    properties = {key: _argument(f) if key in own else _BESIDE[key] for key, f in keys.items()}
    required = [key for key, f in keys.items() if f.default is dataclasses.MISSING and key in own]
    return kinds.closed({**(extra or {}), **properties}, [*(extra or {}), *required])


def _argument(f: dataclasses.Field[Any]) -> Schema:
    kind = f.metadata["kind"]
    if kind == "choice":
        return kinds.one_of(*f.metadata["choices"]).schema
    schema = _OTHERS[kind] if kind in _OTHERS else KINDS[kind].schema
    if f.default is not dataclasses.MISSING:
        schema = {"anyOf": [*schema.get("anyOf", [schema]), {"type": "null"}]}
    return {"description": f.metadata["doc"], **schema} if "doc" in f.metadata else schema


_OTHERS: Mapping[str, Schema] = {
    "body": PIPELINE,
    "prompt": kinds.either(kinds.TEXT_SCHEMA, _PROMPT),
    "refs": kinds.by_name(kinds.keys_schema(REF), kinds.NAMED),
}
_BESIDE: Mapping[str, Schema] = {
    "returns": {"$ref": "#/$defs/answers"},
    "role": kinds.COLUMN.schema,
    "examples": EXAMPLES,
}


def _single(properties: Mapping[str, Schema]) -> Schema:
    return {**kinds.closed(properties, []), "minProperties": 1, "maxProperties": 1}
