"""A graph file is refused with everything that is wrong with it, each at its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from semgraph.errors import PlanError
from semgraph.folders import plans_folder
from semgraph.frontend.graph_files import read_graph

WRONG = """\
graph: x
kye: uuid
nodes:
  A:
    properties: {name: strnig, s: string}
    derived: {v: {embed: s, by: x}, z: foo(s), y: key(sm)}
    fulltext: {f: [], g: [q], h: s}
    index: [nme]
    open: [foo]
    draw: {nod: s}
  B: 5
edges:
  A: {source: A, target: A}
  E: {source: A, target: C, sorce: A}
draw: {node: qq}
"""


def problems(folder: Path, text: str) -> list[str]:
    file = folder / "graph.yaml"
    file.write_text(text)
    with pytest.raises(PlanError) as refused:
        read_graph(file)
    return [str(problem).removeprefix(f"{file}:") for problem in refused.value.problems]


def test_all_mistakes_are_reported_each_at_its_place(tmp_path: Path) -> None:
    found = problems(tmp_path, WRONG)
    expected = [
        ("2:", 'a graph has no "kye"'), ("5:", '"strnig" is no type'), ("6:", 'a derived property has no "by"'), ("6:", 'cannot read "foo(s)"'),
        ("6:", 'no property "sm"'), ("7:", "a full-text index needs a property"), ("7:", 'no property "q"'), ("7:", 'expected a list of names, found "s"'),
        ("8:", 'no property "nme"'), ("9:", '"foo" cannot be open'), ("10:", 'draw has no "nod"'), ("11:", "expected a node label: {properties"),
        ("13:", '"A" is a node label already'), ("14:", 'an edge type has no "sorce"'), ("14:", 'no node label "C"'), ("15:", 'no node has a property "qq"'),
    ]  # fmt: skip
    for line, what in expected:
        assert any(text.startswith(line) and what in text for text in found), (line, what, found)
    assert len(found) == len(expected)


def mappings(data: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    inner = [
        p
        for key, value in data.items()
        if isinstance(value, dict)
        for p in mappings(value, (*path, key))
    ]
    return [path, *inner]


GRAPH = yaml.safe_load((plans_folder() / "graph.yaml").read_text())


@pytest.mark.parametrize("path", mappings(GRAPH), ids=".".join)
def test_every_mapping_of_a_graph_file_refuses_what_it_does_not_know(
    tmp_path: Path, path: tuple[str, ...]
) -> None:
    data = yaml.safe_load((plans_folder() / "graph.yaml").read_text())
    part = data
    for key in path:
        part = part[key]
    part["no such: thing"] = "neither"
    assert "no such: thing" in " ".join(
        problems(tmp_path, yaml.safe_dump(data))
    ) or "neither" in " ".join(problems(tmp_path, yaml.safe_dump(data)))


FRONT = """\
---
returns: {a: strnig, b: {type: string, describe: x, by: y}}
describe: {c: text, a: 5}
role: 7
maxtokens: 3
---
# item
{name}
"""


def test_all_mistakes_of_front_matter_are_reported(tmp_path: Path) -> None:
    from semgraph.frontend.prompt_files import read_prompt

    (tmp_path / "p.md").write_text(FRONT)
    with pytest.raises(PlanError) as refused:
        read_prompt(tmp_path / "p.md")
    said = str(refused.value)
    for what in ('"strnig" is no type', 'an answer has no "by"', 'no answer "c"', "expected a text, found 5", "expected a name, found 7", '"maxtokens"'):  # fmt: skip
        assert what in said
