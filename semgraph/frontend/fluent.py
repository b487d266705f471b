"""Frames to plans: the document is written from what was recorded, and the plan is loaded from the document."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from semgraph.errors import PlanError, Problem
from semgraph.frontend.document import Document, parse, shown
from semgraph.frontend.frame import Frame
from semgraph.frontend.loader import load_document
from semgraph.frontend.places import inside
from semgraph.frontend.recording import Made, Recorded, World, together
from semgraph.frontend.writing import write_yaml
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.sinks import Sink

_GRAPH = "graph.yaml"  # what a plan calls a graph that was given as an object
Returns = Frame | Mapping[str, Frame] | Sequence[Frame]


def plan(
    name: str,
    returns: Returns | None = None,
    *,
    writes: Sequence[Frame] = (),
    use: Mapping[str, str] | None = None,
    allow: Sequence[str] = (),
    doc: str = "",
) -> LogicalPlan:
    """A plan of frames.

    Args:
        name: Its name.
        returns: The results: a frame, frames, or frames by name.
        writes: What `merge` and `delete` of frames gave.
        use: How steps are done, by name of the step.
        allow: Rewrites that may change answers.
        doc: What it does.

    Raises:
        PlanError: The frames make no plan.

    >>> from semgraph.frontend.sources import table
    >>> tickets = table([{"id": 1, "body": "The kettle leaks."}], name="tickets")
    >>> plan("complaints", tickets.sem_filter("Does {body} complain?").step("complaints")).document["steps"]
    {'complaints': [{'from': 'tickets'}, {'sem_filter': {'prompt': 'Does {body} complain?'}}]}
    """
    world, document = _document(name, returns, writes, use, allow, doc)
    return _load(document, world)


def save(
    path: Path,
    returns: Returns | None = None,
    *,
    writes: Sequence[Frame] = (),
    use: Mapping[str, str] | None = None,
    allow: Sequence[str] = (),
    doc: str = "",
) -> Path:
    """Write a plan of frames to a file, which also names it. Arguments as `plan`.

    Raises:
        PlanError: There it would not be the same plan: its graph, prompts or called plans are not beside it.
    """
    world, document = _document(path.stem, returns, writes, use, allow, doc)
    meant = _load(document, world)
    if world.graph_file is not None:
        copied = path.parent / world.graph_file.name  # of a graph elsewhere, which a plan file must not name
        file = copied if not inside(world.graph_file, (path.parent,)) and copied.is_file() else world.graph_file
        document["graph"] = os.path.relpath(file, path.parent).replace(os.sep, "/")
    text = write_yaml(document)
    there = load_document(parse(text, shown(path)), path)
    if there.fingerprint != meant.fingerprint:
        hint = f"save it in {world.folder}, or copy what it needs from there"
        raise PlanError(Problem(f"{path} would be another plan: its graph, prompts or called plans differ", hint=hint))
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PlanError(Problem(f"cannot write {path}: {error.strerror or error}")) from None
    return path


def _load(document: Mapping[str, Any], world: World) -> LogicalPlan:
    path = world.folder / f"{document['plan']}.yaml"
    graphs = {(world.folder / _GRAPH).resolve(): world.graph} if world.graph_file is None else {}
    try:
        return load_document(Document("", document), path, graphs=graphs, confined=False)
    except PlanError as error:
        raise PlanError(*(replace(problem, position=None) for problem in error.problems)) from None


def _document(
    name: str,
    returns: Returns | None,
    writes: Sequence[Frame],
    use: Mapping[str, str] | None,
    allow: Sequence[str],
    doc: str,
) -> tuple[World, dict[str, Any]]:
    results = _results(returns)
    if not results and not writes:
        raise PlanError(Problem("a plan needs frames that it returns or writes"))
    world = together([frame.world for _, frame in results] + [frame.world for frame in writes])
    sources = [_written(frame.made) for frame in writes]
    recorded = Recorded([*(frame.made for _, frame in results), *sources], world.graph.labels)
    sinks = [
        {frame.made.keyword: {"from": recorded.reference(source), **recorded.plain(frame.made.arguments)}}
        for frame, source in zip(writes, sources, strict=True)
    ]
    parts: dict[str, Any] = {
        "plan": name,
        "doc": doc,
        "graph": _graph(world),
        "inputs": {i: _columns(made) for i, made in recorded.inputs.items()},
        "optional": [name for name, made in recorded.inputs.items() if made.spec is not None and made.spec.optional],
        "order": _order(recorded.inputs),
        "steps": recorded.steps,
        "writes": sinks,
        "returns": _returned([(given, recorded.reference(frame.made)) for given, frame in results]),
        "use": dict(use or {}),
        "allow": list(allow),
    }
    return world, {key: value for key, value in parts.items() if value}


def _results(returns: Returns | None) -> list[tuple[str, Frame]]:
    """The results, each with its name, or "" for that of its step."""
    if returns is None:
        return []
    if isinstance(returns, Mapping):
        return list(returns.items())
    return [("", frame) for frame in ([returns] if isinstance(returns, Frame) else returns)]


def _returned(results: Sequence[tuple[str, str]]) -> Any:
    """`returns` as a plan says it."""
    if all(not name for name, _ in results):
        return [reference for _, reference in results]
    return dict(results)


def _written(made: Made) -> Made:
    if not isinstance(made.node, Sink) or made.parent is None:
        raise PlanError(
            Problem("writes holds a frame that writes nothing", hint="give it frame.merge(...) or frame.delete(...)")
        )
    return made.parent


def _graph(world: World) -> str:
    if world.graph_file is None:
        return _GRAPH if world.graph.labels else ""
    return os.path.relpath(world.graph_file, world.folder).replace(os.sep, "/")


def _columns(made: Made) -> dict[str, str]:
    assert made.spec is not None
    return {name: str(kind) for name, kind in made.spec.columns}


def _order(inputs: Mapping[str, Made]) -> dict[str, Any]:
    ordered = {name: made.order for name, made in inputs.items() if made.order}
    if len(ordered) > 1:
        raise PlanError(Problem("two tables have an order: " + ", ".join(ordered), hint="a plan cuts one input"))
    return next(({"input": name, **order} for name, order in ordered.items()), {})
