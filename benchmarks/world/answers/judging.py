"""Comparing: two facts, two names."""

from __future__ import annotations

import re

from benchmarks.world.claims import ENDS, Claim, read
from benchmarks.world.dates import period
from benchmarks.world.vectors import COMMON

_ONE_TARGET = frozenset({"job", "home"})  # nobody has two
_ONE_SUBJECT = frozenset({"lead", "OWNS"})  # nothing has two
_LONG = 6  # letters from which a slip of one letter is taken for one


def verdict(new: str, known: str) -> str | None:
    """`duplicate`, `contradicts` or None, for two facts in words."""
    if words(new) == words(known):
        return "duplicate"
    a, b = read(new), read(known)
    if a is None or b is None:
        return None
    for ending, ended in ((a, b), (b, a)):
        if ENDS.get(ending.kind) == ended.kind:
            both = alike(a.subject, b.subject) and alike(a.target, b.target) and _one_role(a, b)
            return "contradicts" if both else None
    return _verdict(a, b) if a.kind == b.kind else None


def _verdict(a: Claim, b: Claim) -> str | None:
    subjects, targets = alike(a.subject, b.subject) and _one_role(a, b), alike(a.target, b.target)
    if subjects and (
        (a.wrong and alike(a.wrong, b.target)) or (b.wrong and alike(b.wrong, a.target))
    ):
        return "contradicts"
    if a.kind == "deadline":
        return None if not targets else "duplicate" if a.value == b.value else "contradicts"
    if subjects and targets:
        return (
            "duplicate" if period(a.text) == period(b.text) else None
        )  # twice at one place are two times
    if (a.kind in _ONE_TARGET and subjects) or (a.kind in _ONE_SUBJECT and targets):
        return "contradicts"
    return None


def _one_role(a: Claim, b: Claim) -> bool:
    return not (a.role and b.role) or a.role == b.role


def same(name: str, content: str, known_name: str, known: str) -> bool:
    """Whether a name in a message is that of a known thing: by the name, and for equal names by the
    known facts.
    """
    if words(name) == words(known_name):
        mine, theirs = _role(name, content), _role(known_name, known)
        if mine and theirs:
            return mine == theirs
        about = _telling(known) - set(words(name))
        return not about or bool(about & _telling(content))
    return is_form_of(name, known_name)


def is_form_of(a: str, b: str) -> bool:
    """Whether one name is a form of the other: a part of it, its initials, or a slip of one letter."""
    mine, theirs = words(a), words(b)
    if set(mine) <= set(theirs) or set(theirs) <= set(mine):
        return True
    return any(
        short.isupper() and short.lower() == "".join(word[0] for word in words(long))
        for short, long in ((a, b), (b, a))
    ) or _slip(" ".join(mine), " ".join(theirs))


def alike(a: str, b: str) -> bool:
    """Whether two names in facts may be of one thing."""
    return is_form_of(a, b)


def _slip(a: str, b: str) -> bool:
    """Whether two long names without digits differ by one letter: put in, left out, or two
    exchanged.
    """
    if min(len(a), len(b)) < _LONG or any(c.isdigit() for c in a + b) or a[0] != b[0]:
        return False
    if abs(len(a) - len(b)) == 1:
        short, long = sorted((a, b), key=len)
        return any(long[:i] + long[i + 1 :] == short for i in range(len(long)))
    different = [i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y]
    if len(a) != len(b) or len(different) != 2:
        return False
    i, j = different
    return j == i + 1 and a[i] == b[j] and a[j] == b[i]


def words(text: str) -> list[str]:
    """Its words in lower case."""
    return re.findall(r"[^\W_]+", text.lower())


def _telling(text: str) -> set[str]:
    return {word for word in words(text) if word not in COMMON and len(word) > 2}


def _role(name: str, text: str) -> str:
    """The role of a person in a text: "Sam Weber the pilot" is a pilot."""
    match = re.search(rf"\b{re.escape(name)} the (?P<role>[a-z]+)\b", text)
    return match["role"] if match else ""
