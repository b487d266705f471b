"""Plan files as lists, as pages for a terminal, and as outcomes of checks. Also implementations and
functions for expressions, as tables and as plain data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from semgraph.errors import PlanError
from semgraph.formats import plural
from semgraph.frontend.document import shown
from semgraph.frontend.functions import ListedFunction
from semgraph.frontend.plan_files import CalledPlan, PlanCheck, PlanFile, callers
from semgraph.llm.settings import Settings
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.semantic import Semantic
from semgraph.render.tables import GAP, WIDEST, Column, clipped, fit, hanging, lines
from semgraph.semantic.contract import OPERATORS
from semgraph.semantic.library import FOLDERS, Library, Listed

Callers = Mapping[str, tuple[str, ...]]  # the callers of a plan, by its name


def described(file: PlanFile) -> dict[str, Any]:
    """A plan as plain data. Raises PlanError."""
    plan = file.plan
    return {
        "plan": plan.name,
        "file": str(file.path),
        "shipped": file.shipped,
        "doc": plan.doc.strip(),
        "inputs": {n: {c: str(kind) for c, kind in s.columns} for n, s in plan.inputs.items()},
        "params": dict(plan.params),
        "presets": plan.document.get("presets") or {},
        "meanings": {"params": file.notes.params, "presets": file.notes.presets},
        "steps": len(plan.steps),
        "semantic": {
            node.step: {"operator": node.keyword, "how": _implementation(plan, node)}
            for node in file.semantic
        },
        "prompts": [prompt.name for prompt in file.prompts],
        "writes": [sink.label.name for sink in plan.writes] + ["schema"] * bool(plan.schema_write),
        "returns": list(plan.returns),
    }


def described_list(files: Sequence[PlanFile]) -> list[dict[str, Any]]:
    """Plans as plain data, each with its callers; plans without callers come first. A plan with errors
    has the first one as `error`.
    """
    plans, parts, called = grouped(files)

    def data(file: PlanFile) -> dict[str, Any]:
        try:
            return described(file)
        except PlanError as error:
            error_of = {"error": str(error.problems[0])}
            return {"file": str(file.path), "shipped": file.shipped} | error_of

    return [
        {"name": file.name} | data(file) | {"called_by": list(called.get(file.name, ()))}
        for file in (*plans, *parts)
    ]


def _implementation(plan: LogicalPlan, node: Semantic) -> str:
    return str(plan.use[node.step]) if node.step in plan.use else "reference"


def grouped(files: Sequence[PlanFile]) -> tuple[list[PlanFile], list[PlanFile], Callers]:
    """The plans, the parts that other plans call, and their callers."""
    called = callers(files)
    parts = [file for file in files if file.name in called]
    return [file for file in files if file not in parts], parts, called


def list_lines(files: Sequence[PlanFile], width: int) -> Iterator[str]:
    """One line per plan; below, the plans of each folder, and the parts that other plans call."""
    plans, parts, called = grouped(files)
    yield from _table("plan", [file for file in plans if not file.folder], width)
    for folder in dict.fromkeys(file.folder for file in plans if file.folder):
        yield from ("", f"{folder}/")
        yield from _table("plan", [file for file in plans if file.folder == folder], width)
    if parts:
        yield from ("", "parts: plans that other plans call")
        yield from _table("part", parts, width, called)


_LEAST = 24  # the narrowest description


def _table(
    title: str, files: Sequence[PlanFile], width: int, called: Callers | None = None
) -> Iterator[str]:
    """The plans as a table; their callers, then their descriptions, fill the line."""
    rows = [_row(file) for file in files]
    cells = list(zip(*rows, strict=True)) if rows else [()] * 5
    columns = [
        Column(name, own, right=name == "asks")
        for name, own in zip((title, "from", "asks", "writes"), cells, strict=False)
    ]
    filling: dict[str, Sequence[str]] = {"description": cells[-1]}
    if called is not None:
        filling = {"called by": [", ".join(called[f.name]) for f in files], **filling}
    for name, texts in filling.items():
        rest = width - sum(min(WIDEST, column.width) + GAP for column in columns)
        if rest >= _LEAST:
            columns.append(Column(name, [clipped(text, rest) for text in texts]))
    yield from lines(columns, width, indent=0)


def _row(file: PlanFile) -> tuple[str, ...]:
    """The cells of a plan: its name, its folder, the steps that call a model, its description."""
    where = "shipped" if file.shipped else "plans"
    try:
        plan = file.plan
    except PlanError as error:
        return (file.name, where, "✗", "", f"✗ {error.problems[0]}")
    writes = "yes" if plan.writes or plan.schema_write else ""
    return (file.name, where, str(len(file.semantic) or ""), writes, first_sentence(plan.doc))


def called_lines(calls: Sequence[CalledPlan], width: int) -> Iterator[str]:
    """The calls of a plan, each with its interface and the plans that fit."""
    for call in calls:
        inputs = ", ".join((*call.inputs, *(f"${name}" for name in call.params)))
        results = ", ".join(call.results) or "nothing"
        fitting = ", ".join(call.fitting) or "no other plan beside it"
        yield from hanging(f"{call.step}   {call.plan}({inputs}) → {results}", width, 4)
        yield from hanging(f"  fits: {fitting}", width, 4)


def page(file: PlanFile, width: int, *, prompts: bool = False) -> Iterator[str]:
    """A plan on a page, optionally with the text of its prompts. Raises PlanError."""
    plan, notes = file.plan, file.notes
    yield f"{plan.name}   {shown(file.path)}{' (shipped)' if file.shipped else ''}"
    for line in plan.doc.strip().splitlines():
        yield from hanging(f"  {line}", width, 2) or [""]
    for name, spec in plan.inputs.items():
        without = " (optional: all)" if spec.or_all else " (optional)" if spec.optional else ""
        columns = [(n, str(kind), notes.at("inputs", name, n)) for n, kind in spec.columns]
        yield from _part(f"input {name}{without}", notes.at("inputs", name), columns, width)
    params = [(name, _value(plan.params[name]), text) for name, text in notes.params.items()]
    yield from _part("params (--set NAME=VALUE)", "", params, width)
    yield from _part("presets (--preset NAME)", notes.at("presets"), _presets(file), width)
    yield from _semantic_steps(file, width)
    labels = ["schema"] if plan.schema_write else []
    labels += dict.fromkeys(f"{sink.keyword} {sink.label.name}" for sink in plan.writes)
    if labels:
        yield from ("", *hanging(f"writes   {', '.join(labels)}", width, 9))
    yield from hanging(f"returns  {', '.join(plan.returns) or 'nothing'}", width, 9)
    yield from ("", *_try(file, width))
    for prompt in file.prompts if prompts else ():
        yield from ("", f"── prompt {prompt.name} {'─' * max(2, width - 12 - len(prompt.name))}")
        text = Path(prompt.file).read_text(encoding="utf-8") if prompt.file else "(inline)"
        yield from text.splitlines()


def _part(
    title: str, comment: str, rows: Sequence[tuple[str, str, str]], width: int
) -> Iterator[str]:
    """A title with a comment, and names with a value and its meaning, which is folded next to them,
    or below if the terminal is narrow. Nothing without rows.
    """
    if not rows:
        return
    yield from ("", *hanging(f"{title}{f'   {comment}' if comment else ''}", width, 2))
    names, values = (min(WIDEST, Column("", [row[i] for row in rows]).width) for i in (0, 1))
    beside = 2 + sum(size + GAP for size in (names, values) if size)
    margin = beside if width - beside >= _LEAST else 6
    for name, value, meaning in rows:
        cells = [fit(text, size) for text, size in ((name, names), (value, values)) if size]
        head = f"  {(' ' * GAP).join(cells)}"
        folded = hanging(" " * margin + meaning, width, margin) if meaning else []
        if folded and margin == beside:
            head, folded = fit(head, beside) + folded[0].lstrip(), folded[1:]
        yield from (head.rstrip(), *folded)


def _presets(file: PlanFile) -> list[tuple[str, str, str]]:
    """The presets with their meanings and settings."""
    rows = []
    for name, text in file.notes.presets.items():
        settings = preset_text(file.plan.document["presets"][name])
        rows += [(name, "", text), ("", "", settings)] if text else [(name, "", settings)]
    return rows


def _try(file: PlanFile, width: int) -> list[str]:
    """The command that runs the plan, with its example or the inputs that it needs."""
    inputs = (file.plan.document.get("example") or {}).get("inputs") or {}
    counted = (f"{plural(len(rows), 'row')} of {name}" for name, rows in inputs.items())
    needed = (f"-i {name}=FILE" for name, spec in file.plan.inputs.items() if not spec.optional)
    note = f"runs its example: {', '.join(counted)}" if inputs else " ".join(needed)
    command = f"try: semgraph run {file.name}"
    line = f"{command}     {note}"
    return [line] if len(line) <= width else [command, *hanging(f"     {note}", width, 0)]


def _value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _semantic_steps(file: PlanFile, width: int) -> Iterator[str]:
    """The semantic steps with their implementations and prompts."""
    if nodes := file.semantic:
        prompts = [", ".join(prompt.name for prompt in node.prompt.all) for node in nodes]
        columns = [
            Column("step", [node.step for node in nodes]),
            Column("operator", [node.keyword for node in nodes]),
            Column("implementation", [_implementation(file.plan, node) for node in nodes]),
            Column("prompt", prompts),
        ]
        yield from ("", "steps that call the model (--use STEP=IMPLEMENTATION)")
        yield from lines(columns, width)


_STEP = re.compile(r"  step \S+:")


def check_lines(checks: Iterable[PlanCheck]) -> Iterator[str]:
    """One line for a valid file, otherwise one per problem that is not in a plan or graph of a file
    before; then one per warning.
    """
    before = set[str]()
    for check in checks:
        problems = {_STEP.sub("", problem): problem for problem in check.problems}
        if not problems:
            yield f"{check.file}   ok   {check.ok}"
        elif problems.keys() <= before:
            yield f"{check.file}   uses what has errors, as above"
        yield from (problem for place, problem in problems.items() if place not in before)
        before |= problems.keys()
        yield from (f"! {warning}" for warning in check.warnings)


def verdict(checks: Sequence[PlanCheck]) -> str:
    """A sentence on the number of files with errors; "" if there are none."""
    wrong, whole = sum(bool(c.problems) for c in checks), len(checks)
    kinds = {c.kind for c in checks}
    kind = kinds.pop() if len(kinds) == 1 else "file"
    if not wrong:
        return ""
    if whole == 1:
        return f"the {kind} has errors"
    return f"{wrong} of {whole} {kind}s {'has' if wrong == 1 else 'have'} errors"


def preset_text(body: Mapping[str, Any], quote: str = "") -> str:
    """The settings of a preset, each part in quotes of a kind."""
    params = (body.get("params") or {}).items()
    params = [f"{name} = {plain_value(value)}" for name, value in params]
    use = [f"{step}: {plain_value(choice)}" for step, choice in (body.get("use") or {}).items()]
    return ", ".join(f"{quote}{part}{quote}" for part in (*params, *use))


def plain_value(value: Any) -> str:
    """A text as it is, any other value as JSON."""
    return value if isinstance(value, str) and value else _value(value)


def first_sentence(doc: str) -> str:
    """The first sentence of a text."""
    return " ".join(doc.split()).partition(". ")[0].rstrip(".") + "."


def implementations(settings: Settings) -> dict[str, list[Listed]]:
    """The implementations of each operator, the reference first: shipped ones and those of the
    configured folders. Raises PlanError.
    """
    library = Library(settings.operators)
    return {operator: library.list(operator) for operator in FOLDERS}


def described_operators(by_operator: Mapping[str, list[Listed]]) -> dict[str, Any]:
    """The implementations as plain data."""
    data = {name: [each._asdict() for each in listed] for name, listed in by_operator.items()}
    return {name: [own | {"file": str(own["file"])} for own in each] for name, each in data.items()}


def operator_lines(by_operator: Mapping[str, list[Listed]], width: int) -> Iterator[str]:
    """Each implementation with its parameters, its guarantee, the command that installs a missing
    requirement, and its description.
    """
    wide = max(map(len, by_operator)) + 2
    for operator, listed in by_operator.items():
        for i, each in enumerate(listed):
            same = "same answers" if each.same else "may differ"
            beside = f"  [{'the reference' if each.reference else same}]"
            needs = f"  needs {each.install}" if each.install else ""
            name = "" if i else operator
            line = f"{name:<{wide}}{each.signature}{beside * (operator in OPERATORS)}{needs}"
            yield from hanging(line, width, wide + 2)
            yield from hanging(" " * (wide + 2) + each.doc, width, wide + 2)


def function_lines(functions: Sequence[ListedFunction], width: int) -> Iterator[str]:
    """Each function with its signature and description, or the reason why it cannot be called."""
    for each in functions:
        yield from hanging(each.signature, width, 4)
        yield from hanging(f"  {each.problem or each.doc}", width, 2)
