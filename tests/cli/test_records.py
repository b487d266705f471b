"""`semgraph runs` and `semgraph why`: what a run left behind, and where a row came from."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing

import pytest

from tests.cli.conftest import Project, Serving


def test_runs_are_listed_the_latest_first(project: Project) -> None:
    empty = project("runs", "list")
    assert (empty.code, empty.out) == (0, "")
    assert "no runs are kept here" in empty.err
    project("run", "people")
    project("run", "find", "-i", "queries=Ann")
    lines = project("runs", "list").out.splitlines()
    assert [line.split()[3] for line in lines[1:]] == ["find", "people"]
    found = json.loads(project("runs", "list", "--format", "json").out)
    assert [(run["plan"], run["status"], run["calls"]) for run in found] == [
        ("find", "done", 0),
        ("people", "done", 3),
    ]


def test_a_run_is_shown_with_settings_steps_and_costs(project: Project) -> None:
    project.env["OPENAI_API_KEY"] = "sk-0123456789abcdefSECRET"
    project("run", "people")
    out = project("runs", "show", "last").out
    assert "(environment SEMGRAPH_LLM)" in out
    assert "written: 3 Note, 3 Person, 3 KNOWS" in out
    assert "3 calls · " in out
    assert "sk-0123" not in out
    data = json.loads(project("runs", "show", "last", "--format", "json").out)
    assert data["metrics"]["steps"]["told"]["calls_issued"] == 3


def test_a_run_is_named_by_its_beginning(project: Project) -> None:
    project("run", "people")
    (name,) = [path.name for path in (project.folder / ".semgraph" / "runs").iterdir()]
    assert project("runs", "show", name[:2]).out.startswith(f"run {name} ")
    assert project("runs", "show", "zz").code == 2
    assert name in project("runs", "show", "zz").err


def test_a_removed_run_is_gone_and_what_it_wrote_is_not(project: Project) -> None:
    project("run", "people")
    assert project("runs", "rm", "last").out.endswith("removed\n")
    assert project("runs", "list").out == ""
    assert "in the graph already" in project("run", "people").out


def test_why_goes_back_to_the_call_and_the_source_row(project: Project) -> None:
    project("run", "people")
    links = json.loads(project("why", "last", "ties:says=Bob knows Cleo.", "--format", "json").out)[
        "links"
    ]
    assert [link["step"] for link in links] == ["ties", "told", "notes"]
    (asked,) = links[1]["asked"]
    assert asked["left"] == {"text": "Bob knows Cleo."}
    assert asked["answers"] == {"pairs": [{"a": "Bob", "b": "Cleo"}]}
    (call,) = asked["calls"]
    assert json.loads(call["answer"]) == {"pairs": [{"a": "Bob", "b": "Cleo"}]}
    assert call["messages"][-1]["content"] == "Who knows whom in: Bob knows Cleo."
    assert links[2]["row"]["text"] == "Bob knows Cleo."


def test_why_for_people_is_a_line_for_each_step(project: Project) -> None:
    project("run", "people")
    lines = project("why", "last", "ties:says=Bob knows Cleo.").out.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("←")] == ["told", "notes"]
    asked = next(n for n, line in enumerate(lines) if line.startswith("← told")) + 1
    assert lines[asked].strip() == "asked about {text “Bob knows Cleo.”}"
    assert lines[asked + 1].strip() == "answer  pairs [{a Bob, b Cleo}]"
    assert "openai:test-model" in lines[asked + 2]
    assert "…" not in "".join(lines[: asked - 1])


def test_messages_prints_the_exact_request_and_answer(project: Project) -> None:
    project("run", "people")
    out = project("why", "last", "ties:says=Bob knows Cleo.", "--messages").out
    assert "        ── user\n        Who knows whom in: Bob knows Cleo.\n" in out
    assert '        ── answer\n        {"pairs": [{"a": "Bob", "b": "Cleo"}]}\n' in out


def test_what_is_looked_for_may_be_a_name_or_the_beginning_of_a_key(project: Project) -> None:
    made = json.loads(project("run", "people", "--format", "json").out)
    (key,) = {row["uuid"] for row in made["tables"]["people"] if row["name"] == "Cleo"}
    for what in ("Cleo", "cleo", key, key[:8]):
        found = json.loads(project("why", "last", what, "--format", "json").out)
        assert found["links"][0]["row"]["uuid"] == key
    assert '"KNOWS" is in 2 more rows of that step' in project("why", "last", "KNOWS").out


def test_the_beginning_of_a_text_will_do_where_only_one_text_begins_so(project: Project) -> None:
    project("run", "people")
    for what in ("Bob kn", "bob KNOWS c", "ties:says=Bob k"):
        found = json.loads(project("why", "last", what, "--format", "json").out)
        assert found["links"][0]["row"]["says"] == "Bob knows Cleo."
    assert "name Bob" in project("why", "last", "Bob").out, (
        "a whole text goes before what only begins so"
    )


def test_of_several_texts_that_begin_so_each_is_listed_and_none_is_taken(project: Project) -> None:
    project("run", "people")
    for what, values in (
        ("Ann k", ["Ann knows Bob.", "Ann knows Cleo."]),
        ("ties:says=Ann", ["Ann knows Bob.", "Ann knows Cleo."]),
    ):
        ended = project("why", "last", what)
        first, *listed = ended.err.splitlines()
        assert (ended.code, ended.out) == (2, "")
        assert first.endswith("is the beginning of 2 values. Write more of the one that is meant")
        assert listed == [f'  "{value}"   step ties' for value in values]


def test_what_is_not_there_is_told_with_what_is(project: Project) -> None:
    project("run", "people")
    assert 'holds "Zoe"' in project("why", "last", "Zoe").err
    assert 'Did you mean "Cleo"?' in project("why", "last", "Celo").err
    assert "Steps: notes, told, ends, ties" in project("why", "last", "tide:name=KNOWS").err
    assert 'Did you mean "says"?' in project("why", "last", "ties:say=x").err
    assert project("why", "last", "Zoe").code == 2


def test_without_a_journal_the_chain_is_there_and_the_messages_are_not(project: Project) -> None:
    project.write("semgraph.toml", "[journal]\nkeep_days = 0\n")
    project("run", "people")
    out = project("why", "last", "Cleo").out
    assert "answer  pairs [{a Bob, b Cleo}]" in out
    assert "the journal does not have it" in out


def test_why_has_the_messages_of_a_replayed_run(project: Project) -> None:
    project(
        "run", "add_episode", "--llm", "recorded", "--embedder", "recorded", "--store", "memory"
    )
    out = project("why", "last", "WORKS_AT", "--messages").out
    assert "── system" in out
    assert "TechCorp" in out.split("── answer")[1]


def test_last_is_the_last_run_that_asked_and_what_another_only_found_is_led_back_to_it(
    project: Project,
) -> None:
    project("run", "people")
    project("run", "find", "-i", "queries=Cleo")
    asked = project("why", "last", "KNOWS")
    assert "asked about" in asked.out
    assert asked.err == "the exact requests and answers: --messages\n"
    later, first = (line.split()[0] for line in project("runs", "list").out.splitlines()[1:])
    found = project("why", later, "Cleo")
    assert "no model was called for it" in found.out
    assert f"run {first} wrote it: semgraph why {first} " in found.err
    assert "asked about" in project(*found.err.split("semgraph ")[1].split()).out


def test_answers_of_a_group_are_deleted_from_the_journal(
    project: Project, serving: Serving
) -> None:
    assert project("run", "people").code == 0
    done = project("journal", "forget", "demo")
    assert done.code == 0, done.err
    assert done.out.startswith("3 answers and vectors deleted from ")
    assert project("run", "people", "--reprocess").code == 0
    assert serving.calls == 6


def test_forget_deletes_from_the_journal_of_the_configuration_that_is_named(
    project: Project,
) -> None:
    project.write("other.toml", '[journal]\npath = "elsewhere/answers.db"\n')
    assert project("run", "people", "--config", "other.toml").code == 0
    done = project("journal", "forget", "demo", "--config", "other.toml")
    assert (done.code, done.out.split()[0]) == (0, "3"), done.err
    with closing(sqlite3.connect(project.folder / "elsewhere" / "answers.db")) as file:
        assert file.execute("SELECT count(*) FROM answers").fetchone() == (0,)


def test_old_answers_are_pruned_and_the_run_still_says_what_was_asked(
    project: Project, serving: Serving
) -> None:
    assert project("run", "people").code == 0
    young = project("journal", "prune", "--older", "90d")
    assert young.out.startswith("0 answers and 0 vectors of the journal deleted: "), young.err
    with closing(sqlite3.connect(project.folder / ".semgraph" / "journal.db")) as file:
        file.execute("UPDATE answers SET created = created - 100 * 86400")
        file.commit()
    assert "0 answers" in project("journal", "prune", "--older", "90d", "--group", "other").out
    done = json.loads(project("journal", "prune", "--older", "90d", "--format", "json").out)
    assert (done["answers"], done["vectors"]) == (3, 0)
    assert done["before"] >= done["after"] > 0
    shown = project("why", "last", "Cleo", "--messages")
    assert shown.code == 0
    assert "the journal does not have it (any more)" in shown.out
    assert project("report", "last", "-o", "page.html").code == 0
    assert project("run", "people", "--reprocess").code == 0
    assert serving.calls == 6


def test_a_run_says_how_many_answers_keep_days_deleted(project: Project) -> None:
    assert project("run", "people").code == 0
    with closing(sqlite3.connect(project.folder / ".semgraph" / "journal.db")) as file:
        file.execute("UPDATE answers SET created = created - 100 * 86400")
        file.commit()
    project.write("semgraph.toml", "[journal]\nkeep_days = 90\n")
    done = project("run", "people", "--reprocess")
    assert (
        "3 answers and 0 vectors of the journal deleted, older than keep_days = 90"
        in done.out + done.err
    )


def test_doctor_shows_the_size_of_the_journal(project: Project) -> None:
    assert project("run", "people").code == 0
    assert re.search(r"✓ journal +\d.* in .*journal\.db", " ".join(project("doctor").out.split()))


@pytest.mark.parametrize("age", ["90", "soon", "-1d", "1y"])
def test_an_age_that_is_none_is_refused(project: Project, age: str) -> None:
    refused = project("journal", "prune", "--older", age)
    assert refused.code == 2
    assert "90d, 12h, 30m" in refused.err


@pytest.mark.parametrize("options", [[], ["--format", "json"]])
def test_forget_fails_if_the_journal_holds_nothing_of_the_group(
    project: Project, options: list[str]
) -> None:
    missing = project("journal", "forget", "demo", *options)
    assert (missing.code, "there is no journal at" in missing.err) == (1, True)
    assert project("run", "people").code == 0
    done = project("journal", "forget", "nobody", *options)
    assert done.code == 1
    assert 'holds nothing of "nobody"' in done.err
    assert "--config FILE" in done.err
    assert bool(done.out) == bool(options)
    assert project("journal", "forget", "demo", "nobody", *options).code == 0


def test_why_of_the_last_run_alone_says_what_it_needs(project: Project) -> None:
    assert project("run", "people").code == 0
    refused = project("why", "last")
    assert refused.code == 2
    assert refused.err == 'why needs a row. Write semgraph why last "a key, or a text"\n'


def test_without_a_run_why_finds_the_one_that_wrote_the_fact(project: Project) -> None:
    assert "no row of any recorded run" in project("why", "Cleo").err
    made = json.loads(project("run", "people", "--format", "json").out)
    (key,) = {row["uuid"] for row in made["tables"]["people"] if row["name"] == "Cleo"}
    project("run", "people", "-i", "notes=Dora knows Emil.")
    project("run", "find", "-i", "queries=Cleo")
    for what in ("Cleo", key[:8], "Bob knows Cl"):
        found = project("why", what)
        assert found.err.startswith(f"run {made['run']}: "), found.err
        assert "asked about {text “Bob knows Cleo.”}" in found.out
    assert project("why", "Cleo").out == project("why", made["run"], "Cleo").out
    assert json.loads(project("why", "Emil", "--format", "json").out)["run"] != made["run"]
    assert 'no row of any recorded run holds "Zoe"' in project("why", "Zoe").err
    several = project("why", "Ann k")
    assert several.code == 2
    assert "is the beginning of 2 values" in several.err
