"""semgraph: knowledge-graph pipelines as query plans.

```python
import semgraph as sg

result = sg.Session().run("complaints", tickets=rows)
```

Every name is loaded when it is first used, so that importing semgraph costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from semgraph.display import draw_with

if TYPE_CHECKING:
    from semgraph.compare.comparison import Comparison
    from semgraph.errors import (
        BudgetReached,
        ConcurrentWrite,
        DataError,
        EngineError,
        InputError,
        ModelLacks,
        ModelUnavailable,
        PlanError,
        RowError,
        SemgraphError,
        StoreUnavailable,
        UnavailableError,
    )
    from semgraph.execution.result import Progress, Result
    from semgraph.frontend.frame import (
        Frame,
        call,
        plan,
        read_csv,
        read_json,
        read_parquet,
        scan,
        table,
        union,
    )
    from semgraph.frontend.load import load_plan
    from semgraph.session import Session

_PLACES = {
    "BudgetReached": "semgraph.errors",
    "Comparison": "semgraph.compare.comparison",
    "ConcurrentWrite": "semgraph.errors",
    "DataError": "semgraph.errors",
    "EngineError": "semgraph.errors",
    "Frame": "semgraph.frontend.frame",
    "InputError": "semgraph.errors",
    "ModelLacks": "semgraph.errors",
    "ModelUnavailable": "semgraph.errors",
    "PlanError": "semgraph.errors",
    "Progress": "semgraph.execution.result",
    "Result": "semgraph.execution.result",
    "RowError": "semgraph.errors",
    "SemgraphError": "semgraph.errors",
    "Session": "semgraph.session",
    "StoreUnavailable": "semgraph.errors",
    "UnavailableError": "semgraph.errors",
    "call": "semgraph.frontend.frame",
    "load_plan": "semgraph.frontend.load",
    "plan": "semgraph.frontend.frame",
    "read_csv": "semgraph.frontend.frame",
    "read_json": "semgraph.frontend.frame",
    "read_parquet": "semgraph.frontend.frame",
    "scan": "semgraph.frontend.frame",
    "table": "semgraph.frontend.frame",
    "union": "semgraph.frontend.frame",
}

__all__ = [
    "BudgetReached",
    "Comparison",
    "ConcurrentWrite",
    "DataError",
    "EngineError",
    "Frame",
    "InputError",
    "ModelLacks",
    "ModelUnavailable",
    "PlanError",
    "Progress",
    "Result",
    "RowError",
    "SemgraphError",
    "Session",
    "StoreUnavailable",
    "UnavailableError",
    "call",
    "load_plan",
    "plan",
    "read_csv",
    "read_json",
    "read_parquet",
    "scan",
    "table",
    "union",
]


draw_with(lambda: importlib.import_module("semgraph.render.notebook"))


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("semgraph")
    if name not in _PLACES:
        raise AttributeError(f"module 'semgraph' has no attribute {name!r}")
    return getattr(importlib.import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
