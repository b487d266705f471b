"""`semgraph compare`, as it is typed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Project
from tests.compare.conftest import Reader
from tests.compare.standin import StandIn
from tests.llm.server import ModelServer
from tests.served import served

PLAN = """
plan: complaints
inputs: {tickets: {id: int64, text: string}}
steps:
  asked:
    - from: tickets
    - sem_filter: {prompt: "Does “{text}” complain?"}
returns: [asked]
example: {inputs: {tickets: [{id: 1, text: It leaks.}, {id: 2, text: Lovely.}, {id: 3, text: It is broken.}]}}
"""
STEP = ("compare", "complaints.yaml", "--step", "asked")
WAYS = ("--implementations", "per_row, packed(rows=3)")


@pytest.fixture
def model() -> Iterator[ModelServer]:
    server = ModelServer(Reader())
    with served(server):
        yield server


@pytest.fixture
def standin() -> Iterator[StandIn]:
    server = StandIn()
    with served(server):
        yield server


@pytest.fixture
def project(tmp_path: Path, model: ModelServer) -> Project:
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "SEMGRAPH_HOME": str(tmp_path / "home"),
        "SEMGRAPH_LLM": f"openai:standin@{model.base_url}",
        "OPENAI_API_KEY": "key",
        "COLUMNS": "160",
    }
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "complaints.yaml").write_text(PLAN)
    return Project(folder, env)


def test_the_table_is_the_result_and_the_cost_is_said_before(project: Project) -> None:
    done = project(*STEP, *WAYS, "--trials", "2")
    assert (done.code, done.out.splitlines()[0][:7]) == (0, "variant")
    assert "packed(rows=3)" in done.out
    assert "recorded as comparison" in done.out
    assert "2 trials of each: 8 calls" in done.err
    assert not (project.folder / ".semgraph" / "graph.db").exists()


def test_as_json_and_from_the_record(project: Project) -> None:
    found = json.loads(project(*STEP, *WAYS, "--format", "json").out)
    assert [arm["name"] for arm in found["arms"]] == ["per_row", "packed(rows=3)"]
    assert found["arms"][0]["trials"][0]["cold"]["calls"] == 3
    assert found["arms"][1]["trials"][0]["cold"]["calls"] == 1
    kept = json.loads(project("compare", "--show", found["id"][:3], "--format", "json").out)
    assert kept == found
    assert found["id"] in project("runs", "list").out
    assert "packed(rows=3)" in project("compare", "--show", "last").out


def test_the_chart_is_chosen_also_of_a_record(project: Project) -> None:
    done = project(*STEP, *WAYS, "--chart", "steps")
    assert "per_row  " in done.out
    assert "a asked" in done.out
    shown = project("compare", "--show", "last", "--chart", "time").out
    assert "time of one trial in seconds" in shown
    done = project("compare", "--show", "last", "--chart", "cost")
    assert done.code == 2
    assert "'quality', 'time', 'steps'" in done.err


def test_a_truth_from_a_file(project: Project) -> None:
    project.write("truth.csv", "ident,keep\n1,true\n")
    done = project(*STEP, *WAYS, "--truth", "truth.csv")
    assert done.code == 2
    assert (
        "truth.csv has no column that identifies a row of step asked. It has: ident, keep; rows have: id, text"
        in done.err
    )


@pytest.mark.parametrize("columns", ["id", "id,keep"])
def test_a_truth_without_rows_is_a_mistake(
    project: Project, model: ModelServer, columns: str
) -> None:
    """Whether it were a list of what stays, or says yes or no."""
    project.write("truth.csv", f"{columns}\n")
    done = project(*STEP, *WAYS, "--truth", "truth.csv")
    assert done.code == 2
    assert "truth.csv has no rows" in done.err
    assert "must name rows of step asked by id" in done.err
    assert model.requests == []


def test_whole_plans(project: Project, standin: StandIn) -> None:
    project.env |= {
        "SEMGRAPH_LLM": f"openai:standin@{standin.base_url}",
        "SEMGRAPH_EMBEDDER": f"openai:vectors@{standin.base_url}",
    }
    arms = (
        "--variant",
        "one:verdicts=block()",
        "--variant",
        "two:verdicts=block(left=1, right=5),dated=per_row",
    )
    done = project("compare", "plans/add_episode.yaml", *arms, "--format", "json")
    assert done.code == 0
    found = json.loads(done.out)
    assert found["arms"][1]["changes"] == {"verdicts": "block(left=1, right=5)", "dated": "per_row"}
    assert found["arms"][1]["quality"]["f1"] == 1.0


def test_presets_of_a_plan(project: Project, standin: StandIn) -> None:
    project.env |= {
        "SEMGRAPH_LLM": f"openai:standin@{standin.base_url}",
        "SEMGRAPH_EMBEDDER": f"openai:vectors@{standin.base_url}",
    }
    arms = ("--variant", "shipped:", "--variant", "lean:preset=lean")
    done = project("compare", "plans/add_episode.yaml", *arms, "--format", "json")
    assert done.code == 0
    shipped, lean = json.loads(done.out)["arms"]
    assert (shipped["changes"], lean["changes"]) == ({}, {"preset": "lean"})
    assert lean["quality"]["f1"] == 1.0


def test_several_grids_are_one(project: Project, model: ModelServer) -> None:
    models = ",".join(f"openai:{name}@{model.base_url}" for name in "ab")
    grids = ("--grid", "asked=per_row,packed(rows=3)", "--grid", f"models.default={models}")
    found = json.loads(project(*STEP, *grids, "--format", "json").out)
    ways = [(arm["changes"]["asked"], arm["changes"]["models.default"][7]) for arm in found["arms"]]
    assert ways == [
        ("per_row", "a"),
        ("per_row", "b"),
        ("packed(rows=3)", "a"),
        ("packed(rows=3)", "b"),
    ]


def test_a_plan_without_a_model_names_none_and_its_store_as_the_reader_does(
    project: Project,
) -> None:
    (project.folder / "first.yaml").write_text(
        "plan: first\ninputs: {tickets: {id: int64}}\nparams: {most: 1}\n"
        "steps: {kept: [from: tickets, limit: {n: $most, order: id}]}\nreturns: [kept]\n"
        "example: {inputs: {tickets: [{id: 1}, {id: 2}]}}\n"
    )
    done = project("compare", "first.yaml", "--grid", "params.most=1,2")
    assert "openai" not in done.out
    assert "nothing written to sqlite:.semgraph/graph.db" in done.out


def test_asked_anew(project: Project, model: ModelServer) -> None:
    for sent, options in ((4, ()), (4, ()), (8, ("--no-cache",))):
        assert project(*STEP, *WAYS, *options).code == 0
        assert len(model.requests) == sent


def test_a_limit_is_exit_4_and_nothing_is_sent(project: Project, model: ModelServer) -> None:
    done = project(*STEP, *WAYS, "--max-calls", "3")
    assert done.code == 4
    assert (
        "4 calls for 1 trial of 2 variants would pass max_calls 3: no variant was run" in done.err
    )
    assert model.requests == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("compare",), "there is no plan to compare"),
        (("compare", "add_episode"), "there is nothing to compare"),
        (
            ("compare", "add_episode", "--implementations", "a,b"),
            "these variants do not name their step. Name it: --step",
        ),
        (
            ("compare", "add_episode", "--variant", "verdicts=block()"),
            "sets nothing. Write --variant NAME:KEY=VALUE,…",
        ),
        (
            ("compare", "add_episode", "--variant", "a:x=y", "--variant", "a:x=y"),
            "--variant a: is given twice",
        ),
        (
            (*STEP, *WAYS, "--variant", "a:x=y"),
            "--implementations and --variant each name the variants",
        ),
        (("compare", "add_episode", "--grid", "verdicts"), '--grid "verdicts" sets nothing'),
        (
            ("compare", "add_episode", "--arms", "nowhere.yaml"),
            "nowhere.yaml:1:1  cannot read the file of variants",
        ),
        (
            ("compare", "complaints.yaml", "--variant", "a:llm=gpt-4.1"),
            'variant a: option: "gpt-4.1" is not a valid model',
        ),
        (
            ("compare", "complaints.yaml", "--variant", "a:asked=per_row", "--truth", "gold.csv"),
            "What it returns is compared with --labels FILE, a step of it with a truth",
        ),
        ((*STEP, *WAYS, "--seed", "1"), "a seed is for a sample. Add --sample N"),
        (
            ("compare", "add_episode", "--use", "verdict=block", "--variant", "a:preset=ready"),
            'Did you mean "settle/ask/verdicts"?',
        ),
        (
            (
                "compare",
                "add_episode",
                "--prompt",
                "judge_fact=mine.md",
                "--variant",
                "a:preset=ready",
            ),
            "--prompt judge_fact: there is no file mine.md",
        ),
        ((*STEP, "--implementations", "per_rwo"), 'Did you mean "per_row"'),
        ((*STEP, *WAYS, "--trials", "0"), "trials is 0"),
        (
            (
                "compare",
                "add_episode",
                "--llm",
                "recorded",
                "--trials",
                "3",
                "--variant",
                "a:preset=ready",
            ),
            "so all its trials are equal. --trials 1",
        ),
        (
            (
                "compare",
                "add_episode",
                "--variant",
                "verdicts=block()",
                "--variant",
                "told=block()",
            ),
            '"told=block()" sets nothing',
        ),
        (("compare", "--show", "ffff"), 'there is no run "ffff"'),
    ],
)
def test_mistakes_are_exit_2(
    project: Project, model: ModelServer, words: tuple[str, ...], said: str
) -> None:
    done = project(*words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert model.requests == []


def test_the_folder_of_a_data_set_is_named_once(project: Project) -> None:
    first = project("compare", "--dataset", "people", "--llm", "recorded").err.splitlines()[0]
    assert first.startswith("people in /")
    assert first.endswith(
        '/people/ · mentions.csv: 7 rows of mentions of team "a" · people.csv: 4 rows of people of team "a"'
    )
