"""Prompts about pairs of rows, one by one or in blocks: sem_join.

A block lists its left and its right rows once each. Left numbers begin at 1, right numbers at the
next hundred, to detect a model that confuses the sides or renumbers the records. Each left row
names the right rows to compare it with; the answer lists the matching pairs only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from semgraph.errors import RowError
from semgraph.expr.types import Type, object_schema
from semgraph.llm.base import Reply, Request
from semgraph.logical.prompt import Prompt
from semgraph.logical.semantic import Semantic
from semgraph.semantic.contract import Block, Outcome, Rows, Words, by_key, split_by_key
from semgraph.semantic.prompt.answers import (
    AnswerSchema,
    Invalid,
    free_name,
    list_of,
    number,
    parse,
)
from semgraph.semantic.prompt.builder import (
    PromptBuilder,
    PromptHeader,
    Records,
    RequestBuffer,
    Work,
    answer_instructions,
    answer_text,
    calls_of,
    halves,
    instructions,
    numbered,
    paragraphs,
    question,
)

if TYPE_CHECKING:
    from semgraph.semantic.context import Context

_TASK = (
    'For each left record, find the right records that match it, among those that are named after its "compare with". '
    "A pair matches if the answer to the question about it is yes. Judge each pair as if it were the only one."
)
_BOTH = (
    "The question for each pair, where <field> stands for the value in its left or right record:"
)
_LEFT = "About a left record, where <field> stands for its value:"
_RIGHT = "About a right record, where <field> stands for its value:"
_LIST = "matches"
_MATCHES_ONLY = ". List the pairs that match, and no others"
_NONE = "If no pair matches, the list is empty."


class _Read(NamedTuple):
    """A block's answer: the values of valid pairs, invalid pairs, and left rows with doubtful
    answers.
    """

    matches: dict[int, dict[str, Any]]
    invalid: set[int]
    doubtful: set[int]


class PairPrompts(PromptBuilder):
    """One pair in the prompt's words, or a block of pairs as numbered records."""

    def __init__(
        self, ctx: Context, node: Semantic, rows: Rows, words: Words | None = None
    ) -> None:
        super().__init__(ctx, node, rows)
        self.words = words
        assert rows.right is not None
        others = [
            [*((path, path) for path in p.other.fields), *p.shared_fields] for p in node.prompt.all
        ]
        self.others = Records(rows.right, others)
        self.right = rows.rights
        taken = [name for name, _ in node.answers]
        self._left_key, self._right_key = free_name("left", taken), free_name("right", taken)

    def works(self, blocks: Iterable[Block]) -> Iterator[Work]:
        """Blocks as work, split by partition, prompt and context, and cut to fit the model."""
        for block in blocks:
            for items in split_by_key(self.keys, block):
                if len(items) == 1:
                    yield Work(tuple(items))
                else:
                    yield from self._cut(items)

    def _cut(self, items: Sequence[int]) -> Iterator[Work]:
        """Whole left rows as long as they fit; a left row that does not fit alone is split."""
        lists = deque(by_key(items, self.keys.left))
        buffer: RequestBuffer | None = None
        block: list[int] = []
        seen: set[int] = set()
        while lists:
            pairs = lists.popleft()
            if buffer is None:
                header = self.header(self.prompt_of(pairs[0]), "block")
                buffer = self.budget.buffer(
                    header, self.keys.context(self.keys.left[pairs[0]]), *_HEADINGS
                )
                seen = set()
            if buffer.takes(len(block) + len(pairs), *self._lines(pairs, seen)):
                block += pairs
                seen.update(self.right[item] for item in pairs)
                continue
            if block:
                yield Work(tuple(block))
                lists.appendleft(pairs)
            elif len(pairs) == 1:
                yield Work((pairs[0],))
            else:
                lists.extendleft(map(list, reversed(halves(tuple(pairs)))))
            buffer, block = None, []
        if block:
            yield Work(tuple(block))

    def _lines(self, pairs: Sequence[int], seen: set[int]) -> list[str]:
        """The lines that the pairs of a left row add to a block, with the longest numbers."""
        new = [item for item in pairs if self.right[item] not in seen]
        numbers = "0000, " * len(pairs)
        rights = [f"0000. {self._other_record(item)}\n" for item in new]
        return [f"0000. {self.record_of(pairs[0])} compare with: {numbers}\n", *rights]

    def _other_record(self, item: int) -> str:
        return self.others.record(self.right[item], self.prompt_of(item))

    def make_header(self, prompt: Prompt, layout: str) -> PromptHeader:
        """Instructions for one pair, or for a block."""
        if layout == "pair" and self.words:
            return self.word_header(prompt, self.words)
        if layout == "pair":
            rest = tuple((name, replace(kind, nullable=True)) for name, kind in prompt.returns)
            meaning = "true if the answer is yes or the statement holds, else false"
            own = AnswerSchema(
                (("match", Type("boolean")), *rest), (("match", meaning), *prompt.describe)
            )
            note = "; what follows match is null if match is false" if rest else ""
            return PromptHeader(
                prompt,
                paragraphs(prompt.rules, prompt.examples, answer_instructions(own, note)),
                own.schema,
                own,
            )
        sides = ((self._left_key, "left"), (self._right_key, "right"))
        entry = AnswerSchema.of(
            prompt,
            *((key, Type("int64"), f"the number of the {side} record") for key, side in sides),
        )
        sketch = f'{{"{_LIST}": [{entry.sketch}, ...]}}'
        questions = (
            question(prompt.item, _BOTH if prompt.shared_fields else _LEFT),
            question(prompt.other, _RIGHT),
        )
        answer = f"{answer_instructions(entry, _MATCHES_ONLY, sketch)}\n{_NONE}"
        system = instructions(prompt, _TASK, *questions, answer=answer, singly="pair")
        return PromptHeader(
            prompt, system, object_schema({_LIST: {"type": "array", "items": entry.schema}}), entry
        )

    def request(self, work: Work) -> Request:
        """The request for a pair or a block."""
        item = work.items[0]
        prompt = self.prompt_of(item)
        if len(work.items) == 1:
            header = self.header(prompt, "pair")
            return self.compose_whole(work, item, header, *self._pair_texts(item, header.prompt))
        lists, rights = self._numbers(work)
        first = {self.right[i]: i for i in reversed(work.items)}
        lefts = numbered(
            f"{self.record_of(pairs[0])} {_candidates([rights[self.right[i]] for i in pairs], len(rights))}"
            for pairs in lists
        )
        others = numbered([self._other_record(first[r]) for r in rights], _first_right(lists))
        texts = (_HEADINGS[0] + "\n".join(lefts), _HEADINGS[1] + "\n".join(others))
        return self.compose(work, item, self.header(prompt, "block"), len(work.items), *texts)

    def _pair_texts(self, item: int, prompt: Prompt) -> tuple[str, ...]:
        number = self.prompt_of(item)
        other = self.others.values(self.right[item], number)
        shared = {name: other[name] for name, _ in prompt.shared_fields}
        left = prompt.item.render(self.records.values(self.keys.left[item], number) | shared)
        return (
            (f"Left record:\n{left}", f"Right record:\n{prompt.other.render(other)}")
            if prompt.other
            else (left,)
        )

    def _numbers(self, work: Work) -> tuple[list[list[int]], dict[int, int]]:
        """The items of each left row, in the order of their numbers (from 1), and the number of
        each right row.
        """
        lists = by_key(work.items, self.keys.left)
        rights = dict.fromkeys(self.right[item] for item in work.items)
        return lists, {right: number for number, right in enumerate(rights, _first_right(lists))}

    def accept(self, work: Work, reply: Reply | RowError) -> list[Work]:
        """Record valid answers; repeat doubtful left rows alone, and invalid pairs one by one."""
        if len(work.items) == 1 and self.words:
            return self.accept_word(work, reply, self.words)
        if len(work.items) == 1:
            answer = self.header(self.prompt_of(work.items[0]), "pair").answer
            return self.accept_single(work, reply, lambda text: self._read_pair(answer, text))
        calls = (*work.calls, *calls_of(reply))
        try:
            read = self._read_block(work, answer_text(reply))
        except RowError:
            return self._halved(work, calls)
        except Invalid as error:
            if error.kind == "truncated":
                return self._halved(work, calls)
            read = _Read({}, set(), {self.keys.left[item] for item in work.items})
        return self._record(work, read, calls, calls_of(reply))

    def _record(
        self, work: Work, read: _Read, calls: tuple[str, ...], own: tuple[str, ...]
    ) -> list[Work]:
        """Record the outcomes of a block, and return the work to repeat."""
        repeated: list[Work] = []
        lists = by_key(work.items, self.keys.left)
        for pairs in lists:
            doubtful = self.keys.left[pairs[0]] in read.doubtful
            rest = []
            for item in pairs:
                if item in read.invalid:
                    repeated.append(Work((item,), calls=calls))
                elif item in read.matches:
                    self.outcomes[item] = Outcome({"match": True, **read.matches[item]}, None, own)
                elif doubtful:
                    rest.append(item)
                else:
                    self.outcomes[item] = Outcome({"match": False}, None, own)
            if rest and (work.alone or len(lists) == 1):
                repeated += [Work((item,), calls=calls) for item in rest]
            elif rest:
                repeated.append(Work(tuple(rest), calls=calls, alone=True))
        return repeated

    def _halved(self, work: Work, calls: tuple[str, ...]) -> list[Work]:
        lists = by_key(work.items, self.keys.left)
        if len(lists) == 1:
            return [Work(half, calls=calls, alone=work.alone) for half in halves(work.items)]
        parts = halves(tuple(range(len(lists))))
        return [Work(tuple(item for i in part for item in lists[i]), calls=calls) for part in parts]

    def done(self, work: Work, outcome: Outcome) -> None:
        """Record the outcome of a pair."""
        for item in work.items:
            self.outcomes[item] = outcome

    def _read_pair(self, answer: AnswerSchema, text: str) -> dict[str, Any]:
        values = answer.read(parse(text), self.ctx.note)
        if not values["match"]:
            return {"match": False}
        for name, kind in self.node.answers:
            if values[name] is None and not kind.nullable:
                raise Invalid(f"{name} must not be null if match is true")
        return values

    def _read_block(self, work: Work, text: str) -> _Read:
        answer = self.header(self.prompt_of(work.items[0]), "block").answer
        lists, rights = self._numbers(work)
        items = {
            (n, rights[self.right[item]]): item
            for n, pairs in enumerate(lists, 1)
            for item in pairs
        }
        read = _Read({}, set(), set())
        numbers = set(rights.values())
        for entry in list_of(text, _LIST):
            sides = entry if isinstance(entry, dict) else {}
            left, right = number(sides.get(self._left_key)), number(sides.get(self._right_key))
            if left is None or right is None or not 1 <= left <= len(lists) or right not in numbers:
                # The model counted differently: no number can be trusted.
                raise Invalid("it names records that are not there")
            item = items.get((left, right))
            if item is None:
                # Not a candidate pair: any pair of this left row may be meant.
                read.doubtful.add(self.keys.left[lists[left - 1][0]])
            elif item in read.matches or item in read.invalid:
                read.invalid.add(item)
            else:
                try:
                    values = answer.read(entry, self.ctx.note)
                    read.matches[item] = {name: values[name] for name, _ in self.node.answers}
                except Invalid:
                    read.invalid.add(item)
        return read


def _candidates(numbers: Sequence[int], rights: int) -> str:
    names = "all" if len(numbers) == rights else ", ".join(map(str, sorted(numbers)))
    return f"compare with: {names}"


def _first_right(lists: Sequence[object]) -> int:
    return (len(lists) // 100 + 1) * 100 + 1


_HEADINGS = ("Left records:\n", "Right records:\n")
