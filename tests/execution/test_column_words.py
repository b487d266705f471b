"""Columns and properties named by words of SQL and of the language, in every place of a plan that names
columns, on each store.
"""

from __future__ import annotations

from pathlib import Path

import semgraph
from semgraph.conformance.cases import Mind, Oracle
from tests.execution.conftest import Place

GRAPH = """
graph: shop
key: uuid
partition: group_id
nodes:
  Item:
    properties: {order: int64, from: string, desc: string, where: string}
    derived: {by: {embed: desc}, select: key(from)}
    fulltext: {texts: [desc]}
    index: [order]
edges:
  NEXT: {source: Item, target: Item, properties: {limit: int64, not: string}}
"""
FILL = """
plan: fill
graph: graph.yaml
inputs:
  items: {uuid: string, group_id: string, order: int64, from: string, desc: string}
  ties: {uuid: string, group_id: string, source: string, target: string, limit: int64, not: string}
writes:
  - merge: {from: items, node: Item, set: {where: "from || '!'"}}
  - merge: {from: ties, edge: NEXT}
"""
READ = """
plan: read
graph: graph.yaml
inputs:
  asked: {uuid: string, group_id: string, order: int64, group: string, select: string, desc: string, from: string, end: string}
steps:
  few:
    - from: asked
    - filter: [order > 0, select <> 'z' AND 'z' <> from]
    - limit: {n: 9, by: [group], order: [order desc, desc desc, from]}
    - sort: [select, desc desc]
    - distinct: [order, end]
  counted:
    - from: few
    - aggregate: {by: {group, from: lower(from)}, add: {limit: "list(desc ORDER BY order DESC)", where: max(order)}, having: where > 0}
    - unnest: {column: limit, alias: by, position: case}
    - project: {group, from, by, case, when: "CASE WHEN case = 1 THEN where ELSE 0 END"}
    - sort: [from, case]
  joined:
    - from: few
    - join: {other: counted, alias: join, using: {group: group, desc: by}, where: join.when >= 0}
    - group_join: {other: few, alias: on, using: group, where: on.order <= order, order: [on.order desc], add: {into: list(on.select)}}
    - project: {order, join: join.when, into}
    - sort: order
  asks:
    - from: few
    - sem_map: {prompt: "{order} {from}: {desc}?", returns: {then: string}, when: order > 1, otherwise: {then: from}}
    - sem_filter: {prompt: "Is {then} as {select}?", when: from <> 'b', otherwise: from = 'b'}
    - project: {order, then}
    - sort: order
  named:
    - from: few
    - sem_map:
        prompt: "{order} is in {having}"
        returns: {as: ref<having>}
        refs: {having: {of: counted, using: group, where: having.case > 0, order: [case], shows: {by, else: from}}}
    - project: {order, as: as.by}
    - sort: order
  found:
    - from: few
    - search: {over: Item, alias: union, k: 3, methods: [{equal: select, to: key(from)}, {fulltext: desc}, {nearest: desc, above: 0.1}], where: union.order > 0 AND union.from = from}
    - project: {order, hit: union.where}
    - sort: order
  paths:
    - from: few
    - match: {pattern: "(case:Item {uuid: uuid})-[using:NEXT]->(then:Item)", where: "using.limit > 1 AND using.not = 'n' AND case.order < then.order AND then.from <> case.desc"}
    - filter: using.not = 'n' AND then.where IS NOT NULL
    - project: {order, limit: using.limit, to: then.order}
returns: [counted, joined, asks, named, found, paths]
"""


def think(text: str) -> dict[str, object]:
    if text.startswith("Is "):
        return {"answer": "yes"}
    return {"as": 1} if " is in " in text else {"then": text.upper()}


async def test_words_name_columns_in_every_place(place: Place, tmp_path: Path) -> None:
    for name, text in {"graph": GRAPH, "fill": FILL, "read": READ}.items():
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    items = [
        {"uuid": f"u{n}", "group_id": "g", "order": n, "from": word, "desc": f"the {word}"}
        for n, word in enumerate("abc", 1)
    ]
    ties = [
        {"uuid": "t1", "group_id": "g", "source": "u1", "target": "u2", "limit": 5, "not": "n"},
        {"uuid": "t2", "group_id": "g", "source": "u2", "target": "u3", "limit": 1, "not": "n"},
    ]
    asked = [{**item, "group": "x", "select": "y", "end": "e"} for item in items]
    async with semgraph.Session(
        llm=Oracle(Mind(answer=think)), store=place.spec, journal=False, runs="", folder=tmp_path
    ) as session:
        await session.arun(tmp_path / "fill.yaml", items=items, ties=ties)
        result = await session.arun(tmp_path / "read.yaml", asked=asked)
    rows = {name: table.to_pylist() for name, table in result.tables.items()}
    assert rows["counted"][0] == {"group": "x", "from": "a", "by": "the a", "case": 1, "when": 1}
    assert [tuple(row.values()) for row in rows["joined"]] == [
        (1, 1, ["y"]), (2, 2, ["y"] * 2), (3, 3, ["y"] * 3),
    ]  # fmt: skip
    assert [row["order"] for row in rows["asks"]] == [1, 2, 3]
    assert rows["asks"][0]["then"] == "a"
    assert rows["asks"][1]["then"] == "2 B: THE B?"
    assert [row["as"] for row in rows["named"]] == ["the a"] * 3
    assert [tuple(row.values()) for row in rows["found"]] == [(1, "a!"), (2, "b!"), (3, "c!")]
    assert rows["paths"] == [{"order": 1, "limit": 5, "to": 2}]
