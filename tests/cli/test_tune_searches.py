"""`semgraph tune` with a simulated model: from what is typed to a run of the choice."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import yaml

from tests.cli.conftest import Project
from tests.compare.conftest import Reader
from tests.llm.server import ModelServer
from tests.served import served

RULES = "A complaint says that a thing that was bought does not do what it is for. " * 12
PLAN = f"""
plan: complaints
inputs: {{tickets: {{id: int64, text: string}}}}
steps:
  asked:
    - from: tickets
    - sem_filter: {{prompt: "{RULES}Does “{{text}}” complain?"}}
returns: [asked]
"""
TUNE = ("tune", "complaints.yaml", "-i", "tickets=tickets.jsonl", "--units", "row", "--seed", "1")
TRUE = ("--truth", "truth.csv", "--floor", "0.8")


@pytest.fixture
def reader() -> Iterator[ModelServer]:
    server = ModelServer(Reader())
    with served(server):
        yield server


@pytest.fixture
def shop(project: Project, reader: ModelServer) -> Project:
    """120 tickets, of which half complain, and their truth."""
    address = f"{reader.base_url}?price=0.4/1.6"
    project.env |= {
        "SEMGRAPH_LLM": f"openai:m@{address}",
        "SEMGRAPH_EMBEDDER": f"openai:v@{reader.base_url}",
    }
    bad = [n % 2 == 0 for n in range(120)]
    rows = [
        {"id": n, "text": f"It {'leaks' if own else 'shines'} in room {n}."}
        for n, own in enumerate(bad)
    ]
    project.write("complaints.yaml", PLAN)
    project.write("tickets.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    project.write(
        "truth.csv", "id,keep\n" + "".join(f"{n},{own}\n".lower() for n, own in enumerate(bad))
    )
    return project


def test_the_choice_is_shown_written_and_run(shop: Project, reader: ModelServer) -> None:
    done = shop(*TUNE, *TRUE)
    assert (done.code, done.out.splitlines()[0][:24]) == (0, "Chosen for complaints: a")
    assert "Promised: With a probability of at least 95 %" in done.out
    assert "gain: at most" in done.err
    chosen = yaml.safe_load((shop.folder / "plans/complaints.tuned.yaml").read_text())["use"][
        "asked"
    ]
    assert f"asked={chosen}, the cheapest shown to have an F1 of at least 0.8." in done.out
    assert shop("tune", "--show", "last").out == done.out
    ran = shop(
        "run", "complaints.yaml", "-i", "tickets=tickets.jsonl", "--preset", "tuned", "--no-cache"
    )
    assert ran.code == 0
    assert f"  {chosen}  " in ran.out


def test_a_record_becomes_a_page_with_its_comparison(shop: Project) -> None:
    shop(*TUNE, *TRUE)
    assert "tuning" in shop("runs", "list").out
    assert shop("report", "last", "-o", "page.html").code == 0
    text = (shop.folder / "page.html").read_text(encoding="utf-8")
    assert (
        text.index("The choice")
        < text.index("The search")
        < text.index("The variants")
        < text.index("Prompts and answers")
    )


def test_rows_that_cannot_show_the_floor_cost_nothing(shop: Project, reader: ModelServer) -> None:
    done = shop(*TUNE, "--truth", "truth.csv", "--floor", "0.99")
    assert (done.code, done.out) == (2, "")
    assert "these rows cannot show an F1 of 0.99" in done.err
    assert "the input has 120" in done.err
    assert reader.requests == []


def test_a_limit_ends_it_with_its_code(shop: Project) -> None:
    done = shop(*TUNE, *TRUE, "--max-calls", "25")
    assert done.code == 4
    assert "which stays as it is" in done.out
    assert "! stopped" in done.out
    assert not (shop.folder / "plans/complaints.tuned.yaml").exists()
