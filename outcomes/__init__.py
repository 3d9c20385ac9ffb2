"""The access log service: Envoy tells how each request ended; this counts, and shares what it counted.

`app` wires, `server` speaks gRPC, `entry` reads one entry, `book` counts, `page` is the metrics page. What the counts
mean is in `tidegate.domain.outcomes`; nothing here is on the path of a request.
"""
