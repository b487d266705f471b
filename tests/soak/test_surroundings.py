"""What happens around a process: it forks, its clock is set back, its folder cannot be written."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.served import served
from tests.soak.conftest import PLAN, Server

ROOT = Path(__file__).parents[2]
FORK = """
import json, os, sys
import semgraph as sg
url, store = sys.argv[1:]
session = sg.Session(llm=f"openai:m@{url}", store=store)
rows = lambda n: [{"id": n, "body": f"Tap {n} leaks."}]
def run(n):
    try:
        return session.run("complaints", tickets=rows(n), progress=None).tables["complaints"].num_rows
    except sg.SemgraphError as error:
        return f"{type(error).__name__}: {error}"
print(json.dumps(["process", os.getpid()]), flush=True)
print(json.dumps(["parent", run(1)]), flush=True)
child = os.fork()
if not child:
    print(json.dumps(["child", run(2)]), flush=True)
    print(json.dumps(["child again", run(1)]), flush=True)
    session.close()
    os._exit(0)  # as multiprocessing ends a child
print(json.dumps(["status", os.waitpid(child, 0)[1]]), flush=True)
print(json.dumps(["parent again", run(3)]), flush=True)
session.close()
"""


def run_script(script: str, folder: Path, *arguments: str) -> dict[str, object]:
    """What a script prints: a JSON list of two on each line."""
    folder.mkdir(exist_ok=True)
    (folder / "complaints.yaml").write_text(PLAN, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], cwd=folder, capture_output=True, text=True, timeout=120, check=False,
        env={"PYTHONPATH": str(ROOT), "OPENAI_API_KEY": "none", "HOME": str(folder)},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return dict(json.loads(line) for line in done.stdout.splitlines())


def test_a_forked_child_is_told_to_make_a_session(tmp_path: Path) -> None:
    server = Server()
    with served(server):
        printed = run_script(FORK, tmp_path, server.base_url, "sqlite:graph.db")
    told = "SemgraphError: process {} uses this session, and this process is a fork of it: "
    assert printed | {"child": "", "child again": ""} == {
        "process": printed["process"], "parent": 1, "child": "", "child again": "", "status": 0, "parent again": 1,
    }  # fmt: skip
    for child in ("child", "child again"):
        assert str(printed[child]).startswith(told.format(printed["process"]))
    assert (server.counters.calls, len(server.connections)) == (2, 1)


def test_a_forked_child_uses_a_session_that_was_closed_before(tmp_path: Path) -> None:
    server = Server()
    script = FORK.replace("child = os.fork()", "session.close()\nchild = os.fork()")
    with served(server):
        printed = run_script(script, tmp_path, server.base_url, "sqlite:graph.db")
    assert [printed[who] for who in ("parent", "child", "child again", "parent again")] == [1] * 4
    assert server.counters.calls == 3, "what the parent was answered is in the journal"


MEMORY = FORK.replace(
    "def run(n):",
    """(open("graph.yaml", "w")).write("graph: g\\nnodes: {Tap: {properties: {text: string}}}\\n")
open("taps.yaml", "w").write('''
plan: taps
graph: graph.yaml
inputs: {taps: {id: string, text: string, group_id: string}}
steps: {kept: [{from: taps}]}
writes: [{merge: {from: kept, node: Tap, key: id}}]
returns: [kept]
''')
def run(n):
    taps = [{"id": str(n), "text": "It leaks.", "group_id": "g"}]
    try:
        session.run("taps", taps=taps)
        return len(taps)
    except sg.SemgraphError as error:
        return f"{type(error).__name__}: {error}"
def unused(n):""",
)


def test_a_forked_child_cannot_use_the_graph_in_memory(tmp_path: Path) -> None:
    server = Server()
    with served(server):
        printed = run_script(MEMORY, tmp_path, server.base_url, "memory")
    assert (printed["parent"], printed["parent again"], printed["status"]) == (1, 1, 0)
    assert "this process is a fork of it" in str(printed["child"])


@pytest.mark.parametrize("store", ["memory", "sqlite:graph.db"])
@pytest.mark.parametrize("close", ["session.close()", "pass"])
def test_a_forked_child_may_end_as_a_script_does(tmp_path: Path, store: str, close: str) -> None:
    ending = f"    {close}\n    sys.exit(0)"
    script = MEMORY.replace(
        "    session.close()\n    os._exit(0)  # as multiprocessing ends a child", ending
    )
    assert ending in script
    printed = run_script(script, tmp_path, "http://127.0.0.1:9", store)
    assert (printed["parent"], printed["parent again"], printed["status"]) == (1, 1, 0)


CLOCK = """
import datetime, json, sys, time
real, hour = time.time, datetime.timedelta(hours=1)
class Set(datetime.datetime):
    back = datetime.timedelta()
    @classmethod
    def now(cls, tz=None):
        return super().now(tz) - cls.back
import semgraph as sg
url = sys.argv[1]
sg.Session(llm=f"openai:m@{url}", store="memory", journal=False, runs="").run("complaints", tickets=[])
for name, module in list(sys.modules.items()):
    if name.startswith("semgraph") and getattr(module, "datetime", None) is datetime.datetime:
        module.datetime = Set
time.time = lambda: real() - Set.back.total_seconds()
session = sg.Session(llm=f"openai:m@{url}?rpm=6000", embedder=f"openai:e@{url}?dimensions=8", max_seconds=600)
open("graph.yaml", "w").write("graph: g\\nnodes: {Tap: {properties: {text: string, at: timestamp}}}\\n")
open("taps.yaml", "w").write('''
plan: taps
graph: graph.yaml
inputs: {taps: {id: string, text: string, at: timestamp, group_id: string}}
windows: {input: taps, partition: group_id, key: id, order: at, size: 1}
steps:
  told: [{from: taps}, {sem_filter: {prompt: "Does it leak: {text}"}}]
writes: [{merge: {from: told, node: Tap, key: id}}]
returns: [told]
''')
def taps(*numbers):
    return [{"id": str(n), "text": f"Tap {n}", "at": f"2025-01-0{n}", "group_id": "g"} for n in numbers]
def turn_back(progress):
    Set.back += hour
first = session.run("taps", taps=taps(1, 2, 3), progress=turn_back)
print(json.dumps(["first", [first.committed, first.skipped, first.meter.total().calls_issued]]))
Set.back += 24 * hour
second = session.run("taps", taps=taps(1, 2, 3, 4))
print(json.dumps(["second", [second.committed, second.skipped, second.meter.total().calls_issued]]))
third = session.refresh("taps", taps=taps(1, 2, 3, 4))
print(json.dumps(["third", [len(third.diff), *(getattr(third.metrics.total(), f"calls_{n}") for n in ("issued", "journal"))]]))
session.close()
"""


def test_setting_the_clock_back_does_not_break_limits_windows_or_the_journal(
    tmp_path: Path,
) -> None:
    server = Server()
    with served(server):
        printed = run_script(CLOCK, tmp_path, server.base_url)
    assert printed == {"first": [3, 0, 3], "second": [1, 3, 1], "third": [0, 0, 4]}


POWERLESS = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)     # the superuser obeys permissions too: PR_CAPBSET_DROP, CAP_DAC_OVERRIDE
os.execv(sys.executable, [sys.executable, "-c", sys.argv[1], *sys.argv[2:]])
"""
READ_ONLY = """
import json, sys
import semgraph as sg
url, options = sys.argv[1], json.loads(sys.argv[2])
session = sg.Session(llm=f"openai:m@{url}", store="memory", **options)
try:
    print(json.dumps(["rows", session.run("complaints", tickets=[{"id": 1, "body": "It leaks."}]).tables["complaints"].num_rows]))
except sg.SemgraphError as error:
    print(json.dumps(["error", str(error)]))
session.close()
"""


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "journal.db: the journal cannot be opened (Permission denied). Name another file"),
        ({"journal": False}, "cannot write the run record"),
        ({"journal": False, "runs": ""}, ""),
    ],
)
def test_a_folder_that_cannot_be_written_is_an_error_that_says_what_to_do(
    tmp_path: Path, options: dict[str, object], expected: str
) -> None:
    """Nothing is sent before the error; without a journal and records a session needs no place to
    write.
    """
    folder, server = tmp_path / "closed", Server()
    folder.mkdir()
    (folder / "complaints.yaml").write_text(PLAN, encoding="utf-8")
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        with served(server):
            done = subprocess.run(
                [sys.executable, "-c", POWERLESS, READ_ONLY, server.base_url, json.dumps(options)], cwd=folder,
                capture_output=True, text=True, timeout=120, check=False,
                env={"PYTHONPATH": str(ROOT), "OPENAI_API_KEY": "none", "HOME": str(tmp_path)},
            )  # fmt: skip
    finally:
        folder.chmod(stat.S_IRWXU)
    assert (done.returncode, done.stderr) == (0, "")
    kind, said = json.loads(done.stdout)
    assert (kind, server.counters.calls) == (("error", 0) if expected else ("rows", 1))
    assert expected in str(said)
    assert os.listdir(folder) == ["complaints.yaml"]
