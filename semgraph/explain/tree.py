"""A plan as a tree of steps with columns: what each asks, in which way, what it is estimated to
take, and what it took.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from semgraph.explain.estimates import Amount, Forecast
from semgraph.explain.mermaid import Actual, of_sink, steps_of
from semgraph.logical.semantic import Semantic
from semgraph.physical.plan import PhysicalPlan, StoreSearch

WIDTH = 100
_HEADS = ("step", "how", "rows", "calls", "tokens", "$", "prompt", "reads, writes")
_RIGHT = {"rows", "calls", "tokens", "$"}
_GAP = 2


def tree(
    plan: PhysicalPlan,
    actual: Actual | None = None,
    forecast: Forecast | None = None,
    rules: Sequence[str] = (),
    width: int = WIDTH,
    note: str = "",
) -> str:
    """The plan from what is written down to the inputs; a step that stands above already is only
    named.

    Estimates and what a run did stand as `estimated / was`. Columns that do not fit fall away from
    the right; the last line says which. `note` is what is to be known of that run.
    """
    steps = {step["step"]: step for step in steps_of(plan)}
    written: dict[str, list[str]] = {}
    for sink in plan.logical.writes:
        written.setdefault(of_sink(sink), []).append(f"{sink.keyword} {sink.label.name}")
    tops = list(dict.fromkeys([*written, *(node.step for node in plan.logical.returns.values())]))
    rows: list[tuple[str, ...]] = []
    seen: set[str] = set()

    def visit(name: str, prefix: str, branch: str) -> None:
        step = steps.get(name)
        if step is None or name in seen:
            rows.append(
                (
                    f"{prefix}{branch} {name}" + (" (above)" if step else ""),
                    *[""] * (len(_HEADS) - 1),
                )
            )
            return
        seen.add(name)
        numbers = _numbers(forecast.of(name) if forecast else {}, (actual or {}).get(name))
        does = [
            *_reads(step, plan),
            *([f"→ {', '.join(written[name])}"] if name in written else []),
        ]
        how, prompt = _asks(step)
        rows.append((f"{prefix}{branch} {name}", how, *numbers, prompt, " · ".join(does)))
        inner = prefix + (" " if branch.startswith("└") else "│")
        for i, child in enumerate(step["reads"]):
            visit(child, inner, "└" if i == len(step["reads"]) - 1 else "├")

    for i, name in enumerate(tops):
        visit(name, "", "└" if i == len(tops) - 1 else "├")
    table, left_out = _table(rows, width)
    lines = [*_head(plan, width), *table, *_of_schema(plan), *_totals(forecast, actual)]
    if note:
        lines.append(f"! {note}")
    if rules:
        lines.append("rewrites: " + ", ".join(rules))
    if left_out:
        lines.append(
            f"not shown, for want of room: {'; '.join(left_out)} (--format json has them all)"
        )
    return "\n".join(lines)


def _of_schema(plan: PhysicalPlan) -> list[str]:
    schema = plan.logical.schema
    if schema is None:
        return []
    drops = " drops the indexes that bear its names, then" if schema.drop else ""
    return [f"schema:{drops} makes what the graph needs and the store lacks, before the run"]


def _head(plan: PhysicalPlan, width: int) -> list[str]:
    logical = plan.logical
    rounds = len({search.group for search in plan.of_kind(StoreSearch)})
    parts = [
        logical.name,
        _steps(plan),
        f"{sum(isinstance(node, Semantic) for node in plan.nodes)} semantic",
        f"{rounds} searches",
    ]
    order = logical.order
    if order is not None:
        parts.append(
            f"windows of {order.window or 'all'} by {order.partition}, up to {order.ahead} ahead"
        )
    lines = [parts[0]]
    for part in parts[1:]:
        if len(lines[-1]) + 3 + len(part) <= width:
            lines[-1] += f" · {part}"
        else:
            lines.append(f"  {part}")
    return lines


def _steps(plan: PhysicalPlan) -> str:
    """How many steps the plan has, as it is written, and how many of them are left to compute:
    without inputs and writes.
    """
    written = len(plan.logical.steps)
    left = sum(name in plan.logical.steps for name in plan.named())
    return f"{left} of " * (left != written) + f"{written} step{'s' * (written != 1)}"


def _asks(step: Mapping[str, Any]) -> tuple[str, str]:
    """How a step asks, and what; who chose the way, unless it is the reference, and the model,
    unless it is the default.
    """
    hows = [f"{s['operator']} {s['how']}" for s in step["semantic"]]
    prompts = []
    for each in step["semantic"]:
        notes = [
            *(["way by use"] if each["why"] == "use" else []),
            *([each["role"]] if each["role"] != "default" else []),
        ]
        prompts.append(each["prompt"] + (f" ({', '.join(notes)})" if notes else ""))
    return ", ".join(hows), ", ".join(prompts)


def _numbers(
    estimate: Mapping[str, Amount], did: Mapping[str, Any] | None
) -> tuple[str, str, str, str]:
    was: dict[str, str] = {}
    if did is not None:
        calls = did["calls_issued"] + did["calls_journal"] + did["calls_coalesced"]
        was = {} if did["rows_out"] is None else {"rows": f"{did['rows_out']:,}"}
        if calls:
            was |= {"calls": f"{calls:,}", "tokens": f"{did['tokens_in']:,}+{did['tokens_out']:,}"}
            was["$"] = "—" if did["dollars"] is None else f"{did['dollars']:.4f}"
    said: dict[str, str] = {}
    if "rows" in estimate:
        said["rows"] = estimate["rows"].shown()
    if "calls" in estimate:
        sent, answered = estimate["tokens_in"], estimate["tokens_out"]
        said |= {"calls": estimate["calls"].shown(), "$": estimate["dollars"].shown(4)}
        said["tokens"] = (
            f"{sent.shown()}+{answered.shown().removeprefix('≈ ')}" if sent.shown() != "?" else "?"
        )
    both = (
        [text for text in (said.get(n, ""), was.get(n, "")) if text]
        for n in ("rows", "calls", "tokens", "$")
    )
    rows, calls, tokens, dollars = (" / ".join(parts) for parts in both)
    return rows, calls, tokens, dollars


def _reads(step: Mapping[str, Any], plan: PhysicalPlan) -> list[str]:
    parts = []
    for read in step["store"]:
        over = " ∪ ".join(read["over"]) if isinstance(read["over"], list) else read["over"]
        by = f" by {' + '.join(read['by'])}, k {read['k']}" if "by" in read else ""
        shares = f", one query with {', '.join(read['shares'])}" if "shares" in read else ""
        everyone = ", of all partitions" if read["partition"] == "all" else ""
        everyone = everyone or (
            ", of all partitions where none are named" if "or all" in read["partition"] else ""
        )
        parts.append(f"{read['kind']} {over}{by}{shares}{everyone}")
    parts += [f"embed {text}" for text in step["embeds"]]
    if plan.logical.order is not None and step["part"] == "ordered":
        parts.append("in order")
    return parts


def _totals(forecast: Forecast | None, actual: Actual | None) -> list[str]:
    lines = []
    total = forecast.total() if forecast is not None else {}
    if total and (total["calls"].value or total["calls"].kind != "exact"):
        sent, answered = total["tokens_in"].shown(), total["tokens_out"].shown()
        parts = [
            f"{total['calls'].shown()} calls",
            "tokens ?" if sent == "?" else f"{sent} + {answered} tokens",
        ]
        parts.append(total["dollars"].shown(4, "$") if total["dollars"].shown() != "?" else "$ ?")
        lines.append("estimated: " + " · ".join(parts))
    if actual is not None:
        did = [step for step in actual.values() if step["operator"]]
        calls = sum(
            step["calls_issued"] + step["calls_journal"] + step["calls_coalesced"] for step in did
        )
        parts = [f"{calls:,} calls ({sum(step['calls_issued'] for step in did):,} issued)"]
        parts.append(
            f"{sum(s['tokens_in'] for s in did):,} + {sum(s['tokens_out'] for s in did):,} tokens"
        )
        parts.append(f"{sum(step['round_trips'] for step in actual.values()):,} store queries")
        lines.append("was: " + " · ".join(parts))
    return lines


def _table(rows: Sequence[tuple[str, ...]], width: int) -> tuple[list[str], list[str]]:
    """Lines with the columns that fit, and the names of the others that hold something."""
    used = [i for i in range(len(_HEADS)) if i == 0 or any(row[i] not in {"", "?"} for row in rows)]
    sizes = {
        i: max(len(_HEADS[i]), *(len(row[i]) for row in rows)) if rows else len(_HEADS[i])
        for i in used
    }
    fits: list[int] = []
    room = width
    for i in used:
        if fits and sizes[i] + _GAP > room:
            break
        fits.append(i)
        room -= sizes[i] + _GAP * bool(len(fits) > 1)
    lines = []
    for row in (_HEADS, *rows) if len(fits) > 1 else rows:
        cells = [
            row[i].rjust(sizes[i]) if _HEADS[i] in _RIGHT else row[i].ljust(sizes[i]) for i in fits
        ]
        line = (" " * _GAP).join(cells).rstrip()
        lines.append(line if len(line) <= width else line[: width - 1] + "…")
    return lines, [_HEADS[i] for i in used if i not in fits]
