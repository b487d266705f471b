"""What was run, on what, and when: names and values."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from semgraph.report.formats import UNKNOWN
from semgraph.report.html.markup import Html, el


def listed_facts(pairs: Sequence[tuple[str, object]]) -> Html:
    """Names with their values; a dash for what is not known."""
    return el("dl", *(el("div", el("dt", name), el("dd", value or UNKNOWN)) for name, value in pairs), cls="facts")


def when(text: str) -> str:
    """A time of a record, to the second.

    >>> when("2025-06-15 17:06:40+02:00")
    '2025-06-15 15:06:40 UTC'
    """
    return f"{datetime.fromisoformat(text).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if text else UNKNOWN
