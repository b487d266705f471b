"""A refreshed group is what a run over the present inputs makes in an empty group.

Streams and edits are random. `REFRESHES=300 pytest tests/refresh/test_same_as_a_run.py` tries as many
of each store.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from benchmarks.world import StandIn
from semgraph.errors import StoreUnavailable
from semgraph.stores.base import NodeWrite, Store, WriteBatch
from semgraph.stores.sqlite.store import SqliteStore
from tests.execution.conftest import PLAN
from tests.refresh.world import (
    START,
    Row,
    State,
    World,
    different,
    edited,
    episode,
    of_group,
    without,
)  # fmt: skip

SEEDS = int(os.environ.get("REFRESHES") or 14)
KEPT = ("created_at",)  # stays as it was, where a run writes its own time
WAYS: tuple[dict[str, Any], ...] = (
    {},
    {"preset": "fused"},
    {"params": {"window": 5}},
    {"preset": "ready"},
    {"params": {"window": "all"}},
    {"preset": "bulk"},
)


def sentence(draw: random.Random) -> str:
    """One of few statements, so that they repeat and end each other."""
    return draw.choice([
        f"I work at {draw.choice(['Luma', 'Acme', 'Initech'])}.",
        f"I live in {draw.choice(['Riga', 'Oslo', 'Rome'])}.",
        f"I no longer work at {draw.choice(['Luma', 'Acme', 'Initech'])}.",
        f"I am married to {draw.choice(['Ann', 'Ben', 'Cleo', 'Dan'])}.",
    ])  # fmt: skip


def text(draw: random.Random) -> str:
    """What somebody says."""
    who = draw.choice(["Ann", "Ben", "Cleo", "Dan"])
    return f"{who}(user): {' '.join(sentence(draw) for _ in range(draw.randint(1, 2)))}"


@dataclass
class Stream:
    """Episodes, and how they are read; what is given to the refresh besides.

    Args:
        rows: The episodes.
        options: Parameters, preset, implementations, prompts.
        given: The rows that the refresh is given; None: all.
        how: Options of the refresh.
    """

    draw: random.Random
    folder: Path
    rows: list[Row]
    options: dict[str, Any]
    given: list[Row] | None = None
    how: dict[str, Any] = field(default_factory=dict)
    model: str = "gpt-4.1-mini"

    def any_row(self) -> int:
        """The place of a row."""
        return self.draw.randrange(len(self.rows))

    def changed(self) -> None:
        """A row says something else."""
        self.rows = edited(self.rows, self.any_row(), content=text(self.draw))

    def changed_alone(self) -> None:
        """Likewise, and only that row is given."""
        number = self.any_row()
        self.rows = edited(self.rows, number, content=text(self.draw))
        self.given = [self.rows[number]]

    def removed(self) -> None:
        """A row is gone, and the rest is all there is."""
        del self.rows[self.any_row()]
        self.how = {"complete": True, "retract": 9}

    def inserted(self) -> None:
        """A row in the middle."""
        number = self.any_row()
        when = self.rows[number]["valid_at"] + timedelta(minutes=5)
        row = {**episode(0, text(self.draw)), "uuid": f"new{len(self.rows)}", "valid_at": when}
        self.rows = sorted([*self.rows, row], key=lambda each: each["valid_at"])

    def moved(self) -> None:
        """A row was said at another time."""
        when = START + timedelta(minutes=self.draw.choice([-5, 15, 25, 95]))
        self.rows = edited(self.rows, self.any_row(), valid_at=when)

    def prompt(self) -> None:
        """A prompt has one more sentence."""
        names = ["extract_facts", "extract_entities", "same_entity", "compare_facts", "date_fact"]
        name = self.draw.choice(names)
        file = self.folder / f"{name}.md"
        shipped = (PLAN.parent / "prompts" / f"{name}.md").read_text("utf-8")
        file.write_text(shipped.replace("# rules\n", "# rules\nBe careful. "), "utf-8")
        self.options = {**self.options, "prompts": {name: str(file)}}

    def parameter(self) -> None:
        """A parameter has another value."""
        new = self.draw.choice([
            {"reach": "group", "revive": False},
            {"end_undated": False},
            {"instructions": "Leave nothing out."},
            {"history": 1},
        ])  # fmt: skip
        self.options = {**self.options, "params": {**self.options.get("params", {}), **new}}

    def preset(self) -> None:
        """Another preset, in the same windows."""
        self.options = {**self.options, "preset": self.draw.choice(["combined", "fused", "lean"])}

    def implementation(self) -> None:
        """A step is done otherwise."""
        use = self.draw.choice([
            {"describe": "describe_by_model"}, {"matches": "block()"}, {"dated": "per_row"},
        ])  # fmt: skip
        self.options = {**self.options, "use": use}

    def other_model(self) -> None:
        """Another model."""
        self.model = "gpt-4.1-nano"

    def several(self) -> None:
        """A row, a new row, a parameter."""
        for edit in (self.changed, self.inserted, self.parameter):
            edit()


EDITS: tuple[Callable[[Stream], None], ...] = (
    Stream.changed, Stream.removed, Stream.inserted, Stream.moved, Stream.prompt, Stream.parameter,
    Stream.preset, Stream.implementation, Stream.other_model, Stream.changed_alone, Stream.several,
)  # fmt: skip


async def prepare(world: World) -> None:
    """What other plans and hands write into the group and beside it."""
    others = [
        {
            "uuid": "saved",
            "group_id": "g",
            "name": "Zurab",
            "summary": "Saved.",
            "created_at": START,
        }
    ]
    await world.run(PLAN.with_name("save_nodes.yaml"), entities=others)
    fact = {"group_id": "g", "source": "Quirin", "name": "OWNS", "target": "Xylo", "uuid": "triplet",
            "source_uuid": "quirin", "target_uuid": "xylo", "fact": "Quirin owns Xylo.", "said_at": START}  # fmt: skip
    await world.run(PLAN.with_name("save_nodes.yaml"), entities=[
        {"uuid": name.lower(), "group_id": "g", "name": name, "created_at": START}
        for name in ("Quirin", "Xylo")
    ])  # fmt: skip
    await world.run(PLAN.with_name("add_triplet.yaml"), triplets=[fact])
    hand: Any = {
        "uuid": "hand",
        "group_id": "g",
        "name": "Handmade",
        "name_key": "handmade",
        "created_at": START,
    }
    await world.store.commit(WriteBatch((NodeWrite("Entity", pa.Table.from_pylist([hand])),)))


BASE = {"saved", "quirin", "xylo", "triplet", "hand"}


def base(found: State) -> State:
    """The rows of other groups, of other plans and of hands."""
    return {
        (label, key): row
        for (label, key), row in found.items()
        if row["group_id"] != "g" or key in BASE
    }


async def check(seed: int, model: StandIn, store: Store, folder: Path) -> Counter[str]:
    """Write a random stream, edit it at random, refresh it, and write it anew elsewhere."""
    draw = random.Random(seed)
    rows = [episode(n, text(draw)) for n in range(draw.randint(2, 6))]
    stream = Stream(draw, folder, rows, dict(WAYS[draw.randrange(len(WAYS))]))
    names = list[str]()
    world = World(model, store, folder)
    try:
        await prepare(world)
        await world.write([episode(0, "Dora(user): I live in Lisbon.", "h")])
        await world.write(stream.rows, **stream.options)
        await world.require_no_change(stream.rows, **stream.options)
        untouched = base(await world.state())
        for number in range(draw.randint(1, 2)):
            edit = EDITS[(seed + 5 * number) % len(EDITS)]
            names.append(edit.__name__)
            stream.given, stream.how = None, {}
            edit(stream)
            world.session = world.another(store, llm=stream.model)
            given = stream.rows if stream.given is None else stream.given
            await world.refreshed(given, **stream.options, **stream.how)
        about = (seed, names, stream.options, stream.rows)
        await world.require_no_change(stream.rows, **stream.options, **stream.how)
        assert max(world.requests.values()) == 1, (*about, "asked twice")
        found = await world.state()
        assert base(found) == untouched, (*about, different(base(found), untouched))
        await _require_same(world, stream, found, about)
    finally:
        await world.aclose()
    return Counter(names)


async def _require_same(world: World, stream: Stream, found: State, about: Any) -> None:
    """In an empty group a run in the same windows makes the same, and asks the same."""
    asked = set(world.requests)
    anew = World(world.model, SqliteStore(":memory:"), world.folder, "anew.db", stream.model)
    try:
        await prepare(anew)
        await world.in_windows(anew.session, stream.rows, **stream.options)
        expected = without(of_group(await anew.state(), "g"), *KEPT)
        mine = without(of_group(found, "g"), *KEPT)
        assert mine == expected, (*about, different(mine, expected))
        fresh = set(world.requests)
        assert fresh >= asked
    finally:
        await anew.aclose()
        await anew.store.aclose()


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_a_refreshed_group_is_what_a_run_over_the_present_inputs_makes(
    seed: int, model: StandIn, tmp_path: Path
) -> None:
    store = SqliteStore(":memory:" if seed % 2 else tmp_path / "graph.db")
    try:
        await check(seed, model, store, tmp_path)
    finally:
        await store.aclose()


async def test_an_embedder_of_another_length_is_refused_before_anything_is_asked(
    world: World,
) -> None:
    rows = [episode(0, "I work at Luma.")]
    await world.write(rows)
    other = World(world.model, world.store, world.folder, dimensions=128)
    asked, embedded = len(world.model.requests), world.model.counters.embedding_calls
    with pytest.raises(StoreUnavailable, match="256-dimensional"):
        await other.refresh(edited(rows, 0, content="Ann(user): I work at Acme."))
    assert len(world.model.requests) == asked
    assert world.model.counters.embedding_calls == embedded
    await other.aclose()


@pytest.mark.parametrize("store", ["neo4j"], indirect=True)
@pytest.mark.parametrize("seed", [1, 2, 10])  # a row removed, one inserted, several edits
async def test_on_neo4j_it_is_the_same(
    seed: int, model: StandIn, store: Store, tmp_path: Path
) -> None:
    await check(seed, model, store, tmp_path)
