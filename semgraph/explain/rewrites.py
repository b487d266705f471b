"""The effect of each optimizer rule on a plan, as a diff of its algebra."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from semgraph.explain.algebra import in_full
from semgraph.logical.plan import LogicalPlan
from semgraph.optimizer import APPROXIMATE, EXACT, Roots, optimize, with_roots

_CONTEXT = 2


@dataclass(frozen=True)
class Rewrite:
    """A rule that changed the plan. `exact`: it keeps every answer."""

    rule: str
    exact: bool
    before: str
    after: str

    @property
    def diff(self) -> str:
        """A diff with some lines of context."""
        lines = difflib.unified_diff(
            self.before.splitlines(), self.after.splitlines(), n=_CONTEXT, lineterm=""
        )
        return "\n".join("…" if line.startswith("@@") else line for line in list(lines)[2:])


def optimized(plan: LogicalPlan) -> tuple[LogicalPlan, list[Rewrite]]:
    """The optimized plan and the rewrites, in order."""
    rewrites: list[Rewrite] = []
    exact = {rule.__name__ for rule in EXACT}

    def observe(rule: str, before: Roots, after: Roots) -> None:
        texts = (in_full(with_roots(plan, roots)) for roots in (before, after))
        rewrites.append(Rewrite(rule, rule in exact, *texts))

    return optimize(plan, observe), rewrites


def text(plan: LogicalPlan, rewrites: list[Rewrite]) -> str:
    """All rewrites with their diffs, then the rules that changed nothing or are not allowed."""
    parts = []
    for each in rewrites:
        kind = "exact" if each.exact else "approximate: allowed by the plan"
        parts.append(f"── {each.rule} ({kind})\n{each.diff or 'only what operators carry along'}")
    done = {each.rule for each in rewrites}
    idle = [rule.__name__ for rule in (*EXACT, *APPROXIMATE) if rule.__name__ not in done]
    allowed = [name for name in idle if name in {r.__name__ for r in EXACT} or name in plan.allow]
    refused = [name for name in idle if name not in allowed]
    rest = []
    if allowed:
        rest.append(f"nothing to do for: {', '.join(allowed)}")
    if refused:
        rest.append(f"approximate, not allowed by the plan: {', '.join(refused)}")
    return "\n\n".join([*parts, "\n".join(rest)] if rest else parts)


def names(rewrites: list[Rewrite]) -> list[str]:
    """The rules that changed something, as trees name them."""
    return [each.rule if each.exact else f"{each.rule} (approximate)" for each in rewrites]
