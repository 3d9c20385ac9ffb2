"""What the client of `bench.weight_fleet` counts."""

from __future__ import annotations

import asyncio
import time

from aiohttp import web

from bench.weight_fleet import PATH, Watched, send

SLOW_SECONDS = 0.3


async def slow(request):
    await request.read()
    await asyncio.sleep(SLOW_SECONDS)
    return web.json_response({})


async def test_requests_under_way_at_the_end_are_waited_for_and_count_by_when_they_were_sent():
    app = web.Application()
    app.router.add_post(PATH, slow)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0]
        seen = Watched()
        began = time.monotonic()
        await send(f"http://{host}:{port}", 100.0, seen, began, seconds=0.3)
        lasted = time.monotonic() - began
    finally:
        await runner.cleanup()
    assert seen.failures == 0
    assert seen.took
    assert all(took >= SLOW_SECONDS and sent + took <= lasted for sent, took in seen.took)
