"""Refusal of prompts that may contain text of two partitions.

A row belongs to the partition of its window or, without windows, to the partition in its partition
column. A row without either belongs to no partition, and any prompt may contain its text, unless it is in
a struct that names a partition.

- A join may add text of another partition, unless both sides have windows, or it compares the
  partition columns.
- An aggregate of rows without windows may add such text, unless it groups by the partition.
- In a plan without windows, other columns that a join compares or an aggregate groups by count as
  keys that differ between partitions.
- `partition: all` reads all partitions on purpose.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import singledispatch

import pyarrow as pa
from sqlglot import exp

from semgraph.errors import Problem
from semgraph.expr.scalar import Scalar, from_ast, to_sql
from semgraph.logical import relational as rel
from semgraph.logical.cluster import Cluster
from semgraph.logical.iterate import Iterate, Round
from semgraph.logical.node import Columns, Node, column_scalar, walk
from semgraph.logical.search import Search
from semgraph.logical.semantic import Semantic, SemJoin

_Joining = rel.Join | rel.GroupJoin | SemJoin
_Equal = (exp.EQ, exp.NullSafeEQ)


@dataclass(frozen=True)
class PartitionsOf:
    """The partitions in a relation."""

    owned: bool  # whether its rows belong to partitions
    external: frozenset[str] = frozenset()  # columns that may hold text of another than their row's


@dataclass(frozen=True)
class _Plan:
    """The names of partition columns, and whether the plan has windows."""

    partitions: frozenset[str]
    windows: bool


def mixed_prompts(
    roots: Iterable[Node], partitions: frozenset[str], *, windows: bool
) -> Iterator[Problem]:
    """A problem for each operator below the roots with a prompt that may contain rows of two
    partitions. `partitions` names the partition columns of the graph and of the plan's windows. The
    plan is as written: the optimizer drops partition columns.
    """
    known: dict[Node, PartitionsOf] = {}
    plan = _Plan(partitions, windows)
    nodes = list(walk(*roots))
    while True:  # text that a loop adds to its rows is in the rows of its next round
        for node in nodes:
            if not isinstance(node, Round) or node not in known:
                known[node] = _owners(node, [known[child] for child in node.inputs], plan)
        if not _fed_back(nodes, known):
            break
    for node in nodes:
        if isinstance(node, Semantic):
            yield from _problems(node, [known[child] for child in node.inputs], partitions)


def _fed_back(nodes: Iterable[Node], known: dict[Node, PartitionsOf]) -> bool:
    """Set the partitions of each loop's rounds to those of the loop; return whether one changed."""
    changed = False
    for node in nodes:
        for leaf in node.own_rounds if isinstance(node, Iterate) else ():
            changed = changed or known[leaf] != known[node]
            known[leaf] = known[node]
    return changed


def _problems(
    node: Semantic, below: list[PartitionsOf], partitions: frozenset[str]
) -> Iterator[Problem]:
    name = min(partitions, default="")
    asked = zip(node.inputs, below, (node.prompt.fields, node.prompt.other_fields), strict=False)
    for rows, owners, fields in asked:
        for path in sorted(fields):
            column = path.split(".")[0]
            says = f'{node.keyword}: its prompt shows "{path}", '
            hint = ""
            if column in owners.external:
                says += "which may be of another partition than its row"
                hint = (
                    f"join or group by the partition: using: {name}, by: [{name}]; or, if such rows belong to "
                    f"everybody, project {name} away first"
                )
            elif not owners.owned and (inside := partitions & _fields(rows, column)):
                says += f"which is of a partition, but its rows have no column {min(inside)}"
                hint = (
                    f"project {min(inside)}: {column}.{min(inside)}; or, if it belongs to everybody, "
                    "project what is shown"
                )
            if hint:
                yield Problem(says, node.step or None, node.origin, hint=hint)
                return


def _fields(node: Node, column: str) -> set[str]:
    kind = node.schema.field(column).type
    return {field.name for field in kind} if pa.types.is_struct(kind) else set()


@singledispatch
def _owners(node: Node, below: list[PartitionsOf], _plan: _Plan) -> PartitionsOf:
    """The partitions in the result of an operator.

    Default, for operators that pass rows on: columns computed from external ones are external too.
    """
    first = below[0] if below else PartitionsOf(node.windowed)
    made = node.output_columns if first.external & node.reads else frozenset()
    return replace(first, external=frozenset(node.schema.names) & (first.external | made))


@_owners.register
def _(node: rel.Input, _below: list[PartitionsOf], plan: _Plan) -> PartitionsOf:
    return PartitionsOf(node.windowed or bool(plan.partitions & set(node.schema.names)))


@_owners.register(rel.Project)
@_owners.register(rel.Add)
def _(node: rel.Project | rel.Add, below: list[PartitionsOf], plan: _Plan) -> PartitionsOf:
    (first,) = below
    passed = frozenset(node.schema.names) - {name for name, _ in node.columns}
    external = first.external & passed | _external(node, first, plan.partitions)
    owner = next((scalar for name, scalar in node.columns if name in plan.partitions), None)
    if owner is None or node.windowed or owner.roots & plan.partitions:
        owned = first.owned and (node.windowed or bool(plan.partitions & set(node.schema.names)))
        return PartitionsOf(owned, external)
    # The rows change their owner: text of the former owner becomes external, text of the new owner
    # is no longer external.
    own = {name for name, scalar in node.columns if scalar.roots <= owner.roots} | (
        passed & owner.roots
    )
    rest = frozenset(node.schema.names) if first.owned else external
    return PartitionsOf(first.owned or bool(owner.roots & first.external), rest - own)


def _external(
    node: rel.Project | rel.Add, first: PartitionsOf, partitions: frozenset[str]
) -> frozenset[str]:
    """The computed columns that may hold text of other owners, or by a window of other rows."""
    loose = first.owned and not node.windowed
    texts = _texts(node, node.columns) if loose else frozenset[str]()
    return frozenset(
        name
        for name, scalar in node.columns
        if scalar.roots & first.external
        or (name in texts and scalar.has_window and not _by_partition(scalar, partitions))
    )


def _by_partition(scalar: Scalar, partitions: frozenset[str]) -> bool:
    """Whether every window of a scalar stays within the partition."""
    windows = scalar.shared_ast.find_all(exp.Window)

    def within(window: exp.Expr) -> bool:
        columns = (by for by in window.args.get("partition_by") or () if isinstance(by, exp.Column))
        return any(by.name in partitions for by in columns)

    return all(map(within, windows))


@_owners.register
def _(node: rel.Aggregate, below: list[PartitionsOf], plan: _Plan) -> PartitionsOf:
    (first,) = below
    columns = (*node.by, *node.add)
    named = any(scalar.sql in _columns(plan.partitions) for _, scalar in node.by)
    apart = node.windowed or named or (bool(node.by) and not plan.windows)
    mixed = _texts(node, node.add) if first.owned and not apart else frozenset[str]()
    external = frozenset(name for name, scalar in columns if scalar.roots & first.external)
    return PartitionsOf(node.windowed or (first.owned and named), external | mixed)


def _columns(names: Iterable[str]) -> set[str]:
    return {column_scalar(name).sql for name in names}


def _texts(node: Node, columns: Columns) -> frozenset[str]:
    """The names of the columns that hold text."""
    return frozenset(name for name, _ in columns if "string" in str(node.schema.field(name).type))


@_owners.register
def _(node: rel.Unnest, below: list[PartitionsOf], _plan: _Plan) -> PartitionsOf:
    (first,) = below
    made = {node.alias} if node.column in first.external else set[str]()
    return replace(first, external=first.external - {node.column} | made)


@_owners.register(rel.Union)
@_owners.register(Iterate)
def _(_node: rel.Union | Iterate, below: list[PartitionsOf], _plan: _Plan) -> PartitionsOf:
    external = frozenset[str]().union(*(each.external for each in below))
    return PartitionsOf(any(each.owned for each in below), external)


@_owners.register
def _(_node: rel.Intersect, below: list[PartitionsOf], _plan: _Plan) -> PartitionsOf:
    return below[0]


@_owners.register
def _(_node: Cluster, below: list[PartitionsOf], _plan: _Plan) -> PartitionsOf:
    return below[-1]


@_owners.register
def _(node: Search, below: list[PartitionsOf], _plan: _Plan) -> PartitionsOf:
    first, searched = below[0], below[1] if len(below) > 1 else PartitionsOf(owned=False)
    apart = node.by_window or node.by_owner or bool(node.partition)
    brings = bool(searched.external) or (searched.owned and not apart)
    return replace(first, external=first.external | ({node.alias} if brings else set[str]()))


@_owners.register(rel.Join)
@_owners.register(rel.GroupJoin)
@_owners.register(SemJoin)
def _(node: _Joining, below: list[PartitionsOf], plan: _Plan) -> PartitionsOf:
    left, right = below
    if not isinstance(node, rel.GroupJoin) and node.how in {"semi", "anti"}:
        return left
    confined = _confined(node, plan.partitions)
    # the rows are those of the right side's windows
    takes_owner = node.other.windowed and not node.input.windowed
    brings = bool(right.external) or (right.owned and not confined and not takes_owner)
    external = set(left.external)
    if takes_owner and left.owned and not confined:
        external |= set(node.input.schema.names)
    if isinstance(node, rel.GroupJoin):
        loose = external | ({node.alias} if brings else set())
        external |= {name for name, scalar in node.add if scalar.roots & loose}
    elif brings:
        external.add(node.alias)
    return PartitionsOf(left.owned or takes_owner, frozenset(external))


def _confined(node: _Joining, partitions: frozenset[str]) -> bool:
    """Whether a join pairs only rows of one partition."""
    if node.input.windowed and node.other.windowed:
        return True
    if any(left in partitions and right in partitions for left, right in node.using):
        return True
    terms = [] if node.where is None else list(_conjuncts(node.where.shared_ast))
    if any(_compares(term, node.alias, partitions) for term in terms):
        return True
    by_key = bool(node.using) or any(
        isinstance(term, _Equal) and _both_sides(term, node.alias) for term in terms
    )
    return by_key and not node.input.windowed and not node.other.windowed


def _both_sides(term: exp.Expr, alias: str) -> bool:
    of_other = {path.startswith(f"{alias}.") for path in from_ast(term, "").columns}
    return of_other == {True, False}


def _conjuncts(tree: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(tree, exp.Paren):
        yield from _conjuncts(tree.this)
    elif isinstance(tree, exp.And):
        yield from _conjuncts(tree.left)
        yield from _conjuncts(tree.right)
    else:
        yield tree


def _compares(term: exp.Expr, alias: str, partitions: frozenset[str]) -> bool:
    """Whether a condition requires equal partitions of both rows, or that one has none."""
    if isinstance(term, exp.Paren):
        return _compares(term.this, alias, partitions)
    if isinstance(term, exp.Or):
        return any(_compares(side, alias, partitions) for side in (term.left, term.right)) and all(
            _compares(side, alias, partitions) or _is_null(side, alias, partitions)
            for side in (term.left, term.right)
        )
    sides = {to_sql(term.this), to_sql(term.expression)} if isinstance(term, _Equal) else set()
    others = _columns(f"{alias}.{name}" for name in partitions)
    return bool(sides & _columns(partitions)) and bool(sides & others)


def _is_null(term: exp.Expr, alias: str, partitions: frozenset[str]) -> bool:
    test = term.this if isinstance(term, exp.Paren) else term
    named = partitions | {f"{alias}.{name}" for name in partitions}
    return (
        isinstance(test, exp.Is)
        and isinstance(test.expression, exp.Null)
        and set(from_ast(test, "").columns) <= named
    )
