"""The validity of a claim, from its words and from the time of its message."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from benchmarks.world.claims import Claim

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_DAY = r"\d{4}-\d\d-\d\d|\d{4}"
_FROM_TO = re.compile(rf"\bfrom ({_DAY}) (?:to|until) ({_DAY})\b")
_UNTIL = re.compile(rf"\buntil ({_DAY})\b")
_SINCE = re.compile(rf"\b(?:in|since|on) ({_DAY})\b")
_MONTH = re.compile(rf"\b(?:in|since) ({'|'.join(MONTHS)})(?: (\d{{4}}))?\b")


def dated(claim: Claim, said_at: str) -> Claim:
    """The claim with its start and end: those in its words, else the start is the time of its
    message.
    """
    if claim.undatable:
        return claim
    text, said = claim.text, datetime.fromisoformat(said_at)
    if m := _FROM_TO.search(text):
        return replace(claim, since=_start(m[1]), until=_start(m[2]))
    if m := _UNTIL.search(text):
        return replace(claim, until=_start(m[1]))
    return replace(claim, since=_since(text, said, planned=claim.kind == "plan"))


def _since(text: str, said: datetime, *, planned: bool) -> str:
    if m := _SINCE.search(text):
        return _start(m[1])
    if m := _MONTH.search(text):
        month = MONTHS.index(m[1]) + 1
        year = int(m[2]) if m[2] else said.year + (planned and month <= said.month)
        return iso(datetime(year, month, 1, tzinfo=UTC))
    if re.search(r"\byesterday\b", text):
        return iso(midnight(said) - timedelta(days=1))
    return iso(said)


def period(text: str) -> tuple[str, str] | None:
    """The first and the last day in a sentence, if it names both."""
    match = _FROM_TO.search(text)
    return (match[1], match[2]) if match else None


def midnight(at: datetime) -> datetime:
    """The beginning of the day, in UTC."""
    return at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def iso(at: datetime) -> str:
    """A time as prompts have it.

    >>> iso(datetime(2024, 3, 1, tzinfo=UTC))
    '2024-03-01T00:00:00Z'
    """
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _start(text: str) -> str:
    return iso(datetime.fromisoformat(text if "-" in text else f"{text}-01-01").replace(tzinfo=UTC))
