"""The arms of a comparison: for each variant a plan, its rows and its models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from semgraph.compare.request import ArmRequest, ComparisonRequest
from semgraph.compare.trial import checked
from semgraph.compare.variants import Variant
from semgraph.llm.base import ROLES
from semgraph.logical.plan import LogicalPlan, choices_over, without_absent
from semgraph.optimizer import with_rules
from semgraph.session.resources import Resources


@dataclass(frozen=True)
class ArmMaker:
    """Makes the arms of a comparison of a plan, from the plan as given and as checked without changes,
    the rows of its inputs, and its models.
    """

    plan: Any
    base: LogicalPlan
    inputs: Mapping[str, pa.Table]
    resources: Resources
    loading: Mapping[str, Any]  # options that load a plan: params, preset, use, prompts, strict
    load: Callable[..., LogicalPlan]  # with such options, for some resources
    rows: Callable[[LogicalPlan], Mapping[str, pa.Table]]  # of another plan
    _models: dict[str, Resources] = field(default_factory=dict)

    def request(
        self, arms: Mapping[str, ArmRequest], step: str = "", **more: Any
    ) -> ComparisonRequest:
        """A comparison of arms over the rows."""
        plan = without_absent(self.base, self.inputs)
        return ComparisonRequest(plan, self.inputs, arms, step, **more)

    def arms(self, variants: Mapping[str, Variant]) -> dict[str, ArmRequest]:
        """The arms by name. Raises PlanError with the problems of all."""
        arms = {name: partial(self._arm, each) for name, each in variants.items()}
        return checked(arms, "variant")

    def _arm(self, variant: Variant) -> ArmRequest:
        one, resources = variant.of(), self.resources
        named = {"llm": one.get("llm"), "embed": one.get("embedder")}
        models = variant.of("models") | {
            k: model for k, model in named.items() if model is not None
        }
        if models:  # arms with the same models share the same object
            key = str(sorted((k, m if isinstance(m, str) else id(m)) for k, m in models.items()))
            resources = self._models.get(key) or resources.choosing(models)
            self._models[key] = resources
        plan = self._plan(variant, resources)
        plan.by_models(variant.of("models"), ROLES, required=True)  # raises
        plan = with_rules(plan, {n: v in ("on", True) for n, v in variant.of("rules").items()})
        inputs = self.inputs if plan.inputs == self.base.inputs else self.rows(plan)
        return ArmRequest(variant.texts, without_absent(plan, inputs), inputs, resources)

    def _plan(self, variant: Variant, resources: Resources) -> LogicalPlan:
        """The plan of a variant, loaded with its changes. Raises PlanError."""
        given, one = self.loading, variant.of()
        plan = one.get("plan") or (self.plan if isinstance(self.plan, str | Path) else self.base)
        options = {t: {**(given.get(t) or {}), **variant.of(t)} for t in ("params", "prompts")}
        use = given.get("use") or {}  # a model that the variant binds to a step outranks its model
        own = {step: f"@ {step}" for step in variant.of("models") if step in use}
        use = choices_over(variant.of("use"), choices_over(own, use))
        preset = one.get("preset") or given.get("preset")
        how = {"strict": bool(given.get("strict")), "resources": resources}
        return self.load(plan, preset=preset, use=use, **options, **how)
