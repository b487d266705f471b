"""The table of `docs/openai.md` is that of the code."""

from __future__ import annotations

from pathlib import Path

from semgraph.llm.faults import FAULTS, FaultKind

PAGE = Path(__file__).parents[2] / "docs" / "openai.md"


def line(fault: FaultKind) -> str:
    """A row of the table."""
    statuses = list(map(str, fault.statuses))
    for hundred in "345":
        inside = [each for each in statuses if each.startswith(hundred)]
        if len(inside) == 100:
            statuses = [each for each in statuses if each not in inside] + [f"{hundred}xx"]
    means = ", ".join([*statuses, *(f"`{code}`" for code in fault.codes)])
    attempts = f", {fault.attempts} attempts" if fault.attempts else ""
    return f"| {fault.what} | {means} | {fault.scope}{attempts} | `{fault.kind}` |"


def test_the_page_shows_every_fault() -> None:
    rows = [text for text in PAGE.read_text().splitlines() if text.startswith("| ")]
    first = rows.index(line(FAULTS[0]))
    assert rows[first:] == [line(fault) for fault in FAULTS]
