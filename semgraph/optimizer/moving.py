"""What rules that move operators have in common: who else reads a relation, and what may fail on a row that it did not see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from semgraph.expr.scalar import Scalar, conjunction
from semgraph.logical.node import Node, scalars_of, walk

Alone = Callable[[Node], bool]
Change = Callable[[Node, Alone], Node]
_MAY_FAIL = (exp.StrToTime, exp.Sqrt, exp.Ln, exp.Log, exp.Anonymous)
_NEVER = {"key", "word_count", "alike", "cut", "uuid5", "json_array"}  # the project's own functions take every text


def rewrite_alone(roots: tuple[Node, ...], change: Change) -> tuple[Node, ...]:
    """Apply `change` to every node below the roots, bottom up; shared nodes stay shared.

    `change` is told whether a node has one reader only. What asks a model counts with all that ask the same: it will become
    one node, and must not be moved away from the others.
    """
    readers: Counter[object] = Counter(_name(root) for root in roots)
    for node in walk(*roots):
        readers.update(_name(child) for child in node.inputs)
    done: dict[int, Node] = {}
    counts: dict[int, int] = {}
    kept: list[Node] = []  # so that no other node gets the id of one that was counted

    def alone(node: Node) -> bool:
        return counts.get(id(node), 1) < 2

    for node in walk(*roots):
        rebuilt = node.with_inputs(*(done[id(child)] for child in node.inputs))
        counts[id(rebuilt)] = readers[_name(node)]
        changed = change(rebuilt, alone)
        counts[id(changed)] = readers[_name(node)]
        kept += [rebuilt, changed]
        done[id(node)] = changed
    return tuple(done[id(root)] for root in roots)


def _name(node: Node) -> object:
    return node.fingerprint if node.calls_llm else id(node)


def without_conjuncts(node: Node, take: Callable[[Scalar, Node], Node | None]) -> Node:
    """A filter without the conjuncts that what is below it takes; any other node as it is.

    `take` is given a conjunct and what is below the filter, and gives what is below with the conjunct in it, or None.
    """
    where = getattr(node, "where", None)
    if node.keyword != "filter" or where is None:
        return node
    below, rest = node.inputs[0], []
    for part in where.conjuncts():
        taken = take(part, below)
        if taken is None:
            rest.append(part)
        else:
            below = taken
    if below is node.inputs[0]:
        return node
    return below if not rest else replace(node.with_inputs(below), where=conjunction(rest))  # type: ignore[call-arg]


def is_fixed(scalar: Scalar) -> bool:
    """Whether a condition looks at its own row alone: at no other one, and at no time of a window."""
    return not scalar.asks_now and not scalar.has_window


def may_move(scalar: Scalar) -> bool:
    """Whether a condition means the same wherever its columns are, and can fail nowhere."""
    return is_fixed(scalar) and not _may_fail(scalar)


def may_see_more(node: Node) -> bool:
    """Whether an operator may be given rows that it was not given before: none of its scalars can fail on them."""
    return not any(_may_fail(scalar) for scalar in scalars_of(node))


def _may_fail(scalar: Scalar) -> bool:
    """Whether there may be values on which it stops the run: casts above all, which a filter below may have screened."""
    for node in scalar.ast.walk():
        if isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast) and not isinstance(node.this, exp.Null):
            return True
        if isinstance(node, _MAY_FAIL) and str(node.name).lower() not in _NEVER:
            return True
    return False
