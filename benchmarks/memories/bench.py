"""What published memories cost and how well they answer, over the same conversations."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial

from benchmarks.memories.conversations import of_world
from benchmarks.memories.findings import FINDINGS
from benchmarks.memories.measure import Measured, at_server
from benchmarks.memories.memories import MEMORIES, Memory
from benchmarks.suite import Benchmark, Case, Chart, Column, Contest, Table
from benchmarks.suite.serving import Server, on_wire, serving
from benchmarks.world.questions import KINDS, WIDER

LATENCY = 0.02
"""Latency of the model in seconds: rounds of calls that wait for each other are seen in the time."""

QUESTIONS = 60
PEOPLE = 8
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

BASELINE = "turns by both"
Figures = dict[str, float | int | str | None]


def _measure(memory: Memory, people: int, difficulty: str, noise: str, trial: int) -> Figures:
    """One memory over one world; the trial is its seed."""
    options = [
        "--latency",
        str(LATENCY),
        *(["--noise", f"{noise},seed={trial + 1}"] if noise else []),
    ]
    with serving(*options) as server:
        return asyncio.run(_run(memory, people, difficulty, trial, server))


async def _run(memory: Memory, people: int, difficulty: str, trial: int, server: Server) -> Figures:
    told = of_world(
        trial + 1, people, difficulty, QUESTIONS if people >= PEOPLE else QUESTIONS // 2
    )
    found = await at_server(server.url, memory, told)
    wire = on_wire(server)
    if wire["calls"] != found.write.calls + found.read.calls:
        msg = f"semgraph counted {found.write.calls + found.read.calls} calls, the server {wire['calls']}"
        raise ValueError(msg)
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
    settings = {"latency_s": LATENCY, "questions": QUESTIONS}
    found = [
        Case(
            {"conversation": setting, "way": name},
            partial(_measure, memory, PEOPLE, difficulty, noise),
            {
                **settings,
                "write": memory.write,
                **memory.write_options,
                **memory.read_options,
                **({"then": {memory.then: dict(memory.then_options)}} if memory.then else {}),
            },
            quick=setting == "level 1" and name in {BASELINE, "full context"},
            full=setting == "talkative",
            seconds=300,
        )
        for setting, (difficulty, noise) in SETTINGS.items()
        for name, memory in MEMORIES.items()
    ]
    found += [
        Case(
            {"what": "growth", "people": people, "way": name},
            partial(_measure, memory, people, "1", NOISE),
            settings,
            trials=1,
            full=people == max(GROWN) or "," in name,  # a comma: a variant of a memory
            seconds=900,
        )
        for people in GROWN
        for name, memory in MEMORIES.items()
    ]
    return found


COSTS = (
    Column("calls_turn", "calls a turn", "{:.2f}"),
    Column("tokens_in_turn", "tokens in a turn"),
    Column("tokens_out_turn", "out"),
    Column("usd_turn", "$ for 1,000 turns", "{:.3f}"),
    Column("ms_turn", "ms a turn", "{:.1f}"),
    Column("cpu_ms_turn", "CPU ms", "{:.1f}"),
    Column("tokens_question", "tokens in a question"),
    Column("calls_question", "calls", "{:.2f}"),
    Column("usd_question", "$ for 1,000 questions", "{:.3f}"),
    Column("ms_question", "ms", "{:.1f}"),
)
QUALITY = (Column("f1", "answer F1", "{:.3f}"), Column("cited", "evidence recall", "{:.3f}"))
BY_KIND = tuple(Column(f"f1 {kind}", kind, "{:.2f}") for kind in (*KINDS, *WIDER))
NOTE = (
    f"Worlds of {PEOPLE} people, {QUESTIONS} questions after the last turn; each trial is another world. F1 is of the words "
    "of an answer; a question without an answer counts 1 if it is declined. Evidence recall is the share of the needed facts "
    "of which the answer cites a turn. Dollars are those of the tokens at the list price of gpt-4.1-mini, embeddings "
    f"included as prompt tokens. The model takes {1000 * LATENCY:g} ms a call."
)

PUBLISHED = (
    "graphiti",
    "mem0",
    "mem0g",
    "amem",
    "hipporag",
    "graphrag",
    "memoryos",
    "lightmem",
    "raptor",
)
"""The published memories as shipped; the others are baselines and variants."""

_CHARTED = ("full context", BASELINE, "40 turns by vectors", *PUBLISHED)
_GROWING = (
    "full context",
    "40 turns by vectors",
    "mem0g, two steps",
    "graphrag",
    "mem0g",
    "lightmem, no sleep",
)
CHARTS = (
    Chart("cost", "Answer F1 and dollars, one question for each turn, a model that errs", "usd_both", "f1", "way",
          ("$ for 1,000 turns and 1,000 questions", "answer F1"),
          where={"conversation": "level 1, a model that errs", "way": _CHARTED}, joined=False, labelled=True,
          note="Memories as shipped, beside baselines. Each point is the median of the trials, the bar their range."),
    Chart("shown", "Answer F1 and what is shown with a question", "tokens_question", "f1", "way",
          ("tokens in a question", "answer F1"),
          where={"conversation": "level 1", "way": ("20 turns by vectors", *_CHARTED)}, joined=False, labelled=True,
          note="Memories as shipped, beside baselines; the model makes no errors."),
    *(
        Chart(f"growth-{figure}", f"{title} as the conversation grows", "turns", figure, "way", ("turns", title),
              where={"what": "growth", "way": _GROWING}, note="One world each, a model that errs.")
        for figure, title in (("f1", "Answer F1"), ("usd_question", "$ for 1,000 questions"))
    ),
)  # fmt: skip

BENCHMARK = Benchmark(
    name="memories",
    question="What do published memories cost, and how well do they answer, over the same conversations?",
    kind="simulated",
    cases=cases,
    sources=(*Benchmark.sources, "benchmarks/public/scores.py"),
    tables=(
        *(
            Table(
                f"What does each memory cost, and how good are its answers? Conversations: {setting}",
                ("way",),
                (*QUALITY, *COSTS),
                where={"conversation": setting},
                note=NOTE + (f" The model errs: {noise}." if noise else ""),
            )
            for setting, (_, noise) in SETTINGS.items()
        ),
        Table(
            "Which kinds of questions does each memory answer?",
            ("conversation", "way"),
            BY_KIND,
            where={"conversation": tuple(SETTINGS)},
            note="F1 by kind: about the present, a past month, a first day, a predecessor, over two facts, without an answer, "
            "over three facts, over all facts of a kind.",
        ),
        Table(
            "What changes as a conversation grows?",
            ("people", "way"),
            (Column("turns", "turns"), *QUALITY, *COSTS),
            where={"what": "growth"},
            note=f"One world each, with a model that errs: {NOISE}.",
        ),
    ),
    charts=CHARTS,
    contests=(
        Contest("way", (BASELINE, "full context"), {"tokens_question": "tokens in a question", "usd_turn": "$ a turn"},
                {"f1": "answer F1", "cited": "evidence recall"}, where={"conversation": tuple(SETTINGS)}, ours=PUBLISHED),
    ),
    parts=FINDINGS,
)  # fmt: skip
