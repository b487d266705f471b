"""The benchmark of `tune`: its figures are right by hand, Palimpzest's filters are read, and models err by
themselves.
"""

from __future__ import annotations

import json

import pytest

from benchmarks.tune import live
from benchmarks.tune.beside import f1_of, right
from benchmarks.tune.offline import Known, search, searches
from benchmarks.tune.tables import MANY, PAIR, lists, messages, noises
from benchmarks.world import Noise, StandIn
from benchmarks.world.requests import NotUnderstood

ROWS = 3000
TRUE, WRONG = (1, 1, 1), (0, 0, 1)


def known(name: str, cost: float, f1: float, wide: int = 1) -> Known:
    """A candidate that misses true answers, spread over the rows, so that it has this F1."""
    missed = round(ROWS * (1 - f1 / (2 - f1)))
    step = ROWS / max(missed, 1)
    at = {int(step * n) for n in range(missed)}
    return Known(name, cost, wide, [[WRONG if n in at else TRUE] for n in range(ROWS)])


REFERENCE = known("reference", 1.0, 1.0)
BELOW, GOOD = known("below", 0.1, 0.945), known("good", 0.2, 0.985)


def test_a_walk_takes_what_is_shown_and_the_point_estimate_what_only_looks_good() -> None:
    candidates = [REFERENCE, BELOW, GOOD]
    walk = searches(candidates, 0.95, 800, "row", "walk", 1, 40)
    point = searches(candidates, 0.95, 800, "row", "point estimate", 1, 40)
    assert walk["below"] <= 0.05 < 0.2 < point["below"]
    assert walk["typical"] == 1
    assert point["cost"] < 1


def test_a_search_that_shows_nothing_keeps_the_reference_and_is_counted() -> None:
    few = searches([REFERENCE, GOOD], 0.95, 20, "row", "walk", 1, 3)
    assert (few["kept"], few["cost"], few["rows"]) == (1, 5, 0)


def test_where_one_row_of_a_call_is_checked_its_neighbours_are_paid_for() -> None:
    shared = known("shared", 0.1, 1.0, wide=10)
    found = {
        unit: search([REFERENCE, shared], 0.95, 200, unit, "walk", 3) for unit in ("row", "call")
    }
    assert {each.choice.name for each in found.values()} == {"shared"}
    assert found["call"].usd == pytest.approx(10 * found["row"].usd)


def test_the_tables_have_the_truth_that_they_say() -> None:
    rows = messages(30, 1)
    assert sum(row["keep"] for row in rows) == 10
    assert all(("moved to" in row["text"]) == row["keep"] for row in rows)
    names, others = lists(2, 20, 1)
    assert sorted(row["id"] for row in names) == sorted(row["id"] for row in others)
    assert {row["list"] for row in others if row["id"] < 20} == {0}


def test_a_floor_of_f1_is_a_share_of_right_rows_for_palimpzest() -> None:
    """Of 3,000 rows with 1,000 true ones an error in 3.39 % leaves 966 hits, 34 missing, 68 too many."""
    assert right(0.95) == pytest.approx(1 - 0.0339, abs=1e-4)
    assert pytest.approx(0.95, abs=1e-3) == 2 * 966 / (966 + 68 + 1000)
    assert [f1_of(model) >= 0.95 for model in MANY.values()] == [True, True, True, False]


PROMPT = """You are a helpful assistant whose job is to answer a question.
You will be presented with a context and a filter condition. Output TRUE if the context satisfies the \
filter condition, and FALSE otherwise.

---
INPUT FIELDS:
- text: a message

FILTER CONDITION: A journey is no move.

The text says that somebody moved.

CONTEXT:
{{
  "text": "{text}"
}}

REASONING: """


def asked(text: str, model: str = "") -> dict[str, object]:
    system = PROMPT.format(text="An example.")
    told = [("system", system), ("user", PROMPT.format(text=text))]
    return {"model": model, "messages": [{"role": who, "content": said} for who, said in told]}


@pytest.mark.parametrize(
    ("text", "said"),
    [("Ada Costa moved to Riga.", "TRUE"), ("Ada Costa works at Luma.", "FALSE")],
)
def test_a_filter_of_palimpzest_is_answered_from_its_text(text: str, said: str) -> None:
    question, answer = StandIn().answer(asked(text))
    assert question == "palimpzest"
    assert answer.endswith(f"ANSWER: {said}\n---")


def test_a_filter_without_a_context_is_not_understood() -> None:
    body = asked("x")
    body["messages"][1]["content"] = PROMPT.partition("CONTEXT")[0]  # type: ignore[index]
    with pytest.raises(NotUnderstood, match="no condition and no context"):
        StandIn().answer(body)


def test_each_model_has_errors_of_its_own() -> None:
    server = StandIn(noise=Noise.of_models("verdict=0;gpt-4.1-nano:verdict=1"))
    text = "Ada Costa moved to Riga."
    said = {
        model: server.answer(asked(text, model))[1].split()[-2]
        for model in ("gpt-4.1", "gpt-4.1-nano", "gpt-4.1-nano-2025-04-14")
    }
    assert said == {"gpt-4.1": "TRUE", "gpt-4.1-nano": "FALSE", "gpt-4.1-nano-2025-04-14": "FALSE"}
    parsed = Noise.of_models(noises(PAIR, 7))
    assert {name: noise.seed for name, noise in parsed.items()} == {
        "": 1,
        "gpt-4.1-mini": 701,
        "gpt-4.1-nano": 702,
    }


def test_a_tuning_is_measured_from_end_to_end() -> None:
    figures = live.pipeline_tuned("one_line", ["default"], 60, 0)
    assert (figures["status"], figures["tried"]) == ("kept", 0)
    assert str(figures["choice"]).endswith("to gain")
    assert 0 < int(figures["calls"] or 0) < 120
    assert json.dumps(figures)
