"""Ask about a row once joins have left it: filters that ask a model are pulled above the joins that
drop rows.
"""

from __future__ import annotations

from dataclasses import replace

from semgraph.logical.node import Node, walk
from semgraph.logical.semantic import SemFilter
from semgraph.optimizer._patterns import Alone, PlanFacts, Roots, may_see_more, rewrite_alone


def ask_late(roots: Roots, _facts: PlanFacts) -> Roots:
    """Pull a filter that asks a model above each join of what it gives that may drop rows, as far
    as what it reads is carried.

    Equal questions are asked once, so a join that repeats rows costs no question, nor does a row
    count as failed twice. The join is named as the step that asks: it is computed before it.
    Nothing is pulled above what others read too, nor, where a plan has windows, above a join with
    what was read from a store, which would end running ahead.
    """

    def change(node: Node, alone: Alone) -> Node:
        if len(node.inputs) < 2 or not node.drops or not _passable(node):
            return node
        found = _taken_out(node.inputs[0], alone)
        if found is None:
            return node
        asking, below = found
        waits = asking.partitioned and any(n.reads_store for n in walk(*node.inputs[1:]))
        other_owner = (
            node.partitioned and not asking.partitioned
        )  # joined, the rows are those of other partitions
        if waits or other_owner or not asking.reads <= node.passes:
            return node
        above = replace(node.with_inputs(below, *node.inputs[1:]), step=asking.step)
        return replace(asking.with_inputs(above), late=asking.late or tuple(asking.schema.names))

    return rewrite_alone(roots, change)


def _passable(node: Node) -> bool:
    return node.relational and node.row_local and may_see_more(node)


def _taken_out(node: Node, alone: Alone) -> tuple[SemFilter, Node] | None:
    """A filter that asks a model at or below `node`, and `node` without it."""
    if not alone(node) or not node.inputs:
        return None
    if isinstance(node, SemFilter):
        return node, node.input
    if not _passable(node):
        return None
    found = _taken_out(node.inputs[0], alone)
    if found is None or not found[0].reads <= node.passes:
        return None
    asking, below = found
    return asking, replace(node.with_inputs(below, *node.inputs[1:]), step=asking.step)
