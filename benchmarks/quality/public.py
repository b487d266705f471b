"""Public data sets, downloaded by the user: conversations are told to a memory, and questions are
answered from it, with the scores of their communities.

LoCoMo: ten conversations over months between two people. LongMemEval: chats of a user with an
assistant in many sessions; each question is a memory of its own. MuSiQue: questions over two to four
paragraphs, of which no single one tells the answer.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.frame import Unmeasured
from benchmarks.frame.cases import rounded
from benchmarks.memories.memories import Memory
from benchmarks.quality.asking import Asking, Figures
from benchmarks.quality.scores import all_at, any_at, best_f1, locomo, normal, recall_at

PLANS = Path(__file__).parent / "plans"
DECLINED = "Not mentioned"
"""The text for scorers and judges where a memory says that it does not know."""
KINDS = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
"""The categories of LoCoMo."""
JUDGED = {
    "single-session-user": "answer",
    "single-session-assistant": "answer",
    "single-session-preference": "preference",
    "multi-session": "answer",
    "temporal-reasoning": "time",
    "knowledge-update": "update",
}
"""The types of LongMemEval, and the rules by which their answers are judged."""
HOPS = ("2 hops", "3 hops", "4 hops")
"""The kinds of questions of MuSiQue."""
SHOWN = 5
"""The paragraphs that a memory shows with a question of MuSiQue, as in HippoRAG's experiments."""


@dataclass(frozen=True)
class Source:
    """A file of a public data set: its name, its address at its authors, its licence, the SHA-256 of
    the published file ("": nobody published one), and further folders to look in, below the user's.
    """

    name: str
    url: str
    licence: str
    sha256: str
    folders: tuple[str, ...]

    def within(self, folder: Path | None) -> Path:
        """The file in the user's folder. Raises Unmeasured with its origin and licence."""
        get = f"Get it from {self.url} (licence: {self.licence}) into a folder: --data FOLDER"
        if folder is None:
            raise Unmeasured(f"{self.name} is not shipped. {get}")
        places = [folder / below / self.name for below in ("", *self.folders)]
        for path in places:
            if path.is_file():
                return path
        raise Unmeasured(f"there is no {' nor '.join(map(str, places))}. {get}")

    def settings(self, folder: Path | None) -> list[dict[str, str]]:
        """What a line says about the data; nothing if there is no file."""
        try:
            found = checksum(self.within(folder))
        except Unmeasured:
            return []
        known = "as published" if found == self.sha256 else "not the published file"
        known = known if self.sha256 else "no published checksum"
        own = {"file": self.name, "licence": self.licence, "from": self.url}
        return [{**own, "sha256": found, "checksum": known}]


_LONG = "https://huggingface.co/datasets/xiaowu0162/longmemeval-cleaned"
_FOLDERS = ("data", "longmemeval", "longmemeval/data")
SOURCES = {
    "LoCoMo": Source(
        "locomo10.json", "https://github.com/snap-research/locomo (data/locomo10.json)", "CC BY-NC 4.0",
        "79fa87e90f04081343b8c8debecb80a9a6842b76a7aa537dc9fdf651ea698ff4", ("data", "locomo", "locomo/data"),
    ),
    "oracle": Source(
        "longmemeval_oracle.json", _LONG, "MIT",
        "821a2034d219ab45846873dd14c14f12cfe7776e73527a483f9dac095d38620c", _FOLDERS
    ),
    "S": Source(
        "longmemeval_s_cleaned.json", _LONG, "MIT",
        "d6f21ea9d60a0d56f34a05b609c79c88a451d2ae03597821ea3d5a9678c3a442", _FOLDERS
    ),
    "MuSiQue": Source(
        "musique_ans_v1.0_dev.jsonl", "https://github.com/StonyBrookNLP/musique (download_data.sh)", "CC BY 4.0",
        "", ("data", "musique", "musique/data"),
    ),
    "MuSiQue, 200": Source(
        "musique.json", "https://github.com/AdelWang/MIGRES (data/musique.json)", "CC BY 4.0",
        "bbc98ab676941cf3a481cb3361cfab334cd2a24c74ed42473e4d5c14cf7577d4", ("data", "musique", "musique/data"),
    ),
    "reviews": Source(
        "Reviews_2000.csv", "https://github.com/SemBench/SemBench (docs/static/data/paper-2025-10-01/movie/data)",
        "MIT or Apache-2.0; reviews of Rotten Tomatoes", "df231cfb189c9e169aa6afe415e4fa24533b04499179bbd61416c4c6af28ca21",
        ("data", "movie", "movie/data"),
    ),
}  # fmt: skip
"""LoCoMo; LongMemEval with the sessions of the evidence only, and with about fifty for each question;
MuSiQue's answerable questions, and 200 of them in lines of the same form; SemBench's reviews of movies.
"""


@cache
def checksum(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def turn(
    group: str, place: str, speaker: str, text: str, at: datetime, number: int = 0
) -> dict[str, Any]:
    """A turn as write plans take it. `place` is the name by which questions refer to their evidence:
    that of the turn, or of its session; `number` tells apart those of one session.
    """
    name = f"{group}/{place}/{number}"
    return {"conversation": group, "id": name, "at": at, "speaker": speaker, "text": text}


def place(turn_id: str) -> str:
    """The place of a turn, from its id."""
    return turn_id.partition("/")[2].rpartition("/")[0]


@dataclass(frozen=True)
class Question:
    """A question about a group, its true answer, its category in the data set, the places of the
    evidence, its time (None: after all turns), and further names of the answer.
    """

    id: str
    group: str
    text: str
    truth: str
    kind: str
    evidence: frozenset[str]
    at: datetime | None = None
    also: tuple[str, ...] = ()

    @property
    def abstains(self) -> bool:
        """Whether the right answer is that the history does not contain it."""
        return self.id.endswith("_abs")


@dataclass(frozen=True)
class Part:
    """Conversations and questions about them, all or some of a data set."""

    turns: Sequence[dict[str, Any]]
    questions: Sequence[Question]


@dataclass(frozen=True)
class Answer:
    """An answer, and the places of turns: those that the answer cites, and those behind the records that
    it was made from, best first. Without a text no answer came.
    """

    text: str | None
    cited: list[str]
    shown: list[str]


def load(
    name: str, folder: Path | None, count: int | None = None, questions: int | None = None
) -> Part:
    """All of a data set, or a part of it.

    Args:
        name: Of the source.
        folder: The user's.
        count: The first conversations of LoCoMo, questions of each type of LongMemEval, or
            paragraphs for each question of MuSiQue; None: all.
        questions: About each conversation, or of MuSiQue, at equal distances; None: all.

    Raises:
        Unmeasured: The file is missing, or not of this form.
    """
    source = SOURCES[name]
    path = source.within(folder)
    try:
        text = path.read_text(encoding="utf-8")
        if name.startswith("MuSiQue"):
            lines = [json.loads(line) for line in text.splitlines() if line.strip()]
            return _musique(spread(lines, questions), count)
        data = json.loads(text)
        return _locomo(data[:count], questions) if name == "LoCoMo" else _longmemeval(data, count)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"{path} is not {source.name} as published: {type(error).__name__} {error}"
        raise Unmeasured(f"{why}. Get it anew from {source.url}") from None


def spread(items: Sequence[Any], count: int | None) -> Sequence[Any]:
    """So many items at equal distances, or all."""
    if count is None or count >= len(items):
        return items
    return [items[n * len(items) // count] for n in range(count)]


def _musique(entries: Sequence[Mapping[str, Any]], each: int | None) -> Part:
    """The paragraphs of all questions in one group, as HippoRAG has them: with `each`, those that an
    answer needs and the first others up to this number. They have no time: a second apart.
    """
    numbers: dict[tuple[str, str], int] = {}
    questions = list[Question]()
    for entry in entries:
        held = sorted(entry["paragraphs"], key=lambda one: not one["is_supporting"])
        needed = sum(one["is_supporting"] for one in held)
        names = {}
        for one in held[: max(each or len(held), needed)]:
            text = (str(one["title"]), str(one["paragraph_text"]))
            names[f"P{numbers.setdefault(text, len(numbers))}"] = one["is_supporting"]
        evidence = frozenset(name for name, supports in names.items() if supports)
        kind, also = f"{int(entry['id'][0])} hops", tuple(map(str, entry["answer_aliases"]))
        own = (entry["id"], "musique", entry["question"], str(entry["answer"]), kind, evidence)
        questions.append(Question(*own, also=also))
    start = datetime(2000, 1, 1, tzinfo=UTC)
    turns = [
        turn("musique", f"P{n}", title, text, start + timedelta(seconds=n))
        for (title, text), n in numbers.items()
    ]
    return Part(turns, questions)


def _locomo(samples: Sequence[Mapping[str, Any]], count: int | None = None) -> Part:
    """A turn for each of theirs, with the caption of the picture that was shared."""
    turns: list[dict[str, Any]] = []
    questions: list[Question] = []
    for sample in samples:
        group, talk = re.sub(r"\W", "-", str(sample["sample_id"])), dict(sample["conversation"])
        talk["speaker_a"]  # raises where this is no conversation
        for number in sorted(
            int(m[1]) for key in talk if (m := re.fullmatch(r"session_(\d+)", key))
        ):
            at = _time(talk[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y")
            for one in talk[f"session_{number}"]:
                shared = f" [shares {one['blip_caption']}]" if "blip_caption" in one else ""
                text = one["text"] + shared
                turns.append(turn(group, one["dia_id"], one["speaker"], text, at))
        for i, qa in spread([*enumerate(sample["qa"])], count):
            kind = KINDS[qa["category"]]
            found = re.findall(r"D(\d+):(\d+)", " ".join(qa["evidence"]))
            truth = "" if kind == "adversarial" else str(qa["answer"])
            evidence = frozenset(f"D{int(a)}:{int(b)}" for a, b in found)
            questions.append(Question(f"{group}/{i}", group, qa["question"], truth, kind, evidence))
    return Part(turns, questions)


def _longmemeval(entries: Sequence[Mapping[str, Any]], each: int | None) -> Part:
    turns: list[dict[str, Any]] = []
    questions: list[Question] = []
    taken: Counter[str] = Counter()
    for entry in entries:
        name, kind = entry["question_id"], entry["question_type"]
        group, evidence = re.sub(r"\W", "-", name), frozenset(entry["answer_session_ids"])
        at, truth = _time(entry["question_date"], "%Y/%m/%d %H:%M"), str(entry["answer"])
        question = Question(name, group, entry["question"], truth, kind, evidence, at)
        JUDGED[kind]
        taken[sort := f"{kind} {question.abstains}"] += 1
        if each is None or taken[sort] <= each:
            questions.append(question)
            turns += _sessions(entry, group)
    return Part(list({turn["id"]: turn for turn in turns}.values()), questions)


def _sessions(entry: Mapping[str, Any], group: str) -> Iterator[dict[str, Any]]:
    held = (entry[f"haystack_{what}"] for what in ("session_ids", "dates", "sessions"))
    for name, date, session in zip(*held, strict=True):
        at = _time(date, "%Y/%m/%d %H:%M")
        for number, one in enumerate(session):
            yield turn(group, name, one["role"], one["content"], at, number)


def _time(text: str, form: str) -> datetime:
    return datetime.strptime(re.sub(r" \(\w+\)", "", text.strip()), form).replace(tzinfo=UTC)


async def ask(asking: Asking, part: Part, memory: Memory) -> dict[str, Answer]:
    """Tell the turns to a memory, and put the questions; answers by question."""
    texts = [one["text"] for one in part.turns]
    asking.afford(texts, memory.reads, f"reading {len(texts):,} turns")
    for plan, given in memory.written(part.turns):
        await asking.run(plan, **given)
    asking.afford([q.text for q in part.questions], 1, f"asking {len(part.questions):,} questions")
    questions = [
        {"conversation": q.group, "id": q.id, "question": q.text, "at": q.at}
        for q in part.questions
    ]
    result = await asking.run(memory.read, questions=questions, **memory.read_options)
    shown: dict[str, list[str]] = {}
    for row in sorted(result.tables["shown"].to_pylist(), key=lambda row: row["rank"]):
        shown.setdefault(row["question"], []).extend(map(place, row["turns"]))
    rows = {row["id"]: row for row in result.tables["answers"].to_pylist()}
    found = {}
    for q in part.questions:
        row = rows.get(q.id)
        cited = [place(one) for one in row["evidence"] or ()] if row else []
        text = (row["answer"] or DECLINED) if row else None
        both = (list(dict.fromkeys(places)) for places in (cited, shown.get(q.id, [])))
        found[q.id] = Answer(text, *both)
    return found


def mean(values: Sequence[float]) -> float | None:
    """The mean, or None of nothing."""
    return rounded(fmean(values)) if values else None


async def measured_locomo(asking: Asking, part: Part, memory: Memory) -> Figures:
    """F1 by category, adversarial questions apart, and the share of the evidence among the first
    turns that answers cite, and that the model was shown.
    """
    answers = await ask(asking, part, memory)
    scores: dict[str, list[float]] = {kind: [] for kind in KINDS.values()}
    recalls: dict[str, list[float]] = {"cited": [], "shown": []}
    for question in part.questions:
        given = answers[question.id]
        scores[question.kind].append(locomo(given.text or "", question.truth, question.kind))
        if question.evidence and question.kind != "adversarial":
            for by, own in recalls.items():
                own.append(recall_at(10, getattr(given, by), question.evidence))
    declined = scores.pop("adversarial")
    return {
        "questions": len(part.questions),
        "turns": len(part.turns),
        "f1": mean([score for own in scores.values() for score in own]),
        **{f"f1 {kind}": mean(own) for kind, own in scores.items()},
        "declined": mean(declined),
        **{f"recall@10 {by}": mean(own) for by, own in recalls.items()},
        "unanswered": sum(answer.text is None for answer in answers.values()),
    }


async def measured_musique(asking: Asking, part: Part, memory: Memory) -> Figures:
    """F1 and exact matches of the answers, the best over the names of the true one, and the share of
    the needed paragraphs that the model was shown, and that answers cite.
    """
    memory = memory.with_options({}, {"params": {"k": SHOWN}})
    answers, scores = await ask(asking, part, memory), list[tuple[str, float]]()
    exact, recalls = list[float](), dict[str, list[float]]({"cited": [], "shown": []})
    for question in part.questions:
        given, truths = answers[question.id], (question.truth, *question.also)
        scores.append((question.kind, best_f1(given.text or "", truths)))
        exact.append(float(normal(given.text or "") in set(map(normal, truths))))
        for by, own in recalls.items():
            own.append(recall_at(SHOWN, getattr(given, by), question.evidence))
    return {
        "questions": len(part.questions),
        "paragraphs": len(part.turns),
        "f1": mean([score for _, score in scores]),
        **{f"f1 {hops}": mean([s for kind, s in scores if kind == hops]) for hops in HOPS},
        "exact": mean(exact),
        **{f"recall {by}": mean(own) for by, own in recalls.items()},
        "unanswered": sum(answer.text is None for answer in answers.values()),
    }


_RECALLS = {"any": any_at, "all": all_at}


async def measured_longmemeval(asking: Asking, part: Part, memory: Memory) -> Figures:
    """The share of right answers by type, by a judge, and of sessions with evidence among the hits.
    Without a verdict an answer is wrong.
    """
    answers = await ask(asking, part, memory)
    rows = [
        {"id": q.id, "kind": "unanswerable" if q.abstains else JUDGED[q.kind], "query": q.text, "truth": q.truth,
         "answer": text}
        for q in part.questions
        if (text := answers[q.id].text) is not None
    ]  # fmt: skip
    result = await asking.run(PLANS / "judge.yaml", asking.judge, answers=rows)
    right = {row["id"]: bool(row["right"]) for row in result.tables["judged"].to_pylist()}
    each = [(q, float(right.get(q.id, False))) for q in part.questions]
    found = [(answers[q.id], q.evidence) for q in part.questions if q.evidence and not q.abstains]
    recalls = {}
    for (how, score), by, k in product(_RECALLS.items(), ("cited", "shown"), (5, 10)):
        shares = [score(k, getattr(answer, by), wanted) for answer, wanted in found]
        recalls[f"{how}@{k} {by}"] = mean(shares)
    return {
        "questions": len(part.questions),
        "turns": len(part.turns),
        "accuracy": mean([score for _, score in each]),
        "accuracy unanswerable": mean([score for q, score in each if q.abstains]),
        **{f"accuracy {kind}": mean([s for q, s in each if q.kind == kind]) for kind in JUDGED},
        **recalls,
        "unanswered": sum(answer.text is None for answer in answers.values()),
        "judge": ", ".join(sorted((asking.judge or asking.llm).versions)),
    }
