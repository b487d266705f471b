"""Times in answers, as models write them."""

from __future__ import annotations

import re
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta

_YEAR_FIRST = re.compile(r"(\d{4})([/.])(\d\d?)\2(\d\d?)(?!\d)", re.ASCII)
_YEAR = r"(\d{4}|\d{5}(?=-)|[+-]\d{4,6})"
_CALENDAR = re.compile(_YEAR + r"(?:-(\d\d?)(?:-(\d\d?)(?:[T ] *(.+))?)?)?", re.ASCII)
_MIDNIGHT = re.compile(r"^24(:?00){0,2}([.,]0+)?(?![\d:.,])")
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def time_in(text: str, *, utc: bool) -> tuple[datetime, bool]:
    """The time that a text states, and whether it was moved into the years 1 to 9999.

    A partial date is its first instant, 24:00 the next day, a time without a zone UTC. The order of
    day and month is never guessed. `utc` converts to UTC. Raises ValueError or OverflowError.
    """
    text = re.sub(r"\s*(UTC|GMT|Z)$", "Z", _YEAR_FIRST.sub(r"\1-\3-\4", text.strip().upper()))
    years = next_day = 0
    if match := _CALENDAR.fullmatch(text):  # else a week, or a date without separators
        year, month, day, clock = match.groups()
        clock, next_day = _MIDNIGHT.subn("00:00", clock or "00:00")
        near = 2000 + int(year) % 400  # has the same calendar, and room for offsets
        text, years = f"{near}-{month or 1:0>2}-{day or 1:0>2}T{clock}", int(year) - near
    moment = datetime.fromisoformat(text) + timedelta(days=next_day)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    moment = moment.astimezone(UTC) if utc else moment
    if MINYEAR <= moment.year + years <= MAXYEAR:
        return moment.replace(year=moment.year + years), False
    return (_FIRST if years < 0 else _LAST), True
