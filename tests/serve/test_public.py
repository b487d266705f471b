"""What a server gives to its clients, and what it keeps: no terminal escapes, no folders of the server,
no records without bound.
"""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from mcp import MCPError

from semgraph.execution.record import keep_latest
from tests.cli.conftest import Project, Serving
from tests.serve.conftest import Connect, note, text_of

ESCAPES = "\x1b[2J\x07\x9b31m\u202e"
BROKEN = """
plan: broken
doc: "Rows that say \\e[31mwhat\\e[0m they are."
graph: graph.yaml
inputs: {notes: {group_id: string null, text: string, at: timestamp}}
steps:
  told: [{from: notes}, {require: {where: "text <> text", says: "'in SAID: ' || text"}}]
returns: [told]
"""


def texts(result: Any) -> str:
    """All text of a result, as it is on the wire."""
    return "\n".join(each.text for each in result.content)


def harmless(text: str, project: Project) -> None:
    assert not [c for c in ESCAPES + "\r" if not c.isprintable() and c in text]
    assert "\\x1b" in text or "\\u001b" in text
    assert str(project.folder) not in text


async def test_texts_of_a_server_hold_no_escapes_and_no_folders(
    connect: Connect, project: Project, serving: Serving
) -> None:
    project.write("plans/broken.yaml", BROKEN.replace("SAID", f"{project.folder}/data/x.db"))
    plans = ("--plans", f"people,find,{project.folder}/plans/broken.yaml")
    store = ("--store", f"sqlite:{project.folder}/data/graph.db")
    async with connect(*plans, *store) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools["broken"].description == "Rows that say \\x1b[31mwhat\\x1b[0m they are."
        failed = await client.call_tool("broken", {"notes": [note(f"odd {ESCAPES}", "g")]})
        assert failed.is_error
        assert "in x.db: odd \\x1b[2J" in texts(failed)
        harmless(texts(failed), project)
        odd = {"notes": [note("Ann knows Bob.", "g") | {"at": f"soon{ESCAPES}"}]}
        refused = await client.call_tool("people", odd)
        assert refused.is_error
        harmless(texts(refused), project)
        unknown = await client.call_tool("people", {f"notes{ESCAPES}": []})
        assert "\x1b" not in texts(unknown)
        unset = await client.call_tool("people", {"notes": [], "params": {f"least{ESCAPES}": 1}})
        assert "\x1b" not in texts(unset)
        assert str(project.folder) not in texts(unset)
        found = await client.call_tool(
            "find", {"queries": [{"query": f"C{ESCAPES}", "group_id": "g"}]}
        )
        assert "\x1b" not in texts(found)
        assert "\x9b" not in texts(found)
        people = await client.call_tool(
            "people", {"notes": [note(f"Ann{ESCAPES} knows Bob.", "g")]}
        )
        assert "\x1b" not in texts(people)
        json.loads(people.content[1].text)


async def test_an_error_quotes_no_more_than_a_page_of_a_call(
    connect: Connect, serving: Serving
) -> None:
    async with connect("--plans", "people") as client:
        refused = await client.call_tool("people", {"notes": "x" * 200_000})
        assert refused.is_error
        assert len(texts(refused)) <= 10_000
        with pytest.raises(MCPError) as unknown:
            await client.call_tool("y" * 200_000, {})
        assert len(str(unknown.value)) < 500


async def test_a_store_that_does_not_open_names_no_folder(
    connect: Connect, project: Project
) -> None:
    (project.folder / "data").mkdir()
    (project.folder / "data/graph.db").write_text("no database at all, but a text")
    store = ("--store", f"sqlite:{project.folder}/data/graph.db")
    async with connect("--plans", "people", *store) as client:
        told = await client.call_tool("people", {"notes": [note("Ann knows Bob.", "g")]})
    assert told.is_error
    assert "sqlite:graph.db  is not an SQLite file" in text_of(told)
    assert str(project.folder) not in texts(told)


async def test_a_server_keeps_the_latest_records(connect: Connect, project: Project) -> None:
    assert (await asyncio.to_thread(project, "run", "people")).code == 0
    [own] = (project.folder / ".semgraph/runs").iterdir()
    ids = []
    async with connect("--plans", "people,find", "--keep", "2") as client:
        for n in range(4):
            done = await client.call_tool("people", {"notes": [note("Ann knows Bob.", "g", n + 1)]})
            ids.append(done.structured_content["run"])
    left = {path.name for path in own.parent.iterdir()}
    assert left == {own.name, *ids[2:]}, "records of the command line stay"


def test_records_of_a_server_are_deleted_oldest_first(tmp_path: Path) -> None:
    for n in range(5):
        (tmp_path / f"r{n}").mkdir()
        keep_latest(tmp_path, [f"r{n}", "gone"], 3)
    (tmp_path / "mine").mkdir()
    keep_latest(tmp_path, [], 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "r4"]


def test_calls_that_end_at_once_delete_each_others_old_records(tmp_path: Path) -> None:
    def ends(n: int) -> None:
        (tmp_path / f"r{n}").mkdir()
        keep_latest(tmp_path, [f"r{n}"], 3)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(ends, range(300)))
    keep_latest(tmp_path, [], 3)
    assert len([*tmp_path.iterdir()]) == 3


@pytest.mark.parametrize("place", ["option", "file"])
def test_a_report_names_no_folder_of_its_author(
    project: Project, serving: Serving, place: str
) -> None:
    folder = project.folder
    (folder / "ops").mkdir()
    project.write(
        "semgraph.toml", f'store = "sqlite:{folder}/data/graph.db"\noperators = ["{folder}/ops"]\n'
    )
    project.write(
        "rows.json",
        json.dumps([{"group_id": "g", **note(t)} for t in ("nobody", "Ann knows Bob.")]),
    )
    options = ["--store", f"sqlite:{folder}/data/other.db"] if place == "option" else []
    ended = project(
        "run", f"{folder}/plans/people.yaml", "-i", f"notes={folder}/rows.json", *options
    )
    assert ended.code == 3, ended.err
    assert project("report", "last", "-o", "out.html").code == 0
    page = (folder / "out.html").read_text(encoding="utf-8")
    assert "Ann knows Bob." in page
    for author in (
        folder,
        folder.parent,
        Path.home(),
        Path(project.env["SEMGRAPH_HOME"]),
        Path.cwd(),
    ):
        assert f"{author}/" not in page
        assert str(author) not in page
