"""Static Envoy configurations of the bench: the fast upstream and the plain proxy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from bench.body import MODEL, PATH

HCM = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
ROUTER = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"
BUFFER = "type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer"
PAGE = "idle_vllm_page.txt"
"""As vLLM wrote it, with a cache of 2 million tokens: with a small one a gateway holds requests back, as it should."""
_BUFFER = {"name": "buffer", "typed_config": {"@type": BUFFER, "max_request_bytes": 1 << 26}}


def write_upstream(path: Path, ports: Sequence[int], admin_port: int, *, whole_bodies: bool = False) -> None:
    """An Envoy that answers as an idle vLLM does: a chat completion, `/health`, `/v1/models` and `/metrics`.

    It answers at the end of the headers, or of the body where it reads `whole_bodies`.
    """
    routes = [
        _answer({"path": PATH}, json.dumps(_completion()), "application/json"),
        _answer({"path": "/metrics"}, files("bench").joinpath(PAGE).read_text(), "text/plain; version=0.0.4"),
        _answer({"path": "/health"}, "", "text/plain"),
        _answer({"path": "/v1/models"}, json.dumps(_models()), "application/json"),
    ]
    before = [_BUFFER] if whole_bodies else []
    _write(path, admin_port, [_listener(f"engine{i}", port, routes, before) for i, port in enumerate(ports)], [])


def write_proxy(
    path: Path, port: int, admin_port: int, upstream_ports: Sequence[int], policy: str = "ROUND_ROBIN"
) -> None:
    """An Envoy that forwards everything by a policy of its own: what a request costs without Tidegate."""
    routes = [{"match": {"prefix": "/"}, "route": {"cluster": "engines", "timeout": "30s"}}]
    endpoints = [{"endpoint": {"address": _address(upstream)}} for upstream in upstream_ports]
    cluster = {
        "name": "engines",
        "connect_timeout": "1s",
        "lb_policy": policy,
        "load_assignment": {"cluster_name": "engines", "endpoints": [{"lb_endpoints": endpoints}]},
    }
    _write(path, admin_port, [_listener("proxy", port, routes)], [cluster])


def _completion() -> dict[str, Any]:
    message = {"role": "assistant", "content": "Yes."}
    return {
        "id": "chatcmpl-bench",
        "object": "chat.completion",
        "created": 1700000000,
        "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 450, "completion_tokens": 2, "total_tokens": 452},
    }


def _models() -> dict[str, Any]:
    return {"object": "list", "data": [{"id": MODEL, "object": "model", "created": 1700000000, "owned_by": "bench"}]}


def _answer(match: dict[str, str], text: str, content_type: str) -> dict[str, Any]:
    header = {"header": {"key": "content-type", "value": content_type}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
    direct: dict[str, Any] = {"status": 200}
    if text:
        direct["body"] = {"inline_string": text}
    return {"match": match, "direct_response": direct, "response_headers_to_add": [header]}


def _listener(
    name: str, port: int, routes: list[dict[str, Any]], before: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    hosts = [{"name": "all", "domains": ["*"], "routes": routes}]
    manager = {
        "@type": HCM,
        "stat_prefix": name,
        "route_config": {"name": name, "max_direct_response_body_size_bytes": 1 << 20, "virtual_hosts": hosts},
        "http_filters": [*before, {"name": "router", "typed_config": {"@type": ROUTER}}],
    }
    filters = [{"name": "http", "typed_config": manager}]
    return {"name": name, "address": _address(port), "filter_chains": [{"filters": filters}]}


def _address(port: int) -> dict[str, Any]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def _write(path: Path, admin_port: int, listeners: list[dict[str, Any]], clusters: list[dict[str, Any]]) -> None:
    document = {
        "admin": {"address": _address(admin_port)},
        "static_resources": {"listeners": listeners, "clusters": clusters},
    }
    path.write_text(json.dumps(document))
