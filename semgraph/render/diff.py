"""The difference between two states of a graph in a terminal: what changed and why, then the rows,
each edge below its source node.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import islice, takewhile
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
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z\Z")


def headline(diff: Diff) -> str:
    """The number of rows by what became of them, and by kind: `2 new, 1 gone: 1 node, 2 edges`."""
    if not diff.changes:
        return "no difference" if diff.reasons else NOTHING
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


def end(diff: Diff, key: str) -> str:
    """The name of a node at an end of an edge, else its abbreviated key."""
    return shortened(diff.names.get(key) or _short(key), _NAME)


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
    return plain_line(str(change.row.get(diff.draws.get(change.label, Draw()).text) or ""))


def holds(diff: Diff, change: Change) -> str:
    """The period in which an edge holds, in days."""
    draw = diff.draws.get(change.label, Draw())
    start, ended = (day(change.row.get(prop))[:10] for prop in (draw.start, draw.end))
    return f"{start or '…'} → {ended}".rstrip() if start or ended else ""


def value(diff: Diff, prop: str, given: Any) -> str:
    """A value of a property on one line."""
    if isinstance(given, str):
        if prop in ("source", "target"):
            return end(diff, given)
        with suppress(ValueError):
            return cell(datetime.fromisoformat(given) if _TIME.match(given) else given)
    if isinstance(given, (list, tuple)):
        return ", ".join(_short(cell(each)) for each in given) or "(empty)"
    return cell(given) or "(none)"


def pair(before: str, after: str, room: int) -> tuple[str, str]:
    """Two different texts in `room` characters, from shortly before the place where they differ."""
    same = sum(
        1 for _ in takewhile(lambda both: both[0] == both[1], zip(before, after, strict=False))
    )
    half, whole = room // 2, (before, after)
    for context in _CONTEXTS:
        skip = max(0, whole[0].rfind(" ", 0, max(0, same - context)))
        if len(before) + len(after) > room and skip:
            before, after = (f"…{text[skip:]}" for text in whole)
    return (
        shortened(before, max(half, room - len(after))),
        shortened(after, max(half, room - len(before))),
    )


def properties(diff: Diff, change: Change, room: int) -> Iterator[tuple[str, str, str]]:
    """The properties of a changed row that differ: name, old and new value in `room` characters."""
    for name, old in change.before.items():
        new = change.after.get(name)
        before, after = value(diff, name, old), value(diff, name, new)
        if before == after:  # they differ in spaces and lines only, or in hidden characters
            before, after = (
                json.dumps(each, ensure_ascii=False, default=str) for each in (old, new)
            )
        yield name, *pair(before, after, max(20, room - len(name)))


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
    """All lines, at most about 40 of them for rows."""
    from rich.text import Text

    for line in (*reasons(diff), headline(diff)):
        yield from map(Text, hanging(line, width, 2))
    rows = _RowLines(diff, width)
    yield from rows.of_nodes()
    if diff.edited:
        yield Text("kept as edited:")
        yield from rows.edited()
    if rows.left:
        whole = command("--format json", ".as_dict()")
        yield Text(f"  … and {count(rows.left)} more: {whole}")
    for i, line in enumerate(_commands(diff)):
        yield Text(clipped(f"{' ' * 6 if i else 'Next: '}{line}", width))


class _RowLines:
    """The lines of rows, until there are 40, and the number of rows `left` out."""

    def __init__(self, diff: Diff, width: int) -> None:
        self.diff, self.width = diff, width
        self.printed, self.left = 0, 0
        causes = {change.causes for change in diff.changes}
        self.told = len(causes) == 1 and set(diff.reasons) >= set(next(iter(causes)))

    def of_nodes(self) -> Iterator[Text]:
        """The changes, by node."""
        for key, own in groups(self.diff.changes):
            if self.printed >= _ROWS:
                self.left += len(own)
                continue
            if own[0].ends:
                yield self._line(f"  {end(self.diff, key)}", "bold")
            same = len({change.causes for change in own}) == 1
            for change in own:
                if self.printed >= _ROWS:
                    self.left += 1
                    continue
                lead, name = "  " if change.ends else "", name_of(self.diff, change)
                name = f"─ {name}" if change.ends else name
                why = "" if same or self.told else self._why(change)
                yield from self._change(change, lead, name, why, "{} → {}")
            if same and not self.told and (why := self._why(own[0])):
                yield self._line(clipped(f"    {why}", self.width), "dim")

    def edited(self) -> Iterator[Text]:
        """The rows that stay as somebody edited them, each with its source node."""
        for change in self.diff.edited:
            if self.printed >= _ROWS:
                self.left += 1
                continue
            source = f"{end(self.diff, change.ends[0])} ─ " if change.ends else ""
            name = f"{source}{name_of(self.diff, change)}"
            yield from self._change(change, "", name, "", "{} (the plan: {})")

    def _line(self, text: str, style: str = "") -> Text:
        from rich.text import Text

        self.printed += 1
        return Text(escaped(text), style)

    def _why(self, change: Change) -> str:
        return f"← {', '.join(map(_cause, change.causes))}" if change.causes else ""

    def _change(self, change: Change, lead: str, name: str, why: str, form: str) -> Iterator[Text]:
        """A row: its sign, name, text and times; below, what differs."""
        text = shortened(text_of(self.diff, change), _TEXT) if change.ends else ""
        times = holds(self.diff, change) if change.ends and change.sign != "~" else ""
        label = "" if change.ends else change.label
        parts = [shortened(name, _TEXT), label, f'"{text}"' * bool(text), times, why]
        line, left = "  ".join(filter(None, parts)), len(lead) + 4
        for part in hanging(f"{lead}{change.sign} {line}", self.width, left):
            yield self._line(part, _COLOURS[change.sign])
        room = self.width - left - len(form.format("", "")) - 2
        for prop, old, new in properties(self.diff, change, room):
            text = f"{' ' * left}{prop}: {form.format(old, new)}"
            yield self._line(clipped(text, self.width))


def _commands(diff: Diff) -> Iterator[str]:
    """Commands that explain one new and one gone row."""
    for sign in "+-":
        change = next((c for c in diff.changes if c.sign == sign and c.run), None)
        if change is not None:
            key, named = _short(change.key), f"({WORDS[sign]}: {name_of(diff, change)})"
            shell = f"semgraph why {change.run} {quote(key)}"
            yield f"{command(shell, f'session.why({key!r}, {change.run!r})')}   {named}"
