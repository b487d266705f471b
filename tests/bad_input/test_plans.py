"""A plan that is wrong: `semgraph run` says where and what, with exit code 2, and nothing is asked,
nothing is made.

The words of each message are in tests/frontend/bad; here stands that each reaches the user, and
what it costs.
"""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import semgraph
from semgraph.errors import PlanError
from tests.bad_input.conftest import quiet
from tests.cli.conftest import Project

HEAD = "plan: bad\ninputs: {notes: {id: string, text: string, at: timestamp}}\nsteps:\n  out:\n    - from: notes\n"
TAIL = "returns: [out]\nexample: {inputs: {notes: [{id: a, text: b, at: 2025-01-15}]}}\n"


def step(line: str) -> str:
    """A plan with one step of one operator, which stands in line 6."""
    return f"{HEAD}    - {line}\n{TAIL}"


CASES = {
    "empty": ("", 1, "this plan is empty"),
    "a list": ("- plan: bad\n", 1, "plan"),
    "tabs": (HEAD + "\t- filter: id = 'a'\n" + TAIL, 6, "a tab cannot indent"),
    "cyclic steps": (HEAD.replace("from: notes", "from: out") + TAIL, 5, "out"),
    "a tag that would run": ("plan: !!python/object/apply:os.system ['touch x']\n", 1, "is not supported"),
    "unknown argument": (step("limit: {m: 3}"), 6, '"m"'),
    "wrong type": (step("limit: {n: many}"), 6, "many"),
    "text where steps belong": (HEAD.split("steps", maxsplit=1)[0] + "steps: none\n", 3, "steps"),
    "wrong type in a scalar": (step("filter: text + 1 > at"), 6, "out"),
    "unknown column": (step("filter: txt = 'a'"), 6, 'Did you mean "text"'),
    "unknown operator": (step("fliter: id = 'a'"), 6, 'Did you mean "filter"'),
    "unknown parameter": (step("filter: id = $who"), 6, "who"),
    "unknown prompt": (step("sem_filter: {prompt: no_such_prompt}"), 6, "no_such_prompt"),
    "unknown function": (step("add: {n: lenght(text)}"), 6, "lenght"),
    "sub-query": (step("filter: id IN (SELECT 'a')"), 6, "sub-query"),
    "reads a file": (step("add: {x: \"read_text('/etc/passwd')\"}"), 6, "read_text"),
    "unended quote": (step("filter: \"id = 'a\""), 6, "out"),
    "unended quote of a value": (step('filter: "id = 1'), 6, "a quote that is opened here is never closed"),
    "a colon without a blank": (step("project: {id:, n:}"), 6, 'nothing stands behind a ":". Write a blank behind ":"'),
    "types without blanks": (HEAD.replace("{id: string,", "{id:string,") + TAIL, 2, "a name alone needs no colon: {id, n}"),
    "an item in a wrong column": (step("limit: {n: 3}\n   - distinct: [id]"), 7, "wrong indent: this does not continue the"),
    "a key in a wrong column": (step("limit: {n: 3}").replace("returns", " returns"), 7, "wrong indent: this does not continue the mapping that began in line 1, column 1"),
    "an item below a key": (step("limit: {n: 3}\n      - distinct: [id]"), 7, "wrong indent: this does not continue the mapping that began in line 6, column 7"),
    "a question mark": (step("filter: id = ?"), 6, '"?" has no place in an expression. A parameter is written $NAME'),
    "a union of mappings": (HEAD.replace("from: notes", "union: [from: notes]") + TAIL, 5, "found a mapping. Write notes"),
    "a name that is not near": (step("add: {n: nosuch(text)}"), 6, "--functions DIR\n"),
    "unended bracket": (step("limit: {n: 3"), 7, ""),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.usefixtures("untouched")
def test_an_error_names_its_line(project: Project, case: str) -> None:
    text, line, said = CASES[case]
    project.write("bad.yaml", text)
    ended = project("run", "bad.yaml")
    err = quiet(ended, 2)
    assert ended.out == ""
    first = re.search(r"^bad\.yaml:(\d+):\d+  ", err, re.MULTILINE)
    assert first is not None, err
    assert int(first[1]) == line, err
    assert said in err
    checked = project("plans", "check", "bad.yaml")
    assert checked.code == 2
    assert f"bad.yaml:{line}:" in checked.out
    assert not (project.folder / "x").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\x7fELF\x02\x01\x01\0\0", "binary data"),
        (b"plan: \xff\xfe\n", "not UTF-8"),
        ("plan: bad\n".encode("utf-16"), "this is no plan"),
        (b"# " + b"x" * 10_000_000, "too large for a plan"),
        (b"plan: " + b"[" * 100_000, "nested too deeply"),
        (b"a: {" * 5_000, "nested too deeply"),
    ],
    ids=["binary", "not UTF-8", "UTF-16", "10 MB", "deep", "deep maps"],
)
@pytest.mark.usefixtures("untouched")
def test_a_file_that_is_not_a_plan_is_rejected(project: Project, content: bytes, said: str) -> None:
    (project.folder / "bad.yaml").write_bytes(content)
    assert said in quiet(project("run", "bad.yaml"), 2)


@pytest.mark.usefixtures("untouched")
def test_a_process_and_a_session_report_the_same_error(project: Project) -> None:
    project.write("bad.yaml", step("filter: txt = 'a'"))
    err = quiet(project.process("run", "bad.yaml"), 2)
    assert err.startswith('bad.yaml:6:15  step out: no column "txt"'), err
    with pytest.raises(PlanError, match=r"bad\.yaml:6:15"):
        semgraph.Session(folder=project.folder, store="memory").run(project.folder / "bad.yaml")


@pytest.mark.usefixtures("untouched")
def test_plans_that_call_each_other_are_rejected(project: Project) -> None:
    for mine, other in (("one", "two"), ("two", "one")):
        calling = HEAD.replace("bad", mine, 1).replace(
            "from: notes", f"call: {{plan: {other}, inputs: {{notes: notes}}}}"
        )
        project.write(f"plans/{mine}.yaml", calling + TAIL)
    assert "plans/" in quiet(project("run", "plans/one.yaml"), 2)


COUNTS = step("limit: {n: $least}").replace("steps:", "params: {least: 3}\nsteps:")


@pytest.mark.parametrize(
    "value", ["1e400", "NaN", "99999999999999999999999", "-99999999999999999999999"]
)
@pytest.mark.usefixtures("untouched")
def test_a_parameter_that_is_no_number_of_64_bits(project: Project, value: str) -> None:
    project.write("bad.yaml", COUNTS)
    err = quiet(project("run", "bad.yaml", f"--set=least={value}"), 2)
    assert err.startswith('--set: parameter "least" takes a number of 64 bits, not '), err


def test_a_number_of_128_bits_in_a_plan_is_compared_as_it_stands(project: Project) -> None:
    project.write("big.yaml", step("filter: length(text) < 99999999999999999999999"))
    assert project("run", "big.yaml", "--rows", "99999999999999999999").out.startswith(
        "out: 1 row\n"
    )


def test_what_stands_in_the_way_of_a_file_is_told_with_what_to_do(project: Project) -> None:
    project.write("plan.yaml", COUNTS)
    project("run", "plan.yaml")
    (project.folder / "taken").mkdir()
    for command, said in (
        (
            ("plans", "copy", "search", "plan.yaml"),
            "plan.yaml: File exists. A folder is needed there, and this is a file",
        ),
        (
            ("report", "last", "-o", "taken"),
            "taken: Is a directory. A file is needed there: name one",
        ),
        (("run", "taken"), "taken:1:1  this is a folder, no plan. Name a file in it"),
        (("run", "plan.yaml", "--config", "taken"), "./taken: cannot be read. Is a directory"),
    ):
        ended = project(*command)
        assert ended.code in (1, 2), command
        assert said in ended.err, ended.err


def test_the_record_of_a_run_that_is_damaged(project: Project) -> None:
    project.write("plan.yaml", COUNTS)
    (project.folder / ".semgraph" / "runs" / "abcd").mkdir(parents=True)
    (project.folder / ".semgraph" / "runs" / "abcd" / "run.json").write_text('{"pl')
    err = quiet(project("explain", "plan.yaml", "--run", "abcd"), 2)
    assert "the record of run abcd is damaged: no plan in it" in err
    assert "semgraph runs rm abcd" in err


@pytest.mark.usefixtures("untouched")
def test_steps_that_read_each_other_through_thousands(project: Project) -> None:
    chain = "".join(f"  s{i}: [{{from: s{i + 1}}}]\n" for i in range(3000))
    project.write("deep.yaml", f"plan: deep\nsteps:\n{chain}")
    err = quiet(project("run", "deep.yaml"), 2)
    assert err.startswith(
        "deep.yaml:2:1  its steps read each other through too many others. Write each step after"
    ), err


def test_a_folder_that_is_gone(project: Project) -> None:
    project.folder.joinpath("gone").mkdir()
    command = f"cd gone && rmdir ../gone && {sys.executable} -m semgraph run search"
    ended = subprocess.run(
        command,
        shell=True,
        cwd=project.folder,
        env=project.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert (
        ended.stderr
        == "the folder that this runs in is not there any more. Change to another one\n"
    )


@pytest.mark.usefixtures("untouched")
def test_a_wrong_parameter_is_told_without_what_follows_in_called_plans(project: Project) -> None:
    lines = quiet(project("run", "add_episode", "--set", "candidates=-1"), 2).splitlines()
    assert [line.split("step ")[1] for line in lines] == [
        "resolve/mentioned/candidates: -1 is negative",
        "resolve/strayed/candidates: -1 is negative",
    ]


COMMANDS = {
    "a plan that is misspelt": ("run add_episod", 'no plan "add_episod". Did you mean "add_episode"?'),
    "a plan that is none": ("run zzz", 'no plan "zzz". See semgraph plans list'),
    "a path that is misspelt": ("run plans/odd.yaml", "plans/odd.yaml: there is no such file. See semgraph plans list"),
    "another case": ("run plans/NOTES.yaml", 'plans/NOTES.yaml: there is no such file. Did you mean "plans/notes.yaml"?'),
    "rows in place of a plan": ("run a.jsonl", "a.jsonl holds rows, and the first argument is a plan. Rows are an option: semgraph run PLAN -i NAME=a.jsonl"),
    "rows without -i": ("run notes a.jsonl", "Rows are an option: -i NAME=FILE"),
    "an option that is misspelt": ("run notes --sotre memory", 'No such option: --sotre. Did you mean "--store"?'),
    "an option of another program": ("run notes --model gpt", '--model "gpt" sets nothing. Write --model NAME=VALUE, or --llm gpt'),
    "an option that is none": ("run notes --zzz", "No such option: --zzz"),
    "an input that is given twice": ("run notes -i rows=a.jsonl -i rows=a.jsonl", "-i rows= is given twice"),
    "an input that is misspelt": ("run notes -i row=a.jsonl", 'notes has no input "row". Inputs: rows. Did you mean "rows"?'),
    "a parameter that is misspelt": ("run notes --set lest=3", 'no parameter "lest". Parameters: least. Did you mean "least"?'),
    "a parameter of a wrong type": ("run notes --set least=three", 'parameter "least" takes a number'),
    "a step that is misspelt": ("run notes --use kep=packed", 'names no step "kep". Steps: kept. Did you mean "kept"?'),
    "an implementation that is misspelt": ("run notes --use kept=paked", 'unknown implementation "paked"'),
    "a provider that is none": ("run notes --llm litellm:llama3", "A server that speaks OpenAI's protocol: openai:llama3@http://HOST:PORT/v1"),
    "an address without a scheme": ("run notes --llm openai:x@localhost:80", "must begin with http:// or https://"),
    "a store by its file": ("run remember --store graph.db", "Write sqlite:graph.db"),
    "a store that is misspelt": ("run remember --store memry", 'Did you mean "memory"?'),
}  # fmt: skip
NOTES = """plan: notes
inputs: {rows: {id: string, text: string}}
params: {least: 3}
steps:
  kept: [{from: rows}, {filter: length(text) > $least}, {sem_filter: {prompt: "Is {text} kind?"}}]
returns: [kept]
example: {inputs: {rows: [{id: a, text: hello}]}}
"""
REMEMBER = """plan: remember
graph: graph.yaml
inputs: {rows: {uuid: string, group_id: string, text: string}}
writes: [{merge: {from: rows, node: Note}}]
example: {inputs: {rows: [{uuid: a, group_id: g, text: hello}]}}
"""


@pytest.mark.parametrize("case", COMMANDS)
def test_a_slip_on_the_command_line_says_what_to_write(project: Project, case: str) -> None:
    line, said = COMMANDS[case]
    project.write("plans/notes.yaml", NOTES)
    project.write("plans/remember.yaml", REMEMBER)
    project.write("plans/graph.yaml", "nodes: {Note: {properties: {text: string}}}\n")
    project.write("a.jsonl", '{"id": "a", "text": "hello"}\n')
    done = project(*line.split())
    assert done.code == 2
    assert said in " ".join(done.err.replace("│", " ").split()), done.err


def test_a_plan_without_an_example_says_so_before_a_model_is_fetched(project: Project) -> None:
    project.write("plans/notes.yaml", NOTES.partition("example:")[0])
    done = project("run", "notes", "--llm", "local")
    assert (done.code, "Not here yet" in done.err) == (2, False)
    assert "plan notes has no example: give its inputs (rows). -i NAME=FILE" in done.err
