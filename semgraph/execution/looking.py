"""Which rows of a record are meant by what people write: a key or a text, whole or as far as it tells which one is meant."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from semgraph.errors import PlanError, Problem, did_you_mean
from semgraph.execution.layout import plain_line
from semgraph.execution.likeness import MEMBER, Row, as_text, at, holds, texts

Found = list[tuple[str, Row]]
_LISTED = 8
_SHOWN = 80
_NAME = 60  # letters up to which a text is a name, of which the nearest may be meant


def meant(what: str, key: str, steps: Sequence[str], rows: Callable[[str], Sequence[Row]]) -> Found:
    """The rows that hold a text, those of the last step first; none if nothing does.

    A key, or a text as a whole, goes before what only begins so.

    Args:
        what: A key or its beginning, a text or its beginning.
        key: The name of the key property.
        steps: Those that have rows, what is read before what reads it.
        rows: The rows of a step.

    Raises:
        PlanError: Several keys or texts begin so; they are listed.
    """
    for own in (True, False):  # its own key, before another's that it names
        for name in reversed(steps):
            held = [row for row in rows(name) if holds(row.get(key) if own else row, what)]
            if held:
                if own:
                    _one([(name, str(row[key])) for row in held], what)
                return [(name, row) for row in held]
    begun = [(step, row, text) for step in reversed(steps) for row in rows(step) for text in _begun(row, what)]
    whole = _one([(step, text) for step, _, text in begun], what)
    return [(step, row) for step, row, _ in begun if step == begun[0][0]] if whole else []


def in_column(step: str, column: str, value: str, rows: Sequence[Row]) -> Found:
    """The rows of a step that have a value in a column, or, where none has, the one that begins so. Raises PlanError."""
    given = [(as_text(at(row, column)), row) for row in rows]
    if not any(text == value for text, _ in given):
        begun = [text for text, _ in given if value and text.casefold().startswith(value.casefold())]
        value = _one([(step, text) for text in begun], value) or value
    return [(step, row) for text, row in given if text == value]


def nearest(what: str, rows: Iterable[Row]) -> str | None:
    """A hint at the name that is most like one that nothing has."""
    names = {text for row in rows for text in texts(_shown(row)) if len(text) <= _NAME}
    return did_you_mean(what, sorted(names)) if len(what) <= _NAME else None


def _begun(row: Row, what: str) -> set[str]:
    return {text for text in texts(_shown(row)) if what and text.casefold().startswith(what.casefold())}


def _shown(row: Row) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != MEMBER}


def _one(found: Sequence[tuple[str, str]], what: str) -> str | None:
    """The text that all of them are; None if there are none. Raises PlanError if they are several."""
    step_of: dict[str, tuple[str, str]] = {}
    for step, text in found:
        step_of.setdefault(text.casefold(), (step, text))
    if len(step_of) > 1:
        hint = "write more of the one that is meant"
        listed = [f'  "{_cut(text)}"   step {step}' for step, text in step_of.values()]
        more = [f"  … and {len(listed) - _LISTED:,} more"] if len(listed) > _LISTED else []
        raise PlanError(
            Problem(f'"{what}" is the beginning of {len(listed):,} values', hint=hint), *listed[:_LISTED], *more
        )
    return next((text for _, text in step_of.values()), None)


def _cut(text: str) -> str:
    line = plain_line(text)
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"
