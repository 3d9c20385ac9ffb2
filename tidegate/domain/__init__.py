"""Pure rules: frozen values in, values out.

Belongs here: what a cluster, a sample, a weight, a pick is, and every formula about them. May not be here: a
clock, I/O, logging or randomness that is not passed in; any import of grpc, redis, pynvml, prometheus_client or
envoy. Every service and the CLI call it.
"""
