"""What goes wrong around a benchmark: it is told, it is bounded, and what was measured is kept."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest
from click.testing import Result
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.ingest.ours import run
from benchmarks.suite import Lines, Unmeasured
from benchmarks.suite import peers as peers_of
from benchmarks.suite.children import last_line_of
from benchmarks.suite.made import ROOT
from benchmarks.suite.peers import request, run_once
from benchmarks.suite.running import measure, work
from benchmarks.suite.serving import NotServing, same_as_counted, serving
from semgraph.meter import StepMetrics
from tests.benchmarks.made import bench, case
from tests.patience import HANGS, default_signals


def command(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def test_an_unknown_benchmark_is_reported_with_the_known_names() -> None:
    done = command("run", "ingset")
    assert done.exit_code == 2
    assert 'no benchmark "ingset"; known: engine, ingest, memories, operators' in done.stderr
    assert 'Did you mean "ingest"?' in done.stderr


@pytest.mark.parametrize("words", [("run", "engine"), ("table",), ("check",), ("list",)])
def test_an_unreadable_line_is_reported_with_its_position(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "engine.jsonl").write_text('{"benchmark": "engine"\n')
    done = command(*words, "--into", tmp_path)
    assert done.exit_code == 2, done.exception
    assert f"{tmp_path}/engine.jsonl:1  invalid line of results" in done.stderr
    assert "Traceback" not in done.stderr


SLOW = """
    import time
    from benchmarks.suite import Benchmark, Case
    import benchmarks.suite.benchmark as b, benchmarks.__main__ as m
    from pathlib import Path

    def waits(trial):
        Path({ran!r}).open("a").write(f"{{trial}}\\n")
        time.sleep({seconds} * trial)  # the first is done at once
        return {{"calls": trial}}

    one = Benchmark("engine", "Q?", "simulated", lambda: [Case({{"way": "a"}}, waits, trials=3)], (), sources=())
    m.load = lambda name: one
    m.names = lambda: ["engine"]
    m._write = lambda folder: None
    m.app({words!r})
"""


def _slow(ran: Path, seconds: float, *words: str | Path) -> list[str]:
    text = textwrap.dedent(SLOW).format(
        ran=str(ran), seconds=seconds, words=["run", *map(str, words)]
    )
    return [sys.executable, "-c", text]


@pytest.mark.parametrize(
    ("how", "code"), [(signal.SIGTERM, 130), (signal.SIGINT, 130), (signal.SIGKILL, -9)]
)
def test_a_run_that_was_killed_goes_on_with_the_rest(
    how: signal.Signals, code: int, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    command = _slow(ran, HANGS, "--into", tmp_path)
    first = subprocess.Popen(
        command, cwd=ROOT, stderr=subprocess.PIPE, text=True, preexec_fn=default_signals
    )
    while not ran.exists() or ran.read_text() != "0\n1\n":
        time.sleep(0.02)
        assert first.poll() is None
    first.send_signal(how)
    _, err = first.communicate()
    assert first.returncode == code
    assert ("the same command continues" in err) is (code == 130)
    again = subprocess.run(
        _slow(ran, 0, "--into", tmp_path), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert again.returncode == 0, again.stderr
    assert "2 trials to measure, 1 exist already" in again.stderr
    assert ran.read_text() == "0\n1\n1\n2\n"
    assert [one.trial for one in Lines("engine", tmp_path)] == [0, 1, 2]


def test_a_time_that_is_too_short_leaves_the_rest_for_later(tmp_path: Path) -> None:
    words = _slow(tmp_path / "ran", 1.2, "--into", tmp_path, "--minutes", "0.01")
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert (
        "trials did not start within 0.01 min; the same command continues with them" in done.stderr
    )
    assert len(list(Lines("engine", tmp_path))) < 3


def test_a_budget_that_is_too_small_is_no_cheap_result(tmp_path: Path) -> None:
    def small(trial: int) -> dict[str, object]:
        return dict(run("add_episode", "turns dated", "memory", {"max_calls": 2}, 0, trial))

    one = bench(case("a", small, trials=1))
    (told,) = measure(one, work(one, quick=False, full=False), Lines("ingest", tmp_path))
    assert told.figures == {}
    assert told.failed.startswith("BudgetReached: ")
    assert "max_calls" in told.failed


def test_an_accounting_that_differs_from_the_servers_is_a_failure() -> None:
    wire = {
        "attempts": 2,
        "embedding_calls": 1,
        "tokens_in": 10,
        "embedding_tokens": 2,
        "tokens_out": 3,
    }
    same_as_counted(StepMetrics(attempts=3, tokens_in=12, tokens_out=3), wire)
    with pytest.raises(
        ValueError, match=r"semgraph counted .*'attempts': 2.*the server .*'attempts': 3"
    ):
        same_as_counted(StepMetrics(attempts=2, tokens_in=12, tokens_out=3), wire)


def test_a_port_in_use_is_reported_with_a_remedy() -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = str(busy.getsockname()[1])
        told = pytest.raises(
            NotServing, match=rf"did not start.*{port}.*in use.* end it, or choose a different port"
        )
        with told, serving("--port", port):
            raise AssertionError


def test_a_server_serves_again_with_nothing_counted() -> None:
    with serving("--latency", "0") as server:
        url = server.url
    with serving("--latency", "0") as server:
        assert server.url == url
        assert server.counted()["attempts"] == 0


PEER = """
    import os, sys
    from benchmarks.suite.peers import serve

    def answer(given):
        if given == "breaks":
            raise ValueError("no such model")
        if given == "dies":
            print("out of memory", file=sys.stderr)
            os._exit(3)
        print("chatter")
        return {"said": given, "process": os.getpid()}

    serve(answer)
"""
HANGING = """
    import os, subprocess, time
    child = subprocess.Popen(["sleep", "60"])
    open(os.environ["TOLD"], "w").write(f"{os.getpid()} {child.pid}")
    time.sleep(60)
"""


@pytest.fixture
def peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Another engine, installed in a folder of its own."""
    (tmp_path / "env/bin").mkdir(parents=True)
    python = tmp_path / "env/bin/python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    (tmp_path / "a_peer.py").write_text(textwrap.dedent(PEER))
    (tmp_path / "hanging.py").write_text(textwrap.dedent(HANGING))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    monkeypatch.setenv("TOLD", str(tmp_path / "told"))
    monkeypatch.setitem(peers_of.PEERS, "engine", (str(tmp_path / "env"), "make engine"))
    return "a_peer"


def test_a_missing_peer_is_reported_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(peers_of.PEERS, "engine", (".venv-nowhere", "make engine"))
    with pytest.raises(
        Unmeasured, match=r"engine is not installed in \.venv-nowhere\. Run: make engine"
    ):
        run_once("engine", "a_peer")
    with pytest.raises(Unmeasured, match=r"Run: make engine"):
        request("engine", "a_peer", {})


def test_a_peer_is_kept_and_its_chatter_is_no_answer(peer: str) -> None:
    first, second = (request("engine", peer, given) for given in ("one", "two"))
    assert (first["said"], second["said"]) == ("one", "two")
    assert first["process"] == second["process"]
    assert run_once("engine", peer, payload="three")["said"] == "three"


@pytest.mark.parametrize(
    "how", [request, lambda name, module, given: run_once(name, module, payload=given)]
)
def test_a_broken_peer_is_reported_with_its_last_line(how, peer: str) -> None:
    with pytest.raises(RuntimeError, match=r"engine: ValueError: no such model"):
        how("engine", peer, "breaks")
    with pytest.raises(RuntimeError, match=r"engine ended with 3: out of memory"):
        how("engine", peer, "dies")
    assert how("engine", peer, "again")["said"] == "again"


@pytest.mark.parametrize(
    "how", [request, lambda name, module, given: run_once(name, module, payload=given)]
)
def test_a_peer_that_does_not_end_is_ended_with_its_children(
    how, peer: str, tmp_path: Path
) -> None:
    one = bench(case("a", lambda _: how("engine", "hanging", "x"), trials=1, seconds=8))
    (told,) = measure(one, work(one, quick=False, full=False), Lines("ingest", tmp_path))
    assert told.failed == "not finished after 8 s"
    processes = [int(number) for number in (tmp_path / "told").read_text().split()]
    left = [psutil.Process(one) for one in processes if psutil.pid_exists(one)]
    patience = time.monotonic() + HANGS
    while living := [
        process for process in left if alive(process)
    ]:  # a killed process takes a moment to be gone
        assert time.monotonic() < patience, living
        time.sleep(0.02)


def alive(process: psutil.Process) -> bool:
    """Whether a process runs: one that nobody has waited for is dead all the same."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_process_of_its_own_tells_why_it_ended(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"json\.tool ended with \d: .*"):
        last_line_of("json.tool", str(tmp_path / "nothing.json"))
    (tmp_path / "one.json").write_text("1")
    assert json.loads(last_line_of("json.tool", str(tmp_path / "one.json"))) == 1
