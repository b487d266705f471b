"""`call`: another plan's steps in place of a step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from semgraph.errors import Fault, Position, did_you_mean
from semgraph.expr.scalar import parse_scalar
from semgraph.expr.types import type_of_arrow
from semgraph.frontend.body import read_body
from semgraph.frontend.document import read_file
from semgraph.frontend.faults import Faults, unknown
from semgraph.frontend.finding import find_named
from semgraph.frontend.found import Poisoned, Pruned, Results
from semgraph.frontend.head import read_head
from semgraph.frontend.reading import MOST_CALLS, Reading, at
from semgraph.frontend.scope import Scope
from semgraph.frontend.settings import known_keys, mapping, settle
from semgraph.frontend.shape import input_schema
from semgraph.logical.node import Node
from semgraph.logical.plan import InputSpec, Order
from semgraph.logical.relational import Add, Nothing

_KEYS = ("plan", "inputs", "params", "preset")


def call_plan(caller: Reading, scope: Scope, value: Any, step: str, origin: Position | None) -> Results:
    """The results of a called plan; its steps are named `step/inner`, and its writes are the caller's.

    Its inputs are relations of the caller with at least the declared columns, of the declared types: a missing column that
    may be NULL is added as NULL, and further columns pass through. Its `order` cuts nothing: the caller's windows rule.

    Raises:
        Fault: The call is wrong.
        Poisoned: The called plan is wrong; its problems are among the problems.
    """
    given = mapping(value, "{plan: NAME, inputs: {name: RELATION}}")
    faults = known_keys(given, _KEYS, "call")
    if not isinstance(given.get("plan"), str):
        faults.append(Fault("call needs plan: the name of a plan"))
    if faults:
        raise Faults(faults)
    path = at("plan", _file, caller, given["plan"])
    loading = caller.loading
    before, outer = len(loading.problems), loading.open
    inner = Reading(loading, read_file(path), path.parent, f"{step}/")
    loading.open = (*outer, path)
    try:
        params = at("params", mapping, given.get("params"), "a mapping of parameters")
        declared = inner.data.get("params")
        at("params", settle, declared if isinstance(declared, Mapping) else params, params)
        presets = inner.data.get("presets")
        if given.get("preset") is not None and isinstance(presets, Mapping) and given["preset"] not in presets:
            raise unknown(
                str(given["preset"]), presets, "the called plan has no preset", "presets", "preset", value=True
            )
        read_head(inner, given.get("preset"), params, {})
        _same_graph(caller, inner)
        if len(loading.problems) > before:
            raise Poisoned
        read_body(inner, at("inputs", _inputs, scope, inner, given.get("inputs"), step, origin))
    finally:
        loading.open = outer
    caller.called.append(inner)
    caller.writes += inner.writes
    caller.schema = caller.schema or inner.schema
    if len(loading.problems) > before:
        raise Poisoned
    return Results(step.removeprefix(caller.prefix), inner.returns)


def _file(caller: Reading, name: str) -> Path:
    path = find_named(name, (caller.folder, *caller.loading.folders), confined=caller.confined)
    found = [p.resolve() for p in caller.loading.open]
    if path.resolve() in found:
        ring = [*found[found.index(path.resolve()) :], path]
        raise Fault("plans call each other: " + " → ".join(p.stem for p in ring))
    if len(found) >= MOST_CALLS:
        raise Fault(f"plans call plans at most {MOST_CALLS} deep", hint="put steps of several plans into one")
    return path


def _same_graph(caller: Reading, inner: Reading) -> None:
    if caller.graph_broken or inner.graph_broken:
        raise Poisoned
    if not inner.graph.labels or inner.graph == caller.graph:
        return
    if caller.graph.labels:
        raise Fault(
            "the called plan has another graph", "plan", there=f"{inner.data['graph']} of {inner.document.file}"
        )
    hint = f"add graph: {inner.data['graph']} to this plan"
    raise Fault("the called plan reads a graph, and this plan names none", "plan", hint=hint)


def _inputs(scope: Scope, inner: Reading, value: Any, step: str, origin: Position | None) -> dict[str, Node]:
    given = mapping(value, "a mapping of relations")
    faults = known_keys(given, inner.inputs, "the called plan")
    found: dict[str, Node] = {}
    for name, spec in inner.inputs.items():
        if name not in given and spec.optional:
            continue
        if name not in given:
            faults.append(Fault(f'the call needs the input "{name}"'))
            continue
        try:
            found[name] = _fit(scope.relation(given[name]), spec, inner.order, f"{step}/{name}", origin)
        except Fault as fault:
            faults.append(fault.under(name))
        except Pruned:
            if not spec.optional:
                raise
    if faults:
        raise Faults(faults)
    windowed = any(node.partitioned for node in found.values())  # no rows belong where those belong that are given
    for name, spec in inner.inputs.items():
        if name not in found:
            called = f"{step}/{name}"
            found[name] = Nothing(step=called, origin=origin, name=called, columns=spec.schema, windowed=windowed)
    return found


def _fit(node: Node, spec: InputSpec, order: Order | None, step: str, origin: Position | None) -> Node:
    """A caller's relation as an input: checked, with columns of NULL where it lacks some that may be NULL."""
    declared, have = dict(spec.columns), node.schema.names
    missing, faults = [], []
    for column in input_schema(spec, windowed=order is not None and order.input == spec.name):
        name, kind = column.name, type_of_arrow(column.type)
        if name in have:
            own = type_of_arrow(node.schema.field(name).type)
            if own != kind:
                faults.append(Fault(f'column "{name}" is {own}, the called plan wants {kind}'))
        elif name in declared and declared[name].nullable:
            missing.append((name, parse_scalar(f"CAST(NULL AS {kind.sql})")))
        else:
            there = "columns here: " + ", ".join(have)
            what = f'the called plan needs the column "{name}" ({kind})'
            faults.append(Fault(what, there=there, hint=did_you_mean(name, have)))
    if faults:
        raise Faults(faults)
    return Add(step=step, origin=origin, input=node, columns=tuple(missing)) if missing else node
