"""Rules that the house keeps for itself: layers and words."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from semgraph.llm.providers import PROVIDERS
from semgraph.stores.registry import STORES

ROOT = Path(__file__).parent.parent
APPLICATION = re.compile(r"\b(episodes?|episodic|entit(y|ies)|graphiti)\b", re.IGNORECASE)
VAGUE = re.compile(r"(^|_)(utils?|helpers?|manager|misc|v\d+|fast)(_|$)")


def sources(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def test_the_package_contains_no_application_words() -> None:
    found = [
        f"{shown(path)}:{number}: {line.strip()}"
        for path in sources("semgraph")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if APPLICATION.search(line)
    ]
    assert found == []


def test_module_names_are_specific() -> None:
    assert [
        shown(path)
        for path in sources("semgraph", "operators", "functions")
        if VAGUE.search(path.stem)
    ] == []


def test_class_names_are_unique() -> None:
    classes = Counter(
        node.name
        for path in sources("semgraph")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in classes.items() if count > 1] == []


def test_every_module_has_a_docstring() -> None:
    silent = [
        shown(path)
        for path in sources("semgraph", "operators", "functions", "benchmarks", "tests")
        if path.read_text().strip() and not ast.get_docstring(parsed(path))
    ]
    assert silent == []


def test_no_work_is_left_as_todo_or_skipped_test() -> None:
    later = re.compile(
        r"\bNotImplementedError|\b(TODO|FIXME|XXX)\b|pytest\.(mark\.)?(skip|xfail|importorskip)"
    )
    found = [
        f"{shown(path)}:{number}"
        for path in sources("semgraph", "operators", "functions", "benchmarks", "tests")
        if path != Path(__file__)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if later.search(line)
    ]
    assert found == []


def test_imports_follow_the_layers() -> None:
    lint = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run(
        [lint, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports inside functions and for types alone count too."""
    modules = {module_name(path): path for path in sources("semgraph")}
    imports = {name: set(imported(path, modules)) - {name} for name, path in modules.items()}
    assert len(list(TopologicalSorter(imports).static_order())) == len(modules)


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imported(path: Path, modules: Collection[str]) -> Iterator[str]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module in modules:
            parts = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (part if part in modules else node.module for part in parts)


def test_no_file_compares_the_name_of_a_store_or_provider() -> None:
    """What they differ in, their classes say."""
    names = {*PROVIDERS, *(store.scheme for store in STORES), "bolt"}
    begins = names | {f"{name}:" for name in names}
    found = [
        f"{shown(path)}:{node.lineno}"
        for path in sources("semgraph", "operators", "tools", "benchmarks")
        for node in ast.walk(parsed(path))
        if (isinstance(node, ast.Compare) and not begins.isdisjoint(constants(node)))
        or (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in {"startswith", "removeprefix", "partition", "split"}
            and not begins.isdisjoint(constants(node))
        )
    ]
    assert found == []


def constants(node: ast.AST) -> set[object]:
    return {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)}


def test_the_shipped_code_never_imports_the_operators_it_loads() -> None:
    found = [
        shown(path)
        for path in sources("semgraph")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").split(".")[0] in {"operators", "functions"}
    ]
    assert found == []


@pytest.mark.parametrize("pinned", ["constraints.txt"])
def test_constraints_pin_every_dependency_by_version_alone(pinned: str) -> None:
    lines = (ROOT / pinned).read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line) for line in pins)
    names = {re.split(r"==", line)[0].lower().replace("_", "-") for line in pins}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    needed = [
        *project["dependencies"],
        *optional["local"],
        *optional["neo4j-local"],
        *optional["docs"],
        *optional["dev"],
    ]
    wanted = {re.split(r"[<>=!~\[; ]", text)[0].lower().replace("_", "-") for text in needed}
    assert wanted - names == set()
