"""EXPLAIN of a loop: its line, and bounds of rows and calls over all rounds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import semgraph
from semgraph.conformance.cases import Mind, Oracle

INPUTS = {
    "rows": [{"id": name, "n": n} for n, name in enumerate("abcde")],
    "others": [{"id": "x"}, {"id": "y"}],
}


def text(do: str, times: int = 4, more: str = "") -> str:
    return f"""
plan: loops
inputs: {{rows: {{id: string, n: int64}}, others: {{id: string}}}}
steps:
  out:
    - from: rows
    - iterate: {{as: last, times: {times}, {more} do: [{do}]}}
returns: [out]
"""


ASK = '{sem_map: {prompt: "After {n}?", returns: {m: int64}}}, {project: {id, n: m}}'


@pytest.fixture
def session(tmp_path: Path):
    oracle = Oracle(Mind(answer=lambda asked: {"m": int(asked.split("After ")[1].split("?", maxsplit=1)[0]) + 1}))  # fmt: skip
    journal = str(tmp_path / "journal.sqlite")
    with semgraph.Session(
        llm=oracle, store="memory", journal=journal, runs="", folder=tmp_path
    ) as opened:
        yield opened


def estimates(session: semgraph.Session, plan: str) -> dict[str, Any]:
    path = Path(session.folder) / "loops.yaml"
    path.write_text(plan, encoding="utf-8")
    steps = json.loads(session.explain(path, inputs=INPUTS, format="json"))["steps"]
    own: dict[str, Any] = next(step["estimate"] for step in steps if step["step"] == "out")
    return own


def known(amount: dict[str, Any]) -> tuple[float | None, str]:
    return amount["value"], amount["known"]


def test_rounds_that_cannot_grow_cost_at_most_the_first_times_their_number(session) -> None:
    own = estimates(session, text("{from: last}, {filter: n < 99}, " + ASK))
    assert known(own["calls"]) == (20, "most")
    assert known(own["rows"]) == (5, "most")


def test_the_bound_of_a_round_feeds_the_next(session) -> None:
    union = "{union: [last, [{from: others}, {project: {id, n: length(id)}}]]}, "
    own = estimates(session, text(union + ASK))
    assert known(own["calls"]) == (7 + 9 + 11 + 13, "most")
    assert known(own["rows"]) == (13, "most")
    every = estimates(session, text(union + ASK, more="keep: all,"))
    assert known(every["rows"]) == (5 + 7 + 9 + 11 + 13, "most")


def test_a_bound_above_a_billion_rows_is_unknown(session) -> None:
    squared = '{from: last}, {join: {other: last, alias: o, where: "TRUE"}}, {project: [id, n]}, '
    own = estimates(session, text(squared + ASK, times=9))
    assert own["calls"]["known"] in {"unknown", "least"}
    assert own["rows"]["value"] is None


def test_loops_in_loops_multiply(session) -> None:
    inner = "{from: last}, {iterate: {as: each, times: 3, do: [{from: each}, " + ASK + "]}}"
    assert known(estimates(session, text(inner))["calls"])[1] == "most"
    assert known(estimates(session, text(inner))["calls"])[0] == 5 * 3 * 4


def test_no_rounds_cost_nothing(session) -> None:
    own = estimates(session, text("{from: last}, " + ASK, times=0))
    assert known(own["calls"]) == (0, "exact")


def test_after_a_run_estimates_rest_on_the_rounds_and_rows_that_were_seen(session) -> None:
    plan = text("{from: last}, " + ASK, times=40, more="until: min(n) > 1,")
    path = Path(session.folder) / "loops.yaml"
    path.write_text(plan, encoding="utf-8")
    session.run(path, inputs=INPUTS)
    own = estimates(session, plan)
    assert known(own["items"]) == (10, "seen")
    assert known(own["rows"]) == (5, "seen")


def test_the_outline_has_the_loop_with_what_it_does_and_reads(session) -> None:
    path = Path(session.folder) / "loops.yaml"
    path.write_text(text("{from: last}, {join: {other: others, using: id, how: anti}}"))
    lines = session.explain(path, inputs=INPUTS).splitlines()[2:5]
    assert [line.split()[0] for line in lines] == ["rows", "others", "out"]
    assert "iterate ≤ 4 rounds: last → join · from others, rows" in lines[2]


def test_the_algebra_names_the_rounds_and_the_body(session) -> None:
    path = Path(session.folder) / "loops.yaml"
    path.write_text(text("{from: last}, {filter: n > 1}", more="by: [id], until: max(n) > 2,"))
    assert session.explain(path, format="algebra") == (
        "out = iterate_{last ≤ 4 rounds; by id; until max(n) > 2} (σ_{n > 1} last) from rows"
    )


def test_the_first_request_of_a_round_is_about_the_input(session) -> None:
    path = Path(session.folder) / "loops.yaml"
    path.write_text(text("{from: last}, " + ASK))
    assert "After 0?" in session.explain(path, inputs=INPUTS, format="prompts")


def test_two_loops_over_equal_columns_do_not_share_what_was_seen_of_their_rounds(session) -> None:
    plan = f"""
plan: loops
inputs: {{rows: {{id: string, n: int64}}, others: {{id: string}}}}
steps:
  out: [{{from: rows}}, {{iterate: {{as: last, times: 40, until: min(n) > 3, do: [{{from: last}}, {ASK}]}}}}]
  short: [{{from: rows}}, {{iterate: {{as: last, times: 1, do: [{{from: last}}, {ASK}, {{filter: n > 0}}]}}}}]
returns: [out, short]
"""
    path = Path(session.folder) / "loops.yaml"
    path.write_text(plan, encoding="utf-8")
    before = estimates(session, plan)
    session.run(path, inputs=INPUTS)
    own = estimates(session, plan)
    assert known(before["calls"]) == (40 * 5 + 5, "most")  # one question, in the rounds of both
    assert known(own["rows"]) == (5, "seen")
    assert own["items"]["value"] >= 20  # 5 rows in each of the 4 rounds that were made
