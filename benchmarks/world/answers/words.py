"""Questions in words: their criterion and their text.

The last "that ..." clause is the criterion ("that somebody moved", "that Ada Costa works at Luma");
all else is the text. A question without such a clause is about two texts: "Are ... and ... the same
person?", "Do ... and ... contradict each other?", "Do ... and ... say the same?".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from benchmarks.world.answers.judging import alike, same, verdict, words
from benchmarks.world.claims import ENDS, NAME, Claim, read
from benchmarks.world.messages import claims_in, names_in
from benchmarks.world.requests import NotUnderstood
from benchmarks.world.vectors import vector_of

_CLAUSE = re.compile(r"\bthat (?P<what>[^?\n]+?)(?:\?|\.?\s*$|\.?\n)")
_BEFORE = re.compile(
    r"^(?:Does|Do|Did|Is it (?:said|stated|true) in|Say (?:whether|if|how \w+)|"
    r"How (?:strongly|clearly|well|likely|much) (?:does|do|is))\b\s*"
)
_AFTER = re.compile(
    r"\s*\b(?:say|says|state|states|tell|tells|mention|mentions|imply|support|supports)\s*$"
)
_ANYBODY = re.compile(r"\b(?:somebody|someone|anybody|anyone|a person|people)\b", re.IGNORECASE)
_ANYTHING = re.compile(r"\b(?:somewhere|something|an? [a-z]+)\s*$", re.IGNORECASE)
_SPOKEN = re.compile(rf"(?<![^\s\"'“:(])(?:{NAME}|\w+)\(\w+\): ")
_HEADING = re.compile(
    r"^(?:(?:Message|Text|Record|Statement|Fact|Said|Document|Left|Right)(?: \w+)?|[A-Z][a-z]+(?: [a-z]+)+): "
)
_KINDS = (
    (re.compile(r"\b(?:moved?|relocated?|settled)\b"), "home", True),
    (re.compile(r"\b(?:liv(?:es?|ing)|home|resid\w+)\b"), "home", False),
    (re.compile(r"\b(?:new job|changed jobs?|joined|hired|taken a job)\b"), "job", True),
    (re.compile(r"\b(?:no longer works|left|leave|quit|resigned)\b"), "left", False),
    (re.compile(r"\b(?:no longer leads|handed over|hand over|stepped down)\b"), "handed", False),
    (re.compile(r"\b(?:works?|job|employ\w+|employer)\b"), "job", False),
    (re.compile(r"\b(?:taken over)\b"), "lead", True),
    (re.compile(r"\b(?:leads?|leader|heads?|leadership)\b"), "lead", False),
    (re.compile(r"\b(?:knows?|friends?|acquainted)\b"), "knows", False),
)
_QUERY = re.compile(r"^Query: (?P<word>Where|Who|Whom|When|Since when) (?P<what>.+\?)$")
_SAME = re.compile(
    r"\b(?:the same (?:person|people|place|organisation|company|project|thing|entity|one)|one and the same)\b"
)
_CONTRADICT = re.compile(r"\b(?:contradict\w*|conflict\w*|incompatible|cannot both|exclude)\b")
_REPEAT = re.compile(
    r"\b(?:say the same|the same (?:fact|statement|thing in other words)|mean the same|duplicates?|repeats?)\b"
)


@dataclass(frozen=True)
class Wanted:
    """The criterion of a "that" clause; None: no constraint."""

    kind: str
    event: bool = False
    subject: str | None = None
    target: str | None = None

    def met_by(self, claim: Claim) -> float:
        """The degree to which a claim meets it, from 0 to 1: the kind counts most."""
        parts = [(2.0, claim.kind == self.kind and (claim.event or not self.event))]
        parts += [(1.0, alike(self.subject, claim.subject))] if self.subject else []
        parts += [(1.0, alike(self.target, claim.target))] if self.target else []
        return sum(weight for weight, met in parts if met) / sum(weight for weight, _ in parts)


@lru_cache(maxsize=4096)
def wanted(what: str) -> Wanted | None:
    """The criterion of a clause, or None if it is not understood."""
    what = what.strip().rstrip(".?\"'”")
    named = _ANYTHING.sub("Anything", _ANYBODY.sub("Anybody", what))
    claim = read(named + ".")
    if claim and claim.kind in {*ENDS, *ENDS.values(), "home", "knows"}:
        ends = claim.subject, claim.target
        named_ends = (None if n in {"Anybody", "Anything"} else n for n in ends)
        return Wanted(claim.kind, claim.event, *named_ends)
    for pattern, kind, event in _KINDS:
        if pattern.search(what):
            return Wanted(kind, event, *names_in(what)[:2])
    return None


def sought(query: str) -> Wanted | None:
    """The criterion of a search query, such as "Where does Ada Costa work?"; None if it is not
    understood.
    """
    match = _QUERY.match(query)
    kind = next(
        (kind for pattern, kind, _ in _KINDS if match and pattern.search(match["what"])), None
    )
    if match is None or kind is None or re.search(r"\bthe one\b| where ", match["what"]):
        return None  # of two facts that answer together, neither contains the answer
    names = names_in(match["what"].split(" before ")[0])
    ends = [name for name in names if kind in {"lead", "handed"} or not name.startswith("Project ")]
    if match["word"] in {"Who", "Whom"} and kind != "knows":
        return Wanted(kind, target=ends[0] if ends else None)
    return Wanted(kind, False, *ends[:2])


@dataclass(frozen=True)
class Asked:
    """A parsed question: its criterion, if it has a "that" clause, and its text."""

    wanted: Wanted | None
    what: str
    text: str

    @property
    def claims(self) -> list[Claim]:
        """The claims of the text."""
        return [claim for line in self.text.splitlines() for claim in claims_in(bare(line))]


@lru_cache(maxsize=4096)
def apart(question: str) -> Asked:
    """Parse a question. Hundreds of pairs share one."""
    clauses = [m for m in _CLAUSE.finditer(question) if wanted(m["what"])]
    if not clauses:
        return Asked(None, "", question)
    clause = clauses[-1]
    before = _AFTER.sub("", question[: clause.start()].rstrip())
    return Asked(wanted(clause["what"]), clause["what"], f"{before}\n{question[clause.end() :]}")


def bare(line: str) -> str:
    """A line without the words around its text: the first words of a question, a heading, quotation
    marks.
    """
    line = _AFTER.sub("", _BEFORE.sub("", line.strip()))
    if spoken := _SPOKEN.search(line):
        return line[spoken.start() :].strip("\"'“”")
    return _HEADING.sub("", line.strip()).strip().strip("\"'“”")


def holds(question: str, rules: str = "") -> bool:
    """Yes or no. Raises NotUnderstood."""
    asked = _with_rules(question, rules)
    if asked.wanted:
        return any(asked.wanted.met_by(claim) == 1 for claim in asked.claims)
    return _of_two(question, rules)


def relation(left: str, right: str) -> str | None:
    """The relation of two texts with one claim each: `duplicate`, `contradicts`, or None."""
    mine, theirs = claims_in(bare(left)), claims_in(bare(right))
    return verdict(mine[0].text, theirs[0].text) if mine and theirs else None


def strength(question: str, rules: str = "") -> float:
    """The strength of a statement, from 0 to 100; without a "that" clause, its nearness to the
    words of the question.
    """
    asked = _with_rules(question, rules)
    if asked.wanted:
        most = max((asked.wanted.met_by(claim) for claim in asked.claims), default=0.0)
        return round(90 * most + 10 * _nearness(asked.what, asked.text), 3)
    first, *rest = question.strip().splitlines() or [""]
    text = "\n".join(rest)
    if rest and (need := sought(first)):
        said = [claim for line in rest for claim in claims_in(bare(line))]
        most = max((need.met_by(claim) for claim in said), default=0.0)
        return round(90 * most + 10 * _nearness(first, text), 3)
    query, text = (first, text) if rest else (rules, question)
    if not query.strip():
        raise NotUnderstood(f"nothing says what the text is to fit: {question[:200]}")
    return round(100 * _nearness(query, text), 3)


def _nearness(one: str, other: str) -> float:
    """The nearness of two texts by their vectors, from 0 to 1."""
    return max(0.0, min(1.0, float(vector_of(one) @ vector_of(other))))


def _with_rules(question: str, rules: str) -> Asked:
    """The parsed question; if the clause is in the rules, the whole question is the text."""
    asked = apart(question)
    if asked.wanted is None and (ruled := apart(rules)).wanted:
        return Asked(ruled.wanted, ruled.what, question)
    return asked


def _of_two(question: str, rules: str) -> bool:
    all_words = f"{rules}\n{question}"
    left, right = halves(question)
    if _CONTRADICT.search(all_words):
        return relation(left, right) == "contradicts"
    if _REPEAT.search(all_words):
        return relation(left, right) == "duplicate"
    if _SAME.search(all_words):
        return _one_thing(bare(left), bare(right))
    raise NotUnderstood(f'no "that" clause, and no comparison: {question[:200]}')


def halves(question: str) -> tuple[str, str]:
    """The two texts that a question is about. Raises NotUnderstood."""
    if "\n\nRight record:\n" in question:
        left, _, right = question.removeprefix("Left record:\n").partition("\n\nRight record:\n")
        return left, right
    lines = [line for line in question.splitlines() if line.strip()]
    inner = re.sub(r"^(?:Are|Do|Does|Is) ", "", lines[0] if lines else "")
    inner = re.split(rf"(?:,? )(?:{_SAME.pattern}|{_CONTRADICT.pattern}|{_REPEAT.pattern})", inner)[
        0
    ]
    for between in (r"(?<=[.!?\"”]) and ", r", and ", r" and "):
        parts = re.split(between, inner, maxsplit=1)
        if len(parts) == 2:
            return parts[0], parts[1]
    if len(lines) >= 2:
        return lines[-2], lines[-1]
    raise NotUnderstood(f"no two texts in: {question[:200]}")


def _one_thing(left: str, right: str) -> bool:
    """Whether two descriptions, each with a name in it, are of one thing."""
    mine, theirs = names_in(left), names_in(right)
    if not mine or not theirs:
        return words(left) == words(right)
    return same(mine[0], left, theirs[0], _beyond(theirs[0], right, mine[0], left))


def _beyond(name: str, known: str, other: str, content: str) -> str:
    """The knowledge beyond the name; nothing if the other text is a bare name, which contradicts
    nothing.
    """
    return known if words(content) != words(other) and words(known) != words(name) else ""


def distinct(texts: Sequence[str]) -> list[str]:
    """Sentences of some texts, each once, in order."""
    said = [
        part.strip() for text in texts for part in re.split(r"(?<=[.!?])\s+", text) if part.strip()
    ]
    return list(dict.fromkeys(said))
