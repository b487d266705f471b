"""Regular expressions that the row executor gives to Python: as DuckDB matches them, and in time
that is linear in the text.
"""

from __future__ import annotations

import random
import re
import time

import pytest

from semgraph.expr.row_scalars import Unsupported, python_pattern

PIECES = [
    "a", "b", "1", "#", " ", "[a-z]", "[0-9]", "[a-z ]", "[^#]", "\\w", "\\d", "\\b", "$", "(a|b)", "(the|this)[ -]", "(ab|cd)",
    "(a|ab)", "(a?)", "(a*)", "((the|this)[ -])",
]  # fmt: skip
COUNTS = ["", "", "", "*", "+", "?", "{0,3}", "{2}", "{1,20}", "{2,}"]
LONG = 20_000
SECONDS = 0.5  # of processor time; in quadratic time it takes seconds


def admitted(
    pattern: str, *, whole: bool = False, ignore_case: bool = False
) -> re.Pattern[str] | None:
    """The pattern as Python has it, if it is admitted."""
    try:
        own = python_pattern(pattern, ignore_case=ignore_case, whole=whole)
        return re.compile(own, re.ASCII | re.IGNORECASE if ignore_case else re.ASCII)
    except (Unsupported, re.error):
        return None


def drawn(seed: int) -> str:
    """A pattern with neighbouring repeats, which is often ambiguous."""
    rng = random.Random(seed)
    parts = [rng.choice(PIECES) + rng.choice(COUNTS) for _ in range(rng.randint(1, 5))]
    joined = "".join(parts)
    return f"{joined}|{rng.choice(PIECES)}" if rng.random() < 0.1 else joined


def hostile(seed: int) -> list[str]:
    """Texts that match nearly, at every place."""
    rng = random.Random(seed)
    runs = [
        rng.choice(
            ["a", "ab", "abcd", "the ", "this-", "a1", "1", "#a", " ", "a ", "b#", "A", "cd#1"]
        )
        for _ in range(4)
    ]
    texts = [run * (LONG // len(run)) + "~" for run in ("a", *runs)]
    return [*texts, "".join(rng.choice(runs) for _ in range(LONG // 3)) + "~"]


@pytest.mark.parametrize(
    "seed", [*range(6), *(pytest.param(n, marks=pytest.mark.nightly) for n in range(6, 40))]
)
def test_every_pattern_that_python_gets_takes_linear_time(seed: int) -> None:
    count = 0
    for n in range(seed * 50, seed * 50 + 50):
        whole = n % 3 == 0
        pattern = admitted(drawn(n), whole=whole, ignore_case=n % 5 == 0)
        if pattern is None:
            continue
        count += 1
        for text in hostile(n):
            began = time.thread_time()
            pattern.fullmatch(text) if whole else pattern.search(text)
            assert time.thread_time() - began < SECONDS, (drawn(n), text[:20])
    assert count > 5


@pytest.mark.parametrize(
    ("pattern", "whole"),
    [
        ("[A-Za-z ]*[A-Za-z ]*~", False), ("[a-z]*!", False), ("\\d+ km", False), ("x[a-z]*y", False), ("(a?){25}a{25}", False),
        ("a?" * 25 + "a" * 25, False), ("(a|a)" * 25, False), ("(a|aa)+~", True), ("(a*)*b", True), ("((a{0,9}){0,9}){0,9}b", False),
        ("[a-z]*x[a-z]*y", True), ("a*b?a*c", True), ("a*b*a*c", True), ("a{0,99}a{0,99}b", False), ("(a|Ab)" * 30, False),
        ("(\\w+ ?)*~", True), ("a" * 2_000, False), ("[a-z]*[0-9]*!", True), ("#[a-z]*!", False), ("#(ab|cd)+e", False), ("((a{99}){99}){99}b", False),
        ("[a-z]+$", False), ("(a|ab){0,9}c", False),
    ],
)  # fmt: skip
def test_patterns_that_may_take_longer_are_duckdbs(pattern: str, whole: bool) -> None:
    assert admitted(pattern, whole=whole) is None


@pytest.mark.parametrize(
    ("pattern", "whole"),
    [
        ("[A-Za-z_][A-Za-z0-9_]*", True), ("[a-z]*!", True), ("[a-z]+", False), ("#[a-z]+", False),
        ("\\bby ((the|early|about)[ -]){0,4}(\\d|(end|start)\\b)", False), ("\\d{4}-\\d{2}", False), ("(plan|schedule)(s|d|ned)? (to|for)", False),
    ],
)  # fmt: skip
def test_plain_patterns_are_pythons(pattern: str, whole: bool) -> None:
    assert admitted(pattern, whole=whole) is not None
