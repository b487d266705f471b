"""The jars of Neo4j Community, fetched from Maven Central by jgo into the user's cache, once for
all folders.

Neo4j is GPLv3: whoever asks for it downloads it; semgraph ships none of it. Beside this module
stands the list of jars of the default version (`neo4j-5.26.0.txt`: path in the repository, bytes,
SHA-256), so that it need not be resolved, which takes four times as long as the download, and is
the same everywhere. Other versions are resolved.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from semgraph.errors import StoreUnavailable

ARTIFACTS = ("org.neo4j:neo4j", "org.neo4j:neo4j-bolt")
AT_ONCE = 8
_FALSE = ("", "0", "false", "no", "off")


@dataclass(frozen=True)
class StartProgress:
    """How far a start has come.

    Args:
        phase: `resolve` (reading which jars belong together), `download`, `start`.
        done: The number of jars that are here.
        total: The number of jars; 0 while unknown.
        size: The bytes of these jars.
    """

    phase: Literal["resolve", "download", "start"]
    done: int = 0
    total: int = 0
    size: int = 0


def cache_dir(env: Mapping[str, str] | None = None) -> Path:
    """Where jars are kept: `neo4j` in `SEMGRAPH_HOME`, else in the user's cache."""
    import platformdirs

    home = (os.environ if env is None else env).get("SEMGRAPH_HOME")
    return (Path(home).expanduser() if home else platformdirs.user_cache_path("semgraph")) / "neo4j"


def jars(
    version: str, progress: Callable[[StartProgress], None], cache: Path | None = None
) -> tuple[Path, ...]:
    """The jars of a version, fetched if they are not here; `progress` is called in the caller's
    thread.

    Raises:
        StoreUnavailable: They are not here and `SEMGRAPH_OFFLINE` is set, or they cannot be had.
    """
    from filelock import FileLock

    folder = cache or cache_dir()
    if listed := _listed(folder, version):
        return listed
    if os.environ.get("SEMGRAPH_OFFLINE", "").lower() not in _FALSE:
        raise StoreUnavailable(
            f"Neo4j {version} is not in {folder}, and SEMGRAPH_OFFLINE forbids fetching it (140 MB from Maven Central): "
            "unset it for one start, or name a server that runs already (NEO4J_URI)"
        )
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "lock"):
        return _listed(folder, version) or _fetch(folder, version, progress)


def _listed(folder: Path, version: str) -> tuple[Path, ...]:
    """The jars that a finished download listed, if all are there in full length."""
    try:
        listed = json.loads((folder / f"{version}.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ()
    jars = {folder / path: size for path, size in listed.items()}
    whole = all(path.is_file() and path.stat().st_size == size for path, size in jars.items())
    return tuple(jars) if whole else ()


def _fetch(
    folder: Path, version: str, progress: Callable[[StartProgress], None]
) -> tuple[Path, ...]:
    import requests

    repository = folder / "maven"
    _drop_broken(repository)
    progress(StartProgress("resolve"))
    try:
        jars = _download(_artifacts(repository, version), progress)
        _check(jars, repository, version)
    except (RuntimeError, ValueError, OSError, requests.RequestException) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise StoreUnavailable(
            f"Neo4j {version} cannot be fetched from Maven Central: {reason}. What came is kept in {repository}: start "
            "again to go on, or name a server that runs already (NEO4J_URI)"
        ) from error
    listed = {path.relative_to(folder).as_posix(): path.stat().st_size for path in jars}
    draft = folder / f"{version}.json.part"
    draft.write_text(json.dumps(listed, indent=0), encoding="utf-8")
    draft.replace(folder / f"{version}.json")
    return jars


@contextmanager
def _whole(name: str, total: int) -> Iterator[Callable[[int], None]]:
    """What jgo calls around each file. It keeps a file whose connection ended early."""
    sizes: list[int] = []
    yield sizes.append
    if sum(sizes) != total:
        raise ConnectionError(
            f"{name}: the connection ended after {sum(sizes):,} of {total:,} bytes"
        )


def _pinned(version: str) -> dict[str, str]:
    """SHA-256 by path in the repository; empty where the version has no list."""
    file = Path(__file__).with_name(f"neo4j-{version}.txt")
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return {path: digest for path, _, digest in (line.split() for line in lines)}


def _artifacts(repository: Path, version: str) -> list[Any]:
    from jgo.maven import MavenContext, PythonResolver

    resolver = PythonResolver(progress_callback=_whole)
    context = MavenContext(resolver, repo_cache=repository, timeout=30)
    if pinned := _pinned(version):
        return [_artifact(context, path) for path in pinned]
    roots, needed = resolver.resolve(
        [context.create_dependency(f"{a}:{version}") for a in ARTIFACTS]
    )
    dependencies = [*roots, *(d for d in needed if d.scope in ("compile", "runtime"))]
    return [d.artifact for d in dependencies if d.artifact.packaging == "jar"]


def _artifact(context: Any, path: str) -> Any:
    """`group/with/dots/name/version/name-version-classifier.jar` as an artifact."""
    *group, name, version, file = path.split("/")
    classifier = file.removeprefix(f"{name}-{version}").removesuffix(".jar").removeprefix("-")
    return context.project(".".join(group), name).at_version(version).artifact(classifier)


def _download(artifacts: list[Any], progress: Callable[[StartProgress], None]) -> tuple[Path, ...]:
    size = 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        futures: list[Future[Path]] = [pool.submit(artifact.resolve) for artifact in artifacts]
        try:
            for done, future in enumerate(as_completed(futures), 1):
                size += future.result().stat().st_size
                progress(StartProgress("download", done, len(futures), size))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return tuple(future.result() for future in futures)


def _check(jars: tuple[Path, ...], repository: Path, version: str) -> None:
    """Delete and refuse jars that are not those of the list."""
    pinned = _pinned(version)
    other = [
        path
        for path in jars
        if pinned and _digest(path) != pinned[path.relative_to(repository).as_posix()]
    ]
    for path in other:
        path.unlink()
    if other:
        raise ValueError(
            f"{', '.join(path.name for path in other)}: not the bytes that were to come (SHA-256)"
        )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _drop_broken(repository: Path) -> None:
    """Delete what an interrupted download left behind: jgo takes every file that is there for
    whole.
    """
    for path in repository.rglob("*.*"):
        if path.suffix == ".jar":
            whole = zipfile.is_zipfile(path)
        elif path.suffix == ".pom":
            whole = path.read_bytes().rstrip().endswith(b"</project>")
        else:
            continue
        if not whole:
            path.unlink()
