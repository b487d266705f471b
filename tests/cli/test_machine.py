"""`semgraph model`, `doctor` and `neo4j`: what this machine has."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer

from semgraph import extras
from semgraph.cli import app
from semgraph.llm.catalogue import CATALOGUE
from tests.cli.conftest import Project, Serving
from tests.llm.server import Answer, Fault, error

ROOT = Path(__file__).parents[2]


def test_models_are_listed_with_size_and_licence(project: Project) -> None:
    found = json.loads(project("model", "list", "--format", "json").out)
    assert [model["name"] for model in found] == [model.name for model in CATALOGUE]
    assert not any(model["here"] for model in found)
    assert "Apache-2.0" in project("model", "list").out


def test_a_model_that_is_no_model(project: Project) -> None:
    done = project("model", "pull", "SmolLM2")
    assert done.code == 2
    assert 'Did you mean "SmolLM2-135M"?' in done.err


def test_offline_nothing_is_fetched(project: Project) -> None:
    project.env["SEMGRAPH_OFFLINE"] = "1"
    done = project("model", "pull", "all-MiniLM-L6-v2")
    assert done.code == 5
    assert "SEMGRAPH_OFFLINE" in done.err


def test_a_file_with_other_bytes_is_not_taken(project: Project) -> None:
    file = project.write("model.gguf", "not a model")
    done = project("model", "pull", "SmolLM2-135M", "--from", str(file))
    assert done.code == 5
    assert "11 bytes" in done.err


def test_removing_a_model_that_is_not_here_is_no_error(project: Project) -> None:
    done = project("model", "rm", "smollm2-135m")
    assert (done.code, done.out) == (0, "SmolLM2-135M is not here\n")


def test_a_run_announces_what_it_will_fetch_before_it_does(project: Project) -> None:
    project.env["SEMGRAPH_OFFLINE"] = "1"
    done = project("run", "people", "--llm", "local")
    assert done.code == 5
    assert "Not here yet: Qwen2.5-Coder-1.5B, 1.12 GB, once, Apache-2.0" in done.err


def test_a_search_does_not_ask_for_a_model_that_it_does_not_need(project: Project) -> None:
    project.env["SEMGRAPH_OFFLINE"] = "1"
    done = project("run", "find", "--llm", "local", "--store", "memory", "-i", "queries=Ann")
    assert done.code == 0
    assert "no language model" in done.err


def fact(project: Project, about: str, *args: str) -> dict[str, str]:
    done = project("doctor", "--format", "json", *args)
    return next(found for found in json.loads(done.out) if found["about"] == about)


def test_doctor_names_the_command_that_installs_a_missing_extra_and_the_others_on_a_line(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "is_installed", lambda name: name not in {"xllamacpp", "pandas"})
    args = ("doctor", "--format", "json", "--llm", "local")
    facts = [each for each in json.loads(project(*args).out) if each["about"].startswith("extra")]
    here, missing, others = facts
    assert "minhash" in here["what"]
    assert "pandas" in others["what"]
    assert others["what"].startswith("not installed, and not needed here: ")
    assert missing["what"].startswith("local: not installed (xllamacpp)")
    assert 'pip install "semgraph[' in missing["remedy"]


def test_every_extra_of_the_package_has_a_purpose() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(extras.PURPOSES) == set(declared["optional-dependencies"]) - {"dev", "docs"}
    assert set(extras.PURPOSES) <= set(extras.requirements())


def test_doctor_tells_where_each_setting_came_from(project: Project) -> None:
    project.write("semgraph.toml", "[limits]\nmax_usd = 4\n")
    out = project("doctor").out
    assert "limits.max_usd = 4.0   (./semgraph.toml)" in out
    assert "(environment SEMGRAPH_LLM)" in out
    assert "✓ Python" in out


def test_doctor_reports_roles_that_only_prompts_of_ones_own_use(project: Project) -> None:
    project.env.pop("SEMGRAPH_LLM")
    project.write(
        "semgraph.toml", '[models]\ndefault = "recorded:a.jsonl"\njudge = "recorded:b.jsonl"\n'
    )
    out = project("doctor").out
    assert "! judge       a role of your own: only prompts with `role: judge` use this model" in out
    project.write("semgraph.toml", '[models]\ndefualt = "recorded:a.jsonl"\n')
    refused = project("doctor")
    assert refused.code == 2
    assert 'Did you mean "models.default"?' in refused.err


def test_doctor_asks_an_endpoint_whether_it_is_there(project: Project, serving: Serving) -> None:
    found = fact(project, "model")
    assert found["sign"] == "✓"
    assert "reachable, not tried: semgraph doctor --call tries it" in found["what"]
    assert serving.calls == 0
    project.env["SEMGRAPH_LLM"] = "openai:test-model@http://127.0.0.1:9/v1"
    done = project("doctor")
    assert done.code == 5
    assert "✗ model" in done.out
    assert "does not answer" in done.out


def test_doctor_calls_only_when_told_to(project: Project, serving: Serving) -> None:
    async def city(body: dict[str, object]) -> str:
        return json.dumps({"city": "Paris"})

    serving.server.answer = city
    project.env["SEMGRAPH_EMBEDDER"] = f"openai:vectors@{serving.server.base_url}"
    out = " ".join(project("doctor", "--call").out.split())
    assert "it said “Paris”" in out
    assert "refused" not in out
    assert "8 dimensions" in out
    assert "not tried" not in out
    assert serving.calls == 2
    assert "schemas: not enforced: semgraph checks each answer, and asks again; " in out
    assert "log-probabilities: no; seed: sent; batches: yes" in out


def test_doctor_says_what_an_endpoint_can_do(project: Project, serving: Serving) -> None:
    async def able(body: dict[str, Any]) -> str | Answer | Fault:
        if "seed" in body:
            return error(400, "seed is not supported")
        if body.get("logprobs"):
            return Answer("yes", "length", first_tokens=(("yes", -0.1), ("no", -2.0)))
        schema = body["response_format"]["json_schema"]["schema"]
        kinds = {"string": "Paris", "boolean": True, "integer": 5}
        values = {name: kinds[each["type"]] for name, each in schema["properties"].items()}
        return json.dumps(values)

    serving.server.answer = able
    out = " ".join(project("doctor", "--call", "--embedder", "recorded").out.split())
    assert "schemas: enforced; log-probabilities: yes; seed: not sent; batches: yes" in out
    assert "refused seed: draws differ by the temperature alone" in out


def test_doctor_says_what_an_endpoint_refuses(project: Project, serving: Serving) -> None:
    async def old_server(body: dict[str, object]) -> str | Fault:
        for member in ("temperature", "response_format"):
            if member in body:
                return error(422, f"{member}: extra fields not permitted")
        return json.dumps({"city": "Paris"})

    serving.server.answer = old_server
    out = " ".join(project("doctor", "--call", "--embedder", "recorded").out.split())
    assert "it said “Paris”" in out
    assert "refused temperature: the temperature is the endpoint's own; " in out
    assert "refused json_schema: the schema of the answer is in the prompt" in out
    assert "refused json_object: the form of the answer is not enforced" in out


@pytest.mark.parametrize(
    ("text", "finish", "said"),
    [
        ('```json\n{"city": "Paris"}\n```', "stop", "“Paris”"),
        ("", "length", "answer cut at 2,048 tokens"),
        ('{"town": "Paris"}', "stop", "ignores the schema"),
    ],
)
def test_doctor_reads_an_answer_as_a_run_does(
    project: Project, serving: Serving, text: str, finish: str, said: str
) -> None:
    async def answer(body: dict[str, object]) -> Answer:
        return Answer(text, finish=finish)

    serving.server.answer = answer
    out = " ".join(project("doctor", "--call", "--embedder", "recorded").out.split())
    assert said in out
    assert ("repaired: JSON inside a code fence" in out) == ("```" in text)
    assert ("ignores" in out) == ("town" in text)


def test_doctor_tells_of_an_endpoint_that_ignores_schemas(
    project: Project, serving: Serving
) -> None:
    async def prose(body: dict[str, object]) -> str:
        return "The city is Paris."

    serving.server.answer = prose
    done = project("doctor", "--call")
    assert done.code == 5
    assert "?structured=tool" in done.out


def test_doctor_shows_no_key(project: Project) -> None:
    project.env["OPENAI_API_KEY"] = "sk-0123456789abcdefSECRET"
    out = project("doctor").out
    assert "sk-0123456789" not in out
    assert "…CRET" in out


def test_doctor_counts_what_the_store_holds(project: Project) -> None:
    assert "not there yet" in fact(project, "store")["what"]
    project("run", "people")
    assert "3 Person" in fact(project, "store")["what"]


def test_doctor_counts_labels_of_other_graphs_too(project: Project) -> None:
    project("run", "people", "--store", "sqlite:mine.db")
    (project.folder / "plans/graph.yaml").rename(project.folder / "plans/people_graph.yaml")
    what = fact(project, "store", "--store", "sqlite:mine.db")["what"]
    assert "3 KNOWS, 3 Note, 3 Person" in what


def test_doctor_tells_of_a_server_that_is_not_there(project: Project) -> None:
    found = fact(project, "store", "--store", "bolt://127.0.0.1:9")
    assert found["sign"] == "✗"
    assert "127.0.0.1:9" in found["what"]


def test_a_neo4j_that_does_not_run_is_exit_code_5(project: Project) -> None:
    done = project("neo4j", "status")
    assert (done.code, done.out) == (5, "not running\n")
    assert "semgraph neo4j start" in done.err
    assert project("neo4j", "stop").out == "it was not running\n"
    assert json.loads(project("neo4j", "status", "--format", "json").out)["running"] is False


@pytest.mark.parametrize(
    "args", [["--version"], ["--help"], ["run", "--help"], ["plans", "--help"]]
)
def test_help_and_version(project: Project, args: list[str]) -> None:
    assert project(*args).code == 0


def commands() -> list[list[str]]:
    root: Any = typer.main.get_command(app)
    return [
        [name, *inner]
        for name, each in root.commands.items()
        for inner in ([[sub] for sub in each.commands] if hasattr(each, "commands") else [[]])
    ]


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_the_common_options_are_described_once_and_work_everywhere(
    project: Project, command: list[str]
) -> None:
    shown = project(*command, "--help").out
    assert "--embedder" not in shown
    assert " Options of every command (--store, --llm, --format …): semgraph --help" in shown
    assert "--embedder" in project("--help").out
    assert "No such option" not in project(*command, "-h", "--embedder", "local").err


@pytest.mark.parametrize("args", [(), ("run",), ("plans",), ("plans", "list"), ("serve",)])
def test_flags_have_no_type_in_help(project: Project, args: tuple[str, ...]) -> None:
    assert "bool" not in project(*args, "--help").out


def test_the_word_of_python_names_the_option(project: Project) -> None:
    done = project("compare", "people", "--step", "told", "--variants", "per_row")
    assert "Write --implementations" in done.err


@pytest.mark.parametrize(
    ("args", "kind"),
    [
        (["runs", "list"], list),
        (["plans", "list"], list),
        (["plans", "check"], list),
        (["operators", "list"], dict),
    ],
)
def test_help_says_what_json_is(project: Project, args: list[str], kind: type) -> None:
    shown = project("--help").out
    assert "one document on stdout, an object or a list." in " ".join(
        shown.replace("│", " ").split()
    )
    assert isinstance(json.loads(project(*args, "--format", "json").out), kind)


def test_a_command_that_is_none(project: Project) -> None:
    done = project("rum", "people")
    assert done.code == 2
    assert "run" in done.err


def test_doctor_reports_an_endpoint_that_fails_or_hangs(project: Project, serving: Serving) -> None:
    """One attempt, within the time that the settings give; what fails is a line of the report."""

    async def broken(body: dict[str, object]) -> Fault:
        del body
        return error(500, "out of order")

    async def hang(body: dict[str, object]) -> Fault:
        del body
        return Fault(hang=True)

    serving.server.answer = broken
    done = project("doctor", "--call", "--embedder", "recorded")
    assert "✗ call        openai:test-model" in done.out
    assert "out of order" in " ".join(done.out.split())
    assert "Traceback" not in done.err
    serving.server.answer = hang
    project.write("semgraph.toml", "[limits]\nmax_seconds = 1\n")
    done = project("doctor", "--call", "--embedder", "recorded")
    assert done.code == 5
    assert "max_seconds 1 passed" in " ".join(done.out.split())
