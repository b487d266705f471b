"""The head of a plan: parameters, presets, graph, inputs, order."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any

from semgraph.errors import Fault, PlanError
from semgraph.frontend.document import read_file
from semgraph.frontend.faults import Faults, unknown
from semgraph.frontend.formula import check_calls
from semgraph.frontend.places import require_inside
from semgraph.frontend.reading import NO_GRAPH, Reading, at
from semgraph.frontend.scope import wrong
from semgraph.frontend.settings import defaults, known_keys, mapping, settle
from semgraph.frontend.shape import check_keys, input_schema, read_inputs, read_optional, read_order
from semgraph.logical.node import Node
from semgraph.logical.relational import Input
from semgraph.logical.schema import Graph

_LARGEST = 1 << 63


def read_head(reading: Reading, preset: str | None, params: Mapping[str, Any], use: Mapping[str, Any]) -> None:
    """Everything before the steps; what is wrong is put among the problems.

    Args:
        reading: The plan.
        preset: The chosen preset.
        params: Values given for parameters; they win.
        use: Choices given for steps; they win.
    """
    reading.attempt(partial(check_keys, reading.document.data))
    reading.attempt(partial(check_calls, reading.data.get("calls")), "calls")
    reading.attempt(partial(_settings, reading, preset, params, use))
    if reading.data.get("graph") is not None:
        reading.attempt(partial(_graph, reading), "graph")
    reading.attempt(partial(_inputs, reading), "inputs")
    reading.attempt(partial(_optional, reading), "optional")
    reading.name_things({}, {})
    reading.attempt(partial(_order, reading), "order")


def _settings(reading: Reading, preset: str | None, params: Mapping[str, Any], use: Mapping[str, Any]) -> None:
    declared = at("params", mapping, reading.data.get("params"), "a mapping of parameters")
    presets = at("presets", mapping, reading.data.get("presets"), "a mapping of presets")
    own = at("use", mapping, reading.data.get("use"), "a mapping of steps")
    reading.params.update(declared)
    reading.use = {name: (value, ("use", name)) for name, value in own.items()}
    faults = [fault.under("params") for fault in defaults(declared)]
    chosen: dict[str, Any] = {}
    for name, body in presets.items():
        try:
            found = _preset(body, declared)
        except Fault as fault:
            faults.append(fault.under("presets", name))
            continue
        if name == preset:
            chosen = found
    for step, value in (chosen.get("use") or {}).items():
        reading.use[step] = (value, ("presets", str(preset), "use", step))
    reading.use |= {step: (value, ()) for step, value in use.items()}
    if faults:
        raise Faults(faults)
    reading.params.update(chosen.get("params") or {})
    if preset is not None and preset not in presets:
        reading.attempt_option("--preset", partial(_no_preset, preset, presets))
    reading.attempt_option("--set", partial(_given, reading, declared, params))


def _given(reading: Reading, declared: Mapping[str, Any], params: Mapping[str, Any]) -> None:
    """Settle what was given for parameters. Raises Fault also for what is not of its parameter's kind."""
    settled = settle(declared, reading.params, params)
    presets = [
        body.get("params") or {} for body in (reading.data.get("presets") or {}).values() if isinstance(body, Mapping)
    ]
    for name, value in params.items():
        known = any(value == preset[name] for preset in presets if name in preset)  # window: all
        if isinstance(declared[name], (int, float)) and not known and not isinstance(value, (int, float, NoneType)):
            kind = "true or false" if isinstance(declared[name], bool) else "a number"
            raise Fault(f'parameter "{name}" takes {kind}, not {value!r}', hint=f"its default is {declared[name]!r}")
        if isinstance(value, (int, float)) and not -_LARGEST <= value < _LARGEST:
            raise Fault(f'parameter "{name}" takes a number of 64 bits, not {value!r}')
    reading.params.update(settled)


def _no_preset(preset: str, presets: Mapping[str, Any]) -> None:
    if not presets:
        raise Fault(
            f'no preset "{preset}": this plan has none', hint="parameters are given one by one: --set NAME=VALUE"
        )
    raise unknown(preset, presets, "no preset", "presets")


def _preset(body: Any, declared: Mapping[str, Any]) -> dict[str, Any]:
    found = mapping(body, "a mapping with params and use")
    faults = known_keys(found, ("params", "use", "doc"), "a preset")
    if faults:
        raise Faults(faults)
    at("params", settle, declared, at("params", mapping, found.get("params"), "a mapping of parameters"))
    at("use", mapping, found.get("use"), "a mapping of steps")
    return found


def _graph(reading: Reading) -> None:
    name = reading.data["graph"]
    if not isinstance(name, str) or not name or "\0" in name:
        raise wrong("the name of a graph file", name)
    graphs = reading.loading.graphs
    reading.graph_broken = True
    if reading.confined:
        require_inside(reading.folder / name, (reading.folder,), f'the graph file "{name}"')
    path = (reading.folder / name).resolve()
    if path not in graphs:
        graphs[path] = None
        if not path.is_file():
            raise Fault(f'no graph file "{name}"', there=f"looked beside the plan: {reading.folder / name}")
        graphs[path] = read_graph(reading.folder / name)
    reading.graph = graphs[path] or NO_GRAPH
    reading.graph_broken = graphs[path] is None


def read_graph(path: Path) -> Graph:
    """A graph file. Raises PlanError, with the place in it."""
    document = read_file(path, "graph")
    try:
        return Graph.build(mapping(document.data, "a mapping with nodes and edges"))
    except Fault as fault:
        raise PlanError(document.problem(fault)) from None


def _inputs(reading: Reading) -> None:
    reading.broken = {""}
    reading.inputs, faults = read_inputs(reading.data.get("inputs"))
    reading.broken = {str(fault.path[0]) for fault in faults}
    if faults:
        raise Faults(faults)


def _optional(reading: Reading) -> None:
    order = reading.data.get("order")
    ordered = str(order.get("input")) if isinstance(order, Mapping) else ""
    reading.inputs = read_optional(reading.data.get("optional"), reading.inputs, reading.broken, ordered)


def _order(reading: Reading) -> None:
    if reading.data.get("order") is not None:
        value = reading.steps.expansion.expand(reading.data["order"], ("order",))
        if isinstance(value, Mapping) and reading.broken & {str(value.get("input")), ""}:
            return
        reading.order = read_order(value, reading.inputs, reading.graph.partition)


def own_inputs(reading: Reading) -> dict[str, Node]:
    """The plan's inputs as relations; the ordered one with the columns that the engine adds."""
    found: dict[str, Node] = {}
    order = reading.data.get("order")
    ordered = order.get("input") if isinstance(order, Mapping) else None  # also where the rest of it has problems
    for name, spec in reading.inputs.items():
        windowed = name == ordered
        origin = reading.document.position("inputs", name, key=True)
        columns = input_schema(spec, windowed=windowed)
        found[name] = Input(step=name, origin=origin, name=name, columns=columns, windowed=windowed)
    return found
