"""What a run needs from outside: models, an embedder, a store, a journal. The session owns them, a
run borrows them.
"""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import os
import time
import weakref
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from semgraph.errors import PlanError, Problem, SemgraphError, StoreUnavailable
from semgraph.execution.opened import Clock, Opened
from semgraph.llm.base import LLM, Borrowed, Embedder, Limits
from semgraph.llm.endpoints import Endpoints, retry_policy
from semgraph.llm.journal import Journal, JournalLocked
from semgraph.llm.recording import Recorder
from semgraph.llm.settings import Settings
from semgraph.llm.stack import Budget, Limiter, Stack
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.schema import Graph
from semgraph.stores.base import Shareable, Store

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
        if isinstance(self.store, Shareable):
            return self.store.share()
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
                # The run that it kept from writing has raised it; the end of a loop has no caller
                # who could take it.
                if asked:
                    raise

    async def journal(self, path: Path, keep_days: float | None) -> Journal:
        """The journal, opened once. Raises SemgraphError; JournalLocked if another process holds it
        for long.
        """
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
        """The store that is open at the address of this one, or this one; another one if its file
        was replaced.
        """
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
    """A journal, opened in a thread, where it can wait for the disk; the wait for other processes
    is here.
    """
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
    """What a session keeps open. After a fork the child begins with nothing open: connections are
    never shared.
    """

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
            found = self._loops[loop] = OfLoop(
                self._endpoints.beside(), lambda: self._loops.pop(loop, None)
            )
            await found.begin()
        return found

    def is_busy_here(self) -> bool:
        """Whether runs go on in the event loop of the calling thread."""
        try:
            found = self._loops.get(asyncio.get_running_loop())
        except RuntimeError:  # none runs
            return False
        return found is not None and found.runs > 0

    def limiter_of(self, made: LLM | Embedder, make: Callable[[], Limiter]) -> Limiter:
        """The limiter of a model or an embedder that the user made."""
        return self._given.get(id(made)) or self._given.setdefault(id(made), make())

    @asynccontextmanager
    async def given(self, store: Store, graph: Graph | None) -> AsyncIterator[Store]:
        """A store that the user made: itself, unless a run, of another session too, has it open for
        another graph.
        """
        others = (
            [other for owner, other in _GIVEN if owner is store and other != graph]
            if graph is not None
            else []
        )
        lent = [(store, graph)] if graph is not None else []
        _GIVEN.extend(lent)
        try:
            yield store.share() if others and isinstance(store, Shareable) else store
        finally:
            for each in lent:
                del _GIVEN[next(n for n, other in enumerate(_GIVEN) if other is each)]

    def memory(self) -> Lent:
        """The store in memory. Raises StoreUnavailable in a forked process, which has not its
        rows.
        """
        if self._lost_memory:
            raise StoreUnavailable(
                "the store in memory belongs to the process that filled it, and this is a fork of that process. "
                "Make a session here, or keep the graph in a file: store='sqlite:graph.db'"
            )
        if self._memory is None:
            from semgraph.stores.sqlite.store import SqliteStore

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
        """Close what belongs to the running event loop, if one runs in this thread, when the caller
        gives way to it.
        """
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
        """Begin anew in a child process, without a touch at what the parent has open: both would
        use one socket.
        """
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
    """Never free these: their destructors would close files and wait for threads of the parent
    process.
    """
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


@dataclass(frozen=True)
class Given:
    """Objects that the user made; None: made from the settings."""

    llm: LLM | None = None
    embedder: Embedder | None = None
    store: Store | None = None


@dataclass(frozen=True)
class Resources:
    """What a session has, as settings name it: each run gets its view of it, with its own budget,
    or with `budget` if all runs share one.
    """

    settings: Settings
    given: Given
    owned: Owned
    budget: Budget | None = None

    @property
    def replays(self) -> bool:
        """Whether answers come from a recording, which has one for each question."""
        return self.given.llm is None and self.settings.model().provider == "recorded"

    def under(self, settings: Settings) -> Resources:
        """The same with other settings."""
        return replace(self, settings=settings)

    def sharing(self) -> Resources:
        """The same with one budget, as the limits say, for all its runs."""
        return replace(self, budget=self._budget())

    def over(self, store: Store) -> Resources:
        """The same with a store that the caller made, and a budget for each run."""
        return replace(self, given=replace(self.given, store=store), budget=None)

    def _budget(self) -> Budget:
        limits = self.settings.limits
        return Budget(limits.max_calls, limits.max_tokens, limits.max_usd, limits.max_seconds)

    @asynccontextmanager
    async def open(
        self, plan: LogicalPlan, *, fresh: bool, record_to: Path | None = None
    ) -> AsyncIterator[Opened]:
        """Everything one run uses. What was opened for it stays open for the next one.

        Args:
            plan: The plan; its recording is `recordings/PLAN.jsonl` beside its file.
            fresh: Ask anew even what the journal knows.
            record_to: Where to record the run, if it is to be recorded.
        """
        budget, recording = self.budget or self._budget(), recording_of(plan)
        async with AsyncExitStack() as closing:
            of_loop = await self.owned.here()
            closing.enter_context(of_loop.used())
            path = self.settings.journal_path
            journal = (
                await of_loop.journal(path, self.settings.keep_days) if path is not None else None
            )
            stack = Stack(retry_policy(self.settings), budget, journal, fresh=fresh)
            models = partial(self._models, of_loop.endpoints, stack, recording)
            embedders = partial(self._embedder, of_loop.endpoints, stack, recording)
            llm, embedder = models(""), embedders("")
            closing.push_async_callback(llm.aclose)
            closing.push_async_callback(embedder.aclose)
            store = await closing.enter_async_context(self.opened_store(plan.graph))
            now = self._clock(recording)
            recorder = Recorder() if record_to is not None else None
            if recorder is not None:
                llm, embedder, now = (
                    recorder.llm(llm),
                    recorder.embedder(embedder),
                    recorder.clock(now),
                )
            yield Opened(llm, embedder, store, journal, budget, now, models, embedders)
            if recorder is not None and record_to is not None:
                recorder.write(record_to)

    def _models(self, endpoints: Endpoints, stack: Stack, recording: Path, scope: str) -> LLM:
        """The models of all roles behind one `LLM`, in a scope of the journal. All scopes share
        endpoints and limiters.
        """
        stack, made = replace(stack, scope=scope), self.given.llm
        if made is None:
            return endpoints.wrapped_models(self.settings, stack, recording)
        return stack.model(Borrowed(made), self._limiter(made, made.limits.in_flight))

    def _embedder(
        self, endpoints: Endpoints, stack: Stack, recording: Path, scope: str
    ) -> Embedder:
        """The embedder, in a scope of the journal."""
        stack, made = replace(stack, scope=scope), self.given.embedder
        if made is None:
            return endpoints.wrapped_embedder(self.settings, stack, recording)
        return stack.embedder(Borrowed(made), self._limiter(made, Limits().in_flight))

    def _limiter(self, made: LLM | Embedder, in_flight: int) -> Limiter:
        limits = self.settings.limits
        return self.owned.limiter_of(
            made, lambda: Limiter(limits.in_flight or in_flight, limits.rpm, limits.tpm)
        )

    async def tokenizers(self, plan: LogicalPlan) -> LLM:
        """The models, to count tokens with: nothing is sent. Raises PlanError where there is
        none.
        """
        if self.given.llm is not None:
            return self.given.llm
        endpoints = (await self.owned.here()).endpoints
        return endpoints.wrapped_models(self.settings, Stack(), recording_of(plan))

    def _clock(self, recording: Path) -> Clock:
        spec = self.settings.model()
        if self.given.llm is not None or spec.provider != "recorded":
            return lambda _name: datetime.now(UTC)
        from semgraph.llm.recording import Recorded

        return Recorded(self.settings.cwd / spec.model if spec.model else recording).now

    @asynccontextmanager
    async def opened_store(self, graph: Graph | None = None) -> AsyncIterator[Store]:
        """The store that the settings name, for one run over a graph. Raises StoreUnavailable or
        PlanError.
        """
        async with AsyncExitStack() as closing:
            if self.given.store is not None:
                yield await closing.enter_async_context(self.owned.given(self.given.store, graph))
                return
            if self.settings.store == "memory":
                lent = self.owned.memory()
            else:
                lent = await (await self.owned.here()).store(*self._store())
            yield await closing.enter_async_context(lent.borrowed(graph))

    def _store(self) -> tuple[Store, Path | None]:
        """The store that the settings name, not opened, and its file. Raises StoreUnavailable or
        PlanError.
        """
        name, env = self.settings.store, self.settings.environment
        if name.startswith("sqlite:"):
            from semgraph.stores.sqlite.store import SqliteStore

            file = self.settings.cwd / name.removeprefix("sqlite:")
            return SqliteStore(file), file
        if name == "neo4j-local":
            from semgraph.stores.neo4j.store import local_store

            return local_store(self.settings.cwd / ".semgraph" / "neo4j"), None
        if name == "neo4j" or name.split(":")[0].split("+")[0] in {"neo4j", "bolt"}:
            return _neo4j(name, env), None
        known = "sqlite:PATH, memory, neo4j, neo4j://HOST:PORT, neo4j-local"
        raise PlanError(Problem(f'"{name}" is no store', there=f"stores: {known}"))

    def forget(self, groups: Iterable[str]) -> int:
        """Delete what the journal holds of some groups; how many answers and vectors there were.
        Raises SemgraphError.
        """
        path = self.settings.journal_path
        if path is None or not path.exists():
            return 0
        journal = Journal(path, self.settings.keep_days)
        try:
            return journal.forget(groups)
        finally:
            journal.close()

    @property
    def may_hold_rows(self) -> bool:
        """Whether there is a store yet: a file that nobody has made holds none."""
        scheme, _, path = self.settings.store.partition(":")
        return (
            self.given.store is not None
            or scheme != "sqlite"
            or (self.settings.cwd / path).exists()
        )

    def need_graph(self) -> None:
        """Refuse a store that is not there: one that is only read need not be made. Raises
        StoreUnavailable.
        """
        if not self.may_hold_rows:
            file = self.settings.cwd / self.settings.store.removeprefix("sqlite:")
            shown = (
                file.relative_to(self.settings.cwd)
                if file.is_relative_to(self.settings.cwd)
                else file
            )
            origin = self.settings["store"].origin
            raise StoreUnavailable(
                f"there is no graph at {shown} ({origin}), and this plan only reads one. "
                "Name the one that you mean: --store sqlite:PATH; or run a plan that writes it: semgraph plans list"
            )


def recording_of(plan: LogicalPlan) -> Path:
    """Where a plan's own recording is."""
    return Path(plan.file).parent / "recordings" / f"{plan.name}.jsonl"


def _neo4j(name: str, env: Mapping[str, str]) -> Store:
    from semgraph.stores.neo4j.store import Neo4jStore

    uri = env.get("NEO4J_URI", "") if name == "neo4j" else name
    if not uri:
        raise PlanError(
            Problem(
                "store neo4j: NEO4J_URI is not set",
                hint="set it, or name the store: --store neo4j://HOST:7687",
            )
        )
    user = env.get("NEO4J_USERNAME") or env.get("NEO4J_USER") or "neo4j"
    return Neo4jStore(uri, user, env.get("NEO4J_PASSWORD", ""), env.get("NEO4J_DATABASE"))
