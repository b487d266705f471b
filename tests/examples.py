"""How many cases tests draw."""

from __future__ import annotations

from hypothesis import settings


def examples(few: int, many: int) -> int:
    """So few every time, the same ones each time; so many in `make nightly`, which draws them anew."""
    return many if settings.get_current_profile_name() == "random" else few
