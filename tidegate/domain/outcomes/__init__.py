"""How requests ended, as the gateway saw it: endings, sketches, windows, service-level objectives. Pure.

The outcomes service fills these from Envoy's access log; controller, status and whoever judges a version read what
it shared. No gRPC, no Redis, no clock of its own.
"""
