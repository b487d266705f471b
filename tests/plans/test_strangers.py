"""A session of one group runs plans and graph files of strangers: they neither read nor change rows
of another group, in both stores.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from semgraph.errors import SemgraphError
from tests.plans.conftest import PLANS, both_stores
from tests.plans.test_one_group import Two
from tests.plans.test_one_group import two as _two

two = _two  # a fixture
OWN = (PLANS / "graph.yaml").read_text(encoding="utf-8")
DIVIDED = "partition: group_id\ncommon: {created_at: timestamp}"
GRAPHS = {
    "the graph itself": OWN,
    "no partition": OWN.replace("partition: group_id\n", ""),
    "a part of it": """graph: part
nodes: {Entity: {open: [labels, attributes], properties: {name: string, summary: string}}}
edges: {RELATES_TO: {source: Entity, target: Entity, properties: {fact: string}}}
""",
    "another partition": OWN.replace(DIVIDED, "partition: tenant\ncommon: {created_at: timestamp}"),
    "a property as the partition": OWN.replace("partition: group_id", "partition: name"),
    "the partition as a property": OWN.replace(
        DIVIDED, "partition: tenant\ncommon: {created_at: timestamp, group_id: string}"
    ),
    "another key": OWN.replace("key: uuid", "key: name"),
}
REFUSED = list(GRAPHS)[3:]
PLAN = """plan: strange
graph: graph.yaml
inputs: {rows: {KEY: string, PARTITION: string, other: string, text: string}}
steps:
  found: BODY
"""
READS = {
    "rows": "[{from: {label: Entity, partition: all}}, {project: {KEY, PARTITION, summary}}]",
    "search": "[{from: asked}, {search: {over: Entity, alias: n, k: 99, partition: all, methods: [{equal: KEY, to: other}, {nearest: name, to: text}]}}, {project: {KEY: n.KEY, summary: n.summary}}]",
    "order": "[{from: asked}, {search: {over: Entity, alias: n, k: 99, partition: all, order: n.KEY}}, {project: {KEY: n.KEY}}]",
    "match": "[{from: asked}, {match: {pattern: '(a:Entity)-[r:RELATES_TO]->(b:Entity)', partition: all}}, {project: {KEY: r.KEY, fact: r.fact}}]",
    "walk": "[{from: asked}, {match: {pattern: '(a:Entity)-[r:RELATES_TO*1..3]-(b:Entity)', partition: all}}, {project: {KEY: b.KEY}}]",
}
ROW = "{KEY: other, PARTITION: WHOSE, summary: text}"
WRITES = {
    "merge": "merge: {from: found, node: Entity}",
    "merge of existing": "merge: {from: found, node: Entity, only: existing}",
    "delete": "delete: {from: found, node: Entity, detach: true}",
    "edge": "merge: {from: tied, edge: RELATES_TO}",
}


class Strange:
    """Plans of a stranger over a graph of the stranger's, run for group g."""

    def __init__(self, two: Two, folder: Path, graph: str) -> None:
        self.two, self.folder, self.graph = two, folder, graph
        (folder / "graph.yaml").write_text(graph, encoding="utf-8")

    async def run(self, body: str, more: str, other: str) -> str:
        """All that a run says, its rows and its failures included; for a refusal the message."""
        key, partition = (
            match[1]
            if (match := re.search(rf"^{word}: (\w+)", self.graph, re.MULTILINE))
            else usual
            for word, usual in (("key", "uuid"), ("partition", "group_id"))
        )
        text = PLAN.replace("BODY", body) + more
        text = text.replace("KEY", key).replace("PARTITION", partition).replace("rows:", "asked:")
        path = self.folder / "strange.yaml"
        path.write_text(text, encoding="utf-8")
        row = {key: "mine", partition: "g", "other": other, "text": "Ann"}
        try:
            result = await self.two.own.arun(path, asked=[row])
        except SemgraphError as error:
            return str(error)
        rows = {name: table.to_pylist() for name, table in result.tables.items()}
        return f"{rows} {result.failed} {result.notes} {result.written}"


@both_stores
@pytest.mark.parametrize("name", GRAPHS)
async def test_what_a_stranger_s_plan_does_stays_in_the_group(
    two: Two, tmp_path: Path, name: str
) -> None:
    """Its own group is read; nothing of the other is read, written, deleted or named in a message."""
    of_others = await two.uuid("Ann", "h"), await two.uuid("Luma", "h")
    own = await two.uuid("Ann", "g")
    strange = Strange(two, tmp_path, GRAPHS[name])
    for what, body in READS.items():
        said = await strange.run(body, "returns: [found]\n", of_others[0])
        if name in REFUSED:
            assert "with partition: group_id, key: uuid, and the graph" in said, (what, said)
        elif what != "search":
            assert own in said or what == "match", (what, said)
        assert not any(uuid in said.replace(f"'other': '{of_others[0]}'", "") for uuid in of_others)
    for what, write in WRITES.items():
        for whose in ("PARTITION", "'h'", "NULL"):
            body = "[{from: asked}, {project: " + ROW.replace("WHOSE", whose) + "}]"
            tie = "{KEY: text, PARTITION: WHOSE, source: other, target: other, fact: text}"
            tied = "  tied: [{from: asked}, {project: " + tie.replace("WHOSE", whose) + "}]\n"
            more = f"{tied if what == 'edge' else ''}writes: [{{{write}}}]\n"
            await strange.run(body, more, of_others[0])
    assert await two.of_others() == two.others


@both_stores
@pytest.mark.parametrize("name", REFUSED)
async def test_a_graph_that_divides_rows_otherwise_is_refused_also_without_a_group(
    two: Two, tmp_path: Path, name: str
) -> None:
    strange = Strange(two, tmp_path, GRAPHS[name])
    strange.two.own = two.memory.session
    said = await strange.run(READS["rows"], "returns: [found]\n", "")
    assert "with partition: group_id, key: uuid, and the graph" in said
