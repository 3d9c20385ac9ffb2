"""What an entry of the access log says about the request's end."""

from __future__ import annotations

from typing import Any

import pytest

from outcomes.entry import outcome_of
from tests.outcomes.entries import entry
from tidegate.domain.outcomes.ending import GATEWAY, Ending
from tidegate.domain.refusal import Reason

LEFT = ("downstream_connection_termination",)

ENDINGS: dict[str, tuple[dict[str, Any], Ending]] = {
    "200": ({}, Ending.SERVED),
    "304": ({"status": 304}, Ending.SERVED),
    "400": ({"status": 400}, Ending.CLIENT_ERROR),
    "422": ({"status": 422}, Ending.CLIENT_ERROR),
    "429 of the engine": ({"status": 429}, Ending.BACK_PRESSURE),
    "503 of the engine": ({"status": 503}, Ending.BACK_PRESSURE),
    "500": ({"status": 500}, Ending.FAULT),
    "504": ({"status": 504}, Ending.FAULT),
    "connection refused": (
        {"status": 503, "details": "upstream_reset_before_response_started{remote_connection_failure}",
         "flags": ("upstream_connection_failure",)},
        Ending.FAULT,
    ),
    "broke off after its head": (
        {"details": "upstream_reset_after_response_started{connection_termination}",
         "flags": ("upstream_connection_termination",)},
        Ending.FAULT,
    ),
    "silent": ({"status": 504, "details": "stream_idle_timeout", "flags": ("stream_idle_timeout",)}, Ending.FAULT),
    "client left before the answer": (
        {"status": 0, "details": "downstream_remote_disconnect", "flags": LEFT}, Ending.LEFT,
    ),
    "client left in the stream": ({"details": "downstream_remote_disconnect", "flags": LEFT}, Ending.LEFT),
    "client of HTTP/2 reset": (
        {"details": "http2.remote_reset", "flags": ("downstream_remote_reset",)}, Ending.LEFT,
    ),
    "client left because the replica broke off": (
        {"details": "downstream_remote_disconnect", "flags": (*LEFT, "upstream_connection_termination")}, Ending.FAULT,
    ),
    "client left while it waited for a place": (
        {"status": 0, "details": "downstream_remote_disconnect", "flags": LEFT, "replica": "", "cluster": ""},
        Ending.LEFT,
    ),
    "refused by ext_proc": (
        {"status": 429, "details": "tidegate_saturated", "replica": "", "cluster": ""}, Ending.REFUSED,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("told", "ending"), ENDINGS.values(), ids=ENDINGS)
def test_whose_doing_an_end_is(told: dict[str, Any], ending: Ending) -> None:
    outcome = outcome_of(entry(**told))
    assert outcome is not None
    assert outcome.ending is ending
    assert bool(outcome.reason) == (ending is Ending.REFUSED)


REFUSED = {
    "ext_proc's own": ({"status": 404, "details": "tidegate_model-not-found"}, Reason.MODEL_NOT_FOUND),
    "held too long": ({"status": 429, "details": "tidegate_queue-timeout"}, Reason.QUEUE_TIMEOUT),
    "no host": ({"status": 503, "details": "no_healthy_upstream", "flags": ("no_healthy_upstream",)}, "no-endpoint"),
    "no ext_proc": ({"status": 503, "details": "direct_response"}, Reason.NO_ENDPOINT),
    "too large": ({"status": 413, "details": "request_payload_too_large"}, Reason.BODY_TOO_LARGE),
    "no such path": ({"status": 404, "details": "direct_response"}, GATEWAY),
}


@pytest.mark.parametrize(("told", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_refusal_has_a_reason_out_of_a_bounded_list(told: dict[str, Any], reason: str) -> None:
    outcome = outcome_of(entry(replica="-", cluster="", **told))
    assert outcome is not None
    assert (outcome.ending, outcome.reason, outcome.replica) == (Ending.REFUSED, reason, "")


def test_a_page_of_the_gateway_is_no_request() -> None:
    assert outcome_of(entry(200, "direct_response", replica="", cluster="")) is None


def test_figures_are_read_as_they_stand() -> None:
    outcome = outcome_of(entry(labels={"model": "phi-3", "class": "batch"}, attempts=3))
    assert outcome is not None
    assert (outcome.cluster, outcome.replica, outcome.attempts) == ("chat", "10.0.0.1:8000", 3)
    assert (outcome.model, outcome.request_class) == ("phi-3", "batch")
    assert (outcome.ttfb_ms, outcome.total_ms, outcome.engine_ms) == (20, 60, 54)
    assert (outcome.received_bytes, outcome.sent_bytes, outcome.status) == (372, 556, 200)


def test_without_ext_proc_the_model_is_what_envoy_read() -> None:
    one = entry()
    one.common_properties.metadata.filter_metadata["tidegate.by_model"].update({"model": "phi-3"})
    outcome = outcome_of(one)
    assert outcome is not None
    assert (outcome.model, outcome.request_class) == ("phi-3", "")


def test_a_time_that_was_not_reached_is_unknown() -> None:
    one = entry(0, "downstream_remote_disconnect", flags=LEFT)
    one.common_properties.ClearField("time_to_first_upstream_rx_byte")
    one.common_properties.ClearField("time_to_last_upstream_rx_byte")
    outcome = outcome_of(one)
    assert outcome is not None
    assert (outcome.ttfb_ms, outcome.engine_ms) == (None, None)
