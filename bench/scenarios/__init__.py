"""What is measured: one scenario a file, one line here."""

from __future__ import annotations

from bench.scenario import Scenario
from bench.scenarios.direct import Direct
from bench.scenarios.plain_envoy import PlainEnvoy
from bench.scenarios.tidegate_pick import TidegatePick

SCENARIOS: tuple[Scenario, ...] = (
    Direct(),
    PlainEnvoy(),
    TidegatePick(),
)
