"""The official openai client is content with every API."""

from __future__ import annotations

import base64
import struct

import openai
import pytest

from tests.simulator.conftest import Start, chat

HELLO = [{"role": "user", "content": "hello"}]


async def test_chat(start_engine: Start) -> None:
    client = (await start_engine()).openai
    answer = await client.chat.completions.create(model="m", messages=HELLO, max_tokens=7, n=2)
    assert [choice.finish_reason for choice in answer.choices] == ["length", "length"]
    assert len(answer.choices[0].message.content.split()) == 7
    assert answer.usage.completion_tokens == 14
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 14


async def test_streamed_chat_with_usage_says_what_the_whole_answer_says(start_engine: Start) -> None:
    client = (await start_engine()).openai
    asked = {"model": "m", "messages": HELLO, "max_completion_tokens": 40, "n": 2}
    whole = await client.chat.completions.create(**asked)
    stream = await client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    texts, finishes, usage = ["", ""], {}, None
    async for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            finishes[choice.index] = choice.finish_reason or finishes.get(choice.index)
    assert texts == [choice.message.content for choice in whole.choices]
    assert finishes == {0: "length", 1: "length"}
    assert (usage.prompt_tokens, usage.completion_tokens) == (whole.usage.prompt_tokens, 80)


async def test_without_a_limit_the_answer_ends_by_itself(start_engine: Start) -> None:
    client = (await start_engine()).openai
    answer = await client.chat.completions.create(model="m", messages=HELLO)
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.completion_tokens == len(answer.choices[0].message.content.split())


async def test_the_same_seed_gives_the_same_answers(start_engine: Start) -> None:
    answers = []
    for seed in (1, 1, 2):
        client = (await start_engine(seed=seed)).openai
        answer = await client.chat.completions.create(model="m", messages=HELLO)
        answers.append(answer.choices[0].message.content)
    assert answers[0] == answers[1] != answers[2]


async def test_completions_of_texts_and_token_ids(start_engine: Start) -> None:
    client = (await start_engine()).openai
    texts = await client.completions.create(model="m", prompt=["one", "two"], n=2, echo=True)
    assert [choice.text[:3] for choice in texts.choices] == ["one", "one", "two", "two"]
    assert [choice.index for choice in texts.choices] == [0, 1, 2, 3]
    assert texts.usage.completion_tokens == 64  # 16 each, unless told otherwise
    ids = await client.completions.create(model="m", prompt=[[1, 2, 3], [4, 5]], max_tokens=2)
    assert ids.usage.prompt_tokens == 5


async def test_streamed_completions(start_engine: Start) -> None:
    client = (await start_engine()).openai
    chunks = [c async for c in await client.completions.create(model="m", prompt="one", stream=True)]
    assert len("".join(c.choices[0].text for c in chunks).split()) == 16
    assert [c.choices[0].finish_reason for c in chunks[-1:]] == ["length"]


async def test_embeddings_are_the_same_in_both_encodings(start_engine: Start) -> None:
    client = (await start_engine()).openai
    packed = await client.embeddings.create(model="m", input=["a", "b"])  # the client asks for base64
    plain = await client.embeddings.create(model="m", input=["a", "b"], encoding_format="float", dimensions=8)
    raw = await client.embeddings.with_raw_response.create(model="m", input="a", encoding_format="base64")
    vectors = [item.embedding for item in packed.data]
    assert [len(vector) for vector in vectors] == [64, 64]
    assert [vector[:8] for vector in vectors] == [item.embedding for item in plain.data]
    assert vectors[0] != vectors[1]
    data = base64.b64decode(raw.http_response.json()["data"][0]["embedding"])
    assert list(struct.unpack("<64f", data)) == vectors[0]


async def test_responses_whole_and_streamed(start_engine: Start) -> None:
    client = (await start_engine()).openai
    whole = await client.responses.create(model="m", input="hello", max_output_tokens=5)
    async with client.responses.stream(model="m", input="hello", max_output_tokens=5) as stream:
        kinds = [event.type async for event in stream]
        streamed = await stream.get_final_response()
    assert (whole.status, whole.usage.output_tokens) == ("incomplete", 5)
    assert streamed.output_text == whole.output_text
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")


async def test_models_lists_every_served_name(start_engine: Start) -> None:
    client = (await start_engine(model=["a", "b"])).openai
    assert [model.id async for model in client.models.list()] == ["a", "b"]


async def test_unknown_models_are_answered_404_as_vllm_does(start_engine: Start) -> None:
    client = (await start_engine()).openai
    with pytest.raises(openai.NotFoundError) as error:
        await client.chat.completions.create(model="other", messages=HELLO)
    assert error.value.body == {
        "message": "The model `other` does not exist.",
        "type": "NotFoundError",
        "param": "model",
        "code": 404,
    }


async def test_images_are_png_files_of_the_size_asked_for(start_engine: Start) -> None:
    client = (await start_engine(kind="diffusion")).openai
    answer = await client.images.generate(model="m", prompt="a tide", n=2, size="512x256")
    files = [base64.b64decode(image.b64_json) for image in answer.data]
    assert len(set(files)) == 2
    for file in files:
        assert file[:8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack(">II", file[16:24]) == (512, 256)


async def test_sound_in_and_out(start_engine: Start) -> None:
    client = (await start_engine()).openai
    speech = await client.audio.speech.create(model="m", input="hello", voice="alloy", response_format="wav")
    assert speech.content[:4] == b"RIFF"
    text = await client.audio.transcriptions.create(model="m", file=("a.wav", speech.content))
    assert text.text.endswith(".")


async def test_a_conversation_reuses_its_prompt_and_its_answer(start_engine: Start) -> None:
    client = (await start_engine()).openai
    first = await client.chat.completions.create(model="m", messages=HELLO, max_tokens=64)
    turns = [
        *HELLO,
        {"role": "assistant", "content": first.choices[0].message.content},
        {"role": "user", "content": "and then?"},
    ]
    second = await client.chat.completions.create(model="m", messages=turns, max_tokens=1)
    known = first.usage.prompt_tokens + 63  # the last token was never computed
    assert second.usage.prompt_tokens_details.cached_tokens == known // 16 * 16


@pytest.mark.parametrize(
    "body",
    [
        chat(max_tokens=-1),
        chat(max_tokens="5"),
        chat(n=0),
        chat(max_tokens=9000),
        chat("x" * 40_000),
        chat(stream_options={"include_usage": True}),
        {"model": "m", "messages": []},
        {"model": "m"},
        [],
    ],
    ids=["negative", "text", "no choices", "limit", "prompt", "no stream", "empty", "missing", "list"],
)
async def test_bad_bodies_are_answered_400(start_engine: Start, body: object) -> None:
    engine = await start_engine()
    answer = await engine.http.post("/v1/chat/completions", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, 400)
