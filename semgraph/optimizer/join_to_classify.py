"""Ask once for each left row which records of a list match, not once for each pair (approximate)."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from semgraph.expr.scalar import Scalar, conjunction, parse_scalar
from semgraph.expr.types import Type
from semgraph.logical.node import Node, owner_column, rewrite
from semgraph.logical.prompt import Prompt, PromptSet, Template
from semgraph.logical.relational import Add, GroupJoin, Join, Project, narrowed_struct
from semgraph.logical.semantic import SemJoin, SemMap
from semgraph.optimizer.patterns import PlanFacts, Roots, joined, text

_NUMBER, _LISTED, _FOUND = "_number", "_listed", "numbers"
_TASK = (
    "Which of the numbered records match? A record matches if the answer to the question is yes, or the statement holds, "
    "where <field> stands for the record's value. Judge each record by itself; there may be several, or none."
)


def join_to_classify(roots: Roots, facts: PlanFacts) -> Roots:
    """Turn a semantic join into a question for each left row, with its candidates as a list.

    After a number that is not in the list the question is repeated; then the row fails. The rule
    suits a small right side, because a list must fit one call. Joins with additional answers,
    `keep: one`, several prompts or a chosen implementation are unchanged.

    >>> import semgraph as sg
    >>> from semgraph.optimizer.patterns import outline
    >>> notes, kinds = (sg.table([{"name": "x"}], name=n) for n in ("notes", "kinds"))
    >>> pairs = notes.sem_join(kinds, "k", "Is {name} a {k.name}?").node
    >>> outline(*join_to_classify((pairs,), PlanFacts()))
    'input → input → add → group_join → sem_map → join → project'
    """

    def change(node: Node) -> Node:
        if not isinstance(node, SemJoin) or not _fits(node) or facts.choice(node) is not None:
            return node
        return _classified(node)

    return rewrite(roots, change)


def _fits(node: SemJoin) -> bool:
    names = {*node.input.schema.names, *node.other.schema.names}
    plain = (
        node.keep == "all"
        and not node.answers
        and not node.prompt.on
        and not node.prompt.first.shown
        and "number" not in node.prompt.other_fields
    )
    own_rows = node.input.windowed or not node.other.windowed
    one_owner = not owner_column(node.other, node.owner) or (node.owner, node.owner) in node.using
    return plain and own_rows and one_owner and not names & {_NUMBER, _LISTED, _FOUND}


def _classified(node: SemJoin) -> Node:
    step, origin = node.step, node.origin
    numbered = Add(
        input=node.other, columns=((_NUMBER, parse_scalar("row_number() OVER ()")),), step=step
    )
    named = [("number", _NUMBER), *((path, path) for path in node.prompt.other_fields)]
    entries = [f"'{name}': {node.alias}.{path}" for name, path in named]
    listed = parse_scalar(f"list({{{', '.join(entries)}}}) FILTER ({node.alias} IS NOT NULL)")
    candidates = GroupJoin(
        input=node.input, other=numbered, alias=node.alias, using=node.using, add=((_LISTED, listed),), step=step,
        where=node.where if node.where is not None or node.using else parse_scalar("TRUE"),
    )  # fmt: skip
    question = SemMap(
        input=candidates, prompt=PromptSet((("", _prompt(node.prompt.first, node.alias)),)), on_error=node.on_error,
        when=parse_scalar(f"{_LISTED} IS NOT NULL"), otherwise=((_FOUND, parse_scalar("[]::BIGINT[]")),), step=step,
        origin=origin, numbers_of=((_LISTED, "ask"),), owner=node.owner,
    )  # fmt: skip
    test = parse_scalar(f"list_contains({_FOUND}, {node.alias}.{_NUMBER})")
    where = test if node.where is None else conjunction((node.where, test))
    fields = None if node.fields is None else (*node.fields, _NUMBER)
    pairs = Join(
        input=question, other=numbered, alias=node.alias, using=node.using, where=where, how=node.how, fields=fields, step=step
    )  # fmt: skip
    columns = tuple((name, _column(node, name)) for name in node.schema.names)
    return Project(input=pairs, columns=columns, step=step, origin=origin)


def _column(node: SemJoin, name: str) -> Scalar:
    if name != node.alias or node.how in {"semi", "anti"}:
        return parse_scalar(f'"{name}"')
    kind = node.schema.field(name).type
    assert isinstance(kind, pa.StructType)
    return parse_scalar(narrowed_struct(f'"{name}"', kind, frozenset(f.name for f in kind)))


def _prompt(prompt: Prompt, alias: str) -> Prompt:
    shared = {path for path, _ in prompt.shared_fields}
    asked = _without(prompt.item, {path: path[len(alias) + 1 :] for path in shared})
    other = _without(prompt.other, {path: path for path in prompt.other.fields})
    item = joined(asked, text("\n"), other) if prompt.other else asked
    listed = Template((("\n\nRecords: ", _LISTED), ("", "")))
    returns = ((_FOUND, Type("list", item=Type("int64", ref=_LISTED))),)
    return replace(
        prompt,
        name=f"{prompt.name} (of a list)",
        returns=returns,
        describe=((_FOUND, "the numbers of the records that match"),),
        rules="\n\n".join(part for part in (prompt.rules.strip(), _TASK) if part),
        item=joined(item, listed),
        other=Template(),
        alias="",
        file="",
    )


def _without(template: Template, names: dict[str, str]) -> Template:
    """A template with names instead of values for some placeholders."""
    parts: list[tuple[str, str]] = []
    literal = ""
    for before, name in template.parts:
        literal += before
        if name in names and name:
            literal += f"<{names[name]}>"
            continue
        parts.append((literal, name))
        literal = ""
    return Template((*parts, (literal, "")))
