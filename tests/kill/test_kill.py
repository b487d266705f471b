"""Runs that are killed, anywhere, and run again: the graph is that of a run that was not, and no
answer is paid twice.

`KILLS` says how many processes are killed, `SEED` which draws are made: `make kill KILLS=200
SEED=7`.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest
from aiohttp import web

from benchmarks.world import StandIn
from semgraph.execution.record import all_runs, read_answers, read_rows
from semgraph.frontend.load import load_plan
from semgraph.stores.base import CommittedRow
from tests.conftest import without_schema
from tests.execution.conftest import PLAN, ROOT, Graph, Place, Row, place_of, said, wire
from tests.kill.points import INSIDE

KILLS = int(os.environ.get("KILLS") or 4)
SEED = os.environ.get("SEED") or "0"
STORIES = {
    "g": ["Ann(user): I work at Luma.", "Ben(user): I know Ann.", "Ann(user): I moved to Oslo."],
    "h": [
        "Dora(user): I live in Lisbon.",
        "Emil(user): I know Dora.",
        "Dora(user): I moved to Vienna.",
    ],
}
EPISODES = [
    {**row, "uuid": f"{group}-{n}"}
    for group in STORIES
    for n, row in enumerate(said(STORIES[group], group))
]
EPISODES_OF = {
    group: [row["uuid"] for row in EPISODES if row["group_id"] == group] for group in STORIES
}
STEP = "receive/new_episodes"  # has a row for each episode
POINTS = ("request arrives", "request answered", *INSIDE)


class Server(StandIn):
    """A model that kills its client when a request arrives for the n-th time, or when it was
    answered.
    """

    def __init__(self) -> None:
        super().__init__()
        self.embedded: list[str] = []
        self.aim(0, "", 0)

    def aim(self, pid: int, point: str, number: int) -> None:
        """Which process to kill, and when."""
        self.pid, self.point, self.number = pid, point, number
        self.counts: Counter[str] = Counter()

    def passed(self, point: str) -> None:
        """A point is passed."""
        self.counts[point] += 1
        if point == self.point and self.counts[point] == self.number:
            os.kill(self.pid, signal.SIGKILL)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        self.passed("request arrives")
        reply = await super()._chat(request)
        await reply.prepare(request)
        await reply.write_eof()
        self.passed("request answered")
        return reply

    async def _embeddings(self, request: web.Request) -> web.StreamResponse:
        texts = (await request.json())["input"]
        self.embedded += [texts] if isinstance(texts, str) else texts
        return await super()._embeddings(request)


class Forks:
    """A process that forks runs; see `process.py`."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @classmethod
    async def start(cls) -> Self:
        """Start it."""
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        return cls(
            await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tests.kill.process",
                stdin=PIPE,
                stdout=PIPE,
                cwd=ROOT,
                env=env,
            )
        )

    async def run(self, task: Mapping[str, Any], server: Server) -> int:
        """Run a task; the signal that ended it. The server aims at it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        server.aim(0, "", 0)
        self._process.stdin.write(json.dumps(task, default=str).encode() + b"\n")
        server.aim(int(await self._process.stdout.readline()), task["point"], task["number"])
        return int(await self._process.stdout.readline())

    async def stop(self) -> None:
        """Stop it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()


@dataclass
class World:
    """A store, a journal and records, and the runs that they see."""

    place: Place
    folder: Path
    server: Server
    forks: Forks
    lives: list[str] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)
    written: int = 0  # episodes, as far as was looked

    @property
    def journal(self) -> Path:
        """The file with what was answered."""
        return self.folder / ".semgraph" / "journal.db"

    async def run(
        self,
        point: str = "",
        number: int = 0,
        *,
        resume: bool = False,
        episodes: Sequence[Row] = EPISODES,
    ) -> Counter[str] | None:
        """Run the plan until its end, or until it is killed. How often each point was passed; None
        if it was killed.
        """
        self.lives.append(
            f"{point or 'undisturbed'} {number or ''}{' (resumed)' if resume else ''}".strip()
        )
        before = self.answered()
        vectors = self.count("vectors")
        self.server.reset()
        self.server.embedded = []
        url = self.server.base_url
        report = self.folder / "report.json"
        report.unlink(missing_ok=True)
        resume = resume and bool(all_runs(self.folder / ".semgraph" / "runs"))
        task = {
            "point": point, "number": number, "plan": str(PLAN), "inputs": {"episodes": episodes},
            "resume": "last" if resume else None, "report": str(report), "env": self.place.env, "folder": str(self.folder),
            "llm": f"openai:gpt-4.1-mini@{url}", "embedder": f"openai:stand-in@{url}?dimensions=256",
            "store": self.place.spec,
        }  # fmt: skip
        killed = await self.forks.run(task, self.server)
        assert killed in (0, signal.SIGKILL), self.lives
        requests = wire(self.server.requests)
        self.asked |= requests
        assert max(requests.values(), default=1) == 1, (self.lives, "asked twice by one run")
        twice = [
            text
            for body in self.server.requests
            if (text := body["messages"][-1]["content"]) in before
        ]
        assert not twice, (self.lives, "answers in the journal that were asked again")
        if killed:
            return None
        found = json.loads(report.read_text())
        assert "error" not in found, (self.lives, found["error"])
        assert (found["skipped"], found["exit_code"]) == (self.written, 0), self.lives
        self.written += found["committed"]
        assert self.written == len(episodes), self.lives
        assert vectors + len(self.server.embedded) == self.count("vectors"), (
            self.lives,
            "a vector was paid twice",
        )
        assert self.count("answers") == self.count("answers", "DISTINCT key"), self.lives
        return Counter(found["passed"]) + self.server.counts

    def answered(self) -> set[str]:
        """The last message of each request with an answer in the journal."""
        return {json.loads(text)[-1][-1][1] for (text,) in self._rows("answers", "request")}

    def count(self, table: str, what: str = "*") -> int:
        """How many rows a table of the journal has."""
        return next((number for (number,) in self._rows(table, f"count({what})")), 0)

    def _rows(self, table: str, what: str) -> list[Any]:
        if not self.journal.exists():
            return []
        with closing(sqlite3.connect(self.journal)) as database:
            named = database.execute(
                "SELECT count(*) FROM sqlite_master WHERE name = ?", (table,)
            ).fetchone()[0]
            return database.execute(f"SELECT {what} FROM {table}").fetchall() if named else []

    async def check(self, truth: Truth) -> None:
        """Of each group as much is there as is marked, all of it, in the store and in records;
        nothing is changed by looking.
        """
        assert set(self.asked) <= truth.asked, (
            self.lives,
            "asked what an undisturbed run does not ask",
        )
        marked = await self._marked()
        self.written = sum(len(marks) for marks in marked.values())
        graph = await self.place.dump()
        for group in STORIES:
            part = of_group(graph, group, marked.get(group, {}))
            assert part == truth.graphs[group, len(marked.get(group, {}))], (
                self.lives,
                group,
                marked,
            )
        runs = {run.name: run.folder for run in all_runs(self.folder / ".semgraph" / "runs")}
        for row, run in (
            (row, mark.run) for marks in marked.values() for row, mark in marks.items()
        ):
            assert row in {r["uuid"] for r in read_rows(runs[run], "steps", STEP)}, (
                self.lives,
                row,
                run,
            )
        kept = {call for (call,) in self._rows("answers", "call_id")}
        for folder in runs.values():
            used = {
                c for rows in read_answers(folder).values() for row in rows for c in row["calls"]
            }
            assert used <= kept, (self.lives, "answers were used before the journal had them")

    async def _marked(self) -> Mapping[str, Mapping[str, CommittedRow]]:
        """The rows of each group that are written."""
        plan = load_plan(PLAN)
        store = self.place.look()
        try:
            await store.attach(plan.graph)
            states = await store.states(plan.name, EPISODES_OF)
        finally:
            await store.aclose()
        return {group: state.committed for group, state in states.items()}


def of_group(graph: Graph, group: str, marked: Collection[str]) -> Graph:
    """What a graph holds of a group, but episodes that are not read yet: those are stored as they
    are given.
    """
    return {
        label: found
        for label, rows in graph.items()
        if (found := {
            key: row
            for key, row in rows.items()
            if row["group_id"] == group and (label != "Episodic" or key in marked)
        })
    }  # fmt: skip


@dataclass(frozen=True)
class Truth:
    """What runs that nobody kills make and ask.

    Args:
        graphs: By group, and how many of its episodes are read.
        asked: The requests of one run over all.
        passed: How often it passes each point.
        layout: What the store is made of.
    """

    graphs: Mapping[tuple[str, int], Graph]
    asked: set[str]
    passed: Counter[str]
    layout: Sequence[Any]

    @classmethod
    async def of(cls, begin: Callable[[], World]) -> Self:
        """Run over more and more episodes, and in a new world over all at once."""
        graphs: dict[tuple[str, int], Graph] = {(group, 0): {} for group in STORIES}
        world = begin()
        for number in range(1, len(STORIES["g"]) + 1):
            first = [row for row in EPISODES if int(row["uuid"][-1]) < number]
            if len(first) == len(EPISODES):
                world = begin()
            passed = await world.run(episodes=first)
            assert passed is not None
            graph = await world.place.dump()
            graphs |= {
                (group, number): of_group(graph, group, {row["uuid"] for row in first})
                for group in STORIES
            }
        assert all(passed[point] for point in POINTS), passed
        return cls(graphs, set(world.asked), passed, layout(world.place))


def files_of(place: Place) -> list[Path]:
    """The files of a store; none if it is a server."""
    if "sqlite:" not in place.spec:
        return []
    return [Path(place.spec.partition("sqlite:")[2])]


def layout(place: Place) -> list[Any]:
    """What a store is made of: tables, or constraints and indexes."""
    if files := files_of(place):
        layouts = []
        for file in files:
            with closing(sqlite3.connect(file)) as database:
                sql = "SELECT type, name, sql FROM sqlite_master ORDER BY 1, 2"
                layouts.append((file.name, database.execute(sql).fetchall()))
        return layouts
    with driver(place) as neo4j:
        found = neo4j.execute_query(
            "SHOW INDEXES YIELD name, type, state, properties RETURN * ORDER BY name"
        ).records
        return [record.data() for record in found]


def driver(place: Place) -> Any:
    """Plain Cypher, without the engine."""
    import neo4j

    return neo4j.GraphDatabase.driver(
        place.spec, auth=(place.env["NEO4J_USERNAME"], place.env["NEO4J_PASSWORD"])
    )


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """The model."""
    async with Server() as started:
        yield started


@pytest.fixture
async def forks() -> AsyncIterator[Forks]:
    """Where processes come from."""
    started = await Forks.start()
    yield started
    await started.stop()


def draws(store: str, passed: Counter[str]) -> Iterator[tuple[random.Random, str, int]]:
    """Points, each as often as the others, in an order of the seed; and which time each is
    passed.
    """
    draw = random.Random(f"{SEED} {store}")
    while True:
        for point in draw.sample(list(POINTS), len(POINTS)):
            yield draw, point, draw.randint(1, passed[point])


def fresh(place: Place, folder: Path, server: Server, forks: Forks, *, setup: bool) -> World:
    """An empty world; `setup`: nothing of a store is there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    if "sqlite:" in place.spec:
        for file in files_of(place):
            for part in file.parent.glob(f"{file.name}*"):
                part.unlink()
        return World(place, folder, server, forks)
    with driver(place) as neo4j:
        neo4j.execute_query("MATCH (n) DETACH DELETE n")
        if setup:
            without_schema(neo4j)
    return World(place, folder, server, forks)


@pytest.mark.parametrize("kind", ["sqlite", "neo4j"])
async def test_a_killed_run_is_finished_by_the_next_with_the_same_graph_and_no_answer_paid_twice(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, server: Server, forks: Forks
) -> None:
    place = place_of(kind, request, tmp_path)
    begin = partial(fresh, place, tmp_path / "world", server, forks)
    truth = await Truth.of(partial(begin, setup=True))
    killed: list[str] = []
    drawn = draws(kind, truth.passed)
    while len(killed) < KILLS // 2:
        draw, point, number = next(drawn)
        world = begin(setup=point == "store setup")
        for _ in range(draw.randint(1, 3)):
            if await world.run(point, number, resume=draw.random() < 0.3):
                break
            killed.append(f"{point} {number}")
            await world.check(truth)
            _, point, number = next(drawn)
        else:
            assert await world.run(resume=draw.random() < 0.3)
        assert layout(place) == truth.layout, (SEED, world.lives)
        await world.check(truth)
        assert world.written == len(EPISODES), (SEED, world.lives)
    print(f"\n{kind}, SEED={SEED}: killed at {', '.join(killed)}")
