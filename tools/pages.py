"""Write a page of Markdown for each shipped plan, and an index: `python -m tools.pages [FOLDER]`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from semgraph.frontend.plan_files import PlanFile, callers, listed
from semgraph.render.plans import first_sentence, markdown_page, table

INDEX = "README.md"


def pages(files: Sequence[PlanFile]) -> dict[str, str]:
    """The pages of some plans, and an index, by file name. Raises PlanError."""
    called = callers(files)
    index = [
        "# Plans",
        "",
        "Made by `make pages` from `plans/*.yaml`.",
        "",
        *_listed(file for file in files if file.plan.name not in called),
        "",
        "## Plans that other plans call",
        "",
        "Some of them stand for one another: `semgraph plans ways PLAN` lists those that fit a call.",
        "",
        *_listed(file for file in files if file.plan.name in called),
    ]
    return {f"{file.plan.name}.md": markdown_page(file) for file in files} | {
        INDEX: "\n".join(index) + "\n"
    }


def _listed(files: Iterable[PlanFile]) -> Iterator[str]:
    rows = [
        (
            f"[{file.plan.name}]({file.plan.name}.md)",
            first_sentence(file.plan.doc),
            str(len(file.semantic) or ""),
        )
        for file in files
    ]
    return table(("plan", "does", "steps that ask a model"), rows)


def write(files: Sequence[PlanFile], folder: Path) -> list[Path]:
    """Write the pages into a folder; returns those that changed. Raises PlanError."""
    folder.mkdir(parents=True, exist_ok=True)
    changed = []
    for name, text in pages(files).items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(path)
    return changed


def main() -> None:
    """Write the pages, and print which of them changed."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/plans")
    files = [file for file in listed() if not file.folder]  # memories have pages of their own
    for path in write(sorted(files, key=lambda file: file.path.stem), folder):
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
