"""The time of a variant does not depend on which variant came before it."""

from __future__ import annotations

from typing import Any

import semgraph as sg
from semgraph.conformance.cases import Oracle
from tests.compare.standin import StandIn
from tests.compare.test_ahead import MIND, Words, rows
from tests.compare.test_plans import ARMS, PLAN, episodes, opened

CASCADE = "cascade(recall=0.5, precision=0.5, delta=0.5, sample=6, rows=2)"


class Noting(Oracle):
    """Notes how many texts had been embedded whenever it was asked."""

    def __init__(self, words: Words) -> None:
        super().__init__(MIND)
        self.words = words
        self.embedded: list[int] = []

    async def complete(self, request: Any) -> Any:
        self.embedded.append(self.words.asked)
        return await super().complete(request)


async def test_vectors_are_there_before_the_first_way_is_timed(tmp_path):
    words = Words()
    model = Noting(words)
    plan = rows().sem_filter("Is {text} a name?").step("s")
    async with sg.Session(
        llm=model, embedder=words, store="memory", journal=False, runs="", folder=tmp_path
    ) as session:
        found = await session.acompare(
            plan, step="s", variants={"a": CASCADE, "b": CASCADE}, say=None, trials=2
        )
    assert words.asked == 13, "twelve texts and the question, once"
    assert set(model.embedded) == {13}
    assert found["a"].cold == found["b"].cold, (
        "each variant is charged for the vectors that it takes"
    )


async def test_where_times_are_measured_each_plan_embeds_for_itself(tmp_path):
    async with StandIn() as model:
        sent: list[int] = []
        async with opened(model, tmp_path, store="memory") as session:
            variants = {"one": ARMS["blocks"], "two": ARMS["blocks"]}
            options = {
                "variants": variants,
                "times": True,
                "episodes": episodes(),
                "say": lambda _: sent.append(embedded(model)),
            }
            found = await session.acompare(PLAN, **options)
            first, second = sent[-2] - sent[-3], sent[-1] - sent[-2]
            assert first == second > 0
            assert all(len(arm.seconds) == 1 for arm in found)
            before = embedded(model)
            again = await session.acompare(PLAN, **options)
            assert embedded(model) == before, "vectors are kept for each"
        assert (again.paid.calls, [arm.seconds for arm in again]) == (0, [(), ()])


def embedded(model: StandIn) -> int:
    """Texts that the server made vectors of."""
    return model.counters.embedding_texts
