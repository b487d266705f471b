"""Prompts about rows, one or several in a request: sem_map, sem_filter, and sem_topk by scores;
samples of answers, and reviews of them.

A review has the row as in the first request, then the earlier answer as JSON. For a list the model
returns additions, so that a long list is not copied and cannot lose entries; for everything else it
returns the corrected value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from semgraph.errors import RowError
from semgraph.expr.types import Type
from semgraph.llm.base import Reply, Request
from semgraph.logical.prompt import Prompt
from semgraph.logical.semantic import Semantic
from semgraph.relational.batch import dense
from semgraph.semantic.answers import Numbers, UnknownNumber, checked_numbers, numbers_of_rows
from semgraph.semantic.calls import NodeCalls
from semgraph.semantic.contract import Block, Outcome, Rows, Words
from semgraph.semantic.prompt.answers import (
    AnswerSchema,
    Invalid,
    Own,
    by_default,
    free_name,
    list_of,
    number,
    parse,
)
from semgraph.semantic.prompt.builder import (
    ItemPrompts,
    PromptHeader,
    Work,
    half,
    halved_column,
    halves,
    json_line,
    numbered,
)

_VERDICTS = {
    # Small models understand yes and no, but misread a boolean called "keep" as advice about the
    # row.
    "sem_filter": ("answer", Type("enum", values=("yes", "no")), ""),
    "sem_topk": (
        "score",
        Type("double"),
        "how well it fits, from 0 (not at all) to 100 (perfectly)",
    ),
}
_BEST = 100


def _verdict_of(node: Semantic, taken: Sequence[str]) -> list[Own]:
    """The operator's own field. Answers come before it, so that a model reasons before it decides."""
    if node.keyword not in _VERDICTS:
        return []
    name, kind, meaning = _VERDICTS[node.keyword]
    return [(free_name(name, taken), kind, meaning)]


class RowPrompts(ItemPrompts):
    """One row in the prompt's words, or several as numbered records."""

    layouts = ("row", "records")

    def __init__(
        self, ctx: NodeCalls, node: Semantic, rows: Rows, words: Words | None = None
    ) -> None:
        super().__init__(ctx, node, rows, words or by_default(node, ctx.limits.yes_no))
        taken = [name for name, _ in node.answers]
        self._verdict = _verdict_of(node, taken)
        self._id, self._list = free_name("id", taken), "answers"
        numbers, first = dense(self.keys.left)
        # A row in several groups of sem_topk is sent once.
        self._first = [first[number] for number in numbers]
        self._all: dict[int, None] = {}
        self._sent: set[int] = set()

    async def ask(self, works: Iterable[Work]) -> None:
        """Send requests until every item has an outcome; items of one row share it."""
        await super().ask(works)
        for item in self._all:
            if self._first[item] in self.outcomes:
                self.outcomes[item] = self.outcomes[self._first[item]]

    def works(self, blocks: Iterable[Block]) -> Iterator[Work]:
        """Blocks as work, each row once."""
        return super().works(filter(None, map(self._unsent, blocks)))

    def _unsent(self, block: Block) -> list[int]:
        """The first items of the rows of a block that are in no work."""
        self._all |= dict.fromkeys(block)
        new = dict.fromkeys(self._first[item] for item in block)
        items = [item for item in new if item not in self._sent]
        self._sent.update(items)
        return items

    def make_header(self, prompt: Prompt, layout: str) -> PromptHeader:
        """Instructions for one row, or for records."""
        if layout == "row" and self.words:
            return self.word_header("word", prompt, self.words)
        if layout == "row":
            return PromptHeader.of(layout, prompt, AnswerSchema.of(prompt, after=self._verdict))
        number_of = (self._id, Type("int64"), "the number of the record")
        entry = AnswerSchema.of(prompt, number_of, after=self._verdict)
        return PromptHeader.of(layout, prompt, entry, self._list)

    def request(self, work: Work) -> Request:
        """The request for a row or a block."""
        item, count = work.items[0], len(work.items)
        header = self.header(self.prompt_of(item), self.layouts[count > 1])
        if count == 1:
            text = header.prompt.item.render(self.values_of(work))
            return self.compose(work, item, header, row=text)
        records = numbered(map(self.record_of, work.items))
        return self.compose(work, item, header, records="\n".join(records))

    def lines(self, own: Sequence[int], shown: set[int], count: int) -> list[str]:  # noqa: ARG002
        """The record of a row."""
        return [f"{count}. {self.record_of(own[0])}\n"]

    def values_of(self, work: Work) -> dict[str, Any]:
        """The values of a row, or of a half of it."""
        item = work.items[0]
        values = self.records.values(self.keys.left[item], self.prompt_of(item))
        if work.half and (name := halved_column(self.node, values)):
            values[name] = half(values[name], work.half)
        return values

    def overlap(self, work: Work) -> bool:
        """Whether the halves of a row, or of a half of it, have a sentence in common."""
        values = self.values_of(work._replace(half=()))
        value, sides = values[halved_column(self.node, values) or ""], work.half
        whole, *parts = (len(half(value, (*sides, *side))) for side in ((), (0,), (1,)))
        return sum(parts) > whole

    def parts(self, work: Work) -> list[Work]:
        """Halves of a block."""
        return [Work(part, calls=work.calls) for part in halves(work.items)]

    def unread(self, work: Work) -> list[Work]:
        """Items that have no outcome, one by one."""
        left = (item for item in work.items if item not in self.outcomes)
        return [Work((item,), calls=work.calls) for item in left]

    def read(self, answer: AnswerSchema, text: str, work: Work) -> dict[str, Any]:
        """The answer about a row. Raises Invalid."""
        values = answer.read(parse(text), self.ctx.note)
        return self._checked(values, work.items[0], again=not work.reason)

    def _checked(self, values: dict[str, Any], item: int, *, again: bool = True) -> dict[str, Any]:
        if self.node.keyword == "sem_filter":
            return values | {"keep": values.pop(self._verdict[0][0]) == "yes"}
        if self.node.keyword == "sem_topk" and not 0 <= values["score"] <= _BEST:
            raise Invalid(f"score must be from 0 to {_BEST}")
        if not getattr(self.node, "numbers_of", ()):
            return values
        try:
            known = self._numbers[self.keys.left[item]]
            return checked_numbers(self.node, values, known, self.ctx.note, again=again)
        except UnknownNumber as error:
            raise Invalid(str(error)) from None

    @cached_property
    def _numbers(self) -> list[Numbers]:
        """The numbers of the records of each left row."""
        return numbers_of_rows(self.node, self.rows.left)

    def accept_block(
        self, work: Work, answer: AnswerSchema, text: str, calls: tuple[str, ...]
    ) -> list[Work]:
        """Record the valid answers of a block, by the numbers of its records."""
        valid: dict[int, dict[str, Any]] = {}
        seen: set[int] = set()
        unknown = False
        for entry in list_of(text, self._list):
            position = number(entry.get(self._id)) if isinstance(entry, dict) else None
            if position is None or not 1 <= position <= len(work.items):
                unknown = True
                continue
            item = work.items[position - 1]
            if item in seen:
                valid.pop(item, None)
                continue
            seen.add(item)
            try:
                valid[item] = self._checked(answer.read(entry, self.ctx.note), item)
                del valid[item][self._id]
            except Invalid:
                continue
            except RowError as error:
                self.fail(Work((item,)), error)
        # Unknown numbers while some are missing: the model counted differently, so no number can be
        # trusted.
        if not unknown or len(seen) == len(work.items):
            for item, values in valid.items():
                self.outcomes[item] = Outcome(values, None, calls)
        return self.unread(work)


class SamplePrompts(RowPrompts):
    """The reference's request for each row, several times.

    Args:
        ctx: The context.
        node: The node.
        rows: The items.
        temperature: The temperature of the requests.
    """

    def __init__(self, ctx: NodeCalls, node: Semantic, rows: Rows, temperature: float) -> None:
        super().__init__(ctx, node, rows)
        self.temperature = temperature
        self._samples: dict[int, dict[int, Outcome]] = {}

    def all_works(self, count: int) -> Iterator[Work]:
        """Each row alone, `count` times."""
        for work in self.works([item] for item in range(self.rows.items.num_rows)):
            for draw in range(1, count + 1):
                yield work._replace(sample=draw)

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


class ReviewPrompts(RowPrompts):
    """One request for each earlier answer."""

    layouts = ("review", "records")

    def __init__(
        self, ctx: NodeCalls, node: Semantic, rows: Rows, answers: Mapping[int, Outcome]
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

    def make_header(self, prompt: Prompt, layout: str) -> PromptHeader:
        """Instructions for the review of an answer."""
        lists = [kind.item is not None for _, kind in prompt.returns]
        task = {"reflexion": prompt.reflexion, "general": not prompt.reflexion}
        task |= {"lists": any(lists), "no_lists": not any(lists)}
        task["mixed"] = any(lists) and not all(lists)
        return PromptHeader.of(layout, prompt, AnswerSchema.of(prompt), "", **task)

    def request(self, work: Work) -> Request:
        """The request for the review of an answer."""
        item = work.items[0]
        header = self.header(self.prompt_of(item), "review")
        text = header.prompt.item.render(self.values_of(work))
        values = self._answers[item].values or {}
        given = json_line({name: values[name] for name, _ in self.node.answers})
        return self.compose(work, item, header, row=text, given=given)
