"""The tables of the public data sets: their rows, figures and notes."""

from __future__ import annotations

from benchmarks.public import locomo, longmemeval
from benchmarks.suite import Column, Table

LOCOMO, LONGMEMEVAL, MOVIES, MUSIQUE = "LoCoMo", "LongMemEval", "SemBench movies", "MuSiQue"
_COST = (
    Column("calls", "calls"),
    Column("tokens_in", "tokens in"),
    Column("tokens_out", "out"),
    Column("usd", "$", "{:.4f}"),
    Column("seconds", "s"),
    Column("failed", "rows failed"),
    Column("version", "answered by"),
    Column("temperature", "temperature"),
    Column("embedder", "embedder"),
    Column("data", "data"),
)
_ROWS = ("part", "way", "model")


def _share(figure: str, title: str = "") -> Column:
    return Column(figure, title or figure, "{:.3f}")


TABLES = (
    Table(
        "LoCoMo: does a memory of months of conversation answer questions?",
        _ROWS,
        (
            Column("questions", "questions"),
            _share("f1", "F1, answerable"),
            *(
                _share(f"f1 {kind}", kind)
                for kind in locomo.KINDS.values()
                if kind != "adversarial"
            ),
            _share("declined", "adversarial: declined"),
            _share("recall@10 cited", "evidence cited @10"),
            _share("recall@10 shown", "shown @10"),
            *_COST,
        ),
        where={"set": LOCOMO},
        note="F1 of stemmed words, as LoCoMo scores; stems are Porter's, without the additions of nltk. Adversarial "
        "questions have no answer and are kept apart: the share that is answered by “Not mentioned”. LoCoMo itself "
        "offers that as one of two choices, here it is not offered, which is harder. Pictures are their "
        "captions. Evidence is cited by the answer, or shown to the model. Questions without an answer for a failed call "
        "count 0.",
    ),
    Table(
        "LongMemEval: are questions about many sessions answered, and is the session with the evidence found?",
        _ROWS,
        (
            Column("questions", "questions"),
            _share("accuracy"),
            *(_share(f"accuracy {kind}", kind) for kind in longmemeval.TYPES),
            _share("accuracy unanswerable", "unanswerable"),
            _share("all@5 cited", "all evidence cited @5"),
            _share("any@5 cited", "any @5"),
            _share("all@10 cited", "all @10"),
            _share("all@5 shown", "all evidence shown @5"),
            Column("judge", "judged by"),
            *_COST,
        ),
        where={"set": LONGMEMEVAL},
        note="Accuracy is the share of answers that a model judges right, by rules for each type in "
        "benchmarks/public/plans/prompts/judge_*.md: days off by one are right, of what changed the latest state "
        "counts, of preferences the use of what is known. LongMemEval judges with gpt-4o-2024-08-06 and prompts of "
        "its own; a share that another model judged is not comparable with published ones, and how far this judge "
        "agrees with people was not measured. Name it in semgraph.toml: [models] judge = …. Each question has "
        "a conversation of its own. Unanswerable questions count within their type too, and are left out "
        "of the evidence.",
    ),
    Table(
        "SemBench movies: what does each query cost, and how good are its answers?",
        _ROWS,
        (
            Column("reviews", "reviews"),
            Column("metric", "metric"),
            _share("quality", "F1 or Spearman"),
            _share("error", "relative error"),
            *_COST,
        ),
        where={"set": MOVIES},
        note="Q1, Q2, Q5 and Q6 want any 5 or 10 rows: recall is of these. `label` asks about each review once and "
        "compares labels; a duplicate review counts once. The wording of the queries is ours.",
    ),
    Table(
        "MuSiQue: are the passages found that a question needs, one leading to the next?",
        _ROWS,
        (
            Column("questions", "questions"),
            Column("passages", "passages"),
            Column("facts", "facts"),
            _share("recall@2"),
            _share("recall@5"),
            _share("exact", "exact match"),
            _share("f1", "F1"),
            *_COST,
        ),
        where={"set": MUSIQUE},
        note="Recall of the supporting passages; answers are made from the first five. Ranks of passages and of facts are "
        "fused; there is no walk over the graph, which HippoRAG has. With the passages of 20 questions alone the "
        "search is easier than over the whole corpus of 11,656.",
    ),
)
