"""The adapter that fetches pages, against real sockets."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from metrics_agent.scrape.http import HttpPages, ScrapeFailedError
from metrics_agent.scrape.life import Failure
from tests.conftest import take_free_port


@pytest.fixture
async def server():
    """`await server(handler)` serves it on a free port, and gives the address."""
    runners = []

    async def serve(handler):
        app = web.Application()
        app.router.add_get("/metrics", handler)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.05)
        runners.append(runner)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return f"127.0.0.1:{runner.addresses[0][1]}"

    yield serve
    for runner in runners:
        await runner.cleanup()


@pytest.fixture
async def pages():
    source = HttpPages(timeout_seconds=5.0, largest_bytes=100_000)
    yield source
    await source.close()


async def failure(pages, address):
    with pytest.raises(ScrapeFailedError) as caught:
        await pages.get(address, "/metrics")
    return caught.value.why


async def test_pages_come_over_one_kept_connection(server, pages):
    peers = set()

    async def handler(request):
        peers.add(request.transport.get_extra_info("peername"))
        return web.Response(status=503, body=b"x" * 50_000)

    address = await server(handler)
    answers = [await pages.get(address, "/metrics") for _ in range(3)]
    assert [(a.status, len(a.body)) for a in answers] == [(503, 50_000)] * 3
    assert len(peers) == 1


async def test_nobody_listening_is_refused(pages):
    assert await failure(pages, f"127.0.0.1:{take_free_port()}") is Failure.REFUSED


async def test_silent_engine_times_out(server):
    async def handler(request):
        await asyncio.Event().wait()

    address = await server(handler)
    pages = HttpPages(timeout_seconds=0.05)
    assert await failure(pages, address) is Failure.TIMEOUT
    await pages.close()


async def test_page_over_the_limit_is_not_read_to_its_end(server, pages):
    async def handler(request):
        return web.Response(body=b"x" * 200_000)

    assert await failure(pages, await server(handler)) is Failure.TOO_LARGE


async def test_peer_that_speaks_no_http_is_broken(pages):
    async def nonsense(reader, writer):
        writer.write(b"\x00\x01nonsense\r\n\r\n")
        writer.close()

    listener = await asyncio.start_server(nonsense, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    assert await failure(pages, f"127.0.0.1:{port}") is Failure.BROKEN
    listener.close()
    await listener.wait_closed()


async def test_redirect_is_not_followed(server, pages):
    async def handler(request):
        raise web.HTTPFound("http://192.0.2.1/metrics")

    assert (await pages.get(await server(handler), "/metrics")).status == 302
