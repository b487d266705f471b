"""The source distribution: a wheel is built from it as from the repository, and it is small."""

from __future__ import annotations

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


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("sdist", ROOT, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that is built from the unpacked source distribution."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (source,) = folder.iterdir()
    return built("wheel", source, tmp_path_factory.mktemp("wheel"))


def test_a_wheel_from_it_has_the_files_of_one_from_the_repository(
    wheel: Path, tmp_path: Path
) -> None:
    other = built("wheel", ROOT, tmp_path)
    assert zipfile.ZipFile(wheel).namelist() == zipfile.ZipFile(other).namelist()


def test_the_wheel_from_it_runs_in_an_empty_folder(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "site-packages")
    (tmp_path / "empty").mkdir()
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(tmp_path / "site-packages"),
        "SEMGRAPH_HOME": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-m", "semgraph", "plans", "check", "add_episode"],
        cwd=tmp_path / "empty", env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_it_has_no_results_of_benchmarks_and_is_small(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        folders = {Path(name).parts[1] for name in archive.getnames()}
    files = {"CHANGELOG.md", "CITATION.cff", "LICENSE", "README.md", "PKG-INFO", "pyproject.toml"}
    assert folders - files == {"semgraph", "plans", "operators", "functions", ".gitignore"}
    assert sdist.stat().st_size < 2_000_000


def test_the_citation_is_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(citation)
    assert (citation["version"], citation["license"]) == (project["version"], project["license"])
    assert citation["authors"] == project["authors"]
    assert citation["keywords"] == project["keywords"]
