"""Answers to graphiti-core's prompts: the form of the answer identifies the prompt, tags in the
text delimit its parts.

Written for graphiti-core 0.31.2. A prompt is answered by the same rules as semgraph's own, with the
same error rates, so that both use one model. Its reranker reads the probability of "True", which is
the score of semgraph's prompt.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.world.answers import gathering, memory, reading
from benchmarks.world.answers.judging import same, verdict
from benchmarks.world.answers.words import distinct, strength
from benchmarks.world.messages import names_in, names_of
from benchmarks.world.noise import Draw
from benchmarks.world.requests import NotUnderstood

Answer = dict[str, Any]
MakeDraw = Callable[[int], Draw]
"""The noise of a prompt that this many items share."""
_RELEVANT = re.compile(
    r"<PASSAGE>\s*(?P<passage>.*?)\s*</PASSAGE>\s*<QUERY>\s*(?P<query>.*?)\s*</QUERY>", re.DOTALL
)
_VERDICTS = {"verdict": {"enum": ["duplicate", "contradicts"]}}


class Asked:
    """One request: its text, read by tags."""

    def __init__(self, text: str, noise: MakeDraw, *, undated: bool) -> None:
        self.text, self.noise, self.undated = text, noise, undated

    def part(self, *tags: str) -> str:
        """The text in the first of these tags that exists. Raises NotUnderstood."""
        for tag in tags:
            if found := re.search(rf"<{tag}>\n(.*?)\n\s*</{tag}>", self.text, re.DOTALL):
                return found[1].strip()
        raise NotUnderstood(f"no <{tags[0]}> in the prompt")

    def parts(self, tag: str) -> list[Any]:
        """The list between tags, as JSON or as Python writes it. Raises NotUnderstood."""
        text = self.part(tag)
        try:
            found = json.loads(text)
        except json.JSONDecodeError:
            try:
                found = ast.literal_eval(text)
            except (ValueError, SyntaxError):
                raise NotUnderstood(f"no list in <{tag}>") from None
        return list(found)

    @property
    def content(self) -> str:
        """The message, text or JSON that is read."""
        return self.part("CURRENT MESSAGE", "CURRENT_MESSAGE", "CURRENT MESSAGES", "TEXT", "JSON")

    @property
    def history(self) -> list[str]:
        """The messages before, oldest first."""
        for tag in ("PREVIOUS MESSAGES", "PREVIOUS_MESSAGES"):
            if f"<{tag}>" in self.text:
                return [one["content"] for one in self.parts(tag)]
        return []


def _nodes(asked: Asked) -> Answer:
    json_ = "<JSON>" in asked.text
    names = names_in(asked.part("JSON")) if json_ else names_of(asked.content, asked.history)
    told = asked.noise(1).answer({"entities": [{"name": name} for name in names]}, {}, 1)
    more = {"entity_type_id": 0, "episode_indices": [0]}
    return {"extracted_entities": [{**one, **more} for one in told["entities"]]}


def _facts(asked: Asked, said_at: str, *, undated: bool) -> list[Answer]:
    record = {"content": asked.content, "history": asked.history, "valid_at": said_at}
    return [
        {
            "source_entity_name": fact["source"], "target_entity_name": fact["target"], "relation_type": fact["relation"],
            "fact": fact["fact"], "valid_at": fact["valid_at"], "invalid_at": fact["invalid_at"], "episode_indices": [0],
        }
        for fact in asked.noise(1).answer(reading.facts(record, undated=undated), {}, 1)["facts"]
    ]  # fmt: skip


def _edges(asked: Asked) -> Answer:
    said_at = asked.part("REFERENCE_TIME").split("#")[0].strip()
    return {"edges": _facts(asked, said_at, undated=asked.undated)}


def _combined(asked: Asked) -> Answer:
    facts = _facts(asked, "2000-01-01T00:00:00+00:00", undated=True)
    timeless = [{k: v for k, v in fact.items() if not k.endswith("valid_at")} for fact in facts]
    return _nodes(asked) | {"edges": timeless}


def _dated(fact: str, said_at: str, noise: Draw, number: int = 1) -> Answer:
    found = noise.answer(memory.dates({"fact": fact, "said_at": said_at}), {}, number)
    return {"valid_at": found["since"], "invalid_at": found["until"]}


def _timestamps(asked: Asked) -> Answer:
    return _dated(asked.part("FACT"), asked.part("REFERENCE TIME"), asked.noise(1))


def _timestamps_batch(asked: Asked) -> Answer:
    facts = asked.parts("FACTS")
    noise = asked.noise(len(facts))
    times = [_dated(f["fact"], f["reference_time"], noise, n) for n, f in enumerate(facts, 1)]
    return {"timestamps": times}


def _resolutions(asked: Asked) -> Answer:
    found = []
    known, mine = asked.parts("EXISTING ENTITIES"), asked.parts("ENTITIES")
    noise = asked.noise(max(1, len(known) * len(mine)))
    for one in mine:
        own, said = {"id": one["id"], "name": one["name"]}, asked.content
        fits = (
            number
            for number, other in ((k["candidate_id"], k) for k in known)
            if noise.yes(
                same(own["name"], said, other["name"], other.get("summary", "")), own["id"], number
            )
        )
        found.append({**own, "duplicate_candidate_id": next(fits, -1)})
    return {"entity_resolutions": found}


def _verdicts(asked: Asked) -> Answer:
    new = asked.part("NEW FACT")
    pools = {
        "same": asked.parts("EXISTING FACTS"),
        "rival": asked.parts("FACT INVALIDATION CANDIDATES"),
    }
    noise = asked.noise(max(1, sum(map(len, pools.values()))))
    repeated, contradicted = [], []
    for pool, one in ((pool, one) for pool, facts in pools.items() for one in facts):
        said = verdict(new, one["fact"])
        answer = noise.verdict({"verdict": said} if said else None, _VERDICTS, 1, one["idx"])
        told = answer and answer["verdict"]
        repeated += [one["idx"]] * ((pool, told) == ("same", "duplicate"))
        contradicted += [one["idx"]] * (told == "contradicts")
    return {"duplicate_facts": repeated, "contradicted_facts": contradicted}


def _summaries(asked: Asked) -> Answer:
    tag = "EPISODES" if "<EPISODES>" in asked.text else "MESSAGES"
    texts = re.findall(r'"content": ?"((?:[^"\\]|\\.)*)"', asked.part(tag))
    last = asked.part(tag).splitlines()[-1]
    texts.append(json.loads(last) if last.startswith('"') else last)
    heard = [{"content": text} for text in texts]
    found = []
    for one in asked.parts("ENTITIES"):
        new = gathering.about(heard, {"name": one["name"]})["summary"]
        summary = " ".join(distinct([one.get("summary") or "", new]))
        found.append({"name": one["name"], "summary": summary})
    return {"summaries": found}


def _pair(asked: Asked) -> Answer:
    listed = re.search(r"^\s*(\[.*\])\s*$", asked.text, re.MULTILINE)
    if listed is None:
        raise NotUnderstood("no summaries in the prompt")
    texts = [
        one if isinstance(one, str) else one.get("summary", "") for one in json.loads(listed[1])
    ]
    return {"summary": " ".join(distinct(texts))}


def _description(asked: Asked) -> Answer:
    text = re.search(r'^\s*(".*")\s*$', asked.text, re.MULTILINE)
    heading = gathering.heading(json.loads(text[1])) if text else ""
    return {"description": heading or "Around nobody"}


_FORMS: Mapping[str, Callable[[Asked], Answer]] = {
    "ExtractedEntities": _nodes, "ExtractedEdges": _edges, "CombinedExtraction": _combined,
    "EdgeTimestamps": _timestamps, "BatchEdgeTimestamps": _timestamps_batch, "NodeResolutions": _resolutions,
    "EdgeDuplicate": _verdicts, "SummarizedEntities": _summaries, "Summary": _pair, "SummaryDescription": _description,
}  # fmt: skip


def form_of(body: Mapping[str, Any]) -> str:
    """Which of graphiti-core's answers a request wants; "" if it is none of its requests."""
    name = (body.get("response_format") or {}).get("json_schema", {}).get("name", "")
    return name if name in _FORMS else ""


def answer(body: Mapping[str, Any], noise: MakeDraw, *, undated: bool) -> Answer:
    """The answer to one of graphiti-core's requests. Raises NotUnderstood."""
    text = "\n".join(message["content"] for message in body["messages"])
    return _FORMS[form_of(body)](Asked(text, noise, undated=undated))


def relevance(body: Mapping[str, Any], noise: MakeDraw) -> float | None:
    """The probability that a passage is relevant; None if this is another prompt."""
    found = _RELEVANT.search(body["messages"][-1]["content"]) if body.get("logprobs") else None
    if found is None:
        return None
    told = {"score": strength(f"Query: {found['query']}\nPassage: {found['passage']}")}
    share: float = noise(1).answer(told, {}, 1)["score"] / 100
    return share
