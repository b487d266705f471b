"""The graph of some messages, derived from the truth behind them, not from their words.

A fact is valid from the day that any message names for it, else from its first message. It is valid
until the named day, or until the start of a fact that excludes it, as far as messages state that:
another home or job of the same person, another lead of the same project, the end of the job or lead
itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from benchmarks.world.claims import WAYS, Relation, excludes
from benchmarks.world.life import Span, Thing
from benchmarks.world.telling import Statement


@dataclass(frozen=True)
class Episode:
    """A message: its text, its statements of the truth, and its entities, with the names that it
    uses.
    """

    number: int
    uuid: str
    at: datetime
    content: str
    statements: tuple[Statement, ...]
    mentions: tuple[tuple[Thing, str], ...]


@dataclass(frozen=True)
class Entity:
    """Somebody or something, with all names that were used, and the messages that name it."""

    key: str
    kind: str
    name: str
    names: tuple[str, ...]
    episodes: tuple[str, ...]


@dataclass(frozen=True)
class Fact:
    """A relation of two entities (by key), with its validity and the messages that state it."""

    key: str
    source: str
    relation: str
    target: str
    valid_at: datetime
    invalid_at: datetime | None
    episodes: tuple[str, ...]

    def holds(self, at: datetime) -> bool:
        """Whether it is valid at a time: from its beginning up to, but not at, its end."""
        return self.valid_at <= at and (self.invalid_at is None or at < self.invalid_at)


@dataclass(frozen=True)
class Gold:
    """The expected content of a graph."""

    entities: tuple[Entity, ...]
    facts: tuple[Fact, ...]


@dataclass
class _Known:
    """The known part of a span so far."""

    span: Span
    first: datetime
    since: datetime | None = None
    until: datetime | None = None
    episodes: list[str] = field(default_factory=list)

    @property
    def valid_at(self) -> datetime:
        return self.since or self.first


def told(episodes: Sequence[Episode], at: datetime | None = None) -> Gold:
    """The graph that messages tell; with a time, only the facts that hold then."""
    known: dict[str, _Known] = {}
    for episode in episodes:
        for statement in episode.statements:
            if span := statement.span:
                one = known.setdefault(span.key, _Known(span, episode.at))
                one.since, one.until = one.since or statement.since, one.until or statement.until
                one.episodes.append(episode.uuid)
    facts = [_fact(one, known.values()) for one in known.values()]
    return Gold(_entities(episodes), tuple(fact for fact in facts if at is None or fact.holds(at)))


def _fact(one: _Known, known: Iterable[_Known]) -> Fact:
    later = [o.valid_at for o in known if o.valid_at > one.valid_at and excludes(*_both(o, one))]
    until = min([*later, *([one.until] if one.until else [])], default=None)
    span = one.span
    return Fact(
        span.key, span.source.key, WAYS[span.kind].relation, span.target.key, one.valid_at, until,
        tuple(dict.fromkeys(one.episodes)),
    )  # fmt: skip


def _both(*known: _Known) -> tuple[Relation, ...]:
    return tuple((one.span.kind, one.span.source, one.span.target) for one in known)


def _entities(episodes: Sequence[Episode]) -> tuple[Entity, ...]:
    found: dict[str, Entity] = {}
    for episode in episodes:
        for thing, name in episode.mentions:
            had = found.get(thing.key) or Entity(thing.key, thing.kind, thing.name, (), ())
            names, where = dict.fromkeys((*had.names, name)), (*had.episodes, episode.uuid)
            found[thing.key] = replace(
                had, names=tuple(names), episodes=tuple(dict.fromkeys(where))
            )
    return tuple(found.values())
