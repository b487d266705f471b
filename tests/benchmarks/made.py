"""Benchmarks and lines as tests make them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.suite import Benchmark, Case, Line

MACHINE = {"cores": 2, "processor": "one", "memory_gib": 8.0}
MADE = {
    "machine": MACHINE,
    "commit": "abc",
    "changed": False,
    "at": "2026-01-02T03:04:05+00:00",
    "hash": "h",
}


def bench(*cases: Case, kind: Any = "simulated", **more: Any) -> Benchmark:
    return Benchmark(
        "ingest", "What is asked?", kind, lambda: cases, **({"tables": (), "sources": ()} | more)
    )


def case(way: str, run: Callable[[int], Mapping[str, Any]], **more: Any) -> Case:
    return Case({"way": way}, run, **more)


def line(way: str, trial: int, failed: str = "", kind: str = "simulated", **figures: Any) -> Line:
    return Line("ingest", {"way": way}, trial, figures, {}, MADE, failed, kind)
