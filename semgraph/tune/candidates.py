"""What can be tried in place of a plan's choices: at a step each implementation that can answer it, with
the values that it declares (`tried`), and each model; for whole plans presets, called plans, rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from semgraph.errors import PlanError
from semgraph.frontend.plan_files import other_ways
from semgraph.llm.base import Limits
from semgraph.logical.plan import Choice, LogicalPlan
from semgraph.logical.semantic import Semantic
from semgraph.optimizer import APPROXIMATE, optimize, with_rules
from semgraph.semantic.implementation import Implementation, Packed, values_tried
from semgraph.semantic.library import Library


@dataclass(frozen=True)
class Candidate:
    """A change of the reference.

    Args:
        name: `good=packed(rows=5) @ small`, `preset=lean`, `rules.fuse_maps=on`, `read=read_combined`.
        changes: What it changes, as a variant of a comparison.
        family: `packed @ small`, of all that differ in a parameter of known risk; else its name.
        risk: Its place in the family, the safest first.
    """

    name: str
    changes: Mapping[str, str] = field(default_factory=dict)
    family: str = ""
    risk: float = 0.0


class _Member(NamedTuple):
    """An implementation without a model; `made` is the reason if it cannot be made."""

    choice: Choice
    made: Implementation[Any] | str
    family: str = ""
    risk: int = 0


def of_step(
    node: Semantic, choice: Choice, library: Library, models: Sequence[str],
    limits: Callable[[str], Limits],
) -> tuple[list[Candidate], dict[str, str]]:  # fmt: skip
    """What can be tried at a step in place of its choice.

    Args:
        node: The step as the plan has it, with the prompt's own role.
        choice: The reference's choice; candidates of the same implementation keep its parameters.
        library: The implementations.
        models: Roles, or PROVIDER:NAME; `default` is the role of the prompt.
        limits: The limits of the model of a role; raises PlanError if there is none.

    Returns:
        The candidates, and the names of those that cannot be tried, each with the reason.
    """
    roles = {prompt.role for prompt in node.prompt.all}
    own = {"default", *(roles if len(roles) == 1 else ())}
    used, *others = ("" if model in own else model for model in (choice.model, *models))
    reference = library.get(node.keyword, choice, node.step)
    candidates, refused = list[Candidate](), list[tuple[str, str, str]]()
    members, usable = list(_members(node.keyword, choice, library)), set[str]()
    for model in dict.fromkeys(others):
        asked = node.of_model(model)
        bounds = limits(asked.prompt.first.role)
        for member in members:
            if member.made == reference and model == used:
                continue
            how, written = member.choice.name, str(replace(member.choice, model=model))
            name = f"{node.step}={written}"
            if reason := _refusal(member.made, asked, bounds):
                refused.append((how, name, reason))
                continue
            usable.add(how)
            family = str(Choice(member.family, (), model)) if member.family else name
            candidates.append(Candidate(name, {node.step: written}, family, member.risk))
    reasons = Counter(how for how, _ in {(how, reason) for how, _, reason in refused})
    return candidates, {
        name if how in usable or reasons[how] > 1 else f"{node.step}={how}": reason
        for how, name, reason in refused
    }


def _members(operator: str, chosen: Choice, library: Library) -> Iterator[_Member]:
    """Each implementation of an operator, once: with each value of a parameter that it declares, the
    others at their defaults.
    """
    found: list[_Member] = []
    for name in library.names(operator):
        params = dict(chosen.params) if name == chosen.name else {}
        found.append(plain := _member(library, operator, Choice(name, tuple(params.items()))))
        declared = {} if isinstance(plain.made, str) else values_tried(type(plain.made))
        for parameter, values in declared.items():
            family = name if len(declared) == 1 else f"{name}({parameter})"
            safest_first = values.listed[::-1] if values.risk == "down" else values.listed
            for risk, value in enumerate(safest_first):
                varied = Choice(name, tuple(sorted({**params, parameter: value}.items())))
                each = _member(library, operator, varied)
                if isinstance(each.made, Packed) and each.made.rows == 1:
                    each = _member(library, operator, library.reference(operator))  # asks the same
                known = values.risk != "none"
                found.append(each._replace(family=family, risk=risk) if known else each)
    found.sort(key=lambda member: not member.family)  # of equal ones the first is taken
    for place, member in enumerate(found):
        if isinstance(member.made, str) or all(member.made != own.made for own in found[:place]):
            yield member


def _member(library: Library, operator: str, choice: Choice) -> _Member:
    try:
        return _Member(choice, library.get(operator, choice))
    except PlanError as error:
        return _Member(choice, str(error))


def _refusal(made: Implementation[Any] | str, node: Semantic, limits: Limits) -> str | None:
    """Why an implementation cannot answer a step, or None."""
    if not isinstance(made, str) and made.learns:
        return "it learns from all rows, so a sample cannot test it; semgraph compare measures it"
    try:
        return made if isinstance(made, str) else made.refusal(node, limits)
    except Exception as error:  # noqa: BLE001 - a user's code, which may not know this step
        return f"its refuses raised {type(error).__name__}: {error}"


def of_plan(plan: LogicalPlan, preset: str | None = None) -> list[Candidate]:
    """What can be tried of a whole plan: its presets but the chosen one, other plans in place of those
    that it calls, and the rules that may change answers, if they change it. Raises PlanError.
    """
    presets = (each for each in plan.document.get("presets") or () if each != preset)
    rules = (rule.__name__ for rule in APPROXIMATE)
    changes = [("preset", each) for each in presets] + [*other_ways(plan)]
    changes += [(f"rules.{rule}", "on") for rule in rules if _acts(rule, plan)]
    return [Candidate(f"{k}={v}", {k: v}, f"{k}={v}") for k, v in changes]


def _acts(rule: str, plan: LogicalPlan) -> bool:
    """Whether a rule that is not switched on or off would change a plan."""
    observed = list[str]()
    if rule not in (*plan.allow, *plan.without):
        rules = {**dict.fromkeys(plan.without, False), rule: True}
        optimize(with_rules(plan, rules), observed.append)
    return rule in observed
