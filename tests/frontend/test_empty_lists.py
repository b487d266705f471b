"""What is written means something: no empty list where a list is needed, no alias that hides a
column, no condition that chance decides.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from semgraph.errors import PlanError
from semgraph.frontend.load import load_plan

PLAN = "plan: p\ngraph: graph.yaml\nparams: {x: 3}\ninputs:\n  a: {id: string, b: string, n: int64, group_id: string}\n  c: {id: string, m: int64}\nsteps:\n  s:\n    - from: a\n    - %s\nreturns: [s]\n"
GRAPH = "nodes: {N: {properties: {name: string, n: int64}, fulltext: {f: [name]}}}\n"


def loaded(folder: Path, operator: str) -> None:
    (folder / "graph.yaml").write_text(GRAPH)
    (folder / "p.yaml").write_text(PLAN % operator)
    load_plan(folder / "p.yaml")


@pytest.mark.parametrize(
    ("operator", "what"),
    [
        ("sort: []", "sort needs at least one expression"),
        ("project: []", "project needs at least one column"),
        ("project: {}", "project needs at least one column"),
        ("add: {}", "add needs at least one column"),
        ("group_join: {other: c, alias: o, using: id, add: {}}", "group_join needs at least one column"),
        ("aggregate: {by: [], add: {}}", "aggregate needs at least one column"),
        ("search: {over: N, alias: h, k: 1, methods: []}", "ranks by its methods or by order"),
        ("join: {other: c, alias: o, using: []}", "a join needs using or where"),
    ],
)  # fmt: skip
def test_a_list_that_must_not_be_empty_is_refused(tmp_path: Path, operator: str, what: str) -> None:
    with pytest.raises(PlanError, match=what):
        loaded(tmp_path, operator)


@pytest.mark.parametrize("operator", ["distinct: []", "limit: {n: 1, by: []}", "aggregate: {by: [], add: {k: count(*)}}"])  # fmt: skip
def test_an_empty_list_that_means_all_is_allowed(tmp_path: Path, operator: str) -> None:
    loaded(tmp_path, operator)


@pytest.mark.parametrize("operator", [
    "join: {other: c, alias: b, where: b.id = id}", "join: {other: c, alias: b, using: id}", "join: {other: c, alias: b, where: b.id = id, how: semi}",
    "join: {other: c, alias: b, using: id, how: anti}", "group_join: {other: c, alias: b, where: b.id = id, add: {k: count(b)}}",
    "search: {over: N, alias: b, k: 1, order: b.n, where: b.n = n}", 'sem_join: {other: c, alias: b, prompt: "Is {id} {b.id}?", where: b.id = id}',
])  # fmt: skip
def test_an_alias_that_is_a_column_is_said_so(tmp_path: Path, operator: str) -> None:
    with pytest.raises(PlanError, match='alias "b" is a column already') as refused:
        loaded(tmp_path, operator)
    assert "no column" not in str(refused.value)


@pytest.mark.parametrize("text", ["random() < 0.5", "random() < 2", "uuid() IS NOT NULL", "current_date > DATE '2020-01-01'"])  # fmt: skip
@pytest.mark.parametrize("operator", [
    "filter: [{0}, n > 1]", "filter: {0}", "require: {{where: {0}, says: \"'no'\"}}", "search: {{over: N, alias: h, k: 1, order: h.n, where: {0}}}",
    "search: {{over: N, alias: h, k: 1, order: h.n, where: [{0}, h.n > 1]}}", "search: {{over: N, alias: h, k: 1, order: h.n, where: ['n IS NULL OR {1}']}}",
    "join: {{other: c, alias: o, where: [{0}]}}", 'limit: "$x + CASE WHEN {0} THEN 1 ELSE 2 END"', "aggregate: {{by: [id], having: {0}}}",
])  # fmt: skip
def test_no_condition_is_decided_by_chance(tmp_path: Path, operator: str, text: str) -> None:
    for _ in range(4):
        with pytest.raises(PlanError, match="would make the plan give another result each time"):
            loaded(
                tmp_path,
                operator.format(
                    text if "limit" in operator else f'"{text}"', text.replace("'", "''")
                ),
            )
