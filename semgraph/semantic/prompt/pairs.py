"""Asking about pairs of rows, one by one or in blocks: sem_join.

A block lists its left and its right rows once each. Left numbers begin at 1, right numbers at the
next hundred, so that a model that confuses the sides, or counts for itself, is found out. Each left
row names the right rows it is to be compared with; the answer lists the matching pairs only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from semgraph.errors import RowError
from semgraph.expr.types import Type, object_schema
from semgraph.llm.base import Reply, Request
from semgraph.logical.prompt import Prompt
from semgraph.logical.semantic import Semantic
from semgraph.semantic.contract import Block, Context, Outcome, Rows, Words, apart, by_key
from semgraph.semantic.prompt.answers import (
    AnswerSchema,
    Invalid,
    free_name,
    list_of,
    number,
    parse,
)
from semgraph.semantic.prompt.budget import PromptHeader, RequestBuffer
from semgraph.semantic.prompt.builder import PromptBuilder, Work, answer_text, calls_of, halves
from semgraph.semantic.prompt.records import (
    Records,
    answer_instructions,
    instructions,
    numbered,
    paragraphs,
    question,
)

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
_SAID = ". List the pairs that match, and no others"
_NONE = "If no pair matches, the list is empty."


class _Read(NamedTuple):
    """A block's answer: values of the pairs listed rightly, pairs listed wrongly, left rows in
    doubt.
    """

    matches: dict[int, dict[str, Any]]
    wrong: set[int]
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
        self.right: list[int] = rows.items.column("right").to_pylist()  # type: ignore[assignment]
        taken = [name for name, _ in node.answers]
        self._left_key, self._right_key = free_name("left", taken), free_name("right", taken)

    def works(self, blocks: Iterable[Block]) -> Iterator[Work]:
        """Blocks as work: apart where they may not be together, and cut to fit."""
        for block in blocks:
            for together in apart(self.keys, block):
                if len(together) == 1:
                    yield Work(tuple(together))
                else:
                    yield from self._cut(together)

    def _cut(self, items: Sequence[int]) -> Iterator[Work]:
        """Whole left rows while they fit; a left row whose list does not fit alone is cut by its
        list.
        """
        lists = deque(by_key(items, self.keys.left))
        buffer: RequestBuffer | None = None
        block: list[int] = []
        seen: set[int] = set()
        while lists:
            mine = lists.popleft()
            if buffer is None:
                header = self.header(self.prompt_of(mine[0]), "block")
                buffer = self.budget.buffer(
                    header, self.keys.context(self.keys.left[mine[0]]), *_HEADINGS
                )
                seen = set()
            if buffer.takes(len(block) + len(mine), *self._lines(mine, seen)):
                block += mine
                seen.update(self.right[item] for item in mine)
                continue
            if block:
                yield Work(tuple(block))
                lists.appendleft(mine)
            elif len(mine) == 1:
                yield Work((mine[0],))
            else:
                lists.extendleft(map(list, reversed(halves(tuple(mine)))))
            buffer, block = None, []
        if block:
            yield Work(tuple(block))

    def _lines(self, mine: Sequence[int], seen: set[int]) -> list[str]:
        """What a left row and its list add to a block, at their longest numbers."""
        new = [item for item in mine if self.right[item] not in seen]
        marks = "0000, " * len(mine)
        rights = [f"0000. {self._other_record(item)}\n" for item in new]
        return [f"0000. {self.record_of(mine[0])} compare with: {marks}\n", *rights]

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
        asked = (
            question(prompt.item, _BOTH if prompt.shared_fields else _LEFT),
            question(prompt.other, _RIGHT),
        )
        how = f"{answer_instructions(entry, _SAID, sketch)}\n{_NONE}"
        system = instructions(prompt, _TASK, *asked, answer=how, singly="pair")
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
        near = list(rights)
        marks = [self._mark([rights[self.right[i]] for i in mine], len(near)) for mine in lists]
        first = {self.right[i]: i for i in reversed(work.items)}
        lefts = numbered(
            [f"{self.record_of(mine[0])} {mark}" for mine, mark in zip(lists, marks, strict=True)]
        )
        others = numbered([self._other_record(first[r]) for r in near], _first_right(lists))
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
        near = dict.fromkeys(self.right[item] for item in work.items)
        return lists, {right: number for number, right in enumerate(near, _first_right(lists))}

    def _mark(self, numbers: Sequence[int], everything: int) -> str:
        return "compare with: " + (
            "all" if len(numbers) == everything else ", ".join(map(str, sorted(numbers)))
        )

    def accept(self, work: Work, reply: Reply | RowError) -> list[Work]:
        """Keep what is good; ask again about left rows in doubt, alone, and about pairs that came
        back wrong.
        """
        if len(work.items) == 1 and self.words:
            return self.accept_word(work, reply, self.words)
        if len(work.items) == 1:
            answer = self.header(self.prompt_of(work.items[0]), "pair").answer
            return self.accept_single(work, reply, lambda text: self._read_pair(answer, text))
        calls = (*work.calls, *calls_of(reply))
        try:
            read = self._read_block(work, answer_text(reply))
        except RowError:
            return self._divided(work, calls)
        except Invalid as error:
            if error.kind == "truncated":
                return self._divided(work, calls)
            read = _Read({}, set(), {self.keys.left[item] for item in work.items})
        return self._sort_out(work, read, calls, calls_of(reply))

    def _sort_out(
        self, work: Work, read: _Read, calls: tuple[str, ...], own: tuple[str, ...]
    ) -> list[Work]:
        again: list[Work] = []
        lists = by_key(work.items, self.keys.left)
        for mine in lists:
            doubtful = self.keys.left[mine[0]] in read.doubtful
            rest = []
            for item in mine:
                if item in read.wrong:
                    again.append(Work((item,), calls=calls))
                elif item in read.matches:
                    self.outcomes[item] = Outcome({"match": True, **read.matches[item]}, None, own)
                elif doubtful:
                    rest.append(item)
                else:
                    self.outcomes[item] = Outcome({"match": False}, None, own)
            if rest and (work.alone or len(lists) == 1):
                again += [Work((item,), calls=calls) for item in rest]
            elif rest:
                again.append(Work(tuple(rest), calls=calls, alone=True))
        return again

    def _divided(self, work: Work, calls: tuple[str, ...]) -> list[Work]:
        lists = by_key(work.items, self.keys.left)
        if len(lists) == 1:
            return [Work(half, calls=calls, alone=work.alone) for half in halves(work.items)]
        parts = halves(tuple(range(len(lists))))
        return [Work(tuple(item for i in part for item in lists[i]), calls=calls) for part in parts]

    def done(self, work: Work, outcome: Outcome) -> None:
        """Keep the outcome of a pair."""
        for item in work.items:
            self.outcomes[item] = outcome

    def _read_pair(self, answer: AnswerSchema, text: str) -> dict[str, Any]:
        values = answer.read(parse(text))
        if not values["match"]:
            return {"match": False}
        for name, kind in self.node.answers:
            if values[name] is None and not kind.nullable:
                raise Invalid(f"{name} must not be null if match is true")
        return values

    def _read_block(self, work: Work, text: str) -> _Read:
        answer = self.header(self.prompt_of(work.items[0]), "block").answer
        lists, rights = self._numbers(work)
        pairs = {
            (n, rights[self.right[item]]): item for n, mine in enumerate(lists, 1) for item in mine
        }
        read = _Read({}, set(), set())
        numbers = set(rights.values())
        for entry in list_of(text, _LIST):
            sides = entry if isinstance(entry, dict) else {}
            left, right = number(sides.get(self._left_key)), number(sides.get(self._right_key))
            if left is None or right is None or not 1 <= left <= len(lists) or right not in numbers:
                raise Invalid(
                    "it names records that are not there"
                )  # it counted otherwise: trust no number
            item = pairs.get((left, right))
            if item is None:
                # The pair was not asked about, so it may have meant any other of that left row.
                read.doubtful.add(self.keys.left[lists[left - 1][0]])
            elif item in read.matches or item in read.wrong:
                read.wrong.add(item)
            else:
                try:
                    values = answer.read(entry)
                    read.matches[item] = {name: values[name] for name, _ in self.node.answers}
                except Invalid:
                    read.wrong.add(item)
        return read


def _first_right(lists: Sequence[object]) -> int:
    return (len(lists) // 100 + 1) * 100 + 1


_HEADINGS = ("Left records:\n", "Right records:\n")
