"""The debug page: what was read, never a prompt, and only where it is asked for."""

from __future__ import annotations

import json

import httpx
from prometheus_client import CollectorRegistry

from ext_proc.recent import KEPT
from tests.ext_proc.parts import Picker
from tidegate.telemetry import MetricsPage

CHAT = {"request.path": "/v1/chat/completions"}


def body(**fields: object) -> bytes:
    return json.dumps({"model": "phi-3", "messages": [{"role": "user", "content": "a secret"}], **fields}).encode()


def test_counts_are_told_and_prompts_are_not() -> None:
    picker = Picker()
    picker.answer(body(cache_salt="pepper", user="u"), **CHAT)
    [last] = picker.recent.last(5)
    assert (last["cluster"], last["refused"], last["path"]) == ("phi-3", None, CHAT["request.path"])
    assert (last["request"]["prompt_chars"], last["request"]["user"]) == (8, "u")
    assert last["request"]["affinity"]["cache_salt"] is True
    assert "secret" not in json.dumps(last)
    assert "pepper" not in json.dumps(last)


def test_a_refusal_says_why_and_what_was_read_before_it() -> None:
    picker = Picker()
    picker.answer(b"{", **CHAT)
    picker.answer(body(model="gpt-9"), **CHAT)
    unread, unknown = picker.recent.last(2)
    assert (unread["request"], unread["refused"]["reason"]) == (None, "invalid-json")
    assert (unknown["request"]["model"], unknown["refused"]["reason"]) == ("gpt-9", "model-not-found")


def test_the_oldest_are_forgotten() -> None:
    picker = Picker()
    for number in range(KEPT + 3):
        picker.answer(body(max_tokens=number + 1), **CHAT)
    kept = picker.recent.last(KEPT + 100)
    assert [kept[0]["request"]["max_output_tokens"], len(kept)] == [4, KEPT]
    assert picker.recent.last(0) == []


async def test_the_page_answers_with_json_whatever_clients_sent() -> None:
    picker = Picker()
    picker.answer(body(user="\ud800", session_id="é"), **CHAT)
    page = MetricsPage(CollectorRegistry(), lambda: None, {"/debug/last": picker.recent.last})
    bound = await page.start("127.0.0.1:0")
    try:
        async with httpx.AsyncClient(timeout=60) as client:
            [last] = (await client.get(f"http://{bound}/debug/last?n=9")).json()
            refused = await client.get(f"http://{bound}/debug/last?n=-1")
    finally:
        await page.stop()
    assert last["request"]["affinity"]["session_id"] == "é"
    assert refused.status_code == 400


async def test_without_the_setting_there_is_no_page() -> None:
    page = MetricsPage(CollectorRegistry(), lambda: None)
    bound = await page.start("127.0.0.1:0")
    try:
        async with httpx.AsyncClient(timeout=60) as client:
            assert (await client.get(f"http://{bound}/debug/last")).status_code == 404
    finally:
        await page.stop()
