"""Prints docs/metrics.md."""

from __future__ import annotations

import asyncio
import sys

from tidegate.cli.metrics.page import metrics_page
from tidegate.cli.metrics.registries import found
from tidegate.telemetry import configure_logs

configure_logs("error", "console")
sys.stdout.write(metrics_page(asyncio.run(found())))
