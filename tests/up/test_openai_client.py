"""The official openai client works against the gateway."""

from __future__ import annotations

import httpx
import openai
import pytest

from tests.up.cluster import Up


@pytest.fixture
def client(local_cluster: Up):
    with openai.OpenAI(base_url=f"{local_cluster.gateway}/v1", api_key="none", max_retries=0) as client:
        yield client


def test_chat(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model="phi-3", messages=[{"role": "user", "content": "Say hello."}], max_tokens=5
    )
    assert answer.model == "phi-3"
    assert answer.choices[0].message.content
    assert answer.usage.completion_tokens == 5


def test_streamed_chat_with_usage(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model="qwen2.5-72b",
        messages=[{"role": "user", "content": "Count."}],
        max_tokens=6,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    assert chunks[-1].usage.completion_tokens == 6
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)


def test_completions(client: openai.OpenAI) -> None:
    answer = client.completions.create(model="phi-3", prompt="Once", max_tokens=4, n=2)
    assert len(answer.choices) == 2


def test_embeddings(client: openai.OpenAI) -> None:
    answer = client.embeddings.create(model="phi-3", input=["a", "b"])
    assert len(answer.data) == 2
    assert len(answer.data[0].embedding) > 1


def test_images(client: openai.OpenAI) -> None:
    answer = client.images.generate(model="sdxl", prompt="a gate", size="256x256", n=2)
    assert len(answer.data) == 2
    assert answer.data[0].b64_json


def test_the_models_list_has_every_model_of_every_cluster(client: openai.OpenAI) -> None:
    names = {model.id for model in client.models.list()}
    assert names >= {"phi-3", "microsoft/Phi-3-mini-4k-instruct", "qwen2.5-72b", "sdxl"}


def test_an_unknown_model_is_a_not_found_error(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as refused:
        client.chat.completions.create(model="nobody", messages=[{"role": "user", "content": "x"}])
    assert refused.value.response.headers["x-tidegate-reason"] == "model-not-found"
    assert refused.value.body["code"] == "model_not_found"


def test_what_is_no_json_is_a_bad_request(local_cluster: Up) -> None:
    answer = httpx.post(f"{local_cluster.gateway}/v1/chat/completions", content=b"{'model': 'phi-3'}", timeout=60)
    assert answer.status_code == 400
    assert answer.headers["x-tidegate-reason"] == "invalid-json"
    assert answer.json()["error"]["message"]


def test_health_is_200_while_a_cluster_serves(local_cluster: Up) -> None:
    assert httpx.get(f"{local_cluster.gateway}/health", timeout=60).status_code == 200
