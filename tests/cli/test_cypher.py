"""`semgraph cypher`: statements in a Neo4j store, read unless told otherwise."""

from __future__ import annotations

import json

import pytest

from semgraph import Session
from semgraph.errors import PlanError
from tests.cli.conftest import Project
from tests.conftest import Server


@pytest.fixture
def server(project: Project, neo4j_database: Server) -> Project:
    """A project with a store of two people."""
    login = {"NEO4J_URI": neo4j_database.uri, "NEO4J_USERNAME": neo4j_database.user}
    project.env |= {**login, "NEO4J_PASSWORD": neo4j_database.password}
    project.env["SEMGRAPH_STORE"] = "neo4j"
    made = "CREATE (:P {name: 'Ann', born: date('1990-05-01')})-[:KNOWS {since: 3}]->(:P {name: 'Bob'})"
    assert project("cypher", made, "--write").code == 0
    return project


def test_rows_are_a_table_or_json(server: Project) -> None:
    names = "MATCH (p:P) RETURN p.name AS name, p.born AS born ORDER BY name"
    table = server("cypher", names)
    assert [line.split() for line in table.out.splitlines()] == [
        ["name", "born"],
        ["Ann", "1990-05-01"],
        ["Bob"],
    ]
    assert table.err == "2 rows\n"
    assert json.loads(server("cypher", names, "--format", "json").out) == [
        {"name": "Ann", "born": "1990-05-01"},
        {"name": "Bob", "born": None},
    ]


def test_nodes_edges_and_paths_are_values(server: Project) -> None:
    found = server("cypher", "MATCH w = (a)-[k:KNOWS]->(b) RETURN b, k, w", "--format", "json")
    bob, knows = {"labels": ["P"], "name": "Bob"}, {"type": "KNOWS", "since": 3}
    ann = {"labels": ["P"], "name": "Ann", "born": "1990-05-01"}
    assert json.loads(found.out) == [{"b": bob, "k": knows, "w": [ann, knows, bob]}]


def test_parameters_are_set_by_name(server: Project) -> None:
    found = server(
        "cypher", "MATCH (p:P {name: $who})-[k]->() WHERE k.since < $n RETURN k.since AS since",
        "--set", "who=Ann", "--set", "n=4", "--format", "json",
    )  # fmt: skip
    assert json.loads(found.out) == [{"since": 3}]


def test_a_statement_that_writes_needs_the_option(server: Project) -> None:
    for statement in ("CREATE (:P)", "MATCH (p:P) SET p.name = 'x'", "MATCH (p) DETACH DELETE p"):
        refused = server("cypher", statement)
        assert refused.code != 0
        assert "this statement writes: add --write" in refused.err
    names = "MATCH (p:P) WITH p.name AS name ORDER BY name RETURN collect(name) AS names"
    assert json.loads(server("cypher", names, "--format", "json").out)[0]["names"] == ["Ann", "Bob"]
    assert server("cypher", "MATCH (p:P) SET p.name = 'x'", "--write").out == ""
    assert json.loads(server("cypher", names, "--format", "json").out)[0]["names"] == ["x", "x"]


def test_a_wrong_statement_is_an_error_with_its_reason(server: Project) -> None:
    wrong = server("cypher", "MATCH (p RETURN p")
    assert wrong.code != 0
    assert "SyntaxError" in wrong.err
    assert "Traceback" not in wrong.err


def test_a_store_in_a_file_has_no_cypher(project: Project) -> None:
    refused = project("cypher", "MATCH (n) RETURN n", "--store", "sqlite:g.db")
    assert refused.code == 2
    assert "has no Cypher. Use --store neo4j" in refused.err
    assert not (project.folder / "g.db").exists()


async def test_a_session_of_one_group_has_no_cypher() -> None:
    with (
        Session(llm="dummy", store="neo4j://127.0.0.1:1", group="demo") as session,
        pytest.raises(
            PlanError, match='Cypher sees all groups, this session the group "demo" alone'
        ),
    ):
        await session.acypher("MATCH (n) RETURN n")


def test_in_python_a_statement_is_run_and_awaited(server: Project) -> None:
    with server.inside(), Session(llm="dummy") as session:
        found = session.cypher(
            "MATCH (p:P) WHERE p.name = $who RETURN p.name AS name", parameters={"who": "Bob"}
        )
        assert found == [{"name": "Bob"}]
        made = session.cypher("CREATE (p:P {name: 'Cleo'}) RETURN p.name AS name", write=True)
        assert made == [{"name": "Cleo"}]
