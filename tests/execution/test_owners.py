"""No prompt shows rows of two partitions, and each request and vector is kept under the partition
of its rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

import semgraph
from semgraph.conformance.cases import Grams, Mind, Oracle
from semgraph.errors import PlanError, RowError
from semgraph.llm.base import Request

GROUPS = ("g", "h", "i")
NOTES = [
    {"uuid": f"n{i}{g}", "group_id": g, "at": "2025-01-01", "text": f"note of {g} {i}"}
    for g in GROUPS
    for i in (0, 1)
]
FACTS = [{"group_id": g, "fact": f"secret of {g} {i}"} for g in GROUPS for i in (0, 1)]
COMMON = [{"fact": "known to all 0"}, {"fact": "known to all 1"}]
HEAD = """plan: owners
inputs:
  notes: {{uuid: string, group_id: string, at: timestamp, text: string}}
  facts: {{{facts}fact: string}}
{windows}
"""
WINDOWS = "windows: {input: notes, partition: group_id, order: [at], key: uuid}"


class Bench:
    """Runs plans over notes and facts of three groups, and looks at what was asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        match = lambda left, right: {"match": True} if right or left else None  # noqa: E731
        answer = lambda text: {"code": text[:5]} if text.startswith("Code") else {"answer": "yes"}  # noqa: E731
        combine = lambda texts, _parts: {"code": str(len(texts))}  # noqa: E731
        self.oracle = Oracle(Mind(answer=answer, match=match, combine=combine))
        self.journal = folder / "journal.db"
        self.session = semgraph.Session(
            llm=self.oracle,
            embedder=Grams(),
            store="memory",
            journal=self.journal,
            runs="",
            folder=folder,
        )

    async def run(
        self, steps: str, *, windows: bool = True, owned: bool = True, **options: Any
    ) -> Any:
        """Run the steps; `owned` says whether facts name their group."""
        path = self.folder / "owners.yaml"
        head = HEAD.format(
            facts="group_id: string, " if owned else "", windows=WINDOWS if windows else ""
        )
        path.write_text(f"{head}steps:\n{steps}\nreturns: [found]\n", encoding="utf-8")
        return await self.session.arun(
            path, notes=NOTES, facts=FACTS if owned else COMMON, **options
        )

    def kept_under(self, table: str) -> set[str]:
        """The partitions under which the journal keeps answers, or vectors."""
        with closing(sqlite3.connect(self.journal)) as file:
            return {
                partition
                for (partition,) in file.execute(f"SELECT DISTINCT partition FROM {table}")
            }


def shown(request: Request) -> set[str]:
    """The groups of which a request shows text."""
    text = "\n".join(message.content for message in request.messages)
    return {g for g in GROUPS if f"of {g} " in text}


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(tmp_path)
    yield made
    await made.session.aclose()


def assert_apart(bench: Bench, groups: tuple[str, ...] = GROUPS) -> None:
    """Each request shows rows of one group and is of that group's partition; every group was asked
    about.
    """
    assert bench.oracle.requests
    for request in bench.oracle.requests:
        assert shown(request) <= {request.partition}, request.messages[-1].content
    assert {request.partition for request in bench.oracle.requests} == set(groups)
    assert bench.kept_under("answers") == set(groups)


JOIN = """  found:
    - from: {left}
    - sem_join: {{prompt: "Does {{text}} say {{f.fact}}?", other: {right}, alias: f}}
"""


@pytest.mark.parametrize("windows", [True, False])
@pytest.mark.parametrize(
    "way", ["nested_loop", "block", "block(left=1)", "cascade(jaccard=null, reject=-1)"]
)
async def test_a_sem_join_compares_rows_of_one_partition_only(
    bench: Bench, way: str, windows: bool
) -> None:
    result = await bench.run(
        JOIN.format(left="notes", right="facts"), windows=windows, use={"found": way}
    )
    assert_apart(bench)
    rows = result.tables["found"].to_pylist()
    assert len(rows) == 12
    assert all(row["group_id"] == row["f"]["group_id"] for row in rows)


@pytest.mark.parametrize("windows", [True, False])
async def test_rows_that_name_no_partition_are_compared_with_those_of_each(
    bench: Bench, windows: bool
) -> None:
    result = await bench.run(
        JOIN.format(left="notes", right="facts"),
        owned=False,
        windows=windows,
        use={"found": "block"},
    )
    assert_apart(bench)
    assert result.tables["found"].num_rows == 12
    asked = {request.partition: request.messages[-1].content for request in bench.oracle.requests}
    assert all("known to all" in text for text in asked.values())


@pytest.mark.parametrize("way", ["nested_loop", "block", "cascade(jaccard=null, reject=-1)"])
async def test_a_question_about_rows_of_partitions_is_asked_for_each_partition(
    bench: Bench, way: str
) -> None:
    """The left rows name no partition, the right ones do: each request is kept under that of its
    right rows.
    """
    steps = "  plain: [{from: notes}, {project: [text]}]\n" + JOIN.format(
        left="plain", right="facts"
    )
    steps = steps.replace(
        "project: [text]", "project: {text: \"concat('a note ', right(text, 1))\"}"
    )
    result = await bench.run(steps, windows=False, use={"found": way})
    assert_apart(bench)
    assert result.tables["found"].num_rows == len(NOTES) * len(FACTS)


@pytest.mark.parametrize("rewrite", ["", "allow: [join_to_classify]\n"])
async def test_a_join_asked_as_a_list_stays_within_a_partition(bench: Bench, rewrite: str) -> None:
    steps = JOIN.format(left="plain", right="facts") + rewrite
    steps = (
        "  plain: [{from: notes}, {project: {text: \"'a note'\"}}, {distinct: [text]}]\n" + steps
    )
    await bench.run(steps, windows=False)
    assert_apart(bench)


@pytest.mark.parametrize("way", ["packed", "per_row", "reflexion", "vote"])
async def test_rows_packed_into_a_prompt_are_of_one_partition_though_no_step_reads_it(
    bench: Bench, way: str
) -> None:
    steps = '  found:\n    - from: notes\n    - sem_map: {prompt: "Code {text}", returns: {code: string}}\n    - project: [code]\n'
    await bench.run(steps, windows=False, use={"found": way})
    assert_apart(bench)


@pytest.mark.parametrize("way", ["packed", "pointwise", "listwise", "tournament"])
async def test_rows_that_are_ranked_together_are_of_one_partition(bench: Bench, way: str) -> None:
    steps = '  found:\n    - from: notes\n    - sem_topk: {prompt: "Best: {text}", k: 1, by: group_id}\n    - project: [text]\n'
    await bench.run(steps, windows=False, use={"found": way})
    assert_apart(bench)


@pytest.mark.parametrize("way", ["single", "tree", "fold"])
async def test_a_group_of_several_partitions_is_an_error_and_is_not_asked_about(
    bench: Bench, way: str
) -> None:
    steps = (
        '  found: [{from: notes}, {sem_agg: {returns: {code: string}, prompt: "All: {text}"}}]\n'
    )
    result = await bench.run(steps, windows=False, use={"found": way})
    assert not bench.oracle.requests
    assert [failure.error.split(":")[0] for failure in result.failed] == ["mixed"]


@pytest.mark.parametrize("way", ["packed", "pointwise", "listwise", "tournament"])
async def test_a_ranking_over_all_rows_shows_rows_of_one_partition_in_each_prompt(
    bench: Bench, way: str
) -> None:
    steps = '  found: [{from: notes}, {sem_topk: {k: 1, prompt: "All: {text}"}}]\n'
    with suppress(RowError):  # an implementation may refuse rows of several partitions
        await bench.run(steps, windows=False, use={"found": way})
    for request in bench.oracle.requests:
        assert shown(request) <= {request.partition}


LEAKS = {
    "join": "    - join: {other: facts, alias: f, where: 'TRUE'}\n    - sem_map: {prompt: 'Code {f.fact}', returns: {code: string}}\n",
    "join and project": "    - join: {other: facts, alias: f, where: length(f.fact) > 1}\n    - project: {uuid, group_id, told: f.fact}\n"
    "    - sem_filter: {prompt: 'Is {told} so?'}\n",
    "group_join": "    - group_join: {other: facts, alias: f, where: 'TRUE', add: {all: list(f.fact)}}\n"
    "    - sem_map: {prompt: 'Code {all}', returns: {code: string}}\n",
    "unnest": "    - group_join: {other: facts, alias: f, where: 'TRUE', add: {all: list(f.fact)}}\n"
    "    - unnest: {column: all, alias: each}\n    - sem_filter: {prompt: 'Is {each} so?'}\n",
    "sem_join": "    - join: {other: facts, alias: f, where: 'TRUE'}\n"
    "    - sem_join: {prompt: 'Is {f.fact} like {m.text}?', other: notes, alias: m}\n",
}


@pytest.mark.parametrize("windows", [True, False])
@pytest.mark.parametrize("what", LEAKS)
async def test_a_prompt_that_may_show_text_of_another_partition_is_refused(
    bench: Bench, what: str, windows: bool
) -> None:
    with pytest.raises(
        PlanError, match=r"may be of another partition than its row.* using: group_id"
    ) as caught:
        await bench.run(f"  found:\n    - from: notes\n{LEAKS[what]}", windows=windows)
    assert caught.value.problems[0].position is not None
    assert not bench.oracle.requests


async def test_equal_lengths_of_partitions_are_not_equal_partitions(bench: Bench) -> None:
    join = "    - join: {other: facts, alias: f, where: length(f.group_id) = length(group_id)}\n"
    with pytest.raises(PlanError, match="may be of another partition"):
        await bench.run(
            f"  found:\n    - from: notes\n{join}    - sem_filter: {{prompt: 'Is {{f.fact}} so?'}}\n"
        )


async def test_window_functions_over_rows_of_several_partitions_are_refused_in_a_prompt(
    bench: Bench,
) -> None:
    steps = "  found:\n    - from: notes\n    - add: {before: 'lag(text) OVER (ORDER BY uuid)'}\n    - sem_filter: {prompt: 'Is {before} so?'}\n"
    with pytest.raises(PlanError, match="may be of another partition"):
        await bench.run(steps, windows=False)
    await bench.run(steps.replace("(ORDER", "(PARTITION BY group_id ORDER"), windows=False)
    await bench.run(steps)  # windows see their own rows only


@pytest.mark.parametrize("windows", [True, False])
@pytest.mark.parametrize(
    "by",
    ["", "by: {length: length(group_id)}, ", "by: {last: 'right(fact, 1)'}, "],
    ids=["all", "length", "text"],
)
async def test_text_that_an_aggregate_collects_from_several_partitions_is_refused_in_a_prompt(
    bench: Bench, by: str, windows: bool
) -> None:
    """Without windows, what a plan groups by is taken for a key, which differs between
    partitions.
    """
    collected = (
        "  made:\n    - from: facts\n    - aggregate: {BY add: {all: list(fact), n: count(*)}}\n"
    )
    joined = "  found:\n    - from: notes\n    - join: {other: made, alias: m, where: 'm.n > 0'}\n"
    asked = "    - sem_map: {prompt: 'Code {told}', returns: {code: string}}\n"
    if windows or not by:
        with pytest.raises(
            PlanError, match=r"may be of another partition than its row.* by: \[group_id\]"
        ):
            await bench.run(
                f"{collected.replace('BY', by)}{joined}    - add: {{told: m.all}}\n{asked}",
                windows=windows,
            )
        assert not bench.oracle.requests
    kept = collected.replace("BY", "by: [group_id],")
    joined = joined.replace("where: 'm.n > 0'", "using: group_id")
    await bench.run(f"{kept}{joined}    - add: {{told: m.all}}\n{asked}", windows=windows)
    assert_apart(bench)


@pytest.mark.parametrize("windows", [True, False])
@pytest.mark.parametrize(
    "join",
    [
        "join: {other: facts, alias: f, using: group_id}",
        "join: {other: facts, alias: f, where: f.group_id = group_id AND length(f.fact) > 1}",
        "join: {other: facts, alias: f, where: (group_id = f.group_id OR f.group_id IS NULL)}",
    ],
)
async def test_a_join_by_the_partition_may_be_shown(bench: Bench, join: str, windows: bool) -> None:
    steps = f"  found:\n    - from: notes\n    - {join}\n    - sem_map: {{prompt: 'Code {{f.fact}} {{text}}', returns: {{code: string}}}}\n"
    await bench.run(steps, windows=windows)
    assert_apart(bench)


@pytest.mark.parametrize(
    "asked",
    [
        "sem_filter: {prompt: 'Is {f.fact} so?'}",
        "sem_join: {prompt: 'Is {f.fact} like {g.fact}?', other: facts, alias: g}",
    ],
)
async def test_rows_that_name_their_partition_in_a_struct_alone_are_refused_in_a_prompt(
    bench: Bench, asked: str
) -> None:
    """Else rows of several partitions would share a request."""
    steps = (
        "  found:\n    - from: notes\n    - join: {other: facts, alias: f, using: group_id}\n"
        f"    - project: {{uuid, f}}\n    - {asked}\n"
    )
    with pytest.raises(PlanError, match=r"no column group_id.* Project group_id: f\.group_id"):
        await bench.run(steps, windows=False)
    assert not bench.oracle.requests
    await bench.run(steps.replace("{uuid, f}", "{uuid, f, group_id: f.group_id}"), windows=False)
    assert_apart(bench)


async def test_rows_that_belong_to_everybody_may_be_shown_to_everybody(bench: Bench) -> None:
    """Who leaves the partition column out says so."""
    steps = "  common: [{from: facts}, {project: [fact]}]\n  found:\n    - from: notes\n    - join: {other: common, alias: f, where: 'TRUE'}\n"
    await bench.run(steps + "    - sem_filter: {prompt: 'Does {text} say {f.fact}?'}\n")
    assert {request.partition for request in bench.oracle.requests} == set(GROUPS)


async def test_vectors_are_kept_under_the_partition_of_their_text_though_no_step_reads_it(
    bench: Bench,
) -> None:
    steps = "  found:\n    - from: notes\n    - project: [text]\n    - embed: {vector: text}\n"
    await bench.run(steps)
    assert bench.kept_under("vectors") == set(GROUPS)
    bench.session.forget(GROUPS)
    await bench.run(
        steps.replace("    - project: [text]\n", "") + "    - project: [text, vector]\n",
        windows=False,
    )
    assert bench.kept_under("vectors") == set(GROUPS)


@pytest.mark.parametrize("windows", [True, False])
async def test_a_search_over_a_step_finds_rows_of_its_own_partition(
    bench: Bench, windows: bool
) -> None:
    steps = (
        "  rows: [{from: facts}, {project: {uuid: id(fact), group_id, fact}}]\n"
        "  found:\n    - from: notes\n    - search: {over: rows, key: uuid, alias: hit, k: 9, methods: [{nearest: fact, to: text}]}\n"
        "    - sem_filter: {prompt: 'Does {text} say {hit.fact}?'}\n"
    )
    result = await bench.run(steps, windows=windows)
    assert_apart(bench)
    assert all(
        row["hit"]["group_id"] == row["group_id"] for row in result.tables["found"].to_pylist()
    )
    assert result.tables["found"].num_rows == 12
