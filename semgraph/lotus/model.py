"""A model for LOTUS."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from semgraph.errors import RowError
from semgraph.llm.base import Reply, Request
from semgraph.logical.prompt import Prompt
from semgraph.lotus.bridge import Bridge, Parts
from semgraph.semantic.prompt.answers import Invalid
from semgraph.semantic.prompt.builder import RESERVE, TooLong, answer_text, byte_size, calls_of

Chat = Sequence[Mapping[str, Any]]


class Answer(NamedTuple):
    """The outcome of a prompt: a text, or `error` (a kind in one word, a colon and a message)."""

    text: str
    error: str | None
    calls: tuple[str, ...]


class Unanswered(Exception):
    """Some prompts of a batch failed, and LOTUS cannot use the rest alone: pairs (prompt, answer)."""

    def __init__(self, faults: list[tuple[Chat, Answer]]) -> None:
        self.faults = faults
        super().__init__(faults[0][1].error)


class Model:
    """A duck-typed `lotus.models.LM`: a batch of chats in, a text for each out.

    Args:
        bridge: Sends the batches.
        parts: LOTUS.
        prompt: The prompt, for role and length of answers.
        partitions: The partition of each prompt of a batch, in order; the last is repeated.
        unreadable: Returns the fault of an answer that LOTUS would replace by its default, or None.
        strict: Raise Unanswered if a prompt fails; else LOTUS gets "" for it, and `answers` has the
            error.
        shrinking: Raise Unanswered if a batch is not smaller than the one before: LOTUS's tree
            would not end.

    `answers` are those of the last batch, `calls` the ids of all calls.
    """

    model = "semgraph"

    def __init__(
        self,
        bridge: Bridge,
        parts: Parts,
        prompt: Prompt,
        partitions: Sequence[str],
        unreadable: Callable[[str], str | None] = lambda _: None,
        *,
        strict: bool = False,
        shrinking: bool = False,
    ) -> None:
        self._bridge, self._parts, self._prompt = bridge, parts, prompt
        self._partitions = partitions
        self._unreadable = unreadable
        self.strict, self._shrinking = strict, shrinking
        limits = bridge.ctx.limits
        self.max_tokens = min(prompt.max_tokens, limits.max_output_tokens)
        self.max_ctx_len = limits.context_tokens - RESERVE
        self.answers: list[Answer] = []
        self.calls: list[str] = []
        self._last: int | None = None

    def __call__(
        self, messages: Sequence[Chat], response_format: Mapping[str, Any] | None = None, **_: Any
    ) -> Any:
        """Answer a batch. Progress bars and log-probabilities are not supported."""
        if not messages:
            return self._parts.output(outputs=[], logprobs=None)
        if self._shrinking and self._last is not None and len(messages) >= self._last:
            error = f"too_long: {len(messages)} parts are too long to share a call, and so are their aggregates"
            raise Unanswered([(messages[0], Answer("", error, ()))])
        self._last = len(messages)
        requests = [self._request(i, chat, response_format) for i, chat in enumerate(messages)]
        self.answers = [self._answer(reply) for reply in self._bridge.ask(requests)]
        self.calls += [call for answer in self.answers for call in answer.calls]
        faults = [pair for pair in zip(messages, self.answers, strict=True) if pair[1].error]
        if faults and self.strict:
            raise Unanswered(faults)
        return self._parts.output(outputs=[answer.text for answer in self.answers], logprobs=None)

    def count_tokens(self, messages: Chat | str) -> int:
        """Tokens of a text; 0 for chats, which LOTUS counts for its own statistics only."""
        return self._bridge.ctx.count_tokens(messages) if isinstance(messages, str) else 0

    def is_deepseek(self) -> bool:
        """False: LOTUS's prompts for this family of models are not used."""
        return False

    def get_model_name(self) -> str:
        """A name that selects LOTUS's general parser of answers."""
        return self.model

    def _request(self, i: int, chat: Chat, schema: Mapping[str, Any] | None) -> Request | RowError:
        texts = {message["role"]: _text(message["content"]) for message in chat}
        system, user = texts.get("system", ""), texts["user"]
        ctx, free = self._bridge.ctx, self.max_ctx_len - self.max_tokens
        if byte_size((system, user)) > free:
            tokens = ctx.count_tokens(system) + ctx.count_tokens(user)
            if tokens > free:
                return TooLong(tokens + RESERVE, self.max_tokens, ctx.limits.context_tokens)
        partition = self._partitions[min(i, len(self._partitions) - 1)]
        return ctx.request(self._prompt, system, user, schema, partition, self.max_tokens)

    def _answer(self, reply: Reply | RowError) -> Answer:
        calls = calls_of(reply)
        try:
            text = answer_text(reply)
        except (RowError, Invalid) as error:
            return Answer("", f"{error.kind}: {error}", calls)
        fault = self._unreadable(text)
        if fault is not None:
            return Answer("", f"invalid: {fault}", calls)
        return Answer(text, None, calls)


def _text(content: str | Sequence[Mapping[str, Any]]) -> str:
    """Join a message: LOTUS writes some as lists of texts."""
    return content if isinstance(content, str) else "".join(part["text"] for part in content)
