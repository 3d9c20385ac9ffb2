"""Tidegate: an Envoy control plane for generative-AI traffic.

Shared code of every service. `domain` is pure, `settings` reads flags and the configuration file, `store` is
the only road to Redis, `telemetry` sets up logs and metrics, `runtime` owns processes' tasks and signals, and
`cli` is the `tidegate` command. Services (`xds_server`, `controller`, `ext_proc`, `metrics_agent`,
`simulator`) are packages of their own and never import one another.
"""
