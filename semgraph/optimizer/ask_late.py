"""Pull semantic filters above joins, which drop rows without a model call."""

from __future__ import annotations

from dataclasses import replace

from semgraph.logical.node import Node, walk
from semgraph.logical.semantic import SemFilter
from semgraph.optimizer.patterns import Alone, PlanFacts, Roots, may_see_more, rewrite_alone


def ask_late(roots: Roots, _facts: PlanFacts) -> Roots:
    """Pull semantic filters above joins that may drop rows, as long as the joins pass through the
    columns that the filter reads.

    Equal questions share one call. So a join that repeats rows adds no calls, and a row fails only
    once. The join gets the name of the filter's step, because it is computed before the filter.

    A filter is not pulled above an operator with other readers. In a plan with windows it is not
    pulled above a join with rows from a store, which would prevent running ahead. A loop-invariant
    question remains loop-invariant.

    >>> import semgraph as sg
    >>> from semgraph.optimizer.patterns import outline
    >>> notes, known = (sg.table([{"id": "a", "text": "x"}], name=n) for n in ("notes", "known"))
    >>> both = notes.sem_filter("Is {text} nice?").join(known, alias="k", using="id").node
    >>> outline(both), outline(*ask_late((both,), PlanFacts()))
    ('input → sem_filter → input → join', 'input → input → join → sem_filter')
    """

    def change(node: Node, alone: Alone) -> Node:
        if len(node.inputs) < 2 or not node.drops or not _passable(node):
            return node
        taken = _taken_out(node.inputs[0], alone)
        if taken is None:
            return node
        asking, below = taken
        ends_running_ahead = asking.windowed and any(n.reads_store for n in walk(*node.inputs[1:]))
        changes_partition = node.windowed and not asking.windowed
        asked_once = asking.rounds != node.rounds  # in a loop, not in each round
        if ends_running_ahead or changes_partition or asked_once:
            return node
        if not asking.reads <= node.passes:
            return node
        above = replace(node.with_inputs(below, *node.inputs[1:]), step=asking.step)
        return replace(
            asking.with_inputs(above),
            original_columns=asking.original_columns or tuple(asking.schema.names),
        )

    return rewrite_alone(roots, change)


def _passable(node: Node) -> bool:
    return node.relational and node.row_local and may_see_more(node)


def _taken_out(node: Node, alone: Alone) -> tuple[SemFilter, Node] | None:
    """A semantic filter at or below `node`, and `node` without it."""
    if not alone(node) or not node.inputs:
        return None
    if isinstance(node, SemFilter):
        return (node, node.input) if node.row_local and not node.output_columns else None
    if not _passable(node):
        return None
    taken = _taken_out(node.inputs[0], alone)
    if taken is None or not taken[0].reads <= node.passes:
        return None
    asking, below = taken
    return asking, replace(node.with_inputs(below, *node.inputs[1:]), step=asking.step)
