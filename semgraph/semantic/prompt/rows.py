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
from typing import TYPE_CHECKING, Any

from semgraph.errors import RowError
from semgraph.expr.types import Type, object_schema
from semgraph.llm.base import Reply, Request
from semgraph.logical.prompt import Prompt
from semgraph.logical.semantic import Semantic
from semgraph.relational.batch import dense
from semgraph.semantic.answers import Numbers, UnknownNumber, checked_numbers, numbers_of_rows
from semgraph.semantic.contract import Block, Outcome, Rows, Words, split_by_key
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
    PromptBuilder,
    PromptHeader,
    RequestBuffer,
    Work,
    answer_instructions,
    answer_text,
    calls_of,
    half,
    halved_column,
    halves,
    instructions,
    json_line,
    numbered,
    paragraphs,
    question,
)

if TYPE_CHECKING:
    from semgraph.semantic.context import Context


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


_HEADING = "Records:\n"
_TASK = "Answer for each record by itself, as if it were the only one."
_QUESTION = "The question for each record, where <field> stands for the record's value:"


class RowPrompts(PromptBuilder):
    """One row in the prompt's words, or several as numbered records."""

    def __init__(
        self, ctx: Context, node: Semantic, rows: Rows, words: Words | None = None
    ) -> None:
        super().__init__(ctx, node, rows)
        self.words = words or by_default(node, ctx.limits.yes_no)
        taken = [name for name, _ in node.answers]
        self._verdict = _verdict_of(node, taken)
        self._id, self._list = free_name("id", taken), "answers"
        numbers, first = dense(self.keys.left)
        # A row in several groups of sem_topk is sent once.
        self._first = [first[number] for number in numbers]
        self._all: dict[int, None] = {}

    async def ask(self, works: Iterable[Work]) -> None:
        """Send requests until every item has an outcome; items of one row share it."""
        await super().ask(works)
        for item in self._all:
            if self._first[item] in self.outcomes:
                self.outcomes[item] = self.outcomes[self._first[item]]

    def works(self, blocks: Iterable[Block]) -> Iterator[Work]:
        """Blocks as work, split by partition, prompt and context, and cut to fit the model."""
        seen: set[int] = set()
        for block in blocks:
            self._all |= dict.fromkeys(block)
            new = [
                item
                for item in dict.fromkeys(self._first[item] for item in block)
                if item not in seen
            ]
            seen.update(new)
            for items in split_by_key(self.keys, new):
                yield from self._cut(items)

    def _cut(self, items: Sequence[int]) -> Iterator[Work]:
        block: list[int] = []
        buffer: RequestBuffer | None = None
        for item in items if len(items) > 1 else ():
            line = f"{len(items)}. {self.record_of(item)}\n"
            if buffer is None or not buffer.takes(len(block) + 1, line):
                if block:
                    yield Work(tuple(block))
                header = self.header(self.prompt_of(item), "records")
                buffer = self.budget.buffer(
                    header, self.keys.context(self.keys.left[item]), _HEADING
                )
                block = []
                if not buffer.takes(1, line):
                    yield Work((item,))
                    buffer = None
                    continue
            block.append(item)
        rest = tuple(block) if len(items) > 1 else tuple(items)
        if rest:
            yield Work(rest)

    def make_header(self, prompt: Prompt, layout: str) -> PromptHeader:
        """Instructions for one row, or for records."""
        if layout == "row" and self.words:
            return self.word_header(prompt, self.words)
        own = AnswerSchema.of(prompt, after=self._verdict)
        if layout == "row":
            return PromptHeader(
                prompt,
                paragraphs(prompt.rules, prompt.examples, answer_instructions(own)),
                own.schema,
                own,
            )
        number_of = (self._id, Type("int64"), "the number of the record")
        entry = AnswerSchema.of(prompt, number_of, after=self._verdict)
        sketch = f'{{"{self._list}": [{entry.sketch}, ...]}}'
        answer = answer_instructions(entry, ", with one answer for every record", sketch)
        system = instructions(
            prompt, _TASK, question(prompt.item, _QUESTION), answer=answer, singly="record"
        )
        return PromptHeader(
            prompt,
            system,
            object_schema({self._list: {"type": "array", "items": entry.schema}}),
            entry,
        )

    def request(self, work: Work) -> Request:
        """The request for a row or a block."""
        item, count = work.items[0], len(work.items)
        prompt = self.prompt_of(item)
        if count == 1:
            header = self.header(prompt, "row")
            text = header.prompt.item.render(self.values_of(work))
            return self.compose_whole(work, item, header, text)
        lines = numbered(map(self.record_of, work.items))
        return self.compose(
            work, item, self.header(prompt, "records"), count, _HEADING + "\n".join(lines)
        )

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

    def accept(self, work: Work, reply: Reply | RowError) -> list[Work]:
        """Record valid answers; repeat the rest of a block one by one, or in halves if the reply is
        truncated or an error.
        """
        header = self.header(self.prompt_of(work.items[0]), "row")
        if len(work.items) == 1 and self.words:
            return self.accept_word(work, reply, self.words)
        if len(work.items) == 1:
            return self.accept_single(
                work, reply, lambda text: self._read_one(header.answer, text, work)
            )
        calls = (*work.calls, *calls_of(reply))
        try:
            valid = self._read_block(work, answer_text(reply))
        except RowError:
            return [Work(half, calls=calls) for half in halves(work.items)]
        except Invalid as error:
            if error.kind == "truncated":
                return [Work(half, calls=calls) for half in halves(work.items)]
            valid = {}
        for item, values in valid.items():
            self.outcomes[item] = Outcome(values, None, calls_of(reply))
        return [Work((item,), calls=calls) for item in work.items if item not in self.outcomes]

    def done(self, work: Work, outcome: Outcome) -> None:
        """Record the outcome of a row."""
        for item in work.items:
            self.outcomes[item] = outcome

    def _read_one(self, answer: AnswerSchema, text: str, work: Work) -> dict[str, Any]:
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

    def _read_block(self, work: Work, text: str) -> dict[int, dict[str, Any]]:
        """The valid answers of a block by item. Raises Invalid if it is not a list of answers."""
        answer = self.header(self.prompt_of(work.items[0]), "records").answer
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
        return {} if unknown and len(seen) < len(work.items) else valid


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


EARLIER = "The answer given:\n"
_REVIEW_TASK = "The question was answered already. Look for what that answer missed, and for what is wrong in it."
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
            prompt.rules,
            prompt.examples,
            prompt.reflexion or _REVIEW_TASK,
            answer_instructions(own, note),
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
