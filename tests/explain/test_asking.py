"""What the optimizer and the engine spare: questions below a limit, and questions that were asked
already.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import semgraph
from semgraph.conformance.cases import Faulty, Mind, Oracle, edited
from semgraph.errors import RowError
from semgraph.frontend.load import load_plan
from semgraph.llm.base import Reply, Request
from semgraph.logical.plan import LogicalPlan
from semgraph.optimizer import mark_empty, optimize
from semgraph.session import run as running
from tests.optimizer.bench import Bench

PEOPLE = [{"id": i, "city": "Rome" if i % 2 else "Oslo", "name": f"name {i}"} for i in range(40)]


def plan(folder: Path, steps: str, use: str = "{}") -> LogicalPlan:
    path = folder / "asking.yaml"
    path.write_text(
        "plan: asking\ninputs: {people: {id: int64, city: string, name: string}}\n"
        f"steps:\n  kept:\n    - from: people\n{steps}\nreturns: [kept]\nuse: {use}\n",
        encoding="utf-8",
    )
    return load_plan(path)


LOUD = '    - sem_filter: {prompt: "Loud: {name}"}\n'


async def both(bench: Bench, made: LogicalPlan) -> tuple[list[Any], int, int]:
    """The rows of both, which are the same, and how many questions each asked."""
    plain = await bench.run(made, lambda p: p, {"people": PEOPLE})
    before = len(bench.oracle.requests)
    found = await bench.run(made, optimize, {"people": PEOPLE})
    assert found.tables["kept"].to_pylist() == plain.tables["kept"].to_pylist()
    return found.tables["kept"].to_pylist(), before, len(bench.oracle.requests)


@pytest.mark.parametrize("n", [1, 3, 10, 100])
@pytest.mark.parametrize("rest", ["", ", order: id desc", ", order: [city, name]", ", by: city"])
async def test_a_limit_ends_the_asking(bench: Bench, tmp_path: Path, n: int, rest: str) -> None:
    rows, before, after = await both(bench, plan(tmp_path, f"{LOUD}    - limit: {{n: {n}{rest}}}"))
    assert before == 40
    assert len(rows) <= after <= 40
    if n < 10:
        assert after < 20


async def test_a_limit_costs_no_packed_call_more(bench: Bench, tmp_path: Path) -> None:
    made = plan(tmp_path, f"{LOUD}    - limit: {{n: 7}}", "{kept: packed(rows=5)}")
    _, before, after = await both(bench, made)
    assert before == 8
    assert after <= 4


async def test_a_limit_per_group_asks_in_each_group(bench: Bench, tmp_path: Path) -> None:
    steps = '    - sem_map: {prompt: "Code: {name}", returns: {code: string}}\n    - limit: {n: 2, by: city}'
    rows, before, after = await both(bench, plan(tmp_path, steps))
    assert [len(rows), before, after] == [4, 40, 4]


STACKED = """
plan: asking
inputs: {people: {id: int64, city: string, name: string}}
steps:
  coded:
    - from: people
    - sem_map: {prompt: "Code: {name}", returns: {code: string}}
  kept:
    - from: coded
    - sem_filter: {prompt: "Loud: {name}"}
    - limit: {n: 3}
returns: [kept]
"""
CODED = '    - sem_map: {prompt: "Code: {name}", returns: {code: string}}\n'


@pytest.mark.parametrize(
    "stacked",
    [
        pytest.param(CODED + LOUD, id="a map below a filter"),
        pytest.param(LOUD + CODED, id="a filter below a map"),
        pytest.param(
            LOUD + '    - sem_filter: {prompt: "Near: {city} {name}"}\n', id="two filters"
        ),
        pytest.param(
            CODED + '    - sem_filter: {prompt: "Loud: {code}"}\n' + LOUD,
            id="three, one of them of an answer",
        ),
    ],
)
@pytest.mark.parametrize("rest", ["", ", order: id desc", ", order: [city, name]", ", by: city"])
async def test_a_limit_ends_the_asking_of_all_that_stand_on_each_other(
    bench: Bench, tmp_path: Path, stacked: str, rest: str
) -> None:
    """Each is asked about the rows that the one above it needs, and not about all forty."""
    rows, before, after = await both(bench, plan(tmp_path, f"{stacked}    - limit: {{n: 2{rest}}}"))
    assert before >= 41
    assert rows
    assert after < before / 2


async def test_what_stands_below_packs_full_calls_too(bench: Bench, tmp_path: Path) -> None:
    """Ten rows share a call that codes them, so ten are asked for at once."""
    path = tmp_path / "asking.yaml"
    path.write_text(f"{STACKED}use: {{coded: packed(rows=10)}}", encoding="utf-8")
    _, before, after = await both(bench, load_plan(path))
    assert before == 4 + 40
    assert after <= 1 + 10


async def test_equal_rows_that_come_later_are_no_second_question_below_either(
    bench: Bench, tmp_path: Path
) -> None:
    steps = '    - sem_map: {prompt: "Code: {city}", returns: {code: string}}\n    - sem_filter: {prompt: "Loud: {name}"}\n'
    rows, _, after = await both(bench, plan(tmp_path, f"{steps}    - limit: {{n: 3, by: city}}"))
    names = {question for question in map(str, bench.oracle.requests) if "Code" in question}
    assert len(names) == 2, "Rome and Oslo"
    assert len(rows) <= 6
    assert after < 2 + 40


@pytest.fixture
def spoilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs a plan with a model that has no answer for some names."""

    def spoil(request: Request, reply: Reply) -> Reply:
        if request.messages[-1].content in {"Code: name 0", "Code: name 2"}:
            raise RowError("refused", "no")
        return reply

    oracle = Oracle(Mind(answer=lambda _: {"code": "c"}))

    async def run(
        made: LogicalPlan, rewrite: Callable[[LogicalPlan], LogicalPlan]
    ) -> tuple[list[Any], int]:
        oracle.requests.clear()
        monkeypatch.setattr(
            running, "optimized", lambda plan, inputs: rewrite(mark_empty(plan, inputs))
        )
        async with semgraph.Session(
            llm=Faulty(oracle, spoil), store="memory", journal=False, runs="", folder=tmp_path
        ) as session:
            found = await session.arun(made, people=PEOPLE)
        return found.tables["kept"].to_pylist(), len(oracle.requests)

    return run


@pytest.mark.parametrize(("on_error", "ids"), [("raise", [1, 3, 4]), ("null", [0, 1, 2])])
async def test_a_row_without_an_answer_makes_room_for_the_next_only_if_it_is_left_out(
    spoilt: Callable[..., Any], tmp_path: Path, on_error: str, ids: list[int]
) -> None:
    asking = f'    - sem_map: {{prompt: "Code: {{name}}", returns: {{code: string}}, on_error: {on_error}}}\n'
    made = plan(tmp_path, f"{asking}    - limit: {{n: 3}}")
    plain, _ = await spoilt(made, lambda p: p)
    found, asked = await spoilt(made, optimize)
    assert found == plain
    assert [row["id"] for row in found] == ids
    assert asked < 10


async def test_what_was_asked_for_rows_from_above_is_counted_recorded_and_expected_as_such(
    tmp_path: Path,
) -> None:
    """Of six rows two have no code, and one of the others is not loud: the seventh and all behind
    it are not asked about.
    """

    def spoil(request: Request, reply: Reply) -> Reply:
        if request.messages[-1].content in {"Code: name 0", "Code: name 2"}:
            raise RowError("refused", "no")
        return reply

    def says(text: str) -> dict[str, str]:
        return (
            {"code": "c"}
            if "Code" in text
            else {"answer": "no" if text.endswith("name 3") else "yes"}
        )

    oracle = Oracle(Mind(answer=says))
    path = tmp_path / "asking.yaml"
    path.write_text(STACKED, encoding="utf-8")
    async with semgraph.Session(
        llm=Faulty(oracle, spoil), store="memory", folder=tmp_path
    ) as session:
        found = await session.arun(load_plan(path), people=PEOPLE)
        told = session.explain(load_plan(path), people=PEOPLE)
    assert [row["id"] for row in found.tables["kept"].to_pylist()] == [1, 4, 5]
    coded, kept = found.meter.steps["coded"], found.meter.steps["kept"]
    assert (coded.rows_in, coded.rows_out, coded.rows_failed) == (6, 4, 2)
    assert (kept.rows_in, kept.rows_out) == (4, 3)
    assert [failure.row["id"] for failure in found.failed] == [0, 2]
    recorded = pa.concat_tables(
        pq.read_table(part) for part in (found.record / "steps" / "coded").glob("*.parquet")
    )
    assert sorted(recorded.column("id").to_pylist()) == [1, 3, 4, 5]
    (line,) = [line for line in told.splitlines() if "coded" in line]
    assert re.search("≈ 4 +≈ 4 ", line), "rows that it gives, and calls that are paid, as they were"


JOINED = """
plan: asking
inputs: {people: {id: int64, name: string}, visits: {who: int64, place: string}}
steps:
  loud:
    - from: people
    - sem_filter: {prompt: "Loud: {name}", on_error: ON_ERROR}
  pairs:
    - from: loud
    - join: {other: visits, alias: visit, using: {id: who}}
returns: [pairs]
"""


@pytest.mark.parametrize(("on_error", "left"), [("raise", 3), ("null", 8)])
async def test_a_row_that_failed_is_counted_once_however_many_it_is_joined_with(
    tmp_path: Path, on_error: str, left: int
) -> None:
    """Two people of one name have no answer, for three visits and for two; the fourth of the people
    has no visit.
    """

    def spoil(request: Request, reply: Reply) -> Reply:
        if "Ann" in request.messages[-1].content:
            raise RowError("refused", "no")
        return reply

    path = tmp_path / "asking.yaml"
    path.write_text(JOINED.replace("ON_ERROR", on_error), encoding="utf-8")
    model = Faulty(Oracle(Mind(answer=lambda _: {"answer": "yes"})), spoil)
    people = [
        {"id": 1, "name": "Ann"},
        {"id": 2, "name": "Ben"},
        {"id": 3, "name": "Ann"},
        {"id": 4, "name": "Ann"},
    ]
    visits = [
        {"who": who, "place": place}
        for who, place in zip([1, 1, 1, 2, 2, 2, 3, 3], "abcdefgh", strict=True)
    ]
    made = load_plan(path)
    assert optimize(made).returns["pairs"].keyword == "sem_filter", "it is asked late"
    async with semgraph.Session(
        llm=model, store="memory", journal=False, runs="", folder=tmp_path
    ) as session:
        found = await session.arun(made, people=people, visits=visits)
    assert found.tables["pairs"].num_rows == left
    assert found.meter.steps["loud"].rows_failed == 2
    assert [failure.row for failure in found.failed] == (
        [{"id": 1, "name": "Ann"}, {"id": 3, "name": "Ann"}] if on_error == "raise" else []
    )


@pytest.mark.parametrize("way", ["per_row", "packed(rows=10)"])
async def test_rows_that_a_model_cannot_tell_apart_are_one_question(
    bench: Bench, tmp_path: Path, way: str
) -> None:
    made = plan(tmp_path, '    - sem_filter: {prompt: "Loud: {city}"}', f'{{kept: "{way}"}}')
    rows, _, after = await both(bench, made)
    assert after == (2 if way == "per_row" else 1)
    assert len(rows) in {0, 20, 40}


async def test_equal_pairs_are_one_question(bench: Bench, tmp_path: Path) -> None:
    steps = (
        '    - sem_join: {prompt: "Is {city} near {o.city}?", other: people, alias: o, how: semi}'
    )
    _, _, after = await both(bench, plan(tmp_path, steps))
    assert after == 4


async def test_a_limit_asks_an_equal_row_no_second_time(bench: Bench, tmp_path: Path) -> None:
    steps = '    - sem_filter: {prompt: "Loud: {city}"}\n    - limit: {n: 30}'
    _, before, after = await both(bench, plan(tmp_path, steps))
    assert before == after == 2


CLASSIFIED = """
plan: classified
inputs: {people: {id: int64, name: string}, others: {id: int64, name: string}}
steps:
  pairs:
    - from: people
    - sem_join: {prompt: "Are {name} and {o.name} alike?", other: others, alias: o}
    - project: {id, other: o.id}
returns: [pairs]
allow: [join_to_classify]
"""


@pytest.mark.parametrize("always", [False, True])
async def test_numbers_that_no_record_has_are_asked_for_again(tmp_path: Path, always: bool) -> None:
    (tmp_path / "classified.yaml").write_text(CLASSIFIED, encoding="utf-8")
    oracle = Oracle(Mind(answer=lambda text: {"numbers": [2, 3] if "Ann" in text else [1]}))

    def spoil(request: Request, reply: Reply) -> Reply:
        if "Ann" in request.messages[-1].content and (
            always or "not valid" not in request.messages[-1].content
        ):
            return edited(reply, lambda said: {"numbers": [*said["numbers"], 4]})
        return reply

    others = [{"id": 10 * i, "name": f"name {i}"} for i in (1, 2, 3)]
    people = [{"id": 1, "name": "Ann"}, {"id": 2, "name": "Ben"}]
    async with semgraph.Session(
        llm=Faulty(oracle, spoil), store="memory", journal=False, runs="", folder=tmp_path
    ) as session:
        found = await session.arun(
            load_plan(tmp_path / "classified.yaml"), people=people, others=others
        )
    assert len(oracle.requests) == 3
    assert (
        "numbers has 4, which is the number of no record"
        in oracle.requests[-1].messages[-1].content
    )
    ann = [{"id": 1, "other": 20}, {"id": 1, "other": 30}]
    assert found.tables["pairs"].to_pylist() == [*ann, {"id": 2, "other": 10}]
    assert not found.failed
    assert any("left out an element" in note for note in found.notes) == always, found.notes
