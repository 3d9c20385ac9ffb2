"""Where xds is told that Envoy finds ext_proc."""

from __future__ import annotations

import pytest

from tidegate.domain.topology import split_ports


@pytest.mark.parametrize(
    ("text", "ports"),
    [
        ("127.0.0.1:18001", ("127.0.0.1", 18001, 18001)),
        ("127.0.0.1:18002-18005", ("127.0.0.1", 18002, 18005)),
        ("[::1]:7-7", ("::1", 7, 7)),
        ("ext-proc.local:18001", ("ext-proc.local", 18001, 18001)),
        ("ext-proc:18001-18002", ("ext-proc", 18001, 18002)),
    ],
)
def test_one_port_or_several(text: str, ports: tuple[str, int, int]) -> None:
    assert split_ports(text) == ports


@pytest.mark.parametrize("text", ["a:5-4", "a:5-", "a:-5", "a:0-5", "a:5-65536", "a-5", "a:5-6-7", "a:5-x", "ext-proc"])
def test_what_is_neither_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="port"):
        split_ports(text)
