"""How many examples Hypothesis draws."""

from __future__ import annotations

from hypothesis import settings


def examples(few: int, nightly: int) -> int:
    """So few every time, which are the same ones each time; more in `make nightly`, which draws them."""
    return nightly if settings.get_current_profile_name() == "random" else few
