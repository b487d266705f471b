"""`semgraph show`: the graph of a group of the store, as a text, a page and JSON."""

from __future__ import annotations

import json
from datetime import date

import pytest

from semgraph import Session
from semgraph.errors import PlanError
from tests.cli.conftest import GRAPH, Project

STORED = """\
group "demo", stored: 3 Person, 3 KNOWS  holds
  Ann ─ KNOWS ─▶ Bob                     2025-01-15 →
      "Ann knows Bob."
      ─ KNOWS ─▶ Cleo                    2025-01-17 →
      "Ann knows Cleo."
  Bob ─ KNOWS ─▶ Cleo                    2025-01-16 →
      "Bob knows Cleo."
  not drawn: 3 Note
"""
OTHER = (
    '{"group_id": "mine", "at": "2025-01-15T09:00:00Z", "text": "Dan knows Eve. Eve knows Dan."}'
)


@pytest.fixture
def people(project: Project) -> Project:
    """A project whose store has the group "demo"."""
    assert project("run", "people").code == 0
    return project


def test_a_group_is_drawn_as_after_a_run_and_alone_needs_no_name(people: Project) -> None:
    assert people("show", "demo").out == STORED
    assert people("show").out == STORED


def test_only_what_holds_at_a_time_is_shown(people: Project) -> None:
    then = people("show", "demo", "--at", "2025-01-16T10:00:00Z").out
    assert then.startswith('group "demo", as of 2025-01-16 10:00: 3 Person, 2 KNOWS')
    assert "Ann knows Cleo" not in then
    wrong = people("show", "demo", "--at", "yesterday")
    assert (wrong.code, wrong.err) == (
        2,
        '"yesterday" is no time. 2025-02-01, or 2025-02-01T09:00:00Z\n',
    )


def test_a_time_of_long_ago_is_before_one_of_today(people: Project) -> None:
    people.write("old.jsonl", OTHER.replace("mine", "").replace("2025-01-15", "0476-09-04"))
    people("run", "people", "-i", "notes=old.jsonl")
    assert '  "": 1 Note, 2 Person, 2 KNOWS' in people("show").out
    then = people("show", "", "--at", "0477-01-01").out
    assert then.startswith('group "", as of 0477-01-01: 2 Person, 2 KNOWS')
    assert "as of 2025-01-01: 2 Person, 2 KNOWS" in people("show", "", "--at", "2025-01-01").out
    assert "KNOWS" not in people("show", "", "--at", "0400-01-01").out


def test_several_groups_are_listed_with_their_counts(people: Project) -> None:
    people.write("other.jsonl", OTHER)
    people("run", "people", "-i", "notes=other.jsonl")
    assert people("show").out.splitlines() == [
        "2 groups",
        "  demo: 3 Note, 3 Person, 3 KNOWS",
        "  mine: 1 Note, 2 Person, 2 KNOWS",
    ]
    assert json.loads(people("show", "--format", "json").out)["mine"] == {
        "Note": 1,
        "Person": 2,
        "KNOWS": 2,
    }
    assert 'group "mine", stored: 2 Person, 2 KNOWS' in people("show", "mine").out
    missing = people("show", "dmo")
    assert (missing.code, 'Groups: demo, mine. Did you mean "demo"?' in missing.err) == (2, True)


def test_a_store_without_rows_of_the_graph_says_how_to_name_another_one(people: Project) -> None:
    people.write(
        "other.yaml",
        GRAPH.replace("Person", "Animal").replace("Note", "Tale").replace("KNOWS", "LIKES"),
    )
    told = people("show", "--graph", "other.yaml").out
    assert told == "no rows of this graph; for those of another one, name its file: --graph FILE\n"


def test_the_page_and_the_json_have_the_whole_graph(people: Project) -> None:
    made = people("show", "demo", "-o", "g.html")
    assert (made.code, made.out.startswith("g.html   ")) == (0, True)
    page = (people.folder / "g.html").read_text(encoding="utf-8")
    assert "Graph “demo”: 3 Note, 3 Person, 3 KNOWS" in page
    assert str(people.folder) not in page
    data = json.loads(people("show", "demo", "--format", "json").out)
    assert data["counts"] == {"Note": 3, "Person": 3, "KNOWS": 3}
    assert (len(data["nodes"]), {edge["text"] for edge in data["edges"]}) == (
        6, {"Ann knows Bob.", "Bob knows Cleo.", "Ann knows Cleo."},
    )  # fmt: skip
    wrong = people("show", "demo", "-o", "g.svg")
    assert (wrong.code, "write g.html" in wrong.err.lower()) == (2, True)


def test_a_graph_of_other_labels_is_named_by_its_file(project: Project) -> None:
    ran = project("run", "memories/turns/write", "--llm", "recorded", "--embedder", "recorded")
    assert ran.code == 0, ran.err
    again = project("run", "memories/turns/write", "--llm", "recorded", "--embedder", "recorded")
    assert again.code == 0
    shown = project("show", "--graph", "memories/turns/graph")
    assert 'conversation "c1", stored: 3 Turn' in shown.out


def test_a_notebook_shows_the_page_and_a_session_of_a_group_that_group_alone(
    people: Project,
) -> None:
    people.write("other.jsonl", OTHER)
    people("run", "people", "-i", "notes=other.jsonl")
    with Session(llm="dummy", folder=people.folder) as session:
        shown = session.show("mine", at="2025-02-01")
        assert str(shown).startswith('group "mine", as of 2025-02-01: 2 Person, 2 KNOWS')
        assert str(session.show("mine", at=date(2025, 2, 1))) == str(shown)
        with pytest.raises(PlanError, match='holds nothing of group "5"'):
            session.show(5)  # type: ignore[arg-type]
        assert "graph-data" in shown._repr_html_()
        assert shown.save(people.folder / "s.html").exists()
        people.write("timeless.yaml", GRAPH.replace(", from: since", ""))
        with pytest.raises(PlanError, match='graph "people" does not say from when an edge holds'):
            session.show("mine", at="2025-02-01", graph="timeless.yaml")
    with Session(llm="dummy", folder=people.folder, group="mine") as own:
        assert own.show("mine").counts == {"Note": 1, "Person": 2, "KNOWS": 2}
        with pytest.raises(PlanError, match='holds nothing of group "demo". Groups: mine'):
            own.show("demo")
