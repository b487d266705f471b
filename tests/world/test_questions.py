"""Questions in words, asked by semgraph's operators in each of their ways: the answers are those of
the text, however it is asked.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.world import StandIn
from semgraph.session import Result, Session
from tests.partial import maybe_partial

Ask = Callable[..., Awaitable[Result]]
TEXTS = [
    "Ada Costa(user): I have moved to Oslo.",
    "Bruno Weber(user): Ada Costa works at Luma.",
    "Clara Petrov(user): Felix Rossi lives in Porto.",
    "Dario Zhang(user): How are you?",
    "Elena Quist(user): Felix Rossi has moved to Riga on 2024-03-01.",
]
PLAN = """
plan: asked
inputs: {{texts: {{id: int64, text: string}}}}
steps:
  found:
    - from: texts
    - {step}
returns: [found]
"""


@pytest.fixture
async def model() -> AsyncIterator[StandIn]:
    async with StandIn() as server:
        yield server


@pytest.fixture
def ask(model: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    monkeypatch.setenv("OPENAI_API_KEY", "none")

    async def run(
        step: str,
        texts: list[str] = TEXTS,
        use: str | None = None,
        more: dict[str, Any] | None = None,
    ) -> Result:
        path = tmp_path / "asked.yaml"
        path.write_text(PLAN.format(step=step) if "plan:" not in step else step)
        rows = [{"id": i, "text": text} for i, text in enumerate(texts)]
        llm = f"openai:gpt-4.1-mini@{model.base_url}"
        embedder = f"openai:stand-in@{model.base_url}?dimensions=256"
        async with Session(
            llm=llm, embedder=embedder, store="memory", journal=False, runs=""
        ) as session:
            return await session.arun(
                path, texts=rows, **(more or {}), use={"found": use} if use else None
            )

    return run


def found(result: Result) -> list[dict[str, Any]]:
    assert not result.failed
    return result.tables["found"].to_pylist()


FILTERS = ["per_row", "packed(rows=2)", "packed(rows=20)"]


@pytest.mark.parametrize("use", FILTERS)
@pytest.mark.parametrize(
    ("question", "kept"),
    [
        ("Does {text} say that somebody moved?", [0, 4]),
        ("Does “{text}” say that Felix Rossi has moved to Riga?", [4]),
        ("Does {text} say that someone lives in a city?", [0, 2, 4]),
        ("Does {text} tell that Ada Costa has a job?", [1]),
        ("Message: {text}\\nDoes it say that a person works at Luma?", [1]),
        ("Does {text} say that somebody knows somebody?", []),
    ],
)
async def test_yes_and_no_are_those_of_the_text(
    ask: Ask, question: str, kept: list[int], use: str
) -> None:
    result = await ask(f'sem_filter: {{prompt: "{question}"}}', use=use)
    assert [row["id"] for row in found(result)] == kept


@pytest.mark.parametrize("use", ["per_row", "packed(rows=3)"])
async def test_texts_are_sorted_and_taken_apart(ask: Ask, use: str) -> None:
    fields = "topic: 'enum<job, home, small_talk>', person: string null, place: string null, since: timestamp null, facts: list<string>"
    result = await ask(
        f'sem_map: {{prompt: "Take apart: {{text}}", returns: {{{fields}}}}}', use=use
    )
    rows = found(result)
    assert [row["topic"] for row in rows] == ["home", "job", "home", "small_talk", "home"]
    assert [row["person"] for row in rows] == [
        "Ada Costa",
        "Ada Costa",
        "Felix Rossi",
        "Dario Zhang",
        "Felix Rossi",
    ]
    assert [row["place"] for row in rows] == ["Oslo", None, "Porto", None, "Riga"]
    assert [row["since"] and row["since"].date().isoformat() for row in rows] == [
        None,
        None,
        None,
        None,
        "2024-03-01",
    ]
    assert rows[1]["facts"] == ["Ada Costa works at Luma."]


JOIN = """
plan: asked
inputs: {{texts: {{id: int64, text: string}}, others: {{id: int64, text: string}}}}
steps:
  found:
    - from: texts
    - sem_join: {{other: others, alias: o, prompt: "{prompt}"}}
returns: [found]
"""


async def pairs(
    ask: Ask, question: str, left: list[str], right: list[str], use: str
) -> list[tuple[int, int]]:
    others = [{"id": i, "text": text} for i, text in enumerate(right)]
    result = await ask(JOIN.format(prompt=question), left, use, {"others": others})
    return [(row["id"], row["o"]["id"]) for row in found(result)]


@pytest.mark.parametrize("use", ["nested_loop", "block(left=2, right=2)", "block()"])
async def test_pairs_are_compared_by_their_text(ask: Ask, use: str) -> None:
    people, known = (
        ["Ada Costa", "KBL", "Felix Rossi"],
        ["Ada", "Kestrel Bridge Labs", "Felix Weber", "Felix Rosis"],
    )
    same = "Are {text} and {o.text} the same person?"
    assert await pairs(ask, same, people, known, use) == [(0, 0), (1, 1), (2, 3)]
    assert await pairs(ask, same, people[::-1], known[:1], use) == [(2, 0)], (
        "other candidates, other answers"
    )
    new = ["Ada Costa has moved to Oslo.", "Ada Costa works at Luma."]
    old = [
        "Ada Costa lives in Porto.",
        "Ada Costa is employed by Luma.",
        "Ada Costa lives in Oslo.",
    ]
    assert await pairs(ask, "Do {text} and {o.text} contradict each other?", new, old, use) == [
        (0, 0)
    ]
    assert await pairs(ask, "Do {text} and {o.text} say the same?", new, old, use) == [
        (0, 2),
        (1, 1),
    ]


@pytest.mark.parametrize(
    "use", ["pointwise", "packed(rows=2)", "listwise(window=4)", "tournament", "quickselect"]
)
async def test_the_best_are_those_that_say_it_most_clearly(ask: Ask, use: str) -> None:
    step = 'sem_topk: {k: 2, prompt: "How strongly does {text} say that Felix Rossi has moved to Riga?"}'
    assert [row["id"] for row in found(await ask(step, use=use))] == [4, 0]


@pytest.mark.parametrize("use", ["single", "tree(fan_in=2)", "fold(rows=2)"])
async def test_groups_are_summarised_as_one(ask: Ask, use: str) -> None:
    step = 'sem_agg: {prompt: "What do we know? {text}", by: [], returns: {summary: string, people: list<string>}}'
    (row,) = found(await ask(step, use=use))
    said = [
        "Ada Costa has moved to Oslo.",
        "Ada Costa works at Luma.",
        "Felix Rossi lives in Porto.",
    ]
    assert all(row["summary"].count(sentence) == 1 for sentence in said)
    assert {"Ada Costa", "Felix Rossi"} <= set(row["people"])


async def test_unknown_prompts_are_rejected(ask: Ask) -> None:
    result = await maybe_partial(ask('sem_filter: {prompt: "Is {text} beautiful?"}'))
    assert len(result.failed) == len(TEXTS)
    assert result.tables["found"].num_rows == 0
