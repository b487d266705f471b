"""Plan files: to load one, to find one by name, to write one back."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

from semgraph.errors import Fault, PlanError, Position, Problem, did_you_mean
from semgraph.expr.canonical import canonical
from semgraph.expr.scalar import parse_scalar
from semgraph.expr.types import type_of_arrow
from semgraph.frontend.arguments import read_flag, read_names
from semgraph.frontend.build import SINKS, build_despite, by_keyword
from semgraph.frontend.document import (
    Document,
    Stamp,
    noticing,
    read_file,
    read_text,
    stamp,
    walk_paths,
)
from semgraph.frontend.dump import write_yaml
from semgraph.frontend.finding import find_named, find_plan
from semgraph.frontend.head import input_schema, own_inputs, read_head
from semgraph.frontend.inputs import read_rows
from semgraph.frontend.scope import (
    Faults,
    KeyFault,
    Poisoned,
    Pruned,
    Results,
    Scope,
    unknown,
    wrong,
)
from semgraph.frontend.settings import (
    known_keys,
    mapping,
    match_steps,
    settle,
    whole_parameter,
)
from semgraph.frontend.steps import MOST_CALLS, Loading, Reading, at
from semgraph.logical.node import Node, walk
from semgraph.logical.partitions import mixed_prompts
from semgraph.logical.plan import Choice, InputSpec, LogicalPlan, Order, SchemaWrite
from semgraph.logical.relational import Add, Nothing
from semgraph.logical.schema import NAME, Graph
from semgraph.logical.semantic import Semantic
from semgraph.logical.sinks import Sink
from semgraph.optimizer import APPROXIMATE

_SINKS = by_keyword(SINKS)
_SCHEMA = "schema"
_WRITES = (*_SINKS, _SCHEMA)


def read_body(reading: Reading, inputs: Mapping[str, Node]) -> None:
    """Steps, writes, results and choices, over these relations as inputs; what is wrong is put
    among the problems.
    """
    raw: dict[str, Any] = {}
    if not reading.attempt(
        lambda: raw.update(mapping(reading.data.get("steps"), "a mapping of steps")), "steps"
    ):
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
        raise KeyFault(
            f'"{name}" cannot name a step', hint="letters, digits and _, not starting with a digit"
        )
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
        raise Fault(
            "one merge, delete or schema on a line", there="here: " + (", ".join(words) or "none")
        )
    if "when" in item and not reading.steps.holds(item["when"]):
        return
    path = ("writes", i, words[0])
    try:
        given = reading.steps.expansion.expand(item[words[0]], path)
        if words[0] == _SCHEMA:
            reading.schema = _schema_write(reading, given)
            return
        reading.writes.append(
            _sink(reading, words[0], given, reading.document.position(*path, key=True))
        )
    except Pruned:
        return
    except Fault as fault:
        raise fault.under(words[0]) from None


def _schema_write(reading: Reading, given: Any) -> SchemaWrite:
    found = mapping(given, "{drop: true} or {}")
    if faults := known_keys(found, ("drop",), _SCHEMA):
        raise Faults(faults)
    if not reading.graph.labels:
        raise Fault(
            "the schema is that of a graph, and this plan names none",
            hint="add graph: graph.yaml to the plan",
        )
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
    if getattr(sink, "first", False) and any(
        n.calls_model or n.reads_store or n.embeds for n in walk(source)
    ):
        hint = "leave first out: the sink is then written with its window"
        raise Fault(
            "first: true writes rows of an input, before any model or store is asked",
            "first",
            hint=hint,
        )
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
        raise wrong(
            "the name of a step", item, "a result that is no step needs a name: {name: [...]}"
        )
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
    choice = Choice.parse(value)
    asking = {n.step for n in walk(*known.values()) if n.calls_model}
    chosen = [
        step for step in steps if reading.prefix + step in asking
    ]  # a name may stand for other steps inside calls too
    if not chosen and _calls_broken(reading):
        return  # it may be meant for a step of that call
    if not chosen:
        raise Fault(f'step "{steps[0]}" asks no model: there is nothing to choose')
    reading.choices.update((reading.prefix + step, choice) for step in chosen)


def _pruned(reading: Reading, name: str) -> bool:
    """Whether a step of that name was left out, here or, for the last part of a name, inside a
    call.
    """
    inside = name.rsplit("/", 1)[-1]
    return name in reading.steps.built or any(_pruned(inner, inside) for inner in reading.called)


def _calls_broken(reading: Reading) -> bool:
    """Whether a step calls a plan that could not be loaded: what steps that has is not known."""
    raw, built = reading.steps.raw, reading.steps.built
    return any(
        isinstance(found, Poisoned)
        and any(isinstance(v, Mapping) and "call" in v for _, v in walk_paths(raw[name]))
        for name, found in built.items()
    )


def read_allow(reading: Reading) -> None:
    """Rewrites that may change answers. Raises Fault."""
    names = at("allow", read_names, reading.data.get("allow") or [], reading.steps, {})
    known = [rule.__name__ for rule in APPROXIMATE]
    for i, name in enumerate(names):
        if name not in known:
            raise unknown(
                name,
                known,
                "no rule that may change answers is called",
                "such rules",
                "allow",
                i,
                value=True,
            )


def read_example(reading: Reading) -> None:
    """The example's rows, checked as a user's are. Raises Faults."""
    given = at("example", mapping, reading.data.get("example"), "a mapping with inputs")
    faults = [
        fault.under("example") for fault in known_keys(given, ("inputs", "after"), "an example")
    ]
    rows = at("example", at, "inputs", mapping, given.get("inputs"), "rows by input")
    for name, listed in rows.items():
        if name not in reading.inputs:
            if not reading.broken & {name, ""}:
                faults.append(
                    unknown(name, reading.inputs, "no input", "inputs", "example", "inputs", name)
                )
            continue
        order = reading.order if reading.order is not None and reading.order.input == name else None
        ordered = {"partition": order.partition, "key": order.key} if order is not None else {}
        for fault in read_rows(reading.inputs[name], listed, **ordered)[1]:
            what = (
                f"the example's {name} {fault.what}"
                if fault.row is None
                else f"column {fault.column}: {fault.what}"
            )
            where = () if fault.row is None else (fault.row, fault.column)
            faults.append(Fault(what, "example", "inputs", name, *where, hint=fault.hint))
    lacking = [
        name
        for name, spec in reading.inputs.items()
        if given and not spec.optional and rows.get(name) is None
    ]
    if not faults and not reading.loading.problems:  # else what is lacking may follow from them
        what = "the example lacks rows of {}, which must be given"
        faults = [Fault(what.format(name), "example", "inputs") for name in lacking]
    for i, plan in enumerate(
        at("example", at, "after", read_names, given.get("after") or [], reading.steps, {})
    ):
        try:
            find_named(plan, (reading.folder, *reading.loading.folders), confined=reading.confined)
        except Fault as fault:
            faults.append(fault.under("example", "after", i))
    if faults:
        raise Faults(faults)


_KEYS = ("plan", "inputs", "params", "preset")


def call_plan(
    caller: Reading, scope: Scope, value: Any, step: str, origin: Position | None
) -> Results:
    """The results of a called plan; its steps are named `step/inner`, and its writes are the
    caller's.

    Its inputs are relations of the caller with at least the declared columns, of the declared
    types: a missing column that may be NULL is added as NULL, and further columns pass through. Its
    `order` cuts nothing: the caller's windows rule.

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
        if (
            given.get("preset") is not None
            and isinstance(presets, Mapping)
            and given["preset"] not in presets
        ):
            raise unknown(
                str(given["preset"]),
                presets,
                "the called plan has no preset",
                "presets",
                "preset",
                value=True,
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
        raise Fault(
            f"plans call plans at most {MOST_CALLS} deep",
            hint="put steps of several plans into one",
        )
    return path


def _same_graph(caller: Reading, inner: Reading) -> None:
    if caller.graph_broken or inner.graph_broken:
        raise Poisoned
    if not inner.graph.labels or inner.graph == caller.graph:
        return
    if caller.graph.labels:
        raise Fault(
            "the called plan has another graph",
            "plan",
            there=f"{inner.data['graph']} of {inner.document.file}",
        )
    hint = f"add graph: {inner.data['graph']} to this plan"
    raise Fault("the called plan reads a graph, and this plan names none", "plan", hint=hint)


def _inputs(
    scope: Scope, inner: Reading, value: Any, step: str, origin: Position | None
) -> dict[str, Node]:
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
            found[name] = _fit(
                scope.relation(given[name]), spec, inner.order, f"{step}/{name}", origin
            )
        except Fault as fault:
            faults.append(fault.under(name))
        except Pruned:
            if not spec.optional:
                raise
    if faults:
        raise Faults(faults)
    windowed = any(
        node.partitioned for node in found.values()
    )  # no rows belong where those belong that are given
    for name, spec in inner.inputs.items():
        if name not in found:
            called = f"{step}/{name}"
            found[name] = Nothing(
                step=called, origin=origin, name=called, columns=spec.schema, windowed=windowed
            )
    return found


def _fit(
    node: Node, spec: InputSpec, order: Order | None, step: str, origin: Position | None
) -> Node:
    """A caller's relation as an input: checked, with columns of NULL where it lacks some that may
    be NULL.
    """
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


_SILENT = (
    "params",
    "doc",
    "calls",
    "example",
)  # parts of a plan in which no parameter has a meaning
_CONDITIONS = frozenset({"where", "filter", "having"})
_PARAMETER = re.compile(r"\$([A-Za-z_]\w*)")


def warnings(reading: Reading) -> tuple[Problem, ...]:
    """The warnings about a plan without errors and about the plans it calls, in the order of their
    places.
    """
    roots = [*reading.writes, *reading.returns.values()]
    found = [
        *_prompts_without_columns([*roots, *reading.all_steps().values()]),
        *(warning for part in _parts(reading) for warning in _unused_parameters(part)),
        *(
            warning
            for part in _parts(reading)
            for warning in _unread_steps(part, {id(node) for node in walk(*roots)})
        ),
    ]
    return tuple(
        sorted(dict.fromkeys(found), key=lambda each: _order(each.position, reading.document.file))
    )


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
                yield Problem(
                    what, node.step, node.origin, there, "write {column} where its value belongs"
                )


def _unused_parameters(reading: Reading) -> Iterator[Problem]:
    declared = reading.data.get("params") or {}
    if not declared or _takes_conditions(reading.data):
        return  # what a condition of a caller names is not known
    texts = [
        text
        for key, part in reading.data.items()
        if key not in _SILENT
        for text in _texts(part, keys=True)
    ]
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
    """The texts of all prompt files that the plan names, also in steps that its parameters leave
    out.
    """
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
    """Steps with model calls that nothing names: they are never run. A step that parameters cut off
    is named somewhere.
    """
    for name, built in reading.steps.built.items():
        nodes = (
            built.tables.values()
            if isinstance(built, Results)
            else [built]
            if isinstance(built, Node)
            else []
        )
        lost = [node for node in walk(*nodes) if node.calls_model and id(node) not in reached]
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


def load_document(
    document: Document,
    path: Path,
    *,
    params: Mapping[str, Any] | None = None,
    preset: str | None = None,
    use: Mapping[str, Any] | None = None,
    folders: tuple[Path, ...] = (),
    graphs: Mapping[Path, Graph] | None = None,
    confined: bool = True,
) -> LogicalPlan:
    """A checked plan from plain data with positions.

    Args:
        document: The plan.
        path: Where it stands, or would stand: its graph file, prompts and called plans are looked
            for beside it.
        params: Values of parameters, in place of the plan's.
        preset: One of the plan's presets.
        use: Choices for steps, in place of the plan's.
        folders: Where called plans are looked for after the plan's own folder.
        graphs: Graphs that are known already, by the path of their file.
        confined: Whether the files that the plan names must be in its folder, or shipped.

    Raises:
        PlanError: With everything that is wrong.
    """
    loading = Loading(call_plan, folders, open=(path,), graphs=dict(graphs or {}))
    reading = Reading(loading, document, path.parent, confined=confined)
    if not isinstance(document.data, Mapping):
        what = "a plan is a mapping with plan, inputs, steps and so on"
        raise PlanError(Problem(what, position=document.position(), hint="start with plan: NAME"))
    read_head(reading, preset, params or {}, use or {})
    try:
        read_body(reading, own_inputs(reading))
    except RecursionError:
        hint = "write each step after those that it reads, and nested ones as steps of their own"
        what = "its steps read each other through too many others"
        raise PlanError(
            Problem(what, position=document.position("steps", key=True), hint=hint)
        ) from None
    reading.attempt(partial(read_allow, reading))
    reading.attempt(partial(read_example, reading))
    if loading.problems:
        raise PlanError(*sorted(loading.problems, key=partial(_place, document.file)))
    plan = LogicalPlan(
        name=reading.data["plan"],
        graph=reading.graph,
        inputs=reading.inputs,
        steps=reading.all_steps(),
        writes=tuple(reading.writes),
        schema=reading.schema,
        returns=reading.returns,
        order=reading.order,
        params=dict(reading.params),
        use=reading.choices,
        allow=tuple(reading.data.get("allow") or ()),
        doc=reading.data.get("doc") or "",
        document=document.data,
        file=document.file,
        warnings=warnings(reading),
    )
    _refuse_mixed_prompts(plan)
    return plan


def _refuse_mixed_prompts(plan: LogicalPlan) -> None:
    """Refuse a plan that may show rows of two partitions in one prompt. Raises PlanError."""
    partitions = frozenset({plan.graph.partition, *([plan.order.partition] if plan.order else [])})
    roots = (*plan.roots, *plan.steps.values())
    if problems := list(mixed_prompts(roots, partitions, windows=plan.order is not None)):
        raise PlanError(*problems)


def _place(first: str, problem: Problem) -> tuple[bool, str, int, int]:
    """Problems of the plan's own file first, each file's in its order."""
    where = problem.position
    return (
        (False, "", 0, 0)
        if where is None
        else (where.file != first, where.file, where.line, where.column)
    )


__all__ = ["dump", "find_plan", "load_plan"]


def load_plan(
    ref: str | Path,
    *,
    params: Mapping[str, Any] | None = None,
    preset: str | None = None,
    use: Mapping[str, str] | None = None,
    folders: Sequence[str | Path] = (),
) -> LogicalPlan:
    """A checked plan.

    Args:
        ref: A path or a name; looked for in the working directory, then among the shipped plans.
        params: Values of parameters, in place of the plan's.
        preset: One of the plan's presets: a set of parameters and choices.
        use: How steps are done, such as `{"linked": "block(left=10)"}`, in place of the plan's
            choices.
        folders: Folders to look in first, for the plan and for those it calls.

    Raises:
        PlanError: With everything that is wrong, each at its place.
    """
    paths = tuple(Path(folder) for folder in folders)
    path, _ = find_plan(ref, paths)
    return load_document(
        read_file(path), path, params=params, preset=preset, use=use, folders=paths
    )


def dump(plan: LogicalPlan) -> str:
    """A plan as the text of a plan file: the document it was made from, parameters and presets
    included.
    """
    return write_yaml(plan.document)


_MOST = 64
Key = tuple[str, ...]


@dataclass(frozen=True)
class _Loaded:
    """A plan and what it was found by.

    Args:
        plan: The plan.
        there: The files that were read.
        missing: Where files were looked for that were not there, from the folders that are looked
            into.
        within: Which of those folders hold a file of it: for others it need not be the same plan.
    """

    plan: LogicalPlan
    there: Mapping[Path, Stamp]
    missing: tuple[tuple[int, Path], ...]
    within: tuple[bool, ...]

    @classmethod
    def of(cls, plan: LogicalPlan, files: Mapping[Path, Stamp], folders: tuple[Path, ...]) -> Self:
        """What was noticed while a plan was loaded."""
        inside = [
            (n, path)
            for path in files
            for n, folder in enumerate(folders)
            if path.is_relative_to(folder)
        ]
        missing = tuple(
            (n, path.relative_to(folders[n])) for n, path in inside if files[path] is None
        )
        held = {n for n, path in inside if files[path] is not None}
        return cls(plan, files, missing, tuple(n in held for n in range(len(folders))))

    def serves(self, folders: tuple[Path, ...]) -> bool:
        """Whether all files are as they were, and none has appeared that would be found instead."""
        return not any((folders[n] / path).exists() for n, path in self.missing) and all(
            stamp(path) == before for path, before in self.there.items()
        )


_plans: OrderedDict[Key, _Loaded] = OrderedDict()
_lock = threading.Lock()


class LoadedPlans:
    """Loads plans from files, each once while its files (the plan's, its graph's, prompts', called
    plans') stay as they are.

    Of many, those that were not asked for the longest are forgotten. What one session has loaded
    serves all others of the process, in whatever folder: who opens a session for each request plans
    once.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()

    def load(
        self, ref: str | Path, params: Mapping[str, Any], preset: str | None, use: Mapping[str, str]
    ) -> LogicalPlan:
        """As `load_plan`, looking into the folder first. Raises PlanError."""
        folders = (self._folder, Path.cwd())
        asked = (str(ref), canonical(params), repr(preset), canonical(use))
        for within in ((False, False), (False, True), (True, False), (True, True)):
            key = _key(asked, folders, within)
            with _lock:
                found = _plans.get(key)
            if found is not None and found.serves(folders):
                break
        else:
            with noticing() as files:
                plan = load_plan(
                    ref, params=params, preset=preset, use=use, folders=(self._folder,)
                )
            found = _Loaded.of(plan, files, folders)
            key = _key(asked, folders, found.within)
        with _lock:
            _plans[key] = found
            _plans.move_to_end(key)
            if len(_plans) > _MOST:
                _plans.popitem(last=False)
        return found.plan


def _key(asked: Key, folders: tuple[Path, ...], within: tuple[bool, ...]) -> Key:
    """What a plan is kept under: what was asked for, and the folders that hold files of it."""
    return (
        *asked,
        *(str(folder) if inside else "" for folder, inside in zip(folders, within, strict=True)),
    )
