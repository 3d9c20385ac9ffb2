"""Names and rules → cluster, and the replicas that have an adapter."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ext_proc.route import Routed, Routes
from tests.ext_proc.parts import NOW, Picker, sample
from tidegate.domain.refusal import Reason, Refusal
from tidegate.domain.request import RequestInfo
from tidegate.domain.routing import Api, RouteMatch, RouteRule, TokenRange
from tidegate.domain.topology import Cluster, Endpoint, LbPolicy, Topology

BASE = Cluster(
    "base", ("phi", "phi-long-name"), loras=("sql",), endpoints=tuple(Endpoint(f"10.0.0.{n}:1") for n in (1, 2, 3))
)
LONG = Cluster("long", ())
ALIASES = (("gpt", "phi"), ("auto", "phi"), ("adapter", "sql"))
RULES = (
    RouteRule(RouteMatch(model="phi", prompt_tokens=TokenRange(101)), "long"),
    RouteRule(RouteMatch(model="auto"), "long", "phi-big"),
    RouteRule(RouteMatch(headers=(("x-a", "1"),)), "long", "phi"),
)
TOPOLOGY = Topology((BASE, LONG), routes=RULES, aliases=ALIASES)


def route(topology: Topology, model: str | None, *, chars: int = 0, ratio: float = 4.0, **headers: str) -> Routed:
    known = {name.replace("_", "-"): value for name, value in headers.items()}
    routes = Routes(topology, {"loaded": "long"}.get, lambda _: ratio)
    return routes.route(RequestInfo(api=Api.CHAT, model=model, prompt_chars=chars), known.get)


@pytest.mark.parametrize(
    ("expected", "model", "more"),
    [
        (Routed("base"), "phi", {}),
        (Routed("base", None, "sql"), "sql", {}),
        (Routed("base", "phi"), "gpt", {}),
        (Routed("base", "sql", "sql"), "adapter", {}),
        (Routed("long", None, "loaded"), "loaded", {}),
        (Routed("base"), "phi", {"chars": 400}),
        (Routed("long"), "phi", {"chars": 401}),
        (Routed("base"), "phi", {"chars": 401, "ratio": 5.0}),
        (Routed("long", "phi"), "gpt", {"chars": 401}),
        (Routed("long", "phi-big", "phi-big"), "auto", {}),
        (Routed("long", "phi"), "auto", {"chars": 401}),
        (Routed("long", "phi"), "nobody", {"x_a": "1"}),
        (Routed("long", "phi"), None, {"x_a": "1"}),
        (Routed("long"), "phi", {"x_a": "1"}),
        (Routed("base"), "phi", {"x_a": "2"}),
    ],
)
def test_a_request_goes_where_the_file_says(expected: Routed, model: str | None, more: dict[str, Any]) -> None:
    assert route(TOPOLOGY, model, **more) == expected


def test_the_file_s_names_win_over_what_engines_list() -> None:
    listed = Routes(TOPOLOGY, lambda _: "long")
    assert listed.route(RequestInfo(api=Api.CHAT, model="phi"), {}.get).cluster == "base"


def test_a_default_may_be_an_alias() -> None:
    topology = Topology((BASE, LONG), default_model="gpt", aliases=ALIASES)
    assert route(topology, None) == Routed("base", "phi")
    assert route(Topology((BASE, LONG), default_model="phi"), None) == Routed("base")


@pytest.mark.parametrize(
    ("reason", "model"),
    [(Reason.MODEL_REQUIRED, None), (Reason.MODEL_NOT_FOUND, "x"), (Reason.INVALID_REQUEST, "\ue000")],
)
def test_without_a_cluster_it_is_refused(reason: Reason, model: str | None) -> None:
    with pytest.raises(Refusal) as refused:
        route(TOPOLOGY, model)
    assert refused.value.reason is reason
    assert refused.value.param == "model"


@pytest.fixture
def picker() -> Picker:
    picker = Picker(Topology((BASE, Cluster("shares", ("w",), lb=LbPolicy.WEIGHTED))))
    for number in (1, 2, 3):
        names = ("phi", "sql", "loaded") if number == 2 else ("phi",)
        picker.view.sampled([sample_of(number, models=names)], NOW)
    return picker


def sample_of(number: int, **fields: Any) -> Any:
    return sample(f"10.0.0.{number}:1", cluster="base", **fields)


def test_replicas_that_list_an_adapter_are_preferred(picker: Picker) -> None:
    assert len(picker.ask("phi").destinations) == 2
    assert picker.ask("sql").destinations == ["10.0.0.2:1"]
    assert picker.ask("loaded").destinations == ["10.0.0.2:1"]


def test_where_no_replica_with_the_adapter_can_serve_the_others_are_tried(picker: Picker) -> None:
    picker.view.weighted({"base": {"10.0.0.1:1": 5, "10.0.0.2:1": 0, "10.0.0.3:1": 5}})
    assert set(picker.ask("sql").destinations) == {"10.0.0.1:1", "10.0.0.3:1"}


def test_what_an_engine_lists_stays_while_it_is_silent_and_goes_with_it(picker: Picker) -> None:
    picker.view.sampled([sample_of(2, at_ms=NOW + 1)], NOW + 1)
    assert picker.ask("loaded").cluster == "base"
    picker.view.sampled([sample_of(2, at_ms=NOW + 2, models=("phi",))], NOW + 2)
    assert picker.ask("loaded").status == 404


def test_a_replica_that_registered_lists_names_until_it_is_dropped(picker: Picker) -> None:
    new = sample_of(9, models=("phi", "brought"))
    picker.view.sampled([new], NOW)
    assert picker.ask("brought").destinations == ["10.0.0.9:1"]
    picker.view.registered([], NOW + 60_000)
    assert picker.ask("brought").status == 404


def test_a_rewritten_answer_carries_the_body_and_where_it_goes() -> None:
    picker = Picker(Topology((BASE,), aliases=ALIASES))
    body = json.dumps({"model": "gpt", "messages": [{"role": "user", "content": "x"}]}).encode()
    answer = picker.answer(body, **{"request.path": "/v1/chat/completions"})
    mutated = answer.response.request_body.response.body_mutation.body
    assert (answer.cluster, json.loads(mutated)["model"]) == ("base", "phi")
    assert picker.recent.last(1)[0]["written_model"] == "phi"
