"""The example files are sound, and do what their comments say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ext_proc.parse.request import parse_request
from ext_proc.route import Routes
from tidegate.domain.request import RequestInfo
from tidegate.settings.config_file import load

EXAMPLES = Path(__file__).parents[2] / "examples"
HOT_COLD = load(EXAMPLES / "hot-cold.yaml").topology
PICTURE = [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": "https://a.test/b.png"}}]


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.yaml")), ids=lambda file: file.name)
def test_the_example_is_sound(file: Path) -> None:
    load(file)


def chat(model: str | None, content: Any = "Hello.", **more: Any) -> RequestInfo:
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": content}], **more}).encode()
    return parse_request(
        body, path="/v1/chat/completions", content_type="application/json", content_encoding=None, max_bytes=1 << 20
    )


LONG = "word " * 20_000
MIDDLE = "word " * 4_000


@pytest.mark.parametrize(
    ("cluster", "written", "info", "headers"),
    [
        ("qwen-short", None, chat("qwen2.5-72b"), {}),
        ("qwen-short", None, chat("qwen2.5-72b", MIDDLE), {}),
        ("qwen-long", None, chat("qwen2.5-72b", LONG), {}),
        ("qwen-short", None, chat("qwen2.5-72b", max_tokens=8000), {}),
        ("qwen-long", None, chat("qwen2.5-72b", max_tokens=8000), {"x-job": "batch"}),
        ("qwen-long", None, chat("qwen2.5-72b"), {"x-job": "batch"}),
        ("qwen-short", None, chat("qwen2.5-72b", max_tokens=800), {"x-job": "batch"}),
        ("qwen-short", "qwen2.5-72b", chat("gpt-4o"), {}),
        ("qwen-long", "qwen2.5-72b", chat("gpt-4o", LONG), {}),
        ("phi-hot", "phi-3", chat("gpt-4o-mini"), {}),
        ("phi-hot", None, chat("phi-3-sql"), {}),
        ("phi-hot", "phi-3", chat("auto", max_tokens=200), {}),
        ("qwen-short", "qwen2.5-72b", chat("auto"), {}),
        ("qwen-short", "qwen2.5-72b", chat("auto", MIDDLE, max_tokens=200), {}),
        ("qwen-long", "qwen2.5-72b", chat("auto", LONG, max_tokens=200), {}),
        ("eyes-cold", "qwen2.5-vl-7b", chat("auto", PICTURE), {}),
        ("phi-hot", "phi-3", chat("qwen2.5-72b"), {"x-tier": "free"}),
        ("qwen-long", None, chat("qwen2.5-72b", LONG), {"x-tier": "free"}),
        ("phi-hot", None, chat(None), {}),
    ],
)
def test_hot_and_cold_are_kept_apart(
    cluster: str, written: str | None, info: RequestInfo, headers: dict[str, str]
) -> None:
    routed = Routes(HOT_COLD).route(info, headers.get)
    assert (routed.cluster, routed.write_model) == (cluster, written)
