"""Shared parts of all commands: options and their values as text, output, signals, and errors as
messages with exit codes.

At Ctrl-C, SIGTERM and SIGHUP, the first signal stops a run cleanly, so that it can be resumed; the
second ends the process at once. SIGHUP is ignored if the process was started to ignore it
(`nohup`).
"""

from __future__ import annotations

import errno
import functools
import inspect
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from semgraph.cli import completion
from semgraph.display import in_shell, noticing
from semgraph.errors import PlanError, Problem, SemgraphError, is_interrupt
from semgraph.formats import escaped
from semgraph.options import SETTINGS, Flag, RefreshOptions, RunOptions
from semgraph.privacy import learn_from_environment, redacted, redacted_values

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from semgraph.frontend.row_files import LoadedInput
    from semgraph.llm.settings import Settings
    from semgraph.llm.stack import Budget
    from semgraph.logical.plan import LogicalPlan
    from semgraph.session import Session

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
T = TypeVar("T")
INTERRUPTED = 130
_WIDTH = 120
_PANEL = "Everywhere"
_DESCRIBED = "Options of every command (--store, --llm, --format …): semgraph --help"
_FLAGS = [spec.flag for spec in SETTINGS.values() if spec.flag]
_EVERYWHERE = [flag.argument for flag in _FLAGS if not flag.commands]
_ELSEWHERE = "Name another place"
_HINTS = {
    errno.EISDIR: "A file is needed there: name one",
    errno.ENOENT: "Make the folder first, or name another place",
    errno.EROFS: f"Nothing can be written there. {_ELSEWHERE}",
    errno.ENOSPC: f"Free some room on that disk. {_ELSEWHERE}",
    errno.ENAMETOOLONG: "Give it a shorter name",
    **dict.fromkeys(
        (errno.EACCES, errno.EPERM), f"{_ELSEWHERE}, or ask for the right to read and write there"
    ),
    **dict.fromkeys(
        (errno.EEXIST, errno.ENOTDIR),
        "A folder is needed there, and this is a file: name another place",
    ),
}


def option(spelling: str, help: str, default: Any = None, **more: Any) -> Any:  # noqa: A002 - the name in typer
    """An option of a command: `-o --output FILE` has two names, and a value that shells complete by its
    word.
    """
    words = spelling.split(" ")
    value = "" if words[-1].startswith("-") else words.pop()
    more = _completed(value, more)
    return typer.Option(default, *words, metavar=value or None, help=help, **more)


def argument(value: str, help: str | None = None, default: Any = ..., **more: Any) -> Any:  # noqa: A002 - the name in typer
    """An argument of a command, which shells complete by its word."""
    return typer.Argument(default, metavar=value or None, help=help, **_completed(value, more))


def _completed(value: str, more: dict[str, Any]) -> dict[str, Any]:
    return {"autocompletion": completion.BY_VALUE.get(value.strip("[].")), **more}


def _optional(spelling: str, help: str, **more: Any) -> Any:  # noqa: A002 - the name in typer
    """An option as a field of a class; None if unset."""
    return field(default=None, metadata={"option": option(spelling, help, **more)})


Plan = Annotated[str, argument("PLAN", "A file, or a name: semgraph plans list.")]


@dataclass(frozen=True)
class PlanOptions:
    """The rows, parameters and implementations of a plan, as typed."""

    input: list[str] | None = _optional(
        "-i --input NAME=FILE|-|TEXT|[]|all",
        "Rows: .jsonl, .csv, .parquet, also DIR/*.jsonl; "
        "FILE:COLUMN=SOURCE,… renames; - a text, -.jsonl rows; [] none; all: all groups; "
        "FILE.json: an object with the rows of each input.",
        autocompletion=completion.inputs,
    )
    set: list[str] | None = _optional("--set PARAM=VALUE", "A parameter of the plan.")
    preset: list[str] | None = _optional(
        "--preset NAME",
        "A preset of the plan; tuned: the choice of semgraph tune; or its FILE.yaml.",
        autocompletion=completion.presets,
    )
    tuned: str | None = _optional("--tuned FILE", "A choice: --preset tuned of a file.")
    strict: bool | None = _optional("--strict", "Refuse a choice of tune that is stale.")
    use: list[str] | None = _optional(
        "--use STEP=IMPLEMENTATION", "How a step is answered: block(left=10)."
    )
    prompt: list[str] | None = _optional(
        "--prompt NAME=FILE", "Your file in the place of a prompt: judge_fact=mine.md."
    )

    @property
    def loading(self) -> dict[str, Any]:
        """The options that load a plan, as arguments of `Session.prepare`. Raises PlanError."""
        use, prompts = (
            named_values(option, typed)
            for option, typed in (("--use", self.use), ("--prompt", self.prompt))
        )
        file = [Path(self.tuned)] if self.tuned else []
        named = [name for name in self.preset or () if not (file and name == "tuned")]
        if len(presets := [*named, *file]) > 1:
            what = f"--preset {' and --preset '.join(map(str, presets))}: a plan takes one preset"
            raise PlanError(what, hint="add what differs by --set and --use")
        preset, params = presets[0] if presets else None, parameters(self.set)
        strict = {"strict": True} if self.strict else {}
        return {"params": params, "preset": preset, "use": use, "prompts": prompts, **strict}

    def prepare(self, session: Session, plan: str, resume: str | None = None) -> LogicalPlan:
        """A checked plan; see `Session.prepare`. Raises PlanError."""
        from semgraph.llm.base import ROLES

        prepared = session.prepare(plan, **self.loading, resume=resume)
        prepared.by_models(session.settings.chosen_roles, ROLES, required=True)  # raises
        return prepared

    def words(self) -> str:
        """The options as typed."""
        from shlex import quote

        typed = {"--set": self.set, "--preset": self.preset, "--use": self.use}
        typed["--tuned"] = [self.tuned] if self.tuned else []
        pairs = {"-i": self.input, **typed, "--prompt": self.prompt}.items()
        return "".join(f" {name} {quote(v)}" for name, values in pairs for v in values or ())

    def rows(self, plan: LogicalPlan) -> dict[str, LoadedInput]:
        """The rows of the inputs that are given. Raises PlanError or InputError."""
        from semgraph.frontend.row_files import read_inputs

        return dict(read_inputs(self.input or (), plan))


_common = functools.partial(_optional, rich_help_panel=_PANEL)


@dataclass(frozen=True)
class CommonOptions:
    """The options of every command; None if unset. `chosen` has the settings of this command that are
    set, by the argument of `Session`.
    """

    chosen: Mapping[str, Any] = field(default_factory=dict)
    config: str | None = _common("--config FILE", "Instead of ./semgraph.toml.")
    format: Literal["text", "json", "csv", "latex", "markdown"] | None = _common(
        "--format", "json: one document on stdout, an object or a list. The others: of compare."
    )
    verbose: bool | None = _common("-v --verbose", "Say more; show tracebacks.")
    quiet: bool | None = _common("-q --quiet", "Results and errors only.")
    no_color: bool | None = _common("--no-color", "As NO_COLOR does.")

    @property
    def json(self) -> bool:
        """Whether a result is printed as one JSON object."""
        return self.format == "json"

    def words(self, *names: str) -> str:
        """The options that select models, store and code (or only `names`), as typed, without
        passwords.
        """
        from shlex import quote

        from semgraph.privacy import without_password

        common = {name: value for name, value in self.chosen.items() if name in _EVERYWHERE}
        values = {**common, "config": self.config}
        typed = [(name, value) for name, value in values.items() if isinstance(value, str)]
        lists = ((n, value) for n, value in common.items() if isinstance(value, list))
        typed += [(name, value) for name, values in lists for value in values]
        wanted = ((name, value) for name, value in typed if name in (names or (name,)))
        return "".join(f" --{name} {quote(without_password(value))}" for name, value in wanted)

    def wait(self, job: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine, which a signal stops. Raises as `run_until_signal`. With JSON it has
        no notices.
        """
        with noticing(None) if self.json else nullcontext():
            return run_until_signal(job, lambda: self.talk("stopping … (once more ends at once)"))

    @functools.cached_property
    def out(self) -> Console:
        """The console of results: stdout."""
        return _console(self, stderr=False)

    @functools.cached_property
    def err(self) -> Console:
        """The console of messages: stderr."""
        return _console(self, stderr=True)

    def show(self, *lines: str) -> None:
        """Print lines of a result."""
        for line in lines:
            say(self.out, line)

    def talk(self, *lines: str) -> None:
        """Print messages, unless `-q`."""
        if not self.quiet:
            for line in lines:
                say(self.err, line)

    def warn(self, line: str) -> None:
        """Print a warning, also with `-q`."""
        say(self.err, line)

    def dump(self, value: Any, data: str = "") -> None:
        """Print one JSON object without secrets; the user's rows under the key `data` are
        unchanged.
        """
        safe = redacted_values(value)
        if data:
            safe[data] = value[data]
        encoder = json.JSONEncoder(ensure_ascii=False, indent=2, default=lambda v: redacted(str(v)))
        text = encoder.encode(safe)
        typer.echo(escaped(text, in_json=True))

    def result(self, data: Any, lines: Iterable[str | Text]) -> None:
        """Print a result: with `--format json` as data, else as lines, which may be styled."""
        if self.json:
            self.dump(data)
            return
        for line in lines:
            if isinstance(line, str):
                self.show(line)
            else:
                self.out.print(line, soft_wrap=True)

    def settings(self) -> Settings:
        """All settings with these options. Raises PlanError."""
        from semgraph.llm.settings import Settings

        config = None if self.config is None else Path(self.config)
        return Settings.load(self._arguments, config=config)

    def session(self, *, group: str | None = None, within: Budget | None = None) -> Session:
        """A session with these options."""
        from semgraph.session import Session

        return Session(**self._arguments, config=self.config, group=group, within=within)

    @property
    def _arguments(self) -> dict[str, Any]:
        """The settings that are set, as arguments of `Session`."""
        others = {name: value for name, value in self.chosen.items() if name != "model"}
        return {**others, "models": named_values("--model", self.chosen.get("model"))}


_STYLES = {  # of parts of lines
    r"^\s*✓": "green",
    r"^\s*✗.*": "red",
    r"^! ": "bold yellow",
    r"\b[1-9][\d,]* (rows? )?failed\b": "red",
    r"\$\d[\d.,]*": "cyan",
    r"^(Next|Resume):": "bold",
    r"\(run recorded: \w+\)|\(ended[^)]*\)": "dim",
}


def say(console: Console, line: str) -> None:
    """Print text without markup and control characters, which data may contain. In a terminal a line that
    is too long is continued, indented.
    """
    from rich.text import Text

    from semgraph.render.tables import wrapped

    harmless = escaped(redacted(line))
    for part in wrapped(harmless, console.width) if console.is_terminal else [harmless]:
        text = Text(part)
        for pattern, style in _STYLES.items():
            text.highlight_regex(pattern, style)
        console.print(text, soft_wrap=True)


def _console(options: CommonOptions, *, stderr: bool) -> Console:
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    columns = os.environ.get("COLUMNS", "")
    named = int(columns) if columns.isdecimal() and int(columns) else _WIDTH
    width = None if stream.isatty() else named
    return Console(file=stream, no_color=options.no_color or None, width=width, highlight=False)


def _plain_flags(command: Any, ctx: Any) -> None:
    """Hide the type of flags in a command's help."""
    for parameter in command.get_params(ctx):
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""


class CommandGroup(TyperGroup):
    """A group of commands."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help page."""
        _plain_flags(self, ctx)
        super().format_help(ctx, formatter)


class Command(TyperCommand):
    """A command with a help page that refers to the description of the common options."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help page."""
        _plain_flags(self, ctx)
        params = self.params
        self.params = [p for p in params if getattr(p, "rich_help_panel", None) != _PANEL]
        self.epilog = _DESCRIBED if len(self.params) < len(params) else None
        try:
            super().format_help(ctx, formatter)
        finally:
            self.params = params


class Commands(typer.Typer):
    """A group of commands of this kind."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"cls": CommandGroup, **settings})

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Decorated], Decorated]:
        """Add a function to the group, as `typer.Typer.command` does."""
        return super().command(name, **{"cls": Command, **settings})


def everywhere(command: Callable[..., Any]) -> Callable[..., Any]:
    """Turn a function with a `CommonOptions` as first argument into a command with the common
    options and error handling.

    The flags of settings that name the function are added; `chosen` has those that are set. In the
    place of a parameter `RunOptions`, `RefreshOptions` or `PlanOptions` its flags are added. The same options are
    accepted before the command's name; those after it take precedence.
    """
    own: list[inspect.Parameter] = []
    made: dict[str, tuple[type, Sequence[inspect.Parameter]]] = {}
    for parameter in list(inspect.signature(command, eval_str=True).parameters.values())[1:]:
        if (kind := parameter.annotation) in (RunOptions, RefreshOptions, PlanOptions):
            made[parameter.name] = kind, _options_of(kind, command.__name__)
            own += made[parameter.name][1]
        else:
            own.append(parameter.replace(kind=parameter.KEYWORD_ONLY))
    settings = _setting_flags(command.__name__)
    taken = {parameter.name for parameter in own}
    shared = [each for each in _options_of(CommonOptions) if each.name not in taken]
    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)

    @functools.wraps(command)
    def run(ctx: typer.Context, **values: Any) -> None:
        learn_from_environment(os.environ)  # also of commands that read no settings
        before = ctx.obj or CommonOptions()
        chosen = {**before.chosen, **_set(settings, values)}
        options = ctx.obj = replace(before, chosen=chosen, **_set(shared, values))
        for name, (kind, flags) in made.items():
            values[name] = getattr(kind, "flagged", kind)(**_set(flags, values))
        if options.format in ("csv", "latex", "markdown") and command.__name__ != "compare":
            raise typer.BadParameter(f"{options.format} is a format of compare: text or json")
        with guard(options), in_shell():
            command(options, **values)

    parameters = [context, *own, *settings, *shared]
    parts = (inspect.getdoc(command) or "").split("\n\n")
    run.__doc__ = "\n\n".join(" ".join(part.split()) for part in parts)
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def _set(parameters: Iterable[inspect.Parameter], values: dict[str, Any]) -> dict[str, Any]:
    """Take the values of parameters out of all values; those that are set."""
    taken = {parameter.name: values.pop(parameter.name) for parameter in parameters}
    return {name: value for name, value in taken.items() if value is not None}


def _options_of(kind: type, command: str = "") -> list[inspect.Parameter]:
    """The fields of a class that are options of a command."""
    types = get_type_hints(kind)
    metadata = ((each.name, each.metadata) for each in fields(kind))
    infos = ((name, of.get("option") or of.get("flag")) for name, of in metadata)
    return [
        _parameter(name, types[name], info)
        for name, info in infos
        if info is not None and (not isinstance(info, Flag) or command in info.commands)
    ]


def _setting_flags(command: str) -> list[inspect.Parameter]:
    """The settings that a command takes."""
    return [
        _parameter(spec.flag.argument, list[str] if spec.type is tuple else spec.type, spec.flag)
        for spec in SETTINGS.values()
        if spec.flag is not None and (not spec.flag.commands or command in spec.flag.commands)
    ]


def _parameter(name: str, type_: Any, info: Any) -> inspect.Parameter:
    if isinstance(info, Flag):
        panel = None if info.commands else _PANEL
        info = option(info.spelling, info.help, min=info.least, rich_help_panel=panel)
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, default=info, annotation=type_ | None)


@contextmanager
def guard(options: CommonOptions) -> Iterator[None]:
    """Turn errors into a message on stderr and an exit code; a traceback only with `-v`."""
    try:
        yield
    except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError):
        raise
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - all are reported, none is swallowed
        if options.verbose:
            say(options.err, "".join(traceback.format_exception(error)).rstrip())
        for line in "\n".join((message_of(error), *getattr(error, "__notes__", ()))).splitlines():
            say(options.err, line)
        code = INTERRUPTED if is_interrupt(error) else getattr(error, "exit_code", 1)
        raise typer.Exit(code) from None


def message_of(error: BaseException) -> str:
    """The message for an error."""
    if isinstance(error, SemgraphError):
        return str(error)
    if is_interrupt(error):
        return "interrupted"
    if isinstance(error, OSError):
        return _system(error)
    if isinstance(error, RecursionError):
        return "the plan is nested too deeply. Split it into several steps or plans"
    return (
        f"{type(error).__name__}: {error}\nThis is a bug in semgraph. "
        "Run again with -v for the traceback, and report it"
    )


def _system(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    if not error.filename and error.errno == errno.ENOENT:
        try:
            os.getcwd()  # noqa: PTH109 - asks the system
        except OSError:
            return "the folder that this runs in is not there any more. Change to another one"
    hint = _HINTS.get(error.errno or 0)
    return f"{where}{error.strerror or error}" + (f". {hint}" if hint else "")


_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")  # Windows has no SIGHUP


def run_until_signal(job: Coroutine[Any, Any, T], on_first: Callable[[], None]) -> T:
    """Run a coroutine in a new event loop. The first signal calls `on_first` and cancels the
    coroutine.

    Raises:
        KeyboardInterrupt: A signal cancelled the coroutine, which has cleaned up.
    """
    import asyncio

    interrupted = False

    async def main() -> T:
        nonlocal interrupted
        task = asyncio.ensure_future(job)
        loop = asyncio.get_running_loop()

        def stop() -> None:
            nonlocal interrupted
            interrupted = True
            task.cancel()
            with suppress(OSError):  # the terminal may be gone
                on_first()

        with _handling(lambda: loop.call_soon_threadsafe(stop)):
            return await task

    try:
        return asyncio.run(main())
    except asyncio.CancelledError:
        if not interrupted:
            raise
        raise KeyboardInterrupt from None


@contextmanager
def _handling(first: Callable[[], object]) -> Iterator[None]:
    """Call `first` at the first signal; end the process at the second. Only the main thread can
    handle signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    count = 0

    def handle(_number: int, _frame: FrameType | None) -> None:
        nonlocal count
        count += 1
        if count > 1:
            os._exit(INTERRUPTED)
        first()

    before = {number: signal.signal(number, handle) for number in _numbers()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _numbers() -> list[signal.Signals]:
    signals = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
    ignored = [n for n in signals if signal.getsignal(n) == signal.SIG_IGN]
    return [n for n in signals if n.name != "SIGHUP" or n not in ignored]


def named_values(
    option: str, texts: Sequence[str] | None, mark: str = "=", form: str = "NAME=VALUE"
) -> dict[str, str]:
    """Parse an option of this form that is given once per name, which ends at `mark`. Raises PlanError
    with all problems.

    >>> named_values("--use", ["linked=block(left=10)", "told=packed"])
    {'linked': 'block(left=10)', 'told': 'packed'}
    """
    values, problems = dict[str, str](), list[Problem]()
    for text in texts or ():
        name, found, value = text.partition(mark)
        if not found or not name:
            hint = f"Write {option} {form}" + f", or --llm {text}" * (option == "--model")
            problems.append(Problem(f'{option} "{text}" sets nothing', hint=hint))
        elif name in values:
            problems.append(Problem(f"{option} {name}{mark} is given twice"))
        else:
            values[name] = value
    if problems:
        raise PlanError(*problems)
    return values


def parameters(texts: Sequence[str] | None) -> dict[str, Any]:
    """Parse the values of `--set`: JSON if valid, else text. Raises PlanError."""
    return {name: json_or_text(text) for name, text in named_values("--set", texts).items()}


def json_or_text(text: str) -> Any:
    """The value of a JSON text, or the text."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
