"""What a session keeps open for its lifetime: endpoints and their limiters, the journal, the store. Runs borrow it.

Connections and files belong to one event loop, because the libraries under them do: they are closed when the loop ends
(`asyncio.run` closes its asynchronous generators, and each loop's resources are held by one) or when the session is closed,
whatever comes first. Limiters, models that run in this process and the store in memory serve all event loops.
"""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import os
import time
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from semgraph.errors import SemgraphError, StoreUnavailable
from semgraph.llm.base import LLM, Embedder
from semgraph.llm.endpoints import Endpoints
from semgraph.llm.journal import Journal
from semgraph.llm.journal_file import JournalLocked
from semgraph.llm.limits import Limiter
from semgraph.logical.schema import Graph
from semgraph.stores.abilities import Divides
from semgraph.stores.base import Store

_PATIENCE = 30.0
_PAUSE = 0.05
_IDLE = 8
Identity = tuple[int, int] | None


def _identity(path: Path | None) -> Identity:
    """Which file stands at a path; None if there is none."""
    try:
        found = path.stat() if path is not None else None
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if found else None


@dataclass
class Lent:
    """One store, lent to runs: each has it, or one beside it, opened for its own graph.

    Args:
        store: The store.
        file: Its file, if it is in one.
        idle: Stores that no run has, with the graphs that they were last opened for.
        runs: How many runs have one.
        identity: The file that it was opened on.
    """

    store: Store
    file: Path | None = None
    idle: list[tuple[Graph | None, Store]] = field(default_factory=list)
    runs: int = 0
    identity: Identity = None

    @asynccontextmanager
    async def borrowed(self, graph: Graph | None) -> AsyncIterator[Store]:
        """A store for one run: one that was last opened for this graph, if one is idle."""
        store = self._take(graph)
        self.runs += 1
        try:
            yield store
        finally:
            self.runs -= 1
            self.idle.append((graph, store))
            del self.idle[:-_IDLE]
            self.identity = self.identity or _identity(self.file)

    def _take(self, graph: Graph | None) -> Store:
        for n, (known, store) in enumerate(self.idle):
            if known is graph or known == graph:
                del self.idle[n]
                return store
        if isinstance(self.store, Divides):
            return self.store.beside()
        return self.store


class OfLoop:
    """What belongs to one event loop."""

    def __init__(self, endpoints: Endpoints, ended: Callable[[], object]) -> None:
        self.endpoints = endpoints
        self._ended = ended
        self._ending = False
        self.runs = 0
        self._journals: dict[Path, asyncio.Task[tuple[Journal, Identity]]] = {}
        self._old_journals: list[Journal] = []
        self._stores: dict[str, Lent] = {}
        self._old_stores: list[Lent] = []
        self._life = self._until_the_end()

    async def begin(self) -> None:
        """Have the running event loop close all of it when it ends."""
        await anext(self._life)

    @contextmanager
    def used(self) -> Iterator[None]:
        """A run uses it."""
        self.runs += 1
        try:
            yield
        finally:
            self.runs -= 1

    async def end(self) -> None:
        """Close all of it."""
        if not self._ending:
            self._ending = True
            await self._life.aclose()

    async def _until_the_end(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            asked, self._ending = self._ending, True
            self._ended()
            try:
                await self._close()
            except SemgraphError:
                # The run that it kept from writing has raised it; the end of a loop has no caller who could take it.
                if asked:
                    raise

    async def journal(self, path: Path, keep_days: float | None) -> Journal:
        """The journal, opened once. Raises SemgraphError; JournalLocked if another process holds it for long."""
        opening = self._journals.get(path)
        if opening is not None and opening.done():
            if opening.cancelled() or opening.exception() is not None:
                opening = None
            elif opening.result()[1] != _identity(path):
                self._old_journals.append(opening.result()[0])  # runs may still use it
                opening = None
        if opening is None:
            opening = self._journals[path] = asyncio.create_task(_opened(path, keep_days))
            opening.add_done_callback(lambda done: done.cancelled() or done.exception())
        return (await asyncio.shield(opening))[0]

    async def store(self, store: Store, file: Path | None) -> Lent:
        """The store that is open at the address of this one, or this one; another one if its file was replaced."""
        lent = self._stores.get(store.name)
        if lent is not None and lent.identity is not None and lent.identity != _identity(file):
            self._old_stores.append(self._stores.pop(store.name))
            lent = None
        for old in [old for old in self._old_stores if not old.runs]:
            self._old_stores.remove(old)
            await old.store.aclose()
        return lent or self._stores.setdefault(store.name, Lent(store, file))

    async def _close(self) -> None:
        await _surely(self.endpoints.aclose)
        lent, self._stores, self._old_stores = [*self._stores.values(), *self._old_stores], {}, []
        for each in lent:
            await _surely(each.store.aclose)
        openings, self._journals = list(self._journals.values()), {}
        journals, self._old_journals = self._old_journals, []
        for opening in openings:
            if opening.done() and not opening.cancelled() and opening.exception() is None:
                journals.append(opening.result()[0])
            opening.cancel()
        for journal in journals:
            await _surely(partial(_closed, journal))


async def _surely(close: Callable[[], Awaitable[None]]) -> None:
    """Close something, also while the event loop ends, which cancels whatever runs in it."""
    try:
        await close()
    except asyncio.CancelledError:
        await close()


async def _opened(path: Path, keep_days: float | None) -> tuple[Journal, Identity]:
    """A journal, opened in a thread, where it can wait for the disk; the wait for other processes is here."""
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            return await asyncio.to_thread(Journal, path, keep_days, 0.0), _identity(path)
        except JournalLocked:
            if time.monotonic() > until:
                raise
        await asyncio.sleep(_PAUSE)


async def _closed(journal: Journal) -> None:
    """Close a journal off the event loop: what is pending may have to wait for another process."""
    try:
        await asyncio.to_thread(journal.close)
    except RuntimeError:  # the interpreter ends and starts no thread any more
        journal.close()


class Owned:
    """What a session keeps open. After a fork the child begins with nothing open: connections are never shared."""

    def __init__(self) -> None:
        self._begin()
        self._lost_memory = False
        _ALL.add(self)

    def _begin(self) -> None:
        self._endpoints = Endpoints()
        self._loops: dict[asyncio.AbstractEventLoop, OfLoop] = {}
        self._memory: Lent | None = None
        self._given: dict[int, Limiter] = {}

    async def here(self) -> OfLoop:
        """What belongs to the running event loop."""
        loop = asyncio.get_running_loop()
        found = self._loops.get(loop)
        if found is None:
            found = self._loops[loop] = OfLoop(self._endpoints.beside(), lambda: self._loops.pop(loop, None))
            await found.begin()
        return found

    def is_busy_here(self) -> bool:
        """Whether runs go on in the event loop of the calling thread."""
        try:
            found = self._loops.get(asyncio.get_running_loop())
        except RuntimeError:  # none runs
            return False
        return found is not None and found.runs > 0

    def limiter_of(self, model: LLM, make: Callable[[], Limiter]) -> Limiter:
        """The limiter of a model that the user made."""
        return self._given.get(id(model)) or self._given.setdefault(id(model), make())

    @asynccontextmanager
    async def given(self, store: Store, graph: Graph | None) -> AsyncIterator[Store]:
        """A store that the user made: itself, unless a run, of another session too, has it open for another graph."""
        others = [other for owner, other in _GIVEN if owner is store and other != graph] if graph is not None else []
        lent = [(store, graph)] if graph is not None else []
        _GIVEN.extend(lent)
        try:
            yield store.beside() if others and isinstance(store, Divides) else store
        finally:
            for each in lent:
                del _GIVEN[next(n for n, other in enumerate(_GIVEN) if other is each)]

    def memory(self) -> Lent:
        """The store in memory. Raises StoreUnavailable in a forked process, which has not its rows."""
        if self._lost_memory:
            raise StoreUnavailable(
                "the store in memory belongs to the process that filled it, and this is a fork of that process. "
                "Make a session here, or keep the graph in a file: store='sqlite:graph.db'"
            )
        if self._memory is None:
            from semgraph.stores.sqlite import SqliteStore

            self._memory = Lent(SqliteStore(":memory:"))
        return self._memory

    async def aclose(self) -> None:
        """Close everything, in all event loops."""
        for loop, each in list(self._loops.items()):
            await _ended(loop, each)
        for model in self._in_process():
            await model.aclose()
        memory, self._memory, self._lost_memory = self._memory, None, False
        if memory is not None:
            await memory.store.aclose()

    def end_here_soon(self) -> None:
        """Close what belongs to the running event loop, if one runs in this thread, when the caller gives way to it."""
        with suppress(RuntimeError):  # none runs
            loop = asyncio.get_running_loop()
            if (each := self._loops.pop(loop, None)) is not None:
                _end_soon(each)

    def abandon(self) -> None:
        """Have the event loops close what belongs to them: nobody has the session any more."""
        for loop, each in list(self._loops.items()):
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_end_soon, each)

    def at_exit(self) -> None:
        """Close what would hold up the end of the interpreter, or be reported as left open."""
        for loop, each in list(self._loops.items()):
            if not loop.is_running() and not loop.is_closed():
                loop.run_until_complete(each.end())
        for model in self._in_process():
            asyncio.run(model.aclose())

    def after_fork(self) -> None:
        """Begin anew in a child process, without a touch at what the parent has open: both would use one socket."""
        _keep_for_ever(self._endpoints, self._loops, self._memory)
        self._lost_memory = self._lost_memory or self._memory is not None
        self._begin()

    def _in_process(self) -> list[LLM | Embedder]:
        return list(self._endpoints.local.values())


_closing: set[asyncio.Task[None]] = set()


def _end_soon(of: OfLoop) -> None:
    task = asyncio.get_running_loop().create_task(of.end())
    _closing.add(task)
    task.add_done_callback(_closing.discard)


async def _ended(loop: asyncio.AbstractEventLoop, of: OfLoop) -> None:
    """End what belongs to an event loop, in that loop."""
    if loop is asyncio.get_running_loop():
        await of.end()
    elif loop.is_running():
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(of.end(), loop))
    elif not loop.is_closed():
        await asyncio.to_thread(loop.run_until_complete, of.end())


_ALL: weakref.WeakSet[Owned] = weakref.WeakSet()
_GIVEN: list[tuple[Store, Graph]] = []
"""Stores that users made, with the graphs that runs have them open for now."""


def _keep_for_ever(*things: object) -> None:
    """Never free these: their destructors would close files and wait for threads of the parent process."""
    for thing in things:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _at_exit() -> None:
    for owned in list(_ALL):
        owned.at_exit()


def _after_fork() -> None:
    _GIVEN.clear()
    for owned in list(_ALL):
        owned.after_fork()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
