"""What a plan file means: names, parameters, presets, forms, calls, writes, results, windows,
choices.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from semgraph.errors import PlanError, Position
from semgraph.frontend.document import find_plan
from semgraph.frontend.load import load_plan
from semgraph.logical.graph import Scan
from semgraph.logical.node import walk
from semgraph.logical.plan import Choice, Windowing
from semgraph.logical.relational import Add, Empty, Filter, Input, Limit, Union
from semgraph.logical.search import Search
from semgraph.logical.semantic import SemFilter, SemMap
from semgraph.logical.sinks import Delete, Merge

NOTES = """
plan: notes
inputs: {notes: {id: string, group_id: string, text: string}}
"""


def test_a_step_is_a_source_and_the_operators_on_it(load):
    plan = load(
        NOTES
        + """
steps:
  long:
    - from: notes
    - filter: length(text) > 3
    - add: {size: length(text)}
returns: [long]
"""
    )
    add = plan.steps["long"]
    assert isinstance(add, Add)
    assert isinstance(add.input, Filter)
    assert isinstance(add.input.input, Input)
    assert add.schema.names == ["id", "group_id", "text", "size"]
    assert plan.returns == {"long": add}
    assert plan.name == "notes"


def test_nodes_know_their_step_and_their_place(load):
    plan = load(
        NOTES
        + "steps:\n  long:\n    - from: notes\n    - filter: length(text) > 3\nreturns: [long]\n"
    )
    node = plan.steps["long"]
    assert (node.step, node.origin) == ("long", Position("plan.yaml", 6, 7))
    assert (node.inputs[0].step, node.inputs[0].origin) == ("notes", Position("plan.yaml", 2, 10))


def test_the_order_in_which_steps_are_written_does_not_matter(load):
    one = load(
        NOTES
        + "steps: {b: [{from: a}, {distinct: [id]}], a: [{from: notes}, {filter: 'TRUE'}]}\nreturns: [b]\n"
    )
    two = load(
        NOTES
        + "steps: {a: [{from: notes}, {filter: 'TRUE'}], b: [{from: a}, {distinct: [id]}]}\nreturns: [b]\n"
    )
    assert one.fingerprint == two.fingerprint


def test_a_nested_step_stands_where_a_relation_is_expected(load):
    plan = load(
        NOTES
        + """
steps:
  rest:
    - from: notes
    - join: {other: [{from: notes}, {filter: length(text) > 3}], using: id, how: anti}
returns: [rest]
"""
    )
    (other,) = (node for node in walk(plan.steps["rest"]) if isinstance(node, Filter))
    assert other.step == "rest"
    assert other.origin == Position("plan.yaml", 7, 38)


def test_a_parameter_may_be_a_whole_value_or_stand_in_an_expression(load):
    text = (
        NOTES
        + """
params: {least: 3, most: 5, terms: [length(text) desc, id]}
steps:
  some:
    - from: notes
    - filter: length(text) > $least
    - limit: {n: $most, order: $terms}
returns: [some]
"""
    )
    limit = load(text).steps["some"]
    assert isinstance(limit, Limit)
    assert limit.n == 5
    assert [str(term) for term in limit.order] == ["length(text) desc", "id"]
    assert limit.input.where.sql == 'LENGTH("text") > 3'
    other = load(text, params={"least": 10, "most": 1})
    assert other.steps["some"].n == 1
    assert other.params == {"least": 10, "most": 1, "terms": ["length(text) desc", "id"]}
    assert other.fingerprint != load(text).fingerprint


def test_a_text_in_an_expression_cannot_leave_its_literal(load):
    text = (
        NOTES
        + "params: {word: x}\nsteps: {some: [{from: notes}, {filter: text = $word}]}\nreturns: [some]\n"
    )
    hostile = "x' OR '1'='1"
    assert (
        load(text, params={"word": hostile}).steps["some"].where.sql
        == "\"text\" = 'x'' OR ''1''=''1'"
    )


def test_given_parameters_win_over_the_preset_and_the_preset_over_defaults(load):
    text = (
        NOTES
        + """
params: {a: 1, b: 1, c: 1}
presets: {more: {params: {b: 2, c: 2}, use: {asked: packed(rows=5)}}}
steps:
  asked:
    - from: notes
    - sem_filter: {prompt: "Is {text} nice?"}
returns: [asked]
use: {asked: per_row}
"""
    )
    assert load(text).use == {"asked": Choice("per_row")}
    plan = load(text, preset="more", params={"c": 3})
    assert plan.params == {"a": 1, "b": 2, "c": 3}
    assert plan.use == {"asked": Choice("packed", (("rows", 5),))}
    assert load(text, preset="more", use={"asked": "lotus"}).use == {"asked": Choice("lotus")}


def test_when_prunes_a_step_and_the_writes_and_results_that_read_it(load):
    text = """
plan: notes
graph: graph.yaml
inputs: {notes: {uuid: string, group_id: string, title: string}}
params: {flag: true, way: short}
steps:
  some: {if: $flag, do: [{from: notes}, {filter: length(title) > 3}]}
  short: {if: {$way: [short, brief]}, do: [{from: notes}]}
writes:
  - merge: {from: some, node: Book}
  - {if: {$way: long}, merge: {from: notes, node: Book}}
returns: [some, short, notes]
use: {}
"""
    kept = load(text)
    assert set(kept.steps) == {"some", "short"}
    assert set(kept.returns) == {"some", "short", "notes"}
    assert len(kept.writes) == 1
    pruned = load(text, params={"flag": False, "way": "long"})
    assert set(pruned.steps) == set()
    assert set(pruned.returns) == {"notes"}
    assert [sink.step for sink in pruned.writes] == ["merge Book"]
    assert pruned.writes[0].input.step == "notes"


def test_a_pruned_step_needs_no_columns_that_only_its_flag_brings(load):
    text = (
        NOTES
        + "params: {flag: false}\nsteps: {a: {if: $flag, do: [{from: notes}, {filter: nowhere}]}}\nreturns: [notes]\n"
    )
    assert load(text).steps == {}


def test_switch_picks_one_form(load):
    text = (
        NOTES
        + """
params: {way: short, flag: false}
steps:
  some:
    - switch: {on: $way, short: notes, long: [{from: notes}, {filter: length(text) > 3}]}
    - distinct: [id]
  other:
    - switch: {on: $flag, true: [{from: missing}], false: notes}
returns: [some, other]
"""
    )
    assert isinstance(load(text).steps["some"].inputs[0], Input)
    assert isinstance(load(text, params={"way": "long"}).steps["some"].inputs[0], Filter)


def test_columns_are_mappings_lists_or_names(load):
    plan = load(
        NOTES
        + """
steps:
  a: [{from: notes}, {project: {id, size: length(text)}}]
  b: [{from: notes}, {project: [id, text]}]
  c: [{from: notes}, {aggregate: {by: id, add: {n: count(*)}}}]
  d:
    - from: notes
    - project:
        id:
        constant: "NULL::VARCHAR"
        one: 1
        yes_: true
returns: [a, b, c, d]
"""
    )
    assert plan.steps["a"].schema.names == ["id", "size"]
    assert plan.steps["b"].schema.names == ["id", "text"]
    assert plan.steps["d"].schema.names == ["id", "constant", "one", "yes_"]
    assert plan.steps["c"].schema.names == ["id", "n"]


def test_a_union_matches_columns_by_name(load):
    plan = load(
        NOTES
        + "steps: {u: [{union: [notes, [{from: notes}, {project: [text, id, group_id]}]]}]}\nreturns: [u]\n"
    )
    union = plan.steps["u"]
    assert isinstance(union, Union)
    assert union.schema.names == ["id", "group_id", "text"]


# -- the graph
# ---------------------------------------------------------------------------------------------------------

GRAPHED = """
plan: books
graph: graph.yaml
inputs: {said: {uuid: string, group_id: string, title: string}}
"""


def test_from_a_label_reads_the_graph(load):
    plan = load(
        GRAPHED
        + "steps: {a: [{from: Book}], b: [{from: {label: Book, partition: all}}]}\nreturns: [a, b]\n"
    )
    assert isinstance(plan.steps["a"], Scan)
    assert plan.steps["a"].partition == ""
    assert plan.steps["b"].partition == "all"
    assert plan.steps["a"].step == "a"


def test_a_search_is_over_a_label_a_step_or_both(load):
    plan = load(
        GRAPHED
        + """
params: {similar: 0.6}
steps:
  stored: [{from: said}, {search: {over: Book, alias: b, k: 3, methods: {equal: title}}}]
  unstored: [{from: said}, {search: {over: said, alias: b, k: 3, methods: {equal: title}}}]
  both:
    - from: said
    - search:
        over: [Book, said]
        alias: b
        k: 3
        methods: [{equal: title_key, to: key(title)}, {fulltext: title, rank: overlap}, {nearest: title, above: $similar}]
returns: [stored, unstored, both]
"""
    )
    stored, unstored, both = (plan.steps[name] for name in ("stored", "unstored", "both"))
    assert all(isinstance(node, Search) for node in (stored, unstored, both))
    assert (stored.label, stored.within) == ("Book", None)
    assert (unstored.label, unstored.within) == ("", plan.steps["stored"].input)
    assert (both.label, both.within.step) == ("Book", "said")
    assert [(by.via, by.prop, str(by.to), by.above, by.rank) for by in both.methods] == [
        ("equal", "title_key", "key(title)", -1.0, "store"),
        ("fulltext", "title", "title", -1.0, "overlap"),
        ("nearest", "title", "title", 0.6, "store"),
    ]


def test_writes_are_sinks_in_order(load):
    plan = load(
        GRAPHED
        + """
steps:
  old: [{from: Book}, {filter: year < 1900}]
writes:
  - merge: {from: said, node: Book, first: true}
  - merge: {from: [{from: said}, {add: {year: 2025}}], node: Book, set: {title: trim(title)}, only: existing}
  - delete: {from: old, node: Book, detach: true}
"""
    )
    assert [type(sink) for sink in plan.writes] == [Merge, Merge, Delete]
    assert [sink.step for sink in plan.writes] == ["merge Book", "merge Book", "delete Book"]
    assert plan.writes[0].first
    assert plan.roots == plan.writes
    assert plan.writes[1].input.step == "merge Book"


def test_a_prompt_is_a_file_a_question_or_one_of_several(load, folder):
    folder.write("prompts/mail.md", "---\nreturns: {product: string}\n---\n# item\nMail: {title}\n")
    folder.write("prompts/call.md", "---\nreturns: {product: string}\n---\n# item\nCall: {title}\n")
    plan = load(
        GRAPHED
        + """
steps:
  pairs: [{from: said}, {sem_join: {other: said, alias: o, using: group_id, prompt: same_book}}]
  asked: [{from: said}, {sem_map: {prompt: "What is {title}?", returns: {kind: "enum<a, b>"}, on_error: null}}]
  several: [{from: said}, {sem_map: {prompt: {on: group_id, mail: mail, otherwise: call}}}]
  kept: [{from: said}, {sem_filter: {prompt: "Is {title} nice?"}}]
returns: [pairs, asked, several, kept]
"""
    )
    assert plan.steps["pairs"].prompt.first.name == "same_book"
    assert plan.steps["pairs"].schema.names[-2:] == ["o", "why"]
    asked = plan.steps["asked"]
    assert isinstance(asked, SemMap)
    assert asked.on_error == "null"
    assert str(dict(asked.answers)["kind"]) == "enum<a, b>"
    several = plan.steps["several"].prompt
    assert several.on == "group_id"
    assert several.pick("mail").name == "mail"
    assert several.pick("fax").name == "call"
    assert isinstance(plan.steps["kept"], SemFilter)


ROLES = """
params: {model: cheap}
steps:
  pairs: [{from: said}, {sem_join: {other: said, alias: o, prompt: "Is {title} {o.title}?", role: $model}}]
  asked: [{from: said}, {sem_map: {prompt: mail, role: cheap}}]
  several: [{from: said}, {sem_map: {prompt: {on: group_id, mail: mail, otherwise: call}, role: cheap}}]
  kept: [{from: said}, {sem_filter: {prompt: "Is {title} nice?", role: cheap}}]
  best: [{from: said}, {sem_topk: {prompt: "Is {title} nice?", k: 1, role: cheap}}]
  whole: [{from: said}, {sem_agg: {prompt: "All of {title}", returns: {all: string}, role: cheap}}]
returns: [pairs, asked, several, kept, best, whole]
"""


def test_a_role_beside_a_prompt_comes_before_that_of_its_file(load, folder):
    for name in ("mail", "call"):
        front = f"returns: {{product: string}}\nrole: {name}"
        folder.write(f"prompts/{name}.md", f"---\n{front}\n---\n# item\n{{title}}\n")
    plan = load(GRAPHED + ROLES)
    roles = {name: {p.role for p in node.prompt.all} for name, node in plan.steps.items()}
    assert roles == {name: {"cheap"} for name in plan.steps}
    without = load(GRAPHED + ROLES.replace(", role: cheap", "").replace(", role: $model", ""))
    assert {p.role for p in without.steps["several"].prompt.all} == {"mail", "call"}


# -- windows
# -----------------------------------------------------------------------------------------------------------


def test_the_ordered_input_has_position_and_turn_and_is_what_is_cut(load):
    plan = load(
        """
plan: ordered
inputs:
  said: {id: string null, group_id: string null, at: timestamp, text: string}
  kinds: {name: string}
params: {window: 1}
windows: {input: said, partition: group_id, order: [at, position], key: id, key_of: [text], size: $window, ahead: 8}
steps: {a: [{from: said}, {filter: turn > 1}], b: [{from: kinds}, {distinct: []}]}
returns: [a, b]
"""
    )
    assert plan.windows == Windowing(
        "said", "group_id", ("at",), "id", ("text",), 1, 8, "set_aside"
    )
    said = plan.steps["a"].inputs[0]
    assert said.windowed
    assert said.schema.names[-2:] == ["position", "turn"]
    assert said.schema.field("turn").type == pa.int64()
    assert plan.steps["a"].windowed
    assert not plan.steps["b"].windowed
    assert plan.inputs["said"].schema.names == ["id", "group_id", "at", "text"]


def test_window_all_is_one_window(load):
    text = (
        NOTES
        + "params: {w: all}\nwindows: {input: notes, order: text, key: id, size: $w, on_error: stop}\nreturns: [notes]\n"
    )
    windows = load(text).windows
    assert (windows.size, windows.by_readiness, windows.window_size(7)) == (None, False, 7)
    windows = load(text, params={"w": "ready"}).windows
    assert (windows.size, windows.by_readiness, windows.window_size(7)) == ("ready", True, 1)
    assert windows.on_error == "stop"
    assert windows.partition == "group_id"
    assert load(text, params={"w": 7}).windows.size == 7


# -- calls
# -------------------------------------------------------------------------------------------------------------

INNER = """
plan: inner
inputs: {of: {id: string, note: string null}}
params: {least: 3}
presets: {strict: {params: {least: 30}}}
steps:
  long: [{from: of}, {filter: length(id) > $least}]
  asked: [{from: long}, {sem_filter: {prompt: "Is {id} nice?"}}]
returns: {nice: asked, long: long}
use: {asked: packed}
"""


def test_a_called_plans_steps_stand_in_place_of_the_call(load, folder):
    folder.write("inner.yaml", INNER)
    plan = load(
        NOTES
        + """
params: {n: 5}
steps:
  found: [{call: {plan: inner, inputs: {of: notes}, params: {least: $n}}}]
  after: [{from: found.nice}, {distinct: [id]}]
returns: [after, found.long]
"""
    )
    assert set(plan.steps) == {"found/long", "found/asked", "after"}
    asked = plan.steps["found/asked"]
    assert asked.step == "found/asked"
    assert plan.steps["after"].inputs == (asked,)
    assert asked.origin.file == "inner.yaml"
    assert plan.steps["found/long"].where.sql == 'LENGTH("id") > 5'
    assert set(plan.returns) == {"after", "long"}
    assert asked.schema.names == [
        "id",
        "group_id",
        "text",
        "note",
    ]  # more columns pass through, one is NULL


def test_a_called_plan_brings_its_choices_and_the_caller_overrules_them(load, folder):
    folder.write("inner.yaml", INNER)
    text = (
        NOTES
        + "steps: {found: [{call: {plan: inner, inputs: {of: notes}}}]}\nreturns: [found.nice]\n"
    )
    assert load(text).use == {"found/asked": Choice("packed")}
    assert load(text, use={"found/asked": "lotus"}).use == {"found/asked": Choice("lotus")}
    assert load(text, use={"asked": "lotus"}).use == {"found/asked": Choice("lotus")}


def test_a_call_may_name_a_preset(load, folder):
    folder.write("inner.yaml", INNER)
    text = (
        NOTES
        + "steps: {f: [{call: {plan: inner, inputs: {of: notes}, preset: strict}}]}\nreturns: [f.long]\n"
    )
    assert load(text).steps["f/long"].where.sql == 'LENGTH("id") > 30'


def test_a_called_plan_with_one_result_is_the_step(load, folder):
    folder.write(
        "one.yaml",
        "plan: one\ninputs: {of: {id: string}}\nsteps: {a: [{from: of}, {distinct: [id]}]}\nreturns: [a]\n",
    )
    plan = load(
        NOTES
        + "steps: {s: [{call: {plan: one, inputs: {of: notes}}}, {filter: 'TRUE'}]}\nreturns: [s]\n"
    )
    assert plan.steps["s"].inputs[0].step == "s/a"
    assert plan.steps["s"].step == "s"


def test_a_call_may_leave_out_what_is_optional(load, folder):
    folder.write(
        "two.yaml",
        "plan: two\ninputs: {of: {id: string}, kinds: {id: string}}\noptional: [kinds]\n"
        "steps: {s: [{from: of}, {join: {other: kinds, alias: k, using: id, how: left}}]}\nreturns: [s]\n",
    )
    given = (
        NOTES
        + "steps: {a: [{call: {plan: two, inputs: {of: notes, kinds: notes}}}]}\nreturns: [a]\n"
    )
    without = NOTES + "steps: {a: [{call: {plan: two, inputs: {of: notes}}}]}\nreturns: [a]\n"
    assert load(given).steps["a/s"].schema.names == load(without).steps["a/s"].schema.names
    nothing = load(without).steps["a/s"].inputs[1]
    assert isinstance(nothing, Empty)
    assert nothing.schema.names == ["id"]
    with pytest.raises(PlanError, match='the call needs the input "of"'):
        load(NOTES + "steps: {a: [{call: {plan: two, inputs: {kinds: notes}}}]}\nreturns: [a]\n")


def test_what_a_called_plan_writes_is_written_by_the_caller(load, folder):
    folder.write(
        "inner.yaml",
        "plan: inner\ngraph: graph.yaml\ninputs: {of: {uuid: string, group_id: string, title: string}}\n"
        "writes: [{merge: {from: of, node: Book}}]\nreturns: [of]\n",
    )
    plan = load(GRAPHED + "steps: {s: [{call: {plan: inner, inputs: {of: said}}}]}\nreturns: [s]\n")
    assert [sink.step for sink in plan.writes] == ["s/merge Book"]


# -- finding
# -----------------------------------------------------------------------------------------------------------


def test_a_plan_is_found_by_path_or_name_here_before_the_shipped_ones(folder):
    path, shipped = find_plan("add_episode")
    assert shipped
    assert path.name == "add_episode.yaml"
    assert find_plan("plans/add_episode.yaml") == (path, True)
    own = folder.write("plans/add_episode.yaml", "plan: mine\n")
    for ref in (
        "add_episode",
        "plans/add_episode",
        "plans/add_episode.yaml",
        Path("plans/add_episode.yaml"),
    ):
        found, shipped = find_plan(ref)
        assert (found.resolve(), shipped) == (own, False)
    other = folder.write("other/add_episode.yaml", "plan: other\n")
    assert find_plan("add_episode", [folder.path / "other"]) == (other, False)


def test_folders_are_where_called_plans_are_looked_for(load, folder):
    folder.write("lib/one.yaml", "plan: one\ninputs: {of: {id: string}}\nreturns: [of]\n")
    text = NOTES + "steps: {s: [{call: {plan: one, inputs: {of: notes}}}]}\nreturns: [s]\n"
    with pytest.raises(PlanError, match='no plan "one"'):
        load(text)
    assert load(text, folders=["lib"]).steps["s"].step == "notes"


@pytest.mark.parametrize("name", ["add_episode", "resolve_entities", "settle_facts", "search"])
def test_the_shipped_plans_load(name):
    plan = load_plan(name)
    assert plan.name == name
    assert plan.roots
    assert all(node.step and node.origin is not None for node in walk(*plan.roots))
