"""How much is asked of an endpoint at a time: requests in flight, requests and tokens per minute, and its own wish to wait."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

from semgraph.errors import RowError
from semgraph.llm.base import LLM, Reply, Request
from semgraph.llm.retry import Transient
from semgraph.llm.tokens import prompt_tokens
from semgraph.llm.wrapper import Wrapper
from semgraph.turns import Turns

Clock = Callable[[], float]


class _Bucket:
    """A token bucket. It holds what one second brings, so that a minute never sees much more than `per_minute`."""

    def __init__(self, per_minute: float, now: float) -> None:
        self.rate = per_minute / 60
        self.capacity = max(self.rate, 1.0)
        self.level = self.capacity
        self._filled = now

    def delay(self, cost: float, now: float) -> float:
        """Seconds until `cost` may be taken. What is larger than the bucket may be taken from a full one."""
        self.level = min(self.capacity, self.level + (now - self._filled) * self.rate)
        self._filled = now
        lacking = min(cost, self.capacity) - self.level
        return lacking / self.rate if lacking > 1e-9 else 0.0

    def take(self, cost: float) -> None:
        """Take it; the level falls below zero when the cost is larger than the bucket."""
        self.level -= cost


class Limiter:
    """The limits of one endpoint, shared by all that call it, from any event loop of any thread.

    Args:
        in_flight: Requests that are sent and not yet answered, at most.
        rpm: Requests per minute, at most; None for any number.
        tpm: Tokens per minute, prompt and longest answer, at most; what an answer did not use is given back.
        clock: Seconds that never go back, whatever happens to the time of day.

    Raises:
        ValueError: One of them is not above 0.
    """

    def __init__(
        self, in_flight: int = 64, rpm: float | None = None, tpm: float | None = None, clock: Clock = time.monotonic
    ) -> None:
        for name, value in (("in_flight", in_flight), ("rpm", rpm), ("tpm", tpm)):
            if value is not None and value <= 0:
                raise ValueError(f"{name} must be above 0, not {value}")
        self._clock = clock
        self._slots, self._turn = Turns(in_flight), Turns()
        self._guard = threading.Lock()  # of the buckets
        self._requests = _Bucket(rpm, clock()) if rpm else None
        self._tokens = _Bucket(tpm, clock()) if tpm else None
        self._resume_at = clock()

    @property
    def counts_tokens(self) -> bool:
        """Whether `enter` wants to know the tokens."""
        return self._tokens is not None

    async def enter(self, tokens: int = 0) -> None:
        """Wait for a free place, first come first served. Pair it with `leave`; a cancelled wait takes nothing."""
        await self._slots.acquire()
        try:
            if self._requests or self._tokens or self._resume_at > self._clock():
                async with self._turn:
                    while (delay := self._taken(tokens)) > 0:  # noqa: ASYNC110 - it waits for time to pass
                        await asyncio.sleep(delay)
        except BaseException:
            self._slots.release()
            raise

    def leave(self, unused_tokens: int = 0) -> None:
        """Free the place, and give back the tokens that were not used."""
        if self._tokens:
            with self._guard:
                self._tokens.take(-unused_tokens)
        self._slots.release()

    def pause(self, seconds: float) -> None:
        """Let nobody in for so long: the endpoint asked for it. Who is in flight already stays."""
        self._resume_at = max(self._resume_at, self._clock() + seconds)

    def _taken(self, tokens: int) -> float:
        """Take a request with its tokens: 0, or the seconds to wait if there is no room for it."""
        with self._guard:
            now = self._clock()
            costs = [(bucket, cost) for bucket, cost in ((self._requests, 1), (self._tokens, tokens)) if bucket]
            delay = max([self._resume_at - now, *(bucket.delay(cost, now) for bucket, cost in costs)])
            if delay <= 0:
                for bucket, cost in costs:
                    bucket.take(cost)
            return delay


class Limited(Wrapper):
    """Asks no more of an endpoint than its limiter allows."""

    def __init__(self, inner: LLM, limiter: Limiter) -> None:
        super().__init__(inner)
        self.limiter = limiter

    async def complete(self, request: Request) -> Reply:
        """Answer one request when there is a place for it."""
        limiter = self.limiter
        tokens = prompt_tokens(self, request) + request.max_tokens if limiter.counts_tokens else 0
        await limiter.enter(tokens)
        used = tokens
        try:
            reply = await self.inner.complete(request)
            used = reply.usage.prompt + reply.usage.completion
        except RowError as error:
            used = error.spent.usage.prompt + error.spent.usage.completion if error.spent else 0
            raise
        except Transient as failure:
            if failure.retry_after is not None:
                limiter.pause(failure.retry_after)
            raise
        else:
            return reply
        finally:
            limiter.leave(tokens - used)
