"""Classes of Pydantic as answers, and rows as their objects. Descriptions and limits become data, read
from the JSON Schema of the class. Validators stay in Python: a class that has some is called after the
answer, in another process by its import key. Pydantic is imported only where a class of it is met.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from importlib import import_module
from inspect import cleandoc
from typing import (
    Annotated,
    Any,
    NotRequired,
    Required,
    get_args,
    get_origin,
    get_type_hints,
)

import pyarrow as pa

from semgraph.errors import DataError, Fault, PlanError, Problem
from semgraph.expr.types import Type
from semgraph.logical.limits import DEFAULT, LIMITS

_JSON_TYPES = {"string": "string", "integer": "int64", "number": "double", "boolean": "boolean"}
_TIMES = {"date": "date", "date-time": "timestamp"}
_FORMATS = {
    "uuid": "a UUID", "uri": "a URL", "email": "an e-mail address", "time": "a time of day in ISO 8601",
    "duration": "a duration in ISO 8601",
}  # fmt: skip
_CLASS = "x-class"  # the key of a class in its schema
# The types of Pydantic's core of which plans and JSON Schema say all, except what these keys say, and
# bounds of dates and mappings.
_CARRIED = {
    "model", "model-fields", "model-field", "default", "nullable", "definitions", "definition-ref", "str",
    "int", "float", "bool", "date", "datetime", "list", "dict", "any", "literal", "enum", "union",
    "typed-dict", "typed-dict-field", "dataclass", "dataclass-args", "dataclass-field",
}  # fmt: skip
_MORE = {
    "strip_whitespace", "to_lower", "to_upper", "now_op", "tz_constraint", "post_init",
    "str_strip_whitespace", "str_to_lower", "str_to_upper", "str_min_length", "str_max_length",
}  # fmt: skip
_BOUNDS = {"ge", "gt", "le", "lt", "min_length", "max_length"}


def is_model(kind: Any) -> bool:
    """Whether a type is a class of Pydantic."""
    return isinstance(kind, type) and hasattr(kind, "model_fields")


def plain_fields(kind: Any) -> dict[str, Any] | None:
    """The fields of a TypedDict or a dataclass; None for other types. Raises Fault."""
    if not hasattr(kind, "__required_keys__") and not hasattr(kind, "__dataclass_fields__"):
        return None
    hints = get_type_hints(kind, include_extras=True)
    return {
        name: get_args(hints[name])[0]
        if get_origin(hints[name]) in (Required, NotRequired)
        else hints[name]
        for name in getattr(kind, "__dataclass_fields__", hints)
    }


def needs_pydantic(kind: Any, around: tuple[Any, ...] = ()) -> bool:
    """Whether only Pydantic reads a type: it has a class of it, limits, or itself in it."""
    if is_model(kind) or get_origin(kind) is Annotated or kind in around:
        return True
    parts = (*get_args(kind), *(plain_fields(kind) or {}).values())
    return any(needs_pydantic(part, (*around, kind)) for part in parts)


def answers_of(kind: Any, path: str = "") -> dict[str, Any]:
    """A type that needs Pydantic, as the answer at a path (a class: "" for an answer for each field),
    and further keys of its parts by path. Raises Fault.
    """
    reader = _ClassReader(kind)
    text = reader.text(reader.schema, path)
    if reader.is_called and not any("class" in keys for keys in reader.entries.values()):
        raise reader.refused("a field of a Pydantic model")
    if path:
        reader.entries[path] = {"type": text, **reader.entries.get(path, {})}
    return {
        at: keys["type"] if keys.keys() == {"type"} else keys
        for at, keys in reader.entries.items()
        if keys
    }


def schema_of_class(cls: Any) -> str | None:
    """A class as the schema of a json answer; None if it has no fields. A class with validators is
    registered in this process, and the schema has its key. Raises Fault.
    """
    if not is_model(cls):
        raise Fault(f"{cls.__name__} is no Pydantic model", hint="class Person(BaseModel): ...")
    entries = answers_of(cls)
    if not cls.model_fields:
        return None
    if "class" in entries.get("", {}):
        entries[""]["class"] = _key_of(cls)
    return json.dumps(entries, ensure_ascii=False)


class _ClassReader:
    """Reads the JSON Schema of a type. `entries` has the keys of answers and of their parts."""

    def __init__(self, kind: Any) -> None:
        from pydantic import PydanticUserError, TypeAdapter
        from pydantic.json_schema import GenerateJsonSchema

        class WithClasses(GenerateJsonSchema):
            def model_schema(self, schema: Any) -> Any:
                return super().model_schema(schema) | {_CLASS: schema["cls"]}

            def handle_invalid_for_json_schema(self, *_: Any, **__: Any) -> Any:
                return {"type": "none"}  # refused with its field

        try:
            if is_model(kind):
                kind.model_rebuild()  # of what is not defined yet
            adapter = TypeAdapter(kind)
            made = adapter.json_schema(by_alias=False, schema_generator=WithClasses)
        except (PydanticUserError, NameError) as error:
            name = getattr(kind, "__name__", kind)
            raise Fault(f"{name} has no JSON Schema: {str(error).splitlines()[0]}") from None
        self.schema: Mapping[str, Any] = made
        self.entries: dict[str, dict[str, Any]] = {}
        self._around: list[Mapping[str, Any]] = []  # the classes around the current type
        self._field, self._kind = "", kind  # the current class and field, and its type
        self.is_called = _says_more(adapter.core_schema)

    def text(self, node: Mapping[str, Any], path: str) -> str:
        """A type in the notation of plans. Meanings and limits are keys of its path."""
        keys = self.entries.setdefault(path, {})
        examples = ", ".join(map(str, node.get("examples", ())))
        said = [node.get("description"), f"For example: {examples}" if examples else None]
        *before, last = [text for text in ("", keys.get("describe"), *said) if text is not None]
        if meaning := ". ".join([*(text.removesuffix(".") for text in before if text), last]):
            keys["describe"] = meaning
        if "$ref" in node:
            return self.text(self.schema["$defs"][node["$ref"].rpartition("/")[2]], path)
        branches = [each for each in node.get("anyOf", ()) if each.get("type") != "null"]
        if len(branches) == 1:
            return _or_null(self.text(branches[0], path))
        keys.update({key: node[key] for key in LIMITS if key in node})
        values = node.get("enum", [node["const"]] if "const" in node else None)
        return self._single(node, path) if values is None else self._enum(values)

    def _single(self, node: Mapping[str, Any], path: str) -> str:
        kind, form = str(node.get("type")), node.get("format")
        if "properties" in node or _CLASS in node:
            fields = self._fields(node, path)
            return f"struct<{', '.join(f'{name}: {text}' for name, text in fields.items())}>"
        if kind == "array" and node.keys().isdisjoint({"prefixItems", "uniqueItems"}):
            return f"list<{self.text(node.get('items', {}), f'{path}[]')}>"
        if kind == "object" and node.get("additionalProperties", True) is not True:
            hint = "dict[str, Any] for any JSON, or a list of a model with two fields"
            raise self.refused(hint)
        if kind == "object" or node.keys().isdisjoint({"type", "anyOf", "oneOf", "allOf"}):
            return "json"
        if kind not in _JSON_TYPES or form in {"binary", "password"}:
            raise self.refused("list[T], str, float, T | None, or Any for any JSON")
        if form is None or form in _TIMES:
            return _TIMES.get(form or "", _JSON_TYPES[kind])
        if not self._around:
            raise self.refused("a field of a Pydantic model")
        words = self.entries[path].get("describe"), _FORMATS.get(form, form)
        self.entries[path]["describe"] = ", ".join(filter(None, words))
        return _JSON_TYPES[kind]

    def _fields(self, node: Mapping[str, Any], path: str) -> dict[str, str]:
        """The types of the fields of an object."""
        cls = node.get(_CLASS)
        title = node.get("title") if cls is None else cls.__name__
        if any(node is outer for outer in self._around):
            raise self._fault(f"it refers to {title} itself", "an answer has an end: leave it out")
        outer, kinds = (self._field, self._kind), dict[str, str]()
        self._around.append(node)
        if cls is not None:
            self._read_class(cls)
        for name, part in node.get("properties", {}).items():
            info = None if cls is None else cls.model_fields[name]
            self._field = f"{title}.{name}"
            self._kind = part if info is None else info.annotation
            own = f"{path.rstrip('[]')}.{name}" if path else name
            text = self.text(part, own)
            if name not in node.get("required", ()):
                text = _or_null(text)
                if (default := self._default(part, info)) is not None:
                    self.entries[own][DEFAULT] = default
            if not path:
                self.entries[own] = {"type": text, **self.entries[own]}
            kinds[name] = text
        self._around.pop()
        self._field, self._kind = outer
        if cls is not None and self.is_called and not any(_CLASS in n for n in self._around):
            self.entries[path]["class"] = cls
        return kinds

    def _read_class(self, cls: Any) -> None:
        """Refuse what no answer has."""
        name = cls.__name__
        if cls.__pydantic_root_model__:
            raise self._fault(f"{name} is a RootModel: its value has no name", "give its type")
        if cls.__pydantic_generic_metadata__["parameters"]:
            raise self._fault(f"{name} has type variables that stand for no type", f"{name}[int]")
        self._refuse_extra(cls.model_config.get("json_schema_extra"), f"{name} has")
        for field, info in cls.model_fields.items():
            self._field = f"{name}.{field}"
            if type(info.validation_alias).__name__ in {"AliasPath", "AliasChoices"}:
                raise self._fault("its alias is a path, or several", "give it a text as alias")
            self._refuse_extra(info.json_schema_extra, "it has")

    def _refuse_extra(self, extra: Any, what: str) -> None:
        if extra and (callable(extra) or not extra.keys() <= {"example", "examples"}):
            what = f"{what} a json_schema_extra, which cannot be carried"
            raise self._fault(what, "say it in the description")

    def _default(self, node: Mapping[str, Any], info: Any) -> Any:
        """The value of a field that is not answered."""
        factory = getattr(info, "default_factory", None)
        if factory in (list, dict):
            return factory()
        if factory is not None or (info is not None and "default" not in node):
            what = "default_factory" if factory is not None else "default"
            raise self._fault(f"its {what} cannot be carried", "give it a plain default, or None")
        return node.get("default")

    def _enum(self, values: Sequence[Any]) -> str:
        texts = tuple(value for value in values if value is not None)
        if not texts or not all(isinstance(value, str) for value in texts):
            raise self._fault(f"{tuple(values)} are no values of an enum", "give texts")
        return str(Type("enum", nullable=len(texts) < len(values), values=texts))

    def refused(self, hint: str) -> Fault:
        """The refusal of the current type."""
        name = getattr(self._kind, "__name__", "") if not get_args(self._kind) else ""
        return self._fault(f"{name or self._kind} is no type of an answer", hint)

    def _fault(self, what: str, hint: str) -> Fault:
        return Fault(f"{self._field}: {what}" if self._field else what, hint=hint)


def _or_null(text: str) -> str:
    return text if text.endswith(" null") else f"{text} null"


def _says_more(core: Any) -> bool:
    """Whether a schema of Pydantic's core says more than its JSON Schema: it calls functions, or
    checks what plans cannot. The class is then called with the answers.
    """
    if isinstance(core, (list, tuple)):
        return any(map(_says_more, core))
    if not isinstance(core, dict):
        return False
    kind, keys = core.get("type"), {key for key, value in core.items() if value}
    own = isinstance(kind, str) and kind not in _CARRIED
    own = own or (kind in {"date", "datetime", "dict"} and not keys.isdisjoint(_BOUNDS))
    inner = (core[key] for key in keys - {"serialization", "metadata", "computed_fields"})
    return own or not keys.isdisjoint(_MORE) or any(map(_says_more, inner))


# -- objects


def read_objects(rows: Sequence[Mapping[str, Any]], cls: Any) -> list[Any]:
    """Rows as objects of a class. Text with JSON is read where the class refuses text; NULL is the
    default of a field that has one. Raises DataError.
    """
    from pydantic import TypeAdapter, ValidationError

    adapter = TypeAdapter(cls)
    fields = getattr(cls, "model_fields", {}).items()
    optional = {name for name, info in fields if not info.is_required()}

    def read(row: Mapping[str, Any], number: int, *, again: bool = False) -> Any:
        try:
            return adapter.validate_python(row, by_alias=True, by_name=True)
        except ValidationError as error:
            faults = error.errors(include_url=False)
        names = [str(fault["loc"][0]) for fault in faults if fault["loc"]]
        parsed = {name: _parsed(row[name]) for name in names if isinstance(row.get(name), str)}
        if parsed and not again:
            return read({**row, **parsed}, number, again=True)
        column = f", column {names[0]}" if names else ""
        raise DataError(f"row {number}{column}: {faults[0]['msg']}")

    given = [{n: v for n, v in row.items() if v is not None or n not in optional} for row in rows]
    return [read(row, number) for number, row in enumerate(given, 1)]


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def doc_of(cls: Any) -> str:
    """The docstring of a class; "" without one."""
    return cleandoc(cls.__doc__ or "")


# -- classes by their import keys

CLASSES = b"semgraph.classes"  # the metadata of a table: keys of classes that its schemas name
_classes: dict[str, Any] = {}  # those that this process was given, by key


def _key_of(cls: Any) -> str:
    """The import key of a class, which is registered. A second class of a name gets another key,
    unless the name means it now.
    """
    key = f"{cls.__module__}:{cls.__qualname__}"
    while _classes.get(key, cls) is not cls and not _means(key, cls):
        key += "'"
    _classes[key] = cls
    return key


def _found(key: str) -> Any:
    module, _, names = key.partition(":")
    return reduce(getattr, names.split("."), import_module(module))


def _means(key: str, cls: Any) -> bool:
    try:
        return _found(key) is cls
    except (ImportError, AttributeError):
        return False


def class_of(key: str) -> Any:
    """A class that this process was given. A key alone imports nothing: rows may come from
    strangers. Raises Fault.
    """
    if key not in _classes:
        hint = 'give the class itself, in Python: {"Person": Person}'
        raise Fault(f"this process was not given the class {key}", hint=hint)
    return _classes[key]


def with_classes(table: pa.Table, classes: Iterable[Any]) -> pa.Table:
    """A table that notes the classes that its schemas name, for other processes."""
    keys = json.dumps(sorted(map(_key_of, classes))).encode()
    return table.replace_schema_metadata({**(table.schema.metadata or {}), CLASSES: keys})


def load_classes(table: pa.Table) -> None:
    """Import the classes that a table notes. Raises PlanError."""
    for key in json.loads((table.schema.metadata or {}).get(CLASSES, b"[]")):
        if key not in _classes:
            try:
                _classes[key] = _found(key)
            except (ImportError, AttributeError) as error:
                what = f"the class {key}, which validates answers, cannot be imported here: {error}"
                hint = "define it at the top of a module that every process of the run imports"
                raise PlanError(Problem(what, hint=hint)) from None
