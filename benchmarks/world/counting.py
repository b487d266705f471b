"""The counters of a server."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from benchmarks.world.protocol import Tokens


@dataclass
class Counters:
    """Counts of a server.

    Args:
        attempts: Chats received.
        batched: Chats answered in batches.
        rounds: Chats that arrived while none was in progress.
        by_question: Chats answered, right or wrong, by kind of question.
        empty: Of those, chats whose answers hold nothing at all, by kind of question.
        tokens_in: Tokens of their prompts, cached ones included.
        tokens_cached: Of those, cached.
        tokens_out: Tokens of the answers.
        embedding_calls: Requests for vectors answered.
        embedding_texts: Texts in them.
        embedding_tokens: Tokens in them.
        most_in_flight: The most chats at one time.
        abandoned: Chats that the client cancelled.
        refused: Chats refused for their rate.
        seconds: The simulated latency of all answers.
    """

    attempts: int = 0
    batched: int = 0
    rounds: int = 0
    by_question: Counter[str] = field(default_factory=Counter)
    empty: Counter[str] = field(default_factory=Counter)
    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_out: int = 0
    embedding_calls: int = 0
    embedding_texts: int = 0
    embedding_tokens: int = 0
    in_flight: int = 0
    most_in_flight: int = 0
    abandoned: int = 0
    refused: int = 0
    seconds: float = 0.0

    @property
    def calls(self) -> int:
        """Chats answered."""
        return self.by_question.total()

    def arrived(self) -> None:
        """A chat has come."""
        self.attempts += 1
        self.rounds += self.in_flight == 0
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)

    def answered(self, question: str, tokens: Tokens, text: str | None = None) -> None:
        """A chat was answered, by this text."""
        self.by_question[question] += 1
        self.empty[question] += text is not None and _is_empty(text)
        self.tokens_in += tokens.prompt
        self.tokens_cached += tokens.cached
        self.tokens_out += tokens.completion

    def embedded(self, texts: int, tokens: int) -> None:
        """Texts were embedded."""
        self.embedding_calls += 1
        self.embedding_texts += texts
        self.embedding_tokens += tokens

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        hidden = {"by_question", "empty", "in_flight"}
        shown = {name: value for name, value in vars(self).items() if name not in hidden}
        return {"calls": self.calls, "by_question": dict(self.by_question), **shown}


def _is_empty(text: str) -> bool:
    """Whether a document holds no text and no number.

    >>> _is_empty('{"answers": [{"facts": [], "summary": ""}]}'), _is_empty('{"match": false}')
    (True, False)
    """
    try:
        return not _holds(json.loads(text))
    except ValueError:
        return not text


def _holds(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(_holds, value.values() if isinstance(value, dict) else value))
    return value not in (None, "")
