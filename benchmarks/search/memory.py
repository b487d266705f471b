"""A graph of a chosen number of facts, as rows of a store, and questions with their relevant rows.

All questions are about one synthetic world. Further worlds, with other endings of names ("Ada
Costa" becomes "Ada Costabe"), fill the same group up to the number of facts: the relevant rows stay
the same, and the number of distractors grows.
"""

from __future__ import annotations

import random
import re
import uuid
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from itertools import count
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.world import World
from benchmarks.world.claims import write
from benchmarks.world.gold import Fact, Gold
from benchmarks.world.life import Thing
from benchmarks.world.questions import questions
from benchmarks.world.vectors import vector_of
from semgraph.expr.functions import key
from semgraph.stores.base import EdgeWrite, NodeWrite, WriteBatch

GROUP, DIMENSIONS, SEED = "memory", 256, 1
SCOPES = ("facts", "entities", "episodes", "communities")
_ASKED, _FURTHER = 48, 24
"""People of the world of the questions, and of each further world."""
_MADE = datetime(2025, 3, 1, tzinfo=UTC)
_NAMESPACE = uuid.UUID("0b1f3c1c-5f4e-5c59-9f0e-3f1d8a6f6b52")
_NODES = ("Episodic", "Entity", "Community")
Row = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """A question, and by scope the uuids of its relevant rows: the facts that answer it, the
    entities at their ends, the episodes that state them, and the communities of its subject.
    `center` is the subject's uuid.
    """

    text: str
    center: str
    gold: dict[str, frozenset[str]]


@dataclass
class Memory:
    """Rows by label, and the world of the questions."""

    world: World
    gold: Gold
    rows: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))

    def batches(self, size: int = 10_000) -> Iterator[WriteBatch]:
        """The rows to write, nodes before edges; in the order of uuids, so that the order of tied
        hits has no information, whether a store orders by keys or by insertion.
        """
        for label in sorted(self.rows, key=lambda name: name not in _NODES):
            kind = NodeWrite if label in _NODES else EdgeWrite
            rows = sorted(self.rows[label], key=itemgetter("uuid"))
            for start in range(0, len(rows), size):
                part = rows[start : start + size]
                columns = {name: _column(name, [row[name] for row in part]) for name in part[0]}
                yield WriteBatch((kind(label, pa.table(columns)),))

    def asked(self, number: int, seed: int) -> list[Asked]:
        """So many answerable questions, in an order of their own; the same for the same
        arguments.
        """
        last = self.world.episodes[-1].at
        drawn = questions(self.world, last, count=number * 13 // 10, seed=seed)
        known = {thing.name: thing for thing in self.world.truth.things}
        answerable = [one for one in drawn if one.edges]
        random.Random(seed).shuffle(answerable)
        return [self._asked(one.text, known[one.subject], one.edges) for one in answerable[:number]]

    def _asked(self, text: str, subject: Thing, keys: tuple[str, ...]) -> Asked:
        facts = [fact for fact in self.gold.facts if fact.key in keys]
        ends = (end for fact in facts for end in (fact.source, fact.target))
        center = _uuid(0, subject.key)
        of = (row["source"] for row in self.rows["HAS_MEMBER"] if row["target"] == center)
        found = {
            "facts": frozenset(_uuid(0, fact.key) for fact in facts),
            "entities": frozenset(_uuid(0, end) for end in ends),
            "episodes": frozenset(one for fact in facts for one in fact.episodes),
            "communities": frozenset(of),
        }
        return Asked(text, center, found)


@lru_cache(maxsize=2)
def memory_of(facts: int) -> Memory:
    """The memory of so many facts; always the same."""
    made: Memory | None = None
    for number in count():
        world = World.make(SEED + number, _FURTHER if number else _ASKED, group=f"{GROUP} {number}")
        gold = world.gold()
        made = made or Memory(world, gold)
        _Telling(made.rows, number, world).add(gold, facts)
        if len(made.rows["RELATES_TO"]) >= facts:
            return made
    raise AssertionError


class _Telling:
    """Adds one world's graph."""

    def __init__(self, rows: dict[str, list[Row]], number: int, world: World) -> None:
        self._rows, self._number, self._world = rows, number, world
        self._ending = _syllables(number)
        self._things = {thing.key: thing for thing in world.truth.things}
        self._lasts = {thing.name.split()[-1] for thing in self._things.values()}
        told = (s for e in reversed(world.episodes) for s in reversed(e.statements))
        self._first = {s.span.key: s for s in told if s.span}

    def add(self, gold: Gold, most: int) -> None:
        """Add the rows of a world, with facts up to the limit."""
        facts = gold.facts[: most - len(self._rows["RELATES_TO"])]
        stated: dict[str, list[str]] = defaultdict(list)
        for fact in facts:
            for told in fact.episodes:
                stated[told].append(self._id(fact.key))
        for entity in gold.entities:
            name, own = self._name(entity.key), self._id(entity.key)
            self._add("Entity", own, name=name, name_key=key(name), **_named(name))
            for episode in entity.episodes:
                mention = self._id(f"{entity.key} {episode}")
                self._add("MENTIONS", mention, source=episode, target=own)
        for said in self._world.episodes:
            text = re.sub(r"[A-Z]\w+", self._renamed, said.content)
            more = {"source": "message", "source_description": "", "valid_at": said.at}
            more["entity_edges"] = stated[said.uuid]
            self._add("Episodic", said.uuid, name=f"message {said.number}", content=text, **more)
        for fact in facts:
            self._fact(fact)
        self._communities(facts)

    def _add(self, label: str, own: str, **row: Any) -> None:
        self._rows[label].append({"uuid": own, "group_id": GROUP, "created_at": _MADE, **row})

    def _fact(self, fact: Fact) -> None:
        said, ends = self._first[fact.key], (self._name(fact.source), self._name(fact.target))
        text = write(said.kind, ends[0], said.phrase, ends[1], when=said.when)
        self._add(
            "RELATES_TO", self._id(fact.key), name=fact.relation, fact=text, episodes=list(fact.episodes),
            source=self._id(fact.source), target=self._id(fact.target), valid_at=fact.valid_at, invalid_at=fact.invalid_at,
            expired_at=None if fact.invalid_at is None else _MADE, reference_time=said.at,
            fact_embedding=vector_of(text, DIMENSIONS),
        )  # fmt: skip

    def _communities(self, facts: tuple[Fact, ...]) -> None:
        """A community for each organisation: the people who worked there."""
        staff: dict[str, dict[str, None]] = defaultdict(dict)
        for fact in facts:
            if fact.relation == "WORKS_AT":
                staff[fact.target][fact.source] = None
        for firm, members in staff.items():
            community = self._id(f"{firm} staff")
            name = f"{', '.join(map(self._name, members))} at {self._name(firm)}"
            self._add("Community", community, name=name, **_named(name))
            for one in (*members, firm):
                own = self._id(f"{firm} {one}")
                self._add("HAS_MEMBER", own, source=community, target=self._id(one))

    def _id(self, own: str) -> str:
        return _uuid(self._number, own)

    def _name(self, own: str) -> str:
        return self._things[own].name + self._ending

    def _renamed(self, word: re.Match[str]) -> str:
        return word[0] + self._ending * (word[0] in self._lasts)


def _uuid(number: int, own: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, f"{number} {own}"))


def _named(name: str) -> Row:
    return {"summary": "", "name_embedding": vector_of(name, DIMENSIONS)}


def _syllables(number: int) -> str:
    """An ending of its own for each number; none for 0.

    >>> [_syllables(n) for n in (0, 1, 69, 70)]
    ['', 'be', 'zu', 'babe']
    """
    found = ""
    while number:
        number, digit = divmod(number, 70)
        found += "bdfgklmnprstvz"[digit // 5] + "aeiou"[digit % 5]
    return found


def _column(name: str, values: list[Any]) -> pa.Array:
    if name.endswith("_embedding"):
        flat = pa.array(np.concatenate(values), pa.float32())
        return pa.FixedSizeListArray.from_arrays(flat, DIMENSIONS)
    if name.endswith("_at") or name == "reference_time":
        return pa.array(values, pa.timestamp("us", "UTC"))
    return pa.array(values, pa.list_(pa.string()) if isinstance(values[0], list) else pa.string())
