"""A memory under test: its two plans, a simulated model and a store."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from benchmarks.memories.conversations import Conversation, score
from benchmarks.world import StandIn
from semgraph.execution.result import Result
from semgraph.folders import plans_folder
from semgraph.frontend.document import Document
from semgraph.frontend.load import load_document, load_plan
from semgraph.logical.plan import LogicalPlan
from semgraph.stores.base import Store
from semgraph.stores.sqlite.store import SqliteStore
from tests.partial import maybe_partial
from tests.served import session_with

both_stores = pytest.mark.parametrize("store", ["memory", "neo4j"], indirect=True)
"""For one scenario of each memory. That stores agree is what `tests/stores` checks."""
ADA = "Ada Costa"


def turn(day: int, text: str, speaker: str = ADA, conversation: str = "c") -> dict[str, Any]:
    """A turn, said on a day of 2025: its id is `t` and the day."""
    at = datetime(2025, 1, 1, 9, tzinfo=UTC) + timedelta(days=day)
    return {
        "conversation": conversation,
        "id": f"t{day}",
        "at": at,
        "speaker": speaker,
        "text": text,
    }


@cache
def loaded(path: Path, settled: str = "{}") -> LogicalPlan:
    """A plan, loaded once for all tests of a process; `settled` is JSON of options of `load_plan`."""
    return load_plan(path, **json.loads(settled))


@cache
def all_of(label: str, graph: Path) -> LogicalPlan:
    """A plan that reads what a store holds under a label."""
    scan = {"from": {"label": label, "partition": "all"}}
    plan = {"plan": label, "graph": str(graph), "steps": {"rows": [scan]}, "returns": ["rows"]}
    path = graph.with_name(f"{label}.yaml")
    return load_document(Document(str(path), plan), path)


class Told:
    """A memory of `plans/memories` in one store.

    Args:
        name: The folder of its plans.
        model: The simulated model.
        store: Its own, or one of several memories.
        folder: A folder for files of the test.
        limits: Of the session, such as `max_calls`.
    """

    def __init__(
        self, name: str, model: StandIn, store: Store, folder: Path, **limits: Any
    ) -> None:
        self.plans = plans_folder() / "memories" / name
        self.folder = folder
        self.session = session_with(model, store, folder, **limits)

    async def tell(self, *turns: dict[str, Any], **options: Any) -> Result:
        """Run the write plan; `inputs` are its inputs besides the turns."""
        return await self.run("write", options, turns=list(turns))

    async def ask(
        self, *questions: str, conversation: str = "c", **options: Any
    ) -> list[dict[str, Any]]:
        """The rows of `answers`, in the order of the questions."""
        rows = [
            {
                "conversation": conversation,
                "id": f"q{n}",
                "question": text,
                "at": "2026-01-01T09:00:00Z",
            }
            for n, text in enumerate(questions)
        ]
        result = await self.run("read", options, questions=rows)
        assert not result.failed
        return sorted(result.tables["answers"].to_pylist(), key=lambda row: row["id"])

    async def by_kind(self, conversation: Conversation, **options: Any) -> Mapping[str, float]:
        """F1 by kind of the answers about a conversation that was told."""
        result = await self.run("read", options, questions=conversation.questions)
        return score(conversation.asked, result.tables["answers"].to_pylist()).by_kind

    async def rows(self, label: str, plan: str = "write") -> list[dict[str, Any]]:
        """What the store holds under a label, of all conversations."""
        graph = (self.plans / loaded(self.plans / f"{plan}.yaml").document["graph"]).resolve()
        result = await self.session.arun(all_of(label, graph))
        return result.tables["rows"].to_pylist()

    async def run(self, which: str, options: dict[str, Any], **rows: Any) -> Result:
        """Run the plan `write` or `read`; what fails is in the result."""
        given = {name: options.pop(name) for name in ("params", "preset", "use") if name in options}
        plan = loaded(self.plans / f"{which}.yaml", json.dumps(given, default=str))
        return await maybe_partial(self.session.arun(plan, **rows, **options))


@pytest.fixture
async def model() -> AsyncIterator[StandIn]:
    """The simulated model, without errors."""
    async with StandIn() as server:
        yield server


@pytest.fixture
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    """An empty store: SQLite's in memory, or the one that `both_stores` asks for."""
    if getattr(request, "param", "memory") == "memory":
        made: Store = SqliteStore(":memory:")
    else:
        from semgraph.stores.neo4j.store import Neo4jStore

        server = request.getfixturevalue("neo4j_database")
        made = Neo4jStore(server.uri, server.user, server.password)
    yield made
    await made.aclose()


@pytest.fixture
async def memory(
    model: StandIn, store: Store, tmp_path: Path
) -> AsyncIterator[Callable[..., Told]]:
    """Makes a memory by its name, with the model and the store of the test or others, and with limits."""
    made: list[Told] = []

    def make(name: str, answering: StandIn = model, kept: Store = store, **limits: Any) -> Told:
        made.append(Told(name, answering, kept, tmp_path, **limits))
        return made[-1]

    yield make
    for one in made:
        await one.session.aclose()
