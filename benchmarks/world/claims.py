"""Sentences with a claim: written from claims, and parsed back. Parsing is the inverse of writing.

The parser also accepts sentences that the world never writes ("The deadline of Project Kite is May
1st."), for tests.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache

NAME = r"(?:[A-Z][\w'&-]*(?: (?:[A-Z][\w'&-]*|\d+\b))*)"
_THING = r"(?:[\w'&-]+(?: [\w'&-]+)*?)"
_SUBJECT = rf"(?P<s>{NAME})(?: the (?P<role>[a-z]+))?"
# what may follow
_REST = r"(?P<rest>(?: (?:as|in|on|since|until|from|with|once|now|again|yesterday|at some time)\b.*|, .*)?)"


@dataclass(frozen=True)
class Claim:
    """The content of a sentence.

    Args:
        subject: A name.
        relation: Such as WORKS_AT.
        target: A second name.
        text: The sentence itself, in the third person.
        kind: A class of relations that may repeat or deny each other: job, home, lead, left,
            handed, tie, plan, deadline, a verb.
        value: The target's value where it has no name, such as the day of a deadline.
        since: The start of its validity, in ISO 8601; None if unknown.
        until: The end of its validity.
        undatable: It is valid at some unknown time.
        event: A change ("has moved to"), not a state ("lives in").
        role: The difference of the subject from others of its name: "Sam Weber the pilot".
        wrong: The denied target: "..., not Luma".
    """

    subject: str
    relation: str
    target: str
    text: str
    kind: str
    value: str = ""
    since: str | None = None
    until: str | None = None
    undatable: bool = False
    event: bool = False
    role: str = ""
    wrong: str = ""


_FIRST = {
    "is": "am", "has": "have", "works": "work", "lives": "live", "leads": "lead", "knows": "know"
}  # fmt: skip
"""Verbs in the first person."""


@dataclass(frozen=True)
class Phrase:
    """A wording of a relation in the third person: a state or, with `event`, a change."""

    third: str
    event: bool = False

    @property
    def first(self) -> str:
        """The same in the first person.

        >>> Phrase("is the head of").first
        'am the head of'
        """
        return " ".join(_FIRST.get(word, word) for word in self.third.split())


@dataclass(frozen=True)
class Way:
    """The wordings of a relation: as a state and as a change in the present, in the past, and
    further ones that only the parser knows, as a pattern.
    """

    relation: str
    states: tuple[str, ...]
    events: tuple[str, ...] = ()
    past: str = ""
    also: str = ""

    @property
    def now(self) -> tuple[Phrase, ...]:
        """The wordings in the present."""
        return (*map(Phrase, self.states), *(Phrase(event, event=True) for event in self.events))

    @property
    def pattern(self) -> str:
        """All verbs, the longest first."""
        said = {*self.states, *self.events, *filter(None, [self.past])}
        longest = sorted(said, key=len, reverse=True)
        return "|".join([*map(re.escape, longest), *filter(None, [self.also])])


# What the world says, by kind. `left` and `handed` end a job and a lead, `never` says that there
# was none.
WAYS: dict[str, Way] = {
    "left": Way(
        "LEFT", ("no longer works at",), ("has left",), also="no longer works for|left|quit"
    ),
    "handed": Way("HANDED_OVER", ("no longer leads",), ("has handed over",)),
    "never": Way("NEVER_WORKED_AT", ("has never worked at", "never worked at")),
    "job": Way(
        "WORKS_AT",
        ("works at", "is employed by"),
        ("has joined", "has taken a job at"),
        "worked at",
        "works for|worked for|has started (?:at|for)|is working (?:at|for)|joined",
    ),
    "home": Way(
        "LIVES_IN", ("lives in",), ("has moved to", "has settled in"), "lived in", "moved to"
    ),
    "lead": Way("LEADS", ("leads", "is the head of"), ("has taken over",), "led"),
    "knows": Way("KNOWS", ("knows", "is a friend of")),
}
ENDS = {"left": "job", "handed": "lead", "never": "job"}
"""Kinds that end another of the same subject and target."""
Relation = tuple[str, object, object]
"""A kind, a subject and a target."""


def excludes(other: Relation, one: Relation) -> bool:
    """Whether two relations cannot hold together: one ends the other, or nobody has both homes or
    jobs, or nothing both leads.
    """
    (kind, *ends), (its_kind, *its_ends) = other, one
    if ENDS.get(kind) == its_kind or ENDS.get(its_kind) == kind:
        return ends == its_ends
    if kind != its_kind:
        return False
    if kind in {"home", "job"}:
        return ends[0] == its_ends[0]
    return kind == "lead" and ends[1] == its_ends[1]


_EVENTS = r"(?:has |have )?(?:moved to|settled in|joined|taken a job at|taken over|handed over|left)|quit|has started"

# Patterns with their relation and kind, in the order of attempts.
# `s`: subject, `o`: target.
_PATTERNS: tuple[tuple[re.Pattern[str], str, str], ...] = tuple(
    (re.compile(pattern), relation, kind)
    for pattern, relation, kind in (
        (
            rf"{_SUBJECT} (?:will (?:start|work) (?:at|for)|will join|plans to join) (?P<o>{_THING}){_REST}\.",
            "WILL_JOIN",
            "plan",
        ),
        (
            rf"{_SUBJECT} is (?:currently |now )?leading (?P<o>{NAME}){_REST}\.",
            "LEADING_PROJECT",
            "lead",
        ),
        *(
            (rf"{_SUBJECT} (?P<v>{w.pattern}) (?P<o>{_THING}){_REST}\.", w.relation, kind)
            for kind, w in WAYS.items()
        ),
        (rf"{_SUBJECT} is related to (?P<o>{NAME}){_REST}\.", "RELATED_TO", "tie"),
        (
            rf"{_SUBJECT} (?!(?:is|has|was|does)\b)(?P<verb>[a-z]+(?:s|ed)) (?:(?:in|at|by|to|with) )?(?P<o>{NAME}){_REST}\.",
            "",
            "verb",
        ),
    )
)
_DEADLINE_OF = re.compile(rf"The deadline of (?P<p>{NAME}) is (?P<day>.+)\.")
_DENIED = re.compile(
    rf"{NAME}(?: the [a-z]+)? (?:does not|did not|has not|has never|never|is not|was not)\b"
)
_NEVER = re.compile(rf"{NAME}(?: the [a-z]+)? (?:has )?never worked at\b")
_ANY_MORE = re.compile(r" does not (work at|work for|lead) (.+?) any ?more\b")
_WRONG = re.compile(rf", not (?:at |in )?(?P<wrong>{NAME})")
_SAID = {verb for way in WAYS.values() for p in way.now for verb in (p.third, p.first)}
_VERBS = "|".join(map(re.escape, sorted(_SAID, key=len, reverse=True)))
_NOT_BUT = re.compile(
    rf"^[Ii]t was not (?P<wrong>{NAME}) but (?P<right>{NAME}) "
    rf"that (?P<who>I|{NAME}(?: the [a-z]+)?) (?P<verb>{_VERBS})(?P<when> .*)?$"
)


@lru_cache(10_000)
def read(sentence: str) -> Claim | None:
    """The claim of one sentence, as far as it is understood. A denial has no claim."""
    deadline = _DEADLINE_OF.fullmatch(sentence)
    if deadline:
        return Claim("", "PROJECT_DEADLINE", deadline["p"], sentence, "deadline", deadline["day"])
    plain = _ANY_MORE.sub(
        lambda m: f" no longer {m[1].replace('work', 'works').replace('lead', 'leads')} {m[2]}",
        sentence,
    )
    if _DENIED.match(plain) and not _NEVER.match(plain):
        return None
    for pattern, relation, kind in _PATTERNS:
        match = pattern.fullmatch(plain)
        if match:
            found = match.groupdict()
            name = relation or found["verb"].upper()
            claim = Claim(found["s"], name, found["o"], sentence, kind if kind != "verb" else name)
            return replace(
                claim,
                undatable=bool(re.search(r"\b(once|at some time)\b", found["rest"])),
                event=bool(re.fullmatch(_EVENTS, found.get("v") or "")),
                role=found["role"] or "",
                wrong=wrong["wrong"] if (wrong := _WRONG.search(found["rest"])) else "",
            )
    return None


def straight(sentence: str) -> str:
    """A sentence without its full stop, rewritten from "it was not X but Y that ..." to "... Y, not
    X".

    >>> straight("it was not Luma but Acme that Ann has joined on 2024-03-01")
    'Ann has joined Acme on 2024-03-01, not Luma'
    """
    match = _NOT_BUT.match(sentence)
    if match is None:
        return sentence
    return f"{match['who']} {match['verb']} {match['right']}{match['when'] or ''}, not {match['wrong']}"


def write(
    kind: str,
    subject: str,
    phrase: Phrase | None,
    target: str,
    *,
    role: str = "",
    when: str = "",
    first: bool = False,
) -> str:
    """A sentence.

    Args:
        kind: A key of WAYS.
        subject: The subject; omitted in the first person.
        phrase: The wording; None: that of the past.
        target: The target.
        role: The difference of the subject from others of its name.
        when: "since 2024-03-01", "on 2024-03-01", "from 2020-01-01 to 2022-05-01", or nothing.
        first: In the first person.
    """
    verb = WAYS[kind].past if phrase is None else phrase.first if first else phrase.third
    who = "I" if first else f"{subject} the {role}" if role else subject
    return f"{who} {verb} {target}{f' {when}' if when else ''}."
