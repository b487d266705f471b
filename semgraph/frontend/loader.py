"""A plan file to a checked plan: everything that is wrong with it is reported at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from semgraph.errors import Fault, PlanError, Position, Problem, did_you_mean
from semgraph.expr.scalar import parse_scalar
from semgraph.frontend.arguments import kind_of, wrong
from semgraph.frontend.build import SINKS, Faults, build, by_keyword
from semgraph.frontend.document import Document, read_file
from semgraph.frontend.prompts import Prompts
from semgraph.frontend.settings import (
    defaults,
    known_keys,
    mapping,
    match_steps,
    parse_choice,
    settle,
)
from semgraph.frontend.shape import check_keys, input_schema, read_inputs, read_order
from semgraph.frontend.steps import Pruned, Results, Steps
from semgraph.logical.node import Node, walk
from semgraph.logical.plan import Choice, InputSpec, LogicalPlan, Order
from semgraph.logical.relational import Add, Input
from semgraph.logical.schema import Graph
from semgraph.logical.sinks import Sink
from semgraph.shipped import plans_folder

_SINKS = by_keyword(SINKS)
NO_GRAPH = Graph("", "uuid", "group_id", {})


def find_plan(ref: str | Path, folders: Sequence[Path] = ()) -> tuple[Path, bool]:
    """The file of a plan, and whether it is one of those that come with semgraph.

    Args:
        ref: A path or a name: looked for in the working directory, in its `plans/`, then among the shipped plans.
        folders: Looked in first.

    Raises:
        PlanError: There is none.
    """
    text = str(ref)
    name = text if text.endswith((".yaml", ".yml")) else f"{text}.yaml"
    shipped = plans_folder()
    places = [*(folder / name for folder in folders), Path(text), Path(name), Path("plans", name)]
    for place in places:
        if place.is_file():
            return place, place.resolve().is_relative_to(shipped.resolve())
    inside = shipped / name.removeprefix("plans/")
    if inside.is_file():
        return inside, True
    if Path(text).exists():
        return Path(text), False
    known = sorted({p.stem for folder in (Path("plans"), shipped) for p in folder.glob("*.yaml")} - {"graph"})
    there = "plans: " + (", ".join(known) or "none")
    raise PlanError(Problem(f'no plan "{text}"', there=there, hint=did_you_mean(Path(text).stem, known)))


@dataclass
class Loading:
    """What one load and the plans it calls share."""

    folders: tuple[Path, ...] = ()
    problems: list[Problem] = field(default_factory=list)
    open: tuple[tuple[str, Path], ...] = ()
    graphs: dict[Path, Graph | None] = field(default_factory=dict)


@dataclass
class Reading:
    """A plan file as it is read, one part after another. The parts that fail leave problems, and the rest goes on."""

    loading: Loading
    document: Document
    folder: Path
    data: dict[str, Any] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)
    use: dict[str, Any] = field(default_factory=dict)
    graph: Graph = NO_GRAPH
    inputs: dict[str, InputSpec] = field(default_factory=dict)
    order: Order | None = None
    steps: Steps = field(init=False)
    writes: list[Sink] = field(default_factory=list)
    returns: dict[str, Node] = field(default_factory=dict)
    choices: dict[str, Choice] = field(default_factory=dict)
    called: list[Reading] = field(default_factory=list)
    prefix: str = ""

    def attempt(self, action: Any, *path: str | int, step: str | None = None) -> bool:
        """Do something; put what is wrong with it among the problems."""
        return self.steps.attempt(action, *path, step=step)

    def __post_init__(self) -> None:
        self._reset({}, {})

    def _reset(self, inputs: Mapping[str, Node], raw: Mapping[str, Any]) -> None:
        prompts = Prompts(self.folder, self.params)
        problems = self.loading.problems
        call = partial(call_plan, self)
        self.steps = Steps(self.document, self.params, self.graph, inputs, raw, prompts, call, problems, self.prefix)

    # -- before the steps -------------------------------------------------------------------------------------------

    def head(self, preset: str | None, params: Mapping[str, Any], use: Mapping[str, Any]) -> None:
        """Keys, parameters, graph, inputs and order."""
        self.attempt(self._keys)
        self.attempt(partial(self._settings, preset, params, use))
        if self.data.get("graph") is not None:
            self.attempt(self._graph, "graph")
        self.attempt(self._inputs, "inputs")
        self._reset({}, {})
        self.attempt(self._order, "order")

    def _keys(self) -> None:
        data = self.document.data
        self.data = {k: v for k, v in data.items() if isinstance(data, dict)} if isinstance(data, dict) else {}
        check_keys(data)

    def _settings(self, preset: str | None, params: Mapping[str, Any], use: Mapping[str, Any]) -> None:
        declared = _at(mapping, "params", self.data.get("params"), "a mapping of parameters")
        presets = _at(mapping, "presets", self.data.get("presets"), "a mapping of presets")
        self.params.update(declared)
        own = _at(mapping, "use", self.data.get("use"), "a mapping of steps")
        self.use = {name: (value, ("use", name)) for name, value in own.items()}
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
                more = (found.get("use") or {}).items()
                self.use |= {step: (value, ("presets", name, "use", step)) for step, value in more}
        if faults:
            raise Faults(faults)
        if preset is not None and preset not in presets:
            there = "presets: " + (", ".join(presets) or "none")
            raise Fault(f'no preset "{preset}"', there=there, hint=did_you_mean(preset, presets))
        self.use |= {step: (value, ()) for step, value in use.items()}
        try:
            self.params.update(settle(declared, chosen.get("params") or {}, params))
        except Fault as fault:
            raise Fault(fault.what, there=fault.there, hint=fault.hint) from None

    def _graph(self) -> None:
        name = self.data["graph"]
        if not isinstance(name, str):
            raise wrong("the name of a graph file", name)
        path = (self.folder / name).resolve()
        graphs = self.loading.graphs
        if path not in graphs:
            graphs[path] = None
            if not path.is_file():
                raise Fault(f'no graph file "{name}"', there=f"looked beside the plan: {self.folder / name}")
            graphs[path] = read_graph(self.folder / name)
        self.graph = graphs[path] or NO_GRAPH

    def _inputs(self) -> None:
        self.inputs = read_inputs(self.data.get("inputs"))

    def _order(self) -> None:
        if self.data.get("order") is not None:
            value = self.steps.expand(self.data["order"], ("order",))
            self.order = read_order(value, self.inputs, self.graph.partition)

    # -- steps and after --------------------------------------------------------------------------------------------

    def own_inputs(self) -> dict[str, Node]:
        """The inputs as relations of their own."""
        found: dict[str, Node] = {}
        for name, spec in self.inputs.items():
            windowed = self.order is not None and self.order.input == name
            origin = self.document.position("inputs", name, key=True)
            columns = input_schema(spec, self.order)
            found[name] = Input(step=name, origin=origin, name=name, columns=columns, windowed=windowed)
        return found

    def body(self, inputs: Mapping[str, Node]) -> None:
        """Steps, writes, results and choices."""
        raw: dict[str, Any] = {}
        self.attempt(lambda: raw.update(mapping(self.data.get("steps"), "a mapping of steps")), "steps")
        for name in raw:
            self.attempt(partial(self._step_name, name, inputs), "steps", name, step=name)
        self._reset(inputs, raw)
        self.steps.build_all()
        self.attempt(self._writes, "writes")
        self.attempt(self._returns, "returns")
        self.attempt(self._use, step=None)

    def _step_name(self, name: str, inputs: Mapping[str, Node]) -> None:
        from semgraph.frontend.arguments import read_name

        read_name(name, self.steps, {})
        if name in inputs:
            raise Fault(f'"{name}" is an input already', hint="give the step another name")
        if name in self.graph.labels:
            raise Fault(f'"{name}" is a label of the graph', hint="give the step another name")

    def _writes(self) -> None:
        value = self.data.get("writes")
        if value is not None and not isinstance(value, list):
            raise wrong("a list of merge and delete", value)
        for i, item in enumerate(value or ()):
            self.attempt(partial(self._write, item, i), "writes", i)

    def _write(self, item: Any, i: int) -> None:
        if not isinstance(item, Mapping):
            raise wrong("{merge: {from: STEP, node: LABEL}}", item)
        words = [key for key in item if key in _SINKS]
        for key in item:
            if key not in _SINKS and key != "when":
                there = "writes: " + ", ".join(_SINKS) + "; when"
                raise Fault(f'"{key}" writes nothing', key, there=there, hint=did_you_mean(key, [*_SINKS, "when"]))
        if len(words) != 1:
            raise Fault("one merge or delete on a line", there="here: " + (", ".join(words) or "none"))
        if "when" in item and not self.steps.holds(item["when"]):
            return
        keyword = words[0]
        path = ("writes", i, keyword)
        given = self.steps.expand(item[keyword], path) if isinstance(item[keyword], Mapping) else item[keyword]
        try:
            self.writes.append(self._sink(keyword, given, self.document.position(*path)))
        except Pruned:
            return
        except Fault as fault:
            raise fault.under(keyword) from None

    def _sink(self, keyword: str, given: Any, origin: Position) -> Sink:
        if not isinstance(given, Mapping):
            raise wrong(f"the arguments of {keyword}", given, "{from: STEP, node: LABEL}")
        label = given.get("node") or given.get("edge") or ""
        with self.steps.naming(f"{keyword} {label}"):
            if "from" not in given:
                raise Fault(f'{keyword} needs "from": the rows to write')
            try:
                source = self.steps.relation(given["from"])
            except Fault as fault:
                raise fault.under("from") from None
            rest = {key: value for key, value in given.items() if key != "from"}
            step = self.prefix + f"{keyword} {label}"
            sink = build(_SINKS[keyword], rest, self.steps, source=source, step=step, origin=origin)
        assert isinstance(sink, Sink)
        if getattr(sink, "first", False) and any(n.calls_llm or n.calls_store for n in walk(source)):
            hint = "leave first out: the sink is then written with its window"
            raise Fault("first: true writes rows of an input, before any model or store is asked", "first", hint=hint)
        return sink

    def _returns(self) -> None:
        value = self.data.get("returns")
        if value is None:
            if not self.data.get("writes"):
                raise Fault("the plan writes nothing and returns nothing", hint="returns: [STEP]")
            return
        if isinstance(value, list):
            for i, item in enumerate(value):
                name = item.rpartition(".")[2] if isinstance(item, str) else ""
                self.attempt(partial(self._result, name, item), "returns", i)
            return
        for name, item in mapping(value, "a list of steps, or {name: step}").items():
            self.attempt(partial(self._result, name, item), "returns", name)

    def _result(self, name: str, item: Any) -> None:
        if not name:
            raise wrong("the name of a step", item)
        if name in self.returns:
            raise Fault(f'two results are named "{name}"', hint="returns: {name: step}")
        value = item if isinstance(item, str) else self.steps.expand(item, ("returns", name))
        try:
            with self.steps.naming(name):
                self.returns[name] = self.steps.relation(value)
        except Pruned:
            return

    def _use(self) -> None:
        for inner in self.called:
            self.choices |= inner.choices
        known = self.all_steps()
        for name, (value, path) in self.use.items():
            self.attempt(partial(self._choose, name, value, known), *path)

    def _choose(self, name: str, value: Any, known: Mapping[str, Any]) -> None:
        names = [step.removeprefix(self.prefix) for step in known]
        steps = match_steps(name, names)
        if not steps:
            pruned = isinstance(self.steps.built.get(name), Pruned)
            if pruned:
                return
            there = "steps: " + (", ".join(names) or "none")
            raise Fault(f'use names no step "{name}"', there=there, hint=did_you_mean(name, names))
        choice = parse_choice(value)
        for step in steps:
            if not any(n.calls_llm and n.step == self.prefix + step for n in walk(*known.values())):
                raise Fault(f"step {step} asks no model, so there is nothing to choose")
            self.choices[self.prefix + step] = choice

    def all_steps(self) -> dict[str, Node]:
        """Every step that was built, those of called plans as `caller/inner`."""
        found: dict[str, Node] = {}
        for inner in self.called:
            found |= inner.all_steps()
        for name, built in self.steps.built.items():
            if isinstance(built, Results) and len(built.tables) == 1:
                found[self.prefix + name] = next(iter(built.tables.values()))
            elif isinstance(built, Node):
                found[self.prefix + name] = built
        return found


def _at(read: Any, key: str, *args: Any) -> Any:
    try:
        return read(*args)
    except Fault as fault:
        raise fault.under(key) from None


def _preset(body: Any, declared: Mapping[str, Any]) -> dict[str, Any]:
    found = mapping(body, "a mapping with params and use")
    for fault in known_keys(found, ("params", "use", "doc"), "a preset"):
        raise fault
    given = _at(mapping, "params", found.get("params"), "a mapping of parameters")
    _at(settle, "params", declared, given)
    _at(mapping, "use", found.get("use"), "a mapping of steps")
    return found


def read_graph(path: Path) -> Graph:
    """A graph file. Raises PlanError, with places in it."""
    document = read_file(path, "graph")
    try:
        return Graph.build(mapping(document.data, "a mapping with nodes and edges"))
    except Fault as fault:
        raise PlanError(document.problem(fault)) from None


# -- calls --------------------------------------------------------------------------------------------------------------

_CALL = ("plan", "inputs", "params", "preset")


def call_plan(caller: Reading, scope: Steps, value: Mapping[str, Any], step: str, origin: Position) -> Results:
    """Another plan's steps in place of a `call`.

    Its inputs are the caller's relations: with at least the declared columns, of the declared types; a missing column that
    may be NULL is added as NULL, and further columns pass through. Its own `order` does not cut anything.

    Raises:
        Fault: The call is wrong; problems inside the called plan are put among the problems, and Poisoned is raised.
    """
    from semgraph.frontend.steps import Poisoned

    given = mapping(value, "{plan: NAME, inputs: {name: RELATION}}")
    faults = known_keys(given, _CALL, "call")
    if not isinstance(given.get("plan"), str):
        faults.append(Fault("call needs plan: the name of a plan"))
    if faults:
        raise Faults(faults)
    path = _called_file(caller, given["plan"])
    loading = caller.loading
    ring = [*loading.open, (given["plan"], path)]
    if path in [p for _, p in loading.open]:
        names = " → ".join(p.stem for _, p in ring[[p for _, p in ring].index(path) :])
        raise Fault(f"plans call each other: {names}", "plan")
    before = len(loading.problems)
    document = read_file(path)
    inner = Reading(loading, document, path.parent, prefix=f"{step}/")
    outer, loading.open = loading.open, (*loading.open, (given["plan"], path))
    try:
        params = _at(mapping, "params", given.get("params"), "a mapping of parameters")
        _at(
            settle,
            "params",
            mapping(document.data.get("params"), "") if isinstance(document.data, dict) else {},
            params,
        )
        inner.head(given.get("preset"), params, {})
        _one_graph(caller, inner)
        if len(loading.problems) > before:
            raise Poisoned
        inner.body(_call_inputs(scope, inner, given.get("inputs"), step, origin))
    finally:
        loading.open = outer
    caller.called.append(inner)
    caller.writes += inner.writes
    if len(loading.problems) > before:
        raise Poisoned
    return Results(step.rpartition("/")[2], inner.returns)


def _called_file(caller: Reading, name: str) -> Path:
    try:
        return find_plan(name, (caller.folder, *caller.loading.folders))[0].resolve()
    except PlanError as error:
        problem = error.problems[0]
        raise Fault(problem.what, "plan", there=problem.there, hint=problem.hint) from None


def _one_graph(caller: Reading, inner: Reading) -> None:
    if not inner.graph.labels or inner.graph == caller.graph:
        return
    if caller.graph.labels:
        raise Fault(
            "the called plan has another graph", "plan", there=f"{inner.data['graph']} of {inner.document.file}"
        )
    raise Fault("the called plan reads a graph, and this plan names none", "plan", hint=f"graph: {inner.data['graph']}")


def _call_inputs(scope: Steps, inner: Reading, value: Any, step: str, origin: Position) -> dict[str, Node]:
    given = _at(mapping, "inputs", value, "a mapping of relations")
    faults = [
        Fault(
            f'the plan has no input "{name}"',
            "inputs",
            name,
            there="inputs: " + (", ".join(inner.inputs) or "none"),
            hint=did_you_mean(name, inner.inputs),
        )
        for name in given
        if name not in inner.inputs
    ]
    found: dict[str, Node] = {}
    for name, spec in inner.inputs.items():
        try:
            if name not in given:
                raise Fault(f'the call needs the input "{name}"')
            found[name] = _fit(scope.relation(given[name]), spec, inner.order, f"{step}/{name}", origin)
        except Fault as fault:
            faults.append(fault.under("inputs", name))
    if faults:
        raise Faults(faults)
    return found


def _fit(node: Node, spec: InputSpec, order: Order | None, step: str, origin: Position) -> Node:
    missing = []
    nullable = {name for name, kind in spec.columns if kind.nullable}
    for column in input_schema(spec, order):
        if column.name not in node.schema.names:
            if column.name not in nullable:
                there = "columns here: " + ", ".join(node.schema.names)
                hint = did_you_mean(column.name, node.schema.names)
                raise Fault(f'input {spec.name} needs the column "{column.name}"', there=there, hint=hint)
            missing.append((column.name, parse_scalar(f"CAST(NULL AS {dict(spec.columns)[column.name].sql})")))
        elif node.schema.field(column.name).type != column.type:
            have = kind_of(str(node.schema.field(column.name).type))
            raise Fault(f'column "{column.name}" is {have}, the input wants {dict(spec.columns).get(column.name)}')
    return Add(step=step, origin=origin, input=node, columns=tuple(missing)) if missing else node


def load(
    path: Path,
    params: Mapping[str, Any],
    preset: str | None,
    use: Mapping[str, Any],
    folders: tuple[Path, ...],
) -> LogicalPlan:
    """A checked plan from its file. Raises PlanError with everything that is wrong, in the order of the file."""
    document = read_file(path)
    return load_document(
        document, path.parent, params, preset, use, Loading(folders, open=((path.stem, path.resolve()),))
    )


def load_document(
    document: Document,
    folder: Path,
    params: Mapping[str, Any],
    preset: str | None,
    use: Mapping[str, Any],
    loading: Loading,
) -> LogicalPlan:
    """A checked plan from plain data with positions."""
    reading = Reading(loading, document, folder)
    reading.head(preset, params, use)
    reading.body(reading.own_inputs())
    if loading.problems:
        raise PlanError(*sorted(loading.problems, key=partial(_place, document.file)))
    data = reading.data
    return LogicalPlan(
        name=data["plan"],
        graph=reading.graph,
        inputs=reading.inputs,
        steps=reading.all_steps(),
        writes=tuple(reading.writes),
        returns=reading.returns,
        order=reading.order,
        params=dict(reading.params),
        use=reading.choices,
        allow=tuple(data.get("allow") or ()),
        doc=data.get("doc") or "",
        document=document.data,
        file=document.file,
    )


def _place(first: str, problem: Problem) -> tuple[bool, str, int, int]:
    where = problem.position
    return (
        where is not None and where.file != first,
        *((where.file, where.line, where.column) if where else ("", 0, 0)),
    )
