"""`semgraph run`, as a user meets it: a process, a model server, files."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from datetime import UTC, datetime

import pytest

from semgraph.expr import duckdb as binder
from tests.cli.conftest import Project, Serving
from tests.llm.server import Fault, error
from tests.patience import HANGS

PICTURE = """\
group "demo", this run: 3 Person, 3 KNOWS  holds         from
  Ann ─ KNOWS ─▶ Bob                       2025-01-15 →  1
      "Ann knows Bob."
      ─ KNOWS ─▶ Cleo                      2025-01-17 →  3
      "Ann knows Cleo."
  Bob ─ KNOWS ─▶ Cleo                      2025-01-16 →  2
      "Bob knows Cleo."
  not drawn: 3 Note
"""


def test_the_example_runs_and_is_drawn(project: Project, serving: Serving) -> None:
    done = project.process("run", "plans/people.yaml")
    assert done.code == 0
    assert done.out.startswith(PICTURE)
    assert "written: 3 Note, 3 Person, 3 KNOWS       0 rows failed" in done.out
    assert "3 calls · " in done.out
    assert serving.calls == 3


def test_two_lines_say_what_runs_and_with_what(project: Project) -> None:
    err = project("run", "people", "--store", "memory").err.splitlines()
    assert err[0] == 'people · the plan\'s example: 3 rows of notes of group "demo"'
    assert err[1].startswith("openai:test-model@http://127.0.0.1:")
    assert err[1].endswith(" · store memory: gone when this ends")
    assert err[2] == ""


def test_more_lines_say_why_it_was_chosen(project: Project) -> None:
    err = project("run", "plans/people.yaml", "--store", "memory", "-v").err.splitlines()
    assert err[0] == "plan   people (plans/people.yaml)"
    assert err[1] == 'input  the plan\'s example: 3 rows of notes of group "demo"'
    assert err[2].startswith("model  openai:test-model@http://127.0.0.1:")
    assert err[2].endswith("(environment SEMGRAPH_LLM)")
    assert err[3] == "store  memory: gone when this ends   (option)"


def test_results_are_on_stdout_and_talk_on_stderr(project: Project) -> None:
    quiet = project("run", "people", "-q")
    assert quiet.code == 0
    assert quiet.err == ""
    assert quiet.out.startswith(PICTURE)


def test_a_second_run_has_nothing_to_do(project: Project, serving: Serving) -> None:
    project("run", "people")
    again = project("run", "people")
    assert again.code == 0
    assert again.out.startswith("3 of 3 notes are in the graph already: 0 calls, nothing to write")
    assert serving.calls == 3


def test_json_is_one_object_and_nothing_else(project: Project) -> None:
    done = project("run", "people", "--format", "json")
    found = json.loads(done.out)
    assert found["schema"] == 1
    assert [row["name"] for row in found["tables"]["people"]] == [
        "Ann",
        "Bob",
        "Bob",
        "Cleo",
        "Ann",
        "Cleo",
    ]
    assert found["metrics"]["total"]["calls_issued"] == 3
    assert found["members"] == {"given": 3, "skipped": 0, "committed": 3}


def test_options_may_stand_before_the_command(project: Project) -> None:
    done = project(
        "--store", "memory", "--format", "json", "run", "people", "--store", "sqlite:mine.db"
    )
    assert json.loads(done.out)["written"]["Person"] == 3
    assert (project.folder / "mine.db").exists()


def test_rows_come_from_a_file_with_renames(project: Project, serving: Serving) -> None:
    project.write(
        "chat.csv",
        "when,said,group_id\n2025-02-01,Dan knows Eve.,mine\n2025-02-02,Eve knows Fay.,mine\n",
    )
    done = project("run", "people", "-i", "notes=chat.csv:at=when,text=said", "--rows", "1")
    assert done.code == 0
    assert 'group "mine", this run: 2 Person, 1 KNOWS' in done.out
    assert serving.calls == 1


def test_rows_that_do_not_fit_cost_nothing(project: Project, serving: Serving) -> None:
    project.write("chat.csv", "id,ts,text\n1,2025-02-01,hello\n")
    done = project("run", "people", "-i", "notes=chat.csv")
    assert done.code == 2
    assert done.out == ""
    assert 'chat.csv: input notes needs column "at" (timestamp); found: id, ts, text' in done.err
    assert serving.calls == 0
    assert not (project.folder / ".semgraph").exists()


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["run", "peple"], 'Did you mean "people"?'),
        (["run", "people", "--set", "leest=1"], 'Did you mean "least"?'),
        (["run", "people", "--set", "least"], "Write --set NAME=VALUE"),
        (["run", "people", "--use", "tolt=packed"], 'Did you mean "told"?'),
        (["run", "people", "--use", "told=pakced"], 'Did you mean "packed"?'),
        (["run", "people", "--store", "postgres"], 'unknown store "postgres"'),
        (["run", "people", "--llm", "opnai:x"], 'Did you mean "openai"?'),
        (["run", "people", "--config", "gone.toml"], "there is no such file"),
        (["run", "people", "--until", "tolld"], 'Did you mean "told"?'),
        (["run", "people", "--resume", "7f3a"], 'there is no run "7f3a"'),
        (["run", "people", "--rows", "none"], "--rows"),
    ],
)  # fmt: skip
def test_a_mistake_in_an_option_is_exit_code_2_and_says_what_was_meant(
    project: Project, serving: Serving, args: list[str], told: str
) -> None:
    done = project(*args)
    assert done.code == 2
    assert told in done.err
    assert "Traceback" not in done.err
    assert serving.calls == 0


def test_all_mistakes_in_a_plan_are_told_with_their_lines(project: Project) -> None:
    text = (project.folder / "plans" / "people.yaml").read_text()
    project.write(
        "plans/bad.yaml",
        text.replace("nth > $least", "nht > $least").replace("unite: [notes]", "unite: [nots]"),
    )
    done = project("run", "plans/bad.yaml")
    assert done.code == 2
    assert "plans/bad.yaml:14:" in done.err
    assert 'Did you mean "nth"?' in done.err


def test_no_write_draws_and_writes_nothing(project: Project) -> None:
    done = project("run", "people", "--no-write")
    assert done.code == 0
    assert "Ann ─ KNOWS ─▶ Bob" in done.out
    assert "written: nothing" in done.out
    assert project("run", "people").out.startswith(PICTURE)


def test_until_shows_the_rows_of_a_step(project: Project, serving: Serving) -> None:
    done = project("run", "people", "--until", "told", "--rows", "2")
    assert done.code == 0
    assert done.out.startswith("told: 2 rows")
    assert serving.calls == 2


def test_a_budget_stops_the_run_which_can_be_resumed(project: Project, serving: Serving) -> None:
    project.write("semgraph.toml", "[limits]\nin_flight = 1\n")
    stopped = project("run", "people", "--max-calls", "2")
    assert stopped.code == 4
    assert "max_calls" in stopped.err
    name = stopped.err.split("--resume ")[1].split()[0]
    ended = project("run", "people", "--resume", name)
    assert ended.code == 0
    assert f"people · that of run {name}" in ended.err
    assert serving.calls == 3


def test_a_failed_row_is_set_aside_and_can_be_given_again(
    project: Project, serving: Serving
) -> None:
    project.write(
        "chat.jsonl",
        '{"at": "2025-02-01", "text": "Dan knows Eve.", "group_id": "a"}\n'
        '{"at": "2025-02-02", "text": "Eve knows nobody.", "group_id": "a"}\n',
    )
    done = project("run", "people", "-i", "notes=chat.jsonl")
    assert done.code == 3
    assert "Dan ─ KNOWS ─▶ Eve" in done.out
    assert "1 row failed (exit 3)" in done.err
    again = done.err.split("these rows only: semgraph ")[1].splitlines()[0].split()
    assert project(*again).code == 3
    assert serving.calls == 3


def test_a_server_that_is_not_there_is_exit_code_5(project: Project) -> None:
    project.env["SEMGRAPH_LLM"] = "openai:test-model@http://127.0.0.1:9/v1"
    done = project("run", "people")
    assert done.code == 5
    assert done.out == ""
    assert "127.0.0.1:9" in done.err
    assert "Traceback" not in done.err
    assert "Resume: semgraph run people --resume " in done.err


@pytest.mark.parametrize(
    "number",
    [pytest.param(signal.SIGINT, marks=pytest.mark.nightly), signal.SIGTERM, signal.SIGHUP],
)
def test_a_signal_ends_the_run_cleanly_and_it_can_be_resumed(
    project: Project, serving: Serving, number: signal.Signals
) -> None:
    project.write("semgraph.toml", "[limits]\nin_flight = 1\n")
    project.write(
        "chat.jsonl",
        '{"at": "2025-02-01", "text": "Dan knows Eve.", "group_id": "a"}\n'
        '{"at": "2025-02-02", "text": "Eve knows Fay. It was slow.", "group_id": "a"}\n',
    )
    process = project.start("run", "people", "-i", "notes=chat.jsonl")
    serving.until(lambda server: len(server.requests) == 2)
    process.send_signal(number)
    _, err = process.communicate(timeout=HANGS)
    assert process.returncode == 130
    assert "Traceback" not in err
    name = err.split("Resume: semgraph run people --resume ")[1].split()[0]
    record = json.loads((project.folder / ".semgraph" / "runs" / name / "run.json").read_text())
    assert record["status"] == "interrupted"

    async def quick(body: dict[str, object]) -> str:
        return json.dumps({"pairs": [{"a": "Eve", "b": "Fay"}]})

    serving.server.answer = quick
    ended = project("run", "people", "--resume", name)
    assert ended.code == 0
    assert "Eve ─ KNOWS ─▶ Fay" in ended.out  # the first row was committed, or its answer was kept
    assert serving.calls == 3


def test_a_second_signal_ends_at_once(project: Project, serving: Serving) -> None:
    project.write("chat.jsonl", '{"at": "2025-02-01", "text": "slow", "group_id": "a"}\n')
    process = project.start("run", "people", "-i", "notes=chat.jsonl")
    serving.until(lambda server: len(server.requests) == 1)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=HANGS)
    assert process.returncode == 130


def test_a_run_ends_though_a_function_of_python_does_not(project: Project) -> None:
    begun = project.folder / "begun"
    os.mkfifo(begun)
    project.write(
        "own/endless.py",
        "from pathlib import Path\nimport threading\ndef endless(text: str) -> str:\n"
        f"    Path({str(begun)!r}).write_text(text)\n"
        "    threading.Event().wait()\n    return text\n",
    )
    project.write(
        "endless.yaml",
        "plan: endless\ninputs: {notes: {text: string}}\n"
        "steps: {made: [{from: notes}, {add: {a: endless(text)}}]}\nreturns: [made]\n",
    )
    project.write("notes.jsonl", '{"text": "x"}\n')
    process = project.start("run", "endless.yaml", "-i", "notes=notes.jsonl", "--functions", "own")
    assert begun.read_text() == "x"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=HANGS)
    assert process.returncode == 130
    assert "Resume: semgraph run endless.yaml --functions own --resume " in err


def test_nothing_is_lost_when_the_process_is_killed(project: Project, serving: Serving) -> None:
    project.write("semgraph.toml", "[limits]\nin_flight = 1\n")
    project.write("people.jsonl", "".join(
        f'{{"at": "2025-02-{day:02}", "text": "{text}", "group_id": "a"}}\n'
        for day, text in enumerate(["Dan knows Eve.", "Eve knows Fay.", "It was slow."], 1)
    ))  # fmt: skip
    process = project.start("run", "people", "-i", "notes=people.jsonl")
    serving.until(lambda server: len(server.requests) == 3)
    process.kill()
    process.communicate(timeout=HANGS)
    store = sqlite3.connect(project.folder / ".semgraph" / "graph.db")
    tables = [
        name for (name,) in store.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    ]
    store.close()
    assert any("Note" in name for name in tables)
    project.write(
        "people.jsonl",
        (project.folder / "people.jsonl").read_text().replace("It was slow.", "Fay knows Gus."),
    )
    ended = project("run", "people", "-i", "notes=people.jsonl")
    assert ended.code == 0
    assert serving.calls == 4


def test_a_search_prints_its_rows_after_the_plan_it_builds_on(project: Project) -> None:
    done = project("run", "find")
    assert done.code == 0
    assert done.out.splitlines()[0] == "hits: 1 row"
    assert "Cleo" in done.out.splitlines()[2]


def test_what_the_plans_before_an_example_write_is_told_with_their_names(project: Project) -> None:
    store = ("--store", "sqlite:named.db")
    said = "first, for the example: people, wrote 3 Note, 3 Person, 3 KNOWS"
    assert said in project("run", "find", *store).err.splitlines()
    again = project("run", "find", *store, "--format", "json")
    assert "first, for the example: people, wrote nothing" in again.err.splitlines()
    (first,) = json.loads(again.out)["first"]
    assert (first["plan"], first["written"]) == ("people", {})
    assert "first" not in project("run", "find", *store, "-i", "queries=Bob").err


def test_a_run_that_returns_no_graph_prints_what_it_returns(project: Project) -> None:
    plan = (project.folder / "plans/people.yaml").read_text()
    project.write(
        "plans/told.yaml", plan.replace("returns: {people: ends, ties: ties}", "returns: [told]")
    )
    assert project("run", "plans/told.yaml").out.splitlines()[0].startswith("told: 3 rows")


def test_the_next_step_is_named(project: Project) -> None:
    err = project("run", "plans/people.yaml").err
    assert "Next: semgraph run plans/find.yaml   (People by name)" in err
    assert "semgraph why " in err


def test_the_next_step_after_rows_of_ones_own_needs_such_rows(project: Project) -> None:
    row = {"text": "Ann knows Bob.", "at": "2025-01-01T09:00:00Z"}
    project.write("mine.jsonl", json.dumps(row) + "\n")
    err = project("run", "people", "-i", "notes=mine.jsonl").err
    assert "Next: semgraph run find -i queries=Ann   (People by name)" in err
    assert "Ann" in project("run", "find", "-i", "queries=Ann").out


def test_few_next_steps_are_named_and_none_that_writes_or_deletes(project: Project) -> None:
    find = (project.folder / "plans/find.yaml").read_text()
    for name in ("search", "a", "b", "c"):
        doc = "Look, by name, for 1.5 of\n  them: and so on."
        project.write(
            f"plans/{name}.yaml",
            find.replace("plan: find", f"plan: {name}").replace("People by name.", f"|\n  {doc}"),
        )
    project.write(
        "plans/aaa.yaml",
        find.replace("plan: find", "plan: aaa")
        + "writes: [{delete: {from: hits, node: Person}}]\n",
    )
    said = [line for line in project("run", "people").err.splitlines() if line.startswith("Next:")]
    assert said[0] == "Next: semgraph run search   (Look, by name, for 1.5 of them)"
    assert [line.split()[2] for line in said] == ["run", "why", "report"]


def test_a_broken_plan_beside_it_does_not_matter(project: Project) -> None:
    project.write("plans/broken.yaml", "plan: [")
    assert project("run", "plans/people.yaml").code == 0


def test_a_text_is_one_row(project: Project) -> None:
    project("run", "people")
    done = project("run", "find", "-i", "queries=Bob")
    assert "Bob" in done.out.splitlines()[2]
    piped = project("run", "find", "-i", "queries=-", text="Ann\n")
    assert "Ann" in piped.out.splitlines()[2]


def test_all_groups_are_meant_by_a_word(project: Project) -> None:
    project.write(
        "plans/groups.yaml",
        "plan: groups\ngraph: graph.yaml\ninputs: {groups: {group_id: string}}\n"
        "optional: {groups: all}\nreturns: [groups]\n",
    )
    assert project("run", "people").code == 0
    done = project("run", "groups", "-i", "groups=all")
    assert done.err.splitlines()[0] == "groups · the store: all groups"
    assert done.out.splitlines()[0] == "groups: 1 row"
    assert "scan Person, of all partitions" in project("explain", "groups", "-i", "groups=all").out
    assert "-i groups=all" in project("run", "groups").err


def test_a_text_without_a_time_is_of_the_time_of_reading_it(project: Project) -> None:
    today = f"{datetime.now(UTC):%Y-%m-}"
    done = project("run", "people", "-i", "notes=-", text="Ann knows Bob.")
    assert done.code == 0, done.err
    assert f"people · standard input, at {today}" in done.err
    assert "Ann ─ KNOWS ─▶ Bob" in done.out
    assert done.out.splitlines()[1].count(today) == 1


def test_a_message_is_piped_into_the_shipped_plan(project: Project) -> None:
    options = [
        "-i",
        "episodes=-",
        "--until",
        "receive/to_read",
        "--llm",
        "recorded",
        "--store",
        "memory",
    ]
    done = project("run", "add_episode", *options, text="Ann lives in Oslo.\n")
    assert done.code == 0, done.err
    assert "Ann lives in Oslo." in done.out


def test_a_bug_is_no_traceback_unless_asked_for(project: Project) -> None:
    project.write(
        "mine/sem_map/broken.py",
        '''"""Broken."""
from semgraph.operator import Context, Cost, Implementation, Observed, RowEstimate, Rows, SemMap, dataclass, pa

@dataclass(frozen=True)
class Broken(Implementation[SemMap]):
    same = True
    def estimate(self, node: SemMap, rows: RowEstimate, seen: Observed | None) -> Cost:
        return Cost(calls=1)
    async def answer(self, node: SemMap, rows: Rows, ctx: Context) -> pa.Table:
        raise ZeroDivisionError("oh")
''',
    )
    done = project("run", "people", "--operators", "mine", "--use", "told=broken")
    assert done.code == 1
    assert "ZeroDivisionError: oh" in done.err
    assert "Traceback" not in done.err
    assert (
        "Traceback"
        in project("run", "people", "--operators", "mine", "--use", "told=broken", "-v").err
    )


def test_a_failed_run_names_itself_and_no_run_of_another_process(
    project: Project, serving: Serving
) -> None:
    other = project.folder / ".semgraph" / "runs" / "ffff" / "run.json"

    async def refused(body: dict[str, object]) -> Fault:
        del body
        other.parent.mkdir(parents=True, exist_ok=True)
        other.write_text(
            '{"plan": "people", "started": "2999-01-01T00:00:00Z", "status": "running"}'
        )
        return error(401, "wrong key")

    serving.server.answer = refused
    ended = project("run", "people")
    assert ended.code == 5
    name = ended.err.split("--resume ")[1].split()[0]
    assert name != "ffff"
    assert (other.parents[1] / name / "run.json").exists()


def test_an_interrupt_in_a_query_of_the_database_is_an_interrupt(
    project: Project, serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while the types of a plan are worked out: DuckDB makes an error of its own of it."""

    def interrupted(sql: str) -> object:
        del sql
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        return binder.connection().execute(
            "SELECT sum(a.i * b.i) FROM range(10000000) a(i), range(10000000) b(i)"
        )

    def ctrl_c(*_: object) -> None:
        raise KeyboardInterrupt

    plan = project.folder / "plans" / "find.yaml"
    text = plan.read_text(encoding="utf-8")
    plan.write_text(
        text.replace("score: hit.score", "score: hit.score + ln(404)"), encoding="utf-8"
    )
    before = signal.signal(signal.SIGALRM, ctrl_c)
    monkeypatch.setattr(binder, "bind", interrupted)
    try:
        ended = project("plans", "check", "people", "find")
    finally:
        signal.signal(signal.SIGALRM, before)
    assert (ended.code, ended.err.strip().splitlines()[-1]) == (130, "interrupted")
    assert "should not happen" not in ended.err
    assert serving.calls == 0


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("run", "people", "--again"), "--reprocess"),
        (("run", "people", "--fresh"), "--no-cache"),
        (("run", "people", "--json"), "--format json"),
        (("doctor", "--json"), "--format json"),
        (("compare", "people", "--ways", "a"), "--implementations"),
        (("compare", "people", "--way", "a:b=c"), "--variant"),
    ],
)
def test_another_spelling_of_an_option_is_refused_and_the_right_one_named(
    project: Project, words: tuple[str, ...], option: str
) -> None:
    done = project(*words)
    assert done.code == 2
    assert f"No such option: {words[2 if words[0] != 'doctor' else 1]}. Write {option}" in done.err


def test_a_plan_that_searches_its_own_rows_alone_needs_no_store(project: Project) -> None:
    project.write(
        "find.yaml",
        """\
plan: find
inputs: {notes: {id: string, text: string}, queries: {query: string}}
steps:
  hits:
    - from: queries
    - search: {over: notes, key: id, alias: hit, k: 1, methods: [{fulltext: text, to: query}]}
    - project: {query, id: hit.id}
returns: [hits]
example: {inputs: {notes: [{id: a, text: "A cat."}, {id: b, text: "A dog."}], queries: [{query: cat}]}}
""",
    )
    done = project("run", "find.yaml", "--format", "json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["tables"]["hits"] == [{"query": "cat", "id": "a"}]
    assert "store" not in done.err
    assert not (project.folder / ".semgraph" / "graph.db").exists()


def test_a_model_that_an_implementation_loads_itself_is_no_role(project: Project) -> None:
    project.write(
        "best.yaml",
        """\
plan: best
inputs: {notes: {id: string, text: string}}
steps:
  found: [{from: notes}, {sem_topk: {prompt: "Which of {text} is warmest?", k: 1}}]
returns: [found]
example: {inputs: {notes: [{id: a, text: "A cat."}]}}
""",
    )
    use = "found=cross_encoder(model=no/folder)"
    done = project("run", "best.yaml", "--use", use, "--store", "memory")
    assert "openai:test-model" in done.err
    assert "models." not in done.err
