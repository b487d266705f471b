"""The model of the checks, for requests in LOTUS's words: they are read, asked of the model as
semgraph asks, and answered as LOTUS wants them. A request that does not say what LOTUS's prompts
say is an error of the test.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from semgraph.conformance import Subject
from semgraph.conformance.cases import Case, Oracle, mind
from semgraph.llm.base import Message, Reply, Request

_FIELD = re.compile(r"\[(\w+)\]: «(.*?)»\n(?=\n*\[\w+\]: «|\s*\Z)", re.DOTALL)
_ASKED = {
    "sem_map": "“Name”",
    "sem_filter": "Is “Name” good?",
    "sem_topk": "How loud is “Name”?",
    "sem_agg": "Name",
    "sem_join": "The record {left} and the record {right} match.",
}


@dataclass
class Reading:
    """An `LLM` around that of a check."""

    inner: Any
    operator: str

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def complete(self, request: Request) -> Reply:
        text = request.messages[-1].content
        assert _ASKED[self.operator] in text, text
        size = sum(self.count_tokens(message.content) for message in request.messages)
        assert size + request.max_tokens <= self.limits.context_tokens, (
            "a request that does not fit was sent"
        )
        system, user, schema = getattr(self, f"_{self.operator}")(request, text)
        asked = replace(
            request, messages=(Message("system", system), Message("user", user)), schema=schema
        )
        reply: Reply = await self.inner.complete(asked)
        return replace(reply, text=self._said(json.loads(reply.text)))

    def _said(self, document: dict[str, Any]) -> str:
        if self.operator == "sem_filter":
            return f"Answer: {document['answer'] == 'yes'}"
        if self.operator == "sem_join":
            return f"Answer: {document['match']}"
        return (
            f"Document {document['ranking'][0]}"
            if self.operator == "sem_topk"
            else json.dumps(document)
        )

    def _sem_map(self, request: Request, text: str) -> tuple[str, str, str]:
        values = fields(text.removeprefix("Context:\n").partition("\n\nInstruction: ")[0])
        if "Form “Name” as Kind." in text:
            return "", f"Form “{values['Name']}” as {values['Kind']}.", request.schema
        assert "Describe “Name” of At." in text, text
        return "", f"Describe “{values['Name']}” of {values['At']}.", request.schema

    def _sem_filter(self, request: Request, text: str) -> tuple[str, str, str]:
        assert not request.schema
        values = fields(text.removeprefix("Context:\n").partition("\n\nClaim: ")[0])
        return "", f"Is “{values['Name']}” good?", schema("answer")

    def _sem_join(self, request: Request, text: str) -> tuple[str, str, str]:
        assert not request.schema
        values = fields(text.removeprefix("Context:\n").partition("\n\nClaim: ")[0])
        context, _, left = values["Left"].rpartition("Left:")
        user = f"Left record:\nLeft:{left}\n\nRight record:\n{values['Right']}"
        return "", f"{context}{user}", schema("match")

    def _sem_topk(self, request: Request, text: str) -> tuple[str, str, str]:
        _, first, second = re.split(r"\nDocument [12]:\n", text)
        return (
            "The question, as asked:\nHow loud is “<name>”?",
            records([fields(first), fields(second)]),
            schema("ranking"),
        )

    def _sem_agg(self, request: Request, text: str) -> tuple[str, str, str]:
        listed = text.partition("---\n\nContext: ")[2].rpartition("\n\nInstruction: ")[0]
        documents = re.split(r"\n\t(?:Document|Source) \d+: ", listed)[1:]
        return "", records([fields(d) or json.loads(d) for d in documents]), schema("words", "rows")


def fields(document: str) -> dict[str, str]:
    """What a document of LOTUS's says, by column."""
    return dict(_FIELD.findall(document + "\n"))


def records(values: list[dict[str, Any]]) -> str:
    lines = []
    for n, value in enumerate(values, 1):
        name = {"name": value["Name"]} if "Name" in value else value
        lines.append(f"{n}. {'' if 'Name' in value else 'part '}{json.dumps(name)}")
    return "Records:\n" + "\n".join(lines)


def schema(*names: str) -> str:
    """The form of an answer, as far as the model of the checks looks at it."""
    return json.dumps({"properties": {name: {} for name in names}})


class LotusWay(Subject):
    """A way that speaks as LOTUS does. Its sem_join returns no answers beside a match, so none are
    asked for.
    """

    async def answers(self, case: Case, llm: Any = None, asked: Any = None) -> pa.Table:
        case.answers = False
        return await super().answers(
            case, Reading(llm or Oracle(mind(case.operator)), case.operator), asked
        )
