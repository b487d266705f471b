"""The options of runs and the settings, each described once, with the flag of the commands that take it.

`RunOptions` has what one run does; `SETTINGS` has what a session holds for all its runs. The command
line, `Session`, `Settings` and run records read them. Every command imports this module: it imports
nothing large.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args, get_type_hints

from semgraph.stores.registry import FORMS

if TYPE_CHECKING:
    from semgraph.logical.plan import LogicalPlan


class Flag(NamedTuple):
    """An option of commands.

    Args:
        spelling: As it is typed, with a word for its value, which shells complete: `--until STEP`.
        help: Its line in `--help`.
        commands: The functions of `semgraph.cli` that take it; empty: all.
        least: The least number.
    """

    spelling: str
    help: str
    commands: tuple[str, ...] = ()
    least: int | None = None

    @property
    def argument(self) -> str:
        """The argument of `Session` that sets the same: `max_usd`."""
        return self.spelling.partition(" ")[0].removeprefix("--").replace("-", "_")


def _option(default: Any, *flag: Any, recorded: bool = False) -> Any:
    return field(default=default, metadata={"flag": Flag(*flag), "recorded": recorded})


_RUN, _ROWS, _REFRESH = ("run",), ("run", "compare"), ("refresh", "diff")


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What a run does; the arguments of `Session.arun`, which describes them. A flag of a truth value
    changes the default. What is `recorded` is in the record of the run: if it is unset, a resumed run
    takes it from there.
    """

    rows: int | None = _option(
        None, "--rows N", "Only the first rows of the first input.", _ROWS, 1
    )
    sample: int | None = _option(
        None, "--sample N", "N rows by their hash; of a plan with windows whole groups.", _ROWS, 1
    )
    seed: int = _option(0, "--seed S", "Another choice of --sample.", (*_ROWS, "tune"), 0)
    until: str | None = _option(
        None, "--until STEP", "Stop behind this step; nothing is written.", _RUN, recorded=True
    )
    write: bool = _option(True, "--no-write", "Write nothing to the store.", _RUN, recorded=True)
    resume: str | None = _option(None, "--resume RUN", "Resume a run that was stopped.", _RUN)
    again: bool = _option(
        False, "--reprocess", "Ask anew about these rows; refresh the graph.", _RUN, recorded=True
    )
    fresh: bool = _option(False, "--no-cache", "Ignore cached answers.", (*_ROWS, "tune"))
    on_error: Literal["raise", "null"] | None = _option(
        None, "--on-error", "Set failed rows aside, or keep them with NULLs.", _RUN, recorded=True
    )
    progress: Callable[[Any], object] | None = None  # `OnProgress`
    begun: Callable[[str], object] | None = None
    record_to: str | Path | None = None

    @classmethod
    def flagged(cls, **values: Any) -> RunOptions:
        """The options with these values of flags; a flag without a value is True."""
        changed = {name: not getattr(cls, name) for name in values if values[name] is True}
        return cls(**{**values, **changed})

    @property
    def writes(self) -> bool:
        """Whether the run may write: a run until a step does not."""
        return self.write and self.until is None

    def reprocesses(self, plan: LogicalPlan) -> bool:
        """Whether a run of a plan is a refresh with fresh answers."""
        return self.again and self.until is None and bool(plan.windows and plan.writes)

    @property
    def changed(self) -> dict[str, Any]:
        """The options that are set: all that are not their defaults."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {n: value for n, value in values.items() if value is not getattr(RunOptions, n)}

    @property
    def recorded(self) -> dict[str, Any]:
        """The options that a record of the run has."""
        names = (each.name for each in fields(self) if each.metadata.get("recorded"))
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, kw_only=True)
class RefreshOptions:
    """The options of a refresh; the arguments of `Session.arefresh`, which describes them."""

    complete: bool = _option(
        False, "--complete", "The inputs are all there is: retract other rows.", _REFRESH
    )
    retract: int | None = _option(
        None, "--retract N", "With --complete: rows a group may lose; else a tenth.", _REFRESH, 0
    )
    in_order: bool = _option(
        False, "--in-order", "Windows by the plan's order, not as they were committed.", _REFRESH
    )
    adopt: bool = _option(
        False, "--adopt", "Rows of the plan's labels are its own, also from before 0.3.", _REFRESH
    )
    discard_edits: bool = _option(
        False, "--discard-edits", "The plan's value where others changed it.", _REFRESH
    )
    dry_run: bool = _option(False, "--dry-run", "Send nothing; count what would be.", _REFRESH)
    fresh: bool = _option(False, "--no-cache", "Ask anew about the given rows.", _REFRESH)

    @property
    def words(self) -> str:
        """The options as typed, without those of the journal, which has new answers by now."""
        own = (each for each in fields(self) if each.name not in ("fresh", "dry_run"))
        typed = [(f, v) for f in own if (v := getattr(self, f.name)) != f.default]
        flags = ((each.metadata["flag"].spelling.split(" ")[0], value) for each, value in typed)
        return "".join(f" {name}" if value is True else f" {name} {value}" for name, value in flags)


_LIMITED = ("run", *_REFRESH, "compare", "tune", "serve")


@dataclass(frozen=True)
class RunLimits:
    """Configured limits; None: no limit. `rpm`, `tpm` and `in_flight` limit an endpoint, the others
    a run. Each is a setting, `limits.NAME`.
    """

    rpm: int | None = None
    tpm: int | None = None
    in_flight: int | None = None
    max_usd: float | None = _option(
        None, "--max-usd N", "Stop before spending more dollars.", (*_LIMITED, "check_operators")
    )
    max_calls: int | None = _option(None, "--max-calls N", "Stop before more calls.", _LIMITED)
    max_tokens: int | None = _option(None, "--max-tokens N", "Stop before more tokens.", _LIMITED)
    max_seconds: float | None = _option(
        None, "--max-seconds N", "Stop after so many seconds.", _LIMITED
    )

    @property
    def of_run(self) -> dict[str, Any]:
        """The limits of a run that are set; arguments of `Budget`."""
        return {n: v for n, v in vars(self).items() if n.startswith("max_") and v is not None}


class SettingSpec(NamedTuple):
    """A setting.

    Args:
        type: The type of its value; `tuple`: the flag is repeated.
        default: Its default; None: none.
        variable: The variable of the environment that sets it; "": none.
        flag: The flag that sets it, and the argument of `Session`.
        least: The least number; None: above 0.
    """

    type: type
    default: Any = None
    variable: str = ""
    flag: Flag | None = None
    least: int | None = None


SETTINGS: Mapping[str, SettingSpec] = {
    "llm": SettingSpec(  # all roles; no key of files
        str,
        None,
        "SEMGRAPH_LLM",
        Flag(
            "--llm MODEL",
            "local, recorded, dummy (made up), PROVIDER:NAME, openai:NAME@URL; ?batch=true for half the price.",
        ),
    ),
    "models": SettingSpec(
        tuple,
        flag=Flag(
            "--model ROLE=MODEL",
            "The model of a role (default, small, …), or of a step; it outranks --llm.",
        ),
    ),
    "models.embed": SettingSpec(
        str,
        None,
        "SEMGRAPH_EMBEDDER",
        Flag("--embedder MODEL", "local, recorded, dummy, PROVIDER:NAME, openai:NAME@URL."),
    ),
    "store": SettingSpec(
        str,
        "sqlite:.semgraph/graph.db",
        "SEMGRAPH_STORE",
        Flag("--store STORE", f"{', '.join(FORMS)}."),
    ),
    "engine": SettingSpec(
        str,
        flag=Flag(
            "--engine ENGINE",
            "Run in shards: ray, ray://HOST:10001?shards=256.",
            ("run", "explain"),
        ),
    ),
    "operators": SettingSpec(
        tuple, (), flag=Flag("--operators DIR", "Folder of your implementations.")
    ),
    "functions": SettingSpec(tuple, (), flag=Flag("--functions DIR", "Folder of your functions.")),
    "journal.path": SettingSpec(Path, Path(".semgraph/journal.db")),
    **{
        f"limits.{each.name}": SettingSpec(
            get_args(get_type_hints(RunLimits)[each.name])[0], flag=each.metadata.get("flag")
        )
        for each in fields(RunLimits)
    },
    "retries.attempts": SettingSpec(int, 10, "SEMGRAPH_RETRIES_ATTEMPTS"),
    "retries.seconds": SettingSpec(float, 600.0, "SEMGRAPH_RETRIES_SECONDS"),
    "journal.keep_days": SettingSpec(int, least=0),
}
ARGUMENTS: Mapping[str, str] = {  # the settings that have a flag, by the argument of `Session`
    key if key == "models" else spec.flag.argument: key
    for key, spec in SETTINGS.items()
    if spec.flag is not None
}
