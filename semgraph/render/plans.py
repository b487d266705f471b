"""Plan files as lists, as pages for a terminal, and as outcomes of checks. Also implementations and
functions for expressions, as tables and as plain data.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

from semgraph.errors import PlanError
from semgraph.formats import plural
from semgraph.frontend.document import shown
from semgraph.frontend.functions import ListedFunction
from semgraph.frontend.plan_files import CalledPlan, PlanCheck, PlanFile, callers
from semgraph.llm.settings import Settings
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.semantic import Semantic
from semgraph.render.tables import GAP, Column, fit, lines
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
        "inputs": {
            name: {column: str(kind) for column, kind in spec.columns}
            for name, spec in plan.inputs.items()
        },
        "params": dict(plan.params),
        "presets": plan.document.get("presets") or {},
        "meanings": {"params": file.notes.params, "presets": file.notes.presets},
        "steps": len(plan.steps),
        "semantic": {
            node.step: {"operator": node.keyword, "how": _implementation(plan, node)}
            for node in file.semantic
        },
        "prompts": [prompt.name for prompt in file.prompts],
        "writes": [sink.label.name for sink in plan.writes] + (["schema"] if plan.schema else []),
        "returns": list(plan.returns),
    }


def described_list(files: Sequence[PlanFile]) -> list[dict[str, Any]]:
    """Plans as plain data, each with its callers; plans without callers come first. Raises
    PlanError.
    """
    plans, parts, called = grouped(files)
    return [
        {"name": file.name} | described(file) | {"called_by": list(called.get(file.name, ()))}
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
        rest = width - sum(column.width + GAP for column in columns)
        if rest >= _LEAST:
            columns.append(Column(name, [fit(text, rest).rstrip() for text in texts]))
    yield from lines(columns, width, indent=0)


def _row(file: PlanFile) -> tuple[str, ...]:
    """The cells of a plan: its name, its folder, the steps that call a model, its description."""
    where = "shipped" if file.shipped else "plans"
    try:
        plan = file.plan
    except PlanError as error:
        return (file.name, where, "✗", "", f"✗ {error.problems[0]}")
    writes = "yes" if plan.writes or plan.schema else ""
    return (file.name, where, str(len(file.semantic) or ""), writes, first_sentence(plan.doc))


def called_lines(calls: Sequence[CalledPlan], width: int) -> Iterator[str]:
    """The calls of a plan, each with its interface and the plans that fit."""
    for call in calls:
        inputs = ", ".join((*call.inputs, *(f"${name}" for name in call.params)))
        text = f"{call.step}   {call.plan}({inputs}) → {', '.join(call.results) or 'nothing'}"
        yield from wrap(text, width, subsequent_indent="    ")
        fitting = ", ".join(call.fitting) or "no other plan beside it"
        yield from wrap(f"fits: {fitting}", width, initial_indent="  ", subsequent_indent="    ")


def page(file: PlanFile, width: int, *, prompts: bool = False) -> Iterator[str]:
    """A plan on a page, optionally with the text of its prompts. Raises PlanError."""
    plan = file.plan
    yield f"{plan.name}   {shown(file.path)}{' (shipped)' if file.shipped else ''}"
    for line in plan.doc.strip().splitlines():
        yield from wrap(line, width, initial_indent="  ", subsequent_indent="  ") or [""]
    for name, spec in plan.inputs.items():
        yield ""
        comment = file.notes.at("inputs", name)
        about = f"   {comment}" if comment else ""
        without = " (optional: all)" if spec.or_all else " (optional)" if spec.optional else ""
        yield fit(f"input {name}{without}{about}", width).rstrip()
        rows = [(n, str(kind), file.notes.at("inputs", name, n)) for n, kind in spec.columns]
        yield from _explained(rows, width)
    yield from _params(file, width)
    yield from _presets(file, width)
    yield from _semantic_steps(file, width)
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
    command, note = f"try: semgraph run {file.name}", example(plan)
    yield ""
    if len(command) + len(note) + 5 <= width:
        yield f"{command}     {note}"
    else:
        yield from (command, *wrap(note, width, initial_indent=" " * 5))
    for prompt in file.prompts if prompts else ():
        yield from ("", f"── prompt {prompt.name} {'─' * max(2, width - 12 - len(prompt.name))}")
        yield from (
            Path(prompt.file).read_text(encoding="utf-8").splitlines()
            if prompt.file
            else ["(inline)"]
        )


def example(plan: LogicalPlan) -> str:
    """The example of a plan, or the inputs it needs."""
    inputs = (plan.document.get("example") or {}).get("inputs") or {}
    if inputs:
        return "runs its example: " + ", ".join(
            f"{plural(len(rows), 'row')} of {name}" for name, rows in inputs.items()
        )
    return " ".join(f"-i {name}=FILE" for name, spec in plan.inputs.items() if not spec.optional)


def _value(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False, default=str)


def _params(file: PlanFile, width: int) -> Iterator[str]:
    """The parameters with their defaults and meanings."""
    meanings = file.notes.params
    if meanings:
        yield from ("", "params (--set NAME=VALUE)")
        rows = [(name, _value(file.plan.params[name]), text) for name, text in meanings.items()]
        yield from _explained(rows, width)


def _presets(file: PlanFile, width: int) -> Iterator[str]:
    """The presets with their meanings and settings."""
    meanings = file.notes.presets
    if meanings:
        comment = file.notes.at("presets")
        yield from ("", f"presets (--preset NAME){f'   {comment}' if comment else ''}")
        presets = file.plan.document["presets"]
        rows = []
        for name, text in meanings.items():
            settings = preset_text(presets[name])
            rows += [(name, "", text), ("", "", settings)] if text else [(name, "", settings)]
        yield from _explained(rows, width)


def _explained(rows: Sequence[tuple[str, str, str]], width: int) -> Iterator[str]:
    """Names with a value and its meaning, which is folded next to them, or below if the terminal is
    narrow.
    """
    columns = [Column("", [row[0] for row in rows]), Column("", [row[1] for row in rows])]
    beside = 2 + sum(column.width + GAP for column in columns if column.width)
    margin = " " * (beside if width - beside >= _LEAST else 6)
    for name, value, meaning in rows:
        cells = [
            fit(cell, column.width) for cell, column in zip((name, value), columns, strict=True)
        ]
        head = f"  {(' ' * GAP).join(cell for cell in cells if cell)}"
        folded = wrap(meaning, width, initial_indent=margin, subsequent_indent=margin)
        if not folded or len(margin) < beside:
            yield from (head.rstrip(), *folded)
        else:
            yield from (head.ljust(beside) + folded[0][beside:], *folded[1:])


def _semantic_steps(file: PlanFile, width: int) -> Iterator[str]:
    """The semantic steps with their implementations and prompts."""
    if not file.semantic:
        return
    yield from ("", "steps that call the model (--use STEP=IMPLEMENTATION)")
    nodes = file.semantic
    yield from lines(
        [
            Column("step", [node.step for node in nodes]),
            Column("operator", [node.keyword for node in nodes]),
            Column("implementation", [_implementation(file.plan, node) for node in nodes]),
            Column(
                "prompt", [", ".join(prompt.name for prompt in node.prompt.all) for node in nodes]
            ),
        ],
        width,
    )


def check_lines(check: PlanCheck) -> Iterator[str]:
    """One line for a valid file, otherwise one per problem; then one per warning."""
    if check.problems:
        yield from check.problems
    else:
        yield f"{check.file}   ok   {check.ok}"
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
    params = [
        f"{name} = {plain_value(value)}" for name, value in (body.get("params") or {}).items()
    ]
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
    return {
        operator: [{**each._asdict(), "file": str(each.file)} for each in listed]
        for operator, listed in by_operator.items()
    }


def operator_lines(by_operator: Mapping[str, list[Listed]], width: int) -> Iterator[str]:
    """Each implementation with its parameters, its guarantee, the command that installs a missing
    requirement, and its description.
    """
    wide = max(map(len, by_operator)) + 2
    text_width = max(width - wide - 2, 20)
    for operator, listed in by_operator.items():
        for i, each in enumerate(listed):
            answers = (
                "the reference" if each.reference else "same answers" if each.same else "may differ"
            )
            beside = f"  [{answers}]" if operator in OPERATORS else ""
            needs = f"  needs {each.install}" if each.install else ""
            yield (operator if i == 0 else "").ljust(wide) + each.signature + beside + needs
            yield from (" " * (wide + 2) + line for line in textwrap.wrap(each.doc, text_width))


def function_lines(functions: Sequence[ListedFunction], width: int) -> Iterator[str]:
    """Each function with its signature and description, or the reason why it cannot be called."""
    for each in functions:
        yield from textwrap.wrap(each.signature, width, subsequent_indent="    ")
        yield from (f"  {line}" for line in textwrap.wrap(each.problem or each.doc, width - 2))
