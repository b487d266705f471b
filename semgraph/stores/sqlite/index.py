"""Indexes of large partitions of vectors: files beside the database, made by faiss.

An index only proposes candidates. Their vectors are read from the database, as far as they have not
changed since the version of the file that the index is of, and ranked exactly; vectors written
later are compared exactly beside it. So an index can miss a hit, but never add a wrong one.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semgraph.extras import install
from semgraph.private import create_private, private_folder
from semgraph.stores.sqlite.schema import quote

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Singles = NDArray[np.float32]

EXACT_UP_TO = 200_000
"""Vectors of a partition that are searched without an index."""
_SHARE_OF_NEWER = 5
"""An index is built again when the newer vectors are more than 1 / 5 of its own."""
_BATCH = 8192
_DEPTH = 20
_OVERFETCH = 4
_TRIALS = 200
_RECALL = 0.99
_WITNESSES = 256
_MAGIC = b"semgrph1"
INSTALL = install("faiss")
Name = tuple[str, str]
"""The table of the vectors, and the partition."""


@dataclass(frozen=True)
class Stamp:
    """What an index is of.

    Args:
        table: The table of the vectors.
        partition: The partition.
        size: Length of the vectors.
        count: Number of the vectors.
        version: The version of the file that the index was built from.
        nprobe: Lists that a search of `_DEPTH` neighbours reads.
        recall: Share of them that it found among stored vectors when the index was built.
        witnesses: Checksums of the newest vectors by id: a database that was restored, and then
            written otherwise, has others.
        checksum: Of the index.
    """

    table: str
    partition: str
    size: int
    count: int
    version: int
    nprobe: int
    recall: float
    witnesses: dict[str, int] = field(repr=False)
    checksum: int = 0


@dataclass(frozen=True)
class VectorIndex:
    """The index of one partition."""

    stamp: Stamp
    faiss: Any

    @property
    def name(self) -> Name:
        """The table and the partition."""
        return self.stamp.table, self.stamp.partition

    def candidates(self, unit: Singles, wanted: int) -> tuple[list[Ints], list[float]]:
        """For each query of length 1 the ids of about the `wanted` nearest vectors, and the cosine,
        about, that all others are below.
        """
        import faiss
        import numpy as np

        lists = self.stamp.nprobe * math.ceil(wanted / (_OVERFETCH * _DEPTH))
        nprobe = min(lists, self.faiss.nlist)
        options = faiss.SearchParametersIVF(nprobe=nprobe)
        scores, ids = self.faiss.search(unit, min(wanted, self.stamp.count), params=options)
        all_read = nprobe == self.faiss.nlist
        floors = [
            -1.0 if row[-1] < 0 and all_read else float(np.min(of[row >= 0], initial=1.0))
            for of, row in zip(scores, ids, strict=True)
        ]
        return [row[row >= 0] for row in ids], floors

    def describe(self) -> str:
        """The index, for EXPLAIN."""
        stamp = self.stamp
        lists = f"{stamp.nprobe} of {self.faiss.nlist} lists"
        return f"index of {stamp.count:,} vectors, {lists}, recall {stamp.recall:.3f} when built"


class IndexFolder:
    """The indexes of a database.

    Args:
        folder: Of the files; None: all searches are exact.
        limit: Vectors of a partition that need no index.
    """

    def __init__(self, folder: Path | None = None, limit: int = EXACT_UP_TO) -> None:
        self.folder, self.limit = folder, limit
        self.notes: dict[str, None] = {}
        """Why searches of large partitions are exact, for the user."""
        self._open: dict[Name, VectorIndex] = {}
        self._failed: set[Name] = set()
        self._outdated: set[Name] = set()
        self._surveyed: list[str] = []

    def clear(self) -> None:
        """Forget all."""
        self._open.clear()

    def allowance(self, index: VectorIndex) -> int:
        """How many newer vectors may stand beside an index."""
        return max(index.stamp.count // _SHARE_OF_NEWER, self.limit // _SHARE_OF_NEWER)

    def in_use(self, name: Name, size: int, version: int) -> VectorIndex | None:
        """The index that was used last, if it can be of this version of the file."""
        index = self._open.get(name)
        if index is not None and (index.stamp.size != size or index.stamp.version > version):
            del self._open[name]
            return None
        return index

    def report(self, index: VectorIndex, proposed: int, alive: int) -> None:
        """Note that of so many proposed vectors only some are still there."""
        if alive < proposed / 2:
            self._outdated.add(index.name)

    def current(
        self, con: sqlite3.Connection, name: Name, size: int, version: int, *, newer: int = 0
    ) -> VectorIndex | None:
        """The index of a large partition, built if there is none; None: the search is exact.

        Args:
            con: The connection, within a transaction.
            name: The table and the partition.
            size: Length of the vectors.
            version: Of the file.
            newer: How many vectors are newer than the index in use.
        """
        index = self.in_use(name, size, version)
        outdated = name in self._outdated
        if index is not None and not outdated and newer <= self.allowance(index):
            return index
        if self.folder is None or name in self._failed:
            return index
        if find_spec("faiss") is None:
            self._note(name, f"faiss is not installed: {INSTALL}")
            return None
        path = self.path(name)
        found = None if outdated else _load(con, path, name, size, version)
        if found is None or (index is not None and found.stamp.version <= index.stamp.version):
            found = self._build(con, path, name, size, version)
        if found is not None:
            self._open[name] = found
            self._outdated.discard(name)
            return found
        if outdated:  # it has hits, only slowly; another process builds a new one, or nobody can
            self._outdated.discard(name)
        return self._open.get(name)

    def path(self, name: Name) -> Path:
        """The file of an index."""
        digest = blake2b("\0".join(name).encode(), digest_size=16).hexdigest()
        return (self.folder or Path()) / f"{digest}.faiss"

    def remove(self, tables: Sequence[str], partitions: Sequence[str] | None) -> None:
        """Delete the indexes of partitions that were cleared (None: of all)."""
        if self.folder is None:
            return
        if partitions is None:
            self._open.clear()
            paths = list(self.folder.glob("*.faiss"))
        else:
            names = [(table, part) for table in tables for part in partitions]
            for name in names:
                self._open.pop(name, None)
            paths = [self.path(name) for name in names]
        for path in paths:
            with suppress(OSError):
                path.unlink()

    def describe(self) -> str:
        """How exact a search is, and which partitions are large, as far as they were counted."""
        rule = f"exact in partitions of up to {self.limit:,} vectors, else by an index"
        return "; ".join([rule, *self._surveyed])

    def survey(self, con: sqlite3.Connection, tables: Sequence[str]) -> None:
        """Count the vectors of the large partitions."""
        self._surveyed = [
            f'{table.replace("#vector#", ".")} of "{part}" ({count:,}): {self._state((table, part))}'
            for table in tables
            if (con.execute(f'SELECT max("#id") FROM {quote(table)}').fetchone()[0] or 0)
            > self.limit
            for part, count in con.execute(
                f"SELECT part, count(*) FROM {quote(table)} GROUP BY part HAVING count(*) > ?",
                (self.limit,),
            )
        ]

    def _state(self, name: Name) -> str:
        if find_spec("faiss") is None:
            return f"exact, because faiss is not installed: {INSTALL}"
        index = self._open.get(name)
        if index is not None:
            return index.describe()
        try:
            return f"index of {_read_stamp(self.path(name))[0].count:,} vectors"
        except (OSError, ValueError, TypeError):
            return "index, built by the first search"

    def _build(
        self, con: sqlite3.Connection, path: Path, name: Name, size: int, version: int
    ) -> VectorIndex | None:
        """Build and load an index, unless another process does; None if that fails, with a note."""
        from filelock import FileLock, Timeout

        temporary = path.with_suffix(f".{os.getpid()}-{id(self):x}")
        try:
            private_folder(path.parent)
            with FileLock(path.with_suffix(".lock"), timeout=0):
                create_private(temporary)
                if not _write(con, temporary, name, size, version, self.limit):
                    self.remove([name[0]], [name[1]])
                    return None
                temporary.replace(path)
            return _load(con, path, name, size, version)
        except Timeout:
            return None
        except (OSError, RuntimeError, MemoryError) as error:
            self._failed.add(name)
            self._note(name, f"its index cannot be written to {path.parent}: {_first_line(error)}")
            return None
        finally:
            with suppress(OSError):
                temporary.unlink()

    def _note(self, name: Name, why: str) -> None:
        label, _, prop = name[0].split("#")
        what = f'{label}.{prop} of "{name[1]}" has more than {self.limit:,} vectors'
        self.notes[f"{what} and is searched exactly, which is slow: {why}"] = None


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]


def is_large(con: sqlite3.Connection, name: Name, limit: int) -> bool:
    """Whether a partition has more vectors than a limit."""
    rows = f"SELECT 1 FROM {quote(name[0])} WHERE part = ? LIMIT ?"
    count: int = con.execute(f"SELECT count(*) FROM ({rows})", (name[1], limit + 1)).fetchone()[0]
    return count > limit


def read_vectors(
    con: sqlite3.Connection, name: Name, ids: Ints, size: int, version: int | None = None
) -> tuple[Ints, Singles]:
    """The vectors of some rows, of those that are still in the partition and have not changed since
    a version.
    """
    import numpy as np

    since, bound = ("", ()) if version is None else (" AND +changed <= ?", (version,))
    sql = (
        f'SELECT "#id", vector FROM {quote(name[0])} WHERE "#id" IN '
        f"(SELECT value FROM json_each(?)) AND +part = ?{since}"
    )
    rows = con.execute(sql, (str(ids.tolist()), name[1], *bound)).fetchall()
    return np.fromiter((row for row, _ in rows), np.int64, len(rows)), matrix(rows, size)


def matrix(rows: Sequence[tuple[int, Any]], size: int) -> Singles:
    """The vectors of rows; zeros where another program stored something else."""
    import numpy as np

    odd = bytes(4 * size)
    blobs = (v if isinstance(v, bytes) and len(v) == len(odd) else odd for _, v in rows)
    return np.frombuffer(b"".join(blobs), "<f4").reshape(len(rows), size)


def _unit(vectors: Singles) -> Singles:
    import numpy as np

    wide = vectors.astype(np.float64)
    wide /= np.sqrt((wide * wide).sum(axis=1))[:, None]
    return wide.astype(np.float32)


def _batches(con: sqlite3.Connection, name: Name, size: int) -> Iterator[tuple[Ints, Singles]]:
    import numpy as np

    sql = f'SELECT "#id", vector FROM {quote(name[0])} WHERE part = ?'
    cursor = con.execute(sql, (name[1],))
    while rows := cursor.fetchmany(_BATCH):
        yield np.fromiter((row for row, _ in rows), np.int64, len(rows)), _unit(matrix(rows, size))


def _write(
    con: sqlite3.Connection, path: Path, name: Name, size: int, version: int, limit: int
) -> bool:
    """Build an index in a file of its own, in pieces: only a sample of the vectors is in memory at
    once. False if the partition is too small to need one.
    """
    import faiss
    import numpy as np

    sql = f'SELECT "#id" FROM {quote(name[0])} WHERE part = ?'
    ids = np.fromiter((row for (row,) in con.execute(sql, (name[1],))), np.int64)
    if len(ids) <= limit:
        return False
    sample, trials = _sampled(con, name, ids, size)
    index = _trained(sample, len(ids))
    truth = _Truth(trials)
    for some, vectors in _batches(con, name, size):
        index.add_with_ids(vectors, some)
        truth.add(some, vectors)
    nprobe, recall = truth.calibrate(index)
    faiss.write_index(index, str(path))
    witnesses = _newest(con, name, version)
    stamp = Stamp(*name, size, len(ids), version, nprobe, recall, witnesses, _checksum(path)[0])
    text = json.dumps(asdict(stamp)).encode()
    with path.open("ab") as file:
        file.write(text + len(text).to_bytes(8, "little") + _MAGIC)
        file.flush()
        os.fsync(file.fileno())
    return True


def _sampled(con: sqlite3.Connection, name: Name, ids: Ints, size: int) -> tuple[Singles, Singles]:
    """Vectors to train with, and others to measure the recall with."""
    import numpy as np

    rng = np.random.default_rng(0)
    number = min(len(ids), 32 * _lists(len(ids)) + _TRIALS)
    chosen = np.sort(rng.choice(ids, number, replace=False))
    vectors = _unit(read_vectors(con, name, chosen, size)[1])
    order = rng.permutation(len(vectors))
    trials = min(_TRIALS, len(vectors) // 2)
    return vectors[order[trials:]], vectors[order[:trials]]


def _lists(count: int) -> int:
    """The number of lists, as faiss recommends: with fewer, groups of like vectors share a list, or
    lie scattered over many.
    """
    return max(1, 4 * math.isqrt(count))


def _trained(sample: Singles, count: int) -> Any:
    import faiss

    lists, size = min(_lists(count), len(sample)), sample.shape[1]
    index = faiss.IndexIVFScalarQuantizer(
        faiss.IndexFlatIP(size),
        size,
        lists,
        faiss.ScalarQuantizer.QT_8bit,
        faiss.METRIC_INNER_PRODUCT,
    )
    index.cp.niter, index.cp.spherical, index.cp.min_points_per_centroid = 6, True, 1
    index.train(sample)
    return index


class _Truth:
    """The nearest stored vectors of some of them, by comparing all; to measure an index with."""

    def __init__(self, queries: Singles) -> None:
        import numpy as np

        self.queries = queries
        self.ids: Ints = np.empty((len(queries), 0), np.int64)
        self.scores: Singles = np.empty((len(queries), 0), np.float32)

    def add(self, ids: Ints, vectors: Singles) -> None:
        """Compare more vectors."""
        import numpy as np

        scores = np.concatenate([self.scores, self.queries @ vectors.T], axis=1)
        numbers = np.concatenate(
            [self.ids, np.broadcast_to(ids, (len(self.ids), len(ids)))], axis=1
        )
        if scores.shape[1] > _DEPTH + 1:
            best = np.argpartition(-scores, _DEPTH, axis=1)[:, : _DEPTH + 1]
            scores = np.take_along_axis(scores, best, axis=1)
            numbers = np.take_along_axis(numbers, best, axis=1)
        self.scores, self.ids = scores, numbers

    def calibrate(self, index: Any) -> tuple[int, float]:
        """Twice the number of lists that must be read for the recall wanted, because questions are
        less like the vectors than they are like each other; and the recall with it.
        """
        import numpy as np

        self.ids = np.take_along_axis(self.ids, np.argsort(-self.scores, axis=1), axis=1)
        nprobe = 1
        while nprobe < index.nlist and self._recall(index, nprobe) < _RECALL:
            nprobe *= 2
        nprobe = min(2 * nprobe, index.nlist)
        return nprobe, self._recall(index, nprobe)

    def _recall(self, index: Any, nprobe: int) -> float:
        """Of the vectors after the first, which is the query itself."""
        import faiss

        options = faiss.SearchParametersIVF(nprobe=nprobe)
        _, found = index.search(self.queries, _OVERFETCH * _DEPTH, params=options)
        pairs = zip(self.ids[:, 1:].tolist(), found.tolist(), strict=True)
        hits = sum(len(set(right) & set(row)) for right, row in pairs)
        return hits / max(self.ids[:, 1:].size, 1)


def _newest(con: sqlite3.Connection, name: Name, version: int) -> dict[str, int]:
    """Checksums of the newest vectors of a partition as of a version, by id."""
    sql = (
        f'SELECT "#id", vector FROM {quote(name[0])} WHERE part = ? AND changed <= ? '
        'ORDER BY changed DESC, "#id" DESC LIMIT ?'
    )
    rows = con.execute(sql, (name[1], version, _WITNESSES))
    return {str(row): zlib.crc32(vector) for row, vector in rows}


def _checksum(path: Path, end: int | None = None) -> tuple[int, int]:
    """Checksum of a file's beginning, and the length read."""
    checksum = length = 0
    with path.open("rb") as file:
        while piece := file.read(1 << 20 if end is None else min(1 << 20, end - length)):
            checksum, length = zlib.crc32(piece, checksum), length + len(piece)
    return checksum, length


def _load(
    con: sqlite3.Connection, path: Path, name: Name, size: int, version: int
) -> VectorIndex | None:
    """The index in a file, mapped into memory; None if it is missing, damaged, or of other data."""
    import faiss

    try:
        stamp, end = _read_stamp(path)
        if (stamp.table, stamp.partition, stamp.size) != (*name, size) or stamp.version > version:
            return None
        if _checksum(path, end)[0] != stamp.checksum or not _is_of(con, stamp):
            return None
        index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
        return VectorIndex(stamp, index) if _read_stamp(path)[0] == stamp else None
    except (OSError, ValueError, TypeError, RuntimeError):
        return None


def _read_stamp(path: Path) -> tuple[Stamp, int]:
    """The stamp at the end of a file, and where it begins. Raises OSError, ValueError, TypeError."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END) - 16
        file.seek(max(end, 0))
        tail = file.read()
        begin = end - int.from_bytes(tail[:8], "little")
        if tail[8:] != _MAGIC or begin < 0:
            raise ValueError("no stamp")
        file.seek(begin)
        return Stamp(**json.loads(file.read(end - begin))), begin


def _is_of(con: sqlite3.Connection, stamp: Stamp) -> bool:
    """Whether the newest vectors of the database, as of the version of a stamp, are its own. Some
    may have been deleted or overwritten since; then older ones follow, which it need not know.
    """
    newest = _newest(con, (stamp.table, stamp.partition), stamp.version)
    known = [row for row in newest if row in stamp.witnesses]
    if any(newest[row] != stamp.witnesses[row] for row in known):
        return False
    return bool(known) and list(newest)[: len(known)] == known
