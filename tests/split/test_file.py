"""Splits, shadows and headers that steer in the configuration file: both forms, and every fault by its line."""

from __future__ import annotations

import pytest

from tidegate.domain.errors import ConfigError
from tidegate.domain.routing import Shadow, Split
from tidegate.settings.config_file import FileConfig, parse

SMALL = "clusters:\n- {name: a, models: [m]}\n- {name: b, models: []}\n"


def read(more: str) -> FileConfig:
    return parse(SMALL + more, "t.yaml")


def test_the_short_form_has_shares_alone_in_the_order_of_the_file() -> None:
    assert read("splits: {m: {b: 10, a: 990}}\n").topology.splits == (Split("m", (("b", 10), ("a", 990))),)


def test_the_long_form_names_canaries_and_a_salt() -> None:
    one = read("splits: {m: {parts: {a: 990, b: 10}, canary: b, salt: next}}\n").topology.splits
    several = read("splits: {m: {parts: {a: 990, b: 10}, canary: [b, a]}}\n").topology.splits
    assert one == (Split("m", (("a", 990), ("b", 10)), ("b",), "next"),)
    assert several == (Split("m", (("a", 990), ("b", 10)), ("b", "a")),)


def test_a_cluster_may_be_called_parts() -> None:
    text = "clusters: [{name: parts, models: [m]}]\nsplits: {m: {parts: 1000}}\n"
    assert parse(text, "t.yaml").topology.splits == (Split("m", (("parts", 1000),)),)


def test_shadows_rules_with_a_share_and_headers_are_read() -> None:
    more = "shadows: {m: {b: 5}}\nroutes: [{match: {model: m}, cluster: b, share: 7}]\n"
    more += "gateway: {user_header: X-User, version_header: false, strip_headers: [X-A, x-a, X-B]}\n"
    file = read(more)
    assert file.topology.shadows == (Shadow("m", (("b", 5),)),)
    assert file.topology.routes[0].share_permille == 7
    assert (file.gateway.user_header, file.gateway.version_header) == ("x-user", False)
    assert file.gateway.strip_headers == ("x-a", "x-b")


FAULTS = {
    "sum": (
        "splits:\n  m:\n    parts: {a: 1, b: 2}\n",
        "6: splits.m.parts: its parts sum to 3; they have to sum to 1000",
    ),
    "cluster": ("splits:\n  m:\n    parts: {c: 1000}\n", "6: splits.m.parts.c: there is no cluster 'c'; known: a, b"),
    "canary": (
        "splits:\n  m:\n    parts: {a: 1000}\n    canary: b\n",
        "7: splits.m.canary: 'b' is none of the parts; known: a",
    ),
    "key": (
        "splits:\n  m:\n    parts: {a: 1000}\n    canari: a\n",
        "7: splits.m.canari: unknown key; did you mean 'canary'?",
    ),
    "text": (
        "splits:\n  m:\n    parts: {a: all}\n",
        "6: splits.m.parts.a: the text 'all' where a whole number belongs; write it without quotes",
    ),
    "alias": (
        "aliases: {x: m}\nsplits:\n  x: {a: 1000}\n",
        "6: splits.x: 'x' is an alias; split 'm', which it stands for",
    ),
    "share": (
        "routes:\n- {match: {model: m}, cluster: b, share: 1001}\n",
        "5: routes[0].share: 1001 is too large; it has to be 1000 or less",
    ),
    "shadow of nothing": ("shadows:\n  q: {b: 1}\n", "5: shadows.q: nothing has the model 'q'; known: m"),
    "shadow nowhere": ("shadows:\n  m: {c: 1}\n", "5: shadows.m.c: there is no cluster 'c'; known: a, b"),
    "shadow of itself": (
        "shadows:\n  m: {a: 1}\n",
        "5: shadows.m.a: 'a' serves 'm' itself; a shadow is another cluster",
    ),
    "framing header": (
        "gateway:\n  strip_headers: [Content-Length]\n",
        "5: gateway.strip_headers[0]: 'Content-Length' says how a request is read; it cannot be removed",
    ),
}


@pytest.mark.parametrize(("more", "expected"), FAULTS.values(), ids=FAULTS)
def test_each_fault_is_said_with_its_line(more: str, expected: str) -> None:
    with pytest.raises(ConfigError) as told:
        read(more)
    assert str(told.value).splitlines() == [f"t.yaml:{expected}"]
