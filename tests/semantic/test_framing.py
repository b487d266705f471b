"""How rows are put to a model, word for word."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semgraph.conformance.cases import Mind, Oracle
from semgraph.errors import EngineError
from semgraph.expr.types import parse_type
from semgraph.llm.base import Limits, Request
from semgraph.logical.prompt import Prompt, PromptSet, Template
from semgraph.logical.relational import Input
from semgraph.logical.semantic import SemAgg, Semantic, SemFilter, SemJoin, SemMap, SemTopk
from semgraph.meter import StepMetrics
from semgraph.semantic.context import Context
from semgraph.semantic.contract import Block, Item, Outcome, Part, Rows
from semgraph.semantic.prompt.builder import json_line
from tests.operators.cases import NoEmbedder

PEOPLE = pa.schema([("name", pa.string()), ("born", pa.date32())])


def read(text: str, returns: dict[str, str] | None = None, **more: Any) -> Prompt:
    """A prompt from its sections, written as in a file."""
    sections = dict(part.split("\n", 1) for part in text.strip().removeprefix("# ").split("\n# "))
    return Prompt(
        "p",
        tuple((name, parse_type(kind)) for name, kind in (returns or {}).items()),
        rules=sections.get("rules", ""),
        examples=sections.get("examples", ""),
        **{
            name: Template.parse(sections.get(name, "").strip())
            for name in ("context", "item", "other")
        },
        **more,
    )


def people(*names: str | None) -> pa.Table:
    born = [None if name is None else date(1815, 12, len(name)) for name in names]
    return pa.table({"name": pa.array(names, pa.string()), "born": pa.array(born, pa.date32())})


def items(**columns: list[int]) -> list[Item]:
    rows = zip(*columns.values(), strict=True)
    return [Item(**dict(zip(columns, row, strict=True))) for row in rows]


def node(kind: type[Semantic], prompt: Prompt, **more: Any) -> Any:
    source = Input(name="people", columns=PEOPLE, step="people")
    return kind(input=source, prompt=PromptSet((("", prompt),)), step="asked", **more)


async def sent(
    asked: Semantic, rows: Rows, blocks: list[Block], limits: Limits | None = None
) -> list[Request]:
    """The requests of the first round for some blocks."""
    llm = Oracle(Mind(answer=lambda _: {"answer": "yes"}), limits or Limits())
    async with Context(llm, NoEmbedder(), asked, StepMetrics()) as ctx:  # type: ignore[arg-type]
        if asked.keyword == "sem_agg":
            await ctx.ask_groups(asked, rows, [Part(0, block) for block in blocks])
        elif len(blocks[0]) > 1 and asked.keyword == "sem_topk":
            await ctx.ask_rankings(asked, rows, blocks)
        else:
            await ctx.ask_packed(asked, rows, blocks)
    return llm.requests


def texts(request: Request) -> list[str]:
    assert [m.role for m in request.messages] == ["system", "user"]
    return [m.content for m in request.messages]


DATES = read(
    """
# rules
Say when it was.
# examples
Ada: 1815
# context
Today is Monday.
# item
When was {name} born? Not {born}.
""",
    {"at": "timestamp null"},
    describe=(("at", "the first moment of the day"),),
    role="small",
    max_tokens=50,
)


async def test_one_row_is_put_in_the_prompt_s_words() -> None:
    (request,) = (
        await sent(
            node(SemMap, DATES), Rows(people("Ada"), None, items(left=[0]), ["g"], [0]), [[0]]
        )
    )[:1]
    assert texts(request) == [
        (
            "Say when it was.\n\nAda: 1815\n\n"
            'Answer with one JSON object and nothing else:\n{"at": "YYYY-MM-DDThh:mm:ssZ" or null}\nat: the first moment of the day'
        ),
        "Today is Monday.\n\nWhen was Ada born? Not 1815-12-03.",
    ]
    assert (request.role, request.max_tokens, request.partition, request.step) == (
        "small",
        50,
        "g",
        "asked",
    )
    assert (
        json.loads(request.schema)["properties"]["at"]["description"]
        == "the first moment of the day"
    )


async def test_several_rows_are_records_and_the_question_is_stated_once() -> None:
    rows = Rows(people("Ada", None, 'B"\n3. {}'), None, items(left=[0, 1, 2]), ["g"] * 3, [0] * 3)
    (request,) = (await sent(node(SemMap, DATES), rows, [[0, 1, 2]]))[:1]
    assert texts(request) == [
        (
            "Say when it was.\n\nAda: 1815\n\n"
            "Numbered records follow, each a JSON object on a line of its own. "
            "Answer for each record by itself, as if it were the only one. "
            "The examples above are of one record each; the form of the answer is given below.\n\n"
            "The question for each record, where <field> stands for the record's value:\nWhen was <name> born? Not <born>.\n\n"
            "Answer with one JSON object and nothing else, with one answer for every record:\n"
            '{"answers": [{"id": integer, "at": "YYYY-MM-DDThh:mm:ssZ" or null}, ...]}\n'
            "id: the number of the record\nat: the first moment of the day"
        ),
        (
            "Today is Monday.\n\nRecords:\n"
            '1. {"name":"Ada","born":"1815-12-03"}\n'
            '2. {"name":null,"born":null}\n'
            '3. {"name":"B\\"\\n3. {}","born":"1815-12-08"}'
        ),
    ]
    assert request.max_tokens == 150


async def test_a_question_of_values_alone_is_not_stated() -> None:
    asked = node(SemFilter, read("# rules\nIs it a name?\n# item\n“{name}”"))
    rows = Rows(people("Ada", "b"), None, items(left=[0, 1]), ["g"] * 2, [0] * 2)
    (request,) = (await sent(asked, rows, [[0, 1]]))[:1]
    assert texts(request)[0] == (
        "Is it a name?\n\n"
        "Numbered records follow, each a JSON object on a line of its own. "
        "Answer for each record by itself, as if it were the only one.\n\n"
        "Answer with one JSON object and nothing else, with one answer for every record:\n"
        '{"answers": [{"id": integer, "answer": "yes" or "no"}, ...]}\n'
        "id: the number of the record"
    )


SAME = {"verdict": "enum<same, near>"}


def joined(prompt: Prompt) -> Any:
    return node(
        SemJoin, prompt, other=Input(name="others", columns=PEOPLE, step="others"), alias="c"
    )


def pairs(*found: tuple[int, int]) -> Rows:
    both = items(left=[i for i, _ in found], right=[j for _, j in found])
    return Rows(people("Ada", "Bo"), people("ada", "Lovelace", "bob"), both, ["g"] * 2, [0] * 2)


async def test_one_pair_is_put_in_the_prompt_s_words() -> None:
    asked = joined(
        read("# rules\nOne person?\n# item\nNew: {name}\n# other\nKnown: {name}, {born}", SAME)
    )
    (request,) = (await sent(asked, pairs((0, 1)), [[0]]))[:1]
    assert texts(request) == [
        (
            "One person?\n\nAnswer with one JSON object and nothing else; what follows match is null if match is false:\n"
            '{"match": true or false, "verdict": "same" or "near" or null}\n'
            "match: true if the answer is yes or the statement holds, else false"
        ),
        "Left record:\nNew: Ada\n\nRight record:\nKnown: Lovelace, 1815-12-08",
    ]


async def test_a_block_of_pairs_lists_each_row_once_and_names_what_is_compared() -> None:
    asked = joined(
        read("# rules\nOne person?\n# item\nNew: {name}\n# other\nKnown: {name}, {born}", SAME)
    )
    rows = pairs((0, 0), (0, 2), (1, 0), (1, 1), (1, 2))
    (request,) = (await sent(asked, rows, [[0, 1, 2, 3, 4]]))[:1]
    assert texts(request) == [
        (
            "One person?\n\n"
            "Numbered records follow, each a JSON object on a line of its own. "
            'For each left record, find the right records that match it, among those that are named after its "compare with". '
            "A pair matches if the answer to the question about it is yes. Judge each pair as if it were the only one.\n\n"
            "About a left record, where <field> stands for its value:\nNew: <name>\n\n"
            "About a right record, where <field> stands for its value:\nKnown: <name>, <born>\n\n"
            "Answer with one JSON object and nothing else. List the pairs that match, and no others:\n"
            '{"matches": [{"left": integer, "right": integer, "verdict": "same" or "near"}, ...]}\n'
            "left: the number of the left record\nright: the number of the right record\n"
            "If no pair matches, the list is empty."
        ),
        (
            "Left records:\n"
            '1. {"name":"Ada"} compare with: 101, 102\n'
            '2. {"name":"Bo"} compare with: all\n\n'
            "Right records:\n"
            '101. {"name":"ada","born":"1815-12-03"}\n'
            '102. {"name":"bob","born":"1815-12-03"}\n'
            '103. {"name":"Lovelace","born":"1815-12-08"}'
        ),
    ]


async def test_a_question_may_name_the_other_row_by_its_alias() -> None:
    asked = joined(read("# item\nIs {name} also {c.name}?"))
    single = (await sent(asked, pairs((0, 1)), [[0]]))[0]
    assert texts(single)[1] == "Is Ada also Lovelace?"
    packed = (await sent(asked, pairs((0, 0), (1, 0)), [[0, 1]]))[0]
    assert (
        "The question for each pair, where <field> stands for the value in its left or right record:\n"
        "Is <name> also <c.name>?\n\n"
    ) in texts(packed)[0]
    assert texts(packed)[1].endswith('Right records:\n101. {"c.name":"ada"}')


async def test_a_group_is_asked_about_as_a_whole_earlier_answers_are_marked() -> None:
    asked = node(
        SemAgg, read("# rules\nSum up.\n# item\n{name} lived.", {"note": "string"}), by=("born",)
    )
    rows = Rows(people("Ada", "Bo"), None, items(group=[0, 0], left=[0, 1]), ["g"] * 2, [0] * 2)
    (request,) = (await sent(asked, rows, [[0, 1]]))[:1]
    assert texts(request) == [
        (
            "Sum up.\n\n"
            "Numbered records follow, each a JSON object on a line of its own. "
            "They belong together. Answer once, for all of them.\n\n"
            "The question, where <field> stands for a record's value:\n<name> lived.\n\n"
            'Answer with one JSON object and nothing else:\n{"note": string}'
        ),
        'Records:\n1. {"name":"Ada"}\n2. {"name":"Bo"}',
    ]
    earlier = Outcome({"note": "One\nlived."}, None, ("call-1",))
    (request,) = (await sent(asked, rows, [[earlier, 1]]))[:1]  # type: ignore[list-item]
    assert (
        "They belong together. A record with the word `part` before it is the answer that was given earlier for some of "
        "them. Answer once, for all of them."
    ) in texts(request)[0]
    assert texts(request)[1] == 'Records:\n1. part {"note":"One\\nlived."}\n2. {"name":"Bo"}'


async def test_a_window_is_ranked() -> None:
    asked = node(SemTopk, read("# item\nHow famous is {name}?"), k=1)
    rows = Rows(people("Ada", "Bo"), None, items(group=[0, 0], left=[0, 1]), ["g"] * 2, [0] * 2)
    (request,) = (await sent(asked, rows, [[0, 1]]))[:1]
    assert texts(request) == [
        (
            "Numbered records follow, each a JSON object on a line of its own. "
            "Rank them: the record that fits best comes first.\n\n"
            "What they are to fit, where <field> stands for a record's value:\nHow famous is <name>?\n\n"
            'Answer with one JSON object and nothing else:\n{"ranking": [integer, ...]}\n'
            "ranking: the numbers of all records, each once, the best first"
        ),
        'Records:\n1. {"name":"Ada"}\n2. {"name":"Bo"}',
    ]


async def test_answers_whose_names_are_taken_get_other_keys() -> None:
    returns = {"id": "string", "left": "int64"}
    asked = node(SemMap, read("# item\nName {name}.", returns))
    rows = Rows(people("Ada", "Bo"), None, items(left=[0, 1]), ["g"] * 2, [0] * 2)
    (request,) = (await sent(asked, rows, [[0, 1]]))[:1]
    assert '[{"id_": integer, "id": string, "left": integer}, ...]' in texts(request)[0]
    request = (
        await sent(
            joined(read("# item\n{name}\n# other\n{name}", returns)),
            pairs((0, 0), (1, 0)),
            [[0, 1]],
        )
    )[0]
    assert (
        '[{"left_": integer, "right": integer, "id": string, "left": integer}, ...]'
        in texts(request)[0]
    )


@given(st.dictionaries(st.text(), st.none() | st.text() | st.integers() | st.lists(st.text())))
def test_a_record_is_one_line_of_json_whatever_is_in_it(values: dict[str, Any]) -> None:
    line = json_line(values)
    assert line.splitlines() == [line]
    assert json.loads(line) == values


def test_times_in_records_are_iso_8601_also_inside() -> None:
    at = datetime(2024, 2, 29, 12, tzinfo=UTC)
    line = json_line({"at": at, "seen": [{"on": date(2024, 2, 29), "at": at}]})
    assert (
        line
        == '{"at":"2024-02-29T12:00:00Z","seen":[{"at":"2024-02-29T12:00:00Z","on":"2024-02-29"}]}'
    )


async def test_an_item_in_no_block_is_the_implementation_s_fault() -> None:
    rows = Rows(people("Ada", "Bo"), None, items(left=[0, 1]), ["g"] * 2, [0] * 2)
    with pytest.raises(EngineError, match="step asked: item 1 is in no block"):
        await sent(node(SemFilter, read("# item\n{name}")), rows, [[0]])


@pytest.mark.parametrize(("items_in_a_block", "tokens"), [(1, 200), (2, 400), (4, 600)])
async def test_the_answers_of_a_block_may_be_as_long_together_as_the_model_says(
    items_in_a_block: int, tokens: int
) -> None:
    asked = node(SemMap, read("# item\n{name}", {"note": "string"}, max_tokens=200))
    n = items_in_a_block
    rows = Rows(people(*["Ada"] * n), None, items(left=list(range(n))), ["g"] * n, [0] * n)
    limits = Limits(context_tokens=5000, max_output_tokens=600)
    assert (await sent(asked, rows, [list(range(n))], limits))[0].max_tokens == tokens


async def test_answers_of_bounded_length_take_no_more_room_than_they_need() -> None:
    asked = node(SemFilter, read("# item\n{name}", max_tokens=200))
    rows = Rows(people(*["Ada"] * 30), None, items(left=list(range(30))), ["g"] * 30, [0] * 30)
    request = (await sent(asked, rows, [list(range(30))]))[0]
    assert 30 * 20 < request.max_tokens < 30 * 60


@pytest.mark.parametrize("block", [[0], [0, 1]])
async def test_a_filter_answers_before_it_decides(block: list[int]) -> None:
    prompt = read("# item\nIs {name} known?", {"why": "string", "answer": "string"})
    rows = Rows(people("Ada", "Bob"), None, items(left=[0, 1]), ["g", "g"], [0, 0])
    request = (await sent(node(SemFilter, prompt), rows.only(block), [block]))[0]
    own = '"why": string, "answer": string, "answer_": "yes" or "no"}'
    assert own in texts(request)[0]
    schema = json.loads(request.schema)
    entry = schema["properties"].get("answers", {}).get("items", schema)
    assert list(entry["properties"])[-3:] == ["why", "answer", "answer_"]


async def test_a_filter_with_answers_is_never_asked_for_one_word() -> None:
    rows = Rows(people("Ada"), None, items(left=[0]), ["g"], [0])
    one, other = (read("# item\nIs {name} known?", returns) for returns in ({}, {"why": "string"}))
    limits = Limits(yes_no="word")
    words = [(await sent(node(SemFilter, p), rows, [[0]], limits))[0].words for p in (one, other)]
    assert [bool(word) for word in words] == [True, False]
