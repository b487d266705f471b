"""Validators of classes: what they say about an answer, and the values that they return."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from traceback import extract_tb
from typing import Any, get_args

from semgraph.errors import Fault
from semgraph.expr.functions import canonical_json
from semgraph.expr.types import Type
from semgraph.logical.limits import DEFAULT, keywords
from semgraph.logical.prompt import Prompt, plain
from semgraph.semantic.answers import Invalid, read_value


def validated(prompt: Prompt, values: Mapping[str, Any]) -> dict[str, Any]:
    """The answers as the classes of a prompt return them.

    Raises:
        Invalid: A class refuses them; with what it says.
        Fault: A validator raises another error.
    """
    whole = Type("struct", fields=prompt.returns, validator=prompt.validator)
    return {**values, **read_value(whole, _validated(whole, values), "", [])}


def _validated(kind: Type, value: Any) -> Any:
    """A typed value as JSON, in which classes have validated their parts."""
    if value is None:
        return None
    if kind.item is not None:
        return [_validated(kind.item, item) for item in value]
    if kind.name == "struct":
        value = {name: _validated(part, value[name]) for name, part in kind.fields}
    else:
        value = json.loads(value) if kind.name == "json" else plain(value)
    return value if kind.validator is None else _of_class(kind, _called(kind, value))


def _called(kind: Type, value: Mapping[str, Any]) -> Any:
    """An object of the class of a type.

    Raises:
        Invalid: The class refuses the values.
        Fault: A validator raises another error.
    """
    from pydantic import ValidationError

    text = canonical_json(_answered(kind.validator, kind, value))
    try:
        return kind.validator.model_validate_json(text, by_alias=False, by_name=True)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        raise Invalid("; ".join(map(_reason, faults))) from None
    except Exception as error:
        _, *frames = extract_tb(error.__traceback__)
        own = [frame for frame in frames if "pydantic" not in Path(frame.filename).parts]
        place = f"{own[0].name} in {own[0].filename}:{own[0].lineno}" if own else "a validator"
        what = f"{kind.validator.__name__}: {place} raised {type(error).__name__}: {error}"
        raise Fault(what, hint="a validator refuses a value by a ValueError") from error


def _answered(cls: Any, kind: Type, value: Any) -> Any:
    """A value without the fields that were not answered: the class has defaults for them."""
    if value is None or cls is None:
        return value
    if kind.item is not None:
        return [_answered(cls, kind.item, item) for item in value]
    fields: Mapping[str, Any] = getattr(cls, "model_fields", {})
    return (
        value
        if not kind.fields
        else {
            name: _answered(_model_in(fields[name].annotation), part, value[name])
            for name, part in kind.fields
            if fields[name].is_required() or value[name] != keywords(part.limits).get(DEFAULT)
        }
    )


def _model_in(kind: Any) -> Any:
    """The class of the objects in a field's type; None without one."""
    if hasattr(kind, "model_fields"):
        return kind
    return next(filter(None, map(_model_in, get_args(kind))), None)


def _reason(fault: Mapping[str, Any]) -> str:
    """What a class says of an answer, as a reason for the model."""
    place = "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in fault["loc"])
    raised = (fault.get("ctx") or {}).get("error")
    said = str(raised) if isinstance(raised, Exception) else fault["msg"]
    return f"{place[1:]}: {said}" if place else said


def _of_class(kind: Type, value: Any) -> Any:
    """An object, or a part of one, as JSON with the fields of a type."""
    from pydantic_core import to_jsonable_python

    if kind.item is not None and value is not None:
        return [_of_class(kind.item, item) for item in value]
    if not kind.fields or value is None:
        return to_jsonable_python(value)
    read = value if isinstance(value, Mapping) else {n: getattr(value, n) for n, _ in kind.fields}
    return {name: _of_class(part, read[name]) for name, part in kind.fields}
