"""What a run needs from outside: models, an embedder, a store, a journal. Opened when a run needs them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from semgraph.errors import PlanError, Problem, StoreUnavailable
from semgraph.llm.base import LLM, Embedder
from semgraph.llm.budget import Budget
from semgraph.llm.config import Settings
from semgraph.llm.embed.once import EmbedOnce
from semgraph.llm.endpoints import build_embedder, build_models
from semgraph.llm.journal import Journal
from semgraph.llm.limits import Limiter
from semgraph.llm.recorder import Recorder
from semgraph.llm.stack import stack
from semgraph.logical.node import Node
from semgraph.physical.semantic import Answered
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


@dataclass
class Resources:
    """Opens what runs need, and keeps what must outlive a run: the store in memory. Each run has a budget of its own, unless
    all are to share `budget`.
    """

    settings: Settings
    given: Given
    budget: Budget | None = None
    _memory: list[Store] = field(default_factory=list)  # one, once it is made; shared with `under`

    def under(self, settings: Settings) -> Resources:
        """The same with other settings."""
        return replace(self, settings=settings)

    def sharing(self) -> Resources:
        """The same with one budget, as the limits say, for all its runs."""
        return replace(self, budget=self._budget())

    def _budget(self) -> Budget:
        limits = self.settings.limits
        return Budget(limits.max_calls, limits.max_tokens, limits.max_usd, limits.max_seconds)

    @asynccontextmanager
    async def open(self, plan: str, plan_file: Path, *, fresh: bool, record_to: Path | None) -> AsyncIterator[Opened]:
        """Everything one run uses, closed afterwards.

        Args:
            plan: Name of the plan; its recording is `recordings/PLAN.jsonl` beside its file.
            plan_file: The plan's file.
            fresh: Ask anew even what the journal knows.
            record_to: Where to record the run, if it is to be recorded.
        """
        budget = self.budget or self._budget()
        recording = plan_file.parent / "recordings" / f"{plan}.jsonl"
        path = self.settings.journal_path
        async with AsyncExitStack() as closing:
            journal = Journal(path, self.settings.keep_days) if path is not None else None
            if journal is not None:
                closing.callback(journal.close)
            scoped = self._models(budget, journal, recording, fresh=fresh)
            llm = scoped("")
            inner = self.given.embedder or build_embedder(self.settings, recording)
            kept = None if self.settings.embedder.provider == "recorded" and self.given.embedder is None else journal
            embedder: Embedder = EmbedOnce(inner, kept, budget, fresh)
            if self.given.llm is None:
                closing.push_async_callback(llm.aclose)
            if self.given.embedder is None:
                closing.push_async_callback(inner.aclose)
            store = await closing.enter_async_context(self.opened_store())
            now = self._clock(recording)
            recorder = Recorder() if record_to is not None else None
            if recorder is not None:
                llm, embedder, now = recorder.llm(llm), recorder.embedder(embedder), recorder.clock(now)
            yield Opened(llm, embedder, store, journal, budget, now, scoped)
            if recorder is not None and record_to is not None:
                recorder.write(record_to)

    def _models(self, budget: Budget, journal: Journal | None, recording: Path, *, fresh: bool) -> Callable[[str], LLM]:
        """The models by role behind one `LLM`, for each scope of the journal; all scopes share endpoints and limiters."""
        limits, given = self.settings.limits, self.given.llm
        if given is None:
            known: dict[str, tuple[LLM, Limiter]] = {}
            return lambda scope: build_models(
                self.settings,
                budget=budget,
                journal=journal,
                fresh=fresh,
                recording=recording,
                scope=scope,
                known=known,
            )
        limiter = Limiter(limits.in_flight or given.limits.in_flight, limits.rpm, limits.tpm)
        return lambda scope: stack(given, limiter, budget=budget, journal=journal, scope=scope, fresh=fresh)

    def _clock(self, recording: Path) -> Clock:
        spec = self.settings.model()
        if self.given.llm is not None or spec.provider != "recorded":
            return lambda _name: datetime.now(UTC)
        from semgraph.llm.recorded import Recorded

        return Recorded(self.settings.cwd / spec.model if spec.model else recording).now

    async def store(self) -> Store:
        """The store that the settings name. Raises StoreUnavailable or PlanError."""
        if self.given.store is not None:
            return self.given.store
        name, env = self.settings.store, self.settings.environment
        if name == "memory":
            if not self._memory:
                from semgraph.stores.sqlite import SqliteStore

                self._memory.append(SqliteStore(":memory:"))
            return self._memory[0]
        if name.startswith("sqlite:"):
            from semgraph.stores.sqlite import SqliteStore

            return SqliteStore(self.settings.cwd / name.removeprefix("sqlite:"))
        if name == "neo4j-local":
            from semgraph.stores.neo4j import local_store

            return local_store(self.settings.cwd / ".semgraph" / "neo4j")
        if name == "neo4j" or name.split(":")[0].split("+")[0] in {"neo4j", "bolt"}:
            return _neo4j(name, env)
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

    @asynccontextmanager
    async def opened_store(self) -> AsyncIterator[Store]:
        """The store alone, closed afterwards unless it outlives a run."""
        store = await self.store()
        try:
            yield store
        finally:
            if store not in self._memory and store is not self.given.store:
                await store.aclose()

    async def aclose(self) -> None:
        """Close what was kept open."""
        while self._memory:
            await self._memory.pop().aclose()


def _neo4j(name: str, env: Mapping[str, str]) -> Store:
    from semgraph.stores.neo4j import Neo4jStore

    uri = env.get("NEO4J_URI", "") if name == "neo4j" else name
    if not uri:
        raise PlanError(
            Problem("store neo4j: NEO4J_URI is not set", hint="set it, or name the store: --store neo4j://HOST:7687")
        )
    user = env.get("NEO4J_USERNAME") or env.get("NEO4J_USER") or "neo4j"
    return Neo4jStore(uri, user, env.get("NEO4J_PASSWORD", ""), env.get("NEO4J_DATABASE"))
