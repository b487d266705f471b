"""The scores of each community, for figures that are comparable with theirs."""

from __future__ import annotations

import re
import sqlite3
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

import numpy as np

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


def locomo(answer: str, truth: str, category: int) -> float:
    """LoCoMo's score of an answer: F1 of stemmed words; for an adversarial question (5), whether it
    is declined.

    Several facts (category 1) are separated by commas: the mean over the true ones of the best
    match among the answers. Of an answer with reasons (category 3) only the part before the first
    semicolon counts.
    """
    if category == 5:
        said = answer.lower()
        return float("not mentioned" in said or "no information available" in said)
    if category == 1:
        given = [_locomo_words(part) for part in answer.split(",")]
        wanted = [_locomo_words(part) for part in truth.split(",")]
        return float(np.mean([max(token_f1(one, want) for one in given) for want in wanted]))
    return token_f1(
        _locomo_words(answer),
        _locomo_words(truth.split(";", maxsplit=1)[0] if category == 3 else truth),
    )


def _locomo_words(text: str) -> list[str]:
    return stems(normal(text, "a|an|the|and").split())


def exact(answer: str, truths: Iterable[str]) -> float:
    """Whether an answer is one of the true ones, but for case, articles and punctuation."""
    return float(normal(answer) in {normal(truth) for truth in truths})


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


def of_limited(
    found: Sequence[object], truth: AbstractSet[object], limit: int | None = None
) -> tuple[float, float, float]:
    """Precision, recall and F1 of rows; if the query has a `limit`, any of the true ones are right."""
    given = set(found if limit is None else found[:limit])
    if not given or not truth:
        return (1.0, 0.0, 0.0) if not given and not truth else (0.0, 0.0, 0.0)
    right = len(given & truth)
    precision, recall = (
        right / len(given),
        right / (len(truth) if limit is None else min(limit, len(truth))),
    )
    return precision, recall, 2 * precision * recall / (precision + recall) if right else 0.0


def relative_error(found: Mapping[str, float], truth: Mapping[str, float]) -> float:
    """How far numbers are off, each by its true size; their mean. One that should be 0 and is not
    counts 1.
    """
    errors = []
    for name in found.keys() | truth.keys():
        given, true = found.get(name, 0.0), truth.get(name, 0.0)
        if given or true:
            errors.append(abs(given - true) / abs(true) if true else 1.0)
    return sum(errors) / len(errors) if errors else 0.0


def spearman(found: Mapping[str, float], truth: Mapping[str, float]) -> float:
    """Spearman's rank correlation over the shared items; 0 if either ranks all as ties, or fewer
    than two are shared.
    """
    shared = sorted(found.keys() & truth.keys())
    if len(shared) < 2:
        return 0.0
    ours, theirs = (
        _ranks([found[name] for name in shared]),
        _ranks([truth[name] for name in shared]),
    )
    if ours.std() == 0 or theirs.std() == 0:
        return 0.0
    return float(np.corrcoef(ours, theirs)[0, 1])


def _ranks(values: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Ranks from 1; equal values share their mean."""
    array = np.asarray(values, dtype=float)
    below = (array[:, None] > array[None, :]).sum(axis=1)
    equal = (array[:, None] == array[None, :]).sum(axis=1)
    ranks: np.ndarray[tuple[int], np.dtype[np.float64]] = below + (equal + 1) / 2
    return ranks
