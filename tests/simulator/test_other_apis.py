"""APIs that the openai client does not have."""

from __future__ import annotations

import json

from tests.simulator.conftest import Start, chat


async def test_messages_whole_and_streamed(start_engine: Start) -> None:
    engine = await start_engine()
    body = chat(max_tokens=6, system="be brief")
    whole = (await engine.http.post("/v1/messages", json=body)).json()
    assert (whole["stop_reason"], whole["usage"]["output_tokens"]) == ("max_tokens", 6)
    streamed = await engine.http.post("/v1/messages", json={**body, "stream": True})
    events = [json.loads(line[6:]) for line in streamed.text.splitlines() if line.startswith("data: ")]
    named = [line[7:] for line in streamed.text.splitlines() if line.startswith("event: ")]
    assert named == [event["type"] for event in events]
    assert (named[0], named[-2:]) == ("message_start", ["message_delta", "message_stop"])
    text = "".join(event["delta"]["text"] for event in events if event["type"] == "content_block_delta")
    assert text == whole["content"][0]["text"]


async def test_messages_insist_on_max_tokens_and_counting_does_not(start_engine: Start) -> None:
    engine = await start_engine()
    assert (await engine.http.post("/v1/messages", json=chat())).status_code == 400
    counted = (await engine.http.post("/v1/messages/count_tokens", json=chat())).json()
    answered = (await engine.http.post("/v1/messages", json=chat(max_tokens=1))).json()
    assert counted["input_tokens"] == answered["usage"]["input_tokens"]


async def test_rerank_sorts_and_cuts(start_engine: Start) -> None:
    engine = await start_engine()
    body = {"model": "m", "query": "q", "documents": ["a", "b", "c"], "top_n": 2}
    results = (await engine.http.post("/v1/rerank", json=body)).json()["results"]
    scores = [result["relevance_score"] for result in results]
    assert len(scores) == 2
    assert scores == sorted(scores, reverse=True)


async def test_score_pairs_one_text_with_several(start_engine: Start) -> None:
    engine = await start_engine()
    body = {"model": "m", "text_1": "q", "text_2": ["a", "b"]}
    data = (await engine.http.post("/v1/score", json=body)).json()["data"]
    assert [item["index"] for item in data] == [0, 1]
    uneven = {**body, "text_1": ["q", "r", "s"]}
    assert (await engine.http.post("/v1/score", json=uneven)).status_code == 400


async def test_pooling(start_engine: Start) -> None:
    engine = await start_engine()
    answer = (await engine.http.post("/pooling", json={"model": "m", "input": "x"})).json()
    assert (len(answer["data"][0]["data"]), answer["usage"]["prompt_tokens"]) == (64, 1)


async def test_detokenize_inverts_tokenize(start_engine: Start) -> None:
    engine = await start_engine()
    tokens = (await engine.http.post("/tokenize", json={"model": "m", "prompt": "ebb and flów"})).json()
    assert tokens["count"] == len(tokens["tokens"]) == 4
    text = await engine.http.post("/detokenize", json={"model": "m", "tokens": tokens["tokens"]})
    assert text.json() == {"prompt": "ebb and flów"}


async def test_unknown_paths_and_methods_are_answered_as_fastapi_does(start_engine: Start) -> None:
    engine = await start_engine()
    missing, wrong = await engine.http.post("/v1/nothing"), await engine.http.get("/v1/completions")
    assert (missing.status_code, missing.json()) == (404, {"detail": "Not Found"})
    assert (wrong.status_code, wrong.json()) == (405, {"detail": "Method Not Allowed"})
