"""Which files a plan is made of: while they are what they were, it need not be loaded again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

Stamp = tuple[int, int, int] | None
_noticed: ContextVar[dict[Path, Stamp] | None] = ContextVar("noticed", default=None)


def stamp(path: Path) -> Stamp:
    """What changes when a file does: its inode, size and time of writing (ns). None: it is not there."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def notice(path: Path) -> None:
    """Say that a file is about to be read, or is looked for: one that appears later would be found instead of another."""
    files = _noticed.get()
    if files is not None:
        files.setdefault(path.absolute(), stamp(path))


@contextmanager
def noticing() -> Iterator[dict[Path, Stamp]]:
    """Collect what is noticed, with its stamp from before it is read."""
    files: dict[Path, Stamp] = {}
    token = _noticed.set(files)
    try:
        yield files
    finally:
        _noticed.reset(token)
