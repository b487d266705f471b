"""The folders of the shipped plans, operators and functions: beside the package in a checkout, inside it in a
wheel.
"""

from __future__ import annotations

import re
from pathlib import Path

_IS_PLAN = re.compile(r"^plan:", re.MULTILINE)
_PACKAGE = Path(__file__).parent


def _folder(name: str) -> Path:
    inside = _PACKAGE / "_shipped" / name
    return inside if inside.is_dir() else _PACKAGE.parent / name


def plans_folder() -> Path:
    """The folder of the shipped plans."""
    return _folder("plans")


def plan_names() -> list[str]:
    """The names of the plans in `./plans` and of the shipped ones, with those in their folders. Tells
    plans from other YAML files by the key `plan`; loads none.
    """
    return sorted(
        {
            file.relative_to(folder).with_suffix("").as_posix()
            for folder in (Path("plans"), plans_folder())
            for file in folder.rglob("*.yaml")
            if _IS_PLAN.search(file.read_text(encoding="utf-8", errors="replace"))
        }
    )


def operators_folder() -> Path:
    """The folder of the shipped implementations of operators."""
    return _folder("operators")


def functions_folder() -> Path:
    """The folder of the shipped functions for expressions."""
    return _folder("functions")
