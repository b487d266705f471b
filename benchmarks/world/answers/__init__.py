"""From a question to its answer, as a document in the requested form."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from benchmarks.world.answers import memory, raptor, reading
from benchmarks.world.answers.answering import answered
from benchmarks.world.answers.fields import Source, combined, filled
from benchmarks.world.answers.gathering import GROUPS
from benchmarks.world.answers.memory import Answer
from benchmarks.world.answers.words import halves, holds, relation, strength
from benchmarks.world.noise import Draw
from benchmarks.world.requests import NotUnderstood, Question, Record

Row = Callable[[str, Record], Answer]


def document(question: Question, row: Row, noise: Draw) -> dict[str, Any]:
    """The answer to a question.

    Args:
        question: The question.
        row: Answers one of the plans' questions about one record.
        noise: The errors of the answer.
    """
    schema = question.schema
    match question.form:
        case "row":
            told = _of_row(question, question.lefts[1], row, noise, 1)
            return told if question.given is None else _missed(told, question.given)
        case "records":
            each = question.lefts.items()
            return {"answers": [{"id": n, **_of_row(question, r, row, noise, n)} for n, r in each]}
        case "pair":
            ((pair, values),) = _of_pairs(question)
            values = noise.verdict(values, schema, *pair)
            told = {name: (values or {}).get(name) for name in schema}
            return {"match": values is not None, **told}
        case "block":
            found = ((pair, noise.verdict(v, schema, *pair)) for pair, v in _of_pairs(question))
            matches = [{"left": a, "right": b, **v} for (a, b), v in found if v is not None]
            return {"matches": matches}
        case "window":
            return {"ranking": noise.ranking(_ranked(question))}
    found = _of_group(question)
    if question.prompt == "sum_up_passages":
        found = raptor.without(found, noise.overlooks)
    return noise.answer(found, schema, 1)


def _of_row(question: Question, record: Record, row: Row, noise: Draw, number: int) -> Answer:
    """The answer about one record, with its errors."""
    if question.shipped and question.skill == "answer sources":
        found = answered(record, lambda *key: noise.overlooks(number, *key))
    else:
        found = _true(question, record, row)
    return noise.answer(found, question.schema, number)


def _true(question: Question, record: Record, row: Row) -> Answer:
    """The answer about one record, without errors."""
    if question.shipped and "said" in record and "known" in record:
        return row("read", record)
    if question.shipped and question.skill == "attributes":
        return reading.attributes(record, question.schema["attributes"])
    if question.shipped and question.skill in memory.ROWS:
        return row(question.skill, record)
    words = "" if question.form == "row" else question.words(record)
    return _in_words(question, f"{question.said}{words}")


def _missed(told: Answer, given: Record) -> Answer:
    """The entries that an earlier answer lacks, and the right form of its other values."""
    return {
        name: [entry for entry in value if entry not in given.get(name, [])]
        if isinstance(value, list)
        else value
        for name, value in told.items()
    }


def _in_words(question: Question, asked: str) -> Answer:
    """The answer to a question in words: a filter's, a score, or fields."""
    schema, rules = question.schema, question.rules
    if question.skill == "score":
        return {"score": strength(asked, rules)}
    first = next(iter(schema), "")
    if first == "answer" and set(schema[first].get("enum", ())) == {"yes", "no"}:
        others = {name: kind for name, kind in schema.items() if name != "answer"}
        rest = filled(others, Source(asked, rules))
        return {"answer": "yes" if holds(asked, rules) else "no", **rest}
    return filled(schema, Source(asked, rules))


def _of_pairs(question: Question) -> Iterator[tuple[tuple[int, int], Answer | None]]:
    decide = memory.PAIRS.get(question.skill) if question.shipped else None
    for left, right in question.pairs:
        mine, other = question.lefts[left], question.rights[right]
        if decide is not None:
            yield (left, right), decide(mine, other)
        elif question.shipped:
            raise NotUnderstood(f'no rule for pairs with "{question.skill}"')
        else:
            yield (left, right), _pair_in_words(question, mine, other)


def _pair_in_words(question: Question, mine: Record, other: Record) -> Answer | None:
    """A pair in words: in one text with both, or in the words of each side."""
    if question.form == "pair":
        asked = question.said
    elif len(question.asked) == 1:
        asked = question.words(mine, other)
    else:
        left, right = Question.words(question, mine), Question.words(question, other)
        if len(question.asked) == 2:
            left, right = (_only(question, i, one) for i, one in enumerate((mine, other)))
        asked = f"Left record:\n{left}\n\nRight record:\n{right}"
    if list(question.schema) == ["verdict"]:
        found = relation(*halves(asked))
        return {"verdict": found} if found else None
    if not holds(asked, question.rules):
        return None
    return filled(question.schema, Source(asked, question.rules))


def _only(question: Question, side: int, record: Record) -> str:
    """The words about one side."""
    return replace(question, asked=(question.asked[side],)).words(record)


def _of_group(question: Question) -> Answer:
    if question.shipped:
        if question.prompt not in GROUPS:
            raise NotUnderstood(f'no rule for groups with "{question.prompt}"')
        return GROUPS[question.prompt](list(question.lefts.values()), question.context)
    earlier = [record for n, record in question.lefts.items() if n in question.parts]
    texts = [
        question.words(record) for n, record in question.lefts.items() if n not in question.parts
    ]
    return combined(question.schema, [Source(text, question.rules) for text in texts], earlier)


def _ranked(question: Question) -> list[int]:
    """The numbers of the records, the one that fits best first; equal ones by number."""
    scores = {
        n: strength(question.words(record), question.rules) for n, record in question.lefts.items()
    }
    return sorted(scores, key=lambda n: (-scores[n], n))
