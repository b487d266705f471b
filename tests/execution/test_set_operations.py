"""`intersect` and `except` in plans, frames, EXPLAIN and on each store."""

from __future__ import annotations

from pathlib import Path

import pytest

import semgraph as sg
from semgraph.conformance.cases import Mind, Oracle
from semgraph.errors import PlanError
from semgraph.explain.algebra import algebra
from semgraph.frontend.load import load_plan
from tests.execution.conftest import Place

PLAN = """
plan: sets
inputs: {a: {id: int64 null, name: string null}, b: {name: string null, id: int64 null}}
params: {less: true}
steps:
  wanted: {if: $less, do: [{from: b}, {filter: id > 2 OR id IS NULL}]}
  both: [{intersect: [a, b]}]
  only: [{except: [a, [{from: b}, {filter: id < 3}], b]}, {sort: id}]
returns: [both, only]
"""
A = [(3, "c"), (1, "a"), (1, "a"), (None, None), (2, None)]
B = [(1, "a"), (None, None), (2, "b")]


def session(folder: Path, store: str = "memory") -> sg.Session:
    return sg.Session(llm=Oracle(Mind()), store=store, journal=False, runs="", folder=folder)


def written(folder: Path, text: str) -> Path:
    path = folder / "sets.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_plan_has_the_rows_of_all_or_of_the_first_alone(tmp_path: Path) -> None:
    rows = {name: [{"id": i, "name": n} for i, n in given] for name, given in (("a", A), ("b", B))}
    with session(tmp_path) as opened:
        result = opened.run(written(tmp_path, PLAN), inputs=rows)
    tables = {name: [tuple(row.values()) for row in result.rows(name)] for name in result.tables}
    assert tables == {"both": [(1, "a"), (None, None)], "only": [(2, None), (3, "c")]}


def test_explain_writes_them_as_algebra(tmp_path: Path) -> None:
    equations = algebra(load_plan(written(tmp_path, PLAN))).splitlines()
    assert "both = a ∩ b" in equations
    assert "only = τ_{id↑} (a − (σ_{id < 3} b) − b)" in equations


@pytest.mark.parametrize("word", ["intersect", "except"])
def test_a_step_that_is_left_out_is_no_operand(tmp_path: Path, word: str) -> None:
    text = PLAN.replace("{intersect: [a, b]}", f"{{{word}: [a, wanted]}}")
    assert load_plan(written(tmp_path, text)).steps["both"].inputs
    with pytest.raises(PlanError, match='reads "wanted", which its "if" has pruned'):
        load_plan(written(tmp_path, text), params={"less": False})


def test_frames_have_both_and_write_them(tmp_path: Path) -> None:
    a, b = (
        sg.table([{"id": n} for n in ids], name=name)
        for name, ids in (("a", [1, 2, 2]), ("b", [2, 3]))
    )
    both, only = a.intersect(b, step="both"), a.except_(b, b, step="only")
    plan = sg.plan("sets", [both, only])
    assert plan.document["steps"] == {
        "both": [{"intersect": ["a", "b"]}],
        "only": [{"except": ["a", "b", "b"]}],
    }
    path = written(tmp_path, only.to_yaml("sets"))
    assert load_plan(path).fingerprint == only.to_plan("sets").fingerprint
    with session(tmp_path) as opened:
        assert opened.run(both).rows() == [{"id": 2}]
        assert opened.run(only).rows() == [{"id": 1}]


def test_windows_minus_reference_rows(tmp_path: Path) -> None:
    text = """
plan: windows
inputs: {said: {id: string, group_id: string, word: string}, known: {word: string}}
windows: {input: said, key: id, size: 2}
steps:
  words: [{from: said}, {project: [word]}]
  fresh: [{except: [words, known]}]
returns: [fresh]
"""
    said = [
        {"id": str(n), "group_id": group, "word": word}
        for n, (group, word) in enumerate([("g", "x"), ("g", "x"), ("g", "y"), ("h", "x")])
    ]
    with session(tmp_path) as opened:
        result = opened.run(written(tmp_path, text), said=said, known=[{"word": "y"}])
        assert result.rows() == [{"word": "x"}, {"word": "x"}]
        wrong = text.replace("[words, known]", "[known, words]")
        with pytest.raises(PlanError, match="except puts rows of no window beside rows of windows"):
            opened.run(written(tmp_path, wrong), said=said, known=[{"word": "y"}])


async def test_stored_rows_are_operands(place: Place, tmp_path: Path) -> None:
    (tmp_path / "graph.yaml").write_text(
        "graph: words\nkey: uuid\npartition: group_id\n"
        "nodes: {Old: {properties: {word: string}}, New: {properties: {word: string}}}\n"
    )
    graph = tmp_path / "graph.yaml"

    def rows(word: str) -> list[dict[str, str]]:
        return [{"uuid": c, "group_id": "g", "word": c} for c in word]

    async with session(tmp_path, place.spec) as opened:
        old = sg.table(rows("abc"), name="old", graph=graph).merge(node="Old", key="uuid")
        new = sg.table(rows("bcd"), name="new", graph=graph).merge(node="New", key="uuid")
        tables = {"old": rows("abc"), "new": rows("bcd")}
        await opened.arun(sg.plan("fill", writes=[old, new]), inputs=tables)
        stored = [
            sg.scan(label, graph=graph, partition="all").project(["word"])
            for label in ("Old", "New")
        ]
        both = await opened.arun(stored[0].intersect(stored[1]))
        only = await opened.arun(stored[0].except_(stored[1]))
    assert [row["word"] for row in both.rows()] == ["b", "c"]
    assert [row["word"] for row in only.rows()] == ["a"]
