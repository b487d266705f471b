"""Random plans give the same rows with the optimizer, without it, and by an evaluator that shares
no code with the engine.
"""

from __future__ import annotations

import pytest

from semgraph.conformance.cases import LIBRARY
from tests.fuzz import naive
from tests.fuzz.checking import check
from tests.fuzz.engine import Engine
from tests.fuzz.plans import IMPLEMENTATIONS

PLANS = 50  # 3,000 in `make nightly`


def test_three_evaluations_of_random_plans_agree(tmp_path: object) -> None:
    with Engine(tmp_path) as engine:  # type: ignore[arg-type]
        report = check(engine, range(PLANS))
    assert not report.failures, report.failures[0]
    assert report.outcomes["agree"] > 0.8 * PLANS, report.outcomes


@pytest.mark.parametrize("operator", IMPLEMENTATIONS)
def test_plans_use_every_implementation_that_promises_equal_answers(operator: str) -> None:
    promised = {one.name for one in LIBRARY.list(operator) if one.same and one.name != "lotus"}
    assert {text.partition("(")[0] for text in IMPLEMENTATIONS[operator]} == promised


def test_what_only_an_unused_form_of_a_switch_reads_is_not_computed() -> None:
    unused = [{"from": "people"}, {"require": {"where": "id > 1", "says": "'no'"}}]
    forms = {"on": "$two", "1": [{"from": "unused"}], "2": [{"from": "people"}]}
    document = {
        "plan": "drawn",
        "inputs": {"people": {"id": "int64"}},
        "params": {"two": 2},
        "steps": {"unused": unused, "used": [{"switch": forms}]},
        "returns": ["used"],
    }
    evaluated = naive.run(document, {"people": [{"id": 1}]})
    assert [row.columns for row in evaluated.tables["used"].rows] == [{"id": 1}]
    assert not evaluated.failed
