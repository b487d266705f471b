"""The body of a plan: steps, writes, results, choices, example."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from semgraph.errors import Fault, Position
from semgraph.frontend.arguments import read_flag, read_names
from semgraph.frontend.build import SINKS, by_keyword
from semgraph.frontend.despite import build_despite
from semgraph.frontend.document import walk_paths
from semgraph.frontend.faults import Faults, KeyFault, unknown
from semgraph.frontend.finding import find_named
from semgraph.frontend.found import Poisoned, Pruned
from semgraph.frontend.reading import Reading, at
from semgraph.frontend.rows import read_rows
from semgraph.frontend.scope import wrong
from semgraph.frontend.settings import known_keys, mapping, match_steps, parse_choice
from semgraph.logical.node import Node, walk
from semgraph.logical.plan import SchemaWrite
from semgraph.logical.schema import NAME
from semgraph.logical.sinks import Sink
from semgraph.optimizer import APPROXIMATE

_SINKS = by_keyword(SINKS)
_SCHEMA = "schema"
_WRITES = (*_SINKS, _SCHEMA)


def read_body(reading: Reading, inputs: Mapping[str, Node]) -> None:
    """Steps, writes, results and choices, over these relations as inputs; what is wrong is put among the problems."""
    raw: dict[str, Any] = {}
    if not reading.attempt(lambda: raw.update(mapping(reading.data.get("steps"), "a mapping of steps")), "steps"):
        reading.broken.add("")
    for name in raw:
        reading.attempt(partial(_step_name, reading, name, inputs), "steps", name, step=name)
    reading.name_things(inputs, raw)
    reading.steps.build_all()
    reading.attempt(partial(_writes, reading), "writes")
    reading.attempt(partial(_returns, reading), "returns")
    for inner in reading.called:
        reading.choices |= inner.choices
    known = reading.all_steps()
    for name, (value, path) in reading.use.items():
        choose = partial(_choose, reading, name, value, known)
        if path:
            reading.attempt(choose, *path)
        else:
            reading.attempt_option(f"--use {name}", choose)


def _step_name(reading: Reading, name: str, inputs: Mapping[str, Node]) -> None:
    if not NAME.match(name):
        raise KeyFault(f'"{name}" cannot name a step', hint="letters, digits and _, not starting with a digit")
    if name in inputs:
        raise KeyFault(f'"{name}" is an input already', hint="give the step another name")
    if name in reading.graph.labels:
        raise KeyFault(f'"{name}" is a label of the graph', hint="give the step another name")


def _writes(reading: Reading) -> None:
    value = reading.data.get("writes")
    if value is not None and not isinstance(value, list):
        raise wrong("a list of merge, delete and schema", value)
    for i, item in enumerate(value or ()):
        reading.attempt(partial(_write, reading, item, i), "writes", i)


def _write(reading: Reading, item: Any, i: int) -> None:
    if not isinstance(item, Mapping):
        raise wrong("{merge: {from: STEP, node: LABEL}}", item)
    words = [key for key in item if key in _WRITES]
    for key in item:
        if key not in _WRITES and key != "when":
            raise unknown(key, [*_WRITES, "when"], "a write has no", "keys", key)
    if len(words) != 1:
        raise Fault("one merge, delete or schema on a line", there="here: " + (", ".join(words) or "none"))
    if "when" in item and not reading.steps.holds(item["when"]):
        return
    path = ("writes", i, words[0])
    try:
        given = reading.steps.expansion.expand(item[words[0]], path)
        if words[0] == _SCHEMA:
            reading.schema = _schema_write(reading, given)
            return
        reading.writes.append(_sink(reading, words[0], given, reading.document.position(*path, key=True)))
    except Pruned:
        return
    except Fault as fault:
        raise fault.under(words[0]) from None


def _schema_write(reading: Reading, given: Any) -> SchemaWrite:
    found = mapping(given, "{drop: true} or {}")
    if faults := known_keys(found, ("drop",), _SCHEMA):
        raise Faults(faults)
    if not reading.graph.labels:
        raise Fault("the schema is that of a graph, and this plan names none", hint="add graph: graph.yaml to the plan")
    if reading.schema is not None:
        raise Fault("the schema is written once")
    return SchemaWrite(at("drop", read_flag, found.get("drop", False), reading.steps, {}))


def _sink(reading: Reading, keyword: str, given: Any, origin: Position) -> Sink:
    if not isinstance(given, Mapping):
        raise wrong(f"the arguments of {keyword}", given, "{from: STEP, node: LABEL}")
    if "from" not in given:
        raise Fault(f'{keyword} needs "from": the rows to write')
    name = f"{keyword} {given.get('node') or given.get('edge') or ''}".strip()
    with reading.steps.naming(name):
        source = at("from", reading.steps.relation, given["from"])
        rest = {key: value for key, value in given.items() if key != "from"}
        cls, step, scope = _SINKS[keyword], reading.prefix + name, reading.steps
        sink = build_despite(cls, rest, scope, scope.lost, source=source, step=step, origin=origin)
    assert isinstance(sink, Sink)
    if getattr(sink, "first", False) and any(n.calls_llm or n.calls_store or n.embeds for n in walk(source)):
        hint = "leave first out: the sink is then written with its window"
        raise Fault("first: true writes rows of an input, before any model or store is asked", "first", hint=hint)
    return sink


def _returns(reading: Reading) -> None:
    value = reading.data.get("returns")
    if value is None:
        readable = isinstance(reading.data.get("steps", {}), Mapping)
        if readable and not reading.data.get("writes"):
            raise Fault("the plan writes nothing and returns nothing", hint="write returns: [STEP]")
        return
    if isinstance(value, list):
        for i, item in enumerate(value):
            name = item.rpartition(".")[2] if isinstance(item, str) else ""
            reading.attempt(partial(_result, reading, name, item), "returns", i)
        return
    for name, item in mapping(value, "a list of steps, or {name: step}").items():
        reading.attempt(partial(_result, reading, name, item), "returns", name)


def _result(reading: Reading, name: str, item: Any) -> None:
    if not name:
        raise wrong("the name of a step", item, "a result that is no step needs a name: {name: [...]}")
    if name in reading.returns:
        raise Fault(f'two results are named "{name}"', hint="write returns: {name: step}")
    path = ("returns", name)
    with reading.steps.naming(name):
        try:
            value = item if isinstance(item, str) else reading.steps.expansion.expand(item, path)
            reading.returns[name] = reading.steps.relation(value)
        except Pruned:
            return


def _choose(reading: Reading, name: str, value: Any, known: Mapping[str, Node]) -> None:
    names = [step.removeprefix(reading.prefix) for step in known]
    steps = match_steps(name, names)
    if not steps:
        if _pruned(reading, name) or not known or _calls_broken(reading):
            return  # or its problems are told already
        raise unknown(name, names, "use names no step", "steps")
    choice = parse_choice(value)
    asking = {n.step for n in walk(*known.values()) if n.calls_llm}
    chosen = [
        step for step in steps if reading.prefix + step in asking
    ]  # a name may stand for other steps inside calls too
    if not chosen and _calls_broken(reading):
        return  # it may be meant for a step of that call
    if not chosen:
        raise Fault(f'step "{steps[0]}" asks no model: there is nothing to choose')
    reading.choices.update((reading.prefix + step, choice) for step in chosen)


def _pruned(reading: Reading, name: str) -> bool:
    """Whether a step of that name was left out, here or, for the last part of a name, inside a call."""
    inside = name.rsplit("/", 1)[-1]
    return name in reading.steps.built or any(_pruned(inner, inside) for inner in reading.called)


def _calls_broken(reading: Reading) -> bool:
    """Whether a step calls a plan that could not be loaded: what steps that has is not known."""
    raw, built = reading.steps.raw, reading.steps.built
    return any(
        isinstance(found, Poisoned) and any(isinstance(v, Mapping) and "call" in v for _, v in walk_paths(raw[name]))
        for name, found in built.items()
    )


def read_allow(reading: Reading) -> None:
    """Rewrites that may change answers. Raises Fault."""
    names = at("allow", read_names, reading.data.get("allow") or [], reading.steps, {})
    known = [rule.__name__ for rule in APPROXIMATE]
    for i, name in enumerate(names):
        if name not in known:
            raise unknown(
                name, known, "no rule that may change answers is called", "such rules", "allow", i, value=True
            )


def read_example(reading: Reading) -> None:
    """The example's rows, checked as a user's are. Raises Faults."""
    given = at("example", mapping, reading.data.get("example"), "a mapping with inputs")
    faults = [fault.under("example") for fault in known_keys(given, ("inputs", "after"), "an example")]
    rows = at("example", at, "inputs", mapping, given.get("inputs"), "rows by input")
    for name, listed in rows.items():
        if name not in reading.inputs:
            if not reading.broken & {name, ""}:
                faults.append(unknown(name, reading.inputs, "no input", "inputs", "example", "inputs", name))
            continue
        order = reading.order if reading.order is not None and reading.order.input == name else None
        ordered = {"partition": order.partition, "key": order.key} if order is not None else {}
        for fault in read_rows(reading.inputs[name], listed, **ordered)[1]:
            what = f"the example's {name} {fault.what}" if fault.row is None else f"column {fault.column}: {fault.what}"
            where = () if fault.row is None else (fault.row, fault.column)
            faults.append(Fault(what, "example", "inputs", name, *where, hint=fault.hint))
    lacking = [name for name, spec in reading.inputs.items() if given and not spec.optional and rows.get(name) is None]
    if not faults and not reading.loading.problems:  # else what is lacking may follow from them
        what = "the example lacks rows of {}, which must be given"
        faults = [Fault(what.format(name), "example", "inputs") for name in lacking]
    for i, plan in enumerate(at("example", at, "after", read_names, given.get("after") or [], reading.steps, {})):
        try:
            find_named(plan, (reading.folder, *reading.loading.folders), confined=reading.confined)
        except Fault as fault:
            faults.append(fault.under("example", "after", i))
    if faults:
        raise Faults(faults)
