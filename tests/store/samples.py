"""Samples that tests of the store publish."""

from __future__ import annotations

from typing import Any

from tidegate.domain.sample import EndpointSample, NodeSample, NodeTick, Status


def endpoint(address: str = "10.0.0.5:8000", **changes: Any) -> EndpointSample:
    """A sample that knows everything, with `changes`."""
    known: dict[str, Any] = {
        "cluster": "phi-3",
        "address": address,
        "node": "gpu-1",
        "sampled_at_ms": 1_700_000_000_000,
        "seq": 7,
        "status": Status.READY,
        "running": 3,
        "waiting": 0,
        "kv_used_ratio": 0.25,
        "kv_capacity_tokens": 65_536,
        "block_size": 16,
        "vram_free_bytes": 1 << 33,
        "vram_total_bytes": 80 << 30,
        "latency_p99_ms": 812.5,
        "tokens_per_second": 1534.0,
        "prefix_hit_ratio": 0.0,
        "prompt_tokens_total": 123_456,
        "prompts_total": 789,
        "ttft_p99_ms": 95.5,
        "admission_rejections_total": 4,
        "generation_tokens_total": 98_765,
        "requests_finished_total": 780,
        "loras": ("sql", "chat"),
        "max_loras": 8,
        "models": ("phi-3", "microsoft/Phi-3-mini-4k-instruct"),
        "precision": "fp16",
    }
    return EndpointSample(**{**known, **changes})


def bare_endpoint(address: str = "10.0.0.5:8000", **changes: Any) -> EndpointSample:
    """A sample of an engine that tells nothing but that it lives."""
    known: dict[str, Any] = {"cluster": "phi-3", "node": "gpu-1", "sampled_at_ms": 1_700_000_000_000, "seq": 8}
    return EndpointSample(**{"address": address, "status": Status.READY, **known, **changes})


def tick(
    *endpoints: EndpointSample,
    node: str = "gpu-1",
    at_ms: int = 1_700_000_000_000,
    gone: tuple[tuple[str, str], ...] = (),
) -> NodeTick:
    """One agent's tick."""
    gpus = {"GPU-1": {"vram_free_bytes": 1 << 33, "utilization_ratio": 0.5, "name": "H200", "power_watts": None}}
    sample = NodeSample(node=node, sampled_at_ms=at_ms, seq=7, nvml="ok", gpus=gpus)
    return NodeTick(node=sample, endpoints=endpoints, gone=gone)
