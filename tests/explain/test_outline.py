"""EXPLAIN as an outline: the plan's own steps, opened by `expand` and `full`, foldable in notebooks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import semgraph
from semgraph.conformance.cases import Mind, Oracle
from semgraph.errors import PlanError
from semgraph.folders import plans_folder
from semgraph.frontend.load import load_plan

OWN = ["episodes", "receive", "read", "resolve", "link", "settle", "describe", "store", "join"]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[semgraph.Session]:
    with semgraph.Session(
        llm=Oracle(Mind()), store="memory", journal=False, runs="", folder=tmp_path
    ) as made:
        yield made


def names(text: str) -> list[str]:
    """The names of the lines between the titles and the notes, with their indents."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("step "))
    table = lines[start + 1 : next(i for i, line in enumerate(lines) if "nothing to do" in line)]
    return [match[0] for line in table if (match := re.match(r" *\w+", line))]


def test_by_default_a_line_is_an_input_or_a_step_of_the_plan(session: semgraph.Session) -> None:
    text = session.explain("add_episode")
    assert names(text) == OWN
    assert "nothing to do: types, judge, describe_facts, communities" in text
    assert 'inside a step: expand=["read"]; everything: full=True' in text
    (read,) = (line for line in text.splitlines() if line.startswith("read"))
    assert read.split("  ")[0] == "read"
    assert "mentions, facts" in read
    assert "≤ 6" in read


def test_expand_opens_a_step_and_those_around_it(session: semgraph.Session) -> None:
    found = names(session.explain("add_episode", expand=["read", "settle/ask"]))
    assert found[: found.index("resolve")] == [
        "episodes", "receive", "read", "  mentions", "  listed", "  named", "  wanted", "  facts", "  stated",
        "  claimed",
    ]  # fmt: skip
    after = found[found.index("  ask") :]
    assert after[1:4] == ["    dated", "    verdicts", "  date"]


def test_full_opens_every_step(session: semgraph.Session) -> None:
    data = json.loads(session.explain("add_episode", format="json"))
    steps = [
        step["step"] for step in data["steps"] if step["operators"] or step["step"] == "episodes"
    ]
    text = session.explain("add_episode", full=True)
    assert "inside a step" not in text
    assert {name.strip() for name in names(text)} >= {step.rpartition("/")[2] for step in steps}
    assert len(names(text)) >= len(steps)


def test_a_step_that_calls_no_plan_cannot_be_opened(session: semgraph.Session) -> None:
    with pytest.raises(
        PlanError, match=r'"setle" is no step that calls a plan.*Did you mean "settle"'
    ):
        session.explain("add_episode", expand=["setle"])
    with pytest.raises(PlanError, match=r'"read/facts" is no step that calls a plan'):
        session.explain("add_episode", expand=["read/facts"])


def test_a_plan_in_place_of_another_is_named_beside_its_step(session: semgraph.Session) -> None:
    plan = load_plan(plans_folder() / "add_episode.yaml", use={"read": "read_combined"})
    (read,) = (line for line in session.explain(plan).splitlines() if line.startswith("read"))
    assert read.startswith("read = read_combined  ")


@pytest.mark.parametrize("width", [80, 120])
def test_calls_stay_where_columns_are_dropped(session: semgraph.Session, width: int) -> None:
    lines = session.explain("add_episode", width=width).splitlines()
    (title,) = (line for line in lines if line.startswith("step "))
    assert {"does", "asks", "rows", "calls"} <= set(title.split())
    assert max(map(len, lines[lines.index(title) :][: len(OWN) + 1])) <= width


def test_in_a_notebook_every_step_can_be_opened_without_a_script(session: semgraph.Session) -> None:
    shown = session.explain("add_episode", expand=["read"])._repr_html_()  # type: ignore[attr-defined]
    assert "<script" not in shown
    assert shown.count("<details open>") == 1
    assert re.search(r'<details open><summary class="step"><span[^>]*>read</span>', shown)
    assert ">compare_facts" not in shown
    assert "asks compare_facts" in shown
