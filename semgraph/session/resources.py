"""The resources of a session, which runs borrow: endpoints, limiters, the journal and stores."""

from __future__ import annotations

import asyncio
import atexit
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
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from semgraph.errors import PlanError, SemgraphError, StoreUnavailable
from semgraph.execution.observations import ObservationFile
from semgraph.execution.runtime import Clock, Opened, require_prices
from semgraph.llm.base import LLM, Borrowed, Embedder, Limits, ModelSpec, falls_back
from semgraph.llm.endpoints import (
    Endpoints,
    MakeLimiter,
    local_limiter,
    require_trusted,
    retry_policy,
    wrapped_model,
)
from semgraph.llm.journal import Journal, JournalLocked
from semgraph.llm.providers import PROVIDERS, names_model
from semgraph.llm.recording import Recorded, Recorder, Recording, recording_file
from semgraph.llm.settings import Settings
from semgraph.llm.stack import Budget, Limiter, Roles, Stack, Unsent
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.schema import Graph
from semgraph.meter import StepMetrics
from semgraph.relational.segments import DEADLINE, Deadline
from semgraph.stores.base import Store
from semgraph.stores.confined import ConfinedStore
from semgraph.stores.registry import lasts, store_spec

_PATIENCE = 30.0
_PAUSE = 0.05
_IDLE = 8
Identity = tuple[int, int] | None


def _identity(path: Path | None) -> Identity:
    """Device and inode of the file at a path; None if no file exists."""
    try:
        status = path.stat() if path is not None else None
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if status else None


@dataclass
class SharedStore:
    """A store that runs borrow. Each run gets it, or another connection to the same data, for its
    graph.

    Args:
        store: The store.
        file: Its file, if any.
        idle: Stores that no run uses, with the graphs that they were last opened for.
        runs: The number of runs that use the store.
        identity: The file that was opened.
    """

    store: Store
    file: Path | None = None
    idle: list[tuple[Graph | None, Store]] = field(default_factory=list)
    runs: int = 0
    identity: Identity = None

    @asynccontextmanager
    async def borrowed(self, graph: Graph | None) -> AsyncIterator[Store]:
        """A store for one run, preferably an idle one that was last opened for this graph."""
        found = (n for n, (of, _) in enumerate(self.idle) if of is graph or of == graph)
        place = next(found, None)
        store = self.store.share() if place is None else self.idle.pop(place)[1]
        self.runs += 1
        try:
            yield store
        finally:
            self.runs -= 1
            self.idle.append((graph, store))
            del self.idle[:-_IDLE]
            self.identity = self.identity or _identity(self.file)


class LoopResources:
    """The resources of one event loop: connections, journals and stores."""

    def __init__(self, endpoints: Endpoints, ended: Callable[[], object]) -> None:
        self.endpoints = endpoints
        self._ended = ended
        self._ending = False
        self.runs = 0
        self._journals: dict[Path, asyncio.Task[tuple[Journal, Identity]]] = {}
        self._old_journals: list[Journal] = []
        self._stores: dict[str, SharedStore] = {}
        self._old_stores: list[SharedStore] = []
        self._life = self._until_the_end()

    async def begin(self) -> None:
        """Register closing at the end of the running event loop."""
        await anext(self._life)

    @contextmanager
    def used(self) -> Iterator[None]:
        """Count a run as a user of these resources."""
        self.runs += 1
        try:
            yield
        finally:
            self.runs -= 1

    async def end(self) -> None:
        """Close all resources."""
        if not self._ending:
            self._ending = True
            await self._life.aclose()

    async def _until_the_end(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            requested, self._ending = self._ending, True
            self._ended()
            try:
                await self._close()
            except SemgraphError:
                # The run that could not write has raised it; the end of a loop has no caller.
                if requested:
                    raise

    async def journal(self, path: Path, keep_days: float | None) -> Journal:
        """The journal, opened once. Raises SemgraphError; JournalLocked if another process holds
        its lock.
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

    async def store(self, store: Store, file: Path | None) -> SharedStore:
        """The open store at the address of this one, or this one; a new store if the file was
        replaced.
        """
        lent = self._stores.get(store.name)
        if lent is not None and lent.identity is not None and lent.identity != _identity(file):
            self._old_stores.append(self._stores.pop(store.name))
            lent = None
        for old in [old for old in self._old_stores if not old.runs]:
            self._old_stores.remove(old)
            await old.store.aclose()
        return lent or self._stores.setdefault(store.name, SharedStore(store, file))

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
    """Close a resource, even while the event loop ends and cancels its tasks."""
    try:
        await close()
    except asyncio.CancelledError:
        await close()


async def _opened(path: Path, keep_days: float | None) -> tuple[Journal, Identity]:
    """Open a journal in a thread, because disk access may block; wait here for other processes."""
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            return await asyncio.to_thread(Journal, path, keep_days, 0.0), _identity(path)
        except JournalLocked:
            if time.monotonic() > until:
                raise
        await asyncio.sleep(_PAUSE)


async def _closed(journal: Journal) -> None:
    """Close a journal off the event loop: pending writes may wait for another process."""
    try:
        await asyncio.to_thread(journal.close)
    except RuntimeError:  # the interpreter ends and starts no threads
        journal.close()


class Owned:
    """The open resources of a session. They belong to the process that opened the first of them.

    Args:
        make_limiter: Makes the limiter of an endpoint.
    """

    def __init__(self, make_limiter: MakeLimiter = local_limiter) -> None:
        self._make_limiter = make_limiter
        self.spent = StepMetrics()  # the counters of all runs that have ended
        self._process: int | None = None
        self._endpoints = Endpoints(make_limiter)
        self._loops: dict[asyncio.AbstractEventLoop, LoopResources] = {}
        self._memory: SharedStore | None = None
        self._given: dict[int, Limiter] = {}
        _ALL.add(self)

    @property
    def is_inherited(self) -> bool:
        """Whether this process is a fork of the one that opened them: it shares its sockets."""
        return self._process not in (None, os.getpid())

    def claim(self) -> None:
        """Open resources here. Raises SemgraphError in a fork of the process that has them open."""
        if self.is_inherited:
            raise SemgraphError(
                f"process {self._process} uses this session, and this process is a fork of it: connections "
                "cannot be shared. Make a session here, or close that one before the fork"
            )
        self._process = os.getpid()

    async def here(self) -> LoopResources:
        """The resources of the running event loop. Raises SemgraphError; see `claim`."""
        self.claim()
        loop = asyncio.get_running_loop()
        resources = self._loops.get(loop)
        if resources is None:
            resources = self._loops[loop] = LoopResources(
                self._endpoints.for_other_loop(), lambda: self._loops.pop(loop, None)
            )
            await resources.begin()
        return resources

    def is_busy_here(self) -> bool:
        """Whether the event loop of the calling thread has runs."""
        try:
            resources = self._loops.get(asyncio.get_running_loop())
        except RuntimeError:  # no loop is running
            return False
        return resources is not None and resources.runs > 0

    def limiter_of(
        self, own: LLM | Embedder, in_flight: int, rpm: float | None, tpm: float | None
    ) -> Limiter:
        """The limiter of a model or an embedder object."""
        if id(own) not in self._given:
            name = f"{type(own).__name__} {own.name}"
            self._given[id(own)] = self._make_limiter(name, in_flight, rpm, tpm)
        return self._given[id(own)]

    @asynccontextmanager
    async def given(self, store: Store, graph: Graph | None) -> AsyncIterator[Store]:
        """A user's store object. If a run has it open for another graph: another store on the same
        data.
        """
        others = [g for owner, g in _GIVEN if owner is store and g not in (None, graph)]
        _GIVEN.append(lent := (store, graph))
        try:
            yield store.share() if graph is not None and others else store
        finally:
            _GIVEN.remove(lent)

    def memory(self, make: Callable[[], Store]) -> SharedStore:
        """The store in memory, made once. Raises SemgraphError; see `claim`."""
        self.claim()
        if self._memory is None:
            self._memory = SharedStore(make())
        return self._memory

    async def aclose(self) -> None:
        """Close everything, in all event loops. A forked process has nothing open and closes
        nothing.
        """
        if self.is_inherited:
            return
        for loop, each in list(self._loops.items()):
            await _end(loop, each)
        for model in self._endpoints.local.values():
            await model.aclose()
        memory, self._memory = self._memory, None
        if memory is not None:
            await memory.store.aclose()
        self._process = None

    def end_here_soon(self) -> None:
        """Close the resources of the event loop of this thread, if any, once it continues."""
        with suppress(RuntimeError):  # this thread has no running loop
            loop = asyncio.get_running_loop()
            if (each := self._loops.pop(loop, None)) is not None:
                _end_soon(each)

    def abandon(self) -> None:
        """Close the resources in their event loops after the session was garbage-collected."""
        if self.is_inherited:
            return
        for loop, each in list(self._loops.items()):
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_end_soon, each)

    def at_exit(self) -> None:
        """Close resources that would delay the exit of the interpreter or cause warnings."""
        if self.is_inherited:
            return
        for loop, each in list(self._loops.items()):
            if not loop.is_running() and not loop.is_closed():
                loop.run_until_complete(each.end())
        for model in self._endpoints.local.values():
            asyncio.run(model.aclose())


_closing: set[asyncio.Task[None]] = set()


def _end_soon(of: LoopResources) -> None:
    task = asyncio.get_running_loop().create_task(of.end())
    _closing.add(task)
    task.add_done_callback(_closing.discard)


async def _end(loop: asyncio.AbstractEventLoop, of: LoopResources) -> None:
    """Close the resources of an event loop, in that loop."""
    if loop is asyncio.get_running_loop():
        await of.end()
    elif loop.is_running():
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(of.end(), loop))
    elif not loop.is_closed():
        await asyncio.to_thread(loop.run_until_complete, of.end())


_ALL: weakref.WeakSet[Owned] = weakref.WeakSet()
# Stores that users made, with the graphs that they are open for.
_GIVEN: list[tuple[Store, Graph | None]] = []


@atexit.register
def _at_exit() -> None:
    for owned in list(_ALL):
        owned.at_exit()


@dataclass(frozen=True)
class UserObjects:
    """Models by role or step, embedder and store that the user gives as objects; None: those of the
    settings.
    """

    models: Mapping[str, LLM] = field(default_factory=dict)
    embedder: Embedder | None = None
    store: Store | None = None

    @property
    def llm(self) -> LLM | None:
        """The model of the role `default`."""
        return self.models.get("default")


@dataclass(frozen=True)
class Resources:
    """The models, embedder, store and journal that settings name. Each run has a budget of its own,
    or `budget` if it is set; all runs count against `within`, if it is set. With a `group`, runs
    read and write only this group of the store.
    """

    settings: Settings
    objects: UserObjects
    owned: Owned
    budget: Budget | None = None
    within: Budget | None = None
    group: str | None = None
    unsent: Unsent | None = None  # requests of a dry run, which sends none

    @property
    def replays(self) -> bool:
        """Whether answers come from a recording, which has one answer for each request."""
        return self.objects.llm is None and PROVIDERS[self.settings.model().provider].replays

    def made_up(self, plan: LogicalPlan, *, writes: bool) -> list[str]:
        """A note if answers are made up. Raises PlanError if they are written to a store that stays."""
        needs, store = plan.needs, self.objects.store
        specs: list[Any] = [self.model(role) for role in needs.roles]
        specs += [self.settings.embedder] if needs.embeds and not self.objects.embedder else []
        named = [s for s in specs if isinstance(s, ModelSpec) and PROVIDERS[s.provider].made_up]
        if not named:
            return []
        address = store.name if store else self.settings.store
        if writes and plan.writes and lasts(address):
            what = f"{plan.name} would write made-up answers ({named[0]}) to {address}"
            raise PlanError(what, hint="use --store memory, or --no-write")
        return [f"answers are made up ({named[0]}): they mean nothing"]

    @cached_property
    def bound_models(self) -> dict[str, LLM | ModelSpec]:
        """The models by role, `default` first: the user's objects, and those of the settings. An
        object for `default` outranks the models of files and variables.
        """
        own, settings = self.objects.models, self.settings
        roles = settings.chosen_roles if "default" in own else settings.roles
        return {role: settings.model(role) for role in ("default", *roles)} | dict(own)

    def model(self, role: str) -> LLM | ModelSpec:
        """The model of a role, or of PROVIDER:NAME. Raises PlanError for a misspelt role."""
        bound = self.bound_models
        if role not in bound and names_model(role):
            return self.settings.model(role)
        return bound[role if role in bound else falls_back(role, bound)]

    def name_of(self, role: str) -> str:
        """The name of the model of a role. Raises PlanError for a misspelt role."""
        return _name_of(self.model(role))

    @property
    def models(self) -> str:
        """The models of all roles, as text."""
        names = {role: _name_of(model) for role, model in self.bound_models.items()}
        if self.objects.llm is not None and len(names) == 1:
            return names["default"]
        return ", ".join(f"{role} {name}" for role, name in names.items())

    @property
    def embedder_name(self) -> str:
        """The name of the embedder."""
        own = self.objects.embedder
        return str(self.settings.embedder) if own is None else own.name

    def observations(self) -> ObservationFile | None:
        """The observations of earlier runs of these models; None without a journal, and for a dry run."""
        if self.unsent is not None:
            return None
        return ObservationFile.beside(self.settings.journal_path, self.models)

    def under(self, settings: Settings) -> Resources:
        """These resources with other settings."""
        return replace(self, settings=settings)

    def choosing(self, models: Mapping[str, Any]) -> Resources:
        """These resources with other models, by role, step or `embed`; `llm` is that of all roles. A
        model is a name, an object, or a role of these resources. Raises PlanError.
        """
        bound, found = self.bound_models, dict[str, Any]()
        for key, m in models.items():
            if isinstance(m, str) and m not in bound and not names_model(m):
                falls_back(m, bound)  # raises for a misspelt role
            found[key] = bound.get(m, m) if isinstance(m, str) else m
        own = {key: model for key, model in found.items() if not isinstance(model, str | ModelSpec)}
        for role, model in own.items():
            require_model(role, model)
        named: dict[str, Any] = {k: model for k, model in found.items() if k not in own}
        kept = {} if "llm" in found else dict(self.objects.models)
        embedder: Any = None if "embed" in named else own.pop("embed", self.objects.embedder)
        if "llm" in own:
            own["default"] = own.pop("llm")
        objects = {role: model for role, model in kept.items() if role not in named} | own
        given = replace(self.objects, models=objects, embedder=embedder)
        return replace(self, settings=self.settings.choosing(named), objects=given)

    def sharing(self) -> Resources:
        """These resources with one budget for all runs."""
        return replace(self, budget=self._budget())

    def over(self, store: Store) -> Resources:
        """These resources with another store, and a budget for each run."""
        return replace(self, objects=replace(self.objects, store=store), budget=None)

    def _budget(self) -> Budget:
        return Budget(**self.settings.limits.of_run, within=self.within)

    @asynccontextmanager
    async def open(
        self, plan: LogicalPlan, *, fresh: bool, record_to: str | Path | None = None
    ) -> AsyncIterator[Opened]:
        """Open the resources of a run, which stay open for the next one. A `fresh` run ignores
        cached answers; `record_to` is the file of the recording to write.
        """
        budget, recording = self.budget or self._budget(), recording_of(plan)
        async with AsyncExitStack() as closing:
            of_loop = await self.owned.here()
            closing.enter_context(of_loop.used())
            if budget.max_seconds is not None:
                deadline = Deadline(
                    lambda: budget.seconds_left, lambda _: budget.time_is_up("rows were computed")
                )
                closing.callback(DEADLINE.reset, DEADLINE.set(deadline))
            path = self.settings.journal_path
            if path is None and (batching := self.sending_batches):
                what = f"{batching[0]} sends batches, and there is no journal to record them"
                what += ": an interrupted run would pay twice"
                hint = "name a journal (semgraph.toml, [journal]), or leave batch=true out"
                raise PlanError(what, hint=hint)
            journal = await of_loop.journal(path, self.settings.keep_days) if path else None
            retries = retry_policy(self.settings)
            stack = Stack(retries, budget, journal, fresh=fresh, unsent=self.unsent)
            shared = of_loop.endpoints, stack, recording
            models: Callable[[str], LLM] = partial(self._models, *shared)
            embedders: Callable[[str], Embedder] = partial(self._embedder, *shared)
            recorder = Recorder() if record_to is not None else None
            if recorder is not None:
                models, embedders = recorder.models(models), recorder.embedders(embedders)
            llm, embedder = models(""), embedders("")
            closing.push_async_callback(llm.aclose)
            closing.push_async_callback(embedder.aclose)
            store = await closing.enter_async_context(self.opened_store(plan.graph))
            now = self._clock(recording)
            now = now if recorder is None else recorder.clock(now)
            yield Opened(llm, embedder, store, journal, budget, now, models, embedders)
            if recorder is not None and record_to is not None:
                recorder.write(record_to)

    @property
    def sending_batches(self) -> list[str]:
        """The models that send batches."""
        return [
            _name_of(model)
            for model in self.bound_models.values()
            if (model.option("batch") if isinstance(model, ModelSpec) else model.limits.batch)
        ]

    def _models(
        self, endpoints: Endpoints, stack: Stack, recording: Path | Recording, scope: str
    ) -> LLM:
        """The models of all roles behind one `LLM`, in a scope of the journal. All scopes share
        endpoints and limiters. A model is opened when its role is first used. In a comparison's scope,
        models that differ in what their answers cost share none.
        """
        stack, wrapped = replace(stack, scope=scope), dict[str | int, LLM]()

        def find(role: str) -> LLM:
            model = self.model(role)
            key = str(model) if isinstance(model, ModelSpec) else id(model)
            if key not in wrapped and isinstance(model, ModelSpec):
                costs = "".join(f" {n}={v}" for n, v in model.options if n in ("batch", "price"))
                own = replace(stack, scope=scope and scope + costs)
                wrapped[key] = endpoints.wrapped(model, self.settings, own, recording)
            elif key not in wrapped and not isinstance(model, ModelSpec):
                limiter = self._limiter(model, model.limits.in_flight)
                wrapped[key] = wrapped_model(model, limiter, stack)
            return wrapped[key]

        return Roles(find("default"), find)

    def _embedder(
        self, endpoints: Endpoints, stack: Stack, recording: Path | Recording, scope: str
    ) -> Embedder:
        """The embedder, in a scope of the journal."""
        stack, own = replace(stack, scope=scope), self.objects.embedder
        if own is None:
            spec = self.settings.embedder
            embedder: Embedder = endpoints.wrapped(spec, self.settings, stack, recording)
            return embedder
        return stack.embedder(Borrowed(own), self._limiter(own, Limits().in_flight))

    def _limiter(self, own: LLM | Embedder, in_flight: int) -> Limiter:
        limits = self.settings.limits
        return self.owned.limiter_of(own, limits.in_flight or in_flight, limits.rpm, limits.tpm)

    async def tokenizers(self, plan: LogicalPlan) -> LLM:
        """The models, only for counting tokens; sends nothing. Raises PlanError without models."""
        endpoints = (await self.owned.here()).endpoints
        return self._models(endpoints, Stack(), recording_of(plan), "")

    async def require_prices(self, plans: Iterable[LogicalPlan]) -> None:
        """Refuse a limit in dollars for plans with a model without a known price. Raises PlanError."""
        endpoints, budget = (await self.owned.here()).endpoints, self._budget()
        for plan in plans if budget.limits_dollars else ():
            of_plan = endpoints, Stack(), recording_of(plan), ""
            require_prices(plan, budget, self._models(*of_plan), self._embedder(*of_plan))

    def _clock(self, recording: Path | Recording) -> Clock:
        if isinstance(recording, Recording) or not self.replays:
            return lambda _name: datetime.now(UTC)
        name = self.settings.model().model
        return Recorded(recording_file(name, self.settings.cwd) if name else recording).now

    @asynccontextmanager
    async def opened_store(self, graph: Graph | None = None) -> AsyncIterator[Store]:
        """The store, for one run over a graph. Raises StoreUnavailable or PlanError."""
        if self.objects.store is not None:
            opened = self.owned.given(self.objects.store, graph)
        elif not lasts(self.settings.store):
            opened = self.owned.memory(lambda: self._store()[0]).borrowed(graph)
        else:
            opened = (await (await self.owned.here()).store(*self._store())).borrowed(graph)
        async with opened as store:
            yield store if self.group is None else ConfinedStore(store, self.group)

    def require_store(self) -> None:
        """Refuse an incomplete store name. Raises StoreUnavailable or PlanError."""
        if self.objects.store is None:
            self._store()

    def _store(self) -> tuple[Store, Path | None]:
        """The unopened store of the settings, and its file. Raises StoreUnavailable or PlanError."""
        address, env = self.settings.store, self.settings.environment
        spec = store_spec(address)
        if spec.password and address != spec.scheme and env.get(spec.password):
            require_trusted(spec.password, address, self.settings["store"], self.settings)
        return spec.open(address, self.settings.cwd, env), self._file

    async def prune(
        self, before: float | None, groups: Iterable[str] | str | None
    ) -> tuple[int, int]:
        """Delete answers and vectors from the journal and the journals of shards, as
        `Journal.prune` does; return the number of each. Raises SemgraphError; PlanError if a group
        is not a text.
        """
        names: list[Any] | None = None if groups is None else [groups]
        if isinstance(groups, Iterable) and not isinstance(groups, str):
            names = list(groups)
        if odd := [name for name in names or () if not isinstance(name, str)]:
            raise PlanError(f"a group is a text, not {odd[0]!r:.80}")
        answers = vectors = 0
        for path in filter(Path.exists, self.journals):
            journal, _ = await _opened(path, None)
            try:
                found = await journal.prune(before, names)
            finally:
                await _closed(journal)
            answers, vectors = answers + found[0], vectors + found[1]
        return answers, vectors

    @property
    def journals(self) -> list[Path]:
        """The files of the journal and of the journals of shards; empty without a journal."""
        path = self.settings.journal_path
        if path is None:
            return []
        shards = journal_of_shard(path, 1, 0).parents[1].glob("*/*.db")
        return [path, *sorted(each for each in shards if each.stem.isdecimal())]

    @property
    def may_hold_rows(self) -> bool:
        """Whether the store may hold rows: a file that does not exist holds none."""
        store, cwd = self.settings.store, self.settings.cwd
        return self.objects.store is not None or store_spec(store).holds_rows(store, cwd)

    @property
    def _file(self) -> Path | None:
        """The file of the store; None for a store without a file."""
        return store_spec(self.settings.store).file(self.settings.store, self.settings.cwd)

    def need_graph(self) -> None:
        """Refuse to read a store that does not exist. Raises StoreUnavailable."""
        file, cwd = self._file, self.settings.cwd
        if file is not None and not self.may_hold_rows:
            path = file.relative_to(cwd) if file.is_relative_to(cwd) else file
            origin = self.settings["store"].origin
            raise StoreUnavailable(
                f"there is no graph at {path} ({origin}), and this only reads one. "
                "Name another store: --store sqlite:PATH; or run a plan that writes one: semgraph plans list"
            )


def require_model(role: str, model: Any) -> None:
    """Refuse an object that is no model, or for the role `embed` no embedder. Raises PlanError."""
    if not hasattr(model, "embed" if role == "embed" else "complete"):
        hint = 'a name such as "openai:gpt-4.1-mini", or an object'
        raise PlanError(f"{role}: {model!r} is no model", hint=hint)


def _name_of(model: LLM | ModelSpec) -> str:
    return str(model) if isinstance(model, ModelSpec) else model.name


def recording_of(plan: LogicalPlan) -> Path | Recording:
    """The file of a plan's recording; an empty recording for a plan without calls and file."""
    file, needs = plan.recording, plan.needs
    return file if needs.roles or needs.embeds or file.exists() else Recording()


def journal_of_shard(journal: Path, shards: int, number: int) -> Path:
    """The journal of one shard, stored next to the journal of the whole run."""
    return journal.parent / f"{journal.stem}-shards" / str(shards) / f"{number:05}.db"
