"""The ways of answering each operator, as tables and as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from semgraph.llm.config import Settings
from semgraph.physical.library import Library, Listed
from semgraph.report.tables import Column, lines

OPERATORS = ("sem_map", "sem_filter", "sem_join", "sem_agg", "sem_topk")


def ways(settings: Settings) -> dict[str, list[Listed]]:
    """The ways of each operator, the reference first: shipped ones and those of the configured folders. Raises PlanError."""
    library = Library(settings.operators)
    return {operator: library.list(operator) for operator in OPERATORS}


def described(found: Mapping[str, list[Listed]]) -> dict[str, Any]:
    """The ways as plain data."""
    return {
        operator: [{**way._asdict(), "file": str(way.file)} for way in listed] for operator, listed in found.items()
    }


def list_lines(found: Mapping[str, list[Listed]], width: int) -> Iterator[str]:
    """A line for each way."""
    rows = [(operator if i == 0 else "", way) for operator, listed in found.items() for i, way in enumerate(listed)]
    yield from lines(
        [
            Column("operator", [operator for operator, _ in rows]),
            Column("way", [way.signature for _, way in rows]),
            Column("answers", ["reference" if w.reference else "same" if w.same else "may differ" for _, w in rows]),
            Column("how", [way.doc for _, way in rows]),
        ],
        width,
        indent=0,
    )
