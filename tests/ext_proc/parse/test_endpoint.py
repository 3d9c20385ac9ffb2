"""Paths as clients write them."""

from __future__ import annotations

import pytest

from ext_proc.parse.endpoint import endpoint_of
from tests.ext_proc.parse.reading import read, refusal
from tidegate.domain.routing import Api

BODY = {"model": "m", "messages": []}


@pytest.mark.parametrize(
    ("api", "path"),
    [
        (Api.CHAT, "/v1/chat/completions"),
        (Api.CHAT, "/v1/chat/completions/"),
        (Api.CHAT, "//v1//chat/completions//?a=b/completions"),
        (Api.CHAT, "/chat/completions#x"),
        (Api.CHAT, "/llm/eu/v1/chat/completions"),
        (Api.CHAT, "/v1/chat%2Fcompletions/../chat/completions"),
        (Api.CHAT, "/v1/ch%61t/completions"),
        (Api.CHAT, "/v1/chat/completions/batch"),
        (Api.COMPLETIONS, "/v1/completions"),
        (Api.COMPLETIONS, "/completions"),
        (Api.COMPLETIONS, "/openai/deployments/m/completions"),
        (Api.COMPLETIONS, "/v1/engines/m/completions"),
        (Api.EMBEDDINGS, "/v1/engines/m/embeddings"),
        (Api.EMBEDDINGS, "/openai/v1/embeddings"),
        (Api.RESPONSES, "/v1/responses?x"),
        (Api.UNKNOWN, "/v1/responses/resp_1/cancel"),
        (Api.MESSAGES, "/v1/messages?beta=true"),
        (Api.MESSAGES, "/anthropic/v1/messages"),
        (Api.COUNT_TOKENS, "/v1/messages/count_tokens"),
        (Api.UNKNOWN, "/v1/threads/t/messages"),
        (Api.IMAGES, "/v1/images/edits"),
        (Api.IMAGES, "/sdapi/v1/img2img"),
        (Api.AUDIO, "/v1/audio/translations"),
        (Api.RERANK, "/v2/rerank"),
        (Api.SCORE, "/score"),
        (Api.POOLING, "/classify"),
        (Api.TOKENIZE, "/tokenize"),
        (Api.DETOKENIZE, "/detokenize"),
        (Api.GENERATE, "/generate"),
        (Api.GENERATE, "/inference/v1/generate"),
        (Api.UNKNOWN, "/"),
        (Api.UNKNOWN, ""),
        (Api.UNKNOWN, "*"),
        (Api.UNKNOWN, "/%ff%fe"),
    ],
)
def test_path_means_an_endpoint(api: Api, path: str) -> None:
    assert api is endpoint_of(path).api


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("gpt-4o", "/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21"),
        ("org/m", "/openai/deployments/org%2Fm/chat/completions/"),
        ("davinci", "/v1/engines/davinci/completions"),
        ("m", "/v1/chat/completions"),
    ],
)
def test_model_in_the_path_wins(model: str, path: str) -> None:
    info = read(BODY, path)
    assert (model, model != "m") == (info.model, info.model_in_path)


@pytest.mark.parametrize("name", ["a%0d%0ab", "%00", "a" * 2000])
def test_model_in_the_path_is_held_to_the_same_rules(name: str) -> None:
    assert refusal(BODY, f"/openai/deployments/{name}/chat/completions") == (400, "invalid-request")
