"""How long tests wait for an event before they count as hanging. No test takes a time for a result."""

from __future__ import annotations

HANGS = 600.0
"""Seconds: far more than a busy machine needs, and a bound for what never happens."""
