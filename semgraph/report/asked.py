"""What a run was asked for besides its plan and rows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Asked:
    """The options that change what a run does.

    Args:
        resume: The run that is resumed.
        rows: How many rows are taken; None: all.
        until: The step to stop behind.
        write: Whether the store is written to.
    """

    resume: str | None = None
    rows: int | None = None
    until: str | None = None
    write: bool = True
