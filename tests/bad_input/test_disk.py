"""A disk that is full, and a process that is killed: what was paid for or written stays, and the
run can go on.
"""

from __future__ import annotations

import subprocess
import sys

from tests.bad_input.conftest import NOISE, Serving, episode, held, quiet, told
from tests.cli.conftest import Ended, Project
from tests.patience import HANGS

LIMITED = """
import resource, sys
limit = int(sys.argv.pop(1))
from semgraph.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))     # no file of this process may grow past it
main()
"""
MANY = [
    episode(f"Ann(user): I live in Rome {n}. " + f"Nothing else is new {n}. " * 100, n)
    for n in range(8)
]


def limited(project: Project, size: int, *args: str) -> Ended:
    """Run a command that can make no file larger than `size` bytes."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(size), *args], cwd=project.folder, env=project.env,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=HANGS, check=False,
    )  # fmt: skip
    return Ended(done.returncode, done.stdout, done.stderr)


def test_a_full_disk_for_the_journal_fails_the_run(project: Project, serving: Serving) -> None:
    """The store has room, the journal none: no answer is used that was not kept."""
    quiet(
        project(
            *told(project, [episode("Ann(user): I live in Oslo.")], "first.jsonl"),
            "--store",
            "memory",
        ),
        0,
    )
    asked = [*told(project, MANY[:3]), "--store", "memory"]
    ended = limited(project, 100_000, *asked)
    assert ended.code in (1, 5), ended
    assert not [word for word in NOISE if word in ended.err], ended.err
    assert "journal.db" in ended.err
    assert "disk" in ended.err
    again = project(*asked)
    quiet(again, 0)
    assert "─▶ Rome 2" in again.out


def test_a_disk_that_fills_during_a_run_leaves_whole_rows_and_the_run_can_be_resumed(
    project: Project, serving: Serving
) -> None:
    """Whatever is full first, journal or store: what is written is whole, and the run ends once
    there is room.
    """
    quiet(project(*told(project, [episode("Ann(user): I live in Oslo.")], "first.jsonl")), 0)
    ended = limited(project, 500_000, *told(project, MANY))
    assert ended.code in (1, 5), ended
    assert not [word for word in NOISE if word in ended.err], ended.err
    assert "disk" in ended.err
    kept = len(held(project, "RELATES_TO"))
    assert kept < len(MANY)
    resumed = project("run", "add_episode", "--resume", ended.err.split("--resume ")[1].split()[0])
    quiet(resumed, 0)
    assert len(held(project, "Episodic")) == 1 + len(MANY)
    assert len(held(project, "RELATES_TO")) == 1 + len(MANY)


def test_a_full_disk_is_reported_before_any_request(project: Project, serving: Serving) -> None:
    ended = limited(project, 0, *told(project, MANY[:1]))
    assert ended.code in (1, 5), ended
    assert not [word for word in NOISE if word in ended.err], ended.err
    assert serving.requests == 0
    quiet(project(*told(project, MANY[:1])), 0)


def test_a_killed_run_keeps_what_it_committed(project: Project, serving: Serving) -> None:
    """Killed while the last message is read: those before are whole, and are not paid for twice."""
    project.write("semgraph.toml", "[limits]\nin_flight = 1\n")
    rows = [episode(f"Ann(user): I live in Rome {n}.", n) for n in range(3)]
    quiet(project(*told(project, rows[:2])), 0)
    serving.hold()
    process = project.start(*told(project, rows))
    serving.until_held()
    process.kill()
    process.communicate(timeout=HANGS)
    assert len(held(project, "RELATES_TO")) == 2
    serving.release()
    ended = project(*told(project, rows))
    quiet(ended, 0)
    assert len(held(project, "Episodic")) == 3
    assert sum(row["name"] == "Rome 2" for row in held(project, "Entity")) == 1
