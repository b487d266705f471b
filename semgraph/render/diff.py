"""The difference between two states of a graph in a terminal: what changed and why, then the rows,
each edge below its source node.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import islice
from shlex import quote
from typing import TYPE_CHECKING, Any

from semgraph.diff import Change, Diff
from semgraph.display import command
from semgraph.formats import count, day, escaped, plain_line, plural, shortened
from semgraph.logical.schema import Draw
from semgraph.provenance import UUID
from semgraph.render.tables import cell, clipped, hanging

if TYPE_CHECKING:
    from rich.text import Text

NOTHING = "no difference: the graph follows from its inputs"
WORDS: Mapping[str, str] = {"+": "new", "-": "gone", "~": "changed"}
_COLOURS = {"+": "green", "-": "red", "~": "yellow"}
_ROWS, _NAMED = 40, 3
_NAME, _TEXT, _KEY = 60, 200, 8
_CONTEXTS = (24, 12, 0)  # characters before the place where two texts begin to differ
EDITED = "{} (the plan: {})"  # the value of a row that stays as it was edited
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z\Z")


def headline(diff: Diff) -> str:
    """The number of rows by what became of them, and by kind: `2 new, 1 gone: 1 node, 2 edges`."""
    if not diff.changes:
        return "no difference" if diff.reasons or diff.edited else NOTHING
    counts = diff.counts
    became = ", ".join(f"{count(counts[w])} {w}" for w in WORDS.values() if counts[w])
    parts = [plural(counts[f"{kind}s"], kind) for kind in ("node", "edge") if counts[f"{kind}s"]]
    return f"{became}: {', '.join(parts)}"


def name_of(diff: Diff, change: Change) -> str:
    """The name of a changed node, or of an edge without its source: `KNOWS ─▶ Ben`."""
    draw = diff.draws.get(change.label, Draw())
    if change.ends is None:
        return plain_line(str(change.row.get(draw.node) or "")) or _short(change.key)
    edge = plain_line(str(change.row.get(draw.edge) or change.label))
    return f"{shortened(edge, _NAME)} ─▶ {end(diff, change.ends[1])}"


def full_name(diff: Diff, change: Change) -> str:
    """The name with the source of an edge: `Ada ─ KNOWS ─▶ Ben`."""
    source = f"{end(diff, change.ends[0])} ─ " if change.ends else ""
    return source + name_of(diff, change)


def end(diff: Diff, key: str) -> str:
    """The name of a node at an end of an edge, else its abbreviated key."""
    return shortened(plain_line(diff.names.get(key) or _short(key)), _NAME)


def _short(key: str) -> str:
    """A key as short as `semgraph why` accepts it."""
    return key[:_KEY] if UUID.match(key) else key


def _cause(text: str) -> str:
    """A cause on one line, with short keys."""
    return " ".join(map(_short, plain_line(text).split(" ")))


def reasons(diff: Diff) -> Iterator[str]:
    """What changed since the rows were written: each by itself, or many of a kind in a line."""
    kinds: dict[tuple[str, str], dict[str, str]] = {}
    for reason in map(_cause, diff.reasons):
        kind, _, rest = reason.partition(" ")
        name, _, verb = rest.rpartition(" ")
        kinds.setdefault((kind, verb), {})[reason] = name.removeprefix("of ")
    for (kind, verb), own in kinds.items():
        named = f"{', '.join(islice(own.values(), _NAMED))}, …"
        yield from own if len(own) <= _NAMED else [f"{plural(len(own), kind)} {verb}: {named}"]


def text_of(diff: Diff, change: Change) -> str:
    """The text of an edge."""
    if change.ends is None:
        return ""
    return plain_line(str(change.row.get(diff.draws.get(change.label, Draw()).text) or ""))


def holds(diff: Diff, change: Change) -> str:
    """The period in which an edge holds, in days."""
    if change.ends is None:
        return ""
    draw = diff.draws.get(change.label, Draw())
    start, ended = (day(change.row.get(prop))[:10] for prop in (draw.start, draw.end))
    return f"{start or '…'} → {ended}".rstrip() if start or ended else ""


def _value(diff: Diff, prop: str, given: Any) -> str:
    """A value of a property on one line."""
    if isinstance(given, str):
        if prop in ("source", "target"):
            return end(diff, given)
        with suppress(ValueError):
            return cell(datetime.fromisoformat(given) if _TIME.match(given) else given)
    if isinstance(given, (list, tuple)):
        return ", ".join(_short(cell(each)) for each in given) or "(empty)"
    return cell(given) or "(none)"


def _pair(before: str, after: str, room: int) -> tuple[str, str]:
    """Two different texts in `room` characters, from shortly before the place where they differ."""
    pairs = enumerate(zip(before, after, strict=False))
    same = next((i for i, (one, other) in pairs if one != other), min(len(before), len(after)))
    whole = (before, after)
    for context in _CONTEXTS:
        skip = whole[0].rfind(" ", 0, max(0, same - context))
        if len(before) + len(after) > room and skip > 0:
            before, after = (f"…{text[skip:]}" for text in whole)
    longest = (max(room // 2, room - len(other)) for other in (after, before))
    one, other = map(shortened, (before, after), longest)
    return one, other


def _moved(diff: Diff, change: Change, name: str) -> bool:
    """Whether a property lists keys, and only rows that are new or gone came to it or left it."""
    old, new = change.before[name], change.after.get(name) or ()
    both = (*old, *new) if isinstance(old, (list, tuple)) else ()
    moved = [key for key in both if (key in old) != (key in new)]
    return bool(moved) and all(isinstance(key, str) and key in diff.keys for key in moved)


def differing(
    diff: Diff, change: Change, room: int, form: str = "{} → {}"
) -> Iterator[tuple[str, str]]:
    """The properties of a changed row that differ: name, and both values in `room` characters. A list
    of keys of rows that are new or gone themselves is left out beside others.
    """
    left_out = {name for name in change.before if _moved(diff, change, name)}
    for name, old in change.before.items():
        new = change.after.get(name)
        if name in left_out and left_out != change.before.keys():
            continue
        before, after = _value(diff, name, old), _value(diff, name, new)
        if before == after:  # they differ in spaces and lines only, or in hidden characters
            texts = (json.dumps(v, ensure_ascii=False, default=str) for v in (old, new))
            before, after = texts
        yield name, form.format(*_pair(before, after, max(20, room - len(name))))


def groups(changes: Sequence[Change]) -> list[tuple[str, list[Change]]]:
    """The changes by node, each node before its outgoing edges; with the key of the node."""
    by_node: dict[tuple[str, str], list[Change]] = {}
    for change in changes:
        owner = change.ends[0] if change.ends else change.key
        by_node.setdefault((change.partition, owner), []).append(change)
    return [(key, sorted(own, key=_place)) for (_, key), own in by_node.items()]


def _place(change: Change) -> tuple[bool, str, int]:
    return change.ends is not None, change.label, "-~+".index(change.sign)


def lines(diff: Diff, width: int) -> Iterator[Text]:
    """All lines, about 40 of them for rows."""
    from rich.text import Text

    for line in (*reasons(diff), headline(diff)):
        yield from map(Text, hanging(line, width, 2))
    printed, left = 0, len(diff.changes) + len(diff.edited)
    for block in _blocks(diff, width):
        printed, left = printed + len(block), left - 1
        yield from block
        if printed >= _ROWS:
            break
    if left:
        yield Text(f"  … and {count(left)} more: {command('--format json', '.as_dict()')}")
    for i, line in enumerate(_commands(diff)):
        yield Text(clipped(f"{' ' * 6 if i else 'Next: '}{line}", width))


def _blocks(diff: Diff, width: int) -> Iterator[list[Text]]:
    """The lines of each row; those of its node stand with the first and last one of a node."""
    from rich.text import Text

    for key, own in groups(diff.changes):
        same = len({change.causes for change in own}) == 1
        for change in own:
            lead, name, why = ("  ", "─ ", "") if change.ends else ("", "", "")
            if change.causes and change.causes != diff.reasons:
                why = f"← {', '.join(map(_cause, change.causes))}"
            name += name_of(diff, change)
            block = _row(diff, change, width, lead, name, "" if same else why)
            if change is own[0] and change.ends:
                block.insert(0, Text(clipped(f"  {end(diff, key)}", width), "bold"))
            if change is own[-1] and same and why:
                block.append(Text(clipped(f"    {why}", width), "dim"))
            yield block
    for change in diff.edited:
        block = _row(diff, change, width, "", full_name(diff, change), "", EDITED)
        yield [Text("kept as edited:"), *block] if change is diff.edited[0] else block


def _row(
    diff: Diff, change: Change, width: int, lead: str, name: str, why: str, form: str = "{} → {}"
) -> list[Text]:
    """A row: its sign, name, text and times; below, what differs."""
    from rich.text import Text

    text = shortened(text_of(diff, change), _TEXT)
    times = holds(diff, change) if change.sign != "~" else ""
    label = "" if change.ends else change.label
    parts = [shortened(name, _TEXT), label, f'"{text}"' * bool(text), times, why]
    line, left = "  ".join(filter(None, parts)), len(lead) + 4
    found = hanging(f"{lead}{change.sign} {line}", width, left)
    block = [Text(part, _COLOURS[change.sign]) for part in found]
    for prop, both in differing(diff, change, width - left - len(form.format("", "")) - 2, form):
        block.append(Text(clipped(escaped(f"{' ' * left}{prop}: {both}"), width)))
    return block


def _commands(diff: Diff) -> Iterator[str]:
    """Commands that explain one new and one gone row."""
    for sign in "+-":
        change = next((c for c in diff.changes if c.sign == sign and c.run), None)
        if change is not None:
            key, named = _short(change.key), f"({WORDS[sign]}: {name_of(diff, change)})"
            shell = f"semgraph why {change.run} {quote(key)}"
            yield f"{command(shell, f'session.why({key!r}, {change.run!r})')}   {named}"
