"""Files that are not UTF-8: where, in which encoding they probably are, and the command that converts
them.
"""

from __future__ import annotations

from typing import NamedTuple

_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_C1 = range(0x80, 0xA0)  # control characters in Latin-1, letters and quotes in Windows-1252


class NotUtf8(NamedTuple):
    """Where a text stops being UTF-8, from 1, and what to do."""

    line: int
    column: int
    what: str
    hint: str


def not_utf8(raw: bytes, file: str, start: int = 0) -> NotUtf8 | None:
    r"""The first byte of a file that is not UTF-8, or None; so many bytes are before these.

    >>> not_utf8(b"id\ncaf\xe9", "a.csv").hint
    'if it is Latin-1: iconv -f latin1 -t utf-8 a.csv > new'
    >>> not_utf8(b"\x93hi\x94", "a.csv").hint
    'if it is Windows-1252: iconv -f windows-1252 -t utf-8 a.csv > new'
    """
    try:
        raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        column = error.start - (before.rfind(b"\n") + 1) + 1
        name, encoding = _probable(raw)
        hint = f"if it is {name}: iconv -f {encoding} -t utf-8 {file} > new"
        if b"\0" in raw and name != "UTF-16":
            hint = "it holds binary data: name a text file"
        return NotUtf8(
            before.count(b"\n") + 1, column, f"byte {start + error.start} is not UTF-8", hint
        )
    return None


def _probable(raw: bytes) -> tuple[str, str]:
    if raw.startswith(_UTF_16):
        return "UTF-16", "utf-16"
    if any(byte in _C1 for byte in raw):
        return "Windows-1252", "windows-1252"
    return "Latin-1", "latin1"
