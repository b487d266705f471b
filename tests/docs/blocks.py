"""The code blocks of a page, and what runs them.

A page is run from its top to its end in a folder of its own. What stands in a block says how:

| block | what is done with it |
|---|---|
| `bash` | its commands run: `semgraph`, `export`, `echo ... > FILE`; of `pip install`, `make` and benchmarks it is checked that there is such a thing |
| `console` | a command after each `$`, and what it prints |
| `python` | it runs, with the names of the blocks before it |
| without a language, behind one of those | what that block prints; a line `…` stands for any lines |
| `yaml` | a plan or a graph is written and loaded; a part of a plan fits the schema of the language |
| `toml` | settings, which are loaded |
| `markdown`, `json` | a prompt, plain data |

A comment before a block changes that: `<!-- file: NAME -->` writes the text into a file of the page's
folder, and `<!-- not-run: REASON -->` leaves the block alone.
"""

from __future__ import annotations

import contextlib
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
from semgraph.frontend.head import read_graph
from semgraph.frontend.jsonschema import plan_schema
from semgraph.frontend.load import load_plan
from semgraph.frontend.prompt_files import read_prompt
from semgraph.llm.settings import Settings
from tests.cli.conftest import Project

ROOT = Path(__file__).parents[2]
ANY_LINES = "…"
WIDTH = "100"
COMMANDS = ("bash", "console", "python")
_BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>not-run|file): (?P<value>[^\n]*?) -->\n+)?```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_CHANGING = (
    (re.compile(r"\b\d[\d,.]* ?(?:ms|s|min|kB|MB)\b(?:–\d[\d,.]* ?(?:ms|s)\b)?"), "<size or time>"),
    (re.compile(r"\b(run|comparison|last,) [0-9a-f]{4,8}\b"), r"\1 <id>"),
    (re.compile(r"\.semgraph/runs/[0-9a-f]{4,8}\b"), ".semgraph/runs/<id>"),
    (re.compile(r"--resume [0-9a-f]{4,8}\b"), "--resume <id>"),
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
        is_output = (
            follows and not language and found[-1].language in COMMANDS and not match["mark"]
        )
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
    """

    def __init__(self, project: Project, addresses: dict[str, str]) -> None:
        self.project, self.addresses = project, addresses
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.printed, self.failed = "", ""

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
                if done.code:
                    self.failed = self._shown(done.err) or f"{line}: exit code {done.code}"
            case _:
                pytest.fail(f"{block.place}: no test runs this command: {line}")

    def _python(self, block: Block) -> None:
        code = compile("\n" * (block.line - 1) + self._served(block.text), block.page, "exec")
        with self._at_home(), contextlib.redirect_stdout(io.StringIO()) as out:
            exec(code, self.names)
        self.printed = self._shown(out.getvalue())

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
        self.project.write(f"{folder.name}/semgraph.toml", text)
        Settings.load({}, {"SEMGRAPH_HOME": str(folder)}, folder)

    def _markdown(self, block: Block) -> None:
        read_prompt(self.project.write(block.value or "prompt of the page.md", block.text))

    def _json(self, block: Block) -> None:
        json.loads(block.text)

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
        has_source = set(document[0]) & {"from", "union", "call", "switch"}
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
