"""Trying again: which failures pass, how long to wait, and when to give up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NoReturn, ParamSpec, TypeVar

from semgraph.errors import ModelUnavailable, RowError
from semgraph.llm.base import LLM, Reply, Request
from semgraph.llm.wrapper import Wrapper

T = TypeVar("T")
P = ParamSpec("P")


class Transient(Exception):
    """One attempt failed in a way that may pass. Endpoints raise it; it never leaves the stack.

    Args:
        kind: One word: `throttled`, `server`, `timeout`, `connection`. The kind of the row's error, if it never passes.
        message: What happened, and where.
        seconds: How long the attempt took.
        retry_after: How long the endpoint asks everybody to wait, if it does.
        endpoint: Whether it is the endpoint that fails, whatever it is asked, and not this request.
    """

    def __init__(
        self, kind: str, message: str, *, seconds: float = 0.0, retry_after: float | None = None, endpoint: bool = False
    ) -> None:
        self.kind, self.seconds, self.retry_after, self.endpoint = kind, seconds, retry_after, endpoint
        super().__init__(message)


@dataclass(frozen=True)
class RetryPolicy:
    """When a failed attempt is repeated. The wait before attempt n + 1 is random, at most `first` * 2 ** (n - 1) seconds.

    Args:
        attempts: HTTP requests sent for one request, at most.
        first: The longest first wait, in seconds.
        longest: The longest wait, in seconds, unless the endpoint asks for more.
        deadline: No attempt begins after so many seconds of attempts and waits; time in the limiter's queue is not
            counted. The last attempt may take the endpoint's own timeout.
    """

    attempts: int = 10
    first: float = 0.5
    longest: float = 30.0
    deadline: float = 600.0

    def wait(self, attempt: int) -> float:
        """Seconds to wait after the failed attempt of this number, counted from 1."""
        from tenacity import RetryCallState

        state = RetryCallState(None, None, (), {})  # type: ignore[arg-type]  # only the number is read
        state.attempt_number = attempt
        return float(self._wait(state))

    @cached_property
    def _wait(self):  # type: ignore[no-untyped-def]  # noqa: ANN202  # a class of a library imported here
        from tenacity import wait_random_exponential

        return wait_random_exponential(multiplier=self.first, max=self.longest)


class Retrier:
    """Repeats attempts at one endpoint, and sees whether the endpoint answers anybody."""

    def __init__(self, name: str, policy: RetryPolicy) -> None:
        self.name, self.policy = name, policy
        self._answered = 0

    async def run(self, attempt: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> tuple[T, int]:
        """Call `attempt` until it succeeds.

        Returns:
            Its result, and how many attempts failed before.

        Raises:
            RowError: It kept failing, or failed for good; `attempts` counts all of them.
            ModelUnavailable: It kept failing, the endpoint is what fails, and it answered nobody else meanwhile.
        """
        failed, seconds, answered = 0, 0.0, self._answered
        while True:
            try:
                result = await attempt(*args, **kwargs)
            except RowError as error:
                error.attempts += failed
                raise
            except Transient as failure:
                failed += 1
                wait = max(self.policy.wait(failed), failure.retry_after or 0.0)
                seconds += failure.seconds + wait
                if failed >= self.policy.attempts or seconds > self.policy.deadline:
                    self._give_up(failure, failed, seconds - wait, answered)
                await asyncio.sleep(wait)
            else:
                self._answered += 1
                return result, failed

    def _give_up(self, failure: Transient, failed: int, seconds: float, answered: int) -> NoReturn:
        tried = f"{failed} attempt{'s' * (failed > 1)} in {seconds:.0f} s"
        if failure.retry_after is not None and seconds + failure.retry_after > self.policy.deadline:
            raise ModelUnavailable(
                f"{failure}: it asks to wait {failure.retry_after:.0f} s ({tried}, deadline "
                f"{self.policy.deadline:.0f} s). Go on later: a resumed run keeps what was answered"
            ) from failure
        if failure.endpoint and self._answered == answered:
            raise ModelUnavailable(
                f"{failure}: {tried}, and no other request was answered meanwhile. Is {self.name} up, and are the "
                "limits (rpm, tpm, in_flight) those of your account? A resumed run keeps what was answered"
            ) from failure
        raise RowError(failure.kind, f"{failure} ({tried})", attempts=failed) from failure


class Retried(Wrapper):
    """Asks again when an attempt fails in a way that may pass; the reply says how many attempts it took."""

    def __init__(self, inner: LLM, policy: RetryPolicy | None = None) -> None:
        super().__init__(inner)
        self._retrier = Retrier(inner.name, policy or RetryPolicy())

    async def complete(self, request: Request) -> Reply:
        """Answer one request, in as many attempts as the policy allows."""
        reply, failed = await self._retrier.run(self.inner.complete, request)
        return replace(reply, attempts=reply.attempts + failed) if failed else reply
