"""What the access log path costs, and how near its figures are: `python -m bench.outcomes_cost`.

`tidegate outcomes` runs as a process of its own on a real Redis; RATE entries a second come to it over gRPC in
batches as Envoy sends them, spread over REPLICAS replicas of VERSIONS clusters. Its CPU is read from /proc: receiving,
reading, counting, and a report to Redis each second. The quantiles that readers merge out of Redis are compared with
those of the very values that were sent.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from envoy.data.accesslog.v3 import accesslog_pb2
from envoy.service.accesslog.v3 import als_pb2
from grpc import aio

from bench.ports import free_port
from bench.processes import cpu_seconds, start, stop, wait_for
from bench.redis_process import redis_server
from outcomes.server import ACCESS_LOG
from tidegate.domain.outcomes.report import cluster_seen, replicas_seen
from tidegate.store.redis import RedisStore

RATE: Final = 2000
BATCH: Final = 100
"""Some 64 KiB of entries, which is what Envoy sends at once at this rate."""
VERSIONS: Final = 4
REPLICAS: Final = 8
TARGET_CORE: Final = 0.15
TARGET_ERROR: Final = 0.02
WARM_SECONDS: Final = 2.0
MODEL: Final = "phi-3"


def measure(seconds: float = 8.0) -> list[dict[str, Any]]:
    """Rows of {name, value, unit, target}."""
    with tempfile.TemporaryDirectory() as name, redis_server(Path(name)) as (port, _):
        url = f"redis://127.0.0.1:{port}/0"
        with _outcomes(Path(name), url) as (pid, address):
            cpu, sent = asyncio.run(_load(pid, address, seconds))
            counted, errors = asyncio.run(_compare(url, sent))
    total = sum(len(values) for values in sent.values())
    figures = [
        (f"a core at {RATE:,} requests/s", cpu / seconds, "ratio", TARGET_CORE),
        ("CPU a request", cpu / seconds / RATE * 1e6, "µs", None),
        ("requests missing", float(total - counted), "requests", 0.0),
        *((f"p{round(100 * part)} off by", error, "ratio", TARGET_ERROR) for part, error in errors.items()),
    ]
    return [{"name": f"outcomes: {n}", "value": v, "unit": u, "target": t} for n, v, u, t in figures]


@contextmanager
def _outcomes(folder: Path, url: str) -> Iterator[tuple[int, str]]:
    clusters = [{"name": f"version-{n}", "models": [MODEL if n == 0 else f"{MODEL}-{n}"]} for n in range(VERSIONS)]
    config = {"clusters": clusters, "slos": {MODEL: {"ttfb_p95_ms": 500, "error_rate": 0.01, "availability": 0.999}}}
    (path := folder / "tidegate.json").write_text(json.dumps(config))
    address, page = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "tidegate.cli.main", "outcomes", "--config", str(path), "--redis-url", url]
    command += ["--listen", address, "--metrics-listen", page]
    process = start(command, log := folder / "outcomes.log")
    try:
        wait_for(lambda: b"outcomes serves" in log.read_bytes(), process, log)
        yield process.pid, address
    finally:
        stop(process)


async def _load(pid: int, address: str, seconds: float) -> tuple[float, dict[str, list[float]]]:
    """CPU seconds after the warm-up, and what was sent: milliseconds by cluster."""
    rng, sent = random.Random(1), {f"version-{n}": list[float]() for n in range(VERSIONS)}
    async with aio.insecure_channel(address) as channel:
        call = channel.stream_unary(f"/{ACCESS_LOG}/StreamAccessLogs")()
        identifier = als_pb2.StreamAccessLogsMessage.Identifier(log_name="tidegate")
        identifier.node.id = "envoy"
        await call.write(als_pb2.StreamAccessLogsMessage(identifier=identifier).SerializeToString())
        began, spent, batches = time.perf_counter(), 0.0, round((WARM_SECONDS + seconds) * RATE / BATCH)
        for number in range(batches):
            if number == round(WARM_SECONDS * RATE / BATCH):
                spent = cpu_seconds([pid])
            await call.write(_batch(rng, sent))
            await asyncio.sleep(max(0.0, began + (number + 1) * BATCH / RATE - time.perf_counter()))
        spent = cpu_seconds([pid]) - spent
        await asyncio.sleep(1.5)
        call.cancel()
    return spent, sent


def _batch(rng: random.Random, sent: dict[str, list[float]]) -> bytes:
    message = als_pb2.StreamAccessLogsMessage()
    for _ in range(BATCH):
        number = rng.randrange(VERSIONS)
        total = rng.lognormvariate(6, 1)
        sent[f"version-{number}"].append(total)
        message.http_logs.log_entry.append(_entry(number, rng.randrange(REPLICAS), total))
    return bytes(message.SerializeToString())


def _entry(number: int, replica: int, total_ms: float) -> Any:
    """With every field that Envoy fills."""
    entry = accesslog_pb2.HTTPAccessLogEntry(protocol_version=accesslog_pb2.HTTPAccessLogEntry.HTTP11)
    common, address = entry.common_properties, f"10.0.{number}.{replica + 1}"
    for place, port in ((common.downstream_remote_address, 50_000), (common.downstream_local_address, 10_000)):
        place.socket_address.address, place.socket_address.port_value = "10.9.0.1", port
    common.upstream_remote_address.socket_address.address = address
    common.upstream_remote_address.socket_address.port_value = 8000
    common.start_time.GetCurrentTime()
    for name, part in (("first_upstream_tx", 0.01), ("first_upstream_rx", 0.2), ("last_upstream_rx", 0.99)):
        getattr(common, f"time_to_{name}_byte").FromNanoseconds(round(total_ms * part * 1e6))
    common.time_to_last_downstream_tx_byte.FromNanoseconds(round(total_ms * 1e6))
    common.upstream_cluster = common.route_name = f"version-{number}"
    common.metadata.filter_metadata["tidegate"].update({"cluster": common.upstream_cluster})
    common.metadata.filter_metadata["tidegate.request"].update({"model": MODEL, "class": "default"})
    destinations = {"x-gateway-destination-endpoint": f"{address}:8000,10.0.9.9:8000"}
    common.metadata.filter_metadata["envoy.lb"].update(destinations)
    common.custom_tags["replica"] = f"{address}:8000"
    common.upstream_request_attempt_count, common.stream_id = 1, "82a6b58d-5981-4afa-8cc8-ec9fec335a26"
    common.access_log_type = accesslog_pb2.DownstreamEnd
    request, response = entry.request, entry.response
    request.authority, request.path, request.scheme = "gateway.test:10000", "/v1/chat/completions", "http"
    request.user_agent, request.request_id = "OpenAI/Python 2.1.0", common.stream_id
    request.request_headers_bytes, request.request_body_bytes = 480, 2048
    response.response_code.value, response.response_code_details = 200, "via_upstream"
    response.response_headers_bytes, response.response_body_bytes = 204, 1500
    return entry


async def _compare(url: str, sent: dict[str, list[float]]) -> tuple[int, dict[float, float]]:
    """What readers see: requests counted, and the worst relative error of each quantile over the clusters."""
    store = RedisStore(url)
    try:
        seen = {name: cluster_seen(r.values()) for name, r in replicas_seen(await store.outcomes(list(sent))).items()}
    finally:
        await store.close()
    errors = {part: max(_off(seen[name].tally.total.quantile_ms(part), v, part) for name, v in sent.items())
              for part in (0.5, 0.95, 0.99)}  # fmt: skip
    return sum(sum(one.ever) for one in seen.values()), errors


def _off(told: float | None, values: list[float], part: float) -> float:
    exact = sorted(values)[int(part * (len(values) - 1))]
    return abs((told or 0.0) - exact) / exact


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=8.0)
    print(json.dumps(measure(parser.parse_args().seconds), indent=1))
