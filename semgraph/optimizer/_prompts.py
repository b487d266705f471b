"""Prompts made of prompts: the wording of combined questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from semgraph.logical.prompt import Prompt, PromptSet, Template
from semgraph.logical.semantic import Semantic
from semgraph.optimizer._patterns import PlanFacts


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
