"""The truth: things, and their relations with their validity."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from benchmarks.world import names
from benchmarks.world.difficulty import Difficulty

START = datetime(2024, 1, 1, tzinfo=UTC)
DAYS = 400
Ends = tuple["Thing", "Thing"]  # of a relation
_SETTLED = 60  # days at the beginning without changes, so that everything can be stated once


@dataclass(frozen=True)
class Thing:
    """A person, organisation, place or project.

    Args:
        key: Its key, in no text.
        name: Its full name.
        kind: person, organisation, place or project.
        role: Its difference from another of its name ("" mostly): "Sam Weber the pilot".
        short: A short name ("": none): a unique first name, or initials.
    """

    key: str
    name: str
    kind: str
    role: str = ""
    short: str = ""


@dataclass(frozen=True)
class Span:
    """A relation of two things, from midnight of a day up to another; None: open.

    Args:
        key: Its key, in no text.
        kind: job, home, lead, knows, or left (a job), handed (a lead): the end of one.
        source: The subject.
        target: The object.
        since: The first day.
        until: The day of the end.
        old: It ended long ago, and is mentioned only afterwards.
    """

    key: str
    kind: str
    source: Thing
    target: Thing
    since: datetime
    until: datetime | None = None
    old: bool = False


@dataclass(frozen=True)
class Truth:
    """All things, and all their relations."""

    things: tuple[Thing, ...]
    spans: tuple[Span, ...]

    def of(self, kind: str) -> list[Thing]:
        """The things of a kind."""
        return [thing for thing in self.things if thing.kind == kind]


def live(draw: random.Random, people: int, hard: Difficulty) -> Truth:
    """A truth with so many people (and, with homonyms, a few more who share a name)."""
    persons = [Thing(f"p{i}", name, "person") for i, name in enumerate(names.people(draw, people))]
    if hard.level > 1:
        persons = _with_homonyms(draw, persons)
    persons = _with_short_names(persons)
    firms = _things("o", "organisation", names.organisations(draw, max(3, people // 2)))
    firms = [replace(firm, short=names.initials(firm.name)) for firm in firms]
    places = _things("c", "place", names.places(draw, min(100, max(3, people // 2))))
    projects = _things("j", "project", names.projects(draw, min(100, max(2, people // 3))))
    spans: list[Span] = []
    for person in persons:
        spans += _chain(draw, "home", person, places, hard)
        spans += _chain(draw, "job", person, firms, hard)
        if hard.level > 0 and draw.random() < 0.5:
            spans.append(_old_job(draw, person, firms, spans))
    for project in projects:
        spans += _leaders(draw, project, persons, hard)
    spans += _acquaintances(draw, persons)
    spans += [end for span in spans if (end := _ending(span, spans))]
    numbered = tuple(replace(span, key=f"f{i}") for i, span in enumerate(spans))
    return Truth((*persons, *firms, *places, *projects), numbered)


def _things(letter: str, kind: str, called: list[str]) -> list[Thing]:
    return [Thing(f"{letter}{i}", name, kind) for i, name in enumerate(called)]


def _with_homonyms(draw: random.Random, persons: list[Thing]) -> list[Thing]:
    """One pair with equal names for eight people, distinguished by their roles."""
    chosen = draw.sample(range(len(persons)), max(1, len(persons) // 8))
    found = list(persons)
    for n, i in enumerate(chosen):
        one, other = draw.sample(names.ROLES, 2)
        found[i] = replace(persons[i], role=one)
        found.append(Thing(f"p{len(persons) + n}", persons[i].name, "person", other))
    return found


def _with_short_names(persons: list[Thing]) -> list[Thing]:
    firsts = Counter(person.name.split()[0] for person in persons)
    return [
        replace(p, short=first) if firsts[first := p.name.split()[0]] == 1 else p for p in persons
    ]


def _chain(
    draw: random.Random, kind: str, person: Thing, targets: list[Thing], hard: Difficulty
) -> Iterator[Span]:
    """Consecutive spans: from before the beginning, with up to two changes, or four of who goes back.
    Jobs may have gaps from level 1 on, and may be resumed from level 2 on.
    """
    level = hard.level if kind == "job" else 0
    back = bool(hard.returns) and draw.random() < hard.returns
    often = draw.choice((2, 3, 4) if back else (0, 1, 1, 2))
    changes = sorted(draw.sample(range(_SETTLED, DAYS - 60, 30), often))
    few = min(len(targets), often + 1)
    where = _to_and_fro(draw, targets, often + 1) if back else draw.sample(targets, few)
    if often == 2 and level > 1 and draw.random() < 0.5:
        where[2] = where[0]
    starts = [
        START - timedelta(days=draw.randrange(100, 2000)),
        *(START + timedelta(days=day) for day in changes),
    ]
    return _in_turn(draw, kind, [(person, one) for one in where], starts, level)


def _in_turn(
    draw: random.Random, kind: str, ends: list[Ends], starts: list[datetime], level: int
) -> Iterator[Span]:
    """Spans one after the other, of which the last is open; from level 1 on some have gaps between."""
    for (source, target), since, end in zip(ends, starts, (*starts[1:], None), strict=True):
        gap = timedelta(days=20 if end and level > 0 and draw.random() < 0.4 else 0)
        yield Span("", kind, source, target, since, end and end - gap)


def _to_and_fro(draw: random.Random, things: list[Thing], count: int) -> list[Thing]:
    """So many of a few things, the first of them again after the second, no two in a row equal."""
    few = draw.sample(things, min(len(things), 3))
    found = [few[0], few[1], few[0]]
    while len(found) < count:
        found.append(draw.choice([one for one in few if one != found[-1]]))
    return found


def _old_job(draw: random.Random, person: Thing, firms: list[Thing], spans: list[Span]) -> Span:
    """A job from before the first, mentioned long after its end."""
    mine = [span for span in spans if span.source == person and span.kind == "job"]
    first = min(span.since for span in mine)
    until = first - timedelta(days=draw.randrange(30, 400))
    others = [firm for firm in firms if firm not in {span.target for span in mine}] or firms
    firm, since = draw.choice(others), until - timedelta(days=draw.randrange(200, 900))
    return Span("", "job", person, firm, since, until, old=True)


def _leaders(
    draw: random.Random, project: Thing, persons: list[Thing], hard: Difficulty
) -> Iterator[Span]:
    """Who leads a project: one, or two after each other, of whom the first may lead it again."""
    starts = [START - timedelta(days=draw.randrange(50, 700))]
    if hard.returns and draw.random() < hard.returns:
        days = sorted(draw.sample(range(_SETTLED, DAYS - 60, 30), 2))
        starts += [START + timedelta(days=day) for day in days]
        leaders = _to_and_fro(draw, persons, 3)
    else:
        if draw.random() < 0.6:
            starts.append(START + timedelta(days=draw.randrange(_SETTLED, DAYS - 60)))
        leaders = draw.sample(persons, len(starts))
    return _in_turn(draw, "lead", [(one, project) for one in leaders], starts, hard.level)


def _acquaintances(draw: random.Random, persons: list[Thing]) -> Iterator[Span]:
    """Each knows the next in a random ring of the people with unique names."""
    ring = [person for person in draw.sample(persons, len(persons)) if not person.role]
    for one, other in pairwise(ring):
        yield Span("", "knows", one, other, START - timedelta(days=draw.randrange(10, 900)))


def _ending(span: Span, spans: list[Span]) -> Span | None:
    """That somebody left, or handed over, where nothing followed at once: until it is taken up
    again.
    """
    kind = {"job": "left", "lead": "handed"}.get(span.kind)
    if kind is None or span.until is None or span.old:
        return None
    alike = [s for s in spans if s.kind == span.kind]
    end = "source" if span.kind == "job" else "target"
    if any(s.since == span.until and getattr(s, end) == getattr(span, end) for s in alike):
        return None
    ends = span.source, span.target
    again = [s.since for s in alike if (s.source, s.target) == ends and s.since > span.until]
    return Span("", kind, span.source, span.target, span.until, min(again, default=None))
