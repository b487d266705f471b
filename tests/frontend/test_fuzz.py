"""Whatever stands in a plan, loading it gives a plan or says what is wrong with it."""

from __future__ import annotations

import copy
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semgraph.errors import Fault, PlanError, Problem
from semgraph.folders import plans_folder
from semgraph.frontend.document import Document, read_file, walk_paths
from semgraph.frontend.graph_files import graph_of
from semgraph.frontend.jsonschema import plan_schema
from semgraph.frontend.load import load_document
from semgraph.logical.plan import LogicalPlan
from tests.examples import examples

SHIPPED = {
    name: plans_folder() / f"{name}.yaml"
    for name in ("add_episode", "resolve_entities", "settle_facts", "search")
}
WORDS = [
    *plan_schema()["$defs"]["pipeline"]["items"]["properties"],
    *(
        "from",
        "union",
        "call",
        "switch",
        "$flag",
        "$now",
        "uuid",
        "Entity",
        "RELATES_TO",
        "episodes",
        "of",
        "x > 1",
        "(",
        "a b",
        "",
    ),
]
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-3, 70)
    | st.floats(allow_nan=False)
    | st.sampled_from(WORDS)
    | st.text(max_size=8)
)
PLAIN = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


def load(data: object, path: Path) -> LogicalPlan | PlanError:
    try:
        return load_document(Document(str(path), data), path)
    except PlanError as error:
        return error


@pytest.mark.parametrize("name", SHIPPED)
@settings(max_examples=examples(10, 25), deadline=None)
@given(data=st.data())
def test_one_part_of_a_plan_replaced_by_anything(name, data):
    path = SHIPPED[name]
    plan = copy.deepcopy(read_file(path).data)
    places = [place for place, _ in walk_paths(plan) if place]
    *outer, last = data.draw(st.sampled_from(places))
    at = plan
    for key in outer:
        at = at[key]
    at[last] = data.draw(PLAIN)
    found = load(plan, path)
    if isinstance(found, PlanError):
        assert found.problems
        assert all(isinstance(problem, Problem) and problem.what for problem in found.problems)


@pytest.mark.parametrize("name", SHIPPED)
@settings(max_examples=examples(5, 15), deadline=None)
@given(data=st.data())
def test_one_part_of_a_plan_left_out(name, data):
    path = SHIPPED[name]
    plan = copy.deepcopy(read_file(path).data)
    places = [place for place, _ in walk_paths(plan) if place]
    *outer, last = data.draw(st.sampled_from(places))
    at = plan
    for key in outer:
        at = at[key]
    del at[last]
    load(plan, path)


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(st.sampled_from([*plan_schema()["properties"]]), PLAIN))
def test_a_plan_of_anything(data):
    load(data, SHIPPED["search"])


@settings(max_examples=80, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(WORDS), PLAIN, min_size=1, max_size=1), max_size=3))
def test_a_step_of_anything(items):
    plan = {
        "plan": "p",
        "graph": "graph.yaml",
        "inputs": {"episodes": {"uuid": "string", "group_id": "string", "x": "int64"}},
        "steps": {"s": [{"from": "episodes"}, *items]},
        "returns": ["s"],
    }
    load(plan, SHIPPED["search"])


@settings(max_examples=examples(80, 200), deadline=None)
@given(data=st.data())
def test_one_part_of_a_graph_replaced_by_anything(data):
    graph = copy.deepcopy(read_file(plans_folder() / "graph.yaml").data)
    places = [place for place, _ in walk_paths(graph) if place]
    *outer, last = data.draw(st.sampled_from(places))
    at = graph
    for key in outer:
        at = at[key]
    at[last] = data.draw(PLAIN)
    with suppress(Fault):
        graph_of(graph)
