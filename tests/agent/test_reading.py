"""Pages of the engines, each with what it must say."""

from __future__ import annotations

from pathlib import Path

import pytest

from metrics_agent.scrape.reading import Reading, read_page

PAGES = Path(__file__).parent / "pages"


def page(name):
    return read_page((PAGES / name).read_bytes())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("vllm_v0_swapping.txt", ("vllm", 48, 0 + 7, 0.9981, 24188 * 16, 16, None, ("org/llama-8b",))),
        ("vllm_0.9.1_gpu_names.txt", ("vllm", 9, 0, 0.22, 27451 * 16, 16, None, ("org/llama-8b",))),
        ("vllm_0.9.2_both_names.txt", ("vllm", 22, 1, 0.5, 27451 * 16, 16, None, ("org/llama-8b",))),
        ("vllm_0.20_waiting_by_reason.txt", ("vllm", 64, 37, 0.995, 148336, 16, True, ("org/llama-8b",))),
        ("vllm_0.32_idle.txt", ("vllm", 0, 0, 0.0, 1048576, 128, True, ("tiny",))),
        ("vllm_0.33_two_engines.txt", ("vllm", 5 + 6, 0 + 1, 0.14, 2 * 159344, 16, True, ("org/llama-8b",))),
        ("vllm_0.33_sleeping.txt", ("vllm", 0, 0, 0.0, 159344, 16, False, ("org/llama-8b",))),
        (
            "vllm_omni_0.30_sdxl.txt",
            ("vllm-omni", 2, 5, None, None, None, None, ("stabilityai/stable-diffusion-xl-base-1.0",)),
        ),
    ],
)
def test_page_says(name, expected):
    r = page(name)
    assert expected == (
        r.vendor, r.running, r.waiting, r.kv_used_ratio, r.kv_capacity_tokens, r.block_size, r.awake, r.models,
    )  # fmt: skip


def test_histograms_and_counters_are_kept_by_series():
    r = page("vllm_0.33_two_engines.txt")
    assert len(r.latency) == 2
    assert all(bounds[float("inf")] == 200 for bounds in r.latency.values())
    assert sorted(r.generated.values()) == [864440.0, 964440.0]
    assert sorted(r.prefix_queries.values()) == [4.12345e6, 5.12345e6]
    assert sorted(r.prefix_hits.values()) == [1.60221e6, 2.60221e6]


def test_older_prefix_counters_and_omni_latency_are_read():
    assert list(page("vllm_0.9.1_gpu_names.txt").prefix_queries.values()) == [13271.0]
    [bounds] = page("vllm_omni_0.30_sdxl.txt").latency.values()
    assert (bounds[5.0], bounds[10.0]) == (164.0, 414.0)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"# TYPE vllm:num_requests_running gauge\n", id="type-without-samples"),
        pytest.param(b"<html>\r\n<title>502 Bad Gateway</title>\r\n</html>", id="html"),
        pytest.param(b'{"detail":"Not Found"}', id="json"),
        pytest.param(b"process_open_fds 45.0\n", id="process-families-only"),
        pytest.param(b"sglang:num_running_reqs 5.0\n", id="families-that-the-table-lacks"),
    ],
)
def test_page_that_parses_to_nothing_is_unknown_not_zero(body):
    assert read_page(body) == Reading()


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1.0"])
def test_value_that_is_no_count_is_unknown(value):
    body = f'vllm:num_requests_running {value}\nvllm:num_requests_waiting {value}\nvllm:kv_cache_usage_perc{{engine="0"}} {value}\n'
    r = read_page(body.encode())
    assert (r.running, r.waiting, r.kv_used_ratio) == (None, None, None)


def test_sum_with_an_unknown_engine_is_unknown():
    r = read_page(b'vllm:num_requests_running{engine="0"} 4\nvllm:num_requests_running{engine="1"} NaN\n')
    assert r.running is None


@pytest.mark.parametrize(("expected", "value"), [(1.0, 1.0), (1.0, 1.004), (None, 45.0)])
def test_kv_use_is_a_ratio_or_unknown(expected, value):
    assert read_page(f"vllm:kv_cache_usage_perc {value}\n".encode()).kv_used_ratio == expected


@pytest.mark.parametrize(
    ("expected", "labels"),
    [
        pytest.param((16, 160), 'block_size="16",num_gpu_blocks="10"', id="product"),
        pytest.param((16, None), 'block_size="16",num_gpu_blocks="None"', id="blocks-not-known-yet"),
        pytest.param((4, 99), 'block_size="4",num_gpu_blocks="10",kv_cache_size_tokens="99"', id="told"),
        pytest.param((256, 40), 'block_size="4",effective_attention_block_size="256",num_gpu_blocks="10"', id="hybrid"),
        pytest.param((None, None), 'block_size="0",num_gpu_blocks="1"', id="zero"),
        pytest.param((None, None), f'block_size="{"9" * 30}"', id="absurd"),
    ],
)
def test_cache_sizes(expected, labels):
    r = read_page(f"vllm:cache_config_info{{{labels}}} 1.0\n".encode())
    assert expected == (r.block_size, r.kv_capacity_tokens)


def test_huge_label_set_next_to_the_wanted_families_is_skipped():
    huge = b'vllm:vllm_config_info{cfg="' + b"x" * 1_000_000 + b'"} 1.0\n'
    assert read_page(huge + b"vllm:num_requests_running 2\n").running == 2
