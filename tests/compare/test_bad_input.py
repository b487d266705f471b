"""What is wrong with a comparison is told before anything is asked: what it is, what there is, what
to do.
"""

from __future__ import annotations

import pytest

import semgraph as sg
from semgraph.errors import InputError, PlanError
from tests.compare.conftest import WAYS, compared, filtered, opened


def kinds() -> sg.Frame:
    """A plan with a step that asks and one that does not."""
    rows = sg.table([{"id": 1, "text": "It leaks."}], key="id")
    return (
        rows.filter("id > 0")
        .step("some")
        .sem_map("What is “{text}”?", returns={"kind": "string"})
        .step("kinds")
    )


async def refused(session, server, match: str, plan=None, **options) -> None:
    with pytest.raises(PlanError, match=match):
        await compared(session, plan or filtered(), **options)
    assert server.requests == []


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (
            {"step": "complains"},
            'has no step "complains". Steps that call the model: complaints. Did you mean "complaints"',
        ),
        (
            {"step": "some", "plan": kinds()},
            "step some does not call the model. Steps that call the model: kinds",
        ),
        (
            {"variants": ["per_rwo"]},
            'step complaints: unknown implementation "per_rwo" of sem_filter.*Did you mean "per_row"',
        ),
        ({"variants": ["packed(row=3)"]}, 'packed has no parameter "row"'),
        ({"variants": ["packed(rows=x)"]}, "rows must be"),
        ({"variants": ["packed(rows"]}, "invalid implementation"),
        ({"variants": []}, "there is nothing to compare"),
        ({"variants": "per_row"}, 'variants is the text "per_row". Write a list'),
        (
            {"variants": ["per_row", "per_row"]},
            'duplicate variant "per_row". To compare a variant with itself, name both',
        ),
        ({"step": None}, "these variants do not name their step"),
        (
            {"step": None, "variants": {"a": {"complain": "per_row"}}},
            'variant a: plan .* has no step "complain" that calls the model',
        ),
        ({"variants": {"a": 3}}, "variant a is 3. Write"),
        ({"variants": {"a": {"parms.x": 1}}}, 'unknown key "parms.x".*Did you mean "params"'),
        ({"variants": {"a": {"params": 1}}}, "variant a: params is 1. Write params.NAME"),
        (
            {"variants": {"a": {"presets": "x"}}},
            'unknown key "presets".*A step of this name is "use',
        ),
        (
            {"variants": {"a": {"rules.ask_lat": "on"}}},
            'no rule "ask_lat".*Did you mean "ask_late"',
        ),
        (
            {"variants": {"a": {"rules.ask_late": "maybe"}}},
            "rules.ask_late is 'maybe'. Write on or",
        ),
        (
            {"variants": {"a": {"preset": "x"}}},
            "presets and prompts take effect when a plan is loaded",
        ),
        (
            {"variants": {"a": {"models.smal": "local"}}},
            'unknown role.*Did you mean "models.small"',
        ),
        ({"variants": {"a": {"llm": 3}}}, "llm: 3 is no model"),
        (
            {"variants": ["per_row"], "grid": {"complaints": ["per_row"]}},
            "a grid makes the variants",
        ),
        ({"variants": None, "grid": {"complaints": "per_row"}}, "no list of values for complaints"),
        ({"trials": 0}, "trials is 0"),
    ],
)
async def test_a_wrong_request(session, server, options, match):
    await refused(session, server, match, **options)


@pytest.mark.parametrize(
    ("truth", "match"),
    [
        (
            [{"ticket": 1, "keep": True}],
            "has no column that identifies a row of step complaints. It has: ticket, keep; rows have",
        ),
        ([{"id": 99}], "covers none of the 6 rows. The truth has id 99; the rows have id"),
        ([{"id": "one"}], "row 1, column id"),
        (
            [{"id": 1, "complaint": True}, {"id": 2, "complaint": False}],
            'a column "complaint" of true and false, .* The label of a row is called "keep". Rename',
        ),
        (
            [{"id": 1, "complaint": "yes"}, {"id": 2, "complaint": None}],
            'Rename the column to "keep"',
        ),
        ([{"id": 1, "complaint": 1}, {"id": 2, "complaint": 0}], 'Rename the column to "keep"'),
        (3, "the truth cannot be read from int"),
        ("nowhere.csv", "nowhere.csv: No such file"),
    ],
)
async def test_a_wrong_truth(session, server, truth, match):
    await refused(session, server, match, truth=truth)


@pytest.mark.parametrize(
    "options",
    [
        {"variants": ["per_rwo", "packd(rows=3)"]},
        {
            "step": None,
            "variants": {"a": {"complaints": "per_rwo"}, "b": {"complaints": "packd()"}},
        },
        {"step": None, "variants": {"a": {"per_rwo": "per_row"}, "b": {"packd": "per_row"}}},
    ],
)
async def test_all_wrong_ways_are_told_at_once(session, server, options):
    await refused(session, server, '(?s)"per_rwo".*"packd', **options)


async def test_a_truth_without_answers(session, server):
    match = "has no column to compare with the answers of step kinds. It has: id, sort .id: of the rows before the step.; answers: kind"
    await refused(
        session,
        server,
        match,
        plan=kinds(),
        step="kinds",
        variants=["per_row"],
        truth=[{"id": 1, "sort": "x"}],
    )


async def test_a_step_without_rows(session, server):
    rows = sg.table([{"id": 1, "text": "It leaks."}], key="id").filter("id > 1")
    plan = rows.sem_filter("Does “{text}” complain?").step("complaints")
    await refused(
        session, server, "step complaints has no rows: there is nothing to compare", plan=plan
    )


async def test_a_whole_plan_that_writes_nothing_has_no_true_graph(session, server):
    variants = {"a": {"complaints": "per_row"}}
    await refused(
        session, server, "writes no graph", step=None, variants=variants, truth={"nodes": []}
    )


async def test_a_recording_has_no_trials(server, tmp_path):
    async with opened(server, tmp_path, llm="recorded") as session:
        await refused(session, server, "one answer to each question", trials=3)


async def test_one_way_alone_is_allowed(session):
    found = await compared(session, filtered(), variants=["per_row"])
    assert [arm.name for arm in found] == ["per_row"]


async def test_what_was_not_compared_cannot_be_asked_for(session):
    found = await compared(session, filtered())
    with pytest.raises(
        PlanError, match='"pre_row" was not compared. Variants: per_row.*Did you mean "per_row"'
    ):
        found["pre_row"]
    with pytest.raises(PlanError, match="per_row has no trial 2. Trials: 1"):
        found["per_row"].why(trial=2, id=1)
    with pytest.raises(PlanError, match='the frozen rows have no column "ID"'):
        found["per_row"].why(ID=1)
    with pytest.raises(PlanError, match="no frozen row has id=7"):
        found["per_row"].why(id=7)


async def test_rows_are_checked_as_in_a_run(session, server, tmp_path):
    plan = tmp_path / "p.yaml"
    plan.write_text(
        "plan: p\ninputs: {t: {id: int64}}\nsteps:\n  s:\n    - from: t\n    - sem_filter: {prompt: 'Is {id} odd?'}\nreturns: [s]\n"
    )
    with pytest.raises(InputError, match="row 1, column id"):
        await compared(session, plan, step="s", variants=WAYS, t=[{"id": "x"}])
    assert server.requests == []
