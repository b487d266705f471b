"""Classes of Pydantic as answers, and rows as their objects. Descriptions and limits become data, read
from the JSON Schema of the class. A class that says more, as by validators, is called with the answers.
Pydantic is imported only where a class of it is met.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import is_dataclass
from functools import reduce
from typing import Annotated, Any, NotRequired, get_args, get_origin, get_type_hints

from semgraph.errors import DataError, Fault
from semgraph.expr.types import Type
from semgraph.logical.limits import DEFAULT, LIMITS, OPTIONAL
from semgraph.logical.prompt import plain

_JSON_TYPES = {"string": "string", "integer": "int64", "number": "double", "boolean": "boolean"}
_TIMES = {"date": "date", "date-time": "timestamp"}
_CLASS = "x-class"  # the key of a class in its schema
# The keys of a JSON Schema that are read, or have no effect on answers.
_KEYS = {
    *LIMITS, _CLASS, "$defs", "$ref", "title", "description", "default", "examples", "example", "type", "format",
    "properties", "required", "additionalProperties", "minProperties", "maxProperties", "items", "anyOf",
    "enum", "const", "deprecated",
}  # fmt: skip
# The types of Pydantic's core of which plans and JSON Schema say all, except what these keys say, and
# bounds of dates and mappings.
_CARRIED = {
    "model", "model-fields", "model-field", "default", "nullable", "definitions", "definition-ref", "str",
    "int", "float", "bool", "date", "datetime", "list", "dict", "any", "literal", "enum", "union",
    "typed-dict", "typed-dict-field", "dataclass", "dataclass-args", "dataclass-field",
}  # fmt: skip
_MORE = {
    "strip_whitespace", "to_lower", "to_upper", "now_op", "tz_constraint", "post_init", "regex_engine",
    "str_strip_whitespace", "str_to_lower", "str_to_upper", "str_min_length", "str_max_length",
}  # fmt: skip
_BOUNDS = {"ge", "gt", "le", "lt", "min_length", "max_length"}


def is_model(kind: Any) -> bool:
    """Whether a type is a class of Pydantic."""
    return isinstance(kind, type) and hasattr(kind, "model_fields")


def is_root_model(kind: Any) -> bool:
    """Whether a class is of a single value."""
    return bool(getattr(kind, "__pydantic_root_model__", False))


def is_typed_dict(kind: Any) -> bool:
    """Whether a type is a TypedDict, of `typing` or of `typing_extensions`."""
    return hasattr(kind, "__required_keys__")


def needs_pydantic(kind: Any, around: tuple[Any, ...] = ()) -> bool:
    """Whether only Pydantic reads a type: it has a class, limits, an alias, or itself in it."""
    own = isinstance(kind, type) and (is_model(kind) or is_dataclass(kind))
    own = own or get_origin(kind) in {Annotated, NotRequired} or hasattr(kind, "__value__")
    if own or (is_typed_dict(kind) and kind.__optional_keys__) or kind in around:
        return True
    hints = get_type_hints(kind, include_extras=True) if is_typed_dict(kind) else {}
    return any(needs_pydantic(part, (*around, kind)) for part in (*get_args(kind), *hints.values()))


def answers_of(kind: Any, path: str = "") -> dict[str, Any]:
    """A type that needs Pydantic, as the answer at a path ("": an answer for each field), and further
    keys of its parts by path. Raises Fault.
    """
    reader = _TypeReader(kind)
    text = reader.text(reader.schema, path)
    if reader.is_called:
        reader.entries[path]["class"] = called(kind)
    if path:
        reader.entries[path] = {"type": text, **reader.entries[path]}
    return {
        at: keys["type"] if keys.keys() == {"type"} else keys
        for at, keys in reader.entries.items()
        if keys
    }


def schema_of_class(cls: Any) -> str | None:
    """A class as the schema of a json answer, with the key of a class that is called; None if it has
    no fields. Raises Fault.
    """
    if not is_model(cls) or is_root_model(cls):
        what = f"{cls.__name__} is no Pydantic model with fields"
        raise Fault(what, hint="derive it from BaseModel")
    entries = answers_of(cls)
    return json.dumps(entries, ensure_ascii=False) if cls.model_fields else None


def _adapter(kind: Any) -> Any:
    """What Pydantic reads and checks a type by. Raises Fault."""
    from pydantic import PydanticUserError, TypeAdapter

    try:
        adapter = TypeAdapter(kind)
        adapter.rebuild()  # of what was not defined yet
    except (PydanticUserError, NameError) as error:
        name = getattr(kind, "__name__", kind)
        raise Fault(f"{name} cannot be read: {str(error).splitlines()[0]}") from None
    return adapter


def _json_schema(adapter: Any) -> Mapping[str, Any]:
    """The JSON Schema of a type, in which objects name their classes."""
    from pydantic.json_schema import GenerateJsonSchema

    class WithClasses(GenerateJsonSchema):
        def model_schema(self, schema: Any) -> Any:
            return super().model_schema(schema) | {_CLASS: schema["cls"]}

        def dataclass_schema(self, schema: Any) -> Any:
            return super().dataclass_schema(schema) | {_CLASS: schema["cls"]}

        def datetime_schema(self, schema: Any) -> Any:
            naive = {"times without a zone": True} if schema.get("tz_constraint") == "naive" else {}
            return super().datetime_schema(schema) | naive  # refused: answers have one

        def get_default_value(self, schema: Any) -> Any:
            factory = schema.get("default_factory")
            return factory() if factory in (list, dict) else super().get_default_value(schema)

        def handle_invalid_for_json_schema(self, *_: Any, **__: Any) -> Any:
            return {"type": "none"}  # refused with its field

        def emit_warning(self, *_: Any) -> None: ...  # of a default, which is refused

    made: Mapping[str, Any] = adapter.json_schema(by_alias=False, schema_generator=WithClasses)
    return made


class _TypeReader:
    """Reads the JSON Schema of a type. `entries` has the keys of answers and of their parts."""

    def __init__(self, kind: Any) -> None:
        adapter = _adapter(kind)
        self.schema = _json_schema(adapter)
        self.entries: dict[str, dict[str, Any]] = {}
        self._around: list[str] = []  # the definitions around the current type
        self._field, self._kind = "", kind  # the current class and field, and its type
        self.is_called = _says_more(adapter.core_schema)

    def text(self, node: Mapping[str, Any], path: str) -> str:
        """A type in the notation of plans. Meanings and limits are keys of its path."""
        keys = self.entries.setdefault(path, {})
        examples = node.get("examples", [node["example"]] if "example" in node else [])
        said = f"For example: {', '.join(map(str, examples))}" if examples else None
        meanings = [each for each in (keys.get("describe"), node.get("description"), said) if each]
        if meanings:
            keys["describe"] = ". ".join(
                [*(m.removesuffix(".") for m in meanings[:-1]), meanings[-1]]
            )
        if more := node.keys() - _KEYS:
            there = f" with {', '.join(sorted(more))} in its JSON Schema"
            raise self.refused("list[T], str, float, T | None, or Any for any JSON", there)
        if "$ref" in node:
            name = node["$ref"].rpartition("/")[2]
            inner = self.schema["$defs"][name]
            if name in self._around:
                what = f"it refers to {inner.get('title', name)} itself"
                raise self._fault(what, "an answer has an end: leave it out")
            self._around.append(name)
            text = self.text(inner, path)
            self._around.pop()
            return text
        branches = [each for each in node.get("anyOf", ()) if each.get("type") != "null"]
        if len(branches) == 1:
            return _or_null(self.text(branches[0], path))
        keys.update({key: node[key] for key in LIMITS if key in node})
        values = node.get("enum", [node["const"]] if "const" in node else None)
        return self._single(node, path) if values is None else self._enum(values)

    def _single(self, node: Mapping[str, Any], path: str) -> str:
        kind, form = node.get("type"), node.get("format")
        if "properties" in node:
            fields = self._fields(node, path)
            return f"struct<{', '.join(f'{name}: {text}' for name, text in fields.items())}>"
        if kind == "array":
            return f"list<{self.text(node.get('items', {}), f'{path}[]')}>"
        if kind == "object" and node.get("additionalProperties", True) is not True:
            raise self.refused("dict[str, Any] for any JSON, or a list of a model with two fields")
        if kind == "object" or (kind is None and "anyOf" not in node):
            return "json"
        if kind not in _JSON_TYPES or form == "binary":
            raise self.refused("list[T], str, float, T | None, or Any for any JSON")
        if form is not None and form not in _TIMES:
            words = self.entries[path].get("describe"), f"format: {form}"
            self.entries[path]["describe"] = ", ".join(filter(None, words))
        return _TIMES.get(str(form), _JSON_TYPES[kind])

    def _fields(self, node: Mapping[str, Any], path: str) -> dict[str, str]:
        cls, outer, kinds = node.get(_CLASS), (self._field, self._kind), dict[str, str]()
        title = getattr(cls, "__name__", node.get("title"))
        infos = getattr(cls, "__pydantic_fields__", {})
        for name, part in node["properties"].items():
            self._field = f"{title}.{name}"
            self._kind = infos[name].annotation if name in infos else part
            own = f"{path.rstrip('[]')}.{name}" if path else name
            text = self.text(part, own)
            if name not in node.get("required", ()):
                text = _or_null(text)
                if cls is not None and "default" not in part:
                    what = "its default_factory or default cannot be carried"
                    raise self._fault(what, "give it a plain default, or None")
                if part.get("default") is not None:
                    self.entries[own][DEFAULT] = part["default"]
                if self.is_called:
                    self.entries[own][OPTIONAL] = True
            if not path:
                self.entries[own] = {"type": text, **self.entries[own]}
            kinds[name] = text
        self._field, self._kind = outer
        if path and not kinds:
            raise self._fault(f"{title} has no fields", "leave it out")
        return kinds

    def _enum(self, values: Sequence[Any]) -> str:
        texts = tuple(value for value in values if value is not None)
        if not texts or not all(isinstance(value, str) for value in texts):
            raise self._fault(f"{tuple(values)} are no values of an enum", "give texts")
        return str(Type("enum", nullable=len(texts) < len(values), values=texts))

    def refused(self, hint: str, there: str = "") -> Fault:
        """The refusal of the current type."""
        name = getattr(self._kind, "__name__", "") if not get_args(self._kind) else ""
        return self._fault(f"{name or self._kind} is no type of an answer{there}", hint)

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
    """Rows as objects of a class. NULL is the default of a field that has one. Where the class refuses
    a column, text with JSON is read, and a column that the class lacks is left out. Raises DataError.
    """
    from pydantic import ValidationError

    try:
        adapter = _adapter(cls)
    except Fault as fault:
        raise DataError(str(fault)) from None
    schema = _json_schema(adapter)
    optional = schema.get("properties", {}).keys() - set(schema.get("required", ()))

    def read(row: Mapping[str, Any], number: int) -> Any:
        given = {n: v for n, v in row.items() if v is not None or n not in optional}
        try:
            return adapter.validate_python(given, by_alias=True, by_name=True)
        except ValidationError as error:
            faults = error.errors(include_url=False)
        for fault in faults:
            name = str(fault["loc"][0]) if fault["loc"] else ""
            text = str(given.get(name))
            if len(fault["loc"]) == 1 and "Extra inputs" in fault["msg"]:
                del given[name]
            elif text.startswith(("{", "[")):
                with suppress(ValueError):
                    given[name] = json.loads(text)
        try:  # as JSON, in which strict classes take texts of times and enums
            text = json.dumps(plain(given))
            return adapter.validate_json(text, by_alias=True, by_name=True)
        except ValidationError as error:
            (fault, *_) = error.errors(include_url=False)
        column = f", column {fault['loc'][0]}" if fault["loc"] else ""
        raise DataError(f"row {number}{column}: {fault['msg']}")

    return [read(row, number) for number, row in enumerate(rows, 1)]


# -- types that are called with the answers


class Called(str):
    """The key of a type that checks answers by code, with the type: `module:name`. Only Python gives
    one; data and files have the key alone, which imports nothing. Two types have different keys.
    """

    __slots__ = ("kind",)
    kind: Any

    @property
    def adapter(self) -> Any:
        """What Pydantic calls."""
        return _adapter(self.kind)

    @property
    def name(self) -> str:
        """The name of the type, for messages."""
        return str(getattr(self.kind, "__name__", self))


CALLED = dict[str, Called]()  # those that this process was given, by key


def called(kind: Any) -> Called:
    """A type, registered by its key."""
    key = re.sub(r" at 0x\w+", "", str(kind))
    if isinstance(kind, type):
        key = f"{kind.__module__}:{kind.__qualname__}"
    while key in CALLED and CALLED[key].kind != kind:
        key += "'"
    made = CALLED.setdefault(key, Called(key))
    made.kind = kind
    return made


def class_of(key: str) -> Called:
    """A class that this process was given, or has imported. A key alone imports nothing: data may
    come from strangers. Raises Fault.
    """
    if key in CALLED:
        return CALLED[key]
    module, _, names = key.partition(":")
    loaded: Any = sys.modules.get(module)
    kind = reduce(lambda at, name: vars(at).get(name), names.split("."), loaded) if loaded else None
    if not is_model(kind):
        hint = 'import its module in Python before the run, or give the class: {"Person": Person}'
        raise Fault(f"this process was not given the class {key}", hint=hint)
    return called(kind)


def refuse_other_fields(cls: Called, text: str) -> None:
    """Refuse an answer schema that names a class with other fields. Raises Fault."""
    if json.loads(text) != json.loads(schema_of_class(cls.kind) or "null"):
        raise Fault(f"the class {cls} has other fields now", hint="give the class itself")
