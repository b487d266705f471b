"""The implementations of each operator and the functions for expressions, as tables and as plain data."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from semgraph.frontend.functions import ListedFunction
from semgraph.llm.settings import Settings
from semgraph.semantic.contract import OPERATORS
from semgraph.semantic.library import FOLDERS, Library, Listed


def implementations(settings: Settings) -> dict[str, list[Listed]]:
    """The implementations of each operator, the reference first: shipped ones and those of the
    configured folders. Raises PlanError.
    """
    library = Library(settings.operators)
    return {operator: library.list(operator) for operator in FOLDERS}


def described(by_operator: Mapping[str, list[Listed]]) -> dict[str, Any]:
    """The implementations as plain data."""
    return {
        operator: [{**each._asdict(), "file": str(each.file)} for each in listed]
        for operator, listed in by_operator.items()
    }


def list_lines(by_operator: Mapping[str, list[Listed]], width: int) -> Iterator[str]:
    """Each implementation with its parameters, its guarantee, the command that installs what it
    needs and is missing, and its description.
    """
    wide = max(map(len, by_operator)) + 2
    text_width = max(width - wide - 2, 20)
    for operator, listed in by_operator.items():
        for i, each in enumerate(listed):
            answers = (
                "the reference" if each.reference else "same answers" if each.same else "may differ"
            )
            beside = f"  [{answers}]" if operator in OPERATORS else ""
            needs = f"  needs {each.install}" if each.install else ""
            yield (operator if i == 0 else "").ljust(wide) + each.signature + beside + needs
            yield from (" " * (wide + 2) + line for line in textwrap.wrap(each.doc, text_width))


def function_lines(functions: Sequence[ListedFunction], width: int) -> Iterator[str]:
    """Each function with its signature and description, or why it cannot be called."""
    for each in functions:
        yield from textwrap.wrap(each.signature, width, subsequent_indent="    ")
        yield from (f"  {line}" for line in textwrap.wrap(each.problem or each.doc, width - 2))
