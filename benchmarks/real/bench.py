"""A real model: one at an endpoint, or the small local one, which is free."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from benchmarks.memories.conversations import of_world
from benchmarks.memories.memories import MEMORIES
from benchmarks.real.asking import Asking, Figures, asking
from benchmarks.real.contradictions import GIVEN, READ, contradicted
from benchmarks.real.framings import FRAMINGS, SPLITS, Kind, judged
from benchmarks.real.labelled import FILTER, JOIN, RANKING
from benchmarks.real.labelled import WAYS as BY_TASK
from benchmarks.real.labelled import answered as labelled
from benchmarks.real.tasks import (
    WAYS,
    WORLDS,
    answered,
    questioned,
    remembered,
    tasks,
    told,
)
from benchmarks.suite import Benchmark, Case, Column, Table
from benchmarks.suite.inputs import INPUTS
from benchmarks.world.questions import KINDS, WIDER

Measure = Callable[[Asking, int], Awaitable[Figures]]
SMALL = "6 messages of a world"
"""The stream without --full."""
SLICE = (
    "full context", "turns by both", "raptor", "lightmem, no sleep", "graphiti, bulk by 10", "hipporag", "mem0", "graphrag",
    "graphiti, fused", "memoryos", "amem", "mem0g",
)  # fmt: skip
"""Of each memory what the local model answers soon, the cheap ones first."""
CONVERSATIONS = {"of 2 people": (2, 12, SLICE), "of 6 people": (6, 36, tuple(MEMORIES))}
"""Conversations that are told to memories: people, questions, and the memories."""
KINDS_ASKED: tuple[Kind, ...] = ("filters", "pairs")
ANSWERS = {
    "sem_map 100 rows": ("per_row", "packed(rows=10)", "reflexion"),
    "sem_agg 10 groups of 10": ("single", "tree(fan_in=2)", "fold"),
}
QUICK = {FILTER: (), JOIN: ("block",), RANKING: ("logit", "listwise"), SMALL: ("lean",)}
"""What a quick run measures of each task."""


def _run(key: Mapping[str, Any], measure: Measure, trial: int) -> Figures:
    async def run() -> Figures:
        async with asking(key, trial) as own:
            found = await measure(own, trial)
            return {**found, **own.figures()}

    return asyncio.run(run())


def _case(key: Mapping[str, Any], measure: Measure, **more: Any) -> Case:
    key = {**key, "model": INPUTS.name}
    settings = {"provider": INPUTS.provider} if INPUTS.model is not None else {}
    trials = 1 if _local() else 3  # the local model is deterministic and slow
    return Case(
        key, partial(_run, key, measure), settings, **{"trials": trials, "seconds": 3600, **more}
    )


def _local() -> bool:
    return INPUTS.model is not None and INPUTS.spec().provider == "local"


def _labelling(name: str, way: str) -> Measure:
    return lambda own, _: labelled(own, name, way)


def _telling(stream: str, way: str) -> Measure:
    return lambda own, trial: remembered(own, told(stream, trial), WAYS[way])


def _questioning(conversation: str, way: str) -> Measure:
    people, count, _ = CONVERSATIONS[conversation]
    return lambda own, trial: questioned(own, of_world(trial + 1, people, 1, count), MEMORIES[way])


def _answering(name: str, way: str) -> Measure:
    return lambda own, _: answered(own, tasks()[name], way)


def _judging(kind: Kind, split: str, framing: str) -> Measure:
    return lambda own, _: judged(own, kind, split, framing)


def _contradicting(split: str, how: str) -> Measure:
    return lambda own, _: contradicted(own, split, how)


def _contradictions() -> list[Case]:
    """Stories of which some end a fact: the step that compares facts, and add_episode as a whole."""
    return [
        _case({"stories": split, "how": how}, _contradicting(split, how), full=True)
        for split in SPLITS
        for how in (GIVEN, READ)
    ]


def _yes_or_no() -> list[Case]:
    """All framings of yes and no over development and test; only a model with log-probabilities can
    take all of them.
    """
    return [
        _case(
            {"yes or no": f"{kind}, {split}", "framing": framing},
            _judging(kind, split, framing),
            full=True,
            trials=1,
        )
        for split in SPLITS
        for kind in KINDS_ASKED
        for framing in reversed(FRAMINGS)
    ]


def cases() -> list[Case]:
    """Labelled rows by all implementations, and two small worlds read in three ways: about an hour
    and a half of the local model on two cores. More with --full.
    """
    found = [
        _case({"rows": name, "way": way}, _labelling(name, way), quick=way in QUICK[name])
        for name, ways in BY_TASK.items()
        for way in ways
    ]
    found += [
        _case(
            {"messages": stream, "way": way},
            _telling(stream, way),
            quick=way in QUICK.get(stream, ()),
            full=stream != SMALL,
            **({"trials": 2} if _local() and stream == SMALL else {}),  # each is another world
        )
        for stream in WORLDS
        for way in WAYS
    ]
    found += [
        _case({"conversation": name, "way": way}, _questioning(name, way), full=True)
        for name, (_, _, ways) in CONVERSATIONS.items()
        for way in ways
    ]
    found += [
        _case({"rows": name, "way": way}, _answering(name, way), full=True)
        for name, ways in ANSWERS.items()
        for way in ways
    ]
    return found + _contradictions() + _yes_or_no()


_COST = (
    Column("calls", "calls"),
    Column("tokens_in", "tokens in"),
    Column("tokens_cached", "cached"),
    Column("tokens_out", "out"),
    Column("usd", "$", "{:.4f}"),
    Column("seconds", "s", "{:.1f}"),
    Column("cpu_s", "CPU s", "{:.1f}"),
    Column("failed", "failed"),
)
_SHARE = "{:.3f}"
_F1 = (Column("f1", "F1", _SHARE), Column("f1 between", "95 %", _SHARE))
_TOP = (
    Column("precision", "precision at 3", _SHARE),
    Column("precision between", "95 %", _SHARE),
    Column("ndcg", "NDCG at 3", _SHARE),
    Column("ndcg between", "95 %", _SHARE),
)
_GRAPH = (
    Column("entities_f1", "entities F1", _SHARE),
    Column("facts_f1", "facts F1", _SHARE),
    Column("valid_f1", "facts at their times F1", _SHARE),
    Column("f1", "answers F1", _SHARE),
)
_FEW = (
    Column("calls", "calls"),
    Column("tokens_in", "tokens in"),
    Column("seconds", "s", "{:.0f}"),
    Column("cpu_s", "CPU s", "{:.0f}"),
)
_WHO = (
    Column("version", "answered by"),
    Column("temperature", "temperature"),
    Column("embedder", "embedder"),
)
_ONLY = (
    "Figures hold for the model of the row only. local:Qwen2.5-Coder-1.5B has 1.5 billion parameters, runs on this machine, "
    "and makes mistakes: its rows say nothing about larger models, and its seconds nothing about endpoints."
)
_ROWS = (
    "400 texts are each asked a question of their own task, of 18; 32 others calibrate `logit`. For cascade the question is "
    "in a column, because its thresholds need more rows of one prompt than a task has. 200 pairs are ten joins of 4 x 5 rows, "
    "with 49 matches. Intervals are bootstraps over texts or pairs, and say nothing about other tasks."
)
_RANKS = (
    "Twenty rankings of eight rows, of which three are wanted. Precision: how many of the best three are among the first "
    "three. NDCG: the best of the eight counts 8, the last 1. Intervals are bootstraps over the rankings."
)
_TELLS = (
    "The worlds are synthetic, a different one in each trial: a figure is the median, with the lowest and the highest. "
    "Ten questions are answered from the graph by the read plan of the memory `graphiti`; an answer about what was "
    "not told is right if it is declined."
)
_LOCAL = {"model": "local:Qwen2.5-Coder-1.5B"}
_CPU = "CPU s are those of the client and of a local model, which runs in its process."

BENCHMARK = Benchmark(
    name="real",
    question="What do implementations cost with a real model, and how good are its answers?",
    kind="real",
    cases=cases,
    tables=(
        Table(
            "Which implementation answers yes or no best, and what does it cost?",
            ("rows", "way", "model"),
            (
                Column("precision", "P", _SHARE),
                Column("recall", "R", _SHARE),
                *_F1,
                Column("right", "right", _SHARE),
                Column("test f1", "F1, test", _SHARE),
                Column("test f1 between", "95 %", _SHARE),
                *_COST,
                *_WHO,
            ),
            where={"rows": (FILTER, JOIN, *ANSWERS)},
            note=f"{_ROWS} “F1, test” is that of the texts of five tasks by which no framing was chosen. sem_map and "
            f"sem_agg have the generated rows of the simulated table of operators (`--full`). {_CPU} {_ONLY}",
        ),
        Table(
            "Which implementation ranks best, and what does it cost?",
            ("rows", "way", "model"),
            (*_TOP, *_COST, *_WHO),
            where={"rows": RANKING},
            note=f"{_RANKS} {_CPU} {_ONLY}",
        ),
        Table(
            "What does it cost to ingest a few messages, is the graph right, and does it answer questions?",
            ("messages", "way", "model"),
            (
                *_GRAPH,
                Column("cited", "evidence recall", _SHARE),
                Column("read_calls", "calls to read"),
                Column("read_seconds", "s to read", "{:.1f}"),
                *_COST,
                Column("graph", "written"),
                *_WHO,
            ),
            where={"messages": tuple(WORLDS)},
            note=f"{_TELLS} {_CPU} {_ONLY}",
        ),
        Table(
            "What does each memory cost, and how good are its answers?",
            ("conversation", "way", "model"),
            (
                Column("turns", "turns"),
                Column("asked", "questions"),
                Column("f1", "answer F1", "{:.3f}"),
                Column("cited", "evidence recall", "{:.3f}"),
                Column("answered", "answered"),
                *(Column(f"f1 {kind}", kind, "{:.2f}") for kind in (*KINDS, *WIDER)),
                *_COST,
                *_WHO,
            ),
            where={"conversation": tuple(CONVERSATIONS)},
            note="Conversations of a synthetic world, told to the memories of docs/memories.md; `run public` measures public "
            f"data sets. {_ONLY}",
        ),
        Table(
            "Do contradicted facts end, and no others?",
            ("stories", "how", "model"),
            (
                Column("to end", "facts to end"),
                Column("ended", "ended"),
                Column("ended wrongly", "ended wrongly"),
                Column("recall", "recall", _SHARE),
                Column("precision", "precision", _SHARE),
                Column("missed", "missed"),
                Column("wrong", "wrong"),
                *_COST,
                *_WHO,
            ),
            where={"stories": SPLITS},
            note="The test has 20 stories of two messages with two facts in the first; the second ends a fact in ten of "
            "them. Facts are given: the step that compares facts has the right ones. Messages are read: add_episode as "
            f"shipped. Nothing was chosen by the test. {_ONLY}",
        ),
        Table(
            "Which framing of a yes/no question works best?",
            ("yes or no", "framing", "model"),
            (
                Column("asked", "asked"),
                Column("right", "right", _SHARE),
                Column("right between", "95 %", _SHARE),
                Column("by task", "right, by task", _SHARE),
                Column("least", "worst wording", _SHARE),
                Column("even", "right at even odds", _SHARE),
                Column("auc", "AUC", _SHARE),
                Column("calibrated", "right, calibrated", _SHARE),
                Column("calibrated between", "95 %", _SHARE),
                Column("split", "right, split", _SHARE),
                *_COST,
                *_WHO,
            ),
            where={
                "yes or no": tuple(f"{kind}, {split}" for split in SPLITS for kind in KINDS_ASKED)
            },
            note="The test has 120 labelled texts of five tasks, each in three wordings, and 60 labelled pairs of three, each "
            "in two; figures are means over both. Intervals are bootstraps over rows and say nothing about other tasks. "
            "The framing and the log-odds from which on the answer is yes were chosen by development alone. The chosen one "
            "is asked about each row in all wordings, the others in one. Calibrated: on 20 labelled rows (16 pairs), mean of "
            "40 draws of the share of the others. Split: two groups of log-odds, "
            f"without labels. {_ONLY}",
        ),
    ),
    parts={
        "rows": Table(
            "", ("rows", "way"), (*_FEW, *_F1), where={"rows": (FILTER, JOIN)} | _LOCAL, note=_ROWS
        ),
        "rankings": Table(
            "", ("rows", "way"), (*_FEW, *_TOP), where={"rows": RANKING} | _LOCAL, note=_RANKS
        ),
        "worlds": Table(
            "",
            ("messages", "way"),
            (*_FEW, *_GRAPH),
            where={"messages": SMALL} | _LOCAL,
            note=_TELLS,
        ),
    },
    loses="Several rows in a call can cost right answers, more so with a small model: compare F1 of per_row and packed.",
    sources=(
        "semgraph",
        "operators",
        "plans",
        "benchmarks/world",
        "benchmarks/memories/conversations.py",
        "benchmarks/memories/memories.py",
        "benchmarks/operators/cases.py",
        "benchmarks/public",
    ),
    lacks=INPUTS.lacks_model,
    options="--model local",
)
