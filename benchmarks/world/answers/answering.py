"""Questions about a conversation, answered from records of what was said: the claims of the records are
put together in order of time, as a careful reader would, and nothing else is known.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from benchmarks.world.answers.judging import is_form_of
from benchmarks.world.answers.reading import listed
from benchmarks.world.claims import ENDS, NAME, Claim, Relation, excludes
from benchmarks.world.dates import MONTHS, dated, iso
from benchmarks.world.messages import claims_in
from benchmarks.world.requests import Record

_NEVER = "0002-01-02T00:00:00Z"  # a time of which no message speaks
_DAY = r"\d{4}-\d\d-\d\d"
_VALID = re.compile(rf"\s*\((?:from (?P<since>{_DAY}))?\s?(?:until (?P<until>{_DAY}))?\)$")
_SAID_ON = re.compile(rf"(?P<day>{_DAY}): ")
_WHO = rf"(?:{NAME}(?: the [a-z]+)?)"
_ENTITY = rf"(?:the one who leads {_WHO}|the one whom (?:the one who leads )?{_WHO} knows|{_WHO})"


@dataclass(frozen=True)
class Answer:
    """A text, and the numbers of the records that it follows from."""

    text: str
    sources: tuple[int, ...]


@dataclass(frozen=True)
class Held:
    """A relation that held for some time, with the numbers of the records that state it."""

    kind: str
    subject: str
    target: str
    since: str
    until: str | None
    named: bool
    sources: tuple[int, ...]

    @property
    def relation(self) -> Relation:
        """Its kind, subject and target."""
        return self.kind, self.subject, self.target

    def holds(self, at: str) -> bool:
        """Whether it held at a time."""
        return self.since <= at and (self.until is None or at < self.until)


def answered(
    record: Record, overlooked: Callable[[int, int], bool] | None = None
) -> dict[str, Any]:
    """The answer to a question, or null, and the numbers of the records that it follows from.

    Args:
        record: `question`, `at` and `records`, each with `number`, `at` and `text`.
        overlooked: Whether the n-th claim of a record is overlooked.
    """
    notes = [_Note(one, overlooked or (lambda *_: False)) for one in listed(record["records"])]
    told = _Told([mention for note in notes for mention in note.mentions])
    at = record.get("at") or max((str(note.at) for note in notes if note.at), default=_NEVER)
    found = told.answer(record["question"], str(at))
    return (
        {"answer": found.text, "sources": list(found.sources)}
        if found
        else {"answer": None, "sources": []}
    )


def said_on(line: str, at: str | None) -> tuple[str, str | None]:
    """A line of a record without the day at its beginning, and when it was said: on that day, else at
    the time of the record.

    >>> said_on("2024-05-03: Ada has joined Luma.", None)
    ('Ada has joined Luma.', '2024-05-03T00:00:00Z')
    """
    match = _SAID_ON.match(line)
    return (line[match.end() :], f"{match['day']}T00:00:00Z") if match else (line, at)


@dataclass(frozen=True)
class _Mention:
    """A claim of a record."""

    claim: Claim
    number: int
    at: str
    named: bool


@dataclass(frozen=True)
class _Note:
    """A record: claims in its text, with the days that it names for them."""

    record: Record
    overlooked: Callable[[int, int], bool]

    @property
    def at(self) -> str | None:
        at: str | None = self.record.get("at")
        return at

    @cached_property
    def mentions(self) -> list[_Mention]:
        found: list[_Mention] = []
        for line in str(self.record["text"]).splitlines():
            told, at = said_on(line, self.at)
            valid = _VALID.search(told)
            for claim in claims_in(told[: valid.start()] if valid else told):
                if not self.overlooked(self.record["number"], len(found)):
                    found.append(self._mention(claim, at, valid))
        return found

    def _mention(self, claim: Claim, at: str | None, valid: re.Match[str] | None) -> _Mention:
        told = dated(claim, at or _NEVER)
        named = not (dated(claim, _NEVER).since or _NEVER).startswith(("0001", "0002"))
        if valid:
            since, until = (f"{day}T00:00:00Z" if day else None for day in valid.groups())
            told = replace(told, since=since or told.since, until=until or told.until)
            named = named or bool(since)
        return _Mention(told, self.record["number"], at or told.since or _NEVER, named)


@dataclass
class _Told:
    """What all records say together."""

    mentions: Sequence[_Mention]
    names: dict[str, str] = field(default_factory=dict)

    @cached_property
    def every_name(self) -> Counter[str]:
        """How often each name stands in the claims."""
        return Counter(n for m in self.mentions for n in (m.claim.subject, m.claim.target) if n)

    def name(self, short: str) -> str:
        """The fullest and commonest form of a name, unless it is a form of several names."""
        if short not in self.names:
            forms = [n for n in self.every_name if is_form_of(short, n)]
            fullest = max(
                forms, key=lambda n: (len(n.split()), self.every_name[n], n), default=short
            )
            fuller = [n for n in forms if len(n.split()) == len(fullest.split())]
            self.names[short] = fullest if all(is_form_of(n, fullest) for n in fuller) else short
        return self.names[short]

    def subject(self, claim: Claim) -> str:
        """The name of a subject, with the role that tells it from others of its name."""
        return (
            f"{self.name(claim.subject)} the {claim.role}"
            if claim.role
            else self.name(claim.subject)
        )

    @cached_property
    def held(self) -> list[Held]:
        """The relations, with the ends that follow from later ones."""
        found: list[Held] = []
        for mention in sorted(self.mentions, key=lambda m: (m.at, m.number)):
            self._put(found, mention)
        return [replace(one, until=_end(one, found)) for one in found]

    def _put(self, found: list[Held], mention: _Mention) -> None:
        """Add a relation, or a source to the one that is stated again."""
        claim = mention.claim
        subject, target, since = (
            self.subject(claim),
            self.name(claim.target),
            claim.since or mention.at,
        )
        if claim.wrong or claim.kind == "never":
            denied = self.name(claim.wrong) if claim.wrong else target
            kind = claim.kind if claim.wrong else ENDS["never"]
            wrong = [h for h in found if h.relation == (kind, subject, denied)]
            for one in wrong[-1:]:
                found.remove(one)
                since = since if mention.named else min(since, one.since)
            if not claim.wrong:
                return
        new = Held(
            claim.kind, subject, target, since, claim.until, mention.named, (mention.number,)
        )
        last = next((h for h in reversed(found) if h.relation == new.relation), None)
        if last is None or not _continues(last, new, found, said=mention.at):
            found.append(new)
            return
        again = replace(last, sources=tuple(dict.fromkeys((*last.sources, mention.number))))
        if new.named and not last.named:
            again = replace(again, since=new.since, named=True)
        found[found.index(last)] = replace(again, until=last.until or new.until)

    def answer(self, question: str, now: str) -> Answer | None:
        """The answer to a question, as far as it is understood."""
        for pattern, reply in _QUESTIONS:
            if match := re.fullmatch(pattern, question.strip()):
                said = match.groupdict()
                if "month" in said:
                    month = MONTHS.index(said["month"]) + 1
                    now = iso(datetime(int(said["year"]), month, 15, tzinfo=UTC))
                them = self.who(said["who"], now) if "who" in said else ("", ())
                return reply(_Asked(self, *them, said, now)) if them else None
        return None

    def who(self, words: str, now: str) -> tuple[str, tuple[int, ...]] | None:
        """The one that some words mean: a name, or somebody's lead or acquaintance."""
        if words.startswith("the one who leads "):
            found = self.only(
                "lead", now, target=self.name(words.removeprefix("the one who leads "))
            )
            return (found.subject, found.sources) if found else None
        if words.startswith("the one whom "):
            knower = self.who(words.removeprefix("the one whom ").removesuffix(" knows"), now)
            known = self.only("knows", now, subject=knower[0]) if knower else None
            return (known.target, (*known.sources, *knower[1])) if known and knower else None
        bare, _, role = words.partition(" the ")
        return (f"{self.name(bare)} the {role}" if role else self.name(bare)), ()

    def all(self, kind: str, now: str | None, *, subject: str = "", target: str = "") -> list[Held]:
        """The relations of a kind that hold at a time; None: at any."""
        return [
            h for h in self.held
            if h.kind == kind and (now is None or h.holds(now)) and subject in ("", h.subject) and target in ("", h.target)
        ]  # fmt: skip

    def only(self, kind: str, now: str, *, subject: str = "", target: str = "") -> Held | None:
        """The relation of a kind that began last, of those that hold at a time."""
        return max(
            self.all(kind, now, subject=subject, target=target), key=lambda h: h.since, default=None
        )


def _continues(last: Held, new: Held, found: Sequence[Held], *, said: str) -> bool:
    """Whether a statement is about a relation that was stated before: nothing ended it between."""
    if new.until is not None or last.until is not None:
        return (last.until or new.until) == new.until and new.named == last.named
    between = (h for h in found if last.since < h.since <= said)
    return not any(excludes(h.relation, last.relation) for h in between)


def _end(one: Held, found: Sequence[Held]) -> str | None:
    later = [h.since for h in found if h.since > one.since and excludes(h.relation, one.relation)]
    return min([*later, *([one.until] if one.until else [])], default=None)


def _names(
    found: Sequence[tuple[str, tuple[int, ...]]], more: tuple[int, ...] = ()
) -> Answer | None:
    """Names in alphabetical order, with the records behind them."""
    if not found:
        return None
    sources = dict.fromkeys(number for _, numbers in found for number in numbers)
    return Answer(
        ", ".join(sorted({name for name, _ in found})),
        (*sources, *(n for n in more if n not in sources)),
    )


@dataclass(frozen=True)
class _Asked:
    """A question: whom it is about, with the records that say so, its other words, and its time."""

    told: _Told
    subject: str
    sources: tuple[int, ...]
    said: Mapping[str, str]
    now: str

    @property
    def kind(self) -> str:
        return _KINDS[self.said["does"]]

    @property
    def what(self) -> str:
        return self.told.name(self.said["what"])


_KINDS = {
    "work": "job", "works": "job", "work at": "job", "changed jobs": "job", "organisations do people work at": "job",
    "live": "home", "lives": "home", "live in": "home", "moved to another place": "home", "places do people live in": "home",
    "lead": "lead", "leave": "left", "hand over": "handed",
}  # fmt: skip
"""The kinds of relations, by the words of questions."""


def _where(asked: _Asked) -> Answer | None:
    found = asked.told.only(asked.kind, asked.now, subject=asked.subject)
    return _names([(found.target, found.sources)], asked.sources) if found else None


def _known(asked: _Asked) -> Answer | None:
    found = asked.told.all("knows", asked.now, subject=asked.subject)
    return _names([(h.target, h.sources) for h in found], asked.sources)


def _leader(asked: _Asked) -> Answer | None:
    found = asked.told.only("lead", asked.now, target=asked.what)
    return _names([(found.subject, found.sources)]) if found else None


def _led(asked: _Asked) -> Answer | None:
    found = asked.told.all("lead", asked.now, subject=asked.subject)
    return _names([(h.target, h.sources) for h in found])


def _since(asked: _Asked) -> Answer | None:
    found = asked.told.only(asked.kind, asked.now, subject=asked.subject, target=asked.what)
    return Answer(found.since[:10], found.sources) if found else None


def _before(asked: _Asked) -> Answer | None:
    told, kind = asked.told, asked.kind
    here = told.only(kind, asked.now, subject=asked.subject, target=asked.what)
    every = told.all(kind, None, subject=asked.subject)
    earlier = [h for h in every if here and h.since < here.since]
    last = max(earlier, key=lambda h: h.since, default=None)
    return _names([(last.target, last.sources)], here.sources) if last and here else None


def _beside(asked: _Asked) -> Answer | None:
    here = asked.told.only(asked.kind, asked.now, subject=asked.subject)
    if here is None:
        return None
    found = asked.told.all(here.kind, asked.now, target=here.target)
    others = [(h.subject, h.sources) for h in found if h.subject != here.subject]
    return _names(others, here.sources)


def _people(asked: _Asked) -> Answer | None:
    found = asked.told.all(asked.kind, asked.now, target=asked.what)
    return _names([(h.subject, h.sources) for h in found])


def _changed(asked: _Asked) -> Answer | None:
    """Those of whom two relations of a kind are known that cannot hold together."""
    every: dict[str, list[Held]] = {}
    for one in asked.told.all(asked.kind, None):
        every.setdefault(one.subject, []).append(one)
    return _names([
        (subject, tuple(dict.fromkeys(number for h in found for number in h.sources)))
        for subject, found in every.items()
        if len({h.target for h in found}) > 1
    ])  # fmt: skip


def _anywhere(asked: _Asked) -> Answer | None:
    return _names([(h.target, h.sources) for h in asked.told.all(asked.kind, asked.now)])


_Reply = Callable[[_Asked], Answer | None]
_QUESTIONS: tuple[tuple[str, _Reply], ...] = (
    (rf"Where does (?P<who>{_ENTITY}) (?P<does>work|live)\?", _where),
    (
        rf"Where did (?P<who>{_ENTITY}) (?P<does>work|live) in (?P<month>{'|'.join(MONTHS)}) (?P<year>\d{{4}})\?",
        _where,
    ),
    (rf"Where did (?P<who>{_WHO}) (?P<does>work|live) before (?P<what>{_WHO})\?", _before),
    (rf"Whom does (?P<who>{_ENTITY}) know\?", _known),
    (rf"Who leads (?P<what>{_WHO})\?", _leader),
    (rf"Which project does (?P<who>{_WHO}) lead\?", _led),
    (rf"Since when does (?P<who>{_WHO}) (?P<does>work at|live in|lead) (?P<what>{_WHO})\?", _since),
    (rf"When did (?P<who>{_WHO}) (?P<does>leave|hand over) (?P<what>{_WHO})\?", _since),
    (rf"Who (?:works|lives) where (?P<who>{_WHO}) (?P<does>works|lives)\?", _beside),
    (rf"Who (?P<does>works|lives) (?:at|in) (?P<what>{_WHO})\?", _people),
    (r"Who has (?P<does>moved to another place|changed jobs)\?", _changed),
    (r"Which (?P<does>organisations do people work at|places do people live in)\?", _anywhere),
)
