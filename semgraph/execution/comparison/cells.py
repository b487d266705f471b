"""The table of a comparison as text: cells, which are the best of their column, and what stands below it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from semgraph.execution.comparison import Arm, Comparison, Quality
from semgraph.execution.comparison.failing import failure_lines

_NONE = "–"


@dataclass(frozen=True)
class Cells:
    """One column: its title, a text for each way, and the places of the best."""

    title: str
    texts: tuple[str, ...]
    best: frozenset[int] = frozenset()
    right: bool = True


def ranked(comparison: Comparison) -> list[Arm]:
    """The reference, then the others, the best first."""

    def place(arm: Arm) -> tuple[bool, float]:
        measure = quality_of(arm)
        return arm.name != comparison.reference, -(measure if measure is not None else -1.0)

    return sorted(comparison.arms, key=place)


def quality_of(arm: Arm) -> float | None:
    """The one number of a way's quality: F1, or where there is no truth its agreement with the reference.

    Of a graph it is the F1 of edges; where neither graph has one, the B-cubed F1 of nodes.
    """
    found = arm.quality
    if found.f1 is not None:
        return found.f1
    return found.same if found.b_cubed is None else found.b_cubed


def graded(arm: Arm) -> bool:
    """Whether its quality is that of a graph."""
    return arm.quality.b_cubed is not None


def columns(comparison: Comparison) -> list[Cells]:
    """All columns, what matters most first."""
    arms = ranked(comparison)
    number = max((len(arm.seconds) for arm in arms), default=0)
    found = [
        Cells("way", tuple(arm.name for arm in arms), right=False),
        _column("calls", arms, lambda a: f"{a.cold.calls:,}", lambda a: -a.cold.calls),
        _column("tokens in/out", arms, _tokens, lambda a: -(a.cold.tokens_in + a.cold.tokens_out)),
        _column("$ cold", arms, lambda a: dollars(a.cold.dollars), lambda a: _less(a.cold.dollars)),
        _column(f"time, {number} trials" if number > 1 else "time", arms, _time, _quickest),
        *_qualities(comparison, arms),
    ]
    if any(arm.failed for arm in arms):
        found.append(_column("failed", arms, lambda a: f"{a.failed:,}", lambda a: -a.failed))
    if comparison.missing:
        found.append(Cells("trials", tuple(f"{len(arm.trials)} of {comparison.trials}" for arm in arms)))
    return found


def _qualities(comparison: Comparison, arms: Sequence[Arm]) -> list[Cells]:
    """The measures that something is known of."""
    return [column for column in _measures(comparison, arms) if set(column.texts) != {_NONE}]


def _measures(comparison: Comparison, arms: Sequence[Arm]) -> list[Cells]:
    if comparison.kind == "step" and not comparison.truth:
        return [
            _column(
                "agreement [95 %]", arms, lambda a: _with(a.quality.same, a.quality.interval), lambda a: a.quality.same
            ),
            *_spread(arms),
        ]
    nodes = [
        _measure("node pairs", arms, lambda q: q.pairs),
        _measure("node B³", arms, lambda q: q.b_cubed),
        _measure("edges valid", arms, lambda q: q.validity),
        _measure("edges ended", arms, lambda q: q.ended),
    ]
    of = "edge " if any(map(graded, arms)) else ""
    found = [
        *nodes[:2],
        _measure(f"{of}P", arms, lambda q: q.precision),
        _measure(f"{of}R", arms, lambda q: q.recall),
        _column(f"{of}F1 [95 %]", arms, lambda a: _with(a.quality.f1, a.quality.interval), lambda a: a.quality.f1),
        *_spread(arms),
        *nodes[2:],
    ]
    if comparison.truth and len(arms) > 1:
        found.append(_column("Δ F1 to reference", arms, _difference, lambda _: None))
        if any(arm.quality.same is not None for arm in arms):
            found.append(_column("same rows", arms, _same, lambda a: a.quality.same))
    return found


def _spread(arms: Sequence[Arm]) -> list[Cells]:
    if all(arm.quality.spread is None for arm in arms):
        return []
    return [_column("of trials", arms, lambda a: _between(a.quality.spread), lambda _: None)]


def _measure(title: str, arms: Sequence[Arm], of: Callable[[Quality], float | None]) -> Cells:
    return _column(title, arms, lambda a: share(of(a.quality)), lambda a: of(a.quality))


def _column(title: str, arms: Sequence[Arm], text: Callable[[Arm], str], worth: Callable[[Arm], float | None]) -> Cells:
    """A column; the best are those of the greatest worth, unless all are alike."""
    known = {i: value for i, arm in enumerate(arms) if arm.trials and (value := worth(arm)) is not None}
    top = max(known.values(), default=0.0)
    best = frozenset(i for i, value in known.items() if value == top)
    texts = tuple(text(arm) if arm.trials else _NONE for arm in arms)
    return Cells(title, texts, best if len(best) < len(known) else frozenset())


def _less(value: float | None) -> float | None:
    return None if value is None else -value


def _tokens(arm: Arm) -> str:
    return f"{_short(arm.cold.tokens_in)} / {_short(arm.cold.tokens_out)}"


def _short(number: float) -> str:
    """A number in three digits.

    >>> [_short(n) for n in (987, 6134, 1_740_000)]
    ['987', '6.13 k', '1.74 M']
    """
    if number < 1000:
        return f"{number:.0f}"
    return f"{number / 1000:.3g} k" if number < 999_500 else f"{number / 1e6:.3g} M"


def dollars(amount: float | None) -> str:
    """Dollars, in about three digits; a dash where no price is known.

    >>> dollars(0.1234), dollars(0.0), dollars(None), dollars(0.00004321)
    ('0.123', '0', '—', '0.000043')
    """
    if amount is None:
        return "—"
    if amount == 0:
        return "0"
    if amount >= 1:
        return f"{amount:,.2f}"
    return f"{amount:.3f}" if amount >= 0.01 else f"{amount:.6f}".rstrip("0")


def _time(arm: Arm) -> str:
    times = arm.seconds
    if not times:
        return _NONE
    mean = seconds(sum(times) / len(times))
    return f"{mean} [{seconds(min(times))}–{seconds(max(times))}]" if len(times) > 1 else mean


def seconds(value: float) -> str:
    """How long something took.

    >>> seconds(0.0123), seconds(4.63), seconds(161)
    ('12 ms', '4.6 s', '161 s')
    """
    if value < 0.0995:
        return f"{value * 1000:.0f} ms"
    return f"{value:.1f} s" if value < 99.95 else f"{value:,.0f} s"


def _quickest(arm: Arm) -> float | None:
    times = arm.seconds
    return -sum(times) / len(times) if times else None


def share(value: float | None, digits: int = 2) -> str:
    """A share of 1, without the zero that says nothing.

    >>> share(0.934), share(1.0), share(None), share(0.9405, 3)
    ('.93', '1.00', '–', '.941')
    """
    return (
        _NONE if value is None else f"{value:.{digits}f}".replace("0.", ".", 1) if value < 1 else f"{value:.{digits}f}"
    )


def _with(value: float | None, interval: tuple[float, float] | None) -> str:
    between = f" {_between(interval)}" if interval else ""
    return share(value, 3) + (between if value is not None else "")


def _between(interval: tuple[float, float] | None) -> str:
    return f"[{share(interval[0], 3)} {share(interval[1], 3)}]" if interval else _NONE


def _signed(value: float) -> str:
    return ("−" if value < 0 else "+" if value > 0 else "±") + f"{abs(value):.3f}".replace("0.", ".", 1)


def _difference(arm: Arm) -> str:
    if arm.quality.difference is None:
        return _NONE
    value, low, high = arm.quality.difference
    return _signed(value) + (f" [{_signed(low)} {_signed(high)}]" if low is not None and high is not None else "")


def _same(arm: Arm) -> str:
    return _NONE if arm.quality.same is None else f"{arm.quality.same:.1%}".replace("%", " %")


def footer(comparison: Comparison) -> list[str]:
    """What stands below the table."""
    found = [_input(comparison)]
    if not comparison.truth:
        found.append(
            f"no truth was given: this is agreement with {comparison.reference}, the reference, not correctness"
        )
    said = [f"{comparison.trials} independent trials of each"] if comparison.trials > 1 else []
    replayed = sum(t.cold.calls - t.paid.calls for arm in comparison for t in arm.trials)
    if replayed > 0:
        said.append(f"{replayed:,} answer{'s' * (replayed != 1)} of earlier comparisons replayed, without a time")
    paid = comparison.paid
    money = "price unknown" if paid.dollars is None else f"${dollars(paid.dollars)}"
    said.append(f"paid now {paid.calls:,} call{'s' * (paid.calls != 1)}, {money}")
    said.append(f"nothing written to {comparison.store}")
    if comparison.record is not None:
        said.append(f"kept as comparison {comparison.id}")
    failed = (line for arm in ranked(comparison) for line in failure_lines(arm))
    found += [" · ".join(said), *failed, *(f"! {note}" for note in comparison.notes)]
    if comparison.stopped:
        found.append(f"! stopped: {comparison.stopped}")
        missing = ", ".join(f"{n} of {name}" for name, n in comparison.missing.items())
        found.append(f"! trials that are missing: {missing}. Run it again with a higher limit: it goes on from here")
    return found


def _input(comparison: Comparison) -> str:
    rows = comparison.frozen.get("rows", {})
    if comparison.kind == "plan":  # inputs that need not be given are not
        rows = {name: number for name, number in rows.items() if number}
    counts, names = " × ".join(f"{number:,}" for number in rows.values()), " × ".join(rows)
    if comparison.kind == "step":
        sha = str(comparison.frozen.get("sha", ""))[:4]
        what = f"step {comparison.step}, the same frozen input for all ({names}: {counts} rows, sha {sha})"
    else:
        held = comparison.frozen.get("copied", 0)
        what = f"whole plan {comparison.plan}, each in a copy of its own ({names}: {counts} rows; {held:,} stored)"
    return f"{what} · {comparison.model}"
