"""Keys and passwords that this process knows appear in no error, record or report."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import semgraph as sg
from semgraph.errors import (
    DataError,
    ModelUnavailable,
    PlanError,
    Problem,
    SemgraphError,
    StoreUnavailable,
)
from semgraph.llm.settings import Settings
from semgraph.privacy import HIDDEN, learn, redacted
from tests.cli.conftest import Project, Serving
from tests.llm.server import Answer, error

KEY = "sk-proj-9f8e7d6c5b4a+/x&y"


def kept(folder: Path) -> str:
    """Every byte below a folder, as text."""
    return "".join(
        path.read_bytes().decode("latin-1") for path in folder.rglob("*") if path.is_file()
    )


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
@pytest.mark.parametrize("options", [[], ["-v"], ["--format", "json"]])
def test_a_key_that_an_endpoint_echoes_is_not_shown_or_recorded(
    project: Project, serving: Serving, status: int, options: list[str]
) -> None:
    project.env["OPENAI_API_KEY"] = KEY

    async def echo(_: dict[str, Any]) -> Any:
        words = f"{'x' * 280}Bad key {KEY}, url ?key={quote(KEY, safe='')}, in full {KEY}"
        return error(status, words[270:] if status != 400 else words)

    serving.server.answer = echo
    ended = project("run", "people", *options)
    assert ended.code != 0
    assert KEY not in ended.out + ended.err
    assert KEY[:12] not in ended.out + ended.err
    assert KEY[:12] not in kept(project.folder / ".semgraph")
    if project("runs", "show", "last").code == 0:
        assert project("report", "last", "-o", "out.html").code == 0
        assert KEY[:12] not in (project.folder / "out.html").read_text(encoding="utf-8")


def test_a_key_in_a_refusal_is_not_recorded(project: Project, serving: Serving) -> None:
    project.env["OPENAI_API_KEY"] = KEY

    async def refuse(_: dict[str, Any]) -> Any:
        return Answer(None, refusal=f"I do not serve {KEY}.")

    serving.server.answer = refuse
    ended = project("run", "people")
    assert ended.code == 3, ended.err
    assert "I do not serve [secret]." in ended.out + ended.err + kept(
        project.folder / ".semgraph" / "runs"
    )
    runs = kept(project.folder / ".semgraph" / "runs")
    assert KEY not in ended.out + ended.err + runs


@pytest.mark.parametrize(
    "address",
    [
        "neo4j://ann:pass-w0rd@localhost:1",
        "bolt://ann:pass-w0rd@localhost:1",
        "neo4j://ann:pa%2Fss-w0rd@nowhere",
    ],
)
@pytest.mark.parametrize("place", ["option", "environment", "file"])
def test_a_password_in_the_address_of_a_store_is_not_shown(
    project: Project, address: str, place: str
) -> None:
    options = ["--store", address] if place == "option" else []
    if place == "environment":
        project.env["SEMGRAPH_STORE"] = address
    if place == "file":
        project.write("semgraph.toml", f'store = "{address}"\n')
    for command in (["run", "people"], ["run", "people", "-v"], ["doctor"], ["explain", "people"]):
        ended = project(*command, *options)
        assert "ss-w0rd" not in ended.out + ended.err, command
    assert not (project.folder / ".semgraph").exists() or "ss-w0rd" not in kept(
        project.folder / ".semgraph" / "runs"
    )


@pytest.mark.parametrize("place", ["option", "environment", "file"])
@pytest.mark.parametrize(
    "model", ["openai:m?api_key=k-3y%2Fabc", "openai:m@http://gpu:1/v1?access_token=k-3y%2Fabc"]
)
def test_a_key_that_was_typed_as_an_option_of_a_model_is_not_shown(
    project: Project, model: str, place: str
) -> None:
    options = ["--llm", model] if place == "option" else []
    if place == "environment":
        project.env["SEMGRAPH_LLM"] = model
    else:
        project.env.pop("SEMGRAPH_LLM", None)
    if place == "file":
        project.write("semgraph.toml", f'[models]\ndefault = "{model}"\n')
    for command in (["run", "people"], ["run", "people", "-v"], ["doctor"]):
        ended = project(*command, *options)
        assert ended.code != 0
        assert "unknown option" in ended.out + ended.err
        assert "k-3y" not in ended.out + ended.err, command


def test_what_an_unexpected_error_says_is_recorded_without_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn("a-key-of-m1ne")

    async def broken(*_: object) -> None:
        raise RuntimeError("unexpected, with a-key-of-m1ne")

    monkeypatch.setattr("semgraph.execution.executor.Executor.run", broken)
    with (
        sg.Session(llm="recorded", store="memory", folder=tmp_path) as session,
        pytest.raises(RuntimeError),
    ):
        session.run("add_episode")
    assert "unexpected, with [secret]" in kept(tmp_path / ".semgraph" / "runs")
    assert "a-key-of-m1ne" not in kept(tmp_path / ".semgraph")


def test_errors_of_the_python_api_hold_no_password(tmp_path: Path) -> None:
    session = sg.Session(
        store="neo4j://ann:hunter22@localhost:1", llm="recorded", folder=tmp_path, runs=""
    )
    with session, pytest.raises(SemgraphError) as caught:
        session.run("add_episode")
    assert "hunter22" not in "".join(traceback.format_exception(caught.value)[-1:])
    assert "hunter22" not in str(caught.value)


@pytest.mark.parametrize(
    "kind", [SemgraphError, ModelUnavailable, StoreUnavailable, DataError, PlanError]
)
def test_every_error_hides_the_secrets_of_the_environment(
    tmp_path: Path, kind: type[SemgraphError]
) -> None:
    environment = {
        "MY_SERVICE_KEY": "key-of-a-service",
        "NEO4J_PASSWORD": 'quo"ted <pass>',
        "HF_TOKEN": "hf_token-1",
        "HTTPS_PROXY": "http://me:proxy-pa55@proxy:8080",
        "SHORT_KEY": "abc",
        "OTHER": "not a secret at all",
    }
    Settings.load({"llm": "local?threads=1"}, environment, tmp_path)
    for name, value in environment.items():
        said = str(kind(f"it says {value}!"))
        hidden = name not in {"SHORT_KEY", "OTHER", "HTTPS_PROXY"}
        assert (HIDDEN in said) == (hidden or name == "HTTPS_PROXY"), name
        assert (value in said) == (name in {"SHORT_KEY", "OTHER"}), name
    assert str(Problem("a hf_token-1", there="proxy-pa55")) == "a [secret]. [secret]"


def test_a_key_named_by_key_env_is_a_secret(tmp_path: Path) -> None:
    Settings.load(
        {"llm": "openai:m@http://gpu:1/v1?key_env=GPU"}, {"GPU": "gpu-secret-7"}, tmp_path
    )
    assert str(SemgraphError("no gpu-secret-7")) == "no [secret]"


def test_a_secret_is_found_in_the_forms_that_text_takes() -> None:
    learn('a&"b/ü x')
    forms = (
        'a&"b/ü x',
        "a%26%22b%2F%C3%BC%20x",
        "a%26%22b%2F%C3%BC+x",
        'a&\\"b/ü x',
        "a&amp;&quot;b/ü x",
        "a&amp;&#34;b/ü x",
    )
    for form in forms:
        assert redacted(f"<{form}>") == f"<{HIDDEN}>", form


ROWS = """
plan: notes
graph: graph.yaml
inputs: {notes: {id: string, password: string, group_id: string, at: timestamp}}
windows: {input: notes, partition: group_id, key: id, order: at}
steps:
  told: [{from: notes}, {sem_filter: {prompt: "Is it harmless: {password}"}}]
returns: [told]
writes: [{merge: {from: told, node: Note, key: id}}]
"""


def test_a_password_that_is_a_word_changes_no_text_of_the_users(
    project: Project, serving: Serving
) -> None:
    project.env["NEO4J_PASSWORD"] = "password"
    project.write("plans/graph.yaml", "graph: notes\nnodes: {Note: {properties: {text: string}}}\n")
    project.write("plans/notes.yaml", ROWS)
    notes = [
        {"id": n, "password": f"password {n}", "group_id": "g", "at": f"2025-01-0{n}T00:00:00Z"}
        for n in ("1", "2")
    ]
    project.write("notes.jsonl", "\n".join(map(json.dumps, notes)))

    async def answer(body: dict[str, Any]) -> Any:
        asked = body["messages"][-1]["content"]
        return (
            Answer(None, refusal="It is a password.")
            if "password 2" in asked
            else json.dumps({"answer": "yes"})
        )

    serving.server.answer = answer
    ended = project("run", "notes", "-i", "notes=notes.jsonl", "--format", "json")
    assert ended.code == 3, ended.err
    told = json.loads(ended.out)
    assert [row["password"] for row in told["tables"]["told"]] == ["password 1"]
    assert told["failed"][0]["error"].endswith("It is a password.")
    [file] = (project.folder / ".semgraph" / "runs").rglob("failed.jsonl")
    failed = json.loads(file.read_text())
    assert {name: failed[name] for name in notes[1]} == notes[1], "the next run reads it"
    assert failed["_error"].endswith("It is a password.")


@pytest.mark.parametrize(
    "key", ["ollama", "none", "EMPTY", "lm-studio", "not-needed", "password", "episode", "123456"]
)
def test_a_word_in_place_of_a_key_mangles_nothing(tmp_path: Path, key: str) -> None:
    Settings.load({}, {"OPENAI_API_KEY": key, "SOME_TOKEN": key, "NEO4J_PASSWORD": key}, tmp_path)
    said = f"no plan add_{key}; http://{key}:11434 does not answer: {key}"
    assert str(SemgraphError(said)) == said


def test_a_short_secret_is_hidden_as_a_word_of_its_own(tmp_path: Path) -> None:
    Settings.load({}, {"SOME_TOKEN": "hunter2"}, tmp_path)
    assert str(SemgraphError("hunter2, 'hunter2' and key=hunter2&x")) == "[secret], '[secret]' and key=[secret]&x"  # fmt: skip
    assert str(SemgraphError("hunter20 and myhunter2")) == "hunter20 and myhunter2"


REALISTIC = (
    "sk-proj-T3st_Ab9-Cd8eFg7hIj6kLm5nOp4qRs3tUv2wXy1z",
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "AKIAIOSFODNN7EXAMPLE/wJalrXUtnFEMI+K7MDENG=",
    "p@ss/w0rd&<x>",
)


@pytest.mark.parametrize("key", REALISTIC)
@pytest.mark.parametrize(
    "form",
    [
        "Incorrect API key provided: {key}.",
        "Authorization: Bearer {key}",
        "{{'Authorization': 'Bearer {key}'}}",
        "GET /v1?api_key={url} failed",
        "GET /v1?api_key={lower} failed",
        '{{"error": "bad key {json}"}}',
        '{{\\"error\\": \\"bad key {json2}\\"}}',
        "https://user:{url}@host/v1",
        "{html}",
        "x{long}y",
    ],
)
def test_realistic_keys_are_hidden_in_the_forms_of_an_echo(
    tmp_path: Path, key: str, form: str
) -> None:
    Settings.load({}, {"SOME_API_KEY": key}, tmp_path)
    escape = html.escape(key)
    url = quote(key, safe="")
    said = form.format(
        key=key, url=url, lower=url.lower() if url.upper() == url else re.sub("%..", lambda m: m[0].lower(), url),
        json=json.dumps(key)[1:-1].replace("/", "\\/"), json2=json.dumps(json.dumps(key)[1:-1])[1:-1],
        html=escape, long=key if len(key) > 15 else f" {key} ",
    )  # fmt: skip
    for raised in (SemgraphError(said), PlanError(Problem(said)), DataError(said)):
        shown = str(raised)
        assert HIDDEN in shown
        assert not any(part in shown for part in (key, url, escape, key[4:12]))


def test_a_password_in_an_address_and_a_bearer_token_are_hidden_by_their_place() -> None:
    said = "neo4j://ann:letmein@host rejects; Authorization: Bearer eyJ0.a1b2c3 was sent"
    hidden = "neo4j://ann:[secret]@host rejects; Authorization: Bearer [secret] was sent"
    assert redacted(said) == hidden
    for text in ("http://host:8000/v1", "a bearer of authentication", "at 10:30@noon"):
        assert redacted(text) == text


def test_control_characters_are_shown_as_escapes(project: Project) -> None:
    odd, shown = "a\x1b[2J\x07\x9b\u202e\r", "a\\x1b[2J\\x07\\x9b\\u202e\\r"
    for raised in (SemgraphError(odd), PlanError(Problem(odd)), DataError(odd), PlanError(odd)):
        assert str(raised) == shown
    ended = project("run", "people", "--set", f"{odd}=1", "-v")
    assert ended.code == 2
    assert shown in ended.err
    assert not any(c in ended.out + ended.err for c in "\x1b\x07\x9b\u202e")
    for command in (["run", odd], ["why", odd], ["runs", "show", odd], ["plans", "check", odd]):
        ended = project(*command, "--format", "json")
        assert not any(c in ended.out + ended.err for c in "\x1b\x07\x9b\u202e"), command


def test_a_report_of_another_process_hides_a_key_that_a_row_has(project: Project) -> None:
    """The process that writes it opens no model, and so learns no key from settings."""
    key = "sk-of-a-row-1f2e3d4c5b6a"
    project.write("rows.jsonl", f'{{"text": "My key is {key}."}}')
    project.write(
        "notes.yaml",
        "plan: notes\ninputs: {rows: {text: string}}\nreturns: [kept]\n"
        "steps: {kept: [{from: rows}, {sem_filter: 'Is “{text}” true?'}]}\n",
    )
    assert project("run", "notes.yaml", "-i", "rows=rows.jsonl", "--llm", "dummy").code == 0
    command = [sys.executable, "-m", "semgraph", "report", "last", "-o", "out.html"]
    env = {**os.environ, **project.env, "OPENAI_API_KEY": key}
    subprocess.run(command, cwd=project.folder, env=env, check=True, capture_output=True)
    text = (project.folder / "out.html").read_text(encoding="utf-8")
    assert "My key is [secret]" in text
    assert key not in text
