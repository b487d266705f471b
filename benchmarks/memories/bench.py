"""What published memories cost and how well they answer, over the same conversations."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial

from benchmarks.frame import Benchmark, Case, Chart, Figures, Table
from benchmarks.frame.serving import Server, on_wire, serving
from benchmarks.memories.conversations import of_world
from benchmarks.memories.findings import FINDINGS, GROWS
from benchmarks.memories.findings import GROWN as ENDS
from benchmarks.memories.measure import Measured, at_server
from benchmarks.memories.memories import MEMORIES, Memory
from benchmarks.world.questions import KINDS, WIDER

LATENCY = 0.02
"""Latency of the model in seconds: rounds of calls that wait for each other are seen in the time."""
QUESTIONS, PEOPLE = 60, 8
NOISE = "drop=0.01,verdict=0.01,slip=0.01,growth=0.05,length=0.5"
"""A model that errs in one of a hundred entries, and more often the longer its prompts are."""
SETTINGS: Mapping[str, tuple[str, str]] = {
    "level 1": ("1", ""),
    "level 2": ("2", ""),
    "talkative": ("talkative", ""),
    "level 1, a model that errs": ("1", NOISE),
}
"""Conversations by difficulty of their wording, and the noise of the model."""
GROWN = (4, 8, 16, 32)
"""People of growing conversations, about nine turns for each."""
CURVES = (
    "full context", "40 turns by vectors", "mem0g, two steps", "graphrag", "mem0g", "lightmem, no sleep"
)  # fmt: skip
"""The memories of the chart of growth."""
BASELINE = "turns by both"


def _measure(memory: Memory, people: int, difficulty: str, noise: str, trial: int) -> Figures:
    """One memory over one world; the trial is its seed."""
    options = ["--noise", f"{noise},seed={trial + 1}"] if noise else []
    with serving("--latency", str(LATENCY), *options) as server:
        return asyncio.run(_run(memory, people, difficulty, trial, server))


async def _run(memory: Memory, people: int, difficulty: str, trial: int, server: Server) -> Figures:
    asked = QUESTIONS if people >= PEOPLE else QUESTIONS // 2
    told = of_world(trial + 1, people, difficulty, asked)
    found = await at_server(server.url, memory, told)
    wire, calls = on_wire(server)["calls"], found.write.calls + found.read.calls
    if wire != calls:
        raise ValueError(f"semgraph counted {calls} calls, the server {wire}")
    return _figures(found, len(told.turns), len(told.asked))


def _figures(found: Measured, turns: int, asked: int) -> Figures:
    write, read = found.write, found.read
    return {
        "turns": turns,
        "calls_turn": round(write.calls / turns, 3),
        "tokens_in_turn": round(write.tokens_in / turns, 1),
        "tokens_out_turn": round(write.tokens_out / turns, 1),
        "usd_turn": round(1000 * write.usd / turns, 5),
        "ms_turn": round(1000 * write.seconds / turns, 2),
        "cpu_ms_turn": round(1000 * write.cpu / turns, 2),
        "calls_question": round(read.calls / asked, 3),
        "tokens_question": round(read.tokens_in / asked, 1),
        "usd_question": round(1000 * read.usd / asked, 5),
        "ms_question": round(1000 * read.seconds / asked, 2),
        "usd_both": round(1000 * (write.usd / turns + read.usd / asked), 5),
        "f1": round(found.score.f1, 4),
        "cited": round(found.score.recall, 4),
        **{f"f1 {kind}": round(share, 4) for kind, share in found.score.by_kind.items()},
        "failed": write.failed + read.failed,
    }


def cases() -> Sequence[Case]:
    """Each memory in each setting, three worlds each; and over growing conversations, one each."""
    settings, found = {"latency_s": LATENCY, "questions": QUESTIONS}, list[Case]()
    for setting, (difficulty, noise) in SETTINGS.items():
        for name, memory in MEMORIES.items():
            then = {"then": {memory.then: dict(memory.then_options)}} if memory.then else {}
            options = {"write": memory.write, **memory.write_options, **memory.read_options, **then}
            key = {"conversation": setting, "way": name}
            run = partial(_measure, memory, PEOPLE, difficulty, noise)
            more = {
                "quick": setting == "level 1" and name in {BASELINE, "full context"},
                "full": setting in {"level 2", "talkative"},
            }
            found.append(Case(key, run, {**settings, **options}, **more))
    for people in GROWN:
        for name, memory in MEMORIES.items():
            grown = {"what": "growth", "people": people, "way": name}
            run = partial(_measure, memory, people, "1", NOISE)
            full = name not in CURVES and not (people in ENDS and name in GROWS)
            found.append(Case(grown, run, settings, trials=1, full=full, seconds=900))
    return found


QUALITY = "answer F1=f1:.3f; evidence recall=cited:.3f"
COSTS = """calls a turn=calls_turn:.2f; tokens in a turn=tokens_in_turn; out=tokens_out_turn;
    $ for 1,000 turns=usd_turn:.3f; ms a turn=ms_turn:.1f; CPU ms=cpu_ms_turn:.1f; tokens in a question=tokens_question;
    calls=calls_question:.2f; $ for 1,000 questions=usd_question:.3f; ms=ms_question:.1f"""
NOTE = (
    f"Worlds of {PEOPLE} people, {QUESTIONS} questions after the last turn; each trial is another world. F1 is of the words "
    "of an answer; a question without an answer counts 1 if it is declined. Evidence recall is the share of the needed facts "
    "of which the answer cites a turn. Dollars are those of the tokens at the list price of gpt-4.1-mini, embeddings "
    f"included as prompt tokens. The model takes {1000 * LATENCY:g} ms a call."
)
PUBLISHED = (
    "graphiti", "mem0", "mem0g", "amem", "hipporag", "graphrag", "memoryos", "lightmem", "raptor"
)  # fmt: skip
"""The published memories as shipped; the others are baselines and variants."""
BENCHMARK = Benchmark(
    "memories",
    "What do published memories cost, and how well do they answer, over the same conversations?",
    cases,
    (
        *(
            Table(
                f"What does each memory cost, and how good are its answers? Conversations: {setting}", "way",
                f"{QUALITY}; {COSTS}", {"conversation": setting}, note=NOTE + (f" The model errs: {noise}." if noise else ""),
            )
            for setting, (_, noise) in SETTINGS.items()
        ),
        Table(
            "Which kinds of questions does each memory answer?", "conversation, way",
            "; ".join(f"{kind}=f1 {kind}:.2f" for kind in (*KINDS, *WIDER)), {"conversation": tuple(SETTINGS)},
            note="F1 by kind: about the present, a past month, a first day, a predecessor, over two facts, without an answer, "
            "over three facts, over all facts of a kind.",
        ),
        Table(
            "What changes as a conversation grows?", "people, way", f"turns; {QUALITY}; {COSTS}", {"what": "growth"},
            note=f"One world each, with a model that errs: {NOISE}.",
        ),
    ),
    (
        Chart(
            "cost", "Answer F1 and dollars, one question for each turn, a model that errs", "usd_both", "f1", "way",
            ("$ for 1,000 turns and 1,000 questions", "answer F1"), {"conversation": "level 1, a model that errs",
            "way": ("full context", BASELINE, "40 turns by vectors", *PUBLISHED)}, labelled=True,
            note="Memories as shipped, beside baselines. Each point is the median of the trials, the bar their range.",
        ),
        Chart(
            "growth", "$ for 1,000 questions as the conversation grows", "turns", "usd_question", "way",
            ("turns", "$ for 1,000 questions"), {"what": "growth", "way": CURVES}, note="One world each, a model that errs.",
        ),
    ),
    FINDINGS,
    sources=(*Benchmark.sources, "benchmarks/quality/scores.py"),
)  # fmt: skip
