"""What a run needs from outside: models, an embedder, a store, a journal. The session owns them, a run borrows them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from semgraph.errors import PlanError, Problem, StoreUnavailable
from semgraph.llm.base import LLM, Embedder
from semgraph.llm.budget import Budget
from semgraph.llm.config import Settings
from semgraph.llm.embed.once import EmbedOnce
from semgraph.llm.endpoints import Endpoints, build_models
from semgraph.llm.journal import Journal
from semgraph.llm.limits import Limiter
from semgraph.llm.recorder import Recorder
from semgraph.llm.stack import stack
from semgraph.llm.wrapper import Borrowed
from semgraph.logical.node import Node
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.schema import Graph
from semgraph.physical.semantic.asking import Answered
from semgraph.session.owned import Owned
from semgraph.stores.base import Store

Clock = Callable[[str], datetime]


@dataclass(frozen=True)
class Given:
    """Objects that the user made; None: made from the settings."""

    llm: LLM | None = None
    embedder: Embedder | None = None
    store: Store | None = None


@dataclass(frozen=True)
class Opened:
    """What one run uses. `now` tells the time of a slice or wave, by its name; `scoped` gives the same models with a scope of
    the journal of their own: no answer goes from one scope to another.
    """

    llm: LLM
    embedder: Embedder
    store: Store
    journal: Journal | None
    budget: Budget
    now: Clock
    scoped: Callable[[str], LLM]

    def answered(self, _node: Node, found: Answered) -> None:
        """Take in what a model was asked: an answer that was of no use is never served from the journal again."""
        if self.journal is not None:
            self.journal.withdraw(found.unusable)


@dataclass(frozen=True)
class Resources:
    """What a session has, as settings name it: each run gets its view of it, with its own budget, or with `budget` if all
    runs share one.
    """

    settings: Settings
    given: Given
    owned: Owned
    budget: Budget | None = None

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
    async def open(self, plan: LogicalPlan, *, fresh: bool, record_to: Path | None = None) -> AsyncIterator[Opened]:
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
            journal = await of_loop.journal(path, self.settings.keep_days) if path is not None else None
            scoped = self._models(of_loop.endpoints, budget, journal, recording, fresh=fresh)
            llm = scoped("")
            closing.push_async_callback(llm.aclose)
            inner = self.given.embedder or of_loop.endpoints.embedder(self.settings, recording)
            kept = None if self.settings.embedder.provider == "recorded" and self.given.embedder is None else journal
            embedder: Embedder = EmbedOnce(inner, kept, budget, fresh)
            store = await closing.enter_async_context(self.opened_store(plan.graph))
            now = self._clock(recording)
            recorder = Recorder() if record_to is not None else None
            if recorder is not None:
                llm, embedder, now = recorder.llm(llm), recorder.embedder(embedder), recorder.clock(now)
            yield Opened(llm, embedder, store, journal, budget, now, scoped)
            if recorder is not None and record_to is not None:
                recorder.write(record_to)

    def _models(
        self, endpoints: Endpoints, budget: Budget | None, journal: Journal | None, recording: Path, *, fresh: bool
    ) -> Callable[[str], LLM]:
        """The models by role behind one `LLM`, for each scope of the journal; all scopes share endpoints and limiters."""
        limits, given = self.settings.limits, self.given.llm
        if given is None:
            return lambda scope: build_models(
                self.settings,
                endpoints,
                budget=budget,
                journal=journal,
                fresh=fresh,
                recording=recording,
                scope=scope,
            )
        limiter = self.owned.limiter_of(
            given, lambda: Limiter(limits.in_flight or given.limits.in_flight, limits.rpm, limits.tpm)
        )
        model = Borrowed(given)
        return lambda scope: stack(model, limiter, budget=budget, journal=journal, scope=scope, fresh=fresh)

    async def tokenizers(self, plan: LogicalPlan) -> LLM:
        """The models, to count tokens with: nothing is sent. Raises PlanError where there is none."""
        return self.given.llm or build_models(
            self.settings, (await self.owned.here()).endpoints, budget=None, journal=None, recording=recording_of(plan)
        )

    def _clock(self, recording: Path) -> Clock:
        spec = self.settings.model()
        if self.given.llm is not None or spec.provider != "recorded":
            return lambda _name: datetime.now(UTC)
        from semgraph.llm.recorded import Recorded

        return Recorded(self.settings.cwd / spec.model if spec.model else recording).now

    @asynccontextmanager
    async def opened_store(self, graph: Graph | None = None) -> AsyncIterator[Store]:
        """The store that the settings name, for one run over a graph. Raises StoreUnavailable or PlanError."""
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
        """The store that the settings name, not opened, and its file. Raises StoreUnavailable or PlanError."""
        name, env = self.settings.store, self.settings.environment
        if name.startswith("sqlite:"):
            from semgraph.stores.sqlite import SqliteStore

            file = self.settings.cwd / name.removeprefix("sqlite:")
            return SqliteStore(file), file
        if name == "neo4j-local":
            from semgraph.stores.neo4j import local_store

            return local_store(self.settings.cwd / ".semgraph" / "neo4j"), None
        if name == "neo4j" or name.split(":")[0].split("+")[0] in {"neo4j", "bolt"}:
            return _neo4j(name, env), None
        known = "sqlite:PATH, memory, neo4j, neo4j://HOST:PORT, neo4j-local"
        raise PlanError(Problem(f'"{name}" is no store', there=f"stores: {known}"))

    def forget(self, groups: Iterable[str]) -> int:
        """Delete what the journal holds of some groups; how many answers and vectors there were. Raises SemgraphError."""
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
        return self.given.store is not None or scheme != "sqlite" or (self.settings.cwd / path).exists()

    def need_graph(self) -> None:
        """Refuse a store that is not there: one that is only read need not be made. Raises StoreUnavailable."""
        if not self.may_hold_rows:
            file = self.settings.cwd / self.settings.store.removeprefix("sqlite:")
            shown = file.relative_to(self.settings.cwd) if file.is_relative_to(self.settings.cwd) else file
            origin = self.settings["store"].origin
            raise StoreUnavailable(
                f"there is no graph at {shown} ({origin}), and this plan only reads one. "
                "Name the one that you mean: --store sqlite:PATH; or run a plan that writes it: semgraph plans list"
            )


def recording_of(plan: LogicalPlan) -> Path:
    """Where a plan's own recording is."""
    return Path(plan.file).parent / "recordings" / f"{plan.name}.jsonl"


def _neo4j(name: str, env: Mapping[str, str]) -> Store:
    from semgraph.stores.neo4j import Neo4jStore

    uri = env.get("NEO4J_URI", "") if name == "neo4j" else name
    if not uri:
        raise PlanError(
            Problem("store neo4j: NEO4J_URI is not set", hint="set it, or name the store: --store neo4j://HOST:7687")
        )
    user = env.get("NEO4J_USERNAME") or env.get("NEO4J_USER") or "neo4j"
    return Neo4jStore(uri, user, env.get("NEO4J_PASSWORD", ""), env.get("NEO4J_DATABASE"))
