"""Generated tokens and the requests that they belong to, by engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from metrics_agent.scrape.reading import read_page

PAGES = Path(__file__).parent / "pages"


@pytest.mark.parametrize(
    ("page", "generated", "finished"),
    [
        ("vllm_v0_busy.txt", 214_440, 188 + 9 + 3),
        ("vllm_0.32_idle.txt", 5, 1),
        ("vllm_0.33_two_engines.txt", 1_828_880, 400),
        ("ray_vllm.txt", 114_440, 200),
        ("sglang_0.5.23.txt", 531_221, 4102),
        ("tgi_3.txt", 812_000, 4000),
        ("trtllm_serve.txt", 51_200, 380 + 20),
        ("triton_trtllm.txt", None, None),
        ("vllm_omni_two_stages.txt", None, None),
    ],
)
def test_page_tells_how_many_tokens_the_finished_requests_took(
    page: str, generated: int | None, finished: int | None
) -> None:
    reading = read_page((PAGES / page).read_bytes(), 1.7e9)
    assert (reading.generated_tokens, reading.finished) == (generated, finished)


def test_tokens_alone_say_nothing() -> None:
    reading = read_page(b"vllm:num_requests_running 1\nvllm:generation_tokens_total 9\n", 1.7e9)
    assert (reading.generated_tokens, reading.finished) == (None, None)
