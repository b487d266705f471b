"""Batches: requests that run ahead, sent as files to the OpenAI Batch API, for half the price.

The journal records each batch before and after its submission, so a later run finds its answers.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from semgraph.errors import ModelUnavailable, RowError
from semgraph.formats import plural
from semgraph.llm.base import LLM, Reply, Request, Usage, Wrapper
from semgraph.llm.faults import NO_ANSWER, UNREADABLE, Transient, failure_of
from semgraph.llm.journal import Journal, SubmittedBatch, answer_key
from semgraph.llm.openai import PATH, OpenAI, RequestBody
from semgraph.llm.replies import UnreadableReply, error_in, mapping, number, sequence, text_of
from semgraph.llm.replies import document as read_document
from semgraph.llm.stack import RetryPolicy, Stack
from semgraph.llm.tokens import OF_BATCH

T = TypeVar("T")
Document = Mapping[str, Any]
Sleep = Callable[[float], Awaitable[None]]

_MOST_BYTES = 190_000_000  # of a file; the API accepts 200 MB
_FILE_SECONDS = 600.0  # to upload or download a file
_UNKNOWN = 3  # failed look-ups of a batch before it counts as gone
_MOST_PAUSES = 60  # before a file is sent
_NO_PLACE = (404, 405)  # HTTP statuses
_ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
_SKEW = 86_400.0  # maximum difference to the endpoint's clock
_LABEL = "semgraph"  # of the token in the metadata of a batch


@dataclass(frozen=True)
class BatchPolicy:
    """The size and timing of batches."""

    poll: float = 60.0  # seconds of the longest pause between two polls; the first ones are shorter
    size: int = _MOST_BYTES  # the most bytes of one file
    sleep: Sleep = asyncio.sleep

    @property
    def gather(self) -> float:
        """Seconds without a new request after which a file is sent."""
        return min(1.0, self.poll)

    def pause(self, looks: int) -> float:
        """Seconds to wait after this number of polls."""
        return float(min(self.poll, 2.0 * 1.5 ** min(looks, 40)))


class _NoRoom(Exception):
    """The endpoint currently accepts no more tokens in batches."""


class _NotThere(Exception):
    """The endpoint has no such batch or file (any more), or no batches at all."""


class BatchApi:
    """The batch endpoint of a model. Failed attempts are repeated."""

    def __init__(self, model: OpenAI, retry: RetryPolicy, policy: BatchPolicy) -> None:
        self.name, self._wire = model.name, model.wire
        self._retry, self._policy = retry, policy

    async def create(self, token: str, content: bytes) -> str:
        """Submit a file of requests as a batch of this token, once; return the id of the batch.
        Raises ModelUnavailable if the endpoint has no batches, refuses the file or does not answer.
        """
        name, upload = f"{token}.jsonl", self._wire.upload
        try:
            file = await self._repeated(lambda: upload(name, content, _FILE_SECONDS))
            return await self._repeated(lambda: self._submit(token, self._id(file)))
        except _NotThere as error:
            raise self._unsupported(str(error)) from error

    async def _submit(self, token: str, file: str) -> str:
        """Submit an uploaded file, once. Raises Transient if no batch was created."""
        body: dict[str, Any] = {"input_file_id": file, "endpoint": f"/v1{PATH}"}
        body |= {"completion_window": "24h", "metadata": {_LABEL: token}}
        began = time.time()
        try:
            document, _ = await self._wire.post("/batches", json.dumps(body).encode())
        except Transient as failure:  # it may have arrived: a second one would cost again
            if failure.status in _NO_PLACE or (earlier := await self.find(token, began)) is None:
                raise
            return earlier
        return self._id(document)

    async def find(self, token: str, since: float) -> str | None:
        """The id of the batch of this token that was submitted after a time; None if there is none.
        Raises ModelUnavailable.
        """
        after = ""
        while True:
            try:
                page = await self._repeated(lambda: self._page(f"/batches?limit=100{after}"))  # noqa: B023
            except _NotThere:  # the endpoint lists no batches
                return None
            batches = [each for each in sequence(page.get("data")) if isinstance(each, dict)]
            for batch in batches:
                if mapping(batch.get("metadata")).get(_LABEL) == token:
                    return self._id(batch)
            ends = not batches or (number(batches[-1].get("created_at")) or 0) < since - _SKEW
            if ends or not page.get("has_more"):
                return None
            after = f"&after={self._id(batches[-1])}"

    async def ended(self, batch: str) -> Document | None:
        """Wait until a batch has ended. Returns None if the endpoint does not know it (any more),
        even some time after its creation. Failed polls are repeated. Raises ModelUnavailable.
        """
        missing = looks = 0
        while True:
            try:
                document = await self._repeated(lambda: self._look(batch), looks)
            except _NotThere:
                missing += 1
                if missing >= _UNKNOWN:
                    return None
            else:
                missing = 0
                if document["status"] in _ENDED:
                    return document
            await self._policy.sleep(self._policy.pause(looks))
            looks += 1

    async def _look(self, batch: str) -> Document:
        document = await self._page(f"/batches/{batch}")
        if not text_of(document.get("status")):
            raise Transient(UNREADABLE, f"{self.name}: batch {batch} has no status")
        self._wire.proven = True
        return document

    async def results(self, batch: Document) -> dict[str, Document]:
        """The results of an ended batch, by key; those of deleted files are missing. Raises
        ModelUnavailable.
        """
        results: dict[str, Document] = {}
        files = (text_of(batch.get(name)) for name in ("error_file_id", "output_file_id"))
        for file in filter(None, files):
            with suppress(_NotThere):
                path = f"/files/{file}/content"
                content = await self._repeated(lambda: self._wire.get(path, _FILE_SECONDS))  # noqa: B023
                for text in content.split(b"\n"):
                    with suppress(UnreadableReply):  # its request goes into the next file
                        line = read_document(text)
                        results[text_of(line.get("custom_id"))] = line
        return results

    def _id(self, document: Document) -> str:
        if not isinstance(document.get("id"), str):
            raise self._unsupported(f"its answer has no id: {json.dumps(document)[:200]}")
        self._wire.proven = True
        return str(document["id"])

    async def _page(self, path: str) -> Document:
        return self._wire.parsed(await self._wire.get(path))

    async def _repeated(self, send: Callable[[], Awaitable[T]], looks: int = 0) -> T:
        """Repeat a request until it succeeds, after `looks` polls of a batch. Raises _NotThere and
        ModelUnavailable.
        """
        failed = 0
        while True:
            try:
                return await send()
            except RowError as error:
                raise ModelUnavailable(f"{error}. It was about a batch, not one request") from error
            except Transient as failure:
                if failure.status in _NO_PLACE:
                    raise _NotThere(str(failure)) from failure
                failed += 1
                most = min(self._retry.attempts, failure.fault.attempts or self._retry.attempts)
                if failed >= most or (failure.certain and not self._wire.proven):
                    raise ModelUnavailable(
                        f"{failure} ({plural(failed, 'attempt')}). Submitted batches are recorded: a resumed run collects "
                        "their answers"
                    ) from failure
                wait, pause = self._retry.wait(failed), self._policy.pause(looks + failed)
                wait = max(wait, pause, failure.retry_after or 0.0)
            await self._policy.sleep(wait)

    def _unsupported(self, why: str) -> ModelUnavailable:
        return ModelUnavailable(
            f"{self.name} has no batch endpoint ({why}). Leave batch=true out of the model, or name an "
            "endpoint with /files and /batches"
        )


@dataclass(eq=False)
class _Line:
    """A request as a line of a file, and its answer."""

    key: str  # of its answer in the journal
    request: Request
    body: RequestBody
    answer: asyncio.Future[Reply]
    waiting: int = 0  # callers that wait for the answer
    attempts: int = 0  # batches that contained it

    def text(self) -> bytes:
        """The line of the file."""
        head = f'{{"custom_id":"{self.key}","method":"POST","url":"/v1{PATH}","body":'
        return head.encode() + self.body + b"}\n"


@dataclass(eq=False)
class _Sent:
    """A batch of this run or an earlier one, and the lines that wait for it, by key."""

    lines: dict[str, _Line] = field(default_factory=dict)
    earlier: SubmittedBatch | None = None
    task: asyncio.Task[None] | None = None  # None only for a batch of an earlier run

    @property
    def waiting(self) -> list[_Line]:
        """The lines without an answer."""
        return [line for line in self.lines.values() if not line.answer.done()]


def batched(model: LLM, stack: Stack) -> Batched | None:
    """The wrapper that answers requests that run ahead, if the model sends batches. It uses the
    journal, the scope and the attempts of a stack.
    """
    if not isinstance(model, OpenAI) or not model.limits.batch or stack.journal is None:
        return None
    return Batched(model, stack.journal, stack.scope, stack.retry, fresh=stack.fresh)


class Batched(Wrapper):
    """Answers requests in batches, which the journal records.

    A file is sent when it is full, or when no further request has come for a moment. A request that
    expired, or that the endpoint failed to answer, goes into the next file. Batches of earlier runs
    are collected, unless `fresh`.
    """

    def __init__(
        self,
        model: OpenAI,
        journal: Journal,
        scope: str = "",
        retry: RetryPolicy | None = None,
        *,
        fresh: bool = False,
        policy: BatchPolicy | None = None,
    ) -> None:
        super().__init__(model)
        self._model, self._journal, self._scope = model, journal, scope
        self._retry = retry or RetryPolicy()
        self.policy = policy or BatchPolicy(model.poll)
        self._api = BatchApi(model, self._retry, self.policy)
        self._open: dict[str, _Line] = {}
        self._size = self._arrived = 0
        self._gathering: asyncio.Task[None] | None = None
        self._sent: dict[str, _Sent] | None = {} if fresh else None
        self._unasked: dict[str, tuple[Document, float]] = {}  # results, with seconds
        self._tasks: set[asyncio.Task[None]] = set()
        self._full: set[asyncio.Task[None]] = set()  # tasks that wait for room
        self._answered = False

    def dollars(self, usage: Usage) -> float | None:
        """The cost of these tokens in a batch."""
        dollars = self.inner.dollars(usage)
        return None if dollars is None else dollars * OF_BATCH

    async def complete(self, request: Request) -> Reply:
        """Answer one request, in a batch. Raises as `OpenAI.complete`, except Transient."""
        if self._sent is None:
            await self._look()
        line = self._line(request)
        line.waiting += 1
        try:
            return await asyncio.shield(line.answer)
        finally:
            line.waiting -= 1
            if not line.waiting and not line.answer.done():
                line.answer.cancel()
                if self._open.get(line.key) is line:
                    del self._open[line.key]
                    self._size -= len(line.body)

    async def aclose(self) -> None:
        """Leave the batches to the endpoint: a later run collects their answers. The model's owner
        closes the model.
        """
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _line(self, request: Request) -> _Line:
        """The line of an equal request, or a new one."""
        key = answer_key(request, self.name, self._scope).hex()
        sent = self._batches.get(key)
        line = self._open.get(key) or (sent.lines.get(key) if sent is not None else None)
        if line is not None and not line.answer.done():
            return line
        answer = asyncio.get_running_loop().create_future()
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        line = _Line(key, request, self._model.body(request), answer)
        if key in self._unasked:
            self._take([line], {key: self._unasked[key][0]}, self._unasked.pop(key)[1])
        elif sent is not None:
            sent.lines[key] = line
            if sent.task is None:
                self._start(sent, self._collect(sent))
        else:
            self._gather(line)
        return line

    @property
    def _batches(self) -> dict[str, _Sent]:
        """The batches under way, by the keys of their requests."""
        assert self._sent is not None
        return self._sent

    async def _look(self) -> None:
        """Read from the journal the batches of earlier runs that are under way."""
        self._answered = self._answered or await self._journal.knows(self.name)
        earlier = [each for each in await self._journal.open_batches() if each.model == self.name]
        if self._sent is None:  # another request may have read them meanwhile
            self._sent = {}
            for each in earlier:
                self._sent |= dict.fromkeys(each.keys, _Sent(earlier=each))

    # -- sending

    def _gather(self, line: _Line) -> None:
        """Put a line into the next file."""
        if self._size + len(line.body) > self.policy.size:
            self._send()
        self._open[line.key] = line
        self._size += len(line.body)
        self._arrived += 1
        if len(self._open) >= self.limits.batch:
            self._send()
        elif self._gathering is None:
            self._gathering = self._task(self._until_quiet())

    async def _until_quiet(self) -> None:
        """Send the file when no further line has come for a moment."""
        for _ in range(_MOST_PAUSES):
            arrived = self._arrived
            await self.policy.sleep(self.policy.gather)
            if arrived == self._arrived:
                break
        self._gathering = None
        self._send()

    def _send(self) -> None:
        lines, self._open, self._size = self._open, {}, 0
        if lines:
            self._begin(lines)

    def _begin(self, lines: dict[str, _Line]) -> asyncio.Task[None]:
        sent = _Sent(lines)
        self._batches.update(dict.fromkeys(lines, sent))
        return self._start(sent, self._submit(sent))

    def _start(self, sent: _Sent, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        async def guarded() -> None:
            try:
                await work
            except Exception as error:  # noqa: BLE001 - the callers raise it
                for line in sent.waiting:
                    line.answer.set_exception(error)
            finally:
                self._forget(sent)

        sent.task = self._task(guarded())
        return sent.task

    def _task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _forget(self, sent: _Sent) -> None:
        """Note that a batch is no longer under way."""
        keys = [*sent.lines, *(sent.earlier.keys if sent.earlier is not None else ())]
        for key in keys:
            if self._batches.get(key) is sent:
                del self._batches[key]

    async def _submit(self, sent: _Sent) -> None:
        """Submit the lines as a batch and take its answers. If the endpoint has no room, wait for
        the end of another batch, or submit half of the lines first.
        """
        while sent.waiting:
            try:
                await self._batch(sent)
            except _NoRoom as full:
                await self._make_room(sent, full)
            else:
                return

    async def _make_room(self, sent: _Sent, full: _NoRoom) -> None:
        """Wait for the end of another batch, or for the answers to half of the lines."""
        assert sent.task is not None
        others = {each.task for each in self._batches.values() if each.task is not None}
        others -= self._full | {sent.task}
        if not others:
            lines = sent.waiting
            if len(lines) <= 1:
                raise ModelUnavailable(f"{full}. Resume the run when other batches have ended")
            half = {line.key: line for line in lines[: len(lines) // 2]}
            sent.lines = {line.key: line for line in lines[len(lines) // 2 :]}
            others = {self._begin(half)}
        self._full.add(sent.task)
        try:
            await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._full.discard(sent.task)

    async def _batch(self, sent: _Sent) -> None:
        """Submit the lines as one batch, and take its answers. Raises _NoRoom."""
        lines, token = sent.waiting, uuid.uuid4().hex
        content = b"".join(line.text() for line in lines)
        await self._journal.submit(token, self.name, [line.key for line in lines])
        batch = await self._api.create(token, content)
        await self._journal.submitted(token, batch)
        document = await self._api.ended(batch)
        if document is None:
            what = f"batch {batch} is not there, although it was submitted"
            raise ModelUnavailable(f"{self.name}: {what}")
        if document.get("status") == "failed":
            self._journal.not_answered([line.key for line in lines])
            self._refused(document, lines)
        else:
            results = await self._api.results(document)
            self._forget(sent)
            missing = _cancelled(document, self.name)
            self._take(sent.waiting, results, _seconds(document), missing)
            self._keep(sent, results, _seconds(document))

    async def _collect(self, sent: _Sent) -> None:
        """Take the answers of a batch of an earlier run."""
        earlier = sent.earlier
        assert earlier is not None
        batch = earlier.id or await self._api.find(earlier.token, earlier.created)
        document = None if batch is None else await self._api.ended(batch)
        results = {} if document is None else await self._api.results(document)
        self._forget(sent)
        lost = [line for line in sent.waiting if line.key not in results]
        found = [line for line in sent.waiting if line.key in results]
        self._take(found, results, _seconds(document))
        self._keep(sent, results, _seconds(document))
        for line in lost:
            self._gather(line)

    # -- answers

    def _keep(self, sent: _Sent, results: Mapping[str, Document], seconds: float) -> None:
        """Keep the results that no caller has asked for yet: they are paid."""
        asked = {key for key, line in sent.lines.items() if not line.answer.cancelled()}
        self._unasked |= {key: (line, seconds) for key, line in results.items() if key not in asked}

    def _take(
        self,
        lines: Iterable[_Line],
        results: Mapping[str, Document],
        seconds: float,
        missing: ModelUnavailable | None = None,
    ) -> None:
        """Answer lines with their results; lines without a result get the error `missing`. Lines
        that may succeed go into the next file.
        """
        failed = []
        for line in lines:
            line.attempts += 1
            result = results.get(line.key)
            try:
                if missing is not None and not _has_response(result):
                    raise missing
                reply = self._reply(line, result, seconds)
            except (Transient, RowError, ModelUnavailable) as failure:
                error = self._final(line, failure)
                if error is None:
                    self._gather(line)
                else:
                    failed.append(line.key)
                    line.answer.set_exception(error)
            else:
                self._answered = self._model.wire.proven = True
                self._model.learn(line.request, line.body)
                line.answer.set_result(replace(reply, attempts=line.attempts))
        if failed:
            self._journal.not_answered(failed)

    def _final(self, line: _Line, failure: Exception) -> Exception | None:
        """The error of a line; None if the line may succeed in the next file."""
        if isinstance(failure, Transient):
            most = min(failure.fault.attempts or self._retry.attempts, self._retry.attempts)
            return None if line.attempts < most else self._given_up(line, failure)
        if isinstance(failure, RowError):
            if body := self._model.following(failure, line.request, line.body):
                line.body = body
                return None
            failure.attempts = line.attempts
        return failure

    def _reply(self, line: _Line, result: Document | None, seconds: float) -> Reply:
        """The reply of a line. Raises Transient, RowError or ModelUnavailable."""
        if result is None or not _has_response(result):
            reason = text_of(mapping(mapping(result).get("error")).get("message"))
            expired = f"{self.name}: a batch ended without this answer"
            raise Transient(NO_ANSWER, f"{expired}: {reason}" if reason else expired)
        status, body = (result["response"].get(name) for name in ("status_code", "body"))
        if status != 200 or not isinstance(body, Mapping):
            raise failure_of(self.name, body, status=status if type(status) is int else 500)
        if error := error_in(body):
            raise failure_of(self.name, error)
        request, read = line.request, self._model.reply
        return self._model.wire.reading(body, lambda: read(body, request, seconds, self.dollars))

    def _given_up(self, line: _Line, failure: Transient) -> Exception:
        tried = f"{failure.what} ({line.attempts} batches)"
        if failure.endpoint and not self._answered:
            whole = f"{tried}, and no other request was answered"
            return ModelUnavailable(str(failure) if failure.remedy else whole)
        return RowError(failure.kind, tried, attempts=line.attempts)

    def _refused(self, batch: Document, lines: list[_Line]) -> None:
        """Take the errors of a batch without any answer. Lines without an error of their own go
        into the next file. Raises _NoRoom or ModelUnavailable.
        """
        listed = sequence(mapping(batch.get("errors")).get("data"))
        errors = list(map(mapping, listed)) or [{}]
        what = (text_of(errors[0].get("message")) or "no reason is given").rstrip(".")
        message = f"{self.name}: batch {batch.get('id')} failed: {what}"
        if any(error.get("code") == "token_limit_exceeded" for error in errors):
            raise _NoRoom(message)
        numbers = [error.get("line") for error in errors]
        if not all(type(place) is int and 0 < place <= len(lines) for place in numbers):
            raise ModelUnavailable(message)
        messages = {error["line"]: error.get("message") for error in errors}
        for place, line in enumerate(lines, 1):
            if line.answer.done():
                continue
            line.attempts += 1
            if place in messages:
                reason = f"{self.name} rejected the request: {messages[place]}"
                line.answer.set_exception(RowError("rejected", reason, attempts=line.attempts))
            else:
                self._gather(line)


def _has_response(result: Document | None) -> bool:
    return result is not None and isinstance(result.get("response"), Mapping)


def _seconds(batch: Document | None) -> float:
    """The duration of a batch."""
    batch = batch or {}
    began, ended = (number(batch.get(name)) for name in ("created_at", "completed_at"))
    return max(float(ended - began), 0.0) if began is not None and ended is not None else 0.0


def _cancelled(batch: Document, name: str) -> ModelUnavailable | None:
    """The error for requests that a cancelled batch did not answer."""
    if batch.get("status") != "cancelled":
        return None
    return ModelUnavailable(
        f"{name}: batch {batch.get('id')} was cancelled at the endpoint. Its answers are kept; a resumed "
        "run sends the other requests again"
    )
