"""The adapter that fetches pages, against real sockets."""

from __future__ import annotations

import asyncio
import gzip
import socket
import struct

import pytest
from aiohttp import web

from metrics_agent.scrape.http import HttpPages, ScrapeFailedError
from metrics_agent.scrape.life import Failure
from tests.ports import take_free_port


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
    source = HttpPages(timeout_seconds=60.0, largest_bytes=100_000)
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

    page = await pages.get(await server(handler), "/metrics")
    assert (page.status, page.moved_to) == (302, None)


async def test_redirect_on_the_same_server_is_told(server, pages):
    async def handler(request):
        raise web.HTTPTemporaryRedirect("/metrics/")

    page = await pages.get(await server(handler), "/metrics")
    assert (page.status, page.moved_to) == (307, "/metrics/")


async def test_packed_page_is_unpacked_within_the_limit(server, pages):
    async def handler(request):
        body = b"x 1\n" * (100_000 if "all" in request.query else 10)
        return web.Response(body=gzip.compress(body), headers={"Content-Encoding": "gzip"})

    address = await server(handler)
    assert (await pages.get(address, "/metrics")).body == b"x 1\n" * 10
    with pytest.raises(ScrapeFailedError) as caught:
        await pages.get(address, "/metrics?all=1")
    assert caught.value.why is Failure.TOO_LARGE


async def test_engines_are_not_asked_to_pack_pages(server, pages):
    asked = []

    async def handler(request):
        asked.append(request.headers["Accept-Encoding"])
        return web.Response(body=b"x 1\n")

    await pages.get(await server(handler), "/metrics")
    assert asked == ["identity"]


async def test_page_in_pieces_is_put_together(server, pages):
    async def handler(request):
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        for _ in range(50):
            await response.write(b"x" * 100 + b"\n")
        return response

    page = await pages.get(await server(handler), "/metrics")
    assert (len(page.body), page.sized) == (50 * 101, True)


@pytest.fixture
async def raw():
    """`await raw(answer)`: a server that reads a request, writes these bytes or what `answer(writer)` does, and hangs up."""
    listeners = []

    async def serve(answer):
        async def handle(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            await answer(writer) if callable(answer) else writer.write(answer)
            writer.close()

        listeners.append(await asyncio.start_server(handle, "127.0.0.1", 0))
        return f"127.0.0.1:{listeners[-1].sockets[0].getsockname()[1]}"

    yield serve
    for listener in listeners:
        listener.close()


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nvllm:x 1\n", id="shorter-than-announced"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nvllm:x 1\n", id="chunks-without-end"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nvllm:x 1\n", id="no-chunk"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 9\r\n\r\nvllm:x 1\n", id="not-packed-at-all"
        ),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Le", id="half-a-head"),
        pytest.param(b"", id="nothing"),
    ],
)
async def test_half_a_page_is_no_page(raw, pages, answer):
    assert await failure(pages, await raw(answer)) is Failure.BROKEN


async def test_connection_reset_within_a_page_is_broken(raw, pages):
    async def reset(writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nvllm:x 1\n")
        await writer.drain()
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    assert await failure(pages, await raw(reset)) is Failure.BROKEN


async def test_dripping_page_ends_with_the_time_limit(raw):
    dripped, gone = asyncio.Event(), asyncio.Event()

    async def drip(writer):
        dripped.set()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"x")
            await asyncio.sleep(0.01)
        gone.set()

    pages = HttpPages(timeout_seconds=0.1)
    address = await raw(drip)
    async with asyncio.timeout(60):
        while not dripped.is_set():  # on a busy machine the time may be over before the request is heard
            assert await failure(pages, address) is Failure.TIMEOUT
        await gone.wait()
    await pages.close()


@pytest.mark.parametrize(
    ("expected", "head"), [(False, b"HTTP/1.0 200 OK"), (True, b"HTTP/1.1 200 OK\r\nContent-Length: 9")]
)
async def test_page_tells_whether_its_end_was_announced(raw, pages, expected, head):
    page = await pages.get(await raw(head + b"\r\n\r\nvllm:x 1\n"), "/metrics")
    assert (page.body, page.sized) == (b"vllm:x 1\n", expected)
