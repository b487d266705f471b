"""`size: ready`: windows are formed of what is computed, and count like windows of that size."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import semgraph
from semgraph.conformance.cases import Mind, Oracle
from semgraph.execution import executor
from semgraph.execution.record import read_lines, read_rows
from semgraph.execution.result import Result
from semgraph.execution.windows import Wave, Window
from semgraph.frontend.head import read_graph
from semgraph.llm.base import Reply, Request
from semgraph.stores.base import ScanQuery
from semgraph.stores.sqlite.store import SqliteStore
from tests.execution.conftest import STORY, Place, Watched, Work, asked_about, declared, said, wire
from tests.partial import maybe_partial

GRAPH = """
graph: notes
nodes:
  Note: {properties: {text: string, names: string}}
"""
PLAN = """
plan: notes
graph: graph.yaml
inputs: {notes: {id: string, group_id: string, text: string}}
windows: {input: notes, partition: group_id, key: id, size: ready, ahead: 8}
steps:
  coded:
    - from: notes
    - sem_map: {prompt: "Code: {text}", returns: {code: string}}
  others: [{from: coded}, {add: {names: "string_agg(text, ' ') OVER ()"}}]
  stored: [{from: Note}]
  judged:
    - from: others
    - group_join: {other: stored, alias: s, using: group_id, add: {earlier: "count(*) FILTER (s IS NOT NULL)"}}
    - sem_map: {prompt: "Judge: {text} of {names}, after {earlier}", returns: {verdict: string}}
    - project: {uuid: "if(text = 'unkeyed', NULL, id)", group_id, text, names}
writes: [{merge: {from: judged, node: Note}}]
returns: [judged, others]
"""
Condition = Callable[["Held"], bool]


def slices() -> int:
    """How many slices are computed at this moment."""
    return sum(
        getattr(task.get_coro(), "__name__", "") == "_slices" and not task.done()
        for task in asyncio.all_tasks()
    )


def _answer(text: str) -> dict[str, Any]:
    """An answer to every question but those about rows that fail."""
    bad = text.startswith(("Code: bad", "Judge: late"))
    return {} if bad else {"code" if text.startswith("Code") else "verdict": text}


class Held(Oracle):
    """A simulated model that answers some questions only once something has happened."""

    def __init__(self, until: dict[str, Condition]) -> None:
        super().__init__(Mind(answer=_answer))
        self.until = until
        self.begun: list[str] = []  # questions, answered or not

    async def complete(self, request: Request) -> Reply:
        """Answer a question when its time has come."""
        text = request.messages[-1].content
        self.begun.append(text)
        for start, happened in self.until.items():
            if text.startswith(start):
                async with asyncio.timeout(60):
                    while not happened(self):  # noqa: ASYNC110
                        await asyncio.sleep(0.001)
        return await super().complete(request)

    def asked(self, start: str) -> bool:
        """Whether a question was asked."""
        return any(text.startswith(start) for text in self.begun)


@dataclass
class Ran:
    """A run: its result, its model, and the rows in its store."""

    result: Result
    model: Held
    stored: list[dict[str, Any]]

    @property
    def windows(self) -> list[list[int]]:
        """The windows that were formed, as the record has them."""
        return [line["rows"] for line in read_lines(self.record, "windows.jsonl")]

    @property
    def record(self) -> Path:
        """The folder of the run record."""
        assert self.result.record is not None
        return self.result.record

    @property
    def outcome(self) -> dict[str, Any]:
        """What a run in the same windows shares, however they came about."""
        steps = {name: step.as_dict() for name, step in self.result.meter.steps.items()}
        return {
            "tables": {name: t.to_pylist() for name, t in self.result.tables.items()},
            "stored": self.stored,
            "asked": sorted(self.model.begun),
            "rows": {name: (step["rows_in"], step["rows_out"]) for name, step in steps.items()},
            "recorded": {step: self.recorded(step) for step in ("coded", "others", "judged")},
            "failed": sorted((f.step, f.input_row) for f in self.result.failed),
            "committed": self.result.committed,
        }

    def recorded(self, step: str) -> list[tuple[Any, ...]]:
        """The recorded rows of a step."""
        rows = read_rows(self.record, "steps", step)
        return sorted((row["_m"], row["text"], row.get("names", "")) for row in rows)


class Bench:
    """Runs the plan over notes of groups in turn."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "graph.yaml").write_text(GRAPH)

    async def run(
        self,
        texts: Sequence[str],
        until: Mapping[str, Condition] | None = None,
        plan: str = PLAN,
        store: str = "graph.db",
        groups: str = "g",
        **options: Any,
    ) -> Ran:
        """Run over notes with these texts."""
        (self.folder / "notes.yaml").write_text(plan)
        notes = [
            {"id": f"i{n}", "group_id": groups[n % len(groups)], "text": text}
            for n, text in enumerate(texts)
        ]
        model = Held(until or {})
        options = {"journal": False} | options
        async with semgraph.Session(
            llm=model, store=f"sqlite:{self.folder / store}", folder=self.folder, **options
        ) as session:
            result = await maybe_partial(session.arun(self.folder / "notes.yaml", notes=notes))
        return Ran(result, model, await self._stored(store))

    async def _stored(self, store: str) -> list[dict[str, Any]]:
        opened = SqliteStore(self.folder / store)
        try:
            await opened.attach(read_graph(self.folder / "graph.yaml"))
            rows = (await opened.scan(ScanQuery("Note", ["uuid", "text", "names"]))).to_pylist()
        finally:
            await opened.aclose()
        return sorted(rows, key=lambda row: str(row["uuid"]))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """An empty folder."""
    return Bench(tmp_path)


def fix(patch: pytest.MonkeyPatch, windows: Sequence[Sequence[int]], groups: int = 1) -> None:
    """From now on an input is cut into these windows."""
    waves: list[Wave] = [(Window(rows[0] % groups, tuple(rows)),) for rows in windows]
    patch.setattr(executor, "cut", lambda _order, _pending: waves)


FIXED = PLAN.replace("size: ready", "size: 1")
NINE = [f"t{n}" for n in range(9)]
LATER: dict[str, Condition] = {  # no row is read before the first is judged
    f"Code: {text}": lambda model: model.asked("Judge: t0")
    for text in (*NINE[1:], "bad", "late", "un", "torn")
}
NOW: dict[str, Condition] = {**LATER, "Judge: t0": lambda _: slices() == 0}
SCHEDULES: dict[str, tuple[Mapping[str, Condition], list[list[int]]]] = {
    "all is read while the first is judged": (NOW, [[0], [1, 2, 3, 4, 5, 6], [7, 8]]),
    "the fourth is read late": (
        {
            **LATER,
            "Judge: t0": lambda _: slices() == 1,
            "Code: t3": lambda model: model.asked("Judge: t1"),
            "Judge: t1": lambda _: slices() == 0,
        },
        [[0], [1, 2], [3, 4, 5, 6, 7, 8]],
    ),
    "the first is read last": (
        {"Code: t0": lambda _: slices() == 1},
        [[0, 1, 2, 3, 4, 5, 6], [7, 8]],
    ),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
async def test_windows_are_what_is_computed_and_give_what_windows_of_their_sizes_give(
    bench: Bench, schedule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    until, windows = SCHEDULES[schedule]
    ready = await bench.run(NINE, until)
    assert ready.windows == windows
    fix(monkeypatch, windows)
    fixed = await bench.run(NINE, plan=FIXED, store="fixed.db")
    assert ready.outcome == fixed.outcome


async def test_a_window_is_no_larger_than_what_may_run_ahead(bench: Bench) -> None:
    for ahead in (1, 2, 3):
        plan = PLAN.replace("ahead: 8", f"ahead: {ahead}")
        ran = await bench.run(NINE, {"Code: t0": lambda _: slices() == 1}, plan, f"{ahead}.db")
        assert max(map(len, ran.windows)) <= ahead
        assert sorted(chain(*ran.windows)) == list(range(9))


async def test_groups_have_windows_of_their_own_in_one_wave(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    until = {start: happened for start, happened in NOW.items() if start != "Code: t1"}
    ready = await bench.run(NINE, until, groups="gh")
    assert ready.windows == [[0], [1], [2, 4, 6], [3, 5, 7], [8]]
    fix(monkeypatch, ready.windows, 2)
    fixed = await bench.run(NINE, plan=FIXED, store="fixed.db", groups="gh")
    assert ready.outcome == fixed.outcome


@pytest.mark.parametrize(
    ("text", "step"), [("bad x", "coded"), ("late x", "judged"), ("unkeyed", "merge Note")]
)
async def test_a_row_that_fails_is_left_out_of_its_window_and_of_no_other(
    bench: Bench, text: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [*NINE[:3], text, *NINE[4:]]
    ready = await bench.run(texts, NOW)
    assert [(f.step, f.input_row) for f in ready.result.failed] == [(step, 3)]
    assert ready.windows == [[0], [1, 2, 4, 5, 6], [7, 8]]
    assert {row["uuid"] for row in ready.stored} == {f"i{n}" for n in range(9) if n != 3}
    assert len(set(ready.model.begun)) == len(ready.model.begun)
    fix(monkeypatch, [[0], [1, 2, 3, 4, 5, 6], [7, 8]])
    fixed = await bench.run(texts, plan=FIXED, store="fixed.db")
    assert ready.stored == fixed.stored


@pytest.mark.parametrize("text", ["bad x", "late x", "unkeyed"])
async def test_a_group_that_stops_at_a_failed_row_keeps_all_rows_before_it(
    bench: Bench, text: str
) -> None:
    plan = PLAN.replace("ahead: 8", "ahead: 8, on_error: stop")
    ran = await bench.run([*NINE[:5], text, *NINE[6:]], NOW, plan)
    assert {row["uuid"] for row in ran.stored} == {f"i{n}" for n in range(5)}
    assert (ran.result.exit_code, ran.result.committed) == (1, 5)


SUMS = """steps:
  sums:
    - from: STEP
    - aggregate:
        by: {group_id: group_id}
        add:
          uuid: concat('sum ', min(text))
          text: "CASE WHEN list_contains(list(text), 'torn') THEN error('torn') ELSE max(text) END"
"""


@pytest.mark.parametrize("step", ["coded", "judged"])
async def test_a_row_that_makes_its_window_impossible_is_found_and_costs_no_other(
    bench: Bench, step: str
) -> None:
    """Whether it is computed ahead or in order: its window is computed row by row."""
    plan = PLAN.replace("steps:\n", SUMS.replace("STEP", step))
    plan = plan.replace("node: Note}}]", "node: Note}}, {merge: {from: sums, node: Note}}]")
    ran = await bench.run([*NINE[:5], "torn", *NINE[6:]], NOW, plan)
    assert [(f.step, f.input_row) for f in ran.result.failed] == [("sums", 5)]
    assert {row["uuid"] for row in ran.stored} >= {f"i{n}" for n in range(9) if n != 5}
    assert (ran.result.committed, sorted(chain(*ran.windows))) == (8, [0, 1, 2, 3, 4, 6, 7, 8])


async def test_a_run_that_a_budget_ends_is_resumed_where_it_stopped(bench: Bench) -> None:
    """The windows that were committed stay, and no question about them is asked again."""
    first = await bench.run(NINE, NOW, max_calls=11)
    assert first.windows == [[0]]
    assert first.result.stopped
    second = await bench.run(NINE)
    assert (second.result.skipped, second.result.committed) == (1, 8)
    assert not second.model.asked("Code: t0")
    assert {row["uuid"] for row in second.stored} == {f"i{n}" for n in range(9)}


async def test_windows_of_other_sizes_ask_the_journal_about_rows(bench: Bench) -> None:
    """What is asked about a window is asked again; what runs ahead is not."""
    journal = {"journal": bench.folder / "journal.db"}
    first = await bench.run(NINE, NOW, **journal)
    other = await bench.run(NINE, store="other.db", **journal)
    assert first.windows != other.windows
    assert other.model.asked("Judge: t0")
    assert not other.model.asked("Code")


class HeldTurns(Watched):
    """A stand-in that answers about a message only when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[str, Callable[[], bool]] = {}

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        text = asked_about(await request.json())
        if text in self.held:
            await self.until(self.held[text])
        return await super()._chat(request)


async def test_episodes_give_the_graph_that_windows_of_these_sizes_give(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In each store; the first episode is written before the others are read."""
    texts = [text for text in STORY if "deadline" not in text][:5]
    async with HeldTurns() as model:
        work = Work(model, place, tmp_path)
        written: list[int] = []
        model.held = dict.fromkeys(texts[1:], lambda: bool(written))
        ready = await work.run(
            said(texts), preset="ready", session={"journal": False},
            progress=lambda one: written.append(one.done) if not one.step and one.done else None,
        )  # fmt: skip
        assert ready.record is not None
        windows = [line["rows"] for line in read_lines(ready.record, "windows.jsonl")]
        graph, asked = await place.dump(), wire(model.requests)
        assert windows[0] == [0]
        assert sorted(chain(*windows)) == list(range(5))
        store = place.look()
        try:
            await store.attach(declared())
            await store.clear()
        finally:
            await store.aclose()
        model.reset()
        fix(monkeypatch, windows)
        use = {"resolve": "resolve_together"}
        fixed = await work.run(said(texts), use=use, session={"journal": False})
        assert fixed.committed == ready.committed == 5
        assert await place.dump() == graph
        assert wire(model.requests) == asked
