"""A real Neo4j Community server on this machine, without Docker, JDK or Maven: `start`, `status`,
`stop`.

The server is a process of its own that outlives the one that started it, keeps data, log and
password in one folder, and listens on the loopback address only. A `settings.conf` in that folder,
lines as in Neo4j's own neo4j.conf, is added to its configuration at the next start. Needs the extra
`neo4j-local`.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from semgraph.errors import PlanError, StoreUnavailable
from semgraph.extras import install, missing
from semgraph.privacy import private_folder
from semgraph.stores.neo4j.local.jars import StartProgress, cache_dir, jars

VERSION = "5.26.0"
FOLDER = ".semgraph/neo4j"
USER = "neo4j"
PORT = 7687
_START_SECONDS = 120.0
_STOP_SECONDS = 60.0
_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class LocalServer:
    """A local server and how to reach it; `pid` is None when it does not run."""

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
    """Start the server of a folder, or find it running. The first start on a machine downloads 140
    MB of jars.

    Args:
        folder: Where data, log and password are, or will be.
        port: The Bolt port; None: the folder's last one, 7687, or any that is free.
        version: Of Neo4j, 5.26 or later; a server that runs already keeps its own.
        progress: Called with the progress of the download and the start.

    Raises:
        StoreUnavailable: The extra is missing, the jars cannot be had, or the server does not come
            up; the message says why and what to do.
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
        _until(
            lambda: bool(_state(home)) or not _alive(home), _START_SECONDS
        )  # one that starts, or is about to end
        if not _alive(home):
            _spawn(home, port, version, progress)
        return _described(home, running=True)


def status(folder: str | Path = FOLDER) -> LocalServer:
    """What runs in a folder, if anything. Raises StoreUnavailable if the extra is missing."""
    home = Path(folder).absolute()
    if not (home / "password").exists():
        return _described(home, running=False)
    _check_packages()
    with _folder_lock(home):
        return _described(home, running=_alive(home))


def stop(folder: str | Path = FOLDER) -> LocalServer:
    """Shut down the server of a folder cleanly, if it runs. Raises StoreUnavailable if it does not
    end.
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
    """The folder, for this user alone, and its password."""
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
    """One at a time starts, stops or looks: so that a look is never mistaken for a running
    server.
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
    """Start the server and wait for it; if its port is taken between the look and the start, with
    another one.
    """
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
    """The line of the log that says why: the innermost Java cause, else the last line."""
    lines = (home / "server.log").read_text(encoding="utf-8", errors="replace").splitlines() or [
        "no log"
    ]
    causes = [line for line in lines if line.startswith("Caused by:")]
    return (causes or lines)[-1].removeprefix("Caused by:").rpartition("Exception: ")[2].strip()
