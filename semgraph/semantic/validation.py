"""Calls of classes with answers: what they say, and the values that they return."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from traceback import extract_tb
from typing import Any

from semgraph.errors import Fault
from semgraph.expr.functions import canonical_json
from semgraph.expr.types import Type
from semgraph.logical.limits import without_optional
from semgraph.logical.prompt import Prompt
from semgraph.semantic.answers import LEFT_OUT, Invalid, as_json, read_value


def validated(prompt: Prompt, values: Mapping[str, Any]) -> dict[str, Any]:
    """The answers as the classes of a prompt return them. Raises Invalid, with what it says, if a
    class refuses them; Fault if a validator raises another error, or returns what does not fit.
    """
    kinds = {**dict(prompt.returns), "": Type("struct", fields=prompt.returns)}
    for name, cls in prompt.validators:
        value = values[name] if name else {each: values[each] for each, _ in prompt.returns}
        if value is not None:
            answer = _validated(cls, kinds[name], value, name)
            values = {**values, **({name: answer} if name else answer)}
    return dict(values)


def _validated(cls: Any, kind: Type, value: Any, path: str) -> Any:
    from pydantic import ValidationError
    from pydantic_core import PydanticSerializationError

    notes = list[tuple[str, str]]()
    text = canonical_json(without_optional(kind, as_json(kind, value)))
    try:
        made = cls.adapter.validate_json(text, by_alias=False, by_name=True)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        raise Invalid("; ".join(map(_reason, faults))) from None
    except Exception as error:
        _, *frames = extract_tb(error.__traceback__)
        own = [frame for frame in frames if "pydantic" not in Path(frame.filename).parts]
        place = f"{own[0].name} in {own[0].filename}:{own[0].lineno}" if own else "a validator"
        what = f"{cls.name}: {place} raised {type(error).__name__}: {error}"
        raise Fault(what, hint="a validator refuses a value by a ValueError") from error
    try:
        answer = read_value(kind, _of_object(kind, made), path, notes)
    except (Invalid, AttributeError, LookupError, TypeError, PydanticSerializationError) as error:
        notes = [(LEFT_OUT, str(error))]
    if said := [where for what, where in notes if what == LEFT_OUT]:
        hint = "its validators must return values of the types of its fields"
        raise Fault(f"{cls.name} has other values than its types: {said[0]}", hint=hint)
    return answer


def _reason(fault: Mapping[str, Any]) -> str:
    """What a class says of an answer, as a reason for the model."""
    place = "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in fault["loc"])
    raised = (fault.get("ctx") or {}).get("error")
    said = str(raised) if isinstance(raised, Exception) else fault["msg"]
    return f"{place.removeprefix('.')}: {said}" if place else said


def _of_object(kind: Type, value: Any) -> Any:
    """An object, or a part of one, as JSON with the fields of a type."""
    from pydantic_core import to_jsonable_python

    if kind.item is not None and isinstance(value, (list, tuple)):
        return [_of_object(kind.item, entry) for entry in value]
    if not kind.fields or value is None:
        return to_jsonable_python(value)
    read = value if isinstance(value, Mapping) else {n: getattr(value, n) for n, _ in kind.fields}
    return {name: _of_object(part, read.get(name)) for name, part in kind.fields}
