"""The parts of a run's cost, by row, by step and by model, sum to the counters of the run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest

import semgraph
from semgraph.conformance.cases import Grams, Mind, Oracle
from semgraph.errors import BudgetReached, PlanError, RowError
from semgraph.execution.costs import By
from semgraph.execution.result import Result
from semgraph.llm.base import Reply, Request
from tests.execution.conftest import STORY, Work, said, variant
from tests.plans.conftest import loaded

Spoil = Callable[[Request, Reply], Reply]
NOTES = [{"id": f"n{i}", "text": f"note {i}", "most": i % 2} for i in range(12)]
KINDS = [{"kind": "fruit"}, {"kind": "food"}]
INPUTS = "{notes: {id: string, text: string, most: int64}, kinds: {kind: string}}"
MAP = 'sem_map: {prompt: "Shorten {text}.", returns: {short: string}}'
FILTER = 'sem_filter: {prompt: "Is {text} good?"}'
JOIN = 'sem_join: {other: kinds, alias: k, prompt: "Is {text} {k.kind}?"}'
AGG = 'sem_agg: {prompt: "{text}", by: most, order: id, returns: {short: string}}'
TOPK = 'sem_topk: {prompt: "How loud is {text}?", k: 2, by: most}'
CHECK = "sem_map: {prompt: \"Shorten {text}.\", returns: {short: string}, check: {where: short <> 'bad', message: \"'no'\"}}"
ALL_STEPS = {"map": MAP, "filter": FILTER, "join": JOIN, "agg": AGG, "topk": TOPK}


class Priced(Oracle):
    """A model whose calls have ids of their own and a name. `spoil` changes a reply, or raises."""

    def __init__(self, spoil: Spoil = lambda _, reply: reply) -> None:
        mind = Mind(
            answer=lambda text: (
                {"answer": "no" if "5" in text else "yes"}
                if text.startswith("Is")
                else {"short": text[-3:]}
            ),
            match=lambda left, right: {} if "fruit" in left + right else None,
            combine=lambda texts, parts: {"short": str(len(texts) + len(parts))},
            score=lambda text: len(text) * 7 % 100,
        )
        super().__init__(mind)
        self.spoil = spoil

    async def complete(self, request: Request) -> Reply:
        """The reply, maybe spoiled."""
        reply = await super().complete(request)
        reply = replace(reply, call_id=uuid4().hex, model=f"m-{request.role}")
        return self.spoil(request, reply)


def once(change: Callable[[Reply], Reply], every: int = 3) -> Spoil:
    """Spoil every third reply to a first request."""
    seen: list[str] = []

    def spoil(request: Request, reply: Reply) -> Reply:
        again = "not valid:" in request.messages[-1].content
        seen.append(request.fingerprint)
        return change(reply) if not again and len(seen) % every == 1 else reply

    return spoil


def refused(reply: Reply) -> Reply:
    """A refusal that is paid."""
    raise RowError("refused", "it would rather not", attempts=1, spent=reply)


def run(
    folder: Path,
    step: str,
    model: Any,
    *,
    use: str = "",
    notes: list[dict[str, Any]] = NOTES,
    more: str = "",
    **options: Any,
) -> Result:
    """The result of a plan without windows."""
    steps = f"\n  asked:\n    - from: notes\n    - {step}\n{more}"
    text = f"plan: p\ninputs: {INPUTS}\nsteps:{steps}returns: [asked]\n"
    (folder / "p.yaml").write_text(text, encoding="utf-8")
    given = {"store": "memory", "folder": folder, "journal": False, "embedder": Grams()} | options
    with semgraph.Session(llm=model, **given) as session:
        try:
            chosen = {"asked": use} if use else {}
            return session.run(folder / "p.yaml", notes=notes, kinds=KINDS, use=chosen)
        except (RowError, BudgetReached) as error:
            return cast("Result", error.result)


def summed(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """The sum of parts; dollars are unknown if those of a part are."""
    total: dict[str, Any] = {}
    for name in ("calls", "tokens_in", "tokens_cached", "tokens_out", "embeddings", "dollars"):
        values = [part[name] for part in parts]
        total[name] = None if None in values else sum(values)
    return total


def assert_sums(result: Result) -> None:
    """All parts sum to the metrics in the record."""
    assert result.record is not None
    recorded = json.loads((result.record / "metrics.json").read_text())["total"]
    whole = result.cost._asdict()
    assert whole == {"calls": recorded["calls_issued"]} | {
        name: recorded[name] for name in list(whole)[1:]
    }
    for by in ("row", "step", "model"):
        parts = result.costs(by=by)
        assert all((part[name] or 0) >= 0 for part in parts for name in whole), by
        found = summed(parts)
        unknown = whole["dollars"] is None
        assert found | {"dollars": 0} == pytest.approx(whole | {"dollars": 0}), by
        assert (
            (found["dollars"] is None)
            if unknown
            else found["dollars"] == pytest.approx(whole["dollars"])
        ), by


def calls_by_row(result: Result) -> dict[Any, float]:
    """The calls of each input row, by its position; None: of no row."""
    return {part["row"]: part["calls"] for part in result.costs(by="row")}


IMPLEMENTATIONS = [
    ("map", "per_row"), ("map", "packed(rows=5)"), ("map", "vote(samples=3)"), ("map", "reflexion"),
    ("filter", "per_row"), ("filter", "packed(rows=5)"), ("filter", "logit"), ("filter", "vote(samples=3)"),
    ("join", "nested_loop"), ("join", "block"),
    ("agg", "single"), ("agg", "fold(rows=2)"), ("agg", "tree(fan_in=2)"),
    ("topk", "pointwise"), ("topk", "packed(rows=4)"), ("topk", "listwise"), ("topk", "tournament"),
    ("topk", "quickselect(pivot=random)"),
]  # fmt: skip
FAULTS: dict[str, Callable[[], Spoil]] = {
    "none": lambda: lambda _, reply: reply,
    "invalid": lambda: once(lambda reply: replace(reply, text="{}")),
    "refused": lambda: once(refused, every=2),
    "unpriced": lambda: lambda _, reply: replace(reply, dollars=None),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(("step", "use"), IMPLEMENTATIONS, ids=lambda each: each)
def test_the_parts_of_every_implementation_sum_to_the_metrics(
    tmp_path: Path, step: str, use: str, fault: str
) -> None:
    result = run(tmp_path, ALL_STEPS[step], Priced(FAULTS[fault]()), use=use)
    assert_sums(result)
    assert None not in calls_by_row(result), "every call is about rows"
    assert {part["model"] for part in result.costs(by="model")} == {"m-default"}


@pytest.mark.parametrize("proxy", ["embeddings", "logit"])
def test_the_parts_of_a_cascade_sum_to_the_metrics(tmp_path: Path, proxy: str) -> None:
    use = f"cascade(recall=0.5, precision=0.5, delta=0.5, sample=8, rows=3, proxy={proxy})"
    result = run(tmp_path, FILTER, Priced(), use=use)
    assert_sums(result)
    others = [part for part in result.costs(by="row") if part["row"] is None]
    assert bool(others) == (proxy == "logit" or bool(result.cost.embeddings))


def test_a_call_is_divided_equally_among_its_rows(tmp_path: Path) -> None:
    result = run(tmp_path, MAP, Priced(), use="packed(rows=5)", notes=NOTES[:7])
    assert calls_by_row(result) == {**dict.fromkeys(range(5), 0.2), 5: 0.5, 6: 0.5}
    first = result.costs(by="row")[0]
    assert (first["input"], first["row"], first["key"]) == ("notes", 0, None)


def test_equal_rows_share_one_call(tmp_path: Path) -> None:
    result = run(tmp_path, MAP, Priced(), notes=[NOTES[0], NOTES[1], NOTES[0]])
    assert calls_by_row(result) == {0: 0.5, 1: 1, 2: 0.5}


def test_a_row_pays_for_its_refused_answers(tmp_path: Path) -> None:
    def bad(request: Request, reply: Reply) -> Reply:
        first = (
            "note 1." in request.messages[-1].content
            and "valid:" not in request.messages[-1].content
        )
        return replace(reply, text='{"short": "bad"}') if first else reply

    result = run(tmp_path, CHECK, Priced(bad), notes=NOTES[:2])
    assert not result.failed
    assert calls_by_row(result) == {0: 1, 1: 2}


@pytest.mark.parametrize(
    ("use", "expected"), [("", {0: 1, 1: 2}), ("packed(rows=2)", {0: 0.5, 1: 1.5})]
)
def test_a_row_pays_for_its_invalid_answers(
    tmp_path: Path, use: str, expected: dict[int, float]
) -> None:
    def bad(request: Request, reply: Reply) -> Reply:
        if not use:
            text = request.messages[-1].content
            return (
                replace(reply, text="{}") if "note 1." in text and "valid:" not in text else reply
            )
        answers = json.loads(reply.text)
        if "answers" in answers:
            answers["answers"] = [each for each in answers["answers"] if each["id"] == 1]
        return replace(reply, text=json.dumps(answers))

    result = run(tmp_path, MAP, Priced(bad), use=use, notes=NOTES[:2])
    assert not result.failed
    assert calls_by_row(result) == expected


def test_failed_rows_have_their_cost(tmp_path: Path) -> None:
    def bad(request: Request, reply: Reply) -> Reply:
        return refused(reply) if "note 1." in request.messages[-1].content else reply

    result = run(tmp_path, MAP, Priced(bad), notes=NOTES[:3])
    assert [failure.row["id"] for failure in result.failed] == ["n1"]
    assert calls_by_row(result) == {0: 1, 1: 1, 2: 1}


def test_an_answer_about_a_group_is_paid_by_its_rows_and_what_follows_from_it_too(
    tmp_path: Path,
) -> None:
    more = '    - sem_map: {prompt: "Is {short} long?", returns: {long: string}}\n'
    mind = Priced()
    mind.mind.answer = lambda _: {"long": "no"}
    result = run(tmp_path, AGG, mind, more=more, notes=NOTES[:4])
    assert_sums(result)
    assert calls_by_row(result) == dict.fromkeys(range(4), 0.75), (
        "2 groups of 2 rows, one question about both"
    )


def test_a_pair_is_paid_by_its_left_row(tmp_path: Path) -> None:
    result = run(tmp_path, JOIN, Priced(), use="nested_loop", notes=NOTES[:2])
    assert calls_by_row(result) == {0: 2, 1: 2}


@pytest.mark.parametrize(("left", "right"), [("notes", "kinds"), ("kinds", "notes")])
def test_a_pair_is_paid_by_its_windowed_row_on_either_side(
    tmp_path: Path, left: str, right: str
) -> None:
    column = {"notes": "text", "kinds": "kind"}
    question = f"Is {{{column[left]}}} {{o.{column[right]}}}?"
    join = f'{{sem_join: {{other: {right}, alias: o, prompt: "{question}"}}}}'
    result = run_plan(
        tmp_path,
        f"""
windows: {{input: notes, partition: id, key: id}}
steps: {{asked: [{{from: {left}}}, {join}]}}
returns: [asked]
""",
        Priced(),
    )
    assert {part["input"] for part in result.costs(by="row")} == {"notes"}
    assert calls_by_row(result) == {0: 2, 1: 2, 2: 2}


def test_an_unknown_price_of_a_model_leaves_that_of_embeddings(tmp_path: Path) -> None:
    result = run_plan(
        tmp_path,
        f"""
steps:
  asked: [{{from: notes}}, {{{MAP}}}]
  embedded: [{{from: asked}}, {{embed: {{vector: short}}}}]
returns: [embedded]
""",
        Priced(lambda _, reply: replace(reply, dollars=None)),
    )
    assert result.cost.embeddings
    for by in ("row", "model"):
        known = {part["embeddings"]: part["dollars"] for part in result.costs(by=cast("By", by))}
        assert known == {0: None, result.cost.embeddings: 0}


def run_plan(folder: Path, steps: str, model: Any) -> Result:
    """The result of a plan over three notes, whose parts sum to the metrics."""
    (folder / "p.yaml").write_text(f"plan: p\ninputs: {INPUTS}{steps}", encoding="utf-8")
    options = {"store": "memory", "folder": folder, "journal": False, "embedder": Grams()}
    with semgraph.Session(llm=model, **options) as session:
        result = session.run(folder / "p.yaml", notes=NOTES[:3], kinds=KINDS)
    assert_sums(result)
    return result


def test_without_its_record_a_run_has_costs_by_step(tmp_path: Path) -> None:
    result = run(tmp_path, MAP, Priced(), notes=NOTES[:2])
    assert result.record is not None
    shutil.rmtree(result.record)
    assert set(result.to_json()["costs"]) == {"step"}
    for by in ("row", "model"):
        with pytest.raises(PlanError, match=f"costs by {by} are read from the record of the run"):
            result.costs(by=cast("By", by))


def test_calls_of_two_models_are_told_apart(tmp_path: Path) -> None:
    use = "cascade(recall=0.5, precision=0.5, delta=0.5, sample=8, rows=3, proxy=logit)"
    result = run(tmp_path, FILTER, Priced(), use=use)
    assert {part["model"] for part in result.costs(by="model")} == {"m-small", "m-default"}


def test_answers_of_the_journal_cost_nothing(tmp_path: Path) -> None:
    first = run(tmp_path, MAP, Priced(), journal=None, notes=NOTES[:3])
    again = run(tmp_path, MAP, Priced(), journal=None, notes=NOTES[:4])
    assert calls_by_row(first) == {0: 1, 1: 1, 2: 1}
    assert calls_by_row(again) == {3: 1}
    assert_sums(again)


def test_a_run_at_its_limit_has_the_cost_so_far(tmp_path: Path) -> None:
    result = run(tmp_path, MAP, Priced(), max_calls=5)
    assert result.stopped
    assert result.cost.calls == 5
    assert_sums(result)


def test_an_answer_cut_at_the_limit_is_in_the_record(tmp_path: Path) -> None:
    def long(request: Request, reply: Reply) -> Reply:
        if request.max_tokens < 2048:
            spent = replace(reply, finish="length")
            raise RowError("truncated", "cut", attempts=1, spent=spent)
        return reply

    result = run(tmp_path, MAP, Priced(long), max_tokens=2400)
    assert "did not end within" in str(result.stopped)
    assert_sums(result)
    [model] = result.costs(by="model")
    assert (model["model"], model["calls"]) == ("m-default", result.cost.calls)


def test_what_cannot_be_divided_is_refused(tmp_path: Path) -> None:
    result = run(tmp_path, MAP, Priced(), runs="", notes=NOTES[:2])
    assert [part["step"] for part in result.costs()] == ["asked"]
    assert set(result.to_json()["costs"]) == {"step"}
    for by in ("row", "model"):
        with pytest.raises(PlanError, match=f"costs by {by} are read from the record of the run"):
            result.costs(by=by)
    with pytest.raises(PlanError, match='no costs by "rows". Use row, step or model'):
        result.costs(by="rows")  # type: ignore[arg-type]


# -- plans with windows


async def test_a_run_in_windows_and_its_resumed_rest_are_paid_by_their_messages(
    simple: Work,
) -> None:
    rows = said(STORY[:6])
    stopped = await simple.run(rows, session={"max_calls": 12})
    assert stopped.stopped
    assert_sums(stopped)
    rest = await simple.run(rows, resume=stopped.run)
    assert rest.skipped
    assert_sums(rest)
    paid = [part for part in rest.costs(by="row") if part["row"] is not None]
    assert {part["input"] for part in paid} == {"episodes"}
    assert [part["key"] for part in paid] == [rest.keys[part["row"]] for part in paid]
    assert min(part["row"] for part in paid) >= rest.skipped
    unpaid = [part for part in rest.costs(by="row") if part["row"] is None]
    assert [part["calls"] for part in unpaid] == [0], "embeddings alone are of no row"
    assert rest.to_json()["costs"]["row"] == rest.costs(by="row")


@pytest.mark.parametrize("preset", [None, "lean", "fused", "bulk"])
async def test_every_preset_divides_its_calls_among_messages(
    simple: Work, preset: str | None
) -> None:
    rows = [*said(STORY[:4], "g"), *said(STORY[4:8], "h")]
    result = await simple.run(rows, preset=preset)
    assert_sums(result)
    assert [part["calls"] for part in result.costs(by="row") if part["row"] is None] in ([], [0])


async def test_faults_of_the_endpoint_change_no_sum(simple: Work, tmp_path: Path) -> None:
    simple.model.poison("prose", "Rome")
    plan = variant(tmp_path, ("size: $window", "size: 3"))
    result = await simple.run(said(STORY[:6]), plan=plan)
    assert result.failed
    assert_sums(result)


async def test_recorded_answers_are_divided_too() -> None:
    async with semgraph.Session(llm="recorded", store="memory", journal=False) as session:
        result = await session.arun(loaded("add_episode"))
    assert result.cost.calls
    assert result.cost.dollars == 0
    assert_sums(result)
