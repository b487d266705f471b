"""LoCoMo: ten conversations over months between two people, and questions about them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.memories.memories import Memory
from benchmarks.public.files import Place, Source, read_json
from benchmarks.public.memories import Part, Question, Turn, ask, mean, once, remember
from benchmarks.public.scores import locomo, recall_at
from benchmarks.real.asking import Asking, Figures

SOURCE = Source(
    "locomo10.json",
    "https://github.com/snap-research/locomo (data/locomo10.json)",
    "CC BY-NC 4.0",
    "79fa87e90f04081343b8c8debecb80a9a6842b76a7aa537dc9fdf651ea698ff4",
    ("data", "locomo", "locomo/data"),
)
KINDS = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
"""The names of the file's categories."""
_TIMES = ("%I:%M %p on %d %B, %Y", "%d %B, %Y")
_EVIDENCE = re.compile(r"D(\d+):(\d+)")


def load(folder: Path | None, conversations: int | None = None) -> Part:
    """The first conversations, or all: a turn for each of theirs, with the caption of the picture
    that was shared.

    Raises:
        Unmeasured: The file is missing, or not of this form.
    """
    turns: list[Turn] = []
    questions: list[Question] = []
    for sample in list(read_json(SOURCE, folder))[:conversations]:
        group = re.sub(r"\W", "-", sample["sample_id"].words)
        turns += _turns(sample["conversation"], group)
        questions += [_question(qa, f"{group}/{i}", group) for i, qa in enumerate(sample["qa"])]
    return Part(turns, questions)


def _turns(conversation: Place, group: str) -> Iterator[Turn]:
    conversation["speaker_a"].text  # noqa: B018 - raises where this is no conversation
    numbers = sorted(
        int(m[1]) for key in conversation.value if (m := re.fullmatch(r"session_(\d+)", key))
    )
    if not numbers:
        raise conversation.wrong('"session_1" and its like')
    for number in numbers:
        at = _time(conversation[f"session_{number}_date_time"])
        for turn in conversation[f"session_{number}"]:
            shared = f" [shares {turn['blip_caption'].text}]" if "blip_caption" in turn else ""
            speaker, text = turn["speaker"].text, turn["text"].text + shared
            yield Turn(group, turn["dia_id"].text, speaker, text, at)


def _time(place: Place) -> datetime:
    for form in _TIMES:
        try:
            return datetime.strptime(place.text.strip(), form).replace(tzinfo=UTC)
        except ValueError:
            continue
    raise place.wrong('a time like "1:56 pm on 8 May, 2023"')


def _question(qa: Place, name: str, group: str) -> Question:
    category = qa["category"].whole
    if category not in KINDS:
        raise qa["category"].wrong("a category from 1 to 5")
    adversarial = category == 5
    truth = "" if adversarial else qa["answer"].words
    evidence = {
        f"D{int(m[1])}:{int(m[2])}"
        for text in qa["evidence"].texts
        for m in _EVIDENCE.finditer(text)
    }
    return Question(name, group, qa["question"].text, truth, KINDS[category], frozenset(evidence))


async def measured(asking: Asking, part: Part, memory: Memory) -> Figures:
    """F1 by category, adversarial questions apart, and the share of the evidence among the first
    turns that answers cite, and that the model was shown.
    """
    await remember(asking, part, memory)
    answers = await ask(asking, part, memory)
    numbers = {kind: number for number, kind in KINDS.items()}
    scores: dict[str, list[float]] = {kind: [] for kind in numbers}
    recalls: dict[str, list[float]] = {"cited": [], "shown": []}
    for question in part.questions:
        given = answers[question.id]
        scores[question.kind].append(
            locomo(given.text or "", question.truth, numbers[question.kind])
        )
        if question.evidence and question.kind != "adversarial":
            recalls["cited"].append(recall_at(10, given.cited, question.evidence))
            recalls["shown"].append(recall_at(10, given.shown, question.evidence))
    answerable = [score for kind, own in scores.items() if kind != "adversarial" for score in own]
    sessions = once([f"{turn.group} {turn.at}" for turn in part.turns])
    return {
        "conversations": len({turn.group for turn in part.turns}),
        "sessions": len(sessions),
        "turns": len(part.turns),
        "questions": len(part.questions),
        "f1": mean(answerable),
        **{f"f1 {kind}": mean(own) for kind, own in scores.items() if kind != "adversarial"},
        **{f"questions {kind}": len(own) for kind, own in scores.items()},
        "declined": mean(scores["adversarial"]),
        "recall@10 cited": mean(recalls["cited"]),
        "recall@10 shown": mean(recalls["shown"]),
        "unanswered": sum(answer.text is None for answer in answers.values()),
    }
