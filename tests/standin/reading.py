"""What a request asks: which of the plans' prompts it is, and the records in it, read back from its text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from semgraph.frontend.prompts import read_prompt
from semgraph.logical.prompt import Prompt, Template

PLANS = Path(__file__).parents[2] / "plans"
_AGAIN = re.compile(r"\n\nYour last answer was not valid: .*\Z", re.DOTALL)
_LINE = re.compile(r"^(?P<number>\d+)\. (?P<record>\{.*?\})(?: compare with: (?P<with>all|[\d, ]+))?$", re.MULTILINE)
Record = Mapping[str, Any]


class NotUnderstood(Exception):
    """The request is none that the stand-in knows."""


@dataclass(frozen=True)
class Question:
    """A request, read.

    Args:
        skill: What is asked, by the names of the answers: `entities`, `facts`, `since until`, `verdict`, `summary`, `match`.
        form: `row`, `records`, `pair` or `block`.
        lefts: The records by number; of a row or pair: number 1.
        rights: The other side's records by number.
        pairs: Numbers of the pairs asked about.
    """

    skill: str
    form: Literal["row", "records", "pair", "block"]
    lefts: Mapping[int, Record]
    rights: Mapping[int, Record]
    pairs: tuple[tuple[int, int], ...] = ()


class Reader:
    """Knows the prompts of a folder."""

    def __init__(self, folder: Path = PLANS) -> None:
        params = {"instructions": ""}
        self._prompts = [read_prompt(path, params) for path in sorted((folder / "prompts").glob("*.md"))]

    def read(self, body: Mapping[str, Any]) -> Question:
        """What a chat request asks. Raises NotUnderstood."""
        schema = body["response_format"]["json_schema"]["schema"]["properties"]
        text = _AGAIN.sub("", body["messages"][-1]["content"])
        if "answers" in schema:
            names = [n for n in schema["answers"]["items"]["properties"] if n != "id"]
            return Question(_skill(names), "records", _records(text, "Records:\n"), {})
        if "matches" in schema:
            names = [n for n in schema["matches"]["items"]["properties"] if n not in {"left", "right"}]
            return _block(_skill(names), text)
        names = [n for n in schema if n != "match"]
        if "match" in schema:
            return self._pair(_skill(names), text)
        return Question(_skill(names), "row", {1: self._row(names, text)}, {})

    def _row(self, names: Sequence[str], text: str) -> Record:
        for prompt in self._with(names):
            found = _invert(prompt.item, text)
            if found is not None:
                return found
        raise NotUnderstood(f"no prompt that returns {names} says: {text[:200]}")

    def _pair(self, skill: str, text: str) -> Question:
        left, _, right = text.removeprefix("Left record:\n").partition("\n\nRight record:\n")
        for prompt in self._prompts:
            mine, other = _invert(prompt.item, left), _invert(prompt.other, right)
            if mine is not None and other is not None and prompt.other:
                return Question(skill, "pair", {1: mine}, {2: other}, ((1, 2),))
        raise NotUnderstood(f"no prompt compares: {text[:200]}")

    def _with(self, names: Sequence[str]) -> list[Prompt]:
        return [p for p in self._prompts if [name for name, _ in p.returns] == list(names)]


def _skill(names: Sequence[str]) -> str:
    return " ".join(names) or "match"


def _invert(template: Template, text: str) -> Record | None:
    """The values that a template was filled with to give a text; None if it cannot have given it."""
    pattern = "".join(
        _loosely(literal) + (f"(?P<f{i}>.*?)" if name else "") for i, (literal, name) in enumerate(template.parts)
    )
    match = re.fullmatch(pattern, text, re.DOTALL)
    if match is None:
        return None
    return {name: match[f"f{i}"].strip() for i, (_, name) in enumerate(template.parts) if name}


def _loosely(literal: str) -> str:
    """A pattern of some text in which blanks may be missing: empty values and trimming take them away."""
    return r"\s*".join(re.escape(part) for part in re.split(r"\s+", literal))


def _records(text: str, heading: str) -> dict[int, Record]:
    _, _, listed = text.partition(heading)
    return {int(m["number"]): json.loads(m["record"]) for m in _LINE.finditer(listed)}


def _block(skill: str, text: str) -> Question:
    _, _, rest = text.partition("Left records:\n")
    mine, _, other = rest.partition("\n\nRight records:\n")
    lines = [m for m in _LINE.finditer(mine) if m["with"]]
    rights = {int(m["number"]): json.loads(m["record"]) for m in _LINE.finditer(other)}
    pairs = []
    for line in lines:
        near = list(rights) if line["with"] == "all" else [int(n) for n in line["with"].split(",")]
        pairs += [(int(line["number"]), n) for n in near]
    if not pairs:
        raise NotUnderstood(f"no pairs in: {text[:200]}")
    return Question(skill, "block", {int(m["number"]): json.loads(m["record"]) for m in lines}, rights, tuple(pairs))
