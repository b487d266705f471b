"""Texts are data: what looks like a query, a quote or an odd character is stored, found and given
back as it is.
"""

from __future__ import annotations

import json

import pytest

from semgraph.errors import DataError
from semgraph.expr.functions import words
from semgraph.stores.base import Method, ScanQuery

TEXTS = {
    "sql": 'Robert\'); DROP TABLE "Person"; -- heron',
    "cypher": "x`}) DETACH DELETE n //heron {uuid: '1'} $uuid RETURN \\u0027",
    "lucene": 'name:"heron" AND NOT (*) OR [a TO z] ~2 ^3 +must -not && || !x ?y \\',
    "fts5": '"heron" NEAR(a b, 1) {c0} : p : x67 * ^',
    "quotes": 'He said “heron”, ‘so’: "it\'s" `so`',
    "lines": "heron\n\ttab\r\nend\u2028\u2029",
    "emoji": "heron 🦢 👩‍👩‍👧 \U0001f600",
    "words": "Füße heron ΣΊΣΥΦΟΣ İstanbul 東京 हिन्दी e\u0301",
    "odd": "\u200bheron \ufeff\u202e\u0001\u007f\ufffd\U0010ffff",
    "format": "heron %s {0} ${name} {{x}} %(a)s :name ?1 @v $1",
    "blank": "  heron  ",
    "digits": "heron 007 1e5 ½",
    "long": "heron " + "x" * 100_000,
}


@pytest.fixture(params=TEXTS)
def text(request):
    return TEXTS[request.param]


async def test_odd_texts_are_stored_and_found_in_every_place(home, store, world, text):
    if home.longest is None or len(text) < home.longest:
        await check(store, world, text)
        return
    for row in ({"uuid": text}, {"uuid": "p", "group_id": text}, {"uuid": "p", "name": text}):
        with pytest.raises(DataError, match=f"{home.longest:,}"):
            await world.commit(store, world.write("Person", row))
    with pytest.raises(DataError, match=f"{home.longest:,}"):
        await world.commit(store, marker=world.marker("h", rows=(text,)))
    row = {"uuid": "p", "summary": text, "aliases": [text], "attributes": {"said": text}}
    await world.commit(store, world.write("Person", row))
    found = await store.match(
        world.pattern("(p:Person {uuid: k})", p=("summary", "aliases", "attributes")),
        world.rows(k=["p"]),
    )
    [kept] = found.column("p").to_pylist()
    assert (kept["summary"], kept["aliases"], json.loads(kept["attributes"])) == (
        text,
        [text],
        {"said": text},
    )


async def test_the_character_nul(home, store, world):
    if home.nul:
        await check(store, world, "heron\0 and \0more")
        return
    with pytest.raises(DataError, match="NUL"):
        await world.commit(store, world.write("Person", {"uuid": "p", "name": "heron\0"}))


async def check(store, world, text):
    """A text as name, key, partition, list item, attribute, end of an edge, member of a marker, and
    in each kind of question.
    """
    group, key = f"group {text}", f"key {text}"
    row = {
        "uuid": key,
        "name": text,
        "aliases": [text, "x"],
        "attributes": {"said": text},
        "group_id": group,
    }
    decoy = {"uuid": "decoy", "name": "stork", "group_id": group}
    marker = world.marker(
        f"head {text}",
        partition=group,
        plan=text,
        rows=(key,),
        fingerprint=text,
        run=text,
        witness="Person",
    )
    edge = {"uuid": "k", "source": key, "target": key, "fact": text, "group_id": group}
    await world.commit(
        store, world.write("Person", row, decoy), world.write("KNOWS", edge), marker=marker
    )
    await world.commit(
        store, world.write("Person", {"uuid": key, "summary": text, "group_id": group})
    )

    rows = world.rows(name=[text], text=[words(text)], group_id=[group])
    query = world.query(
        "Person",
        Method("equal", "name", "name"),
        Method("fulltext", "name", "text"),
        properties=tuple(row)[1:],
    )
    literal = "'" + text.replace("'", "''") + "'"
    filtered = world.query(
        "Person", Method("order"), where=f"hit.name = {literal} AND hit.name IN ({literal}, 'x')"
    )
    both, some = await store.search([query, filtered], rows)
    assert world.keys(both, 0) == world.keys(both, 1) == world.keys(some) == {0: [key]}
    assert both.column("name")[0].as_py() == text
    assert both.column("aliases")[0].as_py() == [text, "x"]
    assert both.column("group_id")[0].as_py() == group

    found = await store.match(
        world.pattern("(a:Person {name: name})-[k:KNOWS]->(b:Person)", b=("summary",), k=("fact",)),
        rows,
    )
    assert [
        (r["a"]["uuid"], r["k"]["source"], r["k"]["fact"], r["b"]["summary"])
        for r in found.to_pylist()
    ] == [(key, key, text, text)]
    assert (await store.scan(ScanQuery("Person", (), [group]))).column(
        "uuid"
    ).to_pylist() == sorted(["decoy", key])

    state = (await store.states(text, {group: [key]}))[group]
    assert state.head == f"head {text}"
    assert [(m.row, m.fingerprint, m.run) for m in state.committed.values()] == [(key, text, text)]
    await world.commit(store, world.delete("Person", key, detach=True))
    assert (await store.scan(ScanQuery("Person", (), [group]))).column("uuid").to_pylist() == [
        "decoy"
    ]


async def test_keys_differ_by_their_last_character(store, world):
    keys = ["a", "A", "a ", "á", "a\u0301", "a\u200b", "ａ"]
    await world.commit(store, world.write("Note", *({"uuid": k, "content": k} for k in keys)))
    found = await store.match(
        world.pattern("(n:Note {uuid: k})", n=("content",)), world.rows(k=keys)
    )
    assert [row["n"]["content"] for row in found.to_pylist()] == keys
    assert (await store.scan(ScanQuery("Note", (), ["g"]))).column("uuid").to_pylist() == sorted(
        keys
    )


@pytest.mark.parametrize("query", ["_", "…", "\u0301", "*", "𞤀 nothing"])
async def test_a_text_without_words_finds_nothing(store, world, query):
    await world.commit(store, world.write("Note", {"uuid": "n", "content": "a heron"}))
    found = await store.search(
        [world.query("Note", Method("fulltext", "content", "text"))], world.rows(text=[query])
    )
    assert found[0].num_rows == 0


async def test_operators_are_words(store, world):
    contents = {"a": "to be or not to be", "b": "heron near the lake", "c": "and then"}
    await world.commit(
        store, world.write("Note", *({"uuid": k, "content": c} for k, c in contents.items()))
    )
    query = world.query("Note", Method("fulltext", "content", "text"))
    [found] = await store.search([query], world.rows(text=["or", "near", "and", "not heron"]))
    assert {q: set(keys) for q, keys in world.keys(found).items()} == {
        0: {"a"},
        1: {"b"},
        2: {"c"},
        3: {"a", "b"},
    }


async def test_a_very_long_question(store, world):
    await world.commit(store, world.write("Note", {"uuid": "n", "content": "word777"}))
    query = world.query("Note", Method("fulltext", "content", "text"))
    asked = " ".join(f"word{i}" for i in range(900))
    [found] = await store.search([query], world.rows(text=[asked]))
    assert world.keys(found) == {0: ["n"]}
