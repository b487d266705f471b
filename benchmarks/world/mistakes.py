"""Corrected mistakes, late statements, and separate statements of ends.

Statements of a world are altered after they are generated, by separate random draws, so that worlds
with equal other features have one truth and, apart from this, the same messages.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta

from benchmarks.world.claims import NEGATED, WAYS
from benchmarks.world.difficulty import Difficulty
from benchmarks.world.life import DAYS, START, Span, Thing, Truth
from benchmarks.world.telling import END, Statement, day_of

_KINDS = {"job": "organisation", "home": "place", "knows": "person"}
"""The kinds that can be misstated, and of which things."""


def altered(
    seed: str, truth: Truth, statements: list[Statement], hard: Difficulty
) -> list[Statement]:
    """The statements with the additions of a difficulty, in order of time, no two at one second."""
    found = list(statements)
    if hard.negations:
        found = _negated(random.Random(f"negations/{seed}"), truth, found, hard.negations)
    if hard.backdated:
        found = _backdated(random.Random(f"backdated/{seed}"), truth, found, hard.backdated)
    if hard.corrections:
        found = list(
            _corrected(random.Random(f"corrections/{seed}"), truth, found, hard.corrections)
        )
    if hard.retractions:
        found += _retracted(random.Random(f"retractions/{seed}"), truth, found, hard.retractions)
    return found if found == statements else list(_in_order(found))


def _in_order(statements: Iterable[Statement]) -> Iterator[Statement]:
    last = None
    for one in sorted(statements, key=lambda s: s.at):
        last = one.at if last is None or one.at > last else last + timedelta(seconds=1)
        yield replace(one, at=last)


def _negated(
    draw: random.Random, truth: Truth, statements: Sequence[Statement], rate: float
) -> list[Statement]:
    """Ends in other words; jobs with an immediate successor also get a statement of their end."""
    found = []
    for one in statements:
        phrase = NEGATED.get(one.kind)
        if phrase and draw.random() < rate:
            found.append(
                replace(one, phrase=phrase, when=f"since {day_of(one.since)}" if one.since else "")
            )
        else:
            found.append(one)
    ended = {(s.source, s.target, s.since) for s in truth.spans if s.kind == "left"}
    for job in [s for s in truth.spans if s.kind == "job" and not s.old]:
        if (
            job.until is None
            or (job.source, job.target, job.until) in ended
            or draw.random() >= rate
        ):
            continue
        again = [
            s.since
            for s in truth.spans
            if (s.kind, s.source, s.target) == ("job", job.source, job.target)
        ]
        until = min((since for since in again if since >= job.until), default=None)
        span = Span(f"n{len(found)}", "left", job.source, job.target, job.until, until)
        at = job.until + timedelta(days=1 + draw.randrange(8), hours=8, minutes=draw.randrange(600))
        told = Statement(at, "left", job.source, job.target, span, NEGATED["left"])
        dated = replace(told, since=job.until, when=f"since {day_of(job.until)}")
        found.append(dated if draw.random() < 0.5 else told)
    return found


def _backdated(
    draw: random.Random, truth: Truth, statements: Sequence[Statement], rate: float
) -> list[Statement]:
    """Homes and jobs of the period, stated only after they and their successors have ended."""
    found = list(statements)
    for span in truth.spans:
        if span.kind not in {"home", "job"} or span.old or span.since < START or span.until is None:
            continue
        if draw.random() >= rate:
            continue
        found = [one for one in found if one.span != span]
        at = span.until + timedelta(
            days=12 + draw.randrange(50), hours=8, minutes=draw.randrange(600)
        )
        when = f"from {day_of(span.since)} to {day_of(span.until)}"
        found.append(
            Statement(
                at, span.kind, span.source, span.target, span, None, span.since, span.until, when
            )
        )
    return found


def _corrected(
    draw: random.Random, truth: Truth, statements: Sequence[Statement], rate: float
) -> Iterator[Statement]:
    """First statements with a wrong target, and their corrections within a day."""
    told: set[str] = set()
    for one in statements:
        first = one.span is not None and one.span.key not in told
        told |= {one.span.key} if one.span else set()
        wrong = None
        if first and one.phrase and one.kind in _KINDS and draw.random() < rate:
            wrong = _other(draw, truth, one)
        if wrong is None:
            yield one
            continue
        assert one.span is not None
        false = replace(one.span, key=f"x{len(told)}", target=wrong, until=None)
        yield replace(one, target=wrong, span=false, alone=True, of_others=True)
        at = one.at + timedelta(minutes=draw.randrange(5, 20 * 60))
        when = f"on {day_of(one.since)}" if one.when == "yesterday" and one.since else one.when
        wording = draw.choice(("not", "not but"))
        yield replace(
            one, at=at, when=when, wrong=wrong, retracts=false, alone=True, wording=wording
        )


def _other(draw: random.Random, truth: Truth, one: Statement) -> Thing | None:
    """A thing of the same kind without any relation to the subject."""
    had = {span.target for span in truth.spans if span.source == one.source}
    others = [
        t for t in truth.of(_KINDS[one.kind]) if t not in had and t != one.source and not t.role
    ]
    return draw.choice(others) if others else None


def _retracted(
    draw: random.Random, truth: Truth, statements: Sequence[Statement], rate: float
) -> Iterator[Statement]:
    """Of some people a job that they never had, and within days that they never had it."""
    for person in truth.of("person"):
        mine = [s for s in statements if s.source == person]
        had = {s.target for s in mine} | {
            span.target for span in truth.spans if span.source == person
        }
        others = [firm for firm in truth.of("organisation") if firm not in had]
        busy = [s.at for s in mine if s.kind in {"job", "left", "denied"}]
        at = START + timedelta(
            days=draw.randrange(60, DAYS - 10), hours=8, minutes=draw.randrange(600)
        )
        over = at + timedelta(hours=draw.randrange(2, 90))
        if (
            not others
            or draw.random() >= rate
            or any(at - timedelta(days=1) < t < over for t in busy)
            or over >= END
        ):
            continue
        firm = draw.choice(others)
        false = Span(f"y{person.key}", "job", person, firm, at)
        never = Span(f"z{person.key}", "never", person, firm, at)
        states = [p for p in WAYS["job"].now if not p.event]
        yield Statement(
            at, "job", person, firm, false, draw.choice(states), alone=True, of_others=True
        )
        yield Statement(
            over, "never", person, firm, never, draw.choice(WAYS["never"].now), retracts=false, alone=True
        )  # fmt: skip
