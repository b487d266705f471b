"""`examples`: rows with right answers, which requests show as requests about one row and replies."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import semgraph
from semgraph.conformance.cases import Grams, Mind, Oracle
from semgraph.errors import PlanError, SemgraphError
from semgraph.frontend.frame import Frame, save, table
from semgraph.frontend.load import load_plan
from semgraph.frontend.plan_files import copied
from semgraph.llm.base import Embeddings, Limits, Reply, Request, Usage
from tests.frontend.conftest import Folder
from tests.inside import session_of_frames

GOLD = """body,at,topic,urgent
"It leaks, badly",2025-01-15,defect,true
Where is my parcel?,2025-01-16,delivery,false
"Thank you
all",2025-01-17,praise,false
"""
PROMPT = """---
returns: {topic: "enum<defect, delivery, praise>", urgent: boolean}
examples: gold.csv
---
# rules
Classify tickets.
# item
Ticket of {at}: {body}
"""
PLAN = """
plan: topics
inputs: {tickets: {body: string, at: date}}
steps: {topics: [{from: tickets}, {sem_map: {prompt: topic}}]}
returns: [topics]
"""
TICKETS = [
    {"body": "It leaks, badly", "at": "2025-01-15"},
    {"body": "Where is my parcel?", "at": "2025-01-16"},
    {"body": "Thank you\nall", "at": "2025-01-17"},
]


class Copycat(Oracle):
    """A model that answers only what its prompt shows: the reply after an equal question, and about
    several records the replies after questions that begin with their values.
    """

    def __init__(self, **more: Any) -> None:
        super().__init__(Mind(), **more)

    async def complete(self, request: Request) -> Reply:
        """The reply after the question, among the messages or in the system message."""
        self.requests.append(request)
        await asyncio.sleep(0)
        question = request.messages[-1].content
        before = [message.content for message in request.messages[1:-1]]
        shown = f"{shown_in(request)}\n\n"
        if question in before:
            text = before[before.index(question) + 1]
        elif question.startswith("Records:"):
            rows = [json.loads(line.partition(". ")[2]) for line in question.split("\n")[1:]]
            replies = [
                json.loads(shown.split(f"{row['body']}?\n", 1)[1].split("\n\n", maxsplit=1)[0])
                for row in rows
            ]
            best = sorted(range(len(rows)), key=lambda n: -replies[n].get("score", 0))
            answers = [{"id": n, **reply} for n, reply in enumerate(replies, 1)]
            ranks = "ranking" in request.schema
            text = json.dumps({"ranking": [n + 1 for n in best]} if ranks else {"answers": answers})
        else:
            assert f"{question}\n" in shown, (question, shown)
            text = shown.split(f"{question}\n", 1)[1].split("\n\n", maxsplit=1)[0]
        chances = tuple(0.0 if word == text.lower() else -9.0 for word in request.words)
        return Reply(text, Usage(1, 0, 1), call_id=request.fingerprint[:12], logprobs=chances)


class Counted(Grams):
    """An embedder that keeps its texts."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def embed(self, texts: Sequence[str], partition: str = "") -> Embeddings:
        """Keep the texts."""
        self.texts += texts
        return await super().embed(texts, partition)


def session(folder: Path, model: Oracle, **more: Any) -> semgraph.Session:
    more = {"embedder": Grams(), "journal": False, "runs": "", **more}
    return semgraph.Session(llm=model, store="memory", folder=folder, **more)


@pytest.fixture
def topics(folder: Folder) -> Folder:
    folder.write("prompts/gold.csv", GOLD)
    folder.write("prompts/topic.md", PROMPT)
    folder.write("plan.yaml", PLAN)
    return folder


def shown_in(request: Request) -> str:
    shown = request.messages[0].content.partition("the answer that is right:\n\n")[2]
    return re.split(r"\n\n(?:Answer with one JSON|Numbered records follow)", shown)[0]


def test_the_rows_of_a_file_are_in_the_static_part_of_every_request(topics: Folder) -> None:
    model = Copycat()
    with session(topics.path, model) as opened:
        rows = opened.run("plan.yaml", tickets=TICKETS).rows()
    assert [(row["topic"], row["urgent"]) for row in rows] == [
        ("defect", True),
        ("delivery", False),
        ("praise", False),
    ]
    assert len({request.messages[0] for request in model.requests}) == 1
    assert shown_in(model.requests[0]) == (
        'Ticket of 2025-01-15: It leaks, badly\n{"topic": "defect", "urgent": true}\n\n'
        'Ticket of 2025-01-16: Where is my parcel?\n{"topic": "delivery", "urgent": false}\n\n'
        'Ticket of 2025-01-17: Thank you\nall\n{"topic": "praise", "urgent": false}'
    )


NAMES = table([{"name": "kettle"}, {"name": "parcel"}], name="names")
TEXTS = table([{"body": "It leaks"}, {"body": "It is late"}], name="tickets")
KEPT = [{"body": "It leaks", "keep": True}, {"body": "It is late", "keep": False}]
REASONED = [{**row, "why": why} for row, why in zip(KEPT, ["wet", "slow"], strict=True)]
PAIRS = [
    {"body": "It leaks", "o.name": "kettle", "match": True},
    {"body": "It is late", "o.name": "parcel", "match": True},
    {"body": "It leaks", "o.name": "parcel", "match": False},
    {"body": "It is late", "o.name": "kettle", "match": False},
]
SCORED = [{"body": "It leaks", "score": 11.0}, {"body": "It is late", "score": 100.0}]
MAPPED = [{"body": "It leaks", "tags": ["a"]}, {"body": "It is late", "tags": '["b", "c"]'}]
FORMS: list[tuple[Frame, str, Limits]] = [
    (TEXTS.sem_map("{body}?", returns={"tags": "list<string>"}, examples=MAPPED), use, Limits())
    for use in ("per_row", "packed", "vote(samples=2)")
]
FORMS += [
    (TEXTS.sem_filter("{body}?", examples=KEPT), use, limits)
    for use, limits in [
        ("per_row", Limits()),
        ("per_row", Limits(yes_no="word")),
        ("packed", Limits(yes_no="word")),
        ("logit", Limits(logprobs=True)),
        ("vote(samples=2)", Limits()),
    ]
]
FORMS += [
    (TEXTS.sem_filter("{body}?", returns={"why": "string"}, examples=REASONED), use, Limits())
    for use in ("per_row", "packed")
]
FORMS += [
    (TEXTS.sem_join(NAMES, "o", "{body}: {o.name}?", examples=PAIRS), use, Limits(logprobs=True))
    for use in ("nested_loop", "logit")
]
FORMS += [
    (TEXTS.sem_topk("{body}?", k=1, examples=SCORED), use, Limits(logprobs=True))
    for use in ("pointwise", "packed", "listwise", "logit")
]


@pytest.mark.parametrize(
    ("frame", "use", "limits"), FORMS, ids=[f"{f.node.keyword}-{use}" for f, use, _ in FORMS]
)
def test_each_operator_shows_them_as_it_asks_and_is_answered(
    tmp_path: Path, frame: Frame, use: str, limits: Limits
) -> None:
    """The model knows nothing but the examples, so each question about one row must occur among them,
    word for word, and its reply must be valid.
    """
    model = Copycat(limits=limits)
    named = frame.step("asked")
    with session(tmp_path, model) as opened:
        rows = opened.run(named, use={"asked": use}).rows()
    match frame.node.keyword:
        case "sem_map":
            assert [row["tags"] for row in rows] == [["a"], ["b", "c"]]
        case "sem_filter":
            assert [row["body"] for row in rows] == ["It leaks"]
        case "sem_join":
            assert [(row["body"], row["o"]["name"]) for row in rows] == [
                ("It leaks", "kettle"),
                ("It is late", "parcel"),
            ]
        case "sem_topk":
            assert [row["body"] for row in rows] == ["It is late"]


def test_a_block_of_pairs_shows_them_pair_by_pair(tmp_path: Path) -> None:
    model = Oracle(Mind())
    left = table([{"body": "It leaks", "k": 1}, {"body": "It is late", "k": 2}], name="tickets")
    right = table([{"name": "kettle", "k": 1}, {"name": "kettle", "k": 2}], name="names")
    examples = [PAIRS[0], PAIRS[3]]
    frame = left.sem_join(right, "o", "{body}: {o.name}?", using="k", examples=examples, step="on")
    with session(tmp_path, model) as opened:
        opened.run(frame, use={"on": "block"})
    (request,) = model.requests
    assert shown_in(request) == (
        'It leaks: kettle?\n{"match": true}\n\nIt is late: kettle?\n{"match": false}'
    )


def test_both_sections_of_a_join_have_columns_of_their_own(folder: Folder) -> None:
    gold = [{"title": "Emma", "o.title": "emma", "match": True, "why": "case"}]
    folder.write("prompts/same.md", f"---\nreturns: {{why: string}}\nexamples: {json.dumps(gold)}\n---\n"
                 "# item\n{title}\n# other\n{title}\n")  # fmt: skip
    one, other = (table([{"title": title}], name=title) for title in ("Emma", "emma"))
    frame = one.sem_join(other, "o", {"on": "title", "Emma": "same", "otherwise": "same"})
    model = Copycat()
    with session(folder.path, model) as opened:
        assert opened.run(frame).rows()[0]["why"] == "case"
    assert "Right record:\nemma" in shown_in(model.requests[0])


NEAR = [{"body": text, "n": len(text)} for text in ("apple pie", "plum cake", "apple cake", "rye")]


def near(use: str, folder: Path, texts: Sequence[str], **more: Any) -> tuple[list[str], list[str]]:
    """The examples that the requests show, and the embedded texts."""
    frame = table([{"body": text} for text in texts], name="rows").sem_map(
        "{body}", returns={"n": int}, examples={"rows": NEAR, "nearest": 1, "by": "body"}, step="m"
    )
    embedder, model = Counted(), Oracle(Mind(answer=lambda _: {"n": 1}), **more)
    with session(folder, model, embedder=embedder) as opened:
        assert len(opened.run(frame, use={"m": use}).rows()) == len(texts)
    return [shown_in(request) for request in model.requests], embedder.texts


def test_each_row_is_shown_the_nearest_and_each_text_is_embedded_once(tmp_path: Path) -> None:
    shown, embedded = near("per_row", tmp_path, ["apple pies", "rye bread", "apple pies!"])
    assert sorted(shown) == ['apple pie\n{"n": 9}', 'apple pie\n{"n": 9}', 'rye\n{"n": 3}']
    assert sorted(embedded) == sorted(
        ["apple pies", "rye bread", "apple pies!", *(row["body"] for row in NEAR)]
    )


def test_rows_that_share_a_call_show_those_of_all_in_the_order_of_the_file(tmp_path: Path) -> None:
    (shown,), _ = near("packed", tmp_path, ["rye bread", "plum cakes", "apple pies"])
    assert shown == 'apple pie\n{"n": 9}\n\nplum cake\n{"n": 9}\n\nrye\n{"n": 3}'


def test_a_call_takes_as_many_rows_as_fit_with_their_examples(tmp_path: Path) -> None:
    texts = [f"{row['body']} {i}" for i in range(20) for row in NEAR]
    requests, _ = near("packed(rows=80)", tmp_path, texts, limits=Limits(context_tokens=1700))
    assert 1 < len(requests) < len(texts)


def test_a_row_whose_text_has_no_vector_is_shown_the_first(tmp_path: Path) -> None:
    shown, _ = near("per_row", tmp_path, ["poison"])
    assert shown == ['apple pie\n{"n": 9}']


def test_a_second_run_with_nearest_examples_asks_and_embeds_nothing(tmp_path: Path) -> None:
    gold = {"rows": NEAR, "nearest": 2, "by": "body"}
    frame = table([{"body": "rye bread"}], name="r").sem_map(
        "{body}", returns={"n": int}, examples=gold
    )
    model, embedder = Oracle(Mind(answer=lambda _: {"n": 1})), Counted()
    for _ in range(2):
        with session(tmp_path, model, embedder=embedder, journal=tmp_path / "j.db") as opened:
            rows = opened.run(frame).rows()
    assert rows[0]["n"] == 1
    assert len(model.requests) == 1
    assert len(embedder.texts) == 1 + len(NEAR)


def test_an_estimate_counts_the_tokens_of_examples_and_names_what_is_embedded(
    tmp_path: Path,
) -> None:
    rows = table([{"body": "rye bread"}], name="r")

    def tokens(**more: Any) -> tuple[float, Any]:
        frame = rows.sem_map("{body}", returns={"n": int}, step="m", **more)
        with session(tmp_path, Oracle(Mind())) as opened:
            data = json.loads(str(opened.explain(frame, inputs=frame.tables, format="json")))
        (step,) = [step for step in data["steps"] if step["step"] == "m"]
        return step["estimate"]["tokens_in"]["value"], step["embeds"]

    bare, none = tokens()
    some, embeds = tokens(examples={"rows": NEAR, "nearest": 2, "by": "body"})
    every, no_embeds = tokens(examples=NEAR)
    assert bare < some < every
    assert (none, no_embeds) == ([], [])
    assert embeds == ["body and 4 examples, 2 nearest a row"]


def test_the_rows_are_a_part_of_the_plan(topics: Folder) -> None:
    before = load_plan("plan.yaml").fingerprint
    assert load_plan("plan.yaml").fingerprint == before
    topics.write("prompts/gold.csv", GOLD.replace("defect", "praise"))
    assert load_plan("plan.yaml").fingerprint != before


def test_a_session_sees_that_the_file_changed(topics: Folder) -> None:
    model = Copycat()
    with session(topics.path, model) as opened:
        opened.run("plan.yaml", tickets=TICKETS[:1])
        topics.write("prompts/gold.csv", GOLD.replace("defect", "praise"))
        assert opened.run("plan.yaml", tickets=TICKETS[:1]).rows()[0]["topic"] == "praise"


VARIED = """
plan: varied
inputs: {tickets: {body: string}}
params: {gold: null}
steps:
  kept:
    - from: tickets
    - sem_filter: {prompt: "Urgent: {body}?", examples: $gold}
returns: [kept]
"""


def test_a_parameter_names_the_file_so_that_experiments_vary_it(folder: Folder) -> None:
    folder.write("plan.yaml", VARIED)
    folder.write("a.csv", "body,keep\nIt leaks,true\n")
    folder.write("b.csv", "body,keep\nIt leaks,false\n")
    model = Copycat()
    with session(folder.path, model) as opened:
        for file, kept in (("a.csv", 1), ("b.csv", 0)):
            result = opened.run("plan.yaml", params={"gold": file}, tickets=[{"body": "It leaks"}])
            assert len(result.rows()) == kept
    plans = [load_plan("plan.yaml", params={"gold": file}) for file in (None, "a.csv", "b.csv")]
    assert len({plan.fingerprint for plan in plans}) == 3


def test_a_comparison_varies_the_rows_of_a_called_plan(folder: Folder) -> None:
    folder.write("varied.yaml", VARIED)
    folder.write("a.csv", "body,keep\nIt leaks,true\n")
    folder.write("b.csv", "body,keep\nIt leaks,false\n")
    call = "steps: {all: [{call: {plan: varied, inputs: [tickets]}}]}\nreturns: [all]\n"
    folder.write("plan.yaml", f"plan: outer\ninputs: {{tickets: {{body: string}}}}\n{call}")
    variants = {file: {"all": f'varied(gold="{file}.csv")'} for file in "ab"}
    model, rows = Copycat(), [{"body": "It leaks"}]
    with session(folder.path, model) as opened:
        compared = opened.compare("plan.yaml", variants=variants, tickets=rows, say=None)
    assert "agreement with a, the reference" in str(compared)
    assert sorted(map(shown_in, model.requests)) == [
        f'Urgent: It leaks?\n{{"answer": "{word}"}}' for word in ("no", "yes")
    ]


def test_a_prompt_file_asks_for_the_nearest(topics: Folder) -> None:
    topics.write(
        "prompts/topic.md", PROMPT.replace("gold.csv", "{file: gold.csv, nearest: 1, by: body}")
    )
    (prompt,) = load_plan("plan.yaml").steps["topics"].prompt.all  # type: ignore[attr-defined]
    assert (prompt.shown.nearest, len(prompt.shown.rows)) == (1, 3)


def test_a_copy_of_a_plan_has_the_file_that_a_parameter_names(topics: Folder) -> None:
    topics.write("gold.csv", "body,keep\nx,true\n")
    topics.write("plan.yaml", VARIED.replace("gold: null", "gold: gold.csv"))
    assert topics.path / "copy/gold.csv" in copied("plan.yaml", topics.path / "copy")


def test_a_copy_of_a_plan_has_its_files(topics: Folder) -> None:
    topics.write("plan.yaml", PLAN + "params: {gold: null}\n")
    topics.write("prompts/topic.md", PROMPT.replace("gold.csv", "{file: gold.csv}"))
    written = copied("plan.yaml", topics.path / "copy")
    assert topics.path / "copy/prompts/gold.csv" in written
    assert load_plan("copy/plan.yaml").fingerprint == load_plan("plan.yaml").fingerprint


def test_frames_take_a_path_rows_and_a_data_frame_and_write_them(folder: Folder) -> None:
    gold = pd.DataFrame({"body": ["x", None], "keep": [True, False], "when": pd.to_datetime(["2025-01-01", "2025-01-02"])})  # fmt: skip
    gold.drop(columns="when").to_csv("gold.csv", index=False)
    rows = table([{"body": "x", "when": "2025-01-01"}], name="t", types={"when": "timestamp"})
    dated = rows.sem_filter("{body} of {when}?", examples=gold, step="kept")
    document = dated.to_plan().document["steps"]["kept"][1]["sem_filter"]
    assert document["examples"][0] == {"body": "x", "keep": True, "when": "2025-01-01T00:00:00Z"}
    assert load_plan(dated.save("dated.yaml")).fingerprint == dated.to_plan("dated").fingerprint
    for file in ("gold.csv", Path("gold.csv"), {"file": Path("gold.csv")}):
        filed = rows.sem_filter("{body}?", examples=file, step="kept")
        saved = load_plan(save(Path("filed.yaml"), filed))
        assert saved.fingerprint == filed.to_plan("filed").fingerprint
        assert "gold.csv" in Path("filed.yaml").read_text()


def test_questions_with_examples_are_not_fused(tmp_path: Path) -> None:
    frame = TEXTS.sem_map("{body}?", returns={"tags": "list<string>"}, examples=MAPPED)
    frame = frame.sem_map("{body}!", returns={"n": int}, examples=[{"body": "It leaks", "n": 1}, {"body": "It is late", "n": 2}])  # fmt: skip
    plan = semgraph.plan("both", frame, allow=["fuse_maps"])
    model = Copycat()
    with session(tmp_path, model) as opened:
        rows = opened.run(plan, inputs=frame.tables).rows()
    assert [(row["tags"], row["n"]) for row in rows] == [(["a"], 1), (["b", "c"], 2)]


def test_an_implementation_that_cannot_show_them_is_refused(tmp_path: Path) -> None:
    frame = TEXTS.sem_topk("{body}?", k=1, examples=SCORED, step="best")
    with (
        session(tmp_path, Copycat()) as opened,
        pytest.raises(SemgraphError, match="it shows the model no examples; use pointwise"),
    ):
        opened.run(frame, use={"best": "cross_encoder"})


@pytest.mark.parametrize(
    ("examples", "said"),
    [
        ("none.csv", "sem_filter, examples: none.csv: No such file"),
        ("gold.xlsx", "sem_filter, examples: gold.xlsx: "),
        ([], "sem_filter, examples: the examples have no rows"),
        ({"rows": KEPT, "nearest": 1}, "nearest and by belong together"),
        ({"nearest": 1, "by": "body"}, "examples are a file or rows"),
        ({"rows": KEPT, "nearest": 0, "by": "body"}, "examples, nearest: expected a number from 1"),
        ({"rows": KEPT, "nearest": 1, "by": "text"}, 'no placeholder "text" has a text'),
        ([{"body": "x", "keep": None}], "row 1, column keep: is NULL"),
        ([{"body": "x", "keep": "maybe"}], 'row 1, column keep: "maybe" is not true or false'),
        ([{"body": "x"}], 'the examples lack "keep" of the prompt. Columns: body'),
        (7, "cannot be read from int"),
    ],
)
def test_what_is_wrong_with_examples(folder: Folder, examples: Any, said: str) -> None:
    folder.write("gold.xlsx", "x")
    with pytest.raises(PlanError) as caught:
        TEXTS.sem_filter("{body}?", examples=examples)
    assert said in str(caught.value)


def test_a_bare_pair_names_the_column_of_the_other_row(folder: Folder) -> None:
    del folder
    gold = [{"body": "x", "name": "y", "match": True}]
    with pytest.raises(PlanError, match='lack "o.name" of the prompt. Columns: body, match, name'):
        TEXTS.sem_join(NAMES, "o", "{body}: {o.name}?", examples=gold)


def test_a_recording_holds_the_vectors_that_choose_the_nearest(folder: Folder) -> None:
    gold = {"rows": NEAR, "nearest": 1, "by": "body"}
    near = table([{"body": "rye bread"}], name="r", key="body").sem_map(
        "{body}", returns={"n": int}, examples=gold
    )
    file = folder.path / "run.jsonl"
    with session(folder.path, Oracle(Mind(answer=lambda _: {"n": 1}))) as opened:
        first = opened.run(near, record_to=file).rows()
    replayed = {"llm": f"recorded:{file}", "embedder": f"recorded:{file}", "store": "memory"}
    with semgraph.Session(**replayed, folder=folder.path, journal=False, runs="") as opened:
        assert opened.run(near).rows() == first


WINDOWED = """
plan: windowed
inputs: {notes: {id: string, group_id: string, body: string}}
windows: {input: notes, order: [id], key: id}
steps:
  read:
    - from: notes
    - sem_map: {prompt: "{body}", returns: {n: int64}, examples: {file: near.json, nearest: 1, by: body}}
returns: [read]
"""


def test_examples_are_embedded_once_for_all_windows_and_partitions(folder: Folder) -> None:
    folder.write("near.json", json.dumps(NEAR))
    folder.write("plan.yaml", WINDOWED)
    texts = ["rye bread", "apple pies", "plum", "rye rolls"]
    notes = [{"id": str(i), "group_id": "ab"[i % 2], "body": t} for i, t in enumerate(texts)]
    model, embedder = Oracle(Mind(answer=lambda _: {"n": 1})), Counted()
    with session(folder.path, model, embedder=embedder) as opened:
        assert len(opened.run("plan.yaml", notes=notes).rows()) == len(notes)
    assert sorted(embedder.texts) == sorted([*texts, *(row["body"] for row in NEAR)])


def test_data_frames_take_examples(tmp_path: Path) -> None:
    import semgraph.pandas

    frame = pd.DataFrame({"body": ["It is late", "It leaks"]}, index=[7, 8])
    before = session_of_frames(None)
    with session(tmp_path, Copycat()) as opened:
        semgraph.pandas.use(opened)
        kept = frame.sem.filter("{body}?", examples=pd.DataFrame(KEPT))
        best = frame.sem.topk("{body}?", k=1, examples=SCORED)
        names = pd.DataFrame({"name": ["kettle"]})
        gold = [{key.replace("o.", "other."): value for key, value in row.items()} for row in PAIRS]
        pairs = frame.sem.join(names, "{body}: {other.name}?", examples=gold)
    session_of_frames(before)
    assert (list(kept.index), list(best.index), list(pairs.index)) == ([8], [7], [8])


def test_a_resumed_run_asks_again_where_the_rows_have_changed(topics: Folder) -> None:
    model = Copycat()
    with session(topics.path, model, runs=topics.path / "runs", journal=None) as opened:
        run = opened.run("plan.yaml", tickets=TICKETS).run
        asked = len(model.requests)
        assert opened.run("plan.yaml", resume=run).rows()[0]["topic"] == "defect"
        assert len(model.requests) == asked
        topics.write("prompts/gold.csv", GOLD.replace("defect", "praise"))
        assert opened.run("plan.yaml", resume=run).rows()[0]["topic"] == "praise"
