"""The server of the protocol: it lists the tools and calls them in one session. The calls of
clients run in threads, so a long computation of one client does not delay up to eleven others.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import cached_property, partial
from importlib.metadata import version
from itertools import count
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)

from semgraph.display import in_shell
from semgraph.errors import BudgetReached, RowError, SemgraphError
from semgraph.execution.record import keep_latest
from semgraph.execution.result import Progress, Result
from semgraph.expr.isolated import PROCESS, SECONDS, SqlProcess
from semgraph.formats import escaped, shortened
from semgraph.logical.plan import LogicalPlan
from semgraph.relational.segments import DEADLINE, Deadline
from semgraph.serve.tools import PlanTool, public, result_schema, structured, summary
from semgraph.session import Session
from semgraph.turns import Turns

Context = ServerRequestContext[Any, Any]
_STOPPED = "the server stopped before the call ended; answers that were paid for are in the journal"
_CALLS = 4  # concurrent calls of one client, separately for writes and for reads
_LONGEST_ERROR = 10_000  # characters
_log = logging.getLogger(__name__)


class ToolServer:
    """Tools over one session, which its creator closes. Calls run concurrently; calls that write the
    same group take turns.

    A result has at most `limit` rows of each table, an error the text of `message`, as on the command
    line. `keep` records of calls are kept. `seconds` limit the relational work: of a statement, or of
    all expressions of a call.
    """

    def __init__(
        self,
        tools: Sequence[PlanTool],
        session: Session,
        limit: int,
        message: Callable[[BaseException], str],
        keep: int | None = None,
        seconds: float = SECONDS,
    ) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._listed = [_described(tool) for tool in tools]
        self._session, self._limit, self._message = session, limit, message
        self._running: set[asyncio.Task[CallToolResult]] = set()
        self._seconds, self._aside = seconds, Aside(seconds)
        self._clients: WeakValueDictionary[object, Turns] = WeakValueDictionary()
        self._turns: WeakValueDictionary[str, Turns] = WeakValueDictionary()
        self._asking = threading.Lock()  # for turns: calls run in several threads
        self._keep = keep

    @property
    def names(self) -> list[str]:
        """The names of the tools."""
        return list(self._tools)

    @property
    def plans(self) -> list[LogicalPlan]:
        """The plans of the tools."""
        return [tool.plan for tool in self._tools.values()]

    def protocol(self) -> Server[Any]:
        """The SDK server that answers with these tools."""
        return Server(
            "semgraph",
            version=version("semgraph"),
            instructions=self._instructions(),
            on_list_tools=self._list,
            on_call_tool=self._call,
            get_tool_input_schema=self._schema,
        )

    def _instructions(self) -> str:
        """What an agent should know of the tools."""
        by: dict[str, list[str]] = {"read": [], "write": []}
        for name, tool in self._tools.items():
            by["write" if tool.writes else "read"].append(name)
        said = (f"These {verb}: {', '.join(names)}." for verb, names in by.items() if names)
        times = "A fact whose end has passed held until then, and holds no more."
        return " ".join(("Tools over a graph.", *said, times))

    def stop(self) -> None:
        """Cancel all calls; each ends with an error."""
        for task in self._running:
            task.cancel()
        self._aside.close()

    def _schema(self, name: str) -> dict[str, Any] | None:
        return self._tools[name].arguments if name in self._tools else None

    async def _list(
        self, _context: Context, _params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=self._listed)

    async def _call(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        tool = self._tools.get(params.name)
        if tool is None:
            known = ", ".join(self._tools)
            what = f'there is no tool "{shortened(public(params.name), 100)}". Tools: {known}'
            raise MCPError(INVALID_PARAMS, what)
        return await self._until_cancelled(self._placed(tool, params.arguments or {}, context))

    async def _placed(
        self, tool: PlanTool, arguments: dict[str, Any], context: Context
    ) -> CallToolResult:
        """The result of a call, in the thread of its client, which has a few calls at a time."""
        DEADLINE.set(Deadline(lambda: self._seconds))
        request = context.request  # none over stdio: there is one client
        client = request and (request.headers.get("mcp-session-id") or request.client)
        async with (
            self._clients.setdefault((client, tool.writes), Turns(_CALLS)),
            _reporting(context) as progress,
        ):
            return await self._aside.run(client, partial(self._answered, tool, arguments, progress))

    async def _until_cancelled(self, work: Awaitable[CallToolResult]) -> CallToolResult:
        """Run the work of a call in a separate task, which is cancelled once and then awaited: the
        SDK cancels a handler at each of its awaits, and an ending run has several.
        """
        task = asyncio.ensure_future(work)
        self._running.add(task)
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            task.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([task])
            raise
        finally:
            self._running.discard(task)
        return _error(_STOPPED) if task.cancelled() else task.result()

    async def _answered(
        self, tool: PlanTool, arguments: dict[str, Any], progress: Callable[[Progress], None]
    ) -> CallToolResult:
        """The result of a call; an exception becomes an error result."""
        begun: list[str] = []
        try:
            call = tool.call(arguments)
            began = time.monotonic()
            async with AsyncExitStack() as turns:
                for group in tool.groups(call) if tool.writes else ():
                    with self._asking:
                        turn = self._turns.setdefault(group, Turns())
                    await turns.enter_async_context(turn)
                with in_shell(False):  # an agent sets arguments, and answers no questions
                    path, params = tool.file.path, call.params
                    plan = self._session.prepare(path, params=params, preset=call.preset)
                    result = await self._session.arun(
                        plan, inputs=call.inputs, progress=progress, begun=begun.append
                    )
            return self._result(tool, result, time.monotonic() - began)
        except (BudgetReached, RowError) as error:
            if error.result:
                return self._result(tool, error.result, time.monotonic() - began)
            return _error(self._message(error))
        except Exception as error:  # noqa: BLE001 - all are answered, none ends the server
            if not isinstance(error, SemgraphError):
                _log.exception("the tool %s raised", tool.name)
            return _error("\n".join((self._message(error), *getattr(error, "__notes__", ()))))
        finally:
            if self._session.runs is not None and self._keep is not None:
                keep_latest(self._session.runs, begun, self._keep)

    def _result(self, tool: PlanTool, result: Result, seconds: float) -> CallToolResult:
        outcome = structured(result, self._limit)
        text = public("\n".join(summary(result, outcome, tool.plan.graph, seconds)))
        document = escaped(json.dumps(outcome, ensure_ascii=False), in_json=True)
        return CallToolResult(
            content=[_text(text), _text(document)],
            structured_content=outcome,
            is_error=result.exit_code != 0,
        )


def _described(tool: PlanTool) -> Tool:
    return Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.arguments,
        output_schema=result_schema(tool.plan),
        annotations=ToolAnnotations(
            read_only_hint=not tool.writes, destructive_hint=tool.deletes, open_world_hint=False
        ),
    )


def _text(text: str) -> TextContent:
    return TextContent(type="text", text=text)


def _error(text: str) -> CallToolResult:
    """An error as a result. Quotes from the call may be long, so it is shortened."""
    text = shortened(public(text), _LONGEST_ERROR)
    return CallToolResult(content=[_text(text)], is_error=True)


@asynccontextmanager
async def _reporting(context: Context) -> AsyncIterator[Callable[[Progress], None]]:
    """Report the progress of a run to the client on request; each report counts one more."""
    events: asyncio.Queue[Progress] = asyncio.Queue()

    async def send() -> None:
        for number in count(1):
            event = await events.get()
            message = f"{event.step or 'committed'}: {event.done} of {event.total}"
            await context.session.report_progress(number, None, message)

    sending = asyncio.ensure_future(send())
    loop = asyncio.get_running_loop()

    def report(event: Progress) -> None:  # called from any thread
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(events.put_nowait, event)

    try:
        yield report
    finally:
        sending.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await sending


T = TypeVar("T")
_THREADS = 12  # each with a process as soon as it is needed


class Aside:
    """A few threads, each with an event loop for the calls of one or more clients, and a process
    for expressions that may need much memory. `seconds` limit the expressions of a call.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._threads = [_Thread(SqlProcess(seconds)) for _ in range(_THREADS)]

    async def run(self, client: object, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of some work, in its client's thread, or that with the fewest clients."""
        of = [thread for thread in self._threads if client in thread.calls]
        thread = min(of or self._threads, key=lambda each: len(each.calls))
        thread.calls[client] += 1
        try:
            return await thread.run(work, SqlProcess(self._seconds, thread.process))
        finally:
            thread.calls[client] -= 1
            thread.calls += Counter()  # drop clients without calls

    def close(self) -> None:
        """End the processes."""
        for thread in self._threads:
            thread.process.close()


class _Thread:
    def __init__(self, process: SqlProcess) -> None:
        self.process = process
        self.calls = Counter[object]()

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, name="semgraph call", daemon=True).start()
        return loop

    async def run(self, work: Callable[[], Coroutine[Any, Any, T]], process: SqlProcess) -> T:
        """The result of some work; cancellation ends the process's computation, then the work."""
        tasks = list[asyncio.Task[T]]()
        cancelled = threading.Event()

        async def begun() -> None:
            if cancelled.is_set():  # cancelled while it waited behind another call of the client
                return
            PROCESS.set(process)
            tasks.append(asyncio.ensure_future(work()))
            await asyncio.wait(tasks)

        waiting = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(begun(), self._loop))
        try:
            await asyncio.shield(waiting)
        except asyncio.CancelledError:
            cancelled.set()
            self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
            process.end()
            await waiting
            raise
        return tasks[0].result()
