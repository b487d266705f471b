"""What a run needs from outside: models, an embedder, a store, a journal. Opened when a run needs them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from semgraph.errors import PlanError, Problem
from semgraph.llm.base import LLM, Embedder
from semgraph.llm.budget import Budget
from semgraph.llm.config import Settings
from semgraph.llm.embed.once import EmbedOnce
from semgraph.llm.endpoints import build_embedder, build_models
from semgraph.llm.journal import Journal
from semgraph.llm.limits import Limiter
from semgraph.llm.stack import stack
from semgraph.stores.base import Store


@dataclass(frozen=True)
class Given:
    """Objects that the user made; None: made from the settings."""

    llm: LLM | None = None
    embedder: Embedder | None = None
    store: Store | None = None


@dataclass(frozen=True)
class Opened:
    """What one run uses."""

    llm: LLM
    embedder: Embedder
    store: Store
    journal: Journal | None
    budget: Budget


@dataclass
class Resources:
    """Opens what runs need, and keeps what must outlive a run: the store in memory, and a model in this process."""

    settings: Settings
    given: Given
    _memory: Store | None = None
    _kept: dict[str, LLM] = field(default_factory=dict)

    @asynccontextmanager
    async def open(self, plan: str, plan_file: Path, *, fresh: bool, record_to: Path | None) -> AsyncIterator[Opened]:
        """Everything one run uses, closed afterwards.

        Args:
            plan: Name of the plan, for recordings.
            plan_file: Its file; recordings stand in `recordings/` beside it.
            fresh: Ask anew even what the journal knows.
            record_to: Where to record the run.
        """
        limits = self.settings.limits
        budget = Budget(limits.max_calls, limits.max_tokens, limits.max_usd, limits.max_seconds)
        path = self.settings.journal_path
        journal = Journal(path, self.settings.keep_days) if path is not None else None
        closing: list[Any] = []
        try:
            llm, endpoints = self._models(budget, journal, fresh=fresh)
            closing += endpoints
            inner = self.given.embedder or build_embedder(self.settings)
            closing += [] if self.given.embedder else [inner]
            embedder = EmbedOnce(inner, journal, budget, fresh)
            store = await self.store()
            closing += [store] if store is not self._memory and store is not self.given.store else []
            yield Opened(llm, embedder, store, journal, budget)
        finally:
            for thing in closing:
                await thing.aclose()
            if journal is not None:
                await journal.aclose()

    def _models(self, budget: Budget, journal: Journal | None, *, fresh: bool) -> tuple[LLM, list[LLM]]:
        """The models by role behind one `LLM`, and the endpoints to close."""
        limits = self.settings.limits
        if self.given.llm is not None:
            limiter = Limiter(limits.in_flight or self.given.llm.limits.in_flight, limits.rpm, limits.tpm)
            return stack(self.given.llm, limiter, budget=budget, journal=journal, fresh=fresh), []
        llm = build_models(self.settings, budget=budget, journal=journal, fresh=fresh)
        return llm, [llm]

    async def store(self) -> Store:
        """The store that the settings name. Raises StoreUnavailable or PlanError."""
        if self.given.store is not None:
            return self.given.store
        name, env = self.settings.store, self.settings.environment
        if name == "memory":
            if self._memory is None:
                from semgraph.stores.sqlite import SqliteStore

                self._memory = SqliteStore(":memory:")
            return self._memory
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

    async def aclose(self) -> None:
        """Close what was kept open."""
        if self._memory is not None:
            await self._memory.aclose()
            self._memory = None


def _neo4j(name: str, env: Mapping[str, str]) -> Store:
    from semgraph.stores.neo4j import Neo4jStore

    uri = env.get("NEO4J_URI", "") if name == "neo4j" else name
    if not uri:
        raise PlanError(
            Problem("store neo4j: NEO4J_URI is not set", hint="set it, or name the store: --store neo4j://HOST:7687")
        )
    user = env.get("NEO4J_USERNAME") or env.get("NEO4J_USER") or "neo4j"
    return Neo4jStore(uri, user, env.get("NEO4J_PASSWORD", ""), env.get("NEO4J_DATABASE"))
