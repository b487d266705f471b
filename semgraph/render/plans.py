"""Plan files: lists, pages, checks, and copies to change."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from textwrap import wrap
from typing import Any

from semgraph.errors import PlanError, Problem
from semgraph.formats import plural
from semgraph.frontend.document import inside, read_file, shown, walk_paths
from semgraph.frontend.head import read_graph
from semgraph.frontend.load import find_plan, load_plan
from semgraph.logical.node import walk
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.prompt import Prompt
from semgraph.logical.semantic import Semantic
from semgraph.render.tables import Column, lines
from semgraph.semantic.library import Library, check_implementations
from semgraph.shipped import plans_folder

_OWN = Path("plans")


@dataclass(frozen=True)
class PlanFile:
    """A plan file, loaded on first use."""

    path: Path
    shipped: bool

    @cached_property
    def plan(self) -> LogicalPlan:
        """The checked plan. Raises PlanError."""
        return load_plan(self.path)

    @cached_property
    def semantic(self) -> list[Semantic]:
        """The semantic nodes, including those of called plans."""
        return [node for node in walk(*self.plan.steps.values()) if isinstance(node, Semantic)]

    @property
    def prompts(self) -> list[Prompt]:
        """All prompts, each once."""
        return list(
            {prompt.name: prompt for node in self.semantic for prompt in node.prompt.all}.values()
        )


def plan_file(ref: str) -> PlanFile:
    """A plan by name or path. Raises PlanError."""
    return PlanFile(*find_plan(ref))


def listed() -> list[PlanFile]:
    """The plans in `./plans` and the shipped ones that these do not hide."""
    files: dict[str, PlanFile] = {}
    for folder, is_shipped in ((_OWN, False), (plans_folder(), True)):
        for path in sorted(folder.glob("*.yaml")):
            if is_plan(path):
                own = is_shipped or folder.resolve() == plans_folder().resolve()
                files.setdefault(path.stem, PlanFile(path, own))
    return list(files.values())


def is_plan(path: Path) -> bool:
    """Whether a file is meant to be a plan; an unreadable file counts as one."""
    try:
        data = read_file(path).data
    except PlanError:
        return True  # listed with its problems
    return isinstance(data, dict) and "plan" in data


def described(file: PlanFile) -> dict[str, Any]:
    """A plan as plain data. Raises PlanError."""
    plan = file.plan
    return {
        "plan": plan.name,
        "file": str(file.path),
        "shipped": file.shipped,
        "doc": plan.doc.strip(),
        "inputs": {
            name: {column: str(kind) for column, kind in spec.columns}
            for name, spec in plan.inputs.items()
        },
        "params": dict(plan.params),
        "presets": plan.document.get("presets") or {},
        "steps": len(plan.steps),
        "semantic": {
            node.step: {"operator": node.keyword, "how": _implementation(plan, node)}
            for node in file.semantic
        },
        "prompts": [prompt.name for prompt in file.prompts],
        "writes": [sink.label.name for sink in plan.writes] + (["schema"] if plan.schema else []),
        "returns": list(plan.returns),
    }


def _implementation(plan: LogicalPlan, node: Semantic) -> str:
    return str(plan.use[node.step]) if node.step in plan.use else "reference"


def list_lines(files: Sequence[PlanFile], width: int) -> Iterator[str]:
    """A line for each plan."""
    rows = []
    for file in files:
        where = "shipped" if file.shipped else str(file.path.parent)
        try:
            plan = file.plan
        except PlanError as error:
            rows.append((file.path.stem, where, "", "", "", f"✗ {error.problems[0]}"))
            continue
        doc = plan.doc.strip().splitlines()
        steps = plural(len(plan.steps), "step")
        rows.append((plan.name, where, steps, f"{len(file.semantic)} semantic", "writes" if plan.writes or plan.schema else "",
                     doc[0] if doc else ""))  # fmt: skip
    titles = ("plan", "from", "steps", "asks", "", "does")
    cells = list(zip(*rows, strict=True)) if rows else [()] * len(titles)
    columns = [Column(title, column) for title, column in zip(titles, cells, strict=True)]
    yield from lines(columns, width, indent=0)


def page(file: PlanFile, width: int, *, prompts: bool = False) -> Iterator[str]:
    """A plan on a page, optionally with the text of its prompts. Raises PlanError."""
    plan = file.plan
    yield f"{plan.name}   {shown(file.path)}{' (shipped)' if file.shipped else ''}"
    for line in plan.doc.strip().splitlines():
        yield from wrap(line, width, initial_indent="  ", subsequent_indent="  ") or [""]
    for name, spec in plan.inputs.items():
        yield ""
        yield f"input {name}{' (optional)' if spec.optional else ''}"
        columns = [
            Column("column", [n for n, _ in spec.columns]),
            Column("type", [str(t) for _, t in spec.columns]),
        ]
        yield from list(lines(columns, width))[1:]
    yield from _section(
        "params (--set NAME=VALUE)", {n: _value(v) for n, v in plan.params.items()}, width
    )
    presets = plan.document.get("presets") or {}
    yield from _section(
        "presets (--preset NAME)", {n: _value(v) for n, v in presets.items()}, width
    )
    yield from _asking(file, width)
    if plan.writes or plan.schema:
        labels = dict.fromkeys(
            [
                *(["schema"] if plan.schema else []),
                *(f"{sink.keyword} {sink.label.name}" for sink in plan.writes),
            ]
        )
        yield from ("", *wrap(f"writes   {', '.join(labels)}", width, subsequent_indent=" " * 9))
    yield from wrap(
        f"returns  {', '.join(plan.returns) or 'nothing'}", width, subsequent_indent=" " * 9
    )
    typed, shows = f"try: semgraph run {file.path.stem}", example(plan)
    fits = len(typed) + len(shows) + 5 <= width
    yield from (
        "",
        *(
            [f"{typed}     {shows}"]
            if fits
            else [typed, *wrap(shows, width, initial_indent=" " * 5)]
        ),
    )
    for prompt in file.prompts if prompts else ():
        yield from ("", f"── prompt {prompt.name} {'─' * max(2, width - 12 - len(prompt.name))}")
        yield from (
            Path(prompt.file).read_text(encoding="utf-8").splitlines()
            if prompt.file
            else ["(inline)"]
        )


def example(plan: LogicalPlan) -> str:
    """How to run a plan: its example, or the inputs it needs."""
    inputs = (plan.document.get("example") or {}).get("inputs") or {}
    if inputs:
        return "runs its example: " + ", ".join(
            f"{plural(len(rows), 'row')} of {name}" for name, rows in inputs.items()
        )
    return " ".join(f"-i {name}=FILE" for name, spec in plan.inputs.items() if not spec.optional)


def _value(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False, default=str)


def _section(title: str, values: dict[str, str], width: int) -> Iterator[str]:
    if values:
        yield from ("", title)
        columns = [Column("name", list(values)), Column("value", list(values.values()))]
        yield from list(lines(columns, width))[1:]


def _asking(file: PlanFile, width: int) -> Iterator[str]:
    """The semantic steps with their implementations and prompts."""
    if not file.semantic:
        return
    yield from ("", "asks a model (--use STEP=IMPLEMENTATION)")
    nodes = file.semantic
    yield from lines(
        [
            Column("step", [node.step for node in nodes]),
            Column("operator", [node.keyword for node in nodes]),
            Column("way", [_implementation(file.plan, node) for node in nodes]),
            Column(
                "prompt", [", ".join(prompt.name for prompt in node.prompt.all) for node in nodes]
            ),
        ],
        width,
    )


def copied(ref: str, folder: Path) -> list[Path]:
    """Copy a plan with all that it needs, so that the copy can be changed.

    Returns:
        The written files; existing files with the same content are left alone.

    Raises:
        PlanError: There is no such plan, or a file exists with other content; nothing was written.
    """
    texts: dict[Path, bytes] = {}
    _gather(plan_file(ref), texts)
    targets = {folder / inner: text for inner, text in texts.items()}
    changed = [
        path for path, text in targets.items() if path.exists() and path.read_bytes() != text
    ]
    if changed:
        there = ", ".join(str(path) for path in changed)
        hint = "name another folder, or delete them first"
        raise PlanError(
            Problem("files are there already, with another content", there=there, hint=hint)
        )
    new = [path for path in targets if not path.exists()]
    for path in new:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(targets[path])
    return new


def _prompt_files(document: Mapping[str, Any], home: Path) -> Iterator[Path]:
    """The prompts of all steps, including those that only other parameters use."""
    for _, value in walk_paths(document):
        if isinstance(value, dict) and (prompt := value.get("prompt")):
            names = (
                [name for key, name in prompt.items() if key != "by"]
                if isinstance(prompt, dict)
                else [prompt]
            )
            files = (
                home / "prompts" / f"{name}.md"
                for name in map(str, names)
                if not re.search(r"[\s{]", name)
            )
            yield from (path for path in files if inside(path, (home,)) and path.is_file())


def _gather(file: PlanFile, texts: dict[Path, bytes]) -> None:
    """The files of a plan and of the plans it calls, by their place beside the plan."""
    home = file.path.resolve().parent
    if Path(file.path.name) in texts:
        return
    texts[Path(file.path.name)] = file.path.read_bytes()
    for recording in sorted((home / "recordings").glob(f"{file.plan.name}.jsonl*")):
        texts[Path("recordings", recording.name)] = recording.read_bytes()
    document = file.plan.document
    beside = [home / str(document["graph"])] if document.get("graph") else []
    beside += _prompt_files(document, home)
    for path in beside:
        texts[path.relative_to(home) if path.is_relative_to(home) else Path(path.name)] = (
            path.read_bytes()
        )
    for _, value in walk_paths(document):
        if isinstance(value, dict) and isinstance(call := value.get("call"), dict):
            _gather(PlanFile(find_plan(str(call["plan"]), (home,))[0], file.shipped), texts)


@dataclass(frozen=True)
class PlanCheck:
    """The outcome of checking a file."""

    file: str
    ok: str
    problems: tuple[str, ...]
    kind: str = "plan"
    warnings: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        """One line if it is valid, else one for each problem; then one for each warning."""
        if self.problems:
            yield from self.problems
        else:
            yield f"{self.file}   ok   {self.ok}"
        yield from (f"! {warning}" for warning in self.warnings)


def files_in(names: Sequence[str]) -> list[Path]:
    """The named plan files, and those in the named folders. Raises PlanError."""
    paths: list[Path] = []
    for name in names:
        path = Path(name)
        if path.is_dir():
            paths += [p for p in sorted(path.glob("*.yaml")) if is_plan(p)]
        elif path.is_file():
            paths.append(path)
        elif "/" not in name and not name.endswith((".yaml", ".yml")):
            paths.append(find_plan(name)[0])
        else:
            raise PlanError(
                Problem(f"{name}: there is no such file or folder", hint="see semgraph plans list")
            )
    if not paths:
        raise PlanError(
            Problem(
                f"{', '.join(names)}: there is no plan",
                hint="a plan is a .yaml file with the key plan",
            )
        )
    return paths


def checked(path: Path, library: Library) -> PlanCheck:
    """Load a graph, or a plan with its presets and implementations, and report all errors."""
    kind = "graph" if not is_plan(path) and _is_graph(path) else "plan"
    try:
        if kind == "graph":
            return PlanCheck(shown(path), _graph(path), (), kind)
        ok, warnings = _plan(path, library)
        return PlanCheck(shown(path), ok, (), kind, tuple(map(str, warnings)))
    except PlanError as error:
        return PlanCheck(shown(path), "", tuple(dict.fromkeys(map(str, error.problems))), kind)


def _is_graph(path: Path) -> bool:
    data = read_file(path).data
    return isinstance(data, dict) and "nodes" in data


def _graph(path: Path) -> str:
    graph = read_graph(path)
    return f"a graph: {plural(len(graph.nodes), 'label')} of nodes, {len(graph.edges)} of edges"


def _plan(path: Path, library: Library) -> tuple[str, tuple[Problem, ...]]:
    """A summary of a plan, and the warnings about it and its presets. Raises PlanError."""
    file = PlanFile(path, shipped=False)
    plan = file.plan
    warnings: dict[Problem, None] = {}
    for loaded in (
        plan,
        *(load_plan(path, preset=preset) for preset in plan.document.get("presets") or {}),
    ):
        warnings |= dict.fromkeys(loaded.warnings)
        if loaded.use:  # the reference of an operator does all of it
            check_implementations(loaded, library)
    writes = len(plan.writes) + bool(plan.schema)
    made_of = f"{plural(len(plan.steps), 'step')}, {len(file.semantic)} semantic, {plural(writes, 'write')}"
    return made_of, tuple(warnings)


def verdict(checks: Sequence[PlanCheck]) -> str:
    """A sentence on how many files have errors; "" if none has."""
    wrong, whole = sum(bool(c.problems) for c in checks), len(checks)
    kinds = {c.kind for c in checks}
    kind = kinds.pop() if len(kinds) == 1 else "file"
    if not wrong:
        return ""
    if whole == 1:
        return f"the {kind} has errors"
    return f"{wrong} of {whole} {kind}s {'has' if wrong == 1 else 'have'} errors"
