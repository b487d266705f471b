"""A comparison in a terminal: a table with the best of each column in bold, notes, and the chart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from os import sep
from pathlib import Path
from typing import TYPE_CHECKING

from semgraph.compare.comparison import Arm, Comparison, Quality, graded, ranked
from semgraph.formats import count, dollars, duration, escaped, plain_line, plural, short, stopped
from semgraph.render.chart import MISSING, NONE, share, text, times
from semgraph.render.tables import Column, folded, styled

if TYPE_CHECKING:
    from rich.text import Text

_FAILURES = 5  # kinds of failures listed for a variant


def columns(comparison: Comparison) -> list[Column]:
    """All columns, most important first."""
    arms = ranked(comparison)
    keys = shown_changes(comparison)
    of_grid = keys and all(arm.name == ", ".join(arm.changes.values()) for arm in arms)
    cells = [
        *([] if of_grid else [Column("variant", [arm.name for arm in arms], drop=-1)]),
        *(Column(key, [arm.changes.get(key, NONE) for arm in arms], drop=-1) for key in keys),
        _column("calls", arms, lambda a: f"{a.cold.calls:,}", lambda a: -a.cold.calls),
        _column("tokens in/out", arms, _tokens, lambda a: -(a.cold.tokens_in + a.cold.tokens_out)),
        *([] if all(arm.cold.dollars is None for arm in arms) else [_dollars(arms)]),
        replace(_times(arms), drop=2),
        *_qualities(comparison, arms),
    ]
    if any(arm.failed for arm in arms):
        cells.append(_column("failed", arms, lambda a: f"{a.failed:,}", lambda a: -a.failed))
    if comparison.missing:
        made = [f"{len(arm.trials)} of {comparison.trials}" for arm in arms]
        cells.append(Column("trials", made, right=True))
    return cells


def shown_changes(comparison: Comparison) -> list[str]:
    """The keys in which the variants differ; none if their names say it."""
    keys = dict.fromkeys(key for arm in comparison for key in arm.changes)
    values = {key: {arm.name: arm.changes.get(key) for arm in comparison} for key in keys}
    several = {key: own for key, own in values.items() if len({*own.values()}) > 1}
    return [key for key, own in several.items() if any(v not in (None, n) for n, v in own.items())]


def same_changes(comparison: Comparison) -> dict[str, str]:
    """The changes that all variants have in common."""
    first, *others = comparison.arms
    pairs = first.changes.items() if others else ()
    return {k: v for k, v in pairs if all(arm.changes.get(k) == v for arm in others)}


def _dollars(arms: Sequence[Arm]) -> Column:
    def text(arm: Arm) -> str:
        return dollars(arm.cold.dollars, exact=True).removeprefix("$")

    def score(arm: Arm) -> float | None:
        return None if arm.cold.dollars is None else -arm.cold.dollars

    return _column("$ cold", arms, text, score, drop=-2)


def _times(arms: Sequence[Arm]) -> Column:
    """The time of a trial; if some requests were shared or replayed, the time of its requests."""
    title, seconds = times(arms)
    known = dict(zip((arm.name for arm in arms), seconds, strict=True))
    number = max(map(len, seconds), default=0)
    title += f", {number} trials" if number > 1 else ""
    means = {name: -sum(own) / len(own) for name, own in known.items() if own}
    return _column(title, arms, lambda a: _time(known[a.name]), lambda a: means.get(a.name))


def _qualities(comparison: Comparison, arms: Sequence[Arm]) -> list[Column]:
    """The measures with any known value."""
    names, of = comparison.measures, "edge " if any(map(graded, arms)) else ""
    agrees = comparison.kind == "step" and not comparison.truth
    title = names[0] if names else "agreement" if agrees else f"{of}F1"
    first = {"node pairs": "pairs", "node B³": "b_cubed", f"{of}P": "precision", f"{of}R": "recall"}
    then = {"edges valid": "validity", "edges ended": "ended"}

    def score(arm: Arm) -> float | None:
        own = arm.quality
        return _value(own, title) if names else own.same if agrees else own.f1

    def interval(arm: Arm) -> str:
        between = f" {_between(arm.quality.interval)}" if arm.quality.interval else ""
        return share(score(arm), 3) + (between if score(arm) is not None else "")

    same = _column("same rows", arms, _same, lambda a: a.quality.same)
    found = [
        *(replace(_measure(what, arms, attrgetter(name)), drop=-1) for what, name in first.items()),
        _column(f"{title} [95 %]", arms, interval, score, drop=-2),
        _column("over trials", arms, lambda a: _between(a.quality.spread), lambda _: None, drop=1),
        *(_measure(what, arms, attrgetter(name)) for what, name in then.items()),
        _column(f"Δ {title.removeprefix(of)} to reference", arms, _difference, lambda _: None),
        *([] if agrees else [same]),
        *(_measure(name, arms, partial(_value, name=name)) for name in names[1:]),
    ]
    return [column for column in found if set(column.cells) != {NONE}]


def _value(quality: Quality, name: str) -> float | None:
    return quality.measures[name].value if name in quality.measures else None


def _measure(title: str, arms: Sequence[Arm], of: Callable[[Quality], float | None]) -> Column:
    return _column(title, arms, lambda a: share(of(a.quality)), lambda a: of(a.quality))


def _column(
    title: str,
    arms: Sequence[Arm],
    text: Callable[[Arm], str],
    score: Callable[[Arm], float | None],
    drop: int = 0,
) -> Column:
    """A column; the best are those with the greatest score, unless all are equal."""
    scores = {i: score(arm) for i, arm in enumerate(arms) if arm.trials}
    known = {i: value for i, value in scores.items() if value is not None}
    top = max(known.values(), default=0.0)
    best = frozenset(i for i, value in known.items() if value == top)
    texts = [text(arm) if arm.trials else NONE for arm in arms]
    return Column(title, texts, True, best if len(best) < len(known) else frozenset(), drop)


def _tokens(arm: Arm) -> str:
    return f"{short(arm.cold.tokens_in)} / {short(arm.cold.tokens_out)}"


def _time(times: Sequence[float]) -> str:
    if not times:
        return NONE
    mean = duration(sum(times) / len(times))
    return f"{mean} [{duration(min(times))}–{duration(max(times))}]" if len(times) > 1 else mean


def _between(interval: tuple[float, float] | None) -> str:
    return f"[{share(interval[0], 3)} {share(interval[1], 3)}]" if interval else NONE


def _signed(value: float) -> str:
    return ("−" if value < 0 else "+" if value > 0 else "±") + share(abs(value), 3)


def _difference(arm: Arm) -> str:
    if arm.quality.difference is None:
        return NONE
    value, *ends = arm.quality.difference
    known = [_signed(end) for end in ends if end is not None]
    return _signed(value) + (f" [{' '.join(known)}]" if len(known) > 1 else "")


def verdict(arm: Arm) -> str:
    """What the difference to the reference shows, in words; "" without one."""
    if arm.quality.difference is None:
        return ""
    _, low, high = arm.quality.difference
    if low is None or high is None or low <= 0 <= high:
        return "no difference shown"
    better = low > 0
    return f"{'better' if better else 'worse'} by at least {share(low if better else -high, 3)}"


def _same(arm: Arm) -> str:
    return NONE if arm.quality.same is None else f"{arm.quality.same:.1%}".replace("%", " %")


def footer(comparison: Comparison) -> list[str]:
    """The lines below the table."""
    lines_ = [_input(comparison)]
    if len(comparison) > 2 and any(arm.quality.difference for arm in comparison):
        name = next(iter(comparison.measures), "F1")
        lines_.append(f"Δ {name} is corrected for the number of variants (Holm)")
    shown = [f"{arm.name}: {verdict(arm)}" for arm in ranked(comparison) if verdict(arm)]
    lines_ += [" · ".join(shown)] if shown else []
    lines_ += [line for arm in ranked(comparison) for line in graph_lines(comparison, arm)]
    if not comparison.truth:
        what = f"agreement with {comparison.reference}, the reference, not correctness"
        lines_.append(f"no truth: this is {what}")
    parts = [f"{comparison.trials} independent trials of each"] if comparison.trials > 1 else []
    replayed = sum(t.cold.calls - t.paid.calls for arm in comparison for t in arm.trials)
    if replayed > 0:
        parts.append(f"{plural(replayed, 'answer')} shared or replayed, not sent")
    paid = comparison.paid
    money = "price unknown" if paid.dollars is None else dollars(paid.dollars, exact=True)
    parts.append(f"paid now {plural(paid.calls, 'call')}, {money}")
    parts.append(f"nothing written to {comparison.store.replace(f'{Path.cwd()}{sep}', '')}")
    if comparison.record is not None:
        parts.append(f"recorded as comparison {comparison.id}")
    failed = (line for arm in ranked(comparison) for line in _failures(arm))
    lines_ += [" · ".join(parts), *failed, *(f"! {note}" for note in comparison.notes)]
    if comparison.stopped:
        lines_.append(f"! {stopped(comparison.stopped)}")
        missing = ", ".join(f"{n} of {name}" for name, n in comparison.missing.items())
        lines_.append(f"! missing trials: {missing}. Repeat it with a higher limit to continue")
    return lines_


def graph_lines(comparison: Comparison, arm: Arm) -> Iterator[str]:
    """How the graph of a variant differs from that of the reference."""
    if arm.graph is None:
        return
    of, parts = ", in their first trials" if comparison.trials > 1 else "", list[str]()
    for kind, own in arm.graph.counts.items():
        parts.append(f"{kind}: " + ", ".join(f"{count(n)} {how}" for how, n in own.items()))
    same = f"the graph is equal to that of {comparison.reference}"
    yield f"{arm.name}: {' · '.join(parts) or same}{of}"


def _input(comparison: Comparison) -> str:
    rows = comparison.frozen.get("rows", {})
    if comparison.kind == "plan":  # without unused optional inputs
        rows = {name: number for name, number in rows.items() if number}
    counts, names = " × ".join(f"{number:,}" for number in rows.values()), " × ".join(rows)
    if comparison.kind == "step":
        sha = str(comparison.frozen.get("sha", ""))[:4]
        what = f"step {comparison.step}, the same frozen input for all ({names}: {counts} rows, sha {sha})"
    else:
        copied = comparison.frozen.get("copied", 0)
        what = f"whole plan {comparison.plan}, each in its own copy ({names}: {counts} rows; {copied:,} stored)"
    several = " | " in comparison.model  # then the table has what differs
    return what if several or not comparison.model else f"{what} · {comparison.model}"


def _failures(arm: Arm) -> Iterator[str]:
    """Lines about the failures of a variant in all its trials."""
    counts: Counter[tuple[str, str]] = Counter()
    for each in (failed for trial in arm.trials for failed in trial.failures):
        counts[each.step, plain_line(each.error)] += each.rows
    for (step, error), rows in counts.most_common(_FAILURES):
        yield f"! {arm.name} failed: {rows} × {step}: {error}"
    if len(counts) > _FAILURES:
        yield f"! {arm.name} failed: … and {len(counts) - _FAILURES} more kinds"


def lines(comparison: Comparison, width: int, kind: str = "quality") -> Iterator[Text]:
    """All lines, with a chart; columns that do not fit are dropped from the right and named in a line."""
    from rich.text import Text

    if same := same_changes(comparison):
        yield Text(escaped("all with " + ", ".join(f"{key}={v}" for key, v in same.items())))
    yield from styled(columns(comparison), width, indent=0)
    for line in footer(comparison):
        yield from (Text(escaped(part)) for part in folded(line, width))
    drawn = text(comparison, width, kind)
    if kind != "quality" or drawn != MISSING[kind]:
        yield Text()
        yield from (Text(escaped(line)) for line in drawn.splitlines())


def plain(comparison: Comparison, width: int) -> str:
    """The comparison as one text."""
    return "\n".join(line.plain for line in lines(comparison, width))
