"""A session: models, an embedder, a store and limits, and the calls that run, explain and compare
plans with them, in coroutines, in scripts and within a running event loop (Jupyter's).
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import time
import weakref
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Self, TypeAlias, TypeVar

from semgraph.display import Drawing, command, option
from semgraph.errors import BudgetReached, PlanError, interruptible
from semgraph.execution.record import COMPARED, RAN, REFRESHED, all_runs, exchanges, find_run
from semgraph.execution.result import OnProgress, Result, RunHistory, load_result
from semgraph.folders import plans_folder
from semgraph.formats import stopped
from semgraph.frontend.document import checks_arguments
from semgraph.frontend.dump import errors_of
from semgraph.frontend.frame import Frame
from semgraph.frontend.graph_files import graph_file, read_graph
from semgraph.frontend.loaded import LoadedPlans
from semgraph.llm.base import LLM, ROLES, Embedder
from semgraph.llm.journal import size_on_disk
from semgraph.llm.settings import Settings, check_role
from semgraph.llm.stack import Budget
from semgraph.logical.plan import LogicalPlan, choices_over, models_of, without_absent
from semgraph.logical.schema import Graph
from semgraph.logical.semantic import OnError
from semgraph.meter import StepMetrics
from semgraph.optimizer import rewritten
from semgraph.options import RefreshOptions, RunOptions
from semgraph.privacy import RUNS
from semgraph.session.examples import run_before, sampled
from semgraph.session.inputs import (
    check_numbers,
    given_rows,
    no_plan,
    refuse_lost,
    refuse_other_groups,
    refuse_taken,
    refuse_unknown_words,
    refuse_unreadable,
    typed_inputs,
)
from semgraph.session.resources import Owned, Resources, UserObjects, require_model
from semgraph.session.resume import Resumed, read_resumed, recorded_run, require_same_plan
from semgraph.session.run import RunRequest, run_plan, trimmed
from semgraph.session.waiting import Waiting
from semgraph.stores.base import Statistics, Store, Written
from semgraph.tune.tuned import Tuned

if TYPE_CHECKING:
    import networkx as nx

    from semgraph.compare.comparison import Comparison, Estimate
    from semgraph.compare.request import ComparisonRequest, Say
    from semgraph.compare.variants import Grid, Variants
    from semgraph.render.stored import StoredGraph
    from semgraph.session.arms import ArmMaker
    from semgraph.session.explaining import ExplainFormat
    from semgraph.session.export import Exported
    from semgraph.session.refresh import Refresh
    from semgraph.session.sharded import ChosenEngine
    from semgraph.tune.tuning import Tuning

PlanLike: TypeAlias = str | Path | LogicalPlan | Frame
P = ParamSpec("P")
T = TypeVar("T")


def _say(line: str) -> None:  # replaced by `said`, which knows notebooks
    sys.stderr.write(line + "\n")


def _takes_arguments_of(
    coroutine: Callable[P, Coroutine[Any, Any, T]],
) -> Callable[[Callable[..., T]], Callable[P, T]]:
    """A method that waits for another one, with the signature of that one, and what its docstring
    says of the arguments.
    """

    def signed(method: Callable[..., T]) -> Callable[P, T]:
        method.__signature__ = inspect.signature(coroutine)  # type: ignore[attr-defined]
        own, arguments = (inspect.getdoc(each) or "" for each in (method, coroutine))
        method.__doc__ = "\n\n".join([own, "".join(arguments.partition("Args:")[1:])])
        return method

    return signed


async def _reprocessed(request: RunRequest, resources: Resources) -> Result:
    """Refresh a graph with fresh answers about the rows of a request."""
    from semgraph.render.diff import headline
    from semgraph.session.refresh import compute_refresh

    options = replace(request.options, fresh=False, write=True)  # in the scratch copy
    refresh = await compute_refresh(
        replace(request, options=options), RefreshOptions(fresh=True), resources
    )
    written = await refresh.aapply() if request.options.write else Written()
    result, changed = refresh.result, headline(refresh.diff)
    assert request.plan.windows is not None
    others = result.members - request.inputs[request.plan.windows.input].num_rows
    return replace(
        result, members=result.members - others, committed=result.committed - others,
        written=written.rows, notes=(*result.notes, f"these rows were processed again: {changed}"),
    )  # fmt: skip


class Session:
    """Models, an embedder, a store and limits; runs plans with them.

    Making a session opens nothing. A session owns the resources of its runs: connections, the
    limits of endpoints, the journal, the store and local models are opened once and shared by all
    its runs, also by concurrent ones; `close` or `aclose` closes them. Unset arguments come from
    the environment, `semgraph.toml`, or the defaults: a local model and the store
    `.semgraph/graph.db`. `settings` has each value and its origin.

    Args:
        llm: A model such as `openai:gpt-4.1-mini`, `local`, `recorded`, or an `LLM` object, which
            the session wraps.
        models: Models by role (`default`, `small`, `rerank`, or one of your own) or by step; they
            outrank `llm`, and a role without one falls back to `default`.
        embedder: Likewise, such as `local` or `openai:text-embedding-3-small`, or an `Embedder`
            object.
        store: `sqlite:PATH`, `memory`, `neo4j`, `neo4j://...`, `neo4j-local`, or a `Store`, which
            the session does not close.
        engine: The engine that executes runs: `ray`, `ray?shards=8&workers=2`,
            `ray://HOST:10001?shards=256`. Without one, runs are in this process.
        use: Implementations of steps for every plan, such as `{"told": "block(left=10)"}`.
        operators: Folders with your own implementations; user code is loaded only from these.
        functions: Folders with your own functions for expressions; likewise.
        config: A file that replaces `./semgraph.toml`.
        max_calls: Limit of model calls in a run; `max_tokens`, `max_usd` and `max_seconds`
            likewise.
        journal: The file of stored answers: a path, or False for none.
        runs: Folder of run records; "" for none.
        folder: The directory in which plans, settings and stores are looked up.
        group: Runs read and write only this group, whatever a plan names: `partition: all` means
            this group, and rows of another group are refused.
        within: A budget that all runs of this session share, in addition to the limits of each run.

    >>> Session(llm="recorded", store="memory").settings.store
    'memory'
    """

    @partial(checks_arguments, place="Session")
    def __init__(
        self,
        *,
        llm: str | LLM | None = None,
        models: Mapping[str, str | LLM] | None = None,
        embedder: str | Embedder | None = None,
        store: str | Store | None = None,
        engine: str | None = None,
        use: Mapping[str, str] | None = None,
        operators: Sequence[str | Path] = (),
        functions: Sequence[str | Path] = (),
        config: str | Path | None = None,
        max_calls: int | None = None,
        max_tokens: int | None = None,
        max_usd: float | None = None,
        max_seconds: float | None = None,
        journal: str | Path | bool | None = None,
        runs: str | Path | None = None,
        folder: str | Path = ".",
        group: str | None = None,
        within: Budget | None = None,
    ) -> None:
        self.folder = Path(folder).absolute()
        self.group = group
        self.use = dict(use or {})
        if not isinstance(models, Mapping | None):
            what, hint = "models is no mapping", 'models={"small": "openai:gpt-4.1-nano"}'
            raise PlanError(what, hint=hint)
        named = {role: model for role, model in (models or {}).items() if model is not None}
        for role in named:
            check_role(role)
        overrides: dict[str, Any] = {
            "llm": llm if isinstance(llm, str) else None,
            "models": {role: model for role, model in named.items() if isinstance(model, str)},
            "embedder": embedder if isinstance(embedder, str) else None,
            "store": store if isinstance(store, str) else None,
            "engine": engine,
            "operators": tuple(str(o) for o in operators) or None,
            "functions": tuple(str(f) for f in functions) or None,
            "max_calls": max_calls,
            "max_tokens": max_tokens,
            "max_usd": max_usd,
            "max_seconds": max_seconds,
            "journal.path": str(journal) if isinstance(journal, (str, Path)) else None,
            "journal.keep_days": 0 if journal is False else None,
        }
        self.settings = Settings.load(
            overrides, cwd=self.folder, config=Path(config) if config else None
        )
        runs = RUNS if runs is None else runs
        self.runs = self.folder / runs if runs else None
        given: dict[str, Any] = {"default": llm, "embed": embedder, **named}
        own = {role: model for role, model in given.items() if not isinstance(model, str | None)}
        for role, model in own.items():
            require_model(role, model)
        own_embedder = own.pop("embed", None)
        objects = UserObjects(own, own_embedder, None if isinstance(store, str) else store)
        self._owned = Owned()
        self._resources = Resources(self.settings, objects, self._owned, within=within, group=group)
        self._plans = LoadedPlans(self.folder, self.settings.functions)
        self._waiting = Waiting(self._owned.is_busy_here)
        weakref.finalize(self, _abandon, self._owned, self._waiting).atexit = False

    @checks_arguments
    def prepare(
        self,
        plan: PlanLike,
        *,
        params: Mapping[str, Any] | None = None,
        preset: str | Path | None = None,
        use: Mapping[str, str] | None = None,
        prompts: Mapping[str, str | Path] | None = None,
        resume: str | None = None,
        resources: Resources | None = None,
        strict: bool = False,
    ) -> LogicalPlan:
        """A checked plan. With `resume`, unset parameters, implementations and prompts come from that
        run. `resources` are the models that it is for; default: those of the session. `strict` refuses
        the preset `tuned` if it is stale, which is a warning otherwise.

        The choice of a step is that of `use` (also of the call that prepared a plan before), else the
        session's, the resumed run's, the plan's; its model that of `use`, else the one that `models`
        bind to the step, else of the others in this order.

        Raises:
            PlanError: The plan is wrong, or an option names what it lacks.
        """
        if not isinstance(use, Mapping | None):
            hint = f'write use={{STEP: "{use}"}}, with the name of the step'
            raise PlanError("use names implementations by step", hint=hint)
        with interruptible():
            of, asked, tuned = resources or self._resources, choices_over(use or {}, {}), Tuned()
            if isinstance(plan, (str, Path)):
                tuned = Tuned.asked(plan, preset, self.folder)
                earlier, asked = self.resumed(resume), choices_over(asked, tuned.of("use"))
                if earlier.plan:
                    require_same_plan(earlier, plan, self.folder)
                values = {**tuned.of("params"), **earlier.params, **(params or {})}
                asked = choices_over(asked, earlier.models)
                chosen = choices_over(choices_over(asked, self.use), earlier.use)
                files = {**earlier.prompts, **(prompts or {})}
                with tuned.named():
                    logical = self._plans.load(plan, values, tuned.preset, chosen, files)
                    logical = rewritten(logical, *earlier.rewrites)
            elif not isinstance(plan, (LogicalPlan, Frame)):
                raise no_plan(plan)
            elif params or preset or prompts:
                what = "parameters, presets and prompts take effect when a plan is loaded"
                raise PlanError(what, hint="give the plan's name or path")
            else:
                logical = plan if isinstance(plan, LogicalPlan) else plan.to_plan()
                logical.require_steps(asked)
                asked = choices_over(asked, logical.asked)
                logical = logical.using(choices_over(asked, self.use))
            logical = logical.by_models((*of.settings.chosen_roles, *of.objects.models), ROLES)
            if asked:
                logical = replace(logical.using(models_of(asked)), asked=asked)
            means, own = (of.name_of, of.settings.operators), (*(use or ()), *(params or ()))
            return tuned.on(logical, *means, own, strict=strict)

    def resumed(self, run: str | None) -> Resumed:
        """The request of a recorded run; empty without a run. Raises PlanError if there is no such
        run.
        """
        return Resumed() if run is None else read_resumed(run, self.runs)

    async def arun(
        self,
        plan: PlanLike,
        /,
        *,
        params: Mapping[str, Any] | None = None,
        preset: str | Path | None = None,
        use: Mapping[str, str] | None = None,
        prompts: Mapping[str, str | Path] | None = None,
        until: str | None = None,
        rows: int | None = None,
        sample: int | None = None,
        seed: int = 0,
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
            preset: One of the plan's presets; `tuned`, the choice of `semgraph tune`; or its file.
            use: Implementations of steps; they take precedence over those of the session and the
                plan.
            prompts: Files in the place of prompts of the plan and of called plans, by name:
                `{"judge_fact": "mine.md"}`.
            until: Compute up to this step, return its rows, write nothing.
            rows: Take only the first rows of the input that is cut into windows; without windows,
                of every input.
            sample: Take so many rows by their hash, in place of the first: of the windowed input whole
                groups, without windows of the longest input.
            seed: Another choice of the sample.
            again: Ask the model anew about these rows, also those that the graph has already, and
                refresh the graph with the answers; see `arefresh`.
            fresh: Ignore cached answers.
            write: Whether to write to the store.
            on_error: `raise` or `null` for every semantic step; replaces the step's own value.
            progress: Called after answers and commits. None: no progress is shown.
            begun: Called with the id of the run at its start; also for the plans that the example
                depends on.
            record_to: A file for a recording of the run: answers, embeddings and times, which
                `llm="recorded:FILE"` replays.
            resume: A run to resume: unset rows, parameters, implementations, models and store come
                from it.
            inputs: Tables by the names of the plan's inputs: pandas, Polars, Arrow, lists of
                mappings, or the results of `table` and `read_csv`. Default: a frame's own rows,
                else the plan's example. `"all"`: all partitions of the store, for an input that is
                `optional: {NAME: all}`.
            more: Further inputs as keyword arguments, `tickets=rows`, for names that are no
                argument here.

        Raises:
            PlanError: The plan or an option is wrong; nothing was spent.
            InputError: The rows of an input are wrong; nothing was spent.
            UnavailableError: The model, endpoint or store does not answer.
            BudgetReached: A limit stopped the run; `result` of the error has the written rows.
            RowError: Every row failed; its `result` has them.
        """
        rows_by_input = given_rows(plan, {**(inputs or {}), **more})
        logical = self.prepare(
            plan, params=params, preset=preset, use=use, prompts=prompts, resume=resume
        )
        refuse_unknown_words(logical, more, Session.arun)
        options = RunOptions(
            rows=rows, sample=sample, seed=seed, until=until, write=write, resume=resume, again=again, fresh=fresh,
            on_error=on_error, progress=progress, begun=begun, record_to=record_to,
        )  # fmt: skip
        refuse_taken(logical, rows_by_input, options)
        earlier = self.resumed(resume)
        if rows_by_input:  # the resumed results belong to other rows
            earlier = replace(earlier, records=())
        rows_by_input = rows_by_input or earlier.rows(logical)
        resources = self._resources.under(earlier.settings(self.settings))
        request = RunRequest(logical, {}, options, self.runs)
        check_numbers(options)  # and other options, before the example is paid
        trimmed(request)
        if options.reprocesses(logical):
            from semgraph.session.refresh import require_refreshable

            require_refreshable(logical, resources)
        engine = self._engine(resources, earlier)
        first: list[Result] = []
        if not rows_by_input and logical.inputs:
            resources = resources.sharing()
            first = await run_before(request, self.prepare, resources)
        tables = typed_inputs(logical, rows_by_input, options)
        refuse_other_groups(logical, tables, self.group)
        request = replace(
            request, plan=without_absent(logical, tables), inputs=tables, options=earlier.merged(options),
            notes=earlier.changed_functions(logical), resumed=earlier.records,
        )  # fmt: skip
        if options.reprocesses(logical):
            result = await _reprocessed(request, resources)
        elif engine is None:
            result = await run_plan(request, resources)
        else:
            from semgraph.session.sharded import run_with_engine

            result = await run_with_engine(request, resources, engine)
        result = replace(result, first=tuple(first))
        if result.stopped:
            advice = f'With a higher limit: session.run("{plan}", resume="{result.run}")'
            if result.record is None or not isinstance(plan, str | Path):
                advice = "With a higher limit the same call goes on"
                advice += ": answers so far are in the journal"
            raise BudgetReached(f"run {result.run} {stopped(result.stopped)}. {advice}", result)
        refuse_lost(result, tables)
        return result

    @_takes_arguments_of(arun)
    def run(self, plan: PlanLike, /, **options: Any) -> Result:
        """Run a plan and wait for its result, in a script or inside a running event loop
        (Jupyter's).

        Takes the arguments of `arun`. Without `progress`, a long run shows its progress on stderr;
        `progress=None` disables this. An interrupt stops the run; paid answers are in the journal.
        """
        return self._shown(self.arun, plan, options)

    async def arefresh(
        self,
        plan: PlanLike,
        /,
        *,
        params: Mapping[str, Any] | None = None,
        preset: str | Path | None = None,
        use: Mapping[str, str] | None = None,
        prompts: Mapping[str, str | Path] | None = None,
        complete: bool = False,
        retract: int | None = None,
        in_order: bool = False,
        adopt: bool = False,
        discard_edits: bool = False,
        fresh: bool = False,
        dry_run: bool = False,
        progress: OnProgress | None = None,
        begun: Callable[[str], object] | None = None,
        record_to: str | Path | None = None,
        inputs: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Refresh:
        """Compute what a plan makes of its present inputs, and how the graph differs from it. Nothing
        is written before `apply`.

        All groups of the inputs are computed again, in a scratch copy. The journal answers each
        request that has not changed. Rows that other plans or programs wrote stay, and so does what
        they changed. A row that was committed keeps its `$now`; a new one takes its place in the
        plan's order.

        Args:
            plan: As in `arun`, with `params`, `preset`, `use`, `prompts`, `progress`, `begun`,
                `record_to`, `inputs` and `more`.
            params: Values of parameters.
            preset: One of the plan's presets, `tuned`, or the file of a choice.
            use: Implementations of steps.
            prompts: Files in the place of prompts.
            complete: The inputs are all there is: what follows from other rows is removed. Without
                it, rows that the inputs lack stay; their values are read from the graph.
            retract: With `complete`, the most rows that a group may lose; default: a tenth of it.
            in_order: Cut windows by the plan's order, in place of the committed windows.
            adopt: Take all rows of the plan's labels as its own, in groups that an earlier version
                wrote.
            discard_edits: Take the plan's value where another plan or somebody changed it.
            fresh: Ask the model anew about the rows that are given.
            dry_run: Send no request; count those that the journal lacks.
            progress: Called after answers and commits.
            begun: Called with the id of the run at its start.
            record_to: A file for a recording.
            inputs: Tables by the names of the plan's inputs.
            more: Further inputs.

        Raises:
            PlanError: The plan, an option or the rows are wrong, the plan has no windows, or the
                values of a row are not in the graph; nothing was spent.
            BudgetReached: A limit stopped it. Repeat it with a higher one: the journal has the answers.
        """
        from semgraph.session.refresh import compute_refresh

        if retract is not None and not complete:
            hint = f"add {command('--complete', 'complete=True')}, or leave it out"
            raise PlanError(f"{option('retract', retract)} retracts nothing", hint=hint)
        given = given_rows(plan, {**(inputs or {}), **more})
        logical = self.prepare(plan, params=params, preset=preset, use=use, prompts=prompts)
        refuse_unknown_words(logical, more, Session.arefresh)
        tables = typed_inputs(logical, given)
        refuse_other_groups(logical, tables, self.group)
        options = RunOptions(progress=progress, begun=begun, record_to=record_to)
        request = RunRequest(without_absent(logical, tables), tables, options, self.runs)
        how = RefreshOptions(
            complete=complete, retract=retract, in_order=in_order, adopt=adopt,
            discard_edits=discard_edits, fresh=fresh, dry_run=dry_run,
        )  # fmt: skip
        refresh = await compute_refresh(request, how, self._resources)
        return replace(refresh, _wait=self._waiting.wait)

    @_takes_arguments_of(arefresh)
    def refresh(self, plan: PlanLike, /, **options: Any) -> Refresh:
        """Compute a refresh, with the progress of `run`, and wait for it. Takes the arguments of `arefresh`.

        >>> refresh = session.refresh("memory.yaml", messages=rows)  # doctest: +SKIP
        >>> refresh.diff, refresh.apply()  # doctest: +SKIP
        """
        return self._shown(self.arefresh, plan, options)

    def _shown(
        self, call: Callable[..., Coroutine[Any, Any, T]], plan: PlanLike, options: dict[str, Any]
    ) -> T:
        """The result of a call, whose progress is shown on stderr unless the options have `progress`."""
        from semgraph.render.progress import shown

        with nullcontext() if "progress" in options else shown(sys.stderr) as progress:
            job = call(plan, **{"progress": progress, **options})
            return self._waiting.wait(job, calls_model=True)

    @property
    def usage(self) -> StepMetrics:
        """The counters of all ended runs of this session, including failed ones: calls, tokens,
        dollars, seconds of the steps.
        """
        return replace(self._owned.spent)

    def _engine(self, resources: Resources, earlier: Resumed) -> ChosenEngine | None:
        """The engine of a run; None: this process. Raises PlanError."""
        if "engine" not in self.settings.values and earlier.engine is None:
            return None
        if self.group is not None:
            what = f'a session of the group "{self.group}" alone runs in this process'
            raise PlanError(what, hint="leave the engine out")
        if resources.within is not None:
            what = "a session whose runs share a budget runs in this process"
            raise PlanError(what, hint="leave the engine out")
        from semgraph.session.sharded import chosen_engine

        return chosen_engine(resources, earlier)

    def explain(
        self,
        plan: PlanLike,
        *,
        format: ExplainFormat = "tree",  # noqa: A002 - the option's name
        run: str | None = None,
        sample: int | None = None,
        compare: Variants | None = None,
        step: str | None = None,
        trials: int = 1,
        width: int = 100,
        expand: Sequence[str] = (),
        full: bool = False,
        inputs: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> str:
        """Describe a plan and its cost, with this session's store and implementations. No model is
        called and nothing is written, unless `sample` is given.

        Args:
            plan: As in `arun`.
            format: `tree`, `algebra` (as written, before it is optimized), `mermaid`,
                `json`, `queries` (SQL and the store's queries), or `prompts` (the first messages of
                each step).
            run: A run (its id, or `last`); its counts are shown next to the estimates.
            sample: The number of rows to run with real calls, in a copy of the store; the cost of
                all rows is estimated from them.
            compare: Implementations of a step: describe the cost of `compare` with them.
            step: The compared step, if more than one calls the model.
            trials: The number of trials of each implementation.
            width: The width of the lines.
            expand: Steps that are opened: the steps of the plans that they call are listed.
            full: Open all steps; with `algebra` too.
            inputs: The rows to estimate; default: the plan's example, if it has one.
            more: Further inputs as keyword arguments.
        """
        logical = self.prepare(plan)
        refuse_unknown_words(logical, more, Session.explain)
        given = {**(inputs or {}), **more}
        if compare is not None:
            from semgraph.compare.loop import foreseen
            from semgraph.compare.step import only_step

            name = step or only_step(logical)
            asked = self._comparison(
                plan, compare, None, name, given, RunOptions(), {}, trials=trials
            )
            job = foreseen(*asked)
            return Drawing("\n".join(self._waiting.wait(job, calls_model=False)[1]))
        rows_by_input = given_rows(plan, given)
        has_rows = rows_by_input or not logical.inputs or logical.document.get("example")
        tables = typed_inputs(logical, rows_by_input) if has_rows else None
        logical = logical if tables is None else without_absent(logical, tables)

        from semgraph.session.explaining import Explanation

        async def work() -> str:
            rows = tables or {}
            some = sample and await sampled(logical, rows, sample, self._resources)
            explanation = Explanation(
                logical, self._resources, tables, None if run is None else recorded_run(run, self.runs),
                some or None, width, expand, full,
            )  # fmt: skip
            return await explanation.text(format)

        text = self._waiting.wait(work(), calls_model=sample is not None)
        return text if isinstance(text, Drawing) else Drawing(text)

    async def acompare(  # noqa: D417 - the others are those of `arun`
        self,
        plan: PlanLike | None = None,
        /,
        *,
        dataset: str | Path | None = None,
        variants: Variants | None = None,
        grid: Grid | None = None,
        step: str | None = None,
        truth: Any = None,
        labels: Any = None,
        at: str | Sequence[int] = (5, 10),
        judge: PlanLike | None = None,
        trials: int = 1,
        params: Mapping[str, Any] | None = None,
        preset: str | Path | None = None,
        use: Mapping[str, str] | None = None,
        prompts: Mapping[str, str | Path] | None = None,
        strict: bool = False,
        rows: int | None = None,
        sample: int | None = None,
        seed: int = 0,
        fresh: bool = False,
        times: bool = False,
        record_to: str | Path | None = None,
        say: Say | None = _say,
        inputs: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Comparison:
        """Compare variants of a step over one frozen input, or of a whole plan. Nothing is written to
        the store.

        With `step`, its input is computed once, in a copy of the groups that are read, by the reference
        if it depends on what the plan writes. Without, each variant runs the whole plan in a copy of its
        own, and is scored by the graph that it writes, or by its rows. A request that several variants
        need is sent once, and each is charged for it; trials share no answers.

        Args:
            plan: A path, a name, a loaded plan, or a frame; default: that of the data set.
            dataset: A folder with the rows, the truth and the plan, or the name of one that comes with
                semgraph. What else is given takes the place of its files.
            variants: With `step` implementations, `["per_row", "packed(rows=10)"]`, or these by name.
                Or changes by variant, `{"one": {"preset": "fused"}, "two": {"told": "block()"}}`:
                `preset`, `plan`, `llm`, `embedder`, `params.NAME`, `models.ROLE`, `prompts.NAME` (a
                file), `rules.NAME` (on or off), or a step. Or the path of a file of these. The reference
                is the operator's if it is among them, else the first.
            grid: In place of variants: the values of each change, whose product is compared.
            step: The step.
            truth: The true answers: a file, a table or mappings with columns that identify a row of the
                step's input, and columns of its answers. For whole plans `{"nodes": ..., "edges":
                ...}`. None: measure agreement with the reference.
            labels: For the rows that whole plans return: columns of an input, which name a query, and
                either a row's key with its `grade` (extra `measures`) or the true answer. `{"edges":
                FILE}` names the returned table.
            at: The values of k of measures by grades.
            judge: A plan that says which answers are right: from `answers`, with `answer`, `truth` and
                columns of the row, it returns `correct` beside some of these columns.
            trials: The number of independent trials of each variant.
            params: As for `arun`, for all variants, as `preset`, `use`, `prompts`, `rows`, `sample`,
                `seed`, `fresh`, `inputs` and further inputs as keyword arguments.
            strict: Refuse a stale choice of `semgraph tune`.
            times: Send all requests of each variant, so that its time can be measured.
            record_to: A file for a recording of what the session's own models answer.
            say: Called with the estimated cost and with progress, line by line; default: print to
                stderr, in a notebook one line that changes. None: silent.

        Raises:
            PlanError: The request is wrong; nothing was spent.
            InputError: The rows or the truth are wrong; nothing was spent.
            BudgetReached: The comparison would exceed a limit; nothing was spent.
        """
        from semgraph.compare.loop import compare
        from semgraph.render.progress import said

        loading: dict[str, Any] = {"params": params, "preset": preset, "use": use}
        loading |= {"prompts": prompts, "strict": strict}
        given = {**(inputs or {}), **more}
        if dataset is not None:
            from semgraph.compare.dataset import Dataset

            data = Dataset.named(dataset, self.folder)
            plan = data.plan if plan is None else plan
            logical = self.prepare(plan, **loading)
            given |= data.rows(logical, given)
            if labels is None:
                answers = data.answers(logical, step, truth)
                step, truth, labels = (answers.get(key) for key in ("step", "truth", "labels"))
            variants = variants or (None if grid else data.variants)
        if plan is None:
            hint = command("semgraph compare PLAN …, or --dataset DIR", 'compare("PLAN", …)')
            raise PlanError("there is no plan to compare", hint=hint)
        with said(sys.stderr if say is _say else say) as saying:
            request, resources = self._comparison(
                plan, variants, grid, step, given, RunOptions(rows=rows, sample=sample, seed=seed), loading,
                truth=truth, trials=trials, runs=self.runs, fresh=fresh, times=times, say=saying, labels=labels, at=at,
                judge=None if judge is None else self.prepare(judge), record_to=record_to,
            )  # fmt: skip
            if dataset is not None:
                refuse_unreadable(request.inputs)
            return await compare(request, resources)

    def _comparison(
        self,
        plan: PlanLike,
        variants: Variants | None,
        grid: Grid | None,
        step: str | None,
        inputs: Mapping[str, Any],
        chosen: RunOptions,
        loading: Mapping[str, Any],
        **options: Any,
    ) -> tuple[ComparisonRequest, Resources]:
        """The request of a comparison, and its models. Raises PlanError or InputError."""
        from semgraph.compare.variants import read_variants

        if isinstance(variants, Path):
            variants = self.folder / variants
        by_name = read_variants(variants, step, grid)
        maker = self._arm_maker(plan, inputs, loading, Session.acompare, chosen, step)
        return maker.request(maker.arms(by_name), step or "", **options), maker.resources

    def _arm_maker(
        self, plan: PlanLike, inputs: Mapping[str, Any], loading: Mapping[str, Any],
        method: Callable[..., Any], chosen: RunOptions, step: str | None = None,
    ) -> ArmMaker:  # fmt: skip
        """What makes the arms of a comparison or a tuning. Raises PlanError or InputError."""
        from semgraph.compare.step import semantic_node
        from semgraph.session.arms import ArmMaker

        logical = self.prepare(plan, **loading)
        refuse_unknown_words(logical, inputs, method)
        if step is not None:
            semantic_node(logical, step)  # raises
        rows = partial(typed_inputs, inputs=given_rows(plan, inputs), options=chosen)
        resources = self._resources.sharing()
        return ArmMaker(plan, logical, rows(logical), resources, loading, self.prepare, rows)

    async def atune(  # noqa: D417 - the others are those of `arun`
        self,
        plan: PlanLike,
        /,
        *,
        floor: float | None = None,
        per_1000: float | None = None,
        confidence: float = 0.95,
        sample: int = 400,
        seed: int = 0,
        truth: Any = None,
        models: Sequence[str] | None = None,
        steps: Sequence[str] | str | None = None,
        units: Literal["call", "row"] = "call",
        rows: int | None = None,
        params: Mapping[str, Any] | None = None,
        preset: str | Path | None = None,
        use: Mapping[str, str] | None = None,
        prompts: Mapping[str, str | Path] | None = None,
        strict: bool = False,
        fresh: bool = False,
        say: Say | None = _say,
        ask: Callable[[Sequence[str]], bool] | None = None,
        inputs: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Tuning:
        """Choose the cheapest configuration of a plan that is shown to be good enough: implementations and
        models of its steps, presets, called plans. Nothing is written to the store.

        The plan as it is called is the reference. Candidates are tried from cheap to dear on rows that are
        drawn at random, and one is chosen only if an exact test shows its quality.

        Args:
            plan: A path, a name, a loaded plan, or a frame.
            floor: The least F1, against the truth, or without one against the reference's answers.
            per_1000: In place of a floor the highest price of 1,000 rows, in dollars: the candidate with
                the greatest lower bound of F1 is chosen.
            confidence: The probability of the promise.
            sample: The most rows (units) that are checked of a candidate.
            seed: Another draw of them.
            truth: The true answers of a step, or of a whole plan, as for `acompare`.
            models: Roles, or PROVIDER:NAME; the first is that of the reference. Default: the plan's.
            steps: The steps to tune; default: all that call a model, of plans that write a graph the whole
                plan.
            units: `call`: of the rows that share a call one is checked. `row`: all are, as if they failed
                independently.
            rows: The number of rows on which the choice will be used; a search that costs more than it
                can save there is not begun.
            params: As for `arun`, as `preset`, `use`, `prompts`, `strict`, `fresh`, `inputs` and further inputs as
                keyword arguments.
            say: Called with the plan of the search and with progress, line by line. None: silent.
            ask: Called once before the search, with its lines; if it returns False, nothing is searched.

        Raises:
            PlanError: The request is wrong, or these rows cannot show the floor: nothing was spent but
                for a few rows.
            InputError: The rows or the truth are wrong; nothing was spent.
            BudgetReached: The search would pass a limit.
        """
        from semgraph.compare.variants import read_variants
        from semgraph.render.progress import said
        from semgraph.tune.choose import tune
        from semgraph.tune.search import TuneRequest

        loading: dict[str, Any] = {"params": params, "preset": preset, "use": use}
        loading |= {"prompts": prompts, "strict": strict}
        given = {**(inputs or {}), **more}
        maker = self._arm_maker(plan, given, loading, Session.atune, RunOptions())
        with said(sys.stderr if say is _say else say) as saying:
            request = TuneRequest(
                maker.request({}, truth=truth, runs=self.runs, fresh=fresh, say=saying),
                lambda changes: maker.arms(read_variants(changes, None)),
                tuple([steps] if isinstance(steps, str) else steps or ()), floor, per_1000, confidence, sample, seed,
                units, tuple(models or ()), None if preset is None else str(preset), rows, ask,
            )  # fmt: skip
            return await tune(request, maker.resources)

    @_takes_arguments_of(atune)
    def tune(self, plan: PlanLike, /, **options: Any) -> Tuning:
        """Tune and wait for the result. Takes the arguments of `atune`."""
        return self._waiting.wait(self.atune(plan, **options), calls_model=True)

    @_takes_arguments_of(acompare)
    def compare(self, plan: PlanLike | None = None, /, **options: Any) -> Comparison:
        """Compare and wait for the result. Takes the arguments of `acompare`."""
        return self._waiting.wait(self.acompare(plan, **options), calls_model=True)

    def estimate(
        self,
        plan: PlanLike,
        *,
        variants: Variants | None = None,
        grid: Grid | None = None,
        step: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> list[Estimate]:
        """The expected cost of one trial of each variant, as `compare` takes them; empty if a model has
        to be called first for the rows of the step. No model is called; texts that a search needs are
        embedded. Raises PlanError.
        """
        from semgraph.compare.loop import foreseen

        asked = self._comparison(
            plan, variants, grid, step, {**(inputs or {}), **more}, RunOptions(), {}
        )
        return list(self._waiting.wait(foreseen(*asked), calls_model=False)[0])

    async def arequire_prices(self, plans: Iterable[LogicalPlan]) -> None:
        """Check that limits in dollars can be enforced. Raises PlanError if a model that the plans use
        has no known price, or is for a misspelt role or step.
        """
        await self._resources.require_prices([self.prepare(plan) for plan in plans])

    def require_store(self, settings: Settings) -> None:
        """Check that the store name is complete. Raises PlanError or StoreUnavailable."""
        self._resources.under(settings).require_store()

    async def astatistics(self, graph: str | Path | None = None) -> Statistics:
        """Count the store's rows by label, with the lengths of vectors. Neo4j is only read; a file
        is opened.

        Args:
            graph: A graph file; default: `plans/graph.yaml` here, else the shipped one.

        Raises:
            StoreUnavailable: It does not answer.
        """
        labels = self._labels(graph)
        async with self._resources.opened_store(labels) as store:
            await store.attach(labels)
            return await store.statistics()

    async def acypher(
        self, text: str, parameters: Mapping[str, Any] | None = None, *, write: bool = False
    ) -> list[dict[str, Any]]:
        """The rows, by column, of a Cypher statement in a Neo4j store, which only reads unless `write`.
        Raises PlanError for another store and in a session of a group, EngineError for a statement that
        is wrong or may not write, StoreUnavailable.
        """
        if self.group is not None:
            raise PlanError(f'Cypher sees all groups, this session the group "{self.group}" alone')
        async with self._resources.opened_store() as store:
            cypher = getattr(store, "cypher", None)
            if cypher is None:
                raise PlanError(f"{store.name} has no Cypher", hint="use --store neo4j")
            rows: list[dict[str, Any]] = await cypher(text, parameters or {}, write=write)
            return rows

    @_takes_arguments_of(acypher)
    def cypher(self, text: str, **options: Any) -> list[dict[str, Any]]:
        """The rows of a Cypher statement in a Neo4j store. Takes the arguments of `acypher`."""
        return self._waiting.wait(self.acypher(text, **options))

    def _labels(self, graph: str | Path | Graph | None) -> Graph:
        """A graph, the graph of a file, or that of the file used here. Raises PlanError."""
        if isinstance(graph, Graph):
            return graph
        local = self.folder / "plans" / "graph.yaml"
        default = local if local.exists() else plans_folder() / "graph.yaml"
        with errors_of("graph"):
            return read_graph(default if graph is None else graph_file(graph, self.folder))

    @checks_arguments
    def graph(self, group: str, *, graph: str | Path | Graph | None = None) -> nx.MultiDiGraph:
        """A group's nodes and edges. Blocks until `agraph` ends."""
        return self._waiting.wait(self.agraph(group, graph=graph))

    async def agraph(
        self, group: str, *, graph: str | Path | Graph | None = None
    ) -> nx.MultiDiGraph:
        """A group's nodes and edges as a networkx graph. The store is only read.

        A node is identified by its key, or by `KEY (LABEL)` if nodes of several labels have it; an edge
        by its key. Attributes are `label` and the properties that have a value; times are `datetime`,
        open attributes a `dict`. Vectors and derived texts are excluded.

        Args:
            group: The value of the partition.
            graph: A graph file, or a `Graph`; default: `plans/graph.yaml` here, else the shipped one.

        Raises:
            PlanError: The store holds no row of this group.
            StoreUnavailable: The store does not answer, or does not exist.
        """
        from semgraph.session.export import group_rows, networkx_graph

        labels = self._labels(graph)
        async with group_rows(self._resources, labels, group) as tables:
            return await networkx_graph(labels, tables)

    @checks_arguments
    async def ashow(
        self,
        group: str,
        *,
        at: str | date | None = None,
        graph: str | Path | Graph | None = None,
    ) -> StoredGraph:
        """A group's graph as a text and a drawing, which a notebook shows and `save` writes as a page.
        The store is only read.

        Args:
            group: The value of the partition.
            at: A time, `2025-02-01`: edges that do not hold then are left out.
            graph: A graph file, or a `Graph`; default: `plans/graph.yaml` here, else the shipped one.

        Raises:
            PlanError: The store holds no row of this group, or `at` is no time.
            StoreUnavailable: The store does not answer, or does not exist.
        """
        from semgraph.render.picture import Picture, pictures
        from semgraph.render.stored import stored
        from semgraph.session.export import group_rows, told_apart

        labels = self._labels(graph)
        async with group_rows(self._resources, labels, group) as rows:
            found = told_apart([each async for each in rows], labels.key)
            tables = [(label.name, table) for label, table in found]
        (drawn,) = pictures(tables, labels) or [Picture(group)]
        return stored(drawn, labels, rows.notes, at)

    @_takes_arguments_of(ashow)
    def show(self, group: str, **options: Any) -> StoredGraph:
        """A group's graph as a text and a drawing. Takes the arguments of `ashow`."""
        return self._waiting.wait(self.ashow(group, **options))

    async def agroups(self, graph: str | Path | Graph | None = None) -> dict[str, dict[str, int]]:
        """The groups of the store, each with its number of rows by label. Takes the `graph` of `ashow`.
        Raises PlanError, StoreUnavailable.
        """
        from semgraph.session.export import groups

        return await groups(self._resources, self._labels(graph))

    @checks_arguments
    def export(
        self, group: str, to: str | Path, *, graph: str | Path | Graph | None = None
    ) -> Exported:
        """Write a group into a file. Blocks until `aexport` ends."""
        return self._waiting.wait(self.aexport(group, to, graph=graph))

    async def aexport(
        self, group: str, to: str | Path, *, graph: str | Path | Graph | None = None
    ) -> Exported:
        """Write a group's nodes and edges into a file. The store is only read.

        Args:
            group: The value of the partition.
            to: `FILE.graphml`, `FILE.json` (node-link data of networkx), or `FOLDER.parquet`, a
                folder with `nodes.parquet` and `edges.parquet`. A relative path is resolved in the
                session's folder.
            graph: A graph file, or a `Graph`; default: `plans/graph.yaml` here, else the shipped one.

        Returns:
            The path, and the counts of nodes and edges.

        Raises:
            PlanError: The suffix is unknown, or the store holds no row of this group.
            StoreUnavailable: The store does not answer, or does not exist.
            OSError: The file cannot be written.
        """
        from semgraph.session.export import export

        return await export(self._resources, self._labels(graph), group, self.folder / to)

    @checks_arguments
    def forget(self, groups: Iterable[str]) -> int:
        """Delete the journal's answers and vectors of some groups, and return their number. The
        graph and run records stay.

        Raises:
            PlanError: A group is not a text.
            SemgraphError: Another process holds the journal, or it cannot be written; nothing was
                deleted.
        """
        if groups is None:
            raise PlanError("forget needs groups", hint="prune deletes those of all groups")
        return sum(self._waiting.wait(self._resources.prune(None, groups)))

    @checks_arguments
    def prune(self, older: timedelta, groups: Iterable[str] | str | None = None) -> tuple[int, int]:
        """Delete the journal's answers and vectors that are older than `older`, of some groups or
        of all; return the number of each. The graph and run records stay. Raises as `forget`.
        """
        if not isinstance(older, timedelta) or older < timedelta(0):
            hint = "a timedelta from 0, such as timedelta(days=90)"
            raise PlanError(f"prune cannot use older={older!r:.80}", hint=hint)
        before = time.time() - older.total_seconds()
        return self._waiting.wait(self._resources.prune(before, groups))

    @property
    def journal_bytes(self) -> int:
        """The size of the journal on disk, with the journals of shards."""
        return sum(map(size_on_disk, self._resources.journals))

    @checks_arguments
    def report(self, *records: Result | Comparison | Tuning | str, to: str | Path) -> Path:
        """Write one HTML file about runs and comparisons, with every prompt and answer. The file
        works offline.

        Args:
            records: Results, comparisons, or their ids (prefixes of ids, or `last`); default: the
                last one.
            to: The file. A relative path is resolved in the session's folder.

        Returns:
            The file.

        Raises:
            PlanError: There is no such record, or the session keeps none.
        """
        from semgraph.render.html import save

        runs = self._records()
        names = [str(getattr(each, "run", getattr(each, "id", each))) for each in records]
        return save(names or ["last"], self.folder / to, runs)

    def history(self) -> RunHistory:
        """The recorded runs, comparisons and tunings, the latest first: a list of mappings, shown as a
        table; `to_pandas` makes a frame of it. Raises PlanError if the session keeps no records.
        """
        from semgraph.render.outcome import summary

        return RunHistory(map(summary, all_runs(self._records())))

    @checks_arguments
    def load(self, record: str) -> Result | Comparison | Tuning:
        """The result of a recorded run, a comparison or a tuning, by its id, a prefix of it, or `last`.
        Raises PlanError.
        """
        from semgraph.compare.comparison import load_comparison
        from semgraph.tune.tuning import load_tuning

        run = find_run(record, self._records())
        if (kind := run.facts.get("kind", RAN)) in {RAN, COMPARED, REFRESHED}:
            return load_result(run)
        return (load_tuning if kind == "tuning" else load_comparison)(run.name, run.folder.parent)

    def why(
        self, what: str, record: Result | str = "", *, messages: bool = False, width: int = 100
    ) -> str:
        """Trace a row of a run back to its answers, the calls and the source rows.

        Args:
            what: A key or a text of the row, or its prefix; or `STEP:column=value`.
            record: A result, or the id of a run (a prefix, or `last`). Default: the latest run that
                wrote the row, which the first line names.
            messages: Show the exact requests and answers.
            width: The width of the lines.

        Raises:
            PlanError: There is no such run or row, several rows match, or no records are kept.
        """
        from semgraph.provenance import explain, written_by
        from semgraph.render.notebook import chain_html
        from semgraph.render.why import lines

        runs, asked = self._records(), record.run if isinstance(record, Result) else record
        run = find_run(asked or written_by(all_runs(runs), what).run, runs)
        first = [] if asked else [f"run {run.name}"]
        with exchanges(run) as lookup:
            chain = explain(run, what, lookup)
            drawing = Drawing("\n".join([*first, *lines(chain, width, messages=messages)]))
            drawing.html = chain_html(chain, *first)
        return drawing

    def _records(self) -> Path:
        """The folder of run records. Raises PlanError if the session keeps none."""
        if self.runs is None:
            raise PlanError("this session keeps no records", hint='leave runs="" out')
        return self.runs

    async def aclose(self) -> None:
        """Close all resources of the session, in all event loops that used it. The session can be
        used again.
        """
        await self._owned.aclose()
        if not self._waiting.is_own:
            await asyncio.to_thread(self._waiting.close)

    def close(self) -> None:
        """Close all resources, outside of an event loop. Within one, the resources of that loop are
        closed when it continues.
        """
        self._owned.end_here_soon()
        self._waiting.wait(self.aclose())
        self._waiting.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _repr_html_(self) -> str:
        """The HTML for notebooks. Opens nothing."""
        from semgraph.render.notebook import session_html

        resources = self._resources
        objects, models = resources.objects, resources.bound_models
        return session_html(self.settings, models, objects.embedder, objects.store)

    def __repr__(self) -> str:
        rows = (row for row in self.settings.rows() if row[0].startswith(("models.", "store")))
        return f"Session({', '.join(f'{key}={value}' for key, value, _ in rows)})"


def _abandon(owned: Owned, waiting: Waiting) -> None:
    """Close the resources of a session that was garbage-collected while open, without waiting."""
    owned.abandon()
    waiting.stop()
