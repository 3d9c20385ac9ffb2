"""How each engine names what Tidegate reads: one table, and nothing else knows these names.

A new engine is one more `Vendor`; `docs/engines.md` shows the table to operators.
"""

from __future__ import annotations

from typing import Final

from metrics_agent.vendor import Adapters, CacheInfo, Counter, Fold, Gauge, Vendor, renamed

VLLM: Final = Vendor(
    name="vllm",
    prefix=b"vllm:",
    running=(Gauge(b"vllm:num_requests_running"),),
    # V0 (to 0.8) counts preempted requests apart; they wait all the same. The reasons (0.20) add up to all.
    waiting=(
        Gauge(b"vllm:num_requests_waiting", added=(b"vllm:num_requests_swapped",)),
        Gauge(b"vllm:num_requests_waiting_by_reason"),
    ),
    # 0.9.2 to 0.10 show both names with one value; 0.11 hides the older.
    kv_used=(
        Gauge(b"vllm:kv_cache_usage_perc", Fold.MAX),
        Gauge(b"vllm:gpu_cache_usage_perc", Fold.MAX),
    ),
    # V0's, -1 while unknown. V1 counts queries and hits, in blocks to 0.8 and in tokens since: one ratio.
    hit_ratio=(Gauge(b"vllm:gpu_prefix_cache_hit_rate", Fold.MEAN),),
    awake=(Gauge(b"vllm:engine_sleep_state", Fold.MIN, where=(b"sleep_state", b"awake")),),
    latency=(b"vllm:e2e_request_latency_seconds",),
    first_token=(b"vllm:time_to_first_token_seconds",),
    generated=(Counter(b"vllm:generation_tokens_total"),),
    prompts=((Counter(b"vllm:prompt_tokens_total"), Counter(b"vllm:time_to_first_token_seconds_count")),),
    finished=((Counter(b"vllm:generation_tokens_total"), Counter(b"vllm:request_success_total")),),
    prefix_cache=(
        (Counter(b"vllm:prefix_cache_queries_total"), Counter(b"vllm:prefix_cache_hits_total")),
        (Counter(b"vllm:gpu_prefix_cache_queries_total"), Counter(b"vllm:gpu_prefix_cache_hits_total")),
    ),
    rejected=(Counter(b"vllm:admission_rejections_total"),),
    # Hybrid models show their smallest group's block size; 0.33 tells the attention layers' apart.
    cache_info=CacheInfo(
        b"vllm:cache_config_info",
        block_size=("effective_attention_block_size", "block_size"),
        blocks="num_gpu_blocks",
        tokens="kv_cache_size_tokens",
    ),
    adapters=Adapters(
        b"vllm:lora_requests_info", lists=("running_lora_adapters", "waiting_lora_adapters"), most="max_lora"
    ),
)

# Ray's exporter shows counters with `_total` and, for old dashboards, once more without.
RAY_VLLM: Final = renamed(
    VLLM,
    "ray-vllm",
    b"vllm:",
    b"ray_vllm_",
    health="/-/healthz",
    generated=(Counter(b"ray_vllm_generation_tokens_total"), Counter(b"ray_vllm_generation_tokens")),
    prefix_cache=(
        (Counter(b"ray_vllm_prefix_cache_queries_total"), Counter(b"ray_vllm_prefix_cache_hits_total")),
        (Counter(b"ray_vllm_prefix_cache_queries"), Counter(b"ray_vllm_prefix_cache_hits")),
        (Counter(b"ray_vllm_gpu_prefix_cache_queries_total"), Counter(b"ray_vllm_gpu_prefix_cache_hits_total")),
        (Counter(b"ray_vllm_gpu_prefix_cache_queries"), Counter(b"ray_vllm_gpu_prefix_cache_hits")),
    ),
    prompts=(
        (Counter(b"ray_vllm_prompt_tokens_total"), Counter(b"ray_vllm_time_to_first_token_seconds_count")),
        (Counter(b"ray_vllm_prompt_tokens"), Counter(b"ray_vllm_time_to_first_token_seconds_count")),
    ),
    finished=(
        (Counter(b"ray_vllm_generation_tokens_total"), Counter(b"ray_vllm_request_success_total")),
        (Counter(b"ray_vllm_generation_tokens"), Counter(b"ray_vllm_request_success")),
    ),
    rejected=(Counter(b"ray_vllm_admission_rejections_total"), Counter(b"ray_vllm_admission_rejections")),
)

# Its stages show vLLM's own families with `stage` and `replica` for `engine`.
VLLM_OMNI: Final = Vendor(
    name="vllm-omni",
    prefix=b"vllm_omni:",
    running=(Gauge(b"vllm_omni:num_requests_running"), *VLLM.running),
    # The stages' snapshots are refreshed only when outputs arrive, so they come last.
    waiting=(
        Gauge(b"vllm_omni:num_requests_waiting"),
        *VLLM.waiting,
        Gauge(b"vllm_omni:stage_waiting_requests"),
    ),
    kv_used=VLLM.kv_used,
    awake=VLLM.awake,
    latency=(b"vllm_omni:e2e_request_latency_s",),
    first_token=VLLM.first_token,
    generated=(Counter(b"vllm_omni:generation_tokens_total"), *VLLM.generated),
    prompts=VLLM.prompts,
    prefix_cache=VLLM.prefix_cache,
    rejected=VLLM.rejected,
    cache_info=VLLM.cache_info,
    adapters=VLLM.adapters,
)

SGLANG: Final = Vendor(
    name="sglang",
    prefix=b"sglang:",
    running=(Gauge(b"sglang:num_running_reqs"),),
    waiting=(Gauge(b"sglang:num_queue_reqs"),),
    kv_used=(Gauge(b"sglang:token_usage", Fold.MAX),),
    hit_ratio=(Gauge(b"sglang:cache_hit_rate", Fold.MEAN),),
    capacity=(Gauge(b"sglang:max_total_num_tokens"),),
    blocks=(Gauge(b"sglang:num_pages"),),
    block_size=(Gauge(b"sglang:page_size"),),
    latency=(b"sglang:e2e_request_latency_seconds",),
    first_token=(b"sglang:time_to_first_token_seconds",),
    # The first (0.5.2x) grows with each step, the second when a request ends.
    generated=(
        Counter(b"sglang:realtime_tokens_total", where=(b"mode", b"decode")),
        Counter(b"sglang:generation_tokens_total"),
    ),
    prompts=((Counter(b"sglang:prompt_tokens_total"), Counter(b"sglang:num_requests_total")),),
    finished=((Counter(b"sglang:generation_tokens_total"), Counter(b"sglang:num_requests_total")),),
    cache_info=CacheInfo(b"sglang:cache_config_info", block_size=("page_size",), blocks="num_pages", tokens=""),
    # Data-parallel ranks have schedulers of their own; tensor-, pipeline-, expert- and context-parallel ones do not.
    repeats=frozenset({"pid", "tp_rank", "pp_rank", "moe_ep_rank", "attn_cp_rank", "cp_rank"}),
    total="priority",
)

TGI: Final = Vendor(
    name="tgi",
    prefix=b"tgi_",
    running=(Gauge(b"tgi_batch_current_size"),),
    waiting=(Gauge(b"tgi_queue_size"),),
    latency=(b"tgi_request_duration",),
    generated=(Counter(b"tgi_request_generated_tokens_sum"),),
    prompts=((Counter(b"tgi_request_input_length_sum"), Counter(b"tgi_request_input_length_count")),),
    finished=((Counter(b"tgi_request_generated_tokens_sum"), Counter(b"tgi_request_generated_tokens_count")),),
    rejected=(Counter(b"tgi_request_failure", where=(b"err", b"overloaded")),),
)

_REQUESTS: Final = b"nv_trt_llm_request_metrics"
_KV_BLOCKS: Final = b"nv_trt_llm_kv_cache_block_metrics"

TRITON_TRTLLM: Final = Vendor(
    name="triton-trtllm",
    prefix=b"nv_trt_llm_",
    port=8002,
    health="/v2/health/ready",
    running=(Gauge(_REQUESTS, where=(b"request_type", b"scheduled")),),
    waiting=(Gauge(_REQUESTS, where=(b"request_type", b"waiting")),),
    kv_used=(Gauge(_KV_BLOCKS, Fold.MAX, where=(b"kv_cache_block_type", b"fraction")),),
    blocks=(Gauge(_KV_BLOCKS, where=(b"kv_cache_block_type", b"max")),),
    block_size=(Gauge(_KV_BLOCKS, where=(b"kv_cache_block_type", b"tokens_per")),),
    model_label="model",
)

TRTLLM_SERVE: Final = Vendor(
    name="trtllm-serve",
    prefix=b"trtllm_",
    page="/prometheus/metrics",  # its /metrics is JSON, and reading it takes the entries away
    running=(Gauge(b"trtllm_num_requests_running"),),
    waiting=(Gauge(b"trtllm_num_requests_waiting"),),
    kv_used=(Gauge(b"trtllm_kv_cache_utilization", Fold.MAX),),
    hit_ratio=(Gauge(b"trtllm_kv_cache_hit_rate", Fold.MEAN),),
    blocks=(Gauge(b"trtllm_kv_cache_max_blocks"),),
    block_size=(Gauge(b"trtllm_kv_cache_tokens_per_block"),),
    latency=(b"trtllm_e2e_request_latency_seconds",),
    first_token=(b"trtllm_time_to_first_token_seconds",),
    generated=(Counter(b"trtllm_generation_tokens_total"),),
    prompts=((Counter(b"trtllm_prompt_tokens_total"), Counter(b"trtllm_request_success_total")),),
    finished=((Counter(b"trtllm_generation_tokens_total"), Counter(b"trtllm_request_success_total")),),
)

VENDORS: Final = (VLLM_OMNI, VLLM, SGLANG, TRTLLM_SERVE, TRITON_TRTLLM, TGI, RAY_VLLM)
"""In order of recognition: vllm-omni pages show some of vLLM's families too."""

BY_NAME: Final = {vendor.name: vendor for vendor in VENDORS}

WANTED: Final = frozenset().union(*(vendor.families() for vendor in VENDORS))
