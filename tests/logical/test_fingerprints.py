"""Fingerprints name no Python code: databases hold commit markers made from them.

`pinned.json` was written by 0.1.0. A renamed class or argument must not change it: give the class
its old `tag`, the argument `tag="old name"`. Where a shipped plan itself was changed, or a new operator
stands in `operators.yaml`, `SEMGRAPH_RENEW=1 pytest tests/logical/test_fingerprints.py` writes the
fingerprint anew.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

import semgraph
from semgraph.frontend.frame import table
from semgraph.frontend.load import load_plan
from semgraph.logical.node import Node, argument, walk
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.relational import Empty, SampleRows
from semgraph.optimizer import mark_empty

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures" / "fingerprints"
PINNED = FIXTURES / "pinned.json"
SHIPPED = ("add_episode", "search", "settle_facts", "build_communities", "remove_episode")
SOURCE = table([{"id": "a", "n": 1}]).node


def operators_plan() -> LogicalPlan:
    return load_plan(FIXTURES / "operators.yaml")


def fingerprints() -> dict[str, str]:
    plans = {name: load_plan(ROOT / "plans" / f"{name}.yaml") for name in SHIPPED}
    own = operators_plan()
    steps = {f"operators/{name}": node.fingerprint for name, node in own.steps.items()}
    empty = mark_empty(own, {"spare": own.inputs["spare"].schema.empty_table()}).returns["unused"]
    whole = {name: plan.fingerprint for name, plan in (*plans.items(), ("operators", own))}
    return whole | steps | {"operators/unused, empty": empty.fingerprint}


def operator_classes(base: type[Node] = Node) -> Iterator[type[Node]]:
    for cls in base.__subclasses__():
        if cls.__module__.startswith("semgraph.logical."):
            yield cls
        yield from operator_classes(cls)


def test_fingerprints_are_those_of_release_0_1_0() -> None:
    actual = fingerprints()
    if os.environ.get("SEMGRAPH_RENEW"):
        PINNED.write_text(json.dumps(actual, indent=1) + "\n", encoding="utf-8")
    assert actual == json.loads(PINNED.read_text(encoding="utf-8"))


def test_the_pinned_plan_has_every_operator() -> None:
    used = {type(node) for node in walk(*operators_plan().roots)} | {Empty}
    concrete = {cls for cls in operator_classes() if not cls.__abstractmethods__}
    assert used == concrete - {SampleRows}, "a sample is lowered when a plan is loaded"


def test_tags_are_unique() -> None:
    classes = dict.fromkeys(operator_classes())
    tags = [cls.tag for cls in classes if not cls.__abstractmethods__]
    assert all(tags)
    assert len(set(tags)) == len(tags)


@dataclass(frozen=True, eq=False, kw_only=True)
class Sample(Node):
    keyword: ClassVar[str] = "sample"
    tag: ClassVar[str] = "Sample"
    input: Node = argument("input")
    n: int = argument("number")

    def infer(self) -> pa.Schema:
        return self.input.schema


@dataclass(frozen=True, eq=False, kw_only=True)
class Renamed(Node):
    keyword: ClassVar[str] = "sample"
    tag: ClassVar[str] = "Sample"
    input: Node = argument("input")
    size: int = argument("number", tag="n")

    def infer(self) -> pa.Schema:
        return self.input.schema


def test_a_renamed_class_and_argument_keep_the_fingerprint() -> None:
    old, new = Sample(input=SOURCE, n=3), Renamed(input=SOURCE, size=3)
    assert old.fingerprint == new.fingerprint
    assert old.fingerprint != Renamed(input=SOURCE, size=4).fingerprint


@dataclass(frozen=True, eq=False, kw_only=True)
class Extended(Node):
    keyword: ClassVar[str] = "sample"
    tag: ClassVar[str] = "Sample"
    input: Node = argument("input")
    n: int = argument("number")
    where: str = argument("path", default="", added=True)

    def infer(self) -> pa.Schema:
        return self.input.schema


def test_an_argument_that_was_added_counts_where_it_is_set() -> None:
    old, new = Sample(input=SOURCE, n=3), Extended(input=SOURCE, n=3)
    assert (old.fingerprint, old.content) == (new.fingerprint, new.content)
    changed = new.with_fields(where="n")
    assert changed.fingerprint not in {new.fingerprint, ""}
    assert changed.content == Extended(input=SOURCE, n=3, where="n").content != new.content
    assert changed.with_fields(where="").content == new.content


def test_rows_marked_by_0_1_0_are_not_processed_again(tmp_path: Path) -> None:
    shutil.copy(FIXTURES / "remembered-0.1.0.db", tmp_path / "graph.db")
    rows = [
        {"group_id": "g", "id": "n1", "name": "Ann", "at": "2024-01-01T00:00:00Z"},
        {"group_id": "h", "id": "n2", "name": "Ben", "at": "2024-01-02T00:00:00Z"},
    ]
    store = f"sqlite:{tmp_path / 'graph.db'}"
    with semgraph.Session(store=store, journal=False, runs="", folder=tmp_path) as session:
        result = session.run(FIXTURES / "remembered.yaml", inputs={"notes": rows})
    assert result.skipped == 2
    assert not result.notes, "the markers hold the fingerprint of this plan"
