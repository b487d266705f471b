"""Finding implementations, choosing one, and what is said if that fails."""

from __future__ import annotations

import asyncio
import inspect
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import semgraph.operator
from semgraph.conformance.cases import Case, Oracle, mind
from semgraph.errors import PlanError
from semgraph.llm.base import Limits
from semgraph.logical.plan import Choice
from semgraph.semantic.contract import Observed, RowEstimate
from semgraph.semantic.library import Library
from tests.operators.cases import answers, ask, reference

GOOD = '''
"""Everything is kept."""
from semgraph.operator import Cost, Implementation, Outcome, SemFilter, dataclass

@dataclass(frozen=True)
class Keep(Implementation[SemFilter]):
    share: float = 1.0
    how: str = "all"

    def estimate(self, node, rows, seen):
        return Cost(0)

    async def answer(self, node, rows, ctx):
        return [Outcome({"keep": True})] * len(rows.items)
'''


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(textwrap.dedent(text).strip() + "\n")
    return file


def get(library: Library, operator: str, choice: str, step: str = "") -> Any:
    return library.get(operator, Choice.parse(choice), step)


def refusal(library: Library, operator: str, choice: str, step: str = "") -> str:
    with pytest.raises(PlanError) as error:
        get(library, operator, choice, step)
    return str(error.value)


def test_the_shipped_ways_are_listed_the_reference_first() -> None:
    listed = {
        op: Library().list(op)
        for op in ("sem_map", "sem_filter", "sem_join", "sem_agg", "sem_topk")
    }
    assert listed["sem_map"][0].signature == "per_row"
    assert {"packed(rows=20)", "reflexion(rounds=1)"} < {one.signature for one in listed["sem_map"]}
    assert [one.signature for one in listed["sem_join"]][:1] == ["nested_loop"]
    assert "block(left=null, right=null, pairs=null)" in [
        one.signature for one in listed["sem_join"]
    ]
    assert [one.name for one in listed["sem_topk"]][:1] == ["pointwise"]
    for operator, ways in listed.items():
        assert [one.reference for one in ways] == [True] + [False] * (len(ways) - 1)
        assert ways[0].same
        assert ways[0].name == Library.reference(operator).name
        assert all(one.doc.endswith(".") and "\n" not in one.doc for one in ways)


def test_a_choice_sets_parameters() -> None:
    block = get(Library(), "sem_join", "block(left=10)")
    assert (block.left, block.right) == (10, None)
    assert get(Library(), "sem_join", "block(left=10)") == block


@pytest.mark.parametrize(
    ("operator", "choice", "said"),
    [
        (
            "sem_join",
            "blok",
            ('step link: unknown implementation "blok" of sem_join. Implementations: nested_loop, block(left, right, pairs), '
            'cascade(left, right, jaccard, reject, accept, pairs, proxy, role), logit(threshold, labels, split), lotus(reasoning). '
            'Did you mean "block"?'),
        ),
        ("sem_map", "packed(row=3)", 'step link: packed has no parameter "row". Its parameters: rows. Did you mean "rows"?'),
        ("sem_map", "packed(rows=few)", 'step link: packed: rows must be a whole number, not "few"'),
        ("sem_map", "packed(rows=true)", "step link: packed: rows must be a whole number, not true"),
        ("sem_map", "packed(rows=1.5)", "step link: packed: rows must be a whole number, not 1.5"),
        ("sem_join", "block(left=x)", 'step link: block: left must be a whole number or null, not "x"'),
        ("sem_map", "packed(rows=0)", "step link: packed(rows=0): rows must be at least 1"),
        ("sem_agg", "tree(fan_in=1)", "step link: tree(fan_in=1): fan_in must be at least 2"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_choice_is_said(operator: str, choice: str, said: str) -> None:
    assert refusal(Library(), operator, choice, "link") == said


def test_all_that_is_wrong_with_the_parameters_is_said_at_once() -> None:
    with pytest.raises(PlanError) as error:
        get(Library(), "sem_join", "block(left=x, rows=1)")
    assert len(error.value.problems) == 2


def test_a_folder_that_the_user_names_adds_ways(tmp_path: Path) -> None:
    file = write(tmp_path, "sem_filter/keep.py", GOOD)
    write(tmp_path, "sem_filter/_shared.py", "raise RuntimeError('private files are not run')")
    library = Library([tmp_path])
    assert {one.name for one in library.list("sem_filter")} == {
        one.name for one in Library().list("sem_filter")
    } | {"keep"}
    assert get(library, "sem_filter", "keep(share=1, how=some)").share == 1
    assert get(library, "sem_filter", f"{file}(share=0.5)").share == 0.5
    assert refusal(library, "sem_filter", "keep(how=3)") == "keep: how must be text, not 3"
    rows = asyncio.run(ask(Case("sem_filter", ["a", "b"]), "keep", library=library))
    assert [row["keep"] for row in answers(rows)] == [True, True]


def test_code_is_run_from_named_folders_only(tmp_path: Path) -> None:
    file = write(tmp_path, "sem_filter/keep.py", "raise RuntimeError('run')")
    said = refusal(Library(), "sem_filter", str(file))
    assert said.startswith(f'"{file}" is in no folder that code is run from. Folders: ')
    assert "<folder>/sem_filter/<name>.py" in said
    with pytest.raises(PlanError, match="no folder"):
        Library([tmp_path / "none"])


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "sem_filter/packed.py", GOOD)
    with pytest.raises(
        PlanError,
        match=r'two files are sem_filter "packed": .*operators/sem_filter/packed\.py and ',
    ):
        Library([tmp_path])


def test_a_folder_named_twice_is_one(tmp_path: Path) -> None:
    write(tmp_path, "sem_filter/keep.py", GOOD)
    assert get(Library([tmp_path, f"{tmp_path}/sem_filter/.."]), "sem_filter", "keep")


def test_files_of_one_name_in_two_places_do_not_meet(tmp_path: Path) -> None:
    write(tmp_path / "a", "sem_filter/keep.py", GOOD)
    write(tmp_path / "b", "sem_filter/keep.py", GOOD.replace("1.0", "0.5"))
    assert get(Library([tmp_path / "a"]), "sem_filter", "keep").share == 1.0
    assert get(Library([tmp_path / "b"]), "sem_filter", "keep").share == 0.5


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\ny = no_such_name", "{file}:2: NameError: name 'no_such_name' is not defined. Correct the file"),
        ("import semgraph\n\ndef f(:\n", "{file}:3: SyntaxError: "),
        ("import no_such_module", "{file}:1: ModuleNotFoundError: "),
        ("x = 1", "{file}: a file holds one implementation, this one holds none. Write class Name(Implementation[SemFilter])"),
        (GOOD + GOOD.replace("Keep", "Other"), "{file}: a file holds one implementation, this one holds Keep, Other"),
        (GOOD.replace("SemFilter", "SemMap"), "{file}: Keep is for SemMap, but its folder is sem_filter"),
        (GOOD.replace("async def answer", "async def reply"), "{file}: Keep lacks the method answer"),
        (GOOD.replace("@dataclass(frozen=True)", ""), "{file}: Keep is no dataclass, so it has no parameters. Write @dataclass"),
        (GOOD.replace("@dataclass(frozen=True)", "@dataclass"), "{file}:4: TypeError: cannot inherit non-frozen dataclass"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_said_with_its_place(
    tmp_path: Path, text: str, said: str
) -> None:
    file = write(tmp_path, "sem_filter/keep.py", text)
    library = Library([tmp_path])
    assert said.format(file=file) in refusal(library, "sem_filter", "keep", "s")
    assert "Error" not in said or not [
        name for name in sys.modules if str(tmp_path) in str(sys.modules[name])
    ]
    assert (
        'Did you mean "packed"?'.lower() in refusal(library, "sem_filter", "paked").lower()
    )  # others can still be chosen


def test_a_required_parameter_must_be_given(tmp_path: Path) -> None:
    write(tmp_path, "sem_filter/keep.py", GOOD.replace(" = 1.0", ""))
    assert (
        refusal(Library([tmp_path]), "sem_filter", "keep")
        == "keep needs share. Write keep(share=...)"
    )
    assert get(Library([tmp_path]), "sem_filter", "keep(share=2)").share == 2


def test_the_example_in_the_docstring_of_the_module_for_authors_works(tmp_path: Path) -> None:
    doc = inspect.getdoc(semgraph.operator) or ""
    example = doc.split("`sorted_block(rows=20)`:\n\n", 1)[1].split("\n\nThe file decides", 1)[0]
    code = textwrap.dedent(
        "\n".join(
            f"    {line}" if line.startswith('"""') else line for line in example.splitlines()
        )
    )
    assert len([line for line in code.splitlines() if line.strip()]) <= 12
    write(tmp_path, "sem_join/sorted_block.py", code)
    library = Library([tmp_path])
    case = Case("sem_join", ["b2", "a1", "b1", "a2"], others=["a9", "b9", "c9"])
    ours = asyncio.run(ask(case, "sorted_block(rows=2)", library=library))
    assert answers(ours) == answers(asyncio.run(ask(case, "nested_loop")))


def test_everything_that_authors_need_is_exported() -> None:
    for name in semgraph.operator.__all__:
        assert getattr(semgraph.operator, name) is not None


ESTIMATES = [
    ("sem_map", "per_row", RowEstimate(100, 0, 100, 0), 100, 1),
    ("sem_map", "packed", RowEstimate(100, 0, 100, 0), 5, 1),
    ("sem_filter", "packed(rows=30)", RowEstimate(100, 0, 100, 0), 4, 1),
    ("sem_join", "nested_loop", RowEstimate(20, 20, 400, 0), 400, 1),
    ("sem_join", "block(left=10, right=10)", RowEstimate(20, 20, 400, 0), 4, 1),
    ("sem_join", "block(left=1)", RowEstimate(20, 20, 400, 0), 20, 1),
    ("sem_join", "block", RowEstimate(20, 20, 400, 0), 2, 1),
    ("sem_join", "block", RowEstimate(0, 0, 0, 0), 0, 1),
    ("sem_agg", "single", RowEstimate(90, 0, 90, 3), 3, 1),
    ("sem_agg", "tree(fan_in=5)", RowEstimate(90, 0, 90, 3), 27, 3),
    ("sem_agg", "tree", RowEstimate(0, 0, 0, 0), 0, 0),
    ("sem_agg", "fold(rows=10)", RowEstimate(90, 0, 90, 3), 9, 3),
    ("sem_topk", "pointwise", RowEstimate(50, 0, 50, 1), 50, 1),
    ("sem_topk", "listwise", RowEstimate(50, 0, 50, 1), 4, 2),
    ("sem_map", "reflexion", RowEstimate(100, 0, 100, 0), 200, 2),
    ("sem_filter", "cascade", RowEstimate(100, 0, 100, 0), 5, 1),
    ("sem_map", "vote", RowEstimate(100, 0, 100, 0), 500, 1),
    ("sem_filter", "vote(samples=3)", RowEstimate(100, 0, 100, 0), 300, 1),
]  # fmt: skip


@pytest.mark.parametrize(("operator", "way", "rows", "calls", "rounds"), ESTIMATES)
def test_estimates(operator: str, way: str, rows: RowEstimate, calls: float, rounds: float) -> None:
    node = Case(operator, []).node()
    cost = get(Library(), operator, way).estimate(node, rows, None)
    assert (cost.calls, cost.rounds, cost.tokens_in) == (calls, rounds, None)
    seen = get(Library(), operator, way).estimate(node, rows, Observed(7, 3, 0.5))
    asked = calls if way.startswith(("reflexion", "vote")) else rows.items
    assert (seen.tokens_in, seen.tokens_out) == (7 * asked, 3 * asked)


@pytest.mark.parametrize(("operator", "way", "rows", "calls", "rounds"), ESTIMATES)
def test_estimates_of_evenly_sized_work_are_exact(
    operator: str, way: str, rows: RowEstimate, calls: float, rounds: float
) -> None:
    n = int(rows.left)
    groups = [i % max(int(rows.groups), 1) for i in range(n)]
    case = Case(operator, [f"{'abc'[i % 3]}{i}" for i in range(n)], group=groups)
    case.others = [f"x{j}" for j in range(int(rows.right))]
    llm = Oracle(mind(operator))
    asyncio.run(ask(case, way, llm))
    assert len(llm.requests) == calls


def test_listwise_refuses_more_rows_than_half_a_window() -> None:
    listwise = get(Library(), "sem_topk", "listwise(window=3)")
    said = listwise.refuses(Case("sem_topk", []).node(), Limits())
    assert said == "windows of 3 return at most 1 rows, not 2; use listwise(window=4)"
    assert (
        get(Library(), "sem_topk", "listwise(window=4)").refuses(
            Case("sem_topk", []).node(), Limits()
        )
        is None
    )
    assert reference("sem_topk") == "pointwise"


def test_a_file_that_was_edited_is_loaded_anew(tmp_path: Path) -> None:
    write(tmp_path, "sem_filter/keep.py", GOOD)
    assert get(Library([tmp_path]), "sem_filter", "keep").how == "all"
    write(tmp_path, "sem_filter/keep.py", GOOD.replace('"all"', '"some"'))
    assert get(Library([tmp_path]), "sem_filter", "keep").how == "some"
