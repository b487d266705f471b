"""MuSiQue as HippoRAG uses it: questions that need two to four passages, and extracted facts that
come with it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.public.files import Place, Source, read_json
from benchmarks.public.memories import PLANS, mean
from benchmarks.public.scores import best_f1, exact, recall_at
from benchmarks.real.asking import Asking, Figures
from benchmarks.suite import Unmeasured
from semgraph.stores.sqlite.store import SqliteStore

_REPOSITORY = "https://github.com/OSU-NLP-Group/HippoRAG"
_FOLDERS = ("reproduce/dataset", "dataset", "musique")
_LICENCE = "CC BY 4.0 (MuSiQue); MIT (HippoRAG's selection)"
QUESTIONS = Source("musique.json", f"{_REPOSITORY} (reproduce/dataset)", _LICENCE, folders=_FOLDERS)
CORPUS = Source(
    "musique_corpus.json", f"{_REPOSITORY} (reproduce/dataset)", _LICENCE, folders=_FOLDERS
)
OPENIE = tuple(
    Source(
        f"openie_results_ner_{model}.json",
        f"{_REPOSITORY} (outputs/musique)",
        "MIT",
        folders=("outputs/musique",),
    )
    for model in ("gpt-4o-mini", "meta-llama_Llama-3.3-70B-Instruct")
)
WAYS = ("passages", "passages and OpenIE", "passages and mention_graph")
"""The corpus to search: passages alone; with published facts; with facts that the model extracts.
"""
_NAMES = uuid.UUID("b1a6a3f4-0a51-5f2e-8a5e-6a8f1f0c7d22")
_GROUP = "musique"


@dataclass(frozen=True)
class Passage:
    """A passage of the corpus."""

    title: str
    text: str

    @property
    def name(self) -> str:
        """Its id."""
        return str(uuid.uuid5(_NAMES, f"{self.title}\n{self.text}"))

    @property
    def row(self) -> dict[str, str]:
        """As keep_passages takes it."""
        return {"uuid": self.name, "corpus": _GROUP, "title": self.title, "text": self.text}


@dataclass(frozen=True)
class Question:
    """A question, its true answers, and the ids of the passages that it needs."""

    id: str
    text: str
    truths: tuple[str, ...]
    needs: frozenset[str]


@dataclass(frozen=True)
class Part:
    """Questions, and the passages that are searched: the whole corpus, or those that come with the
    questions.
    """

    questions: Sequence[Question]
    passages: Sequence[Passage]


def load(folder: Path | None, count: int | None = None) -> Part:
    """The first questions with their own passages; or all of them with the whole corpus.

    Raises:
        Unmeasured: A file is missing, or not of this form.
    """
    entries = list(read_json(QUESTIONS, folder))[:count]
    questions = [_question(entry, i) for i, entry in enumerate(entries)]
    if count is None:
        passages = [_passage(entry) for entry in read_json(CORPUS, folder)]
    else:
        passages = [_passage(one) for entry in entries for one in entry["paragraphs"]]
    return Part(questions, list(dict.fromkeys(passages)))


def _passage(place: Place) -> Passage:
    return Passage(
        place["title"].text, place["paragraph_text" if "paragraph_text" in place else "text"].text
    )


def _question(entry: Place, number: int) -> Question:
    answer = entry["answer"]
    truths = answer.texts if isinstance(answer.value, list) else [answer.words]
    truths += entry["answer_aliases"].texts if "answer_aliases" in entry else []
    needs = [_passage(one).name for one in entry["paragraphs"] if _supports(one["is_supporting"])]
    if not needs:
        raise entry["paragraphs"].wrong("a passage that is_supporting")
    name = entry["id"].words if "id" in entry else str(number)
    return Question(name, entry["question"].text, tuple(truths), frozenset(needs))


def _supports(place: Place) -> bool:
    if not isinstance(place.value, bool):
        raise place.wrong("true or false")
    return place.value


def extracted(folder: Path | None, passages: Sequence[Passage]) -> list[dict[str, str]]:
    """The facts that HippoRAG's authors extracted from passages, with one of their models.

    Raises:
        Unmeasured: The file is missing or has another format.
    """
    names = {f"{p.title}\n{p.text}": p.name for p in passages}
    source = opened(folder)
    return [
        _fact(names[document["passage"].text], *triple.texts)
        for document in read_json(source, folder)["docs"]
        if document["passage"].text in names
        for triple in document["extracted_triples"]
        if len(triple.texts) == 3
    ]


def opened(folder: Path | None) -> Source:
    """The extraction that exists. Raises Unmeasured."""
    for source in OPENIE:
        try:
            source.within(folder)
        except Unmeasured:
            continue
        return source
    OPENIE[0].within(folder)
    raise AssertionError


def _fact(passage: str, subject: str, relation: str, target: str) -> dict[str, str]:
    fact = f"{subject} {relation} {target}"
    return {
        "corpus": _GROUP,
        "passage": passage,
        "subject": subject,
        "object": target,
        "fact": fact,
    }


async def mentioned(asking: Asking, passages: Sequence[Passage]) -> list[dict[str, str]]:
    """The facts that the model states when mention_graph reads each passage by itself."""
    asking.afford([p.text for p in passages], 1, f"reading {len(passages):,} passages")
    turns = [
        {
            "session": p.name, "number": 0, "content": f"{p.title}.\n{p.text}", "valid_at": datetime(2020, 1, 1, tzinfo=UTC),
            "source": "text",
        }
        for p in passages
    ]  # fmt: skip
    kept, asking.store = asking.store, SqliteStore(":memory:")  # a graph of its own
    try:
        result = await asking.run("mention_graph", turns=turns)
    finally:
        await asking.store.aclose()
        asking.store = kept
    names = {row["uuid"]: row["mention"] for row in result.tables["nodes"].to_pylist()}
    return list(_related(result.tables["edges"].to_pylist(), names))


def _related(edges: Sequence[dict[str, Any]], names: dict[str, str]) -> Iterator[dict[str, str]]:
    for edge in edges:
        yield {
            "corpus": _GROUP, "passage": edge["session"], "subject": names[edge["source"]],
            "object": names[edge["target"]], "fact": edge["description"],
        }  # fmt: skip


async def measured(asking: Asking, part: Part, way: str, folder: Path | None) -> Figures:
    """The share of the passages needed among the first 2 and 5, and exact match and F1 of answers
    made from 5.
    """
    facts: list[dict[str, str]] = []
    if way == "passages and OpenIE":
        facts = extracted(folder, part.passages)
    elif way == "passages and mention_graph":
        facts = await mentioned(asking, part.passages)
    await asking.run(
        PLANS / "keep_passages.yaml", passages=[p.row for p in part.passages], facts=facts
    )
    asking.afford([q.text for q in part.questions], 1, f"asking {len(part.questions):,} questions")
    rows = [{"id": q.id, "corpus": _GROUP, "query": q.text} for q in part.questions]
    result = await asking.run(
        PLANS / "ask_passages.yaml", params={"facts": 40 if facts else 0}, questions=rows
    )
    found: dict[str, list[str]] = {q.id: [] for q in part.questions}
    for row in sorted(result.tables["ranked"].to_pylist(), key=lambda row: row["rank"]):
        found[row["id"]].append(row["passage"])
    answers = {row["id"]: row["answer"] for row in result.tables["answers"].to_pylist()}
    return {
        "questions": len(part.questions),
        "passages": len(part.passages),
        "facts": len(facts),
        **{
            f"recall@{k}": mean([recall_at(k, found[q.id], q.needs) for q in part.questions])
            for k in (2, 5)
        },
        "exact": mean([exact(answers.get(q.id) or "", q.truths) for q in part.questions]),
        "f1": mean([best_f1(answers.get(q.id) or "", q.truths) for q in part.questions]),
        "unanswered": sum(answers.get(q.id) is None for q in part.questions),
    }
