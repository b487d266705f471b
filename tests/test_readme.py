"""The README says what is so: its commands run, its plan is the algebra beside it, its Python
works.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.world import StandIn
from semgraph.engine.engines import EngineSpec
from semgraph.semantic.library import Library
from tests.cli.conftest import Project
from tests.llm.server import ModelServer
from tests.served import served

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


FIRST = ["run", "add_episode"]


def blocks(language: str) -> list[str]:
    """The code blocks of a language."""
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def commands() -> list[list[str]]:
    """Every `semgraph ...` of the README, in order, as words."""
    lines = [line for block in blocks("bash") for line in block.splitlines()]
    found = [line for line in lines if line.startswith("semgraph ")]
    found += [c for c in re.findall(r"`(semgraph [^`\n]+)`", README) if c not in found]
    return [shlex.split(line, comments=True)[1:] for line in found]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A folder of its own, and a model that understands the shipped prompts."""
    folder = tmp_path_factory.mktemp("readme")
    standin = StandIn()
    with served(standin):
        yield Project(
            folder,
            {
                "PATH": "/usr/bin",
                "HOME": str(folder),
                "SEMGRAPH_HOME": str(folder / "home"),
                "SEMGRAPH_LLM": f"openai:standin@{standin.base_url}",
                "SEMGRAPH_EMBEDDER": f"openai:vectors@{standin.base_url}",
                "OPENAI_API_KEY": "key",
            },
        )


def test_there_are_commands_to_try() -> None:
    assert FIRST in commands()
    assert len(commands()) >= 8


def test_every_command_runs_in_the_order_of_the_page(project: Project) -> None:
    for text, name in re.findall(r"^echo '(.*)' > (\S+)$", "\n".join(blocks("bash")), re.MULTILINE):
        project.write(name, text + "\n")
    for words in commands():
        more = (
            ["--help"] if words[:2] in (["neo4j", "start"], ["doctor"]) else []
        )  # have tests of their own
        more += (
            ["--store", "memory"] if "recorded" in words else []
        )  # its vectors are of another length
        done = project(*words, *more)
        assert done.code == 0, (words, done.err)


def test_the_demo_shows_what_the_recorded_run_prints(project: Project) -> None:
    """All but the column of times."""
    shown = [" ".join(line.split()) for line in README.split("```\n")[2].strip().split("\n")]
    done = project("run", "plans/add_episode.yaml", "--llm", "recorded", "--store", "memory")
    printed = [" ".join(line.split()) for line in done.out.split("\n")]
    assert len(shown) > 10
    assert [line for line in shown if not any(told.startswith(line) for told in printed)] == []


def test_the_plan_is_the_algebra_beside_it(project: Project) -> None:
    (text,) = blocks("yaml")
    project.write("complaints.yaml", text)
    assert project("plans", "check", "complaints.yaml").code == 0
    lines = project("explain", "complaints.yaml", "--format", "algebra").out
    assert "sem_filter" in lines
    assert "γ_{product; list(DISTINCT customer)→customers, count(*)→n}" in "".join(
        lines.split("\n")
    )


def test_every_promise_names_a_test_that_exists() -> None:
    promises = README.split("## What it promises")[1].split("\n## ")[0]
    items = re.split(r"^- ", promises, flags=re.MULTILINE)[1:]
    assert len(items) >= 6
    for item in items:
        tests = re.findall(r"<!-- (\S+\.py)::(\S+) -->", item)
        assert tests, item
        for file, path in tests:
            text = (ROOT / file).read_text(encoding="utf-8")
            assert all(
                re.search(rf"^\s*(async def|def|class) {name}\b", text, re.MULTILINE)
                for name in path.split("::")
            ), path


async def complains(body: dict[str, Any]) -> str:
    """Answers both questions of the page, in the form that is asked for."""
    ((name, form),) = body["response_format"]["json_schema"]["schema"]["properties"].items()
    if name == "product":
        return json.dumps({name: "Falcon kettle"})
    yes = "leaks" in body["messages"][-1]["content"]
    return json.dumps({name: ("yes" if yes else "no") if "enum" in form else yes})


def test_the_plan_and_the_python_code_give_the_documented_results(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server = ModelServer(complains)
    with served(server):
        project.write("complaints.yaml", blocks("yaml")[0])
        model = f"openai:test@{server.base_url}"
        done = project("run", "complaints.yaml", "--llm", model, "--format", "json")
        assert done.code == 0, done.err
        found = json.loads(done.out)
        assert found["tables"]["products"] == [
            {"product": "Falcon kettle", "customers": ["c9"], "n": 1}
        ]
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("OPENAI_API_KEY", "key")
        (code,) = blocks("python")
        assert 'llm="openai:gpt-4.1-mini"' in code
        names: dict[str, Any] = {}
        exec(code.replace("openai:gpt-4.1-mini", model).replace(", max_usd=1", ""), names)
    (table,) = names["result"].tables.values()
    assert table.column("id").to_pylist() == ["1"]
    assert "sem_filter" in names["complaints"].to_yaml()


def test_the_named_implementations_exist() -> None:
    library = Library()
    for name in re.findall(r"--use '\w+=(\w+)", README):
        assert name in library.names("sem_join")


def test_the_named_engines_exist() -> None:
    engines = re.findall(r"`--engine ([^`]+)`", README)
    assert "ray" in engines
    for engine in engines:
        assert str(EngineSpec.parse(engine)) == engine


def test_the_make_targets_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in ("demo", "test", "check"):
        assert f"make {target}" in README
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_links_resolve() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", re.sub(r"```.*?```", "", README, flags=re.DOTALL)):
        assert link.startswith("https://") or (ROOT / link).exists(), link
