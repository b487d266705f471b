"""The commands over a store of shards."""

from __future__ import annotations

import json
import sqlite3

from tests.cli.conftest import Project, Serving

STORE = "shards:sqlite:graphs?n=3"
ROWS = [
    {"group_id": group, "at": f"2025-01-1{day}T09:00:00Z", "text": text}
    for day, text in enumerate(("Ann knows Bob.", "Bob knows Cleo."))
    for group in ("g", "i", "a")
]


def filled(project: Project) -> None:
    """Notes of a group of each shard."""
    project.env["SEMGRAPH_STORE"] = STORE
    project.write("notes.jsonl", "\n".join(map(json.dumps, ROWS)))
    done = project("run", "people", "-i", "notes=notes.jsonl")
    assert (done.code, "written: 6 Note, 9 Person, 6 KNOWS" in done.out) == (0, True)
    assert "store  graphs (shards: 3, new, SQLite)" in done.err


def test_a_run_fills_the_files_and_the_next_has_nothing_to_do(
    project: Project, serving: Serving
) -> None:
    filled(project)
    files = sorted((project.folder / "graphs").glob("*.db"))
    assert [file.name for file in files] == [f"shard-{n}-of-3.db" for n in (1, 2, 3)]
    people = [
        sqlite3.connect(file).execute("SELECT count(*) FROM Person").fetchone()[0] for file in files
    ]
    assert people == [3, 3, 3]
    again = project("run", "people", "-i", "notes=notes.jsonl")
    assert again.out.startswith("6 of 6 notes are in the graph already: 0 calls, nothing to write")
    assert serving.calls == 6


def test_a_search_of_all_groups_finds_the_rows_of_all_shards(project: Project) -> None:
    filled(project)
    project.write("queries.jsonl", json.dumps({"query": "Cleo"}))
    done = project("run", "find", "-i", "queries=queries.jsonl", "--format", "json")
    assert [row["name"] for row in json.loads(done.out)["tables"]["hits"]] == ["Cleo"] * 3


def test_why_goes_back_from_a_row_in_a_shard(project: Project) -> None:
    filled(project)
    done = project("why", "last", "Cleo")
    assert done.code == 0
    assert "Bob knows Cleo." in done.out


def test_doctor_and_explain_say_how_many_shards_there_are(project: Project) -> None:
    project.env["SEMGRAPH_STORE"] = STORE
    assert "not there yet" in " ".join(project("doctor").out.split())
    filled(project)
    assert "graphs (shards: 3, SQLite, " in project("doctor").out
    assert "6 Note" in project("doctor", "--store", "shards:sqlite:graphs").out
    assert "graphs?n=3 · shards: 3" in project("explain", "people").out
    assert "· shards: 3" in project("explain", "find", "--queries").out
    explained = json.loads(project("explain", "people", "--format", "json").out)
    assert explained["store"].endswith("· shards: 3")


def test_explain_says_how_an_engine_divides_the_rows(project: Project) -> None:
    more = {"group_id": "g", "at": "2025-01-13T09:00:00Z", "text": "Cleo knows Ann."}
    project.write("notes.jsonl", "\n".join(map(json.dumps, [*ROWS, more])))
    words = ("explain", "people", "-i", "notes=notes.jsonl", "--engine")
    assert (
        "engine local?shards=2&workers=2 · 2 shards, 2 workers · 3 groups, 1 to 2 a shard · "
        'longest chain: 3 windows of "g"'
    ) in project(*words, "local?shards=2&workers=2").out
    ray = project(*words, "ray?workers=2", "--store", STORE, "--format", "json").out
    assert "3 shards, 2 workers · 3 groups, 1 a shard" in json.loads(ray)["engine"]
    other = project(*words, "ray?shards=2", "--store", STORE)
    assert other.code == 2
    assert "the engine has 2 shards and the store 3 files" in other.err
    whole = project("explain", "find", "--engine", "local")
    assert whole.code == 2
    assert "asks about no row of an input by itself" in whole.err
    project.write("semgraph.toml", 'engine = "local"\n')
    assert "engine local: none, in this process" in project("explain", "find").out


def test_another_count_is_exit_code_5_and_nothing_is_lost(project: Project) -> None:
    filled(project)
    done = project("run", "people", "--store", "shards:sqlite:graphs?n=4")
    assert done.code == 5
    assert "has files of a store of 3 shards" in done.err
    assert "9 Person" in project("doctor").out


def test_a_plan_that_only_reads_needs_shards_that_are_there(project: Project) -> None:
    project.write("queries.jsonl", json.dumps({"query": "Cleo"}))
    done = project("run", "find", "-i", "queries=queries.jsonl", "--store", STORE)
    assert done.code == 5
    assert "there is no graph at graphs (option)" in done.err
    assert not (project.folder / "graphs").exists()


def test_passwords_in_addresses_are_not_shown(project: Project) -> None:
    store = "shards:bolt://ann:verysecret@127.0.0.1:1,bolt://127.0.0.1:2"
    done = project("run", "people", "--store", store)
    assert done.code == 5
    assert "shard 1 of 2, bolt://127.0.0.1:1  no answer" in done.err
    shown = done.out + done.err + project("doctor", "--store", store).out
    assert "verysecret" not in shown
