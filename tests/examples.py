"""How many cases tests draw."""

from __future__ import annotations

from hypothesis import settings


def examples(few: int, many: int) -> int:
    """`few` on every run, always the same ones; `many` in `make nightly`, where they are random."""
    return many if settings.get_current_profile_name() == "random" else few
