"""JSON Schemas of the files that users write, from what their readers accept: of plans by the
arguments that the node classes declare, of graphs and of the front matter of prompts by their keys.
Editors complete and check these files with them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from inspect import getdoc
from typing import Any

from semgraph.expr.functions import TEXT_FUNCTIONS
from semgraph.frontend.arguments import PARAMETER
from semgraph.frontend.build import OPERATORS, SINKS, SOURCES, plan_keys
from semgraph.frontend.head import KEYS, WINDOWS_KEYS
from semgraph.frontend.prompt_files import FRONT_KEYS
from semgraph.logical.node import Node
from semgraph.logical.schema import DRAWN, EDGE_KEYS, GRAPH_KEYS, LABEL_KEYS, NAME, OPEN, PATH

Schema = dict[str, Any]


def _whole(pattern: re.Pattern[str]) -> Schema:
    """A text that matches a pattern as a whole."""
    return {"type": "string", "pattern": f"^{_of_schemas(pattern)}$"}


def _of_schemas(pattern: re.Pattern[str]) -> str:
    """A pattern for JSON Schema, where the classes of letters are those of ASCII: what is no blank and
    no sign of ASCII is a letter.
    """
    text = pattern.pattern.removesuffix(r"\Z")
    return text.replace(r"[^\W\d]", rf"[^\d{_SIGNS}]").replace(r"\w", f"[^{_SIGNS}]")


_SIGNS = r"\s!-/:-@\[-^`{-~"
_NAMED, _PATH, _PARAMETER = _whole(NAME), _whole(PATH), _whole(PARAMETER)
_SCALAR: Schema = {"type": ["string", "number", "boolean"]}
_TEXT: Schema = {"type": "string"}
_CHOICE: Schema = {"anyOf": [_TEXT, {"type": "object", "minProperties": 1, "maxProperties": 1}]}
_ANY_RELATION: Schema = {"$ref": "#/$defs/relation"}
_CONDITION: Schema = {
    "anyOf": [
        _PARAMETER,
        {"type": "boolean"},
        {"type": "object", "patternProperties": {r"^\$": {}}, "minProperties": 1},
    ]
}


def plan_schema() -> Schema:
    """The schema of a plan file, draft 2020-12. `semgraph plans schema` prints it."""
    plan = _of_file("semgraph plan", {key: _KEY_SCHEMAS[key] for key in KEYS}, ["plan"])
    return {**plan, "$defs": _definitions()}


def graph_schema() -> Schema:
    """The schema of a graph file. `semgraph plans schema --of graph` prints it."""
    return _of_file("semgraph graph", {key: _graph_keys()[key] for key in GRAPH_KEYS}, [])


def prompt_schema() -> Schema:
    """The schema of the front matter of a prompt file. `semgraph plans schema --of prompt` prints
    it.
    """
    front = {key: _FRONT_SCHEMAS[key] for key in FRONT_KEYS}
    return _of_file("front matter of a semgraph prompt", front, [])


SCHEMAS: dict[str, Callable[[], Schema]] = {
    "plan": plan_schema,
    "graph": graph_schema,
    "prompt": prompt_schema,
}
"""The schema of each kind of file."""


def _of_file(title: str, properties: Schema, required: list[str]) -> Schema:
    draft = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": draft, "title": title, **closed(properties, required)}


def _drawn() -> Schema:
    drawn = {key: {"description": text, **_TEXT} for key, text in _DRAWN_TEXTS.items()}
    return {
        "description": "The properties that a picture of the graph shows.",
        **_optional(closed({key: drawn[key] for key in DRAWN}, [])),
    }


def _graph_keys() -> dict[str, Schema]:
    schemas = {**_LABEL_SCHEMAS, "draw": _drawn()}
    label = {key: schemas[key] for key in LABEL_KEYS}
    edge = {key: schemas[key] for key in EDGE_KEYS}
    return {
        "graph": {"description": "Its name.", **_TEXT},
        "key": {"description": "The property that names a node or an edge: uuid.", **_NAMED},
        "partition": {"description": "The property that names its partition: group_id.", **_NAMED},
        "common": {"description": "Properties of all labels.", **_named(_TEXT)},
        "nodes": {"description": "Node labels.", **_named(_optional(closed(label, [])))},
        "edges": {"description": "Edge types.", **_named(closed(edge, ["source", "target"]))},
        "draw": _drawn(),
    }


def _named(values: Schema) -> Schema:
    """A mapping of names; nothing is an empty one."""
    return _optional({**_map(values), "propertyNames": _NAMED})


def _optional(schema: Schema) -> Schema:
    return {**schema, "type": [schema["type"], "null"]}


def _definitions() -> Schema:
    operators = {cls.keyword: _arguments(cls) for cls in OPERATORS}
    return {
        "relation": _either(_TEXT, {"$ref": "#/$defs/pipeline"}),
        "pipeline": {
            "type": "array",
            "minItems": 1,
            "prefixItems": [_single(_sources())],
            "items": _single(operators),
        },
    }


def _sources() -> Schema:
    by_name = {cls.keyword: cls for cls in SOURCES}
    called = {
        "plan": _TEXT,
        "inputs": _either(_map(_ANY_RELATION), {"type": "array", "items": _NAMED}),
        "params": _either(_map({}), {"type": "array", "items": _NAMED}),
        "preset": _TEXT,
    }
    switch = {
        "type": "object",
        "properties": {"on": {}},
        "required": ["on"],
        "additionalProperties": _ANY_RELATION,
    }
    return {
        "from": {
            "description": "A step, an input, a result `step.table`, or a label.",
            "anyOf": [_TEXT, _object(by_name["scan"])],
        },
        "union": _arguments(by_name["union"]),
        "call": {"description": "Another plan as a step.", **closed(called, ["plan"])},
        "switch": {"description": "One of several forms, by a parameter.", **switch},
    }


def _arguments(cls: type[Node]) -> Schema:
    """What may stand after an operator's keyword."""
    keys = plan_keys(cls)
    described = {"description": getdoc(cls) or ""}
    if cls.sole and len(keys) == 1:
        return described | _argument(keys[cls.sole])
    whole = _object(cls)
    return described | (_either(_argument(keys[cls.sole]), whole) if cls.sole else whole)


def _object(cls: type[Node], extra: Mapping[str, Schema] | None = None) -> Schema:
    keys = plan_keys(cls)
    own = {key for key, f in keys.items() if key in {f.name, "over", f.metadata.get("key")}}
    properties = {key: _argument(f) if key in own else _BESIDE[key] for key, f in keys.items()}
    required = [key for key, f in keys.items() if f.default is dataclasses.MISSING and key in own]
    return closed({**(extra or {}), **properties}, [*(extra or {}), *required])


def _argument(f: dataclasses.Field[Any]) -> Schema:
    choices = f.metadata.get("choices", ())
    if f.metadata["kind"] == "choice":
        return _either({"enum": [*choices, *([None] if "null" in choices else [])]}, _PARAMETER)
    schema = _KINDS[f.metadata["kind"]]()
    if f.default is not dataclasses.MISSING:
        schema = {"anyOf": [*schema.get("anyOf", [schema]), {"type": "null"}]}
    return {"description": f.metadata["doc"], **schema} if "doc" in f.metadata else schema


def _either(*schemas: Schema) -> Schema:
    flat: list[Schema] = []
    for schema in schemas:
        flat += schema["anyOf"] if set(schema) == {"anyOf"} else [schema]
    return {"anyOf": flat}


def closed(properties: Mapping[str, Schema], required: Iterable[str] = ()) -> Schema:
    """An object with these properties and no others."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def _single(properties: Mapping[str, Schema]) -> Schema:
    return {**closed(properties, []), "minProperties": 1, "maxProperties": 1}


def _map(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def _columns() -> Schema:
    computed = {
        "type": "object",
        "propertyNames": _NAMED,
        "additionalProperties": {"type": [*_SCALAR["type"], "null"]},
    }
    return _either(computed, _names())


def _names() -> Schema:
    return _either(_NAMED, {"type": "array", "items": _NAMED, "uniqueItems": True}, _PARAMETER)


def _using() -> Schema:
    pairs = {
        "type": "object",
        "propertyNames": _PATH,
        "additionalProperties": {**_PATH, "type": ["string", "null"]},
    }
    return _either(_PATH, {"type": "array", "items": _PATH}, pairs, _PARAMETER)


def _order() -> Schema:
    return _either(_SCALAR, {"type": "array", "items": _SCALAR})


def _methods() -> Schema:
    to = {"to": _SCALAR, "if": _CONDITION}
    each = [
        closed({"equal": _NAMED, **to}, ["equal"]),
        closed({"fulltext": _NAMED, **to, "rank": {"enum": ["store", "overlap"]}}, ["fulltext"]),
        closed(
            {"nearest": _NAMED, **to, "above": _either({"type": "number"}, _PARAMETER)}, ["nearest"]
        ),
    ]
    return _either(*each, {"type": "array", "items": _either(*each, _PARAMETER)}, _PARAMETER)


def _prompt() -> Schema:
    by_value = {
        "type": "object",
        "properties": {"on": _NAMED},
        "required": ["on"],
        "additionalProperties": _TEXT,
    }
    return _either(_TEXT, by_value)


def _refs() -> Schema:
    records = {
        "of": _ANY_RELATION, "using": _using(), "where": _KINDS["scalar"](), "order": _order(),
        "limit": _KINDS["number"](), "shows": _columns(), "number": _NAMED,
        "unknown": {"enum": ["ask", "drop"]},
    }  # fmt: skip
    return {**_map(closed(records, ["of", "shows"])), "propertyNames": _NAMED}


def _check() -> Schema:
    parts = {"where": _KINDS["scalar"](), "message": dict(_SCALAR), "retries": _KINDS["number"]()}
    return closed(parts, ["where", "message"])


def _over() -> Schema:
    pair = {"type": "array", "prefixItems": [_TEXT, _ANY_RELATION], "minItems": 2, "maxItems": 2}
    return _either(_TEXT, pair, {"$ref": "#/$defs/pipeline"})


_KINDS: dict[str, Callable[[], Schema]] = {
    "relation": lambda: _either(_ANY_RELATION),
    "relations": lambda: {"type": "array", "items": _ANY_RELATION, "minItems": 1},
    "scalar": lambda: {
        "anyOf": [dict(_SCALAR), {"type": "array", "items": dict(_SCALAR), "minItems": 1}]
    },
    "partition": lambda: _either(
        _NAMED, {"type": "array", "prefixItems": [_NAMED, {"const": "all"}], "minItems": 2}
    ),
    "columns": _columns,
    "names": _names,
    "name": lambda: _either(_NAMED, _PARAMETER),
    "new_name": lambda: _either(_NAMED, _PARAMETER),
    "body": lambda: {"$ref": "#/$defs/pipeline"},
    "path": lambda: _either(_PATH, _PARAMETER),
    "number": lambda: _either(
        {"type": "integer", "minimum": 0}, {"type": "string", "pattern": r"\$"}
    ),
    "algorithm": lambda: dict(_CHOICE),
    "flag": lambda: _either({"type": "boolean"}, _PARAMETER),
    "order": _order,
    "using": _using,
    "prompt": _prompt,
    "refs": _refs,
    "check": _check,
    "over": _over,
    "methods": _methods,
    "pattern": lambda: dict(_TEXT),
    "label": lambda: dict(_TEXT),
}
_TYPES_BY_NAME: Schema = _map(_either(_TEXT, closed({"type": _TEXT, "describe": _TEXT}, ["type"])))
_BESIDE: Mapping[str, Schema] = {"returns": _TYPES_BY_NAME, "role": _either(_NAMED, _PARAMETER)}
_ROWS: Schema = _map({"type": "array", "items": {"type": "object"}})
_STEP: Schema = _either(
    {"$ref": "#/$defs/pipeline"},
    closed({"if": _CONDITION, "do": {"$ref": "#/$defs/pipeline"}}, ["do"]),
)
_WINDOWS_VALUES: dict[str, Schema] = {
    "input": _NAMED,
    "partition": _either(_NAMED, _PARAMETER),
    "order": _names(),
    "key": _either(_NAMED, _PARAMETER),
    "key_of": _names(),
    "size": _either({"type": "integer", "minimum": 1}, {"enum": ["all", "ready"]}, _PARAMETER),
    "ahead": _either({"type": "integer", "minimum": 1}, _PARAMETER),
    "on_error": _either({"enum": ["set_aside", "stop"]}, _PARAMETER),
}
_SCHEMA_WRITE: Schema = {
    "description": "Make what the graph needs of the store and the store lacks; drop: first drop indexes of its names.",
    **closed({"drop": _either({"type": "boolean"}, _PARAMETER)}, []),
}
_WRITES = {
    **{
        cls.keyword: {"description": getdoc(cls) or "", **_object(cls, {"from": _ANY_RELATION})}
        for cls in SINKS
    },
    "schema": _SCHEMA_WRITE,
}
_SINK: Schema = {
    **closed({"if": _CONDITION, **_WRITES}, []),
    "oneOf": [{"required": [keyword]} for keyword in _WRITES],
}
_KEY_SCHEMAS: dict[str, Schema] = {
    "plan": {"description": "Its name.", **_NAMED},
    "doc": {"description": "What it does.", **_TEXT},
    "graph": {"description": "The graph file beside the plan.", **_TEXT},
    "inputs": {
        "description": "Typed tables.",
        "type": "object",
        "propertyNames": _NAMED,
        "additionalProperties": _map(_TEXT),
    },
    "optional": {
        "description": "Inputs that need not be given: without rows, or all partitions of the store.",
        **_either(_names(), {"type": "object", "additionalProperties": {"enum": ["none", "all"]}}),
    },
    "params": {
        "description": "Parameters and their defaults.",
        "type": "object",
        "propertyNames": _NAMED,
    },
    "presets": {
        "description": "Named sets of parameters and choices.",
        **_map(closed({"params": _map({}), "use": _map(_CHOICE), "doc": _TEXT}, [])),
    },
    "windows": {
        "description": "How an input is cut into windows.",
        **closed({key: _WINDOWS_VALUES[key] for key in WINDOWS_KEYS}, ["input"]),
    },
    "steps": {
        "description": "Named relations.",
        "type": "object",
        "propertyNames": _NAMED,
        "additionalProperties": _STEP,
    },
    "writes": {"description": "What is written to the graph.", "type": "array", "items": _SINK},
    "returns": {
        "description": "Results: steps, or {name: step}.",
        **_either({"type": "array", "items": _TEXT}, _map(_ANY_RELATION)),
    },
    "use": {
        "description": "How steps are done: {step: implementation(parameter=value)}, or {step: plan}.",
        **_map(_CHOICE),
    },
    "allow": {"description": "Rewrites that may change answers.", "type": "array", "items": _NAMED},
    "calls": {
        "description": "How many calls of a model it takes, for people: a formula, of what (per), and what it names (where).",
        **closed({"formula": _TEXT, "per": _TEXT, "where": _map(_TEXT)}, ["formula"]),
    },
    "example": {
        "description": "What runs when no input is given.",
        **closed(
            {"inputs": _ROWS, "after": _either(_NAMED, {"type": "array", "items": _NAMED})}, []
        ),
    },
}
_NAMES_LISTED: Schema = {"type": ["array", "null"], "items": _NAMED}
_LABEL_SCHEMAS: dict[str, Schema] = {
    "properties": {"description": "Properties with their types.", **_named(_TEXT)},
    "derived": {
        "description": "Properties that each write fills: key(name), or {embed: name}.",
        **_named(
            _either(
                {
                    "type": "string",
                    "pattern": rf"^({'|'.join(TEXT_FUNCTIONS)})\({_of_schemas(NAME)}\)$",
                },
                closed({"embed": _NAMED}, ["embed"]),
            )
        ),
    },
    "fulltext": {
        "description": "Full-text indexes, each with its properties.",
        **_optional(_map(_NAMES_LISTED)),
    },
    "index": {"description": "Properties with an index each.", **_NAMES_LISTED},
    "open": {
        "description": "What rows may bring besides the properties.",
        "type": ["array", "null"],
        "items": {"enum": list(OPEN)},
    },
    "ignore": {
        "description": "Properties that other programs write and semgraph leaves alone.",
        **_NAMES_LISTED,
    },
    "source": {"description": "The label of the node that it starts from.", **_NAMED},
    "target": {"description": "The label of the node that it leads to.", **_NAMED},
}
_DRAWN_TEXTS = {
    "node": "What a node is called.",
    "edge": "What an edge is called, in place of its type.",
    "text": "The text of an edge.",
    "from": "From when an edge holds.",
    "to": "Until when it holds.",
    "sources": "A list of keys of the nodes that an edge was learnt from.",
}
_FRONT_SCHEMAS: dict[str, Schema] = {
    "returns": {
        "description": "The answers by name, each with its type.",
        **_optional({**_TYPES_BY_NAME, "propertyNames": _NAMED}),
    },
    "describe": {
        "description": "What an answer, or a field of one (answer.field), means, for the model.",
        **_optional({**_map(_TEXT), "propertyNames": _PATH}),
    },
    "role": {"description": "The role of the model that answers: default.", **_NAMED},
    "max_tokens": {
        "description": "The most tokens of an answer: 1024.",
        "type": "integer",
        "minimum": 1,
    },
}
