"""An embedder around an embedder that embeds each text once."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from semgraph.errors import RowError
from semgraph.llm.base import Embedder, Embeddings, Usage, Vectors
from semgraph.llm.journal import Journal, OwnText
from semgraph.llm.stack import Budget, Cost


@dataclass
class _Tally:
    """What one caller's embeddings took."""

    prompt: int = 0
    calls: int = 0
    attempts: int = 0
    journal: int = 0
    seconds: float = 0.0
    dollars: float | None = 0.0

    def charge(self, done: Embeddings, before: float, after: float) -> None:
        """Add a share of a request: from `before` to `after` of 1. Shares of one request add up to
        it exactly.
        """
        self.prompt += round(done.usage.prompt * after) - round(done.usage.prompt * before)
        if before == 0:
            self.calls, self.attempts = self.calls + done.calls, self.attempts + done.attempts
            self.seconds += done.seconds
        known = self.dollars is not None and done.dollars is not None
        self.dollars = (
            (self.dollars or 0.0) + (done.dollars or 0.0) * (after - before) if known else None
        )


@dataclass(eq=False)
class _Wanted:
    """A text that is on its way: who asked first, and how many wait for it."""

    own: OwnText
    tally: _Tally
    vector: asyncio.Future[Vectors]
    waiting: int = 0
    request: _Request | None = None


@dataclass(eq=False)
class _Request:
    """Texts that travel together."""

    wanted: list[_Wanted] = field(default_factory=list)
    task: asyncio.Task[None] | None = None


class EmbedOnce:
    """Embeds a text once per run and partition: what is asked in one turn of the event loop travels
    together, a partition's texts in requests of their own. No partition is served the vector that
    another one asked for.

    Args:
        inner: The embedder.
        journal: Where vectors are kept; None for nowhere.
        budget: The run's; None for no limit. Embeddings count as tokens and dollars, not as calls.
        fresh: Embed anew even what the journal knows; the new vectors are kept.
        batch: Texts in one request to `inner`.
        remember: Bytes of vectors kept in memory, so that memory stays bounded over any number of
            texts; what falls out is asked of the journal again, or of `inner` where there is none.
    """

    def __init__(
        self,
        inner: Embedder,
        journal: Journal | None = None,
        budget: Budget | None = None,
        fresh: bool = False,
        batch: int = 256,
        remember: int = 256 << 20,
    ) -> None:
        self.inner, self.journal, self.budget = inner, journal, budget
        self._fresh, self._batch, self._remember = fresh, batch, remember
        self._known: OrderedDict[OwnText, Vectors] = OrderedDict()
        self._bytes = 0
        self._scope = ""
        self._flying: dict[OwnText, _Wanted] = {}
        self._pending = _Request()

    def scoped(self, scope: str) -> EmbedOnce:
        """The same embedder with a scope of its own: it knows no vector of another scope, in memory
        or in the journal.
        """
        found = EmbedOnce(
            self.inner, self.journal, self.budget, self._fresh, self._batch, self._remember
        )
        found._scope = f"{self._scope} {scope}"
        return found

    @property
    def name(self) -> str:
        """The inner embedder's name."""
        return self.inner.name

    async def dimensions(self) -> int:
        """Length of the vectors. Raises BudgetReached where the embedder does not say it within the
        run's time.
        """
        if self.budget is None:
            return await self.inner.dimensions()
        return await self.budget.spend(
            Cost(), self.inner.dimensions, lambda _: Cost(), "the embedder's probe"
        )

    def count_tokens(self, text: str) -> int:
        """Tokens of a text, as the inner embedder counts them."""
        return self.inner.count_tokens(text)

    def dollars(self, usage: Usage) -> float | None:
        """What tokens of the inner embedder cost."""
        return self.inner.dollars(usage)

    async def embed(self, texts: Sequence[str], partition: str = "") -> Embeddings:
        """Embed texts, in their order. What others of the partition asked for, before or at the
        same time, costs nothing.

        Raises:
            RowError: A text cannot be embedded. Others' texts in the same request are not affected.
            ModelUnavailable: No text will be embedded.
            BudgetReached: The next request would pass a limit, and was not sent; or the run's time
                was up. What is in flight then is waited for as long as the run's time allows.
        """
        embedding = self._embed(texts, partition)
        return await (embedding if self.budget is None else self.budget.drained(embedding))

    async def _embed(self, texts: Sequence[str], partition: str) -> Embeddings:
        if not texts:
            return Embeddings(np.empty((0, await self.dimensions()), np.float32))
        tally = _Tally()
        vectors: dict[str, Vectors] = {}
        wanted: list[_Wanted] = []
        for own in [OwnText(partition, text) for text in dict.fromkeys(texts)]:
            vector = self._known.get(own)
            if vector is not None:
                self._known.move_to_end(own)
                vectors[own.text] = vector
            else:
                wanted.append(self._want(own, tally))
        vectors.update(await self._wait(wanted))
        return Embeddings(
            vectors=np.stack([vectors[text] for text in texts]),
            usage=Usage(tally.prompt),
            calls=tally.calls,
            attempts=tally.attempts,
            journal=tally.journal,
            seconds=tally.seconds,
            dollars=tally.dollars,
        )

    async def aclose(self) -> None:
        """Close the inner embedder."""
        await self.inner.aclose()

    def _want(self, own: OwnText, tally: _Tally) -> _Wanted:
        if wanted := self._flying.get(own):
            return wanted
        loop = asyncio.get_running_loop()
        wanted = self._flying[own] = _Wanted(own, tally, loop.create_future())
        # A future whose waiters have all gone may fail unheard.
        wanted.vector.add_done_callback(lambda done: done.cancelled() or done.exception())
        if not self._pending.wanted:
            loop.call_soon(self._depart)
        wanted.request = self._pending
        self._pending.wanted.append(wanted)
        return wanted

    async def _wait(self, wanted: list[_Wanted]) -> dict[str, Vectors]:
        for want in wanted:
            want.waiting += 1
        try:
            shields = [asyncio.shield(want.vector) for want in wanted]
            # All are waited for before an error is raised: what else is on its way is paid for.
            vectors = await asyncio.gather(*shields, return_exceptions=True)
            for vector in vectors:
                if isinstance(vector, BaseException):
                    raise vector
            return {want.own.text: want.vector.result() for want in wanted}
        finally:
            for want in wanted:
                want.waiting -= 1
            for request in {want.request for want in wanted if want.request}:
                if (
                    request.task
                    and not request.task.done()
                    and not any(want.waiting for want in request.wanted)
                ):
                    # Nobody waits any more. Who asks for one of its texts from now on begins anew.
                    for want in request.wanted:
                        self._landed(want)
                    request.task.cancel()

    def _depart(self) -> None:
        request, self._pending = self._pending, _Request()
        request.task = asyncio.create_task(self._serve(request))

    async def _serve(self, request: _Request) -> None:
        try:
            missing = request.wanted
            if self.journal and not self._fresh:
                found = await self.journal.find_vectors(
                    [want.own for want in missing], self.name + self._scope
                )
                for want in missing:
                    if want.own in found:
                        want.tally.journal += 1
                        self._arrive(want, found[want.own])
                missing = [want for want in missing if want.own not in found]
            whose: dict[str, list[_Wanted]] = {}
            for want in missing:
                whose.setdefault(want.own.partition, []).append(want)
            parts = [
                own[i : i + self._batch]
                for own in whose.values()
                for i in range(0, len(own), self._batch)
            ]
            await asyncio.gather(*(self._fetch(part) for part in parts))
        except BaseException as error:
            for want in request.wanted:
                self._fail(want, error)
            if not isinstance(error, Exception):
                raise

    async def _fetch(self, part: list[_Wanted]) -> None:
        """Embed texts of one partition. What fails it fails these texts only: other parts are on
        their way, and paid.
        """
        try:
            done = await self._ask([want.own.text for want in part], part[0].own.partition)
            if self.journal:
                vectors = {
                    want.own: vector for want, vector in zip(part, done.vectors, strict=True)
                }
                await self.journal.record_vectors(vectors, self.name + self._scope)
        except RowError as error:
            if len(part) == 1:
                self._fail(part[0], error)
                return
            # One text that the endpoint does not take must not cost the others theirs.
            half = len(part) // 2
            await asyncio.gather(self._fetch(part[:half]), self._fetch(part[half:]))
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, those who wait for these texts raise it
            for want in part:
                self._fail(want, error)
            return
        ends = np.cumsum([0] + [len(want.own.text) + 1 for want in part])
        sizes = ends / ends[-1]
        for i, want in enumerate(part):
            want.tally.charge(done, float(sizes[i]), float(sizes[i + 1]))
            self._arrive(want, done.vectors[i].copy())

    async def _ask(self, texts: list[str], partition: str) -> Embeddings:
        if self.budget is None:
            return await self.inner.embed(texts, partition)
        self.budget.require_price(self.name, self.dollars(Usage(1)))
        tokens = sum(map(self.count_tokens, texts)) if self.budget.counts_tokens else 0
        most = Cost(0, tokens, self.dollars(Usage(tokens)) or 0.0)
        return await self.budget.spend(
            most, lambda: self.inner.embed(texts, partition), _cost, "the next embeddings"
        )

    def _arrive(self, want: _Wanted, vector: Vectors) -> None:
        self._landed(want)
        if want.own not in self._known:
            self._known[want.own] = vector
            self._bytes += vector.nbytes
        while self._bytes > self._remember and len(self._known) > 1:
            self._bytes -= self._known.popitem(last=False)[1].nbytes
        if not want.vector.done():
            want.vector.set_result(vector)

    def _fail(self, want: _Wanted, error: BaseException) -> None:
        self._landed(want)
        if want.vector.done():
            return
        if isinstance(error, Exception):
            want.vector.set_exception(error)
        else:
            want.vector.cancel()

    def _landed(self, want: _Wanted) -> None:
        if self._flying.get(want.own) is want:
            del self._flying[want.own]


def _cost(done: Embeddings) -> Cost:
    return Cost(0, done.usage.prompt, done.dollars or 0.0)
