"""The page of a run: what it holds, and that nothing in it is taken for HTML or script."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from semgraph.errors import PlanError
from semgraph.execution.record import Run, RunRecord
from semgraph.frontend.graph_files import graph_of
from semgraph.render.html import graph_html, graph_page, page, save
from semgraph.render.picture import pictures
from semgraph.semantic.ask import Failure

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\u2028\x00\ud83d"
VOID = {"meta", "link", "br", "img", "input", "hr"}


class Read(HTMLParser):
    """A page as a browser reads it: elements with their attributes and texts; badly nested ones are
    an error.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.open: list[int] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs), []))
        if tag not in VOID:
            self.open.append(len(self.found) - 1)

    def handle_endtag(self, tag: str) -> None:
        assert self.found[self.open.pop()][0] == tag

    def handle_data(self, data: str) -> None:
        for place in self.open:
            self.found[place][2].append(data)

    def all(self, tag: str, **wanted: str) -> list[str]:
        return ["".join(texts) for name, attrs, texts in self.found
                if name == tag and all(attrs.get(k.rstrip("_").replace("_", "-")) == v for k, v in wanted.items())]  # fmt: skip

    @property
    def tags(self) -> list[str]:
        return [name for name, _, _ in self.found]


def line(call: str, step: str = "told", **more: Any) -> dict[str, Any]:
    return {"call": call, "step": step, "model": "m-1", "origin": "issued", "at": 1_750_000_000.5, "took": 1.25, "seconds": 1.0,
            "tokens_in": 100, "tokens_cached": 40, "tokens_out": 7, "dollars": 0.002, "error": None} | more  # fmt: skip


def texts(prompt: str, answer: str) -> dict[str, Any]:
    return {"messages": [["system", "Read."], ["user", prompt]], "schema": "{}", "answer": answer}


STEP = {"operator": "sem_map", "how": "per_row", "rows_in": 3, "rows_out": 2, "rows_failed": 1, "calls_issued": 2,
        "calls_journal": 5, "calls_coalesced": 1, "tokens_in": 1200, "tokens_cached": 40, "tokens_out": 14, "dollars": 0.0042,
        "seconds": 2.5, "round_trips": 0, "embeddings": 0}  # fmt: skip


def recorded(
    folder: Path, says: str = "Ann knows Bob.", lines: Any = None, nodes: int = 3, **facts: Any
) -> Run:
    """A record such as a run leaves."""
    record = RunRecord(folder / "7f3a")
    calls = lines or [line("c1", **texts(says, json.dumps({"pairs": [says]})))]
    says = says.replace("\ud83d", "")
    record.describe(
        plan="people", file="plans/people.yaml", started="2025-06-15 15:06:40+00:00", ended="2025-06-15 15:06:44+00:00",
        status="done", flow={"merge KNOWS": ["ties"], "ties": ["told"], "told": ["notes"], "notes": []}, key="uuid",
        graph={"partition": "group_id", "draw": {"node": "name", "edge": "name", "text": "says", "start": "since", "end": "until",
                                                 "sources": ""}},
        returns={"people": "ends", "ties": "ties"}, params={"least": says}, written={"KNOWS": 2}, notes=[says], journal=None,
        settings={"store": {"value": "memory", "origin": "option"}}, members={"given": 3, "committed": 2, "skipped": 1}, **facts,
    )  # fmt: skip
    people = [
        {"uuid": f"u{i}", "group_id": "g", "name": f"{says if i == 0 else 'Bob'} {i}"}
        for i in range(nodes)
    ]
    tie = {
        "uuid": "t1",
        "group_id": "g",
        "source": "u0",
        "target": "u1",
        "name": "KNOWS",
        "says": says,
        "since": "2025",
        "until": None,
    }
    told = {
        "_m": 0,
        "left": json.dumps({"text": says}),
        "right": None,
        "pairs": [says],
        "error": None,
        "calls": ["c1"],
    }
    ties = [tie, {**tie, "uuid": "t2", "until": "2026"}]
    for kind, step, rows in zip(
        ("steps", "steps", "answers"), ("ends", "ties", "told"), (people, ties, [told]), strict=True
    ):
        record.rows(kind, step, pa.Table.from_pylist(rows))
    record.flush()
    record.failed([(Failure("told", f"refused: {says}", None, {}), {"text": says})])
    record.lines("calls.jsonl", calls)
    record.text(
        "metrics.json",
        json.dumps({"total": STEP, "steps": {"told": STEP, "": {}, "ties": {"rows_out": 1}}}),
    )
    record.text("plan.yaml", f"plan: people # {says}")
    return Run(folder / "7f3a")


def data(read: Read) -> Any:
    (text,) = read.all("script", id="data")
    return json.loads(text)


def graphs(read: Read) -> list[Any]:
    """The data of each drawing of a graph."""
    return [json.loads(text) for text in read.all("script", class_="graph-data")]


def rows_of(read: Read, caption: str) -> list[list[str]]:
    """The cells of a table's lines, by its caption."""
    starts = [
        i
        for i, (tag, _, texts) in enumerate(read.found)
        if tag == "caption" and "".join(texts) == caption
    ]
    rest = read.found[starts[0] :]
    ends = next(
        (i for i, (tag, _, _) in enumerate(rest[1:], 1) if tag in {"table", "details"}), len(rest)
    )
    found: list[list[str]] = []
    for tag, _, texts in rest[:ends]:
        if tag == "tr":
            found.append([])
        elif tag in {"td", "th"} and found:
            found[-1].append("".join(texts))
    return found


def test_a_step_of_several_operators_has_a_line_for_each_as_in_a_terminal(tmp_path: Path) -> None:
    """A sem_map of 3 rows in 2 calls, and a sem_filter of the 2 that it gave in 1; their sum is
    that of the step.
    """
    recorded(tmp_path)
    other = STEP | {
        "operator": "sem_filter",
        "how": "packed",
        "rows_in": 2,
        "rows_out": 1,
        "calls_issued": 1,
    }
    step = STEP | {
        "operator": "sem_map, sem_filter",
        "how": "per_row, packed",
        "rows_out": 1,
        "calls_issued": 3,
    }
    counted = {
        "total": step,
        "steps": {"told": step, "ties": {"rows_out": 1}},
        "operators": {"told": [STEP, other]},
    }
    (tmp_path / "7f3a" / "metrics.json").write_text(json.dumps(counted))
    read = Read(page([Run(tmp_path / "7f3a")]))
    lines = [row[:7] for row in rows_of(read, "Steps that may call the model")]
    assert lines == [
        ["step", "operator", "implementation", "rows in", "rows out", "failed", "calls issued"],
        ["told.1", "sem_map", "per_row", "3", "2", "1", "2"],
        ["told.2", "sem_filter", "packed", "2", "1", "1", "1"],
        ["total", "", "", "3", "1", "1", "3"],
    ]
    (box,) = read.all("div", data_path="told")
    assert " ".join(box.split()) == (
        "told sem_map per_row sem_filter packed 3 → 1 row 1 failed 3 calls (+6 reused) "
        "1,200 + 14 tokens $0.004 · 2.5 s"
    )


def test_the_page_says_what_was_run_and_what_it_took(tmp_path: Path) -> None:
    read = Read(page([recorded(tmp_path)]))
    assert read.all("h1") == ["people · run 7f3a"]
    assert read.all("h2") == [
        "Summary",
        "Failures",
        "The graph",
        "Steps",
        "The plan",
        "Timeline of calls",
        "Prompts and answers",
    ]
    (head,) = read.all("p", class_="head")
    assert (
        head
        == "done · 1 row failed · 2 calls (+ 6 reused) · 1,200 (40 cached) + 14 tokens · $0.004 · 4.0 s"
    )
    (told,) = read.all("dl")
    for said in (
        "plans/people.yaml",
        "m-1",
        "memory",
        "2025-06-15 15:06:40 UTC",
        "written2\xa0KNOWS",
        "rows2 of 3 committed, 1 skipped",
    ):
        assert said in told
    (scope,) = read.all("p", class_="scope")
    assert "of the 2 calls that it issued" in scope


def test_each_step_has_its_counters(tmp_path: Path) -> None:
    found = page([recorded(tmp_path)])
    row = re.search(r'<tr><th scope="row">told</th>(<td>sem_map.*?)</tr>', found, re.DOTALL)
    assert row
    said = " ".join(re.findall(r"<td[^>]*>(.*?)</td>", row[1]))
    assert said == "sem_map per_row 3 2 1 2 5 1 1,200 40 14 $0.004 2.50 0 0"


def test_the_plan_is_drawn_with_a_box_for_each_step_and_its_cost(tmp_path: Path) -> None:
    read = Read(page([recorded(tmp_path)]))
    boxes = {
        str(attrs["data-path"]): (str(attrs["class"]), " ".join("".join(texts).split()))
        for _, attrs, texts in read.found
        if "data-path" in attrs
    }
    assert boxes == {
        "merge KNOWS": ("box writes", "merge KNOWS"),
        "ties": ("box step", "ties 1 row"),
        "told": (
            "box asks",
            "told sem_map per_row 3 → 2 rows 1 failed 2 calls (+6 reused) 1,200 + 14 tokens $0.004 · 2.5 s",
        ),
        "notes": ("box idle", "notes"),
    }
    assert reads(read)["merge KNOWS"] == ["ties"]
    shares = [
        attrs["title"]
        for _, attrs, _ in read.found
        if attrs.get("class") == "share" and "title" in attrs
    ]
    assert shares == ["100.0 % of the tokens"]


def reads(read: Read) -> dict[str, Any]:
    """What each step of the plan's drawing reads."""
    return {
        str(a["data-path"]): json.loads(str(a["data-reads"]))
        for _, a, _ in read.found
        if "data-reads" in a
    }


def test_the_steps_of_a_called_plan_are_within_its_box(tmp_path: Path) -> None:
    record = recorded(tmp_path)
    flow = {"notes": [], "a/one": ["notes"], "a/b/two": ["a/one"], "end": ["a/b/two", "a/one"]}
    facts = json.loads((record.folder / "run.json").read_text()) | {"flow": flow}
    (record.folder / "run.json").write_text(json.dumps(facts))
    counted = {"total": STEP, "steps": {"a/one": STEP, "a/b/two": STEP}}
    (record.folder / "metrics.json").write_text(json.dumps(counted))
    read = Read(page([Run(record.folder)]))
    assert reads(read) == flow
    groups = [" ".join(text.split()) for text in read.all("details", class_="box group")]
    one = "2 calls (+6 reused) 1,200 + 14 tokens $0.004 · 2.5 s"
    inner = f"b 1 step {one} two sem_map per_row 3 → 2 rows 1 failed {one}"
    assert groups == [
        f"a 2 steps 4 calls (+12 reused) 2,400 + 28 tokens $0.008 · 5.0 s one sem_map per_row 3 → 2 rows 1 failed {one} {inner}",
        inner,
    ]


def test_the_graph_is_drawn_and_listed(tmp_path: Path) -> None:
    read = Read(page([recorded(tmp_path)]))
    (figure,) = [
        attrs for name, attrs, _ in read.found if name == "svg" and attrs["class"] == "graph"
    ]
    assert figure["aria-label"] == "Graph “g”: 3 nodes, 2 edges"
    (drawn,) = graphs(read)
    edges = [(e["ends"], e["name"], e["text"], e["holds"]) for e in drawn["edges"]]
    assert edges == [
        ([0, 1], "KNOWS", "Ann knows Bob.", "2025 →"),
        ([0, 1], "KNOWS", "Ann knows Bob.", "2025 → 2026"),
    ]
    assert any("Edges of “g”" in text for text in read.all("caption"))
    assert "Nodes without an edge: Bob 2" in read.all("p")
    ann = drawn["nodes"][0]
    assert (ann["name"], ann["label"]) == ("Ann knows Bob. 0", "")


TURN = "Ann has known Bob since they met in Riga, in May of the year before last."


def labelled(folder: Path) -> Run:
    """A record of a run that wrote a note, two people, what ties them and which the note names."""
    record = RunRecord(folder / "9a1b")
    draw = {"node": "", "edge": "", "text": "", "start": "", "end": "", "sources": ""}
    knows = draw | {
        "edge": "name",
        "text": "says",
        "start": "since",
        "end": "until",
        "sources": "of",
    }
    labels = {
        "Note": {"kind": "node", "draw": draw | {"node": "text"}},
        "Person": {"kind": "node", "draw": draw | {"node": "name"}},
        "NAMES": {"kind": "edge", "draw": draw},
        "TIE": {"kind": "edge", "draw": knows},
    }
    record.describe(
        plan="p", key="id", graph={"partition": "group", "draw": draw, "labels": labels},
        flow={"merge Note": ["notes"], "notes": [], "part/told": ["notes"], "merge Person": ["part/told"]},
    )  # fmt: skip
    says = {
        "name": "KNOWS",
        "says": "Ann knows Bob from Riga.",
        "since": "2024-05",
        "until": None,
        "of": ["n"],
    }
    rows = {
        "Note": [{"id": "n", "text": TURN, "place": "Riga"}],
        "Person": [{"id": "a", "name": "Ann"}, {"id": "b", "name": "Bob"}],
        "NAMES": [{"id": f"e{who}", "source": "n", "target": who} for who in "abz"],
        "TIE": [{"id": "k", "source": "a", "target": "b"} | says],
    }  # fmt: skip
    for label, table in rows.items():
        record.rows("written", label, pa.Table.from_pylist([{"group": "g"} | row for row in table]))
    record.flush()
    return Run(record.folder)


def test_written_rows_are_drawn_by_label_with_a_legend(tmp_path: Path) -> None:
    read = Read(page([labelled(tmp_path)]))
    legend = read.all("ul", class_="legend")[0]
    assert legend.split() == ["Note", "1", "Person", "2", "TIE", "1", "NAMES", "2"]
    (drawn,) = graphs(read)
    kinds = [drawn["kinds"][node["kind"]] for node in drawn["nodes"]]
    assert [kind["label"] for kind in kinds] == ["Note", "Person", "Person"]
    assert len({kind["shape"] for kind in kinds}) == 2, (
        "labels differ in shape, not in colour alone"
    )
    assert TURN in [node["name"] for node in drawn["nodes"]]
    (caption,) = read.all("figcaption")
    assert "“g”: 1 Note, 2 Person, 3 NAMES, 1 TIE" in caption
    assert (
        "1 more edge without a text, with an end that this run did not write: not drawn." in caption
    )


def test_a_changed_node_of_an_earlier_run_has_the_name_that_the_run_returned(
    tmp_path: Path,
) -> None:
    draw = {"node": "name", "edge": "", "text": "", "start": "", "end": "", "sources": ""}
    labels = {"Person": {"kind": "node", "draw": draw}}
    record = RunRecord(tmp_path / "9a1c")
    record.describe(
        plan="p", key="id", graph={"partition": "group", "draw": draw, "labels": labels}, returns={"people": "known"}
    )  # fmt: skip
    row = {"group": "g", "id": "123456789"}
    record.rows("written", "Person", pa.Table.from_pylist([row | {"age": 7}]))
    record.rows("steps", "known", pa.Table.from_pylist([row | {"name": "Ann"}]))
    record.flush()
    (drawn,) = graphs(Read(page([Run(record.folder)])))
    assert [node["name"] for node in drawn["nodes"]] == ["Ann"]


def test_of_a_very_large_graph_the_nodes_with_most_edges_are_drawn_and_the_rest_is_counted(
    tmp_path: Path,
) -> None:
    read = Read(page([recorded(tmp_path, nodes=10_005)]))
    (drawn,) = graphs(read)
    assert len(drawn["nodes"]) == 10_000
    assert len(drawn["edges"]) == 2
    caption = next(text for text in read.all("figcaption") if "10,005 nodes" in text)
    assert "The 10,000 nodes with the most edges; 5 nodes and edges left out." in caption


def test_every_prompt_and_answer_is_there(tmp_path: Path) -> None:
    found = data(Read(page([recorded(tmp_path)])))
    (call,) = found["calls"]
    said = [(role, found["texts"][place]) for role, place in call["messages"]]
    assert said == [("system", "Read."), ("user", "Ann knows Bob.")]
    assert json.loads(found["texts"][call["answer"]]) == {"pairs": ["Ann knows Bob."]}
    assert [found["texts"][place] for place in call["items"][0]] == [
        '{"text": "Ann knows Bob."}', "", '{"pairs": ["Ann knows Bob."]}'
    ]  # fmt: skip


def test_where_answers_came_from_is_said_in_words(tmp_path: Path) -> None:
    lines = [
        line("c1"),
        line("c2", origin="journal"),
        line("c3", origin="coalesced"),
        line("", origin=None, error="refused"),
    ]
    read = Read(page([recorded(tmp_path, lines=lines)]))
    (calls,) = read.all("table", class_="calls")
    for said in ("issued", "from the journal", "shared with an equal request", "no answer"):
        assert said in calls
    assert data(read)["calls"][0]["lost"].startswith("The journal does not have it")
    assert data(read)["calls"][3]["error"] == "refused"


def test_a_replay_says_whose_times_these_are(tmp_path: Path) -> None:
    (scope,) = Read(page([recorded(tmp_path, lines=[line("c1", origin="recording")])])).all(
        "p", class_="scope"
    )
    assert "replayed from a recording: tokens and durations of calls are recorded" in scope


def test_failed_rows_are_listed(tmp_path: Path) -> None:
    read = Read(page([recorded(tmp_path)]))
    assert any(text.startswith("1 failed row") for text in read.all("caption"))
    assert "refused: Ann knows Bob." in read.all("td")


def test_no_data_becomes_html_or_script(tmp_path: Path) -> None:
    harmless, hostile = (
        Read(page([recorded(tmp_path / name, says)])) for name, says in (("a", "x"), ("b", HOSTILE))
    )
    assert hostile.tags == harmless.tags
    assert "img" not in hostile.tags
    assert len(hostile.all("script")) == 3
    assert not [attrs for _, attrs, _ in hostile.found for name in attrs if name.startswith("on")]
    assert data(hostile)["texts"][1].startswith("</script><script>alert(1)</script><img")


def test_the_page_asks_for_nothing_from_elsewhere(tmp_path: Path) -> None:
    found = page([recorded(tmp_path)])
    read = Read(found)
    assert {"link", "img", "iframe", "object"} & set(read.tags) == set()
    assert not [
        attrs
        for _, attrs, _ in read.found
        if "src" in attrs or not str(attrs.get("href", "#")).startswith("#")
    ]
    assert "default-src 'none'" in found
    assert "http" not in found.replace("http-equiv", "")


def test_a_text_of_a_megabyte_is_cut_and_says_so(tmp_path: Path) -> None:
    made = recorded(tmp_path, "<b>" * 400_000)
    found = page([made])
    assert len(found) < 2_000_000
    assert "1,160,000 more characters" in found


def test_many_long_prompts_stay_below_two_megabytes(tmp_path: Path) -> None:
    lines = [line(f"c{i}", **texts(f"{i} " * 15_000, "{}")) for i in range(100)]
    found = page([recorded(tmp_path, lines=lines)])
    assert len(found) < 2_000_000
    assert "texts were left out because the page is full" in found


def test_of_very_many_calls_the_first_and_those_that_failed_are_listed(tmp_path: Path) -> None:
    lines = [
        line(f"c{i}", at=1_750_000_000 + i, error="no" if i == 1999 else None) for i in range(2000)
    ]
    read = Read(page([recorded(tmp_path, lines=lines)]))
    assert len(data(read)["calls"]) == 1000
    assert data(read)["calls"][-1]["error"] == "no"
    assert any("1,000 of 2,000 are listed" in text for text in read.all("caption"))


def test_a_run_that_was_killed_has_a_page(tmp_path: Path) -> None:
    record = RunRecord(tmp_path / "dead")
    record.describe(plan="people", started="2025-06-15 15:06:40+00:00", status="running")
    read = Read(page([Run(tmp_path / "dead")]))
    assert read.all("h1") == ["people · run dead"]
    assert read.all("p", class_="head")[0].startswith("running · 0 calls")


def test_several_runs_stand_side_by_side(tmp_path: Path) -> None:
    one, other = recorded(tmp_path / "a"), recorded(tmp_path / "b")
    read = Read(page([one, other]))
    assert read.all("h1") == ["2 records of semgraph"]
    assert read.all("h2") == ["Side by side", "people · run 7f3a", "people · run 7f3a"]
    ids = [attrs["id"] for _, attrs, _ in read.found if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_headings_are_in_order_and_tables_have_captions_and_heads(tmp_path: Path) -> None:
    read = Read(page([recorded(tmp_path / "a"), recorded(tmp_path / "b")]))
    levels = [int(tag[1]) for tag in read.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert read.tags.count("caption") == read.tags.count("table") == read.tags.count("thead")
    assert {"header", "nav", "main", "footer"} <= set(read.tags)


def test_it_is_written_where_it_is_wanted(tmp_path: Path) -> None:
    recorded(tmp_path / "runs")
    made = save(["7f"], tmp_path / "pages" / "run.html", tmp_path / "runs")
    assert made.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    again = save(["7f", "last", "7f3a"], tmp_path / "again.html", tmp_path / "runs")
    assert again.read_bytes() == made.read_bytes(), "a record that is named twice is shown once"
    with pytest.raises(PlanError, match='no run "zz"'):
        save(["zz"], tmp_path / "run.html", tmp_path / "runs")


def test_the_rows_of_a_store_have_a_page_with_a_drawing_for_each_partition() -> None:
    says = HOSTILE.replace("\ud83d", "")
    graph = graph_of(
        {
            "graph": "notes",
            "nodes": {"Note": {"properties": {"text": "string"}}},
            "draw": {"node": "text"},
        }
    )
    rows = [{"uuid": group, "group_id": group, "text": says} for group in ("a", "b")]
    tables = [("Note", pa.Table.from_pylist(rows))]
    read = Read(graph_page(pictures(tables, graph), f"Of {says}"))
    assert read.all("h2") == ["“a”: 1 Note", "“b”: 1 Note"]
    names = [node["name"] for drawn in graphs(read) for node in drawn["nodes"]]
    assert len(names) == 2
    assert all(name.startswith("</script><script>alert(1)</script><img") for name in names)
    assert "img" not in read.tags
    in_notebook = Read(graph_html(pictures(tables, graph), graph.name))
    assert graphs(in_notebook) == graphs(read)
    assert len(in_notebook.all("script")) == 3
