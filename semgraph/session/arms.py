"""The arms of a comparison: for each variant a plan, its rows and its models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from semgraph.compare.request import ArmRequest
from semgraph.compare.trial import checked, listed_steps
from semgraph.compare.variants import Variant, shown
from semgraph.errors import PlanError, Problem, did_you_mean
from semgraph.logical.node import walk
from semgraph.logical.plan import LogicalPlan, match_steps, without_absent
from semgraph.optimizer import with_rules
from semgraph.session.resources import Resources

_RELOADS = ("plan", "preset")


@dataclass(frozen=True)
class ArmMaker:
    """Makes the arms of a comparison.

    Args:
        plan: The plan of the comparison, as the user names it.
        base: The same, checked, without changes.
        options: The options of the comparison that load a plan: `params`, `preset`, `use`,
            `prompts`.
        rows: The typed rows of a plan's inputs.
        prepare: Loads a plan with such options, for some resources.
        resources: The models of the comparison.
    """

    plan: Any
    base: LogicalPlan
    options: Mapping[str, Any]
    rows: Callable[[LogicalPlan], Mapping[str, pa.Table]]
    prepare: Callable[..., LogicalPlan]
    resources: Resources

    def arms(self, variants: Mapping[str, Variant]) -> dict[str, ArmRequest]:
        """The arms by name. Raises PlanError with the problems of all."""
        models: dict[str, Resources] = {}
        tables = self.rows(self.base)
        return checked(
            {name: partial(self._arm, each, models, tables) for name, each in variants.items()}
        )

    def _arm(
        self, variant: Variant, models: dict[str, Resources], tables: Mapping[str, pa.Table]
    ) -> ArmRequest:
        chosen = variant.table("models")
        chosen |= {} if variant.one("llm") is None else {"llm": variant.one("llm")}
        chosen |= {} if variant.one("embedder") is None else {"embed": variant.one("embedder")}
        resources = self.resources
        if chosen:
            key = repr(sorted(chosen.items(), key=str))
            if key not in models:
                models[key] = resources.choosing(chosen)
            resources = models[key]
        plan = with_rules(self._plan(variant, resources), variant.rules)
        inputs = tables if plan.inputs == self.base.inputs else self.rows(plan)
        changes = {key: shown(value) for key, value in variant.changes.items()}
        return ArmRequest(changes, without_absent(plan, inputs), inputs, resources)

    def _plan(self, variant: Variant, resources: Resources) -> LogicalPlan:
        """The plan of a variant: the loaded one with other implementations, or loaded anew."""
        use, of_file = variant.table("use"), [variant.table(t) for t in ("params", "prompts")]
        if not any(of_file) and not any(variant.one(key) for key in _RELOADS):
            _require_steps(self.base, variant, use)
            return self.prepare(self.base, use=use, resources=resources)
        given, plan = self.options, variant.one("plan") or self.plan
        params, prompts = (
            {**(given.get(name) or {}), **own}
            for name, own in zip(("params", "prompts"), of_file, strict=True)
        )
        try:
            return self.prepare(
                plan,
                params=params,
                preset=variant.one("preset") or given.get("preset"),
                use={**(given.get("use") or {}), **use},
                prompts=prompts,
                resources=resources,
            )
        except PlanError as error:
            raise PlanError(
                *(replace(p, what=f"variant {variant.name}: {p.what}") for p in error.problems)
            ) from None


def _require_steps(plan: LogicalPlan, variant: Variant, use: Mapping[str, Any]) -> None:
    """Refuse steps that the plan does not have. Raises PlanError with all of them."""
    nodes = [node for node in walk(*plan.roots) if node.swappable]
    names = [*dict.fromkeys(node.step for node in nodes), *plan.called]
    known = {*names, *(name.rsplit("/", 1)[-1] for name in names)}
    if any(match_steps(step, plan.called) for step in use):  # their steps belong to other plans
        return
    problems = [
        Problem(
            f'variant {variant.name}: plan {plan.name} has no step "{step}" that calls the model or a plan',
            there=listed_steps(names), hint=did_you_mean(step, known),
        )
        for step in use
        if step not in known
    ]  # fmt: skip
    if problems:
        raise PlanError(*problems)
