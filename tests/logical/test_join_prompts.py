"""What the prompts of a sem_join may name of the other row, and the names that answers may not
have.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from semgraph.errors import Fault
from semgraph.expr.types import Type
from semgraph.logical.prompt import Prompt, PromptSet, Template
from semgraph.logical.relational import Input
from semgraph.logical.semantic import SemJoin, SemMap

COLUMNS = pa.schema([("name", pa.string()), ("c", pa.struct([("name", pa.string())]))])


def join(item: str, other: str = "", *returns: str, alias: str = "known") -> SemJoin:
    answers = tuple((name, Type("string")) for name in returns)
    prompt = Prompt("same", answers, item=Template.parse(item), other=Template.parse(other))
    left = Input(name="l", columns=pa.schema([("name", pa.string())]))
    return SemJoin(
        input=left,
        other=Input(name="r", columns=COLUMNS),
        alias=alias,
        prompt=PromptSet((("", prompt),)),
        step="s",
    )


def test_the_section_other_names_columns_of_the_other_relation() -> None:
    node = join("{name}", "{name} {c.name}")
    assert node.prompt.fields == ("name",)
    assert node.prompt.other_fields == ("name", "c.name")


def test_the_alias_names_columns_of_the_other_row_within_the_question() -> None:
    node = join("Is {name} also {known.name} or {known.c.name}?")
    assert node.prompt.fields == ("name",)
    assert node.reads == {"name"}
    assert node.prompt.other_fields == ("name", "c.name")
    assert node.prompt.first.shared_fields == (("known.name", "name"), ("known.c.name", "c.name"))


def test_the_same_question_under_another_alias_is_another_question() -> None:
    assert join("{name}", "{name}").fingerprint != join("{name}", "{name}", alias="k").fingerprint


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("Is {name} famous?",), 'prompt "same" names no column of the other row'),
        (("Is {name} also {known.nme}?",), 'prompt "same": no column "nme"'),
        (("{c.name} {name}", "{c.name}"), '"c.name" means two things'),
        (("{name}", "{name}", "match"), 'returns "match", a name that the engine uses itself'),
        (("{name}", "{name}", "calls"), 'returns "calls", a name that the engine uses itself'),
    ],
)
def test_what_cannot_be_asked_is_refused(arguments: tuple[Any, ...], said: str) -> None:
    with pytest.raises(Fault, match=said) as fault:
        join(*arguments, alias="c" if "{c.name} {name}" in arguments else "known")
    assert fault.value.path == ("prompt",)


@pytest.mark.parametrize("name", ["item", "error", "calls"])
def test_no_answer_is_called_as_the_engine_s_own_columns(name: str) -> None:
    prompt = Prompt("p", ((name, Type("string")),), item=Template.parse("{name}"))
    with pytest.raises(Fault, match=f'returns "{name}"'):
        SemMap(input=Input(name="l", columns=COLUMNS), prompt=PromptSet((("", prompt),)), step="s")
