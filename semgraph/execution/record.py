"""The run record: a folder with the rows of each step of a run (`docs/run-record.md`)."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from semgraph import privacy
from semgraph.errors import BudgetReached, PlanError, RowError, SemgraphError, did_you_mean
from semgraph.llm.base import LLM, Message, Reply, Request, Usage, Wrapper
from semgraph.llm.journal import Exchange, Journal
from semgraph.llm.stack import Roles
from semgraph.logical.prompt import plain

if TYPE_CHECKING:
    from semgraph.relational.batch import Batch
    from semgraph.semantic.ask import Failure

PENDING = "pending.arrow"
LINEAGE = "lineage"
INPUT_ROW, ROW_ID, SOURCES = "_m", "_o", "_from"  # columns of recorded rows
_LINEAGE_SCHEMA = pa.schema([(ROW_ID, pa.int64()), (SOURCES, pa.list_(pa.int64()))])
_ROWS, _PARTS = 20_000, 256  # buffered rows and tables of a step before they are written
_PENDING_BYTES = 64 << 20


@dataclass
class _Part:
    """An open file of a step: its buffered tables, each with its entry number."""

    file: Path
    tables: list[tuple[int, pa.Table]] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return sum(table.num_rows for _, table in self.tables)


class RunLineage:
    """The lineage of a run's rows: their ids, and the source rows of each. The rows of inputs have
    the first ids.

    For a share of a larger run, `places` has by input the indices of its rows in the larger input,
    `skip` is the number of ids of made rows that are already used, and `ids` are those of inputs
    that another share made.
    """

    def __init__(
        self,
        record: RunRecord,
        inputs: Mapping[str, int],
        places: Mapping[str, Sequence[int]] | None = None,
        skip: int = 0,
        ids: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        self.sizes = dict(inputs)
        self.first = dict(zip(inputs, accumulate(inputs.values(), initial=0), strict=False))
        self._next = sum(inputs.values()) + skip
        self._places, self._ids = places or {}, ids or {}
        self.add = record.made

    def ids(self, count: int) -> range:
        """Ids for new rows."""
        first = self._next
        self._next += count
        return range(first, self._next)

    def ids_of(self, name: str, places: Sequence[int]) -> Sequence[int]:
        """The ids of rows of an input."""
        if name in self._ids:
            return [self._ids[name][place] for place in places]
        first, larger = self.first[name], self._places.get(name)
        return [first + (place if larger is None else larger[place]) for place in places]


class RunRecord:
    """Writes one run's folder. Tables are buffered and written in parts, so memory stays flat and
    windows stay fast; `keep` also appends them to `pending.arrow`, so that they survive the
    process.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._open: dict[tuple[Path, str], _Part] = {}
        self._parts: dict[Path, int] = {}
        self._facts: dict[str, Any] = {}
        # The number of tables, and how many of them are in the pending file.
        self._entered = self._kept = 0
        self._since: int | None = None
        self._until = 0
        self._ids: list[int] = []  # ids of rows whose sources are not entered yet
        self._sources: list[tuple[int, ...]] = []
        try:
            privacy.private_folder(folder)
        except OSError as error:
            raise SemgraphError(
                f"cannot write the run record {folder}: {privacy.refusal(folder, error)}. Run in a folder that "
                "you may write to: records are in .semgraph/runs of it, or, in Python, in Session(runs=DIR)"
            ) from error

    def describe(self, **facts: Any) -> None:
        """Add to `run.json` and write it."""
        self._facts |= facts
        self.text("run.json", json.dumps(self._facts, indent=1, default=str, ensure_ascii=False))

    def text(self, name: str, text: str) -> None:
        """Write a file of the record."""
        path = self.folder / name
        draft = path.with_name(path.name + ".part")
        privacy.write_private(draft, text, "backslashreplace")
        draft.replace(path)

    def rows(self, kind: str, step: str, table: pa.Table) -> None:
        """Append rows. `kind` is `steps`, `answers`, `results` or `written`."""
        if table.num_rows and step:
            self._enter(self.folder / kind / step, table)

    def made(self, rows: Batch) -> None:
        """Append the lineage of rows with ids."""
        self._ids += rows.ids or ()
        self._sources += rows.sources or ()
        if len(self._ids) >= _ROWS:
            self._enter_lineage()

    def _enter_lineage(self) -> None:
        if not self._ids:
            return
        arrays = [pa.array(self._ids, pa.int64()), pa.array(self._sources, pa.list_(pa.int64()))]
        self._ids, self._sources = [], []
        self._enter(self.folder / LINEAGE, pa.Table.from_arrays(arrays, schema=_LINEAGE_SCHEMA))

    def _enter(self, path: Path, table: pa.Table) -> None:
        key = (path, str(table.schema))  # a step may ask several questions, each with other answers
        if key not in self._open:
            number = self._parts[path] = self._parts.get(path, 0) + 1
            self._open[key] = _Part(path / f"{number:05}.parquet")
        self._open[key].tables.append((self._entered, table))
        self._entered += 1
        if self._since is None:
            self._close_full()

    def begin(self) -> None:
        """Start to record rows that can be taken back until `keep`."""
        self._enter_lineage()
        self._since = self._until = self._entered

    def keep(self) -> None:
        """Write the buffered tables, so that they survive the process."""
        self._enter_lineage()
        self._until = self._entered
        new = sorted(
            (n, p.file, t) for p in self._open.values() for n, t in p.tables if n >= self._kept
        )
        self._append((file, table) for _, file, table in new)
        self._kept = self._entered

    def take_back(self) -> None:
        """Forget the rows between `begin` and `keep`."""
        span = range(self._until if self._since is None else self._since, self._until)
        for part in self._open.values():
            part.tables = [(n, table) for n, table in part.tables if n not in span]
        (self.folder / PENDING).unlink(missing_ok=True)
        self._kept = 0
        self._since = None
        self.keep()

    def end(self) -> None:
        """Stop to record rows that can be taken back."""
        self._since = None
        self._enter_lineage()
        if self._kept < self._entered:
            self.keep()
        self._close_full()
        file = self.folder / PENDING
        if file.exists() and file.stat().st_size > _PENDING_BYTES:
            self.flush()

    @contextmanager
    def on_disk(self) -> Iterator[None]:
        """Add advice to errors of the disk. Raises SemgraphError."""
        try:
            yield
        except OSError as error:
            raise SemgraphError(
                f"{self.folder}: the disk does not take the record of this run ({error.strerror}). Free some space and run "
                "again: what is written stays, and what was answered is in the journal"
            ) from error

    def _append(self, tables: Iterable[tuple[Path, pa.Table]]) -> None:
        from pyarrow import ipc

        streams = pa.BufferOutputStream()
        for file, table in tables:
            of = {b"file": file.relative_to(self.folder).as_posix().encode()}
            with ipc.new_stream(streams, table.schema.with_metadata(of)) as stream:
                stream.write_table(table.replace_schema_metadata(of))
        written = streams.getvalue()
        if written.size:
            with self.on_disk(), privacy.open_private(self.folder / PENDING, "ab") as out:
                out.write(written)

    def failed(self, rows: Iterable[tuple[Failure, Mapping[str, Any]]]) -> None:
        """Append failures, with redacted errors and rows, to `failed.jsonl`: inputs of the next run."""
        lines = ({**row, "_step": f.step, "_error": privacy.redacted(f.error)} for f, row in rows)
        self._append_lines("failed.jsonl", lines)

    def lines(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append a line of JSON for each row to a file of the record, without secrets."""
        self._append_lines(name, (privacy.redacted_values(plain(dict(row))) for row in rows))

    def _append_lines(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        lines = [json.dumps(plain(dict(row)), ensure_ascii=False, default=str) for row in rows]
        if lines:
            with (
                self.on_disk(),
                privacy.open_private(
                    self.folder / name, "a", encoding="utf-8", errors="backslashreplace"
                ) as file,
            ):
                file.write("\n".join(lines) + "\n")

    def flush(self) -> None:
        """Write the buffered tables to the files of their steps."""
        self._enter_lineage()
        for key in list(self._open):
            self._close(key)
        (self.folder / PENDING).unlink(missing_ok=True)

    def _close_full(self) -> None:
        for key, part in list(self._open.items()):
            if len(part.tables) >= _PARTS or part.rows >= _ROWS:
                self._close(key)

    def _close(self, key: tuple[Path, str]) -> None:
        part = self._open.pop(key)
        if not part.tables:
            return
        draft = part.file.with_name(part.file.name + ".part")
        with self.on_disk():
            privacy.private_folder(part.file.parent)
            write_table(draft, pa.concat_tables([table for _, table in part.tables]))
            draft.replace(part.file)


def write_table(path: Path, table: pa.Table) -> None:
    """Write a table as a private Parquet file. Raises OSError."""
    import pyarrow.parquet as pq

    with privacy.open_private(path, "wb") as file:
        pq.write_table(table, file)


INPUTS, SHARDS, WRITTEN = "inputs", "shards", "written"
RAN, COMPARED, REFRESHED = "run", "diff", "refresh"  # the kinds of records of a plan
SERVED = "served"  # a file that marks the record of a server call


def records_of(folder: Path) -> list[Path]:
    """The record of a run and, if it ran in shards, the records of its shards."""
    return [folder, *sorted((folder / SHARDS).glob("*/"))]


def recorded_inputs(folder: Path) -> dict[str, Path]:
    """The inputs of a run. Each is a file, or a folder with the rows of each shard."""
    return {path.stem: path for path in sorted((folder / INPUTS).glob("*"))}


def read_input(path: Path) -> pa.Table:
    """The rows of an input of `recorded_inputs`, in order."""
    import pyarrow.parquet as pq

    if not path.is_dir():
        return pq.read_table(path)
    table = pa.concat_tables([pq.read_table(file) for file in sorted(path.glob("*.parquet"))])
    return table.sort_by(INPUT_ROW).drop_columns(INPUT_ROW)


def recorded_parts(
    folder: Path, kind: str, step: str = "", columns: list[str] | None = None
) -> Iterator[pa.Table]:
    """The recorded tables of a step (`steps`, `answers` or `results`), or of the run's `lineage`, read
    one by one; only `columns`, unless None.
    """
    import pyarrow.parquet as pq

    for part in records_of(folder):
        closed = {
            file.relative_to(part).as_posix(): file
            for file in (part / kind / step).glob("*.parquet")
        }
        pending: dict[str, list[pa.Table]] = {}
        for name, table in _pending(part):
            if name not in closed and name.rpartition("/")[0] == f"{kind}/{step}".rstrip("/"):
                own = table if columns is None else table.select(columns)
                pending.setdefault(name, []).append(own)
        for name in sorted({*closed, *pending}):
            if name in closed:
                yield pq.read_table(closed[name], columns=columns)
            else:
                yield from pending[name]


def recorded_steps(folder: Path, kind: str) -> list[str]:
    """The steps with recorded tables, sorted."""
    names: set[str] = set()
    for part in records_of(folder):
        base = part / kind
        names |= {path.parent.relative_to(base).as_posix() for path in base.rglob("*.parquet")}
        pending = (name.partition("/") for name, _ in _pending(part))
        names |= {rest.rpartition("/")[0] for own, _, rest in pending if own == kind}
    return sorted(names)


def _pending(folder: Path) -> list[tuple[str, pa.Table]]:
    """The pending tables of a run that was killed, each with its file; no truncated ones."""
    from pyarrow import ipc

    file = folder / PENDING
    if not file.exists():
        return []
    tables = []
    with pa.BufferReader(file.read_bytes()) as source:
        while source.tell() < source.size():
            try:
                table = ipc.open_stream(source).read_all()
            except pa.ArrowInvalid:
                break
            name = (table.schema.metadata or {})[b"file"].decode()
            tables.append((name, table.replace_schema_metadata(None)))
    return tables


def read_rows(folder: Path, kind: str, step: str) -> list[dict[str, Any]]:
    """The recorded rows of a step; none if none were recorded."""
    return [row for table in recorded_parts(folder, kind, step) for row in table.to_pylist()]


def read_lines(folder: Path, name: str) -> list[dict[str, Any]]:
    """The whole lines of a file of the record, or of its shards; none without the file."""
    path = folder / name
    if not path.exists():
        shards = records_of(folder)[1:]
        return [line for part in shards for line in read_lines(part, name)]
    objects = []
    for line in path.read_text(encoding="utf-8", errors="surrogatepass").split("\n"):
        try:
            objects.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return objects


def new_run(runs: Path) -> str:
    """A new id, unique in the folder: at least four hexadecimal digits."""
    import secrets

    digits = 4
    while True:
        name = secrets.token_hex(8)[:digits]
        if not (runs / name).exists():
            return name
        digits = min(digits + 1, 16)


def timestamp() -> datetime:
    """The time, to the microsecond, UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class Run:
    """One run's record (`docs/run-record.md`)."""

    folder: Path

    @property
    def name(self) -> str:
        """Its id."""
        return self.folder.name

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The content of `run.json`; {} if the run ended before it was written."""
        return _json(self.folder / "run.json")

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """The content of `metrics.json`; {} if the run was killed."""
        return _json(self.folder / "metrics.json")

    @property
    def asked(self) -> bool:
        """Whether the run has answers of a model, from this or an earlier run."""
        return bool(recorded_steps(self.folder, "answers"))

    @property
    def started(self) -> str:
        """When the run began, in ISO 8601; "" if that is unknown."""
        return str(self.facts.get("started") or "")

    def add(self, **facts: Any) -> None:
        """Add to `run.json`."""
        RunRecord(self.folder).describe(**(_json(self.folder / "run.json") | facts))

    def remove(self) -> None:
        """Delete the record, not the writes of the run or its answers in the journal."""
        shutil.rmtree(self.folder)


def _json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    return data if isinstance(data, dict) else {}


def all_runs(folder: Path = privacy.RUNS) -> list[Run]:
    """All records, the latest first."""
    runs = [Run(path.parent) for path in folder.glob("*/run.json")]
    return sorted(runs, key=lambda run: (run.started, run.name), reverse=True)


def keep_latest(folder: Path, served: Iterable[str], keep: int) -> None:
    """Mark the records of server calls, and delete all marked records but the latest."""
    marked = []
    for name in served:
        with suppress(FileNotFoundError):
            (folder / name / SERVED).touch(privacy.FILE)
    for path in folder.glob(f"*/{SERVED}"):
        with suppress(FileNotFoundError):  # another call deleted it
            marked.append((path.stat().st_mtime_ns, path.parent))
    for _, record in sorted(marked)[: max(0, len(marked) - keep)]:
        shutil.rmtree(record, ignore_errors=True)


def find_run(
    ref: str, folder: Path = privacy.RUNS, *, asking: bool = False, having: str | None = None
) -> Run:
    """A record by its name, a prefix, or `last` (if `asking`, that asked; the last one `having` this
    file). Raises PlanError.
    """
    runs = all_runs(folder)
    if ref == privacy.LAST and runs:
        fits = (
            run
            for run in runs
            if (run.asked or not asking) and (having is None or (run.folder / having).exists())
        )
        return next(fits, runs[0])
    names = [run.name for run in runs]
    exact = [run for run in runs if run.name == ref]
    matches = exact or [run for run in runs if ref and run.name.startswith(ref)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise PlanError(
            f'"{ref}" begins several runs', there=", ".join(run.name for run in matches)
        )
    known = f"runs in {folder}: {', '.join(names[:10]) or 'none'}"
    hint = did_you_mean(ref, names) or "List them: semgraph runs list"
    raise PlanError(f'there is no run "{ref}"', there=known, hint=hint)


FILE = "calls.jsonl"
_PENDING = 200


@dataclass
class CallLog:
    """Writes `calls.jsonl` of a run; `texts`: whether texts may be kept."""

    record: RunRecord
    texts: bool
    _pending: list[dict[str, Any]] = field(default_factory=list)
    seconds: dict[str, list[float]] = field(default_factory=dict)  # of each sent call, by role

    def add(self, request: Request, reply: Reply | None, at: float, error: str | None) -> None:
        """Enter one call."""
        answer = reply or Reply("")
        replayed = reply is not None and answer.origin == "issued" and answer.attempts == 0
        line: dict[str, Any] = {
            "call": answer.call_id or None, "step": request.step, "model": answer.model or None,
            "origin": "recording" if replayed else answer.origin if reply else None,
            "at": at, "took": time.time() - at, "seconds": answer.seconds,
            "tokens_in": answer.usage.prompt, "tokens_cached": answer.usage.cached, "tokens_out": answer.usage.completion,
            "dollars": answer.dollars, "error": error,
        }  # fmt: skip
        if self.texts and (replayed or error):
            line["messages"] = [[message.role, message.content] for message in request.messages]
            line |= {"schema": request.schema, "answer": answer.text}
        self._pending.append(line)
        if line["origin"] == "issued":
            self.seconds.setdefault(request.role, []).append(answer.seconds)
        if len(self._pending) >= _PENDING:
            self.flush()

    def flush(self) -> None:
        """Write pending calls."""
        self.record.lines(FILE, self._pending)
        self._pending = []


Add = Callable[[Request, Reply | None, float, str | None], None]


def noted(llm: LLM, add: Add) -> LLM:
    """The models, with their calls passed to `add`, which has the signature of `CallLog.add`."""
    wrap = partial(_Noted, add=add)
    return llm.each(wrap) if isinstance(llm, Roles) else wrap(llm)


class _Noted(Wrapper):
    def __init__(self, inner: LLM, add: Add) -> None:
        super().__init__(inner)
        self.add = add

    async def complete(self, request: Request) -> Reply:
        at = time.time()
        try:
            reply = await self.inner.complete(request)
        except (RowError, BudgetReached) as error:
            failure = error if isinstance(error, RowError) else error.__cause__
            if isinstance(failure, RowError):
                self.add(request, failure.spent, at, str(failure))
            raise
        self.add(request, reply, at, None)
        return reply


def read_calls(folder: Path) -> list[dict[str, Any]]:
    """The calls of a run in the order of completion; none if none were entered."""
    return read_lines(folder, FILE)


def as_exchange(line: dict[str, Any]) -> Exchange | None:
    """The question and answer of a line, or None if the line lacks them."""
    if "messages" not in line:
        return None
    messages = tuple(Message(role, content) for role, content in line["messages"])
    request = Request(role="", messages=messages, schema=line["schema"], step=line["step"])
    return Exchange(request, reply_of(line), line["model"] or "", "", line["at"] + line["took"])


def reply_of(line: dict[str, Any]) -> Reply:
    """The answer of a line; its text may be in the journal alone."""
    return Reply(
        line.get("answer", ""), Usage(line["tokens_in"], line["tokens_cached"], line["tokens_out"]),
        seconds=line["seconds"], call_id=line["call"] or "", model=line["model"] or "", dollars=line["dollars"],
    )  # fmt: skip


def read_answers(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The items and their answers, one row per item, by step."""
    return {step: read_rows(folder, "answers", step) for step in recorded_steps(folder, "answers")}


@contextmanager
def exchanges(
    run: Run, path: Path | str | None = None
) -> Iterator[Callable[[str], Exchange | None]]:
    """A function that finds the calls of a run by id, in its journal (or another) or its record."""
    lines = ((line["call"], as_exchange(line)) for line in read_calls(run.folder))
    recorded = {call: exchange for call, exchange in lines if exchange is not None}
    paths = [path] if path else [Run(part).facts.get("journal") for part in records_of(run.folder)]
    journals = dict.fromkeys(Path(path) for path in paths if path and Path(path).exists())
    with ExitStack() as closing:
        opened = [Journal(path, keep_days=None) for path in journals]
        for journal in opened:
            closing.callback(journal.close)

        def find(call: str) -> Exchange | None:
            found = (journal.exchange(call) for journal in opened)
            return recorded.get(call) or next(filter(None, found), None)

        yield find
