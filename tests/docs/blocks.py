"""The code blocks of a page, and what runs them.

A page is run from its top to its end in a folder of its own. What stands in a block says how:

| block | what is done with it |
|---|---|
| `bash` | its commands run: `semgraph`, `export`, `echo ... > FILE`; of `pip install`, `make` and benchmarks it is checked that there is such a thing |
| `console` | a command after each `$`, and what it prints |
| `python` | it runs, with the names of the blocks before it; with `>>>`, each example gives what it shows |
| without a language, behind one of those | what that block prints; a line `…` stands for any lines |
| `yaml` | a plan or a graph is written and loaded; a part of a plan fits the schema of the language |
| `toml` | settings, which are loaded |
| `markdown`, `json` | a prompt, plain data; the configuration of a server for agents is one that starts |

A comment before a block changes that: `<!-- file: NAME -->` writes the text into a file of the page's
folder, `<!-- call: TOOL -->` calls a tool of the page's server with the arguments of the block, and
`<!-- not-run: REASON -->` leaves the block alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import doctest
import io
import json
import os
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import semgraph
from semgraph.frontend.build import SOURCE_WORDS
from semgraph.frontend.graph_files import read_graph
from semgraph.frontend.jsonschema import plan_schema
from semgraph.frontend.load import load_plan
from semgraph.frontend.prompt_files import read_prompt
from semgraph.llm.settings import Settings
from tests.cli.conftest import Project

ROOT = Path(__file__).parents[2]
ANY_LINES = "…"
WIDTH = "100"
DIFFERENT = 6  # the exit code of a refresh that would change the graph: no failure
COMMANDS = ("bash", "console", "python")
_BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>not-run|file|call): (?P<value>[^\n]*?) -->\n+)?```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_CHANGING = (
    (re.compile(r"\b\d[\d,.]* ?(?:ms|s|min|kB|MB)\b(?:–\d[\d,.]* ?(?:ms|s)\b)?"), "<size or time>"),
    (re.compile(r"\b(run|comparison|tuning|record|report|last,) [0-9a-f]{4,8}\b"), r"\1 <id>"),
    (re.compile(r'"?\b[0-9a-f]{8}\b"?'), "<fingerprint>"),
    (re.compile(r'(measured: )"?\d{4}-\d\d-\d\d"?'), r"\1<day>"),
    (re.compile(r"\.semgraph/runs/[0-9a-f]{4,8}\b"), ".semgraph/runs/<id>"),
    (re.compile(r"--resume [0-9a-f]{4,8}\b"), "--resume <id>"),
    (re.compile(r"semgraph why [0-9a-f]{4,8} "), "semgraph why <id> "),
    (re.compile(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)?"), "<time>"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "<id>"),
    (re.compile(r"^[0-9a-f]{4,8}(?=  )", re.MULTILINE), "<id>"),
    (re.compile(r"(→ \d+ tokens · ).*"), r"\1<size or time>"),  # cut at the end of the line
    (re.compile(r"[─-]{4,}|[━╸╺]+"), "────"),
    (re.compile(r"(\w[\w:.-]{9})[\w:.-]*…"), r"\1…"),  # cut by the width of another column
    (re.compile(r" {2,}"), "  "),
)
"""What differs from run to run, or with the lengths of what does."""


@dataclass(frozen=True)
class Block:
    """A code block of a page.

    Args:
        page: The page, relative to the repository.
        start, end: Where its text is in the page.
        mark, value: Of the comment before it.
        is_output: Whether it follows a block that prints it.
    """

    page: str
    line: int
    language: str
    text: str
    start: int
    end: int
    mark: str | None = None
    value: str = ""
    is_output: bool = False

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """The blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found: list[Block] = []
    end = 0
    for match in _BLOCK.finditer(text):
        language = match["language"]
        follows = bool(found) and not text[end : match.start()].strip()
        prints = bool(found) and (found[-1].language in COMMANDS or found[-1].mark == "call")
        is_output = follows and not language and prints and not match["mark"]
        line = 1 + text[: match.start("text")].count("\n")
        place = (page.relative_to(ROOT).as_posix(), line, language, match["text"])
        spread = (match.start("text"), match.end("text"))
        found.append(Block(*place, *spread, match["mark"], match["value"] or "", is_output))
        end = match.end()
    return found


def normalised(text: str) -> list[str]:
    """The lines of an output without what differs from run to run."""
    for pattern, sign in _CHANGING:
        text = pattern.sub(sign, text)
    return [line.rstrip() for line in text.strip("\n").splitlines()]


def agrees(shown: str, printed: str) -> bool:
    """Whether an output is the one that a page shows."""
    parts = [
        ".*\n" if line.strip() == ANY_LINES else re.escape(line) + "\n"
        for line in normalised(shown)
    ]
    text = "\n".join(normalised(printed)) + "\n"
    return re.fullmatch("".join(parts), text, re.DOTALL) is not None


class Mismatch(AssertionError):
    """A page shows another output than is printed."""

    def __init__(self, block: Block, printed: str) -> None:
        self.block, self.printed = block, printed
        super().__init__(
            f"{block.place} shows another output; SEMGRAPH_RENEW=1 writes what is printed:\n{printed}"
        )


class Reader:
    """Runs the blocks of one page.

    Args:
        project: The folder of the page, and its environment.
        addresses: Servers that the page names, and the ones that stand for them.
        models: Variables with the models of the server for agents that the page configures.
    """

    def __init__(
        self, project: Project, addresses: dict[str, str], models: dict[str, str] | None = None
    ) -> None:
        self.project, self.addresses = project, addresses
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.printed, self.failed = "", ""
        self.agent = Agent(project, models or {})

    def read(self, page: list[Block]) -> Iterator[Mismatch]:
        """Run all blocks; gives the outputs that differ. Raises AssertionError."""
        for block in page:
            if block.mark == "not-run":
                continue
            if block.is_output:
                if not agrees(block.text, self.printed + self.failed):
                    yield Mismatch(block, self.printed + self.failed)
                self.failed = ""
                continue
            self._assert_no_failure()
            yield from self._run(block) or ()
        self._assert_no_failure()

    def check(self, page: Path) -> None:
        """Run a page, and compare its outputs. `SEMGRAPH_RENEW=1` writes them anew. Raises AssertionError."""
        wrong = list(self.read(blocks(page)))
        if wrong and os.environ.get("SEMGRAPH_RENEW"):
            text = page.read_text(encoding="utf-8")
            for mismatch in reversed(wrong):
                block = mismatch.block
                text = text[: block.start] + mismatch.printed.strip("\n") + "\n" + text[block.end :]
            page.write_text(text, encoding="utf-8")
        assert not wrong, wrong[0]

    def close(self) -> None:
        """Close the sessions that the page opened."""
        for value in list(self.names.values()):
            if isinstance(value, semgraph.Session):
                value.close()

    def _assert_no_failure(self) -> None:
        assert not self.failed, f"a command failed, and the page does not show it: {self.failed}"

    def _run(self, block: Block) -> Iterator[Mismatch] | None:
        if block.mark == "file":
            self.project.write(block.value, self._served(block.text))
            if block.language in {"", "python"}:
                return None
        if block.language == "console":
            return self._console(block)
        if block.language == "python" and block.text.startswith(">>> "):
            return self._examples(block)
        run = getattr(self, f"_{block.language or 'unknown'}", self._unknown)
        run(block)
        return None

    def _unknown(self, block: Block) -> None:
        pytest.fail(f"{block.place}: nothing says what this block is: mark it")

    def _bash(self, block: Block) -> None:
        self.printed = ""
        for line in re.sub(r"\\\n\s*", " ", block.text).splitlines():
            self._assert_no_failure()
            self._command(line, block)

    def _console(self, block: Block) -> Iterator[Mismatch]:
        outputs = []
        right = True
        for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            self.printed = ""
            self._command(command, block)
            right &= agrees(shown, self.printed + self.failed)
            outputs.append(f"$ {command}\n{self.printed}{self.failed}".rstrip("\n"))
            self.failed = ""
        if not right:
            yield Mismatch(block, "\n".join(outputs) + "\n")

    def _command(self, line: str, block: Block) -> None:
        words = shlex.split(self._served(line), comments=True)
        match words:
            case []:
                pass
            case ["export", setting]:
                name, _, value = setting.partition("=")
                self.project.env[name] = value
            case ["echo", text, (">" | ">>") as sign, file]:
                path = self.project.folder / file
                before = path.read_text("utf-8") if sign == ">>" else ""
                self.project.write(file, f"{before}{text}\n")
            case ["cat", file]:
                self.printed += (self.project.folder / file).read_text(encoding="utf-8")
            case ["pip", "install", *what]:
                assert _extras(" ".join(what)) <= _known_extras(), f"{block.place}: {line}"
            case ["make", target, *_]:
                assert re.search(rf"^{target}:", _makefile(), re.MULTILINE), (
                    f"{block.place}: {line}"
                )
            case ["python", "-m", module, *_] if module.startswith("benchmarks"):
                assert find_spec(module), f"{block.place}: {line}"
            case ["semgraph-bench", *_]:
                assert find_spec("semgraph.cli.bench")
            case [setting, "semgraph", *_] if setting.startswith("COLUMNS="):
                with pytest.MonkeyPatch.context() as patched:
                    patched.setitem(self.project.env, *setting.split("=", 1))
                    self._command(line.replace(setting, "", 1), block)
            case ["semgraph", *rest]:
                done = self.project(*rest)
                self.printed += self._shown(done.out)
                if done.code not in (0, DIFFERENT):
                    self.failed = self._shown(done.err) or f"{line}: exit code {done.code}"
            case _:
                pytest.fail(f"{block.place}: no test runs this command: {line}")

    def _python(self, block: Block) -> None:
        code = compile("\n" * (block.line - 1) + self._served(block.text), block.page, "exec")
        with self._at_home(), contextlib.redirect_stdout(io.StringIO()) as out:
            exec(code, self.names)
        self.printed = self._shown(out.getvalue())

    def _examples(self, block: Block) -> Iterator[Mismatch]:
        test = doctest.DocTestParser().get_doctest(
            self._served(block.text), self.names, block.page, block.page, block.line - 1
        )
        test.globs = self.names  # the names of the page, not a copy of them
        with self._at_home():
            console = Console(optionflags=doctest.NORMALIZE_WHITESPACE)
            console.run(test, clear_globs=False, out=lambda _text: None)
        if console.failures:
            yield Mismatch(block, self._shown(console.session))

    def _yaml(self, block: Block) -> None:
        document = yaml.safe_load(block.text)
        whole = isinstance(document, dict) and not {"plan", "graph"}.isdisjoint(document)
        if whole and "plan" in document:
            path = self.project.write(block.value or f"{document['plan']}.yaml", block.text)
            with self._at_home():
                load_plan(path)
        elif whole and "nodes" in document:
            read_graph(self.project.write(block.value or "graph.yaml", block.text))
        else:
            _assert_part_of_a_plan(document, block, self.project.write)

    def _toml(self, block: Block) -> None:
        text = self._served(block.text)
        tomllib.loads(text)
        folder = self.project.folder / "settings of the page"
        self.project.write(f"{folder.name}/{block.value or 'semgraph.toml'}", text)
        Settings.load({}, {"SEMGRAPH_HOME": str(folder)}, folder)

    def _markdown(self, block: Block) -> None:
        read_prompt(self.project.write(block.value or "prompt of the page.md", block.text))

    def _json(self, block: Block) -> None:
        data = json.loads(block.text)
        if block.mark == "call":
            self.printed = self._shown(asyncio.run(self.agent.call(block.value, data)))
        elif "command" in (entry := data.get("mcpServers", {}).get("memory", {})):
            self.agent.configure(entry)

    @contextlib.contextmanager
    def _at_home(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patched:
            patched.chdir(self.project.folder)
            for name in set(os.environ) - set(self.project.env):
                patched.delenv(name)
            for name, value in self.project.env.items():
                patched.setenv(name, value)
            yield

    def _served(self, text: str) -> str:
        for named, served in self.addresses.items():
            text = text.replace(named, served)
        return text

    def _shown(self, text: str) -> str:
        for named, served in self.addresses.items():
            text = text.replace(served, named)
        return text.replace(f"{self.project.folder}/", "")


_TRACEBACK = "Traceback (most recent call last):"


class Console(doctest.DocTestRunner):
    """Runs the examples of a block, and keeps what each of them gives."""

    def __init__(self, optionflags: int) -> None:
        super().__init__(verbose=False, optionflags=optionflags)
        self.session = ""

    def report_success(self, out: Any, test: Any, example: Any, got: str) -> None:
        """Keep an example as it is."""
        self._keep(example, example.want)

    def report_failure(self, out: Any, test: Any, example: Any, got: str) -> None:
        """Keep an example with what it gave; an error without its stack."""
        error = got.startswith(_TRACEBACK)
        self._keep(example, f"{_TRACEBACK}\n{got.splitlines()[-1]}\n" if error else got)

    def report_unexpected_exception(self, out: Any, test: Any, example: Any, exc_info: Any) -> None:
        """Keep an example with its error."""
        kind, error, _ = exc_info
        name = f"{kind.__module__}." * (kind.__module__ != "builtins") + kind.__qualname__
        self._keep(example, f"{_TRACEBACK}\n{name}: {error}\n")

    def _keep(self, example: Any, got: str) -> None:
        first, *more = example.source.splitlines()
        lines = [f">>> {first}", *(f"... {line}" for line in more)]
        shown = (line.rstrip() or "<BLANKLINE>" for line in got.splitlines())
        self.session += "\n".join((*lines, *shown)) + "\n"


class Agent:
    """Calls the tools of the server that a page configures.

    Args:
        project: The folder and the environment of the page.
        models: Variables with the models of the server.
    """

    def __init__(self, project: Project, models: dict[str, str]) -> None:
        self.project = Project(project.folder, {**project.env, **models})
        self.arguments: list[str] = []

    def configure(self, entry: dict[str, Any]) -> None:
        """Take the configuration of a server, with the folder and the model of the page."""
        assert (entry["command"], entry["args"][:2]) == ("semgraph", ["serve", "--mcp"])
        assert {"OPENAI_API_KEY", "SEMGRAPH_LLM"} == set(entry["env"])
        folder = str(self.project.folder)
        args = [folder if arg.startswith("/home/") else arg for arg in entry["args"][2:]]
        unpriced = args.index("--max-usd")  # the simulated model has no price
        self.arguments = args[:unpriced] + args[unpriced + 2 :]

    async def call(self, tool: str, arguments: dict[str, Any]) -> str:
        """The text of a call's result, or of its error."""
        from mcp import Client
        from mcp.client.stdio import stdio_client

        from tests.serve.conftest import piped, text_of

        with (self.project.folder / "stderr").open("w") as errors:
            server = piped(self.project, *self.arguments)
            async with Client(stdio_client(server, errors)) as client:
                return text_of(await client.call_tool(tool, arguments)) + "\n"


def _assert_part_of_a_plan(document: Any, block: Block, write: Callable[[str, str], Path]) -> None:
    """A part of a plan is a list of operators, named steps, or keys of a plan's file."""
    schema = _schema()
    of_steps = {**schema["properties"]["steps"], "$defs": schema["$defs"]}
    of_operators = {"$ref": "#/$defs/pipeline", "$defs": schema["$defs"]}
    of_plan = {**schema, "required": []}
    if isinstance(document, dict) and set(document) <= {"nodes", "edges", "common", "draw"}:
        read_graph(write("part of a graph.yaml", f"graph: part\n{block.text}"))
    elif isinstance(document, list):
        # a list without a source continues one
        has_source = set(document[0]) & set(SOURCE_WORDS)
        document = document if has_source else [{"from": "rows"}, *document]
        jsonschema.validate(document, of_operators)
    elif set(document) <= set(schema["properties"]):
        jsonschema.validate(document, of_plan)
    else:
        jsonschema.validate(document, of_steps)


@cache
def _schema() -> dict[str, Any]:
    return plan_schema()


@cache
def _makefile() -> str:
    return (ROOT / "Makefile").read_text(encoding="utf-8")


@cache
def _known_extras() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return set(project["optional-dependencies"])


def _extras(text: str) -> set[str]:
    return {name.strip() for found in re.findall(r"\[(.*?)\]", text) for name in found.split(",")}
