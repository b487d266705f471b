"""`why`: the rows that a row is made of, and the questions about these, from the run's record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import semgraph
from semgraph.conformance.cases import Mind, Oracle
from semgraph.errors import PlanError
from semgraph.execution.record import Run
from semgraph.execution.result import Result
from semgraph.provenance import Chain, explain, written_by

OLD = Path(__file__).parents[1] / "fixtures" / "records" / "0.1.0" / "ade0"
Rows = Sequence[Mapping[str, Any]]
WORDS: Rows = [{"id": 1, "word": "tea"}, {"id": 2, "word": "tea"}, {"id": 3, "word": "jam"}]


def mind(*words: str) -> Mind:
    """Says yes to what holds one of some words; a row that it is asked the code of, or a group, has
    the code `c`.
    """

    def answer(text: str) -> dict[str, Any]:
        if text.startswith("Code"):
            return {"code": "c"}
        return {"answer": "yes" if any(word in text for word in words) else "no"}

    return Mind(
        answer=answer,
        match=lambda left, right: {} if any(word in left + right for word in words) else None,
        combine=lambda _texts, _parts: {"code": "c"},
    )


async def ran(folder: Path, text: str, says: Mind | None = None, **inputs: Rows) -> Run:
    """The record of a run."""
    (folder / "plan.yaml").write_text(text, encoding="utf-8")
    async with semgraph.Session(
        llm=Oracle(says or mind()),
        store="memory",
        journal=False,
        folder=folder,
        runs=folder / "runs",
    ) as session:
        result: Result = await session.arun(folder / "plan.yaml", **inputs)
    assert result.record is not None
    return Run(result.record)


def rows_of(chain: Chain, step: str, column: str = "id") -> list[Any]:
    """The values of the chain's rows of a step."""
    return [link.row[column] for link in chain.links if link.step == step and link.row]


NUMBERED = """
plan: numbered
inputs: {words: {id: int64, word: string}}
steps:
  plain: [{from: words}, {project: [word]}]
  numbered: [{from: plain}, {add: {n: "row_number() OVER ()"}}]
returns: [plain, numbered]
"""


async def test_rows_that_agree_in_all_values_are_told_apart(tmp_path: Path) -> None:
    run = await ran(tmp_path, NUMBERED, words=WORDS)
    for n, row in enumerate(WORDS, 1):
        chain = explain(run, f"numbered:n={n}")
        assert [link.step for link in chain.links] == ["numbered", "plain", "words"]
        assert rows_of(chain, "words") == [row["id"]]


ORDERED = """
plan: ordered
graph: graph.yaml
inputs: {notes: {uuid: string null, group_id: string, words: "list<string>", at: timestamp}}
windows: {input: notes, partition: group_id, order: [at], key: uuid, key_of: [words, at], size: 2}
steps:
  heard: [{from: notes}, {project: {group_id, words}}, {unnest: {column: words, alias: word, position: nth}}]
  plain: [{from: heard}, {project: {group_id, word}}]
  kept: [{from: plain}, {sem_filter: {prompt: "Keep {word}"}}]
  numbered: [{from: kept}, {add: {uuid: "id(group_id, word, row_number() OVER ())", n: "row_number() OVER ()"}}]
writes: [{merge: {from: numbered, node: Word}}]
returns: [heard, numbered]
"""


async def test_so_are_rows_of_one_row_of_an_ordered_input(tmp_path: Path) -> None:
    graph = (
        "graph: g\nkey: uuid\npartition: group_id\nnodes: {Word: {properties: {word: string}}}\n"
    )
    (tmp_path / "graph.yaml").write_text(graph, encoding="utf-8")
    notes = [{"uuid": None, "group_id": "g", "words": ["tea", "jam", "tea"], "at": "2025-01-01"}]
    run = await ran(tmp_path, ORDERED, mind("tea"), notes=notes)
    for n, nth in ((1, 1), (2, 3)):
        chain = explain(run, f"numbered:n={n}")
        assert rows_of(chain, "heard", "nth") == [nth]
        (asked,) = [item for link in chain.links for item in link.asked]
        assert asked.left == {"word": "tea"}


GROUPED = """
plan: grouped
inputs: {words: {id: int64, word: string}}
steps:
  coded: [{from: words}, {sem_map: {prompt: "Code: {word}", returns: {code: string}}}]
  counted: [{from: coded}, {aggregate: {by: [word], add: {n: count(*)}}}]
  summed: [{from: counted}, {sem_agg: {prompt: "Code: {word}", returns: {code: string}}}]
returns: [counted, summed]
"""


async def test_a_group_is_made_of_its_rows_and_of_no_others(tmp_path: Path) -> None:
    run = await ran(tmp_path, GROUPED, words=WORDS)
    chain = explain(run, "counted:word=tea")
    assert rows_of(chain, "words") == rows_of(chain, "coded") == [1, 2]
    assert [item.left for link in chain.links for item in link.asked] == [{"word": "tea"}] * 2
    whole = explain(run, "summed:code=c")
    assert rows_of(whole, "counted", "word") == ["tea", "jam"]
    assert rows_of(whole, "words") == [1, 2, 3]
    assert len(whole.links[0].asked) == 1


PAIRED = """
plan: paired
inputs: {words: {id: int64, word: string}, things: {name: string}}
steps:
  paired: [{from: words}, {sem_join: {other: things, alias: thing, how: left, prompt: "{word} is {thing.name}"}}]
  unpaired: [{from: words}, {sem_join: {other: things, alias: thing, how: anti, prompt: "{word} is no {thing.name}"}}]
returns: [paired, unpaired]
"""


async def test_of_a_pair_the_question_about_it_is_shown_and_of_a_row_without_one_all(
    tmp_path: Path,
) -> None:
    things = [{"name": "drink"}, {"name": "food"}]
    run = await ran(tmp_path, PAIRED, mind("tea is drink"), words=WORDS[1:], things=things)
    pair = explain(run, "paired:word=tea")
    assert [(item.right, item.answers["match"]) for item in pair.links[0].asked] == [
        ({"name": "drink"}, True)
    ]
    assert rows_of(pair, "things", "name") == ["drink"]
    alone = explain(run, "paired:word=jam")
    assert [item.answers["match"] for item in alone.links[0].asked] == [False, False]
    assert rows_of(alone, "things", "name") == []
    left = explain(run, "unpaired:word=jam")
    assert [item.right["name"] for item in left.links[0].asked] == ["drink", "food"]


CLUSTERED = """
plan: clustered
inputs: {words: {id: int64, word: string}, ties: {a: int64, b: int64, n: int64}}
steps:
  groups: [{from: ties}, {cluster: {nodes: words, key: id, source: a, target: b, algorithm: components, alias: group}}]
returns: [groups]
"""


async def test_a_row_of_a_cluster_is_made_of_its_node_and_of_the_edges_of_the_cluster(
    tmp_path: Path,
) -> None:
    words = [{"id": i, "word": f"w{i}"} for i in range(1, 6)]
    ties = [{"a": a, "b": b, "n": a * 10 + b} for a, b in ((1, 2), (2, 3), (4, 5), (5, 9))]
    run = await ran(tmp_path, CLUSTERED, words=words, ties=ties)
    chain = explain(run, "groups:word=w3")
    assert (rows_of(chain, "words"), rows_of(chain, "ties", "n")) == ([3], [12, 23])
    chain = explain(run, "groups:word=w4")
    assert (rows_of(chain, "words"), rows_of(chain, "ties", "n")) == ([4], [45])


async def test_a_row_of_a_cluster_of_vectors_is_made_of_the_rows_of_the_cluster(
    tmp_path: Path,
) -> None:
    plan = """
plan: clustered
inputs: {words: {id: int64 null, v: list<double>}}
steps:
  groups: [{from: words}, {cluster: {key: id, vector: v, algorithm: kmeans(k=2), alias: group}}]
returns: [groups]
"""
    keys = [1, 2, 3, 4, None, None]
    words = [{"id": key, "v": [float(n // 2), n / 10]} for n, key in enumerate(keys)]
    run = await ran(tmp_path, plan, words=words)
    assert rows_of(explain(run, "groups:id=3"), "words") == [3, 4]
    assert rows_of(explain(run, "groups:id=1"), "words") == [1, 2]


async def test_a_fact_of_a_memory_is_made_of_the_messages_that_it_names(tmp_path: Path) -> None:
    async with semgraph.Session(
        llm="recorded", embedder="recorded", store="memory", folder=tmp_path, runs=tmp_path / "runs"
    ) as session:
        result = await session.arun("add_episode")
    assert result.record is not None
    run = Run(result.record)
    edges = result.tables["edges"].to_pylist()
    assert edges
    for edge in edges:
        chain = explain(run, edge["uuid"])
        assert rows_of(chain, "receive/to_read", "uuid") == edge["episodes"]
        assert len(rows_of(chain, "episodes", "content")) == len(edge["episodes"])
        asked = {link.step for link in chain.links if link.asked}
        assert {"read/facts", "read/mentions"} <= asked


def test_a_record_without_lineage_is_refused_with_what_to_do() -> None:
    run = Run(OLD)
    assert run.facts["semgraph"] == "0.1.0"
    with pytest.raises(PlanError, match=r"without the lineage of its rows.*[Rr]un the plan again"):
        explain(run, "It leaks.")


async def test_a_record_without_lineage_wrote_no_row_as_far_as_is_known(tmp_path: Path) -> None:
    run = await ran(tmp_path, NUMBERED, words=WORDS)
    assert written_by([Run(OLD), run], "jam").run == run.name
    with pytest.raises(PlanError, match=r"no row of any recorded run.*2 runs recorded"):
        written_by([Run(OLD), run], "It leaks.")
