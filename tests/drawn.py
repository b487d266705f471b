"""How many cases tests draw: few every time, many in `make nightly`."""

from __future__ import annotations

from hypothesis import settings


def examples(few: int, many: int) -> int:
    """So many examples, by the profile of Hypothesis that is loaded."""
    return many if settings.get_current_profile_name() == "random" else few
