"""Pages of the engines, each with what it must say."""

from __future__ import annotations

import math
from pathlib import Path
from typing import get_args

import pytest

from metrics_agent.scrape.iterations import read_iterations
from metrics_agent.scrape.reading import Reading, read_page
from metrics_agent.vendors import BY_NAME, VENDORS, WANTED
from tidegate.settings.config_model import EndpointSection

PAGES = Path(__file__).parent / "pages"
NOW = 1_767_225_700.0
GAUGES = (
    "vendor", "running", "waiting", "kv_used_ratio", "kv_capacity_tokens", "block_size", "awake", "hit_ratio",
    "models", "loras", "max_loras", "prompt_tokens", "prompts", "rejected",
)  # fmt: skip
LLAMA = ("org/llama-8b",)


def read(body, pinned=None):
    return read_page(body, NOW, pinned)


def page(name):
    return read((PAGES / name).read_bytes())


def said(reading):
    """Everything that a reading knows at once, without its counters."""
    unknown = Reading()
    return {name: value for name in GAUGES if (value := getattr(reading, name)) != getattr(unknown, name)}


def vllm(running, waiting, kv, **more):
    known = {"vendor": "vllm", "running": running, "waiting": waiting, "kv_used_ratio": kv, "models": LLAMA}
    return {**known, "block_size": 16, "prompts": 200, **more}


def sglang(running, waiting, kv, hits, **more):
    known = {"vendor": "sglang", "running": running, "waiting": waiting, "kv_used_ratio": kv, "hit_ratio": hits}
    return {**known, "models": LLAMA, **more}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("vllm_v0_busy.txt", vllm(21, 4, 0.7301, kv_capacity_tokens=12000 * 16, prompt_tokens=812345)),
        (
            "vllm_v0_swapping.txt",
            vllm(
                48, 0 + 7, 0.9981, kv_capacity_tokens=24188 * 16, hit_ratio=0.412, loras=("sql",), max_loras=4,
                prompt_tokens=9912345,
            ),
        ),
        ("vllm_0.7.3_v1.txt", {**vllm(6, 2, 0.35, prompt_tokens=812345), "block_size": None}),
        ("vllm_0.8.5_v1_blocks_unknown.txt", vllm(3, 0, 0.08, prompt_tokens=212345)),
        (
            "vllm_0.9.1_gpu_names.txt",
            vllm(9, 0, 0.22, kv_capacity_tokens=27451 * 16, prompt_tokens=212345),
        ),
        (
            "vllm_0.9.2_both_names.txt",
            vllm(22, 1, 0.5, kv_capacity_tokens=27451 * 16, prompt_tokens=1212345),
        ),
        ("vllm_0.10.2_both_names.txt", vllm(30, 1, 0.62, kv_capacity_tokens=5000 * 16, prompt_tokens=1212345)),
        ("vllm_0.11.0_gpu_names_hidden.txt", vllm(13, 5, 0.44, kv_capacity_tokens=9271 * 16, prompt_tokens=612345)),
        (
            "vllm_0.14.1_lora.txt",
            vllm(
                8, 2, 0.31, kv_capacity_tokens=9271 * 16, awake=True, models=("base",), loras=("tone-a", "tone-b"),
                max_loras=2, prompt_tokens=712345,
            ),
        ),
        (
            "vllm_0.16_lora_summed_times.txt",
            vllm(
                8, 2, 0.31, kv_capacity_tokens=9271 * 16, awake=True, models=("base",), loras=("tone-a", "tone-b"),
                max_loras=2, prompt_tokens=712345,
            ),
        ),
        ("vllm_0.16.0.txt", vllm(15, 1, 0.41, kv_capacity_tokens=9271 * 16, awake=True, prompt_tokens=612345)),
        (
            "vllm_0.20_waiting_by_reason.txt",
            vllm(64, 37, 0.995, kv_capacity_tokens=148336, awake=True, prompt_tokens=7123450),
        ),
        (
            "vllm_0.26.0.txt",
            vllm(
                2, 0, 0.0021, kv_capacity_tokens=159344, awake=True, models=("org/gemma-270m",), prompt_tokens=33,
                prompts=1,
            ),
        ),
        (
            "vllm_0.32_idle.txt",
            {
                **vllm(0, 0, 0.0, kv_capacity_tokens=1048576, awake=True, models=("tiny",), prompt_tokens=2, prompts=1, rejected=0),
                "block_size": 128,
            },
        ),
        (
            "vllm_0.33_two_engines.txt",
            vllm(5 + 6, 0 + 1, 0.14, kv_capacity_tokens=2 * 159344, awake=True, prompt_tokens=9246900, prompts=400, rejected=0),
        ),
        (
            "vllm_0.33_sleeping.txt",
            vllm(0, 0, 0.0, kv_capacity_tokens=159344, awake=False, prompt_tokens=5123450, rejected=0),
        ),
        (
            "vllm_0.33_rejecting.txt",
            vllm(256, 128, 1.0, kv_capacity_tokens=159344, awake=True, prompt_tokens=5123450, rejected=17 + 3),
        ),
        (
            "ray_vllm.txt",
            vllm(11, 2, 0.27, kv_capacity_tokens=9271 * 16, awake=True, prompt_tokens=612345, vendor="ray-vllm"),
        ),
        (
            "vllm_omni_0.30_sdxl.txt",
            {
                "vendor": "vllm-omni", "running": 2, "waiting": 5,
                "models": ("stabilityai/stable-diffusion-xl-base-1.0",),
            },
        ),
        (
            "vllm_omni_two_stages.txt",
            {"vendor": "vllm-omni", "running": 4, "waiting": 2 + 0, "kv_used_ratio": 0.75, "models": ("org/omni-7b",)},
        ),
        ("sglang_0.4.6.txt", sglang(19, 3, 0.47, 0.33, prompt_tokens=2230794, prompts=4102)),
        ("sglang_0.5.4_pp2.txt", sglang(12, 1, 0.29, 0.0)),
        (
            "sglang_0.5.23.txt",
            sglang(
                24, 6, 0.66, 0.5, models=("org/qwen-32b",), kv_capacity_tokens=700_000, block_size=64,
                prompt_tokens=2230794, prompts=4102,
            ),
        ),
        (
            "sglang_0.5.23_dp2_tp2_priorities.txt",
            sglang(
                9 + 4, 2 + 0, 0.81, (0.2 + 0.4) / 2, models=("org/qwen-32b",), kv_capacity_tokens=610_000, block_size=1
            ),
        ),
        (
            "tgi_3.txt",
            {
                "vendor": "tgi", "running": 28, "waiting": 7, "prompt_tokens": 2_050_000, "prompts": 4100,
                "rejected": 6,
            },
        ),
        ("tgi_3_before_the_first_request.txt", {}),
        (
            "triton_trtllm.txt",
            {
                "vendor": "triton-trtllm", "running": 40, "waiting": 6, "kv_used_ratio": 0.52,
                "kv_capacity_tokens": 6239 * 64, "block_size": 64, "models": ("tensorrt_llm",),
            },
        ),
        (
            "triton_trtllm_two_models.txt",
            {
                "vendor": "triton-trtllm", "running": 41, "waiting": 7, "kv_used_ratio": 0.9,
                "kv_capacity_tokens": 6239 * 64 + 100 * 32, "block_size": 32, "models": ("tensorrt_llm", "draft"),
            },
        ),
        (
            "trtllm_serve.txt",
            {
                "vendor": "trtllm-serve", "running": 14, "waiting": 3, "kv_used_ratio": 0.385, "hit_ratio": 0.25,
                "kv_capacity_tokens": 3164 * 32, "block_size": 32, "models": LLAMA, "prompt_tokens": 204_800,
                "prompts": 400,
            },
        ),
        ("trtllm_serve_iterations.json", {}),
        ("edge_crlf.txt", {"vendor": "vllm", "running": 4, "waiting": 2, "models": ("m",)}),
        (
            "edge_label_escapes.txt",
            {
                "vendor": "vllm", "running": 2 + 5 + 10,
                "models": ('D:\\weights\\b "c", {d}=e, #f} 9', "two\nlines", "wide"),
            },
        ),
        ("edge_nan_inf.txt", {"vendor": "vllm", "models": ("m",)}),
        ("edge_openmetrics.txt", {"vendor": "vllm", "running": 6, "models": ("m",)}),
        ("edge_help_and_type_only.txt", {}),
        ("edge_html.txt", {}),
        ("edge_json_detail.txt", {}),
        ("edge_python_families.txt", {}),
    ],
)  # fmt: skip
def test_page_says(name, expected):
    assert {key: value for key, value in expected.items() if value is not None} == said(page(name))


def test_every_fixture_is_one_of_some_test():
    text = Path(__file__).read_text()
    assert [p.name for p in PAGES.iterdir() if p.name not in text] == []


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
        pytest.param(b"lmdeploy:num_requests_running 5.0\n", id="families-that-the-table-lacks"),
    ],
)
def test_page_that_parses_to_nothing_is_unknown_not_zero(body):
    assert read(body) == Reading()


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1.0"])
def test_value_that_is_no_count_is_unknown(value):
    body = f'vllm:num_requests_running {value}\nvllm:num_requests_waiting {value}\nvllm:kv_cache_usage_perc{{engine="0"}} {value}\n'
    r = read(body.encode())
    assert (r.running, r.waiting, r.kv_used_ratio) == (None, None, None)


def test_sum_with_an_unknown_engine_is_unknown():
    r = read(b'vllm:num_requests_running{engine="0"} 4\nvllm:num_requests_running{engine="1"} NaN\n')
    assert r.running is None


@pytest.mark.parametrize("value", ["1e300", "1e16", "1_0"])
def test_value_that_cannot_be_is_unknown(value):
    families = (
        "num_requests_running", "num_requests_waiting", "generation_tokens_total", "prompt_tokens_total",
        "time_to_first_token_seconds_count",
    )  # fmt: skip
    r = read("".join(f"vllm:{name} {value}\n" for name in families).encode())
    assert (r.running, r.waiting, r.prompt_tokens, r.prompts, r.generated) == (None, None, None, None, {})


@pytest.mark.parametrize(
    "page",
    [
        'vllm:cache_config_info{{block_size="{0}",num_gpu_blocks="{0}"}} 1.0\n',
        "sglang:num_pages {0}\nsglang:page_size {0}\n",
        "sglang:max_total_num_tokens {0}{0}\n",
    ],
)
def test_capacity_that_cannot_be_is_unknown(page):
    assert read(page.format("9" * 12).encode()).kv_capacity_tokens is None


def engines(family, *ids, value=1, label="engine"):
    return "".join(f'{family}{{{label}="{n}"}} {value}\n' for n in ids)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("waiting", engines("vllm:num_requests_waiting", 0)),
        ("kv_used_ratio", engines("vllm:kv_cache_usage_perc", 1)),
        ("hit_ratio", engines("vllm:gpu_prefix_cache_hit_rate", 1)),
        ("kv_capacity_tokens", 'vllm:cache_config_info{engine="0",block_size="16",num_gpu_blocks="10"} 1\n'),
    ],
)
def test_what_not_every_engine_tells_is_unknown(name, part):
    r = read((engines("vllm:num_requests_running", 0, 1) + part).encode())
    assert (r.running, getattr(r, name)) == (2, None)
    both = part + part.replace('"0"', '"x"').replace('engine="1"', 'engine="0"').replace('"x"', '"1"')
    assert getattr(read((engines("vllm:num_requests_running", 0, 1) + both).encode()), name) is not None


def test_engines_that_only_the_waiting_are_told_of_leave_the_running_unknown():
    page = engines("vllm:num_requests_running", 0) + engines("vllm:num_requests_waiting", 0, 1)
    r = read(page.encode())
    assert (r.running, r.waiting) == (None, 2)


def test_rank_that_has_not_told_all_leaves_a_sum_unknown():
    page = engines("sglang:num_running_reqs", 0, 1, label="dp_rank") + engines("sglang:num_pages", 0, label="dp_rank")
    r = read((page + engines("sglang:page_size", 0, label="dp_rank")).encode())
    assert (r.running, r.kv_capacity_tokens) == (2, None)


def test_family_without_engines_tells_of_all():
    r = read((engines("vllm:num_requests_running", 0, 1) + "vllm:num_requests_waiting 3\n").encode())
    assert (r.running, r.waiting) == (2, 3)


@pytest.mark.parametrize(("expected", "value"), [(1.0, 1.0), (1.0, 1.004), (None, 45.0)])
def test_kv_use_is_a_ratio_or_unknown(expected, value):
    assert read(f"vllm:kv_cache_usage_perc {value}\n".encode()).kv_used_ratio == expected


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
    r = read(f"vllm:cache_config_info{{{labels}}} 1.0\n".encode())
    assert expected == (r.block_size, r.kv_capacity_tokens)


def test_huge_label_set_next_to_the_wanted_families_is_skipped():
    huge = b'vllm:vllm_config_info{cfg="' + b"x" * 1_000_000 + b'"} 1.0\n'
    assert read(huge + b"vllm:num_requests_running 2\n").running == 2


def total(series):
    return sum(series.values())


def counts(histograms):
    return [bounds[math.inf] for bounds in histograms.values()]


@pytest.mark.parametrize(
    ("name", "generated", "latency", "first_token"),
    [
        ("vllm_v0_busy.txt", 214440, [200], [200]),
        ("vllm_0.32.0_cpu_live_busy.txt", None, None, None),
        ("vllm_0.33_two_engines.txt", 864440 + 964440, [200, 200], [200, 200]),
        ("ray_vllm.txt", 114440, [200], [200]),
        ("sglang_0.4.6.txt", 531221, [], [300]),
        ("sglang_0.5.4_pp2.txt", 0, [60], []),
        ("sglang_0.5.23.txt", 531221, [], [140, 160]),
        ("sglang_0.5.23_dp2_tp2_priorities.txt", 5000 + 7000, [], []),
        ("tgi_3.txt", 812_000, [4000], []),
        ("trtllm_serve.txt", 51_200, [400], [400]),
        ("vllm_omni_0.30_sdxl.txt", 0, [414], []),
        ("edge_openmetrics.txt", 0, [], [7]),
    ],
)
def test_counters_of_a_page(name, generated, latency, first_token):
    r = page(name)
    if generated is None:  # a live capture under load: any counts, of one engine
        assert len(counts(r.latency)) == len(counts(r.first_token)) == 1
        assert total(r.generated) > 0
        return
    assert (generated, latency, first_token) == (total(r.generated), counts(r.latency), counts(r.first_token))


def test_iterations_of_trtllm_serve_say_the_newest():
    r = read_iterations((PAGES / "trtllm_serve_iterations.json").read_bytes())
    assert said(r) == {
        "vendor": "trtllm-serve", "running": 9, "waiting": 2, "kv_used_ratio": 0.25, "kv_capacity_tokens": 64_000,
        "block_size": 32,
    }  # fmt: skip


@pytest.mark.parametrize("body", [b"[]", b"", b"[1]", b'{"a": 1}', b'[{"numActiveRequests": "x"}]', b"[" * 100_000])
def test_what_is_no_list_of_iterations_says_nothing(body):
    assert read_iterations(body) == Reading()


def test_iteration_of_absurd_counts_is_unknown():
    kv = b'{"maxNumBlocks": 1%s, "usedNumBlocks": 1%s, "tokensPerBlock": 32}' % (b"0" * 18, b"0" * 400)
    r = read_iterations(b'[{"numActiveRequests": 1e300, "kvCacheStats": %s}]' % kv)
    assert (r.running, r.kv_used_ratio, r.kv_capacity_tokens) == (None, None, None)


def test_pinned_engine_reads_its_own_families_alone():
    body = b"vllm:num_requests_running 3\nsglang:num_running_reqs 5\n"
    assert [read(body, BY_NAME[name]).running for name in ("vllm", "sglang", "tgi")] == [3, 5, None]


@pytest.mark.parametrize(
    ("expected", "labels"),
    [
        pytest.param(4 + 5, ('dp_rank="0",tp_rank="0"', 'dp_rank="1",tp_rank="1"'), id="data-parallel-adds"),
        pytest.param(5, ('tp_rank="0"', 'tp_rank="1"'), id="tensor-parallel-repeats"),
        pytest.param(5, ('pp_rank="0"', 'pp_rank="1"'), id="pipeline-parallel-repeats"),
        pytest.param(5, ('moe_ep_rank="0"', 'moe_ep_rank="1"'), id="expert-parallel-repeats"),
        pytest.param(5, ('pid="7"', 'pid="8"'), id="processes-repeat"),
        pytest.param(5, ('priority="1"', 'priority=""'), id="parts-and-their-total"),
        pytest.param(4 + 5, ('priority="1"', 'priority="2"'), id="parts-without-a-total"),
        pytest.param(4 + 5, ('engine_type="prefill"', 'engine_type="decode"'), id="two-engines"),
    ],
)
def test_ranks_of_sglang(expected, labels):
    one, other = labels
    assert (
        read(f"sglang:num_running_reqs{{{one}}} 4\nsglang:num_running_reqs{{{other}}} 5\n".encode()).running == expected
    )


def test_vllm_engines_add_up_and_its_processes_do_not():
    lines = [f'vllm:num_requests_running{{engine="{e}",pid="{p}"}} {e + 1}\n' for e in range(2) for p in range(3)]
    assert read("".join(lines).encode()).running == 1 + 2


def test_engine_that_shows_two_states_of_its_configuration_is_known_by_the_better():
    info = 'vllm:cache_config_info{{engine="{}",block_size="16",num_gpu_blocks="{}"}} 1.0\n'
    both = info.format(0, "None") + info.format(0, 100)
    assert read(both.encode()).kv_capacity_tokens == 1600
    assert read((both + info.format(1, "None")).encode()).kv_capacity_tokens is None


@pytest.mark.parametrize("cut", range(1, 40))
def test_page_cut_anywhere_never_shows_more_than_the_whole(cut):
    body = (PAGES / "vllm_0.33_two_engines.txt").read_bytes()
    part, whole = read(body[: len(body) * cut // 40]), page("vllm_0.33_two_engines.txt")
    assert all(part.latency[key][math.inf] == whole.latency[key][math.inf] for key in part.latency)
    assert part.running in {None, 5, whole.running}


def test_histogram_without_its_last_bucket_is_left_out():
    assert read(b'vllm:e2e_request_latency_seconds_bucket{le="1.0"} 3\n').latency == {}


def test_value_from_an_adapter_list_far_in_the_future_is_dated_by_its_mean():
    line = 'vllm:lora_requests_info{{max_lora="4",running_lora_adapters="{}",waiting_lora_adapters=""}} {}\n'
    body = line.format("newest", NOW - 1) + line.format("summed", 2 * NOW - 60) + line.format("broken", "NaN")
    assert read(body.encode()).loras == ("newest",)


def test_vendors_have_names_of_their_own():
    assert len(BY_NAME) == len(VENDORS)
    assert all(any(name.startswith(v.prefix) for name in WANTED) for v in VENDORS)


def test_file_and_docs_name_every_engine_of_the_table():
    said = next(arg for arg in get_args(EndpointSection.model_fields["engine"].annotation) if arg is not type(None))
    docs = (Path(__file__).parents[2] / "docs/engines.md").read_text()
    assert set(get_args(said)) == set(BY_NAME)
    assert [name for name in BY_NAME if f"`{name}`" not in docs] == []
