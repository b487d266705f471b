"""Where relations of the fluent API come from: rows, labels of a graph, unions, other plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from semgraph.errors import Fault, InputError, PlanError, Problem
from semgraph.expr.types import Type, type_of_arrow
from semgraph.frontend.build import SOURCES, build, by_keyword
from semgraph.frontend.calls import call_plan
from semgraph.frontend.document import Document
from semgraph.frontend.faults import Faults
from semgraph.frontend.found import Poisoned
from semgraph.frontend.frame import Frame
from semgraph.frontend.head import read_graph
from semgraph.frontend.reading import NO_GRAPH, Loading, Reading
from semgraph.frontend.recording import FluentScope, Made, World, joined, told
from semgraph.frontend.rows import check_rows, columns_of
from semgraph.frontend.shape import input_schema, read_inputs, read_optional, read_order
from semgraph.logical.plan import InputSpec
from semgraph.logical.relational import Input
from semgraph.logical.schema import Graph

_SOURCES = by_keyword(SOURCES)


def table(
    rows: Any,
    key: str | None = None,
    name: str = "table",
    *,
    graph: str | Path | Graph | None = None,
    folder: str | Path | None = None,
    order: Mapping[str, Any] | None = None,
    optional: bool = False,
) -> Frame:
    """Rows as a relation.

    Args:
        rows: A pandas data frame, an Arrow table, or a list of mappings.
        key: The column that names a row; its values must differ.
        name: The name of the input in plans.
        graph: The graph that store reads and writes are about: its file, or a `Graph`.
        folder: Where `prompts/` and called plans are; else beside the graph file, else the working directory.
        order: How the rows are cut into windows, as in a plan's `order` without `input`.
        optional: Whether a saved plan runs without these rows too: then there are none.

    Raises:
        InputError: The rows cannot be read as a table.

    >>> table([{"id": 1, "at": "2025-01-15"}], key="id")
    Frame(input: id int64, at string)
    """
    world = _world(graph, folder)
    given, spec = _spec(rows, name)
    if key is not None and key not in dict(spec.columns):
        there = "columns: " + ", ".join(given.schema.names)
        raise InputError(Problem(f'input {name} has no column "{key}", which is to be its key', there=there))
    try:
        cut = None if order is None else read_order({"input": name, **order}, {name: spec}, world.graph.partition)
        spec = read_optional([name] if optional else [], {name: spec}, (), name if cut is not None else "")[name]
    except Fault as fault:
        raise told("order", fault) from None
    checked = check_rows(spec, given, key=key or (cut.key if cut else ""), partition=cut.partition if cut else "")
    node = Input(step=name, name=name, columns=input_schema(spec, windowed=cut is not None), windowed=cut is not None)
    return Frame(Made("", {}, node, table=checked, spec=spec, order=dict(order or {})), world, key)


def _world(graph: str | Path | Graph | None, folder: str | Path | None) -> World:
    if isinstance(graph, (str, Path)):
        path = Path(graph)
        if not path.is_file():
            raise PlanError(Problem(f"no graph file {path}", hint="graph=: the path of a graph.yaml, or a Graph"))
        return World(read_graph(path), path, Path(folder) if folder is not None else path.parent)
    return World(graph or NO_GRAPH, None, Path(folder or "."))


def _spec(rows: Any, name: str) -> tuple[pa.Table, InputSpec]:
    """Given rows as a table, and the declaration that fits them."""
    try:
        columns, _ = columns_of(rows)
    except Fault as fault:
        raise InputError(Problem(f"input {name} {fault.what}", hint=fault.hint)) from None
    arrays, types, problems = [], {}, []
    for column, values in columns.items():
        try:
            array: Any = pa.array(values) if isinstance(values, list) else values
            types[column] = str(_type_of(array))
            arrays.append(array)
        except (Fault, pa.ArrowException, UnicodeEncodeError, OverflowError) as error:
            hint = "give each column values of one type"
            problems.append(Problem(f'input {name}, column "{column}": {error}', hint=hint))
    if problems:
        raise InputError(*problems)
    try:
        specs, faults = read_inputs({name: types})
    except Fault as fault:
        raise told("table", fault) from None
    if faults:
        raise told("table", Faults(faults))
    spec = specs[name]
    return pa.table(arrays, names=list(columns)), spec


def _type_of(array: Any) -> Type:
    """The type of a column, with `null` where its values hold one, also inside lists and structs. Raises Fault."""
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    kind = type_of_arrow(array.type)
    given = array.drop_null()
    if kind.item is not None and kind.name == "list":
        kind = replace(kind, item=_type_of(given.flatten()))
    elif kind.name == "struct":
        fields = zip(kind.fields, given.flatten(), strict=True)
        kind = replace(kind, fields=tuple((name, _type_of(values)) for (name, _), values in fields))
    return replace(kind, nullable=bool(array.null_count))


def scan(
    label: str,
    *,
    graph: str | Path | Graph,
    partition: str | None = None,
    folder: str | Path | None = None,
) -> Frame:
    """The stored rows of a label: `from: LABEL`. `partition="all"` reads those of all partitions."""
    world = _world(graph, folder)
    arguments = label if partition is None else {"label": label, "partition": partition}
    try:
        node = build(_SOURCES["scan"], arguments, FluentScope(world))
    except Fault as fault:
        raise told("from", fault) from None
    return Frame(Made("from", arguments, node), world)


def union(relations: Sequence[Frame], *, step: str | None = None) -> Frame:
    """∪: all rows of relations with the same columns, the first relation's first. `step` names the step.

    >>> union([table([{"id": 1}], name="a"), table([{"id": 2}], name="b")])
    Frame(union: id int64)
    """
    if not relations:
        raise PlanError(Problem("union: expected a list of relations, found nothing"))
    world, plain = joined(relations[0].world, list(relations))
    try:
        node = build(_SOURCES["union"], plain, FluentScope(world))
    except Fault as fault:
        raise told("union", fault) from None
    made = Frame(Made("union", plain, node), world)
    return made if step is None else made.step(step)


def call(
    plan: str,
    inputs: Mapping[str, Frame],
    params: Mapping[str, Any] | None = None,
    preset: str | None = None,
    *,
    step: str = "",
) -> dict[str, Frame]:
    """Another plan as a step: its results by name. `step` names the step.

    Raises:
        PlanError: There is no such plan, it is wrong, or the inputs do not fit it.
    """
    first = next(iter(inputs.values()), None)
    rest = {"params": dict(params or {}), "preset": preset}
    given = {"plan": plan, "inputs": dict(inputs)} | {key: value for key, value in rest.items() if value}
    world, plain = joined(first.world if first is not None else _world(None, None), given)
    loading = Loading(call_plan)
    caller = Reading(loading, Document("", {}), world.folder, confined=False)
    caller.graph = world.graph
    try:
        results = call_plan(caller, FluentScope(world), plain, step or "call", None)
    except Fault as fault:
        raise told("call", fault) from None
    except Poisoned:
        raise PlanError(*loading.problems) from None
    if not results.tables:
        raise PlanError(Problem(f'call: plan "{plan}" returns nothing'))
    made = Made("call", plain, next(iter(results.tables.values())), name=step)
    return {name: Frame(Made("result", name, node, made), world) for name, node in results.tables.items()}
