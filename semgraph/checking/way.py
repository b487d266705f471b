"""An implementation under check, and what is said of one that breaks its contract."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from semgraph.checking.cases import Case, run
from semgraph.errors import EngineError
from semgraph.physical.contract import Implementation
from semgraph.physical.watching import Blocked, named

PATIENCE = 15.0
"""Seconds that one question of a check may take: they take hundredths."""


class Broken(Exception):
    """A contract that does not hold; the text says what was seen and what was expected."""


class Stuck(Broken):
    """It keeps the event loop, or does not end: further checks would only take as long again."""


@dataclass(frozen=True)
class Way:
    """An implementation of an operator, as its user chose it.

    Args:
        operator: Such as `sem_join`.
        name: As it is written, such as `block(left=2)`.
        implementation: It.
    """

    operator: str
    name: str
    implementation: Implementation[Any]

    @property
    def same(self) -> bool:
        """Whether it answers as the reference does."""
        return self.implementation.same

    async def answers(self, case: Case, llm: Any = None, asked: Any = None) -> pa.Table:
        """Its answers, by item. Raises Broken where they are none, Stuck where it does not come to an end."""
        try:
            async with asyncio.timeout(PATIENCE):
                return await run(case, self.implementation, llm, asked=asked)
        except TimeoutError:
            raise Stuck(f"{named(self.implementation)} did not end in {PATIENCE:g} s") from None
        except Blocked as error:
            raise Stuck(str(error).removeprefix("step asked: ")) from error
        except EngineError as error:
            raise Broken(str(error).removeprefix("step asked: ")) from error


def expect(holds: object, said: str) -> None:
    """Raise Broken unless something holds."""
    if not holds:
        raise Broken(said)
