"""Summaries of passages: their statements with the days on which they were said, each once, as many as
fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.world.answers.answering import said_on
from benchmarks.world.claims import ENDS, Claim
from benchmarks.world.dates import dated
from benchmarks.world.messages import claims_in, sentences_of
from benchmarks.world.requests import Record

WORDS = 150
"""Of a summary, at most, as its prompt has it."""
_UNDATED = "0002-01-02T00:00:00Z"


@dataclass(frozen=True)
class Statement:
    """A claim, and the time at which it was said."""

    claim: Claim
    at: str

    @property
    def line(self) -> str:
        """As a summary has it."""
        day = "" if self.at == _UNDATED else f"{self.at[:10]}: "
        return f"{day}{self.claim.text}"

    @property
    def since(self) -> str:
        """The beginning of its validity."""
        return dated(self.claim, self.at).since or self.at

    @property
    def named(self) -> bool:
        """Whether its own words hold the day of its beginning."""
        return not (dated(self.claim, _UNDATED).since or _UNDATED).startswith(("0001", "0002"))

    def again(self, other: Statement) -> bool:
        """Whether both say the same."""
        mine, theirs = self.claim, other.claim
        return all(
            getattr(mine, name) == getattr(theirs, name)
            for name in ("kind", "subject", "role", "target", "wrong")
        )

    def ends(self, other: Statement) -> bool:
        """Whether the other one, which was said before, no longer holds."""
        mine, theirs = self.claim, other.claim
        if self.since < other.since:
            return False
        if ENDS.get(mine.kind) == theirs.kind:
            return (mine.subject, mine.target) == (theirs.subject, theirs.target)
        if mine.kind != theirs.kind or self.again(other):
            return False
        if mine.kind in {"job", "home"}:
            return mine.subject == theirs.subject
        return mine.kind == "lead" and mine.target == theirs.target


def summed_up(records: Sequence[Record], _: Record) -> dict[str, Any]:
    """The statements of passages; their first sentences, if they state nothing."""
    found = once(statements((record["text"] or "", record.get("at")) for record in records))
    if found:
        return {"summary": "\n".join(one.line for one in fitting(found, WORDS))}
    talk = [s for record in records for s in sentences_of(record["text"] or "")]
    return {"summary": " ".join(dict.fromkeys(talk[:3]))}


def without(answer: dict[str, Any], overlooked: Callable[[int], bool]) -> dict[str, Any]:
    """A summary without the lines that are overlooked."""
    lines = answer["summary"].splitlines()
    return {"summary": "\n".join(line for i, line in enumerate(lines) if not overlooked(i))}


def statements(texts: Iterable[tuple[str, str | None]]) -> list[Statement]:
    """The claims of texts, in order of time.

    Args:
        texts: Each with the time at which it was said; None: its lines have days.
    """
    found = []
    for text, time in texts:
        for line in text.splitlines():
            words, at = said_on(line, time or None)
            found += [Statement(claim, at or _UNDATED) for claim in claims_in(words)]
    return sorted(found, key=lambda one: one.at)


def once(found: Sequence[Statement]) -> list[Statement]:
    """Statements without repetitions: what is said again after it ended, or with a day that was not
    named before, is no repetition.
    """
    kept: list[Statement] = []
    for one in found:
        last = next((other for other in reversed(kept) if one.again(other)), None)
        after = kept[kept.index(last) :] if last else []
        if last is None or one.named > last.named or any(o.ends(last) for o in after):
            kept.append(one)
    return kept


def fitting(found: Sequence[Statement], words: int) -> list[Statement]:
    """As many statements as fit, in their order; what no longer holds is left out first, then what was
    said first.
    """
    over = [a for i, a in enumerate(found) if any(b.ends(a) for b in found[i + 1 :])]
    kept = [*found]
    for one in [*over, *(o for o in found if o not in over)]:
        if sum(len(other.line.split()) for other in kept) <= words:
            break
        kept.remove(one)
    return kept
