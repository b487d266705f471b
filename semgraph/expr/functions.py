"""Text functions that plans may call: one Python definition each, registered in DuckDB and SQLite.

Databases disagree about lower case and white space outside ASCII (no-break space, İ, final sigma);
these do not.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


_NAMESPACE = uuid.UUID("5e3a1f0c-9d1b-5c55-8a40-6f7d2c1b9e10")
_WORD = re.compile(r"[^\W_]+", re.UNICODE)
_SHORT = 500  # characters
HAN = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
HANGUL = "\u1100-\u11ff\u3131-\u318e\uac00-\ud7ff"
HIRAGANA, KATAKANA = "\u3041-\u309f\u30fc", "\u30a0-\u30ff\u31f0-\u31ff\uff66-\uff9f"
# Characters of scripts without blanks between words, or with attached particles; for `[...]`.
SOUTH_EAST = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf\ua9e0-\ua9ff\uaa60-\uaadf"
)
_PAIRED = re.compile(f"[{HIRAGANA}{KATAKANA}{SOUTH_EAST}]")
_UNDIVIDED = re.compile(f"[{HAN}{HANGUL}{HIRAGANA}{KATAKANA}{SOUTH_EAST}]")
_PART = re.compile(
    f"[{HAN}{HANGUL}]|[{HIRAGANA}]+|[{KATAKANA}]+|[{SOUTH_EAST}]+"
    f"|[^{HAN}{HANGUL}{HIRAGANA}{KATAKANA}{SOUTH_EAST}]+"
)
_SIGN = re.compile(
    r"(?P<sign>\d+(?:[.,]\d+)*[^\W\d_]*|(?<=\s)[ivxlcdm]*[ivx]{2}\b|(?<=[\s(-])[^\W\d_](?=\W*$)"
    r"|(?<!\S)[.-](?=\w)|(?<=\w)-(?!\w)"
    r"|[#&@*%!?])|[^\w\s]"
)
_RARE = re.compile("[\U00010000-\U0001efff]")
_SENTENCE_END = re.compile(r"[.!?…。！？](?=\s|$)")


def normalized(text: str) -> str:
    """A text in lower case and Unicode's form NFKC: equal for composed and decomposed accents, full
    and half width. The capital \u0130 becomes i: it is the only letter whose small form adds a
    mark.
    """
    if text.isascii():
        return text.lower()
    lower = unicodedata.normalize("NFKC", text).lower().replace("i\u0307", "i")
    return unicodedata.normalize("NFKC", lower)


def key(text: str) -> str:
    r"""Normalized, white space collapsed and trimmed: equal for two spellings of one name.

    >>> key("  Project\u00a0PHOENIX ")
    'project phoenix'
    """
    return " ".join(normalized(text).split())


def words(text: str) -> str:
    r"""The words of a text, normalized and separated by one blank: letters and digits with their
    marks.

    >>> words('O\'Neil AND "TechCorp"~2')
    'o neil and techcorp 2'
    """
    return " ".join(runs(normalized(text)))


def word_count(text: str) -> int:
    """The number of words of `words`."""
    return len(runs(normalized(text)))


def runs(text: str) -> list[str]:
    """The words of a text, unchanged."""
    if text.isascii():
        return _WORD.findall(text)
    rare = _RARE.search(text) is not None
    return _with_marks(r"\w[\w{}]*", rare).findall(text.replace("_", " "))


def terms(text: str) -> list[str]:
    """The words of a text for full-text comparison: with simple case folding, so that all forms of
    sigma are equal, and cut in scripts without blanks between words.

    >>> terms("Ada \u6e05\u83ef\u3067\u3059\u3088")
    ['ada', '\u6e05', '\u83ef', '\u3067\u3059', '\u3059\u3088']
    """
    text = normalized(text)
    if text.isascii():
        return _WORD.findall(text)
    text = "".join(f if len(f := c.casefold()) == 1 else c for c in text)
    found = runs(text)
    if _UNDIVIDED.search(text) is None:
        return found
    return [term for word in found for part in _PART.findall(word) for term in _pairs(part)]


def name_keys(text: str) -> str:
    r"""The keys of possible names in a text, one per line: up to five words, also with the signs
    between and around them; in scripts without blanks up to twelve letters.

    >>> {"node.js", "u.s.", "in the u"} <= set(name_keys("Node.js in the U.S., again").split("\n"))
    True
    """
    text = key(text)
    parts = _name_parts(text)
    befores = [0, *(end for _, end, _ in parts)]
    afters = [*(start for start, _, _ in parts), len(text)]
    found = dict[str, None]()
    for first, (start, _, _) in enumerate(parts):
        before = len(text[befores[first] : start].rpartition(" ")[2][-3:])
        room = 60
        for last, (_, end, size) in enumerate(parts[first : first + 12], start=first):
            room -= size
            if room < 0:
                break
            after = len(text[end : afters[last + 1]].partition(" ")[0][:3])
            for more in range(before + 1):
                found |= dict.fromkeys(text[start - more : end + n] for n in range(after + 1))
    whole = runs(text)
    for n in range(1, 6):
        found |= dict.fromkeys(" ".join(whole[i : i + n]) for i in range(len(whole)))
    return "\n".join(found)


def _name_parts(text: str) -> list[tuple[int, int, int]]:
    """The positions and sizes of words, or of letters in scripts without blanks. A name has at most
    five words or twelve letters: sizes of at most 60 in total.
    """
    at, found = 0, list[tuple[int, int, int]]()
    for run in runs(text):
        at = text.index(run, at)
        for part in _PART.findall(run):
            undivided = _UNDIVIDED.match(part) is not None
            for one in letters(part) if undivided else [part]:
                found.append((at, at + len(one), 5 if undivided else 12))
                at += len(one)
    return found


def letters(text: str) -> list[str]:
    """The characters of a text, each with the marks on it."""
    return _with_marks(r".[{}\u1160-\u11ff]*", True).findall(text)


def _pairs(part: str) -> list[str]:
    if _PAIRED.match(part) is None or len(listed := letters(part)) == 1:
        return [part]
    return [a + b for a, b in pairwise(listed)]


@cache
def _with_marks(pattern: str, rare: bool) -> re.Pattern[str]:
    """The pattern with `{}` replaced by Unicode's marks. The rare marks, outside the basic plane,
    make it ten times slower.
    """
    codes = [*range(0x300, 0xFE00), *range(0xFE10, 0x1F000 if rare else 0x10000)]
    marks = (chr(n) for n in codes if unicodedata.category(chr(n)) in ("Mn", "Mc"))
    return re.compile(pattern.format("".join(marks)))


def grams(text: str) -> frozenset[str]:
    """The 3-grams of a text's letters, marks, digits and apostrophes, for `alike`."""
    text = normalized(text)
    signs = "".join(c for c in text if c.isalnum() or c == "'" or unicodedata.category(c)[0] == "M")
    count = max(len(signs) - 2, 1) if signs else 0
    return frozenset(signs[i : i + 3] for i in range(count))


def alike(left: str, right: str) -> float:
    """Jaccard similarity of the 3-grams of two names; letters, marks, digits and apostrophes count,
    blanks do not.

    >>> alike("Alice Chen", "alice chen")
    1.0
    """
    a, b = grams(left), grams(right)
    return len(a & b) / len(a | b) if a and b else 0.0


def name_signs(text: str) -> str:
    """The parts that distinguish a name from names with the same words, in order: numbers with
    following letters, a last letter, Roman numerals, and signs other than separators of words.

    >>> name_signs("Visual C++ 6.0"), name_signs("Plan B"), name_signs("J. R. Smith-Jones (Ltd.)")
    ('+ + 6.0', 'b', '')
    """
    found, symbols = _SIGN.finditer(normalized(text).strip()), ("Sc", "Sm", "So")
    return " ".join(m[0] for m in found if m["sign"] or unicodedata.category(m[0]) in symbols)


def char_entropy(text: str) -> float:
    """Shannon entropy of the characters of a text, in bits; blanks do not count. Low for "aaa" or
    "x1".

    >>> char_entropy("abab")
    1.0
    """
    counts = Counter(c for c in normalized(text) if not c.isspace())
    total = sum(counts.values())
    return sum(-n / total * math.log2(n / total) for n in counts.values()) if total else 0.0


def cut(text: str, limit: int) -> str:
    """A text cut to `limit` characters, at the end of the last whole sentence if there is one.

    >>> cut("One. Two. Three", 11)
    'One. Two.'
    """
    if len(text) <= limit:
        return text
    ends = [m.end() for m in _SENTENCE_END.finditer(text[: limit + 1]) if m.end() <= limit]
    return text[: ends[-1]] if ends else text[:limit].rstrip()


def uuid5(text: str) -> str:
    """The name-based UUID of a text, in semgraph's namespace. `id(a, b)` in a plan is
    `uuid5(json_array(a, b))`.
    """
    return str(uuid.uuid5(_NAMESPACE, text))


def overlap(query: str, text: str) -> float:
    """The number of shared words of a query and a text, over the geometric mean of their numbers of
    distinct words: between 0 and 1.

    It depends only on the two texts, so that stores, groups and recordings agree.

    >>> overlap("who leads Phoenix", "Alice leads Phoenix")
    0.6666666666666666
    """
    return overlap_of(distinct_words(query), distinct_words(text))


def overlap_of(a: frozenset[str], b: frozenset[str]) -> float:
    """The overlap of two texts by their distinct words."""
    shared = len(a & b)
    return shared / math.sqrt(len(a) * len(b)) if shared else 0.0


def distinct_words(text: str) -> frozenset[str]:
    """The distinct words of a text. Results for short texts are cached, because each is compared
    with many others.
    """
    return _kept(text) if len(text) <= _SHORT else frozenset(terms(text))


@lru_cache(maxsize=16_384)
def _kept(text: str) -> frozenset[str]:
    return frozenset(terms(text))


def overlaid(held: str, more: str) -> str:
    """A JSON object updated by another one. Values of the latter that are null, blank or empty
    change nothing.

    >>> overlaid('{"a": 1, "b": "x"}', '{"b": " ", "c": [2]}')
    '{"a":1,"b":"x","c":[2]}'
    """
    laid = {name: value for name, value in _object(more).items() if not _blank(value)}
    return canonical_json(_object(held) | laid)


def listed(values: str) -> str:
    """The values of a JSON object as text, without blank ones and those whose name begins with `_`.

    >>> listed('{"age": 36, "title": "engineer", "_state": 1, "home": null}')
    'age: 36; title: engineer'
    """
    shown = [
        f"{name}: {value if isinstance(value, str) else canonical_json(value)}"
        for name, value in _object(values).items()
        if not (name.startswith("_") or _blank(value))
    ]
    return "; ".join(shown)


def shorten(text: str, limit: int, schema: str = "{}") -> str:
    """A JSON object whose texts are cut to `limit` characters, as `cut` does. A field with a
    `maxLength` in an answer schema, or in that of its entries (`FIELD[]`), is cut to that.

    >>> shorten('{"a": "One. Two.", "b": ["Three"]}', 4, '{"a": {"maxLength": 9}}')
    '{"a":"One. Two.","b":["Thre"]}'
    """
    limits = {
        path.removesuffix("[]"): keys["maxLength"]
        for path, keys in _object(schema).items()
        if isinstance(keys, dict) and "maxLength" in keys
    }

    def short(value: Any, limit: int) -> Any:
        if isinstance(value, str):
            return cut(value, limit)
        return [short(inner, limit) for inner in value] if isinstance(value, list) else value

    values = _object(text).items()
    return canonical_json({name: short(value, limits.get(name, limit)) for name, value in values})


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _blank(value: Any) -> bool:
    return value is None or value in ([], {}) or (isinstance(value, str) and not value.strip())


@dataclass(frozen=True)
class SqlFunction:
    """A registered function: Python definition, DuckDB types of its parameters, type of its result,
    and how many of its first parameters may be NULL; a NULL elsewhere makes the result NULL.
    """

    python: Callable[..., Any]
    parameters: tuple[str, ...]
    arrow: pa.DataType
    nullable: int = 0

    def __call__(self, *values: Any) -> Any:
        """The result for the values of a row."""
        return None if None in values[self.nullable :] else self.python(*values)

    def on_columns(self, *columns: Any) -> pa.Array[Any]:
        """The results for whole Arrow columns."""
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        return pa.array([self(*row) for row in rows], self.arrow)


TEXT_FUNCTIONS: dict[str, SqlFunction] = {
    "key": SqlFunction(key, ("VARCHAR",), pa.string()),
    "words": SqlFunction(words, ("VARCHAR",), pa.string()),
    "word_count": SqlFunction(word_count, ("VARCHAR",), pa.int64()),
    "name_keys": SqlFunction(name_keys, ("VARCHAR",), pa.string()),
    "alike": SqlFunction(alike, ("VARCHAR", "VARCHAR"), pa.float64()),
    "name_signs": SqlFunction(name_signs, ("VARCHAR",), pa.string()),
    "char_entropy": SqlFunction(char_entropy, ("VARCHAR",), pa.float64()),
    "cut": SqlFunction(cut, ("VARCHAR", "BIGINT"), pa.string()),
    "uuid5": SqlFunction(uuid5, ("VARCHAR",), pa.string()),
    "overlap": SqlFunction(overlap, ("VARCHAR", "VARCHAR"), pa.float64()),
    "overlaid": SqlFunction(overlaid, ("VARCHAR", "VARCHAR"), pa.string()),
    "listed": SqlFunction(listed, ("VARCHAR",), pa.string()),
    "shorten": SqlFunction(shorten, ("VARCHAR", "BIGINT"), pa.string()),
    "shorten_by": SqlFunction(shorten, ("VARCHAR", "BIGINT", "VARCHAR"), pa.string()),
}


def canonical_json(value: Any) -> str:
    """JSON text that is equal for equal values: sorted keys, no blanks, no escapes."""
    return _CANONICAL.encode(value)


_CANONICAL = json.JSONEncoder(
    sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str
)


Vector = Sequence[float]
_DIGITS = 12  # rounding, so that ties do not depend on the order of sums


class Pick(NamedTuple):
    """A chosen candidate: its number, from 1, and its score at that moment."""

    nth: int
    score: float


def mmr(query: Vector | None, candidates: Sequence[Vector | None], weight: float) -> list[Pick]:
    """Candidates in the order of maximal marginal relevance. The next candidate maximizes
    `weight` · cosine(query, candidate) − (1 − `weight`) · the greatest cosine of the candidate with
    one that was already chosen (0 at first).

    All candidates are in the result; ties are in input order.

    >>> [(p.nth, p.score) for p in mmr([0.6, 0.8], [[0.8, 0.6], [1, 0], [0, 1]], 0.5)]
    [(1, 0.48), (3, 0.1), (2, -0.1)]
    """
    import numpy as np

    relevance, likeness = _cosines(query, candidates)
    relevance = weight * relevance
    nearest = np.zeros(len(candidates))
    left = list(range(len(candidates)))
    picks: list[Pick] = []
    while left:
        scores = np.round(relevance[left] - (1 - weight) * nearest[left], _DIGITS)
        best = left.pop(int(np.argmax(scores)))
        picks.append(Pick(best + 1, float(scores.max())))
        nearest = likeness[best] if len(picks) == 1 else np.maximum(nearest, likeness[best])
    return picks


def mmr_static(
    query: Vector | None, candidates: Sequence[Vector | None], weight: float
) -> list[Pick]:
    """As `mmr`, in one sort: each candidate is compared with all others, chosen or not, and
    negative cosines count as 0.

    >>> [(p.nth, p.score) for p in mmr_static([0.6, 0.8], [[0.8, 0.6], [1, 0], [0, 1]], 0.5)]
    [(3, 0.1), (1, 0.08), (2, -0.1)]
    """
    import numpy as np

    relevance, likeness = _cosines(query, candidates)
    np.fill_diagonal(likeness, 0.0)
    nearest = likeness.max(axis=1, initial=0.0)
    scores = np.round(weight * relevance - (1 - weight) * nearest, _DIGITS)
    return [Pick(int(i) + 1, float(scores[i])) for i in np.argsort(-scores, kind="stable")]


def mean_vector(vectors: Sequence[Vector | None]) -> list[float] | None:
    """The mean of vectors without NULLs; NULL if there are none.

    >>> mean_vector([[1, 0], None, [0, 1]])
    [0.5, 0.5]
    """
    known = [vector for vector in vectors if vector is not None]
    if not known:
        return None
    mean: list[float] = _matrix(known, len(known[0])).mean(axis=0).tolist()
    return mean


def _cosines(query: Vector | None, candidates: Sequence[Vector | None]) -> tuple[Floats, Floats]:
    """The cosines of each candidate with the query, and with each candidate."""
    import numpy as np

    size = next((len(vector) for vector in (query, *candidates) if vector is not None), 0)
    vectors = _matrix((query, *candidates), size)
    lengths = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
    unit = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return unit[1:] @ unit[0], unit[1:] @ unit[1:].T


def _matrix(vectors: Iterable[Vector | None], size: int) -> Floats:
    import numpy as np

    zeros = np.zeros(size)
    listed = [zeros if vector is None else np.asarray(vector, np.float64) for vector in vectors]
    other = next((len(vector) for vector in listed if len(vector) != size), None)
    if other is not None:
        raise ValueError(f"vectors of {size:,} and of {other:,} numbers cannot be compared")
    return np.stack(listed)


def _ranking(rank: Callable[..., list[Pick]]) -> SqlFunction:
    """A function of a query, candidates and a weight, whose picks are rows."""

    def picks(*values: Any) -> list[dict[str, Any]]:
        return [pick._asdict() for pick in rank(*values)]

    pick = pa.struct([("nth", pa.int64()), ("score", pa.float64())])
    return SqlFunction(picks, ("FLOAT[]", "FLOAT[][]", "DOUBLE"), pa.list_(pick), nullable=1)


VECTOR_FUNCTIONS: dict[str, SqlFunction] = {
    "mmr": _ranking(mmr),
    "mmr_static": _ranking(mmr_static),
    "mean_vector": SqlFunction(mean_vector, ("FLOAT[][]",), pa.list_(pa.float32())),
}
