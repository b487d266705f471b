"""What a session can write about its runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from semgraph.compare.comparison import Comparison
from semgraph.errors import PlanError, Problem
from semgraph.execution.result import Result
from semgraph.llm.settings import Settings
from semgraph.session.resources import Resources

if TYPE_CHECKING:
    from collections.abc import Sequence


class Reports:
    """The part of a session that shows itself, and makes pages of what it ran."""

    runs: Path | None
    folder: Path
    settings: Settings
    _resources: Resources

    def _repr_html_(self) -> str:
        """How notebooks show it. Nothing is opened."""
        from semgraph.render.notebook import session_html

        given = self._resources.given
        return session_html(self.settings, given.llm, given.embedder, given.store)

    def report(self, *records: Result | Comparison | str, to: str | Path) -> Path:
        """Write one HTML file of runs and comparisons, with every prompt and answer; it opens
        without a network.

        Args:
            records: Results, comparisons, or their ids (the beginnings of ids, or `last`); none:
                the last one.
            to: The file. A relative path is one in the session's folder.

        Returns:
            The file.

        Raises:
            PlanError: There is no such record, or no records are kept.
        """
        from semgraph.render.html import save

        if self.runs is None:
            raise PlanError(Problem("this session keeps no records", hint='Leave runs="" out'))
        return save(_names(records) or ["last"], self.folder / to, self.runs)


def _names(records: Sequence[Result | Comparison | str]) -> list[str]:
    return [
        r.run if isinstance(r, Result) else r.id if isinstance(r, Comparison) else r
        for r in records
    ]
