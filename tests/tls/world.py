"""Tidegate with mutual TLS everywhere: xds, ext_proc and outcomes as processes, a real Envoy, engines with https."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import httpx
from cryptography import x509

from tests import forked
from tests.conftest import accepts, wait_until
from tests.ports import take_free_port
from tests.tls.authority import Authority, Pair, Written
from tests.tls.engine import Engine
from tidegate.cli.binaries import envoy_binary
from tidegate.grpc_health import HEALTH, SERVING
from xds_server.bootstrap import main as write_bootstrap

NAME = "tidegate.test"
ENGINES = "engines.test"
SERVICES = ("xds", "ext-proc", "outcomes")


@dataclass
class World:
    """`folder` has everything; `envoy/` in it is Envoy's own, where its secrets are."""

    folder: Path
    redis_url: str
    authority: Authority = field(default_factory=lambda: Authority("gateway"))
    engines_authority: Authority = field(default_factory=lambda: Authority("engines"))
    xds_port: int = field(default_factory=take_free_port)
    ext_proc_port: int = field(default_factory=take_free_port)
    outcomes_port: int = field(default_factory=take_free_port)
    gateway_port: int = field(default_factory=take_free_port)
    metrics: dict[str, int] = field(default_factory=lambda: {name: take_free_port() for name in SERVICES})
    engines: dict[str, Engine] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes] | forked.Forked] = field(default_factory=dict)

    def start(self) -> None:
        """Start all, and wait until a request is answered."""
        self._write_certificates()
        self._start_engines()
        self._write_config()
        self.start_ext_proc()
        self.start_outcomes()
        self.start_xds()
        self.start_envoy("envoy", self.client_pair)
        wait_until(lambda: self.post("plain").status_code == 200, what="a request is served")

    def stop(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait(timeout=60)
        for engine in self.engines.values():
            engine.stop()

    @property
    def gateway(self) -> str:
        return f"http://127.0.0.1:{self.gateway_port}"

    def post(self, model: str) -> httpx.Response:
        try:
            return httpx.post(f"{self.gateway}/v1/chat/completions", json={"model": model, "messages": []}, timeout=60)
        except httpx.TransportError as exc:
            raise OSError(str(exc)) from exc

    def metric(self, service: str, name: str) -> float:
        """A value of the service's metrics page, by name and labels as they are written there."""
        page = text_at(self.metrics[service], "/metrics")
        found = [line for line in page.splitlines() if line.startswith(f"{name} ")]
        return float(found[0].rpartition(" ")[2]) if found else 0.0

    def log(self, service: str) -> str:
        return (self.folder / f"{service}.log").read_text()

    def serial(self, port: int) -> int:
        """The serial number of the certificate that the server at this port shows in a handshake."""
        context = ssl.create_default_context(cafile=self.folder / "ca.crt")
        context.load_cert_chain(self.client_pair.certificate, self.client_pair.key)
        plain = socket.create_connection(("127.0.0.1", port), 60)
        with context.wrap_socket(plain, server_hostname=NAME) as secure:
            return x509.load_der_x509_certificate(secure.getpeercert(binary_form=True)).serial_number

    def serves(self, port: int, authority: Authority, pair: Pair | None, name: str = NAME) -> bool:
        """Whether a gRPC client with this authority and pair gets an answer."""
        credentials = grpc.ssl_channel_credentials(authority.pem, pair and pair.key, pair and pair.certificate)
        options = (("grpc.ssl_target_name_override", name), ("grpc.enable_http_proxy", 0))
        with grpc.secure_channel(f"127.0.0.1:{port}", credentials, options) as channel:
            return asks(channel)

    def serves_plaintext(self, port: int) -> bool:
        with grpc.insecure_channel(f"127.0.0.1:{port}", (("grpc.enable_http_proxy", 0),)) as channel:
            return asks(channel)

    def start_xds(self) -> None:
        self._serve(
            "xds",
            *("--listen", f"127.0.0.1:{self.xds_port}", "--ext-proc", f"127.0.0.1:{self.ext_proc_port}"),
            *("--ext-proc-tls-ca", self.folder / "ca.crt", "--ext-proc-tls-name", NAME),
            *("--ext-proc-tls-cert", self.xds_pair.certificate, "--ext-proc-tls-key", self.xds_pair.key),
            *("--envoy-secrets", self.folder / "envoy", "--outcomes", f"127.0.0.1:{self.outcomes_port}"),
            *("--outcomes-tls-name", NAME, "--outcomes-tls-mutual", "--tick-ms", "50"),
        )

    def start_ext_proc(self) -> None:
        self._serve("ext-proc", "--listen", f"127.0.0.1:{self.ext_proc_port}", "--tick-ms", "50")

    def start_outcomes(self) -> None:
        self._serve("outcomes", "--listen", f"127.0.0.1:{self.outcomes_port}")

    def start_envoy(self, name: str, pair: Written | None, ca: str = "ca.crt", server_name: str = NAME) -> int:
        """An Envoy whose secrets are in the folder of its name; the port of its admin page."""
        folder, admin = self.folder / name, take_free_port()
        folder.mkdir(exist_ok=True)
        arguments = ["--xds", f"127.0.0.1:{self.xds_port}", "--admin", f"127.0.0.1:{admin}", "--node-id", name]
        arguments += ["--out", str(folder), "--tls-ca", str(self.folder / ca), "--tls-name", server_name]
        if pair is not None:
            arguments += ["--tls-cert", str(pair.certificate), "--tls-key", str(pair.key)]
        write_bootstrap(arguments)
        command = [envoy_binary(), "-c", folder / "bootstrap.yaml", "--concurrency", "1", "--disable-hot-restart"]
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen([*command, "--log-level", "warning"], stdout=log, stderr=log)
        self.processes[name] = process
        wait_until(lambda: accepts(admin), what=f"the admin page of {name}")
        self.admin = admin if name == "envoy" else self.admin
        return admin

    def kill(self, name: str) -> None:
        """End one process at once."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def _serve(self, service: str, *flags: Any) -> None:
        command = [service, "--config", self.folder / "tidegate.json"]
        command += ["--metrics-listen", f"127.0.0.1:{self.metrics[service]}"]
        command += ["--tls-cert", self.server_pair.certificate, "--tls-key", self.server_pair.key]
        command += ["--tls-client-ca", self.folder / "client-ca.crt"]
        log = self.folder / f"{service}.log"
        self.processes[service] = forked.start(*map(str, command), *map(str, flags), log=log)
        port = {"xds": self.xds_port, "ext-proc": self.ext_proc_port, "outcomes": self.outcomes_port}[service]
        wait_until(lambda: accepts(port), what=f"{service} listening")

    def _write_certificates(self) -> None:
        (self.folder / "envoy").mkdir()
        self.authority.write(self.folder / "ca.crt")
        self.authority.write(self.folder / "client-ca.crt")
        self.engines_authority.write(self.folder / "engines-ca.crt")
        self.server_pair = self.authority.leaf(NAME).write(self.folder, "server")
        self.xds_pair = self.authority.leaf("xds").write(self.folder, "xds")
        self.client_pair = self.authority.leaf("envoy").write(self.folder / "envoy", "client")
        self.engine_pair = self.engines_authority.leaf(ENGINES).write(self.folder, "engine")

    def _start_engines(self) -> None:
        asks_for = self.folder / "ca.crt"
        self.engines = {
            "plain": Engine(),
            "https": Engine(self.engine_pair),
            "mutual": Engine(self.engine_pair, asks_for),
            "misnamed": Engine(self.engine_pair),
            "mistrusted": Engine(self.engine_pair),
            "unencrypted": Engine(),
            "unknown": Engine(self.engine_pair, asks_for),
        }

    def _write_config(self) -> None:
        good: dict[str, str] = {"ca": str(self.folder / "engines-ca.crt"), "name": ENGINES}
        pair = {"cert": str(self.client_pair.certificate), "key": str(self.client_pair.key)}
        tls = {
            "https": good,
            "mutual": good | pair,
            "misnamed": good | {"name": "other.test"},
            "mistrusted": good | {"ca": str(self.folder / "ca.crt")},
            "unencrypted": good,
            "unknown": good,
        }
        clusters = [
            {"name": n, "models": [n], "lb": "weighted", "endpoints": [{"address": e.address}]}
            | ({"tls": tls[n]} if n in tls else {})
            for n, e in self.engines.items()
        ]
        gateway = {"listen": f"127.0.0.1:{self.gateway_port}"}
        config = {"redis": {"url": self.redis_url}, "gateway": gateway, "clusters": clusters}
        (self.folder / "tidegate.json").write_text(json.dumps(config))


def text_at(port: int, path: str) -> str:
    """A page of the loopback. Raises OSError while nobody answers there."""
    try:
        return httpx.get(f"http://127.0.0.1:{port}{path}", timeout=60).text
    except httpx.TransportError as exc:
        raise OSError(str(exc)) from exc


def stat(admin: int, name: str) -> int:
    """A counter or gauge of the Envoy at this admin port; 0 where it has none of that name."""
    lines = text_at(admin, "/stats").splitlines()
    return next((int(line.split(": ")[1]) for line in lines if line.startswith(f"{name}: ")), 0)


def asks(channel: Any) -> bool:
    """Whether the server says over this channel that it serves."""
    try:
        return bool(channel.unary_unary(f"/{HEALTH}/Check")(b"", timeout=60) == SERVING)
    except grpc.RpcError as exc:
        if exc.code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}:
            return False
        raise
