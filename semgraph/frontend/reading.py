"""A plan while it is read, and what one load and the plans it calls share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from semgraph.errors import Fault, PlanError, Position, Problem
from semgraph.frontend.document import Document, Trail
from semgraph.frontend.expansion import Expansion
from semgraph.frontend.faults import each
from semgraph.frontend.found import Results
from semgraph.frontend.prompts import Prompts
from semgraph.frontend.steps import Steps
from semgraph.logical.node import Node
from semgraph.logical.plan import Choice, InputSpec, Order, SchemaWrite
from semgraph.logical.schema import Graph
from semgraph.logical.sinks import Sink

MOST_CALLS = 50  # of plans in plans
MOST_BROUGHT = 100_000  # items: about four thousand a second are loaded
MOST_OPERATORS = 1_000  # of a plan and those that it calls: some seconds to load, and as many to run
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
                what, position=origin, hint="each use counts; give many values as an input and join it"
            )
        if self._too_many is not None:
            raise PlanError(self._too_many)


@dataclass
class Reading:
    """One plan while it is read, part after part: the parts that fail leave problems, and the rest goes on.

    Args:
        loading: What the load shares.
        document: The plan as plain data with places.
        folder: Where its graph file, its prompts and the plans it calls are.
        prefix: Put before the names of its steps: the calling step's name and "/".
        confined: Whether the files that it names must be in its folder; not where Python code names them.
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
        """Settle what names mean from here on: the graph read so far, these inputs, these steps as plain data."""
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
        """Do something with what was given beside the plan, as an option of a run; what is wrong has no place in a file."""
        try:
            action()
        except Fault as fault:
            told = (Problem(f"{option}: {part.what}", there=part.there, hint=part.hint) for part in each(fault))
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
