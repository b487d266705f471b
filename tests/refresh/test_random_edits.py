"""Random edits by hand, then random edits of the inputs: what was edited stays, and with the old
inputs all is as it was after the edits by hand.
"""

from __future__ import annotations

import os
import random
from typing import Any

import pyarrow as pa
import pytest

from semgraph.stores.base import Deletion, EdgeWrite, NodeWrite, Write, WriteBatch
from tests.refresh.test_same_as_a_run import text
from tests.refresh.world import Row, State, World, different, edited, episode, of_group, without

SEEDS = int(os.environ.get("REFRESHES") or 8)


def properties(label: str) -> list[str]:
    """What somebody may change."""
    return ["summary", "name"] if label == "Entity" else ["fact", "invalid_at", "attributes"]


def other_value(name: str, row: Row) -> Any:
    """A value that the plan does not write."""
    if name == "invalid_at":
        return row["valid_at"].replace(year=2030) if name not in row else None
    return '{"by": "hand"}' if name == "attributes" else f"{row[name]} By hand."


def draw_edit(draw: random.Random, found: State) -> tuple[tuple[str, str], Write]:
    """A change or a deletion of an entity or a fact."""
    places = [at for at in found if at[0] in {"Entity", "RELATES_TO"}]
    label, key = draw.choice(sorted(places))
    row = found[label, key]
    if draw.random() < 0.3:
        gone = pa.Table.from_pylist([{"uuid": key, "group_id": "g"}])
        return (label, key), Deletion(label, gone, detach=True)
    name = draw.choice(properties(label))
    kind = NodeWrite if label == "Entity" else EdgeWrite
    derived = {"name_key", "name_embedding", "fact_embedding"}
    whole = {n: v for n, v in row.items() if n not in derived}
    new = {**whole, name: other_value(name, row)}
    typed = {"invalid_at": pa.timestamp("us", "UTC")} if name == "invalid_at" else {}
    table = pa.table({n: pa.array([v], typed.get(n)) for n, v in new.items()})
    return (label, key), kind(label, table, replace=True)


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_edits_by_hand_stay_and_old_inputs_bring_back_the_graph(
    seed: int, world: World
) -> None:
    draw = random.Random(seed)
    rows = [episode(n, text(draw)) for n in range(draw.randint(2, 5))]
    await world.write(rows)
    for _ in range(draw.randint(1, 2)):
        _, write = draw_edit(draw, of_group(await world.state(), "g"))
        await world.store.commit(WriteBatch((write,)))
    left = await world.state()
    about = (seed, rows, write)
    refresh = await world.refresh(rows)
    assert len(refresh.diff) == 0, (*about, str(refresh.diff))
    assert refresh.diff.edited, about
    new = edited(rows, draw.randrange(len(rows)), content=text(draw))
    await world.refreshed(new)
    again = await world.refresh(new)
    assert len(again.diff) == 0, (*about, new, str(again.diff))
    await world.refreshed(rows)
    found, expected = (without(each, "created_at") for each in (await world.state(), left))
    assert found == expected, (*about, new, different(found, expected))
