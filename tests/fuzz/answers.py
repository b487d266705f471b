"""What the simulated model answers: pure functions of a question's text. Model and evaluator have
them in common.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any


class NoAnswer(Exception):
    """The model refuses the question."""


def number(text: str) -> int:
    """A number that depends on a text alone; white space around it and the sign of a zero do not
    count.
    """
    return zlib.crc32(text.strip().replace("-0.0", "0.0").encode("utf-8", "surrogatepass"))


def yes(*texts: str) -> bool:
    """The answer to a yes/no question: mostly yes. Before it may stand why others were refused."""
    return bool(number("\n".join(text.strip() for text in texts)) % 3)


def score(text: str) -> int:
    """How well a row fits: from 0 to 5, so that there are ties."""
    return number(text) % 6


def value(name: str, kind: str, text: str) -> Any:
    """The answer called `name`, of a type as JSON Schema names it."""
    drawn = number(f"{name}: {text.strip()}")
    if kind == "integer":
        return drawn % 7 - 2
    if kind == "integers":
        return [drawn % 3 + 1, 1, 3][: drawn % 4]
    if kind == "boolean":
        return bool(drawn % 2)
    if kind == "array":
        return [f"c{drawn % 4}", "d"][: drawn % 3]
    return None if kind == "null" else f"c{drawn % 5}"


def of_group(name: str, kind: str, texts: Sequence[str]) -> Any:
    """The answer called `name` for several rows, in their order."""
    return value(name, kind, "\n".join(text.strip() for text in texts))
