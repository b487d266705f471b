"""Plan files to logical plans: one recursive loader, from plain data with positions to nodes.

All faults of a plan are reported at once, each with its position. A part that reads a faulty part
is not checked (`Reported`), so that no fault causes follow-up errors.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from semgraph.display import command
from semgraph.errors import Collected, Fault, Faults, PlanError, Position, Problem, among, each
from semgraph.expr.functions import canonical_json
from semgraph.frontend import build as operators
from semgraph.frontend import calls as calling
from semgraph.frontend import document as documents
from semgraph.frontend import head as heads
from semgraph.frontend import kinds
from semgraph.frontend.dump import write_yaml
from semgraph.frontend.functions import Functions
from semgraph.frontend.kinds import (
    CONDITION,
    PIPELINE,
    Key,
    Keys,
    Pruned,
    Reported,
    Scope,
    at_key,
    holds,
    unknown_parameter,
    whole_parameter,
)
from semgraph.frontend.prompt_files import Prompts
from semgraph.frontend.rows import row_faults
from semgraph.frontend.warnings import place_of, warnings
from semgraph.logical import plan as plans
from semgraph.logical.cluster import Cluster
from semgraph.logical.graph import Scan
from semgraph.logical.iterate import Round
from semgraph.logical.node import Node, walk
from semgraph.logical.partitions import mixed_prompts
from semgraph.logical.prompt import PromptSet
from semgraph.logical.schema import NAME, Graph
from semgraph.logical.sinks import Sink
from semgraph.optimizer import APPROXIMATE

__all__ = ["Loader", "dump", "load_document", "load_plan"]

MOST_CALLS = 50  # the maximum depth of nested calls of plans
_SINKS = operators.by_keyword(operators.SINKS)
_SOURCES = operators.by_keyword(operators.SOURCES)
_SCHEMA = "schema"
_WRITES = (*_SINKS, _SCHEMA)
# The keys of a step that is a mapping.
STEP: Keys = {
    "if": Key(kinds.kept(CONDITION), "whether the step is part of the plan"),
    "do": Key(kinds.kept(PIPELINE), "its operators, as in {if: $flag, do: [...]}", required=True),
}
# The keys of `schema` among the writes.
SCHEMA_WRITE: Keys = {"drop": Key(kinds.FLAG, "first drop existing indexes of these names")}


class _CallAt(NamedTuple):
    """A call of a plan, and its place; the scope is that of its inputs."""

    arguments: Mapping[str, Any]
    step: str
    origin: Position | None
    scope: Scope


class Loader:
    """Loads the body of one plan: steps, writes, results and choices. A `Scope` for `build`.

    Each called plan has its own loader, with relations of the caller as inputs.
    """

    def __init__(self, head: heads.Head, caller: Loader | None = None) -> None:
        self.head = head
        self.caller = caller
        self.replaced: dict[str, list[str]] = {}  # by call, the steps of the plan that it names
        self.params = head.params
        state = head.state
        own = head.folder, head.params, head.confined
        self.prompts = Prompts(*own, state.prompts, state.named_prompts)
        self.inputs: Mapping[str, Node] = {}
        self.raw: dict[str, Any] = {}
        self.built: dict[str, calling.Relation | Pruned | Reported] = {}
        self.called: list[Loader] = []
        self.calls: dict[str, plans.PlanCall] = {}
        self.writes: list[Sink] = []
        self.schema_write: plans.SchemaWrite | None = None
        self.returns: dict[str, Node] = {}
        self.pruned: dict[str, Pruned] = {}  # the pruned results
        self.choices: dict[str, plans.Choice] = {}
        self.has_lists = False  # whether a parameter is a list
        self.broken = False  # whether it has problems
        self._open: list[str] = []
        self._rounds: dict[str, Round] = {}
        self._outer_loops = 0 if caller is None else caller.depth
        self._step = ""
        self._reported_step: str | None = None

    def load(self, inputs: Mapping[str, Node]) -> None:
        """Load the body over these relations as inputs; problems are collected."""
        head = self.head
        self.inputs = inputs
        self.has_lists = any(isinstance(value, list) for value in self.params.values())
        read_steps = partial(documents.mapping, head.data.get("steps"), "a mapping of steps")
        steps_read = head.attempt(read_steps, "steps")
        if steps_read is None:
            head.unknown_inputs.add("")
        self.raw = steps_read or {}
        for name in self.raw:
            head.attempt(partial(self._check_step_name, name), "steps", name, step=name)
        for name in self.raw:
            self._step_once(name)
        head.attempt(self._load_writes, "writes")
        head.attempt(self._load_returns, "returns")
        for inner in self.called:
            self.choices |= inner.choices
        steps = self.all_steps() if head.use else {}
        swappable = {node.step for node in walk(*steps.values()) if node.swappable}
        for name, value, path in head.use:
            choose = partial(self._choose, name, value, steps, swappable, option=not path)
            if path:
                head.attempt(choose, *path)
            else:
                head.attempt_option(f"--use {name}", choose)

    def all_steps(self) -> dict[str, Node]:
        """Every step that was built; steps of called plans as `caller/inner`."""
        steps: dict[str, Node] = {}
        for inner in self.called:
            steps |= inner.all_steps()
        for name, built in self.built.items():
            if isinstance(built, calling.Results) and len(built.tables) == 1:
                steps[self.head.prefix + name] = next(iter(built.tables.values()))
            elif isinstance(built, Node):
                steps[self.head.prefix + name] = built
        return steps

    def parts(self) -> Iterator[Loader]:
        """The loaders of the plan and of the plans it calls."""
        yield self
        for inner in self.called:
            yield from inner.parts()

    # -- names

    @property
    def functions(self) -> Functions:
        """The user functions that expressions may call."""
        return self.head.state.functions

    @property
    def graph(self) -> Graph | None:
        """The graph that labels belong to; None if its file has problems."""
        return None if self.head.unknown_graph else self.head.graph

    def is_relation(self, name: str) -> bool:
        """Whether a name denotes an input, a step or a result."""
        root = name.split(".", maxsplit=1)[0]
        named = {*self._rounds, *self.inputs, *self.head.unknown_inputs}
        return name in named or root in self.raw

    def relation(self, value: Any) -> Node:
        """A relation by name, or a nested step. Raises Fault or Pruned."""
        relation = self._find(value)
        return relation if isinstance(relation, Node) else relation.single("name one of them")

    def check_free(self, name: str) -> None:
        """Refuse a name that is already used. Raises Fault."""
        kinds = {"an input": self.inputs, "a label of the graph": self.head.graph.labels,
                 "a step": self.raw, "the round of a loop around this one": self._rounds}  # fmt: skip
        for kind, names in kinds.items():
            if name in names:
                raise Fault(f'"{name}" is {kind} already', hint="choose another name")

    def body(self, value: Any, name: str, source: Node) -> tuple[Node, int]:
        """The body of a loop, and the number of loops around it. Raises Fault or Pruned."""
        if not isinstance(value, list):
            raise documents.wrong("a list of operators", value, f"write [{{from: {name}}}, ...]")
        depth, outer = self.depth, self._rounds
        values = {"name": name, "columns": source.schema, "windowed": source.windowed}
        origin = self.head.document.position(*self.head.expansion.place(value))
        self._rounds = {
            **outer,
            name: operators.shared_node(Round, self._step, origin, **values, depth=depth),
        }
        try:
            return self.relation(value), depth
        finally:
            self._rounds = outer

    @property
    def depth(self) -> int:
        """The number of loops around the current part."""
        return self._outer_loops + len(self._rounds)

    def prompt(self, value: Any, answers: Any, examples: Any) -> PromptSet:
        """The prompts that a value names. Raises Fault, or Reported if a file has faults."""
        try:
            return self.prompts.read(value, answers, examples)
        except PlanError as error:
            self.head.report_all(error)
            raise Reported from None

    def _find(self, value: Any) -> calling.Relation:
        if isinstance(value, list):
            return self._pipeline(value, self.head.expansion.place(value))
        if not isinstance(value, str):
            hint = None
            if isinstance(value, Mapping) and len(value) == 1:
                hint = "a relation of operators is a list: [{from: STEP}, ...]"
                if isinstance(named := value.get("from"), str):
                    hint = f"write {named}"
            raise documents.wrong("the name of a relation, or a list of operators", value, hint)
        if value in (given := {**self.inputs, **self._rounds}):
            return given[value]
        root, _, table = value.partition(".")
        if root in self.raw:
            step = self._step_relation(root)
            if not table:
                return step
            if isinstance(step, calling.Results):
                return step.table(table)
            what = f'step {root} is no call, so it has no result "{table}"'
            raise Fault(what, hint=f"write {root}")
        if self.graph is None or self.head.unknown_inputs & {value, ""}:
            raise Reported
        if value in self.graph.labels:
            return self._scan(value, None)
        parts = documents.walk_paths(self.raw)
        if any(path[-2:] == ("iterate", "as") and name == value for path, name in parts):
            raise Fault(f'"{value}" stands for the last round, inside do only')
        known = [*self._rounds, *self.inputs, *self.raw, *self.graph.labels]
        raise documents.unknown(value, known, "no relation", "relations here", value=True)

    def _scan(self, value: Any, origin: Position | None) -> Node:
        return operators.build(Scan, value, self, step=self._step, origin=origin)

    # -- steps

    def _check_step_name(self, name: str) -> None:
        if not NAME.match(name):
            raise documents.KeyFault(f'"{name}" cannot name a step', hint=documents.NAME_HINT)
        if name in self.inputs:
            raise documents.KeyFault(
                f'"{name}" is an input already', hint="give the step another name"
            )
        if name in self.head.graph.labels:
            raise documents.KeyFault(
                f'"{name}" is a label of the graph', hint="give the step another name"
            )

    def _step_relation(self, name: str) -> calling.Relation:
        """A step's relation, built on first access. Raises Fault for a cycle, or Pruned."""
        if name in self._open:
            ring = " → ".join([*self._open[self._open.index(name) :], name])
            raise Fault(f"steps read each other: {ring}")
        relation = self._step_once(name)
        if isinstance(relation, Pruned | Reported):
            raise relation
        return relation

    def _step_once(self, name: str) -> calling.Relation | Pruned | Reported:
        if name not in self.built:
            self._open.append(name)
            rounds, self._rounds = self._rounds, {}  # a step does not depend on its reader
            with self._naming(name, reported=True):
                load = partial(self._if_holds, self.raw[name], ("steps", name))
                loaded = self.head.attempt(load, "steps", name, step=self.head.prefix + name)
                self.built[name] = Reported() if loaded is None else loaded
            self._rounds = rounds
            self._open.pop()
        return self.built[name]

    def _if_holds(self, value: Any, path: documents.Trail) -> calling.Relation | Pruned:
        """The relation of a step's text, or Pruned if its `if` does not hold."""
        if isinstance(value, Mapping):
            kinds.all_keys(value, "a step as a mapping", STEP)
            if "if" in value and not at_key("if", holds, value["if"], self.params):
                return Pruned((str(path[-1]), _parameters_of(value["if"], self.params)))
            value, path = value["do"], (*path, "do")
        if not isinstance(value, list):
            hint = "a dash and an operator on each line"
            if isinstance(value, str):
                hint = f"write [{{from: {value}}}]"
            raise documents.wrong("a list of operators", value, hint)
        return self._pipeline(self.head.expansion.expand(value, path), path)

    @contextmanager
    def _naming(self, step: str, *, reported: bool = False) -> Iterator[None]:
        """Assign nodes that are built inside to a step. `reported`: problems name the step."""
        outer = self._step, self._reported_step
        self._step = self.head.prefix + step
        self._reported_step = self._step if reported else None
        try:
            yield
        finally:
            self._step, self._reported_step = outer

    # -- operators

    def _pipeline(self, items: list[Any], path: documents.Trail) -> calling.Relation:
        """A source and the operators on it. Raises Fault if there is none, or Pruned."""
        if not items:
            raise Fault(
                "a step needs a source", there="sources: " + ", ".join(operators.SOURCE_WORDS)
            )
        relation: calling.Relation | None = None
        for i, item in enumerate(items):
            place: documents.Trail = (*path, i)
            try:
                keyword, value = operators.operator_on(item, first=relation is None)
                place = (*place, keyword)
                relation = self._operator(keyword, value, relation, place)
            except Fault as fault:
                self.head.report(fault, *place, step=self._reported_step)
                raise Reported from None
        assert relation is not None
        return relation

    def _operator(
        self, keyword: str, value: Any, relation: calling.Relation | None, path: documents.Trail
    ) -> calling.Relation:
        """One operator on the relation above it. Raises Fault or Pruned."""
        origin = self.head.document.position(*path, key=True)
        if keyword == Cluster.keyword:
            written = self.head.document.position(*path, "algorithm")
            origin = replace(origin, algorithm=written)
        lists = self.has_lists and keyword != "call"
        self.head.state.count(origin, _brought(value, self.params) if lists else 0)
        if keyword == "from":
            return self._scan(value, origin) if isinstance(value, Mapping) else self._find(value)
        if keyword == "call":
            return self.call(value, self._step, origin)
        if keyword == "switch":
            return self._switch(value)
        if keyword in _SOURCES:
            return self._node(_SOURCES[keyword], value, None, origin)
        if isinstance(relation, calling.Results):
            relation = relation.single("go on in a step of its own")
        return self._node(operators.OPERATOR_WORDS[keyword], value, relation, origin)

    def _node(self, cls: type[Node], value: Any, source: Node | None, origin: Position) -> Node:
        try:
            return operators.build(cls, value, self, source=source, step=self._step, origin=origin)
        except Fault as fault:
            raise Faults(map(self.prompts.located, each(fault))) from None

    def _switch(self, value: Any) -> calling.Relation:
        """The form of a step that a parameter selects. Raises Fault or Pruned."""
        if not isinstance(value, Mapping) or "on" not in value:
            hint = "write {on: $param, VALUE: [...], VALUE: [...]}"
            raise Fault("switch needs on and a form for each value", hint=hint)
        picked = word(value["on"])
        forms = {key: form for key, form in value.items() if key != "on"}
        if picked not in forms:
            what = f'switch has no form for "{picked}"'
            raise Fault(what, "on", **among(picked, forms, "forms"))
        relation: calling.Relation = at_key(picked, self._find, forms[picked])
        return relation

    # -- writes and results

    def _load_writes(self) -> None:
        items = self.head.data.get("writes")
        if items is not None and not isinstance(items, list):
            raise documents.wrong("a list of merge, delete and schema", items)
        for i, item in enumerate(items or ()):
            self.head.attempt(partial(self._write, item, i), "writes", i)

    def _write(self, item: Any, i: int) -> None:
        if not isinstance(item, Mapping):
            raise documents.wrong("{merge: {from: STEP, node: LABEL}}", item)
        words = [key for key in item if key in _WRITES]
        if faults := documents.known_keys(item, (*_WRITES, "if"), "a write"):
            raise Faults(faults)
        if len(words) != 1:
            there = "here: " + (", ".join(words) or "none")
            raise Fault("one merge, delete or schema on a line", there=there)
        if "if" not in item or at_key("if", holds, item["if"], self.params):
            at_key(words[0], self._write_of, words[0], item[words[0]], ("writes", i, words[0]))

    def _write_of(self, keyword: str, value: Any, path: documents.Trail) -> None:
        arguments = self.head.expansion.expand(value, path)
        if keyword == _SCHEMA:
            self.schema_write = self._schema_write(arguments)
            return
        if not isinstance(arguments, Mapping):
            raise documents.wrong(
                f"the arguments of {keyword}", arguments, "{from: STEP, node: LABEL}"
            )
        if "from" not in arguments:
            raise Fault(f'{keyword} needs "from": the rows to write')
        name = f"{keyword} {arguments.get('node') or arguments.get('edge') or ''}".strip()
        with self._naming(name):
            rest = {key: part for key, part in arguments.items() if key != "from"}
            origin = self.head.document.position(*path, key=True)
            try:
                source = at_key("from", self.relation, arguments["from"])
                sink = self._node(_SINKS[keyword], rest, source, origin)
            except Pruned:
                return
        assert isinstance(sink, Sink)
        _check_first(sink)
        self.writes.append(sink)

    def _schema_write(self, value: Any) -> plans.SchemaWrite:
        arguments = kinds.all_keys(value, _SCHEMA, SCHEMA_WRITE)
        if not self.head.graph.labels and not self.head.unknown_graph:
            what = "the schema is that of a graph, and this plan names none"
            raise Fault(what, hint="add graph: graph.yaml to the plan")
        if self.schema_write is not None:
            raise Fault("the schema is written once")
        return plans.SchemaWrite(arguments.get("drop", False))

    def _load_returns(self) -> None:
        value = self.head.data.get("returns")
        if value is None:
            readable = isinstance(self.head.data.get("steps", {}), Mapping)
            if readable and not self.head.data.get("writes"):
                hint = "write returns: [STEP]"
                raise Fault("the plan writes nothing and returns nothing", hint=hint)
        elif isinstance(value, list):
            for i, item in enumerate(value):
                name = item.rpartition(".")[2] if isinstance(item, str) else ""
                self.head.attempt(partial(self._result, name, item), "returns", i)
        else:
            for name, item in documents.mapping(value, "a list of steps, or {name: step}").items():
                self.head.attempt(partial(self._result, name, item), "returns", name)

    def _result(self, name: str, item: Any) -> None:
        if not name:
            hint = "a result that is no step needs a name: {name: [...]}"
            raise documents.wrong("the name of a step", item, hint)
        if name in self.returns:
            raise Fault(f'two results are named "{name}"', hint="write returns: {name: step}")
        with self._naming(name):
            value = item
            if not isinstance(item, str):
                value = self.head.expansion.expand(item, ("returns", name))
            try:
                self.returns[name] = self.relation(value)
            except Pruned as pruned:
                self.pruned[name] = pruned

    # -- choices

    def plans_called(self) -> Iterator[tuple[str, plans.PlanCall]]:
        """The calls by step; calls in called plans as `caller/inner`."""
        yield from self.calls.items()
        for inner in self.called:
            yield from inner.plans_called()

    def all_replaced(self) -> Iterator[tuple[str, list[str]]]:
        """The calls with replaced plans, and the steps of these; inside calls `caller/inner`."""
        for step, names in self.replaced.items():
            yield step, [name.removeprefix(self.head.prefix) for name in names]
        for inner in self.called:
            within = inner.head.prefix.removeprefix(self.head.prefix)
            for step, names in inner.all_replaced():
                yield within + step, [within + name for name in names]

    def _choose(
        self,
        name: str,
        value: Any,
        known: Mapping[str, Node],
        swappable: Container[str],
        *,
        option: bool,
    ) -> None:
        prefix = self.head.prefix
        names = [step.removeprefix(prefix) for step in known]
        steps = plans.match_steps(name, names)
        chosen = [
            step for step in steps if prefix + step in swappable
        ]  # including steps inside calls
        replaced = dict(self.all_replaced())
        if calls := plans.match_steps(name, replaced):
            if chosen and calls != chosen:
                what = f'"{name}" names the call {calls[0]} and the step {chosen[0]}, which asks'
                raise Fault(what, hint="write OUTER/INNER")
            return
        if not steps:
            if not option and any(plans.match_steps(name, own) for own in replaced.values()):
                return  # a step of the plan that was replaced
            last = {step: chosen for step, chosen, _ in self.head.use}
            if not option and any(
                last[step] != chosen
                for step, chosen, _ in self.head.use
                if plans.match_steps(step, replaced)
            ):
                return  # or of a plan that the plan or the preset chose, and a later choice replaced
            if self.has_pruned(name) or any(isinstance(b, Reported) for b in self.built.values()):
                return  # or it may be in an unchecked part
            calls = [step.removeprefix(prefix) for step, _ in self.plans_called()]
            choices = [*calls, *(step for step in names if prefix + step in swappable)]
            raise documents.unknown(name, choices or names, "use names no step", "steps")
        choice = plans.Choice.parse(value)
        if not chosen:
            nodes = list(walk(*(known[prefix + step] for step in steps)))
            raise _nothing_to_choose(steps[0], [n for n in nodes if n.step == prefix + steps[0]])
        for step in chosen:
            own = (n for n in walk(known[prefix + step]) if n.step == prefix + step)
            words = dict.fromkeys(node.keyword for node in own if node.swappable)
            if Cluster.keyword in words and len(words) > 1:
                what = f'step "{step}" has {" and ".join(words)}, and use means one'
                raise Fault(what, hint=f"put {Cluster.keyword} in a step of its own")
        for step in chosen:
            self.choices[prefix + step] = choice.over(self.choices.get(prefix + step))

    def has_pruned(self, name: str) -> bool:
        """Whether a step of that name, or inside a call of its last part, was left out."""
        inner_name = name.rsplit("/", 1)[-1]
        return name in self.built or any(inner.has_pruned(inner_name) for inner in self.called)

    # -- calls

    def call(
        self, value: Any, step: str, origin: Position | None, scope: Scope | None = None
    ) -> calling.Results:
        """The results of a called plan. Its steps are named `step/inner`; its writes become writes
        of the caller.

        Its inputs are relations of the caller with at least the declared columns and types. A
        missing nullable column is added as NULL; further columns pass through. Its `windows` have
        no effect, because the caller's windows apply. Raises Fault.
        """
        call = _CallAt(self._call_arguments(value), step, origin, scope or self)
        path = at_key("plan", self._called_file, call.arguments["plan"])
        self.calls[step] = plans.PlanCall(call.arguments["plan"])
        replacement = self.replacement(step)
        state = self.head.state
        counts = state.operators, state.parameter_items
        reference = self._called(path, call)
        if replacement is None or reference.broken:
            return self._results(reference, step)
        state.operators, state.parameter_items = counts
        return self._replacing(replacement, reference, call)

    def _call_arguments(self, value: Any) -> dict[str, Any]:
        """The arguments of a call; a list of names means those of the caller. Raises Faults."""
        arguments = kinds.all_keys(value, "call", calling.CALL)
        if isinstance(inputs := arguments.get("inputs"), list):
            arguments["inputs"] = {
                name: name for name in at_key("inputs", kinds.read_names, inputs)
            }
        if isinstance(params := arguments.get("params"), list):
            for i, name in enumerate(at_key("params", kinds.read_names, params)):
                if name not in self.params:
                    raise unknown_parameter(name, self.params, "params", i, value=True)
            arguments["params"] = {name: self.params[name] for name in params}
        return arguments

    def _called(self, path: Path, call: _CallAt) -> Loader:
        """The loader of a called plan; it is `broken` if it has problems. Raises Fault or Pruned."""
        state = self.head.state
        before, outer = len(state.problems), state.open
        head = heads.Head(state, documents.read_file(path), path.parent, f"{call.step}/")
        state.open = (*outer, path)
        try:
            self._read_called_head(head, call.arguments)
            inner = Loader(head, self)
            if len(state.problems) == before and not head.unknown_graph:
                given, place = call.arguments.get("inputs"), (call.step, call.origin)
                inner.load(at_key("inputs", calling.call_inputs, call.scope, head, given, *place))
        finally:
            state.open = outer
        graphs = self.head.unknown_graph or head.unknown_graph
        inner.broken = graphs or len(state.problems) > before
        return inner

    def _results(self, inner: Loader, step: str) -> calling.Results:
        """The results of a called plan, which becomes part of this one. Raises Fault."""
        if self._rounds and (inner.writes or inner.schema_write is not None):
            raise Fault("the plan that do calls writes: write after the loop", "plan")
        self.called.append(inner)
        self.calls[step] = replace(
            self.calls[step],
            inputs=inner.inputs,
            results=inner.returns,
            document=inner.head.document.data,
        )
        self.writes += inner.writes
        self.schema_write = self.schema_write or inner.schema_write
        name = step.removeprefix(self.head.prefix)
        if inner.broken:
            raise Reported
        return calling.Results(name, inner.returns, inner.pruned)

    def replacement(self, step: str) -> calling.Replacement | None:
        """The entry of `use` that replaces a called plan: that of the outermost plan, or None."""
        found: calling.Replacement | None = None
        loader: Loader | None = self
        while loader is not None:
            own = step.removeprefix(loader.head.prefix)
            for key, value, path in loader.head.use:
                nested = key.split("/")[0] not in loader.raw and own.endswith(f"/{key}")
                if key == own or nested:
                    found = calling.Replacement(value, loader, key, path)
            loader = loader.caller
        return found

    def _replacing(
        self, replacement: calling.Replacement, reference: Loader, call: _CallAt
    ) -> calling.Results:
        """The results of a plan in place of the reference; one that does not fit is reported."""
        plan, name = str(call.arguments["plan"]), call.step.removeprefix(self.head.prefix)
        self.replaced[name] = [*reference.all_steps()]
        if self._asks(name):
            hint = "put the call in a step of its own"
            replacement.report(Fault(f'step "{name}" calls a plan and asks', hint=hint))
            raise Reported
        try:
            choice = plans.Choice.parse(replacement.value)
            path = self._called_file(choice.name or str(choice))
            self.calls[call.step] = plans.PlanCall(plan, choice)
        except Fault as fault:
            replacement.report(fault)
            raise Reported from None
        fit = calling.Fit(replacement, choice.name, plan)
        head = heads.Head(self.head.state, documents.read_file(path), path.parent, f"{call.step}/")
        own, reasons = calling.replacing_arguments(choice, call.arguments, reference.head, head)
        if fit.refused(reasons):
            raise Reported
        try:
            inner = self._called(path, call._replace(arguments=own))
        except Fault as fault:
            fit.refused([part.what for part in each(fault)])
            raise Reported from None
        return fit.results(self._results(inner, call.step), reference.returns)

    def _asks(self, name: str) -> bool:
        """Whether a step has operators that a model answers."""
        items = (value for _, value in documents.walk_paths(self.raw.get(name)))
        asking = {word for word, cls in operators.OPERATOR_WORDS.items() if cls.calls_model}
        return any(isinstance(item, Mapping) and asking & item.keys() for item in items)

    def _called_file(self, name: str) -> Path:
        head = self.head
        path = documents.find_named(
            name, (head.folder, *head.state.folders), confined=head.confined
        )
        callers = [open_path.resolve() for open_path in head.state.open]
        if path.resolve() in callers:
            ring = [*callers[callers.index(path.resolve()) :], path]
            raise Fault("plans call each other: " + " → ".join(p.stem for p in ring))
        if len(callers) >= MOST_CALLS:
            hint = "put steps of several plans into one"
            raise Fault(f"plans call plans at most {MOST_CALLS} deep", hint=hint)
        return path

    def _read_called_head(self, inner: heads.Head, arguments: Mapping[str, Any]) -> None:
        params = at_key(
            "params", documents.mapping, arguments.get("params"), "a mapping of parameters"
        )
        declared = inner.data.get("params")
        if isinstance(declared, Mapping):
            at_key("params", heads.parameter_values, declared, params)
            at_key("params", heads.check_kinds, inner.data, params)
        preset, presets = arguments.get("preset"), inner.data.get("presets")
        presets = presets if isinstance(presets, Mapping) else {}
        if preset is not None and preset not in presets:
            what = "the called plan has no preset"
            raise documents.unknown(str(preset), presets, what, "presets", "preset", value=True)
        heads.read_head(inner, preset, params, {})
        own = self.head.graph
        unknown_graph = self.head.unknown_graph or inner.unknown_graph
        if unknown_graph or not inner.graph.labels or own.contains(inner.graph):
            return
        graph = inner.data["graph"]
        if own.labels:
            there = f"it reads {graph} of {inner.document.file}"
            raise Fault("the called plan has another graph", "plan", there=there)
        what = "the called plan reads a graph, and this plan names none"
        raise Fault(what, "plan", hint=f"add graph: {graph} to this plan")


def _parameters_of(condition: Any, params: Mapping[str, Any]) -> str:
    """The values of the parameters of an `if`: `way is short and flag is false`."""
    keys = condition if isinstance(condition, Mapping) else [condition]
    names = [name for name in map(whole_parameter, keys) if name]
    return " and ".join(f"{name} is {canonical_json(params[name])}" for name in names) or "none"


def _nothing_to_choose(step: str, nodes: Iterable[Node]) -> Fault:
    """The fault of an entry of `use` for a step with only one implementation."""
    for node in nodes:
        if isinstance(node, Cluster):
            there = f"it clusters by {node.algorithm}, which is exact"
            hint = "use replaces a partitioning algorithm, such as louvain, by another"
            return Fault(f'step "{step}": there is nothing to choose', there=there, hint=hint)
    return Fault(f'step "{step}" does not call the model: there is nothing to choose')


def _brought(value: Any, params: Mapping[str, Any]) -> int:
    """The list items that parameters add to an operator, without those nested in it."""
    if isinstance(value, str):
        names = kinds.PARAMETER.findall(value) if "$" in value else ()
        return sum(len(params[name]) for name in names if isinstance(params.get(name), list))
    if isinstance(value, (dict, Mapping)):
        return sum([_brought(part, params) for part in value.values()])
    if isinstance(value, list):
        return sum([_brought(part, params) for part in value if not isinstance(part, Mapping)])
    return 0


def word(value: Any) -> str:
    """A parameter's value as the key of a `switch`.

    >>> [word(v) for v in (True, None, 3, "rrf")]
    ['true', 'null', '3', 'rrf']
    """
    if isinstance(value, (Mapping, list)):
        raise documents.wrong("a text, a number, true, false or null", value).under("on")
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return str(value)


def _check_first(sink: Sink) -> None:
    """Refuse a sink with `first` that depends on a model or store. Raises Fault."""
    nodes = walk(*sink.inputs)
    if sink.first and any(n.calls_model or n.reads_store or n.embeds for n in nodes):
        what = "first: true writes rows of an input, before any model is called or store is read"
        hint = "leave first out: the sink is then written with its window"
        raise Fault(what, "first", hint=hint)


# -- plans


def load_document(
    document: documents.Document,
    path: Path,
    *,
    params: Mapping[str, Any] | None = None,
    preset: str | None = None,
    use: Mapping[str, Any] | None = None,
    folders: tuple[Path, ...] = (),
    graphs: Mapping[Path, Graph] | None = None,
    confined: bool = True,
    functions: Functions | None = None,
    prompts: Mapping[str, Path] | None = None,
    blame: bool = True,
) -> plans.LogicalPlan:
    """A checked plan from plain data with positions. Raises PlanError with all faults.

    `path` is its file, which need not exist: its folder has the graph file, prompts and called plans.
    If it is `confined`, the files that it names must be in that folder, or shipped. `graphs` are
    already read, by the path of their file. With `blame`, errors name the parameters of the caller
    that cause them. The others are as in `load_plan`.
    """
    functions = functions or Functions()
    state = heads.LoadState(
        folders, functions, open=(path,), graphs=dict(graphs or {}), prompts=prompts or {}
    )  # fmt: skip
    head = heads.Head(state, document, path.parent, confined=confined)
    if not isinstance(document.data, Mapping):
        what = "a plan is a mapping with plan, inputs, steps and so on"
        raise PlanError(what, position=document.position(), hint="start with plan: NAME")
    for name, file in (prompts or {}).items():
        if not documents.is_file(file):
            what = command(f"--prompt {name}", f'prompts["{name}"]')
            raise PlanError(f"{what}: there is no file {documents.shown(file)}")
    heads.read_head(head, preset, params or {}, use or {})
    loader = Loader(head)
    try:
        loader.load(heads.own_inputs(head))
    except RecursionError:
        what = "its steps read each other through too many others"
        hint = "write each step after those that it reads, and nested ones as steps of their own"
        position = document.position("steps", key=True)
        raise PlanError(what, position=position, hint=hint) from None
    head.attempt_option("--prompt", partial(_check_prompts, state))
    head.attempt(partial(_check_allow, head))
    head.attempt(partial(_check_example, head))

    def load(
        more: Mapping[str, Any], params: Any = params, *, blame: bool = True
    ) -> plans.LogicalPlan:
        return load_document(
            document, path, params=params, preset=preset, use=plans.choices_over(more, use or {}), blame=blame,
            folders=folders, graphs=graphs, confined=confined, functions=functions, prompts=prompts,
        )  # fmt: skip

    if state.problems:
        problems = sorted(state.problems, key=partial(place_of, document.file))
        raise PlanError(*(_blamed(problems, params or {}, load) if blame else problems))

    plan = replace(_plan(loader), preset=preset, load=load)
    _refuse_mixed_prompts(plan)
    return plan


def _blamed(
    problems: Sequence[Problem], params: Mapping[str, Any], load: Callable[..., object]
) -> Sequence[Problem]:
    """The problems; one that disappears without a parameter is that of the caller's value."""
    for name, value in params.items():
        try:
            load({}, {other: params[other] for other in params if other != name}, blame=False)
            left: Sequence[Problem] = ()
        except PlanError as error:
            left = error.problems
        text = canonical_json(value)
        caller = command(f"--set {name}={text}", f'params={{"{name}": {text}}}')
        problems = [
            one
            if one in left or one.position is None
            else Problem(f"{caller}: {replace(one, position=None)}")
            for one in problems
        ]
    return problems


def _plan(loader: Loader) -> plans.LogicalPlan:
    head = loader.head
    return plans.LogicalPlan(
        name=head.data["plan"],
        graph=head.graph,
        inputs=head.inputs,
        steps=loader.all_steps(),
        writes=tuple(loader.writes),
        schema_write=loader.schema_write,
        returns=loader.returns,
        windows=head.windows,
        params=dict(head.params),
        use=loader.choices,
        called=dict(loader.plans_called()),
        allow=tuple(head.data.get("allow") or ()),
        prompts={name: str(path) for name, path in head.state.prompts.items()},
        doc=head.data.get("doc") or "",
        document=head.document.data,
        file=head.document.file,
        warnings=warnings(loader),
    )


def _check_prompts(state: heads.LoadState) -> None:
    for name in state.prompts.keys() - state.named_prompts if not state.problems else ():
        known = among(name, sorted(state.named_prompts), "its prompts")
        raise Fault(f'the plan reads no prompt "{name}"', **known)


def _check_allow(head: heads.Head) -> None:
    known = [rule.__name__ for rule in APPROXIMATE]
    for i, name in enumerate(at_key("allow", kinds.read_names, head.data.get("allow") or [])):
        if name not in known:
            what, kind = "no rule that may change answers is called", "such rules"
            raise documents.unknown(name, known, what, kind, "allow", i, value=True)


def _check_example(head: heads.Head) -> None:
    example, faults = at_key(
        "example", kinds.read_keys, head.data.get("example"), "an example", heads.EXAMPLE
    )
    faults = Collected(fault.under("example") for fault in faults)
    rows = example.get("inputs", {})
    for name, listed in rows.items():
        faults += _example_faults(head, name, listed)
    if not faults and not head.state.problems:  # otherwise these may be follow-up errors
        what = "the example lacks rows of {}, which must be given"
        faults += [
            Fault(what.format(name), "example", "inputs")
            for name, spec in head.inputs.items()
            if example and not spec.optional and rows.get(name) is None
        ]
    for i, plan in enumerate(example.get("after", ())):
        with faults.at("example", "after", i):
            documents.find_named(plan, (head.folder, *head.state.folders), confined=head.confined)
    faults.refuse()


def _example_faults(head: heads.Head, name: str, rows: Any) -> list[Fault]:
    path = ("example", "inputs", name)
    if name not in head.inputs:
        if head.unknown_inputs & {name, ""}:
            return []
        return [documents.unknown(name, head.inputs, "no input", "inputs", *path)]
    windowing = head.windows if head.windows is not None and head.windows.input == name else None
    ordered = {"partition": windowing.partition, "key": windowing.key} if windowing else {}
    faults = []
    for fault in row_faults(head.inputs[name], rows, **ordered):
        what = f"the example's {name} {fault.what}"
        where: documents.Trail = ()
        if fault.row is not None:
            what = f"column {fault.column}: {fault.what}"
            where = (fault.row, fault.column)
        faults.append(Fault(what, *path, *where, hint=fault.hint))
    return faults


def _refuse_mixed_prompts(plan: plans.LogicalPlan) -> None:
    roots, names = (*plan.roots, *plan.steps.values()), [plan.graph.partition]
    if plan.windows is not None:
        names.append(plan.windows.partition)
    windows = plan.windows is not None
    if problems := list(mixed_prompts(roots, frozenset(names), windows=windows)):
        raise PlanError(*problems)


def load_plan(
    ref: str | Path,
    *,
    params: Mapping[str, Any] | None = None,
    preset: str | None = None,
    use: Mapping[str, str] | None = None,
    prompts: Mapping[str, str | Path] | None = None,
    folders: Sequence[str | Path] = (),
    functions: Sequence[str | Path] = (),
) -> plans.LogicalPlan:
    """A checked plan.

    Args:
        ref: A path or a name, searched in the working directory, then among the shipped plans.
        params: Values of parameters, which override the plan's.
        preset: One of the plan's presets: a set of parameters and choices.
        use: Implementations of steps, such as `{"linked": "block(left=10)"}`, which override the
            plan's choices.
        prompts: Files in the place of prompts of the plan and of called plans, by name:
            `{"judge_fact": "mine.md"}`.
        folders: Folders to search first, for the plan and for called plans.
        functions: Folders with user functions; code is run only from there.

    Raises:
        PlanError: The plan has faults; all are reported, each with its position.
    """
    paths = tuple(Path(folder) for folder in folders)
    path, _ = documents.find_plan(ref, paths)
    return load_document(
        documents.read_file(path), path, params=params, preset=preset, use=use, folders=paths,
        prompts={name: Path(file) for name, file in (prompts or {}).items()},
        functions=Functions(tuple(Path(folder) for folder in functions)),
    )  # fmt: skip


def dump(plan: plans.LogicalPlan) -> str:
    """The text of a plan file: the plan's source document, including parameters and presets."""
    return write_yaml(plan.document)
