"""`check`: an answer that does not meet a condition is requested again, with what was wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest

import semgraph
from semgraph.conformance.cases import Grams, Mind, Oracle, edited
from semgraph.errors import ModelUnavailable, PlanError, RowError
from semgraph.execution.result import Result
from semgraph.folders import plans_folder
from semgraph.frontend.load import load_plan
from semgraph.llm.base import Reply, Request
from semgraph.logical.plan import LogicalPlan

NOTES = [
    {"id": "a", "text": "apples", "most": 4},
    {"id": "b", "text": "bread", "most": 4},
    {"id": "c", "text": "cake", "most": 9},
]
INPUTS = "{notes: {id: string, text: string, most: int64}, kinds: {kind: string, least: int64}}"
MAP = """
    - from: notes
    - sem_map:
        prompt: "Shorten {text}."
        returns: {short: string}
        check: {where: length(short) <= most, message: "'at most ' || most || ' letters, not ' || short || '.'"}
"""
SHORT = "{where: length(short) < 5, message: \"'too long'\", retries: 1}"


class Learner(Oracle):
    """A model whose answers are bad until they were refused a number of times."""

    def __init__(self, mind: Mind, bad: Callable[[dict[str, Any], int], dict[str, Any]]) -> None:
        super().__init__(mind)
        self.bad = bad

    async def complete(self, request: Request) -> Reply:
        """The answer, bad as long as `bad` makes it so: it gets the answer and the refusals."""
        times = len(reasons(request))

        def change(document: dict[str, Any]) -> dict[str, Any]:
            entries = document.get("answers") or document.get("matches")
            if entries is None:
                return self.bad(document, times)
            return {key: [self.bad(e, times) for e in entries] for key in document}

        reply = replace(await super().complete(request), call_id=uuid4().hex)
        return reply if request.words else edited(reply, change)


def reasons(request: Request) -> list[str]:
    """Why the request says that earlier answers were refused."""
    text = request.messages[-1].content
    said = re.search(r"Your last answers? w(?:as|ere) not valid: (.*)\. Answer again", text)
    return said[1].split("; ") if said else []


def word_of(text: str) -> dict[str, Any]:
    """The right answer."""
    return {"short": text.removeprefix("Shorten ")[:4]}


def until(tries: int) -> Callable[[dict[str, Any], int], dict[str, Any]]:
    """Answers that are too long until they were refused a number of times."""
    return lambda good, times: good if times >= tries else {**good, "short": good["short"] + "!!"}


def run(
    folder: Path,
    steps: str,
    model: Oracle,
    *,
    use: str = "",
    notes: list[dict[str, Any]] = NOTES,
    **options: Any,
) -> Result:
    """The result of a plan."""
    text = f"plan: checks\ninputs: {INPUTS}\noptional: [kinds]\nsteps:\n  asked:{steps}returns: [asked]\n"
    (folder / "checks.yaml").write_text(text, encoding="utf-8")
    inputs = {"notes": notes, "kinds": options.pop("kinds", [])}
    session = {"journal": False, **options}
    chosen = {"asked": use} if use else {}
    with semgraph.Session(llm=model, store="memory", runs="", folder=folder, **session) as opened:
        try:
            return opened.run(folder / "checks.yaml", inputs=inputs, use=chosen)
        except RowError as every:  # every row failed
            return cast("Result", every.result)


def shorts(result: Result) -> dict[str, Any]:
    """The answers by row."""
    return {row["id"]: row["short"] for row in result.tables["asked"].to_pylist()}


def test_the_example_of_the_documentation_runs_and_the_request_is_as_it_says(
    tmp_path: Path,
) -> None:
    page = (plans_folder().parent / "docs" / "check.md").read_text(encoding="utf-8")
    (tmp_path / "headlines.yaml").write_text(page.split("```yaml\n")[1].split("```")[0])

    def bad(good: dict[str, Any], times: int) -> dict[str, Any]:
        return good if times else {"headline": 41 * "x"}

    model = Learner(Mind(answer=lambda _: {"headline": "Short"}), bad)
    with semgraph.Session(llm=model, store="memory", folder=tmp_path, journal=False) as session:
        result = session.run(tmp_path / "headlines.yaml", notes=[{"text": "Long.", "most": 40}])
    assert result.tables["headlines"].to_pylist()[0]["headline"] == "Short"
    first, second = (request.messages[-1].content for request in model.requests)
    said = " ".join(page.split("at its end, `")[1].split("`")[0].split())
    assert second == f"{first}\n\n{said}"


WAYS = pytest.mark.parametrize("use", ["per_row", "packed(rows=3)", "reflexion"])


@WAYS
def test_an_answer_that_does_not_meet_the_check_is_requested_again_with_the_message(
    tmp_path: Path, use: str
) -> None:
    model = Learner(Mind(answer=word_of), until(1))
    result = run(tmp_path, MAP, model, use=use)
    assert shorts(result) == {"a": "appl", "b": "brea", "c": "cake!!"}
    again = [request for request in model.requests if reasons(request)]
    said = {"at most 4 letters, not appl!!", "at most 4 letters, not brea!!"}
    assert {reason for request in again for reason in reasons(request)} == said
    assert result.meter.steps["asked"].refused == 2
    assert not result.failed


def test_it_is_requested_alone_and_what_was_right_is_not_requested_again(tmp_path: Path) -> None:
    model = Learner(Mind(answer=word_of), until(1))
    run(tmp_path, MAP, model, use="packed(rows=3)")
    packed, *alone = [request.messages[-1].content for request in model.requests]
    assert packed.startswith("Records:")
    assert [text.split("\n")[0] for text in alone] == ["Shorten apples.", "Shorten bread."]


def test_each_further_request_names_all_earlier_reasons_so_that_no_text_comes_twice(
    tmp_path: Path,
) -> None:
    model = Learner(Mind(answer=word_of), until(2))
    result = run(tmp_path, MAP, model, notes=NOTES[:1])
    reason = "at most 4 letters, not appl!!"
    assert [reasons(request) for request in model.requests] == [[], [reason], [reason, reason]]
    assert shorts(result) == {"a": "appl"}


@WAYS
def test_after_the_retries_it_is_an_error_of_its_row(tmp_path: Path, use: str) -> None:
    model = Learner(Mind(answer=word_of), until(9))
    result = run(tmp_path, MAP, model, use=use)
    assert shorts(result) == {"c": "cake!!"}
    errors = [failure.error for failure in result.failed]
    assert errors == [
        "check: at most 4 letters, not appl!!",
        "check: at most 4 letters, not brea!!",
    ]
    assert {len(reasons(request)) for request in model.requests} == {0, 1, 2}


def test_on_error_null_keeps_the_row_without_the_answer(tmp_path: Path) -> None:
    steps = MAP.replace("        returns:", "        on_error: null\n        returns:")
    result = run(tmp_path, steps, Learner(Mind(answer=word_of), until(9)))
    assert shorts(result) == {"a": None, "b": None, "c": "cake!!"}


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_an_answer_is_requested_at_most_retries_times_more(tmp_path: Path, retries: int) -> None:
    steps = MAP.replace("letters, not ' || short || '.'\"", f"'\", retries: {retries}")
    model = Learner(Mind(answer=word_of), until(9))
    result = run(tmp_path, steps, model, notes=NOTES[:1])
    assert len(model.requests) == 1 + retries
    assert len(result.failed) == 1


def test_a_condition_that_is_null_is_not_met_and_a_message_that_is_null_says_so(
    tmp_path: Path,
) -> None:
    steps = MAP.replace("string}", "string null}").replace("most ||", "NULL ||")
    bad = Learner(Mind(answer=word_of), lambda good, times: {"short": None} if not times else good)
    result = run(tmp_path, steps, bad, notes=NOTES[:1])
    assert shorts(result) == {"a": "appl"}
    assert reasons(bad.requests[1]) == ["it does not meet the check"]


def test_rows_of_one_question_are_checked_each_by_its_own_columns(tmp_path: Path) -> None:
    notes = [{"id": str(most), "text": "apples", "most": most} for most in (6, 4, 6)]
    model = Learner(Mind(answer=word_of), until(1))
    result = run(tmp_path, MAP, model, notes=notes)
    rows = result.tables["asked"].to_pylist()
    assert [row["short"] for row in rows] == ["appl!!", "appl", "appl!!"]
    assert sum(bool(reasons(request)) for request in model.requests) == 1


def test_an_answer_of_a_wrong_form_is_requested_again_besides(tmp_path: Path) -> None:
    replies: list[Any] = [1, "too long", 2, "fine"]

    def bad(good: dict[str, Any], times: int) -> dict[str, Any]:
        return {"short": replies.pop(0)}

    model = Learner(Mind(answer=word_of), bad)
    result = run(tmp_path, MAP, model, notes=NOTES[:1])
    long, form = "at most 4 letters, not too long", "short must be string"
    assert [reasons(request) for request in model.requests] == [[], [form], [long], [long, form]]
    assert shorts(result) == {"a": "fine"}


def test_a_row_that_is_not_asked_is_not_checked(tmp_path: Path) -> None:
    more = "        when: id <> 'a'\n        otherwise: {short: \"'much too long'\"}\n"
    result = run(tmp_path, MAP + more, Learner(Mind(answer=word_of), until(0)))
    assert shorts(result) == {"a": "much too long", "b": "brea", "c": "cake"}


def test_a_limit_counts_the_rows_that_meet_the_check(tmp_path: Path) -> None:
    steps = MAP + "    - limit: {n: 1, order: id}\n"
    hopeless = Learner(
        Mind(answer=word_of),
        lambda good, _: good if good["short"] != "appl" else {"short": "apples"},
    )
    assert shorts(run(tmp_path, steps, hopeless)) == {"b": "brea"}


def test_every_prompt_of_a_choice_is_checked(tmp_path: Path) -> None:
    steps = MAP.replace('"Shorten {text}."', "{on: id, a: one, otherwise: two}")
    steps = steps.replace("        returns: {short: string}\n", "")
    (tmp_path / "prompts").mkdir()
    for name in ("one", "two"):
        file = tmp_path / "prompts" / f"{name}.md"
        file.write_text("---\nreturns: {short: string}\n---\n# item\nShorten {text}.\n")
    model = Learner(Mind(answer=word_of), until(1))
    assert shorts(run(tmp_path, steps, model)) == {"a": "appl", "b": "brea", "c": "cake!!"}


FILTER = """
    - from: notes
    - sem_filter:
        prompt: "Shorten {text}."
        returns: {short: string}
        check: {where: NOT keep OR length(short) <= most, message: "'too long'"}
"""


@pytest.mark.parametrize("use", ["per_row", "packed(rows=3)"])
def test_a_filter_checks_its_answers_and_the_verdict(tmp_path: Path, use: str) -> None:
    def answer(text: str) -> dict[str, Any]:
        return {**word_of(text), "answer": "no" if "bread" in text else "yes"}

    model = Learner(Mind(answer=answer), until(1))
    assert shorts(run(tmp_path, FILTER, model, use=use)) == {"a": "appl", "c": "cake!!"}
    assert sum(bool(reasons(request)) for request in model.requests) == 1


JOIN = """
    - from: notes
    - sem_join:
        other: kinds
        alias: k
        prompt: "Is {text} {k.kind}?"
        returns: {sure: int64}
        check: {where: sure >= k.least AND sure <= most, message: "'from ' || k.least || ' to ' || most"}
"""
KINDS = [{"kind": "fruit", "least": 2}, {"kind": "food", "least": 3}]


@pytest.mark.parametrize(
    "use", ["nested_loop", "block", "cascade(jaccard=null, reject=-1)", "logit"]
)
def test_a_join_checks_the_answers_about_pairs_that_match(tmp_path: Path, use: str) -> None:
    def match(left: str, right: str) -> dict[str, Any] | None:
        return {"sure": 4} if "fruit" not in left + right or "apples" in left else None

    def bad(good: dict[str, Any], times: int) -> dict[str, Any]:
        return good if times or not good.get("match", True) else {**good, "sure": 1}

    model = Learner(Mind(match=match, answer=lambda _: {"answer": "yes"}), bad)
    result = run(tmp_path, JOIN, model, use=use, kinds=KINDS, embedder=Grams())
    rows = result.tables["asked"].to_pylist()
    assert [(row["id"], row["k"]["kind"], row["sure"]) for row in rows] == [
        ("a", "fruit", 4),
        ("a", "food", 4),
        ("b", "food", 4),
        ("c", "food", 4),
    ]
    said = {reason for request in model.requests for reason in reasons(request)}
    assert said == {"from 2 to 4", "from 3 to 4", "from 3 to 9"}


@pytest.mark.parametrize(
    "use", ["logit", "logit(split=true)", "cascade(jaccard=null, reject=0, proxy=logit, role='')"]
)
def test_verdicts_by_log_odds_stay_where_answers_are_refused(tmp_path: Path, use: str) -> None:
    mind = Mind(
        match=lambda *_: {"sure": 4}, answer=lambda text: {"answer": "yes" if "d" in text else "no"}
    )

    def pairs(steps: str, times: int) -> tuple[set[tuple[str, str]], int, list[Request]]:
        model = Learner(mind, lambda good, n: good if n >= times else {**good, "sure": 1})
        result = run(tmp_path, steps, model, use=use, kinds=KINDS)
        rows = result.tables["asked"].to_pylist()
        found = {(row["id"], row["k"]["kind"]) for row in rows}
        return found, len(result.failed), [r for r in model.requests if r.words]

    plain = pairs(re.sub(r" +check: .*\n", "", JOIN), 0)
    assert plain[0]
    assert pairs(JOIN, 1) == plain


def test_a_pair_that_matches_no_more_when_asked_again_is_no_match(tmp_path: Path) -> None:
    def bad(good: dict[str, Any], times: int) -> dict[str, Any]:
        return {"match": False, "sure": None} if times else {**good, "sure": 1}

    model = Learner(Mind(match=lambda *_: {"sure": 4}), bad)
    result = run(tmp_path, JOIN, model, kinds=KINDS)
    assert (result.tables["asked"].num_rows, len(model.requests), result.failed) == (0, 12, ())


AGG = """
    - from: notes
    - sem_agg:
        prompt: "{text}"
        by: most
        order: id
        returns: {short: string}
        add: {n: count(*), all: "string_agg(text, ' ' ORDER BY text)"}
        check: {where: length(short) <= n + most, message: "'at most ' || (n + most)"}
"""


@pytest.mark.parametrize("use", ["single", "fold(rows=1)", "tree(fan_in=2)"])
def test_an_answer_about_a_group_is_checked_with_its_columns_and_aggregates(
    tmp_path: Path, use: str
) -> None:
    def combine(texts: list[str], parts: list[dict[str, Any]]) -> dict[str, Any]:
        return {"short": "".join([*(part["short"] for part in parts), *texts])[:6]}

    model = Learner(Mind(combine=combine), until(1))
    result = run(tmp_path, AGG, model, use=use)
    rows = result.tables["asked"].to_pylist()
    assert [(row["most"], len(row["short"]), row["n"]) for row in rows] == [(4, 6, 2), (9, 6, 1)]
    said = {reason for request in model.requests for reason in reasons(request)}
    assert said == {"at most 6"}


@pytest.mark.parametrize("steps", [MAP, FILTER, JOIN, AGG], ids=["map", "filter", "join", "agg"])
def test_a_check_may_read_answers_alone(tmp_path: Path, steps: str) -> None:
    verdict = {"answer": "yes"} if steps == FILTER else {}
    own = "sure = 4" if steps == JOIN else "length(short) < 6"
    steps = re.sub(r"check: .*\n", f"check: {{where: {own}, message: \"'no'\"}}\n", steps)
    steps = steps.replace("        by: most\n", "").replace("        add:", "        # add:")

    def bad(good: dict[str, Any], times: int) -> dict[str, Any]:
        return (
            good
            if times
            else {**good, "sure": 5}
            if steps == JOIN
            else {**good, "short": "long long"}
        )

    mind = Mind(
        answer=lambda _: {"short": "fine", **verdict},
        match=lambda *_: {"sure": 4},
        combine=lambda *_: {"short": "fine"},
    )
    model = Learner(mind, bad)
    result = run(tmp_path, steps, model, kinds=KINDS)
    assert result.tables["asked"].num_rows
    assert not result.failed
    assert sum(bool(reasons(request)) for request in model.requests) * 2 == len(model.requests)


REFS = """
    - from: notes
    - sem_map:
        prompt: "Statement: {text} Known: {known}"
        returns: {kind: ref<known>, others: list<ref<known>>}
        refs: {known: {of: kinds, where: TRUE, order: least, shows: [kind]}}
        check:
          where: kind.least > 1 AND list_bool_and([(o.kind <> kind.kind) for o in others])
          message: "kind.kind || ' is not one of ' || len(known)"
"""


def test_where_answers_name_rows_the_check_sees_the_rows(tmp_path: Path) -> None:
    def bad(good: dict[str, Any], times: int) -> dict[str, Any]:
        return good if times > 1 else {"kind": 1 + times, "others": [2]}

    model = Learner(Mind(answer=lambda _: {"kind": 2, "others": [1]}), bad)
    kinds = [{"kind": "food", "least": 1}, {"kind": "fruit", "least": 2}]
    result = run(tmp_path, REFS, model, notes=NOTES[:1], kinds=kinds)
    [row] = result.tables["asked"].to_pylist()
    assert (row["kind"], row["others"]) == (kinds[1], kinds[:1])
    said = ["food is not one of 2", "fruit is not one of 2"]
    assert [reasons(request) for request in model.requests] == [[], said[:1], said]


@pytest.mark.parametrize(
    ("steps", "use"),
    [(MAP, "lotus"), (AGG, "lotus"), (FILTER, "logit")],
    ids=["map", "agg", "filter"],
)
def test_an_implementation_that_cannot_ask_again_is_refused_before_anything_is_sent(
    tmp_path: Path, steps: str, use: str
) -> None:
    model = Oracle(Mind())
    with pytest.raises(PlanError, match=r"the step has a check|the prompt also returns short"):
        run(tmp_path, steps, model, use=use)
    assert not model.requests


@pytest.mark.parametrize("executor", ["rows", "duckdb", "both"])
def test_both_executors_judge_alike(
    tmp_path: Path, executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEMGRAPH_SEGMENTS", executor)
    result = run(tmp_path, MAP, Learner(Mind(answer=word_of), until(1)))
    assert shorts(result) == {"a": "appl", "b": "brea", "c": "cake!!"}


class CutOff(Learner):
    """A model that is gone after a number of calls."""

    calls = 99

    async def complete(self, request: Request) -> Reply:
        """The answer, as long as there are calls left."""
        if not self.calls:
            raise ModelUnavailable("gone")
        self.calls -= 1
        return await super().complete(request)


@pytest.mark.parametrize("calls", range(8))
def test_a_run_that_was_cut_off_repeats_no_request(tmp_path: Path, calls: int) -> None:
    whole = Learner(Mind(answer=word_of), until(2))
    wanted = run(tmp_path, MAP, whole)
    model = CutOff(Mind(answer=word_of), until(2))
    model.calls = calls
    journal = {"journal": str(tmp_path / "journal.db")}
    with suppress(ModelUnavailable):
        run(tmp_path, MAP, model, **journal)
    model.calls = 99
    assert shorts(run(tmp_path, MAP, model, **journal)) == shorts(wanted)
    texts = [request.messages[-1].content for request in model.requests]
    assert sorted(texts) == sorted(request.messages[-1].content for request in whole.requests)


@pytest.mark.parametrize(
    ("steps", "use"),
    [
        (MAP, "packed(rows=3)"),
        (MAP, "reflexion"),
        (MAP, "vote(samples=2)"),
        (FILTER, "packed(rows=2)"),
        (JOIN, "block"),
        (JOIN, "logit"),
        (AGG, "single"),
        (AGG, "fold(rows=1)"),
    ],
)
def test_whatever_way_a_run_was_cut_off_in_the_next_asks_for_the_rest(
    tmp_path: Path, steps: str, use: str
) -> None:
    verdict = {"answer": "yes"} if steps in (FILTER, JOIN) else {}
    mind = Mind(
        answer=lambda text: {**word_of(text), **verdict},
        match=lambda left, right: {"sure": 4} if "food" in left + right else None,
        combine=lambda texts, parts: {
            "short": "".join([*(part["short"] for part in parts), *texts])[:5]
        },
    )

    def bad(good: dict[str, Any], times: int) -> dict[str, Any]:
        if good.get("sure"):
            return {**good, "sure": 1} if times < 2 else good
        return until(2)(good, times) if "short" in good else good

    def asked(model: Oracle) -> list[tuple[str, int]]:
        return sorted((each.messages[-1].content, each.sample) for each in model.requests)

    more: dict[str, Any] = {"use": use, "kinds": KINDS}
    whole = Learner(mind, bad)
    wanted = run(tmp_path, steps, whole, **more)
    assert wanted.tables["asked"].num_rows
    assert any(len(reasons(request)) == 2 for request in whole.requests)
    for calls in range(len(whole.requests)):
        model = CutOff(mind, bad)
        model.calls = calls
        journal = {"journal": str(tmp_path / f"journal{calls}.db")}
        with suppress(ModelUnavailable):
            run(tmp_path, steps, model, **more, **journal)
        model.calls = 99
        result = run(tmp_path, steps, model, **more, **journal)
        assert result.tables["asked"].equals(wanted.tables["asked"])
        assert asked(model) == asked(whole)


def test_a_failed_row_is_asked_from_the_first_request_on_in_the_next_run(tmp_path: Path) -> None:
    journal = {"journal": str(tmp_path / "journal.db"), "notes": NOTES[:1]}
    first, second = (Learner(Mind(answer=word_of), until(n)) for n in (9, 1))
    assert run(tmp_path, MAP, first, **journal).failed
    assert shorts(run(tmp_path, MAP, second, **journal)) == {"a": "appl"}
    assert [len(reasons(request)) for request in second.requests] == [0, 1]


def test_explain_counts_every_retry(tmp_path: Path) -> None:
    for use, calls in (("per_row", 3 * 3), ("packed(rows=3)", 1 + 2 * 3), ("reflexion", 6 * 3)):
        text = f'plan: checks\ninputs: {INPUTS}\noptional: [kinds]\nsteps:\n  asked:{MAP}returns: [asked]\nuse: {{asked: "{use}"}}\n'
        (tmp_path / "checks.yaml").write_text(text, encoding="utf-8")
        with semgraph.Session(llm=Oracle(Mind()), store="memory", folder=tmp_path) as session:
            explained = session.explain(
                tmp_path / "checks.yaml", inputs={"notes": NOTES}, format="json"
            )
        [step] = [s for s in json.loads(explained)["steps"] if s["step"] == "asked"]
        assert step["estimate"]["calls"] == {"value": calls, "known": "most"}


def loaded(folder: Path, steps: str) -> LogicalPlan:
    """A plan with these operators."""
    text = f"plan: checks\ninputs: {INPUTS}\nsteps:\n  asked:{steps}returns: [asked]\n"
    (folder / "checks.yaml").write_text(text, encoding="utf-8")
    return load_plan(folder / "checks.yaml")


@pytest.mark.parametrize("steps", [MAP, FILTER, JOIN, AGG], ids=["map", "filter", "join", "agg"])
def test_each_part_of_a_check_is_in_the_fingerprint_and_a_plan_without_one_keeps_its_own(
    tmp_path: Path, steps: str
) -> None:
    parts = "check: {{where: {0}, message: {1}{2}}}"
    answer = "sure > 1" if steps == JOIN else "length(short) > 1"

    def fingerprint(check: str) -> str:
        return loaded(tmp_path, re.sub(r"check: .*\n", f"{check}\n", steps)).fingerprint

    plain = fingerprint("on_error: raise")
    base = fingerprint(parts.format(answer, "\"'no'\"", ""))
    others = [
        parts.format(f"{answer}0", "\"'no'\"", ""),
        parts.format(answer, "\"'nay'\"", ""),
        parts.format(answer, "\"'no'\"", ", retries: 1"),
    ]
    assert len({plain, base, *map(fingerprint, others)}) == 5
    assert fingerprint(parts.format(answer, "\"'no'\"", ", retries: 2")) == base
    node = loaded(tmp_path, re.sub(r" +check: .*\n", "", steps)).returns["asked"]
    assert replace(node, check=None).fingerprint == node.fingerprint


def test_explain_shows_what_a_run_took_and_expects_as_much_of_the_next(tmp_path: Path) -> None:
    loaded(tmp_path, MAP)
    file = tmp_path / "checks.yaml"
    model = Learner(Mind(answer=word_of), until(1))
    inputs = {"notes": NOTES, "kinds": []}
    with semgraph.Session(llm=model, store="memory", folder=tmp_path) as session:
        session.run(file, inputs=inputs)
        taken = json.loads(session.explain(file, run="last", format="json"))["steps"]
        ahead = json.loads(session.explain(file, inputs=inputs, format="json"))["steps"]
    [actual] = [step["actual"] for step in taken if step["step"] == "asked"]
    assert (actual["calls_issued"], actual["refused"], actual["rows_failed"]) == (5, 2, 0)
    [estimate] = [step["estimate"] for step in ahead if step["step"] == "asked"]
    assert estimate["calls"] == {"value": 5, "known": "seen"}


LOOP = """
    - from: notes
    - iterate:
        as: last
        times: 3
        keep: all
        until: max(length(text)) <= 4
        do:
          - from: last
          - sem_map:
              prompt: "Shorten {text}."
              returns: {short: string}
              check: {where: length(short) < length(text), message: "'shorter than ' || text"}
          - project: {id, text: short, most}
"""


def shorter(hopeless: str = "") -> Learner:
    """A model that takes a letter away, once its answer was refused."""
    return Learner(
        Mind(answer=lambda text: {"short": text.removeprefix("Shorten ")[:-2]}),
        lambda good, n: (
            good if n and good["short"] != hopeless else {"short": good["short"] + "??"}
        ),
    )


def rounds(result: Result) -> dict[str, list[str]]:
    """The texts of each row, round by round."""
    found: dict[str, list[str]] = {}
    for row in result.tables["asked"].to_pylist():
        found.setdefault(row["id"], []).append(row["text"])
    return found


def test_the_check_holds_in_each_round_of_a_loop(tmp_path: Path) -> None:
    model = shorter()
    assert rounds(run(tmp_path, LOOP, model)) == {
        "a": ["apples", "apple", "appl"],
        "b": ["bread", "brea", "bre"],
        "c": ["cake", "cak", "ca"],
    }
    assert [len(reasons(request)) for request in model.requests] == 2 * (3 * [0] + 3 * [1])


def test_a_row_whose_answer_is_never_right_leaves_the_loop(tmp_path: Path) -> None:
    result = run(tmp_path, LOOP, shorter(hopeless="brea"))
    assert rounds(result) == {
        "a": ["apples", "apple", "appl"],
        "b": ["bread"],
        "c": ["cake", "cak", "ca"],
    }
    assert [failure.error for failure in result.failed] == ["check: shorter than bread"]


def test_a_loop_that_was_cut_off_replays_its_refusals(tmp_path: Path) -> None:
    whole = shorter()
    wanted = rounds(run(tmp_path, LOOP, whole))
    for calls in range(len(whole.requests)):
        model = CutOff(whole.mind, whole.bad)
        model.calls = calls
        journal = {"journal": str(tmp_path / f"journal{calls}.db")}
        with suppress(ModelUnavailable):
            run(tmp_path, LOOP, model, **journal)
        model.calls = 99
        assert rounds(run(tmp_path, LOOP, model, **journal)) == wanted
        assert len(model.requests) == len(whole.requests)


def test_explain_counts_the_retries_of_every_round(tmp_path: Path) -> None:
    loaded(tmp_path, LOOP)
    with semgraph.Session(llm=Oracle(Mind()), store="memory", folder=tmp_path) as session:
        explained = session.explain(
            tmp_path / "checks.yaml", inputs={"notes": NOTES, "kinds": []}, format="json"
        )
    [step] = [each for each in json.loads(explained)["steps"] if each["step"] == "asked"]
    assert step["estimate"]["calls"] == {"value": 3 * 3 * 3, "known": "most"}
