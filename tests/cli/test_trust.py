"""Keys and passwords go to hosts that the user named. A file of a folder, whichever it is, gets none
sent to a host of its own without the user's consent.
"""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

import semgraph as sg
from semgraph.errors import PlanError
from semgraph.llm import endpoints as trust
from semgraph.llm.faults import Transient
from semgraph.llm.openai import Wire
from semgraph.llm.services import SERVICES
from semgraph.llm.settings import Setting, Settings
from tests.cli.conftest import Project, Serving

KEY = "sk-proj-Zk3qWv81mYt0bNc5xLr7"
OTHER = "ghp_9dKf72LmQx04TbVz81RyWc"


@pytest.fixture(autouse=True)
def asked_nothing(project: Project) -> Iterator[None]:
    """A user with two keys, who names no model."""
    del project.env["SEMGRAPH_LLM"]
    project.env |= {"OPENAI_API_KEY": KEY, "GITHUB_TOKEN": OTHER}
    yield
    trust._allowed.clear()


def sent(serving: Serving) -> str:
    """All headers that came."""
    return json.dumps(serving.server.headers)


def url(serving: Serving) -> str:
    return serving.server.base_url


def host(serving: Serving) -> str:
    return url(serving).split("/")[2]


def by_toml(project: Project, model: str) -> list[str]:
    project.write("semgraph.toml", f'[models]\ndefault = "{model}"\nembed = "local"\n')
    return ["run", "people"]


def by_option(project: Project, model: str) -> list[str]:
    project.write("named.toml", f'[models]\ndefault = "{model}"\nembed = "local"\n')
    return ["run", "people", "--config", "named.toml"]


def by_variable(project: Project, model: str) -> list[str]:
    project.write("named.toml", f'[models]\ndefault = "{model}"\nembed = "local"\n')
    project.env["SEMGRAPH_CONFIG"] = "named.toml"
    return ["run", "people"]


def by_role(project: Project, model: str) -> list[str]:
    project.write("semgraph.toml", f'[models]\ndefault = "local"\nsmall = "{model}"\n')
    plan = (project.folder / "plans/people.yaml").read_text(encoding="utf-8")
    assert '"Who knows whom in: {text}",' in plan
    plan = plan.replace('in: {text}",', 'in: {text}", role: small,')
    project.write("plans/people.yaml", plan)
    return ["run", "people"]


def by_record(project: Project, model: str) -> list[str]:
    """A record that a stranger put among the user's."""
    named = ["--llm", model.partition("?")[0], "--embedder", "local"]
    key = project.env.pop("OPENAI_API_KEY")
    assert project("run", "people", *named).code == 0
    project.env["OPENAI_API_KEY"] = key
    [file] = (project.folder / ".semgraph/runs").glob("*/run.json")
    facts = json.loads(file.read_text())
    facts["settings"]["models.default"]["value"] = model
    file.write_text(json.dumps(facts))
    return ["run", "people", "--resume", "last", "--reprocess", "--no-cache"]


FILES: dict[str, Callable[[Project, str], list[str]]] = {
    "semgraph.toml": by_toml,
    "--config": by_option,
    "SEMGRAPH_CONFIG": by_variable,
    "a role": by_role,
    "a record": by_record,
}


KEYED = "?key_env=OPENAI_API_KEY"  # a server of this machine gets a key by name only


def crossed(names: str, files: Sequence[str], others: Sequence[str]) -> pytest.MarkDecorator:
    """Every file with the first of the others, each of the others with the first file; the rest nightly."""
    rare = [pytest.mark.nightly]
    pairs = [
        pytest.param(file, other, marks=rare if file != files[0] and other != others[0] else [])
        for file in files
        for other in others
    ]
    return pytest.mark.parametrize(names, pairs)


@crossed("file, key_env", [*FILES], ["?key_env=GITHUB_TOKEN", KEYED])
def test_a_file_of_a_folder_sends_no_key_to_a_host_of_its_own(
    project: Project, serving: Serving, file: str, key_env: str
) -> None:
    command = FILES[file](project, f"openai:m@{url(serving)}{key_env}")
    before = serving.calls
    ended = project(*command)
    assert (ended.code, serving.calls) == (2, before), ended.err
    name = "GITHUB_TOKEN" if "GITHUB" in key_env else "OPENAI_API_KEY"
    assert f"names {host(serving)}, which would be sent {name}" in ended.err
    assert (
        f'hosts = ["{host(serving)}"] under [trust] in {project.env["SEMGRAPH_HOME"]}' in ended.err
    )
    assert KEY not in sent(serving)
    assert OTHER not in sent(serving)


@crossed(
    "file, at",
    [name for name in FILES if name != "a record"],
    ["http://evil.example/v1", "http://localhost.evil.example:1/v1", "http://0.0.0.0:1/v1"],
)
def test_a_host_elsewhere_is_refused_without_key_env_too(
    project: Project, file: str, at: str
) -> None:
    ended = project(*FILES[file](project, f"openai:m@{at}"))
    assert ended.code == 2
    assert "which would be sent OPENAI_API_KEY" in ended.err


@crossed("file, name", [*FILES], ["127.0.0.1", "localhost", "LOCALHOST"])
def test_a_server_of_this_machine_that_a_folder_s_file_names_gets_no_key(
    project: Project, serving: Serving, file: str, name: str
) -> None:
    model = f"openai:m@{url(serving).replace('127.0.0.1', name)}"
    ended = project(*FILES[file](project, model))
    assert ended.code == 0, ended.err
    assert serving.server.headers[-1]["Authorization"] == "Bearer none"
    assert KEY not in sent(serving)


@crossed("file, listed", [*FILES], ["HOST", "127.0.0.1"])
def test_hosts_that_the_user_s_own_file_lists_get_keys(
    project: Project, serving: Serving, file: str, listed: str
) -> None:
    command = FILES[file](project, f"openai:m@{url(serving)}?key_env=GITHUB_TOKEN")
    hosts = [listed.replace("HOST", host(serving))]
    own = Path(project.env["SEMGRAPH_HOME"]) / "config.toml"
    own.parent.mkdir(exist_ok=True)
    own.write_text(f"[trust]\nhosts = {json.dumps(hosts)}\n")
    ended = project(*command)
    assert ended.code == 0, ended.err
    assert serving.server.headers[-1]["Authorization"] == f"Bearer {OTHER}"


@pytest.mark.parametrize("place", ["option", "variable", "own file", "OPENAI_BASE_URL"])
def test_addresses_that_the_user_names_get_the_key(
    project: Project, serving: Serving, place: str
) -> None:
    model, options = f"openai:m@{url(serving)}", []
    project.write("semgraph.toml", '[models]\nembed = "local"\n')
    if place == "option":
        options = ["--llm", model]
    elif place == "variable":
        project.env["SEMGRAPH_LLM"] = model
    elif place == "own file":
        own = Path(project.env["SEMGRAPH_HOME"]) / "config.toml"
        own.parent.mkdir(exist_ok=True)
        own.write_text(f'[models]\ndefault = "{model}"\n')
    else:
        by_toml(project, f"openai:m@{url(serving)}")
        project.env["OPENAI_BASE_URL"] = url(serving)
    assert project("run", "people", *options).code == 0
    assert serving.server.headers[-1]["Authorization"] == f"Bearer {KEY}"


def test_a_folder_s_file_does_not_choose_the_key_of_the_user_s_server(
    project: Project, serving: Serving
) -> None:
    project.env["OPENAI_BASE_URL"] = url(serving)
    ended = project(*by_toml(project, "openai:m?key_env=GITHUB_TOKEN"))
    assert (ended.code, serving.calls) == (2, 0), ended.err


def test_without_a_key_there_is_nothing_to_refuse(project: Project, serving: Serving) -> None:
    for key in ("none", None):
        project.env["OPENAI_API_KEY"] = key or ""
        assert project(*by_toml(project, f"openai:m@{url(serving)}"), "--no-cache").code == 0
        assert serving.server.headers[-1]["Authorization"] == "Bearer none"


def test_a_folder_s_file_cannot_trust_hosts(project: Project, serving: Serving) -> None:
    by_toml(project, f"openai:m@{url(serving)}{KEYED}")
    with (project.folder / "semgraph.toml").open("a") as file:
        file.write(f'[trust]\nhosts = ["{host(serving)}"]\n')
    ended = project("run", "people")
    assert (ended.code, serving.calls) == (2, 0)
    assert "trust.hosts is not for the file of a folder" in ended.err


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("n\n", 2), ("\n", 2), ("", 2)])
def test_on_a_terminal_the_user_is_asked_once(
    project: Project, serving: Serving, monkeypatch: pytest.MonkeyPatch, typed: str, code: int
) -> None:
    asked = _Terminal()
    monkeypatch.setattr(trust, "sys", type("Sys", (), {"stdin": _Terminal(typed), "stderr": asked}))
    command = by_toml(project, f"openai:m@{url(serving)}{KEYED}")
    with (project.folder / "semgraph.toml").open("a") as file:
        file.write(f'small = "openai:other@{url(serving)}{KEYED}"\n')
    assert project(*command).code == code
    question = (
        f"./semgraph.toml names {host(serving)}. Send it OPENAI_API_KEY, for this run? [y/N] "
    )
    assert asked.getvalue() == question
    assert (serving.calls > 0) == (code == 0)


@pytest.mark.parametrize(
    "address",
    [
        "https://api.openai.com.evil.example/v1",
        "https://api.openai.com@evil.example/v1",
        "https://evil.example\\@api.openai.com/v1",
        "https://api.openai.com\\@evil.example/v1",
        "https://evil.example/api.openai.com",
        "https://evil.example#@api.openai.com/v1",
        "https://api.openai.com:8443/v1",
        "http://api.openai.com/v1",
        "https://api.openai.com./v1",
        "https://trusted.example.evil.example/v1",
        "https://trusted.example@evil.example/v1",
        "https://trusted.example\\.evil.example/v1",
        "https://sub.trusted.example/v1",
        "https://trusted.example:443@evil.example:1/v1",
        "https://tru\u0455ted.example/v1",
    ],
)
def test_an_address_that_only_looks_trusted_is_not(tmp_path: Path, address: str) -> None:
    settings = _of(tmp_path)
    for secret in ("OPENAI_API_KEY", "OTHER_KEY"):
        with pytest.raises(PlanError, match="only you can allow that"):
            trust.require_trusted(secret, address, Setting(address, "./semgraph.toml", False), settings)  # fmt: skip


@pytest.mark.parametrize(
    "address",
    [
        "https://API.openai.com/v1",
        "https://api.openai.com:443/v1",
        "https://trusted.example/v1",
        "http://trusted.example:8000/v1",
        "https://me:word@TRUSTED.example/v1",
        "http://[::1]:7/v1",
        "http://other.example:9000/v1",
    ],
)
def test_an_address_of_a_trusted_host_is_trusted(tmp_path: Path, address: str) -> None:
    setting = Setting(address, "./semgraph.toml", False)
    trust.require_trusted("OPENAI_API_KEY", address, setting, _of(tmp_path))


def _of(folder: Path) -> Settings:
    hosts = '["Trusted.example", "[::1]", "other.example:9000"]'
    (folder / "config.toml").write_text(f"[trust]\nhosts = {hosts}\n")
    return Settings.load({}, {"SEMGRAPH_HOME": str(folder)}, folder)


@pytest.mark.parametrize("kind", ["embed", "doctor", "doctor --call"])
def test_embedders_and_the_doctor_send_no_key_either(
    project: Project, serving: Serving, kind: str
) -> None:
    model = f"openai:m@{url(serving)}{KEYED}"
    named = f'default = "local"\nembed = "{model}"' if kind == "embed" else f'default = "{model}"'
    project.write("semgraph.toml", f"[models]\n{named}\n")
    ended = project(*("doctor" if kind == "embed" else kind).split())
    assert "would be sent OPENAI_API_KEY" in ended.out + ended.err
    assert not serving.server.headers
    assert not serving.server.embedding_requests


def test_the_password_of_a_store_goes_to_no_host_of_a_folder_s_file(project: Project) -> None:
    with _listening() as (port, got):
        project.env["NEO4J_PASSWORD"] = "correct-horse-battery-7"
        project.write("semgraph.toml", f'store = "bolt://127.0.0.1:{port}"\n[models]\ndefault = "recorded"\n')  # fmt: skip
        ended = project("run", "find", "--llm", "local", "-i", "queries=[]")
        assert ended.code == 2, ended.err
        assert f"names 127.0.0.1:{port}, which would be sent NEO4J_PASSWORD" in ended.err
        assert "NEO4J_PASSWORD" in (told := project("doctor")).out + told.err
        assert not got


def test_a_cluster_that_a_folder_s_file_names_is_not_entered(project: Project) -> None:
    project.write("semgraph.toml", 'engine = "ray://evil.example:10001"\n')
    ended = project("run", "people")
    assert ended.code == 2
    assert "names evil.example:10001, which would be sent the keys" in ended.err


def test_a_refused_cluster_is_named_before_the_plans_before_the_example_are_run(
    project: Project,
) -> None:
    project.write("semgraph.toml", 'engine = "ray://evil.example:10001"\n')
    ended = project("run", "search", "--llm", "recorded", "--store", "memory")
    assert "names evil.example:10001, which would be sent the keys" in ended.err
    assert "add_episode" not in ended.err
    assert not list((project.folder / ".semgraph" / "runs").glob("*"))


@pytest.mark.parametrize("name", ["openai", "anthropic"])
async def test_a_redirect_to_another_host_gets_no_key(serving: Serving, name: str) -> None:
    """A key that is not in `Authorization` would follow it: such a redirect is refused."""
    (service,) = (each for each in SERVICES if each.name == name)

    class Redirect(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(307)
            self.send_header("Location", f"{url(serving)}/chat/completions")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Redirect)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    wire = Wire("m", f"http://127.0.0.1:{server.server_port}/v1", KEY, 10, service)
    body = {"model": "m", "messages": [{"role": "user", "content": "Ann knows Bob."}]}
    refused = pytest.raises(Transient, match="307") if service.protocol != "chat" else nullcontext()
    with refused:
        await wire.post("chat/completions", json.dumps(body).encode())
    await wire.aclose()
    await asyncio.to_thread(server.shutdown)
    server.server_close()
    assert serving.calls == (1 if service.protocol == "chat" else 0)
    assert KEY not in sent(serving)


@contextmanager
def _listening() -> Iterator[tuple[int, list[bytes]]]:
    """A port of this machine, and all that is sent to it."""
    import socket

    got: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def take() -> None:
            try:
                while True:
                    connection, _ = server.accept()
                    got.append(connection.recv(4096))
                    connection.close()
            except OSError:
                return

        threading.Thread(target=take, daemon=True).start()
        yield server.getsockname()[1], got


def test_what_python_code_names_is_the_user_s(project: Project, serving: Serving, monkeypatch: Any) -> None:  # fmt: skip
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("SEMGRAPH_HOME", project.env["SEMGRAPH_HOME"])
    model = f"openai:m@{url(serving)}"
    with sg.Session(llm=model, embedder="local", store="memory", folder=project.folder) as session:
        assert session.run("plans/people.yaml").exit_code == 0
    assert serving.server.headers[-1]["Authorization"] == f"Bearer {KEY}"


EVIL = "openai:m@http://evil.example/v1?key_env=GITHUB_TOKEN"


@pytest.mark.parametrize("place", ["role", "preset", "--use", "--set", "choice"])
def test_a_plan_names_roles_and_no_models(project: Project, serving: Serving, place: str) -> None:
    plan = (project.folder / "plans/people.yaml").read_text(encoding="utf-8")
    role = f'in: {{text}}", role: "{EVIL}",' if place == "role" else 'in: {text}", role: $who,'
    plan = plan.replace('in: {text}",', role).replace("{least: 0}", "{least: 0, who: default}")
    plan += f'presets: {{theirs: {{who: "{EVIL}"}}}}\n' if place == "preset" else ""
    project.write("plans/people.yaml", plan)
    options = {
        "role": [],
        "preset": ["--preset", "theirs"],
        "--use": ["--use", f"told={EVIL}"],
        "--set": ["--set", f"who={EVIL}"],
        "choice": ["--use", f"told=@ {EVIL}"],
    }[place]
    ended = project("run", "people", "--llm", f"openai:m@{url(serving)}", *options)
    assert (ended.code, serving.calls) == (2, 0), ended.err


@pytest.mark.parametrize(
    "text",
    [
        "getenv('OPENAI_API_KEY')",
        "read_text('/etc/passwd')",
        "(SELECT content FROM read_text('/etc/passwd'))",
        "text; COPY (SELECT 1) TO '/tmp/x'",
        "current_setting('home_directory')",
        "getvariable('x')",
    ],
)
def test_expressions_read_no_files_and_no_variables(
    project: Project, serving: Serving, text: str
) -> None:
    plan = (project.folder / "plans/people.yaml").read_text(encoding="utf-8")
    project.write("plans/people.yaml", plan.replace("says: text", f'says: "{text}"'))
    ended = project("run", "people", "--llm", f"openai:m@{url(serving)}")
    assert (ended.code, serving.calls) == (2, 0), ended.out
