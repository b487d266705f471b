"""What a session opens it opens once, for all its runs, and closes once."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import semgraph as sg
from benchmarks.world.waiting import Rates
from semgraph.errors import SemgraphError
from semgraph.llm.local import Local
from semgraph.session import resources as owned
from tests.partial import maybe_partial
from tests.served import served
from tests.soak.conftest import Server, session, tickets

ROOT = Path(__file__).parents[2]
GRAPH = "graph: {name}\nnodes: {{{label}: {{properties: {{text: string}}}}}}\n"
KEEP = """
plan: {name}
graph: {name}_graph.yaml
inputs: {{notes: {{id: string, text: string, group_id: string}}}}
steps:
  told: [{{from: notes}}, {{sem_filter: {{prompt: "Does it leak: {{text}}"}}}}]
writes:
  - merge: {{from: told, node: {label}, key: id}}
returns: [told]
"""


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each SQLite file was opened."""
    count: Counter[str] = Counter()
    connect = sqlite3.connect

    def counted(path: Any, *args: Any, **options: Any) -> sqlite3.Connection:
        count[Path(path).name] += 1
        return connect(path, *args, **options)

    monkeypatch.setattr(sqlite3, "connect", counted)
    return count


def write_plan(folder: Path, name: str, label: str) -> None:
    """A plan with a graph of its own."""
    (folder / f"{name}_graph.yaml").write_text(
        GRAPH.format(name=name, label=label), encoding="utf-8"
    )
    (folder / f"{name}.yaml").write_text(KEEP.format(name=name, label=label), encoding="utf-8")


def notes(run: int, count: int = 3) -> list[dict[str, Any]]:
    return [
        {"id": f"{run}.{n}", "text": f"Tap {run}.{n} leaks.", "group_id": "g"} for n in range(count)
    ]


async def test_concurrent_runs_share_the_rate_of_their_session(tmp_path: Path) -> None:
    """10 a second: the server takes 30 at once. Ten runs with a rate of their own would send 50."""
    async with Server(rates=Rates(rpm=600, burst=3)) as server:
        async with session(
            server, tmp_path, "?rpm=600&in_flight=4", journal=False, runs=""
        ) as opened:
            await asyncio.gather(
                *(opened.arun("complaints", tickets=tickets(n, 5)) for n in range(10))
            )
        assert (server.counters.calls, server.counters.refused) == (50, 0)
        assert server.counters.most_in_flight <= 4


async def test_runs_one_after_the_other_use_one_connection(server: Server, tmp_path: Path) -> None:
    async with session(server, tmp_path) as opened:
        for n in range(5):
            await opened.arun("complaints", tickets=tickets(n))
    assert (server.counters.calls, len(server.connections)) == (5, 1)


def test_runs_of_a_script_use_one_connection(tmp_path: Path) -> None:
    server = Server()
    with served(server), session(server, tmp_path) as opened:
        for n in range(3):
            opened.run("complaints", tickets=tickets(n))
        assert (server.counters.calls, len(server.connections)) == (3, 1)


async def test_journal_and_store_are_opened_once(
    server: Server, tmp_path: Path, opened: Counter[str]
) -> None:
    write_plan(tmp_path, "taps", "Tap")
    async with session(server, tmp_path, store="sqlite:graph.db") as one:
        await asyncio.gather(*(one.arun("taps", notes=notes(n)) for n in range(5)))
        await one.arun("taps", notes=notes(6))
        counts = (await one.astatistics(tmp_path / "taps_graph.yaml")).counts
    assert counts == {"Tap": 18}
    assert (opened["journal.db"], opened["graph.db"]) == (1, 1)


READ = """
plan: read
graph: taps_graph.yaml
inputs: {asked: {id: string, group_id: string}}
steps: {found: [{from: asked}, {search: {over: Tap, alias: tap, k: 3, methods: [{equal: uuid, to: id}]}}, {project: {text: tap.text}}]}
returns: [found]
"""


async def test_runs_that_only_read_share_one_connection(
    server: Server, tmp_path: Path, opened: Counter[str]
) -> None:
    write_plan(tmp_path, "taps", "Tap")
    (tmp_path / "read.yaml").write_text(READ, encoding="utf-8")
    async with session(server, tmp_path, store="sqlite:graph.db") as one:
        await one.arun("taps", notes=notes(1))
    opened.clear()
    asked = [{"id": "1.2", "group_id": "g"}]
    async with session(server, tmp_path, store="sqlite:graph.db") as one:
        results = await asyncio.gather(*(one.arun("read", asked=asked) for _ in range(5)))
        results += [await one.arun("read", asked=asked) for _ in range(5)]
    assert [r.tables["found"].to_pylist() for r in results] == [[{"text": "Tap 1.2 leaks."}]] * 10
    assert sum(count for name, count in opened.items() if name.startswith("graph.db")) == 1


@pytest.mark.parametrize("store", ["memory", "sqlite:graph.db"])
async def test_concurrent_runs_over_different_graphs_share_a_store(
    server: Server, tmp_path: Path, store: str
) -> None:
    names = {"taps": "Tap", "pipes": "Pipe", "kettles": "Kettle"}
    for name, label in names.items():
        write_plan(tmp_path, name, label)
    async with session(server, tmp_path, store=store) as one:
        results = await asyncio.gather(
            *(one.arun(name, notes=notes(n)) for n in range(4) for name in names)
        )
        counts = [(await one.astatistics(tmp_path / f"{name}_graph.yaml")).counts for name in names]
    assert [result.written for result in results] == [
        {names[name]: 3} for _ in range(4) for name in names
    ]
    assert all(count[label] == 12 for count, label in zip(counts, names.values(), strict=True))


async def test_a_graph_that_is_deleted_between_runs_is_made_again(
    server: Server, tmp_path: Path
) -> None:
    write_plan(tmp_path, "taps", "Tap")
    async with session(server, tmp_path, store="sqlite:graph.db") as one:
        await one.arun("taps", notes=notes(1))
        for name in ("graph.db", "graph.db-wal", "graph.db-shm", ".semgraph/journal.db"):
            (tmp_path / name).unlink(missing_ok=True)
        await one.arun("taps", notes=notes(1))
    with sqlite3.connect(tmp_path / "graph.db") as database:
        assert database.execute("SELECT count(*) FROM Tap").fetchone() == (3,)
    database.close()
    assert server.counters.calls == 6
    assert (tmp_path / ".semgraph" / "journal.db").exists()


class Engine:
    """A model in this process that says yes."""

    requests = 0

    def handle_chat_completions(self, body: Any, take: Any) -> None:
        del body
        Engine.requests += 1
        take(
            {
                "id": "1",
                "choices": [{"delta": {"content": '{"answer": "yes"}'}, "finish_reason": "stop"}],
            }
        )


async def test_the_local_model_is_loaded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    loads = []
    monkeypatch.setattr(Local, "_load", lambda _self, _cancelled: loads.append(1) or Engine())
    async with session(server, tmp_path, llm="local", journal=False) as one:
        await asyncio.gather(
            *(maybe_partial(one.arun("complaints", tickets=tickets(n))) for n in range(3))
        )
        await maybe_partial(one.arun("complaints", tickets=tickets(4)))
        assert (len(loads), Engine.requests > 3) == (1, True)
    await maybe_partial(one.arun("complaints", tickets=tickets(5)))
    assert len(loads) == 2, "closing the session frees the model's memory"
    await one.aclose()


async def test_a_journal_that_another_process_holds_does_not_hold_up_the_event_loop(
    server: Server, tmp_path: Path
) -> None:
    async with session(server, tmp_path) as one:
        await one.arun("complaints", tickets=tickets(0))
    other = sqlite3.connect(tmp_path / ".semgraph" / "journal.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    async with session(server, tmp_path) as one:
        run = asyncio.create_task(one.arun("complaints", tickets=tickets(1)))
        done, _ = await asyncio.wait([run], timeout=0.3)
        assert not done, "the run waits for the journal, and this test goes on"
        other.execute("ROLLBACK")
        other.close()
        assert (await run).tables["complaints"].num_rows == 1


async def test_a_journal_that_stays_locked_is_an_error_that_names_it(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with session(server, tmp_path) as one:
        await one.arun("complaints", tickets=tickets(0))
    other = sqlite3.connect(tmp_path / ".semgraph" / "journal.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr(owned, "_PATIENCE", 0.0)
    async with session(server, tmp_path) as one:
        with pytest.raises(
            SemgraphError, match=r"journal\.db: another process keeps the journal locked"
        ):
            await one.arun("complaints", tickets=tickets(1))
        other.close()
        assert (await one.arun("complaints", tickets=tickets(1))).tables["complaints"].num_rows == 1


def test_a_session_that_is_closed_within_an_event_loop_leaves_nothing_open(tmp_path: Path) -> None:
    """`with`, not `async with`: what belongs to the loop is closed when the block is left and the
    loop goes on, or ends.
    """
    server = Server()
    with served(server):

        async def main(*, pause: bool) -> None:
            with session(server, tmp_path) as one:
                await one.arun("complaints", tickets=tickets(1))
            if pause:
                await asyncio.sleep(0.1)

        asyncio.run(main(pause=True))
        asyncio.run(main(pause=False))
    gc.collect()


SCRIPT = """
import asyncio, sys
import semgraph as sg
url, how = sys.argv[1:]
session = sg.Session(llm=f"openai:m@{url}", store="sqlite:graph.db")
rows = [{"id": "1", "text": "It leaks.", "group_id": "g"}]
if how == "run":
    session.run("taps", notes=rows, progress=None)
elif how == "arun":
    asyncio.run(session.arun("taps", notes=rows, progress=None))
    asyncio.run(session.arun("taps", notes=rows, progress=None))
else:
    session.run("taps", notes=rows, progress=None)
    asyncio.run(session.arun("taps", notes=rows, progress=None))
    del session
"""


@pytest.mark.parametrize("how", ["run", "arun", "both, and let go"])
def test_a_session_that_is_never_closed_ends_quietly_with_its_process(
    tmp_path: Path, how: str
) -> None:
    write_plan(tmp_path, "taps", "Tap")
    server = Server()
    with served(server):
        command = [
            sys.executable,
            "-W",
            "error::ResourceWarning",
            "-c",
            SCRIPT,
            server.base_url,
            how,
        ]
        done = subprocess.run(
            command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT), "OPENAI_API_KEY": "none"}, capture_output=True,
            text=True, timeout=120, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert not list(tmp_path.glob("graph.db-*")), "the store was closed"


ABANDONED = """
import asyncio
from semgraph.session.waiting import Waiting
waiting = Waiting()

async def close_slowly():
    try:
        await asyncio.Event().wait()
    finally:
        for _ in range(10_000):
            await asyncio.sleep(0)
        print("closed")

async def open_something():
    asyncio.get_running_loop().kept = asyncio.create_task(close_slowly())
    await asyncio.sleep(0)

waiting.wait(open_something())
waiting.stop()
del waiting
"""


def test_the_process_ends_after_what_an_abandoned_session_still_closes(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ABANDONED], cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True,
        text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("closed\n", "")


def test_a_session_serves_a_script_and_an_event_loop(tmp_path: Path) -> None:
    """What `run` opened in its own event loop, and what `arun` opened in the caller's, are closed
    by one `close`.
    """
    server = Server()
    with served(server), session(server, tmp_path) as one:

        async def both() -> int:
            await one.arun("complaints", tickets=tickets(1))
            return one.run("complaints", tickets=tickets(2)).tables["complaints"].num_rows

        assert asyncio.run(both()) == 1
        assert one.run("complaints", tickets=tickets(3)).tables["complaints"].num_rows == 1
    assert server.counters.calls == 3
    assert isinstance(one, sg.Session)
