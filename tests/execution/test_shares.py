"""Runs over a share of the rows: together they give what one run gives."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from semgraph.execution.record import recorded_parts, recorded_steps
from semgraph.execution.result import Result
from semgraph.meter import Meter
from semgraph.session.inputs import typed_inputs
from semgraph.session.run import RunRequest, Share, run_plan
from tests.execution.conftest import PLAN, STORY, Work, said, wire
from tests.inside import resources

GROUPS = ("ada", "bo", "cy")


def rows_of_groups():
    """Messages of three groups, one after the other's, so that their places interleave."""
    rows = [said([text], GROUPS[n % 3], n)[0] for n, text in enumerate(STORY)]
    return [*rows, said(["\0"], "bo", 20)[0]]


async def in_shares(work: Work, rows, shares) -> tuple[list[Result], Result]:
    async with work.session() as session:
        plan = session.prepare(PLAN)
        table = typed_inputs(plan, {"episodes": rows})["episodes"]
        sizes = {"episodes": table.num_rows}
        parts = []
        for number, groups in enumerate(shares):
            places = [n for n, row in enumerate(rows) if row["group_id"] in groups]
            folder = work.folder / ".semgraph" / "runs" / "abcd" / str(number)
            share = Share("abcd", folder, "episodes", places, sizes, number << 32)
            inputs = {
                **typed_inputs(plan, {"episodes": rows}),
                "episodes": table.take(places),
            }
            parts.append(await run_plan(RunRequest(plan, inputs, share=share), resources(session)))
        return parts, Result.merge(parts, "abcd")


def without_key(result: Result, name: str):
    return [
        {k: v for k, v in row.items() if k not in {"created_at", "expired_at"}}
        for row in result.rows(name)
    ]


async def test_a_share_at_a_budget_counts_before_one_with_a_stopped_group(simple: Work):
    parts, _ = await in_shares(simple, rows_of_groups(), [("cy",), ("ada",)])
    halted = replace(parts[0], exit_code=1)
    stopped = replace(parts[1], exit_code=4, stopped="it would pass max_calls 1")
    assert Result.merge([halted, stopped], "abcd").exit_code == 4
    assert Result.merge([halted, parts[1]], "abcd").exit_code == 1


@pytest.mark.parametrize(
    "shares",
    [
        pytest.param([GROUPS], marks=pytest.mark.nightly),
        [("cy",), ("ada", "bo")],
        pytest.param([("bo",), ("cy",), ("ada",)], marks=pytest.mark.nightly),
    ],
)
async def test_shares_of_the_groups_give_together_what_one_run_gives(
    simple: Work, shares, tmp_path
):
    rows = rows_of_groups()
    one = Work(
        simple.model, replace(simple.place, spec=f"sqlite:{tmp_path}/one.db"), tmp_path / "one"
    )
    one.folder.mkdir()
    whole = await one.run(rows)
    asked, simple.model.requests[:] = list(simple.model.requests), []
    _, merged = await in_shares(simple, rows, shares)
    assert wire(simple.model.requests) == wire(asked)
    assert merged.exit_code == whole.exit_code == 3
    for name in ("members", "committed", "skipped", "written", "notes", "stopped"):
        assert getattr(merged, name) == getattr(whole, name), name
    assert [(f.input_row, f.step, f.error) for f in merged.failed] == [
        (f.input_row, f.step, f.error) for f in whole.failed
    ]
    assert whole.tables
    for name in whole.tables:
        assert without_key(merged, name) == without_key(whole, name)
    counted = {
        "calls_issued",
        "calls_journal",
        "tokens_in",
        "tokens_out",
        "rows_in",
        "rows_out",
        "operator",
    }
    for step, metrics in whole.meter.steps.items():
        own = merged.meter.steps[step].as_dict()
        if step != "commit":
            assert {k: own[k] for k in counted} == {k: metrics.as_dict()[k] for k in counted}, step


async def test_a_share_records_rows_by_their_place_in_the_whole_input(simple: Work):
    rows = rows_of_groups()
    await in_shares(simple, rows, [("cy",), ("ada", "bo")])
    folder = simple.folder / ".semgraph" / "runs" / "abcd"
    for kind in ("steps", "answers"):
        for step in recorded_steps(folder / "0", kind):
            tables = {n: recorded_parts(folder / n, kind, step) for n in "01"}
            found = {
                n: {
                    m
                    for table in tables[n]
                    if "_m" in table.column_names
                    for m in table["_m"].to_pylist()
                }
                for n in "01"
            }
            assert found["0"] <= {2, 5, 8, 11, None}, (kind, step)
            assert not found["1"] & {2, 5, 8, 11}, (kind, step)
    asked = [
        m
        for table in recorded_parts(
            folder / "0", "answers", recorded_steps(folder / "0", "answers")[0]
        )
        for m in table["_m"].to_pylist()
    ]
    assert set(asked) == {2, 5, 8, 11}
    failed = [json.loads(line) for line in (folder / "1" / "failed.jsonl").read_text().splitlines()]
    assert [row["group_id"] for row in failed] == ["bo"]
    ids = [
        {
            number
            for table in recorded_parts(folder / name, "lineage")
            for number in table["_o"].to_pylist()
        }
        for name in "01"
    ]
    assert ids[0]
    assert ids[1]
    assert not ids[0] & ids[1]


def test_counters_of_one_operator_are_added_up_and_those_of_two_stay_apart():
    parts = []
    for calls in (2, 5):
        meter = Meter()
        meter.operator("told", "first", "SemMap", "per_row").calls_issued += calls
        meter.operator("told", "second", "SemFilter", "block").calls_issued += 1
        meter.paid.add(f"call {calls}")
        meter.replayed.calls_issued += 3
        parts.append(meter)
    merged = Meter.merge(parts)
    assert merged.steps["told"].calls_issued == merged.total().calls_issued == 9
    assert [m.calls_issued for m in merged.operators()["told"]] == [7, 2]
    assert merged.steps["told"].operator == "SemMap, SemFilter"
    assert merged.paid == {"call 2", "call 5"}
    assert merged.replayed.calls_issued == 6
