"""`optional: {groups: all}`: an input that is not given has all partitions of the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import semgraph
from semgraph.conformance.cases import Mind, Oracle
from semgraph.errors import InputError, PlanError
from semgraph.frontend.jsonschema import plan_schema
from semgraph.frontend.load import load_plan
from tests.execution.conftest import Place

GRAPH = Path(__file__).parents[1] / "fixtures" / "optimizer"
COUNTED = """
plan: counted
graph: graph.yaml
inputs: {groups: {group_id: string}, least: {age: int64}}
optional: {groups: all, least: none}
steps:
  named:
    - from: groups
    - distinct: [group_id]
  people:
    - from: named
    - match: {pattern: "(p:Person)"}
    - project: {group_id, name: p.name, age: p.age}
    - join: {other: least, alias: l, where: age < l.age, how: anti}
returns: [named, people]
example: {inputs: {groups: [{group_id: h}]}}
"""
CALLER = """
plan: caller
graph: graph.yaml
inputs: {groups: {group_id: string}, asked: {n: int64}}
optional: OPTIONAL
params: {some: true}
steps:
  few: {if: $some, do: [{from: groups}]}
  called: [{call: {plan: counted, inputs: INPUTS}}]
returns: {named: called.named}
"""
SAID = [{"n": 1}]
LEFT_BEHIND = [{"uuid": "n1", "group_id": "", "text": "of nobody"}]
NOTES = """
plan: notes
graph: graph.yaml
inputs: {notes: {uuid: string, group_id: string, text: string}}
writes: [{merge: {from: notes, node: Note}}]
"""


@pytest.fixture
async def session(place: Place, tmp_path: Path) -> Any:
    (tmp_path / "graph.yaml").write_text((GRAPH / "graph.yaml").read_text(encoding="utf-8"))
    (tmp_path / "counted.yaml").write_text(COUNTED)
    (tmp_path / "notes.yaml").write_text(NOTES)
    made = semgraph.Session(
        llm=Oracle(Mind()), store=place.spec, journal=False, runs=tmp_path / "runs", folder=tmp_path
    )
    async with made:
        await made.arun(GRAPH / "fill.yaml")
        await made.arun(tmp_path / "notes.yaml", notes=LEFT_BEHIND)
        yield made


async def named(session: semgraph.Session, plan: str = "counted", **options: Any) -> list[str]:
    result = await session.arun(session.folder / f"{plan}.yaml", **options)
    return sorted(result.tables["named"].column("group_id").to_pylist())


def calling(session: semgraph.Session, inputs: str, optional: str = "[groups]") -> None:
    text = CALLER.replace("INPUTS", inputs).replace("OPTIONAL", optional)
    (session.folder / "caller.yaml").write_text(text)


async def test_not_given_it_has_every_partition_of_the_nodes_once(
    session: semgraph.Session,
) -> None:
    assert await named(session, groups="all") == ["", "g", "h"]
    assert await named(session, least=[{"age": 40}]) == ["", "g", "h"]
    result = await session.arun(session.folder / "counted.yaml", least=[{"age": 40}])
    assert result.tables["people"].column("name").to_pylist() == ["Cleo", "Dan Lee"]


async def test_given_it_has_its_rows_and_without_rows_none(session: semgraph.Session) -> None:
    assert await named(session, groups=[{"group_id": "g"}, {"group_id": "x"}]) == ["g", "x"]
    assert await named(session, groups=[]) == []


async def test_without_any_input_the_example_runs_as_ever(session: semgraph.Session) -> None:
    assert await named(session) == ["h"]


async def test_up_to_a_step_it_is_the_same(session: semgraph.Session) -> None:
    result = await session.arun(session.folder / "counted.yaml", groups="all", until="named")
    assert result.tables["named"].num_rows == 3


@pytest.mark.parametrize(
    ("optional", "inputs", "options", "expected"),
    [
        ("[groups]", "{}", {}, ["", "g", "h"]),  # the call gives nothing
        ("[groups]", "{groups: groups}", {}, []),  # the caller's own has no rows
        ("{groups: all}", "{groups: groups}", {}, ["", "g", "h"]),
        ("[groups]", "{groups: few}", {}, []),
        ("[groups]", "{groups: few}", {"params": {"some": False}}, ["", "g", "h"]),  # pruned
    ],
)
async def test_a_call_that_does_not_give_it_means_all(
    session: semgraph.Session, optional: str, inputs: str, options: dict[str, Any], expected: Any
) -> None:
    calling(session, inputs, optional)
    assert await named(session, "caller", asked=SAID, **options) == expected


async def test_a_resumed_run_reads_the_store_again(session: semgraph.Session) -> None:
    runs: list[str] = []
    await named(session, groups="all", begun=runs.append)
    await named(session, groups=[{"group_id": "g"}], begun=runs.append)
    assert await named(session, resume=runs[0]) == ["", "g", "h"]
    assert await named(session, resume=runs[1]) == ["g"]


async def test_a_plan_in_the_place_of_a_called_one_reads_the_same(
    session: semgraph.Session,
) -> None:
    calling(session, "{groups: groups}", "{groups: all}")
    (session.folder / "other.yaml").write_text(COUNTED.replace("plan: counted", "plan: other"))
    use = {"called": "other"}
    assert await named(session, "caller", asked=SAID, use=use) == ["", "g", "h"]
    plan = load_plan(session.folder / "caller.yaml")
    assert await named(session, "caller", asked=SAID, use={}) == ["", "g", "h"]
    assert (await session.arun(plan, asked=SAID, use=use)).tables["named"].num_rows == 3


def explained(place: Place, folder: Path, **options: Any) -> str:
    with semgraph.Session(store="memory", journal=False, runs="", folder=folder) as session:
        session.run(GRAPH / "fill.yaml")
        return str(session.explain(folder / "counted.yaml", **options))


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_explain_shows_the_scans_and_their_rows(place: Place, tmp_path: Path) -> None:
    (tmp_path / "graph.yaml").write_text((GRAPH / "graph.yaml").read_text(encoding="utf-8"))
    (tmp_path / "counted.yaml").write_text(COUNTED)
    assert "scan Person, of all partitions" in explained(place, tmp_path, inputs={"groups": "all"})
    picture = explained(place, tmp_path, inputs={"groups": "all"}, format="mermaid")
    assert picture.count('"groups"') == 1
    assert "scan" not in explained(place, tmp_path)  # of the example
    algebra = explained(place, tmp_path, inputs={"groups": "all"}, format="algebra")
    assert "Person" in algebra
    assert "Note" in algebra


@given(st.lists(st.tuples(st.sampled_from("pn"), st.sampled_from(["", "a", "b", "c"]))))
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_it_has_what_a_look_at_all_nodes_finds(
    tmp_path: Path, nodes: list[tuple[str, str]]
) -> None:
    (tmp_path / "graph.yaml").write_text((GRAPH / "graph.yaml").read_text(encoding="utf-8"))
    (tmp_path / "counted.yaml").write_text(COUNTED)
    (tmp_path / "notes.yaml").write_text(NOTES)
    rows: dict[str, list[dict[str, Any]]] = {"p": [], "n": []}
    for i, (kind, group) in enumerate(nodes):
        more = {"text": "t"} if kind == "n" else {"name": "n", "city": "c", "age": i}
        rows[kind].append({"uuid": f"u{i}", "group_id": group, **more})
    with semgraph.Session(store="memory", journal=False, runs="", folder=tmp_path) as session:
        session.run(GRAPH / "fill.yaml", people=rows["p"], ties=[])
        session.run(tmp_path / "notes.yaml", notes=rows["n"])
        tables = session.run(tmp_path / "counted.yaml", groups="all").tables
    groups = tables["named"].column("group_id").to_pylist()
    assert sorted(groups) == sorted({group for _, group in nodes})
    of_people = sorted(group for kind, group in nodes if kind == "p")
    assert sorted(tables["people"].column("group_id").to_pylist()) == of_people


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_the_word_is_for_inputs_of_all_groups(place: Place, tmp_path: Path) -> None:
    (tmp_path / "graph.yaml").write_text((GRAPH / "graph.yaml").read_text(encoding="utf-8"))
    (tmp_path / "counted.yaml").write_text(COUNTED)
    with semgraph.Session(store="memory", journal=False, runs="", folder=tmp_path) as session:
        found = session.run(tmp_path / "counted.yaml", groups="some")
        assert found.rows("named") == [{"group_id": "some"}], "any other text is a row"
        with pytest.raises(InputError, match="least has no text column"):
            session.run(tmp_path / "counted.yaml", least="all")


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_a_plan_without_example_names_the_word(place: Place, tmp_path: Path) -> None:
    (tmp_path / "graph.yaml").write_text((GRAPH / "graph.yaml").read_text(encoding="utf-8"))
    (tmp_path / "counted.yaml").write_text(COUNTED.split("example:", maxsplit=1)[0])
    with (
        semgraph.Session(store="memory", journal=False, runs="", folder=tmp_path) as session,
        pytest.raises(PlanError, match="counted has no example.*-i groups=all"),
    ):
        session.run(tmp_path / "counted.yaml")


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_python_says_it_with_the_same_word(place: Place, tmp_path: Path) -> None:
    graph = tmp_path / "graph.yaml"
    graph.write_text((GRAPH / "graph.yaml").read_text(encoding="utf-8"))
    rows = [{"group_id": "g"}]
    groups = semgraph.table(rows, name="groups", graph=graph, optional="all")
    least = semgraph.table([{"age": 40}], name="least", graph=graph, optional=True)
    found = (
        groups.match("(p:Person)", step="found")
        .join(least, "l", where="p.age < l.age", how="anti")
        .project({"group_id": "group_id"})
    )
    path = found.step("people").save(tmp_path / "people.yaml")
    plan = load_plan(path)
    assert plan.document["optional"] == {"groups": "all", "least": "none"}
    assert (plan.inputs["groups"].or_all, plan.inputs["least"].or_all) == (True, False)
    with semgraph.Session(store="memory", journal=False, runs="", folder=tmp_path) as session:
        session.run(GRAPH / "fill.yaml")
        assert next(iter(session.run(found).tables.values())).num_rows == 1  # Cleo
        assert session.run(plan, groups="all").tables["people"].num_rows == 4
    with pytest.raises(PlanError, match="it has one column, group_id"):
        semgraph.table([{"id": "g"}], name="groups", graph=graph, optional="all")


def test_the_schema_of_plans_knows_both_forms() -> None:
    check = jsonschema.Draft202012Validator(plan_schema())
    plan = {"plan": "p", "inputs": {"groups": {"group_id": "string"}}, "returns": ["groups"]}
    assert check.is_valid({**plan, "optional": {"groups": "all"}})
    assert check.is_valid({**plan, "optional": ["groups"]})
    assert not check.is_valid({**plan, "optional": {"groups": "some"}})
