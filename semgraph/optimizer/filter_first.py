"""Evaluate conditions before the model is called."""

from __future__ import annotations

from dataclasses import replace

from semgraph.expr.scalar import Scalar
from semgraph.logical.node import Node
from semgraph.optimizer import patterns


def filter_first(roots: patterns.Roots, _facts: patterns.PlanFacts) -> patterns.Roots:
    """Move each conjunct of a filter below the lowest operator that calls the model, unless that
    operator adds a column that the conjunct reads.

    Conjuncts never move past an operator that reads several rows or has other readers.

    >>> import semgraph as sg
    >>> from semgraph.optimizer.patterns import PlanFacts, outline
    >>> notes = sg.table([{"id": "a", "text": "x"}])
    >>> filtered = notes.sem_filter("Is {text} nice?").filter("id > 'a'").node
    >>> outline(filtered), outline(*filter_first((filtered,), PlanFacts()))
    ('input → sem_filter → filter', 'input → filter → sem_filter')
    """

    def change(node: Node, alone: patterns.Alone) -> Node:
        def take(part: Scalar, below: Node) -> Node | None:
            return _below(node, part, below, alone) if patterns.may_move(part, node) else None

        return patterns.without_conjuncts(node, take)

    return patterns.rewrite_alone(roots, change)


def _below(condition: Node, part: Scalar, node: Node, alone: patterns.Alone) -> Node | None:
    """`node` with the conjunct below it, if that saves calls, or None."""
    if not alone(node) or not node.row_local or node.reads_store or not part.roots <= node.passes:
        return None
    below = _below(condition, part, node.inputs[0], alone)
    if below is None and (node.calls_model or node.embeds):
        below = replace(condition, input=node.inputs[0], where=part, step=node.step)  # type: ignore[call-arg]
    return None if below is None else node.with_inputs(below, *node.inputs[1:])
