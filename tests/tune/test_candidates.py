"""What `tune` can try in place of a plan's choices, and how implementations declare it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from semgraph.cli import app
from semgraph.compare.step import semantic_node
from semgraph.errors import PlanError
from semgraph.frontend.load import load_plan
from semgraph.frontend.plan_files import copied
from semgraph.llm.base import Limits
from semgraph.logical.plan import Choice
from semgraph.optimizer import with_rules
from semgraph.semantic.contract import OPERATORS
from semgraph.semantic.implementation import values_tried
from semgraph.semantic.library import Library, wrong_values
from semgraph.tune.candidates import Candidate, of_plan, of_step

PLANS = {
    "texts": """
inputs: {texts: {id: string, text: string}, others: {name: string}}
steps:
  good: [{from: texts}, {sem_filter: "Is this good? {text}"}]
  told: [{from: good}, {sem_map: {prompt: "Whom? {text}", returns: {who: string}}}]
  felt: [{from: told}, {sem_map: {prompt: "Which mood? {text}", returns: {mood: string}}}]
  linked: [{from: felt}, {sem_join: {other: others, alias: o, prompt: "Is {who} {o.name}?"}}]
  short: [{from: linked}, {sem_topk: {prompt: "How short is {text}?", k: 8}}]
returns: [short]
""",
    "listed": """
inputs: {texts: {id: string, text: string}}
presets:
  few: {use: {read: read_few}}
  none: {params: {most: 0}}
params: {most: 5}
steps:
  read: [{call: {plan: read_all, inputs: [texts]}}]
  shown: [{from: read.names}, {limit: {n: $most, order: id}}]
  kept: [{call: {plan: keep, inputs: [texts]}}]
returns: [shown]
""",
    "read_all": """
inputs: {texts: {id: string, text: string}}
steps: {names: [{from: texts}, {project: {id, name: text}}], rest: [{from: texts}, {project: [id]}]}
returns: [names, rest]
""",
    "read_few": """
inputs: {texts: {id: string, text: string}}
steps: {names: [{from: texts}, {project: {id, name: text}}], rest: [{from: texts}, {project: [id]}]}
returns: [names, rest]
""",
    "read_other": """
inputs: {texts: {id: string, text: string}}
steps: {names: [{from: texts}, {project: {id, name: 1}}], rest: [{from: texts}, {project: [id]}]}
returns: [names, rest]
""",
    "keep": """
inputs: {texts: {id: string, text: string}}
steps: {stored: [{from: texts}], all: [{from: texts}]}
returns: [stored, all]
""",
    "remove": """
inputs: {texts: {id: string, text: string}}
steps: {stored: [{from: texts}]}
returns: [stored]
""",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in PLANS.items():
        (tmp_path / f"{name}.yaml").write_text(f"plan: {name}{text}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def found(
    step: str,
    choice: str = "",
    *models: str,
    operators: Path | None = None,
    logprobs: bool | None = None,
) -> tuple[dict[str, Candidate], dict[str, str]]:
    """The candidates of a step of `texts`, by name without the step, and the refused ones."""
    node = semantic_node(load_plan("texts.yaml"), step)
    library = Library([operators] if operators else [])
    reference = Choice.parse(choice) if choice else library.reference(node.keyword)
    listed, refused = of_step(
        node, reference, library, models or ("default",), lambda _: Limits(logprobs=logprobs)
    )
    assert all(each.changes == {step: each.name.removeprefix(f"{step}=")} for each in listed)
    assert len({each.name for each in listed}) == len(listed)
    short = {each.name.removeprefix(f"{step}="): each for each in listed}
    return short, {name.removeprefix(f"{step}="): why for name, why in refused.items()}


def families(candidates: Mapping[str, Candidate]) -> dict[str, list[str]]:
    """The members of each family of several, the safest first."""
    by: dict[str, list[str]] = {}
    for name, each in sorted(candidates.items(), key=lambda pair: pair[1].risk):
        by.setdefault(each.family, []).append(name)
    return {family: members for family, members in by.items() if len(members) > 1}


# ------------------------------------------------------------------- the candidates of a step


def test_a_family_is_an_implementation_and_a_model_the_safest_first() -> None:
    listed, _ = found("told", "", "default", "small")
    by = families(listed)
    assert by["packed"] == [f"packed(rows={n})" for n in (2, 5, 10, 20, 40)]
    assert by["packed @ small"] == [
        "per_row @ small",
        *(f"packed(rows={n}) @ small" for n in (2, 5, 10, 20, 40)),
    ]
    assert by["vote"] == [f"vote(samples={n})" for n in (9, 5, 3)]  # fewer samples: more risk


def test_without_a_known_risk_each_is_its_own_family() -> None:
    listed, _ = found("told", "", "default", "small")
    for name in ("reflexion", "reflexion(rounds=2)", "reflexion(rounds=2) @ small"):
        assert (listed[name].family, listed[name].risk) == (f"told={name}", 0)


@pytest.mark.parametrize(
    ("choice", "same"),
    [("per_row", "packed(rows=1)"), ("packed", "packed(rows=20)")],
)
def test_the_reference_is_no_candidate_however_it_is_written(choice: str, same: str) -> None:
    listed, _ = found("good", choice, "default", "small")
    assert choice not in listed
    assert same not in listed
    assert "packed(rows=1) @ small" not in listed
    assert "per_row @ small" in listed
    assert "packed(rows=20) @ small" in listed


def test_the_role_of_the_prompt_is_no_other_model() -> None:
    assert found("good", "", "default")[0] == found("good", "", "default", "default")[0]
    listed, _ = found("good", "packed @ small", "small", "default")
    assert "packed(rows=20) @ small" not in listed
    assert "packed(rows=20)" in listed
    assert all(" @ default" not in name for name in listed)


def test_a_model_may_be_named_by_its_provider() -> None:
    listed, _ = found("good", "", "default", "openai:gpt-4.1-nano")
    assert "packed(rows=5) @ openai:gpt-4.1-nano" in listed


def test_other_parameters_of_the_references_implementation_stay() -> None:
    listed, _ = found("linked", "block(left=1, pairs=64)")
    assert families(listed)["block"] == [f"block(left={n}, pairs=64)" for n in (2, 5, 10, "null")]
    assert "cascade(reject=0.4)" in listed


def test_what_cannot_be_tried_is_listed_with_the_reason() -> None:
    listed, refused = found("short", "", "default", "small", logprobs=False)
    assert not {"logit", "lotus", "listwise(window=10)"} & {*listed}
    assert refused["logit"] == "the model returns no log-probabilities; use pointwise"
    assert 'pip install "semgraph[lotus]"' in refused["lotus"]  # once, for all models
    assert refused["listwise(window=10)"].endswith("use listwise(window=16)")
    assert "listwise(window=10) @ small" in refused
    assert families(listed)["listwise"] == ["listwise(window=20)", "listwise(window=40)"]


def test_a_package_that_is_not_here_is_named_with_its_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("semgraph.extras.is_installed", lambda name: name != "datasketch")
    listed, refused = found("linked")
    assert 'pip install "semgraph[minhash]"' in refused["cascade"]
    assert not any(name.startswith("cascade") for name in listed)


def test_a_model_that_does_not_exist_is_an_error() -> None:
    def limits(role: str) -> Limits:
        raise PlanError(f'no model "{role}"')

    node = semantic_node(load_plan("texts.yaml"), "good")
    with pytest.raises(PlanError, match='no model "smal"'):
        of_step(node, Choice("per_row"), Library(), ("smal",), limits)


OWN = '''"""Mine."""
from semgraph.operator import *

@dataclass(frozen=True)
class Mine(Implementation[SemFilter]):
    same = True
    {fields}

    def __post_init__(self):
        if self.rows < 1:
            raise ValueError("rows must be at least 1")

    {more}

    def estimate(self, node, rows, seen):
        return Cost(1)

    async def answer(self, node, rows, ctx):
        return await ctx.ask_packed(node, rows, rows.blocks(node, left=self.rows))
'''


def own(folder: Path, fields: str, more: str = "") -> Path:
    file = folder / "ops" / "sem_filter" / "mine.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(OWN.format(fields=fields, more=more), encoding="utf-8")
    return folder / "ops"


def test_an_implementation_of_ones_own_counts_as_a_shipped_one(folder: Path) -> None:
    mine = own(folder, 'rows: int = tried(2, 4, 8, default=4, risk="up")\n    other: int = 1')
    listed, _ = found("good", "", "default", "small", operators=mine)
    assert families(listed)["mine"] == [f"mine(rows={n})" for n in (2, 4, 8)]
    assert "mine(rows=8) @ small" in listed
    listed, _ = found("good", "mine(other=3)", operators=mine)
    assert families(listed)["mine"] == ["mine(other=3, rows=2)", "mine(other=3, rows=8)"]


def test_of_several_declared_parameters_one_is_varied_at_a_time(folder: Path) -> None:
    both = 'rows: int = tried(2, 4, default=4, risk="up")\n    depth: int = tried(1, 2, 3, default=2, risk="down")'
    listed, _ = found("good", operators=own(folder, both))
    names = [name for name in listed if name.startswith("mine")]
    assert names == ["mine(rows=2)", "mine(rows=4)", "mine(depth=3)", "mine(depth=1)"]
    assert families(listed)["mine(depth)"] == ["mine(depth=3)", "mine(depth=1)"]


@pytest.mark.parametrize(
    ("fields", "more", "reason"),
    [
        ("rows: int", "", "mine needs rows"),
        ("rows: int = 4", "def refuses(self, node, limits): return node.x", "refuses raised AttributeError"),
        ("rows: int = 4", "def refuses(self, node, limits): return 'not today'", "not today"),
        ('rows: int = tried(4, default=4, risk="upp")', "", 'risk is up, down or none, not "upp"'),
    ],
)  # fmt: skip
def test_one_of_ones_own_that_fails_leaves_the_others(
    folder: Path, fields: str, more: str, reason: str
) -> None:
    listed, refused = found("good", operators=own(folder, fields, more))
    assert reason in refused["mine"]
    assert "packed(rows=5)" in listed


# --------------------------------------------------------------- what implementations declare


@pytest.mark.parametrize("operator", OPERATORS)
def test_what_shipped_implementations_declare_is_valid(operator: str) -> None:
    library, declared = Library(), 0
    for name in library.names(operator):
        kind = type(library.get(operator, Choice(name)))
        declared += len(values_tried(kind))
        assert len(values_tried(kind)) <= 1
        assert wrong_values(name, kind) is None
    assert declared


def check(folder: Path) -> Result:
    return CliRunner().invoke(app, ["operators", "check", str(folder)])


def test_the_check_accepts_values_to_try(folder: Path) -> None:
    done = check(own(folder, 'rows: int = tried(1, 4, 9, default=4, risk="up")'))
    assert (done.exit_code, done.stdout) == (0, "sem_filter/mine  17 passed\n")
    listed = CliRunner().invoke(app, ["operators", "list", "--operators", str(folder / "ops")])
    assert "mine(rows=4)" in listed.stdout


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ("rows: int = tried(0, 4, default=4)", "it does not accept rows=0: mine(rows=0): rows must be at least 1"),
        ("rows: int = tried(4, 'all', default=4)", 'it does not accept rows="all": mine: rows must be a whole number, not "all"'),
        ("rows: int = tried(1, 2, default=4)", "rows=4 is its default, and not among 1, 2"),
        ("rows: int = tried(default=4)", "rows=4 is its default, and not among none"),
        ("rows: int = tried(4, 1, 2, default=4, risk='up')", "rows must have its values from the lowest to the highest, not 4, 1, 2"),
    ],
)  # fmt: skip
def test_the_check_says_what_is_wrong_with_values_to_try(
    folder: Path, fields: str, said: str
) -> None:
    done = check(own(folder, fields))
    assert done.exit_code == 1
    assert done.stdout == f"sem_filter/mine  17 passed · 1 failed: values to try: {said}\n"


# ------------------------------------------------------------------- the candidates of a plan


def names(*args: Any, **options: Any) -> list[str]:
    listed = of_plan(*args, **options)
    assert all(each.family == each.name and each.risk == 0 for each in listed)
    assert all(f"{k}={v}" == each.name for each in listed for k, v in each.changes.items())
    return [each.name for each in listed]


def test_a_plan_has_its_presets_and_the_plans_that_can_stand_in_it() -> None:
    # `read_other` has other columns; `remove` fits `kept`, whose results nobody reads, but has not all
    assert names(load_plan("listed.yaml")) == ["preset=few", "preset=none", "read=read_few"]
    chosen = load_plan("listed.yaml", preset="few")
    assert names(chosen, preset="few") == ["preset=none", "read=read_all"]


def test_a_plan_of_ones_own_can_stand_in_a_shipped_one(folder: Path) -> None:
    copied("read_combined", folder / "plans")
    (folder / "plans" / "read_combined.yaml").rename(folder / "plans" / "read_mine.yaml")
    assert "read=read_mine" in names(load_plan("add_episode"))


def test_the_candidates_of_add_episode() -> None:
    listed = names(load_plan("add_episode"))
    assert {"preset=lean", "preset=fused", "preset=combined"} < {*listed}
    assert [name for name in listed if not name.startswith("preset=")] == [
        "read=read_combined", "read=read_documents", "read=read_lean", "judge=judge_episode",
        "resolve=resolve_together", "describe=describe_by_model", "describe=describe_gated",
        "settle/ask=ask_seed", "settle/ask=ask_seed_fused", "settle/ask=ask_together",
    ]  # fmt: skip


def test_a_rule_is_tried_if_it_would_change_the_plan(folder: Path) -> None:
    plan = folder / "texts.yaml"
    both = ["rules.fuse_maps=on", "rules.join_to_classify=on"]  # fuse_predicates finds nothing
    assert names(load_plan(plan)) == both
    text = plan.read_text(encoding="utf-8")
    plan.write_text(f"{text}allow: [fuse_maps]\n", encoding="utf-8")
    assert names(load_plan(plan)) == both[1:]


def test_a_rule_that_is_switched_off_is_not_tried() -> None:
    assert names(with_rules(load_plan("texts.yaml"), {"fuse_maps": False})) == [
        "rules.join_to_classify=on"
    ]
