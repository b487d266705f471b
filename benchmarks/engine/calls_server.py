"""A stand-in for a model: each chat gets one answer after a fixed time, in the requested form.
Prints its port.
"""

from __future__ import annotations

import asyncio
import json
import sys

from aiohttp import web

_ANSWER = {
    "id": "chatcmpl-0",
    "object": "chat.completion",
    "created": 1_700_000_000,
    "model": "gpt-4.1-mini-2025-04-14",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": '{"keep": true}',
                "refusal": None,
                "annotations": [],
            },
            "logprobs": None,
            "finish_reason": "stop",
        }
    ],
    "usage": {
        "prompt_tokens": 420,
        "completion_tokens": 6,
        "total_tokens": 426,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    },
    "service_tier": "default",
    "system_fingerprint": "fp_0",
}


def main(latency: float) -> None:
    """Serve until killed."""
    keep = json.dumps(_ANSWER).encode()
    verdict = keep.replace(b'{\\"keep\\": true}', b'{\\"answer\\": \\"yes\\"}')

    async def chat(request: web.Request) -> web.Response:
        asked = await request.read()
        await asyncio.sleep(latency)
        return web.Response(
            body=keep if b'"keep"' in asked else verdict, content_type="application/json"
        )

    async def serve() -> None:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", chat)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        print(runner.addresses[0][1], flush=True)
        await asyncio.Event().wait()

    asyncio.run(serve())


if __name__ == "__main__":
    main(float(sys.argv[1]))
