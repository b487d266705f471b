"""A real model, at an endpoint or the small local one, which is free: over labelled rows, synthetic
worlds, and public data sets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from benchmarks.frame import Benchmark, Case, Figures, Table, Target
from benchmarks.memories.memories import MEMORIES
from benchmarks.quality import labelled, public, reviews
from benchmarks.quality.asking import Asking, measured
from benchmarks.quality.inputs import INPUTS
from benchmarks.quality.labelled import CALIBRATED, FILTER, JOIN, RANKING, SPLITS, answered
from benchmarks.quality.labelled import WAYS as BY_TASK
from benchmarks.quality.tasks import WAYS, WORLDS, remembered

SMALL = "6 messages of a world"
"""The stream without --full."""
QUICK = {FILTER: (), JOIN: ("block",), RANKING: ("logit", "listwise"), SMALL: ("lean",)}
"""What a quick run measures of each task."""
LATER = {
    FILTER: ("logit", "cascade(sample=100, rows=10, proxy=logit)"),
    RANKING: ("quickselect(batch=3)", "tournament"),
}
"""What the local model answers with `--full` only: `logit` of a filter sends what `per_row` sends, and
the others take four minutes and more each.
"""
TOLD = ("turns by both", "graphiti", "graphiti, lean")
"""Memories that conversations of public data sets are told to without `--full`."""
LOCAL = {"turns by words": 270, "turns by both": 270}
"""The same by the local model, for which messages in a graph take hours: seconds on two cores."""
PARAGRAPHS = {"turns by vectors": 160, "hipporag": 1200}
"""Memories that get the paragraphs of MuSiQue without `--full`."""
LOCOMO, LONGMEMEVAL, MUSIQUE, SEMBENCH = "LoCoMo", "LongMemEval", "MuSiQue", "SemBench, movies"


def _case(
    key: Mapping[str, Any], measure: Any, settings: Mapping[str, Any] | None = None, **more: Any
) -> Case:
    key = {**key, "model": INPUTS.name}
    provider = {} if INPUTS.model is None else {"provider": INPUTS.provider}
    trials = 1 if INPUTS.local else 3  # the local model is deterministic and slow
    more = {"trials": trials, "seconds": 3600, **more}
    return Case(key, partial(measured, key, measure), {**(settings or {}), **provider}, **more)


def cases() -> Sequence[Case]:
    """Labelled rows by implementations, and a small world read in three ways: three quarters of an
    hour of the local model on two idle cores; and parts of the user's public data, as much again.
    """
    return [*_labelled(), *_worlds(), *_public()]


def _labelled() -> Iterator[Case]:
    for name, ways in BY_TASK.items():
        for way in ways:
            run, quick = partial(answered, name, way), way in QUICK[name]
            full = INPUTS.local and way in LATER.get(name, ())
            yield _case({"rows": name, "way": way}, run, quick=quick, full=full)
    for split in SPLITS:
        key = {"stories": split, "how": "facts are given"}
        yield _case(key, partial(labelled.contradicted, split), full=split != SPLITS[0])


def _worlds() -> Iterator[Case]:
    for stream in WORLDS:
        more: dict[str, Any] = {"full": stream != SMALL}
        if INPUTS.local and stream == SMALL:
            more["trials"] = 2  # each is another world
        for way in WAYS:
            quick, run = way in QUICK.get(stream, ()), partial(remembered, stream, way)
            yield _case({"messages": stream, "way": way}, run, quick=quick, **more)


def _public() -> Iterator[Case]:
    """A small part of each data set; with --full all of it, once. All of it with --full only where
    there is no data.
    """
    whole = {"full": True, "trials": 1, "seconds": 86_400}
    some: Mapping[str, float] = {} if INPUTS.local else dict.fromkeys(TOLD, 0)
    parts: tuple[tuple[str, str, str, tuple[int | None, ...], Mapping[str, float]], ...] = (
        (LOCOMO, "1 conversation, 30 questions", "LoCoMo", (1, 30), some or LOCAL),
        (LOCOMO, "all", "LoCoMo", (), {}),
        (LONGMEMEVAL, "oracle, 2 of each type", "oracle", (2,), some),
        (LONGMEMEVAL, "oracle", "oracle", (), {}),
        (LONGMEMEVAL, "S", "S", (), {}),
        (MUSIQUE, "20 of 200 questions, 3 paragraphs of each", "MuSiQue, 200", (3, 20), PARAGRAPHS),
        (MUSIQUE, "all", "MuSiQue", (), {}),
    )
    for name, part, file, sizes, ways in parts:
        known = public.SOURCES[file].settings(INPUTS.data)
        for way in MEMORIES:
            full = way not in ways or INPUTS.data is None
            given = {} if sizes else whole
            more = {"full": full, "seconds": 7200, "about": ways.get(way, 0), **given}
            run = partial(_told, file, sizes, way, name)
            yield _case({"set": name, "part": part, "way": way}, run, {"data": known}, **more)
    known = public.SOURCES["reviews"].settings(INPUTS.data)
    for part, hows in reviews.WAYS.items():
        for way in hows:
            key, run = {"set": SEMBENCH, "part": part, "way": way}, partial(_reviewed, part, way)
            later = INPUTS.local and way == "logit" and part == reviews.FILTER
            more = {"full": later or INPUTS.data is None, "about": 80}
            yield _case(key, run, {"data": known}, **more)


_MEASURES = {
    LOCOMO: public.measured_locomo,
    LONGMEMEVAL: public.measured_longmemeval,
    MUSIQUE: public.measured_musique,
}


async def _told(
    file: str, sizes: tuple[int | None, ...], way: str, name: str, own: Asking, _: int
) -> Figures:
    """The file is read first, so that an invalid file costs no call."""
    part = public.load(file, INPUTS.data, *sizes)
    return {**await _MEASURES[name](own, part, MEMORIES[way]), **_data(file)}


async def _reviewed(part: str, way: str, own: Asking, _: int) -> Figures:
    task = reviews.load(part, INPUTS.data)
    own.afford([f"{text}" for text in task.rows.left["reviewText"]], 1, f"{part} by {way}")
    return {**task.figures(await own.answer(task.node, task.rows, way)), **_data("reviews")}


def _data(file: str) -> Figures:
    """What a row says about its data."""
    [one] = public.SOURCES[file].settings(INPUTS.data)
    text = f"{one['file']}, sha256 {one['sha256'][:12]}… ({one['checksum']}), {one['licence']}"
    return {"data": text}


_WHO = "answered by=version; temperature; embedder"
_COST = f"""calls; tokens in=tokens_in; cached=tokens_cached; out=tokens_out; $=usd:.4f; s=seconds:.1f; CPU s=cpu_s:.1f;
    failed; {_WHO}"""
_F1 = "F1=f1:.3f; 95 %=f1 between"
_TOP = "precision at 3=precision:.3f; 95 %=precision between; NDCG at 3=ndcg:.3f; 95 %=ndcg between"
_GRAPH = "entities F1=entities_f1:.3f; facts F1=facts_f1:.3f; facts at their times F1=valid_f1:.3f; answers F1=f1:.3f"
_FEW = "calls; tokens in=tokens_in; s=seconds; CPU s=cpu_s"
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


def _shares(*figures: str) -> str:
    return "; ".join(f"{figure}=f1 {figure}:.2f" for figure in figures)


BENCHMARK = Benchmark(
    "quality",
    "What do implementations cost with a real model, and how good are its answers?",
    cases,
    (
        Table(
            "Which implementation answers yes or no best, and what does it cost?", "rows, way, model",
            f"P=precision:.3f; R=recall:.3f; {_F1}; right=right:.3f; F1, test=test f1:.3f; 95 %=test f1 between; {_COST}",
            {"rows": (FILTER, JOIN)},
            note=f"{_ROWS} “F1, test” is that of the texts of five tasks by which no framing was chosen. {_CPU} {_ONLY}",
        ),
        Table(
            "Which implementation ranks best, and what does it cost?", "rows, way, model", f"{_TOP}; {_COST}",
            {"rows": RANKING}, note=f"{_RANKS} {_CPU} {_ONLY}",
        ),
        Table(
            "What does it cost to ingest a few messages, is the graph right, and does it answer questions?",
            "messages, way, model",
            f"""{_GRAPH}; evidence recall=cited:.3f; calls to read=read_calls; s to read=read_seconds:.1f; {_COST};
            written=graph""",
            {"messages": tuple(WORLDS)}, note=f"{_TELLS} {_CPU} {_ONLY}",
        ),
        Table(
            "Do contradicted facts end, and no others?", "stories, how, model",
            f"""facts to end=to end; ended; ended wrongly; recall=recall:.3f; precision=precision:.3f; missed; wrong;
            {_COST}""",
            {"stories": SPLITS},
            note="The test has 20 stories of two messages with two facts in the first; the second ends a fact in ten of "
            f"them. The step that compares facts is given the right ones. Nothing was chosen by the test. {_ONLY}",
        ),
        Table(
            "LoCoMo: does a memory of months of conversation answer questions?", "part, way, model",
            f"""questions; F1, answerable=f1:.3f; {_shares(*list(public.KINDS.values())[:-1])};
            adversarial: declined=declined:.3f; evidence cited @10=recall@10 cited:.3f; shown @10=recall@10 shown:.3f;
            {_COST}; data""",
            {"set": LOCOMO},
            note="F1 of stemmed words, as LoCoMo scores; stems are Porter's, without the additions of nltk. Adversarial "
            "questions have no answer and are kept apart: the share that is answered by “Not mentioned”. LoCoMo itself "
            "offers that as one of two choices, here it is not offered, which is harder. Pictures are their "
            "captions. Questions are at equal distances in the list; one without an answer for a failed call counts 0.",
        ),
        Table(
            "LongMemEval: are questions about many sessions answered, and is the session with the evidence found?",
            "part, way, model",
            f"""questions; accuracy=accuracy:.3f; {'; '.join(f'{kind}=accuracy {kind}:.3f' for kind in public.JUDGED)};
            unanswerable=accuracy unanswerable:.3f; all evidence cited @5=all@5 cited:.3f; any @5=any@5 cited:.3f;
            all @10=all@10 cited:.3f; all evidence shown @5=all@5 shown:.3f; judged by=judge; {_COST}; data""",
            {"set": LONGMEMEVAL},
            note="Accuracy is the share of answers that a model judges right, by rules for each type in "
            "benchmarks/quality/plans/prompts. LongMemEval judges with gpt-4o-2024-08-06 and prompts of its own; a share that "
            "another model judged is not comparable with published ones. Name it in semgraph.toml: [models] judge = …. Each "
            "question has a conversation of its own. Unanswerable questions count within their type too, and are left out of "
            "the evidence.",
        ),
        Table(
            "MuSiQue: are questions answered that need two to four paragraphs?", "part, way, model",
            f"""questions; paragraphs; F1=f1:.3f; {_shares(*public.HOPS)}; exact=exact:.3f;
            needed paragraphs shown=recall shown:.3f; cited=recall cited:.3f; {_COST}; data""",
            {"set": MUSIQUE},
            note="Questions at equal distances in the file, of MuSiQue's or of 200 of these; the paragraphs of all are one "
            f"corpus, as HippoRAG's authors put them, and {public.SHOWN} are shown with a question. “3 paragraphs of each”: "
            "those that the answer needs, and others up to three, so a search has fewer wrong paragraphs to choose from than "
            "in published figures.",
        ),
        Table(
            "SemBench's movies: are positive reviews found, and pairs of opposite opinions?", "part, way, model",
            f"rows; true=yes; P=precision:.3f; R=recall:.3f; {_F1}; right=right:.3f; {_COST}; data",
            {"set": SEMBENCH},
            note="The filter of Q1 over the first 100 of 2,000 reviews, without its limit of five, and the join of Q7 over "
            "all pairs of the first ten reviews of one film, in both orders, with the conditions in SemBench's words. True: "
            "what the critics' own marks say. SemBench scores such queries by precision, recall and F1 too.",
        ),
    ),
    parts={
        "rows": Table("", "rows, way", f"{_FEW}; {_F1}", {"rows": (FILTER, JOIN), **_LOCAL}, note=_ROWS),
        "rankings": Table("", "rows, way", f"{_FEW}; {_TOP}", {"rows": RANKING, **_LOCAL}, note=_RANKS),
        **{
            part: Table("", "part, way, model", f"{_FEW}; {columns}", {"set": name})
            for part, name, columns in (
                ("locomo", LOCOMO, "F1, answerable=f1:.3f; declined=declined:.3f; evidence shown @10=recall@10 shown:.3f"),
                ("longmemeval", LONGMEMEVAL, "accuracy=accuracy:.3f; all evidence shown @5=all@5 shown:.3f"),
                ("musique", MUSIQUE, "F1=f1:.3f; exact=exact:.3f; needed paragraphs shown=recall shown:.3f"),
                ("movies", SEMBENCH, f"P=precision:.3f; R=recall:.3f; {_F1}"),
            )
        },
        "worlds": Table("", "messages, way", f"{_FEW}; {_GRAPH}", {"messages": SMALL, **_LOCAL}, note=_TELLS),
    },
    kind="real",
    targets=(
        Target("sem_filter by default: right answers", {"rows": FILTER, "way": "per_row", **_LOCAL}, "right", least=0.85),
        Target("logit with 32 labels: right answers", {"rows": FILTER, "way": CALIBRATED, **_LOCAL}, "right", least=0.9),
    ),
    sources=(*Benchmark.sources, "benchmarks/memories/conversations.py", "benchmarks/memories/memories.py"),
    lacks=INPUTS.lacks,
    options="--model local",
)  # fmt: skip
