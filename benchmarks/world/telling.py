"""The messages about the truth: which statements are made, when, and in which words."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from benchmarks.world import names
from benchmarks.world.claims import WAYS, Phrase, write
from benchmarks.world.difficulty import Difficulty
from benchmarks.world.life import DAYS, START, Span, Thing, Truth

END = START + timedelta(days=DAYS)


@dataclass(frozen=True)
class Statement:
    """A statement at a time.

    Args:
        at: Its time.
        kind: Of the claim; `denied` for one that was never valid.
        source: The subject.
        target: The object.
        span: The part of the truth that it states; None: none.
        phrase: Its words; None: those of the past.
        since: The named first day.
        until: The named last day.
        when: Those, in words.
    """

    at: datetime
    kind: str
    source: Thing
    target: Thing
    span: Span | None = None
    phrase: Phrase | None = None
    since: datetime | None = None
    until: datetime | None = None
    when: str = ""


def tell(draw: random.Random, truth: Truth, hard: Difficulty) -> list[Statement]:
    """All statements, in order of time, no two at one minute."""
    found = [s for span in truth.spans for s in _of_span(draw, span, hard)]
    if hard.level > 0:
        found += _denials(draw, truth)
    found.sort(key=lambda s: (s.at, s.span.key if s.span else "", s.source.key))
    return [replace(s, at=s.at + timedelta(seconds=n)) for n, s in enumerate(found)]


def _of_span(draw: random.Random, span: Span, hard: Difficulty) -> Iterator[Statement]:
    """The first statement of a span, and its repetitions during its validity."""
    if span.old:
        assert span.until is not None
        when = f"from {day_of(span.since)} to {day_of(span.until)}"
        at = START + timedelta(days=draw.randrange(10, DAYS), minutes=draw.randrange(600))
        yield Statement(
            at, span.kind, span.source, span.target, span, None, span.since, span.until, when
        )
        return
    days = 1 + draw.randrange(8) if span.since >= START else draw.randrange(35)
    begin = max(span.since, START) + timedelta(days=days)
    first = _said(draw, span, begin + timedelta(hours=8, minutes=draw.randrange(600)), hard)
    yield first
    ends = min(span.until or END, END)
    spare = (ends - first.at).days - 1
    repeats = span.kind not in {"left", "handed"} and spare > 5
    for _ in range(draw.choice((0, 1, 1, 2)) if repeats else 0):
        at = first.at + timedelta(days=draw.randrange(1, spare), minutes=draw.randrange(60))
        if at < ends:
            yield _repeated(draw, first, at, hard)


def _said(draw: random.Random, span: Span, at: datetime, hard: Difficulty) -> Statement:
    """The first telling: often with the day, and of a change as of one."""
    fresh = span.since >= START
    phrases = [p for p in WAYS[span.kind].now if fresh or not p.event]
    phrase = (
        draw.choice(phrases)
        if hard.level > 0
        else next((p for p in phrases if p.event), phrases[0])
    )
    told = Statement(at, span.kind, span.source, span.target, span, phrase)
    if span.kind == "knows" or draw.random() < 0.5:
        return told
    if hard.level > 1 and phrase.event and (at - span.since).days == 1 and draw.random() < 0.7:
        return replace(told, since=span.since, when="yesterday")
    return _dated(told)


def _dated(told: Statement) -> Statement:
    assert told.span is not None
    assert told.phrase is not None
    on = "on" if told.phrase.event else "since"
    return replace(told, since=told.span.since, when=f"{on} {day_of(told.span.since)}")


def _repeated(draw: random.Random, first: Statement, at: datetime, hard: Difficulty) -> Statement:
    """The same again: word by word, or with `phrases` in other words; with `told_later` now with
    the day.
    """
    if hard.level == 0 or draw.random() < 0.3:
        again = replace(first, at=at)
        return again if first.when != "yesterday" else replace(again, when="", since=None)
    states = [p for p in WAYS[first.kind].now if not p.event]
    again = replace(first, at=at, phrase=draw.choice(states), since=None, when="")
    if hard.level > 1 and not first.since and first.kind != "knows" and draw.random() < 0.3:
        return _dated(again)
    return again


def _denials(draw: random.Random, truth: Truth) -> Iterator[Statement]:
    """Of some people, that they do not work where they never worked."""
    for person in truth.of("person"):
        had = {span.target for span in truth.spans if span.source == person}
        others = [firm for firm in truth.of("organisation") if firm not in had]
        if others and draw.random() < 0.25:
            at = START + timedelta(days=draw.randrange(DAYS), minutes=draw.randrange(600))
            yield Statement(at, "denied", person, draw.choice(others))


@dataclass
class Calling:
    """The names of things in one message: constant or, with `many_names`, chosen at each use."""

    draw: random.Random
    hard: Difficulty
    _called: dict[str, str] = field(default_factory=dict)

    def __call__(self, thing: Thing) -> str:
        """A name: mostly the full one; else a first name, initials, or one with a slip."""
        if thing.key not in self._called or self.hard.level > 1:
            self._called[thing.key] = self._name(thing)
        return self._called[thing.key]

    def _name(self, thing: Thing) -> str:
        chance = self.draw.random()
        if thing.role:
            return thing.name
        short = self.hard.level > 0 if thing.kind == "person" else self.hard.level > 1
        if chance < 0.2 and thing.short and short:
            return thing.short
        if thing.kind == "person" and 0.2 <= chance < 0.2 + self.hard.slips:
            return names.misspelt(self.draw, thing.name)
        return thing.name


def worded(
    told: Statement, call: Callable[[Thing], str], *, speaker: Thing, pronoun: bool
) -> tuple[str, list[tuple[Thing, str]]]:
    """A statement as a sentence, and the names in it."""
    first = speaker == told.source and told.kind != "denied"
    subject, target = "She" if pronoun else call(told.source), call(told.target)
    role = "" if pronoun or first else told.source.role
    named = [(told.target, target)] + ([] if first or pronoun else [(told.source, subject)])
    if told.kind == "denied":
        who = f"{subject} the {role}" if role else subject
        return f"{who} does not work at {target}.", named
    text = write(told.kind, subject, told.phrase, target, role=role, when=told.when, first=first)
    return text, named


def day_of(at: datetime) -> str:
    """As messages name it."""
    return at.date().isoformat()
