"""`semgraph refresh` and `semgraph diff`, as a user meets them, and `semgraph run --reprocess`."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from semgraph.execution.record import Run, all_runs
from tests.cli.conftest import Ended, Project, Serving
from tests.patience import HANGS

NOTES = ("Ann knows Bob.", "Bob knows Cleo.", "Cleo knows Dan.")
GIVEN = ("-i", "notes=notes.jsonl")


def noted(project: Project, *texts: str) -> None:
    """Write notes n1, n2, … of the group g."""
    rows = [
        {"uuid": f"n{i}", "group_id": "g", "at": f"2025-02-0{i}", "text": text}
        for i, text in enumerate(texts, 1)
    ]
    project.write("notes.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


def ran(project: Project) -> None:
    noted(project, *NOTES)
    assert project("run", "people", *GIVEN).code == 0


def edited(project: Project) -> None:
    """The graph has `NOTES`; the file has another second note."""
    ran(project)
    noted(project, NOTES[0], "Bob knows Eve.", NOTES[2])


def facts(project: Project) -> list[str]:
    """What the graph says."""
    assert project("export", "g", "-o", "g.json").code == 0
    links = json.loads((project.folder / "g.json").read_text())
    return sorted(link["says"] for link in links.get("links") or links["edges"])


def records(project: Project) -> list[Run]:
    """The records, the latest first."""
    return all_runs(project.folder / ".semgraph" / "runs")


def last(project: Project) -> dict[str, Any]:
    return records(project)[0].facts


def test_without_a_terminal_a_refresh_shows_the_difference_and_writes_nothing(
    project: Project, serving: Serving
) -> None:
    edited(project)
    done = project("refresh", "people", *GIVEN)
    assert done.code == 6
    assert "row n2 edited" in done.out
    assert "- ─ KNOWS ─▶ Cleo" in done.out
    assert "+ ─ KNOWS ─▶ Eve" in done.out
    assert "1 call (+2 from the journal)" in done.out.splitlines()[-1]
    assert done.err.splitlines()[-1] == "nothing was written: add --yes"
    assert facts(project) == sorted(NOTES)
    assert serving.calls == 4


def test_yes_applies_it_and_a_second_refresh_asks_nobody(
    project: Project, serving: Serving
) -> None:
    edited(project)
    done = project("refresh", "people", *GIVEN, "--yes")
    assert done.code == 0, done.err
    assert done.out.splitlines()[-1].startswith("written: ")
    assert facts(project) == ["Ann knows Bob.", "Bob knows Eve.", "Cleo knows Dan."]
    again = project("refresh", "people", *GIVEN, "--yes")
    assert (again.code, serving.calls) == (0, 4)
    assert again.out.startswith("no difference: the graph follows from its inputs\n")
    assert "written" not in again.out
    assert project("run", "people", *GIVEN).err.count("with other content") == 0


def test_a_change_that_changes_no_row_of_the_graph_is_noted_without_asking(
    project: Project,
) -> None:
    ran(project)
    done = project("refresh", "people", *GIVEN, "--set", "least=-1")
    assert done.code == 0
    assert "parameter least changed" in done.out
    assert done.out.splitlines()[-1] == "written: nothing (the rows are marked as up to date)"
    assert "changed" not in project("refresh", "people", *GIVEN, "--set", "least=-1").out


def test_a_diff_never_applies_and_says_how_to(project: Project) -> None:
    edited(project)
    store = ("--store", "sqlite:.semgraph/graph.db")
    done = project("diff", "people", *GIVEN, *store)
    assert done.code == 6
    assert "write nothing" in done.err
    command = done.err.splitlines()[-1].split("To apply it: semgraph ")[1]
    assert command == "refresh people -i notes=notes.jsonl --store sqlite:.semgraph/graph.db"
    assert project(*command.split(), "--yes").code == 0
    assert project("diff", "people", *GIVEN).code == 0
    assert project("diff", "people", *GIVEN, "--yes").code == 2


def test_json_is_one_object_with_the_difference_the_rows_and_the_costs(project: Project) -> None:
    edited(project)
    done = project("refresh", "people", *GIVEN, "--format", "json")
    found = json.loads(done.out)
    assert (done.code, found["applied"], found["written"]) == (6, False, {})
    assert found["rows"]["edited"] == [["g", "n2"]]
    assert found["diff"]["counts"] == {"new": 2, "gone": 1, "changed": 1, "nodes": 2, "edges": 2}
    assert found["metrics"]["total"]["calls_issued"] == 1
    applied = json.loads(project("refresh", "people", *GIVEN, "--format", "json", "--yes").out)
    assert (applied["applied"], applied["written"]["Person"]) == (True, 1)
    assert applied["diff"]["counts"] == found["diff"]["counts"]


def test_what_the_inputs_lack_stays_unless_they_are_complete(project: Project) -> None:
    ran(project)
    noted(project, *NOTES[:1])
    assert project("refresh", "people", *GIVEN, "--yes").out.startswith("no difference")
    shown = project("diff", "people", *GIVEN, "--complete", "--retract", "2", "--no-cache")
    assert shown.err.endswith(
        "semgraph refresh people -i notes=notes.jsonl --complete --retract 2\n"
    )
    refused = project("refresh", "people", *GIVEN, "--complete", "--yes")
    assert refused.code == 2
    assert "add --retract 2" in refused.err
    assert project("refresh", "people", *GIVEN, "--complete", "--retract", "2", "--yes").code == 0
    assert facts(project) == ["Ann knows Bob."]


def test_edits_by_others_stay_unless_they_are_discarded(project: Project) -> None:
    ran(project)
    with sqlite3.connect(project.folder / ".semgraph/graph.db") as store:
        store.execute("UPDATE KNOWS SET says = 'by hand' WHERE says = 'Bob knows Cleo.'")
    kept = project("refresh", "people", *GIVEN, "--yes")
    assert "kept as edited:" in kept.out
    assert "by hand" in facts(project)
    assert project("refresh", "people", *GIVEN, "--discard-edits", "--yes").code == 0
    assert facts(project) == sorted(NOTES)


def test_no_cache_asks_anew_about_the_given_rows(project: Project, serving: Serving) -> None:
    ran(project)
    assert project("diff", "people", *GIVEN).code == 0
    assert serving.calls == 3
    assert project("diff", "people", *GIVEN, "--no-cache").code == 0
    assert serving.calls == 6


def test_at_a_limit_nothing_is_applied_and_a_higher_one_goes_on(
    project: Project, serving: Serving
) -> None:
    ran(project)
    noted(project, "Ann knows Eve.", "Bob knows Eve.", "Cleo knows Eve.")
    project.write("semgraph.toml", "[limits]\nin_flight = 1\n")
    stopped = project("refresh", "people", *GIVEN, "--yes", "--max-calls", "1")
    assert stopped.code == 4
    assert "The graph stays as it was. Repeat it with a higher limit" in stopped.err
    assert "--resume" not in stopped.err
    assert facts(project) == sorted(NOTES)
    assert project("refresh", "people", *GIVEN, "--yes", "--max-calls", "2").code == 0
    assert serving.calls == 6
    assert len(facts(project)) == 3


def test_a_row_of_the_graph_that_fails_keeps_it_as_it_was(project: Project) -> None:
    ran(project)
    noted(project, NOTES[0], "Bob knows nobody.", NOTES[2])
    done = project("refresh", "people", *GIVEN, "--yes")
    assert done.code == 1
    assert "nothing was written: 1 row of the graph failed, first n2: " in done.err
    assert "these rows only: semgraph refresh people" in done.err
    assert facts(project) == sorted(NOTES)
    assert project("diff", "people", *GIVEN).code == 3


def test_a_dry_run_sends_nothing_and_says_what_would_be_sent(
    project: Project, serving: Serving
) -> None:
    ran(project)
    known = project("refresh", "people", *GIVEN, "--dry-run")
    assert (known.code, known.out.splitlines()[0]) == (
        0,
        "nothing would be asked: the journal has every answer",
    )
    noted(project, NOTES[0], "Bob knows Eve.", NOTES[2])
    done = project("refresh", "people", *GIVEN, "--dry-run", "--yes")
    assert done.code == 0, done.err
    assert done.out.splitlines()[:2] == [
        "row n2 edited",
        "sure to be new: 1 request; with those that follow up to about 2, for 2 input rows",
    ]
    assert (serving.calls, facts(project)) == (3, sorted(NOTES))
    assert "failed" not in done.err
    found = json.loads(project("diff", "people", *GIVEN, "--dry-run", "--format", "json").out)
    assert found["foreseen"]["requests"] == 1


def test_a_difference_from_nothing_makes_no_store(project: Project) -> None:
    noted(project, *NOTES)
    done = project("diff", "people", *GIVEN)
    assert done.code == 6
    assert "10 new: 7 nodes, 3 edges" in done.out
    assert not (project.folder / ".semgraph/graph.db").exists()


def test_a_number_of_rows_to_retract_needs_complete_inputs(project: Project) -> None:
    ran(project)
    refused = project("refresh", "people", *GIVEN, "--retract", "2")
    assert refused.code == 2
    assert "--retract 2 retracts nothing. Add --complete" in refused.err


def test_a_plan_without_markers_and_an_engine_are_refused(project: Project) -> None:
    refused = project("refresh", "find", "-i", "queries=Cleo")
    assert refused.code == 2
    assert "plan find has no windows" in refused.err
    ran(project)
    engine = project("run", "people", *GIVEN, "--reprocess", "--engine", "ray")
    assert (engine.code, "leave the engine out" in engine.err.lower()) == (2, True)


def test_run_names_the_refresh_as_it_was_typed(project: Project) -> None:
    edited(project)
    done = project("run", "plans/people.yaml", *GIVEN, "--store", "sqlite:.semgraph/graph.db")
    note = next(line for line in done.err.splitlines() if "other content" in line)
    command = note.split("semgraph ")[1]
    assert note.startswith("! 1 row is in the graph with other content: ")
    assert command == (
        "refresh plans/people.yaml -i notes=notes.jsonl --store sqlite:.semgraph/graph.db"
    )
    assert project(*command.split(), "--yes").code == 0
    assert "Bob knows Eve." in facts(project)


# On a terminal


def on_terminal(
    project: Project, answer: str, *args: str, meanwhile: Callable[[], object] = lambda: None
) -> Ended:
    """Run a command in a terminal and answer its question, after something else has happened."""
    leader, follower = pty.openpty()
    command = [sys.executable, "-c", "from semgraph.cli import main; main()", *args]
    process = subprocess.Popen(
        command, cwd=project.folder, env=project.env, stdin=follower, stdout=follower,
        stderr=follower, close_fds=True,
    )  # fmt: skip
    os.close(follower)
    shown = ""
    while "[y/N]" not in shown:
        shown += os.read(leader, 4096).decode()
    meanwhile()
    os.write(leader, answer.encode())
    code = process.wait(HANGS)
    shown += os.read(leader, 1 << 16).decode()
    os.close(leader)
    return Ended(code, shown, "")


def test_a_terminal_is_asked(project: Project) -> None:
    edited(project)
    declined = on_terminal(project, "n\n", "refresh", "people", *GIVEN)
    assert "Apply these 4 changes? [y/N]" in declined.out
    assert declined.code == 6
    assert declined.out.rstrip().endswith("nothing was written")
    assert facts(project) == sorted(NOTES)
    assert on_terminal(project, "y\n", "refresh", "people", *GIVEN).code == 0
    assert "Bob knows Eve." in facts(project)


def test_a_run_that_was_faster_stops_the_refresh(project: Project) -> None:
    edited(project)
    project.write("more.jsonl", '{"text": "Gus knows Ann.", "at": "2025-03-01", "group_id": "g"}\n')
    late = on_terminal(
        project, "y\n", "refresh", "people", *GIVEN,
        meanwhile=lambda: project("run", "people", "-i", "notes=more.jsonl"),
    )  # fmt: skip
    assert late.code == 1
    assert 'group "g" was written by another run since this one began' in late.out
    assert facts(project) == sorted((*NOTES, "Gus knows Ann."))


def test_a_signal_leaves_the_graph_as_it_was(project: Project, serving: Serving) -> None:
    ran(project)
    noted(project, *NOTES[:2], "Cleo knows Eve. It was slow.")
    process = project.start("refresh", "people", *GIVEN, "--yes")
    serving.until(lambda server: len(server.requests) == 4)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=HANGS)
    assert process.returncode == 130
    assert "the graph stays as it was: the same command goes on from the journal" in err
    assert (last(project)["kind"], last(project)["status"]) == ("diff", "interrupted")
    assert facts(project) == sorted(NOTES)


# Records


def test_a_record_says_what_was_compared_and_what_was_applied(project: Project) -> None:
    edited(project)
    project("diff", "people", *GIVEN, "--store", "sqlite:.semgraph/graph.db")
    compared = last(project)
    assert (compared["kind"], compared["written"]) == ("diff", {})
    assert compared["settings"]["store"]["value"].endswith("/work/.semgraph/graph.db")
    project("refresh", "people", *GIVEN, "--yes")
    applied = last(project)
    assert (applied["kind"], applied["status"]) == ("refresh", "done")
    assert applied["written"]["Person"] == 1
    assert applied["applied"] > applied["ended"] > applied["started"]
    listed = project("runs", "list").out.splitlines()
    assert [re.split(r" {2,}", line.strip())[3] for line in listed[1:]] == [
        "refresh",
        "diff",
        "run",
    ]
    shown = project("runs", "show", "last").out
    assert "+ ─ KNOWS ─▶ Eve" in shown
    assert project("report", "last", "-o", "page.html").code == 0
    page = (project.folder / "page.html").read_text()
    assert "What changed" in page
    assert f"people · refresh {applied['run']}" in page


def test_the_difference_names_commands_that_explain_both_sides(project: Project) -> None:
    edited(project)
    out = project("diff", "people", *GIVEN).out
    new, gone = re.findall(r"semgraph (why \w+ \S+)   \((?:new|gone)", out)
    assert "Bob knows Eve." in project(*new.split()).out
    why = project(*gone.split())
    assert "Bob knows Cleo." in why.out
    assert "nothing of it was written" not in why.err
    assert "nothing of it was written" in project(*new.split()).err


def test_a_refresh_is_not_resumed(project: Project) -> None:
    edited(project)
    project("refresh", "people", *GIVEN, "--yes")
    refused = project("run", "people", "--resume", "last")
    assert refused.code == 2
    assert "is a refresh, which writes all at its end: it is not resumed" in refused.err


# Reprocessing


def test_reprocessing_replaces_what_the_rows_said(project: Project, serving: Serving) -> None:
    edited(project)
    done = project("run", "people", *GIVEN, "--reprocess")
    assert done.code == 0, done.err
    assert serving.calls == 6
    assert "these rows were processed again: 2 new, 1 gone, 1 changed: 2 nodes, 2 edges" in done.err
    assert facts(project) == ["Ann knows Bob.", "Bob knows Eve.", "Cleo knows Dan."]
    assert last(project)["kind"] == "refresh"


def test_reprocessing_some_rows_counts_these_and_keeps_the_others(
    project: Project, serving: Serving
) -> None:
    ran(project)
    done = project("run", "people", *GIVEN, "--rows", "1", "--reprocess", "--format", "json")
    found = json.loads(done.out)
    assert found["members"] == {"given": 1, "skipped": 0, "committed": 1}
    assert found["written"] == {}
    assert (serving.calls, facts(project)) == (4, sorted(NOTES))


@pytest.mark.parametrize("option", [("--no-write",), ("--until", "told")])
def test_reprocessing_without_writing_leaves_the_graph(
    project: Project, option: tuple[str, ...]
) -> None:
    edited(project)
    done = project("run", "people", *GIVEN, "--reprocess", *option)
    assert done.code == 0
    assert "Eve" in done.out
    assert facts(project) == sorted(NOTES)


def test_reprocessing_at_a_limit_is_repeated_not_resumed(project: Project) -> None:
    ran(project)
    project.write("semgraph.toml", "[limits]\nin_flight = 1\n")
    stopped = project("run", "people", *GIVEN, "--reprocess", "--max-calls", "1")
    assert stopped.code == 4
    assert "The graph stays as it was. Repeat it with a higher limit" in stopped.err
    assert "--resume" not in stopped.err
    refused = project("run", "people", "--resume", "last")
    assert (refused.code, "it is not resumed" in refused.err) == (2, True)
