"""The fluent API: the same words as plan files, checked at once, and the same plan when it is
written and read again.
"""

from __future__ import annotations

import inspect
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import semgraph
from semgraph.errors import InputError, PlanError
from semgraph.frontend.build import OPERATORS, SINKS, plan_keys
from semgraph.frontend.document import Document, parse
from semgraph.frontend.frame import Frame, call, plan, save, scan, table, union
from semgraph.frontend.graph_files import read_graph
from semgraph.frontend.load import dump, load_document, load_plan
from semgraph.logical.plan import Choice
from tests.examples import examples

TICKETS = [
    {"id": 1, "customer": "c9", "body": "The kettle leaks.", "at": "2025-01-15"},
    {"id": 2, "customer": "c3", "body": "Thank you!", "at": "2025-01-16"},
]


@pytest.fixture
def tickets():
    return table(TICKETS, key="id", name="tickets")


def again(made, path: Path = Path("again.yaml")):
    return load_document(parse(dump(made), "again.yaml"), path)


@pytest.mark.parametrize(
    "use",
    [
        lambda frame, other: frame.sem_join(other, "o", "{body}: {o.body}?"),
        lambda frame, other: frame.join(other, "o", using="body"),
        lambda frame, other: frame.intersect(other),
        lambda _, other: call("search", {"queries": other}, graph="graph"),
    ],
)
def test_rows_that_are_no_frame_are_refused(use, tickets):
    with pytest.raises(PlanError, match="found DataFrame. Write semgraph.table.rows, name="):
        use(tickets, pd.DataFrame(TICKETS))


@pytest.mark.parametrize("cls", [*OPERATORS, *SINKS], ids=lambda cls: cls.keyword)
def test_each_operator_is_a_method_with_the_argument_names_of_the_language(cls):
    parameters = dict(inspect.signature(getattr(Frame, cls.keyword)).parameters)
    del parameters["self"]
    assert (parameters.pop("step", None) is not None) == (cls in OPERATORS), (
        "what makes a relation can be named at once"
    )
    keys = plan_keys(cls)
    by_function = {"as"} & set(keys)  # a word of Python: the argument of the function names it
    assert set(parameters) == set(keys) - by_function
    for name, parameter in parameters.items():
        optional = keys[name].name != name or keys[name].default is not inspect.Parameter.empty
        if parameter.default is inspect.Parameter.empty:
            assert optional, name


@pytest.mark.parametrize("cls", [*OPERATORS, *SINKS], ids=lambda cls: cls.keyword)
def test_each_argument_of_a_method_reaches_the_operator(cls, tickets, monkeypatch):
    passed = {}
    monkeypatch.setattr(Frame, "then", lambda _frame, *values: passed.update([values]) or tickets)
    method = getattr(tickets, cls.keyword)
    names = [name for name in inspect.signature(method).parameters if name != "step"]
    values = {name: (lambda last: last) if name == "do" else f"of {name}" for name in names}
    method(**values)
    arguments = passed[cls.keyword]
    if len(plan_keys(cls)) == 1:  # it stands bare
        assert [arguments] == list(values.values())
    else:
        given = {**arguments, "do": values["do"]} if "do" in values else arguments
        assert {name: given[name] for name in names} == values


def test_a_frame_knows_its_columns_and_rows(tickets):
    long = tickets.add({"size": "length(body)"}).filter("size > 12")
    assert long.columns == ["id", "customer", "body", "at", "size"]
    assert (
        repr(long) == "Frame(filter: id int64, customer string, body string, at string, size int64)"
    )
    assert list(long.tables) == ["tickets"]
    assert long.tables["tickets"].num_rows == 2
    assert long.key == "id"
    assert not long.asks


def test_what_is_wrong_is_said_where_it_is_written(tickets):
    with pytest.raises(PlanError) as caught:
        tickets.filter("lenght(body) > boody")
    assert str(caught.value) == (
        'filter: no column "boody". Columns here: id, customer, body, at. Did you mean "body"?'
    )
    with pytest.raises(PlanError) as caught:
        tickets.sem_map("What is {boddy}?", returns={"kind": "strin"})
    assert str(caught.value).startswith('sem_map, returns, kind: "strin" is no type.')
    with pytest.raises(PlanError, match='search, over: "Book": this plan names no graph'):
        tickets.search("Book", "b", 3, methods={"equal": "title"})


def test_frames_of_one_plan_are_steps_of_it(tickets):
    short = tickets.filter("length(body) < 12").step("short")
    asked = (
        tickets.join(short, using="id", how="anti")
        .sem_filter("Is {body} a complaint?")
        .step("complaints")
    )
    made = asked.limit(5).to_plan("complaints", use={"complaints": "packed(rows=5)"})
    assert dict(made.document["steps"]) == {
        "short": [{"from": "tickets"}, {"filter": "length(body) < 12"}],
        "complaints": [
            {"from": "tickets"},
            {"join": {"other": "short", "using": "id", "how": "anti"}},
            {"sem_filter": {"prompt": "Is {body} a complaint?"}},
        ],
        "step1": [{"from": "complaints"}, {"limit": {"n": 5}}],
    }
    assert made.use == {"complaints": Choice("packed", (("rows", 5),))}
    assert made.steps["complaints"].step == "complaints"
    assert made.returns["step1"].fingerprint == asked.limit(5).node.fingerprint
    assert again(made).fingerprint == made.fingerprint
    assert again(made).document == made.document


def test_an_operator_names_its_step_itself(tickets):
    """A join of tables of the user's own, as it is typed in a notebook."""
    kinds = table([{"customer": "c9", "name": "Ada"}], name="kinds")
    link = tickets.sem_join(
        kinds, alias="who", prompt="Is {body} by {who.name}?", keep="one", how="left", step="link"
    )
    apart = tickets.sem_join(
        kinds, alias="who", prompt="Is {body} by {who.name}?", keep="one", how="left"
    ).step("link")
    assert dict(link.to_plan().document) == dict(apart.to_plan().document)
    assert again(link.to_plan(use={"link": "block"})).use == {"link": Choice("block", ())}
    both = union(
        [tickets.limit(1, step="first"), tickets.sort("id desc", step="last")], step="both"
    )
    assert list(both.to_plan().document["steps"]) == ["first", "last", "both"]
    assert tickets.limit(1, step=None).made.name == ""


def test_a_frame_used_twice_becomes_one_step(tickets):
    asked = tickets.sem_map("What is {body} about?", returns={"kind": "string"})
    both = union([asked.filter("kind = 'a'"), asked.filter("kind = 'b'")])
    made = both.to_plan()
    asking = [
        name
        for name, items in made.document["steps"].items()
        if any("sem_map" in item for item in items)
    ]
    assert len(asking) == 1
    assert again(made).fingerprint == made.fingerprint


def test_an_input_can_be_returned_as_it_is(tickets):
    made = plan("same", {"tickets": tickets})
    assert made.document["returns"] == {"tickets": "tickets"}
    assert again(made).fingerprint == made.fingerprint


def test_store_reads_and_writes(folder):
    said = table(
        [{"uuid": "a", "group_id": "g", "title": "Emma", "year": 1815}],
        name="said",
        graph=folder.path / "graph.yaml",
    )
    near = said.search(
        ["Book", said],
        "book",
        3,
        methods=[{"equal": "title"}, {"fulltext": "title", "rank": "overlap"}],
    )
    wrote = near.match("(a:Author)-[w:WROTE]->(b:Book {uuid: book.uuid})", how="left").step("wrote")
    books = scan("Book", graph=folder.path / "graph.yaml").filter("year < 1800")
    made = plan(
        "books",
        {"found": wrote},
        writes=[said.merge(node="Book", first=True), books.delete(node="Book")],
    )
    assert made.document["graph"] == "graph.yaml"
    assert made.document["writes"] == [
        {"merge": {"from": "said", "node": "Book", "first": True}},
        {"delete": {"from": "step1", "node": "Book"}},
    ]
    assert [sink.step for sink in made.writes] == ["merge Book", "delete Book"]
    assert again(made, folder.path / "again.yaml").fingerprint == made.fingerprint
    as_object = table(TICKETS, graph=read_graph(folder.path / "graph.yaml"), folder=folder.path)
    assert (
        as_object.search("Book", "b", 1, methods={"equal": "title", "to": "body"}, partition="all")
        .to_plan()
        .graph.name
        == "library"
    )


def test_rows_may_be_cut_into_windows(folder):
    windows = {
        "partition": "customer",
        "order": ["at"],
        "key": "uuid",
        "key_of": ["body"],
        "size": 2,
    }
    rows = [{**row, "uuid": None} for row in TICKETS]
    cut = table(rows, name="said", windows=windows)
    made = cut.filter("turn > 1").to_plan("cut")
    assert made.windows.size == 2
    assert made.windows.partition == "customer"
    assert cut.columns[-2:] == ["position", "turn"]
    assert again(made).fingerprint == made.fingerprint


def test_a_call_gives_frames_by_name(folder):
    folder.write(
        "inner.yaml",
        "plan: inner\ninputs: {of: {id: int64}}\nparams: {n: 1}\nsteps: {a: [{from: of}, {limit: {n: $n}}]}\nreturns: {few: a, all: of}\n",
    )
    tickets = table(TICKETS, name="tickets", folder=folder.path)
    found = call("inner", {"of": tickets}, {"n": 2}, step="found")
    assert set(found) == {"few", "all"}
    made = found["few"].filter("id > 1").step("big").to_plan("caller")
    assert dict(made.document["steps"]) == {
        "found": [{"call": {"plan": "inner", "inputs": {"of": "tickets"}, "params": {"n": 2}}}],
        "big": [{"from": "found.few"}, {"filter": "id > 1"}],
    }
    assert again(made, folder.path / "again.yaml").fingerprint == made.fingerprint
    with pytest.raises(PlanError, match='call, inputs, off: the called plan has no "off"'):
        call("inner", {"off": tickets})
    with pytest.raises(PlanError, match='no parameter "m"'):
        call("inner", {"of": tickets}, {"m": 2})


def test_a_saved_plan_is_the_plan(folder):
    said = table([{"uuid": "a", "group_id": "g", "title": "Emma"}], name="said", graph="graph.yaml")
    near = said.search("Book", "book", 3, methods={"equal": "title"}).step("near")
    pairs = near.sem_join(said, "o", "same_book", using="group_id").step("pairs")
    path = pairs.save(folder.path / "pairs.yaml", use={"pairs": "block(left=10)"})
    loaded = load_plan(path)
    assert loaded.name == "pairs"
    assert loaded.use == {"pairs": Choice("block", (("left", 10),))}
    assert loaded.returns["pairs"].fingerprint == pairs.node.fingerprint
    (folder.path / "elsewhere").mkdir()
    with pytest.raises(PlanError, match="outside the folder of the plan"):
        pairs.save(folder.path / "elsewhere" / "pairs.yaml")
    assert not (folder.path / "elsewhere" / "pairs.yaml").exists()
    folder.write("elsewhere/graph.yaml", (folder.path / "graph.yaml").read_text(encoding="utf-8"))
    folder.write("elsewhere/prompts/same_book.md", "# item\n{title}?\n# other\n{title}\n")
    with pytest.raises(PlanError, match="would be another plan"):
        pairs.save(folder.path / "elsewhere" / "pairs.yaml")
    moved = near.save(folder.path / "elsewhere" / "near.yaml")
    assert "graph: graph.yaml" in moved.read_text().replace('"', "")
    saved = save(folder.path / "writes.yaml", writes=[said.merge(node="Book")], doc="Books.")
    assert load_plan(saved).doc == "Books."


def test_a_table_may_be_optional(tickets, folder):
    kinds = table([{"id": 1, "kind": "spam"}], name="kinds", optional=True)
    path = (
        tickets.join(kinds, "kind", using="id", how="left")
        .step("known")
        .save(folder.path / "known.yaml")
    )
    assert load_plan(path).inputs["kinds"].optional
    assert not load_plan(path).inputs["tickets"].optional
    with pytest.raises(PlanError, match="without its rows there is nothing to run"):
        table([{"id": "1"}], windows={"key": "id", "partition": "id"}, optional=True)


def test_frames_that_make_no_plan(tickets, folder):
    with pytest.raises(PlanError, match='two tables are named "tickets"'):
        tickets.join(table(TICKETS, name="tickets"), "o", using="id").to_plan()
    with pytest.raises(PlanError, match='two relations are named "a"'):
        tickets.filter("id > 1").step("a").join(
            tickets.filter("id > 2").step("a"), "o", using="id"
        ).to_plan()
    with pytest.raises(
        PlanError, match=r'use names no step "lnk"\. Steps: link\. Did you mean "link"'
    ):
        tickets.sem_filter("Is {body} nice?").step("link").to_plan(use={"lnk": "block"})
    with pytest.raises(PlanError, match="writes holds a frame that writes nothing"):
        plan("p", writes=[tickets])
    with pytest.raises(PlanError, match="needs frames"):
        plan("p")
    with pytest.raises(PlanError, match="cannot name a step"):
        tickets.filter("id > 1").step("1st")
    with pytest.raises(PlanError, match="cannot name a step"):
        tickets.filter("id > 1", step="1st")
    other = folder.write("other/graph.yaml", "nodes: {Film: {}}\n")
    with pytest.raises(PlanError, match="two graphs"):
        scan("Book", graph="graph.yaml").join(scan("Film", graph=other), "f", using="uuid")


def test_tables_that_cannot_be_read():
    with pytest.raises(InputError, match='column "x"'):
        table([{"x": 1}, {"x": "a"}])
    with pytest.raises(InputError, match='"id", which is to be its key'):
        table([{"x": 1}], key="id")
    with pytest.raises(InputError, match="names row 1 already"):
        table([{"x": 1}, {"x": 1}], key="x")
    with pytest.raises(PlanError, match="cannot name a column"):
        table([{"first name": "Ada"}])
    with pytest.raises(PlanError, match="no graph file"):
        table([{"x": 1}], graph="nowhere.yaml")


def test_a_data_frame_is_taken_as_it_is():
    frame = pd.DataFrame(
        {"id": [1, 2], "at": pd.to_datetime(["2025-01-15", None], utc=True), "x": [0.5, None]}
    )
    made = table(frame, key="id", name="frame")
    assert repr(made) == "Frame(input: id int64, at timestamp, x double)"
    assert dict(made.made.spec.columns)["at"].nullable
    assert not dict(made.made.spec.columns)["id"].nullable


# -- any chain of operators
# ---------------------------------------------------------------------------------------------

STEPS = st.sampled_from(
    [
        lambda f, o: f.filter("id > 1"),
        lambda f, o: f.add({"size": "length(body)"}),
        lambda f, o: f.project({"id": None, "customer": None, "body": "trim(body)", "at": "at"}),
        lambda f, o: f.limit(3, by="customer", order=["id desc", "at"]),
        lambda f, o: f.distinct(),
        lambda f, o: f.distinct("customer"),
        lambda f, o: f.join(o, using="id", how="semi"),
        lambda f, o: f.join(o, using={"id": "id"}, where="NOT starts_with(body, '\"')", how="anti"),
        lambda f, o: f.group_join(
            o, "o", {"id": "count(o.id)"}, using="customer", order="o.id", limit=2
        ),
        lambda f, o: f.sem_filter('Is {body}: "nice", {{or}} not?\nSay so.'),
        lambda f, o: f.sem_filter(
            "Is {body} nice?",
            returns={"why": "string"},
            check={
                "where": ["length(why) > 3", "keep OR id > 1"],
                "message": "'short: ' || why",
                "retries": 1,
            },
        ).project(f.columns),
        lambda f, o: (
            f.sem_map(
                {"by": "customer", "c9": "Is {body} a?", "otherwise": "Is {body} b?"},
                returns={"at": "string"},
            )
            if "at" not in f.columns
            else f
        ),
        lambda f, o: union([f, f]),
        lambda f, o: (
            f.cluster(f, "id", "id", "id", alias="size", by="customer")
            if "size" not in f.columns
            else f
        ),
        lambda f, o: (
            f.sem_topk("Best of {body}", 2).project(f.columns)
            if not {"rank", "score"} & set(f.columns)
            else f
        ),
    ]
)


@settings(max_examples=examples(60, 150), deadline=None)
@given(st.lists(STEPS, max_size=6), st.lists(STEPS, max_size=2))
def test_any_frame_is_the_same_plan_when_written_and_read(first, second):
    tickets = table(TICKETS, name="tickets")
    other = tickets
    for step in second:
        other = step(other, tickets)
    frame = tickets
    for step in first:
        frame = step(frame, other)
    made = frame.to_plan("any", doc="A: doc\n# with 'quotes'")
    read = again(made)
    assert read.document == made.document
    assert read.fingerprint == made.fingerprint
    assert [node.fingerprint for node in read.roots] == [frame.node.fingerprint]


@pytest.mark.parametrize("name", ["add_episode", "resolve_entities", "settle_facts", "search"])
def test_the_shipped_plans_are_the_same_when_written_and_read(name):
    made = load_plan(name)
    read = load_document(parse(dump(made), "again.yaml"), Path(made.file))
    assert read.document == made.document
    assert read.fingerprint == made.fingerprint


def test_a_document_without_places_loads(folder):
    document = {"plan": "plain", "inputs": {"a": {"x": "int64"}}, "returns": ["a"]}
    assert load_document(Document("", document), folder.path / "plain.yaml").name == "plain"


@pytest.mark.parametrize(
    "rows",
    [
        [{"a": [1, None]}, {"a": None}],
        [{"a": {"x": None, "y": 1}}, {"a": {"x": "b", "y": 2}}],
        [{"a": [{"x": None}, {"x": [1, None]}]}],
        [{"a": [None]}],
    ],
)
def test_rows_may_hold_nulls_inside_lists_and_structs(rows) -> None:
    frame = semgraph.table(rows)
    with semgraph.Session(store="memory", journal=False, runs="") as session:
        assert session.run(frame).tables["table"].to_pylist() == rows


def test_an_arrow_table_with_a_column_name_that_is_not_utf_8_is_refused(tmp_path) -> None:
    table = pa.table(
        [pa.array(["x"]), pa.array([1])],
        schema=pa.schema([("a", pa.string()), pa.field(b"\xff", pa.int64())]),
    )
    with pytest.raises(InputError, match=r"column 2 has a name that is not UTF-8: b'\\xff'"):
        semgraph.table(table)


def test_a_union_fills_the_columns_that_a_frame_lacks():
    numbers = table([{"id": 1, "level": 3}], name="numbers")
    tagged = table([{"id": 2, "tags": ["x"]}], name="tagged")
    both = union([numbers, tagged], fill=True, step="both")
    plan = both.to_plan("filled")
    assert plan.document["steps"]["both"] == [
        {"union": {"of": ["numbers", "tagged"], "fill": True}}
    ]
    assert again(plan).fingerprint == plan.fingerprint
    with semgraph.Session(store="memory", journal=False, runs="") as session:
        rows = session.run(both).tables["both"].to_pylist()
    assert rows == [
        {"id": 1, "level": 3, "tags": None},
        {"id": 2, "level": None, "tags": ["x"]},
    ]
    with pytest.raises(PlanError, match=r'relation tagged lacks "level" \(int64\): fill: true, or'):
        union([numbers, tagged])
