"""Prompts about rows, one or several in a request (sem_map, sem_filter, and sem_topk by scores),
also for samples and reviews of answers; about pairs (sem_join), groups (sem_agg) and windows
(sem_topk).

A review request has the row as in the first request, then the earlier answer as JSON. For a list
the model returns only additions, so that it need not copy a long list and cannot lose entries. For
other types it returns the corrected value.

A block of pairs lists each left and each right row once. Left numbers begin at 1, right numbers at
the next hundred, to detect a model that confuses the sides or renumbers the records. Each left row
names the right rows to compare; the answer lists only the matching pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

from semgraph.errors import RowError
from semgraph.expr.types import Type
from semgraph.llm.base import Reply, Request
from semgraph.logical.prompt import Prompt
from semgraph.logical.semantic import Semantic
from semgraph.relational.batch import dense
from semgraph.semantic.answers import (
    LEFT_OUT,
    AnswerSchema,
    Invalid,
    Note,
    Numbers,
    UnknownNumber,
    by_default,
    checked_numbers,
    free_name,
    list_of,
    number,
    numbers_of_rows,
    parse,
)
from semgraph.semantic.calls import NodeCalls
from semgraph.semantic.contract import Block, Outcome, Part, Ranking, Rows, Words, by_key
from semgraph.semantic.prompt.builder import (
    UNASKED,
    ItemPrompts,
    PromptBuilder,
    PromptHeader,
    Records,
    Work,
    half,
    halved_column,
    halves,
    json_line,
    lists_only,
    numbered,
    question,
    verdict_of,
)

_BEST = 100


class RowPrompts(ItemPrompts):
    """One row in the prompt's words, or several as numbered records."""

    layouts = ("row", "records")

    def __init__(
        self, ctx: NodeCalls, node: Semantic, rows: Rows, words: Words | None = None
    ) -> None:
        super().__init__(ctx, node, rows, words or by_default(node, ctx.limits.yes_no))
        taken = [name for name, _ in node.answers]
        self._verdict = verdict_of(node, taken)
        self._id, self._list = free_name("id", taken), "answers"
        numbers, first = dense(self.keys.left)
        # A row in several groups of sem_topk is sent once.
        self._first = [first[number] for number in numbers]
        self._sent: set[int] = set()

    def works(self, blocks: Iterable[Block]) -> Iterator[Work]:
        """Blocks as work, each row once."""
        for block in blocks:
            rows = dict.fromkeys(self._first[item] for item in block)
            if new := [item for item in rows if item not in self._sent]:
                self._sent.update(new)
                yield from super().works([new])

    def results(self) -> list[Outcome]:
        """The outcome of each item; items of one row share it."""
        found = {i: self.outcomes[n] for i, n in enumerate(self._first) if n in self.outcomes}
        self.outcomes = found
        return super().results()

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
        header = self.header(self.prompt_of(item), self.layouts[count > 1], work.items)
        if count == 1:
            text = header.prompt.item.render(self.values_of(work))
            return self.compose(work, item, header, row=text)
        records = numbered(map(self.record_of, work.items))
        return self.compose(work, item, header, records="\n".join(records))

    def lines(self, own: Sequence[int], shown: set[int], count: int) -> list[str]:  # noqa: ARG002
        """The record of a row."""
        return [f"{count}. {self.record_of(own[0])}\n"]

    def values_of(self, work: Work) -> dict[str, Any]:
        """The values of a row or of its half."""
        item = work.items[0]
        values = self.records.values(self.keys.left[item], self.prompt_of(item))
        if work.half and (name := halved_column(self.node, values)):
            values[name] = half(values[name], work.half)
        return values

    def overlap(self, work: Work) -> bool:
        """Whether the halves of a row, or of its half, have a sentence in common."""
        values = self.values_of(work._replace(half=()))
        value, sides = values[halved_column(self.node, values) or ""], work.half
        whole, *parts = (len(half(value, (*sides, *side))) for side in ((), (0,), (1,)))
        return sum(parts) > whole

    def parts(self, work: Work) -> list[Work]:
        """Halves of a block."""
        return [Work(part) for part in halves(work.items)]

    def unread(self, work: Work) -> list[Work]:
        """The items without an outcome, one by one."""
        return [Work((item,)) for item in work.items if item not in self.outcomes]

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

    def accept_block(self, work: Work, answer: AnswerSchema, text: str) -> list[Work]:
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
        # Some numbers are unknown and others missing: the model counted differently, so no number
        # is reliable.
        if not unknown or len(seen) == len(work.items):
            for item, values in valid.items():
                self.done(Work((item,)), Outcome(values))
        return self.unread(work)


class SamplePrompts(RowPrompts):
    """The reference's request for each row, several times, at a temperature."""

    def __init__(self, ctx: NodeCalls, node: Semantic, rows: Rows, temperature: float) -> None:
        super().__init__(ctx, node, rows)
        self.temperature = temperature
        self._samples: dict[int, dict[int, Outcome]] = {}

    def all_works(self, count: int) -> Iterator[Work]:
        """Each row alone, `count` times."""
        for work in self.works([item] for item in range(len(self.rows.items))):
            for draw in range(1, count + 1):
                yield work._replace(sample=draw)

    def samples_of(self, item: int) -> list[Outcome]:
        """The outcomes of an item, by the number of the sample."""
        if item not in self._samples:
            return [self.outcomes[item]]
        return [outcome for _, outcome in sorted(self._samples[item].items())]

    def accept_word(self, work: Work, reply: Reply | RowError, words: Words) -> list[Work]:
        """Read the sampled word, not the most probable one."""
        drawn = replace(reply, logprobs=()) if isinstance(reply, Reply) else reply
        return super().accept_word(work, drawn, words)

    def done(self, work: Work, outcome: Outcome) -> None:
        """Record the outcome of a sample."""
        super().done(work, outcome)
        for item in work.items:
            self._samples.setdefault(item, {})[work.sample] = self.outcomes[item]


class ReviewPrompts(RowPrompts):
    """One request for each earlier answer."""

    layouts = ("review", "records")

    def __init__(
        self, ctx: NodeCalls, node: Semantic, rows: Rows, answers: Mapping[int, Outcome]
    ) -> None:
        super().__init__(ctx, node, rows)
        self._answers = answers

    def all_works(self) -> Iterator[Work]:
        """The items with an answer; the other items keep their error as outcome."""
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
        sides = {self._left_key: "left", self._right_key: "right"}
        numbers = [(key, Type("int64"), f"the number of the {sides[key]} record") for key in sides]
        entry = AnswerSchema.of(prompt, *numbers)
        asked = question(prompt.item)
        both, left = (asked, "") if prompt.shared_fields else ("", asked)
        other = question(prompt.other)
        return PromptHeader.of(layout, prompt, entry, _LIST, both=both, left=left, other=other)

    def request(self, work: Work) -> Request:
        """The request for a pair or a block."""
        item, count = work.items[0], len(work.items)
        header = self.header(self.prompt_of(item), self.layouts[count > 1], work.items)
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
        lists = by_key(work.items, self.keys.left.__getitem__)
        rights = dict.fromkeys(self.right[item] for item in work.items)
        return lists, {right: number for number, right in enumerate(rights, _first_right(lists))}

    def accept_block(self, work: Work, answer: AnswerSchema, text: str) -> list[Work]:
        """Record valid answers; repeat doubtful left rows alone, and invalid pairs one by one."""
        return self._record(work, self._read_block(work, answer, text))

    def unread(self, work: Work) -> list[Work]:
        """Every left row is doubtful."""
        doubtful = {self.keys.left[item] for item in work.items}
        return self._record(work, _Read({}, set(), doubtful))

    def _record(self, work: Work, read: _Read) -> list[Work]:
        """Record the outcomes of a block, and return the work to repeat."""
        repeated: list[Work] = []
        lists = by_key(work.items, self.keys.left.__getitem__)
        for pairs in lists:
            doubtful = self.keys.left[pairs[0]] in read.doubtful
            rest = []
            for item in pairs:
                if item in read.invalid:
                    repeated.append(Work((item,)))
                elif item in read.matches:
                    self.done(Work((item,)), Outcome({"match": True, **read.matches[item]}))
                elif doubtful:
                    rest.append(item)
                else:
                    self.done(Work((item,)), Outcome({"match": False}))
            if rest and (work.alone or len(lists) == 1):
                repeated += [Work((item,)) for item in rest]
            elif rest:
                repeated.append(Work(tuple(rest), alone=True))
        return repeated

    def parts(self, work: Work) -> list[Work]:
        """Halves of the left rows of a block, or of the pairs of its only left row."""
        lists = by_key(work.items, self.keys.left.__getitem__)
        if len(lists) == 1:
            return [Work(half, alone=work.alone) for half in halves(work.items)]
        middle = (len(lists) + 1) // 2
        parts = (chain(*lists[:middle]), chain(*lists[middle:]))
        return [Work(tuple(part)) for part in parts]

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
        numbered_items = ((n, item) for n, pairs in enumerate(lists, 1) for item in pairs)
        items = {(n, rights[self.right[item]]): item for n, item in numbered_items}
        read = _Read({}, set(), set())
        numbers = set(rights.values())
        for entry in list_of(text, _LIST):
            sides = entry if isinstance(entry, dict) else {}
            left, right = number(sides.get(self._left_key)), number(sides.get(self._right_key))
            if left is None or right is None or not 1 <= left <= len(lists) or right not in numbers:
                # The model counted differently: no number is reliable.
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


_RANKING = "ranking"


class _WholePrompts(PromptBuilder):
    """Requests with one answer for several rows. The index of `outcomes` is the part or window."""

    def works(self, sets: Sequence[Sequence[int]]) -> Iterator[Work]:
        """Sets of rows as work. If the rows of a set may not share a request, the set fails."""
        for i, items in enumerate(sets):
            work = Work((i,))
            what = self.keys.mixed(items)
            if what:
                own = "name what differs in # item"
                remedy = own if what == "contexts" else "group by what they differ in"
                error = f"rows of one request have several {what}: {remedy}"
                self.fail(work, RowError("mixed", error))
            else:
                yield work


class GroupPrompts(_WholePrompts):
    """One answer for each part of a group: of its rows, of earlier answers, or of both."""

    def __init__(self, ctx: NodeCalls, node: Semantic, rows: Rows, parts: Sequence[Part]) -> None:
        super().__init__(ctx, node, rows)
        self._parts, self.size = parts, len(parts)
        self._groups = rows.groups()
        for i, part in enumerate(parts):
            earlier = (member for member in part.members if isinstance(member, Outcome))
            self.calls[i, 0] += chain.from_iterable(outcome.calls for outcome in earlier)

    def all_works(self) -> Iterator[Work]:
        """The parts as work."""
        return self.works([self._groups[part.group] for part in self._parts])

    def make_header(self, prompt: Prompt, layout: str) -> PromptHeader:
        """Instructions for rows, or for rows and earlier answers."""
        return PromptHeader.of("group", prompt, AnswerSchema.of(prompt), parts=layout == "parts")

    def request(self, work: Work) -> Request:
        """The request for a part. Raises TooLong."""
        part = self._parts[work.items[0]]
        earlier = any(isinstance(member, Outcome) for member in part.members)
        item = self._groups[part.group][0]
        header = self.header(self.prompt_of(item), "parts" if earlier else "rows")
        members = half(part.members, work.half) if lists_only(self.node) else part.members
        lines = numbered(map(self._record, members))
        return self.compose(work, item, header, records="\n".join(lines))

    def _record(self, member: int | Outcome) -> str:
        if not isinstance(member, Outcome):
            return self.record_of(member)
        values: Mapping[str, Any] = member.values or {}
        return f"part {json_line({name: values[name] for name, _ in self.node.answers})}"

    def accept(self, work: Work, reply: Reply | RowError) -> list[Work]:
        """Record the answer for a part."""
        first = self._groups[self._parts[work.items[0]].group][0]
        answer, note = self.header(self.prompt_of(first), "rows").answer, self.ctx.note
        return self.accept_single(work, reply, lambda text: answer.read(parse(text), note))

    def items_of(self, work: Work) -> Iterable[int]:
        """The rows of a part."""
        members = self._parts[work.items[0]].members
        return (member for member in members if isinstance(member, int))


class WindowPrompts(_WholePrompts):
    """A ranking of the rows of each window."""

    def __init__(
        self, ctx: NodeCalls, node: Semantic, rows: Rows, windows: Sequence[Block]
    ) -> None:
        super().__init__(ctx, node, rows)
        self._windows, self.size = windows, len(windows)

    def items_of(self, work: Work) -> Iterable[int]:
        """The rows of a window."""
        return self._windows[work.items[0]]

    def all_works(self) -> Iterator[Work]:
        """The windows as work."""
        return self.works(self._windows)

    def make_header(self, prompt: Prompt, layout: str) -> PromptHeader:
        """Instructions for a window."""
        own = AnswerSchema(
            ((_RANKING, Type("list", item=Type("int64"))),),
            ((_RANKING, "the numbers of all records, each once, the best first"),),
        )
        return PromptHeader.of(layout, prompt, own)

    def request(self, work: Work) -> Request:
        """The request for a window. Raises TooLong."""
        window = self._windows[work.items[0]]
        header = self.header(self.prompt_of(window[0]), "window", window)
        lines = numbered(map(self.record_of, window))
        return self.compose(work, window[0], header, records="\n".join(lines))

    def accept(self, work: Work, reply: Reply | RowError) -> list[Work]:
        """Record the ranking of a window."""
        window, note = self._windows[work.items[0]], self.ctx.note
        return self.accept_single(work, reply, lambda text: _ranking(window, text, note))

    async def rankings(self, outcomes: Sequence[Outcome]) -> list[Ranking]:
        """The rankings of the windows, in order.

        If one row may have made a window fail, its rows are sent alone.
        """
        windows = list(zip(self._windows, outcomes, strict=True))
        doubtful = dict[int, None]()
        for window, outcome in windows:
            if len(window) > 1 and outcome.error and _kind(outcome) not in _WHOLE_WINDOW:
                doubtful |= dict.fromkeys(window)
        alone = await self._alone(list(doubtful))
        for window, outcome in windows:
            if outcome.error and (len(window) == 1 or _kind(outcome) == UNASKED):
                alone |= dict.fromkeys(window, outcome)
        return [_ranked(window, outcome, alone) for window, outcome in windows]

    async def _alone(self, items: Sequence[int]) -> dict[int, Outcome]:
        """The outcomes of items that are sent alone.

        The rows of a window that was too long are measured but not sent.
        """
        single = WindowPrompts(self.ctx, self.node, self.rows, [[item] for item in items])
        single.nearest = self.nearest
        outcomes = enumerate(self._windows)
        long = [window for i, window in outcomes if _kind(self.outcomes[i]) == "too_long"]
        measured, works = set(chain(*long)), [Work((i,)) for i in range(len(items))]
        for _ in single.requests([w for w in works if items[w.items[0]] in measured], []):
            pass  # rows that are too long fail
        await single.send_all(work for work in works if items[work.items[0]] not in measured)
        return {items[i]: outcome for i, outcome in single.outcomes.items()}


# Errors that no single row causes. In a dry run every row has an error.
_WHOLE_WINDOW = {"invalid", "truncated", "mixed", UNASKED}


def _kind(outcome: Outcome) -> str:
    """The kind of an error; "" for an answer."""
    return (outcome.error or "").partition(":")[0]


def _ranked(window: Block, outcome: Outcome, alone: Mapping[int, Outcome]) -> Ranking:
    """The ranking of a window; if it failed, with the outcomes of its items that were sent alone."""
    if outcome.values is not None:
        return Ranking(outcome.values[_RANKING], None, outcome.calls)
    own = {item: alone[item] for item in window if item in alone}
    faulty = {item: each for item, each in own.items() if each.error}
    calls = chain(outcome.calls, *(own[item].calls for item in own if item not in faulty))
    return Ranking(None, outcome.error, tuple(calls), faulty)


def _ranking(window: Block, text: str, note: Note) -> dict[str, Any]:
    numbers = [number(value) or 0 for value in list_of(text, _RANKING)]
    order = [n for n in dict.fromkeys(numbers) if 1 <= n <= len(window)]
    why = f"ranking must have each number from 1 to {len(window)} once"
    if len(order) < len(window):
        raise Invalid(why)
    for _ in numbers[len(order) :]:
        note(LEFT_OUT, why)
    return {_RANKING: tuple(window[n - 1] for n in order)}
