"""What vLLM keeps of requests that ended, in its buckets. Seconds are the engine's own, simulated ones."""

from __future__ import annotations

from simulator.engine import Engine, Event, EventKind, FinishReason, Histogram, Sequence

_SECONDS = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0),
    *(60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
_FIRST_TOKEN_SECONDS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
_PARAMS_N = (1.0, 2.0, 5.0, 10.0, 20.0)
_PREEMPTIONS = (1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0)


def _token_bounds(most: int) -> tuple[float, ...]:
    """1, 2, 5, 10, 20, 50 … up to `most`."""
    steps = (float(digit * 10**power) for power in range(10) for digit in (1, 2, 5))
    return tuple(step for step in steps if step <= most)


class VllmStats:
    """Histograms by family name (without `vllm:`), and finished sequences by reason."""

    def __init__(self, engine: Engine) -> None:
        tokens = _token_bounds(engine.params.max_model_len)
        self.finished = {"stop": 0, "length": 0, "abort": 0, "error": 0, "repetition": 0}
        self.histograms = {
            "request_prompt_tokens": Histogram(tokens),
            "request_generation_tokens": Histogram(tokens),
            "iteration_tokens_total": engine.counters.step_tokens,
            "request_max_num_generation_tokens": Histogram(tokens),
            "request_params_n": Histogram(_PARAMS_N),
            "request_params_max_tokens": Histogram(tokens),
            "time_to_first_token_seconds": Histogram(_FIRST_TOKEN_SECONDS),
            "inter_token_latency_seconds": engine.counters.inter_token_seconds,
            "request_time_per_output_token_seconds": Histogram(engine.counters.inter_token_seconds.bounds),
            "e2e_request_latency_seconds": Histogram(_SECONDS),
            "request_queue_time_seconds": Histogram(_SECONDS),
            "request_inference_time_seconds": Histogram(_SECONDS),
            "request_prefill_time_seconds": Histogram(_SECONDS),
            "request_decode_time_seconds": Histogram(_SECONDS),
            "request_num_preemptions": Histogram(_PREEMPTIONS),
            "request_prefill_kv_computed_tokens": Histogram(tokens),
        }

    def answered(self, n: int, max_tokens: int, longest_tokens: int) -> None:
        """Count an HTTP request all of whose sequences ended."""
        self._observe("request_params_n", n)
        self._observe("request_params_max_tokens", max_tokens)
        self._observe("request_max_num_generation_tokens", longest_tokens)

    def observe(self, event: Event[Sequence]) -> None:
        """Count what an event says."""
        sequence = event.subject
        if event.kind is EventKind.FIRST_TOKEN:
            self._observe("time_to_first_token_seconds", event.at - sequence.arrived_at)
        elif event.kind is EventKind.FINISHED and sequence.finish_reason is not None:
            self.finished[sequence.finish_reason] += 1
            if sequence.finish_reason is not FinishReason.ABORT:
                self._finished(sequence, event.at)

    def _finished(self, sequence: Sequence, at: float) -> None:
        scheduled = sequence.scheduled_at if sequence.scheduled_at is not None else at
        first = sequence.first_token_at if sequence.first_token_at is not None else at
        self._observe("request_prompt_tokens", sequence.request.prompt_tokens)
        self._observe("request_generation_tokens", sequence.generated)
        self._observe("e2e_request_latency_seconds", at - sequence.arrived_at)
        self._observe("request_queue_time_seconds", scheduled - sequence.arrived_at)
        self._observe("request_inference_time_seconds", at - scheduled)
        self._observe("request_prefill_time_seconds", first - scheduled)
        self._observe("request_decode_time_seconds", at - first)
        self._observe("request_num_preemptions", sequence.preemptions)
        computed = sequence.request.prompt_tokens - sequence.cached_tokens
        self._observe("request_prefill_kv_computed_tokens", computed)
        if sequence.generated > 1:
            self._observe("request_time_per_output_token_seconds", (at - first) / (sequence.generated - 1))

    def _observe(self, name: str, value: float) -> None:
        self.histograms[name].observe(value)
