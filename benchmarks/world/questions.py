"""Questions about a world, with their answers and the facts that answer them.

The questions are about the content of the messages up to a time. No parser of these sentences is
needed: the questions are for a search, with hits that are compared with `edges`, or for a model,
with answers that are compared with `answer`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import pairwise, zip_longest

from benchmarks.world import names
from benchmarks.world.dates import MONTHS
from benchmarks.world.gold import Entity, Fact, Gold
from benchmarks.world.world import World

KINDS = ("now", "then", "since", "before", "two hops", "unanswerable")
"""Kinds that a few messages answer."""

WIDER = ("three hops", "global")
"""Kinds for memories that walk, or that summarise: over three facts, and over all of a kind."""


@dataclass(frozen=True)
class Question:
    """A question about a world.

    Args:
        text: In words.
        answer: A name, names in alphabetical order with ", " between them, or a day (2024-03-01);
            "" if unanswerable.
        kind: `now` (valid at the time), `then` (valid in a month), `since` (the first day),
            `before` (the predecessor of the valid fact), `two hops`, `unanswerable`, `three hops`,
            `global` (over all facts of a kind).
        subject: The name of its subject, as in the text.
        edges: Keys of the gold facts that answer it, the one with the answer first; none if
            unanswerable.
        about: The time of the question; None: any.
    """

    text: str
    answer: str
    kind: str
    subject: str
    edges: tuple[str, ...]
    about: datetime | None = None


def questions(
    world: World, at: datetime, *, count: int, seed: int = 1, kinds: Sequence[str] = KINDS
) -> list[Question]:
    """Questions at a time, the same for the same arguments; of each kind as many as possible.

    Args:
        world: The world.
        at: The time; only messages up to it count, and it is "now".
        count: The number of questions.
        seed: Of the random choice among the possible ones.
        kinds: Those of `KINDS` and `WIDER` that are asked.

    Raises:
        ValueError: The world has fewer questions by then; has their number.
    """
    draw = random.Random(f"questions/{world.seed}/{world.difficulty.name}/{seed}/{at.isoformat()}")
    known = _Known(world, at, draw)
    made = [_drawn(draw, make(known)) for kind, make in _MAKERS.items() if kind in kinds]
    turns = (one for turn in zip_longest(*made) for one in turn if one is not None)
    found = [one for _, one in zip(range(count), turns, strict=False)]
    if len(found) < count:
        raise ValueError(
            f"{len(found)} questions can be asked of this world at {at:%Y-%m-%d}, not {count}: have more people"
        )
    return sorted(found, key=lambda one: (*KINDS, *WIDER).index(one.kind))


def _drawn(draw: random.Random, made: Iterator[Question]) -> list[Question]:
    found = list({one.text: one for one in made}.values())
    draw.shuffle(found)
    return found


@dataclass
class _Known:
    """The content of the messages up to a time."""

    world: World
    at: datetime
    draw: random.Random
    gold: Gold = field(init=False)

    def __post_init__(self) -> None:
        self.told = [episode for episode in self.world.episodes if episode.at <= self.at]
        self.gold = self.world.gold(after=len(self.told))
        # full names in the messages
        self.entities = {e.key: e for e in self.gold.entities if e.name in e.names}
        self._roles = {thing.key: thing.role for thing in self.world.truth.things}

    @cached_property
    def facts(self) -> list[Fact]:
        """The facts between things with names in the messages."""
        return [f for f in self.gold.facts if {f.source, f.target} <= set(self.entities)]

    @cached_property
    def now(self) -> list[Fact]:
        """Of those, the valid ones."""
        return [f for f in self.facts if f.holds(self.at)]

    @cached_property
    def dated(self) -> set[str]:
        """Keys of the facts with a named first day."""
        return {s.span.key for e in self.told for s in e.statements if s.span and s.since}

    def name(self, key: str) -> str:
        """A name that nobody else has."""
        name, role = self.entities[key].name, self._roles[key]
        return f"{name} the {role}" if role else name

    def of(self, kind: str) -> list[Entity]:
        """Things of a kind."""
        return [e for e in self.entities.values() if e.kind == kind]

    def one(self, relation: str, **ends: str) -> Fact | None:
        """The only valid fact, or None."""
        wanted = {"relation": relation, **ends}
        found = [f for f in self.now if all(getattr(f, n) == v for n, v in wanted.items())]
        return found[0] if len(found) == 1 else None


_NOW = {
    "WORKS_AT": "Where does {} work?",
    "LIVES_IN": "Where does {} live?",
    "KNOWS": "Whom does {} know?",
}
_THEN = {"WORKS_AT": "Where did {} work in {}?", "LIVES_IN": "Where did {} live in {}?"}
_SINCE = {
    "WORKS_AT": "Since when does {} work at {}?", "LIVES_IN": "Since when does {} live in {}?",
    "LEADS": "Since when does {} lead {}?", "LEFT": "When did {} leave {}?", "HANDED_OVER": "When did {} hand over {}?",
}  # fmt: skip
_BEFORE = {"WORKS_AT": "Where did {} work before {}?", "LIVES_IN": "Where did {} live before {}?"}


def _present(known: _Known) -> Iterator[Question]:
    for fact in known.now:
        who, what = known.name(fact.source), known.name(fact.target)
        if fact.relation in _NOW and known.one(fact.relation, source=fact.source):
            yield Question(_NOW[fact.relation].format(who), what, "now", who, (fact.key,), known.at)
        elif fact.relation == "LEADS" and known.one("LEADS", target=fact.target):
            yield Question(f"Who leads {what}?", who, "now", what, (fact.key,), known.at)


def _past(known: _Known) -> Iterator[Question]:
    """Months within a fact's validity, if it ended before the time of the question."""
    for fact in known.facts:
        if fact.relation not in _THEN or fact.invalid_at is None or fact.invalid_at > known.at:
            continue
        every = _months(fact.valid_at, fact.invalid_at)
        if months := [month for month in every if not _others(known, fact, *month)]:
            first, _ = known.draw.choice(months)
            who, when = known.name(fact.source), f"{MONTHS[first.month - 1]} {first.year}"
            text, about = _THEN[fact.relation].format(who, when), first + timedelta(days=14)
            yield Question(text, known.name(fact.target), "then", who, (fact.key,), about)


def _months(since: datetime, until: datetime) -> list[tuple[datetime, datetime]]:
    """The months from their first moment to that of the next, that lie between two times."""
    starts = [
        datetime(year, month, 1, tzinfo=UTC)
        for year in range(since.year, until.year + 2)
        for month in range(1, 13)
    ]
    return [(a, b) for a, b in pairwise(starts) if since <= a and b <= until]


def _others(known: _Known, fact: Fact, since: datetime, until: datetime) -> list[Fact]:
    """Facts of the same subject and relation that also hold then."""
    return [
        other for other in known.gold.facts
        if (other.source, other.relation) == (fact.source, fact.relation) and other.key != fact.key
        and other.valid_at < until and (other.invalid_at is None or other.invalid_at > since)
    ]  # fmt: skip


def _begun(known: _Known) -> Iterator[Question]:
    for fact in known.now:
        if fact.relation in _SINCE and fact.key in known.dated:
            who, what = known.name(fact.source), known.name(fact.target)
            text = _SINCE[fact.relation].format(who, what)
            yield Question(text, f"{fact.valid_at:%Y-%m-%d}", "since", who, (fact.key,))


def _earlier(known: _Known) -> Iterator[Question]:
    for fact in known.now:
        if fact.relation not in _BEFORE or not known.one(fact.relation, source=fact.source):
            continue
        same = [
            f for f in known.gold.facts if (f.source, f.relation) == (fact.source, fact.relation)
        ]
        before = [f for f in same if f.valid_at < fact.valid_at]
        last = max(before, key=lambda f: f.valid_at, default=None)
        twice = sum(f.target == fact.target for f in same) > 1
        if last is None or last not in known.facts or twice:
            continue
        who, what = known.name(fact.source), known.name(fact.target)
        text = _BEFORE[fact.relation].format(who, what)
        yield Question(text, known.name(last.target), "before", who, (last.key, fact.key))


def _hops(known: _Known) -> Iterator[Question]:
    for fact in known.now:
        if fact.relation in {"WORKS_AT", "LIVES_IN"}:
            yield from _beside(known, fact)
        elif fact.relation == "LEADS" and known.one("LEADS", target=fact.target):
            what = known.name(fact.target)
            yield from _beyond(known, fact, what, f"the one who leads {what}", fact.source)
        elif fact.relation == "KNOWS" and known.one("KNOWS", source=fact.source):
            who = known.name(fact.source)
            yield from _beyond(known, fact, who, f"the one whom {who} knows", fact.target)


def _beside(known: _Known, fact: Fact) -> Iterator[Question]:
    """The other people who work or live there."""
    where = fact.relation, fact.target
    others = [f for f in known.now if (f.relation, f.target) == where and f.key != fact.key]
    if others and known.one(fact.relation, source=fact.source):
        who, does = known.name(fact.source), "works" if fact.relation == "WORKS_AT" else "lives"
        answer = ", ".join(sorted(known.name(f.source) for f in others))
        edges = (*(f.key for f in others), fact.key)
        yield Question(f"Who {does} where {who} {does}?", answer, "two hops", who, edges, known.at)


def _beyond(known: _Known, fact: Fact, about: str, them: str, key: str) -> Iterator[Question]:
    """Where the one lives and works whom a fact leads to."""
    for relation, does in (("WORKS_AT", "work"), ("LIVES_IN", "live")):
        if end := known.one(relation, source=key):
            answer, edges = known.name(end.target), (end.key, fact.key)
            yield Question(f"Where does {them} {does}?", answer, "two hops", about, edges, known.at)


def _unknown(known: _Known) -> Iterator[Question]:
    """Questions about people, relations and times that no message mentions."""
    persons, stated = known.of("person"), {(f.source, f.relation) for f in known.gold.facts}
    there = {thing.name for thing in known.world.truth.things}
    strangers = [n for n in names.people(known.draw, min(200, len(persons) + 20)) if n not in there]
    for person in persons:
        who = known.name(person.key)
        texts = [f"When was {who} born?", f"What does {who} like to eat?"]
        texts += [f"Which project does {who} lead?"] if (person.key, "LEADS") not in stated else []
        texts += [f"Where did {who} live in March 1985?"]
        yield Question(known.draw.choice(texts), "", "unanswerable", who, ())
    for who in strangers[: len(persons)]:
        text = known.draw.choice((_NOW["WORKS_AT"], _NOW["LIVES_IN"])).format(who)
        yield Question(text, "", "unanswerable", who, ())


def _further(known: _Known) -> Iterator[Question]:
    """Where the one lives or works whom the leader of a project knows."""
    for fact in known.now:
        if fact.relation != "LEADS" or not known.one("LEADS", target=fact.target):
            continue
        what = known.name(fact.target)
        if friend := known.one("KNOWS", source=fact.source):
            them = f"the one whom the one who leads {what} knows"
            for one in _beyond(known, friend, what, them, friend.target):
                yield replace(one, kind="three hops", edges=(*one.edges, fact.key))


_CHANGED = {
    "WORKS_AT": ("Who has changed jobs?", "Which organisations do people work at?", "Who works at {}?"),
    "LIVES_IN": ("Who has moved to another place?", "Which places do people live in?", "Who lives in {}?"),
}  # fmt: skip


def _wide(known: _Known) -> Iterator[Question]:
    """All that have changed, all that there is, and all at one place."""
    for relation, (changed, there, here) in _CHANGED.items():
        every = [f for f in known.gold.facts if f.relation == relation]
        now = [f for f in every if f.holds(known.at)]
        if not all({f.source, f.target} <= set(known.entities) for f in every):
            continue  # somebody is known by a short name alone
        both = [f for f in every if len({o.target for o in every if o.source == f.source}) > 1]
        moved = {f.source for f in both}
        yield _listing(known, changed, both, moved)
        yield _listing(known, there, now, {f.target for f in now})
        for place in dict.fromkeys(f.target for f in now):
            found = [f for f in now if f.target == place]
            yield _listing(known, here.format(known.name(place)), found, {f.source for f in found})


def _listing(known: _Known, text: str, facts: Sequence[Fact], keys: set[str]) -> Question:
    answer = ", ".join(sorted(known.name(key) for key in keys))
    return Question(text, answer, "global", "", tuple(f.key for f in facts), known.at)


_MAKERS: Mapping[str, Callable[[_Known], Iterator[Question]]] = {
    "now": _present,
    "then": _past,
    "since": _begun,
    "before": _earlier,
    "two hops": _hops,
    "unanswerable": _unknown,
    "three hops": _further,
    "global": _wide,
}
