"""The metadata and the tokenizer of GGUF files, without loading the model; threads and memory."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semgraph.errors import ModelUnavailable

if TYPE_CHECKING:
    from tokenizers import Tokenizer


_NUMBERS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
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
    """The metadata of a model file: its architecture, sizes and vocabulary.

    Raises:
        ModelUnavailable: It is not a GGUF file, or it is damaged.
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
    """Bytes of memory for each token of context: keys and values of all layers in 16 bits."""
    name = meta["general.architecture"]
    heads = meta[f"{name}.attention.head_count"]
    per_head = meta[f"{name}.embedding_length"] // heads
    return int(
        2
        * 2
        * meta[f"{name}.block_count"]
        * meta.get(f"{name}.attention.head_count_kv", heads)
        * per_head
    )


def counter(path: Path) -> Callable[[str], int] | None:
    """A function that counts tokens with the model's tokenizer; None if its kind is unknown.

    Raises:
        ImportError: The package `tokenizers` is not installed.
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
    merges = [
        (left, right)
        for left, _, right in (pair.partition(" ") for pair in meta["tokenizer.ggml.merges"])
    ]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True)] * digits_alone
        + [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    kinds = meta["tokenizer.ggml.token_type"]
    special = [
        token
        for token, kind in zip(tokens, kinds, strict=True)
        if kind in (_CONTROL, _USER_DEFINED)
    ]
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in special])
    return tokenizer


def default_threads(busy: float | None = None) -> int:
    """One thread for each core that this process may use, or a single one if all cores are busy.

    Threads of a model wait for each other hundreds of times per token. On busy cores, two threads
    are many times slower than one.

    Args:
        busy: Cores that other processes use; None for the system's load over the last minute.
    """
    usable = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
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
    """A context to import an OpenMP library in: its threads sleep while they wait for each other.

    By default they spin, which gains nothing on an idle machine and makes two threads slower than
    one on a busy one. The library reads the setting once, when it is loaded.
    """
    before = os.environ.get("OMP_WAIT_POLICY")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        yield
    finally:
        if before is None:
            del os.environ["OMP_WAIT_POLICY"]
