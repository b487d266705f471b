"""sem_map by reflexion: the answer, then what it missed or got wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from semgraph.conformance.cases import LEFT, LIBRARY, Case, Faulty, Mind, Oracle, call_id
from semgraph.errors import PlanError, RowError
from semgraph.expr.types import parse_type
from semgraph.frontend.prompt_files import read_prompt
from semgraph.llm.base import Reply, Request
from semgraph.logical.plan import Choice
from semgraph.logical.prompt import Prompt, PromptSet, Template
from semgraph.logical.relational import Input
from semgraph.logical.semantic import SemMap
from tests.operators.cases import answers, run

WORDS = ("the", "old", "harbour", "bell")
LISTS = {"found": "list<struct<word: string>>"}


def node(returns: dict[str, str], **more: Any) -> SemMap:
    kinds = tuple((name, parse_type(kind)) for name, kind in returns.items())
    prompt = Prompt(
        "p", kinds, rules="Be exact.", item=Template.parse("Words of “{name}”?"), **more
    )
    return SemMap(
        input=Input(name="rows", columns=LEFT, step="rows"),
        prompt=PromptSet((("", prompt),)),
        step="asked",
    )


def forgetful(*rounds: list[str]) -> Mind:
    """Finds the first word, and in each review the words of the next round that were not given."""

    def review(text: str, answer: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        known = {entry["word"] for entry in given["found"]}
        said = next((words for words in rounds if not known.issuperset(words)), [])
        return {"found": [{"word": word} for word in said]}

    return Mind(answer=lambda text: {"found": [{"word": "the"}]}, review=review)


async def found(
    mind: Mind, way: str, asked: SemMap, texts: list[str] | None = None
) -> tuple[pa.Table, Oracle]:
    llm = Oracle(mind)
    case = Case("sem_map", list(texts or ["the old harbour bell"]))
    return await run(case, LIBRARY.get("sem_map", Choice.parse(way)), llm, instead=asked), llm


async def test_what_was_missed_is_added_to_a_list() -> None:
    table, llm = await found(forgetful(["old", "harbour"]), "reflexion", node(LISTS))
    assert table.column("found").to_pylist() == [[{"word": w} for w in ("the", "old", "harbour")]]
    assert len(llm.requests) == 2
    assert table.column("calls").to_pylist() == [[call_id(request) for request in llm.requests]]


@pytest.mark.parametrize(("rounds", "words", "calls"), [(1, 2, 2), (2, 3, 3), (3, 4, 4)])
async def test_a_row_is_asked_again_as_long_as_something_is_found(
    rounds: int, words: int, calls: int
) -> None:
    mind = forgetful(["old"], ["harbour"], ["bell"])
    table, llm = await found(mind, f"reflexion(rounds={rounds})", node(LISTS))
    assert [entry["word"] for entry in table.column("found").to_pylist()[0]] == list(WORDS[:words])
    assert len(llm.requests) == calls


async def test_a_row_of_which_nothing_was_missed_is_not_asked_a_third_time() -> None:
    table, llm = await found(forgetful(), "reflexion(rounds=3)", node(LISTS), ["a", "b"])
    assert table.column("found").to_pylist() == [[{"word": "the"}]] * 2
    assert len(llm.requests) == 4


async def test_records_that_differ_in_case_and_white_space_alone_are_one() -> None:
    table, _ = await found(forgetful([" THE", "Old", "old "]), "reflexion", node(LISTS))
    assert [entry["word"] for entry in table.column("found").to_pylist()[0]] == ["the", "Old"]


async def test_what_is_no_list_is_revised() -> None:
    mind = Mind(
        answer=lambda text: {"size": 3, "words": ["the"]},
        review=lambda text, answer, given: {
            "size": given["size"] + 1,
            "words": [] if given["size"] > 3 else ["old"],
        },
    )
    table, _ = await found(
        mind, "reflexion(rounds=2)", node({"size": "int64", "words": "list<string>"})
    )
    (row,) = answers(table)
    assert (row["size"], row["words"], row["error"]) == (5, ["the", "old"], None)


async def test_an_answer_that_is_a_list_or_nothing_may_become_a_list() -> None:
    mind = Mind(
        answer=lambda text: {"words": None}, review=lambda text, answer, given: {"words": ["old"]}
    )
    table, _ = await found(mind, "reflexion", node({"words": "list<string> null"}))
    assert table.column("words").to_pylist() == [["old"]]


async def test_the_second_question_shows_row_and_answer_and_says_what_is_wanted() -> None:
    _, llm = await found(forgetful(), "reflexion", node(LISTS))
    system, user = (message.content for message in llm.requests[1].messages)
    assert system.startswith(
        "Be exact.\n\nThe question was answered already. Look for what that answer missed"
    )
    assert (
        "in a list only what the answer given misses, an empty list if it misses nothing" in system
    )
    assert (
        user == 'Words of “the old harbour bell”?\n\nThe answer given:\n{"found":[{"word":"the"}]}'
    )


async def test_a_prompt_may_have_a_second_question_of_its_own() -> None:
    _, llm = await found(
        forgetful(), "reflexion", node(LISTS, reflexion="Were any words left out?")
    )
    first, second = (request.messages[0].content for request in llm.requests)
    assert "left out" not in first
    assert second.startswith("Be exact.\n\nWere any words left out?\n\nAnswer with one JSON object")


def test_the_second_question_is_a_section_of_the_prompt_file(tmp_path: Path) -> None:
    file = tmp_path / "words.md"
    text = "---\nreturns: {found: list<string>}\n---\n# item\n{name}\n# reflexion\nWere any words left out?\n"
    file.write_text(text)
    assert read_prompt(file).reflexion == "Were any words left out?"
    file.write_text(text.replace("left out", "left out of {name}"))
    with pytest.raises(PlanError, match='"reflexion" is the same for every row, and names {name}'):
        read_prompt(file)


async def test_a_row_whose_second_question_fails_is_that_row_s_error() -> None:
    llm = Oracle(forgetful(["old"]))

    def spoil(request: Request, reply: Reply) -> Reply:
        user = request.messages[1].content
        if "The answer given" in user and "“b”" in user:
            raise RowError("rejected", "no", attempts=1)
        return reply

    way = LIBRARY.get("sem_map", Choice.parse("reflexion"))
    table = await run(
        Case("sem_map", ["a", "b", "c"]), way, Faulty(llm, spoil), instead=node(LISTS)
    )
    assert table.column("error").to_pylist() == [None, "rejected: no", None]
    assert table.column("found").to_pylist()[1] is None
    assert len(table.column("found").to_pylist()[0]) == 2


async def test_an_invalid_second_answer_is_asked_for_once_more() -> None:
    llm = Oracle(forgetful(["old"]))
    spoiled: list[Request] = []

    def spoil(request: Request, reply: Reply) -> Reply:
        if "The answer given" in request.messages[1].content and not spoiled:
            spoiled.append(request)
            return replace(reply, text="{}")
        return reply

    way = LIBRARY.get("sem_map", Choice.parse("reflexion"))
    table = await run(Case("sem_map", ["a"]), way, Faulty(llm, spoil), instead=node(LISTS))
    assert table.column("error").to_pylist() == [None]
    assert len(llm.requests) == 3


@pytest.mark.parametrize("rounds", [0, 4])
def test_rounds_are_one_to_three(rounds: int) -> None:
    with pytest.raises(PlanError) as error:
        LIBRARY.get("sem_map", Choice.parse(f"reflexion(rounds={rounds})"), "told")
    assert str(error.value) == f"step told: reflexion(rounds={rounds}): rounds must be from 1 to 3"
