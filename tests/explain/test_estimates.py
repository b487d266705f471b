"""What EXPLAIN says that a plan will take: exact where it can be known, a bound, as before, or
unknown; never made up.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import semgraph
from benchmarks.world import StandIn
from semgraph.conformance.cases import Mind, Oracle, some
from semgraph.errors import EngineError
from semgraph.execution.observations import ObservationFile, Seen
from semgraph.explain import estimates as bounds
from semgraph.explain.estimates import Amount, total
from semgraph.meter import OperatorMetrics, StepMetrics
from semgraph.semantic.contract import Cost, RowEstimate
from semgraph.semantic.implementation import Implementation
from tests.optimizer.bench import answered, matched

PLANS = Path(__file__).parents[2] / "plans"
PLAN = """
plan: kinds
inputs: {notes: {id: int64, text: string}, names: {name: string}}
steps:
  kept: [{from: notes}, {sem_filter: {prompt: "Is {text} nice?"}}]
  coded: [{from: kept}, {sem_map: {prompt: "Code: {text}", returns: {code: string}}}]
  paired: [{from: notes}, {sem_join: {prompt: "Is {n.name} in {text}?", other: names, alias: n}}]
  looked_up: [{from: coded}, {join: {other: names, alias: o, where: "o.name = code"}}]
  counted: [{from: looked_up}, {sem_map: {prompt: "Mark: {text}", returns: {mark: string}}}]
returns: [counted, paired]
use: {coded: packed(rows=4)}
"""
NOTES = [{"id": i, "text": f"text {i}"} for i in range(8)]
NAMES = [{"name": "c1"}, {"name": "c2"}]


def plan(folder: Path) -> Path:
    path = folder / "kinds.yaml"
    path.write_text(PLAN, encoding="utf-8")
    return path


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[semgraph.Session]:
    async with semgraph.Session(
        llm=Oracle(Mind(answer=answered, match=matched)), store="memory", runs="", folder=tmp_path
    ) as made:
        yield made


async def estimates(session: semgraph.Session, path: Path, **inputs: Any) -> dict[str, Any]:
    said = await asyncio.to_thread(lambda: session.explain(path, format="json", inputs=inputs))
    return json.loads(said)


def of(data: dict[str, Any], step: str, what: str) -> tuple[float | None, str]:
    (found,) = (s["estimate"][what] for s in data["steps"] if s["step"] == step)
    return found["value"], found["known"]


async def test_before_the_first_run_there_are_bounds_and_what_is_not_known_is_said(
    session: semgraph.Session, tmp_path: Path
) -> None:
    data = await estimates(session, plan(tmp_path), notes=NOTES, names=NAMES)
    assert of(data, "kept", "items") == (8, "exact")
    assert of(data, "kept", "calls") == (8, "most")
    assert of(data, "kept", "rows") == (8, "most")
    assert of(data, "coded", "calls") == (2, "most")
    assert of(data, "paired", "items") == (16, "exact")
    assert of(data, "looked_up", "rows") == (16, "most")
    assert of(data, "counted", "tokens_out") == (None, "unknown")
    assert (data["estimate"]["tokens_out"]["known"], data["estimate"]["calls"]["known"]) == (
        "least",
        "most",
    )


async def test_tokens_of_prompts_that_rest_on_the_inputs_are_counted(
    session: semgraph.Session, tmp_path: Path
) -> None:
    data = await estimates(session, plan(tmp_path), notes=NOTES, names=NAMES)
    result = await session.arun(plan(tmp_path), notes=NOTES, names=NAMES)
    value, known = of(data, "kept", "tokens_in")
    assert known == "seen"
    assert value == pytest.approx(result.meter.steps["kept"].tokens_in, rel=0.02)
    assert of(data, "counted", "tokens_in") == (None, "unknown")


async def test_after_a_run_the_same_rows_are_estimated_as_they_were(
    session: semgraph.Session, tmp_path: Path
) -> None:
    path = plan(tmp_path)
    result = await session.arun(path, notes=NOTES, names=NAMES)
    data = await estimates(session, path, notes=NOTES, names=NAMES)
    for step in ("kept", "coded", "paired", "counted"):
        did = result.meter.steps[step]
        calls = did.calls_issued + did.calls_coalesced + did.calls_journal
        assert of(data, step, "calls") == (pytest.approx(calls), "seen")
        assert of(data, step, "rows") == (pytest.approx(did.rows_out), "seen")
        assert of(data, step, "tokens_in") == (pytest.approx(did.tokens_in), "seen")
    double = await estimates(session, path, notes=NOTES * 2, names=NAMES)
    assert of(double, "kept", "calls")[0] == pytest.approx(2 * of(data, "kept", "calls")[0])


async def test_answers_from_the_journal_do_not_make_a_plan_look_free(
    session: semgraph.Session, tmp_path: Path
) -> None:
    path = plan(tmp_path)
    first = await session.arun(path, notes=NOTES, names=NAMES)
    again = await session.arun(path, notes=NOTES, names=NAMES)
    assert again.meter.total().calls_issued == 0
    data = await estimates(session, path, notes=NOTES, names=NAMES)
    assert data["estimate"]["tokens_in"]["value"] == pytest.approx(first.meter.total().tokens_in)


CUT = """
plan: cut
graph: graph.yaml
inputs: {messages: {id: string, user_id: string, text: string}}
windows: {input: messages, partition: user_id, order: [], key: id, size: WINDOW}
steps:
  told: [{from: messages}, {sem_map: {prompt: "Code: {text}", returns: {code: string}}}]
returns: [told]
use: {told: WAY}
"""
GRAPH = "graph: cut\npartition: user_id\nnodes: {Message: {properties: {text: string}}}\n"


def cut(folder: Path, way: str, window: str = "1") -> Path:
    (folder / "graph.yaml").write_text(GRAPH, encoding="utf-8")
    path = folder / "cut.yaml"
    text = CUT.replace("WINDOW", window).replace("WAY", way)
    path.write_text(text, encoding="utf-8")
    return path


def people(*counts: int) -> list[dict[str, Any]]:
    return [
        {"id": f"{who} {n}", "user_id": f"u{who}", "text": f"{who} {n}"}
        for who, count in enumerate(counts)
        for n in range(count)
    ]


@pytest.mark.parametrize(
    ("counts", "way", "window", "most"),
    [
        ((3, 1), "per_row()", "1", 4),
        ((2, 2, 1), "per_row()", "1", 5),
        ((9, 3, 1, 1), "per_row()", "3", 14),
        ((3, 1), "packed(rows=20)", "1", 4),
        ((9, 3, 1, 1), "packed(rows=20)", "3", 6),
        ((9, 3, 1, 1), "packed(rows=20)", "all", 4),
        ((30, 1), "packed(rows=20)", "all", 3),
        ((3, 1), "packed(rows=20)", "none", 2),
    ],
)
async def test_rows_of_several_partitions_take_no_more_calls_than_the_bound(
    session: semgraph.Session,
    tmp_path: Path,
    counts: tuple[int, ...],
    way: str,
    window: str,
    most: int,
) -> None:
    path, rows = cut(tmp_path, way, window), people(*counts)
    if window == "none":
        path.write_text(
            "\n".join(
                line for line in path.read_text().splitlines() if not line.startswith("windows")
            )
        )
    assert of(await estimates(session, path, messages=rows), "told", "calls") == (most, "most")
    run = await session.arun(path, inputs={"messages": rows})
    assert run.meter.total().calls_issued <= most


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=6),
    st.sampled_from(
        [lambda n: -(-n // 7), lambda n: n * (n - 1) / 2, lambda n: 3 * n, lambda n: min(n, 5)]
    ),
)
def test_a_bound_holds_however_rows_are_spread_over_parts(
    parts: list[int], taken: Callable[[float], float]
) -> None:
    class Way(Implementation[Any]):
        def estimate(self, node: Any, rows: RowEstimate, seen: Any) -> Cost:
            return Cost(taken(rows.items))

        async def answer(self, node: Any, rows: Any, ctx: Any) -> Any:
            raise AssertionError("it is only estimated")

    items = float(sum(parts))
    found = bounds.most_calls(
        Way(), some("sem_map").node(), RowEstimate(items, 0, items, 0), len(parts)
    )
    assert found.kind == "most"
    assert sum(map(taken, parts)) <= found.value


def test_a_sum_with_parts_that_are_not_known_is_at_least_what_is_no_mere_bound() -> None:
    assert total([Amount(3, "most"), Amount()]).text() == "?"
    assert total([Amount(3, "most"), Amount(2, "exact"), Amount()]).text() == "≥ 2"
    assert total([Amount(3, "most"), Amount(2, "exact")]).text() == "≤ 5"


async def test_another_prompt_or_way_is_another_thing(
    session: semgraph.Session, tmp_path: Path
) -> None:
    path = plan(tmp_path)
    await session.arun(path, notes=NOTES, names=NAMES)
    path.write_text(
        PLAN.replace("nice", "kind").replace("packed(rows=4)", "packed(rows=3)"), encoding="utf-8"
    )
    data = await estimates(session, path, notes=NOTES, names=NAMES)
    assert of(data, "kept", "calls") == (8, "most")
    assert of(data, "coded", "calls") == (3, "most")
    assert of(data, "paired", "calls")[1] == "seen"


@pytest.mark.parametrize("undated", [False, True])
async def test_the_second_explain_of_a_plan_is_within_a_fifth_of_what_it_takes(
    tmp_path: Path, undated: bool
) -> None:
    async with StandIn(undated=undated) as model:
        made = {
            "llm": f"openai:gpt-4.1-mini@{model.base_url}",
            "embedder": f"openai:stand-in@{model.base_url}?dimensions=256",
            "store": "memory",
            "folder": tmp_path,
            "runs": "",
        }
        async with semgraph.Session(**made) as first:
            await first.arun(PLANS / "add_episode.yaml")
        async with semgraph.Session(**made) as second:
            total = (await estimates(second, PLANS / "add_episode.yaml"))["estimate"]
            did = (await second.arun(PLANS / "add_episode.yaml", fresh=True)).meter.total()
    assert did.calls_issued >= 8
    assert total["calls"]["value"] == pytest.approx(did.calls_issued, rel=0.2)
    assert total["tokens_in"]["value"] == pytest.approx(did.tokens_in, rel=0.2)
    assert total["tokens_out"]["value"] == pytest.approx(did.tokens_out, rel=0.2)


def test_what_runs_saw_is_kept_and_newer_runs_weigh_more(tmp_path: Path) -> None:
    memory = ObservationFile(tmp_path / "seen.db")
    assert memory.read() == {}
    memory.add({"a": Seen(1, 10, 4)})
    memory.add({"a": Seen(1, 10, 8), "b": Seen(1, 1, 1)})
    found = memory.read()
    assert found["a"] == Seen(1.5, 15, 10)
    assert set(found) == {"a", "b"}


def test_without_a_journal_nothing_is_kept() -> None:
    assert ObservationFile.beside(None) is None


def test_what_an_operator_does_is_counted_for_its_step_too() -> None:
    step = StepMetrics(calls_issued=2, dollars=0.5)
    part = OperatorMetrics(parent=step)
    part.calls_issued += 3
    part.dollars = 0.25
    assert (part.calls_issued, part.dollars) == (3, 0.25)
    assert (step.calls_issued, step.dollars) == (5, 0.75)
    part.dollars = None
    assert step.dollars is None
    assert set(part.as_dict()) == set(StepMetrics().as_dict())


OWN = """
from semgraph.operator import Context, Cost, Implementation, Observed, RowEstimate, Rows, SemFilter, dataclass, pa


@dataclass(frozen=True)
class Odd(Implementation[SemFilter]):
    def estimate(self, node: SemFilter, rows: RowEstimate, seen: Observed | None) -> Cost:
        return WRONG

    async def answer(self, node: SemFilter, rows: Rows, ctx: Context) -> pa.Table:
        return await ctx.ask_packed(node, rows, [[i] for i in range(len(rows.items))])
"""


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("7", "it estimated int 7, not a Cost"),
        ("Cost('many')", "it estimated calls str 'many', not a number from 0 on"),
        ("Cost(-1)", "it estimated calls int -1, not a number from 0 on"),
        (
            "Cost(1, tokens_in=float('nan'))",
            "it estimated tokens_in float nan, not a number from 0 on",
        ),
        ("Cost(1 / 0)", "raised ZeroDivisionError: division by zero"),
    ],
)
async def test_an_estimate_that_is_none_is_the_fault_of_its_implementation(
    tmp_path: Path, wrong: str, said: str
) -> None:
    file = tmp_path / "own" / "sem_filter" / "odd.py"
    file.parent.mkdir(parents=True)
    file.write_text(OWN.replace("WRONG", wrong), encoding="utf-8")
    made = {"llm": Oracle(Mind(answer=answered)), "store": "memory", "runs": "", "folder": tmp_path}
    async with semgraph.Session(
        **made, operators=[tmp_path / "own"], use={"kept": "odd"}
    ) as session:
        with pytest.raises(EngineError) as caught:
            await estimates(session, plan(tmp_path), notes=NOTES, names=NAMES)
    assert str(caught.value).startswith(f"step kept: Odd in {file}")
    assert said in str(caught.value)
