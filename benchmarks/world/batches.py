"""Files and batches of the OpenAI protocol, answered by the server's own answers to chats."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from benchmarks.world.protocol import error

ENDPOINTS = ("upload", "create", "list", "look", "read")
OUTCOMES = ("failed", "line_failed", "full", "expired", "cancelled")
LINES = ("line_500", "line_429", "line_400", "line_expired", "line_missing")
KINDS = (*ENDPOINTS, "lost_create", *OUTCOMES, *LINES)
_ENDED = ("failed", "completed", "expired", "cancelled")

Body = dict[str, Any]
Answer = Callable[[Body], Awaitable[tuple[int, Body]]]
"""The status and the document of a chat."""


@dataclass(frozen=True)
class BatchFault:
    """One kind of fault, at the n-th time.

    Args:
        kind: `upload`, `create`, `list`, `look`, `read`: that endpoint answers with `status`;
            `lost_create`: a batch is made and the connection breaks; of a batch: `failed`,
            `line_failed` (its first line is refused), `full` (no room for its tokens), `expired` (its
            second half is not answered), `cancelled` (likewise); of a line: `line_500`, `line_429`,
            `line_400`, `line_expired`, `line_missing`.
        on: Numbers of calls, batches or lines, from 1.
        status: Of the answer of an endpoint.
    """

    kind: str
    on: tuple[int, ...] = (1,)
    status: int = 500

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f'"{self.kind}" is no fault: {", ".join(KINDS)}')


class Batches:
    """Serves `/v1/files` and `/v1/batches`.

    A batch that is not refused ends when it was looked at `looks` times and `gate` is open. The results have another
    order than the requests. `submitted` has the bodies of each batch; `answered` counts the answers
    that are paid, by body.

    Args:
        answer: Answers a chat.
        faults: The injected faults.
        looks: Looks at a batch before it has ended.
    """

    def __init__(self, answer: Answer, faults: tuple[BatchFault, ...] = (), looks: int = 2) -> None:
        self.answer, self.faults, self.looks = answer, faults, looks
        self.gate = asyncio.Event()
        self.gate.set()
        self.forget()

    def forget(self) -> None:
        """Forget files, batches and counts."""
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, Body] = {}
        self.submitted: list[list[Body]] = []
        self.answered: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()

    def add_to(self, app: web.Application) -> None:
        """Serve from an application."""
        app.router.add_post("/v1/files", self._upload)
        app.router.add_get("/v1/files/{id}/content", self._read)
        app.router.add_post("/v1/batches", self._create)
        app.router.add_get("/v1/batches", self._list)
        app.router.add_get("/v1/batches/{id}", self._look)

    def _hit(self, *kinds: str) -> BatchFault | None:
        """The fault of the next call, batch or line of these kinds."""
        for kind in kinds:
            self.calls[kind] += 1
        hit = (f for f in self.faults if f.kind in kinds and self.calls[f.kind] in f.on)
        return next(hit, None)

    def _fault(self, kind: str) -> web.Response | None:
        fault = self._hit(kind)
        if fault is None:
            return None
        return error(fault.status, f"no {kind} now", retry_after=0 if fault.status == 429 else None)

    async def _upload(self, request: web.Request) -> web.Response:
        form = await request.post()
        if fault := self._fault("upload"):
            return fault
        file = form["file"]
        if form.get("purpose") != "batch" or not isinstance(file, web.FileField):
            return error(400, "a file of the purpose batch is needed")
        content = file.file.read()
        return web.json_response({"object": "file", "purpose": "batch", "id": self._keep(content)})

    def _keep(self, content: bytes) -> str:
        name = f"file-{len(self.files) + 1}"
        self.files[name] = content
        return name

    async def _create(self, request: web.Request) -> web.StreamResponse:
        if fault := self._fault("create"):
            return fault
        body = await request.json()
        if body.get("endpoint") != "/v1/chat/completions" or body.get("completion_window") != "24h":
            return error(400, "this endpoint or window is unknown")
        if body.get("input_file_id") not in self.files:
            return error(400, "there is no such file")
        name = f"batch_{len(self.batches) + 1}"
        lines = [json.loads(line) for line in self.files[body["input_file_id"]].splitlines()]
        self.batches[name] = batch = {
            "id": name, "object": "batch", "status": "validating", "created_at": int(time.time()),
            "metadata": body.get("metadata"), "input_file_id": body["input_file_id"], "looks": 0,
            "endpoint": body["endpoint"], "completion_window": "24h", "output_file_id": None, "error_file_id": None,
            "fault": self._hit(*OUTCOMES),
        }  # fmt: skip
        self.submitted.append([line["body"] for line in lines])
        if self._hit("lost_create"):
            assert request.transport is not None
            request.transport.abort()
        return web.json_response(_shown(batch))

    async def _list(self, request: web.Request) -> web.Response:
        if fault := self._fault("list"):
            return fault
        newest = list(reversed(self.batches.values()))
        names = [batch["id"] for batch in newest]
        after = request.query.get("after")
        first = names.index(after) + 1 if after in names else 0
        page = newest[first : first + int(request.query.get("limit", 20))]
        more = first + len(page) < len(newest)
        data = [_shown(batch) for batch in page]
        return web.json_response({"object": "list", "data": data, "has_more": more})

    async def _look(self, request: web.Request) -> web.Response:
        if fault := self._fault("look"):
            return fault
        batch = self.batches.get(request.match_info["id"])
        if batch is None:
            return error(404, "there is no such batch")
        batch["looks"] += 1
        if batch["status"] not in _ENDED:
            batch["status"] = "in_progress"
            refused = batch["fault"] is not None and batch["fault"].kind in _REFUSALS
            if refused or (self.gate.is_set() and batch["looks"] >= self.looks):
                await self._end(batch)
        return web.json_response(_shown(batch))

    async def _read(self, request: web.Request) -> web.Response:
        if fault := self._fault("read"):
            return fault
        content = self.files.get(request.match_info["id"])
        if content is None:
            return error(404, "there is no such file")
        return web.Response(body=content)

    async def _end(self, batch: Body) -> None:
        """Answer the lines of a batch."""
        fault = batch["fault"].kind if batch["fault"] is not None else "completed"
        lines = [json.loads(line) for line in self.files[batch["input_file_id"]].splitlines()]
        if fault in _REFUSALS:
            batch |= {"status": "failed", "errors": {"data": [_REFUSALS[fault]]}}
            return
        answered = lines if fault == "completed" else lines[: len(lines) // 2]
        batch["status"] = "finalizing"  # another look may come meanwhile
        results = [result for line in answered if (result := await self._result(line)) is not None]
        results += [_expired(line) for line in lines[len(answered) :]]
        good = [each for each in results if (each["response"] or {}).get("status_code") == 200]
        bad = [each for each in results if each not in good]
        for key, part in (("output_file_id", good), ("error_file_id", bad)):
            if part:
                text = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in part[::-1])
                batch[key] = self._keep(text.encode())
        batch |= {"status": fault, "completed_at": int(time.time())}

    async def _result(self, line: Body) -> Body | None:
        """The result of a line; None if it has none."""
        fault = self._hit(*LINES)
        if fault is not None and fault.kind == "line_missing":
            return None
        if fault is not None and fault.kind == "line_expired":
            return _expired(line)
        if fault is not None:
            status = int(fault.kind.removeprefix("line_"))
            document: Body = {"error": {"message": f"no line now ({status})", "code": None}}
        else:
            status, document = await self.answer(line["body"])
        if status == 200:
            self.answered[json.dumps(line["body"], sort_keys=True)] += 1
        response = {"status_code": status, "request_id": "r", "body": document}
        return {"id": "b", "custom_id": line["custom_id"], "response": response, "error": None}


_REFUSALS: dict[str, Body] = {
    "failed": {"code": "model_not_found", "message": "The model is not supported in batches.", "line": None},
    "line_failed": {"code": "invalid_request", "message": "This line is wrong.", "line": 1},
    "full": {"code": "token_limit_exceeded", "message": "Enqueued token limit reached.", "line": None},
}  # fmt: skip


def _expired(line: Body) -> Body:
    reason = {"code": "batch_expired", "message": "This request could not be executed in time."}
    return {"id": "b", "custom_id": line["custom_id"], "response": None, "error": reason}


def _shown(batch: Body) -> Body:
    return {name: value for name, value in batch.items() if name not in {"looks", "fault"}}
