"""An engine behind TLS, in threads of its own."""

from __future__ import annotations

import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.tls.authority import Written


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", "0")))
        self._answer(json.dumps({"host": self.headers["host"]}).encode())

    def do_GET(self) -> None:
        self._answer(b'# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name="m"} 0.0\n')

    def _answer(self, body: bytes) -> None:
        self.server.requests += 1
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing is said."""


class _Server(ThreadingHTTPServer):
    requests = 0

    def handle_error(self, *_: object) -> None:
        """Refused handshakes are what tests want."""


class Engine:
    """Serves until `stop`: https with a pair, and then with `client_ca` only clients that this authority signed."""

    def __init__(self, pair: Written | None = None, client_ca: Path | None = None) -> None:
        self._server = _Server(("127.0.0.1", 0), _Answers)
        self._server.daemon_threads = True
        if pair is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=client_ca)
            context.load_cert_chain(pair.certificate, pair.key)
            context.verify_mode = ssl.CERT_REQUIRED if client_ca else ssl.CERT_NONE
            listener = self._server.socket
            self._server.socket = context.wrap_socket(listener, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def requests(self) -> int:
        """How many it has answered."""
        return self._server.requests

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
