"""Write a Markdown page for each shipped plan, and an index: `python -m tools.pages [FOLDER]`.

Plans that only other plans call have no page: the index has a table of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from semgraph.explain.algebra import algebra
from semgraph.frontend.plan_files import PlanFile, callers, listed
from semgraph.render.plans import first_sentence, plain_value, preset_text

INDEX = "README.md"
PARTS = "Parts of plans"


def pages(files: Sequence[PlanFile]) -> dict[str, str]:
    """The pages of some plans, and an index, by file name. Raises PlanError."""
    called = callers(files)
    whole = [file for file in files if file.plan.name not in called]
    index = [
        "# Plans",
        "",
        "The shipped plans. Made by `make pages` from `plans/*.yaml`.",
        "",
        *table(
            ("plan", "does", "steps that ask a model"),
            [
                (_link(file.plan.name), first_sentence(file.plan.doc), _asking(file))
                for file in whole
            ],
        ),
        "",
        f"## {PARTS}",
        "",
        "Plans that only other plans call. `semgraph plans show NAME` prints one of them whole;",
        "`semgraph plans ways PLAN` lists those that can stand in for a called plan.",
        "",
        *_parts([file for file in files if file.plan.name in called], called),
    ]
    made = {f"{file.plan.name}.md": markdown_page(file) for file in whole}
    anchor = f"({INDEX}#{PARTS.lower().replace(' ', '-')})"
    for name in called:
        made = {path: text.replace(f"({name}.md)", anchor) for path, text in made.items()}
    return made | {INDEX: "\n".join(index) + "\n"}


def _parts(files: Sequence[PlanFile], called: Mapping[str, Sequence[str]]) -> Iterator[str]:
    rows = [
        (
            file.plan.name,
            first_sentence(file.plan.doc),
            ", ".join(file.plan.inputs),
            ", ".join(file.plan.returns),
            _asking(file),
            ", ".join(name if name in called else _link(name) for name in called[file.plan.name]),
        )
        for file in files
    ]
    titles = ("plan", "does", "inputs", "results", "steps that ask a model", "called by")
    return table(titles, rows)


def markdown_page(file: PlanFile) -> str:
    """The page of a plan: its purpose, algebra, inputs, parameters, steps, costs and results.
    Raises PlanError.
    """
    plan, notes = file.plan, file.notes
    origin = f"`plans/{file.path.name}` · `semgraph run {plan.name}`"
    labels = [(s.label.name, s.keyword, ", ".join(s.schema.names)) for s in plan.writes]
    results = [(name, ", ".join(node.schema.names)) for name, node in plan.returns.items()]
    parts = [
        [f"# {plan.name}", "", plan.doc.strip(), "", *notes.head, "", origin],
        _section("Inputs", ("column", "type", ""), _inputs(file)),
        _section("Parameters", ("`--set`", "default", ""), _params(file)),
        _section("Presets", ("`--preset`", "sets", ""), _presets(file)),
        list(_calls(file)),
        _section("Steps", ("step", "operators", "prompt", ""), _steps(file)),
        _section("Results", ("table", "columns"), results),
        _section("Writes", ("label", "", "columns"), labels),
        ["## As algebra", "", "```", *algebra(plan).splitlines(), "```"],
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _section(heading: str, titles: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table below its heading; nothing without rows."""
    first, *rest = table(titles, rows)
    return [f"## {heading}", "", first, *rest] if len(rest) > 1 else []


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table in Markdown."""
    yield f"| {' | '.join(titles)} |"
    yield f"|{'---|' * len(titles)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


def _inputs(file: PlanFile) -> Iterator[Sequence[str]]:
    for name, spec in file.plan.inputs.items():
        without = "optional: all" if spec.or_all else "optional" if spec.optional else ""
        notes = (without, file.notes.at("inputs", name))
        yield f"**{name}**", "", "; ".join(filter(None, notes))
        for column, kind in spec.columns:
            yield column, f"`{kind}`", file.notes.at("inputs", name, column)


def _params(file: PlanFile) -> Iterator[Sequence[str]]:
    for name, value in (file.plan.document.get("params") or {}).items():
        yield name, f"`{plain_value(value)}`", file.notes.params[name]


def _presets(file: PlanFile) -> Iterator[Sequence[str]]:
    for name, body in (file.plan.document.get("presets") or {}).items():
        yield name, preset_text(body, "`"), file.notes.presets[name]


def _calls(file: PlanFile) -> Iterator[str]:
    yield from ("## Model calls", "")
    calls = file.plan.document.get("calls")
    if not file.semantic:
        yield "None."
    elif not calls:
        yield "`semgraph explain` estimates them."
    else:
        per = f" for each {calls['per']}" if calls.get("per") else ""
        yield from (f"`{calls['formula']}`{per}, where", "")
        yield from (f"- `{name}`: {what}" for name, what in (calls.get("where") or {}).items())


def _steps(file: PlanFile) -> Iterator[Sequence[str]]:
    semantic = {node.step: node for node in file.semantic}
    for name, body in (file.plan.document.get("steps") or {}).items():
        operators, prompts = ", ".join(dict.fromkeys(_operators(body))), ""
        if node := semantic.get(name):
            choice = file.plan.choice(name)
            prompts = ", ".join(f"`{p.name}`" for p in node.prompt.all)
            prompts += f" by `{choice}`" if choice else ""
        yield name, operators, prompts, file.notes.at("steps", name)


def _operators(body: Any) -> Iterator[str]:
    """The operators of a step in order, with called plans and nested steps."""
    if isinstance(body, list):
        for part in body:
            yield from _operators(part)
    for keyword, value in body.items() if isinstance(body, dict) else ():
        match keyword:
            case "from":
                continue
            case "do":
                yield from _operators(value)
            case "if":
                yield f"if `{_condition(value)}`"
            case "call":
                yield f"call [{value['plan']}]({value['plan']}.md)"
            case "switch":
                yield f"switch on `{value.get('on')}`"
                yield from _operators([each for each in value.values() if isinstance(each, list)])
            case "union":
                yield keyword
                yield from _operators([branch for branch in value if isinstance(branch, list)])
            case "iterate":
                yield keyword
                yield from _operators(value.get("do"))
            case _:
                yield keyword


def _condition(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value)
    return ", ".join(f"{name} = {plain_value(inner)}" for name, inner in value.items())


def _link(name: str) -> str:
    return f"[{name}]({name}.md)"


def _asking(file: PlanFile) -> str:
    return str(len(file.semantic) or "")


def write(files: Sequence[PlanFile], folder: Path) -> list[Path]:
    """Write the pages into a folder; return the changed ones. Raises PlanError."""
    folder.mkdir(parents=True, exist_ok=True)
    changed = []
    for name, text in pages(files).items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(path)
    return changed


def main() -> None:
    """Write the pages, and print the changed ones."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/plans")
    files = [file for file in listed() if not file.folder]  # memories have separate pages
    for path in write(sorted(files, key=lambda file: file.path.stem), folder):
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
