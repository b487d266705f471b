"""LOTUS's operators as implementations: its prompts, algorithms and answer parsing, over semgraph's
models.

LOTUS gets a model that sends each batch through the context of the step, so its calls are
journalled, limited, budgeted, counted and coalesced, too. A failed row does not affect the others.
An answer that LOTUS would replace by its default is an error of that row. LOTUS's code is
synchronous and runs in separate threads.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import aclosing
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from threading import Lock
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeVar

from semgraph.errors import RowError
from semgraph.extras import install
from semgraph.llm.base import Reply, Request
from semgraph.logical.node import free
from semgraph.logical.prompt import Prompt
from semgraph.logical.semantic import Semantic
from semgraph.semantic.answers import Invalid
from semgraph.semantic.context import Context
from semgraph.semantic.contract import Keys, Outcome, Rows, by_key, column_texts
from semgraph.semantic.prompt.builder import (
    RESERVE,
    TooLong,
    answer_text,
    byte_size,
    calls_of,
    paragraphs,
)

__all__ = [
    "INSTALL", "Answer", "Bridge", "Model", "Parts", "Question", "Sorter", "Texts", "Unanswered", "by_prompt",
    "claim", "invalid_number", "invalid_verdict", "lacking", "loaded",
]  # fmt: skip


K = TypeVar("K")
T = TypeVar("T")
Requests = Sequence[Request | RowError]
Replies = list[Reply | RowError]
_THREADS = 64


class Bridge:
    """Runs jobs in separate threads, and sends their requests in the event loop.

    It does not use the threads of `asyncio.to_thread`, which models may need meanwhile.
    """

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[Reply | RowError]] = set()
        self._budget = asyncio.Semaphore(max(1, ctx.limits.in_flight * 2))
        self._failure: BaseException | None = None
        self.stopped = False

    async def run(self, jobs: Sequence[Callable[[], T]]) -> list[T]:
        """Run jobs and return their results, in order. An error in one, or cancellation, ends all
        jobs.

        Afterwards no thread runs and no request is in flight.
        """
        if not jobs:
            return []
        results: list[T | None] = [None] * len(jobs)
        pool = ThreadPoolExecutor(min(len(jobs), _THREADS), thread_name_prefix="lotus")
        futures = [
            self._loop.run_in_executor(pool, self._guarded, job, results, i)
            for i, job in enumerate(jobs)
        ]
        try:
            await asyncio.wait(futures)
        finally:
            self._stop()
            left = [future for future in futures if not future.done()]
            if left:
                await asyncio.wait(left)
            pool.shutdown(wait=False)
        if self._failure is not None:
            raise self._failure
        return results  # type: ignore[return-value]

    async def gather(self, jobs: Sequence[Callable[[], Mapping[K, Outcome]]]) -> dict[K, Outcome]:
        """The combined outcomes of the jobs; see `run`."""
        results: dict[K, Outcome] = {}
        for outcomes in await self.run(jobs):
            results |= outcomes
        return results

    def ask(self, requests: Requests) -> Replies:
        """Send requests and return replies or errors, in order. Call it in the thread of a job."""
        return asyncio.run_coroutine_threadsafe(self._answered(requests), self._loop).result()

    def _guarded(self, job: Callable[[], T], results: list[T | None], i: int) -> None:
        if self.stopped:
            return
        try:
            results[i] = job()
        except BaseException as error:  # noqa: BLE001 - raised by `run`
            self._loop.call_soon_threadsafe(self._fail, error)

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._stop()

    def _stop(self) -> None:
        self.stopped = True
        for task in self._tasks:
            task.cancel()

    async def _answered(self, requests: Requests) -> Replies:
        if self.stopped:
            raise asyncio.CancelledError
        tasks = [asyncio.create_task(self._one(request)) for request in requests]
        self._tasks.update(tasks)
        await asyncio.wait(tasks)
        self._tasks.difference_update(tasks)
        return [task.result() for task in tasks]

    async def _one(self, request: Request | RowError) -> Reply | RowError:
        if isinstance(request, RowError):
            return request
        try:
            async with self._budget, aclosing(self.ctx.ask([request])) as replies:
                _, reply = await anext(replies)
                return reply
        except Exception as error:
            self._fail(error)
            raise


INSTALL = install("lotus")
VERSION = "1.2.4"
Parts = SimpleNamespace  # the parts of LOTUS in use
_LOCK = Lock()
_LOADED: list[Parts] = []


def lacking() -> str | None:
    """The reason why LOTUS cannot be used, or None. Imports nothing."""
    remedy = f"{INSTALL}, in a separate environment (it installs torch, and numpy below 2)"
    try:
        installed = version("lotus-ai")
    except PackageNotFoundError:
        return f"it needs LOTUS (lotus-ai {VERSION}): {remedy}"
    if installed != VERSION:
        return f"it needs lotus-ai {VERSION}, and {installed} is installed: {remedy}"
    return None


async def loaded() -> Parts:
    """Import LOTUS in a thread, without blocking the event loop."""
    return _LOADED[0] if _LOADED else await asyncio.to_thread(_load)


def _load() -> Parts:
    with _LOCK:
        if not _LOADED:
            # litellm, which LOTUS imports, would download a price list.
            os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
            root = logging.getLogger()
            level, handlers = root.level, list(root.handlers)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _LOADED.append(_imported())
            # LOTUS configures the root logger, which would print a line for each request of each
            # library.
            root.setLevel(level)
            root.handlers[:] = handlers
        return _LOADED[0]


def _imported() -> Parts:
    from lotus.sem_ops import sem_agg, sem_filter, sem_join, sem_map, sem_topk
    from lotus.templates import task_instructions
    from lotus.types import LMOutput, ReasoningStrategy
    from tqdm import tqdm

    sem_topk.tqdm = partial(tqdm, disable=True)  # the only switch for its progress bars
    return Parts(
        sem_map=sem_map.sem_map,
        sem_filter=sem_filter.sem_filter,
        sem_join=sem_join.sem_join,
        sem_agg=sem_agg.sem_agg,
        quicksort=sem_topk.llm_quicksort,
        heapsort=sem_topk.llm_heapsort,
        naive_sort=sem_topk.llm_naive_sort,
        match_prompt=sem_topk.get_match_prompt_binary,
        documents=task_instructions.df2multimodal_info,
        output=LMOutput,
        reasoning=ReasoningStrategy.ZS_COT,
    )


Chat = Sequence[Mapping[str, Any]]


class Answer(NamedTuple):
    """The outcome of a prompt: a text, or `error` (a kind in one word, a colon and a message)."""

    text: str
    error: str | None
    calls: tuple[str, ...]

    def outcome(self, values: Mapping[str, Any]) -> Outcome:
        """The outcome of an item with this answer, which has these values."""
        return Outcome(None if self.error else values, self.error, self.calls)


class Unanswered(Exception):
    """Prompts of a batch that failed, with their answers; LOTUS cannot use the others alone."""

    def __init__(self, faults: list[tuple[Chat, Answer]]) -> None:
        self.faults = faults
        super().__init__(faults[0][1].error)


class Model:
    """A duck-typed `lotus.models.LM`: it gets a batch of chats and returns a text for each.

    The prompt gives the role and the maximum length of answers. `partitions` are those of the prompts
    of a batch, in order; the last one is repeated. `unreadable` tells the fault of an answer that
    LOTUS would replace by its default. If a prompt fails, LOTUS gets "" for it, or, if `strict`,
    Unanswered is raised; if `shrinking`, also if a batch is not smaller than the previous one: LOTUS's
    tree would not end. `answers` are those of the last batch, `calls` the ids of all calls.
    """

    model = "semgraph"

    def __init__(
        self,
        bridge: Bridge,
        parts: Parts,
        prompt: Prompt,
        partitions: Sequence[str],
        unreadable: Callable[[str], str | None] = lambda _: None,
        *,
        strict: bool = False,
        shrinking: bool = False,
    ) -> None:
        self._bridge, self._parts, self._prompt = bridge, parts, prompt
        self._partitions = partitions
        self._unreadable = unreadable
        self.strict, self._shrinking = strict, shrinking
        limits = bridge.ctx.limits
        self.max_tokens = min(prompt.max_tokens, limits.max_output_tokens)
        self.max_ctx_len = limits.context_tokens - RESERVE
        self.answers: list[Answer] = []
        self.calls: list[str] = []
        self._last: int | None = None

    def __call__(
        self, messages: Sequence[Chat], response_format: Mapping[str, Any] | None = None, **_: Any
    ) -> Any:
        """Answer a batch. Progress bars and log-probabilities are not supported."""
        if not messages:
            return self._parts.output(outputs=[], logprobs=None)
        if self._shrinking and self._last is not None and len(messages) >= self._last:
            error = f"too_long: {len(messages)} parts are too long to share a call, and so are their aggregates"
            raise Unanswered([(messages[0], Answer("", error, ()))])
        self._last = len(messages)
        requests = [self._request(i, chat, response_format) for i, chat in enumerate(messages)]
        self.answers = [self._answer(reply) for reply in self._bridge.ask(requests)]
        self.calls += [call for answer in self.answers for call in answer.calls]
        faults = [pair for pair in zip(messages, self.answers, strict=True) if pair[1].error]
        if faults and self.strict:
            raise Unanswered(faults)
        return self._parts.output(outputs=[answer.text for answer in self.answers], logprobs=None)

    def count_tokens(self, messages: Chat | str) -> int:
        """Tokens of a text; 0 for chats, which LOTUS counts only for its statistics."""
        return self._bridge.ctx.count_tokens(messages) if isinstance(messages, str) else 0

    def is_deepseek(self) -> bool:
        """False: LOTUS's prompts for this model family are not used."""
        return False

    def get_model_name(self) -> str:
        """A name that selects LOTUS's general answer parser."""
        return self.model

    def _request(self, i: int, chat: Chat, schema: Mapping[str, Any] | None) -> Request | RowError:
        texts = {message["role"]: _text(message["content"]) for message in chat}
        system, user = texts.get("system", ""), texts["user"]
        ctx, free = self._bridge.ctx, self.max_ctx_len - self.max_tokens
        if byte_size((system, user)) > free:
            tokens = ctx.count_tokens(system) + ctx.count_tokens(user)
            if tokens > free:
                return TooLong(tokens + RESERVE, self.max_tokens, ctx.limits.context_tokens)
        partition = self._partitions[min(i, len(self._partitions) - 1)]
        return ctx.request(self._prompt, system, user, schema, partition, self.max_tokens)

    def _answer(self, reply: Reply | RowError) -> Answer:
        calls = calls_of(reply)
        try:
            text = answer_text(reply)
        except (RowError, Invalid) as error:
            return Answer("", f"{error.kind}: {error}", calls)
        fault = self._unreadable(text)
        if fault is not None:
            return Answer("", f"invalid: {fault}", calls)
        return Answer(text, None, calls)


def _text(content: str | Sequence[Mapping[str, Any]]) -> str:
    """Join a message: LOTUS writes some messages as lists of texts."""
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


LEFT, RIGHT = "left", "right"


class Question(NamedTuple):
    """A question for LOTUS: an instruction, and a document for each row."""

    instruction: str
    documents: list[dict[str, Any]]


class Texts:
    """The texts of a relation for LOTUS; several threads use it."""

    def __init__(self, parts: Parts, node: Semantic, rows: Rows) -> None:
        self.keys = Keys(node, rows)
        self._parts, self._node, self._rows = parts, node, rows
        own = {path for prompt in node.prompt.all for path in prompt.item_fields}
        self._left = {path: column_texts(rows.left, path) for path in own}
        other = {path for prompt in node.prompt.all for path in prompt.other_fields}
        right = rows.right
        self._right = (
            {path: column_texts(right, path) for path in other} if right is not None else {}
        )

    def documents(
        self, items: Sequence[int], *, one_context: bool = False, more: str = ""
    ) -> Question:
        """The question about items of one prompt.

        The instruction has placeholders in LOTUS's notation for columns (`{name}` is Name), and
        `more` at its end; the documents have their values. The context is a column of each document,
        or, if all have `one_context`, a part of the instruction.
        """
        import pandas as pd

        lefts = [self.keys.left[item] for item in items]
        prompt = self._node.prompt.all[self._rows.prompt[lefts[0]]]
        names: dict[str, str] = {}  # of columns; LOTUS ignores case: `userName` is not `username`
        for path in prompt.item_fields:
            names[path] = free(path, names.values())
        frame = {names[path]: [self._left[path][i] for i in lefts] for path in prompt.item_fields}
        contexts = [self.keys.context(left) for left in lefts]
        head = contexts[0] if one_context else ""
        if not one_context and any(contexts):
            frame = {free("context", frame): contexts} | frame
        parts = prompt.item.parts
        question_text = "".join(t + (names[p].capitalize() if p else "") for t, p in parts)
        instruction = paragraphs(prompt.rules, prompt.examples, head, question_text, more)
        documents = self._parts.documents(pd.DataFrame(frame, index=range(len(lefts))), list(frame))
        return Question(instruction, documents)

    def sides(self, prompt: Prompt, lefts: Sequence[int], rights: Sequence[int]) -> list[list[str]]:
        """The texts of some left and some right rows of a join.

        If LOTUS's instruction asks about both rows, a side's text is its values; otherwise it is
        its section of the prompt.
        """
        left = [{path: self._left[path][i] for path in prompt.item_fields} for i in lefts]
        right = [{path: self._right[path][i] for path in prompt.other_fields} for i in rights]
        both = bool(prompt.shared_fields)
        own = [_values(values) if both else prompt.item.render(values) for values in left]
        own = [paragraphs(self.keys.context(i), text) for i, text in zip(lefts, own, strict=True)]
        return [own, [_values(v) if both else prompt.other.render(v) for v in right]]

    def mixed(self, items: Sequence[int]) -> str | None:
        """The error if the rows of a group may not share a request, or None."""
        what = self.keys.mixed(items)
        remedy = "group by what they differ in"
        return what and f"mixed: rows of one request have several {what}: {remedy}"


def by_prompt(rows: Rows) -> list[list[int]]:
    """The items by prompt: a run of LOTUS has one instruction."""
    lefts = rows.lefts
    return by_key(range(len(lefts)), lambda item: rows.prompt[lefts[item]])


def claim(prompt: Prompt) -> str:
    """The claim about a pair that LOTUS judges: the question about both, or that they match."""
    if not prompt.shared_fields:
        match = f"The record {{{LEFT}}} and the record {{{RIGHT}}} match."
        return paragraphs(prompt.rules, prompt.examples, match)
    shared = dict(prompt.shared_fields)
    words = [
        text + _placed(path, shared.get(path), prompt) if path else text
        for text, path in prompt.item.parts
    ]
    return paragraphs(prompt.rules, prompt.examples, "".join(words))


def _placed(path: str, other: str | None, prompt: Prompt) -> str:
    side, fields = (LEFT, prompt.item_fields) if other is None else (RIGHT, prompt.other_fields)
    return f"{{{side}}}" if len(fields) == 1 else f"{other or path} of {{{side}}}"


def _values(values: dict[str, str]) -> str:
    lines = [f"{k}: {v}" for k, v in values.items()]
    return "\n".join(lines if len(lines) > 1 else values.values())


def invalid_verdict(text: str) -> str | None:
    """The fault of an answer that should be True or False: LOTUS reads anything else as True."""
    verdicts = {word for word in ("true", "false") if word in text.rpartition("Answer:")[2].lower()}
    return None if len(verdicts) == 1 else 'expected "Answer: True" or "Answer: False"'


def invalid_number(text: str) -> str | None:
    """The fault of an answer that is no document's number: LOTUS would read it as the first."""
    after = text.lower().rpartition("answer:")[2]
    numbers = re.findall(r"document[\s*](\d+)", after) or re.findall(r"(\d+)", after)
    valid = numbers and numbers[-1] in {"1", "2"}
    return None if valid else 'expected "Document 1" or "Document 2"'


# LOTUS stores the model of its heap in a class variable, which concurrent heaps would share.
_HEAP = threading.Lock()


class Sorter:
    """Sorts a group by a method (`quick`, `quick-sem`, `heap` or `naive`), in a job's thread."""

    def __init__(
        self, bridge: Bridge, parts: Parts, model: Model, method: str, k: int, *, reasoning: bool
    ) -> None:
        self._bridge, self._parts, self._model = bridge, parts, model
        self._method, self._k = method, k
        self._strategy = parts.reasoning if reasoning else None

    def sort(self, items: Sequence[int], question: Question) -> dict[int, Outcome]:
        """A score for each item of a group by its rank, or its error if it cannot be compared: the
        rest is sorted until all comparisons have answers.
        """
        documents, instruction = question.documents, question.instruction
        outcomes: dict[int, Outcome] = {}
        rows = list(range(len(items)))
        while True:
            self._model.strict = True
            try:
                order = self._order([documents[row] for row in rows], instruction)
            except Unanswered as error:
                faulty = self._faulty(error, instruction)
                for row in rows:
                    if answer := faulty.get(documents[row]["text"]):
                        outcomes[items[row]] = Outcome(None, answer.error, answer.calls)
                rows = [row for row in rows if items[row] not in outcomes]
            else:
                break
        calls = tuple(dict.fromkeys(self._model.calls))
        place = {rows[i]: rank for rank, i in enumerate(order)}
        for row in rows:
            score = 100.0 * (1 - place[row] / len(rows)) if row in place else 0.0
            outcomes[items[row]] = Outcome({"score": score}, None, calls)
        return outcomes

    def _order(self, documents: list[dict[str, Any]], instruction: str) -> Sequence[int]:
        """LOTUS's order of documents: best first, all of them or only the k best."""
        if len(documents) < 2:
            return range(len(documents))
        given: tuple[Any, ...] = (documents, self._model, instruction)
        if self._method == "naive":
            result = self._parts.naive_sort(*given, strategy=self._strategy)
        elif self._method == "heap":
            result = self._heap(*given)
        else:
            # In a random order of rows, the k-th is a random pivot and equal in each run. LOTUS's
            # own pivots differ between runs.
            more = {"embedding": True, "strategy": self._strategy}
            result = self._parts.quicksort(*given, self._k, **more)
        order: list[int] = result.indexes
        return order

    def _heap(self, *given: Any) -> Any:
        while not _HEAP.acquire(timeout=0.1):
            if self._bridge.stopped:
                raise CancelledError
        try:
            return self._parts.heapsort(*given, self._k, strategy=self._strategy)
        finally:
            _HEAP.release()

    def _faulty(self, unanswered: Unanswered, instruction: str) -> dict[str, Answer]:
        """The rows that make comparisons fail, by text: those that fail in a comparison with
        themselves.

        Rows of several comparisons are tried first, because a pivot is in all of them. If neither
        row of a comparison fails by itself, both are errors.
        """
        pairs = [
            (_document(chat, 1), _document(chat, 2), answer) for chat, answer in unanswered.faults
        ]
        counts = Counter(text for left, right, _ in pairs for text in {left, right})
        faulty: dict[str, Answer] = {}
        for repeated in (True, False):
            rest = [pair for pair in pairs if pair[0] not in faulty and pair[1] not in faulty]
            texts = dict.fromkeys(
                text for pair in rest for text in pair[:2] if (counts[text] > 1) == repeated
            )
            faulty |= self._alone(list(texts), instruction)
        for left, right, answer in pairs:
            if left not in faulty and right not in faulty:
                faulty |= {left: answer, right: answer}
        return faulty

    def _alone(self, texts: list[str], instruction: str) -> dict[str, Answer]:
        self._model.strict = False
        given = (instruction, self._model)
        match_prompt = partial(self._parts.match_prompt, strategy=self._strategy)
        pairs = [({"text": text, "image": {}},) * 2 for text in texts]
        self._model([match_prompt(*pair, *given) for pair in pairs])
        answers = self._model.answers if texts else []
        return {text: answer for text, answer in zip(texts, answers, strict=True) if answer.error}


def _document(chat: Any, number: int) -> str:
    text: str = chat[1]["content"][number]["text"]
    return text.removeprefix(f"\nDocument {number}:\n")
