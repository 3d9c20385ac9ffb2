"""What vllm-omni keeps of jobs that ended, in its buckets. Seconds are the engine's own, simulated ones."""

from __future__ import annotations

from simulator.engine import FinishReason, Histogram, ImageJob

_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)
_STEP_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
_STEPS = (1.0, 4.0, 8.0, 10.0, 20.0, 25.0, 30.0, 40.0, 50.0, 100.0, 200.0)
_PIXELS = tuple(float(side * side) for side in (512, 768, 1024, 1536, 2048))


class OmniStats:
    """Histograms by family name (without `vllm_omni:`), and finished jobs by reason."""

    def __init__(self) -> None:
        self.finished = {"stop": 0, "abort": 0}
        self.histograms = {
            "e2e_request_latency_s": Histogram(_SECONDS),
            "request_queue_wait_s": Histogram(_SECONDS),
            "diffusion_exec_s": Histogram(_SECONDS),
            "denoise_step_latency_s": Histogram(_STEP_SECONDS),
            "num_inference_steps": Histogram(_STEPS),
            "image_pixels": Histogram(_PIXELS),
        }

    def observe(self, job: ImageJob) -> None:
        """Count a job that ended."""
        if job.finish_reason is None or job.finished_at is None:
            return
        self.finished[job.finish_reason] += 1
        if job.finish_reason is FinishReason.ABORT or job.scheduled_at is None:
            return
        seconds = job.finished_at - job.scheduled_at
        self.histograms["e2e_request_latency_s"].observe(job.finished_at - job.arrived_at)
        self.histograms["request_queue_wait_s"].observe(job.scheduled_at - job.arrived_at)
        self.histograms["diffusion_exec_s"].observe(seconds)
        self.histograms["denoise_step_latency_s"].observe(seconds / job.request.steps)
        self.histograms["num_inference_steps"].observe(job.request.steps)
        self.histograms["image_pixels"].observe(job.request.pixels)
