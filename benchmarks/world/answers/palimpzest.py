"""Answers to the filters of Palimpzest, identified by their words: a condition, and a record as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from benchmarks.world.answers.words import holds
from benchmarks.world.noise import Draw
from benchmarks.world.requests import NotUnderstood

_FORM = "You will be presented with a context and a filter condition. Output TRUE if the context"
_PARTS = re.compile(
    r"\nFILTER CONDITION: (?P<asked>.*?)\s+(?:<<cache-boundary>>)?CONTEXT:\s+(?P<record>\{.*?\n\})\s",
    re.DOTALL,
)


def asked(texts: Sequence[str]) -> bool:
    """Whether the messages of a chat are a filter of Palimpzest's."""
    return _FORM in texts[-1]


def answer(texts: Sequence[str], noise: Draw) -> str:
    """The answer to a filter: a sentence of reasoning if it is wanted, and the verdict. Raises
    NotUnderstood.
    """
    user = "\n".join(text for text in texts[1:])
    found = _PARTS.search(user)
    if found is None:
        raise NotUnderstood(f"no condition and no context in: {user[:200]}")
    *rules, condition = found["asked"].split("\n\n")
    lines = (str(value) for value in json.loads(found["record"]).values())
    kept = noise.yes(holds("\n".join([condition, *lines]), "\n\n".join(rules)), 1)
    reasoning = f"The context does {'' if kept else 'not '}meet the condition.\n\nANSWER: "
    wanted = user.rstrip().endswith("REASONING:")
    return f"{reasoning if wanted else ''}{str(kept).upper()}\n---"
