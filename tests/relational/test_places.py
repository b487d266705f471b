"""Aggregates, window functions and functions of several rows stand only where SQL gives them a
meaning.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from semgraph.errors import PlanError
from semgraph.frontend.load import load_plan
from tests.relational.conftest import Run, column, plan

COLUMNS = "id: int64, code: string, tags: list<string>"
GRAPH = "graph: things\nnodes:\n  Thing: {properties: {name: string, size: int64}}\n"
HEAD = "graph: ./things.yaml\n"
ROWS = [{"id": i, "code": "ab"[i % 2], "tags": ["x"]} for i in range(4)]

AGGREGATES = [
    ("filter: count(*) > 1", "count"),
    ("filter: [id > 0, max(id) > 1]", "max"),
    ('filter: [id > 0, "count(*) = 1"]', "count"),
    ('add: {x: "max(id)"}', "max"),
    ('add: {x: "id + sum(id)"}', "sum"),
    ('project: {x: "list(id)"}', "list"),
    ('sort: ["max(id)"]', "max"),
    ('sort: ["id", "max(id) desc"]', "max"),
    ('limit: {n: 1, order: "count(*)"}', "count"),
    ('aggregate: {by: {m: "max(id)"}}', "max"),
    ('aggregate: {by: [code], having: "count(*) > 1"}', "count"),
    ('aggregate: {by: [code], add: {n: "count(*)"}, having: "max(n) > 1"}', "max"),
    ('join: {other: rows, alias: o, where: "max(o.id) = id"}', "max"),
    ('join: {other: rows, how: semi, where: "count(*) > 1"}', "count"),
    ('group_join: {other: rows, alias: o, where: "max(o.id) = id", add: {n: "count(*)"}}', "max"),
    ('group_join: {other: rows, alias: o, using: id, order: "max(o.id)", add: {n: "count(*)"}}', "max"),
    ('require: {where: "count(*) > 1", says: "\'few\'"}', "count"),
    ('require: {where: "id > 1", says: "string_agg(code)"}', "string_agg"),
    ('sem_map: {prompt: "Code: {code}", when: "max(id) > 1", returns: {x: string}}', "max"),
    ('sem_map: {prompt: "Code: {code}", when: "id > 1", otherwise: {x: "max(code)"}, returns: {x: string}}', "max"),
    ('sem_join: {prompt: "Same? {code} {o.code}", other: rows, alias: o, where: "max(id) > 1"}', "max"),
    ('sem_join: {prompt: "Same? {code} {o.code}", other: rows, alias: o, keep: one, order: "max(id)"}', "max"),
    ('sem_agg: {prompt: "Word for {code}", by: [code], order: "max(id)", returns: {x: string}}', "max"),
    ('embed: {x: "max(code)"}', "max"),
    ('add: {x: "max(id) + count(*) OVER ()"}', "max"),
    ('add: {x: "sum(max(id)) OVER ()"}', "max"),
    ('search: {over: Thing, alias: t, k: 3, methods: [{equal: name, to: "max(code)"}], partition: code}', "max"),
    ('search: {over: Thing, alias: t, k: 3, methods: [{equal: name, to: code}], where: "max(t.size) > 1", partition: code}', "max"),
    ('search: {over: Thing, alias: t, k: 3, order: "max(t.size)", partition: code}', "max"),
    ('match: {pattern: "(t:Thing)", where: "max(t.size) > 1", partition: code}', "max"),
]  # fmt: skip
OTHERS = [
    ('sem_agg: {prompt: "Word for {code}", by: [code], when: "id > 1", returns: {x: string}}', 'the column "id" may differ within a group'),
    ('sem_agg: {prompt: "Word for {code}", by: [code], when: "count(*) > 1", otherwise: {x: "max(id)::VARCHAR || id"}, returns: {x: string}}', 'the column "id" may differ within a group'),
    ('sem_agg: {prompt: "Word for {code}", by: [code], add: {n: id}, returns: {x: string}}', 'the column "id" may differ within a group'),
    ("aggregate: {by: [code], add: {x: id}}", 'the column "id" may differ within a group'),
    ('aggregate: {by: [code], add: {x: "id + count(*)"}}', 'the column "id" may differ within a group'),
    ("aggregate: {add: {x: code}}", 'the column "code" may differ within a group'),
    ('group_join: {other: rows, alias: o, using: id, add: {x: "o.code"}}', "may differ within a group"),
    ('group_join: {other: rows, alias: o, using: id, add: {x: "count(*) + id"}}', "may differ within a group"),
    ('aggregate: {by: [code], add: {x: "max(count(*))"}}', "cannot be nested"),
    ('aggregate: {by: [code], add: {x: "max(row_number() OVER ())"}}', "a window function is not allowed here"),
    ('aggregate: {by: {x: "row_number() OVER ()"}}', "a window function is not allowed here"),
    ('aggregate: {by: [code], add: {n: "count(*)"}, having: "row_number() OVER () = 1"}', "a window function is not allowed here"),
    ('limit: {n: 1, order: "row_number() OVER ()"}', "a window function is not allowed here"),
    ('sort: ["rank() OVER (ORDER BY id)"]', "a window function is not allowed here"),
    ('join: {other: rows, alias: o, where: "row_number() OVER () = o.id"}', "a window function is not allowed here"),
    ('group_join: {other: rows, alias: o, using: id, add: {x: "count(*) OVER ()"}}', "a window function is not allowed here"),
    ('require: {where: "id > 1", says: "CAST(row_number() OVER () AS VARCHAR)"}', "a window function is not allowed here"),
    ('filter: "unnest([TRUE, FALSE])"', '"unnest" returns several rows'),
    ('add: {x: "unnest(tags)"}', '"unnest" returns several rows'),
    ('add: {x: "generate_subscripts(tags, 1)"}', '"generate_subscripts" returns several rows'),
    ('project: {x: "regexp_split_to_table(code, \'x\')"}', '"regexp_split_to_table" returns several rows'),
    ('aggregate: {add: {x: "list(unnest(tags))"}}', '"unnest" returns several rows'),
    ('aggregate: {by: {x: "unnest(tags)"}}', '"unnest" returns several rows'),
    ('sort: ["unnest([1, 2])"]', '"unnest" returns several rows'),
    ('aggregate: {add: {x: "json_group_array(id)"}}', "macro over an aggregate"),
    ('aggregate: {add: {x: "weighted_avg(id, id)"}}', "macro over an aggregate"),
    ('add: {x: "geomean(id)"}', "macro over an aggregate"),
    ("project: {}", "project needs at least one column"),
    ("project: []", "project needs at least one column"),
    ("aggregate: {}", "aggregate needs at least one column"),
    ("aggregate: {by: [], add: {}}", "aggregate needs at least one column"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("step", "message"),
    [*((step, f"an aggregate ({name}) is not allowed here") for step, name in AGGREGATES), *OTHERS],
)
def test_a_plan_is_refused_at_the_place_of_the_expression(
    tmp_path: Path, step: str, message: str
) -> None:
    path = tmp_path / "plan.yaml"
    (tmp_path / "things.yaml").write_text(GRAPH)
    path.write_text(plan(COLUMNS, f"    - {step}\n", head=HEAD))
    with pytest.raises(PlanError) as refused:
        load_plan(path)
    problem = refused.value.problems[0]
    assert message in str(problem)
    assert problem.position is not None
    line = path.read_text().splitlines()[problem.position.line - 1]
    assert line.strip() == f"- {step}"
    assert problem.step == "made"


def test_a_sink_refuses_an_aggregate(tmp_path: Path) -> None:
    text = plan("uuid: string, group_id: string, size: int64", "", head=HEAD).replace(
        "returns: [made]\n", ""
    )
    path = tmp_path / "plan.yaml"
    (tmp_path / "things.yaml").write_text(GRAPH)
    path.write_text(
        text + 'writes:\n  - merge: {from: made, node: Thing, set: {name: "max(uuid)"}}\n'
    )
    with pytest.raises(
        PlanError, match=r"plan.yaml:\d+:\d+.*an aggregate \(max\) is not allowed here"
    ):
        load_plan(path)


def test_aggregates_of_groups_may_use_the_columns_they_are_grouped_by(run: Run) -> None:
    step = '    - aggregate: {by: [code], add: {x: "code || count(*)", n: "max(id) - min(id)"}, having: "n > 1"}\n'
    assert column(run(plan(COLUMNS, step), rows=ROWS), "x") == ["a2", "b2"]


def test_window_functions_stand_in_computed_columns_and_filters(run: Run) -> None:
    steps = '    - add: {n: "count(*) OVER (PARTITION BY code)"}\n    - filter: "row_number() OVER (PARTITION BY code) = 1"\n'
    made = run(plan(COLUMNS, steps), rows=ROWS)
    assert [(row["id"], row["n"]) for row in made] == [(0, 2), (1, 2)]
