"""Ask for several verdicts in one call (approximate: answers may differ)."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

from semgraph.logical.node import Node
from semgraph.logical.prompt import PromptSet
from semgraph.logical.semantic import Semantic, SemJoin
from semgraph.optimizer import patterns

_ALL = "The answer is yes only if the answer to each of the numbered questions is yes."


def fuse_predicates(roots: patterns.Roots, facts: patterns.PlanFacts) -> patterns.Roots:
    """Fuse two questions that each keep or drop a row or a pair, and read the same columns: filters
    over the same rows, or a filter over the pairs of a join.

    >>> import semgraph as sg
    >>> from semgraph.optimizer.patterns import PlanFacts, outline
    >>> notes = sg.table([{"text": "x"}])
    >>> both = notes.sem_filter("Is {text} nice?").sem_filter("Is {text} short?").node
    >>> outline(both), outline(*fuse_predicates((both,), PlanFacts()))
    ('input → sem_filter → sem_filter', 'input → sem_filter')
    """

    def change(node: Node, alone: patterns.Alone) -> Node:
        if not _is_filter(node) or not alone(node.inputs[0]):
            return node
        below = node.inputs[0]
        if _is_filter(below) and not below.gated and patterns.can_share(below, node, facts):
            return replace(node.with_inputs(below.inputs[0]), prompt=_both(below, node))
        if (
            isinstance(below, SemJoin)
            and facts.choice(node) is None
            and _sees_the_pair(node, below)
        ):
            plain = replace(below, step=node.step)
            if patterns.can_share(plain, node, patterns.NO_FACTS):
                return replace(below, prompt=_both(below, node))
        return node

    return patterns.rewrite_alone(roots, change)


def _is_filter(node: Node) -> TypeGuard[Semantic]:
    """Whether an operator keeps or drops each row by its answer alone."""
    plain = isinstance(node, Semantic) and getattr(node, "when", None) is None
    return plain and node.row_local and node.rows == "subset" and not node.output_columns


def _both(first: Semantic, second: Semantic) -> PromptSet:
    prompts = [first.prompt.first, second.prompt.first]
    return patterns.together(prompts, ["1. ", "2. "], _ALL)


def _sees_the_pair(node: Semantic, join: SemJoin) -> bool:
    """Whether a filter reads only what the join's question does, and each pair is a row."""
    if join.how != "inner" or join.keep != "all" or join.check is not None or node.gated:
        return False
    fields = node.prompt.fields
    other = {path[len(join.alias) + 1 :] for path in fields if path.startswith(f"{join.alias}.")}
    own = {path.split(".")[0] for path in fields if not path.startswith(f"{join.alias}.")}
    in_item = {path for path in node.prompt.first.item.fields if path.startswith(f"{join.alias}.")}
    in_both = other & set(join.prompt.first.other.fields)
    return own <= join.passes and len(in_item) == len(other) and not in_both
