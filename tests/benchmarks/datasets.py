"""Tiny files in the forms of the public data sets; all of their content is made up here."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any


def written(path: Path, value: Any) -> Path:
    """A JSON file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def turn(place: str, speaker: str, text: str, **more: Any) -> dict[str, Any]:
    return {"speaker": speaker, "dia_id": place, "text": text, **more}


def locomo_sample(name: str = "conv-1") -> dict[str, Any]:
    """Two sessions of two people, and a question of each category."""
    ada, bo = "Ada Costa", "Bo Lindt"
    return {
        "sample_id": name,
        "conversation": {
            "speaker_a": ada,
            "speaker_b": bo,
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [turn("D1:1", ada, "I live in Riga."), turn("D1:2", bo, "I work at Luma.")],
            "session_2_date_time": "9:05 am on 3 June, 2023",
            "session_2": [
                turn("D2:1", ada, "I have moved to Porto.", img_url=["http://x"], blip_caption="a harbour"),
                turn("D2:2", bo, "I live in Oslo."),
            ],
            # as the real file: a time without a session
            "session_3_date_time": "9:05 am on 4 June, 2023",
        },
        "qa": [
            {"question": "Where does Bo Lindt live?", "answer": "Oslo", "evidence": ["D2:2"], "category": 4},
            {"question": "Where does Ada Costa live?", "answer": "Porto", "evidence": ["D2:1"], "category": 1},
            {"question": "When did Ada Costa move?", "answer": 2023, "evidence": ["D2:1"], "category": 2},
            {"question": "Does Bo Lindt like ships?", "answer": "Likely no; he is inland", "evidence": [], "category": 3},
            {"question": "Where does Cy Moss live?", "adversarial_answer": "Rome", "evidence": ["D1:1"], "category": 5},
        ],
    }  # fmt: skip


def longmemeval_entry(
    name: str, kind: str, question: str, answer: str, *, evidence: int = 1
) -> dict[str, Any]:
    """A question with two sessions; the answer is in the one of that number."""
    said = ["Ada Costa lives in Riga.", "Bo Lindt lives in Oslo."]
    return {
        "question_id": name,
        "question_type": kind,
        "question": question,
        "answer": answer,
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/21 (Sun) 04:17"],
        "haystack_session_ids": ["s1", "s2"],
        "haystack_sessions": [
            [{"role": "user", "content": text}, {"role": "assistant", "content": "So much to do."}]
            for text in said
        ],
        "answer_session_ids": [f"s{evidence}"],
    }


def longmemeval() -> list[dict[str, Any]]:
    where = "Where does {} live?"
    return [
        longmemeval_entry("q1", "single-session-user", where.format("Ada Costa"), "Riga"),
        longmemeval_entry("q2", "knowledge-update", where.format("Bo Lindt"), "Oslo", evidence=2),
        longmemeval_entry(
            "q3", "single-session-user", where.format("Ada Costa"), "Rome"
        ),  # the answer given is wrong
        longmemeval_entry(
            "q4_abs", "multi-session", where.format("Cy Moss"), "That cannot be told."
        ),
    ]


LEAD = {"title": "Project Fern", "text": "Ada Costa leads Project Fern."}
HOME = {"title": "Ada Costa", "text": "Ada Costa lives in Riga."}
BESIDE = {"title": "Luma", "text": "Bo Lindt works at Luma."}


def musique(folder: Path, *, openie: bool = True) -> None:
    """A question of two hops, its passages, the corpus, and facts that were extracted from it."""

    def paragraph(passage: dict[str, str], *, needed: bool) -> dict[str, Any]:
        return {
            "idx": 0,
            "title": passage["title"],
            "paragraph_text": passage["text"],
            "is_supporting": needed,
        }

    paragraphs = [
        paragraph(LEAD, needed=True),
        paragraph(BESIDE, needed=False),
        paragraph(HOME, needed=True),
    ]
    question = "Where does the leader of Project Fern live?"
    entry = {
        "id": "2hop__1",
        "question": question,
        "answer": "Riga",
        "answer_aliases": ["Rīga"],
        "paragraphs": paragraphs,
    }
    written(folder / "musique.json", [entry])
    written(folder / "musique_corpus.json", [LEAD, HOME, BESIDE])
    if openie:
        documents = [
            {
                "idx": f"chunk-{i}",
                "passage": f"{one['title']}\n{one['text']}",
                "extracted_entities": [],
                "extracted_triples": [[*one["text"].split(" ", 1), "thing"], ["broken"]],
            }
            for i, one in enumerate((LEAD, HOME))
        ]
        written(folder / "outputs/musique/openie_results_ner_gpt-4o-mini.json", {"docs": documents})


REVIEWS = (
    ("taken_3", "1", "A wonderful chase.", "POSITIVE", "4/5"),
    ("taken_3", "2", "Dull and tedious.".lower(), "NEGATIVE", "1/5"),
    ("taken_3", "3", "It is moving at last.", "POSITIVE", "3/5"),
    ("taken_3", "4", "Quite dull.", "NEGATIVE", ""),
    ("ant_man_and_the_wasp_quantumania", "5", "A wonderful, moving film.", "POSITIVE", "5/5"),
    ("ant_man_and_the_wasp_quantumania", "6", "A tedious film.", "NEGATIVE", "2/5"),
    ("ant_man_and_the_wasp_quantumania", "7", "Simply wonderful.", "POSITIVE", "4/5"),
    ("ant_man_and_the_wasp_quantumania", "7", "Simply wonderful.", "POSITIVE", "4/5"),
    (
        "ant_man_and_the_wasp_quantumania",
        "8",
        "Nothing, at length, and tedious, dull.",
        "NEGATIVE",
        "1/5",
    ),
)


def movies(folder: Path) -> None:
    """Reviews, with labels and scores, and films."""
    columns = ("id", "reviewId", "reviewText", "scoreSentiment", "originalScore")
    table(folder / "Reviews.csv", columns, REVIEWS)
    films = [("taken_3", "43.0"), ("ant_man_and_the_wasp_quantumania", "83.0"), ("unseen", "")]
    table(folder / "Movies.csv", ("id", "audienceScore"), films)


def table(path: Path, columns: Any, rows: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
