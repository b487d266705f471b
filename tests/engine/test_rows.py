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
from semgraph.engine.sharding import Division
from semgraph.errors import DataError, PlanError, StoreUnavailable
from semgraph.execution.record import find_run
from semgraph.execution.result import Progress, Result
from semgraph.frontend.load import load_plan
from tests.fuzz.engine import Engine, Made, made_rows
from tests.fuzz.model import Model
from tests.fuzz.plans import Case, case
from tests.fuzz.values import same_key
from tests.partial import maybe_partial

PLANS, PARTS = 160, 4
ENGINE = "ray?shards=3&workers=2"


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


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.nightly) for part in range(1, PARTS))]
)
def test_random_plans_in_shards_give_what_one_process_gives(part: int, tmp_path: Path) -> None:
    outcomes: Counter[str] = Counter()
    with Engine(tmp_path) as alone, InShards(tmp_path) as engine:
        for seed in range(part * PLANS // PARTS, (part + 1) * PLANS // PARTS):
            drawn = case(seed)
            if "windows" not in drawn.document:
                outcomes[compared(seed, drawn, alone, engine)] += 1
    assert outcomes["agree"] > 4, outcomes


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
            result = await maybe_partial(session.arun("reviews", inputs=rows, **options))
            return result, [request.fingerprint for request in model.requests]


@pytest.mark.parametrize("returns", ["topic, counts", "bad, topic", "counts"])
async def test_equal_questions_meet_in_one_shard(tmp_path: Path, returns: str) -> None:
    runs = Runs(tmp_path, returns)
    whole, asked = await runs.run(45, engine=None, fresh=True)
    shutil.rmtree(tmp_path / ".semgraph")
    found, requests = await runs.run(45)
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


@pytest.mark.parametrize(
    ("most", "returns"),
    [
        (11, "topic, counts"),
        pytest.param(26, "topic, counts", marks=pytest.mark.nightly),
        (32, "topic"),
    ],
)
async def test_a_limit_stops_all_shards_and_a_resumed_run_pays_for_nothing_twice(
    tmp_path: Path, most: int, returns: str
) -> None:
    runs, last_of = Runs(tmp_path, returns), returns.rsplit(", ", maxsplit=1)[-1]
    whole, asked = await runs.run(60, engine=None, fresh=True)
    shutil.rmtree(tmp_path / ".semgraph")
    first, sent = await runs.run(60, max_calls=most)
    assert (first.exit_code, len(sent)) == (4, most)
    assert [first.count(name) for name in first.tables] == [0] * len(first.tables)
    last, more = await runs.run(60, engine=None, resume=first.run)
    assert sorted(sent + more) == sorted(asked)
    assert last.rows(last_of) == whole.rows(last_of)


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


async def test_a_failure_after_the_shards_is_not_that_of_a_shard(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    divided = PLAN.replace("count(*)", "1 // (count(*) - count(*))").replace("RETURNS", "counts")
    (tmp_path / "reviews.yaml").write_text(divided)
    with pytest.raises(DataError) as raised:
        await runs.run(30)
    assert raised.value.__notes__ == ["it failed when all shards had ended"]


async def test_a_store_that_is_not_there_is_refused_before_a_call_is_paid(tmp_path: Path) -> None:
    found = "\n  found: [{from: topic}, {search: {over: Note, alias: note, k: 1, partition: all, order: note.uuid}}]"
    (tmp_path / "notes.yaml").write_text(
        "graph: notes\nnodes: {Note: {properties: {text: string}}}\n"
    )
    (tmp_path / "reviews.yaml").write_text(
        PLAN.replace("\nreturns", f"{found}\nreturns")
        .replace("RETURNS", "found")
        .replace("\ninputs", "\ngraph: notes.yaml\ninputs")
    )
    model = Model()
    async with semgraph.Session(llm=model, folder=tmp_path, engine=ENGINE) as session:
        with pytest.raises(StoreUnavailable, match="there is no graph"):
            await session.arun("reviews", inputs={"reviews": reviews(9)})
    assert not model.requests


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


BESIDE = """
plan: beside
inputs: {reviews: {id: int64, text: string, stars: int64}, words: {word: string, stars: int64}}
steps:
  bad: [{from: reviews}, {sem_filter: "Does the review complain? {text}"}, {add: {read: $now}}]
  known: [{from: words}, {filter: stars > 0}]
  named: [{from: bad}, {join: {other: known, alias: w, using: stars}}]
  late: [{from: named}, {sort: id}, {project: [id, text, w]}, {add: {nth: "row_number() OVER (ORDER BY id)"}},
         {sem_map: {prompt: "What is it about? {text} {nth}", returns: {about: string}}}]
  stars: [{from: reviews}, {aggregate: {by: stars, add: {reviews: count(*)}}}]
  times: [{from: bad}, {aggregate: {add: {times: count(distinct read)}}}]
returns: [reviews, known, stars, times, late]
"""


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """A folder for a run in one process, and one for a run in shards."""
    folders = tmp_path / "one", tmp_path / "shards"
    for folder in folders:
        folder.mkdir()
    return folders


async def beside(folder: Path, engine: str | None) -> Result:
    """A plan whose last part reads the divided input too, with rows that hold a NUL in each input."""
    (folder / "beside.yaml").write_text(BESIDE)
    rows = reviews(60)
    rows[40]["text"] = rows[7]["text"] = "a\0b"
    words = [{"word": f"w{n}" if n != 2 else "\0", "stars": n} for n in range(5)]
    given = {"engine": engine} if engine else {}
    async with semgraph.Session(llm=Model(), folder=folder, **given) as session:
        return await session.arun("beside", inputs={"reviews": rows, "words": words})


async def test_what_is_run_after_the_shards_reads_the_divided_input_too(
    two: tuple[Path, Path],
) -> None:
    one, shards = two
    whole = await beside(one, None)
    found = await beside(shards, ENGINE)
    for name in whole.tables:
        assert found.to_arrow(name).equals(whole.to_arrow(name)), name
    assert found.rows("times") == [{"times": 1}]
    assert len(found.rows("reviews")) == 58


async def test_rows_with_a_nul_are_set_aside_once(two: tuple[Path, Path]) -> None:
    one, shards = two
    whole = await beside(one, None)
    found = await beside(shards, ENGINE)
    assert [failed.row for failed in found.failed] == [failed.row for failed in whole.failed]
    assert (len(found.failed), found.exit_code, found.failed[0].input_row) == (3, 3, None)


async def test_rows_that_each_shard_computes_are_counted_once(two: tuple[Path, Path]) -> None:
    one, shards = two
    whole = await beside(one, None)
    found = await beside(shards, ENGINE)
    counts = [
        {name: (step.rows_in, step.rows_out) for name, step in each.meter.steps.items()}
        for each in (whole, found)
    ]
    assert counts[1] == counts[0]


def test_the_columns_that_divide_rows_are_the_same_in_every_process(tmp_path: Path) -> None:
    (tmp_path / "apart.yaml").write_text(
        """
plan: apart
inputs: {reviews: {text: string, title: string, note: string}}
steps:
  a: [{from: reviews}, {sem_filter: "Yes? {title}"}, {sem_filter: "Yes? {text}"},
      {sem_filter: "Yes? {note}"}, {sem_filter: "Is it raining?"}]
returns: [a]
"""
    )
    plan = load_plan(tmp_path / "apart.yaml")
    assert Division.of(plan, {"reviews": 9}).by == ("note",)
