"""Large partitions of an SQLite file where faiss is not installed: exact, with a note."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from semgraph.stores.base import Method
from semgraph.stores.sqlite import index
from semgraph.stores.sqlite.store import SqliteStore


@pytest.fixture
def without_faiss(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(index, "find_spec", lambda name: None if name == "faiss" else found(name))


async def test_the_search_stays_exact_and_a_note_names_the_extra(tmp_path, world, without_faiss):
    store = SqliteStore(tmp_path / "graph.db", exact_up_to=20)
    await store.ensure(world.graph, world.dimensions)
    values = np.random.default_rng(1).standard_normal((50, 4)).astype(np.float32)
    people = [
        {"uuid": f"p{i:02}", "name": str(i), "name_embedding": row.tolist()}
        for i, row in enumerate(values)
    ]
    await world.commit(store, world.write("Person", *people[:20]))
    query = world.query("Person", Method("nearest", "name", "vector", k=5))
    rows = world.rows(vector=[[1, 2, 3, 4]])
    await store.search([query], rows)
    assert store.notes == ()
    await world.commit(store, world.write("Person", *people[20:]))
    for _ in range(2):
        [hits] = await store.search([query], rows)
        cosines = values @ np.array([1, 2, 3, 4]) / np.linalg.norm(values, axis=1)
        expected = [f"p{i:02}" for i in np.argsort(-cosines)[:5]]
        assert world.keys(hits) == {0: expected}
    [note] = store.notes
    assert note.startswith('Person.name_embedding of "g" has more than 20 vectors')
    assert note.endswith('faiss is not installed: pip install "semgraph[faiss]"')
    assert list(tmp_path.glob("*.vectors")) == []
    await store.survey()
    assert 'Person.name_embedding of "g" (50): exact, because faiss' in store.nearest
    await store.aclose()
