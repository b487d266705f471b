"""Prompts about pairs of rows, one by one or in blocks: sem_join.

A block lists its left and its right rows once each. Left numbers begin at 1, right numbers at the
next hundred, to detect a model that confuses the sides or renumbers the records. Each left row
names the right rows to compare it with; the answer lists the matching pairs only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

from semgraph.expr.types import Type
from semgraph.llm.base import Request
from semgraph.logical.prompt import Prompt
from semgraph.logical.semantic import Semantic
from semgraph.semantic.calls import NodeCalls
from semgraph.semantic.contract import Outcome, Rows, Words, by_key
from semgraph.semantic.prompt.answers import (
    AnswerSchema,
    Invalid,
    free_name,
    list_of,
    number,
    parse,
)
from semgraph.semantic.prompt.builder import (
    ItemPrompts,
    PromptHeader,
    Records,
    Work,
    halves,
    numbered,
    question,
)

_LIST = "matches"


class _Read(NamedTuple):
    """A block's answer: the values of valid pairs, invalid pairs, and left rows with doubtful
    answers.
    """

    matches: dict[int, dict[str, Any]]
    invalid: set[int]
    doubtful: set[int]


class PairPrompts(ItemPrompts):
    """One pair in the prompt's words, or a block of pairs as numbered records."""

    layouts = ("pair", "block")

    def __init__(
        self, ctx: NodeCalls, node: Semantic, rows: Rows, words: Words | None = None
    ) -> None:
        super().__init__(ctx, node, rows, words)
        assert rows.right is not None
        others = [
            [*((path, path) for path in p.other.fields), *p.shared_fields] for p in node.prompt.all
        ]
        self.others = Records(rows.right, others)
        self.right = rows.rights
        taken = [name for name, _ in node.answers]
        self._left_key, self._right_key = free_name("left", taken), free_name("right", taken)

    def lines(self, own: Sequence[int], shown: set[int], count: int) -> list[str]:  # noqa: ARG002
        """The record of a left row, and those of its right rows, with the longest numbers."""
        new = [item for item in own if self.right[item] not in shown]
        shown.update(self.right[item] for item in own)
        rights = [f"0000. {self._other_record(item)}\n" for item in new]
        return [f"0000. {self.record_of(own[0])} compare with: {'0000, ' * len(own)}\n", *rights]

    def _other_record(self, item: int) -> str:
        return self.others.record(self.right[item], self.prompt_of(item))

    def make_header(self, prompt: Prompt, layout: str) -> PromptHeader:
        """Instructions for one pair, or for a block."""
        sides: dict[str, Any] = {"two_sides": bool(prompt.other)}
        if layout == "pair" and self.words:
            return self.word_header("pair_word", prompt, self.words, **sides)
        if layout == "pair":
            rest = tuple((name, replace(kind, nullable=True)) for name, kind in prompt.returns)
            meaning = "true if the answer is yes or the statement holds, else false"
            own = AnswerSchema(
                (("match", Type("boolean")), *rest), (("match", meaning), *prompt.describe)
            )
            return PromptHeader.of(layout, prompt, own, answers=rest, **sides)
        numbers = ((self._left_key, "left"), (self._right_key, "right"))
        entry = AnswerSchema.of(
            prompt,
            *((key, Type("int64"), f"the number of the {side} record") for key, side in numbers),
        )
        asked = question(prompt.item)
        both, left = (asked, "") if prompt.shared_fields else ("", asked)
        other = question(prompt.other)
        return PromptHeader.of(layout, prompt, entry, _LIST, both=both, left=left, other=other)

    def request(self, work: Work) -> Request:
        """The request for a pair or a block."""
        item, count = work.items[0], len(work.items)
        header = self.header(self.prompt_of(item), self.layouts[count > 1])
        if count == 1:
            return self.compose(work, item, header, **self._pair_texts(item, header.prompt))
        lists, rights = self._numbers(work)
        first = {self.right[i]: i for i in reversed(work.items)}
        lefts = numbered(
            f"{self.record_of(pairs[0])} {_candidates([rights[self.right[i]] for i in pairs], len(rights))}"
            for pairs in lists
        )
        others = numbered([self._other_record(first[r]) for r in rights], _first_right(lists))
        texts = {"lefts": "\n".join(lefts), "rights": "\n".join(others)}
        return self.compose(work, item, header, **texts)

    def _pair_texts(self, item: int, prompt: Prompt) -> dict[str, str]:
        left, right, number = self.keys.left[item], self.right[item], self.prompt_of(item)
        if prompt.shared_fields:
            other = self.others.values(right, number)
            shared = {name: other[name] for name, _ in prompt.shared_fields}
            texts = {"left": prompt.item.render(self.records.values(left, number) | shared)}
        else:
            texts = {"left": self.records.text(left, number, prompt.item)}
        if prompt.other:
            texts["right"] = self.others.text(right, number, prompt.other)
        return texts

    def _numbers(self, work: Work) -> tuple[list[list[int]], dict[int, int]]:
        """The items of each left row, in the order of their numbers (from 1), and the number of
        each right row.
        """
        lists = by_key(work.items, self.keys.left)
        rights = dict.fromkeys(self.right[item] for item in work.items)
        return lists, {right: number for number, right in enumerate(rights, _first_right(lists))}

    def accept_block(
        self, work: Work, answer: AnswerSchema, text: str, calls: tuple[str, ...]
    ) -> list[Work]:
        """Record valid answers; repeat doubtful left rows alone, and invalid pairs one by one."""
        return self._record(work, self._read_block(work, answer, text), calls)

    def unread(self, work: Work) -> list[Work]:
        """Every left row is doubtful."""
        doubtful = {self.keys.left[item] for item in work.items}
        return self._record(work, _Read({}, set(), doubtful), ())

    def _record(self, work: Work, read: _Read, own: tuple[str, ...]) -> list[Work]:
        """Record the outcomes of a block, and return the work to repeat."""
        calls = work.calls
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

    def parts(self, work: Work) -> list[Work]:
        """Halves of the left rows of a block, or of the pairs of its only one."""
        lists = by_key(work.items, self.keys.left)
        if len(lists) == 1:
            return [Work(half, calls=work.calls, alone=work.alone) for half in halves(work.items)]
        middle = (len(lists) + 1) // 2
        parts = (chain(*lists[:middle]), chain(*lists[middle:]))
        return [Work(tuple(part), calls=work.calls) for part in parts]

    def read(self, answer: AnswerSchema, text: str, work: Work) -> dict[str, Any]:  # noqa: ARG002
        """The answer about a pair. Raises Invalid."""
        values = answer.read(parse(text), self.ctx.note)
        if not values["match"]:
            return {"match": False}
        for name, kind in self.node.answers:
            if values[name] is None and not kind.nullable:
                raise Invalid(f"{name} must not be null if match is true")
        return values

    def _read_block(self, work: Work, answer: AnswerSchema, text: str) -> _Read:
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
