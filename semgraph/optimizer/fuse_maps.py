"""Ask independent questions about the same rows in one call (approximate: answers may differ)."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

from semgraph.logical.node import Node, column_scalar, nodes_of, rebuilt
from semgraph.logical.relational import Project
from semgraph.logical.semantic import Semantic
from semgraph.optimizer.patterns import Alone, PlanFacts, Roots, can_share, rewrite_alone, together


def fuse_maps(roots: Roots, facts: PlanFacts) -> Roots:
    """Fuse two operators that answer about each row, if neither reads an answer of the other.

    They are stacked or side by side over the same rows, with the same implementation. Gated
    operators and operators with refs or a check are unchanged.

    >>> import semgraph as sg
    >>> from semgraph.optimizer.patterns import outline
    >>> notes = sg.table([{"text": "x"}])
    >>> first = notes.sem_map("Name {text}", {"name": "string"})
    >>> both = first.sem_map("Rate {text}", {"rate": "int64"}).node
    >>> outline(both), outline(*fuse_maps((both,), PlanFacts()))
    ('input → sem_map → sem_map', 'input → sem_map')
    """
    roots = rewrite_alone(roots, lambda node, alone: _stacked(node, alone, facts))
    return _side_by_side(roots, facts)


def _is_map(node: Node) -> TypeGuard[Semantic]:
    return (
        isinstance(node, Semantic)
        and node.row_local
        and node.rows == "1:1"
        and not node.gated
        and not getattr(node, "numbers_of", ())
        and getattr(node, "check", None) is None
    )


def _stacked(node: Node, alone: Alone, facts: PlanFacts) -> Node:
    if not _is_map(node):
        return node
    below = node.input
    if (
        not _is_map(below)
        or not alone(below)
        or node.reads & below.output_columns
        or not can_share(below, node, facts)
    ):
        return node
    return _fused(below, node, node.step)


def _fused(first: Semantic, second: Semantic, step: str) -> Semantic:
    prompts = [first.prompt.first, second.prompt.first]
    heads = [f"For {', '.join(name for name, _ in prompt.returns)}:\n" for prompt in prompts]
    return replace(first, prompt=together(prompts, heads), step=step)


def _side_by_side(roots: Roots, facts: PlanFacts) -> Roots:
    """Fuse such operators over one relation, and project the columns of each from the fused one."""
    fused: dict[Node, Semantic] = {}  # by relation
    parts: dict[Node, list[Node]] = {}
    for node in nodes_of(roots):
        if not _is_map(node):
            continue
        relation = node.inputs[0]
        one = fused.setdefault(relation, node)
        if one is node:
            parts[relation] = [node]
        elif not one.output_columns & node.output_columns and can_share(one, node, facts):
            fused[relation] = _fused(one, node, one.step)
            parts[relation].append(node)
    several = {part: fused[at] for at, each in parts.items() if len(each) > 1 for part in each}
    placed: dict[Node, Node] = {}  # the fused operators over their new inputs

    def projected(node: Node, same: Node) -> Node:
        if node not in several:
            return same
        one = placed.setdefault(several[node], several[node].with_inputs(*same.inputs))
        columns = tuple((name, column_scalar(name)) for name in node.schema.names)
        return Project(input=one, columns=columns, step=node.step, origin=node.origin)

    return rebuilt(roots, projected)
