"""Windows and partitions keep apart, however many of them are computed together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import semgraph
from semgraph.conformance.cases import Mind, Oracle
from semgraph.errors import PlanError

FIXTURES = Path(__file__).parents[1] / "fixtures" / "optimizer"
HEAD = """plan: confined
graph: graph.yaml
inputs: {{asked: {{uuid: string null, group_id: string, at: timestamp, name: string null}}}}
windows: {{input: asked, partition: group_id, order: [at], key: uuid, key_of: [at, name], size: {window}, ahead: {ahead}{more}}}
"""
FIVE = [
    {"group_id": "g", "at": f"2025-01-0{i + 1}", "name": name} for i, name in enumerate("abcde")
]
TWO = [{"group_id": group, "at": "2025-01-01", "name": group} for group in ("g", "h")]
Rows = list[dict[str, Any]]


def _answer(text: str) -> dict[str, Any]:
    """A code for every row, yes to every question; nothing of use about what is bad."""
    if "bad" in text:
        return {}
    return {"code": "same"} if text.startswith("Code") else {"answer": "yes"}


class Bench:
    """Runs plans over the graph of `fixtures/optimizer/fill.yaml`: people of the groups g and h."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "graph.yaml").write_text(
            (FIXTURES / "graph.yaml").read_text(encoding="utf-8"), encoding="utf-8"
        )
        self.oracle = Oracle(Mind(answer=_answer))
        self.session = semgraph.Session(
            llm=self.oracle, store="memory", journal=False, runs="", folder=folder
        )

    async def run(
        self, body: str, rows: Rows, window: Any = 1, ahead: int = 64, more: str = ""
    ) -> Any:
        path = self.folder / "confined.yaml"
        path.write_text(HEAD.format(window=window, ahead=ahead, more=more) + body, encoding="utf-8")
        return await self.session.arun(path, asked=rows)

    async def rows(self, body: str, rows: Rows, **options: Any) -> Rows:
        result = await self.run(body, rows, **options)
        found: Rows = result.tables["found"].to_pylist()
        return found


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """A bench with a full store."""
    made = Bench(tmp_path)
    await made.session.arun(FIXTURES / "fill.yaml")
    yield made
    await made.session.aclose()


ROWS_OF_A_WINDOW = {
    "aggregate": "[{from: asked}, {aggregate: {by: [group_id], add: {n: count(*)}}}]",
    "limit": "[{from: asked}, {limit: {n: 1}}, {project: [name]}]",
    "distinct": "[{from: asked}, {distinct: [group_id]}, {project: [name]}]",
    "window function": "[{from: asked}, {project: {name, n: count(*) OVER ()}}]",
    "join": "[{from: asked}, {join: {other: {from: asked}, alias: o, using: group_id}}, {project: {name, other: o.name}}]",
}


@pytest.mark.parametrize("window", [1, 2])
@pytest.mark.parametrize("what", ROWS_OF_A_WINDOW)
async def test_what_runs_ahead_sees_its_own_window(bench: Bench, what: str, window: int) -> None:
    body = (
        f"steps:\n  other: [{{from: asked}}]\n  found: {ROWS_OF_A_WINDOW[what]}\nreturns: [found]\n"
    )
    body = body.replace("{other: {from: asked}", "{other: other")
    alone = await bench.rows(body, FIVE, window=window, ahead=1)
    assert await bench.rows(body, FIVE, window=window, ahead=64) == alone
    assert len(alone) == (
        5 if window == 1 or what == "window function" else 9 if what == "join" else 3
    )


async def test_a_search_over_what_the_model_said_finds_all_of_earlier_windows(bench: Bench) -> None:
    body = """steps:
  said:
    - from: asked
    - sem_map: {prompt: "Code: {name}", returns: {code: string}}
    - project: {uuid, group_id, turn, name: code}
  found:
    - from: said
    - search: {over: [Person, said], alias: p, k: 50, methods: [{equal: name}], where: "coalesce(p.turn < turn, TRUE)"}
    - aggregate: {by: [turn], add: {n: count(*)}}
returns: [found]
writes: [{merge: {from: said, node: Person}}]
"""
    rows = [{"group_id": "g", "at": f"2025-02-{i + 1:02}", "name": f"n{i}"} for i in range(12)]
    assert [(r["turn"], r["n"]) for r in await bench.rows(body, rows)] == [
        (n, n) for n in range(1, 12)
    ]


@pytest.mark.parametrize("ahead", [1, 64])
async def test_rows_of_a_label_are_those_of_the_row_s_own_group(bench: Bench, ahead: int) -> None:
    body = """steps:
  people: [{from: Person}]
  found:
    - from: asked
    - join: {other: people, alias: p, where: "TRUE"}
    - project: {mine: group_id, theirs: p.group_id}
returns: [found]
"""
    rows = [*TWO, *({**row, "at": "2025-01-02"} for row in TWO)]
    found = await bench.rows(body, rows, ahead=ahead)
    assert {r["mine"] for r in found} == {"g", "h"}
    assert all(r["mine"] == r["theirs"] for r in found)
    assert len(found) % 2 == 0, "both windows of a group see the same people"


async def test_no_question_holds_rows_of_two_groups(bench: Bench) -> None:
    body = """steps:
  people: [{from: Person}]
  found:
    - from: asked
    - sem_join: {prompt: "Is {name} the same as {p.name}?", other: people, alias: p}
returns: [found]
"""
    await bench.run(body, TWO)
    asked = [(request.partition, request.messages[-1].content) for request in bench.oracle.requests]
    assert {partition for partition, _ in asked} == {"g", "h"}
    assert not {text for partition, text in asked if partition == "g"} & {
        text for p, text in asked if p == "h"
    }


@pytest.mark.parametrize(
    "found",
    [
        "[{union: [[{from: asked}, {project: [name]}], [{from: all}, {project: [name]}]]}]",
        "[{from: all}, {join: {other: asked, alias: a, using: name, how: left}}, {project: [name]}]",
        "[{from: all}, {join: {other: asked, alias: a, using: name, how: anti}}, {project: [name]}]",
    ],
    ids=["union", "left join", "anti join"],
)
async def test_rows_of_no_window_beside_rows_of_windows_are_refused(
    bench: Bench, found: str
) -> None:
    body = f"steps:\n  all: [{{from: {{label: Person, partition: all}}}}]\n  found: {found}\nreturns: [found]\n"
    with pytest.raises(PlanError, match=r"step found: .*rows of no window beside rows of windows"):
        await bench.run(body, TWO)


async def test_a_result_that_derives_from_no_row_is_given_once(bench: Bench) -> None:
    body = "steps:\n  found: [{from: {label: Person, partition: all}}, {project: [name]}]\nreturns: [found]\n"
    once = await bench.rows(body, FIVE[:1])
    assert len(once) > 1
    assert await bench.rows(body, FIVE) == once


async def test_a_plan_that_only_reads_has_no_marks_and_can_be_run_again(bench: Bench) -> None:
    body = "steps:\n  people: [{from: Person}]\n  found: [{from: asked}, {join: {other: people, alias: p, where: 'TRUE'}}]\nreturns: [found]\n"
    first, again = await bench.run(body, TWO), await bench.run(body, TWO)
    assert first.tables == again.tables
    assert (first.notes, again.notes, again.skipped) == ((), (), 0)


async def test_nothing_more_is_asked_for_a_group_that_was_stopped(bench: Bench) -> None:
    body = """steps:
  found: [{from: asked}, {sem_filter: {prompt: "Is {name} well?"}}]
returns: [found]
writes: [{merge: {from: found, node: Note, key: uuid, create: {text: name}}}]
"""
    rows = [
        {"group_id": "g", "at": f"2025-01-01T00:{i:02}:00Z", "name": "bad" if i == 0 else f"n{i}"}
        for i in range(60)
    ]
    result = await bench.run(body, rows, more=", on_error: stop")
    assert result.committed == 0
    assert len(bench.oracle.requests) < 20


async def test_of_rows_that_disagree_the_first_is_written(bench: Bench) -> None:
    body = """steps:
  found: [{from: asked}, {project: {uuid: "concat('x', group_id)", group_id, text: name}}]
returns: [found]
writes: [{merge: {from: found, node: Note, create: {text}}}]
"""
    rows = [*TWO, {"group_id": "g", "at": "2025-01-02", "name": "another"}]
    result = await bench.run(body, rows, window="all")
    assert (result.committed, result.exit_code, result.notes) == (2, 3, ())
    (failure,) = result.failed
    assert "two rows with uuid" in failure.error
    assert failure.input_row == 2


@pytest.mark.parametrize("ordered", [False, True])
async def test_a_row_that_a_step_cannot_compute_with_is_set_aside_and_no_other(
    bench: Bench, ordered: bool
) -> None:
    """The step reads what the plan writes, or nothing that it writes: in the ordered part, or
    ahead.
    """
    people = (
        "[{from: Person}, {filter: name = 'nobody'}]"
        if ordered
        else "[{from: asked}, {filter: name = 'nobody'}]"
    )
    body = f"""steps:
  people: {people}
  found:
    - from: asked
    - join: {{other: people, alias: p, using: name, how: left}}
    - project: {{uuid, group_id, text: "cast(cast(name AS BIGINT) AS VARCHAR)"}}
returns: [found]
writes: [{{merge: {{from: found, node: Note, create: {{text}}}}}}, {{merge: {{from: found, node: Person}}}}]
"""
    rows = [
        {"group_id": g, "at": f"2025-01-0{n}", "name": name}
        for g, n, name in [("g", 1, "1"), ("h", 1, "x"), ("g", 2, "2"), ("h", 2, "3")]
    ]
    result = await bench.run(body, rows)
    assert result.tables["found"].column("text").to_pylist() == ["1", "2", "3"]
    assert (result.committed, result.exit_code, result.notes) == (3, 3, ())
    assert [(f.input_row, f.step) for f in result.failed] == [(1, "found")]
    assert "Could not convert string 'x' to INT64" in result.failed[0].error


@pytest.mark.parametrize("lost", range(3))
async def test_a_window_that_loses_a_member_sees_its_group_s_rows_all_the_same(
    bench: Bench, lost: int
) -> None:
    body = """steps:
  people: [{from: Person}]
  asking: [{from: asked}, {sem_filter: {prompt: "Is {name} well?"}}]
  found:
    - from: asking
    - join: {other: people, alias: p, where: "TRUE"}
    - project: {uuid: "id(uuid, p.uuid)", group_id, text: p.name}
  named: [{from: asked}, {project: {uuid, group_id, name}}]
returns: [found]
writes: [{merge: {from: found, node: Note, create: {text}}}, {merge: {from: named, node: Person}}]
"""
    names = ["x", "y"]
    names.insert(lost, "bad")
    rows = [
        {"group_id": "g", "at": f"2025-01-0{n + 1}", "name": name} for n, name in enumerate(names)
    ]
    result = await bench.run(body, rows, window=3)
    assert (result.committed, len(result.failed)) == (2, 1)
    found = result.tables["found"].to_pylist()
    assert len(found) == 2 * len({row["text"] for row in found}) > 0


@pytest.mark.parametrize("how", ["tree", "prompts"])
def test_what_will_be_asked_of_several_groups_is_explained(tmp_path: Path, how: Any) -> None:
    (tmp_path / "graph.yaml").write_text(
        (FIXTURES / "graph.yaml").read_text(encoding="utf-8"), encoding="utf-8"
    )
    path = tmp_path / "confined.yaml"
    body = "steps:\n  found: [{from: asked}, {sem_filter: {prompt: 'Is {name} well?'}}]\nreturns: [found]\n"
    path.write_text(HEAD.format(window=1, ahead=64, more="") + body, encoding="utf-8")
    rows = [
        {"group_id": g, "at": "2025-01-01", "name": f"{g}{n}"}
        for n, g in enumerate(["g", "g", "h", "i"])
    ]
    with semgraph.Session(
        llm=Oracle(Mind()), store="memory", journal=False, runs="", folder=tmp_path
    ) as session:
        shown = session.explain(path, format=how, asked=rows)
    assert "found" in shown
    assert how != "prompts" or "g0" in shown


@pytest.mark.parametrize("ordered", [False, True], ids=["ahead", "in the ordered part"])
async def test_without_a_journal_a_window_that_is_run_again_asks_nothing_twice(
    bench: Bench, ordered: bool
) -> None:
    """A row that fails, and one that the store refuses, cost no other row a second question."""
    people = "  people: [{from: Person}]\n" if ordered else "  people: [{from: asked}]\n"
    body = f"""steps:
{people}  found:
    - from: asked
    - join: {{other: people, alias: p, where: "p.name = 'nobody'", how: left}}
    - sem_map: {{prompt: "Code: {{name}}", returns: {{code: string}}}}
    - project: {{uuid: "if(name = 'n3', NULL, uuid)", group_id, name, text: code}}
returns: [found]
writes: [{{merge: {{from: found, node: Note, create: {{text}}}}}}, {{merge: {{from: found, node: Person}}}}]
"""
    names = ["n0", "bad", "n2", "n3", *(f"n{i}" for i in range(4, 12))]
    rows = [
        {"group_id": "gh"[i % 2], "at": f"2025-01-{i + 1:02}", "name": name}
        for i, name in enumerate(names)
    ]
    result = await bench.run(body, rows, window=6)
    assert sorted(names[f.input_row] for f in result.failed) == ["bad", "n3", "n3"]
    assert (result.committed, result.exit_code) == (10, 3)
    asked = [request.messages[-1].content for request in bench.oracle.requests]
    answered = [text for text in asked if "bad" not in text]
    assert sorted(answered) == sorted(set(answered))
    assert result.meter.steps["found"].rows_out == 11
    assert result.meter.steps["found"].rows_in == 12


async def test_a_row_made_of_several_members_is_made_again_without_one_that_failed(
    bench: Bench,
) -> None:
    body = """steps:
  coded:
    - from: asked
    - sem_map: {prompt: "Code: {name}", returns: {code: string}}
  found:
    - from: asked
    - aggregate: {by: [group_id], add: {names: "string_agg(name, ' ' ORDER BY name)"}}
    - project: {uuid: "id(group_id)", group_id, text: names}
returns: [found]
writes: [{merge: {from: found, node: Note, create: {text}}}, {merge: {from: coded, node: Person}}]
"""
    rows = [
        {"group_id": "g", "at": f"2025-01-0{i + 1}", "name": n}
        for i, n in enumerate(["bad", "n1", "bad 2", "n3"])
    ]
    result = await bench.run(body, rows, window="all")
    assert result.tables["found"].column("text").to_pylist() == ["n1 n3"]
    assert result.committed == 2
