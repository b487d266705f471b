"""A plan that a `call` names is an interface: `use` puts any plan of the same interface in its
place.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import semgraph
from semgraph.conformance.cases import Mind, Oracle
from semgraph.errors import PlanError
from semgraph.frontend.load import load_plan
from semgraph.frontend.plan_files import called_plans, copied, plan_file
from semgraph.logical.plan import Choice, LogicalPlan, PlanCall

PLANS = {
    "main": """
inputs: {notes: {id: string, text: string}}
params: {shown: 20}
presets: {fast: {use: {read: read_fast(shown=4)}}, asking: {use: {asked: packed(rows=2)}}}
steps:
  read: [{call: {plan: read_slow, inputs: [notes], params: [shown]}}]
  kept: [{from: read.names}, {filter: name <> ''}]
returns: [kept]
""",
    "read_slow": """
inputs: {notes: {id: string, text: string}, more: {id: string}}
optional: [more]
params: {shown: 20}
steps:
  asked: [{from: notes}, {sem_map: {prompt: "Name in {text} of {$shown}", returns: {name: string}}}]
  names: [{from: asked}, {project: [id, name]}]
  others: [{from: asked}, {project: [id]}]
returns: [names, others]
""",
    "read_fast": """
inputs: {notes: {id: string, text: string}}
params: {shown: 5}
steps: {names: [{from: notes}, {add: {extra: 1, name: "left(text, $shown)"}}]}
returns: [names]
""",
    "read_typed": """
inputs: {notes: {id: string, text: string}}
params: {shown: 5}
steps: {names: [{from: notes}, {project: {id: length(id), n: text}}]}
returns: [names]
""",
    "read_more": """
inputs: {notes: {id: string, text: string}, graphs: {id: string}}
steps: {names: [{from: notes}, {project: {id, name: text}}]}
returns: [names]
""",
    "read_nothing": """
inputs: {notes: {id: string, text: string}}
params: {shown: 5}
steps: {others: [{from: notes}, {project: [id]}]}
returns: [others]
""",
    "read_fewer": """
inputs: {notes: {id: string}}
steps: {names: [{from: notes}, {project: {id, name: id}}]}
returns: [names]
""",
    "outer": """
inputs: {notes: {id: string, text: string}}
steps:
  inner: [{call: {plan: main, inputs: [notes]}}]
  asked: [{from: inner}, {sem_filter: "Nice: {name}"}]
use: {inner/read: read_fast}
returns: [inner]
""",
    "both": """
inputs: {notes: {id: string, text: string}}
steps:
  read: [{call: {plan: read_one, inputs: [notes]}}, {sem_filter: "Nice: {name}"}]
use: {read: read_fast}
returns: [read]
""",
    "perhaps": """
inputs: {notes: {id: string, text: string}}
params: {short: false}
steps:
  all: [{from: notes}]
  first: {if: $short, do: [{from: notes}, {limit: {n: 1, order: id}}]}
returns: [all, first]
""",
    "chosen": """
inputs: {notes: {id: string, text: string}}
params: {short: false}
steps:
  read: [{call: {plan: perhaps, inputs: [notes], params: [short]}}]
returns: {all: read.all, first: read.first}
""",
    "read_one": """
inputs: {notes: {id: string, text: string}}
params: {shown: 5}
steps: {names: [{from: notes}, {project: {id, name: text}}]}
returns: [names]
""",
}
NOTES = [{"id": "a", "text": "Ann moved"}, {"id": "b", "text": "Ben left"}]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in PLANS.items():
        (tmp_path / f"{name}.yaml").write_text(f"plan: {name}{text}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(plan: str = "main", **options: object) -> str:
    with pytest.raises(PlanError) as caught:
        load_plan(f"{plan}.yaml", **options)
    return str(caught.value)


def names(plan: LogicalPlan | str, folder: Path, **options: object) -> list[str]:
    oracle = Oracle(Mind(answer=lambda text: {"name": text.split()[2]}))
    with semgraph.Session(llm=oracle, store="memory", folder=folder, runs=folder) as session:
        result = session.run(plan, inputs={"notes": NOTES}, **options)
    return [row["name"] for row in result["kept"].to_pylist()]


def test_without_a_choice_the_plan_that_the_call_names_is_run(folder: Path) -> None:
    assert names("main.yaml", folder) == ["Ann", "Ben"]


def test_a_preset_or_an_option_puts_another_plan_in_its_place(folder: Path) -> None:
    assert names("main.yaml", folder, preset="fast") == ["Ann ", "Ben "]
    assert names("main.yaml", folder, use={"read": "read_fast(shown=2)"}) == ["An", "Be"]
    assert names("main.yaml", folder, use={"read": {"read_fast": {"shown": 1}}}) == ["A", "B"]


def test_parameters_of_the_call_are_passed_unless_the_choice_has_its_own(folder: Path) -> None:
    chosen = {"read": "read_fast"}
    assert names("main.yaml", folder, use=chosen, params={"shown": 3}) == ["Ann", "Ben"]
    own = {"read": "read_fast(shown=2)"}
    assert names("main.yaml", folder, use=own, params={"shown": 3}) == ["An", "Be"]


def test_a_result_that_a_parameter_leaves_out_is_left_out_of_the_caller(folder: Path) -> None:
    assert set(load_plan("chosen.yaml").returns) == {"all"}
    assert set(load_plan("chosen.yaml", params={"short": True}).returns) == {"all", "first"}


def test_parameters_that_a_call_passes_by_name_are_used(folder: Path) -> None:
    assert load_plan("chosen.yaml").warnings == ()


def test_steps_keep_their_names_and_results_have_the_columns_of_the_interface() -> None:
    plan = load_plan("main.yaml", preset="fast")
    assert set(plan.steps) == {"read/names", "kept"}
    assert plan.returns["kept"].schema.names == ["id", "name"]
    assert plan.called == {"read": PlanCall("read_slow", Choice("read_fast", (("shown", 4),)))}


@pytest.mark.parametrize(
    ("plan", "reasons"),
    [
        (
            "read_typed",
            [
                '"id" of its result "names" is int64, not string',
                'its result "names" lacks "name" (string)',
            ],
        ),
        ("read_more", ['it needs the input "graphs", which the call does not give']),
        ("read_nothing", ['it returns no "names"']),
    ],
)
def test_a_plan_of_another_interface_is_refused(plan: str, reasons: list[str]) -> None:
    message = refused(use={"read": plan})
    for reason in reasons:
        assert f"--use read: {plan} cannot stand for read_slow: {reason}" in message


def test_a_parameter_that_the_plan_lacks_must_have_the_default_of_the_interface() -> None:
    assert load_plan("main.yaml", use={"read": "read_fewer"}).replaced
    message = refused(use={"read": "read_fewer"}, params={"shown": 3})
    assert 'read_fewer cannot stand for read_slow: it has no parameter "shown"' in message
    assert "the call sets it to 3" in message
    assert 'no parameter "shwn": did you mean "shown"?' in refused(
        use={"read": "read_fast(shwn=3)"}
    )


@pytest.mark.parametrize("entry", ["{read_fast: {shown: $shown}}", "read_fast(shown=$shown)"])
def test_parameters_of_the_plan_are_values_in_its_use(folder: Path, entry: str) -> None:
    text = PLANS["main"].replace("presets:", f"use: {{read: {entry}}}\npresets:")
    (folder / "main.yaml").write_text(f"plan: main{text}", encoding="utf-8")
    assert names("main.yaml", folder, params={"shown": 3}) == ["Ann", "Ben"]
    assert names("main.yaml", folder, params={"shown": 1}) == ["A", "B"]
    wrong = text.replace("=$shown", "=$shwn").replace(": $shown}}", ": $shwn}}")
    (folder / "main.yaml").write_text(f"plan: main{wrong}", encoding="utf-8")
    assert 'no parameter "shwn"' in refused()


def test_a_value_of_a_wrong_kind_stands_where_it_is_written(folder: Path) -> None:
    reason = "parameter \"shown\" takes a number, not 'few'"
    message = refused(use={"read": "read_fast(shown=few)"})
    assert f"--use read: read_fast cannot stand for read_slow: {reason}" in message
    text = PLANS["main"].replace("params: [shown]", "params: {shown: few}")
    (folder / "main.yaml").write_text(f"plan: main{text}", encoding="utf-8")
    assert refused().startswith(f"main.yaml:6:68  step read: {reason}")


def test_a_misspelt_call_is_named() -> None:
    assert 'use names no step "reed". Steps: read, ' in (message := refused(use={"reed": "x"}))
    assert message.endswith('Did you mean "read"?')


def test_what_does_not_fit_stands_at_the_entry_of_use(folder: Path) -> None:
    text = PLANS["main"].replace(
        "fast: {use: {read: read_fast(shown=4)}}", "fast: {use: {read: read_more}}"
    )
    (folder / "main.yaml").write_text(f"plan: main{text}", encoding="utf-8")
    line = next(i for i, at in enumerate(text.splitlines(), 1) if "presets" in at)
    assert refused(preset="fast").startswith(f"main.yaml:{line}:")


def test_the_outermost_choice_wins() -> None:
    assert load_plan("outer.yaml").replaced == {"inner/read": Choice("read_fast")}
    chosen = load_plan("outer.yaml", use={"read": "read_one"})
    assert chosen.replaced == {"inner/read": Choice("read_one")}


def test_a_later_choice_wins_whether_it_names_the_call_or_all_of_its_name(folder: Path) -> None:
    text = """
inputs: {notes: {id: string, text: string}}
presets: {slow: {use: {read: read_slow}}}
steps: {inner: [{call: {plan: main, inputs: [notes]}}]}
use: {read: read_one, inner/read: read_fast}
returns: [inner]
"""
    (folder / "two.yaml").write_text(f"plan: two{text}", encoding="utf-8")

    def read(**options: Any) -> str:
        return load_plan("two.yaml", **options).replaced["inner/read"].name

    assert read() == "read_fast"
    assert read(preset="slow") == "read_slow"
    assert read(use={"read": "read_fewer"}) == "read_fewer"
    loaded = load_plan("two.yaml", use={"read": "read_one", "inner/read": "read_fast"})
    assert loaded.using({"read": "read_fewer"}).replaced["inner/read"].name == "read_fewer"


def test_a_choice_for_a_loaded_plan_holds_for_every_step_of_the_name(folder: Path) -> None:
    text = PLANS["read_slow"] + "use: {asked: packed(rows=3)}\n"
    (folder / "read_slow.yaml").write_text(f"plan: read_slow{text}", encoding="utf-8")
    plan = load_plan("main.yaml")
    assert str(plan.choice("read/asked")) == "packed(rows=3)"
    assert str(plan.using({"asked": "per_row"}).choice("read/asked")) == "per_row"


def test_choices_for_steps_that_the_other_plan_lacks_are_refused_as_options_only() -> None:
    steps = PLANS["main"].replace("fast: {use: {", "fast: {use: {asked: packed(rows=2), ")
    Path("main.yaml").write_text(f"plan: main{steps}", encoding="utf-8")
    assert not load_plan("main.yaml", preset="fast").use
    assert 'use names no step "asked"' in refused(preset="fast", use={"asked": "packed()"})


def test_an_option_may_put_another_plan_in_place_of_that_of_a_preset_with_choices_for_its_steps(
    folder: Path,
) -> None:
    other = PLANS["read_slow"].replace("asked", "questioned")
    Path("read_other.yaml").write_text(f"plan: read_other{other}", encoding="utf-8")
    chosen = "fast: {use: {read: read_other, questioned: packed(rows=2)}}"
    text = PLANS["main"].replace("fast: {use: {read: read_fast(shown=4)}}", chosen)
    Path("main.yaml").write_text(f"plan: main{text}", encoding="utf-8")
    assert load_plan("main.yaml", preset="fast").use
    assert not load_plan("main.yaml", preset="fast", use={"read": "read_fast"}).use


def test_a_step_that_calls_and_asks_cannot_be_chosen() -> None:
    assert 'step "read" calls a plan and asks' in refused("both")


def test_a_plan_that_is_not_there_is_named() -> None:
    assert '--use read: no plan "read_lots"' in refused(use={"read": "read_lots"})
    assert 'Did you mean "read_fast"?' in refused(use={"read": "read_fastt"})


def test_a_loaded_plan_is_loaded_again_with_other_plans(folder: Path) -> None:
    plan = load_plan("main.yaml", params={"shown": 3})
    assert names(plan, folder, use={"read": "read_fast"}) == ["Ann", "Ben"]
    with pytest.raises(PlanError, match="read_more cannot stand for read_slow"):
        plan.using({"read": "read_more"})


def test_whole_plans_are_compared_with_other_plans_in_them(folder: Path) -> None:
    oracle = Oracle(Mind(answer=lambda text: {"name": text.split()[2]}))
    with semgraph.Session(llm=oracle, store="memory", folder=folder, runs=folder / "r") as session:
        compared = session.compare(
            "main.yaml",
            variants={"slow": {}, "fast": {"read": "read_fast(shown=3)"}},
            inputs={"notes": NOTES},
        )
    slow, fast = compared.arms
    assert (slow.changes, fast.changes) == ({}, {"read": "read_fast(shown=3)"})
    assert [trial.cold.calls for trial in (*slow.trials, *fast.trials)] == [2, 0]


def test_a_run_is_resumed_with_the_plans_that_it_used(folder: Path) -> None:
    oracle = Oracle(Mind(answer=lambda text: {"name": text.split()[2]}))
    with semgraph.Session(llm=oracle, store="memory", folder=folder, runs=folder / "r") as session:
        first = session.run("main.yaml", inputs={"notes": NOTES}, preset="fast")
        assert session.prepare("main.yaml", resume=first.run).replaced["read"].name == "read_fast"


def test_the_plans_that_fit_a_call_are_listed() -> None:
    [call] = called_plans(plan_file("main.yaml"))
    assert (call.step, call.plan, call.inputs) == ("read", "read_slow", ("notes", "more?"))
    assert (call.params, call.results) == (("shown",), ("names", "others"))
    assert call.fitting == ("read_fast", "read_fewer", "read_one")


def test_a_copied_plan_brings_the_plans_that_its_presets_use(folder: Path) -> None:
    new = copied("main.yaml", folder / "own")
    assert {path.name for path in new} == {"main.yaml", "read_slow.yaml", "read_fast.yaml"}


OF_A_GRAPH = "plan: {0}\ngraph: {0}_graph.yaml\nsteps: {{{1}: [{2}]}}\nreturns: [{1}]\n"
SMALL = "graph: small\nnodes: {Person: {properties: {name: string}}}\n"
LARGE = "graph: large\nnodes: {{Person: {{properties: {{name: {0}}}}}, Place: {{}}}}\n"


@pytest.mark.parametrize(("kind", "fits"), [("string", True), ("int64", False)])
def test_a_called_plan_may_know_a_part_of_the_graph(tmp_path: Path, kind: str, fits: bool) -> None:
    people = "{from: {label: Person, partition: all}}"
    files = {
        "inner.yaml": OF_A_GRAPH.format("inner", "people", people),
        "inner_graph.yaml": SMALL,
        "outer.yaml": OF_A_GRAPH.format("outer", "all", "{call: {plan: inner}}"),
        "outer_graph.yaml": LARGE.format(kind),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    if fits:
        assert load_plan(tmp_path / "outer.yaml").graph.name == "large"
    else:
        with pytest.raises(PlanError, match="has another graph"):
            load_plan(tmp_path / "outer.yaml")
