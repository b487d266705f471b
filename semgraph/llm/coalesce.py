"""Coalescing: equal concurrent requests are sent once; concurrent texts share requests."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np

from semgraph.errors import RowError
from semgraph.llm import base

_Key = tuple[str, str]  # the partition, and the fingerprint of a request or a text
_MOST_TEXTS = 256
# OpenAI accepts 300,000 tokens in one request; the rest is a reserve for low estimates.
_MOST_TOKENS = 200_000


@dataclass(eq=False)
class _Flight:
    """A task that answers some calls."""

    task: asyncio.Task[Any]
    calls: list[_Joined] = field(default_factory=list)


@dataclass(eq=False)
class _Joined:
    """A request or a text in flight, the number of callers that wait for its answer, and whether
    one of them is charged for it.
    """

    key: _Key
    flight: _Flight
    answer: asyncio.Future[Any]
    waiting: int = 0
    charged: bool = False


class _InFlight(base.Wrapper):
    """The calls in flight, by key. A flight without waiting callers is cancelled."""

    def __init__(self, inner: base.LLM | base.Embedder) -> None:
        super().__init__(inner)
        self._calls: dict[_Key, _Joined] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    def _start(self, work: Coroutine[Any, Any, Any]) -> _Flight:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return _Flight(task)

    def _join(self, key: _Key, flight: _Flight, answer: asyncio.Future[Any]) -> _Joined:
        call = self._calls[key] = _Joined(key, flight, answer)
        flight.calls.append(call)
        answer.add_done_callback(lambda done: self._end(call, done))
        return call

    async def _wait(self, calls: Sequence[_Joined]) -> None:
        """Wait until all calls are answered or have failed: requests in flight are paid for."""
        for call in calls:
            call.waiting += 1
        try:
            await asyncio.wait([call.answer for call in calls])
        finally:
            for call in calls:
                call.waiting -= 1
            for flight in {call.flight for call in calls}:
                if not flight.task.done() and not any(call.waiting for call in flight.calls):
                    for call in flight.calls:  # a later equal request starts a new flight
                        self._forget(call)
                    flight.task.cancel()

    def _end(self, call: _Joined, done: asyncio.Future[Any]) -> None:
        self._forget(call)
        if not done.cancelled():
            done.exception()  # mark it retrieved: its callers may be cancelled

    def _forget(self, call: _Joined) -> None:
        if self._calls.get(call.key) is call:
            del self._calls[call.key]

    async def aclose(self) -> None:
        """Cancel the flights, wait for their end, and close the inner model."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.inner.aclose()


class Coalesced(_InFlight):
    """Sends equal concurrent requests of one partition only once.

    The first caller to resume gets the answer with its origin, the others get `coalesced`, so the
    call is counted once. A cancelled caller does not affect the others. If no other caller waits
    and the answer is already paid, the cancelled caller still gets it, so that it is counted.
    """

    async def complete(self, request: base.Request) -> base.Reply:
        """Answer one request, or share the answer of an equal one in flight."""
        key = (request.partition, request.fingerprint)
        call = self._calls.get(key)
        if call is None:
            flight = self._start(self.inner.complete(request))
            call = self._join(key, flight, flight.task)
        try:
            await self._wait([call])
        except asyncio.CancelledError:
            if call.waiting or call.charged or not await self._is_paid(call):
                raise
        charged, call.charged = call.charged, True
        try:
            reply: base.Reply = call.answer.result()
        except RowError as error:
            if charged:
                spent = error.spent and replace(error.spent, origin="coalesced", attempts=0)
                raise RowError(error.kind, str(error), spent=spent) from error
            raise
        return replace(reply, origin="coalesced", attempts=0) if charged else reply

    async def _is_paid(self, call: _Joined) -> bool:
        """Whether a cancelled call still ends with an answer, or with its own failure."""
        await asyncio.wait([call.answer])
        if call.answer.cancelled():
            return False
        return isinstance(call.answer.exception(), RowError | None)


@dataclass(eq=False)
class _Charges:
    """The cost of one caller's embeddings."""

    prompt: int = 0
    calls: int = 0
    attempts: int = 0
    replayed: list[str] = field(default_factory=list)
    seconds: float = 0.0
    dollars: float | None = 0.0

    def embeddings(
        self, vectors: base.Vectors, failed: dict[int, RowError], texts: list[str]
    ) -> base.Embeddings:
        """The vectors of some texts at this cost."""
        places = {text: place for place, text in reversed([*enumerate(texts)])}
        replayed = tuple(map(places.__getitem__, self.replayed))
        used = base.Usage(self.prompt), self.calls, self.attempts
        return base.Embeddings(vectors, *used, replayed, self.seconds, self.dollars, failed)

    def add(self, done: base.Embeddings, before: float, after: float) -> None:
        """Add a share of a request, from `before` to `after` of 1. The shares of one request sum to
        it exactly.
        """
        self.prompt += round(done.usage.prompt * after) - round(done.usage.prompt * before)
        if before == 0:
            self.calls, self.attempts = self.calls + done.calls, self.attempts + done.attempts
            self.seconds += done.seconds
        if self.dollars is None or done.dollars is None:
            self.dollars = None
        else:
            self.dollars += done.dollars * (after - before)


class CoalescedTexts(_InFlight):
    """Embeds each text of a partition once, in requests of at most `batch` texts and `tokens`.

    Texts of one turn of the event loop share requests; the first caller of a text is charged for
    it. Partitions share no vectors. If the endpoint rejects a text, the other texts of the request
    still get their vectors. Up to `remember` bytes of vectors are kept in memory; evicted ones are
    requested from `inner` again.
    """

    def __init__(
        self,
        inner: base.Embedder,
        batch: int = _MOST_TEXTS,
        tokens: int = _MOST_TOKENS,
        remember: int = 256 << 20,
    ) -> None:
        super().__init__(inner)
        self.batch, self.tokens, self.remember = batch, tokens, remember
        self.memory: OrderedDict[_Key, base.Vectors] = OrderedDict()
        self._bytes = 0
        self._lengths = Counter[int]()  # the number of vectors of each length
        self._open: dict[str, _Flight] = {}
        self._charges: dict[_Joined, list[_Charges]] = {}  # of the waiting callers

    async def embed(self, texts: Sequence[str], partition: str = "") -> base.Embeddings:
        """Embed texts, in order. Texts that the partition has embedded, or is embedding, cost
        nothing. A text that the endpoint rejects fails alone: `failed` has its error.
        """
        if not texts:
            return base.Embeddings(np.empty((0, await self.dimensions()), np.float32))
        charges, vectors = _Charges(), dict[str, base.Vectors]()
        calls: list[_Joined] = []
        for text in dict.fromkeys(texts):
            key = (partition, text)
            if key in self.memory:
                self.memory.move_to_end(key)
                vectors[text] = self.memory[key]
            else:
                calls.append(self._calls.get(key) or self._enqueue(key))
        await self._answered(calls, charges)
        failed: dict[str, RowError] = {}
        for call in calls:
            error = call.answer.exception()
            if isinstance(error, RowError):
                failed[call.key[1]] = error
            else:
                vectors[call.key[1]] = call.answer.result()
        errors = {place: failed[text] for place, text in enumerate(texts) if text in failed}
        nothing = np.zeros(1, np.float32)
        found = (vectors.get(text, nothing) for text in texts)
        joined, errors = base.comparable(found, self._lengths, errors)
        return charges.embeddings(joined, errors, [*texts])

    async def _answered(self, calls: Sequence[_Joined], charges: _Charges) -> None:
        """Wait for the answers to some calls, of which this caller may be charged."""
        if not calls:
            return
        for call in calls:
            self._charges.setdefault(call, []).append(charges)
        try:
            await self._wait(calls)
        except asyncio.CancelledError:  # another caller is charged
            for call in calls:
                with suppress(KeyError, ValueError):
                    self._charges[call].remove(charges)
            raise

    def _enqueue(self, key: _Key) -> _Joined:
        partition = key[0]
        flight = self._open.get(partition)
        if flight is None or flight.task.done() or flight.task.cancelling():
            flight = self._open[partition] = self._start(self._send(partition))
        return self._join(key, flight, asyncio.get_running_loop().create_future())

    async def _send(self, partition: str) -> None:
        """Embed the texts of the partition's open flight."""
        calls = self._open.pop(partition).calls
        try:
            await asyncio.gather(*(self._embed(part) for part in self._parts(calls)))
        except BaseException as error:
            for call in calls:
                self._fail(call, error)
            if not isinstance(error, Exception):
                raise

    def _parts(self, calls: Sequence[_Joined]) -> Iterator[Sequence[_Joined]]:
        first, tokens = 0, 0
        for i, call in enumerate(calls):
            size = self.count_tokens(call.key[1])
            if i > first and (i - first == self.batch or tokens + size > self.tokens):
                yield calls[first:i]
                first, tokens = i, 0
            tokens += size
        yield calls[first:]

    async def _embed(self, part: Sequence[_Joined]) -> None:
        """Embed some texts. An error fails only these: the other parts are paid for."""
        partition, texts = part[0].key[0], [call.key[1] for call in part]
        try:
            done: base.Embeddings = await self.inner.embed(texts, partition)
        except RowError as error:
            for charges in self._charges.get(part[0], [])[:1]:
                charges.attempts += error.attempts
            if len(part) == 1:
                self._fail(part[0], error)
            else:
                await self._embed_halves(part)
        except Exception as error:  # noqa: BLE001 - the callers of these texts raise it
            if len(part) > 1 and getattr(error.__cause__, "kind", "") == "server":
                first, *part = sorted(part, key=lambda call: len(call.key[1]))
                await self._embed([first])  # a gateway may fail because of another text
                if first.answer.exception() is None:
                    return await self._embed_halves(part)
            for call in part:
                self._fail(call, error)
        else:
            self._resolve(part, done)

    async def _embed_halves(self, part: Sequence[_Joined]) -> None:
        half = len(part) // 2
        await asyncio.gather(*(self._embed(own) for own in (part[:half], part[half:]) if own))

    def _resolve(self, part: Sequence[_Joined], done: base.Embeddings) -> None:
        replayed = set(done.replayed)
        sizes = [0 if i in replayed else len(call.key[1]) + 1 for i, call in enumerate(part)]
        ends = np.cumsum([0, *sizes]) / max(sum(sizes), 1)
        waiting = [self._charges.pop(call, []) for call in part]
        payer = next(chain.from_iterable(waiting), _Charges())
        for i, call in enumerate(part):
            charges = next(iter(waiting[i]), payer)
            if i in replayed:
                charges.replayed.append(call.key[1])
            else:
                charges.add(done, float(ends[i]), float(ends[i + 1]))
            if i in done.failed:
                self._fail(call, done.failed[i])
                continue
            vector = done.vectors[i].copy()
            self._store(call.key, vector)
            if not call.answer.done():
                call.answer.set_result(vector)

    def _store(self, key: _Key, vector: base.Vectors) -> None:
        if key not in self.memory:
            self.memory[key] = vector
            self._bytes += vector.nbytes
        while self._bytes > self.remember and len(self.memory) > 1:
            self._bytes -= self.memory.popitem(last=False)[1].nbytes

    def _fail(self, call: _Joined, error: BaseException) -> None:
        self._charges.pop(call, None)
        if call.answer.done():
            return
        if isinstance(error, Exception):
            call.answer.set_exception(error)
        else:
            call.answer.cancel()
