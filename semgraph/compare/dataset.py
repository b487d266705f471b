"""A data set: a folder with rows, what is right about them, and a plan that reads them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from semgraph.display import option
from semgraph.errors import InputError, PlanError, Problem, among
from semgraph.folders import examples_folder
from semgraph.frontend.row_files import READERS, SPREADSHEETS
from semgraph.logical.plan import LogicalPlan

_TRUTH, _LABELS, _ROWS = "truth", "labels", "rows"
_ENDINGS = (*READERS, *SPREADSHEETS)  # those of sheets are refused when they are read


@dataclass(frozen=True)
class Dataset:
    """A folder, and its files of rows by their names without an ending."""

    folder: Path
    files: Mapping[str, Path]

    @classmethod
    def named(cls, name: str | Path, home: Path) -> Dataset:
        """A folder, or a data set that comes with semgraph. Raises PlanError or InputError."""
        shipped = examples_folder() / "datasets"
        folder = next((f for f in (home / name, shipped / name) if f.is_dir()), None)
        if folder is None:
            known = among(str(name), sorted(f.name for f in shipped.iterdir()), "semgraph has")
            raise PlanError(f'there is no folder and no data set "{name}"', **known)
        files = dict[str, Path]()
        for path in sorted(f for f in folder.glob("[!.]*") if f.suffix.lower() in _ENDINGS):
            if (other := files.setdefault(path.stem, path)) != path:
                what = f"{path} and {other.name} have one name"
                raise InputError(what, hint="keep one of them")
        return cls(folder, files)

    @property
    def plan(self) -> Path:
        """Its plan. Raises PlanError."""
        if not (path := self.folder / "plan.yaml").is_file():
            hint = "write one, or name a plan: semgraph compare PLAN --dataset …"
            raise PlanError(f"there is no {path}", hint=hint)
        return path

    def rows(self, plan: LogicalPlan, given: Collection[str] = ()) -> dict[str, Path]:
        """The files of the inputs that are not given: `INPUT.csv`, or `rows.csv` of the only input. Raises
        InputError with all problems.
        """
        answers = (_TRUTH, _LABELS)
        rows = {n: path for n, path in self.files.items() if n.partition(".")[0] not in answers}
        if len(plan.inputs) == 1 and _ROWS in rows and not {*rows} & {*plan.inputs}:
            rows[next(iter(plan.inputs))] = rows.pop(_ROWS)
        needed = [n for n, spec in plan.inputs.items() if not (spec.optional or spec.or_all)]
        problems = [
            Problem(f"{path}: plan {plan.name} has no input {name}", **among(name, plan.inputs, "its inputs"))
            for name, path in rows.items() if name not in plan.inputs
        ] + [
            Problem(f"there is no {self.folder / name}.csv (or {', '.join(list(READERS)[:3])} …)",
                    hint=f"write the rows of the input {name} there")
            for name in needed if name not in {*rows, *given}
        ]  # fmt: skip
        if problems:
            raise InputError(*problems)
        return {name: path for name, path in rows.items() if name not in given}

    def answers(self, plan: LogicalPlan, step: str | None, truth: Any = None) -> dict[str, Any]:
        """The labels, or the given truth or its own, and the step: that of `truth.STEP.csv`, else the only
        step that calls a model; none of a plan that writes a graph. Raises PlanError.
        """
        whole = self.files.get(_TRUTH) if truth is None else truth
        if truth is None and step is None and (labels := self.files.get(_LABELS)):
            return {"labels": labels}
        own = self.files if truth is None else {}
        parts = {name.partition(".")[2]: own[name] for name in own if name.startswith("truth.")}
        if step is not None or (whole is None and not parts) or (whole is not None and plan.writes):
            return {"step": step, "truth": parts.get(step or "", whole)}
        steps = plan.asking if whole is not None else list(parts)
        if len(steps) != 1:
            named = self.folder if whole is None or truth is not None else whole
            what = f"{named}: this truth is of a step, and none is named"
            hint = f"{option('step', '...')}; or name the file truth.STEP.csv"
            raise PlanError(what, there=f"steps: {', '.join(steps) or 'none'}", hint=hint)
        return {"step": steps[0], "truth": parts.get(steps[0], whole)}

    @property
    def variants(self) -> Path | None:
        """Its variants."""
        return path if (path := self.folder / "variants.yaml").is_file() else None
