"""`iterate`: rounds of a body over its own last rows, group by group, until each has ended."""

from __future__ import annotations

import asyncio
import textwrap
from pathlib import Path
from typing import Any

import pytest

import semgraph
from semgraph.conformance.cases import Grams, Mind, Oracle
from semgraph.errors import DataError, PlanError
from semgraph.execution.record import Run
from semgraph.execution.result import Result
from semgraph.frontend.load import load_plan
from semgraph.provenance import explain
from tests.execution.conftest import Place
from tests.partial import maybe_partial

Rows = list[dict[str, Any]]
EDGES = [{"source": a, "target": b} for a, b in ("ab", "bc", "cd", "da", "xy")]
COUNTED = [{"g": "p", "id": "a", "n": 1}, {"g": "q", "id": "b", "n": 5}, {"g": "p", "id": "c", "n": 2}]  # fmt: skip


@pytest.fixture(params=["rows", "duckdb"])
def executor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both executors of relational operators."""
    monkeypatch.setenv("SEMGRAPH_SEGMENTS", request.param)


both = pytest.mark.usefixtures("executor")


def run(
    folder: Path, text: str, oracle: Oracle | None = None, store: str = "memory", **inputs: Rows
) -> Result:
    (folder / "looped.yaml").write_text("plan: looped\n" + text, encoding="utf-8")
    options: dict[str, Any] = {} if oracle is None else {"llm": oracle}
    with semgraph.Session(store=store, journal=False, runs="", folder=folder, **options) as session:
        return session.run(folder / "looped.yaml", inputs=inputs)


def looped(folder: Path, arguments: str, rows: Rows = COUNTED, **inputs: Rows) -> Result:
    """A loop over rows with a group, an id and a number."""
    given = "".join(f"  {name}: {{g: string, id: string, n: int64}}\n" for name in inputs)
    text = f"inputs:\n  rows: {{g: string, id: string, n: int64}}\n{given}steps:\n  out:\n"
    text += f"    - from: rows\n    - iterate: {{as: last, {arguments}}}\nreturns: [out]\n"
    return run(folder, text, rows=rows, **inputs)


def out(result: Result) -> Rows:
    rows: Rows = result.tables["out"].to_pylist()
    return rows


def pairs(result: Result) -> list[tuple[str, int]]:
    return [(row["id"], row["n"]) for row in out(result)]


DOUBLE = 'do: [{from: last}, {add: {n: "2 * n"}}]'


@both
def test_each_round_is_made_of_the_one_before_and_the_last_is_kept(tmp_path: Path) -> None:
    result = looped(tmp_path, f"times: 3, {DOUBLE}")
    assert pairs(result) == [("a", 8), ("b", 40), ("c", 16)]
    assert result.notes == ("step out: the loop had not ended after 3 rounds",)


@both
def test_the_input_is_round_0_and_all_rounds_are_kept_with_their_number(tmp_path: Path) -> None:
    result = looped(tmp_path, f"times: 1, keep: all, {DOUBLE}")
    assert [(r["round"], r["id"], r["n"]) for r in out(result)] == [
        (0, "a", 1), (0, "b", 5), (0, "c", 2), (1, "a", 2), (1, "b", 10), (1, "c", 4),
    ]  # fmt: skip


@both
def test_no_round_is_made_for_times_0_or_once_until_holds_of_the_input(tmp_path: Path) -> None:
    assert pairs(looped(tmp_path, f"times: 0, {DOUBLE}")) == [("a", 1), ("b", 5), ("c", 2)]
    held = looped(tmp_path, f"times: 9, until: max(n) > 4, {DOUBLE}")
    assert pairs(held) == [("a", 1), ("b", 5), ("c", 2)]
    assert held.notes == ()


@both
def test_an_empty_round_ends_the_loop_and_is_kept_as_the_last(tmp_path: Path) -> None:
    doubled = 'do: [{from: last}, {add: {n: "2 * n"}}, {filter: n < 20}]'
    last = looped(tmp_path, f"times: 9, {doubled}")
    every = looped(tmp_path, f"times: 9, keep: all, {doubled}")
    assert (pairs(last), last.notes) == ([], ())
    assert max(row["round"] for row in out(every)) == 4


@both
def test_a_loop_over_no_rows_has_none(tmp_path: Path) -> None:
    more = "do: [{union: [last, more]}]"
    assert out(looped(tmp_path, f"times: 9, {more}", [], more=COUNTED)) == []
    assert out(looped(tmp_path, f"times: 9, by: [g], {more}", [], more=COUNTED)) == []


@both
def test_groups_end_one_by_one_and_their_kept_rows_stand(tmp_path: Path) -> None:
    result = looped(tmp_path, f"times: 9, by: [g], until: max(n) > 6, {DOUBLE}")
    # p: 1, 2 → 2, 4 → 4, 8; q: 5 → 10. Groups by their first row in the input.
    assert pairs(result) == [("a", 4), ("c", 8), ("b", 10)]


@both
def test_notes_count_the_groups_that_had_not_ended(tmp_path: Path) -> None:
    result = looped(tmp_path, f"times: 2, by: [g], until: max(n) > 15, {DOUBLE}")
    assert pairs(result) == [("a", 4), ("c", 8), ("b", 20)]
    assert result.notes == ("step out: 1 of 2 groups had not ended after 2 rounds",)


@both
def test_rows_that_are_made_for_a_group_that_has_ended_are_dropped(tmp_path: Path) -> None:
    do = 'do: [{union: [[{from: last}, {add: {n: "2 * n"}}], [{from: more}]]}]'
    result = looped(
        tmp_path,
        f"times: 9, by: [g], keep: all, until: max(n) > 6, {do}",
        more=[{"g": "q", "id": "m", "n": 0}],
    )
    assert [(r["round"], r["id"]) for r in out(result) if r["g"] == "q"] == [
        (0, "b"),
        (1, "b"),
        (1, "m"),
    ]


def test_a_row_of_a_group_that_the_input_has_not_is_an_error(tmp_path: Path) -> None:
    do = "do: [{union: [last, more]}]"
    with pytest.raises(DataError, match=r"round 1 has a row of the group \(c9\), which the rows above have not"):  # fmt: skip
        looped(tmp_path, f"times: 2, by: [g], {do}", more=[{"g": "c9", "id": "m", "n": 0}])


@both
def test_until_sees_the_row_of_the_round_before(tmp_path: Path) -> None:
    near = 'times: 99, key: [id], until: "bool_and(abs(n - coalesce(was.n, -999)) <= 2)"'
    halved = 'do: [{from: last}, {add: {n: "n // 2"}}]'
    result = looped(tmp_path, f"{near}, keep: all, {halved}", [{"g": "p", "id": "a", "n": 20}])
    assert [row["n"] for row in out(result)] == [20, 10, 5, 2, 1]


@both
def test_was_is_null_in_round_0_and_of_new_rows(tmp_path: Path) -> None:
    arguments = "times: 9, key: [id], until: bool_and(was IS NOT NULL), keep: all"
    grown = "do: [{from: last}, {union: [last, more]}]".replace("{from: last}, ", "")
    result = looped(
        tmp_path,
        f"{arguments}, {grown.replace('more', '[{from: more}, {join: {other: last, using: id, how: anti}}]')}",
        more=[{"g": "p", "id": "m", "n": 0}],
    )
    assert [(r["round"], r["id"]) for r in out(result) if r["round"]] == [
        (n, name) for n in (1, 2) for name in ("a", "b", "c", "m")
    ]


def test_a_key_names_one_row_of_a_round(tmp_path: Path) -> None:
    twice = "do: [{union: [last, last]}]"
    with pytest.raises(DataError, match=r"step out: round 1 has two rows with the key \(p, a\)"):
        looped(tmp_path, f"times: 3, key: [g, id], {twice}")


@both
def test_a_condition_that_is_null_does_not_hold(tmp_path: Path) -> None:
    result = looped(tmp_path, f'times: 2, until: "max(nullif(n, n)) > 0", {DOUBLE}')
    assert pairs(result) == [("a", 4), ("b", 20), ("c", 8)]


CLOSURE = """
inputs: {edges: {source: string, target: string}}
steps:
  reach:
    - from: edges
    - iterate: {as: found, times: 20, keep: all, distinct: [source, target],
        do: [{from: found}, {join: {other: edges, alias: e, using: {target: source}}},
             {project: {source, target: e.target}}]}
returns: [reach]
"""


@both
def test_distinct_makes_a_closure_end(tmp_path: Path) -> None:
    twice = [*EDGES, EDGES[0]]
    result = run(tmp_path, CLOSURE, edges=twice)
    reach = result.tables["reach"].to_pylist()
    found = {(row["source"], row["target"]) for row in reach}
    assert found == {(a, b) for a in "abcd" for b in "abcd"} | {("x", "y")}
    assert len(reach) == len(found)
    assert [row["round"] for row in reach] == sorted(row["round"] for row in reach)
    assert result.notes == ()


NESTED = """
inputs: {rows: {id: string, n: int64}}
steps:
  base: [{from: rows}, {add: {n: n + 1}}]
  out:
    - from: rows
    - iterate:
        {as: outer_rows, times: 2, do: [
          {from: outer_rows},
          {iterate: {as: inner_rows, times: 3, do: [
            {from: inner_rows},
            {join: {other: outer_rows, alias: o, using: id}}, {join: {other: base, alias: b, using: id}},
            {project: {id, n: n + o.n + b.n}}]}}]}
returns: [out]
"""


@both
def test_a_loop_stands_in_a_loop(tmp_path: Path) -> None:
    result = run(tmp_path, NESTED, rows=[{"id": "a", "n": 1}])
    n = 1
    for _ in range(2):
        outer = n
        for _ in range(3):
            n += outer + 2
    assert result.tables["out"].to_pylist() == [{"id": "a", "n": n}]
    assert set(result.notes) == {
        'step out: the loop of "outer_rows" had not ended after 2 rounds',
        'step out: the loop of "inner_rows" had not ended after 3 rounds',
    }


def test_the_example_of_the_documentation_runs(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "iterate.md").read_text(encoding="utf-8")
    step = page.split("```yaml\n")[1].split("```", maxsplit=1)[0]
    inputs = "inputs: {edges: {source: string, target: string}}\nsteps:\n"
    text = inputs + textwrap.indent(step, "  ") + "returns: [reach]\n"
    found = run(tmp_path, text, edges=EDGES).tables["reach"]
    assert found.equals(run(tmp_path, CLOSURE, edges=EDGES).tables["reach"])


def test_a_loop_asks_until_the_model_knows_as_the_documentation_shows(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "iterate.md").read_text(encoding="utf-8")
    step = page.split("```yaml\n")[2].split("```", maxsplit=1)[0]
    inputs = (
        "inputs: {questions: {q: string, question: string}, notes: {id: string, text: string}}\n"
    )
    text = f"plan: asking\n{inputs}steps:\n{textwrap.indent(step, '  ')}returns: [answered]\n"
    (tmp_path / "asking.yaml").write_text(text, encoding="utf-8")
    texts = ["Ann leads Kite", "Ann lives in Porto", "Kites fly", "Rain in May", "Ben sleeps"]
    rows = {
        "questions": [{"q": "a", "question": "Who leads Kite, and where?"}, {"q": "b", "question": "Rain in May?"}],
        "notes": [{"id": str(i), "text": text} for i, text in enumerate(texts)],
    }  # fmt: skip

    def thought(text: str) -> dict[str, Any]:
        place = "May" if text.startswith("Rain") else "Porto" if "Porto" in text else None
        return {"answer": place, "ask": None if place else "Ann lives in"}

    oracle = Oracle(Mind(answer=thought))
    with semgraph.Session(
        llm=oracle, embedder=Grams(), store="memory", journal=False, runs="", folder=tmp_path
    ) as session:
        result = session.run(tmp_path / "asking.yaml", inputs=rows)
    answered = result["answered"].to_pylist()
    assert [(row["q"], row["answer"]) for row in answered] == [("a", "Porto"), ("b", "May")]
    assert len(oracle.requests) == 3  # b has ended in round 1
    assert result.failed == ()


# -- questions

ASKING = """
inputs: {rows: {id: string, n: int64}, topics: {topic: string}}
steps:
  out:
    - from: rows
    - iterate:
        as: last
        times: 3
        do:
          - from: last
          - sem_map: {prompt: "What comes after {n}?", returns: {next: int64}}
          - join:
              other: [{from: topics}, {sem_map: {prompt: "Weight of {topic}?", returns: {weight: int64}}}]
              alias: t
              where: "TRUE"
          - project: {id, n: next + t.weight}
returns: [out]
"""


def asked(oracle: Oracle) -> list[str]:
    return [str(request.messages[-1].content) for request in oracle.requests]


def counting(text: str) -> dict[str, Any]:
    if "Weight" in text:
        return {"weight": 10}
    return {"next": int(text.split("after ")[1].split("?", maxsplit=1)[0]) + 1}


def test_what_does_not_rest_on_the_round_is_asked_once(tmp_path: Path) -> None:
    oracle = Oracle(Mind(answer=counting))
    result = run(
        tmp_path, ASKING, oracle, rows=[{"id": "a", "n": 1}, {"id": "b", "n": 2}], topics=[{"topic": "x"}]
    )  # fmt: skip
    assert result.tables["out"].to_pylist() == [{"id": "a", "n": 34}, {"id": "b", "n": 35}]
    texts = asked(oracle)
    assert sum("Weight" in text for text in texts) == 1
    assert sum("after" in text for text in texts) == 6


SAME = """
inputs: {rows: {group_id: string, id: string, n: int64}}
HEAD
steps:
  out:
    - from: rows
    - project: [group_id, id, n]
    - iterate:
        as: last
        times: 3
        do:
          - from: last
          - sem_map: {prompt: "Is {id} big?", returns: {big: boolean}}
          - project: {group_id, id, n: "n + CAST(big AS INT)"}
returns: [out]
"""


@pytest.mark.parametrize("size", [None, "1", "all"])
def test_equal_questions_of_two_rounds_are_one(tmp_path: Path, size: str | None) -> None:
    head = f"windows: {{input: rows, partition: group_id, key: id, size: {size}}}" if size else ""
    oracle = Oracle(Mind(answer=lambda _: {"big": True}))
    rows = [{"group_id": "g", "id": name, "n": 1} for name in "ab"]
    result = run(tmp_path, SAME.replace("HEAD", head), oracle, rows=rows)
    assert pairs(result) == [("a", 4), ("b", 4)]
    assert sorted(asked(oracle)) == ["Is a big?", "Is b big?"]


# -- windows, and rows that fail

WINDOWS = """
inputs: {{rows: {{group_id: string, id: string, n: int64}}}}
windows: {{input: rows, partition: group_id, key: id, size: {size}}}
steps:
  out:
    - from: rows
    - project: [group_id, id, n]
    - iterate: {{as: last, {arguments}}}
returns: [out]
"""
MEMBERS = [
    {"group_id": group, "id": f"{group}{i}", "n": n}
    for group, numbers in (("g", [1, 5, 2]), ("h", [4, 3]))
    for i, n in enumerate(numbers)
]


def windowed(folder: Path, arguments: str, size: str, rows: Rows = MEMBERS) -> Result:
    return run(folder, WINDOWS.format(arguments=arguments, size=size), rows=rows)


@both
@pytest.mark.parametrize("size", ["1", "2", "all"])
def test_each_window_is_a_group(tmp_path: Path, size: str) -> None:
    result = windowed(tmp_path, f"times: 9, until: max(n) > 6, {DOUBLE}", size)
    expected = {}
    step = {"1": 1, "2": 2, "all": 9}[size]
    for group in "gh":
        own = [row for row in MEMBERS if row["group_id"] == group]
        for i in range(0, len(own), step):
            window = [row["n"] for row in own[i : i + step]]
            while max(window) <= 6:
                window = [2 * n for n in window]
            expected |= dict(zip([row["id"] for row in own[i : i + step]], window, strict=True))
    assert dict(pairs(result)) == expected


@both
@pytest.mark.parametrize("size", ["1", "2", "all"])
def test_windows_keep_their_rounds_apart(tmp_path: Path, size: str) -> None:
    summed = "do: [{from: last}, {aggregate: {by: [group_id], add: {id: min(id), n: sum(n)}}}, {filter: n < 8}]"  # fmt: skip
    rows = out(windowed(tmp_path, f"times: 3, keep: all, {summed}", size))
    one_by_one = [row["round"] for row in rows if row["group_id"] == "h"]
    assert one_by_one == {"1": [0, 1, 2, 3, 0, 1, 2, 3], "2": [0, 0, 1, 2, 3], "all": [0, 0, 1, 2, 3]}[size]  # fmt: skip


REQUIRE = "do: [{from: last}, {add: {n: 2 * n}}, {require: {where: n <> 8, says: \"'eight'\"}}]"


@both
@pytest.mark.parametrize("size", ["1", "2", "all"])
def test_a_member_that_fails_in_a_round_is_set_aside_and_the_window_is_run_without_it(
    tmp_path: Path, size: str
) -> None:
    result = windowed(tmp_path, f"times: 4, {REQUIRE}", size)
    assert {result.keys[f.input_row] for f in result.failed if f.input_row is not None} == {"g0", "g2", "h0"}  # fmt: skip
    assert dict(pairs(result)) == {"g1": 80, "h1": 48}


def test_without_windows_a_row_that_fails_is_out_and_the_loop_goes_on(tmp_path: Path) -> None:
    result = looped(tmp_path, f"times: 4, {REQUIRE}", [*COUNTED, {"g": "p", "id": "d", "n": 3}])
    assert pairs(result) == [("b", 80), ("d", 48)]
    assert [failure.error for failure in result.failed] == ["eight", "eight"]


@both
def test_a_condition_that_fails_of_a_member_sets_it_aside(tmp_path: Path) -> None:
    until = "until: \"max(CAST(CASE WHEN n = 4 THEN 'x' ELSE '0' END AS INTEGER)) > 0\""
    result = windowed(tmp_path, f"times: 3, {until}, {DOUBLE}", "all")
    assert {result.keys[f.input_row] for f in result.failed if f.input_row is not None} == {"g0", "g2", "h0"}  # fmt: skip
    assert dict(pairs(result)) == {"g1": 40, "h1": 24}


# -- a body that is a plan of its own

LEVEL = """
plan: raptor_level
inputs: {below: {corpus: string, id: string, level: int64, text: string, members: list<string>}}
steps:
  paired:
    - from: below
    - add: {pair: "(row_number() OVER (PARTITION BY corpus ORDER BY id) - 1) // 2"}
  summed:
    - from: paired
    - sem_agg:
        prompt: "Sum up: {text}"
        by: [corpus, pair]
        order: [id]
        when: count(*) > 1
        otherwise: {summary: first(text)}
        returns: {summary: string}
        add: {ids: list(id ORDER BY id), level: max(level), below: first(members)}
  above:
    - from: summed
    - project:
        corpus:
        id: "CASE WHEN len(ids) > 1 THEN array_to_string(ids, '+') ELSE ids[1] END"
        level: "CASE WHEN len(ids) > 1 THEN level + 1 ELSE level END"
        text: summary
        members: "CASE WHEN len(ids) > 1 THEN ids ELSE below END"
returns: [above]
"""
TREE = """
inputs: {leaves: {corpus: string, id: string, level: int64, text: string, members: list<string>}}
steps:
  tree:                                               # up to one root, or until nothing new was made
    - from: leaves
    - iterate: {as: level, times: 10, by: [corpus], key: [corpus, id], keep: all,
                until: "count(*) = 1 OR bool_and(was IS NOT NULL)",
                do: [{call: {plan: raptor_level, inputs: {below: level}}}]}
    - distinct: [corpus, id]                          # what went up alone is there once for each round
returns: [tree]
"""
LEAVES = [
    {"corpus": corpus, "id": f"{corpus}{i}", "level": 0, "text": f"{corpus}{i}", "members": []}
    for corpus, count in (("p", 5), ("q", 1), ("r", 2))
    for i in range(count)
]


def summary(texts: list[str], parts: list[dict[str, Any]]) -> dict[str, Any]:
    found = [text.split("Sum up: ")[1].split("\n", maxsplit=1)[0] for text in texts]
    return {"summary": "+".join([*(part["summary"] for part in parts), *found])}


def tree(folder: Path, oracle: Oracle, **options: Any) -> Result:
    (folder / "raptor_level.yaml").write_text(LEVEL, encoding="utf-8")
    (folder / "tree.yaml").write_text("plan: tree\n" + TREE, encoding="utf-8")
    session = {"journal": False, **options.pop("session", {})}
    with semgraph.Session(
        llm=oracle, store="memory", runs=str(folder / "runs"), folder=folder, **session
    ) as opened:
        job = opened.arun(folder / "tree.yaml", inputs={"leaves": LEAVES}, **options)
        return asyncio.run(maybe_partial(job))


def test_a_tree_grows_up_to_one_root_of_each_corpus(tmp_path: Path) -> None:
    result = tree(tmp_path, Oracle(Mind(combine=summary)))
    rows = result.tables["tree"].to_pylist()
    tops = {row["corpus"]: row for row in rows}
    assert {name: top["id"] for name, top in tops.items()} == {
        "p": "p0+p1+p2+p3+p4", "q": "q0", "r": "r0+r1",
    }  # fmt: skip
    assert tops["p"]["level"] == 3
    assert sorted(row["id"] for row in rows if row["corpus"] == "p") == sorted(
        ["p0", "p1", "p2", "p3", "p4", "p0+p1", "p2+p3", "p0+p1+p2+p3", "p0+p1+p2+p3+p4"]
    )
    assert result.notes == ()


def test_questions_of_a_called_plan_in_do_have_the_way_of_their_step(tmp_path: Path) -> None:
    singly = Oracle(Mind(combine=summary))
    expected = tree(tmp_path, singly).tables["tree"]
    for name in ("tree/summed", "summed"):
        plan = load_plan(tmp_path / "tree.yaml", use={name: "fold(rows=2)"})
        assert str(plan.choice("tree/summed")) == "fold(rows=2)"
        oracle = Oracle(Mind(combine=summary))
        assert tree(tmp_path, oracle, use={name: "fold(rows=2)"}).tables["tree"].equals(expected)
    with pytest.raises(PlanError, match="use names no step"):
        load_plan(tmp_path / "tree.yaml", use={"level": "fold"})


def test_a_tree_that_was_cut_off_asks_the_journal_about_the_rounds_it_made(tmp_path: Path) -> None:
    journal = str(tmp_path / "journal.sqlite")
    whole = Oracle(Mind(combine=summary))
    tree(tmp_path, whole)
    first, second = (Oracle(Mind(combine=summary)) for _ in range(2))
    stopped = tree(tmp_path, first, session={"journal": journal, "max_calls": 3})
    assert stopped.stopped
    rest = tree(tmp_path, second, session={"journal": journal})
    assert len(first.requests) == 3
    assert len(first.requests) + len(second.requests) == len(whole.requests)
    assert rest.tables["tree"].equals(tree(tmp_path, whole).tables["tree"])


def test_a_row_of_a_late_round_leads_back_to_the_input(tmp_path: Path) -> None:
    result = tree(tmp_path, Oracle(Mind(combine=summary)))
    assert result.record is not None
    chain = explain(Run(result.record), "tree:id=p0+p1+p2+p3+p4")
    leaves = {link.row["id"] for link in chain.links if link.step == "leaves" and link.row}
    assert leaves == {f"p{i}" for i in range(5)}
    sums = [link.row["id"] for link in chain.links if link.step == "tree/above" and link.row]
    assert {"p0+p1", "p2+p3", "p0+p1+p2+p3"} <= set(sums)


# -- the store

STORED = """
graph: graph.yaml
inputs: {rows: {group_id: string, id: string, name: string, n: int64}}
windows: {input: rows, partition: group_id, key: id, size: SIZE, ahead: 2}
steps:
  found:
    - from: rows
    - project: {uuid: id, group_id, name, n}
    - iterate:
        as: last
        times: 2
        do:
          - from: last
          - search: {over: [Person, last], alias: hit, k: 9, methods: {equal: name}}
          - aggregate: {by: [uuid, group_id, name], add: {n: count(*)}}
writes: [{merge: {from: found, node: Person, set: {name: name}}}]
returns: [found]
"""


@pytest.mark.parametrize("size", ["1", "2"])
def test_a_search_in_a_loop_sees_the_rows_of_its_round_and_what_is_stored(
    tmp_path: Path, place: Place, size: str
) -> None:
    graph = Path(__file__).parents[1] / "fixtures" / "optimizer" / "graph.yaml"
    (tmp_path / "graph.yaml").write_text(graph.read_text(encoding="utf-8"), encoding="utf-8")
    rows = [
        {"group_id": group, "id": f"{group}{i}", "name": name, "n": 0}
        for group in "gh"
        for i, name in enumerate(["ann", "ann", "ben"], 1)
    ]
    result = run(tmp_path, STORED.replace("SIZE", size), store=place.spec, rows=rows)
    assert result.committed == 6
    found = {row["uuid"]: row["n"] for row in result.tables["found"].to_pylist()}
    hits = [1, 2, 1] if size == "1" else [2, 2, 1]  # of the second window: one stored, one its own
    assert found == {f"{group}{i}": n for group in "gh" for i, n in enumerate(hits, 1)}


# -- what others do with a loop

MIXED = """
graph: graph.yaml
inputs: {rows: {group_id: string, id: string, text: string}}
steps:
  out:
    - from: rows
    - iterate:
        as: last
        times: 3
        do:
          - from: last
          - sem_filter: {prompt: "Is {text} nice?"}
          - join: {other: rows, alias: o, where: o.id > id}
          - project: {group_id, id, text: o.text}
returns: [out]
"""


def test_a_prompt_of_the_next_round_may_not_show_what_this_one_brings_of_others(
    tmp_path: Path,
) -> None:
    graph = Path(__file__).parents[1] / "fixtures" / "optimizer" / "graph.yaml"
    (tmp_path / "graph.yaml").write_text(graph.read_text(encoding="utf-8"), encoding="utf-8")
    rows = [{"group_id": "g", "id": "a", "text": "x"}]
    with pytest.raises(PlanError, match='its prompt shows "text", which may be of another partition'):  # fmt: skip
        run(tmp_path, MIXED, rows=rows)
    confined = MIXED.replace("where: o.id > id", "using: group_id, where: o.id > id")
    oracle = Oracle(Mind(answer=lambda _: {"answer": "yes"}))
    assert run(tmp_path, confined, oracle, rows=rows).tables["out"].num_rows == 0


def test_a_question_of_a_loop_is_compared_over_the_rows_of_the_first_round(tmp_path: Path) -> None:
    steps = ASKING.replace('{sem_map: {prompt: "Weight of {topic}?", returns: {weight: int64}}}', '{add: {weight: "1"}}')  # fmt: skip
    (tmp_path / "looped.yaml").write_text("plan: looped\n" + steps, encoding="utf-8")
    oracle = Oracle(Mind(answer=counting))
    inputs = {"rows": [{"id": "a", "n": 1}, {"id": "b", "n": 5}], "topics": []}
    with semgraph.Session(
        llm=oracle, store="memory", journal=False, runs="", folder=tmp_path
    ) as session:
        ways = ["per_row", "packed(rows=2)"]
        found = session.compare(tmp_path / "looped.yaml", variants=ways, step="out", inputs=inputs)
    assert [arm.name for arm in found.arms] == ways
    assert len(asked(oracle)) == 3  # one for each row, and one for both: none of a later round


def test_rounds_are_run_by_their_python_functions_and_saved_as_a_plan(tmp_path: Path) -> None:
    edges = semgraph.table(EDGES, name="edges")
    reach = edges.iterate(
        lambda found: found.join(edges, "e", using={"target": "source"}).project(
            {"source": None, "target": "e.target"}
        ),
        times=20,
        keep="all",
        distinct=["source", "target"],
        step="reach",
    )
    path = reach.save(tmp_path / "reach.yaml")
    saved = load_plan(path)
    assert saved.fingerprint == reach.to_plan("reach").fingerprint
    assert saved.returns["reach"].fingerprint == reach.node.fingerprint
    with semgraph.Session(store="memory", journal=False, runs="") as session:
        found = session.run(reach).tables["reach"]
    assert found.equals(run(tmp_path, CLOSURE, edges=EDGES).tables["reach"])


def test_functions_of_rounds_may_nest_branch_and_take_names_that_are_taken(tmp_path: Path) -> None:
    edges = semgraph.table(EDGES, name="edges")

    def both(edges_: semgraph.Frame) -> semgraph.Frame:
        more = edges_.filter("source <> 'x'")
        inner = more.iterate(lambda last: semgraph.union([last, more]).distinct(), times=2)
        return semgraph.union([inner, edges_]).distinct().limit(9)

    loop = edges.iterate(both, times=2, step="loop")
    again = edges.iterate(lambda edges: edges.limit(2), times=1, step="again")
    with semgraph.Session(store="memory", journal=False, runs="") as session:
        assert session.run(loop).tables["loop"].num_rows == 5
        assert session.run(again).tables["again"].num_rows == 2
    assert again.to_plan().document["steps"]["again"][1]["iterate"]["as"] == "edges_"
    numbered = edges.iterate(lambda step1: step1.limit(2), times=1)
    assert numbered.to_plan().document["steps"]["step1"][1]["iterate"]["as"] == "step1_"
    with pytest.raises(PlanError, match='"named" names a step inside do'):
        edges.iterate(lambda last: last.limit(2, step="named"), times=1)
    with pytest.raises(PlanError, match='iterate, do: do gives "n" besides: project it away'):
        edges.iterate(lambda last: last.add({"n": "1"}), times=1)
    with pytest.raises(PlanError, match="every round would be the same"):
        edges.iterate(lambda _: edges, times=1)


STOPPED = """
graph: graph.yaml
inputs: {rows: {group_id: string, id: string, n: int64}}
windows: {input: rows, partition: group_id, key: id, size: 1, ahead: 1}
steps:
  out:
    - from: rows
    - project: {uuid: id, group_id, n}
    - iterate:
        as: last
        times: 3
        do:
          - from: last
          - sem_map: {prompt: "What comes after {n}?", returns: {next: int64}}
          - join: {other: Person, alias: p, using: uuid, how: anti}
          - project: {uuid, group_id, n: next}
writes: [{merge: {from: out, node: Person, set: {name: "CAST(n AS VARCHAR)"}}}]
returns: [out]
"""


@pytest.mark.parametrize("most", range(1, 9))
def test_a_run_that_stops_in_any_round_is_resumed_without_asking_twice(
    tmp_path: Path, most: int
) -> None:
    graph = Path(__file__).parents[1] / "fixtures" / "optimizer" / "graph.yaml"
    (tmp_path / "graph.yaml").write_text(graph.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "stopped.yaml").write_text("plan: stopped\n" + STOPPED, encoding="utf-8")
    rows = [{"group_id": "g", "id": f"p{i}", "n": 10 * i} for i in range(3)]
    asked_of, committed = [], []
    for limit in (most, 99):
        oracle = Oracle(Mind(answer=counting))
        with semgraph.Session(
            llm=oracle, store=f"sqlite:{tmp_path / 'graph.db'}", journal=str(tmp_path / "journal.db"), runs="",
            folder=tmp_path, max_calls=limit,
        ) as session:  # fmt: skip
            job = session.arun(tmp_path / "stopped.yaml", inputs={"rows": rows})
            result = asyncio.run(maybe_partial(job))
        asked_of += asked(oracle)
        committed.append(result.committed)
    assert len(asked_of) == len(set(asked_of)) == 9
    assert sum(committed) == 3


LEAVING = """
inputs: {rows: {group_id: string, id: string, numbers: list<int64>}}
windows: {input: rows, partition: group_id, key: id, size: all}
steps:
  out:
    - from: rows
    - unnest: {column: numbers, alias: n}
    - project: [group_id, id, n]
    - iterate:
        as: last
        times: 3
        do:
          - from: last
          - sem_map: {prompt: "What comes after {n}?", returns: {next: int64}}
          - project: {group_id, id, n: next}
          - require: {where: n <> 12, says: "'twelve'"}
returns: [out]
"""


def test_nothing_more_is_asked_about_a_member_that_failed_in_a_round(tmp_path: Path) -> None:
    oracle = Oracle(Mind(answer=counting))
    rows = [
        {"group_id": "g", "id": "a", "numbers": [10, 50]},
        {"group_id": "g", "id": "b", "numbers": [30]},
    ]
    result = run(tmp_path, LEAVING, oracle, rows=rows)
    assert [row["n"] for row in result.tables["out"].to_pylist()] == [33]
    numbers = {counting(text)["next"] for text in asked(oracle)}
    assert numbers == {11, 12, 51, 52, 31, 32, 33}  # 50 leaves with 10, in round 2


ORDERED = """
graph: graph.yaml
inputs: {rows: {group_id: string, id: string, n: int64}}
windows: {input: rows, partition: group_id, key: id, size: 1}
steps:
  out:
    - from: rows
    - project: {uuid: id, group_id, n}
    - iterate:
        as: last
        times: 2
        do:
          - from: last
          - iterate:
              as: inner_last
              times: 2
              do:
                - from: last
                - join: {other: [{from: inner_last}, {filter: n < 99}], alias: o, using: uuid}
                - group_join: {other: Person, alias: p, where: "TRUE", add: {stored: count(*)}}
                - project: {uuid, group_id, n: n + o.n + stored}
writes: [{merge: {from: out, node: Person, set: {name: "CAST(n AS VARCHAR)"}}}]
returns: [out]
"""


def test_loops_in_an_ordered_loop_see_what_earlier_windows_wrote(tmp_path: Path) -> None:
    graph = Path(__file__).parents[1] / "fixtures" / "optimizer" / "graph.yaml"
    (tmp_path / "graph.yaml").write_text(graph.read_text(encoding="utf-8"), encoding="utf-8")
    rows = [{"group_id": "g", "id": f"p{i}", "n": 1} for i in range(3)]
    found = run(tmp_path, ORDERED, rows=rows).tables["out"].to_pylist()
    expected = []
    for stored in range(3):
        n = 1
        for _ in range(2):
            outer = n
            for _ in range(2):
                n = outer + n + stored
        expected.append(n)
    assert [row["n"] for row in found] == expected
