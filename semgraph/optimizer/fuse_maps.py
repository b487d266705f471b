"""Ask independent questions about the same rows in one call (approximate: a model may answer two otherwise than one)."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

from semgraph.expr.scalar import parse_scalar
from semgraph.logical.node import Node, walk
from semgraph.logical.relational import Project
from semgraph.logical.semantic import Semantic
from semgraph.optimizer.moving import Alone, rewrite_alone
from semgraph.optimizer.wording import Ways, can_share, nothing_chosen, together


def fuse_maps(roots: tuple[Node, ...], ways: Ways = nothing_chosen) -> tuple[Node, ...]:
    """Make one operator of two that answer for each row, where neither reads what the other answers.

    They stand one above the other, or side by side over the same rows. Ways must be the same; gated ones are left alone.
    """
    return _side_by_side(rewrite_alone(roots, lambda node, alone: _stacked(node, alone, ways)), ways)


def _is_map(node: Node) -> TypeGuard[Semantic]:
    return isinstance(node, Semantic) and node.rowwise and node.rows == "1:1" and not node.gated


def _stacked(node: Node, alone: Alone, ways: Ways) -> Node:
    if not _is_map(node):
        return node
    below = node.input
    if not _is_map(below) or not alone(below) or node.reads & below.adds or not can_share(below, node, ways):
        return node
    return _fused(below, node, node.step)


def _fused(first: Semantic, second: Semantic, step: str) -> Node:
    prompts = [first.prompt.first, second.prompt.first]
    heads = [f"For {', '.join(name for name, _ in prompt.returns)}:\n" for prompt in prompts]
    return replace(first, prompt=together(prompts, heads), step=step)


def _side_by_side(roots: tuple[Node, ...], ways: Ways) -> tuple[Node, ...]:
    """Fuse the first two such operators over one relation; what each gave is projected from what both give."""
    first: dict[int, Semantic] = {}
    for node in walk(*roots):
        if not _is_map(node):
            continue
        other = first.setdefault(id(node.inputs[0]), node)
        if other is not node and not other.adds & node.adds and can_share(other, node, ways):
            return _replaced(roots, other, node)
    return roots


def _replaced(roots: tuple[Node, ...], one: Semantic, other: Semantic) -> tuple[Node, ...]:
    fused = _fused(one, other, one.step)
    done: dict[int, Node] = {}
    for node in walk(*roots):
        if node is one or node is other:
            columns = tuple((name, parse_scalar(f'"{name}"')) for name in node.schema.names)
            below = done.setdefault(id(fused), fused.with_inputs(done[id(one.inputs[0])]))
            done[id(node)] = Project(input=below, columns=columns, step=node.step, origin=node.origin)
        else:
            done[id(node)] = node.with_inputs(*(done[id(child)] for child in node.inputs))
    return tuple(done[id(root)] for root in roots)
