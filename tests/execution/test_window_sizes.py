"""However an input is cut, ordered and mixed with others, the same is asked and the same graph
comes of it.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from semgraph.stores.sqlite.store import SqliteStore
from tests.execution.conftest import STORY, Place, Watched, Work, said, variant, wire

# Every name has a fact where it is first said, facts are dated in order, and none has ended when it
# is said again.
PLAIN = [
    text for text in STORY if "deadline" not in text and not text.startswith("Ben(user): I know")
]


def shifted(group: str) -> list[dict[str, Any]]:
    """The story with names of the group's own, so that no two groups ask the same."""
    texts = [
        text.replace("Ann", f"Ann{group}")
        .replace("Ben", f"Ben{group}")
        .replace("Cleo", f"Cleo{group}")
        for text in STORY
    ]
    return said(texts[:5], group)


@pytest.mark.parametrize("window", ["3", pytest.param("all", marks=pytest.mark.nightly)])
async def test_larger_windows_write_the_graph_that_windows_of_one_write(
    simple: Work, tmp_path: Path, window: str
) -> None:
    plan = variant(tmp_path, ("size: $window", f"size: {window}"))
    large = await simple.run(said(PLAIN, "large"), plan=plan)
    small = await simple.run(said(PLAIN, "small"))
    assert (large.committed, small.committed) == (len(PLAIN), len(PLAIN))
    names = {}
    for group in ("large", "small"):
        graph = await simple.place.dump(group=group)
        called = {key: row["name"] for key, row in graph["Entity"].items()}
        told = {key: row["content"] for key, row in graph["Episodic"].items()}
        names[group] = (
            sorted((e["name"], e["summary"]) for e in graph["Entity"].values()),
            sorted(
                (
                    called[f["source"]], f["name"], called[f["target"]], f["fact"], f["valid_at"], f["invalid_at"],
                    f["expired_at"], sorted(told[e] for e in f["episodes"]),
                )
                for f in graph["RELATES_TO"].values()
            ),
            sorted((told[m["source"]], called[m["target"]]) for m in graph["MENTIONS"].values()),
        )  # fmt: skip
    assert names["large"] == names["small"]


async def test_one_window_takes_fewer_rounds_and_calls(simple: Work, tmp_path: Path) -> None:
    plan = variant(tmp_path, ("size: $window", "size: all"))
    small = await simple.run(said(PLAIN), session={"store": "memory", "journal": False})
    large = await simple.run(said(PLAIN), plan=plan, session={"store": "memory", "journal": False})
    assert large.meter.total().round_trips < small.meter.total().round_trips
    assert large.meter.total().calls_issued < small.meter.total().calls_issued


async def test_neither_the_place_of_a_row_nor_other_groups_change_anything(simple: Work) -> None:
    rows = [*shifted("A"), *shifted("B"), *shifted("C")]
    await simple.run(rows, session={"journal": False})
    before, asked = await simple.place.dump(), wire(simple.model.requests)
    simple.model.reset()
    mixed = random.Random(1).sample(rows, len(rows))
    other = Work(simple.model, simple.place, simple.folder / "mixed")
    async with other.session(
        store=f"sqlite:{simple.folder / 'mixed.db'}", journal=False
    ) as session:
        result = await session.arun("add_episode", episodes=mixed)
    assert wire(simple.model.requests) == asked
    assert result.committed == len(rows)
    after = await Place("", lambda: SqliteStore(simple.folder / "mixed.db")).dump()
    assert after == before


async def test_groups_that_run_in_waves_are_each_as_if_alone(simple: Work) -> None:
    groups = ["A", "B", "C"]
    rows = [row for rows in zip(*(shifted(g) for g in groups), strict=True) for row in rows]
    result = await simple.run(rows, session={"journal": False})
    assert result.committed == len(rows)
    together, asked = await simple.place.dump(), wire(simple.model.requests)
    async with Watched() as model:
        alone = Work(model, simple.place, simple.folder / "alone")
        async with alone.session(
            store=f"sqlite:{simple.folder / 'alone.db'}", journal=False
        ) as session:
            for group in groups:
                await session.arun("add_episode", episodes=shifted(group))
        found = await Place("", lambda: SqliteStore(simple.folder / "alone.db")).dump()
        assert wire(model.requests) == asked
    assert together == found


async def test_rows_of_other_groups_share_round_trips(simple: Work) -> None:
    one = await simple.run(shifted("A"), session={"store": "memory"})
    rows = [
        row for rows in zip(shifted("B"), shifted("C"), shifted("D"), strict=True) for row in rows
    ]
    three = await simple.run(rows, session={"store": "memory"})
    reads = {name: step.round_trips for name, step in one.meter.steps.items() if name != "commit"}
    shared = {
        name: step.round_trips for name, step in three.meter.steps.items() if name != "commit"
    }
    assert sum(shared.values()) < 2 * sum(reads.values()), "not three times as many"
