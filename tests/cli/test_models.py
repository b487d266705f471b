"""`--model`: the model of a role or of a step."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Project, Serving


def models(serving: Serving) -> set[str]:
    """The models that were asked."""
    return {request["model"] for request in serving.server.requests}


@pytest.mark.parametrize("name", ["told", "default"])
def test_a_step_or_a_role_has_its_model(project: Project, serving: Serving, name: str) -> None:
    model = f"openai:keen@{serving.server.base_url}"
    ended = project("run", "people", "--model", f"{name}={model}")
    assert ended.code == 0, ended.err
    assert models(serving) == {"keen"}


def test_a_choice_names_a_role(project: Project, serving: Serving) -> None:
    model = f"openai:nano@{serving.server.base_url}"
    ended = project("run", "people", "--model", f"small={model}", "--use", "told=@ small")
    assert ended.code == 0, ended.err
    assert models(serving) == {"nano"}


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("tolld", 'plan people has no role and no step "tolld"'),
        ("smal", 'did you mean "models.small"'),
    ],
)
def test_a_name_of_nothing_is_refused(
    project: Project, serving: Serving, name: str, says: str
) -> None:
    ended = project("run", "people", "--model", f"{name}=openai:keen@{serving.server.base_url}")
    assert ended.code == 2
    assert says.lower() in ended.err.lower()
    assert serving.calls == 0


def test_the_embedder_is_named_once(project: Project) -> None:
    ended = project("run", "people", "--model", "embed=local", "--embedder", "local")
    assert ended.code == 2
    assert "models.embed is set twice" in ended.err


def test_the_next_command_has_the_models_of_roles_only(project: Project) -> None:
    recorded = ("--llm", "recorded", "--model", "small=recorded", "--model", "verdicts=recorded")
    ended = project("run", "add_episode", *recorded)
    assert ended.code == 0, ended.err
    lines = [line for line in ended.err.splitlines() if line.startswith("Next: semgraph run")]
    assert lines
    assert all("--model small=recorded" in line and "verdicts" not in line for line in lines)
