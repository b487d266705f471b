"""Equal requests of one partition in flight are one call."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from semgraph.errors import RowError
from semgraph.llm.base import LLM, Reply, Request
from semgraph.llm.wrapper import Wrapper

_Key = tuple[str, str]  # partition and fingerprint


@dataclass
class _Call:
    task: asyncio.Task[Reply]
    waiting: int = 0
    claimed: bool = False


class Coalesced(Wrapper):
    """Asks once for what several rows of one partition ask at the same time.

    Whoever of them goes on first gets the answer with its origin, the others `coalesced`, so that the call is counted
    once. One that is cancelled does not disturb the others; when all are, the call is cancelled too.
    """

    def __init__(self, inner: LLM) -> None:
        super().__init__(inner)
        self._calls: dict[_Key, _Call] = {}
        self._tasks: set[asyncio.Task[Reply]] = set()

    async def complete(self, request: Request) -> Reply:
        """Answer one request, with the answer of an equal one if that is on its way."""
        key = (request.partition, request.fingerprint)
        call = self._calls.get(key)
        if call is None:
            task = asyncio.create_task(self.inner.complete(request))
            call = self._calls[key] = _Call(task)
            self._tasks.add(task)
            task.add_done_callback(lambda _: self._end(key, call))
        call.waiting += 1
        try:
            reply = await asyncio.shield(call.task)
        except RowError as error:
            if call.claimed:
                raise RowError(error.kind, str(error)) from error
            call.claimed = True
            raise
        finally:
            call.waiting -= 1
            if not call.waiting and not call.task.done():
                self._forget(key, call)
                call.task.cancel()
        if call.claimed:
            return replace(reply, origin="coalesced", attempts=0)
        call.claimed = True
        return reply

    async def aclose(self) -> None:
        """Cancel what is under way, wait until it has ended, and close the inner model."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.inner.aclose()

    def _end(self, key: _Key, call: _Call) -> None:
        self._tasks.discard(call.task)
        self._forget(key, call)

    def _forget(self, key: _Key, call: _Call) -> None:
        if self._calls.get(key) is call:
            del self._calls[key]
