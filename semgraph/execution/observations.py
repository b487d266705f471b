"""Observations: sums over earlier runs, by operator. `explain` bases estimates on them."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from dataclasses import fields as fields_of
from pathlib import Path

from semgraph.logical.node import Node
from semgraph.logical.semantic import Semantic, SemTopk
from semgraph.meter import StepMetrics
from semgraph.physical.plan import PhysicalPlan
from semgraph.privacy import create_private

_LOCK_SECONDS = 1.0  # short, because the event loop waits; runs do without locked statistics


@dataclass
class Seen:
    """Sums over runs, weighted so that older runs count less. Rows in are those of the first input;
    items are rows, pairs or groups that a model was asked about. `calls` are those that a run
    without a journal would issue (equal questions of one run count once), with their tokens and
    dollars (NaN if a price was unknown); `seconds` cover the `issued` ones.
    """

    runs: float = 0
    rows_in: float = 0
    rows_out: float = 0
    items: float = 0
    calls: float = 0
    issued: float = 0
    tokens_in: float = 0
    tokens_out: float = 0
    dollars: float = 0
    seconds: float = 0

    def add(self, other: Seen, weight: float = 1.0) -> Seen:
        """The sum of this one, weighted, and another one."""
        sums = zip(vars(self).values(), vars(other).values(), strict=True)
        return Seen(*(own * weight + added for own, added in sums))


def key_of(plan: PhysicalPlan, node: Node, models: str) -> str:
    """The key of a materialised node: content, implementation, window, and models if it asks."""
    parts = plan.nodes[node].content()
    if isinstance(node, Semantic):
        parts.append(f"models {models}")
    windowing = plan.logical.windows
    if windowing is not None and node.windowed:
        parts.append(f"window {windowing.size}, ahead {windowing.ahead}")
    return hashlib.blake2b(
        "\n".join(parts).encode("utf-8", "surrogatepass"), digest_size=16
    ).hexdigest()


def pace_key(model: str) -> str:
    """The key of the calls of a model, and their seconds, in all runs."""
    return f"pace of {model}"


@dataclass
class Observations:
    """The observations of one run with some models. A sample records no operators over groups,
    whose groups are smaller. Operators without any successful row are not recorded.
    """

    plan: PhysicalPlan
    models: str = ""
    sample: bool = False
    seen: dict[str, Seen] = field(default_factory=dict)
    _answered: dict[str, bool] = field(default_factory=dict)
    _keys: dict[Node, str] = field(default_factory=dict)

    def add_rows(self, node: Node, rows_in: int, rows_out: int) -> None:
        """Add the rows in and out of an operator that was computed."""
        self._add(node, Seen(1, rows_in, rows_out))

    def add_answers(
        self, node: Node, items: int, did: StepMetrics, replayed: StepMetrics, price: float = 1.0
    ) -> None:
        """Add the cost of the answers about some items. Earlier runs paid `replayed`. `price` is
        the fraction of the full price that was paid: estimates start from the full price.
        """
        key = self._key(node)
        self._answered[key] = did.rows_failed < max(items, 1) or self._answered.get(key, False)
        paid = StepMetrics()
        paid.add(did)
        paid.add(replayed)
        dollars = float("nan") if paid.dollars is None else paid.dollars
        dollars += (did.dollars or 0.0) * (1 / price - 1)
        calls, issued = paid.calls_issued, did.calls_issued
        seconds = did.seconds if issued else 0.0
        tokens = paid.tokens_in, paid.tokens_out
        self._add(node, Seen(0, 0, 0, items, calls, issued, *tokens, dollars, seconds))

    def _add(self, node: Node, seen: Seen) -> None:
        if self.sample and (node.rows == "collapse" or isinstance(node, SemTopk)):
            return
        key = self._key(node)
        self.seen[key] = self.seen.get(key, Seen()).add(seen)

    def _key(self, node: Node) -> str:
        if node not in self._keys:  # every window computes the same nodes
            self._keys[node] = key_of(self.plan, node, self.models)
        return self._keys[node]

    @property
    def useful(self) -> Mapping[str, Seen]:
        """The observations without operators that failed completely."""
        return {key: seen for key, seen in self.seen.items() if self._answered.get(key, True)}


class ObservationFile:
    """The file of observations. It is opened for each read and write; several processes may use it.
    Other models than `models` cost and answer differently.

    Only estimates depend on it, so no error of the file reaches the caller: `note` describes the
    error, or is "".
    """

    def __init__(self, path: Path, models: str = "") -> None:
        self.path, self.models = path, models
        self.note = ""

    @classmethod
    def beside(cls, journal: Path | None, models: str = "") -> ObservationFile | None:
        """The file of a journal; None without a journal."""
        if journal is None:
            return None
        return cls(journal.with_name(f"{journal.stem}.observed.db"), models)

    def read(self) -> Mapping[str, Seen]:
        """All observations, by `key_of`; empty if the file cannot be read."""
        try:
            return self._read()
        except (sqlite3.Error, OSError) as error:
            other = "check who holds it, and its rights"
            hint = "the next run replaces it" if _is_damage(error) else other
            what = f"{self.path} cannot be read ({error})"
            self.note = f"{what}: estimates do not use earlier runs; {hint}"
            return {}

    def add(self, seen: Mapping[str, Seen]) -> None:
        """Add the observations of a run. A damaged file is set aside and a new one is created."""
        if not seen:
            return
        try:
            try:
                self._add(seen)
            except sqlite3.Error as error:
                if not _is_damage(error):
                    raise
                aside = self.path.with_name(f"{self.path.name}.damaged")
                self.path.replace(aside)
                self.path.with_name(f"{self.path.name}-journal").unlink(missing_ok=True)
                self._add(seen)
                self.note = f"{self.path} was damaged ({error}): moved to {aside.name} and replaced; only estimates use it"
        except (sqlite3.Error, OSError) as error:
            self.note = (
                f"{self.path} cannot be written ({error}): later estimates will not know this run"
            )

    def _read(self) -> dict[str, Seen]:
        if not self.path.is_file():
            return {}
        with closing(self._open()) as database:
            rows = database.execute(f"SELECT key, {', '.join(_COLUMNS)} FROM observed").fetchall()
        return {key: Seen(*map(_number, rest)) for key, *rest in rows}

    def _add(self, seen: Mapping[str, Seen]) -> None:
        known = self._read()
        rows = [
            (key, *vars(known.get(key, Seen()).add(new, 0.5)).values()) for key, new in seen.items()
        ]
        with closing(self._open()) as database, database:
            marks = ", ".join("?" * (len(_COLUMNS) + 1))
            database.executemany(
                f"INSERT OR REPLACE INTO observed (key, {', '.join(_COLUMNS)}) VALUES ({marks})",
                rows,
            )

    def _open(self) -> sqlite3.Connection:
        create_private(self.path)
        database = sqlite3.connect(self.path, timeout=_LOCK_SECONDS)
        try:
            # A file that a power failure damages is replaced.
            database.execute("PRAGMA synchronous = OFF")
            columns = ", ".join(f"{name} REAL" for name in _COLUMNS)
            database.execute(
                f"CREATE TABLE IF NOT EXISTS observed (key TEXT PRIMARY KEY, {columns})"
            )
        except BaseException:
            database.close()
            raise
        return database


def _is_damage(error: Exception) -> bool:
    """Whether an error means that the file is damaged or foreign, not locked or unreadable."""
    codes = sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR
    return (
        getattr(error, "sqlite_errorcode", -1) & 0xFF in codes or type(error) is sqlite3.DataError
    )


_COLUMNS = tuple(f.name for f in fields_of(Seen))


def _number(value: object) -> float:
    if value is None:
        return float("nan")
    if not isinstance(value, (int, float)):
        raise sqlite3.DataError(f"a {type(value).__name__} where a number belongs")
    return float(value)
