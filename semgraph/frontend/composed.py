"""Methods of a frame that are compositions of operators, by the names that LOTUS has for them.

Each builds the operators that its docstring names, and `to_yaml` writes these. Texts are compared
by the session's embedder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from semgraph.errors import PlanError, did_you_mean
from semgraph.expr.scalar import parse_scalar
from semgraph.expr.types import Type
from semgraph.frontend.build import is_type
from semgraph.logical.node import free

Frame = Any  # of `semgraph.frontend.frame`, which imports this module
OnError = Literal["raise", "null"]
_ALL = 1_000_000_000  # more hits than a search can have


def sem_search(
    self: Frame,
    column: str,
    query: str,
    k: int | None = None,
    rerank: int | None = None,
    prompt: str | None = None,
) -> Frame:
    """The `k` rows whose text in `column` is nearest to `query`, nearest first, with `similarity`,
    the cosine (`filter`, `embed`, `add`, `limit`, `sort`); then the `rerank` best of these, or without
    `k` of all, by `sem_topk`. Its `prompt` asks how well a text answers the query. NULL is no hit.
    """
    text = _sql("sem_search", self, column, "" if k is None else "similarity")
    if k is rerank is None or not isinstance(query, str):
        raise PlanError("sem_search needs a text as its query, and k, rerank, or both")
    found = self.filter(f"{text} IS NOT NULL")
    if k is not None:
        own, wanted = free("text_vector", self.columns), free("query_vector", self.columns)
        found = found.embed({own: text, wanted: "'" + query.replace("'", "''") + "'"})
        found = found.add({"similarity": f"list_cosine_similarity({own}, {wanted})"})
        found = found.limit(k, order="similarity desc").sort("similarity desc")
        found = found.project([*self.columns, "similarity"])
    shown = query.replace("{", "{{").replace("}", "}}")
    asked = prompt or f"How well does this answer “{shown}”: {{{column}}}"
    return found if rerank is None else found.sem_topk(asked, k=rerank)


def sem_sim_join(
    self: Frame,
    other: Frame,
    left_on: str,
    right_on: str,
    k: int,
    alias: str = "other",
    above: float | None = None,
    how: Literal["inner", "left"] = "inner",
) -> Frame:
    """Each row with the `k` rows of `other` whose text in `right_on` is nearest to its text in
    `left_on`, as the struct `alias`, and `similarity`, the cosine, if it is above `above`: by
    `search` and `add`.
    """
    _sql("sem_sim_join", other, right_on)
    least = {} if above is None else {"above": above}
    method = {"nearest": right_on, "to": _sql("sem_sim_join", self, left_on, "similarity"), **least}
    rows, key = _keyed(other)
    hits = self.search(rows, alias, k, methods=method, fuse="none", key=key, how=how)
    return hits.add({"similarity": f"{_name(alias)}.score"})


def sem_dedup(self: Frame, column: str, threshold: float) -> Frame:
    """The rows without those whose text in `column` resembles that of an earlier row: of rows that
    are connected by pairs with a cosine above `threshold`, the first: by `search` of the rows over
    themselves, `cluster` and `distinct`. NULL resembles nothing; groups do not mix.
    """
    text = _sql("sem_dedup", self, column)
    if not isinstance(threshold, (int, float)) or not threshold < 1:
        hint = f'equal texts: distinct("{column}")'
        raise PlanError("sem_dedup: threshold is a cosine below 1", hint=hint)
    rows, key = _keyed(self)
    hit, end, cluster, null = (
        free(name, rows.columns) for name in ("similar", "other_end", "cluster", "no_text")
    )
    own = [column, *({self.world.graph.partition} & {*self.columns} - {column})]
    marked = rows.add({null: f"if({text} IS NULL, {_name(key)}, NULL)"})
    firsts = marked.distinct([*own, null])  # of equal texts
    texts = firsts.project(list(dict.fromkeys([key, *own])))
    pairs = texts.search(texts, hit, _ALL, {"nearest": column, "above": threshold}, key=key)
    edges = pairs.project({key: None, end: f"{hit}.{key}"})
    grouped = edges.cluster(nodes=firsts, key=key, source=key, target=end, alias=cluster)
    return grouped.distinct(cluster).project(self.columns)


def sem_cluster_by(self: Frame, column: str, n: int, alias: str = "cluster") -> Frame:
    """The rows with one of at most `n` clusters of near texts in `column`, as the column `alias`: the
    smallest key of the cluster, or the number of its first row. A text must not be NULL. By `embed`
    and `cluster`, whose kmeans needs `pip install "semgraph[kmeans]"`.
    """
    text, (rows, key) = _sql("sem_cluster_by", self, column), _keyed(self)
    vector, by = free("vector", rows.columns), {"kmeans": {"k": n, "cosine": True}}
    embedded = rows.embed({vector: text})
    clusters = embedded.cluster(key=key, vector=vector, algorithm=by, alias=alias)
    return clusters.project([*self.columns, alias])


def sem_classify(
    self: Frame,
    of: str,
    labels: Sequence[str] | Mapping[str, str],
    alias: str = "label",
    when: str | None = None,
    on_error: OnError = "raise",
    role: str | None = None,
) -> Frame:
    """The rows with one of `labels` as the column `alias`, by `sem_map`. `of` is a column, or a prompt;
    labels may have descriptions, `{"bug": "something is broken"}`.
    """
    if isinstance(labels, str) or not labels or not all(isinstance(each, str) for each in labels):
        raise PlanError("sem_classify: labels are texts", hint='write ["bug", "praise"]')
    if "{" not in of:
        _sql("sem_classify", self, of)
        of = f"Which label fits this: {{{of}}}"
    answer = {"type": str(Type("enum", values=tuple(labels)))}
    if isinstance(labels, Mapping):
        answer["describe"] = "; ".join(f"{each}: {says}" for each, says in labels.items() if says)
    return self.sem_map(of, returns={alias: answer}, when=when, on_error=on_error, role=role)


def sem_extract(
    self: Frame,
    columns: Sequence[str] | str,
    fields: Any,
    when: str | None = None,
    on_error: OnError = "raise",
    role: str | None = None,
) -> Frame:
    """The rows with `fields` that the model reads from the texts in `columns`, by `sem_map`. A field
    has a type, `"int64 null"` or `int`, or a description, with which it is a text or NULL; or both.
    They may be a class, as in `returns`.
    """
    prompt, returns = "Read the fields from this record.", fields
    for name in [columns] if isinstance(columns, str) else columns or [""]:
        _sql("sem_extract", self, name)
        prompt += f"\n{name}: {{{name}}}"
    if isinstance(fields, Mapping):
        returns = {name: _answer(value) for name, value in fields.items()}
    return self.sem_map(prompt, returns=returns, when=when, on_error=on_error, role=role)


def _sql(operator: str, frame: Frame, column: str, new: str = "") -> str:
    """A column of the frame as an expression. Raises PlanError if the frame lacks it, or has the new
    one.
    """
    if not hasattr(frame, "made"):
        what = f"{operator}: other is {type(frame).__name__}, no frame"
        raise PlanError(what, hint="write semgraph.table(rows, name=...)")
    there = f"columns here: {', '.join(frame.columns)}"
    if new in frame.columns:
        what = f'{operator} adds "{new}", which is a column already'
        raise PlanError(what, there=there, hint="rename it, or leave it out")
    if column not in frame.columns:
        near = did_you_mean(str(column), frame.columns)
        raise PlanError(f'{operator}: no column "{column}"', there=there, hint=near)
    return _name(column)


def _name(column: str) -> str:
    """A column as an expression; a word of SQL that is a value is quoted."""
    return column if column in parse_scalar(column).columns else f'"{column}"'


def _keyed(frame: Frame) -> tuple[Frame, str]:
    """The frame with a column that identifies rows, and its name: the key, else the row's number."""
    if frame.key is not None:
        return frame, frame.key
    name = free("row_number", frame.columns)
    return frame.add({name: "row_number() OVER ()"}), name


def _answer(value: Any) -> Any:
    """The type of a field, with its description."""
    if value is None or (isinstance(value, str) and not is_type(value)):
        return {"type": "string null", **({"describe": value} if value else {})}
    return value
