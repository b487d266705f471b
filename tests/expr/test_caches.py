"""What was read before never decides how something is read now: a value that is missing, NULL, true,
1, 1.0, "1" or a zero of either sign are six things.
"""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from semgraph.errors import Fault, PlanError
from semgraph.expr.scalar import parse_scalar
from semgraph.folders import plans_folder
from semgraph.frontend.document import Document, read_file
from semgraph.frontend.load import load_document
from semgraph.frontend.prompt_files import read_prompt
from tests.inside import forget_expressions

MISSING = object()
VALUES = [MISSING, None, True, 1, 1.0, "1", False, 0, 0.0, -0.0, "", [1], ["1"], [True], [None]]


def read(text: str, given: Any) -> str:
    try:
        return parse_scalar(text, {} if given is MISSING else {"x": given}).sql
    except Fault as fault:
        return str(fault)


@pytest.mark.parametrize("text", ["$x", "$x IS NULL", "a = $x", "a IN $x", "$x AND $now IS NULL"])
def test_an_expression_is_read_alike_in_a_fresh_and_in_a_used_process(text: str) -> None:
    fresh = []
    for given in VALUES:
        forget_expressions()
        fresh.append(read(text, given))
    forget_expressions()
    for pair in permutations(range(len(VALUES)), 2):
        assert [read(text, VALUES[i]) for i in pair] == [fresh[i] for i in pair]


def test_a_negative_zero_given_as_a_parameter_does_not_change_one_that_is_written() -> None:
    forget_expressions()
    fresh = parse_scalar("-0.0", {}).ast
    parse_scalar("$x", {"x": -0.0})
    forget_expressions()
    assert parse_scalar("-0.0", {}).ast == fresh


@pytest.mark.parametrize("text", [":x", "$ x", '$"x"', "?", "@x + :x"])
def test_a_parameter_is_written_in_one_form(text: str) -> None:
    for given in (1, 2):
        with pytest.raises(
            Fault, match="is no parameter as it is written|has no place in an expression"
        ):
            parse_scalar(text, {"x": given, "y": 3})


def test_a_prompt_file_is_read_alike_in_a_fresh_and_in_a_used_process(tmp_path: Path) -> None:
    file = tmp_path / "p.md"
    file.write_text("---\nreturns: {a: string}\n---\n# item\nSay {$x} of {name}\n")

    def said(given: Any) -> str:
        try:
            return str(read_prompt(file, {} if given is MISSING else {"x": given}).item)
        except PlanError as error:
            return str(error)

    fresh = []
    for given in VALUES:
        forget_expressions()
        fresh.append(said(given))
    for pair in permutations(range(len(VALUES)), 2):
        assert [said(VALUES[i]) for i in pair] == [fresh[i] for i in pair]


def problems(file: Path, *without: str) -> str:
    """What is wrong with a shipped plan that does not declare some of its parameters."""
    document = read_file(file)
    params = {
        name: v for name, v in (document.data.get("params") or {}).items() if name not in without
    }
    data = {**document.data, "params": params}
    try:
        load_document(Document(document.file, data, document.values, document.keys), file)
    except PlanError as error:
        return str(error)
    return ""


SHIPPED = [
    file for file in sorted(plans_folder().rglob("*.yaml")) if "plan" in read_file(file).data
]


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: str(file.relative_to(plans_folder())))
def test_a_plans_mistakes_are_found_before_and_after_it_was_loaded(file: Path) -> None:
    names = tuple(read_file(file).data.get("params") or ())
    forget_expressions()
    fresh = problems(file, *names)
    assert problems(file) == ""
    assert problems(file, *names) == fresh
