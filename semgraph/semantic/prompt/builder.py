"""Rows to requests, and replies to outcomes: what all framings share.

A request is a system message (rules, examples, fixed instructions, the question, the form of the
answer: equal for all rows of a prompt, so that providers cache it) and a user message (the context,
then the row or the records).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any, NamedTuple, cast

from semgraph.errors import ModelUnavailable, RowError
from semgraph.llm.base import Message, Reply, Request
from semgraph.logical.prompt import Prompt
from semgraph.logical.semantic import Semantic
from semgraph.semantic.contract import Context, Keys, Outcome, Rows, Words
from semgraph.semantic.prompt.answers import AnswerSchema, Invalid, read_word
from semgraph.semantic.prompt.budget import PromptHeader, TokenBudget, TooLong
from semgraph.semantic.prompt.records import Records, paragraphs

_LONGEST_REASON = 160


class Work(NamedTuple):
    """One request to make: about which items, after which calls; `reason` says what was wrong with
    the last answer.
    """

    items: tuple[int, ...]
    reason: str = ""
    calls: tuple[str, ...] = ()
    alone: bool = False


class PromptBuilder(ABC):
    """Asks about the items of one relation. Subclasses say how a request looks and how a reply is
    read.

    All is worked off in rounds: each reply settles items, or gives work for the next round.
    """

    def __init__(self, ctx: Context, node: Semantic, rows: Rows) -> None:
        self.ctx, self.node, self.rows = ctx, node, rows
        self.outcomes: dict[int, Outcome] = {}
        self.budget = TokenBudget(ctx)
        self.keys = Keys(node, rows)
        own = [[(path, path) for path in prompt.item_fields] for prompt in node.prompt.all]
        self.records = Records(rows.left, own)
        self.must_be_sure = False  # whether an answer of one word needs its log-probabilities
        self.unusable = 0  # replies about several items that did not accept all of them
        self._headers: dict[tuple[int, str], PromptHeader] = {}

    async def ask(self, works: Iterable[Work]) -> None:
        """Ask, and ask again, until every item is settled."""
        todo = works
        while True:
            asked: list[Work] = []
            later: list[Work] = []
            async with aclosing(self.ctx.ask(self.requests(todo, asked))) as replies:
                async for index, reply in replies:
                    again = self.accept(asked[index], reply)
                    self.unusable += bool(again) and len(asked[index].items) > 1
                    later += again
            if not later:
                return
            todo = sorted(later)

    def requests(self, works: Iterable[Work], asked: list[Work]) -> Iterator[Request]:
        """The requests for some work, which is entered in `asked`; what does not fit the model is
        settled with an error.
        """
        for work in works:
            try:
                request = self.request(work)
            except TooLong as error:
                self.fail(work, error)
                continue
            asked.append(work)
            yield request

    def prompt_of(self, item: int) -> int:
        """The index of an item's prompt."""
        return self.rows.prompt[self.keys.left[item]]

    def record_of(self, item: int) -> str:
        """The left row of an item as a record."""
        return self.records.record(self.keys.left[item], self.prompt_of(item))

    def header(self, prompt: int, layout: str) -> PromptHeader:
        """The static part of a prompt's requests, made once."""
        header = self._headers.get((prompt, layout))
        if header is None:
            header = self._headers[prompt, layout] = self.make_header(
                self.node.prompt.all[prompt], layout
            )
        return header

    def compose(
        self, work: Work, item: int, header: PromptHeader, count: int, *texts: str
    ) -> Request:
        """The request for some work about `count` items, of which one is `item`."""
        left = self.keys.left[item]
        context = self.keys.context(left)
        again = f"Your last answer was not valid: {work.reason[:_LONGEST_REASON]}. Answer again, in the form asked for."
        user = paragraphs(header.lead, context, *texts, again if work.reason else "")
        tokens = header.answer_tokens(count, self.ctx.limits)
        request = self.ctx.request(
            header.prompt,
            header.system,
            user,
            header.schema or None,
            self.rows.partition[left],
            tokens,
        )
        return worded(request, header) if header.words else request

    def compose_whole(self, work: Work, item: int, header: PromptHeader, *texts: str) -> Request:
        """The request for what cannot be divided. Raises TooLong."""
        self.budget.require(header, 1, self.keys.context(self.keys.left[item]), *texts)
        return self.compose(work, item, header, 1, *texts)

    def word_header(self, prompt: Prompt, words: Words) -> PromptHeader:
        """The static part of requests that one word answers: the rules stand with the question, as
        in the examples.
        """
        lead = paragraphs(prompt.rules, prompt.examples)
        return PromptHeader(
            prompt, words.instruction, {}, AnswerSchema(()), words.words, words.examples, lead
        )

    def accept_word(self, work: Work, reply: Reply | RowError, words: Words) -> list[Work]:
        """Take the reply to a question that one word answers.

        Raises:
            ModelUnavailable: Log-probabilities are needed, and the endpoint gives none.
        """
        if self.must_be_sure and not getattr(reply, "logprobs", ()):
            refused = isinstance(reply, RowError) and "logprob" in str(reply).lower()
            if refused or not isinstance(reply, RowError):
                raise ModelUnavailable(self.ctx.without_logprobs())
        return self.accept_single(
            work,
            reply,
            lambda _: read_word(self.node, words, cast("Reply", reply), self.ctx.limits.yes_from),
            cut=True,
        )

    def accept_single(
        self,
        work: Work,
        reply: Reply | RowError,
        read: Callable[[str], dict[str, Any]],
        *,
        cut: bool = False,
    ) -> list[Work]:
        """Take the reply to a question with one answer: it is read, or asked once more, or an
        error.

        With `cut` it may end at the longest answer allowed.
        """
        work = work._replace(calls=(*work.calls, *calls_of(reply)))
        try:
            values = read(answer_text(reply, cut=cut))
        except Invalid as error:
            if not work.reason:
                return [work._replace(reason=str(error))]
            self.fail(work, error)
        except RowError as error:
            self.fail(work, error)
        else:
            self.done(work, Outcome(values, None, calls_of(reply)))
        return []

    def fail(self, work: Work, error: RowError | Invalid) -> None:
        """Settle some work with an error."""
        self.done(work, Outcome(None, f"{error.kind}: {error}", work.calls))

    @abstractmethod
    def make_header(self, prompt: Prompt, layout: str) -> PromptHeader:
        """The static part of a prompt's requests."""

    @abstractmethod
    def request(self, work: Work) -> Request:
        """The request for some work. Raises TooLong."""

    @abstractmethod
    def accept(self, work: Work, reply: Reply | RowError) -> list[Work]:
        """Take a reply; return what is still to be asked."""

    @abstractmethod
    def done(self, work: Work, outcome: Outcome) -> None:
        """Keep the outcome of some work."""


def worded(request: Request, header: PromptHeader) -> Request:
    """A request for one of a header's words, with its examples before the question."""
    *before, question = request.messages
    shown = [
        message
        for asked, answer in header.examples
        for message in (Message("user", asked), Message("assistant", answer))
    ]
    return replace(request, messages=(*before, *shown, question), words=header.words)


def answer_text(reply: Reply | RowError, *, cut: bool = False) -> str:
    """What the model said.

    Raises:
        Invalid: It was cut off.
        RowError: There is no answer, or it is a refusal.
    """
    if isinstance(reply, RowError):
        if reply.kind == "truncated":
            raise Invalid(str(reply), "truncated")
        raise reply
    if reply.finish == "length" and not cut:
        raise Invalid(f"the answer was cut at {reply.usage.completion:,} tokens", "truncated")
    if reply.finish == "refusal":
        raise RowError("refused", f"the model refused: {reply.text[:_LONGEST_REASON]}")
    return reply.text


def calls_of(reply: Reply | RowError) -> tuple[str, ...]:
    """The id of the call, where one was answered."""
    answered = reply.spent if isinstance(reply, RowError) else reply
    return (answered.call_id,) if isinstance(answered, Reply) and answered.call_id else ()


def halves(items: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Items in two parts that differ by at most one."""
    middle = (len(items) + 1) // 2
    return items[:middle], items[middle:]
