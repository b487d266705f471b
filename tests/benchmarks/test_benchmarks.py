"""The benchmarks: every case stands in a table, measures are right by hand, and one small run of each
kind from end to end.
"""

from __future__ import annotations

import asyncio
import math
import re

import pytest

from benchmarks.engine import growth
from benchmarks.engine.growth import Tenths
from benchmarks.frame import Line
from benchmarks.frame.cases import load, names
from benchmarks.search import embedded, ours
from benchmarks.search.bench import FACTS, RECIPES
from benchmarks.search.memory import memory_of
from benchmarks.search.ours import ranked
from semgraph.execution.result import Progress
from semgraph.folders import plans_folder
from semgraph.frontend.load import load_plan
from semgraph.meter import Meter


def test_these_benchmarks_exist() -> None:
    assert names() == ["engine", "ingest", "memories", "operators", "quality", "search", "tune"]


@pytest.mark.parametrize("name", names())
def test_every_case_is_of_one_row_and_stands_in_a_table(name: str) -> None:
    one = load(name)
    keys = [case.key for case in one.cases()]
    assert len({str(key) for key in keys}) == len(keys)
    for key in keys:
        line = Line(name, key, 0, {})
        assert any(line.is_of(t.where) and set(t.names) <= set(key) for t in one.tables), key


def test_growth_compares_the_last_tenth_with_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([1.0, *(2.0 + n for n in range(9)), 13.0])
    monkeypatch.setattr(growth.time, "process_time", lambda: next(clock))
    tenths = Tenths(1_000)
    for done in range(0, 1_001, 50):
        tenths.note(Progress("", done, 1_000, Meter()))
        tenths.note(Progress("resolved", done, 1_000, Meter()))
    figures = tenths.figures()
    assert (figures["first_ms"], figures["last_ms"], figures["growth"]) == (10, 30, 3)


def test_episodes_are_measured_in_one_run_and_known_in_the_next() -> None:
    figures = asyncio.run(growth.measured(20, 2, "", 5))
    assert figures["calls"] > 20
    assert figures["again_calls"] == 0


def test_rankings_are_scored_by_recall_gain_and_the_first_that_belongs_there() -> None:
    score = ranked(
        [(["x", "a", "y", "b"], {"a", "b", "c"}), (["a"], set()), (["a", "b"], {"a", "b"})]
    )
    best = 1 + 1 / math.log2(3) + 1 / 2
    assert score["recall"] == pytest.approx((2 / 3 + 1) / 2)
    assert score["ndcg"] == pytest.approx(((1 / math.log2(3) + 1 / math.log2(5)) / best + 1) / 2)
    assert (score["mrr"], score["gold"], score["questions"]) == (0.75, 2.5, 2)
    with pytest.raises(ValueError, match="no question"):
        ranked([(["a"], set())])


def test_a_larger_memory_holds_the_smaller_one_and_asks_the_same() -> None:
    small, large = memory_of(500), memory_of(700)
    facts = {row["uuid"]: row["fact"] for row in large.rows["RELATES_TO"]}
    assert len(small.rows["RELATES_TO"]) == 500
    assert all(facts[row["uuid"]] == row["fact"] for row in small.rows["RELATES_TO"])
    asked = small.asked(20, seed=3)
    assert [one.text for one in large.asked(20, seed=3)] == [one.text for one in asked]
    names = {row["uuid"]: row["name"] for row in small.rows["Entity"]}
    assert len(set(names.values())) == len(names)
    for one in asked:
        assert names[one.center] in one.text
        assert any(names[one.center] in facts[uuid] for uuid in one.gold["facts"])


def test_every_recipe_of_the_plan_is_measured() -> None:
    text = (plans_folder() / "search.yaml").read_text(encoding="utf-8")
    assert set(RECIPES) == set(re.findall(r"^  (\w+_HYBRID_SEARCH_\w+):", text, re.MULTILINE))
    assert load_plan("search", preset=FACTS[0]).name == "search"


def test_a_search_is_measured_from_end_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ours, "AT_ONCE", 6)
    monkeypatch.setattr(ours, "ALONE", 2)
    figures = ours.semgraph("COMBINED_HYBRID_SEARCH_RRF", "SQLite", 500, 0)
    assert (figures["calls"], figures["facts_questions"]) == (0, 6)
    for scope in ("facts", "entities", "episodes", "communities"):
        assert figures[f"{scope}_recall"] > 0.2


def test_the_store_alone_finds_the_exact_nearest_among_few_facts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(embedded, "QUERIES", 5)
    figures = embedded.measured(300, "any words", 1, 0)
    assert figures["recall"] == 1
    assert figures["of_bare"] > 0
