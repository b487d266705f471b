"""A random edit by hand, then a random edit of the inputs: what was edited by hand stays."""

from __future__ import annotations

import os
import random
from typing import Any

import pyarrow as pa
import pytest

from semgraph.stores.base import Deletion, EdgeWrite, NodeWrite, Write, WriteBatch
from tests.refresh.test_same_as_a_run import text
from tests.refresh.world import Row, State, World, edited, episode, of_group

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
async def test_what_was_edited_by_hand_stays(seed: int, world: World) -> None:
    """With the same inputs nothing is to do; with others nothing is after one refresh."""
    draw = random.Random(seed)
    rows = [episode(n, text(draw)) for n in range(draw.randint(2, 5))]
    await world.write(rows)
    edits = [draw_edit(draw, of_group(await world.state(), "g"))]
    await world.store.commit(WriteBatch((edits[0][1],)))
    left = await world.state()
    refresh = await world.refresh(rows)
    assert len(refresh.diff) == 0, (seed, rows, edits, str(refresh.diff))
    [((label, key), write)] = edits
    if isinstance(write, Deletion) or "summary" in write.rows.column_names:
        assert (label, key) in {(each.label, each.key) for each in refresh.diff.edited}
    new = edited(rows, draw.randrange(len(rows)), content=text(draw))
    refresh = await world.refreshed(new)
    stay = [at for at, write in edits if not isinstance(write, Deletion)]
    found = await world.state()
    for label, key in stay:
        row, before = found.get((label, key)), left[label, key]
        names = [name for name in properties(label) if name in before]
        changed = [name for name in names if str(before[name]).endswith("y hand.")]
        assert row is not None, (seed, rows, edits, new)
        assert [row.get(n) for n in changed] == [before[n] for n in changed], (seed, rows, new)
    await world.require_no_change(new)
