"""A model that cannot be reached, or answers badly: what is said, what it costs, what is kept, and
how to go on.
"""

from __future__ import annotations

import json

import pytest

from benchmarks.world import Fault
from tests.bad_input.conftest import Serving, episode, held, quiet, told
from tests.cli.conftest import Project

OSLO, LUMA = episode("Ann(user): I live in Oslo."), episode("Ann(user): I work at Luma.", 1)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("prose", "mentions: invalid: the answer is not one JSON document"),
        ("truncated", "answer cut at 512 tokens"),
        ("wrong_ids", "mentions: invalid: "),
        ("refusal", "refused"),
    ],
)
def test_a_bad_answer_fails_only_its_row_and_can_be_requested_again(
    project: Project, serving: Serving, kind: str, said: str
) -> None:
    serving.spoil(Fault(kind, rate=1.0))
    ended = project(*told(project, [OSLO]))
    err = quiet(ended, 3)
    assert said in err
    assert "1 row failed (exit 3)" in err
    assert ("?structured=tool" in err) == (kind == "prose")
    assert len(held(project, "Episodic")) == 1
    assert held(project, "Entity") == []
    assert len(serving.server.requests) >= 2
    serving.spoil()
    again = project(*err.split("these rows only: semgraph ")[1].splitlines()[0].split())
    quiet(again, 0)
    assert "Ann ─ LIVES_IN ─▶ Oslo" in again.out
    assert len(held(project, "Episodic")) == 1


@pytest.mark.parametrize("kind", ["429", "500", "drop"])
def test_transient_errors_are_retried(project: Project, serving: Serving, kind: str) -> None:
    project.env["SEMGRAPH_RETRIES_ATTEMPTS"] = "3"
    serving.spoil(Fault(kind, on=(1, 2)))
    ended = project(*told(project, [OSLO]))
    quiet(ended, 0)
    assert "Ann ─ LIVES_IN ─▶ Oslo" in ended.out
    assert len(serving.server.requests) == 4


def test_a_request_that_hangs_is_given_up_and_can_be_sent_again(
    project: Project, serving: Serving
) -> None:
    patient = project.env["SEMGRAPH_LLM"]
    project.env["SEMGRAPH_LLM"] += "?timeout=0.3"
    serving.spoil(Fault("hang", rate=1.0))
    ended = project(*told(project, [OSLO]))
    err = quiet(ended, 3)
    assert "2 attempts" in err
    assert "LIVES_IN" not in ended.out
    serving.spoil()
    project.env["SEMGRAPH_LLM"] = patient
    again = project(*err.split("these rows only: semgraph ")[1].splitlines()[0].split())
    quiet(again, 0)
    assert "Ann ─ LIVES_IN ─▶ Oslo" in again.out


@pytest.mark.parametrize(
    ("endpoint", "said"),
    [
        ("http://127.0.0.1:9/v1", "127.0.0.1:9"),
        ("http://no-such-host.invalid/v1", "no-such-host.invalid"),
        ("{url}/nowhere", "/nowhere"),
    ],
    ids=["closed port", "no host", "wrong path"],
)
def test_an_unreachable_endpoint_fails_and_the_run_can_be_resumed(
    project: Project, serving: Serving, endpoint: str, said: str
) -> None:
    project.env["SEMGRAPH_LLM"] = "openai:gpt-4.1-mini@" + endpoint.format(
        url=serving.server.base_url
    )
    ended = project(*told(project, [OSLO, LUMA]))
    err = quiet(ended, 5)
    assert ended.out == ""
    assert said in err
    assert OSLO["content"] in [row["content"] for row in held(project, "Episodic")]
    assert held(project, "Entity") == []
    project.env["SEMGRAPH_LLM"] = f"openai:gpt-4.1-mini@{serving.server.base_url}"
    resumed = project("run", "add_episode", "--resume", err.split("--resume ")[1].split()[0])
    quiet(resumed, 0)
    assert all(word in resumed.out for word in ("─▶ Oslo", "─▶ Luma"))
    assert len(held(project, "Episodic")) == 2


def test_an_unreachable_embedder_fails_and_the_run_can_be_resumed(
    project: Project, serving: Serving
) -> None:
    project.env["SEMGRAPH_EMBEDDER"] = "openai:stand-in@http://127.0.0.1:9/v1?dimensions=64"
    ended = project.process(*told(project, [OSLO]))
    err = quiet(ended, 5)
    assert "127.0.0.1:9" in err
    assert held(project, "Entity") == []
    asked = len(serving.server.requests)
    project.env["SEMGRAPH_EMBEDDER"] = f"openai:stand-in@{serving.server.base_url}?dimensions=64"
    quiet(project("run", "add_episode", "--resume", err.split("--resume ")[1].split()[0]), 0)
    assert len(serving.server.requests) == max(asked, 2)


def test_a_missing_api_key_is_reported(project: Project, serving: Serving) -> None:
    del project.env["OPENAI_API_KEY"]
    project.env["SEMGRAPH_LLM"] = "openai:gpt-4.1-mini"
    err = quiet(project(*told(project, [OSLO])), 5)
    assert "OPENAI_API_KEY" in err
    assert serving.requests == 0


def test_the_record_of_a_failed_run_says_why(project: Project, serving: Serving) -> None:
    serving.spoil(Fault("refusal", rate=1.0))
    err = quiet(project(*told(project, [OSLO, LUMA])), 3)
    name = err.split("(run recorded: ")[1].split(")")[0]
    failed = (
        (project.folder / ".semgraph" / "runs" / name / "failed.jsonl").read_text().splitlines()
    )
    assert [json.loads(line)["content"] for line in failed] == [OSLO["content"], LUMA["content"]]
    assert all("refus" in json.loads(line)["_error"] for line in failed)
