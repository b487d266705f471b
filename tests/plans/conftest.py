"""A graph under test: the shipped plans, a simulated model, and a store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from benchmarks.world import StandIn
from semgraph.execution.result import Result
from semgraph.frontend.load import load_plan
from semgraph.frontend.plan_files import is_plan
from semgraph.logical.plan import LogicalPlan
from semgraph.stores.base import Store
from tests.partial import maybe_partial
from tests.served import session_with

both_stores = pytest.mark.parametrize("store", ["memory", "neo4j"], indirect=True)
"""For a scenario of each plan. That stores agree is what `tests/stores` checks."""
PLANS = Path(__file__).parents[2] / "plans"
NAMES = sorted(
    path.relative_to(PLANS).with_suffix("").as_posix()
    for path in PLANS.rglob("*.yaml")
    if is_plan(path)
)
"""All shipped plans, by their place in the folder: `add_episode`, `memories/turns/read`."""
Row = Mapping[str, Any]


def at(minute: int, *, year: int = 2025, month: int = 1, day: int = 15) -> datetime:
    """Minutes after nine on a day, the fifteenth of January 2025 unless said otherwise."""
    return datetime(year, month, day, 9, tzinfo=UTC) + timedelta(minutes=minute)


def _spoken(text: str) -> str:
    return text if "(user): " in text else f"Ann(user): {text}"


@dataclass
class Graph:
    """What a graph holds."""

    episodes: list[Row]
    entities: list[Row]
    facts: list[Row]
    mentions: list[Row]

    def __post_init__(self) -> None:
        self._names = {e["uuid"]: e["name"] for e in self.entities}
        self._said = {e["uuid"]: e["content"] for e in self.episodes}

    @property
    def names(self) -> list[str]:
        """Names of the entities, sorted; two of one name stand here twice."""
        return sorted(self._names.values())

    @property
    def arrows(self) -> list[tuple[str, str, str]]:
        """Source, name and target of each fact, sorted."""
        return sorted(
            (self._names[f["source"]], f["name"], self._names[f["target"]]) for f in self.facts
        )

    def fact(self, start: str) -> Row:
        """The one fact whose sentence begins so."""
        (found,) = (f for f in self.facts if f["fact"].startswith(start))
        return found

    def entity(self, name: str) -> Row:
        """The one entity of a name."""
        (found,) = (e for e in self.entities if e["name"] == name)
        return found

    def mentioned(self, name: str) -> int:
        """How many episodes mention an entity."""
        return sum(m["target"] == self.entity(name)["uuid"] for m in self.mentions)


def loaded(plan: str | Path, **settled: Any) -> LogicalPlan:
    """A plan, loaded and optimized once for all tests of a process."""
    key = str(plan), repr(settled)
    if key not in _LOADED:
        _LOADED[key] = load_plan(
            PLANS / f"{plan}.yaml" if isinstance(plan, str) else plan, **settled
        )
    return _LOADED[key]


_LOADED: dict[tuple[str, str], LogicalPlan] = {}


class Memory:
    """Runs the plans against one store and one model, and reads back what the graph holds."""

    def __init__(self, store: str | Store, model: StandIn, runs: Path) -> None:
        self.model = model
        self.session = session_with(model, store, runs)
        self._minute = 0

    def episode(
        self, content: str, when: datetime | None = None, group: str = "g", **more: Any
    ) -> dict[str, Any]:
        """An episode, a minute after the last one unless it has a time."""
        self._minute += 1
        return {"content": content, "valid_at": when or at(self._minute), "group_id": group, **more}

    async def hear(self, *said: str | dict[str, Any], **options: Any) -> Result:
        """Add episodes; texts are said a minute apart, by Ann where no speaker stands before
        them.
        """
        episodes = [self.episode(_spoken(one)) if isinstance(one, str) else one for one in said]
        return await self.run("add_episode", episodes=episodes, **options)

    async def run(self, plan: str | Path, **options: Any) -> Result:
        """Run another plan."""
        settled = {
            name: options.pop(name) for name in ("params", "preset", "use") if name in options
        }
        return await maybe_partial(self.session.arun(loaded(plan, **settled), **options))

    @staticmethod
    def here(name: str) -> Path:
        """A file of these tests."""
        return Path(__file__).with_name(name)

    async def graph(self) -> Graph:
        """What the graph holds."""
        found = await self.session.arun(loaded(self.here("whole_graph.yaml")))
        return Graph(**{name: table.to_pylist() for name, table in found.tables.items()})

    async def around(self) -> dict[str, list[Row]]:
        """What it holds besides: communities, members, sagas, and which episode a saga holds and
        which follows which.
        """
        found = await self.session.arun(loaded(self.here("around.yaml")))
        return {name: table.to_pylist() for name, table in found.tables.items()}


@pytest.fixture
async def model() -> AsyncIterator[StandIn]:
    """The stand-in, which dates facts."""
    async with StandIn() as server:
        yield server


@pytest.fixture
async def store(request: pytest.FixtureRequest) -> AsyncIterator[str | Store]:
    """An empty store: SQLite's in memory, or the one that `both_stores` asks for."""
    if getattr(request, "param", "memory") == "memory":
        yield "memory"
        return
    from semgraph.stores.neo4j.store import Neo4jStore

    server = request.getfixturevalue("neo4j_database")
    made = Neo4jStore(server.uri, server.user, server.password)
    yield made
    await made.aclose()


@pytest.fixture
async def remember(
    store: str | Store, tmp_path: Path
) -> AsyncIterator[Callable[[StandIn], Memory]]:
    """Makes a memory with a model of the test's own."""
    made: list[Memory] = []

    def make(model: StandIn) -> Memory:
        made.append(Memory(store, model, tmp_path))
        return made[-1]

    yield make
    for memory in made:
        await memory.session.aclose()


@pytest.fixture
def memory(remember: Callable[[StandIn], Memory], model: StandIn) -> Memory:
    """An empty memory."""
    return remember(model)
