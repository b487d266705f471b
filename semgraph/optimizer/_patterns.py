"""What rules share: the facts of a plan, named predicates of what may be moved, and the wording of
combined questions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from semgraph.expr.properties import never_fails
from semgraph.expr.scalar import Scalar, conjunction
from semgraph.logical.node import Node, nodes_of, over, scalars_of, walk
from semgraph.logical.plan import Choice
from semgraph.logical.prompt import Prompt, PromptSet, Template
from semgraph.logical.relational import Filter
from semgraph.logical.semantic import Semantic

Roots = tuple[Node, ...]


@dataclass(frozen=True)
class PlanFacts:
    """The facts of a plan that rules know in addition to its operators.

    Args:
        choice_of_step: The implementation that the plan chooses for a step; None: none.
    """

    choice_of_step: Callable[[str], Choice | None] = lambda _: None

    def choice(self, node: Node) -> Choice | None:
        """The implementation that the plan chooses for the step of an operator."""
        return self.choice_of_step(node.step)


NO_FACTS = PlanFacts()


def outline(*roots: Node) -> str:
    """The operators of a plan, inputs first: what examples show."""
    return " → ".join(node.keyword for node in walk(*roots))


Alone = Callable[[Node], bool]
Change = Callable[[Node, Alone], Node]


def rewrite_alone(roots: tuple[Node, ...], change: Change) -> tuple[Node, ...]:
    """Apply `change` to every node below the roots, bottom up; shared nodes stay shared.

    The second argument of `change` tells whether a node has one reader. Equal nodes that call the
    model count as one: they will be shared, so none may be moved away from the others.
    """
    nodes = nodes_of(roots)
    children = (child for node in nodes for child in node.inputs)
    readers: Counter[object] = Counter(map(_name, (*roots, *children)))
    done: dict[Node, Node] = {}
    counts: dict[Node, int] = {}

    def alone(node: Node) -> bool:
        return counts.get(node, 1) < 2

    for node in nodes:
        rebuilt = over(node, done)
        counts[rebuilt] = readers[_name(node)]
        changed = change(rebuilt, alone)
        counts[changed] = counts[rebuilt]
        if changed is not node:
            done[node] = changed
    return tuple(done.get(root, root) for root in roots)


def _name(node: Node) -> object:
    return node.fingerprint if node.calls_model else node


def without_conjuncts(node: Node, take: Callable[[Scalar, Node], Node | None]) -> Node:
    """A filter without the conjuncts that the operator below it takes; any other node as it is.

    `take` returns the operator with a conjunct in it, or None. A filter with window functions is
    left whole: they see the rows before any of its conjuncts.
    """
    if not isinstance(node, Filter) or node.where.has_window:
        return node
    below, rest = node.input, []
    for part in node.where.conjuncts():
        taken = take(part, below)
        if taken is None:
            rest.append(part)
        else:
            below = taken
    if below is node.input:
        return node
    return below if not rest else replace(node, input=below, where=conjunction(rest))


def may_move(scalar: Scalar, node: Node) -> bool:
    """Whether a condition on the rows of `node` may be computed elsewhere: it never fails, has no
    window function, and does not depend on the time of a window.
    """
    return not scalar.asks_now and not scalar.has_window and never_fails(scalar, node.schema)


def may_see_more(node: Node) -> bool:
    """Whether an operator may see further rows: its scalars fail on none."""
    scalars = list(scalars_of(node))
    schema = _readable(node) if scalars else node.schema
    return all(never_fails(scalar, schema) for scalar in scalars)


def _readable(node: Node) -> pa.Schema:
    """The columns that the scalars of a relational operator may read."""
    columns = {field.name: field for field in node.schema} | {
        field.name: field for field in node.inputs[0].schema
    }
    for other in node.inputs[1:]:
        alias = getattr(node, "alias", "") or "_right"
        columns[alias] = pa.field(alias, pa.struct(list(other.schema)))
    return pa.schema(list(columns.values()))


def text(literal: str) -> Template:
    """Text without placeholders."""
    return Template(((literal, ""),))


def joined(*templates: Template) -> Template:
    """Templates, one after another."""
    return Template(tuple(part for template in templates for part in template.parts))


def can_share(first: Semantic, second: Semantic, facts: PlanFacts) -> bool:
    """Whether two questions may be one: one model, one implementation, one prompt each, and one
    `on_error`.
    """
    if first.prompt.on or second.prompt.on:
        return False
    one, other = first.prompt.first, second.prompt.first
    plain = not one.reflexion and not other.reflexion
    same = one.role == other.role and first.on_error == second.on_error
    return same and plain and facts.choice(first) == facts.choice(second)


def together(prompts: Sequence[Prompt], heads: Sequence[str], before: str = "") -> PromptSet:
    """Some questions as one, each behind its head. Static parts stay first; equal contexts are
    merged.
    """
    items = [joined(text(head), prompt.item) for head, prompt in zip(heads, prompts, strict=True)]
    item = items[0]
    for more in items[1:]:
        item = joined(item, text("\n\n"), more)
    contexts = list(dict.fromkeys(prompt.context for prompt in prompts if prompt.context))
    context = contexts[0] if contexts else Template()
    for other in contexts[1:]:
        context = joined(context, text("\n\n"), other)
    fused = replace(
        prompts[0],
        name=" + ".join(prompt.name for prompt in prompts),
        returns=tuple(answer for prompt in prompts for answer in prompt.returns),
        describe=tuple(pair for prompt in prompts for pair in prompt.describe),
        max_tokens=sum(prompt.max_tokens for prompt in prompts),
        rules=_sections(
            before, *(_headed(h, p.rules) for h, p in zip(heads, prompts, strict=True))
        ),
        examples=_sections(
            "", *(_headed(h, p.examples) for h, p in zip(heads, prompts, strict=True))
        ),
        context=context,
        item=item,
        file="",
    )
    return PromptSet((("", fused),))


def _headed(head: str, section: str) -> str:
    return f"{head.strip()}\n{section.strip()}" if section.strip() else ""


def _sections(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)
