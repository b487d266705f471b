"""What all benchmarks share: lines that outlive an interruption, tables and targets made of them
alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.suite import Chart, Column, Lines, Table, Target, Unmeasured
from benchmarks.suite.charts import draw
from benchmarks.suite.pages import page
from benchmarks.suite.running import measure, outstanding, work
from tests.benchmarks.made import bench, case, line


def test_trials_run_in_turns_so_that_other_load_affects_all() -> None:
    order: list[tuple[str, int]] = []

    def noted(way: str) -> Callable[[int], Mapping[str, Any]]:
        return lambda trial: order.append((way, trial)) or {"calls": 1}

    one = bench(case("a", noted("a"), trials=2), case("b", noted("b"), trials=3))
    for unit, trial in work(one, quick=False, full=False):
        unit.run(trial)
    assert order == [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("b", 2)]


def test_quick_and_full_choose_cases() -> None:
    some = bench(
        case("a", lambda _: {}, quick=True),
        case("b", lambda _: {}, full=True),
        case("c", lambda _: {}, trials=1),
    )
    shown = lambda todo: [(unit.key["way"], n) for unit, n in todo]  # noqa: E731
    assert shown(work(some, quick=True, full=False)) == [("a", 0)]
    assert shown(work(some, quick=False, full=False)) == [("a", 0), ("c", 0), ("a", 1), ("a", 2)]
    assert ("b", 2) in shown(work(some, quick=False, full=True))
    assert shown(work(some, quick=False, full=False, trials=1)) == [("a", 0), ("c", 0)]
    assert shown(work(some, quick=False, full=True, trials=1, where={"way": "b"})) == [("b", 0)]
    assert shown(work(some, quick=False, full=False, where={"way": "b", "facts": "1"})) == []


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    def stopped(_: int) -> Mapping[str, Any]:
        raise KeyboardInterrupt

    lines = Lines("ingest", tmp_path)
    first = bench(case("a", lambda trial: {"calls": trial}), case("b", stopped))
    with pytest.raises(KeyboardInterrupt):
        list(measure(first, work(first, quick=False, full=False), lines))
    again = bench(case("a", lambda trial: {"calls": trial}), case("b", lambda _: {"calls": 9}))
    left = outstanding(again, work(again, quick=False, full=False), lines)
    assert [(unit.key["way"], n) for unit, n in left] == [
        ("b", 0),
        ("a", 1),
        ("b", 1),
        ("a", 2),
        ("b", 2),
    ]
    list(measure(again, left, lines))
    assert [(found.key["way"], found.trial, found.figures["calls"]) for found in lines] == [
        ("a", 0, 0), ("b", 0, 9), ("a", 1, 1), ("b", 1, 9), ("a", 2, 2), ("b", 2, 9),
    ]  # fmt: skip
    assert outstanding(again, work(again, quick=False, full=False), lines) == []


def test_failures_and_timeouts_are_results_and_skipped_cases_are_not(
    tmp_path: Path,
) -> None:
    def crashes(_: int) -> Mapping[str, Any]:
        raise ValueError("bad answer\nmore")

    def missing(_: int) -> Mapping[str, Any]:
        raise Unmeasured("not installed. Run: make test-extras")

    def hangs(_: int) -> Mapping[str, Any]:
        time.sleep(30)
        return {}

    some = bench(
        case("a", crashes, trials=1),
        case("b", missing, trials=1),
        case("c", hangs, trials=1, seconds=0.2),
    )
    lines = Lines("ingest", tmp_path)
    told = [found.failed for found in measure(some, work(some, quick=False, full=False), lines)]
    assert told == [
        "ValueError: bad answer", "not measured: not installed. Run: make test-extras", "not finished after 0.2 s",
    ]  # fmt: skip
    assert [found.key["way"] for found in lines] == ["a", "c"]


def test_a_broken_line_is_reported_with_its_position(tmp_path: Path) -> None:
    (tmp_path / "ingest.jsonl").write_text("{\n")
    with pytest.raises(ValueError, match=r"ingest\.jsonl:1  invalid line of results"):
        list(Lines("ingest", tmp_path))


def test_a_cell_is_the_median_with_its_spread_and_the_multiple_of_the_baseline() -> None:
    table = Table("Q?", ("way",), (Column("s", "s", "{:.1f}", ratio=True),), baseline={"way": "a"})
    lines = [
        line("a", 0, s=1),
        line("a", 1, s=2),
        line("b", 0, s=3),
        line("b", 1, s=4),
        line("b", 2, "broke"),
    ]
    text = table.markdown(lines, [{"way": "a"}, {"way": "b"}])
    assert "| a | 1.5 (1.0–2.0) |  |" in text
    assert "| b | 3.5 (3.0–4.0), 2.50× [0.186–32.2] | 1 of 3 failed: broke |" in text


def test_a_target_says_met_not_met_or_not_measured() -> None:
    lines = [line("a", 0, s=1.0, f1=0.9), line("b", 0, s=3.0)]
    rows = [
        Target("seconds", {"way": "a"}, "s", 2, 0.5).row(lines),
        Target("seconds", {"way": "a"}, "s", 2, 1).row(lines),
        Target("quality", {"way": "a"}, "f1", 0.95, least=True).row(lines),
        Target("against a", {"way": "b"}, "s", 2, of={"way": "a"}).row(lines),
        Target("calls", {"way": "a"}, "calls", 2).row(lines),
    ]
    assert [(row.must, row.aim, row.measured, row.verdict) for row in rows] == [
        ("≤ 2", "≤ 0.5", "1", "met"),
        ("≤ 2", "≤ 1", "1", "met, and the aim"),
        ("≥ 0.95", "—", "0.9", "**not met**"),
        ("≤ 2 ×", "—", "3.00×", "**not met**"),
        ("≤ 2", "—", "—", "not measured"),
    ]  # fmt: skip


def test_a_page_is_a_function_of_its_lines() -> None:
    table = Table("What does it cost?", ("way",), (Column("calls", "calls"),))
    one = bench(
        case("a", lambda _: {}),
        tables=(table,),
        targets=(Target("calls", {"way": "a"}, "calls", 8),),
    )
    text = page(one, [line("a", 0, calls=8)])
    for part in (
        "What is asked?",
        "**What does it cost?**",
        "| a | 8 |",
        "| what | measured | must | met or not |",
        "| calls | 8 | ≤ 8 | met |",
        "commit abc; 1 trials",
    ):
        assert part in text
    assert "Not measured yet" in page(one, [])


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_chart_is_the_same_text_for_the_same_lines(theme: str) -> None:
    chart = Chart("worth", "Worth", "calls", "f1", "way", ("calls", "F1"))
    lines = [line("a", 0, calls=8, f1=0.9), line("b", 0, calls=3, f1=0.7)]
    assert chart.points(lines) == {"a": [(8, 0.9)], "b": [(3, 0.7)]}
    text = draw(chart, lines, theme)
    assert text == draw(chart, lines, theme)
    assert ">Worth<" in text


def test_a_labelled_chart_has_one_point_for_each_series_and_its_name_beside_it() -> None:
    chart = Chart("c", "C", "usd", "f1", "way", ("$", "F1"), joined=False, labelled=True)
    lines = [line(way, n, usd=n + 1, f1=0.5 + n / 10) for way in "ab" for n in range(3)]
    assert chart.points(lines) == {"a": [(2, 0.6)], "b": [(2, 0.6)]}
    assert chart.ranges(lines)["a"] == [(0.5, 0.7)]
    text = draw(chart, lines, "light")
    assert text.count(">a<") == text.count(">b<") == 1


def test_a_chart_with_more_names_than_places_is_refused() -> None:
    chart = Chart("c", "C", "usd", "f1", "way", ("$", "F1"), joined=False, labelled=True)
    lines = [line(f"a long name of number {n}", 0, usd=1, f1=0.5) for n in range(60)]
    with pytest.raises(
        ValueError, match=r'no free place for the label "a long name .*fewer series'
    ):
        draw(chart, lines, "light")
