"""How a plan is computed: DuckDB segments, model calls, store calls."""
