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

__all__ = [
    "BudgetReached", "Comparison", "ConcurrentWrite", "DataError", "EngineError", "Frame", "InputError",
    "ModelLacks", "ModelUnavailable", "PlanError", "Progress", "Result", "RowError", "SemgraphError", "Session",
    "StoreUnavailable", "UnavailableError", "call", "load_plan", "plan", "read_csv", "read_json", "read_parquet",
    "scan", "table", "union",
]  # fmt: skip
_PLACES = {  # of those that are neither errors nor in `frontend.frame`
    "Comparison": "compare.comparison",
    "Progress": "execution.result",
    "Result": "execution.result",
    "Session": "session",
    "load_plan": "frontend.load",
}


draw_with(lambda: importlib.import_module("semgraph.render.notebook"))


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("semgraph")
    if name not in __all__:
        raise AttributeError(f"module 'semgraph' has no attribute {name!r}")
    place = _PLACES.get(
        name, "errors" if name[0].isupper() and name != "Frame" else "frontend.frame"
    )
    return getattr(importlib.import_module(f"semgraph.{place}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
