"""EXPLAIN of every operator, in every way that it can be answered: a bound before the first run,
then what a run is charged.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import semgraph
from semgraph.conformance.cases import LIBRARY, Grams, Mind, Oracle, usable
from semgraph.logical.plan import Choice
from semgraph.meter import StepMetrics
from semgraph.semantic.contract import OPERATORS
from tests.optimizer.bench import answered, drawn, matched

ASKS = {
    "sem_map": 'sem_map: {prompt: "Code: {text}", returns: {code: string}}',
    "sem_filter": 'sem_filter: {prompt: "Is {text} nice?"}',
    "sem_join": 'sem_join: {prompt: "Is {n.name} in {text}?", other: names, alias: n}',
    "sem_agg": 'sem_agg: {prompt: "{text}", by: [kind], returns: {words: "list<string>"}}',
    "sem_topk": 'sem_topk: {prompt: "How loud is {text}?", k: 2BY}',
}
WAYS = [
    *((operator, one.name) for operator in OPERATORS for one in LIBRARY.list(operator)),
    ("sem_map", "packed(rows=3)"), ("sem_map", "reflexion(rounds=2)"), ("sem_filter", "packed(rows=4)"),
    ("sem_join", "block(left=2, right=2)"), ("sem_agg", "tree(fan_in=2)"), ("sem_agg", "fold(rows=2)"),
    ("sem_topk", "listwise(window=8)"), ("sem_topk", "quickselect(batch=3)"),
]  # fmt: skip
HERE = [(op, way) for op, way in WAYS if usable(op, LIBRARY.get(op, Choice.parse(way))) is None]
BY = ", by: [kind]"
GROUPED = [(op, way, BY) for op, way in HERE if op == "sem_topk"]
KINDS = ("a", "ab", "aab", "abcdefg")  # of the rows in turn: groups of these sizes
ALONE = [(op, way, "") for op, way in HERE]
NOTES = [
    {"id": i, "kind": "ab"[i % 2], "text": f"text {i} of {'many' if i % 3 else 'few'} words"}
    for i in range(30)
]
NAMES = [{"name": f"text {7 * i + 1} of many words"} for i in range(4)]


def combined(texts: list[str], earlier: list[dict[str, Any]]) -> dict[str, Any]:
    return {"words": sorted({*texts, *(word for part in earlier for word in part["words"])})[:3]}


MIND = Mind(answer=answered, match=matched, combine=combined, score=lambda text: drawn(text) % 101)


def plan(folder: Path, operator: str, way: str, per: str = "") -> Path:
    path = folder / "asking.yaml"
    path.write_text(
        "plan: asking\ninputs: {notes: {id: int64, kind: string, text: string}, names: {name: string}}\n"
        f"steps:\n  asked: [{{from: notes}}, {{{ASKS[operator].replace('BY', per)}}}]\n"
        f"returns: [asked]\nuse: {{asked: '{way}'}}\n",
        encoding="utf-8",
    )
    return path


async def explained(session: semgraph.Session, path: Path, **inputs: Any) -> Mapping[str, Any]:
    text = await asyncio.to_thread(lambda: session.explain(path, format="json", inputs=inputs))
    found: Mapping[str, Any] = json.loads(text)["estimate"]
    return found


def session(folder: Path, model: str = "oracle") -> semgraph.Session:
    return semgraph.Session(
        llm=Oracle(MIND, name=model), embedder=Grams(), store="memory", runs="", folder=folder
    )


def near(total: Mapping[str, Any], did: StepMetrics) -> None:
    assert total["calls"]["value"] == pytest.approx(did.calls_issued, rel=0.2)
    assert total["tokens_in"]["value"] == pytest.approx(did.tokens_in, rel=0.2)
    assert total["tokens_out"]["value"] == pytest.approx(did.tokens_out, rel=0.2)


@pytest.mark.parametrize(("operator", "way", "per"), [*ALONE, *GROUPED])
async def test_it_is_within_a_fifth_of_what_the_run_took(
    tmp_path: Path, operator: str, way: str, per: str
) -> None:
    path = plan(tmp_path, operator, way, per)
    async with session(tmp_path) as made:
        did = (await made.arun(path, notes=NOTES, names=NAMES)).meter.total()
        near(await explained(made, path, notes=NOTES, names=NAMES), did)
        await made.arun(path, notes=NOTES, names=NAMES)  # from the journal
        near(await explained(made, path, notes=NOTES, names=NAMES), did)
    assert did.calls_issued or way == "cross_encoder"


async def test_what_one_model_took_says_nothing_about_another(tmp_path: Path) -> None:
    path = plan(tmp_path, "sem_map", "per_row")
    async with session(tmp_path, "small") as small, session(tmp_path, "large") as large:
        before = await explained(large, path, notes=NOTES, names=NAMES)
        await small.arun(path, notes=NOTES, names=NAMES)
        assert await explained(large, path, notes=NOTES, names=NAMES) == before
        assert (await explained(small, path, notes=NOTES, names=NAMES)) != before


@pytest.mark.parametrize(
    ("operator", "way", "per", "kinds"),
    [
        *((*asked, "ab") for asked in ALONE if asked[0] == "sem_topk"),
        *((*asked, kinds) for asked in GROUPED for kinds in KINDS),
        *((*asked, kinds) for asked in ALONE for kinds in KINDS if asked[0] == "sem_agg"),
    ],
)
async def test_before_the_first_run_a_bound_is_one(
    tmp_path: Path, operator: str, way: str, per: str, kinds: str
) -> None:
    path = plan(tmp_path, operator, way, per)
    notes = [{**note, "kind": kinds[i % len(kinds)]} for i, note in enumerate(NOTES)]
    async with session(tmp_path) as made:
        calls = (await explained(made, path, notes=notes, names=NAMES))["calls"]
        did = (await made.arun(path, notes=notes, names=NAMES)).meter.total().calls_issued
    assert calls["known"] == ("seen" if way.startswith("quickselect") else "most")
    if calls["known"] == "most":
        assert did <= calls["value"]
    if not (per or operator == "sem_agg"):
        assert calls["value"] == pytest.approx(did, rel=1)


async def test_of_groups_that_are_not_known_each_size_is_thought_of(tmp_path: Path) -> None:
    async with session(tmp_path) as made:
        for way, most in [("tournament", 48), ("listwise(window=8)", 15), ("packed(rows=7)", 5)]:
            path = plan(tmp_path, "sem_topk", way, BY)
            assert (await explained(made, path, notes=NOTES, names=NAMES))["calls"]["value"] == most


def repeating(folder: Path, size: int) -> Path:
    """A plan that asks twice about each of its rows, and writes them window by window."""
    path = folder / "repeating.yaml"
    path.write_text(
        "plan: repeating\ngraph: graph.yaml\n"
        "inputs: {notes: {uuid: string, group_id: string, text: string}}\n"
        f"windows: {{input: notes, key: uuid, order: [uuid], size: {size}}}\n"
        'steps:\n  coded: [{from: notes}, {sem_map: {prompt: "Code: {text}", returns: {code: string}}}]\n'
        '  twice: [{from: notes}, {sem_map: {prompt: "Code: {text}", returns: {code: string}}}]\n'
        "writes: [{merge: {from: coded, node: Note}}]\nreturns: [coded, twice]\n",
        encoding="utf-8",
    )
    (folder / "graph.yaml").write_text(
        "graph: g\nkey: uuid\npartition: group_id\nnodes: {Note: {properties: {text: string, code: string}}}\n",
        encoding="utf-8",
    )
    return path


def notes(name: str, count: int = 12) -> list[dict[str, str]]:
    return [
        {"uuid": f"{name}{i:02}", "group_id": "g", "text": f"text {i % 3}"} for i in range(count)
    ]


@pytest.mark.parametrize("size", [1, 4])
async def test_questions_that_repeat_are_charged_once(tmp_path: Path, size: int) -> None:
    path = repeating(tmp_path, size)
    async with session(tmp_path) as made:
        did = (await made.arun(path, notes=notes("n"))).meter.total()
        assert did.calls_issued == 3
        assert did.calls_journal + did.calls_coalesced or size == 4
        near(await explained(made, path, notes=notes("m")), did)
        await made.arun(path, notes=notes("n"), again=True)
        near(await explained(made, path, notes=notes("m")), did)


async def test_rows_that_are_in_the_graph_already_are_not_estimated(tmp_path: Path) -> None:
    """A run skips them; beside what a run did, all rows are estimated."""
    path = repeating(tmp_path, 4)

    def said(made: semgraph.Session, rows: list[dict[str, str]], **more: Any) -> str:
        return str(made.explain(path, inputs={"notes": rows}, **more))

    with session(tmp_path) as made:
        whole = said(made, notes("n"))
        result = made.run(path, notes=notes("n"))
        assert "in the graph already" not in whole
        assert "in the graph already" not in said(made, notes("m"))
        line = "in the graph already: 12 of 18 rows of notes; a run skips them, and so do the estimates"
        assert said(made, notes("n", 18)).splitlines()[-1] == line
        data = json.loads(said(made, notes("n", 18), format="json"))
        assert data["skipped"] == line
        assert data["estimate"]["items"] == {"value": 6.0, "known": "seen"}
        again = json.loads(said(made, notes("n"), format="json"))
        assert again["estimate"]["calls"]["value"] == 0
        assert made.run(path, notes=notes("n")).meter.total().calls_issued == 0
    with semgraph.Session(
        llm=Oracle(MIND), embedder=Grams(), store=f"sqlite:{tmp_path}/g.db", folder=tmp_path
    ) as kept:
        kept.run(path, notes=notes("n"))
        assert "in the graph already" in said(kept, notes("n"))
        beside = said(kept, notes("n"), run="last")
        assert "in the graph already" not in beside
        assert "estimated: ≈ 3 calls" in beside
    assert result.meter.total().calls_issued == 3


def test_a_store_that_does_not_answer_leaves_the_estimate_of_all_rows_with_a_note(
    tmp_path: Path,
) -> None:
    path = repeating(tmp_path, 4)
    with semgraph.Session(
        llm=Oracle(MIND), embedder=Grams(), store="neo4j://127.0.0.1:9", folder=tmp_path
    ) as made:
        lines = made.explain(path, inputs={"notes": notes("n")}).splitlines()
    assert lines[-1].startswith(
        "! not known: which rows are in the graph already. neo4j://127.0.0.1:9  no answer"
    )
    assert [line for line in lines if line.startswith("estimated: ≤ ")]


async def test_calls_that_differ_from_row_to_row_are_estimated_with_a_range(tmp_path: Path) -> None:
    """Of eight rows two were asked about; of a hundred, 25 are likely, and half of that or more is in doubt."""
    path = tmp_path / "gated.yaml"
    path.write_text(
        "plan: gated\ninputs: {notes: {id: int64, kind: string, text: string}}\nsteps:\n"
        '  each: [{from: notes}, {sem_map: {prompt: "Code: {text}", returns: {code: string}}}]\n'
        '  some: [{from: notes}, {sem_map: {prompt: "Mark: {text}", returns: {mark: string}, '
        "when: \"kind = 'a'\"}}]\nreturns: [each, some]\n",
        encoding="utf-8",
    )

    def rows(count: int) -> list[dict[str, Any]]:
        return [
            {"id": i, "kind": "a" if i % 4 == 0 else "b", "text": f"text {i}"} for i in range(count)
        ]

    async with session(tmp_path) as made:
        before = await asyncio.to_thread(lambda: made.explain(path, inputs={"notes": rows(8)}))
        await made.arun(path, notes=rows(8))
        calls = (await explained(made, path, notes=rows(100)))["calls"]
        text = await asyncio.to_thread(lambda: made.explain(path, inputs={"notes": rows(100)}))
        await made.arun(path, notes=rows(100))
        after = (await explained(made, path, notes=rows(100)))["calls"]
    assert "estimated: ≤ 16 calls (a bound)" in before
    assert calls["value"] == 125
    assert calls["between"] == pytest.approx([125 - 1.96 * 25 / 2**0.5, 125 + 1.96 * 25 / 2**0.5])
    assert "estimated: ≈ 125 calls (90 to 160) · " in text
    assert after["between"][1] - after["between"][0] < 22  # more rows, less doubt


async def test_one_call_for_each_row_of_an_input_leaves_no_doubt(tmp_path: Path) -> None:
    path = plan(tmp_path, "sem_map", "per_row")
    async with session(tmp_path) as made:
        await made.arun(path, notes=NOTES[:3], names=NAMES)
        assert "between" not in (await explained(made, path, notes=NOTES, names=NAMES))["calls"]
