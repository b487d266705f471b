"""Commit markers as stores keep them: a row for each input row, one for each window, and the parts
that many windows share.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from itertools import zip_longest

from semgraph.expr.functions import canonical_json
from semgraph.stores.base import CommitMarker, CommittedRow, CommittedWindow, History
from semgraph.stores.writes import fingerprint


def pack(text: str) -> bytes:
    """A text, compressed."""
    return zlib.compress(text.encode())


def window_of(
    now: datetime, begun: datetime | None, parts: str | None, writes: bytes
) -> CommittedWindow:
    """A stored window without its rows."""
    text = zlib.decompress(writes).decode()
    return CommittedWindow((), now, begun, json.loads(parts or "{}"), text)


def shared_parts(marker: CommitMarker) -> tuple[str, str]:
    """The parts of a commit marker as text, after its hash."""
    text = canonical_json(dict(marker.parts))
    return fingerprint(text, 16), text


def marked_rows(marker: CommitMarker) -> Iterator[tuple[int, str, str]]:
    """Place, id and content of each row of a window."""
    contents = dict(zip_longest(marker.rows, marker.contents, fillvalue=""))
    return ((place, row, content) for place, (row, content) in enumerate(contents.items()))


def history_of(
    head: str | None,
    rows: Iterable[tuple[int | None, int | None, CommittedRow]],
    windows: Mapping[int, CommittedWindow],
) -> History:
    """What a plan committed in a partition. Rows come in any order, each with the number of its
    window, from 1, and its place there; an earlier version recorded neither.
    """
    by: dict[int, list[CommittedRow]] = {}
    for number, _, row in sorted(rows, key=lambda marked: (marked[0] or 0, marked[1] or 0)):
        by.setdefault(number or 0, []).append(row)
    old = sorted(by.pop(0, ()), key=lambda row: (row.now, row.row))
    first = (CommittedWindow((row,), row.now, None, {}, None) for row in old)
    later = (replace(windows[number], rows=tuple(own)) for number, own in by.items())
    return History(head, (*first, *later))
