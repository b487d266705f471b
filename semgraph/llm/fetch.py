"""Bring the bytes of one file here from one source: an HTTP server, a file, or packages. Resumes what was begun.

Each function appends to a `.part` file until it has the size that is wanted, and raises `SourceFailed` when this source
cannot. Whether the bytes are the right ones is for the caller to check: it knows the SHA-256.
"""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from semgraph.llm.specs import without_password

if TYPE_CHECKING:
    import httpx2

Written = Callable[[int], None]
"""Called with the bytes that are here so far. May raise in order to stop; what is here stays for a later run."""

CHUNK = 1 << 20
REACH_SECONDS = 6.0
READ_SECONDS = 30.0
FRUITLESS = 3
RECONNECTS = 50


class SourceFailed(Exception):
    """This source does not give the file; the message says why."""


def from_url(url: str, part: Path, size: int, progress: Written) -> None:
    """Download, going on where the part file ends. A broken connection is taken up again while bytes still come.

    Raises:
        SourceFailed: The server cannot be reached, refuses, or serves something of another size.
    """
    import httpx2

    _reach(url)
    fruitless, reason = 0, ""
    timeout = httpx2.Timeout(READ_SECONDS, connect=REACH_SECONDS)
    with httpx2.Client(timeout=timeout, follow_redirects=True) as client:
        for _ in range(RECONNECTS):
            before = _length(part)
            try:
                _attempt(client, url, part, size, progress)
            except (httpx2.ConnectError, httpx2.UnsupportedProtocol) as error:
                raise SourceFailed(_reason(error)) from error
            except (httpx2.HTTPError, _Truncated) as error:
                reason = f"broke off after {_length(part):,} of {size:,} bytes: {_reason(error)}"
                fruitless = 0 if _length(part) > before else fruitless + 1
                if fruitless == FRUITLESS:
                    break
                time.sleep(0.2 * fruitless)
            else:
                return
    raise SourceFailed(reason)


def _reach(url: str) -> None:
    """Fail soon if the server cannot be reached: names that do not resolve and many dead addresses take minutes else."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SourceFailed("is no http:// or https:// address")
    if parts.scheme in getproxies() and not proxy_bypass(parts.hostname):
        return
    address = parts.hostname, parts.port or {"http": 80, "https": 443}[parts.scheme]
    outcome: list[OSError | None] = []

    def connect() -> None:
        try:
            socket.create_connection(address, timeout=REACH_SECONDS).close()
            outcome.append(None)
        except OSError as error:
            outcome.append(error)

    probe = threading.Thread(target=connect, daemon=True)
    probe.start()
    probe.join(REACH_SECONDS)
    if not outcome:
        raise SourceFailed(f"no answer from {parts.hostname} in {REACH_SECONDS:.0f} s")
    if outcome[0] is not None:
        raise SourceFailed(f"{parts.hostname} cannot be reached: {_reason(outcome[0])}")


class _Truncated(Exception):
    """The server ended its answer too early."""


def _attempt(client: httpx2.Client, url: str, part: Path, size: int, progress: Written) -> None:
    have = _length(part)
    if have >= size:
        if have == size:
            return
        part.unlink()
        have = 0
    headers = {"Accept-Encoding": "identity"}
    tag = _Tag(part, url)
    if have:
        headers["Range"] = f"bytes={have}-"
        if tag.value:
            headers["If-Range"] = tag.value
    with client.stream("GET", url, headers=headers) as response:
        start = _start(response, have, size)
        if start is None:
            part.unlink()
            raise _Truncated("the server answered a range that was not asked for")
        tag.remember(response.headers.get("etag", ""))
        with _opened(part, append=start > 0) as out:
            _copy(response.iter_raw(), out, start, size, progress)
    if _length(part) < size:
        raise _Truncated("the answer ended")


def _start(response: httpx2.Response, have: int, size: int) -> int | None:
    """Where the body begins; None if it is not where it was asked to begin, or beyond what the server has.

    Raises:
        SourceFailed: The server refuses, or its file has another size.
    """
    if response.status_code == 416:
        return None
    if response.status_code not in (200, 206):
        raise SourceFailed(f"HTTP {response.status_code} {response.reason_phrase}".rstrip())
    if response.status_code == 200:
        _same(int(response.headers["content-length"]) if "content-length" in response.headers else None, size)
        return 0
    match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("content-range", ""))
    if match is None or not have:
        return None
    _same(None if match[2] == "*" else int(match[2]), size)
    return have if int(match[1]) == have else None


def _same(served: int | None, size: int) -> None:
    if served is not None and served != size:
        raise SourceFailed(f"serves a file of {served:,} bytes, not of {size:,}")


class _Tag:
    """The server's tag (ETag) of the file that a part is of, so that no two halves of different files are joined."""

    def __init__(self, part: Path, url: str) -> None:
        self._path = part.with_name(f"{part.name}.etag")
        self._url = without_password(url)

    @property
    def value(self) -> str:
        """The tag, if the part was begun from this very address and the tag is a strong one."""
        try:
            url, _, tag = self._path.read_text(encoding="utf-8").partition("\n")
        except FileNotFoundError:
            return ""
        return tag if url == self._url and not tag.startswith("W/") else ""

    def remember(self, tag: str) -> None:
        """Keep the tag of what is being downloaded now."""
        self._path.write_text(f"{self._url}\n{tag}", encoding="utf-8")


def from_file(source: Path, part: Path, size: int, progress: Written) -> None:
    """Copy a file of this machine.

    Raises:
        SourceFailed: It is not there, or has another size.
    """
    try:
        _same(source.stat().st_size, size)
        with source.open("rb") as body, _opened(part, append=False) as out:
            _copy(iter(lambda: body.read(CHUNK), b""), out, 0, size, progress)
    except OSError as error:
        raise SourceFailed(_reason(error)) from error


def _copy(chunks: Iterator[bytes], out: BinaryIO, done: int, size: int, progress: Written) -> None:
    for chunk in chunks:
        done += len(chunk)
        if done > size:
            raise SourceFailed(f"serves more than the {size:,} bytes of the file")
        out.write(chunk)
        progress(done)


@contextmanager
def _opened(part: Path, *, append: bool) -> Iterator[BinaryIO]:
    part.parent.mkdir(parents=True, exist_ok=True)
    with part.open("ab" if append else "wb") as out:
        yield out


def _length(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _reason(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return without_password(text.splitlines()[0])
