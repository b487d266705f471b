"""Warnings about a sound plan: a prompt without columns, a parameter without use, a model call that nothing reads.

Such a plan runs, but it hardly does what its author means. A warning has the place of what it is about, as an error has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from semgraph.errors import PlanError, Position, Problem
from semgraph.frontend.document import read_text
from semgraph.frontend.found import Results
from semgraph.frontend.reading import Reading
from semgraph.frontend.settings import whole_parameter
from semgraph.logical.node import Node, walk
from semgraph.logical.semantic import Semantic

_SILENT = ("params", "doc", "calls", "example")  # parts of a plan in which no parameter has a meaning
_CONDITIONS = frozenset({"where", "filter", "having"})
_PARAMETER = re.compile(r"\$([A-Za-z_]\w*)")


def warnings(reading: Reading) -> tuple[Problem, ...]:
    """The warnings about a plan without errors and about the plans it calls, in the order of their places."""
    roots = [*reading.writes, *reading.returns.values()]
    found = [
        *_prompts_without_columns([*roots, *reading.all_steps().values()]),
        *(warning for part in _parts(reading) for warning in _unused_parameters(part)),
        *(warning for part in _parts(reading) for warning in _unread_steps(part, {id(node) for node in walk(*roots)})),
    ]
    return tuple(sorted(dict.fromkeys(found), key=lambda each: _order(each.position, reading.document.file)))


def _order(position: Position | None, first: str) -> tuple[bool, str, int, int]:
    """The plan's own file before those of the plans it calls, each in the order of its lines."""
    assert position is not None
    return position.file != first, position.file, position.line, position.column


def _parts(reading: Reading) -> Iterator[Reading]:
    """A plan and the plans it calls."""
    yield reading
    for called in reading.called:
        yield from _parts(called)


def _prompts_without_columns(roots: Iterable[Node]) -> Iterator[Problem]:
    for node in walk(*roots):
        if not isinstance(node, Semantic):
            continue
        for prompt in node.prompt.all:
            if not prompt.fields:
                there = "columns: " + ", ".join(node.inputs[0].schema.names)
                what = f'the prompt "{prompt.name}" names no column, so the question is the same for every row'
                yield Problem(what, node.step, node.origin, there, "write {column} where its value belongs")


def _unused_parameters(reading: Reading) -> Iterator[Problem]:
    declared = reading.data.get("params") or {}
    if not declared or _takes_conditions(reading.data):
        return  # what a condition of a caller names is not known
    texts = [text for key, part in reading.data.items() if key not in _SILENT for text in _texts(part, keys=True)]
    texts += _prompt_files(reading)
    used = {name for text in texts for name in _PARAMETER.findall(text)}
    for name in declared:
        if name not in used:
            position = reading.document.position("params", name, key=True)
            hint = f"write ${name} where its value belongs, or remove it"
            yield Problem(f'the parameter "{name}" is not used', position=position, hint=hint)


def _takes_conditions(value: Any) -> bool:
    """Whether a condition is a parameter as a whole: it may name any other."""
    if isinstance(value, Mapping):
        given = [text for key in _CONDITIONS & value.keys() for text in _texts(value[key])]
        return any(map(whole_parameter, given)) or any(map(_takes_conditions, value.values()))
    return isinstance(value, list) and any(map(_takes_conditions, value))


def _prompt_files(reading: Reading) -> Iterator[str]:
    """The texts of all prompt files that the plan names, also in steps that its parameters leave out."""
    folder = reading.steps.prompts.folder
    for name in dict.fromkeys(_prompt_names(reading.data)):
        path = folder / f"{name}.md"
        if "\0" not in name and path.is_file():
            try:
                yield read_text(path, "prompt")
            except PlanError:  # of a step that is left out: told when it is not
                continue


def _prompt_names(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _texts(part) if key == "prompt" else _prompt_names(part)
    elif isinstance(value, list):
        for part in value:
            yield from _prompt_names(part)


def _unread_steps(reading: Reading, reached: set[int]) -> Iterator[Problem]:
    """Steps with model calls that nothing names: they are never run. A step that parameters cut off is named somewhere."""
    for name, built in reading.steps.built.items():
        nodes = built.tables.values() if isinstance(built, Results) else [built] if isinstance(built, Node) else []
        lost = [node for node in walk(*nodes) if node.calls_llm and id(node) not in reached]
        if lost and not _is_named(reading, name):
            position = reading.document.position("steps", name, key=True)
            what = "nothing reads this step, so its model calls are never made"
            hint = "name it in returns, in a write or in another step, or remove it"
            yield Problem(what, reading.prefix + name, position, hint=hint)


def _is_named(reading: Reading, step: str) -> bool:
    """Whether another step, a write or a result names a step, or a result of it."""
    others = [body for name, body in reading.steps.raw.items() if name != step]
    parts = [*others, reading.data.get("writes"), reading.data.get("returns")]
    return any(text.split(".", maxsplit=1)[0] == step for part in parts for text in _texts(part))


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
