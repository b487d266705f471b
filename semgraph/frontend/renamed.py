"""Words that other operators and other libraries have, each with the word of the plan language."""

from __future__ import annotations

from collections.abc import Mapping

_PROMPT = dict.fromkeys(
    ("user_instruction", "langex", "instruction", "join_instruction", "question"),
    'did you mean "prompt"?',
)
_PROMPT["helper_examples"] = 'did you mean "examples"?'
_PROMPT["return_stats"] = (
    "what a run did and cost is in its result: Result.meter, or attrs of a data frame"
)
_PROMPT["model"] = 'the model is the session\'s: Session(llm="openai:gpt-4.1-mini")'
_GROUPS = dict.fromkeys(("group_by", "groupby", "on", "keys"), 'did you mean "by"?')
_EQUAL = 'columns that must be equal stand in using: "id", or {"id": "ticket_id"}'
_PAIRS = {
    **dict.fromkeys(("on", "left_on", "right_on", "by"), _EQUAL),
    "suffixes": "the other row is one column, whose name is alias",
    "rsuffix": "the other row is one column, whose name is alias",
    "right": 'did you mean "other"?',
    "name": 'did you mean "alias"?',
}
_ROWS = {
    "axis": "it keeps rows; project chooses columns",
    **dict.fromkeys(("cond", "condition", "predicate", "expr"), 'did you mean "where"?'),
}
_PER = {"per": 'did you mean "by"?'}
_COLUMN = dict.fromkeys(("col_name", "col"), 'did you mean "column"?')
_COUNT = dict.fromkeys(("K", "n", "top", "limit"), 'did you mean "k"?')
_IF = {"when": 'did you mean "if"?'}
_RETURNS = {"add": "typed answers stand in returns"}

# By place (an operator's keyword, or the place as messages name it), other words and what to write.
INSTEAD: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(("equal", "fulltext", "nearest", "a step as a mapping", "a write"), _IF),
    "search": {"by": 'did you mean "methods"?'},
    "windows": {"by": 'did you mean "order"?', "window": 'did you mean "size"?'},
    "filter": _ROWS,
    "join": _PAIRS,
    "group_join": _PAIRS,
    "sort": {
        **dict.fromkeys(("on", "columns", "cols", "key", "order"), 'did you mean "by"?'),
        "ascending": 'write the direction after the column: "price desc"',
    },
    "limit": {**dict.fromkeys(("k", "count", "rows"), 'did you mean "n"?'), **_PER},
    "cluster": _PER,
    "distinct": dict.fromkeys(("subset", "columns", "cols", "on"), 'did you mean "by"?'),
    "aggregate": {**_GROUPS, "agg": 'did you mean "add"?'},
    "unnest": dict.fromkeys(("name", "as_"), 'did you mean "alias"?'),
    "project": dict.fromkeys(("cols", "select"), 'did you mean "columns"?'),
    "add": dict.fromkeys(("cols", "assign"), 'did you mean "columns"?'),
    "sem_map": {
        **_PROMPT,
        **_RETURNS,
        **dict.fromkeys(
            ("cols", "columns", "output", "output_cols", "suffix"), "new columns stand in returns"
        ),
    },
    "sem_filter": {
        **_PROMPT,
        **dict.fromkeys(
            ("return_all", "all_cols"),
            'all rows with the answer as a column: sem_map with returns={"holds": bool}',
        ),
        **_RETURNS,
        "axis": _ROWS["axis"],
    },
    "sem_join": {
        **_PROMPT,
        **_PAIRS,
        **_RETURNS,
        "when": "where says which pairs are asked about",
    },
    "sem_agg": {**_PROMPT, **_GROUPS, "examples": "write them in # examples of a prompt file"},
    "sem_search": {**_COLUMN, **_COUNT, "n_rerank": 'did you mean "rerank"?'},
    "sem_sim_join": {**_COUNT, "score_suffix": "the score is the column similarity"},
    "sem_dedup": _COLUMN,
    "sem_cluster_by": {**_COLUMN, "ncentroids": 'did you mean "n"?'},
    "sem_classify": {**_PROMPT, "categories": 'did you mean "labels"?'},
    "sem_extract": {
        "input_cols": 'did you mean "columns"?',
        **dict.fromkeys(("output_cols", "returns"), 'did you mean "fields"?'),
    },
    "sem_topk": {
        **_PROMPT,
        **_GROUPS,
        **_COUNT,
        **_PER,
        "when": "leave rows out in a step before: filter",
        "returns": "its answer is a score; sem_map gives typed answers",
    },
    "table": {
        "index": "the index is left out: df.reset_index() makes it a column",
        **dict.fromkeys(("dtype", "dtypes", "schema"), 'did you mean "types"?'),
    },
    "read_csv": {
        **dict.fromkeys(("sep", "separator"), 'did you mean "delimiter"?'),
        **dict.fromkeys(("dtype", "dtypes", "schema", "parse_dates"), 'did you mean "types"?'),
        "index_col": "a frame has no index: name the column in key",
        "nrows": "the first rows: .limit(n)",
    },
    "read_json": {
        "lines": "a file with an object on each line ends in .jsonl",
        **dict.fromkeys(("dtype", "dtypes", "schema"), 'did you mean "types"?'),
    },
    "Session": {
        "model": 'did you mean "llm"?',
        "api_key": "the key is read from the environment: OPENAI_API_KEY",
        "budget": "limits: max_calls, max_tokens, max_usd, max_seconds",
    },
}

# Methods of other data frame libraries, and the methods of a frame that replace them.
ELSEWHERE: Mapping[str, str] = {
    **dict.fromkeys(("select", "drop"), "columns are chosen by project"),
    **dict.fromkeys(("assign", "with_columns", "mutate"), "columns are added by add"),
    **dict.fromkeys(("where", "query"), "rows are chosen by filter"),
    **dict.fromkeys(("sort_values", "order_by"), "rows are ordered by sort"),
    **dict.fromkeys(("groupby", "group_by", "agg"), "groups are made by aggregate, or by sem_agg"),
    **dict.fromkeys(("head", "tail"), "the first rows: limit"),
    "explode": "lists are opened by unnest",
    "drop_duplicates": "equal rows are dropped by distinct",
    "rename": 'columns are renamed by project: {"new": "old"}',
    "map": "the model answers about each row in sem_map",
    "topk": "the model ranks rows in sem_topk",
    "sem_index": "no index is needed: sem_search and search embed texts",
    "concat": "rows of several frames: union([a, b])",
    **dict.fromkeys(
        ("run", "collect", "execute", "compute", "to_pandas", "to_polars", "to_arrow", "rows"),
        "a session computes it: Session().run(frame).to_pandas()",
    ),
}
