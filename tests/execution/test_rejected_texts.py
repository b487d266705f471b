"""A text that the embedder rejects costs the rows that need its vector, and no other."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import semgraph
from semgraph.cli import app
from semgraph.execution.result import Result
from semgraph.frontend.head import read_graph
from semgraph.stores.base import ScanQuery
from tests.conftest import driver_of
from tests.execution.conftest import STORY, Place, Watched, Work, place_of, said, variant
from tests.inside import resources
from tests.llm.server import Fault, ModelServer, error
from tests.served import served

GRAPH = """
graph: notes
nodes:
  Note:
    properties: {text: string, n: int64}
    derived: {text_embedding: {embed: text}}
    fulltext: {note_texts: [text]}
  Topic: {properties: {text: string}}
edges:
  AFTER: {source: Note, target: Note, properties: {n: int64}}
"""
HEAD = """
plan: notes
graph: graph.yaml
inputs: {notes: {id: string, group_id: string, text: string null, before: string null}}
"""
WINDOWS = "windows: {input: notes, partition: group_id, key: id, key_of: [text], size: %s}\n"
WRITES = """
steps:
  links:
    - from: notes
    - filter: before IS NOT NULL
    - project: {uuid: "id(id, before)", group_id, source: id, target: before}
writes:
  - merge: {from: notes, node: Note, key: id, set: {text: text}}
  - merge: {from: links, edge: AFTER}
"""
WITHIN = """
steps:
  found:
    - from: notes
    - search: {over: notes, alias: near, key: id, k: 5, methods: [{nearest: text, to: text}], where: "near.id <> id", how: left}
returns: [found]
"""
EMBEDDED = """
steps:
  found:
    - from: notes
    - embed: {vector: text}
    - add: {size: len(vector)}
returns: [found]
"""
STORED = """
steps:
  found:
    - from: notes
    - search: {over: Note, alias: near, k: 5, methods: [{nearest: text, to: text}], how: left}
returns: [found]
"""
BAD = "forbidden"


def rejecting(word: str) -> Callable[[dict[str, Any]], Awaitable[Fault | None]]:
    """A fault of requests with a text that holds a word."""

    async def rejects(body: dict[str, Any]) -> Fault | None:
        bad = [text for text in body["input"] if word in text]
        return error(400, f"{len(bad)} inputs are too long") if bad else None

    return rejects


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    """An embedder that rejects texts with one word."""
    async with ModelServer() as found:
        found.embedding_fault = rejecting(BAD)
        yield found


def note(name: str, text: str, group: str = "g", before: str | None = None) -> dict[str, Any]:
    return {"id": name, "group_id": group, "text": text, "before": before}


NOTES = [
    note("a", "the first"),
    note("b", f"a {BAD} text"),
    note("c", "the third", before="a"),
    note("d", f"{BAD} too", "h"),
    note("e", "the fifth", "h"),
]


class Notes:
    """Sessions over a graph of notes."""

    def __init__(self, server: ModelServer, place: Place | str, folder: Path) -> None:
        self.server, self.folder = server, folder
        self.store = place if isinstance(place, str) else place.spec
        (folder / "graph.yaml").write_text(GRAPH)

    async def run(self, text: str, notes: list[dict[str, Any]], **options: Any) -> Result:
        plan = self.folder / "notes.yaml"
        plan.write_text(HEAD + text)
        async with self.session(**options) as session:
            return await session.arun(plan, notes=notes)

    def session(self, **options: Any) -> semgraph.Session:
        embedder = f"openai:embed-8@{self.server.base_url}?dimensions=8"
        options = {"embedder": embedder, "journal": False, **options}
        return semgraph.Session(store=self.store, folder=self.folder, **options)

    async def keys(self, label: str = "Note") -> list[str]:
        async with self.session() as session, resources(session).opened_store() as store:
            await store.ensure(read_graph(self.folder / "graph.yaml"), 8)
            table = await store.scan(ScanQuery(label))
            return sorted(table.column("uuid").to_pylist())


@pytest.fixture
def notes(server: ModelServer, place: Place, tmp_path: Path, monkeypatch) -> Notes:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    return Notes(server, place, tmp_path)


@pytest.fixture
def simple(server: ModelServer, request, tmp_path: Path, monkeypatch) -> Notes:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    return Notes(server, place_of("sqlite", request, tmp_path), tmp_path)


def failed(result: Result) -> list[str]:
    return [
        row.row.get("id", row.row.get("uuid"))
        if row.input_row is None
        else result.keys[row.input_row]
        for row in result.failed
    ]


@pytest.mark.parametrize("window", ["1", "2", "all", "ready"])
async def test_a_rejected_text_costs_the_row_that_writes_it(notes: Notes, window: str) -> None:
    result = await notes.run(WINDOWS % window + WRITES, NOTES)
    assert sorted(failed(result)) == ["b", "d"]
    assert (result.committed, result.exit_code, result.notes) == (3, 3, ())
    assert await notes.keys() == ["a", "c", "e"]
    assert len(await notes.keys("AFTER")) == 1
    assert {failure.step for failure in result.failed} == {"merge Note"}
    errors = {result.keys[failure.input_row]: failure.error for failure in result.failed}
    assert "no text_embedding of “a forbidden text”: rejected: " in errors["b"]
    assert "1 inputs are too long" in errors["b"]
    # The next run asks for these two texts only.
    notes.server.embedding_requests.clear()
    again = await notes.run(WINDOWS % window + WRITES, NOTES)
    assert (again.skipped, sorted(failed(again))) == (3, ["b", "d"])
    asked = {text for body in notes.server.embedding_requests for text in body["input"]}
    assert asked == {NOTES[1]["text"], NOTES[3]["text"]}


async def test_rows_set_aside_are_in_the_record_and_are_written_when_their_texts_are_accepted(
    simple: Notes,
) -> None:
    result = await simple.run(WINDOWS % 2 + WRITES, NOTES)
    assert result.record is not None
    lines = (result.record / "failed.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["id"] for line in lines) == ["b", "d"]
    simple.server.embedding_fault = None
    again = await simple.run(WINDOWS % 2 + WRITES, NOTES)
    assert (again.committed, again.skipped, again.exit_code) == (2, 3, 0)
    assert await simple.keys() == ["a", "b", "c", "d", "e"]


async def test_an_edge_of_a_row_set_aside_fails_with_its_own_row(notes: Notes) -> None:
    links = [*NOTES, note("f", "the sixth", before="b")]
    result = await notes.run(WINDOWS % "all" + WRITES, links)
    assert sorted(failed(result)) == ["b", "d", "f"]
    assert await notes.keys() == ["a", "c", "e"]


async def test_without_windows_rows_that_lack_a_vector_and_their_edges_are_set_aside(
    notes: Notes,
) -> None:
    links = [*NOTES, note("f", "the sixth", before="b")]
    result = await notes.run(WRITES, links)
    edge = next(failure for failure in result.failed if failure.step == "merge AFTER")
    assert edge.row["target"] == "b"
    assert sorted(failed(result)) == sorted(["b", "d", edge.row["uuid"]])
    assert result.exit_code == 3
    assert await notes.keys() == ["a", "c", "e", "f"]
    assert len(await notes.keys("AFTER")) == 1


@pytest.mark.parametrize("steps", ["EMBEDDED", "WITHIN", "STORED"])
@pytest.mark.parametrize("windows", ["", WINDOWS % 1, WINDOWS % "all"], ids=["none", "1", "all"])
async def test_a_rejected_text_costs_the_rows_that_embed_or_search_it(
    notes: Notes, windows: str, steps: str
) -> None:
    await notes.run(WINDOWS % 1 + WRITES, [note("stored", "a stored text")])
    result = await notes.run(windows + globals()[steps], NOTES)
    found = result.tables["found"].to_pylist()
    assert sorted({row["id"] for row in found}) == ["a", "c", "e"]
    assert sorted(set(failed(result))) == ["b", "d"]
    assert all("forbidden" in failure.error for failure in result.failed)
    assert result.exit_code == 3
    hits = {row["near"]["id"] for row in found if steps == "WITHIN" and row["near"] is not None}
    assert hits <= {"a", "c", "e"}


async def test_the_same_holds_in_memory(server: ModelServer, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    result = await Notes(server, "memory", tmp_path).run(WINDOWS % "all" + WRITES, NOTES)
    assert (sorted(failed(result)), result.committed) == (["b", "d"], 3)


@pytest.mark.parametrize("seed", range(6))
async def test_exactly_the_rows_that_need_a_rejected_text_fail(simple: Notes, seed: int) -> None:
    draw = random.Random(seed)
    rows = [
        note(
            f"n{i}", f"text {i % 9} {BAD * (draw.random() < 0.2)}", draw.choice("gh"),
            draw.choice([None, f"n{draw.randrange(i)}"]) if i else None,
        )
        for i in range(40)
    ]  # fmt: skip
    group = {row["id"]: row["group_id"] for row in rows}
    for row in rows:
        if row["before"] and group[row["before"]] != row["group_id"]:
            row["before"] = None
    lost = {row["id"] for row in rows if BAD in row["text"]}
    while more := {row["id"] for row in rows if row["before"] in lost} - lost:
        lost |= more
    size = draw.choice(["1", "3", "all"])
    result = await simple.run(WINDOWS % size + WRITES, rows)
    assert set(failed(result)) == lost
    assert await simple.keys() == sorted(group.keys() - lost)


@pytest.mark.parametrize("size", [1, "all"])
async def test_a_rejected_name_costs_its_episodes_alone_in_the_shipped_plan(
    server: ModelServer, model: Watched, request, tmp_path: Path, size: int | str
) -> None:
    server.embedding_fault = rejecting("Luma")
    work = Work(model, place_of("sqlite", request, tmp_path), tmp_path)
    embedder = f"openai:embed-8@{server.base_url}?dimensions=8"
    plan = variant(tmp_path, ("size: $window", f"size: {size}"))
    result = await work.run(said(STORY[:6]), plan, {"embedder": embedder})
    lost = [n for n, text in enumerate(STORY[:6]) if "Luma" in text]
    assert sorted({failure.input_row for failure in result.failed}) == lost
    assert (result.committed, result.exit_code) == (6 - len(lost), 3)
    assert all("Luma" in failure.error for failure in result.failed)
    names = {row["name"] for row in (await work.place.dump())["Entity"].values()}
    assert names == {"Ann", "Rome", "Ben", "Oslo", "Project Kite"}


def test_the_command_line_sets_the_rows_aside_and_exits_with_3(tmp_path: Path, monkeypatch) -> None:
    for name, text in (("graph.yaml", GRAPH), ("notes.yaml", HEAD + WINDOWS % 1 + WRITES)):
        (tmp_path / name).write_text(text)
    (tmp_path / "notes.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in NOTES))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    server = ModelServer()
    server.embedding_fault = rejecting(BAD)
    with served(server):
        args = ["--embedder", f"openai:embed-8@{server.base_url}?dimensions=8"]
        args += ["--store", "sqlite:graph.db", "--input", "notes=notes.jsonl"]
        done = CliRunner().invoke(app, ["run", "notes.yaml", *args])
    assert done.exit_code == 3, done.output
    (record,) = (tmp_path / ".semgraph" / "runs").iterdir()
    rows = [json.loads(line) for line in (record / "failed.jsonl").read_text().splitlines()]
    assert sorted(row["id"] for row in rows) == ["b", "d"]


NAN, INFINITE = float("nan"), float("inf")
UNUSABLE = {
    "NaN": [NAN, *[1.0] * 7],
    "infinity": [INFINITE, *[1.0] * 7],
    "zeros": [0.0] * 8,
    "a short one": [1.0] * 7,
}


@pytest.mark.parametrize("kind", UNUSABLE)
async def test_a_stored_vector_of_another_program_that_cannot_be_compared_is_no_hit(
    notes: Notes, request: pytest.FixtureRequest, kind: str
) -> None:
    good = [note(name, f"text {name}") for name in "abc"]
    await notes.run(WINDOWS % "all" + WRITES, good)
    if notes.store.startswith("sqlite:"):
        with sqlite3.connect(notes.folder / "graph.db") as con:
            blob = np.array(UNUSABLE[kind], "<f4").tobytes()
            changed = con.execute(
                'UPDATE "Note#vector#text_embedding" SET vector = ? WHERE "#id" = (SELECT min("#id") FROM "Note#vector#text_embedding")',
                (blob,),
            )
            assert changed.rowcount == 1
    else:
        driver = driver_of(request.getfixturevalue("neo4j_database"))
        driver.execute_query(
            "MATCH (n:Note {uuid: 'a'}) SET n.text_embedding = $v", v=UNUSABLE[kind]
        )
    result = await notes.run(STORED, [note("q", "a question")])
    hits = [row["near"]["uuid"] for row in result.tables["found"].to_pylist()]
    assert sorted(hits) == ["b", "c"]
    assert result.exit_code == 0
    if kind != "a short one" or notes.store.startswith("sqlite:"):
        [told] = [n for n in result.notes if n.startswith("left out 1 Note that another program")]
        assert "text_embedding is [" in told
        assert told.endswith("not a usable vector. First: a")
