"""Implementations of a step: the same frozen rows for all, calls of their own for each, measured against the
truth.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

import semgraph as sg
from semgraph.compare.comparison import load_comparison
from semgraph.errors import BudgetReached
from semgraph.render.comparison import footer
from tests.compare.conftest import TRUE, WAYS, compared, filtered, opened, priced


async def test_each_way_answers_the_same_rows(session, server, complaints):
    found = await compared(session, complaints)
    assert [arm.name for arm in found] == WAYS
    assert [arm.cold.calls for arm in found] == [6, 2]
    assert len(server.requests) == 8
    assert [arm.trials[0].rows.column("id").to_pylist() for arm in found] == [[1, 3, 5], [1, 3, 5]]
    assert list(found.frozen["rows"].values()) == [6]
    assert found["packed(rows=3)"].quality.same == 1.0
    assert found["per_row"].quality.same is None
    assert (found.reference, found.stopped, found.exit_code) == ("per_row", None, 0)


async def test_the_frozen_input_is_named_by_its_content(session, complaints):
    one, same, other = [(await compared(session, plan, variants=["per_row"])).frozen["sha"] for plan in
                        (complaints, filtered(), filtered(5))]  # fmt: skip
    assert one == same != other


async def test_answers_are_scored_against_the_truth_by_hand(session, complaints):
    """1, 3 and 5 are said to complain; 1, 3 and 6 do."""
    found = await compared(session, complaints, truth=TRUE)
    quality = found["per_row"].quality
    assert (quality.precision, quality.recall, quality.f1) == (2 / 3, 2 / 3, 2 / 3)
    assert quality.interval[0] < 2 / 3 < quality.interval[1]
    value, low, high = found["packed(rows=3)"].quality.difference
    assert (value, round(low, 3), round(high, 3)) == (0.0, -0.527, 0.527)


async def test_a_truth_that_lists_what_stays_says_that_all_else_goes(session, complaints):
    found = await compared(session, complaints, truth=[{"id": 1}, {"id": 3}, {"id": 6}])
    assert found["per_row"].quality.f1 == 2 / 3


async def test_answers_of_a_map_are_compared_where_the_truth_says_something(session):
    rows = [
        {"id": 1, "text": "It leaks."},
        {"id": 2, "text": "Lovely."},
        {"id": 3, "text": "It leaks."},
    ]
    plan = (
        sg.table(rows, key="id")
        .sem_map("What is “{text}”?", returns={"kind": "string"})
        .step("kinds")
    )
    truth = [{"id": 1, "kind": "fault"}, {"id": 2, "kind": "praise"}]
    found = await compared(session, plan, step="kinds", variants=["per_row"], truth=truth)
    assert (found["per_row"].quality.precision, found["per_row"].quality.recall) == (0.5, 0.5)
    assert found.notes == ("the truth does not cover 1 of 3 rows: they are not scored",)


async def test_trials_of_a_noisy_model_are_calls_of_their_own_and_show_a_spread(
    session, reader, server, complaints
):
    reader.noisy = True
    found = await compared(session, complaints, truth=TRUE, trials=3, variants=["per_row"])
    arm = found["per_row"]
    assert len(server.requests) == 18
    answers = [trial.rows.column("id").to_pylist() for trial in arm.trials]
    by_trial = list(found.to_pandas(trials=True)["f1"])
    assert (min(by_trial), max(by_trial)) == arm.quality.spread
    assert by_trial == list(
        load_comparison(found.id, found.record.parent)["per_row"].quality.by_trial
    )
    assert len({tuple(each) for each in answers}) > 1
    low, high = arm.quality.spread
    assert low < high
    assert len(arm.seconds) == 3


async def test_a_comparison_that_is_made_again_pays_nothing_and_has_no_time(
    session, server, complaints
):
    first = await compared(session, complaints, trials=2)
    sent = len(server.requests)
    second = await compared(session, complaints, trials=2)
    assert len(server.requests) == sent
    assert (second.paid.calls, second.paid.dollars) == (0, 0.0)
    assert [arm.cold for arm in second] == [arm.cold for arm in first]
    assert [arm.quality for arm in second] == [arm.quality for arm in first]
    assert [arm.seconds for arm in second] == [(), ()]
    assert all(len(arm.seconds) == 2 for arm in first)


async def test_all_can_be_asked_anew(session, server, complaints):
    await compared(session, complaints)
    found = await compared(session, complaints, fresh=True)
    assert [arm.trials[0].paid.calls for arm in found] == [6, 2]
    assert len(server.requests) == 16
    assert all(arm.seconds for arm in found)


async def test_trials_are_counted_from_one_where_one_is_stopped(
    server, reader, tmp_path, complaints
):
    reader.invalid = {"Thanks"}
    async with opened(server, tmp_path, max_calls=16) as session:
        found = await compared(session, complaints, trials=2)
    assert "trial 2 of 2, is not complete" in found.stopped


async def test_arms_share_their_requests_and_get_none_of_a_run(session, server, complaints):
    """Each arm is charged for all requests that it needs, also for those that another one sent."""
    await session.arun(complaints)
    assert len(server.requests) == 6
    variants = dict.fromkeys("abcde", "per_row")
    found = await compared(session, complaints, variants=variants)
    assert [arm.trials[0].paid.calls for arm in found] == [6, 0, 0, 0, 0]
    assert [arm.cold.calls for arm in found] == [6] * 5
    assert len({arm.cold for arm in found}) == 1
    assert len(server.requests) == 12


@pytest.mark.parametrize("journal", [None, False])
async def test_trials_share_no_answers(server, tmp_path, complaints, journal):
    async with opened(server, tmp_path, journal=journal) as session:
        found = await compared(
            session, complaints, variants={"a": "per_row", "b": "per_row"}, trials=3
        )
    assert len(server.requests) == 18
    assert sorted(trial.paid.calls for arm in found for trial in arm.trials) == [0, 0, 0, 6, 6, 6]


async def test_times_are_measured_on_requests_of_their_own(session, server, complaints):
    variants = {"a": "per_row", "b": "per_row"}
    found = await compared(session, complaints, variants=variants, times=True)
    assert len(server.requests) == 12
    assert [len(arm.seconds) for arm in found] == [1, 1]
    shared = await compared(session, complaints, variants=variants)
    assert [len(arm.seconds) for arm in shared] == [1, 0]
    one, other = (arm.trials[0].model_seconds for arm in shared)
    assert one == other > 0


def of_kinds() -> sg.Frame:
    """A step whose rows rest on another that asks a model."""
    rows = [{"id": i, "text": text} for i, text in enumerate(["It leaks.", "Lovely."], 1)]
    mapped = (
        sg.table(rows, key="id")
        .sem_map("What is “{text}”?", returns={"kind": "string"})
        .step("kinds")
    )
    return mapped.sem_filter("Does “{text}” complain?").step("complaints")


async def test_what_the_rows_cost_is_told_apart(session, server):
    plan = of_kinds()
    found = await compared(session, plan, variants=["per_row"])
    assert (found.before.calls, found["per_row"].cold.calls, found.paid.calls) == (2, 2, 4)
    again = await compared(session, plan, variants=["per_row", "packed(rows=2)"])
    assert (again.before.calls, again.paid.calls) == (0, 1)


async def test_a_row_that_fails_agrees_with_nobody(session, reader, complaints):
    reader.invalid = {"Thanks"}
    found = await compared(session, complaints)
    assert [arm.failed for arm in found] == [1, 1]
    assert found["packed(rows=3)"].quality.same == pytest.approx(5 / 6)
    assert found.exit_code == 3
    for variant in WAYS:
        ((rows, step, error),) = found[variant].trials[0].failures
        assert (rows, step) == (1, "complaints")
        assert f"! {variant} failed: 1 × complaints: {error}" in footer(found)
    assert (
        load_comparison(found.id, found.record.parent)["per_row"].trials[0].failures
        == found["per_row"].trials[0].failures
    )
    assert found.disagreements(*WAYS).to_pylist() == [
        {"text": "Thanks!", "per_row": ["(failed)"], "packed(rows=3)": ["(failed)"]}
    ]


@pytest.mark.parametrize(
    "of",
    [
        {"variants": ["per_row"]},
        {"step": None, "variants": {"plain": {"complaints": "per_row"}}},
    ],
    ids=["a step", "a whole plan"],
)
async def test_an_answer_that_was_no_answer_is_not_replayed_but_asked_for_again(
    session, server, reader, complaints, of
):
    """As in a run: the five answers that were of use come from the journal, the sixth row gets
    another chance.
    """
    reader.invalid = {"Thanks"}
    (first,) = await compared(session, complaints, **of)
    assert (first.failed, first.trials[0].paid.calls) == (1, 7), (
        "the row that failed was asked about twice"
    )
    assert [(kind.rows, kind.step) for kind in first.trials[0].failures] == [(1, "complaints")]
    reader.invalid = set()
    server.requests.clear()
    (again,) = await compared(session, complaints, **of)
    assert (again.failed, again.trials[0].paid.calls, len(server.requests)) == (0, 1, 1)


async def test_rows_that_failed_before_the_step_are_asked_about_again(session, reader):
    reader.invalid = {"Lovely"}
    rows = [{"id": i, "text": text} for i, text in enumerate(["It leaks.", "Lovely."], 1)]
    plan = sg.table(rows, key="id").sem_filter("Is “{text}” a message?").step("messages")
    plan = plan.sem_filter("Does “{text}” complain?").step("complaints")
    first = await compared(session, plan, variants=["per_row"])
    assert any("1 rows failed in earlier steps" in note for note in first.notes)
    reader.invalid = set()
    again = await compared(session, plan, variants=["per_row"])
    assert again.before.calls == 1
    assert again.notes == ()


async def test_a_whole_plan_that_writes_nothing_is_compared_by_the_rows_that_it_returns(
    session, reader, complaints
):
    variants = {"one": {"complaints": "per_row"}, "packed": {"complaints": "packed(rows=3)"}}
    found = await compared(session, complaints, step=None, variants=variants)
    assert (found.kind, found["packed"].quality.f1, found["one"].quality.f1) == ("plan", 1.0, None)
    assert [arm.cold.calls for arm in found] == [6, 2]
    reader.noisy = True
    noisy = await compared(session, complaints, step=None, variants=variants, trials=2)
    assert noisy["packed"].quality.f1 < 1.0


class TestLimits:
    async def test_what_it_costs_is_said_before_anything_is_asked(
        self, session, server, complaints
    ):
        told: list[tuple[int, str]] = []
        await compared(
            session,
            complaints,
            trials=2,
            say=lambda line: told.append((len(server.requests), line)),
        )
        assert [sent for sent, _ in told] == [0, 0, 0, 0, 0, 6, 8, 10, 16]
        assert [line for _, line in told[5:]] == [
            "✓ per_row, trial 1 of 2: 6 calls",
            "✓ packed(rows=3), trial 1 of 2: 2 calls",
            "✓ packed(rows=3), trial 2 of 2: 2 calls",
            "✓ per_row, trial 2 of 2: 6 calls",
        ]
        text = "\n".join(line for _, line in told)
        assert "per_row         6 calls    ≈ " in text
        assert "2 trials of each: 16 calls, $ ?" in text

    async def test_dollars_are_said_and_limited_where_the_price_is_known(
        self, server, tmp_path, complaints
    ):
        """Six prompts, each alone or three together, and the longest answers allowed."""
        told: list[str] = []
        async with priced(server) as llm:
            async with opened(server, tmp_path, llm=llm, max_usd=1) as session:
                found = await compared(session, complaints, say=told.append)
            assert told[3].endswith("of the $1.00 you allow")
            assert 0 < found.paid.dollars < sum(e.dollars for e in found.estimates)
            async with opened(server, tmp_path, llm=llm, max_usd=0.001) as session:
                with pytest.raises(BudgetReached, match="2 variants would pass max_usd 0.001"):
                    await compared(session, complaints)

    async def test_what_the_rows_take_is_said_before_they_are_made(self, session, server, tmp_path):
        told: list[tuple[int, str]] = []
        await compared(
            session, of_kinds(), say=lambda line: told.append((len(server.requests), line))
        )
        assert told[0] == (0, "first the rows of step complaints are computed")
        assert told[1][0] == 0
        assert told[1][1] == "  ≤ 2 calls for kinds"
        assert told[2] == (0, "  answers in the journal cost nothing; no limit is set")
        assert told[3][0] == 2

    async def test_a_limit_stops_while_the_rows_are_made_and_what_was_paid_is_in_the_record(
        self, server, tmp_path
    ):
        told: list[str] = []
        async with opened(server, tmp_path, max_calls=1) as session:
            with pytest.raises(BudgetReached, match="the rows of step complaints are not complete"):
                await compared(session, of_kinds(), say=told.append)
        assert (
            told[2]
            == "  answers in the journal cost nothing; it stops before it passes max_calls 1"
        )
        assert len(server.requests) == 1
        (folder,) = (tmp_path / ".semgraph/runs").iterdir()
        assert json.loads((folder / "metrics.json").read_text())["total"]["calls_issued"] == 1
        assert json.loads((folder / "run.json").read_text())["status"] == "budget"

    @pytest.mark.parametrize("limit", [{"max_calls": 7}, {"max_tokens": 500}])
    async def test_what_would_pass_a_limit_is_not_begun(self, server, tmp_path, complaints, limit):
        async with opened(server, tmp_path, **limit) as session:
            with pytest.raises(BudgetReached, match=f"2 variants would pass {next(iter(limit))}"):
                await compared(session, complaints)
        assert server.requests == []
        assert not list((tmp_path / ".semgraph").glob("runs/*"))

    async def test_at_a_limit_it_keeps_what_it_has_and_says_what_is_missing(
        self, server, reader, tmp_path, complaints
    ):
        """Every invalid answer is asked for again, which no estimate foresees."""
        reader.invalid = {"Thanks"}
        async with opened(server, tmp_path, max_calls=8) as session:
            found = await compared(session, complaints)
        assert len(server.requests) <= 8
        assert found.stopped.startswith("before ")
        assert "max_calls 8" in found.stopped
        assert "; packed(rows=3) is not complete. " in found.stopped
        assert found.missing == {"packed(rows=3)": 1}
        assert found["per_row"].cold.calls == 7
        assert found.paid.calls == len(server.requests), (
            "also what was sent for the trial that was stopped"
        )
        assert found.exit_code == 4
        async with opened(server, tmp_path) as session:
            rest = await compared(session, complaints)
        assert rest.missing == {}
        assert (
            rest["per_row"].trials[0].paid.calls <= 2
        )  # an answer that was no answer is paid again

    async def test_an_interruption_keeps_what_was_paid(
        self, session, server, reader, tmp_path, complaints
    ):
        reader.patience = 6
        task = asyncio.ensure_future(compared(session, complaints))
        await server.until(lambda s: len(s.requests) >= 7)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        reader.patience = None
        (facts,) = [
            json.loads(p.read_text()) for p in (tmp_path / ".semgraph/runs").glob("*/run.json")
        ]
        assert facts["status"] == "interrupted"
        found = await compared(session, complaints)
        assert found["per_row"].trials[0].paid.calls == 0
        assert found["packed(rows=3)"].trials[0].paid.calls == 2


class TestAfterwards:
    async def test_rows_on_which_two_ways_differ_stand_beside_the_truth(
        self, session, reader, complaints
    ):
        reader.noisy = True
        found = await compared(session, complaints, truth=TRUE)
        one, other = (set(arm.trials[0].rows.column("id").to_pylist()) for arm in found)
        rows = found.disagreements(*WAYS).to_pylist()
        assert {int(row["id"]) for row in rows} == one ^ other
        assert rows
        true = {row["id"] for row in TRUE if row["keep"]}
        assert all((row["truth"] == ["yes"]) == (int(row["id"]) in true) for row in rows)
        texts = {row["id"]: row["text"] for row in found.rows.to_pylist()}
        assert [row["text"] for row in rows] == [texts[int(row["id"])] for row in rows]
        assert all((row["per_row"] == ["yes"]) == (int(row["id"]) in one) for row in rows)

    async def test_a_row_leads_back_to_its_exact_prompt(self, session, complaints):
        found = await compared(session, complaints)
        told = found["packed(rows=3)"].why(id=5)
        ((call, exchange),) = told.asked[0].calls
        assert call
        assert '{"text":"It leaks again."}' in exchange.request.messages[-1].content
        text = str(told)
        assert "row id 5 · text “It leaks again.”" in text
        assert "answer  keep true" in text
        assert '2. {"text":"It leaks again."}' in text
        shown = told._repr_html_()
        assert "<summary>text “It leaks again.” → keep true</summary>" in shown
        assert "It leaks again.&#34;}" in shown

    async def test_it_is_kept_beside_the_runs_and_can_be_shown_again(
        self, session, tmp_path, complaints
    ):
        found = await compared(session, complaints, truth=TRUE, trials=2)
        kept = load_comparison(found.id[:4], tmp_path / ".semgraph" / "runs")
        assert kept == found
        assert kept.disagreements(*WAYS) == found.disagreements(*WAYS)
        assert str(kept["per_row"].why(id=1)) == str(found["per_row"].why(id=1))
        assert kept.to_json() == found.to_json()
        json.dumps(kept.to_json())

    async def test_without_a_folder_for_records_it_works_all_the_same(
        self, server, tmp_path, complaints
    ):
        async with opened(server, tmp_path, runs="", journal=False) as session:
            found = await compared(session, complaints)
        assert found.record is None
        assert "the journal does not have it" in str(found["per_row"].why(id=1))
        assert not (tmp_path / ".semgraph").exists()

    async def test_a_script_can_wait_for_it(self, session, complaints):
        found = await asyncio.to_thread(
            lambda: session.compare(complaints, step="complaints", variants=["per_row"], say=None)
        )
        assert found["per_row"].cold.calls == 6


def test_the_folder_of_the_package_is_not_written_to() -> None:
    assert not (Path(sg.__file__).parent / ".semgraph").exists()


async def test_a_search_over_a_table_needs_no_store(session):
    tickets = sg.table(
        [{"id": 1, "text": "It leaks."}, {"id": 2, "text": "Lovely."}], key="id", name="tickets"
    )
    kinds = sg.table(
        [{"code": "k1", "name": "It leaks."}, {"code": "k2", "name": "Lovely."}], name="kinds"
    )
    near = tickets.search(kinds, "kind", 1, methods={"equal": "name", "to": "text"}, key="code")
    plan = near.sem_filter("Does “{text}” complain like “{kind.name}”?").step("complaints")
    found = await compared(session, plan, variants=["per_row"])
    assert found["per_row"].trials[0].rows.column("id").to_pylist() == [1]
