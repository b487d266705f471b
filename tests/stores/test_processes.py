"""Stores that several processes use at once, and processes that die."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from semgraph.errors import ConcurrentWrite
from semgraph.stores.base import Method, ScanQuery
from semgraph.stores.sqlite.store import SqliteStore
from tests.patience import HANGS

WRITER = """
import asyncio, sys, importlib.util

spec = importlib.util.spec_from_file_location("conftest", sys.argv[1])
conftest = importlib.util.module_from_spec(spec)
sys.modules["conftest"] = conftest
spec.loader.exec_module(conftest)
from semgraph.errors import ConcurrentWrite
from semgraph.stores.sqlite.store import SqliteStore

world, store = conftest.World(), SqliteStore(sys.argv[2])


def says(*words):
    print(*words, flush=True)


async def main():
    await store.ensure(world.graph, world.dimensions)
    says("ready")
    await asyncio.to_thread(sys.stdin.readline)
    {body}
    await store.aclose()


asyncio.run(main())
"""
RACE = """
while line := (await asyncio.to_thread(sys.stdin.readline)).split():
    turn, before = line
    key = f"{turn}-{sys.argv[3]}"
    marker = world.marker(key, before=None if before == "none" else before, rows=(key,), witness="Note")
    try:
        await world.commit(store, world.write("Note", {"uuid": key}), world.write("Person", {"uuid": key}), marker=marker)
        says("won", key)
    except ConcurrentWrite:
        says("lost", key)
"""
STREAM = """
head, turn = None, 0
while True:
    rows = [{"uuid": f"{turn:06}-{i}", "name": f"heron {turn}", "name_embedding": [1, turn, i, 0]} for i in range(5)]
    edges = [{"uuid": f"{turn:06}-k{i}", "source": f"{turn:06}-{i}", "target": f"{turn:06}-{i + 1}", "fact": "x"} for i in range(4)]
    marker = world.marker(f"{turn:06}", before=head, rows=(f"{turn:06}-0",), witness="Person")
    await world.commit(store, world.write("Person", *rows), world.write("KNOWS", *edges), marker=marker)
    says("done", f"{turn:06}")
    head, turn = marker.head, turn + 1
"""


def start(body: str, path: Path, *arguments: str) -> subprocess.Popen[str]:
    """A process that opens the file, says "ready" and waits for a line."""
    script = WRITER.replace("{body}", textwrap.indent(textwrap.dedent(body), "    ").strip())
    conftest = Path(__file__).with_name("conftest.py")
    command = [sys.executable, "-c", script, str(conftest), str(path), *arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def say(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


async def test_two_processes_race_and_one_wins_each_time(tmp_path, world):
    racers = [start(RACE, tmp_path / "graph.db", name) for name in ("one", "two")]
    for racer in racers:
        say(racer, "go")
    winners: list[str] = []
    for turn in range(20):
        for racer in racers:
            say(racer, f"{turn:02} {winners[-1] if winners else 'none'}")
        heard = [racer.stdout.readline().split() for racer in racers]
        assert sorted(word for word, _ in heard) == ["lost", "won"]
        winners += [key for word, key in heard if word == "won"]
    for racer in racers:
        racer.communicate(timeout=HANGS)
    store = SqliteStore(tmp_path / "graph.db")
    await store.ensure(world.graph, world.dimensions)
    assert (await store.scan(ScanQuery("Note"))).column("uuid").to_pylist() == winners
    assert (await store.scan(ScanQuery("Person"))).column("uuid").to_pylist() == winners
    assert sorted((await store.states("p", {"g": winners}))["g"].committed) == winners
    await store.aclose()


async def test_another_process_writes_while_this_one_searches(tmp_path, world):
    writer = start(STREAM, tmp_path / "graph.db")
    store = SqliteStore(tmp_path / "graph.db")
    await store.ensure(world.graph, world.dimensions)
    query = world.query(
        "Person", Method("nearest", "name", "vector"), Method("fulltext", "name", "text")
    )
    rows = world.rows(vector=[[1, 1, 1, 0]], text=["heron"])
    say(writer, "go")
    seen = []
    while not seen or seen[-1] < 60:
        [hits] = await store.search([query], rows)
        found = world.keys(hits, 0).get(0, [])
        assert sorted(found) == sorted(world.keys(hits, 1).get(0, []))
        assert len(found) % 5 == 0
        seen.append(len(found))
    writer.kill()
    writer.communicate()
    assert seen == sorted(seen)
    await store.aclose()


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (1, 2, 3))]
)
async def test_a_killed_process_loses_no_acknowledged_commit(tmp_path, world, seed):
    writer = start(STREAM, tmp_path / "graph.db")
    say(writer, "go")
    wanted = random.Random(seed).randint(1, 60)
    assert writer.stdout is not None
    said = [writer.stdout.readline() for _ in range(wanted)]
    os.kill(writer.pid, signal.SIGKILL)
    said += [line for line in writer.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
    writer.communicate()
    acknowledged = [line.split()[1] for line in said]

    store = SqliteStore(tmp_path / "graph.db")
    await store.ensure(world.graph, world.dimensions)
    rows = [f"{turn:06}-0" for turn in range(len(acknowledged) + 2)]
    state = (await store.states("p", {"g": rows}))["g"]
    marked = sorted(key[:6] for key in state.committed)
    assert marked[: len(acknowledged)] == acknowledged
    assert len(marked) <= len(acknowledged) + 1
    assert state.head == marked[-1]
    counts = (await store.statistics()).counts
    assert (counts["Person"], counts["KNOWS"]) == (5 * len(marked), 4 * len(marked))
    query = world.query(
        "Person", Method("nearest", "name", "vector"), Method("fulltext", "name", "text")
    )
    [hits] = await store.search([query], world.rows(vector=[[1, 1, 1, 0]], text=["heron"]))
    assert hits.num_rows == 2 * counts["Person"]
    with pytest.raises(ConcurrentWrite):
        await world.commit(store, marker=world.marker("late", before="not the head"))
    await world.commit(
        store, world.write("Note", {"uuid": "n"}), marker=world.marker("next", before=state.head)
    )
    await store.aclose()


async def test_a_writer_waits_for_another_without_blocking_the_loop(tmp_path, world):
    import sqlite3

    store = SqliteStore(tmp_path / "graph.db")
    await store.ensure(world.graph, world.dimensions)
    other = sqlite3.connect(tmp_path / "graph.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    writing = asyncio.create_task(world.commit(store, world.write("Note", {"uuid": "n"})))
    beats = 0
    while beats < 20:
        await asyncio.sleep(0.005)
        beats += 1
    assert not writing.done()
    other.execute("COMMIT")
    await writing
    assert (await store.statistics()).counts["Note"] == 1
    other.close()
    await store.aclose()


async def test_a_cancelled_wait_ends_and_the_store_goes_on(tmp_path, world):
    import sqlite3

    store = SqliteStore(tmp_path / "graph.db")
    await store.ensure(world.graph, world.dimensions)
    other = sqlite3.connect(tmp_path / "graph.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    writing = asyncio.create_task(world.commit(store, world.write("Note", {"uuid": "lost"})))
    await asyncio.sleep(0.05)
    writing.cancel()
    async with asyncio.timeout(HANGS):
        with pytest.raises(asyncio.CancelledError):
            await writing
    other.execute("COMMIT")
    other.close()
    await world.commit(store, world.write("Note", {"uuid": "kept"}))
    assert (await store.scan(ScanQuery("Note"))).column("uuid").to_pylist() == ["kept"]
    await store.aclose()


async def test_a_cancelled_search_leaves_the_store_usable(tmp_path, world):
    store = SqliteStore(tmp_path / "graph.db")
    await store.ensure(world.graph, world.dimensions)
    people = [
        {"uuid": f"p{i:05}", "name": f"heron {i % 7}", "name_embedding": [1, i, 0, 0]}
        for i in range(3000)
    ]
    await world.commit(store, world.write("Person", *people))
    rows = world.rows(text=["heron"] * 2500, vector=[[1, 2, 0, 0]] * 2500)
    query = world.query(
        "Person", Method("fulltext", "name", "text", k=5), Method("nearest", "name", "vector", k=5)
    )
    searching = asyncio.create_task(store.search([query], rows))
    await asyncio.sleep(0.1)
    searching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await searching
    [hits] = await store.search([query], rows.slice(0, 1))
    assert hits.num_rows == 10
    await world.commit(store, world.write("Note", {"uuid": "n"}))
    await store.aclose()
