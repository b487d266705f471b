"""Sessions own endpoints, limiters, the journal and the store (`resources`); runs, EXPLAIN and
comparisons borrow them.

`session` has the public calls, also for synchronous callers: `run` and `resume` (with the rows of
`inputs`), `explaining`, and comparisons. `diagnosis` serves `semgraph doctor`.

Imports every folder but `lotus`, `conformance` and `cli`; the command line and users import it.
"""

from semgraph.execution.result import Result
from semgraph.session.session import PlanLike, Session

__all__ = ["PlanLike", "Result", "Session"]
