"""The shared parts of all prompt builders: rows as records, token budgets, halves of a row whose
answer is too long, and the base class, which turns rows into requests and replies into outcomes.

A request has a system message and a user message. The system message holds rules, examples, fixed
instructions, the question and the answer schema. It is equal for all rows of a prompt, so that
providers cache it. The user message holds the context, then the row or the records. A record is
JSON on one line, so that no text of a row can imitate a record or an instruction between records.
An example is a row in the words of a request about one item, then the right reply.
"""

from __future__ import annotations

import json
import re
import sys
from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
import pyarrow as pa

from semgraph.errors import EngineError, ModelLacks, RowError
from semgraph.expr.functions import canonical_json
from semgraph.expr.types import Type, object_schema, python_values
from semgraph.llm.base import Limits, Message, Reply, Request
from semgraph.logical.prompt import Prompt, Template, plain
from semgraph.logical.semantic import VERDICTS, Semantic
from semgraph.semantic.answers import AnswerSchema, Invalid, Own, as_json, free_name, read_word
from semgraph.semantic.calls import NodeCalls
from semgraph.semantic.contract import (
    Block,
    Keys,
    Outcome,
    Rows,
    Words,
    by_key,
    column_texts,
    cosines,
)

# Line separators that JSON does not escape.
_LINE_ENDS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}


# The placeholders of a prompt for one side: pairs (placeholder, column).
Placeholders = Sequence[tuple[str, str]]


class Records:
    """The rows of a table as texts and records of their prompts, by the placeholders of each
    prompt. Each is made once.
    """

    def __init__(self, table: pa.Table, placeholders: Sequence[Placeholders]) -> None:
        paths = dict.fromkeys(path for pairs in placeholders for _, path in pairs)
        self._columns = {path: python_values(table.column(path)) for path in paths}
        self._placeholders = placeholders
        self._records: dict[tuple[int, int], str] = {}
        self._texts: dict[tuple[int, int], str] = {}

    def values(self, row: int, prompt: int) -> dict[str, Any]:
        """The values of a row by placeholder."""
        return {name: self._columns[path][row] for name, path in self._placeholders[prompt]}

    def text(self, row: int, prompt: int, template: Template) -> str:
        """The row in the words of a prompt."""
        text = self._texts.get((row, prompt))
        if text is None:
            text = self._texts[row, prompt] = template.render(self.values(row, prompt))
        return text

    def record(self, row: int, prompt: int) -> str:
        """The row as JSON on one line."""
        line = self._records.get((row, prompt))
        if line is None:
            line = self._records[row, prompt] = json_line(self.values(row, prompt))
        return line


def json_line(values: Mapping[str, Any]) -> str:
    """Values as one line of JSON, in their order."""
    pairs = ((canonical_json(name), canonical_json(plain(v))) for name, v in values.items())
    return "{" + ",".join(map(":".join, pairs)).translate(_LINE_ENDS) + "}"


def numbered(records: Iterable[str], first: int = 1) -> list[str]:
    """Lines `1. {...}`."""
    return [f"{number}. {record}" for number, record in enumerate(records, first)]


def paragraphs(*parts: str) -> str:
    """Join the non-empty parts with blank lines."""
    return "\n\n".join(filter(None, map(str.strip, parts)))


_TEMPLATES = Path(__file__).parent / "templates"
_OPTIONAL = re.compile(r"\[\[(\w+):(.*?)\]\]", re.DOTALL)
_FILLED = re.compile(r"(.*)\{(\w+)\}", re.DOTALL)


@cache
def _template(name: str) -> list[list[str]]:
    """The paragraphs of a template's system message, and those of its user message."""
    text = (_TEMPLATES / f"{name}.txt").read_text(encoding="utf-8")
    return [part.strip().split("\n\n") for part in text.split("-- user --")]


def _chosen(paragraph: str, values: Mapping[str, Any]) -> str:
    """A paragraph without the optional parts that have an empty value."""
    return _OPTIONAL.sub(lambda part: part[2] if values[part[1]] else "", paragraph)


def filled(template: str, **values: Any) -> str:
    """The system message of a template."""
    system, *_ = _template(template)
    return paragraphs(*(_chosen(each, values).format_map(values) for each in system))


def question(template: Template) -> str:
    """A question with field names instead of values; empty if it has no words."""
    words = "".join(text for text, _ in template.parts)
    return template.question().strip() if any(c.isalnum() for c in words) else ""


def answer_instructions(schema: AnswerSchema) -> str:
    """The last part of a system message: the format of the answer."""
    return filled("answer", sketch=schema.sketch, glossary=schema.glossary)


# Tokens of each request reserved for the model's chat template, and for the reason of a repeated
# request.
RESERVE = 128


class TooLong(RowError):
    """The request exceeds the model's context and was not sent."""

    def __init__(self, sent: int, answer: int, limit: int) -> None:
        super().__init__(
            "too_long",
            f"the request has {sent:,} tokens and its answer may have {answer:,}, but the model takes {limit:,} in all. "
            "Send less of the row (cut(column, n)) or fewer examples, lower max_tokens in the prompt, or use a model that "
            "takes more",
        )


@dataclass(frozen=True)
class PromptHeader:
    """The static part of a prompt's requests: system message and answer schema.

    `schema` is the JSON Schema of the whole reply. `answer` describes the reply, or one item's
    entry if the reply is a list. A one-word reply (one of `words`) has no schema: `examples`
    precede the question, and the user message begins with `lead`. `user` holds the paragraphs of
    the user message: their fixed words, and the name of the text that follows these.
    """

    prompt: Prompt
    system: str
    schema: dict[str, Any]
    answer: AnswerSchema
    user: tuple[tuple[str, str], ...]
    words: tuple[str, ...] = ()
    examples: tuple[tuple[str, str], ...] = ()
    lead: str = ""

    @classmethod
    def of(
        cls, template: str, prompt: Prompt, answer: AnswerSchema, listed: str = "", **values: Any
    ) -> PromptHeader:
        """The header from a template in `templates/`; `values` are its texts that neither prompt
        nor answer provides. `listed` is the key of the list that has an answer for each item; "":
        the reply is one answer.

        A template is a complete request: `{name}` stands for a text, `[[name: ...]]` for a part
        that is omitted if the text is empty. Empty paragraphs are omitted.
        """
        values |= {"rules": prompt.rules, "examples": prompt.examples.strip()}
        values |= {"question": question(prompt.item), "glossary": answer.glossary}
        sketch, schema = answer.sketch, answer.schema
        if listed:
            sketch = f'{{"{listed}": [{sketch}, ...]}}'
            schema = object_schema({listed: {"type": "array", "items": schema}})
        values["sketch"] = sketch
        user = (_FILLED.fullmatch(_chosen(each, values)) for each in _template(template)[1])
        texts = [(match[1], match[2]) for match in user if match]
        lead = paragraphs(*(values[name] for _, name in texts if name in values))
        rest = tuple((words, name) for words, name in texts if name not in values)
        return cls(prompt, filled(template, **values), schema, answer, rest, lead=lead)

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The texts that every request contains."""
        return (self.system, *chain(*self.examples), *filter(None, [self.lead]))

    @cached_property
    def size(self) -> int:
        """The bytes of these texts."""
        return byte_size(self.texts)

    def answer_tokens(self, items: int, limits: Limits) -> int:
        """The token limit of an answer about `items` items, at least the limit for one item."""
        if self.words:
            return 1
        most = max(self.prompt.max_tokens, limits.min_output_tokens)
        entry = min(most, self.answer.tokens or most)
        return min(max(most, entry * items), limits.max_output_tokens)


class RequestBuffer:
    """The texts of one request. Their limit is the model's context minus the answer and a reserve.

    A token has at least one byte, so most texts need no tokenizer.
    """

    def __init__(self, ctx: NodeCalls, header: PromptHeader, *texts: str) -> None:
        self._ctx, self._header = ctx.of(header.prompt.role), header
        self._texts = [*header.texts, *texts]
        self._size = header.size + byte_size(texts)
        self._tokens = 0
        self._counted = 0

    def takes(self, items: int, *texts: str) -> bool:
        """Add texts if the request with `items` items stays within the limit; return whether it
        does.
        """
        limits, size = self._ctx.limits, self._size + byte_size(texts)
        free = limits.context_tokens - RESERVE - self._header.answer_tokens(items, limits)
        if size > free:
            self._tokens += sum(map(self._ctx.count_tokens, self._texts[self._counted :]))
            self._counted = len(self._texts)
            tokens = self._tokens + sum(map(self._ctx.count_tokens, texts))
            if tokens > free:
                return False
            self._tokens, self._counted = tokens, self._counted + len(texts)
        self._texts += texts
        self._size = size
        return True


def byte_size(texts: Iterable[str]) -> int:
    """Bytes of texts, with separators."""
    return sum(2 + len(t if t.isascii() else t.encode("utf-8", "surrogatepass")) for t in texts)


_SHORTEST = 100  # cut texts from this length into sentences: long answers to shorter ones repeat
_MOST_COMMON = 100  # the maximum entries of an overlap, which is one sentence or line


def lists_only(node: Semantic) -> bool:
    """Whether all answers are lists, so that the answers about two halves can be concatenated."""
    return node.keyword in {"sem_map", "sem_agg"} and all(
        kind.item is not None for _, kind in node.answers
    )


def halved_column(node: Semantic, values: Mapping[str, Any]) -> str | None:
    """The column of a row to halve; None if there is none.

    It is the longest column of records to which every list element of the answer refers exactly
    once. Without such a column it is the longest text that can be halved.
    """
    if not lists_only(node):
        return None
    named = set.intersection(*(_named_once(kind.item) for _, kind in node.answers if kind.item))
    texts = [name for name, value in values.items() if isinstance(value, str)]
    wanted = [name for name in values if name in named] or texts
    by_length = sorted(wanted, key=lambda name: -len(values[name] or ()))
    return next((name for name in by_length if half(values[name], [0]) != values[name]), None)


def _named_once(kind: Type) -> set[str]:
    """The columns of records to which a list element refers exactly once."""
    refs = [part.ref for _, part in (("", kind), *kind.fields) if part.ref and not part.nullable]
    return {ref for ref in refs if refs.count(ref) == 1}


def half(value: Any, sides: Iterable[int]) -> Any:
    """A half of a text or list, halved once per side: 0 is the first half, 1 the second.

    The second half of a text begins with the last sentence or line of the first.
    """
    is_text = isinstance(value, str)
    for side in sides:
        units = _sentences(value) if is_text else value or ()
        if len(units) > 1:
            middle = (len(units) + 1) // 2
            part = units[max(middle - is_text, 1) :] if side else units[:middle]
            value = "".join(part) if is_text else part
    return value


def _sentences(text: str) -> list[str]:
    from sentencex import segment

    sentences = segment("en", text) if len(text) >= _SHORTEST else [text]
    return [line for part in sentences for line in part.splitlines(keepends=True)]


def joined(node: Semantic, first: Outcome, second: Outcome, *, overlap: bool) -> Outcome:
    """The outcome of two halves: the lists of both, or the error of one.

    If the halves `overlap`, the shortest run of entries that ends the first list and begins the
    second is in the result once.
    """
    if first.values is None or second.values is None:
        return first if first.values is None else second
    values: dict[str, Any] = {}
    for name, kind in node.answers:
        before, more = first.values[name] or [], second.values[name] or []
        runs = range(1, _MOST_COMMON + 1) if overlap else ()
        common = next((n for n in runs if before[-n:] == more[:n]), 0)
        entries = [*before, *more[common:]]
        if kind.item is not None and kind.item.ref:  # a list has each number once
            entries = list(dict.fromkeys(entries))
        values[name] = entries or second.values[name]
    return Outcome(values)


UNASKED = "unasked"  # the kind of error with which a dry run answers a request
_LONGEST_REASON = 160
_GROWTH = 4  # the maximum growth of an answer's token limit, if the model's maximum is unknown
_MOST_SPLITS = 5  # into 32 parts
_ALLOW_MORE = (
    "If the model gives longer answers, set its option max_output, or context for a local model "
    '(--llm "…?max_output=32000"); else send less of the row'
)


class Work(NamedTuple):
    """A request to make: its items, and the `reason` why the last answer was invalid.

    `sample` is the number of the sample if a question is asked several times. After a truncated
    answer, `limit` is the token limit of the next answer, and `half` the half to ask about: 0 or 1
    for each split.
    """

    items: tuple[int, ...]
    reason: str = ""
    alone: bool = False
    sample: int = 0
    limit: int = 0
    half: tuple[int, ...] = ()


_REPLY_FIELDS = {
    # Small models understand yes and no, but misread a boolean called "keep" as advice about the
    # row.
    "sem_filter": ("answer", Type("enum", values=("yes", "no")), ""),
    "sem_topk": (
        "score",
        Type("double"),
        "how well it fits, from 0 (not at all) to 100 (perfectly)",
    ),
}


def verdict_of(node: Semantic, taken: Sequence[str]) -> list[Own]:
    """The verdict field of the operator. Answers precede it, so that a model reasons before it
    decides.
    """
    if node.keyword not in _REPLY_FIELDS:
        return []
    name, kind, meaning = _REPLY_FIELDS[node.keyword]
    return [(free_name(name, taken), kind, meaning)]


def right_reply(node: Semantic, row: Mapping[str, Any], *, word: bool) -> str:
    """The right reply about an example: one word, or JSON in the order of a sketch."""
    verdict: Any = row.get(VERDICTS.get(node.keyword, ""))
    if word:
        return ("No", "Yes")[verdict] if isinstance(verdict, bool) else f"{verdict * 9 / 100:.0f}"
    values = {name: as_json(kind, row[name]) for name, kind in node.answers}
    if node.keyword == "sem_join":
        values = {"match": verdict, **(values if verdict else dict.fromkeys(values))}
    for name, kind, _ in verdict_of(node, [*values]):
        values[name] = kind.values[not verdict] if kind.values else verdict
    return json.dumps(values, ensure_ascii=False)


async def nearest(ctx: NodeCalls, node: Semantic, rows: Rows) -> dict[int, list[int]]:
    """The nearest examples of left rows; without an embedder the first ones, which cost as much."""
    found: dict[int, list[int]] = {}
    places = dict.fromkeys(rows.lefts)
    for own in by_key(places, lambda left: (rows.partition[left], rows.prompt[left])):
        shown = node.prompt.all[rows.prompt[own[0]]].shown
        if shown is None or not shown.nearest:
            continue
        order = np.tile(np.arange(len(shown.rows)), (len(own), 1))
        if ctx.embeds:
            texts = column_texts(rows.left.take(pa.array(own, pa.int64())), shown.by)
            known = await ctx.embed([json.loads(row)[shown.by] or "" for row in shown.rows])
            vectors = await ctx.embed(texts, rows.partition[own[0]])
            if known.shape[1] == vectors.shape[1]:  # else no text of one side has a vector
                near = np.nan_to_num([cosines(known, vector) for vector in vectors], nan=-2.0)
                order = np.argsort(-near.round(6), axis=1, kind="stable")
        found |= zip(own, order[:, : shown.nearest].tolist(), strict=True)
    return found


class PromptBuilder(ABC):
    """Sends the items of one relation. Subclasses write the requests and read the replies.

    Work proceeds in rounds: each reply answers items or adds work to the next round.
    """

    def __init__(self, ctx: NodeCalls, node: Semantic, rows: Rows) -> None:
        self.ctx, self.node, self.rows = ctx, node, rows
        self.outcomes: dict[int, Outcome] = {}
        # The calls about each item and sample, also those whose answers were invalid or refused.
        self.calls = defaultdict[tuple[int, int], list[str]](list)
        self.size = len(rows.items)
        self.keys = Keys(node, rows)
        own = [[(path, path) for path in prompt.item_fields] for prompt in node.prompt.all]
        self.records = Records(rows.left, own)
        self.needs_logprobs = False  # whether one-word answers need log-probabilities
        self.unusable = 0  # replies about several items that did not answer all of them
        self.temperature = 0.0  # of samples
        self.on_answer: Callable[[Iterable[int]], object] | None = None
        self._headers: dict[tuple[Any, ...], PromptHeader] = {}
        self.nearest: dict[int, list[int]] = {}  # the nearest examples of each left row
        self._most = sys.maxsize  # the token limit of an answer that the endpoint accepted
        self._halves: dict[Work, Outcome] = {}

    async def send_all(self, works: Iterable[Work]) -> None:
        """Send requests until every item has an outcome."""
        if self.node.embeds and not self.nearest:
            self.nearest = await nearest(self.ctx, self.node, self.rows)
        todo = works
        while True:
            sent: list[Work] = []
            later: list[Work] = []
            async with aclosing(self.ctx.ask(self.requests(todo, sent))) as replies:
                async for index, reply in replies:
                    work = sent[index]
                    if isinstance(reply, RowError) and reply.kind == UNASKED:
                        self.fail(work, reply)
                        continue
                    for item in work.items:
                        self.calls[item, work.sample] += calls_of(reply)
                    repeated = self.accept(work, reply)
                    self.unusable += bool(repeated) and len(work.items) > 1
                    later += repeated
                    if self.on_answer is not None and not repeated:
                        self.on_answer(self.keys.left[item] for item in self.items_of(work))
            if not later:
                return
            todo = sorted(later)

    def results(self) -> list[Outcome]:
        """The outcome of each item, in order. Raises EngineError if one was in no work."""
        if missing := [item for item in range(self.size) if item not in self.outcomes]:
            what = f"item {missing[0]} is in no block: put each item in one"
            raise EngineError(f"step {self.node.step}: {what}")
        return [self.outcomes[item] for item in range(self.size)]

    def items_of(self, work: Work) -> Iterable[int]:
        """The items of some work."""
        return work.items

    def requests(self, works: Iterable[Work], sent: list[Work]) -> Iterator[Request]:
        """The requests for some work, which is appended to `sent`. Work that exceeds the model's
        context fails.
        """
        for work in works:
            try:
                request = self.request(work)
            except TooLong as error:
                self.fail(work, error)
                continue
            sent.append(work)
            yield request

    def prompt_of(self, item: int) -> int:
        """The index of an item's prompt."""
        return self.rows.prompt[self.keys.left[item]]

    def record_of(self, item: int) -> str:
        """The left row of an item as a record."""
        return self.records.record(self.keys.left[item], self.prompt_of(item))

    def header(self, prompt: int, layout: str, items: Iterable[int] = ()) -> PromptHeader:
        """The static part of a prompt's requests, cached, with the examples of `items`. A layout is
        one template, except that `rows` and `parts` of a group are both `group`.
        """
        shown = self.shown_to(prompt, items)
        header = self._headers.get((prompt, layout, *shown))
        if header is None:
            own = self.node.prompt.all[prompt]
            header = self.make_header(own, layout)
            pairs = [self.example(own, place, word=bool(header.words)) for place in shown]
            if header.words:
                header = replace(header, examples=(*header.examples, *pairs))
            elif pairs and layout != "review":  # its replies have another form
                text = filled("shown", shown="\n\n".join(map("\n".join, pairs)))
                header = self.make_header(replace(own, examples=text), layout)
            self._headers[prompt, layout, *shown] = header
        return header

    def shown_to(self, prompt: int, items: Iterable[int]) -> list[int]:
        """The numbers of the examples that a request about these items shows."""
        shown = self.node.prompt.all[prompt].shown
        if shown is None or not shown.nearest:
            return list(range(len(shown.rows) if shown else 0))
        return sorted({n for item in items for n in self.nearest.get(self.keys.left[item], ())})

    def example(self, prompt: Prompt, place: int, *, word: bool = False) -> tuple[str, str]:
        """An example as a request about one item, and the right reply."""
        assert prompt.shown is not None
        row = json.loads(prompt.shown.rows[place])
        other = prompt.other.render({n: row[f"{prompt.alias}.{n}"] for n in prompt.other.fields})
        texts = {"context": prompt.context.render(row), "item": prompt.item.render(row)}
        return filled("example", **texts, other=other), right_reply(self.node, row, word=word)

    def compose(self, work: Work, item: int, header: PromptHeader, **texts: str) -> Request:
        """The request for some work. `item` is one of its items; `texts` are the texts of the
        placeholders in the header's template (`row=` is `{row}` of `templates/row.txt`), besides
        those that every template has. Raises TooLong if the work exceeds the model's context and
        cannot be split.
        """
        left, ctx = self.keys.left[item], self.ctx.of(header.prompt.role)
        limits = ctx.limits
        context, tokens = self.keys.context(left), header.answer_tokens(len(work.items), limits)
        if len(work.items) == 1:
            reasons = self.rows.reasons[item] if self.rows.reasons else ()
            filled_in = (words + texts[name] for words, name in header.user if name in texts)
            sent = [context, *filled_in, *reasons]
            if not RequestBuffer(self.ctx, header).takes(1, *sent):
                whole = sum(map(ctx.count_tokens, (*header.texts, *sent)))
                raise TooLong(whole + RESERVE, tokens, limits.context_tokens)
        texts |= {"context": context, "again": self._again(work, item)}
        user = paragraphs(header.lead, *[words + texts[name] for words, name in header.user])
        partition, schema = self.rows.partition[left], header.schema or None
        tokens = work.limit or tokens
        request = self.ctx.request(header.prompt, header.system, user, schema, partition, tokens)
        request = worded(request, header) if header.words else request
        return sampled(request, work.sample, self.temperature) if work.sample else request

    def _again(self, work: Work, item: int) -> str:
        """The text about refused earlier answers; "" if there are none."""
        if not self.rows.reasons and not work.reason:
            return ""
        reasons = [*self.rows.reasons[item]] if self.rows.reasons else []
        reasons += [work.reason[:_LONGEST_REASON]] if work.reason else []
        several = len(reasons) > 1
        return filled("again", reasons="; ".join(reasons), one=not several, several=several)

    def word_header(
        self, template: str, prompt: Prompt, words: Words, **values: Any
    ) -> PromptHeader:
        """The static part of one-word requests: the rules are in the user message, as in the
        examples.
        """
        none = AnswerSchema(())
        header = PromptHeader.of(template, prompt, none, instruction=words.instruction, **values)
        return replace(header, schema={}, words=words.words, examples=words.examples)

    def accept_word(self, work: Work, reply: Reply | RowError, words: Words) -> list[Work]:
        """Read a one-word reply. Raises ModelLacks if log-probabilities are needed, and the
        endpoint returns none.
        """
        if self.needs_logprobs and not getattr(reply, "logprobs", ()):
            refused = isinstance(reply, RowError) and "logprob" in str(reply).lower()
            if refused or not isinstance(reply, RowError):
                raise ModelLacks(self.ctx.without_logprobs())

        def read(_: str) -> dict[str, Any]:
            return read_word(self.node, words, cast("Reply", reply), self.ctx.limits.yes_from)

        return self.accept_single(work, reply, read, cut=True)

    def accept_single(
        self,
        work: Work,
        reply: Reply | RowError,
        read: Callable[[str], dict[str, Any]],
        *,
        cut: bool = False,
    ) -> list[Work]:
        """Read the reply to a question with one answer.

        After an invalid answer the question is repeated once; a second invalid answer is an error.
        For truncated answers see `_longer`. With `cut` the reply may end at the token limit.
        """
        try:
            self._finish(work, Outcome(read(answer_text(reply, cut=cut))))
        except Invalid as error:
            if error.kind == "truncated" and not cut:
                return self._longer(work, reply, error)
            if not work.reason:
                return [work._replace(reason=str(error))]
            self.fail(work, error)
        except RowError as error:
            if error.kind == "rejected" and work.limit and not work.half:
                # The endpoint accepted the smaller limit: it is the model's maximum.
                self._most = work.limit // 2
                return self._longer(work._replace(limit=self._most), reply, error)
            self.fail(work, error)
        return []

    def _longer(self, work: Work, reply: Reply | RowError, error: RowError | Invalid) -> list[Work]:
        """The work after a truncated answer.

        The question is repeated with twice the token limit, while answers reach the limit and the
        model allows more. Then its halves are asked, or it is an error. If the limit did not cause
        the truncation, the question is repeated once, as after an invalid answer.
        """
        sent = self.request(work)
        ctx = self.ctx.of(sent.role)
        limits = ctx.limits
        used = RESERVE + sum(ctx.count_tokens(each.content) for each in sent.messages)
        most = min(self._most, limits.max_output_tokens, limits.context_tokens - used)
        if limits.assumed:
            most = min(most, _GROWTH * self.request(work._replace(limit=0)).max_tokens)
        answered = reply.spent if isinstance(reply, RowError) else reply
        tokens = answered.usage.completion if isinstance(answered, Reply) else 0
        reached = not tokens or 2 * tokens > sent.max_tokens
        if reached and most > sent.max_tokens:
            return [work._replace(limit=min(2 * sent.max_tokens, most))]
        if not (reached or work.limit or work.reason):
            return [work._replace(reason=str(error))]
        parts = [work._replace(half=(*work.half, side)) for side in (0, 1)]
        if len(work.half) == _MOST_SPLITS or self.request(parts[0]).messages == sent.messages:
            self.fail(work, RowError(error.kind, f"{error}. {_ALLOW_MORE}"))
            return []
        self.ctx.note("split a row whose answer was too long", str(error))
        return parts

    def fail(self, work: Work, error: RowError | Invalid) -> None:
        """Record an error as the outcome of some work."""
        self._finish(work, Outcome(None, f"{error.kind}: {error}"))

    def _finish(self, work: Work, outcome: Outcome) -> None:
        """Record the outcome of some work. The outcome of the last half completes the whole."""
        while work.half:
            *above, side = work.half
            key = Work(work.items, sample=work.sample, half=work.half)
            self._halves[key] = outcome
            other = self._halves.get(key._replace(half=(*above, 1 - side)))
            if other is None:
                return
            work = work._replace(half=tuple(above))
            parts = (other, outcome) if side else (outcome, other)
            outcome = joined(self.node, *parts, overlap=self.overlap(work))
        self.done(work, outcome)

    def overlap(self, work: Work) -> bool:  # noqa: ARG002
        """Whether the halves of some work have a part in common."""
        return False

    @abstractmethod
    def make_header(self, prompt: Prompt, layout: str) -> PromptHeader:
        """The static part of a prompt's requests."""

    @abstractmethod
    def request(self, work: Work) -> Request:
        """The request for some work. Raises TooLong."""

    @abstractmethod
    def accept(self, work: Work, reply: Reply | RowError) -> list[Work]:
        """Read a reply, and return the work for the next round."""

    def done(self, work: Work, outcome: Outcome) -> None:
        """Record the outcome of the items of some work, with their calls."""
        for item in work.items:
            calls = tuple(dict.fromkeys(self.calls[item, work.sample]))
            self.outcomes[item] = outcome._replace(calls=calls)


class ItemPrompts(PromptBuilder):
    """Requests about one item in the prompt's words, or about a block of items as numbered records.

    An answer about a block may lack some of its items.
    """

    # The templates of requests about one item, and about several.
    layouts: ClassVar[tuple[str, str]]

    def __init__(
        self, ctx: NodeCalls, node: Semantic, rows: Rows, words: Words | None = None
    ) -> None:
        super().__init__(ctx, node, rows)
        self.words = words

    def works(self, blocks: Iterable[Block]) -> Iterator[Work]:
        """Blocks as work, split by partition, prompt and context, and cut to the model's context."""
        for block in blocks:
            for items in by_key(block, self.keys.of) if len(block) != 1 else [block]:
                if len(items) == 1:
                    yield Work(tuple(items))
                else:
                    yield from self._cut(items)

    def _cut(self, items: Sequence[int]) -> Iterator[Work]:
        """Works of as many whole left rows as fit; a left row that is too long alone is split."""
        lists = deque(by_key(items, self.keys.left.__getitem__))
        buffer: RequestBuffer | None = None
        block: list[int] = []
        shown: set[int] = set()
        prompt, near = self.prompt_of(items[0]), set[int]()
        examples = self.node.prompt.all[prompt]
        while lists:
            own = lists.popleft()
            if buffer is None:
                header = self.header(prompt, self.layouts[1])
                context = self.keys.context(self.keys.left[own[0]])
                fixed = [words for words, _ in header.user if words]
                buffer, shown = RequestBuffer(self.ctx, header, context, *fixed), set()
                near = set(self.shown_to(prompt, ()))
            lines, new = self.lines(own, shown, len(items)), {*self.shown_to(prompt, own)} - near
            lines += chain.from_iterable(self.example(examples, place) for place in new)
            near |= new
            if buffer.takes(len(block) + len(own), *lines):
                block += own
                continue
            if block:
                yield Work(tuple(block))
                lists.appendleft(own)
            elif len(own) == 1:
                yield Work((own[0],))
            else:
                lists.extendleft(map(list, reversed(halves(tuple(own)))))
            buffer, block = None, []
        if block:
            yield Work(tuple(block))

    def accept(self, work: Work, reply: Reply | RowError) -> list[Work]:
        """Record valid answers; repeat the rest of a block, in parts if the reply is truncated or an
        error.
        """
        if len(work.items) == 1 and self.words:
            return self.accept_word(work, reply, self.words)
        several = len(work.items) > 1
        answer = self.header(self.prompt_of(work.items[0]), self.layouts[several]).answer
        if not several:
            return self.accept_single(work, reply, lambda text: self.read(answer, text, work))
        try:
            return self.accept_block(work, answer, answer_text(reply))
        except RowError:
            return self.parts(work)
        except Invalid as error:
            return self.parts(work) if error.kind == "truncated" else self.unread(work)

    @abstractmethod
    def lines(self, own: Sequence[int], shown: set[int], count: int) -> list[str]:
        """The lines that the items of a left row add to a block of at most `count` items. `shown`
        are the right rows that the block already has.
        """

    @abstractmethod
    def read(self, answer: AnswerSchema, text: str, work: Work) -> dict[str, Any]:
        """The answer about one item. Raises Invalid."""

    @abstractmethod
    def accept_block(self, work: Work, answer: AnswerSchema, text: str) -> list[Work]:
        """Record the valid answers about a block, and return the work to repeat. Raises Invalid if
        the reply has no list of answers.
        """

    @abstractmethod
    def parts(self, work: Work) -> list[Work]:
        """A block in two parts."""

    @abstractmethod
    def unread(self, work: Work) -> list[Work]:
        """The work after an unreadable answer about a block."""


def worded(request: Request, header: PromptHeader) -> Request:
    """A request for one of a header's words, with its examples before the question."""
    *before, question = request.messages
    for text, answer in header.examples:
        before += [Message("user", text), Message("assistant", answer)]
    return replace(request, messages=(*before, question), words=header.words)


def sampled(request: Request, number: int, temperature: float) -> Request:
    """A request for one of several answers, sampled at a temperature."""
    params = {**dict(request.params), "temperature": temperature}
    return replace(request, params=tuple(sorted(params.items())), sample=number)


def answer_text(reply: Reply | RowError, *, cut: bool = False) -> str:
    """The text of a reply. Raises Invalid if it is truncated, or the endpoint reports it as
    invalid; RowError if the request failed, or the model refused.
    """
    if isinstance(reply, RowError):
        if reply.kind in ("truncated", "invalid"):
            raise Invalid(str(reply), reply.kind)
        raise reply
    if reply.finish == "length" and not cut:
        raise Invalid(f"the answer was cut at {reply.usage.completion:,} tokens", "truncated")
    if reply.finish == "refusal":
        raise RowError("refused", f"the model refused: {reply.text[:_LONGEST_REASON]}")
    return reply.text


def calls_of(reply: Reply | RowError) -> tuple[str, ...]:
    """The id of the call if it was answered, as a tuple."""
    answered = reply.spent if isinstance(reply, RowError) else reply
    return (answered.call_id,) if isinstance(answered, Reply) and answered.call_id else ()


def halves(items: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Items in two halves; the first half may have one item more."""
    middle = (len(items) + 1) // 2
    return items[:middle], items[middle:]
