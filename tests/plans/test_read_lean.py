"""What `read_lean` shows of the graph."""

from __future__ import annotations

from collections import defaultdict

from tests.plans.conftest import Memory, at
from tests.stores.test_names import NAMES, sentence


async def test_a_known_name_that_stands_in_a_text_is_shown(memory: Memory) -> None:
    """Names in 50 scripts, each in a group where another entity is more like the text."""
    texts = [f"Ann(user): I live in Rome. {sentence(*pair)}" for pair in NAMES]
    entities = [
        {"uuid": f"{kind}{n}", "group_id": f"g{n}", "name": called, "summary": ""}
        for n, (text, (_, name)) in enumerate(zip(texts, NAMES, strict=True))
        for kind, called in (("name", name), ("like", text))
    ]
    await memory.run(memory.here("planted.yaml"), entities=entities, facts=[])
    episodes = [
        {"uuid": f"e{n}", "group_id": f"g{n}", "turn": 1, "content": text, "valid_at": at(n),
         "source": "message", "history": []}
        for n, text in enumerate(texts)
    ]  # fmt: skip
    params = {"similar": 1.0, "candidates": 1}
    result = await memory.run("read_lean", episodes=episodes, params=params)
    shown = defaultdict(set)
    names = {row["uuid"]: row["episode"] for row in result.tables["names"].to_pylist()}
    for row in result.tables["answered"].to_pylist():
        shown[names.get(row["uuid"])].add(row["entity"])
    assert [NAMES[n] for n in range(len(NAMES)) if f"name{n}" not in shown[f"e{n}"]] == []
    assert all(f"like{n}" in shown[f"e{n}"] for n in range(len(NAMES)))
