"""Reads a request's body into a `RequestInfo`, once, and only the fields that routing needs.

Anything about the bytes and the JSON of a request belongs here; which cluster or replica serves it does not.
Raises Refusal and nothing else. `ext_proc.session` calls `parse_body`.
"""
