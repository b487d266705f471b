"""Answers to LOTUS's prompts, identified by their first words; texts in them are between « and »."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.world.answers.fields import Source, combined, filled
from benchmarks.world.answers.words import holds, strength
from benchmarks.world.noise import Draw
from benchmarks.world.requests import NotUnderstood

_FIELD = re.compile(r"\[([\w:]+)\]: «(.*?)»", re.DOTALL)
_AGG = "Your job is to provide an answer to the user's instruction given the context below"
_FORMS = (
    "Your job is to to select",
    "The user will provide a claim",
    "The user will provide an instruction",
    _AGG,
)


def asked(texts: Sequence[str]) -> bool:
    """Whether the messages of a chat are a prompt of LOTUS's."""
    return texts[0].startswith(_FORMS) or texts[-1].startswith(_AGG)


def answer(texts: Sequence[str], body: Mapping[str, Any], noise: Draw) -> str:
    """The answer to a prompt of LOTUS's. Raises NotUnderstood."""
    system, user = texts[0], texts[-1]
    if system.startswith("Your job is to to select"):
        question, first, second = re.split(r"\n+Document [12]:\n", user.removeprefix("Question: "))
        better = strength(_filled(question, first)) >= strength(_filled(question, second))
        return f"Document {1 if noise.yes(better, 1) else 2}"
    if system.startswith("The user will provide a claim"):
        context, _, claim = user.removeprefix("Context:\n").rpartition("\n\nClaim: ")
        return f"Answer: {noise.yes(holds(_filled(claim, context)), 1)}"
    schema = _schema(body)
    found = [value for name, value in _FIELD.findall(user) if name == "Text"]
    if not found:
        raise NotUnderstood("no [Text] in the prompt")
    if user.startswith(_AGG):
        told = combined(schema, [Source(text) for text in found], [])
    else:
        told = filled(schema, Source(found[0]))
    return json.dumps(noise.answer(told, schema, 1), ensure_ascii=False)


def size(texts: Sequence[str]) -> int:
    """How many texts share the prompt."""
    return max(1, len(_FIELD.findall(texts[-1]))) if texts[-1].startswith(_AGG) else 1


def _filled(question: str, context: str) -> str:
    for name, value in _FIELD.findall(context):
        quoted = f"“{value}”".replace("\\", r"\\")
        question = re.sub(rf"“\{{?{re.escape(name)}\}}?”", quoted, question, flags=re.IGNORECASE)
    return question


def _schema(body: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = body["response_format"]["json_schema"]["schema"]["properties"]
    except (KeyError, TypeError):
        raise NotUnderstood(
            "a chat needs a response_format with a JSON Schema of an object"
        ) from None
    return found
