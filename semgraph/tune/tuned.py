"""The file of a choice, `PLAN.tuned.yaml`: what `tune` chose for a plan, what that was shown by, and
what it was made of. It is the preset `tuned` of the plan.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from semgraph.errors import Fault, PlanError, Problem, each
from semgraph.expr.canonical import canonical
from semgraph.folders import plans_folder
from semgraph.frontend import kinds
from semgraph.frontend.document import find_plan, read_file, shown
from semgraph.frontend.dump import write_yaml
from semgraph.frontend.kinds import Key, Keys
from semgraph.logical.node import walk
from semgraph.logical.plan import TUNED, LogicalPlan, match_steps, models_of
from semgraph.logical.semantic import Semantic
from semgraph.optimizer import rewritten
from semgraph.semantic.library import Library
from semgraph.stores.writes import fingerprint

_NAMES = kinds.plain(lambda value: kinds.each_item(value, kinds.read_text), {})
# The keys of the file.
CHOICE: Keys = {
    "plan": Key(kinds.TEXT, "the name of the plan", required=True),
    "preset": Key(kinds.TEXT, "one of its presets"),
    "params": Key(kinds.mapped("values by parameter", {}), "values of its parameters"),
    "use": Key(kinds.TEXTS, "implementations of steps"),
    "allow": Key(_NAMES, "rewrites that may change answers"),
    "order": Key(_NAMES, "adjacent filters, first asked first"),
    "shown": Key(kinds.kept({}), "what is promised"),
    "costs": Key(kinds.kept({}), "what it costs"),
    "made_of": Key(
        kinds.mapped("fingerprints", {}), "fingerprints of what it is for", required=True
    ),
}
_WORDS = {  # of the parts of `made_of`, for reasons
    "called": "the plan that step {} calls",
    "prompts": "prompt {}",
    "implementations": "the implementation of {}",
    "functions": "the function {}",
    "models": "the model of {}",
}
_NOT_RUN = ("doc", "example", "calls")  # keys of a plan that change no request
_IS_CHOICE = re.compile(rf"\A{TUNED}\Z|\.ya?ml\Z")  # as a preset
NameOf = Callable[[str], str]


def choice_of(
    plan: LogicalPlan,
    changes: Mapping[str, str],
    name_of: NameOf,
    operators: Iterable[Path | str] = (),
    **facts: Any,
) -> dict[str, Any]:
    """The content of the file.

    Args:
        plan: The plan with these changes; what the call that prepared it chose is in the file too.
        changes: What was chosen, as a variant of a comparison: `preset`, `order`, `rules.NAME`, or
            the implementation of a step.
        name_of: The name of the model of a role.
        operators: The folders of the user's implementations.
        facts: `shown` and `costs`; `record`, for the first line.

    Raises:
        PlanError: The file has no place for a change.
    """
    rest = {key: value for key, value in changes.items() if key not in ("preset", "order")}
    rules = [key for key, value in rest.items() if key.startswith("rules.") and value == "on"]
    use = {key: value for key, value in rest.items() if key not in rules}
    if lost := [key for key in use if "." in key]:
        raise PlanError(f"the file of a choice has no place for {lost[0]}={use[lost[0]]}")
    order = [step.strip() for step in changes.get("order", "").split(",") if step.strip()]
    allowed = dict.fromkeys((*(key.removeprefix("rules.") for key in rules), *plan.allow))
    presets, declared = plan.document.get("presets") or {}, plan.document.get("params") or {}
    usual = {**declared, **(presets.get(plan.preset, {}).get("params") or {})}
    content = {
        "record": facts.get("record"),
        "plan": plan.name,
        "preset": plan.preset,
        "params": {name: v for name, v in plan.params.items() if v != usual.get(name)},
        "use": {**use, **plan.asked},
        "allow": [name for name in allowed if name not in (plan.document.get("allow") or ())],
        "order": order or list(plan.order),
        "shown": facts.get("shown"),
        "costs": facts.get("costs"),
        "made_of": made_of(plan, name_of, operators),
    }
    return {key: value for key, value in content.items() if value}


def made_of(
    plan: LogicalPlan, name_of: NameOf, operators: Iterable[Path | str] = ()
) -> dict[str, Any]:
    """Fingerprints of what a plan's answers depend on, whatever its parameters are; the models by
    role, without addresses.
    """
    library, prompts = Library(operators), dict[str, set[str]]()
    implementations: dict[str, str] = {}
    for node in walk(*plan.roots):
        if isinstance(node, Semantic):
            reference = library.reference(node.keyword)
            choice = (plan.choice(node.step) or reference).over(reference)
            made = library.get(node.keyword, choice, node.step)
            values = {f.name: getattr(made, f.name) for f in fields(made) if f.init}
            implementations[node.step] = fingerprint([choice.name, values, made.version])
            for prompt in node.prompt.all:
                if prompt.digest:  # others are in the plan
                    text = prompt.digest + canonical(prompt.shown)
                    prompts.setdefault(prompt.name, set()).add(text)
    parts = {
        "called": {step: _of_plan(call.document) for step, call in plan.called.items()},
        "prompts": {name: fingerprint(sorted(texts)) for name, texts in prompts.items()},
        "implementations": implementations,
        "functions": {name: fingerprint(digest) for name, digest in plan.functions.items()},
        "models": {role: re.split("[@?]", name_of(role))[0] for role in plan.needs.roles},
    }
    own = {"plan": _of_plan(plan.document)}
    return own | {kind: names for kind, names in parts.items() if names}


def _of_plan(document: Mapping[str, Any]) -> str:
    return fingerprint({key: value for key, value in document.items() if key not in _NOT_RUN})


def write(choice: Mapping[str, Any], path: Path) -> Path:
    """Write the file of a choice, whole or not at all. Raises PlanError."""
    content = {key: choice[key] for key in CHOICE if choice.get(key)}
    if path.resolve().is_relative_to(plans_folder().resolve()):
        what = f"{shown(path)} is in the folder of the shipped plans"
        raise PlanError(what, hint="name another: -o FILE")
    models_of(content.get("use", {}))  # raises
    text = write_yaml(content)
    if "://" in text:
        what = "a choice names a model by its role or as PROVIDER:NAME, not by its address"
        raise PlanError(what)
    record = f", record {choice['record']}" if choice.get("record") else ""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    head = f"# made by `semgraph tune`{record}: run it again rather than edit\n"
    draft.write_text(head + text, encoding="utf-8")
    return draft.replace(path)


def read(path: Path) -> dict[str, Any]:
    """The content of the file of a choice. Raises PlanError."""
    document = read_file(path, "choice")
    try:
        return kinds.all_keys(document.data, "a choice", CHOICE)
    except Fault as faults:
        raise PlanError(*map(document.problem, each(faults))) from None


def stale(
    choice: Mapping[str, Any],
    plan: LogicalPlan,
    name_of: NameOf,
    operators: Iterable[Path | str] = (),
    own: Collection[str] = (),
) -> list[str]:
    """What has changed since a choice was made for a plan, one reason each.

    Args:
        choice: The choice.
        plan: The plan with it.
        name_of: The name of the model of a role.
        operators: The folders of the user's implementations.
        own: The steps and parameters for which the user chose otherwise.
    """
    was, now = choice["made_of"], made_of(plan, name_of, operators)
    chosen = {step for name in own for step in match_steps(name, [*plan.asking, *plan.called])}
    reasons = ["the plan has changed"] if was.get("plan") != now["plan"] else []
    for kind, words in _WORDS.items():
        before, after = was.get(kind) or {}, now.get(kind) or {}
        for name, first in before.items():
            last = after.get(name, "another" if kind == "models" and not own else first)
            to = f" from {first} to {last}" if kind == "models" else ""
            if last != first and (kind not in ("called", "implementations") or name not in chosen):
                reasons.append(f"{words.format(name)} has changed{to}")
    return reasons


@dataclass(frozen=True)
class Tuned:
    """A preset as it was asked for: one of the plan, or the choice in a file."""

    preset: str | None = None
    file: Path | None = None
    plan: str = ""  # its name, or its file if that has another one
    choice: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def asked(cls, plan: str | Path, preset: str | Path | None, folder: Path) -> Tuned:
        """The preset of a name, `tuned`, or the file of a choice. Raises PlanError."""
        if preset is None or (isinstance(preset, str) and not _IS_CHOICE.search(preset)):
            return cls(preset)
        path, _ = find_plan(plan, (folder,))
        data = read_file(path).data
        name = str(data.get("plan") if isinstance(data, Mapping) else path.stem)
        beside = [at / f"{name}.{TUNED}.yaml" for at in (folder / "plans", path.parent)]
        typed = name if Path(plan).stem == name else shown(Path(plan))
        places = beside if preset == TUNED else [folder / preset]
        file = next((path for path in places if path.is_file()), None)
        if file is None:
            there = f"looked for {' and '.join(dict.fromkeys(map(shown, places)))}"
            raise PlanError(f"plan {name} is not tuned", there=there, hint=f"semgraph tune {typed}")
        choice = read(file)
        if choice["plan"] != name:
            what = f"{shown(file)} is a choice for the plan {choice['plan']}, not for {name}"
            raise PlanError(what, hint=f"semgraph tune {plan}")
        return cls(choice.get("preset"), file, typed, choice)

    def of(self, key: str) -> Any:
        """What the choice has under a key; empty without."""
        return self.choice.get(key) or {}

    @contextmanager
    def named(self) -> Iterator[None]:
        """Name the file in errors of a block that uses it."""
        try:
            yield
        except PlanError as error:
            if self.file is not None:
                error.add_note(f"{shown(self.file)} is in use: semgraph tune {self.plan}")
            raise

    def on(
        self,
        plan: LogicalPlan,
        name_of: NameOf,
        operators: Iterable[Path | str],
        own: Collection[str],
        *,
        strict: bool,
    ) -> LogicalPlan:
        """A plan that was loaded with its preset and implementations, with all of it, and with a
        warning if it is stale; `strict` refuses that. Raises PlanError.
        """
        if self.file is None:
            return plan
        what = f"{shown(self.file)} is stale: "
        reasons = stale(self.choice, plan, name_of, operators, own)
        problem = Problem(what + "; ".join(reasons), hint=f"semgraph tune {self.plan}")
        if strict and reasons:
            raise PlanError(problem)
        return rewritten(plan, self.of("allow"), self.of("order"), (problem,) if reasons else ())
