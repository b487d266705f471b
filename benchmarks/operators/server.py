"""The world's model, which refuses marked rows.

`python -m benchmarks.operators.server --latency 0.05` prints its address. `POST /reset?forgiving=1`
admits refused rows; `noise=verdict=0.02,seed=1` sets the noise of further answers.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from benchmarks.operators.cases import MARK
from benchmarks.world import Noise, StandIn
from benchmarks.world.requests import NotUnderstood


class Model(StandIn):
    """The server."""

    forgiving = False

    def reset(self) -> None:
        """Forget all that was counted."""
        super().reset()
        self.forgiving = False

    def answer(self, body: Mapping[str, Any]) -> tuple[str, str]:
        """The question, and the answer. Raises NotUnderstood."""
        if MARK in body["messages"][-1]["content"] and not self.forgiving:
            raise NotUnderstood("this row is refused")
        return super().answer(body)

    async def _reset(self, request: web.Request) -> web.Response:
        self.reset()
        self.forgiving = request.query.get("forgiving") == "1"
        if "noise" in request.query:
            self.noise = Noise.parse(request.query["noise"])
        return web.json_response({})


async def _serve(latency: float, noise: Noise) -> None:
    async with Model(latency=latency, noise=noise) as server:
        print(server.base_url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, default=0.05)
    parser.add_argument(
        "--noise", type=Noise.parse, default=Noise(), help="as of python -m benchmarks.world"
    )
    given = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(given.latency, given.noise))
