"""What fits into a request: the model's window, less the answer and a reserve."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from semgraph.errors import RowError
from semgraph.llm.base import Limits
from semgraph.logical.prompt import Prompt
from semgraph.semantic.contract import Context
from semgraph.semantic.prompt.answers import AnswerSchema

RESERVE = 128
"""Tokens kept free in each request: for the model's chat template, and for the note when it is
asked again.
"""


class TooLong(RowError):
    """What would be sent does not fit the model; nothing was sent."""

    def __init__(self, sent: int, answer: int, limit: int) -> None:
        super().__init__(
            "too_long",
            f"the request has {sent:,} tokens and its answer may have {answer:,}, but the model takes {limit:,} in all. "
            "Send less of the row (cut(column, n)), lower max_tokens in the prompt, or use a model that takes more",
        )


class PromptHeader(NamedTuple):
    """The static part of a prompt's requests: system message and answer schema.

    `schema` is the JSON Schema of the whole reply. `answer` describes the reply, or where it has a
    list, the entry for one item. Where the reply is one of some `words` there is no schema,
    `examples` stand before the question, and the user message begins with `lead`.
    """

    prompt: Prompt
    system: str
    schema: dict[str, Any]
    answer: AnswerSchema
    words: tuple[str, ...] = ()
    examples: tuple[tuple[str, str], ...] = ()
    lead: str = ""

    @property
    def texts(self) -> tuple[str, ...]:
        """All that is sent with each request."""
        return (
            self.system,
            *(text for example in self.examples for text in example),
            *filter(None, [self.lead]),
        )

    def answer_tokens(self, items: int, limits: Limits) -> int:
        """The longest answer allowed for so many items: never less than the prompt allows for
        one.
        """
        if self.words:
            return 1
        most = self.prompt.max_tokens
        entry = min(most, self.answer.tokens or most)
        return min(max(most, entry * items), limits.max_output_tokens)


class TokenBudget:
    """Says whether texts fit the model. A token has at least one byte, so most texts need no
    counting.
    """

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    def buffer(self, header: PromptHeader, *texts: str) -> RequestBuffer:
        """A request to be filled, which holds the header's system message and these texts
        already.
        """
        return RequestBuffer(self, header, (*header.texts, *texts))

    def free(self, header: PromptHeader, items: int) -> int:
        """Tokens that may be sent."""
        limits = self._ctx.limits
        return limits.context_tokens - RESERVE - header.answer_tokens(items, limits)

    def require(self, header: PromptHeader, items: int, *texts: str) -> None:
        """Raise TooLong if a request of the header and these texts does not fit."""
        free, limits = self.free(header, items), self._ctx.limits
        everything = (*header.texts, *texts)
        if byte_size(everything) > free:
            tokens = self.count(everything)
            if tokens > free:
                raise TooLong(
                    tokens + RESERVE, header.answer_tokens(items, limits), limits.context_tokens
                )

    def count(self, texts: Iterable[str]) -> int:
        """Tokens of texts."""
        return sum(map(self._ctx.count_tokens, texts))


class RequestBuffer:
    """A request that is filled with texts until it is full."""

    def __init__(self, budget: TokenBudget, header: PromptHeader, texts: Sequence[str]) -> None:
        self._budget, self._header = budget, header
        self._texts = list(texts)
        self._size = byte_size(texts)
        self._tokens = 0
        self._counted = 0

    def takes(self, items: int, *texts: str) -> bool:
        """Add texts, if the request, then about so many items, still fits."""
        free = self._budget.free(self._header, items)
        size = self._size + byte_size(texts)
        if size > free:
            self._tokens += self._budget.count(self._texts[self._counted :])
            self._counted = len(self._texts)
            tokens = self._tokens + self._budget.count(texts)
            if tokens > free:
                return False
            self._tokens, self._counted = tokens, self._counted + len(texts)
        self._texts += texts
        self._size = size
        return True


def byte_size(texts: Iterable[str]) -> int:
    """Bytes of texts, with something between them."""
    return sum(len(text.encode("utf-8", "surrogatepass")) + 2 for text in texts)
