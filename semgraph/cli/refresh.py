"""`semgraph refresh` and `semgraph diff`."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from math import ceil
from typing import TYPE_CHECKING, Any

import typer

from semgraph.cli.options import CommonOptions, Plan, PlanOptions, everywhere, option
from semgraph.cli.run import introduce
from semgraph.formats import plural
from semgraph.options import RefreshOptions, RunOptions

if TYPE_CHECKING:
    from semgraph.frontend.row_files import LoadedInput
    from semgraph.logical.plan import LogicalPlan
    from semgraph.session import Session
    from semgraph.session.refresh import Foreseen, Refresh
    from semgraph.stores.base import Written

DIFFERS = 6


@everywhere
def refresh(
    options: CommonOptions,
    plan: Plan,
    given: PlanOptions,
    how: RefreshOptions,
    yes: bool = option("--yes", "Apply without asking.", False),
) -> None:
    """Make the graph what a plan makes of its present inputs: show what changes, ask, and write it in
    one transaction. Unchanged requests are answered by the journal.

    Without a terminal, --yes applies it. Exit code 6: there are differences, not applied.
    """
    raise typer.Exit(_refreshed(options, plan, given, how, may_apply=True, yes=yes))


@everywhere
def diff(options: CommonOptions, plan: Plan, given: PlanOptions, how: RefreshOptions) -> None:
    """Show what refresh would change, why, and what it costs to know. Nothing is written to the store.

    Exit code 6: there are differences.
    """
    raise typer.Exit(_refreshed(options, plan, given, how, may_apply=False))


def _refreshed(
    options: CommonOptions,
    typed: str,
    given: PlanOptions,
    how: RefreshOptions,
    *,
    may_apply: bool,
    yes: bool = False,
) -> int:
    """Compute a refresh, print it, and apply it if that is wanted. Returns the exit code."""
    with options.session() as session:
        plan = given.prepare(session, typed)
        shown = RunOptions(write=may_apply and not how.dry_run)
        inputs = introduce(options, session, plan, typed, given, shown)
        began = time.monotonic()
        found = _computed(options, session, plan, how, inputs)
        words = typed + given.words() + how.words + options.words()
        _show(options, found, plan, words, time.monotonic() - began)
        written = None
        if may_apply and not how.dry_run and _is_wanted(options, found, yes=yes):
            written = options.wait(found.aapply())
    differs = bool(found.diff.changes) and written is None
    if options.json:
        options.dump(_document(found, written), data="diff")
    elif written is not None:
        from semgraph.render.outcome import written as written_line

        marked = "" if found.diff.changes else " (the rows are marked as up to date)"
        options.show(written_line(written.rows) + marked)
    if found.lost:
        options.warn(f"! {found.lost}")
    elif differs:
        how_to = f". To apply it: semgraph refresh {words}"
        if may_apply:
            how_to = "" if _asks(options) else ": add --yes"
        options.warn(f"nothing was written{how_to}")
    return (0 if how.dry_run else found.result.exit_code) or DIFFERS * differs


def _computed(
    options: CommonOptions,
    session: Session,
    plan: LogicalPlan,
    how: RefreshOptions,
    inputs: Mapping[str, LoadedInput],
) -> Refresh:
    from semgraph.render.progress import watched

    options.talk("")
    members = plan.windows.input if plan.windows else ""
    with watched(options.err, members, quiet=bool(options.quiet)) as progress:
        job = session.arefresh(plan, inputs=inputs, progress=progress, **vars(how))
        try:
            return options.wait(job)
        except KeyboardInterrupt as error:
            error.add_note("the graph stays as it was: the same command goes on from the journal")
            raise


def _show(
    options: CommonOptions, found: Refresh, plan: LogicalPlan, words: str, seconds: float
) -> None:
    """Print the difference, its cost, and remarks."""
    from semgraph.render.diff import lines, reasons
    from semgraph.render.outcome import cost, remarks

    if not options.json:
        diff, dry = found.diff, found.dry
        for line in lines(diff, options.out.width) if dry is None else reasons(diff):
            options.out.print(line, soft_wrap=True)
        if dry is not None:
            options.show(_foreseen(dry))
        options.show("", cost(found.metrics.total(), seconds))
    if found.result.record:
        options.talk(f"(recorded: {found.result.run})")
    result = found.result if found.dry is None else replace(found.result, failed=())
    for note in remarks(result, plan, words, verb="refresh"):
        options.warn(note)


def _foreseen(dry: Foreseen) -> str:
    """What a dry run says."""
    if not (dry.requests or dry.texts or dry.rows):
        return "nothing would be asked: the journal has every answer"
    texts = f" and {plural(dry.texts, 'text')} to embed" if dry.texts else ""
    calls = "an unknown number"
    if dry.calls is not None:
        calls = f"about {max(ceil(dry.calls), dry.requests):,}"
    sure = f"sure to be new: {plural(dry.requests, 'request')}{texts}"
    return f"{sure}; with those that follow up to {calls}, for {plural(dry.rows, 'input row')}"


def _asks(options: CommonOptions) -> bool:
    """Whether somebody is there to answer."""
    return not options.json and sys.stdin.isatty() and sys.stdout.isatty()


def _is_wanted(options: CommonOptions, found: Refresh, *, yes: bool) -> bool:
    """Whether to apply a refresh. One that changes no row only marks input rows and is not asked
    about.
    """
    changes = len(found.diff.changes)
    if yes or not changes or found.lost:
        return bool(changes or found.diff.reasons or found.lost)
    if not _asks(options):
        return False
    what = f"these {changes:,} changes" if changes > 1 else "this change"
    try:
        return typer.confirm(f"Apply {what}?", err=True)
    except typer.Abort:
        raise KeyboardInterrupt from None


def _document(found: Refresh, written: Written | None) -> dict[str, Any]:
    """The object that `--format json` prints."""
    result, rows = found.result.to_json(), vars(found.rows)
    kept = ("schema", "plan", "run", "metrics", "cost", "costs", "failed", "notes")
    return {name: result[name] for name in kept} | {
        "diff": found.diff.as_dict(),
        "rows": {name: [list(row) for row in sorted(own)] for name, own in rows.items()},
        "applied": written is not None,
        "written": {} if written is None else dict(written.rows),
        "foreseen": None if found.dry is None else asdict(found.dry),
    }
