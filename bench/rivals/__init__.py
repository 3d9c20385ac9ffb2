"""Tidegate beside routers that people use instead: the same engines, bodies and load, in one run, by turns.

`install` puts a router into an environment of its own, `contenders` says how each is started, `measure` loads them,
`verdict` compares the figures with the targets.
"""
