"""Drawings for people: text for terminals, Markdown, and HTML in `html` and `notebook`.

A module for each thing drawn: `header`, `progress`, `outcome` and `runs` of runs, `plans` and
`pages` of plans, `comparison` with its `chart`, `why`, `picture` (a graph), `operators`, `machine`;
`tables` has what they share.

Sessions and commands import this package; nothing below it does (see `semgraph.display`).
"""

from __future__ import annotations
