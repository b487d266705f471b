"""LongMemEval: chats of a user with an assistant in many sessions, and questions about a few of
them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.memories.memories import Memory
from benchmarks.public.files import Place, Source, read_json
from benchmarks.public.memories import Part, Question, Turn, ask, judged, mean, remember
from benchmarks.public.scores import all_at, any_at
from benchmarks.real.asking import Asking, Figures

_URL = "https://huggingface.co/datasets/xiaowu0162/longmemeval-cleaned"
_FOLDERS = ("data", "longmemeval", "longmemeval/data")
SOURCES = {
    "oracle": Source(
        "longmemeval_oracle.json", _URL, "MIT",
        "821a2034d219ab45846873dd14c14f12cfe7776e73527a483f9dac095d38620c", _FOLDERS,
    ),
    "S": Source(
        "longmemeval_s_cleaned.json", _URL, "MIT",
        "d6f21ea9d60a0d56f34a05b609c79c88a451d2ae03597821ea3d5a9678c3a442", _FOLDERS,
    ),
}  # fmt: skip
"""Only the sessions with the evidence; and about fifty sessions for each question."""
TYPES = (
    "single-session-user", "single-session-assistant", "single-session-preference", "multi-session",
    "temporal-reasoning", "knowledge-update",
)  # fmt: skip
JUDGED = {
    "single-session-preference": "preference",
    "temporal-reasoning": "time",
    "knowledge-update": "update",
}
"""By which rules an answer of a type is judged, where not by the general ones."""


def load(name: str, folder: Path | None, each: int | None = None) -> Part:
    """The first questions of each type, or all: the turns of all sessions, and each question a
    memory of its own.

    Raises:
        Unmeasured: The file is missing, or not of this form.
    """
    turns: list[Turn] = []
    questions: list[Question] = []
    taken: Counter[str] = Counter()
    for entry in read_json(SOURCES[name], folder):
        question = _question(entry)
        sort = f"{question.kind} {abstains(question)}"
        taken[sort] += 1
        if each is None or taken[sort] <= each:
            questions.append(question)
            turns += _sessions(entry, question.group)
    return Part(list(dict.fromkeys(turns)), questions)


def _question(entry: Place) -> Question:
    name, kind = entry["question_id"].text, entry["question_type"].text
    if kind not in TYPES:
        raise entry["question_type"].wrong("one of " + ", ".join(TYPES))
    return Question(
        name,
        re.sub(r"\W", "-", name),
        entry["question"].text,
        entry["answer"].words,
        kind,
        frozenset(entry["answer_session_ids"].texts),
        _time(entry["question_date"]),
    )


def _sessions(entry: Place, group: str) -> Iterator[Turn]:
    names, dates, sessions = (
        list(entry[f"haystack_{what}"]) for what in ("session_ids", "dates", "sessions")
    )
    if not len(names) == len(dates) == len(sessions):
        raise entry["haystack_sessions"].wrong(
            f"as many sessions as ids ({len(names)}) and dates ({len(dates)})"
        )
    for name, date, session in zip(names, dates, sessions, strict=True):
        for number, turn in enumerate(session):
            yield Turn(
                group, name.text, turn["role"].text, turn["content"].text, _time(date), number
            )


def _time(place: Place) -> datetime:
    try:
        return datetime.strptime(
            re.sub(r" \(\w+\)", "", place.text.strip()), "%Y/%m/%d %H:%M"
        ).replace(tzinfo=UTC)
    except ValueError:
        raise place.wrong('a time like "2023/05/20 (Sat) 02:21"') from None


async def measured(asking: Asking, part: Part, memory: Memory) -> Figures:
    """The share of right answers by type, by a judge, and of sessions with evidence among the hits."""
    await remember(asking, part, memory)
    answers = await ask(asking, part, memory)
    rows = [
        {
            "id": q.id, "kind": _judged_as(q), "query": q.text, "truth": q.truth, "answer": answers[q.id].text or "",
        }
        for q in part.questions
        if answers[q.id].text is not None
    ]  # fmt: skip
    right = await judged(asking, rows)
    by_type: dict[str, list[float]] = {kind: [] for kind in TYPES}
    for question in part.questions:
        by_type[question.kind].append(float(right.get(question.id, False)))
    everything = [one for own in by_type.values() for one in own]
    found = [(answers[q.id], q.evidence) for q in part.questions if q.evidence and not abstains(q)]
    return {
        "questions": len(part.questions),
        "sessions": len({(turn.group, turn.place) for turn in part.turns}),
        "turns": len(part.turns),
        "accuracy": mean(everything),
        "mean of types": mean([sum(own) / len(own) for own in by_type.values() if own]),
        "accuracy unanswerable": mean(
            [float(right.get(q.id, False)) for q in part.questions if abstains(q)]
        ),
        **{f"accuracy {kind}": mean(own) for kind, own in by_type.items()},
        **{f"questions {kind}": len(own) for kind, own in by_type.items()},
        **{
            f"{how}@{k} {by}": mean(
                [score(k, getattr(answer, by), wanted) for answer, wanted in found]
            )
            for how, score in (("any", any_at), ("all", all_at))
            for by in ("cited", "shown")
            for k in (5, 10)
        },
        "unanswered": sum(answer.text is None for answer in answers.values()),
        "judge": ", ".join(sorted((asking.judge or asking.llm).versions)),
    }


def _judged_as(question: Question) -> str:
    return "unanswerable" if abstains(question) else JUDGED.get(question.kind, "answer")


def abstains(question: Question) -> bool:
    """Whether the right answer is that the history does not contain it."""
    return question.id.endswith("_abs")
