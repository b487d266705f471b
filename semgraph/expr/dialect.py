"""DuckDB's SQL as sqlglot reads and writes it, with what sqlglot would change left as the plan writes it."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB


class Faithful(DuckDB):
    """DuckDB's dialect, where paths into JSON stay texts.

    sqlglot reads them by rules of its own: it drops the slice of `$[1:2]`, cannot write `$..name`, and takes `a.b` for a
    path, which is one key in DuckDB.
    """

    def to_json_path(self, path: exp.Expr | None) -> exp.Expr | None:
        """The path as it is."""
        return path
