"""Write a Markdown page for each shipped plan, and an index: `python -m tools.pages [FOLDER]`.

Plans that only other plans call have no page: the index has a table of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from semgraph.frontend.plan_files import PlanFile, callers, listed
from semgraph.render.plans import first_sentence, markdown_page, table

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
