"""Sessions own endpoints, limiters, the journal and the store; runs, EXPLAIN and comparisons borrow
them. Imported by the command line and by users.
"""

from semgraph.execution.result import Result
from semgraph.session.session import PlanLike, Session

__all__ = ["PlanLike", "Result", "Session"]
