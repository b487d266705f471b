"""Several answers to the question about a row, each drawn at a temperature."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from semgraph.errors import RowError
from semgraph.llm.base import Reply
from semgraph.logical.semantic import Semantic
from semgraph.semantic.contract import Outcome, Rows, Words
from semgraph.semantic.prompt.builder import Work
from semgraph.semantic.prompt.rows import RowPrompts

if TYPE_CHECKING:
    from semgraph.semantic.context import Context


class SamplePrompts(RowPrompts):
    """The reference's request for each row, several times.

    Args:
        ctx: The context.
        node: The node.
        rows: The items.
        temperature: The temperature of the requests.
    """

    def __init__(self, ctx: Context, node: Semantic, rows: Rows, temperature: float) -> None:
        super().__init__(ctx, node, rows)
        self.temperature = temperature
        self._samples: dict[int, dict[int, Outcome]] = {}

    def all_works(self, count: int) -> Iterator[Work]:
        """Each row alone, `count` times."""
        for work in self.works([item] for item in range(self.rows.items.num_rows)):
            for number in range(1, count + 1):
                yield work._replace(sample=number)

    def samples_of(self, item: int) -> list[Outcome]:
        """The outcomes of an item, by the number of the draw."""
        if item not in self._samples:
            return [self.outcomes[item]]
        return [outcome for _, outcome in sorted(self._samples[item].items())]

    def accept_word(self, work: Work, reply: Reply | RowError, words: Words) -> list[Work]:
        """Read the word that was drawn, not the most probable one."""
        drawn = replace(reply, logprobs=()) if isinstance(reply, Reply) else reply
        return super().accept_word(work, drawn, words)

    def done(self, work: Work, outcome: Outcome) -> None:
        """Record the outcome of a draw."""
        super().done(work, outcome)
        for item in work.items:
            self._samples.setdefault(item, {})[work.sample] = outcome
