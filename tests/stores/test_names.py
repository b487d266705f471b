"""A name is found by itself, however its characters are encoded, and in a sentence that has it: 200
names in 50 scripts.
"""

from __future__ import annotations

import sys
import unicodedata
from pathlib import Path

import pytest

from semgraph.expr.functions import alike, key, name_keys, overlap, terms, words
from semgraph.stores.base import Method

NAMES = [
    tuple(line.split("|"))
    for line in (Path(__file__).parent / "names.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
]
SENTENCES = {
    "Han": "昨天我们在{}见面了",
    "Hiragana": "きのうは{}をみた",
    "Katakana": "きのう{}を見た",
    "Kanji and kana": "昨日は{}に行った",
    "Hangul": "어제 {}에서 만났다",
    "Thai": "เมื่อวานฉันไป{}กับเพื่อน",
    "Lao": "ມື້ວານຂ້ອຍໄປ{}ກັບໝູ່",
    "Khmer": "ម្សិលមិញខ្ញុំទៅ{}ជាមួយមិត្ត",
    "Burmese": "မနေ့ကကျွန်တော်{}ကိုသွားခဲ့တယ်",
    "Tibetan": "ཁ་ས་ང་{}་ལ་ཕྱིན།",
}
"""Without blanks around the name where the script has none."""
WIDE = {ord(unicodedata.normalize("NFKC", chr(n))): chr(n) for n in range(0xFF01, 0xFF5F)}


def forms(name: str) -> list[str]:
    """A name in each of Unicode's forms, and in full width."""
    listed = [unicodedata.normalize(form, name) for form in ("NFC", "NFD", "NFKC", "NFKD")]
    wide = unicodedata.normalize("NFKC", name).translate(WIDE)
    return list(dict.fromkeys((name, *listed, wide)))


def sentence(script: str, name: str) -> str:
    """A sentence in which the name stands."""
    return SENTENCES.get(script, "Yesterday we spoke of {}, again.").format(name)


async def missed(store, world, asked: list[tuple[str, str]], *, k: int) -> list[tuple[str, str]]:
    """Which names a text does not find, of (text, name)."""
    found = await store.search(
        [world.query("Person", Method("fulltext", "name", "text", k=k), properties=("name",))],
        world.rows(text=[text for text, _ in asked]),
    )
    hits: dict[int, set[str]] = {}
    for hit in found[0].to_pylist():
        hits.setdefault(hit["_q"], set()).add(key(hit["name"]))
    return [
        (text, name) for q, (text, name) in enumerate(asked) if key(name) not in hits.get(q, ())
    ]


@pytest.fixture
async def named(store, world):
    """A store with an entity of each name."""
    rows = [{"uuid": f"n{i}", "name": name} for i, (_, name) in enumerate(NAMES)]
    await world.commit(store, world.write("Person", *rows))
    return store


async def test_a_name_is_found_by_itself_in_each_form(named, world):
    asked = [(form, name) for _, name in NAMES for form in forms(name)]
    assert await missed(named, world, asked, k=5) == []


async def test_a_name_is_found_in_a_sentence(named, world):
    asked = [(sentence(*pair), pair[1]) for pair in NAMES]
    assert await missed(named, world, asked, k=10) == []


@pytest.mark.parametrize("form", ["NFC", "NFD"])
async def test_a_sentence_is_found_by_a_name_in_it(store, world, form):
    rows = [
        {"uuid": f"n{i}", "name": unicodedata.normalize(form, sentence(*pair))}
        for i, pair in enumerate(NAMES)
    ]
    await world.commit(store, world.write("Person", *rows))
    query = world.query("Person", Method("fulltext", "name", "text", k=10))
    [hits] = await store.search([query], world.rows(text=[name for _, name in NAMES]))
    found = world.keys(hits)
    assert [name for i, (_, name) in enumerate(NAMES) if f"n{i}" not in found.get(i, ())] == []


async def test_a_stored_name_in_any_form_is_found_by_any_other(store, world):
    pairs = [(a, b) for _, name in NAMES for a in forms(name) for b in forms(name)]
    stored = list(dict.fromkeys(a for a, _ in pairs))
    rows = [{"uuid": f"n{i}", "name": a, "group_id": f"g{i}"} for i, a in enumerate(stored)]
    await world.commit(store, world.write("Person", *rows))
    query = world.query("Person", Method("fulltext", "name", "text", k=1), partition="group_id")
    groups = [f"g{stored.index(a)}" for a, _ in pairs]
    [hits] = await store.search([query], world.rows(text=[b for _, b in pairs], group_id=groups))
    found = world.keys(hits)
    print([pair for q, pair in enumerate(pairs) if q not in found])
    assert [pair for q, pair in enumerate(pairs) if q not in found] == []


@pytest.mark.parametrize(("script", "name"), NAMES)
def test_forms_of_a_name_are_one_name(script, name):
    for form in forms(name):
        assert (key(form), words(form), terms(form)) == (key(name), words(name), terms(name))
        assert alike(form, name) == overlap(form, name) == 1.0
    assert key(key(name)) == key(name)
    assert words(words(name)) == words(name)
    assert overlap(sentence(script, name), name) > 0


@pytest.mark.parametrize(("script", "name"), NAMES)
def test_the_keys_of_a_sentence_have_the_name_in_it(script, name):
    for form in forms(sentence(script, name)):
        assert key(name) in name_keys(form).split("\n")
        assert len(name_keys(form * 20)) < 200 * len(form * 20)


def test_keys_of_names_have_the_signs_beside_them_and_not_those_of_other_words():
    found = name_keys("Ann, at AT&T (in C++), saw _x.").split("\n")
    assert {"ann", "at&t", "c++", "_x", "ann at", "(in c++)"} <= set(found)
    assert {"", "an", "c+", "&", "++"} & set(found) == {"c+"}
    assert name_keys(" ... ") == ""


def test_lower_case_puts_no_mark_on_a_letter():
    assert key("\u0130stanbul") == key("I\u0307STANBUL") == key("Istanbul") == "istanbul"
    for sign in map(chr, (*range(0xD800), *range(0xE000, sys.maxunicode + 1))):
        bare = unicodedata.normalize("NFKC", sign)
        assert key(key(sign)) == key(sign)
        if not any(map(unicodedata.combining, bare)):
            assert not any(map(unicodedata.combining, key(sign))), hex(ord(sign))
