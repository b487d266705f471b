"""Rows to requests, and replies to outcomes: what all framings share.

A request is a system message (rules, examples, then fixed instructions, the question and the form of the answer: equal for
all rows of a prompt, so that providers cache it) and a user message (the context, then the row or the records). In records
values are JSON on one line, so that no text in a row can pass for another record or for an instruction between them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

import pyarrow as pa

from semgraph.errors import RowError
from semgraph.expr.functions import canonical_json
from semgraph.llm.base import Reply, Request
from semgraph.logical.prompt import Prompt, Template, plain
from semgraph.logical.semantic import Semantic
from semgraph.physical.blocks import Keys
from semgraph.physical.contract import Context, Rows
from semgraph.physical.forms import Invalid

RESERVE = 128
"""Tokens kept free in each request: for the model's chat template, and for the note when it is asked again."""

_LONGEST_REASON = 160
_NUMBERED = "Numbered records follow, each on a line of its own, as a JSON object."


class Work(NamedTuple):
    """One request to make: about which items, after which calls; `reason` says what was wrong with the last answer."""

    items: tuple[int, ...]
    reason: str = ""
    calls: tuple[str, ...] = ()
    alone: bool = False


class Sheet(NamedTuple):
    """What is equal in all requests of one prompt: the system message, and the JSON Schema of the answer."""

    prompt: Prompt
    system: str
    schema: dict[str, Any]


class TooLong(Exception):
    """What would be sent does not fit the model."""

    def __init__(self, sent: int, answer: int, limit: int) -> None:
        super().__init__(
            f"the request has {sent:,} tokens and its answer may have {answer:,}, but the model takes {limit:,} in all. "
            "Send less of the row (cut(column, n)), lower max_tokens in the prompt, or use a model that takes more"
        )


class Room:
    """Counts whether texts fit the model. A token has at least one byte, so most texts need no counting."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._limits = ctx.limits

    def answer(self, prompt: Prompt, items: int) -> int:
        """The longest answer allowed for so many items."""
        return min(prompt.max_tokens * items, self._limits.max_output_tokens)

    def load(self, prompt: Prompt, *texts: str) -> Load:
        """A request to be filled, which holds these texts already."""
        return Load(self, prompt, texts)

    def free(self, prompt: Prompt, items: int) -> int:
        """Tokens that may be sent."""
        return self._limits.context_tokens - RESERVE - self.answer(prompt, items)

    def require(self, prompt: Prompt, items: int, *texts: str) -> None:
        """Raise TooLong if a request of these texts does not fit."""
        free = self.free(prompt, items)
        if _bytes(texts) > free:
            tokens = self.count(texts)
            if tokens > free:
                raise TooLong(tokens + RESERVE, self.answer(prompt, items), self._limits.context_tokens)

    def count(self, texts: Iterable[str]) -> int:
        """Tokens of texts."""
        return sum(map(self._ctx.count_tokens, texts))


class Load:
    """A request that is filled with texts until it is full."""

    def __init__(self, room: Room, prompt: Prompt, texts: Sequence[str]) -> None:
        self._room, self._prompt = room, prompt
        self._texts = list(texts)
        self._size = _bytes(texts)
        self._tokens = 0
        self._counted = 0

    def takes(self, items: int, *texts: str) -> bool:
        """Add texts if the request, then about so many items, still fits."""
        free = self._room.free(self._prompt, items)
        size = self._size + _bytes(texts)
        if size > free:
            self._tokens += self._room.count(self._texts[self._counted :])
            self._counted = len(self._texts)
            tokens = self._tokens + self._room.count(texts)
            if tokens > free:
                return False
            self._tokens, self._counted = tokens, self._counted + len(texts)
        self._texts += texts
        self._size = size
        return True


def _bytes(texts: Iterable[str]) -> int:
    return sum(len(text.encode("utf-8", "surrogatepass")) + 1 for text in texts)


class Records:
    """Rows as a prompt's template shows them: rendered, or as JSON records of the template's fields."""

    def __init__(self, table: pa.Table, templates: Sequence[Template]) -> None:
        paths = dict.fromkeys(path for template in templates for path in template.fields)
        self._columns = {path: table.column(path).to_pylist() for path in paths}
        self._shown: dict[tuple[int, int, bool], str] = {}
        self._templates = templates

    def text(self, row: int, prompt: int) -> str:
        """The row in the template's words."""
        return self._once(row, prompt, record=False)

    def record(self, row: int, prompt: int) -> str:
        """The row as JSON on one line."""
        return self._once(row, prompt, record=True)

    def _once(self, row: int, prompt: int, *, record: bool) -> str:
        key = (row, prompt, record)
        found = self._shown.get(key)
        if found is None:
            template = self._templates[prompt]
            values = {path: self._columns[path][row] for path in template.fields}
            found = json_line(values) if record else template.render(values).strip()
            self._shown[key] = found
        return found


def json_line(values: Mapping[str, Any]) -> str:
    """Values as one line of JSON, in their order."""
    inner = ",".join(f"{canonical_json(name)}:{canonical_json(plain(value))}" for name, value in values.items())
    # JSON leaves these as they are, but a reader takes them for the end of a line.
    return "{" + inner.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").replace("\x85", "\\u0085") + "}"


def numbered(records: Iterable[str], first: int = 1, marks: Iterable[str] | None = None) -> list[str]:
    """Lines `1. {...}`, each with a mark at its end where there are marks."""
    lines = [f"{number}. {record}" for number, record in enumerate(records, first)]
    return lines if marks is None else [f"{line} {mark}" for line, mark in zip(lines, marks, strict=True)]


def static(prompt: Prompt, *instructions: str) -> str:
    """The system message: rules and examples of the prompt, then instructions."""
    return "\n\n".join(part.strip() for part in (prompt.rules, prompt.examples, *instructions) if part.strip())


def question(template: Template, said: str) -> str:
    """A question with field names for values, after what is said of it; nothing where it is only values."""
    words = "".join(text for text, _ in template.parts)
    return f"{said}\n{template.question().strip()}" if any(c.isalnum() for c in words) else ""


def answer_text(reply: Reply | RowError) -> str:
    """What the model said.

    Raises:
        Invalid: It was cut off.
        RowError: There is no answer, or it is a refusal.
    """
    if isinstance(reply, RowError):
        if reply.kind == "truncated":
            raise Invalid(str(reply), "truncated")
        raise reply
    if reply.finish == "length":
        raise Invalid(f"the answer was cut at {reply.usage.completion:,} tokens", "truncated")
    if reply.finish == "refusal":
        raise RowError("refused", f"the model refused: {reply.text[:_LONGEST_REASON]}", attempts=reply.attempts)
    return reply.text


def calls_of(reply: Reply | RowError) -> tuple[str, ...]:
    """The id of the call, where one was answered."""
    if isinstance(reply, RowError):
        reply = reply.spent
    return (reply.call_id,) if isinstance(reply, Reply) and reply.call_id else ()


def described(error: Exception) -> str:
    """An error as the answer table has it: kind, colon, what happened."""
    kind = "too_long" if isinstance(error, TooLong) else getattr(error, "kind", "invalid")
    return f"{kind}: {error}"


class Framing(ABC):
    """Asks about the items of one relation. Subclasses say how a request looks and how a reply is read.

    Everything is worked off in rounds: each reply settles items, or gives more work for the next round.
    """

    def __init__(self, ctx: Context, node: Semantic, rows: Rows) -> None:
        self.ctx, self.node, self.rows = ctx, node, rows
        self.room = Room(ctx)
        self.keys = Keys(node, rows)
        self.prompts = node.prompt.all
        self.records = Records(rows.left, [prompt.item for prompt in self.prompts])
        self._sheets: dict[tuple[int, str], Sheet] = {}

    async def ask(self, works: Iterable[Work]) -> None:
        """Ask, and ask again, until every item is settled."""
        todo = works
        while True:
            asked: list[Work] = []
            later: list[Work] = []
            async with aclosing(self.ctx.ask(self._requests(todo, asked))) as replies:
                async for index, reply in replies:
                    later += self.settle(asked[index], reply)
            if not later:
                return
            todo = sorted(later)

    def _requests(self, works: Iterable[Work], asked: list[Work]) -> Iterator[Request]:
        for work in works:
            try:
                request = self.request(work)
            except TooLong as error:
                self.fail(work, error)
                continue
            asked.append(work)
            yield request

    def sheet(self, prompt: int, form: str) -> Sheet:
        """The static part of a prompt's requests, made once."""
        found = self._sheets.get((prompt, form))
        if found is None:
            found = self._sheets[prompt, form] = self.make_sheet(self.prompts[prompt], form)
        return found

    def compose(self, item: int, sheet: Sheet, count: int, reason: str, *texts: str) -> Request:
        """A request about `count` items, of which one is `item`. Raises TooLong."""
        left = self.keys.left[item]
        context = self.keys.context(left)
        self.room.require(sheet.prompt, count, sheet.system, context, *texts)
        user = "\n\n".join(text for text in (context, *texts) if text)
        if reason:
            user += (
                f"\n\nYour last answer was not valid: {reason[:_LONGEST_REASON]}. Answer again, in the form asked for."
            )
        tokens = self.room.answer(sheet.prompt, count)
        return self.ctx.request(
            sheet.prompt, sheet.system, user, sheet.schema, self.rows.partition[left], max_tokens=tokens
        )

    @abstractmethod
    def make_sheet(self, prompt: Prompt, form: str) -> Sheet:
        """The static part of a prompt's requests."""

    @abstractmethod
    def request(self, work: Work) -> Request:
        """The request for some work. Raises TooLong."""

    @abstractmethod
    def settle(self, work: Work, reply: Reply | RowError) -> list[Work]:
        """Take a reply; return what is still to be asked."""

    @abstractmethod
    def fail(self, work: Work, error: Exception) -> None:
        """Settle items with an error."""


def records_after(instruction: str) -> str:
    """How a request with numbered records begins."""
    return f"{_NUMBERED} {instruction}"
