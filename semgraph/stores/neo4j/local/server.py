"""A real Neo4j Community server on this machine, without Docker, JDK or Maven: `start`, `status`,
`stop`.

The server is a separate process that outlives its starter. It keeps data, log and password in one
folder, and listens only on the loopback address. A `settings.conf` in that folder, with lines as in
neo4j.conf, is added to its configuration at the next start. Needs the extra `neo4j-local`.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from semgraph.errors import PlanError, StoreUnavailable
from semgraph.extras import install, missing
from semgraph.privacy import private_folder

ARTIFACTS = ("org.neo4j:neo4j", "org.neo4j:neo4j-bolt")
AT_ONCE = 8
_FALSE = ("", "0", "false", "no", "off")


@dataclass(frozen=True)
class StartProgress:
    """The progress of a start. `done` and `total` are numbers of jars (0 while unknown), `size` is
    the bytes of those on this machine.
    """

    phase: Literal["resolve", "download", "start"]
    done: int = 0
    total: int = 0
    size: int = 0


def cache_dir(env: Mapping[str, str] | None = None) -> Path:
    """The folder of jars: `neo4j` in `SEMGRAPH_HOME`, else in the user's cache."""
    import platformdirs

    home = (os.environ if env is None else env).get("SEMGRAPH_HOME")
    return (Path(home).expanduser() if home else platformdirs.user_cache_path("semgraph")) / "neo4j"


def jars(
    version: str, progress: Callable[[StartProgress], None], cache: Path | None = None
) -> tuple[Path, ...]:
    """The jars of a version. Missing ones are downloaded; `progress` is called in the caller's
    thread.

    Raises:
        StoreUnavailable: Jars are missing and `SEMGRAPH_OFFLINE` is set, or the download fails.
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
    """The jars that a finished download listed, if all exist in full length."""
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
    """A wrapper that jgo calls around each file. jgo itself keeps a file after a broken connection."""
    sizes: list[int] = []
    yield sizes.append
    if sum(sizes) != total:
        raise ConnectionError(
            f"{name}: the connection ended after {sum(sizes):,} of {total:,} bytes"
        )


def _pinned(version: str) -> dict[str, str]:
    """SHA-256 by path in the repository; empty if the version has no list."""
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
    """Delete and refuse jars that differ from the list."""
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
    """Delete the remains of an interrupted download: jgo treats every existing file as complete."""
    for path in repository.rglob("*.*"):
        if path.suffix == ".jar":
            whole = zipfile.is_zipfile(path)
        elif path.suffix == ".pom":
            whole = path.read_bytes().rstrip().endswith(b"</project>")
        else:
            continue
        if not whole:
            path.unlink()


VERSION = "5.26.0"
FOLDER = ".semgraph/neo4j"
USER = "neo4j"
PORT = 7687
_START_SECONDS = 120.0
_STOP_SECONDS = 60.0
_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class LocalServer:
    """A local server and its address; `pid` is None if it does not run."""

    uri: str
    user: str
    password: str = field(repr=False)
    pid: int | None
    version: str
    folder: Path
    running: bool


def start(
    folder: str | Path = FOLDER,
    port: int | None = None,
    version: str = VERSION,
    progress: Callable[[StartProgress], None] = lambda _: None,
) -> LocalServer:
    """Start the server of a folder, or return the running one. The first start on a machine
    downloads 140 MB of jars.

    Args:
        folder: The folder of data, log and password.
        port: The Bolt port; None: the folder's last port, 7687, or any free one.
        version: The version of Neo4j, 5.26 or later; a running server keeps its version.
        progress: Called with the progress of the download and the start.

    Raises:
        StoreUnavailable: The extra is missing, the jars are unavailable, or the server does not
            start; the message has the reason and the remedy.
        PlanError: The version is older than 5.26.
    """
    _check_version(version)
    _check_packages()
    home = Path(folder).absolute()
    if (server := status(home)).running:
        return server
    jars(version, progress)
    _prepare(home)
    with _folder_lock(home):
        # A server that is starting or stopping.
        _until(lambda: bool(_state(home)) or not _alive(home), _START_SECONDS)
        if not _alive(home):
            _spawn(home, port, version, progress)
        return _described(home, running=True)


def status(folder: str | Path = FOLDER) -> LocalServer:
    """The server that runs in a folder, if any. Raises StoreUnavailable if the extra is missing."""
    home = Path(folder).absolute()
    if not (home / "password").exists():
        return _described(home, running=False)
    _check_packages()
    with _folder_lock(home):
        return _described(home, running=_alive(home))


def stop(folder: str | Path = FOLDER) -> LocalServer:
    """Shut down the server of a folder cleanly, if it runs. Raises StoreUnavailable if it does not
    stop.
    """
    home = Path(folder).absolute()
    if not status(home).running:
        return _described(home, running=False)
    with _folder_lock(home):
        pid = _state(home).get("pid")
        if pid is not None and _alive(home):
            os.kill(int(pid), signal.SIGTERM)
        if not _until(lambda: not _alive(home), _STOP_SECONDS):
            raise StoreUnavailable(
                f"the Neo4j of {home} (pid {pid}) has not ended in {_STOP_SECONDS:.0f} s: {_log(home)}"
            )
        return _described(home, running=False)


def _check_version(version: str) -> None:
    numbers = version.split(".")[:2]
    if not all(part.isdigit() for part in numbers) or tuple(map(int, numbers)) < (5, 26):
        raise PlanError(f'semgraph needs Neo4j 5.26 or later, not "{version}": try {VERSION}')


def _check_packages() -> None:
    packages = missing("neo4j-local")
    if packages:
        raise StoreUnavailable(
            f"a local Neo4j needs {', '.join(packages)}: {install('neo4j-local')}. "
            "Or name a server that runs already (NEO4J_URI)"
        )


def _prepare(home: Path) -> None:
    """Create the folder, accessible only to this user, and its password."""
    private_folder(home)
    (home / ".gitignore").write_text("*\n", encoding="utf-8")
    try:
        descriptor = os.open(home / "password", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(secrets.token_urlsafe(18))


@contextmanager
def _folder_lock(home: Path) -> Iterator[None]:
    """A lock for starting, stopping or checking a server, so that a check is never mistaken for a
    running server.
    """
    from filelock import FileLock

    with FileLock(home / "manage.lock", timeout=_START_SECONDS + _STOP_SECONDS):
        yield


def _alive(home: Path) -> bool:
    from filelock import FileLock, Timeout

    try:
        with FileLock(home / "running.lock", timeout=0):
            return False
    except Timeout:
        return True


def _state(home: Path) -> dict[str, Any]:
    try:
        state: dict[str, Any] = json.loads((home / "server.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return state


def _described(home: Path, *, running: bool) -> LocalServer:
    state = _state(home) if running else {}
    password = home / "password"
    return LocalServer(
        uri=f"bolt://127.0.0.1:{state.get('port', _last_port(home) or PORT)}",
        user=USER,
        password=password.read_text(encoding="utf-8").strip() if password.exists() else "",
        pid=int(state["pid"]) if "pid" in state else None,
        version=str(state.get("version", "")),
        folder=home,
        running="pid" in state,
    )


def _last_port(home: Path) -> int | None:
    file = home / "port"
    return int(file.read_text(encoding="utf-8")) if file.exists() else None


def _ports(home: Path, wanted: int | None) -> Iterator[int]:
    if wanted is not None:
        yield wanted
        return
    for port in (_last_port(home), PORT):
        if port is not None and _is_free(port):
            yield port
    for _ in range(3):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            free: int = probe.getsockname()[1]
        yield free


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _spawn(
    home: Path, wanted: int | None, version: str, progress: Callable[[StartProgress], None]
) -> None:
    """Start the server and wait for it. If its port is taken in the meantime, use another one."""
    ports = list(_ports(home, wanted))
    for port in ports:
        progress(StartProgress("start"))
        (home / "server.json").unlink(missing_ok=True)
        _launch(home, port, version)
        _until(lambda: bool(_state(home)) or not _alive(home), _START_SECONDS)
        if _state(home):
            (home / "port").write_text(str(port), encoding="utf-8")
            return
        if "in use" not in _log_tail(home) or port == ports[-1]:
            raise StoreUnavailable(
                f"the Neo4j of {home} did not come up on port {port}: {_log(home)}"
            )


def _launch(home: Path, port: int, version: str) -> None:
    server = Path(__file__).with_name("process.py")
    listing = cache_dir() / f"{version}.json"
    command = [
        sys.executable,
        "-P",
        str(server),
        "launch",
        str(home),
        str(port),
        version,
        str(listing),
    ]
    with (home / "server.log").open("wb") as log:
        subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, check=False
        )


def _until(done: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not (finished := done()) and time.monotonic() < end:
        time.sleep(_POLL_SECONDS)
    return finished


def _log(home: Path) -> str:
    return f"{_log_tail(home)} (all of it: {home / 'server.log'})"


def _log_tail(home: Path) -> str:
    """The line of the log with the reason: the innermost Java cause, else the last line."""
    lines = (home / "server.log").read_text(encoding="utf-8", errors="replace").splitlines() or [
        "no log"
    ]
    causes = [line for line in lines if line.startswith("Caused by:")]
    return (causes or lines)[-1].removeprefix("Caused by:").rpartition("Exception: ")[2].strip()
