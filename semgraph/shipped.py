"""The folders of the shipped plans, operators and functions: beside the package in a checkout, inside it in a
wheel.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent


def _folder(name: str) -> Path:
    inside = _PACKAGE / "_shipped" / name
    return inside if inside.is_dir() else _PACKAGE.parent / name


def plans_folder() -> Path:
    """The folder of the shipped plans."""
    return _folder("plans")


def operators_folder() -> Path:
    """The folder of the shipped implementations of operators."""
    return _folder("operators")


def functions_folder() -> Path:
    """The folder of the shipped functions for expressions."""
    return _folder("functions")
