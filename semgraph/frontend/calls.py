"""Called plans: their results, their inputs, and plans that replace others.

The plan that a `call` names defines the interface of the call: inputs, parameters and results.
`use` can replace it by another plan that fits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from semgraph.errors import Collected, Fault, Faults, Position, among, did_you_mean
from semgraph.expr.functions import canonical_json
from semgraph.expr.scalar import parse_scalar
from semgraph.expr.types import type_of_arrow
from semgraph.frontend import kinds
from semgraph.frontend.build import shared_node
from semgraph.frontend.document import Trail, known_keys, mapping, unknown
from semgraph.frontend.head import Head, input_schema
from semgraph.frontend.kinds import RELATION, Key, Keys, Pruned, Reported, Scope
from semgraph.logical.node import Node, column_scalar
from semgraph.logical.plan import Choice, InputSpec, Windowing, all_partitions
from semgraph.logical.relational import Add, Empty, Project

_NAMES = kinds.listed(kinds.NAMED)
# The keys of a call.
CALL: Keys = {
    "plan": Key(kinds.TEXT, "the name of a plan", required=True),
    "inputs": Key(
        kinds.kept(kinds.either(kinds.by_name(kinds.either(RELATION)), _NAMES)),
        "relations by input",
    ),
    "params": Key(kinds.kept(kinds.either(kinds.by_name({}), _NAMES)), "values by parameter"),
    "preset": Key(kinds.TEXT, "a preset of the plan"),
}


@dataclass(frozen=True)
class Results:
    """The results of a called plan."""

    name: str  # the step that calls it
    tables: Mapping[str, Node]
    pruned: Mapping[str, Pruned] = field(default_factory=dict)  # those that a parameter leaves out
    checked: Callable[[str, Node], Node] = field(default=lambda _, node: node)  # when they are read

    def table(self, name: str) -> Node:
        """A result by name. Raises Fault or Pruned."""
        if name in self.pruned:
            raise self.pruned[name]
        if name in self.tables:
            return self.checked(name, self.tables[name])
        kind = f"results of {self.name}"
        raise unknown(name, self.tables, f"{self.name} returns no", kind, value=True)

    def single(self, hint: str) -> Node:
        """The only result. Raises Fault if there are several."""
        if len(self.tables) == 1:
            return self.table(next(iter(self.tables)))
        names = ", ".join(f"{self.name}.{table}" for table in self.tables) or "none"
        raise Fault(f"{self.name} has several results", there=f"results: {names}", hint=hint)


Relation: TypeAlias = Node | Results


class _Using(Protocol):
    head: Head


@dataclass(frozen=True)
class Replacement:
    """An entry of `use` that replaces the plan that a call names."""

    value: Any  # the other plan's name or path, with parameters in parentheses
    owner: _Using  # the plan with the entry
    key: str  # the step that the entry names
    path: Trail  # of the entry in its plan; () for an option of the run

    def report(self, fault: Fault) -> None:
        """Report a fault, at the entry."""
        if self.path:
            self.owner.head.report(fault, *self.path)
        else:
            self.owner.head.report_option(f"--use {self.key}", fault)


@dataclass(frozen=True)
class Fit:
    """The check whether a plan can replace the plan that a call names."""

    replacement: Replacement
    plan: str
    reference: str

    def refused(self, reasons: Sequence[str]) -> bool:
        """Report the reasons why it cannot; return whether there are any."""
        if reasons:
            what = f"{self.plan} cannot stand for {self.reference}: "
            self.replacement.report(Faults(Fault(what + reason) for reason in reasons))
        return bool(reasons)

    def results(self, results: Results, wanted: Mapping[str, Node]) -> Results:
        """The results that the reference has. Results that are read must have the reference's
        columns, with the same types; further columns are hidden.
        """

        def checked(name: str, node: Node) -> Node:
            if name not in results.tables:
                self.refused([f'it returns no "{name}"'])
                raise Reported
            schema = wanted[name].schema
            if self.refused(list(_lacks(name, schema, node))):
                raise Reported
            if node.schema.names == schema.names:
                return node
            columns = tuple((column, column_scalar(column)) for column in schema.names)
            return shared_node(Project, node.step, node.origin, input=node, columns=columns)

        tables = {name: results.tables.get(name, wanted[name]) for name in wanted}
        return Results(results.name, tables, results.pruned, checked=checked)


def replacing_arguments(
    choice: Choice, arguments: Mapping[str, Any], reference: Head, inner: Head
) -> tuple[dict[str, Any], list[str]]:
    """The arguments of a call for the chosen plan, whose head is `inner`, in place of the reference,
    and why it does not fit.
    """
    reasons: list[str] = []
    inputs = mapping(arguments.get("inputs"), "a mapping of relations")
    own = declared_inputs(inner.data)
    for name, optional in own.items():
        if not optional and name not in inputs:
            reasons.append(f'it needs the input "{name}", which the call does not give')
    declared = mapping(inner.data.get("params"), "a mapping of parameters")
    defaults = mapping(reference.data.get("params"), "a mapping of parameters")
    params: dict[str, Any] = {}
    for name, value in mapping(arguments.get("params"), "a mapping of parameters").items():
        if name in declared:
            params[name] = value
        elif value != defaults.get(name):
            reasons.append(
                f'it has no parameter "{name}", and the call sets it to {canonical_json(value)}'
            )
    if choice.model:
        reasons.append("a call has no model; its steps have: OUTER/INNER")
    for name, value in choice.params:
        if name not in declared:
            near = did_you_mean(name, declared)
            reasons.append(f'it has no parameter "{name}"' + (f": {near}" if near else ""))
        params[name] = value
    return {
        **{key: value for key, value in arguments.items() if key == "preset"},
        "inputs": {name: value for name, value in inputs.items() if name in own},
        "params": params,
    }, reasons


def declared_inputs(data: Mapping[str, Any]) -> dict[str, bool]:
    """The inputs that a plan's text declares, and whether each is optional. Raises Fault."""
    names = mapping(data.get("inputs"), "a mapping of inputs")
    optional: Collection[Any] = data.get("optional") or ()
    optional = [optional] if isinstance(optional, str) else optional
    return {name: name in optional for name in names}


def _lacks(name: str, wanted: Any, node: Node) -> Iterator[str]:
    for column in wanted:
        kind = type_of_arrow(column.type)
        if column.name not in node.schema.names:
            yield f'its result "{name}" lacks "{column.name}" ({kind})'
        elif (own := type_of_arrow(node.schema.field(column.name).type)) != kind:
            yield f'"{column.name}" of its result "{name}" is {own}, not {kind}'


def call_inputs(
    scope: Scope, inner: Head, value: Any, step: str, origin: Position | None
) -> dict[str, Node]:
    """The inputs of a called plan: relations of the caller. Raises Faults or Pruned."""
    arguments = mapping(value, "a mapping of relations")
    faults = Collected(known_keys(arguments, inner.inputs, "the called plan"))
    relations: dict[str, Node] = {}
    for name, spec in inner.inputs.items():
        if name not in arguments:
            if not spec.optional:
                faults.append(Fault(f'the call needs the input "{name}"'))
            continue
        try:
            with faults.at(name):
                relation = scope.relation(arguments[name])
                relations[name] = _fit(relation, spec, inner.windows, f"{step}/{name}", origin)
        except Pruned:
            if not spec.optional:
                raise
    faults.refuse()
    # an input without rows is windowed if the others are
    windowed = any(node.windowed for node in relations.values())
    for name, spec in inner.inputs.items():
        called = f"{step}/{name}"
        if name not in relations and spec.or_all:
            relations[name] = all_partitions(inner.graph, called, origin)
        elif name not in relations:
            values = {"name": called, "columns": spec.schema, "windowed": windowed}
            relations[name] = shared_node(Empty, called, origin, **values)
    return relations


def _fit(
    node: Node, spec: InputSpec, windowing: Windowing | None, step: str, origin: Position | None
) -> Node:
    """A caller's relation as an input: checked, with NULL for missing nullable columns."""
    declared, names = dict(spec.columns), node.schema.names
    missing, faults = [], Collected()
    for column in input_schema(
        spec, windowed=windowing is not None and windowing.input == spec.name
    ):
        name, kind = column.name, type_of_arrow(column.type)
        if name in names:
            own = node.schema.field(name).type
            if type_of_arrow(own) != kind:
                what = f'column "{name}" is {type_of_arrow(own)}, the called plan wants {kind}'
                faults.append(Fault(what))
        elif name in declared and declared[name].nullable:
            missing.append((name, parse_scalar(f"CAST(NULL AS {kind.sql})")))
        else:
            what = f'the called plan needs the column "{name}" ({kind})'
            faults.append(Fault(what, **among(name, names, "columns here")))
    faults.refuse()
    return shared_node(Add, step, origin, input=node, columns=tuple(missing)) if missing else node
