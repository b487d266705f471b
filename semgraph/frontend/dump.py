"""Plans as text: the recorded calls of the fluent API as a plan document, and documents as YAML."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

from semgraph.errors import EngineError, Fault, PlanError, Problem, each
from semgraph.frontend.document import walk_paths
from semgraph.frontend.functions import Functions
from semgraph.frontend.prompt_files import Prompts
from semgraph.logical.graph import Scan
from semgraph.logical.node import Node
from semgraph.logical.plan import InputSpec
from semgraph.logical.prompt import PromptSet
from semgraph.logical.schema import Graph


@dataclass(frozen=True)
class World:
    """The environment of a fluent plan: its graph, and the folder of its prompts and called plans.
    A `Scope` for `build`, in which relations are objects.
    """

    graph: Graph  # without labels if there is none
    graph_file: Path | None  # None if the graph is an object
    folder: Path
    functions: Functions = field(default_factory=Functions)
    params: Mapping[str, Any] = field(default_factory=dict, init=False)

    def relation(self, value: Any) -> Node:
        """The node of a relation, or of a label. Raises Fault."""
        if isinstance(value, Made):
            return value.node
        if isinstance(value, str) and value in self.graph.labels:
            return Scan(graph=self.graph, label=value)
        found = repr(value) if isinstance(value, str) else type(value).__name__
        raise Fault(f"expected a frame, found {found}", hint="write semgraph.table(rows, name=...)")

    def is_relation(self, name: str) -> bool:
        """False: relations have no names here."""
        del name
        return False

    def check_free(self, name: str) -> None:
        """Accept any name."""

    def body(self, value: Any, name: str, source: Node) -> tuple[Node, int]:
        """The node of a body, and the number of loops around its own."""
        del name, source
        return self.relation(value), LOOPS.get()

    def prompt(self, value: Any, answers: Any, examples: Any) -> PromptSet:
        """The prompts that a value names. Raises Fault or PlanError."""
        return Prompts(self.folder, {}, confined=False).read(value, answers, examples)


@dataclass(frozen=True, eq=False)
class Made:
    """The record of a relation: an operator over another relation, or a source. Compared by
    identity. Only an input has `table`, `spec` and `windows`.
    """

    keyword: str  # "" for an input
    arguments: Any  # plain data, with relations as `Made`
    node: Node
    parent: Made | None = None  # the relation that the operator reads
    name: str = ""  # of its step, if the user gave one
    table: pa.Table | None = None
    spec: InputSpec | None = None
    windows: Mapping[str, Any] = field(default_factory=dict)  # as in a plan, without `input`

    @property
    def refers(self) -> bool:
        """Whether it only names a relation: a label, or a result of a call."""
        bare = self.keyword == "from" and isinstance(self.arguments, str)
        return not self.name and (bare or self.keyword == "result")

    @property
    def reads(self) -> tuple[Made, ...]:
        """The relations it is made from, its parent first."""
        parts = (self.parent, *(value for _, value in walk_paths(self.arguments)))
        return tuple(part for part in parts if isinstance(part, Made))


ROUND = "round"
LOOPS: ContextVar[int] = ContextVar("loops", default=0)  # the loops around the current body


def together(worlds: Sequence[World]) -> World:
    """The common environment of combined relations. Raises PlanError if they have none."""
    combined = next((world for world in worlds if world.graph.labels), worlds[0])
    if any(world.graph.labels and world.graph != combined.graph for world in worlds):
        hint = "give both tables the same graph"
        raise PlanError("frames of two graphs cannot be combined", hint=hint)
    folders = [world.folder for world in worlds if world.graph.labels or world.folder != Path()]
    if len(places := {folder.resolve() for folder in folders}) > 1:
        there = ", ".join(sorted(map(str, places)))
        hint = "give both the same folder"
        raise PlanError("frames of two folders cannot be combined", there=there, hint=hint)
    functions = {world.functions for world in worlds if world.functions.folders}
    if len(functions) > 1:
        hint = "give the tables the same functions"
        raise PlanError("frames with other functions cannot be combined", hint=hint)
    folder = next((folder for folder in folders if folder != Path()), combined.folder)
    return replace(combined, folder=folder, functions=next(iter(functions), worlds[0].functions))


def joined(world: World, value: Any) -> tuple[World, Any]:
    """A call's arguments with frames replaced by their records, and their common environment."""
    worlds = [world]

    def plain(inner: Any) -> Any:
        if hasattr(inner, "made"):
            worlds.append(inner.world)
            return inner.made
        if isinstance(inner, Mapping):
            return {key: plain(item) for key, item in inner.items()}
        return [plain(item) for item in inner] if isinstance(inner, (list, tuple)) else inner

    arguments = plain(value)
    return together(worlds), arguments


@contextmanager
def errors_of(*place: str) -> Iterator[None]:
    """Raise the faults of a call as a PlanError that names the operator, and the argument."""
    try:
        yield
    except Fault as fault:
        problems = []
        for part in each(fault):
            where = ", ".join([*place, *map(str, part.path)])
            problems.append(Problem(f"{where}: {part.what}", there=part.there, hint=part.hint))
        raise PlanError(*problems) from None


class RecordedSteps:
    """Recorded relations as the steps of a plan: which become steps, their names, their order."""

    def __init__(self, roots: Sequence[Made], labels: Mapping[str, Any]) -> None:
        made = list(walk_made(roots))
        self.inputs: dict[str, Made] = {}
        for m in made:
            if m.spec is not None and self.inputs.setdefault(m.spec.name, m) is not m:
                what = f'two tables are named "{m.spec.name}"'
                raise PlanError(what, hint="write table(rows, name=...)")
        self._rests: set[Made] = set()  # relations that depend on the last round of a loop
        for m in made:
            called = m.keyword in {"call", "result"} and not self._rests.isdisjoint(m.reads)
            if called or m.node.rounds:
                self._rests.add(m)
        uses = Counter(read for m in made for read in m.reads)
        chained = {m.parent for m in made if m.parent is not None} - set(roots)
        inlined = self._rests | {
            m for m in made if not m.name and m.keyword != "call" and uses[m] == 1 and m in chained
        }
        steps = [m for m in made if m.spec is None and not m.refers and m not in inlined]
        rounds = [m for m in made if m.keyword == ROUND]
        self.names = _names(steps, rounds, {*self.inputs, *labels})
        self.steps = {self.names[m]: self._items(m) for m in steps}

    def reference(self, made: Made) -> Any:
        """How a plan refers to a relation: by its name or, inside a loop, by its operators."""
        if made in self._rests and made.keyword != ROUND:
            return self._items(made)
        return self.names[made] if made in self.names else self._source(made)

    def _source(self, made: Made) -> str:
        """The name of a relation that is an input, a label or a result of a call."""
        if made.spec is not None:
            return made.spec.name
        table = str(made.arguments)
        return f"{self.names[made.parent]}.{table}" if made.keyword == "result" else table

    def _items(self, made: Made) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        at: Made | None = made
        while at is not None:
            if (at is not made or at.keyword == ROUND) and at in self.names:
                items.append({"from": self.names[at]})
                break
            if at.keyword == "result" and at in self._rests and at.parent is not None:
                items.append({"call": self.plain(at.parent.arguments)})
                break
            if at.spec is not None or at.keyword == "result" or at.refers:
                items.append({"from": self._source(at)})
                break
            arguments = at.arguments
            if at.keyword == "iterate":  # a list of operators, even if it is the round as it is
                arguments = {**arguments, "do": self._items(arguments["do"])}
            items.append({at.keyword: self.plain(arguments)})
            at = at.parent
        return items[::-1]

    def plain(self, value: Any) -> Any:
        """Arguments in the notation of plan files, with relations by name."""
        if isinstance(value, Made):
            return self.reference(value)
        if isinstance(value, Mapping):
            return {str(key): self.plain(inner) for key, inner in value.items()}
        return [self.plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _names(
    steps: Sequence[Made], rounds: Sequence[Made], taken: set[str]
) -> dict[Made | None, str]:
    """The names of steps and of rounds. A step has the user's name, or else a number; a round has
    the name of its function's argument.
    """
    for made in steps:
        if made.name in taken:
            what = f'two relations are named "{made.name}"'
            raise PlanError(what, hint="give each step its own name")
        taken |= {made.name} if made.name else set()
    free = (name for n in count(1) if (name := f"step{n}") not in taken)
    names: dict[Made | None, str] = {made: made.name or next(free) for made in steps}
    taken |= set(names.values())
    for made in rounds:
        name = str(made.arguments)
        while name in taken:
            name += "_"
        taken.add(name)
        names[made] = name
    return names


def walk_made(roots: Iterable[Made], seen: set[Made] | None = None) -> Iterator[Made]:
    """Every relation below the roots once, in topological order: inputs first."""
    seen = set() if seen is None else seen
    for made in roots:
        if made not in seen:
            seen.add(made)
            yield from walk_made(made.reads, seen)
            yield made


_LINE = 120
# levels in block style
_BLOCK = {"inputs": 1, "presets": 1, "steps": 3, "writes": 2, "example": 4, "nodes": 2, "edges": 2}
_PLAIN = re.compile(r"[A-Za-z_$(](?:[A-Za-z0-9_$().<>=+*/|-]| (?=[^ ]))*\Z")
_WORDS = {"true", "false", "null"}
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def write_yaml(data: Mapping[str, Any]) -> str:
    """Plain data as YAML; reading it gives equal data.

    >>> print(
    ...     write_yaml({"plan": "x", "steps": {"a": [{"from": "t"}, {"filter": "n > 1"}]}}), end=""
    ... )
    plan: x
    steps:
      a:
        - from: t
        - filter: n > 1
    """
    return "".join(
        f"{line}\n"
        for key, value in data.items()
        for line in _entry(key, value, 0, _BLOCK.get(key, 0))
    )


def _entry(key: str, value: Any, indent: int, block: int) -> Iterator[str]:
    """The lines of `key: value`; `block` levels below it are in block style."""
    start = f"{' ' * indent}{_text(key)}:"
    if block and value and isinstance(value, (Mapping, list, tuple)):
        yield start
        yield from _block(value, indent + 2, block)
    else:
        yield from _filled(start, value, indent)


def _block(value: Any, indent: int, block: int) -> Iterator[str]:
    if isinstance(value, Mapping):
        inner = block if "do" in value else block - 1
        for key, item in value.items():
            yield from _entry(key, item, indent, inner)
        return
    for item in value:
        if isinstance(item, Mapping) and len(item) == 1 and block > 1:
            ((key, argument),) = item.items()
            yield from _filled(f"{' ' * indent}- {_text(key)}:", argument, indent + 2)
        else:
            yield from _filled(f"{' ' * indent}-", item, indent)


def _filled(start: str, value: Any, indent: int) -> Iterator[str]:
    """A value in flow style after `start`, on several lines if one would be too long."""
    line = f"{start} {_flow(value)}"
    if len(line) <= _LINE or not value or not isinstance(value, (Mapping, list, tuple)):
        yield line.rstrip() if value is None else line
        return
    first, last = "{}" if isinstance(value, Mapping) else "[]"
    line = f"{start} {first}"
    parts = list(_parts(value))
    for i, part in enumerate(parts):
        piece = part + (last if i == len(parts) - 1 else ",")
        if len(line) + len(piece) > _LINE and line.strip():
            yield line.rstrip()
            line = " " * (indent + 4)
        line += piece + " "
    yield line.rstrip()


def _parts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield _text(key) if item is None else f"{_text(key)}: {_flow(item)}"
    else:
        for item in value:
            yield "null" if item is None else _flow(item)


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(_parts(value)) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_parts(value)) + "]"
    if isinstance(value, str):
        return _text(value)
    if value is None or isinstance(value, bool):
        return "" if value is None else str(value).lower()
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    if isinstance(value, (int, float)):
        return repr(value)
    raise EngineError(f"{type(value).__name__} has no place in a plan")


def _text(text: str) -> str:
    if _PLAIN.match(text) and text.lower() not in _WORDS:
        return text
    return _UNPRINTABLE.sub(
        lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False)
    )
