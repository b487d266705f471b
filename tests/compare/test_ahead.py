"""What is said of the cost before it is spent: counted where all is asked at once, else an
expectation that is called one.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import semgraph as sg
from semgraph.compare.comparison import Estimate
from semgraph.compare.preview import admit, in_all, limits
from semgraph.conformance.cases import Mind, Oracle
from semgraph.errors import BudgetReached, PlanError
from semgraph.llm.stack import Budget, Spending
from tests.compare.test_step import of_kinds

NAMES = ["Ann", "Bo", "Cleo", "Dan", "Eve", "Flo", "Gus", "Hal", "Ida", "Jo", "Kim", "Lou"]

MIND = Mind(
    answer=lambda text: (
        {"answer": "yes"} if "a name?" in text else {"size": f"{len(text.split()[-1])}"}
    ),
    combine=lambda texts, parts: {"all": " ".join(sorted(texts))},
    score=lambda text: float(len(text)),
)


def rows(groups: int = 1) -> sg.Frame:
    """Twelve rows, in so many groups."""
    return sg.table(
        [{"id": i, "text": name, "group_id": f"g{i % groups}"} for i, name in enumerate(NAMES)],
        key="id",
    )


PLANS: dict[str, Any] = {
    "sem_filter": lambda r: r.sem_filter("Is {text} a name?"),
    "sem_map": lambda r: r.sem_map("How long is {text}", returns={"size": "string"}),
    "checked": lambda r: r.sem_map(
        "How long is {text}",
        returns={"size": "string"},
        check={"where": "length(size) < 9", "message": "'too long'"},
    ),
    "sem_agg": lambda r: r.sem_agg("{text}", by="group_id", returns={"all": "string"}),
    "sem_topk": lambda r: r.sem_topk("{text}", k=2, by="group_id"),
}


async def compare(
    folder: Path, operator: str, variants: list[str], groups: int = 1, **options: Any
) -> tuple[Any, str]:
    """What was found, and what was said before anything was asked."""
    said: list[str] = []
    plan = PLANS[operator](rows(groups)).step("s")
    async with sg.Session(
        llm=Oracle(MIND), embedder=Words(), store="memory", journal=False, runs="", folder=folder
    ) as session:
        found = await session.acompare(
            plan, step="s", variants=variants, say=said.append, **options
        )
    return found, "\n".join(line for line in said if not line.startswith("✓"))


class Words:
    """Vectors of texts by their letters."""

    name = "letters"

    def __init__(self) -> None:
        self.asked = 0

    async def dimensions(self) -> int:
        return 26

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def dollars(self, usage: Any) -> float | None:
        return 0.0

    async def embed(self, texts: Any, partition: str = "") -> Any:
        import numpy as np

        from semgraph.llm.base import Embeddings, Usage

        self.asked += len(texts)
        vectors = np.array(
            [[text.lower().count(chr(97 + i)) + 0.01 for i in range(26)] for text in texts],
            np.float32,
        )
        return Embeddings(vectors, Usage(len(texts)), 0.0, 1)

    async def aclose(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize(
    ("operator", "variants"),
    [
        ("sem_filter", ["per_row", "packed(rows=5)"]),
        ("sem_map", ["per_row", "packed(rows=5)"]),
        ("sem_agg", ["single"]),
        ("sem_topk", ["pointwise", "packed(rows=5)"]),
    ],
)
@pytest.mark.parametrize("groups", [1, 5])
async def test_what_is_asked_at_once_is_counted_whatever_the_groups(
    tmp_path, operator, variants, groups
):
    """Rows of two groups never share a request: twelve rows in five groups are five blocks, not
    three.
    """
    found, said = await compare(tmp_path, operator, variants, groups)
    assert [e.calls for e in found.estimates] == [arm.cold.calls for arm in found]
    assert all(e.planned for e in found.estimates)
    assert not re.search(r"≈ [\d,]+ calls", said)
    assert "≤" not in said


async def test_tokens_are_those_of_each_way(tmp_path):
    """A packed request has the rules once for all its rows."""
    found, _ = await compare(tmp_path, "sem_filter", ["per_row", "packed(rows=12)"])
    one, packed = found.estimates
    assert packed.tokens_in < one.tokens_in / 2
    assert all(
        e.tokens_in >= arm.cold.tokens_in for e, arm in zip(found.estimates, found, strict=True)
    )
    assert all(
        e.most_out >= arm.cold.tokens_out for e, arm in zip(found.estimates, found, strict=True)
    )
    for e, arm in zip(found.estimates, found, strict=True):
        assert arm.cold.tokens_out / 3 <= e.tokens_out <= min(3 * arm.cold.tokens_out, e.most_out)


async def test_what_depends_on_answers_is_an_expectation(tmp_path):
    found, said = await compare(
        tmp_path, "sem_topk", ["pointwise", "quickselect(batch=2, pivot=random)"]
    )
    line = next(line for line in said.splitlines() if "quickselect" in line)
    assert line.split("   ")[0].split("  ")[-1].startswith("≈ ")
    assert "≤" not in said
    assert "in all: ≈ " in said
    assert not found.estimates[1].planned


async def test_with_a_check_the_count_is_an_expectation(tmp_path):
    """An answer that does not meet it is requested again."""
    found, said = await compare(tmp_path, "checked", ["per_row", "packed(rows=4)"])
    assert [(e.calls, e.planned) for e in found.estimates] == [(12, False), (3, False)]
    assert "in all: ≈ 15 calls" in said


async def test_where_vectors_decide_what_is_asked_it_is_a_range(tmp_path):
    """A sample is always asked about, and at most everything."""
    variant = "cascade(recall=0.5, precision=0.5, delta=0.5, sample=6, rows=2)"
    found, said = await compare(tmp_path, "sem_filter", ["per_row", variant])
    (estimate,) = found.estimates[1:]
    assert (estimate.least, estimate.calls) == (3, 6)
    assert estimate.least <= found[variant].cold.calls <= estimate.calls
    assert "3–6 calls" in said


async def test_groups_are_estimated_by_their_sizes(tmp_path):
    """Two groups of three rows take three calls each at most, and three of two rows one."""
    found, _ = await compare(tmp_path, "sem_agg", ["single", "tree(fan_in=2)"], 5)
    assert found.estimates[1].calls == 2 * 3 + 3 * 1 >= found["tree(fan_in=2)"].cold.calls


class TestExplained:
    """What a comparison would take, without a comparison."""

    async def test_each_way_has_its_line_and_no_model_is_asked(self, tmp_path):
        model = Oracle(MIND)
        plan = PLANS["sem_filter"](rows()).step("s")
        async with sg.Session(
            llm=model, embedder=Words(), store="memory", journal=False, runs="", folder=tmp_path
        ) as session:
            variants = ["per_row", "packed(rows=5)"]
            first, *lines = session.explain(plan, compare=variants, trials=3).splitlines()
            assert first == "s = sem_filter(table 12), one trial of each (oracle), estimated"
            assert lines[0].startswith("  per_row         12 calls   ≈ ")
            assert lines[0].endswith("   reference")
            assert lines[1].startswith("  packed(rows=5)   3 calls   ≈ ")
            assert lines[2].startswith("  3 trials of each: 45 calls, ")
            found = await session.acompare(plan, step="s", variants=variants, say=None)
            assert [arm.cold.calls for arm in found] == [12, 3]
        assert len(model.requests) == 15

    async def test_rows_that_a_model_makes_are_not_made(self, session, server):
        told = str(session.explain(of_kinds(), compare=["per_row"], step="complaints"))
        assert told.startswith(
            "first the rows of step complaints are computed\n  ≤ 2 calls for kinds\n"
        )
        assert server.requests == []

    async def test_a_step_must_be_named_if_several_ask(self, session):
        with pytest.raises(
            PlanError,
            match="these variants do not name their step. Steps that call the model: kinds, complaints",
        ):
            session.explain(of_kinds(), compare=["per_row"])


class TestNumbersAreWrittenOut:
    """Whatever their size: nobody reads 5.1e+02."""

    @pytest.mark.parametrize(
        ("limits", "estimate", "match"),
        [
            (
                {"max_calls": 1_000},
                Estimate("a", 600),
                r"^600 calls .* max_calls 1,000 \(spent 510 on the rows",
            ),
            (
                {"max_tokens": 2_000_000},
                Estimate("a", 1, 1_500_000, 1_000_000),
                r"^2,500,000 tokens .* max_tokens 2,000,000 \(spent 123,456 on",
            ),
            (
                {"max_usd": 1_250.0},
                Estimate("a", 1, 1, 1, 1_100.0),
                r"^\$1,100.00 .* max_usd 1,250.00 \(spent \$512.00",
            ),
        ],
    )
    async def test_of_what_would_pass_a_limit(self, limits, estimate, match):
        budget = Budget(**limits)
        await budget.reserve(Spending())
        budget.charge(Spending(), Spending(510, 123_456, 512.0))
        with pytest.raises(BudgetReached, match=match):
            admit([estimate], 1, budget)

    def test_of_the_limits_that_are_set(self):
        assert limits(Budget(max_calls=1_234_567, max_usd=2.5)) == (
            "it stops before it passes max_calls 1,234,567, max_usd 2.5"
        )

    def test_of_dollars_in_all(self):
        assert "≈ $512.00" in in_all([Estimate("a", 1, 1, 1, 512.0, planned=True)], 1, Budget())


class TestWholePlans:
    """What EXPLAIN says of each arm is said before one is run."""

    async def said(
        self, folder: Path, plan: Any, variants: dict[str, dict[str, str]], **options: Any
    ) -> list[str]:
        told: list[str] = []
        async with sg.Session(
            llm=Oracle(MIND),
            embedder=Words(),
            store="memory",
            journal=False,
            runs="",
            folder=folder,
            **options,
        ) as session:
            await session.acompare(plan, variants=variants, say=told.append)
        return [line for line in told if not line.startswith("✓")]

    async def test_where_all_is_bounded(self, tmp_path):
        """Twelve rows, alone or five together; what stays of them, alone."""
        plan = rows().sem_filter("Is {text} a name?").step("named")
        plan = plan.sem_map("How long is {text}", returns={"size": "string"}).step("sized")
        variants = {"one by one": {"named": "per_row"}, "packed": {"named": "packed(rows=5)"}}
        assert await self.said(tmp_path, plan, variants, max_calls=100) == [
            "whole plans, one trial of each; it stops before it passes max_calls 100",
            "  one by one  ≤ 24 calls for named, sized",
            "  packed      ≤ 15 calls for named, sized",
        ]
