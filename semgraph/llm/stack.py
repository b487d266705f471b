"""Wrappers around models and embedders (retry, limits, budget, roles), and their order."""

from __future__ import annotations

import asyncio
import math
import random
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NoReturn, TypeVar, cast

import numpy as np

from semgraph.errors import BudgetReached, ModelUnavailable, PlanError, RowError
from semgraph.formats import dollars, plural
from semgraph.llm.base import (
    LLM,
    Embedder,
    Embeddings,
    Payload,
    Reply,
    Request,
    Usage,
    Wrapper,
    falls_back,
)
from semgraph.llm.coalesce import Coalesced, CoalescedTexts
from semgraph.llm.faults import Transient
from semgraph.llm.journal import Journal, Journalled
from semgraph.llm.replies import checked_embeddings, checked_error, checked_reply
from semgraph.llm.tokens import PRICED, most_usage
from semgraph.telemetry import model_attributes, span
from semgraph.turns import Turns

T = TypeVar("T")
_IN_SUCCESSION = 3  # consecutive failed requests


@dataclass(frozen=True)
class RetryPolicy:
    """The retry policy of failed attempts. The wait before attempt n + 1 is a random one of up to
    `first * 2 ** (n - 1)` seconds.
    """

    attempts: int = 10  # the most HTTP requests for one request
    first: float = 0.5
    longest: float = 30.0  # seconds of every wait, unless the endpoint asks for more
    # no attempt begins after these seconds of attempts and waits, without the limiter's queue
    deadline: float = 600.0

    def wait(self, attempt: int) -> float:
        """Seconds to wait after failed attempt number `attempt`, counted from 1."""
        longest = min(self.first * 2.0 ** min(attempt - 1, 60), self.longest)
        return random.uniform(0, longest)  # noqa: S311


class Retried(Wrapper):
    """Repeats attempts that fail with `Transient`; the reply has their number. `proof` tells
    whether the endpoint answered in an earlier run.
    """

    def __init__(
        self,
        inner: LLM | Embedder,
        policy: RetryPolicy | None = None,
        proof: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        super().__init__(inner)
        self.policy, self._proof = policy or RetryPolicy(), proof
        self._answered = self._in_succession = 0
        self.failed: dict[str, int] = {}  # texts of failed requests: `_answered` at their start
        self._last: Sequence[str] = ()  # texts of the last failed request

    async def _around(self, payload: Payload, send: Callable[[], Awaitable[T]]) -> T:
        """Repeat a request until it succeeds. Texts of a failed request are sent in smaller
        requests, each with two attempts only: the endpoint may be unable to embed one of them.

        Raises:
            RowError: The request kept failing, or failed for good; `attempts` counts all attempts.
            ModelUnavailable: It kept failing for reasons that affect every request, and the
                endpoint answered no request meanwhile. Once the endpoint has answered, also in an
                earlier run, one request is no proof: three consecutive ones must fail so.
        """
        failed, seconds, answered = 0, 0.0, self._answered
        texts = () if isinstance(payload, Request) else payload
        again = bool(texts) and all(text in self.failed for text in texts)
        if again:
            answered = min(self.failed[text] for text in texts)
        most = min(self.policy.attempts, 2) if again else self.policy.attempts
        while True:
            try:
                answer = await send()
            except RowError as error:
                error.attempts += failed
                raise
            except Transient as failure:
                if failure.certain and not failed:
                    answered = self._answered
                failed += failure.attempts
                asked = failure.retry_after or 0.0
                asked = asked if failure.endpoint else min(asked, self.policy.longest)
                wait = max(self.policy.wait(failed), asked)
                seconds += failure.seconds + wait
                last = failed >= min(most, failure.fault.attempts or most)
                last |= failure.certain and not (failure.proven or self._answered)
                if last or seconds > self.policy.deadline:
                    self.failed |= dict.fromkeys(texts, answered)
                    if self._answered == answered and (not texts or texts != self._last):
                        self._in_succession += 1
                    self._last = texts
                    await self._give_up(failure, failed, seconds - wait, answered)
                await asyncio.sleep(wait)
            else:
                self._answered, self._in_succession = self._answered + 1, 0
                for text in texts if self.failed else ():
                    self.failed.pop(text, None)
                if failed and isinstance(answer, Reply | Embeddings):
                    return replace(answer, attempts=answer.attempts + failed)
                return answer

    async def _give_up(
        self, failure: Transient, failed: int, seconds: float, answered: int
    ) -> NoReturn:
        what, wait = failure.what, failure.retry_after
        tried = f"{plural(failed, 'attempt')} in {seconds:.0f} s"
        if failure.endpoint and wait is not None and seconds + wait > self.policy.deadline:
            raise ModelUnavailable(
                f"{what}: it asks to wait {wait:.0f} s ({tried}, deadline "
                f"{self.policy.deadline:.0f} s). Resume the run later: its answers are recorded"
            ) from failure
        if failure.endpoint and self._answered == answered:
            proven = failure.proven or self._answered or (self._proof and await self._proof())
            if self._in_succession >= (_IN_SUCCESSION if proven and not failure.certain else 1):
                if failure.remedy:
                    raise ModelUnavailable(str(failure)) from failure.__cause__
                raise ModelUnavailable(
                    f"{what}: {tried}, and no other request was answered meanwhile. Is {self.name} up, and are the "
                    "limits (rpm, tpm, in_flight) those of your account? A resumed run keeps its answers"
                ) from failure
        raise RowError(failure.kind, f"{what} ({tried})", attempts=failed) from failure


Clock = Callable[[], float]


class _Bucket:
    """A token bucket with a capacity of one second, so that no minute gets much more than
    `per_minute`.
    """

    def __init__(self, per_minute: float, now: float) -> None:
        self.rate = per_minute / 60
        self.capacity = max(self.rate, 1.0)
        self.level = self.capacity
        self._filled = now

    def delay(self, cost: float, now: float) -> float:
        """Seconds until `cost` may be taken. A cost larger than the bucket waits for a full one."""
        self.level = min(self.capacity, self.level + (now - self._filled) * self.rate)
        self._filled = now
        lacking = min(cost, self.capacity) - self.level
        return lacking / self.rate if lacking > 1e-9 else 0.0

    def take(self, cost: float) -> None:
        """Take a cost; the level falls below zero if it is larger than the bucket."""
        self.level -= cost


class Limiter:
    """The limits of one endpoint, shared by all its callers, from any event loop of any thread:
    sent, unanswered requests (`in_flight`), and requests and tokens per minute (None: no limit).
    Tokens are those of prompt and longest answer; unused ones are returned. Raises ValueError if a
    limit is not positive.
    """

    def __init__(
        self,
        in_flight: int = 64,
        rpm: float | None = None,
        tpm: float | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        for name, value in (("in_flight", in_flight), ("rpm", rpm), ("tpm", tpm)):
            if value is not None and value <= 0:
                raise ValueError(f"{name} must be above 0, not {value}")
        self._clock = clock
        self.slots, self._turn = Turns(in_flight), Turns()
        self._guard = threading.Lock()  # guards the buckets
        self.requests = _Bucket(rpm, clock()) if rpm else None
        self.tokens = _Bucket(tpm, clock()) if tpm else None
        self.resume_at = clock()

    @property
    def counts_tokens(self) -> bool:
        """Whether `enter` needs the number of tokens."""
        return self.tokens is not None

    async def enter(self, tokens: int = 0) -> None:
        """Wait for a free slot, first come first served. Pair it with `leave`; a cancelled wait
        takes nothing.
        """
        await self.slots.acquire()
        try:
            if self.requests or self.tokens or self.resume_at > self._clock():
                async with self._turn:
                    while (delay := self._taken(tokens)) > 0:  # noqa: ASYNC110 - it waits for time to pass
                        await asyncio.sleep(delay)
        except BaseException:
            self.slots.release()
            raise

    def enter_now(self, tokens: int = 0) -> bool:
        """Try to admit a request without waiting; if true, pair it with `leave`."""
        if not self.slots.acquire_now():
            return False
        if self._taken(tokens) <= 0:
            return True
        self.slots.release()
        return False

    def leave(self, unused_tokens: int = 0) -> None:
        """Free the slot and return unused tokens."""
        if self.tokens:
            with self._guard:
                self.tokens.take(-unused_tokens)
        self.slots.release()

    def pause(self, seconds: float) -> None:
        """Admit no request for some seconds. Requests in flight continue."""
        self.resume_at = max(self.resume_at, self._clock() + seconds)

    def _taken(self, tokens: int) -> float:
        """Try to take a request with its tokens; return the seconds to wait, or 0 if it is
        admitted.
        """
        with self._guard:
            now = self._clock()
            buckets = ((self.requests, 1), (self.tokens, tokens))
            costs = [(bucket, cost) for bucket, cost in buckets if bucket]
            delays = (bucket.delay(cost, now) for bucket, cost in costs)
            delay = max([self.resume_at - now, *delays])
            if delay <= 0:
                for bucket, cost in costs:
                    bucket.take(cost)
            return delay


class Limited(Wrapper):
    """Sends requests when the endpoint's limiter admits them, and checks that a reply is one."""

    def __init__(self, inner: LLM | Embedder, limiter: Limiter) -> None:
        super().__init__(inner)
        self.limiter = limiter

    async def _around(self, payload: Payload, send: Callable[[], Awaitable[T]]) -> T:
        """Send a request when the limiter admits it."""
        limiter = self.limiter
        tokens = _tokens(most_usage(self, payload)) if limiter.counts_tokens else 0
        await limiter.enter(tokens)
        used = tokens
        try:
            answer: Any = await send()
            if isinstance(payload, Request):
                answer = checked_reply(self.inner, payload, answer)
            elif payload:
                answer = checked_embeddings(self.inner, len(payload), answer)
            used = _tokens(_usage(answer))
        except RowError as error:
            used = _tokens(_usage(checked_error(error).spent))
            raise
        except Transient as failure:
            if failure.endpoint and failure.retry_after is not None:
                limiter.pause(failure.retry_after)
            raise
        else:
            return cast("T", answer)
        finally:
            limiter.leave(tokens - used)


def _usage(answer: object) -> Usage:
    return answer.usage if isinstance(answer, Reply | Embeddings) else Usage()


def _tokens(usage: Usage) -> int:
    return usage.prompt + usage.completion


@dataclass(frozen=True)
class Spending:
    """An amount of spending. Calls are answers; tokens are prompt and answer together."""

    calls: int = 0
    tokens: int = 0
    usd: float = 0.0

    def __add__(self, other: Spending) -> Spending:
        return Spending(self.calls + other.calls, self.tokens + other.tokens, self.usd + other.usd)

    def __sub__(self, other: Spending) -> Spending:
        return Spending(self.calls - other.calls, self.tokens - other.tokens, self.usd - other.usd)


# A limit that a request could exceed: its name, its value, and the amount spent.
Passed = tuple[str, str, str]


@dataclass(eq=False)
class Budget:
    """The limits and the spending of one run, over all its models and embedders. None: no limit."""

    max_calls: int | None = None  # answers of language models; embeddings are not calls
    max_tokens: int | None = None  # of prompts and answers, embeddings included
    max_usd: float | None = None  # under such a limit, only models with a known price can be called
    max_seconds: float | None = None  # after the creation of this object; nothing is sent later
    # another budget that each request must also fit, shared by several runs
    within: Budget | None = None
    owner: str = ""  # of the limits, for errors: ` of this server`

    def __post_init__(self) -> None:
        """Start with nothing spent."""
        self.spent = self.reserved = Spending()
        self._turn, self._charges = Turns(), Turns(0)  # runs of several threads may share it
        self._guard = threading.Lock()
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """The duration of the run so far."""
        return time.monotonic() - self._began

    @property
    def seconds_left(self) -> float | None:
        """The remaining time of the run; None: no limit."""
        return None if self.max_seconds is None else max(self.max_seconds - self.seconds, 0.0)

    def time_is_up(self, when: str) -> BudgetReached:
        """The error for work stopped by `max_seconds`; `when` describes it: `a call was under way`."""
        return BudgetReached(f"stopped while {when}: max_seconds {self.max_seconds:,g} passed")

    @property
    def counts_tokens(self) -> bool:
        """Whether a reservation needs the tokens of the prompt."""
        limited = self.max_tokens is not None or self.max_usd is not None
        return limited or (self.within is not None and self.within.counts_tokens)

    def fits(self, most: Spending) -> bool:
        """Whether a request with this maximum cost can be sent now."""
        own = not self.passed(self.spent + self.reserved + most)
        return own and (self.within is None or self.within.fits(most))

    async def reserve(self, most: Spending, what: str = "") -> None:
        """Reserve the maximum cost of a request; pair it with `charge`. `what` names the request in
        the error; "": the number of the call.

        If only the reservations of requests in flight exceed the limit, it waits for them, first
        come first served: most requests cost far less than their maximum. Raises BudgetReached if
        the request could exceed a limit, even if all requests in flight cost nothing.
        """
        if self.within is not None:
            await self.within.reserve(most, what)
        try:
            await self._reserve(most, what)
        except BaseException:
            if self.within is not None:
                self.within.charge(most, Spending())
            raise

    async def _reserve(self, most: Spending, what: str) -> None:
        async with self._turn:
            while self._charges.acquire_now():
                pass  # charges come before this request
            while not self._take(most):
                if limit := self.passed(self.spent + most):
                    calls = (self.spent + self.reserved).calls
                    raise BudgetReached(refusal(limit, what, calls, self.owner))
                await self._charges.acquire()

    def _take(self, most: Spending) -> bool:
        """Reserve an amount if it fits; return whether it did."""
        with self._guard:
            fits = not self.passed(self.spent + self.reserved + most)
            self.reserved += most if fits else Spending()
        return fits

    def reserve_now(self, most: Spending) -> bool:
        """Try to reserve a request without waiting: it must fit, and no other may wait."""
        fits = self._turn.free and self.fits(most)
        if not fits or not (self.within is None or self.within.reserve_now(most)):
            return False
        taken = self._take(most)
        if not taken and self.within is not None:
            self.within.charge(most, Spending())
        return taken

    def charge(self, most: Spending, actual: Spending) -> None:
        """Replace a reservation by the actual cost."""
        if self.within is not None:
            self.within.charge(most, actual)
        with self._guard:
            self.reserved -= most
            self.spent += actual
        self._charges.release()

    async def spend(self, most: Spending, send: Callable[[], Awaitable[T]], what: str = "") -> T:
        """Send a request of a model or an embedder, with all attempts and waits, and charge it in
        place of its reservation `most`; stop it after `max_seconds`.

        A cancelled or failed request costs nothing here, because the provider's charge is unknown.
        A failed request that was answered (`RowError.spent`) is charged. Raises BudgetReached if
        the time was up before the answer came.
        """
        actual = Spending()
        try:
            async with asyncio.timeout(self.seconds_left) as deadline:
                answer = await send()
            actual = cost_of(answer)
        except TimeoutError:
            if deadline.expired():
                when = f"waiting for {what}" if what else "a call was under way"
                raise self.time_is_up(when) from None
            raise
        except RowError as error:
            if error.spent is not None:
                actual = cost_of(error.spent)
            raise
        else:
            return answer
        finally:
            self.charge(most, actual)

    async def drained(self, work: Awaitable[T]) -> T:
        """Await work that sends requests. Before raising `BudgetReached`, wait for all other
        requests in flight, so that paid answers are recorded and counted; `max_seconds` bounds that
        wait, too.
        """
        try:
            with self._counted():
                return await work
        except BudgetReached:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.seconds_left):
                    while self._in_flight:
                        await self._idle.wait()
            raise

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self._in_flight += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._idle.set()

    def passed(self, total: Spending) -> Passed | None:
        """The first limit that a total exceeds."""
        spent = self.spent
        if self.max_calls is not None and total.calls > self.max_calls:
            return "max_calls", f"{self.max_calls:,}", f"{spent.calls:,}"
        if self.max_tokens is not None and total.tokens > self.max_tokens:
            return "max_tokens", f"{self.max_tokens:,}", f"{spent.tokens:,}"
        # The sums are floats: a billionth of a dollar over the limit is not a breach.
        if self.max_usd is not None and total.usd > self.max_usd + 1e-9:
            return "max_usd", _usd(self.max_usd), _usd(spent.usd)
        if self.max_seconds is not None and self.seconds >= self.max_seconds:
            return "max_seconds", f"{self.max_seconds:,g}", f"{self.seconds:,.0f}"
        return None

    @property
    def limits_dollars(self) -> bool:
        """Whether dollars are limited, by this budget or by its outer one."""
        return self.max_usd is not None or bool(self.within and self.within.limits_dollars)

    def require_price(self, name: str, price: float | None) -> None:
        """Refuse a limit in dollars for a model without a known price: `price` is the cost of a
        token. Raises PlanError.
        """
        if self.within is not None:
            self.within.require_price(name, price)
        if self.max_usd is not None and price is None:
            raise PlanError(
                f"max_usd {_usd(self.max_usd)} cannot be enforced: no price is known for {name}",
                there=f"{PRICED}, or [prices] in semgraph.toml",
                hint="set it, or limit max_tokens or max_calls instead",
            )


def refusal(passed: Passed, what: str, calls: int, owner: str = "") -> str:
    """The reason for not sending a request, which could exceed a limit. `calls` are spent or
    reserved; the request's name `what` and the `owner` as in `Budget`.
    """
    name, value, spent = passed
    what = what or f"call {calls + 1:,}"
    return f"stopped before {what}: it would pass {name} {value}{owner} (spent {spent})"


def _usd(amount: float) -> str:
    return dollars(amount, exact=True).removeprefix("$")


_ENOUGH = 4  # answers of a step from which its longest one says how long the next may be
_SHORTEST = 64  # tokens


class Budgeted(Wrapper):
    """Sends only requests that the budget admits. Truncated and refused answers are charged.

    The maximum cost of a request is often many times its actual cost. If the maximum no longer fits
    into a limit, the request is sent with a smaller `max_tokens`, if `shortens`: twice the longest
    answer of its step so far. If the answer is truncated there, the limit is reached.
    """

    def __init__(self, inner: LLM | Embedder, budget: Budget, *, shortens: bool = True) -> None:
        super().__init__(inner)
        self.budget, self._shortens = budget, shortens
        self._longest: dict[str, tuple[int, int]] = {}  # number of answers and the longest, by step
        self._more = 1.0  # ratio of the endpoint's prompt tokens to those counted here

    async def _around(self, payload: Payload, send: Callable[[], Awaitable[T]]) -> T:
        """Send a request that cannot exceed a limit. Raises PlanError if the budget limits dollars,
        and no price is known.
        """
        what = "the embedder's probe"
        if payload:
            self.budget.require_price(self.name, self.dollars(Usage(1, 0, 1)))
            what = "" if isinstance(payload, Request) else "the next embeddings"
        counted = most_usage(self, payload) if self.budget.counts_tokens else Usage()
        most, short = self._spending(payload, counted), self._shorter(payload)
        if short is None:
            await self.budget.reserve(most, what)
        elif await self._reserved(most, what):
            short = None
        else:
            most = self._spending(payload, replace(counted, completion=short.max_tokens))
            await self.budget.reserve(most, what)
            send = cast("Callable[[], Awaitable[T]]", partial(self.inner.complete, short))
        try:
            answer = await self.budget.spend(most, send, what)
        except RowError as error:
            self._learn(payload, counted, error.spent)
            if short is not None and error.kind == "truncated":
                cut = f"stopped at an answer that did not end within {short.max_tokens:,} tokens"
                raise BudgetReached(f"{cut}: a longer one could pass a limit") from error
            raise
        self._learn(payload, counted, answer)
        return answer

    async def _reserved(self, most: Spending, what: str) -> bool:
        """Try to reserve an amount now."""
        if self.budget.fits(most):
            with suppress(BudgetReached):
                await self.budget.reserve(most, what)
                return True
        return False

    def _shorter(self, payload: Payload) -> Request | None:
        """The request with a smaller `max_tokens`, if the length of its step's answers is known."""
        if not isinstance(payload, Request) or not self._shortens:
            return None
        answers, longest = self._longest.get(payload.step, (0, 0))
        most = max(2 * longest, _SHORTEST)
        if answers < _ENOUGH or most >= payload.max_tokens:
            return None
        return replace(payload, max_tokens=most)

    def _learn(self, payload: Payload, counted: Usage, answer: object) -> None:
        if not isinstance(answer, Reply | Embeddings) or not counted.prompt:
            return
        self._more = max(self._more, answer.usage.prompt / counted.prompt)
        if isinstance(payload, Request) and isinstance(answer, Reply) and answer.attempts:
            answers, longest = self._longest.get(payload.step, (0, 0))
            longest = max(longest, answer.usage.completion)
            self._longest[payload.step] = answers + 1, longest

    def _spending(self, payload: Payload, counted: Usage) -> Spending:
        usage = replace(counted, prompt=math.ceil(counted.prompt * self._more))
        dollars = (self.dollars(usage) or 0.0) if counted.prompt else 0.0
        return Spending(int(isinstance(payload, Request)), _tokens(usage), dollars)


class Traced(Wrapper):
    """Makes a span of each request that is sent, with all its attempts."""

    async def _around(self, payload: Payload, send: Callable[[], Awaitable[T]]) -> T:
        """Send a request in a span. The probe of the vectors' length has none."""
        if not payload:
            return await send()
        about = model_attributes(self.name)
        if isinstance(payload, Request):
            about |= {"operation": "chat", "max_tokens": payload.max_tokens, "step": payload.step}
            about["output"] = "json" if payload.schema else "text"
        else:
            about |= {"operation": "embeddings", "texts": len(payload)}
        with span(f"{about['operation']} {about['model']}", **about) as describe:
            try:
                answer = await send()
            except RowError as error:
                describe(**_about(error.spent) | {"attempts": error.attempts})
                raise
            describe(**_about(answer))
            return answer


def _about(answer: object) -> dict[str, Any]:
    """The attributes of an answer in a span."""
    if not isinstance(answer, Reply | Embeddings):
        return {}
    about = {**vars(answer.usage), "attempts": answer.attempts, "dollars": answer.dollars}
    if isinstance(answer, Reply):
        about |= {"call": answer.call_id, "answered_by": answer.model, "finish": [answer.finish]}
    return about


class Drained(Wrapper):
    """Waits for in-flight requests before raising BudgetReached, so that paid answers are recorded."""

    def __init__(self, inner: LLM | Embedder, budget: Budget) -> None:
        super().__init__(inner)
        self.budget = budget

    async def _around(self, payload: Payload, send: Callable[[], Awaitable[T]]) -> T:  # noqa: ARG002
        return await self.budget.drained(send())


class AheadInBatches(Wrapper):
    """Passes requests that run ahead to the batch model. Name, limits and prices are `inner`'s."""

    def __init__(self, inner: LLM, ahead: LLM) -> None:
        super().__init__(inner)
        self.ahead = ahead

    async def complete(self, request: Request) -> Reply:
        """Answer one request."""
        return await (self.ahead if request.ahead else self.inner).complete(request)

    async def aclose(self) -> None:
        """Close both models."""
        await self.ahead.aclose()
        await self.inner.aclose()


def cost_of(answer: object) -> Spending:
    """The cost of an answer. Embeddings are not calls."""
    if not isinstance(answer, Reply | Embeddings):
        return Spending()
    return Spending(int(isinstance(answer, Reply)), _tokens(answer.usage), answer.dollars or 0.0)


@dataclass
class Unsent:
    """The requests of a dry run that the journal lacks. Nothing is sent; their rows fail."""

    # sure to be new: those that run ahead, and the first of a partition
    first: dict[str, Request] = field(default_factory=dict)
    # after the first of a partition: without its answer they may differ
    others: dict[str, Request] = field(default_factory=dict)
    texts: set[str] = field(default_factory=set)  # without a vector
    _partitions: set[str] = field(default_factory=set)

    def add(self, request: Request) -> None:
        """Note a request."""
        key = f"{request.partition}\0{request.fingerprint}"
        sure = request.ahead or request.partition not in self._partitions
        (self.first if sure else self.others).setdefault(key, request)
        self._partitions.add(request.partition)


class NotSent(Wrapper):
    """Notes requests and answers none. Name, limits and prices are `inner`'s."""

    def __init__(self, inner: LLM | Embedder, unsent: Unsent) -> None:
        super().__init__(inner)
        self.unsent = unsent

    async def complete(self, request: Request) -> Reply:
        """Fail. Raises RowError."""
        self.unsent.add(request)
        raise self._error

    async def embed(self, texts: Sequence[str], partition: str = "") -> Embeddings:
        """Give no vector."""
        del partition
        self.unsent.texts |= set(texts)
        empty = np.full((len(texts), await self.inner.dimensions()), np.nan, np.float32)
        return Embeddings(empty, failed=dict.fromkeys(range(len(texts)), self._error))

    @property
    def _error(self) -> RowError:
        return RowError("unsent", "a dry run sends nothing, and the journal has no answer")


@dataclass(frozen=True)
class Stack:
    """One run's wrappers around endpoints:
    `Drained(Coalesced(Journalled(Budgeted(Traced(Retried(Limited(Borrowed(endpoint))))))))`.

    Outside of them a request passes, where a run has them, the replies of its evaluation
    (`remembering`), the calls of the run record (`CallLog.noted`), a recording that is being made
    (`Recorder`), and `Roles`, which chooses the model. The first two are put around each model if
    `Roles` is the outermost.

    The limiter admits every attempt, the budget every request once. Answers of the journal pass
    neither. Equal concurrent requests reach the journal once. When the budget is reached, requests
    in flight finish first. Closing a wrapped endpoint closes the endpoint; the journal's owner
    closes the journal.
    """

    retry: RetryPolicy | None = None
    budget: Budget | None = None  # shared by all models and embedders of the run
    journal: Journal | None = None
    scope: str = ""  # answers and vectors are shared only within one
    fresh: bool = False  # whether recorded answers are ignored
    # notes the requests that the journal lacks, in place of sending them
    unsent: Unsent | None = None

    def model(self, endpoint: LLM, limiter: Limiter, ahead: Wrapper | None = None) -> LLM:
        """A model, wrapped. The limiter is that of its endpoint, shared by all its users. `ahead`
        answers requests that run ahead, instead of the endpoint, and retries them.
        """
        sent = self._sent(endpoint, limiter)
        if ahead is not None and self.unsent is None:
            # A later run looks up the answers to the same requests, so none is shortened.
            sent = AheadInBatches(sent, self._budgeted(ahead, shortens=False))
        return self._drained(Coalesced(self._journalled(sent)))

    def embedder(self, endpoint: Embedder, limiter: Limiter) -> Embedder:
        """An embedder, wrapped. The limiter is that of the endpoint, shared by all its users."""
        most = getattr(innermost(endpoint), "most_at_once", {})
        sent = self._journalled(self._sent(endpoint, limiter))
        return self._drained(CoalescedTexts(sent, **most))

    def _sent(self, endpoint: LLM | Embedder, limiter: Limiter) -> Wrapper:
        if self.unsent is not None:
            return NotSent(endpoint, self.unsent)
        proof = partial(self.journal.knows, endpoint.name) if self.journal is not None else None
        return self._budgeted(Retried(Limited(endpoint, limiter), self.retry, proof))

    def _budgeted(self, inner: Wrapper, *, shortens: bool = True) -> Wrapper:
        inner = Traced(inner)  # of requests that the budget admits
        return inner if self.budget is None else Budgeted(inner, self.budget, shortens=shortens)

    def _journalled(self, inner: Wrapper) -> Wrapper:
        if self.journal is None:
            return inner
        return Journalled(inner, self.journal, self.scope, self.fresh)

    def _drained(self, wrapped: Wrapper) -> Wrapper:
        return wrapped if self.budget is None else Drained(wrapped, self.budget)


class Roles(Wrapper):
    """A model that passes each request to the model of its role. Name, limits and prices are those
    of `default`, which answers for roles without a model. `find` is called once for each role, and
    raises PlanError for a misspelt one; None: that of `default`.
    """

    def __init__(
        self, default: LLM, find: Callable[[str], LLM] | None = None, **models: LLM
    ) -> None:
        super().__init__(default)
        self.models: dict[str, LLM] = {"default": default, **models}
        self._find = find or (lambda role: self.models[falls_back(role, self.models)])

    def bound(self, role: str) -> LLM:
        """The model of a role, for its limits, its tokenizer and its prices. Raises PlanError."""
        if role not in self.models:
            self.models[role] = self._find(role)
        return self.models[role]

    def each(self, wrap: Callable[[LLM], LLM]) -> Roles:
        """The same models, each wrapped once."""
        wrapped: dict[int, LLM] = {}

        def find(role: str) -> LLM:
            model = self.bound(role)
            if id(model) not in wrapped:
                wrapped[id(model)] = wrap(model)
            return wrapped[id(model)]

        return Roles(find("default"), find)

    async def complete(self, request: Request) -> Reply:
        """Answer one request with the model of its role."""
        return await self.bound(request.role).complete(request)

    async def aclose(self) -> None:
        """Close every model, each once."""
        for model in {id(model): model for model in self.models.values()}.values():
            await model.aclose()


def bound(llm: LLM, role: str) -> LLM:
    """The model of a role, if `llm` has roles, else `llm` itself."""
    return llm.bound(role) if isinstance(llm, Roles) else llm


def innermost(llm: LLM | Embedder) -> LLM | Embedder:
    """The model or embedder inside all wrappers."""
    while isinstance(llm, Wrapper):
        llm = llm.inner
    return llm


Replies = dict[tuple[Any, ...], Reply]  # by model, its price, partition and fingerprint


def remembering(llm: LLM, replies: Replies) -> LLM:
    """The model, answering equal requests from `replies`; these answers count as coalesced."""
    wrap = partial(_Remembering, replies=replies)
    return llm.each(wrap) if isinstance(llm, Roles) else wrap(llm)


class _Remembering(Wrapper):
    def __init__(self, inner: LLM, replies: Replies) -> None:
        super().__init__(inner)
        self._replies = replies

    async def complete(self, request: Request) -> Reply:
        """Answer one request, from memory if an equal one was answered."""
        price = self.dollars(Usage(10**6, 0, 10**6)), self.limits.batch
        key = (self.name, price, request.partition, request.fingerprint)
        if key in self._replies:
            return replace(self._replies[key], origin="coalesced", attempts=0)
        reply = await self.inner.complete(request)
        self._replies[key] = reply
        return reply
