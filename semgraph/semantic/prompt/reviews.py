"""Asking again about an answer already given (sem_map): what it missed, what is wrong in it.

The row stands as in the first question, the answer given as JSON below it. For a list the model
names what is to be added, so that a long list is not copied, and cannot lose what it had; for all
else it says what the value should be.
"""

from __future__ import annotations

from collections.abc import Mapping

from semgraph.llm.base import Request
from semgraph.logical.prompt import Prompt
from semgraph.logical.semantic import Semantic
from semgraph.semantic.contract import Context, Outcome, Rows
from semgraph.semantic.prompt.answers import AnswerSchema
from semgraph.semantic.prompt.budget import PromptHeader
from semgraph.semantic.prompt.builder import Work
from semgraph.semantic.prompt.records import answer_instructions, json_line, paragraphs
from semgraph.semantic.prompt.rows import RowPrompts

GIVEN = "The answer given:\n"
_TASK = "The question was answered already. Look for what that answer missed, and for what is wrong in it."
_LISTS = "; in a list only what the answer given misses, an empty list if it misses nothing"
_REST = "; {}what the answer given says if it is right, else what is right"


class ReviewPrompts(RowPrompts):
    """One question about each answer given."""

    def __init__(
        self, ctx: Context, node: Semantic, rows: Rows, answers: Mapping[int, Outcome]
    ) -> None:
        super().__init__(ctx, node, rows)
        self._given = answers

    def make_header(self, prompt: Prompt, layout: str) -> PromptHeader:  # noqa: ARG002
        """Instructions for looking at an answer again."""
        own = AnswerSchema.of(prompt)
        lists = [kind.item is not None for _, kind in prompt.returns]
        note = _LISTS if any(lists) else ""
        if not all(lists):
            note += _REST.format("in all else " if any(lists) else "")
        system = paragraphs(
            prompt.rules, prompt.examples, prompt.reflexion or _TASK, answer_instructions(own, note)
        )
        return PromptHeader(prompt, system, own.schema, own)

    def request(self, work: Work) -> Request:
        """The request about an answer."""
        item = work.items[0]
        prompt = self.prompt_of(item)
        header = self.header(prompt, "row")
        text = header.prompt.item.render(self.records.values(self.keys.left[item], prompt))
        values = self._given[item].values or {}
        answer = json_line({name: values[name] for name, _ in self.node.answers})
        return self.compose_whole(work, item, header, text, GIVEN + answer)
