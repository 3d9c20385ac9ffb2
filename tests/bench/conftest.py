"""Benches run here in pytest's process."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _sigterm_ends_pytest() -> Iterator[None]:
    """A bench lets SIGTERM raise SystemExit from then on, which pytest would take for a test that fails."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)
