"""Whatever the plan, the optimizer changes no row, no order and no schema, and asks nothing
more.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, reject, settings
from hypothesis import strategies as st

from semgraph.errors import DataError, PlanError
from semgraph.frontend.load import load_plan
from semgraph.logical.plan import LogicalPlan
from semgraph.optimizer import APPROXIMATE, optimize
from tests.examples import examples
from tests.optimizer.bench import FIXTURES, Bench

GROUP_STOPPED = 1  # the exit code
# Each operator leaves or makes the columns id, name, n and group_id, so that any may follow any.
BACK = {"project": {"id": None, "name": None, "n": None, "group_id": None}}
TESTS = st.sampled_from(
    ["TRUE", "n > 3", "name <> 'Ann'", "n IS NOT NULL AND length(name) > 2", "word_count(name) >= 1 AND n < 40", "n % 2 = 0 OR name = 'Cleo'",
     "n + 2 * n > 3", "10 // n > 1 AND n <> 0", "n > 1 AND row_number() OVER (ORDER BY id) < 4", "TRY_CAST(name AS BIGINT) IS NULL AND n BETWEEN 1 AND 8"]
)  # fmt: skip
SIMPLE = st.one_of(
    TESTS.map(lambda test: [{"filter": test}]),
    st.sampled_from(
        ["n + 1", "length(name)", "n * 0.5 + 2", "NULL::BIGINT", "row_number() OVER ()"]
    ).map(lambda text: [{"add": {"n": f"CAST({text} AS BIGINT)", "unused": "name || '!'"}}, BACK]),
    st.just([BACK]),
    st.just([{"project": {"id": None, "name": "upper(name)", "n": None, "group_id": None}}]),
    st.tuples(
        st.integers(1, 4),
        st.sampled_from([None, ["name"]]),
        st.sampled_from([None, "n desc", ["name", "id desc"], "n * 3"]),
    ).map(
        lambda t: [
            {"limit": {k: v for k, v in zip(("n", "by", "order"), t, strict=True) if v is not None}}
        ]
    ),
    st.sampled_from([[], ["name"], ["n", "group_id"]]).map(lambda by: [{"distinct": by}]),
    st.just(
        [
            {
                "aggregate": {
                    "by": ["name", "group_id"],
                    "add": {"id": "min(id)", "n": "count(*)", "all": "list(n)"},
                    "having": "n > 0",
                }
            },
            BACK,
        ]
    ),
    st.just(
        [
            {"add": {"words": "[name, upper(name)]"}},
            {"unnest": {"column": "words", "alias": "w"}},
            {"add": {"name": "w"}},
            BACK,
        ]
    ),
)
ASKING = st.one_of(
    st.tuples(
        st.sampled_from(["Loud: {name}", "Odd: {n}"]), st.sampled_from(["raise", "null"])
    ).map(lambda t: [{"sem_filter": {"prompt": t[0], "on_error": t[1]}}]),
    st.just(
        [
            {"sem_map": {"prompt": "Code: {name}", "returns": {"code": "string"}}},
            {"add": {"name": "code"}},
            BACK,
        ]
    ),
    st.just(
        [
            {"sem_map": {"prompt": "Code: {id} {name}", "returns": {"code": "string"}}},
            {"filter": "code <> 'c1'"},
            BACK,
        ]
    ),
    st.just(
        [
            {"sem_map": {"prompt": "Code: {name}", "returns": {"code": "string"}}},
            {"sem_map": {"prompt": "Mark: {n}", "returns": {"mark": "string"}}},
            {"filter": "n > 2 AND mark <> code"},
            BACK,
        ]
    ),
    st.tuples(
        st.sampled_from([None, ["name"], ["group_id"]]),
        st.sampled_from([None, "n desc", "name", "n + n"]),
    ).map(
        lambda t: [
            {"sem_filter": {"prompt": "Loud: {id}"}},
            {
                "limit": {
                    k: v
                    for k, v in zip(("n", "by", "order"), (2, *t), strict=True)
                    if v is not None
                }
            },
        ]
    ),
)
STORED = st.sampled_from(
    [
        [{"search": {"over": "Person", "alias": "hit", "k": 2, "methods": [{"fulltext": "name"}], "where": "hit.age > 20"}},
         {"project": {"id": None, "name": "hit.name", "n": "hit.age", "group_id": None}}],
        [{"search": {"over": "Person", "alias": "hit", "k": 1, "methods": [{"equal": "name_key", "to": "key(name)"}], "how": "left"}},
         {"filter": "hit IS NULL OR hit.age < 60"}, {"add": {"n": "coalesce(hit.age, n)"}}, BACK],
        [{"search": {"over": "Person", "alias": "hit", "k": 4, "order": "hit.age desc"}}, {"filter": "hit.rank < 2 AND n > 1"},
         {"project": {"id": None, "name": "hit.name", "n": "hit.age", "group_id": None}}],
        [{"match": {"pattern": "(a:Person {name: name})-[r:KNOWS]-(b:Person)"}}, {"filter": "r.since > 2005 AND b.age > 18"},
         {"add": {"name": "b.name"}}, BACK],
    ]
)  # fmt: skip


def joining(other: str) -> st.SearchStrategy[list[Any]]:
    """Ways in which a step meets another one."""
    return st.sampled_from(
        [
            [{"join": {"other": other, "alias": "o", "using": "name"}}, {"add": {"n": "o.n"}}, BACK],
            [{"join": {"other": other, "alias": "o", "where": "o.n > n", "how": "left"}}, {"add": {"name": "coalesce(o.name, name)"}}, BACK],
            [{"join": {"other": other, "using": ["name"], "how": "anti"}}],
            [{"join": {"other": other, "using": ["name"], "how": "semi"}}, {"filter": "n > 1"}],
            [{"group_join": {"other": other, "alias": "o", "using": "name", "add": {"m": "count(o)", "most": "max(o.n)"}}}, {"add": {"n": "m"}}, BACK],
            [{"sem_join": {"prompt": "Are {name} and {o.name} alike?", "other": other, "alias": "o", "where": "o.id <> id"}}, {"add": {"n": "o.n"}}, BACK],
            [{"sem_join": {"prompt": "Are {name} and {o.id} alike?", "other": other, "alias": "o", "how": "left"}}, {"filter": "n > 1"}, {"add": {"n": "o.n"}}, BACK],
            [{"sem_join": {"prompt": "Is {name} like {o.name}?", "other": other, "alias": "o", "keep": "one", "order": "o.n desc"}}, BACK],
            [{"sem_join": {"prompt": "Is {name} like {o.name}?", "other": other, "alias": "o", "how": "anti"}}],
            [{"sem_filter": {"prompt": "Loud: {name}"}}, {"join": {"other": other, "alias": "o", "where": "o.n < n"}}, BACK],
            [{"sem_filter": {"prompt": "Loud: {name}"}}, {"join": {"other": other, "using": ["id"], "how": "semi"}}, {"sem_filter": {"prompt": "Odd: {id}"}}],
        ]
    )  # fmt: skip


@st.composite
def plans(draw: st.DrawFn) -> dict[str, Any]:
    """Three or four steps, each from an input, a label or an earlier step; some of them are
    results.

    Some are cut into windows, and some steps that ask have a way of their own.
    """
    steps: dict[str, Any] = {}
    for number in range(draw(st.integers(2, 4))):
        source = draw(st.sampled_from(["people", "others", "stored", *steps]))
        first = (
            [{"from": {"label": "Person", "partition": "all"}}, {"filter": draw(st.sampled_from(["age > 20", "word_count(name) > 1", "TRUE"]))},
             {"project": {"id": "age", "name": None, "n": "length(city)", "group_id": None}}]
            if source == "stored"
            else [{"from": source}]
        )  # fmt: skip
        inner = draw(
            st.lists(
                st.one_of(
                    SIMPLE,
                    SIMPLE,
                    ASKING,
                    STORED,
                    joining(draw(st.sampled_from(["others", *steps]))),
                ),
                max_size=3,
            )
        )
        steps[f"s{number}"] = [*first, *(operator for part in inner for operator in part)]
    names = draw(st.lists(st.sampled_from(list(steps)), min_size=1, max_size=3, unique=True))
    found = {
        "steps": steps,
        "returns": [*names, *([] if "s1" in names else ["s1"])],
        "use": draw(ways(steps)),
    }
    windows = draw(st.sampled_from([None, None, 1, 2, "all"]))
    cut = {
        "input": "people",
        "partition": "group_id",
        "order": ["id"],
        "key": "uuid",
        "key_of": ["id"],
        "size": windows,
    }
    return found if windows is None else {**found, "windows": cut}


@st.composite
def ways(draw: st.DrawFn, steps: dict[str, list[dict[str, Any]]]) -> dict[str, str]:
    """Ways of some of the steps whose operators all have them."""
    found = {}
    for name, operators in steps.items():
        asking = {
            keyword for operator in operators for keyword in operator if keyword.startswith("sem_")
        }
        own = (
            "packed(rows=2)"
            if asking <= {"sem_map", "sem_filter"}
            else "block(left=2, right=2)"
            if asking == {"sem_join"}
            else ""
        )
        if asking and own and draw(st.booleans()):
            found[name] = own
    return found


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.integers(0, 5),
            "name": st.sampled_from(["Ann", "Ann Lee", "ann lee", "Cleo", "Ben Ray"]),
            "n": st.integers(-1, 9) | st.sampled_from([None, 2**63 - 1, -(2**63), 2**62]),
            "group_id": st.sampled_from(["g", "h"]),
        }
    ),
    max_size=5,
)


def keyed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with a key each, as windows need."""
    return [{**row, "uuid": f"u{i}"} for i, row in enumerate(rows)]


def written(document: dict[str, Any], folder: Path) -> LogicalPlan:
    columns = {"id": "int64", "name": "string", "n": "int64 null", "group_id": "string"}
    inputs = {"people": {**columns, "uuid": "string null"}, "others": columns}
    head = {"plan": "drawn", "graph": "graph.yaml", "inputs": inputs, "optional": ["others"]}
    (folder / "graph.yaml").write_text(
        (FIXTURES / "graph.yaml").read_text(encoding="utf-8"), encoding="utf-8"
    )
    (folder / "drawn.yaml").write_text(json.dumps({**head, **document}), encoding="utf-8")
    try:
        return load_plan(folder / "drawn.yaml")
    except PlanError as error:
        if "may be of another partition" not in str(error):
            raise
        reject()


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    """One loop for all drawn plans: a store lives in one."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def bench(loop: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(tmp_path_factory.mktemp("drawn"), pytest.MonkeyPatch())
    loop.run(made.session.arun(FIXTURES / "fill.yaml"))
    yield made
    loop.run(made.session.aclose())


def records(requests: Sequence[str]) -> int:
    """How many rows or pairs requests are about. An early stop may ask about fewer in more calls."""
    return sum(max(1, len(re.findall(r"^\d+\. ", text, re.MULTILINE))) for text in requests)


def compared(
    bench: Bench, loop: asyncio.Runner, plan: LogicalPlan, inputs: dict[str, Any], *, exact: bool
) -> None:
    """Run a plan as it is written and as the optimizer leaves it.

    A plan that cannot be computed may become one that can, since fewer rows reach what fails.
    """

    async def both() -> None:
        try:
            before = await bench.run(plan, lambda p: p, inputs, told=False)
        except DataError:
            return event("cannot be computed")
        except PlanError as error:
            assert "rows of no window" in str(error)  # noqa: PT017 - of a plan that mixes them
            return event("refused")
        asked = bench.asked
        if before.exit_code == GROUP_STOPPED:
            return event("a group cannot be computed")
        try:
            after = await bench.run(plan, optimize, inputs)
        except PlanError as error:
            assert "have different implementations" in str(error)  # noqa: PT017 - of a plan that asks the same in two ways
            return event("two ways")
        event(
            f"windows: {plan.windows is not None}, use: {bool(plan.use)}, failed: {bool(before.failed)}"
        )
        for name, table in before.tables.items():
            assert after.tables[name].schema == table.schema
            assert after.tables[name].to_pylist() == table.to_pylist(), name
        assert set(bench.asked) <= set(asked) or not exact or plan.use
        by_chance = before.meter.total().calls_coalesced  # equal ones, asked at once
        assert records(bench.asked) <= records(asked) + by_chance
        assert after.meter.total().round_trips <= before.meter.total().round_trips
        return None

    loop.run(both())


@settings(max_examples=examples(30, 60), deadline=None, suppress_health_check=list(HealthCheck))
@given(document=plans(), people=ROWS, others=ROWS, refusing=st.booleans())
def test_run_of_a_plan_is_run_of_the_optimized_plan(
    loop: asyncio.Runner,
    bench: Bench,
    document: dict[str, Any],
    people: list[Any],
    others: list[Any],
    refusing: bool,
) -> None:
    plan = written(document, bench.session.folder)
    # Of a window, a row that no longer fails brings all rows of its member back.
    bench.refusing = refusing and plan.windows is None
    compared(bench, loop, plan, {"people": keyed(people), "others": others}, exact=True)


@settings(max_examples=examples(15, 30), deadline=None, suppress_health_check=list(HealthCheck))
@given(document=plans(), people=ROWS, others=ROWS)
def test_a_model_that_answers_each_of_several_questions_alike_answers_fused_ones_so(
    loop: asyncio.Runner,
    bench: Bench,
    document: dict[str, Any],
    people: list[Any],
    others: list[Any],
) -> None:
    plan = written(
        {**document, "use": {}, "allow": [rule.__name__ for rule in APPROXIMATE]},
        bench.session.folder,
    )
    bench.refusing = False
    compared(bench, loop, plan, {"people": keyed(people), "others": others}, exact=False)


def test_the_same_holds_over_neo4j(
    loop: asyncio.Runner, neo4j_database: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from semgraph.stores.neo4j.store import Neo4jStore

    store = Neo4jStore(neo4j_database.uri, neo4j_database.user, neo4j_database.password)
    bench = Bench(tmp_path, monkeypatch, store)
    loop.run(bench.session.arun(FIXTURES / "fill.yaml"))

    @settings(max_examples=examples(6, 15), deadline=None, suppress_health_check=list(HealthCheck))
    @given(document=plans(), people=ROWS, others=ROWS)
    def drawn(document: dict[str, Any], people: list[Any], others: list[Any]) -> None:
        plan = written(document, tmp_path)
        compared(bench, loop, plan, {"people": keyed(people), "others": others}, exact=True)

    try:
        drawn()
    finally:
        loop.run(bench.session.aclose())
        loop.run(store.aclose())
