"""Engines that serve https, through a real Envoy."""

from __future__ import annotations

import pytest

from tests.tls.world import World

pytestmark = [pytest.mark.envoy, pytest.mark.redis]


@pytest.mark.parametrize("model", ["https", "mutual"])
def test_an_https_engine_answers(world: World, model: str) -> None:
    before = world.engines[model].requests
    assert world.post(model).status_code == 200
    assert world.engines[model].requests == before + 1


@pytest.mark.parametrize("model", ["misnamed", "mistrusted", "unencrypted", "unknown"])
def test_an_engine_that_cannot_be_trusted_gets_no_request(world: World, model: str) -> None:
    """Of another name, of another authority, without TLS, and one that wants a certificate and gets none."""
    assert world.post(model).status_code == 503
    assert world.engines[model].requests == 0
