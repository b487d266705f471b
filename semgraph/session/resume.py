"""Going on with a run: its inputs, parameters and ways, as its record has them. What is written
already is told by marks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from semgraph.errors import PlanError, Problem
from semgraph.execution.record import Run, find_run, write_table
from semgraph.frontend.document import read_file
from semgraph.frontend.finding import find_plan
from semgraph.llm.settings import OPTION, Settings, Value
from semgraph.llm.specs import parse_spec, without_password
from semgraph.private import private_folder

if TYPE_CHECKING:
    from semgraph.session.run import RunRequest

INPUTS = "inputs"


@dataclass(frozen=True)
class Resumed:
    """What a run was asked to do, and with what.

    Args:
        run: Its id.
        plan: Its plan's name.
        params: The values of the plan's parameters.
        use: The ways of steps.
        inputs: Its rows.
        asked: `until`, `write`, `again` and `on_error`, as they were given.
        chosen: Models, embedder and store as text, with their origins, by key of the settings.
    """

    run: str = ""
    plan: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    use: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, pa.Table] = field(default_factory=dict)
    asked: Mapping[str, Any] = field(default_factory=dict)
    chosen: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def settings(self, now: Settings) -> Settings:
        """These settings with the run's models, embedder and store, but for what is given anew: as
        an option, or where the run had it from (a variable of the environment, a file).
        """
        found = dict(now.values)
        if not self._anew(now, "models.default") and "models.default" in self.chosen:
            for key in [key for key in found if _asks(key) and key not in self.chosen]:
                del found[key]
            found |= {key: self._value(key, now) for key in self.chosen if _asks(key)}
        for key in ("models.embed", "store"):
            if key in self.chosen and not self._anew(now, key):
                found[key] = self._value(key, now)
        return replace(now, values=found)

    def request(self, request: RunRequest) -> RunRequest:
        """What is asked for now, and what the run was asked for besides."""
        asked = self.asked
        return replace(
            request,
            until=request.until or asked.get("until"),
            write=request.write and asked.get("write", True),
            again=request.again or asked.get("again", False),
            on_error=request.on_error or asked.get("on_error"),
        )

    def _anew(self, now: Settings, key: str) -> bool:
        origin = now[key].origin
        return origin == OPTION or (key in self.chosen and origin == self.chosen[key][1])

    def _value(self, key: str, now: Settings) -> Value:
        text, origin = self.chosen[key][0], f"from run {self.run}"
        if key in now.values and without_password(str(now[key].value)) == text:
            return Value(now[key].value, origin)  # it may have a password, which no record has
        if key == "store":
            return Value(text, origin)
        return Value(
            parse_spec(text, "embedder" if key == "models.embed" else "model", origin), origin
        )


def _asks(key: str) -> bool:
    return key.startswith("models.") and key != "models.embed"


def keep_inputs(folder: Path, inputs: Mapping[str, pa.Table]) -> None:
    """Put the rows that a run was given into its record."""
    private_folder(folder / INPUTS)
    for name, table in inputs.items():
        write_table(folder / INPUTS / f"{name}.parquet", table)


def resumed(ref: str, runs: Path | None) -> Resumed:
    """What a run was asked to do, from its record. Raises PlanError if there is no such run, or no
    record of its rows.
    """
    import pyarrow.parquet as pq

    if runs is None:
        raise PlanError(
            Problem(
                f'there is no run "{ref}"', there="no records are kept", hint="give runs= a folder"
            )
        )
    run: Run = find_run(ref, runs)
    folder = run.folder / INPUTS
    if "plan" not in run.facts or not folder.is_dir():
        hint = "run the plan again with the same rows: what is written already is left out"
        raise PlanError(Problem(f"run {run.name} ended before its rows were kept", hint=hint))
    inputs = {file.stem: pq.read_table(file) for file in sorted(folder.glob("*.parquet"))}
    facts = run.facts
    chosen = {
        key: (str(row["value"]), str(row["origin"]))
        for key, row in (facts.get("settings") or {}).items()
        if key.startswith("models.") or key == "store"
    }
    return Resumed(
        run.name, str(facts["plan"]), facts.get("params") or {}, facts.get("use") or {}, inputs,
        facts.get("asked") or {}, chosen,
    )  # fmt: skip


def same_plan(before: Resumed, plan: str | Path, folder: Path) -> None:
    """Refuse to go on with a run of another plan; its parameters would make no sense here. Raises
    PlanError.
    """
    path, _ = find_plan(plan, (folder,))
    data = read_file(path).data
    name = data.get("plan") if isinstance(data, Mapping) else None
    if name is not None and str(name) != before.plan:
        hint = f"go on with it: semgraph run {before.plan} --resume {before.run}"
        raise PlanError(
            Problem(f"run {before.run} was a run of {before.plan}, not of {name}", hint=hint)
        )
