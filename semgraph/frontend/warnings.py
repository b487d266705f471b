"""Warnings about a plan without errors: what its author hardly means."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from semgraph.errors import PlanError, Position, Problem
from semgraph.frontend.arguments import whole_parameter
from semgraph.frontend.document import read_text
from semgraph.frontend.head import Head
from semgraph.frontend.prompt_files import Prompts
from semgraph.logical.node import Node, walk
from semgraph.logical.semantic import Semantic
from semgraph.logical.sinks import Sink


class LoadedPart(Protocol):
    """A plan, or one that it calls, as its loader has read it."""

    head: Head
    prompts: Prompts
    raw: dict[str, Any]
    built: dict[str, Any]
    writes: list[Sink]
    returns: dict[str, Node]

    def parts(self) -> Iterator[LoadedPart]:
        """This plan and those that it calls."""

    def all_steps(self) -> dict[str, Node]:
        """Every step by name."""


_SILENT = (
    "params",
    "doc",
    "calls",
    "example",
)  # parts of a plan in which no parameter has a meaning
_CONDITIONS = frozenset({"where", "filter", "having"})
_PARAMETER = re.compile(r"\$([A-Za-z_]\w*)")


def warnings(plan: LoadedPart) -> tuple[Problem, ...]:
    """The warnings about a plan without errors and about the plans it calls, in the order of their
    places.
    """
    roots = [*plan.writes, *plan.returns.values()]
    reached = set(walk(*roots))
    problems = [
        *_prompts_without_columns([*roots, *plan.all_steps().values()]),
        *(warning for part in plan.parts() for warning in _unused_parameters(part)),
        *(warning for part in plan.parts() for warning in _unread_steps(part, reached)),
    ]
    first = plan.head.document.file
    return tuple(sorted(dict.fromkeys(problems), key=lambda each: _order(each.position, first)))


def _order(position: Position | None, first: str) -> tuple[bool, str, int, int]:
    """The plan's own file before those of the plans it calls, each in the order of its lines."""
    assert position is not None
    return position.file != first, position.file, position.line, position.column


def _prompts_without_columns(roots: Iterable[Node]) -> Iterator[Problem]:
    for node in walk(*roots):
        if not isinstance(node, Semantic):
            continue
        for prompt in node.prompt.all:
            if not prompt.fields:
                there = "columns: " + ", ".join(node.inputs[0].schema.names)
                what = f'the prompt "{prompt.name}" names no column, so the question is the same for every row'
                yield Problem(
                    what, node.step, node.origin, there, "write {column} where its value belongs"
                )


def _unused_parameters(part: LoadedPart) -> Iterator[Problem]:
    declared = part.head.data.get("params") or {}
    if not declared or _takes_conditions(part.head.data):
        return  # what a condition of a caller names is not known
    texts = [
        text
        for key, value in part.head.data.items()
        if key not in _SILENT
        for text in _texts(value, keys=True)
    ]
    texts += _prompt_files(part)
    used = {name for text in texts for name in _PARAMETER.findall(text)}
    for name in declared:
        if name not in used:
            position = part.head.document.position("params", name, key=True)
            hint = f"write ${name} where its value belongs, or remove it"
            yield Problem(f'the parameter "{name}" is not used', position=position, hint=hint)


def _takes_conditions(value: Any) -> bool:
    """Whether a condition is a parameter as a whole: it may name any other."""
    if isinstance(value, Mapping):
        conditions = [text for key in _CONDITIONS & value.keys() for text in _texts(value[key])]
        return any(map(whole_parameter, conditions)) or any(map(_takes_conditions, value.values()))
    return isinstance(value, list) and any(map(_takes_conditions, value))


def _prompt_files(part: LoadedPart) -> Iterator[str]:
    """The texts of all prompt files that the plan names, also in steps that its parameters leave
    out.
    """
    folder = part.prompts.folder
    for name in dict.fromkeys(_prompt_names(part.head.data)):
        path = folder / f"{name}.md"
        if "\0" not in name and path.is_file():
            try:
                yield read_text(path, "prompt")
            except PlanError:  # of a step that is left out: reported when it is not
                continue


def _prompt_names(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _texts(part) if key == "prompt" else _prompt_names(part)
    elif isinstance(value, list):
        for part in value:
            yield from _prompt_names(part)


def _unread_steps(part: LoadedPart, reached: set[Node]) -> Iterator[Problem]:
    """Steps with model calls that nothing names: they are never run. A step that parameters cut off
    is named somewhere.
    """
    for name, built in part.built.items():
        nodes = [built] if isinstance(built, Node) else [*getattr(built, "tables", {}).values()]
        if all(node in reached for node in nodes):
            continue
        unread = [node for node in walk(*nodes) if node.calls_model and node not in reached]
        if unread and not _is_named(part, name):
            position = part.head.document.position("steps", name, key=True)
            what = "nothing reads this step, so its model calls are never made"
            hint = "name it in returns, in a write or in another step, or remove it"
            yield Problem(what, part.head.prefix + name, position, hint=hint)


def _is_named(part: LoadedPart, step: str) -> bool:
    """Whether another step, a write or a result names a step, or a result of it."""
    others = [body for name, body in part.raw.items() if name != step]
    parts = [*others, part.head.data.get("writes"), part.head.data.get("returns")]
    return any(text.split(".", maxsplit=1)[0] == step for value in parts for text in _texts(value))


def _texts(value: Any, *, keys: bool = False) -> Iterator[str]:
    """All texts in plain data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            if keys:
                yield str(key)
            yield from _texts(part, keys=keys)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part, keys=keys)
