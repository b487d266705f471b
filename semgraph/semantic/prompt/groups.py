"""Prompts about groups: one answer for a group (sem_agg), or a ranking of a window (sem_topk)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from semgraph.errors import RowError
from semgraph.expr.types import Type
from semgraph.llm.base import Reply, Request
from semgraph.logical.prompt import Prompt
from semgraph.logical.semantic import Semantic
from semgraph.semantic.calls import NodeCalls
from semgraph.semantic.contract import Block, Outcome, Part, Ranking, Rows
from semgraph.semantic.prompt.answers import (
    LEFT_OUT,
    AnswerSchema,
    Invalid,
    Note,
    list_of,
    number,
    parse,
)
from semgraph.semantic.prompt.builder import (
    UNASKED,
    PromptBuilder,
    PromptHeader,
    Work,
    half,
    json_line,
    lists_only,
    numbered,
)

_LIST = "ranking"


class _WholePrompts(PromptBuilder):
    """Requests with one answer for several rows. `outcomes` are by number of the part or window."""

    def done(self, work: Work, outcome: Outcome) -> None:
        """Record the outcome of a part or window."""
        self.outcomes[work.items[0]] = outcome

    def works(self, sets: Sequence[Sequence[int]]) -> Iterator[Work]:
        """Sets of rows as work; a set of rows that may not share a request is an error."""
        for i, items in enumerate(sets):
            work = Work((i,))
            mixed = self._mixed(items)
            if mixed:
                self.fail(work, RowError("mixed", mixed))
            else:
                yield work

    def _mixed(self, items: Sequence[int]) -> str | None:
        """The reason why rows may not share a request, or None."""
        keys = [self.keys.of(item) for item in items]
        for position, what in enumerate(("partitions", "prompts", "contexts")):
            if len({key[position] for key in keys}) > 1:
                remedy = (
                    "name what differs in # item"
                    if what == "contexts"
                    else "group by what they differ in"
                )
                return f"rows of one request have several {what}: {remedy}"
        return None


class GroupPrompts(_WholePrompts):
    """One answer for each part of a group: of its rows, of earlier answers, or of both."""

    def __init__(self, ctx: NodeCalls, node: Semantic, rows: Rows, parts: Sequence[Part]) -> None:
        super().__init__(ctx, node, rows)
        self._parts, self.size = parts, len(parts)
        self._groups = rows.groups()

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
        answer = self.header(
            self.prompt_of(self._groups[self._parts[work.items[0]].group][0]), "rows"
        ).answer
        note = self.ctx.note
        return self.accept_single(work, reply, lambda text: answer.read(parse(text), note))

    def done(self, work: Work, outcome: Outcome) -> None:
        """Record the outcome of a part with its calls and those of its members."""
        members = self._parts[work.items[0]].members
        earlier = [
            call for member in members if isinstance(member, Outcome) for call in member.calls
        ]
        super().done(work, outcome._replace(calls=tuple(dict.fromkeys((*earlier, *outcome.calls)))))

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
            ((_LIST, Type("list", item=Type("int64"))),),
            ((_LIST, "the numbers of all records, each once, the best first"),),
        )
        return PromptHeader.of(layout, prompt, own)

    def request(self, work: Work) -> Request:
        """The request for a window. Raises TooLong."""
        window = self._windows[work.items[0]]
        header = self.header(self.prompt_of(window[0]), "window")
        lines = numbered(map(self.record_of, window))
        return self.compose(work, window[0], header, records="\n".join(lines))

    def accept(self, work: Work, reply: Reply | RowError) -> list[Work]:
        """Record the ranking of a window."""
        window, note = self._windows[work.items[0]], self.ctx.note
        return self.accept_single(work, reply, lambda text: _ranking(window, text, note))

    async def rankings(self, outcomes: Sequence[Outcome]) -> list[Ranking]:
        """The rankings of the windows, in order. The rows of a window that one row may have made
        fail are sent alone.
        """
        windows = list(zip(self._windows, outcomes, strict=True))
        doubtful = [
            item
            for window, outcome in windows
            if len(window) > 1 and outcome.error and _kind(outcome) not in _WHOLE_WINDOW
            for item in window
        ]
        alone = await self._alone(list(dict.fromkeys(doubtful)))
        for window, outcome in windows:
            if outcome.error and (len(window) == 1 or _kind(outcome) == UNASKED):
                alone |= dict.fromkeys(window, outcome)
        return [
            Ranking(outcome.values[_LIST], None, outcome.calls)
            if outcome.values is not None
            else Ranking(None, outcome.error, outcome.calls, _some(alone, window))
            for window, outcome in windows
        ]

    async def _alone(self, items: Sequence[int]) -> dict[int, Outcome]:
        """The items that fail alone, with their outcomes. The rows of a window that was too long
        are measured, not sent.
        """
        single = WindowPrompts(self.ctx, self.node, self.rows, [[item] for item in items])
        measured = {
            item
            for i, window in enumerate(self._windows)
            if _kind(self.outcomes[i]) == "too_long"
            for item in window
        }
        works = [Work((i,)) for i in range(len(items))]
        for _ in single.requests([w for w in works if items[w.items[0]] in measured], []):
            pass  # those that are too long fail
        await single.ask(work for work in works if items[work.items[0]] not in measured)
        return {
            item: outcome
            for i, item in enumerate(items)
            if (outcome := single.outcomes.get(i)) and outcome.error
        }


# Errors of which no single row is the cause; those of a dry run are every row's.
_WHOLE_WINDOW = {"invalid", "truncated", "mixed", UNASKED}


def _kind(outcome: Outcome) -> str:
    """The kind of an error; "" for an answer."""
    return (outcome.error or "").partition(":")[0]


def _some(outcomes: Mapping[int, Outcome], items: Block) -> dict[int, Outcome]:
    return {item: outcomes[item] for item in items if item in outcomes}


def _ranking(window: Block, text: str, note: Note) -> dict[str, Any]:
    numbers = [number(value) or 0 for value in list_of(text, _LIST)]
    order = [n for n in dict.fromkeys(numbers) if 1 <= n <= len(window)]
    why = f"ranking must have each number from 1 to {len(window)} once"
    if len(order) < len(window):
        raise Invalid(why)
    for _ in numbers[len(order) :]:
        note(LEFT_OUT, why)
    return {_LIST: tuple(window[n - 1] for n in order)}
