"""The meeting point: Redis schema, its adapter, and an in-memory twin.

`ports` states what callers may ask, `schema` draws every key and encodes its values (`fields` has the single
ones), `redis` keeps to it by `redis_connection`, the only module that imports redis-py, and `memory` without a server.
No policy belongs here.
"""
