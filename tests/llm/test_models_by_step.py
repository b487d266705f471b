"""Which model answers which step: roles, `models=` and `--model`, and the model of a choice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import semgraph
from semgraph.errors import BudgetReached, PlanError
from semgraph.execution.record import Run, read_calls
from tests.llm.server import ModelServer

PLAN = """\
plan: notes_plan
inputs: {notes: {id: string, text: string}}
steps:
  birds: [{from: notes}, {sem_filter: {prompt: "Is {text} a bird?"}}]
  named: [{from: birds}, {sem_map: {prompt: "Name {text}.", returns: {name: string}, role: small}}]
  judged: [{from: named}, {sem_map: {prompt: "Judge {text}.", returns: {mark: string}, role: judge}}]
returns: [judged]
"""
NOTES = [{"id": "1", "text": "heron"}]


async def answer(body: dict[str, Any]) -> str:
    parts = body["response_format"]["json_schema"]["schema"]["properties"]
    return json.dumps({name: part.get("enum", ["x"])[0] for name, part in parts.items()})


@pytest.fixture
def notes(tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    server.answer = answer
    (tmp_path / "p.yaml").write_text(PLAN)
    return tmp_path / "p.yaml"


def write(file: Path, text: str) -> None:
    file.write_text(text)


def session(notes: Path, server: ModelServer, **more: Any) -> semgraph.Session:
    models = {
        role: f"openai:{model}@{server.base_url}" if isinstance(model, str) else model
        for role, model in more.pop("models", {}).items()
    }
    defaults = {"store": "memory", "journal": False, "folder": notes.parent}
    return semgraph.Session(models=models, **{**defaults, **more})


def asked(server: ModelServer) -> list[str]:
    """The models that were asked, in order of the steps."""
    return [request["model"] for request in server.requests]


async def test_a_role_without_a_model_falls_back_to_default(notes: Path, server: ModelServer):
    async with session(notes, server, models={"default": "large"}) as opened:
        await opened.arun(notes, notes=NOTES)
    assert asked(server) == ["large", "large", "large"]


async def test_each_role_and_each_step_may_have_its_model(notes: Path, server: ModelServer):
    models = {"default": "large", "small": "nano", "birds": "keen", "judge": "strict"}
    async with session(notes, server, models=models) as opened:
        await opened.arun(notes, notes=NOTES)
    assert asked(server) == ["keen", "nano", "strict"]


async def test_models_outrank_llm(notes: Path, server: ModelServer):
    llm = f"openai:all@{server.base_url}"
    async with session(notes, server, llm=llm, models={"named": "one"}) as opened:
        await opened.arun(notes, notes=NOTES)
    assert asked(server) == ["all", "one", "all"]


@pytest.mark.parametrize(
    ("choice", "model"), [("packed(rows=5) @ small", "nano"), ("@ judge", "strict")]
)
async def test_the_model_of_a_choice_outranks_the_role_of_the_prompt(
    notes: Path, server: ModelServer, choice: str, model: str
):
    models = {"default": "large", "small": "nano", "judge": "strict"}
    async with session(notes, server, models=models) as opened:
        await opened.arun(notes, notes=NOTES, use={"birds": choice})
        assert asked(server)[0] == model
        shown = opened.explain(opened.prepare(notes, use={"birds": choice}), format="json")
    assert f"@ {choice.rpartition('@ ')[2]}" in shown


async def test_a_choice_may_name_a_provider_and_a_model(
    notes: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    async with session(notes, server, models={"default": "large"}) as opened:
        await opened.arun(notes, notes=NOTES, use={"birds": "per_row @ openai:other"})
    assert asked(server)[0] == "other"


@pytest.mark.parametrize("written", ["openai:m@http://localhost:1/v1", "openai:m?rpm=1"])
def test_a_choice_names_no_address_and_no_options(notes: Path, server: ModelServer, written: str):
    text = PLAN + f"use: {{birds: 'per_row @ {written}'}}\n"
    notes.write_text(text)
    with pytest.raises(PlanError, match="names a model by its role or as PROVIDER:NAME"):
        session(notes, server).prepare(notes)


@pytest.mark.parametrize("role", ["smal", "defualt", "reranker"])
def test_a_misspelt_role_is_refused(notes: Path, server: ModelServer, role: str):
    with pytest.raises(PlanError, match=f'"models.{role}" is an unknown role'):
        session(notes, server, models={role: "m"})


async def test_a_misspelt_role_of_a_prompt_is_refused_before_anything_is_sent(
    notes: Path, server: ModelServer
):
    write(notes, PLAN.replace("role: small", "role: smal"))
    async with session(notes, server, models={"default": "large"}) as opened:
        with pytest.raises(PlanError, match='Did you mean "small"'):
            await opened.arun(notes, notes=NOTES)
    assert not server.requests


async def test_models_may_be_objects(notes: Path, server: ModelServer):
    from semgraph.llm.openai import OpenAI

    own = OpenAI("own", server.base_url)
    async with session(notes, server, models={"default": "large", "named": own}) as opened:
        await opened.arun(notes, notes=NOTES)
    assert asked(server) == ["large", "own", "large"]
    await own.aclose()


async def test_an_object_for_all_and_a_name_for_one(
    notes: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch
):
    from semgraph.llm.openai import OpenAI

    (notes.parent / "semgraph.toml").write_text('[models]\nsmall = "openai:of-a-file"\n')
    own = OpenAI("own", server.base_url)
    async with session(notes, server, llm=own, models={"judge": "strict"}) as opened:
        await opened.arun(notes, notes=NOTES)
    assert asked(server) == ["own", "own", "strict"]
    await own.aclose()


async def test_the_record_says_which_model_answers_each_step(notes: Path, server: ModelServer):
    models = {"default": "large", "small": "nano", "judged": "strict"}
    async with session(notes, server, models=models) as opened:
        result = await opened.arun(notes, notes=NOTES)
    run = Run(result.record)
    steps = {step: name.partition("@")[0] for step, name in run.facts["models"].items()}
    assert steps == {"birds": "openai:large", "named": "openai:nano", "judged": "openai:strict"}
    called = {line["step"]: line["model"].partition("-")[0] for line in read_calls(result.record)}
    assert called == {"birds": "large", "named": "nano", "judged": "strict"}


async def test_a_resumed_run_asks_the_same_models(notes: Path, server: ModelServer):
    models = {"default": "large", "named": "nano"}
    async with session(notes, server, models=models) as opened:
        result = await opened.arun(notes, notes=NOTES)
    server.requests.clear()
    async with semgraph.Session(store="memory", journal=False, folder=notes.parent) as later:
        await later.arun(notes, resume=result.run)
    assert set(asked(server)) <= {"large", "nano"}


@pytest.mark.parametrize(
    ("changed", "models"),
    [
        ({"named": "other"}, ["large", "other", "large"]),
        ({"small": "other"}, ["large", "other", "large"]),
        ({"judged": "other"}, ["large", "nano", "other"]),
    ],
)
async def test_models_outrank_those_of_a_resumed_run(
    notes: Path, server: ModelServer, changed: dict[str, str], models: list[str]
):
    first = {
        "default": "large",
        next(iter(changed)) if "judged" not in changed else "small": "nano",
    }
    async with session(notes, server, models=first, max_calls=1) as opened:
        with pytest.raises(BudgetReached) as stopped:
            await opened.arun(notes, notes=NOTES)
    server.requests.clear()
    async with session(notes, server, models=changed) as later:
        await later.arun(notes, resume=stopped.value.result.run)
    assert asked(server) == models


async def test_a_choice_keeps_what_it_leaves_out(notes: Path, server: ModelServer):
    write(notes, PLAN + "use: {birds: packed(rows=2), named: per_row @ judge}\n")
    models = {"default": "large", "small": "nano", "judge": "strict"}
    use = {"birds": "@ small", "named": "packed(rows=3)"}
    async with session(notes, server, models=models) as opened:
        plan = opened.prepare(notes, use=use)
        assert {step: str(choice) for step, choice in plan.use.items()} == {
            "birds": "packed(rows=2) @ small",
            "named": "packed(rows=3) @ judge",
        }
    async with session(notes, server, models=models, use=use) as opened:
        assert (
            str(opened.prepare(notes, use={"birds": "per_row"}).use["birds"]) == "per_row @ small"
        )


CALLS = """\
plan: calls
inputs: {notes: {id: string, text: string}}
steps:
  first: [{call: {plan: p.yaml, inputs: {notes: notes}}}]
  second: [{call: {plan: p.yaml, inputs: {notes: notes}}}]
returns: {a: first.judged, b: second.judged}
"""


@pytest.mark.parametrize("names", [("first/named", "named"), ("named", "first/named")])
def test_the_whole_name_of_a_step_counts(notes: Path, server: ModelServer, names: tuple[str, str]):
    (notes.parent / "calls.yaml").write_text(CALLS)
    with session(notes, server, models=dict.fromkeys(names, "nano")) as opened:
        plan = opened.prepare(notes.parent / "calls.yaml")
    chosen = {step: plan.choice(step).model for step in ("first/named", "second/named")}
    assert chosen == {"first/named": "first/named", "second/named": "named"}


@pytest.mark.parametrize("choice", ["@ small", "p.yaml @ small"])
def test_a_call_has_no_model(notes: Path, server: ModelServer, choice: str):
    (notes.parent / "calls.yaml").write_text(CALLS)
    with pytest.raises(PlanError, match="@ small|a call has no model"):
        session(notes, server).prepare(notes.parent / "calls.yaml", use={"first": choice})


@pytest.mark.parametrize(("name", "meant"), [("brids", "birds"), ("jugde", "judge")])
def test_a_misspelt_step_or_role_of_a_plan_is_refused(
    notes: Path, server: ModelServer, name: str, meant: str
):
    refused = pytest.raises(PlanError, match=f'no step "{name}".*Did you mean "{meant}"')
    with session(notes, server, models={name: "m"}) as opened, refused:
        opened.prepare(notes)


async def test_a_step_may_bear_a_name_like_a_role(notes: Path, server: ModelServer):
    text = PLAN.replace("birds", "reranked").replace("sem_filter: {", "sem_filter: {role: judge, ")
    write(notes, text.replace("named:", "rerank:").replace("from: named", "from: rerank"))
    models = {"default": "large", "reranked": "one", "rerank": "two", "judged": "three"}
    async with session(notes, server, models=models) as opened:
        await opened.arun(notes, notes=NOTES)
    assert asked(server) == ["one", "two", "three"]


@pytest.mark.parametrize("name", ["a b", "", "*", "openai:x", "reranker", "Small"])
def test_names_of_objects_are_checked(notes: Path, name: str):
    from semgraph.llm.openai import OpenAI

    with pytest.raises(PlanError, match="is an unknown role"):
        semgraph.Session(models={name: OpenAI("own", "http://localhost:1/v1")})


async def test_none_is_no_model(notes: Path, server: ModelServer):
    llm = f"openai:all@{server.base_url}"
    models = {"default": None, "named": None}
    async with semgraph.Session(llm=llm, models=models, journal=False, folder=notes.parent) as one:
        await one.arun(notes, notes=NOTES)
    assert asked(server) == ["all", "all", "all"]


def test_the_embedder_may_be_one_of_the_models(notes: Path):
    from semgraph.llm.embed import OpenAIEmbedder

    own = OpenAIEmbedder("own", 8, "http://localhost:1/v1")
    with semgraph.Session(models={"embed": own}, folder=notes.parent) as opened:
        assert own.name in opened._repr_html_()


async def test_each_prompt_of_a_step_has_the_limits_of_its_model(notes: Path, server: ModelServer):
    (notes.parent / "prompts").mkdir()
    for name, front in (("one", "role: small\n"), ("two", "")):
        text = f"---\nreturns: {{name: string}}\n{front}---\n# item\nName {{{{text}}}}.\n"
        (notes.parent / "prompts" / f"{name}.md").write_text(text)
    plan = PLAN.replace('prompt: "Name {text}.", returns: {name: string}, role: small', "SET")
    write(
        notes, plan.replace("SET", 'prompt: {on: id, "1": one, otherwise: two}, on_error: "null"')
    )
    rows = [{"id": "1", "text": "heron"}, {"id": "2", "text": "owl"}]
    models = {"small": f"openai:nano@{server.base_url}?context=60&max_output=20"}
    llm = f"openai:large@{server.base_url}"
    async with semgraph.Session(llm=llm, models=models, folder=notes.parent) as opened:
        result = await opened.arun(notes, notes=rows)
        shown = opened.explain(notes)
    assert result.tables["judged"].column("name").to_pylist() == [None, "x"]
    assert Run(result.record).facts["models"]["named"].count("openai:") == 2
    assert "small openai:nano" in shown


def test_a_provider_that_needs_no_name_is_no_role(notes: Path, server: ModelServer):
    with session(notes, server, models={"default": "large"}) as opened:
        shown = json.loads(
            opened.explain(opened.prepare(notes, use={"birds": "@ local"}), format="json")
        )
    assert (
        next(s for s in shown["steps"] if s["step"] == "birds")["semantic"][0]["model"] == "local"
    )


async def test_a_record_names_all_models_of_a_step(notes: Path, server: ModelServer):
    rows = semgraph.table(NOTES, name="notes")
    frame = rows.sem_filter("Is {text} a bird?", role="small").sem_map(
        "Name {text}.", returns={"name": "string"}
    )
    async with session(notes, server, models={"default": "large", "small": "nano"}) as opened:
        result = await opened.arun(frame)
    (names,) = Run(result.record).facts["models"].values()
    assert [name.partition("@")[0] for name in names.split(", ")] == ["openai:nano", "openai:large"]


def test_explain_names_the_models_if_several_answer(notes: Path, server: ModelServer):
    with session(notes, server, models={"default": "large"}) as opened:
        assert "models:" not in opened.explain(notes)
    with session(notes, server, models={"default": "large", "small": "nano"}) as opened:
        line = next(line for line in opened.explain(notes).splitlines() if "models: " in line)
        assert "default openai:large" in line
        assert "small openai:nano" in line
        steps = json.loads(opened.explain(notes, format="json"))["steps"]
    named = {step["step"]: step["semantic"][0]["model"] for step in steps if step["semantic"]}
    assert named["named"].startswith("openai:nano")


TWICE = """\
plan: twice
inputs: {notes: {id: string, text: string}}
steps:
  a: [{from: notes}, {sem_map: {prompt: "Name {text}.", returns: {name: string}}}]
  b: [{from: notes}, {sem_map: {prompt: "Name {text}.", returns: {name: string}, role: small}}]
returns: [a, b]
"""


@pytest.mark.parametrize(
    ("models", "calls"), [({"default": "large"}, 1), ({"default": "large", "small": "nano"}, 2)]
)
async def test_equal_questions_to_two_models_are_two_calls(
    notes: Path, server: ModelServer, models: dict[str, str], calls: int
):
    write(notes, TWICE)
    async with session(notes, server, models=models) as opened:
        await opened.arun(notes, notes=NOTES)
    assert len(server.requests) == calls


async def test_a_recording_of_two_models_replays_both(notes: Path, server: ModelServer):
    file = notes.parent / "two.jsonl"
    models = {"default": "large", "small": "nano"}
    async with session(notes, server, models=models) as opened:
        first = await opened.arun(notes, notes=NOTES, record_to=file)
    async with semgraph.Session(llm=f"recorded:{file}", store="memory", folder=notes.parent) as two:
        again = await two.arun(notes, notes=NOTES)
    assert again.tables["judged"].equals(first.tables["judged"])


async def test_a_recording_of_a_step_with_a_model_replays_without_it(
    notes: Path, server: ModelServer
):
    file = notes.parent / "step.jsonl"
    async with session(notes, server, models={"default": "large", "named": "nano"}) as opened:
        first = await opened.arun(notes, notes=NOTES, record_to=file)
    async with semgraph.Session(llm=f"recorded:{file}", store="memory", folder=notes.parent) as two:
        again = await two.arun(notes, notes=NOTES)
    assert again.tables["judged"].equals(first.tables["judged"])


async def test_a_recording_of_one_model_serves_every_role(notes: Path, server: ModelServer):
    file = notes.parent / "one.jsonl"
    async with session(notes, server, models={"default": "large"}) as opened:
        await opened.arun(notes, notes=NOTES, record_to=file)
    write(notes, PLAN.replace("role: small", "role: rerank"))
    async with semgraph.Session(llm=f"recorded:{file}", store="memory", folder=notes.parent) as two:
        assert (await two.arun(notes, notes=NOTES)).tables["judged"].num_rows == 1


async def test_a_comparison_tries_models(notes: Path, server: ModelServer):
    models = {"default": "large", "small": "nano"}
    async with session(notes, server, models=models) as opened:
        await opened.acompare(
            notes,
            step="birds",
            variants={"large": "per_row", "nano": "per_row @ small"},
            notes=NOTES,
        )
    assert sorted(asked(server)) == ["large", "nano"]


async def test_a_comparison_of_implementations_keeps_the_model_of_the_step(
    notes: Path, server: ModelServer
):
    models = {"default": "large", "small": "nano", "birds": "keen"}
    variants = {"a": "per_row", "b": "packed(rows=2)", "c": "per_row @ small"}
    async with session(notes, server, models=models) as opened:
        result = await opened.acompare(
            notes, step="birds", variants=variants, notes=NOTES, times=True
        )
    assert sorted(asked(server)) == ["keen", "keen", "nano"]
    assert "large" not in result.model


async def test_a_comparison_of_plans_tries_models(notes: Path, server: ModelServer):
    models = {"default": "large", "small": "nano"}
    variants = {"as it is": {}, "all small": {"birds": "@ small", "judged": "@ small"}}
    async with session(notes, server, models=models) as opened:
        await opened.acompare(notes, variants=variants, notes=NOTES, times=True)
    assert sorted(asked(server)) == ["large", "large", "nano", "nano", "nano", "nano"]


async def test_the_record_of_a_comparison_has_no_part_of_a_key(
    notes: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch
):
    for name in ("OPENAI_API_KEY", "LM_API_TOKEN"):
        monkeypatch.setenv(name, "sk-abcdefghijklmnop")
    async with session(notes, server, models={"default": "large"}) as opened:
        variants = {"a": "per_row", "b": "packed(rows=2)"}
        compared = await opened.acompare(notes, step="birds", variants=variants, notes=NOTES)
        ran = await opened.arun(notes, notes=NOTES)
    for record in (compared.record, ran.record):
        assert "mnop" not in (record / "run.json").read_text()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"models": ["local"]}, "models is no mapping"),
        ({"models": {"small": 3}}, "small: 3 is no model"),
        ({"llm": 3}, "default: 3 is no model"),
        ({"embedder": object}, "embed: <class 'object'> is no model"),
    ],
)
def test_what_is_no_model_is_refused(given, said):
    with pytest.raises(PlanError, match=said):
        semgraph.Session(store="memory", **given)
