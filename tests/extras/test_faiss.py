"""Searches of large partitions of an SQLite file by an index (extra `faiss`).

Run: `make test-extras`, or `.venv-extras/bin/python -m pytest tests/extras/test_faiss.py`
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from filelock import FileLock

from semgraph.expr.scalar import parse_scalar
from semgraph.logical.schema import Graph
from semgraph.stores.base import Deletion, Method, NodeWrite, SearchQuery, WriteBatch
from semgraph.stores.sqlite.store import SqliteStore

SIZE, ROWS, LIMIT = 32, 4000, 1000
GRAPH = Graph.build(
    {
        "nodes": {
            "Note": {
                "properties": {"text": "string", "turn": "int64"},
                "derived": {"embedding": {"embed": "text"}},
            }
        }
    }
)


def vectors(kind: str, count: int, seed: int = 1) -> np.ndarray:
    """Vectors of any direction, or around 60 centres."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((count, SIZE)).astype(np.float32)
    if kind == "uniform":
        return noise
    centres = np.random.default_rng(9).standard_normal((60, SIZE)).astype(np.float32)
    return centres[rng.integers(0, 60, count)] + 0.3 * noise


def column(values: np.ndarray) -> pa.Array:
    flat = pa.array(values.reshape(-1).astype(np.float32))
    return pa.FixedSizeListArray.from_arrays(flat, values.shape[1])


def notes(values: np.ndarray, first: int = 0, group: str = "g") -> WriteBatch:
    number = range(first, first + len(values))
    columns = {
        "uuid": [f"{group}{i:06}" for i in number],
        "group_id": [group] * len(values),
        "text": [f"note {i}" for i in number],
        "turn": pa.array([i % 10 for i in number], pa.int64()),
        "embedding": column(values),
    }
    return WriteBatch((NodeWrite("Note", pa.table(columns)),))


async def opened(path: Path, limit: int = LIMIT) -> SqliteStore:
    store = SqliteStore(path, exact_up_to=limit)
    await store.ensure(GRAPH, None)
    return store


async def near(
    store: SqliteStore,
    asked: np.ndarray,
    k: int | None = 10,
    where: str = "",
    above: float = -1.0,
    group: str = "g",
) -> list[list[tuple[str, float]]]:
    """Keys and scores of each question's hits."""
    rows = pa.table(
        {
            "_q": pa.array(range(len(asked)), pa.int64()),
            "group_id": [group] * len(asked),
            "vector": column(asked),
        }
    )
    conjuncts = parse_scalar(where).conjuncts() if where else ()
    method = Method("nearest", "text", "vector", k=k, above=above)
    [hits] = await store.search([SearchQuery("Note", (method,), (), where=conjuncts)], rows)
    found: list[list[tuple[str, float]]] = [[] for _ in asked]
    for hit in hits.to_pylist():
        found[hit["_q"]].append((hit["uuid"], hit["score"]))
    return found


def recall(found: list[list[tuple[str, float]]], exact: list[list[tuple[str, float]]]) -> float:
    pairs = zip(found, exact, strict=True)
    hits = sum(len({k for k, _ in left} & {k for k, _ in right}) for left, right in pairs)
    return hits / sum(map(len, exact))


def files(path: Path) -> list[Path]:
    return sorted(Path(f"{path}.vectors").glob("*.faiss"))


def index_of(store: SqliteStore):
    [index] = store._indexes._open.values()
    return index


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "graph.db"


@pytest.fixture
async def store(path: Path):
    made = await opened(path)
    await made.commit(notes(vectors("clustered", ROWS)))
    yield made
    await made.aclose()


async def exactly(path: Path, *args, **more):
    store = await opened(path, 10**9)
    try:
        return await near(store, *args, **more)
    finally:
        await store.aclose()


@pytest.mark.parametrize("kind", ["clustered", "uniform"])
@pytest.mark.parametrize("k", [1, 10, 40])
async def test_an_index_finds_what_an_exact_search_finds(path, kind, k):
    store = await opened(path)
    await store.commit(notes(vectors(kind, ROWS)))
    asked = vectors(kind, 100, seed=5)
    found, exact = await near(store, asked, k), await exactly(path, asked, k)
    assert len(files(path)) == 1
    assert recall(found, exact) >= 0.98
    scores = dict(pair for hits in exact for pair in hits)
    assert scores
    for left, right in zip(found, exact, strict=True):
        known = dict(right)
        assert all(known[key] == score for key, score in left if key in known)
        assert len(left) == k
    await store.aclose()


async def test_a_small_partition_has_no_index(path):
    store = await opened(path)
    await store.commit(notes(vectors("clustered", LIMIT)))
    await near(store, vectors("clustered", 3))
    assert files(path) == []
    await store.commit(notes(vectors("clustered", 1, seed=3), LIMIT))
    await near(store, vectors("clustered", 3))  # reads the new one, and the partition is large
    await near(store, vectors("clustered", 3))
    assert len(files(path)) == 1
    await store.aclose()


async def test_all_hits_above_a_cosine_are_exact(path, store):
    asked = vectors("clustered", 5, seed=5)
    found = await near(store, asked, None, above=0.5)
    assert found == await exactly(path, asked, None, above=0.5)
    assert files(path) == []


@pytest.mark.parametrize(
    "where", ["hit.turn = 3", "hit.turn = 3 and hit.text like 'note %'", "hit.uuid = 'g000007'"]
)
async def test_conditions_are_met_by_all_hits(path, store, where):
    asked = vectors("clustered", 20, seed=5)
    await near(store, asked)
    text = where.replace(" like 'note %'", " <> 'x'")
    found, exact = await near(store, asked, 10, text), await exactly(path, asked, 10, text)
    assert recall(found, exact) >= 0.98
    assert [len(hits) for hits in found] == [len(hits) for hits in exact]


async def test_a_rare_condition_reads_the_passing_rows_alone(path, store):
    asked = vectors("clustered", 3, seed=5)
    await near(store, asked)
    found = await near(store, asked, 10, "hit.text = 'note 77'")
    assert found == await exactly(path, asked, 10, "hit.text = 'note 77'")
    assert [[key for key, _ in hits] for hits in found] == [["g000077"]] * 3
    blocks = [name for name in store._memory.vectors._held if len(name) == 2]
    assert blocks == []


async def test_newer_overwritten_and_deleted_vectors(path, store):
    asked = vectors("clustered", 1, seed=5)
    [[(first, _), (second, _), *_]] = await near(store, asked)
    index = index_of(store)
    await store.commit(notes(-asked, int(first[1:])))
    await store.commit(notes(asked, ROWS))
    keys = pa.table({"uuid": [second]})
    await store.commit(WriteBatch((Deletion("Note", keys),)))
    [found] = await near(store, asked)
    assert found[0] == (f"g{ROWS:06}", pytest.approx(1.0))
    assert {first, second}.isdisjoint(key for key, _ in found)
    assert [found] == await exactly(path, asked)
    assert index_of(store) is index


async def test_equal_vectors_are_ordered_by_key(path):
    values = vectors("clustered", ROWS)
    values[1::2] = values[::2]
    store = await opened(path)
    await store.commit(notes(values))
    asked = values[100:120]
    found = await near(store, asked, 2)
    assert [[key for key, _ in hits] for hits in found] == [
        [f"g{i // 2 * 2:06}", f"g{i // 2 * 2 + 1:06}"] for i in range(100, 120)
    ]
    await store.aclose()


async def test_the_index_is_built_again_when_many_vectors_are_newer(path, store):
    asked = vectors("clustered", 20, seed=5)
    await near(store, asked)
    index = index_of(store)
    allowed = store._indexes.allowance(index)
    await store.commit(notes(vectors("clustered", allowed, seed=7), ROWS))
    await near(store, asked)
    assert index_of(store) is index
    await store.commit(notes(vectors("clustered", 1, seed=8), ROWS + allowed))
    found = await near(store, asked)
    assert index_of(store).stamp.count == ROWS + allowed + 1
    assert len(files(path)) == 1
    assert recall(found, await exactly(path, asked)) >= 0.98


async def test_the_index_is_built_again_when_most_of_its_vectors_are_gone(path, store):
    asked = vectors("clustered", 20, seed=5)
    await near(store, asked)
    gone = pa.table({"uuid": [f"g{i:06}" for i in range(ROWS) if i % 10 < 7]})
    await store.commit(WriteBatch((Deletion("Note", gone),)))
    found = await near(store, asked)
    assert recall(found, await exactly(path, asked)) >= 0.98
    await near(store, asked)
    assert index_of(store).stamp.count == ROWS - gone.num_rows


async def test_a_partition_never_sees_another(path, store):
    asked = vectors("clustered", 20, seed=5)
    await store.commit(notes(vectors("clustered", ROWS, seed=2), group="h"))
    for group in "gh":
        found = await near(store, asked, group=group)
        assert {key[0] for hits in found for key, _ in hits} == {group}
        assert recall(found, await exactly(path, asked, group=group)) >= 0.98
    assert len(files(path)) == 2
    await store.clear(["h"])
    assert len(files(path)) == 1
    assert await near(store, asked, group="h") == [[]] * 20
    await store.clear()
    assert files(path) == []


async def ask_anew(path: Path, asked: np.ndarray) -> tuple[float, int]:
    """Recall of a store opened anew, and the version of the index it used."""
    store = await opened(path)
    found = await near(store, asked)
    version = index_of(store).stamp.version
    await store.aclose()
    return recall(found, await exactly(path, asked)), version


def halve(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 255
    file.write_bytes(bytes(content))


def empty(file: Path) -> None:
    file.write_bytes(b"")


def of_another(file: Path) -> None:
    file.write_bytes(b"no index at all, but a text that is longer than a stamp")


@pytest.mark.parametrize("harm", [halve, flip, empty, of_another, Path.unlink])
async def test_a_damaged_or_missing_index_is_built_again(path, harm):
    store = await opened(path)
    await store.commit(notes(vectors("clustered", ROWS)))
    asked = vectors("clustered", 20, seed=5)
    await near(store, asked)
    await store.aclose()
    [file] = files(path)
    good = file.read_bytes()
    harm(file)
    assert (await ask_anew(path, asked))[0] >= 0.98
    assert len(file.read_bytes()) == len(good)


async def test_an_index_is_used_by_the_next_process(path):
    store = await opened(path)
    await store.commit(notes(vectors("clustered", ROWS)))
    asked = vectors("clustered", 20, seed=5)
    await near(store, asked)
    await store.aclose()
    [file] = files(path)
    before = file.stat().st_ino
    assert (await ask_anew(path, asked))[0] >= 0.98
    assert file.stat().st_ino == before


async def test_the_index_of_a_database_that_was_restored_is_not_used(path, tmp_path):
    store = await opened(path)
    await store.commit(notes(vectors("clustered", ROWS // 2)))
    await store.aclose()
    shutil.copy(path, tmp_path / "copy.db")
    store = await opened(path)
    await store.commit(notes(vectors("clustered", ROWS // 2, seed=2), ROWS // 2))
    asked = vectors("clustered", 20, seed=5)
    await near(store, asked)
    await store.aclose()
    [file] = files(path)
    before = file.stat().st_ino
    shutil.copy(tmp_path / "copy.db", path)
    store = await opened(path)
    await store.commit(notes(vectors("clustered", ROWS // 2, seed=3), ROWS // 2))
    await store.aclose()
    assert (await ask_anew(path, asked))[0] >= 0.98
    assert file.stat().st_ino != before


async def test_another_length_of_vectors_has_another_index(path, store):
    asked = vectors("clustered", 20, seed=5)
    await near(store, asked)
    await store.clear()
    await store.commit(notes(vectors("clustered", ROWS)[:, :16]))
    found = await near(store, asked[:, :16])
    assert index_of(store).stamp.size == 16
    assert recall(found, await exactly(path, asked[:, :16])) >= 0.98


async def test_while_another_process_builds_the_search_is_exact(path, store):
    asked = vectors("clustered", 20, seed=5)
    file = store._indexes.path(("Note#vector#embedding", "g"))
    file.parent.mkdir()
    with FileLock(file.with_suffix(".lock")):
        assert await near(store, asked) == await exactly(path, asked)
    assert files(path) == []
    await near(store, asked)
    assert files(path) == [file]


async def test_an_index_that_cannot_be_written_leaves_the_search_exact_with_a_note(path, store):
    asked = vectors("clustered", 20, seed=5)
    store._indexes.folder.write_text("a file in the way of the folder")
    assert await near(store, asked) == await exactly(path, asked)
    [note] = store.notes
    assert "Note.embedding" in note
    assert "cannot be written" in note
    assert str(path) in note


async def test_a_full_disk_leaves_the_search_exact_with_a_note(path, store, monkeypatch):
    import faiss

    def full(_index, name):
        Path(name).write_bytes(b"half")
        raise RuntimeError(f"Error: write error in {name}: No space left on device")

    monkeypatch.setattr(faiss, "write_index", full)
    asked = vectors("clustered", 20, seed=5)
    assert await near(store, asked) == await exactly(path, asked)
    assert "No space left on device" in store.notes[0]
    left = [file.suffix for file in store._indexes.folder.iterdir()]
    assert left in ([], [".lock"])


BUILD = """
import asyncio, os, sys, faiss
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.extras.test_faiss import near, opened, vectors
write = faiss.write_index
def killed(index, name):
    write(index, name)
    with open(name, "r+b") as file:
        file.truncate(os.path.getsize(name) // 2)
    os.kill(os.getpid(), 9)
faiss.write_index = killed
async def main():
    store = await opened(Path(sys.argv[2]))
    await near(store, vectors("clustered", 20, seed=5))
asyncio.run(main())
"""


async def test_half_a_file_of_a_killed_process_is_not_used(path, store):
    root = str(Path(__file__).parents[2])
    done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", BUILD, root, str(path)])
    assert done.returncode == -9
    assert files(path) == []
    asked = vectors("clustered", 20, seed=5)
    assert recall(await near(store, asked), await exactly(path, asked)) >= 0.98
    assert len(files(path)) == 1


READ = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.extras.test_faiss import near, opened, vectors
async def main():
    store, asked = await opened(Path(sys.argv[2])), vectors("clustered", 5, seed=5)
    print("ready", flush=True)
    while sys.stdin.readline().strip():
        found = await near(store, asked)
        print(min(map(len, found)), flush=True)
    await store.aclose()
asyncio.run(main())
"""


async def test_a_process_reads_while_another_builds_again(path, store):
    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", READ, root, str(path)]
    reader = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert reader.stdout.readline() == "ready\n"
    asked = vectors("clustered", 5, seed=5)
    inodes = set()
    for turn in range(4):
        reader.stdin.write("ask\n")
        reader.stdin.flush()
        await near(store, asked)
        assert reader.stdout.readline() == "10\n"
        inodes.update(file.stat().st_ino for file in files(path))
        more = vectors("clustered", 2000, seed=20 + turn)
        await store.commit(notes(more, ROWS + 2000 * turn))
    reader.stdin.close()
    assert reader.wait() == 0
    reader.stdout.close()
    assert len(files(path)) == 1
    assert recall(await near(store, asked), await exactly(path, asked)) >= 0.98


async def test_explain_says_what_is_large(path, store):
    await store.survey()
    assert 'Note.embedding of "g" (4,000): index, built by the first search' in store.nearest
    await near(store, vectors("clustered", 3))
    await store.survey()
    assert "index of 4,000 vectors" in store.nearest
    assert "recall" in store.nearest


async def test_candidates_are_read_by_their_ids(path, store):
    asked = vectors("clustered", 3, seed=5)
    await near(store, asked)
    statements: list[str] = []
    store.observe(statements.append)
    await near(store, asked)
    store.observe(None)
    [read] = [text for text in statements if 'SELECT "#id", vector' in text]
    plan = [row[3] for row in store._file._con.execute(f"EXPLAIN QUERY PLAN {read}")]
    assert "USING INTEGER PRIMARY KEY" in plan[0]
