"""What a run may spend. Every request is admitted before it is sent, by the most that it can cost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

from semgraph.errors import BudgetReached, PlanError, Problem, RowError
from semgraph.llm.base import LLM, Reply, Request, Usage
from semgraph.llm.tokens import prompt_tokens
from semgraph.llm.wrapper import Wrapper

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Cost:
    """An amount of spending. Calls are answers, tokens are prompt and answer together."""

    calls: int = 0
    tokens: int = 0
    usd: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.calls + other.calls, self.tokens + other.tokens, self.usd + other.usd)

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.calls - other.calls, self.tokens - other.tokens, self.usd - other.usd)


class Budget:
    """The limits of one run and what it has spent, over all its models and embedders. None: no limit.

    Args:
        max_calls: Answers of language models. Embeddings are not calls.
        max_tokens: Tokens of prompts and answers, embeddings included.
        max_usd: Dollars. Only models whose price is known can be asked under such a limit.
        max_seconds: Seconds since this object was made; nothing is sent later.
    """

    def __init__(
        self,
        max_calls: int | None = None,
        max_tokens: int | None = None,
        max_usd: float | None = None,
        max_seconds: float | None = None,
    ) -> None:
        self.max_calls, self.max_tokens, self.max_usd, self.max_seconds = max_calls, max_tokens, max_usd, max_seconds
        self.spent = Cost()
        self._reserved = Cost()
        self._turn = asyncio.Lock()
        self._settled: asyncio.Future[None] | None = None
        self._asking = 0
        self._quiet = asyncio.Event()
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """How long the run has been going."""
        return time.monotonic() - self._began

    @property
    def seconds_left(self) -> float | None:
        """How long the run may go on; None: as long as it takes."""
        return None if self.max_seconds is None else max(self.max_seconds - self.seconds, 0.0)

    @property
    def counts_tokens(self) -> bool:
        """Whether a reservation needs the tokens of the prompt."""
        return self.max_tokens is not None or self.max_usd is not None

    async def reserve(self, most: Cost, what: str = "") -> None:
        """Set aside the most that a request can cost; pair it with `settle`.

        Where only what others have set aside stands in the way, it waits for them, first come first served: most
        requests cost far less than they can.

        Args:
            most: The most it can cost.
            what: What is asked, for the error; the number of the call if empty.

        Raises:
            BudgetReached: It could pass a limit, even if all requests in flight turned out to cost nothing.
        """
        async with self._turn:
            while True:
                if limit := self._passed(self.spent + most):
                    raise BudgetReached(self._message(limit, what))
                if not self._passed(self.spent + self._reserved + most):
                    break
                self._settled = asyncio.get_running_loop().create_future()
                await self._settled
            self._reserved += most

    def settle(self, most: Cost, actual: Cost) -> None:
        """Replace what was set aside by what it did cost."""
        self._reserved -= most
        self.spent += actual
        if self._settled and not self._settled.done():
            self._settled.set_result(None)

    async def spend(
        self, most: Cost, send: Callable[[], Awaitable[Answer]], cost: Callable[[Answer], Cost], what: str = ""
    ) -> Answer:
        """Send a request, of a model or an embedder, if it cannot pass a limit; it ends when `max_seconds` pass.

        A request that is cancelled or fails is charged nothing: what the provider charged for it is not known. A failed
        one that was answered, which the error says (`RowError.spent`), is charged.

        Args:
            most: The most it can cost.
            send: Sends it, with all attempts and waits.
            cost: What an answer did cost.
            what: What is sent, for the error; the number of the call if empty.

        Raises:
            BudgetReached: It could pass a limit, and was not sent; or the time was up before it was answered.
        """
        await self.reserve(most, what)
        actual = Cost()
        try:
            async with asyncio.timeout(self.seconds_left) as deadline:
                answer = await send()
            actual = cost(answer)
        except TimeoutError:
            if deadline.expired():
                when = f"waiting for {what}" if what else "a call was under way"
                raise BudgetReached(f"stopped while {when}: max_seconds {self.max_seconds:,g} passed") from None
            raise
        except RowError as error:
            if error.spent is not None:
                actual = cost_of(error.spent)
            raise
        else:
            return answer
        finally:
            self.settle(most, actual)

    async def drained(self, work: Awaitable[Answer]) -> Answer:
        """Do work that sends requests, until their answers are recorded.

        Where it ends with `BudgetReached`, the work of others that is in flight is waited for first, because it is paid
        for: its answers are recorded and counted. `max_seconds` bounds that wait too.
        """
        try:
            with self._asked():
                return await work
        except BudgetReached:
            await self.quiet()
            raise

    @contextmanager
    def _asked(self) -> Iterator[None]:
        self._asking += 1
        self._quiet.clear()
        try:
            yield
        finally:
            self._asking -= 1
            if not self._asking:
                self._quiet.set()

    async def quiet(self) -> None:
        """Wait until nothing is asked any more, but not longer than `max_seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.seconds_left):
                while self._asking:
                    await self._quiet.wait()

    def _passed(self, total: Cost) -> tuple[str, str, str] | None:
        """The first limit that a total passes: its name, its value, and what is spent of it."""
        spent = self.spent
        if self.max_calls is not None and total.calls > self.max_calls:
            return "max_calls", f"{self.max_calls:,}", f"{spent.calls:,}"
        if self.max_tokens is not None and total.tokens > self.max_tokens:
            return "max_tokens", f"{self.max_tokens:,}", f"{spent.tokens:,}"
        # Sums of floats: a billionth of a dollar is not a breach.
        if self.max_usd is not None and total.usd > self.max_usd + 1e-9:
            return "max_usd", _usd(self.max_usd), _usd(spent.usd)
        if self.max_seconds is not None and self.seconds >= self.max_seconds:
            return "max_seconds", f"{self.max_seconds:,g}", f"{self.seconds:,.0f}"
        return None

    def _message(self, limit: tuple[str, str, str], what: str) -> str:
        name, value, spent = limit
        what = what or f"call {self.spent.calls + self._reserved.calls + 1:,}"
        return f"stopped before {what}: it would pass {name} {value} (spent {spent})"

    def require_price(self, name: str, dollars: float | None) -> None:
        """Refuse a limit in dollars that cannot be kept.

        Args:
            name: Of the model.
            dollars: What one token of it costs; None if nobody knows.

        Raises:
            PlanError: There is such a limit, and the price is not known.
        """
        if self.max_usd is not None and dollars is None:
            raise PlanError(
                Problem(
                    f"max_usd {_usd(self.max_usd)} cannot be kept: no price is known for {name}",
                    hint="Limit max_tokens or max_calls instead, or give the model's price",
                )
            )


def _usd(amount: float) -> str:
    return f"{amount:.2f}" if amount >= 0.1 or amount == 0 else f"{amount:.2g}"


class Budgeted(Wrapper):
    """Asks only what the budget admits. Cut and refused answers are charged."""

    def __init__(self, inner: LLM, budget: Budget) -> None:
        super().__init__(inner)
        self.budget = budget

    async def complete(self, request: Request) -> Reply:
        """Answer one request, if it cannot pass a limit.

        Raises:
            PlanError: The budget limits dollars, and the price of the model is not known.
        """
        self.budget.require_price(self.inner.name, self.dollars(Usage(1, 0, 1)))
        return await self.budget.spend(self._most(request), lambda: self.inner.complete(request), cost_of)

    def _most(self, request: Request) -> Cost:
        if not self.budget.counts_tokens:
            return Cost(calls=1)
        prompt = prompt_tokens(self, request)
        dollars = self.dollars(Usage(prompt, 0, request.max_tokens))
        return Cost(1, prompt + request.max_tokens, dollars or 0.0)


class Drained(Wrapper):
    """Says that the budget is reached when what was sent before is answered: it is paid for, so it is kept and counted."""

    def __init__(self, inner: LLM, budget: Budget) -> None:
        super().__init__(inner)
        self.budget = budget

    async def complete(self, request: Request) -> Reply:
        """Answer one request."""
        return await self.budget.drained(self.inner.complete(request))


def cost_of(reply: Reply) -> Cost:
    """What an issued answer cost."""
    return Cost(1, reply.usage.prompt + reply.usage.completion, reply.dollars or 0.0)
