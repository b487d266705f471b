"""Cascades: what is decided without the model, what is promised, and what is asked."""

from __future__ import annotations

import math
import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import semgraph
from semgraph import extras
from semgraph.conformance.cases import (
    LIBRARY,
    POISON,
    Case,
    Faulty,
    Grams,
    Mind,
    Oracle,
    mind,
    node,
)
from semgraph.errors import PlanError, RowError
from semgraph.expr.types import parse_type
from semgraph.llm.base import Limits, Reply, Request
from semgraph.llm.stack import Roles
from semgraph.logical.plan import Choice
from semgraph.logical.prompt import PromptSet
from semgraph.meter import StepMetrics
from semgraph.semantic.context import Context
from tests.operators.cases import answers, ask, run


def filter_way(**more: Any) -> Any:
    return LIBRARY.get("sem_filter", Choice("cascade", tuple(more.items())))


FILTER = sys.modules[type(filter_way()).__module__]
GOOD = Mind(answer=lambda text: {"answer": "yes" if "“good" in text else "no"})


# -------------------------------------------------------------------------------------------
# the promises of sem_filter


@given(st.integers(1, 40), st.data())
@settings(max_examples=60, deadline=None)
def test_tails_are_those_of_counting(n: int, data: st.DataObject) -> None:
    size = data.draw(st.integers(n, 60))
    marked = data.draw(st.integers(0, size))
    most = data.draw(st.integers(0, n))
    exact = sum(
        math.comb(marked, x) * math.comb(size - marked, n - x)
        for x in range(most + 1)
        if x <= marked
    )
    assert FILTER.hypergeometric_tail(most, size, marked, n) == pytest.approx(
        exact / math.comb(size, n), abs=1e-9
    )
    p = data.draw(st.floats(0.01, 0.99))
    exact = sum(math.comb(n, x) * p**x * (1 - p) ** (n - x) for x in range(most + 1))
    assert FILTER.binomial_tail(most, n, p) == pytest.approx(exact, abs=1e-9)


Rows = list[tuple[float, bool]]


def worlds(seed: int) -> Rows:
    """Scores and what the model would say: of scores that tell all, something, nothing, and the
    wrong way round.
    """
    rng = random.Random(seed)
    share, power = rng.choice([0.1, 0.3, 0.7]), rng.choice([-1.0, 0.0, 0.5, 3.0])
    rows = [rng.random() < share for _ in range(rng.choice([600, 1200]))]
    return [(rng.gauss(power * keep, 1.0), keep) for keep in rows]


def at_face_value(
    rows: Rows, drawn: set[int], recall: float, precision: float
) -> tuple[float, float]:
    """The thresholds of one who takes the sample for the whole."""
    kept = sorted(rows[i][0] for i in drawn if rows[i][1])
    low = kept[int(len(kept) * (1 - recall))] if kept else -math.inf
    candidates = [math.inf]
    for threshold in sorted(rows[i][0] for i in drawn):
        labels = [rows[i][1] for i in drawn if rows[i][0] >= threshold]
        candidates += [threshold] * (sum(labels) >= precision * len(labels))
    return min(low, *candidates), min(candidates)


def missed(
    rows: Rows, drawn: set[int], bounds: tuple[float, float], recall: float, precision: float
) -> bool:
    """Whether what is kept falls short of what was promised."""
    low, high = bounds
    kept = [
        i
        for i, (s, keep) in enumerate(rows)
        if (keep if i in drawn or low <= s < high else s >= high)
    ]
    right = sum(rows[i][1] for i in kept)
    return right < recall * sum(keep for _, keep in rows) or right < precision * len(kept)


@pytest.mark.parametrize(("recall", "precision"), [(0.9, 0.9), (0.7, 0.6), (0.8, 0.9)])
def test_recall_and_precision_hold_but_for_delta(recall: float, precision: float) -> None:
    delta, sample, trials = 0.1, 60, 160
    way = filter_way(recall=recall, precision=precision, delta=delta, sample=sample)
    found = naive = 0
    for seed in range(trials):
        rows = worlds(seed)
        drawn = set(random.Random(f"draw {seed}").sample(range(len(rows)), sample))
        ours = way.thresholds(
            {i: s for i, (s, _) in enumerate(rows)}, {i: rows[i][1] for i in drawn}
        )
        found += missed(rows, drawn, ours, recall, precision)
        naive += missed(
            rows, drawn, at_face_value(rows, drawn, recall, precision), recall, precision
        )
    assert found <= delta * trials < naive


def test_scores_that_tell_nothing_cost_calls_and_not_answers() -> None:
    rng = random.Random(7)
    rows = {i: rng.random() for i in range(1000)}
    low, high = filter_way().thresholds(rows, {i: rng.random() < 0.3 for i in range(200)})
    assert high == math.inf
    assert sum(low <= score < high for score in rows.values()) > 850


def test_scores_that_tell_all_leave_nothing_to_ask() -> None:
    rows = {i: float(i) for i in range(1000)}
    low, high = filter_way().thresholds(rows, {i: i >= 600 for i in range(0, 1000, 5)})
    assert 550 <= high <= 650
    assert sum(low <= score < high for score in rows.values()) < 50


def test_nothing_is_dropped_if_no_row_of_the_sample_was_kept() -> None:
    low, high = filter_way().thresholds(
        {i: float(i) for i in range(1000)}, dict.fromkeys(range(0, 1000, 5), False)
    )
    assert (low, high) == (-math.inf, math.inf)


# -------------------------------------------------------------------------------------------
# the requests of sem_filter


def teas(n: int) -> Case:
    return Case(
        "sem_filter", [f"{'good' if i % 5 < 2 else 'poor'} tea {i * 7919 % 997}" for i in range(n)]
    )


async def test_rows_that_the_sample_decides_are_not_asked_about() -> None:
    llm = Oracle(GOOD)
    rows = answers(await run(teas(900), filter_way(rows=1), llm))
    assert 200 <= len(llm.requests) <= 300
    wanted = [i % 5 < 2 for i in range(900)]
    right = sum(row["keep"] and want for row, want in zip(rows, wanted, strict=True))
    assert right >= 0.9 * sum(wanted)
    assert right >= 0.9 * sum(row["keep"] for row in rows)


async def test_the_sample_is_drawn_from_all_rows_and_the_same_each_time() -> None:
    asked = []
    for _ in range(2):
        llm = Oracle(GOOD)
        await run(teas(900), filter_way(rows=1), llm)
        asked.append({request.messages[1].content for request in llm.requests[:200]})
    assert asked[0] == asked[1]
    places = sorted(i for i, text in enumerate(teas(900).texts) if f"Is “{text}” good?" in asked[0])
    assert len(places) == 200
    assert all(sum(a <= p < a + 300 for p in places) > 40 for a in (0, 300, 600))


async def found_of_all(times: list[int], trial: int) -> float:
    """The recall over all rows, of which the last five texts, unlike the question, stand for
    many.
    """
    texts = [f"{'good' if i % 5 < 2 else 'poor'} tea {i * 7919 % 997}" for i in range(400)]
    texts += [f"good {'0123456789'[i] * 3} {'xyzw qkvj ' * 30}" for i in range(5)]
    case = Case("sem_filter", texts)
    weights = times or [1] * 400 + [400] * 5
    async with Context(Oracle(GOOD), Grams(), case.node(), StepMetrics(), trial=trial) as ctx:
        found = await filter_way(sample=100, rows=100).answer(
            case.node(), case.rows()._replace(times=times), ctx
        )
    keep = [(each.values or {})["keep"] for each in found]
    wanted = [text.startswith("good") for text in texts]
    return sum(w for w, k, want in zip(weights, keep, wanted, strict=True) if k and want) / sum(
        w for w, want in zip(weights, wanted, strict=True) if want
    )


async def test_equal_rows_count_as_often_as_they_are_there() -> None:
    weighed = [await found_of_all([1] * 400 + [400] * 5, trial) for trial in range(12)]
    once = [await found_of_all([], trial) for trial in range(12)]
    assert min(weighed) >= 0.9 > min(once)


async def test_the_engine_says_for_how_many_rows_each_stands(tmp_path: Path) -> None:
    file = tmp_path / "own" / "sem_filter" / "counting.py"
    file.parent.mkdir(parents=True)
    file.write_text(COUNTING)
    plan = tmp_path / "teas.yaml"
    plan.write_text(TEAS)
    rows = [
        {"id": i, "name": name}
        for i, name in enumerate(["good a", "good b", "good a", "poor", "good a"])
    ]
    async with semgraph.Session(
        llm=Oracle(GOOD),
        store="memory",
        journal=False,
        runs="",
        operators=[file.parents[1]],
        use={"liked": "counting"},
    ) as session:
        result = await session.arun(plan, teas=rows)
    assert [row["id"] for row in result.tables["liked"].to_pylist()] == [0, 2, 4]


COUNTING = """
from semgraph.operator import (
    Context, Cost, Implementation, Observed, Outcome, RowEstimate, Rows, SemFilter, dataclass
)


@dataclass(frozen=True)
class Counting(Implementation[SemFilter]):
    same = False

    def estimate(self, node: SemFilter, rows: RowEstimate, seen: Observed | None) -> Cost:
        return Cost(0)

    async def answer(self, node: SemFilter, rows: Rows, ctx: Context) -> list[Outcome]:
        return [Outcome({"keep": times == 3}) for times in rows.times]
"""
TEAS = """
plan: teas
inputs: {teas: {id: int64, name: string}}
steps:
  liked: [{from: teas}, {sem_filter: {prompt: "Is {name} good?"}}]
returns: [liked]
"""


async def test_the_log_odds_of_a_small_model_can_be_the_proxy() -> None:
    small, large = Oracle(GOOD, name="small"), Oracle(GOOD, name="large")
    case, metrics = teas(600), StepMetrics()
    async with Context(Roles(large, small=small), Grams(), case.node(), metrics) as ctx:
        found = await filter_way(proxy="logit").answer(case.node(), case.rows(), ctx)
    keep = [(each.values or {})["keep"] for each in found]
    assert keep == [text.startswith("good") for text in case.texts]
    assert {request.words for request in small.requests} == {("yes", "no")}
    assert {request.role for request in small.requests} == {"small"}
    assert len(small.requests) == 600
    assert not any(request.words for request in large.requests)
    assert len(large.requests) < 40  # packed: the sample of 200, and what is between the thresholds
    assert metrics.calls_issued == len(small.requests) + len(large.requests)


async def test_the_guarantee_holds_however_wrong_the_log_odds_are() -> None:
    contrary = Mind(answer=lambda text: {"answer": "no" if "“good" in text else "yes"})
    large, case = Oracle(GOOD), teas(600)
    async with Context(
        Roles(large, small=Oracle(contrary)), Grams(), case.node(), StepMetrics()
    ) as ctx:
        found = await filter_way(proxy="logit").answer(case.node(), case.rows(), ctx)
    keep = [(each.values or {})["keep"] for each in found]
    wanted = [text.startswith("good") for text in case.texts]
    assert sum(map(bool.__and__, keep, wanted)) / sum(wanted) >= 0.9
    assert sum(map(bool.__and__, keep, wanted)) / sum(keep) >= 0.9


async def test_pairs_that_a_small_model_finds_plain_are_not_asked_about() -> None:
    case = Case("sem_join", ["a1", "b2", "c3"], others=["a7", "b8"], answers=False)
    small, large = Oracle(mind("sem_join")), Oracle(NEVER)
    way = LIBRARY.get(
        "sem_join", Choice.parse("cascade(jaccard=null, proxy=logit, reject=0.45, accept=0.55)")
    )
    async with Context(Roles(large, small=small), Grams(), case.node(), StepMetrics()) as ctx:
        found = await way.answer(case.node(), case.rows(), ctx)
    assert [(each.values or {})["match"] for each in found] == [
        True,
        False,
        False,
        True,
        False,
        False,
    ]
    assert (len(small.requests), len(large.requests)) == (6, 0)


async def test_a_small_table_is_asked_about_whole() -> None:
    llm = Oracle(GOOD)
    await run(teas(200), filter_way(rows=1), llm)
    assert len(llm.requests) == 200


async def test_each_partition_is_sampled_for_itself() -> None:
    case = teas(700)
    case.partition = ["small" if i < 150 else "large" for i in range(700)]
    llm = Oracle(GOOD)
    await run(case, filter_way(rows=1), llm)
    asked = [request.partition for request in llm.requests]
    assert asked.count("small") == 150
    assert 200 <= asked.count("large") < 400


async def test_rows_without_text_are_always_asked_about() -> None:
    case = teas(600)
    case.texts[5] = case.texts[77] = None
    llm = Oracle(GOOD)
    rows = answers(await run(case, filter_way(rows=1), llm))
    assert sum("“”" in request.messages[1].content for request in llm.requests) == 2
    assert not rows[5]["keep"]


async def test_a_row_of_the_sample_that_fails_is_an_error_and_counts_as_no() -> None:
    def spoil(request: Request, reply: Reply) -> Reply:
        if "tea 3" in request.messages[1].content:
            raise RowError("rejected", "no 3", attempts=1)
        return reply

    rows = answers(await run(teas(900), filter_way(rows=1), Faulty(Oracle(GOOD), spoil)))
    failed = [row for row in rows if row["error"]]
    assert failed
    assert all(row["keep"] is None and row["error"] == "rejected: no 3" for row in failed)
    assert all(row["keep"] is not None for row in rows if not row["error"])


@pytest.mark.parametrize(
    ("way", "said"),
    [
        (
            "cascade(sample=20)",
            "a sample of 20 rows cannot show recall 0.9 and precision 0.9 with delta 0.1: it needs at least 51",
        ),
        (
            "cascade(recall=0.99, sample=200)",
            "a sample of 200 rows cannot show recall 0.99 and precision 0.9 with delta 0.1: it needs at least 299",
        ),
        ("cascade(recall=1.0)", "recall must be above 0 and below 1; packed sends every row"),
        (
            "cascade(precision=0)",
            "precision must be above 0 and below 1; packed sends every row",
        ),
        ("cascade(delta=1)", "delta must be above 0 and below 1"),
        ("cascade(delta=-0.1)", "delta must be above 0 and below 1"),
        ("cascade(rows=0)", "rows must be at least 1"),
        (
            "cascade(proxy=small)",
            'cascade: proxy must be "embeddings" or "logit", not "small"',
        ),
    ],
)
def test_what_cannot_be_promised_is_refused(way: str, said: str) -> None:
    with pytest.raises(PlanError) as error:
        LIBRARY.get("sem_filter", Choice.parse(way), "good")
    assert str(error.value).startswith("step good: ")
    assert said in str(error.value)


def test_the_least_sample_is_enough_and_one_less_is_not() -> None:
    for recall, precision, delta in [(0.9, 0.9, 0.1), (0.95, 0.8, 0.05), (0.5, 0.5, 0.4)]:
        least = filter_way(recall=recall, precision=precision, delta=delta, sample=100_000).least
        filter_way(recall=recall, precision=precision, delta=delta, sample=least)
        with pytest.raises(PlanError, match=f"at least {least}$"):
            filter_way(recall=recall, precision=precision, delta=delta, sample=least - 1)
        kept = [float(i) for i in range(least)]
        assert FILTER.low_threshold(kept, recall, delta / 2) > -math.inf


# -------------------------------------------------------------------------------------------
# sem_join

NEVER = Mind(match=lambda left, right: None)


async def decided(
    way: str, lefts: list[Any], rights: list[Any], *, returns: bool = False
) -> tuple[list[Any], int]:
    """For each pair whether it matches without being asked about, by a model that says no to all;
    the calls.
    """
    llm = Oracle(NEVER)
    case = Case("sem_join", lefts, others=rights, answers=returns)
    rows = answers(await run(case, LIBRARY.get("sem_join", Choice.parse(way)), llm))
    return [row["match"] for row in rows], len(llm.requests)


async def test_equal_names_match_unasked_whatever_their_case_and_blanks() -> None:
    matched, calls = await decided("cascade", ["Alice  Chen", "ALICE CHEN"], ["alice chen"])
    assert (matched, calls) == ([True, True], 0)


async def test_names_that_are_nearly_the_same_match_unasked() -> None:
    lefts = [
        "the international harbour commission of Rotterdam",
        "the international harbor commission of Rotterdam",
    ]
    assert await decided("cascade(jaccard=0.8)", lefts[:1], lefts[1:]) == ([True], 0)
    assert await decided("cascade(jaccard=1.0)", lefts[:1], lefts[1:]) == ([False], 1)
    assert await decided("cascade(jaccard=null)", lefts[:1], lefts[1:]) == ([False], 1)


async def test_what_is_unlike_is_no_match_unasked_and_what_lies_between_is_asked_about() -> None:
    lefts, rights = ["Alice Chen"], ["Zorro", "Alice Cooper"]
    assert await decided("cascade", lefts, rights) == ([False, False], 1)
    assert await decided("cascade(reject=-1)", lefts, rights) == ([False, False], 1)
    assert await decided("cascade(reject=-1, pairs=1)", [*lefts, "Alice B"], rights) == (
        [False] * 4,
        2,
    )
    assert await decided("cascade(reject=0.9)", lefts, rights) == ([False, False], 0)


async def test_a_pair_with_a_text_that_the_embedder_rejects_is_asked_about() -> None:
    lefts, rights = ["Alice Chen", f"{POISON} Chen"], ["Zorro"]
    assert await decided("cascade(jaccard=null)", lefts[:1], rights) == ([False], 0)
    assert await decided("cascade(jaccard=null, pairs=1)", lefts, rights) == ([False] * 2, 1)


@pytest.mark.parametrize("rejected", [1, 60, 120])
async def test_a_filter_asks_about_every_row_that_the_embedder_rejects(rejected: int) -> None:
    texts = [f"{'good' if i % 3 else 'poor'} {i}" for i in range(120)]
    texts[:rejected] = [f"{text} {POISON}" for text in texts[:rejected]]
    llm = Oracle(GOOD)
    rows = answers(await run(Case("sem_filter", texts), filter_way(sample=60, rows=1), llm))
    assert [row["error"] for row in rows] == [None] * 120
    assert [row["keep"] for row in rows[:rejected]] == ["good" in t for t in texts[:rejected]]


async def test_what_is_near_enough_matches_unasked_only_where_that_is_wanted() -> None:
    assert await decided("cascade(accept=0.3)", ["Alice Chen"], ["Alice Cooper"]) == ([True], 0)
    assert await decided("cascade", ["Alice Chen"], ["Alice Cooper"]) == ([False], 1)


async def test_a_match_that_has_answers_is_asked_about_for_them() -> None:
    case = Case("sem_join", ["Ada"], others=["ada", "zebra"])
    llm = Oracle(Mind(match=lambda left, right: {"verdict": "same", "note": "asked"}))
    rows = answers(await run(case, LIBRARY.get("sem_join", Choice.parse("cascade")), llm))
    assert [(row["match"], row["verdict"], row["note"]) for row in rows] == [
        (True, "same", "asked"),
        (False, None, None),
    ]


async def test_empty_names_decide_nothing() -> None:
    matched, calls = await decided("cascade(pairs=1)", ["", None, " "], ["", None])
    assert (matched, calls) == ([False] * 6, 3)


async def test_any_column_that_the_prompt_names_may_be_compared() -> None:
    case = Case("sem_join", ["Ada", "Bob"], others=["Cy"], answers=False)
    way = LIBRARY.get("sem_join", Choice.parse("cascade(right=weight)"))
    llm = Oracle(NEVER)
    await run(case, way, llm)
    assert way.refuses(case.node(), Limits()) is None
    said = LIBRARY.get("sem_join", Choice.parse("cascade(left=age)")).refuses(
        node("sem_join"), Limits()
    )
    assert said == 'left "age" is no column that the prompt names of that side; it names name'
    said = LIBRARY.get("sem_join", Choice.parse("cascade(right=age)")).refuses(
        node("sem_join"), Limits()
    )
    assert (
        said == 'right "age" is no column that the prompt names of that side; it names name, weight'
    )


async def test_what_is_embedded_is_of_one_partition_at_a_time() -> None:
    case = Case(
        "sem_join",
        ["Ada", "Bob"],
        others=["Cy", "Di"],
        partition=["p", "q"],
        pairs=[(0, 0), (1, 1)],
    )
    case.answers = False
    table = await ask(case, "cascade(reject=-1)", Oracle(NEVER))
    assert table.num_rows == 2


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("cascade(jaccard=0)", "jaccard must be above 0 and at most 1, or null"),
        ("cascade(jaccard=1.1)", "jaccard must be above 0 and at most 1, or null"),
        ("cascade(reject=2)", "reject must be from -1 to 1: it is a cosine"),
        (
            "cascade(proxy=logit, reject=-0.5)",
            "reject must be from 0 to 1: with proxy=logit it is a probability",
        ),
        ("cascade(reject=0.5, accept=0.4)", "accept must be from reject to 1, or null"),
        ("cascade(accept=1.5)", "accept must be from reject to 1, or null"),
        ("cascade(pairs=0)", "pairs must be at least 1"),
    ],
)
def test_thresholds_out_of_range_are_refused(way: str, said: str) -> None:
    with pytest.raises(PlanError) as error:
        LIBRARY.get("sem_join", Choice.parse(way), "link")
    assert str(error.value).startswith("step link: cascade(")
    assert str(error.value).endswith(said)


def test_without_its_package_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    way = LIBRARY.get("sem_join", Choice.parse("cascade"))
    monkeypatch.setattr(extras, "is_installed", lambda name: name != "datasketch")
    said = 'it needs datasketch: pip install "semgraph[minhash]", or use jaccard=null'
    assert way.refusal(node("sem_join"), Limits()) == said
    without = LIBRARY.get("sem_join", Choice.parse("cascade(jaccard=null)"))
    assert without.refusal(node("sem_join"), Limits()) is None


@pytest.mark.parametrize(
    ("choice", "because"),
    [
        ("cascade", "it keeps rows without a call"),
        ("logit", "it asks for one word"),
        ("lotus", "LOTUS's sem_filter returns only the verdict"),
    ],
)
def test_a_filter_with_answers_is_refused_by_what_only_gives_verdicts(
    choice: str, because: str
) -> None:
    asked = node("sem_filter")
    why = replace(asked.prompt.first, returns=(("why", parse_type("string")),))
    answering = replace(asked, prompt=PromptSet((("", why),)))
    refusal = LIBRARY.get("sem_filter", Choice.parse(choice)).refuses(answering, Limits())
    assert refusal == f"{because}, and the prompt also returns why; use packed"
    for name in ("per_row", "packed"):
        assert LIBRARY.get("sem_filter", Choice.parse(name)).refuses(answering, Limits()) is None
