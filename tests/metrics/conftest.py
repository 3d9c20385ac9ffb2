from __future__ import annotations

import asyncio

import pytest

from tidegate.cli.metrics.registries import Found, found


@pytest.fixture(scope="package")
def services() -> Found:
    """Every family of every service, as its own app registers it."""
    return asyncio.run(found())
