"""A simulated model that answers only from the text of a request, and looks for rows of two
partitions in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from semgraph.conformance.cases import Mind, Oracle, think
from semgraph.errors import RowError
from semgraph.llm.base import Reply, Request, Usage
from tests.fuzz import answers
from tests.fuzz.rows import FAILING

_CANARY = re.compile(r"canary-\w+")
_REFUSED = re.compile(r"not valid: (.*)\. Answer again, in the form asked for\.\Z", re.DOTALL)
_UNKNOWN = re.compile(r"(?:; )?[\w.]+ has -?\d+, which is the number of no record\Z")


class Model(Oracle):
    """Answers each question by a pure function of its text, and refuses requests with the mark of
    failure.
    """

    def __init__(self) -> None:
        super().__init__(Mind())
        self.mixed: list[str] = []  # what requests with rows of two partitions say

    async def complete(self, request: Request) -> Reply:
        """Answer a request by its schema. Raises RowError."""
        self.requests.append(request)
        text = "\n".join(message.content for message in request.messages)
        if len(set(_CANARY.findall(text))) > 1:
            self.mixed.append(text)
        if FAILING in text:
            raise RowError("refused", "the model has no answer")
        found = json.dumps(think(_mind(request), request))
        return Reply(
            found,
            Usage(self.count_tokens(text), 0, self.count_tokens(found)),
            call_id=request.fingerprint[:12],
            dollars=0.0,
        )


def _refusals(request: Request) -> list[str]:
    """Why earlier answers did not meet the check, as one text; an answer of a wrong form comes again."""
    found = _REFUSED.search(request.messages[-1].content)
    said = _UNKNOWN.sub("", found[1]) if found else ""
    return [said] if said else []


def _mind(request: Request) -> Mind:
    kinds = _kinds(json.loads(request.schema))
    said = _refusals(request)

    def answer(text: str) -> dict[str, Any]:
        if kinds.get("answer") == "yes or no":
            verdict = {"answer": "yes" if answers.yes(*said, text) else "no"}
            rest = {name: kind for name, kind in kinds.items() if name != "answer"}
            return {
                n: answers.of_group(n, kind, [*said, text]) for n, kind in rest.items()
            } | verdict
        return {name: answers.of_group(name, kind, [*said, text]) for name, kind in kinds.items()}

    def combine(texts: list[str], _earlier: list[dict[str, Any]]) -> dict[str, Any]:
        return {name: answers.of_group(name, kind, [*said, *texts]) for name, kind in kinds.items()}

    def match(left: str, right: str) -> dict[str, Any] | None:
        if not answers.yes(*said, left + right):
            return None
        texts = [*said, left + right]
        return {name: answers.of_group(name, kind, texts) for name, kind in kinds.items()}

    return Mind(
        answer=answer, match=match, combine=combine, score=lambda text: float(answers.score(text))
    )


def _kinds(schema: Mapping[str, Any]) -> dict[str, str]:
    """The answers to one question that a schema asks for, with their types."""
    properties = schema["properties"]
    for packed in ("answers", "matches"):
        if packed in properties:
            properties = properties[packed]["items"]["properties"]
    return {
        name: _kind(body)
        for name, body in properties.items()
        if name not in {"id", "left", "right", "match"}
    }


def _kind(body: Mapping[str, Any]) -> str:
    if "anyOf" in body:
        return _kind(body["anyOf"][0])
    if body.get("type") == "array" and body["items"].get("type") == "integer":
        return "integers"
    return "yes or no" if body.get("enum") == ["yes", "no"] else str(body.get("type", ""))
