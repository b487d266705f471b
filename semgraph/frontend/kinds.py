"""Kinds of values in files: what may be written, what becomes of it, and its JSON Schema.

A mapping is described once, by its keys: `read_keys` reads it and refuses all others, and
`keys_schema` is its JSON Schema. Kinds that need to know what names mean are in `arguments`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from semgraph.errors import Fault, Faults, did_you_mean, each
from semgraph.expr.scalar import reserved
from semgraph.frontend.document import kind_of, known_keys, mapping, rest_of, wrong
from semgraph.logical.schema import NAME, PATH

Schema = dict[str, Any]
PARAMETER = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")


@dataclass(frozen=True)
class ValueKind:
    """A kind of values.

    Args:
        read: What becomes of plain data, with the scope that names belong to. Raises Fault.
        schema: The JSON Schema of the plain data.
    """

    read: Callable[[Any, Any], Any]
    schema: Schema


@dataclass(frozen=True)
class Key:
    """A key of a mapping.

    Args:
        kind: The kind of its value.
        doc: What it says.
        required: Whether it must be there.
    """

    kind: ValueKind
    doc: str = ""
    required: bool = False


Keys = Mapping[str, Key]


def read_keys(
    value: Any, what: str, keys: Keys, scope: Any = None
) -> tuple[dict[str, Any], list[Fault]]:
    """The values of a mapping by key, without those that are left out or null, and all that is
    wrong. Raises Fault for what is no mapping.

    Args:
        value: The mapping.
        what: What messages call it.
        keys: Its keys.
        scope: What names mean.
    """
    data = mapping(value, f"{what}: {{{', '.join(keys)}}}")
    faults = known_keys(data, keys, what)
    values: dict[str, Any] = {}
    for name, key in keys.items():
        if data.get(name) is None:
            if key.required:
                faults.append(Fault(f"{what} needs {name}: {key.doc}"))
            continue
        try:
            values[name] = key.kind.read(data[name], scope)
        except Fault as fault:
            faults.append(fault.under(name))
    return values, faults


def all_keys(value: Any, what: str, keys: Keys, scope: Any = None) -> dict[str, Any]:
    """As `read_keys`. Raises Faults for all that is wrong."""
    values, faults = read_keys(value, what, keys, scope)
    if faults:
        raise Faults(faults)
    return values


def each_item(value: Any, read: Callable[[Any], Any]) -> list[Any]:
    """What becomes of every item of a list, or of a single value. Raises Faults."""
    if not isinstance(value, (list, tuple)):
        return [read(value)]
    items, faults, skipped = [], list[Fault](), 0
    for i, item in enumerate(value):
        if skipped:  # a piece of the item before, which a comma cut
            skipped -= 1
            continue
        skipped = len(rest_of(item, [(more, None) for more in value[i + 1 :]]))
        try:
            items.append(read(item))
        except Fault as fault:
            faults += each(fault.under(i))
    if faults:
        raise Faults(faults)
    return items


def each_value(values: Mapping[str, Any], read: Callable[[str, Any], Any]) -> dict[str, Any]:
    """What becomes of every value of a mapping, by its name. Raises Faults."""
    found: dict[str, Any] = {}
    faults: list[Fault] = []
    for name, value in values.items():
        try:
            found[name] = read(name, value)
        except Fault as fault:
            faults.append(fault.under(name))
    if faults:
        raise Faults(faults)
    return found


# -- JSON Schema


def keys_schema(keys: Keys) -> Schema:
    """The schema of a mapping with these keys and no others; null is what is left out."""
    properties: dict[str, Schema] = {}
    for name, key in keys.items():
        schema = key.kind.schema if key.required else either(key.kind.schema, {"type": "null"})
        properties[name] = {"description": key.doc, **schema} if key.doc else schema
    return closed(properties, [name for name, key in keys.items() if key.required])


def closed(properties: Mapping[str, Schema], required: Iterable[str] = ()) -> Schema:
    """An object with these properties and no others."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def either(*schemas: Schema) -> Schema:
    """Any of these schemas."""
    flat: list[Schema] = []
    for schema in schemas:
        flat += schema["anyOf"] if set(schema) == {"anyOf"} else [schema]
    return {"anyOf": flat}


def or_null(schema: Schema) -> Schema:
    """The schema, or nothing."""
    return {**schema, "type": [schema["type"], "null"]}


def by_name(values: Schema, names: Schema | None = None) -> Schema:
    """A mapping of such values, by names of a schema."""
    schema: Schema = {"type": "object", "additionalProperties": values}
    return schema if names is None else {**schema, "propertyNames": names}


def listed(items: Schema) -> Schema:
    """A list of such items."""
    return {"type": "array", "items": items}


def whole(pattern: re.Pattern[str]) -> Schema:
    """A text that matches a pattern as a whole."""
    return {"type": "string", "pattern": f"^{of_schemas(pattern)}$"}


def of_schemas(pattern: re.Pattern[str]) -> str:
    """A pattern for JSON Schema, where the classes of letters are those of ASCII: what is no blank and
    no sign of ASCII is a letter.
    """
    text = pattern.pattern.removesuffix(r"\Z")
    return text.replace(r"[^\W\d]", rf"[^\d{_SIGNS}]").replace(r"\w", f"[^{_SIGNS}]")


_SIGNS = r"\s!-/:-@\[-^`{-~"
NAMED, OF_PATH, OF_PARAMETER = whole(NAME), whole(PATH), whole(PARAMETER)
TEXT_SCHEMA: Schema = {"type": "string"}


# -- kinds of values that mean the same everywhere


def plain(read: Callable[[Any], Any], schema: Schema) -> ValueKind:
    """A kind of values in which no names are looked up."""
    return ValueKind(lambda value, _: read(value), schema)


def kept(schema: Schema) -> ValueKind:
    """A kind of values that are read elsewhere."""
    return plain(lambda value: value, schema)


def read_text(value: Any) -> str:
    """A text. Raises Fault."""
    if not isinstance(value, str):
        raise wrong("a text", value)
    return value


def read_name(value: Any) -> str:
    """A column's name. Raises Fault."""
    if not isinstance(value, str):
        raise wrong("a name", value)
    if not NAME.match(value):
        hint = "letters, digits and _, not starting with a digit"
        raise Fault(
            f'"{value}" is no name', hint="a name, not an expression" if "(" in value else hint
        )
    if reserved(value):
        raise Fault(f'"{value}" is the engine\'s own name', hint="choose another name")
    return value


def read_names(value: Any) -> tuple[str, ...]:
    """A name, or a list of names. Raises Fault."""
    names = each_item(value, read_name)
    if len(set(names)) < len(names):
        raise Fault("a name is repeated")
    return tuple(names)


def read_path(value: Any) -> str:
    """A column, or a field of a struct column. Raises Fault."""
    if not isinstance(value, str):
        raise wrong("a column", value)
    if not PATH.match(value):
        hint = "a column or a struct's field, such as c.uuid; add computes others"
        raise Fault(f'"{value}" is no column', hint=hint)
    return value


def read_flag(value: Any) -> bool:
    """True or false. Raises Fault."""
    if not isinstance(value, bool):
        raise wrong("true or false", value)
    return value


def _decimal(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise wrong("a number", value)
    return float(value)


def read_positive(value: Any) -> int:
    """A whole number from 1. Raises Fault."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise wrong("a number from 1", value)
    return value


def one_of(*words: str) -> ValueKind:
    """One of a few words; `null` may be written without quotes."""

    def read(value: Any) -> str:
        word = "null" if value is None else value
        if word not in words:
            hint = did_you_mean(word, words) if isinstance(word, str) else None
            raise Fault(f"{kind_of(value)} is none of: {', '.join(words)}", hint=hint)
        return str(word)

    schema: Schema = {"enum": [*words, *([None] if "null" in words else [])]}
    return plain(read, either(schema, OF_PARAMETER))


def mapped(what: str, schema: Schema) -> ValueKind:
    """A mapping, of which messages say `what` it is."""
    return plain(lambda value: mapping(value, what), schema)


def read_texts(value: Any) -> dict[str, str]:
    """Texts by name. Raises Faults."""
    return each_value(mapping(value, "texts by name"), lambda _, text: read_text(text))


TEXT = plain(read_text, TEXT_SCHEMA)
TEXTS = plain(read_texts, by_name(TEXT_SCHEMA))
NAME_OF = plain(read_name, NAMED)
COLUMN = plain(read_name, either(NAMED, OF_PARAMETER))
COLUMNS = plain(read_names, either(NAMED, {**listed(NAMED), "uniqueItems": True}, OF_PARAMETER))
FLAG = plain(read_flag, either({"type": "boolean"}, OF_PARAMETER))
DECIMAL = plain(_decimal, either({"type": "number"}, OF_PARAMETER))
POSITIVE = plain(read_positive, either({"type": "integer", "minimum": 1}, OF_PARAMETER))
