"""Token budgets of requests: the model's context, less the answer and a reserve."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from semgraph.errors import RowError
from semgraph.llm.base import Limits
from semgraph.logical.prompt import Prompt
from semgraph.semantic.prompt.answers import AnswerSchema

if TYPE_CHECKING:
    from semgraph.semantic.context import Context

RESERVE = 128
"""Tokens of each request reserved for the model's chat template, and for the reason of a repeated
request.
"""


class TooLong(RowError):
    """The request does not fit the model and was not sent."""

    def __init__(self, sent: int, answer: int, limit: int) -> None:
        super().__init__(
            "too_long",
            f"the request has {sent:,} tokens and its answer may have {answer:,}, but the model takes {limit:,} in all. "
            "Send less of the row (cut(column, n)), lower max_tokens in the prompt, or use a model that takes more",
        )


class PromptHeader(NamedTuple):
    """The static part of a prompt's requests: system message and answer schema.

    `schema` is the JSON Schema of the whole reply. `answer` describes the reply, or the entry of one
    item if the reply is a list. A reply of one of the `words` has no schema: `examples` precede the
    question, and the user message begins with `lead`.
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
        """The texts of every request."""
        return (
            self.system,
            *(text for example in self.examples for text in example),
            *filter(None, [self.lead]),
        )

    def answer_tokens(self, items: int, limits: Limits) -> int:
        """The token limit of an answer about so many items, at least that of one item."""
        if self.words:
            return 1
        most = max(self.prompt.max_tokens, limits.min_output_tokens)
        entry = min(most, self.answer.tokens or most)
        return min(max(most, entry * items), limits.max_output_tokens)


class TokenBudget:
    """Checks whether texts fit the model. A token has at least one byte, so most texts need no
    tokenizer.
    """

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    def buffer(self, header: PromptHeader, *texts: str) -> RequestBuffer:
        """A request buffer that begins with the header's texts and these texts."""
        return RequestBuffer(self, header, (*header.texts, *texts))

    def free(self, header: PromptHeader, items: int) -> int:
        """Tokens available for the prompt."""
        limits = self._ctx.limits
        return limits.context_tokens - RESERVE - header.answer_tokens(items, limits)

    def require(self, header: PromptHeader, items: int, *texts: str) -> None:
        """Raise TooLong if a request of the header and these texts does not fit."""
        free, limits = self.free(header, items), self._ctx.limits
        all_texts = (*header.texts, *texts)
        if byte_size(all_texts) > free:
            tokens = self.count(all_texts)
            if tokens > free:
                raise TooLong(
                    tokens + RESERVE, header.answer_tokens(items, limits), limits.context_tokens
                )

    def count(self, texts: Iterable[str]) -> int:
        """Count the tokens of texts."""
        return sum(map(self._ctx.count_tokens, texts))


class RequestBuffer:
    """The texts of a request, up to its token budget."""

    def __init__(self, budget: TokenBudget, header: PromptHeader, texts: Sequence[str]) -> None:
        self._budget, self._header = budget, header
        self._texts = list(texts)
        self._size = byte_size(texts)
        self._tokens = 0
        self._counted = 0

    def takes(self, items: int, *texts: str) -> bool:
        """Add texts if the request, with so many items, still fits; return whether it does."""
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
    """Bytes of texts, with separators."""
    return sum(len(text.encode("utf-8", "surrogatepass")) + 2 for text in texts)
