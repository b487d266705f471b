"""Drawings for people: tables, pictures, reports, progress.

Sessions and commands import this package; nothing below it does (see `semgraph.display`).
"""

from __future__ import annotations
