"""The page of a plan in Markdown, made from the plan itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from semgraph.explain.algebra import algebra
from semgraph.frontend.plan_files import Notes, PlanFile
from semgraph.logical.semantic import Semantic


def page(file: PlanFile) -> str:
    """The page of a plan: its purpose, algebra, inputs, parameters, steps, costs and results.
    Raises PlanError.
    """
    notes = file.notes
    parts: list[Iterable[str]] = [
        [
            f"# {file.plan.name}",
            "",
            file.plan.doc.strip(),
            "",
            *notes.head,
            "",
            f"`plans/{file.path.name}` · `semgraph run {file.plan.name}`",
        ],
        _inputs(file, notes),
        _settings(file, notes),
        _calls(file),
        _steps(file, notes),
        _results(file),
        ["## As algebra", "", "```", *algebra(file.plan).splitlines(), "```"],
    ]
    return "\n\n".join("\n".join(part) for part in (list(part) for part in parts) if part) + "\n"


def _inputs(file: PlanFile, notes: Notes) -> Iterator[str]:
    if not file.plan.inputs:
        return
    yield from ("## Inputs", "")
    rows = []
    for name, spec in file.plan.inputs.items():
        comment = notes.at("inputs", name)
        without = "optional: all" if spec.or_all else "optional" if spec.optional else ""
        note = "; ".join(part for part in (without, comment) if part)
        rows.append((f"**{name}**", "", note))
        rows += [
            (column, f"`{kind}`", notes.at("inputs", name, column)) for column, kind in spec.columns
        ]
    yield from table(("column", "type", ""), rows)


def _settings(file: PlanFile, notes: Notes) -> Iterator[str]:
    document = file.plan.document
    if document.get("params"):
        yield from ("## Parameters", "")
        rows = [
            (name, f"`{_plain(value)}`", notes.params[name])
            for name, value in document["params"].items()
        ]
        yield from table(("`--set`", "default", ""), rows)
    if document.get("presets"):
        yield from (*([""] if document.get("params") else []), "## Presets", "")
        rows = [
            (name, preset_text(body, "`"), notes.presets[name])
            for name, body in document["presets"].items()
        ]
        yield from table(("`--preset`", "sets", ""), rows)


def preset_text(body: Mapping[str, Any], quote: str = "") -> str:
    """What a preset sets, each part in quotes of a kind."""
    params = [f"{name} = {_plain(value)}" for name, value in (body.get("params") or {}).items()]
    use = [f"{step}: {_plain(choice)}" for step, choice in (body.get("use") or {}).items()]
    return ", ".join(f"{quote}{part}{quote}" for part in (*params, *use))


def _calls(file: PlanFile) -> Iterator[str]:
    yield from ("## Model calls", "")
    calls = file.plan.document.get("calls")
    if not file.semantic:
        yield "None."
    elif not calls:
        yield "`semgraph explain` estimates them."
    else:
        per = f" for each {calls['per']}" if calls.get("per") else ""
        yield f"`{calls['formula']}`{per}, where"
        yield ""
        yield from (f"- `{name}`: {what}" for name, what in (calls.get("where") or {}).items())


def _steps(file: PlanFile, notes: Notes) -> Iterator[str]:
    steps = file.plan.document.get("steps") or {}
    if not steps:
        return
    yield from ("## Steps", "")
    semantic = {node.step: node for node in file.semantic}
    rows = [
        (
            name,
            ", ".join(dict.fromkeys(_operators(body))),
            _prompt_text(file, semantic.get(name)),
            notes.at("steps", name),
        )
        for name, body in steps.items()
    ]
    yield from table(("step", "operators", "prompt", ""), rows)


def _prompt_text(file: PlanFile, node: Semantic | None) -> str:
    if node is None:
        return ""
    choice = file.plan.choice(node.step)
    return ", ".join(f"`{p.name}`" for p in node.prompt.all) + (f" by `{choice}`" if choice else "")


def _operators(body: Any) -> Iterator[str]:
    """The operators of a step in order, with called plans and nested steps."""
    if isinstance(body, list):
        for part in body:
            yield from _operators(part)
    elif isinstance(body, dict):
        for keyword, value in body.items():
            if keyword == "do":
                yield from _operators(value)
            elif keyword == "if":
                yield f"if `{_condition(value)}`"
            elif keyword == "call":
                yield f"call [{value['plan']}]({value['plan']}.md)"
            elif keyword == "switch":
                yield f"switch on `{value.get('on')}`"
                yield from _operators(
                    [
                        branch
                        for name, branch in value.items()
                        if name != "on" and isinstance(branch, list)
                    ]
                )
            elif keyword == "union":
                yield keyword
                yield from _operators([branch for branch in value if isinstance(branch, list)])
            elif keyword == "iterate":
                yield keyword
                yield from _operators(value.get("do"))
            elif keyword != "from":
                yield keyword


def _condition(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value)
    return ", ".join(f"{name} = {_plain(inner)}" for name, inner in value.items())


def _results(file: PlanFile) -> Iterator[str]:
    plan = file.plan
    yield from ("## Results", "")
    rows = [
        (name, ", ".join(f"{f.name}" for f in node.schema)) for name, node in plan.returns.items()
    ]
    if rows:
        yield from table(("table", "columns"), rows)
    if plan.writes:
        yield from (*([""] if rows else []), "## Writes", "")
        yield from table(
            ("label", "", "columns"),
            [(s.label.name, s.keyword, ", ".join(s.schema.names)) for s in plan.writes],
        )


def _plain(value: Any) -> str:
    import json

    return (
        value
        if isinstance(value, str) and value
        else json.dumps(value, ensure_ascii=False, default=str)
    )


def first_sentence(doc: str) -> str:
    """The first sentence of a text."""
    return " ".join(doc.split()).partition(". ")[0].rstrip(".") + "."


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table in Markdown."""
    yield f"| {' | '.join(titles)} |"
    yield f"|{'---|' * len(titles)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
