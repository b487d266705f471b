"""`semgraph plans`, `operators`, `explain`: what there is and what it does, without running
anything.
"""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

import semgraph
from semgraph import extras
from semgraph.folders import operators_folder, plans_folder
from tests.cli.conftest import GRAPH, PLAN, Project, Serving


def test_own_plans_and_shipped_ones_are_listed(project: Project) -> None:
    lines = project("plans", "list").out.splitlines()
    assert lines[1].split()[:2] == ["find", "plans"]
    assert lines[2].split()[:2] == ["people", "plans"]
    assert any(line.split()[:2] == ["add_episode", "shipped"] for line in lines)
    found = {
        plan["plan"]: plan for plan in json.loads(project("plans", "list", "--format", "json").out)
    }
    assert found["people"]["semantic"] == {"told": {"operator": "sem_map", "how": "reference"}}
    assert found["people"]["writes"] == ["Note", "Person", "KNOWS"]


def test_plans_are_listed_before_the_parts_that_other_plans_call(project: Project) -> None:
    project.env["COLUMNS"] = "80"
    lines = project("plans", "list").out.splitlines()
    assert lines[0].split() == ["plan", "from", "asks", "writes", "description"]
    middle = lines.index("parts: plans that other plans call")
    assert lines[middle + 1].split() == ["part", "from", "asks", "writes", "called", "by"]
    plans, parts = (
        {line.split()[0]: line for line in part if line}
        for part in (lines[1 : lines.index("memories/")], lines[middle + 2 :])
    )
    assert {"people", "add_episode", "search", "pagerank"} <= plans.keys()
    assert parts["find_rivals"].endswith("judge_episode, settle_facts")
    assert parts["read_lean"].endswith("add_episode, add_episode_lean"), "named by presets"
    listed = json.loads(project("plans", "list", "--format", "json").out)
    names = [each["name"] for each in listed]
    assert names[: len(plans)] == [*plans]
    assert names[-len(parts) :] == [*parts]
    called = {each["name"]: each["called_by"] for each in listed}
    assert called["resolve_entities"] == [
        "add_triplet",
        "judge_episode",
        "resolve_apart",
        "resolve_together",
    ]
    assert not any(called[name] for name in plans)
    assert all(called[name] for name in parts)


def test_plans_in_folders_are_listed_apart_by_the_names_that_run_them(project: Project) -> None:
    for name in ("write", "level"):
        project.write(
            f"plans/mine/tree/{name}.yaml",
            f"plan: tree_{name}\ninputs: {{rows: {{n: int64}}}}\nsteps: "
            + (
                "{a: [{call: {plan: level, inputs: [rows]}}]}\n"
                if name == "write"
                else "{a: [{from: rows}]}\n"
            )
            + ("returns: [a.a]\n" if name == "write" else "returns: [a]\n")
            + "example: {inputs: {rows: [{n: 1}]}}\n",
        )
    project.write("plans/mine/.draft/old.yaml", "plan: old\n")
    project.write("plans/mine/tree/settings.yaml", "colour: blue\n")
    lines = project("plans", "list").out.splitlines()
    own, shipped = lines.index("mine/"), lines.index("memories/")
    assert lines[own + 2].split()[:2] == ["mine/tree/write", "plans"]
    assert lines[own + 3] == ""
    assert {"memories/mem0/write", "memories/mem0/read", "memories/lightmem/sleep"} <= {
        line.split()[0] for line in lines[shipped + 2 : lines.index("", shipped)]
    }
    (part,) = [line for line in lines if line.startswith("mine/tree/level")]
    assert part.split()[-1] == "mine/tree/write"
    listed = json.loads(project("plans", "list", "--format", "json").out)
    assert {"mine/tree/write", "add_episode"} <= {each["name"] for each in listed}
    assert project("run", "mine/tree/write", "-q").code == 0
    page = project("plans", "show", "memories/mem0/write").out
    assert "try: semgraph run memories/mem0/write     runs its example" in page


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("mem0", "It is a folder of plans: memories/mem0/read, memories/mem0/write"),
        ("memories/mem0", "It is a folder of plans: memories/mem0/read, memories/mem0/write"),
        ("memories", "It is a folder of plans: see semgraph plans list"),
        ("memories/mem0/wirte", 'Did you mean "memories/mem0/write"?'),
    ],
)
def test_a_folder_in_the_place_of_a_plan_is_answered_with_its_plans(
    project: Project, asked: str, hint: str
) -> None:
    done = project("run", asked)
    assert done.code == 2
    assert done.err.splitlines()[0].endswith(hint)


def test_a_part_of_ones_own_is_listed_with_its_caller(project: Project) -> None:
    project.write(
        "plans/inner.yaml",
        "plan: inner\ninputs: {rows: {n: int64}}\nsteps: {a: [{from: rows}]}\nreturns: [a]\n",
    )
    project.write(
        "plans/outer.yaml",
        "plan: outer\ninputs: {rows: {n: int64}}\nsteps: {b: [{call: {plan: inner, inputs: [rows]}}]}\nreturns: [b.a]\n",
    )
    called = {
        each["plan"]: each["called_by"]
        for each in json.loads(project("plans", "list", "--format", "json").out)
    }
    assert (called["inner"], called["outer"]) == (["outer"], [])


def test_a_broken_plan_is_listed_with_its_problem(project: Project) -> None:
    project.write("plans/broken.yaml", "plan: broken\nsteps: {a: [{from: b}]}\nreturns: [a]\n")
    (line,) = [
        line for line in project("plans", "list").out.splitlines() if line.startswith("broken")
    ]
    assert "✗ plans/broken.yaml:2:" in line


def test_a_plan_is_shown_on_a_page(project: Project) -> None:
    out = project("plans", "show", "people").out
    assert "input notes" in out
    assert "timestamp" in out
    assert "least  0" in out
    assert "told  sem_map   reference" in out
    assert "try: semgraph run people     runs its example: 3 rows of notes" in out


def test_verbose_shows_the_prompts(project: Project) -> None:
    out = project("plans", "show", "add_episode", "-v").out
    assert "── prompt extract_facts" in out
    assert (plans_folder() / "prompts" / "extract_facts.md").read_text().splitlines()[-1] in out


def test_a_check_tells_every_problem_with_its_line_and_exits_with_2(project: Project) -> None:
    good = project("plans", "check")
    assert (good.code, good.err) == (0, "")
    assert good.out.splitlines()[1] == "plans/people.yaml   ok   3 steps, 1 semantic, 3 writes"
    text = (project.folder / "plans" / "people.yaml").read_text()
    project.write("plans/people.yaml", text.replace("nth > $least", "nht > $leest"))
    bad = project("plans", "check", "plans")
    assert bad.code == 2
    assert "plans/people.yaml:14:" in bad.out
    assert "1 of 2 plans has errors" in bad.err
    data = json.loads(project("plans", "check", "plans", "--format", "json").out)
    assert [plan["ok"] for plan in data] == [True, False]


def test_a_check_prints_a_problem_of_a_called_plan_once(project: Project) -> None:
    notes, called = "{notes: {id: int64}}", "[{call: {plan: inner, inputs: {notes: notes}}}]"
    inner = (
        f"plan: inner\ninputs: {notes}\nsteps: {{kept: [{{from: notes}}, {{filter: nosuch > 3}}]}}"
    )
    outer = f"plan: outer\ninputs: {notes}\nsteps: {{one: {called}, two: {called}}}"
    project.write("plans/inner.yaml", f"{inner}\nreturns: [kept]\n")
    project.write("plans/outer.yaml", f"{outer}\nreturns: [one.kept, two.kept]\n")
    both = project("plans", "check", "plans/inner.yaml", "plans/outer.yaml")
    assert both.out.splitlines() == [
        'plans/inner.yaml:3:40  step kept: no column "nosuch". Columns here: id',
        "plans/outer.yaml   uses what has errors, as above",
    ]
    alone = project("plans", "check", "plans/outer.yaml").out.splitlines()
    assert alone == ['plans/inner.yaml:3:40  step one/kept: no column "nosuch". Columns here: id']
    assert project("run", "plans/outer.yaml", "-i", "notes=[]").err.count("nosuch") == 1


def test_a_check_and_a_run_print_warnings_with_their_lines(project: Project) -> None:
    text = (project.folder / "plans" / "people.yaml").read_text()
    project.write(
        "plans/people.yaml", text.replace("params: {least: 0}", "params: {least: 0, most: 9}")
    )
    warning = '! plans/people.yaml:7:20  the parameter "most" is not used. Write $most where its value belongs, or remove it'
    checked = project("plans", "check")
    assert (checked.code, checked.err) == (0, "")
    assert checked.out.splitlines()[2] == warning
    data = json.loads(project("plans", "check", "--format", "json").out)
    assert [(plan["ok"], plan["warnings"]) for plan in data] == [
        (True, []),
        (True, [warning.removeprefix("! ")]),
    ]
    ran = project("run", "people", "-q")
    assert ran.code == 0
    assert ran.err.splitlines().count(warning) == 1


def test_a_wrong_preset_is_found_by_a_check(project: Project) -> None:
    text = (project.folder / "plans" / "people.yaml").read_text()
    project.write("plans/people.yaml", text + "presets: {thorough: {use: {tolt: packed}}}\n")
    assert 'no step "tolt"' in project("plans", "check").out


def test_a_way_that_a_run_would_refuse_is_refused_by_a_check(
    project: Project, serving: Serving
) -> None:
    told = 'plans/people.yaml:12:7  step told: unknown implementation "block" of sem_map. Implementations: '
    for use in ("use: {told: block()}", "presets: {quick: {use: {told: block()}}}"):
        project.write("plans/people.yaml", PLAN + use)
        checked = project("plans", "check")
        assert (checked.code, checked.out.splitlines()[1][: len(told)]) == (2, told)
    project.write("plans/people.yaml", PLAN + 'use: {told: "packed(rwos=3)"}')
    assert 'packed has no parameter "rwos"' in project("plans", "check").out
    assert not (project.folder / ".semgraph").exists()
    project.write("plans/people.yaml", PLAN + "use: {told: block()}")
    assert told in project("run", "people").err
    assert serving.calls == 0


def test_an_algorithm_that_there_is_not_is_found_by_a_check(project: Project) -> None:
    plan = """plan: teams
inputs: {people: {id: string, next: string}}
steps:
  teams:
    - from: people
    - cluster: {key: id, source: id, target: next, algorithm: louvian}
returns: [teams]
"""
    project.write("plans/teams.yaml", plan)
    checked = project("plans", "check", "plans/teams.yaml")
    assert checked.code == 2
    assert 'plans/teams.yaml:6:63  step teams: unknown algorithm "louvian"' in checked.out
    project.write("plans/teams.yaml", plan.replace("louvian", "louvain(resolution=2)"))
    assert project("plans", "check", "plans/teams.yaml").code == 0


def test_a_check_knows_own_ways_where_their_folder_is_named(project: Project) -> None:
    project.write(
        "mine/sem_map/own.py", (operators_folder() / "sem_map" / "per_row.py").read_text()
    )
    project.write("plans/people.yaml", PLAN + "use: {told: own}")
    assert project("plans", "check").code == 2
    assert project("plans", "check", "--operators", "mine").code == 0


@pytest.mark.parametrize("files", [["gone.yaml"], ["."]])
def test_a_check_of_nothing_is_an_error(project: Project, files: list[str]) -> None:
    assert project("plans", "check", *files).code == 2


def test_a_copy_runs_where_it_lies_and_overwrites_nothing(project: Project) -> None:
    copied = project("plans", "copy", "add_episode", "mine")
    assert copied.code == 0
    assert {Path(line).name for line in copied.out.split()} >= {
        "add_episode.yaml", "graph.yaml", "resolve_entities.yaml", "settle_facts.yaml", "extract_facts.md",
    }  # fmt: skip
    assert project("plans", "check", "mine").code == 0
    assert project("plans", "copy", "add_episode", "mine").out == ""
    (project.folder / "mine" / "prompts" / "extract_facts.md").write_text("mine")
    again = project("plans", "copy", "add_episode", "mine")
    assert again.code == 2
    assert "extract_facts.md" in again.err
    assert (project.folder / "mine" / "prompts" / "extract_facts.md").read_text() == "mine"


def test_a_copied_plan_and_its_graph_name_the_schemas_that_are_copied_with_them(
    project: Project,
) -> None:
    for name, inner in (
        ("memories/raptor/write", "level.yaml"),
        ("mention_graph", "graphs/mentions.yaml"),
    ):
        folder = project.folder / name.replace("/", "_")
        assert project("plans", "copy", name, folder.name).code == 0
        files = sorted(folder.rglob("*.yaml"))
        assert folder / inner in files
        for file in files:
            line = file.read_text().splitlines()[0]
            schema = file.parent / line.removeprefix("# yaml-language-server: $schema=")
            assert schema.resolve().parent == folder / "schemas"
            jsonschema.Draft202012Validator(json.loads(schema.read_text())).validate(
                YAML(typ="safe").load(file)
            )
        assert project("plans", "check", folder.name).code == 0
    (folder / "schemas/plan.json").write_text("{}")
    assert project("plans", "copy", "mention_graph", folder.name).code == 0
    assert (folder / "schemas/plan.json").read_text() == "{}"


def test_a_copied_plan_loses_the_line_of_a_schema_that_is_not_beside_it(project: Project) -> None:
    lines = {
        "lost": "# yaml-language-server: $schema=../../schema.json\n",
        "online": "# yaml-language-server: $schema=https://example.org/schema.json\n",
    }
    plan = (project.folder / "plans/people.yaml").read_text().lstrip()
    for name, line in lines.items():
        project.write(f"plans/{name}.yaml", line + plan)
        assert project("plans", "copy", name, "new").code == 0
    assert (project.folder / "new/lost.yaml").read_text() == plan
    assert (project.folder / "new/online.yaml").read_text() == lines["online"] + plan


@pytest.mark.parametrize("kind", ["plan", "graph", "prompt"])
def test_each_kind_of_file_has_a_schema(project: Project, kind: str) -> None:
    schema = json.loads(project("plans", "schema", "--of", kind).out)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert kind in schema["title"]


def test_the_schema_accepts_every_shipped_plan(project: Project) -> None:
    schema = json.loads(project("plans", "schema").out)
    jsonschema.Draft202012Validator.check_schema(schema)
    plans = [
        data
        for path in plans_folder().glob("*.yaml")
        if "plan" in (data := YAML(typ="safe").load(path))
    ]
    assert plans
    validator = jsonschema.Draft202012Validator(schema)
    for plan in plans:
        validator.validate(plan)
    with pytest.raises(jsonschema.ValidationError):
        validator.validate({**plans[0], "stpes": {}})


def test_operators_are_listed_with_their_ways(project: Project) -> None:
    out = project("operators", "list").out
    for operator in ("sem_map", "sem_filter", "sem_join", "sem_agg", "sem_topk"):
        assert operator in out
    ways = json.loads(project("operators", "list", "--format", "json").out)
    assert [way["name"] for way in ways["sem_join"] if way["reference"]] == ["nested_loop"]


def test_an_implementation_without_its_packages_is_marked_with_the_command_that_installs_them(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def marked() -> dict[str, str]:
        listed = json.loads(project("operators", "list", "--format", "json").out)
        return {each["name"]: each["install"] for each in listed["cluster"]}

    monkeypatch.setattr(extras, "is_installed", lambda name: name != "scikit-learn")
    assert marked()["kmeans"] == 'pip install "semgraph[kmeans]"'
    assert marked()["leiden"] == marked()["louvain"] == ""
    (line,) = [line for line in project("operators", "list").out.splitlines() if "kmeans(" in line]
    assert line.endswith('needs pip install "semgraph[kmeans]"')
    monkeypatch.setattr(extras, "is_installed", lambda _: True)
    assert not any(marked().values())


def test_an_implementation_that_names_an_unknown_extra_is_refused(project: Project) -> None:
    project.write(
        "mine/cluster/alone.py",
        'EXTRA = "kmeens"\ndef cluster(keys, edges, vectors, seed):\n    return list(keys)\n',
    )
    done = project("operators", "list", "--operators", "mine")
    assert done.code == 2
    assert 'semgraph has no extra "kmeens". Did you mean "kmeans"?' in done.err


def test_own_ways_are_listed_where_their_folder_is_named(project: Project) -> None:
    project.write(
        "mine/sem_map/shouting.py",
        '''"""In capital letters."""
from semgraph.operator import Context, Cost, Implementation, Observed, RowEstimate, Rows, SemMap, dataclass, pa

@dataclass(frozen=True)
class Shouting(Implementation[SemMap]):
    same = False
    loud: int = 3
    def estimate(self, node: SemMap, rows: RowEstimate, seen: Observed | None) -> Cost:
        return Cost(calls=1)
    async def answer(self, node: SemMap, rows: Rows, ctx: Context) -> pa.Table:
        return rows.left
''',
    )
    assert "shouting" not in project("operators", "list").out
    assert "shouting(loud=3)" in project("operators", "list", "--operators", "mine").out
    assert project("operators", "list", "--operators", "gone").code == 2


def test_a_plan_says_what_its_parameters_and_presets_mean(project: Project) -> None:
    project.write(
        "short.yaml",
        """plan: short
inputs:
  notes: {id: string, text: string}   # one a line
params:
  # the most notes
  most: 3
  order: id                           # or text
presets:
  all: {params: {most: 9}}            # for a long page
  one: {params: {most: 1}, doc: The first alone.}
steps:
  first: [{from: notes}, {limit: {n: $most, order: $order}}]
returns: [first]
""",
    )
    lines = [line.split() for line in project("plans", "show", "short.yaml").out.splitlines()]
    for words in (
        "input notes one a line",
        "most 3 the most notes",
        'order "id" or text',
        "all for a long page",
        "most = 9",
        "one The first alone.",
    ):
        assert words.split() in lines
    meanings = json.loads(project("plans", "show", "short.yaml", "--format", "json").out)[
        "meanings"
    ]
    assert meanings["params"] == {"most": "the most notes", "order": "or text"}
    assert meanings["presets"] == {"all": "for a long page", "one": "The first alone."}


@pytest.mark.parametrize("form", ["tree", "algebra", "mermaid", "json", "queries"])
def test_a_plan_is_explained_in_several_forms_and_nothing_is_asked(
    project: Project, serving: Serving, form: str
) -> None:
    done = project("explain", "people", "--format", form)
    assert done.code == 0
    assert "told" in done.out
    assert (form == "json") == done.out.startswith("{")
    assert serving.calls == 0
    assert not (project.folder / ".semgraph" / "runs").exists()


def test_explain_opens_the_steps_that_are_named_or_all(project: Project) -> None:
    closed = project("explain", "add_episode").out
    opened = project("explain", "add_episode", "--expand", "read", "--expand", "settle/ask").out
    assert "inside a step: --expand read; everything: --full" in closed
    assert "\n  mentions " not in closed
    assert "\n  mentions " in opened
    assert "\n    dated " in opened
    assert "\n    sought " not in opened
    assert "\n    sought " in project("explain", "add_episode", "--full").out
    refused = project("explain", "people", "--format", "mermaid", "--expand", "told")
    assert refused.code == 2
    assert "mermaid opens no single step" in refused.err


def test_a_tree_names_options_as_a_shell_and_as_python_have_them(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.env["COLUMNS"] = "60"
    last = project("explain", "people").out.splitlines()[-1]
    assert last.endswith("(--format json has them all)")
    monkeypatch.chdir(project.folder)
    with semgraph.Session(store="memory") as session:
        last = session.explain("people", width=60).splitlines()[-1]
    assert last.endswith('(format="json" has them all)')


def test_queries_and_prompts_are_shown_together_where_they_are_asked_for(
    project: Project, serving: Serving
) -> None:
    out = project("explain", "people", "--queries", "--prompts").out
    assert "-- DuckDB: " in out
    assert "── told · sem_map · " in out
    assert serving.calls == 0


def test_prompts_of_a_plan_without_an_example_need_its_rows(project: Project) -> None:
    project.write(
        "plans/bare.yaml", PLAN.split("example:")[0].replace("plan: people", "plan: bare")
    )
    done = project("explain", "bare", "--prompts")
    assert (done.code, done.err) == (
        2,
        "plan bare has no example: give its inputs (notes). -i NAME=FILE\n",
    )
    project.write("notes.jsonl", '{"text": "Dan.", "at": "2025-01-01", "group_id": "g"}\n')
    assert (
        "Who knows whom in: Dan."
        in project("explain", "bare", "--prompts", "-i", "notes=notes.jsonl").out
    )


def test_a_plan_that_asks_nothing_has_no_prompts_and_says_so(project: Project) -> None:
    assert (
        project("explain", "find", "--prompts").out
        == "no step of find calls the model: there are no prompts\n"
    )


def test_a_sample_is_asked_for_real_and_nothing_is_written(
    project: Project, serving: Serving
) -> None:
    rows = [
        {"group_id": group, "at": "2025-01-11T09:00:00Z", "text": "Ann knows Bob."}
        for group in "abc"  # of a plan with windows whole groups are taken
    ]
    project.write("notes.jsonl", "\n".join(map(json.dumps, rows)))
    done = project("explain", "people", "-i", "notes=notes.jsonl", "--sample", "2")
    assert done.code == 0
    assert serving.calls == 2
    assert "sample: 2 of 3 rows of " in done.out
    assert "  calls for all rows ≈ 3" in done.out
    assert not (project.folder / ".semgraph" / "runs").exists()


def test_what_a_run_did_stands_beside_the_steps(project: Project) -> None:
    project("run", "people")
    lines = project("explain", "people", "--run", "last").out.splitlines()
    (told,) = [line for line in lines if "sem_map" in line]
    assert "≈ 3 / 3" in told
    assert any(line.startswith("was: 3 calls (3 issued)") for line in lines)


def test_explain_says_how_an_engine_divides_the_rows(project: Project) -> None:
    rows = [
        {"group_id": group, "at": f"2025-01-1{day}T09:00:00Z", "text": "Ann knows Bob."}
        for day, group in enumerate("giaggia"[:7])
    ]
    project.write("notes.jsonl", "\n".join(map(json.dumps, rows)))
    words = ("explain", "people", "-i", "notes=notes.jsonl", "--engine")
    done = project(*words, "ray?shards=2&workers=2").out
    assert (
        "engine ray?shards=2&workers=2 · 2 shards, 2 workers · 3 groups, 1 to 2 a shard · "
        'longest chain: 3 windows of "g"'
    ) in done
    ray = project(*words, "ray?shards=3&workers=2", "--format", "json").out
    assert "3 shards, 2 workers · 3 groups, 1 a shard" in json.loads(ray)["engine"]
    whole = project("explain", "find", "--engine", "ray")
    assert whole.code == 2
    assert "asks about no row of an input by itself" in whole.err
    project.write("semgraph.toml", 'engine = "ray"\n')
    assert "engine ray: none, in this process" in project("explain", "find").out
    project.write("semgraph.toml", 'engine = "local?shards=2"\n')
    for command in ("explain", "run"):
        gone = project(command, "people")
        assert gone.code == 2
        assert gone.err.strip().endswith(
            'there is no engine "local" any more. Write ray (processes here), also to resume a run '
            "of it; or leave the engine out"
        )


def test_a_way_that_is_none_is_refused_when_a_plan_is_explained(project: Project) -> None:
    done = project("explain", "people", "--use", "told=pakced")
    assert done.code == 2
    assert 'Did you mean "packed"?' in done.err


def test_a_plan_is_checked_by_name_and_a_graph_as_a_graph(project: Project) -> None:
    assert project("plans", "check", "people").out.startswith("plans/people.yaml   ok")
    told = project("plans", "check", "plans/graph.yaml", "plans/find.yaml")
    assert told.code == 0
    assert (
        told.out.splitlines()[0] == "plans/graph.yaml   ok   a graph: 2 labels of nodes, 1 of edges"
    )


def test_a_crooked_graph_is_counted_with_the_plans(project: Project) -> None:
    project.write("plans/crooked.yaml", GRAPH.replace("string", "strign", 1))
    alone = project("plans", "check", "plans/crooked.yaml")
    assert (alone.code, alone.err) == (2, "the graph has errors\n")
    assert '"strign" is no type' in alone.out
    assert (
        project("plans", "check", "plans/crooked.yaml", "people").err == "1 of 2 files has errors\n"
    )


def test_one_prompt_of_a_plan_can_be_copied_and_changed(project: Project) -> None:
    copied = project("plans", "copy", "add_episode", ".", "--only", "prompts/judge_fact")
    assert copied.out.splitlines() == ["prompts/judge_fact.md"]
    refused = project("plans", "copy", "add_episode", ".", "--only", "prompts/judge_facts")
    assert 'add_episode has no file "prompts/judge_facts"' in refused.err
    assert 'Did you mean "prompts/judge_fact"?' in refused.err
    assert "recordings/" not in refused.err  # the files of that folder only


def test_a_copy_has_a_graph_of_its_own_folder(project: Project) -> None:
    assert (
        "mine/graphs/mentions.yaml"
        in project("plans", "copy", "mention_graph", "mine").out.splitlines()
    )
    assert project("plans", "check", "mine/mention_graph.yaml").code == 0


def test_a_copy_has_the_recordings_and_a_second_one_says_that_it_is_there(project: Project) -> None:
    assert (
        "mine/recordings/add_episode.jsonl"
        in project("plans", "copy", "add_episode", "mine").out.splitlines()
    )
    again = project("plans", "copy", "add_episode", "mine")
    assert (again.code, again.out) == (0, "")
    assert (
        again.err
        == "nothing to copy: all that add_episode needs is in mine already, as it is here\n"
    )
    assert (
        project("run", "mine/add_episode.yaml", "--llm", "recorded", "--store", "memory").code == 0
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--set", "least=some"],
            "--set: parameter \"least\" takes a number, not 'some'. Its default is 0",
        ),
        (["--set", "most=1"], '--set: no parameter "most"'),
        (["--use", "tolt=per_row"], '--use tolt: use names no step "tolt"'),
        (["--use", "told=block(("], '--use told: invalid implementation "block(("'),
        (
            ["--use", "told=packed(rows=3"],
            '--use told: invalid implementation "packed(rows=3". A ")" is missing: packed(rows=3)',
        ),
        (["--preset", "quick"], '--preset: no preset "quick"'),
    ],
)
def test_a_wrong_value_is_told_with_its_option(
    project: Project, options: list[str], said: str
) -> None:
    told = project("run", "people", *options)
    assert told.code == 2
    assert told.err.startswith(said)
    assert len(told.err.splitlines()) == 1


def test_tables_fit_the_columns_that_the_environment_names(project: Project) -> None:
    project.env["COLUMNS"] = "60"
    for words in (["plans", "list"], ["plans", "show", "add_episode"]):
        lines = project(*words).out.splitlines()
        assert max(map(len, lines[1:])) <= 60


def test_a_null_test_is_written_as_one(project: Project) -> None:
    text = (project.folder / "plans" / "people.yaml").read_text()
    project.write(
        "plans/people.yaml",
        text.replace("filter: nth > $least", "filter: nth IS NOT NULL AND NOT nth IN (8, 9)"),
    )
    assert "nth IS NOT NULL ∧ " in project("explain", "people", "--format", "algebra").out


def test_functions_of_a_folder_are_listed_and_called(project: Project) -> None:
    assert "chunk(text: string, size: int64 = 400" in project("functions", "list").out
    project.write("mine/shout.py", SHOUT)
    listed = json.loads(project("functions", "list", "--functions", "mine", "--format", "json").out)
    assert [(each["name"], each["signature"], each["doc"]) for each in listed][1] == (
        "shout",
        "shout(text: string, times: int64 = 1) -> string",
        "The text, loud.",
    )
    project.write("loud.yaml", LOUD)
    problem = project("plans", "check", "loud.yaml")
    assert problem.code == 2
    assert 'there is no function "shout". Functions of your own: --functions DIR' in problem.out
    assert project("plans", "check", "loud.yaml", "--functions", "mine").code == 0
    assert project("plans", "show", "loud.yaml", "--functions", "mine").code == 0
    project.write("semgraph.toml", 'functions = ["mine"]\n')
    project.write("notes.jsonl", '{"text": "hi"}')
    assert "HI!!" in project("run", "loud.yaml", "-i", "notes=notes.jsonl", "--store", "memory").out


SHOUT = '''def shout(text: str, times: int = 1) -> str:
    """The text, loud.

    >>> shout("a", 2)
    'A!!'
    """
    return text.upper() + "!" * times
'''
LOUD = """plan: loud
inputs: {notes: {text: string}}
steps:
  loud: [{from: notes}, {project: {text: "shout(text, 2)"}}]
returns: [loud]
"""


def test_a_new_plan_runs_as_it_is_and_overwrites_nothing(project: Project) -> None:
    made = project("plans", "new", "defects")
    assert made.out == "plans/defects.yaml\n"
    assert "semgraph run defects --llm dummy" in made.err
    assert "semgraph explain defects" in made.err
    assert project("plans", "check", "plans/defects.yaml").out == (
        "plans/defects.yaml   ok   3 steps, 2 semantic, 0 writes\n"
    )
    ran = project("run", "defects", "--llm", "dummy", "--format", "json")
    assert ran.code == 0, ran.err
    rows = json.loads(ran.out)["tables"]["read"]
    assert all(row["product"] == "dummy" and row["tone"] in ("angry", "calm") for row in rows)
    text = (project.folder / "plans/defects.yaml").read_text()
    again = project("plans", "new", "defects")
    assert again.code == 2
    assert "plans/defects.yaml exists already" in again.err
    assert (project.folder / "plans/defects.yaml").read_text() == text


def test_a_new_plan_may_be_named_like_its_file(project: Project) -> None:
    assert project("plans", "new", "mine.yaml").code == 0
    assert (project.folder / "plans/mine.yaml").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("search", "search.yaml exists already"),
        ("../out", '"../out" is no name of a plan'),
        ("my-plan", '"my-plan" is no name of a plan'),
    ],
)
def test_a_new_plan_needs_a_name_of_its_own(project: Project, name: str, message: str) -> None:
    refused = project("plans", "new", name)
    assert refused.code == 2
    assert message in refused.err
