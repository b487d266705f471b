"""The draw: which rows are checked, and of the rows that share a call only one, at any place in it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import semgraph as sg
from semgraph.compare.comparison import Spent, Trial
from semgraph.compare.trial import Attempt
from semgraph.execution.record import INPUT_ROW
from semgraph.tune.trials import StepTrials
from semgraph.tune.walk import Counted, Entry, Walk
from tests.llm.server import ModelServer
from tests.tune.judges import leaking, notes, opened, truth_of, tuned
from tests.tune.test_level import ERROR

FLOOR, PACKED, WIDE = 0.8, "good=packed(rows=5)", 5
SPOILT = 1 - (FLOOR - 1e-4) / (2 - FLOOR + 1e-4)  # of the calls
RULES = "Rules: " + "a pipe leaks if water comes out of it, however little. " * 12


@pytest.fixture
async def session(server: ModelServer, tmp_path: Path) -> AsyncIterator[sg.Session]:
    async with opened(server, tmp_path) as made:
        yield made


async def test_a_model_that_reads_only_the_first_row_of_a_call_is_never_chosen(session, judge):
    judge.errs = lambda _, at, __: at > 0
    rows = notes(600)
    result = await tuned(
        session, leaking(rows, RULES), truth=truth_of(rows), floor=0.9, sample=120,
        use={"good": "per_row"},
    )  # fmt: skip
    tried = [each for each in result.tried if "packed" in each.name and each.units]
    assert len(tried) >= 3
    assert {each.verdict for each in tried} == {"hopeless"}
    assert result.status != "shown"


@pytest.fixture
async def trials(session, monkeypatch) -> StepTrials:
    """The trials of a tuning of 300 rows, all of which leak."""
    seen: list[tuple[StepTrials, Any]] = []
    prepare = StepTrials.prepare

    async def noted(own: StepTrials) -> None:
        await prepare(own)
        seen.append((own, own.arms.frozen))

    monkeypatch.setattr(StepTrials, "prepare", noted)
    rows = notes(300)
    truth = truth_of(rows)
    await tuned(session, leaking(rows), truth=truth, floor=FLOOR, use={"good": "per_row"})
    (own, frozen), *_ = seen
    own.arms.frozen, own.sample = frozen, 60
    return own


def spoiling(trials: StepTrials, rng: random.Random) -> Any:
    """Answers in calls of five rows; of spoilt ones all are wrong."""

    async def attempt(_: str, __: int, ___: object, frozen: Any) -> Attempt:
        table = frozen.parts[0][0]
        calls = [at // WIDE for at in range(table.num_rows)]
        bad = {call for call in {*calls} if rng.random() < SPOILT}
        kept = [at for at, call in enumerate(calls) if call not in bad]
        answers = {
            INPUT_ROW: table.column(INPUT_ROW).to_pylist(), "calls": [[str(call)] for call in calls],
            "error": pa.nulls(len(calls), pa.string()),
        }  # fmt: skip
        rows = table.take(pa.array(kept, pa.int64())).select(trials.node.schema.names)
        return Attempt(Trial(1, Spent(), Spent(), rows=rows, answers=pa.table(answers)))

    return attempt


async def wrong_choices(trials: StepTrials, unit: Any, searches: int) -> float:
    """The share of searches, each with a draw of its own, that choose the spoilt candidate."""
    rng, chosen = random.Random(5), 0
    trials.arms.attempt = spoiling(trials, rng)
    trials.unit = unit
    for seed in range(searches):
        trials.seed = seed
        trials.units = list(trials._drawn())
        most = trials.most(PACKED)
        walk = Walk([Entry(PACKED, 1.0, most, PACKED)], trials.measure, FLOOR, ERROR, 60)
        steps = walk.steps()
        ask = next(steps)
        try:
            while True:
                found = await trials.answers(ask.name, ask.units)
                ask = steps.send(Counted(trials.counted(ask.name, found, None)))
        except StopIteration:
            chosen += bool(walk.chosen)
    return chosen / searches


async def test_the_checked_row_of_a_call_has_each_place_of_it_equally_often(trials):
    """Errors may depend on the place: a model may read the first rows best."""
    places: Counter[int] = Counter()

    async def attempt(_: str, __: int, ___: object, frozen: Any) -> Attempt:
        return Attempt(Trial(1, Spent(), Spent(), rows=frozen.parts[0][0]))

    trials.arms.attempt = attempt
    for seed in range(20):
        trials.seed = seed
        trials.units = list(trials._drawn())
        found = await trials.answers(PACKED, 60)
        numbers = found.trial.rows.column(INPUT_ROW).to_pylist()
        assert len(numbers) == 60 * WIDE
        calls = [numbers[at : at + WIDE] for at in range(0, len(numbers), WIDE)]
        assert [len({*call} & {*found.checked}) for call in calls] == [1] * 60
        places.update(numbers.index(number) % WIDE for number in found.checked)
    assert sorted(places) == [0, 1, 2, 3, 4]
    assert all(180 < count < 300 for count in places.values())


async def test_of_spoilt_calls_the_draw_of_one_row_each_keeps_the_promise(trials):
    assert trials.rows_of_call(PACKED) == WIDE
    assert trials.most(PACKED) == 60
    searches = 150
    most = ERROR + 3 * (ERROR * (1 - ERROR) / searches) ** 0.5
    assert await wrong_choices(trials, "call", searches) <= most
    assert await wrong_choices(trials, "row", searches) > most


async def test_rows_as_units_say_what_they_assume_and_what_was_seen(session, judge):
    """The fourth row of a call is answered wrongly."""
    rows = notes(400)
    judge.errs = lambda _, at, __: at == 3
    options = {"truth": truth_of(rows), "floor": 0.8, "use": {"good": "per_row"}}
    by_row = await tuned(session, leaking(rows, RULES), units="row", **options)
    by_call = await tuned(session, leaking(rows, RULES), units="call", **options)
    assert by_row.status == by_call.status == "shown"
    assert by_row.chosen.startswith("good=packed")
    assert (
        "It assumes that rows of one call fail independently; observed: 4 of 4 calls"
        in by_row.guarantee
    )
    assert "rows, one of each call" in by_call.promise
    assert "assumes" not in by_call.guarantee


async def test_the_same_seed_draws_the_same_rows(session):
    rows = notes(200)
    samples = [
        (await tuned(session, leaking(rows), floor=0.8, sample=60, seed=seed, units="row")).sample
        for seed in (0, 0, 1)
    ]
    assert samples[0] == samples[1] != samples[2]
