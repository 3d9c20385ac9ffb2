"""The metrics page is what a vLLM of the same load would show."""

from __future__ import annotations

import asyncio

import pytest

from tests.conftest import until
from tests.simulator.conftest import Start, chat

SERIES = {"engine": "0", "model_name": "m"}
GAUGES = "num_requests_running num_requests_waiting num_requests_waiting_by_reason engine_sleep_state "
GAUGES += "kv_cache_usage_perc cache_config_info"
COUNTERS = "prefix_cache_queries prefix_cache_hits external_prefix_cache_queries external_prefix_cache_hits "
COUNTERS += "mm_cache_queries mm_cache_hits num_preemptions prompt_tokens prompt_tokens_by_source "
COUNTERS += "prompt_tokens_cached prompt_tokens_cached_by_source generation_tokens request_success "
COUNTERS += "admission_rejections"
HISTOGRAMS = "request_prompt_tokens request_generation_tokens iteration_tokens_total "
HISTOGRAMS += "request_max_num_generation_tokens request_params_n request_params_max_tokens "
HISTOGRAMS += "time_to_first_token_seconds inter_token_latency_seconds "
HISTOGRAMS += "request_time_per_output_token_seconds e2e_request_latency_seconds request_queue_time_seconds "
HISTOGRAMS += "request_inference_time_seconds request_prefill_time_seconds request_decode_time_seconds "
HISTOGRAMS += "request_num_preemptions request_prefill_kv_computed_tokens"


async def test_families_and_types_are_those_of_vllm(start_engine: Start) -> None:
    engine = await start_engine()
    types = {family.name: family.type for family in await engine.families()}
    wanted = {"gauge": GAUGES, "counter": COUNTERS, "histogram": HISTOGRAMS}
    expected = {f"vllm:{name}": kind for kind, names in wanted.items() for name in names.split()}
    found = {n: t for n, t in types.items() if n.startswith("vllm:") and not n.endswith("_created")}
    assert found == expected
    assert types["process_start_time_seconds"] == "gauge"


async def test_series_carry_engine_and_model_name(start_engine: Start) -> None:
    engine = await start_engine(model=["m", "alias"])
    for family in await engine.families():
        for sample in family.samples:
            if sample.name.startswith("vllm:"):
                assert sample.labels.get("engine", "0") == "0"
                assert sample.labels.get("model_name", "m") == "m"
    assert await engine.metric("vllm:num_requests_running", **SERIES) == 0


async def test_cache_config_gives_the_cache_size_in_tokens(start_engine: Start) -> None:
    engine = await start_engine(kv_blocks=1000, block_size=32)
    sizes = {"block_size": "32", "num_gpu_blocks": "1000", "kv_cache_size_tokens": "32000"}
    assert await engine.metric("vllm:cache_config_info", engine="0", **sizes) == 1


async def test_counters_add_up_after_requests(start_engine: Start) -> None:
    engine = await start_engine()
    answer = (await engine.http.post("/v1/chat/completions", json=chat("x" * 400, max_tokens=5, n=2))).json()
    prompt = answer["usage"]["prompt_tokens"]
    totals = {
        "prompt_tokens_total": 2 * prompt,
        "generation_tokens_total": 10,
        "prefix_cache_queries_total": 2 * prompt,
        "request_prompt_tokens_sum": 2 * prompt,
        "request_generation_tokens_count": 2,
        "time_to_first_token_seconds_count": 2,
        "e2e_request_latency_seconds_count": 2,
        "inter_token_latency_seconds_count": 8,
        "request_params_n_sum": 2,
        "request_params_n_count": 1,
        "iteration_tokens_total_count": 5,
        "iteration_tokens_total_sum": 2 * prompt + 8,
        "request_success_total": 0,
    }
    assert {name: await engine.metric(f"vllm:{name}", **SERIES) for name in totals} == totals
    assert await engine.metric("vllm:request_success_total", finished_reason="length") == 2


async def test_a_second_prompt_counts_its_hits_in_tokens(start_engine: Start) -> None:
    engine = await start_engine()
    for _ in range(2):
        answer = await engine.http.post("/v1/chat/completions", json=chat("x" * 400, max_tokens=1))
    hits = (answer.json()["usage"]["prompt_tokens"] - 1) // 16 * 16
    assert await engine.metric("vllm:prefix_cache_hits_total") == hits > 0
    assert await engine.metric("vllm:prompt_tokens_by_source_total", source="local_cache_hit") == hits


async def test_running_waiting_and_kv_use_follow_the_load(start_engine: Start) -> None:
    engine = await start_engine(max_num_seqs=1, time_scale=1.0)
    body = chat("x" * 4000, max_tokens=4000)
    calls = [asyncio.create_task(engine.http.post("/v1/chat/completions", json=body, timeout=60)) for _ in "12"]

    async def loaded() -> bool:
        running = await engine.metric("vllm:num_requests_running")
        waiting = await engine.metric("vllm:num_requests_waiting")
        used = await engine.metric("vllm:kv_cache_usage_perc")
        return (running, waiting) == (1, 1) and 1000 / 65_520 < used < 0.1

    await until(loaded)
    for call in calls:
        call.cancel()

    async def idle() -> bool:
        return await engine.metric("vllm:request_success_total", finished_reason="abort") == 2

    await until(idle)
    assert await engine.metric("vllm:kv_cache_usage_perc") == 0


async def test_a_diffusion_engine_has_the_names_of_vllm_omni(start_engine: Start) -> None:
    engine = await start_engine(kind="diffusion")
    body = {"model": "m", "prompt": "a tide", "size": "1024x1024", "num_inference_steps": 30}
    assert (await engine.http.post("/v1/images/generations", json=body)).status_code == 200
    assert await engine.metric("vllm_omni:num_requests_running", model_name="m") == 0
    assert await engine.metric("vllm_omni:num_requests_waiting", model_name="m") == 0
    assert await engine.metric("vllm_omni:requests_success_total", finished_reason="stop") == 1
    assert await engine.metric("vllm_omni:num_inference_steps_sum") == 30
    assert await engine.metric("vllm_omni:image_pixels_sum") == 1024 * 1024
    taken = await engine.metric("vllm_omni:diffusion_exec_s_sum", stage="0", replica="0")
    assert taken == pytest.approx(3.3, abs=0.1)
    assert not [f.name for f in await engine.families() if f.name == "vllm:kv_cache_usage_perc"]
