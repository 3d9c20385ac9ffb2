"""Whatever is pushed, refused and lost in whatever order of delivery: an Envoy ends with the snapshot.

And on the way it never routes into nothing.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.xds.model_envoy import Envoy, World, snapshot
from xds_server.subscription.protocols import DELTA, SOTW, Protocol
from xds_server.type_urls import CLUSTER, ENDPOINT, LISTENER, ROUTE

NAMES = ("a", "b", "c")
FRESH = 9
worlds = st.dictionaries(st.sampled_from(NAMES), st.tuples(st.integers(1, 3), st.integers(1, 3)))
steps = st.sampled_from(["server", "client", "server", "client", "settle"])
MOST = 40
protocols = pytest.mark.parametrize("protocol", [SOTW, DELTA], ids=["sotw", "delta"])


def act(envoy: Envoy, action: Any) -> None:
    if isinstance(action, dict):
        envoy.publish(action)
    elif action == "refuse":
        envoy.refuses = True
    elif action == "reconnect":
        envoy.connect()
    elif action == "settle":
        envoy.settle()
    else:
        envoy.step(server=action == "server")


def assert_holds(envoy: Envoy, world: World) -> None:
    served = snapshot(world)
    for type_url in (CLUSTER, LISTENER, ROUTE):
        assert envoy.held[type_url].keys() == served.resources(type_url).keys()
    for name in world:
        for type_url in (CLUSTER, ENDPOINT):
            held = envoy.held[type_url][name].SerializeToString(deterministic=True)
            assert held == served.resources(type_url)[name].body.value
    assert envoy.warm >= set(world)
    assert not envoy.unanswered
    assert envoy.stream.status(0).oldest_unacked_ms is None


@protocols
@settings(max_examples=60)
@given(
    first=worlds,
    actions=st.lists(st.one_of(steps, steps, steps, st.just("reconnect"), worlds), min_size=MOST, max_size=MOST),
)
def test_after_quiet_the_client_holds_the_snapshot(protocol: Protocol, first: World, actions: list[Any]) -> None:
    envoy = Envoy(protocol, first)
    for action in actions:
        act(envoy, action)
    envoy.settle()
    assert_holds(envoy, envoy.world)


@protocols
@settings(max_examples=60)
@given(
    first=worlds,
    actions=st.lists(
        st.one_of(steps, steps, steps, st.sampled_from(["refuse", "reconnect"]), worlds), min_size=MOST, max_size=MOST
    ),
    last=st.sets(st.sampled_from(NAMES)),
)
def test_refusals_cost_nothing_once_the_content_is_another(
    protocol: Protocol, first: World, actions: list[Any], last: set[str]
) -> None:
    envoy = Envoy(protocol, first)
    envoy.safe = False
    for action in actions:
        act(envoy, action)
        envoy.safe = False
    envoy.refuses = False
    envoy.settle()
    envoy.publish(dict.fromkeys(last | {"d"}, (FRESH, FRESH)))
    envoy.settle()
    assert_holds(envoy, envoy.world)
