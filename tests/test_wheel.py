"""The wheel holds what a user runs, and works in an empty folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.distributions import built

ROOT = Path(__file__).parents[1]
SHIPPED = "semgraph/_shipped/"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this source tree, built without the network."""
    return built("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def members(wheel: Path) -> set[str]:
    return set(zipfile.ZipFile(wheel).namelist())


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the unpacked wheel, as pip installs it."""
    folder = tmp_path_factory.mktemp("site-packages")
    zipfile.ZipFile(wheel).extractall(folder)
    return folder


def semgraph(installed: Path, folder: Path, *arguments: str) -> str:
    """What a command prints, run in a folder with the package of the wheel alone."""
    environment = {**os.environ, "PYTHONPATH": str(installed), "SEMGRAPH_HOME": str(folder)}
    done = subprocess.run(
        [sys.executable, "-m", "semgraph", *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_plan_prompt_recording_and_operator_is_in_the_wheel(members: set[str]) -> None:
    sources = [
        *(ROOT / "plans").rglob("*.yaml"),
        *(ROOT / "plans").rglob("*.md"),
        *(ROOT / "plans").rglob("*.jsonl"),
        *(ROOT / "operators").rglob("*.py"),
        *(ROOT / "functions").rglob("*.py"),
    ]
    missing = {SHIPPED + path.relative_to(ROOT).as_posix() for path in sources} - members
    assert missing == set()


def test_every_file_of_the_package_is_in_the_wheel(members: set[str]) -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "semgraph"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert {name for name in tracked if (ROOT / name).exists()} - members == set()


def test_the_wheel_holds_nothing_for_developers(members: set[str]) -> None:
    packages = {name.split("/")[0] for name in members}
    assert {name for name in packages if not name.endswith(".dist-info")} == {"semgraph"}
    kinds = {Path(name).suffix for name in members if name.startswith(SHIPPED + "plans/")}
    assert kinds == {".yaml", ".md", ".jsonl", ".json"}
    assert [name for name in members if name.endswith(".pyc")] == []


def test_the_installed_package_replays_the_first_example(installed: Path, tmp_path: Path) -> None:
    printed = semgraph(
        installed, tmp_path, "run", "add_episode", "--llm", "recorded", "--store", "memory"
    )
    assert "Alice Chen ─ WORKS_AT ─▶ TechCorp" in printed


def test_the_installed_package_lists_and_checks_its_plans(installed: Path, tmp_path: Path) -> None:
    plans = json.loads(semgraph(installed, tmp_path, "--format", "json", "plans", "list"))
    names = {
        path.relative_to(ROOT / "plans").with_suffix("").as_posix()
        for path in (ROOT / "plans").rglob("*.yaml")
        if "\nplan: " in "\n" + path.read_text(encoding="utf-8")
    }
    assert {plan["name"] for plan in plans} == names
    assert "memories/mem0/write" in names
    semgraph(installed, tmp_path, "plans", "check", "add_episode")
    assert "read = read_separate(" in semgraph(
        installed, tmp_path, "explain", "--format", "algebra", "add_episode"
    )


def test_the_installed_package_makes_and_checks_an_implementation(
    installed: Path, tmp_path: Path
) -> None:
    assert "nested_loop" in semgraph(installed, tmp_path, "operators", "list")
    assert "chunk(text: string" in semgraph(installed, tmp_path, "functions", "list")
    semgraph(installed, tmp_path, "operators", "new", "sem_join", "sorted_block", "my_ops")
    assert "passed" in semgraph(installed, tmp_path, "operators", "check", "my_ops")


def test_the_doctor_of_the_installed_package_prints_the_settings(
    installed: Path, tmp_path: Path
) -> None:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(installed)}
    done = subprocess.run(
        [sys.executable, "-m", "semgraph", "doctor"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "models.default" in done.stdout, done.stderr
