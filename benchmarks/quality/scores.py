"""The scores of each community, for figures that are comparable with theirs."""

from __future__ import annotations

import re
import sqlite3
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from statistics import fmean

_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normal(text: str, articles: str = "a|an|the") -> str:
    """A text in lower case, without punctuation and articles, its words apart by one blank."""
    bare = text.lower().translate(_PUNCTUATION)
    return " ".join(re.sub(rf"\b({articles})\b", " ", bare).split())


def stems(words: Sequence[str]) -> list[str]:
    """Words by Porter's algorithm, which SQLite's full-text index has."""
    with sqlite3.connect(":memory:") as base:
        base.execute(
            """CREATE VIRTUAL TABLE said USING fts5(word, tokenize = "porter unicode61 remove_diacritics 0")"""
        )
        base.execute("CREATE VIRTUAL TABLE stem USING fts5vocab(said, instance)")
        base.executemany("INSERT INTO said(rowid, word) VALUES (?, ?)", enumerate(words))
        found: dict[int, str] = {}
        for number, stem in base.execute("SELECT doc, term FROM stem ORDER BY doc, offset"):
            found[number] = found.get(number, "") + stem
    base.close()
    return [found.get(number, word) for number, word in enumerate(words)]


def token_f1(answer: Sequence[str], truth: Sequence[str]) -> float:
    """F1 of the words of two texts, as multisets."""
    common = sum((Counter(answer) & Counter(truth)).values())
    if not common:
        return 0.0
    precision, recall = common / len(answer), common / len(truth)
    return 2 * precision * recall / (precision + recall)


def locomo(answer: str, truth: str, kind: str) -> float:
    """LoCoMo's score of an answer: F1 of stemmed words; of an adversarial question whether it is
    declined.

    Several facts (multi-hop) are separated by commas: the mean over the true ones of the best match
    among the answers. Of an answer with reasons (open-domain) only the part before the first
    semicolon counts.
    """
    if kind == "adversarial":
        said = answer.lower()
        return float("not mentioned" in said or "no information available" in said)
    if kind == "multi-hop":
        given = [_locomo_words(part) for part in answer.split(",")]
        wanted = [_locomo_words(part) for part in truth.split(",")]
        return fmean(max(token_f1(one, want) for one in given) for want in wanted)
    true = truth.partition(";")[0] if kind == "open-domain" else truth
    return token_f1(_locomo_words(answer), _locomo_words(true))


def _locomo_words(text: str) -> list[str]:
    return stems(normal(text, "a|an|the|and").split())


def best_f1(answer: str, truths: Iterable[str]) -> float:
    """F1 of words with the nearest of the true answers."""
    words = normal(answer).split()
    return max(token_f1(words, normal(truth).split()) for truth in truths)


def recall_at(k: int, found: Sequence[str], truth: AbstractSet[str]) -> float:
    """The share of the relevant items among the first k."""
    return len(set(found[:k]) & truth) / len(truth)


def all_at(k: int, found: Sequence[str], truth: AbstractSet[str]) -> float:
    """Whether all that is wanted is among the first k."""
    return float(truth <= set(found[:k]))


def any_at(k: int, found: Sequence[str], truth: AbstractSet[str]) -> float:
    """Whether any relevant item is among the first k."""
    return float(bool(truth & set(found[:k])))
