"""Stories in which a fact ends, or none: their labels, and what is counted, with a model of a few
rules that reads sentences in the first person.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from benchmarks.real.asking import Asking, Noted
from benchmarks.real.contradictions import GIVEN, READ, Story, contradicted, stories
from benchmarks.world import StandIn
from semgraph.llm.base import Reply, Request
from semgraph.llm.embed.openai import OpenAIEmbedder
from semgraph.llm.openai import OpenAI

SPLITS = ("development", "test")


class FirstEnds(Noted):
    """Takes each sentence for a fact between the speaker and its last name, and lets each new fact
    end the first of the known ones that it is compared with.
    """

    async def complete(self, request: Request) -> Reply:
        return Reply(json.dumps(self._answer(request)))

    def _answer(self, request: Request) -> dict[str, Any]:
        fields = json.loads(request.schema)["properties"]
        text = request.messages[-1].content
        if "match" in fields:
            return {"match": True, "verdict": "contradicts"}
        if "matches" in fields:
            lefts = re.findall(r"^(\d+)\. .* compare with: ", text, re.MULTILINE)
            first = re.findall(r"^(\d+)\. ", text.partition("Right records:")[2], re.MULTILINE)[0]
            pairs = [{"left": int(n), "right": int(first)} for n in lefts]
            return {"matches": [{**pair, "verdict": "contradicts"} for pair in pairs]}
        return self._read(text, fields)

    def _read(self, text: str, fields: dict[str, Any]) -> dict[str, Any]:
        speaker, said = re.findall(r"^Message: (.*?)\(user\): (.*)$", text, re.MULTILINE)[0]
        ends = {s: re.findall(r"[A-Z]\w+", s)[-1] for s in said.removesuffix(".").split(". ")}
        if "entities" in fields:
            names = dict.fromkeys([speaker, *ends.values()])
            return {"entities": [{"name": name, "kind": "other"} for name in names]}
        at = re.findall(r"^Said at: (.*)$", text, re.MULTILINE)[0]
        return {
            "facts": [
                {"fact": fact, "source": speaker, "relation": "IS", "target": name}
                | {"valid_at": at, "invalid_at": None}
                for fact, name in ends.items()
            ]
        }


@pytest.fixture
async def own() -> AsyncIterator[Asking]:
    async with StandIn() as server:
        llm = FirstEnds(OpenAI("gpt-4.1-mini", server.base_url, "none"))
        asked = Asking(llm, OpenAIEmbedder("stand-in", 256, server.base_url, "none"))
        yield asked
        await asked.llm.aclose()
        await asked.embedder.aclose()
        await asked.store.aclose()


def ends(story: Story) -> list[int]:
    return [n for n, known in enumerate(story.known) if known["is"] == "contradicts"]


@pytest.mark.parametrize("split", SPLITS)
def test_half_of_the_stories_end_a_fact_and_half_end_none(split: str) -> None:
    counts = [len(ends(story)) for story in stories(split) if story.turns]
    assert len(counts) >= 16
    assert sorted(counts) == [0] * (len(counts) // 2) + [1] * (len(counts) // 2)


def test_a_story_of_the_test_shares_no_message_and_no_speaker_with_development() -> None:
    development, test = (
        {turn.partition("(")[0] for story in stories(split) for turn in story.turns}
        for split in SPLITS
    )
    assert not development & test


@pytest.mark.parametrize("split", SPLITS)
def test_each_known_fact_is_recognised_by_its_words(split: str) -> None:
    for story in (story for story in stories(split) if story.turns):
        facts = [known["fact"] for known in story.known]
        assert [story.recognised(fact) for fact in facts] == [*range(len(facts))]


def test_a_fact_without_the_words_of_a_known_one_is_none_of_them() -> None:
    assert stories("test")[0].recognised("Lena lives in Rome.") is None


async def test_ends_of_given_facts_are_counted(own: Asking) -> None:
    told = stories("test")
    first = sum(0 in ends(story) for story in told)
    figures = await contradicted(own, "test", GIVEN)
    assert (figures["to end"], figures["ended"]) == (10, first)
    assert figures["ended wrongly"] == len(told) - first
    assert figures["precision"] == round(first / len(told), 4)


async def test_ends_of_messages_are_those_that_the_last_one_made(own: Asking) -> None:
    figures = await contradicted(own, "test", READ)
    assert figures["to end"] == 10
    assert 0 < int(str(figures["ended"])) <= 10
    assert own.figures()["failed"] == 0
