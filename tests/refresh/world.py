"""A group that is written, edited and refreshed, and the same group written anew."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import semgraph
from benchmarks.world import StandIn
from semgraph.execution.windows import RecordedWindow
from semgraph.frontend.load import load_plan
from semgraph.logical.plan import LogicalPlan
from semgraph.options import RunOptions
from semgraph.session.inputs import typed_inputs
from semgraph.session.refresh import Refresh
from semgraph.session.run import RunRequest, run_plan
from semgraph.stores.base import History, ScanQuery, Store
from tests.execution.conftest import PLAN
from tests.execution.graphs import wire
from tests.patience import HANGS

Row = dict[str, Any]
State = dict[tuple[str, str], Row]  # by label and key
START = datetime(2025, 1, 15, 9, tzinfo=UTC)


def episode(number: int, text: str, group: str = "g", **more: Any) -> Row:
    """An episode, ten minutes after the one before; Ann says it unless another speaker is named."""
    return {
        "uuid": f"{group}-e{number}",
        "group_id": group,
        "valid_at": START + timedelta(minutes=10 * number),
        "content": text if "(user): " in text else f"Ann(user): {text}",
        **more,
    }


def edited(rows: Sequence[Row], number: int, **values: Any) -> list[Row]:
    """The rows with other values in one of them."""
    return [{**row, **values} if i == number else row for i, row in enumerate(rows)]


@cache
def _loaded(plan: Path, settled: str) -> LogicalPlan:
    return load_plan(plan, **json.loads(settled))


def loaded(plan: Path = PLAN, **settled: Any) -> LogicalPlan:
    """A plan, loaded once for all tests of a process."""
    return _loaded(plan, json.dumps({name: v for name, v in settled.items() if v}))


async def state(store: Store, graph: Any = None, dimensions: int = 256) -> State:
    """All that a store holds, with times of creation and derived columns."""
    graph = graph or loaded().graph
    await store.ensure(graph, dimensions)
    return {
        (name, row[graph.key]): {k: v for k, v in row.items() if v not in (None, [], "{}")}
        for name, label in graph.labels.items()
        for row in (await store.scan(ScanQuery(name, list(label.columns)))).to_pylist()
    }


def without(found: State, *properties: str) -> State:
    """A state without some properties."""
    return {at: {k: v for k, v in row.items() if k not in properties} for at, row in found.items()}


def of_group(found: State, group: str) -> State:
    """What a state holds of a group."""
    return {at: row for at, row in found.items() if row["group_id"] == group}


def different(one: State, other: State) -> list[tuple[Any, Any, Any]]:
    """The rows that differ, for the message of a failed test."""
    return [
        (at, one.get(at), other.get(at))
        for at in sorted({*one, *other})
        if one.get(at) != other.get(at)
    ]


@dataclass
class World:
    """A store, a model, and a journal in a folder."""

    model: StandIn
    store: Store
    folder: Path
    journal: str = "journal.db"
    llm: str = "gpt-4.1-mini"
    dimensions: int = 256
    sessions: list[semgraph.Session] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Open a session."""
        self.session = self.another(self.store)

    def another(self, store: str | Store, *, llm: str = "") -> semgraph.Session:
        """A session over a store, with the same journal."""
        url = self.model.base_url
        self.sessions.append(
            semgraph.Session(
                llm=f"openai:{llm or self.llm}@{url}?timeout={HANGS:.0f}",
                embedder=f"openai:stand-in@{url}?dimensions={self.dimensions}&timeout={HANGS:.0f}",
                store=store, journal=self.journal, runs="", folder=self.folder,
            )
        )  # fmt: skip
        return self.sessions[-1]

    async def aclose(self) -> None:
        """Close all sessions."""
        for session in self.sessions:
            await session.aclose()

    async def run(self, plan: Any, **options: Any) -> Any:
        """Run a plan; options of a choice are settled first."""
        return await self.session.arun(*_settled(plan, options), **options, progress=None)

    async def write(self, rows: Iterable[Row], **options: Any) -> Any:
        """Add episodes."""
        return await self.run(PLAN, episodes=list(rows), **options)

    async def refresh(self, rows: Iterable[Row], **options: Any) -> Refresh:
        """Compute a refresh of `add_episode`."""
        return await self.session.arefresh(*_settled(PLAN, options), episodes=list(rows), **options)

    async def refreshed(self, rows: Iterable[Row], **options: Any) -> Refresh:
        """Refresh, and apply it."""
        refresh = await self.refresh(rows, **options)
        await refresh.aapply()
        return refresh

    async def state(self, graph: Any = None) -> State:
        """All that the store holds."""
        return await state(self.store, graph, self.dimensions)

    async def history(self, group: str = "g") -> History:
        """What `add_episode` committed in a group."""
        return (await self.store.history("add_episode", [group]))[group]

    @property
    def requests(self) -> Counter[str]:
        """The requests that the server has seen."""
        return wire(self.model.requests)

    async def require_no_change(self, rows: Iterable[Row], **options: Any) -> None:
        """A refresh sends no request and has an empty diff."""
        before, embedded = len(self.model.requests), self.model.counters.embedding_calls
        refresh = await self.refresh(rows, **options)
        assert len(refresh.diff) == 0, str(refresh.diff)
        assert len(self.model.requests) == before
        assert self.model.counters.embedding_calls == embedded

    async def in_windows(self, session: semgraph.Session, rows: list[Row], **options: Any) -> None:
        """Run over rows in the windows of the markers of this world, in another store."""
        history = await self.history()
        windows = tuple(
            RecordedWindow(
                "g", tuple(row.row for row in each.rows), each.now, each.begun or each.now
            )
            for each in history.windows
        )
        (plan,) = _settled(PLAN, options)
        request = RunRequest(
            plan, typed_inputs(plan, {"episodes": rows, **options}), RunOptions(again=True),
            None, windows=windows,
        )  # fmt: skip
        await run_plan(request, session._resources)


def _settled(plan: Any, options: dict[str, Any]) -> tuple[Any]:
    names = ("params", "preset", "use", "prompts")
    settled = {name: options.pop(name) for name in names if name in options}
    return (loaded(plan, **settled) if isinstance(plan, Path) else plan,)
