"""`semgraph export`: a group as a file."""

from __future__ import annotations

import json

import networkx as nx

from tests.cli.conftest import Project


def test_a_group_is_written_and_counted(project: Project) -> None:
    assert project("run", "people").code == 0
    done = project("export", "demo", "-o", "demo.graphml", "--graph", "plans/graph.yaml")
    assert (done.code, done.out) == (0, "demo.graphml   6 nodes, 3 edges\n")
    read = nx.read_graphml(project.folder / "demo.graphml", force_multigraph=True)
    assert sorted(v["name"] for _, v in read.nodes(data=True) if v["label"] == "Person") == [
        "Ann", "Bob", "Cleo",
    ]  # fmt: skip
    assert {v["since"] for *_, v in read.edges(data=True)} >= {"2025-01-15T09:00:00Z"}


def test_the_format_json_tells_the_path_and_the_counts(project: Project) -> None:
    project("run", "people")
    done = project("export", "demo", "-o", "demo.parquet", "--format", "json")
    assert json.loads(done.out) == {
        "path": str(project.folder / "demo.parquet"), "nodes": 6, "edges": 3, "notes": [],
    }  # fmt: skip


def test_mistakes_are_messages_with_the_right_word(project: Project) -> None:
    missing = project("export", "demo", "-o", "demo.json")
    assert (missing.code, "there is no graph at .semgraph/graph.db" in missing.err) == (5, True)
    project("run", "people")
    group = project("export", "dmo", "-o", "demo.json")
    assert group.code == 2
    assert 'holds nothing of group "dmo". Groups: demo. Did you mean "demo"?' in group.err
    ending = project("export", "demo", "-o", "demo.gml")
    assert (ending.code, "Endings: .graphml, .json, .parquet" in ending.err) == (2, True)


def test_the_results_of_a_plan_are_written_and_read_back(project: Project) -> None:
    project("run", "save_mentions")
    rows = ("-i", "sessions=demo")
    done = project("export", "--plan", "get_mentions", *rows, "-o", "a.json")
    told = "a.json   2 rows of nodes, 1 row of edges, 1 row of episodes\n"
    assert (done.code, done.out) == (0, told)
    assert [*json.loads((project.folder / "a.json").read_text())] == ["nodes", "edges", "episodes"]
    saved = project("run", "save_mentions", "-i", "a.json", "--store", "sqlite:other.db")
    assert saved.code == 0, saved.err
    other = ("--store", "sqlite:other.db", "--format", "json")
    again = project("export", "--plan", "get_mentions", *rows, "-o", "b.json", *other)
    assert json.loads(again.out)["rows"] == {"nodes": 2, "edges": 1, "episodes": 1}
    written = [(project.folder / name).read_bytes() for name in ("a.json", "b.json")]
    assert written[0] == written[1]


def test_a_plan_is_exported_with_its_parameters_and_its_rows(project: Project) -> None:
    project("run", "people")
    note = '[{"group_id": "x", "at": "2025-01-15T09:00:00Z", "text": "Ann knows Bob. Bob knows Cleo."}]'
    project.write("notes.json", note)
    given = ("-i", "notes=notes.json", "--set", "least=1", "-o", "people.json")
    assert project("export", "--plan", "people", *given).code == 0
    written = json.loads((project.folder / "people.json").read_text())
    assert [tie["name"] for tie in written["ties"]] == ["KNOWS"]
    assert [person["name"] for person in written["people"]] == ["Bob", "Cleo"]


def test_rows_that_fail_are_told_and_the_others_are_written(project: Project) -> None:
    row = '{"group_id": "x", "at": "2025-01-15T09:00:00Z", "text": "%s"}'
    project.write("notes.jsonl", "\n".join((row % "Ann knows Bob.", row % "nobody knows.")))
    done = project("export", "--plan", "people", "-i", "notes=notes.jsonl", "-o", "people.json")
    assert (done.code, "I would rather not say" in done.err) == (3, True)
    assert len(json.loads((project.folder / "people.json").read_text())["ties"]) == 1


def test_of_a_group_and_a_plan_one_is_exported(project: Project) -> None:
    usage = "export takes GROUP and --graph, or --plan and its -i, --set, --preset and --use"
    for words in (
        (), ("demo", "--plan", "find"), ("demo", "-i", "queries=Ann"), ("--plan", "find", "--graph", "plans/graph.yaml"),
    ):  # fmt: skip
        done = project("export", *words, "-o", "x.json")
        assert (done.code, usage in done.err) == (2, True), words
    rows = project("export", "--plan", "find", "-o", "x.json")
    assert (rows.code, "Give its inputs: -i queries=FILE" in rows.err) == (2, True)
    ending = project("export", "--plan", "find", "-i", "queries=Ann", "-o", "x.graphml")
    assert (ending.code, "-o x.json" in ending.err) == (2, True)
    assert not (project.folder / "x.json").exists()


def test_a_document_names_the_inputs_of_its_rows(project: Project) -> None:
    project.write("d.json", '{"episodes": [], "mentions": []}')
    wrong = project("run", "save_mentions", "-i", "d.json")
    assert wrong.code == 2
    assert 'save_mentions has no input "mentions". Inputs: episodes, nodes, edges' in wrong.err
    project.write("d.json", '{"episodes": {"id": "e"}}')
    wrong = project("run", "save_mentions", "-i", "d.json")
    assert (wrong.code, "this is no list of JSON objects" in wrong.err) == (2, True)
