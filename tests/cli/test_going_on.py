"""What a later command takes over from an earlier run, and what it refuses to mix."""

from __future__ import annotations

import json
import stat
from pathlib import Path

from tests.cli.conftest import Project, Serving

NONE = """
plan: none
inputs: {queries: {query: string}}
steps: {hits: [{from: queries}, {filter: "query = 'x'"}]}
returns: [hits]
"""
ASKS = """
plan: asks
graph: graph.yaml
inputs: {queries: {query: string}}
steps:
  told: [{from: queries}, {sem_map: {prompt: "Whom: {query}", returns: {pairs: "list<struct<a: string, b: string>>"}}}]
  hits: [{from: told}, {search: {over: Person, alias: hit, k: 3, methods: [{equal: name, to: query}], partition: all}}]
returns: [hits]
"""


def stopped(project: Project, *options: str) -> str:
    """Run until a budget stops it; the run's id."""
    ended = project("run", "people", "--max-calls", "1", *options)
    assert ended.code == 4, ended.err
    return ended.err.split("--resume ")[1].split()[0]


def test_a_resumed_run_has_the_models_and_the_store_of_the_first_and_says_so(
    project: Project, serving: Serving
) -> None:
    model = project.env.pop("SEMGRAPH_LLM")
    project.env["OPENAI_API_KEY"] = "none"  # a key would have to be sent to the address of a record
    name = stopped(project, "--llm", model, "--store", "sqlite:other.db")
    ended = project("run", "people", "--resume", name, "-v")
    assert ended.code == 0, ended.err
    assert serving.calls == 3
    assert f"model  {model}   (from run {name})" in ended.err
    assert f"(from run {name})" in next(
        line for line in ended.err.splitlines() if line.startswith("store  other.db")
    )
    assert not (project.folder / ".semgraph" / "graph.db").exists()
    assert project("run", "people", "--llm", model, "--store", "sqlite:other.db").out.startswith(
        "3 of 3 notes"
    )


def test_what_a_run_in_memory_wrote_is_not_called_safe(project: Project) -> None:
    """All three are told again; what the first run was answered costs nothing."""
    ended = project("run", "people", "--max-calls", "1", "--store", "memory")
    assert ended.code == 4, ended.err
    lines = ended.err.splitlines()
    (said,) = [line for line in lines if "of 3 notes" in line]
    assert said.endswith(
        "of 3 notes were written to memory, which is gone: the run starts over; the answers are in the journal"
    )
    again = project("run", "people", "--resume", lines[-1].split("--resume ")[1].split()[0])
    assert again.code == 0, again.err
    assert "3 Note" in again.out
    assert "2 calls (+1 from the journal)" in again.out


def test_what_is_given_anew_stands(project: Project) -> None:
    name = stopped(project, "--store", "sqlite:other.db")
    ended = project("run", "people", "--resume", name, "--store", "sqlite:third.db", "-v")
    assert ended.code == 0, ended.err
    assert "third.db (new, SQLite)   (option)" in ended.err


def test_a_run_that_wrote_nothing_writes_nothing_when_it_goes_on(project: Project) -> None:
    name = stopped(project, "--no-write")
    ended = project("run", "people", "--resume", name)
    assert " · write nothing" in ended.err
    assert "written: nothing" in ended.out


def test_a_run_of_another_plan_is_refused_before_anything_else_is_said(project: Project) -> None:
    name = stopped(project, "--set", "least=1")
    for refused in (
        project("run", "find", "--resume", name),
        project("explain", "find", "--run", name),
    ):
        assert refused.code == 2
        assert refused.err.startswith(f"run {name} was a run of people, not of find")
        assert len(refused.err.splitlines()) == 1


def test_rows_of_a_failed_run_are_given_again_with_what_was_chosen(project: Project) -> None:
    project.write("notes.jsonl", '{"text": "nobody", "at": "2025-01-01", "group_id": "g"}\n')
    ended = project("run", "people", "-i", "notes=notes.jsonl", "--store", "sqlite:a b.db")
    assert ended.code == 3
    assert "these rows only: semgraph run people --store 'sqlite:a b.db' -i notes=" in ended.err


def test_the_next_plan_is_named_with_the_store_that_has_the_graph(project: Project) -> None:
    assert (
        "Next: semgraph run find --store sqlite:mine.db"
        in project("run", "people", "--store", "sqlite:mine.db").err
    )
    for options in (
        ["--store", "memory"],
        ["--no-write", "--reprocess"],
        ["--until", "told", "--reprocess"],
    ):
        assert "Next: semgraph run" not in project("run", "people", *options).err


def test_a_plan_that_only_reads_does_not_make_the_store_that_it_misses(project: Project) -> None:
    ended = project("run", "find", "-i", "queries=Cleo", "--store", "sqlite:deep/nothere.db")
    assert ended.code == 5
    assert "there is no graph at deep/nothere.db (option)" in ended.err
    assert not (project.folder / "deep").exists()


def test_a_search_without_hits_says_so(project: Project) -> None:
    project("run", "people")
    ended = project("run", "find", "-i", "queries=Nemo")
    assert ended.code == 0
    assert "! no rows" in ended.err


def test_nothing_is_called_not_found_where_no_store_is_read_or_a_row_failed(
    project: Project,
) -> None:
    project.write("notes.jsonl", '{"text": "nobody", "at": "2025-01-01", "group_id": "g"}\n')
    project.write("plans/none.yaml", NONE)
    ended = project("run", "none", "-i", "queries=Nemo")
    assert (ended.code, "nothing was found" in ended.err) == (0, False)
    project("run", "people")
    project.write("plans/asks.yaml", ASKS)
    failed = project("run", "asks", "-i", "queries=nobody")
    assert (failed.code, "nothing was found" in failed.err) == (3, False)


def test_the_first_lines_say_that_only_some_rows_are_taken_and_the_last_which_were_known(
    project: Project,
) -> None:
    ended = project("run", "people", "--rows", "1")
    assert (
        'people · the plan\'s example: 3 rows of notes of group "demo"; only the first 1 (--rows)'
        in ended.err
    )
    later = project("run", "people")
    assert "1 of 3 notes are in the graph already (--reprocess includes them)" in later.out


def test_until_prints_the_rows_of_the_step_and_no_picture(project: Project) -> None:
    ended = project("run", "people", "--until", "ties")
    assert ended.out.startswith("ties: 3 rows")
    assert "▶" not in ended.out
    assert "written" not in ended.out


def test_a_record_is_for_its_owner_and_has_no_letter_of_a_key(project: Project) -> None:
    project.env["OPENAI_API_KEY"] = "sk-0123456789abcdefghij"
    project("run", "people")
    (folder,) = (project.folder / ".semgraph" / "runs").iterdir()
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {mode(path) for path in files} == {0o600}
    assert mode(folder) == 0o700
    assert (
        json.loads((folder / "run.json").read_text())["settings"]["OPENAI_API_KEY"]["value"]
        == "set"
    )
    assert not any(b"ghij" in path.read_bytes() for path in files)


def mode(path: Path) -> int:
    """The permissions of a file or folder."""
    return stat.S_IMODE(path.stat().st_mode)


def test_a_plan_is_not_begun_where_the_one_before_it_was_stopped(
    project: Project, serving: Serving
) -> None:
    """The example of `find` comes after that of `people`, which one call does not do."""
    ended = project("run", "find", "--max-calls", "1")
    (name,) = (run.name for run in (project.folder / ".semgraph" / "runs").iterdir())
    assert (ended.code, ended.out, serving.calls) == (4, "", 1)
    assert "people, on which the example of find depends, stopped before call 2" in ended.err
    assert "find was not begun" in ended.err
    assert f"Resume: semgraph run people --resume {name}, then semgraph run find" in ended.err
    assert project("run", "people", "--resume", name).code == 0


def test_an_invalid_answer_is_asked_for_anew_when_the_server_is_mended(
    project: Project, serving: Serving
) -> None:
    async def prose(_body: dict[str, object]) -> str:
        return "Let me think about that."

    mended, serving.server.answer = serving.server.answer, prose
    broken = project("run", "people")
    assert (broken.code, serving.calls) == (3, 6)  # each note, and once more
    serving.server.answer = mended
    ended = project("run", "people")
    assert (ended.code, serving.calls) == (0, 9)
    assert "Ann ─ KNOWS ─▶ Bob" in ended.out
    assert "journal" not in ended.out
