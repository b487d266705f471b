"""The folders of the shipped plans, operators and functions: next to the package in a checkout,
inside it in a wheel. Also files with the user's Python code, which are found in named folders and
run by path.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import threading
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from semgraph.errors import PlanError

_lock = threading.RLock()  # a module is in sys.modules while it still runs


class Content(NamedTuple):
    """The content of a file, and its SHA-256."""

    data: bytes
    digest: str


def code_folders(shipped: Path, own: Iterable[Path | str], kind: str, form: str) -> list[Path]:
    """The shipped folder and the user's folders.

    Args:
        shipped: The shipped folder.
        own: The user's folders.
        kind: The kind of their content, for errors, such as `operators`.
        form: The naming scheme of their files, for errors.

    Raises:
        PlanError: A folder does not exist.
    """
    folders = [shipped, *(Path(folder) for folder in own)]
    for folder in folders:
        if not folder.is_dir():
            hint = f"name a folder that holds {form}"
            raise PlanError(f'no folder "{folder}" of {kind}', hint=hint)
    return folders


def files_by_name(folders: Iterable[Path], kind: str) -> dict[str, Path]:
    """The Python files of folders by name. Raises PlanError for two files with the same name."""
    files: dict[str, Path] = {}
    for folder in dict.fromkeys(folder.resolve() for folder in folders):
        own = folder.iterdir() if folder.is_dir() else ()
        for file in sorted(f for f in own if f.suffix == ".py" and not f.name.startswith("_")):
            other = files.setdefault(file.stem, file)
            if other != file:
                msg = f'two files are {kind} "{file.stem}": {other} and {file}'
                raise PlanError(msg, hint="rename one of them")
    return files


def content_of(file: Path) -> Content:
    """The content of a file. Raises PlanError."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise PlanError(f"{file}: {error.strerror}", hint="make it readable") from error
    return Content(data, _digest(data))


def _digest(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()


def module_of(kind: str, file: Path, name: str) -> ModuleType:
    """Run a file as a module with a unique name. Two files with the same name, or two versions of a
    file edited in a notebook, must not collide in sys.modules.

    Args:
        kind: The kind of its content, such as `operators`.
        file: The file.
        name: The last part of the module's name.

    Raises:
        PlanError: The file cannot be read, or raises an error; the message names the line.
    """
    with _lock:
        return _module_of(kind, file, name)


def _module_of(kind: str, file: Path, name: str) -> ModuleType:
    content = content_of(file)
    digest = _digest(str(file).encode() + b"\0" + content.data)[:8]
    name = f"_semgraph_{kind}_{digest}.{name}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up their module while it runs
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        line = error.lineno if isinstance(error, SyntaxError) else line_in(file, error)
        place = f"{file}:{line}" if line else str(file)
        what = f"{place}: {type(error).__name__}: {error}"
        raise PlanError(what, hint="correct the file") from error
    return module


def line_in(file: Path | str, error: BaseException) -> int | None:
    """The innermost line of a file in the traceback of an error."""
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno for frame in reversed(frames) if frame.filename == str(file)), None)


_IS_PLAN = re.compile(r"\A(?![\s\S]*^made_of:)[\s\S]*?^plan:", re.MULTILINE)  # no choice of tune
_IS_GRAPH = re.compile(r"^nodes:", re.MULTILINE)
_PACKAGE = Path(__file__).parent


def _folder(name: str) -> Path:
    inside = _PACKAGE / "_shipped" / name
    return inside if inside.is_dir() else _PACKAGE.parent / name


def plans_folder() -> Path:
    """The folder of the shipped plans."""
    return _folder("plans")


def graph_names() -> list[str]:
    """The names of the shipped graphs: their files below the shipped plans, without `.yaml`."""
    return _names_of(_IS_GRAPH, plans_folder())


def plan_names() -> list[str]:
    """The names of the plans in `./plans` and of the shipped ones, including subfolders. The key
    `plan` distinguishes plans from other YAML files; no plan is loaded.
    """
    return _names_of(_IS_PLAN, Path("plans"), plans_folder())


def _names_of(kind: re.Pattern[str], *folders: Path) -> list[str]:
    files = ((file, folder) for folder in folders for file in folder.rglob("*.yaml"))
    own = (pair for pair in files if kind.search(pair[0].read_text("utf-8", "replace")))
    return sorted({file.relative_to(folder).with_suffix("").as_posix() for file, folder in own})


def examples_folder() -> Path:
    """The folder of the examples of the documentation: plans, recordings and data sets."""
    inside = _PACKAGE / "_shipped" / "examples"
    return inside if inside.is_dir() else _PACKAGE.parent / "docs" / "examples"


def example_file(name: str, inside: str = "") -> Path | None:
    """The file of an example, by `examples/NAME`."""
    folder, _, rest = name.partition("/")
    path = examples_folder() / inside / rest
    return path if folder == "examples" and path.is_file() else None


def operators_folder() -> Path:
    """The folder of the shipped implementations of operators."""
    return _folder("operators")


def functions_folder() -> Path:
    """The folder of the shipped functions for expressions."""
    return _folder("functions")
