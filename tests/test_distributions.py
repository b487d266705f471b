"""The wheel holds what a user runs, and works in an empty folder. The source distribution is small, and
a wheel is built from it as from the repository.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

from tests.distributions import built

ROOT = Path(__file__).parents[1]
SHIPPED = "semgraph/_shipped/"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this source tree."""
    return built("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("sdist", ROOT, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def members(wheel: Path) -> set[str]:
    return set(zipfile.ZipFile(wheel).namelist())


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the unpacked wheel, as pip installs it."""
    folder = tmp_path_factory.mktemp("site-packages")
    zipfile.ZipFile(wheel).extractall(folder)
    return folder


COMMANDS = """
run add_episode --llm recorded --store memory
plans list --format json
plans check add_episode
explain --format algebra add_episode
operators list
functions list
operators new sem_join sorted_block my_ops
operators check my_ops
"""
EACH = """
import shlex, sys
from semgraph.cli import main
for line in sys.argv[1:]:
    print("$", line)
    sys.argv = ["semgraph", *shlex.split(line)]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
"""


@pytest.fixture(scope="module")
def printed(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each of the commands prints, run one after the other by one process in an empty folder
    with the package of the wheel alone.
    """
    folder = tmp_path_factory.mktemp("empty")
    environment = {**os.environ, "PYTHONPATH": str(installed), "SEMGRAPH_HOME": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", EACH, *COMMANDS.strip().splitlines()],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    _, *parts = ("\n" + done.stdout).split("\n$ ")
    return dict(part.split("\n", 1) for part in parts)


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


def test_the_installed_package_replays_the_first_example(printed: dict[str, str]) -> None:
    drawn = printed["run add_episode --llm recorded --store memory"]
    assert "Alice Chen ─ WORKS_AT ─▶ TechCorp" in drawn


def test_the_installed_package_lists_and_checks_its_plans(printed: dict[str, str]) -> None:
    plans = json.loads(printed["plans list --format json"])
    names = {
        path.relative_to(ROOT / "plans").with_suffix("").as_posix()
        for path in (ROOT / "plans").rglob("*.yaml")
        if "\nplan: " in "\n" + path.read_text(encoding="utf-8")
    }
    assert {plan["name"] for plan in plans} == names
    assert "memories/mem0/write" in names
    assert "plans check add_episode" in printed
    assert "read = read_separate(" in printed["explain --format algebra add_episode"]


def test_the_installed_package_makes_and_checks_an_implementation(
    printed: dict[str, str],
) -> None:
    assert "nested_loop" in printed["operators list"]
    assert "chunk(text: string" in printed["functions list"]
    assert "passed" in printed["operators check my_ops"]


def test_the_doctor_of_the_installed_package_prints_the_settings(
    installed: Path, tmp_path: Path
) -> None:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(installed)}
    done = subprocess.run(
        [sys.executable, "-m", "semgraph", "doctor"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "models.default" in done.stdout, done.stderr


def contents(wheel: Path) -> list[tuple[str, int]]:
    return [(file.filename, file.CRC) for file in zipfile.ZipFile(wheel).infolist()]


def test_a_wheel_from_the_source_distribution_is_that_of_the_repository(
    wheel: Path, sdist: Path, tmp_path: Path
) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (source,) = (tmp_path / "unpacked").iterdir()
    assert contents(built("wheel", source, tmp_path / "wheel")) == contents(wheel)


def test_the_source_distribution_has_no_results_of_benchmarks_and_is_small(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = archive.getnames()
    folders = {Path(name).parts[1] for name in names}
    files = {"CHANGELOG.md", "CITATION.cff", "LICENSE", "README.md", "PKG-INFO", "pyproject.toml"}
    assert folders - files == {"semgraph", "plans", "operators", "functions", "docs", ".gitignore"}
    docs = [name for name in names if Path(name).parts[1] == "docs"]
    assert {Path(name).parts[2] for name in docs} == {"examples"}
    assert sdist.stat().st_size < 2_000_000


def test_the_citation_is_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(citation)
    assert (citation["version"], citation["license"]) == (project["version"], project["license"])
    assert citation["authors"] == project["authors"]
    assert citation["keywords"] == project["keywords"]
