"""Decides easy pairs by key, Jaccard similarity and embedding, and calls the model for the rest, in
blocks.

Two texts are compared, a column of each side: `left` and `right`; by default the first column with
the same name in both sides of the prompt, else the first column of each side. A pair is decided by
the first stage that applies:

1. equal keys (ignoring case and white space): a match;
2. Jaccard similarity of the 3-grams of at least `jaccard`: a match (`jaccard=null` skips this
   stage);
3. cosine of the embeddings below `reject`: no match; of at least `accept`: a match (`accept=null`:
   never). With `proxy=logit` the probability of yes from one token of the model of the role `role`
   replaces the cosine;
4. the model, in blocks of at most `pairs` pairs, cut to its context.

If the prompt returns answers, matches go to the model, too, for these answers. An empty text on
either side decides nothing. There is no guarantee of quality: similar texts with different meanings
(two people of one name) match without a call; `compare` measures the loss.

MinHash with locality-sensitive hashing finds similar pairs without comparing all; their similarity
is then computed exactly. A pair that hashing misses is decided by a later stage.

Sources: Broder (1997) for MinHash; LOTUS's and Graphiti's cascades for the order of the stages.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import semgraph.operator as op

_PERMUTATIONS = 128
_MATCH, _NO_MATCH = op.Outcome({"match": True}), op.Outcome({"match": False})


@dataclass(frozen=True)
class Cascade(op.Implementation[op.SemJoin]):
    """Cheap stages first, then the model for the rest."""

    same = False
    extra = "minhash"
    left: str | None = None
    right: str | None = None
    jaccard: float | None = 0.9
    reject: float = op.tried(0.1, 0.25, 0.4, default=0.25, risk="up")
    accept: float | None = None
    pairs: int = 256
    proxy: Literal["embeddings", "logit"] = "embeddings"
    role: str = "small"

    def __post_init__(self) -> None:
        if self.jaccard is not None and not 0 < self.jaccard <= 1:
            raise ValueError("jaccard must be above 0 and at most 1, or null")
        if not -1 <= self.reject <= 1:
            raise ValueError("reject must be from -1 to 1: it is a cosine")
        if self.proxy == "logit" and self.reject < 0:
            raise ValueError("reject must be from 0 to 1: with proxy=logit it is a probability")
        if self.accept is not None and not self.reject <= self.accept <= 1:
            raise ValueError("accept must be from reject to 1, or null")
        if self.pairs < 1:
            raise ValueError("pairs must be at least 1")

    def refuses(self, node: op.SemJoin, limits: op.Limits) -> str | None:
        """Refuse columns that the prompt does not name."""
        for side, name, known in (
            ("left", self.left, node.prompt.fields),
            ("right", self.right, node.prompt.other_fields),
        ):
            if name is not None and name not in known:
                return f'{side} "{name}" is no column that the prompt names of that side; it names {", ".join(known)}'
        return None

    def lacks(self) -> str | None:
        """The reason why datasketch, which MinHash needs, cannot be used, or None."""
        reason = None if self.jaccard is None else super().lacks()
        return reason and f"{reason}, or use jaccard=null"

    def estimate(self, node: op.SemJoin, rows: op.RowEstimate, seen: op.Observed | None) -> op.Cost:
        """At most all pairs, in blocks; for `logit` also a call for each pair."""
        proxy = rows.items if self.proxy == "logit" else 0
        calls = -(-rows.items // self.pairs) + proxy
        return op.Cost.of_items(calls, rows.items, seen)._replace(rounds=2 if proxy else 1, least=0)

    async def answer(self, node: op.SemJoin, rows: op.Rows, ctx: op.Context) -> list[op.Outcome]:
        """Decide easy pairs. Send the other pairs, and pairs whose answers were refused."""
        assert rows.right is not None
        if rows.reasons:
            return await ctx.ask_packed(node, rows, rows.blocks(node, pairs=self.pairs))
        own, other = self._columns(node)
        lefts, rights = op.column_texts(rows.left, own), op.column_texts(rows.right, other)
        texts = [(lefts[a], rights[b]) for a, b in zip(rows.lefts, rows.rights, strict=True)]
        keys = {text: op.key(text) for text in (*lefts, *rights)}
        comparable = [i for i, (a, b) in enumerate(texts) if keys[a] and keys[b]]
        matches = {i for i in comparable if keys[texts[i][0]] == keys[texts[i][1]]}
        if self.jaccard is not None:
            own_texts, other_texts = ({texts[i][side] for i in comparable} for side in (0, 1))
            near = await asyncio.to_thread(_near, own_texts, other_texts, self.jaccard)
            matches |= {i for i in comparable if texts[i] in near}
        decided = dict.fromkeys(matches, _MATCH)
        unlike = [i for i in comparable if i not in matches]
        if self.proxy == "logit":
            scores = await self._probabilities(node, rows, ctx, unlike)
        else:
            scores = await self._cosines(rows, ctx, unlike, texts)
        for i, score in scores.items():
            if score < self.reject:
                decided[i] = _NO_MATCH
            elif self.accept is not None and score >= self.accept:
                decided[i] = _MATCH
        asked = {i for i, outcome in decided.items() if node.answers and outcome is _MATCH}
        rest = [i for i in range(len(texts)) if i not in decided or i in asked]
        part = rows.only(rest)
        answers = await ctx.ask_packed(node, part, part.blocks(node, pairs=self.pairs))
        decided |= dict(zip(rest, answers, strict=True))
        return [decided[i] for i in range(len(texts))]

    def _columns(self, node: op.SemJoin) -> tuple[str, str]:
        own, other = node.prompt.fields, node.prompt.other_fields
        if self.left is None and self.right is None:
            both = [(a, b) for a in own for b in other if a.split(".")[-1] == b.split(".")[-1]]
            if both:
                return both[0]
        return self.left or own[0], self.right or other[0]

    async def _probabilities(
        self, node: op.SemJoin, rows: op.Rows, ctx: op.Context, items: list[int]
    ) -> dict[int, float]:
        """The probability of yes of each pair with an answer."""
        answers = await ctx.ask_words(node, rows.only(items), role=self.role)
        answered = [
            (item, op.log_odds(answer))
            for item, answer in zip(items, answers, strict=True)
            if answer.values is not None
        ]
        return {item: 1 / (1 + math.exp(-max(odds, -700.0))) for item, odds in answered}

    async def _cosines(
        self, rows: op.Rows, ctx: op.Context, items: list[int], texts: list[tuple[str, str]]
    ) -> dict[int, float]:
        """The cosine of each pair. Texts of two partitions are never sent together."""
        import numpy as np

        cosines: dict[int, float] = {}
        lefts = rows.lefts
        by_partition: dict[str, list[int]] = {}
        for i in items:
            by_partition.setdefault(rows.partition[lefts[i]], []).append(i)
        for partition, own in by_partition.items():
            distinct = list(dict.fromkeys(text for i in own for text in texts[i]))
            vectors = await ctx.embed(distinct, partition)
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            # NaN for a text without a vector: no threshold decides it
            nothing = np.full_like(vectors, np.nan)
            unit = np.divide(vectors, lengths, out=nothing, where=lengths > 0)
            place = {text: n for n, text in enumerate(distinct)}
            a, b = (unit[[place[texts[i][side]] for i in own]] for side in (0, 1))
            cosines |= dict(zip(own, (a * b).sum(axis=1).tolist(), strict=True))
        return cosines


def _near(lefts: Iterable[str], rights: Iterable[str], least: float) -> set[tuple[str, str]]:
    """Pairs of texts with a Jaccard similarity of their 3-grams of at least `least`: candidates by
    MinHash, then exactly.
    """
    from datasketch import MinHashLSH

    # A lower threshold, because hashing finds pairs near the threshold only by chance.
    index = MinHashLSH(threshold=0.9 * least, num_perm=_PERMUTATIONS)
    for text in sorted(rights):
        index.insert(text, _hashes(text))
    return {
        (text, other)
        for text in lefts
        for other in index.query(_hashes(text))
        if op.alike(text, other) >= least
    }


def _hashes(text: str) -> object:
    from datasketch import MinHash

    hashes = MinHash(num_perm=_PERMUTATIONS)
    hashes.update_batch([gram.encode("utf-8", "surrogatepass") for gram in op.grams(text) or ("",)])
    return hashes
