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
from benchmarks.real.framings import FRAMINGS, Kind, judged
from benchmarks.real.tasks import (
    TURNS,
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
FREE = (TURNS, "6 messages of a world")
"""The streams without --full."""
SLICE = (
    "full context", "turns by both", "raptor", "lightmem, no sleep", "graphiti, bulk by 10", "hipporag", "mem0", "graphrag",
    "graphiti, fused", "memoryos", "amem", "mem0g",
)  # fmt: skip
"""Of each memory what the local model answers soon, the cheap ones first."""
CONVERSATIONS = {"of 2 people": (2, 12, SLICE), "of 6 people": (6, 36, tuple(MEMORIES))}
"""Conversations that are told to memories: people, questions, and the memories."""
KINDS_ASKED: tuple[Kind, ...] = ("filters", "pairs")
SPLITS = ("test", "development")
ANSWERS = {
    "sem_filter 12 rows": ("per_row", "packed(rows=12)"),
    "sem_filter 100 rows": ("per_row", "packed(rows=10)", "cascade(sample=60)"),
    "sem_map 100 rows": ("per_row", "packed(rows=10)", "reflexion"),
    "sem_join 20 x 20": ("nested_loop", "block(left=10, right=10)", "cascade"),
    "sem_agg 10 groups of 10": ("single", "tree(fan_in=2)", "fold"),
    "sem_topk 5 of 50": ("pointwise", "packed(rows=10)", "listwise", "quickselect", "tournament"),
}


def _run(key: Mapping[str, Any], measure: Measure, trial: int) -> Figures:
    async def run() -> Figures:
        async with asking(key, trial) as own:
            found = await measure(own, trial)
            return {**found, **own.figures()}

    return asyncio.run(run())


def _case(key: Mapping[str, Any], measure: Measure, **more: Any) -> Case:
    key = {**key, "model": INPUTS.name}
    settings = {"provider": INPUTS.provider} if INPUTS.model is not None else {}
    free = INPUTS.model is not None and INPUTS.spec().provider == "local"
    trials = 1 if free else 3  # the local model is deterministic and slow
    return Case(
        key, partial(_run, key, measure), settings, **{"trials": trials, "seconds": 3600, **more}
    )


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
    """A few messages with three plans, and a filter with two implementations: eight minutes of the
    local model on two cores. More with --full.
    """
    found = [
        _case({"messages": stream, "way": way}, _telling(stream, way), full=stream not in FREE)
        for stream in (TURNS, *WORLDS)
        for way in WAYS
    ]
    found += [
        _case({"conversation": name, "way": way}, _questioning(name, way), full=True)
        for name, (_, _, ways) in CONVERSATIONS.items()
        for way in ways
    ]
    found += [
        _case(
            {"rows": name, "way": way},
            _answering(name, way),
            quick="12" in name,
            full="12" not in name,
        )
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
    Column("failed", "failed"),
)
_SHARE = "{:.3f}"
_WHO = (
    Column("version", "answered by"),
    Column("temperature", "temperature"),
    Column("embedder", "embedder"),
)
_ONLY = (
    "Figures hold for the model of the row only. local:Qwen2.5-Coder-1.5B has 1.5 billion parameters, runs on this machine, "
    "and makes mistakes: its rows say nothing about larger models, and its seconds nothing about endpoints."
)

BENCHMARK = Benchmark(
    name="real",
    question="What do implementations cost with a real model, and how good are its answers?",
    kind="real",
    cases=cases,
    tables=(
        Table(
            "What does it cost to ingest a few messages, and is the graph right?",
            ("messages", "way", "model"),
            (
                *_COST,
                Column("entities_f1", "entities F1", "{:.3f}"),
                Column("facts_f1", "facts F1", "{:.3f}"),
                Column("valid_f1", "facts at their times F1", "{:.3f}"),
                Column("graph", "written"),
                *_WHO,
            ),
            where={"messages": (TURNS, *WORLDS)},
            note=f"The worlds are synthetic, a different one in each trial; the three turns have no truth. {_ONLY}",
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
            "Do several rows in a call cost right answers?",
            ("rows", "way", "model"),
            (
                *_COST,
                Column("precision", "P", "{:.3f}"),
                Column("recall", "R", "{:.3f}"),
                Column("f1", "F1", "{:.3f}"),
                *_WHO,
            ),
            where={"rows": tuple(ANSWERS)},
            note=f"The rows are synthetic sentences, as in the simulated table of operators. {_ONLY}",
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
    loses="Several rows in a call can cost right answers, more so with a small model: compare F1 of per_row and packed.",
    sources=(
        "semgraph",
        "operators",
        "plans",
        "benchmarks/world",
        "benchmarks/operators/cases.py",
        "benchmarks/public",
    ),
    lacks=INPUTS.lacks_model,
    options="--model local",
)
