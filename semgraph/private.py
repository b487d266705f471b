"""Files and folders that only their owner may read: they hold the user's texts.

Only what is made here is private. A file or folder that exists keeps its mode: its owner chose it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Any

FOLDER, FILE = 0o700, 0o600
RUNS = Path(".semgraph/runs")
"""Where the records of runs are."""
LAST = "last"
"""The reference of the latest run."""


def private_folder(path: Path) -> None:
    """Make a folder and those above it, as far as they are missing. Raises OSError."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=FOLDER, exist_ok=True)
    path.mkdir(exist_ok=True)  # refuses a file in its place


def refusal(folder: Path, error: OSError) -> str:
    """Why nothing can be made in a folder: the system's reason, or the file in the place of a folder."""
    if isinstance(error, FileExistsError | NotADirectoryError):
        for path in (folder, *folder.parents):
            if path.exists() and not path.is_dir():
                return f"{path} is a file, not a folder"
    return error.strerror or str(error)


def create_private(path: Path) -> None:
    """Make an empty file and its folders, as far as they are missing. Raises OSError."""
    private_folder(path.parent)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, FILE))


def open_private(path: Path, mode: str = "w", **options: Any) -> IO[Any]:
    """Open a file for writing (`w`, `a`, `wb`), as `open` does; a new one is private. Raises
    OSError.
    """
    return open(path, mode, opener=_private, **options)


def write_private(path: Path, text: str, errors: str = "strict") -> None:
    """Write a text file; a new one, and its missing folders, are private. Raises OSError."""
    private_folder(path.parent)
    with open_private(path, encoding="utf-8", errors=errors) as file:
        file.write(text)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, FILE)
