"""The page of a comparison: the table with its intervals, the chart, where ways differ, what was
asked.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from semgraph.compare.comparison import Arm, Comparison, Quality, Spent, Trial, save
from semgraph.execution.record import Run, RunRecord
from semgraph.render.html import page
from semgraph.render.html.graph import layout
from tests.render.test_html import HOSTILE, Read, data, line, recorded, texts

ROWS = pa.table({"_m": [0, 1], "id": [1, 2], "text": ["It leaks.", "Lovely."]})


def arm(name: str, says: list[int], dollars: float, f1: float, call: str) -> Arm:
    kept = pa.table(
        {
            "_m": [i - 1 for i in says],
            "id": says,
            "text": ["It leaks." if i == 1 else "Lovely." for i in says],
        }
    )
    asked = pa.Table.from_pylist(
        [{"_m": i, "left": json.dumps({"text": name}), "right": None, "keep": i + 1 in says, "error": None, "calls": [call]}
         for i in (0, 1)])  # fmt: skip
    spent = Spent(2, 100, 10, dollars)
    quality = Quality(precision=f1, recall=f1, f1=f1, interval=(f1 - 0.1, min(1.0, f1 + 0.05)))
    return Arm(
        name,
        {"told": name},
        (Trial(1, spent, spent, 0.5, 0, kept, asked, steps={"told": spent}),),
        quality,
    )


def compared(folder: Path, *arms: Arm, step: str = "told", **more: Any) -> Run:
    """A record such as a comparison leaves."""
    record = RunRecord(folder / "4b21")
    record.describe(
        plan="tickets",
        kind="comparison",
        started="2025-06-15 15:06:40+00:00",
        status="compared",
        journal=None,
    )
    record.lines(
        "calls.jsonl",
        [line("c1", **texts("Does it leak?", '{"answer": "yes"}'), origin="recording")],
    )
    found = Comparison("4b21", "tickets", step, "m-1", arms, reference=arms[0].name, truth=True, key=("id",),
                       frozen={"rows": {"tickets": 2}, "sha": "abcd"}, store="memory", rows=ROWS, record=record.folder)  # fmt: skip
    save(found, record)
    return Run(record.folder)


@pytest.fixture
def two(tmp_path: Path) -> Run:
    return compared(
        tmp_path,
        arm("per_row", [1], 0.02, 0.9, "c1"),
        arm("packed(rows=2)", [1, 2], 0.01, 0.8, "c2"),
    )


def test_the_table_has_the_intervals_and_says_in_words_what_is_best(two: Run) -> None:
    read = Read(page([two]))
    assert read.all("h1") == ["tickets · told · comparison 4b21"]
    assert read.all("h2") == [
        "The variants",
        "Charts",
        "Differences",
        "Prompts and answers",
    ]
    ways = read.all("table")[0]
    assert ".900 [.800 .950] (best)" in ways
    assert ".800 [.700 .850]" in ways
    assert "0.010 (best)" in ways


def test_it_says_of_what_and_when(two: Run) -> None:
    (told,) = Read(page([two])).all("dl")
    for said in (
        "tickets",
        "told",
        "m-1",
        "memory",
        "per_row",
        "2025-06-15 15:06:40 UTC",
        "compared",
    ):
        assert said in told


def test_ways_differ_in_shape_and_name_and_not_in_colour_alone(two: Run) -> None:
    read = Read(page([two]))
    quality, time, steps = read.all("svg", role="img")
    assert "per_row: $0.020, F1 .900; packed(rows=2): $0.010, F1 .800" in quality
    assert "time of one trial in seconds" in time
    assert "per_row: $0.020; packed(rows=2): $0.010" in steps
    shapes = [
        attrs["d"] for _, attrs, _ in read.found if attrs.get("class") == "point" and "d" in attrs
    ]
    assert len(set(shapes)) == 2
    assert [attrs for _, attrs, _ in read.found if attrs.get("class") == "interval"]
    names = [text for c in ("point-name", "point-name best") for text in read.all("text", class_=c)]
    assert sorted(names) == ["packed(rows=2)", "packed(rows=2)", "per_row", "per_row"]


def test_the_rows_on_which_they_differ_are_listed(two: Run) -> None:
    read = Read(page([two]))
    assert "packed(rows=2) and per_row: 1 row differs in the first trial" in read.all("summary")


def test_prompts_and_answers_are_there_as_far_as_they_are_kept(two: Run) -> None:
    found = data(Read(page([two])))
    asked, lost = found["calls"]
    assert [found["texts"][place] for _, place in asked["messages"]] == ["Read.", "Does it leak?"]
    assert (asked["step"], lost["step"]) == ("per_row", "packed(rows=2)")
    assert lost["lost"].startswith("The journal does not have it")


def test_one_way_alone_has_the_costs_of_its_steps_and_no_points(tmp_path: Path) -> None:
    read = Read(page([compared(tmp_path, arm("per_row", [1], 0.02, 0.9, "c1"))]))
    (chart,) = read.all("svg", role="img")
    assert "per_row: $0.020" in chart


def test_whole_plans_are_compared_without_rows(tmp_path: Path) -> None:
    spent = Spent(2, 100, 10, None)
    arms = [
        Arm(name, {}, (Trial(1, spent, spent, 1.0),), Quality(f1=f1, pairs=f1))
        for name, f1 in (("one", 0.5), ("two", 0.7))
    ]
    read = Read(page([compared(tmp_path, *arms, step="")]))
    assert read.all("h2") == ["The variants", "Charts"]
    assert "tokens of one trial" in read.all("text")


def test_no_name_of_a_way_becomes_html(tmp_path: Path) -> None:
    hostile = HOSTILE.replace("\ud83d", "").replace("\x00", "")
    read = Read(
        page(
            [
                compared(
                    tmp_path,
                    arm("per_row", [1], 0.02, 0.9, "c1"),
                    arm(hostile, [2], 0.01, 0.8, "c2"),
                )
            ]
        )
    )
    assert "img" not in read.tags
    assert len(read.all("script")) == 2


def test_runs_and_comparisons_share_a_page(two: Run, tmp_path: Path) -> None:
    read = Read(page([two, recorded(tmp_path / "runs")]))
    assert read.all("h2") == [
        "Side by side",
        "tickets · told · comparison 4b21",
        "people · run 7f3a",
    ]


def test_a_layout_is_always_the_same_and_places_differ() -> None:
    edges = [(i, i // 3) for i in range(1, 30)]
    one, same = layout(40, edges), layout(40, edges)
    assert one == same
    assert len(set(one.places)) == 40
    assert all(-1 <= x <= 1 and -1 <= y <= 1 for x, y in one.places)
    assert len({*one.within}) > 2, "a narrow page folds them"


@pytest.mark.parametrize(
    "edges", [[], [(0, i) for i in range(1, 2000)], [(i, i // 7) for i in range(1, 2000)]]
)
def test_a_large_graph_is_in_clusters_of_at_most_80(edges: list[tuple[int, int]]) -> None:
    made = layout(2000, edges)
    assert max(Counter([*made.within, *made.clusters]).values()) <= 80
    assert layout(2000, edges) == made
