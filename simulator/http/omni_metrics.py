"""vllm-omni's metrics page from a diffusion engine's state. Seconds are simulated ones."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from simulator.http.families import Families
from simulator.http.images import Diffusion

_RUNNING = "Number of requests currently running across all pipeline stages."
_WAITING = "Number of requests waiting to be scheduled."
_STAGE_WAITING = "Sum of the latest scheduler waiting snapshots per stage"
_BY_REQUEST = {
    "e2e_request_latency_s": "End-to-end request latency in seconds.",
    "request_queue_wait_s": "Queue wait in seconds.",
    "num_inference_steps": "Denoising steps per request",
    "image_pixels": "Pixels per image",
}
_BY_STAGE = {
    "diffusion_exec_s": "DiT forward pass execution time per request in seconds.",
    "denoise_step_latency_s": "Denoise step latency",
}


class OmniCollector(Collector):
    """Reads the engine at each scrape. `created` is its start, Unix seconds."""

    def __init__(self, diffusion: Diffusion, created: float) -> None:
        self._diffusion = diffusion
        labels = {"model_name": diffusion.models[0]}
        self._omni = Families("vllm_omni:", labels, created)
        self._upstream = Families("vllm:", labels, created)

    def collect(self) -> Iterator[Metric]:
        """All families."""
        self._diffusion.driver.refresh()
        engine, stats, make = self._diffusion.engine, self._diffusion.stats, self._omni
        yield make.gauge("num_requests_running", _RUNNING, engine.running)
        yield make.gauge("num_requests_waiting", _WAITING, engine.waiting)
        yield make.gauge("stage_waiting_requests", _STAGE_WAITING, engine.waiting, stage="0")
        finished = "Requests finished by reason"
        yield make.counters("requests_success", finished, "finished_reason", stats.finished)
        yield make.counters("requests_failed", "Requests failed by reason", "reason", {"stage_error": 0})
        for name, text in _BY_REQUEST.items():
            yield make.histogram(name, text, stats.histograms[name])
        for name, text in _BY_STAGE.items():
            yield make.histogram(name, text, stats.histograms[name], stage="0", replica="0")
        text = "Number of requests in model execution batches."
        yield self._upstream.gauge("num_requests_running", text, engine.running, stage="0", replica="0")

    def describe(self) -> Iterator[Metric]:
        """Nothing: registering must not read the engine."""
        return iter(())
