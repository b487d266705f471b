"""Drawings for people: text for terminals, Markdown, and HTML in `html` and `notebook`.

A module for each thing drawn: `header`, `progress` and `outcome` of runs, `plans`, `comparison` with
its `chart`, `why`, `picture` (a graph), `machine`; `tables` has what they share.

Sessions and commands import this package; nothing below it does (see `semgraph.display`).
"""

from __future__ import annotations
