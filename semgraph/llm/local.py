"""Local language models: llama.cpp in this process, in a separate thread, with a grammar that
enforces the schema. Also reads the metadata of model files.
"""

from __future__ import annotations

import asyncio
import json
import logging
import mmap
import os
import secrets
import struct
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from semgraph.display import is_noticed, notice
from semgraph.errors import ModelUnavailable, RowError
from semgraph.extras import install
from semgraph.formats import size
from semgraph.llm import catalogue
from semgraph.llm.base import Free, Limits, Reply, Request, Usage, cut
from semgraph.llm.replies import first_tokens
from semgraph.llm.tokens import LOGPROBS, TokenCounter, word_logprobs

if TYPE_CHECKING:
    from tokenizers import Tokenizer

T = TypeVar("T")
Cancelled = Callable[[], bool]  # whether no caller waits for the result any more; calls poll it

_log = logging.getLogger(__name__)
_CONTEXT = 16_384
_BATCH = 64
_PROMPT_CACHE_MIB = 256
_PIECE = 1 << 24
_WORKING_BYTES = (400 + _PROMPT_CACHE_MIB) << 20
# Spaces cost time: exactly one after each comma and colon, as in training data.
_LAYOUT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


class InProcess(Free, ABC):
    """A model or an embedder that this process loads at the first request, in a thread of its own."""

    def __init__(self, name: str, env: Mapping[str, str] | None) -> None:
        self.name, self._env = name, env
        self._thread = self._new_thread()
        self._loaded: Any = None

    def _new_thread(self) -> ThreadPoolExecutor:
        # Not a daemon: one inside a C++ library crashes the process at interpreter exit.
        return ThreadPoolExecutor(1, f"semgraph {self.name}")

    async def _run(self, call: Callable[[Cancelled], T]) -> T:
        """Make a call in the thread, after earlier ones of any event loop, and wait for its result.

        A cancelled caller does not wait: the call learns of the cancellation through its argument,
        and a call that has not begun is dropped.
        """
        loop, unwanted = asyncio.get_running_loop(), threading.Event()

        def cancelled() -> bool:
            # Tasks of a stopped loop do not wait, even if they were not cancelled.
            return unwanted.is_set() or not loop.is_running()

        try:
            return await loop.run_in_executor(self._thread, copy_context().run, call, cancelled)
        finally:
            unwanted.set()

    async def aclose(self) -> None:
        """Stop the model and free its memory. A later request reloads it."""
        try:
            await self._run(lambda _cancelled: self._unload())
        except RuntimeError:  # the interpreter ends, and the thread has ended
            self._unload()
        self._thread.shutdown(wait=False)
        self._thread = self._new_thread()

    def _unload(self) -> None:
        self._loaded = None

    def _model(self, cancelled: Cancelled) -> Any:
        if self._loaded is None:
            self._loaded = self._load(cancelled)
        return self._loaded

    @abstractmethod
    def _load(self, cancelled: Cancelled) -> Any:
        """The model. Raises ModelUnavailable."""


class Local(InProcess):
    """A model of the catalogue, run by llama.cpp on the CPU. It answers one request at a time: two
    concurrent ones would take longer, and their answers would not be reproducible.

    The first request downloads the file and loads the model. A prefix shared with the previous
    request is not evaluated again (`usage.cached`).

    Args:
        model: Its name in the catalogue.
        threads: CPU threads; None for one per core, or one if all cores are busy. A model with one
            is loaded again with all, between two requests, once cores are free.
        context: Tokens of prompt and answer together; None for 16,384, or the model's if shorter.
        env: The environment (`SEMGRAPH_HOME`, `SEMGRAPH_OFFLINE`); None for the process's.
    """

    def __init__(
        self,
        model: str | catalogue.CatalogueModel = catalogue.DEFAULT_MODEL,
        threads: int | None = None,
        context: int | None = None,
        *,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.model = catalogue.find(model, "model") if isinstance(model, str) else model
        self.threads, self._chooses = threads or default_threads(), threads is None
        self._context = min(context or _CONTEXT, self.model.context)
        super().__init__(f"local:{self.model.name}", env)
        self._grammar = lru_cache(maxsize=256)(_grammar)
        self._estimate = TokenCounter(self.model.name).count

    @property
    def limits(self) -> Limits:
        """The configured context; one request in flight."""
        known = {name: getattr(self.model, name) for name in ("yes_no", "yes_from", "seconds")}
        return Limits(self._context, self._context // 2, 1, logprobs=True, **known)

    @property
    def exact_tokens(self) -> bool:
        """Whether the model's file, which contains its vocabulary, is on disk."""
        return self._tokenizer() is not None

    def count_tokens(self, text: str) -> int:
        """Count the tokens of a text by the vocabulary in the model's file; without the file, one
        per four bytes.
        """
        return (self._tokenizer() or self._estimate)(encodable(text))

    async def complete(self, request: Request) -> Reply:
        """As `LLM.complete`, after earlier requests. Cancellation stops the model within about a
        second.
        """
        return await self._run(lambda cancelled: self._answer(request, cancelled))

    def _answer(self, request: Request, cancelled: Cancelled) -> Reply:
        server, began = self._model(cancelled), time.perf_counter()
        answer = _Answer(cancelled)
        try:
            server.handle_chat_completions(self._body(request), answer.take)
        except ValueError as error:
            answer.error = str(error)
        if answer.error:
            what = f"{self.name} rejected the request: {answer.error}"
            raise RowError("rejected", what, attempts=1)
        reply = Reply(
            text="".join(answer.text),
            usage=answer.usage,
            seconds=time.perf_counter() - began,
            call_id=answer.call_id,
            model=self.model.name,
            dollars=0.0,
            finish=answer.finish,
            logprobs=word_logprobs(request.words, answer.first),
        )
        if answer.finish == "length" and not request.words:
            raise cut(request, reply)
        if request.schema and not cancelled() and not _is_json(reply.text):
            # llama.cpp ignores a schema that it cannot translate into a grammar.
            what = f"{self.name} cannot enforce this schema: llama.cpp does not support all of it"
            raise RowError("rejected", what, attempts=1, spent=reply)
        return reply

    def _body(self, request: Request) -> dict[str, Any]:
        messages = [{"role": m.role, "content": encodable(m.content)} for m in request.messages]
        return {
            "temperature": 0,
            "seed": request.seed,
            **dict(request.params),
            "messages": messages,
            "max_tokens": request.max_tokens,
            **({"grammar": self._grammar(request.schema)} if request.schema else {}),
            **(LOGPROBS if request.words else {}),
            "stream": True,  # allows cancellation between batches and tokens
            "stream_options": {"include_usage": True},
            "return_progress": True,
            "cache_prompt": True,
        }

    def _model(self, cancelled: Cancelled) -> Any:
        # llama.cpp's library cannot change the threads of a loaded model.
        if self._chooses and (threads := default_threads()) > self.threads:
            self.threads = threads
            self._unload()
        return super()._model(cancelled)

    def _load(self, cancelled: Cancelled) -> Any:
        try:
            with patient_threads():
                import xllamacpp
        except ImportError as error:
            raise missing_extra(self.name) from error
        (path,) = fetched(self.model, cancelled, self._env)
        self._require_memory(path)
        notice("load", f"loading the model {self.model.name} ({size(self.model.size)})…")
        try:
            return self._server(xllamacpp, path, cancelled)
        finally:
            notice("load", "")

    def _server(self, xllamacpp: Any, path: Path, cancelled: Cancelled) -> Any:
        """The model. The library stops all threads while it loads, so the file is read before, into
        the memory of the system.
        """
        with path.open("rb", buffering=0) as file:
            while file.read(_PIECE) and not cancelled():
                pass
        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.n_ctx, params.n_parallel = self._context, 1
        params.n_batch = params.n_ubatch = _BATCH
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = self.threads
        params.cache_ram_mib = _PROMPT_CACHE_MIB  # for alternating prompts of several steps
        params.verbosity, params.fit_params = -1, False  # `_require_memory` has checked
        # The library always opens a local port: a random key locks other programs out.
        params.api_keys, params.n_threads_http = [secrets.token_hex()], 1
        params.cors_origins, params.ui = "", False
        try:
            return xllamacpp.Server(params)
        except RuntimeError as error:
            raise ModelUnavailable(
                f"llama.cpp cannot load {path}: {error}. If the file may be damaged: semgraph model rm {self.model.name}"
            ) from error

    def _require_memory(self, path: Path) -> None:
        needed = self.model.size + self._context * context_bytes(metadata(path)) + _WORKING_BYTES
        free = available_memory()
        if free is not None and free < needed:
            raise ModelUnavailable(
                f"{self.name} needs {needed / 1e9:.1f} GB of memory with a context of {self._context:,} tokens; "
                f"{free / 1e9:.1f} GB are free. Free some, take a shorter context "
                f"(--llm {self.name}?context=4096), or use another model: --llm openai:MODEL"
            )

    def _tokenizer(self) -> Callable[[str], int] | None:
        if not catalogue.on_disk(self.model, self._env):
            return None
        return self._vocabulary

    @cached_property
    def _vocabulary(self) -> Callable[[str], int] | None:
        try:
            count = counter(catalogue.paths(self.model, self._env)[0])
        except ImportError:
            return None
        return count and lru_cache(maxsize=512)(count)


class _Answer:
    """Collects the chunks of the server's answer to one request."""

    def __init__(self, cancelled: Cancelled) -> None:
        self._cancelled = cancelled
        self.text: list[str] = []
        self.first: list[tuple[str, float]] = []
        self.usage = Usage()
        self.finish, self.call_id, self.error = "stop", "", ""

    def take(self, chunk: Mapping[str, Any]) -> bool:
        """Take one chunk; True asks the server to stop."""
        if "error" in chunk:
            self.error = str(chunk["error"].get("message", chunk["error"]))
            return False
        self.call_id = chunk.get("id", self.call_id)
        for choice in chunk.get("choices", ()):
            self.text.append(choice["delta"].get("content") or "")
            self.first = self.first or first_tokens(choice.get("logprobs"))
            self.finish = choice.get("finish_reason") or self.finish
        if usage := chunk.get("usage"):
            cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
            self.usage = Usage(usage["prompt_tokens"], cached, usage["completion_tokens"])
        return self._cancelled()


def _grammar(schema: str) -> str:
    """The schema as a grammar of llama.cpp's guidance library."""
    body = {**json.loads(schema), "x-guidance": _LAYOUT}
    return f"%llguidance {{}}\nstart: %json {json.dumps(body)}"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def missing_extra(name: str) -> ModelUnavailable:
    """The error for a missing package of the extra `local`."""
    return ModelUnavailable(
        f'{name} needs the extra "local": {install("local")}. Or use models that do not need it: '
        "--llm openai:MODEL --embedder openai:MODEL, or --llm recorded "
        '(in Python llm="openai:MODEL", embedder="openai:MODEL", or llm="recorded")'
    )


def fetched(
    model: catalogue.CatalogueModel, cancelled: Cancelled, env: Mapping[str, str] | None
) -> tuple[Path, ...]:
    """The files of a model. Missing ones are downloaded, which a notice or a warning announces, as
    long as a caller waits for them.
    """
    if not catalogue.on_disk(model, env) and not catalogue.offline(env) and not is_noticed():
        _log.warning(
            "%s is not here yet and is downloaded: %s, once, %s, to %s",
            model.name, size(model.size), model.licence, catalogue.models_dir(env),
        )  # fmt: skip

    def report(done: int, total: int, _source: str) -> None:
        if cancelled():
            raise ModelUnavailable("the download was stopped; the next one resumes it")
        what = f"{model.name} ({size(total)}, {model.licence}) to {catalogue.models_dir(env)}"
        notice("download", f"downloading {what}: {100 * done // total} %")

    try:
        return catalogue.pull(model, progress=report, env=env)
    finally:
        notice("download", "")


def encodable(text: str) -> str:
    """The text without lone surrogates, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode()


_NUMBERS = dict(zip((*range(8), 10, 11, 12), "BbHhIif?Qqd", strict=True))  # for `struct`
_STRING, _ARRAY = 8, 9
_CONTROL, _USER_DEFINED = 3, 4

# The pre-tokenization of each kind of tokenizer: (pattern, whether digits are split one by one).
_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_WORDS_OF_QWEN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_CUTS = {"qwen2": (_WORDS_OF_QWEN, False), "smollm": (_WORDS, True), "gpt-2": (_WORDS, False)}


def metadata(path: Path) -> dict[str, Any]:
    """The metadata of a model file: its architecture, sizes and vocabulary. Raises ModelUnavailable
    if the file is damaged, or is no GGUF file.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as head:
            return _GgufReader(head).metadata()
    except (OSError, ValueError, struct.error, UnicodeDecodeError, KeyError) as error:
        raise ModelUnavailable(f"{path} is not a readable GGUF file: {error}") from error


class _GgufReader:
    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._at = 4
        if data[:4] != b"GGUF":
            raise ValueError("it does not begin with GGUF")

    def metadata(self) -> dict[str, Any]:
        _version, _tensors, pairs = self._number("I"), self._number("Q"), self._number("Q")
        return {self._string(): self._value(self._number("I")) for _ in range(pairs)}

    def _number(self, kind: str) -> Any:
        (value,) = struct.unpack_from(f"<{kind}", self._data, self._at)
        self._at += struct.calcsize(kind)
        return value

    def _string(self) -> str:
        length = self._number("Q")
        self._at += length
        return self._data[self._at - length : self._at].decode("utf-8")

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind != _ARRAY:
            return self._number(_NUMBERS[kind])
        inner, length = self._number("I"), self._number("Q")
        if inner in (_STRING, _ARRAY):
            return [self._value(inner) for _ in range(length)]
        values = struct.unpack_from(f"<{length}{_NUMBERS[inner]}", self._data, self._at)
        self._at += struct.calcsize(f"<{length}{_NUMBERS[inner]}")
        return list(values)


def context_bytes(meta: dict[str, Any]) -> int:
    """Bytes of memory per token of context: keys and values of all layers in 16 bits."""
    name = meta["general.architecture"]
    heads = meta[f"{name}.attention.head_count"]
    kept = meta.get(f"{name}.attention.head_count_kv", heads)
    per_head = meta[f"{name}.embedding_length"] // heads
    return int(2 * 2 * meta[f"{name}.block_count"] * kept * per_head)


def counter(path: Path) -> Callable[[str], int] | None:
    """A function that counts tokens with the model's tokenizer; None if its kind is unknown. Raises
    ImportError without the package `tokenizers`.
    """
    tokenizer = _tokenizer(metadata(path))
    if tokenizer is None:
        return None
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False))


def _tokenizer(meta: dict[str, Any]) -> Tokenizer | None:
    from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers

    cut = _CUTS.get(meta.get("tokenizer.ggml.pre", ""))
    if meta.get("tokenizer.ggml.model") != "gpt2" or cut is None:
        return None
    pattern, digits_alone = cut
    tokens = meta["tokenizer.ggml.tokens"]
    merges = [tuple(pair.split(" ", 1)) for pair in meta["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True)] * digits_alone
        + [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    kinds = zip(tokens, meta["tokenizer.ggml.token_type"], strict=True)
    special = [token for token, kind in kinds if kind in (_CONTROL, _USER_DEFINED)]
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in special])
    return tokenizer


def default_threads(busy: float | None = None) -> int:
    """One thread for each core that this process may use, or a single one if all cores are busy.
    `busy` are the cores that other processes use; None for the load over the last minute.

    Threads of a model wait for each other hundreds of times per token. On busy cores, two threads
    are many times slower than one.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    usable = len(affinity(0)) if affinity else os.cpu_count() or 1
    if busy is None:
        busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if busy >= usable:
        return 1
    return usable if usable <= 4 else usable // 2  # a core's second thread only waits


def available_memory() -> int | None:
    """Bytes available without swapping; None if the system does not report them."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next(
        (int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None
    )


@contextmanager
def patient_threads() -> Iterator[None]:
    """A context for importing an OpenMP library: its threads sleep while they wait for each other.

    By default they spin. That gains nothing on an idle machine; on a busy one it makes two threads
    slower than one. The library reads the setting once, when it is loaded.
    """
    before = os.environ.get("OMP_WAIT_POLICY")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        yield
    finally:
        if before is None:
            del os.environ["OMP_WAIT_POLICY"]
