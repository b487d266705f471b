"""Plans without windows in shards: rows apart, as far as steps take each by itself, then the rest."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import semgraph
from semgraph.errors import PlanError
from semgraph.execution.record import find_run
from semgraph.execution.result import Progress
from tests.fuzz.engine import Engine, Made, made_rows
from tests.fuzz.model import Model
from tests.fuzz.plans import Case, case
from tests.fuzz.values import same_key

PLANS, PARTS = 160, 2
ENGINE = "local?shards=3&workers=2"


class InShards(Engine):
    """Runs documents by an engine."""

    def _new_session(self) -> semgraph.Session:
        return semgraph.Session(
            llm=self.model,
            journal=False,
            runs=self.folder / "runs",
            folder=self.folder,
            store=f"sqlite:{self.folder}/graph.db",
            engine=ENGINE,
        )


@pytest.mark.parametrize("part", range(PARTS))
def test_random_plans_in_shards_give_what_one_process_gives(part: int, tmp_path: Path) -> None:
    outcomes: Counter[str] = Counter()
    with Engine(tmp_path) as alone, InShards(tmp_path) as engine:
        for seed in range(part * PLANS // PARTS, (part + 1) * PLANS // PARTS):
            drawn = case(seed)
            if "windows" not in drawn.document:
                outcomes[compared(seed, drawn, alone, engine)] += 1
    assert outcomes["agree"] > 8, outcomes


def compared(seed: int, drawn: Case, alone: Engine, engine: Engine) -> str:
    """Whether a run in shards gives the rows, failures and lineage of one process. Steps that an
    empty input makes superfluous are left out of a whole plan alone, with their failures.
    """
    try:
        plan = alone.load(drawn.document)
    except PlanError:
        return "refused"
    expected = alone.run(plan, drawn.inputs, optimize=True)
    found = engine.run(plan, drawn.inputs, optimize=True)
    if found.refused and not expected.refused:
        assert "asks about no row of an input by itself" in found.error, f"seed {seed}"
        return "not divided"
    if found.tables is None or expected.tables is None:
        assert found.tables is expected.tables, f"seed {seed}: {found.error} | {expected.error}"
        return "refused"
    for name, rows in expected.tables.items():
        assert keys(found.tables[name]) == keys(rows), f"seed {seed}, {name}"
    for name, made in expected.made.items():
        assert lineage(found.made[name]) == lineage(made), f"seed {seed}, {name}"
    if all(drawn.inputs.values()):
        assert sorted(found.failed) == sorted(expected.failed), f"seed {seed}"
    return "agree"


def keys(rows: Sequence[Mapping[str, Any]]) -> list[Any]:
    return [same_key(dict(row)) for row in rows]


def lineage(made: Sequence[Made]) -> Counter[Any]:
    return Counter((same_key(row), sources) for row, sources in made)


PLAN = """
plan: reviews
inputs: {reviews: {id: int64, text: string, stars: int64}}
steps:
  bad: [{from: reviews}, {sem_filter: "Does the review complain? {text}"}]
  topic: [{from: bad}, {sem_map: {prompt: "What is it about? {text}", returns: {about: string}}}]
  counts: [{from: topic}, {aggregate: {by: about, add: {reviews: count(*)}}}]
returns: [RETURNS]
"""


def reviews(count: int) -> list[dict[str, Any]]:
    """Reviews, each text of which comes three times, with ids of their own."""
    return [{"id": n, "text": f"review {n // 3}", "stars": n % 5} for n in range(count)]


@dataclass
class Runs:
    """Runs of a plan, in a folder of their own."""

    folder: Path
    returns: str = "topic, counts"

    def __post_init__(self) -> None:
        (self.folder / "reviews.yaml").write_text(PLAN.replace("RETURNS", self.returns))

    async def run(self, count: int, engine: str | None = ENGINE, **options: Any) -> Any:
        """A run over so many reviews, and the requests that were sent."""
        model = Model()
        limits = {name: options.pop(name) for name in ("max_calls",) if name in options}
        given = {"engine": engine} if engine else {}
        async with semgraph.Session(llm=model, folder=self.folder, **given, **limits) as session:
            rows = {} if "resume" in options else {"reviews": reviews(count)}
            result = await session.arun("reviews", inputs=rows, **options)
            return result, [request.fingerprint for request in model.requests]


@pytest.mark.parametrize("returns", ["topic, counts", "bad, topic", "counts"])
async def test_equal_questions_meet_in_one_shard(tmp_path: Path, returns: str) -> None:
    runs = Runs(tmp_path, returns)
    whole, asked = await runs.run(90, engine=None, fresh=True)
    shutil.rmtree(tmp_path / ".semgraph")
    found, requests = await runs.run(90)
    assert sorted(requests) == sorted(asked)
    assert len(set(asked)) == len(asked)
    for name in whole.tables:
        assert found.to_arrow(name).equals(whole.to_arrow(name)), name
    for step in ("bad", "topic"):
        one, other = found.meter.step(step), whole.meter.step(step)
        assert (one.rows_in, one.rows_out, one.calls_issued) == (
            other.rows_in,
            other.rows_out,
            other.calls_issued,
        )


async def test_a_row_of_the_rest_is_explained_by_rows_of_shards(tmp_path: Path) -> None:
    found, _ = await Runs(tmp_path).run(30)
    run = find_run(found.run, tmp_path / ".semgraph" / "runs")
    made = made_rows(run, "counts")
    topics = found.rows("topic")
    assert len(made) == found.count("counts") > 1
    for row, sources in made:
        ids = {topic["id"] for topic in topics if topic["about"] == row["about"]}
        assert sources == {("reviews", number) for number in ids}
    assert {tuple(row.items()) for row, _ in made_rows(run, "topic")} == {
        tuple(row.items()) for row in topics
    }


async def test_a_limit_stops_all_shards_and_a_resumed_run_pays_for_nothing_twice(
    tmp_path: Path,
) -> None:
    runs = Runs(tmp_path)
    whole, asked = await runs.run(60, engine=None, fresh=True)
    shutil.rmtree(tmp_path / ".semgraph")
    first, sent = await runs.run(60, max_calls=11)
    assert (first.exit_code, len(sent)) == (4, 11)
    assert first.count("counts") == 0
    last, more = await runs.run(60, engine=None, resume=first.run)
    assert sorted(sent + more) == sorted(asked)
    assert last.rows("counts") == whole.rows("counts")


async def test_progress_counts_the_rows_of_all_shards(tmp_path: Path) -> None:
    seen: list[Progress] = []
    await Runs(tmp_path, "bad").run(60, progress=seen.append)
    assert {each.step for each in seen} == {"bad"}
    assert (seen[-1].done, seen[-1].total) == (60, 60)


async def test_explain_tells_how_rows_are_divided(tmp_path: Path) -> None:
    Runs(tmp_path)
    async with semgraph.Session(llm=Model(), folder=tmp_path, engine=ENGINE) as session:
        text = await asyncio.to_thread(session.explain, "reviews", reviews=reviews(60))
    assert "3 shards, 2 workers · 20 rows that differ in text," in text


async def test_steps_that_take_rows_together_alone_are_refused(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(
        """
plan: all
inputs: {reviews: {text: string}}
steps:
  one: [{from: reviews}, {sem_agg: {prompt: "Sum up. {text}", returns: {summary: string}}}]
returns: [one]
"""
    )
    async with semgraph.Session(llm=Model(), folder=tmp_path, engine=ENGINE) as session:
        with pytest.raises(PlanError, match="asks about no row of an input by itself"):
            await session.arun("all", reviews=[{"text": "a"}])
