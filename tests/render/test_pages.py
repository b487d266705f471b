"""Pages about plans: what they say, and that those in docs/plans are what the plans say now."""

from __future__ import annotations

from pathlib import Path

import pytest

from semgraph.frontend.plan_files import PlanFile, callers
from tools.pages import INDEX, markdown_page, pages, write

ROOT = Path(__file__).parents[2]
FILES = [
    PlanFile(path, shipped=True)
    for path in sorted((ROOT / "plans").glob("*.yaml"))
    if path.stem != "graph"
]
CALLED = callers(FILES)
NAMES = [*(f"{file.path.stem}.md" for file in FILES if file.path.stem not in CALLED), INDEX]
HINT = "make pages writes docs/plans anew"
PLAN = """\
# Why it is as it is.
# In two lines.
plan: notes
doc: |
  Sort notes. And more.
inputs:
  notes: {id: string, body: string}      # what was written
  kinds:
    kind: string                  # "mail", '#1' | or so
optional: [kinds]
params: {least: 3}
presets: {short: {params: {least: 1}, use: {kept: packed(rows=9)}}}
steps:
  kept:                           # not the empty ones
    - from: notes
    - filter: length(body) > $least
    - sem_filter: {prompt: "Is “{body}” kind?"}
  known:
    if: {$least: 3}
    do:
      - union: [[{from: kept}, {project: [id]}], [{from: kept}, {distinct: [id]}, {project: [id]}]]
calls: {formula: n + 1, per: run, where: {n: notes that are long enough}}
returns: {kept: kept, known: known}
"""


@pytest.fixture
def told(tmp_path: Path) -> str:
    (tmp_path / "notes.yaml").write_text(PLAN)
    return markdown_page(PlanFile(tmp_path / "notes.yaml", shipped=False))


@pytest.mark.parametrize(
    "line",
    [
        "# notes",
        "Sort notes. And more.",
        "Why it is as it is.",
        "| **notes** |  | what was written |",
        "| id | `string` |  |",
        "| **kinds** |  | optional |",
        "| kind | `string` | \"mail\", '#1' \\| or so |",
        "| least | `3` |  |",
        "| short | `least = 1`, `kept: packed(rows=9)` |  |",
        "`n + 1` for each run, where",
        "- `n`: notes that are long enough",
        "| kept | filter, sem_filter | `Is “{body}” kind?` | not the empty ones |",
        "| known | if `$least = 3`, union, project, distinct |  |  |",
        "| kept | id, body |",
    ],
)
def test_a_page_says_all_that_the_plan_says(told: str, line: str) -> None:
    assert line in told.splitlines()
    assert "kept = sem_filter" in told


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return pages(FILES)


@pytest.mark.parametrize("name", NAMES)
def test_the_pages_in_docs_are_what_the_plans_say(made: dict[str, str], name: str) -> None:
    path = ROOT / "docs" / "plans" / name
    assert path.exists(), HINT
    assert path.read_text(encoding="utf-8") == made[name], HINT


def test_every_page_is_of_a_plan(made: dict[str, str]) -> None:
    assert {path.name for path in (ROOT / "docs" / "plans").iterdir()} == {*NAMES} == {*made}


def test_a_plan_that_only_others_call_is_a_row_of_the_index(made: dict[str, str]) -> None:
    (row,) = [line for line in made[INDEX].splitlines() if line.startswith("| time_states |")]
    does, inputs, results, asking, by = [cell.strip() for cell in row.split("|")[2:-1]]
    assert does.endswith(".")
    assert [inputs, results, asking] == ["statements, opposed", "held", ""]
    assert by == "[remove_episode](remove_episode.md), settle_facts"
    assert "](README.md#parts-of-plans)" in made["add_episode.md"]


def test_only_what_changed_is_written(tmp_path: Path) -> None:
    (tmp_path / "notes.yaml").write_text(PLAN)
    file = PlanFile(tmp_path / "notes.yaml", shipped=False)
    folder = tmp_path / "pages"
    assert {path.name for path in write([file], folder)} == {"notes.md", INDEX}
    assert write([file], folder) == []
    (folder / "other.md").write_text("mine")
    (folder / "notes.md").write_text("old")
    assert [path.name for path in write([file], folder)] == ["notes.md"]
    assert (folder / "other.md").read_text() == "mine"
