"""Prompt files: front matter, sections, placeholders, parameters; and inline questions."""

from __future__ import annotations

import pytest

from semgraph.errors import Fault, PlanError
from semgraph.expr.types import parse_type
from semgraph.frontend.prompt_files import Prompts, read_prompt
from semgraph.logical.prompt import Template

FULL = """---
returns:
  products: {type: "list<struct<name: string, price: double null>>", describe: all of them}
  note: string null
describe: {products.name: as the text has it}
role: small
max_tokens: 200
---
# rules

Name every product, in {$language}.
Braces are {{doubled}}.

# examples
"A kettle" has one.
# context
The shop is {shop}.
# item
{body}

## A heading of the prompt's own
{customer.name}
# other
{title}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "prompts" / "products.md"
    path.parent.mkdir()
    path.write_text(FULL)
    return path


def test_a_prompt_file_has_typed_and_described_answers(file):
    prompt = read_prompt(file, {"language": "English"})
    assert prompt.name == "products"
    assert prompt.returns == (
        ("products", parse_type("list<struct<name: string, price: double null>>")),
        ("note", parse_type("string null")),
    )
    assert prompt.describe == (("products", "all of them"), ("products.name", "as the text has it"))
    assert (prompt.role, prompt.max_tokens) == ("small", 200)


def test_its_sections_are_templates_with_parameters_in_place(file):
    prompt = read_prompt(file, {"language": "English"})
    assert prompt.rules == "Name every product, in English.\nBraces are {doubled}."
    assert prompt.examples == '"A kettle" has one.'
    assert prompt.context.fields == ("shop",)
    assert prompt.item.fields == ("body", "customer.name")
    assert (
        prompt.item.render({"body": "x", "customer.name": "y"})
        == "x\n\n## A heading of the prompt's own\ny"
    )
    assert prompt.other == Template.parse("{title}")
    assert prompt.fields == ("shop", "body", "customer.name")


def test_a_file_without_front_matter_returns_nothing(tmp_path):
    path = tmp_path / "yes.md"
    path.write_text("# item\n{body}\n")
    assert read_prompt(path).returns == ()


def test_what_is_between_the_braces_of_a_value_is_never_read_again(file):
    prompt = read_prompt(file, {"language": "{secret}"})
    assert prompt.rules.startswith("Name every product, in {secret}.")


def test_an_inline_question_is_an_item_with_its_types_beside_it(tmp_path):
    found = Prompts(tmp_path, {"n": 3}).read(
        "Which {$n} words fit {body}?", {"words": {"type": "string", "describe": "w"}}
    )
    prompt = found.first
    assert prompt.item.render({"body": "B"}) == "Which 3 words fit B?"
    assert prompt.returns == (("words", parse_type("string")),)
    assert prompt.describe == (("words", "w"),)
    assert prompt.name == "Which {$n} words fit {body}?"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("---\nrole: small\n# item\n{a}\n", "the front matter has no end"),
        ("Some text\n# item\n{a}\n", "text before the first section"),
        ("# item\n{a}\n# item\n{b}\n", 'the section "item" is repeated'),
        ("---\nmax_tokens: 0\n---\n# item\n{a}\n", "expected a number from 1, found 0"),
        (
            "---\nrole: big model\n---\n# item\n{a}\n",
            '"big model" is no name',
        ),
        (
            "---\n- a\n---\n# item\n{a}\n",
            "expected the front matter: {returns, describe, role, max_tokens, examples}, found a list",
        ),
        ("---\nreturns: {a b: string}\n---\n# item\n{a}\n", '"a b" is no name'),
        ("---\nreturns: {a: {typ: string}}\n---\n# item\n{a}\n", 'an answer has no "typ"'),
        ("# item\n{a.}\n", '"{a.}" names no column'),
        ("# item\n{len(a)}\n", '"{len(a)}" names no column'),
        ("", "a prompt needs a section # item"),
    ],
)
def test_what_is_wrong_with_a_prompt_file(tmp_path, text, said):
    path = tmp_path / "wrong.md"
    path.write_text(text)
    with pytest.raises(PlanError) as caught:
        read_prompt(path)
    assert any(said in problem.what for problem in caught.value.problems)
    assert all(str(path) == problem.position.file for problem in caught.value.problems)


def test_a_prompt_outside_the_folder_is_not_read(tmp_path):
    (tmp_path / "secret.md").write_text("# item\n{a}\n")
    (tmp_path / "prompts").mkdir()
    with pytest.raises(Fault, match="no prompt file"):
        Prompts(tmp_path, {}).read("../secret")
