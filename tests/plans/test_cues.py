"""What the wording of a fact says about its time, in each language, and in texts of all of them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import yaml

from tests.plans.conftest import Memory

FILES = sorted(Path(__file__).with_name("cues").glob("*.yaml"))
FILES_BY_NAME = {path.stem: path for path in FILES}
CUES = ("announced", "deadline", "due", "lasting", "negated")


def verdicts(path: Path) -> dict[str, set[str]]:
    """The sentences of a language, each with the cues that it has."""
    told: dict[str, str] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {sentence: set(cues.split()) for sentence, cues in told.items()}


async def read(memory: Memory, plan: str | Path, *facts: str) -> dict[str, set[str]]:
    """The cues that a plan finds in each fact."""
    rows = [{"uuid": f"f{i}", "fact": fact} for i, fact in enumerate(facts)]
    result = await memory.run(plan, facts=rows)
    found = {row["uuid"]: row for row in result.tables["cues"].to_pylist()}
    return {row["fact"]: {c for c in CUES if found[row["uuid"]][c]} for row in rows}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
async def test_a_plan_of_one_language_finds_its_cues(memory: Memory, path: Path) -> None:
    expected = verdicts(path)
    assert len(expected) >= 30
    found = await read(memory, f"cues_{path.stem}", *expected)
    assert {s: cues for s, cues in found.items() if cues != expected[s]} == {}


async def test_facts_of_all_languages_together_have_the_cues_of_their_own(memory: Memory) -> None:
    expected = {s: cues for path in FILES for s, cues in verdicts(path).items()}
    assert len(expected) >= 150
    found = await read(memory, "cues", *expected)
    assert {s: cues for s, cues in found.items() if cues != expected[s]} == {}


def sentences() -> list[str]:
    """Every text of the tests of plans and of the synthetic world that reads like an English sentence."""
    folders = (Path(__file__).parent, Path(__file__).parents[2] / "benchmarks" / "world")
    trees = [
        ast.parse(path.read_text(encoding="utf-8"))
        for folder in folders
        for path in sorted(folder.glob("*.py"))
        if path.stem != "test_other_languages"
    ]
    texts = {
        node.value
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    found = {text for text in texts if " " in text and text.isascii() and text.endswith(".")}
    return sorted({*found, *verdicts(FILES_BY_NAME["en"])})


@pytest.mark.parametrize("plan", ["cues", "cues_en"])
async def test_english_has_the_cues_that_it_had_before_there_were_others(
    memory: Memory, plan: str
) -> None:
    corpus = sentences()
    assert len(corpus) > 500
    before = await read(memory, memory.here("english_before.yaml"), *corpus)
    assert set().union(*before.values()) == set(CUES)
    assert await read(memory, plan, *corpus) == before
