"""Functions of one's own in expressions of plans: found in named folders, typed, called with rows."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import semgraph
from semgraph.errors import DataError, PlanError
from semgraph.execution.record import Run
from semgraph.expr import own_functions
from semgraph.folders import functions_folder
from semgraph.frontend.functions import Functions
from semgraph.frontend.load import load_plan
from tests.execution.conftest import Place

PLAN = """
plan: called
inputs: {notes: {id: int64, text: string null, n: int64 null}}
steps:
  made:
    - from: notes
    - STEP
returns: [made]
"""
NOTES: list[dict[str, Any]] = [
    {"id": 1, "text": "Ada Lovelace", "n": 2},
    {"id": 2, "text": None, "n": 1},
    {"id": 3, "text": "Grace Hopper", "n": None},
]
INITIALS = '''
def initials(name: str, most: int = 3) -> str:
    """The first letters.

    >>> initials("Ada Lovelace")
    'AL'
    """
    return "".join(word[0] for word in name.split())[:most]
'''


@pytest.fixture
def own(tmp_path: Path) -> Callable[..., Path]:
    """Writes functions into a folder, by name."""

    def write(**functions: str) -> Path:
        folder = tmp_path / "own"
        folder.mkdir(exist_ok=True)
        for name, text in functions.items():
            (folder / f"{name}.py").write_text(text, encoding="utf-8")
        return folder

    return write


@pytest.fixture(params=["rows", "duckdb", "both"])
def executor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What computes relational steps."""
    monkeypatch.setenv("SEMGRAPH_SEGMENTS", request.param)
    return str(request.param)


def plan(tmp_path: Path, step: str) -> Path:
    path = tmp_path / "called.yaml"
    path.write_text(PLAN.replace("STEP", step), encoding="utf-8")
    return path


def session(tmp_path: Path, *folders: Path, **more: Any) -> semgraph.Session:
    options = {"store": "memory", "journal": False, "runs": "", **more}
    return semgraph.Session(functions=folders, folder=tmp_path, **options)


def rows(tmp_path: Path, folder: Path, step: str, **more: Any) -> list[dict[str, Any]]:
    result = session(tmp_path, folder).run(plan(tmp_path, step), notes=NOTES, **more)
    return result["made"].to_pylist()


def refused(tmp_path: Path, folder: Path, step: str) -> str:
    with pytest.raises(PlanError) as caught:
        load_plan(plan(tmp_path, step), functions=[folder])
    return str(caught.value)


# -- called


@pytest.mark.usefixtures("executor")
def test_a_function_is_called_for_each_row_and_not_with_null(
    tmp_path: Path, own: Callable[..., Path]
) -> None:
    made = rows(tmp_path, own(initials=INITIALS), "add: {short: initials(text)}")
    assert [row["short"] for row in made] == ["AL", None, "GH"]


@pytest.mark.usefixtures("executor")
def test_a_parameter_that_may_be_none_is_called_with_null(
    tmp_path: Path, own: Callable[..., Path]
) -> None:
    folder = own(
        told="def told(text: str | None, n: int | None = None) -> str:\n    return f'{text} {n}'\n"
    )
    made = rows(tmp_path, folder, "add: {a: told(text), b: 'told(text, n)'}")
    assert [(row["a"], row["b"]) for row in made] == [
        ("Ada Lovelace None", "Ada Lovelace 2"),
        ("None None", "None 1"),
        ("Grace Hopper None", "Grace Hopper None"),
    ]


@pytest.mark.usefixtures("executor")
def test_arguments_have_defaults_and_may_be_named(tmp_path: Path, own: Callable[..., Path]) -> None:
    step = """project: {a: 'initials(text, 1)', b: 'initials(most := 1, name := text)', c: '"Initials" (text)'}"""
    first, *_ = rows(tmp_path, own(initials=INITIALS), step)
    assert first == {"a": "A", "b": "A", "c": "AL"}


@pytest.mark.usefixtures("executor")
def test_calls_may_stand_in_calls(tmp_path: Path, own: Callable[..., Path]) -> None:
    step = "project: {a: 'initials(initials(text, 3), 1)', b: 'initials(text, len(initials(text)) - 1)'}"
    first, *_ = rows(tmp_path, own(initials=INITIALS), step)
    assert first == {"a": "A", "b": "A"}


TYPES = """
from datetime import date, datetime, timedelta
from typing import TypedDict

from semgraph.function import Json


class Part(TypedDict):
    name: str
    sizes: list[float]
    at: datetime | None


def parts(
    texts: list[str], at: datetime, day: date, half: float, yes: bool, more: Json
) -> list[Part]:
    texts.append(str(more["k"][0]))  # what it gets is its own
    return [
        {"name": text, "sizes": [half, len(texts)], "at": at + timedelta(1) if yes else None}
        for text in texts
    ]
"""


@pytest.mark.usefixtures("executor")
def test_all_types_go_in_and_out(tmp_path: Path, own: Callable[..., Path]) -> None:
    step = """project:
        texts: "[text]"
        made: >-
          parts([coalesce(text, '-')], CAST('2025-01-31 12:00:00+00' AS TIMESTAMPTZ),
          CAST('2025-01-31' AS DATE), 0.5, id = 1, '{"k": [7]}')
"""
    first, second, _ = rows(tmp_path, own(parts=TYPES), step)
    assert [part["name"] for part in first["made"]] == ["Ada Lovelace", "7"]
    assert first["made"][0]["sizes"] == [0.5, 2.0]
    assert first["made"][0]["at"].isoformat() == "2025-02-01T12:00:00+00:00"
    assert second["made"][0] == {"name": "-", "sizes": [0.5, 2.0], "at": None}
    assert first["texts"] == ["Ada Lovelace"]


@pytest.mark.usefixtures("executor")
def test_a_result_of_type_json_is_a_text_of_json(tmp_path: Path, own: Callable[..., Path]) -> None:
    source = "from semgraph.function import Json\ndef told(n: int) -> Json:\n    return {'b': [n], 'a': None}\n"
    made = rows(tmp_path, own(told=source), "add: {made: told(n)}")
    assert [row["made"] for row in made] == ['{"a":null,"b":[2]}', '{"a":null,"b":[1]}', None]


@pytest.mark.usefixtures("executor")
def test_parameters_may_be_lists_and_structs_with_json(
    tmp_path: Path, own: Callable[..., Path]
) -> None:
    source = (
        "from typing import TypedDict\nfrom semgraph.function import Json\n"
        "class Entry(TypedDict):\n    name: str | None\n    more: Json | None\n"
        "def told(entries: list[Entry]) -> str:\n"
        "    return repr([(entry['name'], entry['more']) for entry in entries])\n"
    )
    step = """add: {made: "told([{name: text, more: '[1]'}, {name: 'x', more: NULL}])"}"""
    first, second, _ = rows(tmp_path, own(told=source), step)
    assert first["made"] == "[('Ada Lovelace', [1]), ('x', None)]"
    assert second["made"] == "[(None, [1]), ('x', None)]"


@pytest.mark.usefixtures("executor")
def test_it_may_stand_wherever_an_expression_of_rows_may(
    tmp_path: Path, own: Callable[..., Path]
) -> None:
    folder = own(initials=INITIALS)
    assert [r["id"] for r in rows(tmp_path, folder, "filter: \"initials(text) = 'GH'\"")] == [3]
    grouped = "aggregate: {by: {short: 'initials(text, 1)'}, add: {all: list(initials(text) ORDER BY initials(text))}}"
    assert {r["short"]: r["all"] for r in rows(tmp_path, folder, grouped)} == {
        "A": ["AL"],
        None: [None],
        "G": ["GH"],
    }
    ordered = "sort: initials(text) desc"
    assert [r["id"] for r in rows(tmp_path, folder, ordered)] == [3, 1, 2]
    inside = "add: {all: \"[initials(word) for word in string_split(text, ' ')]\"}"
    assert rows(tmp_path, folder, inside)[0]["all"] == ["A", "L"]


async def test_it_is_called_in_a_thread_and_not_when_a_plan_is_loaded(
    tmp_path: Path, own: Callable[..., Path], executor: str
) -> None:
    del executor
    source = "import threading\nseen = []\ndef seen_in(text: str) -> str:\n    seen.append(threading.current_thread())\n    return text\n"
    folder = own(seen_in=source)
    path = plan(
        tmp_path,
        "add: {a: seen_in(text), b: seen_in('constant'), c: \"CAST(seen_in('1') AS INT)\", d: \"to_json(seen_in('x'))\", e: \"seen_in('x') || 'a'\", f: \"seen_in('x') = 'x'\"}",
    )
    plan_loaded = load_plan(path, functions=[folder])
    seen = Functions((folder,))["seen_in"].python.__globals__["seen"]
    assert seen == []
    await session(tmp_path, folder).arun(plan_loaded, notes=NOTES)
    assert seen
    assert threading.current_thread() not in seen


def test_a_long_call_is_a_warning(
    tmp_path: Path,
    own: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(own_functions, "_LONGEST", -1.0)
    with caplog.at_level(logging.WARNING, "semgraph"):
        rows(tmp_path, own(initials=INITIALS), "add: {short: initials(text)}")
    assert 'initials("Ada Lovelace", 3) took 0.0 s, in ' in caplog.text


# -- failures


@pytest.mark.usefixtures("executor")
def test_an_exception_names_the_step_the_function_its_line_and_its_arguments(
    tmp_path: Path, own: Callable[..., Path]
) -> None:
    folder = own(broken="def broken(text: str, n: int) -> str:\n    return text[n]\n")
    notes = [{"id": 1, "text": "long " * 40, "n": 1000}]
    with pytest.raises(DataError) as caught:
        session(tmp_path, folder).run(plan(tmp_path, "add: {a: 'broken(text, n)'}"), notes=notes)
    said = str(caught.value)
    assert (
        'called.yaml:7:7  step made: broken("long long long long long long long l..., 1000)' in said
    )
    assert f"raised IndexError: string index out of range, in {folder / 'broken.py'}:2" in said
    assert "__" not in said


@pytest.mark.usefixtures("executor")
def test_an_exception_may_say_anything(tmp_path: Path, own: Callable[..., Path]) -> None:
    source = "def broken(n: int) -> str:\n    raise ValueError('two\\nlines \\ud800\\0 FunctionFailed: x')\n"
    with pytest.raises(DataError, match="broken\\(2\\) raised ValueError: two, in "):
        rows(tmp_path, own(broken=source), "add: {a: broken(n)}")
    own(broken="def broken(n: int) -> str:\n    raise ValueError('\\ud800')\n")
    with pytest.raises(DataError, match=r"raised ValueError: \\ud800, in "):
        rows(tmp_path, tmp_path / "own", "add: {a: broken(n)}")


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ("raise SystemExit(3)", "raised SystemExit: 3"),
        ("raise KeyboardInterrupt", "raised KeyboardInterrupt"),
        ("raise StopIteration", "raised StopIteration"),
    ],
)
@pytest.mark.usefixtures("executor")
def test_a_function_cannot_end_the_program(
    tmp_path: Path, own: Callable[..., Path], ends: str, said: str
) -> None:
    folder = own(broken=f"def broken(n: int) -> int:\n    {ends}\n")
    with pytest.raises(DataError) as caught:
        rows(tmp_path, folder, "add: {a: broken(n)}")
    assert f"broken(2) {said}, in {folder / 'broken.py'}:2" in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        ("str", "1", "int 1, not string"),
        ("str", "None", "None, not string"),
        ("int", "1.0", "float 1.0, not int64"),
        ("int", "True", "bool True, not int64"),
        ("int", "2**70", "int 1180591620717411303424, not int64"),
        ("str", "'\\ud800'", "str '\\ud800', not string"),
        ("list[int]", "[1, '2']", "str '2', not int64"),
        ("datetime", "datetime(2025, 1, 1)", "datetime datetime.datetime(2025, 1, 1, 0, 0), not timestamp"),
        ("date", "datetime(2025, 1, 1)", "datetime datetime.datetime(2025, 1, 1, 0, 0), not date"),
        ("Json", "{1, 2}", "set {1, 2}, not json"),
        ("Json", "[float('nan')]", "list [nan], not json"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("executor")
def test_a_result_of_another_type_is_an_error(
    tmp_path: Path, own: Callable[..., Path], kind: str, value: str, said: str
) -> None:
    source = f"from datetime import date, datetime\nfrom semgraph.function import Json\ndef made(n: int) -> {kind}:\n    return {value}\n"
    with pytest.raises(DataError) as caught:
        rows(tmp_path, own(made=source), "add: {a: made(n)}")
    assert f"made(2) returned {said}" in str(caught.value)


def test_a_failing_row_is_kept_from_a_filter_above_it(
    tmp_path: Path, own: Callable[..., Path], executor: str
) -> None:
    del executor
    folder = own(first="def first_word(text: str) -> str:\n    return text\n")
    (folder / "first.py").unlink()
    own(head="def head(text: str) -> str:\n    return text.split()[0]\n")
    steps = "filter: text <> ''\n    - add: {a: head(text)}\n    - filter: a <> 'x'"
    path = plan(tmp_path, steps)
    notes = [*NOTES, {"id": 4, "text": "", "n": 1}]
    result = session(tmp_path, folder).run(path, notes=notes)
    assert [row["a"] for row in result["made"].to_pylist()] == ["Ada", "Grace"]


# -- found and refused


def test_a_plan_knows_only_the_functions_of_named_folders(
    tmp_path: Path, own: Callable[..., Path]
) -> None:
    folder = own(initials=INITIALS)
    (tmp_path / "initials.py").write_text(INITIALS, encoding="utf-8")
    path = plan(tmp_path, "add: {short: initials(text)}")
    for known in ([folder], []):  # also after another session has called it
        if known:
            load_plan(path, functions=known)
            continue
        with pytest.raises(PlanError, match='there is no function "initials"') as caught:
            load_plan(path)
        assert "Functions of your own: --functions DIR" in str(caught.value)


def test_two_folders_may_hold_other_functions_of_one_name(
    tmp_path: Path, own: Callable[..., Path]
) -> None:
    first = own(initials=INITIALS)
    second = tmp_path / "second"
    second.mkdir()
    (second / "initials.py").write_text("def initials(name: str) -> int:\n    return 7\n")
    path = plan(tmp_path, "add: {short: initials(text)}")
    made = [load_plan(path, functions=[folder]) for folder in (first, second)]
    assert [str(each.steps["made"].schema.field("short").type) for each in made] == [
        "string",
        "int64",
    ]
    results = [
        session(tmp_path).run(each, notes=NOTES)["made"].to_pylist()[0]["short"] for each in made
    ]
    assert results == ["AL", 7]
    assert made[0].fingerprint != made[1].fingerprint
    with pytest.raises(PlanError, match='two files are function "initials"'):
        load_plan(path, functions=[first, second])


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def other(x: str) -> str: return x", 'holds no function "made"'),
        ("made = 3", 'holds no function "made"'),
        ("def made(x) -> str: return x", 'made gives "x" no type'),
        ("def made(x: str): return x", "made does not say what it returns"),
        ("def made() -> str: return ''", "made has no parameter"),
        ("def made(*x: str) -> str: return ''", "made has the parameter *x: str"),
        ("def made(*, x: str) -> str: return ''", "Parameters are plain"),
        ("async def made(x: str) -> str: return x", "made is no plain function"),
        ("def made(x: str) -> str: yield x", "made is no plain function"),
        ("def made(x: bytes) -> str: return ''", 'made, "x" is bytes, which no column holds'),
        ("def made(x: dict) -> str: return ''", 'made, "x" is dict, which no column holds'),
        ("def made(x: str | int) -> str: return ''", "which no column holds"),
        ("def made(x: Missing) -> str: return ''", "NameError"),
        ("def made(x: str = 3) -> str: return ''", "x = 3 is no default"),
        ("def made(x: str = None) -> str: return ''", "x = None is no default"),
        ("def made(x: list[str] = []) -> str: return ''", "x = [] is no default"),
        ("from typing import TypedDict\nclass P(TypedDict, total=False):\n    a: str\n    \ndef made(x: str) -> P: return {}", "which no column holds"),
        ("import nowhere_at_all", "made.py:1: ModuleNotFoundError"),
        ("import sys; sys.exit(3)", "made.py:1: SystemExit: 3"),
        ("def made(x: str) -> str:\n    return (", "made.py:2: SyntaxError"),
    ],
)  # fmt: skip
def test_a_function_that_is_not_typed_is_refused_when_a_plan_calls_it(
    tmp_path: Path, own: Callable[..., Path], source: str, said: str
) -> None:
    folder = own(
        made="from __future__ import annotations\n" * ("Missing" in source) + source + "\n"
    )
    load_plan(plan(tmp_path, "add: {a: upper(text)}"), functions=[folder])
    problem = refused(tmp_path, folder, "add: {a: made(text)}")
    assert said in problem
    assert "called.yaml:7:16  step made: " in problem


@pytest.mark.parametrize(
    "name", ["upper", "key", "id", "now", "summarize", "left", "select", "chunk"]
)
def test_a_name_that_is_taken_is_refused(
    tmp_path: Path, own: Callable[..., Path], name: str
) -> None:
    folder = own(**{name: f"def {name}(x: str) -> str: return x\n"})
    with pytest.raises(PlanError, match=f"{name}.*(already|two files)|two files.*{name}"):
        load_plan(plan(tmp_path, "limit: 1"), functions=[folder])


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match='no folder ".*nowhere" of functions'):
        session(tmp_path, tmp_path / "nowhere").prepare(plan(tmp_path, "limit: 1"))


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("add: {a: initials()}", 'initials needs "name". Its signature: initials(name: string, most: int64 = 3) -> string'),
        ("add: {a: 'initials(text, 1, 2)'}", "initials takes at most 2 arguments"),
        ("add: {a: 'initials(text, least := 2)'}", 'initials has no parameter "least". Its signature'),
        ("add: {a: 'initials(text, name := text)'}", 'initials is given "name" twice'),
        ("add: {a: initials(id)}", "No function matches the given name and argument types 'initials(BIGINT, INTEGER_LITERAL)'"),
        ("limit: {n: \"len(initials('$x'))\"}", "calls initials, a function of Python: it is called with rows only"),
        ("add: {a: initials(nothing)}", 'no column "nothing"'),
        ("add: {a: inital(text)}", 'there is no function "inital". Functions of your own: --functions DIR. Did you mean "initials"?'),
        ("filter: inital(text) = 'A'", 'Did you mean "initials"?'),
        ("aggregate: {by: [id], add: {a: max(inital(text))}}", 'Did you mean "initials"?'),
    ],
)  # fmt: skip
def test_a_wrong_call_is_refused_at_its_place(
    tmp_path: Path, own: Callable[..., Path], step: str, said: str
) -> None:
    problem = refused(tmp_path, own(initials=INITIALS), step)
    assert said in problem
    assert "called.yaml:7:" in problem
    assert "__" not in problem


def test_where_of_a_search_over_a_label_calls_no_function(
    tmp_path: Path, own: Callable[..., Path]
) -> None:
    (tmp_path / "graph.yaml").write_text(
        "graph: g\nkey: id\npartition: corpus\nnodes:\n  Note: {properties: {text: string}}\n"
    )
    search = "search: {over: LABEL, alias: near, k: 3, partition: text, order: near.id, where: initials(near.text) = 'AL'}"
    stored = "graph: graph.yaml\n" + PLAN.replace("STEP", search.replace("LABEL", "Note"))
    (tmp_path / "stored.yaml").write_text(stored)
    with pytest.raises(PlanError) as caught:
        load_plan(tmp_path / "stored.yaml", functions=[own(initials=INITIALS)])
    assert (
        "calls initials, a function of Python, over the stored Note. "
        "Search without it, and filter in a step afterwards"
    ) in str(caught.value)


def test_derived_properties_of_a_graph_know_semgraphs_own_functions_only(tmp_path: Path) -> None:
    (tmp_path / "graph.yaml").write_text(
        GRAPH.replace("index: [text]", "derived: {parts: chunk(text)}")
    )
    (tmp_path / "called.yaml").write_text("graph: graph.yaml\n" + PLAN.replace("STEP", "limit: 1"))
    with pytest.raises(PlanError, match=r'cannot read "chunk\(text\)". Functions: key, words'):
        load_plan(tmp_path / "called.yaml")


# -- records


def test_the_fingerprint_and_the_record_hold_name_and_digest_of_the_file(
    tmp_path: Path, own: Callable[..., Path]
) -> None:
    folder = own(initials=INITIALS)
    path = plan(tmp_path, "add: {short: initials(text)}")
    first = load_plan(path, functions=[folder])
    assert first.fingerprint == load_plan(path, functions=[folder]).fingerprint
    result = session(tmp_path, folder, runs="runs").run(path, notes=NOTES)
    assert result.record is not None
    assert Run(result.record).facts["functions"] == first.functions
    own(initials=INITIALS + "\n")
    again = load_plan(path, functions=[folder])
    assert again.fingerprint != first.fingerprint
    assert list(again.functions) == ["initials"]


def test_a_session_sees_a_file_that_was_edited(tmp_path: Path, own: Callable[..., Path]) -> None:
    folder = own(initials=INITIALS)
    path = plan(tmp_path, "add: {short: initials(text)}")
    with session(tmp_path, folder) as ours:
        before = ours.run(path, notes=NOTES)["made"].to_pylist()
        own(initials=INITIALS.replace("[:most]", "[:most].lower()"))
        after = ours.run(path, notes=NOTES)["made"].to_pylist()
    assert [before[0]["short"], after[0]["short"]] == ["AL", "al"]


def test_a_resumed_run_names_the_functions_that_have_changed(
    tmp_path: Path, own: Callable[..., Path]
) -> None:
    folder = own(initials=INITIALS)
    path = plan(tmp_path, "add: {short: initials(text)}")
    ours = session(tmp_path, folder, runs="runs")
    first = ours.run(path, notes=NOTES)
    assert ours.run(path, resume=first.run).notes == ()
    own(initials=INITIALS.replace("[:most]", "[:most].lower()"))
    [note] = ours.run(path, resume=first.run).notes
    assert note == (
        f"the function initials has changed since run {first.run}: rows written before stay as they are"
    )


# -- in Python, and the shipped function


def test_a_table_may_name_the_folders_of_functions(
    tmp_path: Path, own: Callable[..., Path]
) -> None:
    folder = own(initials=INITIALS)
    notes = semgraph.table(NOTES, name="notes", functions=[folder])
    made = notes.add({"short": "initials(text)"}).step("made")
    assert session(tmp_path).run(made)["made"].to_pylist()[0]["short"] == "AL"
    other = semgraph.table(NOTES, name="other")
    assert other.join(notes, alias="near", using="id").add({"s": "initials(near.text)"}).node.schema
    with pytest.raises(PlanError, match="there is no function"):
        other.add({"short": "initials(text)"})
    apart = semgraph.table(NOTES, name="apart", functions=[tmp_path])
    with pytest.raises(PlanError, match="frames with other functions cannot be combined"):
        apart.join(notes, alias="near", using="id")
    saved = made.save(tmp_path / "saved.yaml")
    assert load_plan(saved, functions=[folder]).functions.keys() == {"initials"}
    assert "own" not in saved.read_text()


@pytest.mark.usefixtures("executor")
def test_chunk_is_there_without_any_option(tmp_path: Path) -> None:
    text = "One two three. Four five! Six? Seven eight nine ten."
    steps = (
        "add: {pieces: 'chunk(text, 2, 1, by := ''sentences'')'}\n"
        "    - unnest: {column: pieces, alias: piece}\n"
        "    - project: {nth: piece.nth, text: piece.text, "
        "same: 'substr(text, piece.start, len(piece.text)) = piece.text'}"
    )
    result = session(tmp_path).run(
        plan(tmp_path, steps),
        notes=[{"id": 1, "text": text, "n": 1}, {"id": 2, "text": None, "n": 1}],
    )
    assert result["made"].to_pylist() == [
        {"nth": 1, "text": "One two three. Four five!", "same": True},
        {"nth": 2, "text": "Four five! Six?", "same": True},
        {"nth": 3, "text": "Six? Seven eight nine ten.", "same": True},
    ]


def test_chunk_cuts_between_sentences_within_a_number_of_tokens(tmp_path: Path) -> None:
    long = "and so on " * 30
    text = "One two three. Four five! Six? " + long + "Seven eight nine ten."
    steps = (
        "add: {pieces: 'chunk(text, 10, 4, ''whole'')'}\n"
        "    - unnest: {column: pieces, alias: piece}\n"
        "    - project: {text: piece.text, again: 'len(chunk(piece.text, 10))', "
        "same: 'substr(text, piece.start, len(piece.text)) = piece.text'}"
    )
    result = session(tmp_path).run(
        plan(tmp_path, steps),
        notes=[{"id": 1, "text": text, "n": 1}, {"id": 2, "text": "", "n": 1}],
    )
    rows = result["made"].to_pylist()
    assert [row["text"] for row in rows[:2]] == ["One two three. Four five!", "Four five! Six?"]
    assert [row["again"] for row in rows] == [1] * len(rows)
    assert all(row["same"] for row in rows)
    assert sum(row["text"].count("and") for row in rows) == 30


def test_the_explanation_shows_a_call_as_the_plan_writes_it(
    tmp_path: Path, own: Callable[..., Path]
) -> None:
    folder = own(initials=INITIALS)
    path = plan(tmp_path, "filter: initials(text) = 'AL' AND n > 1")
    with session(tmp_path, folder) as ours:
        for form in ("tree", "algebra", "json", "queries"):
            text = ours.explain(path, format=form, notes=NOTES)
            assert "initials__" not in text, form
    assert json.loads(ours.explain(path, format="json", notes=NOTES))


def test_the_page_begins_with_a_plan_that_runs(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "functions.md").read_text(encoding="utf-8")
    text = page.split("```yaml\n")[1].split("```")[0]
    (tmp_path / "pieces.yaml").write_text(text, encoding="utf-8")
    body = "one two three four five six. " * 60
    result = session(tmp_path).run(tmp_path / "pieces.yaml", documents=[{"id": "a", "body": body}])
    pieces = result["pieces"].to_pylist()
    assert [(row["id"], row["nth"]) for row in pieces] == [("a", 1), ("a", 2), ("a", 3)]
    assert "".join(row["text"] for row in pieces).replace(" ", "") == body.replace(" ", "")


# -- with stores and windows

GRAPH = """
graph: notes
key: id
partition: corpus
nodes:
  Note: {properties: {text: string, short: string}, index: [text]}
"""
HEAD = """
graph: graph.yaml
inputs: {notes: {id: string null, corpus: string, text: string}}
"""
WRITING = """
plan: writing
windows: {input: notes, partition: corpus, key: id, key_of: [text]}
writes:
  - merge: {from: notes, node: Note, key: id, set: {text, short: first_word(text)}}
"""
READING = """
plan: reading
graph: graph.yaml
steps:
  scanned:
    - from: {label: Note, partition: all}
    - filter: text <> 'Zoe' AND first_word(text) = short
  matched:
    - from: scanned
    - project: {of: id, corpus}
    - match: {pattern: "(near:Note {id: of})", where: "first_word(near.text) <> 'Ben'"}
returns: [scanned, matched]
"""
FIRST = "def first_word(text: str) -> str:\n    return text.split()[0]\n"


def test_a_row_on_which_it_fails_is_set_aside_and_the_others_are_written(
    tmp_path: Path, own: Callable[..., Path], place: Place
) -> None:
    folder = own(first_word=FIRST)
    (tmp_path / "graph.yaml").write_text(GRAPH)
    (tmp_path / "writing.yaml").write_text(HEAD + WRITING)
    (tmp_path / "reading.yaml").write_text(READING)
    texts = ["Ann Lee", " ", "Ben Ray", "Zoe"]
    notes = [{"id": f"n{n}", "corpus": "c", "text": text} for n, text in enumerate(texts)]
    with session(tmp_path, folder, store=place.spec) as ours:
        written = ours.run(tmp_path / "writing.yaml", notes=notes)
        assert written.committed == 3
        [failure] = written.failed
        assert 'first_word(" ") raised IndexError: list index out of range' in failure.error
        result = ours.run(tmp_path / "reading.yaml")
        stored = {row["text"]: row["short"] for row in result["scanned"].to_pylist()}
        assert stored == {"Ann Lee": "Ann", "Ben Ray": "Ben"}
        assert [row["near"]["text"] for row in result["matched"].to_pylist()] == ["Ann Lee"]
        queries = ours.explain(tmp_path / "reading.yaml", format="queries")
        statements = [part for part in queries.split("\n\n") if not part.startswith("-- DuckDB")]
        assert statements
        assert not any("first_word" in statement for statement in statements)


SEARCHING = """
plan: searching
inputs: {notes: {id: string, text: string}}
steps:
  near:
    - from: notes
    - search:
        over: notes
        key: id
        alias: near
        k: 3
        methods: [{equal: text, to: first_word(text)}]
        where: first_word(near.text) <> 'Ben'
    - project: {id, near: near.text}
  rounds:
    - from: notes
    - iterate:
        as: last
        times: 9
        until: bool_and(first_word(text) = text)
        do: [{from: last}, {project: {id, text: "first_word(text)"}}]
returns: [near, rounds]
"""


@pytest.mark.usefixtures("executor")
async def test_searches_over_steps_and_loops_call_it_in_a_thread(
    tmp_path: Path, own: Callable[..., Path]
) -> None:
    source = (
        "import threading\nseen = set()\ndef first_word(text: str) -> str:\n"
        "    seen.add(threading.current_thread())\n    return text.split()[0]\n"
    )
    folder = own(first_word=source)
    (tmp_path / "searching.yaml").write_text(SEARCHING)
    notes = [{"id": f"n{n}", "text": text} for n, text in enumerate(["Ann", "Ann Lee", "Ben"])]
    result = await session(tmp_path, folder).arun(tmp_path / "searching.yaml", notes=notes)
    assert result["near"].to_pylist() == [{"id": "n0", "near": "Ann"}, {"id": "n1", "near": "Ann"}]
    assert [row["text"] for row in result["rounds"].to_pylist()] == ["Ann", "Ann", "Ben"]
    seen = Functions((folder,))["first_word"].python.__globals__["seen"]
    assert seen
    assert threading.current_thread() not in seen


@pytest.mark.parametrize("file", sorted(functions_folder().glob("*.py")), ids=lambda f: f.stem)
def test_the_examples_of_shipped_functions_hold(file: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "doctest", "-v", str(file)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert " passed" in done.stdout
