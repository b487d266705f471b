"""The user's downloaded files: located by name, read with a check of each value, identified by
checksum.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.suite import Unmeasured


@dataclass(frozen=True)
class Source:
    """A file of a public data set.

    Args:
        name: Its name.
        url: Its address at its authors.
        licence: Its licence.
        sha256: Of the published file, if known for certain.
        folders: Further folders to look in, below the user's.
        needs: Further requirements, in words.
    """

    name: str
    url: str
    licence: str
    sha256: str = ""
    folders: tuple[str, ...] = ()
    needs: str = ""

    def within(self, folder: Path | None) -> Path:
        """The file in the user's folder.

        Raises:
            Unmeasured: It is missing; has its origin, its licence, and the option to set.
        """
        get = f"Get it from {self.url}{self.needs} (licence: {self.licence}) into a folder and give that: --data FOLDER"
        if folder is None:
            raise Unmeasured(f"{self.name} is not shipped. {get}")
        places = [folder / self.name, *(folder / below / self.name for below in self.folders)]
        for path in places:
            if path.is_file():
                return path
        raise Unmeasured(f"there is no {' nor '.join(str(path) for path in places)}. {get}")

    def settings(self, path: Path) -> dict[str, str]:
        """The settings of a line about the data: file, licence, origin, checksum, and whether the
        checksum is known.
        """
        found = checksum(path)
        known = (
            "not known"
            if not self.sha256
            else "as published"
            if found == self.sha256
            else "not the published file"
        )
        return {
            "file": self.name,
            "licence": self.licence,
            "from": self.url,
            "sha256": found,
            "checksum": known,
        }


@cache
def checksum(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class Place:
    """A value in a JSON file, and its position."""

    source: Source
    file: Path
    value: Any
    path: str = ""

    def wrong(self, expected: str) -> Unmeasured:
        """The error for an invalid value."""
        found = {dict: "an object", list: "a list", str: "a text", type(None): "null"}.get(
            type(self.value)
        )
        found = found or f"{type(self.value).__name__} {self.value!r}"
        get = f"Is it the file of that name from {self.source.url}? Get it anew"
        return Unmeasured(
            f"{self.file}  {self.path or 'at the top'}: expected {expected}, found {found}. {get}"
        )

    def __contains__(self, key: str) -> bool:
        """Whether an object has a key."""
        return isinstance(self.value, dict) and key in self.value

    def __getitem__(self, key: str) -> Place:
        """A value of an object. Raises Unmeasured."""
        if key not in self:
            raise self.wrong(f'an object with "{key}"')
        return Place(self.source, self.file, self.value[key], f"{self.path}.{key}".lstrip("."))

    def __iter__(self) -> Iterator[Place]:
        """The entries of a list. Raises Unmeasured."""
        if not isinstance(self.value, list):
            raise self.wrong("a list")
        for i, value in enumerate(self.value):
            yield Place(self.source, self.file, value, f"{self.path}[{i}]")

    @property
    def text(self) -> str:
        """A text. Raises Unmeasured."""
        if not isinstance(self.value, str):
            raise self.wrong("a text")
        return self.value

    @property
    def words(self) -> str:
        """A text, or a number as one. Raises Unmeasured."""
        if isinstance(self.value, bool) or not isinstance(self.value, str | int | float):
            raise self.wrong("a text or a number")
        return str(self.value)

    @property
    def whole(self) -> int:
        """A whole number. Raises Unmeasured."""
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            raise self.wrong("a whole number")
        return self.value

    @property
    def texts(self) -> list[str]:
        """A list of texts. Raises Unmeasured."""
        return [one.text for one in self]


def read_json(source: Source, folder: Path | None) -> Place:
    """A JSON file. Raises Unmeasured where it is missing or no JSON."""
    path = source.within(folder)
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError) as error:
        why = f"{error}. The download may have been cut, or be a page that points to it; get it anew from {source.url}"
        raise Unmeasured(f"{path}: no JSON: {why}") from None
    return Place(source, path, value)
