"""Where a plan file may name files: in its own folder and among the shipped plans, symbolic links followed.

A plan may come from somebody else. What it names could otherwise be any file of the user's, which a prompt would send to a
model and an error would quote.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from semgraph.errors import Fault
from semgraph.shipped import plans_folder

_HINT = "a plan names files in its own folder and shipped plans only: copy the file there"


def inside(path: Path, folders: Iterable[Path]) -> bool:
    """Whether a path, with symbolic links followed, is in one of the folders or in that of the shipped plans."""
    try:
        real = path.resolve()
        return any(real.is_relative_to(folder.resolve()) for folder in (*folders, plans_folder()))
    except (OSError, ValueError, RuntimeError):  # a ring of links, or no path at all
        return False


def require_inside(path: Path, folders: Iterable[Path], what: str, *key: str) -> None:
    """Refuse a file that a plan must not name, before anything of it is read. Raises Fault."""
    if not inside(path, folders):
        raise Fault(f"{what} is outside the folder of the plan", *key, hint=_HINT)
