"""Every implementation that is shipped passes every check that its authors' `semgraph operators
check` runs.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from semgraph.conformance import CHECKS, Subject, agreement
from semgraph.conformance.cases import LIBRARY
from semgraph.folders import operators_folder
from semgraph.logical.plan import Choice
from tests.operators.cases import ways

DOCS = operators_folder().parent / "docs" / "operators.md"


def way(operator: str, name: str) -> Subject:
    return Subject(operator, name, LIBRARY.get(operator, Choice.parse(name)))


VARIED = ("duplicates", "kept apart", "full window", "one failing row")
CASES = [
    pytest.param(
        operator,
        name,
        check,
        marks=[pytest.mark.nightly] if "(" in name and check not in VARIED else [],
    )
    for operator, name in ways()
    for check in CHECKS
]
"""Every check of every implementation; with other parameters, those that depend on them."""


@pytest.mark.parametrize(("operator", "name", "check"), CASES)
async def test_the_contract_holds(operator: str, name: str, check: str) -> None:
    await CHECKS[check](way(operator, name))


NEAR = {
    # recall, precision against the reference, calls for its calls
    "sem_map reflexion": (1.0, 1.0, 300, 150),
    "sem_map vote": (1.0, 1.0, 750, 150),
    "sem_filter cascade": (0.996, 0.972, 10, 600),
    "sem_filter logit": (1.0, 1.0, 600, 600),
    "sem_filter vote": (1.0, 1.0, 3000, 600),
    "sem_join cascade": (1.0, 1.0, 2, 378),
    "sem_join logit": (1.0, 1.0, 398, 378),
    "sem_agg fold": (1.0, 1.0, 23, 11),
    "sem_agg tree": (1.0, 1.0, 26, 11),
    "sem_topk listwise": (1.0, 1.0, 16, 134),
    "sem_topk logit": (1.0, 1.0, 134, 134),
    "sem_topk quickselect": (1.0, 1.0, 24, 134),
    "sem_topk tournament": (1.0, 1.0, 125, 134),
}


def measured() -> dict[str, Any]:
    found = {}
    for operator, name in ways(same=False):
        if "(" not in name:
            near = asyncio.run(agreement(way(operator, name)))
            found[f"{operator} {name}"] = (
                round(near.recall, 3),
                round(near.precision, 3),
                near.calls,
                near.reference_calls,
            )
    return found


def test_what_need_not_answer_as_the_reference_does_comes_near_it() -> None:
    found = measured()
    assert found.keys() == NEAR.keys()
    for name, (recall, precision, calls, _) in NEAR.items():
        assert found[name][0] >= recall, name
        assert found[name][1] >= precision, name
        assert found[name][2] <= calls, name


def test_what_was_measured_stands_in_the_documentation() -> None:
    table = [
        line.split("|")[1:-1]
        for line in DOCS.read_text().splitlines()
        if line.startswith("| `sem_") and line.count("|") > 6
    ]
    told = {
        " ".join(c.strip(" `") for c in cells[:2]): tuple(float(c) for c in cells[2:6])
        for cells in table
    }
    assert told == {name: tuple(map(float, row)) for name, row in measured().items()}
