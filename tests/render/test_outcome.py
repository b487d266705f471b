"""What is printed after a run: what it wrote, what it cost, what failed, and how to go on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from semgraph.execution.record import Run
from semgraph.execution.result import Result
from semgraph.frontend.load import load_plan
from semgraph.logical.plan import LogicalPlan
from semgraph.meter import Meter, StepMetrics
from semgraph.render.outcome import cost, hints, outcome, remarks, unfinished
from semgraph.semantic.ask import Failure
from tests.cli.conftest import GRAPH, PLAN
from tests.render.test_html import labelled

READ = StepMetrics("sem_map", "per_row", rows_in=3, rows_out=4, calls_issued=3, tokens_in=2310, tokens_cached=1420,
                   tokens_out=156, seconds=21.4, dollars=0.0, round_trips=2)  # fmt: skip


@pytest.fixture
def plan(tmp_path: Path) -> LogicalPlan:
    (tmp_path / "graph.yaml").write_text(GRAPH)
    (tmp_path / "people.yaml").write_text(PLAN)
    return load_plan(tmp_path / "people.yaml")


def result(**more: Any) -> Result:
    steps = more.pop("steps", {"told": READ})
    people = pa.table({"uuid": ["a"], "group_id": ["demo"], "name": ["Ann"]})
    given: dict[str, Any] = {
        "members": 3,
        "committed": 3,
        "written": {"Note": 3, "Person": 1},
    } | more
    return Result("people", "7f3a", {"people": people}, Meter(steps), **given)


def text(found: Result, plan: LogicalPlan, **more: Any) -> str:
    return "\n".join(outcome(found, plan, 110, 65.4, **more))


def test_the_steps_that_asked_are_listed_with_what_they_cost(plan: LogicalPlan) -> None:
    idle = StepMetrics("sem_join", "block")
    moved = StepMetrics(rows_out=5)
    shown = text(result(steps={"told": READ, "named": idle, "ends": moved}), plan)
    assert shown.splitlines()[3:7] == [
        "  step  operator  how      in → out  calls  tokens in (cached)  out    time",
        "  told  sem_map   per_row     3 → 4      3       2,310 (1,420)  156  21.4 s",
        "  1 more step without rows",
        "  written: 3 Note, 1 Person       0 rows failed",
    ]
    assert "  ends" in text(result(steps={"told": READ, "ends": moved}), plan, every=True)


def test_in_a_narrow_terminal_what_a_step_cost_outlives_how_it_was_done(plan: LogicalPlan) -> None:
    long = result(steps={"a_step_with_a_long_name": READ})
    titles = ["  step ", "in → out", "calls", "tokens in", "out", "time"]
    for width in (80, 70):
        head = next(line for line in outcome(long, plan, width, 1.0) if line.startswith("  step"))
        assert all(title in head for title in titles)
        assert len(head) <= width
        assert "how" not in head or width == 80
    assert "more column" not in "\n".join(narrow := [*outcome(long, plan, 80, 1.0)])
    assert "1,420" not in "\n".join(narrow), "without its title nothing says what it is"


def test_answers_that_were_not_asked_for_now_are_called_as_below_the_table(
    plan: LogicalPlan,
) -> None:
    kept = StepMetrics(
        "sem_map",
        "per_row",
        rows_in=4,
        rows_out=4,
        calls_issued=1,
        calls_journal=2,
        calls_coalesced=1,
    )
    shown = text(result(steps={"told": kept}), plan)
    assert "1 (+2 journal, +1 shared)" in shown
    assert "1 call (+2 from the journal) (+1 shared: equal requests, sent once)" in shown


def test_packed_answers_that_had_to_be_asked_again_are_told(plan: LogicalPlan) -> None:
    spoilt = StepMetrics("sem_map", "packed", rows_in=4, rows_out=4, calls_issued=5, unusable=2)
    assert list(remarks(result(steps={"told": spoilt}), plan, "people")) == [
        "! told: 2 packed answers did not answer every row; the rest was requested again"
    ]


def test_without_an_order_failed_rows_are_still_named_by_their_file(
    plan: LogicalPlan, tmp_path: Path
) -> None:
    (tmp_path / "failed.jsonl").write_text("{}")
    found = result(
        failed=(Failure("told", "cut", None, {}),), record=tmp_path, exit_code=3, members=0
    )
    said = list(remarks(found, replace(plan, windows=None), "people"))
    assert said[-1] == f"  these rows are in {tmp_path / 'failed.jsonl'}"


def test_the_cost_line_says_what_was_asked_what_was_known_and_what_it_would_have_cost_elsewhere() -> (
    None
):
    assert cost(READ, 65.4) == (
        "3 calls · 2.3 k tokens in, 156 out · $0 (at gpt-4.1-mini ≈ $0.00075) · 65 s · 2 store queries"
    )
    kept = StepMetrics(calls_journal=5, calls_coalesced=1, dollars=0.0)
    assert cost(kept, 1) == (
        "0 calls (+5 from the journal) (+1 shared: equal requests, sent once) · 0 tokens in, 0 out · $0 · 1.0 s"
    )
    paid = StepMetrics(calls_issued=1, tokens_in=1, dollars=0.744)
    assert "· $0.74 ·" in cost(paid, 1)
    paid.dollars = None
    assert "· price unknown ·" in cost(paid, 1)


def test_a_run_that_found_everything_done_is_one_line(plan: LogicalPlan) -> None:
    found = result(members=3, skipped=3, committed=0, written={}, steps={})
    assert text(found, plan) == (
        "3 of 3 notes are in the graph already: 0 calls, nothing to write (0 store queries). To process them again: --reprocess"
    )


def test_failed_rows_are_counted_by_what_happened_and_can_be_run_again(
    plan: LogicalPlan, tmp_path: Path
) -> None:
    (tmp_path / "failed.jsonl").write_text("{}")
    failures = (
        Failure("told", "cut", 0, {}),
        Failure("told", "cut", 1, {}),
        Failure("told", "refused\x1b[2J", 2, {}),
    )
    found = result(failed=failures, record=tmp_path, exit_code=3)
    assert list(remarks(found, plan, "people")) == [
        "3 rows failed (exit 3):",
        "  2 × told: cut",
        "  1 × told: refused\\x1b[2J",
        f"  these rows only: semgraph run people -i notes={tmp_path / 'failed.jsonl'}",
    ]


def test_a_run_that_was_stopped_says_what_is_safe_and_how_to_go_on(plan: LogicalPlan) -> None:
    found = result(committed=2, stopped="it would pass max_usd 2.00", notes=("the plan changed",))
    assert list(remarks(found, plan, "plans/people.yaml")) == [
        "! the plan changed",
        "run 7f3a stopped: it would pass max_usd 2.00",
        "  2 of 3 notes are complete, with all that follows from them",
        "Resume: semgraph run plans/people.yaml --resume 7f3a",
    ]


def test_a_run_that_broke_off_says_so_too(plan: LogicalPlan, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"members": {"given": 9, "skipped": 1, "committed": 3}}')
    lines = list(unfinished([Run(tmp_path)], plan, "people", " --config c", lambda _name: plan))
    assert lines == [
        f"run {tmp_path.name}: 4 of 9 notes are complete, with all that follows from them",
        f"Resume: semgraph run people --config c --resume {tmp_path.name}",
    ]


def test_a_run_that_broke_off_names_the_batches_that_go_on(
    plan: LogicalPlan, tmp_path: Path
) -> None:
    note = (
        "1 batch goes on at the endpoint: batch_1 (3 requests). A resumed run collects the answers"
    )
    (tmp_path / "run.json").write_text(json.dumps({"batches": note}))
    lines = list(unfinished([Run(tmp_path)], plan, "people", "", lambda _name: plan))
    assert lines == [note, f"Resume: semgraph run people --resume {tmp_path.name}"]


def test_if_a_plan_of_the_example_broke_off_both_commands_are_printed(
    plan: LogicalPlan, tmp_path: Path
) -> None:
    (tmp_path / "run.json").write_text('{"plan": "before"}')
    asked: list[str] = []

    def prepare(name: str) -> LogicalPlan:
        asked.append(name)
        return plan

    lines = list(unfinished([Run(tmp_path)], plan, "people", " --config c", prepare))
    first = f"semgraph run before --config c --resume {tmp_path.name}"
    assert lines == [f"Resume: {first}, then semgraph run people --config c"]
    assert asked == ["before"]


def test_a_result_is_a_line_in_python() -> None:
    assert repr(result(steps={"told": READ}, skipped=1)) == (
        "<Result people, run 7f3a; people 1 rows; 3 calls; 1 of 3 rows were there already; written: 3 Note, 1 Person>"
    )


def test_what_to_do_next(plan: LogicalPlan, tmp_path: Path) -> None:
    found = result(record=labelled(tmp_path).folder)
    following = {"find": "People by name"}
    assert list(hints(found, plan, following, "")) == [
        "Next: semgraph run find   (People by name)",
        "Next: semgraph why 7f3a KNOWS   (the prompts; models make mistakes)",
        "Next: semgraph report 7f3a -o report.html   (the graph and all prompts as a page)",
        "(run recorded: 7f3a)",
    ]
    found.skipped = 1
    (more,) = (line for line in hints(found, plan, following, " --store s") if "show" in line)
    assert more == "Next: semgraph show g --store s   (the whole graph; -o g.html: a page)"
    assert len(list(hints(found, plan, following, " --store s"))) == 4
    assert list(hints(result(), plan, {})) == []
