"""The picture of the README: a plan, one operator of it by several implementations, and what each
costs and gets right.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.suite.charts import COLOURS, INK
from benchmarks.suite.lines import Line
from benchmarks.suite.tables import values

TITLE = "A plan, one operator of it by three implementations, and the calls, dollars and F1 of each"
PLAN = (
    "from: tickets",
    "sem_filter: “{body}” complains?",
    "sem_map: Which product?",
    "aggregate: by product",
)
_TASK = {"task": "sem_filter 100 rows"}
ROWS: Mapping[str, Mapping[str, Any]] = {
    "per_row": {**_TASK, "way": "packed", "noise": "5 %, growing 0", "size": 1},
    "packed(rows=10)": {**_TASK, "way": "packed", "noise": "5 %, growing 0", "size": 10},
    "vote(samples=5)": {**_TASK, "way": "vote", "noise": "5 % of draws", "samples": 5},
}
"""The implementations, each with its case: 100 rows, a model that errs in one of twenty answers."""

_TEMPLATE = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 840 176" width="840" height="176" role="img">
<title>{{ title }}</title>
<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="13" fill="{{ ink }}">
<g font-weight="bold"><text x="14" y="24">the plan</text><text x="352" y="24">--use complaints=</text>
<text x="600" y="24" text-anchor="end">calls</text><text x="710" y="24" text-anchor="end">$</text>
<text x="800" y="24" text-anchor="end">F1</text></g>
<rect x="4" y="36" width="308" height="132" rx="8" fill="none" stroke="{{ ink }}" stroke-opacity="0.3"/>
<rect x="10" y="{{ 46 + 28 }}" width="296" height="26" rx="5" fill="{{ colour }}" fill-opacity="0.2"/>
{% for step in plan %}<text x="18" y="{{ 64 + 28 * loop.index0 }}">- {{ step }}</text>
{% endfor %}{% for name, calls, usd, f1 in rows %}{% set y = 64 + 42 * loop.index0 %}
<path d="M 314 87 C 332 87 330 {{ y - 4 }} 346 {{ y - 4 }}" fill="none" stroke="{{ colour }}" stroke-width="1.5"/>
<text x="352" y="{{ y }}" fill="{{ colour }}">{{ name }}</text>
<text x="600" y="{{ y }}" text-anchor="end">{{ calls }}</text><text x="710" y="{{ y }}" text-anchor="end">{{ usd }}</text>
<text x="800" y="{{ y }}" text-anchor="end">{{ f1 }}</text>
{% endfor %}</g>
</svg>
"""


def rows(lines: Sequence[Line]) -> list[tuple[str, str, str, str]]:
    """Name, calls, dollars and F1 of each implementation; empty if one was not measured."""
    found = []
    for name, key in ROWS.items():
        own = [line for line in lines if line.key == key]
        figures = [values(own, figure) for figure in ("calls", "usd", "f1")]
        if not all(figures):
            return []
        calls, usd, f1 = map(statistics.median, figures)
        found.append((name, f"{calls:,.0f}", f"{usd:.4f}", f"{f1:.2f}"))
    return found


def draw(lines: Sequence[Line], theme: str) -> str:
    """The picture for a `light` or a `dark` page."""
    from jinja2 import Environment

    template = Environment(autoescape=True, trim_blocks=True).from_string(_TEMPLATE)
    colours = {"ink": INK[theme], "colour": COLOURS[theme][0]}
    return template.render(title=TITLE, plan=PLAN, rows=rows(lines), **colours) + "\n"
