"""The steps of a plan: names to relations, lists of operators to nodes, calls of other plans in
place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from semgraph.errors import Fault, PlanError, Position, Problem, did_you_mean
from semgraph.frontend.build import (
    OPERATOR_WORDS,
    SOURCE_WORDS,
    SOURCES,
    Despite,
    Lost,
    build,
    build_despite,
    by_keyword,
    operator_on,
)
from semgraph.frontend.document import Document, Trail
from semgraph.frontend.prompt_files import Prompts
from semgraph.frontend.scope import Faults, Poisoned, Pruned, Results, each, unknown, wrong
from semgraph.frontend.settings import holds, known_keys, told, unknown_parameter, whole_parameter
from semgraph.logical.graph import Scan
from semgraph.logical.node import Node
from semgraph.logical.plan import Choice, InputSpec, Order, SchemaWrite
from semgraph.logical.prompt import PromptSet
from semgraph.logical.schema import Graph
from semgraph.logical.sinks import Sink


class Expansion:
    """Puts parameters in place of texts that are one as a whole, and keeps where each part of a
    plan stands in it.
    """

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.params = params
        self._places: dict[int, Trail] = {}
        self._kept: list[Any] = []  # so that no two parts ever have one id

    def expand(self, value: Any, path: Trail) -> Any:
        """Plain data that stands at `path`, with parameters in place. Raises Faults, with paths
        below it.
        """
        faults: list[Fault] = []
        found = self._expanded(value, path, len(path), faults)
        if faults:
            raise Faults(faults)
        self._kept.append(found)
        return found

    def place(self, value: Any) -> Trail:
        """Where a mapping or list of expanded data stands."""
        return self._places.get(id(value), ())

    def _expanded(self, value: Any, path: Trail, base: int, faults: list[Fault]) -> Any:
        name = whole_parameter(value)
        if name:
            if name not in self.params:
                faults.append(unknown_parameter(name, self.params, *path[base:], value=True))
                return None
            value = self.params[name]
        if isinstance(value, Mapping):
            found: Any = {
                k: self._expanded(v, path if name else (*path, k), base, faults)
                for k, v in value.items()
            }
        elif isinstance(value, (list, tuple)):
            found = [
                self._expanded(v, path if name else (*path, i), base, faults)
                for i, v in enumerate(value)
            ]
        else:
            return value
        self._places[id(found)] = path
        return found


_PARAMETER = re.compile(r"\$(\w+)")
_UNION = by_keyword(SOURCES)["union"]


Found: TypeAlias = Node | Results
Call = Callable[["Steps", Mapping[str, Any], str, Position], Results]


@dataclass
class Steps:
    """What names mean inside one plan, and the steps built so far. A `Scope` for `build`.

    Args:
        document: The plan file.
        params: The parameters' values.
        known_graph: The graph that labels belong to; None where its file has problems.
        inputs: Relations of the inputs by name.
        raw: The steps as plain data, in order.
        prompts: Where prompts are found.
        expansion: Puts parameters in place.
        call: Builds a called plan.
        count: Counts an operator, by its place, and the items that lists of parameters bring into
            it.
        problems: Where problems are put.
        prefix: Put before the names of steps: the calling step's name and "/".
        lost: Columns that could not be made.
        broken: Inputs with problems. With "" among them, any unknown name may be one.
    """

    document: Document
    params: Mapping[str, Any]
    known_graph: Graph | None
    inputs: Mapping[str, Node]
    raw: Mapping[str, Any]
    prompts: Prompts
    expansion: Expansion
    call: Call
    count: Callable[[Position, int], None]
    problems: list[Problem]
    prefix: str = ""
    broken: frozenset[str] = frozenset()
    built: dict[str, Found | Poisoned | Pruned] = field(default_factory=dict)
    inner: dict[str, Node] = field(default_factory=dict)
    lost: Lost = field(default_factory=Lost)
    _open: list[str] = field(default_factory=list)
    _step: str = ""

    # -- names
    # -----------------------------------------------------------------------------------------------------

    @property
    def graph(self) -> Graph:
        """The graph that labels belong to. Raises Poisoned where its file has problems."""
        if self.known_graph is None:
            raise Poisoned
        return self.known_graph

    def is_relation(self, name: str) -> bool:
        """Whether a name is that of an input, a step or a result."""
        root = name.split(".", maxsplit=1)[0]
        return name in self.inputs or root in self.raw or name in self.broken

    def relation(self, value: Any) -> Node:
        """A relation by name, or a nested step. Raises Fault."""
        found = self.find(value)
        if isinstance(found, Node):
            return found
        if len(found.tables) == 1:
            return next(iter(found.tables.values()))
        names = ", ".join(f"{found.name}.{t}" for t in found.tables)
        raise Fault(
            f"{found.name} has several results",
            there=f"results: {names or 'none'}",
            hint="name one of them",
        )

    def find(self, value: Any) -> Found:
        """A relation, or the results of a call. Raises Fault, Poisoned or Pruned."""
        if isinstance(value, list):
            return self.pipeline(value, self.expansion.place(value))
        if not isinstance(value, str):
            raise wrong("the name of a relation, or a list of operators", value)
        if value in self.inputs:
            return self.inputs[value]
        root, _, table = value.partition(".")
        if root in self.raw:
            found = self.step(root)
            if not table:
                return found
            if isinstance(found, Results):
                return found.table(table)
            raise Fault(
                f'step {root} is no call, so it has no result "{table}"', hint=f"say {root}"
            )
        if value not in self.broken and value in self.graph.labels:
            return self.scan(value)
        if self.broken & {value, ""}:
            raise Poisoned
        known = [*self.inputs, *self.raw, *self.graph.labels]
        raise unknown(value, known, "no relation", "relations here", value=True)

    def scan(self, value: Any, origin: Position | None = None) -> Node:
        """The stored rows of a label."""
        return build(Scan, value, self, step=self._step, origin=origin)

    def prompt(self, value: Any, answers: Any) -> PromptSet:
        """The prompts that a value names. Raises Fault or PlanError."""
        return self.prompts.read(value, answers)

    # -- steps
    # -----------------------------------------------------------------------------------------------------

    def build_all(self) -> None:
        """Every step, each once; problems are collected."""
        for name in self.raw:
            try:
                self.step(name)
            except (Fault, Poisoned, Pruned):
                continue

    def step(self, name: str) -> Found:
        """A step's relation, built when first asked for. Raises Fault for a cycle, Poisoned or
        Pruned.
        """
        if name in self._open:
            ring = " → ".join([*self._open[self._open.index(name) :], name])
            raise Fault(f"steps read each other: {ring}")
        if name not in self.built:
            self._open.append(name)
            with self.naming(name):
                self.built[name] = self._build(name)
            self._open.pop()
        found = self.built[name]
        if isinstance(found, (Poisoned, Pruned)):
            raise found
        return found

    def _build(self, name: str) -> Found | Poisoned | Pruned:
        path: Trail = ("steps", name)
        done: list[Found | Pruned] = []

        def form() -> None:
            try:
                done.append(self._form(self.raw[name], path))
            except Despite as fault:
                done.append(fault.node)
                raise

        self.attempt(form, *path, step=self.prefix + name)
        return done[0] if done else Poisoned()

    def _form(self, value: Any, path: Trail) -> Found | Pruned:
        if isinstance(value, Mapping):
            for fault in known_keys(value, ("when", "do"), "a step as a mapping"):
                raise fault
            if "do" not in value:
                raise Fault('a step with when needs "do"', hint="write {when: $flag, do: [...]}")
            if "when" in value and not self.holds(value["when"]):
                return Pruned((str(path[-1]), told(value["when"], self.params)))
            value, path = value["do"], (*path, "do")
        if not isinstance(value, list):
            hint = (
                f"write [{{from: {value}}}]"
                if isinstance(value, str)
                else "a dash and an operator on each line"
            )
            raise wrong("a list of operators", value, hint)
        return self.pipeline(self.expansion.expand(value, path), path)

    @contextmanager
    def naming(self, step: str) -> Iterator[None]:
        """Nodes built inside belong to this step."""
        outer, self._step = self._step, self.prefix + step
        try:
            yield
        finally:
            self._step = outer

    def holds(self, condition: Any) -> bool:
        """Whether a `when` holds. Raises Fault, at `when`."""
        try:
            return holds(condition, self.params)
        except Fault as fault:
            raise fault.under("when") from None

    def attempt(
        self, action: Callable[[], None], *path: str | int, step: str | None = None
    ) -> bool:
        """Do something; put what is wrong with it among the problems. True if nothing was."""
        try:
            action()
        except Fault as fault:
            self.problems += [self.document.problem(part, *path, step=step) for part in each(fault)]
        except PlanError as error:
            self.problems += [problem for problem in error.problems if problem not in self.problems]
        except Poisoned:
            pass
        except Pruned as pruned:
            self.problems.append(self.document.problem(pruned.fault, *path, step=step))
        else:
            return True
        return False

    # -- a list of operators
    # ----------------------------------------------------------------------------------------

    def pipeline(self, items: list[Any], path: Trail) -> Found:
        """A source and the operators on it. Raises Fault, with the path below the list."""
        if not items:
            raise Fault("a step needs a source", there="sources: " + ", ".join(SOURCE_WORDS))
        found: Found | None = None
        faults: list[Fault] = []
        for i, item in enumerate(items):
            try:
                found = self._next(item, found, path, i)
            except Despite as fault:
                faults += fault.under(i).faults
                found = fault.node
            except Fault as fault:
                raise Faults([*faults, fault.under(i)]) from None
            except (Poisoned, Pruned):
                if faults:
                    raise Faults(faults) from None
                raise
        assert found is not None
        if faults:
            raise Despite(faults, found) if isinstance(found, Node) else Faults(faults)
        return found

    def _next(self, item: Any, found: Found | None, path: Trail, i: int) -> Found:
        keyword, value = operator_on(item, first=i == 0)
        try:
            return self.operator(
                keyword, value, found, self.document.position(*path, i, keyword, key=True)
            )
        except Fault as fault:
            raise fault.under(keyword) from None

    def operator(self, keyword: str, value: Any, found: Found | None, origin: Position) -> Found:
        """One operator on what stands above it."""
        self.count(origin, 0 if keyword == "call" else _brought(value, self.params))
        if keyword == "from":
            return self.scan(value, origin) if isinstance(value, Mapping) else self.find(value)
        if keyword == "call":
            return self.call(self, value, self._step, origin)
        if keyword == "switch":
            return self.switch(value)
        if keyword == "union":
            return build(_UNION, value, self, step=self._step, origin=origin)
        if isinstance(found, Results):
            if len(found.tables) != 1:
                names = ", ".join(f"{found.name}.{t}" for t in found.tables) or "none"
                raise Fault(
                    f"{found.name} has several results",
                    there=f"results: {names}",
                    hint="go on in a step of its own",
                )
            found = next(iter(found.tables.values()))
        try:
            cls, step = OPERATOR_WORDS[keyword], self._step
            return build_despite(
                cls, value, self, self.lost, source=found, step=step, origin=origin
            )
        except Faults as faults:
            raise faults.mapped(self.prompts.located) from None

    def switch(self, value: Any) -> Found:
        """The form of a step that a parameter picks."""
        if not isinstance(value, Mapping) or "on" not in value:
            raise Fault(
                "switch needs on and a form for each value",
                hint="write {on: $param, VALUE: [...], VALUE: [...]}",
            )
        picked = word(value["on"])
        forms = {key: form for key, form in value.items() if key != "on"}
        if picked not in forms:
            there = "forms: " + (", ".join(forms) or "none")
            raise Fault(
                f'switch has no form for "{picked}"',
                "on",
                there=there,
                hint=did_you_mean(picked, forms),
            )
        try:
            return self.find(forms[picked])
        except Fault as fault:
            raise fault.under(picked) from None


def _brought(value: Any, params: Mapping[str, Any]) -> int:
    """How many items lists of parameters bring into the expressions of an operator, without
    operators inside it.
    """
    if isinstance(value, Mapping):
        return sum(_brought(each, params) for each in value.values())
    if isinstance(value, list):
        return sum(_brought(each, params) for each in value if not isinstance(each, Mapping))
    names = _PARAMETER.findall(value) if isinstance(value, str) and "$" in value else ()
    return sum(len(params[name]) for name in names if isinstance(params.get(name), list))


def word(value: Any) -> str:
    """A parameter's value as the key of a `switch`.

    >>> [word(v) for v in (True, None, 3, "rrf")]
    ['true', 'null', '3', 'rrf']
    """
    if isinstance(value, (Mapping, list)):
        raise wrong("a text, a number, true, false or null", value).under("on")
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return str(value)


MOST_CALLS = 50  # of plans in plans
MOST_BROUGHT = 100_000  # items: about four thousand a second are loaded
MOST_OPERATORS = (
    1_000  # of a plan and those that it calls: some seconds to load, and as many to run
)
NO_GRAPH = Graph("", "uuid", "group_id", {})
Calling = Callable[..., Results]


@dataclass
class Loading:
    """What one load and the plans it calls share.

    Args:
        call: Builds a called plan.
        folders: Where plans are looked for first.
        problems: Everything found wrong so far.
        open: The plans being read, outermost first.
        graphs: Graph files read so far; None for one with problems.
        operators: How many operators have been built.
        brought: How many items the lists of parameters have in their expressions.
    """

    call: Calling
    folders: tuple[Path, ...] = ()
    problems: list[Problem] = field(default_factory=list)
    open: tuple[Path, ...] = ()
    graphs: dict[Path, Graph | None] = field(default_factory=dict)
    operators: int = 0
    brought: int = 0
    _too_many: Problem | None = None

    def count(self, origin: Position, brought: int = 0) -> None:
        """Count an operator, and the items that lists of parameters bring into it.

        Raises PlanError for one too many, and then each time with the place of the first.
        """
        self.operators += 1
        self.brought += brought
        if self._too_many is None and self.operators > MOST_OPERATORS:
            what = f"a plan has at most {MOST_OPERATORS:,} operators, with those of the plans that it calls"
            hint = "split it into several plans, each with a run of its own"
            self._too_many = Problem(what, position=origin, hint=hint)
        elif self._too_many is None and self.brought > MOST_BROUGHT:
            what = f"parameters bring lists of more than {MOST_BROUGHT:,} items into the expressions of a plan"
            self._too_many = Problem(
                what,
                position=origin,
                hint="each use counts; give many values as an input and join it",
            )
        if self._too_many is not None:
            raise PlanError(self._too_many)


@dataclass
class Reading:
    """One plan while it is read, part after part: the parts that fail leave problems, and the rest
    goes on.

    Args:
        loading: What the load shares.
        document: The plan as plain data with places.
        folder: Where its graph file, its prompts and the plans it calls are.
        prefix: Put before the names of its steps: the calling step's name and "/".
        confined: Whether the files that it names must be in its folder; not where Python code names
            them.
    """

    loading: Loading
    document: Document
    folder: Path
    prefix: str = ""
    confined: bool = True
    data: dict[str, Any] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)
    use: dict[str, tuple[Any, Trail]] = field(default_factory=dict)
    graph: Graph = NO_GRAPH
    graph_broken: bool = False
    inputs: dict[str, InputSpec] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    order: Order | None = None
    writes: list[Sink] = field(default_factory=list)
    schema: SchemaWrite | None = None
    returns: dict[str, Node] = field(default_factory=dict)
    choices: dict[str, Choice] = field(default_factory=dict)
    called: list[Reading] = field(default_factory=list)
    steps: Steps = field(init=False)

    def __post_init__(self) -> None:
        if isinstance(self.document.data, Mapping):
            self.data = dict(self.document.data)
        self.name_things({}, {})

    def name_things(self, inputs: Mapping[str, Node], raw: Mapping[str, Any]) -> None:
        """Settle what names mean from here on: the graph read so far, these inputs, these steps as
        plain data.
        """
        self.steps = Steps(
            document=self.document,
            params=self.params,
            known_graph=None if self.graph_broken else self.graph,
            inputs=inputs,
            raw=raw,
            prompts=Prompts(self.folder, self.params, self.confined),
            expansion=Expansion(self.params),
            call=partial(self.loading.call, self),
            count=self.loading.count,
            problems=self.loading.problems,
            prefix=self.prefix,
            broken=frozenset(self.broken),
        )

    def attempt(self, action: Callable[[], Any], *path: str | int, step: str | None = None) -> bool:
        """Do something; put what is wrong with it among the problems, at its place below `path`."""
        return self.steps.attempt(action, *path, step=step)

    def attempt_option(self, option: str, action: Callable[[], Any]) -> None:
        """Do something with what was given beside the plan, as an option of a run; what is wrong
        has no place in a file.
        """
        try:
            action()
        except Fault as fault:
            told = (
                Problem(f"{option}: {part.what}", there=part.there, hint=part.hint)
                for part in each(fault)
            )
            self.loading.problems.extend(told)

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


def at(key: str, read: Callable[..., Any], *args: Any) -> Any:
    """Read something; its faults are at `key`."""
    try:
        return read(*args)
    except Fault as fault:
        raise fault.under(key) from None
