"""What a merge writes: columns of the relation, and what `set` says in their place."""

from __future__ import annotations

from pathlib import Path

import semgraph

GRAPH = "graph: notes\nnodes: {Note: {properties: {text: string, n: int64}}}\n"
PLAN = """plan: notes
graph: graph.yaml
inputs: {notes: {id: string, group_id: string, n: int64}}
steps:
  told:
    - from: notes
    - project: {uuid: id, group_id, text: "'given'", n}
writes: [{merge: {from: told, node: Note, set: {text: "concat('of ', n)"}}}]
"""
READ = """plan: read
graph: graph.yaml
steps: {found: [{from: {label: Note, partition: all}}, {project: [uuid, text, n]}]}
returns: [found]
"""


def test_what_set_says_is_written_in_place_of_a_column_of_the_relation(tmp_path: Path) -> None:
    for name, text in (("graph", GRAPH), ("notes", PLAN), ("read", READ)):
        (tmp_path / f"{name}.yaml").write_text(text)
    with semgraph.Session(store="memory", journal=False, runs="", folder=tmp_path) as session:
        session.run(tmp_path / "notes.yaml", notes=[{"id": "a", "group_id": "g", "n": 1}])
        found = session.run(tmp_path / "read.yaml")
    assert found.tables["found"].to_pylist() == [{"uuid": "a", "text": "of 1", "n": 1}]
