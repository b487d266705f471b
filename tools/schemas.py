"""Write the JSON Schemas of plans and graphs next to the shipped plans, and into each of these
files the line that names its schema: `python -m tools.schemas`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from semgraph.folders import plans_folder
from semgraph.frontend.document import read_file
from semgraph.frontend.jsonschema import SCHEMAS as SCHEMAS_BY_KIND
from semgraph.frontend.plan_files import SCHEMA_LINE, SCHEMAS, schema_line

KINDS = ("plan", "graph")  # the kinds of YAML files


def texts(folder: Path) -> Iterator[tuple[Path, str]]:
    """The expected files of a folder of plans: the schemas, and each plan and graph with its first
    line. Raises PlanError.
    """
    for kind in KINDS:
        schema = json.dumps(SCHEMAS_BY_KIND[kind](), ensure_ascii=False, indent=1)
        yield folder / SCHEMAS / f"{kind}.json", f"{schema}\n"
    for path in sorted(folder.rglob("*.yaml")):
        kind = "plan" if "plan" in read_file(path).data else "graph"
        first, _, rest = path.read_text(encoding="utf-8").partition("\n")
        body = rest if SCHEMA_LINE.match(first) else f"{first}\n{rest}"
        line = schema_line(Path(SCHEMAS, f"{kind}.json"), path.relative_to(folder))
        yield path, f"{line}\n{body}"


def main() -> None:
    """Write the files, and print the changed ones."""
    for path, text in texts(plans_folder()):
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
