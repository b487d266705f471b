"""Smaller cases that still fail: parts of the document, of its expressions and of the rows are left
out, one at a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from tests.fuzz.plans import Case

_KEPT = {"plan", "inputs", "steps", "returns"}
_WORD = re.compile(r"[A-Za-z_][\w.]*")


def shrink(case: Case, fails: Callable[[Case], bool], most: int = 1500) -> Case:
    """The smallest case near this one for which `fails` holds, after at most so many attempts."""
    place = since = 0
    for _ in range(most):
        attempt = next(islice(_smaller(case), place, None), None)
        if attempt is None:
            if not since:
                break
            place = since = 0
        elif fails(attempt):
            case, since = attempt, since + 1
        else:
            place += 1
    return case


def _smaller(case: Case) -> Iterator[Case]:
    """Cases with less in them, those with much less first."""
    yield from _without_steps(case)
    for name, listed in case.inputs.items():
        for size in (len(listed) // 2, len(listed) // 4, 1):
            if size:
                for start in range(0, len(listed), size):
                    yield Case(
                        case.document,
                        {**case.inputs, name: listed[:start] + listed[start + size :]},
                    )
    for key, value in case.document.items():
        if key not in _KEPT:
            yield Case(
                {name: part for name, part in case.document.items() if name != key}, case.inputs
            )
        if key not in {"plan", "inputs"}:
            for less in _edits(value):
                yield Case({**case.document, key: less}, case.inputs)
    yield from _without_columns(case)
    yield from _plainer_rows(case)


def _without_steps(case: Case) -> Iterator[Case]:
    """Only one result; a step without its last or its first operators."""
    returns, steps = case.document["returns"], case.document["steps"]
    for name in returns if len(returns) > 1 else ():
        yield Case({**case.document, "returns": [name]}, case.inputs)
    for name in steps:
        yield Case(
            {
                **case.document,
                "steps": {other: operators for other, operators in steps.items() if other != name},
            },
            case.inputs,
        )
    for name, operators in steps.items():
        for last in range(1, len(operators)) if isinstance(operators, list) else ():
            yield Case({**case.document, "steps": {**steps, name: operators[:last]}}, case.inputs)
    inputs = {
        name: {column: kind for column, kind in columns.items() if _reads(case.document, column)}
        for name, columns in case.document["inputs"].items()
    }
    if inputs != case.document["inputs"]:
        rows = {
            name: [{key: row.get(key) for key in inputs[name]} for row in listed]
            for name, listed in case.inputs.items()
        }
        yield Case({**case.document, "inputs": inputs}, rows)


def _reads(document: Mapping[str, Any], column: str) -> bool:
    """Whether a plan may read a column of its inputs."""
    return (
        re.search(
            rf"\b{column}\b",
            repr([document.get(key) for key in ("steps", "called", "writes", "windows")]),
        )
        is not None
    )


def _without_columns(case: Case) -> Iterator[Case]:
    for name, columns in case.document["inputs"].items():
        for column in columns:
            rest = {other: kind for other, kind in columns.items() if other != column}
            inputs = {**case.document["inputs"], name: rest}
            rows = [
                {key: value for key, value in row.items() if key != column}
                for row in case.inputs[name]
            ]
            yield Case({**case.document, "inputs": inputs}, {**case.inputs, name: rows})


def _plainer_rows(case: Case) -> Iterator[Case]:
    for name, listed in case.inputs.items():
        for place, row in enumerate(listed):
            for column, value in row.items():
                for less in _plainer(value):
                    rows = [*listed[:place], {**row, column: less}, *listed[place + 1 :]]
                    yield Case(case.document, {**case.inputs, name: rows})


def _plainer(value: Any) -> Iterator[Any]:
    """Values in place of one: NULL, a shorter list, a struct with a field that is NULL."""
    if value is not None:
        yield None
    if isinstance(value, list):
        yield from (value[:place] + value[place + 1 :] for place in range(len(value)))
    if isinstance(value, dict):
        yield from ({**value, key: None} for key, inner in value.items() if inner is not None)


def _edits(value: Any) -> Iterator[Any]:
    """The value with one thing less in it."""
    if isinstance(value, list):
        for place, item in enumerate(value):
            yield value[:place] + value[place + 1 :]
            for less in _edits(item):
                yield [*value[:place], less, *value[place + 1 :]]
    elif isinstance(value, dict):
        for key, item in value.items():
            yield {name: inner for name, inner in value.items() if name != key}
            for less in _edits(item):
                yield {**value, key: less}
    elif isinstance(value, str):
        yield from _parts(value)


def _parts(text: str) -> Iterator[str]:
    """Shorter expressions: what stands in parentheses, between commas and operators; at last a
    plain column or constant.
    """
    found = []
    for start, letter in enumerate(text):
        if letter == "(":
            inner = _closed(text, start)
            found += [inner, *_split(inner)]
            found += [
                text[:start] + part + text[start + len(inner) + 2 :] for part in _split(inner)
            ]
            found += [
                f"{text[: start + 1]}{plain}{text[start + len(inner) + 1 :]}"
                for plain in ("1", "'a'", "NULL", "TRUE")
            ]
    found += [*_split(text), *_WORD.findall(text), "TRUE", "1", "'a'"]
    yield from dict.fromkeys(
        part.strip() for part in found if len(part.strip()) < len(text) and part.strip()
    )


def _closed(text: str, start: int) -> str:
    depth = 0
    for place in range(start, len(text)):
        depth += (text[place] == "(") - (text[place] == ")")
        if not depth:
            return text[start + 1 : place]
    return text[start + 1 :]


def _split(text: str) -> list[str]:
    """What stands between commas and operators outside of parentheses."""
    parts, depth, last = [], 0, 0
    for match in re.finditer(
        r"[()\[\]]|,| (?:AND|OR|IN|IS|FILTER|ORDER BY|OVER|WHEN|THEN|ELSE|[-+*/|<>=%]+) ", text
    ):
        token = match[0]
        depth += (token in {"(", "["}) - (token in {")", "]"})
        if depth == 0 and token not in {"(", ")", "[", "]"}:
            parts.append(text[last : match.start()])
            last = match.end()
    parts.append(text[last:])
    return parts if len(parts) > 1 else []
