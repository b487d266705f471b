"""Warnings about plans that run but hardly do what their author means, each with its place."""

from __future__ import annotations

import pytest

import semgraph as sg
from semgraph.folders import plans_folder
from semgraph.frontend.load import load_plan
from tests.frontend.conftest import Folder, Load

SOUND = """
plan: notes
inputs: {notes: {id: string, text: string}}
params: {least: 3}
steps:
  long:
    - from: notes
    - filter: length(text) > $least
    - sem_map: {prompt: "What is {text} about?", returns: {topic: string}}
returns: [long]
"""
SHIPPED = sorted(path for path in plans_folder().glob("*.yaml") if path.stem != "graph")


def changed(*changes: tuple[str, str]) -> str:
    text = SOUND
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def test_a_sound_plan_has_no_warnings(load: Load) -> None:
    assert load(SOUND).warnings == ()


def test_a_prompt_without_a_column_is_warned_of(load: Load) -> None:
    (warning,) = load(changed(("{text}", "this note"))).warnings
    assert str(warning) == (
        'plan.yaml:8:7  step long: the prompt "What is this note about?" names no column, so the question is the same '
        "for every row. Columns: id, text. Write {column} where its value belongs"
    )


def test_each_prompt_of_several_is_looked_at(load: Load, folder: Folder) -> None:
    for name, item in (("short", "{text}"), ("other", "The note.")):
        folder.write(
            f"prompts/{name}.md", f"---\nreturns: {{topic: string}}\n---\n# item\n{item}\n"
        )
    several = (
        '"What is {text} about?", returns: {topic: string}',
        "{on: id, a: short, otherwise: other}",
    )
    (warning,) = load(changed(several)).warnings
    assert 'the prompt "other" names no column' in warning.what


def test_a_pair_whose_left_row_is_not_named_is_warned_of(load: Load) -> None:
    text = """
        plan: pairs
        inputs: {notes: {id: string, text: string}}
        steps:
          same:
            - from: notes
            - sem_join: {prompt: "Is {n.text} true?", other: notes, alias: n}
        returns: [same]
    """
    (warning,) = load(text).warnings
    assert 'the prompt "Is {n.text} true?" names no column' in warning.what


def test_an_unused_parameter_is_warned_of_at_its_place(load: Load) -> None:
    (warning,) = load(changed(("{least: 3}", "{least: 3, most: 9}"))).warnings
    assert str(warning) == (
        'plan.yaml:3:20  the parameter "most" is not used. Write $most where its value belongs, or remove it'
    )


def test_a_plan_without_steps_may_declare_parameters_for_plans_in_its_place(load: Load) -> None:
    text = "plan: none\ninputs: {a: {id: string}}\nparams: {most: 3}\nreturns: [a]\n"
    assert load(text).warnings == ()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("length(text) > $least", "length(text) > $least + $most"),
        ("What is {text}", "What is {text} ({$most})"),
        ("    - filter", "    - limit: {n: $most, order: id}\n    - filter"),
        ("steps:\n", "steps:\n  rest: {if: {$most: 7}, do: [{from: notes}]}\n"),
        ("steps:\n", "steps:\n  rest: {if: $least, do: [{switch: {on: $most, 9: notes}}]}\n"),
    ],
)
def test_a_parameter_is_used_wherever_it_is_named(load: Load, old: str, new: str) -> None:
    assert load(changed(("{least: 3}", "{least: 3, most: 9}"), (old, new))).warnings == ()


def test_a_parameter_of_a_prompt_file_in_a_step_that_is_left_out_is_used(
    load: Load, folder: Folder
) -> None:
    folder.write(
        "prompts/other.md", "---\nreturns: {topic: string}\n---\n# rules\n{$most}\n# item\n{text}\n"
    )
    step = "steps:\n  rest:\n    if: {$least: 0}\n    do: [{from: notes}, {sem_map: {prompt: other}}]\n"
    assert load(changed(("{least: 3}", "{least: 3, most: 9}"), ("steps:\n", step))).warnings == ()


def test_where_a_caller_gives_a_condition_any_parameter_may_be_used(load: Load) -> None:
    taken = (
        ("{least: 3}", '{least: 3, condition: "TRUE", values: []}'),
        ("length(text) > $least", "$condition"),
    )
    assert load(changed(*taken)).warnings == ()


def test_a_step_with_model_calls_that_nothing_reads_is_warned_of(load: Load) -> None:
    (warning,) = load(
        changed(("returns: [long]", "  short: [{from: notes}, {limit: 1}]\nreturns: [short]"))
    ).warnings
    assert str(warning) == (
        "plan.yaml:5:3  step long: nothing reads this step, so its model calls are never made. "
        "Name it in returns, in a write or in another step, or remove it"
    )


def test_of_steps_that_read_each_other_the_last_is_warned_of(load: Load) -> None:
    more = "  topics: [{from: long}, {project: [topic]}]\n  short: [{from: notes}, {limit: 1}]\nreturns: [short]"
    assert [warning.step for warning in load(changed(("returns: [long]", more))).warnings] == [
        "topics"
    ]


def test_a_step_that_calls_no_model_or_is_read_is_not_warned_of(load: Load) -> None:
    more = "  short: [{from: notes}, {limit: 1}]\nreturns: {topics: [{from: long}, {project: [topic]}]}"
    assert load(changed(("returns: [long]", more))).warnings == ()


def test_warnings_about_a_called_plan_have_their_places_in_its_file(
    load: Load, folder: Folder
) -> None:
    folder.write(
        "notes.yaml", changed(("{least: 3}", "{least: 3, most: 9}"), ("{text} about", "that about"))
    )
    caller = """
        plan: caller
        inputs: {notes: {id: string, text: string}}
        steps:
          read: [{call: {plan: notes, inputs: {notes: notes}}}]
        returns: [read]
    """
    positions = [str(warning.position) for warning in load(caller).warnings]
    assert positions == ["notes.yaml:3:20", "notes.yaml:8:7"]


def test_a_result_carries_the_warnings_as_notes(folder: Folder) -> None:
    path = folder.write("plan.yaml", changed(("{least: 3}", "{least: 3, most: 9}")))
    with sg.Session(store="memory", journal=False, runs="") as session:
        result = session.run(path, notes=[])
    assert result.notes == tuple(map(str, load_plan(path).warnings))
    assert len(result.notes) == 1


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_plan_has_no_warnings_in_any_preset(path) -> None:
    plan = load_plan(path)
    for preset in (None, *plan.document.get("presets", {})):
        assert load_plan(path, preset=preset).warnings == ()
