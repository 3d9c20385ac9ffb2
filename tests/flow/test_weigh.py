"""What a request asks of a replica, how it queues, and what is said about it."""

from __future__ import annotations

from typing import Any

import pytest

from ext_proc.flow.explain import explanation
from ext_proc.flow.sample_log import DecisionLog
from ext_proc.flow.tuning import Tuning
from ext_proc.flow.weigh import cost_of, session_of, work_of
from tests.ext_proc.parts import Picker, topology
from tidegate.domain.flow.settings import SessionKey
from tidegate.domain.pick.verdict import Pick, Scored, Verdict
from tidegate.domain.request import Affinity, ImageDemand, Kind, RequestInfo
from tidegate.domain.routing import Api


def info(**fields: Any) -> RequestInfo:
    return RequestInfo(api=Api.CHAT, **fields)


@pytest.mark.parametrize(
    ("fields", "tokens"),
    [({}, 256), ({"max_output_tokens": 9}, 9), ({"max_output_tokens": 9000}, 256), ({"generation": False}, 0)],
)
def test_output_is_what_is_expected_or_its_limit(fields: dict[str, Any], tokens: int) -> None:
    assert work_of(info(**fields), 4.0, 256, None).output_tokens == tokens


def test_characters_become_tokens_and_ids_stay() -> None:
    work = work_of(info(prompt_chars=401, prefix=(7, 8), prefix_chars=(100, 401), num_sequences=3), 4.0, 10, "sql")
    assert (work.prompt_tokens, work.ends, work.marks, work.sequences) == (101, (25, 101), (7, 8), 3)
    assert work.adapter == "sql"
    ids = work_of(info(prompt_tokens=50, prefix=(7,), prefix_chars=(0,), prefix_ids=(50,)), 4.0, 10, None)
    assert (ids.prompt_tokens, ids.ends) == (50, (50,))


def test_a_picture_costs_pixels_times_steps() -> None:
    picture = info(kind=Kind.IMAGE, generation=False, image=ImageDemand(512, 512, 20, 2))
    assert work_of(picture, 4.0, 256, None).pixel_steps == 512 * 512 * 20 * 2
    unsaid = info(kind=Kind.IMAGE, generation=False, image=ImageDemand())
    assert work_of(unsaid, 4.0, 256, None).pixel_steps == 1024 * 1024 * 30


def test_every_request_costs_something() -> None:
    assert cost_of(work_of(info(generation=False), 4.0, 0, None)) == 1.0


@pytest.mark.parametrize(
    ("key", "session"),
    [
        (SessionKey.AUTO, "s"),
        (SessionKey.SESSION_ID, "s"),
        (SessionKey.PROMPT_CACHE_KEY, None),
        (SessionKey.USER, "u"),
    ],
)
def test_a_session_is_what_the_setting_says(key: SessionKey, session: str | None) -> None:
    assert session_of(info(user="u", affinity=Affinity(session_id="s")), key) == session


CHOSEN = Pick(
    Verdict.CHOSEN,
    (
        Scored("10.0.0.5:8000", "10.0.0.5:8000", 0.31, {"wait": 0.21, "prefill": 0.1}),
        Scored("10.0.0.6:8000", "10.0.0.6:8000", 0.44, {"wait": 0.4, "prefill": 0.04}),
    ),
)


def test_an_explanation_names_both_replicas_their_costs_and_the_wait() -> None:
    assert explanation(CHOSEN, 50) == (
        "10.0.0.5:8000 cost=0.31 wait=0.21 prefill=0.1; 10.0.0.6:8000 cost=0.44 wait=0.4 prefill=0.04; waited=0.05"
    )
    assert explanation(Pick(Verdict.UNKNOWN), 0) == "unknown; waited=0"


class Lines:
    def __init__(self) -> None:
        self.said: list[dict[str, Any]] = []

    def info(self, event: str, **fields: Any) -> None:
        self.said.append({"event": event, **fields})


def test_a_part_of_the_decisions_is_logged() -> None:
    log = DecisionLog(Lines(), 0.25)
    assert [log.due() for _ in range(8)] == [False, False, False, True] * 2


def test_only_who_asks_is_told_and_only_where_the_file_allows_it() -> None:
    asks = {"request.headers['x-tidegate-explain']": "1"}
    for allowed, asked, told in ((True, True, True), (True, False, False), (False, True, False)):
        picker = Picker(topology(1), explain=allowed)
        picker.sample("10.0.0.1:8000")
        metadata = picker.answer(b'{"model": "phi-3"}', **(asks if asked else {})).metadata
        assert ("explain" in metadata["tidegate"]) is told


def test_tunes_of_a_cluster_win_and_are_in_force_at_once() -> None:
    picker = Picker()
    tuning = Tuning(picker.view, picker.gates)
    tuning.apply({"": {"queue.timeout_ms": "5000", "fit.safety": "2"}, "phi-3": {"queue.timeout_ms": "7000"}})
    assert [picker.gates.of(name).settings.timeout_ms for name in ("phi-3", "qwen")] == [7000, 5000]
    assert picker.view.cluster("phi-3").picker.settings.fit_safety == 2
    tuning.apply({"phi-3": {"queue.timeout_ms": "soon"}})
    assert picker.gates.of("phi-3").settings.timeout_ms == 7000
    tuning.apply({})
    assert picker.gates.of("phi-3").settings.timeout_ms == 30_000
