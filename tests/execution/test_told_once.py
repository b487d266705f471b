"""What is wrong with rows and options is said at once, in the words of the plan, with what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import semgraph as sg
from semgraph.compare.truth import are_flags, with_flags
from semgraph.errors import DataError, Fault, InputError, PlanError
from semgraph.expr.types import parse_type
from semgraph.logical.prompt import Prompt, PromptSet, Template
from semgraph.provenance import meant
from semgraph.render.header import recordings

EPISODE = {"name": "n", "content": "Ada lives in Riga", "valid_at": "2025-01-01T00:00:00Z"}
PLAIN = "plan: plain\ninputs: {rows: {n: int64}}\nsteps: {a: [{from: rows}, {filter: n > 1}]}\nreturns: [a]\n"
SEARCH = """plan: s
graph: graph.yaml
inputs: {rows: {group_id: string, t: string, d: double}}
steps: {a: [{from: rows}, {search: {over: N, alias: hit, k: 3, methods: %s}}]}
returns: [a]
"""


def session(**more: Any) -> sg.Session:
    return sg.Session(
        **{"llm": "recorded", "store": "memory", "journal": False, "runs": "", **more}
    )


TRIPLET = {"source": "Ada", "name": "LIVES_IN", "target": "Riga", "fact": "Ada lives in Riga."}


@pytest.mark.parametrize("group", ["a.b", "x@y.z", "a/b", "a b"])
@pytest.mark.parametrize(("plan", "row"), [("add_episode", EPISODE), ("add_triplet", TRIPLET)])
def test_groups_that_a_plan_does_not_take_are_said_once_before_anything_is_paid(
    group: str, plan: str, row: dict[str, Any]
) -> None:
    [name] = session().prepare(plan).inputs.keys() & {"episodes", "triplets"}
    with pytest.raises(InputError, match="Write other names into the column group_id") as refused:
        session().run(plan, inputs={name: [{**row, "group_id": group}] * 5})
    assert str(refused.value).lower().count("invalid group_id") == 1


@pytest.mark.parametrize("time", ["1719829800.123456", 1719829800, 1719829800.5, "1719829800123"])
def test_a_unix_time_is_refused_with_the_time_to_write(time: Any) -> None:
    with pytest.raises(InputError, match=r'A Unix time: write "2024-07-01T10:30:00') as refused:
        session().run("add_episode", episodes=[{**EPISODE, "group_id": "a", "valid_at": time}])
    assert "datetime.fromtimestamp(seconds, UTC)" in str(refused.value)


def test_a_prompt_is_picked_whatever_the_case_of_the_value() -> None:
    json, rest = (Prompt(name, item=Template.parse("{a}")) for name in ("json", "rest"))
    prompts = PromptSet((("json", json), ("Text", rest)), "source", None)
    assert [prompts.pick(word) for word in ("json", "JSON", " Json ", "TEXT", "xml", None)] == [json, json, json, rest, None, None]  # fmt: skip


@pytest.mark.parametrize("values", [[1, 0], ["1", "0"], [1.0, 0.0, None], ["yes", "No"], [True, False]])  # fmt: skip
def test_a_truth_may_be_ones_and_zeros(values: list[Any]) -> None:
    assert are_flags(values)
    rows = [{"keep": value} for value in values]
    read = [row["keep"] for row in with_flags(rows, {"keep": values}, ["keep"])]
    assert read == [
        None if v is None else str(v).lower() in ("1", "1.0", "yes", "true") for v in values
    ]


@pytest.mark.parametrize("methods", ["[{equal: name, to: t}, {equal: n, to: d * d}]", "{equal: n, to: t}"])  # fmt: skip
def test_no_column_of_the_engine_is_named_in_messages(tmp_path: Path, methods: str) -> None:
    (tmp_path / "graph.yaml").write_text("nodes: {N: {properties: {name: string, n: int64}}}\n")
    (tmp_path / "s.yaml").write_text(SEARCH % methods)
    with pytest.raises(DataError) as refused:
        session().run(
            tmp_path / "s.yaml", inputs={"rows": [{"group_id": "a", "t": "x", "d": 1e300}]}
        )
    assert "_x0" not in str(refused.value)
    assert "Type(" not in str(refused.value)
    assert ('"d * d" cannot be stored' if "d * d" in methods else '"t" cannot be stored') in str(
        refused.value
    )


def test_a_plan_without_calls_runs_without_a_recording(tmp_path: Path) -> None:
    (tmp_path / "plain.yaml").write_text(PLAIN)
    assert session().run(tmp_path / "plain.yaml", inputs={"rows": [{"n": 2}]}).count("a") == 1
    (tmp_path / "asks.yaml").write_text(
        PLAIN.replace("{filter: n > 1}", '{sem_filter: "is {n} odd?"}')
    )
    with pytest.raises(PlanError, match="no recording can be read"):
        session().run(tmp_path / "asks.yaml", inputs={"rows": [{"n": 2}]})


@pytest.mark.parametrize("store", ["falkordb://x", "redis://h:6379", "graph.db", "sqlite", "memroy", "postgres://h"])  # fmt: skip
def test_an_unknown_store_is_refused_where_it_is_set(store: str) -> None:
    with pytest.raises(PlanError, match=f'unknown store "{store}"'):
        session(store=store)


@pytest.mark.parametrize("returns", [{"k": ["a", "b"]}, {"k": ("a", "b")}, {"k": {"a"}}, ["a", "b"]])  # fmt: skip
def test_a_list_of_words_as_a_type_names_literal(returns: Any) -> None:
    with pytest.raises(PlanError, match="in Python Literal"):
        sg.table([{"n": 1}]).sem_map("Which is {n}?", returns=returns)


@pytest.mark.parametrize("text", ["list<" * 1000, "list<" * 1000 + "int64" + ">" * 1000, "struct<a: " * 400])  # fmt: skip
def test_a_type_of_too_many_levels_is_a_fault(text: str) -> None:
    with pytest.raises(Fault, match="at most 100 levels"):
        parse_type(text)


def test_why_finds_a_part_of_a_text() -> None:
    rows = [{"text": "We hired 3 team members."}, {"text": "Nothing else."}]
    assert meant("3 team members", "uuid", ["s"], lambda _: rows) == [("s", rows[0])]
    assert meant("we hired", "uuid", ["s"], lambda _: rows) == [("s", rows[0])]
    with pytest.raises(PlanError, match="a part of 2 values"):
        meant(".", "uuid", ["s"], lambda _: rows)
    assert meant("nowhere", "uuid", ["s"], lambda _: rows) == []


def test_only_the_plans_own_recording_is_offered(tmp_path: Path) -> None:
    (tmp_path / "plain.yaml").write_text(PLAIN)
    (tmp_path / "recordings").mkdir()
    (tmp_path / "recordings" / "plain_other.jsonl").write_text("")
    plan = sg.load_plan(tmp_path / "plain.yaml")
    assert not recordings(plan)
    (tmp_path / "recordings" / "plain.jsonl").write_text("")
    assert recordings(plan)
