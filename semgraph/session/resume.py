"""Resuming a run with its recorded inputs, parameters and implementations. Commit markers tell
which rows are written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from semgraph.errors import PlanError, Problem
from semgraph.execution.record import (
    INPUTS,
    RAN,
    Run,
    find_run,
    read_input,
    recorded_inputs,
    records_of,
    write_table,
)
from semgraph.frontend.document import find_plan, read_file
from semgraph.llm.base import Kind
from semgraph.llm.providers import parse_spec
from semgraph.llm.settings import OPTION, Setting, Settings
from semgraph.logical.plan import ALL, LogicalPlan
from semgraph.options import RunOptions
from semgraph.privacy import private_folder, without_password


@dataclass(frozen=True)
class Resumed:
    """The request of a recorded run.

    Args:
        run: Its id.
        plan: Its plan's name.
        params: The values of the plan's parameters.
        use: The implementations of steps.
        models: The models that the call chose for steps, as `@ small`.
        rewrites: The rules that it allowed, and the order of its adjacent filters.
        prompts: The files in the place of prompts, by name.
        inputs: Its rows.
        functions: The functions that its expressions call, each with the SHA-256 of its file.
        options: The recorded ones of `RunOptions`, by name.
        chosen: Models, embedder and store as text, with their origins, by key of the settings.
        engine: The engine that ran it, and the number of shards; None: this process, without
            shards.
        records: Its record, and the records of the runs that it resumed.
    """

    run: str = ""
    plan: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    use: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, pa.Table] = field(default_factory=dict)
    functions: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    chosen: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    engine: tuple[str, int] | None = None
    records: tuple[Path, ...] = ()
    prompts: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    rewrites: tuple[Sequence[str], Sequence[str]] = ((), ())

    def rows(self, plan: LogicalPlan) -> dict[str, Any]:
        """Its rows; for inputs of all partitions, the word `all`. Empty without a run."""
        absent = {name: ALL for name, spec in plan.inputs.items() if spec.or_all and self.run}
        return {**absent, **self.inputs}

    def changed_functions(self, plan: LogicalPlan) -> tuple[str, ...]:
        """A note for each user function that has changed since."""
        now = plan.functions
        changed = (
            name for name, digest in self.functions.items() if now.get(name, digest) != digest
        )
        return tuple(
            f"the function {name} has changed since run {self.run}: rows written before stay as they are"
            for name in changed
        )

    def merged(self, options: RunOptions) -> RunOptions:
        """The options of a run; recorded ones that are unset come from the resumed run."""
        unset = options.recorded.keys() - options.changed.keys()
        before = {name: self.options[name] for name in unset & self.options.keys()}
        return replace(options, resume=self.run or None, **before)

    def settings(self, now: Settings) -> Settings:
        """These settings with the run's models, embedder and store. Options take precedence; so do
        settings with the same origin (a variable, a file) as in the run.
        """
        values = dict(now.values)
        if not self._set_now(now, "models.default") and "models.default" in self.chosen:
            mine = {key: v for key, v in values.items() if _is_model(key) and v.origin == OPTION}
            others = {key: v for key, v in values.items() if not _is_model(key)}
            earlier = {key: self._value(key, now) for key in self.chosen if _is_model(key)}
            values = others | earlier | mine
        for key in ("models.embed", "store"):
            if key in self.chosen and not self._set_now(now, key):
                values[key] = self._value(key, now)
        return replace(now, values=values)

    def _set_now(self, now: Settings, key: str) -> bool:
        origin = now[key].origin
        return origin == OPTION or (key in self.chosen and origin == self.chosen[key][1])

    def _value(self, key: str, now: Settings) -> Setting:
        text, origin = self.chosen[key][0], f"from run {self.run}"
        if key in now.values and without_password(str(now[key].value)) == text:
            return replace(now[key], origin=origin)  # includes the password, which no record holds
        if key == "store":
            return Setting(text, origin, own=False)
        kind: Kind = "embedder" if key == "models.embed" else "model"
        return Setting(parse_spec(text, kind, origin), origin, own=False)


def _is_model(key: str) -> bool:
    return key.startswith("models.") and key != "models.embed"


def keep_inputs(folder: Path, inputs: Mapping[str, pa.Table]) -> None:
    """Write the rows of a run into its record."""
    private_folder(folder / INPUTS)
    for name, table in inputs.items():
        write_table(folder / INPUTS / f"{name}.parquet", table)


def recorded_run(ref: str, runs: Path | None) -> Run:
    """The record of a run. Raises PlanError if there is none."""
    if runs is None:
        there = "no records are kept"
        raise PlanError(f'there is no run "{ref}"', there=there, hint="give runs= a folder")
    return find_run(ref, runs)


def read_resumed(ref: str, runs: Path | None) -> Resumed:
    """Read the request of a run from its record. Raises PlanError if there is no such run, or no
    record of its rows.
    """
    run = recorded_run(ref, runs)
    hint = "run the plan again with the same rows: committed rows are skipped"
    unrecorded = Problem(f"run {run.name} ended before its rows were recorded", hint=hint)
    if run.facts.get("kind", RAN) != RAN:
        what = f"run {run.name} is a refresh, which writes all at its end: it is not resumed"
        raise PlanError(what, hint="repeat the command")
    if "plan" not in run.facts or not (run.folder / INPUTS).is_dir():
        raise PlanError(unrecorded)
    try:
        inputs = {name: read_input(path) for name, path in recorded_inputs(run.folder).items()}
    except pa.ArrowInvalid as error:  # the run ended while it wrote them
        raise PlanError(unrecorded) from error
    facts = run.facts
    before = (run.folder.parent / str(name) for name in facts.get("resumed") or ())
    rows = (facts.get("settings") or {}).items()
    own = [(key, row) for key, row in rows if key.startswith("models.") or key == "store"]
    chosen = {key: (str(row["value"]), str(row["origin"])) for key, row in own}
    return Resumed(
        run.name, str(facts["plan"]), facts.get("params") or {}, facts.get("use") or {}, inputs,
        facts.get("functions") or {}, facts.get("asked") or {}, chosen,
        (str(facts["engine"]), int(facts["shards"])) if "engine" in facts else None,
        tuple(record for folder in (run.folder, *before) for record in records_of(folder)),
        facts.get("prompts") or {}, facts.get("chosen_models") or {},
        (facts.get("allow") or (), facts.get("filters") or ()),
    )  # fmt: skip


def require_same_plan(earlier: Resumed, plan: str | Path, folder: Path) -> None:
    """Refuse to resume a run of another plan. Raises PlanError."""
    path, _ = find_plan(plan, (folder,))
    data = read_file(path).data
    name = data.get("plan") if isinstance(data, Mapping) else None
    if name is not None and str(name) != earlier.plan:
        hint = f"resume it: semgraph run {earlier.plan} --resume {earlier.run}"
        what = f"run {earlier.run} was a run of {earlier.plan}, not of {name}"
        raise PlanError(what, hint=hint)
