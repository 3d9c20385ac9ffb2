"""vLLM's metrics page (names, types, labels and buckets of 0.32) from an engine's state.

Families of features that the engine lacks (remote caches, multi-modal caches, queue limits) stay at 0, as on a
vLLM that does not use them. Seconds are simulated ones.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from simulator.http.families import Families
from simulator.http.llm import Llm

_REMOTE = "External prefix cache {} from KV connector cross-instance cache sharing, in terms of number of {} tokens."
_SLEEP = (
    "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake; "
    "weights_offloaded = 1 means sleep level 1; discard_all = 1 means sleep level 2."
)
_WAITING_REASONS = (
    "Number of waiting requests by reason. Reason labels: 'capacity' = waiting for scheduling capacity; "
    "'deferred' = deferred by transient constraints (LoRA budget, KV transfer, blocked status). "
    "Sum of all reasons equals vllm:num_requests_waiting."
)
_CACHED_BY_SOURCE = (
    "Prefix-cache hit tokens by the cache tier that supplied them: device (local HBM), host (offloaded to DRAM), "
    "disk, p2p (transferred from another vLLM instance) or external_unspecified. Counted at admission; sums to "
    "vllm:prefix_cache_hits + vllm:external_prefix_cache_hits."
)
_HISTOGRAMS = {
    "request_prompt_tokens": "Number of prefill tokens processed.",
    "request_generation_tokens": "Number of generation tokens processed.",
    "iteration_tokens_total": "Histogram of number of tokens per engine_step.",
    "request_max_num_generation_tokens": "Histogram of maximum number of requested generation tokens.",
    "request_params_n": "Histogram of the n request parameter.",
    "request_params_max_tokens": "Histogram of the max_tokens request parameter.",
    "time_to_first_token_seconds": "Histogram of time to first token in seconds.",
    "inter_token_latency_seconds": "Histogram of inter-token latency in seconds.",
    "request_time_per_output_token_seconds": "Histogram of time_per_output_token_seconds per request.",
    "e2e_request_latency_seconds": "Histogram of e2e request latency in seconds.",
    "request_queue_time_seconds": "Histogram of time spent in WAITING phase for request.",
    "request_inference_time_seconds": "Histogram of time spent in RUNNING phase for request.",
    "request_prefill_time_seconds": "Histogram of time spent in PREFILL phase for request.",
    "request_decode_time_seconds": "Histogram of time spent in DECODE phase for request.",
    "request_num_preemptions": "Histogram of the number of times a request was preempted.",
    "request_prefill_kv_computed_tokens": (
        "Histogram of new KV tokens computed during prefill (excluding cached tokens)."
    ),
}


class VllmCollector(Collector):
    """Reads the engine at each scrape. `created` is its start, Unix seconds."""

    def __init__(self, llm: Llm, created: float) -> None:
        self._llm = llm
        labels = {"engine": "0", "model_name": llm.models[0]}
        self._families = Families("vllm:", labels, created)
        self._bare = Families("vllm:", {"model_name": llm.models[0]}, created)
        self._config = Families("vllm:", {"engine": "0"}, created)

    def collect(self) -> Iterator[Metric]:
        """All families, in vLLM's order."""
        self._llm.driver.refresh()
        yield from self._queues()
        yield from self._caches()
        yield from self._tokens()
        yield from self._requests()
        for name, text in _HISTOGRAMS.items():
            yield self._families.histogram(name, text, self._llm.stats.histograms[name])
        yield self._cache_config()

    def describe(self) -> Iterator[Metric]:
        """Nothing: names are known to be free of clashes, and registering must not read the engine."""
        return iter(())

    def _queues(self) -> Iterator[Metric]:
        engine, make = self._llm.engine, self._families
        yield make.gauge("num_requests_running", "Number of requests in model execution batches.", engine.running)
        yield make.gauge("num_requests_waiting", "Number of requests waiting to be processed.", engine.waiting)
        reasons = {"capacity": engine.waiting, "deferred": 0}
        yield make.gauges("num_requests_waiting_by_reason", _WAITING_REASONS, "reason", reasons)
        states = {"awake": 1, "weights_offloaded": 0, "discard_all": 0}
        yield make.gauges("engine_sleep_state", _SLEEP, "sleep_state", states)
        usage = "KV-cache usage. 1 means 100 percent usage."
        yield make.gauge("kv_cache_usage_perc", usage, engine.kv_used_ratio)

    def _caches(self) -> Iterator[Metric]:
        counters, make = self._llm.engine.counters, self._families
        queries = "Prefix cache queries, in terms of number of queried tokens."
        hits = "Prefix cache hits, in terms of number of cached tokens."
        yield make.counter("prefix_cache_queries", queries, counters.prefix_queried_tokens)
        yield make.counter("prefix_cache_hits", hits, counters.prefix_hit_tokens)
        yield make.counter("external_prefix_cache_queries", _REMOTE.format("queries", "queried"), 0)
        yield make.counter("external_prefix_cache_hits", _REMOTE.format("hits", "cached"), 0)
        items = "Multi-modal cache {}, in terms of number of {} items."
        yield make.counter("mm_cache_queries", items.format("queries", "queried"), 0)
        yield make.counter("mm_cache_hits", items.format("hits", "cached"), 0)

    def _tokens(self) -> Iterator[Metric]:
        counters, make = self._llm.engine.counters, self._families
        cached, prompt = counters.cached_prompt_tokens, counters.prompt_tokens
        preempted = "Cumulative number of preemption from the engine."
        yield make.counter("num_preemptions", preempted, counters.preemptions)
        yield make.counter("prompt_tokens", "Number of prefill tokens processed.", prompt)
        sources = {"local_compute": prompt - cached, "local_cache_hit": cached, "external_kv_transfer": 0}
        by_source = "Number of prompt tokens by source."
        yield make.counters("prompt_tokens_by_source", by_source, "source", sources)
        local = "Number of cached prompt tokens (local + external)."
        yield make.counter("prompt_tokens_cached", local, cached)
        tiers = {"device": counters.prefix_hit_tokens, "host": 0, "p2p": 0, "disk": 0, "external_unspecified": 0}
        yield make.counters("prompt_tokens_cached_by_source", _CACHED_BY_SOURCE, "source", tiers)
        generated = "Number of generation tokens processed."
        yield make.counter("generation_tokens", generated, counters.generation_tokens)

    def _requests(self) -> Iterator[Metric]:
        text = "Count of successfully processed requests."
        finished = self._llm.stats.finished
        yield self._families.counters("request_success", text, "finished_reason", finished)
        rejected = "Number of admission attempts rejected by a queue limit, by reason."
        reasons = {"max_num_queued_reqs": 0, "max_num_queued_tokens": 0}
        yield self._bare.counters("admission_rejections", rejected, "reason", reasons)

    def _cache_config(self) -> Metric:
        params = self._llm.params
        size, tokens = params.block_size, params.kv_blocks * params.block_size
        labels = {
            "block_size": size,
            "cache_dtype": "auto",
            "effective_attention_block_size": size,
            "enable_prefix_caching": params.prefix_caching,
            "hash_block_size": None,
            "kv_cache_max_concurrency": tokens / params.max_model_len,
            "kv_cache_size_tokens": tokens,
            "num_cpu_blocks": None,
            "num_gpu_blocks": params.kv_blocks,
            "prefix_caching_hash_algo": "sha256",
            "sliding_window": None,
        }
        text = "Information of the LLMEngine CacheConfig"
        return self._config.gauge("cache_config_info", text, 1, **{k: str(v) for k, v in labels.items()})
