"""Vectors in which texts with common words and common letters are near: hashed words and 3-grams,
no randomness.
"""

from __future__ import annotations

import re
import zlib
from functools import lru_cache

import numpy as np
import numpy.typing as npt

DIMENSIONS = 256
_WORD = re.compile(r"[^\W_]+")
_GRAM_WEIGHT = 0.35
COMMON = frozenset(
    _WORD.findall(
        "a an and are as at by for from has in is it of on or so that the their to was we will with"
    )
)


@lru_cache(maxsize=65_536)
def vector_of(text: str, dimensions: int = DIMENSIONS) -> npt.NDArray[np.float32]:
    """The vector of a text, of length 1 (of a text without letters: zeros)."""
    found = np.zeros(dimensions, np.float64)
    for word in _WORD.findall(text.lower()):
        weight = 0.2 if word in COMMON else 1.0
        _put(found, "w" + word, weight)
        padded = f"^{word}$"
        for i in range(len(padded) - 2):
            _put(found, "g" + padded[i : i + 3], weight * _GRAM_WEIGHT)
    length = float(np.linalg.norm(found))
    return (found / length if length else found).astype(np.float32)


def _put(vector: npt.NDArray[np.float64], feature: str, weight: float) -> None:
    code = zlib.crc32(feature.encode())
    vector[code % len(vector)] += weight if code & 0x10000 else -weight
