"""Commit markers as stores keep them: a row for each input row, one for each window, and the parts
that many windows share.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import zip_longest

from semgraph.expr.functions import canonical_json
from semgraph.stores.base import CommitMarker, CommittedRow, CommittedWindow, History


def pack(text: str) -> bytes:
    """A text, compressed."""
    return zlib.compress(text.encode())


def unpack(data: bytes) -> str:
    """A packed text."""
    return zlib.decompress(data).decode()


def shared_parts(marker: CommitMarker) -> tuple[str, str]:
    """The parts of a commit marker as text, after its hash."""
    text = canonical_json(dict(marker.parts))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest(), text


def parts_in(text: str | None) -> Mapping[str, str]:
    """The parts in such a text; NULL has none."""
    parts: dict[str, str] = json.loads(text or "{}")
    return parts


def marked_rows(marker: CommitMarker) -> Iterator[tuple[int, str, str]]:
    """Place, id and content of each row of a window."""
    contents = dict(zip_longest(marker.rows, marker.contents, fillvalue=""))
    return ((place, row, content) for place, (row, content) in enumerate(contents.items()))


def history_of(
    head: str | None,
    rows: Iterable[tuple[int | None, int | None, CommittedRow]],
    windows: Mapping[int, CommittedWindow],
) -> History:
    """What a plan committed in a partition.

    Args:
        head: The head of the partition.
        rows: The number of its window, its place there, and the row, in any order; an earlier
            version recorded neither.
        windows: Windows by number, without their rows.
    """
    old: list[CommittedRow] = []
    by: dict[int, list[tuple[int, CommittedRow]]] = {}
    for number, place, row in rows:
        if number is None:
            old.append(row)
        else:
            by.setdefault(number, []).append((place or 0, row))
    first = [
        CommittedWindow((row,), row.now, None, {}, None)
        for row in sorted(old, key=lambda row: (row.now, row.row))
    ]
    later = [
        replace(windows[n], rows=tuple(row for _, row in sorted(by[n], key=lambda pair: pair[0])))
        for n in sorted(by)
    ]
    return History(head, (*first, *later))
