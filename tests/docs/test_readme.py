"""The README says what is so: its commands run, its plan is the algebra beside it, its Python
works.
"""

from __future__ import annotations

import json
import re
import shlex

from semgraph.engine.on_ray import EngineSpec
from semgraph.semantic.library import Library
from tests.docs.blocks import ROOT, Reader, blocks

README = (ROOT / "README.md").read_text(encoding="utf-8")


def code(language: str) -> list[str]:
    """The code blocks of a language."""
    return [block.text for block in blocks(ROOT / "README.md") if block.language == language]


def test_every_block_runs_and_prints_what_is_shown_and_then_every_command_of_the_text(
    reader: Reader,
) -> None:
    reader.check(ROOT / "README.md")
    named = [shlex.split(each)[1:] for each in re.findall(r"`(semgraph [^`\n]+)`", README)]
    assert ["journal", "forget", "demo"] in named
    for words in named:
        more = (
            ["--help"] if words[:2] in (["neo4j", "start"], ["doctor"]) else []
        )  # tested elsewhere
        done = reader.project(*words, *more)
        assert done.code == 0, (words, done.err)


def test_the_demo_is_the_recorded_run_but_for_the_times(reader: Reader) -> None:
    ((shown,),) = [
        [block.text] for block in blocks(ROOT / "README.md") if block.text.startswith("group ")
    ]
    lines = [" ".join(line.split()) for line in shown.strip().split("\n")]
    done = reader.project("run", "add_episode", "--llm", "recorded", "--store", "memory")
    printed = [" ".join(line.split()) for line in done.out.split("\n")]
    assert len(lines) > 10
    assert [line for line in lines if not any(text.startswith(line) for text in printed)] == []


def test_the_plan_is_the_algebra_beside_it(reader: Reader) -> None:
    (text,) = code("yaml")
    reader.project.write("complaints.yaml", text)
    lines = reader.project("explain", "complaints.yaml", "--format", "algebra").out
    assert "sem_filter" in lines
    assert "γ_{product; list(DISTINCT customer)→customers, count(*)→n}" in "".join(
        lines.split("\n")
    )


def test_every_promise_names_a_test_that_exists() -> None:
    promises = README.split("## What it promises")[1].split("\n## ")[0]
    items = re.split(r"^- ", promises, flags=re.MULTILINE)[1:]
    assert len(items) >= 6
    for item in items:
        tests = re.findall(r"<!-- (\S+\.py)::(\S+) -->", item)
        assert tests, item
        for file, path in tests:
            text = (ROOT / file).read_text(encoding="utf-8")
            assert all(
                re.search(rf"^\s*(async def|def|class) {name}\b", text, re.MULTILINE)
                for name in path.split("::")
            ), path


def test_the_plan_and_the_python_code_give_the_documented_results(reader: Reader) -> None:
    list(reader.read([b for b in blocks(ROOT / "README.md") if b.language in {"yaml", "python"}]))
    done = reader.project("run", "complaints.yaml", "--format", "json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["tables"]["products"] == [
        {"product": "kettle", "customers": ["c9"], "n": 1}
    ]
    assert [row["id"] for row in reader.names["result"].rows()] == ["1"]
    assert "sem_filter" in reader.names["complaints"].to_yaml()


def test_the_named_implementations_exist() -> None:
    library = Library()
    for name in re.findall(r"--use '\w+=(\w+)", README):
        assert name in library.names("sem_join")


def test_the_named_engines_exist() -> None:
    engines = re.findall(r"`--engine ([^`]+)`", README)
    assert "ray" in engines
    for engine in engines:
        assert str(EngineSpec.parse(engine)) == engine


def test_the_make_targets_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in ("demo", "test", "check"):
        assert f"make {target}" in README
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_links_resolve() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", re.sub(r"```.*?```", "", README, flags=re.DOTALL)):
        assert link.startswith("https://") or (ROOT / link).exists(), link
