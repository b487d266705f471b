"""What a plan keeps from window to window: random writes to a graph and reads of it, added to a
random plan.
"""

from __future__ import annotations

import random
from typing import Any

GRAPH = "notes.yaml"
LABEL = "Note"
PROPERTIES = {"s": "string", "n": "int64", "b": "boolean", "moment": "timestamp", "k": "int64"}
GRAPH_FILE: dict[str, Any] = {"graph": "notes", "nodes": {LABEL: {"properties": PROPERTIES}}}
_KEYS = (
    "id(group_id, k)",
    "id(group_id, b)",
    "id(group_id, s)",
    "id(group_id, n)",
    "id(group_id, k, b)",
)


def keep(rng: random.Random, document: dict[str, Any]) -> None:
    """Have a plan that goes by windows write rows, and read those that earlier windows wrote."""
    document["graph"] = GRAPH
    document["steps"]["kept"] = _kept(rng)
    merge: dict[str, Any] = {"from": "kept", "node": LABEL}
    if rng.random() < 0.3:
        merge["set"] = {"b": rng.choice(("NOT b", "n > 2", "NULL"))}
    if rng.random() < 0.3:
        merge["create"] = {"moment": rng.choice(("TIMESTAMPTZ '2020-01-01 00:00:00+00'", "moment"))}
    if rng.random() < 0.1:
        merge["only"] = "existing"
    document["writes"] = [{"merge": merge}]
    for number in range(rng.randint(1, 2)):
        document["steps"][f"read{number}"] = rng.choice(
            (_joined, _joined, _matched, _grouped, _listed)
        )(rng)
        document["returns"].append(f"read{number}")


def _keyed(rng: random.Random) -> list[Any]:
    """The rows at hand with the key of what may be stored of them."""
    failing = (
        [{"sem_filter": {"prompt": "Is it so: {t} {s} {canary}?"}}] if rng.random() < 0.3 else []
    )
    return [{"from": "people"}, *failing, {"add": {"note": rng.choice(_KEYS)}}]


def _kept(rng: random.Random) -> list[Any]:
    """What is written: columns of a row, or what is made of those that are stored."""
    columns: dict[str, Any] = {
        "uuid": "note",
        "group_id": None,
        "b": None,
        "n": None,
        "moment": None,
    }
    columns |= {name: None for name in ("s", "k") if rng.random() < 0.7}
    one = (
        {"limit": {"n": 1, "by": ["note"], "order": "id desc"}}
        if rng.random() < 0.5
        else {"distinct": ["note"]}
    )
    stored: list[Any] = []
    if rng.random() < 0.6:
        stored = [
            {"join": {"other": LABEL, "alias": "o", "using": {"note": "uuid"}, "how": "left"}}
        ]
        columns["n"] = rng.choice(("coalesce(o.n, 0) + 1", "coalesce(n, o.n)", "greatest(n, o.n)"))
        if "s" in columns:
            columns["s"] = rng.choice(("concat(o.s, '+', s)", "coalesce(o.s, s)", "NULLIF(s, o.s)"))
    return [*_keyed(rng), one, *stored, {"project": columns}]


def _joined(rng: random.Random) -> list[Any]:
    """Each row with what is stored under its key, or under keys of rows like it."""
    how = rng.choice(("left", "left", "inner", "semi", "anti"))
    using: Any = rng.choice(({"note": "uuid"}, {"k": "k"}, {"s": "s", "b": "b"}))
    spec = {"other": LABEL, "alias": "o", "using": using, "how": how}
    if rng.random() < 0.3:
        spec["where"] = rng.choice(("o.n >= n", "o.b", "o.s IS NULL"))
    return [*_keyed(rng), {"join": spec}, *([] if how in {"semi", "anti"} else _brought(rng))]


def _brought(rng: random.Random) -> list[Any]:
    """Some of what a read brings, or all of it."""
    if rng.random() < 0.3:
        return [{"project": {"id": None, "o": None}}]
    return [
        {
            "project": {
                "id": None,
                "canary": None,
                "one": rng.choice(("o.n", "o.s", "o.moment")),
                "note": "o.uuid",
            }
        }
    ]


def _matched(rng: random.Random) -> list[Any]:
    """Each row with what a pattern finds."""
    pattern = rng.choice(("{uuid: note}", "{k: k}", "{s: s}", "{k: k, b: b}"))
    spec = {"pattern": f"(o:{LABEL} {pattern})", "how": rng.choice(("inner", "left"))}
    if rng.random() < 0.3:
        spec["where"] = rng.choice(("o.n >= n", "o.b", "o.s IS NULL"))
    return [*_keyed(rng), {"match": spec}, *_brought(rng)]


def _grouped(rng: random.Random) -> list[Any]:
    """Each row with aggregates of what is stored."""
    spec: dict[str, Any] = {
        "other": LABEL,
        "alias": "o",
        "using": ["k"] if rng.random() < 0.5 else {"group_id": "group_id"},
        "add": {"found": "list(o.n)", "many": "count(*)", "last": "max(o.moment)"},
    }
    if rng.random() < 0.5:
        spec |= {
            "order": rng.choice(("o.n desc", "o.s", ["o.b", "o.n"])),
            "limit": rng.randint(1, 3),
        }
    return [{"from": "people"}, {"group_join": spec}]


def _listed(rng: random.Random) -> list[Any]:
    """What is stored, by itself."""
    then = rng.choice((
        [],
        [{"filter": "n > 1"}],
        [{"sort": ["n desc"]}],
        [{"limit": {"n": 2, "order": "s"}}],
        [{"limit": {"n": 1}}],
        [{"aggregate": {"by": ["b"], "add": {"many": "count(*)", "each": "list(n)"}}}],
    ))  # fmt: skip
    return [{"from": LABEL}, *then]
