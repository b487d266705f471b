"""Text without private parts (secrets, and folders of this machine), and files and folders that
only their owner may read.

Keys and passwords are registered by settings, endpoints and stores. They are replaced in all
output: in every error of semgraph, on the terminal, in records and reports. Only new files are
private: an existing one keeps its mode, which its owner chose.
"""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, quote_plus, unquote

HIDDEN = "[secret]"
_LEAST = 6  # minimum characters of a secret
_LONG = 16  # minimum characters of a secret that is a word or a number
_MIXED = re.compile(r"[^\W\d_].*\d|\d.*[^\W\d_]|[^\w\s.-]", re.DOTALL)
_NAMES = ("_KEY", "_PASSWORD", "_PASSWD", "_TOKEN", "_SECRET", "_AUTH")
_USERINFO = re.compile(
    r"\b[a-z][a-z0-9+.-]*://(?P<user>[^/:@\s]*):(?P<password>[^@\s]*[^/@\s])@", re.IGNORECASE
)
_PARAMETER = re.compile(
    r"[?&][\w-]*(?:key|token|secret|password)=(?P<value>[^&#\s\"']+)", re.IGNORECASE
)
_SHAPED = re.compile(
    r"(?P<before>\b[a-z][a-z0-9+.-]{0,20}://[^/:@\s]*:)[^@/\s]+(?=@)|(?P<scheme>\bbearer\s+)(?=\S*\d)[\w.~+/=-]{8,}",
    re.IGNORECASE,
)
_LOGIN = re.compile(r"//[^/?]*@")
_FOLDERS = re.compile(r"(?<![\w/.])/(?:[\w.@+~-]+/)+(?=[\w.@+~-])")
_known: set[str] = set()


def learn(*values: str | None) -> None:
    """Remember secrets. A short value that is a word or a number is none: `ollama`."""
    for value in values:
        stripped = (value or "").strip()
        if len(stripped) >= (_LEAST if _MIXED.search(stripped) else _LONG):
            _known.add(stripped)


def without_password(url: str) -> str:
    """A URL without user name and password: `http://name:secret@host/v1` becomes `http://host/v1`."""
    return _LOGIN.sub("//", url)


def learn_from_environment(environment: Mapping[str, str]) -> None:
    """Remember the secrets among environment variables: by name, and passwords in addresses."""
    learn(*(value for name, value in environment.items() if name.upper().endswith(_NAMES)))
    learn_from_addresses(environment.values())


def learn_from_addresses(texts: Iterable[str]) -> None:
    """Remember the secrets in addresses, `neo4j://user:PASSWORD@host` and `?api_key=KEY`, in
    encoded and decoded form.
    """
    for text in texts:
        for found in _USERINFO.finditer(text) if "://" in text else ():
            learn(found["password"], unquote(found["password"]))
        for found in _PARAMETER.finditer(text):
            learn(found["value"], unquote(found["value"]))


def redacted(text: str) -> str:
    """The text with `[secret]` instead of every secret, including forms escaped for a URL, JSON or
    HTML. Passwords in addresses and tokens after `Bearer` are replaced even if unknown.

    >>> learn("correct horse 7")
    >>> redacted("GET /?key=correct%20horse%207: 'correct horse 7' is wrong")
    "GET /?key=[secret]: '[secret]' is wrong"
    """
    hidden = _SHAPED.sub(lambda m: f"{m['before'] or m['scheme']}{HIDDEN}", text)
    return _pattern(frozenset(_known)).sub(HIDDEN, hidden) if _known else hidden


def without_folders(text: str) -> str:
    """The text with file names instead of absolute paths.

    >>> without_folders("/srv/app/plans/find.yaml:3:1  no step; see https://example.org/a/b")
    'find.yaml:3:1  no step; see https://example.org/a/b'
    """
    return _FOLDERS.sub("", text)


def folders_in(text: str) -> set[str]:
    """The absolute folders of the files in a text, each with a final slash."""
    return set(_FOLDERS.findall(text))


def redacted_values(value: Any) -> Any:
    """Redact every text in lists and mappings; keys stay."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, Mapping):
        return {key: redacted_values(each) for key, each in value.items()}
    return [redacted_values(each) for each in value] if isinstance(value, list | tuple) else value


@lru_cache(maxsize=4)
def _pattern(secrets: frozenset[str]) -> re.Pattern[str]:
    forms = sorted({form for secret in secrets for form in _forms(secret)}, key=len, reverse=True)
    return re.compile("|".join(map(_whole, forms)))


def _whole(form: str) -> str:
    """The pattern of a secret; a short one must be a separate word."""
    before, after = (
        edge if len(form) < _LONG and end.isalnum() else ""
        for edge, end in ((r"(?<![^\W_])", form[0]), (r"(?![^\W_])", form[-1]))
    )
    return f"{before}{re.escape(form)}{after}"


def _forms(secret: str) -> set[str]:
    from markupsafe import escape

    raw = secret.encode("utf-8", "surrogatepass")
    in_json = {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    in_json |= {json.dumps(form)[1:-1] for form in in_json} | {repr(secret)[1:-1]}
    in_json |= {form.replace("/", "\\/") for form in in_json}
    in_html = {html.escape(secret), str(escape(secret))}  # the two differ in quotes
    in_url = {quote(raw, safe=""), quote(raw), quote_plus(raw)}
    in_url |= {re.sub("%..", lambda m: m[0].lower(), form) for form in in_url}
    return {secret, *in_url, *in_json, *in_html}


FOLDER, FILE = 0o700, 0o600
RUNS = Path(".semgraph/runs")  # the folder of run records
LAST = "last"  # the reference of the latest run


def private_folder(path: Path) -> None:
    """Create a folder and its missing parents. Raises OSError."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=FOLDER, exist_ok=True)
    path.mkdir(exist_ok=True)  # raises if the path is a file


def refusal(folder: Path, error: OSError) -> str:
    """The reason why a folder cannot be used: the system's, or a file at its path."""
    if isinstance(error, FileExistsError | NotADirectoryError):
        for path in (folder, *folder.parents):
            if path.exists() and not path.is_dir():
                return f"{path} is a file, not a folder"
    return error.strerror or str(error)


def create_private(path: Path) -> None:
    """Create an empty file and its missing folders. Raises OSError."""
    private_folder(path.parent)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, FILE))


def open_private(path: Path, mode: str = "w", **options: Any) -> IO[Any]:
    """Open a file for writing (`w`, `a`, `wb`), like `open`; a new one is private. Raises OSError."""
    return open(path, mode, opener=_private, **options)


def write_private(path: Path, text: str, errors: str = "strict") -> None:
    """Write a text file; a new one, and its missing folders, are private. Raises OSError."""
    private_folder(path.parent)
    with open_private(path, encoding="utf-8", errors=errors) as file:
        file.write(text)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, FILE)
