"""`cluster` by files: what an algorithm is given, and which one is run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import semgraph
from semgraph.conformance.cases import Mind, Oracle
from semgraph.errors import DataError, EngineError, PlanError
from semgraph.frontend.load import load_plan

DOCS = Path(__file__).parents[2] / "docs"
PLAN = """
plan: teams
inputs:
  people: {name: string, place: string, v: list<double> null}
  talks: {place: string, a: string, b: string, times: int64 null}
steps:
  teams:
    - from: talks
    - cluster: {nodes: people, key: name, source: a, target: b, weight: times, vector: v, by: place, algorithm: ALGORITHM}
returns: [teams]
"""
RECORDING = '''
"""Writes down what it is given; all keys that begin alike are one cluster."""
import json, threading
from pathlib import Path
from semgraph.operator import Edges, Vectors

def refuses(letters):
    return None if letters > 0 else "letters must be above 0"

def cluster(keys, edges: Edges, vectors: Vectors | None, seed, letters: int = 1) -> list[int]:
    rows = None if vectors is None else vectors.tolist()
    thread = threading.current_thread() is threading.main_thread()
    with Path(__file__).with_suffix(".calls").open("a") as file:
        file.write(json.dumps([keys, edges, rows, thread]) + "\\n")
    return [ord(key[:letters]) for key in keys]
'''
PEOPLE = [
    {"name": name, "place": place, "v": [float(i), 0.5]}
    for i, (name, place) in enumerate(
        [("b2", "rome"), ("a1", "rome"), ("a1", "oslo"), ("b1", "rome"), ("a2", "rome")]
    )
]
TALKS = [
    {"place": "rome", "a": "b2", "b": "a1", "times": 2},
    {"place": "rome", "a": "a1", "b": "b2", "times": 3},
    {"place": "rome", "a": "b1", "b": "b1", "times": 1},
    {"place": "rome", "a": "b1", "b": "nobody", "times": 1},
    {"place": "oslo", "a": "a1", "b": "b2", "times": 1},
    {"place": "rome", "a": "a2", "b": "a1", "times": 1},
]


def session(folder: Path, **settings: Any) -> semgraph.Session:
    return semgraph.Session(
        llm=Oracle(Mind()), store="memory", journal=False, runs="", folder=folder, **settings
    )


def own(folder: Path, text: str, name: str = "own") -> Path:
    file = folder / "mine" / "cluster" / f"{name}.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return folder / "mine"


def clustered(
    folder: Path,
    algorithm: str,
    *,
    people: list[dict[str, Any]] = PEOPLE,
    talks: list[dict[str, Any]] = TALKS,
    use: str = "",
    operators: list[Path] | None = None,
) -> dict[tuple[str, str], str]:
    plan = folder / "teams.yaml"
    plan.write_text(PLAN.replace("ALGORITHM", algorithm), encoding="utf-8")
    with session(folder, operators=operators or []) as open_session:
        result = open_session.run(
            plan, inputs={"people": people, "talks": talks}, use={"teams": use} if use else {}
        )
    rows = result["teams"].to_pylist()
    return {(row["place"], row["name"]): row["cluster"] for row in rows}


def test_the_function_is_called_once_for_each_group_with_sorted_keys_and_edges(
    tmp_path: Path,
) -> None:
    mine = own(tmp_path, RECORDING)
    for rows in (1, -1):  # the order of rows is no part
        found = clustered(
            tmp_path, "own", people=PEOPLE[::rows], talks=TALKS[::rows], operators=[mine]
        )
        assert found == {
            ("rome", "a1"): "a1",
            ("rome", "a2"): "a1",
            ("rome", "b1"): "b1",
            ("rome", "b2"): "b1",
            ("oslo", "a1"): "a1",
        }
    calls = (mine / "cluster" / "own.calls").read_text().splitlines()
    rome = '[["a1", "a2", "b1", "b2"], [[0, 1, 1.0], [0, 3, 5.0]], [[1.0, 0.5], [4.0, 0.5], [3.0, 0.5], [0.0, 0.5]], false]'
    oslo = '[["a1"], [], [[2.0, 0.5]], false]'
    assert sorted(calls) == sorted([rome, oslo] * 2)


def test_windows_are_clustered_apart(tmp_path: Path) -> None:
    plan = """
plan: windowed
inputs: {notes: {id: string, owner: string, at: timestamp, to: string}}
windows: {input: notes, partition: owner, order: [at], key: id, size: all}
steps:
  near:
    - from: notes
    - project: {id, word: to, next: "'x'"}
    - cluster: {key: word, source: word, target: next, algorithm: louvain}
returns: [near]
"""
    (tmp_path / "windowed.yaml").write_text(plan)
    notes = [
        {"id": f"{owner}{i}", "owner": owner, "at": f"2026-01-0{i + 1}T00:00:00Z", "to": word}
        for owner in ("ann", "bob")
        for i, word in enumerate(("w", "x") if owner == "ann" else ("y", "x"))
    ]
    with session(tmp_path) as open_session:
        result = open_session.run(tmp_path / "windowed.yaml", inputs={"notes": notes})
    rows = {row["id"]: row["cluster"] for row in result["near"].to_pylist()}
    assert rows == {"ann0": "w", "ann1": "w", "bob0": "x", "bob1": "x"}


WINDOWED = """
plan: windowed
inputs: {notes: {id: string, owner: string, at: timestamp, a: string, b: string null}}
windows: {input: notes, partition: owner, order: [at], key: id, size: SIZE}
steps:
  alone: [{from: notes}, {cluster: {key: a, source: a, target: b}}]
  links: [{from: notes}, {project: {x: a, y: b}}]
  beside: [{from: links}, {cluster: {nodes: notes, key: a, source: x, target: y}}]
returns: [alone, beside]
"""
LOOP = """
plan: loop
inputs:
  ties: {c: string null, a: string null, b: string null}
  people: {c: string null, k: string null}
steps:
  once: [{from: ties}, {cluster: {nodes: people, key: k, source: a, target: b, by: c}}]
  rounds:
    - from: people
    - add: {name: k}
    - iterate:
        as: level
        times: 4
        by: [c]
        do:
          - from: ties
          - cluster: {nodes: level, key: name, source: a, target: b, by: c, alias: up}
          - project: {c, k, name: up}
returns: [once, rounds]
"""
LETTERS = st.sampled_from("abcd")
MAYBE = st.none() | LETTERS
GROUPS = st.sampled_from(["x", "y", None])


def components(keys: list[str | None], ties: list[tuple[str | None, str | None]]) -> dict[Any, Any]:
    graph = nx.Graph()
    graph.add_nodes_from(key for key in keys if key is not None)
    graph.add_edges_from((a, b) for a, b in ties if a in graph and b in graph)
    named = {key: min(part) for part in nx.connected_components(graph) for key in part}
    return named | {None: None}


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(st.tuples(st.sampled_from("uv"), LETTERS, MAYBE), max_size=9),
    st.sampled_from([1, 2, "all"]),
)
def test_each_window_has_clusters_of_its_own(
    tmp_path: Path, drawn: list[tuple[str, str, str | None]], size: int | str
) -> None:
    (tmp_path / "windowed.yaml").write_text(WINDOWED.replace("SIZE", str(size)))
    notes = [
        {"id": f"n{i}", "owner": owner, "at": f"2026-01-0{i + 1}T00:00:00Z", "a": a, "b": b}
        for i, (owner, a, b) in enumerate(drawn)
    ]
    expected = {}
    for owner in "uv":
        own = [note for note in notes if note["owner"] == owner]
        many = len(own) or 1 if size == "all" else int(size)
        for window in (own[i : i + many] for i in range(0, len(own), many)):
            named = components([n["a"] for n in window], [(n["a"], n["b"]) for n in window])
            expected |= {note["id"]: named[note["a"]] for note in window}
    with session(tmp_path) as open_session:
        result = open_session.run(tmp_path / "windowed.yaml", inputs={"notes": notes})
    for name in ("alone", "beside"):
        rows = {row["id"]: row["cluster"] for row in result[name].to_pylist()}
        assert rows == expected, name


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(st.tuples(GROUPS, MAYBE), max_size=8),
    st.lists(st.tuples(GROUPS, MAYBE, MAYBE), max_size=8),
)
def test_groups_are_clustered_apart_in_a_loop_too(
    tmp_path: Path, people: list[tuple[Any, Any]], ties: list[tuple[Any, Any, Any]]
) -> None:
    (tmp_path / "loop.yaml").write_text(LOOP)
    inputs = {
        "people": [{"c": c, "k": k} for c, k in people],
        "ties": [{"c": c, "a": a, "b": b} for c, a, b in ties],
    }
    expected = [
        (
            c,
            k,
            components([o for d, o in people if d == c], [(a, b) for d, a, b in ties if d == c])[k],
        )
        for c, k in people
    ]
    with session(tmp_path) as open_session:
        result = open_session.run(tmp_path / "loop.yaml", inputs=inputs)
    once = [tuple(row.values()) for row in result["once"].to_pylist()]
    rounds = [tuple(row.values()) for row in result["rounds"].to_pylist()]
    assert once == expected
    assert sorted(rounds, key=repr) == sorted(expected, key=repr)


def test_nodes_of_no_window_are_refused_beside_edges_of_windows(tmp_path: Path) -> None:
    plan = """
plan: windowed
inputs:
  notes: {id: string, owner: string, at: timestamp, to: string}
  people: {name: string}
windows: {input: notes, partition: owner, order: [at], key: id}
steps:
  near: [{from: notes}, {cluster: {nodes: people, key: name, source: id, target: to}}]
returns: [near]
"""
    (tmp_path / "windowed.yaml").write_text(plan)
    notes = [{"id": "a", "owner": "ann", "at": "2026-01-01T00:00:00Z", "to": "b"}]
    inputs = {"notes": notes, "people": [{"name": "a"}]}
    said = "step near: cluster puts rows of no window beside rows of windows"
    with session(tmp_path) as open_session, pytest.raises(PlanError, match=said):
        open_session.run(tmp_path / "windowed.yaml", inputs=inputs)


def test_use_replaces_a_partitioning_algorithm(tmp_path: Path) -> None:
    mine = own(tmp_path, RECORDING)
    apart = clustered(tmp_path, "own", operators=[mine])
    for use in ("own", "own(letters=1)", "{own: {letters: 1}}"):
        choice = yaml.safe_load(use)
        assert clustered(tmp_path, "louvain", use=choice, operators=[mine]) == apart
    assert clustered(tmp_path, "louvain") != apart


@pytest.mark.parametrize("use", ["forest", "components", "forest(n=1)"])
def test_an_exact_algorithm_replaces_none(tmp_path: Path, use: str) -> None:
    with pytest.raises(PlanError, match="is exact: use replaces a partitioning algorithm"):
        clustered(tmp_path, "louvain", use=use)


def test_an_exact_algorithm_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="It clusters by components, which is exact"):
        clustered(tmp_path, "components", use="louvain")


@pytest.mark.parametrize(
    ("algorithm", "said"),
    [
        (
            "louvian",
            'unknown algorithm "louvian" of cluster. Algorithms: forest, components, .*Did you mean "louvain"',
        ),
        ("component", 'Did you mean "components"'),
        ("louvain(k=2)", 'louvain has no parameter "k". Its parameters: resolution'),
        ("louvain(resolution=much)", 'resolution must be a number, not "much"'),
        ("louvain(resolution=0)", "cannot do this: resolution must be above 0"),
        ("leiden(iterations=0)", "cannot do this: iterations must be at least 1"),
        ("kmeans(k=0)", "cannot do this: k must be at least 1"),
        ("own(letters=0)", "cannot do this: letters must be above 0"),
    ],
)
def test_a_wrong_choice_is_refused_before_anything_is_run(
    tmp_path: Path, algorithm: str, said: str
) -> None:
    mine = own(tmp_path, RECORDING)
    with pytest.raises(PlanError, match=said) as caught:
        clustered(tmp_path, algorithm, operators=[mine])
    column = PLAN.splitlines()[8].index("ALGORITHM") + 1
    assert f"teams.yaml:9:{column}  step teams" in str(caught.value)


def test_an_unknown_algorithm_of_use_is_reported_at_the_operator(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match='Did you mean "leiden"') as caught:
        clustered(tmp_path, "louvain", use="leidne")
    assert "teams.yaml:9:7  step teams" in str(caught.value)


def test_what_an_algorithm_needs_must_be_named(tmp_path: Path) -> None:
    plan = """
plan: half
inputs: {people: {name: string, next: string, v: list<double>}}
steps:
  tied: [{from: people}, {cluster: {key: name, source: name, target: next, algorithm: kmeans}}]
  close: [{from: people}, {cluster: {key: name, vector: v, algorithm: louvain}}]
returns: [tied, close]
"""
    (tmp_path / "half.yaml").write_text(plan)
    people = [{"name": "a", "next": "b", "v": [0.5]}]
    with session(tmp_path) as open_session, pytest.raises(PlanError) as caught:
        open_session.run(tmp_path / "half.yaml", inputs={"people": people})
    first, second = str(caught.value).splitlines()
    assert first.endswith("step tied: kmeans cannot do this: it needs vector: a column of vectors")
    assert second.endswith(
        "step close: louvain cannot do this: it needs source and target of edges"
    )


def test_rows_with_close_vectors_are_clusters_without_any_edges(tmp_path: Path) -> None:
    points = [(0, 0), (0, 1), (9, 9), (9, 8), (0, 0), (20, 0)]
    people = [{"id": f"p{i}", "v": [float(x) for x in point]} for i, point in enumerate(points)]
    frame = semgraph.table(people).cluster(key="id", vector="v", algorithm="kmeans(k=3)", alias="c")
    assert frame.schema.names == ["id", "v", "c"]
    with session(tmp_path) as open_session:
        rows = open_session.run(frame).rows()
    assert [row["c"] for row in rows] == ["p0", "p0", "p2", "p2", "p0", "p5"]


def test_the_directions_of_vectors_are_compared_by_cosine(tmp_path: Path) -> None:
    points = [(1, 0), (9, 0), (0, 1), (0, 9), (0, 0)]
    people = [{"id": f"p{i}", "v": [float(x) for x in point]} for i, point in enumerate(points)]
    frame = semgraph.table(people).cluster(
        key="id", vector="v", algorithm={"kmeans": {"k": 3, "cosine": True}}
    )
    with session(tmp_path) as open_session:
        rows = open_session.run(frame).rows()
    assert [row["cluster"] for row in rows] == ["p0", "p0", "p2", "p2", "p4"]


def test_the_rows_are_nodes_and_edges_at_once(tmp_path: Path) -> None:
    chain = [{"id": "a", "next": "b"}, {"id": "b", "next": "c"}, {"id": "z", "next": None}]
    table = semgraph.table(chain)
    tied = table.filter("next IS NOT NULL")
    ends = tied.cluster(key="id", source="id", target="next", algorithm="forest", alias="end")
    with session(tmp_path) as open_session:
        assert [row["end"] for row in open_session.run(ends).rows()] == ["c", "c"]
        parts = open_session.run(table.cluster(key="id", source="id", target="next")).rows()
    assert [row["cluster"] for row in parts] == ["a", "a", "z"]


def test_an_edge_with_an_end_that_is_null_is_none(tmp_path: Path) -> None:
    chain = [{"id": "a", "next": "b"}, {"id": "b", "next": None}, {"id": "c", "next": None}]
    chain += [{"id": "a", "next": None}, {"id": None, "next": "x"}, {"id": None, "next": "y"}]
    ends = semgraph.table(chain).cluster(
        key="id", source="id", target="next", algorithm="forest", alias="end"
    )
    with session(tmp_path) as open_session:
        rows = open_session.run(ends).rows()
    assert [row["end"] for row in rows] == ["b", "b", "c", "b", None, None]


def test_a_nan_is_a_key_like_another(tmp_path: Path) -> None:
    rows = [{"id": 1.0, "to": 2.0}, {"id": 9.0, "to": 2.0}, {"id": 8.0, "to": 9.0}]
    nan = {
        name: f'CASE WHEN "{name}" = 9 THEN \'NaN\'::DOUBLE ELSE "{name}" END'
        for name in ("id", "to")
    }
    table = semgraph.table([*rows, {"id": 9.0, "to": 2.0}]).add(nan)
    expected = {
        "forest": [2.0] * 4,
        "components": [1.0, 8.0, 8.0, 8.0],
        "louvain": [1.0, 8.0, 8.0, 8.0],
    }
    with session(tmp_path) as open_session:
        for algorithm, names in expected.items():
            frame = table.cluster(key="id", source="id", target="to", algorithm=algorithm)
            assert [row["cluster"] for row in open_session.run(frame).rows()] == names


def test_a_weight_of_0_ties_nothing(tmp_path: Path) -> None:
    rows = [("a", "b", 0.0), ("c", "d", 2.0), ("c", "d", -2.0), ("b", "d", 0.0), ("d", "d", 3.0)]
    ties = semgraph.table([dict(zip(("id", "to", "w"), row, strict=True)) for row in rows])
    with session(tmp_path) as open_session:
        for algorithm in ("label_propagation", "louvain", "leiden"):
            frame = ties.cluster(
                key="id", source="id", target="to", weight="w", algorithm=algorithm
            )
            found = [row["cluster"] for row in open_session.run(frame).rows()]
            assert found == ["a", "c", "c", "b", "d"], algorithm


def test_a_node_whose_key_is_null_is_in_no_cluster(tmp_path: Path) -> None:
    rows = [{"id": "b", "to": "a"}, {"id": None, "to": "a"}, {"id": "a", "to": None}]
    table = semgraph.table(rows)
    for algorithm in ("components", "louvain"):
        frame = table.cluster(key="id", source="id", target="to", algorithm=algorithm)
        with session(tmp_path) as open_session:
            assert [row["cluster"] for row in open_session.run(frame).rows()] == ["a", None, "a"]


@pytest.mark.parametrize(
    ("people", "talks", "said"),
    [
        ([], {"times": None}, r'weight "times" of \'b2\' → \'a1\' is NULL'),
        ({"v": None}, [], r'vector "v" of \'b2\' is NULL'),
        ({"v": [1.0]}, [], r"different lengths: 1 \('b2'\), 2 \('b1'\)"),
        ({"v": [1e200, 1.0]}, [], r'vector "v" of .b2. has 1e\+200'),
        ({"name": "b1"}, [], r"rows of .b1. have different vectors \"v\".* by: \[place, name\]"),
        ([], {"times": -9}, "cluster by louvain: a weight is negative"),
    ],
)
def test_values_that_cannot_be_clustered_are_errors_of_the_step(
    tmp_path: Path, people: Any, talks: Any, said: str
) -> None:
    with pytest.raises(DataError, match=said) as caught:
        clustered(
            tmp_path,
            "louvain",
            people=[PEOPLE[0] | dict(people), *PEOPLE[1:]],
            talks=[TALKS[0] | dict(talks), *TALKS[1:]],
        )
    assert "teams.yaml:9:7  step teams" in str(caught.value)


@pytest.mark.parametrize("weight", [1.7e308, 5e-324])
def test_a_weight_out_of_range_is_an_error(tmp_path: Path, weight: float) -> None:
    ties = semgraph.table(
        [{"id": "a", "to": "b", "w": weight}, {"id": "b", "to": "a", "w": weight}]
    )
    for algorithm in ("louvain", "leiden", "label_propagation"):
        frame = ties.cluster(key="id", source="id", target="to", weight="w", algorithm=algorithm)
        said = 'weight "w" of .* A weight is 0, or from 1e-100 to 1e\\+100'
        with session(tmp_path) as open_session, pytest.raises(DataError, match=said):
            open_session.run(frame)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return [1 / 0]", r"own in .*own.py:3 raised ZeroDivisionError: division by zero"),
        ("return keys", r"own in .*own.py broke its contract: it returned no list of int"),
        ("return [1]", r"broke its contract: it returned 1 for 4 keys"),
    ],
)
def test_a_file_that_does_wrong_is_named(tmp_path: Path, body: str, said: str) -> None:
    text = f'"""Wrong."""\ndef cluster(keys, edges, vectors, seed):\n    {body}\n'
    with pytest.raises(EngineError, match=said):
        clustered(tmp_path, "own", operators=[own(tmp_path, text)])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "own.py: it has no function cluster"),
        ("async def cluster(keys, edges, vectors, seed): ...", "it has no function cluster"),
        ("def cluster(keys, edges): ...", "cluster must take keys, edges, vectors, seed"),
        ("def cluster(keys, edges, vectors, seed, k): ...", "the parameter k of cluster needs"),
        ("def cluster(keys, edges, vectors, seed, **k): ...", r"the parameter \*\*k of cluster"),
        ("def cluster(keys, edges: 'E', vectors, seed): ...", "a type of cluster is unknown"),
    ],
)
def test_a_file_that_cannot_be_called_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        clustered(tmp_path, "own", operators=[own(tmp_path, text)])


def test_rows_are_clustered_in_each_round_of_a_loop(tmp_path: Path) -> None:
    plan = """
plan: rounds
inputs: {people: {id: string, v: list<double>}}
steps:
  merged:
    - from: people
    - iterate:
        as: level
        times: 2
        do:
          - from: level
          - cluster: {key: id, vector: v, algorithm: own}
          - aggregate: {by: {id: cluster}, add: {v: min(v)}}
returns: [merged]
"""
    (tmp_path / "rounds.yaml").write_text(plan)
    text = """
def cluster(keys, edges, vectors, seed) -> list[int]:
    return [i // 2 for i in range(len(keys))]
"""
    people = [{"id": key, "v": [0.5]} for key in "abcdefg"]
    with session(tmp_path, operators=[own(tmp_path, text)]) as open_session:
        rows = open_session.run(tmp_path / "rounds.yaml", inputs={"people": people}).rows()
    assert sorted(row["id"] for row in rows) == ["a", "e"]


def test_explain_shows_the_algorithm(tmp_path: Path) -> None:
    plan = tmp_path / "teams.yaml"
    plan.write_text(PLAN.replace("ALGORITHM", "louvain(resolution=1.2)"), encoding="utf-8")
    with session(tmp_path) as open_session:
        text = open_session.explain(plan)
        other = open_session.explain(load_plan(plan, use={"teams": "kmeans(k=2)"}))
        algebra = open_session.explain(plan, format="algebra")
        data = open_session.explain(plan, format="json")
    assert re.search(r"teams .* cluster louvain\(resolution=1.2\)$", text, re.MULTILINE)
    assert re.search(r"teams .* cluster kmeans\(k=2\) \(by use\)", other)
    assert "louvain(resolution=1.2)_{a→b, name by v as cluster}(people, talks)" in str(algebra)
    assert '"algorithm": "louvain(resolution=1.2)"' in str(data)


def test_a_plan_with_an_algorithm_is_read_back_as_it_was(tmp_path: Path) -> None:
    people = semgraph.table([{"id": "a", "to": "b"}])
    frame = people.cluster(
        key="id", source="id", target="to", algorithm={"leiden": {"resolution": 2}}
    )
    frame.save(tmp_path / "saved.yaml")
    saved = load_plan(tmp_path / "saved.yaml")
    assert [node.fingerprint for node in saved.returns.values()] == [frame.node.fingerprint]
    assert "leiden(resolution=2)" in (node.algorithm for node in saved.returns.values())  # type: ignore[attr-defined]


def test_algorithms_are_compared_as_arms_of_a_plan(tmp_path: Path) -> None:
    plan = tmp_path / "teams.yaml"
    plan.write_text(PLAN.replace("ALGORITHM", "louvain"), encoding="utf-8")
    inputs = {"people": PEOPLE, "talks": TALKS}
    with session(tmp_path) as open_session:
        variants = {"louvain": {"teams": "louvain"}, "leiden": {"teams": "leiden(resolution=2.0)"}}
        compared = open_session.compare(plan, variants=variants, inputs=inputs)
        assert [arm.changes for arm in compared.arms] == list(variants.values())
        with pytest.raises(PlanError, match='Did you mean "teams"'):
            open_session.compare(plan, variants={"x": {"team": "leiden"}}, inputs=inputs)
        with pytest.raises(PlanError, match="Compare whole plans: --variant A:teams=ALGORITHM"):
            open_session.compare(plan, variants=["leiden"], step="teams", inputs=inputs)


def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    page = (DOCS / "cluster.md").read_text(encoding="utf-8")
    plan, *_ = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "teams.yaml").write_text(plan)
    people = [{"name": name} for name in ("ann", "bob", "cid", "dan")]
    talks = [{"a": "ann", "b": "bob", "times": 9}, {"a": "dan", "b": "cid", "times": 9}]
    with session(tmp_path) as open_session:
        inputs = {"people": people, "talks": [*talks, {"a": "ann", "b": "dan", "times": 1}]}
        rows = open_session.run(tmp_path / "teams.yaml", inputs=inputs).rows()
    assert [row["cluster"] for row in rows] == ["ann", "ann", "cid", "cid"]


def test_the_file_of_the_page_passes_the_check(tmp_path: Path) -> None:
    from semgraph.conformance import check_folder, report_lines

    page = (DOCS / "cluster.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (checked,) = check_folder(own(tmp_path, text))
    assert list(report_lines(checked)) == ["cluster/own  1 passed"]
