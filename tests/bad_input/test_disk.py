"""A disk that is full or cannot be written: what was paid for or written stays, and the run can go on."""

from __future__ import annotations

import resource
import stat

import pytest

from tests.bad_input.conftest import NOISE, Serving, episode, held, powerless, quiet, told
from tests.cli.conftest import Ended, Project

MANY = [
    episode(f"Ann(user): I live in Rome {n}. " + f"Nothing else is new {n}. " * 100, n)
    for n in range(8)
]


def limited(project: Project, size: int, *args: str) -> Ended:
    """Run a command while this process can make no file larger than `size` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        return project(*args)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


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


JOURNAL = "[journal]\nkeep_days = 0\n"
FILE = "/.semgraph is a file, not a folder"


@pytest.mark.parametrize(
    ("settings", "store", "expected"),
    [
        (
            "",
            "memory",
            (
                f"journal.db: the journal cannot be opened (FOLDER{FILE}). Name another file for the "
                "journal, or switch it off (semgraph.toml, [journal]: path, keep_days = 0)"
            ),
        ),
        (
            JOURNAL,
            "memory",
            (
                f": FOLDER{FILE}. Run in a folder that you may write to: records are in .semgraph/runs of it, "
                "or, in Python, in Session(runs=DIR)"
            ),
        ),
        (
            JOURNAL,
            "sqlite:.semgraph/graph.db",
            (
                f"graph.db  its folder cannot be made (FOLDER{FILE}). Name another file: "
                "--store sqlite:PATH, or SEMGRAPH_STORE"
            ),
        ),
    ],
    ids=["journal", "records", "store"],
)
def test_a_file_in_place_of_the_folder_is_an_error_that_names_the_setting(
    project: Project, serving: Serving, settings: str, store: str, expected: str
) -> None:
    project.write("semgraph.toml", settings)
    project.write(".semgraph", "a note")
    ended = project(*told(project, MANY[:1]), "--store", store, "--quiet")
    assert ended.err.strip().endswith(expected.replace("FOLDER", str(project.folder)))
    assert ended.code in (1, 5)
    assert serving.requests == 0
    assert (project.folder / ".semgraph").read_text(encoding="utf-8") == "a note"


def test_a_file_in_place_of_semgraph_s_own_folder_is_an_error_that_names_the_variable(
    project: Project, serving: Serving
) -> None:
    home = project.write("home", "a note")
    project.env["SEMGRAPH_HOME"] = str(home)
    assert quiet(project(*told(project, MANY[:1])), 2).strip() == (
        f"./home/config.toml: cannot be read. {home} is a file, not a folder. "
        "Name another: its folder is SEMGRAPH_HOME"
    )
    assert quiet(project("model", "pull", "all-MiniLM-L6-v2"), 5).splitlines()[-1] == (
        f"{home}/models: the folder for models cannot be written ({home} is a file, not a folder). "
        "Name another place: SEMGRAPH_HOME=DIR"
    )
    assert serving.requests == 0


def test_a_folder_of_models_that_cannot_be_written_is_an_error_that_names_the_variable(
    project: Project,
) -> None:
    models = project.folder / "home" / "models"
    models.mkdir(parents=True)
    models.chmod(stat.S_IRUSR | stat.S_IXUSR)
    project.env["SEMGRAPH_HOME"] = str(models.parent)
    try:
        ended = powerless(project, "model", "pull", "all-MiniLM-L6-v2")
    finally:
        models.chmod(stat.S_IRWXU)
    assert quiet(ended, 5).splitlines()[-1] == (
        f"{models}: the folder for models cannot be written (Permission denied). "
        "Name another place: SEMGRAPH_HOME=DIR"
    )
