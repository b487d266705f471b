"""A real model, at an endpoint or the small local one, which is free: over labelled rows, synthetic
worlds, and public data sets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from benchmarks.frame import Benchmark, Case, Figures, Table
from benchmarks.memories.memories import MEMORIES
from benchmarks.quality import public
from benchmarks.quality.asking import Asking, measured
from benchmarks.quality.inputs import INPUTS
from benchmarks.quality.labelled import FILTER, JOIN, RANKING, SPLITS, answered, contradicted
from benchmarks.quality.labelled import WAYS as BY_TASK
from benchmarks.quality.tasks import WAYS, WORLDS, questioned, remembered
from benchmarks.world.questions import KINDS, WIDER

SMALL = "6 messages of a world"
"""The stream without --full."""
SLICE = (
    "full context", "turns by both", "raptor", "lightmem, no sleep", "graphiti, bulk by 10", "hipporag", "mem0", "graphrag",
    "graphiti, fused", "memoryos", "amem", "mem0g",
)  # fmt: skip
"""Of each memory what the local model answers soon, the cheap ones first."""
CONVERSATIONS = {"of 2 people": (2, 12, SLICE), "of 6 people": (6, 36, tuple(MEMORIES))}
"""Conversations that are told to memories: people, questions, and the memories."""
QUICK = {FILTER: (), JOIN: ("block",), RANKING: ("logit", "listwise"), SMALL: ("lean",)}
"""What a quick run measures of each task."""
DEFAULT = ("turns by both", "graphiti", "graphiti, lean")
"""Memories that public data sets are told to without `--full`."""
LOCOMO, LONGMEMEVAL = "LoCoMo", "LongMemEval"


def _case(
    key: Mapping[str, Any], measure: Any, settings: Mapping[str, Any] | None = None, **more: Any
) -> Case:
    key = {**key, "model": INPUTS.name}
    provider = {} if INPUTS.model is None else {"provider": INPUTS.provider}
    trials = 1 if INPUTS.local else 3  # the local model is deterministic and slow
    more = {"trials": trials, "seconds": 3600, **more}
    return Case(key, partial(measured, key, measure), {**(settings or {}), **provider}, **more)


def cases() -> Sequence[Case]:
    """Labelled rows by all implementations, and two small worlds read in three ways: about an hour
    and a half of the local model on two cores. More with --full, and with the user's data.
    """
    return [*_labelled(), *_worlds(), *(_public() if INPUTS.data else ())]


def _labelled() -> Iterator[Case]:
    for name, ways in BY_TASK.items():
        for way in ways:
            run, quick = partial(answered, name, way), way in QUICK[name]
            yield _case({"rows": name, "way": way}, run, quick=quick)
    for split in SPLITS:
        key = {"stories": split, "how": "facts are given"}
        yield _case(key, partial(contradicted, split), full=True)


def _worlds() -> Iterator[Case]:
    for stream in WORLDS:
        more: dict[str, Any] = {"full": stream != SMALL}
        if INPUTS.local and stream == SMALL:
            more["trials"] = 2  # each is another world
        for way in WAYS:
            quick, run = way in QUICK.get(stream, ()), partial(remembered, stream, way)
            yield _case({"messages": stream, "way": way}, run, quick=quick, **more)
    for name, (people, count, ways) in CONVERSATIONS.items():
        for way in ways:
            run = partial(questioned, people, count, MEMORIES[way])
            yield _case({"conversation": name, "way": way}, run, full=True)


def _public() -> Iterator[Case]:
    """A small part of each data set three times; with --full all of it, once."""
    whole = {"full": True, "trials": 1, "seconds": 86_400}
    parts: tuple[tuple[str, str, str, int | None, dict[str, Any]], ...] = (
        (LOCOMO, "1 conversation", "LoCoMo", 1, {}),
        (LOCOMO, "all", "LoCoMo", None, whole),
        (LONGMEMEVAL, "oracle, 2 of each type", "oracle", 2, {}),
        (LONGMEMEVAL, "oracle", "oracle", None, whole),
        (LONGMEMEVAL, "S", "S", None, whole),
    )
    for name, part, file, count, more in parts:
        known = public.SOURCES[file].settings(INPUTS.data)
        for way in MEMORIES:
            run = partial(_told, file, count, way, name)
            given = {"full": way not in DEFAULT, "seconds": 7200, **more}
            yield _case({"set": name, "part": part, "way": way}, run, {"data": known}, **given)


async def _told(file: str, count: int | None, way: str, name: str, own: Asking, _: int) -> Figures:
    """The file is read first, so that an invalid file costs no call."""
    part = public.load(file, INPUTS.data, count)
    measure = public.measured_locomo if name == LOCOMO else public.measured_longmemeval
    found = await measure(own, part, MEMORIES[way])
    [one] = public.SOURCES[file].settings(INPUTS.data)
    data = f"{one['file']}, sha256 {one['sha256'][:12]}… ({one['checksum']}), {one['licence']}"
    return {**found, "data": data}


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
            "What does each memory cost, and how good are its answers?", "conversation, way, model",
            f"""turns; questions=asked; answer F1=f1:.3f; evidence recall=cited:.3f; answered; {_shares(*KINDS, *WIDER)};
            {_COST}""",
            {"conversation": tuple(CONVERSATIONS)},
            note=f"Conversations of a synthetic world, told to the memories of docs/memories.md. {_ONLY}",
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
            "Which framing of a yes/no question works best?", "yes or no, framing, model",
            f"""asked; right=right:.3f; 95 %=right between; right, by task=by task; worst wording=least:.3f;
            right at even odds=even:.3f; AUC=auc:.3f; right, calibrated=calibrated:.3f; 95 %=calibrated between;
            right, split=split:.3f; {_COST}""",
            {"yes or no": tuple(f"{kind}, {split}" for split in SPLITS for kind in ("filters", "pairs"))},
            note="How the framing in use was chosen; it is no longer measured. The test has 120 labelled texts of five tasks, "
            "each in three wordings, and 60 labelled pairs of three, each in two; figures are means over both. Intervals are "
            "bootstraps over rows. The framing and the log-odds from which on the answer is yes were chosen by development. "
            "Calibrated: on 20 labelled rows (16 pairs), mean of 40 draws of the share of the others. Split: "
            f"two groups of log-odds, without labels. {_ONLY}",
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
            "captions. Questions without an answer for a failed call count 0.",
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
    ),
    parts={
        "rows": Table("", "rows, way", f"{_FEW}; {_F1}", {"rows": (FILTER, JOIN), **_LOCAL}, note=_ROWS),
        "rankings": Table("", "rows, way", f"{_FEW}; {_TOP}", {"rows": RANKING, **_LOCAL}, note=_RANKS),
        "worlds": Table("", "messages, way", f"{_FEW}; {_GRAPH}", {"messages": SMALL, **_LOCAL}, note=_TELLS),
    },
    kind="real",
    sources=(*Benchmark.sources, "benchmarks/memories/conversations.py", "benchmarks/memories/memories.py"),
    lacks=INPUTS.lacks,
    options="--model local",
)  # fmt: skip
