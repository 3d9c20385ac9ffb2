"""How a stream speaks: requests in, responses out, no I/O and no clock.

`stream.Stream` is one stream of either protocol: it knows the order among types. `sotw` and `delta` hold what a
stream wants of one type, was sent and accepted, each by the rules of its protocol; what they share is in
`verdicts`. Nothing here queues: what is due is computed when it can be written, from the newest snapshot, so that
a client that is slow or silent costs the same memory as any other. `xds_server.server` calls `stream` alone.
"""
