"""sem_map with a schema: the prompts of a node for the forms of answer that its rows ask for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from semgraph.errors import DataError, Fault
from semgraph.expr.types import Type, parse_type
from semgraph.logical.prompt import Prompt, PromptSet
from semgraph.logical.schema import NAME
from semgraph.logical.semantic import SemMap

_HINT = 'write types by name, such as {"title": {"type": "string", "describe": "a job"}}'
_SHOWN = 120


def shaped(node: SemMap, forms: Sequence[str | None], prompts: Sequence[int]) -> tuple[SemMap, list[int]]:
    """The node with a prompt for each form of answer that its rows ask for, and the number of each row's prompt in it.

    Args:
        node: One with a schema.
        forms: What each row says of its answer.
        prompts: The number of each row's prompt in the node.

    Raises:
        DataError: A row says nothing that could be asked for.
    """
    numbers: dict[tuple[int, str], int] = {}
    found: list[Prompt] = []
    rows = []
    for number, text in zip(prompts, forms, strict=True):
        place = (number, text or "")
        if place not in numbers:
            numbers[place] = len(found)
            try:
                found.append(_formed(node.prompt.all[number], text or ""))
            except Fault as fault:
                shown = "" if text is None else f": {text[:_SHOWN]}"
                what = f"{node.form} is no schema: {fault.what}{shown}"
                raise DataError(what, hint=fault.hint or _HINT) from None
        rows.append(numbers[place])
    return replace(node, prompt=PromptSet(tuple(("", prompt) for prompt in found), node.prompt.by)), rows


def _formed(prompt: Prompt, text: str) -> Prompt:
    fields, meanings = form_of(text)
    name = next(name for name, kind in prompt.returns if kind.name == "json")
    returns = tuple((n, replace(kind, fields=fields) if n == name else kind) for n, kind in prompt.returns)
    described = tuple((f"{name}.{path}", meaning) for path, meaning in meanings)
    return replace(prompt, returns=returns, describe=(*prompt.describe, *described))


def form_of(text: str) -> tuple[tuple[tuple[str, Type], ...], tuple[tuple[str, str], ...]]:
    """What a JSON text says an object holds: types by name, and what they mean. Raises Fault."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise Fault("it is no JSON") from None
    if not isinstance(data, dict) or not data:
        raise Fault("it names no fields")
    fields, meanings = [], []
    for name, value in data.items():
        kind, meaning = _field(name, value)
        fields.append((name, kind))
        meanings += [(name, meaning)] if meaning else []
    return tuple(fields), tuple(meanings)


def _field(name: str, value: Any) -> tuple[Type, str]:
    if not NAME.match(name):
        raise Fault(f'"{name}" is no name', hint="letters, digits and _, not starting with a digit")
    given = value if isinstance(value, Mapping) else {"type": value}
    kind, meaning = given.get("type"), given.get("describe", "")
    if not isinstance(kind, str) or not isinstance(meaning, str) or not set(given) <= {"type", "describe"}:
        raise Fault(f'"{name}" has no type')
    return parse_type(kind), meaning
