"""What version 0.2.0 left behind is opened by this version, or migrated.

`fixtures/v0_2` was made by the code of 0.2.0 with the simulated model of the documentation's tests:
a SQLite store and a journal that `remember`, a comparison of its step `statements`, and
`add_episode` filled; their records; the rows of a Neo4j database as Cypher; a saved plan; settings.
It is never made a second time.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import neo4j
import pytest

from tests.cli.conftest import Project
from tests.conftest import Server, without_schema

LEFT = Path(__file__).parent / "fixtures" / "v0_2"
ROWS = (LEFT / "neo4j.cypher").read_text(encoding="utf-8")
MADE_IN = "/home/ada/notes"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A copy of what 0.2.0 left; no model server runs."""
    folder = tmp_path / "work"
    shutil.copytree(LEFT, folder)
    (folder / ".semgraph").mkdir()
    (folder / "runs").rename(folder / ".semgraph" / "runs")
    for path in (folder / ".semgraph" / "runs").rglob("*.json"):
        path.write_text(path.read_text(encoding="utf-8").replace(MADE_IN, str(folder)), "utf-8")
    hidden = ("SEMGRAPH_", "OPENAI_", "NEO4J_", "COV_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    return Project(folder, env | {"SEMGRAPH_HOME": str(tmp_path / "home"), "COLUMNS": "120"})


def searched(project: Project, *options: str) -> list[tuple[str, str]]:
    """Facts about the project, and entities, by words and by the vector that its entity has."""
    (row,) = re.findall(r"CREATE \(:`Entity` .*`name`: \"Project Phoenix\".*", ROWS)
    vector = json.loads(re.search(r"`name_embedding`: (\[.*?\])", row)[1])  # type: ignore[index]
    query = {"query": "Project Phoenix", "group_id": "demo", "vector": vector}
    project.write("queries.jsonl", json.dumps(query))
    done = project("run", "search", "-i", "queries=queries.jsonl", "--format", "json", *options)
    assert done.code == 0, done.err
    tables = json.loads(done.out)["tables"]
    facts = [("fact", row["fact"]) for row in tables["edges"]]
    return sorted([*facts, *(("entity", row["name"]) for row in tables["nodes"])])


FOUND = [
    ("entity", "Project Phoenix"),
    (
        "fact",
        "Alice Chen is currently leading Project Phoenix, a major cloud migration initiative.",
    ),
    ("fact", "The deadline of Project Phoenix is February 15th."),
]


def test_the_sqlite_store_is_searched(project: Project) -> None:
    assert set(FOUND) <= set(searched(project))


def test_the_neo4j_database_is_searched_and_written(
    project: Project, neo4j_database: Server
) -> None:
    server = neo4j_database
    with neo4j.GraphDatabase.driver(server.uri, auth=(server.user, server.password)) as driver:
        without_schema(driver)
        for statement in filter(str.strip, ROWS.split(";\n")):
            driver.execute_query(statement)
        driver.execute_query("CALL db.awaitIndexes(60)")
    project.env |= {
        "NEO4J_URI": server.uri,
        "NEO4J_USERNAME": server.user,
        "NEO4J_PASSWORD": server.password,
    }
    assert set(FOUND) <= set(searched(project, "--store", "neo4j"))
    done = project("run", "remember.yaml", "-i", "messages=messages.jsonl", "--store", "neo4j")
    assert done.code == 0, done.err
    assert "5 of 5 messages are in the graph already" in done.out


def test_runs_are_listed_and_a_row_is_traced_to_its_answers(project: Project) -> None:
    listed = project("runs", "list", "--format", "json")
    assert {run["run"]: run["status"] for run in json.loads(listed.out)} == {
        "a659": "done",
        "717b": "compared",
        "e7c6": "budget",
    }
    traced = project("why", "a659", "WORKS_AT", "--messages")
    assert traced.code == 0, traced.err
    assert "I work at TechCorp as a senior software engineer" in traced.out
    assert "the journal does not have it" not in traced.out


@pytest.mark.parametrize("run", ["a659", "717b", "e7c6"])
def test_a_record_becomes_a_report(project: Project, run: str) -> None:
    assert project("report", run, "-o", "report.html").code == 0
    assert "</html>" in (project.folder / "report.html").read_text(encoding="utf-8")


def test_a_comparison_of_clusters_is_refused_in_a_sentence(project: Project) -> None:
    file = project.folder / ".semgraph" / "runs" / "717b" / "comparison.json"
    file.write_text(file.read_text("utf-8").replace('"clusters": null', '"clusters": 4'), "utf-8")
    shown = project("compare", "--show", "717b")
    assert shown.code == 2
    assert "717b compared algorithms of a step that clusters. Only semgraph 0.2" in shown.err


def test_a_stopped_run_is_resumed_without_a_call(project: Project) -> None:
    resumed = project("run", "remember.yaml", "--resume", "e7c6")
    assert resumed.code == 0, resumed.err
    assert "0 calls (+6 from the journal)" in resumed.out
    rows = project("run", "memories.yaml", "--format", "json")
    assert rows.code == 0, rows.err
    texts = [(row["user_id"], row["text"]) for row in json.loads(rows.out)["tables"]["memories"]]
    assert texts == [
        ("ann", "User lives in Porto now."),
        ("ann", "User loves sushi."),
        ("bob", "User lives in Lisbon."),
        ("bob", "User likes tea."),
        ("bob", "User plays chess."),
    ]


def test_saved_plans_and_settings_are_read(project: Project) -> None:
    for plan in ("complaints.yaml", "remember.yaml", "recall.yaml"):
        checked = project("plans", "check", plan)
        assert checked.code == 0, checked.err
    assert "journal.keep_days = 3650   (./semgraph.toml)" in project("doctor").out
