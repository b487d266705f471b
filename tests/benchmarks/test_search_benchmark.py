"""The benchmark of searches: its measures against numbers worked out by hand, its memory, and one
search from end to end.
"""

from __future__ import annotations

import math
import re
from collections import Counter

import pytest

from benchmarks.search import ours
from benchmarks.search.bench import BENCHMARK, FACTS, RECIPES
from benchmarks.search.memory import memory_of
from benchmarks.search.ours import Seen
from benchmarks.search.ranking import ndcg, ranked, recall, reciprocal_rank
from benchmarks.suite import Line
from semgraph.frontend.load import load_plan
from semgraph.shipped import plans_folder

FOUND = ["x", "a", "y", "b", "z"]


def test_recall_is_the_share_of_right_results_among_the_first_k() -> None:
    assert recall(FOUND, {"a", "b", "c"}) == pytest.approx(2 / 3)
    assert recall(FOUND, {"a", "b", "c"}, k=3) == pytest.approx(1 / 3)
    assert recall([], {"a"}) == 0


def test_ndcg_discounts_by_place_and_is_1_for_the_best_order() -> None:
    best = 1 + 1 / math.log2(3) + 1 / 2
    assert ndcg(FOUND, {"a", "b", "c"}) == pytest.approx(
        (1 / math.log2(3) + 1 / math.log2(5)) / best
    )
    assert ndcg(["a", "b", "x"], {"a", "b"}) == 1
    assert ndcg(["a", "x", "b"], {"a", "b"}, k=2) == pytest.approx(1 / (1 + 1 / math.log2(3)))
    assert ndcg(["x"], {"a"}) == 0


def test_where_more_belongs_there_than_has_place_the_best_order_fills_the_places() -> None:
    assert ndcg(["a", "b"], {"a", "b", "c"}, k=2) == 1


def test_reciprocal_rank_is_of_the_first_that_belongs_there() -> None:
    assert reciprocal_rank(FOUND, {"a", "b"}) == 1 / 2
    assert reciprocal_rank(FOUND, {"b"}, k=3) == 0


def test_questions_without_anything_to_find_do_not_count() -> None:
    score = ranked([(["a"], {"a"}), (["a"], set()), (["x", "b"], {"b", "c"})])
    assert (score.questions, score.recall, score.mrr, score.gold) == (2, 0.75, 0.75, 1.5)
    with pytest.raises(ValueError, match="no question"):
        ranked([(["a"], set())])


def test_times_are_per_search_and_unsearched_scopes_have_no_figures() -> None:
    asked = memory_of(500).asked(4, seed=1)
    hits = {"facts": [sorted(one.gold["facts"]) for one in asked]}
    figures = Seen([0.2, 0.1, 0.3, 0.4], [0.1] * 4, 2, 0, 0.4, hits).figures(asked)
    assert figures["p50_ms"] == 250
    assert figures["p95_ms"] == 400
    assert figures["each_ms"] == 100
    assert figures["facts_recall"] == figures["facts_ndcg"] == 1
    assert not any(name.startswith("entities") for name in figures)


def test_a_larger_memory_holds_the_smaller_one_and_asks_the_same() -> None:
    small, large = memory_of(500), memory_of(700)
    assert len(small.rows["RELATES_TO"]) == 500
    assert len(large.rows["RELATES_TO"]) == 700
    facts = {row["uuid"]: row["fact"] for row in large.rows["RELATES_TO"]}
    assert all(facts[row["uuid"]] == row["fact"] for row in small.rows["RELATES_TO"])
    assert [one.text for one in large.asked(20, seed=3)] == [
        one.text for one in small.asked(20, seed=3)
    ]


def test_no_two_entities_of_a_memory_have_one_name_and_all_ends_are_there() -> None:
    rows = memory_of(700).rows
    names = Counter(row["name"] for row in rows["Entity"])
    assert names.most_common(1)[0][1] == 1
    entities = {row["uuid"] for row in rows["Entity"]}
    assert {row[end] for row in rows["RELATES_TO"] for end in ("source", "target")} <= entities
    everything = {
        row["uuid"] for label in ("Entity", "Episodic", "Community") for row in rows[label]
    }
    assert {
        row[end]
        for label in ("MENTIONS", "HAS_MEMBER")
        for row in rows[label]
        for end in ("source", "target")
    } <= (everything)


def test_the_gold_results_are_in_the_memory_and_about_the_question() -> None:
    memory = memory_of(500)
    facts = {row["uuid"]: row["fact"] for row in memory.rows["RELATES_TO"]}
    names = {row["uuid"]: row["name"] for row in memory.rows["Entity"]}
    for one in memory.asked(40, seed=2):
        assert names[one.center] in one.text
        assert any(names[one.center] in facts[uuid] for uuid in one.gold["facts"])
        assert one.center in one.gold["entities"]


def test_every_recipe_of_the_plan_is_measured() -> None:
    text = (plans_folder() / "search.yaml").read_text(encoding="utf-8")
    assert set(RECIPES) == set(re.findall(r"^  (\w+_HYBRID_SEARCH_\w+):", text, re.MULTILINE))
    measured = {case.key["recipe"] for case in BENCHMARK.cases() if "recipe" in case.key}
    assert set(RECIPES) <= measured
    assert load_plan("search", preset=FACTS[0]).name == "search"


def test_every_case_is_of_one_row_and_stands_in_a_table() -> None:
    keys = [case.key for case in BENCHMARK.cases()]
    assert len({str(key) for key in keys}) == len(keys)
    for key in keys:
        line = Line("search", key, 0, {})
        assert any(
            line.is_of(table.where) and set(table.rows) <= set(key) for table in BENCHMARK.tables
        ), key


def test_a_search_is_measured_from_end_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ours, "AT_ONCE", 6)
    monkeypatch.setattr(ours, "ALONE", 2)
    figures = ours.semgraph("COMBINED_HYBRID_SEARCH_RRF", "SQLite", 500, 0)
    assert figures["statements"] == 6  # four scopes, and two that look at what the file has
    assert figures["calls"] == 0  # of the model; vectors are not counted
    assert figures["facts_questions"] == 6
    for scope in ("facts", "entities", "episodes", "communities"):
        found = figures[f"{scope}_recall"]
        assert isinstance(found, float)
        assert found > 0.2
