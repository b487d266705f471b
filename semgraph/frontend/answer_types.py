"""Python types as types of answers: `str`, `list[int]`, `Literal["a", "b"]`, Pydantic models."""

from __future__ import annotations

import enum
import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from semgraph.errors import Fault
from semgraph.expr.types import PYTHON_TYPES, Type


def answer_types(returns: Any) -> Any:
    """What a plan writes in `returns`: types by name. A model gives its fields, with their
    descriptions; a single type is that of `answer`. Raises Fault.

    >>> answer_types({"topic": str, "tone": Literal["calm", "cross"], "at": "timestamp null"})
    {'topic': 'string', 'tone': 'enum<calm, cross>', 'at': 'timestamp null'}
    >>> answer_types(bool | None)
    {'answer': 'boolean null'}
    """
    if returns is None or isinstance(returns, str):
        return returns
    if isinstance(returns, Mapping):
        return {name: _written(name, value) for name, value in returns.items()}
    fields = _fields(returns)
    if fields is None:
        return {"answer": _written("answer", returns)}
    models: Mapping[str, Any] = getattr(returns, "model_fields", {})
    described = {name: getattr(models.get(name), "description", None) for name in fields}
    return {
        name: {"type": text, "describe": described[name]} if described[name] else text
        for name, text in ((name, _written(name, kind)) for name, kind in fields.items())
    }


def _written(name: str, value: Any) -> Any:
    """A type as a plan writes it; what a plan may write stays as it is."""
    if value is None or isinstance(value, (str, Mapping, int, float, list, tuple, set, frozenset)):
        return value
    try:
        return _text(value)
    except Fault as fault:
        raise fault.under(name) from None


def _fields(kind: Any) -> dict[str, Any] | None:
    """The fields of a model or of a TypedDict; None for other types."""
    if is_typeddict(kind) or hasattr(kind, "model_fields") or hasattr(kind, "__dataclass_fields__"):
        hints = get_type_hints(kind)
        names = getattr(kind, "model_fields", None) or getattr(kind, "__dataclass_fields__", hints)
        return {name: hints[name] for name in names}
    return None


def _text(kind: Any) -> str:
    origin, parts = get_origin(kind), get_args(kind)
    if kind in PYTHON_TYPES or origin is dict:
        return PYTHON_TYPES[origin or kind]
    if origin in (Union, types.UnionType) and type(None) in parts and len(parts) == 2:
        return f"{_text(next(part for part in parts if part is not type(None)))} null"
    if origin is list:
        return f"list<{_text(parts[0])}>"
    if origin is Literal:
        return _enum(parts)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _enum(tuple(member.value for member in kind))
    fields = _fields(kind)
    if fields:
        return f"struct<{', '.join(f'{name}: {_text(part)}' for name, part in fields.items())}>"
    raise Fault(
        f"{getattr(kind, '__name__', kind)} is no type of an answer",
        there="types: str, int, float, bool, datetime, date, list[T], Literal, T | None, a model",
    )


def _enum(values: tuple[Any, ...]) -> str:
    """The type of a few words. Raises Fault if a plan cannot write them."""
    if not all(isinstance(value, str) for value in values):
        raise Fault(f"{values} are no values of an enum", hint="give texts")
    return str(Type("enum", values=values))
