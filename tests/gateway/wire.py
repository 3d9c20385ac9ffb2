"""Requests byte by byte: chunks, trailers, expectations and lies that no HTTP library would send."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http.client import HTTPResponse
from typing import Any

import h2.config
import h2.connection
import h2.events

Headers = Sequence[tuple[str, str]]
SECONDS = 60.0
AHEAD_BYTES = 1 << 16


@dataclass(frozen=True)
class Answer:
    """A response, read in full. Status 0 is a connection that was closed without one."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def reason(self) -> str | None:
        return self.headers.get("x-tidegate-reason")


def send(
    port: int,
    method: str,
    path: str,
    *,
    headers: Headers = (),
    body: bytes = b"",
    chunks: Sequence[int] | None = None,
    trailers: Headers = (),
    hang_up: bool = False,
) -> Answer:
    """One HTTP/1.1 request. `chunks` are sizes into which the body is cut, the last one taking the rest; without
    them it has a content-length, unless `headers` give one. With `expect` among the headers the body waits for its
    100. `hang_up` closes our side of the connection behind the body.
    """
    named = {name.lower() for name, _ in headers}
    lines = [f"{method} {path} HTTP/1.1", "host: gateway.test", *(f"{name}: {value}" for name, value in headers)]
    if chunks is not None:
        lines.append("transfer-encoding: chunked")
    elif "content-length" not in named and method not in {"GET", "HEAD", "OPTIONS"}:
        lines.append(f"content-length: {len(body)}")
    with socket.create_connection(("127.0.0.1", port), SECONDS) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.sendall("\r\n".join([*lines, "", ""]).encode("utf-8"))
        if "expect" in named:
            assert sock.recv(65536).startswith(b"HTTP/1.1 100 "), "no 100 came"
        _push(sock, body if chunks is None else _chunked(body, chunks, trailers))
        if hang_up:
            sock.shutdown(socket.SHUT_WR)
        return _answer(sock, method)


def _push(sock: socket.socket, data: bytes) -> None:
    """Send, until the gateway has heard enough: an early answer breaks the pipe."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        sock.sendall(data)


def _chunked(body: bytes, sizes: Sequence[int], trailers: Headers) -> bytes:
    parts = [f"{len(part):x}\r\n".encode() + part + b"\r\n" for part in pieces(body, sizes)]
    end = "".join(f"{name}: {value}\r\n" for name, value in trailers)
    return b"".join([*parts, b"0\r\n", end.encode(), b"\r\n"])


def pieces(body: bytes, sizes: Sequence[int]) -> Iterator[bytes]:
    """The body cut into these sizes; the rest, if any, is the last piece."""
    at = 0
    for size in sizes:
        if at >= len(body):
            return
        yield body[at : at + size]
        at += size
    if at < len(body):
        yield body[at:]


def _answer(sock: socket.socket, method: str) -> Answer:
    response = HTTPResponse(sock, method=method)
    try:
        response.begin()
        body = response.read()
    except (ConnectionError, EOFError, OSError):
        return Answer(0, {}, b"")
    headers = {name.lower(): value for name, value in response.getheaders()}
    return Answer(response.status, headers, body)


def send_h2(
    port: int,
    path: str,
    *,
    headers: Headers = (),
    body: bytes = b"",
    sizes: Sequence[int] = (),
    trailers: Headers = (),
) -> Answer:
    """One POST over HTTP/2 without TLS (prior knowledge), without a content-length, in DATA frames of `sizes`."""
    connection = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
    with socket.create_connection(("127.0.0.1", port), SECONDS) as sock:
        connection.initiate_connection()
        start = [(":method", "POST"), (":path", path), (":scheme", "http"), (":authority", "gateway.test"), *headers]
        connection.send_headers(1, start)
        reader = _H2Reader(sock, connection)
        for piece in pieces(body, sizes):
            reader.push(piece)
        if not reader.ended:  # an answer may come before the body is whole, and ends the stream
            if trailers:
                connection.send_headers(1, list(trailers), end_stream=True)
            else:
                connection.end_stream(1)
        return reader.answer()


class _H2Reader:
    def __init__(self, sock: socket.socket, connection: h2.connection.H2Connection) -> None:
        self._sock, self._connection = sock, connection
        self._headers: dict[str, str] = {}
        self._body, self.ended = b"", False

    def push(self, data: bytes) -> None:
        """Send one piece, as the peer's windows allow."""
        while data and not self.ended:
            most = min(self._connection.local_flow_control_window(1), self._connection.max_outbound_frame_size)
            if most == 0:
                self._receive()
                continue
            self._connection.send_data(1, data[:most])
            data = data[most:]
            self._flush()

    def answer(self) -> Answer:
        self._flush()
        while not self.ended:
            self._receive()
        return Answer(int(self._headers.pop(":status", "0")), self._headers, self._body)

    def _flush(self) -> None:
        with contextlib.suppress(ConnectionError):  # what the peer said before it closed can still be read
            self._sock.sendall(self._connection.data_to_send())

    def _receive(self) -> None:
        data = self._sock.recv(AHEAD_BYTES)
        self.ended = self.ended or not data
        for event in self._connection.receive_data(data):
            if isinstance(event, h2.events.ResponseReceived):
                self._headers = dict(event.headers)
            elif isinstance(event, h2.events.DataReceived):
                self._body += event.data
                self._connection.acknowledge_received_data(event.flow_controlled_length, 1)
            elif isinstance(event, h2.events.StreamEnded | h2.events.StreamReset | h2.events.ConnectionTerminated):
                self.ended = True
        self._flush()
