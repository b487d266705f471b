"""A logical plan: named relations over typed inputs, the sinks that write, and the windowing of
inputs. Omitted inputs can stand for all partitions of the store.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import pyarrow as pa

from semgraph.errors import Fault, PlanError, Position, Problem, did_you_mean, nearly
from semgraph.expr.canonical import canonical
from semgraph.expr.functions import canonical_json
from semgraph.expr.own_functions import own_calls
from semgraph.expr.scalar import parse_scalar
from semgraph.expr.types import Type
from semgraph.logical.graph import Scan
from semgraph.logical.node import Node, column_scalar, rewrite, scalars_of, walk
from semgraph.logical.relational import Distinct, Input, Project, Union
from semgraph.logical.schema import Graph
from semgraph.logical.search import Search
from semgraph.logical.semantic import Semantic
from semgraph.logical.sinks import Merge, Sink

POSITION = "position"
TURN = "turn"
TUNED = "tuned"  # the preset that is the choice of `semgraph tune`
ALL = "all"  # the value of an optional input that stands for all partitions of the store


@dataclass(frozen=True)
class InputSpec:
    """A declared input: typed columns. Nullable columns may be missing; a NULL key of `windows` is
    generated.

    An omitted optional input is empty or, with `or_all`, has all partitions of the store.
    """

    name: str
    columns: tuple[tuple[str, Type], ...]
    optional: bool = False
    or_all: bool = False

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns as Arrow."""
        return pa.schema([pa.field(name, kind.arrow) for name, kind in self.columns])


@dataclass(frozen=True)
class Windowing:
    """The windowing of one input: its rows are cut into windows, which run sequentially in a
    partition. `key`, `partition` and the others name columns of the input.

    The engine adds two columns to the input: `position`, and `turn`, the row's ordinal in its
    partition. The position breaks the ties of `order`.
    """

    tag: ClassVar[str] = "Order"
    input: str
    partition: str  # NULL becomes "" if the column is nullable
    order: tuple[str, ...] = field(metadata={"tag": "by"})
    key: str = ""  # a NULL key is generated from `key_of` and the ordinal among equal rows
    key_of: tuple[str, ...] = ()
    # rows in a window; None: all; `ready`: all rows of a partition that are computed ahead when the
    # previous window commits, at most `ahead`
    size: int | Literal["ready"] | None = field(default=1, metadata={"tag": "window"})
    ahead: int = 64  # windows that may be computed ahead of the last commit
    on_error: Literal["set_aside", "stop"] = "set_aside"  # stop: a failed row ends its partition

    @property
    def by_readiness(self) -> bool:
        """Whether windows are formed while the plan runs."""
        return self.size == "ready"

    def window_size(self, rows: int) -> int:
        """The size of the windows of a partition with so many rows, before the run."""
        return 1 if self.size == "ready" else self.size or rows


@dataclass(frozen=True)
class SchemaWrite:
    """A write of the schema: what the store lacks of the graph is created before the run."""

    tag: ClassVar[str] = "SchemaWrite"
    drop: bool = False  # whether to first drop the indexes with names of the graph


@dataclass(frozen=True)
class Choice:
    """The implementation of a step: its name, its parameters, sorted, and the model that it calls:
    `block(left=10) @ small`.
    """

    tag: ClassVar[str] = "Choice"
    name: str  # "": the choice is only a model, `@ small`
    params: tuple[tuple[str, Any], ...] = ()
    # a role, or PROVIDER:NAME, which outranks the role of the prompt
    model: str = field(default="", metadata={"added": True})

    @classmethod
    def parse(cls, value: object) -> Choice:
        """Read a choice in the notation of plans and options: `block`, `block(left=10)`,
        `{block: {left: 10}}`, each also with a model, `block @ small`. Raises Fault.

        A name may also be the path of a file, `my_ops/sem_join/sorted.py(rows=12)`. Values are
        JSON, text in single quotes, or bare words. A model is a role or PROVIDER:NAME: files that
        are passed on must not say where requests go.

        >>> Choice.parse("block(right=null, left=10) @ small")
        Choice(name='block', params=(('left', 10), ('right', None)), model='small')
        """
        if isinstance(value, Mapping):
            return _choice_of_mapping(value)
        written, model = _without_model(value) if isinstance(value, str) else ("", "")
        if model and not written:
            return cls("", (), model)
        match = _CHOICE.match(written)
        if match is None:
            shown = value if isinstance(value, str) else canonical_json(value)
            msg = f'invalid implementation "{shown}"'
            raise Fault(msg, hint=_unclosed(shown) or "write block, or block(left=10, right=5)")
        pairs = [part for part in _PART.findall(match["params"] or "") if part.strip()]
        return cls(match["name"], _checked([_assignment(part) for part in pairs]), model)

    def __str__(self) -> str:
        inner = ", ".join(f"{name}={_literal(value)}" for name, value in self.params)
        how = f"{self.name}({inner})" if self.params else self.name
        return f"{how} @ {self.model}".lstrip() if self.model else how

    def over(self, other: Choice | None) -> Choice:
        """This choice, with the implementation or the model of another one where it has none."""
        if other is None:
            return self
        return replace(self if self.name else other, model=self.model or other.model)


def _without_model(text: str) -> tuple[str, str]:
    """A choice without its model, and the model. Raises Fault."""
    found = _AT.search(text)
    if found is None:
        return text, ""
    model = found["model"]
    if not is_portable_model(model):
        what = f'a choice names a model by its role or as PROVIDER:NAME, not "{model}"'
        hint = "bind a role to that model, under [models] in semgraph.toml, and write the role"
        raise Fault(what, hint=hint)
    return text[: found.start()].strip(), model


_AT = re.compile(r"(?:\A|\s)@\s*(?P<model>[^\s'\")]+)\s*\Z")
_MODEL = re.compile(r"[A-Za-z_]\w*(?:/\w+)*|[A-Za-z][\w-]*:[^@?]+")
_CHOICE = re.compile(r"\s*(?P<name>[^\s(){}\[\]=,]+)\s*(?:\((?P<params>.*)\))?\s*\Z", re.DOTALL)
_PART = re.compile(  # up to a comma outside quotes
    r"""(?:[^",=]|"(?:[^"\\]|\\.)*"|"|=\s*'[^']*'|=)+"""
)
_WORD = re.compile(r"(?!(?:true|false|null)\Z)[A-Za-z_][\w./-]*\Z")  # text that needs no quotes


def is_portable_model(text: str) -> bool:
    """Whether a text names a model by its role or as PROVIDER:NAME, without address and options."""
    return _MODEL.fullmatch(text) is not None


def _unclosed(written: str) -> str:
    """A hint for a choice without its closing bracket; "" if it is closed."""
    closed = f"{written.rstrip(' ,')})"
    if written.count("(") != 1 or ")" in written or not _CHOICE.match(closed):
        return ""
    return (
        f'a ")" is missing: {closed}. In YAML, a comma inside {{ }} or [ ] ends a value: '
        'quote it, "block(left=10, right=5)"'
    )


def _assignment(part: str) -> tuple[str, Any]:
    name, equals, text = (piece.strip() for piece in part.partition("="))
    if not equals or not name.isidentifier() or not text:
        msg = f'invalid parameter "{part.strip()}"'
        raise Fault(msg, hint="parameters have names: block(left=10)")
    if len(text) > 1 and text[0] == text[-1] == "'":
        return name, text[1:-1]
    try:
        return name, json.loads(text)
    except json.JSONDecodeError:
        return name, text


def _literal(value: Any) -> str:
    return value if isinstance(value, str) and _WORD.match(value) else canonical_json(value)


def _checked(pairs: list[tuple[str, Any]]) -> tuple[tuple[str, Any], ...]:
    twice = [name for i, (name, _) in enumerate(pairs) if name in {n for n, _ in pairs[:i]}]
    if twice:
        msg = f'parameter "{twice[0]}" is set twice'
        raise Fault(msg)
    for name, value in pairs:
        if not isinstance(value, str | int | float | bool | None):
            kind = type(value).__name__
            msg = f'parameter "{name}" must be text, a number, true, false or null, not {kind}'
            raise Fault(msg)
    return tuple(sorted(pairs))


def _choice_of_mapping(value: Mapping[Any, Any]) -> Choice:
    if len(value) != 1:
        msg = f"a step has one implementation, not {len(value)}"
        raise Fault(msg, hint="write {block: {left: 10}}")
    (name, params), *_ = value.items()
    if not isinstance(name, str) or not isinstance(params, Mapping | None):
        msg = f'the parameters of "{name}" must be a mapping'
        raise Fault(msg, hint="write {block: {left: 10}}")
    name, model = _without_model(name)
    if params and not name:
        raise Fault(
            f'"@ {model}" is no implementation with parameters', hint="name it: block @ small"
        )
    return Choice(name, _checked([(str(k), v) for k, v in (params or {}).items()]), model)


def _chosen(step: str, value: object) -> Choice:
    try:
        return Choice.parse(value)
    except Fault as fault:
        raise PlanError(Problem(fault.what, step, there=fault.there, hint=fault.hint)) from None


def choices_over(use: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """Choices by step, after others; see `Choice.over`. Raises PlanError."""
    both = {
        step: str(_chosen(step, use[step]).over(_chosen(step, others[step])))
        for step in use.keys() & others.keys()
    }
    before = {step: value for step, value in others.items() if step not in use}
    return before | {step: both.get(step, value) for step, value in use.items()}


def models_of(use: Mapping[str, Any]) -> dict[str, str]:
    """The choices as models alone, `@ small`, of those that name one. Raises PlanError."""
    models = ((step, _chosen(step, value).model) for step, value in use.items())
    return {step: f"@ {model}" for step, model in models if model}


def match_steps(pattern: str, steps: Iterable[str]) -> list[str]:
    """The steps that a name in `use` refers to: the step itself, otherwise every step of that name
    inside calls.

    >>> match_steps("told", ["told_first", "named/told", "strays/told"])
    ['named/told', 'strays/told']
    """
    listed = list(steps)
    if pattern in listed:
        return [pattern]
    return [step for step in listed if step.endswith(f"/{pattern}")]


@dataclass(frozen=True)
class PlanCall:
    """A call: the plan that the step names, the one in its place, its relations, and its data."""

    plan: str
    by: Choice | None = None
    inputs: Mapping[str, Node] = field(default_factory=dict, compare=False, repr=False)
    results: Mapping[str, Node] = field(default_factory=dict, compare=False, repr=False)
    document: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def over(self, changed: Mapping[Node, Node]) -> PlanCall:
        """The call with its relations replaced as in `changed`."""
        inputs, results = (
            {name: changed[node] for name, node in relations.items()}
            for relations in (self.inputs, self.results)
        )
        return replace(self, inputs=inputs, results=results)


@dataclass(frozen=True)
class PlanNeeds:
    """The external resources of a plan: models by role, an embedder, a store."""

    roles: tuple[str, ...]
    embeds: bool
    stores: bool


@dataclass(frozen=True, eq=False)
class LogicalPlan:
    """A checked plan. `document` is the plan as plain data, which `to_yaml` writes; all other
    fields are built from it.

    `called` holds the calls by step; `load` reloads the plan with more entries of `use`. A plan
    with `warnings` can run. `preset` is the chosen one of its presets. `without` are the rules of
    the optimizer that do not act on it, `order` the steps of adjacent filters as they are asked,
    `prompts` the user's files in the place of prompts, by name, `asked` the choices of the call that
    prepared it, which outrank those of a session. Plans are compared by identity, as nodes are, so
    that derived values can be cached by plan.
    """

    name: str
    graph: Graph
    inputs: Mapping[str, InputSpec]
    steps: Mapping[str, Node]
    writes: tuple[Sink, ...] = ()
    schema_write: SchemaWrite | None = None
    returns: Mapping[str, Node] = field(default_factory=dict)
    windows: Windowing | None = None
    preset: str | None = field(default=None, compare=False)
    params: Mapping[str, Any] = field(default_factory=dict)
    use: Mapping[str, Choice] = field(default_factory=dict)
    called: Mapping[str, PlanCall] = field(default_factory=dict, compare=False)
    allow: tuple[str, ...] = ()
    without: tuple[str, ...] = field(default=(), compare=False)
    order: tuple[str, ...] = field(default=(), compare=False)
    prompts: Mapping[str, str] = field(default_factory=dict, compare=False)
    asked: Mapping[str, Any] = field(default_factory=dict, compare=False)
    doc: str = ""
    document: Mapping[str, Any] = field(default_factory=dict, compare=False)
    file: str = field(default="", compare=False)
    warnings: tuple[Problem, ...] = field(default=(), compare=False)
    load: Callable[[Mapping[str, Any]], LogicalPlan] | None = field(default=None, compare=False)

    def using(self, use: Mapping[str, Any]) -> LogicalPlan:
        """The plan with other implementations of steps and other called plans. Raises PlanError."""
        calls = {pattern for pattern in use if match_steps(pattern, self.called)}
        if calls and self.load is not None:
            return self.load(use)
        steps, load = self.swappable if use else (), self.load
        parsed = {
            step: _chosen(step, value).over(self.choice(step))
            for pattern, value in use.items()
            for step in match_steps(pattern, steps) or [pattern]
        }

        def reload(more: Mapping[str, Any]) -> LogicalPlan:  # with these choices, too
            assert load is not None
            return load(more).using({step: use[step] for step in use if step not in more})

        use_ = {**self.use, **parsed}
        return replace(self, use=use_, load=load and reload) if parsed else self

    @property
    def swappable(self) -> list[str]:
        """The steps that have implementations."""
        nodes = walk(*self.roots, *self.steps.values())
        return list(dict.fromkeys(node.step for node in nodes if node.swappable))

    def require_steps(self, use: Collection[str]) -> None:
        """Refuse choices for steps that it lacks. Raises PlanError with all of them."""
        names = [*self.swappable, *self.called]
        what, there = f"plan {self.name} has no step", ", ".join(names) or "none"
        unknown = [step for step in use if not match_steps(step, names)]
        if unknown and not any(match_steps(step, self.called) for step in use):  # of other plans
            raise PlanError(*(
                Problem(
                    f'{what} "{step}" that calls the model or a plan', there=f"steps that do: {there}",
                    hint=did_you_mean(step, names),
                )
                for step in unknown
            ))  # fmt: skip

    @property
    def asking(self) -> list[str]:
        """The steps that call a model."""
        semantic = (node for node in walk(*self.roots) if isinstance(node, Semantic))
        return list(dict.fromkeys(node.step for node in semantic))

    def by_models(
        self, names: Iterable[str], known: Collection[str] = (), *, required: bool = False
    ) -> LogicalPlan:
        """The plan with each step that bears one of these names, and no role has, answered by the
        model of that name. It may lack the roles `known`. Raises PlanError if another name is a
        misspelt role or step, or, if `required`, neither.
        """
        roles, steps, use = self.needs.roles, self.asking, dict[str, str]()
        there = [*roles, *steps, *(step.rpartition("/")[2] for step in steps)]
        for name in sorted({*names} - {*roles}, key=lambda name: name.count("/")):
            matches = match_steps(name, steps)
            if not (matches or name in known) and (
                required or any(nearly(name, each) for each in there)
            ):
                what = f'plan {self.name} has no role and no step "{name}" to give a model to'
                listed = f"roles: {', '.join(roles)}; steps that call a model: {', '.join(steps)}"
                raise PlanError(what, there=listed, hint=did_you_mean(name, there))
            use |= dict.fromkeys(matches, f"@ {name}")
        return self.using(use)

    def answered(self, node: Node) -> Node:
        """An operator, with its prompts for the model of its choice, if it calls one."""
        choice = self.choice(node.step)
        return node.of_model(choice.model) if choice and isinstance(node, Semantic) else node

    @cached_property
    def functions(self) -> dict[str, str]:
        """The user functions that it calls, each with the SHA-256 of its file."""
        scalars = (scalar for node in walk(*self.roots) for scalar in scalars_of(node))
        calls = (own for scalar in scalars for own in own_calls(scalar.sql))
        return {own.name: own.digest for own in calls}

    @cached_property
    def needs(self) -> PlanNeeds:
        """The needs of the plan, including the models that its choices name as `role`. It needs an
        embedder if a node embeds, or if a sink writes the text of a vector.
        """
        nodes = [*map(self.answered, walk(*self.roots))]
        semantic = [node for node in nodes if isinstance(node, Semantic)]
        roles = {prompt.role for node in semantic for prompt in node.prompt.all}
        chosen = (choice for node in semantic if (choice := self.choice(node.step)))
        roles |= {
            str(value)
            for choice in chosen
            for name, value in choice.params
            if name == "role" and value
        }
        embeds = any(node.embeds for node in nodes) or any(
            derived.by == "embed" and derived.of in sink.schema.names
            for sink in self.writes
            if isinstance(sink, Merge)
            for derived in sink.label.derived.values()
        )
        ordered = tuple(sorted(roles, key=lambda role: (role != "default", role)))
        return PlanNeeds(ordered, embeds, self.uses_store)

    @property
    def recording(self) -> Path:
        """The file of the plan's recording, which may not exist."""
        return Path(self.file).parent / "recordings" / f"{self.name}.jsonl"

    @property
    def replaced(self) -> dict[str, Choice]:
        """The plans that replace called plans, by the steps of the calls."""
        return {step: call.by for step, call in self.called.items() if call.by is not None}

    @property
    def roots(self) -> tuple[Node, ...]:
        """The nodes to compute: the sinks, then the results."""
        return (*self.writes, *self.returns.values())

    @cached_property
    def uses_store(self) -> bool:
        """Whether it reads or writes the store; a search of rows of the plan alone does not."""
        return uses_store(*self.roots)

    def choice(self, step: str) -> Choice | None:
        """The implementation of a step, by its name or the last part of it; None: the reference."""
        return self.use.get(step) or self.use.get(step.rsplit("/", 1)[-1])

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of everything that determines the plan's writes and results, including choices."""
        parts = [
            self.name,
            *(node.fingerprint for node in self.roots),
            *self.returns,
            canonical(self.windows),
            canonical(dict(self.use)),
            canonical(self.allow),
            *([canonical(self.schema_write)] if self.schema_write is not None else []),
        ]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def all_partitions(graph: Graph, step: str, origin: Position | None) -> Node:
    """The partitions with nodes in a store, each once; NULL becomes "", as in windows."""
    owner = graph.partition
    column = (owner, parse_scalar(f"coalesce({column_scalar(owner).sql}, '')"))
    scans = (
        Scan(graph=graph, label=label.name, partition="all", step=step, origin=origin)
        for label in graph.nodes
    )
    parts = tuple(Project(input=s, columns=(column,), step=step, origin=origin) for s in scans)
    rows = parts[0] if len(parts) == 1 else Union(relations=parts, step=step, origin=origin)
    return Distinct(input=rows, by=(owner,), step=step, origin=origin)


def uses_store(*roots: Node) -> bool:
    """Whether a node below reads or writes the store; a search of rows of the plan alone does not."""
    searched = (node for node in walk(*roots) if node.reads_store)
    return any(not isinstance(node, Search) or bool(node.label) for node in searched)


def without_absent(plan: LogicalPlan, given: Collection[str]) -> LogicalPlan:
    """The plan with all partitions in place of the inputs that stand for them and are not given."""
    absent = {name for name, spec in plan.inputs.items() if spec.or_all and name not in given}
    if not absent:
        return plan

    def change(node: Node) -> Node:
        if not isinstance(node, Input) or node.name not in absent:
            return node
        return all_partitions(plan.graph, node.step or node.name, node.origin)

    calls = (
        relations for call in plan.called.values() for relations in (call.inputs, call.results)
    )
    roots = (*plan.roots, *plan.steps.values(), *(node for part in calls for node in part.values()))
    new = dict(zip(roots, rewrite(roots, change), strict=True))
    load = plan.load
    return replace(
        plan,
        inputs={name: spec for name, spec in plan.inputs.items() if name not in absent},
        steps={name: new[node] for name, node in plan.steps.items()},
        writes=cast("tuple[Sink, ...]", tuple(new[node] for node in plan.writes)),
        returns={name: new[node] for name, node in plan.returns.items()},
        called={step: call.over(new) for step, call in plan.called.items()},
        load=load and (lambda use: without_absent(load(use), given)),
    )
