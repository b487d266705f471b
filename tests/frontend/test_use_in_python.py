"""Implementations that are chosen in Python: a wrong one is answered with what to write."""

from __future__ import annotations

from typing import Any

import pytest

import semgraph as sg
from semgraph.errors import PlanError


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (
            {"kept": "packed(3"},
            r'\Astep kept: invalid implementation "packed\(3"\. A "\)" is missing',
        ),
        ({"kept": "paked"}, r'\Astep kept: unknown implementation "paked".*Did you mean "packed"'),
        ("packed", r'\Ause names implementations by step\. Write use=\{STEP: "packed"\}'),
    ],
)
def test_a_wrong_choice_is_an_error_with_a_hint_and_no_place_in_a_file(
    use: Any, said: str, tmp_path: Any
) -> None:
    rows = sg.table([{"id": 1, "text": "It leaks."}])
    plan = rows.sem_filter("Does “{text}” complain?", step="kept")
    model = "openai:gpt-4.1-mini@http://127.0.0.1:1/v1"
    with (
        sg.Session(llm=model, store="memory", folder=tmp_path) as session,
        pytest.raises(PlanError, match=said),
    ):
        session.run(plan, use=use)
