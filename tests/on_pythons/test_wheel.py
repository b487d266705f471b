"""The wheel installs and runs on each Python that is found here: `make test-pythons`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.distributions import built

ROOT = Path(__file__).parents[2]
MINORS = (11, 12, 13, 14)
FRAME = """
import pandas, semgraph, semgraph.pandas
rows = pandas.DataFrame({"n": [1, 2, 3]})
session = semgraph.Session(store="memory", runs="", journal=False)
print(session.run(semgraph.table(rows).filter("n > 1")).to_pandas()["n"].tolist())
"""


@cache
def interpreters() -> dict[str, str]:
    """Pythons that start, by version: on the path, or among those of pyenv."""
    found = {}
    for minor in MINORS:
        name = f"python3.{minor}"
        root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
        places = [
            shutil.which(name),
            *map(str, sorted(root.glob(f"versions/3.{minor}.*/bin/{name}"))),
        ]
        if sys.version_info[:2] == (3, minor):
            places.insert(0, sys.executable)
        for place in filter(None, places):
            told = subprocess.run([place, "-V"], capture_output=True, text=True, check=False)
            if told.returncode == 0 and told.stdout.startswith(f"Python 3.{minor}."):
                found[f"3.{minor}"] = place
                break
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


def run(*command: str | Path, folder: Path) -> str:
    """What a command prints in a folder, without the settings of this process."""
    own = ("SEMGRAPH_", "OPENAI_", "NEO4J_", "PYTHON", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    done = subprocess.run(
        [*map(str, command)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_pythons_found_are_among_those_that_the_project_allows() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    allowed = re.search(r'^requires-python = ">=3\.(\d+),<3\.(\d+)"$', text, re.MULTILINE)
    assert allowed is not None
    assert (int(allowed[1]), int(allowed[2]) - 1) == (MINORS[0], MINORS[-1])
    assert len(interpreters()) >= 1
    print("Python", ", ".join(interpreters()))


@pytest.mark.parametrize("version", sorted(interpreters()))
def test_the_wheel_replays_the_first_example_in_a_fresh_environment(
    version: str, wheel: Path, tmp_path: Path
) -> None:
    with TemporaryDirectory() as environment:
        binaries = Path(environment) / "bin"
        run(interpreters()[version], "-m", "venv", environment, folder=tmp_path)
        pip = ("pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile")
        pinned = ("-c", ROOT / "constraints.txt", f"{wheel}[pandas]")
        run(binaries / "python", "-m", *pip, *pinned, folder=tmp_path)
        command = binaries / "semgraph"
        printed = run(
            command,
            "run",
            "add_episode",
            "--llm",
            "recorded",
            "--store",
            "sqlite:graph.db",
            folder=tmp_path,
        )
        assert "Alice Chen ─ WORKS_AT ─▶ TechCorp" in printed
        export = ("export", "demo", "-o", "demo.graphml", "--store", "sqlite:graph.db")
        assert "6 nodes, 10 edges" in run(command, *export, folder=tmp_path)
        assert run(binaries / "python", "-c", FRAME, folder=tmp_path) == "[2, 3]\n"
