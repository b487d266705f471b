"""The rows that come into steps and leave them where an operator, or a statement of several, is computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from semgraph.execution.runtime import Runtime
from semgraph.execution.settling import Flow
from semgraph.logical.node import Node
from semgraph.physical.relational import Segment, gives_nothing


def flows(runtime: Runtime, node: Node, given: pa.Table, first: pa.Table | None) -> list[Flow]:
    """What comes into the step of an operator here, and leaves it.

    Args:
        runtime: Of the run.
        node: The operator.
        given: Its rows.
        first: The rows of its first input, where they are known.
    """
    known: dict[int, pa.Table | None] = {id(node): given}
    if node.inputs:
        known[id(node.inputs[0])] = first
    return _flows(runtime, [node], known)


def segment_flows(runtime: Runtime, segment: Segment, given: pa.Table, tables: Sequence[pa.Table]) -> list[Flow]:
    """The same for all steps that a statement does.

    The rows between two of its operators are known where the operators before or after give a row for each row.
    """
    known: dict[int, pa.Table | None] = {
        id(node): table for (_, node), table in zip(segment.inputs, tables, strict=True)
    }
    inside = list(dict.fromkeys(_inside(segment.root, frozenset(known))))
    names = frozenset(name for name, _ in segment.inputs)
    if not any(table.num_rows for table in tables) and gives_nothing(segment, names):
        known |= dict.fromkeys(map(id, inside), given)
    known[id(segment.root)] = given
    for node in inside:
        if node.rows == "1:1" and known.get(id(node)) is None:
            known[id(node)] = known.get(id(node.inputs[0]))
    for node in reversed(inside):
        if node.rows == "1:1" and known.get(id(node.inputs[0])) is None:
            known[id(node.inputs[0])] = known.get(id(node))
    return _flows(runtime, inside, known)


def _inside(node: Node, given: frozenset[int]) -> Iterator[Node]:
    """The operators of a statement, inputs before what reads them."""
    for child in node.inputs:
        if id(child) not in given:
            yield from _inside(child, given)
    if node.inputs:
        yield node


def _flows(runtime: Runtime, nodes: Sequence[Node], known: dict[int, pa.Table | None]) -> list[Flow]:
    found = []
    for node in nodes:
        step = runtime.meter.step(node.step)
        if runtime.begins(node):
            found.append(Flow(step, "rows_in", known.get(id(node.inputs[0]))))
        if runtime.ends(node):
            found.append(Flow(step, "rows_out", known.get(id(node))))
    return found
