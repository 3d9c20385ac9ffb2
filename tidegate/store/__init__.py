"""The meeting point: Redis schema, its adapter, and an in-memory twin.

`ports` states what callers may ask, `schema` draws every key and encodes its values (`fields` has the single
ones), `redis` is the only module that imports redis-py, `memory` is the same contract without a server. No policy
belongs here.
"""
