"""Variants by whatever a request may change: preset, parameter, prompt, model, embedder, rule, plan."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import semgraph as sg
from semgraph.compare.variants import listed, read_variants
from semgraph.conformance.cases import Oracle
from semgraph.errors import PlanError
from semgraph.render.comparison import lines
from tests.compare.conftest import TRUE, compared, opened
from tests.compare.standin import StandIn
from tests.compare.test_ahead import MIND
from tests.compare.test_plans import PLAN, episodes
from tests.compare.test_plans import opened as with_graph
from tests.llm.server import ModelServer

TICKETS = """
plan: tickets
inputs: {tickets: {id: int64, text: string}}
params:
  longest: 100  # characters of a text
  word: complain  # what is asked
presets:
  brief: {params: {longest: 12}}  # the beginning only
steps:
  texts:
    - from: tickets
    - project: {id, text: "left(text, $longest)"}
  complaints:
    - from: texts
    - sem_filter: {prompt: complains}
returns: [complaints]
"""
PROMPT = "---\nreturns: {}\n---\n# item\nDoes “{text}” {$word}?\n"
ROWS = [{"id": 1, "text": "It leaks."}, {"id": 2, "text": "Lovely, and it leaks."}]


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "complains.md").write_text(PROMPT)
    (tmp_path / "mine.md").write_text(PROMPT.replace("Does", "Tell whether"))
    path = tmp_path / "tickets.yaml"
    path.write_text(TICKETS)
    (tmp_path / "short.yaml").write_text(TICKETS.replace("longest: 100", "longest: 12"))
    return path


async def whole(session: sg.Session, plan: Any, variants: Any = None, **options: Any) -> Any:
    given = {"say": None, "tickets": ROWS, **options}
    return await session.acompare(plan, variants=variants, **given)


def sent(server: ModelServer) -> list[str]:
    """What was asked, in order."""
    return [body["messages"][-1]["content"].strip() for body in server.requests]


class TestWhatMayChange:
    @pytest.mark.parametrize(
        "brief",
        [
            {"preset": "brief"},
            {"params.longest": 12},
            {"params": {"longest": 12}},
            {"plan": "short.yaml"},
        ],
    )
    async def test_preset_parameter_and_plan(self, session, server, plan, brief):
        found = await whole(session, plan, {"long": {"params.longest": 100}, "brief": brief})
        assert [text for text in sent(server) if "Lovely" in text] == [
            "Does “Lovely, and it leaks.” complain?",
            "Does “Lovely, and ” complain?",
        ]
        assert found["brief"].quality.f1 == pytest.approx(2 / 3)
        assert [arm.cold.calls for arm in found] == [2, 2]
        assert len(server.requests) == 3, "a text that both ask about is sent once"

    async def test_a_prompt_is_one_file(self, session, server, plan):
        found = await whole(session, plan, {"a": {"complaints": "per_row"}, "b": {"prompts.complains": "mine.md"}})  # fmt: skip
        assert [text.split()[0] for text in sent(server)] == ["Does", "Does", "Tell", "Tell"]
        assert found["b"].changes == {"prompts.complains": "mine.md"}

    @pytest.mark.parametrize("key", ["llm", "models.default", "models.complaints", "complaints"])
    async def test_a_model(self, session, server, plan, key):
        at = f"openai:other@{server.base_url}"
        if key == "complaints":  # a choice, as in a file, has no address
            session = sg.Session(
                llm=f"openai:gpt-4.1-mini@{server.base_url}", models={"other": at},
                store="memory", folder=plan.parent,
            )  # fmt: skip
            at = "@ other"
        found = await whole(session, plan, {"a": {"complaints": "per_row"}, "b": {key: at}})
        models = [body["model"] for body in server.requests]
        assert models == ["gpt-4.1-mini"] * 2 + ["other"] * 2
        assert "other" in found.model
        await session.aclose()

    async def test_a_rule_of_the_optimizer(self, session, server, plan):
        late = plan.parent / "late.yaml"
        late.write_text(
            TICKETS.replace("plan: tickets", "plan: late").replace(
                "returns: [complaints]", "  first:\n    - from: complaints\n    - filter: id = 1\nreturns: [first]"
            )
        )  # fmt: skip
        found = await whole(session, late, {"on": {"rules.filter_first": "on"}, "off": {"rules": {"filter_first": False, "push_filters": False}}})  # fmt: skip
        assert [arm.cold.calls for arm in found] == [1, 2]
        assert found["off"].quality.f1 == 1.0

    async def test_an_embedder_embeds_what_is_stored(self, model, tmp_path):
        async with with_graph(model, tmp_path) as session:
            await session.arun(PLAN, episodes=episodes()[:2])
            other = f"openai:other@{model.base_url}?dimensions=32"
            variants = {"a": {"embedder": f"openai:stand-in@{model.base_url}?dimensions=64"}, "b": {"embedder": other}}  # fmt: skip
            texts = model.counters.embedding_texts
            given = {"variants": variants, "episodes": episodes()[2:]}
            assert len(await asyncio.to_thread(session.estimate, PLAN, **given)) == 2
            assert model.counters.embedding_texts == texts, "an estimate embeds no stored text"
            found = await session.acompare(
                PLAN, say=None, episodes=episodes()[2:], variants=variants
            )
        assert [arm.failed for arm in found] == [0, 0]
        assert found["b"].quality.b_cubed == 1.0

    async def test_presets_of_a_shipped_plan(self, model, tmp_path):
        async with with_graph(model, tmp_path, store="memory") as session:
            variants = {"shipped": {"preset": "ready"}, "bulk": {"preset": "bulk"}, "fused": {"preset": "fused"}}  # fmt: skip
            found = await session.acompare(PLAN, say=None, episodes=episodes(), variants=variants)
        calls = {arm.name: arm.cold.calls for arm in found}
        assert calls["bulk"] < calls["shipped"]
        assert [arm.quality.b_cubed is None for arm in found] == [True, False, False]


@pytest.fixture
async def model() -> AsyncIterator[StandIn]:
    async with StandIn() as server:
        yield server


STORED = """
plan: stored
graph: graph.yaml
inputs: {tickets: {id: int64, text: string}}
steps:
  known:
    - from: {label: Person, partition: all}
    - project: [name]
  complaints:
    - from: tickets
    - join: {other: known, alias: who, where: "true"}
    - sem_filter: {prompt: "Does “{text}” of {who.name} complain?"}
returns: [complaints]
"""


async def test_a_plan_that_reads_the_store_finds_its_rows(session, server, plan):
    """Also where the plan of the comparison does not read it."""
    fixtures = Path(__file__).parents[1] / "fixtures" / "optimizer"
    (plan.parent / "graph.yaml").write_text((fixtures / "graph.yaml").read_text())
    (plan.parent / "stored.yaml").write_text(STORED)
    await session.arun(fixtures / "fill.yaml")
    found = await whole(session, plan, {"a": {}, "b": {"plan": "stored.yaml"}})
    assert found["a"].cold.calls == 2
    assert found["b"].cold.calls > 2


class TestOfAStep:
    async def test_prompts_and_models_answer_the_same_rows(self, session, server, plan):
        found = await whole(
            session, plan, step="complaints", truth=[{"id": 1}],
            variants={"mine": {"prompts.complains": "mine.md"}, "short": {"params.word": "moan"}, "per_row": "per_row"},
        )  # fmt: skip
        assert [arm.cold.calls for arm in found] == [2, 2, 2]
        assert [text.split()[0] for text in sent(server)[:4]] == ["Tell", "Tell", "Does", "Does"]
        assert "moan" in sent(server)[2]
        assert found.reference == "mine"

    async def test_a_variant_that_changes_the_rows_is_refused(self, session, server, plan):
        variants = {"a": "per_row", "b": {"params.longest": 3}}
        with pytest.raises(
            PlanError, match="variant b changes the rows of step complaints. Compare"
        ):
            await whole(session, plan, variants, step="complaints")
        assert server.requests == []


class TestPrecedence:
    """A choice of a call outranks the session's, and what a variant changes outranks the rest."""

    @pytest.fixture
    async def several(self, server, tmp_path):
        at = {name: f"openai:{name}@{server.base_url}" for name in ("small", "big")}
        models = at | {"complaints": at["big"]}
        use = {"complaints": "packed(rows=2)"}
        async with opened(server, tmp_path, models=models, use=use) as made:
            yield made

    @pytest.mark.parametrize("prepared", [False, True])
    @pytest.mark.parametrize(
        ("use", "models"),
        [
            ({}, ["big"]),
            ({"complaints": "per_row"}, ["big"] * 2),
            ({"complaints": "@ small"}, ["small"]),
            ({"complaints": "per_row @ small"}, ["small"] * 2),
        ],
    )
    async def test_of_a_run(self, several, server, plan, use, models, prepared):
        if prepared:
            await several.arun(several.prepare(plan, use=use), tickets=ROWS)
        else:
            await several.arun(plan, use=use, tickets=ROWS)
        assert [body["model"] for body in server.requests] == models

    @pytest.mark.parametrize(
        ("use", "variant", "models"),
        [
            ("@ small", {"complaints": "per_row"}, ["small"] * 2),
            ("packed(rows=1)", {"complaints": "@ small"}, ["small"] * 2),
            ("per_row @ small", {"models.complaints": "big"}, ["big"] * 2),
            ("@ big", {"models.complaints": "big", "complaints": "@ small"}, ["small"]),
        ],
    )
    async def test_of_a_variant(self, several, server, plan, use, variant, models):
        await whole(several, plan, {"a": variant}, use={"complaints": use})
        assert [body["model"] for body in server.requests] == models

    async def test_of_a_resumed_run(self, several, server, plan):
        first = await several.arun(plan, use={"complaints": "per_row @ small"}, tickets=ROWS)
        await several.arun(plan, resume=first.run, fresh=True)
        assert {body["model"] for body in server.requests} == {"small"}

    async def test_a_replaced_plan_keeps_the_models_of_other_steps(self, several, server, plan):
        outer = plan.parent / "outer.yaml"
        outer.write_text(
            "plan: outer\ninputs: {tickets: {id: int64, text: string}}\nsteps:\n"
            "  found: [{call: {plan: tickets, inputs: [tickets]}}]\n"
            "  moans: [{from: found}, {sem_filter: 'Does “{text}” moan?'}]\nreturns: [moans]\n"
        )
        chosen = several.prepare(outer, use={"moans": "per_row @ small", "complaints": "per_row"})
        await several.arun(several.prepare(chosen, use={"found": "short"}), tickets=ROWS)
        assert [body["model"] for body in server.requests] == ["big"] * 2 + ["small"]
        assert any("“Lovely, and ”" in text for text in sent(server))

    async def test_a_step_that_a_plan_lacks_is_refused(self, session, complaints):
        with pytest.raises(PlanError, match='no step "complaint" that calls .* mean "complaints"'):
            session.prepare(complaints, use={"complaint": "per_row"})

    async def test_a_model_for_what_a_plan_lacks_is_refused(self, several, plan):
        for key, value, said in [
            ("models.judge", "big", 'variant a: plan tickets has no role and no step "judge"'),
            ("llm", "smal", 'variant a: no model is bound to the role "smal".*mean "small"'),
        ]:
            with pytest.raises(PlanError, match=said):
                await whole(several, plan, {"a": {key: value}})


class TestCosts:
    async def test_models_at_two_prices_share_no_answer(self, session, server, plan):
        at = f"openai:gpt-4.1-mini@{server.base_url}?price="
        variants = {"cheap": {"llm": at + "1/2"}, "dear": {"llm": at + "10/20"}}
        for fresh, calls in ((False, 4), (False, 0), (True, 4)):
            found = await whole(session, plan, variants, fresh=fresh)
            assert found.paid.calls == calls
            costs = [arm.cold.dollars for arm in found]
            assert costs[1] == pytest.approx(10 * costs[0])
        assert len(server.requests) == 8

    @pytest.mark.parametrize("journal", [None, False])
    async def test_a_model_whose_replies_have_no_id(self, tmp_path, plan, journal):
        class Bare(Oracle):
            async def complete(self, request: Any) -> Any:
                return replace(await super().complete(request), call_id="")

        async with sg.Session(
            llm=Bare(replace(MIND, answer=lambda _: {"answer": "yes"})),
            store="memory",
            folder=tmp_path,
            journal=journal,
        ) as session:
            found = await whole(session, plan, {"a": {}, "b": {"complaints": "per_row"}})
        assert [arm.cold.calls for arm in found] == [2, 2]
        assert found.paid.calls == 2


class TestGrid:
    async def test_the_product_of_all_values(self, session, server, plan):
        grid = {"params.word": ["complain", "moan"], "complaints": ["per_row", "packed(rows=2)"]}
        found = await whole(session, plan, grid=grid)
        assert [arm.name for arm in found] == [
            "complain, per_row", "complain, packed(rows=2)", "moan, per_row", "moan, packed(rows=2)"
        ]  # fmt: skip
        assert [arm.cold.calls for arm in found] == [2, 1, 2, 1]
        head = next(iter(lines(found, 160))).plain
        assert head.split()[:2] == ["params.word", "complaints"], (
            "names of a grid repeat its values"
        )

    async def test_what_all_have_in_common_is_said_once(self, session, plan):
        variants = {w: {"preset": "brief", "params.word": w} for w in ("complain", "moan")}
        said = [line.plain for line in lines(await whole(session, plan, variants), 120)]
        assert said[0] == "all with preset=brief"
        assert "preset" not in said[1]


def test_commas_within_brackets_separate_nothing():
    text = 'params.of=[1,2],a=f(b=[1],c=[2],d=3),params.by={"x": [1], "y": 2},e=g'
    assert listed(text) == [
        "params.of=[1,2]",
        "a=f(b=[1],c=[2],d=3)",
        'params.by={"x": [1], "y": 2}',
        "e=g",
    ]


class TestFiles:
    def test_a_file_names_models_without_addresses(self, tmp_path):
        path = tmp_path / "arms.yaml"
        path.write_text(
            "a: {models.default: 'openai:x@http://evil'}\nb: {llm: small, prompts.q: q.md}\n"
        )
        with pytest.raises(
            PlanError, match=r"arms.yaml:1:\d+ +a: a file names a model by its role"
        ):
            read_variants(path, None)
        path.write_text("b: {llm: small, prompts.q: q.md, steps: per_row}\n")
        (found,) = read_variants(path, None).values()
        assert found.texts == {
            "llm": "small",
            "prompts.q": str(tmp_path / "q.md"),
            "steps": "per_row",
        }

    async def test_a_model_in_a_file_may_be_a_role_of_the_session(self, server, tmp_path, plan):
        at = f"openai:other@{server.base_url}"
        async with opened(server, tmp_path, models={"small": at}) as session:
            await whole(session, plan, {"a": {"llm": "small"}})
        assert {body["model"] for body in server.requests} == {"other"}


class TestPrompts:
    async def test_a_run_with_another_prompt_is_resumed_with_it(self, session, server, plan):
        first = await session.arun(plan, prompts={"complains": "mine.md"}, tickets=ROWS)
        await session.arun(plan, resume=first.run, fresh=True)
        assert {text.split()[0] for text in sent(server)} == {"Tell"}

    async def test_a_prompt_that_the_plan_does_not_read(self, session, plan):
        with pytest.raises(
            PlanError, match='reads no prompt "complain". Its prompts: complains. Did'
        ):
            await session.arun(plan, prompts={"complain": "mine.md"}, tickets=ROWS)


async def test_a_record_has_what_each_variant_changes(session, complaints, tmp_path):
    variants = {"a": "per_row", "b": {"complaints": "packed(rows=3)"}}
    found = await compared(session, complaints, variants=variants, truth=TRUE)
    data = json.loads((found.record / "comparison.json").read_text())
    assert [arm["changes"] for arm in data["arms"]] == [
        {"complaints": "per_row"}, {"complaints": "packed(rows=3)"}
    ]  # fmt: skip


class TestSamples:
    """N rows by their hash: the same ones in whatever order the rows are given."""

    ROWS = tuple({"id": n, "text": f"It leaks {n} times."} for n in range(100))

    async def test_the_same_rows_are_drawn_of_any_order(self, session, plan):
        asked = {"until": "texts", "sample": 10}
        one = await session.arun(plan, tickets=self.ROWS, **asked)
        other = await session.arun(plan, tickets=self.ROWS[::-1], **asked)
        ids = sorted(row["id"] for row in one.rows())
        assert ids == sorted(row["id"] for row in other.rows())
        assert len(ids) == 10
        assert ids != list(range(10))
        more = await session.arun(plan, tickets=self.ROWS, until="texts", sample=20)
        assert set(ids) < {row["id"] for row in more.rows()}
        another = await session.arun(plan, tickets=self.ROWS, **asked, seed=1)
        assert ids != sorted(row["id"] for row in another.rows())

    async def test_the_operator_draws_the_same_rows(self, session, plan):
        given = await session.arun(plan, tickets=self.ROWS, until="texts", sample=10)
        frame = sg.table(self.ROWS, key="id").sample(10)
        assert [r["id"] for r in (await session.arun(frame)).rows()] == [
            r["id"] for r in sorted(given.rows(), key=lambda r: r["id"])
        ]  # fmt: skip

    async def test_by_some_columns_all_rows_of_n_values(self, session):
        rows = [{"id": n, "group": n % 10} for n in range(100)]
        found = (await session.arun(sg.table(rows, key="id").sample(3, by="group", seed=2))).rows()
        groups = {row["group"] for row in found}
        assert (len(groups), len(found)) == (3, 30)

    async def test_of_a_plan_with_windows_whole_groups(self, model, tmp_path):
        rows = [
            {**row, "group_id": f"g{n}", "uuid": f"{n}{row['uuid']}"}
            for n in range(5)
            for row in episodes()
        ]
        async with with_graph(model, tmp_path, store="memory") as session:
            found = await session.arun(PLAN, episodes=rows, until="receive/to_read", sample=4)
        assert found.members == 6

    async def test_all_arms_get_the_same_rows(self, session, server, plan):
        variants = {"a": {"complaints": "per_row"}, "b": {"params.longest": 5}}
        found = await whole(session, plan, variants, tickets=self.ROWS, sample=7)
        assert [arm.cold.calls for arm in found] == [7, 1]
        assert found.frozen["rows"] == {"tickets": 7}

    @pytest.mark.parametrize(
        ("options", "match"),
        [({"sample": 0}, "use a number from 1"), ({"sample": 3, "rows": 2}, "or a sample of all")],
    )
    async def test_a_wrong_sample(self, session, plan, options, match):
        with pytest.raises(PlanError, match=match):
            await session.arun(plan, tickets=self.ROWS, **options)


class TestEstimates:
    async def test_of_a_step_as_data(self, session, server, complaints):
        found = session.estimate(
            complaints, step="complaints", variants=["per_row", "packed(rows=3)"]
        )
        assert [(e.variant, e.calls, e.planned) for e in found] == [
            ("per_row", 6, True), ("packed(rows=3)", 2, True)
        ]  # fmt: skip
        assert server.requests == []
        assert 0 < found[0].tokens_out < found[0].most_out

    async def test_answers_as_long_as_in_earlier_runs(self, session, server, complaints):
        took = (await session.arun(complaints)).meter.steps["complaints"].tokens_out
        (found,) = session.estimate(complaints, step="complaints", variants=["per_row"])
        assert found.tokens_out == pytest.approx(took)

    async def test_of_whole_plans(self, session, server, plan):
        variants = {"a": {"complaints": "per_row"}, "b": {"complaints": "packed(rows=2)"}}
        found = session.estimate(plan, variants=variants, tickets=ROWS)
        assert [e.calls for e in found] == [2, 1]
        assert server.requests == []
