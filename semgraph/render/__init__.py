"""Drawings for people: text for terminals, Markdown, and HTML in `html` and `notebook`.

One module per kind of drawing: `header`, `progress` and `outcome` of runs, `plans`, `comparison`
with its `chart`, `why`, `picture` (a graph), `machine`. `tables` has the shared parts.

Sessions and commands import this package; nothing below it does (see `semgraph.display`).
"""

from __future__ import annotations
