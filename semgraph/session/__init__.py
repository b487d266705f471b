"""A session: which models and store are used, and the calls that run, explain and compare plans
with them.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

from semgraph.compare.request import Compares, Ways
from semgraph.errors import PlanError, Problem, interruptible
from semgraph.execution.record import Run, find_run
from semgraph.execution.result import OnProgress, Result
from semgraph.frontend.frame import Frame
from semgraph.frontend.head import read_graph
from semgraph.frontend.load import LoadedPlans
from semgraph.llm.base import LLM, Embedder
from semgraph.llm.settings import Settings
from semgraph.logical.plan import Choice, LogicalPlan
from semgraph.logical.semantic import OnError
from semgraph.render.notebook import Drawing
from semgraph.session.explaining import Explained, ExplainFormat, explained
from semgraph.session.inputs import refuse_taken, run_before, sampled, typed_inputs
from semgraph.session.reports import Reports
from semgraph.session.resources import Given, Owned, Resources
from semgraph.session.resume import Resumed, resumed, same_plan
from semgraph.session.run import RunRequest, run_plan
from semgraph.session.waiting import Waiting
from semgraph.shipped import plans_folder
from semgraph.stores.base import Statistics, Store, open_for_reading

T = TypeVar("T")
PlanLike: TypeAlias = str | Path | LogicalPlan | Frame


class Session(Compares, Reports):
    """Models, an embedder, a store and limits; runs plans with them.

    Making a session opens nothing. It owns what its runs use: connections, the limits of endpoints,
        the journal, the store and
    models on this machine are opened once and shared by all its runs, also those at the same time;
    `close` or `aclose` ends them. What is not given comes from the environment, `semgraph.toml`, or
    the defaults: a local model and the store `.semgraph/graph.db`; `settings` says which and where
    from.

    Args:
        llm: A model such as `openai:gpt-4.1-mini`, `local`, `recorded`, or an `LLM` object, which
            the session wraps.
        embedder: Likewise, such as `local` or `openai:text-embedding-3-small`, or an `Embedder`
            object.
        store: `sqlite:PATH`, `memory`, `neo4j`, `neo4j://...`, `neo4j-local`, or a `Store`, which
            the session leaves open.
        use: Ways of steps for every plan, such as `{"told": "block(left=10)"}`.
        operators: Folders with implementations of your own; code is loaded from nowhere else.
        config: A file in place of `./semgraph.toml`.
        max_calls: Limit of model calls in a run; `max_tokens`, `max_usd` and `max_seconds`
            likewise.
        journal: Where answers are kept: a path, or False for nowhere.
        runs: Folder of run records; "" for none.
        folder: The directory that plans, settings and stores are looked for in.

    >>> Session(llm="recorded", store="memory").settings.store
    'memory'
    """

    def __init__(
        self,
        *,
        llm: str | LLM | None = None,
        embedder: str | Embedder | None = None,
        store: str | Store | None = None,
        use: Mapping[str, str] | None = None,
        operators: Sequence[str | Path] = (),
        config: str | Path | None = None,
        max_calls: int | None = None,
        max_tokens: int | None = None,
        max_usd: float | None = None,
        max_seconds: float | None = None,
        journal: str | Path | bool | None = None,
        runs: str | Path | None = None,
        folder: str | Path = ".",
    ) -> None:
        self.folder = Path(folder).absolute()
        self.use = dict(use or {})
        overrides: dict[str, Any] = {
            "llm": llm if isinstance(llm, str) else None,
            "embedder": embedder if isinstance(embedder, str) else None,
            "store": store if isinstance(store, str) else None,
            "operators": tuple(str(o) for o in operators) or None,
            "limits.max_calls": max_calls,
            "limits.max_tokens": max_tokens,
            "limits.max_usd": max_usd,
            "limits.max_seconds": max_seconds,
            "journal.path": str(journal) if isinstance(journal, (str, Path)) else None,
            "journal.keep_days": 0 if journal is False else None,
        }
        self.settings = Settings.load(
            overrides, cwd=self.folder, config=Path(config) if config else None
        )
        self.runs = (
            self.folder / ".semgraph" / "runs"
            if runs is None
            else (self.folder / runs if runs else None)
        )
        given = Given(
            None if isinstance(llm, str) else llm,
            None if isinstance(embedder, str) else embedder,
            None if isinstance(store, str) else store,
        )
        self._owned = Owned()
        self._resources = Resources(self.settings, given, self._owned)
        self._plans = LoadedPlans(self.folder)
        self._waiting = Waiting(self._owned.is_busy_here)
        weakref.finalize(self, _abandon, self._owned, self._waiting).atexit = False

    def prepare(
        self,
        plan: PlanLike,
        *,
        params: Mapping[str, Any] | None = None,
        preset: str | None = None,
        use: Mapping[str, str] | None = None,
        resume: str | None = None,
    ) -> LogicalPlan:
        """A checked plan; with `resume` as it was in that run, but for what is given. Raises
        PlanError.
        """
        with interruptible():
            return self._prepare(plan, params, preset, use, resume)

    def _prepare(
        self,
        plan: PlanLike,
        params: Mapping[str, Any] | None,
        preset: str | None,
        use: Mapping[str, str] | None,
        resume: str | None,
    ) -> LogicalPlan:
        chosen = {**self.use, **(use or {})}
        if isinstance(plan, (str, Path)):
            before = self.going_on(resume)
            if before.plan:
                same_plan(before, plan, self.folder)
            settled, ways = {**before.params, **(params or {})}, {**before.use, **chosen}
            return self._plans.load(plan, settled, preset, ways)
        if params or preset:
            raise PlanError(
                Problem(
                    "parameters and presets are settled when a plan is loaded",
                    hint="give its name or path",
                )
            )
        found = plan if isinstance(plan, LogicalPlan) else plan.to_plan()
        parsed = {step: Choice.parse(text) for step, text in chosen.items()}
        return replace(found, use={**found.use, **parsed}) if parsed else found

    def going_on(self, run: str | None) -> Resumed:
        """What a run was asked to do, and with what; nothing, without a run. Raises PlanError if it
        is not there.
        """
        return Resumed() if run is None else resumed(run, self.runs)

    def run(self, plan: PlanLike, /, **options: Any) -> Result:
        """Run a plan and wait for its result, in a script or inside a running event loop
        (Jupyter's).

        Takes the arguments of `arun`. An interrupt stops the run; what it paid for is in the
        journal.
        """
        return self._waiting.wait(self.arun(plan, **options), asks=True)

    async def arun(
        self,
        plan: PlanLike,
        /,
        *,
        params: Mapping[str, Any] | None = None,
        preset: str | None = None,
        use: Mapping[str, str] | None = None,
        until: str | None = None,
        rows: int | None = None,
        again: bool = False,
        fresh: bool = False,
        write: bool = True,
        on_error: OnError | None = None,
        progress: OnProgress | None = None,
        begun: Callable[[str], object] | None = None,
        record_to: str | Path | None = None,
        resume: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Result:
        """Run a plan.

        Args:
            plan: A path, a name, a loaded plan, or a frame.
            params: Values of parameters.
            preset: One of the plan's presets.
            use: Ways of steps, over the session's and the plan's.
            until: Compute up to this step, return its rows, write nothing.
            rows: Take only the first rows of the input that is cut into windows (of every input,
                without an order).
            again: Process rows that are in the graph already.
            fresh: Ask anew even what the journal knows.
            write: Whether to write to the store.
            on_error: `raise` or `null` for every semantic step, in place of its own.
            progress: Told of answers and commits while it runs.
            begun: Told the id of the run when it begins; of the plans that the example comes after,
                theirs before.
            record_to: A file for a recording of the run: answers, embeddings and times, which
                `llm="recorded:FILE"` replays.
            resume: A run to go on with: its rows, parameters, ways, models and store, unless others
                are given.
            inputs: Tables by the names of the plan's inputs: Arrow, pandas, or lists of mappings.
                None given: a frame's own, else the plan's example.
            more: The same as arguments, `tickets=rows`, for names that are no argument here.

        Raises:
            PlanError: The plan or an option is wrong; nothing was spent.
            InputError: The rows of an input are wrong; nothing was spent.
            UnavailableError: Model, endpoint or store do not answer.
        """
        given = dict(plan.tables) if isinstance(plan, Frame) else {}
        given |= {
            name: value for name, value in {**(inputs or {}), **more}.items() if value is not None
        }
        logical = self.prepare(plan, params=params, preset=preset, use=use, resume=resume)
        refuse_taken(logical, given, {"rows": rows, "until": until, "again": again, "fresh": fresh})
        before = self.going_on(resume)
        given = given or dict(before.inputs)
        resources = self._resources.under(before.settings(self.settings))
        first: list[Result] = []
        if not given and logical.inputs:
            resources = resources.sharing()
            example = RunRequest(
                logical, {}, until, write=write, progress=progress, runs=self.runs, begun=begun
            )
            first = await run_before(example, self.prepare, resources)
        tables = typed_inputs(logical, given, rows)
        request = RunRequest(
            logical,
            tables,
            until,
            again,
            fresh,
            write,
            on_error,
            progress,
            self.runs,
            record_to,
            begun=begun,
        )
        return replace(await run_plan(before.request(request), resources), first=tuple(first))

    def explain(
        self,
        plan: PlanLike,
        *,
        format: ExplainFormat = "tree",  # noqa: A002 - the option's name
        run: str | None = None,
        sample: int | None = None,
        compare: Ways | None = None,
        step: str | None = None,
        trials: int = 1,
        width: int = 100,
        inputs: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> str:
        """What a plan will do with this session's store and ways, and what it will take. Nothing is
        asked, nothing written.

        Args:
            plan: As in `arun`.
            format: `tree`, `algebra` (as written, before it is optimized), `mermaid`, `json`,
                `queries` (SQL, and what the store is asked), `rules` (what each rule changes), or
                `prompts` (the first messages of each step).
            run: A run (its id, or `last`), whose counts are put beside the estimates.
            sample: Run so many rows, with real calls and in a copy of the store, and say what all
                would take.
            compare: Ways of a step: not the plan, but what `compare` would take with them.
            step: Their step, if more than one asks a model.
            trials: So many of each.
            width: Columns that the tree may have.
            inputs: The rows that estimates are for; none given: the plan's example, where it has
                one.
            more: The same as arguments.
        """
        logical = self.prepare(plan)
        given = {**(dict(plan.tables) if isinstance(plan, Frame) else {}), **(inputs or {}), **more}
        known = given or not logical.inputs or logical.document.get("example")
        tables = typed_inputs(logical, given, None) if known else None

        async def work() -> str:
            if compare is not None:
                return await self._foreseen(logical, compare, step, trials, tables or {})
            some = (
                None
                if sample is None
                else await sampled(logical, tables or {}, sample, self._resources)
            )
            of = Explained(logical, tables, self._recorded(run), some, width)
            return await explained(of, self._resources, format)

        return Drawing(self._waiting.wait(work(), asks=sample is not None))

    def _recorded(self, run: str | None) -> Run | None:
        if run is None:
            return None
        if self.runs is None:
            raise PlanError(
                Problem(
                    f'there is no run "{run}"',
                    there="no records are kept",
                    hint="give runs= a folder",
                )
            )
        return find_run(run, self.runs)

    async def astatistics(self, graph: str | Path | None = None) -> Statistics:
        """What the store holds of a graph: rows by label, lengths of vectors. Neo4j is only read; a
        file is opened.

        Args:
            graph: A graph file; default: `plans/graph.yaml` here, else the shipped one.

        Raises:
            StoreUnavailable: It does not answer.
        """
        own = self.folder / "plans" / "graph.yaml"
        file = (
            Path(graph)
            if graph is not None
            else own
            if own.exists()
            else plans_folder() / "graph.yaml"
        )
        labels = read_graph(file)
        async with self._resources.opened_store(labels) as store:
            await open_for_reading(store, labels)
            return await store.statistics()

    def forget(self, groups: Iterable[str]) -> int:
        """Delete what the journal holds of some groups, not the graph nor records of runs; how many
        answers and vectors.

        Raises SemgraphError if another process holds the journal, or it cannot be written; nothing
        was deleted.
        """
        return self._resources.forget([groups] if isinstance(groups, str) else groups)

    async def aclose(self) -> None:
        """Close what the session keeps open, in all event loops that it was used in. It may be used
        again afterwards.
        """
        await self._owned.aclose()
        if not self._waiting.is_own:
            await asyncio.to_thread(self._waiting.close)

    def close(self) -> None:
        """As `aclose`, outside of an event loop. Within one, what belongs to that loop is closed as
        soon as it goes on.
        """
        self._owned.end_here_soon()
        self._waiting.wait(self.aclose())
        self._waiting.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{key}={value}"
            for key, value, _ in self.settings.rows()
            if key.startswith(("models.", "store"))
        )
        return f"Session({shown})"


def _abandon(owned: Owned, waiting: Waiting) -> None:
    """Close what a session that was never closed has open, now that nobody has it any more; nothing
    is waited for.
    """
    owned.abandon()
    waiting.stop()
