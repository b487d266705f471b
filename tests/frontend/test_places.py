"""A plan file names files in its own folder and shipped plans; nothing outside is read, quoted or
sent.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import semgraph as sg
from semgraph.conformance.cases import Mind, Oracle
from semgraph.errors import PlanError
from semgraph.folders import plans_folder

SECRET = "sesame-0123"
PLAN = """plan: mine
{head}
inputs: {{notes: {{group_id: string, text: string}}}}
steps:
  found:
    - {step}
returns: [found]
"""
ASK = "from: notes\n    - sem_filter: {{prompt: {}}}"
ALL = "from: notes"
OUTSIDE = r"is outside the folder of the plan"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a plan; beside it, outside, files that hold a secret."""
    (tmp_path / "secret.md").write_text(f"# item\nIs {{text}} {SECRET}?\n", encoding="utf-8")
    (tmp_path / "secret.yaml").write_text(f"{SECRET}: [1]\n", encoding="utf-8")
    (tmp_path / "plans.d" / "prompts").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "plans.d")
    return tmp_path / "plans.d"


def refused(folder: Path, head: str = "", step: str = ALL, match: str = OUTSIDE) -> str:
    """Check a plan that must be refused without a word of the secret; returns the error."""
    path = folder / "mine.yaml"
    path.write_text(PLAN.format(head=head, step=step), encoding="utf-8")
    session = sg.Session(llm=Oracle(Mind()), store="memory", journal=False, runs="", folder=folder)
    with session, pytest.raises(PlanError, match=match) as caught:
        session.prepare(path)
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_a_prompt_outside_is_refused(folder: Path) -> None:
    said = refused(folder, step=ASK.format(folder.parent / "secret"))
    assert said.startswith("mine.yaml:7:28  step found: the prompt file")
    assert "copy the file there" in said


def test_a_link_to_a_prompt_outside_is_refused(folder: Path) -> None:
    (folder / "prompts" / "linked.md").symlink_to(folder.parent / "secret.md")
    refused(folder, step=ASK.format("linked"))


def test_a_folder_of_prompts_that_is_a_link_is_refused(folder: Path) -> None:
    (folder / "prompts").rmdir()
    (folder / "prompts").symlink_to(folder.parent)
    refused(folder, step=ASK.format("secret"))


@pytest.mark.parametrize(
    "name", ["../secret.yaml", "/etc/passwd", "../missing.yaml", "linked.yaml", "ring.yaml"]
)
def test_a_graph_outside_is_refused_whether_it_exists_or_not(folder: Path, name: str) -> None:
    (folder / "linked.yaml").symlink_to(folder.parent / "secret.yaml")
    (folder / "ring.yaml").symlink_to(folder / "ring.yaml")
    said = refused(folder, head=f"graph: {name}", match=OUTSIDE)
    assert "root:" not in said


@pytest.mark.parametrize(
    "name", ["../secret", "../secret.yaml", "../../etc/hosts", "linked", "../missing"]
)
def test_a_called_plan_outside_is_refused_whether_it_exists_or_not(folder: Path, name: str) -> None:
    (folder / "linked.yaml").symlink_to(folder.parent / "secret.yaml")
    said = refused(folder, step="call: {plan: " + name + ", inputs: {}}")
    assert said.startswith("mine.yaml:6:20  step found: ")


def test_an_absolute_path_of_a_called_plan_is_refused(folder: Path) -> None:
    refused(folder, step=f"call: {{plan: {folder.parent / 'secret.yaml'}}}")


@pytest.mark.parametrize("place", ["graph.yaml", "prompts/pipe.md", "called.yaml"])
def test_a_pipe_is_refused_and_not_waited_for(folder: Path, place: str) -> None:
    os.mkfifo(folder / place)
    head = "graph: graph.yaml" if place == "graph.yaml" else ""
    step = {"prompts/pipe.md": ASK.format("pipe"), "called.yaml": "call: {plan: called}"}.get(
        place, ALL
    )
    refused(folder, head, step, match=r"no graph file|no prompt file|no plan|no regular file")


@pytest.mark.parametrize("device", ["pipe.yaml", "/dev/zero"])
def test_a_plan_is_a_regular_file(folder: Path, device: str) -> None:
    os.mkfifo(folder / "pipe.yaml")
    session = sg.Session(llm=Oracle(Mind()), store="memory", journal=False, runs="", folder=folder)
    with session, pytest.raises(PlanError, match="no regular file"):
        session.prepare(folder / device)


def test_files_below_the_plan_s_folder_and_shipped_plans_may_be_named(folder: Path) -> None:
    """Also where the plan is reached by a link to its folder, and by links within it."""
    (folder / "graphs").mkdir()
    (folder / "graphs" / "people.yaml").write_text(
        "graph: people\nnodes: {Person: {properties: {name: string}}}\n", encoding="utf-8"
    )
    (folder / "linked.yaml").symlink_to(folder / "graphs" / "people.yaml")
    (folder / "prompts" / "deep").mkdir()
    (folder / "prompts" / "deep" / "own.md").write_text("# item\nIs {text} so?\n", encoding="utf-8")
    (folder.parent / "link").symlink_to(folder)
    for graph in ("graphs/people.yaml", "linked.yaml"):
        path = folder / "mine.yaml"
        path.write_text(
            PLAN.format(head=f"graph: {graph}", step=ASK.format("deep/own")), encoding="utf-8"
        )
        with sg.Session(
            llm=Oracle(Mind()), store="memory", journal=False, runs="", folder=folder
        ) as session:
            assert session.prepare(folder.parent / "link" / "mine.yaml").name == "mine"
            assert session.prepare("mine").name == "mine"


def test_shipped_files_may_be_named_from_any_folder(folder: Path) -> None:
    graph = os.path.relpath(plans_folder() / "graph.yaml", folder)
    path = folder / "mine.yaml"
    path.write_text(
        PLAN.format(head=f"graph: {graph}", step="from: {label: Entity, partition: all}"),
        encoding="utf-8",
    )
    with sg.Session(
        llm=Oracle(Mind()), store="memory", journal=False, runs="", folder=folder
    ) as session:
        assert session.prepare(path).graph.name == "memory"
