"""Warnings about a plan without errors: parts that its author probably did not intend."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Protocol

from semgraph.errors import PlanError, Problem
from semgraph.frontend.document import Document, read_text, walk_paths
from semgraph.frontend.head import Head
from semgraph.frontend.kinds import PARAMETER, whole_parameter
from semgraph.frontend.prompt_files import Prompts
from semgraph.logical.node import Node, walk
from semgraph.logical.semantic import Semantic
from semgraph.logical.sinks import Sink


class LoadedPart(Protocol):
    """A plan or called plan, as read by its loader."""

    head: Head
    prompts: Prompts
    raw: dict[str, Any]
    built: dict[str, Any]
    writes: list[Sink]
    returns: dict[str, Node]

    def parts(self) -> Iterator[LoadedPart]:
        """This plan and its called plans."""

    def all_steps(self) -> dict[str, Node]:
        """Every step by name."""


# The parts of a plan in which no parameter has a meaning.
_SILENT = ("params", "doc", "calls", "example")
_CONDITIONS = frozenset({"where", "filter", "having"})


def warnings(plan: LoadedPart) -> tuple[Problem, ...]:
    """The warnings about a plan without errors and the plans it calls, by position."""
    roots = [*plan.writes, *plan.returns.values()]
    reached = set(walk(*roots))
    problems = [
        *_prompts_without_columns([*roots, *plan.all_steps().values()]),
        *(warning for part in plan.parts() for warning in _unused_parameters(part)),
        *(warning for part in plan.parts() for warning in _unread_steps(part, reached)),
    ]
    return tuple(sorted(dict.fromkeys(problems), key=partial(place_of, plan.head.document.file)))


def place_of(first: str, problem: Problem) -> tuple[bool, str, int, int]:
    """The sort key of a problem: the plan's own file first, then by file and position."""
    position = problem.position
    if position is None:
        return False, "", 0, 0
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
    mentions = _mentions(part.head.document)
    if mentions.takes_conditions or not part.raw:
        return  # a caller's condition may name any parameter; a plan without steps is an interface
    unused = [name for name in declared if name not in mentions.parameters]
    texts = _prompt_files(part) if unused else ()
    in_prompts = {name for text in texts for name in PARAMETER.findall(text)}
    for name in unused:
        if name not in in_prompts:
            position = part.head.document.position("params", name, key=True)
            hint = f"write ${name} where its value belongs, or remove it"
            yield Problem(f'the parameter "{name}" is not used', position=position, hint=hint)


@dataclass(frozen=True)
class _Mentions:
    """The names in a plan's text, independent of its parameters."""

    parameters: frozenset[str]  # without those in prompt files
    prompts: tuple[str, ...]  # values of the key `prompt`, each once
    takes_conditions: bool  # whether a condition is a whole parameter, which may name any other one


@lru_cache(maxsize=64)
def _mentions(document: Document) -> _Mentions:
    body = {key: value for key, value in document.data.items() if key not in _SILENT}
    texts = _texts(list(body.values()), keys=True)
    of_key: dict[str, list[str]] = {}
    passed: list[str] = []  # parameters passed to called plans by name
    for path, value in walk_paths(document.data):
        key = path[-1] if path else ""
        if key == "call" and isinstance(value, dict) and isinstance(value.get("params"), list):
            passed += _texts(value["params"])
        if key == "prompt" or key in _CONDITIONS:
            of_key.setdefault(str(key), []).extend(_texts(value))
    conditions = [text for key in _CONDITIONS for text in of_key.get(key, ())]
    return _Mentions(
        frozenset([*passed, *(name for text in texts for name in PARAMETER.findall(text))]),
        tuple(dict.fromkeys(of_key.get("prompt", ()))),
        any(map(whole_parameter, conditions)),
    )


def _prompt_files(part: LoadedPart) -> Iterator[str]:
    """The texts of all prompt files of the plan, also of steps that its parameters leave out."""
    folder = part.prompts.folder
    for name in _mentions(part.head.document).prompts:
        path = folder / f"{name}.md"
        if "\0" not in name and path.is_file():
            try:
                yield read_text(path, "prompt")
            except PlanError:  # the step is left out; the error is reported when it is not
                continue


def _unread_steps(part: LoadedPart, reached: set[Node]) -> Iterator[Problem]:
    """The problems of steps with model calls that nothing names: they never run."""
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
    others = [body for name, body in part.raw.items() if name != step]
    parts = [*others, part.head.data.get("writes"), part.head.data.get("returns")]
    return any(text.split(".", maxsplit=1)[0] == step for value in parts for text in _texts(value))


def _texts(value: Any, *, keys: bool = False) -> list[str]:
    """All texts in plain data."""
    parts = list(walk_paths(value))
    named = [str(path[-1]) for path, _ in parts if path] if keys else []
    return [*named, *(part for _, part in parts if isinstance(part, str))]
