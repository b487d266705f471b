"""The simulated model of the pages: that of the benchmarks, and a rule for each question that pages
ask in words of their own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from zlib import crc32

from benchmarks.world import StandIn
from benchmarks.world.requests import NotUnderstood, Question

_SAID = re.compile(r"I (no longer )?(\w+)( [^.]*)?\.")
_MATTER = re.compile(r"User (no longer )?(\w+)")
_BROKEN = re.compile(r"leak|broke|stopped|late\b|cold|scratch|never", re.IGNORECASE)
_PRODUCT = re.compile(r"\b(?:Falcon )?(kettle|lamp|headphones|chair)\b", re.IGNORECASE)


_FRAMES = re.compile(
    r"complain about a leak|Which product is this about|What do all of these say|How angry is this"
    r"|Is this: [^{}]* about a |Which label fits this|Read the fields|How well does this answer"
)


class PageModel(StandIn):
    """Answers from the text of a prompt alone."""

    def answer(self, body: Mapping[str, Any]) -> tuple[str, str]:
        """The question of a chat, and its answer. Raises NotUnderstood."""
        if re.search(
            r"New (?:statement|message): |Memories: .* Question: ", str(body["messages"][-1])
        ):
            return "memory", memory_answer(body)
        if found := re.search(r"is “(.*)” as right an answer as “(.*)”", str(body["messages"][-1])):
            return "judge", json.dumps({"correct": bool(found[1]) and found[1] in found[2]})
        if _FRAMES.search(json.dumps(body["messages"], ensure_ascii=False)):
            return "frames", frame_answer(body)
        try:
            question = self._reader.read(body)
        except NotUnderstood:
            return super().answer(body)
        if question.shipped or question.form not in {"row", "records"}:
            return super().answer(body)
        told = {n: _told(question, record) for n, record in question.lefts.items()}
        if None in told.values():
            return super().answer(body)
        if "nano" in body["model"]:
            told = {n: _hasty(one, question.lefts[n], len(told)) for n, one in told.items()}
        if question.form == "row":
            return question.skill, json.dumps(told[1])
        return question.skill, json.dumps(
            {"answers": [{"id": n, **one} for n, one in told.items()]}
        )


def _told(question: Question, record: Mapping[str, Any]) -> dict[str, Any] | None:
    """The answer to a question of the pages about one row; None to any other."""
    words = question.said if question.form == "row" else f"{question.said}{question.words(record)}"
    asked = f"{question.rules}\n{words}"
    answers = {}
    for name, form in question.schema.items():
        if re.search("complain|defect", asked) and (
            name == "answer" or form.get("type") == "boolean"
        ):
            holds: Any = bool(_BROKEN.search(words))
            answers[name] = ("yes" if holds else "no") if "enum" in form else holds
        elif name == "names":
            answers[name] = re.findall(r"[A-Z][a-z]+", words.partition("“")[2])
        elif name == "headline":
            answers[name] = words.partition("“")[2].split(" ")[0]
        elif name == "memory" and "number" in words:
            answers[name] = 1
        elif "product" in asked and "product" in name:
            found = _PRODUCT.search(words)
            answers[name] = found[1].lower() if found else None
        else:
            return None
    return answers


def _hasty(told: dict[str, Any], record: Mapping[str, Any], beside: int) -> dict[str, Any]:
    """The answer of a small model: the more rows are in a call, the more thanks it takes for praise."""
    words = json.dumps(record)
    praise = "Thank you" in words and crc32(words.encode()) % 100 < 2 * beside
    return told | ({"answer": "no"} if praise and told.get("answer") == "yes" else {})


def statements(message: str) -> list[str]:
    """The sentences of a message that begin with I, in the third person."""
    return [f"User {no or ''}{verb}s{rest or ''}." for no, verb, rest in _SAID.findall(message)]


def decision(statement: str, known: list[dict[str, Any]]) -> dict[str, Any]:
    """What becomes of the listed memories: one with the same verb is about the same matter."""
    nothing = {"event": "ADD", "memory": None, "becomes": None}
    denied, matter = _MATTER.findall(statement)[0]
    for memory in known:
        if memory["text"] == statement:
            return nothing | {"event": "NOOP"}
        if _MATTER.findall(memory["text"])[0][1] == matter:
            change = {"event": "DELETE"} if denied else {"event": "UPDATE", "becomes": statement}
            return nothing | {"memory": memory["number"]} | change
    return nothing


def memory_answer(body: Mapping[str, Any]) -> str:
    """The answer to a question of docs/examples, from the words of the prompt alone."""
    asked = body["messages"][-1]["content"]
    if found := re.search(r"New statement: (.*)\nMemories: (.*)", asked):
        return json.dumps(decision(found[1], json.loads(found[2])))
    if found := re.search(r"Memories: (.*) Question: (.*)", asked):
        verb = re.findall(r"[Dd]o I (\w+)", found[2])[0]
        fitting = [text for text in json.loads(found[1]) if f" {verb}s" in text]
        return json.dumps({"answer": (fitting or ["I do not know."])[0]})
    return json.dumps({"statements": statements(asked.partition("New message: ")[2])})


def frame_answer(body: Mapping[str, Any]) -> str:
    """The answer to a question of the pages about data frames, from the sentence that it is about."""
    text = body["messages"][-1]["content"]
    fields = body["response_format"]["json_schema"]["schema"]["properties"]
    words = re.findall(r"kettle|pan\b", text)
    if "Read the fields" in text:
        return json.dumps({"product": (words or [None])[0], "urgent": "leaks" in text})
    ((name, kind),) = fields.items()
    if "Which label" in text:
        return json.dumps({name: kind["enum"]["leaks" not in text]})
    if "Records" in text:
        records = [json.loads(line) for line in re.findall(r"\{.*\}", text)]
        return json.dumps({name: " ".join(record["body"] for record in records)})
    if name == "match":
        return json.dumps({name: words in (["kettle", "kettle"], ["pan", "pan"])})
    if kind.get("type") == "number":
        return json.dumps({name: 90 if words[:1] == ["kettle"] else 10})
    if "enum" in kind:
        return json.dumps({name: "yes" if "leaks" in text else "no"})
    return json.dumps({name: words[0] if words else None})
