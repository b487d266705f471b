"""HippoRAG 2: passages are ranked by a walk over triples and synonyms."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from itertools import pairwise

import networkx as nx
import pytest

from benchmarks.memories.conversations import of_world
from benchmarks.memories.measure import measured
from benchmarks.memories.memories import MEMORIES
from benchmarks.memories.memories import memory as named
from benchmarks.world import Fault, StandIn
from benchmarks.world.answers.hipporag import helpful
from benchmarks.world.vectors import vector_of
from tests.memories.conftest import both_stores, turn

KNOWN = "Where does the one whom Ada Costa knows live?"
LUMA = "Who works where Ada Costa works?"
SMALL = (
    turn(1, "I have joined Luma."),
    turn(2, "I live in Riga. I work at Luma.", "Ben Ito"),
    turn(3, "It was a long week.", "Ben Ito"),
)


@pytest.mark.nightly
async def test_without_the_walk_fewer_questions_over_two_hops_are_answered(memory):
    session = memory("hipporag").session

    async def f1(plans):
        """The mean over two worlds, which are written once."""
        found = [await measured(session, plans, of_world(seed, count=72)) for seed in (1, 2)]
        return statistics.fmean(one.score.by_kind["two hops"] for one in found)

    by_phrases = {"passage_weight": 0.01}  # in a small world a phrase is in many of the passages
    walked = await f1(named("hipporag", read={"params": by_phrases}))
    assert walked > await f1(MEMORIES["hipporag, no walk"]) + 0.1


def likenesses(texts, question):
    """The cosines of texts with a question, from 0 to 1: of the furthest and the nearest."""
    found = {name: float(vector_of(text) @ vector_of(question)) for name, text in texts.items()}
    low, high = min(found.values()), max(found.values())
    return {name: (value - low) / (high - low) for name, value in found.items()}


def ranked(stored, question):
    """The scores of all passages, as the authors' code computes them from the same graph."""
    triples = {row["id"]: row for row in stored["SAYS"]}
    near = likenesses({name: row["text"] for name, row in triples.items()}, question)
    top = sorted(triples, key=near.__getitem__, reverse=True)[:5]
    shown = [{"number": n, "triple": triples[name]["text"]} for n, name in enumerate(top)]
    kept = helpful({"question": question, "triples": json.dumps(shown)})["helpful"]
    turns = {row["id"]: row["turns"] for row in stored["Phrase"]}
    weights = defaultdict(list)
    for name in (top[n] for n in kept):
        for end in (triples[name]["source"], triples[name]["target"]):
            weights[end].append(near[name] / len(turns[end]))
    phrases = sorted(((statistics.fmean(w), end) for end, w in weights.items()), reverse=True)[:5]
    seeds = {end: weight for weight, end in phrases}
    passages = likenesses({row["id"]: row["text"] for row in stored["Passage"]}, question)
    seeds |= {name: 0.05 * like for name, like in passages.items()}
    ties = nx.Graph()
    for row in (*stored["SAYS"], *stored["ALIKE"], *stored["CONTAINS"]):
        weight = (
            2 * len(row["turns"]) if "turns" in row else 2 * row["score"] if "score" in row else 1
        )
        ends = row["source"], row["target"]
        ties.add_edge(*ends, weight=ties.get_edge_data(*ends, {"weight": 0})["weight"] + weight)
    ties.add_nodes_from(passages)
    scores = nx.pagerank(ties, 0.5, seeds, tol=1e-12, max_iter=1000, dangling=seeds)
    return {name: scores[name] for name in passages}


async def test_passages_are_ranked_by_the_scores_of_the_authors_code(memory):
    hippo, told = memory("hipporag"), of_world(2, 6)
    await hippo.tell(*told.turns, params={"similar": 0.65})
    labels = ("Passage", "Phrase", "SAYS", "ALIKE", "CONTAINS")
    stored = {label: await hippo.rows(label) for label in labels}
    assert all(stored.values())
    asked = [one for one in told.questions if "whom" in one["question"] or "Who" in one["question"]]
    result = await hippo.run("read", {"params": {"k": 5000}}, questions=asked)
    rows = sorted(result.tables["shown"].to_pylist(), key=lambda row: row["rank"])
    for one in asked:
        expected = ranked(stored, one["question"])
        scores = [expected[row["turns"][0]] for row in rows if row["question"] == one["id"]]
        assert len(scores) == len(told.turns)
        assert all(before >= after - 1e-5 for before, after in pairwise(scores))


async def test_without_the_walk_passages_are_those_of_a_search_by_vectors(memory):
    turns = [dict(row) for row in of_world(2, 3, 0, 12).turns]
    shown = []
    for name, params in (("hipporag", {"k": 10, "damping": 0}), ("turns", {"by": "vectors"})):
        made = memory(name)
        await made.tell(*turns)
        result = await made.run(
            "read", {"params": params},
            questions=[{"conversation": turns[0]["conversation"], "id": "q", "question": KNOWN}],
        )  # fmt: skip
        shown.append({row["turns"][0] for row in result.tables["shown"].to_pylist()})
    assert shown[0] == shown[1]
    assert len(shown[0]) == 10


async def test_a_question_that_no_triple_helps_with_starts_no_walk(memory):
    hippo = memory("hipporag")
    await hippo.tell(*[dict(row, conversation="c") for row in of_world(2, 3, 0, 12).turns])
    ranks = {}
    for about in ("Ulla Unknown", of_world(2, 3, 0, 12).turns[0]["speaker"]):
        for damping in (0, 0.5):
            result = await hippo.run(
                "read", {"params": {"damping": damping, "passage_weight": 0.01}},
                questions=[{"conversation": "c", "id": "q", "question": f"Where does {about} live?"}],
            )  # fmt: skip
            rows = sorted(result.tables["shown"].to_pylist(), key=lambda row: row["rank"])
            ranks[about, damping] = [row["turns"] for row in rows]
        same = ranks[about, 0] == ranks[about, 0.5]
        assert same == (about == "Ulla Unknown")


@pytest.mark.parametrize(("similar", "found"), [(0.65, "Riga"), (1, None)])
async def test_synonyms_lead_from_a_name_to_its_short_form(memory, similar, found):
    hippo = memory("hipporag")
    others = [turn(day, f"Where does one work or live in {day}?", "Mia") for day in range(5, 30)]
    await hippo.tell(
        turn(1, "I live in Oslo."),
        turn(2, "Ada is a friend of Dario Okafor.", "Ben Ito"),
        turn(3, "I live in Riga.", "Dario Okafor"),
        *others,
        params={"similar": similar},
    )
    assert len(await hippo.rows("ALIKE")) == (1 if found else 0)
    (answer,) = await hippo.ask(KNOWN, params={"linked": 1, "k": 3, "passage_weight": 0.001})
    assert answer["answer"] == found


@both_stores
async def test_answers_rest_on_turns_on_both_stores(memory):
    hippo = memory("hipporag")
    await hippo.tell(*SMALL)
    assert {row["name"] for row in await hippo.rows("Phrase")} == {
        "ada costa",
        "ben ito",
        "luma",
        "riga",
    }
    works, unknown = await hippo.ask(LUMA, "Where does Katya Brandt work?")
    assert (works["answer"], sorted(works["evidence"])) == ("Ben Ito", ["t1", "t2"])
    assert (unknown["answer"], unknown["evidence"]) == (None, [])


async def test_one_turn_without_a_triple_is_still_found(memory):
    hippo = memory("hipporag")
    await hippo.tell(turn(3, "It was a long week."))
    result = await hippo.run(
        "read", {}, questions=[{"conversation": "c", "id": "q", "question": LUMA}]
    )
    assert [row["turns"] for row in result.tables["shown"].to_pylist()] == [["t3"]]
    assert [row["answer"] for row in result.tables["answers"].to_pylist()] == [None]


async def test_the_order_and_number_of_runs_change_nothing_in_the_graph(memory):
    hippo, graphs = memory("hipporag"), []
    for name, parts in (("c", [SMALL]), ("d", [SMALL[1:], SMALL[:1], SMALL])):
        for part in parts:
            await hippo.tell(
                *({**row, "conversation": name, "id": name + row["id"]} for row in part)
            )
        graphs.append(
            {
                (row["name"], tuple(sorted(turn.removeprefix(name) for turn in row["turns"])))
                for row in await hippo.rows("Phrase")
                if row["conversation"] == name
            }
        )
    assert graphs[0] == graphs[1]
    assert ("luma", ("t1", "t2")) in graphs[0]


async def test_conversations_do_not_know_each_other(memory):
    hippo = memory("hipporag")
    await hippo.tell(SMALL[0], {**SMALL[1], "conversation": "other"})
    (answer,) = await hippo.ask(LUMA)
    assert (answer["answer"], answer["evidence"]) == (None, [])


@pytest.mark.parametrize("kind", ["prose", "truncated", "refusal"])
async def test_a_turn_without_an_answer_is_reported_and_read_by_the_next_run(memory, kind):
    async with StandIn(faults=(Fault(kind, rate=1.0),)) as broken:
        assert len((await memory("hipporag", broken).tell(*SMALL)).failed) == 3
    hippo = memory("hipporag")
    assert await hippo.rows("Passage") == []
    result = await hippo.tell(*SMALL)
    assert (result.committed, len(await hippo.rows("Passage"))) == (3, 3)


async def test_a_failure_half_way_loses_its_own_turn_only_and_the_next_run_adds_it(memory):
    async with StandIn(faults=(Fault("refusal", on=(5,)),)) as broken:
        first = await memory("hipporag", broken).tell(*SMALL)
    assert (len(first.failed), first.committed) == (1, 2)
    second = await memory("hipporag").tell(*SMALL)
    assert (second.skipped, second.committed) == (2, 1)
    assert len(await memory("hipporag").rows("Passage")) == 3


async def test_numbers_of_no_triple_are_dropped_and_the_question_is_still_answered(memory):
    await memory("hipporag").tell(*SMALL)
    async with StandIn(faults=(Fault("wrong_ids", on=(1,)),)) as broken:
        (answer,) = await memory("hipporag", broken).ask(LUMA)
    assert answer["answer"] == "Ben Ito"


async def test_without_an_answer_about_triples_the_turns_of_a_search_by_vectors_are_shown(memory):
    await memory("hipporag").tell(*SMALL)
    async with StandIn(faults=(Fault("refusal", on=(1,)),)) as broken:
        hippo = memory("hipporag", broken)
        result = await hippo.run(
            "read", {}, questions=[{"conversation": "c", "id": "q", "question": LUMA}]
        )
    (answer,) = result.tables["answers"].to_pylist()
    assert answer["answer"] == "Ben Ito"
    assert result.meter.total().rows_failed == 1
