"""docs/graphiti.md names only what is there: plans, presets, parameters, inputs, columns and
tests.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from semgraph.frontend.load import load_plan
from semgraph.logical.plan import LogicalPlan

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "graphiti.md").read_text(encoding="utf-8")
FORM = re.compile(
    r"(?P<plan>[a-z_]+)(?:\((?P<param>[a-z_]+)\)|\.(?P<input>[a-z_.]+)| --preset (?P<preset>\w+))?\Z"
)
PLANS = {path.stem: path for path in (ROOT / "plans").glob("*.yaml") if path.stem != "graph"}
ELSEWHERE = (
    "--",
    "semgraph",
    "Session.",
    "hit.",
    "list_has_any",
    "((hit.",
    "-i groups=all",
    "graph.yaml",
    "expired_at",
    "source",
    "target",
)


def here() -> list[str]:
    """What stands in the columns that say where something is here, and in the text."""
    found = []
    for line in PAGE.splitlines():
        cells = line.split("|")
        ours = cells[2:] if line.startswith("|") else [line]
        found += [name for cell in ours for name in re.findall(r"`([^`]+)`", cell)]
    return found


@cache
def loaded(plan: str) -> LogicalPlan:
    return load_plan(PLANS[plan])


def exists(name: str) -> bool:
    """Whether the plan of a name has the parameter, preset or column in it."""
    found = FORM.match(name)
    assert found is not None
    plan = loaded(found["plan"])
    if found["param"]:
        return found["param"] in plan.params
    if found["preset"]:
        return found["preset"] in plan.document.get("presets", {})
    if found["input"]:
        name, _, column = found["input"].partition(".")
        spec = plan.inputs.get(name)
        return spec is not None and (not column or column in dict(spec.columns))
    return True


NAMED = [name for name in dict.fromkeys(here()) if (m := FORM.match(name)) and m["plan"] in PLANS]
TESTS = sorted(set(re.findall(r"`(test_\w+)`", PAGE)))


def test_every_name_on_the_page_exists() -> None:
    assert [name for name in NAMED if not exists(name)] == []


def test_no_other_name_looks_like_a_plan() -> None:
    known = {*NAMED, *TESTS, "plan", "plan(parameter)", "plan.input.column", "plan --preset NAME"}
    odd = [name for name in here() if name not in known and not name.startswith(ELSEWHERE)]
    assert [name for name in odd if FORM.match(name) and not exists_elsewhere(name)] == []


def exists_elsewhere(name: str) -> bool:
    """Whether a word is a property, a label or a key of the plan language."""
    return name in (ROOT / "plans" / "graph.yaml").read_text(encoding="utf-8") or name in {
        "schema",
        "uuid",
        "entity_types",
        "edge_types",
        "edge_type_map",
        "small_model",
    }


def test_every_test_on_the_page_exists() -> None:
    tests = "".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name in TESTS if f"def {name}(" not in tests] == []


def test_every_plan_is_on_the_page() -> None:
    internal = {
        "search_edges",
        "search_nodes",
        "rerank",
        "resolve_entities",
        "settle_facts",
        "judge_episode",
    }
    assert {name.split("(")[0].split(" ")[0].split(".")[0] for name in NAMED} | internal >= {*PLANS}


def test_every_recipe_is_on_the_page() -> None:
    recipes = {name for name in loaded("search").document["presets"] if name.isupper()}
    assert {
        name.removeprefix("search --preset ")
        for name in NAMED
        if name.startswith("search --preset")
    } >= recipes
