"""Reviews of earlier answers (sem_map).

A request has the row as in the first request, then the earlier answer as JSON. For a list the model
returns additions, so that a long list is not copied and cannot lose entries; for everything else it
returns the corrected value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from semgraph.llm.base import Request
from semgraph.logical.prompt import Prompt
from semgraph.logical.semantic import Semantic
from semgraph.semantic.contract import Outcome, Rows
from semgraph.semantic.prompt.answers import AnswerSchema
from semgraph.semantic.prompt.budget import PromptHeader
from semgraph.semantic.prompt.builder import Work
from semgraph.semantic.prompt.records import answer_instructions, json_line, paragraphs
from semgraph.semantic.prompt.rows import RowPrompts

if TYPE_CHECKING:
    from semgraph.semantic.context import Context

EARLIER = "The answer given:\n"
_TASK = "The question was answered already. Look for what that answer missed, and for what is wrong in it."
_LISTS = "; in a list only what the answer given misses, an empty list if it misses nothing"
_REST = "; {}what the answer given says if it is right, else what is right"


class ReviewPrompts(RowPrompts):
    """One request for each earlier answer."""

    def __init__(
        self, ctx: Context, node: Semantic, rows: Rows, answers: Mapping[int, Outcome]
    ) -> None:
        super().__init__(ctx, node, rows)
        self._answers = answers

    def all_works(self) -> Iterator[Work]:
        """The items with an answer; the outcome of the others is their error."""
        for item, answer in self._answers.items():
            if answer.values is None:
                self.outcomes[item] = answer
            else:
                yield Work((item,))

    def make_header(self, prompt: Prompt, layout: str) -> PromptHeader:  # noqa: ARG002
        """Instructions for the review of an answer."""
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
        """The request for the review of an answer."""
        item = work.items[0]
        prompt = self.prompt_of(item)
        header = self.header(prompt, "row")
        text = header.prompt.item.render(self.values_of(work))
        values = self._answers[item].values or {}
        answer = json_line({name: values[name] for name, _ in self.node.answers})
        return self.compose_whole(work, item, header, text, EARLIER + answer)
