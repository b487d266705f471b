"""A store that cannot be reached, written or used: exit code 5, what to do, and nothing is
asked.
"""

from __future__ import annotations

import os
import sqlite3
import stat

import pytest

from tests.bad_input.conftest import Serving, episode, held, powerless, quiet, told
from tests.cli.conftest import Project
from tests.conftest import Server

OSLO, LUMA = episode("Ann(user): I live in Oslo."), episode("Ann(user): I work at Luma.", 1)


def at(project: Project, server: Server, **other: str) -> None:
    """Name a Neo4j server in the environment."""
    given = {
        "NEO4J_URI": server.uri,
        "NEO4J_USERNAME": server.user,
        "NEO4J_PASSWORD": server.password,
    }
    project.env.update(given | other)


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("bolt://127.0.0.1:9", "refused"),
        ("neo4j://127.0.0.1:9", "refused"),
        ("bolt://no-such-host.invalid:7687", "no-such-host.invalid"),
    ],
)
def test_an_unreachable_neo4j_server_is_reported(
    project: Project, serving: Serving, uri: str, said: str
) -> None:
    ended = project(*told(project, [OSLO]), "--store", uri)
    err = quiet(ended, 5)
    assert ended.out == ""
    assert uri in err
    assert said in err.lower()
    assert "semgraph neo4j start" in err
    assert serving.requests == 0


def test_what_the_neo4j_driver_logs_about_an_error_is_not_printed_beside_it(
    project: Project, serving: Serving
) -> None:
    ended = project.process(*told(project, [OSLO]), "--store", "neo4j://127.0.0.1:9", "-q")
    (line,) = quiet(ended, 5).splitlines()
    assert line.startswith("neo4j://127.0.0.1:9  no answer in 5 s (connection refused).")


def test_a_wrong_neo4j_password_is_reported_without_the_password(
    project: Project, serving: Serving, neo4j_server: Server
) -> None:
    at(project, neo4j_server, NEO4J_PASSWORD="wrong-password")
    ended = project(*told(project, [OSLO]), "--store", "neo4j")
    err = quiet(ended, 5)
    assert "password" in err
    assert "wrong-password" not in err
    assert "NEO4J_PASSWORD" in err
    assert serving.requests == 0


def test_an_unknown_neo4j_database_is_reported(
    project: Project, serving: Serving, neo4j_server: Server
) -> None:
    at(project, neo4j_server, NEO4J_DATABASE="nowhere")
    assert "nowhere" in quiet(project(*told(project, [OSLO]), "--store", "neo4j"), 5)
    assert serving.requests == 0


def test_a_missing_neo4j_address_is_reported(project: Project, serving: Serving) -> None:
    assert "NEO4J_URI is not set" in quiet(project(*told(project, [OSLO]), "--store", "neo4j"), 2)
    assert serving.requests == 0


@pytest.mark.parametrize(
    ("store", "said"), [("neo4j", "NEO4J_URI is not set"), ("neo4j-local", "semgraph neo4j start")]
)
def test_a_store_that_is_not_there_is_reported_before_a_model_is_fetched(
    project: Project, store: str, said: str
) -> None:
    project.env |= {"SEMGRAPH_LLM": "local", "SEMGRAPH_EMBEDDER": "local", "SEMGRAPH_OFFLINE": "1"}
    ended = project(*told(project, [OSLO]), "--store", store)
    assert ended.code in {2, 5}
    assert said in ended.err


@pytest.mark.parametrize("store", ["sqlite:graph.db", "neo4j"])
def test_an_embedder_with_other_dimensions_is_rejected(
    project: Project, serving: Serving, request: pytest.FixtureRequest, store: str
) -> None:
    if store == "neo4j":
        at(project, request.getfixturevalue("neo4j_database"))
    quiet(project(*told(project, [OSLO]), "--store", store), 0)
    before = serving.requests
    project.env["SEMGRAPH_EMBEDDER"] = project.env["SEMGRAPH_EMBEDDER"].replace("=64", "=32")
    project.write("q.jsonl", '{"query": "Oslo"}\n')
    for asked in (told(project, [LUMA]), ["run", "search", "-i", "queries=q.jsonl"]):
        ended = project(*asked, "--store", store)
        err = quiet(ended, 5)
        assert "here has 64-dimensional vectors (index " in err
        assert "gives 32. Nothing was written." in err
        assert "Use the embedder that made them (--embedder " in err
        assert "or start another store" in err
        assert ended.out == ""
    assert serving.requests == before
    if store == "sqlite:graph.db":
        assert len(held(project, "Episodic", "graph.db")) == 1


@pytest.mark.parametrize(
    ("store", "said"),
    [
        ("sqlite:chat.db", "is not an SQLite file"),
        ("sqlite:folder", "cannot be opened"),
        ("sqlite:chat.db/graph.db", "its folder cannot be made"),
        ("sqlite:other.db", "other.db"),
    ],
)
def test_a_file_that_is_not_a_store_is_rejected_and_left_unchanged(
    project: Project, serving: Serving, store: str, said: str
) -> None:
    project.write("chat.db", "hello " * 1000)
    (project.folder / "folder").mkdir()
    con = sqlite3.connect(project.folder / "other.db")
    con.execute("CREATE TABLE Entity (a, b)")
    con.commit()
    con.close()
    before = {path.name: path.read_bytes() for path in project.folder.glob("*.db")}
    err = quiet(project(*told(project, [OSLO]), "--store", store), 5)
    assert said in err
    assert serving.requests == 0
    assert {path.name: path.read_bytes() for path in project.folder.glob("*.db")} == before


@pytest.mark.parametrize("what", ["folder", "file"])
def test_a_store_without_write_permission_is_reported(
    project: Project, serving: Serving, what: str
) -> None:
    closed = project.folder / "closed"
    closed.mkdir()
    if what == "file":
        quiet(project(*told(project, [OSLO]), "--store", "sqlite:closed/graph.db"), 0)
        (closed / "graph.db").chmod(stat.S_IRUSR)
    closed.chmod(stat.S_IRUSR | stat.S_IXUSR)
    before = serving.requests
    asked = [*told(project, [LUMA]), "--store", "sqlite:closed/graph.db"]
    try:
        ended = powerless(project, *asked)
    finally:
        closed.chmod(stat.S_IRWXU)
    err = quiet(ended, 5)
    assert "closed/graph.db" in err
    assert "write" in err
    assert "or name another file: --store sqlite:PATH, or SEMGRAPH_STORE" in err
    assert serving.requests == before
    assert sorted(os.listdir(closed)) == (["graph.db"] if what == "file" else [])
