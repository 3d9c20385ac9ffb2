"""Reads each request's body, chooses the cluster and, where the cluster says so, the replica; refuses what cannot
be served.

`session` is sans-I/O (bytes in, bytes out), `transport` carries it, `decide` turns a body into an answer on the
`view` of the fleet that `feed` keeps current. `tidegate ext-proc` calls `app`.
"""
