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
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from semgraph.errors import StoreUnavailable
from semgraph.extras import install, missing
from semgraph.privacy import private_folder

if TYPE_CHECKING:
    import filelock
    import httpx2

VERSION = "5.26.0"
CENTRAL = "https://repo.maven.apache.org/maven2"
_AT_ONCE, _SECONDS = 8, 30.0
_FALSE = ("", "0", "false", "no", "off")


@dataclass(frozen=True)
class StartProgress:
    """The progress of a start; `size` is the bytes of the jars that have come."""

    phase: Literal["download", "start"]
    done: int = 0
    total: int = 0
    size: int = 0


@dataclass(frozen=True)
class Jar:
    """A jar of Neo4j: its path in a Maven repository, and the bytes that it must have."""

    path: str
    size: int
    digest: str

    @classmethod
    def of(cls, line: str) -> Jar:
        """A jar from a line of the list."""
        path, size, digest = line.split()
        return cls(path, int(size), digest)

    def is_in(self, repository: Path) -> bool:
        """Whether a repository has it in full length."""
        file = repository / self.path
        return file.is_file() and file.stat().st_size == self.size

    def fetch(self, client: httpx2.Client, repository: Path) -> int:
        """Download it, and return its size. Raises ValueError for other bytes, which are not kept."""
        file = repository / self.path
        body = client.get(f"{CENTRAL}/{self.path}").raise_for_status().content
        if hashlib.sha256(body).hexdigest() != self.digest:
            raise ValueError(f"{file.name}: not the bytes that were to come (SHA-256)")
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_name(f"{file.name}.part")
        draft.write_bytes(body)
        draft.replace(file)
        return self.size


def cache_dir() -> Path:
    """The folder of jars: `neo4j` in `SEMGRAPH_HOME`, else in the user's cache."""
    import platformdirs

    home = os.environ.get("SEMGRAPH_HOME")
    return (Path(home).expanduser() if home else platformdirs.user_cache_path("semgraph")) / "neo4j"


def jars(progress: Callable[[StartProgress], None], cache: Path | None = None) -> Path:
    """The repository with the jars, downloaded if missing. Raises StoreUnavailable."""
    from filelock import FileLock

    folder = cache or cache_dir()
    repository = folder / "maven"
    if not _lacking(repository):
        return repository
    if os.environ.get("SEMGRAPH_OFFLINE", "").lower() not in _FALSE:
        raise StoreUnavailable(
            f"Neo4j {VERSION} is not in {folder}, and SEMGRAPH_OFFLINE forbids fetching it (140 MB from Maven Central): "
            "unset it for one start, or name a server that runs already (NEO4J_URI)"
        )
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "lock"):
        _fetch(_lacking(repository), repository, progress)
    return repository


def _lacking(repository: Path) -> list[Jar]:
    listed = Path(__file__).with_name(f"neo4j-{VERSION}.txt").read_text(encoding="utf-8")
    every = map(Jar.of, listed.splitlines())
    return [jar for jar in every if not jar.is_in(repository)]


def _fetch(
    lacking: Sequence[Jar], repository: Path, progress: Callable[[StartProgress], None]
) -> None:
    import httpx2

    size = 0
    try:
        with (
            httpx2.Client(timeout=_SECONDS, follow_redirects=True) as client,
            ThreadPoolExecutor(_AT_ONCE) as pool,
        ):
            sizes = pool.map(lambda jar: jar.fetch(client, repository), lacking)
            for done, own in enumerate(sizes, 1):
                size += own
                progress(StartProgress("download", done, len(lacking), size))
    except (ValueError, OSError, httpx2.HTTPError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise StoreUnavailable(
            f"Neo4j {VERSION} cannot be fetched from Maven Central: {reason}. What came is kept in {repository}: start "
            "again to go on, or name a server that runs already (NEO4J_URI)"
        ) from error


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
    progress: Callable[[StartProgress], None] = lambda _: None,
) -> LocalServer:
    """Start the server of a folder, or return the running one. The first start on a machine
    downloads 140 MB of jars. Without a port it is the folder's last one, 7687, or any free one.
    Raises StoreUnavailable with the reason and the remedy.
    """
    _check_packages()
    home = Path(folder).absolute()
    if (server := status(home)).running:
        return server
    repository = jars(progress)
    _prepare(home)
    with _folder_lock(home):
        # A server that is starting or stopping.
        _until(lambda: bool(_state(home)) or not _alive(home), _START_SECONDS)
        if not _alive(home):
            _spawn(home, port, repository, progress)
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
    """Shut down the server of a folder cleanly, if it runs. Raises StoreUnavailable."""
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


def _folder_lock(home: Path) -> filelock.BaseFileLock:
    """A lock for whoever starts, stops or checks a server: a check is not taken for a server."""
    from filelock import FileLock

    return FileLock(home / "manage.lock", timeout=_START_SECONDS + _STOP_SECONDS)


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
    home: Path, wanted: int | None, repository: Path, progress: Callable[[StartProgress], None]
) -> None:
    """Start the server and wait for it. If its port is taken in the meantime, use another one."""
    ports = list(_ports(home, wanted))
    for port in ports:
        progress(StartProgress("start"))
        (home / "server.json").unlink(missing_ok=True)
        _launch(home, port, repository)
        _until(lambda: bool(_state(home)) or not _alive(home), _START_SECONDS)
        if _state(home):
            (home / "port").write_text(str(port), encoding="utf-8")
            return
        if "in use" not in _log_tail(home) or port == ports[-1]:
            what = f"the Neo4j of {home} did not come up on port {port}"
            raise StoreUnavailable(f"{what}: {_log(home)}")


def _launch(home: Path, port: int, repository: Path) -> None:
    server = str(Path(__file__).with_name("process.py"))
    own = ["launch", str(home), str(port), VERSION, str(repository)]
    with (home / "server.log").open("wb") as log:
        subprocess.run(
            [sys.executable, "-P", server, *own],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
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
    text = (home / "server.log").read_text(encoding="utf-8", errors="replace")
    lines = text.splitlines() or ["no log"]
    causes = [line for line in lines if line.startswith("Caused by:")]
    return (causes or lines)[-1].removeprefix("Caused by:").rpartition("Exception: ")[2].strip()
